"""What a person decides comes in one order across currencies, and every place in it tells what is before and behind."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.domain.rate_book import RateBook
from payrec.domain.review_order import Place, ReviewOrder

DAY = 20_000
RATES = [(DAY, "EUR", "USD", 10856, 4), (DAY - 2, "EUR", "JPY", 16217, 2), (DAY, "GBP", "EUR", 12, 1)]
CURRENCIES = ("EUR", "USD", "JPY", "GBP", "KWD", "XAU")
MOST, LOW, HIGH = 2**63 - 1, -(2**31), 2**31 - 1
FIRST, SEVENTH, LAST = UUID(int=0), UUID(int=7), UUID(int=2**128 - 1)
AMOUNTS = st.one_of(st.integers(0, 40), st.integers(0, 10**12), st.integers(0, MOST), st.just(MOST))
ROWS = st.fixed_dictionaries(
    {
        "currency": st.sampled_from(CURRENCIES),
        "amount_minor": AMOUNTS,
        "score": st.integers(-5, 5),
        "id": st.integers(0, 50).map(lambda n: UUID(int=n)),
    }
)


def order_of(rows: list[dict[str, Any]]) -> ReviewOrder:
    rates = RateBook(RATES, base_currency="EUR")
    return ReviewOrder((row["currency"] for row in rows), base_currency="EUR", rates=rates, day=DAY)


def within(row: dict[str, Any], bounds: list[Place], *, backwards: bool = False) -> bool:
    """Tell whether the statement that reads a page would find the row."""
    its = (row["amount_minor"], row["score"], row["id"].int)
    for bound in bounds:
        end = (bound.amount_minor, bound.score, bound.id.int)
        if bound.currency == row["currency"] and (its > end if backwards else its < end):
            return True
    return False


def beside(order: ReviewOrder, row: dict[str, Any], currencies: set[str]) -> list[dict[str, Any]]:
    """Return rows that are worth just about the same in each currency."""
    found = []
    for currency in sorted(currencies):
        factor = -order.key({**row, "currency": currency, "amount_minor": 1})[1]
        floor = -order.key(row)[1] // factor
        found += [
            {**row, "currency": currency, "amount_minor": minor}
            for minor in range(floor - 1, floor + 3)
            if 0 <= minor <= MOST
        ]
    return found


@given(st.lists(ROWS, min_size=1, max_size=12), st.data())
def test_bounds_tell_just_what_is_behind_and_before_a_place(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    order = order_of(rows)
    chosen = data.draw(st.sampled_from(rows))
    at, here = Place(**chosen), order.key(chosen)
    after, before = order.bounds(at), order.bounds(at, backwards=True)
    assert all(type(bound.amount_minor) is int and -1 <= bound.amount_minor <= MOST for bound in (*after, *before))
    for row in (*rows, *beside(order, chosen, {row["currency"] for row in rows})):
        assert within(row, after) is (order.key(row) > here)
        assert within(row, before, backwards=True) is (order.key(row) < here)


@given(st.lists(ROWS, max_size=12))
def test_everything_is_within_the_beginnings(rows: list[dict[str, Any]]) -> None:
    assert all(within(row, order_of(rows).beginnings()) for row in rows)


def test_the_most_money_comes_first_whatever_its_currency() -> None:
    rows = [
        {"currency": currency, "amount_minor": minor, "score": score, "id": UUID(int=number)}
        for number, (currency, minor, score) in enumerate(
            [
                ("XAU", 10**9, 0),
                ("JPY", 16_216, 0),
                ("USD", 10_857, 0),
                ("EUR", 10_000, 1),
                ("EUR", 10_000, 2),
                ("GBP", 10_000, 0),
                ("JPY", 16_218, 0),
                ("USD", 10_855, 0),
                ("KWD", 5, 0),
            ]
        )
    ]
    order = order_of(rows)
    assert [rows.index(row) for row in sorted(rows, key=order.key)] == [5, 2, 6, 4, 3, 1, 7, 8, 0]
    assert order.unrated == ("KWD", "XAU")


def place(currency: str, minor: int, score: int = 3, last: UUID = SEVENTH) -> Place:
    return Place(currency=currency, amount_minor=minor, score=score, id=last)


def whole(currency: str) -> Place:
    return place(currency, MOST, HIGH, LAST)


def none_yet(currency: str) -> Place:
    return place(currency, -1, LOW, FIRST)


@pytest.mark.parametrize(
    ("at", "after", "before"),
    [
        (
            place("EUR", 101),
            # Worth 84 pounds and a sixth.
            [place("EUR", 101), place("GBP", 85, LOW, FIRST), whole("KWD"), whole("XAU")],
            [place("EUR", 101), place("GBP", 84, HIGH, LAST)],
        ),
        (
            place("EUR", 102),
            [place("EUR", 102), place("GBP", 85), whole("KWD"), whole("XAU")],
            [place("EUR", 102), place("GBP", 85)],
        ),
        (
            place("KWD", 5),
            [place("KWD", 5), whole("XAU")],
            [none_yet("EUR"), none_yet("GBP"), place("KWD", 5)],
        ),
        (
            place("GBP", MOST),
            [whole("EUR"), place("GBP", MOST), whole("KWD"), whole("XAU")],
            [whole("EUR"), place("GBP", MOST)],
        ),
    ],
)
def test_a_place_has_one_bound_in_each_currency(at: Place, after: list[Place], before: list[Place]) -> None:
    order = order_of([{"currency": currency} for currency in ("XAU", "GBP", "KWD", "EUR")])
    assert order.bounds(at) == after
    assert order.bounds(at, backwards=True) == before
    assert order.beginnings() == [whole(currency) for currency in ("EUR", "GBP", "KWD", "XAU")]


def test_a_place_of_a_currency_that_is_not_there_has_nothing_around_it() -> None:
    assert order_of([{"currency": "EUR"}]).bounds(place("SEK", 1)) == []
