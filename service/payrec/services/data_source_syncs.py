"""Syncs of data sources that are pulled: started by hand, and by the clock."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from uuid import UUID

import structlog

from payrec.constants.sources import DUE_SOURCES_AT_ONCE
from payrec.domain.caller import Caller
from payrec.domain.principal import Principal
from payrec.domain.scope import TenantScope
from payrec.errors import ConflictError, NotFoundError, ValidationFailedError
from payrec.models.data_sources import SyncParams
from payrec.models.jobs import JobCreate, JobPublic
from payrec.services.jobs import queue_job
from payrec.services.rounds import in_each_active
from payrec.services.source_configs import first_sync
from payrec.services.validation import identifier, validated
from payrec.services.work import Unit, Work
from payrec.storage.data_sources import DataSourceStore

ACTOR: Final = "data-source-schedule"
"""Who starts what is due."""


class DataSourceSyncService:
    """Starts syncs. One source has one at a time."""

    def __init__(self, *, work: Work) -> None:
        self._work = work
        self._logger = structlog.get_logger("payrec.data_sources")

    async def start(self, caller: Caller, source_id: str) -> JobPublic:
        """Queue a sync and return its job.

        Raises
        ------
        NotFoundError
        ConflictError
            The source is disabled, is not pulled, or has a sync that is queued or running (``jobId``).
        """
        return await self._start(caller, identifier(source_id))

    async def start_job(self, caller: Caller, given: JobCreate) -> JobPublic:
        """Queue a sync that is asked for as a job; raises as ``start``.

        Raises
        ------
        ValidationFailedError
        """
        return await self._start(caller, validated(SyncParams, given.params, pointer="/params").data_source_id)

    async def _start(self, caller: Caller, source_id: UUID) -> JobPublic:
        async with self._work.tenant(caller) as unit:
            source = await DataSourceStore(unit.connection).for_sync(source_id, lock=True)
            if source is None:
                raise NotFoundError("there is no such data source")
            if source["kind"] == "upload":
                raise ConflictError("the files of this data source are uploaded")
            if not source["enabled"]:
                raise ConflictError("the data source is disabled")
            public = await self._queue(unit, caller.tenant, source, now=unit.now)
            if public is None:
                raise ConflictError("a sync of it is queued or running", jobId=str(source["sync_job_id"]))
            unit.answer(202, public, public.headers)
        return public

    async def start_due(self) -> int:
        """Queue a sync of every source whose time has come; return how many that were.

        Environments that are suspended are passed over. Times that passed while no worker ran count as one.
        """
        request_id = str(self._work.ids.new())
        return await in_each_active(
            self._work,
            lambda scope: self._start_due(scope, request_id),
            logger=self._logger,
            failed="data_source.not_started",
        )

    async def _start_due(self, scope: TenantScope, request_id: str) -> int:
        async with self._work.database.tenant(scope, readonly=True) as connection:
            store = DataSourceStore(connection)
            due = await store.due(now=await store.now(), limit=DUE_SOURCES_AT_ONCE)
        principal = Principal(kind="system", name=ACTOR, tenant_id=scope.tenant_id)
        caller = Caller(principal=principal, request_id=request_id, scope=scope)
        started = 0
        for source_id in due:
            async with self._work.tenant(caller, scope) as unit:
                store = DataSourceStore(unit.connection)
                source = await store.for_sync(source_id, lock=True)
                now = await store.now()
                if source is None or not source["enabled"] or not await store.is_due(source_id, now=now):
                    continue
                started += await self._queue(unit, scope, source, now=now) is not None
        return started

    async def _queue(
        self, unit: Unit, scope: TenantScope, source: dict[str, Any], *, now: datetime
    ) -> JobPublic | None:
        """Queue the sync of a source that is locked, and set its next time; return None where one is on its way."""
        job_id = self._work.ids.new()
        sources = DataSourceStore(unit.connection)
        try:
            next_sync_at = first_sync(source["schedule"], scope, now)
        except ValidationFailedError:
            # It had a next time when it was stored; the tenant's time zone or our rules have changed since.
            next_sync_at = None
        if not await sources.claim_sync(source["id"], job_id, next_sync_at=next_sync_at):
            await sources.look_again(source["id"], at=next_sync_at)
            return None
        params = {"dataSourceId": str(source["id"])}
        return await queue_job(unit, job_id, "sync", params, environment_id=scope.environment_id)
