"""Several items with a discount each, paid by one line that quotes all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.domain.matching.rules import AdjustmentType, Confidence, GroupLevel, MatchingRules
from support.matching_frames import DAY, Item, Line, level, run

RULES = MatchingRules(auto_accept=True)
DISCOUNT = AdjustmentType.DISCOUNT
ONE = Item("a", 10_000, reference="INV-2026-0101", name="Bolt", terms=((9_800, DAY + 5),))
TWO = Item("b", 12_000, reference="INV-2026-0102", name="Bolt", terms=((11_760, DAY + 5),))
BOTH = Line("x", 21_560, text="INV-2026-0101 INV-2026-0102", name="Bolt")


def test_each_is_paid_with_the_discount_that_its_terms_grant() -> None:
    outcome = run([ONE, TWO], [BOTH], RULES)
    [match] = outcome.matches
    assert (match.confidence, match.auto, level(match)) == (Confidence.EXACT, True, GroupLevel.BY_REFERENCES)
    assert sorted(match.legs) == [("a", "x", 9_800), ("b", "x", 11_760)]
    assert outcome.adjustments([ONE, TWO]) == {"a": (DISCOUNT, 200), "b": (DISCOUNT, 240)}


def test_what_has_no_terms_is_paid_whole_beside_it() -> None:
    items = [ONE, replace(TWO, terms=())]
    outcome = run(items, [replace(BOTH, amount=21_800)], RULES)
    assert sorted(outcome.matches[0].legs) == [("a", "x", 9_800), ("b", "x", 12_000)]
    assert outcome.adjustments(items) == {"a": (DISCOUNT, 200)}


def test_of_several_terms_the_least_counts_that_still_holds() -> None:
    items = [replace(ONE, terms=((9_700, DAY - 1), (9_800, DAY), (9_900, DAY + 9))), TWO]
    outcome = run(items, [BOTH], RULES)
    assert outcome.adjustments(items) == {"a": (DISCOUNT, 200), "b": (DISCOUNT, 240)}


@pytest.mark.parametrize(
    ("items", "line"),
    [
        ([ONE, TWO], replace(BOTH, amount=21_559)),
        ([ONE, TWO], replace(BOTH, day=DAY + 6)),
        ([ONE, replace(TWO, total=13_000)], BOTH),
        ([ONE, TWO], replace(BOTH, total=30_000)),
        ([ONE, TWO, replace(TWO, id="c", reference="INV-2026-0103")], replace(BOTH, text=f"{BOTH.text} INV-2026-0103")),
    ],
)
def test_what_is_another_sum_too_late_or_not_all_is_none(items: list[Item], line: Line) -> None:
    outcome = run(items, [line], RULES)
    assert DISCOUNT not in {kind for kind, _ in outcome.adjustments(items).values()}
    assert not any(match.auto for match in outcome.matches)


@given(st.lists(st.tuples(st.integers(100, 10**9), st.integers(1, 99)), min_size=2, max_size=8))
def test_whatever_is_let_off_it_adds_up(amounts: list[tuple[int, int]]) -> None:
    items = [
        Item(str(at), amount, reference=f"INV-2026-9{at:03}", name="Bolt", terms=((amount - off, DAY),))
        for at, (amount, off) in enumerate(amounts)
    ]
    paid = sum(amount - off for amount, off in amounts)
    text = " ".join(str(item.reference) for item in items)
    outcome = run(items, [Line("x", paid, text=text, name="Bolt")], RULES)
    [match] = outcome.groups
    let_off = outcome.adjustments(items)
    assert sum(minor for *_, minor in match.legs) == paid
    assert {item: minor + let_off[item][1] for item, _, minor in match.legs} == {it.id: it.amount for it in items}
