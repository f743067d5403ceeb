"""The run itself: a consistent snapshot, the pure engine outside of transactions, one commit. Workers import this."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import polars as pl
import structlog

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.matching.engine import STAGES, Proposals, propose
from payrec.domain.matching.rules import BASIS_POINTS, Confidence, MatchingRules, MatchKind
from payrec.domain.progress import Progress
from payrec.domain.scope import TenantScope, today
from payrec.errors import AlreadyMatchedError
from payrec.metrics import Metrics
from payrec.models.tenants import MatchingSettings
from payrec.services.match_columns import Snapshot, Staged, snapshot_of, staged
from payrec.services.match_runs import filters_of
from payrec.services.tenants import effective_settings
from payrec.services.work import LostLeaseError, Unit, Work
from payrec.storage.jobs import JobStore
from payrec.storage.match_names import MatchNameStore
from payrec.storage.match_proposals import MatchProposalStore, Written
from payrec.storage.match_runs import MatchRunStore
from payrec.storage.partitions import ensure_partitions
from payrec.storage.tenants import TenantStore

ATTEMPTS_MAX: Final = 3
"""How often a run proposes again when what it would accept was taken meanwhile."""

DRY_RUN_PROPOSALS_MAX: Final = 1_000
"""Proposals in the answer of a dry run."""

DRY_RUN_LEGS_MAX: Final = 10_000
"""Legs of all of them together."""

STEPS: Final = len(STAGES) + 3
"""Steps of a run that its progress counts: read, the engine's stages, render, commit."""

ENGINE_ACTOR: Final = "engine"


class MatchingService:
    """Runs matching for one tenant environment."""

    def __init__(self, *, work: Work, metrics: Metrics) -> None:
        self._work = work
        self._metrics = metrics
        self._logger = structlog.get_logger("payrec.matching")

    async def run(self, caller: Caller, scope: TenantScope, job: dict[str, Any], progress: Progress) -> None:
        """Match what is open and end the job in the transaction of its effect.

        Raises
        ------
        LostLeaseError
            Another worker does it; nothing of this attempt is kept.
        AlreadyMatchedError
            ``ATTEMPTS_MAX`` times in a row, what would have been accepted was taken meanwhile.
        """
        began = self._work.clock.monotonic()
        rules = await self._rules(scope)
        if not job["params"].get("dryRun"):
            # Its own transaction, because it locks both tables; after the first run it only looks.
            async with self._work.database.tenant(scope) as connection:
                await ensure_partitions(connection)
        for attempt in range(1, ATTEMPTS_MAX + 1):
            progress.done, progress.total = 0, STEPS
            start = self._work.clock.monotonic()
            snapshot = await self._read(scope, job["params"])
            progress.done += 1
            read = self._work.clock.monotonic()
            proposals = await asyncio.to_thread(_proposed, snapshot, rules, progress)
            decided = self._work.clock.monotonic()
            try:
                written = await self._commit(
                    caller, scope, job, snapshot, proposals, rules, began=began, progress=progress
                )
            except AlreadyMatchedError:
                if attempt == ATTEMPTS_MAX:
                    raise
                self._logger.info("match_run.repeated", attempt=attempt)
                continue
            for confidence, count in written.by_confidence.items():
                self._metrics.proposals.labels(confidence=confidence).inc(count)
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

    async def _rules(self, scope: TenantScope) -> MatchingRules:
        async with self._work.database.control(readonly=True) as connection:
            settings = effective_settings(await TenantStore(connection).settings(scope.tenant_id))
        return rules_of(settings.matching)

    async def _read(self, scope: TenantScope, params: dict[str, Any]) -> Snapshot:
        expected_filter, incoming_filter = filters_of(params)
        async with self._work.database.tenant(scope, readonly=True, snapshot=True) as connection:
            store = MatchRunStore(connection)
            expected = await store.read_expected(expected_filter, today=today(scope, self._work.clock.now()))
            incoming = await store.read_incoming(incoming_filter)
            names = await MatchNameStore(connection).read()
        return await asyncio.to_thread(snapshot_of, expected, incoming, names)

    async def _commit(
        self,
        caller: Caller,
        scope: TenantScope,
        job: dict[str, Any],
        snapshot: Snapshot,
        proposals: Proposals,
        rules: MatchingRules,
        *,
        began: float,
        progress: Progress,
    ) -> Written:
        dry_run = bool(job["params"].get("dryRun"))
        filtered = bool(job["params"].get("expectedFilter") or job["params"].get("incomingFilter"))
        rendered = None
        if not dry_run:
            rendered = await asyncio.to_thread(staged, proposals, snapshot, self._work.ids, rules, filtered=filtered)
        progress.done += 1
        counts = proposals.counts
        written = Written(proposed=counts.proposed, auto_accepted=counts.auto_accepted, ambiguous=counts.ambiguous)
        async with self._work.tenant(caller, scope, resumed=True) as unit:
            if rendered is not None:
                written = await self._write(unit, job, proposals, rendered, filtered=filtered)
            result = _result(proposals, written)
            if dry_run:
                result["proposals"] = _first_proposals(proposals, snapshot)
            result["durationMs"] = round((self._work.clock.monotonic() - began) * 1000)
            finished = await JobStore(unit.connection).finish(
                job["id"], attempt=job["attempts"], now=self._work.clock.now(), result=result, done=STEPS
            )
            if not finished:
                raise LostLeaseError
            unit.record(Record(action="job.succeeded", resource_id=job["id"]))
        return written

    async def _write(
        self, unit: Unit, job: dict[str, Any], proposals: Proposals, rendered: Staged, *, filtered: bool
    ) -> Written:
        await MatchRunStore(unit.connection).stage(
            rendered.matches, rendered.legs, rendered.reasons, rendered.looked_at
        )
        written = await MatchProposalStore(unit.connection).write(
            run_id=job["id"],
            change_id=unit.change_id,
            actor=f"{ENGINE_ACTOR}:{proposals.engine_version}",
            at=unit.now,
            filtered=filtered,
        )
        done = {"proposed": written.proposed, "kept": written.kept, "superseded": written.superseded}
        unit.record(Record(action="match_run.committed", resource_id=job["id"], after=done))
        return written


