"""Snapshots of what another system has open, on the wire."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal
from uuid import UUID

from pydantic import Field, StringConstraints

from payrec.constants.snapshots import CONTROL_TOTALS_LENGTH_MAX, CONTROL_TOTALS_MAX
from payrec.models.common import (
    BoundedMinor,
    Currency,
    DecimalAmount,
    Direction,
    Instant,
    ListQuery,
    MoneyGiven,
    OwnAccount,
    Public,
    Request,
    Resource,
    Text,
)
from payrec.models.expected_transactions import ExpectedStatus, RecordFileOptions
from payrec.models.imports import ImportStatus
from payrec.models.reports import Amount, Figure

DifferenceKind = Literal["missing_here", "missing_there", "amount_differs"]


class SnapshotOptions(RecordFileOptions):
    """What is said of a snapshot. Account, currency and direction stand for records, and bound what is compared."""

    taken_at: Instant
    """When the other system read what it has open. What was open here is told as of that instant."""
    control_totals: Annotated[
        str,
        StringConstraints(max_length=CONTROL_TOTALS_LENGTH_MAX),
        Field(
            description="JSON: `[{currency, count, amountMinor | amount}]`, a member for each currency of the file: "
            "how many items, and the sum of their open amounts, whatever their direction."
        ),
    ]
    apply: bool = False
    """Create what is missing here, of what the file says. Nothing is ever voided."""


class ControlTotal(MoneyGiven):
    """What the other system counted and added up of one currency."""

    count: Annotated[int, Field(ge=0)]


class ControlTotals(Request):
    """What it counted and added up."""

    control_totals: Annotated[list[ControlTotal], Field(max_length=CONTROL_TOTALS_MAX)]


class SnapshotItem(Request):
    """What is compared of a record. Whatever else it says is looked at when it is created."""

    external_id: Text
    open_amount_minor: BoundedMinor | None = None
    open_amount: DecimalAmount | None = None
    currency: Currency
    direction: Direction | None = None
    account: OwnAccount | None = None


class OpenThere(Public):
    """What the other system says of an item."""

    open_amount_minor: int
    open_amount: str
    currency: str
    direction: Direction | None


class OpenHere(OpenThere):
    """What was here at the instant of the snapshot; of what is matched or void nothing is open."""

    direction: Direction
    status: ExpectedStatus


class Difference(Public):
    """An item in which the two differ: missing on a side, or in amount, currency or direction."""

    kind: DifferenceKind
    external_id: str | None
    expected_transaction_id: UUID | None
    """The item here. Where it was missing: what has come since, or was created."""
    here: OpenHere | None
    there: OpenThere | None
    outcome: Literal["came_since", "created", "not_created"] | None
    """Of an item that was missing here; null where nothing is there by now and none was to be created."""
    detail: str | None
    """Why it was not created: what the record would have to say."""


class SnapshotTotal(Public):
    """What is open in one currency, on either side."""

    currency: str
    here: Figure
    there: Figure


class DifferenceSum(Public):
    """The differences in one currency: `here` less `there` is what they make of the difference of the totals."""

    currency: str
    count: int
    here: Amount
    there: Amount


class Differences(Public):
    """The differences of one kind."""

    count: int
    sums: list[DifferenceSum]
    first: list[Difference]
    """The first 100 by externalId; all of them are at `differencesUrl`."""


class StatedTotal(Figure):
    """A control total as it was given."""

    currency: str


class SnapshotPublic(Resource):
    """A snapshot and how it compares. Totals and differences are null until it was compared."""

    collection: ClassVar[str] = "/expected-transactions/snapshots"

    job_id: UUID
    status: ImportStatus
    name: str
    sha256: str
    taken_at: Instant
    apply: bool
    account: str | None
    currency: str | None
    direction: Direction | None
    control_totals: list[StatedTotal]
    totals: list[SnapshotTotal] | None
    missing_here: Differences | None
    missing_there: Differences | None
    amount_differs: Differences | None
    created: int | None
    """Items that were missing here and were created."""
    differences_url: str | None
    """Where all differences are; null once their time is over, when the counts and sums are what stays."""
    content_url: str | None
    """Where the file is, as it came, for as long as it is kept."""
    error: dict[str, Any] | None


class SnapshotQuery(ListQuery):
    """Filters of the snapshots."""

    sort: Literal["createdAt", "-createdAt"] = "-createdAt"
    status: ImportStatus | None = None


class DifferenceQuery(ListQuery):
    """Pages of differences, by kind and externalId."""

    sort: Literal["externalId"] = "externalId"
    kind: DifferenceKind | None = None
