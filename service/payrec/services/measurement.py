"""Measures what all processes share: the queues whenever somebody asks, and every tenant environment now and then."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import structlog

from payrec.constants.upkeep import (
    CENSUS_KEPT_SECONDS,
    MEASURED_ANEW_SECONDS,
    MEASURING_SECONDS_MAX,
    OPEN_AGES,
    RECENT_DAYS,
)
from payrec.domain.identifiers import id_at
from payrec.domain.scope import TenantScope, today
from payrec.errors import PayrecError
from payrec.metrics import Metrics
from payrec.services.census import Census, Counted, age_of
from payrec.services.rounds import go_on
from payrec.services.work import Work
from payrec.shared_gauges import Figures
from payrec.storage.census import CensusStore
from payrec.storage.queues import QueueStore
from payrec.storage.tenants import TenantStore, standing


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

        Raises
        ------
        UnavailableError
            The database is away: what was counted before stays.
        """
        async with self._work.database.control(readonly=True) as connection:
            rows = await TenantStore(connection).scopes()
        census = Census(self._work.clock.now())
        for scope in standing(rows):
            try:
                await self._count(scope, census)
            except Exception as error:
                self._logger.exception("metrics.not_counted", environment_id=str(scope.environment_id))
                await go_on(self._work, error)
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

    async def _count(self, scope: TenantScope, census: Census) -> None:
        now = self._work.clock.now()
        day = today(scope, now)
        async with self._work.database.tenant(scope, readonly=True) as connection:
            store = CensusStore(connection)
            counted = Counted(
                rows=await store.open_rows(today=day),
                amounts=await store.open_amounts(today=day, bounds=[n for n in OPEN_AGES.values() if n is not None]),
                recent=await store.recent(since=id_at(now - timedelta(days=RECENT_DAYS))),
                reasons=await store.reasons(),
                webhooks=await store.webhooks(),
                sources=await store.data_sources(),
                jobs=await store.jobs(),
            )
        # All of it or nothing.
        census.add(counted)
