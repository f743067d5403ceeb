"""Numbers postings: what was decided becomes double entries for the books, after its commit, so that nobody waits.

Who numbers follows the feed of events, in which every decision is once and the decisions about one match in their
order. Codes are those of the settings at that moment, and a posting keeps them.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import structlog

from payrec.constants.postings import POSTING_LEGS_AT_ONCE, POSTING_PLACES_AT_ONCE, POSTING_STEPS_PER_TURN
from payrec.domain.posting_ledger import Ledger, Posted, Returned
from payrec.domain.postings import Codes
from payrec.domain.scope import TenantScope
from payrec.models.tenants import PostingSettings
from payrec.services.posting_facts import (
    LINE_PLACE,
    Facts,
    codes_of,
    is_elsewhere,
    match_of,
    returned_of,
    row_of,
    stored_of,
)
from payrec.services.tenant_settings import effective_settings
from payrec.storage.database import Connection, Database
from payrec.storage.period_locks import PeriodLockStore
from payrec.storage.posting_sealing import (
    ACCEPTED,
    CLASSIFIED,
    REJECTED,
    REOPENED,
    RESTORED,
    REVERSED,
    UPDATED,
    Decision,
    Feed,
    PostingSealingStore,
)
from payrec.storage.sealing import SealingStore
from payrec.storage.tenants import TenantStore


class PostingSealer:
    """Numbers postings of tenant environments, each alone."""

    def __init__(self, *, database: Database) -> None:
        self._database = database
        self._logger = structlog.get_logger("payrec.postings")

    async def number(self, scope: TenantScope) -> bool:
        """Post what has its place in the feed of events; return whether that was all.

        Step by step, each in a transaction of its own: a crash between two leaves what is not posted where it is. It
        is not all when there is much, or when somebody else seals events or numbers postings here: ask again.
        """
        settings: PostingSettings | None = None
        steps = count = 0
        while steps < POSTING_STEPS_PER_TURN:
            async with self._database.tenant(scope) as connection:
                store = PostingSealingStore(connection)
                # First what nobody but who numbers reads, so that nobody waits in a circle with who locks everything.
                feed = await store.feed()
                if feed.position >= feed.head:
                    return True
                if not await SealingStore(connection).hold():
                    return False
                feed = await store.feed()
                span = await _next(store, feed)
                if settings is not None or not span.decisions:
                    new = await _Step(connection, scope, settings).take(span, feed)
                    steps, count = steps + 1, count + new
                    # Whoever seals more, which nobody does meanwhile, asks again.
                    if span.through >= feed.head:
                        self._logger.debug("postings.numbered", count=count)
                        return True
                    continue
            # Most events are no decisions, and most environments make none: only who posts reads the settings.
            settings = await self._settings(scope)
        return False

    async def _settings(self, scope: TenantScope) -> PostingSettings:
        async with self._database.control(readonly=True) as connection:
            return effective_settings(await TenantStore(connection).settings(scope.tenant_id)).posting


class _Span(NamedTuple):
    """The next places of the feed of events."""

    through: int
    decisions: Sequence[Decision]


async def _next(store: PostingSealingStore, feed: Feed) -> _Span:
    """Return as many places as one transaction takes."""
    through = min(feed.position + POSTING_PLACES_AT_ONCE, feed.head)
    if through <= feed.position:
        return _Span(through, ())
    decisions = await store.decisions(after=feed.position, through=through)
    legs = 0
    for place, decision in enumerate(decisions):
        legs += decision.legs
        if place and legs > POSTING_LEGS_AT_ONCE:
            return _Span(decision.position - 1, decisions[:place])
    return _Span(through, decisions)


class _Step:
    """What one transaction posts."""

    def __init__(self, connection: Connection, scope: TenantScope, settings: PostingSettings | None) -> None:
        self._connection = connection
        self._store = PostingSealingStore(connection)
        self._scope = scope
        self._settings = settings

    async def take(self, span: _Span, feed: Feed) -> int:
        """Post places of the feed of events; return how many postings these made."""
        new: list[Posted] = []
        if span.decisions and self._settings is not None:
            new = await self._posted(span.decisions, feed.sequence, self._settings)
        if new:
            rows = await asyncio.to_thread(lambda: [row_of(posted) for posted in new])
            await self._store.add(rows)
        await self._store.move(sequence=feed.sequence + len(new), position=span.through)
        return len(new)

    async def _posted(self, decisions: Sequence[Decision], sequence: int, settings: PostingSettings) -> list[Posted]:
        ids: dict[str, list[UUID]] = defaultdict(list)
        for decision in decisions:
            ids[decision.type].append(decision.resource_id)
        matches = await self._store.matches([*ids[ACCEPTED], *ids[REVERSED], *ids[REJECTED]])
        # What was decided elsewhere is in the books already; but they have to be told when it is taken back.
        taken_back = [match_id for match_id in ids[REVERSED] if match_id in matches]
        elsewhere = {match_id for match_id in taken_back if is_elsewhere(matches[match_id])}
        own = [match_id for match_id in ids[ACCEPTED] if match_id in matches and not is_elsewhere(matches[match_id])]
        # What came back of a match before it was approved is posted with it, and stays taken when the match ends.
        decided = {*own, *ids[REVERSED], *ids[REJECTED]} & matches.keys()
        returned = [match_id for match_id in decided if matches[match_id]["returned_minor"]]
        legs = await self._legs([*{*own, *taken_back, *returned}])
        paid = [leg[LINE_PLACE] for match_id in returned for leg in legs[match_id] if leg[LINE_PLACE] is not None]
        links = await self._store.links(ids[UPDATED], match_ids=returned, line_ids=paid)
        links += await self._store.ended_links(ids[REOPENED])
        elsewhere |= {row["match_id"] for row in links if is_elsewhere(row)}
        lines = await self._store.lines([d for d in decisions if d.type in {CLASSIFIED, RESTORED}])
        sources = {*ids[REVERSED], *ids[RESTORED]}
        sources |= {row[name] for row in links for name in ("match_id", "reversal_id")} - {None}
        facts = Facts(
            scope=self._scope,
            matches=matches,
            legs={match_id: legs[match_id] for match_id in [*own, *taken_back]},
            lines=lines,
            returned=await self._returned(links),
        )
        if parts := await asyncio.to_thread(facts.in_parts):
            # What is kept of a part of a line is told by what was kept of its other parts.
            takers = await self._store.takers(parts)
            elsewhere |= {row["id"] for row in takers if is_elsewhere(row)}
            sources |= {*parts, *(row["id"] for row in takers)}
        stored = await self._store.posted(list(sources))
        codes = await self._codes({row["codes_version"] for row in stored}, settings)
        ledger = Ledger(codes=codes, version=max(codes), sequence=sequence, stored=[stored_of(row) for row in stored])
        if elsewhere:
            matches |= await self._store.matches([match_id for match_id in elsewhere if match_id not in matches])
            for match_id, known in (await self._legs(list(elsewhere))).items():
                ledger.know(match_id, *match_of(matches[match_id], known), matches[match_id]["effective_on"])
        await asyncio.to_thread(facts.post, decisions, ledger)
        return ledger.new

    async def _legs(self, match_ids: Sequence[UUID]) -> dict[UUID, list[tuple[Any, ...]]]:
        legs: dict[UUID, list[tuple[Any, ...]]] = defaultdict(list)
        for leg in await self._store.legs(match_ids) if match_ids else ():
            legs[leg[0]].append(leg)
        return legs

    async def _codes(self, versions: set[int], settings: PostingSettings) -> dict[int, Codes]:
        """Return codes by version, the present ones as the last; they are kept if they are others than before."""
        known = await self._store.codes(versions)
        said = settings.model_dump(mode="json", by_alias=True)
        last = max(known, default=0)
        if known.get(last) != said:
            last += 1
            await self._store.add_codes(last, said)
            known[last] = said
        return {
            version: codes_of(PostingSettings.model_validate(stored))
            for version, stored in known.items()
            if version in versions or version == last
        }

    async def _returned(self, links: Iterable[Mapping[str, Any]]) -> list[Returned]:
        """Return what each change has linked of each return to each match or to what was open, or ended of that."""
        grouped: dict[tuple[UUID | None, ...], dict[int, Mapping[str, Any]]] = {}
        for row in links:
            group = tuple(row[name] for name in ("change_id", "reversal_id", "match_id", "until_change_id"))
            grouped.setdefault(group, {})[row["ordinal"]] = row
        if not grouped:
            return []
        rows = [row for group in grouped.values() for row in group.values()]
        accounts = {row[name] for row in rows for name in ("account", "back_account")}
        open_days = await PeriodLockStore(self._connection).open_days(accounts)
        return [
            returned_of(list(group.values()), open_days)
            for _, group in sorted(grouped.items(), key=lambda item: [str(one) for one in item[0]])
        ]
