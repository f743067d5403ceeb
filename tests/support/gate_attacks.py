"""Attacks on authentication over HTTP, against the identity provider that the fixture ``provider`` gives.

Wrong tenants and environments, forged roles, and keys where only users may be are in ``support.gate_matrix``, on every
route. A module of tests takes these in by name.
"""

from __future__ import annotations

import hmac
import json
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from joserfc.jwk import RSAKey

from payrec.embedded.postgres import EmbeddedDatabase
from payrec.storage.database import Database
from support.idp import assembled, encode, fake_provider, public_jwk, rsa_key, sign
from support.providers import PASSWORD, Person, claims_of
from support.wire import code, in_control, problem, request_head, send_raw
from support.world import World, bearer, in_production, shared_database, world

__all__ = [
    "good",
    "pytestmark",
    "shared_database",
    "test_a_bearer_value_is_a_token_by_its_segments_alone",
    "test_a_good_token_is_taken",
    "test_a_header_that_brings_a_key_or_a_meaning_is_refused",
    "test_a_login_does_not_tell_who_exists",
    "test_a_mistyped_key_costs_no_query",
    "test_a_public_key_is_no_secret",
    "test_bytes_that_no_header_has_are_refused",
    "test_claims_are_bounded_by_the_header_block",
    "test_no_header_opens_development_in_production",
    "test_no_key_but_the_provider_s_signs",
    "test_the_claims_decide",
    "test_what_is_taken_away_is_gone_with_the_next_request",
    "world",
]

pytestmark = pytest.mark.anyio

LIST = "/expected-transactions"
FOREIGN = rsa_key("foreign")


@pytest.fixture(scope="module")
async def good(world: World) -> Person:
    """Whom all would like to be."""
    return await world.person("admin")


async def outcome(world: World, headers: dict[str, str]) -> str:
    """Return ``ok`` or the code of the refusal."""
    answer = await world.ask("GET", LIST, headers)
    return "ok" if answer.status_code == 200 else code(answer)


async def verdict(world: World, token: str) -> str:
    """Return what becomes of a bearer value."""
    return await outcome(world, world.place() | bearer(token))


def by_hand(key: RSAKey, header: dict[str, Any] | bytes, payload: dict[str, Any] | bytes) -> str:
    """Sign with RS256 whatever the header says."""
    assert key.private_key is not None
    signing_input = f"{encode(header)}.{encode(payload)}"
    return f"{signing_input}.{encode(key.private_key.sign(signing_input.encode(), PKCS1v15(), SHA256()))}"


def hs256(secret: bytes, header: dict[str, Any], payload: dict[str, Any]) -> str:
    """Sign with a shared secret; a library refuses to take a public key for one."""
    signing_input = f"{encode({**header, 'alg': 'HS256'})}.{encode(payload)}"
    return f"{signing_input}.{encode(hmac.digest(secret, signing_input.encode(), 'sha256'))}"


async def test_a_good_token_is_taken(world: World, good: Person) -> None:
    """What the attacks differ from: the provider's own token, and ones that are made here."""
    key = await world.provider.signing_key()
    tokens = [
        await world.provider.token(good),
        await world.token(good),
        by_hand(key, {"alg": "RS256", "kid": key.kid}, claims_of(world.service, good)),
    ]
    assert [await verdict(world, token) for token in tokens] == ["ok"] * 3


async def test_a_public_key_is_no_secret(world: World, good: Person) -> None:
    key, claims = await world.provider.signing_key(), claims_of(world.service, good)
    header = {"typ": "JWT", "kid": key.kid}
    unsigned = [assembled({**header, "alg": name}, claims) for name in ("none", "None", "nOnE", "", "RS256")]
    pem = key.as_pem(private=False)
    secrets = [pem, pem.strip(), key.as_der(private=False), json.dumps(public_jwk(key)).encode(), b""]
    confused = [hs256(secret, header, claims) for secret in secrets]
    signed = await world.token(good)
    stripped = [signed.rpartition(".")[0] + ".", signed[:-1] + ("A" if signed[-1] != "A" else "B") + "A"]
    for token in (*unsigned, *confused, *stripped):
        assert await verdict(world, token) == "invalid_credentials", token[:60]


