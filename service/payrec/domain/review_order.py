"""The order of the review queue: the most money first, whatever its currency, and of equal amounts the surest first.

Each currency is a list of its own, which an index has in order. What stands before or behind a place in the whole queue
is therefore told for each currency by itself, exactly, and the beginnings of these lists are made one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal
from uuid import UUID

from payrec.domain.money import exponent
from payrec.domain.rate_book import RateBook

QueueStatus = Literal["proposed", "pending_approval"]
"""What waits for a person: a proposal for the first one, or what is beyond a limit for the second one."""

_AMOUNT_MAX: Final = 2**63 - 1
"""What a column holds; the sum of a group may be beyond what one transaction may have."""
_SCORE_MIN: Final = -(2**31)
_SCORE_MAX: Final = 2**31 - 1
_FIRST: Final = UUID(int=0)
_LAST: Final = UUID(int=2**128 - 1)
_UNRATED: Final = Fraction(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a match stands, or would stand. What it is made of never changes, so a decided one still has its place.

    As a bound of its currency, everything wanted is strictly less than it; going backwards, greater.
    """

    currency: str
    amount_minor: int
    score: int
    """Log-odds in thousandths."""
    id: UUID


class ReviewOrder:
    """The order of matches of some currencies by the rates of a day.

    Currencies without a rate near the day come after all others, by their names: nothing says what they weigh.
    """

    def __init__(self, currencies: Iterable[str], *, base_currency: str, rates: RateBook, day: int) -> None:
        worth = {currency: _worth(currency, base_currency, rates, day) for currency in sorted(set(currencies))}
        self.unrated: Final = tuple(currency for currency, factor in worth.items() if factor is None)
        """Currencies that have no rate."""
        self._factors: Mapping[str, Fraction] = {name: factor or _UNRATED for name, factor in worth.items()}
        self._ranks = {name: 1 + place for place, name in enumerate(self.unrated)}

    def key(self, row: Mapping[str, Any]) -> tuple[int, Fraction, int, int]:
        """Return what matches are sorted by, the first one least."""
        rank = self._ranks.get(row["currency"], 0)
        stake = row["amount_minor"] * self._factors[row["currency"]]
        return rank, -stake, -row["score"], -row["id"].int

    def beginnings(self) -> list[Place]:
        """Return the bounds of all that there is."""
        return [Place(currency=name, amount_minor=_AMOUNT_MAX, score=_SCORE_MAX, id=_LAST) for name in self._factors]

    def bounds(self, place: Place, *, backwards: bool = False) -> list[Place]:
        """Return the bounds of what stands behind a place, or before it, of currencies that may have such a match."""
        if place.currency not in self._factors:
            return []
        at = self._ranks.get(place.currency, 0)
        stake = place.amount_minor * self._factors[place.currency]
        found = []
        for name, factor in self._factors.items():
            rank = self._ranks.get(name, 0)
            if rank == at:
                found.append(_bound(name, stake / factor, place, backwards=backwards))
            elif (rank > at) is not backwards:
                amount, score, last = (-1, _SCORE_MIN, _FIRST) if backwards else (_AMOUNT_MAX, _SCORE_MAX, _LAST)
                found.append(Place(currency=name, amount_minor=amount, score=score, id=last))
        return found


def _bound(currency: str, minor: Fraction, place: Place, *, backwards: bool) -> Place:
    """Return the bound at an amount that need not be a whole number of minor units."""
    floor = minor.numerator // minor.denominator
    if floor == minor:
        found = (floor, place.score, place.id)
    elif backwards:
        found = (floor, _SCORE_MAX, _LAST)
    else:
        found = (floor + 1, _SCORE_MIN, _FIRST)
    # Beyond every amount that there can be, one more would not fit the column.
    if found[0] > _AMOUNT_MAX:
        found = (_AMOUNT_MAX, _SCORE_MAX, _LAST)
    return Place(currency=currency, amount_minor=found[0], score=found[1], id=found[2])


def _worth(currency: str, base_currency: str, rates: RateBook, day: int) -> Fraction | None:
    """Return what a minor unit is worth in those of the base currency; None where nothing says it."""
    if currency == base_currency:
        return Fraction(1)
    rate = rates.rate(day, currency, base_currency)
    if rate is None:
        return None
    return Fraction(rate.mantissa, 10**rate.places) * Fraction(10) ** (exponent(base_currency) - exponent(currency))
