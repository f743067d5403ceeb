"""What is beyond a limit: by amount in any currency, and by role and type of adjustment."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.domain.approvals import AdjustmentLimit, Decided, Limits, books_of, is_beyond, within_minor
from payrec.domain.principal import Principal
from payrec.domain.rate_book import FX_DAYS_MAX

DAY = date(2026, 3, 12)
NUMBER = (DAY - date(1970, 1, 1)).days
ID = UUID(int=1)

CURRENCIES = st.sampled_from(["EUR", "USD", "JPY", "KWD"])
RATES = st.lists(
    st.tuples(
        st.integers(NUMBER - 8, NUMBER + 8), CURRENCIES, CURRENCIES, st.integers(1, 10**9), st.integers(0, 6)
    ).filter(lambda rate: rate[1] != rate[2]),
    max_size=6,
    unique_by=lambda rate: rate[:3],
)


def limits(above: int | None, currency: str = "EUR", *adjustments: AdjustmentLimit) -> Limits:
    return Limits(above_minor=above, currency=currency, adjustments=adjustments)


def amount(currency: str, minor: int, day: date | None = DAY) -> Decided:
    return Decided(day=day, ends=(((currency, minor),),))


@given(above=st.integers(0, 10**9), into=CURRENCIES, currency=CURRENCIES, rates=RATES, near=st.integers(-2, 2))
def test_runs_and_people_have_one_limit(above: int, into: str, currency: str, rates: Any, near: int) -> None:
    """A run compares with the greatest amount that is within, everybody else converts."""
    asked = limits(above, into)
    books = books_of(asked, rates)
    most = within_minor(asked, currency, DAY, books)
    for minor in {max(most + near, 0), 0, 1, above, 10**12}:
        assert is_beyond(amount(currency, minor), asked, books) == (minor > most)


@given(apart=st.integers(-10, 10), above=st.integers(1_000, 10**6))
def test_a_rate_counts_for_its_days_and_nothing_else_does(apart: int, above: int) -> None:
    asked = limits(above)
    books = books_of(asked, [(NUMBER, "USD", "EUR", 5, 1)])
    day = DAY + timedelta(days=apart)
    known = abs(apart) <= FX_DAYS_MAX
    assert is_beyond(amount("USD", 2 * above, day), asked, books) is not known
    assert is_beyond(amount("USD", 2 * above + 2, day), asked, books)
    assert is_beyond(amount("USD", 1, None), asked, books)


@given(
    moneys=st.lists(st.tuples(st.sampled_from(["EUR", "USD", "JPY"]), st.integers(-(10**6), 10**6)), max_size=4),
    other=st.lists(st.tuples(st.just("EUR"), st.integers(-(10**6), 10**6)), max_size=2),
    near=st.integers(-2, 2),
)
def test_an_end_counts_as_what_it_comes_to_in_all_currencies(moneys: Any, other: Any, near: int) -> None:
    """A dollar is half a euro here, and a yen is a cent: what is taken off at an end is taken off in any currency."""
    even = [(currency, minor - minor % 2) for currency, minor in moneys]
    worth = {"EUR": lambda minor: minor, "USD": lambda minor: minor // 2, "JPY": lambda minor: minor}
    sums = [sum(worth[currency](minor) for currency, minor in end) for end in (even, other)]
    above = max(max(sums) + near, 0)
    asked = limits(above)
    books = books_of(asked, [(NUMBER, "USD", "EUR", 5, 1), (NUMBER, "JPY", "EUR", 1, 2)])
    decided = Decided(day=DAY, ends=(tuple(even), tuple(other)))
    assert is_beyond(decided, asked, books) == any(total > above for total in sums)


@given(minors=st.lists(st.integers(-500, 500), max_size=4), other=st.integers(-500, 500), most=st.integers(0, 1_000))
def test_adjustments_of_one_type_count_together_whatever_their_sign(minors: list[int], other: int, most: int) -> None:
    asked = limits(None, "EUR", AdjustmentLimit(role="admin", type="fee", max_minor=most, currency="EUR"))
    told = [("fee", ("EUR", minor)) for minor in minors] + [("discount", ("EUR", other))]
    decided = replace(amount("EUR", 10**9), adjustments=tuple(told))
    assert is_beyond(decided, asked, books_of(asked, [])) == (sum(map(abs, minors)) > most)


@pytest.mark.parametrize(
    ("principal", "bound"),
    [
        (Principal(kind="user", id=ID, tenant_id=ID, roles=frozenset({"approver"})), ["approver"]),
        (Principal(kind="user", id=ID, tenant_id=ID, roles=frozenset({"approver", "admin"})), ["approver", "admin"]),
        (Principal(kind="user", id=ID, tenant_id=ID), []),
        (
            Principal(kind="api_key", id=ID, tenant_id=ID, public_id="k", environments=frozenset({"test"})),
            ["approver", "admin"],
        ),
        (Principal(kind="system", name="engine:1"), []),
    ],
    ids=["one role", "two roles", "no role", "key", "engine"],
)
def test_whom_the_limits_of_roles_bind(principal: Principal, bound: list[str]) -> None:
    each = [AdjustmentLimit(role=role, type="fee", max_minor=1, currency="EUR") for role in ("approver", "admin")]
    found = limits(5, "EUR", *each).of(principal)
    assert ([limit.role for limit in found.adjustments], found.above_minor) == (bound, 5)
