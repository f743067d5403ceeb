"""How values look to people: money, days and instants as the tenant's locale writes them, and texts of strangers."""

from __future__ import annotations

import decimal
import functools
import re
import unicodedata
from datetime import date, datetime
from typing import Final
from zoneinfo import ZoneInfo

from babel import Locale, UnknownLocaleError
from babel.dates import format_date, format_datetime
from babel.numbers import format_decimal, get_decimal_symbol, get_group_symbol, get_minus_sign_symbol
from markupsafe import Markup, escape

from payrec.constants.console import FOREIGN_LENGTH, FOREIGN_LENGTH_MAX
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.money import parse_decimal

_NO_BREAK: Final = "\u00a0"
_DIGITS_MAX: Final = 100
_KEPT: Final = frozenset("\n\t")
_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_AMOUNT: Final = re.compile(r"(?<![\w.,-])(\d+(?:\.\d+)?) ([A-Z]{3})(?!\w)")
"""An amount in a sentence of the engine."""
_STACK_MAX: Final = 4
"""Marks on one letter; more are drawn over the lines above and below."""


@functools.cache
def locale_of(tag: str) -> Locale:
    """Return the locale of a tenant's setting; one that is not known is written as the nearest that is, or English."""
    parts = tag.replace("_", "-").split("-")
    for length in range(len(parts), 0, -1):
        try:
            return Locale.parse("-".join(parts[:length]), sep="-")
        except (UnknownLocaleError, ValueError):
            continue
    return Locale.parse("en")


def symbols(locale: Locale) -> dict[str, str]:
    """Return the signs that a locale writes numbers with, by what browsers call these parts of a number."""
    return {
        "decimal": str(get_decimal_symbol(locale)),
        "group": str(get_group_symbol(locale)),
        "minus": str(get_minus_sign_symbol(locale)),
    }


def number(value: int, locale: Locale) -> str:
    """Return a whole number with the locale's groups."""
    with decimal.localcontext() as context:
        context.prec = _DIGITS_MAX
        return str(format_decimal(value, locale=locale))


def amount(amount_minor: int, currency: str, locale: Locale) -> str:
    """Return minor units as a number with all digits of its currency, without the currency."""
    digits = MINOR_UNITS.get(currency, 2)
    sign = str(get_minus_sign_symbol(locale)) if amount_minor < 0 else ""
    whole, fraction = divmod(abs(amount_minor), 10**digits)
    text = number(whole, locale)
    if digits:
        text += str(get_decimal_symbol(locale)) + str(fraction).rjust(digits, "0")
    return sign + text


def money(amount_minor: int, currency: str, locale: Locale) -> str:
    """Return minor units with their currency's code, which no line break parts: ``1,234.50 EUR``."""
    return f"{amount(amount_minor, currency, locale)}{_NO_BREAK}{currency}"


def percent(share: float, locale: Locale) -> str:
    """Return a share from 0 to 1 in per cent, with one digit."""
    per_mille = round(share * 1000)
    whole, tenth = divmod(per_mille, 10)
    return f"{number(whole, locale)}{get_decimal_symbol(locale)}{tenth}{_NO_BREAK}%"


def day(value: date, locale: Locale) -> str:
    """Return a day."""
    return str(format_date(value, format="medium", locale=locale))


def instant(value: datetime, locale: Locale, timezone: str) -> str:
    """Return an instant as the tenant's clocks show it."""
    return str(format_datetime(value, format="medium", tzinfo=ZoneInfo(timezone), locale=locale))


def evidence(text: str, feature: str, currency: str, locale: Locale) -> str:
    """Return what the evidence says of an amount or of days as everything else is written; all else as it is.

    ``currency`` is that of the side: an amount of one currency stands beside the same amount in another one.
    """
    try:
        if feature == "amount":
            return money(parse_decimal(text, currency), currency, locale)
        if feature == "date":
            return ", ".join(day(date.fromisoformat(one), locale) for one in text.split(", "))
    except ValueError:
        return text
    return text


def sentence(text: str | None, locale: Locale) -> str:
    """Return what the engine says, with its amounts as everything else is written: ``1,250.00 EUR``."""

    def written(found: re.Match[str]) -> str:
        try:
            return money(parse_decimal(found[1], found[2]), found[2], locale)
        except ValueError:
            return found[0]

    return _AMOUNT.sub(written, text or "")


def visible(text: str) -> Markup:
    """Return a text in which nothing is hidden, as HTML: what cannot be seen, or turns others, is named."""
    pieces: list[str] = []
    marks = 0
    for character in text:
        marks = marks + 1 if unicodedata.category(character) in {"Mn", "Me"} else 0
        if _is_hidden(character) or marks > _STACK_MAX:
            pieces.append(f'<span class="hidden-character">{_name(character)}</span>')
        else:
            pieces.append(str(escape(character)))
    return Markup("".join(pieces))  # noqa: S704 - each piece is escaped above


def plain(text: str | None, *, length: int = FOREIGN_LENGTH) -> str:
    """Return a foreign text as text, cut, for where there can be no HTML: a title, an option, an attribute."""
    cut = (text or "")[:length] + ("…" if len(text or "") > length else "")
    return "".join(_name(c) if _is_hidden(c) else c for c in cut)


def foreign(text: str | None, *, all_of_it: str, length: int = FOREIGN_LENGTH, is_short: bool = False) -> Markup:
    """Return a text of a file or of a client as HTML, apart from what surrounds it.

    A long one is cut, and unfolds; ``all_of_it`` is what is written beside it then. ``is_short`` cuts it alone, for
    places within a link or a line of a list, which lead to all of it.
    """
    if not text:
        return Markup("")
    if len(text) <= length:
        return _isolated(text)
    begin = _isolated(text[:length] + "…")
    if is_short:
        return begin
    whole = text if len(text) <= FOREIGN_LENGTH_MAX else text[:FOREIGN_LENGTH_MAX] + "…"
    return Markup(
        '<details class="foreign-long"><summary>{} <span class="more">{}</span></summary>{}</details>'
    ).format(begin, all_of_it, _isolated(whole))


def _isolated(text: str) -> Markup:
    return Markup('<bdi class="foreign">{}</bdi>').format(visible(text))


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in _HIDDEN_CATEGORIES and character not in _KEPT


def _name(character: str) -> str:
    """Return what stands for a character that cannot be seen: its picture, or its number."""
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"U+{code:04X}"
