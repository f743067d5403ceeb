"""An incoming transaction as it is stored, made from an entry of a statement or of a request: one way for both."""

from __future__ import annotations

from datetime import date
from typing import Any, Final
from uuid import UUID

from payrec.domain.identity import FINGERPRINT_BYTES, bank_key, content_key
from payrec.domain.matching.keys import incoming_keys
from payrec.domain.returns import takes_back
from payrec.domain.statements import Entry, Money

_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()


def day_number(day: date | None) -> int | None:
    """Return days since 1970-01-01."""
    return None if day is None else day.toordinal() - _EPOCH_ORDINAL


def identity_of(entry: Entry) -> bytes:
    """Return the identity that a tenant environment keeps unique.

    An id that the file or the request itself declares (``externalId``) is unique whatever the account, and twice in
    one file it is still the same transaction.
    """
    if entry.external_id is not None:
        return bank_key(None, entry.external_id, 0)
    if entry.identity_kind == "bank":
        return bank_key(entry.account, entry.identity_value, entry.occurrence)
    return content_key(entry.fingerprint, entry.occurrence)


def identity_before(entry: Entry) -> bytes | None:
    """Return the identity that the entry has where the other one of its id is missing; None for nearly all entries.

    A bank that uses an id twice in one statement may show the second entry alone in another one.
    """
    if entry.reused_id is None or entry.external_id is not None:
        return None
    return bank_key(entry.account, entry.reused_id, entry.occurrence)


STORED_COLUMNS: Final = (
    "id", "amount_minor", "net_minor", "original_minor", "booking_on", "value_on", "statement_index", "line",
    "pending", "reversal", "identity", "fingerprint", "currency", "direction", "external_id", "account", "remittance",
    "structured_reference", "end_to_end_id", "bank_reference", "counterparty_name", "counterparty_account",
    "bank_transaction_code", "group_key", "mandate_id", "instruction_id", "transaction_id", "uetr", "purpose_code",
    "return_reason", "net_currency", "original_currency", "exchange_rate", "charges", "batch", "metadata",
)  # fmt: skip
"""Columns of ``incoming_transaction`` that an entry decides, in the order of ``stored_values``."""

KEY_COLUMNS: Final = (
    "reference_keys", "end_to_end_key", "name_key", "account_key", "own_account_key", "group_key", "tie_key",
    "reversal",
)  # fmt: skip
"""Columns of ``incoming_open`` that are computed; the others repeat the transaction."""


def stored_values(entry: Entry, *, transaction_id: UUID | str, identity: bytes) -> tuple[Any, ...]:
    """Return the values of STORED_COLUMNS. A tuple, because a file has millions of entries."""
    net, original, batch = entry.net, entry.original, entry.batch
    return (
        transaction_id,
        entry.amount_minor,
        _signed(net),
        original.amount_minor if original is not None else None,
        entry.booking_on,
        entry.value_on,
        entry.statement,
        entry.line,
        entry.status != "booked",
        entry.reversal,
        identity,
        entry.fingerprint,
        entry.currency,
        entry.direction,
        entry.external_id,
        entry.account,
        entry.remittance,
        entry.structured_reference,
        entry.end_to_end_id,
        entry.bank_reference,
        entry.counterparty_name,
        entry.counterparty_account,
        entry.bank_transaction_code,
        batch.group_key if batch is not None else None,
        entry.mandate_id,
        entry.instruction_id,
        entry.transaction_id,
        entry.uetr,
        entry.purpose_code,
        entry.return_reason,
        net.currency if net is not None else None,
        original.currency if original is not None else None,
        entry.exchange_rate,
        tuple(_money(c) for c in entry.charges) if entry.charges else None,
        {"groupKey": batch.group_key, "count": batch.count, "itemised": batch.itemised} if batch is not None else None,
        # The interface has no field for it, and whoever pays by check looks for nothing else.
        {"checkNumber": entry.check_number, **entry.metadata} if entry.check_number is not None else entry.metadata,
    )


def key_values(entry: Entry, *, identity: bytes) -> tuple[Any, ...]:
    """Return the values of KEY_COLUMNS: what matching joins on, and whether it takes a payment back."""
    batch = entry.batch
    keys = incoming_keys(
        remittance=entry.remittance,
        structured_reference=entry.structured_reference,
        end_to_end_id=entry.end_to_end_id,
        counterparty_name=entry.counterparty_name,
        counterparty_account=entry.counterparty_account,
        account=entry.account,
        group=batch.group_key if batch is not None else None,
    )
    reversal = entry.reversal
    if entry.bank_transaction_code or entry.return_reason:
        reversal = takes_back(
            reversal=reversal,
            bank_transaction_code=entry.bank_transaction_code,
            return_reason=entry.return_reason,
        )
    # The identity is a hash of content already: half of it, and which of several it is, order what is otherwise equal.
    tie = int.from_bytes(identity[:8], "big", signed=True)
    if len(identity) > FINGERPRINT_BYTES:
        tie ^= int.from_bytes(identity[FINGERPRINT_BYTES:], "big")
    return (*keys, tie, reversal)


def stored_row(entry: Entry, *, transaction_id: UUID, identity: bytes) -> dict[str, Any]:
    """Return the columns of ``incoming_transaction`` that the entry decides."""
    values = stored_values(entry, transaction_id=transaction_id, identity=identity)
    return dict(zip(STORED_COLUMNS, values, strict=True))


def open_row(entry: Entry, *, transaction_id: UUID, identity: bytes) -> dict[str, Any]:
    """Return the row of ``incoming_open``: what matching reads of the entry."""
    return {
        **dict(zip(KEY_COLUMNS, key_values(entry, identity=identity), strict=True)),
        "transaction_id": transaction_id,
        "open_minor": entry.amount_minor,
        "total_minor": entry.amount_minor,
        "booking_day": day_number(entry.booking_on),
        "value_day": day_number(entry.value_on),
        "direction": 1 if entry.direction == "credit" else -1,
        "pending": entry.status != "booked",
        "currency": entry.currency,
    }


def _signed(money: Money | None) -> int | None:
    if money is None:
        return None
    return -money.amount_minor if money.direction == "debit" else money.amount_minor


def _money(money: Money) -> dict[str, Any]:
    return {"amountMinor": money.amount_minor, "currency": money.currency, "direction": money.direction}
