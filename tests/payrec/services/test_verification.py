from __future__ import annotations

import asyncio
import hmac
import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.errors import (
    ExpiredCredentialsError,
    IdentityProviderUnavailableError,
    InvalidCredentialsError,
    PayrecError,
)
from payrec.services.claims import Claims, read_claims
from payrec.services.verification import JwksVerifier
from support.idp import (
    AUDIENCE,
    ISSUER,
    NOW,
    TENANT,
    USER,
    Clock,
    FakeProvider,
    assembled,
    claims,
    ec_key,
    encode,
    public_jwk,
    rsa_key,
    sign,
    verify,
)

FIRST = rsa_key("first")
SECOND = rsa_key("second")
IAT = int(NOW.timestamp())


def test_an_access_token_says_who_comes(provider: FakeProvider) -> None:
    (found,) = verify(provider, sign(FIRST))

    assert found == Claims(
        subject="subject-1",
        tenant_id=UUID(TENANT),
        environments=frozenset({"production", "test"}),
        user_id=UUID(USER),
        username="ada",
        roles=("operator",),
        permissions=("read", "write"),
        expires_at=NOW + timedelta(seconds=300),
        of_provider=True,
    )


def test_three_algorithms_and_no_other(provider: FakeProvider) -> None:
    curve, other_curve = ec_key("curve"), ec_key("other-curve", "P-384")
    provider.publish(FIRST, curve, other_curve)

    taken = verify(provider, sign(FIRST, alg="RS256"), sign(FIRST, alg="PS256"), sign(curve, alg="ES256"))
    refused = verify(provider, sign(FIRST, alg="RS512"), sign(FIRST, alg="PS384"), sign(other_curve, alg="ES384"))

    assert [type(found) for found in taken] == [Claims] * 3
    assert refused == [InvalidCredentialsError] * 3


def test_a_token_without_signature_is_refused(provider: FakeProvider) -> None:
    header = {"alg": "none", "kid": "first", "typ": "JWT"}
    good = sign(FIRST)

    assert set(
        verify(
            provider,
            assembled(header, claims()),
            assembled({**header, "alg": "None"}, claims()),
            assembled({**header, "alg": "RS256"}, claims()),
            assembled({"kid": "first"}, claims()),
            assembled({**header, "alg": ["RS256"]}, claims()),
            good.rpartition(".")[0] + ".",
        )
    ) == {InvalidCredentialsError}


def test_the_public_key_is_never_a_shared_secret(provider: FakeProvider) -> None:
    pem = FIRST.as_pem(private=False)
    secrets = [pem, pem.strip(), FIRST.as_der(private=False), json.dumps(public_jwk(FIRST)).encode()]
    # A key set with a symmetric key must not open the other family either.
    provider.publish(FIRST, {"kty": "oct", "kid": "shared", "alg": "HS256", "k": encode(b"s" * 32)})

    tokens = [_hs256(secret, kid="first") for secret in secrets]
    tokens.append(_hs256(b"s" * 32, kid="shared"))

    assert set(verify(provider, *tokens)) == {InvalidCredentialsError}


def _hs256(secret: bytes, *, kid: str) -> str:
    """Sign by hand: a library refuses to take a public key for a secret."""
    signing_input = f"{encode({'alg': 'HS256', 'kid': kid})}.{encode(claims())}"
    return f"{signing_input}.{encode(hmac.digest(secret, signing_input.encode(), 'sha256'))}"


@pytest.mark.parametrize(
    "header",
    [
        {"jwk": public_jwk(SECOND)},
        {"jku": "http://127.0.0.1:1/jwks"},
        {"x5u": "http://127.0.0.1:1/cert"},
        {"x5c": ["MIIB"]},
        {"crit": ["exp"], "exp": 1},
        {"crit": []},
        {"b64": True},
        {"typ": "dpop+jwt"},
        {"typ": "logout+jwt"},
        {"typ": 1},
        {"kid": 1},
        {"kid": ""},
        {"kid": "k" * 256},
        {"kid": "first\0"},
    ],
    ids=lambda header: json.dumps(header)[:12],
)
def test_headers_that_bring_a_key_or_a_meaning_are_refused(provider: FakeProvider, header: dict[str, Any]) -> None:
    text = json.dumps({"alg": "RS256", "typ": "JWT", "kid": "first", **header}).encode()
    signing_input = f"{encode(text)}.{encode(claims())}"
    signature = _rs256(signing_input.encode())

    assert verify(provider, f"{signing_input}.{encode(signature)}") == [InvalidCredentialsError]
    assert provider.requests["/jwks"] <= 1


