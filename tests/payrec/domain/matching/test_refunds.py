from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from payrec.domain.matching.line_rules import Required
from payrec.domain.matching.rules import (
    KEY_ITEMS_MAX,
    REFUND_DAYS_MAX,
    AmountLevel,
    Confidence,
    EndToEndLevel,
    MatchingRules,
    MatchKind,
    NameLevel,
    PartyLevel,
    Reason,
    ReferenceLevel,
    Uniqueness,
)
from support.matching_frames import Item, Line, only, run, sure

AUTO_HIGH = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")
PAID = Line("paid", text="ORDER-10001", name="Alpha", iban="DE1")
BACK = Line("back", text="Refund ORDER-10001", name="Alpha", iban="DE1", direction=-1, day=20_620)


@pytest.mark.parametrize("turned", [False, True])
def test_a_payment_that_is_given_back_is_a_refund(*, turned: bool) -> None:
    paid, back = (replace(PAID, direction=-1), replace(BACK, direction=1)) if turned else (PAID, BACK)
    outcome = run([], [paid, back], MatchingRules(auto_accept=True))
    match = only(outcome)
    # What comes in is named first, whichever was the first of the two.
    ends = ("back", "paid") if turned else ("paid", "back")
    assert (match.kind, match.legs) == (MatchKind.REFUND, ((*ends, 10_000),))
    assert sure(match) == (Confidence.EXACT, Uniqueness.UNIQUE, True)
    assert not outcome.lines


@pytest.mark.parametrize(
    "changes",
    [
        {"text": None},
        {"text": None, "name": None},
        {"text": None, "iban": None},
        {"text": "Refund ORDER-10002"},
        {"iban": None, "name": None},
        {"text": "4711"},
    ],
)
def test_without_a_reference_or_without_the_counterparty_it_waits(changes: dict[str, Any]) -> None:
    match = only(run([], [PAID, replace(BACK, **changes)], AUTO_HIGH))
    assert sure(match) == (Confidence.MEDIUM, Uniqueness.UNIQUE, False)
    assert match.kind is MatchKind.REFUND


@pytest.mark.parametrize(
    "changes",
    [
        {"text": None, "iban": None, "name": None},
        {"text": None, "amount": 4_000},
        {"iban": None, "name": None, "amount": 4_000},
        {"amount": 10_001},
        {"currency": "USD"},
        {"iban": "DE2", "name": None},
        {"iban": "DE2", "name": "Beta"},
        {"day": 20_600 + REFUND_DAYS_MAX + 1},
        {"day": 20_599, "amount": 4_000},
        {"reversal": True},
        {"duplicate": True},
        {"direction": 1},
        {"iban": None, "name": None, "text": "4711"},
    ],
)
def test_what_is_no_refund(changes: dict[str, Any]) -> None:
    assert not run([], [PAID, replace(BACK, **changes)], AUTO_HIGH).matches


def test_a_part_is_given_back_by_a_reference_of_the_counterparty() -> None:
    match = only(run([], [PAID, replace(BACK, amount=4_000)], AUTO_HIGH))
    assert (match.legs, match.difference) == ((("paid", "back", 4_000),), 6_000)
    assert sure(match) == (Confidence.MEDIUM, Uniqueness.UNIQUE, False)


@pytest.mark.parametrize("day", [20_600, 20_600 + REFUND_DAYS_MAX])
@pytest.mark.parametrize("amount", [4_000, 10_000])
def test_the_first_and_the_last_day(day: int, amount: int) -> None:
    assert run([], [PAID, replace(BACK, day=day, amount=amount)], AUTO_HIGH).pairs.keys() == {("paid", "back")}


@pytest.mark.parametrize("pending", ["paid", "back"])
def test_what_is_pending_on_either_side_waits(pending: str) -> None:
    lines = [replace(line, pending=line.id == pending) for line in (PAID, BACK)]
    assert sure(only(run([], lines, AUTO_HIGH))) == (Confidence.EXACT, Uniqueness.UNIQUE, False)


def test_what_it_rests_on_is_said() -> None:
    def said(**changes: Any) -> list[int]:
        levels = dict(only(run([], [PAID, replace(BACK, **changes)], AUTO_HIGH)).levels)
        return [levels[name] for name in ("reference", "end_to_end", "amount", "account", "name")]

    reference, amount, party = ReferenceLevel.FULL.value, AmountLevel.EQUAL.value, PartyLevel.EQUAL.value
    assert said() == [reference, 0, amount, party, NameLevel.EQUAL.value]
    assert said(amount=4_000)[:3] == [reference, 0, AmountLevel.SMALLER.value]
    assert said(text=None)[:3] == [0, 0, amount], "the counterparty and the amount alone"
    lines = [replace(line, text=None, end_to_end_id="E2E-20001") for line in (PAID, BACK)]
    levels = dict(only(run([], lines, AUTO_HIGH)).levels)
    assert (levels["reference"], levels["end_to_end"]) == (0, EndToEndLevel.EQUAL.value)


