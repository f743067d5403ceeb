from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import httpx2
import pytest
from fastapi import FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc import jws
from joserfc.jwk import RSAKey

from payrec.domain.principal import permissions_of
from payrec.embedded.identity import create_embedded_router
from payrec.embedded.idp_keys import SigningKeys, seal, unseal
from payrec.embedded.passwords import PasswordHasher
from payrec.errors import ConfigurationError, InvalidCredentialsError
from payrec.services.identity_provider import IdentityProviderClient
from payrec.services.provider_discovery import ProviderDiscovery
from payrec.services.verification import JwksVerifier
from payrec.storage.idp import IdpAccount, StoredSigningKey
from support.idp import AUDIENCE, NOW, TENANT, USER, Clock, rsa_key

BASE = "http://payrec.test"
ISSUER = f"{BASE}/idp"
CLIENT = "payrec"
SECRET = "s3crét:+"
PASSWORD = "pässwörd"
ENCRYPTION_KEY = b"e" * 32
FORM = {"grant_type": "password", "username": "ada", "password": PASSWORD}


@dataclass
class MemoryStore:
    """Logins and keys of one installation, as the database keeps them."""

    accounts: dict[str, IdpAccount] = field(default_factory=dict)
    keys: list[StoredSigningKey] = field(default_factory=list)
    looked_up: list[str] = field(default_factory=list)

    async def find_user(self, username: str) -> IdpAccount | None:
        self.looked_up.append(username)
        return self.accounts.get(username)

    async def signing_keys(self) -> list[StoredSigningKey]:
        return list(self.keys)

    async def insert_signing_key(self, key: StoredSigningKey) -> bool:
        await asyncio.sleep(0)
        if any(stored.retired_at is None for stored in self.keys):
            return False
        self.keys.insert(0, key)
        return True


class CheapHasher(PasswordHasher):
    """Counts the work instead of doing it; what a hash is does not matter where this is used."""

    work = 0

    async def _derive(self, secret: bytes, salt: bytes) -> bytes:
        self.work += 1
        return (secret + salt).ljust(32, b"\0")[:32]


@dataclass
class World:
    http: httpx2.AsyncClient
    transport: httpx2.ASGITransport
    store: MemoryStore
    hasher: CheapHasher
    clock: Clock

    async def token(self, form: dict[str, str] | None = None, **options: Any) -> httpx2.Response:
        options.setdefault("auth", httpx2.BasicAuth(CLIENT, SECRET))
        return await self.http.post("/idp/token", data=FORM if form is None else form, **options)


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    clock, store, hasher = Clock(), MemoryStore(), CheapHasher()
    store.accounts["ada"] = IdpAccount(
        username="ada",
        subject="subject-1",
        password_hash=await hasher.hash(PASSWORD),
        user_id=UUID(USER),
        tenant_id=UUID(TENANT),
        roles=["approver"],
        environments=["production", "test"],
    )
    app = FastAPI()
    router = create_embedded_router(
        issuer=ISSUER,
        audience=AUDIENCE,
        client_id=CLIENT,
        client_secret=SECRET,
        store=store,
        encryption_key=ENCRYPTION_KEY,
        clock=clock,
        passwords=hasher,
    )
    app.include_router(router)
    assert not app.openapi()["paths"]
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url=BASE) as http:
        yield World(http, transport, store, hasher, clock)


