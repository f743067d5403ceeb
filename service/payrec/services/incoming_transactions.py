"""Incoming transactions given one by one; files come through ``payrec.services.imports``."""

from __future__ import annotations

from typing import Any, Final

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.identity import fingerprint
from payrec.domain.incoming_transactions import identity_of, open_row, stored_row
from payrec.domain.money import format_minor
from payrec.domain.returns import return_kind
from payrec.domain.statements import Batch, Entry, Money
from payrec.errors import NotFoundError
from payrec.models.common import Page
from payrec.models.incoming_transactions import (
    IncomingTransactionCreate,
    IncomingTransactionPublic,
    IncomingTransactionQuery,
)
from payrec.services.auto_runs import match_soon
from payrec.services.paging import Pager
from payrec.services.validation import amount_of, check_amount_filters, identifier
from payrec.services.work import Work
from payrec.storage.incoming_transactions import SORTS, IncomingTransactionStore

COLLECTION: Final = "/incoming-transactions"

_SAME: Final = [
    "direction",
    "currency",
    "external_id",
    "account",
    "remittance",
    "structured_reference",
    "end_to_end_id",
    "bank_reference",
    "counterparty_name",
    "counterparty_account",
    "bank_transaction_code",
    "reversal",
    "mandate_id",
    "instruction_id",
    "transaction_id",
    "uetr",
    "purpose_code",
    "return_reason",
    "metadata",
]
"""Fields that a request and an entry of a statement call the same."""


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
        """
        entry = _entry(given, amount_of(given, least=0))
        transaction_id = self._work.ids.new()
        # Without an externalId, every request is a transaction of its own.
        entry.identity_kind = "bank"
        entry.identity_value = str(transaction_id)
        entry.fingerprint = fingerprint(entry)
        identity = identity_of(entry)
        async with self._work.tenant(caller) as unit:
            store = IncomingTransactionStore(unit.connection)
            row = {
                **stored_row(entry, transaction_id=transaction_id, identity=identity),
                "statement_index": None,
                "created_at": unit.now,
                "updated_at": unit.now,
                "change_id": unit.change_id,
            }
            # An identity made of our own id says nothing: what is equal otherwise must look equal to matching.
            content = identity if entry.external_id is not None else entry.fingerprint
            await store.add(row, open_row(entry, transaction_id=transaction_id, identity=content))
            stored = await store.get(transaction_id)
            public = public_of(stored or {})
            unit.record(
                Record(
                    action="incoming_transaction.created",
                    resource_id=transaction_id,
                    after={
                        "amountMinor": entry.amount_minor,
                        "currency": entry.currency,
                        "externalId": entry.external_id,
                    },
                )
            )
            unit.answer(201, public, public.headers)
            await match_soon(unit, self._work.ids.new())
        return public

    async def get(self, caller: Caller, transaction_id: str) -> IncomingTransactionPublic:
        """Return one incoming transaction.

        Raises
        ------
        NotFoundError
        """
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            row = await IncomingTransactionStore(connection).get(identifier(transaction_id))
        if row is None:
            raise NotFoundError
        return public_of(row)

    async def page(self, caller: Caller, query: IncomingTransactionQuery) -> Page[IncomingTransactionPublic]:
        """Return a page.

        Raises
        ------
        InvalidCursorError, ValidationFailedError
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
    net, original = row["net_minor"], row["original_minor"]
    row["net"] = (
        None
        if net is None
        else {"amountMinor": abs(net), "currency": row["net_currency"], "direction": "debit" if net < 0 else "credit"}
    )
    row["original"] = None if original is None else {"amountMinor": original, "currency": row["original_currency"]}
    return row


def _entry(given: IncomingTransactionCreate, amount_minor: int) -> Entry:
    return Entry(
        amount_minor=amount_minor,
        booking_on=given.booking_date,
        value_on=given.value_date,
        status="pending" if given.status == "pending" else "booked",
        charges=[Money(c.amount_minor, c.currency, c.direction) for c in given.charges],
        batch=Batch(given.group_key, None, itemised=False) if given.group_key is not None else None,
        **{name: getattr(given, name) for name in _SAME},
    )
