"""What the pure core of the operator needs of the world, so that tests can give it one that fails anywhere.

``Registry`` is the service's side (``payrec.services.tenant_resources``), ``Secrets`` the API server's. A pass over a
tenant at rest calls ``Secrets.owned`` and ``Registry.observe`` once each, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from payrec.domain.tenant_resources import (
    EnvironmentState,
    MintedKey,
    Observation,
    ResourceOwner,
    StoredKey,
    TenantState,
    UserState,
    WantedTenant,
    WantedUser,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySecret:
    """A Secret of a key as it was read: its data decoded, and whether it is controlled by the Tenant."""

    name: str
    owned: bool
    resource_version: str
    data: Mapping[str, str]


class Registry(Protocol):
    """Tenants in the database. Every method is one or more committed steps and may be called again.

    All raise ``UnavailableError`` where the database cannot be reached, is read-only or has no connection left.
    """

    async def claim(self, owner: ResourceOwner, slug: str, wanted: WantedTenant, *, adopt: bool = False) -> TenantState:
        """Register the tenant for the resource, or find it; under an advisory lock on the slug.

        A tenant without owner (made by ``POST /tenants``) of equal namespace and name, and one that its resource
        left behind (Orphaned) of equal namespace and name, is adopted. With ``adopt`` so is one that belongs to a
        resource of equal namespace and name with another UID: of two such, only one can be there.

        Raises
        ------
        SlugTakenError
            It belongs to another resource, or to none and was not made for this one.
        """
        ...

    async def find(self, owner: ResourceOwner) -> TenantState | None:
        """Return the tenant that belongs to the resource."""
        ...

    async def observe(
        self, owner: ResourceOwner, *, wanted: WantedTenant, users: Sequence[WantedUser], texts: Sequence[str]
    ) -> Observation | None:
        """Compare what is there with what is wanted, in one read-only transaction; None where ``find`` finds none.

        It is what a pass over a tenant at rest costs, so a few statements whatever the number of environments,
        users and keys. ``texts`` are what the Secrets hold, to be identified as ``identify`` does.
        """
        ...

    async def ensure_environment(self, tenant_id: UUID, environment: str, *, adopt: bool) -> EnvironmentState:
        """Register the environment; make or mend its role, grants, schema and tables; migrate them to the head.

        Raises
        ------
        SchemaNotOwnedError
            A schema of that name is there, is not registered, and ``adopt`` is false.
        SchemaConflictError
            A schema of that name belongs to a role that is not the environment's.
        RevisionAheadError
            The tables are of a newer release; they are left as they are, and the environment stays as it is.
        MigrationFailedError
            A migration of the tables failed; they are as they were before it.
        ProvisioningDeniedError
            The administrating role may not do what is needed.
        """
        ...

    async def set_environment_suspended(self, tenant_id: UUID, environment: str, *, suspended: bool) -> None:
        """Close or open one environment."""
        ...

    async def drop_environment(self, tenant_id: UUID, environment: str) -> None:
        """Revoke the environment's keys, rename its schema to a tombstone, forget it; dropping follows later.

        Another's schema of that name stays.
        """
        ...

    async def apply(self, tenant_id: UUID, wanted: WantedTenant) -> TenantState:
        """Bring name, suspension and the named settings to what the resource says; nothing is written without need.

        Raises
        ------
        ValidationFailedError
            A setting that cannot be.
        """
        ...

    async def sync_users(self, tenant_id: UUID, users: Sequence[WantedUser]) -> Sequence[UserState]:
        """Make and change the users that the resource lists; disable those that it made and lists no more."""
        ...

    async def identify(self, tenant_id: UUID, text: str) -> StoredKey | None:
        """Return the key that the text is: of this tenant and resource, pending, active, or retiring and not yet over.

        Suspension of the tenant or of the environment does not count: the key would work but for it.
        """
        ...

    async def mint(self, tenant_id: UUID, *, name: str, environment: str, read: bool, write: bool) -> MintedKey:
        """Make a key as ``pending``, committed: the API accepts it from now on.

        Raises
        ------
        NotFoundError
            The tenant has no such environment.
        ConflictError
            The environment has as many active keys as it may.
        """
        ...

    async def promote(self, tenant_id: UUID, key_id: UUID, *, retire_until: datetime) -> None:
        """In one transaction: this key becomes ``active``, the name's other active ones ``retiring`` until then.

        Raises
        ------
        ConflictError
            The key has been revoked, or is retiring itself; nothing has changed.
        """
        ...

    async def set_flags(self, tenant_id: UUID, key_id: UUID, *, read: bool, write: bool) -> None:
        """Change what a key opens."""
        ...

    async def revoke(self, tenant_id: UUID, key_ids: Sequence[UUID]) -> None:
        """Revoke keys; again changes nothing."""
        ...

    async def orphan(self, tenant_id: UUID) -> None:
        """Revoke all keys of the resource and leave the tenant suspended, without owner (policy Retain)."""
        ...

    async def begin_drop(self, tenant_id: UUID) -> None:
        """Revoke all keys, rename the schemas to tombstones and forget the tenant (policy Delete)."""
        ...


class Tombstones(Protocol):
    """What is left of dropped environments (``payrec.services.tombstones``); asked now and then, by no pass."""

    async def drop_due(self) -> int:
        """Drop the schemas and roles whose time has come; return how many. What fails is tried again, later."""
        ...


class Secrets(Protocol):
    """The key Secrets in the Tenant's namespace; the errors are those of ``payrec_operator.errors``.

    All raise ``SecretsUnavailableError`` where the API server fails or refuses for no reason of its own below, and
    ``NamespaceTerminatingError`` where it says that the namespace is about to go.
    """

    async def read(self, owner: ResourceOwner, name: str) -> KeySecret | None:
        """Return a Secret as the API server has it now, whoever controls it."""
        ...

    async def owned(self, owner: ResourceOwner, *, fresh: bool = False) -> Sequence[KeySecret]:
        """Return the Secrets that the Tenant controls: from the watch cache, or ``fresh`` from the API server.

        The cache may be behind. Whatever is decided by it is decided again by ``fresh`` or ``read`` before anything
        is changed.
        """
        ...

    async def write(self, owner: ResourceOwner, name: str, data: Mapping[str, str], *, seen: str | None) -> str:
        """Create (``seen`` None) or replace a Secret of the resource version ``seen``; return the new version.

        Raises
        ------
        SecretConflictError
            It exists and is not ours, or has changed since ``seen``, or is gone.
        SecretForbiddenError
            The operator's account may not write it.
        """
        ...

    async def delete(self, owner: ResourceOwner, name: str) -> None:
        """Delete a Secret that the Tenant controls; one that is not there, or is not ours, is no error and stays.

        Raises
        ------
        SecretForbiddenError
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """All that a pass speaks to."""

    registry: Registry
    secrets: Secrets
    base_url: str
    """Where the API is, for the Secrets' ``base-url``."""
