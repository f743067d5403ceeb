"""What is given of an expected transaction as it is stored: one way for requests, bulk requests and files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

from payrec.domain.changes import Record
from payrec.domain.expected_transactions import open_row, quoted_key
from payrec.domain.issued_references import issued_reference
from payrec.domain.money import format_minor
from payrec.errors import FieldError, ValidationFailedError
from payrec.models.expected_transactions import ExpectedTransactionCreate, ExpectedTransactionPublic, PaymentTerm
from payrec.services.validation import amount_of

COLUMNS_BY_FIELD: Final = {
    "direction": "direction",
    "currency": "currency",
    "external_id": "external_id",
    "min_amount_minor": "min_amount_minor",
    "max_amount_minor": "max_amount_minor",
    "due_date": "due_on",
    "expected_from": "expected_from_on",
    "expected_to": "expected_to_on",
    "reference": "reference",
    "end_to_end_id": "end_to_end_id",
    "counterparty_name": "counterparty_name",
    "counterparty_account": "counterparty_account",
    "account": "account",
    "group_key": "group_key",
    "description": "description",
    "metadata": "metadata",
    "terms": "terms",
}
"""Fields of the interface, as Python calls them, and the columns that hold them as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What was given, and what its amounts come to."""

    given: ExpectedTransactionCreate
    amount_minor: int
    open_minor: int


def stated(given: ExpectedTransactionCreate) -> Stated:
    """Return what is given with its amounts, when all of it can be.

    Raises
    ------
    AmountOutOfRangeError, ValidationFailedError
    """
    amount_minor = amount_of(given, least=1)
    errors = contradictions(
        amount_minor=amount_minor,
        min_amount_minor=given.min_amount_minor,
        max_amount_minor=given.max_amount_minor,
        expected_from=given.expected_from,
        expected_to=given.expected_to,
        terms=stored_terms(given.terms),
    )
    open_minor = amount_minor if given.open_amount_minor is None else given.open_amount_minor
    if open_minor > amount_minor:
        detail = "must not be above the amount"
        errors.append(FieldError(pointer="/openAmountMinor", code="open_exceeds_amount", detail=detail))
    if given.issue_reference is not None and given.reference is not None:
        detail = "either a reference is given, or one is issued"
        errors.append(FieldError(pointer="/issueReference", code="reference_once", detail=detail))
    if errors:
        raise ValidationFailedError.of(*errors)
    return Stated(given=given, amount_minor=amount_minor, open_minor=open_minor)


def contradictions(
    *,
    amount_minor: int,
    min_amount_minor: int | None,
    max_amount_minor: int | None,
    expected_from: date | None,
    expected_to: date | None,
    terms: Sequence[dict[str, Any]] | None,
) -> list[FieldError]:
    """Return what cannot be together."""
    errors = []
    if min_amount_minor is not None and min_amount_minor > amount_minor:
        detail = "must not be above the amount"
        errors.append(FieldError(pointer="/minAmountMinor", code="band_excludes_amount", detail=detail))
    if max_amount_minor is not None and max_amount_minor < amount_minor:
        detail = "must not be below the amount"
        errors.append(FieldError(pointer="/maxAmountMinor", code="band_excludes_amount", detail=detail))
    if expected_from and expected_to and expected_from > expected_to:
        detail = "must not be before expectedFrom"
        errors.append(FieldError(pointer="/expectedTo", code="range_reversed", detail=detail))
    days = [term["until"] for term in terms or ()]
    if len(set(days)) < len(days):
        errors.append(FieldError(pointer="/terms", code="term_twice", detail="two terms end on one day"))
    if any(term["amountMinor"] >= amount_minor for term in terms or ()):
        detail = "a term asks for less than the amount"
        errors.append(FieldError(pointer="/terms", code="term_not_below_amount", detail=detail))
    return errors


def stored_terms(given: Sequence[PaymentTerm] | None) -> list[dict[str, Any]] | None:
    """Return terms as they are stored, by day; None where there are none."""
    terms = [{"amountMinor": term.amount_minor, "until": term.until.isoformat()} for term in given or ()]
    return sorted(terms, key=lambda term: (term["until"], term["amountMinor"])) or None


def stored_rows(
    found: Stated, *, transaction_id: UUID, at: datetime, change_id: UUID
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the row of ``expected_transaction``, with the reference that is issued if asked for, and its open row."""
    given = found.given
    row: dict[str, Any] = {
        "id": transaction_id,
        "amount_minor": found.amount_minor,
        "settled_before_minor": found.amount_minor - found.open_minor,
        "created_at": at,
        "updated_at": at,
        "change_id": change_id,
        **{name: getattr(given, field) for field, name in COLUMNS_BY_FIELD.items()},
        "reference_issued": given.issue_reference is not None,
    }
    terms = stored_terms(given.terms)
    # A tuple is JSON for who copies it.
    row["terms"] = None if terms is None else tuple(terms)
    if given.issue_reference is not None:
        row["reference"] = issued_reference(given.issue_reference, transaction_id)
    opened = open_row(row)
    row["reference_key"] = quoted_key(opened["reference_key"])
    return row, opened


def rows_of(
    items: Sequence[Stated], *, first_id: int, at: datetime, change_id: UUID
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of items that are numbered one after the other, and their open rows."""
    both = [
        stored_rows(item, transaction_id=UUID(int=first_id + place), at=at, change_id=change_id)
        for place, item in enumerate(items)
    ]
    return [row for row, _ in both], [opened for _, opened in both]


def creation(row: dict[str, Any]) -> Record:
    """Return what is recorded of a row that is stored."""
    return Record(
        action="expected_transaction.created",
        resource_id=row["id"],
        after={
            "amountMinor": row["amount_minor"],
            "currency": row["currency"],
            "externalId": row["external_id"],
            **({"reference": row["reference"]} if row["reference_issued"] else {}),
            **({"openAmountMinor": open_row(row)["open_minor"]} if row["settled_before_minor"] else {}),
        },
    )


def created(row: dict[str, Any], day: date) -> ExpectedTransactionPublic:
    """Return the resource of a row that was just stored: nothing of it can have changed yet."""
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
            "void_reason": None,
            "matched_amount_minor": 0,
            "open_amount_minor": row["amount_minor"] - row["settled_before_minor"],
        }
    )


def public_of(row: dict[str, Any]) -> ExpectedTransactionPublic:
    """Return the resource of a stored row."""
    return ExpectedTransactionPublic.model_validate(
        {**row, "amount": format_minor(row["amount_minor"], row["currency"]), "terms": row["terms"] or []}
    )
