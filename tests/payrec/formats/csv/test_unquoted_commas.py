"""Tables with commas between cells and within amounts, which nothing quotes: a half of an amount is none."""

from __future__ import annotations

from typing import Any

import pytest

from support.csv_files import entries, rejected, signed

ROW = "2026-01-02,rent,-12.50,\n"


@pytest.mark.parametrize("tail", ["", ","], ids=["one comma", "two"])
@pytest.mark.parametrize("amount", ["1,234.56", "-1,234.56", "$1,234.00", "(1,234.56)", "12,50", "1.234,56", "12,50-"])
def test_an_amount_that_the_commas_have_split_is_rejected(amount: str, tail: str) -> None:
    text = f"Date,Text,Amount,{tail}\n{ROW}2026-01-03,big,{amount},{tail}\n"
    profile = {"decimal": "."}
    assert rejected(text, currency="USD", profile=profile) == [("invalid_amount", 3)]
    assert signed(entries(text, currency="USD", profile=profile)) == [-1_250]


def test_quotes_keep_it_together() -> None:
    assert signed(entries(f'Date,Text,Amount,\n{ROW}2026-01-03,big,"1,234.56",\n', currency="USD")) == [-1_250, 123_456]


def test_one_that_has_moved_the_balance_is_rejected_too() -> None:
    text = "Date,Text,Amount,Balance,\n2026-01-02,rent,-12.50,100.00,\n2026-01-03,big,-1,234.56,100.00\n"
    assert rejected(text, currency="USD") == [("invalid_amount", 3)]


def test_rows_may_end_before_the_headings_that_are_nothing() -> None:
    assert signed(entries(f"Date,Text,Amount,,\n{ROW[:-2]}\n{ROW}", currency="USD")) == [-1_250] * 2


@pytest.mark.parametrize(
    ("text", "profile"),
    [
        pytest.param("Date,Text,Amount,\n2026-01-02,a,12,\n2026-01-03,b,1,\n", {}, id="nothing beside it"),
        pytest.param("Date,Text,Amount,\n2026-01-02,a,12,note\n2026-01-03,b,1,\n", {}, id="a note"),
        pytest.param("Date;Text;Amount;\n2026-01-02;a;12;250\n2026-01-03;b;1;\n", {}, id="another delimiter"),
        pytest.param(
            "Date,Text,Amount,\n2026-01-02,a,12,250\n2026-01-03,b,1,\n", {"metadata": [3]}, id="a column in use"
        ),
    ],
)
def test_whole_amounts_are_read(text: str, profile: dict[str, Any]) -> None:
    assert signed(entries(text, currency="USD", profile=profile)) == [1_200, 100]
