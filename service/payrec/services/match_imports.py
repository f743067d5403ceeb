"""Files of decisions that were made before, elsewhere: checked as if people stated them here, and stored as sets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence, Set
from functools import partial
from typing import Any, BinaryIO
from uuid import UUID

from payrec.constants.match_imports import IMPORTED_AT_ONCE
from payrec.domain.approvals import Books
from payrec.domain.caller import Caller
from payrec.domain.progress import Progress
from payrec.domain.scope import TenantScope
from payrec.models.imports import ImportPublic
from payrec.services.approvals import books, limits_of, settings_of
from payrec.services.auto_runs import match_soon
from payrec.services.import_ends import count_records, end_import
from payrec.services.import_rendering import rendered_imports
from payrec.services.jobs import queue_job
from payrec.services.manual_matches import UNSCORED, Key
from payrec.services.match_import_reading import MatchImportReading
from payrec.services.match_import_rows import FoundDecision, FoundDecisions, MatchImportRows
from payrec.services.match_rivals import supersede
from payrec.services.meanwhile import meanwhile
from payrec.services.record_loading import RecordUploads
from payrec.services.work import Unit
from payrec.storage.allocations import Side
from payrec.storage.match_bulk import Allocated, MatchBulkStore
from payrec.storage.match_decisions import MatchDecisionStore
from payrec.storage.match_import_lessons import MatchImportLessonStore
from payrec.storage.match_imports import MatchImportStore
from payrec.storage.partitions import ensure_partitions
from payrec.storage.period_locks import PeriodLockStore


class MatchImports(RecordUploads[MatchImportReading, ImportPublic]):
    """Loads a file of decisions: its effect, the end of its import and of its job in one transaction."""

    async def load(
        self,
        caller: Caller,
        scope: TenantScope,
        row: dict[str, Any],
        *,
        attempt: int,
        stream: BinaryIO,
        progress: Progress,
    ) -> ImportPublic:
        """As ``RecordUploads.load``, with a place for what is stored."""
        # Its own transaction, because it locks both tables; after the first match it only looks.
        async with self._work.database.tenant(scope) as connection:
            await ensure_partitions(connection)
        return await super().load(caller, scope, row, attempt=attempt, stream=stream, progress=progress)

    def _reading(self, stream: BinaryIO, row: dict[str, Any]) -> MatchImportReading:
        return MatchImportReading(stream, row, now=self._work.clock.now(), monotonic=self._work.clock.monotonic)

    async def _load(
        self,
        caller: Caller,
        scope: TenantScope,
        row: dict[str, Any],
        reading: MatchImportReading,
        *,
        attempt: int,
        progress: Progress,
        alone: bool,  # noqa: ARG002 - whoever decides here is always alone
    ) -> ImportPublic:
        async with self._work.tenant(caller, scope, resumed=True) as unit:
            store = MatchImportStore(unit.connection)
            await store.begin()
            while piece := await reading.next_piece():
                first_id = self._work.ids.block(len(piece))
                await store.stage(*await asyncio.to_thread(reading.staged, piece, first_id))
                progress.reach(reading.counts.records)
            await store.find()
            # Only now, so that nobody waits while the file is read.
            are_new = await store.hold()
            match_ids = await self._decide(unit, scope, row, reading)
            if row["options"].get("mode") == "all_or_nothing" and reading.counts.rejected:
                raise reading.refusal()
            values = reading.values()
            if match_ids:
                locks = PeriodLockStore(unit.connection)
                first, last = UUID(min(match_ids)), UUID(max(match_ids))
                await locks.move_days(first, last, change_id=unit.change_id)
                await _take(unit, store, match_ids, are_new=are_new)
            await store.finish(values["accepted"])
            result = {"importId": str(row["id"]), "accepted": values["accepted"], "duplicates": values["duplicates"]}
            stored = await end_import(unit, row, values, reading.problems, attempt=attempt, result=result)
            public = (await rendered_imports(unit.connection, [stored]))[0]
            unit.answer(201, public, public.headers)
            if await MatchImportLessonStore(unit.connection).is_waiting(row["id"]):
                await queue_job(unit, self._work.ids.new(), "learn", {"importId": str(row["id"])})
            if match_ids:
                await match_soon(unit, self._work.ids.new())
        count_records(self._metrics, values)
        self._logger.info("import.completed", import_id=str(row["id"]), **values)
        return public

    async def _decide(
        self, unit: Unit, scope: TenantScope, row: dict[str, Any], reading: MatchImportReading
    ) -> list[str]:
        """Store the matches of what was found and can be; return their ids."""
        store, after = MatchImportStore(unit.connection), 0
        found: list[str] = []
        limits = limits_of(settings_of(scope))
        if not limits.hold:
            actor = unit.caller.principal.actor
            found += await store.add_free(
                import_id=row["id"], change_id=unit.change_id, at=unit.now, actor=actor, unscored=UNSCORED
            )
        before: MatchImportRows | None = None
        while True:
            decisions, legs = await store.decisions(after=after, limit=IMPORTED_AT_ONCE)
            if not decisions:
                await _stored(before, store)
                return found
            after = decisions[-1]["ordinal"]
            piece = await asyncio.to_thread(FoundDecisions.of, decisions, legs)
            for line, error in piece.refused:
                reading.refuse(line, error)
            known = await store.known([one.content_key for one in piece.ones])
            ends = await _ends(unit, store, piece.ids)
            if before is not None:
                known |= before.deduct(ends)
            new = _new(piece.ones, known, reading)
            rates: Books = {}
            if limits.hold:
                currencies = {end["currency"] for end in ends.values()}
                days = [end["booking_on"] for end in ends.values()]
                rates = await books(unit.connection, limits, currencies, days, maker=unit.caller.principal)
            rows = MatchImportRows(unit, row["id"], ends, limits, rates)
            # Those of the piece before are stored while these are checked.
            await meanwhile(partial(rows.write, new), _stored(before, store))
            before = rows
            for line, refusal in rows.refused:
                reading.refuse(line, refusal)
            found += [str(match["id"]) for match in rows.matches]


async def _ends(unit: Unit, store: MatchImportStore, ids: Mapping[Side, Set[UUID]]) -> dict[Key, dict[str, Any]]:
    """Return what transactions are, and what the decisions that are stored leave of them."""
    expected, incoming = list(ids[Side.EXPECTED]), list(ids[Side.INCOMING])
    rows = await MatchDecisionStore(unit.connection).ends(expected=expected, incoming=incoming)
    ends = {(Side(end["side"]), end["id"]): end for end in rows}
    for key, minor in (await store.taken([*expected, *incoming])).items():
        ends[key]["left_minor"] -= minor
    return ends


async def _stored(rows: MatchImportRows | None, store: MatchImportStore) -> None:
    if rows is not None:
        await rows.store(store)


def _new(ones: Sequence[FoundDecision], known: Set[bytes], reading: MatchImportReading) -> list[FoundDecision]:
    """Return the decisions that are not ``known`` and not there twice."""
    new, there = [], set(known)
    for one in ones:
        if one.content_key in there:
            reading.repeated()
        else:
            there.add(one.content_key)
            new.append(one)
    return new


async def _take(unit: Unit, store: MatchImportStore, match_ids: Sequence[str], *, are_new: bool) -> None:
    """Allocate what the matches take, tell of it, and supersede the proposals for which too little is left."""
    allocated = await store.take(are_new=are_new, change_id=unit.change_id, at=unit.now)
    unit.tell("match.accepted", match_ids)
    for done in allocated:
        unit.tell(f"{done.side.name.lower()}_transaction.{done.status}", done.ids)
    if await store.has_proposals():
        await _supersede(unit, allocated, match_ids)


async def _supersede(unit: Unit, allocated: Sequence[Allocated], match_ids: Sequence[str]) -> None:
    ids: dict[Side, list[str]] = {side: [] for side in Side}
    for done in allocated:
        ids[done.side] += done.ids
    decisions = MatchDecisionStore(unit.connection)
    rivals = await decisions.lock_rivals(expected=ids[Side.EXPECTED], incoming=ids[Side.INCOMING])
    if rivals:
        short = {name for names in rivals.values() for name in names}
        await supersede(unit, rivals, await MatchBulkStore(unit.connection).takers(list(short), match_ids))
