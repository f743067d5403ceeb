"""A tenant environment in three committed, idempotent steps: role; schema; tables, created as the owning role.

Committed apart, so that the same steps work where schemas are distributed and one transaction does not span them, and
so that whatever stops in the middle is finished by calling again. Each step mends what it finds otherwise than it
made it; what belongs to somebody else it never touches.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from payrec.domain.scope import TenantScope
from payrec.errors import (
    PayrecError,
    ProvisioningDeniedError,
    SchemaConflictError,
    SchemaNotOwnedError,
    UnavailableError,
)
from payrec.storage.beginnings import MEMBERSHIPS_ANEW
from payrec.storage.citus import GRANTS_HERE, admit_administrator
from payrec.storage.database import TENANT_GROUP_ROLE, Connection, Database
from payrec.storage.ddl import tenant_script, tenant_statements, tenant_tables
from payrec.storage.loading import ContendedError
from payrec.storage.migrations import head

DROPS_MAX: Final = 5
"""How often dropping a schema is begun: it locks table after table, and whoever still works there may have others."""

_ROLE_STATE: Final = f"""
    SELECT pg_has_role(%(login)s, oid, 'SET') AS enters, pg_has_role(current_user, oid, 'SET') AS administers,
        pg_has_role(oid, '{TENANT_GROUP_ROLE}', 'USAGE') AS belongs
    FROM pg_roles WHERE rolname = %(role)s
"""  # noqa: S608 - a constant of ours
_SCHEMA_OWNER: Final = "SELECT pg_get_userbyid(nspowner) AS owner FROM pg_namespace WHERE nspname = %s"
_SCHEMA_USABLE: Final = (
    "SELECT has_schema_privilege(%(schema)s, 'USAGE') AND has_schema_privilege(%(schema)s, 'CREATE') AS usable"
)
_SCHEMA: Final = "(SELECT oid FROM pg_namespace WHERE nspname = %(schema)s)"
# Every table depends on its schema, and what depends has an index. pg_class has none that begins with the schema, and
# there are all tables of thousands of environments.
_TABLES: Final = """
    pg_depend d JOIN pg_class c ON c.oid = d.objid AND c.relkind IN ('r', 'p')
    WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = {schema} AND d.classid = 'pg_class'::regclass
"""
UNUSABLE_TABLES: Final = f"""
    SELECT c.relname FROM {_TABLES} AND c.relacl IS NOT NULL AND NOT (
        has_table_privilege({{role}}, c.oid, 'SELECT') AND has_table_privilege({{role}}, c.oid, 'INSERT')
        AND has_table_privilege({{role}}, c.oid, 'UPDATE') AND has_table_privilege({{role}}, c.oid, 'DELETE'))
"""  # noqa: S608 - our own text
"""Tables of a schema that its role cannot use; without grants of anybody a table is open to its owner."""
_OWN_UNUSABLE_TABLES: Final = UNUSABLE_TABLES.format(schema=_SCHEMA, role="current_user")
MISSING_TABLES: Final = f"""
    SELECT w.name FROM unnest(%(tables)s::text[]) AS w (name)
    WHERE NOT EXISTS (SELECT FROM {_TABLES} AND c.relname = w.name)
"""  # noqa: S608 - our own text
"""Tables of the head that a schema does not have."""
_OWN_MISSING_TABLES: Final = MISSING_TABLES.format(schema=_SCHEMA)
_HAS_TABLES: Final = f"""
    SELECT EXISTS (
        SELECT FROM {_TABLES.format(schema=_SCHEMA)} AND c.relname <> 'alembic_version'
    ) AS found
"""  # noqa: S608 - our own text
_HAS_VERSION: Final = f"""
    SELECT EXISTS (
        SELECT FROM pg_class WHERE relnamespace = {_SCHEMA} AND relkind = 'r' AND relname = 'alembic_version'
    ) AS found
"""  # noqa: S608 - our own text
_VERSION_TABLE: Final = (
    "CREATE TABLE alembic_version (version_num varchar(32) NOT NULL,"
    " CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)


class SchemaMissingError(PayrecError):
    """The registry says that the environment has tables, and they are not there. Nothing is made in their place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provisioned:
    """An environment as it is after all steps."""

    revision: str
    corrected: tuple[str, ...]
    """What was not as it should be: ``role``, ``membership``, ``schema``, ``grants``, ``version_table``."""


