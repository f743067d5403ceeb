"""A tenant environment in three committed, idempotent steps: role; schema; tables, created as the owning role.

Committed apart, so that the same steps work where schemas are distributed and one transaction does not span them, and
so that whatever stops in the middle is finished by calling again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from payrec.domain.scope import TenantScope
from payrec.errors import PayrecError, SlugTakenError
from payrec.storage.database import TENANT_GROUP_ROLE, Connection, Database
from payrec.storage.ddl import tenant_script
from payrec.storage.migrations import head

_ROLE_STATE: Final = "SELECT pg_has_role(%(login)s, oid, 'SET') AS enters FROM pg_roles WHERE rolname = %(role)s"
_SCHEMA_OWNER: Final = "SELECT pg_get_userbyid(nspowner) AS owner FROM pg_namespace WHERE nspname = %s"
_VERSION_TABLE: Final = (
    "CREATE TABLE alembic_version (version_num varchar(32) NOT NULL,"
    " CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)


class SchemaTakenError(SlugTakenError):
    """A schema of the environment's name exists and belongs to another role. It is never adopted."""

    def __init__(self) -> None:
        super().__init__("a schema of this tenant's name exists already and belongs to somebody else")


class SchemaMissingError(PayrecError):
    """The registry says that the environment has tables, and they are not there. Nothing is made in their place."""


class Provisioner:
    """Makes roles and schemas. ``login`` is the role that the service's connections log in as."""

    def __init__(self, database: Database, *, login: str) -> None:
        self._database = database
        self._login = login

    async def ensure(self, scope: TenantScope) -> str:
        """Make what is missing of the environment and return the revision of its tables.

        Raises
        ------
        SchemaTakenError
            The schema exists and is not the environment's own.
        """
        await self._ensure_role(scope.role_name)
        await self._ensure_schema(scope)
        return await self._ensure_tables(scope)

    async def check_free(self, schema_names: Sequence[str]) -> None:
        """Look whether schemas of these names exist, before a tenant is registered for them.

        Raises
        ------
        SchemaTakenError
        """
        async with self._database.provisioning() as connection:
            cursor = await connection.execute(
                "SELECT 1 FROM pg_namespace WHERE nspname = ANY(%s) LIMIT 1", (list(schema_names),)
            )
            if await cursor.fetchone() is not None:
                raise SchemaTakenError

    async def drop(self, scope: TenantScope) -> None:
        """Drop the schema with all that is in it, and its role. There is no way back.

        Somebody else's schema of that name stays, and what an earlier try has dropped is no error.
        """
        async with self._database.provisioning() as connection:
            cursor = await connection.execute(_SCHEMA_OWNER, (scope.schema_name,))
            found = await cursor.fetchone()
        if found is not None and found["owner"] == scope.role_name:
            async with self._database.provisioning(role=scope.role_name) as connection:
                await connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(scope.schema_name)))
        async with self._database.provisioning() as connection:
            await connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(scope.role_name)))

    async def _ensure_role(self, role: str) -> None:
        async with self._database.provisioning() as connection:
            await connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (role,))
            cursor = await connection.execute(_ROLE_STATE, {"role": role, "login": self._login})
            found = await cursor.fetchone()
            if found is not None and found["enters"]:
                return
            create = sql.SQL("CREATE ROLE {} NOLOGIN IN ROLE {};").format(
                sql.Identifier(role), sql.Identifier(TENANT_GROUP_ROLE)
            )
            # PostgreSQL 16: who creates a role may administer it, but not become it, until granted so.
            enter = sql.SQL(
                # One statement: each reads all memberships anew, and an installation has thousands.
                "GRANT {role} TO CURRENT_USER, {login} WITH SET TRUE, INHERIT FALSE"
            ).format(role=sql.Identifier(role), login=sql.Identifier(self._login))
            await connection.execute(create + enter if found is None else enter, prepare=False)

    async def _ensure_schema(self, scope: TenantScope) -> None:
        async with self._database.provisioning() as connection:
            await connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (scope.schema_name,))
            # IF NOT EXISTS would take somebody else's schema for ours without a word.
            cursor = await connection.execute(_SCHEMA_OWNER, (scope.schema_name,))
            found = await cursor.fetchone()
            if found is None:
                await connection.execute(
                    sql.SQL("CREATE SCHEMA {} AUTHORIZATION {}").format(
                        sql.Identifier(scope.schema_name), sql.Identifier(scope.role_name)
                    )
                )
            elif found["owner"] != scope.role_name:
                raise SchemaTakenError

    async def _ensure_tables(self, scope: TenantScope) -> str:
        async with self._database.provisioning(role=scope.role_name, search_path=scope.schema_name) as connection:
            await connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (scope.schema_name,))
            revision = await revision_in(connection)
            if revision is None:
                await connection.execute(tenant_script().encode(), prepare=False)
                await connection.execute(_VERSION_TABLE)
                revision = head("tenant")
                await connection.execute("INSERT INTO alembic_version VALUES (%s)", (revision,))
            return revision


async def revision_in(connection: Connection) -> str | None:
    """Return the revision of the transaction's schema; None where its tables have not been made."""
    found = await (await connection.execute("SELECT to_regclass('alembic_version') IS NOT NULL AS found")).fetchone()
    if found is None or not found["found"]:
        return None
    row = await (await connection.execute("SELECT version_num FROM alembic_version")).fetchone()
    return None if row is None else str(row["version_num"])


async def control_revision(database: Database) -> str | None:
    """Return the revision of the control schema; None where there is none yet, or no way in.

    Raises
    ------
    UnavailableError
        The database cannot be reached.
    """
    try:
        async with database.control(readonly=True) as connection:
            return await revision_in(connection)
    except psycopg.Error:
        return None


def login_of(url: str) -> str:
    """Return the role that a connection URL logs in as."""
    return str(conninfo_to_dict(url).get("user", ""))
