"""Amounts and dates of tables: what they prove, and what they are."""

from __future__ import annotations

import contextlib
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.currencies import MINOR_UNITS
from payrec.formats.base import RecordError
from payrec.formats.csv.dates import compile_format, date_evidence, date_reader
from payrec.formats.csv.values import amount_reader, contradicts, decimal_evidence, is_amount


@pytest.mark.parametrize(
    ("text", "minor"),
    [
        ("1,234.56", 123456),
        ("1 234.56", 123456),
        ("1\u00a0234.56", 123456),
        ("1\u202f234.56", 123456),
        ("1'234.56", 123456),
        ("1’234.56", 123456),
        ("(5.00)", -500),
        ("($85.00)", -8500),
        ("5.00-", -500),
        ("\u22125.00", -500),
        ("-$76.00", -7600),
        ("$-76.00", -7600),
        ("+$327.49", 32749),
        ("$.23", 23),
        ("-.23", -23),
        ("5.", 500),
        ("5", 500),
        ("5.1", 510),
        ("5.100", 510),
        ("5.00 EUR", 500),
        ("EUR 5.00", 500),
        ("€5.00", 500),
        ("5.00 CR", 500),
        ("5.00 OD", -500),
        ("5.00 DR", -500),
        ("5.-", 500),
        ("-0.00", 0),
        ("1,234,567.89", 123456789),
        ("12,345.67", 1234567),
        ("-999,999.99", -99999999),
        ("9999999999999.99", 999999999999999),
    ],
)
def test_an_amount_with_a_point_is_read(text: str, minor: int) -> None:
    assert amount_reader(".", 2)(text) == minor
    turned = text.translate(str.maketrans(".,", ",."))
    assert amount_reader(",", 2)(turned) == minor


@pytest.mark.parametrize(
    ("text", "minor"), [("5.00 Dr.", -500), ("5.00 Cr.", 500), ("12,34,567.00", 123456700), ("1,23,456", 12345600)]
)
def test_an_amount_as_in_india_is_read(text: str, minor: int) -> None:
    assert (amount_reader(".", 2)(text), decimal_evidence(text)) == (minor, ".")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("12..34", "invalid_amount"),
        ("1,2.34", "invalid_amount"),
        ("1,2345.67", "invalid_amount"),
        ("1234,567.89", "invalid_amount"),
        ("--5.00", "invalid_amount"),
        ("-5.00-", "invalid_amount"),
        ("(5.00", "invalid_amount"),
        ("5.00.00", "invalid_amount"),
        ("1_0.00", "invalid_amount"),
        ("٣.00", "invalid_amount"),
        ("abc", "invalid_amount"),
        ("", "invalid_amount"),
        ("1e5", "invalid_amount"),
        ("5,00", "invalid_amount"),
        ("1,2,345.00", "invalid_amount"),
        ("12,34,56.00", "invalid_amount"),
        ("5.00 K", "invalid_amount"),
        ("5.00 W", "invalid_amount"),
        ("EUR 5.00 EUR", "invalid_amount"),
        ("5.001", "amount_precision"),
        ("10000000000000.00", "invalid_amount"),
        (" " * 60 + "x" * 10, "invalid_amount"),
    ],
)
def test_what_is_no_amount_is_refused_by_its_code(text: str, code: str) -> None:
    with pytest.raises(RecordError) as refused:
        amount_reader(".", 2)(text)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("text", "proof"),
    [
        ("1.234", "doubt"),
        ("1,234", "doubt"),
        ("12.345", "doubt"),
        ("1234.567", "."),
        ("0.123", "."),
        ("0,123", ","),
        ("1.23", "."),
        ("1,2", ","),
        ("1.234.567", ","),
        ("1,234,567", "."),
        ("1.234,5", ","),
        ("1'234.567", "."),
        ("1 234,567", ","),
        ("1234", None),
        ("12..34", None),
        ("no", None),
    ],
)
def test_an_amount_proves_its_decimal_sign_or_nothing(text: str, proof: str | None) -> None:
    assert decimal_evidence(text) == proof


@pytest.mark.parametrize(
    ("text", "currency", "refused"),
    [
        ("USD 5.00", "EUR", True),
        ("5.00 usd", "EUR", True),
        ("£5.00", "EUR", True),
        ("£5.00", "GBP", False),
        ("$5.00", "EUR", True),
        ("-$5.00", "CAD", False),
        ("US$5.00", "CAD", True),
        ("CA$5.00", "CAD", False),
        ("¥500.00", "CNY", False),
        ("¥500.00", "EUR", True),
        ("5.00 kr.", "DKK", False),
        ("5.00 Kr", "EUR", True),
        ("5.00 Kč", "CZK", False),
        ("5.00 zl", "PLN", False),
        ("5.00 CR", "EUR", False),
        ("5.00", "EUR", False),
    ],
)
def test_a_currency_beside_the_amount_is_the_one_that_is_meant(text: str, currency: str, refused: bool) -> None:  # noqa: FBT001  # a row
    read = amount_reader(".", 2, currency=currency)
    if refused:
        with pytest.raises(RecordError) as error:
            read(text)
        assert error.value.code == "currency_mismatch"
    else:
        assert abs(read(text)) in {500, 50000}


