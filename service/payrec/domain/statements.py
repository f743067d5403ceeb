"""What a reader of bank files yields: statements, entries and problems, in the terms of ISO 20022.

Slotted and mutable on purpose: a file has millions of records, and a reader fills one field after the other. Amounts
are minor units, never negative; ``direction`` is ``credit`` (money in) or ``debit``. Dates are as written in the
file. A reader yields, in file order, ``Statement`` (its head, when it begins), then its ``Entry`` objects, then the
same ``Statement`` object again inside ``StatementEnd`` when all of it, balances and totals included, is known;
``Problem`` and ``Skipped`` anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import Literal

Direction = Literal["credit", "debit"]
EntryStatus = Literal["booked", "pending", "info"]
StatementKind = Literal["statement", "interim", "notification", "settlement", "transactions"]
BalanceType = Literal[
    "opening",
    "closing",
    "previous_closing",
    "opening_available",
    "closing_available",
    "forward_available",
    "interim",
    "other",
]
CheckResult = Literal["ok", "mismatch", "not_available"]
Severity = Literal["info", "warning", "error"]


@dataclass(slots=True)
class Money:
    """An amount with its sign kept apart."""

    amount_minor: int
    currency: str
    direction: Direction | None = None


@dataclass(slots=True)
class Balance:
    """One balance of a statement; a debit balance is an overdraft."""

    type: BalanceType
    amount_minor: int
    currency: str
    direction: Direction
    on: date | None = None

    @property
    def signed_minor(self) -> int:
        """The amount, negative for a debit balance."""
        return self.amount_minor if self.direction == "credit" else -self.amount_minor


@dataclass(slots=True)
class Totals:
    """Counts and sums of the entries of one status."""

    credit_count: int = 0
    credit_minor: int = 0
    debit_count: int = 0
    debit_minor: int = 0

    def add(self, direction: Direction, amount_minor: int) -> None:
        """Count one entry."""
        if direction == "credit":
            self.credit_count += 1
            self.credit_minor += amount_minor
        else:
            self.debit_count += 1
            self.debit_minor += amount_minor


@dataclass(slots=True)
class Batch:
    """The batch that an entry is, or is part of."""

    group_key: str | None
    count: int | None
    itemised: bool


@dataclass(slots=True)
class Statement:
    """One account's statement. Entries are not held here: they stream past."""

    index: int
    kind: StatementKind = "statement"
    statement_id: str | None = None
    sequence_number: str | None = None
    page_number: int | None = None
    last_page: bool | None = None
    is_page: bool | None = False
    """Whether it is one page of a statement of several; None while only its end will tell."""
    first_page_id: str | None = None
    """The ``statement_id`` of the page that it goes on from in the file, and that one from another, up to the first."""
    account: str | None = None
    account_scheme: Literal["iban", "other"] = "other"
    account_name: str | None = None
    account_bic: str | None = None
    currency: str | None = None
    created_at: str | None = None
    from_on: date | None = None
    to_on: date | None = None
    balances: list[Balance] = field(default_factory=list)
    booked: Totals = field(default_factory=Totals)
    pending: Totals = field(default_factory=Totals)
    info: Totals = field(default_factory=Totals)
    entry_count: int = 0
    transaction_count: int = 0
    first_booking_on: date | None = None
    last_booking_on: date | None = None
    balance_check: CheckResult = "not_available"
    balance_difference_minor: int | None = None
    control_totals_check: CheckResult = "not_available"

    @property
    def credit_minor(self) -> int:
        """What comes in by all of its entries."""
        return sum(totals.credit_minor for totals in (self.booked, self.pending, self.info))

    @property
    def debit_minor(self) -> int:
        """What goes out by all of its entries."""
        return sum(totals.debit_minor for totals in (self.booked, self.pending, self.info))

    def balance(self, kind: BalanceType) -> Balance | None:
        """Return the first balance of the kind."""
        return next((b for b in self.balances if b.type == kind), None)


@dataclass(slots=True)
class Entry:
    """One transaction of a statement (a statement line, or one detail of a batch line that was split)."""

    statement: int = 0
    """``index`` of the statement that it belongs to (rows of a CSV interleave accounts)."""
    index: int = 0
    """Ordinal of the transaction within its statement, from 0."""
    line: int | None = None
    """Line of the file, from 1, where the record begins (for XML: the line of the element)."""
    status: EntryStatus = "booked"
    direction: Direction = "credit"
    amount_minor: int = 0
    currency: str = ""
    reversal: bool = False
    booking_on: date | None = None
    value_on: date | None = None
    account: str | None = None
    """The own account, copied from the statement."""
    entry_reference: str | None = None
    bank_reference: str | None = None
    transaction_id: str | None = None
    end_to_end_id: str | None = None
    mandate_id: str | None = None
    instruction_id: str | None = None
    payment_information_id: str | None = None
    uetr: str | None = None
    check_number: str | None = None
    structured_reference: str | None = None
    remittance: str | None = None
    counterparty_name: str | None = None
    counterparty_account: str | None = None
    counterparty_bic: str | None = None
    ultimate_counterparty_name: str | None = None
    bank_transaction_code: str | None = None
    purpose_code: str | None = None
    return_reason: str | None = None
    charges: list[Money] = field(default_factory=list)
    net: Money | None = None
    original: Money | None = None
    exchange_rate: str | None = None
    batch: Batch | None = None
    details: list[Entry] = field(default_factory=list)
    external_id: str | None = None
    """An identity that the file itself declares unique (``externalId`` of JSON, or of CSV by profile)."""
    identity_kind: Literal["bank", "fingerprint"] = "fingerprint"
    identity_value: str = ""
    """The bank's id, or the fingerprint as 32 hex digits. Unique with account, kind and occurrence."""
    occurrence: int = 0
    """How many entries of the same identity came before in the same statement."""
    reused_id: str | None = None
    """The bank's id, where it named something else in the same statement before: no identity then."""
    ordinal_within_bank_reference: int | None = None
    """Ordinal of a detail whose bank reference is its batch entry's; part of the bank identity."""
    fingerprint: bytes = b""
    """BLAKE2b-128 over the content (not status, line, name or file): see payrec.domain.identity."""
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class StatementEnd:
    """All of the statement is known now: balances, totals and checks."""

    statement: Statement


@dataclass(slots=True)
class Problem:
    """Something to tell about the file, a statement or a record."""

    code: str
    severity: Severity = "warning"
    rejects: bool = False
    """The record it names was rejected: it counts as ``rejected`` and is not yielded as an entry."""
    statement: int | None = None
    entry: int | None = None
    line: int | None = None
    detail: str = ""


@dataclass(slots=True)
class Skipped:
    """A record left out by a named rule."""

    rule: str
    statement: int | None = None
    line: int | None = None


Parsed = Statement | Entry | StatementEnd | Problem | Skipped