def _rs256(message: bytes) -> bytes:
    assert FIRST.private_key is not None
    return FIRST.private_key.sign(message, PKCS1v15(), SHA256())


def test_header_names_that_come_twice_are_refused(provider: FakeProvider) -> None:
    header = b'{"alg":"RS256","kid":"other","kid":"first"}'
    signing_input = f"{encode(header)}.{encode(claims())}"

    assert verify(provider, f"{signing_input}.{encode(_rs256(signing_input.encode()))}") == [InvalidCredentialsError]


def test_harmless_headers_are_ignored(provider: FakeProvider) -> None:
    tokens = [sign(FIRST, header={"typ": "at+jwt", "x5t": "abc", "nonce": "1"}), sign(FIRST, header={"cty": "json"})]

    assert [type(found) for found in verify(provider, *tokens)] == [Claims] * 2


@pytest.mark.parametrize(
    "token",
    ["", ".", "..", "...", "a.b.c", "é.é.é", "x" * 20_000, "e30.e30.e30", f"{encode(b'[]')}.e30.e30", "bnVsbA.e30.e30"],
)
def test_what_is_no_token_is_refused_without_asking_the_provider(provider: FakeProvider, token: str) -> None:
    assert verify(provider, token) == [InvalidCredentialsError]
    assert not provider.requests


@settings(max_examples=100)
@given(text=st.text(max_size=60), parts=st.lists(st.binary(max_size=40), min_size=3, max_size=3))
def test_no_input_gives_another_error(text: str, parts: list[bytes]) -> None:
    async def main() -> None:
        verifier = JwksVerifier(
            issuer=ISSUER, audience=AUDIENCE, http=_no_http(), clock=Clock(), jwks_url="http://127.0.0.1:1/"
        )
        for token in (text, ".".join(map(encode, parts))):
            with pytest.raises((InvalidCredentialsError, IdentityProviderUnavailableError)):
                await verifier.verify(token)

    asyncio.run(main())


def _no_http() -> httpx2.AsyncClient:
    def refuse(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(503)

    return httpx2.AsyncClient(transport=httpx2.MockTransport(refuse))


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_changed_token_is_refused(provider: FakeProvider, position: int) -> None:
    parts = sign(FIRST).split(".")
    other = sign(FIRST, claims(sub="subject-2"), header={"cty": "x"}).split(".")
    parts[position] = other[position]

    assert verify(provider, ".".join(parts)) == [InvalidCredentialsError]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"iss": "http://issuer.test/realms/other"}, InvalidCredentialsError),
        ({"iss": ISSUER + "/"}, InvalidCredentialsError),
        ({"iss": None}, InvalidCredentialsError),
        ({"iss": [ISSUER]}, InvalidCredentialsError),
        ({"aud": AUDIENCE}, Claims),
        ({"aud": None, "azp": AUDIENCE}, Claims),
        ({"aud": "account"}, InvalidCredentialsError),
        ({"aud": None}, InvalidCredentialsError),
        ({"aud": {AUDIENCE: 1}}, InvalidCredentialsError),
        ({"aud": "payrec-other"}, InvalidCredentialsError),
        ({"exp": None}, InvalidCredentialsError),
        ({"exp": "9999999999"}, InvalidCredentialsError),
        ({"exp": True}, InvalidCredentialsError),
        ({"exp": 10**400}, Claims),
        ({"exp": IAT + 0.5}, Claims),
        ({"exp": IAT + 1}, Claims),
        ({"exp": IAT}, ExpiredCredentialsError),
        ({"exp": IAT - 1}, ExpiredCredentialsError),
        ({"exp": -1}, ExpiredCredentialsError),
        ({"exp": IAT - 1, "iss": "other"}, InvalidCredentialsError),
        ({"exp": IAT - 1, "typ": "ID"}, InvalidCredentialsError),
        ({"nbf": IAT + 30}, Claims),
        ({"nbf": IAT + 31}, InvalidCredentialsError),
        ({"iat": IAT + 30}, Claims),
        ({"iat": IAT + 31}, InvalidCredentialsError),
        ({"iat": None}, Claims),
        ({"nbf": "now"}, InvalidCredentialsError),
        ({"typ": "ID"}, InvalidCredentialsError),
        ({"typ": "Refresh"}, InvalidCredentialsError),
        ({"typ": "Offline"}, InvalidCredentialsError),
        ({"typ": ["Bearer"]}, InvalidCredentialsError),
        ({"typ": None}, Claims),
        ({"typ": None, "at_hash": "x"}, InvalidCredentialsError),
        ({"typ": None, "token_use": "id"}, InvalidCredentialsError),
        ({"tenant_id": None}, InvalidCredentialsError),
        ({"tenant_id": "acme"}, InvalidCredentialsError),
        ({"user_id": "ada"}, InvalidCredentialsError),
        ({"user_id": None}, Claims),
        ({"user_id": None, "sub": None, "preferred_username": None}, InvalidCredentialsError),
        ({"sub": "a\0b"}, InvalidCredentialsError),
        ({"sub": "s" * 256}, InvalidCredentialsError),
        ({"preferred_username": 7}, InvalidCredentialsError),
        ({"roles": 1}, InvalidCredentialsError),
        ({"roles": {"admin": True}}, InvalidCredentialsError),
        ({"permissions": [1]}, InvalidCredentialsError),
        ({"environment": 5}, InvalidCredentialsError),
    ],
    ids=str,
)
def test_the_claims_decide(changes: dict[str, Any], expected: type) -> None:
    payload = json.dumps(claims(**changes)).encode()
    try:
        found: type = type(read_claims(payload, issuer=ISSUER, audience=AUDIENCE, now=NOW, of_provider=True))
    except PayrecError as error:
        found = type(error)

    assert found is expected