def run(use: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        async with world() as there:
            await use(there)

    asyncio.run(main())


def test_the_service_logs_in_and_verifies_by_discovery_alone() -> None:
    async def use(there: World) -> None:
        discovery = ProviderDiscovery(issuer=ISSUER, http=there.http, clock=there.clock)
        client = IdentityProviderClient(
            client_id=CLIENT, client_secret=SECRET, discovery=discovery, transport=there.transport
        )
        verifier = JwksVerifier(
            issuer=ISSUER, audience=AUDIENCE, http=there.http, clock=there.clock, discovery=discovery
        )

        grant = await client.password_grant("ada", PASSWORD)
        claims = await verifier.verify(grant.access_token)

        assert grant.expires_in == 3600
        assert (claims.subject, claims.username) == ("subject-1", "ada")
        assert (claims.tenant_id, claims.user_id) == (UUID(TENANT), UUID(USER))
        assert claims.environments == {"production", "test"}
        assert claims.roles == ("approver",)
        assert set(claims.permissions or ()) == permissions_of(["approver"])
        assert claims.expires_at == NOW + timedelta(hours=1)
        with pytest.raises(InvalidCredentialsError):
            await client.password_grant("ada", "wrong")
        with pytest.raises(InvalidCredentialsError):
            await client.password_grant("nobody", PASSWORD)

    run(use)


def test_a_token_has_the_claims_of_an_access_token() -> None:
    async def use(there: World) -> None:
        answer = await there.token()
        token = answer.json()["access_token"]
        again = (await there.token()).json()["access_token"]
        header, payload = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in token.split(".")[:2])

        assert header == {"alg": "RS256", "kid": there.store.keys[0].kid, "typ": "JWT"}
        assert len(payload.pop("jti")) == 32
        issued_at = int(NOW.timestamp())
        assert payload == {
            "iss": ISSUER,
            "sub": "subject-1",
            "aud": AUDIENCE,
            "azp": CLIENT,
            "iat": issued_at,
            "exp": issued_at + 3600,
            "typ": "Bearer",
            "preferred_username": "ada",
            "tenant_id": TENANT,
            "environment": ["production", "test"],
            "user_id": USER,
            "roles": ["approver"],
            "permissions": ["matches:accept", "periods:manage", "read", "write"],
        }
        assert set(answer.json()) == {"access_token", "token_type", "expires_in"}
        assert answer.json()["token_type"] == "Bearer"
        assert answer.headers["cache-control"] == "no-store"
        assert again != token

    run(use)


def test_what_a_wrong_login_costs_and_says_does_not_tell_who_exists() -> None:
    async def use(there: World) -> None:
        answers = []
        for username in ("ada", "nobody", "a\0b", "x" * 300):
            before = there.hasher.work
            answers.append(await there.token({**FORM, "username": username, "password": "wrong"}))
            assert there.hasher.work == before + 1
        assert {answer.status_code for answer in answers} == {400}
        assert {answer.content for answer in answers} == {answers[0].content}
        assert answers[0].json()["error"] == "invalid_grant"
        assert answers[0].headers["cache-control"] == "no-store"
        assert there.store.looked_up == ["ada", "nobody"]

    run(use)


@pytest.mark.parametrize(
    ("form", "error"),
    [
        ({}, "invalid_request"),
        ({**FORM, "grant_type": "refresh_token"}, "unsupported_grant_type"),
        ({**FORM, "grant_type": "client_credentials"}, "unsupported_grant_type"),
        ({"grant_type": "password", "username": "ada"}, "invalid_request"),
        ({**FORM, "password": ""}, "invalid_request"),
        ({**FORM, "scope": "x" * 17_000}, "invalid_request"),
        ({**FORM, **{str(number): "" for number in range(20)}}, "invalid_request"),
        ({**FORM, "password": "x" * 2000}, "invalid_grant"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_requests_that_are_not_right(form: dict[str, str], error: str) -> None:
    async def use(there: World) -> None:
        answer = await there.token(form)
        assert answer.json()["error"] == error
        assert answer.status_code in {400, 413}
        assert answer.headers["cache-control"] == "no-store"

    run(use)


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (b"grant_type=password&username=ada&username=eve&password=x", "application/x-www-form-urlencoded"),
        (b"grant_type=password&username=%ff&password=x", "application/x-www-form-urlencoded"),
        (b"\xff\xfe", "application/x-www-form-urlencoded"),
        (json.dumps(FORM).encode(), "application/json"),
        (b"", ""),
    ],
)
def test_bodies_that_cannot_be_read(content: bytes, media_type: str) -> None:
    async def use(there: World) -> None:
        answer = await there.http.post(
            "/idp/token",
            content=content,
            headers={"Content-Type": media_type},
            auth=httpx2.BasicAuth(CLIENT, SECRET),
        )
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")

    run(use)


def basic(text: str, charset: str = "utf-8") -> str:
    return "Basic " + base64.b64encode(text.encode(charset)).decode()


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Basic",
        "Basic !!!",
        "Basic é",
        f"Bearer {base64.b64encode(b'payrec:s').decode()}",
        basic(f"{CLIENT}:wrong"),
        basic(f"other:{SECRET}"),
        basic(f"{CLIENT}:{SECRET} "),
        basic(":"),
    ],
)
def test_a_client_that_is_not_known_gets_no_further(authorization: str | None) -> None:
    async def use(there: World) -> None:
        headers = [] if authorization is None else [(b"authorization", authorization.encode())]
        before = there.hasher.work
        # Credentials in the body are not looked at.
        form = {**FORM, "client_id": CLIENT, "client_secret": SECRET}
        answer = await there.http.post("/idp/token", data=form, headers=headers)
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
        assert answer.headers["www-authenticate"].startswith("Basic ")
        assert there.hasher.work == before

    run(use)


