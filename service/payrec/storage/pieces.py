"""Pieces of a file: its rows as they go into the tables, and what is asked of them before.

A piece is rendered while the file is read, so that the event loop only moves bytes. Its text is the same for the real
tables and for the temporary ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from payrec.constants import KEYS_VERSION
from payrec.domain.incoming_transactions import KEY_COLUMNS, STORED_COLUMNS, day_number
from payrec.domain.pages import PageLine
from payrec.storage.copy_text import Column, column_texts, copy_line, each, lines_of

_AT: Final = {name: at for at, name in enumerate(STORED_COLUMNS)}

TRANSACTION_COLUMNS: Final = (
    *("identity", *(name for name in STORED_COLUMNS if name != "identity")),
    *("created_at", "updated_at", "change_id", "import_id"),
)
"""Columns of ``incoming_transaction`` that a piece fills. What lines are sorted by is in front."""

OPEN_COLUMNS: Final = (
    *("transaction_id", "open_minor", "total_minor", "booking_day", "value_day", "direction", "pending", "currency"),
    *("keys_version", *KEY_COLUMNS),
)
"""Columns of ``incoming_open`` that a piece fills."""

_STORED_ORDER: Final = (_AT["identity"], *(at for name, at in _AT.items() if name != "identity"))
_SIGNS: Final = {"credit": "1", "debit": "-1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What all rows of an import have in common."""

    at: datetime
    change_id: UUID
    import_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Some rows of a file."""

    rows: int
    transactions: bytes
    """COPY text in TRANSACTION_COLUMNS, in one order for everybody: by identity."""
    opened: bytes
    """COPY text in OPEN_COLUMNS. A row of nothing has none."""
    identities: str
    """Array of ``bytea``."""
    unique: bool
    """No two rows have the same identity."""
    pending: bool
    """Some rows are pending."""
    ignored: list[str]
    """Ids of the rows of nothing."""
    recalled: list[tuple[str, bytes]]
    """Ids of rows that may be stored under another identity, and this."""
    paged: list[tuple[str, PageLine]]
    """Ids of rows that stand on a page of a statement, and what they are there."""


class PieceWriter:
    """Renders rows, block by block; ``take`` ends a piece and begins the next."""

    def __init__(self, stamp: Stamp) -> None:
        self._stamp = copy_line((stamp.at, stamp.at, stamp.change_id, stamp.import_id))[:-1]
        self._begin()

    def _begin(self) -> None:
        self._transactions: list[str] = []
        self._opened: list[str] = []
        self._identities: list[str] = []
        self._pending = False
        self._ignored: list[str] = []
        self._recalled: list[tuple[str, bytes]] = []

    def add(
        self, stored: Sequence[Sequence[Any]], keys: Sequence[Sequence[Any]], *, before: Sequence[bytes | None]
    ) -> None:
        """Add a block of rows: the values of STORED_COLUMNS and of KEY_COLUMNS, and the identities before."""
        count = len(before)
        texts, keys_texts = column_texts(stored), column_texts(keys)
        self._transactions += lines_of([*(texts[at] for at in _STORED_ORDER), self._stamp], count)
        ids, amounts, identities = (texts[_AT[name]] for name in ("id", "amount_minor", "identity"))
        opened = lines_of(
            [
                *(ids, amounts, amounts),
                _mapped(stored[_AT["booking_on"]], _day),
                _mapped(stored[_AT["value_on"]], _day),
                _mapped(stored[_AT["direction"]], _SIGNS.__getitem__),
                *(texts[_AT["pending"]], texts[_AT["currency"]], str(KEYS_VERSION), *keys_texts),
            ],
            count,
        )
        self._identities += each(identities, count)
        self._pending = self._pending or True in stored[_AT["pending"]]
        if 0 in (minors := stored[_AT["amount_minor"]]):
            self._ignored += [row for row, minor in zip(each(ids, count), minors, strict=True) if not minor]
            opened = [line for line, minor in zip(opened, minors, strict=True) if minor]
        self._opened += opened
        if any(before):
            found = zip(each(ids, count), before, strict=True)
            self._recalled += [(row, identity) for row, identity in found if identity is not None]

    def take(self, paged: list[tuple[str, PageLine]]) -> Piece:
        """Return what was added since the last time, and which of it stands on pages."""
        lines, identities = self._transactions, self._identities
        lines.sort()
        piece = Piece(
            rows=len(lines),
            transactions="".join(lines).encode(),
            opened="".join(self._opened).encode(),
            identities='{"' + '","'.join(identities) + '"}',
            unique=len(set(identities)) == len(identities),
            pending=self._pending,
            ignored=self._ignored,
            recalled=self._recalled,
            paged=paged,
        )
        self._begin()
        return piece


def _mapped(values: Sequence[Any], text: Any) -> Column:
    first = values[0]
    return text(first) if values.count(first) == len(values) else list(map(text, values))


@lru_cache(maxsize=1024)
def _day(day: date | None) -> str:
    """Return days since 1970-01-01, as COPY text."""
    return copy_line((day_number(day),))[:-1]
