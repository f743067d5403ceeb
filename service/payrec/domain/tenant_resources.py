"""What a Tenant resource asks for and what is there: the values that the operator and the service exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

KeyState = Literal["pending", "active", "retiring", "revoked"]
"""``pending``: accepted, not yet known to be in the Secret; ``retiring``: accepted until its overlap ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceOwner:
    """The resource that a tenant belongs to. The UID is the mark of ownership; name and namespace say where it is."""

    uid: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentState:
    """One registered environment, as it was found."""

    environment: str
    schema_name: str
    status: Literal["provisioning", "active", "suspended"]
    revision: str | None
    """Head of the tenant migrations that the schema is at; None until its tables are there."""
    corrected: Sequence[str] = ()
    """What was mended just now: ``role``, ``membership``, ``schema``, ``grants``, ``version_table``, ``migration``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantState:
    """A tenant that belongs to a resource."""

    tenant_id: UUID
    status: Literal["provisioning", "active", "suspended", "deleting"]
    environments: Sequence[EnvironmentState] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedUser:
    """A user as the resource lists it; never a password."""

    username: str
    roles: Sequence[str]
    environments: Sequence[str]
    """None named: all of them."""
    subject: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserState:
    """A user that the resource lists, or why it is not there."""

    username: str
    user_id: UUID | None
    """None where the username or the subject is somebody else's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """An API key that a resource asked for, without its secret."""

    key_id: UUID
    public_id: str
    name: str
    """The key's name in the resource."""
    environment: str
    read: bool
    write: bool
    state: KeyState
    created_at: datetime
    expires_at: datetime | None = None
    """When a retiring key ends."""
    last_used_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MintedKey:
    """A new key. ``text`` is the secret and is nowhere else."""

    key_id: UUID
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedTenant:
    """What the resource names of the tenant itself. It owns only the settings that it names."""

    name: str | None = None
    suspended: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """All that a pass over a resource compares, as it was at one moment."""

    tenant: TenantState
    applied: bool
    """Whether name, suspension and the named settings are as wanted, so that ``apply`` would write nothing."""
    sound: frozenset[str]
    """Environments of which role, grants, schema and tables are there, and at the head or beyond it.

    ``ensure_environment`` would have nothing to do, or would say that the revision is ahead.
    """
    ahead: frozenset[str]
    """Environments of which the tables are of a newer release."""
    users: Sequence[UserState]
    """The wanted users, in the order in which they were given."""
    users_synced: bool
    """Whether ``sync_users`` would write nothing."""
    keys: Sequence[StoredKey]
    """The keys that the resource asked for and that are pending, active or retiring, those that are over included."""
    held: Sequence[StoredKey | None]
    """For each text, the key that it is, as ``identify`` says."""
