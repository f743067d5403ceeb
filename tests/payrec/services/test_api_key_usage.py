"""When keys were last used, and under which pepper they are stored: written later, never lost, never undone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from payrec.constants import API_KEY_USES_NOTED_MAX
from payrec.domain import keys
from payrec.embedded.postgres import EmbeddedDatabase, EmbeddedPostgres
from payrec.services.api_key_usage import ApiKeyUsage
from payrec.storage.database import Database
from support.places import look
from support.postgres import cloned
from support.service import PEPPER, Service, Tenant, make_config, running
from support.wire import add_key, ask, code, in_control, until

PATH = "/auth/api-keys"
LIST = "/expected-transactions"
NEW_PEPPER = "a newer pepper of 32 bytes or more"
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def shared(postgres: EmbeddedPostgres) -> Iterator[EmbeddedDatabase]:
    with cloned(postgres) as made:
        yield made


@asynccontextmanager
async def opened(database: EmbeddedDatabase) -> AsyncIterator[Database]:
    made = Database(url=database.url)
    await made.open()
    try:
        yield made
    finally:
        await made.close()


async def fill(database: EmbeddedDatabase, count: int) -> list[UUID]:
    """Put keys of a tenant of their own into the database; their digest is 32 times x."""
    tenant = uuid4()
    await look(
        database.superuser_url,
        "INSERT INTO control.tenant (id, slug, name, status, created_at, updated_at)"
        " VALUES (%s, %s, 'T', 'active', now(), now())",
        tenant,
        f"t{tenant.hex[:20]}",
    )
    rows = await look(
        database.superuser_url,
        "INSERT INTO control.api_key"
        " (id, public_id, tenant_id, environment, digest, read, write, created_by, created_at)"
        " SELECT gen_random_uuid(), gen_random_uuid()::text, %s, 'test', convert_to(repeat('x', 32), 'UTF8'), true,"
        " false, 'test', now() FROM generate_series(1, %s) RETURNING id",
        tenant,
        count,
    )
    return [row[0] for row in rows]


async def stored(database: EmbeddedDatabase, key_ids: list[UUID]) -> list[tuple[datetime | None, bytes]]:
    """Return last use and digest of keys, in the order of the ids."""
    rows = await look(
        database.superuser_url,
        "SELECT last_used_at, digest FROM control.api_key"
        " JOIN unnest(%s::uuid[]) WITH ORDINALITY AS w (id, n) USING (id) ORDER BY n",
        key_ids,
    )
    return [(row[0], bytes(row[1])) for row in rows]


def headers(tenant: Tenant, key: dict[str, Any]) -> dict[str, str]:
    return {"X-Tenant-Id": tenant.id, "X-Environment": key["environment"], "X-Api-Key": key["apiKey"]}


@pytest.mark.anyio
async def test_what_was_just_used_shows_when_keys_are_read(acme: Tenant, globex: Tenant) -> None:
    used, unused, theirs = await add_key(acme), await add_key(acme), await add_key(globex)
    before = datetime.now(UTC)
    assert (await ask(acme, "GET", LIST, headers(acme, used))).status_code == 200
    listed = {key["id"]: key for key in (await acme.get(PATH, params={"limit": 200})).json()["data"]}
    first = datetime.fromisoformat(listed[used["id"]]["lastUsedAt"])
    assert before <= first <= datetime.now(UTC)
    assert listed[unused["id"]]["lastUsedAt"] is None
    assert (await globex.get(f"{PATH}/{theirs['id']}")).json()["lastUsedAt"] is None
    assert (await ask(acme, "POST", LIST, headers(acme, used), json={})).status_code == 422
    got = (await acme.get(f"{PATH}/{used['id']}")).json()
    assert datetime.fromisoformat(got["lastUsedAt"]) > first


@pytest.mark.anyio
async def test_a_key_that_is_refused_was_not_used(service: Service, acme: Tenant) -> None:
    revoked, expired, known = await add_key(acme), await add_key(acme), await add_key(acme)
    await in_control(service, "UPDATE api_key SET revoked_at = now() WHERE id = %s", revoked["id"])
    await in_control(service, "UPDATE api_key SET expires_at = now() WHERE id = %s", expired["id"])
    value = keys.parse(known["apiKey"])
    wrong = {**known, "apiKey": keys.ApiKeyValue(public_id=value.public_id, secret="0" * 43).text}
    for key, expected in (
        (revoked, "revoked_credentials"),
        (expired, "expired_credentials"),
        (wrong, "invalid_credentials"),
    ):
        assert code(await ask(acme, "GET", LIST, headers(acme, key))) == expected
        assert (await acme.get(f"{PATH}/{key['id']}")).json()["lastUsedAt"] is None


@pytest.mark.anyio
async def test_uses_are_written_again_and_again_and_at_the_end(shared: EmbeddedDatabase) -> None:
    one, other = await fill(shared, 2)

    async def written() -> bool | None:
        return (await stored(shared, [one]))[0][0] == NOW or None

    async with opened(shared) as database:
        usage = ApiKeyUsage(database=database)
        async with usage.flushed(every_seconds=0.01):
            usage.note(one, at=NOW, digest=None)
            await until(written)
        async with usage.flushed(every_seconds=3600):
            usage.note(other, at=NOW, digest=None)
        assert (await stored(shared, [other]))[0][0] == NOW


@pytest.mark.anyio
async def test_a_service_that_ends_writes_what_it_knows(postgres: EmbeddedPostgres) -> None:
    with cloned(postgres) as database:
        async with running(make_config(database), worker=False) as service:
            tenant = await service.tenant("ending")
            key = await add_key(tenant)
            assert (await ask(tenant, "GET", LIST, headers(tenant, key))).status_code == 200
            assert (await stored(database, [UUID(key["id"])]))[0][0] is None
        assert (await stored(database, [UUID(key["id"])]))[0][0] is not None


notes = st.tuples(st.integers(0, 2), st.integers(-5, 5), st.sampled_from([None, b"a" * 32, b"b" * 32]))
steps_of_two = st.lists(st.tuples(st.integers(0, 1), st.none() | notes), max_size=12)


@given(steps=steps_of_two)
@settings(max_examples=25, deadline=None)
def test_the_last_use_is_the_latest_whoever_writes_it_when(
    shared: EmbeddedDatabase, steps: list[tuple[int, tuple[int, int, bytes | None] | None]]
) -> None:
    """Two processes note uses of three keys (their clocks may go back) and write them at any time."""

    async def run() -> None:
        key_ids = await fill(shared, 3)
        expected: dict[UUID, tuple[datetime | None, bytes]] = dict.fromkeys(key_ids, (None, b"x" * 32))
        async with opened(shared) as database:
            usages = [ApiKeyUsage(database=database) for _ in range(2)]
            pending: list[dict[UUID, tuple[datetime, bytes | None]]] = [{}, {}]
            for process, step in [*steps, (0, None), (1, None)]:
                if step is not None:
                    key_id, at, digest = key_ids[step[0]], NOW + timedelta(minutes=step[1]), step[2]
                    usages[process].note(key_id, at=at, digest=digest)
                    pending[process][key_id] = (at, digest)
                    continue
                await usages[process].flush()
                for key_id, (at, digest) in pending[process].items():
                    before, present = expected[key_id]
                    expected[key_id] = (max(before or at, at), digest or present)
                pending[process].clear()
        assert await stored(shared, key_ids) == list(expected.values())

    asyncio.run(run())


@pytest.mark.anyio
async def test_a_use_that_tells_nothing_new_writes_nothing(shared: EmbeddedDatabase) -> None:
    [key_id] = await fill(shared, 1)
    versions = set()
    async with opened(shared) as database:
        usage = ApiKeyUsage(database=database)
        for minute in (0, -1, 0):
            usage.note(key_id, at=NOW + timedelta(minutes=minute), digest=b"n" * 32)
            await usage.flush()
            versions.update(await look(shared.superuser_url, "SELECT xmin FROM control.api_key WHERE id = %s", key_id))
        assert len(versions) == 1
        # A new digest is written, and the earlier use that brings it is no later one.
        usage.note(key_id, at=NOW - timedelta(minutes=1), digest=b"m" * 32)
        await usage.flush()
    assert await stored(shared, [key_id]) == [(NOW, b"m" * 32)]


@pytest.mark.anyio
async def test_what_cannot_be_written_is_kept_and_complained_of_once(database: EmbeddedDatabase) -> None:
    one, other = await fill(database, 2)
    async with opened(database) as opened_database:
        usage = ApiKeyUsage(database=opened_database)
        await look(database.superuser_url, "ALTER TABLE control.api_key RENAME TO elsewhere")
        usage.note(one, at=NOW, digest=b"n" * 32)
        with capture_logs() as logs:
            await usage.flush()
            usage.note(other, at=NOW, digest=None)
            await usage.flush()
        assert [(line["event"], line["log_level"]) for line in logs] == [("api_key_usage.not_written", "warning")]
        await look(database.superuser_url, "ALTER TABLE control.elsewhere RENAME TO api_key")
        with capture_logs() as logs:
            await usage.flush()
        assert logs == []
        assert await stored(database, [one, other]) == [(NOW, b"n" * 32), (NOW, b"x" * 32)]


@pytest.mark.anyio
async def test_what_another_transaction_holds_is_neither_waited_for_nor_lost(shared: EmbeddedDatabase) -> None:
    held, free = await fill(shared, 2)
    gone = uuid4()
    async with opened(shared) as database:
        usage = ApiKeyUsage(database=database)
        for key_id in (held, free, gone):
            usage.note(key_id, at=NOW, digest=None)
        async with database.control() as connection:
            await connection.execute("SELECT 1 FROM api_key WHERE id = %s FOR NO KEY UPDATE", (held,))
            async with asyncio.timeout(10):
                await usage.flush()
            assert [use for use, _ in await stored(shared, [held, free])] == [None, NOW]
        await usage.flush()
        assert [use for use, _ in await stored(shared, [held, free])] == [NOW, NOW]
        assert usage._noted == {}


@pytest.mark.anyio
async def test_replicas_that_write_the_same_keys_at_once_get_along(shared: EmbeddedDatabase) -> None:
    key_ids = await fill(shared, 200)
    async with opened(shared) as database:
        usages = [ApiKeyUsage(database=database) for _ in range(6)]
        for number in range(5):
            for position, usage in enumerate(usages):
                for key_id in key_ids if position % 2 else reversed(key_ids):
                    usage.note(key_id, at=NOW + timedelta(minutes=number), digest=bytes([number]) * 32)
            with capture_logs() as logs:
                await asyncio.gather(*(usage.flush() for usage in usages))
            assert logs == []
        await asyncio.gather(*(usage.flush() for usage in usages))
    assert set(await stored(shared, key_ids)) == {(NOW + timedelta(minutes=4), b"\x04" * 32)}


@pytest.mark.anyio
async def test_a_flush_that_is_given_up_loses_nothing(shared: EmbeddedDatabase) -> None:
    [key_id] = await fill(shared, 1)
    async with opened(shared) as database:
        usage = ApiKeyUsage(database=database)
        usage.note(key_id, at=NOW, digest=None)
        async with database.control() as connection:
            await connection.execute("LOCK TABLE api_key IN ACCESS EXCLUSIVE MODE")
            flush = asyncio.create_task(usage.flush())

            async def waits() -> bool | None:
                return usage._noted == {} or None

            await until(waits)
            later = NOW + timedelta(seconds=1)
            usage.note(key_id, at=later, digest=None)
            flush.cancel()
            with pytest.raises(asyncio.CancelledError):
                await flush
        await usage.flush()
        assert (await stored(shared, [key_id]))[0][0] == later


def test_one_process_remembers_a_bounded_number_of_keys() -> None:
    usage = ApiKeyUsage(database=Database(url="postgresql://nowhere"))
    key_ids = [uuid4() for _ in range(API_KEY_USES_NOTED_MAX + 5)]
    for key_id in key_ids:
        usage.note(key_id, at=NOW, digest=None)
    assert len(usage._noted) == API_KEY_USES_NOTED_MAX
    usage.note(key_ids[0], at=NOW + timedelta(seconds=1), digest=None)
    assert usage._noted[key_ids[0]] == (NOW + timedelta(seconds=1), None)


@pytest.mark.anyio
async def test_a_pepper_is_replaced_without_a_key_that_is_used_noticing(postgres: EmbeddedPostgres) -> None:
    with cloned(postgres) as database:
        async with running(make_config(database), worker=False) as service:
            tenants = [await service.tenant("rotating"), await service.tenant("resting")]
            used, unused = await add_key(tenants[0]), await add_key(tenants[0])
            theirs = await add_key(tenants[1])
        both = make_config(database, api_key_pepper=NEW_PEPPER, api_key_pepper_previous=PEPPER)
        async with running(both, worker=False) as service:
            tenant = moved(tenants[0], service)
            for _ in range(2):
                assert (await ask(tenant, "GET", LIST, headers(tenant, used))).status_code == 200
            made = await ask(tenant, "GET", LIST, {**headers(tenant, used), "X-Api-Key": theirs["apiKey"]})
            assert code(made) == "tenant_mismatch"
            assert (await ask(tenant, "GET", LIST, headers(tenant, used))).status_code == 200
            await service.factory.key_usage.flush()
            assert (await ask(tenant, "GET", LIST, headers(tenant, used))).status_code == 200
        digests = [digest for _, digest in await stored(database, [UUID(k["id"]) for k in (used, unused)])]
        assert digests == [
            keys.digest(keys.parse(used["apiKey"]), NEW_PEPPER.encode()),
            keys.digest(keys.parse(unused["apiKey"]), PEPPER.encode()),
        ]
        async with running(make_config(database, api_key_pepper=NEW_PEPPER), worker=False) as service:
            tenant = moved(tenants[0], service)
            assert (await ask(tenant, "GET", LIST, headers(tenant, used))).status_code == 200
            assert code(await ask(tenant, "GET", LIST, headers(tenant, unused))) == "invalid_credentials"


@pytest.mark.anyio
async def test_replicas_of_before_and_after_take_the_same_keys_while_they_run_side_by_side(
    postgres: EmbeddedPostgres,
) -> None:
    with cloned(postgres) as database:
        before = make_config(database, api_key_pepper_previous=NEW_PEPPER)
        after = make_config(database, api_key_pepper=NEW_PEPPER, api_key_pepper_previous=PEPPER)
        async with running(before, worker=False) as old, running(after, worker=False) as new:
            tenant = await old.tenant("rolling")
            made = [await add_key(tenant), await add_key(moved(await new.tenant("other"), new))]
            owners = [tenant, Tenant(id=made[1]["tenantId"], slug="other", token="", base_url="", http=tenant.http)]
            for service in (old, new, old, new):
                for owner, key in zip(owners, made, strict=True):
                    answer = await ask(moved(owner, service), "GET", LIST, headers(owner, key))
                    assert answer.status_code == 200
                await service.factory.key_usage.flush()
        digests = [digest for _, digest in await stored(database, [UUID(key["id"]) for key in made])]
        assert digests == [keys.digest(keys.parse(key["apiKey"]), NEW_PEPPER.encode()) for key in made]


def moved(tenant: Tenant, service: Service) -> Tenant:
    """Return the tenant as another service's."""
    return Tenant(id=tenant.id, slug=tenant.slug, token=tenant.token, base_url=service.base_url, http=service.http)
