"""Expected transactions: stated by the company, open until they are matched."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Final

from payrec.domain.caller import Caller
from payrec.domain.money import format_minor
from payrec.domain.scope import TenantScope, end_of, today
from payrec.errors import NotFoundError, ReferenceTakenError
from payrec.models.common import Page
from payrec.models.expected_transactions import (
    ExpectedTransactionCreate,
    ExpectedTransactionPublic,
    ExpectedTransactionQuery,
)
from payrec.services.auto_runs import match_soon
from payrec.services.expected_rows import Stated, created, creation, public_of, stated, stored_rows
from payrec.services.paging import Pager
from payrec.services.validation import check_amount_filters, identifier
from payrec.services.work import Work
from payrec.storage.expected_transactions import SORTS, ExpectedTransactionStore

COLLECTION: Final = "/expected-transactions"

ISSUING_ATTEMPTS_MAX: Final = 5
"""How often a reference is made until it is one that nobody has."""


class ExpectedTransactionService:
    """Creates and lists expected transactions of the caller's tenant environment."""

    def __init__(self, *, work: Work, pager: Pager) -> None:
        self._work = work
        self._pager = pager

    async def create(self, caller: Caller, given: ExpectedTransactionCreate) -> ExpectedTransactionPublic:
        """Store one expected transaction.

        Raises
        ------
        DuplicateExternalIdError, AmountOutOfRangeError, ValidationFailedError
        """
        found = stated(given)
        for _ in range(ISSUING_ATTEMPTS_MAX - 1):
            # Another id makes another reference.
            with suppress(ReferenceTakenError):
                return await self._create(caller, found)
        return await self._create(caller, found)

    async def _create(self, caller: Caller, found: Stated) -> ExpectedTransactionPublic:
        async with self._work.tenant(caller) as unit:
            row, opened = stored_rows(found, transaction_id=self._work.ids.new(), at=unit.now, change_id=unit.change_id)
            await ExpectedTransactionStore(unit.connection).add(row, opened)
            public = created(row, today(caller.tenant, unit.now))
            unit.record(creation(row))
            unit.answer(201, public, public.headers)
            await match_soon(unit, self._work.ids.new())
        return public

    async def get(
        self, caller: Caller, transaction_id: str, *, as_of: datetime | None = None
    ) -> ExpectedTransactionPublic:
        """Return one expected transaction, now or as of an instant.

        Raises
        ------
        AsOfOutOfRangeError, NotFoundError
        """
        day = today(caller.tenant, as_of or self._work.clock.now())
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            store = ExpectedTransactionStore(connection)
            row = await store.get(identifier(transaction_id), today=day, as_of=as_of)
        if row is None:
            raise NotFoundError
        return public_of(row)

    async def page(self, caller: Caller, query: ExpectedTransactionQuery) -> Page[ExpectedTransactionPublic]:
        """Return a page.

        Raises
        ------
        InvalidCursorError, ValidationFailedError, AsOfOutOfRangeError
        """
        listing = self._pager.listing(COLLECTION, query, SORTS, caller.scope)
        check_amount_filters(query)
        day = today(caller.tenant, query.as_of or self._work.clock.now())
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            wanted = until_cut_off(query, caller.tenant)
            rows, more = await ExpectedTransactionStore(connection).page(listing.request, wanted, today=day)
        for row in rows:
            row["amount"] = format_minor(row["amount_minor"], row["currency"])
        return listing.page(
            ExpectedTransactionPublic,
            rows,
            more=more,
        )


def until_cut_off(query: ExpectedTransactionQuery, scope: TenantScope) -> ExpectedTransactionQuery:
    """Return the query with its cut-off as an instant of creation: items have no booking date."""
    if query.cut_off is None:
        return query
    until = end_of(scope, query.cut_off)
    return query.model_copy(update={"created_to": min(until, query.created_to or until)})