@given(st.sampled_from(sorted(MINOR_UNITS)), st.sampled_from(sorted(MINOR_UNITS)))
def test_a_code_contradicts_every_currency_but_its_own(code: str, currency: str) -> None:
    assert contradicts(code, currency) == (code != currency)
    assert contradicts(code.lower(), currency) == (code != currency)


def test_a_file_without_any_decimal_sign_refuses_one() -> None:
    assert amount_reader(None, 2)("1'234") == 123400
    with pytest.raises(RecordError):
        amount_reader(None, 2)("1.234")


def test_implied_decimals_are_the_last_digits() -> None:
    assert amount_reader(None, 2, 2)("-12345") == -12345
    assert amount_reader(None, 2, 2)("5") == 5
    assert amount_reader(None, 0, 2)("500") == 5
    assert amount_reader(None, 3, 2)("5") == 50
    with pytest.raises(RecordError):
        amount_reader(None, 0, 2)("501")
    with pytest.raises(RecordError):
        amount_reader(None, 2, 2)("5.00")


@settings(max_examples=100)
@given(
    st.integers(-(10**15) + 1, 10**15 - 1),
    st.sampled_from((0, 2, 3)),
    st.sampled_from(".,"),
    st.sampled_from(("", ",", "'", " ")),
)
def test_any_amount_that_is_written_is_read_back(minor: int, digits: int, decimal: str, group: str) -> None:
    whole, fraction = divmod(abs(minor), 10**digits)
    text = f"{whole:,}".replace(",", "." if decimal == group else group)
    if digits:
        text += decimal + str(fraction).rjust(digits, "0")
    text = f"-{text}" if minor < 0 else text
    assert is_amount(text)
    assert amount_reader(decimal, digits)(text) == minor  # type: ignore[arg-type]  # one of two


@settings(max_examples=100)
@given(st.text(max_size=80))
def test_any_text_is_an_amount_or_a_record_error(text: str) -> None:
    for decimal in (".", ",", None):
        with contextlib.suppress(RecordError):
            amount_reader(decimal, 2)(text)  # type: ignore[arg-type]  # one of three
    decimal_evidence(text)
    date_evidence(text)
    for order in ("ymd", "dmy", "mdy", None):
        with contextlib.suppress(RecordError):
            date_reader(order)(text)  # type: ignore[arg-type]  # one of four


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-02",
        "2026/01/02",
        "2026/1/2",
        "2026.01.02.",
        "20260102",
        "2026-01-02T10:00:00Z",
        "2026-01-02 23:59:59 -0800",
        "2 Jan 2026",
        "02-Jan-26",
        "2. Januar 2026",
        "Jan 2, 2026",
        "January 2nd, 2026",
        "Fri 2 Jan 2026",
        "2 janv. 2026",
    ],
)
def test_a_date_that_says_itself_what_is_what(text: str) -> None:
    assert date_evidence(text) == "ymd"
    assert date_reader(None)(text) == date(2026, 1, 2)
    assert date_reader("mdy")(text) == date(2026, 1, 2)


@pytest.mark.parametrize(
    ("text", "proof"),
    [
        ("31/01/2026", "dmy"),
        ("01/31/2026", "mdy"),
        ("22.02.18", "dmy"),
        ("01.02.2026", "dotted"),
        ("01/02/2026", "doubt"),
        ("1-2-26", "doubt"),
        ("13/13/2026", None),
        ("32/01/2026", None),
        ("00/01/2026", None),
        ("1/2", None),
        ("Invoice 1/2/3", None),
    ],
)
def test_a_date_proves_its_order_or_nothing(text: str, proof: str | None) -> None:
    assert date_evidence(text) == proof


def test_two_digit_years_turn_at_eighty() -> None:
    assert date_reader("dmy")("01.02.79") == date(2079, 2, 1)
    assert date_reader("dmy")("01.02.80") == date(1980, 2, 1)
    assert date_reader("ymd")("26-02-01") == date(2026, 2, 1)


@pytest.mark.parametrize("text", ["30.02.2026", "01.13.2026", "2026-13-01", "", "x", "0000-01-01"])
def test_what_is_no_day_is_refused(text: str) -> None:
    with pytest.raises(RecordError) as refused:
        date_reader("dmy")(text)
    assert refused.value.code == "invalid_date"


@pytest.mark.parametrize(
    ("shape", "text"),
    [("%d.%m.%Y", "02.01.2026"), ("yyyyMMdd", "20260102"), ("dd-MMM-yy", "02-JAN-26"), ("%y%m%d", "260102")],
)
def test_a_date_format_decides_alone(shape: str, text: str) -> None:
    assert date_reader("mdy", shape)(text) == date(2026, 1, 2)
    with pytest.raises(RecordError):
        date_reader("mdy", shape)("2026-01-02T10")


@pytest.mark.parametrize("shape", ["", "%d.%m", "%d.%d.%Y", "%q", "ddddd.MM.yyyy%", "x" * 50, "%d %m %Y %Y"])
def test_a_date_format_without_year_month_and_day_once_is_refused(shape: str) -> None:
    with pytest.raises(ValueError, match=r"must|has"):
        compile_format(shape)
