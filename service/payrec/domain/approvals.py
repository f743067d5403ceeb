"""What needs a second person: amounts beyond a limit, and adjustments beyond what a role may decide alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from payrec.constants import AMOUNT_MINOR_MAX
from payrec.domain.fx_rates import FxRateError, converted
from payrec.domain.incoming_transactions import day_number
from payrec.domain.principal import Principal
from payrec.domain.rate_book import RateBook

Money = tuple[str, int]
"""A currency and an amount in its minor units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdjustmentLimit:
    """How much of a type of adjustment a person of a role may decide alone."""

    role: str
    type: str
    max_minor: int
    currency: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Beyond which a decision needs another person."""

    above_minor: int | None
    """None: an amount alone needs nobody."""
    currency: str
    adjustments: tuple[AdjustmentLimit, ...]

    def of(self, principal: Principal) -> Limits:
        """Return the limits that bind somebody: a user by each role, a key by those of all roles, the engine by none.

        A key has no role, and would otherwise be a way around every limit.
        """
        bound = {
            "api_key": self.adjustments,
            "user": tuple(limit for limit in self.adjustments if limit.role in principal.roles),
        }
        return replace(self, adjustments=bound.get(principal.kind, ()))

    @property
    def hold(self) -> bool:
        """Whether anything can be beyond them."""
        return self.above_minor is not None or bool(self.adjustments)

    @property
    def currencies(self) -> frozenset[str]:
        """The currencies that they are in."""
        found = {limit.currency for limit in self.adjustments}
        return frozenset(found if self.above_minor is None else {self.currency, *found})


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What limits look at of a match."""

    day: date | None
    """Of whose rates foreign amounts are converted: when the match is effective."""
    ends: tuple[tuple[Money, ...], ...]
    """What is taken at either end of its legs, with the adjustments there."""
    adjustments: tuple[tuple[str, Money], ...] = ()
    """The type and the amount of each."""

    @property
    def currencies(self) -> frozenset[str]:
        """The currencies of all of it."""
        moneys = [*(money for end in self.ends for money in end), *(money for _, money in self.adjustments)]
        return frozenset(currency for currency, _ in moneys)


Books = Mapping[str, RateBook]
"""The rates by the currency into which they are asked for."""


def books_of(limits: Limits, rates: Iterable[tuple[int, str, str, int, int]]) -> Books:
    """Return the rates into the currencies of limits; ``rates`` are day since 1970, base, quote, mantissa, places."""
    given = list(rates)
    return {currency: RateBook(given, base_currency=currency) for currency in limits.currencies}


def is_beyond(decided: Decided, limits: Limits, books: Books) -> bool:
    """Tell whether a match needs another person.

    Its amount is what is taken at either end of it, so that what it writes off counts as well; adjustments of one type
    count together. What has no rate near its day is beyond every limit.
    """
    for most, currency, moneys in _asked(decided, limits):
        total = _total(moneys, currency, decided.day, books[currency])
        if total is None or total > most:
            return True
    return False


def within_minor(limits: Limits, currency: str, day: date | None, books: Books) -> int:
    """Return the greatest amount of a currency that is not above the limit on a day; -1 where it has no rate."""
    if limits.above_minor is None:
        return AMOUNT_MINOR_MAX
    least, most = -1, AMOUNT_MINOR_MAX
    while least < most:
        middle = (least + most + 1) // 2
        total = _total([(currency, middle)], limits.currency, day, books[limits.currency])
        if total is None or total > limits.above_minor:
            most = middle - 1
        else:
            least = middle
    return least


def _asked(decided: Decided, limits: Limits) -> Iterator[tuple[int, str, Sequence[Money]]]:
    """Return each limit that is asked for, its currency, and what is compared with it."""
    if limits.above_minor is not None:
        for end in decided.ends:
            yield limits.above_minor, limits.currency, end
    for limit in limits.adjustments:
        moneys = [(currency, abs(minor)) for kind, (currency, minor) in decided.adjustments if kind == limit.type]
        if moneys:
            yield limit.max_minor, limit.currency, moneys


def _total(moneys: Iterable[Money], into: str, on: date | None, book: RateBook) -> int | None:
    """Return what amounts are together in a currency; None where one of them has no rate, or is too great."""
    total = 0
    for currency, minor in moneys:
        if currency == into:
            total += minor
            continue
        rate = book.rate(day_number(on), currency, into) if on is not None else None
        if rate is None:
            return None
        try:
            total += (1 if minor >= 0 else -1) * converted(abs(minor), currency, rate, into)
        except FxRateError:
            return None
    return total
