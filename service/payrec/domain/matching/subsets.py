"""Exact subset sums over a few amounts, by meeting in the middle (Horowitz and Sahni 1974)."""

from __future__ import annotations

from collections.abc import Sequence


def _sums(amounts: Sequence[int]) -> list[int]:
    """Return the sum of every subset; bit ``k`` of a place in the list says whether the ``k``-th amount is in it."""
    sums = [0]
    for amount in amounts:
        sums += [known + amount for known in sums]
    return sums


def only_subset(amounts: Sequence[int], target: int) -> tuple[int, int]:
    """Look for subsets that sum to the target; return how many there are and the members of the only one.

    Counting stops at 2, which is as good as many; the members, bit ``k`` for the ``k``-th amount, say something only
    where the count is 1. Takes time and memory of 2 to the half of the amounts; all of them must be positive.
    """
    half = len(amounts) // 2
    lower: dict[int, tuple[int, int]] = {}
    for members, total in enumerate(_sums(amounts[:half])):
        lower[total] = (lower.get(total, (0, 0))[0] + 1, members)
    count = found = 0
    for members, total in enumerate(_sums(amounts[half:])):
        ways, rest = lower.get(target - total, (0, 0))
        if ways:
            count += ways
            found = members << half | rest
            if count > 1:
                return 2, found
    return count, found
