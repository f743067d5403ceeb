from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.constants import TEXT_LENGTH_MAX
from payrec.domain.statements import Direction, Entry
from payrec.formats.base import RecordError
from payrec.formats.mt940.details import read_details
from payrec.formats.mt940.slash import LINE_WIDTH
from support.mt940 import assert_fields, details

GERMAN = (
    "166{0}00GUTSCHRIFT{0}109251{0}20EREF{1}E2E-1{0}21KREF{1}K1{0}22MREF{1}M1{0}23CRED{1}DE98ZZZ{0}24SVWZ{1}Rechnung "
    "47{0}2511 vom 2.1.{0}30COBADEFFXXX{0}31DE89370400440532013000{0}32Muster Handel{0}33GmbH{0}34000"
)


@pytest.mark.parametrize("separator", list("?<>+~|^"))
def test_german_structure_with_any_separator(separator: str) -> None:
    entry = details(GERMAN.format(separator, ":" if separator == "+" else "+"))
    assert_fields(
        entry,
        bank_transaction_code="NTRF+166",
        end_to_end_id="E2E-1",
        instruction_id="K1",
        mandate_id="M1",
        remittance="Rechnung 4711 vom 2.1.",
        counterparty_bic="COBADEFFXXX",
        counterparty_account="DE89370400440532013000",
        counterparty_name="Muster Handel GmbH",
        return_reason=None,
        metadata={"bookingText": "GUTSCHRIFT", "creditorId": "DE98ZZZ"},
    )


@pytest.mark.parametrize("keyword_sign", ["+", ":"])
def test_german_keywords_with_plus_or_colon(keyword_sign: str) -> None:
    entry = details(GERMAN.format("?", keyword_sign))
    assert_fields(entry, end_to_end_id="E2E-1", mandate_id="M1", remittance="Rechnung 4711 vom 2.1.")


def test_plus_as_separator_does_not_end_keywords() -> None:
    entry = details("166+00GUTSCHRIFT+20EREF+2012+21SVWZ+RE 30+32Muster")
    assert_fields(entry, end_to_end_id="2012", remittance="RE 30", counterparty_name="Muster")


def test_keywords_break_across_fields_and_lines() -> None:
    entry = details("166?20EREF+A-1SV?21WZ+Rechnung 47?2211 und mehr?60 noch")
    assert_fields(entry, end_to_end_id="A-1", remittance="Rechnung 4711 und mehr noch")


@settings(max_examples=60)
@given(st.integers(5, LINE_WIDTH))
def test_line_breaks_at_the_full_width_change_nothing(first: int) -> None:
    whole = "166?00GUTSCHRIFT?20EREF+E2E-1?21SVWZ+" + "Rechnung-" * 9 + "?30COBADEFFXXX?32Muster"
    shifted = "166?10" + "9" * first + whole[3:]
    lines = [shifted[i : i + LINE_WIDTH] for i in range(0, len(shifted), LINE_WIDTH)]
    assert details(*lines) == details(shifted)


def test_blank_that_was_trimmed_at_the_end_of_a_full_line_comes_back() -> None:
    line = "166?20SVWZ+" + "x" * (LINE_WIDTH - 12)
    assert len(line) == LINE_WIDTH - 1
    assert details(line, "y").remittance == "x" * (LINE_WIDTH - 12) + " y"
    assert details(line, "?32Muster").counterparty_name == "Muster"


def test_fields_on_lines_of_their_own() -> None:
    entry = details("020?00VIREMENT", "?20LIGNE1", "?21LIGNE2", "?32NOM", "?33SUITE")
    assert_fields(entry, remittance="LIGNE1LIGNE2", counterparty_name="NOM SUITE")


def test_name_goes_on_without_a_blank_after_a_full_field() -> None:
    entry = details("166?32Cornelia Prochownik 70 Zeic?33hen Beginn")
    assert entry.counterparty_name == "Cornelia Prochownik 70 Zeichen Beginn"


