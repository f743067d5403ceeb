"""Exports as people have them: made up, in the shapes that banks and spreadsheets are known to write.

Each is read without an option, or the question that it asks is answered; never is anything guessed. The files are in
``tests/data/exports``, in the encodings of their programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from payrec.domain.settings import merged
from payrec.domain.statements import Entry, Parsed, Problem, Skipped
from payrec.errors import UnreadableFileError
from support.csv_files import entries, read, signed
from support.exports import EXPORTS, FILES, Export, Fact
from support.xlsx_files import row, workbook

YEAR = 2026
"""Of all bookings in the exports."""


def told(export: Export) -> tuple[list[Parsed], list[str], dict[str, Any] | None]:
    """Read a file, answering what it asks; return what was read, the reasons of the refusals, and the dialect."""
    options: dict[str, Any] = {}
    reasons: list[str] = []
    while True:
        try:
            items, result = read(export.content, **options)
        except UnreadableFileError as error:
            reasons.append(error.reason)
            question = error.question
            assert question is not None
            assert len(reasons) <= 3
            if question.option == "currency":
                value: Any = export.currency
                assert value in {alternative.value for alternative in question.alternatives}
            elif error.reason == "csv_ambiguous_sign":
                value = {"sign": export.sign}
                assert value in [alternative.value for alternative in question.alternatives]
            else:
                offered = [alternative.value for alternative in question.alternatives]
                value = next(v for v in offered if v["columns"].get("amount") == export.amount_column)
            options = merged(options, {question.option: value})
        else:
            return items, reasons, result.file.dialect


def asked_for(export: Export) -> list[str]:
    answers = (
        *(("csv_no_header", export.amount_column), ("csv_no_currency", export.currency)),
        ("csv_ambiguous_sign", export.sign),
    )
    return [reason for reason, answer in answers if answer is not None]


def facts(items: Sequence[Parsed]) -> list[Fact]:
    found = [i for i in items if isinstance(i, Entry)]
    return [
        (
            f"{e.booking_on:%m-%d}",
            minor,
            e.currency,
            e.counterparty_name,
            e.remittance.split("\n")[-1] if e.remittance is not None else None,
        )
        for e, minor in zip(found, signed(found), strict=True)
        if e.booking_on is not None
    ]


def test_every_export_is_looked_at() -> None:
    assert sorted(path.name for path in FILES.iterdir()) == [export.name for export in EXPORTS]


@pytest.mark.parametrize("export", EXPORTS, ids=lambda e: e.name)
def test_an_export_is_read_as_it_is_or_asks_what_it_does_not_say(export: Export) -> None:
    items, reasons, _ = told(export)
    assert facts(items) == export.entries
    assert reasons == asked_for(export)
    assert [i.rule for i in items if isinstance(i, Skipped)] == export.skipped
    assert {i.code for i in items if isinstance(i, Problem)} <= {"encoding_guessed"}
    assert {i.booking_on.year for i in items if isinstance(i, Entry) and i.booking_on} == {YEAR}


@pytest.mark.parametrize("export", EXPORTS, ids=lambda e: e.name)
def test_the_dialect_of_an_export_is_a_profile_that_reads_it_alike(export: Export) -> None:
    items, _, dialect = told(export)
    again, _ = read(export.content, profile=dialect)
    assert [i for i in again if isinstance(i, Entry | Skipped)] == [i for i in items if isinstance(i, Entry | Skipped)]


def entry(name: str, index: int) -> Entry:
    [export] = [export for export in EXPORTS if export.name == name]
    return [i for i in told(export)[0] if isinstance(i, Entry)][index]


def test_whose_accounts_they_are() -> None:
    own = {
        "dkb.csv": "DE02120300000000202051",
        "volksbank.csv": "DE89370400440532013000",
        "commerzbank.csv": "DE89370400440532013000",
        "ing_nl.csv": "NL91ABNA0417164300",
        "bunq.csv": "NL91BUNQ0417164300",
        "qonto.csv": "FR7630006000011234567890189",
        "swiss_ubs.csv": "CH9300762011623852957",
        "barclays.csv": "20-00-00 12345678",
    }
    assert {name: entry(name, 0).account for name in own} == own
    others = {
        "dkb.csv": "DE02500105170137075030",
        "bunq.csv": "NL20INGB0001234567",
        "mbank_old.csv": "61109010140000071219812874",
        "sparkasse_camt.csv": "DE02120300000000202051",
    }
    assert {name: entry(name, 0).counterparty_account for name in others} == others


def test_on_whose_behalf_somebody_pays_is_told() -> None:
    told = [entry("rabobank.csv", index).ultimate_counterparty_name for index in (0, 1)]
    assert told == [None, "Jansen Holding"]
    text = b"Date;Amount;Currency;Name;For\n2026-03-02;10.00;EUR;Holding AG;Bolt GmbH\n"
    items, _ = read(text, profile={"columns": {"ultimateCounterpartyName": "For"}})
    [paid] = [item for item in items if isinstance(item, Entry)]
    assert (paid.counterparty_name, paid.ultimate_counterparty_name) == ("Holding AG", "Bolt GmbH")


def test_what_is_not_booked_yet_is_pending() -> None:
    pending = {(name, index) for name, index in (("dkb.csv", 2), ("sparkasse_camt.csv", 2), ("revolut.csv", 0))}
    assert {at for at in pending if entry(*at).status == "pending"} == {("dkb.csv", 2), ("sparkasse_camt.csv", 2)}


def test_a_provider_s_fee_is_a_charge_and_its_net_what_moved() -> None:
    sale, payout = entry("paypal_activity.csv", 0), entry("paypal_activity.csv", 1)
    assert sale.net is not None
    assert (sale.amount_minor, sale.net.amount_minor, sale.net.direction) == (12_000, 11_612, "credit")
    assert [(c.amount_minor, c.currency, c.direction) for c in sale.charges] == [(388, "GBP", "debit")]
    assert (payout.net, payout.charges) == (None, [])


def test_what_was_paid_in_another_currency_is_kept() -> None:
    original = entry("n26.csv", 2).original
    assert original is not None
    assert (original.amount_minor, original.currency) == (2000, "USD")


# Spreadsheets -----------------------------------------------------------------------------------------------------

MARCH_2 = (46083, 1)
"""2 March 2026, as a cell that is a date."""


def test_a_workbook_with_a_title_above_and_totals_below() -> None:
    data = workbook(
        "".join(
            (
                row(1, "Acme GmbH: Kontobewegungen"),
                row(2, "IBAN", "DE89 3704 0044 0532 0130 00"),
                row(3, "Stand", MARCH_2),
                row(5, "Buchungstag", "Wertstellung", "Auftraggeber/Empfänger", "Verwendungszweck", "Betrag (EUR)"),
                row(6, MARCH_2, MARCH_2, "Stadtwerke", "Strom", -85),
                row(7, MARCH_2, MARCH_2, "Müller GmbH", "RE-2026-0117", 2380.5),
                row(9, None, None, None, "Summe", 2295.5),
            )
        )
    )
    items, _ = read(data)
    assert facts(items) == [
        ("03-02", -8500, "EUR", "Stadtwerke", "Strom"),
        ("03-02", 238_050, "EUR", "Müller GmbH", "RE-2026-0117"),
    ]
    assert {i.account for i in items if isinstance(i, Entry)} == {"DE89370400440532013000"}
    assert [i.rule for i in items if isinstance(i, Skipped)] == ["csv_balance_row"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_what_a_spreadsheet_saves_as_text(encoding: str) -> None:
    text = "sep=;\r\nBuchungstag;Verwendungszweck;Betrag;Währung\r\n13.03.2026;Büro;-1.250,00 €;EUR\r\n"
    [found] = entries(text.encode(encoding))
    assert (found.amount_minor, found.remittance, found.direction) == (125_000, "Büro", "debit")


# What tells code pages apart --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Datum;Verwendungszweck;Betrag;Währung\n2026-03-02;Größe 5 m³, £5, 1° ¿Qué?;1,50;EUR\n", "cp1252"),
        ("Fecha;Concepto;Importe;Divisa\n2026-03-02;Recibo nº 5, 1ª cuota, ¿Qué?;1,50;EUR\n", "cp1252"),
        ("Date;Libellé;Montant;Devise\n2026-03-02;Cœur à gauche, Œuvre, château;1,50;EUR\n", "cp1252"),
        ("Data operacji;Tytuł;Kwota;Waluta\n2026-03-02;Czynsz;1,50;PLN\n", "cp1250"),
        ("Date;Text;Amount;Currency\n2026-03-02;Wpłata za książkę, żółty;1.50;PLN\n", "cp1250"),
        ("Datum zaúčtování;Popis;Částka;Měna\n2026-03-02;Přílohy;1,50;CZK\n", "cp1250"),
    ],
)
def test_the_code_page_is_the_one_whose_words_are_words(text: str, encoding: str) -> None:
    _, result = read(text.encode(encoding))
    assert (result.file.encoding, result.file.encoding_guessed) == (encoding, True)
