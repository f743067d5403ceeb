"""What is kept for a time goes when it is over, everywhere, and is told of: by log lines, metrics and the audit log.

One run makes one report. The audit log has a record of each file that went, and of each time that it was shortened
itself; what is forgotten by its nature (events, answers to repeated requests) is counted. What is over is told by the
database's clock: by one of a worker that is ahead, all of it would be.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import structlog

from payrec.constants import IDEMPOTENCY_RETENTION
from payrec.constants.events import EVENT_RETENTION, EVENTS_DROPPED_AT_ONCE
from payrec.constants.upkeep import (
    AUDIT_RECORDS_DROPPED_AT_ONCE,
    DIFFERENCES_DROPPED_AT_ONCE,
    EXPORTS_DROPPED_AT_ONCE,
    FILES_DROPPED_AT_ONCE,
    IDEMPOTENCY_KEYS_DROPPED_AT_ONCE,
    STATES_DROPPED_AT_ONCE,
)
from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.principal import Principal
from payrec.domain.retention import Removed, RetentionReport, removed
from payrec.domain.scope import TenantScope
from payrec.metrics import Metrics
from payrec.models.tenants import Settings
from payrec.services.rounds import go_on
from payrec.services.tenant_settings import effective_settings
from payrec.services.work import Unit, Work
from payrec.storage.audit_log import AuditLogStore
from payrec.storage.database import Connection
from payrec.storage.events import EventStore
from payrec.storage.exports import ExportStore
from payrec.storage.history import HistoryStore
from payrec.storage.idempotency import IdempotencyStore
from payrec.storage.imports import ImportStore
from payrec.storage.rows import database_now
from payrec.storage.snapshots import SnapshotStore
from payrec.storage.tenants import TenantStore, scope_of

ACTOR: Final = "retention"
"""Who writes the audit records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Things that are kept for a time."""

    name: str
    """For the log, where they could not be looked at."""
    before: Callable[[Settings, datetime], datetime]
    """Since when a thing must be there to stay, of the tenant's settings and now."""
    waits: Callable[[Connection, datetime], Awaitable[bool]]
    """Whether anything older is there."""
    drop: Callable[[Unit, datetime], Awaitable[Mapping[str, Removed]]]
    """Deletes a bounded number of what is older and returns what that was, by kind; nothing is the end."""


