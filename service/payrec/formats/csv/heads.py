"""The cells of a row by their roles, and what the head of a table proves: the sign, and which rows come first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from operator import itemgetter
from typing import Final

from payrec.constants import PROFILE_MATCHED_LENGTH_MAX
from payrec.formats.base import RecordError
from payrec.formats.csv.cells import Amounts, RowRules
from payrec.formats.csv.columns import Columns
from payrec.formats.csv.kinds import Kinds
from payrec.formats.csv.labels import balance_label
from payrec.formats.csv.lines import check_width
from payrec.formats.csv.survey import are_besides, check_card_sign, check_sign
from payrec.formats.csv.table import Table
from payrec.formats.csv.values import bare, unwrap
from payrec.formats.csv.words import CARD_DATES, CARD_HEADINGS, KIND_HEADINGS, PURCHASE_KINDS, fold

_CORE: Final = (
    *("bookingDate", "valueDate", "amount", "currency", "account", "remittance"),
    *("counterpartyName", "counterpartyAccount", "bankTransactionCode"),
)
"""The cells that most files have, in the order of ``_entry``."""

_SIDES: Final = ("amount", "debit", "credit", "mark")
"""The cells that a signed amount is made of, in the order of ``Amounts.signed``."""

DETAILS: Final = (
    *("counterpartyBic", "endToEndId", "structuredReference", "externalId", "originalAmount", "originalCurrency"),
    *("payerName", "payeeName", "ultimateCounterpartyName", "net", "fee"),
)
"""The cells that few files have, in the order of ``_describe``."""


def _picker(columns: Columns, roles: Sequence[str]) -> Callable[[Sequence[str]], tuple[str, ...]]:
    """Make the function that takes the cells of the roles; a role without column is the last cell, which is empty."""
    return itemgetter(*(columns[role][0] if role in columns else -1 for role in roles))


def _is_of_card(headings: set[str]) -> bool:
    """Whether the folded headings are those of a payment card's table."""
    has_dates = all(not headings.isdisjoint(dates) for dates in CARD_DATES)
    return has_dates or not headings.isdisjoint(CARD_HEADINGS)


