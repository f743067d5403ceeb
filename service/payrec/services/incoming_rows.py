"""What is given of an incoming transaction as it is stored: one way for requests and bulk requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

from payrec.domain.changes import Record
from payrec.domain.identity import fingerprint
from payrec.domain.incoming_transactions import open_row, stored_row, tie_identity
from payrec.domain.statements import Batch, Entry, Money
from payrec.models.incoming_transactions import IncomingTransactionCreate
from payrec.services.validation import amount_of
from payrec.services.work import Unit

_SAME: Final = [
    "account",
    "direction",
    "currency",
    "external_id",
    "remittance",
    "structured_reference",
    "end_to_end_id",
    "bank_reference",
    "counterparty_name",
    "counterparty_account",
    "ultimate_counterparty_name",
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


def stated(given: IncomingTransactionCreate) -> Entry:
    """Return what is given as an entry of a statement, with the fingerprint of its content.

    Raises
    ------
    AmountOutOfRangeError, ValidationFailedError
    """
    entry = Entry(
        amount_minor=amount_of(given, least=0),
        booking_on=given.booking_date,
        value_on=given.value_date,
        status="pending" if given.status == "pending" else "booked",
        charges=[Money(c.amount_minor, c.currency, c.direction) for c in given.charges],
        batch=Batch(given.group_key, None, itemised=False) if given.group_key is not None else None,
        **{name: getattr(given, name) for name in _SAME},
    )
    entry.fingerprint = fingerprint(entry)
    return entry


def named(entry: Entry, transaction_id: UUID) -> Entry:
    """Return the entry by that id: without an externalId, every request is a transaction of its own."""
    entry.identity_kind = "bank"
    entry.identity_value = str(transaction_id)
    return entry


def rows_of(
    entry: Entry, *, transaction_id: UUID, identity: bytes, unit: Unit
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what is stored of an entry, and its open row."""
    stored = {
        **stored_row(entry, transaction_id=transaction_id, identity=identity),
        "statement_index": None,
        "created_at": unit.now,
        "updated_at": unit.now,
        "change_id": unit.change_id,
    }
    tie = tie_identity(identity, entry.fingerprint, declared=entry.external_id)
    return stored, open_row(entry, transaction_id=transaction_id, identity=tie)


def accounts_of(entries: Iterable[Entry]) -> dict[tuple[str, str], str]:
    """Return the accounts that entries of requests name, by identifier and currency, with their kind."""
    return {(entry.account, entry.currency): "bank" for entry in entries if entry.account is not None}


def creation(entry: Entry, transaction_id: UUID) -> Record:
    """Return what is recorded of an entry that was stored."""
    return Record(
        action="incoming_transaction.created",
        resource_id=transaction_id,
        after={"amountMinor": entry.amount_minor, "currency": entry.currency, "externalId": entry.external_id},
    )


def repeats(entry: Entry, twin: dict[str, Any]) -> bool:
    """Tell whether an entry is refused for a stored one of its content: a booking never is for an announcement."""
    return entry.amount_minor > 0 and (entry.status != "booked" or not twin["pending"])
