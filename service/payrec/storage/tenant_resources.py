"""Tenants as their resources see them: whose they are, what they name, and what is left when they go."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb

from payrec.domain.tenant_resources import ResourceOwner
from payrec.storage.database import TENANT_GROUP_ROLE, Connection
from payrec.storage.ddl import tenant_tables
from payrec.storage.migrations import head
from payrec.storage.provisioning import MISSING_TABLES, UNUSABLE_TABLES
from payrec.storage.rows import fetch_all, fetch_one, insert
from payrec.tables.tenants import Tenant, TenantEnvironment

_SELECT: Final = """
    SELECT t.id, t.slug, t.name, t.status, t.settings, t.resource_uid, t.resource_namespace, t.resource_name,
        t.resource_fields, t.orphaned_at, t.updated_at,
        (SELECT coalesce(jsonb_agg(jsonb_build_object('id', e.id, 'environment', e.environment, 'status', e.status,
                'schema_name', e.schema_name, 'role_name', e.role_name, 'revision', e.revision) ORDER BY e.id), '[]')
         FROM tenant_environment e WHERE e.tenant_id = t.id) AS environments
    FROM tenant t
"""
_SOUND: Final = f"""
    SELECT w.environment
    FROM unnest(%(environments)s::text[], %(schemas)s::text[], %(roles)s::text[], %(revisions)s::text[])
        AS w (environment, schema_name, role_name, revision)
    JOIN pg_roles r ON r.rolname = w.role_name
    JOIN pg_namespace n ON n.nspname = w.schema_name AND n.nspowner = r.oid
    WHERE pg_has_role(session_user, r.oid, 'SET') AND pg_has_role(r.oid, '{TENANT_GROUP_ROLE}', 'USAGE')
        AND has_schema_privilege(r.oid, n.oid, 'USAGE') AND has_schema_privilege(r.oid, n.oid, 'CREATE')
        AND EXISTS (SELECT FROM pg_class v WHERE v.relnamespace = n.oid AND v.relname = 'alembic_version')
        AND NOT EXISTS ({UNUSABLE_TABLES.format(schema="n.oid", role="r.oid")})
        AND (w.revision IS DISTINCT FROM %(head)s OR NOT EXISTS ({MISSING_TABLES.format(schema="n.oid")}))
