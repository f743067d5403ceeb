"""The exchange rate of a day: given, turned round or through a third currency, of a day near it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Any, Final

from payrec.domain.fx_rates import FxRate

FX_DAYS_MAX: Final = 5
"""Days between a line and the exchange rate that is used for it."""

_DIRECT, _INVERSE, _CROSS = 0, 1, 2
_EURO: Final = "EUR"
"""The base of the rates that the European Central Bank publishes."""


class RateBook:
    """Finds the rate of a day: the nearest day's, of one day the direct one before those derived from others.

    ``rates`` have been checked: day since 1970-01-01, base, quote, mantissa and places of each.
    """

    def __init__(self, rates: Iterable[tuple[Any, ...]], *, base_currency: str) -> None:
        self._pivots = pivots(base_currency)
        self._days: dict[tuple[str, str], list[int]] = {}
        self._rates: dict[tuple[str, str], list[FxRate]] = {}
        for day, base, quote, mantissa, places in sorted(rates):
            self._days.setdefault((base, quote), []).append(day)
            self._rates.setdefault((base, quote), []).append(FxRate(mantissa, places))

    def rate(self, day: int, paid_in: str, asked_in: str) -> FxRate | None:
        """Return how many units of ``asked_in`` one of ``paid_in`` is worth; None without a rate near the day.

        Of rates of equal distance the direct one is taken before the inverse one, and that before the one through the
        base currency, and at last through the euro; of two days of equal distance the earlier.
        """
        found = min(self._candidates(day, paid_in, asked_in), key=lambda f: f[:2], default=None)
        return found[2] if found is not None else None

    def _candidates(self, day: int, paid_in: str, asked_in: str) -> Iterator[tuple[int, int, FxRate]]:
        yield from self._given(day, paid_in, asked_in)
        for place, pivot in enumerate(self._pivots):
            if pivot in {paid_in, asked_in}:
                continue
            first = min(self._given(day, paid_in, pivot), key=lambda f: f[:2], default=None)
            second = min(self._given(day, pivot, asked_in), key=lambda f: f[:2], default=None)
            if first is not None and second is not None:
                rate = first[2].times(second[2])
                if rate is not None:
                    yield max(first[0], second[0]), _CROSS + place, rate

    def _given(self, day: int, paid_in: str, asked_in: str) -> Iterator[tuple[int, int, FxRate]]:
        direct = self._nearest(day, paid_in, asked_in)
        if direct is not None:
            yield direct[0], _DIRECT, direct[1]
        turned = self._nearest(day, asked_in, paid_in)
        rate = turned[1].inverse if turned is not None else None
        if turned is not None and rate is not None:
            yield turned[0], _INVERSE, rate

    def _nearest(self, day: int, base: str, quote: str) -> tuple[int, FxRate] | None:
        """Return the distance and the rate of the nearest day, the earlier of two."""
        days = self._days.get((base, quote), [])
        at = bisect_left(days, day)
        near = [(abs(days[n] - day), n) for n in (at - 1, at) if 0 <= n < len(days)]
        distance, place = min(near, default=(FX_DAYS_MAX + 1, -1))
        return (distance, self._rates[base, quote][place]) if distance <= FX_DAYS_MAX else None


def pivots(base_currency: str) -> tuple[str, ...]:
    """Return the currencies that a rate may go through, in the order in which they are tried."""
    return tuple(dict.fromkeys((base_currency, _EURO)))
