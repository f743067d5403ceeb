from __future__ import annotations

import pytest

from support.bai2_files import codes, entry_of, file_of, read, rejection_of


def test_text_may_hold_commas_and_slashes() -> None:
    entry = entry_of("16,142,500,Z,BR,CR,PAID 1/2, 3/4 and more/")
    assert entry.remittance == "PAID 1/2, 3/4 and more"
    assert (entry.bank_reference, entry.instruction_id) == ("BR", "CR")


@pytest.mark.parametrize(
    "text",
    [
        "RATE 10/ 16,000 USD",
        "12/16,142",
        "A/ 16,142,500 PAID",
        "A/16,142,500,QX,",
        "SEE 5/88,99",
        "A/49,B",
        "OR 3/ 03,",
        "A / 98,x",
        "DATE 03/16,2026",
    ],
)
def test_slash_in_a_text_is_no_end(text: str) -> None:
    entry = entry_of(f"16,142,500,Z,,,{text}")
    assert entry.remittance == text


def test_text_ends_with_its_line_and_continuations_go_on() -> None:
    assert entry_of("16,142,500,,,,ONE", "88,TWO/", "88,THREE, FOUR").remittance == "ONE TWO THREE, FOUR"
    # A line of 80 characters breaks wherever it is full.
    full = "16,142,500,,,," + "x" * 66
    assert entry_of(full, "88,YZ").remittance == "x" * 66 + "YZ"
    assert entry_of("16,142,500,,,,A", "88," + "b" * 77, "88,c").remittance == "A " + "b" * 77 + "c"


def test_a_line_that_is_longer_than_eighty_characters_was_not_broken_for_it() -> None:
    """A continuation is another text then, and its first word is not part of the last one."""
    long = "16,142,500,,,,GS ID: " + "7" * 60
    assert entry_of(long, "88,EREF: 1111").remittance == "GS ID: " + "7" * 60 + " EREF: 1111"
    assert entry_of("16,142,500,,,,A", "88," + "b" * 78, "88,c").remittance == "A " + "b" * 78 + " c"


def test_slashes_in_references_are_part_of_them() -> None:
    read_ = read(file_of("16,142,500,,BR/1,AB/GS/0001,ACH PAYMENT, B/C", "88,D", trailers=("49,500,4/", "98,500,1,6/")))
    (entry,) = read_.entries[0]
    assert (entry.bank_reference, entry.instruction_id, entry.remittance) == (
        "BR/1",
        "AB/GS/0001",
        "ACH PAYMENT, B/C D",
    )
    assert "bai2_layout" not in codes(read_)
    assert entry_of("16,142,500,Z,BR/").bank_reference == "BR"
    assert entry_of("16,142,500,Z,BR,AB/GS/").instruction_id == "AB/GS"
    assert entry_of("16,142,500,Z,,CR/", "88,TEXT, MORE").instruction_id == "CR"


def test_continuation_between_fields() -> None:
    whole = entry_of("16,142,500,V,260105,,B,C,TEXT")
    for parts in (
        ("16,142/", "88,500,V,260105,,B,C,TEXT"),
        ("16,142,/", "88,500,V,260105,,B,C,TEXT"),
        ("16,142,500,V/", "88,260105,,B,C,TEXT"),
        ("16,142,500,V,/", "88,260105/", "88,,B,C,TEXT"),
        ("16,142,500,V,260105,,B,C/", "88,TEXT"),
        ("16,142,500,V,260105,,B,C,/", "88,TEXT"),
    ):
        entry = entry_of(*parts)
        assert entry.remittance == "TEXT", parts
        assert (entry.amount_minor, entry.value_on, entry.bank_reference, entry.instruction_id) == (
            whole.amount_minor,
            whole.value_on,
            "B",
            "C",
        )


def test_reference_that_a_continuation_follows_stays_empty() -> None:
    entry = entry_of("16,142,500,,B,/", "88,TEXT, WITH A COMMA")
    assert (entry.bank_reference, entry.instruction_id, entry.remittance) == ("B", None, "TEXT, WITH A COMMA")


@pytest.mark.parametrize(
    "account",
    [
        "03,123,USD,010,100,,,015,-50,,,040,7,,,045,8,,/",
        "03,123,USD/\n88,010,100,,,015,-50,,,040,7,,,045,8,,/",
        "03,123,USD,010,100,,/\n88,015,-50,,,/\n88,040,7,,/\n88,045,8/",
        "03,123,USD,010/\n88,100,,,015,/\n88,-50,,,040,7,,,045,8,,/",
        "03,123,USD,010,+000100,1,S,1,2,3,015,-50,,V,260102,,040,7,,D,2,0,5,1,2,045,8,,Z/",
    ],
)
def test_continuation_of_an_account(account: str) -> None:
    found = read(file_of(account=account))
    assert [(b.type, b.signed_minor) for b in found.statements[0].balances] == [
        ("opening", 100),
        ("closing", -50),
        ("opening_available", 7),
        ("closing_available", 8),
    ]
    assert codes(found) == ["balance_mismatch"]


