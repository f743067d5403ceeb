"""Matches and matching runs on the wire."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any, ClassVar, Literal
from uuid import UUID

from pydantic import Field

from payrec.models.common import AsOfQuery, Date, ListQuery, Public, Request, Resource

MatchStatus = Literal["proposed", "pending_approval", "accepted", "rejected", "superseded", "reversed"]
MatchKind = Literal["one_to_one", "one_to_many", "many_to_one", "many_to_many", "transfer", "refund", "credit_note"]
AdjustmentType = Literal[
    "fee",
    "fx",
    "rounding",
    "write_off",
    "over_payment",
    "discount",
    "withholding_tax",
    "bank_charge",
    "deduction",
]
Confidence = Literal["exact", "high", "medium", "low"]


class RunSettings(Request):
    """Settings that a dry run goes by instead of the tenant's."""

    matching: dict[str, Any] = Field(description="Merged into `matching` of the settings, as PATCH does.")


class MatchRunCreate(Request):
    """What to match; an empty body matches all that is open."""

    expected_filter: dict[str, Any] | None = Field(
        default=None,
        description="Filters as the query parameters of GET /expected-transactions; none of its order and pages.",
    )
    incoming_filter: dict[str, Any] | None = Field(
        default=None,
        description="Filters as the query parameters of GET /incoming-transactions; none of its order and pages.",
    )
    dry_run: bool = False
    settings: RunSettings | None = None
    """For a dry run alone: tries thresholds and rules before they go live."""
    wait: Annotated[int, Field(ge=0, le=60)] = 10
    """Seconds to wait for the run's end."""


class MatchRunCounts(Public):
    """What a run saw and did."""

    expected: int
    """Open items that the run decided about; where it looked up those that few lines may reach, and more than 10,000
    are open, about so many."""
    incoming: int
    proposed: int
    auto_accepted: int
    ambiguous: int
    unmatched: dict[str, int]
    """Incoming transactions without a proposal, by reason."""
    classified: int | None = Field(default=None, exclude_if=lambda v: v is None)
    """Of these, what rules have classified; left out where there is no such rule."""


class MatchRunPublic(Public):
    """A matching run; its id is its job's."""

    job_id: UUID
    status: Literal["queued", "running", "succeeded", "failed", "cancelled"]
    counts: MatchRunCounts | None
    duration_ms: int | None
    engine_version: str | None
    rules_version: int | None
    """Version of the tenant whose settings and rules it went by."""
    dry_run: bool
    proposals: list[dict[str, Any]] | None = Field(default=None, exclude_if=lambda v: v is None)
    """The first proposals of a dry run."""
    proposals_url: str | None = Field(default=None, exclude_if=lambda v: v is None)
    """A file of all of them, where there are more."""
    proposals_expire_at: datetime | None = Field(default=None, exclude_if=lambda v: v is None)
    error: dict[str, Any] | None = Field(default=None, exclude_if=lambda v: v is None)


class LegPublic(Public):
    """Two transactions that settle each other: an expected and an incoming one, or two of one side."""

    expected_transaction_id: UUID | None
    contra_expected_transaction_id: UUID | None
    incoming_transaction_id: UUID | None
    contra_incoming_transaction_id: UUID | None
    amount_minor: int
    """Taken from the incoming one, in its currency."""
    settled_minor: int
    """Settled on the expected one."""
    settled_currency: str


class AdjustmentPublic(Public):
    """What the match settles of one of its transactions without money."""

    type: AdjustmentType
    expected_transaction_id: UUID | None = Field(default=None, exclude_if=lambda v: v is None)
    incoming_transaction_id: UUID | None = Field(default=None, exclude_if=lambda v: v is None)
    amount_minor: int
    """Signed: + counts as settled on the transaction."""
    currency: str
    rate: str | None = Field(default=None, exclude_if=lambda v: v is None)
    """Of an exchange: units of the expected transaction's currency for one of the incoming one's."""


class EvidencePublic(Public):
    """What both sides say about one feature, and what it weighs (log-odds)."""

    feature: str
    level: str
    expected: str | None
    incoming: str | None
    weight: float


class UniquenessPublic(Public):
    """Whether another match would do as well."""

    status: str
    candidates: int
    bounds: dict[str, Any]


class AlternativePublic(Public):
    """Another transaction that would fit."""

    expected_transaction_id: UUID
    incoming_transaction_id: UUID
    score: float


class ImportedPublic(Public):
    """Where a decision came from that was made elsewhere: `decidedBy` and `decidedAt` are as the file has said."""

    import_id: UUID
    imported_by: str
    reviewed: bool
    """A person has decided it, or looked at it: matching learns from it."""


class MatchPublic(Resource):
    """A match, with why."""

    collection: ClassVar[str] = "/matches"

    status: MatchStatus
    kind: MatchKind
    score: float | None
    """Log-odds that the transactions belong together. Null while a blind review waits, as the confidence and the
    explanation; evidence and alternatives are empty then. Null, as the confidence, of what was matched by hand."""
    confidence: Confidence | None
    currency: str
    amount_minor: int
    amount: str
    legs: list[LegPublic]
    adjustments: list[AdjustmentPublic]
    effective_on: date | None
    """The day from which it counts."""
    reversed_on: date | None
    """The day from which it does not count any more; null unless it was reversed."""
    returned_amount_minor: int
    evidence: list[EvidencePublic]
    explanation: str | None
    uniqueness: UniquenessPublic
    alternatives: list[AlternativePublic]
    superseded_by: UUID | None
    sampled: bool
    """Drawn for a blind review: it would have been accepted without a person."""
    run_id: UUID | None
    created_by: str
    decided_by: str | None
    decided_at: datetime | None
    decision_reason: str | None
    imported: ImportedPublic | None = Field(default=None, exclude_if=lambda v: v is None)


class MatchQuery(ListQuery, AsOfQuery):
    """Filters of the matches."""

    sort: Literal["createdAt", "-createdAt"] = "-createdAt"
    status: MatchStatus | None = None
    kind: MatchKind | None = None
    confidence: Confidence | None = None
    expected_transaction_id: UUID | None = None
    incoming_transaction_id: UUID | None = None
    run_id: UUID | None = None
    cut_off: Date | None = None
    """The last day on which it is effective; what is not decided is effective on none."""
