"""The reconciliation statement of an account: what it began with, what became of its lines, what the bank says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import date, datetime
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from payrec.domain.business_days import shifted
from payrec.domain.caller import Caller
from payrec.domain.money import format_minor
from payrec.domain.period_locks import locked_since
from payrec.domain.scope import today
from payrec.errors import FieldError, NotFoundError, ValidationFailedError
from payrec.models.common import Page
from payrec.models.reconciliations import (
    ReconciliationLine,
    ReconciliationLineQuery,
    ReconciliationQuery,
    ReconciliationStatement,
    StatementPart,
)
from payrec.services.csv_text import csv_pages
from payrec.services.paging import Pager
from payrec.services.validation import identifier
from payrec.services.work import Work
from payrec.storage.accounts import AccountStore
from payrec.storage.adding_up import prepare_adding_up
from payrec.storage.history import HistoryStore
from payrec.storage.listing import PageRequest
from payrec.storage.period_locks import PeriodLockStore
from payrec.storage.reconciliations import PARTS, SORTS, ReconciliationStore

Sums = dict[str, tuple[int, int]]
"""How many lines have a share of each part, and the sum of these."""

_OF_ALL: Final = {"account": "account", "cutOff": "cut_off", "lockedAt": "locked_at", "currency": "currency"}
"""What each line of a CSV begins with: headings and names."""


class ReconciliationService:
    """Reconciliation statements of the accounts of the caller's tenant environment."""

    def __init__(self, *, work: Work, pager: Pager) -> None:
        self._work = work
        self._pager = pager

    async def statement(self, caller: Caller, account_id: str, query: ReconciliationQuery) -> ReconciliationStatement:
        """Return the statement of an account at a cut-off.

        Raises
        ------
        AsOfOutOfRangeError
        NotFoundError
            There is no such account, or was none at that instant.
        ValidationFailedError
            The cut-off lies before what the account begins with.
        """
        wanted, cut_off = identifier(account_id), self._cut_off(caller, query)
        async with self._opened(caller, wanted, cut_off, query.as_of, sums=True) as (account, store, locked_at, kept):
            sums = kept if kept is not None else await store.parts()
            closed, book_minor = await store.closed(), await store.book_minor()
        currency, opening_minor = account["currency"], account["opening_minor"] or 0
        base = {"cutOff": cut_off.isoformat()}
        if query.as_of is not None:
            base["asOf"] = query.as_of.isoformat()
        parts = {
            column: StatementPart(
                count=sums[column][0],
                sum_minor=sums[column][1],
                sum=format_minor(sums[column][1], currency),
                url=f"{lines_path(wanted)}?{urlencode({'part': part, **base})}",
            )
            for part, column in PARTS.items()
        }
        balance_minor = opening_minor + sum(sums[column][1] for part, column in PARTS.items() if part != "pending")
        statement_minor = None if closed is None else closed["closing_minor"]
        figures = {
            "opening_balance": opening_minor,
            "balance": balance_minor,
            "statement_balance": statement_minor,
            "difference": None if statement_minor is None else statement_minor - balance_minor,
            "book_balance": book_minor,
            "book_difference": None if book_minor is None else book_minor - balance_minor,
        }
        return ReconciliationStatement.model_validate(
            {
                "account_id": wanted,
                "identifier": account["identifier"],
                "currency": currency,
                "cut_off": cut_off,
                "locked_at": locked_at,
                "opening_on": account["opening_on"],
                "statement_balance_on": None if closed is None else closed["closed_on"],
                **{f"{name}_minor": minor for name, minor in figures.items()},
                **{n: None if minor is None else format_minor(minor, currency) for n, minor in figures.items()},
                **parts,
            }
        )

    async def lines(self, caller: Caller, account_id: str, query: ReconciliationLineQuery) -> Page[ReconciliationLine]:
        """Return a page of the lines of a part, by booking date.

        Raises
        ------
        InvalidCursorError
        AsOfOutOfRangeError, NotFoundError, ValidationFailedError
            As ``statement``.
        """
        wanted, cut_off = identifier(account_id), self._cut_off(caller, query)
        listing = self._pager.listing(lines_path(wanted), query, SORTS, caller.scope)
        async with self._opened(caller, wanted, cut_off, query.as_of) as (account, store, *_):
            rows, more = await store.page(listing.request, query)
        data = [_line(row, query, account["currency"]) for row in rows]
        return listing.page(ReconciliationLine, rows, data=data, more=more)

    async def statement_csv(
        self, caller: Caller, account_id: str, query: ReconciliationQuery
    ) -> tuple[ReconciliationStatement, AsyncIterator[bytes]]:
        """Return a statement and the CSV of its figures, called as the interface calls them; one unknown is left empty.

        Raises
        ------
        AsOfOutOfRangeError, NotFoundError, ValidationFailedError
            As ``statement``.
        """
        found = await self.statement(caller, account_id, query)
        of_all = {
            "account": found.identifier,
            "cut_off": found.cut_off,
            "locked_at": None if found.locked_at is None else found.locked_at.isoformat(),
            "currency": found.currency,
        }
        parts: dict[str, StatementPart] = {part: getattr(found, column) for part, column in PARTS.items()}
        pending = parts.pop("pending")
        figures: list[tuple[str, int | None, int | None]] = [
            ("openingBalance", None, found.opening_balance_minor),
            *((part, of_part.count, of_part.sum_minor) for part, of_part in parts.items()),
            ("balance", None, found.balance_minor),
            ("statementBalance", None, found.statement_balance_minor),
            ("difference", None, found.difference_minor),
            ("bookBalance", None, found.book_balance_minor),
            ("bookDifference", None, found.book_difference_minor),
            ("pending", pending.count, pending.sum_minor),
        ]
        rows = [{**of_all, "figure": name, "lines": count, "minor": minor} for name, count, minor in figures]

        async def whole(_: PageRequest) -> tuple[Sequence[dict[str, Any]], bool]:
            return rows, False

        return found, csv_pages(_OF_ALL | {"figure": "figure", "lines": "lines", "amountMinor": "minor"}, whole)

    async def lines_csv(
        self, caller: Caller, account_id: str, query: ReconciliationLineQuery
    ) -> tuple[str, AsyncIterator[bytes]]:
        """Return an account's identifier and the CSV of all lines of a part, which are read while they are sent.

        Raises
        ------
        AsOfOutOfRangeError, NotFoundError, ValidationFailedError
            As ``statement``.
        """
        wanted, cut_off = identifier(account_id), self._cut_off(caller, query)
        async with self._opened(caller, wanted, cut_off, query.as_of) as (account, _, locked_at, _):
            of_all = {
                "account": account["identifier"],
                "cut_off": cut_off,
                "locked_at": None if locked_at is None else locked_at.isoformat(),
                "currency": account["currency"],
                "part": query.part,
            }

        async def page(request: PageRequest) -> tuple[Sequence[dict[str, Any]], bool]:
            async with self._opened(caller, wanted, cut_off, query.as_of) as (_, store, *_):
                rows, more = await store.page(request, query)
            return [{**row, **of_all} for row in rows], more

        columns = {
            "part": "part",
            "incomingTransactionId": "id",
            "bookingDate": "booking_on",
            "shareMinor": "share_minor",
            "movedMinor": "moved_minor",
        }
        return account["identifier"], csv_pages(_OF_ALL | columns, page, sort=SORTS["bookingDate"])

    def _cut_off(self, caller: Caller, query: ReconciliationQuery | ReconciliationLineQuery) -> date:
        return query.cut_off or today(caller.tenant, query.as_of or self._work.clock.now())

    @asynccontextmanager
    async def _opened(
        self, caller: Caller, account_id: UUID, cut_off: date, as_of: datetime | None, *, sums: bool = False
    ) -> AsyncIterator[tuple[dict[str, Any], ReconciliationStore, datetime | None, Sums | None]]:
        """Open the store of an account; all that one statement reads is of one moment.

        Where the cut-off is locked, that is the instant of the lock, which is returned as well, with the ``sums`` of
        the parts if the lock has them.
        """
        async with self._work.database.tenant(caller.tenant, readonly=True, snapshot=True) as connection:
            await HistoryStore(connection).check(as_of)
            account = await AccountStore(connection).at(account_id, as_of)
            if account is None:
                raise NotFoundError
            spans = await PeriodLockStore(connection).spans(account["identifier"], cut_off)
            kept: Sums | None = None
            if (locked_at := locked_since(spans, as_of)) is not None:
                if sums:
                    kept = await PeriodLockStore(connection).sums(account_id, cut_off, locked_at)
                # What lines were then goes with history. The sums stay, and so do balances and what the books said.
                as_of = locked_at if kept is not None else await HistoryStore(connection).reached(locked_at)
                # Of an account that came later, nothing was known.
                then = await AccountStore(connection).at(account_id, as_of)
                account = then or {**account, "opening_minor": None, "opening_on": None}
            # The evening before the first day is what the account begins with.
            if account["opening_on"] is not None and cut_off < shifted(account["opening_on"], -1):
                detail = "lies before the opening balance of the account"
                raise ValidationFailedError.of(
                    FieldError(pointer="cutOff", code="cut_off_before_opening", detail=detail)
                )
            store = ReconciliationStore(connection, account=account, cut_off=cut_off, as_of=as_of)
            await prepare_adding_up(connection)
            yield account, store, locked_at, kept


def lines_path(account_id: UUID) -> str:
    """Return the path of the lines of an account's statement."""
    return f"/accounts/{account_id}/reconciliation/lines"


def _line(row: dict[str, Any], query: ReconciliationLineQuery, currency: str) -> ReconciliationLine:
    return ReconciliationLine(
        incoming_transaction_id=row["id"],
        booking_date=row["booking_on"],
        part=query.part,
        share_minor=row["share_minor"],
        share=format_minor(row["share_minor"], currency),
        moved_minor=row["moved_minor"],
        moved=format_minor(row["moved_minor"], currency),
    )
