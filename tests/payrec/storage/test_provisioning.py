"""Provisioning: three committed steps, each of which may be the last one before a crash."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from psycopg import sql

from payrec.domain.scope import TenantScope
from payrec.embedded.postgres import EmbeddedDatabase
from payrec.errors import SchemaConflictError
from payrec.storage import provisioning, tenant_resources
from payrec.storage.database import Database
from payrec.storage.ddl import tenant_tables
from payrec.storage.migrations import head
from payrec.storage.provisioning import Provisioner
from support.places import Places, look, new_scope, wait_for

pytestmark = pytest.mark.anyio


class CrashError(Exception):
    """The process ends here."""


async def _exists(addresses: EmbeddedDatabase, scope: TenantScope) -> tuple[bool, bool, int]:
    """Return whether role and schema exist, and how many tables there are."""
    query = (
        "SELECT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = %s),"
        " EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = %s),"
        " (SELECT count(*)::int FROM pg_tables WHERE schemaname = %s)"
    )
    [row] = await look(addresses.superuser_url, query, scope.role_name, scope.schema_name, scope.schema_name)
    return row


async def _works(database: Database, scope: TenantScope) -> None:
    async with database.tenant(scope) as connection:
        await connection.execute("INSERT INTO change (id) VALUES (gen_random_uuid())")


@pytest.mark.parametrize("last_step", ["nothing", "_ensure_role", "_ensure_schema", "_ensure_tables"])
async def test_what_stops_between_two_steps_is_finished_by_trying_again(
    opened: Database, provisioner: Provisioner, monkeypatch: pytest.MonkeyPatch, last_step: str
) -> None:
    scope = new_scope(f"crash-{last_step.strip('_').replace('_', '-')}")
    with monkeypatch.context() as patched:
        if last_step == "nothing":

            async def crash(*_: object) -> None:
                raise CrashError

            patched.setattr(provisioner, "_ensure_role", crash)
        else:
            step = getattr(provisioner, last_step)

            async def crash(*given: object) -> None:
                await step(*given)
                raise CrashError

            patched.setattr(provisioner, last_step, crash)
        with pytest.raises(CrashError):
            await provisioner.ensure(scope)
    assert (await provisioner.ensure(scope)).revision == head("tenant")
    await _works(opened, scope)


async def test_tables_are_made_all_or_none(
    opened: Database,
    addresses: EmbeddedDatabase,
    provisioner: Provisioner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scope = new_scope("half")
    with monkeypatch.context() as patched:
        patched.setattr(provisioning, "_VERSION_TABLE", "this is no SQL")
        with pytest.raises(psycopg.errors.SyntaxError):
            await provisioner.ensure(scope)
    assert await _exists(addresses, scope) == (True, True, 0)
    await provisioner.ensure(scope)
    await _works(opened, scope)


async def test_a_role_that_the_login_cannot_enter_yet_is_opened_to_it(
    opened: Database, addresses: EmbeddedDatabase, provisioner: Provisioner
) -> None:
    scope = new_scope("other-login")
    await provisioner.ensure(scope)
    async with await psycopg.AsyncConnection.connect(addresses.superuser_url) as connection:
        await connection.execute(
            sql.SQL("REVOKE {} FROM payrec_service GRANTED BY payrec_admin").format(sql.Identifier(scope.role_name))
        )
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        await _works(opened, scope)
    await provisioner.ensure(scope)
    await _works(opened, scope)


@pytest.mark.not_on_citus(
    "tables take seconds to make, and who waits for them is told after ten that there is no connection"
)
async def test_several_at_once_make_one_schema(opened: Database, provisioner: Provisioner) -> None:
    scope = new_scope("crowd")
    made = await asyncio.gather(*(provisioner.ensure(scope) for _ in range(4)))
    assert {m.revision for m in made} == {head("tenant")}
    await _works(opened, scope)


async def test_again_changes_nothing(opened: Database, provisioner: Provisioner) -> None:
    scope = new_scope("again")
    await provisioner.ensure(scope)
    await _works(opened, scope)
    await provisioner.ensure(scope)
    async with opened.tenant(scope) as connection:
        cursor = await connection.execute("SELECT count(*) AS count FROM change")
        assert await cursor.fetchone() == {"count": 1}


@pytest.mark.parametrize(
    "query", [provisioning._OWN_UNUSABLE_TABLES, provisioning._HAS_TABLES, tenant_resources._SOUND]
)
async def test_one_schema_is_looked_at_and_not_what_all_others_have(
    opened: Database, places: Places, query: str
) -> None:
    scope = places.a
    names = {
        "environments": [scope.environment], "schemas": [scope.schema_name], "roles": [scope.role_name],
        "revisions": [head("tenant")], "schema": scope.schema_name, "head": head("tenant"),
        "tables": list(tenant_tables()),
    }  # fmt: skip
    async with opened.provisioning() as connection:
        cursor = await connection.execute(f"EXPLAIN {query}", names)
        plan = [line["QUERY PLAN"] for line in await cursor.fetchall()]
    assert any("pg_class" in line for line in plan)
    assert not any("Seq Scan on pg_class" in line for line in plan), "\n".join(plan)


@pytest.mark.parametrize("owner", ["payrec_admin", "tenant"])
async def test_a_schema_that_belongs_to_somebody_else_is_refused(
    addresses: EmbeddedDatabase, provisioner: Provisioner, places: Places, owner: str
) -> None:
    scope = new_scope(f"theirs-{owner.replace('_', '-')}")
    role = places.a.role_name if owner == "tenant" else owner
    async with await psycopg.AsyncConnection.connect(addresses.superuser_url) as connection:
        await connection.execute(
            sql.SQL("CREATE SCHEMA {} AUTHORIZATION {}").format(sql.Identifier(scope.schema_name), sql.Identifier(role))
        )
    with pytest.raises(SchemaConflictError) as caught:
        await provisioner.ensure(scope)
    assert caught.value.code == "slug_taken"
    assert await _exists(addresses, scope) == (True, True, 0)
    await provisioner.drop(scope)
    assert await _exists(addresses, scope) == (False, True, 0)


async def test_dropping_leaves_nothing_of_it_and_all_of_the_others(
    opened: Database, addresses: EmbeddedDatabase, provisioner: Provisioner, places: Places
) -> None:
    scope = new_scope("gone")
    await provisioner.ensure(scope)
    await provisioner.drop(scope)
    assert await _exists(addresses, scope) == (False, False, 0)
    await _works(opened, places.a)


async def test_dropping_goes_on_where_it_stopped(
    opened: Database, addresses: EmbeddedDatabase, provisioner: Provisioner
) -> None:
    scope = new_scope("half-gone")
    await provisioner.drop(scope)
    await provisioner.ensure(scope)
    async with opened.provisioning(role=scope.role_name) as connection:
        await connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(scope.schema_name)))
    await provisioner.drop(scope)
    await provisioner.drop(scope)
    assert await _exists(addresses, scope) == (False, False, 0)


@pytest.mark.not_on_citus(
    "it looks for circles itself, and may break off whoever works there: a request is told to come again"
)
async def test_dropping_begins_again_when_it_and_whoever_still_works_there_wait_for_each_other(
    addresses: EmbeddedDatabase, provisioner: Provisioner
) -> None:
    scope = new_scope("busy")
    await provisioner.ensure(scope)
    # Dropping has locked this one, and all others of which the name comes before the second one's, when it waits there.
    wanted, held = (f"{scope.schema_name}.{table}" for table in ("account", "outbox"))
    async with await psycopg.AsyncConnection.connect(addresses.superuser_url) as working:
        # The first to have waited for long enough finds the circle, and is broken off.
        await working.execute("SET LOCAL deadlock_timeout = '1min'")
        await working.execute(f"SELECT FROM {held}".encode())
        dropping = asyncio.create_task(provisioner.drop(scope))
        waiting = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = to_regclass(%s)"
        await wait_for(addresses.superuser_url, waiting, held)
        await working.execute(f"SELECT FROM {wanted}".encode())
    await dropping
    assert await _exists(addresses, scope) == (False, False, 0)


async def test_the_tables_belong_to_the_environment_s_role(addresses: EmbeddedDatabase, places: Places) -> None:
    query = "SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = %s"
    assert await look(addresses.superuser_url, query, places.a.schema_name) == [(places.a.role_name,)]
