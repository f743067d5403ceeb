"""Several items that one line quotes and pays nearly."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.domain.matching.line_rules import LineRule, Scope
from payrec.domain.matching.rules import (
    AdjustmentType,
    AmountLevel,
    Confidence,
    GroupLevel,
    MatchingRules,
    Uniqueness,
)
from support.matching_frames import DAY, Item, Line, level, run, sure

RULES = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")
CENTS = replace(RULES, amount_tolerance_minor=5)
PERCENT = replace(RULES, amount_tolerance_basis_points=1_000)
FEES = replace(RULES, fee_tolerance_minor=2_000)
ITEMS = [
    Item("a", 10_000, reference="INV-2026-0101", name="Bolt"),
    Item("b", 12_000, reference="INV-2026-0102", name="Bolt"),
    Item("c", 8_000, reference="INV-2026-0103", name="Bolt"),
]
SUM = 30_000
LINE = Line("x", SUM, text="INV-2026-0101 INV-2026-0102 INV-2026-0103", name="Bolt")
SHORT = replace(LINE, amount=SUM - 3)


@pytest.mark.parametrize(
    ("rules", "paid", "found", "accepted"),
    [
        (RULES, SUM - 3, ("b", AdjustmentType.ROUNDING, 3, AmountLevel.SMALLER), False),
        (CENTS, SUM - 3, ("b", AdjustmentType.ROUNDING, 3, AmountLevel.TOLERANCE), True),
        (CENTS, SUM - 6, ("b", AdjustmentType.FEE, 6, AmountLevel.SMALLER), False),
        (RULES, SUM - 1_500, ("b", AdjustmentType.FEE, 1_500, AmountLevel.SMALLER), False),
        (FEES, SUM - 1_500, ("b", AdjustmentType.FEE, 1_500, AmountLevel.TOLERANCE), True),
        (PERCENT, SUM - 3_000, ("b", AdjustmentType.WRITE_OFF, 3_000, AmountLevel.TOLERANCE), True),
        (RULES, SUM + 3, ("x", AdjustmentType.ROUNDING, 3, AmountLevel.LARGER), False),
        (CENTS, SUM + 3, ("x", AdjustmentType.ROUNDING, 3, AmountLevel.TOLERANCE), True),
        (RULES, SUM + 1_500, ("x", AdjustmentType.OVER_PAYMENT, 1_500, AmountLevel.LARGER), False),
        (FEES, SUM + 1_500, ("x", AdjustmentType.OVER_PAYMENT, 1_500, AmountLevel.LARGER), False),
    ],
)
def test_what_differs_a_little_is_settled_and_accepted_within_the_tolerance(
    rules: MatchingRules, paid: int, found: tuple[str, AdjustmentType, int, AmountLevel], *, accepted: bool
) -> None:
    outcome = run(ITEMS, [replace(LINE, amount=paid)], rules)
    [match] = outcome.matches
    [stored] = outcome.proposals.adjustments.iter_rows(named=True)
    on = "x" if stored["expected"] is None else ITEMS[stored["expected"]].id
    told = on, AdjustmentType(stored["type"]), stored["amount_minor"], AmountLevel(dict(match.levels)["amount"])
    assert (told, level(match)) == (found, GroupLevel.BY_REFERENCES)
    assert sure(match) == (Confidence.EXACT if accepted else Confidence.MEDIUM, Uniqueness.UNIQUE, accepted)
    less = found[2] if found[0] == "b" else 0
    assert sorted(match.legs) == [("a", "x", 10_000), ("b", "x", 12_000 - less), ("c", "x", 8_000)]
    assert not outcome.items | outcome.lines


def test_a_rule_of_the_line_says_what_is_tolerated() -> None:
    rules = replace(RULES, line_rules=(LineRule(name="large", scope=Scope(minor_min=20_000), bounds=CENTS),))
    assert [match.auto for match in run(ITEMS, [SHORT], rules).matches] == [True]
    assert [match.auto for match in run(ITEMS[:2], [replace(SHORT, amount=21_997)], rules).groups] == [True]
    small = [replace(item, amount=item.amount // 2) for item in ITEMS]
    assert [match.auto for match in run(small, [replace(LINE, amount=14_997)], rules).groups] == [False]


@pytest.mark.parametrize(
    ("items", "line"),
    [
        pytest.param(ITEMS, replace(LINE, amount=SUM - 4_000), id="a part is missing"),
        pytest.param(ITEMS, replace(LINE, amount=SUM + 9_000), id="much is left"),
        pytest.param(ITEMS, replace(SHORT, day=DAY + 70), id="late"),
        pytest.param([*ITEMS[:2], replace(ITEMS[2], due=DAY - 80)], SHORT, id="one of them long over"),
        pytest.param([*ITEMS[:2], replace(ITEMS[2], amount=5)], replace(LINE, amount=21_997), id="or one left out"),
        pytest.param([replace(ITEMS[0], band=(9_000, 11_000)), *ITEMS[1:]], SHORT, id="one has limits"),
        pytest.param([*ITEMS, Item("d", SUM - 3, name="Bolt")], SHORT, id="the payer has one of the very amount"),
        pytest.param(
            [*ITEMS, Item("d", 9_997, reference="INV-2026-0110", name="Bolt")],
            SHORT,
            id="another one's number is meant",
        ),
        pytest.param([*ITEMS, Item("d", 9_997, name="Bolt")], replace(SHORT, name=None), id="and nobody says who pays"),
        pytest.param(
            [*ITEMS, *(Item(f"d{at}", 1_500, reference=f"INV-2026-070{at}", name="Bolt") for at in range(2))],
            replace(LINE, amount=SUM + 1_500),
            id="others ask for the rest",
        ),
        pytest.param(
            [
                *ITEMS,
                *(Item(f"d{at}", 1_500, direction=-1, reference=f"CN-2026-070{at}", name="Bolt") for at in range(2)),
            ],
            replace(LINE, amount=SUM - 1_500),
            id="credit notes let it off",
        ),
    ],
)
def test_what_may_be_something_else_is_none(items: list[Item], line: Line) -> None:
    rules = replace(CENTS, fee_tolerance_minor=2_000)
    outcome = run(items, [line], rules)
    assert not outcome.groups
    assert not any(match.auto for match in outcome.matches)


def test_none_of_those_that_are_quoted_is_meant_in_the_place_of_another() -> None:
    items = [*ITEMS, Item("d", 9_997, reference="INV-2026-0104", name="Bolt")]
    line = replace(LINE, amount=SUM + 9_994, text=f"{LINE.text} INV-2026-0104")
    assert [match.auto for match in run(items, [line], CENTS).groups] == [True]


def test_what_sums_up_is_preferred() -> None:
    more = Item("d", 1_500, reference="INV-2026-0104", name="Bolt")
    [match] = run([*ITEMS, more], [replace(LINE, amount=SUM + 1_500)], RULES).matches
    assert level(match) is GroupLevel.BY_REFERENCES_AND_ONE
    note = replace(more, direction=-1, reference="CN-2026-0004")
    [match] = run([*ITEMS, note], [replace(LINE, amount=SUM - 1_500)], FEES).matches
    assert (level(match), match.auto) == (GroupLevel.BY_CREDIT_NOTES, False)


@pytest.mark.parametrize("amount", [SUM, SUM - 2, 4_000])
def test_another_line_that_quotes_one_of_them_leaves_it_to_a_person(amount: int) -> None:
    other = Line("y", amount, text="INV-2026-0101" if amount < ITEMS[0].amount else LINE.text, name="Bolt", day=DAY + 4)
    outcome = run(ITEMS, [SHORT, other], CENTS)
    assert len(outcome.groups) == 1
    assert not any(match.auto for match in outcome.matches)


@given(
    st.lists(st.integers(1, 10**12), min_size=2, max_size=8),
    st.integers(-(10**4), 10**4),
    st.sampled_from([RULES, CENTS, PERCENT, FEES]),
)
def test_whatever_differs_it_adds_up(amounts: list[int], gap: int, rules: MatchingRules) -> None:
    items = [Item(str(at), amount, reference=f"INV-2026-9{at:03}", name="Bolt") for at, amount in enumerate(amounts)]
    paid = sum(amounts) + gap
    if paid <= 0:
        return
    text = " ".join(str(item.reference) for item in items)
    outcome = run(items, [Line("x", paid, text=text, name="Bolt")], rules)
    for match in outcome.groups:
        taken = dict.fromkeys([*(item.id for item in items), "x"], 0)
        for item, line, minor in match.legs:
            assert minor > 0
            taken[item] += minor
            taken[line] += minor
        for stored in outcome.proposals.adjustments.iter_rows(named=True):
            on = "x" if stored["expected"] is None else items[stored["expected"]].id
            taken[on] += stored["amount_minor"]
        ends = {item.id: item.amount for item in items if item.id in match.ends[0]}
        assert {name: taken[name] for name in (*ends, "x")} == {**ends, "x": paid}
