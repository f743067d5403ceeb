"""What every resource on the wire shares: camelCase, no unknown fields, money given one way and answered both ways."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Annotated, Any, ClassVar, Final, Generic, Literal, TypeVar
from uuid import UUID

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from payrec.constants import (
    AMOUNT_MINOR_MAX,
    CURSOR_LENGTH_MAX,
    METADATA_ENTRIES_MAX,
    METADATA_KEY_LENGTH_MAX,
    METADATA_VALUE_LENGTH_MAX,
    PAGE_SIZE_DEFAULT,
    PAGE_SIZE_MAX,
    REASON_LENGTH_MAX,
    REMITTANCE_LENGTH_MAX,
    TEXT_LENGTH_MAX,
)
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.money import MoneyError, parse_decimal
from payrec.domain.references import account_identifier

T = TypeVar("T")

SEARCH_LENGTH_MAX: Final = 200
"""Characters of a list's search text."""

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_INSTANT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})", re.ASCII
)


def _printable(value: str) -> str:
    if _CONTROL.search(value):
        raise PydanticCustomError("text_control_characters", "must not have control characters")
    return value


def _known_currency(value: str) -> str:
    if value not in MINOR_UNITS:
        raise PydanticCustomError("unknown_currency", "must be an ISO 4217 currency code")
    return value


def _parse_date(value: Any) -> Any:
    if isinstance(value, date):
        return value
    try:
        if isinstance(value, str) and _DATE.fullmatch(value):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise PydanticCustomError("date_malformed", "must be a date as YYYY-MM-DD")


def _parse_instant(value: Any) -> Any:
    if isinstance(value, datetime):
        return value
    try:
        if isinstance(value, str) and _INSTANT.fullmatch(value):
            # In UTC, because a local time near the calendar's end may be an instant beyond it.
            return datetime.fromisoformat(value.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise PydanticCustomError("timestamp_malformed", "must be an RFC 3339 timestamp with its offset")


Text = Annotated[str, StringConstraints(min_length=1, max_length=TEXT_LENGTH_MAX), AfterValidator(_printable)]
"""A name, a reference, somebody else's identifier."""

OwnAccount = Annotated[Text, AfterValidator(account_identifier)]
"""An own account, called as lines have it however it was typed."""

SearchText = Annotated[str, StringConstraints(min_length=1, max_length=SEARCH_LENGTH_MAX), AfterValidator(_printable)]
"""What a list is searched for."""

Cursor = Annotated[str, StringConstraints(max_length=CURSOR_LENGTH_MAX)]
"""Where a page goes on, as the page before has said it."""

Remittance = Annotated[str, StringConstraints(max_length=REMITTANCE_LENGTH_MAX), AfterValidator(_printable)]
"""A remittance text; may have line breaks."""

Reason = Annotated[str, StringConstraints(max_length=REASON_LENGTH_MAX), AfterValidator(_printable)]
"""Why somebody decided, in their words."""

GivenReason = Annotated[Reason, StringConstraints(min_length=1)]
"""The same where it may not be left out."""

GivenId = Annotated[UUID, Field(strict=False)]
"""The id of something else in a body."""

Currency = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Z]{3}$"),
    AfterValidator(_known_currency),
    WithJsonSchema({"type": "string", "enum": sorted(MINOR_UNITS), "description": "ISO 4217 code"}),
]
Date = Annotated[date, BeforeValidator(_parse_date), WithJsonSchema({"type": "string", "format": "date"})]
Instant = Annotated[
    datetime, BeforeValidator(_parse_instant), WithJsonSchema({"type": "string", "format": "date-time"})
]
Direction = Literal["credit", "debit"]
Environment = Literal["development", "staging", "production", "test"]
MetadataKey = Annotated[
    str, StringConstraints(min_length=1, max_length=METADATA_KEY_LENGTH_MAX), AfterValidator(_printable)
]
MetadataValue = Annotated[str, StringConstraints(max_length=METADATA_VALUE_LENGTH_MAX), AfterValidator(_printable)]
Metadata = Annotated[dict[MetadataKey, MetadataValue], Field(max_length=METADATA_ENTRIES_MAX)]
AmountMinor = Annotated[int, Field(ge=0, description="Integer, in minor units of the currency (ISO 4217).")]
BoundedMinor = Annotated[
    int, Field(ge=0, le=AMOUNT_MINOR_MAX, description="Integer, in minor units of the currency (ISO 4217).")
]
"""An amount whose bounds are a matter of the schema."""
DecimalAmount = Annotated[
    str,
    StringConstraints(max_length=32),
    Field(description='Decimal string such as "123.45".', json_schema_extra={"pattern": r"^[0-9]+(\.[0-9]+)?$"}),
]


