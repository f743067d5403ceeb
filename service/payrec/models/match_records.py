"""The record of one match on the wire: everything known of it, for an auditor."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Literal
from uuid import UUID

from payrec.models.audit_log import AuditRecordPublic
from payrec.models.common import Public
from payrec.models.matches import MatchPublic, MatchStatus


class EnginePublic(Public):
    """By what a match was made."""

    made_by: str
    """`engine:` with its version, or a person or key."""
    engine_version: str | None
    calibration_version: int | None
    """Of `GET /matching/calibration`, where the score was computed with what decisions had taught."""
    run_id: UUID | None
    """The job of the run."""
    rules_version: int | None
    """Version of the tenant whose settings and rules the run went by, while the job is kept."""
    run_finished_at: datetime | None
    settings_change: AuditRecordPublic | None
    """The last change of the tenant's settings before the match was made; null where they were the defaults."""
    proof: dict[str, Any] | None
    """Of a group, how it was found and within what bounds."""


class MatchStatePublic(Public):
    """What a match was from a change on."""

    version: int
    status: MatchStatus
    change_id: UUID | None
    """Null for what was before history began."""
    at: datetime | None
    decided_by: str | None
    decided_at: datetime | None
    decision_reason: str | None
    effective_on: date | None
    reversed_on: date | None
    returned_amount_minor: int
    superseded_by: UUID | None


class SourcePublic(Public):
    """Where a line came from."""

    import_id: UUID
    file_name: str
    sha256: str
    """Of the file."""
    format: str | None
    format_version: str | None
    received_at: datetime
    data_source_id: UUID | None
    line: int | None
    """Of the file, from 1."""
    statement: dict[str, Any] | None
    """Its index in the file, kind, id, number, account and period."""


class RecordedTransactionPublic(Public):
    """A transaction of the match: what was stated when it was decided, and what is now."""

    side: Literal["expected", "incoming"]
    id: UUID
    status: str
    allocated_minor: int
    stated: dict[str, Any]
    """As stored; hashes in hexadecimal, what is absent left out."""
    stated_when_decided: dict[str, Any] | None
    """Where it was another; null where it was the same, or nothing is decided."""
    changed_at: datetime | None
    """When it was stated so."""
    source: SourcePublic | None


class RecordedReturnPublic(Public):
    """What a return has taken back."""

    reversal_id: UUID
    incoming_transaction_id: UUID
    expected_transaction_id: UUID | None
    amount_minor: int
    settled_minor: int
    at: datetime | None
    created_by: str


class SupersededPublic(Public):
    """A proposal that gave way to the match."""

    id: UUID
    status: MatchStatus
    created_at: datetime
    superseded_at: datetime


class SealPublic(Public):
    """The seal that covers an audit record."""

    sequence: int
    sealed_at: datetime
    root: str
    commitment: str
    holds: bool
    """The record is what was committed to. That the seal is part of the chain is for `payrec audit verify` to say."""


class SealedRecordPublic(AuditRecordPublic):
    """An audit record and its seal, null while it waits for one."""

    seal: SealPublic | None


class MatchRecordPublic(Public):
    """Everything known of a match; what is bounded says how much there is in all, and where the rest is."""

    match: MatchPublic
    engine: EnginePublic
    states: list[MatchStatePublic]
    """Those that are kept: of a proposal that nobody had touched the first one is implied."""
    counted_from: datetime | None
    """When its amounts were allocated."""
    counted_until: datetime | None
    transactions: list[RecordedTransactionPublic]
    """The first of them, in the order of the legs."""
    transaction_count: int
    returns: list[RecordedReturnPublic]
    superseded: list[SupersededPublic]
    audit: list[SealedRecordPublic]
    """Records of the match, of its run, of the transactions and of their files, the oldest first."""
    audit_complete: bool
    """Whether these are all."""
    audit_log: str
    """Where all records of the match are."""
