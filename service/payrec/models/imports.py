"""Imports on the wire: what became of an uploaded file."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, ClassVar, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, StringConstraints
from pydantic.alias_generators import to_camel

from payrec.models.common import Currency, ListQuery, Public, Resource, Text

ImportStatus = Literal["processing", "completed", "failed"]
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
    account: Text | None = None
    currency: Currency | None = None
    date_order: Literal["ymd", "dmy", "mdy"] | None = None
    profile: Annotated[str, StringConstraints(max_length=64 * 1024)] | None = None
    """JSON of a saved profile."""
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

    account: str | None
    currency: str | None
    statement_id: str | None
    opening_minor: int | None
    closing_minor: int | None
    balance_check: Literal["ok", "mismatch", "not_available"]
    balance_difference_minor: int | None
    entry_count: int
    first_booking_date: date | None
    last_booking_date: date | None


class ImportPublic(Resource):
    """An import."""

    collection: ClassVar[str] = "/imports"

    job_id: UUID
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
    error: dict[str, Any] | None


class ImportQuery(ListQuery):
    """Filters of the imports."""

    sort: Literal["createdAt", "-createdAt"] = "-createdAt"
    status: ImportStatus | None = None
    format: Text | None = None


class RecordProblemQuery(ListQuery):
    """Pages of errors, in the order of the file."""

    sort: Literal["line"] = "line"
