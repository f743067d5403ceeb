"""Refunds and fees without a sign that come first behind the head of a file, or after an answer was given."""

from __future__ import annotations

from typing import Any

import pytest

from payrec.constants import DETECTION_BYTES, XLSX_HEAD_ROWS
from payrec.errors import UnreadableFileError
from support.csv_files import entries, read, reason, rejected, signed
from support.xlsx_files import table, workbook

HEADER = "Date,Type,Amount,Currency,Status,Reference\n"
SALE = "2026-01-02,SALE,1.00,EUR,paid,INV-77\n"
FEW, MANY = 3, DETECTION_BYTES // len(SALE) + 10
REFUND, FEE = SALE.replace("SALE", "Refund"), SALE.replace("SALE", "Fee")
NAMED = {"direction": {"column": "Type", "debit": ["Fee"]}}


def alternatives(text: str | bytes, **options: Any) -> list[dict[str, Any]]:
    with pytest.raises(UnreadableFileError) as refused:
        read(text, **options)
    assert refused.value.reason == "csv_ambiguous_sign"
    assert refused.value.question is not None
    return [alternative.value for alternative in refused.value.question.alternatives]


@pytest.mark.parametrize("count", [FEW, MANY])
def test_all_kinds_of_a_file_are_asked_about_at_once_wherever_they_come(count: int) -> None:
    payout = SALE.replace("SALE", "Payout")
    text = HEADER + SALE * count + REFUND + SALE * count + FEE + payout + FEE
    every, without_payouts, as_is = alternatives(text)
    assert every == {"direction": {"column": 1, "debit": ["fee", "payout", "refund"]}}
    assert without_payouts == {"direction": {"column": 1, "debit": ["fee", "refund"]}}
    for answer, out in ((every, 4), (without_payouts, 3), (as_is, 0)):
        found = signed(entries(text, profile=answer))
        assert (len(found), found.count(-100)) == (2 * count + 4, out)


@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize(
    "last",
    [
        pytest.param(SALE.replace("1.00", "-1.00"), id="an amount has a sign"),
        pytest.param(REFUND.replace("paid", "failed"), id="a refund that was not done"),
        pytest.param(SALE.replace("SALE", "Refundable"), id="another word"),
    ],
)
def test_nothing_is_asked_where_there_is_no_doubt(count: int, last: str) -> None:
    text = HEADER + SALE * count + (REFUND if "-1.00" in last else "") + last
    assert set(signed(entries(text))) <= {100, -100}


def test_a_net_with_a_sign_is_one() -> None:
    header, sale = "Date,Type,Gross,Fee,Net,Currency\n", "2026-01-02,Sale,1.00,0.02,0.98,EUR\n"
    refund = "2026-01-02,Refund,1.00,0.00,-1.00,EUR\n"
    assert signed(entries(header + sale * MANY + refund))[-2:] == [100, -100]
    assert reason(header + sale * MANY + refund.replace(",-", ",")) == "csv_ambiguous_sign"


@pytest.mark.parametrize("count", [FEW, MANY])
def test_what_an_answer_did_not_name_is_asked_about(count: int) -> None:
    """It was money in, by an answer that was given before there was one."""
    text = HEADER + FEE + SALE * count
    assert signed(entries(text, profile=NAMED)) == [-100, *[100] * count]
    extended, as_is = alternatives(text + REFUND, profile=NAMED)
    assert extended == {"direction": {"column": 1, "debit": ["fee", "refund"]}}
    assert signed(entries(text + REFUND, profile=NAMED | extended))[-2:] == [100, -100]
    assert signed(entries(text + REFUND, profile=NAMED | as_is)) == [-100, *[100] * count, 100]


def test_what_an_answer_says_of_payouts_and_of_money_in_stays() -> None:
    payouts = HEADER + FEE + SALE.replace("SALE", "Payout")
    assert signed(entries(payouts, profile=NAMED)) == [-100, 100]
    both = {"direction": {**NAMED["direction"], "credit": ["Sale"]}}
    assert rejected(HEADER + FEE + SALE + REFUND, profile=both) == [("missing_direction", 4)]


def test_rows_of_a_workbook_are_looked_at_as_those_of_a_text() -> None:
    headings, *rows = [line.rstrip().split(",") for line in (HEADER, *[SALE] * (XLSX_HEAD_ROWS + 10), REFUND)]
    book = workbook(table(*rows, headings=headings))
    answer = alternatives(book)[0]
    assert signed(entries(book, profile=answer))[-2:] == [100, -100]
