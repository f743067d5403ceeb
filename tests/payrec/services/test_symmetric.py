"""Tokens of the provider beside those of a shared secret: each by its own key, and never one for the other."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.embedded.postgres import EmbeddedDatabase
from payrec.errors import (
    ConfigurationError,
    ExpiredCredentialsError,
    IdentityProviderUnavailableError,
    InvalidCredentialsError,
    PayrecError,
)
from payrec.factory import Factory, create_context
from payrec.main import create_app
from payrec.services.claims import Claims
from payrec.services.verification import SymmetricVerifier, TokenVerifier
from support.idp import (
    AUDIENCE,
    ISSUER,
    NOW,
    TENANT,
    USER,
    Clock,
    FakeProvider,
    claims,
    ec_key,
    encode,
    outcome,
    public_jwk,
    rsa_key,
    sign,
    verifier_of,
)
from support.service import Tenant, make_config, running
from support.wire import code

FIRST = rsa_key("first")
CURVE = ec_key("curve")
SECRET = "a shared secret of 32 bytes and more"
OUR_ISSUER = "payrec"
IAT = int(NOW.timestamp())

Outcome = Claims | type[PayrecError]


@pytest.fixture
def provider(provider: FakeProvider) -> FakeProvider:
    provider.publish(FIRST, CURVE)
    return provider


def symmetric(secret: str = SECRET) -> SymmetricVerifier:
    return SymmetricVerifier(secret=secret, issuer=OUR_ISSUER, audience=AUDIENCE, clock=Clock())


def verify_both(provider: FakeProvider, *tokens: str, mode: str = "both") -> list[Outcome]:
    """Return the outcome of each token under one new verifier of that mode."""

    async def main() -> list[Outcome]:
        async with verifier_of(provider, Clock()) as of_provider:
            verifier = TokenVerifier(of_provider, symmetric() if mode == "both" else None)
            return [await outcome(verifier, token) for token in tokens]

    return asyncio.run(main())


def verify_alone(token: str) -> Outcome:
    try:
        return symmetric().verify(token)
    except PayrecError as error:
        return type(error)


def hs256(
    payload: dict[str, Any] | bytes | None = None,
    *,
    secret: bytes = SECRET.encode(),
    header: dict[str, Any] | bytes | None = None,
    digest: str = "sha256",
    **changes: Any,
) -> str:
    """Sign by hand, since a library refuses most of what is tried here."""
    body = claims(**{"iss": OUR_ISSUER, **changes}) if payload is None else payload
    head = header if isinstance(header, bytes) else {"alg": "HS256", "typ": "JWT", **(header or {})}
    if isinstance(head, dict):
        head = {name: value for name, value in head.items() if value is not None}
    signing_input = f"{encode(head)}.{encode(body)}"
    return f"{signing_input}.{encode(hmac.digest(secret, signing_input.encode(), digest))}"


def test_a_token_of_the_shared_secret_says_who_comes(provider: FakeProvider) -> None:
    (found,) = verify_both(provider, hs256())

    assert isinstance(found, Claims)
    assert (found.tenant_id, found.user_id, found.of_provider) == (UUID(TENANT), UUID(USER), False)


def test_both_kinds_are_taken_side_by_side(provider: FakeProvider) -> None:
    found = verify_both(
        provider, sign(FIRST), hs256(), sign(FIRST, alg="PS256"), hs256(header={"kid": "any"}), sign(CURVE, alg="ES256")
    )

    assert [one.of_provider for one in found if isinstance(one, Claims)] == [True, False, True, False, True]


def test_a_token_of_the_shared_secret_does_not_need_the_provider(provider: FakeProvider) -> None:
    provider.stop()

    found = verify_both(provider, hs256(), sign(FIRST), hs256())

    assert [type(one) for one in (found[0], found[2])] == [Claims, Claims]
    assert found[1] is IdentityProviderUnavailableError
    assert not provider.requests


def test_without_the_mode_the_shared_secret_opens_nothing(provider: FakeProvider) -> None:
    tokens = [hs256(), hs256(header={"kid": "first"}), hs256(iss=ISSUER), hs256(iss=ISSUER, header={"kid": "first"})]

    assert verify_both(provider, *tokens, mode="idp") == [InvalidCredentialsError] * 4
    assert not provider.requests


def _public_texts() -> list[bytes]:
    """Return what everybody knows of the provider's keys, in every spelling that was ever taken for a secret."""
    texts = []
    for key in (FIRST, CURVE):
        pem, jwk = key.as_pem(private=False), public_jwk(key)
        texts += [pem, pem.strip(), pem.replace(b"\n", b"\r\n"), key.as_der(private=False)]
        texts += [json.dumps(document).encode() for document in (jwk, {"keys": [jwk]})]
        texts += [json.dumps(jwk, separators=(",", ":"), sort_keys=True).encode()]
    modulus = str(FIRST.as_dict(private=False)["n"])
    assert FIRST.public_key is not None
    texts += [FIRST.public_key.public_bytes(form, PublicFormat.PKCS1) for form in (Encoding.PEM, Encoding.DER)]
    return [*texts, modulus.encode(), base64.urlsafe_b64decode(modulus + "=="), b""]


