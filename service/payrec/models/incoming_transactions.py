"""Incoming transactions on the wire."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, ClassVar, Final, Literal
from uuid import UUID

from pydantic import Field, StringConstraints

from payrec.constants import AMOUNT_MINOR_MAX, BULK_ITEMS_MAX
from payrec.domain.returns import ReturnKind
from payrec.models.common import (
    AsOfQuery,
    BoundedMinor,
    Currency,
    Date,
    DecimalAmount,
    Direction,
    GivenReason,
    ListQuery,
    Metadata,
    MoneyGiven,
    OwnAccount,
    Public,
    Reason,
    Remittance,
    Request,
    Resource,
    SearchText,
    Text,
)

IncomingStatus = Literal[
    "pending", "unmatched", "partially_matched", "matched", "ignored", "classified", "reversed", "linked"
]


class ChargeGiven(Request):
    """What somebody kept of the payment."""

    amount_minor: BoundedMinor
    currency: Currency
    direction: Direction


CATEGORY_LENGTH_MAX: Final = 64
"""Characters of what a line is classified as."""

POSTING_CODE_LENGTH_MAX: Final = 64
"""Characters of an account or code of the books."""

Category = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$", max_length=CATEGORY_LENGTH_MAX)]
"""What a line that nobody expected is: ``fee``, ``interest``, ``payroll``, ``tax``, or a word of the tenant's own."""

PostingCode = Annotated[
    str, StringConstraints(pattern=r"^[!-~]([ -~]*[!-~])?$", min_length=1, max_length=POSTING_CODE_LENGTH_MAX)
]
"""An account or code of the books, in printable ASCII."""


class IncomingTransactionCreate(MoneyGiven):
    """A booked (or ``pending``) movement on an account."""

    direction: Direction
    booking_date: Date
    status: Literal["pending", "unmatched"] = "unmatched"
    external_id: Text | None = None
    value_date: Date | None = None
    account: OwnAccount | None = None
    remittance: Remittance | None = None
    structured_reference: Text | None = None
    end_to_end_id: Text | None = None
    bank_reference: Text | None = None
    counterparty_name: Text | None = None
    counterparty_account: Text | None = None
    ultimate_counterparty_name: Text | None = None
    """On whose behalf the counterparty pays, or is paid (ISO 20022 ``UltmtDbtr``, ``UltmtCdtr``)."""
    bank_transaction_code: Text | None = None
    group_key: Text | None = None
    reversal: bool = False
    mandate_id: Text | None = None
    instruction_id: Text | None = None
    transaction_id: Text | None = None
    uetr: Text | None = None
    purpose_code: Text | None = None
    return_reason: Text | None = None
    charges: Annotated[list[ChargeGiven], Field(max_length=20)] = Field(default_factory=list)
    metadata: Metadata = Field(default_factory=dict)


class MoneyPublic(Public):
    """An amount with its direction."""

    amount_minor: int
    currency: str
    direction: Direction | None = None


class ClassificationPublic(Public):
    """What a line that nobody expected is."""

    category: str
    posting_code: str | None = Field(default=None, exclude_if=lambda v: v is None)


class ReversalOf(Public):
    """An amount that a return takes back of a payment, and what it reopens."""

    incoming_transaction_id: UUID
    expected_transaction_id: UUID | None
    amount_minor: int


class IncomingTransactionPublic(Resource):
    """An incoming transaction and what became of it."""

    collection: ClassVar[str] = "/incoming-transactions"

    external_id: str | None
    data_source_id: UUID | None
    import_id: UUID | None
    account: str | None
    direction: Direction
    amount_minor: int
    amount: str
    currency: str
    booking_date: date
    value_date: date | None
    status: IncomingStatus
    remittance: str | None
    structured_reference: str | None
    end_to_end_id: str | None
    bank_reference: str | None
    counterparty_name: str | None
    counterparty_account: str | None
    ultimate_counterparty_name: str | None
    bank_transaction_code: str | None
    group_key: str | None
    reversal: bool
    mandate_id: str | None
    instruction_id: str | None
    transaction_id: str | None
    uetr: str | None
    purpose_code: str | None
    return_reason: str | None
    return_kind: ReturnKind | None
    """What kind of return it is by its codes; null for a payment, and where only a flag says that it is one."""
    reversal_of: list[ReversalOf]
    charges: list[MoneyPublic]
    net: MoneyPublic | None
    original: MoneyPublic | None
    exchange_rate: str | None
    batch: dict[str, Any] | None
    metadata: dict[str, str]
    matched_amount_minor: int
    open_amount_minor: int
    reason_code: str | None
    ignored_reason: str | None
    classification: ClassificationPublic | None = Field(default=None, exclude_if=lambda v: v is None)
    effective_on: date | None = Field(default=None, exclude_if=lambda v: v is None)
    """The day from which it is ignored or classified."""
    late: bool
    """It came when its booking date was locked: its period's statement does not have it."""


class ReversalLinkCreate(Request):
    """The payment that a return takes back, and how much of it."""

    incoming_transaction_id: Annotated[UUID, Field(strict=False)]
    expected_transaction_id: Annotated[UUID, Field(strict=False)] | None = None
    """Of several that the payment settles, the one whose amount is open again."""
    amount_minor: Annotated[int, Field(ge=1, le=AMOUNT_MINOR_MAX)] | None = None
    """All that is open of the return, unless less is given."""


class IncomingTransactionIgnore(Request):
    """Why nothing is to be done about a line, and the day from which that counts."""

    reason: GivenReason
    effective_on: Date | None = None
    """Its booking date, or the first open day where that is locked, unless a later one is given."""


class IncomingTransactionRestore(Request):
    """Why what was decided about a line is taken back."""

    reason: Reason | None = None


class IncomingTransactionClassify(Request):
    """What a line that nobody expected is."""

    category: Category
    posting_code: PostingCode | None = None
    """Where the books have it, if not where they have all of its category."""
    reason: Reason | None = None
    effective_on: Date | None = None
    """As that of an ignored one."""


class IncomingTransactionsCreate(Request):
    """Movements to store; each one that is right is stored, whatever is wrong with others."""

    items: Annotated[
        list[dict[str, Any]],
        Field(
            min_length=1,
            max_length=BULK_ITEMS_MAX,
            json_schema_extra={"items": {"$ref": "#/components/schemas/IncomingTransactionCreate"}},
        ),
    ]


class IncomingTransactionQuery(ListQuery, AsOfQuery):
    """Filters of the incoming transactions; amounts need the currency."""

    sort: Literal["createdAt", "-createdAt", "bookingDate", "-bookingDate", "amountMinor", "-amountMinor"] = (
        "-createdAt"
    )
    status: IncomingStatus | None = None
    direction: Direction | None = None
    currency: Currency | None = None
    amount_min: DecimalAmount | None = None
    amount_max: DecimalAmount | None = None
    booking_from: Date | None = None
    booking_to: Date | None = None
    cut_off: Date | None = None
    """The last booking date."""
    value_from: Date | None = None
    value_to: Date | None = None
    data_source_id: UUID | None = None
    import_id: UUID | None = None
    account: OwnAccount | None = None
    reason_code: Text | None = None
    counterparty: Text | None = None
    external_id: Text | None = None
    end_to_end_id: Text | None = None
    group_key: Text | None = None
    late: bool | None = None
    q: SearchText | None = None
