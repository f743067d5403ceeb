"""An identity provider that fails: who is known already goes on, and nobody else costs more than one question."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace

import pytest
from joserfc.jwk import RSAKey

from payrec.embedded.postgres import EmbeddedDatabase
from support.idp import FakeProvider, encode, fake_provider, rsa_key, sign
from support.providers import Person, Provider, add_to_payrec, claims_of
from support.service import Service, make_config, running
from support.wire import code, until
from support.world import World, shared_database, world

__all__ = ["shared_database", "world"]

pytestmark = pytest.mark.anyio

LIST = "/expected-transactions"
MADE_UP = 500
"""Tokens of keys that nobody has."""


class ToldProvider(Provider):
    """A provider that fails as it is told; it knows nobody's password."""

    jwks_path = "/jwks"

    def __init__(self, fake: FakeProvider) -> None:
        self.fake = fake
        self.settings = {"idp_issuer_url": fake.url, "idp_client_secret": "of-the-client-32-characters-long"}

    async def add(self, somebody: Person) -> Person:
        """Add a user to payrec."""
        known = replace(somebody, subject=somebody.user_id)
        await add_to_payrec(self.service, known)
        return known

    async def signing_key(self) -> RSAKey:
        """Return the key that is published."""
        return rsa_key("first")

    async def rotate(self) -> None:
        """Publish another key; nobody asks for that here."""
        raise NotImplementedError


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeProvider]:
    """Whom the services ask."""
    with fake_provider() as started:
        started.describe()
        yield started


@pytest.fixture(scope="module")
def provider(fake: FakeProvider) -> ToldProvider:
    """The same as a provider."""
    return ToldProvider(fake)


@pytest.fixture(autouse=True)
def in_order(fake: FakeProvider) -> None:
    """Begin with a provider that works."""
    fake.publish(rsa_key("first"))
    fake.answer("/token", b"{}")


@pytest.fixture
async def another(world: World, shared_database: EmbeddedDatabase, provider: ToldProvider) -> AsyncIterator[World]:
    """The same world as a service sees it that has just started, and has asked the provider nothing."""
    async with running(make_config(shared_database, **provider.settings), worker=False) as service:
        yield world.seen_by(service)


def token(service: Service, somebody: Person, key: str = "first") -> str:
    return sign(rsa_key(key), claims_of(service, somebody))


async def outcome(world: World, value: str) -> str:
    answer = await world.get(value, LIST)
    return "ok" if answer.status_code == 200 else code(answer)


FAILURES: dict[str, Callable[[FakeProvider, str], None]] = {
    "500": lambda fake, path: fake.fail(path, 500),
    "404": lambda fake, path: fake.fail(path, 404),
    "no answer": lambda fake, path: fake.hang(path),
    "a page": lambda fake, path: fake.answer(path, b"<html>Sign in</html>"),
    "a list": lambda fake, path: fake.answer(path, []),
    "no end": lambda fake, path: fake.answer(path, b'{"keys": [' + b" " * (2 * 1024 * 1024)),
    "an empty key set": lambda fake, path: fake.answer(path, {"keys": []}),
}
"""What a provider may do instead of answering."""


@pytest.mark.parametrize("failure", FAILURES)
async def test_who_is_known_goes_on(another: World, fake: FakeProvider, failure: str) -> None:
    somebody, key = await another.person("viewer"), (await another.key("read"))["apiKey"]
    known = token(another.service, somebody)
    assert await outcome(another, known) == "ok"
    FAILURES[failure](fake, "/jwks")
    # How long a login waits is tested where that can be short.
    FAILURES["500" if failure == "no answer" else failure](fake, "/token")
    login = {"username": somebody.username, "password": somebody.password}
    refused, made_up = await asyncio.gather(
        another.service.http.post(f"{another.service.base_url}/auth/token", json=login),
        outcome(another, token(another.service, somebody, "second")),
    )
    assert (refused.status_code, code(refused)) == (503, "identity_provider_unavailable")
    assert int(refused.headers["retry-after"]) > 0
    # The keys that are there can be used, and none of them signed it.
    assert made_up == "invalid_credentials"
    assert [await outcome(another, value) for value in (known, key)] == ["ok", "ok"]


@pytest.mark.parametrize("failure", FAILURES)
async def test_without_keys_no_token_can_be_judged_until_the_provider_is_back(
    another: World, fake: FakeProvider, failure: str
) -> None:
    somebody, key = await another.person("viewer"), (await another.key("read"))["apiKey"]
    FAILURES[failure](fake, "/jwks")
    answer = await another.get(token(another.service, somebody), LIST)
    assert (answer.status_code, code(answer)) == (503, "identity_provider_unavailable")
    assert int(answer.headers["retry-after"]) > 0
    assert await outcome(another, key) == "ok"
    fake.publish(rsa_key("first"))

    async def taken() -> bool | None:
        return await outcome(another, token(another.service, somebody)) == "ok" or None

    await until(taken)


async def test_made_up_keys_at_once_cost_one_question(another: World, fake: FakeProvider) -> None:
    somebody, key = await another.person("viewer"), (await another.key("read"))["apiKey"]
    known = token(another.service, somebody)
    assert await outcome(another, known) == "ok"
    before = fake.requests["/jwks"]
    payload, signature = encode(claims_of(another.service, somebody)), encode(b"s" * 256)
    made_up = (
        f"{encode({'alg': 'RS256', 'kid': f'made-up-{number}'})}.{payload}.{signature}" for number in range(MADE_UP)
    )
    turn = asyncio.Semaphore(50)  # connections; all requests meet the same keys

    async def sent(value: str) -> str:
        async with turn:
            return await outcome(another, value)

    outcomes = Counter(await asyncio.gather(*map(sent, made_up)))
    assert outcomes == {"invalid_credentials": MADE_UP}
    assert fake.requests["/jwks"] == before + 1
    assert [await outcome(another, value) for value in (known, key)] == ["ok", "ok"]


async def test_nobody_is_asked_whom_the_provider_points_to(another: World, fake: FakeProvider) -> None:
    """A redirect to another host is followed neither for keys nor with a password."""
    somebody = await another.person("viewer")
    with fake_provider() as stranger:
        stranger.publish(rsa_key("first"))
        for path in ("/jwks", "/token"):
            fake.redirect(path, stranger.url + path)
        login = {"username": somebody.username, "password": somebody.password}
        answers = [
            await another.get(token(another.service, somebody), LIST),
            await another.service.http.post(f"{another.service.base_url}/auth/token", json=login),
        ]
        assert {(answer.status_code, code(answer)) for answer in answers} == {(503, "identity_provider_unavailable")}
        assert not stranger.requests