async def test_a_header_that_brings_a_key_or_a_meaning_is_refused(world: World, good: Person) -> None:
    """Neither with the stranger's key nor with the provider's own, and the stranger's addresses are never asked."""
    key, claims = await world.provider.signing_key(), claims_of(world.service, good)
    with fake_provider() as stranger:
        stranger.publish({**public_jwk(FOREIGN), "kid": key.kid}, FOREIGN)
        brought: list[dict[str, Any]] = [
            {"jwk": public_jwk(FOREIGN)},
            {"jku": stranger.jwks_url},
            {"x5u": f"{stranger.url}/certificate"},
            {"x5c": ["MIIB"]},
            {"crit": ["exp"], "exp": claims["exp"]},
            {"crit": ["b64"], "b64": False},
        ]
        for extra in brought:
            for signer in (FOREIGN, key):
                for kid in (FOREIGN.kid, key.kid):
                    token = by_hand(signer, {"alg": "RS256", "typ": "JWT", "kid": kid, **extra}, claims)
                    assert await verdict(world, token) == "invalid_credentials", extra
        assert not stranger.requests


async def test_no_key_but_the_provider_s_signs(world: World, good: Person) -> None:
    key, claims = await world.provider.signing_key(), claims_of(world.service, good)
    twice = f'{{"alg":"RS256","kid":"{FOREIGN.kid}","kid":"{key.kid}"}}'.encode()
    tokens = [
        sign(FOREIGN, claims),
        sign(FOREIGN, claims, kid=key.kid),
        sign(FOREIGN, claims, kid=None),
        sign(key, claims, kid=FOREIGN.kid),
        sign(key, claims, kid=f"{key.kid} "),
        sign(key, claims, alg="RS512"),
        by_hand(key, twice, claims),
        by_hand(key, {"alg": "RS256", "kid": [key.kid]}, claims),
        by_hand(key, {"alg": "RS256", "kid": "../" + str(key.kid)}, claims),
        by_hand(key, {"kid": key.kid}, claims),
    ]
    for number, token in enumerate(tokens):
        assert await verdict(world, token) == "invalid_credentials", number


HOUR = 3600
CLAIMS: dict[str, tuple[Callable[[int, str], dict[str, Any]], str]] = {
    "another issuer": (lambda _, issuer: {"iss": f"{issuer}/"}, "invalid_credentials"),
    "no issuer": (lambda _, __: {"iss": None}, "invalid_credentials"),
    "a list of issuers": (lambda _, issuer: {"iss": [issuer]}, "invalid_credentials"),
    "another audience": (lambda _, __: {"aud": "account", "azp": "web"}, "invalid_credentials"),
    "no audience": (lambda _, __: {"aud": None, "azp": None}, "invalid_credentials"),
    "an audience that ours begins": (lambda _, __: {"aud": ["payrec-other"]}, "invalid_credentials"),
    "an ID token": (lambda _, __: {"typ": "ID"}, "invalid_credentials"),
    "an ID token by its hash": (lambda _, __: {"typ": None, "at_hash": "x"}, "invalid_credentials"),
    "a refresh token": (lambda _, __: {"typ": "Refresh"}, "invalid_credentials"),
    "an offline token": (lambda _, __: {"typ": "Offline"}, "invalid_credentials"),
    "a logout token": (lambda _, __: {"typ": None, "events": {}}, "invalid_credentials"),
    "expired": (lambda now, _: {"exp": now - 1}, "expired_credentials"),
    "expired long ago": (lambda _, __: {"exp": 0}, "expired_credentials"),
    "not yet valid": (lambda now, _: {"nbf": now + HOUR}, "invalid_credentials"),
    "issued tomorrow": (lambda now, _: {"iat": now + 24 * HOUR, "exp": now + 48 * HOUR}, "invalid_credentials"),
    "without end": (lambda _, __: {"exp": None}, "invalid_credentials"),
    "an end that is a text": (lambda now, _: {"exp": str(now + HOUR)}, "invalid_credentials"),
    "an end that is true": (lambda _, __: {"exp": True}, "invalid_credentials"),
    "no tenant": (lambda _, __: {"tenant_id": None}, "invalid_credentials"),
    "a tenant that is none": (lambda _, __: {"tenant_id": "acme' OR true --"}, "invalid_credentials"),
    "an unknown tenant": (lambda _, __: {"tenant_id": str(uuid4())}, "unknown_user"),
    "an unknown user": (lambda _, __: {"user_id": str(uuid4())}, "unknown_user"),
    "another subject": (lambda _, __: {"sub": str(uuid4())}, "unknown_user"),
    "nobody": (lambda _, __: {"sub": None, "user_id": None, "preferred_username": None}, "invalid_credentials"),
    "a username alone": (lambda _, __: {"sub": None, "user_id": None}, "unknown_user"),
    "no environment": (lambda _, __: {"environment": None}, "environment_mismatch"),
    "an environment that begins so": (lambda _, __: {"environment": ["productions"]}, "environment_mismatch"),
    "roles that are none": (lambda _, __: {"roles": {"admin": True}}, "invalid_credentials"),
    "no roles": (lambda _, __: {"roles": []}, "insufficient_permission"),
}
"""Claims that a token with a good signature may have, and what becomes of it."""


