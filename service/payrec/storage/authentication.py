"""What authentication looks at: one statement for a key, one for a user, each with the tenant and the environment."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from payrec.storage.database import Connection
from payrec.storage.rows import fetch_one

_PLACE: Final = """
    t.slug, t.name AS tenant_name, t.status AS tenant_status,
    coalesce(t.settings->>'timezone', 'UTC') AS timezone, coalesce(t.settings->>'locale', 'en') AS locale,
    coalesce((t.settings->'matching'->>'autoRun')::boolean, FALSE) AS auto_run,
    coalesce(t.settings->'ingestion'->>'duplicatePolicy', 'flag') = 'reject' AS reject_duplicates,
    CASE WHEN t.settings ? 'approval' THEN jsonb_strip_nulls(jsonb_build_object(
        'approval', t.settings->'approval', 'baseCurrency', t.settings->'baseCurrency'))::text END AS approval,
    e.id AS environment_id, e.environment, e.schema_name, e.role_name,
    e.status AS environment_status, e.revision
"""
_KEY: Final = f"""
    SELECT k.id, k.public_id, k.tenant_id, k.environment AS key_environment, k.name, k.digest, k.read, k.write,
           k.expires_at, k.revoked_at, k.resource_key, k.created_by, {_PLACE}
    FROM api_key k
    JOIN tenant t ON t.id = k.tenant_id
    LEFT JOIN tenant_environment e ON e.tenant_id = k.tenant_id AND e.environment = k.environment
    WHERE k.public_id = %(public_id)s
"""  # noqa: S608 - constants of this module
_USER: Final = f"""
    SELECT u.id, u.tenant_id, u.subject, u.username, u.roles, u.environments, u.status, {_PLACE}
    FROM app_user u
    JOIN tenant t ON t.id = u.tenant_id
    LEFT JOIN tenant_environment e ON e.tenant_id = u.tenant_id AND e.environment = %(environment)s
    WHERE u.id = %(user_id)s OR (%(user_id)s::uuid IS NULL AND (
        u.subject = %(subject)s OR (u.subject IS NULL AND u.username = %(username)s)))
    ORDER BY u.subject NULLS LAST
    LIMIT 1
"""  # noqa: S608 - constants of this module


class AuthenticationStore:
    """Reads through the authentication door, which can read nothing else."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def find_key(self, public_id: str) -> dict[str, Any] | None:
        """Return the key with its tenant and environment."""
        return await fetch_one(self._connection, _KEY, {"public_id": public_id})

    async def find_user(
        self, *, user_id: UUID | None, subject: str | None, username: str | None, environment: str | None
    ) -> dict[str, Any] | None:
        """Return the user that a token names: by id, else by subject, else by a username without subject yet."""
        parameters = {"user_id": user_id, "subject": subject, "username": username, "environment": environment}
        return await fetch_one(self._connection, _USER, parameters)
