"""A payment that quotes all but one of what it pays: which other item is meant, and when nobody can say."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.matching.line_rules import Required
from payrec.domain.matching.rules import Confidence, GroupLevel, MatchingRules, MatchKind, Uniqueness
from support.matching_frames import DUE_IN_TIME, Item, Line, Outcome, Proposal, level, only, run, sure

ONE = Item("one", amount=10_000, reference="INV-10001", name="Alpha", iban="DE1")
TWO = replace(ONE, id="two", amount=12_000, reference="INV-10002")
LINE = Line("i", amount=22_000, text="INV-10001", name="Alpha")

HINT = (Confidence.MEDIUM, Uniqueness.UNIQUE, False)


def more(outcome: Outcome) -> list[Proposal]:
    return [match for match in outcome.matches if level(match) is GroupLevel.BY_REFERENCES_AND_ONE]


def test_the_only_other_item_that_is_the_rest_is_meant_and_a_person_decides() -> None:
    match = only(outcome := run([ONE, TWO], [LINE], MatchingRules(auto_accept=True)))
    assert (level(match), match.kind, sure(match)) == (GroupLevel.BY_REFERENCES_AND_ONE, MatchKind.ONE_TO_MANY, HINT)
    assert sorted(match.legs) == [("one", "i", 10_000), ("two", "i", 12_000)]
    assert (match.tried, match.named) == (1, 2)
    assert not outcome.items
    assert not outcome.lines


def test_whoever_pays_it_is_of_the_payer_of_what_is_quoted() -> None:
    for shared in ({"iban": None}, {"name": None}):
        assert more(run([replace(ONE, **shared), replace(TWO, **shared)], [replace(LINE, name="Omega", iban="DE9")]))
    assert not more(run([ONE, replace(TWO, name="Omega", iban="DE9")], [LINE]))


def test_of_two_that_are_the_rest_one_by_name_and_one_by_account_neither_is_meant() -> None:
    others = [replace(TWO, name=None), replace(TWO, id="again", iban=None, reference="INV-10009")]
    for other in others:
        assert more(run([ONE, other], [LINE]))
    assert not more(run([ONE, *others], [LINE]))


def test_beside_several_that_are_quoted() -> None:
    three = replace(ONE, id="three", amount=3_000, reference="INV-10003")
    match = only(run([ONE, TWO, three], [replace(LINE, amount=25_000, text="INV-10001 INV-10003")]))
    assert (level(match), match.named, len(match.legs)) == (GroupLevel.BY_REFERENCES_AND_ONE, 3, 3)


@pytest.mark.parametrize(
    ("items", "lines"),
    [
        ([replace(TWO, id="again", reference="INV-10009")], []),  # two are the rest
        ([], [replace(LINE, id="j", amount=12_000, text="INV-10002")]),  # it is paid by itself
        ([], [replace(LINE, id="j", amount=12_000, text=None)]),
        ([], [replace(LINE, id="j", amount=5_000, text="INV-10002")]),  # or in part
        ([replace(ONE, id="own", amount=22_000, reference="INV-10009")], []),  # the line may pay another one alone
    ],
)
def test_what_may_as_well_be_something_else_is_not_meant(items: list[Item], lines: list[Line]) -> None:
    assert not more(run([ONE, TWO, *items], [LINE, *lines]))


@pytest.mark.parametrize(
    ("item", "line"),
    [
        ({"amount": 11_999}, {}),
        ({"due": 30_000}, {}),
        ({"direction": -1}, {}),
        ({"currency": "USD"}, {}),
        ({}, {"reversal": True}),
        ({}, {"text": "thanks"}),
    ],
)
def test_what_is_not_the_rest_is_none(item: dict[str, Any], line: dict[str, Any]) -> None:
    assert not more(run([ONE, replace(TWO, **item)], [replace(LINE, **line)]))


@pytest.mark.parametrize(("due", "fits"), DUE_IN_TIME)
def test_the_other_item_is_paid_in_time_to_the_day(due: int | None, *, fits: bool) -> None:
    assert bool(more(run([ONE, replace(TWO, due=due)], [LINE]))) == fits


def test_two_lines_that_lack_the_same_have_it_neither() -> None:
    three = replace(ONE, id="three", reference="INV-10003")
    assert not more(run([ONE, TWO, three], [LINE, replace(LINE, id="j", text="INV-10003")]))


def test_what_a_person_has_refused_is_not_proposed_again() -> None:
    for name in ("one", "two"):
        assert not more(run([ONE, TWO], [LINE], rejected=[(name, "i")]))


def test_who_asks_for_a_reference_is_not_given_an_item_without() -> None:
    assert not more(run([ONE, TWO], [LINE], MatchingRules(required=Required.REFERENCE)))


def test_as_many_as_a_group_may_have() -> None:
    assert more(run([ONE, TWO], [LINE], MatchingRules(group_size_max=2)))
    items = [replace(ONE, id=f"e{at}", amount=1_000, reference=f"INV-2000{at}") for at in range(2)]
    line = replace(LINE, amount=14_000, text="INV-20000 INV-20001")
    assert more(run([*items, TWO], [line], MatchingRules(group_size_max=3)))
    assert not more(run([*items, TWO], [line], MatchingRules(group_size_max=2)))


@settings(deadline=None, max_examples=40)
@given(owed=st.lists(st.integers(1, 9), min_size=2, max_size=6), quoted=st.integers(1, 3), seed=st.integers(0, 99))
def test_it_sums_up_whatever_the_order(owed: list[int], quoted: int, seed: int) -> None:
    items = [replace(ONE, id=f"e{at}", amount=1_000 * n, reference=f"INV-2000{at}") for at, n in enumerate(owed)]
    named = items[:quoted]
    text = " ".join(item.reference or "" for item in named)
    line = replace(LINE, amount=sum(item.amount for item in named) + 4_000, text=text)
    outcome = run(items, [line])
    fits = [item for item in items[quoted:] if item.amount == 4_000]
    alone = any(item.amount == line.amount for item in items)
    found = more(outcome)
    assert len(found) == (len(fits) == 1 and not alone)
    for match in found:
        assert {leg[0] for leg in match.legs} == {item.id for item in [*named, *fits]}
        assert sum(leg[2] for leg in match.legs) == line.amount
    shuffled = Random(seed).sample(items, len(items))  # noqa: S311 - data, not a secret
    assert more(run(shuffled, [line])) == found
