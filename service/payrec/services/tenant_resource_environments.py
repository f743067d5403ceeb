"""Environments of Tenant resources: made, mended and migrated again and again; dropped by way of a tombstone.

Unlike ``payrec migrate``, which leaves an environment alone whose tables are gone, this makes them anew: a resource
says what is to be there, so a schema that somebody has dropped is back soon, empty. What was in it is in a backup.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import structlog

from payrec.constants.tenants import TOMBSTONE_REST
from payrec.domain.changes import Record
from payrec.domain.principal import ENVIRONMENTS
from payrec.domain.scope import TenantScope, is_environment_role, role_name, schema_name, tombstone_name
from payrec.domain.tenant_resources import EnvironmentState
from payrec.errors import (
    ConflictError,
    FieldError,
    NotFoundError,
    RevisionAheadError,
    SchemaConflictError,
    SchemaNotOwnedError,
    ValidationFailedError,
)
from payrec.services.migrations import bring_to_head
from payrec.services.tenant_resource_keys import revocations
from payrec.services.tenant_resource_units import ResourceTools, ResourceUnits, environment_of, place
from payrec.storage.blob_remnants import BlobRemnantStore
from payrec.storage.migrations import is_ahead
from payrec.storage.provisioning import has_unknown_tables
from payrec.storage.tenant_resource_keys import TenantResourceKeyStore
from payrec.storage.tenant_resources import TenantResourceStore
from payrec.storage.tombstones import TombstoneStore

_DELETING: Final = "the tenant is being deleted"


class TenantResourceEnvironments(ResourceUnits):
    """Looks after the environments of tenants that belong to resources."""

    def __init__(self, tools: ResourceTools) -> None:
        super().__init__(tools)
        self._logger = structlog.get_logger("payrec.tenant_resources")

    async def ensure_environment(self, tenant_id: UUID, environment: str, *, adopt: bool) -> EnvironmentState:
        """Register the environment; make or mend its role, grants, schema and tables; migrate them to the head.

        Raises
        ------
        SchemaNotOwnedError
            A schema of that name is there, is not registered, and ``adopt`` is false.
        SchemaConflictError
            A schema of that name belongs to a role that is not the environment's.
        RevisionAheadError
            The tables are of a newer release; they are left as they are, and the environment stays as it is.
        MigrationFailedError
            A migration of the tables failed; they are as they were before it.
        ProvisioningDeniedError
            The administrating role may not do what is needed.
        """
        if environment not in ENVIRONMENTS:
            detail = f"must be among {', '.join(ENVIRONMENTS)}"
            raise ValidationFailedError.of(FieldError(pointer="/environments", code="unknown_value", detail=detail))
        row = await self._row(tenant_id)
        known = environment_of(row, environment)
        found = await self._register(row, environment, adopt=adopt)
        scope = _scope(row, found)
        before: str | None = None if known is None else known["revision"]
        made = await self._tools.provisioner.ensure(scope, revision=before)
        if is_ahead("tenant", made.revision):
            raise RevisionAheadError
        revision = await bring_to_head(scope, made.revision, admin_url=self._tools.admin_url)
        corrected = made.corrected
        if revision != made.revision and before is not None:
            corrected += ("migration",)
        for kind in corrected:
            self._logger.warning("tenant_resource.corrected", schema=scope.schema_name, kind=kind)
        if revision != found["revision"] or found["status"] == "provisioning":
            async with self._held(tenant_id) as (unit, _):
                await TenantResourceStore(unit.connection).open(scope.environment_id, revision=revision, at=unit.now)
                after = {**place(row), "environment": environment, "revision": revision}
                opened = Record(
                    action="tenant.environment_opened",
                    resource_id=tenant_id,
                    before={"revision": found["revision"]},
                    after=after,
                )
                unit.record(opened)
        return EnvironmentState(
            environment=environment,
            schema_name=scope.schema_name,
            status="active" if found["status"] == "provisioning" else found["status"],
            revision=revision,
            corrected=corrected,
        )

    async def set_environment_suspended(self, tenant_id: UUID, environment: str, *, suspended: bool) -> None:
        """Close or open one environment.

        Raises
        ------
        NotFoundError
        """
        async with self._held(tenant_id) as (unit, row):
            found = environment_of(row, environment)
            if found is None:
                raise NotFoundError("the tenant has no such environment")
            if (found["status"] == "suspended") == suspended:
                return
            store = TenantResourceStore(unit.connection)
            await store.suspend_environment(found["id"], suspended=suspended, at=unit.now)
            action = "tenant.environment_suspended" if suspended else "tenant.environment_resumed"
            after = {**place(row), "environment": environment}
            unit.record(Record(action=action, resource_id=tenant_id, after=after))

    async def drop_environment(self, tenant_id: UUID, environment: str) -> None:
        """Revoke the environment's keys, rename its schema to a tombstone, forget it; dropping follows later.

        Another's schema of that name stays, and one with tables that payrec did not make. An environment that is not
        there is no error.
        """
        await self._entomb(tenant_id, environment)

    async def _register(self, row: dict[str, Any], environment: str, *, adopt: bool) -> dict[str, Any]:
        """Return the environment as the registry has it then, its role being the one that owns the schema or will."""
        found = environment_of(row, environment)
        name = found["schema_name"] if found is not None else schema_name(row["slug"], environment)
        role = found["role_name"] if found is not None else role_name(row["id"], environment)
        owner = await self._tools.provisioner.owner_of(name)
        if found is None and owner is not None:
            # Who registers it at the same time has done that before he makes the schema: a second look finds it.
            row = await self._row(row["id"])
            found = environment_of(row, environment)
            role = found["role_name"] if found is not None else role
        if found is not None and owner == role:
            return found
        if owner is not None:
            role = self._taken_over(owner, role, found, environment, adopt=adopt)
        elif found is not None and found["revision"] is None:
            return found
        async with self._held(row["id"]) as (unit, held):
            store = TenantResourceStore(unit.connection)
            if held["status"] == "deleting":
                raise ConflictError(_DELETING)
            registered = environment_of(held, environment)
            if found is None and registered is not None:
                return registered
            if (found is None or found["role_name"] != role) and await store.has_role(role):
                raise SchemaConflictError
            if found is None:
                found = {
                    "id": self._work.ids.new(),
                    "environment": environment,
                    "schema_name": name,
                    "role_name": role,
                    "status": "provisioning",
                }
                added = {**found, "tenant_id": row["id"], "created_at": unit.now, "updated_at": unit.now}
                await store.add_environment(added)
                action, lost = "tenant.environment_added", None
            else:
                await store.begin_again(found["id"], role=role, at=unit.now)
                action, lost = "tenant.environment_begun_again", {"revision": found["revision"]}
            after = {**place(row), "environment": environment}
            unit.record(Record(action=action, resource_id=row["id"], before=lost, after=after))
        return {**found, "role_name": role, "revision": None}

    @staticmethod
    def _taken_over(owner: str, role: str, found: dict[str, Any] | None, environment: str, *, adopt: bool) -> str:
        """Return the role of a schema that is there and not registered as this environment's."""
        if found is None and not adopt:
            raise SchemaNotOwnedError
        if owner == role:
            return role
        # One that an environment of this name was given once, and nobody has any more: its registration was lost.
        if adopt and (found is None or found["revision"] is None) and is_environment_role(owner, environment):
            return owner
        raise SchemaConflictError

    async def _entomb(self, tenant_id: UUID, environment: str) -> None:
        """In one transaction: revoke the keys, rename the schema, and let a tombstone stand for the environment."""
        now = self._work.clock.now()
        async with self._work.database.provisioning() as connection:
            store, tombstones = TenantResourceStore(connection), TombstoneStore(connection)
            row = await store.get(tenant_id, lock=True)
            found = environment_of(row, environment) if row is not None else None
            if row is None or row["resource_uid"] is None or found is None:
                return
            schema, role = found["schema_name"], found["role_name"]
            await tombstones.hold(schema)
            keys = TenantResourceKeyStore(connection, tenant_id=tenant_id)
            records = revocations(await keys.revoke_everything(at=now, environment=environment), row)
            name = tombstone_name(found["id"])
            # One that was to be taken over and was refused for what is in it stays as it is, and its role with it.
            refused = found["revision"] is None and await has_unknown_tables(connection, schema)
            renamed = not refused and await tombstones.rename(schema, role, name)
            if not refused:
                await tombstones.add(
                    name, schema=schema, role=role, tenant_id=tenant_id, dropped_at=now, due_at=now + TOMBSTONE_REST
                )
            await store.remove_environment(found["id"])
            await BlobRemnantStore(connection).add(found["id"], tenant_id=tenant_id, dropped_at=now)
            after = {**place(row), "environment": environment, "tombstone": name if renamed else None}
            records.append(Record(action="tenant.environment_dropped", resource_id=tenant_id, after=after))
            await self._audit(connection, records)


def _scope(row: dict[str, Any], environment: dict[str, Any]) -> TenantScope:
    return TenantScope(
        tenant_id=row["id"],
        environment_id=environment["id"],
        environment=environment["environment"],
        slug=row["slug"],
        schema_name=environment["schema_name"],
        role_name=environment["role_name"],
    )
