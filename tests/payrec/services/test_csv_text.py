from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.services.csv_text import csv_rows

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def read(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


@given(st.lists(st.lists(texts, min_size=2, max_size=4), max_size=5))
def test_what_is_written_is_read_again_and_begins_no_formula(rows: list[list[str]]) -> None:
    found = read(csv_rows(rows))
    assert [[cell.removeprefix("'") for cell in row] for row in found] == [
        [cell.removeprefix("'") for cell in row] for row in rows
    ]
    assert not any(cell[:1] in set("=+-@\t\r\n＝＋－＠") - {""} for row in found for cell in row if cell)


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=1+1", "'=1+1"),
        ("+49", "'+49"),
        ("-5", "'-5"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\tx", "'\tx"),
        ("\rx", '"\'\rx"'),
        ("＝1", "'＝1"),
        ("a=b", "a=b"),
        ('a"b', '"a""b"'),
        ("a,b", '"a,b"'),
        ("a\nb", '"a\nb"'),
        (-5, "-5"),
        (None, ""),
    ],
)
def test_a_cell_is_quoted_and_disarmed(cell: str | int | None, written: str) -> None:
    assert csv_rows([[cell, "x"]]) == f"{written},x\r\n"
