"""Corrections of what is expected: fields are changed, or the item is not expected any more."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import structlog
from pydantic.alias_generators import to_camel

from payrec.constants import AMOUNT_MINOR_MAX, METADATA_ENTRIES_MAX
from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.expected_states import EXPECTED_STATES
from payrec.domain.expected_transactions import open_row, quoted_key
from payrec.domain.matching.keys import reference_key
from payrec.domain.money import MoneyError, parse_decimal
from payrec.domain.scope import today
from payrec.domain.settings import merged
from payrec.errors import (
    AmountOutOfRangeError,
    ConflictError,
    DuplicateExternalIdError,
    FieldError,
    NotFoundError,
    ValidationFailedError,
)
from payrec.models.expected_transactions import (
    ExpectedTransactionPatch,
    ExpectedTransactionPublic,
    ExpectedTransactionVoid,
)
from payrec.services.auto_runs import match_soon
from payrec.services.expected_rows import COLUMNS_BY_FIELD, contradictions, public_of, stored_terms
from payrec.services.match_rivals import supersede_rivals
from payrec.services.validation import check_version, identifier
from payrec.services.work import Unit, Work
from payrec.storage.expected_changes import ExpectedChangeStore
from payrec.storage.expected_transactions import ExpectedTransactionStore

ANNOTATIONS: Final = frozenset({"description", "metadata", "due_on", "expected_from_on", "expected_to_on"})
"""Columns that may be changed when something is matched."""

UNMATCHED_ON: Final = frozenset({"description", "metadata"})
"""Columns that matching does not look at: a proposal stays good when they change."""

_FIELDS: Final = {column: field for field, column in COLUMNS_BY_FIELD.items()} | {"amount_minor": "amount_minor"}


class ExpectedChangeService:
    """Changes expected transactions of the caller's tenant environment."""

    def __init__(self, *, work: Work) -> None:
        self._work = work
        self._logger = structlog.get_logger("payrec.expected_transactions")

    async def patch(
        self, caller: Caller, transaction_id: str, given: ExpectedTransactionPatch, if_match: str | None
    ) -> ExpectedTransactionPublic:
        """Change fields: all of them while nothing is matched, texts and dates later. What is equal is no change.

        Raises
        ------
        NotFoundError, VersionMismatchError, ValidationFailedError, AmountOutOfRangeError, DuplicateExternalIdError
        ConflictError
            It is void, or something is matched that such a field decides about.
        """
        wanted = identifier(transaction_id)
        async with self._work.tenant(caller) as unit:
            store = ExpectedChangeStore(unit.connection, change_id=unit.change_id, at=unit.now)
            row = await self._held(unit, store, wanted, if_match)
            EXPECTED_STATES.check(row["status"], "annotate")
            if not EXPECTED_STATES.allows(row["status"], "change"):
                # Before what is wrong with the values: putting that right would not help.
                _check_annotations(row, given)
            columns = _changed(row, given)
            if columns:
                await self._change(unit, store, row, columns)
            public = await self._public(unit, wanted)
            unit.answer(200, public, {"ETag": public.headers["ETag"]})
            if not UNMATCHED_ON.issuperset(columns):
                await match_soon(unit, self._work.ids.new())
        return public

    async def void(
        self, caller: Caller, transaction_id: str, given: ExpectedTransactionVoid, if_match: str | None
    ) -> ExpectedTransactionPublic:
        """Say that an item is not expected any more; proposals that join it are superseded.

        Raises
        ------
        NotFoundError, VersionMismatchError
        ConflictError
            Something of it is matched, or it is void already.
        """
        wanted = identifier(transaction_id)
        async with self._work.tenant(caller) as unit:
            store = ExpectedChangeStore(unit.connection, change_id=unit.change_id, at=unit.now)
            row = await self._held(unit, store, wanted, if_match)
            EXPECTED_STATES.check(row["status"], "void")
            await store.void(wanted, reason=given.reason)
            unit.record(
                Record(
                    action="expected_transaction.voided",
                    resource_id=wanted,
                    reason=given.reason,
                    before={"status": row["status"]},
                    after={"status": "void"},
                )
            )
            await supersede_rivals(unit, expected=[wanted])
            public = await self._public(unit, wanted)
            unit.answer(200, public, {"ETag": public.headers["ETag"]})
        self._logger.info("expected_transaction.voided", transaction_id=str(wanted))
        return public

    async def _held(
        self, unit: Unit, store: ExpectedChangeStore, transaction_id: UUID, if_match: str | None
    ) -> dict[str, Any]:
        row = await store.hold(transaction_id)
        if row is None:
            raise NotFoundError
        if if_match is not None:
            check_version(if_match, (await self._public(unit, transaction_id)).version)
        return row

    async def _change(
        self, unit: Unit, store: ExpectedChangeStore, row: dict[str, Any], columns: dict[str, Any]
    ) -> None:
        external_id = columns.get("external_id")
        if external_id is not None:
            existing = await ExpectedTransactionStore(unit.connection).known([external_id])
            if existing:
                raise DuplicateExternalIdError(existingId=str(existing[external_id]["id"]))
        if "reference" in columns:
            kept = {"reference_issued": False, "reference_key": quoted_key(reference_key(columns["reference"]))}
            columns = {**columns, **kept}
        is_matched_on = not UNMATCHED_ON.issuperset(columns)
        after = await store.change(row["id"], columns, is_matched_on=is_matched_on)
        opened = open_row(after)
        left = opened["open_minor"] - row["allocated_minor"]
        if left:
            replaced = {**opened, "open_minor": left, "revision": after["revision"]}
            await store.replace_open(replaced, is_matched_on=is_matched_on)
        if {"due_on", "expected_to_on"} & columns.keys():
            await store.forget_notice(row["id"], today=today(unit.caller.tenant, unit.now))
        told = [column for column in columns if column in _FIELDS]
        unit.record(
            Record(
                action="expected_transaction.updated",
                resource_id=row["id"],
                before={to_camel(_FIELDS[column]): _plain(row[column]) for column in told},
                after={to_camel(_FIELDS[column]): _plain(columns[column]) for column in told},
            )
        )

    async def _public(self, unit: Unit, transaction_id: UUID) -> ExpectedTransactionPublic:
        day = today(unit.caller.tenant, unit.now)
        row = await ExpectedTransactionStore(unit.connection).get(transaction_id, today=day)
        if row is None:
            raise NotFoundError
        return public_of(row)


