from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import json
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.errors import (
    ConfigurationError,
    IdentityProviderUnavailableError,
    InvalidCredentialsError,
    PayrecError,
)
from payrec.services.identity_provider import IdentityProviderClient, TokenGrant
from payrec.services.provider_discovery import ProviderDiscovery
from payrec.services.strict_json import strict_json
from support.idp import Clock, FakeProvider, Reply, fake_provider, tls

GRANT = {"access_token": "a.b.c", "token_type": "Bearer", "expires_in": 300}
MIB = 1024 * 1024


@pytest.fixture
def provider(provider: FakeProvider) -> FakeProvider:
    provider.answer("/token", GRANT)
    return provider


def grant(
    provider: FakeProvider, username: str = "ada", password: str = "pässwörd", **changes: Any
) -> TokenGrant | type[PayrecError]:
    async def main() -> TokenGrant | type[PayrecError]:
        arguments = {"client_id": "payrec", "client_secret": "s3cret", "token_url": provider.token_url, **changes}
        transport = httpx2.AsyncHTTPTransport(verify=tls())
        client = IdentityProviderClient(timeout_seconds=0.5, transport=transport, **arguments)
        try:
            return await client.password_grant(username, password)
        except PayrecError as error:
            return type(error)
        finally:
            await client.aclose()

    return asyncio.run(main())


def test_a_password_is_exchanged_for_a_token(provider: FakeProvider) -> None:
    assert grant(provider) == TokenGrant(access_token="a.b.c", expires_in=300)
    assert provider.forms == [{"grant_type": ["password"], "username": ["ada"], "password": ["pässwörd"]}]


def test_the_client_authenticates_by_client_secret_basic(provider: FakeProvider) -> None:
    grant(provider, client_secret="sécret:+")

    scheme, encoded = provider.headers[0]["authorization"].split(" ")
    assert scheme == "Basic"
    assert base64.b64decode(encoded) == "payrec:sécret:+".encode("latin-1")
    assert "client_secret" not in provider.forms[0]


@pytest.mark.parametrize("password", ["pässwörd", "密码 🔑", "a+b&c=d%20 e", "'\"<>\\;{}|", " ", "x" * 1000])
def test_any_password_arrives_as_it_was_typed(provider: FakeProvider, password: str) -> None:
    assert isinstance(grant(provider, username="ädà@example.org", password=password), TokenGrant)
    assert provider.forms[0]["password"] == [password]
    assert provider.forms[0]["username"] == ["ädà@example.org"]


def test_refresh_and_id_tokens_are_dropped(provider: FakeProvider) -> None:
    provider.answer("/token", {**GRANT, "refresh_token": "r", "id_token": "i", "scope": "openid"})

    assert grant(provider) == TokenGrant(access_token="a.b.c", expires_in=300)


def test_the_token_stays_out_of_repr() -> None:
    assert "a.b.c" not in repr(TokenGrant(access_token="a.b.c", expires_in=1))


