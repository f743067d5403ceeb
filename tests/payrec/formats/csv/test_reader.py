"""The CSV reader: known files, and how it finds delimiter, header, columns and accounts."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from payrec.domain.statements import Entry, Problem, StatementEnd
from support.csv_files import HEADER, KNOWN_TABLES, entries, read, reason, rejected, signed
from support.samples import options_of, requires_samples, sample
from support.statements import IBAN

# Known files ------------------------------------------------------------------------------------------------------

KNOWN = KNOWN_TABLES


@requires_samples
@pytest.mark.parametrize("known", [k for k in KNOWN if "profile" in k or "args" in k], ids=lambda k: k["file"])
def test_a_known_file_is_refused_without_its_profile_or_option(known: dict[str, Any]) -> None:
    expected = "csv_no_currency" if "args" in known else "csv_no_header"
    assert reason(sample(known["file"])) == expected


@requires_samples
@pytest.mark.parametrize("known", [k for k in KNOWN if k["outcome"] == "read"], ids=lambda k: k["file"])
def test_the_dialect_as_profile_reads_the_file_alike(known: dict[str, Any]) -> None:
    options = options_of(known)
    data = sample(known["file"])
    first, result = read(data, profile=dict(options.profile), currency=options.currency)
    again, repeated = read(data, profile=result.file.dialect)
    assert [i for i in again if isinstance(i, Entry)] == [i for i in first if isinstance(i, Entry)]
    assert repeated.file.dialect == result.file.dialect


# Rule 1: delimiter and quotes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("delimiter", [";", ",", "\t", "|"])
def test_the_delimiter_that_splits_most_lines_alike_is_taken(delimiter: str) -> None:
    text = (HEADER + "2026-01-02;a;1.50;EUR\n2026-01-03;b;-2.50;EUR\n").replace(";", delimiter)
    assert signed(entries(text)) == [150, -250]


def test_a_quoted_field_holds_delimiters_quotes_and_lines() -> None:
    found = entries(HEADER + '2026-01-02;"a;b ""c""\nd";1.50;EUR\n2026-01-03;e;2.50;EUR\n')
    assert [(e.remittance, e.line) for e in found] == [('a;b "c"\nd', 2), ("e", 4)]


def test_a_cell_that_is_wrapped_as_a_formula_is_its_text_and_a_formula_stays_text() -> None:
    found = entries("Date;Text;Payee;Amount;Currency\n" + '="2026-01-02";="0123";=1+1;="1.50";EUR\n')
    assert (found[0].remittance, found[0].counterparty_name, found[0].amount_minor) == ("0123", "=1+1", 150)
    assert found[0].booking_on == date(2026, 1, 2)


@pytest.mark.parametrize("rest", ["", "2026-01-03;b;2.00;EUR\n" * 3, "2026-01-03;b;2.00;EUR\n" * 20_000])
def test_a_quote_that_is_never_closed_is_refused(rest: str) -> None:
    assert reason(HEADER + '2026-01-02;a;1.00;EUR\n2026-01-02;"a;1.00;EUR\n' + rest) == "csv_unclosed_quote"


# Rule 2: header and preamble --------------------------------------------------------------------------------------


def test_the_header_stands_below_a_preamble_that_names_account_and_currency() -> None:
    items, _ = read(
        "Kontoauszug\nKontonummer:;DE89 3704 0044 0532 0130 00\nWährung:;CHF\nAnfangssaldo;100,00\nEndsaldo;98,50\n\n"
        "Buchungstag;Verwendungszweck;Betrag\n31.01.2026;a;-1,50\n"
    )
    statement = next(i.statement for i in items if isinstance(i, StatementEnd))
    assert (statement.account, statement.account_scheme, statement.currency) == (
        "DE89370400440532013000",
        "iban",
        "CHF",
    )
    assert [b.signed_minor for b in statement.balances] == [10000, 9850]
    assert not [i for i in items if isinstance(i, Problem)]


def test_a_table_without_known_header_needs_a_profile() -> None:
    text = "2026-01-02;a;1.50\n2026-01-03;b;-2.50\n"
    assert reason(text) == "csv_no_header"
    profile = {"headerRow": None, "currency": "EUR", "columns": {"bookingDate": 0, "remittance": 1, "amount": 2}}
    assert signed(entries(text, profile=profile)) == [150, -250]


def test_a_text_that_is_no_table_is_of_unknown_format() -> None:
    assert reason("Dear Sir,\nplease find, as agreed,\nour invoice, 5.00\n") == "unknown_format"
    assert reason("Dear Sir,\n", format="csv") == "csv_no_header"


@pytest.mark.parametrize(
    "header",
    [
        "Buchungstag;Verwendungszweck;Betrag;Währung",
        "Boekingsdatum;Omschrijving;Bedrag;Munt",
        "DATE D'OPÉRATION;LIBELLÉ;MONTANT;DEVISE",
        "Fecha operación;Concepto;Importe;Divisa",
        "Data contabile;Descrizione;Importo;Divisa",
        "Data lançamento;Descrição;Montante;Moeda",
        "Data księgowania;Tytuł operacji;Kwota;Waluta",
        "Datum zaúčtování;Popis;Částka;Měna",
        "Bogført;Tekst;Beløb;Valuta",
        "Bokföringsdag;Beskrivning;Belopp;Valuta",
        "Könyvelés dátuma;Közlemény;Összeg;Devizanem",
        "Data;Paskirtis;Suma;Valiuta",
    ],
)
def test_headings_are_known_in_many_languages(header: str) -> None:
    found = entries(header + "\n31.01.2026;a;-1.234,50;EUR\n")
    assert [(e.booking_on, e.remittance, e.currency) for e in found] == [(date(2026, 1, 31), "a", "EUR")]
    assert signed(found) == [-123450]


def test_one_word_means_what_stands_below_it() -> None:
    danish = entries("Dato;Tekst;Beløb;Valuta\n31-01-2026;a;1,50;DKK\n")
    german = entries("Buchung;Valuta;Text;Betrag;Währung\n31.01.2026;30.01.2026;a;1,50;EUR\n")
    assert (danish[0].currency, danish[0].value_on) == ("DKK", None)
    assert (german[0].currency, german[0].value_on) == ("EUR", date(2026, 1, 30))


def test_a_heading_that_comes_again_gets_a_number() -> None:
    profile = {"columns": {"remittance": "Text#2"}}
    found = entries("Date;Text;Text;Amount;Currency\n2026-01-02;a;b;1.50;EUR\n", profile=profile)
    assert found[0].remittance == "b"


# Rule 3: amounts and accounts -------------------------------------------------------------------------------------


def test_debit_and_credit_columns_are_absolute_and_a_negative_credit_is_a_debit() -> None:
    text = (
        "Date;Text;Debit;Credit;Currency\n2026-01-02;a;1.00;;EUR\n2026-01-02;b;-2.00;0.00;EUR\n2026-01-02;c;;3.00;EUR\n"
        "2026-01-02;d;;-4.00;EUR\n2026-01-02;e;5.00;5.00;EUR\n"
    )
    assert signed(entries(text)) == [-100, -200, 300, -400]
    assert rejected(text) == [("invalid_amount", 6)]


@pytest.mark.parametrize(
    ("heading", "money_in", "money_out"),
    [("D/C", "C", "D"), ("S/H", "H", "S"), ("D/K", "K", "D"), ("Af Bij", "Bij", "Af"), ("Type", "CREDIT", "DEBIT")],
)
def test_a_mark_decides_on_the_absolute_amount(heading: str, money_in: str, money_out: str) -> None:
    text = (
        f"Date;Text;Amount;{heading};Currency\n2026-01-02;a;1.00;{money_in};EUR\n2026-01-02;b;2.00;{money_out};EUR\n"
        f"2026-01-02;c;-3.00;{money_out};EUR\n"
    )
    assert signed(entries(text)) == [100, -200, -300]


def test_a_mark_that_says_nothing_rejects_its_row_alone() -> None:
    text = "Date;Text;Amount;D/C;Currency\n2026-01-02;a;1.00;C;EUR\n2026-01-02;b;2.00;?x;EUR\n2026-01-02;c;3.00;D;EUR\n"
    assert rejected(text) == [("missing_direction", 3)]
    assert signed(entries(text)) == [100, -300]


@pytest.mark.parametrize(
    "heads",
    [
        "Currency,Amount,Settlement currency,Settlement amount",
        "Transaction currency,Transaction amount,Ccy,Settled amount",
    ],
)
def test_what_is_settled_counts_whatever_the_payer_s_amount_is_called(heads: str) -> None:
    header = f"Date,Description,{heads}\n"
    rows = ("2026-01-14,Order 1,EUR,100.00,EUR,100.00\n", "2026-01-14,Order 2,USD,50.00,EUR,46.20\n")
    found = entries(header + "".join(rows))
    assert [(one.amount_minor, one.currency) for one in found] == [(10_000, "EUR"), (4_620, "EUR")]
    assert [one.original and (one.original.amount_minor, one.original.currency) for one in found] == [
        None,
        (5_000, "USD"),
    ]


def test_the_settled_amount_counts_and_the_original_is_kept() -> None:
    found = entries(
        "Date;Text;Original amount;Original currency;Amount;Currency\n2026-01-02;a;-5.00;USD;-4.50;EUR\n"
        "2026-01-02;b;-1.00;EUR;-1.00;EUR\n"
    )
    assert signed(found) == [-450, -100]
    assert found[0].original is not None
    assert (found[0].original.amount_minor, found[0].original.currency) == (500, "USD")
    assert found[1].original is None


def test_an_account_column_alone_is_the_own_account_if_all_rows_say_the_same() -> None:
    spaced = "de89 3704 0044 0532 0130 00"
    same = entries(f"Date;IBAN;Amount;Currency\n2026-01-02;{IBAN};1.00;EUR\n2026-01-02;{spaced};2.00;EUR\n")
    other = entries("Date;IBAN;Amount;Currency\n2026-01-02;DE1;1.00;EUR\n2026-01-02;DE2;2.00;EUR\n")
    assert {(e.account, e.counterparty_account) for e in same} == {(IBAN, None)}
    assert [(e.account, e.counterparty_account) for e in other] == [(None, "DE1"), (None, "DE2")]


def test_the_option_says_whose_account_the_column_is() -> None:
    text = f"Date;IBAN;Amount;Currency\n2026-01-02;{IBAN};1.00;EUR\n"
    assert [(e.account, e.counterparty_account) for e in entries(text, account="Main till")] == [("Main till", IBAN)]
    assert [(e.account, e.counterparty_account) for e in entries(text, account=IBAN.lower())] == [(IBAN, None)]


def test_an_account_column_that_differs_only_behind_the_head_is_the_counterpartys() -> None:
    rows = "2026-01-02;DE1;1.00;EUR\n" * 4000
    found = entries("Date;IBAN;Amount;Currency\n" + rows + "2026-01-02;DE2;1.00;EUR\n")
    assert {e.account for e in found} == {None}
    assert found[-1].counterparty_account == "DE2"


def test_rows_are_grouped_by_account_and_currency_in_order_of_appearance() -> None:
    items, _ = read(
        "Date;Own account;Text;Amount;Currency\n2026-01-02;A2;a;1.00;EUR\n2026-01-02;A1;b;2.00;EUR\n"
        "2026-01-02;;c;3.00;USD\n2026-01-02;A2;d;4.00;EUR\n"
    )
    ends = [i.statement for i in items if isinstance(i, StatementEnd)]
    assert [(s.account, s.currency, s.entry_count) for s in ends] == [
        ("A2", "EUR", 2),
        ("A1", "EUR", 1),
        ("A1", "USD", 1),
    ]
    assert all(isinstance(i, StatementEnd) for i in items[-3:])
    assert [(i.statement, i.index) for i in items if isinstance(i, Entry)] == [(0, 0), (1, 0), (2, 0), (0, 1)]
