from __future__ import annotations

import unicodedata
from contextlib import suppress
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.formats import text
from payrec.formats.base import RecordError

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=80)


@settings(max_examples=100)
@given(ANY_TEXT)
def test_clean_text_can_be_stored_and_is_clean(raw: str) -> None:
    cleaned = text.clean(raw)
    if cleaned is not None:
        assert cleaned
        assert not any(unicodedata.category(c) in ("Cc", "Cs") for c in cleaned)
        assert cleaned == cleaned.strip()
        assert "  " not in cleaned
        assert unicodedata.is_normalized("NFC", cleaned)
        assert text.clean(cleaned) == cleaned


@settings(max_examples=100)
@given(ANY_TEXT)
def test_clean_lines_are_clean_lines(raw: str) -> None:
    cleaned = text.clean_lines(raw)
    if cleaned is not None:
        assert all(text.clean(line) == line for line in cleaned.split("\n"))


def test_clean_takes_control_characters_out_and_blanks_together() -> None:
    assert text.clean("a\x00b\t\n c ") == "ab c"
    assert text.clean("a\u0308") == "ä"
    assert text.clean(" \x07 ") is None
    assert text.clean(None) is None
    assert text.clean_lines("a  b\r\n\r\nc") == "a b\nc"


@pytest.mark.parametrize("raw", ["NOTPROVIDED", "not provided", " NonRef ", "-", "", " ", None])
def test_no_reference(raw: str | None) -> None:
    assert text.reference(raw) is None


def test_reference_and_account() -> None:
    assert text.reference(" NOTPROVIDED7 ") == "NOTPROVIDED7"
    assert text.account("de89 3704\u00a00044") == "DE8937040044"
    assert text.account("  ") is None


@settings(max_examples=100)
@given(st.integers(0, 10**15 - 1), st.integers(0, 4), st.integers(0, 5), st.integers(0, 5))
def test_amount_is_the_digits_moved(minor: int, digits: int, zeros_before: int, zeros_after: int) -> None:
    whole, fraction = divmod(minor, 10**digits)
    written = f"{'0' * zeros_before}{whole}.{fraction:0{digits}d}" if digits else f"{whole}."
    assert text.amount_to_minor(written + "0" * zeros_after, digits) == minor


@pytest.mark.parametrize(
    ("written", "digits", "code"),
    [
        ("1.005", 2, "amount_precision"),
        ("1.5", 0, "amount_precision"),
        ("1.00001", 2, "amount_precision"),
        ("12..34", 2, "invalid_amount"),
        ("", 2, "invalid_amount"),
        (".", 2, "invalid_amount"),
        ("-1", 2, "invalid_amount"),
        ("1e5", 2, "invalid_amount"),
        ("1,5", 2, "invalid_amount"),
        ("١", 2, "invalid_amount"),
        ("NaN", 2, "invalid_amount"),
        ("10000000000000", 2, "invalid_amount"),
        ("0" * 5000 + "1", 2, "invalid_amount"),
    ],
)
def test_wrong_amount(written: str, digits: int, code: str) -> None:
    with pytest.raises(RecordError) as raised:
        text.amount_to_minor(written, digits)
    assert raised.value.code == code


@settings(max_examples=100)
@given(st.text(max_size=20))
def test_amount_is_a_number_or_a_record_error(written: str) -> None:
    with suppress(RecordError):
        assert 0 <= text.amount_to_minor(written, 2) < 10**15


@pytest.mark.parametrize(
    "written",
    [
        "2026-01-02",
        "2026-01-02Z",
        "2026-01-02+01:00",
        "2026-01-02T23:59:59.000000000-11:00",
        "2026-01-02 10:00",
    ],
)
def test_date_as_written(written: str) -> None:
    assert text.parse_iso_date(written) == date(2026, 1, 2)


@pytest.mark.parametrize(
    "written", ["", "20260102", "2026-W01-1", "2026-02-30", "02-01-2026", "2026-01-021", "٢026-01-02"]
)
def test_wrong_date(written: str) -> None:
    with pytest.raises(RecordError) as raised:
        text.parse_iso_date(written)
    assert raised.value.code == "invalid_date"


@pytest.mark.parametrize(
    ("year", "month", "day", "on", "clamped"),
    [
        (2026, 1, 31, "2026-01-31", False),
        (2026, 2, 30, "2026-02-28", True),
        (2024, 2, 31, "2024-02-29", True),
        (2026, 4, 31, "2026-04-30", True),
    ],
)
def test_days_of_a_longer_month_become_the_last(year: int, month: int, day: int, on: str, clamped: bool) -> None:  # noqa: FBT001  # parametrised
    assert text.clamped_date(year, month, day) == (date.fromisoformat(on), clamped)


@pytest.mark.parametrize(("year", "month", "day"), [(0, 1, 1), (9, 0, 1), (9, 13, 1), (9, 1, 0), (9, 1, 32)])
def test_days_that_no_calendar_has(year: int, month: int, day: int) -> None:
    with pytest.raises(RecordError) as caught:
        text.clamped_date(year, month, day)
    assert caught.value.code == "invalid_date"


def test_years_of_two_digits() -> None:
    assert text.six_digit_date("791231") == (date(2079, 12, 31), False)
    assert text.six_digit_date("800101") == (date(1980, 1, 1), False)
    assert text.six_digit_date("260230") == (date(2026, 2, 28), True)
