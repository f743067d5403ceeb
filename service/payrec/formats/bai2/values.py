"""What the records of a BAI2 file say: an account's head with its balances and totals, and a transaction.

Source: Cash Management Balance Reporting Specifications Version 2, appendix A (type codes) and the definitions of the
records 03 and 16. Amounts are whole minor units of the currency, and may have a sign.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final

from payrec.constants import AMOUNT_MINOR_MAX, TEXT_LENGTH_MAX
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.statements import Balance, BalanceType, Direction, Entry
from payrec.formats import text
from payrec.formats.bai2.records import Fields, Record, join_text
from payrec.formats.base import RecordError

BALANCES: Final[dict[str, BalanceType]] = {
    "010": "opening",
    "015": "closing",
    "040": "opening_available",
    "045": "closing_available",
}
"""Type codes of a record 03 that are balances of the statement."""
TOTALS: Final[dict[str, Direction]] = {"100": "credit", "400": "debit"}
"""Type codes of a record 03 that are totals of the transactions."""

_WHOLE: Final = re.compile(r"([+-]?)([0-9]{1,64})")
_SMALL_LENGTH: Final = len(str(AMOUNT_MINOR_MAX)) - 1
"""Digits that are never beyond what payrec stores."""
_TYPE: Final = re.compile(r"[0-9]{3}")
_CHECK_PAID: Final = "475"
_NON_MONETARY: Final = "890"
_SIMPLE_FUNDS: Final = frozenset({"", "Z", "0", "1", "2"})
"""Types of funds that say all by themselves."""
_FUNDS_PAIRS_MAX: Final = 100
"""Pairs of days and amount of one distribution; the days are at most two digits."""
_CLOCK: Final = re.compile(r"([01]?[0-9]|2[0-3]):?([0-5][0-9])(?::?([0-5][0-9]))?")


class NonMonetaryError(Exception):
    """The transaction moves no money: it is information for the reader of the statement."""


def whole(digits: str) -> int:
    """Return the minor units of an amount as it is written, sign included.

    Raises
    ------
    RecordError
        ``invalid_amount``: it is no whole number, or beyond what payrec stores.

    """
    if digits.isdecimal() and digits.isascii() and len(digits) <= _SMALL_LENGTH:
        return int(digits)
    found = _WHOLE.fullmatch(digits)
    if found is None:
        raise RecordError("invalid_amount", "the amount is not a whole number of minor units")
    minor = int(found[2])
    if minor > AMOUNT_MINOR_MAX:
        raise RecordError("invalid_amount", f"the amount is beyond {AMOUNT_MINOR_MAX} minor units")
    return -minor if found[1] == "-" else minor


def day(digits: str) -> tuple[date, bool]:
    """Turn YYMMDD, or YYYYMMDD as some banks write it, into a date; tell whether its day was clamped.

    Raises
    ------
    RecordError
        ``invalid_date``.

    """
    if digits.isascii() and digits.isdigit():
        if len(digits) == 6:
            return text.six_digit_date(digits)
        if len(digits) == 8:
            return text.clamped_date(int(digits[:4]), int(digits[4:6]), int(digits[6:]))
    raise RecordError("invalid_date", "the date is not six digits")


def created_at(on: str, clock: str) -> str | None:
    """Turn date and time of a file (``0754``, ``14:59:35``) into ISO 8601 as written, None when there is no date."""
    try:
        created_on = day(on)[0]
    except RecordError:
        return None
    found = _CLOCK.fullmatch(clock)
    if found is None:
        return created_on.isoformat()
    return f"{created_on.isoformat()}T{found[1]:0>2}:{found[2]}:{found[3] or '00'}"


class Directions:
    """The side of each type code: 101 to 399 are credits, 401 to 699 debits.

    Others are what ``bai2.directions`` of the profile says.
    """

    __slots__ = ("_known", "_profile")

    def __init__(self, profile: Mapping[str, Any]) -> None:
        bai2 = profile.get("bai2")
        directions = bai2.get("directions") if isinstance(bai2, Mapping) else None
        self._profile: Mapping[str, Any] = directions if isinstance(directions, Mapping) else {}
        self._known: dict[str, Direction] = {}

    def of(self, code: str) -> Direction:
        """Return the side.

        Raises
        ------
        RecordError
            ``invalid_entry`` (no type code), ``unknown_direction``.
        NonMonetaryError
            The code is 890.

        """
        known = self._known.get(code)
        if known is None:
            known = self._known[code] = self._find(code)
        return known

    def _find(self, code: str) -> Direction:
        if not _TYPE.fullmatch(code):
            raise RecordError("invalid_entry", "the transaction has no type code of three digits")
        if "101" <= code <= "399":
            return "credit"
        if "401" <= code <= "699":
            return "debit"
        if code == _NON_MONETARY:
            raise NonMonetaryError
        direction = self._profile.get(code)
        if direction in ("credit", "debit"):
            return "credit" if direction == "credit" else "debit"
        raise RecordError(
            "unknown_direction",
            f"type code {code} is neither a credit nor a debit by itself: set it in bai2.directions",
        )


@dataclass(slots=True)
class Transaction:
    """A record 16 that was read."""

    entry: Entry
    signed_minor: int
    """The amount as written, for the control totals."""
    clamped: bool = False
    stray: bool = False
    """Something stands behind the end of the record."""


def written_amount(record: Record) -> int:
    """Return the amount of a record 16 as written, 0 when it cannot be read: a control total counts it all the same."""
    fields = Fields(record)
    fields.next()
    try:
        return whole(fields.next(required=True))
    except RecordError:
        return 0


def read_transaction(record: Record, currency: str, directions: Directions) -> Transaction:
    """Read a record 16: type, amount, type of funds, bank's and customer's reference, text.

    The customer's reference becomes the instruction's id, for a paid cheque its number. A negative amount is the
    other side.

    Raises
    ------
    RecordError
        ``invalid_entry``, ``unknown_direction``, ``invalid_amount``, ``invalid_date`` (value date),
        ``unknown_currency``, ``field_too_long``.
    NonMonetaryError
        It moves no money.

    """
    if record.too_long:
        raise RecordError("field_too_long", "the record with its continuations is too long")
    if record.torn:
        raise RecordError("invalid_entry", "the file ends within the record")
    if currency not in MINOR_UNITS:
        raise RecordError("unknown_currency", "not an ISO 4217 currency code")
    first = record.segments[0]
    parts = first.split(",", 5)
    fields = None
    clamped = False
    # Nearly every record has all its fields on its own line, and no slash in them.
    if len(parts) == 6 and parts[2] in _SIMPLE_FUNDS and (first.find("/") in (-1, len(first) - 1)):
        code, amount, _, bank, customer, remittance = parts
        code, amount = code.strip(), amount.strip()
        direction = directions.of(code)
        if len(record.segments) > 1:
            remittance = join_text(record.segments, 0, len(first) - len(remittance))
        elif remittance[-1:] == "/":
            remittance = remittance[:-1]
        value_on = None
    else:
        fields = Fields(record)
        code = fields.next()
        direction = directions.of(code)
        amount = fields.next(required=True)
        value_on, clamped = _read_funds(fields)
        bank, customer = fields.next(slashes=True), fields.next(slashes=True)
        remittance = fields.text()
    signed_minor = whole(amount)
    entry = Entry(line=record.line, direction=direction, amount_minor=signed_minor, currency=currency)
    if signed_minor < 0:
        entry.amount_minor = -signed_minor
        entry.direction = "debit" if direction == "credit" else "credit"
    entry.value_on = value_on
    entry.bank_transaction_code = code
    if bank:
        entry.bank_reference = text.reference(bank)
    if customer:
        if code == _CHECK_PAID:
            entry.check_number = text.reference(customer)
        else:
            entry.instruction_id = text.reference(customer)
    if remittance:
        entry.remittance = text.clean(remittance)
    return Transaction(entry, signed_minor, clamped, fields is not None and fields.stray)


def _read_funds(fields: Fields) -> tuple[date | None, bool]:
    """Read the type of funds and what belongs to it; return the value date, and whether it was clamped.

    Raises
    ------
    RecordError
        ``invalid_entry`` (an unknown type, or a distribution without end), ``invalid_date``.

    """
    kind = fields.next().upper()
    if kind in _SIMPLE_FUNDS:
        return None, False
    if kind == "S":
        for _ in range(3):
            fields.next(required=True)
        return None, False
    if kind == "V":
        digits = fields.next(required=True)
        fields.next()
        return day(digits) if digits else (None, False)
    if kind == "D":
        count = fields.next(required=True)
        if len(count) > 3 or not (count.isascii() and count.isdigit()) or int(count) > _FUNDS_PAIRS_MAX:
            raise RecordError("invalid_entry", "the distribution of the funds has no number of parts")
        for _ in range(2 * int(count)):
            fields.next(required=True)
        return None, False
    raise RecordError("invalid_entry", "the type of funds is none of 0, 1, 2, S, V, D and Z")


@dataclass(slots=True)
class AccountHead:
    """A record 03 that was read."""

    account: str | None = None
    currency: str | None = None
    balances: list[Balance] = field(default_factory=list)
    totals: dict[Direction, tuple[int | None, int | None]] = field(default_factory=dict)
    """Sum (without sign) and number of the transactions of one side; None where it is blank."""
    signed_minor: int = 0
    """Sum of all amounts as written."""
    flaws: list[str] = field(default_factory=list)
    """What is wrong with balances, totals and the account's number."""
    stray: bool = False


