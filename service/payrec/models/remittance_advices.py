"""Remittance advices on the wire: which items a payment is for, as its payer says."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from payrec.constants import AMOUNT_MINOR_MAX
from payrec.constants.remittance import ADVICE_LINES_MAX
from payrec.models.common import BoundedMinor, Currency, ListQuery, Public, Request, Resource, Text

PaidMinor = Annotated[
    int, Field(ge=1, le=AMOUNT_MINOR_MAX, description="Integer, in minor units of the currency (ISO 4217).")
]


class RemittanceLine(Request):
    """One item: what the payment has for it, and what the payer holds back of it."""

    reference: Text
    """The item's reference, or its end-to-end id."""
    amount_minor: PaidMinor
    deduction_minor: BoundedMinor = 0
    """Beside the amount: what is paid and what is held back are together at most what is open."""
    reason: Text | None = None


class RemittanceAdviceCreate(Request):
    """What one payment is for. It is known by its reference, else by its payer, and by its amount."""

    payment_reference: Text | None = None
    """What the payment itself quotes, or has as its end-to-end id."""
    counterparty_name: Text | None = None
    total_minor: PaidMinor
    """The payment's amount: that of all lines together."""
    currency: Currency
    lines: Annotated[list[RemittanceLine], Field(min_length=1, max_length=ADVICE_LINES_MAX)]


class RemittanceLinePublic(Public):
    """A line as it was given."""

    reference: str
    amount_minor: int
    amount: str
    deduction_minor: int
    deduction: str
    reason: str | None


class RemittanceAdviceListed(Resource):
    """A remittance advice without its lines."""

    collection: ClassVar[str] = "/remittance-advices"

    payment_reference: str | None
    counterparty_name: str | None
    total_minor: int
    total: str
    currency: str
    line_count: int


class RemittanceAdvicePublic(RemittanceAdviceListed):
    """A remittance advice."""

    lines: list[RemittanceLinePublic]


class RemittanceAdviceQuery(ListQuery):
    """Filters of the remittance advices."""

    sort: Literal["createdAt", "-createdAt"] = "-createdAt"
    currency: Currency | None = None
    payment_reference: Text | None = None
