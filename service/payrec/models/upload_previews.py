"""A file that was read and not stored, on the wire; members that may be absent have a default here."""

from __future__ import annotations

from datetime import date
from typing import Any, Literal

from pydantic import Field

from payrec.models.common import Direction, Public

Check = Literal["ok", "mismatch", "not_available"]


class FileMember(Public):
    """A file inside a container."""

    name: str
    bytes: int
    """Expanded."""
    skipped_by: str | None = None
    """The rule that left it out by its name."""


class PreviewedFile(Public):
    """The file itself."""

    name: str
    bytes: int
    """As it was uploaded."""
    sha256: str
    container: Literal["gzip", "zip"] | None
    members: list[FileMember]


class PreviewCounts(Public):
    """All records of the file by what became of them; they add up, however many of them are shown."""

    statements: int
    records: int
    accepted: int
    duplicates: int
    """Records that are in the file before; what is stored already is not looked at."""
    skipped: int
    rejected: int


class StatementAccount(Public):
    """The account of a statement."""

    id: str | None
    scheme: Literal["iban", "other"]
    name: str | None = None
    bic: str | None = None


class StatementBalance(Public):
    """One balance of a statement; a debit balance is an overdraft."""

    type: Literal[
        "opening",
        "closing",
        "previous_closing",
        "opening_available",
        "closing_available",
        "forward_available",
        "interim",
        "other",
    ]
    amount_minor: int
    currency: str
    direction: Direction
    date: date | None


class EntryTotals(Public):
    """Counts and sums of the statement lines of one status, in the currency of the statement."""

    credit_count: int
    credit_minor: int
    debit_count: int
    debit_minor: int


class StatementTotals(Public):
    """Totals by status; only what is booked counts for the balance."""

    booked: EntryTotals
    pending: EntryTotals
    info: EntryTotals


class StatementChecks(Public):
    """What the file says about itself, and whether it holds."""

    balance: Check
    balance_difference_minor: int | None
    control_totals: Check
    continuity: Literal["ok", "gap", "overlap", "first", "not_available"]
    """Among the statements of the account in this file."""


class EntryMoney(Public):
    """An amount, never negative, with its direction."""

    amount_minor: int
    currency: str
    direction: Direction | None


class EntryOriginal(Public):
    """The amount before it was exchanged."""

    amount_minor: int
    currency: str


class EntryBatch(Public):
    """The batch that an entry is, or is part of."""

    group_key: str | None
    count: int | None
    itemised: bool


class EntryIdentity(Public):
    """What makes it the same transaction in another file."""

    kind: Literal["bank", "fingerprint"]
    value: str
    occurrence: int


class PreviewedEntry(Public):
    """One transaction as it would be stored."""

    index: int
    line: int | None
    status: Literal["booked", "pending", "info"]
    direction: Direction
    amount_minor: int
    currency: str
    reversal: bool
    booking_date: date | None
    value_date: date | None
    entry_reference: str | None
    bank_reference: str | None
    transaction_id: str | None
    end_to_end_id: str | None
    mandate_id: str | None
    instruction_id: str | None
    payment_information_id: str | None
    uetr: str | None
    check_number: str | None
    structured_reference: str | None
    remittance: str | None
    counterparty_name: str | None
    counterparty_account: str | None
    counterparty_bic: str | None
    ultimate_counterparty_name: str | None
    bank_transaction_code: str | None
    purpose_code: str | None
    return_reason: str | None
    charges: list[EntryMoney]
    net: EntryMoney | None = None
    original: EntryOriginal | None = None
    exchange_rate: str | None = None
    batch: EntryBatch | None = None
    details: list[PreviewedEntry] | None = None
    """Details of a batch that is stored as one transaction; they have no identity."""
    identity: EntryIdentity | None = None
    metadata: dict[str, str]


class PreviewedStatement(Public):
    """One statement; ``entries`` are the first ones, the counts and totals those of all."""

    index: int
    kind: Literal["statement", "interim", "notification", "settlement", "transactions"]
    statement_id: str | None
    sequence_number: str | None = None
    page_number: int | None = None
    last_page: bool | None = None
    account: StatementAccount
    currency: str | None
    created_at: str | None = None
    """As written in the file."""
    from_on: date | None = Field(default=None, alias="from")
    to_on: date | None = Field(default=None, alias="to")
    balances: list[StatementBalance]
    totals: StatementTotals
    entry_count: int
    """Statement lines."""
    transaction_count: int
    """What would be stored: details of a batch that adds up are one each."""
    first_booking_date: date | None
    last_booking_date: date | None
    checks: StatementChecks
    entries: list[PreviewedEntry]


class PreviewedProblem(Public):
    """A record that was rejected or left out, or something to know; ``statement`` and ``entry`` are indexes."""

    code: str
    severity: Literal["info", "warning", "error"]
    rejects: bool
    statement: int | None = None
    entry: int | None = None
    line: int | None = None
    detail: str


class UploadPreview(Public):
    """What an upload of the file would read."""

    schema_version: Literal[1]
    outcome: Literal["read"]
    file: PreviewedFile
    format: str
    format_version: str | None
    encoding: str | None
    dialect: dict[str, Any] | None
    """The profile that was found out, for tables."""
    counts: PreviewCounts
    statements: list[PreviewedStatement]
    problems: list[PreviewedProblem]
    error: None
    """What cannot be read is refused."""