@pytest.mark.parametrize(
    "authorization",
    [basic(f"{CLIENT}:{SECRET}"), basic(f"{CLIENT}:{SECRET}", "latin-1"), basic(f"{CLIENT}:s3cr%C3%A9t%3A%2B")],
)
def test_the_client_may_encode_its_secret_in_the_usual_ways(authorization: str) -> None:
    async def use(there: World) -> None:
        answer = await there.http.post("/idp/token", data=FORM, headers={"Authorization": authorization})
        assert answer.status_code == 200

    run(use)


def test_the_key_set_has_public_keys_alone() -> None:
    async def use(there: World) -> None:
        (key,) = (await there.http.get("/idp/jwks")).json()["keys"]
        assert set(key) == {"kty", "n", "e", "kid", "use", "alg"}
        token = (await there.token()).json()["access_token"]
        assert jws.deserialize_compact(token, RSAKey.import_key(key), algorithms=["RS256"]).payload
        configuration = (await there.http.get("/idp/.well-known/openid-configuration")).json()
        assert configuration["issuer"] == ISSUER
        assert configuration["jwks_uri"] == f"{ISSUER}/jwks"

    run(use)


def signing_keys(store: MemoryStore, clock: Clock, encryption_key: bytes = ENCRYPTION_KEY) -> SigningKeys:
    return SigningKeys(store=store, encryption_key=encryption_key, clock=clock)


def test_processes_that_start_at_once_share_one_key() -> None:
    async def main() -> None:
        store, clock = MemoryStore(), Clock()
        processes = [signing_keys(store, clock) for _ in range(3)]
        active = await asyncio.gather(*(process.active() for process in processes * 2))
        assert len({key.kid for key in active}) == 1
        assert len(store.keys) == 1

    asyncio.run(main())


def test_a_retired_key_signs_nothing_and_is_published_until_its_tokens_are_over() -> None:
    async def main() -> None:
        store, clock = MemoryStore(), Clock()
        keys = signing_keys(store, clock)
        old = await keys.active()
        store.keys[0] = replace(store.keys[0], retired_at=clock.now)
        new = await keys.active()
        assert new.kid != old.kid
        clock.move(minutes=60)
        assert [key["kid"] for key in await keys.published()] == [new.kid, old.kid]
        clock.move(minutes=10)
        assert [key["kid"] for key in await keys.published()] == [new.kid]

    asyncio.run(main())


def test_another_encryption_key_stops_with_a_readable_line() -> None:
    async def main() -> None:
        store, clock = MemoryStore(), Clock()
        await signing_keys(store, clock).active()
        with pytest.raises(ConfigurationError, match="ENCRYPTION_KEY"):
            await signing_keys(store, clock, b"f" * 32).active()
        with pytest.raises(ConfigurationError, match="ENCRYPTION_KEY"):
            await signing_keys(MemoryStore(), clock, b"short").active()

    asyncio.run(main())


@settings(max_examples=50)
@given(data=st.data())
def test_a_sealed_key_opens_only_unchanged_and_under_its_own_name(data: st.DataObject) -> None:
    secret = {"kty": "RSA", "d": "very secret"}
    sealed = seal(secret, kid="a", encryption_key=ENCRYPTION_KEY, nonce=b"n" * 12)
    position = data.draw(st.integers(0, len(sealed) - 1))
    changed = bytes(byte ^ (index == position) for index, byte in enumerate(sealed))

    assert unseal(sealed, kid="a", encryption_key=ENCRYPTION_KEY) == secret
    assert b"secret" not in sealed
    for broken, kid in ((changed, "a"), (sealed[:position], "a"), (sealed, "b")):
        with pytest.raises(ConfigurationError):
            unseal(broken, kid=kid, encryption_key=ENCRYPTION_KEY)


def test_a_private_key_survives_being_sealed() -> None:
    private_jwk = dict(rsa_key("first").as_dict(private=True))
    sealed = seal(private_jwk, kid="first", encryption_key=ENCRYPTION_KEY, nonce=b"n" * 12)

    assert unseal(sealed, kid="first", encryption_key=ENCRYPTION_KEY) == private_jwk
