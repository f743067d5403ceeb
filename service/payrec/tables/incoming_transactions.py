"""What really moved on the accounts, and the narrow set of it that is still open."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, Index, text
from sqlmodel import Field

from payrec.constants import AMOUNT_MINOR_MAX, KEYS_VERSION
from payrec.tables.base import TenantTable, array, column, integer


class IncomingTransaction(TenantTable, table=True):
    """An incoming transaction as the bank or PSP stated it. Its status and matched amount are in ``allocation``."""

    __tablename__ = "incoming_transaction"
    __table_args__ = (
        CheckConstraint(f"amount_minor BETWEEN 0 AND {AMOUNT_MINOR_MAX}", name="incoming_transaction_amount_in_range"),
        CheckConstraint("direction IN ('credit', 'debit')", name="incoming_transaction_direction_known"),
        Index("incoming_transaction_identity_unique", "identity", unique=True),
        Index(
            "incoming_transaction_external_id_unique",
            "external_id",
            unique=True,
            postgresql_where=text("external_id IS NOT NULL"),
        ),
        Index("incoming_transaction_by_fingerprint", "fingerprint"),
        Index("incoming_transaction_by_booking", "booking_on", "id"),
        Index("incoming_transaction_by_amount", "amount_minor", "id"),
        Index(
            "incoming_transaction_by_end_to_end",
            "end_to_end_id",
            postgresql_where=text("end_to_end_id IS NOT NULL AND end_to_end_id <> 'NOTPROVIDED'"),
        ),
        Index("incoming_transaction_pending", "id", postgresql_where=text("pending")),
        Index("incoming_transaction_by_import", "import_id", "id", postgresql_where=text("import_id IS NOT NULL")),
        Index("incoming_transaction_late", "id", postgresql_where=text("late")),
        Index("incoming_transaction_by_group", "group_key", "id", postgresql_where=text("group_key IS NOT NULL")),
    )

    id: UUID = Field(sa_column=column(UUID, primary_key=True))
    """UUIDv7 made at ``created_at``, so that its order is the order of creation."""
    import_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    change_id: UUID = Field(sa_column=column(UUID))
    amount_minor: int = Field(sa_column=column(int))
    net_minor: int | None = Field(sa_column=column(int, nullable=True))
    """What moves the PSP account, signed, in ``net_currency``; null where it is the amount itself."""
    original_minor: int | None = Field(sa_column=column(int, nullable=True))
    created_at: datetime = Field(sa_column=column(datetime))
    updated_at: datetime = Field(sa_column=column(datetime))
    booking_on: date = Field(sa_column=column(date))
    value_on: date | None = Field(sa_column=column(date, nullable=True))
    revision: int = Field(sa_column=integer(default="1"))
    """Counts changes of what matching looks at; a proposal made for an older one is stale."""
    statement_index: int | None = Field(sa_column=integer(nullable=True))
    line: int | None = Field(sa_column=integer(nullable=True))
    """Line of the imported file, from 1."""
    pending: bool = Field(sa_column=column(bool, default="false"))
    reversal: bool = Field(sa_column=column(bool, default="false"))
    identity: bytes = Field(sa_column=column(bytes))
    """BLAKE2b-128 of the bank's id, else the fingerprint and its occurrence: the same record of the bank, once."""
    fingerprint: bytes = Field(sa_column=column(bytes))
    """BLAKE2b-128 of the content: the same payment under another identity is flagged as a duplicate."""
    currency: str = Field(sa_column=column(str))
    direction: str = Field(sa_column=column(str))
    external_id: str | None = Field(sa_column=column(str, nullable=True))
    account: str | None = Field(sa_column=column(str, nullable=True))
    remittance: str | None = Field(sa_column=column(str, nullable=True))
    structured_reference: str | None = Field(sa_column=column(str, nullable=True))
    end_to_end_id: str | None = Field(sa_column=column(str, nullable=True))
    bank_reference: str | None = Field(sa_column=column(str, nullable=True))
    counterparty_name: str | None = Field(sa_column=column(str, nullable=True))
    counterparty_account: str | None = Field(sa_column=column(str, nullable=True))
    bank_transaction_code: str | None = Field(sa_column=column(str, nullable=True))
    group_key: str | None = Field(sa_column=column(str, nullable=True))
    mandate_id: str | None = Field(sa_column=column(str, nullable=True))
    instruction_id: str | None = Field(sa_column=column(str, nullable=True))
    transaction_id: str | None = Field(sa_column=column(str, nullable=True))
    uetr: str | None = Field(sa_column=column(str, nullable=True))
    purpose_code: str | None = Field(sa_column=column(str, nullable=True))
    return_reason: str | None = Field(sa_column=column(str, nullable=True))
    net_currency: str | None = Field(sa_column=column(str, nullable=True))
    original_currency: str | None = Field(sa_column=column(str, nullable=True))
    exchange_rate: str | None = Field(sa_column=column(str, nullable=True))
    charges: list[dict[str, Any]] | None = Field(sa_column=column(dict, nullable=True))
    batch: dict[str, Any] | None = Field(sa_column=column(dict, nullable=True))
    labels: dict[str, Any] = Field(sa_column=column(dict, default="'{}'", name="metadata"))
    """The interface's ``metadata``; SQLAlchemy keeps that name for itself."""
    duplicate: bool = Field(sa_column=column(bool, default="false"))
    """Its content is stored under another identity as well, and that one is the original. Open or not."""
    single: bool = Field(sa_column=column(bool, default="false"))
    """Somebody has said that it is no duplicate, whatever else has its content."""
    late: bool = Field(sa_column=column(bool, default="false"))
    """It was stored as booked when its day was locked."""
    ultimate_counterparty_name: str | None = Field(sa_column=column(str, nullable=True))
    """On whose behalf the counterparty pays, or is paid: ISO 20022's ultimate debtor or ultimate creditor."""


