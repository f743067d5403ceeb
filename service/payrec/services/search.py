"""Search over everything that a tenant environment has, by amount, text, reference and id."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple, get_args
from uuid import UUID

from payrec.constants.search import SEARCH_RESULTS_MAX, SEARCH_ROWS_MAX
from payrec.domain.caller import Caller
from payrec.domain.scope import today
from payrec.domain.search import Sought
from payrec.models.expected_transactions import ExpectedTransactionPublic
from payrec.models.incoming_transactions import IncomingTransactionPublic
from payrec.models.search import Found, FoundKind, ImportFound, MatchFound, SearchQuery, SearchResults
from payrec.services import expected_rows, incoming_transactions
from payrec.services.work import Work
from payrec.storage.database import Connection
from payrec.storage.expected_transactions import ExpectedTransactionStore
from payrec.storage.incoming_transactions import IncomingTransactionStore
from payrec.storage.search import SearchStore

KINDS: Final[tuple[FoundKind, ...]] = get_args(FoundKind)

_WITH_AMOUNTS: Final[tuple[FoundKind, ...]] = ("incoming", "expected")
"""Kinds that are found by their amounts; a match is found with what it joins."""


class Named(NamedTuple):
    """Transactions by their ids; those that are gone are missing."""

    lines: dict[UUID, IncomingTransactionPublic]
    items: dict[UUID, ExpectedTransactionPublic]


class SearchService:
    """Finds things of the caller's tenant environment."""

    def __init__(self, *, work: Work) -> None:
        self._work = work

    async def place(self, caller: Caller, found: UUID) -> FoundKind | None:
        """Return the kind of what has an id, if anything of the environment has it."""
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            store = SearchStore(connection, before=None, limit=1)
            for kind in KINDS:
                if await store.exists(kind, found):
                    return kind
        return None

    async def named(self, caller: Caller, *, lines: Collection[UUID] = (), items: Collection[UUID] = ()) -> Named:
        """Return the incoming transactions ``lines`` and the expected ones ``items``, as they are now."""
        if not (lines or items):
            return Named({}, {})
        day = today(caller.tenant, self._work.clock.now())
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            incoming = await IncomingTransactionStore(connection).many(list(lines)) if lines else []
            expected = await ExpectedTransactionStore(connection).many(list(items), today=day) if items else []
        return Named(
            lines={row["id"]: incoming_transactions.public_of(row) for row in incoming},
            items={row["id"]: expected_rows.public_of(row) for row in expected},
        )

    async def search(self, caller: Caller, query: SearchQuery, wanted: Sought) -> SearchResults:
        """Return the first results of each kind, or those of one kind before an id.

        A statement that the database does not end in time finds nothing: its results are ``unfinished``.
        """
        kinds = KINDS if query.kind is None else (query.kind,)
        results = SearchResults()
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            search = _Search(connection, query, wanted)
            if "incoming" in kinds:
                store = IncomingTransactionStore(connection)
                ids, state = await search.page("incoming")
                rows = await store.many(ids)
                results.incoming = Found(results=[incoming_transactions.public_of(row) for row in rows], **state)
            if "expected" in kinds:
                items = ExpectedTransactionStore(connection)
                ids, state = await search.page("expected")
                day = today(caller.tenant, self._work.clock.now())
                rows = await items.many(ids, today=day)
                results.expected = Found(results=[expected_rows.public_of(row) for row in rows], **state)
            if "matches" in kinds:
                rows, state = await search.matches()
                results.matches = Found(results=[MatchFound.model_validate(row) for row in rows], **state)
            if "imports" in kinds:
                ids, state = await search.page("imports")
                rows = await SearchStore(connection, before=None, limit=0).imports(ids)
                results.imports = Found(results=[ImportFound.model_validate(row) for row in rows], **state)
        return results


class _Search:
    """One search, which looks at one kind after the other."""

    def __init__(self, connection: Connection, query: SearchQuery, wanted: Sought) -> None:
        self._connection = connection
        self._before = query.before if query.kind is not None else None
        self._wanted = wanted
        self._looked: dict[str, tuple[list[UUID], list[UUID], bool]] = {}

    async def page(self, kind: FoundKind) -> tuple[list[UUID], dict[str, Any]]:
        """Return the ids of a page of one kind, and where it goes on."""
        first, others, unfinished = await self._look(kind, self._before)
        kept = others[: SEARCH_RESULTS_MAX - len(first)]
        if len(others) > len(kept):
            older: UUID | None = kept[-1]
        else:
            older = await self._store(self._before).end(kind, rows=SEARCH_ROWS_MAX)
        return first + kept, {"older_before": older, "unfinished": unfinished}

    async def matches(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Return the rows of matches that join what is found of either side, and where they go on."""
        sides = {kind: await self._look(kind, None) for kind in _WITH_AMOUNTS}
        store = self._store(self._before)
        rows = await store.matches(**{kind: first + others for kind, (first, others, _) in sides.items()})
        kept = rows[:SEARCH_RESULTS_MAX]
        older = kept[-1]["id"] if len(rows) > len(kept) else None
        unfinished = store.unfinished or any(side[2] for side in sides.values())
        return kept, {"older_before": older, "unfinished": unfinished}

    async def _look(self, kind: FoundKind, before: UUID | None) -> tuple[list[UUID], list[UUID], bool]:
        """Return what stands first on the first page, all else, and whether the database was too slow."""
        if kind in self._looked:
            return self._looked[kind]
        store = self._store(before)
        await store.prepare()
        whole = await store.by_whole(kind, self._wanted.text)
        found = {*whole, *await store.by_part(kind, self._wanted.text, rows=SEARCH_ROWS_MAX)}
        amount = self._wanted.amount
        if amount is not None and kind in _WITH_AMOUNTS:
            found.update(await store.by_amount(kind, amount.minors(), direction=amount.direction))
        first = whole[: SEARCH_RESULTS_MAX // 2] if before is None else []
        self._looked[kind] = first, sorted(found.difference(first), reverse=True), store.unfinished
        return self._looked[kind]

    def _store(self, before: UUID | None) -> SearchStore:
        return SearchStore(self._connection, before=before, limit=SEARCH_RESULTS_MAX + 1)
