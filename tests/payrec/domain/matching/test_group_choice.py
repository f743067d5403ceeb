"""Which groups are proposed: what their legs say of them together, which of several stands, and how sure it is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from payrec.domain.matching.adjustments import SETTLED_SCHEMA
from payrec.domain.matching.block import Candidates
from payrec.domain.matching.compete import Taken
from payrec.domain.matching.group_choice import (
    MATCH_COLUMNS,
    Chosen,
    both,
    chosen,
    doubted,
    free,
    given_up,
    nobody,
    nothing,
    told_by_legs,
)
from payrec.domain.matching.group_rivals import RIVAL_SCHEMA
from payrec.domain.matching.less_credits import JOINED_SCHEMA
from payrec.domain.matching.line_rules import Bounds, LineRule, Scope
from payrec.domain.matching.reasons import FINDING_SCHEMA, no_findings
from payrec.domain.matching.rules import (
    AmountLevel,
    Confidence,
    DateLevel,
    EndToEndLevel,
    GroupLevel,
    LineLevel,
    MatchingRules,
    MatchKind,
    PartyLevel,
    Reason,
    ReferenceLevel,
)
from payrec.domain.matching.weights import PRIOR_WEIGHT, WEIGHTS
from support.matching_frames import DAY, Item, Line
from support.scored_pairs import ENDS, RULES, NamedSides, pairs_of

LEGS = {"g": pl.UInt32, **ENDS, "leg_minor": pl.Int64}
FULL, ID = ReferenceLevel.FULL.value, EndToEndLevel.EQUAL.value


def rows(*numbers: int) -> pl.Series:
    return pl.Series(numbers, dtype=pl.UInt32)


def none_found() -> Candidates:
    crowded = pl.DataFrame(schema={"i": pl.UInt32, "crowded": pl.Int32, "crowded_full": pl.Int32})
    return Candidates(pairs_of(), crowded, *[rows()] * 6)


# What the legs of a group say together ------------------------------------------------------------------------------

ITEMS = [Item("a", amount=100), Item("b", amount=250)]
LINE = Line("x", amount=350)


def together(
    items: Sequence[Item],
    lines: Sequence[Line],
    *,
    level: GroupLevel = GroupLevel.BY_REFERENCES,
    quoted: Sequence[tuple[str, str, int, int]] = (),
    amounts: Sequence[int] | None = None,
    rules: MatchingRules = RULES,
) -> dict[str, Any]:
    """Return what is said of all items with all lines in one group, some of them quoted, by reference and by id."""
    sides = NamedSides(items, lines, rules)
    ends = [(item.id, line.id) for item in items for line in lines]
    legs = pl.DataFrame(
        [
            (7, sides.items.index(e), sides.lines.index(i), minor)
            for (e, i), minor in zip(ends, amounts or [1] * len(ends), strict=True)
        ],
        schema=LEGS,
        orient="row",
    )
    pairs = [
        pairs_of((sides.items.index(e), sides.lines.index(i)), reference=reference, end_to_end=by_id)
        for e, i, reference, by_id in quoted
    ]
    groups = pl.DataFrame({"g": [7, 8], "level": [level.value, 0]}, schema={"g": pl.UInt32, "level": pl.Int8})
    found = replace(none_found(), pairs=pl.concat([pairs_of(), *pairs]))
    [row] = told_by_legs(groups, legs, sides.sides, found, rules).to_dicts()
    assert row["g"] == 7
    return row


QUOTED = {
    "nothing": ([], 0, 0),
    "one of two": ([("a", "x", FULL, 0)], 0, 0),
    "both": ([("a", "x", FULL, 0), ("b", "x", FULL, 0)], FULL, 0),
    "both, one by what is too short": ([("a", "x", FULL, 0), ("b", "x", ReferenceLevel.PARTIAL.value, 0)], 0, 0),
    "both by id": ([("a", "x", 0, ID), ("b", "x", 0, ID)], 0, ID),
    "both by both": ([("a", "x", FULL, ID), ("b", "x", FULL, ID)], 0, ID),
    "one by id": ([("a", "x", FULL, 0), ("b", "x", 0, ID)], FULL, 0),
    "both, one by an id that is too short": ([("a", "x", FULL, 0), ("b", "x", 0, EndToEndLevel.PARTIAL.value)], 0, 0),
}


@pytest.mark.parametrize(("quoted", "reference", "by_id"), QUOTED.values(), ids=QUOTED)
def test_what_is_quoted_is_said_if_it_holds_for_all(
    quoted: list[tuple[str, str, int, int]], reference: int, by_id: int
) -> None:
    told = together(ITEMS, [LINE], quoted=quoted)
    assert (told["reference_level"], told["end_to_end_level"]) == (reference, by_id)


@pytest.mark.parametrize(
    ("level", "amounts", "reference"),
    [
        (GroupLevel.BY_CREDIT_NOTES, [450, -100], FULL),
        (GroupLevel.BY_CREDIT_NOTES, [350, 0], 0),
        (GroupLevel.BY_REFERENCES_LESS, [450, -100], 0),
    ],
)
def test_credit_notes_that_nobody_names_need_not_be_quoted(
    level: GroupLevel, amounts: list[int], reference: int
) -> None:
    told = together(ITEMS, [LINE], level=level, amounts=amounts, quoted=[("a", "x", FULL, 0)])
    assert (told["reference_level"], told["amount_minor"]) == (reference, 350)


PARTIES = {
    "the same": (["A", "A"], PartyLevel.EQUAL, PartyLevel.EQUAL),
    "one silent": (["A", None], PartyLevel.UNKNOWN, PartyLevel.UNKNOWN),
    "both silent": ([None, None], PartyLevel.UNKNOWN, PartyLevel.UNKNOWN),
    "one other": (["A", "B"], PartyLevel.DIFFERENT, PartyLevel.UNKNOWN),
    "one other, one silent": (["B", None], PartyLevel.DIFFERENT, PartyLevel.UNKNOWN),
    "both other": (["B", "B"], PartyLevel.DIFFERENT, PartyLevel.UNKNOWN),
}
BATCHES = [GroupLevel.BY_KEY, GroupLevel.BY_KEY_LESS, GroupLevel.BY_KEY_NET]


@pytest.mark.parametrize("feature", ["iban", "name", "account"])
@pytest.mark.parametrize(("who", "usual", "of_batch"), PARTIES.values(), ids=PARTIES)
def test_parties_agree_where_all_do_and_those_of_a_batch_never_differ(
    feature: str, who: list[str | None], usual: PartyLevel, of_batch: PartyLevel
) -> None:
    column = {"iban": "account_level", "name": "name_level", "account": "own_account_level"}[feature]
    items = [replace(item, **{feature: its}) for item, its in zip(ITEMS, who, strict=True)]  # type: ignore[arg-type]
    line = replace(LINE, **{feature: "A"})  # type: ignore[arg-type]
    for level in GroupLevel:
        told = together(items, [line], level=level)
        assert told[column] == (of_batch if level in BATCHES else usual)
        assert {told[other] for other in ("account_level", "name_level", "own_account_level")} == {0, told[column]}
    payer = feature != "account" and usual is PartyLevel.EQUAL
    assert told["payer"] is payer


def test_the_latest_of_days_counts_and_a_line_that_is_pending() -> None:
    # Of a set one of which is due on no day nothing is said.
    for due, date in ((DAY, DateLevel.NEAR), (DAY - 40, DateLevel.WITHIN), (None, DateLevel.UNKNOWN)):
        told = together([ITEMS[0], replace(ITEMS[1], due=due)], [LINE])
        assert told["date_level"] == date
        assert (told["line_level"], told["pending"]) == (LineLevel.BOOKED, False)
    told = together(ITEMS[:1], [LINE, Line("y", pending=True)])
    assert (told["line_level"], told["pending"]) == (LineLevel.PENDING, True)


def test_two_that_are_alike_in_all_make_a_group_a_twin() -> None:
    assert not together(ITEMS, [LINE])["twin"]
    assert together([*ITEMS, replace(ITEMS[1], id="c", tie="b")], [LINE])["twin"]


@pytest.mark.parametrize(
    ("items", "lines", "kind", "size"),
    [
        (ITEMS[:1], [LINE], MatchKind.ONE_TO_ONE, 1),
        (ITEMS, [LINE], MatchKind.ONE_TO_MANY, 2),
        (ITEMS[:1], [LINE, Line("y")], MatchKind.MANY_TO_ONE, 2),
        ([*ITEMS, Item("c")], [LINE], MatchKind.ONE_TO_MANY, 3),
    ],
)
def test_of_which_kind_a_group_is(items: list[Item], lines: list[Line], kind: MatchKind, size: int) -> None:
    told = together(items, lines, amounts=[30 + at for at in range(size)])
    assert (told["kind"], told["size"], told["amount_minor"]) == (kind, size, sum(30 + at for at in range(size)))
    assert (told["e"], told["i"], told["amount_level"]) == (0, 0, AmountLevel.EQUAL)


@pytest.mark.parametrize("level", GroupLevel)
def test_what_holds_a_group_together_weighs_and_may_prove(level: GroupLevel) -> None:
    told = together(ITEMS, [LINE], level=level, quoted=[("a", "x", FULL, 0), ("b", "x", FULL, 0)])
    weighed = {"reference": FULL, "amount": AmountLevel.EQUAL, "date": DateLevel.NEAR, "line": 1, "group": level}
    assert told["score_milli"] == PRIOR_WEIGHT + sum(WEIGHTS[name][at] for name, at in weighed.items())
    assert (told["group_level"], told["proving"]) == (level, level.proves)


def test_of_several_lines_that_one_counts_which_asks_for_the_most() -> None:
    of_x = LineRule(
        name="x", scope=Scope(minor_min=300), bounds=Bounds(auto_accept=True, auto_accept_min_confidence="high")
    )
    rules = MatchingRules(line_rules=(of_x,), auto_accept=True)
    assert together(ITEMS[:1], [LINE], rules=rules)["least"] == Confidence.HIGH
    assert together(ITEMS[:1], [LINE, Line("y", amount=50)], rules=rules)["least"] == Confidence.EXACT
    off = replace(rules, auto_accept=False)
    assert together(ITEMS[:1], [LINE, Line("y", amount=50)], rules=off)["least"] > Confidence.EXACT


# Which of several has a row -----------------------------------------------------------------------------------------


def freed(*groups: tuple[int, int, list[tuple[int, int]]]) -> tuple[set[int], set[int]]:
    """Return which groups lose a row, and which are tied; groups are their place, rank and legs."""
    legs = [(g, e, i, 1) for g, (_, _, its) in enumerate(groups) for e, i in its]
    frame = pl.DataFrame(
        [(g, place, rank) for g, (place, rank, _) in enumerate(groups)],
        schema={"g": pl.UInt32, "place": pl.UInt32, "rank": pl.Int8},
        orient="row",
    )
    lost, tied = free(frame, pl.DataFrame(legs[::-1], schema=LEGS, orient="row"), "rank")
    assert lost.dtype == pl.UInt32
    assert (lost.n_unique(), tied.n_unique()) == (len(lost), len(tied))
    return set(lost), set(tied)


FREED = {
    "apart": ([(0, 0, [(0, 0), (1, 0)]), (1, 0, [(2, 1), (3, 1)])], set(), set()),
    "one number on both sides": ([(0, 0, [(0, 0), (1, 0)]), (1, 0, [(5, 1), (6, 1)]), (2, 0, [(7, 5)])], set(), set()),
    "an item in two": ([(0, 0, [(0, 0), (1, 0)]), (1, 0, [(1, 1), (3, 1)])], {1}, {0, 1}),
    "a line in two": ([(0, 0, [(0, 0), (1, 0)]), (1, 0, [(2, 0), (3, 0)])], {1}, {0, 1}),
    "the better place": ([(1, 0, [(0, 0), (1, 0)]), (0, 0, [(1, 1), (3, 1)])], {0}, {0, 1}),
    "of two ranks": ([(0, 1, [(0, 0), (1, 0)]), (1, 2, [(1, 1), (3, 1)])], {1}, set()),
    "of what lost a row the rest is free": (
        [(0, 0, [(0, 0), (1, 0)]), (1, 0, [(1, 1), (3, 1)]), (2, 0, [(3, 2), (4, 2)])],
        {1},
        {0, 1, 2},
    ),
    "one number on both sides, each of them in two": (
        [
            (0, 0, [(5, 0), (6, 0)]),
            (1, 0, [(5, 1), (7, 1)]),
            (2, 0, [(8, 5), (9, 5)]),
            (3, 0, [(10, 5), (11, 5)]),
        ],
        {1, 3},
        {0, 1, 2, 3},
    ),
    "what is taken stays taken": (
        [
            (0, 0, [(0, 0), (1, 0)]),
            (1, 0, [(2, 1), (3, 1)]),
            (2, 0, [(1, 2), (9, 2)]),
            (3, 0, [(3, 3), (8, 3)]),
        ],
        {2, 3},
        {0, 1, 2, 3},
    ),
    "three of one item, two of them of a rank": (
        [(0, 0, [(0, 0), (1, 0)]), (1, 1, [(1, 1), (3, 1)]), (2, 1, [(1, 2), (4, 2)])],
        {1, 2},
        {1, 2},
    ),
}


@pytest.mark.parametrize(("groups", "lost", "tied"), FREED.values(), ids=FREED)
def test_the_first_of_those_that_share_a_row_has_it(
    groups: list[tuple[int, int, list[tuple[int, int]]]], lost: set[int], tied: set[int]
) -> None:
    assert freed(*groups) == (lost, tied)


def test_the_rows_of_what_lost_are_said_to_be_ambiguous() -> None:
    groups = pl.DataFrame({"g": [0, 1], "score_milli": [500, 700]}, schema={"g": pl.UInt32, "score_milli": pl.Int32})
    legs = pl.DataFrame([(0, 0, 0, 5), (1, 1, 1, 5), (1, 2, 1, 6)], schema=LEGS, orient="row")
    found = given_up(groups, legs, rows(1))
    assert found.schema == FINDING_SCHEMA
    assert found.rows() == [(e, 1, Reason.AMBIGUOUS.value, True, 700, None, 0) for e in (1, 2)]
    assert given_up(groups, legs, rows()).is_empty()


# Several results in one ---------------------------------------------------------------------------------------------


def test_what_is_in_doubt_counts_as_not_looked_at() -> None:
    found = replace(none_found(), capped_items=rows(1), capped_lines=rows(2))
    assert doubted(found, nobody()) is found
    for items, lines in ((rows(1, 3), rows()), (rows(), rows(2, 4)), (rows(3), rows(4))):
        told = doubted(found, Taken(items, lines))
        assert (set(told.capped_items), set(told.capped_lines)) == ({1, *items}, {2, *lines})


def of(*groups: tuple[int, int, int], reason: Reason = Reason.AMBIGUOUS) -> Chosen:
    """Make a result of pairs ``(g, e, i)``."""
    frame = pl.DataFrame(groups, schema={"g": pl.UInt32, **ENDS}, orient="row")
    matches = frame.with_columns(pl.lit(0).alias(name) for name in MATCH_COLUMNS if name not in frame.columns)
    legs = frame.with_columns(leg_minor=pl.lit(5, dtype=pl.Int64))
    rivals = frame.with_columns(side=pl.lit(0, dtype=pl.Int8), score_milli=pl.lit(9, dtype=pl.Int32))
    why = (8, 9, reason.value, True, 1, None, None)
    findings = pl.DataFrame([why], schema=FINDING_SCHEMA, orient="row")
    return chosen(matches, legs, rivals.select(*RIVAL_SCHEMA), findings)


def test_of_what_is_chosen_the_legs_and_the_rows_are_told() -> None:
    found = of((0, 1, 2), (3, 4, 5))
    assert (tuple(found.matches.columns), found.legs.schema) == (MATCH_COLUMNS, JOINED_SCHEMA)
    assert found.legs.select("g", "e", "i", "leg_minor", "c").rows() == [(0, 1, 2, 5, None), (3, 4, 5, 5, None)]
    assert (set(found.taken.items), set(found.taken.lines)) == ({1, 4}, {2, 5})
    for doubtful in (found.doubtful.items, found.doubtful.lines):
        assert doubtful.dtype == pl.UInt32
        assert doubtful.is_empty()
    assert found.settled.schema == SETTLED_SCHEMA


def test_two_results_are_numbered_through() -> None:
    found = both(of((0, 1, 2), (3, 4, 5)), of((0, 6, 7), (2, 8, 9), reason=Reason.BUDGET_EXHAUSTED))
    wanted = [(0, 1, 2), (3, 4, 5), (4, 6, 7), (6, 8, 9)]
    for frame in (found.matches, found.legs, found.alternatives):
        assert frame.select("g", "e", "i").rows() == wanted
        assert frame.schema["g"] == pl.UInt32
    assert found.findings["reason"].to_list() == [Reason.AMBIGUOUS, Reason.BUDGET_EXHAUSTED]
    assert (found.taken.items.to_list(), found.taken.lines.to_list()) == ([1, 4, 6, 8], [2, 5, 7, 9])


def test_one_result_beside_none_is_itself_with_the_reasons_of_both() -> None:
    some, none = of((3, 4, 5)), nothing(of(reason=Reason.BUDGET_EXHAUSTED).findings)
    for found, reasons in (
        (both(some, none), [Reason.AMBIGUOUS, Reason.BUDGET_EXHAUSTED]),
        (both(none, some), [Reason.BUDGET_EXHAUSTED, Reason.AMBIGUOUS]),
    ):
        assert found.matches is some.matches
        assert (found.findings["reason"].to_list(), found.taken) == (reasons, some.taken)
    assert (none.matches.is_empty(), none.legs.is_empty(), none.alternatives.is_empty()) == (True, True, True)
    neither = both(none, nothing(no_findings()))
    assert (neither.matches.is_empty(), neither.findings.height, neither.taken.items.len()) == (True, 1, 0)
