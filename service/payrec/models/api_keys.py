"""API keys on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Literal
from uuid import UUID

from pydantic import Field

from payrec.models.common import Environment, Instant, ListQuery, Public, Request, Text


class ApiKeyCreate(Request):
    """A new key for the request's tenant and environment; at least one flag is true."""

    name: Text | None = None
    read: bool = False
    write: bool = False
    expires_at: Instant | None = None


class ApiKeyPublic(Public):
    """A key without its secret."""

    collection: ClassVar[str] = "/auth/api-keys"

    id: UUID
    public_id: str
    name: str | None
    read: bool
    write: bool
    status: Literal["active", "expired", "revoked"]
    expires_at: datetime | None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None
    created_at: datetime
    tenant_id: UUID
    environment: Environment

    @property
    def headers(self) -> dict[str, str]:
        """Location."""
        return {"Location": f"{self.collection}/{self.id}"}


class ApiKeyCreated(ApiKeyPublic):
    """A new key, with its secret for the only time."""

    api_key: str | None = Field(default=None, exclude_if=lambda v: v is None)


class ApiKeyExpiring(Public):
    """What the event ``api_key.expiring`` tells."""

    public_id: str
    name: str | None
    expires_at: datetime


class ApiKeyQuery(ListQuery):
    """Filters of the keys."""

    sort: Literal["createdAt", "-createdAt"] = "-createdAt"
    status: Literal["active", "expired", "revoked"] | None = None
