"""What the fields of an OFX transaction or balance say.

Source: Open Financial Exchange Specification 1.6, 2.2 and 2.3, sections 3.2 (data types) and 11.4 (STMTTRN, balances).
The sign of an amount decides between credit and debit, not the type of the transaction: banks set it as they like.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from functools import lru_cache
from typing import Final

from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.statements import Balance, BalanceType, Entry
from payrec.formats import text
from payrec.formats.base import RecordError
from payrec.formats.ofx.tags import value_of

_GROUPED: Final = re.compile(r"[0-9]{1,3}(?:([.,])[0-9]{3})(?:\1[0-9]{3})*(?!\1)[.,][0-9]*")
"""A number with both marks: the first groups the thousands, the other is the decimal mark."""
_DOUBTFUL: Final = re.compile(r"[1-9][0-9]{0,2},[0-9]{3}")
"""A comma before three digits: a decimal mark by the specification, and thousands as many write them."""
_DAY: Final = re.compile(r"[0-9]{8}")
_MOMENT: Final = re.compile(
    r"[0-9]{8}([01][0-9]|2[0-3])([0-5][0-9])([0-5][0-9])(?:\.[0-9]*)?(?:\[([+-]?[0-9]{1,2})[:\]])?"
)
_EIGHT_DIGITS: Final = 8
_RATE: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,12})?")

Fields = Mapping[str, str]
"""Names of fields in upper case to their texts."""


def signed_minor(amount: str, currency: str) -> int:
    """Turn an amount (``-11,76``, ``+00115.8300``, ``1 234.50``) into minor units of the currency, with its sign.

    Raises
    ------
    RecordError
        ``unknown_currency``, ``invalid_amount``, ``amount_precision``.

    """
    digits = MINOR_UNITS.get(currency)
    if digits is None:
        raise RecordError("unknown_currency", "not an ISO 4217 currency code")
    number = "".join(amount.split())
    sign = number[:1]
    if sign in ("-", "+"):
        number = number[1:]
    if "," in number:
        if "." in number:
            if not _GROUPED.fullmatch(number):
                raise RecordError("invalid_amount", "the amount is not a decimal number")
            grouping = "," if number.index(",") < number.index(".") else "."
            number = number.replace(grouping, "")
        elif digits != 3 and _DOUBTFUL.fullmatch(number):
            raise RecordError("invalid_amount", "the comma of the amount can be a decimal mark or one of thousands")
        number = number.replace(",", ".")
    minor = text.amount_to_minor(number, digits)
    return -minor if sign == "-" else minor


def day(moment: str) -> tuple[date, bool]:
    """Return the date of ``20090401122017.000[-5:EST]`` as written, and whether its day was clamped.

    Raises
    ------
    RecordError
        ``invalid_date``.

    """
    return _day(moment[:_EIGHT_DIGITS])


@lru_cache(maxsize=4096)
def _day(digits: str) -> tuple[date, bool]:
    if not _DAY.fullmatch(digits):
        raise RecordError("invalid_date", "the date does not begin with eight digits")
    return text.clamped_date(int(digits[:4]), int(digits[4:6]), int(digits[6:]))


def created_at(moment: str) -> str | None:
    """Turn the time of an answer into ISO 8601 as written, None when there is none."""
    try:
        on = day(moment)[0].isoformat()
    except RecordError:
        return None
    found = _MOMENT.match(moment)
    if found is None:
        return on
    hours = int(found[4]) if found[4] else None
    offset = f"{'-' if hours < 0 else '+'}{abs(hours):02}:00" if hours is not None else ""
    return f"{on}T{found[1]}:{found[2]}:{found[3]}{offset}"


def account_number(written: str | None) -> str | None:
    """Return an account as it is stored."""
    return text.own_account(value_of(written)) if written else None


def read_balance(fields: Fields, kind: BalanceType, currency: str | None) -> tuple[Balance | None, str | None]:
    """Read LEDGERBAL or AVAILBAL; return what can be read, and what is wrong with it. Never raises."""
    if currency is None:
        return None, "the balance has no currency"
    try:
        minor = signed_minor(fields.get("BALAMT", ""), currency)
    except RecordError as error:
        return None, error.detail
    on, flaw = None, None
    if fields.get("DTASOF"):
        try:
            on = day(fields["DTASOF"])[0]
        except RecordError as error:
            flaw = error.detail
    return Balance(kind, abs(minor), currency, "debit" if minor < 0 else "credit", on), flaw


def read_entry(fields: Fields, nested: Mapping[str, Fields], currency: str | None, entry: Entry) -> bool:
    """Fill the entry from a STMTTRN, or from the STMTTRNP of a pending one; return whether its date was clamped.

    Parameters
    ----------
    fields
        Its own.
    nested
        Those of the elements within: PAYEE, BANKACCTTO, CCACCTTO, CURRENCY, ORIGCURRENCY.
    currency
        Of the statement.
    entry
        With ``status`` set.

    Raises
    ------
    RecordError
        ``missing_date``, ``invalid_date``, ``missing_currency``, ``unknown_currency``, ``invalid_amount``,
        ``amount_precision``.

    """
    available = fields.get("DTAVAIL", "")
    posted = fields.get("DTPOSTED") or (fields.get("DTTRAN") if entry.status == "pending" else None) or available
    if not posted:
        raise RecordError("missing_date", "the transaction has no date of posting")
    entry.booking_on, clamped = day(posted)
    if available:
        entry.value_on, value_clamped = day(available)
        clamped |= value_clamped
    if nested:
        # CURRENCY: the amount is in that currency. ORIGCURRENCY: it was, and has been converted.
        own = nested.get("CURRENCY", {}).get("CURSYM")
        currency = own.upper() if own else currency
        _read_nested(nested, entry)
    if currency is None:
        raise RecordError("missing_currency", "the statement names no currency")
    minor = signed_minor(fields.get("TRNAMT", ""), currency)
    entry.currency = currency
    if minor < 0:
        entry.direction = "debit"
        entry.amount_minor = -minor
    else:
        entry.amount_minor = minor
    _read_texts(fields, entry)
    return clamped


@lru_cache(maxsize=256)
def _kind(written: str) -> str | None:
    """Clean the type of a transaction, of which there are few."""
    return text.clean(written)


def _read_texts(fields: Fields, entry: Entry) -> None:
    get = fields.get
    kind = get("TRNTYPE")
    if kind:
        entry.bank_transaction_code = _kind(kind)
    name = get("NAME")
    if name:
        entry.counterparty_name = text.clean(value_of(name))
    elif entry.counterparty_name is None and get("EXTDNAME"):
        entry.counterparty_name = text.clean(value_of(fields["EXTDNAME"]))
    memo = get("MEMO")
    if memo:
        entry.remittance = text.clean(value_of(memo))
    bank_id = get("FITID")
    # A bank that has no id writes zeros.
    if bank_id and bank_id.strip("0"):
        entry.bank_reference = text.reference(value_of(bank_id))
        if entry.bank_reference is not None:
            entry.identity_kind = "bank"
            entry.identity_value = entry.bank_reference
    check_number = get("CHECKNUM")
    if check_number and check_number.strip("0"):
        entry.check_number = text.reference(value_of(check_number))
    reference = get("REFNUM")
    if reference:
        entry.transaction_id = text.reference(value_of(reference))
    server_id = get("SRVRTID")
    if server_id:
        entry.instruction_id = text.reference(value_of(server_id))


def _read_nested(nested: Mapping[str, Fields], entry: Entry) -> None:
    payee = nested.get("PAYEE")
    if payee and payee.get("NAME"):
        entry.counterparty_name = text.clean(value_of(payee["NAME"]))
    other = nested.get("BANKACCTTO") or nested.get("CCACCTTO")
    if other:
        entry.counterparty_account = account_number(other.get("ACCTID"))
    original = nested.get("ORIGCURRENCY")
    if original:
        # The rate is CURDEF for one CURSYM; dividing by it would only be nearly the original amount.
        rate = original.get("CURRATE", "").replace(",", ".")
        entry.exchange_rate = rate if _RATE.fullmatch(rate) else None
        symbol = original.get("CURSYM", "").upper()
        if symbol in MINOR_UNITS:
            entry.metadata["originalCurrency"] = symbol
