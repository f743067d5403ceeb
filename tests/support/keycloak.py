"""A realm of a running Keycloak, and what a test does to it through the administration's REST interface."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx2
import pytest
from joserfc.jwk import RSAKey

ADMIN_TOKEN_SECONDS = 30
"""How long a token of the administrator is used; Keycloak gives it a minute."""

PASSIVE_PRIORITY = 0
"""Priority of a key that tests sign with themselves."""


@dataclass(frozen=True, kw_only=True)
class Realm:
    """Where a realm is, and who administers its Keycloak."""

    issuer: str
    admin_username: str
    admin_password: str

    @property
    def base_url(self) -> str:
        """The address of the Keycloak."""
        return self.issuer.rpartition("/realms/")[0]

    @property
    def port(self) -> int:
        """The port of the Keycloak."""
        port = urlsplit(self.issuer).port
        assert port is not None, "the issuer names a port"
        return port

    @property
    def name(self) -> str:
        """The name of the realm."""
        return self.issuer.rpartition("/realms/")[2]


def realm_of_environment() -> Realm:
    """Return the realm that the environment names, or skip the module that asks."""
    issuer = os.environ.get("PAYREC_TEST_KEYCLOAK", "")
    if not issuer:
        pytest.skip(
            "PAYREC_TEST_KEYCLOAK is to be the issuer of a realm made of deploy/keycloak/realm.json",
            allow_module_level=True,
        )
    return Realm(
        issuer=issuer,
        admin_username=os.environ.get("PAYREC_TEST_KEYCLOAK_ADMIN", "admin"),
        admin_password=os.environ.get("PAYREC_TEST_KEYCLOAK_ADMIN_PASSWORD", "admin"),
    )


def realm_description(**environment: str) -> dict[str, Any]:
    """Return deploy/keycloak/realm.json as Keycloak imports it: with what the environment says, or the defaults."""
    path = Path(__file__).resolve().parents[2] / "deploy" / "keycloak" / "realm.json"

    def value(found: re.Match[str]) -> str:
        return environment.get(found[1], found[2] if found[2] is not None else found[0])

    return dict(json.loads(re.sub(r"\$\{(\w+)(?::([^}]*))?\}", value, path.read_text(encoding="utf-8"))))


class Keycloak:
    """The administration of one realm. What a test adds is taken away at the end."""

    def __init__(self, realm: Realm, http: httpx2.AsyncClient) -> None:
        self.realm = realm
        self._http = http
        self._token = ""
        self._token_until = 0.0
        self._made: list[str] = []
        self._priority = int(time.time())

    async def client_secret(self, client_id: str = "payrec") -> str:
        """Return a client's secret."""
        found = await self._ask("GET", "/clients", params={"clientId": client_id})
        return str(found.json()[0]["secret"])

    async def add_user(
        self, username: str, password: str, *, attributes: dict[str, list[str]], roles: Sequence[str]
    ) -> str:
        """Add a user with realm roles, and return the subject."""
        credential = {"type": "password", "value": password, "temporary": False}
        user = {"username": username, "enabled": True, "attributes": attributes, "credentials": [credential]}
        location = await self._add("/users", user)
        given = [(await self._ask("GET", f"/roles/{role}")).json() for role in roles]
        await self._ask("POST", f"{location}/role-mappings/realm", json=given)
        return location.rpartition("/")[2]

    async def user(self, subject: str) -> dict[str, Any]:
        """Return what Keycloak knows of a user."""
        return dict((await self._ask("GET", f"/users/{subject}")).json())

    async def disable(self, subject: str) -> None:
        """Disable a user."""
        await self._ask("PUT", f"/users/{subject}", json={**await self.user(subject), "enabled": False})

    async def is_locked_out(self, subject: str) -> bool:
        """Tell whether too many logins of a user have failed."""
        status = (await self._ask("GET", f"/attack-detection/brute-force/users/{subject}")).json()
        return bool(status["disabled"])

    async def let_edit_account(self, subject: str) -> None:
        """Give a user the roles of Keycloak's own page for users."""
        client = (await self._ask("GET", "/clients", params={"clientId": "account"})).json()[0]["id"]
        roles = (await self._ask("GET", f"/clients/{client}/roles")).json()
        wanted = [role for role in roles if role["name"] in {"manage-account", "view-profile"}]
        await self._ask("POST", f"/users/{subject}/role-mappings/clients/{client}", json=wanted)

    async def add_client(self, client_id: str, secret: str, **settings: Any) -> None:
        """Add a client that may use the password grant."""
        made = {
            "clientId": client_id,
            "secret": secret,
            "directAccessGrantsEnabled": True,
            "standardFlowEnabled": False,
            **settings,
        }
        await self._add("/clients", made)

    async def mappers(self, client_id: str = "payrec") -> list[dict[str, Any]]:
        """Return a client's protocol mappers, to be given to another one."""
        found = (await self._ask("GET", "/clients", params={"clientId": client_id})).json()[0]
        return [{k: v for k, v in mapper.items() if k != "id"} for mapper in found["protocolMappers"]]

    async def publish(self, key: RSAKey) -> RSAKey:
        """Publish the public half of a key, with which Keycloak itself signs nothing; return it with its kid."""
        private = key.as_pem(private=True).decode()
        component = await self._add_key(
            "rsa", privateKey=private, priority=str(PASSIVE_PRIORITY), active="false", algorithm="RS256"
        )
        published = (await self._ask("GET", "/keys")).json()["keys"]
        kid = next(k["kid"] for k in published if k["providerId"] == component)
        return RSAKey.import_key({**key.as_dict(private=True), "kid": kid})

    async def rotate(self) -> None:
        """Sign with a new key from now on; the ones before stay published."""
        self._priority += 1
        await self._add_key("rsa-generated", priority=str(self._priority), algorithm="RS256", keySize="2048")

    async def grant(
        self, client_id: str, secret: str, username: str, password: str, *, issuer: str = ""
    ) -> dict[str, Any]:
        """Ask for tokens as another client would, one without secret as a public one."""
        form = {"grant_type": "password", "scope": "openid", "username": username, "password": password}
        client = {"client_id": client_id} | ({"client_secret": secret} if secret else {})
        url = f"{issuer or self.realm.issuer}/protocol/openid-connect/token"
        answer = await self._http.post(url, data=form | client)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    @asynccontextmanager
    async def copied(self, description: dict[str, Any]) -> AsyncIterator[Realm]:
        """Make another realm of a description, for what would disturb others; it ends with the context."""
        name = f"copy-{uuid4()}"
        await self._administer("POST", "", json={**description, "realm": name})
        try:
            yield replace(self.realm, issuer=f"{self.realm.base_url}/realms/{name}")
        finally:
            await self._administer("DELETE", f"/{name}")

    async def clean_up(self) -> None:
        """Take away what was added."""
        for path in reversed(self._made):
            await self._ask("DELETE", path)

    async def _add_key(self, provider: str, **config: str) -> str:
        settings = {name: [value] for name, value in {"enabled": "true", "active": "true", **config}.items()}
        realm_id = (await self._ask("GET", "")).json()["id"]
        component = {
            "name": f"{provider} of a test",
            "providerId": provider,
            "providerType": "org.keycloak.keys.KeyProvider",
            "parentId": realm_id,
            "config": settings,
        }
        return (await self._add("/components", component)).rpartition("/")[2]

    async def _add(self, path: str, document: dict[str, Any]) -> str:
        answer = await self._ask("POST", path, json=document)
        made = f"{path}/{answer.headers['location'].rpartition('/')[2]}"
        self._made.append(made)
        return made

    async def _ask(self, method: str, path: str, **options: Any) -> httpx2.Response:
        return await self._administer(method, f"/{self.realm.name}{path}", **options)

    async def _administer(self, method: str, path: str, **options: Any) -> httpx2.Response:
        if time.monotonic() > self._token_until:
            await self._log_in()
        answer = await self._http.request(
            method,
            f"{self.realm.base_url}/admin/realms{path}",
            headers={"Authorization": f"Bearer {self._token}"},
            **options,
        )
        assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer

    async def _log_in(self) -> None:
        answer = await self._http.post(
            f"{self.realm.base_url}/realms/master/protocol/openid-connect/token",
            data={
                "grant_type": "password",
                "client_id": "admin-cli",
                "username": self.realm.admin_username,
                "password": self.realm.admin_password,
            },
        )
        assert answer.status_code == 200, answer.text
        self._token = answer.json()["access_token"]
        self._token_until = time.monotonic() + ADMIN_TOKEN_SECONDS


@asynccontextmanager
async def administered(realm: Realm) -> AsyncIterator[Keycloak]:
    """Administer a realm, and leave it as it was."""
    async with httpx2.AsyncClient(timeout=30.0) as http:
        keycloak = Keycloak(realm, http)
        try:
            yield keycloak
        finally:
            await keycloak.clean_up()
