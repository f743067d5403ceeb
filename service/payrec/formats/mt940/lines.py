"""What a line of an MT940 or MT942 message says, tag by tag: dates, balances, control totals and field 61.

Source: SWIFT Standards MT, category 9 (MT940 Customer Statement, MT942 Interim Transaction Report), and what banks make
of them: optional dates and currencies, points for commas, days that do not exist.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Final

from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.references import is_iban
from payrec.domain.statements import Balance, BalanceType, Direction, Entry, EntryStatus, Money
from payrec.formats import text
from payrec.formats.base import RecordError

_ENTRY: Final = re.compile(
    r"\s*([0-9]{6})([0-9]{4}|[ ]{4})?[ ]*(R[CD]|E[CD]|[CD])?([A-Z])?[ ]*([0-9.,]+)?(.*)", re.DOTALL
)
"""Field 61: value date, entry date, mark, funds letter (third letter of the currency), amount, and the rest."""
_GROUP: Final = re.compile(r"['’ ][ ]*[0-9]")
"""What goes on after the digits of an amount that were not all of them: ``1 234,56``."""
_MORE_DIGITS: Final = re.compile(r"['’ ][0-9]{3}(?![0-9])|[.,][0-9]")
"""Behind the amount of a balance: the next group of its digits, or decimals behind the first group."""
_BALANCE: Final = re.compile(r"\s*([CD])([0-9]{6})([A-Z]{3})?([0-9]*[.,]?[0-9]*)(.*)", re.DOTALL)
_CONTROL_TOTAL: Final = re.compile(r"\s*([0-9]{1,7})([A-Z]{3})?([0-9]*[.,]?[0-9]*)\s*")
_ACCOUNT_CURRENCY: Final = re.compile(r"(.*[0-9A-Z\"])/?([A-Z]{3})")
_AMOUNT_WORD: Final = re.compile(r"/(OCMT|CHG[ST])/([A-Z]{3})([0-9.,]{1,18})")
_EXCHANGE_RATE: Final = re.compile(r"/EXCH/([0-9]{1,12}(?:[.,][0-9]{1,12})?)")
_BIC: Final = re.compile(r"[A-Z]{4}[A-Z]{2}[A-Z0-9]{2}(?:[A-Z0-9]{3})?")
_CREATED: Final = re.compile(r"([0-9]{6})([01][0-9]|2[0-3])([0-5][0-9])([+-][0-9]{2})?([0-9]{2})?")

_ELSEWHERE: Final = frozenset({"NONREF", "EREF", "MARF", "PREF"})
"""Customer references that are none."""

_MARKS: Final[dict[str, tuple[Direction, bool, EntryStatus]]] = {
    "C": ("credit", False, "booked"),
    "D": ("debit", False, "booked"),
    "RC": ("debit", True, "booked"),
    "RD": ("credit", True, "booked"),
    "EC": ("credit", False, "pending"),
    "ED": ("debit", False, "pending"),
}
"""Debit/credit mark to direction, reversal and status: the reversal of a credit takes the money out again."""


@lru_cache(maxsize=4096)
def entry_dates(value_digits: str, entry_digits: str | None) -> tuple[date, date, bool]:
    """Return value date, booking date, and whether a day was clamped.

    The booking date has no year of its own: it is the one nearest the value date, before or after. Without an entry
    date it is the value date.

    Raises
    ------
    RecordError
        ``invalid_date``.

    """
    value_on, clamped = text.six_digit_date(value_digits)
    if entry_digits is None or entry_digits.isspace():
        return value_on, value_on, clamped
    month, day = int(entry_digits[:2]), int(entry_digits[2:])
    near = [text.clamped_date(year, month, day) for year in (value_on.year - 1, value_on.year, value_on.year + 1)]
    booking_on, booking_clamped = min(near, key=lambda candidate: abs(candidate[0] - value_on))
    return value_on, booking_on, clamped or booking_clamped


def amount_minor(digits: str, currency: str) -> int:
    """Turn ``5,``, ``,5``, ``0000473,17`` or ``5.00`` into minor units of the currency.

    Raises
    ------
    RecordError
        ``invalid_amount``, ``amount_precision``, ``unknown_currency``.

    """
    places = MINOR_UNITS.get(currency)
    if places is None:
        raise RecordError("unknown_currency", "not an ISO 4217 currency code")
    return text.amount_to_minor(digits.replace(",", "."), places)


def parse_entry(lines: list[str], currency: str | None, entry: Entry) -> bool:
    """Fill the entry from the lines of one field 61; return whether a date was clamped.

    The customer reference becomes the instruction's id (for a cheque its number); the supplementary details go to
    ``metadata`` and, as OCMT and CHGS, to the original amount (in whatever currency) and the charges.

    Raises
    ------
    RecordError
        ``invalid_entry``, ``invalid_date``, ``missing_direction``, ``invalid_amount``, ``amount_precision``,
        ``missing_currency`` (the statement names none), ``unknown_currency``.

    """
    found = _ENTRY.match(lines[0])
    if found is None:
        raise RecordError("invalid_entry", "the line does not begin with a value date")
    supplement = lines[1:]
    if found[5] is None and supplement:
        # Some systems break the line after the mark.
        found = _ENTRY.match(lines[0] + supplement.pop(0)) or found
    value_digits, entry_digits, mark, _, digits, rest = found.groups()
    entry.value_on, entry.booking_on, clamped = entry_dates(value_digits, entry_digits)
    if mark is None:
        raise RecordError("missing_direction", "no debit or credit mark")
    if digits is None:
        raise RecordError("invalid_amount", "no amount after the mark")
    if digits.isdigit() and _GROUP.match(rest):
        raise RecordError("invalid_amount", "the amount has something between its digits")
    if currency is None:
        raise RecordError("missing_currency", "the statement names no currency")
    entry.direction, entry.reversal, entry.status = _MARKS[mark]
    entry.amount_minor = amount_minor(digits, currency)
    entry.currency = currency
    if rest:
        _parse_references(rest, entry)
    if supplement:
        _parse_supplement(supplement, entry)
    return clamped


def _parse_references(rest: str, entry: Entry) -> None:
    """Take type, customer reference and bank reference from what follows the amount."""
    code = None
    rest = rest.lstrip()
    if rest.startswith("NONREF"):  # without a type
        rest = rest.removeprefix("NONREF")
    elif rest[:1].isalpha():
        code = entry.bank_transaction_code = _type_code(rest[:4])
        rest = rest[4:]
    customer, _, bank = rest.partition("//")
    if bank:
        entry.bank_reference = text.reference(bank)
    # "KREF+", "EREF" and the like say that the reference stands in field 86.
    customer = customer.strip()
    if customer and customer not in _ELSEWHERE and not customer.endswith("REF+"):
        if code is not None and code.endswith("CHK"):
            entry.check_number = text.reference(customer)
        else:
            entry.instruction_id = text.reference(customer)


@lru_cache(maxsize=1024)
def _type_code(field: str) -> str | None:
    """Clean the four characters of a transaction type, of which there are few."""
    return text.clean(field)


def _parse_supplement(lines: list[str], entry: Entry) -> None:
    supplement = text.clean(" ".join(lines))
    if supplement is None:
        return
    entry.metadata["supplementaryDetails"] = supplement
    read_amount_words(entry, supplement)


def read_amount_words(entry: Entry, given: str) -> None:
    """Take what was paid, what was kept of it and the rate from ``/OCMT/USD110,00/CHGS/EUR2,50/EXCH/1,1/``.

    What is known already stays: banks repeat the supplementary details of field 61 in field 86.
    """
    if "/OCMT/" not in given and "/CHG" not in given:
        return
    is_charged = bool(entry.charges)
    for kind, currency, digits in _AMOUNT_WORD.findall(given):
        try:
            minor = amount_minor(digits, currency)
        except RecordError:
            continue  # It stays readable in the text; the entry itself is not in doubt.
        if kind == "OCMT":
            entry.original = entry.original or Money(minor, currency)
        elif minor and not is_charged:
            entry.charges.append(Money(minor, currency, "debit"))
    rate = _EXCHANGE_RATE.search(given) if entry.exchange_rate is None else None
    if rate is not None:
        entry.exchange_rate = rate[1].replace(",", ".")


@dataclass(slots=True)
class ParsedBalance:
    """A balance field: what of it could be read."""

    currency: str | None
    """The field's own currency, also when the balance itself is malformed."""
    balance: Balance | None
    flaw: str | None
    """What is wrong with it; the amount may be usable all the same."""


