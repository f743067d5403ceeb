"""Rules of matching on the wire: which lines, and what holds for them instead of the settings."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field, StringConstraints

from payrec.models.common import Currency, DecimalAmount, Direction, Request, SearchText, Text
from payrec.models.incoming_transactions import Category, PostingCode

TEXTS_MAX: Final = 20
"""Texts of which one must be in what a line says."""

RequiredField = Literal["reference", "endToEndId", "counterpartyName", "counterpartyAccount", "groupKey"]
Slug = Annotated[str, StringConstraints(max_length=64, pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
WindowDays = Annotated[int, Field(ge=0, le=3650)]
ToleranceMinor = Annotated[int, Field(ge=0, le=10**12)]
Percent = Annotated[float, Field(ge=0, le=100)]


def _unset(value: Any) -> bool:
    return value is None


class RuleScope(Request):
    """Lines that say all of this; what is left out says nothing."""

    account: Text | None = Field(default=None, exclude_if=_unset)
    """The own account that the line is on."""
    direction: Direction | None = Field(default=None, exclude_if=_unset)
    currency: Currency | None = Field(default=None, exclude_if=_unset)
    counterparty_name: Text | None = Field(default=None, exclude_if=_unset)
    """As names are compared: without capitals, accents, legal forms and the order of words."""
    counterparty_account: Text | None = Field(default=None, exclude_if=_unset)
    amount_min: DecimalAmount | None = Field(default=None, exclude_if=_unset)
    """Of the whole line, whatever is still open of it; needs ``currency``."""
    amount_max: DecimalAmount | None = Field(default=None, exclude_if=_unset)
    text_contains: Annotated[list[SearchText], Field(min_length=1, max_length=TEXTS_MAX)] | None = Field(
        default=None, exclude_if=_unset
    )
    """Any of these, in remittance text or counterparty's name; capitals do not count. For a classification alone."""
    bank_transaction_code: Text | None = Field(default=None, exclude_if=_unset)
    """The whole code. For a classification alone."""


class RuleClassification(Request):
    """What a line is that nobody expects."""

    category: Category
    posting_code: PostingCode | None = Field(default=None, exclude_if=_unset)


class MatchingRule(Request):
    """A rule of the lines in its scope: bounds that take the place of the settings, or a classification."""

    name: Slug
    priority: Annotated[int, Field(ge=1, le=1_000_000)]
    """Of the rules whose scope a line is in, the one with the least number decides."""
    scope: RuleScope = Field(default_factory=RuleScope)
    required_fields: Annotated[list[RequiredField], Field(max_length=5)] | None = Field(default=None, exclude_if=_unset)
    """What has to agree before anything is proposed; takes the place of ``requireReference``."""
    date_window_days_before: WindowDays | None = Field(default=None, exclude_if=_unset)
    date_window_days_after: WindowDays | None = Field(default=None, exclude_if=_unset)
    amount_tolerance_minor: ToleranceMinor | None = Field(default=None, exclude_if=_unset)
    amount_tolerance_percent: Percent | None = Field(default=None, exclude_if=_unset)
    fee_tolerance_minor: ToleranceMinor | None = Field(default=None, exclude_if=_unset)
    auto_accept: bool | None = Field(default=None, exclude_if=_unset)
    auto_accept_min_confidence: Literal["exact", "high"] | None = Field(default=None, exclude_if=_unset)
    classify: RuleClassification | None = Field(default=None, exclude_if=_unset)
    """What lines in the scope are that a run leaves without a proposal. Such a rule has no bounds."""
