"""Rows of a data set as rows of a tenant environment, made by the functions that requests and uploads use.

Texts are cleaned and bounded as those of uploaded files are. What no request could store, because it has no amount, no
known currency or no day, is left out and counted. The file's id becomes the ``externalId`` on both sides; the ids of
the service are consecutive, in the order of the rows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import polars as pl

from payrec.constants import (
    AMOUNT_MINOR_MAX,
    KEYS_VERSION,
    METADATA_ENTRIES_MAX,
    METADATA_KEY_LENGTH_MAX,
    METADATA_VALUE_LENGTH_MAX,
    REMITTANCE_LENGTH_MAX,
    TEXT_LENGTH_MAX,
)
from payrec.domain.caller import IdSource
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.expected_transactions import quoted_key
from payrec.domain.identity import fingerprint
from payrec.domain.incoming_transactions import (
    KEY_COLUMNS,
    STORED_COLUMNS,
    day_number,
    identity_of,
    open_row,
    stored_row,
)
from payrec.domain.matching.keys import ExpectedKeys, expected_keys, tie_key
from payrec.domain.statements import Direction, Entry
from payrec.formats import text
from payrec.storage.copy_text import copy_line

_COMMON: Final = ("created_at", "updated_at", "change_id")
_EXPECTED: Final = (
    "id", "amount_minor", *_COMMON, "due_on", "expected_from_on", "expected_to_on", "currency", "direction",
    "external_id", "reference", "end_to_end_id", "counterparty_name", "counterparty_account", "group_key", "metadata",
    "reference_key",
)  # fmt: skip
_EXPECTED_OPEN: Final = (
    "transaction_id", "open_minor", "total_minor", *ExpectedKeys._fields, "tie_key", "due_day", "from_day", "to_day",
    "direction", "currency", "keys_version",
)  # fmt: skip
_INCOMING: Final = (*STORED_COLUMNS, *_COMMON)
_INCOMING_OPEN: Final = (
    "transaction_id", "open_minor", "total_minor", "booking_day", "value_day", "direction", "pending", "currency",
    "keys_version", *KEY_COLUMNS,
)  # fmt: skip
_IGNORED: Final = (
    "side", "transaction_id", "amount_minor", "status", "reason_code", "version", "updated_at",
)  # fmt: skip

COLUMNS: Final = {
    "expected_transaction": _EXPECTED,
    "expected_open": _EXPECTED_OPEN,
    "incoming_transaction": _INCOMING,
    "incoming_open": _INCOMING_OPEN,
    "allocation": _IGNORED,
}
"""Columns of the rendered rows, by table, in the order in which they are loaded."""

_Rows = Iterator[tuple[str, tuple[Any, ...]]]


@dataclass(slots=True)
class Rendered:
    """One side's rows as COPY text, a file for each table, and what the new ids stand for."""

    files: dict[str, Path]
    ids: pl.DataFrame
    """``uuid`` (32 hex digits) and ``id``, the file's."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Rows that no request could store, by the column that is to blame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What the rows of one load have in common."""

    at: datetime
    change_id: UUID

    @property
    def values(self) -> tuple[str, str, UUID]:
        """The values of created_at, updated_at and change_id."""
        return (self.at.isoformat(), self.at.isoformat(), self.change_id)


def render_expected(frame: pl.DataFrame, folder: Path, *, ids: IdSource, stamp: Stamp) -> Rendered:
    """Render the expected transactions of a data set into the folder."""
    return _rendered(frame, folder, ids, lambda row, made, left_out: _expected_rows(row, made, stamp, left_out))


def render_incoming(frame: pl.DataFrame, folder: Path, *, ids: IdSource, stamp: Stamp) -> Rendered:
    """Render the lines of a data set into the folder."""
    return _rendered(frame, folder, ids, lambda row, made, left_out: _incoming_rows(row, made, stamp, left_out))


def _rendered(
    frame: pl.DataFrame,
    folder: Path,
    ids: IdSource,
    rows_of: Callable[[tuple[Any, ...], UUID, Counter[str]], _Rows],
) -> Rendered:
    folder.mkdir(parents=True)
    left_out: Counter[str] = Counter()
    first = ids.block(max(frame.height, 1))
    files = {table: (folder / table).open("w", encoding="utf-8", newline="\n") for table in COLUMNS}
    try:
        for number, row in enumerate(frame.iter_rows()):
            for table, values in rows_of(row, UUID(int=first + number), left_out):
                files[table].write(copy_line(values))
    finally:
        for file in files.values():
            file.close()
    uuids = [f"{number:032x}" for number in range(first, first + frame.height)]
    return Rendered(
        files={table: folder / table for table in COLUMNS if (folder / table).stat().st_size},
        ids=pl.DataFrame({"uuid": pl.Series(uuids, dtype=pl.String), "id": frame["id"]}),
        left_out=left_out,
    )


