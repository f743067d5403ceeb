from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.domain.matching.rules import SUBSET_MEMBERS_MAX
from payrec.domain.matching.subsets import only_subset


@given(st.lists(st.integers(1, 40), max_size=9), st.integers(1, 120))
def test_it_finds_what_trying_all_of_them_finds(amounts: list[int], target: int) -> None:
    places = range(len(amounts))
    sets = [c for n in places for c in combinations(places, n + 1) if sum(amounts[k] for k in c) == target]
    count, members = only_subset(amounts, target)
    assert count == min(len(sets), 2)
    if count == 1:
        assert [k for k in places if members >> k & 1] == list(sets[0])


@pytest.mark.parametrize(
    ("amounts", "target"),
    [
        pytest.param([3, 3, 50, 60], 3, id="both among the first"),
        pytest.param([50, 60, 3, 3], 3, id="both among the last"),
        pytest.param([3, 50, 60, 3], 3, id="one among each"),
        pytest.param([3, 3, 50, 60], 53, id="with one among the last"),
        pytest.param([3, 4, 7, 60], 67, id="of two and of one"),
    ],
)
def test_wherever_two_are_there_are_two(amounts: list[int], target: int) -> None:
    assert only_subset(amounts, target)[0] == 2


def test_nothing_and_the_edges() -> None:
    assert only_subset([], 5)[0] == 0
    assert only_subset([5], 5) == (1, 1)
    assert only_subset([2**62] * 4, 2**64) == (1, 0b1111)
    powers = [2**k for k in range(SUBSET_MEMBERS_MAX)]
    assert only_subset(powers, 2_741) == (1, 2_741)
    assert only_subset([1] * SUBSET_MEMBERS_MAX, 6)[0] == 2
