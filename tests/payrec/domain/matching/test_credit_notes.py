from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from payrec.domain.matching.rules import (
    KEY_ITEMS_MAX,
    AmountLevel,
    Confidence,
    DateLevel,
    EndToEndLevel,
    MatchingRules,
    MatchKind,
    PartyLevel,
    Reason,
    ReferenceLevel,
    Uniqueness,
)
from support.matching_frames import DAY, Item, Line, only, run, sure

AUTO_HIGH = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")
INVOICE = Item("invoice", reference="INV-10001", name="Alpha", iban="DE1")
NOTE = Item("note", amount=2_000, direction=-1, reference="CN-10001", group="INV-10001", name="Alpha", due=20_620)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"group": None, "reference": "INV-10001"},
        {"group": None, "end_to_end_id": "INV-10001"},
        {"name": None, "iban": "DE1"},
    ],
)
def test_a_credit_note_that_names_its_invoice_settles_a_part_of_it(changes: dict[str, Any]) -> None:
    outcome = run([INVOICE, replace(NOTE, **changes)], [], AUTO_HIGH)
    match = only(outcome)
    assert (match.kind, match.legs) == (MatchKind.CREDIT_NOTE, (("invoice", "note", 2_000),))
    # It moves no money, so a person says that it is so.
    assert sure(match) == (Confidence.HIGH, Uniqueness.UNIQUE, False)
    assert not outcome.items
    leg = outcome.proposals.legs.row(0, named=True)
    assert (leg["expected"], leg["contra_expected"]) == (0, 1)
    assert (leg["incoming"], leg["contra_incoming"]) == (None, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"group": None},
        {"group": "INV", "reference": "INV"},
        {"name": None},
        {"name": "Beta"},
        {"currency": "USD"},
        {"direction": 1},
    ],
)
def test_what_is_no_credit_note(changes: dict[str, Any]) -> None:
    outcome = run([INVOICE, replace(NOTE, **changes)], [], AUTO_HIGH)
    assert not outcome.matches
    assert {reason for reason, *_ in outcome.items.values()} == {Reason.NO_CANDIDATE}


def test_equal_claims_are_ambiguous_and_a_crowd_is_left_alone() -> None:
    assert sure(only(run([INVOICE, NOTE, replace(NOTE, id="again")], [], AUTO_HIGH))) == (
        Confidence.LOW,
        Uniqueness.AMBIGUOUS,
        False,
    )
    crowd = [replace(INVOICE, id=f"e{at}", group="PROJECT-7") for at in range(KEY_ITEMS_MAX + 1)]
    assert not run([*crowd, replace(NOTE, group="PROJECT-7")], [], AUTO_HIGH).matches


def test_a_payment_is_preferred() -> None:
    line = Line("i", text="INV-10001", iban="DE1")
    outcome = run([INVOICE, NOTE], [line], AUTO_HIGH)
    assert set(outcome.pairs) == {("invoice", "i")}
    assert list(outcome.items) == ["note"]


def test_what_a_payment_leaves_open_is_settled_by_the_credit_note() -> None:
    # Of more than is left, so that the three are no match together.
    line = Line("i", amount=7_000, text="INV-10001", iban="DE1")
    first = run([INVOICE, NOTE], [line], AUTO_HIGH)
    assert only(first).legs == (("invoice", "i", 7_000),)
    left = replace(INVOICE, amount=3_000, total=10_000)
    match = only(run([left, NOTE], [], AUTO_HIGH))
    assert (match.kind, match.legs) == (MatchKind.CREDIT_NOTE, (("invoice", "note", 2_000),))


def test_a_rejected_credit_note_is_not_proposed_again() -> None:
    assert not run([INVOICE, NOTE], [], AUTO_HIGH, [("invoice", "note")]).proposals.counts.proposed


E2E = "E2E-000777"


@pytest.mark.parametrize(
    ("invoice", "note", "told"),
    [
        ({}, {}, {"reference": ReferenceLevel.FULL, "end_to_end": 0, "amount": AmountLevel.SMALLER}),
        ({}, {"amount": INVOICE.amount}, {"amount": AmountLevel.EQUAL}),
        (
            {"end_to_end_id": E2E},
            {"group": None, "end_to_end_id": E2E},
            {"end_to_end": EndToEndLevel.EQUAL, "reference": 0},
        ),
        ({"end_to_end_id": E2E}, {"end_to_end_id": "E2E-000778"}, {"reference": ReferenceLevel.FULL, "end_to_end": 0}),
        # A word is no id, however equal.
        ({"end_to_end_id": "SALARY"}, {"end_to_end_id": "SALARY"}, {"reference": ReferenceLevel.FULL, "end_to_end": 0}),
        ({"account": "DE9"}, {"account": "DE9"}, {"own_account": PartyLevel.EQUAL}),
        ({"account": "DE9"}, {"account": "DE8"}, {"own_account": PartyLevel.DIFFERENT}),
        # The days of both by when they are due, else when they are due last, else first.
        ({}, {"due": DAY + 3}, {"date": DateLevel.NEAR}),
        ({}, {"due": DAY - 3}, {"date": DateLevel.NEAR}),
        ({}, {"due": DAY + 20}, {"date": DateLevel.WITHIN}),
        ({}, {"due": DAY + 20, "span": (DAY, DAY)}, {"date": DateLevel.WITHIN}),
        ({}, {"due": None, "span": (DAY - 90, DAY)}, {"date": DateLevel.NEAR}),
        ({}, {"due": None, "span": (DAY, None)}, {"date": DateLevel.NEAR}),
        ({}, {"due": None}, {"date": DateLevel.UNKNOWN}),
    ],
)
def test_what_the_two_have_in_common_is_told(
    invoice: dict[str, Any], note: dict[str, Any], told: dict[str, int]
) -> None:
    match = only(run([replace(INVOICE, **invoice), replace(NOTE, **note)], [], AUTO_HIGH))
    assert dict(match.levels) | told == dict(match.levels)
    assert (match.tried, match.named, match.status) == (1, 1, Uniqueness.UNIQUE)


def test_what_is_named_by_a_crowd_as_well_is_not_sure() -> None:
    crowd = [replace(INVOICE, id=f"e{at}", reference=f"X-100{at:03}", group="PROJECT-7") for at in range(KEY_ITEMS_MAX)]
    note = replace(NOTE, group="PROJECT-7", reference="INV-10001")
    # The note may be any of theirs, and so may an invoice be of a crowd of notes.
    for items in (
        [INVOICE, note, *crowd, replace(crowd[0], id="last", reference="X-1")],
        [replace(INVOICE, group="PROJECT-7"), replace(note, group=None), *[
            replace(row, direction=-1) for row in (*crowd, replace(crowd[0], id="last", reference="X-1"))
        ]],
    ):  # fmt: skip
        match = only(run(items, [], AUTO_HIGH))
        assert match.legs == (("invoice", "note", 2_000),)
        assert sure(match) == (Confidence.MEDIUM, Uniqueness.UNBOUNDED, False)
