"""The reconciliation statement on the wire: what the bank says, and what explains it."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, ClassVar, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from payrec.models.common import Date, Instant, ListQuery, Public

ReconciliationPart = Literal["allocated", "returned", "classified", "ignored", "inTransit", "open", "pending"]
"""What a share of a line is, at the cut-off."""


class ReconciliationQuery(BaseModel):
    """Of which day, and as it was known when. Unknown parameters are refused."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", hide_input_in_errors=True)

    cut_off: Date | None = None
    """The last booking date that counts; today where it is left out."""
    as_of: Instant | None = None


class ReconciliationLineQuery(ListQuery):
    """Which lines of a statement."""

    sort: Literal["bookingDate"] = "bookingDate"
    part: ReconciliationPart = "open"
    cut_off: Date | None = None
    as_of: Instant | None = None


class StatementPart(Public):
    """The shares of lines that are of one part."""

    count: int
    """Lines that have such a share; a line may have several."""
    sum_minor: int
    """Signed: what moved in, less what moved out."""
    sum: str
    url: str
    """Path and query of the lines."""


class ReconciliationStatement(Public):
    """An account at the end of a day: what it began with, and what became of every booked line since."""

    account_id: UUID
    identifier: str
    currency: str
    cut_off: date
    locked_at: datetime | None
    """Since when the cut-off has been in a locked period; then all figures are as they were known at that instant."""
    opening_on: date | None
    opening_balance_minor: int
    """0 where none is known."""
    opening_balance: str
    allocated: StatementPart
    """By matches that are effective at the cut-off."""
    returned: StatementPart
    """Taken back by a return, or itself what a return took back."""
    classified: StatementPart
    ignored: StatementPart
    in_transit: StatementPart
    """Of transfers whose other side is booked after the cut-off."""
    open: StatementPart
    balance_minor: int
    """The opening balance and all parts above."""
    balance: str
    pending: StatementPart
    """Announced and not booked: in no balance."""
    statement_balance_minor: int | None
    """What the last statement until the cut-off closed with."""
    statement_balance: str | None
    statement_balance_on: date | None
    difference_minor: int | None
    """``statementBalanceMinor`` less ``balanceMinor``: what no line explains."""
    difference: str | None
    book_balance_minor: int | None
    """What the books say of the day of the cut-off."""
    book_balance: str | None
    book_difference_minor: int | None
    """``bookBalanceMinor`` less ``balanceMinor``."""
    book_difference: str | None


class ReconciliationLine(Public):
    """A line of a statement, and what of it is of one part."""

    collection: ClassVar[str] = "/incoming-transactions"

    incoming_transaction_id: UUID
    booking_date: date
    part: ReconciliationPart
    share_minor: Annotated[int, Field(description="Signed, in minor units of the account's currency.")]
    share: str
    moved_minor: Annotated[int, Field(description="What all of the line moved.")]
    moved: str
