"""Accounts on the wire: where money moves, with what balance it began, and what the books say of it."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, ClassVar, Literal
from uuid import UUID

from pydantic import Field

from payrec.constants.accounts import BALANCE_MINOR_MAX, STATEMENT_DUE_HOURS_MAX
from payrec.models.common import Currency, Date, ListQuery, OwnAccount, Public, Request, Resource, Text

AccountKind = Literal["bank", "psp", "cash", "clearing"]
StatementEvery = Literal["day", "week", "month"]
BalanceMinor = Annotated[
    int,
    Field(
        ge=-BALANCE_MINOR_MAX,
        le=BALANCE_MINOR_MAX,
        description="Integer, in minor units of the currency (ISO 4217); negative for an overdraft.",
    ),
]
DueHours = Annotated[int, Field(ge=0, le=STATEMENT_DUE_HOURS_MAX)]


class AccountCreate(Request):
    """A new account: an identifier in one currency."""

    identifier: OwnAccount
    """As statements state it; an IBAN may have blanks."""
    name: Text | None = None
    kind: AccountKind = "bank"
    currency: Currency
    opening_balance_minor: BalanceMinor | None = None
    opening_on: Date | None = None
    statement_every: StatementEvery | None = None
    statement_due_after_hours: DueHours | None = None


class AccountUpdate(Request):
    """A merge patch (RFC 7396). Without an opening balance of its own, an account has the earliest statement's."""

    name: Text | None = None
    kind: AccountKind | None = None
    opening_balance_minor: BalanceMinor | None = None
    opening_on: Date | None = None
    statement_every: StatementEvery | None = None
    statement_due_after_hours: DueHours | None = None


class AccountPublic(Resource):
    """An account."""

    collection: ClassVar[str] = "/accounts"

    identifier: str
    name: str | None
    kind: AccountKind
    currency: str
    opening_balance_minor: int | None
    """With which ``openingOn`` begins; null where neither a statement nor anybody has told it."""
    opening_balance: str | None
    opening_on: date | None
    opening_given: bool
    """Somebody has set it; else it is the earliest statement's."""
    statement_every: StatementEvery | None
    statement_due_after_hours: int | None


class StatementMissing(Public):
    """What the event tells of a statement that has not come."""

    account_id: UUID
    identifier: str
    currency: str
    statement_every: StatementEvery
    period_from: date
    """First day of the period of which there is none."""
    period_to: date
    """Last day of it."""
    due_at: datetime
    """By when it should have come."""
    latest_statement_on: date | None
    """The day until which the account has statements."""


class AccountQuery(ListQuery):
    """Filters of the accounts."""

    sort: Literal["createdAt", "-createdAt"] = "-createdAt"
    kind: AccountKind | None = None
    currency: Currency | None = None
    identifier: OwnAccount | None = None


class BookBalancePut(Request):
    """What the books say that the account had at the end of a day."""

    on: Date
    balance_minor: BalanceMinor


class BookBalancePublic(Public):
    """The same as it is stored."""

    account_id: UUID
    on: date
    currency: str
    balance_minor: int
    balance: str
    version: int
