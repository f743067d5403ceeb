"""Erasures on the wire: of whom texts go, how many went, and what had to stay."""

from __future__ import annotations

from datetime import date
from typing import ClassVar, Literal
from uuid import UUID

from pydantic import ConfigDict, Field

from payrec.domain.erasures import ErasureSubject
from payrec.models.common import GivenId, GivenReason, ListQuery, Public, Request, Resource, Text

KeptReason = Literal["retention_duty", "file", "being_written", "append_only", "setting", "identity_provider"]
"""Why something had to stay: books stand on it, and it is younger than ``retention.auditDays``; it is in a file as it
came; a file of it is being written; it is in postings, or in the audit log of users, which nobody can change; somebody
has set it, and may set it otherwise; or another system has it."""

ErasureStatus = Literal["processing", "completed", "failed"]


class ErasureCreate(Request):
    """Of whom: exactly one of a name, an account and a user; and why, in words that do not name anybody."""

    # The reason and one of the others. Not as oneOf, which generators take for three bodies of which they know nothing.
    model_config = ConfigDict(json_schema_extra={"minProperties": 2, "maxProperties": 2})

    counterparty_name: Text | None = Field(
        default=None, description="As it is written anywhere: capitals, accents and marks do not count."
    )
    counterparty_account: Text | None = None
    user_id: GivenId | None = Field(default=None, description="Of a disabled user.")
    reason: GivenReason


class ErasedPublic(Public):
    """How many things of a kind lost texts."""

    resource: str
    count: int


class KeptPublic(Public):
    """What had to stay, why, and until when."""

    resource: str
    why: KeptReason
    count: int
    until: date | None
    """From this day on the last of them need not stay, or is deleted by itself; null where no day is known."""


class ErasurePublic(Resource):
    """What was erased; never the texts themselves."""

    collection: ClassVar[str] = "/privacy/erasures"

    status: ErasureStatus
    job_id: UUID | None
    """The job that erases where there is much to look through; null where the request has done it."""
    subject: ErasureSubject
    user_id: UUID | None
    reason: str
    created_by: str
    erased: list[ErasedPublic]
    kept: list[KeptPublic]
    """What is told here may be erased again from its day on; nobody does it by himself."""


class ErasureQuery(ListQuery):
    """Filters of the erasures."""

    sort: Literal["createdAt", "-createdAt"] = "-createdAt"
    status: ErasureStatus | None = None
    subject: ErasureSubject | None = None