class IncomingOpen(TenantTable, table=True):
    """One row for each incoming transaction with an open amount: what a matching run reads, and no more."""

    __tablename__ = "incoming_open"
    __table_args__ = (
        Index("incoming_open_reversal", "transaction_id", postgresql_where=text("reversal")),
        Index("incoming_open_stale", "transaction_id", postgresql_where=text(f"keys_version < {KEYS_VERSION}")),
    )

    transaction_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    open_minor: int = Field(sa_column=column(int))
    total_minor: int = Field(sa_column=column(int))
    end_to_end_key: int | None = Field(sa_column=column(int, nullable=True))
    name_key: int | None = Field(sa_column=column(int, nullable=True))
    account_key: int | None = Field(sa_column=column(int, nullable=True))
    own_account_key: int | None = Field(sa_column=column(int, nullable=True))
    group_key: int | None = Field(sa_column=column(int, nullable=True))
    tie_key: int = Field(sa_column=column(int))
    booking_day: int = Field(sa_column=integer())
    value_day: int | None = Field(sa_column=integer(nullable=True))
    revision: int = Field(sa_column=integer(default="1"))
    direction: int = Field(sa_column=column(int, small=True))
    pending: bool = Field(sa_column=column(bool, default="false"))
    reversal: bool = Field(sa_column=column(bool, default="false"))
    duplicate: bool = Field(sa_column=column(bool, default="false"))
    """That of the transaction."""
    currency: str = Field(sa_column=column(str))
    reference_keys: list[int] = Field(sa_column=array(int))
    """Keys of the references that the line quotes, the structured one first."""
    quoted_digits: list[int] | None = Field(sa_column=array(int, nullable=True))
    """The digits of the words that the line quotes, as numbers with a 1 before them."""
    ultimate_name_key: int | None = Field(sa_column=column(int, nullable=True))
    text_name_keys: list[int] | None = Field(sa_column=array(int, nullable=True))
    """Of a line without a counterparty's name, the keys of what may be one in its text."""
    series_digits: list[int] | None = Field(sa_column=array(int, nullable=True))
    """Of a text that quotes several, the digits of each in full, as numbers with a 1 before them."""
    keys_version: int = Field(sa_column=column(int, small=True, default="0"))
    """As that of ``ExpectedOpen``."""
