from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import httpx2
import pytest

from payrec.errors import IdentityProviderUnavailableError, InvalidCredentialsError
from payrec.services.claims import Claims
from payrec.services.key_sets import read_keys
from payrec.services.provider_discovery import ProviderDiscovery
from payrec.services.verification import JwksVerifier
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
DISCOVERY = "/.well-known/openid-configuration"


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


ELSEWHERE = "http://127.0.0.1:1/jwks"
UNUSABLE = [
    Reply(b"not json"),
    Reply(b"\xff\xfe"),
    Reply(b"[]"),
    Reply(b"[" * 100_000),
    Reply(b'{"keys": []}'),
    Reply(b" " * (1024 * 1024) + GOOD),
    Reply(GOOD, headers={"Content-Length": "100000"}),
    Reply(b"", 204),
    *(Reply(GOOD, status) for status in (201, 400, 401, 404, 429, 500, 502, 503)),
    *(Reply(GOOD, status, {"Location": ELSEWHERE}) for status in (301, 302, 303, 307, 308)),
    Reply(gzip.compress(GOOD), headers={"Content-Encoding": "gzip"}),
    Reply(gzip.compress(b" " * (64 * 1024 * 1024)), headers={"Content-Encoding": "gzip"}),
    Reply(b"", hangs=True),
    Reply(GOOD, drips=True),
    Reply(b"", hangs_up=True),
    Reply(b"", resets=True),
]


def _name(reply: Reply) -> str:
    traits = [name for name in ("hangs", "drips", "hangs_up", "resets") if getattr(reply, name)]
    return f"{reply.status} {' '.join([*traits, *reply.headers])} {reply.body[:3]!r}"


def _patience(reply: Reply) -> float:
    """Return seconds that a busy machine does not need to ask, and that nobody waits for who gets an answer."""
    return 1 if reply.hangs or reply.drips else 30


@pytest.mark.parametrize("reply", UNUSABLE, ids=_name)
def test_garbage_is_as_good_as_no_answer(provider: FakeProvider, reply: Reply) -> None:
    provider.replies["/jwks"] = reply

    assert verify(provider, sign(FIRST), timeout_seconds=_patience(reply)) == [IdentityProviderUnavailableError]


@pytest.mark.parametrize("reply", UNUSABLE, ids=_name)
def test_garbage_is_no_discovery_document_either(provider: FakeProvider, reply: Reply) -> None:
    provider.replies[DISCOVERY] = reply
    token = sign(FIRST, claims(iss=provider.url))

    found = verify(provider, token, issuer=provider.url, jwks_url=None, timeout_seconds=_patience(reply))
    assert found == [IdentityProviderUnavailableError]
    assert provider.requests == {DISCOVERY: 1}


def test_garbage_does_not_replace_good_keys(provider: FakeProvider) -> None:
    async def use(verifier: JwksVerifier, clock: Clock) -> None:
        await verifier.verify(sign(FIRST))
        provider.answer("/jwks", {"keys": []})
        clock.move(minutes=11)
        assert isinstance(await outcome(verifier, sign(FIRST, claims(clock.now))), Claims)

    with_verifier(provider, use)


def test_redirects_are_not_followed(provider: FakeProvider) -> None:
    provider.replies["/elsewhere"] = provider.replies["/jwks"]
    with fake_provider() as stranger:
        for location in (f"{provider.url}/elsewhere", stranger.jwks_url, "/elsewhere", "//127.0.0.1:1/"):
            provider.redirect("/jwks", location)
            assert verify(provider, sign(FIRST)) == [IdentityProviderUnavailableError]
        assert not stranger.requests
    assert provider.requests == {"/jwks": 4}


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


@pytest.mark.parametrize("path", ["", "/", "/realms/payrec", "/realms/payrec/"])
def test_the_issuer_s_address_alone_is_enough(provider: FakeProvider, path: str) -> None:
    issuer, document = provider.url + path, path.rstrip("/") + DISCOVERY
    provider.describe(issuer)
    provider.replies[document] = provider.replies.pop(DISCOVERY) if path.rstrip("/") else provider.replies[DISCOVERY]

    found = verify(provider, sign(FIRST, claims(iss=issuer)), issuer=issuer, jwks_url=None)
    assert isinstance(found[0], Claims)
    assert provider.requests == {document: 1, "/jwks": 1}


@pytest.mark.parametrize("configured", ["", "/"])
def test_an_issuer_that_differs_by_a_slash_is_another_one(provider: FakeProvider, configured: str) -> None:
    other = provider.url + ("" if configured else "/")
    provider.describe(other)

    for named in (provider.url, provider.url + "/"):
        token = sign(FIRST, claims(iss=named))
        found = verify(provider, token, issuer=provider.url + configured, jwks_url=None)
        assert found == [IdentityProviderUnavailableError]
    assert provider.requests["/jwks"] == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "http://other.test"},
        {"issuer": None},
        {"issuer": []},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": None},
        {"jwks_uri": "http://[::1/jwks"},
        {"token_endpoint": 1},
    ],
    ids=str,
)
def test_a_discovery_document_of_somebody_else_is_not_used(provider: FakeProvider, changes: dict[str, Any]) -> None:
    provider.describe()
    document = json.loads(provider.replies[DISCOVERY].body)
    provider.answer(DISCOVERY, {**document, **changes})
    token = sign(FIRST, claims(iss=provider.url))

    assert verify(provider, token, issuer=provider.url, jwks_url=None) == [IdentityProviderUnavailableError]
    assert provider.requests["/jwks"] == 0


@pytest.mark.parametrize("address", ["http://[::1/out", "http://", "/out", 1])
def test_what_can_be_done_without_spoils_no_discovery_document(provider: FakeProvider, address: Any) -> None:
    provider.describe()
    document = json.loads(provider.replies[DISCOVERY].body)
    provider.answer(DISCOVERY, {**document, "end_session_endpoint": address})

    async def main() -> None:
        async with httpx2.AsyncClient(trust_env=False) as http:
            found = await ProviderDiscovery(issuer=provider.url, http=http, clock=Clock()).metadata()
        assert (found.token_endpoint, found.end_session_endpoint) == (provider.token_url, None)

    asyncio.run(main())


def test_an_https_issuer_has_https_addresses() -> None:
    document = {"issuer": "https://a.test", "jwks_uri": "http://a.test/jwks", "token_endpoint": "https://a.test/token"}

    async def main() -> None:
        transport = httpx2.MockTransport(lambda _: httpx2.Response(200, json=document))
        async with httpx2.AsyncClient(transport=transport) as http:
            with pytest.raises(IdentityProviderUnavailableError):
                await ProviderDiscovery(issuer="https://a.test", http=http, clock=Clock()).metadata()

    asyncio.run(main())


def test_discovery_is_read_once_an_hour_and_kept_while_it_fails(provider: FakeProvider) -> None:
    async def main() -> None:
        clock = Clock()
        async with httpx2.AsyncClient(trust_env=False) as http:
            discovery = ProviderDiscovery(issuer=provider.url, http=http, clock=clock)
            provider.fail(DISCOVERY)
            for _ in range(2):
                with pytest.raises(IdentityProviderUnavailableError):
                    await discovery.metadata()
            assert provider.requests[DISCOVERY] == 1
            provider.describe()
            clock.move(seconds=1)
            await asyncio.gather(*(discovery.metadata() for _ in range(10)))
            assert provider.requests[DISCOVERY] == 2
            provider.fail(DISCOVERY)
            clock.move(hours=2)
            assert (await discovery.metadata()).token_endpoint == provider.token_url
            assert provider.requests[DISCOVERY] == 3

    asyncio.run(main())
