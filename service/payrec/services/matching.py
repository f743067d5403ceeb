"""The run itself: a consistent snapshot, the pure engine outside of transactions, one commit. Workers import this."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import polars as pl
import structlog

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.disk import disk_room
from payrec.domain.matching.block import BeyondBudgetError
from payrec.domain.matching.engine import STAGES, Proposals, propose
from payrec.domain.matching.reasons import by_reason
from payrec.domain.matching.rules import MatchingRules, Reason
from payrec.domain.principal import ENGINE_ACTOR_PREFIX
from payrec.domain.progress import Progress
from payrec.domain.rate_book import FX_DAYS_MAX
from payrec.domain.scope import TenantScope, today
from payrec.errors import AlreadyMatchedError, PayrecError
from payrec.metrics import Metrics
from payrec.models.incoming_transactions import IncomingTransactionQuery
from payrec.services.auto_runs import repeat_if_asked
from payrec.services.closed_items import read_closed
from payrec.services.doubts import doubted
from payrec.services.exports import kept_export, measured
from payrec.services.incoming_states import classify_lines
from payrec.services.learning import LearningService, ordinals_of, seen_of
from payrec.services.match_approvals import waiting
from payrec.services.match_columns import (
    Snapshot,
    advices_frame,
    expected_frame,
    incoming_frame,
    named,
    rates_frame,
    whole_snapshot,
)
from payrec.services.match_commit import MatchCommit, Written, own_partitions
from payrec.services.match_dry_runs import PROPOSALS_FILE, first_proposals, write_proposals
from payrec.services.match_increments import MatchIncrements
from payrec.services.match_names import kept_names, names_read
from payrec.services.match_runs import filters_of
from payrec.services.match_staging import Draft, Stamp, draft_of
from payrec.services.matching_rules import RunRules, tenant_rules
from payrec.services.meanwhile import FEW, aside
from payrec.services.open_keys import remake_keys
from payrec.services.returns import Returned, ReturnService
from payrec.services.returns import Seen as SeenReturns
from payrec.services.rule_classifications import classifications
from payrec.services.scratch import scratch_folder
from payrec.services.work import LostLeaseError, Unit, Work
from payrec.storage.allocations import Side
from payrec.storage.database import Connection
from payrec.storage.fx_rates import FxRateStore
from payrec.storage.incoming_states import Decision
from payrec.storage.jobs import JobStore
from payrec.storage.match_runs import MatchRunStore
from payrec.storage.open_keys import OpenKeyStore
from payrec.storage.partitions import ensure_partitions, has_partitions
from payrec.storage.remittance_advices import RemittanceAdviceStore

ATTEMPTS_MAX: Final = 3
"""How often a run proposes again when what it would accept was taken meanwhile."""

STEPS: Final = len(STAGES) + 3
"""Steps of a run that its progress counts: read, the engine's stages, render, commit."""


