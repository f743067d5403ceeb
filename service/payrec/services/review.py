"""The queue of what a person decides: what is next, and what one of it joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final, Literal
from uuid import UUID

from payrec.domain.caller import Caller
from payrec.domain.incoming_transactions import day_number
from payrec.domain.rate_book import FX_DAYS_MAX, RateBook, pivots
from payrec.domain.review_order import Place, QueueStatus, ReviewOrder
from payrec.domain.scope import today
from payrec.errors import NotFoundError
from payrec.models.expected_transactions import ExpectedTransactionPublic
from payrec.models.incoming_transactions import IncomingTransactionPublic
from payrec.models.match_candidates import MatchCandidatePublic
from payrec.models.matches import Confidence, MatchPublic
from payrec.services import expected_rows, incoming_transactions
from payrec.services.match_candidates import MatchCandidateService
from payrec.services.match_ends import ENDS, side_of
from payrec.services.match_rendering import rendered
from payrec.services.matching_rules import tenant_rules
from payrec.services.search import SearchService
from payrec.services.validation import identifier
from payrec.services.work import Work
from payrec.storage.allocations import Side
from payrec.storage.database import Connection
from payrec.storage.expected_transactions import ExpectedTransactionStore
from payrec.storage.fx_rates import FxRateStore
from payrec.storage.incoming_transactions import IncomingTransactionStore
from payrec.storage.matches import MatchStore
from payrec.storage.review import ReviewStore

PAGE_MATCHES: Final = 50
"""Matches of a page of the queue."""

COUNTED_MAX: Final = 10_000
"""So many waiting matches are counted; of more it is only told that there are more."""

CHOICES_MAX: Final = 9
"""What else might be matched; each has a digit."""

TRANSACTIONS_SHOWN_MAX: Final = 50
"""Transactions of each side of a match that are shown beside it; each has a page of its own for the rest."""

Direction = Literal["from", "after", "before"]
"""From a match on, what comes after it, or what came before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueQuery:
    """Which part of the queue is wanted."""

    status: QueueStatus = "proposed"
    currency: str | None = None
    confidence: Confidence | None = None
    match_id: str | None = None
    """The match from which the page is told; None for the beginning."""
    direction: Direction = "from"


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A page of the queue, the most money first."""

    rows: Sequence[dict[str, Any]]
    has_more: bool
    """Whether more follow in the direction that was asked for."""
    currencies: Sequence[str]
    """Of all that waits."""
    unrated: Sequence[str]
    """Of these, those that stand behind all others because no rate near today says what they are worth."""
    count: int
    """How many wait in all, at most ``COUNTED_MAX`` and one more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewItem:
    """A match with what it joins."""

    match: MatchPublic
    lines: Sequence[IncomingTransactionPublic]
    items: Sequence[ExpectedTransactionPublic]
    line_count: int
    item_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A pair that might be matched instead: one of the match's transactions, and another for the other one."""

    candidate: MatchCandidatePublic
    """What speaks for it and against it."""
    line: IncomingTransactionPublic
    item: ExpectedTransactionPublic
    replaced: Literal["line", "item"]
    """Which of the two is not the match's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingMatch:
    """What keeps an open transaction from being looked at again: a match that waits for a person."""

    id: UUID
    status: QueueStatus


class ReviewService:
    """Reads what waits for a person in the caller's tenant environment."""

    def __init__(self, *, work: Work, candidates: MatchCandidateService, search: SearchService) -> None:
        self._work = work
        self._candidates = candidates
        self._search = search

    async def queue(self, caller: Caller, query: QueueQuery) -> Queue:
        """Return a page of the queue. A match that is not there any more still says where the page begins.

        Raises
        ------
        NotFoundError
            There never was such a match.
        """
        wanted = None if query.match_id is None else identifier(query.match_id)
        base = (await tenant_rules(self._work.database, caller.tenant.tenant_id)).matching.base_currency
        day = today(caller.tenant, self._work.clock.now())
        async with self._work.database.tenant(caller.tenant, readonly=True, snapshot=True) as connection:
            store = ReviewStore(connection)
            currencies = await store.currencies(query.status)
            place = None if wanted is None else await self._place(store, wanted, query.direction)
            # A match may be the last one of its currency that waited.
            known = currencies if place is None else [*currencies, place.currency]
            rates = await _rates(connection, known, base, day)
            order = ReviewOrder(known, base_currency=base, rates=rates, day=day_number(day))
            rows = await self._rows(store, query, order, place)
            count = await store.count(query.status, limit=COUNTED_MAX + 1)
        has_more = len(rows) > PAGE_MATCHES
        rows = rows[:PAGE_MATCHES]
        return Queue(
            rows=rows[::-1] if query.direction == "before" else rows,
            has_more=has_more,
            currencies=currencies,
            unrated=[name for name in order.unrated if name in currencies],
            count=count,
        )

    async def item(self, caller: Caller, match_id: str) -> ReviewItem:
        """Return a match with its transactions, the first ones of each side.

        Raises
        ------
        NotFoundError
        """
        wanted = identifier(match_id)
        day = today(caller.tenant, self._work.clock.now())
        async with self._work.database.tenant(caller.tenant, readonly=True, snapshot=True) as connection:
            row = await MatchStore(connection).get(wanted)
            if row is None:
                raise NotFoundError
            ids: dict[Side, dict[UUID, None]] = {side: {} for side in Side}
            for leg in row["legs"]:
                for end, _ in ENDS:
                    ids[side_of(leg, end)][leg[f"{end}_id"]] = None
            shown = {side: list(found)[:TRANSACTIONS_SHOWN_MAX] for side, found in ids.items()}
            items = await ExpectedTransactionStore(connection).many(shown[Side.EXPECTED], today=day)
            lines = await IncomingTransactionStore(connection).many(shown[Side.INCOMING])
        return ReviewItem(
            match=rendered(row),
            lines=[incoming_transactions.public_of(line) for line in lines],
            items=[expected_rows.public_of(item) for item in items],
            line_count=len(ids[Side.INCOMING]),
            item_count=len(ids[Side.EXPECTED]),
        )

    async def waiting(
        self, caller: Caller, side: Literal["expected", "incoming"], ids: Sequence[UUID]
    ) -> dict[UUID, WaitingMatch]:
        """Return the match that waits for a person, of those transactions of a side that are in one, by their ids."""
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            rows = await ReviewStore(connection).waiting(Side[side.upper()], ids)
        return {row["id"]: WaitingMatch(id=row["match_id"], status=row["status"]) for row in rows}

    async def choices(self, caller: Caller, match_id: str) -> list[Choice]:
        """Return what might be matched instead of a match's first line and first item, the likeliest first.

        Nothing while a blind review waits: it would tell what the engine thinks.

        Raises
        ------
        NotFoundError
        """
        shown = await self.item(caller, match_id)
        if shown.match.sampled and shown.match.status == "proposed":
            return []
        own = {row.id for row in (*shown.lines, *shown.items)}
        found: list[MatchCandidatePublic] = []
        for line in shown.lines[:1]:
            found += (await self._candidates.of_incoming(caller, str(line.id))).data
        for item in shown.items[:1]:
            found += (await self._candidates.of_expected(caller, str(item.id))).data
        others = [c for c in found if not {c.expected_transaction_id, c.incoming_transaction_id} <= own]
        others = sorted(others, key=lambda c: -c.score)[:CHOICES_MAX]
        lines, items = await self._search.named(
            caller,
            lines={c.incoming_transaction_id for c in others},
            items={c.expected_transaction_id for c in others},
        )
        return [
            Choice(
                candidate=c,
                line=lines[c.incoming_transaction_id],
                item=items[c.expected_transaction_id],
                replaced="item" if c.incoming_transaction_id in own else "line",
            )
            for c in others
        ]

    async def _place(self, store: ReviewStore, match_id: UUID, direction: Direction) -> Place:
        row = await store.place(match_id)
        if row is None:
            raise NotFoundError
        # What stands behind a place that is one further on has the match itself in it.
        last = UUID(int=row["id"].int + (direction == "from"))
        return Place(currency=row["currency"], amount_minor=row["amount_minor"], score=row["score"], id=last)

    async def _rows(
        self, store: ReviewStore, query: QueueQuery, order: ReviewOrder, place: Place | None
    ) -> list[dict[str, Any]]:
        backwards = query.direction == "before"
        bounds = order.beginnings() if place is None else order.bounds(place, backwards=backwards)
        bounds = [bound for bound in bounds if query.currency in {None, bound.currency}]
        rows = await store.page(
            query.status, bounds, confidence=query.confidence, backwards=backwards, limit=PAGE_MATCHES + 1
        )
        return sorted(rows, key=order.key, reverse=backwards)[: PAGE_MATCHES + 1]


async def _rates(connection: Connection, currencies: Sequence[str], base: str, day: date) -> RateBook:
    """Return the rates near a day; none where there is but one currency."""
    rates: list[Any] = []
    if len(set(currencies)) > 1:
        near = timedelta(days=FX_DAYS_MAX)
        rates = await FxRateStore(connection).among({*currencies, *pivots(base)}, day - near, day + near)
    return RateBook(rates, base_currency=base)
