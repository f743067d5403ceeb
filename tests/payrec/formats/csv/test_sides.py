"""Which way the money went, where no amount has a sign and a column says it under a heading or in words of its own."""

from __future__ import annotations

import pytest

from payrec.errors import Question, UnreadableFileError
from support.csv_files import entries, read, reason, rejected, signed
from support.xlsx_files import table, workbook

WANTED = [10_000, -2_550, 1_000]


def rows(heading: str, money_in: str, money_out: str, more: str = "") -> str:
    header = f"Date;{heading};Description;Amount;Currency{more and ';Balance'}\n"
    amounts = (
        ("15", money_in, "100.00", "200.00"),
        ("16", money_out, "25.50", "174.50"),
        ("17", money_in, "10.00", ""),
    )
    return header + "".join(
        f"2026-01-{day};{mark};x;{amount};EUR{more and f';{balance}'}\n" for day, mark, amount, balance in amounts
    )


def asked(text: str | bytes) -> Question:
    with pytest.raises(UnreadableFileError) as refused:
        read(text)
    assert refused.value.reason == "csv_ambiguous_sign"
    assert refused.value.question is not None
    return refused.value.question


@pytest.mark.parametrize("heading", ["Type", "Direction", "Debit/Credit", "Transaction Direction"])
@pytest.mark.parametrize(
    ("money_in", "money_out"),
    [
        ("Received", "Sent"),
        ("money_in", "money_out"),
        ("Income", "Expense"),
        ("INBOUND", "OUTBOUND"),
        ("Eingang", "Ausgang"),
        ("Entrata", "Uscita"),
        ("Ingreso", "Gasto"),
        ("Recette", "Dépense"),
        ("Wpływ", "Wypływ"),
        ("Ma", "Wn"),
        ("Příjem", "Výdaj"),
        ("Insättning", "Uttag"),
        ("Inn", "Ut"),
    ],
)
def test_marks_are_words_of_many_languages(heading: str, money_in: str, money_out: str) -> None:
    assert signed(entries(rows(heading, money_in, money_out))) == WANTED


@pytest.mark.parametrize("heading", ["Haben/Soll", "S/H-Kennz.", "CreditDebit", "Debit or Credit", "Vorzeichen"])
def test_a_heading_of_marks_is_known_whichever_side_it_names_first(heading: str) -> None:
    assert signed(entries(rows(heading, "H", "S"))) == WANTED


@pytest.mark.parametrize("heading", ["Flow", "Kennzeichen", "Nature", "Buchungsart", "Betrag S/H", "Entry type"])
@pytest.mark.parametrize(("money_in", "money_out"), [("Credit", "Debit"), ("H", "S"), ("+", "-")])
def test_marks_under_any_other_heading_are_asked_about(heading: str, money_in: str, money_out: str) -> None:
    """All of these were money in."""
    text = rows(heading, money_in, money_out)
    marks, as_is = [alternative.value for alternative in asked(text).alternatives]
    assert marks == {"direction": {"column": 1}}
    assert signed(entries(text, profile=marks)) == WANTED
    assert signed(entries(text, profile=as_is)) == list(map(abs, WANTED))


def test_what_such_a_mark_does_not_say_rejects_its_row() -> None:
    text = rows("Flow", "Credit", "Debit").replace("15;Credit", "15;None")
    assert rejected(text, profile={"direction": {"column": "Flow"}}) == [("missing_direction", 2)]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(rows("Card type", "Credit", "Debit"), id="kinds of cards"),
        pytest.param(rows("Payment method", "Credit", "Debit"), id="kinds of payment"),
        pytest.param(rows("Status", "Received", "Sent"), id="states"),
        pytest.param(rows("Class", "A", "B"), id="letters, and not all are marks"),
        pytest.param(rows("Class", "D", "D"), id="a letter alone"),
        pytest.param(rows("Flow", "Credit", "Credit"), id="one side"),
        pytest.param(rows("Flow", "", ""), id="nothing"),
        pytest.param(rows("Direction", "", ""), id="no direction"),
    ],
)
def test_nothing_is_asked_where_no_column_says_a_side(text: str) -> None:
    assert signed(entries(text)) == list(map(abs, WANTED))


def test_an_amount_with_a_sign_or_a_balance_tells_more_than_a_mark_that_nobody_knows() -> None:
    assert signed(entries(rows("Flow", "Credit", "Debit").replace("25.50", "-25.50"))) == WANTED
    assert signed(entries(rows("Direction", "Plenty", "Little").replace("25.50", "-25.50"))) == WANTED
    balanced = rows("Flow", "Debit", "Credit", "with balance").replace("25.50", "-25.50")
    assert signed(entries(balanced)) == WANTED


def test_one_word_that_means_nothing_else_is_enough() -> None:
    assert reason(rows("Flow", "Debit", "Debit")) == "csv_ambiguous_sign"


def test_a_direction_in_words_that_nobody_knows_is_asked_about() -> None:
    question = asked(rows("Direction", "Panto", "Otto"))
    assert [alternative.value for alternative in question.alternatives] == [{"sign": "as_is"}]
    assert question.others is not None
    answer = {"direction": {"column": "Direction", "debit": ["Otto"]}}
    assert signed(entries(rows("Direction", "Panto", "Otto"), profile=answer)) == WANTED


def test_a_side_that_comes_first_behind_the_head_is_asked_about() -> None:
    header, first, *_ = rows("Flow", "Credit", "Debit").splitlines(keepends=True)
    many = header + first * 3_000
    assert set(signed(entries(many))) == {10_000}
    assert reason(many + first.replace("Credit", "Debit")) == "csv_ambiguous_sign"


def test_marks_need_no_header_and_no_text_file() -> None:
    headings, *lines = [line.split(";") for line in rows("Flow", "Credit", "Debit").splitlines()]
    assert asked(workbook(table(*lines, headings=headings))).alternatives[0].value == {"direction": {"column": 1}}
    columns = {"bookingDate": 0, "remittance": [2], "amount": 3, "currency": 4}
    bare = "\n".join(";".join(line) for line in lines)
    assert reason(bare, profile={"headerRow": None, "columns": columns}) == "csv_ambiguous_sign"


def test_the_marks_of_a_cards_table_go_before_its_sign() -> None:
    text = rows("Flow", "Credit", "Debit").replace("Description", "Card holder")
    assert asked(text).alternatives[0].value == {"direction": {"column": 1}}
