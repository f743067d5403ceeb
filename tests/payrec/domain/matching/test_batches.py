"""A payout that is less than its batch: what a payment service may have kept, and that every amount is settled."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.matching.batches import FEE_OF_BATCH_MAX
from payrec.domain.matching.line_rules import Required
from payrec.domain.matching.rules import (
    GROUP_LEGS_MAX,
    AdjustmentType,
    Confidence,
    GroupLevel,
    MatchingRules,
    MatchKind,
    Uniqueness,
)
from support.matching_frames import DUE_IN_TIME, Item, Line, Outcome, Proposal, level, only, run, sure

ONE = Item("one", amount=6_000, reference="ORDER-10001", name="Alpha", group="PO-90001")
TWO = replace(ONE, id="two", amount=4_500, reference="ORDER-10002", name="Beta")
NOTE = replace(ONE, id="note", amount=1_000, direction=-1, reference="CREDIT-10001")
LINE = Line("i", amount=10_240, text="Payout PO-90001", name="PSP")

HINT = (Confidence.MEDIUM, Uniqueness.UNIQUE, False)
FEE = AdjustmentType.FEE


def net(outcome: Outcome) -> list[Proposal]:
    return [match for match in outcome.matches if level(match) is GroupLevel.BY_KEY_NET]


def test_what_a_service_has_kept_of_a_batch_is_a_fee_of_its_greatest_item() -> None:
    match = only(outcome := run([ONE, TWO], [LINE]))
    assert (level(match), match.kind, sure(match)) == (GroupLevel.BY_KEY_NET, MatchKind.ONE_TO_MANY, HINT)
    assert sorted(match.legs) == [("one", "i", 5_740), ("two", "i", 4_500)]
    assert (match.amount, match.tried, match.named) == (10_240, 1, 2)
    assert outcome.adjustments([ONE, TWO]) == {"one": (FEE, 260)}
    assert not outcome.items
    assert not outcome.lines


def test_it_waits_for_a_person_whatever_fee_is_tolerated() -> None:
    generous = MatchingRules(auto_accept=True, fee_tolerance_minor=1_000, amount_tolerance_minor=1_000)
    assert sure(only(run([ONE, TWO], [LINE], generous))) == HINT


def test_credit_notes_of_the_batch_are_taken_off_before() -> None:
    match = only(outcome := run([ONE, TWO, NOTE], [replace(LINE, amount=9_240)]))
    assert (level(match), match.kind, sure(match)) == (GroupLevel.BY_KEY_NET, MatchKind.MANY_TO_MANY, HINT)
    assert sorted(match.legs) == [("one", "i", 4_740), ("one", "note", 1_000), ("two", "i", 4_500)]
    assert outcome.adjustments([ONE, TWO, NOTE]) == {"one": (FEE, 260)}


def test_a_tenth_of_what_was_collected_and_no_more() -> None:
    collected = ONE.amount + TWO.amount
    most = collected // FEE_OF_BATCH_MAX
    assert net(run([ONE, TWO], [replace(LINE, amount=collected - most)]))
    assert not net(run([ONE, TWO], [replace(LINE, amount=collected - most - 1)]))
    # Not of what is left when credit notes are taken off: who keeps a share keeps it of what was sold.
    assert net(run([ONE, TWO, NOTE], [replace(LINE, amount=collected - NOTE.amount - most)]))


def test_of_items_too_small_to_bear_it_nothing_is_kept() -> None:
    cents = [replace(ONE, id=f"e{at}", amount=1, reference=f"ORDER-2000{at}") for at in range(10)]
    assert not net(run(cents, [replace(LINE, amount=9)]))


def test_credit_notes_bear_nothing_and_take_nothing_of_what_items_bear() -> None:
    # Of 10, 2 and 98 at most half: 5 + 1 + 49 of the 11 that may be kept.
    items = [replace(ONE, id=f"e{minor}", amount=minor, reference=f"ORDER-{minor}") for minor in (10, 2, 98)]
    notes = [replace(NOTE, id=f"n{at}", amount=30, reference=f"CREDIT-2000{at}") for at in range(3)]
    [match] = net(run([*items, *notes], [replace(LINE, amount=110 - 90 - 11)]))
    assert match.named == 6
    assert not net(run([*items, *notes], [replace(LINE, amount=110 - 90 - 12)]))
    # What is counted is what was sold, to the minor unit.
    items = [replace(ONE, id="e99", amount=99), replace(ONE, id="e120", amount=120, reference="ORDER-10003")]
    note = replace(NOTE, amount=20)
    assert net(run([*items, note], [replace(LINE, amount=219 - 20 - 21)]))
    assert not net(run([*items, note], [replace(LINE, amount=219 - 20 - 22)]))


@pytest.mark.parametrize(
    ("item", "line"),
    [
        ({}, {"amount": 10_501}),  # more than all of it
        ({}, {"reversal": True}),
        ({"due": 30_000}, {}),
        ({"group": "PO-90002"}, {}),
        ({"currency": "USD"}, {}),
    ],
)
def test_what_is_no_payout_of_the_batch_is_none(item: dict[str, Any], line: dict[str, Any]) -> None:
    assert not net(run([ONE, replace(TWO, **item)], [replace(LINE, **line)]))


@pytest.mark.parametrize(("due", "fits"), DUE_IN_TIME)
def test_each_member_is_paid_in_time_to_the_day(due: int | None, *, fits: bool) -> None:
    late = replace(TWO, due=due)
    assert bool(net(run([ONE, late], [LINE]))) == fits
    less = run([ONE, late, NOTE], [replace(LINE, amount=9_500)]).matches
    assert (GroupLevel.BY_KEY_LESS in map(level, less)) == fits
    assert bool(net(run([ONE, TWO, replace(NOTE, due=due)], [replace(LINE, amount=9_240)]))) == fits


def test_of_an_item_at_most_half_is_kept() -> None:
    items = [replace(ONE, id=f"e{at}", amount=101, reference=f"ORDER-2000{at}") for at in range(11)]
    outcome = run(items, [replace(LINE, amount=11 * 101 - 111)])
    assert sorted(minor for _, minor in outcome.adjustments(items).values()) == [11, 50, 50]
    assert sorted(minor for _, _, minor in only(outcome).legs) == [51, 51, 90, *[101] * 8]


def test_as_many_as_a_match_may_have() -> None:
    items = [replace(ONE, id=f"e{at}", amount=100, reference=f"ORDER-{10_000 + at}") for at in range(GROUP_LEGS_MAX)]
    match = only(run(items, [replace(LINE, amount=100 * len(items) - 1)]))
    assert (level(match), len(match.legs)) == (GroupLevel.BY_KEY_NET, GROUP_LEGS_MAX)
    more = replace(ONE, id="more", amount=100, reference="ORDER-30000")
    assert not net(run([*items, more], [replace(LINE, amount=100 * len(items) + 99)]))


def test_of_what_is_paid_out_nobody_keeps_anything() -> None:
    owed = [replace(row, direction=-1) for row in (ONE, TWO)]
    assert not net(run(owed, [replace(LINE, direction=-1)]))
    assert only(run(owed, [replace(LINE, direction=-1, amount=10_500)])).legs


def test_who_is_the_sum_to_the_minor_unit_has_the_batch() -> None:
    whole = replace(LINE, id="whole", amount=10_500)
    [match] = run([ONE, TWO], [LINE, whole]).groups
    assert (level(match), {line for _, line, _ in match.legs}) == (GroupLevel.BY_KEY, {"whole"})
    # Nor is the line short of one batch that is all of another.
    other = [replace(row, id=f"{row.id}-2", group="PO-90002", reference=f"{row.reference}2") for row in (ONE, TWO)]
    other[0] = replace(other[0], amount=6_100)
    both = replace(LINE, amount=10_500, text="Payouts PO-90001 PO-90002")
    assert not net(run([ONE, TWO, *other], [both]))


def test_two_that_would_do_or_two_batches_leave_it_open_whose_it_is() -> None:
    match = only(run([ONE, TWO], [LINE, replace(LINE, id="j", amount=10_230)]))
    assert sure(match) == (Confidence.LOW, Uniqueness.AMBIGUOUS, False)
    other = [replace(row, id=f"{row.id}-2", group="PO-90002", reference=f"{row.reference}2") for row in (ONE, TWO)]
    assert not net(run([ONE, TWO, *other], [replace(LINE, text="Payouts PO-90001 PO-90002")]))


def test_what_a_person_has_refused_is_not_proposed_again() -> None:
    assert not net(run([ONE, TWO], [LINE], rejected=[("two", "i")]))
    assert not net(run([ONE, TWO, NOTE], [replace(LINE, amount=9_240)], rejected=[("one", "note")]))


@pytest.mark.parametrize(
    "required", [Required.COUNTERPARTY_NAME, Required.COUNTERPARTY_ACCOUNT, Required.END_TO_END_ID]
)
def test_who_asks_for_more_than_the_id_is_not_given_less(required: Required) -> None:
    assert not net(run([ONE, TWO], [LINE], MatchingRules(required=required)))


@settings(deadline=None, max_examples=60)
@given(
    owed=st.lists(st.integers(1, 60), min_size=1, max_size=6),
    notes=st.lists(st.integers(1, 20), max_size=2),
    kept=st.integers(1, 4_000),
    seed=st.integers(0, 99),
)
def test_every_amount_is_settled_whatever_the_order(owed: list[int], notes: list[int], kept: int, seed: int) -> None:
    items = [
        *(replace(ONE, id=f"e{at}", amount=100 * n, reference=f"ORDER-2000{at}") for at, n in enumerate(owed)),
        *(replace(NOTE, id=f"c{at}", amount=100 * n, reference=f"CREDIT-3000{at}") for at, n in enumerate(notes)),
    ]
    line = replace(LINE, amount=max(100 * (sum(owed) - sum(notes)) - kept, 1))
    outcome = run(items, [line])
    for match in net(outcome):
        taken: Counter[str] = Counter()
        for one, other, minor in match.legs:
            assert minor > 0
            taken.update({one: minor, other: minor})
        fees = outcome.adjustments(items)
        for name, (kind, minor) in fees.items():
            assert kind is FEE
            assert minor > 0
            taken[name] += minor
        amounts = {row.id: row.amount for row in [*items, line]}
        assert taken == {name: amounts[name] for name in taken}
        assert {*amounts} == {*taken}
        least = min(amounts[name] for name in fees)
        assert all(amounts[name] <= least for name in amounts.keys() - fees.keys() if name.startswith("e"))
    if kept * FEE_OF_BATCH_MAX <= 100 * sum(owed) and 100 * (sum(owed) - sum(notes)) > kept and len(items) > 1:
        assert len(net(outcome)) == 1
    shuffled = Random(seed).sample(items, len(items))  # noqa: S311 - data, not a secret
    assert net(run(shuffled, [line])) == net(outcome)
