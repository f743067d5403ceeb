"""How often a password may be tried at ``/auth/token``: counted in the database, for all processes."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import unicodedata
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest

from payrec.commands.serving import listen, make_factory, port_of, served
from payrec.constants import TOKEN_ATTEMPT_DELAY_MAX, TOKEN_ATTEMPTS_PRUNED_MAX
from payrec.embedded.postgres import EmbeddedDatabase
from payrec.errors import RateLimitedError
from payrec.main import create_app
from payrec.services.tokens import AttemptCounter
from payrec.storage.tokens import TokenAttemptStore
from support.idp import FakeProvider, fake_provider
from support.service import Service, make_config, running
from support.wire import in_control, problem, until

pytestmark = pytest.mark.anyio

LIMIT = 5
INTERVAL = timedelta(minutes=1) / LIMIT
GRANT = {"access_token": "a.b.c", "token_type": "Bearer", "expires_in": 300}


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with fake_provider() as started:
        started.answer("/token", {"error": "invalid_grant"}, 400)
        yield started


def settings(provider: FakeProvider, *, per_username: int = 0, per_address: int = 0) -> dict[str, Any]:
    return {
        "idp_issuer_url": provider.url,
        "idp_token_url": provider.token_url,
        "idp_client_secret": "s3cret",
        "rate_limit_token_per_username_per_minute": per_username,
        "rate_limit_token_per_address_per_minute": per_address,
    }


@asynccontextmanager
async def limited(database: EmbeddedDatabase, provider: FakeProvider, **limits: int) -> AsyncIterator[Service]:
    async with running(make_config(database, **settings(provider, **limits)), worker=False) as service:
        yield service


async def sign_in(service: Service, username: str = "ada", password: str = "wrong", **headers: str) -> httpx2.Response:
    body = {"username": username, "password": password}
    return await service.http.post(f"{service.base_url}/auth/token", json=body, headers=headers)


async def statuses(service: Service, username: str, times: int, password: str = "wrong") -> list[int]:
    return [(await sign_in(service, username, password)).status_code for _ in range(times)]


def refused(response: httpx2.Response, detail: str) -> int:
    """Return the seconds of Retry-After of an answer that refuses for this reason."""
    found = problem(response)
    assert (response.status_code, found["code"]) == (429, "rate_limited"), response.text
    assert detail in found["detail"]
    return int(response.headers["retry-after"])


async def attempts(service: Service) -> list[dict[str, Any]]:
    async with service.factory.context.database.control(readonly=True) as connection:
        return await (await connection.execute("SELECT * FROM token_attempt ORDER BY key")).fetchall()


async def failures(service: Service) -> list[int]:
    return sorted(row["failures"] for row in await attempts(service))


async def age(service: Service, period: timedelta) -> None:
    """Let time pass for what is known of attempts."""
    moved = ", ".join(f"{name} = {name} - %(by)s" for name in ("full_at", "faded_at", "touched_at"))
    statement = f"UPDATE token_attempt SET {moved}"  # noqa: S608 - names of ours
    async with service.factory.context.database.control() as connection:
        await connection.execute(statement.encode(), {"by": period})


def counted(service: Service, limit: str) -> float:
    registry = service.factory.context.metrics.registry
    return registry.get_sample_value("payrec_rate_limited_total", {"limit": limit}) or 0.0


def counter(service: Service) -> AttemptCounter:
    return service.factory.create_token_service()._attempts


async def test_a_username_has_so_many_attempts(database: EmbeddedDatabase, provider: FakeProvider) -> None:
    async with limited(database, provider, per_username=LIMIT) as service:
        assert await statuses(service, "ada", LIMIT) == [401] * LIMIT
        answer = await sign_in(service, "ada")
        assert 1 <= refused(answer, "for this username") <= INTERVAL.total_seconds()
        assert "ada" not in answer.json()["detail"]
        assert provider.requests["/token"] == LIMIT
        assert counted(service, "token_username") == 1
        # The right password gets no further, and another name is not touched.
        provider.answer("/token", GRANT)
        assert (await sign_in(service, "ada", "right")).status_code == 429
        assert (await sign_in(service, "grace", "right")).status_code == 200


async def test_of_twenty_at_once_the_limit_reaches_the_provider(
    database: EmbeddedDatabase, provider: FakeProvider
) -> None:
    async with (
        limited(database, provider, per_username=LIMIT, per_address=100) as one,
        limited(database, provider, per_username=LIMIT, per_address=100) as other,
    ):
        answers = await asyncio.gather(*(sign_in(service) for _ in range(10) for service in (one, other)))
        assert Counter(answer.status_code for answer in answers) == {401: LIMIT, 429: 20 - LIMIT}
        assert provider.requests["/token"] == LIMIT
        assert await failures(one) == [LIMIT, LIMIT]


async def test_the_delay_doubles_up_to_its_end(database: EmbeddedDatabase, provider: FakeProvider) -> None:
    async with limited(database, provider, per_username=LIMIT) as service:
        assert await statuses(service, "ada", LIMIT) == [401] * LIMIT
        wait, end = INTERVAL, TOKEN_ATTEMPT_DELAY_MAX
        for _ in range(5):
            told = timedelta(seconds=refused(await sign_in(service), "for this username"))
            assert wait - timedelta(seconds=5) < told <= wait
            await age(service, wait - timedelta(seconds=5))
            refused(await sign_in(service), "for this username")
            await age(service, timedelta(seconds=5))
            assert (await sign_in(service)).status_code == 401
            wait *= 2
        await in_control(service, "UPDATE token_attempt SET failures = 1000, faded_at = now(), touched_at = now()")
        told = timedelta(seconds=refused(await sign_in(service), "for this username"))
        assert end - timedelta(seconds=5) < told <= end
        await age(service, timedelta(hours=1))
        assert await statuses(service, "ada", LIMIT + 1) == [401] * LIMIT + [429]


async def test_a_refused_attempt_changes_nothing(database: EmbeddedDatabase, provider: FakeProvider) -> None:
    async with limited(database, provider, per_username=LIMIT, per_address=LIMIT) as service:
        assert await statuses(service, "ada", LIMIT) == [401] * LIMIT
        before = await attempts(service)
        assert await statuses(service, "ada", LIMIT) == [429] * LIMIT
        # Nor is anything kept of a name that was not heard of, when the address has had its attempts.
        refused(await sign_in(service, "somebody else"), "from this address")
        assert await attempts(service) == before
        assert counted(service, "token_address") == 1


async def test_who_knows_the_password_starts_anew(database: EmbeddedDatabase, provider: FakeProvider) -> None:
    async with limited(database, provider, per_username=LIMIT, per_address=100) as service:
        assert await statuses(service, "ada", LIMIT - 1) == [401] * (LIMIT - 1)
        provider.answer("/token", GRANT)
        assert (await sign_in(service, "ada", "right")).status_code == 200
        # The others from the address go on counting: or whoever has an account could guess at all others.
        assert await failures(service) == [0, LIMIT - 1]
        await age(service, INTERVAL)
        provider.answer("/token", {"error": "invalid_grant"}, 400)
        assert (await sign_in(service)).status_code == 401
        assert await failures(service) == [1, LIMIT]


async def test_success_is_held_to_the_rate_too(database: EmbeddedDatabase, provider: FakeProvider) -> None:
    provider.answer("/token", GRANT)
    async with limited(database, provider, per_username=LIMIT) as service:
        assert await statuses(service, "ada", LIMIT + 1, "right") == [200] * LIMIT + [429]


async def test_a_provider_that_is_down_costs_no_attempt(database: EmbeddedDatabase, provider: FakeProvider) -> None:
    async with limited(database, provider, per_username=LIMIT, per_address=LIMIT) as service:
        assert await statuses(service, "ada", 2) == [401] * 2
        before = await attempts(service)
        provider.fail("/token")
        assert await statuses(service, "ada", 3 * LIMIT) == [503] * (3 * LIMIT)
        assert await attempts(service) == before
        # At once they do not pass the bucket, and none of them has failed in the end.
        answers = await asyncio.gather(*(sign_in(service) for _ in range(20)))
        assert {answer.status_code for answer in answers} <= {503, 429}
        assert await failures(service) == [2, 2]


async def test_a_name_is_known_however_it_is_written(database: EmbeddedDatabase, provider: FakeProvider) -> None:
    written = ["Zoë Straße", "zoë strasse", "  ZOË STRASSE ", unicodedata.normalize("NFD", "Zoë Straße")]
    async with limited(database, provider, per_username=LIMIT) as service:
        names = itertools.cycle(written)
        assert [(await sign_in(service, next(names))).status_code for _ in range(LIMIT + 1)] == [401] * LIMIT + [429]
        [row] = await attempts(service)
        for text in (*written, unicodedata.normalize("NFC", written[0]).casefold()):
            assert bytes(row["key"]) != hashlib.sha256(text.encode()).digest()
        begun = await counter(service).begin(username="half \ud800", address="")
        assert await counter(service).begin(username="half \ud800", address="") != begun


async def test_an_address_has_so_many_attempts_for_all_names(
    database: EmbeddedDatabase, provider: FakeProvider
) -> None:
    async with limited(database, provider, per_username=LIMIT, per_address=2 * LIMIT) as service:
        for number in range(2 * LIMIT):
            assert (await sign_in(service, f"user-{number}")).status_code == 401
        assert refused(await sign_in(service, "another"), "from this address") >= 1


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("198.51.100.7", "198.51.100.7", True),
        ("198.51.100.7", "198.51.100.8", False),
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:198.51.100.7", "198.51.100.7", True),
        ("::ffff:198.51.100.7", "::ffff:198.51.100.8", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("", "", True),
        ("unix", "", False),
    ],
)
async def test_an_address_is_a_network_of_ipv6(
    database: EmbeddedDatabase, provider: FakeProvider, one: str, other: str, *, same: bool
) -> None:
    async with limited(database, provider, per_address=1) as service:
        await counter(service).begin(username="ada", address=one)
        if same:
            with pytest.raises(RateLimitedError):
                await counter(service).begin(username="grace", address=other)
        else:
            await counter(service).begin(username="grace", address=other)


@pytest.mark.parametrize("trusted", ["", "127.0.0.1"])
async def test_only_a_trusted_proxy_says_where_a_client_is(
    database: EmbeddedDatabase, provider: FakeProvider, trusted: str
) -> None:
    with listen("127.0.0.1", 0, name="PORT") as listening:
        given = settings(provider, per_address=LIMIT)
        config = make_config(database, **{**given, "port": port_of(listening), "trusted_proxies": trusted})
        factory = make_factory(config)
        async with (
            served(create_app(factory), listening, config=config, lifespan=True),
            httpx2.AsyncClient(timeout=30) as http,
        ):
            service = Service(base_url=config.base_url, factory=factory, http=http)
            for number in range(LIMIT):
                # What the client itself says stands on the left of what the proxy adds.
                forged = {
                    "X-Forwarded-For": f"203.0.113.{number}, 198.51.100.7",
                    "Forwarded": f"for=203.0.113.{number}",
                }
                assert (await sign_in(service, **forged)).status_code == 401
            refused(await sign_in(service, **{"X-Forwarded-For": "203.0.113.99, 198.51.100.7"}), "from this address")
            elsewhere = await sign_in(service, **{"X-Forwarded-For": "198.51.100.8"})
            assert elsewhere.status_code == (401 if trusted else 429)


async def test_a_known_and_an_unknown_name_of_any_tenant_are_told_the_same(database: EmbeddedDatabase) -> None:
    async with running(make_config(database, rate_limit_token_per_username_per_minute=LIMIT), worker=False) as service:
        for slug in ("acme", "globex"):
            await service.tenant(slug, environments=["production"])
        await age(service, timedelta(hours=1))
        told = []
        for name in ("admin@acme", "nobody@acme"):
            assert await statuses(service, name, LIMIT) == [401] * LIMIT
            answer = await sign_in(service, name)
            assert refused(answer, "for this username") <= INTERVAL.total_seconds()
            told.append({k: v for k, v in answer.json().items() if k != "requestId"})
        assert told[0] == told[1]
        # The administrator of another tenant is not kept out.
        assert (await sign_in(service, "admin@globex", "pässwörd-globex")).status_code == 200
        assert (await sign_in(service, "admin@acme", "pässwörd-acme")).status_code == 429


async def test_what_is_forgotten_is_deleted_little_by_little(
    database: EmbeddedDatabase, provider: FakeProvider
) -> None:
    async with limited(database, provider, per_username=LIMIT) as service:
        await in_control(
            service,
            "INSERT INTO token_attempt SELECT sha256(n::text::bytea), now(), 1, now(), now() - interval '61 minutes'"
            " FROM generate_series(1, %s) AS n",
            TOKEN_ATTEMPTS_PRUNED_MAX + 20,
        )
        for left in (20, 0):
            assert (await sign_in(service, f"user {left}")).status_code == 401
            assert sum(row["failures"] == 1 for row in await attempts(service)) == left + (1 if left else 2)


async def test_without_limits_nothing_is_counted(database: EmbeddedDatabase, provider: FakeProvider) -> None:
    async with limited(database, provider) as service:
        assert await statuses(service, "ada", 30) == [401] * 30
        assert await attempts(service) == []


async def test_the_longest_name_and_password_fit_and_more_is_not_read(
    database: EmbeddedDatabase, provider: FakeProvider
) -> None:
    longest = {"username": "\N{GRINNING FACE}" * 200, "password": "\N{GRINNING FACE}" * 1024}
    async with limited(database, provider) as service:
        for media_type, body in (
            ("application/json", json.dumps(longest)),
            ("application/x-www-form-urlencoded", urlencode(longest)),
        ):
            for content, expected in ((body, "invalid_credentials"), (body.ljust(32 * 1024 + 1), "payload_too_large")):
                headers = {"Content-Type": media_type}
                answer = await service.http.post(f"{service.base_url}/auth/token", content=content, headers=headers)
                assert problem(answer)["code"] == expected


async def test_rows_are_locked_in_one_order(database: EmbeddedDatabase, provider: FakeProvider) -> None:
    low, high = bytes(32), bytes([255] * 32)
    async with limited(database, provider) as service:
        control = service.factory.context.database.control

        async def lock(*keys: bytes) -> None:
            async with control() as connection:
                await TokenAttemptStore(connection).lock(keys)

        async def waiting(count: int) -> None:
            async def probe() -> bool | None:
                async with control(readonly=True) as connection:
                    cursor = await connection.execute("SELECT count(*) AS n FROM pg_locks WHERE NOT granted")
                    found = await cursor.fetchone()
                return True if found is not None and found["n"] == count else None

            await until(probe)

        await lock(low, high)
        async with control() as connection:
            await TokenAttemptStore(connection).lock([low])
            tasks = [asyncio.create_task(lock(low, high))]
            await waiting(1)
            tasks.append(asyncio.create_task(lock(high, low)))
            await waiting(2)
        await asyncio.gather(*tasks)


async def test_attempts_of_many_at_once_are_all_settled(database: EmbeddedDatabase, provider: FakeProvider) -> None:
    async with limited(database, provider, per_username=1_000, per_address=1_000) as service:
        attempted = counter(service)

        async def one(username: str, address: str) -> None:
            attempt = await attempted.begin(username=username, address=address)
            settle = attempted.take_back if len(username) % 2 else attempted.succeeded
            await settle(attempt)

        names = ["a", "bb", "ccc", "dddd"]
        crossing = itertools.product(names, ["198.51.100.7", "198.51.100.8", "2001:db8::1"], range(4))
        await asyncio.gather(*(one(username, address) for username, address, _ in crossing))
        assert await failures(service) == [0] * 7
