"""What was paid, what was kept of it and the rate, in the words of SWIFT, wherever in field 86 they stand."""

from __future__ import annotations

import pytest

from payrec.domain.statements import Entry, Money
from payrec.formats.mt940.details import read_details
from payrec.formats.mt940.lines import parse_entry
from support.mt940 import assert_fields, details

WORDS = "/OCMT/USD110,00//EXCH/1,1000//CHGS/EUR2,50/"
PAID = Money(11_000, "USD")
KEPT = [Money(250, "EUR", "debit")]


@pytest.mark.parametrize(
    "lines",
    [
        (f"/BENM//NAME/OURS/ORDP//NAME/ACME INC/{WORDS}/REMI/INV 77",),
        (f"/ORDP/ACME INC/REMI/INV 77{WORDS}",),
        (f"{WORDS}", "/ORDP/ACME INC/REMI/INV 77"),
        (f"/EREF/NOTPROVIDED{WORDS}/ORDP//NAME/ACME INC/REMI//INV 77",),
        (f"/ORDP/ACME INC{WORDS}INV 77",),
        (f"/ORDP/ACME INC{WORDS}", "INV 77"),
    ],
)
def test_amount_words_end_the_value_before_them(lines: tuple[str, ...]) -> None:
    assert_fields(
        details(*lines),
        counterparty_name="ACME INC",
        remittance="INV 77",
        end_to_end_id=None,
        original=PAID,
        charges=KEPT,
        exchange_rate="1.1000",
    )


@pytest.mark.parametrize(
    ("line", "remittance"),
    [
        (f"{WORDS} INV 77 ACME", f"{WORDS} INV 77 ACME"),
        (f"INV 77{WORDS}", f"INV 77{WORDS}"),
        (f"/PY/INV 77/BO/ACME INC{WORDS}", f"/PY/INV 77/BO/ACME INC{WORDS}"),
        (f"166?20SVWZ+INV 77?21{WORDS}?32ACME", f"INV 77{WORDS}"),
    ],
)
def test_amount_words_in_other_texts_are_read_and_stay(line: str, remittance: str) -> None:
    assert_fields(details(line), remittance=remittance, original=PAID, charges=KEPT, exchange_rate="1.1000")


@pytest.mark.parametrize("text", ["/OCMT/ is a word", "/OCMT/USD1,234,5", "/CHGS/EUR0,", "/OCMT/XYZ5,00", "/EXCH/1,1"])
def test_what_is_no_amount_is_none(text: str) -> None:
    assert_fields(details(f"see {text}"), original=None, charges=[], remittance=f"see {text}")
    assert_fields(details(f"/ORDP/ACME/REMI/INV 1 {text}"), original=None, charges=[])


def test_several_charges_are_all_kept() -> None:
    entry = details("/ORDP/ACME/CHGS/EUR1,50/CHGT/EUR1,00/REMI/x")
    assert entry.charges == [Money(150, "EUR", "debit"), Money(100, "EUR", "debit")]


def test_what_the_supplement_says_is_not_said_twice() -> None:
    entry = Entry()
    parse_entry(["2601020102C100,00NTRFNONREF//B1", "/OCMT/USD110,00/CHGS/EUR2,50/"], "EUR", entry)
    read_details(entry, [f"/ORDP/ACME{WORDS}/REMI/x"], [], size=100)
    assert_fields(entry, original=PAID, charges=KEPT)


def test_what_field_61_says_stays_where_field_86_says_something_else() -> None:
    entry = Entry()
    parse_entry(["2601020102C100,00NTRFNONREF//B1", f"{WORDS}"], "EUR", entry)
    read_details(entry, ["/ORDP/ACME/OCMT/GBP90,00//EXCH/0,9000//CHGS/EUR9,00//REMI/x"], [], size=100)
    assert_fields(entry, original=PAID, charges=KEPT, exchange_rate="1.1000")


def test_what_stands_before_the_keywords_is_the_text_where_no_keyword_says_it() -> None:
    entry = details("/PY/INV 77/ORDP//NAME/ACME INC/EREF/E-1")
    assert_fields(entry, remittance="/PY/INV 77", counterparty_name="ACME INC", end_to_end_id="E-1")
