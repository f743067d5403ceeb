"""Remittance advices: what they hold together, what they do not, and that nothing but content decides."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.matching.line_rules import Required
from payrec.domain.matching.rules import (
    AdjustmentType,
    Confidence,
    GroupLevel,
    MatchingRules,
    MatchKind,
    Reason,
    Uniqueness,
)
from support.matching_frames import Advice, Item, Line, level, only, run, sure

BOLT = "Bolt GmbH"
ITEMS = (
    Item("a", amount=10_000, reference="INV-0001", name=BOLT),
    Item("b", amount=5_000, reference="INV-0002", name=BOLT),
    Item("c", amount=5_000, reference="INV-0003", name=BOLT),
)
LISTED = (("INV-0001", 10_000, 0), ("INV-0002", 5_000, 0))
BY_NAME = Advice(LISTED, name=BOLT)
BY_REFERENCE = Advice(LISTED, payment="RUN-2026-1")
PAID = Line("x", amount=15_000, name=BOLT)
QUOTING = Line("x", amount=15_000, text="our run 2026 1 RUN-2026-1")

EXACT = (Confidence.EXACT, Uniqueness.UNIQUE, True)


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        (PAID, BY_NAME),
        (QUOTING, BY_REFERENCE),
        (replace(QUOTING, text=None, group="RUN-2026-1"), BY_REFERENCE),
        (replace(PAID, text="RUN1"), replace(BY_NAME, payment="RUN1")),  # proves nothing without the name
    ],
)
def test_what_is_listed_is_matched_and_proves(line: Line, advice: Advice) -> None:
    match = only(run(ITEMS, [line], advices=[advice]))
    assert match.ends == (frozenset("ab"), frozenset("x"))
    assert (level(match), match.kind, sure(match)) == (GroupLevel.BY_ADVICE, MatchKind.ONE_TO_MANY, EXACT)
    assert (match.tried, match.named) == (1, 2)


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        (replace(PAID, amount=15_001), BY_NAME),
        (replace(PAID, total=20_000), BY_NAME),  # a part of it has been matched
        (replace(PAID, name="Somebody"), BY_NAME),
        (replace(PAID, currency="USD"), BY_NAME),
        (replace(PAID, reversal=True), BY_NAME),
        (replace(PAID, day=20_000), BY_NAME),  # outside of the window of dates
        (replace(PAID, direction=-1), BY_NAME),
        (PAID, BY_REFERENCE),  # its reference is nowhere
        (PAID, Advice((*LISTED[:1], ("INV-0009", 5_000, 0)), name=BOLT)),  # not open
        (PAID, Advice((("INV-0001", 9_000, 0), ("INV-0002", 6_000, 0)), name=BOLT)),  # more than is open
        (PAID, Advice((("INV-0001", 10_000, 1), ("INV-0002", 5_000, 0)), name=BOLT)),
        (PAID, replace(BY_NAME, lines=(("INV-0001", 10_000, 0), ("INV-0002", 4_999, 0)), total=15_000)),
        (replace(PAID, amount=14_999), Advice((*LISTED[:1], ("INV-0002", 4_999, 0)), name=BOLT)),  # a cent is left
        (QUOTING, replace(BY_REFERENCE, lines=(("INV-0001", 10_000, 0), ("INV-0002", 4_999, 0)), total=15_000)),
        (QUOTING, replace(BY_REFERENCE, lines=(*LISTED, ("INV-0009", 1, 0)), total=15_000)),  # one is not open
        (replace(QUOTING, text="RU 1"), replace(BY_REFERENCE, payment="RU1")),  # proves nothing, and no name
        (replace(QUOTING, text="RUN1", name="Somebody"), replace(BY_NAME, payment="RUN1")),
    ],
)
def test_what_does_not_hold_whole_comes_to_nothing(line: Line, advice: Advice) -> None:
    found = run(ITEMS, [line], advices=[advice])
    assert all(level(match) is not GroupLevel.BY_ADVICE for match in found.matches)


def test_a_reference_that_several_items_have_names_none_of_them() -> None:
    twice = [*ITEMS, Item("d", amount=5_000, reference="INV-0002", name="Other")]
    assert not run(twice, [PAID], advices=[BY_NAME]).groups
    twice[-1] = replace(twice[-1], currency="USD")
    assert sure(only(run(twice, [PAID], advices=[BY_NAME]))) == EXACT


def test_short_references_are_those_of_the_payers_items() -> None:
    items = [Item("a", amount=700, reference="771", name=BOLT), Item("b", amount=300, end_to_end_id="E2E-00001")]
    advice = Advice((("771", 700, 0), ("E2E-00001", 300, 0)), name=BOLT)
    assert only(run(items, [replace(PAID, amount=1_000)], advices=[advice])).ends[0] == {"a", "b"}
    items[0] = replace(items[0], name="Somebody else")
    assert not run(items, [replace(PAID, amount=1_000)], advices=[advice]).groups
    items[0] = replace(items[0], iban="DE1")
    assert only(run(items, [replace(PAID, amount=1_000, iban="DE1")], advices=[advice])).ends[0] == {"a", "b"}
    assert not run(items, [replace(PAID, amount=1_000, iban="DE2")], advices=[advice]).groups


@pytest.mark.parametrize("held", [1, 1_000])
def test_what_is_held_back_is_a_deduction_and_waits_for_a_person(held: int) -> None:
    advice = Advice((("INV-0001", 10_000 - held, held), ("INV-0002", 5_000, 0)), name=BOLT)
    found = run(ITEMS, [replace(PAID, amount=15_000 - held)], advices=[advice])
    assert sure(only(found)) == (Confidence.EXACT, Uniqueness.UNIQUE, False)
    assert found.adjustments(ITEMS) == {"a": (AdjustmentType.DEDUCTION, held)}


@pytest.mark.parametrize(("held", "kind"), [(0, "discount"), (200, "discount"), (100, None)])
def test_what_a_term_lets_off_is_a_discount(held: int, kind: str | None) -> None:
    items = [replace(ITEMS[0], terms=((9_800, 20_600),)), ITEMS[1]]
    advice = Advice((("INV-0001", 9_800, held), ("INV-0002", 5_000, 0)), name=BOLT)
    found = run(items, [replace(PAID, amount=14_800)], advices=[advice])
    assert bool(found.matches) == (kind is not None)
    if kind:
        assert found.adjustments(items) == {"a": (AdjustmentType.DISCOUNT, 200)}
        assert sure(only(found)) == EXACT
    late = run(items, [replace(PAID, amount=14_800, day=20_601)], advices=[advice])
    assert AdjustmentType.DISCOUNT not in {found for found, _ in late.adjustments(items).values()}


def test_a_part_is_listed_by_who_names_the_payment() -> None:
    listed = (("INV-0001", 4_000, 0), ("INV-0002", 5_000, 0))
    by_name = run(ITEMS, [replace(PAID, amount=9_000)], advices=[Advice(listed, name=BOLT)])
    assert not any(level(match) is GroupLevel.BY_ADVICE for match in by_name.matches)
    assert by_name.items["b"][:2] == (Reason.AMOUNT_MISMATCH, "x")
    match = only(run(ITEMS, [replace(QUOTING, amount=9_000)], advices=[Advice(listed, payment="RUN-2026-1")]))
    assert sorted(match.legs) == [("a", "x", 4_000), ("b", "x", 5_000)]
    assert sure(match) == EXACT


def test_the_same_twice_is_one_and_what_differs_says_nothing() -> None:
    again = replace(BY_NAME, lines=BY_NAME.lines[::-1])
    assert sure(only(run(ITEMS, [PAID], advices=[BY_NAME, again]))) == EXACT
    other = Advice((("INV-0001", 10_000, 0), ("INV-0003", 5_000, 0)), name=BOLT)
    unclear = run(ITEMS, [PAID], advices=[BY_NAME, other])
    assert not any(level(match) is GroupLevel.BY_ADVICE for match in unclear.matches)
    assert unclear.lines["x"][0] is Reason.AMBIGUOUS
    # One that is about what is not open any more is no other one.
    assert sure(only(run(ITEMS[:2], [PAID], advices=[BY_NAME, other]))) == EXACT


def test_which_advice_comes_first_changes_nothing_of_what_does_not_hold() -> None:
    advices = [Advice((("INV-0001", paid, 0), ("INV-0002", 16_000 - paid, 0)), name=BOLT) for paid in (10_500, 11_000)]
    paid = replace(PAID, amount=16_000)
    found = run(ITEMS[:2], [paid], advices=advices)
    assert found.items["a"][0] is Reason.AMOUNT_MISMATCH
    assert found.items == run(ITEMS[:2], [paid], advices=advices[::-1]).items


def test_one_of_several_payments_is_ambiguous() -> None:
    found = run(ITEMS, [PAID, replace(PAID, id="y", day=20_603)], advices=[BY_NAME])
    [match] = [match for match in found.matches if level(match) is GroupLevel.BY_ADVICE]
    assert (match.ends[1], sure(match)) == (frozenset("x"), (Confidence.LOW, Uniqueness.AMBIGUOUS, False))


def test_a_proof_of_equal_amount_is_better_and_other_claims_are_rivals() -> None:
    beside = Line("y", amount=10_000, text="INV-0001")
    found = run(ITEMS, [PAID, beside], advices=[BY_NAME])
    assert ("a", "y") in found.pairs
    part = Line("y", amount=2_000, text="INV-0001")
    [match] = [m for m in run(ITEMS, [PAID, part], advices=[BY_NAME]).matches if level(m) is GroupLevel.BY_ADVICE]
    assert sure(match) == (Confidence.MEDIUM, Uniqueness.CONTESTED, False)


@pytest.mark.parametrize("item", "abcd")
@pytest.mark.parametrize("line", "wxy")
def test_what_was_rejected_is_no_part_of_it(item: str, line: str) -> None:
    items = [*ITEMS, Item("d", amount=1, reference="INV-0004")]
    lines = [replace(PAID, id="w", amount=1), PAID, replace(PAID, id="y", amount=70_000)]
    found = run(items, lines, rejected=[(item, line)], advices=[BY_NAME])
    listed = any(level(match) is GroupLevel.BY_ADVICE for match in found.matches)
    assert listed == ((item, line) not in {("a", "x"), ("b", "x")})


def test_why_it_comes_to_nothing_is_told() -> None:
    late = run(ITEMS, [replace(QUOTING, day=20_000)], advices=[BY_REFERENCE])
    assert late.lines["x"][0] is Reason.DATE_OUT_OF_WINDOW
    listed = [
        Advice((("INV-0001", 4_000, 0), (other, 5_000, 0)), payment="RUN-2026-1") for other in ("INV-0002", "INV-0003")
    ]
    forbidden = [Line("y", amount=5_000, text="INV-0002", name=BOLT, iban="DE1", day=20_000)]
    items = [replace(item, iban="DE1") for item in ITEMS]
    unclear = run(items, [replace(QUOTING, amount=9_000), *forbidden], advices=listed)
    assert unclear.lines["x"] == (Reason.AMBIGUOUS, "a", 0, -6_000)
    assert unclear.items["b"] == (Reason.AMBIGUOUS, "x", 0, 0)


def test_no_more_items_than_a_decision_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("payrec.domain.matching.advices.GROUP_LEGS_MAX", 2)
    assert sure(only(run(ITEMS, [QUOTING], advices=[BY_REFERENCE]))) == EXACT
    monkeypatch.setattr("payrec.domain.matching.advices.GROUP_LEGS_MAX", 1)
    assert run(ITEMS, [QUOTING], advices=[BY_REFERENCE]).lines["x"][0] is Reason.BUDGET_EXHAUSTED


def test_what_a_rule_requires_is_required() -> None:
    strict = MatchingRules(auto_accept=True, required=Required.COUNTERPARTY_ACCOUNT)
    assert not run(ITEMS, [PAID], strict, advices=[BY_NAME]).matches


def test_many_items_are_listed_beyond_the_bound_of_quoted_ones() -> None:
    many = [Item(f"e{n}", amount=100, reference=f"INV-{n:05}", name=BOLT) for n in range(300)]
    others = [Item(f"o{n}", amount=7, reference=f"OTHER-{n:05}") for n in range(1_000)]
    advice = Advice(tuple((item.reference or "", 100, 0) for item in many), payment="RUN-2026-1")
    line = Line("x", amount=30_000, text="RUN-2026-1")
    assert sure(only(run([*many, *others], [line], advices=[advice]))) == EXACT


_REFERENCES = [f"INV-{n:04}" for n in range(6)]
_DRAWN = st.lists(st.tuples(st.sampled_from(_REFERENCES), st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=4)
_ADVICES = st.builds(
    lambda lines, by_name: replace(BY_NAME if by_name else BY_REFERENCE, lines=tuple(lines)),
    _DRAWN,
    st.booleans(),
)
_ITEMS = st.lists(
    st.builds(
        lambda at, amount, terms: Item(
            f"e{at}",
            amount=amount,
            reference=_REFERENCES[at],
            name=BOLT,
            terms=((amount - 1, 20_600),) if terms and amount > 1 else (),
        ),
        st.integers(0, 5),
        st.integers(1, 6),
        st.booleans(),
    ),
    unique_by=lambda item: item.id,
    max_size=6,
)
_LINES = st.lists(
    st.builds(
        lambda at, amount, quotes: Line(
            f"i{at}", amount=amount, name=BOLT, text="RUN-2026-1" if quotes else None, day=20_598 + at
        ),
        st.integers(0, 4),
        st.integers(1, 12),
        st.booleans(),
    ),
    unique_by=lambda line: line.id,
    max_size=4,
)


@settings(max_examples=15)
@given(_ITEMS, _LINES, st.lists(_ADVICES, max_size=3), st.randoms(use_true_random=False))
def test_nothing_but_content_decides_and_nothing_is_taken_twice(
    items: list[Item], lines: list[Line], advices: list[Advice], chance: Random
) -> None:
    found = run(items, lines, advices=advices)
    settled = found.adjustments(items)
    for item in items:
        taken = sum(minor for match in found.matches for e, _, minor in match.legs if e == item.id)
        kind, minor = settled.get(item.id, (None, 0))
        assert taken + minor <= item.amount
        assert kind is not AdjustmentType.DISCOUNT or taken + minor == item.amount
    listed = [match for match in found.matches if level(match) is GroupLevel.BY_ADVICE]
    for match in listed:
        [line] = [line for line in lines if {line.id} == match.ends[1]]
        assert match.amount == line.amount
        assert not (match.auto and AdjustmentType.DEDUCTION in {settled.get(e, (None, 0))[0] for e in match.ends[0]})

    for rows in (items, lines, advices):
        chance.shuffle(rows)
    assert run(items, lines, advices=advices).summary() == found.summary()

    large = [replace(it, amount=it.amount * 1_000, terms=tuple((m * 1_000, d) for m, d in it.terms)) for it in items]
    paid = [replace(line, amount=line.amount * 1_000) for line in lines]
    said = [replace(a, lines=tuple((r, minor * 1_000, held * 1_000) for r, minor, held in a.lines)) for a in advices]
    scaled = [match for match in run(large, paid, advices=said).matches if level(match) is GroupLevel.BY_ADVICE]
    assert [(m.ends, sure(m)) for m in scaled] == [(m.ends, sure(m)) for m in listed]
