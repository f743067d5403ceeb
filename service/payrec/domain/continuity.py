"""Whether the statements of an account follow each other, or one is missing, or there twice.

A statement follows another where its opening balance is that one's closing balance, or its number is the next one.
Statements are ordered by the day of their closing balance, never by when they came, and each is judged by the others of
its day and by those of the nearest earlier day alone: so the same statements get the same verdicts in whatever order
they arrive, and whoever adds one has to look at its neighbours and no further.

Several statements of one day are put in order by their balances: opening and closing are the two ends of an edge, and
a day is whole when one trail passes over all its edges (Hierholzer's algorithm), beginning where the day before ended.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from typing import Any, Final, Literal

from payrec.constants import STATEMENT_NUMBER_DIGITS_MAX
from payrec.domain.money import format_minor
from payrec.domain.statements import Severity, Statement

Continuity = Literal["ok", "gap", "overlap", "first", "not_available"]

FINDINGS: Final = {"gap": "statement_gap", "overlap": "statement_overlap"}
"""Codes of the problems that verdicts are told as."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """What continuity needs of one statement."""

    key: tuple[Any, ...]
    """Who it is; among statements of the same content the least is the original."""
    account: str | None
    currency: str | None
    chained_on: date | None
    """The day by which it is ordered: that of its closing balance. None for one that takes no part."""
    from_on: date | None
    """The first day of its period, as far as it names one."""
    to_on: date | None
    """The last one."""
    opened_on: date | None
    """The day of its opening balance."""
    opening_minor: int | None
    """Signed, in the currency of the statement."""
    closing_minor: int | None
    sequence: int | None
    page: int | None
    is_last_page: bool | None
    statement_id: str | None
    content: tuple[int, ...] = ()
    """Counts and sums of its entries: what tells a statement that came twice from another one."""

    @property
    def order(self) -> tuple[Any, ...]:
        """Its place among the statements of its day, as far as that is not said by the balances."""
        numbers = (self.sequence, self.page, self.opening_minor, self.closing_minor)
        known = tuple((n is not None, n or 0) for n in numbers)
        days = tuple(d or date.min for d in (self.opened_on, self.from_on, self.to_on))
        return (*known, *days, self.statement_id or "", self.content, self.key)

    @property
    def identity(self) -> tuple[Any, ...] | None:
        """What makes it the same statement as another one; None where one that is equal may well follow it."""
        numbers = (self.sequence, self.page, self.opening_minor, self.closing_minor)
        if self.sequence is None and self.opening_minor == self.closing_minor:
            return None
        return (*numbers, self.opened_on, self.from_on, self.to_on, self.statement_id, self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """How a statement follows those before it."""

    ends: Ends
    continuity: Continuity
    expected_minor: int | None = None
    """The closing balance that it should have opened with, where it does not."""
    expected_on: date | None = None
    """The day of the statement that closed with it."""
    previous: Ends | None = None
    """That statement."""
    repeats: Ends | None = None
    """The same statement, that was there before."""

    @property
    def difference_minor(self) -> int | None:
        """What was moved between the two, as far as both balances are known."""
        if self.expected_minor is None or self.ends.opening_minor is None:
            return None
        return self.ends.opening_minor - self.expected_minor

    @property
    def severity(self) -> Severity:
        """How bad it is; a statement that came twice does no harm."""
        return "warning" if self.continuity in FINDINGS and self.repeats is None else "info"

    @property
    def detail(self) -> str:
        """What is wrong, for a person who looks for the missing statement; empty where nothing is."""
        if self.repeats is not None:
            return "the same statement was there before: its entries are stored once"
        if self.continuity not in FINDINGS:
            return ""
        return f"{self._opens} {self._should}{self._numbers}; " + (
            "a statement is missing between the two"
            if self.continuity == "gap"
            else "the two overlap, or one of them was issued again"
        )

    @property
    def _opens(self) -> str:
        opening = _money(self.ends.opening_minor, self.ends.currency)
        return f"the statement of {self.ends.chained_on} opens with {opening},"

    @property
    def _should(self) -> str:
        closed = f"that of {self.expected_on} before it closed with {_money(self.expected_minor, self.ends.currency)}"
        difference = self.difference_minor
        return f"{closed}, a difference of {_money(difference, self.ends.currency)}" if difference else closed

    @property
    def _numbers(self) -> str:
        before = self.previous.sequence if self.previous is not None else None
        if before is None or self.ends.sequence is None:
            return ""
        return f" (numbers {before} and {self.ends.sequence})"


def _money(minor: int | None, currency: str | None) -> str:
    if minor is None or currency is None:
        return "an unknown balance"
    return f"{format_minor(minor, currency)} {currency}"


def ends_of(statement: Statement, *key: Any) -> Ends:
    """Return the ends of a statement that was read; one without enough to compare has no ``chained_on``."""
    opening, closing = statement.balance("opening"), statement.balance("closing")
    own = statement.currency
    opening_minor = opening.signed_minor if opening is not None and opening.currency == own else None
    closing_minor = closing.signed_minor if closing is not None and closing.currency == own else None
    sequence = sequence_of(statement.sequence_number)
    days = [b.on for b in (closing, opening) if b is not None] + [statement.to_on, statement.last_booking_on]
    has_both = opening_minor is not None and closing_minor is not None
    is_comparable = has_both or sequence is not None or (statement.page_number or 1) > 1
    takes_part = statement.kind == "statement" and statement.account is not None and own is not None and is_comparable
    all_totals = (statement.booked, statement.pending, statement.info)
    return Ends(
        key=key,
        account=statement.account,
        currency=own,
        chained_on=next((d for d in days if d is not None), None) if takes_part else None,
        from_on=statement.from_on,
        to_on=statement.to_on,
        opened_on=opening.on if opening is not None else None,
        opening_minor=opening_minor,
        closing_minor=closing_minor,
        sequence=sequence,
        page=statement.page_number,
        is_last_page=statement.last_page,
        statement_id=statement.statement_id,
        content=(
            statement.entry_count,
            sum(t.credit_minor for t in all_totals),
            sum(t.debit_minor for t in all_totals),
        ),
    )


def sequence_of(number: str | None) -> int | None:
    """Return the number of a statement, None where it is not one."""
    is_number = number and len(number) <= STATEMENT_NUMBER_DIGITS_MAX and number.isascii() and number.isdigit()
    return int(number) if number and is_number else None


def judge(statements: Iterable[Ends]) -> list[Judgement]:
    """Judge all statements of any number of accounts; each gets one judgement, in no order that matters."""
    found = []
    ordered: list[Ends] = []
    for ends in statements:
        if ends.chained_on is None:
            found.append(Judgement(ends=ends, continuity="not_available"))
        else:
            ordered.append(ends)
    ordered.sort(key=lambda e: (e.account, e.currency, e.chained_on))
    for _, chain in groupby(ordered, key=lambda e: (e.account, e.currency)):
        before: list[Ends] = []
        for _, group in groupby(chain, key=lambda e: e.chained_on):
            day = list(group)
            found += judge_day(day, before)
            before = day
    return found


def judge_day(day: Sequence[Ends], before: Sequence[Ends]) -> list[Judgement]:
    """Judge the statements of one account, currency and day.

    Parameters
    ----------
    day
        All that are ordered by that day.
    before
        All of the nearest earlier day that has any; empty where there is none.

    """
    statements, repeated = _without_repeated(day)
    earlier, _ = _without_repeated(before)
    numbers = _Numbers(statements, earlier)
    exits = _exits(earlier)
    # A page without an opening balance leads to the next one all the same.
    entering = {*exits, *(s.closing_minor for s in statements if s.opening_minor is None)} - {None}
    begun: set[int | None] = set()
    found = []
    last: Ends | None = None
    for trail in _trails([s for s in statements if s.opening_minor is not None], entering):
        for ends in trail:
            follows = last is not None and ends is not trail[0] and ends.opening_minor == last.closing_minor
            if not follows and ends.opening_minor in entering:
                # Whoever ended a day is followed once: another one that begins there as well overlaps.
                entering.remove(ends.opening_minor)
                follows = True
            if follows or numbers.has_before(ends):
                found.append(Judgement(ends=ends, continuity="ok"))
            elif last is None and not earlier:
                found.append(Judgement(ends=ends, continuity="first"))
            else:
                previous = last or next(reversed(exits.values()), None) or earlier[-1]
                found.append(_broken(ends, previous, earlier, overlaps=ends.opening_minor in begun))
            begun.add(ends.opening_minor)
            last = ends
    found += [_by_number(s, statements, earlier, numbers) for s in statements if s.opening_minor is None]
    found += [Judgement(ends=s, continuity="overlap", repeats=original) for s, original in repeated]
    return found


def _without_repeated(day: Sequence[Ends]) -> tuple[list[Ends], list[tuple[Ends, Ends]]]:
    """Return the statements in their order, and apart, each with its original, those that are another one again."""
    originals: dict[tuple[Any, ...], Ends] = {}
    kept, repeated = [], []
    for ends in sorted(day, key=lambda e: e.order):
        identity = ends.identity
        original = originals.setdefault(identity, ends) if identity is not None else ends
        if original is ends:
            kept.append(ends)
        else:
            repeated.append((ends, original))
    return kept, repeated


def _exits(day: Sequence[Ends]) -> dict[int, Ends]:
    """Return the balances with which a day may have ended, each with a statement that closed with it.

    Those that nothing of the day goes on from; where the day ended as it began, any of its balances.
    """
    closings = {s.closing_minor: s for s in day if s.closing_minor is not None}
    surplus = Counter(s.closing_minor for s in day)
    surplus.subtract(s.opening_minor for s in day)
    ends = {minor: s for minor, s in closings.items() if surplus[minor] > 0}
    return ends or closings


class _Nowhere:
    """Where a statement without a closing balance leads: to nothing else."""


def _trails(statements: Sequence[Ends], entering: Container[int | None]) -> list[list[Ends]]:
    """Return the statements as trails, in which each opens with what the one before closed with, wherever that can be.

    Trails begin at the balances of ``entering``, then at those that more statements open with than close with.
    """
    leaving: dict[Hashable, list[Ends]] = {}
    surplus: Counter[Hashable] = Counter()
    for ends in reversed(statements):
        leaving.setdefault(ends.opening_minor, []).append(ends)
        surplus[ends.opening_minor] += 1
        surplus[ends.closing_minor] -= 1
    openings = [s.opening_minor for s in statements]
    starts = [n for n in openings if n in entering] + [n for n in openings if surplus[n] > 0] + openings
    return [_walk(start, leaving) for start in starts if leaving[start]]


def _walk(start: int | None, leaving: dict[Hashable, list[Ends]]) -> list[Ends]:
    """Pass over every statement that can be reached, and take it out of ``leaving``."""
    trail: list[Ends] = []
    places: list[tuple[Hashable, Ends | None]] = [(start, None)]
    while places:
        place, by = places[-1]
        if onward := leaving.get(place):
            ends = onward.pop()
            places.append((_Nowhere() if ends.closing_minor is None else ends.closing_minor, ends))
            continue
        places.pop()
        if by is not None:
            trail.append(by)
    trail.reverse()
    return trail


class _Numbers:
    """Which numbers and pages there are, among the statements of a day and of the one before it."""

    def __init__(self, day: Sequence[Ends], before: Sequence[Ends]) -> None:
        numbered = [(s.sequence, s) for s in (*day, *before) if s.sequence is not None]
        self._in_order = sorted(numbered, key=lambda pair: pair[0])
        self._whole = {number for number, s in numbered if s.is_last_page is not False}
        self._pages = {_page_of(s, s.page) for s in (*day, *before) if s.page is not None}
        years = (s.chained_on.year for s in before if s.sequence is not None and s.chained_on is not None)
        self._year = max(years, default=date.max.year)
        self._has_unknown_closing = any(s.closing_minor is None for _, s in numbered)

    def has_before(self, ends: Ends) -> bool:
        """Return whether there is the number before, or the page before."""
        if ends.page is not None and ends.page > 1:
            return _page_of(ends, ends.page - 1) in self._pages
        if ends.sequence is None:
            return False
        if ends.sequence - 1 in self._whole:
            return True
        # Numbers begin anew with the year, which proves nothing where balances contradict.
        is_new_year = ends.sequence == 1 and ends.chained_on is not None and ends.chained_on.year > self._year
        return is_new_year and (ends.opening_minor is None or self._has_unknown_closing)

    def nearest_below(self, ends: Ends) -> Ends | None:
        """Return the statement of the greatest number below, None where there is none."""
        place = bisect_left(self._in_order, ends.sequence or 0, key=lambda pair: pair[0])
        return self._in_order[place - 1][1] if place else None


def _page_of(ends: Ends, page: int) -> tuple[Any, ...]:
    """Return what names a page: the number of its statement, or the id where it has no number."""
    return (ends.sequence, ends.statement_id if ends.sequence is None else None, page)


def _by_number(ends: Ends, day: Sequence[Ends], before: Sequence[Ends], numbers: _Numbers) -> Judgement:
    """Judge a statement that has no opening balance: what it has is a number, or that of a page."""
    if numbers.has_before(ends):
        return Judgement(ends=ends, continuity="ok")
    if not before and day[0] is ends:
        return Judgement(ends=ends, continuity="first")
    previous = numbers.nearest_below(ends) if ends.sequence is not None else None
    return _broken(ends, previous, before, overlaps=False)


def _broken(ends: Ends, previous: Ends | None, before: Sequence[Ends], *, overlaps: bool) -> Judgement:
    """Judge a statement that does not follow: something lies between, or it begins before the other's end."""
    has_balances = previous is not None and None not in {ends.opening_minor, previous.closing_minor}
    has_numbers = previous is not None and None not in {ends.sequence, previous.sequence}
    if previous is None or not (has_balances or has_numbers):
        return Judgement(ends=ends, continuity="not_available")
    overlaps = overlaps or (bool(before) and _begins_within(ends, before))
    return Judgement(
        ends=ends,
        continuity="overlap" if overlaps else "gap",
        expected_minor=previous.closing_minor,
        expected_on=previous.chained_on,
        previous=previous,
    )


def _begins_within(ends: Ends, before: Sequence[Ends]) -> bool:
    """Return whether it begins before the day before had ended; by the periods, if statements name them."""
    ended_on = max((s.to_on for s in before if s.to_on is not None), default=None)
    if ends.from_on is not None and ended_on is not None:
        return ends.from_on < ended_on
    # The later day, because a period may be named generously, and no gap is to be taken for an overlap.
    begun_on = max((d for d in (ends.from_on, ends.opened_on) if d is not None), default=None)
    closed_on = before[0].chained_on
    return begun_on is not None and closed_on is not None and begun_on < closed_on
