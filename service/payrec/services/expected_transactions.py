"""Expected transactions: stated by the company, open until they are matched."""

from __future__ import annotations

from datetime import date
from typing import Any, Final
from uuid import UUID

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.expected_transactions import open_row
from payrec.domain.money import format_minor
from payrec.domain.scope import today
from payrec.errors import FieldError, NotFoundError, ValidationFailedError
from payrec.models.common import Page
from payrec.models.expected_transactions import (
    ExpectedTransactionCreate,
    ExpectedTransactionPublic,
    ExpectedTransactionQuery,
)
from payrec.services.auto_runs import match_soon
from payrec.services.paging import Pager
from payrec.services.validation import amount_of, check_amount_filters, identifier
from payrec.services.work import Unit, Work
from payrec.storage.expected_transactions import SORTS, ExpectedTransactionStore

COLLECTION: Final = "/expected-transactions"


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
        amount_minor = amount_of(given, least=1)
        _check(given, amount_minor)
        transaction_id = self._work.ids.new()
        async with self._work.tenant(caller) as unit:
            row = _row(given, amount_minor, transaction_id, unit)
            await ExpectedTransactionStore(unit.connection).add(row, open_row(row))
            public = _created(row, today(caller.tenant, unit.now))
            unit.record(
                Record(
                    action="expected_transaction.created",
                    resource_id=transaction_id,
                    after={"amountMinor": amount_minor, "currency": given.currency, "externalId": given.external_id},
                )
            )
            unit.answer(201, public, public.headers)
            await match_soon(unit, self._work.ids.new())
        return public

    async def get(self, caller: Caller, transaction_id: str) -> ExpectedTransactionPublic:
        """Return one expected transaction.

        Raises
        ------
        NotFoundError
        """
        day = today(caller.tenant, self._work.clock.now())
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            row = await ExpectedTransactionStore(connection).get(identifier(transaction_id), today=day)
        if row is None:
            raise NotFoundError
        return public_of(row)

    async def page(self, caller: Caller, query: ExpectedTransactionQuery) -> Page[ExpectedTransactionPublic]:
        """Return a page.

        Raises
        ------
        InvalidCursorError, ValidationFailedError
        """
        listing = self._pager.listing(COLLECTION, query, SORTS, caller.scope)
        check_amount_filters(query)
        day = today(caller.tenant, self._work.clock.now())
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            rows, more = await ExpectedTransactionStore(connection).page(listing.request, query, today=day)
        for row in rows:
            row["amount"] = format_minor(row["amount_minor"], row["currency"])
        return listing.page(
            ExpectedTransactionPublic,
            rows,
            more=more,
        )


def _check(given: ExpectedTransactionCreate, amount_minor: int) -> None:
    errors = []
    low, high = given.min_amount_minor, given.max_amount_minor
    if low is not None and low > amount_minor:
        detail = "must not be above the amount"
        errors.append(FieldError(pointer="/minAmountMinor", code="band_excludes_amount", detail=detail))
    if high is not None and high < amount_minor:
        detail = "must not be below the amount"
        errors.append(FieldError(pointer="/maxAmountMinor", code="band_excludes_amount", detail=detail))
    if given.expected_from and given.expected_to and given.expected_from > given.expected_to:
        detail = "must not be before expectedFrom"
        errors.append(FieldError(pointer="/expectedTo", code="range_reversed", detail=detail))
    if errors:
        raise ValidationFailedError.of(*errors)


def _row(given: ExpectedTransactionCreate, amount_minor: int, transaction_id: UUID, unit: Unit) -> dict[str, Any]:
    return {
        "id": transaction_id,
        "amount_minor": amount_minor,
        "min_amount_minor": given.min_amount_minor,
        "max_amount_minor": given.max_amount_minor,
        "created_at": unit.now,
        "updated_at": unit.now,
        "change_id": unit.change_id,
        "due_on": given.due_date,
        "expected_from_on": given.expected_from,
        "expected_to_on": given.expected_to,
        "currency": given.currency,
        "direction": given.direction,
        "external_id": given.external_id,
        "reference": given.reference,
        "end_to_end_id": given.end_to_end_id,
        "counterparty_name": given.counterparty_name,
        "counterparty_account": given.counterparty_account,
        "account": given.account,
        "group_key": given.group_key,
        "description": given.description,
        "metadata": given.metadata,
    }


def _created(row: dict[str, Any], day: date) -> ExpectedTransactionPublic:
    """Return the answer for a transaction that was just stored: nothing of it can have changed yet."""
    last = row["due_on"] or row["expected_to_on"]
    return public_of(
        {
            **row,
            "version": 1,
            "due_date": row["due_on"],
            "expected_from": row["expected_from_on"],
            "expected_to": row["expected_to_on"],
            "status": "open",
            "overdue": last is not None and last < day,
            "reason_code": None,
            "settled_before_minor": 0,
            "matched_amount_minor": 0,
            "open_amount_minor": row["amount_minor"],
        }
    )


def public_of(row: dict[str, Any]) -> ExpectedTransactionPublic:
    """Return the resource of a stored row."""
    return ExpectedTransactionPublic.model_validate(
        {**row, "amount": format_minor(row["amount_minor"], row["currency"])}
    )