def test_several_records_on_a_line() -> None:
    text = file_of("16,142,500,Z,,,A / B/", "16,475,300,,,77,C/", "88,MORE/", trailers=("49,800,5/", "98,800,1,7/"))
    whole = read(text)
    assert codes(whole) == ["incomplete_file"]
    for joined in (text.replace("\n", "  "), text.replace("\n", ""), text.replace("/\n", "/   ")):
        found = read(joined)
        assert codes(found) == ["bai2_layout", "incomplete_file"]
        assert [(e.amount_minor, e.remittance, e.check_number) for e in found.entries[0]] == [
            (500, "A / B", None),
            (300, "C MORE", "77"),
        ]
        assert found.statements[0].control_totals_check == "ok"


def test_text_wrapped_without_a_continuation_record() -> None:
    found = read(file_of("16,142,500,,,,ONE", "TWO  3,4", "THREE/", "88,FOUR/", "16,142,600,,,,B/"))
    assert [(e.line, e.remittance) for e in found.entries[0]] == [(4, "ONE TWO 3,4 THREE FOUR"), (8, "B")]
    assert [(p.code, p.line, p.rejects) for p in found.problems] == [("bai2_layout", 4, False)]


def test_wrapped_fields_are_never_guessed_together() -> None:
    assert rejection_of("16,142,12", "34,,,,X/") == "invalid_amount"


def test_line_that_is_no_record_is_rejected_with_its_number() -> None:
    assert rejection_of("17,142,500,,,,X/") == "invalid_entry"
    assert rejection_of("nonsense") == "invalid_entry"
    # Behind a text without an end it is part of that text: nothing tells it from a wrapped one.
    found = read(file_of("16,142,1,,,,A", "nonsense"))
    assert [e.remittance for e in found.entries[0]] == ["A nonsense"]
    assert codes(found) == ["bai2_layout"]


def test_what_stands_behind_the_end_of_a_record_is_told() -> None:
    found = read(file_of("16,142,500/garbage", account="03,123,USD/rest"))
    assert codes(found) == ["bai2_layout", "bai2_layout"]
    assert [e.remittance for e in found.entries[0]] == [None]


def test_continuation_of_nothing() -> None:
    found = read("01,B,A,260103,0754,1,,,2/\n88,x/\n02,A,B,1,260102,,,/\n03,1,/\n49,/\n98,/\n99,/\n")
    assert codes(found) == []


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r", "  \r\n", "\n\n"])
def test_line_ends_do_not_matter(newline: str) -> None:
    found = read(file_of("16,142,500,,,,A/", "88,B/", newline=newline))
    assert codes(found) == []
    assert [e.remittance for e in found.entries[0]] == ["A B"]


def test_end_of_file_mark_is_no_line() -> None:
    assert codes(read(file_of("16,142,500,,,,A/") + "\x1a")) == []


def test_blanks_before_records_and_around_fields() -> None:
    found = read(file_of("  16, 142 , 500 , z , B , C , A  /", account=" 03, 12 3 ,usd, 010 , 5 ,,/"))
    assert codes(found) == []
    (head,) = found.statements
    assert (head.account, head.currency) == ("12 3", "USD")
    assert [b.signed_minor for b in head.balances] == [5]
    (entry,) = found.entries[0]
    assert (entry.amount_minor, entry.bank_reference, entry.remittance) == (500, "B", "A")


def test_file_that_ends_within_a_record() -> None:
    text = file_of("16,142,100,,,,A/", "16,142,12345,Z,,,TEXT", trailers=())
    assert [e.amount_minor for e in read(text).entries[0]] == [100, 12345]
    for cut in (text[:-1], text[: text.rindex("345")], text[: text.rindex(",Z")]):
        found = read(cut)
        assert [e.amount_minor for e in found.entries[0]] == [100], cut
        assert codes(found)[0] == "invalid_entry"
        assert "incomplete_file" in codes(found)
    found = read(file_of(account="03,123,USD,010,12345,,,015,1", trailers=())[:-1])
    assert found.statements[0].balances == []
    assert codes(found)[0] == "invalid_balance"
