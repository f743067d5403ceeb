"""What all that is done for Tenant resources shares: one actor, and the tenant as it is held."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.principal import Principal
from payrec.errors import NotFoundError
from payrec.services.work import Unit, Work
from payrec.storage.control_audit import ControlAuditStore
from payrec.storage.database import Connection
from payrec.storage.provisioning import Provisioner
from payrec.storage.tenant_resources import TenantResourceStore

OPERATOR: Final = Principal(kind="system", name="operator")
"""Who does it, in the audit log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceTools:
    """What the parts of the service are made of."""

    work: Work
    provisioner: Provisioner
    admin_url: str
    """For migrations, which have connections of their own."""
    peppers: tuple[bytes, ...]
    """Under which keys are digested, the present one first."""
    token_bytes: Callable[[int], bytes]


class ResourceUnits:
    """Opens units of work on a tenant that belongs to a resource."""

    def __init__(self, tools: ResourceTools) -> None:
        self._tools = tools
        self._work = tools.work

    def _caller(self) -> Caller:
        return Caller(principal=OPERATOR, request_id=str(self._work.ids.new()))

    @asynccontextmanager
    async def _held(self, tenant_id: UUID) -> AsyncIterator[tuple[Unit, dict[str, Any]]]:
        """Open a unit in which nobody else changes the tenant.

        Raises
        ------
        NotFoundError
            There is no such tenant, or it belongs to no resource.
        """
        async with self._work.control(self._caller()) as unit:
            yield unit, owned(await TenantResourceStore(unit.connection).get(tenant_id, lock=True))

    async def _row(self, tenant_id: UUID) -> dict[str, Any]:
        """Return the tenant as it is now; as ``_held``."""
        async with self._work.database.control(readonly=True) as connection:
            return owned(await TenantResourceStore(connection).get(tenant_id))

    async def _audit(self, connection: Connection, records: list[Record]) -> None:
        """Write what was done through another door than the unit's."""
        store, caller = ControlAuditStore(connection), self._caller()
        for record in records:
            await store.add(self._work.ids.new(), record, caller)


def owned(row: dict[str, Any] | None) -> dict[str, Any]:
    """Return the row of a tenant that belongs to a resource.

    Raises
    ------
    NotFoundError
    """
    if row is None or row["resource_uid"] is None:
        raise NotFoundError("there is no such tenant, or it belongs to no resource")
    return row


def place(row: dict[str, Any]) -> dict[str, Any]:
    """Return what every record says of the resource on whose behalf it is."""
    return {"resource": f"{row['resource_namespace']}/{row['resource_name']}"}


def environment_of(row: dict[str, Any], environment: str) -> dict[str, Any] | None:
    """Return one of the tenant's environments, its ids as such (they come out of JSON)."""
    for found in row["environments"]:
        if found["environment"] == environment:
            return {**found, "id": UUID(found["id"])}
    return None
