"""The summary's arithmetic: shares that add up, sums as large as they get, and nothing of nothing."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from payrec.services.report_summaries import rate, summary

AMOUNT = st.integers(0, 10**15 - 1)
NO_WAITS = {"count": None, "median_seconds": None, "p90_seconds": None}


def part(name: str, status: str | None, count: int, minor: int, other: int = 0) -> dict[str, Any]:
    """Return a row as the store tells it; sums come as decimals."""
    row = {"part": name, "status": status, "currency": "EUR", "direction": "credit", "count": count}
    return row | {"minor": Decimal(minor), "other_minor": Decimal(other)}


@given(part=st.integers(0, 10**24), rest=st.integers(0, 10**24))
def test_a_rate_is_rounded_to_four_digits_half_up(part: int, rest: int) -> None:
    found = rate(part, part + rest)
    if part + rest == 0:
        assert found is None
        return
    exact = Decimal(part) / Decimal(part + rest)
    assert found is not None
    assert abs(Decimal(repr(found)) - exact.quantize(Decimal("0.0001"), ROUND_HALF_UP)) <= Decimal("1e-4")
    assert 0 <= found <= 1


def test_half_of_the_last_digit_is_rounded_up() -> None:
    assert [rate(1, 20_000), rate(3, 20_000), rate(1, 3), rate(0, 7), rate(7, 7)] == [0.0001, 0.0002, 0.3333, 0.0, 1.0]


@given(untouched=AMOUNT, partial=st.tuples(AMOUNT, AMOUNT), matched=AMOUNT, void=AMOUNT, settled=AMOUNT)
def test_the_parts_of_expected_amounts_add_up(
    untouched: int, partial: tuple[int, int], matched: int, void: int, settled: int
) -> None:
    allocated, left = partial
    rows = [
        part("stated", None, 4, untouched + allocated + left + matched + void, settled),
        part("open", None, 2, untouched + left),
        part("touched", "partially_matched", 1, allocated + left, allocated),
        part("touched", "void", 1, void),
    ]
    [line] = summary(rows, [], [], NO_WAITS).lines
    told = line.expected
    assert {status: (f.count, f.amount_minor) for status, f in told.statuses.items()} == {
        "open": (1, untouched),
        "partially_matched": (1, allocated + left),
        "matched": (1, matched),
        "void": (1, void),
    }
    amounts = told.amounts
    assert (amounts.open.amount_minor, amounts.matched.amount_minor) == (untouched + left, matched + allocated)
    assert told.total.amount_minor == sum(
        amount.amount_minor for amount in (amounts.settled_before, amounts.matched, amounts.open, amounts.void)
    )
    assert (line.incoming.total.count, line.incoming.match_rate.by_amount) == (0, None)


def test_a_sum_beyond_64_bits_is_told_whole() -> None:
    minor = (10**15 - 1) * 2_000_000
    [line] = summary(
        [], [part("stated", None, 2_000_000, minor), part("open", None, 2_000_000, minor)], [], NO_WAITS
    ).lines
    assert line.incoming.amounts.open.amount == "19999999999999980000.00"
    assert line.model_dump_json(by_alias=True).count(str(minor)) == 3


def test_of_nothing_there_is_no_share_and_no_time() -> None:
    total = summary([], [], [], NO_WAITS).total
    assert (total.expected.match_rate, total.matches.auto_accept_rate) == (None, None)
    assert (total.time_to_match.count, total.time_to_match.median_seconds) == (0, None)
    assert set(total.incoming.statuses.values()) == {0}