@pytest.mark.parametrize("mode", ["idp", "both"])
@pytest.mark.parametrize("issuer", [ISSUER, OUR_ISSUER])
def test_the_public_key_is_never_a_shared_secret(provider: FakeProvider, mode: str, issuer: str) -> None:
    tokens = [
        hs256(secret=text, iss=issuer, header={"kid": kid})
        for text in _public_texts()
        for kid in (None, "first", "curve")
    ]

    assert set(verify_both(provider, *tokens, mode=mode)) == {InvalidCredentialsError}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("jwt_secret", FIRST.as_pem(private=False).decode()),
        ("jwt_secret", CURVE.as_pem(private=False).decode()),
        ("idp_client_secret", "密" * 16),
    ],
    ids=["an RSA key", "an EC key", "not Latin-1"],
)
async def test_a_secret_that_cannot_be_one_ends_the_start(setting: str, value: str) -> None:
    nowhere = EmbeddedDatabase(url="postgresql:///a", admin_url="postgresql:///b", superuser_url="postgresql:///c")
    config = make_config(nowhere, **{"auth_mode": "both", "jwt_secret": SECRET, setting: value})
    factory = Factory(create_context(config))
    with pytest.raises(ConfigurationError, match=f"{setting.upper()} "):
        create_app(factory)
    await factory.context.http.aclose()


def test_neither_family_speaks_for_the_other_s_issuer(provider: FakeProvider) -> None:
    tokens = [
        hs256(iss=ISSUER),
        hs256(iss=ISSUER, header={"kid": "first"}),
        *(sign(key, claims(iss=OUR_ISSUER), alg=alg) for key, alg in _provider_algorithms()),
    ]

    assert verify_both(provider, *tokens) == [InvalidCredentialsError] * 5


def _provider_algorithms() -> list[tuple[Any, str]]:
    return [(FIRST, "RS256"), (FIRST, "PS256"), (CURVE, "ES256")]


@pytest.mark.parametrize("mode", ["idp", "both"])
def test_another_algorithm_or_none_at_all_is_refused(provider: FakeProvider, mode: str) -> None:
    names: list[Any] = [
        "none",
        "None",
        "nOnE",
        "NONE",
        "",
        "hs256",
        "HS256 ",
        "HS1",
        "dir",
        "EdDSA",
        1,
        True,
        ["HS256"],
        {},
    ]
    tokens = [hs256(header={"alg": name, "kid": kid}) for name in names for kid in (None, "first")]
    tokens += [token.rpartition(".")[0] + "." for token in tokens]
    tokens += [hs256(header={"alg": None}), hs256(header=b"{}"), hs256(header=b'{"alg":null}')]
    tokens += [hs256(header={"alg": alg}, digest=digest) for alg, digest in (("HS384", "sha384"), ("HS512", "sha512"))]
    # The signature of one family under the name of the other.
    tokens += [hs256(header={"alg": alg, "kid": kid}) for key, alg in _provider_algorithms() for kid in (None, key.kid)]
    tokens.append(hs256(header=b'{"alg":"RS256","alg":"HS256"}'))

    assert set(verify_both(provider, *tokens, mode=mode)) == {InvalidCredentialsError}


@pytest.mark.parametrize(
    "header",
    [
        {"jwk": {"kty": "oct", "k": encode(b"s" * 32)}},
        {"jwk": public_jwk(FIRST)},
        {"jku": "http://127.0.0.1:1/jwks"},
        {"x5u": "http://127.0.0.1:1/cert"},
        {"x5c": ["MIIB"]},
        {"crit": ["exp"], "exp": 1},
        {"crit": []},
        {"b64": False},
        {"typ": "dpop+jwt"},
        {"typ": "logout+jwt"},
        {"typ": 1},
        {"kid": 1},
        {"kid": "k" * 256},
    ],
    ids=lambda header: next(iter(header)),
)
def test_headers_that_bring_a_key_or_a_meaning_are_refused(header: dict[str, Any]) -> None:
    assert verify_alone(hs256(header=header)) is InvalidCredentialsError


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Claims),
        ({"aud": AUDIENCE}, Claims),
        ({"aud": None, "azp": AUDIENCE}, Claims),
        ({"typ": None}, Claims),
        ({"sub": None, "preferred_username": None}, Claims),
        ({"iss": None}, InvalidCredentialsError),
        ({"iss": ""}, InvalidCredentialsError),
        ({"iss": [OUR_ISSUER]}, InvalidCredentialsError),
        ({"aud": "another"}, InvalidCredentialsError),
        ({"aud": None}, InvalidCredentialsError),
        ({"exp": None}, InvalidCredentialsError),
        ({"exp": str(IAT + 300)}, InvalidCredentialsError),
        ({"exp": IAT + 1}, Claims),
        ({"exp": IAT}, ExpiredCredentialsError),
        ({"nbf": IAT + 31}, InvalidCredentialsError),
        ({"iat": IAT + 31}, InvalidCredentialsError),
        ({"typ": "ID"}, InvalidCredentialsError),
        ({"typ": "Refresh"}, InvalidCredentialsError),
        ({"token_use": "id"}, InvalidCredentialsError),
        ({"at_hash": "x"}, InvalidCredentialsError),
        ({"tenant_id": None}, InvalidCredentialsError),
        ({"user_id": "ada"}, InvalidCredentialsError),
    ],
    ids=str,
)
def test_the_claims_decide_as_they_do_for_the_provider(changes: dict[str, Any], expected: type) -> None:
    found = verify_alone(hs256(**changes))

    assert (type(found) if isinstance(found, Claims) else found) is expected


