"""Decisions about matches on the wire: one by one, many at once, and matches that a person states."""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

from pydantic import Field, StringConstraints, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from payrec.constants import AMOUNT_MINOR_MAX, BULK_ITEMS_MAX
from payrec.constants.matches import MATCH_LEGS_MAX
from payrec.models.common import Currency, Date, GivenId, GivenReason, Reason, Request
from payrec.models.fx_rates import RateText
from payrec.models.matches import AdjustmentType

PlainId = Annotated[str, StringConstraints(max_length=36), WithJsonSchema({"type": "string", "format": "uuid"})]
"""One that cannot be an id is an unknown one, as in a path."""
Taken = Annotated[int, Field(ge=1, le=AMOUNT_MINOR_MAX, description="Integer, in minor units of the currency.")]


class MatchAccept(Request):
    """An optional reason, and the day from which it counts."""

    reason: Reason | None = None
    effective_on: Date | None = None
    """The last booking date of its lines (of items alone the day of the decision), or the first open day where that is
    locked, unless a later one is given."""


class MatchApprove(Request):
    """An optional reason, in the place of the one that was given with the decision."""

    reason: Reason | None = None


class MatchReject(Request):
    """An optional reason."""

    reason: Reason | None = None


class MatchReverse(Request):
    """Why an accepted match is taken back."""

    reason: GivenReason


class MatchesAccept(Request):
    """Proposals to accept, each by itself."""

    ids: Annotated[list[PlainId], Field(min_length=1, max_length=BULK_ITEMS_MAX)]
    reason: Reason | None = None
    effective_on: Date | None = None
    """As that of one; for all of them."""


class MatchesReject(Request):
    """Proposals to reject, each by itself."""

    ids: Annotated[list[PlainId], Field(min_length=1, max_length=BULK_ITEMS_MAX)]
    reason: Reason | None = None


class LegGiven(Request):
    """Two transactions that settle each other, and how much."""

    expected_transaction_id: GivenId | None = None
    contra_expected_transaction_id: GivenId | None = None
    incoming_transaction_id: GivenId | None = None
    contra_incoming_transaction_id: GivenId | None = None
    amount_minor: Taken
    """Taken from the incoming one, in its currency; of two expected ones from the contra one."""
    settled_minor: Taken | None = None
    """Settled on the expected one, or on the contra incoming one: the same amount, or what the rate makes of it."""
    settled_currency: Currency | None = None

    @model_validator(mode="after")
    def _of_two(self) -> LegGiven:
        if self.ends not in _PAIRS:
            raise PydanticCustomError(
                "leg_joins_two",
                "must name an expected and an incoming transaction, or one of them and its contra transaction",
            )
        if len({self.settled_id, self.taken_id}) == 1:
            raise PydanticCustomError("leg_of_one", "must name two transactions")
        return self

    @property
    def ends(self) -> tuple[bool, bool, bool, bool]:
        """Which of the four ids are given."""
        return (
            self.expected_transaction_id is not None,
            self.contra_expected_transaction_id is not None,
            self.incoming_transaction_id is not None,
            self.contra_incoming_transaction_id is not None,
        )

    @property
    def settled_id(self) -> UUID | None:
        """The transaction of which ``settledMinor`` is taken."""
        return self.expected_transaction_id or self.contra_incoming_transaction_id

    @property
    def taken_id(self) -> UUID | None:
        """The transaction of which ``amountMinor`` is taken."""
        return self.incoming_transaction_id or self.contra_expected_transaction_id


_PAIRS: Final = frozenset({(True, False, True, False), (True, True, False, False), (False, False, True, True)})


class AdjustmentGiven(Request):
    """What the match settles of one of its transactions without money."""

    type: AdjustmentType
    expected_transaction_id: GivenId | None = None
    incoming_transaction_id: GivenId | None = None
    amount_minor: Annotated[
        int,
        Field(ge=-AMOUNT_MINOR_MAX, le=AMOUNT_MINOR_MAX, description="Signed: + counts as settled on the transaction."),
    ]
    currency: Currency
    rate: RateText | None = None
    """Of an exchange: units of this currency for one of the other transaction's."""

    @model_validator(mode="after")
    def _is_whole(self) -> AdjustmentGiven:
        if (self.expected_transaction_id is None) == (self.incoming_transaction_id is None):
            raise PydanticCustomError("adjustment_of_one", "must name one transaction, expected or incoming")
        if (self.rate is not None) != (self.type == "fx"):
            raise PydanticCustomError("rate_of_fx", "an exchange has a rate, and nothing else has one")
        if self.amount_minor == 0 and self.type != "fx":
            raise PydanticCustomError("adjustment_empty", "must settle something")
        return self


class MatchCreate(Request):
    """A match that a person states: accepted at once."""

    legs: Annotated[list[LegGiven], Field(min_length=1, max_length=MATCH_LEGS_MAX)]
    adjustments: Annotated[list[AdjustmentGiven], Field(max_length=MATCH_LEGS_MAX, default_factory=list)]
    reason: GivenReason
    effective_on: Date | None = None
    """As that of an acceptance."""
