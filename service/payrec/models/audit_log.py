"""The audit log on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, StringConstraints

from payrec.models.common import Instant, ListQuery, Public

Action = Annotated[str, StringConstraints(pattern=r"^[a-z_]{1,64}(\.[a-z_]{1,64})?$")]
"""What was done, as ``noun.verb``."""

Actor = Annotated[str, StringConstraints(pattern=r"^[!-~]{1,128}$")]
"""Who did it, as the log spells it."""


class AuditRecordPublic(Public):
    """One thing done to one resource."""

    id: UUID
    """The id of the change, counted up for each further record of it."""
    change_id: UUID
    """What was done in one transaction has this in common."""
    at: datetime
    actor: str
    """``user:`` and ``api_key:`` with an id, ``engine:`` with its version, or a process of payrec itself."""
    type: str
    resource_id: UUID | None
    reason: str | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    request_id: str

    @classmethod
    def of_row(cls, row: dict[str, Any]) -> AuditRecordPublic:
        """Return the record of a row, whose ``id`` is its ordinal in the change."""
        change_id = UUID(row["change_id"])
        return cls.model_validate({**row, "change_id": change_id, "id": UUID(int=change_id.int + int(row["id"]))})


class AuditLogQuery(ListQuery):
    """Filters of the log."""

    sort: Literal["createdAt", "-createdAt"] = "-createdAt"
    type: Action | None = None
    resource_id: UUID | None = None
    actor: Actor | None = None
    from_: Annotated[Instant | None, Field(alias="from")] = None
    to: Instant | None = None