class Provisioner:
    """Makes roles and schemas. ``login`` is the role that the service's connections log in as."""

    def __init__(self, database: Database, *, login: str) -> None:
        self._database = database
        self._login = login

    async def ensure(self, scope: TenantScope, *, revision: str | None = None) -> Provisioned:
        """Make what is missing of the environment, and mend what has been changed by hand.

        ``revision`` is the one that the tables are known to have, if they were there before.

        Raises
        ------
        SchemaConflictError
            The schema exists and is not the environment's own, or has tables of which nobody knows the revision, or
            lacks some of its tables.
        ProvisioningDeniedError
        """
        corrected = await self._ensure_role(scope.role_name)
        corrected += await self._ensure_schema(scope)
        found, mended = await self._ensure_tables(scope, revision)
        # What is made for the first time is no correction.
        return Provisioned(revision=found, corrected=corrected + mended if revision is not None else ())

    async def make_empty(self, scope: TenantScope) -> None:
        """Make the role and the schema without tables, for those of a backup.

        Raises
        ------
        SchemaConflictError, ProvisioningDeniedError
        """
        await self._ensure_role(scope.role_name)
        await self._ensure_schema(scope)

    async def check_free(self, schema_names: Sequence[str]) -> None:
        """Look whether schemas of these names exist, before a tenant is registered for them.

        Raises
        ------
        SchemaNotOwnedError
        """
        async with self._database.provisioning() as connection:
            cursor = await connection.execute(
                "SELECT 1 FROM pg_namespace WHERE nspname = ANY(%s) LIMIT 1", (list(schema_names),)
            )
            if await cursor.fetchone() is not None:
                raise SchemaNotOwnedError

    async def owner_of(self, schema: str) -> str | None:
        """Return the role that a schema belongs to; None where there is no such schema."""
        async with self._database.provisioning() as connection:
            return await owner_of(connection, schema)

    async def drop(self, scope: TenantScope) -> None:
        """Drop the schema with all that is in it, and its role. There is no way back.

        Somebody else's schema of that name stays, and what an earlier try has dropped is no error.
        """
        await self.drop_schema(scope.schema_name, scope.role_name)
        # A tombstone of the environment may need the role still, and drops it then.
        with contextlib.suppress(psycopg.errors.DependentObjectsStillExist):
            async with self._database.provisioning() as connection:
                await connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(scope.role_name)))

    async def drop_schema(self, schema: str, role: str) -> None:
        """Drop a schema with all that is in it, if it is there and the role's.

        Raises
        ------
        UnavailableError
            Whoever still works in it is in the way again and again.
        """
        for _ in range(DROPS_MAX):
            if await self.owner_of(schema) != role:
                return
            with contextlib.suppress(ContendedError):
                async with self._database.provisioning(role=role) as connection:
                    await _drop(connection, schema)
                return
        raise UnavailableError("the schema is in use")

    async def _ensure_role(self, role: str) -> tuple[str, ...]:
        async with self._database.provisioning() as connection:
            corrected = await self._make_role(connection, role)
        if connection.is_distributed:
            async with self._database.provisioning() as connection:
                await admit_administrator(connection, role)
        return corrected

    async def _make_role(self, connection: Connection, role: str) -> tuple[str, ...]:
        await connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (role,))
        cursor = await connection.execute(_ROLE_STATE, {"role": role, "login": self._login})
        found = await cursor.fetchone()
        names = {
            "role": sql.Identifier(role),
            "group": sql.Identifier(TENANT_GROUP_ROLE),
            "login": sql.Identifier(self._login),
        }
        # Citus reaches its workers as the current role.
        option = sql.SQL("LOGIN" if connection.is_distributed else "NOLOGIN")
        create = sql.SQL("CREATE ROLE {role} {option} IN ROLE {group};").format(option=option, **names)
        # PostgreSQL 16: who creates a role may administer it, but not become it, until granted so.
        # One statement: each reads all memberships anew, and an installation has thousands.
        enter = sql.SQL("GRANT {role} TO CURRENT_USER, {login} WITH SET TRUE, INHERIT FALSE").format(**names)
        if connection.is_distributed:
            enter = sql.SQL(GRANTS_HERE) + enter
        if found is None:
            await connection.execute(create + enter, prepare=False)
            return ("role",)
        if not found["belongs"]:
            await connection.execute(sql.SQL("GRANT {group} TO {role} WITH INHERIT TRUE").format(**names))
        if not (found["enters"] and found["administers"]):
            await connection.execute(enter, prepare=False)
        whole = found["enters"] and found["administers"] and found["belongs"]
        return () if whole else ("membership",)

    async def _ensure_schema(self, scope: TenantScope) -> tuple[str, ...]:
        try:
            return await self._make_schema(scope)
        except ProvisioningDeniedError:
            # The session may have a list of its memberships without this role (``MEMBERSHIPS_ANEW``).
            return await self._make_schema(scope, again=True)

    async def _make_schema(self, scope: TenantScope, *, again: bool = False) -> tuple[str, ...]:
        async with self._database.provisioning() as connection:
            await connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (scope.schema_name,))
            if again:
                await connection.execute(MEMBERSHIPS_ANEW)
            # IF NOT EXISTS would take somebody else's schema for ours without a word.
            owner = await owner_of(connection, scope.schema_name)
            if owner is None:
                await connection.execute(
                    sql.SQL("CREATE SCHEMA {} AUTHORIZATION {}").format(
                        sql.Identifier(scope.schema_name), sql.Identifier(scope.role_name)
                    )
                )
                return ("schema",)
            if owner != scope.role_name:
                raise SchemaConflictError
            return ()

    async def _ensure_tables(self, scope: TenantScope, known: str | None) -> tuple[str, tuple[str, ...]]:
        async with self._database.provisioning(role=scope.role_name, search_path=scope.schema_name) as connection:
            await connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (scope.schema_name,))
            corrected = await _open(connection, scope.schema_name)
            revision = await revision_in(connection)
            if revision is not None:
                await _check_tables(connection, scope.schema_name, revision)
                return revision, corrected
            if await _tells(connection, _HAS_TABLES, scope.schema_name):
                if known is None:
                    raise SchemaConflictError(
                        "the schema has tables and no alembic_version that says which: it was not made by payrec, or"
                        " not restored whole"
                    )
                await _check_tables(connection, scope.schema_name, known)
                corrected += ("version_table",)
                revision = known
            else:
                # Citus passes on what was sent, and a worker takes one statement at a time.
                for part in tenant_statements() if connection.is_distributed else (tenant_script(),):
                    await connection.execute(part.encode(), prepare=False)
                await connection.execute("INSERT INTO history_span DEFAULT VALUES")
                revision = head("tenant")
            await connection.execute(sql.SQL("DROP TABLE IF EXISTS alembic_version"))
            await connection.execute(_VERSION_TABLE)
            await connection.execute("INSERT INTO alembic_version VALUES (%s)", (revision,))
            return revision, corrected


