"""Rivals by themselves: who is taken of several, what is a tie, and what makes nobody unique."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from payrec.domain.matching.block import Candidates, candidates
from payrec.domain.matching.columns import Sides, prepare
from payrec.domain.matching.compete import Taken, assign, competed
from payrec.domain.matching.ruled import with_rules
from payrec.domain.matching.rules import Confidence, MatchingRules, ReferenceLevel, Uniqueness
from payrec.domain.matching.score import scored
from support.matching_frames import Item, Line, expected_frame, incoming_frame

RULES = MatchingRules(auto_accept=True)
NAMED = Item("named", name="Alpha", tie="1")
BY_NAME = Line("i", name="Alpha")
QUOTED = Item("quoted", reference="INV-10001", name="Alpha")
QUOTES = Line("i", text="INV-10001", name="Alpha")

Pair = tuple[int, int, int]
"""Item, line, score."""


def places(*rows: int) -> pl.Series:
    return pl.Series(rows, dtype=pl.UInt32)


NOBODY = Taken(places(), places())


def assigned(
    pairs: Sequence[Pair],
    *,
    parts: Sequence[int] = (),
    held: Sequence[int] = (),
    item: int = 100,
    amounts: Sequence[int] = (),
) -> tuple[list[int], list[int]]:
    """Return the places of the pairs that are taken, and of those that only the order decided."""
    every = range(len(pairs))
    taken, tied = assign(
        [e for e, _, _ in pairs],
        [i for _, i, _ in pairs],
        [score for _, _, score in pairs],
        [at in parts for at in every],
        [item for _ in every],
        amounts or [item for _ in every],
        [at in held for at in every],
    )
    return [at for at in every if taken[at]], [at for at in every if tied[at]]


@pytest.mark.parametrize(
    ("pairs", "more", "taken", "tied"),
    [
        ([(0, 0, 9), (0, 1, 8), (1, 1, 7)], {}, [0, 2], []),
        ([(0, 0, 9), (0, 1, 9)], {}, [0], [0]),  # two lines of one item
        ([(0, 0, 9), (1, 0, 9)], {}, [0], [0]),  # two items of one line
        ([(0, 0, 9), (1, 0, 9), (1, 1, 9)], {}, [0, 2], [0, 2]),
        ([(0, 0, 9), (1, 0, 8)], {"held": [0]}, [1], []),  # what is held is of another score
        ([(0, 0, 9), (1, 0, 9)], {"held": [0]}, [1], [1]),  # and counts as another of the same
        ([(0, 0, 9), (0, 1, 8)], {"held": [0]}, [1], []),
        ([(0, 0, 9), (0, 1, 9)], {"parts": [0, 1], "amounts": [60, 40]}, [0, 1], []),  # parts up to the amount
        ([(0, 0, 9), (0, 1, 9)], {"parts": [0, 1], "amounts": [60, 41]}, [0], []),
        ([(0, 0, 9), (0, 1, 8), (0, 2, 7)], {"parts": [0, 1, 2], "amounts": [60, 30, 10]}, [0, 1, 2], []),
        ([(0, 0, 9), (0, 1, 8)], {"parts": [1], "amounts": [40, 1]}, [0], []),  # of what is paid there is no part
        ([(0, 0, 9), (0, 1, 8)], {"parts": [0], "amounts": [1, 100]}, [0], []),  # what is paid in part is not whole
        ([(0, 0, 9), (1, 0, 9)], {"parts": [0, 1], "amounts": [40, 40]}, [0], [0]),  # a line is no part of two
    ],
)
def test_the_best_are_taken_first_and_a_tie_is_said(
    pairs: list[Pair], more: dict[str, Any], taken: list[int], tied: list[int]
) -> None:
    assert assigned(pairs, **more) == (taken, tied)


def look(items: Sequence[Item], lines: Sequence[Line]) -> tuple[Sides, pl.DataFrame, Candidates]:
    """Return both sides in content order, their pairs, and what else was found."""
    sides = with_rules(prepare(expected_frame(items), incoming_frame(lines)), RULES)
    found = candidates(sides, RULES)
    return sides, scored(found.pairs, sides, RULES).with_columns(twin=pl.lit(value=False)), found


def compete(items: Sequence[Item], lines: Sequence[Line], **left_out: Any) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what is said of each pair by names; what was left out may be said."""
    sides, pairs, found = look(items, lines)
    result = competed(pairs, replace(found, **left_out), RULES, NOBODY)
    assert_frame_equal(result, result.sort("e", "i"))
    its, theirs = sides.expected["ordinal"], sides.incoming["ordinal"]
    return {
        (items[its[row["e"]]].id, lines[theirs[row["i"]]].id): row
        | {"status": Uniqueness(row["status"]), "confidence": Confidence(row["confidence"])}
        for row in result.iter_rows(named=True)
    }


def standing(row: dict[str, Any]) -> tuple[Uniqueness, Confidence]:
    return row["status"], row["confidence"]


def test_what_is_repeated_is_no_rival_of_what_it_repeats_and_has_rivals_itself() -> None:
    found = compete([QUOTED], [QUOTES, replace(QUOTES, id="j", duplicate=True)])
    assert standing(found["quoted", "i"]) == (Uniqueness.UNIQUE, Confidence.EXACT)
    assert standing(found["quoted", "j"]) == (Uniqueness.CONTESTED, Confidence.LOW)
    found = compete([NAMED], [BY_NAME, replace(BY_NAME, id="j", duplicate=True)])
    assert standing(found["named", "i"]) == (Uniqueness.UNIQUE, Confidence.HIGH)


