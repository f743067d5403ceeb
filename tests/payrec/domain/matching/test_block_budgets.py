"""Rows that have a key in common: keys on too many, what a budget leaves out, and a part that has no budget."""

from __future__ import annotations

import polars as pl
import pytest

from payrec.domain.matching import block
from payrec.domain.matching.block import (
    BeyondBudgetError,
    Equal,
    beyond_budget,
    equal_pairs,
    left_out,
    of_part,
    with_code,
)
from payrec.domain.matching.rules import PAIRS_MIN


def keys(*of_rows: int | None, first: int = 0) -> pl.DataFrame:
    """Return rows with these keys."""
    rows = {"row": range(first, first + len(of_rows)), "key": of_rows}
    return pl.DataFrame(rows, schema={"row": pl.UInt32, "key": pl.Int64})


def told(found: Equal) -> tuple[list[tuple[int, int]], list[list[int]]]:
    """Return the pairs, and the crowded and capped rows of either side."""
    left = found.crowded_items, found.crowded_lines, found.capped_items, found.capped_lines
    assert {rows.dtype for rows in left} == {pl.UInt32()}
    assert found.pairs.schema == {"e": pl.UInt32, "i": pl.UInt32}
    return sorted(found.pairs.rows()), [sorted(rows) for rows in left]


def joined(items: pl.DataFrame, lines: pl.DataFrame, **most: int) -> tuple[list[tuple[int, int]], list[list[int]]]:
    return told(equal_pairs(items, lines, items_max=most.get("items", 3), lines_max=most.get("lines", 2)))


NOBODY: list[list[int]] = [[], [], [], []]


def test_what_has_the_same_key_is_a_pair() -> None:
    assert joined(keys(7, 8, None, 7), keys(7, None, 9)) == ([(0, 0), (3, 0)], NOBODY)
    assert joined(keys(None), keys(None)) == ([], NOBODY)
    assert joined(keys(), keys(7)) == joined(keys(7), keys()) == ([], NOBODY)
    # So many that keys are counted.
    assert joined(keys(7, 8, 8, 9), keys(7, 8, 5, 6)) == ([(0, 0), (1, 1), (2, 1)], NOBODY)


def test_a_key_on_too_many_rows_of_either_side_brings_none() -> None:
    assert joined(keys(7, 7, 7, 8), keys(7, 8, 7)) == ([(0, 0), (0, 2), (1, 0), (1, 2), (2, 0), (2, 2), (3, 1)], NOBODY)
    assert joined(keys(7, 7, 7, 7, 8), keys(7, 8)) == ([(4, 1)], [[0, 1, 2, 3], [0], [], []])
    assert joined(keys(7, 8), keys(7, 7, 7, 8)) == ([(1, 3)], [[0], [0, 1, 2], [], []])
    # On one side alone it joins nothing, and nobody is told.
    assert joined(keys(7, 7, 7, 7, 8), keys(8)) == ([(4, 0)], NOBODY)


def test_of_keys_beyond_the_budget_those_that_bring_most_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block, "PAIRS_MIN", 1)
    items, lines = keys(*[7] * 3, 8, 8, 9, first=4), keys(7, 7, 8, 8, 9)
    # Eleven rows, and of the pairs 1 + 4 are within, 6 more just are.
    every = {(e, i) for e in (4, 5, 6) for i in (0, 1)} | {(e, i) for e in (7, 8) for i in (2, 3)} | {(9, 4)}
    assert joined(items, lines) == (sorted(every), NOBODY)
    more = keys(*[7] * 3, 8, 8, 9, 9, first=4), keys(7, 7, 8, 8, 9, 9)
    pairs, left = joined(*more)
    assert left == [[4, 5, 6], [0, 1], [4, 5, 6], [0, 1]]
    assert pairs == sorted((e, i) for e, i in [(7, 2), (7, 3), (8, 2), (8, 3), (9, 4), (9, 5), (10, 4), (10, 5)])
    # What is on too many is left out before, and takes nothing of it.
    crowd = keys(*[6] * 4, 8, 8, 9), keys(6, 8, 8, 9)
    assert joined(*crowd)[1] == [[0, 1, 2, 3], [0], [], []]


def test_few_rows_are_joined_without_counting_their_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the keys can be too many, or all pairs beyond the budget."""
    assert joined(keys(7, 7, 7), keys(7, 7)) == ([(e, i) for e in range(3) for i in range(2)], NOBODY)
    monkeypatch.setattr(block, "PAIRS_MIN", 5)
    assert joined(keys(7, 7, 7), keys(7, 7))[1] == [[0, 1, 2], [0, 1], [0, 1, 2], [0, 1]]
    monkeypatch.setattr(block, "PAIRS_MIN", 6)
    assert joined(keys(7, 7, 7), keys(7, 7))[1] == NOBODY


def pairs_by_key(*of_keys: tuple[int, int]) -> pl.DataFrame:
    return pl.DataFrame(of_keys, schema={"key": pl.Int64, "pairs": pl.UInt32}, orient="row")


@pytest.mark.parametrize(
    ("of_keys", "rows", "dropped"),
    [
        ([], 0, []),
        ([(1, PAIRS_MIN)], 0, []),
        ([(1, PAIRS_MIN + 1)], 0, [1]),
        ([(1, PAIRS_MIN + 1)], PAIRS_MIN + 1, []),
        ([(1, PAIRS_MIN), (2, 1)], 0, [1]),
        ([(1, 1), (2, PAIRS_MIN)], 0, [2]),
        ([(3, PAIRS_MIN), (1, PAIRS_MIN), (2, 0)], 0, [3]),  # of as many the lower key stays
        ([(1, 2**32 - 1), (2, 2**32 - 1)], 2**33, []),  # nothing wraps
        ([(1, 2**32 - 1), (2, 2**32 - 1)], 2**33 - 3, [2]),
    ],
)
def test_the_budget_grows_with_the_rows(of_keys: list[tuple[int, int]], rows: int, dropped: list[int]) -> None:
    found = beyond_budget(pairs_by_key(*of_keys), rows)
    assert found.columns == ["key"]
    assert found["key"].to_list() == dropped


def test_a_part_of_what_is_open_leaves_nothing_out_for_a_budget() -> None:
    dropped = pairs_by_key((1, PAIRS_MIN + 1))
    with of_part(is_part=True):
        with pytest.raises(BeyondBudgetError):
            beyond_budget(dropped, 0)
        assert left_out(dropped.clear()).is_empty()
        with of_part(is_part=False):
            assert beyond_budget(dropped, 0)["key"].to_list() == [1]
        with pytest.raises(BeyondBudgetError):
            left_out(dropped)
    assert left_out(dropped) is dropped
    with pytest.raises(BeyondBudgetError), of_part(is_part=True):
        left_out(dropped)
    assert left_out(dropped) is dropped


def test_the_code_of_a_pair_sorts_as_its_ends_do_and_tells_them() -> None:
    most = 2**32 - 1
    ends = [(0, 0), (0, most), (1, 0), (1, 2), (2**31 - 1, most)]
    pairs = pl.DataFrame(ends, schema={"e": pl.UInt32, "i": pl.UInt32}, orient="row")
    codes = with_code(pairs)["code"]
    assert codes.dtype == pl.Int64
    assert codes.to_list() == sorted(codes)
    assert [divmod(code, 2**32) for code in codes] == ends