def parse_balance(field: str, kind: BalanceType, inherited_currency: str | None) -> ParsedBalance:
    """Read mark, date, currency (absent: inherited) and amount of a field 60, 62, 64 or 65. Never raises."""
    found = _BALANCE.match(field)
    if found is None:
        return ParsedBalance(None, None, "the balance is malformed")
    mark, day, own_currency, digits, rest = found.groups()
    currency = own_currency or inherited_currency
    if currency is None:
        return ParsedBalance(None, None, "the balance has no currency")
    flaw = "the balance has something after its amount" if rest.strip() else None
    if _MORE_DIGITS.match(rest):
        return ParsedBalance(own_currency, None, flaw)
    on = None
    try:
        on = text.six_digit_date(day)[0]
    except RecordError:
        flaw = "the balance has no valid date"
    try:
        minor = amount_minor(digits, currency)
    except RecordError as error:
        return ParsedBalance(own_currency, None, error.detail)
    balance = Balance(kind, minor, currency, "credit" if mark == "C" else "debit", on)
    return ParsedBalance(own_currency, balance, flaw)


def parse_control_total(field: str, currency: str | None) -> tuple[int, int] | None:
    """Return count and sum in minor units of a field 90C or 90D, None when it is malformed or in another currency."""
    found = _CONTROL_TOTAL.fullmatch(field)
    if found is None or currency is None or (found[2] or currency) != currency:
        return None
    try:
        return int(found[1]), amount_minor(found[3], currency)
    except RecordError:
        return None


