"""Imports on the wire: what became of an uploaded file."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, ClassVar, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

from payrec.constants import PROFILE_BYTES_MAX
from payrec.domain.continuity import Continuity
from payrec.domain.statements import StatementKind
from payrec.models.common import Currency, ListQuery, OwnAccount, Public, Resource, Text

ImportStatus = Literal["processing", "completed", "failed"]
ImportResource = Literal["incoming-transactions", "expected-transactions", "expected-snapshots", "matches"]
# fmt: off
UploadFormat = Literal[
    "auto", "camt", "camt.052", "camt.053", "camt.054", "mt940", "mt942", "bai2", "ofx", "csv", "xlsx", "json",
    "jsonl", "stripe", "adyen", "paypal_stl", "paypal_trr",
]
# fmt: on


class UploadOptions(BaseModel):
    """What the uploader knows about the file: query parameters of a raw body, fields of a form."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", hide_input_in_errors=True)

    format: UploadFormat = "auto"
    account: OwnAccount | None = None
    currency: Currency | None = None
    date_order: Literal["ymd", "dmy", "mdy"] | None = None
    profile: Annotated[str, StringConstraints(max_length=PROFILE_BYTES_MAX)] | None = None
    """JSON of a profile; merged into that of the data source (RFC 7396)."""
    data_source_id: UUID | None = None
    """Whose file it is: what these options do not say is taken from there."""
    mode: Literal["all_or_nothing", "valid_rows"] = "valid_rows"


class ImportCounts(Public):
    """Records by what became of them; they add up."""

    records: int
    accepted: int
    duplicates: int
    skipped: int
    rejected: int


class RecordProblem(Public):
    """One record that was not accepted, or something to know."""

    line: int | None
    statement: int | None = None
    """The statement that it is about, by its place in the file, from 0."""
    pointer: str | None = None
    code: str
    severity: Literal["info", "warning", "error"]
    detail: str


class ImportTotals(Public):
    """Sums of the accepted and duplicate entries of a currency."""

    currency: str
    credit_minor: int
    debit_minor: int


class ImportBalance(Public):
    """The balances of one statement of the file."""

    kind: StatementKind
    account: str | None
    currency: str | None
    statement_id: str | None
    sequence_number: str | None
    from_date: date | None = Field(alias="from")
    to_date: date | None = Field(alias="to")
    opening_minor: int | None
    closing_minor: int | None
    balance_check: Literal["ok", "mismatch", "not_available"]
    balance_difference_minor: int | None
    continuity: Continuity | None
    """How it follows the statements of its account before it, as far as they have come: changes when one comes that
    was missing. None for a statement that was stored before that was looked at."""
    expected_opening_minor: int | None
    """What the statement before it closed with, where there is a gap or an overlap."""
    expected_opening_date: date | None
    """The day on which it closed."""
    entry_count: int
    first_booking_date: date | None
    last_booking_date: date | None


class ImportPublic(Resource):
    """An import."""

    collection: ClassVar[str] = "/imports"

    job_id: UUID
    data_source_id: UUID | None
    resource: ImportResource
    """What the records of the file are of. Those of a snapshot are only compared, and skipped unless one is created."""
    status: ImportStatus
    name: str
    bytes: int
    sha256: str
    format: str | None
    format_version: str | None
    encoding: str | None
    counts: ImportCounts
    totals: list[ImportTotals]
    balances: list[ImportBalance]
    errors: list[RecordProblem]
    errors_url: str
    content_url: str | None
    """Where the file is, as it came, for as long as it is kept."""
    error: dict[str, Any] | None


class StatementGap(Public):
    """What the event tells of a statement before which another one is missing."""

    import_id: UUID
    """Where the statement after the gap is."""
    account: str
    currency: str
    statement_ids: list[str | None]
    """Of the two statements between which something is missing."""
    sequence_numbers: list[int | None]
    """Of the same two."""
    expected_opening_minor: int | None
    opening_minor: int | None
    difference_minor: int | None
    previous_closing_date: date | None
    """The day of the statement before the gap."""
    closing_date: date | None
    """The day of the statement after it."""


class ImportQuery(ListQuery):
    """Filters of the imports."""

    sort: Literal["createdAt", "-createdAt"] = "-createdAt"
    status: ImportStatus | None = None
    resource: ImportResource | None = None
    format: Text | None = None
    data_source_id: UUID | None = None


class RecordProblemQuery(ListQuery):
    """Pages of errors, in the order of the file."""

    sort: Literal["line"] = "line"
