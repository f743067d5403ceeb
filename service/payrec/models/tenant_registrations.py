"""What the control schema knows of one tenant, as a document: the part of its backup that no dump of a schema has."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self
from uuid import UUID

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from payrec.constants.tenants import REGISTRATION_KEYS_MAX, REGISTRATION_USERS_MAX
from payrec.models.common import Environment, Instant, Request, Text

FORMAT: Final = "payrec.tenant-registration/1"
"""What a document says of itself; another number is another form."""

Id = Annotated[UUID, Field(strict=False)]
Role = Annotated[str, StringConstraints(min_length=1, max_length=64)]


class Registered(Request):
    """Made from a row of the database, and from a document."""

    model_config = ConfigDict(populate_by_name=True)


class RegisteredEnvironment(Registered):
    """An environment. The names of its schema and of its role follow from the tenant."""

    id: Id
    environment: Environment
    status: Literal["active", "suspended"]
    revision: Annotated[str, StringConstraints(min_length=1, max_length=32)]
    created_at: Instant


class RegisteredUser(Registered):
    """A user; the password is the identity provider's."""

    id: Id
    subject: Text | None = None
    username: Text
    email: Text | None = None
    display_name: Text | None = None
    roles: Annotated[list[Role], Field(max_length=16)]
    environments: Annotated[list[Environment], Field(max_length=4)]
    status: Literal["active", "disabled"]
    of_resource: bool
    created_at: Instant


class RegisteredKey(Registered):
    """An API key that is not revoked. Its digest proves a key only to whoever has the pepper that it was made with."""

    id: Id
    public_id: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z]{16}$")]
    environment: Environment
    name: Text | None = None
    digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    read: bool
    write: bool
    state: Literal["pending", "active", "retiring"]
    resource_key: Text | None = None
    expires_at: Instant | None = None
    created_by: Text
    created_at: Instant

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not (self.read or self.write):
            raise ValueError("a key opens something")
        if self.state == "retiring" and self.expires_at is None:
            raise ValueError("a retiring key ends")
        return self


class TenantRegistration(Registered):
    """A tenant with its environments, users and keys."""

    format: Literal["payrec.tenant-registration/1"] = FORMAT
    id: Id
    slug: Text
    name: Text
    settings: dict[str, Any]
    resource_namespace: Text | None = None
    """Where the tenant's resource was: one of the same namespace, name and slug takes it over again."""
    resource_name: Text | None = None
    created_at: Instant
    environments: Annotated[list[RegisteredEnvironment], Field(max_length=4)]
    users: Annotated[list[RegisteredUser], Field(max_length=REGISTRATION_USERS_MAX)]
    api_keys: Annotated[list[RegisteredKey], Field(max_length=REGISTRATION_KEYS_MAX)]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [e.environment for e in self.environments]
        if len(set(names)) != len(names):
            raise ValueError("an environment is there once")
        if not {key.environment for key in self.api_keys} <= set(names):
            raise ValueError("a key is of an environment that is there")
        if (self.resource_namespace is None) != (self.resource_name is None):
            raise ValueError("a resource has a namespace and a name")
        return self