def read_account(record: Record, inherited_currency: str, on: date | None) -> AccountHead:
    """Read a record 03: account, currency, and groups of type code, amount, number of items and type of funds.

    ``on`` is the date of its balances. Never raises: what cannot be read is a flaw.
    """
    head = AccountHead()
    fields = Fields(record)
    number = fields.next()
    if len(number) <= TEXT_LENGTH_MAX:
        head.account = text.own_account(number)
    else:
        head.flaws.append(f"the account number is longer than {TEXT_LENGTH_MAX} characters: it is not read")
    head.currency = fields.next().upper() or None
    if record.too_long:
        head.flaws.append("the record with its continuations is too long: balances and totals are not read")
    elif record.torn:
        head.flaws.append("the file ends within the record: balances and totals are not read")
    else:
        head.flaws.extend(_read_groups(fields, head, head.currency or inherited_currency, on))
    head.stray = fields.stray
    return head


def _read_groups(fields: Fields, head: AccountHead, currency: str, on: date | None) -> Iterator[str]:
    """Read the groups into the head; yield what is wrong with them."""
    while fields.has_more():
        code = fields.next()
        if not code:
            continue  # A comma before the end of the line.
        if not _TYPE.fullmatch(code):
            yield "a balance or total has no type code of three digits: the rest of the record is not read"
            return
        digits = fields.next(required=True)
        count = fields.next()
        try:
            _read_funds(fields)
        except RecordError as error:
            if error.code != "invalid_date":
                yield f"the type of funds of {code} cannot be read: nor is the rest of the record"
                return
        minor = None
        if digits:
            try:
                minor = whole(digits)
            except RecordError as error:
                yield f"type code {code}: {error.detail}"
                continue
            head.signed_minor += minor
        if code in TOTALS:
            number = int(count) if len(count) <= 9 and count.isascii() and count.isdigit() else None
            head.totals.setdefault(TOTALS[code], (None if minor is None else abs(minor), number))
        elif code in BALANCES and minor is not None:
            if currency not in MINOR_UNITS:
                yield f"type code {code}: not an ISO 4217 currency code"
                continue
            kind = BALANCES[code]
            if all(balance.type != kind for balance in head.balances):
                head.balances.append(Balance(kind, abs(minor), currency, "debit" if minor < 0 else "credit", on))
