"""What only the rows prove: the decimal sign, the order of day and month, whose account a column is, the sign."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, cast

from payrec.errors import UnreadableFileError
from payrec.formats.base import DateOrder
from payrec.formats.csv.columns import Columns
from payrec.formats.csv.dates import date_evidence, short_years
from payrec.formats.csv.questions import CARD_SIGN, DATE_ORDER, DECIMAL, SHORT_DATE_ORDER, SIGN
from payrec.formats.csv.values import Decimal, Exact, decimal_evidence
from payrec.formats.text import own_account

_GARBLED_SHARE: Final = 20
"""Where both sides are proved, the lesser counts as garbled if it is at most one in so many of the greater."""

_YEARS_MAX: Final = 5
"""Years that a table spans which has hardly more than one day: in more, that day is the year."""

_AMOUNT_ROLES: Final = ("amount", "debit", "credit")
_DATE_ROLES: Final = ("bookingDate", "valueDate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What need not be proved, because the caller says it."""

    decimal: bool
    dates: bool
    account: bool


class Survey:
    """Gathers the evidence of rows, one after the other, in constant memory."""

    def __init__(self, columns: Columns, settled: Settled) -> None:
        self._amounts = [columns[role][0] for role in _AMOUNT_ROLES if role in columns]
        self._balance = columns["balance"][0] if "balance" in columns else -1
        self._dates = [columns[role][0] for role in _DATE_ROLES if role in columns]
        self._account = columns["account"][0] if "account" in columns else -1
        self._settled = settled
        self._decimals: Counter[str] = Counter()
        self._balance_decimals: Counter[str] = Counter()
        """Of the running balance, which some write otherwise than amounts: asked where those say nothing."""
        self._has_exact = False
        """Amounts are numbers of a workbook: where no text is one, none is expected."""
        self._orders: Counter[str] = Counter()
        self._first_parts: set[int] = set()
        self._last_parts: set[int] = set()
        """Of dates in three numbers of two digits, as far as either end may be the year."""
        self._first_account: str | None = None
        self.accounts_differ = False
        """The column ``account`` has two values or more."""

    def feed(self, row: Sequence[str]) -> None:
        """Look at one row; any row with cells counts, also one that will be skipped."""
        width = len(row)
        if not self._settled.decimal:
            for index in self._amounts:
                if index < width and row[index]:
                    if row[index].__class__ is Exact:
                        self._has_exact = True
                    elif (proof := decimal_evidence(row[index])) is not None:
                        self._decimals[proof] += 1
            if 0 <= self._balance < width and row[self._balance].__class__ is not Exact:
                proof = decimal_evidence(row[self._balance])
                if proof is not None:
                    self._balance_decimals[proof] += 1
        if not self._settled.dates:
            for index in self._dates:
                if index < width and row[index]:
                    self._look_at_date(row[index])
        if not self._settled.account and 0 <= self._account < width:
            self._look_at_account(row[self._account])

    def _look_at_date(self, cell: str) -> None:
        order = date_evidence(cell)
        if order is not None:
            self._orders[order] += 1
            if order != "ymd" and (ends := short_years(cell)) is not None:
                self._first_parts.add(ends[0])
                self._last_parts.add(ends[1])

    def _look_at_account(self, cell: str) -> None:
        account = own_account(cell)
        if account is not None:
            if self._first_account is None:
                self._first_account = account
            elif account != self._first_account:
                self.accounts_differ = True

    @property
    def account(self) -> str | None:
        """The first account met in the column."""
        return self._first_account

    def is_proved(self) -> bool:
        """Whether more rows can add nothing but garbled values."""
        decimals = self._decimals or self._balance_decimals
        dots, commas = decimals["."], decimals[","]
        days, months = self._orders["dmy"], self._orders["mdy"]
        unclear = self._orders["doubt"] or self._orders["dotted"]
        return (
            (self._settled.decimal or (dots > 0) != (commas > 0) or (self._has_exact and not self._decimals))
            and (self._settled.dates or (days > 0) != (months > 0) or (self._orders["ymd"] > 0 and not unclear))
            and (self._settled.account or self.accounts_differ)
        )

    def decimal(self) -> Decimal | None:
        """Return the decimal sign; None when no amount has one.

        Raises
        ------
        UnreadableFileError
            ``csv_ambiguous_decimals``.

        """
        decimals = self._decimals
        if not decimals["."] and not decimals[","] and self._balance_decimals:
            decimals = self._balance_decimals
        proved = _majority(decimals, ".", ",")
        if proved is not None:
            return cast("Decimal", proved)
        if decimals["."] or decimals["doubt"]:
            raise UnreadableFileError(
                "csv_ambiguous_decimals",
                "1.234 can be 1234 or 1.234: set the profile's decimal to '.' or ','",
                question=DECIMAL,
            )
        return None

    def date_order(self) -> DateOrder | None:
        """Return the order of day and month; None when every date says it itself.

        Raises
        ------
        UnreadableFileError
            ``csv_ambiguous_dates``.

        """
        if _spread(self._last_parts) > _YEARS_MAX and _spread(self._first_parts) <= 1:
            raise UnreadableFileError(
                "csv_ambiguous_dates",
                "the year may come first, as in 26-01-15: set dateOrder to ymd, dmy or mdy",
                question=SHORT_DATE_ORDER,
            )
        proved = _majority(self._orders, "dmy", "mdy")
        if proved is not None:
            return cast("DateOrder", proved)
        if self._orders["dmy"] or self._orders["doubt"]:
            raise UnreadableFileError(
                "csv_ambiguous_dates",
                "day or month first cannot be told: set dateOrder to dmy or mdy",
                question=DATE_ORDER,
            )
        return "dmy" if self._orders["dotted"] else None


