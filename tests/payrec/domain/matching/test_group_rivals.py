"""Groups against every other explanation of the same rows: while there is one, nobody accepts either unseen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl
import pytest

from payrec.domain.matching.group_rivals import RIVAL_SCHEMA, best_rivals, counted, rivals_of
from payrec.domain.matching.groups import KEY_SCORE
from payrec.domain.matching.proofs import Proofs
from payrec.domain.matching.rules import (
    ALTERNATIVES_MAX,
    KEY_ITEMS_MAX,
    Confidence,
    GroupLevel,
    MatchingRules,
    MatchKind,
    Reason,
    Side,
    Uniqueness,
)
from support.matching_frames import Item, Line, Outcome, level, only, run, sure

RULES = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")
PROOF = (Confidence.EXACT, Uniqueness.UNIQUE, True)

BATCH = [Item("b0", amount=100, group="PO-2026-7"), Item("b1", amount=250, group="PO-2026-7")]
QUOTED = [Item("q0", amount=100, reference="INV-10000"), Item("q1", amount=250, reference="INV-10001")]
WHOLE = Item("whole", amount=350, reference="INV-20000")


def accepted(outcome: Outcome) -> list[frozenset[str]]:
    return [match.ends[0] for match in outcome.matches if match.auto]


BY_BATCH = Line("x", amount=350, text="PO-2026-7")
BY_QUOTES = Line("x", amount=350, text="INV-10000 INV-10001")


@pytest.mark.parametrize(("items", "line"), [(BATCH, BY_BATCH), (QUOTED, BY_QUOTES)])
def test_alone_each_is_a_proof(items: list[Item], line: Line) -> None:
    assert sure(only(run(items, [line], RULES))) == PROOF


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ([*BATCH, WHOLE], "PO-2026-7 INV-20000"),
        ([*BATCH, *QUOTED], "PO-2026-7 INV-10000 INV-10001"),
        ([*QUOTED, WHOLE], "INV-10000 INV-10001 INV-20000"),
        ([*BATCH, replace(WHOLE, group="PO-2026-8")], "PO-2026-7 PO-2026-8"),
        ([*BATCH, Item("near", amount=340, reference="INV-20000")], "PO-2026-7 INV-20000"),
    ],
)
def test_a_line_that_names_two_of_the_right_sum_is_accepted_for_neither(items: list[Item], text: str) -> None:
    outcome = run(items, [Line("x", amount=350, text=text)], RULES)
    assert outcome.matches
    assert accepted(outcome) == []


def test_an_item_that_two_lines_name_each_in_its_own_way_is_accepted_for_neither() -> None:
    items = [replace(BATCH[0], reference="INV-10000"), BATCH[1]]
    lines = [Line("pays one", amount=100, text="INV-10000"), Line("pays all", amount=350, text="PO-2026-7")]
    outcome = run(items, lines, RULES)
    pair = only(outcome)
    assert (pair.ends[1], sure(pair)) == ({"pays one"}, (Confidence.MEDIUM, Uniqueness.UNBOUNDED, False))
    assert outcome.lines["pays all"][0] is Reason.AMBIGUOUS
    # A line of another sum pays another batch, or this one with a deduction: it takes nothing from the proof.
    assert sure(only(run(items, [lines[0], replace(lines[1], amount=349)], RULES))) == PROOF


def test_a_group_id_on_one_item_and_its_reference_say_the_same() -> None:
    item = Item("e", amount=350, reference="INV-10000", group="PO-2026-7")
    assert sure(only(run([item], [Line("x", amount=350, text="INV-10000 PO-2026-7")], RULES))) == PROOF
    lines = [Line("x", amount=350, text="INV-10000"), Line("y", amount=350, text="PO-2026-7", name="Alpha")]
    assert accepted(run([item], lines, RULES)) == []


@pytest.mark.parametrize("count", [1, KEY_ITEMS_MAX, KEY_ITEMS_MAX + 1, 5 * KEY_ITEMS_MAX])
@pytest.mark.parametrize(("items", "line"), [(BATCH, BY_BATCH), (QUOTED, BY_QUOTES)])
def test_the_more_claim_it_the_less_it_is_accepted(items: list[Item], line: Line, count: int) -> None:
    rivals = [Item(f"r{at}", amount=350, reference="RENT-2024", due=20_600 + at) for at in range(count)]
    outcome = run([*items, *rivals], [replace(line, text=f"{line.text} RENT-2024")], RULES)
    assert accepted(outcome) == []


@pytest.mark.parametrize("flags", [{"pending": True}, {"day": 20_605}, {"iban": "DE2"}, {"name": "Beta"}])
def test_a_second_line_for_the_same_set_leaves_it_to_a_person(flags: dict[str, object]) -> None:
    for items, line in ((BATCH, BY_BATCH), (QUOTED, BY_QUOTES)):
        outcome = run(items, [line, replace(line, id="y", **flags)], RULES)  # type: ignore[arg-type]
        assert accepted(outcome) == []
        assert only(outcome).status is Uniqueness.AMBIGUOUS


@pytest.mark.parametrize("flags", [{"reversal": True}, {"duplicate": True}])
def test_what_pays_nothing_is_no_second_line(flags: dict[str, object]) -> None:
    for items, line in ((BATCH, BY_BATCH), (QUOTED, BY_QUOTES)):
        outcome = run(items, [line, replace(line, id="y", day=20_605, **flags)], RULES)  # type: ignore[arg-type]
        assert sure(only(outcome)) == PROOF


def test_a_member_that_is_gone_or_changed_breaks_the_set() -> None:
    for items, line in ((BATCH, BY_BATCH), (QUOTED, BY_QUOTES)):
        for changed in (items[:1], items[1:], [items[0], replace(items[1], amount=249)]):
            assert accepted(run(changed, [line], RULES)) == []
        more = [*items, replace(items[0], id="more", amount=350, reference="INV-10000")]
        assert accepted(run(more, [line], RULES)) == []


def test_what_was_searched_for_is_named_by_its_level_and_never_accepted() -> None:
    outcome = run([*QUOTED, Item("q2", amount=777, reference="INV-10002")], [BY_QUOTES], RULES)
    assert sure(only(outcome)) == PROOF
    some = run([*QUOTED, Item("q2", amount=7, reference="INV-10002")],
               [replace(BY_QUOTES, text=f"{BY_QUOTES.text} INV-10002")], RULES)  # fmt: skip
    assert level(only(some)).name == "BY_SOME_REFERENCES"
    assert accepted(some) == []


# What is told of them, asked of the frames themselves --------------------------------------------------------------

QUOTING = (MatchKind.ONE_TO_MANY, GroupLevel.BY_REFERENCES, None, 0)
PAYING_BY_PARTS = (MatchKind.MANY_TO_ONE, GroupLevel.BY_INSTALMENTS, None, 0)


def keyed(key: int, *, same: int = 0) -> tuple[MatchKind, GroupLevel, int | None, int]:
    return MatchKind.ONE_TO_MANY, GroupLevel.BY_KEY, key, same


def rivals(
    groups: Sequence[tuple[MatchKind, GroupLevel, int | None, int]],
    legs: Sequence[tuple[int, int, int]],
    fitting: Sequence[tuple[int, int, int]] = (),
    claims: Sequence[tuple[int, int, int]] = (),
) -> tuple[set[tuple[int, int, int, int, int]], dict[int, tuple[int, int]]]:
    """Return what ``rivals_of`` tells, as ``(g, side, e, i, score)``, and of each group how many stand on either side.

    Groups are kind, level, key, and how many other lines have the key; legs ``(g, e, i)``; proofs ``(e, i, score)``;
    claims ``(e, i, key)``.
    """
    rows = [
        (g, next(i for of, _, i in legs if of == g), kind.value, level.value, key, same)
        for g, (kind, level, key, same) in enumerate(groups)
    ]
    ids = {"g": pl.UInt32, "e": pl.UInt32, "i": pl.UInt32}
    of = {"g": ids["g"], "i": ids["i"], "kind": pl.Int8, "group_level": pl.Int8, "key": pl.Int64, "same": pl.UInt32}
    scored = pl.DataFrame(fitting, schema={"e": ids["e"], "i": ids["i"], "score_milli": pl.Int32}, orient="row")
    found, counts = rivals_of(
        pl.DataFrame(rows, schema=of, orient="row"),
        pl.DataFrame(legs, schema=ids, orient="row"),
        Proofs(claimed=scored, fitting=scored, settled=scored.clear(), short=scored.clear()),
        pl.DataFrame(claims, schema={"e": ids["e"], "i": ids["i"], "key": pl.Int64}, orient="row"),
        pl.DataFrame(schema=RIVAL_SCHEMA),
    )
    assert found.schema == pl.Schema(RIVAL_SCHEMA)
    told = found.select("g", "side", "e", "i", "score_milli").rows()
    assert len(told) == len(set(told))
    return set(told), {g: (of_items, of_lines) for g, of_items, of_lines in counted(counts).rows()}


OF_ITEMS, OF_LINES = Side.EXPECTED.value, Side.INCOMING.value


def test_other_lines_that_quote_an_item_of_a_set_are_its_rivals_and_the_set_is_none() -> None:
    legs = [(0, 0, 0), (0, 1, 0)]
    mine = [(0, 0, 9000), (1, 0, 9000)]
    assert rivals([QUOTING], legs, mine) == (set(), {})
    told = {(0, OF_LINES, 0, 7, 8000), (0, OF_LINES, 1, 7, 8100), (0, OF_LINES, 1, 8, 7000)}
    assert rivals([QUOTING], legs, [*mine, (0, 7, 8000), (1, 7, 8100), (1, 8, 7000), (5, 8, 9999)]) == (
        told,
        {0: (0, 3)},
    )


def test_other_items_that_a_line_of_a_set_quotes_are_its_rivals() -> None:
    legs = [(0, 0, 0), (0, 0, 1)]
    mine = [(0, 0, 9000), (0, 1, 9000)]
    assert rivals([PAYING_BY_PARTS], legs, [*mine, (4, 0, 8000), (5, 1, 8100), (6, 9, 9999)]) == (
        {(0, OF_ITEMS, 4, 0, 8000), (0, OF_ITEMS, 5, 1, 8100)},
        {0: (2, 0)},
    )


def test_of_very_many_the_best_are_named_and_all_are_counted() -> None:
    many = [(0, i, 8000 + i) for i in range(1, 3 * ALTERNATIVES_MAX)]
    told, counts = rivals([QUOTING], [(0, 0, 0), (0, 1, 0)], [(0, 0, 7000), (1, 0, 9000), *many])
    # One more than is kept is looked up, because the leg itself may be one of them; here it is not.
    assert told == {(0, OF_LINES, 0, i, score) for _, i, score in many[-ALTERNATIVES_MAX - 1 :]}
    assert counts == {0: (0, len(many))}
    told, _ = rivals([QUOTING], [(0, 0, 0), (0, 1, 0)], [(0, 0, 9999), (1, 0, 9000), *many])
    assert told == {(0, OF_LINES, 0, i, score) for _, i, score in many[-ALTERNATIVES_MAX:]}
    # Of each item.
    both = [(e, i, score) for _, i, score in many for e in (0, 1)]
    told, counts = rivals([QUOTING], [(0, 0, 0), (0, 1, 0)], [(0, 0, 7000), (1, 0, 7000), *both])
    assert (len(told), counts) == (2 * (ALTERNATIVES_MAX + 1), {0: (0, len(both))})
    # Of equal ones those of the lowest ids are named, whatever order they come in.
    alike = [(0, i, 8000) for i in range(1, 3 * ALTERNATIVES_MAX)]
    told, _ = rivals([QUOTING], [(0, 0, 0), (0, 1, 0)], [*reversed(alike), (0, 0, 9999), (1, 0, 9000)])
    assert told == {(0, OF_LINES, 0, i, 8000) for i in range(1, ALTERNATIVES_MAX + 1)}


def test_what_quotes_rows_of_a_batch_is_its_rival_on_either_side_but_not_its_own_line() -> None:
    legs, claims = [(0, 0, 0), (0, 1, 0)], [(0, 0, 70), (1, 0, 70)]
    assert rivals([keyed(70)], legs, [(0, 0, 9000)], claims) == (set(), {})
    fitting = [(0, 0, 9000), (1, 3, 8000), (6, 0, 8100), (6, 3, 9999)]
    assert rivals([keyed(70)], legs, fitting, claims) == (
        {(0, OF_LINES, 1, 3, 8000), (0, OF_ITEMS, 6, 0, 8100)},
        {0: (1, 1)},
    )


def test_another_group_id_that_a_line_of_a_set_names_is_its_rival() -> None:
    other = [(4, 0, 71), (5, 0, 71), (6, 9, 72)]
    told = {(0, OF_ITEMS, 4, 0, KEY_SCORE), (0, OF_ITEMS, 5, 0, KEY_SCORE)}
    batch = [(0, 0, 0), (0, 1, 0)]
    assert rivals([keyed(70)], batch, claims=[(0, 0, 70), (1, 0, 70), *other]) == (told, {0: (2, 0)})
    assert rivals([QUOTING], batch, claims=other) == (told, {0: (2, 0)})
    # What a set was chosen among is no rival of it, but what another id brings is one, quoted or not.
    told = {(0, OF_ITEMS, 4, 0, KEY_SCORE), (0, OF_ITEMS, 5, 0, KEY_SCORE)}
    assert rivals([QUOTING], batch, [(4, 0, 8000), (0, 0, 9000), (1, 0, 9000)], other) == (told, {0: (2, 0)})
    # An item that the line of a batch quotes, and whose group id it names, is one rival, as it is quoted.
    own = [(0, 0, 70), (1, 0, 70)]
    assert rivals([keyed(70)], batch, [(4, 0, 8000)], [*own, (4, 0, 71)]) == ({(0, OF_ITEMS, 4, 0, 8000)}, {0: (1, 0)})
    # An item that a part payment quotes and whose group id it names is one rival, with the score of its quote.
    parts = [(0, 0, 0), (0, 0, 1)]
    told = {(0, OF_ITEMS, 4, 0, 8000), (0, OF_ITEMS, 5, 0, KEY_SCORE)}
    assert rivals([PAYING_BY_PARTS], parts, [(4, 0, 8000), (0, 0, 9000), (0, 1, 9000)], claims=other) == (
        told,
        {0: (2, 0)},
    )


def test_lines_that_name_the_same_group_id_are_told_where_they_would_do_as_well() -> None:
    legs, claims = [(0, 0, 0), (0, 1, 0)], [(0, 0, 70), (1, 0, 70), (0, 2, 70), (1, 2, 70)]
    assert rivals([keyed(70)], legs, claims=claims) == (set(), {})
    told = {(0, OF_LINES, 0, 2, KEY_SCORE), (0, OF_LINES, 1, 2, KEY_SCORE)}
    assert rivals([keyed(70, same=1)], legs, claims=claims) == (told, {0: (0, 2)})


def test_what_is_kept_of_rivals_are_the_best_of_either_side_of_what_is_proposed() -> None:
    given = [
        (g, side, e, i, score)
        for g in (0, 1, 2)
        for side in (OF_ITEMS, OF_LINES)
        for e, i, score in [(9, 9, 50), (1, 2, 40), (1, 1, 40), (0, 9, 40), *((e, 0, 10) for e in range(10, 20))]
    ]
    kept = best_rivals(
        pl.DataFrame(given[::-1], schema=RIVAL_SCHEMA, orient="row"),
        pl.DataFrame({"g": [1, 2]}, schema={"g": pl.UInt32}),
    )
    best = [(9, 9, 50), (0, 9, 40), (1, 1, 40), (1, 2, 40), (10, 0, 10)]
    assert kept.select("g", "side", "e", "i", "score_milli").rows() == [
        (g, side, *row) for g in (1, 2) for side in sorted((OF_ITEMS, OF_LINES)) for row in best
    ]
