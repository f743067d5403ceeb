"""Measures what all processes share: the queues whenever somebody asks, and every tenant environment now and then."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import structlog

from payrec.constants.upkeep import CENSUS_KEPT_SECONDS, MEASURED_ANEW_SECONDS, MEASURING_SECONDS_MAX
from payrec.domain.scope import TenantScope, today
from payrec.errors import PayrecError
from payrec.metrics import Metrics
from payrec.services.work import Work
from payrec.shared_gauges import Figures
from payrec.storage.census import CensusStore
from payrec.storage.queues import QueueStore
from payrec.storage.tenants import TenantStore, scope_of


class Measurement:
    """Keeps the gauges of what is shared; one for the process."""

    def __init__(self, *, work: Work, metrics: Metrics) -> None:
        self._work = work
        self._metrics = metrics
        self._looked_at: float | None = None
        self._counted_at: float | None = None
        self._turn = asyncio.Lock()
        self._logger = structlog.get_logger("payrec.metrics")

    async def look(self) -> None:
        """Measure the queues, unless that was done a moment ago, and take back a census that is too old.

        Never fails, and never for long: what cannot be measured in time is not shown.
        """
        async with self._turn:
            now = self._work.clock.monotonic()
            if self._counted_at is not None and now - self._counted_at >= CENSUS_KEPT_SECONDS:
                self._metrics.census.clear()
                self._counted_at = None
            if self._looked_at is not None and now - self._looked_at < MEASURED_ANEW_SECONDS:
                return
            try:
                async with asyncio.timeout(MEASURING_SECONDS_MAX):
                    self._metrics.queues.show(await self._queues())
            except (PayrecError, TimeoutError) as error:
                self._metrics.queues.clear()
                self._logger.warning("metrics.queues_not_measured", error=type(error).__name__)
            self._looked_at = now

    async def take_census(self) -> int:
        """Count what is open in every tenant environment, one after the other; return how many those were.

        One that fails is left out, and told in the log.
        """
        async with self._work.database.control(readonly=True) as connection:
            rows = await TenantStore(connection).scopes()
        census = _Census(self._work.clock.now())
        for scope in (scope_of(row) for row in rows if row["revision"] is not None):
            try:
                await self._count(scope, census)
            except Exception:
                self._logger.exception("metrics.not_counted", environment_id=str(scope.environment_id))
        self._metrics.census.show(census.figures())
        self._counted_at = self._work.clock.monotonic()
        return census.environments

    async def _queues(self) -> Figures:
        now = self._work.clock.now()
        async with self._work.database.control(readonly=True) as connection:
            store = QueueStore(connection)
            unsealed, due = await store.unsealed(), await store.due_webhooks()
        async with self._work.database.queue() as connection:
            wake_ups = await QueueStore(connection).wake_ups()
        ages = [unsealed["control_seconds"] or 0.0, age_of(unsealed["oldest_change_id"], now=now)]
        return {
            "payrec_queue_wakeups": {(row["kind"],): row["count"] for row in wake_ups},
            "payrec_queue_age_seconds": {(row["kind"],): row["seconds"] for row in wake_ups},
            "payrec_events_unsealed": {(): unsealed["count"]},
            "payrec_events_unsealed_age_seconds": {(): max(ages)},
            "payrec_webhooks_due": {(): due["count"]},
            "payrec_webhooks_due_age_seconds": {(): due["seconds"] or 0.0},
        }

    async def _count(self, scope: TenantScope, census: _Census) -> None:
        async with self._work.database.tenant(scope, readonly=True) as connection:
            store = CensusStore(connection)
            found = await store.open_rows(today=today(scope, self._work.clock.now()))
            webhooks, sources, jobs = await store.webhooks(), await store.data_sources(), await store.jobs()
        # All of it or nothing.
        census.add(found, webhooks, sources, jobs)


class _Census:
    """The sums and the greatest ages of all that was counted."""

    def __init__(self, now: datetime) -> None:
        self.environments = 0
        self._now = now
        self._sums: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
        self._ages: dict[str, dict[tuple[str, ...], float]] = {
            "payrec_open_age_seconds": {("expected",): 0.0, ("incoming",): 0.0},
            "payrec_audit_unsealed_age_seconds": {(): 0.0},
            "payrec_jobs_open_age_seconds": {},
        }

    def add(
        self, found: dict[str, Any], webhooks: dict[str, Any], sources: dict[str, int], jobs: list[dict[str, Any]]
    ) -> None:
        """Add one tenant environment."""
        self.environments += 1
        self._sums["payrec_overdue_transactions"][()] += found["overdue"]
        for side in ("expected", "incoming"):
            self._sums["payrec_open_transactions"][(side,)] += found[side]
            self._oldest("payrec_open_age_seconds", (side,), age_of(found[f"oldest_{side}_id"], now=self._now))
        self._sums["payrec_audit_unsealed_changes"][()] += found["unsealed"]
        self._oldest("payrec_audit_unsealed_age_seconds", (), age_of(found["oldest_unsealed_id"], now=self._now))
        for state in ("active", "failing", "disabled"):
            self._sums["payrec_webhooks"][(state,)] += webhooks[state]
        self._sums["payrec_webhook_backlog_events"][()] += webhooks["backlog"]
        for state in ("ok", "failing", "disabled"):
            self._sums["payrec_data_sources"][(state,)] += sources.get(state, 0)
        for row in jobs:
            labels = (row["kind"], row["status"])
            self._sums["payrec_jobs_open"][labels] += row["count"]
            self._oldest("payrec_jobs_open_age_seconds", labels, row["seconds"])

    def figures(self) -> Figures:
        """Return what was counted."""
        return {"payrec_census_environments": {(): self.environments}, **self._sums, **self._ages}

    def _oldest(self, name: str, labels: tuple[str, ...], seconds: float) -> None:
        self._ages[name][labels] = max(self._ages[name].get(labels, 0.0), seconds)


def age_of(identifier: UUID | None, *, now: datetime) -> float:
    """Return the seconds since a UUIDv7 (RFC 9562, section 5.7) was made; 0 where there is none."""
    if identifier is None:
        return 0.0
    made = datetime.fromtimestamp((identifier.int >> 80) / 1000, tz=UTC)
    return max((now - made).total_seconds(), 0.0)