@pytest.mark.parametrize("payload", [b"", b"[]", b"null", b'{"a":1,"a":2}', b'{"exp":NaN}', b"[" * 100_000, b"\xff"])
def test_a_payload_that_is_no_object_is_refused(provider: FakeProvider, payload: bytes) -> None:
    assert verify(provider, sign(FIRST, payload)) == [InvalidCredentialsError]


def test_environment_is_a_text_or_a_list_and_names_what_exists() -> None:
    def environments(claim: object) -> frozenset[str]:
        payload = json.dumps(claims(environment=claim)).encode()
        return read_claims(payload, issuer=ISSUER, audience=AUDIENCE, now=NOW, of_provider=True).environments

    assert environments("test") == {"test"}
    assert environments(["test", "qa", "production"]) == {"test", "production"}
    assert environments(None) == frozenset()


def test_absent_roles_are_not_empty_ones() -> None:
    def roles(claim: object) -> tuple[str, ...] | None:
        payload = json.dumps(claims(roles=claim)).encode()
        return read_claims(payload, issuer=ISSUER, audience=AUDIENCE, now=NOW, of_provider=True).roles

    assert roles(None) is None
    assert roles([]) == ()
    assert roles("admin viewer") == ("admin", "viewer")


def test_the_kid_decides_on_the_key(provider: FakeProvider) -> None:
    provider.publish(FIRST, SECOND)

    found = verify(provider, sign(SECOND), sign(SECOND, kid="first"), sign(FIRST, kid="third"), sign(FIRST, kid=None))
    assert isinstance(found[0], Claims)
    assert found[1:] == [InvalidCredentialsError] * 3


def test_a_token_without_kid_is_taken_where_there_is_no_choice(provider: FakeProvider) -> None:
    provider.publish(public_jwk(FIRST, kid=None), ec_key("curve"))

    found = verify(provider, sign(FIRST, kid=None), sign(SECOND, kid=None))
    assert isinstance(found[0], Claims)
    assert found[1] is InvalidCredentialsError


def test_two_keys_may_share_a_kid(provider: FakeProvider) -> None:
    provider.publish(public_jwk(FIRST, kid="same"), public_jwk(SECOND, kid="same"))

    found = verify(provider, sign(FIRST, kid="same"), sign(SECOND, kid="same"), sign(rsa_key("x"), kid="same"))
    assert [type(one) for one in found[:2]] == [Claims] * 2
    assert found[2] is InvalidCredentialsError