async def owner_of(connection: Connection, schema: str) -> str | None:
    """Return the role that a schema belongs to; None where there is no such schema."""
    found = await (await connection.execute(_SCHEMA_OWNER, (schema,))).fetchone()
    return None if found is None else str(found["owner"])


async def _drop(connection: Connection, schema: str) -> None:
    try:
        await connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))
    except psycopg.errors.DeadlockDetected as error:
        raise ContendedError from error


async def has_unknown_tables(connection: Connection, schema: str) -> bool:
    """Tell whether the schema has tables and none that says of which revision: payrec makes both in one transaction."""
    has_tables = await _tells(connection, _HAS_TABLES, schema)
    return has_tables and not await _tells(connection, _HAS_VERSION, schema)


async def _tells(connection: Connection, query: str, schema: str) -> bool:
    found = await (await connection.execute(query, {"schema": schema})).fetchone()
    return found is not None and bool(found["found"])


async def _open(connection: Connection, schema: str) -> tuple[str, ...]:
    """Give the owner back what somebody has revoked; an owner may always grant to itself."""
    corrected = False
    names = {"schema": schema}
    usable = await (await connection.execute(_SCHEMA_USABLE, names)).fetchone()
    if usable is not None and not usable["usable"]:
        grant = sql.SQL("GRANT ALL ON SCHEMA {} TO CURRENT_USER").format(sql.Identifier(schema))
        await connection.execute(grant)
        corrected = True
    for row in await (await connection.execute(_OWN_UNUSABLE_TABLES, names)).fetchall():
        table = sql.Identifier(schema, row["relname"])
        await connection.execute(sql.SQL("GRANT ALL ON TABLE {} TO CURRENT_USER").format(table))
        corrected = True
    return ("grants",) if corrected else ()


async def _check_tables(connection: Connection, schema: str, revision: str) -> None:
    """Refuse a schema of the head that lacks tables: empty ones in their place would hide what is lost.

    Raises
    ------
    SchemaConflictError
    """
    if revision != head("tenant"):
        return
    parameters = {"schema": schema, "tables": list(tenant_tables())}
    missing = [row["name"] for row in await (await connection.execute(_OWN_MISSING_TABLES, parameters)).fetchall()]
    if missing:
        raise SchemaConflictError(
            f"the schema lacks tables that payrec made there: {', '.join(missing)}. Restore them from a backup; nothing"
            " is made in their place. A schema that is dropped as a whole is made anew, empty"
        )


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
