"""What somebody types to find something: an id, an amount as their country writes it, and a text in any case.

Pure. An amount is read without its currency, so it stands for other minor units in each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from payrec.constants import AMOUNT_MINOR_MAX
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.identifiers import parse_uuid

_DIGITS_MAX: Final = 16
"""Digits before the decimal separator; more are no amount of any currency."""

_PLACES_MAX: Final = 4
"""Digits after it: as many as the currency with the most has."""

_GROUP: Final = 3
"""Digits of a group of thousands."""

_SPACES: Final = "\u0020\u00a0\u2009\u202f"
_APOSTROPHES: Final = "'\u2019"
_SIGNS: Final = "+\u2212\u2013-"
"""Plus, and what is typed or copied for minus; the hyphen last, so that it makes no range of characters."""

_AMOUNT: Final = re.compile(
    rf"(?:(?P<before>[A-Za-z]{{3}})[{_SPACES}]?)?(?P<sign>[{_SIGNS}])?[{_SPACES}]?"
    rf"(?P<body>[0-9](?:[0-9.,{_SPACES}{_APOSTROPHES}]*[0-9])?)"
    rf"(?P<trailing>[{_SIGNS}])?(?:[{_SPACES}]?(?P<after>[A-Za-z]{{3}}))?",
    re.ASCII,
)
_SEPARATOR: Final = re.compile(rf"[.,{_SPACES}{_APOSTROPHES}]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SoughtAmount:
    """An amount as it was typed: digits, a sign if there was one, and a currency if one was named."""

    whole: int
    fraction: str
    """Digits after the decimal separator, as they were typed."""
    sign: int
    """1 and -1 as typed; 0 where there was none, which is either."""
    currency: str | None

    @property
    def direction(self) -> str | None:
        """Which way the money goes; None for either."""
        return {1: "credit", -1: "debit"}.get(self.sign)

    def minor(self, places: int) -> int | None:
        """Return the minor units in currencies with so many digits; None where that is no amount of theirs."""
        kept = self.fraction.rstrip("0")
        if len(kept) > places:
            return None
        found = self.whole * 10**places + int(kept.ljust(places, "0") or 0)
        return found if found <= AMOUNT_MINOR_MAX else None

    def minors(self) -> dict[str, int]:
        """Return the minor units in each currency that has the amount, or in the one that was named."""
        known = MINOR_UNITS if self.currency is None else {self.currency: MINOR_UNITS[self.currency]}
        return {code: minor for code, places in known.items() if (minor := self.minor(places)) is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """What was typed, read in every way that it can be."""

    text: str
    """Without the space around it."""
    id: UUID | None
    amount: SoughtAmount | None


def sought(typed: str, *, decimal: str) -> Sought:
    """Read what was typed; ``decimal`` is the decimal separator of the tenant's locale.

    The locale decides only where both readings are possible: ``1.234`` has a fraction in English and is a thousand in
    German, but ``1,234.50`` and ``1.234,50`` are one amount wherever they are typed.
    """
    text = typed.strip()
    return Sought(text=text, id=parse_uuid(text), amount=_amount(text, decimal))


def read_decimal(typed: str, *, decimal: str, currency: str | None = None) -> str | None:
    """Return an amount that was typed as the interface takes it (``"1234.5"``), or None where it is no plain amount.

    It may come with the code of ``currency``, as amounts stand everywhere and are copied.
    """
    found = _amount(typed.strip(), decimal)
    if found is None or found.sign or found.currency not in {None, currency}:
        return None
    return f"{found.whole}.{found.fraction}" if found.fraction else str(found.whole)


def _amount(text: str, decimal: str) -> SoughtAmount | None:
    found = _AMOUNT.fullmatch(text)
    if found is None:
        return None
    codes = [code.upper() for code in (found["before"], found["after"]) if code]
    signs = [sign for sign in (found["sign"], found["trailing"]) if sign]
    if len(codes) > 1 or len(signs) > 1 or any(code not in MINOR_UNITS for code in codes):
        return None
    for whole, fraction in _readings(found["body"], decimal):
        if len(whole) <= _DIGITS_MAX and len(fraction) <= _PLACES_MAX:
            sign = 0 if not signs else 1 if signs[0] == "+" else -1
            return SoughtAmount(whole=int(whole), fraction=fraction, sign=sign, currency=next(iter(codes), None))
    return None


def _readings(body: str, decimal: str) -> Iterator[tuple[str, str]]:
    """Return what the digits can be as whole and fraction, the likeliest first."""
    separators = _SEPARATOR.findall(body)
    if not separators:
        yield body, ""
        return
    last = separators[-1]
    whole, _, fraction = body.rpartition(last)
    can_end = last in ".," and separators.count(last) == 1
    grouped = _ungrouped(body)
    fractional = _ungrouped(whole) if can_end else None
    readings = [(grouped, ""), (fractional, fraction)]
    if last == decimal:
        readings.reverse()
    for digits, rest in readings:
        if digits is not None:
            yield digits, rest


def _ungrouped(body: str) -> str | None:
    """Return the digits of a whole number whose groups are of three, of two before the last in India; None if not."""
    separators = set(_SEPARATOR.findall(body))
    first, *others = _SEPARATOR.split(body)
    if not others:
        return body
    sizes = {len(group) for group in others[:-1]}
    size = min(sizes, default=_GROUP)
    is_even = len(separators) == 1 and len(sizes) <= 1 and len(others[-1]) == _GROUP
    is_grouped = is_even and size in {_GROUP - 1, _GROUP} and 1 <= len(first) <= size and first[0] != "0"
    return "".join((first, *others)) if is_grouped else None
