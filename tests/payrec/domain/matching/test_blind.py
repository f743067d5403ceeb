"""Blind groups, by example: each kind, each refusal, and what makes them less sure."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.matching.line_rules import Required
from payrec.domain.matching.rules import (
    BLIND_CLAIMS_MAX,
    BLIND_COINCIDENCES_PPM_MAX,
    BLIND_ITEMS_MAX,
    BLIND_LINES_MAX,
    BLIND_SEARCH_ITEMS_MAX,
    Confidence,
    GroupLevel,
    MatchKind,
    Reason,
    Uniqueness,
)
from support.blind_sets import AMOUNTS, AUTO, IBAN, MEDIUM, items_of, parts, paying
from support.matching_frames import Item, Line, level, only, run, sure

PROVED = (Confidence.HIGH, Uniqueness.UNIQUE, True)


def names(*members: int) -> frozenset[str]:
    return frozenset(f"e{at}" for at in members)


KINDS = [
    ((1, 2, 3), GroupLevel.BY_RUN),
    (tuple(range(8)), GroupLevel.BY_RUN),
    ((1, 3, 4), GroupLevel.BY_RUN_MINUS),
    ((1, 3, 4, 6), GroupLevel.BY_RUN_MINUS),
    ((1, 4, 5), GroupLevel.BY_RUN_MINUS),
    ((0, 6), GroupLevel.BY_FEW),
    ((0, 3, 7), GroupLevel.BY_FEW),
]


@pytest.mark.parametrize(("members", "kind"), KINDS)
def test_a_set_of_the_payer_that_has_the_sum(members: tuple[int, ...], kind: GroupLevel) -> None:
    items = items_of(*AMOUNTS)
    outcome = run(items, [paying(items, *members)], AUTO)
    group = only(outcome)
    assert (group.ends[0], level(group), group.kind) == (names(*members), kind, MatchKind.ONE_TO_MANY)
    assert sure(group) == MEDIUM
    # 28 runs, 56 and 70 without one or two, 28 pairs and 56 triples.
    assert (group.tried, group.named) == (238, 8)
    [expected] = outcome.proposals.matches["coincidences_ppm"]
    assert 0 < expected <= BLIND_COINCIDENCES_PPM_MAX


def test_a_set_that_has_no_structure_is_not_looked_for() -> None:
    items = items_of(*AMOUNTS)
    assert not run(items, [paying(items, 0, 2, 5, 7)], AUTO).matches


@pytest.mark.parametrize("paid", [-1, 1])
def test_a_minor_unit_more_or_less_is_no_sum(paid: int) -> None:
    items = items_of(*AMOUNTS)
    line = paying(items, 1, 2, 3)
    assert not run(items, [replace(line, amount=line.amount + paid)], AUTO).matches


def test_who_it_is_may_be_told_by_name_or_by_account() -> None:
    items = items_of(*AMOUNTS)
    line = replace(paying(items, 1, 2, 3), iban=None)
    assert not run(items, [line], AUTO).matches
    assert only(run(items, [replace(line, name="ADA")], AUTO)).ends[0] == names(1, 2, 3)
    # The account of one item is that of its name.
    some = [replace(item, iban=None) if at % 2 else item for at, item in enumerate(items)]
    assert only(run(some, [paying(items, 1, 2, 3)], AUTO)).ends[0] == names(1, 2, 3)
    # It may be told by a name that is nearly the items'.
    assert not run(items_of(*AMOUNTS, name="Hartmann Maschinenbau GmbH"), [replace(line, name="ADA")], AUTO).matches
    nearly = replace(line, name="HARTMAN MASCHINENBAU")
    assert only(run(items_of(*AMOUNTS, name="Hartmann Maschinenbau GmbH"), [nearly], AUTO)).ends[0] == names(1, 2, 3)
    # A name with two accounts is two parties.
    two = [replace(item, iban="DE02120300000000202051") if at == 2 else item for at, item in enumerate(items)]
    assert not run(two, [replace(line, name="ADA")], AUTO).matches


def test_who_is_told_by_a_name_of_two_accounts_may_be_either() -> None:
    """Each of the two has half of the items, and the items without an account may be of either."""
    other = "DE02120300000000202051"
    ibans = (IBAN, None, IBAN, None, other, None, other, None)
    items = [replace(item, iban=iban) for item, iban in zip(items_of(*AMOUNTS), ibans, strict=True)]
    assert only(run(items, [paying(items, 0, 1, 2, 3)], AUTO)).ends[0] == names(0, 1, 2, 3)
    of_other = replace(paying(items, 3, 4, 5, 6), iban=other)
    assert only(run(items, [of_other], AUTO)).ends[0] == names(3, 4, 5, 6)
    # What nothing but the name holds together is found in both, and is one set all the same.
    by_name = replace(paying(items, 1, 3), iban=None, name="ADA")
    group = only(run(items, [by_name], AUTO))
    assert (group.ends[0], group.rivals) == (names(1, 3), (0, 0))


def test_another_currency_or_direction_is_another_party() -> None:
    items = items_of(*AMOUNTS)
    line = paying(items, 1, 2, 3)
    for change in ({"currency": "CHF"}, {"direction": -1}):
        other = [replace(item, **change) if at == 2 else item for at, item in enumerate(items)]  # type: ignore[arg-type]
        assert not run(other, [line], AUTO).matches


def test_what_somebody_quotes_is_no_member() -> None:
    items = items_of(*AMOUNTS)
    lines = [paying(items, 1, 2, 3), Line("y", amount=items[2].amount, text=items[2].reference, day=20_601)]
    outcome = run(items, lines, AUTO)
    assert [match.ends[0] for match in outcome.matches] == [names(2)]
    # With that one gone, the others are due in a row.
    lines[0] = paying(items, 1, 3, 4)
    assert [match.ends[0] for match in run(items, lines, AUTO).matches] == [names(1, 3, 4), names(2)]


def test_dates_hold_for_every_member() -> None:
    items = items_of(*AMOUNTS)
    late = [replace(item, due=20_700) if at == 7 else item for at, item in enumerate(items)]
    line = paying(items, 5, 6, 7)
    assert only(run(items, [line], AUTO)).ends[0] == names(5, 6, 7)
    assert not run(late, [line], AUTO).matches


def test_a_rejected_pair_excludes_the_group() -> None:
    items = items_of(*AMOUNTS)
    assert not run(items, [paying(items, 1, 2, 3)], AUTO, [("e2", "x")]).matches


@pytest.mark.parametrize("flag", ["reversal", "duplicate"])
def test_what_takes_back_or_repeats_pays_nothing(flag: str) -> None:
    items = items_of(*AMOUNTS)
    assert not run(items, [replace(paying(items, 1, 2, 3), **{flag: True})], AUTO).matches  # type: ignore[arg-type]


def test_a_pending_line_may_be_proposed() -> None:
    items = items_of(*AMOUNTS)
    group = only(run(items, [replace(paying(items, 1, 2, 3), pending=True)], AUTO))
    assert (sure(group), dict(group.levels)["line"]) == (MEDIUM, 2)


def test_the_rules_bound_a_group_or_forbid_it() -> None:
    items = items_of(*AMOUNTS)
    line = paying(items, 1, 2, 3)
    assert only(run(items, [line], replace(AUTO, group_size_max=3))).ends[0] == names(1, 2, 3)
    for rules in (
        replace(AUTO, group_size_max=2),
        replace(AUTO, group_size_max=1),
        replace(AUTO, required=Required.REFERENCE),
    ):
        assert not run(items, [line], rules).matches


def test_a_simpler_set_is_better_but_not_sure() -> None:
    # The last one costs as much as the first of the run: without one or two, the sum is there again.
    items = items_of(*AMOUNTS[:5], AMOUNTS[1])
    group = only(run(items, [paying(items, 1, 2, 3)], AUTO))
    assert (group.ends[0], level(group)) == (names(1, 2, 3), GroupLevel.BY_RUN)
    assert sure(group) == (Confidence.LOW, Uniqueness.CONTESTED, False)
    assert group.rivals == (1, 0)


def test_two_runs_of_one_sum_are_ambiguous() -> None:
    items = items_of(*AMOUNTS[:4], AMOUNTS[1], *AMOUNTS[5:])
    outcome = run(items, [paying(items, 1, 2, 3)], AUTO)
    assert sure(only(outcome)) == (Confidence.LOW, Uniqueness.AMBIGUOUS, False)
    assert outcome.alternatives


def test_of_runs_of_one_sum_that_one_is_meant_whose_last_item_is_due() -> None:
    for day, meant in ((20_593, (0, 1, 2)), (20_594, (1, 2, 3)), (20_604, (1, 2, 3))):
        items = items_of(AMOUNTS[0], *AMOUNTS[1:3], AMOUNTS[0])
        items[3] = replace(items[3], due=20_594)
        outcome = run(items, [replace(paying(items, 0, 1, 2), day=day)], AUTO)
        assert only(outcome).ends[0] == names(*meant)
        assert sure(only(outcome)) == (Confidence.LOW, Uniqueness.AMBIGUOUS, False)


def test_runs_of_one_amount_say_something_where_it_is_not_round() -> None:
    items = items_of(*[14_003] * 4)
    assert only(run(items, [paying(items, 0, 1, 2, 3)], AUTO)).ends[0] == names(0, 1, 2, 3)
    assert not run(items_of(*[10_000] * 4), [Line("x", amount=40_000, iban=IBAN)], AUTO).matches


def test_two_lines_that_could_pay_the_same_are_ambiguous() -> None:
    items = items_of(*AMOUNTS)
    outcome = run(items, [paying(items, 1, 2, 3), paying(items, 2, 3, 4, id="y")], AUTO)
    assert sure(only(outcome)) == (Confidence.LOW, Uniqueness.AMBIGUOUS, False)
    assert Reason.AMBIGUOUS in {reason for reason, *_ in outcome.lines.values()}


def test_sums_of_round_amounts_say_nothing() -> None:
    items = items_of(*(1_000 * (at + 5) for at in range(8)))
    outcome = run(items, [paying(items, 0, 1, 2)], AUTO)
    assert not outcome.matches
    assert outcome.lines["x"][0] is Reason.AMBIGUOUS


def test_more_items_than_are_searched_are_tried_as_runs_alone() -> None:
    chance = random.Random(5)  # noqa: S311 - data, not a secret
    items = items_of(*(chance.randrange(10_000, 10**7) for _ in range(BLIND_SEARCH_ITEMS_MAX + 1)))
    items = [replace(item, due=20_590) for item in items]
    ordered = sorted(items, key=lambda item: item.amount)
    line = paying(ordered, 3, 4, 5)
    group = only(run(items, [line], AUTO))
    assert (sure(group), group.tried) == ((Confidence.LOW, Uniqueness.UNBOUNDED, False), 31 * 30 // 2)
    assert not run(items, [paying(ordered, 3, 5, 6)], AUTO).matches
    assert only(run(ordered[:-1], [paying(ordered, 3, 5, 6)], AUTO)).confidence is Confidence.MEDIUM


def test_too_many_items_or_lines_say_so() -> None:
    items = [Item(f"e{at}", amount=100_003 + at * 7_919, iban=IBAN) for at in range(BLIND_ITEMS_MAX + 1)]
    outcome = run(items, [paying(items, 1, 2)], AUTO)
    assert not outcome.matches
    assert outcome.lines["x"][0] is Reason.BUDGET_EXHAUSTED
    assert {reason for reason, *_ in outcome.items.values()} == {Reason.BUDGET_EXHAUSTED}
    few = items_of(*AMOUNTS)
    lines = [Line(f"y{at}", amount=900_001 + at, iban=IBAN) for at in range(BLIND_LINES_MAX)]
    outcome = run(few, [paying(few, 1, 2, 3), *lines], AUTO)
    assert not outcome.matches
    assert outcome.lines["x"][0] is Reason.BUDGET_EXHAUSTED
    assert run(few, [paying(few, 1, 2, 3), *lines[1:]], AUTO).matches


@pytest.mark.parametrize("amounts", [(50_003, 50_004), (33_335, 33_335, 33_337), (33_336, 33_336, 33_335)])
def test_equal_parts_of_an_item(amounts: tuple[int, ...]) -> None:
    group = only(run(items_of(sum(amounts)), parts(*amounts), AUTO))
    assert (level(group), group.kind, sure(group)) == (GroupLevel.BY_EQUAL_PARTS, MatchKind.MANY_TO_ONE, PROVED)
    assert len(group.legs) == len(amounts)


@pytest.mark.parametrize(
    "amounts",
    [(50_003, 50_003), (50_003, 50_004, 50_003), (33_335, 33_337), (40_003, 60_004), (33_335, 33_335, 33_338)],
)
def test_no_equal_parts_of_an_item(amounts: tuple[int, ...]) -> None:
    assert not run(items_of(100_007), parts(*amounts), AUTO).groups


def test_equal_parts_of_two_equal_items_are_ambiguous() -> None:
    items = items_of(100_007, 100_007)
    [group] = run(items, parts(50_003, 50_004), AUTO).groups
    assert sure(group) == (Confidence.LOW, Uniqueness.AMBIGUOUS, False)


def nameless(lines: list[Line], *places: int) -> list[Line]:
    return [replace(line, iban=None) if at in places else line for at, line in enumerate(lines)]


@pytest.mark.parametrize(
    ("amounts", "silent"),
    [((50_003, 50_004), (1,)), ((33_335, 33_335, 33_337), (2,)), ((25_001, 25_001, 25_001, 25_004), (0, 2))],
)
def test_some_equal_parts_do_not_say_who_pays(amounts: tuple[int, ...], silent: tuple[int, ...]) -> None:
    items, lines = items_of(sum(amounts)), nameless(parts(*amounts), *silent)
    outcome = run(items, lines, AUTO)
    group = only(outcome)
    assert (level(group), group.kind) == (GroupLevel.BY_UNNAMED_PARTS, MatchKind.MANY_TO_ONE)
    assert sure(group) == (Confidence.LOW, Uniqueness.UNIQUE, False)
    assert len(group.legs) == len(amounts)
    [expected] = outcome.proposals.matches["coincidences_ppm"]
    assert 0 < expected <= BLIND_COINCIDENCES_PPM_MAX
    # Half of them have to be the counterparty's.
    assert not run(items, nameless(lines, *range(len(lines) // 2 + 1)), AUTO).groups
    # Somebody else's are not looked at, nor a pair that was rejected.
    others = [replace(line, iban=line.iban or "DE02120300000000202051") for line in lines]
    assert not run(items, others, AUTO).groups
    assert not run(items, lines, AUTO, [("e0", f"x{silent[0]}")]).groups


def test_one_more_than_is_missing_may_be_any_of_them() -> None:
    lines = nameless(parts(50_003, 50_004, 50_004), 1, 2)
    outcome = run(items_of(100_007), lines, AUTO)
    assert not outcome.groups
    assert outcome.items["e0"][0] is Reason.AMBIGUOUS
    # Of the party's own parts none is missing.
    assert level(only(run(items_of(100_007), nameless(parts(50_003, 50_004, 50_004), 2), AUTO))) == (
        GroupLevel.BY_EQUAL_PARTS
    )


def test_round_parts_that_do_not_say_who_pays_say_nothing_where_many_are_round() -> None:
    lines = nameless(parts(50_000, 50_000), 1)
    many = [Line(f"y{at}", amount=10_000 * (at % 4 + 1)) for at in range(8)]
    assert level(only(run(items_of(100_000), nameless(parts(50_000, 50_000)), AUTO))) == GroupLevel.BY_EQUAL_PARTS
    assert not run(items_of(100_000), [*lines, *many], AUTO).groups
    odd = nameless(parts(50_003, 50_004), 1)
    assert level(only(run(items_of(100_007), [*odd, *many], AUTO))) == GroupLevel.BY_UNNAMED_PARTS


def test_parts_of_two_kinds_are_ambiguous() -> None:
    lines = parts(60_003, 60_003, 40_002, 40_002, 40_002)
    outcome = run(items_of(120_006), lines, AUTO)
    assert not outcome.groups
    assert outcome.items["e0"][0] is Reason.AMBIGUOUS


def _simple(size: int, places: tuple[int, ...]) -> bool:
    """Whether a set is a run, a run without one or two of its inside, a pair or a triple."""
    return size >= 2 and (size <= 3 or places[-1] - places[0] + 1 - size <= 2)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(50_000, 900_000), min_size=2, max_size=9), st.data())
def test_everything_of_the_kinds_is_found_and_nothing_else(amounts: list[int], data: st.DataObject) -> None:
    items = items_of(*amounts)
    places = data.draw(st.sets(st.sampled_from(range(len(items))), min_size=2))
    line = paying(items, *places)
    found = [
        some
        for size in range(2, len(items) + 1)
        for some in combinations(range(len(items)), size)
        if sum(amounts[at] for at in some) == line.amount and _simple(size, some)
    ]
    groups = run(items, [line], AUTO).groups
    assert all(group.ends[0] in {names(*some) for some in found} for group in groups)
    assert not any(group.auto for group in groups)
    if groups and groups[0].status is Uniqueness.UNIQUE:
        assert len(found) == 1
    if len(found) == 1 and len(amounts) >= 6 and len({a % 10 for a in amounts}) > 4:
        assert groups or line.amount in amounts


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 10**6), min_size=2, max_size=12), st.randoms(use_true_random=False))
def test_neither_order_nor_scale_decides(amounts: list[int], chance: random.Random) -> None:
    items = items_of(*amounts)
    some = chance.sample(range(len(items)), min(3, len(items)))
    lines = [paying(items, *some), paying(items, 0, 1, id="y")]
    first = run(items, lines, AUTO)
    assert run(chance.sample(items, len(items)), lines[::-1], AUTO).summary() == first.summary()
    scaled = run(
        [replace(item, amount=item.amount * 10) for item in items],
        [replace(line, amount=line.amount * 10) for line in lines],
        AUTO,
    )
    assert [(m.ends, m.confidence, m.status) for m in scaled.groups] == [
        (m.ends, m.confidence, m.status) for m in first.groups
    ]


HOSTILE = {
    "one amount": [100_003] * 30,
    "one amount but for one": [*[100_003] * 29, 100_019],
    "multiples": [100 * (at + 1) for at in range(30)],
    "few amounts": [100_003 + 7 * (at % 5) for at in range(30)],
}


@pytest.mark.parametrize("amounts", HOSTILE.values(), ids=HOSTILE)
def test_amounts_that_are_alike_stay_bounded(amounts: list[int]) -> None:
    parties = 50
    items = [
        Item(f"e{party}-{at}", amount=amount, iban=f"DE{party}", due=20_590 + at)
        for party in range(parties)
        for at, amount in enumerate(amounts)
    ]
    lines = [
        Line(f"x{party}-{at}", amount=sum(amounts[:size]), iban=f"DE{party}")
        for party in range(parties)
        for at, size in enumerate((2, 3, 4, 5) * 6)
    ]
    start = time.perf_counter()
    outcome = run(items, lines, AUTO)
    assert time.perf_counter() - start < 30
    assert not any(match.auto for match in outcome.groups)


def test_lines_that_all_have_the_sum_are_too_many() -> None:
    items = items_of(*AMOUNTS)
    lines = [replace(paying(items, 1, 2, 3), id=f"x{at}", day=20_600 + at) for at in range(BLIND_CLAIMS_MAX + 1)]
    assert only(run(items, lines[1:], AUTO)).status is Uniqueness.AMBIGUOUS
    outcome = run(items, lines, AUTO)
    assert not outcome.matches
    assert {reason for reason, *_ in outcome.lines.values()} == {Reason.AMBIGUOUS}
