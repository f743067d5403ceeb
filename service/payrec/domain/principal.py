"""Who makes a request, and what that principal may do.

Roles are a fixed table; permissions are what endpoints ask for. A token can take permissions away from the stored
user, and never add one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, get_args
from uuid import UUID

Environment = Literal["development", "staging", "production", "test"]
"""The environments that a tenant can have."""

ENVIRONMENTS: Final[tuple[Environment, ...]] = get_args(Environment)
"""All of them, in the order in which they are listed."""

PRODUCTION: Final[Environment] = "production"
"""The one in which what is decided counts."""

PrincipalKind = Literal["user", "api_key", "anonymous", "system"]
"""What stands behind a request; ``system`` is payrec itself (the engine, the sealer, an import)."""


class Permission(StrEnum):
    """What an endpoint can ask for."""

    READ = "read"
    WRITE = "write"
    MATCHES_ACCEPT = "matches:accept"
    PERIODS_MANAGE = "periods:manage"
    SETTINGS_MANAGE = "settings:manage"
    WEBHOOKS_MANAGE = "webhooks:manage"
    API_KEYS_MANAGE = "api-keys:manage"
    PRIVACY_ERASE = "privacy:erase"
    TENANTS_MANAGE = "tenants:manage"


_VIEWER: Final = frozenset({Permission.READ})
_OPERATOR: Final = _VIEWER | {Permission.WRITE}
_APPROVER: Final = _OPERATOR | {Permission.MATCHES_ACCEPT, Permission.PERIODS_MANAGE}
_ADMIN: Final = _APPROVER | {
    Permission.SETTINGS_MANAGE,
    Permission.WEBHOOKS_MANAGE,
    Permission.API_KEYS_MANAGE,
    Permission.PRIVACY_ERASE,
}

ROLES: Final[dict[str, frozenset[Permission]]] = {
    "viewer": _VIEWER,
    "operator": _OPERATOR,
    "approver": _APPROVER,
    "admin": _ADMIN,
    "platform-admin": frozenset({Permission.TENANTS_MANAGE}),
}
"""Role to permissions. ``tenants:manage`` belongs to ``platform-admin`` alone, who has nothing else."""

KEY_WRITE_PERMISSIONS: Final = _ADMIN - {Permission.READ, Permission.API_KEYS_MANAGE}
"""What the write flag of an API key opens: every mutating endpoint, except keys and tenants."""

NO_PERMISSIONS: Final[frozenset[Permission]] = frozenset()
"""Nothing at all."""


def permissions_of(roles: Iterable[str]) -> frozenset[Permission]:
    """Return what the roles allow together; an unknown role allows nothing (providers put their own into tokens)."""
    return NO_PERMISSIONS.union(*(ROLES.get(role, NO_PERMISSIONS) for role in roles))


def permissions_named(names: Iterable[str]) -> frozenset[Permission]:
    """Return the permissions that are known by these names; others are left out."""
    known = Permission.__members__.values()
    wanted = frozenset(names)
    return frozenset(permission for permission in known if permission.value in wanted)


def key_permissions(*, read: bool, write: bool) -> frozenset[Permission]:
    """Return what the two flags of an API key open."""
    return (_VIEWER if read else NO_PERMISSIONS) | (KEY_WRITE_PERMISSIONS if write else NO_PERMISSIONS)


def effective_permissions(
    token_roles: Iterable[str] | None,
    token_permissions: Iterable[str] | None,
    stored_roles: Iterable[str],
) -> frozenset[Permission]:
    """Return what a request with this token may do.

    What the token's roles and its permissions allow together, and of that only what the stored roles allow as well. A
    token without either claim (None, which is not the same as an empty list) gets all that the stored roles allow.
    """
    stored = permissions_of(stored_roles)
    if token_roles is None and token_permissions is None:
        return stored
    claimed = permissions_of(token_roles or ()) | permissions_named(token_permissions or ())
    return claimed & stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Whoever acts: a user, an API key, nobody in particular, or payrec itself.

    ``id`` is the id of the user or of the key, ``public_id`` the public part of the key. ``environments`` None means
    that the principal is not bound to any; a key is bound to exactly one. ``name`` is the username, the name of the
    key, or which part of payrec it is (``engine:1.4``).
    """

    kind: PrincipalKind
    id: UUID | None = None
    public_id: str | None = None
    tenant_id: UUID | None = None
    environments: frozenset[Environment] | None = None
    permissions: frozenset[Permission] = NO_PERMISSIONS
    roles: frozenset[str] = frozenset()
    """A user's stored ones, whatever the token has left of their permissions."""
    name: str = ""
    resource_key: str | None = None
    """Of a key that a Tenant resource asked for: its name there, which all have that take one another's place."""
    made_by: str | None = None
    """Of a key: the actor who has made it, and had its secret."""

    def __post_init__(self) -> None:
        if self.kind in {"user", "api_key"} and (self.id is None or self.tenant_id is None):
            raise ValueError(f"a principal of kind {self.kind} has an id and a tenant")
        if self.kind == "api_key" and (self.public_id is None or len(self.environments or ()) != 1):
            raise ValueError("a key has a public id and exactly one environment")
        if self.kind == "system" and not self.name:
            raise ValueError("a system principal has a name")

    @property
    def actor(self) -> str:
        """How the principal is written in the audit log and in ``createdBy``."""
        match self.kind:
            case "user":
                return f"user:{self.id}"
            case "api_key":
                return f"api_key:{self.public_id}"
            case "anonymous":
                return "anonymous"
            case "system":
                return self.name

    @property
    def hands(self) -> frozenset[str]:
        """Return as whom the person may act that acts here: who makes a key can do whatever it does.

        Keys of Tenant resources are nobody's: each is its own.
        """
        person = self.made_by if self.made_by is not None and self.made_by.startswith("user:") else self.actor
        return frozenset({self.actor, person})

    @property
    def repeats_as(self) -> str:
        """Whose Idempotency-Keys the principal's are.

        A client that asks once more may have got another key meanwhile: in a rotation one takes the other's place.
        """
        if self.resource_key is not None:
            return f"resource_key:{self.tenant_id}:{self.resource_key}"
        return self.actor

    def may(self, permission: Permission) -> bool:
        """Tell whether the principal has a permission."""
        return permission in self.permissions

    def opens(self, environment: Environment) -> bool:
        """Tell whether the principal may act in an environment of its tenant."""
        return self.environments is None or environment in self.environments


ANONYMOUS: Final = Principal(kind="anonymous")
"""A request to a public endpoint."""

ENGINE_ACTOR_PREFIX: Final = "engine:"
"""With what the matching engine is written as an actor; its version follows."""