def test_a_duplicate_that_has_one_item_alone_is_unique_and_not_sure() -> None:
    found = compete([QUOTED], [replace(QUOTES, duplicate=True)])
    assert standing(found["quoted", "i"]) == (Uniqueness.UNIQUE, Confidence.LOW)
    assert not found["quoted", "i"]["auto"]


def test_of_equal_ones_the_first_by_content_is_taken() -> None:
    items = [replace(NAMED, id=f"e{at}", tie=f"{at}", account=None) for at in range(4)]
    _, pairs, found = look(items, [BY_NAME, Line("other", amount=7, text="INV-77777")])
    result = competed(pairs, found, RULES, NOBODY)
    assert result.filter("chosen")["e"].to_list() == [0]
    assert result.filter("tied").height == 1


def test_the_result_is_sorted_whoever_stands_alone() -> None:
    items = [replace(QUOTED, id=f"e{at}", name=None, reference=f"INV-1000{at}") for at in range(8)]
    lines = [replace(QUOTES, id=f"i{at}", name=None, text=f"INV-1000{at}") for at in range(8)]
    found = compete([replace(NAMED, id="again", tie="2"), *items, NAMED], [BY_NAME, *lines])
    assert len(found) == 10
    theirs = [row["i"] for row in found.values()]
    assert theirs != sorted(theirs)


@pytest.mark.parametrize("left_out", ["capped_items", "capped_lines", "alike_items", "alike_lines"])
def test_where_something_was_left_out_nobody_is_unique(left_out: str) -> None:
    """Of a pair that the name brought; a reference in full is none the less for others of its counterparty."""
    assert standing(compete([NAMED], [BY_NAME])["named", "i"])[0] is Uniqueness.UNIQUE
    beside = {left_out: places(0)}
    assert standing(compete([NAMED], [BY_NAME], **beside)["named", "i"])[0] is Uniqueness.UNBOUNDED
    proof = standing(compete([QUOTED], [QUOTES], **beside)["quoted", "i"])[0]
    assert proof is (Uniqueness.UNBOUNDED if left_out.startswith("capped") else Uniqueness.UNIQUE)


@pytest.mark.parametrize(
    ("crowded", "in_full", "of_name", "of_proof"),
    [
        (1, 0, Uniqueness.UNBOUNDED, Uniqueness.UNIQUE),
        (1, 1, Uniqueness.UNBOUNDED, Uniqueness.UNBOUNDED),
        (3, 2, Uniqueness.UNBOUNDED, Uniqueness.UNBOUNDED),
    ],
)
def test_a_reference_of_many_items_that_is_quoted_too(
    crowded: int, in_full: int, of_name: Uniqueness, of_proof: Uniqueness
) -> None:
    """What many have speaks against a name, and against a proof only where it is quoted in full as well."""
    schema = {"i": pl.UInt32, "crowded": pl.Int32, "crowded_full": pl.Int32}
    beside = pl.DataFrame([(0, crowded, in_full)], schema=schema, orient="row")
    assert standing(compete([NAMED], [BY_NAME], crowded=beside)["named", "i"])[0] is of_name
    assert standing(compete([QUOTED], [QUOTES], crowded=beside)["quoted", "i"])[0] is of_proof


def test_what_is_nearly_quoted_is_told_from_others_of_the_amount_unless_they_are_called_alike() -> None:
    """``repeated`` and ``siblings`` are what blocking and ``near`` say of the counterparty's other items."""
    _, pairs, found = look([NAMED], [BY_NAME])
    repeated = replace(found, repeated=places(0))
    near = pairs.with_columns(reference_level=pl.lit(ReferenceLevel.NEAR.value, dtype=pl.Int8))

    def said(pairs: pl.DataFrame, found: Candidates) -> tuple[Uniqueness, int]:
        row = competed(pairs, found, RULES, NOBODY).row(0, named=True)
        return Uniqueness(row["status"]), row["rivals_expected"]

    assert said(pairs, repeated) == (Uniqueness.CONTESTED, 1)
    assert said(near, repeated) == (Uniqueness.UNIQUE, 0)
    assert said(near, replace(repeated, siblings=places(0))) == (Uniqueness.CONTESTED, 1)
    assert said(near, replace(repeated, siblings=places(1))) == (Uniqueness.UNIQUE, 0)
    stranger = near.with_columns(payer=pl.lit(value=False))
    assert said(stranger, repeated) == (Uniqueness.CONTESTED, 1)


def test_what_is_taken() -> None:
    sides, pairs, _ = look([NAMED, QUOTED], [BY_NAME, replace(QUOTES, id="j"), Line("r", amount=90_000, reversal=True)])
    items, lines = NOBODY.left(sides)
    assert (items.height, lines.height) == (2, 2), "a reversal is no payment"
    more = NOBODY.joined(places(0), places()).joined(places(1), places())
    assert (more.items.to_list(), more.lines.to_list()) == ([0, 1], [])
    assert NOBODY.joined(places(), places(1)).lines.to_list() == [1]
    assert more.joined(places(), places()) is more
    taken = NOBODY.joined(places(0), places(1)).joined(places(0), places())
    assert (taken.items.to_list(), taken.lines.to_list()) == ([0], [1])
    items, lines = taken.left(sides)
    assert (items["row"].to_list(), lines["row"].to_list()) == ([1], [0])
    ends = pairs.filter(taken.touches()).select("e", "i").rows()
    assert ends == [(e, i) for e, i in pairs.select("e", "i").iter_rows() if e == 0 or i == 1]
    assert len(ends) < pairs.height
    assert pairs.filter(NOBODY.touches()).is_empty()
    assert pairs.filter(Taken(places(0), places()).touches())["e"].unique().to_list() == [0]
    assert pairs.filter(Taken(places(), places(1)).touches())["i"].unique().to_list() == [1]
