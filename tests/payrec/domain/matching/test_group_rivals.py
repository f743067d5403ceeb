"""Groups against every other explanation of the same rows: while there is one, nobody accepts either unseen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from payrec.domain.matching.rules import KEY_ITEMS_MAX, Confidence, MatchingRules, Reason, Uniqueness
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