class RetentionService:
    """Deletes what is over. One environment that fails keeps none of the others'."""

    def __init__(self, *, work: Work, metrics: Metrics) -> None:
        self._work = work
        self._metrics = metrics
        self._logger = structlog.get_logger("payrec.retention")

    async def drop_expired(self) -> RetentionReport:
        """Delete everything whose time is over; return what that was.

        Also of suspended environments: a duty to delete does not rest with them. Those whose schema is not made yet
        have nothing.
        """
        report = RetentionReport()
        caller = Caller(principal=Principal(kind="system", name=ACTOR), request_id=str(self._work.ids.new()))
        async with self._work.database.control(readonly=True) as connection:
            rows = await TenantStore(connection).scopes()
        for row in rows:
            if row["revision"] is not None:
                await self._drop_of(scope_of(row), caller.request_id, report)
        try:
            await self._drop_answers(caller, report)
        except Exception:
            self._count_failure(report, KEYS)
            self._logger.exception("retention.not_dropped", kind=KEYS.name, environment_id=None)
        self._logger.info(
            "retention.finished",
            failed=report.failed,
            **{kind: what.count for kind, what in report.removed.items()},
        )
        return report

    async def _drop_of(self, scope: TenantScope, request_id: str, report: RetentionReport) -> None:
        for kept in KINDS:
            try:
                await self._drop(scope, kept, request_id, report)
            except Exception as error:
                # The other kinds, and the others', are over all the same; this is looked at again at the next run.
                self._count_failure(report, kept)
                environment_id = str(scope.environment_id)
                self._logger.exception("retention.not_dropped", kind=kept.name, environment_id=environment_id)
                await go_on(self._work, error)

    def _count_failure(self, report: RetentionReport, kept: Kept) -> None:
        report.failed += 1
        self._metrics.retention_failures.labels(kind=kept.name).inc()

    async def _drop(self, scope: TenantScope, kept: Kept, request_id: str, report: RetentionReport) -> None:
        async with self._work.database.control(readonly=True) as connection:
            settings = effective_settings(await TenantStore(connection).settings(scope.tenant_id))
            before = kept.before(settings, await database_now(connection))
        async with self._work.database.tenant(scope, readonly=True) as connection:
            if not await kept.waits(connection, before):
                return
        principal = Principal(kind="system", name=ACTOR, tenant_id=scope.tenant_id)
        caller = Caller(principal=principal, request_id=request_id, scope=scope)
        dropped = RetentionReport()
        try:
            while True:
                async with self._work.tenant(caller, scope) as unit:
                    found = await kept.drop(unit, before)
                if not _count(found, dropped):
                    return
        finally:
            # What was committed is gone, whatever came after it.
            self._tell(dropped, report, tenant=scope.slug, environment=scope.environment)

    async def _drop_answers(self, caller: Caller, report: RetentionReport) -> None:
        """Delete what is over of the control schema: answers to requests about tenants and keys."""
        dropped = RetentionReport()
        try:
            while True:
                async with self._work.control(caller) as unit:
                    found = await KEYS.drop(unit, await database_now(unit.connection) - IDEMPOTENCY_RETENTION)
                if not _count(found, dropped):
                    return
        finally:
            self._tell(dropped, report, tenant=None, environment=None)

    def _tell(self, dropped: RetentionReport, report: RetentionReport, **where: str | None) -> None:
        for kind, what in dropped.removed.items():
            report.add(kind, what)
            self._metrics.retention_removed.labels(kind=kind).inc(what.count)
            self._logger.info(
                "retention.removed",
                kind=kind,
                count=what.count,
                oldest=what.oldest.isoformat() if what.oldest else None,
                newest=what.newest.isoformat() if what.newest else None,
                **where,
            )


def _count(found: Mapping[str, Removed], dropped: RetentionReport) -> int:
    """Add what one transaction has removed, and return how much that was."""
    for kind, what in found.items():
        if what.count:
            dropped.add(kind, what)
    return sum(what.count for what in found.values())


async def _files_wait(connection: Connection, before: datetime) -> bool:
    return await ImportStore(connection).has_files(before=before)


async def _drop_files(unit: Unit, before: datetime) -> dict[str, Removed]:
    found = await ImportStore(unit.connection).drop_files(before=before, limit=FILES_DROPPED_AT_ONCE, at=unit.now)
    for row in found:
        unit.discard(row["object_id"])
        unit.record(Record(action="import.file_dropped", resource_id=row["id"]))
    return {"files": removed([row["created_at"] for row in found])}


async def _differences_wait(connection: Connection, before: datetime) -> bool:
    return await SnapshotStore(connection).has_differences(before=before)


async def _drop_differences(unit: Unit, before: datetime) -> dict[str, Removed]:
    store = SnapshotStore(unit.connection)
    instants: list[datetime] = []
    for row in await store.drop_differences(before=before, limit=DIFFERENCES_DROPPED_AT_ONCE):
        instants += [row["created_at"]] * row["count"]
        after = {"count": row["count"]}
        unit.record(Record(action="expected_snapshot.differences_dropped", resource_id=row["id"], after=after))
    return {"snapshot_differences": removed(instants)}


async def _exports_wait(connection: Connection, now: datetime) -> bool:
    return await ExportStore(connection).has_expired(now=now)


