"""Expected transactions on the wire."""

from __future__ import annotations

from datetime import date
from typing import ClassVar, Literal

from pydantic import Field

from payrec.models.common import (
    BoundedMinor,
    Currency,
    Date,
    DecimalAmount,
    Direction,
    ListQuery,
    Metadata,
    MoneyGiven,
    Resource,
    SearchText,
    Text,
)

ExpectedStatus = Literal["open", "partially_matched", "matched", "void"]


class ExpectedTransactionCreate(MoneyGiven):
    """Something that the company expects to be paid (``credit``) or to pay (``debit``)."""

    direction: Direction
    external_id: Text | None = None
    min_amount_minor: BoundedMinor | None = None
    max_amount_minor: BoundedMinor | None = None
    due_date: Date | None = None
    expected_from: Date | None = None
    expected_to: Date | None = None
    reference: Text | None = None
    end_to_end_id: Text | None = None
    counterparty_name: Text | None = None
    counterparty_account: Text | None = None
    account: Text | None = None
    group_key: Text | None = None
    description: Text | None = None
    metadata: Metadata = Field(default_factory=dict)


class ExpectedTransactionPublic(Resource):
    """An expected transaction and what became of it."""

    collection: ClassVar[str] = "/expected-transactions"

    external_id: str | None
    direction: Direction
    amount_minor: int
    amount: str
    currency: str
    min_amount_minor: int | None
    max_amount_minor: int | None
    due_date: date | None
    expected_from: date | None
    expected_to: date | None
    reference: str | None
    end_to_end_id: str | None
    counterparty_name: str | None
    counterparty_account: str | None
    account: str | None
    group_key: str | None
    description: str | None
    metadata: dict[str, str]
    status: ExpectedStatus
    overdue: bool
    reason_code: str | None
    settled_before_minor: int
    matched_amount_minor: int
    open_amount_minor: int


class ExpectedTransactionQuery(ListQuery):
    """Filters of the expected transactions; amounts need the currency."""

    sort: Literal["createdAt", "-createdAt", "dueDate", "-dueDate", "amountMinor", "-amountMinor"] = "-createdAt"
    status: ExpectedStatus | None = None
    overdue: bool | None = None
    direction: Direction | None = None
    currency: Currency | None = None
    amount_min: DecimalAmount | None = None
    amount_max: DecimalAmount | None = None
    due_from: Date | None = None
    due_to: Date | None = None
    reference: Text | None = None
    external_id: Text | None = None
    counterparty: Text | None = None
    group_key: Text | None = None
    q: SearchText | None = None
