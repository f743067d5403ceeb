"""Amounts as banks write them in tables: which character is the decimal sign, and text to minor units.

``1.234,56``, ``1,234.56``, ``1 234,56``, ``1'234.56``, ``(5.00)``, ``5.00-``, ``$5.00``, ``5,00 EUR`` are
all amounts. ``1.234`` alone is a doubt: one thousand two hundred and thirty-four, or one and a bit.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal

from payrec.constants import AMOUNT_TEXT_LENGTH_MAX
from payrec.domain.currencies import MINOR_UNITS
from payrec.formats.base import RecordError
from payrec.formats.text import amount_to_minor

Decimal = Literal[".", ","]
AmountReader = Callable[[str], int]
"""Text to signed minor units; raises ``RecordError``."""

_UNWRAP: Final = re.compile(r'="(.*)"', re.DOTALL)

CURRENCY_SIGNS: Final = {"€": "EUR", "£": "GBP", "zł": "PLN", "Kč": "CZK", "Ft": "HUF", "US$": "USD", "₺": "TRY"}
"""Signs that mean one currency only. ``$`` and ``kr`` mean several, and prove nothing."""

_SHARED_SIGNS: Final[dict[str, frozenset[str]]] = {
    "$": frozenset(
        {
            *("ARS", "AUD", "BBD", "BMD", "BND", "BRL", "BSD", "BZD", "CAD", "CLP", "COP", "CUP", "DOP", "FJD", "GYD"),
            *("HKD", "JMD", "KYD", "LRD", "MOP", "MXN", "NAD", "NIO", "NZD", "SBD", "SGD", "SRD", "TOP", "TTD", "TWD"),
            *("USD", "UYU", "WST", "XCD", "ZWG"),
        }
    ),
    "£": frozenset({"EGP", "FKP", "GBP", "GIP", "LBP", "SDG", "SHP", "SSP", "SYP"}),
    "¥": frozenset({"CNY", "JPY"}),
    "kr": frozenset({"DKK", "ISK", "NOK", "SEK"}),
    "₽": frozenset({"RUB"}),
    "R$": frozenset({"BRL"}),
    "A$": frozenset({"AUD"}),
    "AU$": frozenset({"AUD"}),
    "CA$": frozenset({"CAD"}),
    "C$": frozenset({"CAD", "NIO"}),
    "HK$": frozenset({"HKD"}),
    "NZ$": frozenset({"NZD"}),
    "S$": frozenset({"SGD"}),
}
"""Signs and all currencies that they may mean, as far as they are more than the one of ``CURRENCY_SIGNS``."""

_MINUS: Final = "\\-\N{MINUS SIGN}\N{EN DASH}\N{FIGURE DASH}\N{HYPHEN}\N{NON-BREAKING HYPHEN}\N{SMALL HYPHEN-MINUS}"
_SPACES: Final = re.compile(r"\s+")
# Over a text whose blanks are single spaces: runs of optional blanks would backtrack.
_SPLIT: Final = re.compile(
    rf"(?P<open>\()? ?(?P<sign1>[+{_MINUS}])? ?(?P<cur1>[^\W\d_]{{1,3}}\$?|[$€£¥₺₽])? ?(?P<sign2>[+{_MINUS}])? ?"
    r"(?P<number>[.,]?[0-9](?:[0-9.,'’ ]*[0-9])?(?P<tail>[.,])?)"
    rf" ?(?P<sign3>[+{_MINUS}])? ?(?P<close>\))? ?(?P<cur2>[^\W\d_]{{1,3}}\.?|[$€£¥₺₽])? ?(?P<sign4>[+{_MINUS}])?"
)
_GROUPED: Final = {
    # Grouped by thousands, or in India by hundreds of them: 12,34,567.00.
    ".": re.compile(
        r"(?:[0-9]*|[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,2}(?:,[0-9]{2})+,[0-9]{3}|[0-9]{1,3}(?:['’ ][0-9]{3})+)"
        r"(?:\.[0-9]*)?"
    ),
    ",": re.compile(r"(?:[0-9]*|[0-9]{1,3}(?:\.[0-9]{3})+|[0-9]{1,3}(?:['’ ][0-9]{3})+)(?:,[0-9]*)?"),
}
_GROUPS_OUT: Final = {".": str.maketrans("", "", ",'’ "), ",": str.maketrans(",", ".", ".'’ ")}
_MARKS_AFTER: Final = {"CR": 1, "C": 1, "H": 1, "DR": -1, "DB": -1, "D": -1, "S": -1, "OD": -1}
"""Letters behind an amount that say its side (``5.00 CR``; ``5,00 S`` in German tables)."""


class Exact(str):
    """A cell that is a number (``-1234.5``) or a date (ISO 8601) and no text: it means itself in every dialect."""

    __slots__ = ()


def bare(cell: str) -> str:
    """Return the text of a cell without ``="…"`` and blanks around it; what is exact stays so."""
    return cell if cell.__class__ is Exact else unwrap(cell).strip()


def unwrap(text: str) -> str:
    """Return the cell without the ``="…"`` that keeps spreadsheets from reading a number."""
    if text.startswith('="') and (found := _UNWRAP.fullmatch(text)) is not None:
        return found[1].replace('""', '"')
    return text


def split_amount(text: str) -> tuple[int, str, str | None] | None:
    """Return sign (1 or -1), the bare number with blanks as spaces, and the currency text; None: no amount."""
    if len(text) > AMOUNT_TEXT_LENGTH_MAX:
        return None
    found = _SPLIT.fullmatch(_SPACES.sub(" ", unwrap(text)).strip())
    if found is None or (found["open"] is None) != (found["close"] is None):
        return None
    # "5,-" is a price without cents, not a negative amount.
    sign3 = None if found["tail"] else found["sign3"]
    signs = [sign for sign in (found["sign1"], found["sign2"], sign3, found["sign4"]) if sign]
    if len(signs) > 1 or (found["cur1"] and found["cur2"]):
        return None
    currency = found["cur1"] or found["cur2"]
    negative = found["open"] is not None or (bool(signs) and signs[0] != "+")
    if currency is not None and (side := _MARKS_AFTER.get(currency.upper().rstrip("."))) is not None:
        if found["cur1"] or negative:
            return None
        negative, currency = side < 0, None
    elif currency is not None and found["cur2"] and len(currency) == 1 and currency.isalpha() and currency not in "RL":
        return None  # A letter behind an amount is a mark, of a side that is not known, or thousands.
    return (-1 if negative else 1), found["number"], currency


def is_amount(text: str) -> bool:
    """Whether the text is an amount under at least one decimal sign."""
    parts = split_amount(text)
    return parts is not None and any(shape.fullmatch(parts[1]) for shape in _GROUPED.values())


def currency_of_text(text: str) -> str | None:
    """Return the currency that a sign or a code names without doubt (``€``, ``EUR``), else None."""
    if text in CURRENCY_SIGNS:
        return CURRENCY_SIGNS[text]
    code = text.strip(" .").upper()
    return code if code in MINOR_UNITS else None


def contradicts(text: str, currency: str) -> bool:
    """Whether the sign or the code beside an amount means other currencies only; of a text unknown that is not said."""
    known = text.strip(" .")
    shared = _SHARED_SIGNS.get(known) or _SHARED_SIGNS.get(known.lower()) or _SHARED_SIGNS.get(known.upper())
    if shared is not None:
        return currency not in shared
    named = currency_of_text(known)
    return named is not None and named != currency


def decimal_evidence(text: str) -> Decimal | Literal["doubt"] | None:
    """Say which decimal sign the amount proves; ``doubt``: it fits both (``1.234``); None: it has no such sign."""
    parts = split_amount(text)
    if parts is None:
        return None
    number = parts[1]
    dot, comma = number.rfind("."), number.rfind(",")
    if dot < 0 and comma < 0:
        return None
    fits_dot = _GROUPED["."].fullmatch(number) is not None
    fits_comma = _GROUPED[","].fullmatch(number) is not None
    if fits_dot and fits_comma:
        # A leading zero is never grouped: 0.125 has decimals.
        if number.startswith("0"):
            return "." if dot >= 0 else ","
        return "doubt"
    if fits_dot:
        return "."
    return "," if fits_comma else None


def amount_reader(
    decimal: Decimal | None, digits: int, implied_decimals: int | None = None, *, currency: str | None = None
) -> AmountReader:
    """Make the function that reads the amounts of one column in one currency.

    ``digits`` is the exponent of the currency. ``decimal`` None: the file has no decimal sign at all. With
    ``implied_decimals`` the amounts are whole numbers whose last digits are the decimals. Amounts that name another
    currency than ``currency`` are refused as ``currency_mismatch``.
    """
    sign_character: Decimal = decimal or "."
    shape, groups_out = _GROUPED[sign_character], _GROUPS_OUT[sign_character]

    def read_any(text: str) -> int:
        if text.__class__ is Exact:
            return _read_exact(text, digits, implied_decimals)
        parts = split_amount(text)
        if parts is None:
            raise RecordError("invalid_amount", "the amount is not a number")
        sign, number, named = parts
        if named is not None and currency is not None and contradicts(named, currency):
            raise RecordError("currency_mismatch", "the amount names another currency than its column, or the file's")
        if shape.fullmatch(number) is None or (decimal is None and ("." in number or "," in number)):
            raise RecordError("invalid_amount", "the amount does not have the form of the file's amounts")
        plain = number.translate(groups_out)
        if implied_decimals is not None:
            plain = _imply(plain, implied_decimals)
        return sign * amount_to_minor(plain, digits)

    return _with_shortcut(read_any, sign_character) if implied_decimals is None and digits == 2 else read_any


def _read_exact(text: str, digits: int, implied_decimals: int | None) -> int:
    sign, plain = (-1, text[1:]) if text[0] == "-" else (1, str(text))
    if implied_decimals is not None:
        plain = _imply(plain, implied_decimals)
    return sign * amount_to_minor(plain, digits)


def _imply(plain: str, decimals: int) -> str:
    if "." in plain:
        raise RecordError("invalid_amount", "an amount with implied decimals has a decimal sign")
    plain = plain.rjust(decimals + 1, "0")
    return f"{plain[:-decimals]}.{plain[-decimals:]}" if decimals else plain


def _with_shortcut(read_any: AmountReader, decimal: Decimal) -> AmountReader:
    """Make a function that reads the usual forms of an amount with two decimals itself, four times as fast."""
    group = "," if decimal == "." else "."

    def read(text: str) -> int:
        # 16 characters hold 15 digits, which are in range.
        if text[-3:-2] == decimal and len(text) < 17 and text.isascii():
            joined = text[:-3] + text[-2:]
            if joined.isdigit() or (joined[0] == "-" and joined[1:].isdigit()):
                return int(joined)
            # 1.234,56 to 999.999,99; what is longer can go the slow way.
            unsigned = text[1:] if text[0] == "-" else text
            if text[-7:-6] == group and 8 <= len(unsigned) <= 10:
                joined = unsigned[:-7] + unsigned[-6:-3] + unsigned[-2:]
                if joined.isdigit():
                    return int(joined) if unsigned is text else -int(joined)
        return read_any(text)

    return read
