"""Expected transactions on the wire."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from payrec.constants import AMOUNT_MINOR_MAX, BULK_ITEMS_MAX
from payrec.constants.remittance import PAYMENT_TERMS_MAX
from payrec.domain.issued_references import ReferenceKind
from payrec.models.common import (
    AmountMinor,
    AsOfQuery,
    BoundedMinor,
    Currency,
    Date,
    DecimalAmount,
    Direction,
    GivenReason,
    ListQuery,
    Metadata,
    MetadataKey,
    MetadataValue,
    MoneyGiven,
    OwnAccount,
    Public,
    Request,
    Resource,
    SearchText,
    Text,
)

ExpectedStatus = Literal["open", "partially_matched", "matched", "void"]


class PaymentTerm(Request):
    """An early payment: ``amountMinor`` settles the item whole, if it is booked by ``until``."""

    amount_minor: Annotated[int, Field(ge=1, le=AMOUNT_MINOR_MAX)]
    until: Date


Terms = Annotated[list[PaymentTerm], Field(max_length=PAYMENT_TERMS_MAX)]


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
    account: OwnAccount | None = None
    group_key: Text | None = None
    description: Text | None = None
    metadata: Metadata = Field(default_factory=dict)
    open_amount_minor: Annotated[int, Field(ge=1, le=AMOUNT_MINOR_MAX)] | None = None
    """What of it is still open where something was settled before; all of it unless given."""
    issue_reference: ReferenceKind | None = None
    """Which kind of reference to make for it, in the place of one that is given."""
    terms: Terms = Field(default_factory=list)
    """What settles it before it is due; the difference is a ``discount``."""


class ExpectedTransactionsBulk(Request):
    """Expected transactions to create; each one that is right is, whatever is wrong with others."""

    items: Annotated[
        list[dict[str, Any]],
        Field(
            min_length=1,
            max_length=BULK_ITEMS_MAX,
            json_schema_extra={"items": {"$ref": "#/components/schemas/ExpectedTransactionCreate"}},
        ),
    ]


class ExpectedTransactionPatch(Request):
    """A merge patch (RFC 7396): what is left out stays, null removes what need not be there."""

    direction: Direction | None = None
    amount_minor: AmountMinor | None = None
    amount: DecimalAmount | None = None
    currency: Currency | None = None
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
    account: OwnAccount | None = None
    group_key: Text | None = None
    description: Text | None = None
    metadata: dict[MetadataKey, MetadataValue | None] | None = None
    """Merged into what there is: null removes a member, or all of them."""
    terms: Terms | None = None
    """In the place of those that there are; null removes all of them."""

    @field_validator("direction", "amount_minor", "amount", "currency")
    @classmethod
    def _kept(cls, value: object) -> object:
        if value is None:
            raise PydanticCustomError("not_removable", "cannot be removed")
        return value


class ExpectedTransactionVoid(Request):
    """Why something is not expected any more."""

    reason: GivenReason


class RecordFileOptions(BaseModel):
    """What is said of a file of the interface's own records: query parameters, or fields of a form."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", hide_input_in_errors=True)

    format: Literal["auto", "csv", "json", "jsonl"] = "auto"
    account: OwnAccount | None = None
    currency: Currency | None = None
    direction: Direction | None = None


class ExpectedUploadOptions(RecordFileOptions):
    """What the uploader knows about a file of expected transactions."""

    mode: Literal["all_or_nothing", "valid_rows"] = "valid_rows"


class PaymentTermPublic(Public):
    """An amount that settles the item whole, and the last day on which it does."""

    amount_minor: int
    until: date


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
    void_reason: str | None
    terms: list[PaymentTermPublic]


class ExpectedTransactionQuery(ListQuery, AsOfQuery):
    """Filters of the expected transactions; amounts need the currency."""

    sort: Literal["createdAt", "-createdAt", "dueDate", "-dueDate", "amountMinor", "-amountMinor"] = "-createdAt"
    status: ExpectedStatus | None = None
    overdue: bool | None = None
    reason_code: Text | None = None
    direction: Direction | None = None
    currency: Currency | None = None
    amount_min: DecimalAmount | None = None
    amount_max: DecimalAmount | None = None
    due_from: Date | None = None
    due_to: Date | None = None
    cut_off: Date | None = None
    """The last day on which it was stored, of the tenant: it has no booking date."""
    account: OwnAccount | None = None
    reference: Text | None = None
    external_id: Text | None = None
    counterparty: Text | None = None
    group_key: Text | None = None
    q: SearchText | None = None