@pytest.mark.parametrize("name", CLAIMS)
async def test_the_claims_decide(world: World, good: Person, name: str) -> None:
    changes, expected = CLAIMS[name]
    token = await world.token(good, **changes(int(time.time()), world.service.factory.issuer))
    assert await verdict(world, token) == expected


async def test_claims_are_bounded_by_the_header_block(world: World, good: Person) -> None:
    large = await world.token(good, roles=["admin", "x" * 8 * 1024])
    assert await verdict(world, large) == "ok"
    answer = await world.get(await world.token(good, roles=["admin", "x" * 16 * 1024]))
    assert (answer.status_code, code(answer)) == (431, "header_too_large")


async def test_a_bearer_value_is_a_token_by_its_segments_alone(world: World, good: Person) -> None:
    token, key = await world.token(good), (await world.key("read"))["apiKey"]
    head, payload, _ = token.split(".")
    wrong = [f"{head}.{payload}", f"{token}.", f"{token}.x", f".{token}", f"{key}.x", f"{key}.x.y", f"{key}, {token}"]
    for value in wrong:
        assert await verdict(world, value) == "invalid_credentials", value[-20:]
    assert [await verdict(world, value) for value in (key, token)] == ["ok", "ok"]


async def test_a_mistyped_key_costs_no_query(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Database] = []
    authentication = Database.authentication

    def counted(database: Database) -> Any:
        opened.append(database)
        return authentication(database)

    monkeypatch.setattr(Database, "authentication", counted)
    key = (await world.key("read"))["apiKey"]
    for position in range(len(key)):
        typed = key[:position] + ("x" if key[position] != "x" else "y") + key[position + 1 :]
        assert await outcome(world, world.place() | {"X-Api-Key": typed}) == "invalid_credentials", typed
    assert opened == []
    assert await outcome(world, world.place() | {"X-Api-Key": key}) == "ok"
    assert len(opened) == 1


