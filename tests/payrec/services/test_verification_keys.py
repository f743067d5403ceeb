from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from payrec.errors import IdentityProviderUnavailableError, InvalidCredentialsError
from payrec.services.identity_provider import ProviderDiscovery
from payrec.services.verification import Claims, JwksVerifier, read_keys
from support.idp import (
    Clock,
    FakeProvider,
    Reply,
    claims,
    ec_key,
    encode,
    fake_provider,
    outcome,
    public_jwk,
    rsa_key,
    sign,
    verify,
    with_verifier,
)

FIRST = rsa_key("first")
SECOND = rsa_key("second")
GOOD = json.dumps({"keys": [public_jwk(FIRST)]}).encode()


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with fake_provider() as running:
        yield running


def test_keys_that_cannot_serve_are_left_out() -> None:
    usable = public_jwk(FIRST, alg="RS256")
    document = {
        "keys": [
            None,
            {"kty": "AKP", "kid": "post-quantum"},
            {"kty": "oct", "k": encode(b"s" * 32)},
            public_jwk(SECOND, use="enc"),
            public_jwk(SECOND, alg="RSA-OAEP"),
            public_jwk(SECOND, n=encode(b"\xff" * 128)),
            public_jwk(SECOND, n=encode(b"\xff" * 2048)),
            public_jwk(SECOND, n="%"),
            public_jwk(SECOND, n=None),
            public_jwk(SECOND, use=None, key_ops=["encrypt"]),
            public_jwk(ec_key("curve"), x=encode(b"\0" * 32)),
            public_jwk(ec_key("other-curve", "P-384")),
            usable,
        ]
    }

    (key,) = read_keys(document)
    assert (key.kid, key.algorithms) == ("first", {"RS256"})


def test_a_private_key_that_was_published_is_taken_as_a_public_one() -> None:
    (key,) = read_keys({"keys": [FIRST.as_dict(private=True)]})
    assert not key.key.is_private


@pytest.mark.parametrize("document", [{}, {"keys": {}}, {"keys": []}, {"keys": [public_jwk(FIRST)] * 65}])
def test_a_document_without_keys_is_an_error(document: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="key"):
        read_keys(document)


def test_keys_are_read_once(provider: FakeProvider) -> None:
    async def use(verifier: JwksVerifier, _: Clock) -> None:
        await asyncio.gather(*(verifier.verify(sign(FIRST)) for _ in range(20)))
        await verifier.verify(sign(FIRST))

    with_verifier(provider, use)
    assert provider.requests == {"/jwks": 1}


def test_500_unknown_kids_cost_one_request(provider: FakeProvider) -> None:
    token = sign(FIRST).split(".")

    def unknown(number: int) -> str:
        return ".".join([encode({"alg": "RS256", "kid": f"unknown-{number}"}), *token[1:]])

    async def use(verifier: JwksVerifier, clock: Clock) -> None:
        found = await asyncio.gather(*(outcome(verifier, unknown(number)) for number in range(500)))
        assert set(found) == {InvalidCredentialsError}
        assert provider.requests["/jwks"] == 1
        clock.move(seconds=29)
        await outcome(verifier, unknown(1))
        assert provider.requests["/jwks"] == 1
        clock.move(seconds=2)
        await asyncio.gather(*(outcome(verifier, unknown(number)) for number in range(500)))
        assert provider.requests["/jwks"] == 2
        assert isinstance(await outcome(verifier, sign(FIRST)), Claims)

    with_verifier(provider, use)


def test_a_new_key_is_found_and_a_withdrawn_one_forgotten(provider: FakeProvider) -> None:
    async def use(verifier: JwksVerifier, clock: Clock) -> None:
        await verifier.verify(sign(FIRST))
        provider.publish(FIRST, SECOND)
        clock.move(seconds=31)
        assert isinstance(await outcome(verifier, sign(SECOND, claims(clock.now))), Claims)
        provider.publish(SECOND)
        clock.move(minutes=11)
        assert await outcome(verifier, sign(FIRST, claims(clock.now))) is InvalidCredentialsError
        assert isinstance(await outcome(verifier, sign(SECOND, claims(clock.now))), Claims)
        assert provider.requests["/jwks"] == 3

    with_verifier(provider, use)


