"""Numbers and dates of workbooks: exact, whatever binary fractions made of them."""

from __future__ import annotations

import math
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.formats.base import RecordError
from payrec.formats.csv.values import Exact, amount_reader
from payrec.formats.xlsx.numbers import date_maker, is_built_in_date, is_date_format, number_text


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("0.30000000000000004", "0.3"),
        ("-1234.5599999999999", "-1234.56"),
        ("1.23456E-2", "0.0123456"),
        ("1E3", "1000"),
        ("1.2E+15", "1200000000000000"),
        ("5", "5"),
        ("5.0", "5"),
        ("-0", "0"),
        ("-0.00000001", "0"),
        ("0.1234", "0.1234"),
        ("0.301", "0.301"),
        ("12.340001", "12.34"),
        ("12.3400011", "12.3400011"),
        ("007", "7"),
    ],
)
def test_a_number_is_its_plain_decimal(text: str, plain: str) -> None:
    found = number_text(text)
    assert found == plain
    assert found.__class__ is Exact


@pytest.mark.parametrize(
    "text", ["", ".", "-", "e5", "abc", "1,5", "1E999", "9" * 60, "NaN", "Infinity", "0x10", "1_000", "١"]
)
def test_what_is_no_number_stays_text(text: str) -> None:
    assert number_text(text) == text
    assert number_text(text).__class__ is str


@given(st.integers(-(10**12), 10**12), st.integers(0, 4), st.integers(-3, 3))
def test_every_amount_survives_a_double(minor: int, digits: int, steps: int) -> None:
    value = minor / 10**digits
    for _ in range(abs(steps)):
        # Some last bits wrong, as sums of doubles are; of a number this large one bit is 1e-4 at most.
        value = math.nextafter(value, math.inf if steps > 0 else -math.inf) if abs(value) < 10**9 else value
    assert amount_reader(None, digits)(number_text(repr(value))) == minor


def test_a_number_that_no_amount_is_near_is_no_amount() -> None:
    read = amount_reader(",", 2)
    assert read(number_text("1234.5")) == 123_450
    with pytest.raises(RecordError, match="more than 2 decimals"):
        read(number_text("0.301"))
    with pytest.raises(RecordError):
        read(number_text("1E17"))
    with pytest.raises(RecordError):
        read(Exact("2026-01-02"))


@pytest.mark.parametrize(
    "code",
    ["yyyy-mm-dd", "dd/mm/yyyy hh:mm", r"dd\.mm\.yyyy", "[$-407]d. mmmm yyyy;@", "mmm", "D.M.YY", 'yyyy"年"m"月"'],
)
def test_formats_that_show_dates(code: str) -> None:
    assert is_date_format(code)


@pytest.mark.parametrize(
    "code",
    [
        "General",
        "0.00",
        "#,##0.00;[Red]-#,##0.00",
        "0.00E+00",
        "h:mm",
        "[h]:mm:ss",
        "mm:ss",
        '0.00 "days"',
        r"0\d",
        "@",
        "_d0",
        "",
    ],
)
def test_formats_that_show_none(code: str) -> None:
    assert not is_date_format(code)


def test_dates_that_need_no_definition() -> None:
    assert [n for n in range(60) if is_built_in_date(n)] == [
        *(14, 15, 16, 17, 22, 27, 28, 29, 30, 31, 34, 35, 36, 50, 51, 52, 53, 54, 55, 56, 57, 58)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("from_1904", "serial", "text"),
    [
        (False, "46024", "2026-01-02"),
        (False, "46024.5", "2026-01-02 12:00:00"),
        (False, "46023.999999999", "2026-01-02"),
        (False, "61", "1900-03-01"),
        (False, "59", "1900-02-28"),
        (False, "1", "1900-01-01"),
        (False, "2958465", "9999-12-31"),
        (True, "44562", "2026-01-02"),
        (True, "0", "1904-01-01"),
        # Neither a day 0 nor the 29 February that never was, nor anything beyond the calendar.
        (False, "0", "0"),
        (False, "60", "60"),
        (False, "2958466", "2958466"),
        (True, "2958465", "2958465"),
        (False, "-1", "-1"),
        (False, "1E999", "1E999"),
        (False, ".", "."),
        (False, "x", "x"),
    ],
)
def test_serial_numbers(from_1904: bool, serial: str, text: str) -> None:  # noqa: FBT001  # a parameter of the table
    assert date_maker(from_1904=from_1904)(serial) == text


@given(st.dates(date(1900, 3, 1), date(9999, 12, 31)))
def test_every_day_has_its_number(on: date) -> None:
    assert date_maker(from_1904=False)(str((on - date(1899, 12, 30)).days)) == on.isoformat()
