"""The audit records of tenants, users and keys."""

from __future__ import annotations

from uuid import UUID

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.storage.database import Connection
from payrec.storage.rows import insert
from payrec.tables.changes import ControlAuditRecord


class ControlAuditStore:
    """Appends to ``control.audit_record``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add(self, record_id: UUID, record: Record, caller: Caller) -> None:
        """Append one record."""
        values = {
            "id": record_id,
            "tenant_id": caller.scope.tenant_id if caller.scope else None,
            "environment": caller.scope.environment if caller.scope else None,
            "actor": caller.principal.actor,
            "action": record.action,
            "resource_id": record.resource_id,
            "before": record.before,
            "after": record.after,
            "request_id": caller.request_id,
        }
        await insert(self._connection, ControlAuditRecord, values)