class MatchingService:
    """Runs matching for one tenant environment."""

    def __init__(self, *, work: Work, metrics: Metrics, returns: ReturnService, learning: LearningService) -> None:
        self._work = work
        self._returns = returns
        self._learning = learning
        self._increments = MatchIncrements(database=work.database)
        self._metrics = metrics
        self._logger = structlog.get_logger("payrec.matching")

    async def run(self, caller: Caller, scope: TenantScope, job: dict[str, Any], progress: Progress) -> None:
        """Match what is open and end the job in the transaction of its effect.

        Raises
        ------
        LostLeaseError
            Another worker does it, or it was cancelled; nothing of this attempt is kept.
        StoppedError
            The keeper of ``progress`` said so.
        AlreadyMatchedError
            ``ATTEMPTS_MAX`` times in a row, what would have been accepted was taken meanwhile.
        """
        began = self._work.clock.monotonic()
        given = await tenant_rules(self._work.database, scope.tenant_id, instead=job["params"].get("settings"))
        changes = not job["params"].get("dryRun")
        returns = SeenReturns()
        async with self._work.database.tenant(scope, readonly=True) as connection:
            is_first = changes and not await has_partitions(connection)
            learned = await seen_of(connection, learning=changes)
            are_stale = await OpenKeyStore(connection).are_stale()
            if changes:
                # Linked before the run reads, so that it matches what they reopen.
                returns = await self._returns.look(connection, filters_of(job["params"])[1])
        if is_first:
            # Its own transaction, because it locks both tables.
            async with self._work.database.tenant(scope) as connection:
                await ensure_partitions(connection)
        if are_stale:
            await remake_keys(self._work.database, scope)
        rules, rejected = await self._learning.taught(caller, scope, given.matching, learned)
        returned = await self._returns.link_open(caller, scope, returns)
        for attempt in range(1, ATTEMPTS_MAX + 1):
            progress.done, progress.total = 0, STEPS
            start = self._work.clock.monotonic()
            snapshot, rates = await self._read(scope, job["params"], rules)
            progress.reach(progress.done + 1)
            read = self._work.clock.monotonic()
            try:
                proposals = await asyncio.to_thread(_proposed, snapshot, rates, rejected, rules, progress)
            except BeyondBudgetError:
                # Only together with everything else is it known what has to be left out.
                snapshot, rates = await self._read_whole(scope, job["params"])
                progress.reach(1)
                proposals = await asyncio.to_thread(_proposed, snapshot, rates, rejected, rules, progress)
            proposals = _told(_counted(proposals, snapshot), snapshot, returned.reasons)
            proposals = await doubted(self._work.database, scope, job["params"], snapshot, proposals, rules)
            decided = self._work.clock.monotonic()
            keeping = asyncio.create_task(self._keep_names(scope, job, snapshot, proposals))
            try:
                written = await self._commit(
                    caller, scope, job, snapshot, proposals, replace(given, matching=rules), returned, began, progress
                )
            except AlreadyMatchedError:
                if attempt == ATTEMPTS_MAX:
                    raise
                self._logger.info("match_run.repeated", attempt=attempt)
                continue
            finally:
                await asyncio.wait([keeping])
            for confidence, count in written.by_confidence.items():
                self._metrics.proposals.labels(confidence=confidence).inc(count)
            self._metrics.match_pairs.inc(proposals.counts.candidates)
            self._metrics.auto_accepted.inc(0 if job["params"].get("dryRun") else written.auto_accepted)
            self._logger.info(
                "match_run.finished",
                expected=snapshot.expected.height,
                incoming=snapshot.incoming.height,
                candidates=proposals.counts.candidates,
                proposed=written.proposed,
                auto_accepted=written.auto_accepted,
                kept=written.kept,
                superseded=written.superseded,
                conflicts=written.conflicts,
                attempt=attempt,
                read_ms=round((read - start) * 1000),
                engine_ms=round((decided - read) * 1000),
                commit_ms=round((self._work.clock.monotonic() - decided) * 1000),
            )
            return

    async def _keep_names(
        self, scope: TenantScope, job: dict[str, Any], snapshot: Snapshot, proposals: Proposals
    ) -> None:
        if job["params"].get("dryRun"):
            return
        try:
            await self._increments.keep_names(scope, snapshot, proposals)
        except PayrecError:
            # Nothing rests on it.
            self._logger.warning("match_run.names_not_kept")

    async def _read(
        self, scope: TenantScope, params: dict[str, Any], rules: MatchingRules
    ) -> tuple[Snapshot, pl.DataFrame]:
        # Where a run has few lines, what they may reach is looked up.
        return await self._increments.read(scope, params, rules) or await self._read_whole(scope, params)

    async def _read_whole(self, scope: TenantScope, params: dict[str, Any]) -> tuple[Snapshot, pl.DataFrame]:
        expected_filter, incoming_filter = filters_of(params)
        database = self._work.database
        async with (
            database.tenant(scope, readonly=True, snapshot=True) as connection,
            database.beside(connection, scope) as other,
        ):
            # Two servers' processes read at the same time, what both see at one instant.
            reading = asyncio.create_task(self._read_incoming(other, incoming_filter))
            try:
                if other is connection:
                    await asyncio.shield(reading)
                data = await MatchRunStore(connection).read_expected(
                    expected_filter, today=today(scope, self._work.clock.now())
                )
                horizon = await MatchRunStore(connection).horizon()
                expected = await asyncio.to_thread(expected_frame, data)
                del data
                kept = await kept_names(connection)
                names = [await names_read(connection, Side.EXPECTED, named(expected, kept["key"]))]
            finally:
                await asyncio.wait([reading])
            incoming, rates = reading.result()
            advices = advices_frame(await RemittanceAdviceStore(other).read_open())
            closed = await read_closed(other, incoming, expected)
            others = pl.concat([expected["name_key"], kept["key"]])
            names.append(await names_read(other, Side.INCOMING, named(incoming, others)))
        snapshot = await asyncio.to_thread(whole_snapshot, expected, incoming, kept, names, horizon, closed=closed)
        return replace(snapshot, advices=advices), rates

    async def _read_incoming(
        self, connection: Connection, query: IncomingTransactionQuery | None
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        rates = await FxRateStore(connection).read(days=FX_DAYS_MAX)
        data = await MatchRunStore(connection).read_incoming(query)
        return await asyncio.to_thread(incoming_frame, data), rates_frame(rates)

    async def _commit(
        self,
        caller: Caller,
        scope: TenantScope,
        job: dict[str, Any],
        snapshot: Snapshot,
        proposals: Proposals,
        given: RunRules,
        returned: Returned,
        began: float,
        progress: Progress,
    ) -> Written:
        if job["params"].get("dryRun"):
            return await self._told_only(caller, scope, job, snapshot, proposals, given, began, progress)
        decisions = await self._classifications(scope, job, given, proposals, snapshot)
        filtered = [side for side in ("expected", "incoming") if job["params"].get(f"{side}Filter")]
        few = proposals.matches.height <= FEW
        draft = await aside(draft_of, proposals, snapshot, self._work.ids, given.matching, few=few)
        draft = await waiting(self._work.database, scope, draft, given.limits)
        own = await own_partitions(self._work, scope, draft)
        progress.reach(progress.done + 1)
        # What few lines have is found by indexes, whatever it is.
        async with self._work.tenant(
            caller, scope, resumed=True, planned_once=few and snapshot.known.is_of_part
        ) as unit:
            commit = MatchCommit(unit, proposals, snapshot, own=own, filtered=filtered)
            written = await self._write(unit, job, proposals, draft, commit, given)
            linked = await self._returns.link_seen(unit, returned.waiting)
            await self._learning.remember(unit, job["id"], proposals, snapshot)
            classified = len(await classify_lines(unit, decisions)) if decisions else 0
            proposals = _linked(proposals, [returned.reasons[found] for found in linked])
            await self._finish(unit, job, _result(proposals, written, given, classified), began, again=bool(linked))
        return written

    async def _told_only(
        self,
        caller: Caller,
        scope: TenantScope,
        job: dict[str, Any],
        snapshot: Snapshot,
        proposals: Proposals,
        given: RunRules,
        began: float,
        progress: Progress,
    ) -> Written:
        """Answer what a run would do; where not all fits into the answer, all of it is a file."""
        counts = proposals.counts
        written = Written(proposed=counts.proposed, auto_accepted=counts.auto_accepted, ambiguous=counts.ambiguous)
        decisions = await self._classifications(scope, job, given, proposals, snapshot)
        result = _result(proposals, written, given, len(decisions))
        result["proposals"] = await asyncio.to_thread(first_proposals, proposals, snapshot)
        progress.reach(progress.done + 1)
        if len(result["proposals"]) == proposals.matches.height:
            async with self._work.tenant(caller, scope, resumed=True) as unit:
                await self._finish(unit, job, result, began)
            return written
        with disk_room(), scratch_folder() as directory:
            path = directory / "proposals.csv"
            rows = await asyncio.to_thread(write_proposals, proposals, snapshot, path)
            size, sha256 = await asyncio.to_thread(measured, path)
            with path.open("rb") as stream:
                kept = self._work.blobs.written(scope, stream)
                async with kept as blob, self._work.tenant(caller, scope, resumed=True) as unit:
                    about = {"resource": PROPOSALS_FILE, "format": "csv", "rows": rows, "bytes": size, "sha256": sha256}
                    export = await kept_export(unit, blob, self._work.ids.new(), {**about, "job_id": job["id"]})
                    result["proposalsUrl"] = export.url
                    result["proposalsExpireAt"] = export.model_dump(mode="json")["expires_at"]
                    await self._finish(unit, job, result, began)
        return written

    async def _classifications(
        self, scope: TenantScope, job: dict[str, Any], given: RunRules, proposals: Proposals, snapshot: Snapshot
    ) -> list[Decision]:
        if job["params"].get("expectedFilter"):
            # An item that was not looked at may be what a line pays.
            return []
        return await classifications(self._work.database, scope, given.classifiers, proposals, snapshot)

    async def _finish(
        self, unit: Unit, job: dict[str, Any], result: dict[str, Any], began: float, *, again: bool = False
    ) -> None:
        """End the job in the transaction of its effect; ``again`` where it has opened what it did not look at.

        Raises
        ------
        LostLeaseError
        """
        result["durationMs"] = round((self._work.clock.monotonic() - began) * 1000)
        ended = await JobStore(unit.connection).finish(
            job["id"], attempt=job["attempts"], now=self._work.clock.now(), result=result, done=STEPS
        )
        if ended is None:
            raise LostLeaseError
        unit.record(Record(action="job.succeeded", resource_id=job["id"]))
        await repeat_if_asked(unit, ended, self._work.ids.new(), again=again)

    async def _write(
        self, unit: Unit, job: dict[str, Any], proposals: Proposals, draft: Draft, commit: MatchCommit, given: RunRules
    ) -> Written:
        actor = f"{ENGINE_ACTOR_PREFIX}{proposals.engine_version}"
        written = await commit.write(draft, Stamp(run_id=job["id"], change_id=unit.change_id, actor=actor, at=unit.now))
        done = {"proposed": written.proposed, "kept": written.kept, "superseded": written.superseded}
        done |= {"rulesVersion": given.version}
        unit.record(Record(action="match_run.committed", resource_id=job["id"], after=done))
        return written


def _proposed(
    snapshot: Snapshot, rates: pl.DataFrame, rejected: pl.DataFrame, rules: MatchingRules, progress: Progress
) -> Proposals:
    def stage_ended(_stage: str) -> None:
        progress.reach(progress.done + 1)

    refused = ordinals_of(rejected, snapshot) if not rejected.is_empty() else None
    return propose(
        snapshot.expected,
        snapshot.incoming,
        rules,
        rejected=refused,
        names=snapshot.names,
        rates=rates,
        advices=snapshot.advices,
        known=snapshot.known,
        observe=stage_ended,
    )


def _counted(proposals: Proposals, snapshot: Snapshot) -> Proposals:
    """Count the items that no line reaches, and that were not read for it, among those that were looked at."""
    if snapshot.items_open is None:
        return proposals
    return replace(proposals, counts=replace(proposals.counts, expected=snapshot.items_open))


def _told(proposals: Proposals, snapshot: Snapshot, reasons: dict[UUID, Reason]) -> Proposals:
    """Give returns the reasons for which they were not linked."""
    if not reasons:
        return proposals
    said = pl.DataFrame(
        {"id": [name.bytes for name in reasons], "said": [reason.value for reason in reasons.values()]},
        schema={"id": pl.Binary, "said": pl.Int8},
    )
    places = (
        snapshot.incoming_ids.to_frame("id").with_row_index("ordinal").with_columns(pl.col("ordinal").cast(pl.Int32))
    )
    found = proposals.open_incoming.join(
        places.join(said, on="id").select("ordinal", "said"), on="ordinal", how="left", maintain_order="left"
    ).select("ordinal", pl.coalesce("said", "reason").alias("reason"), "nearest", "days_outside", "difference_minor")
    counts = replace(proposals.counts, open_incoming=by_reason(found))
    return replace(proposals, open_incoming=found, counts=counts)


def _linked(proposals: Proposals, reasons: Iterable[Reason]) -> Proposals:
    """Leave returns that were linked at last, for these reasons open before, out of what is told to be open."""
    left = dict(proposals.counts.open_incoming)
    for reason in reasons:
        left[reason.code] -= 1
    return replace(
        proposals, counts=replace(proposals.counts, open_incoming={code: n for code, n in left.items() if n})
    )


def _result(proposals: Proposals, written: Written, given: RunRules, classified: int) -> dict[str, Any]:
    counts = proposals.counts
    return {
        "counts": {
            "expected": counts.expected,
            "incoming": counts.incoming,
            "proposed": written.proposed,
            "autoAccepted": written.auto_accepted,
            "ambiguous": written.ambiguous,
            "unmatched": counts.open_incoming,
            **({"classified": classified} if given.classifiers else {}),
        },
        "engineVersion": proposals.engine_version,
        "rulesVersion": given.version,
    }
