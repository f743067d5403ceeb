"""Incoming transactions given one by one; files come through ``payrec.services.imports``."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from payrec.domain.caller import Caller
from payrec.domain.incoming_transactions import identity_of
from payrec.domain.money import format_minor
from payrec.domain.returns import return_kind
from payrec.domain.statements import Entry
from payrec.errors import DuplicateContentError, NotFoundError
from payrec.models.common import Page
from payrec.models.incoming_transactions import (
    IncomingTransactionCreate,
    IncomingTransactionPublic,
    IncomingTransactionQuery,
)
from payrec.services.accounts import name_accounts
from payrec.services.auto_runs import match_soon
from payrec.services.incoming_rows import accounts_of, creation, named, repeats, rows_of, stated
from payrec.services.paging import Pager
from payrec.services.validation import check_amount_filters, identifier
from payrec.services.work import Unit, Work
from payrec.storage.duplicates import DuplicateStore
from payrec.storage.incoming_transactions import SORTS, IncomingTransactionStore
from payrec.storage.period_locks import PeriodLockStore

COLLECTION: Final = "/incoming-transactions"


class IncomingTransactionService:
    """Creates and lists incoming transactions of the caller's tenant environment."""

    def __init__(self, *, work: Work, pager: Pager) -> None:
        self._work = work
        self._pager = pager

    async def create(self, caller: Caller, given: IncomingTransactionCreate) -> IncomingTransactionPublic:
        """Store one incoming transaction.

        Raises
        ------
        DuplicateExternalIdError, AmountOutOfRangeError, ValidationFailedError
        DuplicateContentError
            Its content is stored already, and the tenant's setting ``duplicatePolicy`` is ``reject``.
        """
        transaction_id = self._work.ids.new()
        entry = named(stated(given), transaction_id)
        identity = identity_of(entry)
        async with self._work.tenant(caller) as unit:
            store = IncomingTransactionStore(unit.connection)
            row, opened = rows_of(entry, transaction_id=transaction_id, identity=identity, unit=unit)
            # Before the row, as for many at once: each would have what the other waits for, where both store it.
            await DuplicateStore(unit.connection).hold([entry.fingerprint])
            await store.add(row, opened)
            await PeriodLockStore(unit.connection).flag_late([transaction_id])
            await _compare(unit, entry, identity)
            stored = await store.get(transaction_id)
            public = public_of(stored or {})
            unit.record(creation(entry, transaction_id))
            await name_accounts(unit, self._work.ids, accounts_of([entry]))
            unit.answer(201, public, public.headers)
            await match_soon(unit, self._work.ids.new())
        return public

    async def get(
        self, caller: Caller, transaction_id: str, *, as_of: datetime | None = None
    ) -> IncomingTransactionPublic:
        """Return one incoming transaction, now or as of an instant.

        Raises
        ------
        AsOfOutOfRangeError, NotFoundError
        """
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            row = await IncomingTransactionStore(connection).get(identifier(transaction_id), as_of=as_of)
        if row is None:
            raise NotFoundError
        return public_of(row)

    async def page(self, caller: Caller, query: IncomingTransactionQuery) -> Page[IncomingTransactionPublic]:
        """Return a page.

        Raises
        ------
        InvalidCursorError, ValidationFailedError, AsOfOutOfRangeError
        """
        listing = self._pager.listing(COLLECTION, query, SORTS, caller.scope)
        check_amount_filters(query)
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            rows, more = await IncomingTransactionStore(connection).page(listing.request, query)
        return listing.page(
            IncomingTransactionPublic,
            [_shaped(row) for row in rows],
            more=more,
        )


def public_of(row: dict[str, Any]) -> IncomingTransactionPublic:
    """Return the resource of a stored row."""
    return IncomingTransactionPublic.model_validate(_shaped(row))


def _shaped(row: dict[str, Any]) -> dict[str, Any]:
    """Add what the wire groups differently from the table."""
    row["amount"] = format_minor(row["amount_minor"], row["currency"])
    row["charges"] = row["charges"] or []
    row["return_kind"] = return_kind(row["bank_transaction_code"], row["return_reason"])
    row["reversal_of"] = row["reversal_of"] or []
    category = row["category"]
    row["classification"] = None if category is None else {"category": category, "posting_code": row["posting_code"]}
    net, original = row["net_minor"], row["original_minor"]
    row["net"] = (
        None
        if net is None
        else {"amountMinor": abs(net), "currency": row["net_currency"], "direction": "debit" if net < 0 else "credit"}
    )
    row["original"] = None if original is None else {"amountMinor": original, "currency": row["original_currency"]}
    return row


async def _compare(unit: Unit, entry: Entry, identity: bytes) -> None:
    """Flag an entry that was just stored where its content is stored under another identity, or refuse it."""
    store = DuplicateStore(unit.connection)
    twins = await store.twins([entry.fingerprint], [identity])
    if not twins:
        return
    if unit.caller.tenant.reject_duplicates and repeats(entry, twins[0]):
        raise DuplicateContentError(existingId=str(twins[0]["id"]))
    await store.flag([entry.fingerprint], change_id=unit.change_id, at=unit.now)
