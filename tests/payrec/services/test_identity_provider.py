from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import json
from collections.abc import Iterator
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
from payrec.services.identity_provider import IdentityProviderClient, ProviderDiscovery, TokenGrant, strict_json
from support.idp import Clock, FakeProvider, Reply, fake_provider, tls

GRANT = {"access_token": "a.b.c", "token_type": "Bearer", "expires_in": 300}
MIB = 1024 * 1024


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with fake_provider() as running:
        running.answer("/token", GRANT)
        yield running


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
def test_a_refused_user_is_told_so(provider: FakeProvider, status: int, body: Any) -> None:
    provider.answer("/token", body, status)

    assert grant(provider) is InvalidCredentialsError


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
        (503, b""),
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
def test_everything_else_is_the_providers_fault(provider: FakeProvider, status: int, body: Any) -> None:
    provider.answer("/token", body, status)

    assert grant(provider) is IdentityProviderUnavailableError


def test_a_redirect_is_not_followed(provider: FakeProvider) -> None:
    provider.answer("/elsewhere", GRANT)
    for status in (302, 307):
        provider.replies["/token"] = Reply(b"", status, {"Location": f"{provider.url}/elsewhere"})
        assert grant(provider) is IdentityProviderUnavailableError
    assert provider.requests["/elsewhere"] == 0


def test_a_redirect_with_a_token_in_it_is_not_taken(provider: FakeProvider) -> None:
    provider.answer("/token", GRANT, 302)

    assert grant(provider) is IdentityProviderUnavailableError


def test_a_compressed_answer_is_not_opened(provider: FakeProvider) -> None:
    provider.replies["/token"] = Reply(gzip.compress(json.dumps(GRANT).encode()), 200, {"Content-Encoding": "gzip"})

    assert grant(provider) is IdentityProviderUnavailableError
    assert provider.headers[0]["accept-encoding"] == "identity"


def test_a_provider_that_hangs_is_given_up(provider: FakeProvider) -> None:
    provider.hang("/token")
    assert grant(provider) is IdentityProviderUnavailableError


def test_a_provider_that_is_gone_is_unavailable(provider: FakeProvider) -> None:
    provider.stop()
    assert grant(provider) is IdentityProviderUnavailableError
    assert grant(provider, token_url="http://") is IdentityProviderUnavailableError


@pytest.mark.parametrize(("username", "password"), [("", "x"), ("ada", ""), ("ada", "\ud800"), ("\udfff", "x")])
def test_what_cannot_be_sent_is_not_sent(provider: FakeProvider, username: str, password: str) -> None:
    assert grant(provider, username, password) is InvalidCredentialsError
    assert not provider.requests


def test_the_password_is_not_in_the_error(provider: FakeProvider) -> None:
    provider.hang("/token")

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


def test_the_token_endpoint_is_discovered(provider: FakeProvider) -> None:
    provider.describe()

    async def main() -> TokenGrant:
        async with httpx2.AsyncClient(trust_env=False) as http:
            discovery = ProviderDiscovery(issuer=provider.url, http=http, clock=Clock())
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