def test_many_claims_are_taken_and_too_many_are_not(provider: FakeProvider) -> None:
    groups = [f"group-{number:04}" for number in range(600)]
    assert len(json.dumps(claims(groups=groups))) > 8 * 1024
    beyond = ["g" * 100] * 130

    found = verify_both(provider, hs256(groups=groups), sign(FIRST, claims(groups=groups)))
    assert [type(one) for one in found] == [Claims, Claims]
    found = verify_both(provider, hs256(groups=beyond), sign(FIRST, claims(groups=beyond)))
    assert found == [InvalidCredentialsError] * 2


def _with_padding(token: str) -> str:
    return token + "="


def _with_a_part_more(token: str) -> str:
    return token + ".e30"


def _without_signature(token: str) -> str:
    return token.rpartition(".")[0] + "."


def _with_half_a_signature(token: str) -> str:
    return token[:-22]


def _with_other_claims(token: str) -> str:
    head, _, signature = token.split(".")
    return ".".join((head, hs256(sub="subject-2").split(".")[1], signature))


@pytest.mark.parametrize(
    "change", [_with_padding, _with_a_part_more, _without_signature, _with_half_a_signature, _with_other_claims]
)
def test_a_changed_token_is_refused(provider: FakeProvider, change: Callable[[str], str]) -> None:
    assert verify_both(provider, change(hs256())) == [InvalidCredentialsError]


@pytest.mark.parametrize("secret", [SECRET + "x", SECRET[:-1], SECRET.upper(), encode(SECRET.encode()), " " + SECRET])
def test_another_secret_opens_nothing(secret: str) -> None:
    assert verify_alone(hs256(secret=secret.encode())) is InvalidCredentialsError


@settings(max_examples=200)
@given(data=st.data())
def test_no_token_with_one_character_changed_is_taken(data: st.DataObject) -> None:
    token = hs256()
    position = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.sampled_from("AZaz09-_.=+/ ").filter(lambda character: character != token[position]))

    assert verify_alone(token[:position] + other + token[position + 1 :]) is InvalidCredentialsError


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=3), children, max_size=3),
    max_leaves=6,
)
header_names = st.sampled_from(["alg", "typ", "kid", "cty", "crit", "x5t", "jwk", "b64", "zip", "p2c"])


claim_names = st.sampled_from(
    ["iss", "aud", "azp", "exp", "nbf", "iat", "typ", "sub", "tenant_id", "user_id", "roles", "environment"]
)


@settings(max_examples=200)
@given(
    header=st.dictionaries(header_names, json_values, max_size=4),
    changes=st.dictionaries(claim_names, json_values, max_size=4),
)
def test_nothing_that_is_well_signed_gives_another_error(header: dict[str, Any], changes: dict[str, Any]) -> None:
    found = verify_alone(hs256({**claims(iss=OUR_ISSUER), **changes}, header=header))

    assert isinstance(found, Claims) or found in {InvalidCredentialsError, ExpiredCredentialsError}


@pytest.mark.anyio
async def test_it_opens_its_own_tenant_over_http_and_no_other(database: EmbeddedDatabase) -> None:
    config = make_config(database, auth_mode="both", jwt_secret=SECRET)
    async with running(config, worker=False) as service:
        acme, globex = await service.tenant("acme"), await service.tenant("globex")
        users = {tenant.id: await _administrator(tenant) for tenant in (acme, globex)}
        now = service.factory.context.clock.now()

        def of(tenant: Tenant, user_id: str, **changes: Any) -> dict[str, str]:
            document = claims(now, iss="payrec", tenant_id=tenant.id, user_id=user_id, sub=None, roles=None)
            return tenant.headers(Authorization=f"Bearer {hs256({**document, **changes})}")

        async def get(headers: dict[str, str]) -> Any:
            return await service.http.get(f"{service.base_url}/tenants", headers=headers)

        for tenant, other in ((acme, globex), (globex, acme)):
            mine = of(tenant, users[tenant.id], permissions=None)
            assert [row["id"] for row in (await get(mine)).json()["data"]] == [tenant.id]
            assert code(await get({**mine, "X-Tenant-Id": other.id})) == "tenant_mismatch"
            assert code(await get(of(tenant, users[other.id]))) == "unknown_user"
            assert code(await get(of(tenant, users[tenant.id], iss=service.factory.issuer))) == "invalid_credentials"
            assert (await get(tenant.headers())).status_code == 200


async def _administrator(tenant: Tenant) -> str:
    payload = tenant.token.split(".")[1]
    return str(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["user_id"])
