"""Field 86 of Polish banks: the German structure without its code, or with the code in a field of its own."""

from __future__ import annotations

import pytest

from support.mt940 import assert_fields, details

IBAN = "PL27114020040000300201355387"
FIELDS = (
    "{0}00PRZELEW PRZYCHODZACY{0}20FV 12/2026{0}21zaplata za towary i u{0}22{0}29" + IBAN + "{0}3011402004"
    "{0}31140200400003002013553{0}32JAN NOWAK{0}33KRAKOW{0}38" + IBAN + "{0}60dziekuje"
)


@pytest.mark.parametrize("separator", list("^<>~?|"))
def test_fields_without_a_code(separator: str) -> None:
    assert_fields(
        details(FIELDS.format(separator)),
        bank_transaction_code="NTRF",
        counterparty_name="JAN NOWAK KRAKOW",
        counterparty_account=IBAN,
        remittance="FV 12/2026 zaplata za towary i u dziekuje",
        metadata={"bookingText": "PRZELEW PRZYCHODZACY", "counterpartyBankCode": "11402004"},
    )


def test_fields_without_a_code_on_lines_of_their_own() -> None:
    assert details(*FIELDS.format("\n~").strip().split("\n")) == details(FIELDS.format("~"))


def test_a_full_field_goes_on_without_a_blank() -> None:
    assert details("~20FV 12/2026 zaplata za uslug~21i z marca~22FV 13~32X").remittance == (
        "FV 12/2026 zaplata za uslugi z marca FV 13"
    )


def test_an_account_within_the_text_fields_is_the_counterparty_s() -> None:
    assert_fields(
        details(f"^20FV 1^25{IBAN}^32JAN NOWAK"),
        counterparty_account=IBAN,
        counterparty_name="JAN NOWAK",
        remittance="FV 1",
    )


@pytest.mark.parametrize(
    "lines",
    [
        ("073", FIELDS.format("^")),
        (" 073 ", " " + FIELDS.format("^")),
        ("073", "073" + FIELDS.format("^")),
    ],
)
def test_a_code_in_a_field_of_its_own(lines: tuple[str, ...]) -> None:
    assert details(*lines) == details("073" + FIELDS.format("^"))
    assert details(*lines).bank_transaction_code == "NTRF+073"


@pytest.mark.parametrize(
    "lines",
    [
        ("^00 Brak opisu",),
        ("~20 sztuk",),
        ("~01x~02y~20z",),
        ("?2026 and ?2027",),
        ("020", "text"),
        ("-20FV 1-32JAN",),
        ("+20FV 1+32JAN",),
        ("/20FV 1/32JAN",),
    ],
)
def test_what_may_be_text_stays_text(lines: tuple[str, ...]) -> None:
    assert_fields(details(*lines), remittance=" ".join(lines), counterparty_name=None, bank_transaction_code="NTRF")