def test_nothing_of_one_user_goes_into_the_request_of_the_next(provider: FakeProvider) -> None:
    provider.replies["/token"].headers["Set-Cookie"] = "KEYCLOAK_IDENTITY=ada; Path=/"

    async def main() -> None:
        client = IdentityProviderClient(client_id="payrec", client_secret="s", token_url=provider.token_url)
        await asyncio.gather(*(client.password_grant(f"user-{number}", "x") for number in range(5)))
        await client.password_grant("grace", "x")
        await client.aclose()

    asyncio.run(main())
    assert len(provider.headers) == 6
    assert not any("cookie" in headers for headers in provider.headers)
    assert len({headers["authorization"] for headers in provider.headers}) == 1


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (401, {"error": "invalid_grant", "error_description": "Invalid user credentials"}),  # Keycloak
        (400, {"error": "invalid_grant"}),  # RFC 6749, section 5.2
        (401, {"error": "access_denied"}),
        (401, b"<html>no</html>"),
        (401, b""),
    ],
)
def test_a_refused_user_is_told_so_after_one_attempt(provider: FakeProvider, status: int, body: Any) -> None:
    provider.answer("/token", body, status)

    assert grant(provider) is InvalidCredentialsError
    assert provider.requests == {"/token": 1}


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (401, {"error": "invalid_client"}),
        (401, {"error": "unauthorized_client"}),
        (400, {"error": "invalid_request"}),
        (400, {"error": ["invalid_grant"]}),
        (403, {"error": "invalid_grant"}),
        (404, {"message": "no such realm"}),
        (429, b"slow down"),
        (500, {"error": "invalid_grant"}),
        (500, GRANT),
        (501, b""),
        (201, GRANT),
        (200, {**GRANT, "error": "invalid_grant"}),
        (200, b""),
        (200, b"not json"),
        (200, b"\xff"),
        (200, [GRANT]),
        (200, b"[" * 100_000),
        (200, {}),
        (200, {**GRANT, "access_token": None}),
        (200, {**GRANT, "access_token": ""}),
        (200, {**GRANT, "access_token": "é"}),
        (200, {**GRANT, "access_token": "x" * 20_000}),
        (200, {**GRANT, "token_type": "mac"}),
        (200, {**GRANT, "token_type": ["Bearer"]}),
        (200, {**GRANT, "expires_in": "300"}),
        (200, {**GRANT, "expires_in": True}),
        (200, {**GRANT, "expires_in": 0}),
        (200, {**GRANT, "expires_at": {}}),
        (200, b'{"access_token":"a","token_type":"Bearer","expires_in":1e999}'),
        (200, b'{"access_token":"a","token_type":"Bearer","expires_in":300,"expires_at":1e999}'),
        (200, b" " * MIB + json.dumps(GRANT).encode()),
    ],
    ids=lambda value: str(value)[:60],
)
def test_everything_else_is_the_providers_fault_and_final(provider: FakeProvider, status: int, body: Any) -> None:
    provider.answer("/token", body, status)

    assert grant(provider) is IdentityProviderUnavailableError
    assert provider.requests == {"/token": 1}


GOOD = json.dumps(GRANT).encode()
PASSING = {
    "502": Reply(GOOD, 502),
    "503": Reply(b"", 503),
    "504 of somebody who says it was the user": Reply(b'{"error":"invalid_grant"}', 504),
    "hangs": Reply(b"", hangs=True),
    "drips": Reply(GOOD, drips=True),
    "hangs up": Reply(b"", hangs_up=True),
    "resets": Reply(b"", resets=True),
}


@pytest.mark.parametrize("reply", PASSING.values(), ids=PASSING)
def test_what_may_pass_is_tried_once_more_and_no_third_time(provider: FakeProvider, reply: Reply) -> None:
    provider.in_turn["/token"] = [reply]
    assert grant(provider) == TokenGrant(access_token="a.b.c", expires_in=300)
    assert [form["password"] for form in provider.forms] == [["pässwörd"]] * 2

    provider.in_turn["/token"] = [reply, reply]
    assert grant(provider) is IdentityProviderUnavailableError
    assert provider.requests == {"/token": 4}


@pytest.mark.parametrize("failure", [httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ReadError, httpx2.PoolTimeout])
def test_a_connection_that_cannot_be_made_is_tried_once_more(failure: type[httpx2.TransportError]) -> None:
    attempts = 0

    def handle(request: httpx2.Request) -> httpx2.Response:
        nonlocal attempts
        attempts += 1
        if attempts != 2:
            raise failure("not now", request=request)
        return httpx2.Response(200, json=GRANT)

    async def main() -> None:
        transport = httpx2.MockTransport(handle)
        client = IdentityProviderClient(
            client_id="p", client_secret="s", token_url="http://a.test", transport=transport
        )
        assert (await client.password_grant("ada", "x")).access_token == "a.b.c"
        with pytest.raises(IdentityProviderUnavailableError):
            await client.password_grant("ada", "x")
        await client.aclose()

    asyncio.run(main())
    assert attempts == 4


def test_the_second_answer_counts(provider: FakeProvider) -> None:
    refused = Reply(b'{"error":"invalid_grant"}', 401)
    for second, expected in (
        (refused, InvalidCredentialsError),
        (Reply(b"garbage"), IdentityProviderUnavailableError),
        (Reply(GOOD, 302), IdentityProviderUnavailableError),
    ):
        provider.in_turn["/token"] = [Reply(b"", 503), second]
        assert grant(provider) is expected
    assert provider.requests == {"/token": 6}