def rules_of(settings: MatchingSettings) -> MatchingRules:
    """Return the engine's rules for a tenant's settings."""
    return MatchingRules(
        date_window_days_before=settings.date_window_days_before,
        date_window_days_after=settings.date_window_days_after,
        amount_tolerance_minor=settings.amount_tolerance_minor,
        amount_tolerance_basis_points=round(settings.amount_tolerance_percent * BASIS_POINTS / 100),
        require_reference=settings.require_reference,
        auto_accept=settings.auto_accept,
        auto_accept_min_confidence=settings.auto_accept_min_confidence,
        group_size_max=settings.group_size_max,
    )


def _proposed(snapshot: Snapshot, rules: MatchingRules, progress: Progress) -> Proposals:
    def stage_ended(_stage: str) -> None:
        progress.done += 1

    return propose(snapshot.expected, snapshot.incoming, rules, names=snapshot.names, observe=stage_ended)


def _result(proposals: Proposals, written: Written) -> dict[str, Any]:
    counts = proposals.counts
    return {
        "counts": {
            "expected": counts.expected,
            "incoming": counts.incoming,
            "proposed": written.proposed,
            "autoAccepted": written.auto_accepted,
            "ambiguous": written.ambiguous,
            "unmatched": counts.open_incoming,
        },
        "engineVersion": proposals.engine_version,
    }


def _first_proposals(proposals: Proposals, snapshot: Snapshot) -> list[dict[str, Any]]:
    matches = proposals.matches.filter(pl.col("size").cum_sum() <= DRY_RUN_LEGS_MAX).head(DRY_RUN_PROPOSALS_MAX)
    legs: list[list[dict[str, Any]]] = [[] for _ in range(matches.height)]
    for leg in proposals.legs.filter(pl.col("proposal") < matches.height).iter_rows(named=True):
        legs[leg["proposal"]].append(
            {
                "expectedTransactionId": snapshot.expected_ids[leg["expected"]],
                "incomingTransactionId": snapshot.incoming_ids[leg["incoming"]],
                "amountMinor": leg["amount_minor"],
            }
        )
    return [
        {
            "kind": MatchKind(row["kind"]).name.lower(),
            "legs": of_match,
            "amountMinor": row["amount_minor"],
            "confidence": Confidence(row["confidence"]).name.lower(),
            "score": row["score_milli"] / 1000,
            "autoAccept": row["auto"],
        }
        for row, of_match in zip(matches.iter_rows(named=True), legs, strict=True)
    ]