def test_text_without_keywords_is_the_remittance() -> None:
    entry = details("008?00DAUERAUFTRAG?20Miete Novem?21ber?3010020030?31234567?32MUELLER")
    assert_fields(entry, remittance="Miete November", counterparty_account="234567", counterparty_bic=None)
    assert entry.metadata == {"bookingText": "DAUERAUFTRAG", "counterpartyBankCode": "10020030"}


def test_unknown_keywords_and_numbers_stay_text() -> None:
    entry = details("166?20SVWZ+ABCD+x: y?50 Euro? INFO:z?21ARABIC:1")
    assert entry.remittance == "ABCD+x: y?50 Euro? INFO:zARABIC:1"
    assert entry.counterparty_bic is None


def test_iban_and_bic_within_the_text() -> None:
    entry = details("166?20SVWZ+Rechnung 1 IBAN: DE89 3704 0044 0532 0130 00 BIC: COBADEFFXXX ABWA: Kind")
    assert_fields(
        entry,
        remittance="Rechnung 1",
        counterparty_account="DE89370400440532013000",
        counterparty_bic="COBADEFFXXX",
        ultimate_counterparty_name="Kind",
    )


@pytest.mark.parametrize(
    ("text", "direction", "ultimate"),
    [
        ("166?20SVWZ+x ABWA: Kind ABWE: Wir", "credit", "Kind"),
        ("166?20SVWZ+x ABWA: Wir ABWE: Kind", "debit", "Kind"),
        ("166?20SVWZ+x ABWE: Wir", "credit", None),
        ("/ULTD//NAME/Kind/ULTC//NAME/Wir/REMI//text/", "credit", "Kind"),
        ("/ULTD//NAME/Wir/ULTC//NAME/Kind/REMI//text/", "debit", "Kind"),
        ("/ULTC//NAME/Wir/REMI//text/", "credit", None),
    ],
)
def test_on_whose_behalf_is_asked_of_the_counterparty_alone(
    text: str, direction: Direction, ultimate: str | None
) -> None:
    assert details(text, direction=direction).ultimate_counterparty_name == ultimate


def test_original_amount_in_another_currency() -> None:
    original = details("166?20OAMT+USD 11,10?21SVWZ+x").original
    assert original is not None
    assert (original.amount_minor, original.currency) == (1110, "USD")
    assert details("166?20OAMT+EUR 11,10?21SVWZ+x").original is None


def test_id_that_is_too_long_to_be_one_ends_with_its_field() -> None:
    entry = details("159?00RETOURE?20EREF+TFNR 40005 00005?21MTLG:Grund nicht spezifizie?22rt Reject?34914")
    assert_fields(
        entry,
        end_to_end_id="TFNR 40005 00005",
        remittance="MTLG:Grund nicht spezifiziert Reject",
        return_reason="914",
    )


@pytest.mark.parametrize("code", ["000", "339", "992", "997", "x"])
def test_extension_of_the_text_key_is_no_return(code: str) -> None:
    assert details(f"166?20x?34{code}").return_reason is None


def test_iban_of_field_38_replaces_an_account_that_is_none() -> None:
    iban = "PL61109010140000071219812874"
    assert details(f"020?20x?310000777777?38{iban}").counterparty_account == iban
    assert details(f"020?20x?31DE89370400440532013000?38{iban}").counterparty_account == "DE89370400440532013000"


