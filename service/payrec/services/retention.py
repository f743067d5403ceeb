"""What is kept for a time goes when it is over, in every tenant environment, and the audit log tells what went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import structlog

from payrec.constants import AUDIT_RECORDS_DROPPED_AT_ONCE, EXPORTS_DROPPED_AT_ONCE, FILES_DROPPED_AT_ONCE
from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.principal import Principal
from payrec.domain.scope import TenantScope
from payrec.models.tenants import Settings
from payrec.services.tenants import effective_settings
from payrec.services.work import Unit, Work
from payrec.storage.audit_log import AuditLogStore
from payrec.storage.database import Connection
from payrec.storage.exports import ExportStore
from payrec.storage.imports import ImportStore
from payrec.storage.tenants import TenantStore, scope_of

ACTOR: Final = "retention"
"""Who writes the audit records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One kind of thing that is kept for a time."""

    action: str
    """The audit record of what went."""
    before: Callable[[Settings, datetime], datetime]
    """Since when a thing must be there to stay, of the tenant's settings and now."""
    waits: Callable[[Connection, datetime], Awaitable[bool]]
    """Whether anything older is there."""
    drop: Callable[[Unit, datetime], Awaitable[int]]
    """Deletes a bounded number of what is older, records it, and returns how many that were; 0 is the end."""


class RetentionService:
    """Deletes what is over. One environment that fails keeps none of the others'."""

    def __init__(self, *, work: Work) -> None:
        self._work = work
        self._logger = structlog.get_logger("payrec.retention")

    async def drop_expired(self) -> Counter[str]:
        """Delete everything whose time is over; return how many by the action of their audit record.

        Also of suspended environments: a duty to delete does not rest with them. Those whose schema is not made yet
        have nothing.
        """
        request_id = str(self._work.ids.new())
        async with self._work.database.control(readonly=True) as connection:
            rows = await TenantStore(connection).scopes()
        dropped: Counter[str] = Counter()
        for row in rows:
            if row["revision"] is not None:
                dropped += await self._drop_all(row, request_id)
        return dropped

    async def _drop_all(self, row: dict[str, Any], request_id: str) -> Counter[str]:
        scope = scope_of(row)
        dropped: Counter[str] = Counter()
        for kind in KINDS:
            try:
                dropped[kind.action] += await self._drop(scope, kind, request_id)
            except Exception:
                # The other kinds, and the others', are over all the same; this is looked at again at the next run.
                environment_id = str(scope.environment_id)
                self._logger.exception("retention.not_dropped", kind=kind.action, environment_id=environment_id)
        return dropped

    async def _drop(self, scope: TenantScope, kind: Kept, request_id: str) -> int:
        async with self._work.database.control(readonly=True) as connection:
            settings = effective_settings(await TenantStore(connection).settings(scope.tenant_id))
        before = kind.before(settings, self._work.clock.now())
        async with self._work.database.tenant(scope, readonly=True) as connection:
            if not await kind.waits(connection, before):
                return 0
        principal = Principal(kind="system", name=ACTOR, tenant_id=scope.tenant_id)
        caller = Caller(principal=principal, request_id=request_id, scope=scope)
        dropped = 0
        while True:
            async with self._work.tenant(caller, scope) as unit:
                found = await kind.drop(unit, before)
            if not found:
                return dropped
            dropped += found


async def _files_wait(connection: Connection, before: datetime) -> bool:
    return await ImportStore(connection).has_files(before=before)


async def _drop_files(unit: Unit, before: datetime) -> int:
    found = await ImportStore(unit.connection).drop_files(before=before, limit=FILES_DROPPED_AT_ONCE, at=unit.now)
    for import_id in found:
        unit.record(Record(action=FILES.action, resource_id=import_id))
    return len(found)


async def _exports_wait(connection: Connection, now: datetime) -> bool:
    return await ExportStore(connection).has_expired(now=now)


async def _drop_exports(unit: Unit, now: datetime) -> int:
    found = await ExportStore(unit.connection).drop_expired(now=now, limit=EXPORTS_DROPPED_AT_ONCE)
    for export_id in found:
        unit.record(Record(action=EXPORTS.action, resource_id=export_id))
    return len(found)


async def _audit_records_wait(connection: Connection, before: datetime) -> bool:
    return await AuditLogStore(connection).has_records(before=before)


async def _drop_audit_records(unit: Unit, before: datetime) -> int:
    found = await AuditLogStore(unit.connection).drop_records(before=before, limit=AUDIT_RECORDS_DROPPED_AT_ONCE)
    if found:
        unit.record(Record(action=AUDIT_RECORDS.action, after={"count": found, "before": before.isoformat()}))
    return found


FILES: Final = Kept(
    action="import.file_dropped",
    before=lambda settings, now: now - timedelta(days=settings.retention.raw_lines_days),
    waits=_files_wait,
    drop=_drop_files,
)
"""Uploaded files; what was read of them stays."""

EXPORTS: Final = Kept(
    action="export.dropped", before=lambda _settings, now: now, waits=_exports_wait, drop=_drop_exports
)
"""Files made of lists."""

AUDIT_RECORDS: Final = Kept(
    action="audit_log.dropped",
    before=lambda settings, now: now - timedelta(days=settings.retention.audit_days),
    waits=_audit_records_wait,
    drop=_drop_audit_records,
)
"""What the environment's audit log says; that of tenants, users and keys stays."""

KINDS: Final = (FILES, EXPORTS, AUDIT_RECORDS)
