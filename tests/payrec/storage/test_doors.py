"""The doors: nothing works outside of them, and each opens one place only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from psycopg import errors, sql

from payrec.embedded.postgres import ADMIN_ROLE, LOGIN_ROLE, EmbeddedDatabase
from payrec.errors import PayrecError, UnavailableError
from payrec.storage import database as doors
from payrec.storage.database import Connection, Database, shared_snapshot
from payrec.storage.rows import fetch_one
from support.places import Places, look, wait_for

pytestmark = pytest.mark.anyio

TABLES_OF_A_TENANT = (
    "job",
    "match",
    "leg",
    "allocation",
    "expected_transaction",
    "incoming_transaction",
    "audit_record",
)


async def rows(connection: Connection, query: str) -> list[tuple[object, ...]]:
    cursor = await connection.execute(query.encode())
    return [tuple(row.values()) for row in await cursor.fetchall()]


async def state_of_pool(database: Database) -> set[tuple[object, ...]]:
    """Return what both pooled connections think they are, outside of any door."""
    found = set()
    async with database._pool.connection() as one, database._pool.connection() as two:
        for connection in (one, two):
            [state] = await rows(
                connection,
                "SELECT current_user::text AS a, session_user::text AS b, current_setting('search_path') AS c,"
                " current_setting('transaction_read_only') AS d, current_setting('transaction_isolation') AS e,"
                " current_setting('role') AS f",
            )
            found.add(state)
    return found


CLEAN = {(LOGIN_ROLE, LOGIN_ROLE, '"$user", public', "off", "read committed", "none")}


@pytest.mark.usefixtures("places")
async def test_outside_a_door_a_query_finds_no_table(opened: Database) -> None:
    async with opened._pool.connection() as connection:
        for table in (*TABLES_OF_A_TENANT, "tenant", "app_user", "procrastinate_jobs", "alembic_version"):
            with pytest.raises(errors.UndefinedTable):
                await connection.execute(sql.SQL("SELECT 1 FROM {}").format(sql.Identifier(table)))


async def test_outside_a_door_a_qualified_name_is_denied(opened: Database, places: Places) -> None:
    async with opened._pool.connection() as connection:
        for schema, table in ((places.a.schema_name, "job"), ("control", "tenant"), ("jobs", "procrastinate_jobs")):
            with pytest.raises(errors.InsufficientPrivilege):
                await connection.execute(sql.SQL("SELECT 1 FROM {}").format(sql.Identifier(schema, table)))


def _tenant(database: Database, places: Places) -> AbstractAsyncContextManager[Connection]:
    return database.tenant(places.b)


def _control(database: Database, _places: Places) -> AbstractAsyncContextManager[Connection]:
    return database.control()


def _authentication(database: Database, _places: Places) -> AbstractAsyncContextManager[Connection]:
    return database.authentication()


@pytest.mark.parametrize(
    ("door", "statement"),
    [
        (_tenant, "SELECT 1 FROM control.tenant"),
        (_tenant, "SELECT 1 FROM control.app_user"),
        (_tenant, "SELECT 1 FROM control.api_key"),
        (_tenant, "SELECT 1 FROM control.idp_user"),
        (_tenant, "SELECT 1 FROM control.alembic_version"),
        (_tenant, "SELECT 1 FROM {a}.job"),
        (_tenant, "INSERT INTO {a}.change (id) VALUES (gen_random_uuid())"),
        (_tenant, "SELECT 1 FROM jobs.procrastinate_jobs"),
        (_tenant, "SELECT jobs.procrastinate_cancel_job_v1(1, false, false)"),
        (_tenant, "CREATE TABLE {a}.mine (id int)"),
        (_tenant, "CREATE SCHEMA mine"),
        (_tenant, "CREATE TABLE public.mine (id int)"),
        (_tenant, "CREATE ROLE mine"),
        (_control, "SELECT 1 FROM {a}.job"),
        (_control, "SELECT 1 FROM jobs.procrastinate_jobs"),
        (_control, "UPDATE alembic_version SET version_num = '0'"),
        (_control, "CREATE TABLE control.mine (id int)"),
        (_authentication, "SELECT 1 FROM {a}.job"),
        (_authentication, "SELECT 1 FROM idp_user"),
        (_authentication, "SELECT 1 FROM audit_record"),
        (_authentication, "SELECT 1 FROM jobs.procrastinate_jobs"),
    ],
)
async def test_the_wrong_door_is_denied(opened: Database, places: Places, door: Callable, statement: str) -> None:
    with pytest.raises(errors.InsufficientPrivilege):
        async with door(opened, places) as connection:
            await connection.execute(statement.format(a=places.a.schema_name).encode())


@pytest.mark.parametrize("door", ["tenant", "control", "authentication"])
async def test_a_readonly_door_writes_nothing(opened: Database, places: Places, door: str) -> None:
    statement = "INSERT INTO change (id) VALUES (gen_random_uuid())"
    if door == "tenant":
        context = opened.tenant(places.a, readonly=True)
    else:
        statement = "UPDATE tenant SET name = 'x'"
        context = opened.control(readonly=True) if door == "control" else opened.authentication()
    with pytest.raises((errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege)) as caught:
        async with context as connection:
            await connection.execute(statement.encode())
    assert door == "authentication" or caught.type is errors.ReadOnlySqlTransaction


@pytest.mark.not_on_citus("it plans no statement of several parts without the values")
async def test_what_is_planned_once_ends_with_the_door(opened: Database, places: Places) -> None:
    for planned_once, mode in ((True, "force_generic_plan"), (False, "auto")):
        async with opened.tenant(places.a, planned_once=planned_once) as connection:
            assert await rows(connection, "SHOW plan_cache_mode") == [(mode,)]
    assert await state_of_pool(opened) == CLEAN
    async with opened._pool.connection() as one, opened._pool.connection() as two:
        for connection in (one, two):
            assert await rows(connection, "SHOW plan_cache_mode") == [("auto",)]


async def test_the_control_door_reads_the_revision(opened: Database) -> None:
    async with opened.control(readonly=True) as connection:
        assert await rows(connection, "SELECT count(*) FROM alembic_version") == [(1,)]


async def test_a_door_leaves_nothing_on_its_connection(opened: Database, places: Places) -> None:
    async with opened.tenant(places.a, readonly=True, snapshot=True), opened.control():
        pass
    assert await state_of_pool(opened) == CLEAN


async def test_a_door_that_fails_leaves_nothing_on_its_connection(opened: Database, places: Places) -> None:
    for _ in range(2):
        with pytest.raises(errors.UndefinedTable):
            async with opened.tenant(places.a, readonly=True) as connection:
                await connection.execute("SELECT 1 FROM nothing_of_that_name")
    assert await state_of_pool(opened) == CLEAN


async def test_a_door_that_is_cancelled_leaves_nothing_behind(
    opened: Database, places: Places, addresses: EmbeddedDatabase
) -> None:
    async def work() -> None:
        async with opened.tenant(places.a) as connection:
            await connection.execute("INSERT INTO change (id) VALUES (gen_random_uuid())")
            await connection.execute("SELECT pg_sleep(60)")

    task = asyncio.create_task(work())
    await wait_for(addresses.superuser_url, "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await state_of_pool(opened) == CLEAN
    async with opened.tenant(places.a, readonly=True) as connection:
        assert await rows(connection, "SELECT count(*) FROM change") == [(0,)]


@pytest.mark.usefixtures("places")
async def test_the_login_role_owns_nothing_and_inherits_nothing(addresses: EmbeddedDatabase) -> None:
    url = addresses.superuser_url
    owned = (
        "SELECT oid FROM pg_class WHERE relowner = %s::regrole",
        "SELECT oid FROM pg_namespace WHERE nspowner = %s::regrole",
        "SELECT oid FROM pg_proc WHERE proowner = %s::regrole",
        "SELECT oid FROM pg_database WHERE datdba = %s::regrole",
    )
    for query in owned:
        assert await look(url, query, LOGIN_ROLE) == []
    attributes = (
        "SELECT rolinherit, rolsuper, rolcreaterole, rolcreatedb, rolbypassrls FROM pg_roles WHERE rolname = %s"
    )
    assert await look(url, attributes, LOGIN_ROLE) == [(False, False, False, False, False)]
    memberships = (
        "SELECT bool_or(inherit_option), bool_or(admin_option), bool_and(set_option), count(*) > 3"
        " FROM pg_auth_members WHERE member = %s::regrole"
    )
    assert await look(url, memberships, LOGIN_ROLE) == [(False, False, True, True)]


async def test_the_administrator_is_no_superuser(addresses: EmbeddedDatabase) -> None:
    query = "SELECT rolsuper, rolcreaterole, rolbypassrls FROM pg_roles WHERE rolname = %s"
    assert await look(addresses.superuser_url, query, ADMIN_ROLE) == [(False, True, False)]


@pytest.mark.usefixtures("places")
@pytest.mark.not_on_citus("it reaches its workers as the environment's role, which pg_hba.conf keeps to its nodes")
async def test_nobody_can_log_in_as_the_role_of_a_door(addresses: EmbeddedDatabase) -> None:
    query = "SELECT rolname FROM pg_roles WHERE rolcanlogin AND starts_with(rolname, 'payrec_') ORDER BY 1"
    assert await look(addresses.superuser_url, query) == [(ADMIN_ROLE,), (LOGIN_ROLE,)]


def _begin_without(part: str) -> Callable[..., bytes]:
    original = doors.beginning

    def begin(role: str, search_path: str, **given: Any) -> bytes:
        made = original(role, search_path, **given).decode().split("; ")
        kept = [s for s in made if part not in s]
        assert len(kept) == len(made) - 1
        return "; ".join(kept).encode()

    return begin


@pytest.mark.parametrize("table", ["job", "control.tenant"])
async def test_without_the_role_switch_everything_is_denied(
    opened: Database, places: Places, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    monkeypatch.setattr(doors, "beginning", _begin_without("SET LOCAL ROLE"))
    qualified = table if "." in table else f"{places.a.schema_name}.{table}"
    context = opened.control() if "." in table else opened.tenant(places.a)
    with pytest.raises(errors.InsufficientPrivilege):
        async with context as connection:
            await connection.execute(f"SELECT 1 FROM {qualified}".encode())  # noqa: S608 - our own names


async def test_without_the_search_path_no_table_is_found(
    opened: Database, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doors, "beginning", _begin_without("search_path"))
    for context, table in ((opened.tenant(places.a), b"job"), (opened.control(), b"tenant")):
        with pytest.raises(errors.UndefinedTable):
            async with context as connection:
                await connection.execute(b"SELECT 1 FROM " + table)


async def test_only_a_snapshot_is_read_by_several_processes(opened: Database, places: Places) -> None:
    for snapshot, alone in ((False, True), (True, False)):
        async with opened.tenant(places.a, readonly=True, snapshot=snapshot) as connection:
            row = await fetch_one(connection, "SELECT current_setting('max_parallel_workers_per_gather') AS workers")
            assert row is not None
            assert (row["workers"] == "0") is alone


async def _fail_and_go_on(database: Database, places: Places) -> None:
    async with database.tenant(places.a) as connection:
        await connection.execute("INSERT INTO change (id) VALUES (gen_random_uuid())")
        with pytest.raises(errors.UndefinedTable):
            await connection.execute("SELECT 1 FROM nothing_of_that_name")


async def test_a_commit_that_turns_into_a_rollback_is_an_error(opened: Database, places: Places) -> None:
    with pytest.raises(UnavailableError):
        await _fail_and_go_on(opened, places)
    assert await state_of_pool(opened) == CLEAN


async def _violate_at_commit(database: Database, places: Places) -> None:
    async with database.tenant(places.b) as connection:
        await connection.execute("CREATE TEMPORARY TABLE t (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
        await connection.execute("INSERT INTO t VALUES (1), (1)")


async def test_a_constraint_that_fails_at_commit_is_an_error(opened: Database, places: Places) -> None:
    with pytest.raises(errors.UniqueViolation):
        await _violate_at_commit(opened, places)
    assert await state_of_pool(opened) == CLEAN


async def test_a_violation_of_a_named_constraint_is_a_typed_error(opened: Database, places: Places) -> None:
    with pytest.raises(PayrecError) as caught:
        async with opened.tenant(places.a) as connection:
            await connection.execute(
                "INSERT INTO allocation"
                " (side, transaction_id, amount_minor, allocated_minor, status, version, updated_at)"
                " VALUES (1, gen_random_uuid(), 100, 101, 'matched', 1, now())"
            )
    assert caught.value.code == "already_matched"


async def test_a_snapshot_sees_the_data_of_one_instant(opened: Database, places: Places) -> None:
    async with opened.tenant(places.b, readonly=True, snapshot=True) as reader:
        before = await rows(reader, "SELECT count(*) FROM change")
        async with opened.tenant(places.b) as writer:
            await writer.execute("INSERT INTO change (id) VALUES (gen_random_uuid())")
        assert await rows(reader, "SELECT count(*) FROM change") == before


async def tried(door: AbstractAsyncContextManager[Connection], query: str) -> None:
    async with door as connection:
        await connection.execute(query.encode())


@pytest.mark.not_on_citus("a view of the coordinator's is none of a worker's; a run reads with one connection")
async def test_another_transaction_sees_the_same_instant_and_no_other_tenant(opened: Database, places: Places) -> None:
    count = "SELECT count(*) FROM change"
    of_others = f"SELECT 1 FROM {places.b.schema_name}.change"  # noqa: S608 - our own name
    async with opened.tenant(places.b, readonly=True, snapshot=True) as reader:
        before = await rows(reader, count)
        view = await shared_snapshot(reader)
        async with opened.tenant(places.b) as writer:
            await writer.execute("INSERT INTO change (id) VALUES (gen_random_uuid())")
        async with opened.tenant(places.b, readonly=True, snapshot=view) as other:
            assert await rows(other, count) == before
        with pytest.raises(errors.ReadOnlySqlTransaction):
            await tried(opened.tenant(places.b, readonly=True, snapshot=view), "DELETE FROM change")
        with pytest.raises(errors.InsufficientPrivilege):
            await tried(opened.tenant(places.a, readonly=True, snapshot=view), of_others)
    with pytest.raises(errors.Error):
        await tried(opened.tenant(places.b, readonly=True, snapshot=view), "SELECT 1")
    # The connection of a door that did not open is as good as any.
    await tried(opened.tenant(places.b), "SELECT 1")
