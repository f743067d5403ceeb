"""One record of a JSON file: decoding within limits, and the interface's fields into an entry."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import date
from functools import lru_cache
from json.scanner import make_scanner
from typing import Any, Final

from payrec.constants import (
    AMOUNT_MINOR_MAX,
    FILE_RECORDS_MAX,
    JSON_RECORD_BYTES_MAX,
    JSON_RECORD_DEPTH_MAX,
    METADATA_ENTRIES_MAX,
    METADATA_KEY_LENGTH_MAX,
    METADATA_VALUE_LENGTH_MAX,
    REMITTANCE_LENGTH_MAX,
    TEXT_LENGTH_MAX,
)
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.references import find_creditor_reference
from payrec.domain.statements import Batch, Direction, Entry, Money
from payrec.errors import UnreadableFileError
from payrec.formats import text
from payrec.formats.base import ReadOptions, RecordError

_TEXTS: Final[Mapping[str, tuple[str, Callable[[str], str | None], int]]] = {
    "externalId": ("external_id", text.clean, TEXT_LENGTH_MAX),
    "remittance": ("remittance", text.clean_lines, REMITTANCE_LENGTH_MAX),
    "structuredReference": ("structured_reference", text.reference, TEXT_LENGTH_MAX),
    "endToEndId": ("end_to_end_id", text.reference, TEXT_LENGTH_MAX),
    "bankReference": ("bank_reference", text.reference, TEXT_LENGTH_MAX),
    "counterpartyName": ("counterparty_name", text.clean, TEXT_LENGTH_MAX),
    "counterpartyAccount": ("counterparty_account", text.account, TEXT_LENGTH_MAX),
    "ultimateCounterpartyName": ("ultimate_counterparty_name", text.clean, TEXT_LENGTH_MAX),
    "bankTransactionCode": ("bank_transaction_code", text.clean, TEXT_LENGTH_MAX),
    "mandateId": ("mandate_id", text.reference, TEXT_LENGTH_MAX),
    "instructionId": ("instruction_id", text.reference, TEXT_LENGTH_MAX),
    "transactionId": ("transaction_id", text.reference, TEXT_LENGTH_MAX),
    "uetr": ("uetr", text.reference, TEXT_LENGTH_MAX),
    "purposeCode": ("purpose_code", text.clean, TEXT_LENGTH_MAX),
    "returnReason": ("return_reason", text.clean, TEXT_LENGTH_MAX),
}
"""Name in the interface to attribute of ``Entry``, the cleaning, and the characters at most."""

_FIELDS: Final = frozenset(_TEXTS) | {
    "account", "amount", "amountMinor", "batch", "bookingDate", "charges", "currency", "direction", "exchangeRate",
    "groupKey", "metadata", "net", "original", "reversal", "status", "valueDate",
}  # fmt: skip
_DIRECTIONS: Final[Mapping[Any, Direction]] = {"credit": "credit", "debit": "debit"}
_EXCHANGE_RATE: Final = re.compile(r"[0-9]{1,16}(?:\.[0-9]{1,16})?")

_BRACKETS: Final = re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"?|[{}\[\],]')
"""A string, which no line break can be part of, or a character that structures; what is between does not matter."""


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    decoded = dict(pairs)
    if len(decoded) != len(pairs):
        raise ValueError("a name comes twice")
    return decoded


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


# A number with a point becomes a float, and no field takes one: money comes as an integer or as a string.
_scan: Final = make_scanner(
    json.JSONDecoder(object_pairs_hook=_without_duplicates, parse_constant=_no_constant)  # type: ignore[arg-type]  # the stub wants a scanner where the library wants a decoder
)
"""What ``json.loads`` calls, without its passes for blanks: a value from an offset of the text on."""


def decode_value(buffer: str, begin: int) -> tuple[Any, int]:
    """Decode the value that begins at the offset; return it and the offset behind it.

    Raises
    ------
    RecordError
        ``invalid_entry``: not JSON, a name that comes twice, NaN or Infinity, an integer of thousands of digits.
    UnreadableFileError
        ``json_too_deep``.

    """
    try:
        value, end = _scan(buffer, begin)
    except (StopIteration, ValueError, RecursionError) as error:
        # Depth refuses the file, also when the record is torn or wrong in another way.
        refuse_depth(buffer, begin)
        raise RecordError("invalid_entry", "the record is not valid JSON") from error
    if buffer.count("{", begin, end) + buffer.count("[", begin, end) > JSON_RECORD_DEPTH_MAX:
        refuse_depth(buffer, begin)
    return value, end


def refuse_depth(buffer: str, begin: int = 0) -> None:
    """Look at the value that begins at the offset, as far as the longest record goes.

    Raises
    ------
    UnreadableFileError
        ``json_too_deep``; ``line_too_long`` when it does not end within the longest record.

    """
    record_end(buffer, begin, complete=True)


def decode_record(line: str) -> Any:
    """Decode a line that is one value.

    Raises
    ------
    RecordError
        As ``decode_value``, and when something follows the value.
    UnreadableFileError
        ``json_too_deep``, ``line_too_long``.

    """
    if len(line) > JSON_RECORD_BYTES_MAX:
        raise UnreadableFileError("line_too_long", f"a record is longer than {JSON_RECORD_BYTES_MAX} characters")
    line = line.strip(" \t\r\n")
    value, end = decode_value(line, 0)
    if end != len(line):
        raise RecordError("invalid_entry", "the line holds more than one value")
    return value


def record_end(buffer: str, begin: int, *, complete: bool) -> int:
    """Find the end of a value by its brackets alone, whether it is JSON or not.

    ``complete`` says that nothing follows the buffer, so that a value without end ends with it.

    Raises
    ------
    UnreadableFileError
        ``json_too_deep``; ``line_too_long`` when the value does not end within the longest record.

    """
    depth = 0
    limit = begin + JSON_RECORD_BYTES_MAX + 1
    for found in _BRACKETS.finditer(buffer, begin, limit):
        character = found[0]
        if character in "{[":
            depth += 1
            if depth > JSON_RECORD_DEPTH_MAX:
                raise UnreadableFileError("json_too_deep", f"a record is nested deeper than {JSON_RECORD_DEPTH_MAX}")
        elif character in "}]":
            if depth == 0:
                return found.start()
            depth -= 1
            if depth == 0:
                return found.end()
        elif character == "," and depth == 0:
            return found.start()
    if complete and len(buffer) < limit:
        return len(buffer)
    raise UnreadableFileError("line_too_long", f"a record is longer than {JSON_RECORD_BYTES_MAX} characters")


def entry_of(record: Any, options: ReadOptions) -> Entry:
    """Turn a decoded record into an entry.

    Raises
    ------
    RecordError
        ``unknown_field``, ``invalid_entry`` (a wrong type), ``field_too_long``, ``missing_direction``,
        ``missing_currency``, ``unknown_currency``, ``invalid_amount``, ``amount_precision``, ``amount_not_string``,
        ``invalid_date``.

    """
    if not isinstance(record, dict):
        raise RecordError("invalid_entry", "a transaction is an object")
    if not _FIELDS.issuperset(record):
        raise RecordError("unknown_field", "the record has a field that a transaction does not have")
    entry = Entry()
    for name, value in record.items():
        if value is None:
            continue
        known = _TEXTS.get(name)
        if known is not None:
            attribute, cleaned, length_max = known
            if value.__class__ is not str:
                raise RecordError("invalid_entry", f"{name} must be a string")
            if len(value) > length_max:
                raise RecordError("field_too_long", f"{name} is longer than {length_max} characters")
            setattr(entry, attribute, cleaned(value))
        elif name in _SPECIALS:
            _SPECIALS[name](entry, value)
    entry.account = _account(record.get("account"), options)
    entry.direction = _direction(record.get("direction"))
    currency = record.get("currency")
    entry.currency = _currency(options.currency if currency is None else currency)
    entry.amount_minor = _amount(record, entry.currency)
    if entry.structured_reference is None and entry.remittance is not None:
        entry.structured_reference = find_creditor_reference(entry.remittance)
    return entry


def _account(value: Any, options: ReadOptions) -> str | None:
    if value is None:
        return text.own_account(options.account)
    if not isinstance(value, str) or len(value) > TEXT_LENGTH_MAX:
        raise RecordError("invalid_entry", f"account must be a string of at most {TEXT_LENGTH_MAX} characters")
    return text.own_account(value)


def _direction(value: Any) -> Direction:
    direction = _DIRECTIONS.get(value) if isinstance(value, str) else None
    if direction is None:
        raise RecordError("missing_direction", "direction must be credit or debit")
    return direction


def _currency(value: Any) -> str:
    if value is None:
        raise RecordError("missing_currency", "currency is required")
    if not isinstance(value, str) or value not in MINOR_UNITS:
        raise RecordError("unknown_currency", "not an ISO 4217 currency code")
    return value


def _amount(record: Mapping[str, Any], currency: str) -> int:
    minor, decimal = record.get("amountMinor"), record.get("amount")
    if decimal is None:
        return _minor(minor)
    if not isinstance(decimal, str):
        raise RecordError("amount_not_string", 'amount must be a string such as "12.30"')
    if minor is not None:
        raise RecordError("invalid_amount", "either amountMinor or amount, not both")
    return text.amount_to_minor(decimal, MINOR_UNITS[currency])


def _minor(value: Any) -> int:
    if value.__class__ is not int or not 0 <= value <= AMOUNT_MINOR_MAX:
        raise RecordError("invalid_amount", f"amountMinor must be an integer from 0 to {AMOUNT_MINOR_MAX}")
    minor: int = value
    return minor


def _date(value: Any) -> date:
    if not isinstance(value, str):
        raise RecordError("invalid_date", "a date must be a string")
    return _parse_date(value)


_parse_date: Final = lru_cache(maxsize=4096)(text.parse_iso_date)
"""Of days a file has few."""


def _booking_date(entry: Entry, value: Any) -> None:
    entry.booking_on = _date(value)


def _value_date(entry: Entry, value: Any) -> None:
    entry.value_on = _date(value)


def _status(entry: Entry, value: Any) -> None:
    if value not in ("pending", "booked"):
        raise RecordError("invalid_entry", "status must be pending or booked")
    entry.status = value


def _reversal(entry: Entry, value: Any) -> None:
    if not isinstance(value, bool):
        raise RecordError("invalid_entry", "reversal must be true or false")
    entry.reversal = value


def _group_key(entry: Entry, value: Any) -> None:
    if not isinstance(value, str) or len(value) > TEXT_LENGTH_MAX:
        raise RecordError("invalid_entry", f"groupKey must be a string of at most {TEXT_LENGTH_MAX} characters")
    key = text.clean(value)
    if key is not None:
        entry.batch = Batch(key, None, itemised=True)


def _batch(entry: Entry, value: Any) -> None:
    fields = _object(value, {"groupKey", "count", "itemised"})
    _group_key(entry, fields.get("groupKey"))
    count, itemised = fields.get("count"), fields.get("itemised", True)
    right_count = count is None or (count.__class__ is int and 0 <= count <= FILE_RECORDS_MAX)
    if entry.batch is None or not isinstance(itemised, bool) or not right_count:
        raise RecordError("invalid_entry", "batch is {groupKey, count, itemised}")
    entry.batch = Batch(entry.batch.group_key, count, itemised)


def _charges(entry: Entry, value: Any) -> None:
    if not isinstance(value, list):
        raise RecordError("invalid_entry", "charges must be an array")
    entry.charges = [_money(charge) for charge in value]


def _net(entry: Entry, value: Any) -> None:
    entry.net = _money(value)


def _original(entry: Entry, value: Any) -> None:
    fields = _object(value, {"amountMinor", "currency"})
    entry.original = Money(_minor(fields.get("amountMinor")), _currency(fields.get("currency")))


def _exchange_rate(entry: Entry, value: Any) -> None:
    if not isinstance(value, str) or not _EXCHANGE_RATE.fullmatch(value):
        raise RecordError("invalid_entry", "exchangeRate must be a decimal string")
    entry.exchange_rate = value


def _metadata(entry: Entry, value: Any) -> None:
    if not isinstance(value, dict) or len(value) > METADATA_ENTRIES_MAX:
        raise RecordError("invalid_entry", f"metadata must be an object of at most {METADATA_ENTRIES_MAX} strings")
    for name, content in value.items():
        if not isinstance(content, str):
            raise RecordError("invalid_entry", "metadata holds strings")
        if len(name) > METADATA_KEY_LENGTH_MAX or len(content) > METADATA_VALUE_LENGTH_MAX:
            raise RecordError("field_too_long", "a name or a value of metadata is too long")
        key = text.clean(name)
        if key is not None:
            entry.metadata[key] = text.clean(content) or ""


def _money(value: Any) -> Money:
    fields = _object(value, {"amountMinor", "currency", "direction"})
    return Money(
        _minor(fields.get("amountMinor")), _currency(fields.get("currency")), _direction(fields.get("direction"))
    )


def _object(value: Any, names: set[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RecordError("invalid_entry", "an object was expected")
    if not names.issuperset(value):
        raise RecordError("unknown_field", "the record has a field that a transaction does not have")
    return value


_SPECIALS: Final[Mapping[str, Callable[[Entry, Any], None]]] = {
    "batch": _batch,
    "bookingDate": _booking_date,
    "charges": _charges,
    "exchangeRate": _exchange_rate,
    "groupKey": _group_key,
    "metadata": _metadata,
    "net": _net,
    "original": _original,
    "reversal": _reversal,
    "status": _status,
    "valueDate": _value_date,
}
"""Fields that are no plain text; amount, currency and direction depend on each other and come last."""