@pytest.mark.parametrize(
    "reply",
    [
        Reply(GOOD, 200, {"Content-Length": "100000"}),
        Reply(b"zz\r\n" + GOOD, 200, {"Transfer-Encoding": "chunked"}),
        Reply(gzip.compress(GOOD), 200, {"Content-Encoding": "gzip"}),
        Reply(gzip.compress(b" " * (64 * MIB)), 200, {"Content-Encoding": "gzip"}),
        Reply(GOOD, 200, {"Content-Encoding": "br"}),
        Reply(GOOD + b" " * MIB, 200),
    ],
    ids=["cut off", "broken chunks", "gzip", "a bomb", "br", "too large"],
)
def test_a_body_that_is_not_right_is_final(provider: FakeProvider, reply: Reply) -> None:
    provider.replies["/token"] = reply

    assert grant(provider) is IdentityProviderUnavailableError
    assert provider.requests == {"/token": 1}


def test_a_redirect_is_not_followed(provider: FakeProvider) -> None:
    provider.answer("/elsewhere", GRANT)
    with fake_provider() as stranger:
        stranger.answer("/token", GRANT)
        for location in (f"{provider.url}/elsewhere", stranger.token_url):
            for status in (301, 302, 303, 307, 308):
                provider.replies["/token"] = Reply(b"", status, {"Location": location})
                assert grant(provider) is IdentityProviderUnavailableError
        assert not stranger.requests
    assert provider.requests == {"/token": 10}


def test_a_redirect_with_a_token_in_it_is_not_taken(provider: FakeProvider) -> None:
    provider.answer("/token", GRANT, 302)

    assert grant(provider) is IdentityProviderUnavailableError


def test_no_compression_is_asked_for(provider: FakeProvider) -> None:
    grant(provider)
    assert provider.headers[0]["accept-encoding"] == "identity"


def test_a_provider_that_is_gone_is_unavailable(provider: FakeProvider) -> None:
    provider.stop()
    assert grant(provider) is IdentityProviderUnavailableError
    assert grant(provider, token_url="http://") is IdentityProviderUnavailableError


@pytest.mark.parametrize(("username", "password"), [("", "x"), ("ada", ""), ("ada", "\ud800"), ("\udfff", "x")])
def test_what_cannot_be_sent_is_not_sent(provider: FakeProvider, username: str, password: str) -> None:
    assert grant(provider, username, password) is InvalidCredentialsError
    assert not provider.requests


def test_the_password_is_not_in_the_error(provider: FakeProvider) -> None:
    provider.in_turn["/token"] = [Reply(b"", 503), Reply(b"", hangs=True)]

    async def main() -> BaseException:
        client = IdentityProviderClient(
            client_id="payrec", client_secret="s", token_url=provider.token_url, timeout_seconds=0.1
        )
        with pytest.raises(IdentityProviderUnavailableError) as failed:
            await client.password_grant("ada", "open sesame")
        await client.aclose()
        return failed.value

    error = asyncio.run(main())
    assert error.__cause__ is None
    assert error.__suppress_context__
    assert "sesame" not in f"{error} {error.__dict__}"


@pytest.mark.parametrize("slash", ["", "/"])
def test_the_token_endpoint_is_discovered(provider: FakeProvider, slash: str) -> None:
    provider.describe(provider.url + slash)

    async def main() -> TokenGrant:
        async with httpx2.AsyncClient(trust_env=False) as http:
            discovery = ProviderDiscovery(issuer=provider.url + slash, http=http, clock=Clock())
            client = IdentityProviderClient(client_id="payrec", client_secret="s", discovery=discovery)
            try:
                return await client.password_grant("ada", "pässwörd")
            finally:
                await client.aclose()

    assert asyncio.run(main()).access_token == "a.b.c"


def test_a_client_that_cannot_work_is_refused_at_the_start() -> None:
    with pytest.raises(ConfigurationError, match="IDP_TOKEN_URL"):
        IdentityProviderClient(client_id="payrec", client_secret="s")
    with pytest.raises(ConfigurationError, match="Latin-1"):
        IdentityProviderClient(client_id="payrec", client_secret="密", token_url="http://127.0.0.1:1")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=3), children, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100)
@given(text=st.binary(max_size=50))
def test_bad_json_is_a_value_error(text: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(strict_json(text), dict)


@settings(max_examples=50)
@given(document=st.dictionaries(st.text(max_size=5), json_values, max_size=4))
def test_good_json_is_read(document: dict[str, Any]) -> None:
    assert strict_json(json.dumps(document).encode()) == document
