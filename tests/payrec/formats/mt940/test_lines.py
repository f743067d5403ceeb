from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.formats.base import RecordError
from payrec.formats.mt940.lines import amount_minor, entry_dates, parse_account, parse_balance
from support.mt940_messages import CLOSING, entry_of, read, rejection_of, statement

MARKS = [
    ("C10,", "credit", False, "booked", 1000),
    ("D10,", "debit", False, "booked", 1000),
    ("CR10,", "credit", False, "booked", 1000),
    ("DR10,", "debit", False, "booked", 1000),
    ("RC10,", "debit", True, "booked", 1000),
    ("RCR10,", "debit", True, "booked", 1000),
    ("RD10,", "credit", True, "booked", 1000),
    ("RDR10,", "credit", True, "booked", 1000),
    ("EC10,", "credit", False, "pending", 1000),
    ("ED10,", "debit", False, "pending", 1000),
]


@pytest.mark.parametrize(("field", "direction", "reversal", "status", "minor"), MARKS)
def test_mark_decides_direction(field: str, direction: str, reversal: bool, status: str, minor: int) -> None:  # noqa: FBT001  # a table's column
    entry = entry_of(f"2601020102{field}NTRFNONREF")
    assert (entry.direction, entry.reversal, entry.status) == (direction, reversal, status)
    assert (entry.amount_minor, entry.currency) == (minor, "EUR")


@pytest.mark.parametrize(
    ("digits", "minor"),
    [("5,", 500), (",5", 50), ("0000473,17", 47317), ("5.00", 500), ("5", 500), ("0,00", 0), ("1,5000", 150)],
)
def test_amounts_as_banks_write_them(digits: str, minor: int) -> None:
    assert entry_of(f"260102C{digits}NTRFNONREF").amount_minor == minor


@pytest.mark.parametrize(
    ("field", "code"),
    [
        ("2613020102C1,NTRFNONREF", "invalid_date"),
        ("2600020102C1,NTRFNONREF", "invalid_date"),
        ("2601321301C1,NTRFNONREF", "invalid_date"),
        ("2601021301C1,NTRFNONREF", "invalid_date"),
        ("260102 1,NTRFNONREF", "missing_direction"),
        ("2601020102CNTRFNONREF", "invalid_amount"),
        ("2601020102C1.234,56NTRFNONREF", "invalid_amount"),
        ("2601020102C1 234,56NTRFNONREF", "invalid_amount"),
        ("2601020102C1'234,56NTRFNONREF", "invalid_amount"),
        ("2601020102C1  234NTRFNONREF", "invalid_amount"),
        ("2601020102C,NTRFNONREF", "invalid_amount"),
        ("2601020102C1,234NTRFNONREF", "amount_precision"),
        ("2601020102C99999999999999,NTRF", "invalid_amount"),
        ("no date at all", "invalid_entry"),
        ("", "invalid_entry"),
    ],
)
def test_wrong_entry_costs_itself_alone(field: str, code: str) -> None:
    assert rejection_of(field, ":86:lost with its entry") == code


def test_year_of_the_entry_date_is_the_nearest_before_or_after() -> None:
    assert entry_of("2512310102C1,NTRF").booking_on == date(2026, 1, 2)
    assert entry_of("2601021231C1,NTRF").booking_on == date(2025, 12, 31)
    assert entry_of("260102C1,NTRF").booking_on == date(2026, 1, 2)
    assert entry_of("260102    C1,NTRF").booking_on == date(2026, 1, 2)
    assert entry_of("9912310101C1,NTRF").booking_on == date(2000, 1, 1)
    assert entry_of("800101C1,NTRF").value_on == date(1980, 1, 1)
    assert entry_of("790101C1,NTRF").value_on == date(2079, 1, 1)


@settings(max_examples=100)
@given(st.dates(date(1981, 1, 1), date(2078, 12, 31)), st.integers(-180, 180))
def test_any_entry_date_within_half_a_year_is_found(value_on: date, days: int) -> None:
    booking_on = value_on + timedelta(days=days)
    found = entry_dates(f"{value_on:%y%m%d}", f"{booking_on:%m%d}")
    assert found == (value_on, booking_on, False)


def test_day_that_the_month_does_not_have_is_its_last_day() -> None:
    found = read(statement(":61:1602300231DR6,00N024NONREF", CLOSING))
    (entry,) = found.entries[0]
    assert (entry.value_on, entry.booking_on) == (date(2016, 2, 29), date(2016, 2, 29))
    (problem,) = found.problems
    assert (problem.code, problem.rejects, problem.line) == ("date_clamped", False, 5)


def test_references_of_the_entry() -> None:
    entry = entry_of("2601020102C1,NTRFINV-7 4711//BANK 1", "/OCMT/USD1,10//CHGS/EUR0,20/")
    assert (entry.instruction_id, entry.bank_reference) == ("INV-7 4711", "BANK 1")
    assert entry.bank_transaction_code == "NTRF"
    assert entry.original is not None
    assert (entry.original.amount_minor, entry.original.currency) == (110, "USD")
    assert [(c.amount_minor, c.currency, c.direction) for c in entry.charges] == [(20, "EUR", "debit")]
    assert entry.remittance == "/OCMT/USD1,10//CHGS/EUR0,20/"