def _spread(numbers: set[int]) -> int:
    return max(numbers) - min(numbers) if numbers else 0


def _majority(counts: Counter[str], one: str, other: str) -> str | None:
    """Return what is proved; None when nothing is, or both are and neither is plainly garbled."""
    lesser, greater = sorted((one, other), key=lambda key: counts[key])
    if counts[greater] and counts[lesser] * _GARBLED_SHARE <= counts[greater]:
        return greater
    return None


def check_sign(rows: Iterable[tuple[object, int, int]], *, is_given: bool = False) -> bool | None:
    """Prove by the running balance that a positive amount is money in, unless that ``is_given``.

    Return whether the newest rows come first; None where the balance does not tell.

    ``rows`` are account and currency as one key, signed amount and balance after (or, newest first, before) the row,
    in minor units. Each neighbouring pair is tried oldest first and newest first, with the sign as it is and turned.

    Raises
    ------
    UnreadableFileError
        ``csv_sign_contradicts_balance`` when the turned sign fits most pairs, and more than the sign as it is.

    """
    last: dict[object, tuple[int, int]] = {}
    fits: Counter[tuple[str, int]] = Counter()
    pairs = 0
    for key, amount, balance in rows:
        before = last.get(key)
        last[key] = (amount, balance)
        if before is None or not amount or not before[0]:
            continue
        pairs += 1
        for sign in (1, -1):
            fits["oldest", sign] += balance == before[1] + sign * amount
            fits["newest", sign] += before[1] == balance + sign * before[0]
    as_it_is = max(fits["oldest", 1], fits["newest", 1])
    turned = max(fits["oldest", -1], fits["newest", -1])
    if not is_given and turned > as_it_is and turned * 2 > pairs:
        raise UnreadableFileError(
            "csv_sign_contradicts_balance",
            "the running balance falls where amounts are positive: set the profile's sign",
            question=SIGN,
        )
    return None if fits["newest", 1] == fits["oldest", 1] else fits["newest", 1] > fits["oldest", 1]


def are_besides(rows: Iterable[tuple[object, int, int, int]], *, is_newest_first: bool) -> bool:
    """Tell whether fees move the running balance besides the amounts; they do not where nothing tells.

    ``rows`` are as those of ``check_sign``, with the fee, which is not negative.
    """
    last: dict[object, tuple[int, int, int]] = {}
    besides = included = 0
    for key, amount, balance, fee in rows:
        before = last.get(key)
        last[key] = (amount, balance, fee)
        if before is None:
            continue
        moved, kept = (before[1] - balance, before[2]) if is_newest_first else (balance - before[1], fee)
        own = before[0] if is_newest_first else amount
        if kept:
            besides += moved == own - kept
            included += moved == own
    return besides > included


def check_card_sign(amounts: Iterable[int]) -> None:
    """Ask which sign money out has in a card's table that has no balance to prove it.

    Some have purchases as positive amounts. Where most amounts are negative those are the purchases.

    Raises
    ------
    UnreadableFileError
        ``csv_ambiguous_sign`` when as many amounts are positive as are negative, or more.

    """
    signs = Counter(amount > 0 for amount in amounts if amount)
    if signs[True] and signs[True] >= signs[False]:
        raise UnreadableFileError(
            "csv_ambiguous_sign",
            "a card's table, and nothing proves that a positive amount is money in: set the profile's sign",
            question=CARD_SIGN,
        )
