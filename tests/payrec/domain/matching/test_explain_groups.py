"""What the sentence about a group says of members without names, of credit notes, days and others that would fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from payrec.domain.matching.explain import AdjustmentFacts, ExpectedFacts, IncomingFacts
from payrec.domain.matching.explain_groups import GroupFacts, group_explanation
from payrec.domain.matching.rules import AdjustmentType, GroupLevel, Uniqueness

ITEM = ExpectedFacts(amount_minor=10_000, currency="KWD")
LINE = IncomingFacts(amount_minor=2_500, currency="JPY")
NAMELESS = GroupFacts(amount_minor=30_000, currency="KWD", members=[None, None], named=3, name=None)


def told_of(group: GroupFacts, level: GroupLevel, **more: Any) -> str:
    """Return what is said of a group, without what is said of others."""
    levels = {"group": level} | more.pop("levels", {})
    return group_explanation(levels, group=group, expected=ITEM, incoming=LINE, **more).partition("; ")[0]


@pytest.mark.parametrize(
    ("level", "told"),
    [
        (GroupLevel.BY_KEY, "The 2 invoices of group of the item sum to the payment's 30.000 KWD"),
        (GroupLevel.BY_REFERENCES, "The 2 invoices that the payment quotes sum to its 30.000 KWD"),
        (GroupLevel.BY_SOME_REFERENCES, "Of the 3 invoices that the payment quotes, only 2 sum to its 30.000 KWD"),
        (GroupLevel.BY_FEW, "Of the counterparty's 3 open invoices, 2 sum to the payment's 30.000 KWD"),
        (GroupLevel.BY_ADVICE, "A remittance advice lists the 2 invoices with the payment's 30.000 KWD"),
    ],
)
def test_members_without_a_name_are_counted(level: GroupLevel, told: str) -> None:
    assert told_of(NAMELESS, level) == told


@pytest.mark.parametrize(
    ("members", "told"),
    [
        (["A-1"], "invoice A-1"),
        ([None], "invoice"),
        (["A-1", "A-2"], "the 2 invoices A-1, A-2"),
        (["A-1", " ", None], "the 3 invoices A-1 and 2 more"),
        ([None, *"ABCDEF"], "the 7 invoices A, B, C, D, E, F and 1 more"),
        ([*"ABCDEFG"], "the 7 invoices A, B, C, D, E, F and 1 more"),
        ([None] * 8, "the 8 invoices"),
    ],
)
def test_those_that_are_not_named_are_the_rest(members: list[str | None], told: str) -> None:
    group = replace(NAMELESS, members=members)
    assert told_of(group, GroupLevel.BY_ADVICE) == f"A remittance advice lists {told} with the payment's 30.000 KWD"


LESS = replace(NAMELESS, members=["A-1"], less=["C-1"])
MANY = replace(NAMELESS, less=[None, None])


@pytest.mark.parametrize(
    ("level", "group", "told"),
    [
        (
            GroupLevel.BY_REFERENCES_LESS,
            LESS,
            "Invoice A-1 less credit note C-1, all quoted by the payment, leaves its 30.000 KWD",
        ),
        (
            GroupLevel.BY_REFERENCES_LESS,
            MANY,
            "The 2 invoices less the 2 credit notes, all quoted by the payment, leave its 30.000 KWD",
        ),
        (
            GroupLevel.BY_KEY_LESS,
            LESS,
            "Invoice A-1 less credit note C-1, all that is open of group of the item, leaves the 30.000 KWD",
        ),
        (
            GroupLevel.BY_KEY_LESS,
            MANY,
            "The 2 invoices less the 2 credit notes, all that is open of group of the item, leave the 30.000 KWD",
        ),
        (
            GroupLevel.BY_CREDIT_NOTES,
            LESS,
            "Invoice A-1 that the payment quotes less credit note C-1 of the counterparty leaves its 30.000 KWD",
        ),
        (
            GroupLevel.BY_CREDIT_NOTES,
            MANY,
            "The 2 invoices that the payment quotes less the 2 credit notes of the counterparty leave its 30.000 KWD",
        ),
        (
            GroupLevel.BY_KEY_NET,
            LESS,
            "Invoice A-1 less credit note C-1, all that is open of group of the item, is paid with 30.000 KWD",
        ),
        (
            GroupLevel.BY_KEY_NET,
            replace(LESS, less=[], name="PO-7"),
            "Invoice A-1, all that is open of group PO-7, is paid with 30.000 KWD",
        ),
        (
            GroupLevel.BY_KEY_NET,
            MANY,
            ("The 2 invoices less the 2 credit notes, all that is open of group of the item, are paid with 30.000 KWD"),
        ),
    ],
)
def test_one_or_many_less_credit_notes(level: GroupLevel, group: GroupFacts, told: str) -> None:
    assert told_of(group, level) == told


@pytest.mark.parametrize(
    ("levels", "told"),
    [
        ({}, []),
        ({"date": 1}, ["booked within 3 days of every due date"]),
        ({"date": 2}, ["booked within 14 days of every due date"]),
        ({"date": 3}, ["booked within the date window"]),
        ({"date": 4}, []),
        ({"line": 1}, []),
        ({"line": 2}, ["not booked yet"]),
    ],
)
def test_when_it_was_booked(levels: dict[str, int], told: list[str]) -> None:
    sums = "The 2 invoices that the payment quotes sum to its 30.000 KWD"
    assert told_of(NAMELESS, GroupLevel.BY_REFERENCES, levels=levels) == ", ".join([sums, *told])


def test_what_was_exchanged_for_the_members_is_said() -> None:
    rounded = AdjustmentFacts(
        type=AdjustmentType.FX, amount_minor=0, currency="KWD", of_line=False, settled_minor=30_000, rate="0.012"
    )
    told = told_of(NAMELESS, GroupLevel.BY_REFERENCES, adjustments=[rounded])
    assert told.endswith(" sum to its 30.000 KWD, 2500 JPY at 0.012 is just 30.000 KWD")


@pytest.mark.parametrize(
    ("level", "status", "told"),
    [
        (GroupLevel.BY_KEY, Uniqueness.CONTESTED, "others claim some of them as well"),
        (GroupLevel.BY_FEW, Uniqueness.CONTESTED, "nobody named them, and other sets have the sum as well"),
        (GroupLevel.BY_KEY, Uniqueness.AMBIGUOUS, "others fit just as well"),
        (GroupLevel.BY_FEW, Uniqueness.AMBIGUOUS, "others fit just as well"),
        (GroupLevel.BY_FEW, Uniqueness.UNBOUNDED, "not all that may fit was compared"),
    ],
)
def test_what_else_would_fit(level: GroupLevel, status: Uniqueness, told: str) -> None:
    sentence = group_explanation({"group": level}, group=NAMELESS, expected=ITEM, incoming=LINE, status=status)
    assert sentence.endswith(f" KWD; {told}.")
