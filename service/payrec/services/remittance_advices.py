"""Remittance advices: what a payer says that a payment is for, kept until the payment and the items are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.matching.keys import name_key, reference_key
from payrec.domain.money import format_minor
from payrec.errors import FieldError, NotFoundError, ValidationFailedError
from payrec.models.common import Page
from payrec.models.remittance_advices import (
    RemittanceAdviceCreate,
    RemittanceAdviceListed,
    RemittanceAdvicePublic,
    RemittanceAdviceQuery,
)
from payrec.services.auto_runs import match_soon
from payrec.services.paging import Pager
from payrec.services.validation import identifier
from payrec.services.work import Work
from payrec.storage.listing import BY_CREATION
from payrec.storage.remittance_advices import RemittanceAdviceStore


class RemittanceAdviceService:
    """Takes in and shows remittance advices of the caller's tenant environment."""

    def __init__(self, *, work: Work, pager: Pager) -> None:
        self._work = work
        self._pager = pager

    async def create(self, caller: Caller, given: RemittanceAdviceCreate) -> RemittanceAdvicePublic:
        """Store what a payment is for; the next run looks at the payment and at the items again.

        Raises
        ------
        ValidationFailedError
            Nothing says whose payment it is, the lines are not its total, or a reference has nothing that could be
            found.
        """
        check(given)
        advice_id = self._work.ids.new()
        lines = [
            {
                "advice_id": advice_id,
                "ordinal": ordinal,
                "reference": line.reference,
                "amount_minor": line.amount_minor,
                "deduction_minor": line.deduction_minor,
                "reason": line.reason,
                "reference_key": reference_key(line.reference),
            }
            for ordinal, line in enumerate(given.lines, start=1)
        ]
        async with self._work.tenant(caller) as unit:
            row = {
                "id": advice_id,
                "change_id": unit.change_id,
                "created_at": unit.now,
                "payment_reference": given.payment_reference,
                "counterparty_name": given.counterparty_name,
                "payment_key": reference_key(given.payment_reference),
                "name_key": name_key(given.counterparty_name),
                "total_minor": given.total_minor,
                "currency": given.currency,
                "line_count": len(lines),
            }
            await RemittanceAdviceStore(unit.connection).add(row, lines)
            public = public_of({**row, "updated_at": unit.now, "version": 1}, lines)
            unit.record(_creation(given, public))
            unit.answer(201, public, public.headers)
            await match_soon(unit, self._work.ids.new())
        return public

    async def get(self, caller: Caller, advice_id: str) -> RemittanceAdvicePublic:
        """Return one.

        Raises
        ------
        NotFoundError
        """
        wanted = identifier(advice_id)
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            store = RemittanceAdviceStore(connection)
            row = await store.get(wanted)
            if row is None:
                raise NotFoundError
            return public_of(row, await store.lines(wanted))

    async def page(self, caller: Caller, query: RemittanceAdviceQuery) -> Page[RemittanceAdviceListed]:
        """Return a page, without the lines.

        Raises
        ------
        InvalidCursorError
        """
        listing = self._pager.listing(RemittanceAdviceListed.collection, query, BY_CREATION, caller.scope)
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            rows, more = await RemittanceAdviceStore(connection).page(listing.request, query)
        found = [RemittanceAdviceListed.model_validate(_told(row)) for row in rows]
        return listing.page(RemittanceAdviceListed, rows, data=found, more=more)


def check(given: RemittanceAdviceCreate) -> None:
    """Refuse what could never be found, and what does not add up.

    Raises
    ------
    ValidationFailedError
    """
    errors = []
    unusable = "has too little in it to be found in a payment"
    if given.payment_reference is None and given.counterparty_name is None:
        detail = "either paymentReference or counterpartyName says whose payment it is"
        errors.append(FieldError(pointer="/paymentReference", code="required", detail=detail))
    if given.payment_reference is not None and reference_key(given.payment_reference) is None:
        errors.append(FieldError(pointer="/paymentReference", code="unusable_reference", detail=unusable))
    if given.counterparty_name is not None and name_key(given.counterparty_name) is None:
        errors.append(FieldError(pointer="/counterpartyName", code="unusable_name", detail="has no letter or digit"))
    for place, line in enumerate(given.lines):
        if reference_key(line.reference) is None:
            pointer = f"/lines/{place}/reference"
            errors.append(FieldError(pointer=pointer, code="unusable_reference", detail="has too little to be found"))
    total = sum(line.amount_minor for line in given.lines)
    if total != given.total_minor:
        more = total > given.total_minor
        code = "advice_exceeds_payment" if more else "advice_below_payment"
        detail = f"the amounts of the lines are together {'more' if more else 'less'} than totalMinor"
        errors.append(FieldError(pointer="/totalMinor", code=code, detail=detail))
    if errors:
        raise ValidationFailedError.of(*errors)


def public_of(row: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> RemittanceAdvicePublic:
    """Return the resource of a stored advice."""
    told = [
        {
            **line,
            "amount": format_minor(line["amount_minor"], row["currency"]),
            "deduction": format_minor(line["deduction_minor"], row["currency"]),
        }
        for line in lines
    ]
    return RemittanceAdvicePublic.model_validate({**_told(row), "lines": told})


def _told(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "total": format_minor(row["total_minor"], row["currency"])}


def _creation(given: RemittanceAdviceCreate, public: RemittanceAdvicePublic) -> Record:
    after = {
        "paymentReference": given.payment_reference,
        "counterpartyName": given.counterparty_name,
        "totalMinor": given.total_minor,
        "currency": given.currency,
        "lineCount": public.line_count,
    }
    return Record(action="remittance_advice.created", resource_id=public.id, after=after)