class Head:
    """The cells of rows by their roles."""

    def __init__(self, rules: RowRules) -> None:
        self._rules = rules
        columns = rules.columns
        self._core = _picker(columns, _CORE)
        self._sides = _picker(columns, _SIDES)
        self._details = _picker(columns, DETAILS)
        self._balance_column = columns.get("balance", [-1])[0]
        essential = ("bookingDate", "valueDate", "amount", "debit", "credit", "mark", "currency")
        self._essential_last = max(columns[role][0] for role in essential if role in columns)
        self._amounts = Amounts(rules)
        self._dates = self._amounts.dates
        self._newest_first = False
        self._has_lone_fee = "fee" in columns and "net" not in columns
        self._fees_besides = False
        self._kinds: Kinds | None = None
        """Words that would put the side of an amount in doubt, wherever they come."""

    def prove_sign(self, table: Table, *, is_given: bool) -> None:
        """Prove by the head that a positive amount is money in, and which rows come first.

        Raises ``UnreadableFileError`` when it is not; ``is_given`` says that the profile has the sign.
        """
        headings = set(map(fold, table.names or ()))
        is_card = _is_of_card(headings)
        if self._amounts.has_sides and not is_given and "balance" not in self._rules.columns:
            self._amounts.has_negative_credits = self._are_credits_negative(
                table.data, least=1 if is_card or "member name" in headings else 2
            )
        if "balance" in self._rules.columns:
            newest = check_sign(self._balanced(table.data), is_given=is_given)
            self._newest_first = self._falls(table.data) if newest is None else newest
            if self._has_lone_fee:
                self._fees_besides = are_besides(self._charged(table.data), is_newest_first=self._newest_first)
        elif is_given:
            return
        elif not self._amounts.is_single:
            self._kinds = Kinds.of_profile(self._rules)
        elif is_card:
            self._look_for_kinds(table, Kinds.of_marks(table, self._rules.columns))
            if not self._has_negative_purchase(table):
                check_card_sign(self._signed(table.data))
        else:
            self._kinds = Kinds.of_table(table, self._rules.columns)
        if self._kinds is not None:
            self._kinds = self._look_for_kinds(table, self._kinds)

    def _look_for_kinds(self, table: Table, kinds: Kinds) -> Kinds | None:
        """Look for them in the head; return what is left in doubt. Raises ``UnreadableFileError``."""
        rows = list(filter(self._is_line, table.data))
        return kinds.look_at_head(rows, chain(self._signed(rows), self._nets(rows)))

    def _are_credits_negative(self, rows: Sequence[Sequence[str]], *, least: int) -> bool:
        """Whether all credits of the head have a minus, so many at least, and no debit has: they are no corrections."""
        read = self._amounts.sign_reader()
        signs = {"debit": [0, 0], "credit": [0, 0]}
        for row in rows:
            for role, counts in signs.items():
                index = self._rules.columns.get(role, [-1])[0]
                with suppress(RecordError):
                    if 0 <= index < len(row) and (minor := read(bare(row[index]))):
                        counts[minor < 0] += 1
        return signs["debit"][0] > 0 == signs["debit"][1] and signs["credit"][1] >= least and not signs["credit"][0]

    def _has_negative_purchase(self, table: Table) -> bool:
        """Whether a row that a card's table calls a purchase is negative: then all money out is."""
        columns = [index for index, name in enumerate(table.names or ()) if fold(name) in KIND_HEADINGS]
        rows = [row for row in table.data if any(fold(row[i]) in PURCHASE_KINDS for i in columns if i < len(row))]
        return any(amount < 0 for amount in self._signed(rows))

    def _is_line(self, row: Sequence[str]) -> bool:
        """Whether no rule skips a row."""
        with suppress(RecordError):
            return self._rule_that_skips([*self._fit(list(row)), ""]) is None
        return False

    def _rule_that_skips(self, cells: Sequence[str]) -> str | None:
        for index, pattern, rule in self._rules.skip:
            if pattern.search(cells[index][:PROFILE_MATCHED_LENGTH_MAX]):
                return rule
        return None

    def _falls(self, rows: Sequence[Sequence[str]]) -> bool:
        """Whether the last day of these rows is before the first one."""
        days = []
        for row in rows:
            with suppress(RecordError):
                booking, value, *_ = self._core([*self._fit(list(row)), ""])
                if (on := self._dates[booking or value]) is not None:
                    days.append(on)
        return bool(days) and days[-1] < days[0]

    def _balanced(self, rows: Sequence[Sequence[str]]) -> Iterator[tuple[object, int, int]]:
        """Yield account and currency, signed amount and running balance of the rows that have all of them."""
        for key, minor, balance, _ in self._charged(rows):
            yield key, minor, balance

    def _charged(self, rows: Sequence[Sequence[str]]) -> Iterator[tuple[object, int, int, int]]:
        """Yield the same with the fee of a table that has no net amounts: 0 where there is none."""
        for row in rows:
            try:
                cells = [*self._fit(list(row)), ""]
                _, _, _, currency, account, text, *_ = self._core(cells)
                balance = bare(cells[self._balance_column])
                if balance_label(text) is not None or not balance:
                    continue
                read = self._amounts.reader((unwrap(currency).strip() or self._rules.currency or "").upper())
                fee = bare(self._details(cells)[-1]) if self._has_lone_fee else ""
                kept = abs(read(fee)) if fee else 0
                yield (account, currency), self._amounts.signed(read, *self._sides(cells)), read(balance), kept
            except (RecordError, KeyError):
                continue

    def _signed(self, rows: Sequence[Sequence[str]]) -> Iterator[int]:
        """Yield the amounts that can be read, with their sign; the currency makes no difference to that."""
        read = self._amounts.sign_reader()
        for row in rows:
            with suppress(RecordError):
                yield self._amounts.signed(read, *self._sides([*self._fit(list(row)), ""]))

    def _nets(self, rows: Sequence[Sequence[str]]) -> Iterator[int]:
        """Yield the nets that can be read, with their sign: it says the side of an amount that has none."""
        read = self._amounts.sign_reader()
        if "net" in self._rules.columns:
            for row in rows:
                with suppress(RecordError):
                    yield read(bare(self._details([*self._fit(list(row)), ""])[-2]))

    def _fit(self, row: list[str]) -> list[str]:
        """Return the row with as many cells as the header; raises ``RecordError`` when it cannot be."""
        width = self._rules.width
        if len(row) > width:
            check_width(row)
            if not any(cell.strip() for cell in row[width:]):
                return row[:width]
        elif len(row) == width:
            return row
        elif len(row) >= self._rules.width_least or (not row[-1].strip() and len(row) > self._essential_last):
            return row + [""] * (width - len(row))
        raise RecordError("invalid_entry", f"the record has {len(row)} fields, the header {width}")

    def _is_dated(self, cell: str) -> bool:
        with suppress(RecordError):
            return bool(cell) and self._dates[cell] is not None
        return False

    def _is_dated_amount(self, cells: Sequence[str]) -> bool:
        """Whether the row has a date and an amount: then it is no total, whatever a text of it says."""
        booking, value, *_ = self._core(cells)
        return any(map(str.strip, self._sides(cells)[:3])) and (self._is_dated(booking) or self._is_dated(value))
