"""Events on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal
from uuid import UUID

from pydantic import Field

from payrec.models.common import Instant, ListQuery, Public, Text


class EventPublic(Public):
    """One event. It says what happened to which resource; the resource itself is read at its own address."""

    collection: ClassVar[str] = "/events"

    id: UUID
    """Also the ``webhook-id`` of every delivery."""
    position: int
    type: str
    created_at: datetime
    resource_id: UUID
    data: dict[str, Any] = Field(description="resourceType, resourceId, and what the change added.")


class EventQuery(ListQuery):
    """Filters of the events. Who polls sorts by ``createdAt`` and goes on ``after`` the last position seen."""

    sort: Literal["createdAt", "-createdAt"] = "-createdAt"
    type: Text | None = None
    resource_id: UUID | None = None
    after: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None
    from_: Annotated[Instant | None, Field(alias="from")] = None
    to: Instant | None = None
