"""The saved profile of a data source: what its tables look like, where detection shall not decide.

Every key may be absent, which means: detect. A profile that is wrong is told key by key, by JSON pointer.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from payrec.constants import (
    CSV_COLUMNS_MAX,
    METADATA_ENTRIES_MAX,
    PROFILE_FOOTER_ROWS_MAX,
    PROFILE_HEADER_ROW_MAX,
    PROFILE_PATTERN_LENGTH_MAX,
    PROFILE_PATTERN_REPEATS_MAX,
    PROFILE_RULES_MAX,
    PROFILE_SHEET_MAX,
    TEXT_LENGTH_MAX,
)
from payrec.domain.currencies import MINOR_UNITS
from payrec.errors import FieldError, ValidationFailedError
from payrec.formats.csv.dates import compile_format

COLUMN_ROLES: Final = (
    "bookingDate",
    "valueDate",
    "amount",
    "debit",
    "credit",
    "currency",
    "account",
    "balance",
    "externalId",
    "remittance",
    "endToEndId",
    "counterpartyName",
    "ultimateCounterpartyName",
    "payerName",
    "payeeName",
    "counterpartyAccount",
    "counterpartyBic",
    "structuredReference",
    "bankTransactionCode",
    "originalAmount",
    "originalCurrency",
    "net",
    "fee",
)
"""What a column can be, in the words of ``columns``."""

_FORMATS: Final = (
    *("auto", "camt", "camt.052", "camt.053", "camt.054", "mt940", "mt942", "bai2", "ofx", "csv", "xlsx", "json"),
    *("jsonl", "stripe", "adyen", "paypal_stl", "paypal_trr", "coda"),
)
_ENCODING: Final = re.compile(
    r"utf-8|utf-16(?:-[lb]e)?|ascii|cp(?:437|85[0258]|866|125[0-8])|iso8859-[0-9]{1,2}|koi8-[ru]|mac-(?:roman|latin2)"
)
"""Names as ``codecs`` normalises them: those that carry bank tables."""

_REPEAT: Final = re.compile(r"[*+{]")
_UNSAFE: Final = re.compile(r"\)[*+{?]|\\[1-9]|\(\?(?!:|i\))|[*+?}][*+{]")
_RULE_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")

Check = Callable[[Any], str | None]
"""Returns what is wrong with the value, or None."""


def compile_match(pattern: str) -> re.Pattern[str]:
    """Compile ``matches``: a regular expression, looked for anywhere in the cell, in any case.

    Only expressions whose time is bounded: no repeated groups, no back references, at most two open repeats.

    Raises
    ------
    ValueError
        When it is none of those.

    """
    if len(pattern) > PROFILE_PATTERN_LENGTH_MAX:
        raise ValueError(f"must have at most {PROFILE_PATTERN_LENGTH_MAX} characters")
    plain = re.sub(r"\\[^1-9]|\[[^\]]*\]", "x", pattern)
    if _UNSAFE.search(plain) or len(_REPEAT.findall(plain)) > PROFILE_PATTERN_REPEATS_MAX:
        raise ValueError("may not repeat groups, refer back, look around or have more than two open repeats")
    try:
        return re.compile(pattern, re.IGNORECASE)
    except (re.error, OverflowError):
        raise ValueError("is not a regular expression") from None


def _text(value: Any) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return "must be a text"
    return None if len(value) <= TEXT_LENGTH_MAX else f"must have at most {TEXT_LENGTH_MAX} characters"


def _one_of(*allowed: str) -> Check:
    return lambda value: None if isinstance(value, str) and value in allowed else f"must be one of {', '.join(allowed)}"


def _number(low: int, high: int) -> Check:
    def check(value: Any) -> str | None:
        fits = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return None if fits else f"must be a whole number from {low} to {high}"

    return check


def _header_row(value: Any) -> str | None:
    return None if value is None else _number(1, PROFILE_HEADER_ROW_MAX)(value)


def _delimiter(value: Any) -> str | None:
    good = isinstance(value, str) and len(value) == 1 and value not in '"\r\n\0' and not value.isalnum()
    return None if good else "must be one character, neither a quote nor a letter or digit"


def _encoding(value: Any) -> str | None:
    try:
        known = isinstance(value, str) and len(value) <= 40 and _ENCODING.fullmatch(codecs.lookup(value).name)
    except (LookupError, ValueError):
        known = None
    return None if known else "is not an encoding that can be read"


def _currency(value: Any) -> str | None:
    return None if isinstance(value, str) and value in MINOR_UNITS else "must be an ISO 4217 code"


def _date_format(value: Any) -> str | None:
    if not isinstance(value, str):
        return "must be a text"
    try:
        compile_format(value)
    except ValueError as error:
        return str(error)
    return None


def _pattern(value: Any) -> str | None:
    if not isinstance(value, str) or not value:
        return "must be a text"
    try:
        compile_match(value)
    except ValueError as error:
        return str(error)
    return None


def _rule_name(value: Any) -> str | None:
    good = isinstance(value, str) and _RULE_NAME.fullmatch(value)
    return None if good else "must be a name of lower-case letters, digits and _"


def _column(value: Any) -> str | None:
    if isinstance(value, int):
        return _number(0, CSV_COLUMNS_MAX - 1)(value)
    return _text(value) and "must be a column's number from 0 or its heading"


def _errors(pointer: str, value: Any, check: Check) -> Iterator[FieldError]:
    detail = check(value)
    if detail is not None:
        yield FieldError(pointer=pointer, code="invalid", detail=detail)


def _list(pointer: str, value: Any, check: Check, longest: int) -> Iterator[FieldError]:
    if not isinstance(value, (list, tuple)) or len(value) > longest:
        yield FieldError(pointer=pointer, code="invalid", detail=f"must be a list of at most {longest}")
        return
    for index, item in enumerate(value):
        yield from _errors(f"{pointer}/{index}", item, check)


def _object(pointer: str, value: Any, checks: Mapping[str, Check], required: tuple[str, ...]) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        yield FieldError(pointer=pointer, code="invalid", detail="must be an object")
        return
    for key in required:
        if key not in value:
            yield FieldError(pointer=f"{pointer}/{key}", code="required", detail="is required")
    for key, item in value.items():
        below = f"{pointer}/{_escape(str(key))}"
        check = checks.get(key)
        if check is None:
            yield FieldError(pointer=below, code="unknown_field", detail="is not known here")
        else:
            yield from _errors(below, item, check)


def _escape(token: str) -> str:
    return token[:64].replace("~", "~0").replace("/", "~1")


def _direction(pointer: str, value: Any) -> Iterator[FieldError]:
    marks: dict[str, Check] = {"column": _column, "credit": lambda _: None, "debit": lambda _: None}
    yield from _object(pointer, value, marks, ("column",))
    if isinstance(value, Mapping):
        for side in ("credit", "debit"):
            if side in value:
                yield from _list(f"{pointer}/{side}", value[side], _text, PROFILE_RULES_MAX)


def _columns(pointer: str, value: Any) -> Iterator[FieldError]:
    if isinstance(value, Mapping) and isinstance(value.get("remittance"), (list, tuple)):
        yield from _list(f"{pointer}/remittance", value["remittance"], _column, PROFILE_RULES_MAX)
        value = {key: item for key, item in value.items() if key != "remittance"}
    yield from _object(pointer, value, dict.fromkeys(COLUMN_ROLES, _column), ())


def _skip_when(pointer: str, value: Any) -> Iterator[FieldError]:
    yield from _list(pointer, value, lambda _: None, PROFILE_RULES_MAX)
    if isinstance(value, (list, tuple)):
        checks: dict[str, Check] = {"column": _column, "matches": _pattern, "rule": _rule_name}
        for index, item in enumerate(value[:PROFILE_RULES_MAX]):
            yield from _object(f"{pointer}/{index}", item, checks, ("column", "matches", "rule"))


def _pending_when(pointer: str, value: Any) -> Iterator[FieldError]:
    yield from _object(pointer, value, {"column": _column, "matches": _pattern}, ("column", "matches"))


def _bai2(pointer: str, value: Any) -> Iterator[FieldError]:
    yield from _object(pointer, value, {"directions": lambda _: None}, ())
    if isinstance(value, Mapping) and isinstance(value.get("directions", {}), Mapping):
        side = _one_of("credit", "debit")
        for code, direction in value.get("directions", {}).items():
            known = isinstance(code, str) and len(code) == 3 and code.isdigit() and code.isascii()
            below = f"{pointer}/directions/{_escape(str(code))}"
            yield from _errors(below, direction, side if known else lambda _: "must be a type code of three digits")
    elif isinstance(value, Mapping):
        yield FieldError(pointer=f"{pointer}/directions", code="invalid", detail="must be an object")


_SIMPLE: Final[dict[str, Check]] = {
    "format": _one_of(*_FORMATS),
    "encoding": _encoding,
    "delimiter": _delimiter,
    "decimal": _one_of(".", ","),
    "headerRow": _header_row,
    "footerRows": _number(0, PROFILE_FOOTER_ROWS_MAX),
    "sheet": lambda value: _text(value) if not isinstance(value, int) else _number(0, PROFILE_SHEET_MAX)(value),
    "dateOrder": _one_of("ymd", "dmy", "mdy"),
    "dateFormat": _date_format,
    "currency": _currency,
    "account": _text,
    "sign": _one_of("as_is", "inverted"),
    "impliedDecimals": _number(0, 8),
}
_COMPOUND: Final[dict[str, Callable[[str, Any], Iterator[FieldError]]]] = {
    "direction": _direction,
    "skipWhen": _skip_when,
    "pendingWhen": _pending_when,
    "columns": _columns,
    "bai2": _bai2,
    "metadata": lambda pointer, value: _list(pointer, value, _column, METADATA_ENTRIES_MAX),
}


def profile_of(given: Mapping[str, Any], family: str) -> dict[str, Any]:
    """Return the profile, checked, if it is one for this family; a profile of another format says nothing here.

    Raises
    ------
    ValidationFailedError
        As ``validate_profile``.

    """
    profile = dict(given)
    if profile.get("format") not in (None, "auto", family):
        return {}
    validate_profile(profile)
    return profile


def validate_profile(profile: Mapping[str, Any]) -> None:
    """Check a profile as a whole, before it is saved or used.

    Raises
    ------
    ValidationFailedError
        With one ``FieldError`` for each wrong key, below ``/profile``.

    """
    errors: list[FieldError] = []
    if not isinstance(profile, Mapping):
        raise ValidationFailedError.of(FieldError(pointer="/profile", code="invalid", detail="must be an object"))
    for key, value in profile.items():
        pointer = f"/profile/{_escape(str(key))}"
        if key in _SIMPLE:
            errors.extend(_errors(pointer, value, _SIMPLE[key]))
        elif key in _COMPOUND:
            errors.extend(_COMPOUND[key](pointer, value))
        else:
            errors.append(FieldError(pointer=pointer, code="unknown_field", detail="is not known here"))
    if errors:
        raise ValidationFailedError.of(*errors)
