from __future__ import annotations

import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.services.csv_text import csv_rows

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


FORMULAS = "=+@＝＋－＠-"
formulas = st.text(st.sampled_from([*FORMULAS, *";,\t\r\n\"' a"]), max_size=8)


def read(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


def plain(cell: str) -> str:
    """Return a cell without the apostrophes that may have been put into it."""
    cell = re.sub(r"\A'+(?=[\t\r\n])", "", cell)
    return re.sub(rf"""((?:\A|[;\t\r\n])"*)'+(?=[{FORMULAS}])""", r"\1", cell)


def split(text: str, delimiter: str) -> list[list[str]]:
    """Return cells as spreadsheets split them: quotes hold together what they begin, and are plain anywhere else."""
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))


@given(st.lists(st.lists(texts | formulas, min_size=2, max_size=4), max_size=5))
def test_what_is_written_is_read_again_and_begins_no_formula(rows: list[list[str]]) -> None:
    written = csv_rows(rows)
    assert [[plain(cell) for cell in row] for row in read(written)] == [[plain(cell) for cell in row] for row in rows]
    for delimiter in ",;\t":
        cells = [cell for row in split(written, delimiter) for cell in row]
        assert not any(cell.startswith(tuple(FORMULAS)) for cell in cells), delimiter
    assert not any(cell.startswith(("\t", "\r", "\n")) for row in read(written) for cell in row)


@given(st.lists(st.lists(texts | st.integers() | st.none(), min_size=2, max_size=4), max_size=5))
def test_no_text_that_spreadsheets_leave_alone_is_changed(rows: list[list[str | int | None]]) -> None:
    rows = [["a" + re.sub(r"[;\t\r\n]", "", c) if isinstance(c, str) else c for c in row] for row in rows]
    written = io.StringIO()
    csv.writer(written, lineterminator="\r\n").writerows(rows)
    assert csv_rows(rows) == written.getvalue()


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=1+1", "'=1+1"),
        ("+49", "'+49"),
        ("-5", "'-5"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\tx", '"\'\tx"'),
        ("\rx", '"\'\rx"'),
        ("＝1", "'＝1"),
        ("a=b", "a=b"),
        ('a"b', '"a""b"'),
        ("a,b", '"a,b"'),
        ("a\nb", '"a\nb"'),
        ("a\n=b", '"a\n\'=b"'),
        ("a\n- b", '"a\n\'- b"'),
        ("x;=cmd|' /C calc'!A0;y", "\"x;'=cmd|' /C calc'!A0;y\""),
        ('x;"=1', '"x;""\'=1"'),
        ('"=1', '"""\'=1"'),
        ("a\t＋1;@b", "\"a\t'＋1;'@b\""),
        ("a; b = c", '"a; b = c"'),
        ("Müller-Lüdenscheidt", "Müller-Lüdenscheidt"),
        (-5, "-5"),
        (None, ""),
    ],
)
def test_a_cell_is_quoted_and_disarmed(cell: str | int | None, written: str) -> None:
    assert csv_rows([[cell, "x"]]) == f"{written},x\r\n"
