"""Which payment a return takes back: by example, and what must hold whatever the lines say."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.domain.matching.returns import RETURN_DAYS_MAX, Line, Linked, Naming, linked, naming
from payrec.domain.matching.rules import Reason


def payment(amount: int = 100, **fields: Any) -> Line:
    base = {"amount_minor": amount, "left_minor": amount, "currency": "EUR", "direction": "credit", "booking_day": 100}
    return Line(**{**base, **fields})


def back(amount: int = 100, **fields: Any) -> Line:
    return payment(amount, **{"direction": "debit", "booking_day": 110, **fields})


def link(returns: list[Line], payments: list[Line]) -> Linked:
    return linked(returns, payments, {place: range(len(payments)) for place in range(len(returns))})


@pytest.mark.parametrize(
    ("of", "by", "how"),
    [
        ({"end_to_end_id": "E2E-4711"}, {"end_to_end_id": "e2e4711"}, Naming.ID),
        ({"end_to_end_id": "E2E-4711"}, {"remittance": "RETURN OF E2E-4711"}, Naming.ID),
        ({"bank_reference": "BNK20260310"}, {"structured_reference": "BNK20260310"}, Naming.ID),
        ({"uetr": "97ed4827-7b6f-4491-a06f-b548d5a7512d"}, {"uetr": "97ED48277B6F4491A06FB548D5A7512D"}, Naming.ID),
        ({"remittance": "INV-2026-001"}, {"remittance": "RETURN INV-2026-001"}, Naming.REFERENCE),
        ({"counterparty_account": "DE1"}, {"counterparty_account": "DE 1"}, Naming.PARTY),
        ({"counterparty_name": "Bolt GmbH"}, {"counterparty_name": "BOLT"}, Naming.PARTY),
        ({"mandate_id": "M1"}, {"mandate_id": "M1"}, Naming.PARTY),
        ({"end_to_end_id": "NOTPROVIDED"}, {"end_to_end_id": "NOTPROVIDED"}, Naming.NONE),
        ({"end_to_end_id": "4711"}, {"end_to_end_id": "4711"}, Naming.NONE),
        ({}, {}, Naming.NONE),
        ({"remittance": "INV-2026-001"}, {}, Naming.NONE),
        ({"remittance": "INV-2026-001", "counterparty_name": "A"}, {"remittance": "INV-2026-001"}, Naming.REFERENCE),
        ({"counterparty_account": "DE1", "counterparty_name": "Bolt"}, {"counterparty_name": "Bolt"}, Naming.PARTY),
        ({"counterparty_account": "DE1", "counterparty_name": "A"}, {"counterparty_account": "DE2"}, Naming.NONE),
        (
            {"counterparty_account": "DE1", "counterparty_name": "Bolt"},
            {"counterparty_account": "DE2", "counterparty_name": "Bolt"},
            Naming.NONE,
        ),
        (
            {"remittance": "20260310 INV1", "counterparty_name": "A"},
            {"remittance": "20260310", "counterparty_name": "B"},
            Naming.NONE,
        ),
    ],
)
def test_how_a_return_points_to_a_payment(of: dict[str, str], by: dict[str, str], how: Naming) -> None:
    assert naming(back(**by), payment(**of)) is how


@pytest.mark.parametrize(
    "fields",
    [
        {"currency": "USD"},
        {"direction": "credit"},
        {"booking_day": 99},
        {"booking_day": 101 + RETURN_DAYS_MAX},
        {"account": "DE99"},
    ],
)
def test_what_cannot_be_the_payment_whatever_is_quoted(fields: dict[str, Any]) -> None:
    named = {"end_to_end_id": "E2E-4711"}
    assert naming(back(**named, account="DE1"), payment(**named, account="DE1")) is Naming.ID
    assert naming(back(**{**named, "account": "DE1", **fields}), payment(**named, account="DE1")) is Naming.NONE


def test_who_names_a_payment_by_its_id_takes_it_before_who_was_earlier() -> None:
    of = payment(end_to_end_id="E2E-4711", counterparty_name="Bolt")
    earlier, named = back(counterparty_name="Bolt"), back(end_to_end_id="E2E-4711", booking_day=111)
    for returns, first in (([earlier, named], 1), ([named, earlier], 0)):
        found = link(returns, [of])
        assert found.links == ((first, 0, 100),)
        assert found.reasons == {1 - first: Reason.NO_CANDIDATE}


def test_of_two_that_are_named_the_one_that_is_as_large_is_taken_back() -> None:
    named = {"end_to_end_id": "E2E-4711"}
    for payments, place in (
        ([payment(300, **named), payment(**named)], 1),
        ([payment(**named), payment(300, **named)], 0),
    ):
        assert link([back(**named)], payments).links == ((0, place, 100),)


def test_who_names_a_payment_at_which_nobody_has_looked_yet_waits() -> None:
    found = link([back(end_to_end_id="E2E-4711"), back(7)], [payment(end_to_end_id="E2E-4711", waits=True)])
    assert (found.links, found.waiting) == ((), frozenset({0}))


@pytest.mark.parametrize("booking_day", [100, 100 + RETURN_DAYS_MAX])
def test_the_first_and_the_last_day(booking_day: int) -> None:
    given_back = back(end_to_end_id="E2E-4711", booking_day=booking_day)
    assert naming(given_back, payment(end_to_end_id="E2E-4711")) is Naming.ID


def test_less_than_the_payment_needs_its_id() -> None:
    assert link([back(40, end_to_end_id="E2E-4711")], [payment(end_to_end_id="E2E-4711")]).links == ((0, 0, 40),)
    found = link([back(40, counterparty_account="DE1")], [payment(counterparty_account="DE1")])
    assert (found.links, found.reasons) == ((), {0: Reason.NO_CANDIDATE})


def test_several_alike_are_ambiguous_and_the_better_named_is_not() -> None:
    alike = payment(counterparty_account="DE1")
    assert link([back(counterparty_account="DE1")], [alike, alike]).reasons == {0: Reason.AMBIGUOUS}
    named = replace(alike, end_to_end_id="E2E-4711")
    found = link([back(counterparty_account="DE1", remittance="E2E-4711")], [alike, named])
    assert found.links == ((0, 1, 100),)


def test_of_several_payments_of_one_id_the_one_as_large() -> None:
    payments = [payment(amount, end_to_end_id="CUSTOMER-12345") for amount in (150, 100, 120)]
    assert link([back(end_to_end_id="CUSTOMER-12345")], payments).links == ((0, 1, 100),)
    assert link([back(90, end_to_end_id="CUSTOMER-12345")], payments).reasons == {0: Reason.AMBIGUOUS}


def test_returns_of_parts_take_at_most_what_is_left() -> None:
    parts = [back(amount, end_to_end_id="E2E-4711", booking_day=110 + day) for day, amount in enumerate((60, 50, 30))]
    found = link(parts, [payment(end_to_end_id="E2E-4711")])
    # The second is too much after the first; what is left is enough for the third.
    assert found.links == ((0, 0, 60), (2, 0, 30))
    assert found.reasons == {1: Reason.NO_CANDIDATE}


def test_equal_returns_that_are_too_much_together_are_ambiguous() -> None:
    found = link([back(), back()], [payment(100, counterparty_name="A")])
    assert found.reasons == {0: Reason.NO_CANDIDATE, 1: Reason.NO_CANDIDATE}
    named = back(counterparty_name="A")
    found = link([named, named], [payment(counterparty_name="A")])
    assert (found.links, found.reasons) == ((), {0: Reason.AMBIGUOUS, 1: Reason.AMBIGUOUS})


def test_what_one_return_takes_may_leave_another_a_single_payment() -> None:
    first, second = payment(counterparty_name="A", end_to_end_id="E2E-4711"), payment(counterparty_name="A")
    sure = back(counterparty_name="A", end_to_end_id="E2E-4711")
    assert link([back(counterparty_name="A"), sure], [first, second]).links == ((0, 1, 100), (1, 0, 100))


def test_nothing_is_linked_to_what_a_run_has_yet_to_look_at_but_it_counts() -> None:
    fresh = payment(counterparty_name="A", waits=True)
    assert link([back(counterparty_name="A")], [fresh]).reasons == {0: Reason.NO_CANDIDATE}
    assert link([back(counterparty_name="A")], [fresh, replace(fresh, waits=False)]).reasons == {0: Reason.AMBIGUOUS}


def test_where_not_all_of_an_amount_were_looked_at_only_an_id_names() -> None:
    by_party = back(counterparty_name="A", crowded=True)
    assert link([by_party], [payment(counterparty_name="A")]).reasons == {0: Reason.BUDGET_EXHAUSTED}
    by_id = replace(by_party, end_to_end_id="E2E-4711")
    assert link([by_id], [payment(end_to_end_id="E2E-4711")]).links == ((0, 0, 100),)


IDS = st.sampled_from([None, None, "E2E-4711", "E2E-4712"])
LINES = st.builds(
    lambda amount, taken, day, end_to_end_id, account, name, waits, crowded: Line(
        amount_minor=amount,
        left_minor=max(amount - taken, 1),
        currency="EUR",
        direction="credit",
        booking_day=day,
        end_to_end_id=end_to_end_id,
        counterparty_account=account,
        counterparty_name=name,
        waits=waits,
        crowded=crowded,
    ),
    st.sampled_from([50, 100, 100]),
    st.sampled_from([0, 0, 50]),
    st.integers(100, 103),
    IDS,
    st.sampled_from([None, "DE1", "DE2"]),
    st.sampled_from([None, "A", "B"]),
    st.booleans(),
    st.sampled_from([False, False, True]),
)
RETURNS = st.lists(LINES.map(lambda line: replace(line, direction="debit")), max_size=6)


@given(RETURNS, st.lists(LINES, max_size=6), st.randoms(use_true_random=False))
def test_no_order_matters_and_nothing_is_taken_twice(
    returns: list[Line], payments: list[Line], chance: random.Random
) -> None:
    found = link(returns, payments)
    taken: Counter[int] = Counter()
    for place, at, amount in found.links:
        taken[at] += amount
        assert naming(returns[place], payments[at])
        assert amount == returns[place].left_minor
        assert not payments[at].waits
    assert all(minor <= payments[at].left_minor for at, minor in taken.items())
    linked_places = [place for place, _, _ in found.links]
    assert sorted(linked_places + list(found.reasons)) == list(range(len(returns)))
    orders = [list(range(len(returns))), list(range(len(payments)))]
    for order in orders:
        chance.shuffle(order)
    shuffled = link([returns[n] for n in orders[0]], [payments[n] for n in orders[1]])
    again = {(orders[0][place], orders[1][at], amount) for place, at, amount in shuffled.links}
    assert again == set(found.links)
    assert {orders[0][place]: why for place, why in shuffled.reasons.items()} == found.reasons
