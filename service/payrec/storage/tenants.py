"""The registry of tenants and their environments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg import sql
from psycopg.types.json import Jsonb

from payrec.domain.scope import TenantScope
from payrec.models.tenants import TenantQuery
from payrec.storage.database import Connection
from payrec.storage.filters import equalities, ranges
from payrec.storage.listing import PageRequest, Selection, select_page
from payrec.storage.rows import fetch_all, fetch_one, insert
from payrec.tables.tenants import Tenant, TenantEnvironment

_COLUMNS: Final = """t.id, t.slug, t.name, t.status, t.settings, t.version, t.created_at, t.updated_at,
    t.resource_uid, t.resource_namespace, t.resource_name, t.resource_fields, t.orphaned_at,
    (SELECT coalesce(
        jsonb_agg(jsonb_build_object('environment', e.environment, 'status', e.status) ORDER BY e.id), '[]')
     FROM tenant_environment e WHERE e.tenant_id = t.id) AS environments"""
_SCOPE: Final = """
    SELECT t.id AS tenant_id, t.slug, t.status AS tenant_status, t.resource_name,
           coalesce(t.settings->>'timezone', 'UTC') AS timezone,
           coalesce((t.settings->'matching'->>'autoRun')::boolean, FALSE) AS auto_run,
           coalesce(t.settings->'ingestion'->>'duplicatePolicy', 'flag') = 'reject' AS reject_duplicates,
           CASE WHEN t.settings ? 'approval' THEN jsonb_strip_nulls(jsonb_build_object(
               'approval', t.settings->'approval', 'baseCurrency', t.settings->'baseCurrency'))::text END AS approval,
           e.id AS environment_id,
           e.environment, e.schema_name, e.role_name, e.status, e.revision
    FROM tenant_environment e JOIN tenant t ON t.id = e.tenant_id
"""


def standing(rows: Iterable[dict[str, Any]]) -> list[TenantScope]:
    """Return the environments whose tables are there, of rows as ``scopes`` returns them."""
    return [scope_of(row) for row in rows if row["revision"] is not None]


def scope_of(row: dict[str, Any]) -> TenantScope:
    """Return the scope that a row of the registry describes."""
    return TenantScope(
        tenant_id=row["tenant_id"],
        environment_id=row["environment_id"],
        environment=row["environment"],
        slug=row["slug"],
        schema_name=row["schema_name"],
        role_name=row["role_name"],
        timezone=row["timezone"],
        auto_run=row["auto_run"],
        reject_duplicates=row["reject_duplicates"],
        approval=row["approval"],
    )


class TenantStore:
    """``tenant`` and ``tenant_environment``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add(self, tenant: dict[str, Any], environments: Iterable[dict[str, Any]]) -> None:
        """Register a tenant; its environments are there in the registry before their schemas are made.

        Raises
        ------
        SlugTakenError
            Through the constraint ``tenant_slug_unique``.
        """
        await insert(self._connection, Tenant, tenant)
        for environment in environments:
            await insert(self._connection, TenantEnvironment, environment)

    async def get(self, tenant_id: UUID, *, lock: bool = False) -> dict[str, Any] | None:
        """Return the tenant with its environments; with ``lock``, nobody else changes it meanwhile."""
        if lock:
            await self._connection.execute("SELECT 1 FROM tenant WHERE id = %s FOR UPDATE", (tenant_id,))
        query = sql.SQL("SELECT {} FROM tenant t WHERE t.id = %s").format(sql.SQL(_COLUMNS))
        return await fetch_one(self._connection, query, (tenant_id,))

    async def find_by_slug(self, slug: str) -> dict[str, Any] | None:
        """Return the tenant of a slug."""
        query = sql.SQL("SELECT {} FROM tenant t WHERE t.slug = %s").format(sql.SQL(_COLUMNS))
        return await fetch_one(self._connection, query, (slug,))

    async def page(
        self, page: PageRequest, query: TenantQuery, *, tenant_id: UUID | None
    ) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return a page of all tenants, or of the one."""
        selection = Selection(columns=_COLUMNS, source="tenant t", id_column="t.id")
        if tenant_id is not None:
            selection.where("t.id = %(tenant_id)s", tenant_id=tenant_id)
        found = equalities(query, {"status": "t.status"})
        found += ranges(query, {"created_from": "t.created_at >=", "created_to": "t.created_at <="})
        for condition, parameters in found:
            selection.where(condition, **parameters)
        return await select_page(self._connection, selection, page)

    async def update(
        self, tenant_id: UUID, *, at: datetime, name: str | None = None, status: str | None = None
    ) -> None:
        """Change what is given."""
        await self._connection.execute(
            "UPDATE tenant SET name = coalesce(%s, name), status = coalesce(%s, status), version = version + 1,"
            " updated_at = %s WHERE id = %s",
            (name, status, at, tenant_id),
        )

    async def update_settings(self, tenant_id: UUID, settings: dict[str, Any], *, at: datetime) -> None:
        """Store the settings that differ from the defaults."""
        await self._connection.execute(
            "UPDATE tenant SET settings = %s, version = version + 1, updated_at = %s WHERE id = %s",
            (Jsonb(settings), at, tenant_id),
        )

    async def activate_environment(self, environment_id: UUID, *, revision: str, at: datetime) -> None:
        """Open an environment whose tables are there."""
        await self._connection.execute(
            "UPDATE tenant_environment SET revision = %s, updated_at = %s,"
            " status = CASE status WHEN 'provisioning' THEN 'active' ELSE status END WHERE id = %s",
            (revision, at, environment_id),
        )

    async def scopes(self, tenant_id: UUID | None = None) -> list[dict[str, Any]]:
        """Return every environment, or those of one tenant, in the order of creation."""
        condition = "WHERE t.id = %(tenant_id)s" if tenant_id is not None else ""
        query = f"{_SCOPE} {condition} ORDER BY e.id"
        return await fetch_all(self._connection, query, {"tenant_id": tenant_id})

    async def scope(self, environment_id: UUID) -> dict[str, Any] | None:
        """Return one environment by its id."""
        return await fetch_one(self._connection, f"{_SCOPE} WHERE e.id = %s", (environment_id,))

    async def versioned_settings(self, tenant_id: UUID) -> tuple[dict[str, Any], int]:
        """Return the stored settings, and the version of the tenant that has them."""
        query = "SELECT settings, version FROM tenant WHERE id = %s"
        row = await fetch_one(self._connection, query, (tenant_id,))
        return (row["settings"], row["version"]) if row is not None else ({}, 0)

    async def settings(self, tenant_id: UUID) -> dict[str, Any]:
        """Return the stored settings; empty where all are defaults."""
        row = await fetch_one(self._connection, "SELECT settings FROM tenant WHERE id = %s", (tenant_id,))
        return row["settings"] if row is not None else {}

    async def delete(self, tenant_id: UUID) -> None:
        """Forget the tenant, its users and its keys; the schemas are dropped before."""
        for table in ("api_key", "app_user", "tenant_environment"):
            await self._connection.execute(
                sql.SQL("DELETE FROM {} WHERE tenant_id = %s").format(sql.Identifier(table)), (tenant_id,)
            )
        await self._connection.execute("DELETE FROM tenant WHERE id = %s", (tenant_id,))