async def _drop_exports(unit: Unit, now: datetime) -> dict[str, Removed]:
    found = await ExportStore(unit.connection).drop_expired(now=now, limit=EXPORTS_DROPPED_AT_ONCE)
    for row in found:
        unit.discard(row["object_id"])
        unit.record(Record(action="export.dropped", resource_id=row["id"]))
    return {"exports": removed([row["created_at"] for row in found])}


async def _audit_records_wait(connection: Connection, before: datetime) -> bool:
    return await AuditLogStore(connection).has_records(before=before)


async def _drop_audit_records(unit: Unit, before: datetime) -> dict[str, Removed]:
    found = await AuditLogStore(unit.connection).drop_records(before=before, limit=AUDIT_RECORDS_DROPPED_AT_ONCE)
    if found.count:
        after: dict[str, Any] = {"count": found.count, "before": before.isoformat()}
        after |= {"oldest": _text(found.oldest), "newest": _text(found.newest)}
        unit.record(Record(action="audit_log.dropped", after=after))
    return {"audit_records": found}


async def _states_wait(connection: Connection, before: datetime) -> bool:
    return await HistoryStore(connection).begins_before(before)


async def _drop_states(unit: Unit, before: datetime) -> dict[str, Removed]:
    return {"states": await HistoryStore(unit.connection).drop_states(before=before, limit=STATES_DROPPED_AT_ONCE)}


async def _events_wait(connection: Connection, before: datetime) -> bool:
    return await EventStore(connection).has_events(before=before)


async def _drop_events(unit: Unit, before: datetime) -> dict[str, Removed]:
    return await EventStore(unit.connection).drop_events(before=before, limit=EVENTS_DROPPED_AT_ONCE)


async def _keys_wait(connection: Connection, before: datetime) -> bool:
    return await IdempotencyStore(connection).has_expired(kept_from=before)


async def _drop_keys(unit: Unit, before: datetime) -> dict[str, Removed]:
    store = IdempotencyStore(unit.connection)
    found = await store.drop_expired(kept_from=before, limit=IDEMPOTENCY_KEYS_DROPPED_AT_ONCE)
    return {"idempotency_keys": found}


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


FILES: Final = Kept(
    name="files",
    before=lambda settings, now: now - timedelta(days=settings.retention.raw_lines_days),
    waits=_files_wait,
    drop=_drop_files,
)
"""Uploaded files, which are the raw lines; what was read of them stays."""

DIFFERENCES: Final = Kept(
    name="snapshot_differences",
    before=FILES.before,
    waits=_differences_wait,
    drop=_drop_differences,
)
"""In which items another system's snapshot differs, which are lines of its file; the counts and sums stay."""

EXPORTS: Final = Kept(name="exports", before=lambda _settings, now: now, waits=_exports_wait, drop=_drop_exports)
"""Files made of lists."""

AUDIT_RECORDS: Final = Kept(
    name="audit_records",
    before=lambda settings, now: now - timedelta(days=settings.retention.audit_days),
    waits=_audit_records_wait,
    drop=_drop_audit_records,
)
"""What the environment's audit log says; that of tenants, users and keys stays."""

STATES: Final = Kept(
    name="states",
    before=lambda settings, now: now - timedelta(days=settings.retention.audit_days),
    waits=_states_wait,
    drop=_drop_states,
)
"""What transactions and matches were before, for ``asOf``; what they were at the end of that time stays."""

EVENTS: Final = Kept(
    name="events", before=lambda _settings, now: now - EVENT_RETENTION, waits=_events_wait, drop=_drop_events
)
"""The feed, and what became of its events at endpoints (``webhook_deliveries``)."""

KEYS: Final = Kept(
    name="idempotency_keys",
    before=lambda _settings, now: now - IDEMPOTENCY_RETENTION,
    waits=_keys_wait,
    drop=_drop_keys,
)
"""Answers that are replayed no longer, also those of the control schema."""

KINDS: Final = (FILES, DIFFERENCES, EXPORTS, AUDIT_RECORDS, STATES, EVENTS, KEYS)