def test_a_provider_without_kids_may_change_its_key(provider: FakeProvider) -> None:
    async def use(verifier: JwksVerifier, clock: Clock) -> None:
        provider.publish(public_jwk(FIRST, kid=None))
        await verifier.verify(sign(FIRST, kid=None))
        provider.publish(public_jwk(SECOND, kid=None))
        clock.move(seconds=31)
        assert isinstance(await outcome(verifier, sign(SECOND, kid=None)), Claims)

    with_verifier(provider, use)


def test_keys_are_served_stale_for_a_day_while_the_provider_is_down(provider: FakeProvider) -> None:
    async def use(verifier: JwksVerifier, clock: Clock) -> None:
        await verifier.verify(sign(FIRST))
        provider.fail()
        for _ in range(23):
            clock.move(hours=1)
            assert isinstance(await outcome(verifier, sign(FIRST, claims(clock.now))), Claims)
            # A token with an unknown kid is not valid; it is no reason for 503 while there are keys to judge by.
            assert await outcome(verifier, sign(SECOND, claims(clock.now))) is InvalidCredentialsError
        clock.move(hours=1, seconds=1)
        assert await outcome(verifier, sign(FIRST, claims(clock.now))) is IdentityProviderUnavailableError
        provider.publish(FIRST)
        clock.move(seconds=2)
        assert isinstance(await outcome(verifier, sign(FIRST, claims(clock.now))), Claims)

    with_verifier(provider, use)


def test_a_provider_that_hangs_is_waited_for_once(provider: FakeProvider) -> None:
    async def use(verifier: JwksVerifier, clock: Clock) -> None:
        await verifier.verify(sign(FIRST))
        provider.hang()
        clock.move(minutes=11)
        token = sign(FIRST, claims(clock.now))
        assert isinstance(await outcome(verifier, token), Claims)
        clock.move(seconds=31)
        for _ in range(10):
            assert isinstance(await outcome(verifier, token), Claims)
        # The attempt goes on behind them: had one of them waited for it, it would be over.
        assert verifier._keys._in_flight

    with_verifier(provider, use, timeout_seconds=0.3)


def test_without_any_keys_the_answer_is_unavailable_until_the_provider_is_back(provider: FakeProvider) -> None:
    async def use(verifier: JwksVerifier, clock: Clock) -> None:
        provider.fail()
        found = await asyncio.gather(*(outcome(verifier, sign(FIRST)) for _ in range(20)))
        assert set(found) == {IdentityProviderUnavailableError}
        assert provider.requests["/jwks"] == 1
        provider.publish(FIRST)
        clock.move(seconds=1)
        assert isinstance(await outcome(verifier, sign(FIRST)), Claims)

    with_verifier(provider, use)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(b"not json"),
        Reply(b"\xff\xfe"),
        Reply(b"[]"),
        Reply(b"[" * 100_000),
        Reply(b'{"keys": []}'),
        Reply(b" " * (1024 * 1024) + GOOD),
        Reply(b"", 204),
        Reply(GOOD, 500),
        Reply(gzip.compress(GOOD), headers={"Content-Encoding": "gzip"}),
        Reply(b"", hangs=True),
    ],
    ids=lambda reply: f"{reply.status} {reply.body[:3]!r} {reply.hangs}",
)
def test_garbage_is_as_good_as_no_answer(provider: FakeProvider, reply: Reply) -> None:
    provider.replies["/jwks"] = reply

    assert verify(provider, sign(FIRST), timeout_seconds=0.3) == [IdentityProviderUnavailableError]


def test_garbage_does_not_replace_good_keys(provider: FakeProvider) -> None:
    async def use(verifier: JwksVerifier, clock: Clock) -> None:
        await verifier.verify(sign(FIRST))
        provider.answer("/jwks", {"keys": []})
        clock.move(minutes=11)
        assert isinstance(await outcome(verifier, sign(FIRST, claims(clock.now))), Claims)

    with_verifier(provider, use)