def test_what_a_third_line_quotes_as_well_proves_nothing() -> None:
    third = Line("third", amount=777, text="ORDER-10001", iban="DE1")
    assert sure(run([], [PAID, BACK, third], AUTO_HIGH).pairs["paid", "back"]) == (
        Confidence.MEDIUM,
        Uniqueness.UNIQUE,
        False,
    )
    assert not run([], [PAID, replace(BACK, amount=4_000), third], AUTO_HIGH).matches
    strangers = [replace(line, iban=None, name=None) for line in (PAID, BACK)]
    assert run([], strangers, AUTO_HIGH).matches
    assert not run([], [*strangers, third], AUTO_HIGH).matches
    # Even if it is matched: the number of a customer is on all that he pays.
    paying = Item("e", amount=777, iban="DE1")
    assert not run([], [PAID, replace(BACK, amount=4_000), third], AUTO_HIGH).pairs
    assert set(run([paying], [PAID, replace(BACK, amount=4_000), third], AUTO_HIGH).pairs) == {("e", "third")}
    assert sure(run([], [PAID, BACK, replace(third, currency="USD")], AUTO_HIGH).matches[0])[0] is Confidence.EXACT


def test_equal_claims_are_ambiguous() -> None:
    outcome = run([], [PAID, BACK, replace(BACK, id="again")], AUTO_HIGH)
    assert sure(only(outcome)) == (Confidence.LOW, Uniqueness.AMBIGUOUS, False)
    crowd = [replace(line, id=f"{line.id}{at}", text=None) for line in (PAID, BACK) for at in range(KEY_ITEMS_MAX + 1)]
    assert not run([], crowd, AUTO_HIGH).matches


def test_a_date_that_many_quote_proves_nothing() -> None:
    lines = [
        Line(f"i{at}", text="paid on 2026-03-12", amount=10_000 + at // 2, direction=1 - 2 * (at % 2))
        for at in range(26)
    ]
    assert not run([], lines, AUTO_HIGH).matches


def test_an_item_that_fits_is_preferred() -> None:
    items = [Item("e", reference="ORDER-10001"), Item("f", name="Alpha", direction=-1)]
    both = run(items, [PAID, BACK], AUTO_HIGH)
    assert set(both.pairs) == {("e", "paid"), ("f", "back")}
    one = run(items[:1], [PAID, BACK], AUTO_HIGH)
    assert set(one.pairs) == {("e", "paid")}
    assert one.lines["back"][0] is Reason.NO_CANDIDATE
    # Not even what fits by its amount alone, or nearly, unless a reference says what is given back.
    stranger = Item("s", direction=-1, due=20_620)
    assert set(run([stranger], [PAID, replace(BACK, text=None)], AUTO_HIGH).pairs) == {("s", "back")}
    assert set(run([stranger], [PAID, BACK], AUTO_HIGH).pairs) == {("paid", "back")}
    part = replace(BACK, amount=4_000)
    assert set(run([replace(stranger, amount=4_000)], [PAID, part], AUTO_HIGH).pairs) == {("s", "back")}


@pytest.mark.parametrize("day", [20_603, 20_630])
def test_what_was_paid_twice_is_given_back_once(day: int) -> None:
    twice = replace(PAID, id="twice", day=day)
    outcome = run([Item("e", reference="ORDER-10001")], [PAID, twice, replace(BACK, day=20_640)], AUTO_HIGH)
    assert set(outcome.pairs) == {("e", "paid"), ("twice", "back")}
    # Which of the two is given back, the reference that both quote does not tell.
    assert sure(outcome.pairs["twice", "back"]) == (Confidence.MEDIUM, Uniqueness.UNIQUE, False)
    assert not outcome.lines


def test_own_money_is_no_refund() -> None:
    there = Line("there", account="GIRO", iban="SAVINGS", name="Alpha", text="ORDER-10001")
    here = replace(there, id="here", direction=-1, day=20_620)
    outcome = run([], [there, here, Line("x", amount=1, account="SAVINGS")], AUTO_HIGH)
    assert not outcome.matches


def test_without_a_reference_where_one_is_required() -> None:
    strict = replace(AUTO_HIGH, required=Required.REFERENCE)
    assert not run([], [PAID, replace(BACK, text=None)], strict).matches
    assert run([], [PAID, BACK], strict).matches


@pytest.mark.parametrize("changes", [{}, {"text": None}, {"amount": 4_000}])
def test_a_rejected_refund_is_not_proposed_again(changes: dict[str, Any]) -> None:
    lines = [PAID, replace(BACK, **changes)]
    assert only(run([], lines, AUTO_HIGH)).kind is MatchKind.REFUND
    assert not run([], lines, AUTO_HIGH, [("paid", "back")]).proposals.counts.proposed
