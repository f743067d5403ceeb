"""An incoming transaction as it is stored, made from an entry of a statement or of a request: one way for both."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final, overload
from uuid import UUID

from payrec.constants import KEYS_VERSION
from payrec.domain.identity import FINGERPRINT_BYTES, bank_key, content_key
from payrec.domain.matching.digits import quoted_digits, series_digits
from payrec.domain.matching.keys import account_key, name_key, reference_key, remittance_keys, text_name_keys
from payrec.domain.returns import takes_back
from payrec.domain.statements import Batch, Entry, Money

_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()


@overload
def day_number(day: date) -> int: ...
@overload
def day_number(day: date | None) -> int | None: ...
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
    "ultimate_counterparty_name",
)  # fmt: skip
"""Columns of ``incoming_transaction`` that an entry decides, in the order of ``stored_columns``."""

KEY_COLUMNS: Final = (
    "reference_keys", "end_to_end_key", "name_key", "account_key", "own_account_key", "group_key", "quoted_digits",
    "ultimate_name_key", "text_name_keys", "series_digits", "tie_key", "reversal",
)  # fmt: skip
"""Columns of ``incoming_open`` that are computed; the others repeat the transaction."""


_OPENING: Final = (
    "currency", "direction", "account", "remittance", "structured_reference", "end_to_end_id", "counterparty_name",
    "counterparty_account", "ultimate_counterparty_name", "bank_transaction_code", "return_reason", "reversal",
)  # fmt: skip
"""Fields of an entry that its open row is made of, and that a stored transaction calls the same."""


def stored_columns(
    entries: Sequence[Entry], *, transaction_ids: Sequence[UUID | str], identities: Sequence[bytes]
) -> tuple[Sequence[Any], ...]:
    """Return the values of STORED_COLUMNS, column by column: a file has millions of entries, and most have no value."""
    nets, originals = [e.net for e in entries], [e.original for e in entries]
    batches = [e.batch for e in entries]
    return (
        transaction_ids,
        [e.amount_minor for e in entries],
        [None if m is None else -m.amount_minor if m.direction == "debit" else m.amount_minor for m in nets],
        [None if m is None else m.amount_minor for m in originals],
        [e.booking_on for e in entries],
        [e.value_on for e in entries],
        [e.statement for e in entries],
        [e.line for e in entries],
        [e.status != "booked" for e in entries],
        [e.reversal for e in entries],
        identities,
        [e.fingerprint for e in entries],
        [e.currency for e in entries],
        [e.direction for e in entries],
        [e.external_id for e in entries],
        [e.account for e in entries],
        [e.remittance for e in entries],
        [e.structured_reference for e in entries],
        [e.end_to_end_id for e in entries],
        [e.bank_reference for e in entries],
        [e.counterparty_name for e in entries],
        [e.counterparty_account for e in entries],
        [e.bank_transaction_code for e in entries],
        [None if b is None else b.group_key for b in batches],
        [e.mandate_id for e in entries],
        [e.instruction_id for e in entries],
        [e.transaction_id for e in entries],
        [e.uetr for e in entries],
        [e.purpose_code for e in entries],
        [e.return_reason for e in entries],
        [None if m is None else m.currency for m in nets],
        [None if m is None else m.currency for m in originals],
        [e.exchange_rate for e in entries],
        [tuple(map(_money, e.charges)) if e.charges else None for e in entries],
        [None if b is None else _batch(b) for b in batches],
        # The interface has no field for it, and whoever pays by check looks for nothing else.
        [e.metadata if e.check_number is None else {"checkNumber": e.check_number, **e.metadata} for e in entries],
        [e.ultimate_counterparty_name for e in entries],
    )


def key_columns(entries: Sequence[Entry], *, identities: Sequence[bytes]) -> tuple[Sequence[Any], ...]:
    """Return the values of KEY_COLUMNS, column by column: what matching joins on, and whether it takes money back."""
    return (
        [remittance_keys(e.remittance, e.structured_reference, end_to_end_id=e.end_to_end_id) for e in entries],
        [reference_key(e.end_to_end_id) if e.end_to_end_id else None for e in entries],
        [name_key(e.counterparty_name) if e.counterparty_name else None for e in entries],
        [account_key(e.counterparty_account) if e.counterparty_account else None for e in entries],
        [account_key(e.account) if e.account else None for e in entries],
        [None if e.batch is None else reference_key(e.batch.group_key) for e in entries],
        [quoted_digits(e.remittance, e.structured_reference) for e in entries],
        [name_key(e.ultimate_counterparty_name) if e.ultimate_counterparty_name else None for e in entries],
        [None if e.counterparty_name else text_name_keys(e.remittance) for e in entries],
        [series_digits(e.remittance) for e in entries],
        tie_keys(identities),
        [
            takes_back(
                reversal=e.reversal, bank_transaction_code=e.bank_transaction_code, return_reason=e.return_reason
            )
            if e.bank_transaction_code or e.return_reason
            else e.reversal
            for e in entries
        ],
    )


def tie_keys(identities: Sequence[bytes]) -> Sequence[int]:
    """Return what orders lines that are otherwise equal.

    The identity is a hash of content already: half of it, and which of several it is.
    """
    ties = struct.unpack(">" + "q8x" * len(identities), b"".join([i[:FINGERPRINT_BYTES] for i in identities]))
    if max(map(len, identities)) == FINGERPRINT_BYTES:
        return ties
    ordinals = [int.from_bytes(i[FINGERPRINT_BYTES:], "big") for i in identities]
    return [tie ^ ordinal for tie, ordinal in zip(ties, ordinals, strict=True)]


def stored_row(entry: Entry, *, transaction_id: UUID, identity: bytes) -> dict[str, Any]:
    """Return the columns of ``incoming_transaction`` that the entry decides."""
    columns = stored_columns([entry], transaction_ids=[transaction_id], identities=[identity])
    return {name: value for name, (value,) in zip(STORED_COLUMNS, columns, strict=True)}


def open_row(entry: Entry, *, transaction_id: UUID, identity: bytes) -> dict[str, Any]:
    """Return the row of ``incoming_open``: what matching reads of the entry."""
    keys = key_columns([entry], identities=[identity])
    return {
        **{name: key for name, (key,) in zip(KEY_COLUMNS, keys, strict=True)},
        "transaction_id": transaction_id,
        "open_minor": entry.amount_minor,
        "total_minor": entry.amount_minor,
        "booking_day": day_number(entry.booking_on),
        "value_day": day_number(entry.value_on),
        "direction": 1 if entry.direction == "credit" else -1,
        "pending": entry.status != "booked",
        "currency": entry.currency,
        "keys_version": KEYS_VERSION,
    }


def open_row_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of ``incoming_open`` of a stored transaction of which everything is open, as it was at first.

    ``row`` has the columns of ``incoming_transaction``.
    """
    entry = Entry(
        amount_minor=row["amount_minor"],
        booking_on=row["booking_on"],
        value_on=row["value_on"],
        status="pending" if row["pending"] else "booked",
        batch=None if row["group_key"] is None else Batch(row["group_key"], None, itemised=False),
        **{name: row[name] for name in _OPENING},
    )
    identity = tie_identity(row["identity"], row["fingerprint"], declared=row["external_id"] or row["import_id"])
    opened = open_row(entry, transaction_id=row["id"], identity=identity)
    return {**opened, "revision": row["revision"], "duplicate": row["duplicate"]}


def tie_identity(identity: bytes, fingerprint: bytes, *, declared: object) -> bytes:
    """Return what orders a transaction among equal ones, given what says who it is: its externalId or its file.

    An identity made of our own id says nothing: what is equal otherwise must look equal to matching.
    """
    return fingerprint if declared is None else identity


def _money(money: Money) -> dict[str, Any]:
    return {"amountMinor": money.amount_minor, "currency": money.currency, "direction": money.direction}


def _batch(batch: Batch) -> dict[str, Any]:
    return {"groupKey": batch.group_key, "count": batch.count, "itemised": batch.itemised}
