"""Locks of periods on the wire."""

from __future__ import annotations

from datetime import date, datetime
from typing import ClassVar, Literal
from uuid import UUID

from payrec.models.common import Date, GivenReason, ListQuery, OwnAccount, Public, Request, Resource

PeriodLockStatus = Literal["locked", "reopened"]


class PeriodLockCreate(Request):
    """Which days to lock, and why."""

    through: Date
    """The last day, today at the latest: this and all days before it."""
    account: OwnAccount | None = None
    """An account's identifier; all accounts, and lines of none, where it is left out."""
    reason: GivenReason
    override: bool = False
    """Lock it whatever is incomplete."""


class PeriodLockReopen(Request):
    """Why a period is opened again."""

    reason: GivenReason


class IncompletePublic(Public):
    """How much was incomplete when the period was locked."""

    open_lines: int
    statement_gaps: int
    pending_approvals: int


class PeriodLockPublic(Resource):
    """A lock of a period."""

    collection: ClassVar[str] = "/period-locks"

    status: PeriodLockStatus
    through: date
    account: str | None
    reason: str
    override: bool
    incomplete: IncompletePublic
    locked_at: datetime
    """The instant as of which reconciliation statements of its days are."""
    locked_by: str
    reopened_at: datetime | None
    reopened_by: str | None
    reopen_reason: str | None


class OpenLine(Public):
    """A booked line of the period that is not explained."""

    incoming_transaction_id: UUID
    account: str | None
    booking_date: date
    open_amount_minor: int
    currency: str


class StatementGap(Public):
    """A statement that does not begin where the one before it ended."""

    import_id: UUID
    statement_index: int
    account: str | None
    currency: str | None
    closed_on: date


class WaitingMatch(Public):
    """A match of the period that waits for a second person."""

    match_id: UUID
    effective_on: date
    amount_minor: int
    currency: str


class PeriodReadiness(Public):
    """What is incomplete of a period before it is locked: how much of each kind, and the first of it."""

    open_line_count: int
    open_lines: list[OpenLine]
    statement_gap_count: int
    statement_gaps: list[StatementGap]
    pending_approval_count: int
    pending_approvals: list[WaitingMatch]


class PeriodLockQuery(ListQuery):
    """Filters of the locks."""

    sort: Literal["createdAt", "-createdAt"] = "-createdAt"
    status: PeriodLockStatus | None = None
    account: OwnAccount | None = None
