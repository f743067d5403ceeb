"""What else would fit, beside a match, on the wire."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from pydantic import Field

from payrec.models.common import Public


class MatchAlternativePublic(Public):
    """A transaction that would do in the place of one of the match's."""

    replaces_transaction_id: UUID = Field(description="The transaction of the match in whose place it would stand.")
    side: Literal["expected", "incoming"]
    transaction_id: UUID
    external_id: str | None
    reference: str | None
    counterparty_name: str | None
    amount_minor: int
    open_amount_minor: int
    amount: str
    currency: str
    direction: Literal["credit", "debit"]
    date: str | None = Field(description="When it is due, or was booked.")
    status: str
    score: float | None = Field(
        description="Log-odds that the pair belongs together, as the run saw it; null of what is only near."
    )
    match_id: UUID | None = Field(description="The proposal or accepted match that has it now, if there is one.")


class MatchAlternativeList(Public):
    """Alternatives, the best first; none while a blind review waits."""

    data: list[MatchAlternativePublic]