"""  # noqa: S608 - our own text


class TenantResourceStore:
    """``tenant`` and ``tenant_environment``, with the columns that are about resources."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def hold(self, slug: str) -> None:
        """Let nobody else claim the slug until the transaction ends."""
        await self._connection.execute("SELECT pg_advisory_xact_lock(hashtext('tenant'), hashtext(%s))", (slug,))

    async def by_slug(self, slug: str) -> dict[str, Any] | None:
        """Return the tenant of a slug with its environments."""
        return await fetch_one(self._connection, f"{_SELECT} WHERE t.slug = %s", (slug,))

    async def by_uid(self, uid: str) -> dict[str, Any] | None:
        """Return the tenant that belongs to the resource with this UID."""
        return await fetch_one(self._connection, f"{_SELECT} WHERE t.resource_uid = %s", (uid,))

    async def get(self, tenant_id: UUID, *, lock: bool = False) -> dict[str, Any] | None:
        """Return a tenant; with ``lock``, nobody else changes it meanwhile."""
        if lock:
            await self._connection.execute("SELECT FROM tenant WHERE id = %s FOR UPDATE", (tenant_id,))
        return await fetch_one(self._connection, f"{_SELECT} WHERE t.id = %s", (tenant_id,))

    async def add(self, tenant: dict[str, Any]) -> None:
        """Register a tenant without environments.

        Raises
        ------
        SlugTakenError
            Through ``tenant_slug_unique``, ``tenant_resource_uid_unique`` or ``tenant_resource_unique``.
        """
        await insert(self._connection, Tenant, tenant)

    async def give(self, tenant_id: UUID, owner: ResourceOwner, *, at: datetime) -> None:
        """Make the tenant the resource's."""
        await self._connection.execute(
            "UPDATE tenant SET resource_uid = %s, resource_namespace = %s, resource_name = %s, orphaned_at = NULL,"
            " version = version + 1, updated_at = %s WHERE id = %s",
            (owner.uid, owner.namespace, owner.name, at, tenant_id),
        )

    async def leave_behind(self, tenant_id: UUID, *, at: datetime) -> None:
        """Make the tenant nobody's, suspended; where its resource was is kept."""
        await self._connection.execute(
            "UPDATE tenant SET resource_uid = NULL, resource_fields = '{}', orphaned_at = %s, status = 'suspended',"
            " version = version + 1, updated_at = %s WHERE id = %s",
            (at, at, tenant_id),
        )

    async def change(
        self, tenant_id: UUID, *, name: str, status: str, settings: dict[str, Any], fields: Sequence[str], at: datetime
    ) -> None:
        """Write what a resource may say of its tenant."""
        await self._connection.execute(
            "UPDATE tenant SET name = %s, status = %s, settings = %s, resource_fields = %s, version = version + 1,"
            " updated_at = %s WHERE id = %s",
            (name, status, Jsonb(settings), list(fields), at, tenant_id),
        )

    async def add_environment(self, environment: dict[str, Any]) -> None:
        """Register an environment before its schema is made.

        Raises
        ------
        SlugTakenError
            Through ``tenant_environment_schema_unique``.
        """
        await insert(self._connection, TenantEnvironment, environment)

    async def has_role(self, role: str) -> bool:
        """Tell whether an environment has the role."""
        query = "SELECT FROM tenant_environment WHERE role_name = %s"
        return await fetch_one(self._connection, query, (role,)) is not None

    async def begin_again(self, environment_id: UUID, *, role: str, at: datetime) -> None:
        """Mark an environment as one without tables, so that nobody is let in; ``role`` is the one that will own it."""
        await self._connection.execute(
            "UPDATE tenant_environment SET revision = NULL, role_name = %s, updated_at = %s WHERE id = %s",
            (role, at, environment_id),
        )

    async def open(self, environment_id: UUID, *, revision: str, at: datetime) -> None:
        """Open an environment whose tables are there, and its tenant when it was the last one."""
        await self._connection.execute(
            "UPDATE tenant_environment SET revision = %s, updated_at = %s,"
            " status = CASE status WHEN 'provisioning' THEN 'active' ELSE status END WHERE id = %s",
            (revision, at, environment_id),
        )
        await self._connection.execute(
            "UPDATE tenant t SET status = 'active', version = version + 1, updated_at = %(at)s"
            " FROM tenant_environment e WHERE e.id = %(id)s AND t.id = e.tenant_id AND t.status = 'provisioning'"
            " AND NOT EXISTS (SELECT FROM tenant_environment o WHERE o.tenant_id = t.id AND o.revision IS NULL)",
            {"at": at, "id": environment_id},
        )

    async def suspend_environment(self, environment_id: UUID, *, suspended: bool, at: datetime) -> None:
        """Close or open an environment; one without tables waits for them."""
        await self._connection.execute(
            "UPDATE tenant_environment SET updated_at = %s, status = CASE WHEN %s THEN 'suspended'"
            " WHEN revision IS NULL THEN 'provisioning' ELSE 'active' END WHERE id = %s",
            (at, suspended, environment_id),
        )

    async def remove_environment(self, environment_id: UUID) -> None:
        """Forget an environment."""
        await self._connection.execute("DELETE FROM tenant_environment WHERE id = %s", (environment_id,))

    async def sound(self, environments: Sequence[dict[str, Any]]) -> set[str]:
        """Return those of the environments whose role, grants, schema and tables are as they were made.

        Of another release's tables only the version table is known.
        """
        parameters = {
            "environments": [e["environment"] for e in environments],
            "schemas": [e["schema_name"] for e in environments],
            "roles": [e["role_name"] for e in environments],
            "revisions": [e["revision"] for e in environments],
            "head": head("tenant"),
            "tables": list(tenant_tables()),
        }
        return {row["environment"] for row in await fetch_all(self._connection, _SOUND, parameters)}
