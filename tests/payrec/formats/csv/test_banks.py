"""Columns of banks' own exports that are easily mistaken: whose account, whose bank, and who a line is of."""

from __future__ import annotations

import pytest

from support.csv_files import entries, rejected, signed, skipped

COMMERZBANK = """\
Buchungstag;Wertstellung;Umsatzart;Buchungstext;Betrag;Währung;Auftraggeberkonto;Bankleitzahl Auftraggeberkonto;\
IBAN Auftraggeberkonto;Kategorie
31.01.2026;31.01.2026;Gutschrift;Kunde AG RE 1;1.250,00;EUR;0532013000;37040044;DE89370400440532013000;Umsatz
30.01.2026;30.01.2026;Lastschrift;Miete;-800,00;EUR;0532013000;37040044;DE89370400440532013000;Umsatz
"""
RABOBANK = """\
"IBAN/BBAN","Munt","BIC","Volgnr","Datum","Rentedatum","Bedrag","Saldo na trn","Tegenrekening IBAN/BBAN",\
"Naam tegenpartij","BIC tegenpartij","Code","Omschrijving-1"
"NL91ABNA0417164300","EUR","ABNANL2A","1","2026-01-02","2026-01-02","+100,00","+1100,00","NL44RABO0123456789",\
"Klant","RABONL2U","cb","Factuur 12"
"NL91ABNA0417164300","EUR","ABNANL2A","2","2026-01-03","2026-01-03","-50,00","+1050,00","","Winkel","","ba","Pas"
"""
NORDEA = """\
Bokföringsdag;Belopp;Avsändare;Mottagare;Namn;Rubrik;Saldo;Valuta
Reserverat;-10,00;1234 56 78901;;Butik;Köp;;SEK
2026/01/31;1 250,00;;1234 56 78901;Kund AB;Faktura 1;2 250,00;SEK
2026/01/30;-12,50;1234 56 78901;5678-1234;Leverantör;Hyra;1 000,00;SEK
"""

VOLKSBANK = """\
"Buchungstag";"Valuta";"Auftraggeber/Zahlungsempfänger";"IBAN";"BIC";"Vorgang/Verwendungszweck";"Währung";"Umsatz";" "
"02.01.2026";"02.01.2026";"Lieferant";"DE02120300000000202051";"BYLADEM1001";"Rechnung 1";"EUR";"10,00";"S"
"03.01.2026";"03.01.2026";"Kunde";"DE02120300000000202051";"BYLADEM1001";"Rechnung 2";"EUR";"1.020,00";"H"
"""


def test_a_column_of_marks_needs_no_heading() -> None:
    first, second = VOLKSBANK.splitlines(keepends=True)[1:]
    assert signed(entries(VOLKSBANK)) == [-1000, 102000]
    in_front = "Datum;Text;;Betrag;Währung\n02.01.2026;a;S;10,00;EUR\n03.01.2026;b;H;20,00;EUR\n"
    assert [(e.remittance, *signed([e])) for e in entries(in_front)] == [("a", -1000), ("b", 2000)]
    # Also where all went one way.
    assert signed(entries(VOLKSBANK.replace(second, first))) == [-1000, -1000]


def test_the_own_account_of_commerzbank_is_known() -> None:
    assert {e.account for e in entries(COMMERZBANK)} == {"DE89370400440532013000"}
    assert {e.counterparty_account for e in entries(COMMERZBANK)} == {None}


def test_the_own_bank_is_not_that_of_the_counterparty() -> None:
    assert [e.counterparty_bic for e in entries(RABOBANK)] == ["RABONL2U", None]


def test_an_account_is_nobodys_name() -> None:
    found = [(e.counterparty_name, e.remittance) for e in entries(NORDEA)]
    assert found == [("Kund AB", "Faktura 1"), ("Leverantör", "Hyra")]


def test_a_row_whose_only_date_is_that_it_waits_is_skipped_by_name() -> None:
    assert skipped(NORDEA) == [("csv_undated_pending_row", 2)]


RAIFFEISEN = """\
IBAN;Booked At;Text;Credit/Debit Amount;Balance;Valuta Date
CH9300762011623852957;2026-01-05 00:00:00.0;Gutschrift Kunde AG;1200.5;5200.5;2026-01-05 00:00:00.0
CH9300762011623852957;2026-01-06 00:00:00.0;Sammelauftrag (2);-300;4900.5;2026-01-06 00:00:00.0
;;Lieferant A;-100;;
;;Lieferant B;-200;;
"""
POSTFINANCE = """\
Datum von:;="01.01.2026"
Konto:;="CH9300762011623852957"
Währung:;="CHF"

Datum;Bewegungstyp;{text};Gutschrift in CHF;Lastschrift in CHF;Label;Kategorie
31.01.2026;Gutschrift;"GUTSCHRIFT AUFTRAGGEBER: KUNDE AG RE 12";1200.50;;;
30.01.2026;Lastschrift;"LASTSCHRIFT STROM";;-45.80;;
"""
SEB = """\
Bokföringsdatum;Valutadatum;Verifikationsnummer;Text/mottagare;Belopp;Saldo
2026-01-31;2026-01-31;5484862121;KUND AB FAKTURA 12;1000.00;2000.00
2026-01-30;2026-01-30;5490990789;HYRA;-45.60;1000.00
"""
HANDELSBANKEN = """\
Reskontradatum;Transaktionsdatum;Text;Belopp;Saldo
2026-02-02;2026-01-31;KUND AB;1 000,00;2 000,00
2026-02-02;2026-01-30;HYRA;-45,60;1 000,00
"""


def test_the_parts_of_a_collective_order_are_no_payments_beside_it() -> None:
    found = entries(RAIFFEISEN, currency="CHF")
    assert [(str(e.booking_on), *signed([e])) for e in found] == [("2026-01-05", 120050), ("2026-01-06", -30000)]
    assert rejected(RAIFFEISEN, currency="CHF") == [("missing_date", 4), ("missing_date", 5)]


@pytest.mark.parametrize("text", ["Avisierungstext", "Texte de notification", "Notification text"])
def test_the_text_of_an_advice_is_the_text(text: str) -> None:
    found = entries(POSTFINANCE.format(text=text))
    assert [e.remittance for e in found] == ["GUTSCHRIFT AUFTRAGGEBER: KUNDE AG RE 12", "LASTSCHRIFT STROM"]
    assert signed(found) == [120050, -4580]


def test_the_text_and_the_booking_date_of_swedish_banks() -> None:
    assert [e.remittance for e in entries(SEB, currency="SEK")] == ["KUND AB FAKTURA 12", "HYRA"]
    assert {str(e.booking_on) for e in entries(HANDELSBANKEN, currency="SEK")} == {"2026-02-02"}


OWN_NAMES = """\
bookingDate,valueDate,direction,amountMinor,amount,currency,counterpartyName,counterpartyAccount,remittance,endToEndId
2026-01-05,2026-01-06,credit,1000,10.00,EUR,Kunde AG,DE89370400440532013000,RE 1,E-1
2026-01-07,2026-01-07,debit,250,2.50,EUR,Lieferant,DE02120300000000202051,Miete,
"""


def test_a_table_with_the_names_of_the_interface_needs_no_profile() -> None:
    first, second = entries(OWN_NAMES)
    assert signed([first, second]) == [1000, -250]
    assert (str(first.booking_on), str(first.value_on)) == ("2026-01-05", "2026-01-06")
    assert (first.counterparty_name, first.counterparty_account) == ("Kunde AG", "DE89370400440532013000")
    assert (first.remittance, first.end_to_end_id) == ("RE 1", "E-1")
