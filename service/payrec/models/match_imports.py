"""Decisions that were made before, elsewhere, on the wire: records that name transactions by ids of their own."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from payrec.constants import AMOUNT_MINOR_MAX
from payrec.constants.match_imports import IMPORTED_LEGS_MAX
from payrec.models.common import (
    BoundedMinor,
    Currency,
    Date,
    DecimalAmount,
    Direction,
    Instant,
    OwnAccount,
    Reason,
    Request,
    Text,
)
from payrec.models.fx_rates import RateText
from payrec.models.matches import AdjustmentType

_TAKEN_PREFIXES: Final = ("engine:", "user:", "api_key:")
"""How those are called who decide here."""


def _elsewhere(value: str) -> str:
    if value.startswith(_TAKEN_PREFIXES):
        raise PydanticCustomError("decider_of_here", "must not be called as somebody who decides here")
    return value


Decider = Annotated[Text, AfterValidator(_elsewhere)]
"""Who decided, as the other system calls him; not as somebody here is called."""


class MatchImportOptions(BaseModel):
    """What the uploader knows about a file of decisions."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", hide_input_in_errors=True)

    format: Literal["auto", "csv", "json", "jsonl"] = "auto"
    mode: Literal["all_or_nothing", "valid_rows"] = "valid_rows"


class ImportedLeg(Request):
    """An expected and an incoming transaction that settle each other, and how much.

    The incoming one is named by its externalId, else by what its bank says of it: then exactly one line is that.
    """

    expected_external_id: Text | None = None
    incoming_external_id: Text | None = None
    incoming_account: OwnAccount | None = None
    incoming_booking_date: Date | None = None
    incoming_amount_minor: BoundedMinor | None = None
    """The line's whole amount, where it is another one than is taken of it."""
    incoming_direction: Direction | None = None
    incoming_end_to_end_id: Text | None = None
    incoming_bank_reference: Text | None = None
    amount_minor: Annotated[int, Field(ge=1, le=AMOUNT_MINOR_MAX)] | None = None
    """Taken from the incoming transaction, in its currency."""
    amount: DecimalAmount | None = None
    """The same as a decimal string, which needs the currency."""
    currency: Currency | None = None
    """Of the incoming transaction."""
    settled_minor: Annotated[int, Field(ge=1, le=AMOUNT_MINOR_MAX)] | None = None
    """Settled on the expected one: the same, or what the rate makes of it."""


class ImportedAdjustment(Request):
    """What the decision settled of one of its transactions without money."""

    type: AdjustmentType
    of: Literal["expected", "incoming"] = "expected"
    leg: Annotated[int, Field(ge=0, lt=IMPORTED_LEGS_MAX)] = 0
    """The place of the leg whose transaction it is, from 0."""
    amount_minor: Annotated[int, Field(ge=-AMOUNT_MINOR_MAX, le=AMOUNT_MINOR_MAX)]
    """Signed: + counts as settled on the transaction."""
    currency: Currency
    rate: RateText | None = None
    """Of an exchange."""

    @model_validator(mode="after")
    def _is_whole(self) -> ImportedAdjustment:
        if (self.rate is not None) != (self.type == "fx"):
            raise PydanticCustomError("rate_of_fx", "an exchange has a rate, and nothing else has one")
        if self.amount_minor == 0 and self.type != "fx":
            raise PydanticCustomError("adjustment_empty", "must settle something")
        return self


class ImportedDecision(ImportedLeg):
    """One decision: a leg beside what is said of the decision, or `legs`."""

    legs: Annotated[list[ImportedLeg], Field(min_length=1, max_length=IMPORTED_LEGS_MAX)] | None = None
    adjustments: Annotated[list[ImportedAdjustment], Field(max_length=IMPORTED_LEGS_MAX, default_factory=list)]
    decided_at: Instant
    decided_by: Decider
    reviewed: bool = False
    """A person has decided it, or looked at it: matching learns from it."""
    reason: Reason | None = None

    @model_validator(mode="after")
    def _has_legs(self) -> ImportedDecision:
        if self.legs is not None and any(getattr(self, name) is not None for name in _OF_LEG):
            raise PydanticCustomError("legs_once", "says a leg beside legs")
        return self

    def all_legs(self) -> list[ImportedLeg]:
        """Return the legs, also where there is one that is not among legs."""
        return [self] if self.legs is None else self.legs


_OF_LEG: Final = tuple(ImportedLeg.model_fields)

RECORD_FIELDS: Final = frozenset(
    field.alias or name for name, field in ImportedDecision.model_fields.items() if name not in {"legs", "adjustments"}
)
"""What a table may have as headings."""

RECORD_INTEGERS: Final = frozenset(name for name in RECORD_FIELDS if name.endswith("Minor"))
"""Those of them that are numbers."""

RECORD_FLAGS: Final[dict[str, Any]] = {"true": True, "false": False}
"""How a table says whether a decision was reviewed."""