class Request(BaseModel):
    """A body: strict types, no unknown members."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", strict=True, hide_input_in_errors=True)


class NothingGiven(Request):
    """The body of what needs none: a field would be passed over as if it had been heeded."""


class Public(BaseModel):
    """An answer, made from a row of the database."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")


class Resource(Public):
    """What every resource has."""

    collection: ClassVar[str]
    """Path of the collection that it is in."""

    id: UUID
    created_at: datetime
    updated_at: datetime
    version: int

    @property
    def location(self) -> str:
        """Path of the resource."""
        return f"{self.collection}/{self.id}"

    @property
    def headers(self) -> dict[str, str]:
        """Location and ETag."""
        return {"Location": self.location, "ETag": f'"{self.version}"'}


def minor_of(amount_minor: int | None, amount: str | None, currency: str, *, least: int, name: str = "amount") -> int:
    """Return an amount that is given either in minor units or as a decimal string; ``name`` is the latter's field.

    Raises
    ------
    MoneyError
        ``amount_once``, ``amount_out_of_range``, or as ``parse_decimal``.
    """
    if (amount is None) == (amount_minor is None):
        raise MoneyError("amount_once", f"exactly one of {name}Minor and {name} is required")
    value = parse_decimal(amount, currency) if amount is not None else amount_minor
    if value is None or not least <= value <= AMOUNT_MINOR_MAX:
        raise MoneyError("amount_out_of_range", f"must be {least} to {AMOUNT_MINOR_MAX} minor units")
    return value


class MoneyGiven(Request):
    """Exactly one of ``amountMinor`` and ``amount``, and the currency."""

    # The same as oneOf, which generators of clients take for two bodies of which they know nothing.
    model_config = ConfigDict(
        json_schema_extra={
            "if": {"required": ["amount"]},
            "then": {"not": {"required": ["amountMinor"]}},
            "else": {"required": ["amountMinor"]},
        }
    )

    amount_minor: AmountMinor | None = None
    amount: DecimalAmount | None = None
    currency: Currency

    def minor(self, *, least: int) -> int:
        """Return the amount in minor units.

        Raises
        ------
        MoneyError
            As ``minor_of``.
        """
        return minor_of(self.amount_minor, self.amount, self.currency, least=least)


class Page(Public, Generic[T]):
    """One page of a list."""

    data: list[T]
    has_more: bool
    next_cursor: str | None


class BulkResult(Public):
    """What became of one item of a bulk request."""

    index: int
    """Place of the item in the request, from 0."""
    status: int
    """The HTTP status that a request of the item alone would have got."""
    id: UUID | None = Field(default=None, exclude_if=lambda v: v is None)
    problem: dict[str, Any] | None = Field(default=None, exclude_if=lambda v: v is None)


class BulkResults(Public):
    """What became of the items of a bulk request, in its order."""

    results: list[BulkResult]


class ListQuery(BaseModel):
    """The parameters that every list has. Unknown ones are refused: a typo must not widen a result."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", hide_input_in_errors=True)

    limit: int = Field(default=PAGE_SIZE_DEFAULT, ge=1, le=PAGE_SIZE_MAX)
    cursor: Cursor | None = None
    sort: str | None = None
    created_from: Instant | None = None
    created_to: Instant | None = None

    def filters(self) -> dict[str, Any]:
        """Return what narrows the list: all but limit and cursor, in a stable form."""
        return self.model_dump(mode="json", exclude={"limit", "cursor"}, exclude_none=True)


class AsOfQuery(BaseModel):
    """The parameter of what has a history. None is the present."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", hide_input_in_errors=True)

    as_of: Instant | None = None


class FieldProblem(Public):
    """One field that is wrong."""

    pointer: str
    code: str
    detail: str


class Problem(Public):
    """RFC 9457 problem details."""

    model_config = ConfigDict(alias_generator=to_camel, extra="allow")

    type: str
    title: str
    status: int
    code: str
    detail: str
    request_id: str
    errors: list[FieldProblem] | None = None
