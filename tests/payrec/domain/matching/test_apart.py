"""Items that share nothing with any line may be left out: whatever else is said stays the same."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from payrec.domain.matching import apart
from payrec.domain.matching.columns import prepare
from payrec.domain.matching.keys import reference_key
from payrec.domain.matching.line_rules import Required
from payrec.domain.matching.names import RESOLVED_SCHEMA
from payrec.domain.matching.rules import MatchingRules, Reason
from support.matching_frames import Item, Line, Outcome, expected_frame, incoming_frame, names_frame, run
from support.matching_ledgers import ledgers
from support.matching_worlds import worlds

PROPERTY = settings(deadline=None, max_examples=40)
RULES = (
    MatchingRules(auto_accept=True, auto_accept_min_confidence="high"),
    MatchingRules(amount_tolerance_minor=50, required=Required.REFERENCE),
    MatchingRules(amount_tolerance_basis_points=100),
)


def both_ways(items: list[Item], lines: list[Line], rules: MatchingRules) -> tuple[Outcome, Outcome]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apart, "ITEMS_PER_LINE_MIN", 0)
        without = run(items, lines, rules)
        patch.setattr(apart, "ITEMS_PER_LINE_MIN", 1_000_000 if lines else 0)
        whole = run(items, lines, rules)
    return without, whole


def left_out_of(items: list[Item], lines: list[Line]) -> set[str]:
    sides = prepare(expected_frame(items), incoming_frame(lines), names_frame([*items, *lines]))
    return {items[at].id for at in sides.apart}


@PROPERTY
@given(drawn=ledgers(), rules=st.sampled_from(RULES))
def test_who_is_left_out_changes_nothing(drawn: tuple[list[Item], list[Line]], rules: MatchingRules) -> None:
    without, whole = both_ways(*drawn, rules)
    event(f"proposed: {bool(without.matches)}")

    assert without.summary() == whole.summary()


@PROPERTY
@given(drawn=worlds(), kept=st.integers(1, 3), rules=st.sampled_from(RULES))
def test_nothing_changes_where_few_lines_of_many_stories_come(
    drawn: tuple[list[Item], list[Line]], kept: int, rules: MatchingRules
) -> None:
    items, lines = drawn
    without, whole = both_ways(items, lines[:kept], rules)

    assert without.summary() == whole.summary()


ITEMS = [
    Item("quoted", amount=1_000, reference="INV-70001", iban="DE1"),
    Item("of its payer", amount=2_500, iban="DE1", name="Zangra Handel"),
    Item("of its payer's name", amount=2_600, name="Zangra Handel"),
    Item("of the amount", amount=700, name="Quentlin Maschinenbau"),
    Item("beside that", amount=900, name="Quentlin Maschinenbau"),
    Item("of the amount in dollars", amount=700, currency="USD"),
    Item("noted", amount=5_000, reference="INV-80001", name="Obrist Feinmechanik"),
    Item("note", amount=500, direction=-1, reference="CN-80001", group="INV-80001", name="Obrist Feinmechanik"),
]


def test_those_are_left_out_that_share_nothing() -> None:
    lines = [Line("x", amount=700, text="INV-70001")]

    assert left_out_of(ITEMS, lines) == {"beside that", "of the amount in dollars"}
    outcome = run(ITEMS, lines)
    assert outcome.items["beside that"] == (Reason.NO_CANDIDATE, None, None, None)
    assert outcome.proposals.counts.expected == len(ITEMS)
    assert outcome.proposals.counts.open_expected["no_candidate"] >= 2


def kept_of(items: list[Item], lines: list[Line], listed: str | None = None) -> list[str]:
    none = pl.DataFrame(schema=RESOLVED_SCHEMA)
    said = None if listed is None else pl.Series([reference_key(listed)], dtype=pl.Int64())
    found = apart.shared(expected_frame(items), incoming_frame(lines), none, said)
    return [items[at].id for at in found["ordinal"]]


def test_by_whatever_a_line_names_it_an_item_is_not_left_out() -> None:
    items = [
        Item("apart", amount=1_001),
        Item("by reference", amount=1_002, reference="INV-70001"),
        Item("by id", amount=1_003, end_to_end_id="E2E-70002"),
        Item("by group", amount=1_004, group="GRP-70003"),
        Item("listed", amount=1_005, reference="INV-70004"),
        Item("of its payer", amount=1_006, iban="DE1"),
        Item("beside that", amount=1_007, iban="DE1", name="Zangra Handel"),
        Item("beside that by name", amount=1_008, name="Zangra Handel"),
        Item("of the amount", amount=700),
    ]
    line = Line("x", amount=700, text="INV-70001", end_to_end_id="E2E-70002", group="GRP-70003", iban="DE1")
    named = [item.id for item in items if item.id not in {"apart", "listed"}]
    assert kept_of(items, [line]) == named, "in their order"
    assert kept_of(items, [line], listed="INV-70004") == [item.id for item in items[1:]]


def test_of_one_direction_nothing_is_a_note_of_another() -> None:
    items = [Item("one", amount=1_001, reference="INV-70001"), Item("other", amount=1_002, group="INV-70001")]
    assert kept_of(items, [Line("x", amount=700)]) == []
    items[1] = replace(items[1], direction=-1)
    assert kept_of(items, [Line("x", amount=700)]) == ["one", "other"]


def test_nobody_is_left_out_where_the_lines_are_many() -> None:
    lines = [Line(f"x{at}", amount=123 + at) for at in range(3)]

    assert left_out_of(ITEMS, lines) == set()
    assert left_out_of(ITEMS, lines[:2]) == {item.id for item in ITEMS} - {"noted", "note"}


def test_what_belongs_to_an_item_of_the_payer_is_not_left_out() -> None:
    items = [
        Item("by account", amount=10_003, due=20_600, iban="DE1", name="Zangra Handel"),
        Item("by name", amount=25_019, due=20_601, name="Zangra Handel"),
        *(Item(f"of others {at}", amount=31_337 + at, iban="DE9") for at in range(6)),
    ]
    without, whole = both_ways(items, [Line("x", amount=35_022, day=20_605, iban="DE1")], MatchingRules())

    assert without.summary() == whole.summary()
    [group] = without.groups
    assert group.ends == (frozenset({"by account", "by name"}), frozenset({"x"}))
