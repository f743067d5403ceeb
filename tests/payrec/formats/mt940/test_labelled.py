"""Field 86 with Dutch and Polish labels."""

from __future__ import annotations

import pytest

from payrec.domain.statements import Direction
from support.mt940 import assert_fields, details


def test_dutch_labels_in_two_columns() -> None:
    entry = details(
        "SEPA IDEAL                       IBAN: NL70ABNA0888888888",
        "BIC: ABNANL2A                    NAAM: VERVOER INZAKE KAARTEN",
        "OMSCHRIJVING: 4851430136 0030000 735822580 E-TICKET(S)",
        "KENMERK: 26-01-2014 18:14 003000 0735822580",
    )
    assert_fields(
        entry,
        counterparty_account="NL70ABNA0888888888",
        counterparty_bic="ABNANL2A",
        counterparty_name="VERVOER INZAKE KAARTEN",
        remittance="4851430136 0030000 735822580 E-TICKET(S)",
        end_to_end_id="26-01-2014 18:14 003000 0735822580",
        metadata={"bookingText": "SEPA IDEAL"},
    )


def test_dutch_labels_of_a_direct_debit_and_of_a_payment_slip() -> None:
    entry = details(
        "SEPA INCASSO ALGEMEEN DOORLOPEND INCASSANT: NL40ZZZ878787780000",
        "NAAM: ENERGIE B.V.              MACHTIGING: EHV001",
        "OMSCHRIJVING: MAANDTERMIJN NAAM: VAN EEN ANDER",
        "IBAN: NL91ABNA0417164300         KENMERK: AA 2014-11-11",
        direction="debit",
    )
    assert_fields(
        entry,
        counterparty_account="NL91ABNA0417164300",
        counterparty_name="ENERGIE B.V.",
        mandate_id="EHV001",
        remittance="MAANDTERMIJN NAAM: VAN EEN ANDER",
        end_to_end_id="AA 2014-11-11",
        metadata={"bookingText": "SEPA INCASSO ALGEMEEN DOORLOPEND", "creditorId": "NL40ZZZ878787780000"},
    )
    entry = details(
        "SEPA ACCEPTGIROBETALING          IBAN: NL86INGB0002445588",
        "BIC: INGBNL2A                    NAAM: DIENST",
        "BETALINGSKENM.: 1234567890098876 ID DEBITEUR: 777777777",
    )
    assert_fields(entry, structured_reference="1234567890098876", remittance=None)
    assert entry.metadata["debtorId"] == "777777777"


def test_a_dutch_account_with_its_name_behind_the_text() -> None:
    entry = details("EEN OMSCHRIJVING DIE LANG IS", "REK: NL76INGB0444444444/NAAM: STICHTING DERDEN")
    assert_fields(
        entry,
        counterparty_account="NL76INGB0444444444",
        counterparty_name="STICHTING DERDEN",
        remittance="EEN OMSCHRIJVING DIE LANG IS",
    )
    assert details("REK: NL76INGB0444444444/NAAM: BEDRIJF VOF").remittance is None


@pytest.mark.parametrize(
    "written",
    ["SEPA OVERBOEKING IBAN: none NAAM: X", "SEPA OVERBOEKING", "SEPA IBAN:NL76", "REK: 12/NAAM: X", "NAAM: X"],
)
def test_what_only_looks_like_dutch_labels_is_a_text(written: str) -> None:
    assert_fields(details(written), remittance=written, counterparty_name=None, counterparty_account=None)


@pytest.mark.parametrize(("account", "party", "direction"), [("Z RACH.", "OD", "credit"), ("NA RACH.", "DLA", "debit")])
def test_polish_labels(account: str, party: str, direction: Direction) -> None:
    entry = details(
        f"073 PRZELEW ZEWNETRZNY; {account}: ",
        f"56114010810000267002001001; {party}: JAN NOWAK  ",
        "UL. NIJAKA 1 31-234 KRAKOW; TYT.: FV 12/2026; zaplata   ; ",
        "TNR: 179171073864111.010001",
        direction=direction,
    )
    assert_fields(
        entry,
        counterparty_account="56114010810000267002001001",
        counterparty_name="JAN NOWAK UL. NIJAKA 1 31-234 KRAKOW",
        remittance="FV 12/2026; zaplata",
        bank_reference="179171073864111.010001",
        metadata={"bookingText": "073 PRZELEW ZEWNETRZNY"},
    )


def test_a_fee_with_a_polish_number_alone_is_free_text() -> None:
    line = "824 OPLATA ZA PRZELEW ELIXIR; TNR: 145271016138274.040001"
    assert_fields(details(line), remittance=line, bank_reference=None, counterparty_name=None)