@lru_cache(maxsize=1024)
def bank_code(field: str) -> tuple[str | None, str | None]:
    """Return BIC or else national code; a file has few banks."""
    code = text.account(field)
    return (code, None) if code and _BIC.fullmatch(code) else (None, code)


def parse_account(field: str) -> tuple[str | None, str | None]:
    """Return the account of field 25, and the currency that some banks append to it (``…EUR``, ``…/HUF``).

    IBANs of Mauritius and the Seychelles end in a currency code that is theirs: a valid IBAN is never cut. It is put
    in upper case, as all IBANs are, and is the account without what stands before it (``/PL…``, ``COBADEFF/DE…``), so
    that every format names the account alike; other identifiers stay as the bank gave them.
    """
    account = "".join((text.clean(field) or "").split()) or None
    if account is None:
        return None, None
    name, currency = account, None
    if not is_iban(account.rpartition("/")[2]):
        found = _ACCOUNT_CURRENCY.fullmatch(account)
        if found is not None and found[2] in MINOR_UNITS and any(c.isdigit() for c in found[1]):
            name, currency = found[1], found[2]
    iban = name.rpartition("/")[2]
    return text.account(iban) if is_iban(iban) else name, currency


def parse_created_at(field: str) -> str | None:
    """Turn field 13D (``1610301730+0000``) into ISO 8601, as written; None when it is malformed."""
    found = _CREATED.fullmatch(field.strip())
    if found is None:
        return None
    try:
        on = text.six_digit_date(found[1])[0]
    except RecordError:
        return None
    offset = f"{found[4]}:{found[5] or '00'}" if found[4] else ""
    return f"{on.isoformat()}T{found[2]}:{found[3]}:00{offset}"