async def test_what_is_taken_away_is_gone_with_the_next_request(world: World) -> None:
    service, other = world.service, world.tenants["globex"]
    admin = await world.person("admin")

    async def revoke(subject: str) -> None:
        headers = world.place() | bearer(await world.token(admin))
        assert (await world.ask("DELETE", f"/auth/api-keys/{subject}", headers)).status_code == 204

    def change(statement: str, *parameters: Any) -> Callable[[str], Awaitable[None]]:
        return lambda subject: in_control(service, statement, *parameters, subject)

    user_ends: list[tuple[Callable[[str], Awaitable[None]], str]] = [
        (change("UPDATE app_user SET status = 'disabled' WHERE id = %s"), "user_disabled"),
        (change("UPDATE app_user SET tenant_id = %s WHERE id = %s", other), "unknown_user"),
        (change("UPDATE app_user SET roles = '{platform-admin}' WHERE id = %s"), "insufficient_permission"),
        (change("UPDATE app_user SET environments = '{test}' WHERE id = %s"), "environment_mismatch"),
        (change("UPDATE app_user SET subject = 'another' WHERE id = %s"), "unknown_user"),
    ]
    for end, expected in user_ends:
        somebody = await world.stranger("admin")
        token = await world.provider.token(somebody)
        assert await verdict(world, token) == "ok"
        await end(somebody.user_id)
        assert await verdict(world, token) == expected
    key_ends: list[tuple[Callable[[str], Awaitable[None]], str]] = [
        (revoke, "revoked_credentials"),
        (change("UPDATE api_key SET expires_at = now() WHERE id = %s"), "expired_credentials"),
        (change("UPDATE api_key SET read = false WHERE id = %s"), "insufficient_permission"),
    ]
    for end, expected in key_ends:
        key = await world.new_key("read", "write")
        assert await verdict(world, key["apiKey"]) == "ok"
        await end(key["id"])
        assert await verdict(world, key["apiKey"]) == expected


@pytest.mark.parametrize("name", ["Authorization", "X-Api-Key", "X-Tenant-Id", "X-Environment", "X-Request-Id"])
async def test_bytes_that_no_header_has_are_refused(world: World, good: Person, name: str) -> None:
    """They neither pass nor come back in an answer, and nothing crashes; a request id is replaced."""
    headers = world.place() | bearer(await world.token(good))
    for smuggled in ("\r", "\0", "\x01", "\x7f", "\xff", "ä", "\r\n folded", "\r\nX-Environment: test"):
        head = request_head("GET", LIST, {**headers, name: headers.get(name, "x") + smuggled})
        answer = await send_raw(world.service, head)
        taken = {200} if name == "X-Request-Id" and "\r\n" not in smuggled else set()
        assert answer.status_code in {400, 401, *taken}, (smuggled, answer.text)
        assert re.fullmatch("x|[0-9a-f-]{36}", answer.headers["x-request-id"])
        assert "folded" not in answer.text
        assert answer.text.isascii()


async def test_no_header_opens_development_in_production(
    world: World, shared_database: EmbeddedDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with in_production(world, shared_database, tmp_path, monkeypatch) as there:
        body = {"name": "Smuggled"}
        for headers in ({}, {"X-Environment": "development"}, there.place(environment="development")):
            answer = await there.ask("POST", "/tenants", headers, json=body)
            assert (answer.status_code, code(answer)) == (401, "missing_credentials")
        admin = bearer(await there.token(await there.person("admin")))
        for environment in ("development", "production"):
            answer = await there.ask("POST", "/tenants", there.place(environment=environment) | admin, json=body)
            assert code(answer) == "insufficient_permission"
        platform = bearer(await there.token(await there.person("platform-admin")))
        answer = await there.ask("POST", "/tenants", there.place() | platform, json=body)
        assert answer.status_code == 201, answer.text


async def test_a_login_does_not_tell_who_exists(world: World, good: Person) -> None:
    """Status, body and headers of a refused login are the same, whoever is named."""
    disabled = await world.stranger("viewer")
    await in_control(world.service, "UPDATE app_user SET status = 'disabled' WHERE id = %s", disabled.user_id)
    seen = []
    for username in (good.username, disabled.username, f"nobody-{uuid4()}", "Ünknown", good.username + " "):
        answer = await world.provider.log_in(replace(good, username=username, password=PASSWORD + "!"))
        assert "refresh" not in answer.text
        told = {name: value for name, value in problem(answer).items() if name != "requestId"}
        headers = {n: v for n, v in answer.headers.items() if n not in {"x-request-id", "date"}}
        seen.append((answer.status_code, told, headers))
    assert seen[0][0] == 401
    assert seen[0][1]["code"] == "invalid_credentials"
    assert all(one == seen[0] for one in seen)
