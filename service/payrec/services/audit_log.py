"""The audit log as it is read: one list of what two schemas recorded, which no statement joins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from payrec.domain.caller import Caller
from payrec.domain.scope import TenantScope
from payrec.models.audit_log import AuditLogQuery, AuditRecordPublic
from payrec.models.common import Page
from payrec.services.paging import Pager
from payrec.storage.audit_log import SORTS, AuditLogStore, ControlAuditLogStore
from payrec.storage.database import Database
from payrec.storage.listing import PageRequest

COLLECTION: Final = "/audit-log"

Rows = tuple[Sequence[dict[str, Any]], bool]
"""Rows of one page, and whether more follow."""


class AuditLogService:
    """Lists what was done in the caller's tenant environment, and to its tenant, users and keys."""

    def __init__(self, *, database: Database, pager: Pager) -> None:
        self._database = database
        self._pager = pager

    async def page(self, caller: Caller, query: AuditLogQuery) -> Page[AuditRecordPublic]:
        """Return a page.

        Raises
        ------
        InvalidCursorError
        """
        listing = self._pager.listing(COLLECTION, query, SORTS, caller.scope)
        # One after the other: who holds a connection and waits for a second one, waits for others who do the same.
        async with self._database.tenant(caller.tenant, readonly=True) as connection:
            of_environment = await AuditLogStore(connection).page(listing.request, query)
        of_control = await control_page(self._database, caller.tenant, listing.request, query)
        rows, more = merged(listing.request, of_environment, of_control)
        return listing.page(
            AuditRecordPublic,
            rows,
            data=[AuditRecordPublic.of_row(row) for row in rows],
            more=more,
        )


async def control_page(database: Database, scope: TenantScope, request: PageRequest, query: AuditLogQuery) -> Rows:
    """Return a page of what the control schema recorded about the tenant environment."""
    async with database.control(readonly=True) as connection:
        return await ControlAuditLogStore(connection).page(
            request, query, tenant_id=scope.tenant_id, environment=scope.environment
        )


def merged(request: PageRequest, *parts: Rows) -> Rows:
    """Return the page that the same page of each part makes together."""
    found = sorted(
        [row for rows, _ in parts for row in rows],
        key=lambda row: (row["change_id"], row["id"]),
        reverse=request.sort.descending,
    )
    return found[: request.limit], any(more for _, more in parts) or len(found) > request.limit