RETURN = ":86:109?00LASTSCHR. RETOURE?20EREF+E1?21SVWZ+RETURN"


@pytest.mark.parametrize(
    ("supplement", "details", "minor", "net"),
    [
        ("/OCMT/EUR11,85//CHGS/EUR0,50/", RETURN, 1_185, 1_235),
        ("", f"{RETURN}?22OAMT+ 11,85?23COAM+ 0,50", 1_185, 1_235),
        ("", f"{RETURN}?22OAMT+EUR 11,85?23COAM+EUR 0,50", 1_185, 1_235),
        ("/OCMT/EUR12,35//CHGS/EUR0,50/", RETURN, 1_235, None),
        ("/OCMT/EUR11,85//CHGS/USD0,50/", RETURN, 1_235, None),
        ("/CHGS/EUR0,50/", RETURN, 1_235, None),
        ("/OCMT/EUR11,85//CHGS/EUR0,50/", ":86:177?00UEBERWEISUNG?20SVWZ+x", 1_235, None),  # nothing comes back
    ],
)
def test_a_return_is_told_apart_from_the_fee_in_its_amount(
    supplement: str, details: str, minor: int, net: int | None
) -> None:
    field = ":61:2601020102D12,35NMSCKREF+" + (f"\n{supplement}" if supplement else "")
    (entry,) = read(statement(field, details, CLOSING)).entries[0]
    assert (entry.amount_minor, entry.net and entry.net.amount_minor, entry.original) == (minor, net, None)


def test_absent_references_are_none() -> None:
    entry = entry_of("2601020102C1,NTRFNONREF//NONREF")
    assert (entry.instruction_id, entry.bank_reference, entry.end_to_end_id) == (None, None, None)
    assert entry_of("2601020102C1,NTRFKREF+//B").instruction_id is None
    assert entry_of("2601020102D1,NCHK4711").check_number == "4711"


def test_entry_may_be_wrapped_after_the_mark() -> None:
    entry = entry_of("2601020102C", "10,NTRFNONREF//B1", "supplement")
    assert (entry.amount_minor, entry.bank_reference, entry.remittance) == (1000, "B1", "supplement")
    assert entry_of("2601020102CR", "10,NTRFNONREF").amount_minor == 1000


@pytest.mark.parametrize(
    ("field", "account", "currency"),
    [
        ("GJB0291077111EUR", "GJB0291077111", "EUR"),
        ("UBRTHUHB/123F002/HUF", "UBRTHUHB/123F002", "HUF"),
        ("50880050/0194774600888", "50880050/0194774600888", None),
        ("MU17BOMM0101101030300200000MUR", "MU17BOMM0101101030300200000MUR", None),
        ("/MU17BOMM0101101030300200000MUR", "MU17BOMM0101101030300200000MUR", None),
        ("/PL61109010140000071219812874", "PL61109010140000071219812874", None),
        ("/pl61 1090 1014 0000 0712 1981 2874", "PL61109010140000071219812874", None),
        ("COBADEFFXXX/DE89370400440532013000", "DE89370400440532013000", None),
        ("COBADEFFXXX/DE89370400440532013000EUR", "DE89370400440532013000", "EUR"),
        ("COBADEFFXXX/DE89370400440532013000/EUR", "DE89370400440532013000", "EUR"),
        ("COBADEFFXXX/DE88370400440532013000", "COBADEFFXXX/DE88370400440532013000", None),
        ("1234XYZ", "1234XYZ", None),
        ("EUR", "EUR", None),
        ("", None, None),
    ],
)
def test_the_account_is_had_without_its_currency_and_without_what_precedes_an_iban(
    field: str, account: str | None, currency: str | None
) -> None:
    assert parse_account(field) == (account, currency)


@settings(max_examples=100)
@given(st.text(max_size=40))
def test_parsers_raise_only_their_own_error(noise: str) -> None:
    parse_account(noise)
    parse_balance(noise, "opening", "EUR")
    with pytest.raises(RecordError):
        amount_minor(noise + "x", "EUR")


@pytest.mark.parametrize(
    ("rest", "code", "customer"),
    [
        (" NRTIKREF+//B1", "NRTI", None),
        (" NTRFNONREF//B1", "NTRF", None),
        ("NONREF//B1", None, None),
        ("N541EREF            //B1", "N541", None),
        ("NDDTMARF//B1", "NDDT", None),
        ("N586PREF//B1", "N586", None),
        ("NTRFEREF 7//B1", "NTRF", "EREF 7"),
    ],
)
def test_a_type_may_be_set_off_or_absent_and_a_reference_elsewhere(
    rest: str, code: str | None, customer: str | None
) -> None:
    entry = entry_of("2601020102C1," + rest)
    assert (entry.bank_transaction_code, entry.instruction_id, entry.bank_reference) == (code, customer, "B1")


def test_an_iban_in_the_supplementary_details_is_the_counterparty_s_account() -> None:
    details = ":86:/EREF/E1/ORDP//NAME/COMPANY B V/REMI/x"
    for supplement, account in (("NL91ABNA0417164300", "NL91ABNA0417164300"), ("P004500018", None)):
        (entry,) = read(statement(f":61:260102C1,N541EREF\n{supplement}", details, CLOSING)).entries[0]
        assert (entry.counterparty_name, entry.counterparty_account) == ("COMPANY B V", account)
