"""A payment that quotes some of what it pays: which other items are meant, and when nobody can say."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.matching import several_more
from payrec.domain.matching.line_rules import Required
from payrec.domain.matching.rules import (
    BLIND_COINCIDENCES_PPM_MAX,
    BLIND_HITS_MAX,
    Confidence,
    GroupLevel,
    MatchingRules,
    MatchKind,
    Uniqueness,
)
from support.matching_frames import DAY, Item, Line, Outcome, Proposal, level, only, run, sure

ONE = Item("one", amount=10_050, reference="RE-2026-0141", name="Alpha", iban="DE1")
TWO = replace(ONE, id="two", amount=20_175, reference="RE-2026-0142")
THREE = replace(ONE, id="three", amount=5_023, reference="RE-2026-0143")
REST = replace(ONE, id="rest", amount=25_198, reference="RE-2026-0149")
LINE = Line("i", amount=35_248, text="RE-2026-0141 and others", name="Alpha")

HINT = (Confidence.MEDIUM, Uniqueness.UNIQUE, False)


def more(outcome: Outcome) -> list[Proposal]:
    return [match for match in outcome.matches if level(match) is GroupLevel.BY_REFERENCES_AND_MORE]


@pytest.mark.parametrize("text", ["RE-2026-0141", "RE-2026-0141 etc.", "RE-2026-0141 + 2 others"])
def test_the_only_others_that_are_the_rest_are_meant_and_a_person_decides(text: str) -> None:
    match = only(outcome := run([ONE, TWO, THREE], [replace(LINE, text=text)], MatchingRules(auto_accept=True)))
    assert (level(match), match.kind, sure(match)) == (GroupLevel.BY_REFERENCES_AND_MORE, MatchKind.ONE_TO_MANY, HINT)
    assert sorted(match.legs) == [("one", "i", 10_050), ("three", "i", 5_023), ("two", "i", 20_175)]
    assert (match.tried, match.named) == (2, 3)
    [expected] = outcome.proposals.matches["coincidences_ppm"]
    assert 0 < expected <= BLIND_COINCIDENCES_PPM_MAX
    assert not outcome.items
    assert not outcome.lines


def test_whoever_pays_them_is_of_the_counterparty_of_what_is_quoted() -> None:
    stranger = replace(LINE, name="Omega", iban="DE9")
    for shared in ({"iban": None}, {"name": None}):
        assert more(run([replace(item, **shared) for item in (ONE, TWO, THREE)], [stranger]))
    assert not more(run([ONE, TWO, replace(THREE, name="Omega", iban="DE9")], [LINE]))


def test_what_is_quoted_is_of_one_counterparty() -> None:
    other = replace(THREE, id="other", reference="RE-2026-0151")
    both = replace(LINE, amount=40_271, text="RE-2026-0141 RE-2026-0151")
    assert more(run([ONE, other, TWO, THREE], [both]))
    of_beta = [replace(item, name="Beta", iban="DE2") for item in (other, TWO, THREE)]
    assert not more(run([ONE, of_beta[0], TWO, THREE], [both]))
    assert not more(run([ONE, *of_beta], [both]))


def test_who_has_an_account_by_one_name_has_it_by_another() -> None:
    one, known = replace(ONE, iban=None), replace(ONE, id="known", amount=77_777, reference="RE-2026-0999")
    two, three = replace(TWO, name="Omega"), replace(THREE, name="Omega", iban=None)
    assert more(run([one, known, two, three], [LINE]))
    assert not more(run([one, two, three], [LINE])), "nothing says that Alpha has that account"


@pytest.mark.parametrize(
    ("items", "lines"),
    [
        ([replace(THREE, id="again", reference="RE-2026-0149")], []),  # two sets are the rest
        ([REST], []),  # one alone is
        ([REST, replace(REST, id="again", reference="RE-2026-0148")], []),  # or two, and nobody knows which
        ([replace(ONE, id="own", amount=35_248, reference="RE-2026-0149")], []),  # the line may pay another one alone
        ([], [replace(LINE, id="j", amount=5_023, text="RE-2026-0143")]),  # one of them is paid by itself
        ([], [replace(LINE, id="j", amount=5_023, text=None)]),
        ([], [replace(LINE, id="j", amount=4_000, text="RE-2026-0143")]),  # or in part
    ],
)
def test_what_may_as_well_be_something_else_is_not_meant(items: list[Item], lines: list[Line]) -> None:
    assert not more(run([ONE, TWO, THREE, *items], [LINE, *lines]))


@pytest.mark.parametrize(
    ("item", "line"),
    [
        ({"amount": 5_022}, {}),
        ({"due": 30_000}, {}),
        ({"direction": -1}, {}),
        ({"currency": "USD"}, {}),
        ({}, {"reversal": True}),
        ({}, {"duplicate": True}),
        ({}, {"text": "thanks"}),
    ],
)
def test_what_is_not_the_rest_is_none(item: dict[str, Any], line: dict[str, Any]) -> None:
    assert not more(run([ONE, TWO, replace(THREE, **item)], [replace(LINE, **line)]))


def test_a_sum_that_chance_makes_is_none() -> None:
    thousands = (3, 17, 41, 55, 61, 72, 80, 95)
    for cents, is_meant in (((0,) * 8, False), ((13, 58, 91, 27, 76, 39, 84, 62), True)):
        others = [
            replace(ONE, id=f"e{at}", amount=1_000 * amount + cents[at], due=DAY + at, reference=f"RE-2026-02{at:02}")
            for at, amount in enumerate(thousands)
        ]
        line = replace(LINE, amount=ONE.amount + others[4].amount + others[5].amount)
        assert bool(more(run([ONE, *others], [line]))) == is_meant


@pytest.mark.parametrize(("beyond", "is_meant"), [(0, True), (-1, False)])
def test_as_much_as_chance_may_make_is_not_beyond_it(
    monkeypatch: pytest.MonkeyPatch, beyond: int, *, is_meant: bool
) -> None:
    items = [ONE, TWO, THREE]
    [expected] = run(items, [LINE]).proposals.matches["coincidences_ppm"]
    monkeypatch.setattr(several_more, "BLIND_COINCIDENCES_PPM_MAX", expected + beyond)
    assert bool(more(run(items, [LINE]))) == is_meant


@pytest.mark.parametrize(
    ("sets", "is_meant"),
    [pytest.param(BLIND_HITS_MAX, True, id="all looked at"), pytest.param(BLIND_HITS_MAX + 1, False, id="one beyond")],
)
def test_of_sets_that_were_refused_but_for_one_that_one_is_meant_if_there_are_no_more(
    sets: int, *, is_meant: bool
) -> None:
    amounts = [amount for at in range(sets) for amount in (40_007 + 1_361 * at**2, 259_984 - 1_361 * at**2)]
    items = [
        replace(ONE, id=f"e{at}", amount=amount, due=DAY + at, reference=f"RE-2026-02{at:02}")
        for at, amount in enumerate(amounts)
    ]
    refused = [(f"e{at}", "i") for at in range(2, 2 * sets, 2)]
    found = more(run([ONE, *items], [replace(LINE, amount=ONE.amount + 299_991)], rejected=refused))
    assert [match.ends[0] for match in found] == [{"one", "e0", "e1"}] * is_meant


def test_what_a_person_has_refused_is_not_proposed_again() -> None:
    for name in ("one", "two", "three"):
        assert not more(run([ONE, TWO, THREE], [LINE], rejected=[(name, "i")]))


def test_who_asks_for_a_reference_is_not_given_items_without() -> None:
    assert not more(run([ONE, TWO, THREE], [LINE], MatchingRules(required=Required.REFERENCE)))


def test_as_many_as_a_group_may_have() -> None:
    assert more(run([ONE, TWO, THREE], [LINE], MatchingRules(group_size_max=3)))
    assert not more(run([ONE, TWO, THREE], [LINE], MatchingRules(group_size_max=2)))


def test_who_quotes_the_same_is_a_rival() -> None:
    [match] = more(run([ONE, TWO, THREE], [LINE, replace(LINE, id="j", amount=4_000, text=ONE.reference)]))
    assert (match.status, match.rivals, match.auto) == (Uniqueness.CONTESTED, (0, 1), False)


def test_two_lines_that_lack_the_same_have_it_neither_surely() -> None:
    four = replace(ONE, id="four", reference="RE-2026-0144")
    found = more(run([ONE, TWO, THREE, four], [LINE, replace(LINE, id="j", text="RE-2026-0144 and others")]))
    assert all(match.status is not Uniqueness.UNIQUE for match in found)


@settings(deadline=None, max_examples=40)
@given(
    owed=st.lists(st.integers(10_000, 99_999), min_size=3, max_size=7, unique=True),
    more_than_one=st.integers(2, 4),
    seed=st.integers(0, 99),
)
def test_it_sums_up_whatever_the_order(owed: list[int], more_than_one: int, seed: int) -> None:
    items = [replace(ONE, id=f"e{at}", amount=amount, reference=f"RE-2026-02{at:02}") for at, amount in enumerate(owed)]
    paid = items[: 1 + more_than_one]
    line = replace(LINE, amount=sum(item.amount for item in paid), text=f"{paid[0].reference} ff")
    outcome = run(items, [line])
    for match in more(outcome):
        assert paid[0].id in {leg[0] for leg in match.legs}
        assert sum(leg[2] for leg in match.legs) == line.amount
    shuffled = Random(seed).sample(items, len(items))  # noqa: S311 - data, not a secret
    assert more(run(shuffled, [line])) == more(outcome)
