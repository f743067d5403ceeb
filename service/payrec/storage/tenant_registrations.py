"""A tenant's rows of the control schema, read and written as a whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all, fetch_one, insert
from payrec.storage.tenants import TenantStore
from payrec.tables.api_keys import ApiKey
from payrec.tables.users import AppUser

_TENANT: Final = """
    SELECT id, slug, name, status, settings, resource_namespace, resource_name, created_at FROM tenant WHERE slug = %s
"""
_ENVIRONMENTS: Final = """
    SELECT id, environment, status, revision, created_at FROM tenant_environment WHERE tenant_id = %s ORDER BY id
"""
_USERS: Final = """
    SELECT id, subject, username, email, display_name, roles, environments, status, of_resource, created_at
    FROM app_user WHERE tenant_id = %s ORDER BY id
"""
_KEYS: Final = """
    SELECT id, public_id, environment, name, encode(digest, 'hex') AS digest, read, write, state, resource_key,
        expires_at, created_by, created_at
    FROM api_key WHERE tenant_id = %s AND revoked_at IS NULL ORDER BY id
"""


class TenantRegistrationStore:
    """``tenant``, ``tenant_environment``, ``app_user`` and ``api_key`` of one tenant."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self, slug: str) -> dict[str, Any] | None:
        """Return everything that is registered of a tenant, revoked keys excepted."""
        tenant = await fetch_one(self._connection, _TENANT, (slug,))
        if tenant is None:
            return None
        parameters = (tenant["id"],)
        return {
            **tenant,
            "environments": await fetch_all(self._connection, _ENVIRONMENTS, parameters),
            "users": await fetch_all(self._connection, _USERS, parameters),
            "api_keys": await fetch_all(self._connection, _KEYS, parameters),
        }

    async def taken(self, ids: Iterable[UUID], public_ids: Iterable[str]) -> bool:
        """Tell whether any of these ids, of whatever they are, or any of these keys is registered."""
        query = """
            SELECT EXISTS (SELECT FROM tenant WHERE id = ANY(%(ids)s))
                OR EXISTS (SELECT FROM tenant_environment WHERE id = ANY(%(ids)s))
                OR EXISTS (SELECT FROM app_user WHERE id = ANY(%(ids)s))
                OR EXISTS (SELECT FROM api_key WHERE id = ANY(%(ids)s) OR public_id = ANY(%(public_ids)s)) AS found
        """
        found = await fetch_one(self._connection, query, {"ids": list(ids), "public_ids": list(public_ids)})
        assert found is not None, "EXISTS has a value"
        return bool(found["found"])

    async def write(
        self,
        tenant: dict[str, Any],
        *,
        environments: Iterable[dict[str, Any]],
        users: Iterable[dict[str, Any]],
        keys: Iterable[dict[str, Any]],
    ) -> None:
        """Register a tenant with all that belongs to it.

        Raises
        ------
        SlugTakenError, UsernameTakenError
            Through constraints.
        """
        await TenantStore(self._connection).add(tenant, environments)
        for user in users:
            await insert(self._connection, AppUser, user)
        for key in keys:
            await insert(self._connection, ApiKey, key)