def test_redirects_are_not_followed(provider: FakeProvider) -> None:
    provider.replies["/elsewhere"] = provider.replies["/jwks"]
    provider.redirect("/jwks", f"{provider.url}/elsewhere")

    assert verify(provider, sign(FIRST)) == [IdentityProviderUnavailableError]
    assert provider.requests["/elsewhere"] == 0


def test_a_refused_connection_is_unavailable(provider: FakeProvider) -> None:
    provider.stop()
    assert verify(provider, sign(FIRST)) == [IdentityProviderUnavailableError]


def test_a_waiter_that_gives_up_does_not_end_the_request_of_the_others(provider: FakeProvider) -> None:
    async def use(verifier: JwksVerifier, _: Clock) -> None:
        first = asyncio.create_task(verifier.verify(sign(FIRST)))
        others = [asyncio.create_task(verifier.verify(sign(FIRST))) for _ in range(3)]
        await asyncio.sleep(0)
        first.cancel()
        assert all(isinstance(found, Claims) for found in await asyncio.gather(*others))
        assert provider.requests["/jwks"] == 1

    with_verifier(provider, use)


def test_a_clock_that_is_set_back_does_not_stop_the_cache(provider: FakeProvider) -> None:
    async def use(verifier: JwksVerifier, clock: Clock) -> None:
        await verifier.verify(sign(FIRST))
        clock.move(hours=-5)
        provider.publish(SECOND)
        assert isinstance(await outcome(verifier, sign(SECOND, claims(clock.now))), Claims)

    with_verifier(provider, use)


def test_the_address_of_the_keys_is_discovered(provider: FakeProvider) -> None:
    provider.describe()
    token = sign(FIRST, claims(iss=provider.url))

    assert isinstance(verify(provider, token, issuer=provider.url, jwks_url=None)[0], Claims)
    assert provider.requests == {"/.well-known/openid-configuration": 1, "/jwks": 1}


@pytest.mark.parametrize(
    "changes",
    [{"issuer": "http://other.test"}, {"jwks_uri": "file:///etc/passwd"}, {"jwks_uri": None}, {"token_endpoint": 1}],
    ids=str,
)
def test_a_discovery_document_of_somebody_else_is_not_used(provider: FakeProvider, changes: dict[str, Any]) -> None:
    provider.describe()
    document = json.loads(provider.replies["/.well-known/openid-configuration"].body)
    provider.answer("/.well-known/openid-configuration", {**document, **changes})
    token = sign(FIRST, claims(iss=provider.url))

    assert verify(provider, token, issuer=provider.url, jwks_url=None) == [IdentityProviderUnavailableError]
    assert provider.requests["/jwks"] == 0


def test_an_https_issuer_has_https_addresses() -> None:
    document = {"issuer": "https://a.test", "jwks_uri": "http://a.test/jwks", "token_endpoint": "https://a.test/token"}

    async def main() -> None:
        transport = httpx2.MockTransport(lambda _: httpx2.Response(200, json=document))
        async with httpx2.AsyncClient(transport=transport) as http:
            with pytest.raises(IdentityProviderUnavailableError):
                await ProviderDiscovery(issuer="https://a.test", http=http, clock=Clock()).metadata()

    asyncio.run(main())


def test_discovery_is_read_once_an_hour_and_kept_while_it_fails(provider: FakeProvider) -> None:
    path = "/.well-known/openid-configuration"

    async def main() -> None:
        clock = Clock()
        async with httpx2.AsyncClient(trust_env=False) as http:
            discovery = ProviderDiscovery(issuer=provider.url, http=http, clock=clock)
            provider.fail(path)
            for _ in range(2):
                with pytest.raises(IdentityProviderUnavailableError):
                    await discovery.metadata()
            assert provider.requests[path] == 1
            provider.describe()
            clock.move(seconds=1)
            await asyncio.gather(*(discovery.metadata() for _ in range(10)))
            assert provider.requests[path] == 2
            provider.fail(path)
            clock.move(hours=2)
            assert (await discovery.metadata()).token_endpoint == provider.token_url
            assert provider.requests[path] == 3

    asyncio.run(main())
