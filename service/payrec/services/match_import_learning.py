"""Learns of decisions that a file has told of, in a job of its own: no run waits for it. Workers import this."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import structlog

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.matching.engine import propose
from payrec.domain.progress import Progress
from payrec.domain.rate_book import FX_DAYS_MAX
from payrec.domain.scope import TenantScope, today
from payrec.services.learning import LearningService, known_of, ordinals_of, rejected_of
from payrec.services.lessons import of_decisions
from payrec.services.match_columns import rates_frame
from payrec.services.match_import_lessons import lessons_of, past
from payrec.services.matching_rules import tenant_rules
from payrec.services.work import LostLeaseError, Work
from payrec.storage.alias_lessons import AliasLessonStore
from payrec.storage.fx_rates import FxRateStore
from payrec.storage.jobs import JobStore
from payrec.storage.match_import_lessons import MatchImportLessonStore

STEPS: Final = 3
"""Steps that the progress counts: the decisions are read, compared, and what they teach is in force."""


class MatchImportLearning:
    """Learns names and weights of what was decided elsewhere."""

    def __init__(self, *, work: Work, learning: LearningService) -> None:
        self._work = work
        self._learning = learning
        self._logger = structlog.get_logger("payrec.learning")

    async def run(self, caller: Caller, scope: TenantScope, job: dict[str, Any], progress: Progress) -> None:
        """Learn of an import and end the job. What was learned by an attempt before stays learned.

        Raises
        ------
        LostLeaseError
            Another worker does it, or it was cancelled.
        StoppedError
            The keeper of ``progress`` said so.
        """
        progress.done, progress.total = 0, STEPS
        result = await self._learn(caller, scope, UUID(job["params"]["importId"]), progress)
        await self._learning.learn(caller, scope, at_once=True)
        async with self._work.tenant(caller, scope, resumed=True) as unit:
            store = JobStore(unit.connection)
            if not await store.finish(job["id"], attempt=job["attempts"], now=unit.now, result=result, done=STEPS):
                raise LostLeaseError
            unit.record(Record(action="job.succeeded", resource_id=job["id"]))

    async def _learn(self, caller: Caller, scope: TenantScope, import_id: UUID, progress: Progress) -> dict[str, Any]:
        """Compare the decisions with what a run would have proposed before them, and keep what that says."""
        rules = (await tenant_rules(self._work.database, scope.tenant_id)).matching
        async with self._work.database.tenant(scope, readonly=True, snapshot=True) as connection:
            found = await past(connection, import_id, today=today(scope, self._work.clock.now()))
            if found is None:
                return {"matches": 0, "proposals": 0}
            known = await known_of(connection)
            rates = rates_frame(await FxRateStore(connection).read(days=FX_DAYS_MAX))
            said = await AliasLessonStore(connection).read_imported(found.match_ids)
        progress.reach(1)
        snapshot, rejected = found.snapshot, rejected_of(known)
        proposals = await asyncio.to_thread(
            propose,
            snapshot.expected,
            snapshot.incoming,
            replace(rules, calibration=known.calibration, aliases=known.aliases),
            rejected=None if rejected.is_empty() else ordinals_of(rejected, snapshot),
            names=snapshot.names,
            rates=rates,
        )
        lessons = await asyncio.to_thread(lessons_of, proposals, found)
        names = await asyncio.to_thread(of_decisions, said, self._work.ids.new)
        progress.reach(2)
        learned = {"matches": len(found.match_ids), "proposals": len(lessons)}
        async with self._work.tenant(caller, scope, resumed=True) as unit:
            await MatchImportLessonStore(unit.connection).keep(lessons, import_id, change_id=unit.change_id)
            await self._learning.teach(unit, names.lessons, [])
            unit.record(Record(action="imported_matches.learned", resource_id=import_id, after=learned))
        self._logger.info("imported_matches.learned", import_id=str(import_id), **learned)
        return learned