def _fault(amount: int | None, currency: str | None, *, least: int) -> str | None:
    """Return the column for which the service would refuse the row."""
    if amount is None or not least <= abs(amount) <= AMOUNT_MINOR_MAX:
        return "amount_minor"
    return None if currency in MINOR_UNITS else "currency"


def _clean(value: str | None, limit: int = TEXT_LENGTH_MAX) -> str | None:
    return text.clean(value[:limit]) if value else None


def _direction(amount: int) -> Direction:
    return "credit" if amount >= 0 else "debit"


def _expected_rows(row: tuple[Any, ...], made: UUID, stamp: Stamp, left_out: Counter[str]) -> _Rows:
    number, amount, currency, due, from_on, to_on, reference, name, iban, end_to_end_id, batch_id, metadata = row
    fault = _fault(amount, currency, least=1)
    if fault is not None:
        left_out[fault] += 1
        return
    if from_on is not None and to_on is not None and from_on > to_on:
        from_on = to_on = None
    reference, name, end_to_end_id, batch_id = map(_clean, (reference, name, end_to_end_id, batch_id))
    account = text.account(iban[:TEXT_LENGTH_MAX]) if iban else None
    keys = expected_keys(
        reference=reference,
        end_to_end_id=end_to_end_id,
        counterparty_name=name,
        counterparty_account=account,
        group=batch_id,
    )
    direction, minor, external_id = _direction(amount), abs(amount), str(number)
    yield (
        "expected_transaction",
        (
            made,
            minor,
            *stamp.values,
            due,
            from_on,
            to_on,
            currency,
            direction,
            external_id,
            reference,
            end_to_end_id,
            name,
            account,
            batch_id,
            _metadata(metadata),
            quoted_key(keys.reference_key),
        ),
    )
    days: tuple[date | None, ...] = (due, from_on, to_on)
    yield (
        "expected_open",
        (
            made,
            minor,
            minor,
            *keys,
            tie_key(external_id),
            *map(day_number, days),
            1 if amount > 0 else -1,
            currency,
            KEYS_VERSION,
        ),
    )


def _metadata(stored: str | None) -> dict[str, str]:
    """Return what of a JSON text may be metadata."""
    if not stored:
        return {}
    try:
        found = json.loads(stored)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    pairs = (
        (_clean(key, METADATA_KEY_LENGTH_MAX), _clean(str(value), METADATA_VALUE_LENGTH_MAX))
        for key, value in list(found.items())[:METADATA_ENTRIES_MAX]
    )
    return {key: value or "" for key, value in pairs if key}


def _incoming_rows(row: tuple[Any, ...], made: UUID, stamp: Stamp, left_out: Counter[str]) -> _Rows:
    number, amount, currency, booked, value_on, remittance, name, iban, end_to_end_id, code = row
    booked = booked or value_on
    fault = _fault(amount, currency, least=0) or (None if booked is not None else "booking_date")
    if fault is not None:
        left_out[fault] += 1
        return
    entry = Entry(
        direction=_direction(amount),
        amount_minor=abs(amount),
        currency=currency,
        booking_on=booked,
        value_on=value_on,
        external_id=str(number),
        remittance=text.clean_lines(remittance[:REMITTANCE_LENGTH_MAX]) if remittance else None,
        counterparty_name=_clean(name),
        counterparty_account=text.account(iban[:TEXT_LENGTH_MAX]) if iban else None,
        end_to_end_id=text.reference(end_to_end_id[:TEXT_LENGTH_MAX]) if end_to_end_id else None,
        bank_transaction_code=_clean(code),
    )
    entry.fingerprint = fingerprint(entry)
    identity = identity_of(entry)
    yield (
        "incoming_transaction",
        (*stored_row(entry, transaction_id=made, identity=identity).values(), *stamp.values),
    )
    if not amount:
        # As a request or an upload stores it: nothing is open, so nothing can be matched.
        yield "allocation", (2, made, 0, "ignored", "zero_amount", 1, stamp.at.isoformat())
        return
    opened = open_row(entry, transaction_id=made, identity=identity)
    yield "incoming_open", tuple(opened[name] for name in _INCOMING_OPEN)