def test_placeholders_are_none() -> None:
    assert details("166?20EREF+NOTPROVIDED?21SVWZ+NONREF?30NONREF").end_to_end_id is None


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (
            ("/EREF/ABC/ORDP//NAME/ACME BV/REMI/USTD//factuur", "12/3/CDTRREF/RF18539007547034"),
            {
                "end_to_end_id": "ABC",
                "counterparty_name": "ACME BV",
                "remittance": "factuur 12/3",
                "structured_reference": "RF18539007547034",
            },
        ),
        (
            ("/TRTP/SEPA OVERBOEKING/IBAN/NL32INGB0000012345/BIC/INGBNL2A/NAME/J. Jansen/REMI/a/b/EREF/NOTPROVIDED",),
            {
                "counterparty_account": "NL32INGB0000012345",
                "counterparty_bic": "INGBNL2A",
                "counterparty_name": "J. Jansen",
                "remittance": "a/b",
                "end_to_end_id": None,
                "metadata": {"bookingText": "SEPA OVERBOEKING"},
            },
        ),
        (
            ("/EREF/E//MARF/M-1//CSID/NL99ZZZ//CNTP/NL32INGB0000012345/INGBNL2A/A/B Shop/AMSTERDAM///REMI/USTD//x y/",),
            {
                "mandate_id": "M-1",
                "counterparty_account": "NL32INGB0000012345",
                "counterparty_bic": "INGBNL2A",
                "counterparty_name": "A/B Shop",
                "remittance": "x y",
                "metadata": {"creditorId": "NL99ZZZ"},
            },
        ),
        (("/CNTP//INGBNL2A/Shop///REMI/x",), {"counterparty_account": None, "counterparty_name": "Shop"}),
        (
            ("/RTRN/MS03/PREF/P1/ISDT/2026-01-02/PURP//CD/SALA/ULTD//NAME/Kind/REMI/STRD/CUR/RF18 5390 0754 7034/",),
            {
                "return_reason": "MS03",
                "payment_information_id": "P1",
                "purpose_code": "SALA",
                "ultimate_counterparty_name": "Kind",
                "counterparty_name": None,
                "remittance": None,
                "structured_reference": "RF18539007547034",
                "metadata": {"interestDate": "2026-01-02"},
            },
        ),
        (
            ("/BENM//NAME/Ours/ORDP//NAME/Theirs/IBAN/NL32INGB0000012345/REMI//text/",),
            {"counterparty_name": "Theirs", "counterparty_account": "NL32INGB0000012345", "remittance": "text"},
        ),
    ],
)
def test_slash_structure(lines: tuple[str, ...], wanted: dict[str, Any]) -> None:
    assert_fields(details(*lines), **wanted)


def test_slash_party_depends_on_the_direction() -> None:
    text = "/BENM//NAME/Payee/ORDP//NAME/Payer/REMI/x"
    assert details(text, direction="debit").counterparty_name == "Payee"
    assert details(text, direction="credit").counterparty_name == "Payer"


@settings(max_examples=60)
@given(length=st.integers(1, 120), slash=st.booleans())
def test_lines_of_the_full_width_continue_without_a_blank_and_others_with_one(length: int, *, slash: bool) -> None:
    begin = "/REMI/" if slash else "text "
    first = begin + "x" * length
    second = "y" if slash else "z"
    joined = "x" * length + ("" if len(first) == LINE_WIDTH else " ") + second
    assert details(first, second).remittance == ("" if slash else begin) + joined


@pytest.mark.parametrize(
    "lines",
    [("/PT/FT/PY/SOMETHING FOO BAR",), ("12/3 a/b",), ("/not known/x",), ("911 TRANSAKCJA",), ("999PN5477SCHECK",)],
)
def test_everything_else_is_free_text(lines: tuple[str, ...]) -> None:
    entry = details(*lines)
    assert entry.remittance == " ".join(lines)
    assert entry.bank_transaction_code == "NTRF"


def test_creditor_reference_in_free_text() -> None:
    assert details("payment RF18 5390 0754 7034 thanks").structured_reference == "RF18539007547034"


def test_field_ns() -> None:
    entry = details(
        ns=(
            "01Verwendungszweck 1",
            "02Verwendungszweck 2",
            "15ERGO Versicherung AG Fiokte",
            "16lep",
            "17Text",
            "33109",
            "3442",
        )
    )
    assert_fields(
        entry,
        remittance="Verwendungszweck 1 Verwendungszweck 2",
        counterparty_name="ERGO Versicherung AG Fioktelep",
        counterparty_account="42",
        metadata={"bookingText": "Text", "counterpartyBankCode": "109"},
    )
    assert details("free", ns=("01more",)).remittance == "free more"


def test_several_fields_86_are_one() -> None:
    assert details("first", "second").remittance == "first second"


