"""Reports on the wire: what is matched, what is late, what is open and why. Amounts of one currency are added, ever."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from payrec.models.common import Currency, Date, Direction, Instant, ListQuery, OwnAccount, Page, Public
from payrec.models.expected_transactions import ExpectedStatus
from payrec.models.incoming_transactions import IncomingStatus
from payrec.models.matches import MatchStatus

T = TypeVar("T")

GroupBy = Literal["counterparty", "account"]


class ReportQuery(BaseModel):
    """Filters of a report that is one answer. Unknown ones are refused: a typo must not widen a result."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", hide_input_in_errors=True)

    as_of: Instant | None = None
    cut_off: Date | None = None
    """What counts at the end of this day; null: what counts now."""
    currency: Currency | None = None
    account: OwnAccount | None = None
    created_from: Instant | None = None
    created_to: Instant | None = None


class GroupedReportQuery(ListQuery):
    """Filters of a report whose groups come in pages, by name."""

    sort: Literal["name"] = "name"
    as_of: Instant | None = None
    cut_off: Date | None = None
    """What counts at the end of this day; null: what counts now."""
    currency: Currency | None = None
    account: OwnAccount | None = None


class AgeingQuery(GroupedReportQuery):
    """Filters of the ageing report; without ``groupBy`` it has a line for each currency and direction."""

    direction: Direction | None = None
    group_by: GroupBy | None = None


class OpenBalancesQuery(GroupedReportQuery):
    """Filters of the open balances."""

    group_by: GroupBy = "account"


class Amount(Public):
    """A sum of amounts. It may be beyond 2^53: then ``amount`` is what a reader without big integers should take."""

    amount_minor: int
    amount: str


class Figure(Amount):
    """How many there are, and their sum."""

    count: int


Rate = Annotated[float | None, Field(description="A share from 0 to 1 with four digits; null of nothing.")]


class MatchRate(Public):
    """How much of what asks for a match has one, as service/reports.md defines it."""

    by_count: Rate
    by_amount: Rate


class ExpectedAmounts(Public):
    """What became of the stated amounts: together they are the total."""

    settled_before: Amount
    matched: Amount
    open: Amount
    void: Amount


class IncomingAmounts(Public):
    """What became of the amounts that moved: together they are the total."""

    matched: Amount
    open: Amount
    returned: Amount
    """Taken back by a return, or itself what a return took back."""
    pending: Amount
    ignored: Amount
    classified: Amount


class ExpectedSummary(Public):
    """The expected transactions of one currency and direction, by status with their stated amounts."""

    total: Figure
    statuses: dict[ExpectedStatus, Figure]
    amounts: ExpectedAmounts
    match_rate: MatchRate


class IncomingSummary(Public):
    """The incoming transactions of one currency and direction, by status with their stated amounts."""

    total: Figure
    statuses: dict[IncomingStatus, Figure]
    amounts: IncomingAmounts
    match_rate: MatchRate


class SummaryLine(Public):
    """One currency and direction."""

    currency: str
    direction: Direction
    expected: ExpectedSummary
    incoming: IncomingSummary


class MatchesSummary(Public):
    """The matches of one currency, by status."""

    currency: str
    statuses: dict[MatchStatus, Figure]
    accepted_by_engine: Figure
    auto_accept_rate: MatchRate
    """Of the matches that are accepted, those that no person has accepted."""


class CountedSide(Public):
    """One side in all currencies: counts alone, because amounts of several currencies do not add up."""

    count: int
    statuses: dict[str, int]
    match_rate: Rate


class CountedMatches(Public):
    """Matches in all currencies."""

    statuses: dict[MatchStatus, int]
    accepted_by_engine: int
    auto_accept_rate: Rate


class TimeToMatch(Public):
    """From when a payment was stored until it was matched whole, over those of the last 30 days that are."""

    count: int
    median_seconds: int | None
    p90_seconds: int | None


class SummaryTotal(Public):
    """All currencies and both directions."""

    expected: CountedSide
    incoming: CountedSide
    matches: CountedMatches
    time_to_match: TimeToMatch


class SummaryReport(Public):
    """How far reconciliation is."""

    total: SummaryTotal
    lines: list[SummaryLine]
    matches: list[MatchesSummary]


class AgeingBuckets(Public):
    """Open amounts by the days since they were due."""

    not_due: Figure
    days1_to30: Figure = Field(alias="days1To30")
    days31_to60: Figure = Field(alias="days31To60")
    days61_to90: Figure = Field(alias="days61To90")
    over90_days: Figure = Field(alias="over90Days")
    no_due_date: Figure


class AgeingLine(Public):
    """Open expected transactions of one currency and direction, and of one counterparty or account if asked for."""

    name: str | None = Field(description="The counterparty or account of groupBy; null of those that have none.")
    currency: str
    direction: Direction
    open: Figure
    overdue: Figure
    buckets: AgeingBuckets


class OpenBalance(Public):
    """What is open of one account or counterparty, in one currency and direction."""

    name: str | None = Field(description="The account or counterparty; null of those that have none.")
    currency: str
    direction: Direction
    expected: Figure
    incoming: Figure


class GroupedReport(Page[T], Generic[T]):
    """A page of groups, and the tenant's day on which they are so."""

    on: date


class AgeingReport(GroupedReport[AgeingLine]):
    """What is open by when it was due."""


class OpenBalancesReport(GroupedReport[OpenBalance]):
    """What is open by account or counterparty."""


class ExceptionLine(Public):
    """Open transactions that the same reason keeps open."""

    side: Literal["expected", "incoming"]
    reason_code: str | None
    """Null where no run has said any since the transaction came or changed."""
    currency: str
    direction: Direction
    open: Figure
    oldest_days: int | None
    """Days since the earliest booking date, or due date; negative before it, null where none has a due date."""
    list_url: str | None
    """Path and query of their list; null where no reason is known."""


class ExceptionsReport(Public):
    """Why transactions are open."""

    on: date
    lines: list[ExceptionLine]
