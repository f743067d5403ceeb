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
    DateLevel,
    EndToEndLevel,
    LineLevel,
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
@pytest.mark.parametrize("amount", [4_000, 9_999, 10_000])
def test_the_first_and_the_last_day(day: int, amount: int) -> None:
    back = replace(BACK, day=day, amount=amount)
    assert run([], [PAID, back], AUTO_HIGH).pairs.keys() == {("paid", "back")}
    turned = [replace(PAID, direction=-1), replace(back, direction=1)]
    assert run([], turned, AUTO_HIGH).pairs.keys() == {("back", "paid")}


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
    lines = [replace(line, end_to_end_id=f"E2E-{line.id}-20001") for line in (PAID, BACK)]
    levels = dict(only(run([], lines, AUTO_HIGH)).levels)
    assert (levels["reference"], levels["end_to_end"]) == (reference, 0), "ids of their own are not the same"


@pytest.mark.parametrize(
    ("changes", "date", "line"),
    [
        ({"day": 20_603}, DateLevel.NEAR, LineLevel.BOOKED),
        ({"day": 20_604}, DateLevel.CLOSE, LineLevel.BOOKED),
        ({"day": 20_615, "pending": True}, DateLevel.WITHIN, LineLevel.PENDING),
    ],
)
def test_the_days_between_and_what_the_lines_are_count(
    changes: dict[str, Any], date: DateLevel, line: LineLevel
) -> None:
    levels = dict(only(run([], [PAID, replace(BACK, **changes)], AUTO_HIGH)).levels)
    assert (levels["date"], levels["line"]) == (date.value, line.value)


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
    # Even if it is matched, whether its account or its name says whose it is: a customer's number is on all he pays.
    part = replace(BACK, amount=4_000)
    assert not run([], [PAID, part, third], AUTO_HIGH).pairs
    for its in (third, replace(third, iban=None, name="Alpha")):
        paying = Item("e", amount=777, iban=its.iban, name=its.name)
        assert set(run([paying], [PAID, part, its], AUTO_HIGH).pairs) == {("e", "third")}
    assert sure(run([], [PAID, BACK, replace(third, currency="USD")], AUTO_HIGH).matches[0])[0] is Confidence.EXACT


def test_equal_claims_are_ambiguous() -> None:
    outcome = run([], [PAID, BACK, replace(BACK, id="again")], AUTO_HIGH)
    assert sure(only(outcome)) == (Confidence.LOW, Uniqueness.AMBIGUOUS, False)
    crowd = [replace(line, id=f"{line.id}{at}", text=None) for line in (PAID, BACK) for at in range(KEY_ITEMS_MAX + 1)]
    assert not run([], crowd, AUTO_HIGH).matches


def test_a_name_of_many_lines_says_of_none_who_it_is() -> None:
    """As a bank's for its fees; what others are given back is found beside it."""

    def given_back(many: int) -> set[str]:
        names = [("Bank", 100 + at) for at in range(many // 2)] + [("Beta", 5_000)]
        lines = [
            Line(f"{name} {amount} {sign}", amount=amount, name=name, direction=sign)
            for name, amount in names
            for sign in (1, -1)
        ]
        return {one.partition(" ")[0] for one, _ in run([], lines, AUTO_HIGH).pairs}

    assert given_back(KEY_ITEMS_MAX) == {"Bank", "Beta"}
    assert given_back(KEY_ITEMS_MAX + 2) == {"Beta"}


@pytest.mark.parametrize("sign", [1, -1])
def test_what_an_account_of_too_many_might_have_got_back_as_well_is_unbounded(sign: int) -> None:
    def found(more: int) -> Uniqueness:
        crowd = [Line(f"c{at}", iban="DE1", direction=sign) for at in range(more)]
        beta = Line("beta", iban="DE1", name="Beta", direction=sign)
        others = [Line("x", iban="DE1", direction=-sign), Line("back", name="Beta", direction=-sign, day=20_605)]
        ends = ("beta", "back") if sign > 0 else ("back", "beta")
        return run([], [*crowd, beta, *others], AUTO_HIGH).pairs[ends].status

    assert found(KEY_ITEMS_MAX - 1) is Uniqueness.CONTESTED
    assert found(KEY_ITEMS_MAX) is Uniqueness.UNBOUNDED


def test_several_payments_of_one_reference_are_each_given_back_by_it() -> None:
    """By as many as may quote one: how often two of them meet is not counted."""
    pairs = [
        (replace(PAID, id=f"paid{at}", amount=amount), replace(BACK, id=f"back{at}", amount=amount))
        for at, amount in enumerate(range(10_000, 10_000 + KEY_ITEMS_MAX // 3))
    ]
    found = run([], [line for pair in pairs for line in pair], AUTO_HIGH).pairs
    assert set(found) == {(paid.id, back.id) for paid, back in pairs}
    assert {dict(match.levels)["reference"] for match in found.values()} == {ReferenceLevel.FULL.value}


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


def test_what_gives_back_a_repetition_by_the_same_id_is_exact_and_waits() -> None:
    """Whether it was paid twice a person says, whichever side it was."""
    paid = replace(PAID, end_to_end_id="E2E-10000")
    lines = [paid, replace(PAID, id="twice", day=20_603, end_to_end_id="E2E-77001")]
    back = replace(BACK, text="Refund", day=20_640, end_to_end_id="E2E-77001")
    found = run([Item("e", reference="ORDER-10001")], [*lines, back], AUTO_HIGH).pairs
    assert sure(found["e", "paid"]) == (Confidence.EXACT, Uniqueness.UNIQUE, True)
    assert sure(found["twice", "back"]) == (Confidence.EXACT, Uniqueness.UNIQUE, False)
    turned = [replace(line, direction=-line.direction) for line in (*lines, back)]
    found = run([Item("e", reference="ORDER-10001", direction=-1)], turned, AUTO_HIGH).pairs
    assert sure(found["back", "twice"]) == (Confidence.EXACT, Uniqueness.UNIQUE, False)


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