def _changed(row: dict[str, Any], given: ExpectedTransactionPatch) -> dict[str, Any]:
    """Return the columns that are to have another value than they have, after all of them were looked at together.

    Raises
    ------
    ValidationFailedError, AmountOutOfRangeError
    """
    wanted = {
        column: _wanted(given, field) for field, column in COLUMNS_BY_FIELD.items() if field in given.model_fields_set
    }
    if "metadata" in wanted:
        wanted["metadata"] = _metadata(row["metadata"], wanted["metadata"])
    wanted["amount_minor"] = _amount(row, given)
    after = {**row, **wanted}
    errors = _of_former_currency(row, given) or contradictions(
        amount_minor=after["amount_minor"],
        min_amount_minor=after["min_amount_minor"],
        max_amount_minor=after["max_amount_minor"],
        expected_from=after["expected_from_on"],
        expected_to=after["expected_to_on"],
        terms=after["terms"],
    )
    if errors:
        raise ValidationFailedError.of(*errors)
    return {column: value for column, value in wanted.items() if value != row[column]}


def _amount(row: dict[str, Any], given: ExpectedTransactionPatch) -> int:
    """Return the amount that is wanted; minor units of one currency are none of another."""
    pointer = "/amount" if given.amount is not None else "/amountMinor"
    if given.amount is not None and given.amount_minor is not None:
        detail = "either amountMinor or amount, not both"
        raise ValidationFailedError.of(FieldError(pointer=pointer, code="amount_once", detail=detail))
    if given.amount is None and given.amount_minor is None:
        if given.currency not in {None, row["currency"]}:
            detail = "another currency needs its amount"
            raise ValidationFailedError.of(FieldError(pointer=pointer, code="amount_required", detail=detail))
        return int(row["amount_minor"])
    amount = given.amount_minor
    if given.amount is not None:
        try:
            amount = parse_decimal(given.amount, given.currency or row["currency"])
        except MoneyError as error:
            field = FieldError(pointer=pointer, code=error.code, detail=error.detail)
            if error.code == "amount_out_of_range":
                raise AmountOutOfRangeError(error.detail, errors=[field]) from None
            raise ValidationFailedError.of(field) from None
    least = row["settled_before_minor"] + 1
    if amount is None or not least <= amount <= AMOUNT_MINOR_MAX:
        detail = f"must be {least} to {AMOUNT_MINOR_MAX} minor units"
        field = FieldError(pointer=pointer, code="amount_out_of_range", detail=detail)
        raise AmountOutOfRangeError(detail, errors=[field])
    return amount


def _of_former_currency(row: dict[str, Any], given: ExpectedTransactionPatch) -> list[FieldError]:
    """Return which amounts would be taken for minor units of another currency than they were said in."""
    if given.currency in {None, row["currency"]}:
        return []
    errors = []
    for name in ("min_amount_minor", "max_amount_minor", "terms"):
        if row[name] is not None and name not in given.model_fields_set:
            detail = "another currency needs it anew, or null"
            errors.append(FieldError(pointer=f"/{to_camel(name)}", code="amount_required", detail=detail))
    if row["settled_before_minor"]:
        detail = "something of it was settled before, in the currency that it has"
        errors.append(FieldError(pointer="/currency", code="settled_before", detail=detail))
    return errors


def _metadata(present: dict[str, str], patch: dict[str, str | None] | None) -> dict[str, Any]:
    after = {} if patch is None else merged(present, patch)
    if len(after) > METADATA_ENTRIES_MAX:
        detail = f"has at most {METADATA_ENTRIES_MAX} members"
        raise ValidationFailedError.of(FieldError(pointer="/metadata", code="too_long", detail=detail))
    return after


def _check_annotations(row: dict[str, Any], given: ExpectedTransactionPatch) -> None:
    """Refuse other values of what is fixed while something is matched; raises ``ConflictError``."""
    refused = [
        to_camel(field)
        for field, column in COLUMNS_BY_FIELD.items()
        if field in given.model_fields_set and column not in ANNOTATIONS and _wanted(given, field) != row[column]
    ]
    if _is_other_amount(row, given):
        refused.append("amountMinor")
    if refused:
        detail = "cannot be changed while something is matched"
        errors = [FieldError(pointer=f"/{name}", code="invalid_state", detail=detail) for name in sorted(refused)]
        raise ConflictError(f"the expected transaction is {row['status'].replace('_', ' ')}", errors=errors)


def _wanted(given: ExpectedTransactionPatch, field: str) -> Any:
    """Return what a field that is given is to be, as its column holds it."""
    return stored_terms(given.terms) if field == "terms" else getattr(given, field)


def _is_other_amount(row: dict[str, Any], given: ExpectedTransactionPatch) -> bool:
    """Tell whether the amount is to be another one; a text that is no amount at all is not."""
    if given.amount is None:
        return given.amount_minor not in {None, row["amount_minor"]}
    try:
        return bool(parse_decimal(given.amount, row["currency"]) != row["amount_minor"])
    except MoneyError as error:
        return error.code != "decimal_malformed"


def _plain(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value