@pytest.mark.parametrize(
    "line", ["166?20SVWZ+x?32{}", "/EREF/{}", "166?20EREF+{}", "166?00{}", "/CNTP/{}/X/N/C/", "166?31{}"]
)
def test_fields_beyond_their_limit_reject_the_record(line: str) -> None:
    details(line.format("x" * TEXT_LENGTH_MAX))
    with pytest.raises(RecordError) as caught:
        details(line.format("x" * (TEXT_LENGTH_MAX + 1)))
    assert caught.value.code == "field_too_long"


@settings(max_examples=100)
@given(
    st.lists(
        st.one_of(
            st.text(max_size=70),
            st.text(alphabet="?+/:20123 EREFSVWZ", max_size=70),
            st.sampled_from(["166?20EREF+", "/REMI/USTD//", "/CNTP/", "?32", "?21SVWZ+", "/ULTD//NAME/"]),
        ),
        min_size=1,
        max_size=5,
    ),
    st.lists(st.text(max_size=30), max_size=3),
)
def test_any_details_give_clean_text_or_the_typed_error(lines: list[str], ns: list[str]) -> None:
    entry = Entry(currency="EUR")
    try:
        read_details(entry, lines, ns, size=10**6)
    except RecordError:
        return
    texts = [entry.remittance, entry.counterparty_name, entry.end_to_end_id, entry.counterparty_account]
    for text in [*texts, *entry.metadata.values()]:
        assert text is None or (text == text.strip() and text and "\x00" not in text)


def test_a_first_line_that_is_full_with_its_tag_goes_on_without_a_blank() -> None:
    first = "/CNTP/NL57ABNA0876543211/ABNANL2A/B Bert///REMI/USTD//INV-08"
    first = first.ljust(LINE_WIDTH - len(":86:"), "7")
    assert details(first, "15/").remittance == first.rpartition("//")[2] + "15"


@pytest.mark.parametrize("at", [1, 3, 5])
def test_a_keyword_that_is_broken_by_a_short_line_is_one(at: int) -> None:
    entry = details("/EREF/NOTPROVIDED/" + "/REMI"[:at], "/REMI"[at:] + "/USTD//Factuur 201801-001/")
    assert_fields(entry, end_to_end_id=None, remittance="Factuur 201801-001")
    assert details("/REMI/one /R", "E/ two").remittance == "one /R E/ two"


def test_of_a_slash_keyword_that_comes_twice_an_empty_one_says_nothing() -> None:
    assert details("/EREF/E1/REMI//REMI/AFREK. 11").remittance == "AFREK. 11"


def test_what_stands_before_any_party_is_of_the_counterparty() -> None:
    entry = details(
        "/IBAN/NL25ABNA0987654321/NAME/FOO/REMI/x/EREF/NOTPROVIDED/ORDP//ID/2015-3798473", direction="debit"
    )
    assert_fields(entry, counterparty_name="FOO", counterparty_account="NL25ABNA0987654321")
    assert details("/REMI/x/ORDP//ID/2015").counterparty_name is None
    booked = details("/TRTP/SEPA OVERBOEKING/BBAN/53851317/NAME/FOO")
    assert_fields(booked, counterparty_account="53851317", metadata={"bookingText": "SEPA OVERBOEKING"})


@pytest.mark.parametrize("account", ["TRIODOSBANK/0454545454", "0454545454"])
def test_the_own_account_is_no_counterparty_s(account: str) -> None:
    lines = ["000>100000000000", ">20RABONL2U", ">21NL91ABNA0417164300", ">22METSELAAR B>310454545454"]
    entry = Entry(currency="EUR", account=account)
    read_details(entry, lines, [], size=100)
    assert_fields(entry, counterparty_account="NL91ABNA0417164300", counterparty_bic="RABONL2U")
    entry = Entry(currency="EUR", account=account)
    read_details(entry, ["000>20ALGEMENE KOSTEN>310454545454"], [], size=100)
    assert_fields(entry, counterparty_account=None, counterparty_bic=None, remittance="ALGEMENE KOSTEN")
