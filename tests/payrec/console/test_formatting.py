"""Money and days as locales write them, and texts of strangers as what they are."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, date, datetime
from html import unescape

import pytest
from babel import Locale
from hypothesis import given
from hypothesis import strategies as st

from payrec.console import formatting
from payrec.constants.console import FOREIGN_LENGTH, FOREIGN_LENGTH_MAX
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.money import format_minor

NBSP, NARROW = "\u00a0", "\u202f"


@pytest.mark.parametrize(
    ("minor", "currency", "locale", "written"),
    [
        (123456789, "EUR", "en", "1,234,567.89 EUR"),
        (123456789, "EUR", "de", "1.234.567,89 EUR"),
        (123456789, "EUR", "de-CH", "1’234’567.89 EUR"),
        (123456789, "INR", "en-IN", "12,34,567.89 INR"),
        (-5, "EUR", "en", "-0.05 EUR"),
        (1234, "JPY", "ja", "1,234 JPY"),
        (1234, "BHD", "en", "1.234 BHD"),
        (0, "EUR", "sv", "0,00 EUR"),
        (100, "XYZ", "en", "1.00 XYZ"),
    ],
)
def test_money_is_written_as_the_locale_writes_it(minor: int, currency: str, locale: str, written: str) -> None:
    found = formatting.money(minor, currency, formatting.locale_of(locale))
    assert found.replace(NBSP, " ").replace(NARROW, " ") == written


@given(st.integers(-(10**40), 10**40), st.sampled_from(sorted(MINOR_UNITS)), st.sampled_from(["en", "de", "fr", "hi"]))
def test_no_digit_of_an_amount_is_lost(minor: int, currency: str, locale: str) -> None:
    written = formatting.amount(minor, currency, formatting.locale_of(locale))
    digits = re.sub(r"[^0-9]", "", "".join(str(unicodedata.digit(c)) if c.isdigit() else c for c in written))
    assert digits == re.sub(r"[^0-9]", "", format_minor(minor, currency))
    assert any(sign in written for sign in "-−") == (minor < 0)


@pytest.mark.parametrize(
    ("tag", "found"),
    [("de-AT", "de_AT"), ("de-XX", "de"), ("zz", "en"), ("sr-Latn-RS", "sr_Latn_RS"), ("zh-Hant", "zh_Hant")],
)
def test_a_locale_is_the_nearest_that_is_known(tag: str, found: str) -> None:
    assert str(formatting.locale_of(tag)) == found


@pytest.mark.parametrize(
    ("text", "feature", "currency", "written"),
    [
        ("24059.94", "amount", "EUR", "24.059,94\u00a0EUR"),
        ("1500", "amount", "JPY", "1.500\u00a0JPY"),
        ("2026-03-12", "date", "EUR", "12.03.2026"),
        ("2026-03-12, 2026-04-01", "date", "EUR", "12.03.2026, 01.04.2026"),
        ("from 10 to 20", "amount", "EUR", "from 10 to 20"),
        ("2026-03-12", "reference", "EUR", "2026-03-12"),
    ],
    ids=["amount", "no decimals", "day", "days", "no amount", "text"],
)
def test_evidence_is_written_as_everything_else(text: str, feature: str, currency: str, written: str) -> None:
    assert formatting.evidence(text, feature, currency, formatting.locale_of("de")) == written


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("the payment sums to its 1000.00 EUR, 3.50 EUR less", "the payment sums to its 1.000,00 EUR, 3,50 EUR less"),
        ("700 JPY paid, 12345 JPY asked", "700 JPY paid, 12.345 JPY asked"),
        ("reference RE-1000.00 EUR, 5 XYZ, 5.123 EUR, 1 EURO", "reference RE-1000.00 EUR, 5 XYZ, 5.123 EUR, 1 EURO"),
        (None, ""),
    ],
)
def test_amounts_of_a_sentence_are_written_as_everything_else(text: str | None, written: str) -> None:
    assert formatting.sentence(text, formatting.locale_of("de")).replace(NBSP, " ") == written


def test_days_and_instants_are_those_of_the_tenant() -> None:
    german = Locale.parse("de")
    assert formatting.day(date(2026, 1, 31), german) == "31.01.2026"
    assert "00:30" in formatting.instant(datetime(2026, 1, 31, 23, 30, tzinfo=UTC), german, "Europe/Berlin")
    assert formatting.percent(0.9876, german) == f"98,8{NBSP}%"


def visible(html: str) -> str:
    """Return what is left when the marks of our own are taken away."""
    return unescape(re.sub(r'</?(?:bdi|span|details|summary)(?: class="[a-z -]+")?>', "", html))


@given(st.text(max_size=200))
def test_a_foreign_text_becomes_text_and_nothing_else(text: str) -> None:
    html = str(formatting.foreign(text, all_of_it="all", length=1_000))
    shown = visible(html)
    assert "<" not in re.sub(r'</?(?:bdi|span)(?: class="[a-z -]+")?>', "", html)
    hidden = {c for c in shown if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}}
    assert hidden <= set("\n\t")
    html.encode()  # half a surrogate pair is named, and never sent


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=300))
def test_of_a_plain_text_nothing_is_changed(text: str) -> None:
    assert visible(str(formatting.foreign(text, all_of_it="all", length=1_000))) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("abc\u202egpj.exe", "abcU+202Egpj.exe"),
        ("a\x00b\x1bc\x7f", "a␀b␛c␡"),
        ("a\u200bb\ufeff", "aU+200BbU+FEFF"),
        ("\ud800", "U+D800"),
        ("=1+1", "=1+1"),
        ("<b>&\"'", "<b>&\"'"),
    ],
)
def test_what_hides_is_named(text: str, shown: str) -> None:
    assert visible(str(formatting.foreign(text, all_of_it="all"))) == shown
    assert formatting.plain(text) == shown


def test_marks_that_are_heaped_on_one_letter_do_not_cover_other_lines() -> None:
    shown = visible(str(formatting.foreign("e" + "\u0301" * 50, all_of_it="all")))
    assert shown.count("\u0301") == 4
    assert shown.count("U+0301") == 46


def test_a_long_text_is_cut_and_unfolds() -> None:
    text = "x" * 10_000
    html = str(formatting.foreign(text, all_of_it="all of it"))
    assert html.startswith('<details class="foreign-long"><summary>')
    assert "x" * 10_000 in html
    assert "all of it" in html
    short = str(formatting.foreign(text, all_of_it="all of it", is_short=True))
    assert short == f'<bdi class="foreign">{"x" * FOREIGN_LENGTH}…</bdi>'
    longest = str(formatting.foreign("y" * 10 * FOREIGN_LENGTH_MAX, all_of_it="all"))
    assert len(longest) < 2 * FOREIGN_LENGTH_MAX
    assert str(formatting.foreign(None, all_of_it="all")) == ""
