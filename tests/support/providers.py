"""One face of two identity providers, the embedded one and Keycloak: people, their tokens, a key to sign with."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID, uuid4

import httpx2
from joserfc.jwk import RSAKey

from payrec.domain.principal import ENVIRONMENTS
from payrec.embedded.identity import DatabaseIdentityStore
from payrec.embedded.idp_keys import SigningKeys
from payrec.services.users import NewUser
from support.forwarder import Forwarder, forwarding
from support.idp import rsa_key, sign
from support.keycloak import Keycloak, Realm, administered
from support.service import Service, cheap_passwords
from support.wire import COMMAND_LINE, in_control

PASSWORD = "correct-hörse-battery"


@dataclass(frozen=True, kw_only=True)
class Person:
    """A user, as the provider and payrec know them."""

    username: str
    tenant_id: str
    roles: Sequence[str]
    environments: Sequence[str] = ENVIRONMENTS
    password: str = PASSWORD
    user_id: str = field(default_factory=lambda: str(uuid4()))
    subject: str = ""


def person(tenant_id: str, *roles: str, **given: Any) -> Person:
    """Return somebody new."""
    return Person(tenant_id=tenant_id, roles=roles, **{"username": f"user-{uuid4()}", **given})


class Provider(ABC):
    """An identity provider and the service that trusts it."""

    settings: dict[str, Any]
    """Settings of the service."""

    jwks_port: int
    """Where its keys are, and below which path."""

    jwks_path: str

    service: Service

    async def attach(self, service: Service) -> None:
        """Get to know the service, which nobody has asked anything yet."""
        self.service = service

    @abstractmethod
    async def add(self, somebody: Person) -> Person:
        """Add a user to the provider and to payrec; return them with their subject."""

    @abstractmethod
    async def signing_key(self) -> RSAKey:
        """Return a key that the provider publishes, with its kid."""

    @abstractmethod
    async def rotate(self) -> None:
        """Make the provider sign with a new key; the one before stays published."""

    async def log_in(self, somebody: Person) -> httpx2.Response:
        """Ask payrec for a token by username and password."""
        given = {"username": somebody.username, "password": somebody.password}
        return await self.service.http.post(f"{self.service.base_url}/auth/token", json=given)

    async def token(self, somebody: Person) -> str:
        """Return a token that the provider made."""
        answer = await self.log_in(somebody)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["accessToken"])

    async def signed(self, somebody: Person, **changes: Any) -> str:
        """Return a token for somebody with claims of the test's own, signed with a published key."""
        return sign(await self.signing_key(), claims_of(self.service, somebody, **changes))


def claims_of(service: Service, somebody: Person, **changes: Any) -> dict[str, Any]:
    """Return the claims of a good token, without roles and permissions; a change None leaves a claim out."""
    now = int(time.time())
    document = {
        "iss": service.factory.issuer,
        "aud": service.factory.context.config.idp_audience,
        "sub": somebody.subject,
        "typ": "Bearer",
        "iat": now,
        "exp": now + 300,
        "tenant_id": somebody.tenant_id,
        "environment": list(somebody.environments),
        "user_id": somebody.user_id,
        "preferred_username": somebody.username,
        **changes,
    }
    return {name: value for name, value in document.items() if value is not None}


class EmbeddedProvider(Provider):
    """The one that is for development: part of the service, users and keys in its database."""

    jwks_path = "/idp/jwks"

    def __init__(self) -> None:
        self.settings = {}
        self._passwords = cheap_passwords()

    async def attach(self, service: Service) -> None:
        """Get to know the service, and read its keys through its own store."""
        await super().attach(service)
        context = service.factory.context
        self.jwks_port = context.config.port
        self._keys = SigningKeys(
            store=DatabaseIdentityStore(context.database),
            encryption_key=context.config.encryption_key.get_secret_value().encode(),
            clock=context.clock.now,
        )

    async def add(self, somebody: Person) -> Person:
        """Add a user; the subject is the user's id."""
        known = replace(somebody, subject=somebody.user_id)
        await add_to_payrec(self.service, known, password_hash=await self._passwords.hash(somebody.password))
        return known

    async def signing_key(self) -> RSAKey:
        """Return the key that it signs with."""
        active = await self._keys.active()
        return RSAKey.import_key({**active.key.as_dict(private=True), "kid": active.kid})

    async def rotate(self) -> None:
        """Retire the key; the next token is signed with one that is made for it."""
        await in_control(self.service, "UPDATE idp_signing_key SET retired_at = now() WHERE retired_at IS NULL")


class KeycloakProvider(Provider):
    """A realm of a running Keycloak, behind a forwarder that can be closed."""

    def __init__(self, keycloak: Keycloak, forwarder: Forwarder, *, client_secret: str, key: RSAKey) -> None:
        self.keycloak = keycloak
        self.forwarder = forwarder
        self._key = key
        realm = keycloak.realm
        self.settings = {
            # Keycloak names itself as it was asked, so that this is the issuer in the tokens too.
            "idp_issuer_url": f"http://127.0.0.1:{forwarder.port}/realms/{realm.name}",
            "idp_client_secret": client_secret,
        }
        self.jwks_port = forwarder.port
        self.jwks_path = f"/realms/{realm.name}/protocol/openid-connect/certs"

    async def add(self, somebody: Person) -> Person:
        """Add a user; Keycloak makes the subject."""
        known = replace(somebody, subject=await self.enrol(somebody))
        await add_to_payrec(self.service, known)
        return known

    async def enrol(self, somebody: Person, **attributes: list[str]) -> str:
        """Add a user to Keycloak alone, and return the subject."""
        given = {
            "tenant_id": [somebody.tenant_id],
            "environment": list(somebody.environments),
            "user_id": [somebody.user_id],
            **attributes,
        }
        return await self.keycloak.add_user(
            somebody.username,
            somebody.password,
            attributes={name: values for name, values in given.items() if values},
            roles=somebody.roles,
        )

    async def signing_key(self) -> RSAKey:
        """Return the key that tests sign with."""
        return self._key

    async def rotate(self) -> None:
        """Add a key that comes before the one that is signed with now."""
        await self.keycloak.rotate()


async def add_to_payrec(service: Service, somebody: Person, *, password_hash: str | None = None) -> None:
    """Add a user as the command line does."""
    user = NewUser(
        username=somebody.username,
        roles=list(somebody.roles),
        environments=list(somebody.environments),
        subject=somebody.subject or None,
        user_id=UUID(somebody.user_id),
    )
    users = service.factory.create_user_service()
    await users.add(COMMAND_LINE, UUID(somebody.tenant_id), user, password_hash=password_hash)


@asynccontextmanager
async def keycloak_provider(realm: Realm) -> AsyncIterator[KeycloakProvider]:
    """Use a realm as the provider; what is added to it is taken away at the end."""
    async with administered(realm) as keycloak, forwarding(realm.port) as forwarder:
        yield KeycloakProvider(
            keycloak,
            forwarder,
            client_secret=await keycloak.client_secret(),
            key=await keycloak.publish(rsa_key("of the tests")),
        )
