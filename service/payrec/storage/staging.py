"""Bulk loading: pieces go into the tables by COPY, or through temporary tables and as sets where rows are known.

A piece none of whose rows is known takes the short way. The temporary tables are for those of which some are, and for
what somebody else stores at the same time. The database stores one piece while the next is read.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final

from psycopg import errors

from payrec.domain.incoming_transactions import KEY_COLUMNS, STORED_COLUMNS, tie_keys
from payrec.domain.pages import PageLine
from payrec.storage.database import Connection
from payrec.storage.duplicates import DuplicateStore
from payrec.storage.history import allocations_logged
from payrec.storage.loading import ContendedError, analyze_grown
from payrec.storage.pages import PageLineStore
from payrec.storage.period_locks import PeriodLockStore
from payrec.storage.pieces import OPEN_COLUMNS, TRANSACTION_COLUMNS, Piece, Stamp
from payrec.storage.rows import copy_in, fetch_all, fetch_one
from payrec.storage.temporary import make_temporary

SEND_BUFFER_BYTES: Final = 2 * 1024 * 1024
"""Bytes on their way to the database; the kernel may allow less."""

_STORED: Final = ", ".join(f'"{n}"' for n in TRANSACTION_COLUMNS)
_OPEN: Final = ", ".join(f'"{n}"' for n in OPEN_COLUMNS)
_LOADING_LOCK: Final = 0x6C6F_6164
"""Key of the advisory lock that all loading shares, and that has alone who met others at the same rows twice."""
_LOCK: Final = "SELECT pg_advisory_xact_lock{kind}(%s, hashtext(current_schema()))"
_COPY: Final = f"COPY incoming_transaction ({_STORED}) FROM STDIN"
_COPY_OPEN: Final = f"COPY incoming_open ({_OPEN}) FROM STDIN"
_CREATE: Final = f"""
    CREATE TEMPORARY TABLE staged ON COMMIT DROP AS SELECT {_STORED} FROM incoming_transaction WITH NO DATA;
    CREATE TEMPORARY TABLE staged_open ON COMMIT DROP AS SELECT {_OPEN} FROM incoming_open WITH NO DATA
"""  # noqa: S608 - columns of our own tables
_COPY_STAGED: Final = "COPY staged FROM STDIN"
_COPY_STAGED_OPEN: Final = "COPY staged_open FROM STDIN"
_KNOWN: Final = """
    SELECT EXISTS (
        SELECT 1 FROM unnest(%s::bytea[]) AS piece (identity) CROSS JOIN LATERAL (
            -- Each looked up by its index, whatever the planner thinks of a table without statistics.
            SELECT 1 FROM incoming_transaction t WHERE t.identity = piece.identity LIMIT 1
        ) t
    ) AS known
"""
_IGNORE: Final = """
    INSERT INTO allocation (side, transaction_id, amount_minor, status, reason_code, version, updated_at, change_id)
    SELECT 2, id, 0, 'ignored', 'zero_amount', 1, %(at)s, %(change_id)s FROM unnest(%(ids)s::uuid[]) AS id
"""
# What orders lines that are otherwise equal is made of the identity.
_NUMBER: Final = """
    WITH numbered AS (
        SELECT * FROM unnest(%(ids)s::uuid[], %(identities)s::bytea[], %(ties)s::bigint[]) AS n (id, identity, tie)
    ), opened AS (
        UPDATE staged_open o SET tie_key = n.tie FROM numbered n WHERE o.transaction_id = n.id
    )
    UPDATE staged s SET identity = n.identity FROM numbered n WHERE s.id = n.id
"""
_ANNOUNCED: Final = "SELECT EXISTS (SELECT 1 FROM incoming_transaction WHERE pending) AS announced"
# The second entry of an id is alone in some other statement, and there it is the first: it is stored under the id.
_RECALL: Final = """
    UPDATE staged s SET identity = r.identity FROM unnest(%(ids)s::uuid[], %(identities)s::bytea[]) AS r (id, identity)
    JOIN incoming_transaction t ON t.identity = r.identity
    WHERE s.id = r.id AND t.fingerprint = s.fingerprint
"""
_INSERT: Final = f"""
    WITH stored AS (
        INSERT INTO incoming_transaction ({_STORED}) SELECT {_STORED} FROM staged s WHERE s.pending = %(pending)s
        -- In one order for everybody: who waits for a row of another upload has none that the other waits for.
        ORDER BY s.identity
        ON CONFLICT DO NOTHING
        RETURNING id, amount_minor
    ), opened AS (
        INSERT INTO incoming_open ({_OPEN})
        SELECT {_OPEN} FROM staged_open WHERE transaction_id IN (SELECT id FROM stored)
    ), ignored AS (
        INSERT INTO allocation (side, transaction_id, amount_minor, status, reason_code, version, updated_at, change_id)
        SELECT 2, id, 0, 'ignored', 'zero_amount', 1, %(at)s, %(change_id)s FROM stored WHERE amount_minor = 0
    )
    SELECT count(*) AS count FROM stored
"""  # noqa: S608 - columns of our own tables
_BOOKED: Final = ", ".join(f'"{n}" = s."{n}"' for n in ("keys_version", *KEY_COLUMNS))
_STATED: Final = ", ".join(f'"{n}" = s."{n}"' for n in STORED_COLUMNS if n not in ("id", "identity", "external_id"))
# All that the booking states, as if it had come first; what was announced is kept.
_BOOKINGS: Final = f"""
    announced AS (
        SELECT t.id, t.revision, to_jsonb(t) AS stated, s.id AS staged_id
        FROM staged s JOIN incoming_transaction t ON t.identity = s.identity
        WHERE t.pending AND NOT s.pending
            AND t.direction = s.direction AND t.currency = s.currency AND (s.amount_minor > 0) = (t.amount_minor > 0)
        ORDER BY t.identity FOR UPDATE OF t
    ), stated AS (
        INSERT INTO stated_row (side, transaction_id, until_change_id, revision, stated)
        SELECT 2, id, %(change_id)s, revision, stated FROM announced ON CONFLICT DO NOTHING
    ), booked AS (
        UPDATE incoming_transaction t SET {_STATED}, import_id = %(import_id)s, updated_at = %(at)s,
            revision = t.revision + 1
        FROM announced a JOIN staged s ON s.id = a.staged_id WHERE t.id = a.id
        RETURNING t.id, t.revision, t.amount_minor, s.id AS staged_id
    ), touched AS (
        SELECT * FROM (
            SELECT a.transaction_id, b.amount_minor FROM booked b
            JOIN allocation a ON a.side = 2 AND a.transaction_id = b.id ORDER BY a.transaction_id FOR UPDATE OF a
        ) h
    )
"""  # noqa: S608 - columns of our own tables
# What is ignored stays so, and a line of 0 has no open row, nor does it get one.
_TOUCH: Final = """
    UPDATE allocation a SET amount_minor = t.amount_minor,
        status = CASE a.status WHEN 'pending' THEN 'unmatched' ELSE a.status END,
        version = a.version + 1, updated_at = %(at)s, change_id = %(change_id)s
    FROM touched t WHERE a.side = 2 AND a.transaction_id = t.transaction_id
"""
_OPENED: Final = f"""
    , held AS (
        SELECT * FROM (
            SELECT o.transaction_id FROM booked b JOIN incoming_open o ON o.transaction_id = b.id
            -- After the allocations, as everybody locks.
            WHERE (SELECT count(*) FROM changed) >= 0
            ORDER BY o.transaction_id FOR NO KEY UPDATE OF o
        ) h
    ), reopened AS (
        UPDATE incoming_open o SET pending = false, open_minor = s.open_minor, total_minor = s.total_minor,
            booking_day = s.booking_day, value_day = s.value_day, revision = b.revision, {_BOOKED}
        FROM held JOIN booked b ON b.id = held.transaction_id JOIN staged_open s ON s.transaction_id = b.staged_id
        WHERE o.transaction_id = held.transaction_id
    )
    SELECT count(*) AS count FROM booked
"""  # noqa: S608 - columns of our own tables
_BOOK: Final = (
    allocations_logged(
        _TOUCH, of="a.side = 2 AND a.transaction_id IN (SELECT transaction_id FROM touched)", before=_BOOKINGS
    )
    + _OPENED
)
# A bank that uses an id again has made another payment all the same: it is known by its content, as one without an id.
# The same file again finds it by that identity. What was announced under a known id is never another payment, and its
# date may change until it is booked.
_REUSED: Final = """
    WITH reused AS (
        SELECT DISTINCT s.id FROM staged s CROSS JOIN LATERAL (
            -- Each looked up by its index, whatever the planner thinks of a table without statistics.
            (SELECT o.* FROM incoming_transaction o WHERE o.identity = s.identity LIMIT 1)
            UNION ALL
            (SELECT o.* FROM incoming_transaction o WHERE o.external_id = s.external_id LIMIT 1)
        ) t
        WHERE t.id <> s.id AND t.fingerprint <> s.fingerprint AND NOT s.pending AND (
            t.amount_minor <> s.amount_minor OR t.direction <> s.direction OR t.currency <> s.currency
            OR (t.booking_on <> s.booking_on AND NOT t.pending)
        )
    )
    UPDATE staged s SET identity = s.fingerprint, external_id = NULL FROM reused r
    WHERE s.id = r.id AND s.identity <> s.fingerprint
    RETURNING s.statement_index, s.line
"""


class Care(IntEnum):
    """How much is done for others who store the same rows at the same time."""

    DIRECT = 0
    """Nothing: rows that nobody has stored are copied into the tables."""
    STAGED = 1
    """All rows go through the temporary tables."""
    ALONE = 2
    """And so they do when nobody else loads any more; nobody begins meanwhile."""


class Staging:
    """Loads pieces in the transaction of ``connection``. A booked row takes the place of its pending one and is new."""

    def __init__(self, connection: Connection, *, stamp: Stamp, care: Care = Care.DIRECT, reject: bool = False) -> None:
        self._connection = connection
        self._stamp = stamp
        self._reject = reject
        self._parameters = {"at": stamp.at, "import_id": stamp.import_id, "change_id": stamp.change_id}
        self._care = care
        self._locked = False
        self._created = False
        self.new = 0
        """Rows that were not there before."""
        self.reused: list[dict[str, Any]] = []
        """Statement and line of rows whose id somebody else has: ``statement_index``, ``line``."""
        self.rejected: list[dict[str, Any]] = []
        """The same of rows that are refused: their content is stored under another identity."""

    async def add(self, piece: Piece) -> None:
        """Store some rows.

        Raises
        ------
        ContendedError
            Another upload has the same rows.
        """
        if not self._locked:
            lock = _LOCK.format(kind="" if self._care is Care.ALONE else "_shared")
            await self._connection.execute(lock.encode(), (_LOADING_LOCK,))
            self._locked = True
            _widen(self._connection)
        try:
            moved = await self._moved(piece.paged) if piece.paged else []
            if self._care is Care.DIRECT and not moved and await self._is_new(piece):
                await self._copy(piece)
            else:
                await self._store(piece, moved)
        except errors.DeadlockDetected as error:
            raise ContendedError from error

    async def _is_new(self, piece: Piece) -> bool:
        """Tell whether nothing of a piece is stored, and nothing of it needs a look at what is."""
        if piece.recalled or not piece.unique:
            return False
        found = await fetch_one(self._connection, _KNOWN, (piece.identities,)) or {}
        return not found["known"]

    async def _moved(self, paged: Sequence[tuple[str, PageLine]]) -> list[tuple[str, bytes]]:
        """Return rows, and their identities, that are not the first equal ones of the pages of their statement."""
        numbers = await PageLineStore(self._connection).numbers([line for _, line in paged])
        return [
            (row, line.identity(number))
            for (row, line), number in zip(paged, numbers, strict=True)
            if number != line.occurrence
        ]

    async def _copy(self, piece: Piece) -> None:
        try:
            await copy_in(self._connection, _COPY, piece.transactions)
        except errors.UniqueViolation as error:
            raise ContendedError from error
        await copy_in(self._connection, _COPY_OPEN, piece.opened)
        if piece.ignored:
            await self._connection.execute(_IGNORE.encode(), {**self._parameters, "ids": piece.ignored})
        self.new += piece.rows

    async def _store(self, piece: Piece, moved: Sequence[tuple[str, bytes]]) -> None:
        if self._created:
            await self._connection.execute("TRUNCATE staged, staged_open")
        else:
            await make_temporary(self._connection, _CREATE)
            self._created = True
        await copy_in(self._connection, _COPY_STAGED, piece.transactions)
        await copy_in(self._connection, _COPY_STAGED_OPEN, piece.opened)
        if moved:
            ids, identities = map(list, zip(*moved, strict=True))
            parameters = {"ids": ids, "identities": identities, "ties": list(tie_keys(identities))}
            await self._connection.execute(_NUMBER.encode(), parameters)
        if piece.recalled:
            ids, identities = map(list, zip(*piece.recalled, strict=True))
            await self._connection.execute(_RECALL.encode(), {"ids": ids, "identities": identities})
        announced = (await fetch_one(self._connection, _ANNOUNCED) or {})["announced"]
        found = await self._count(_BOOK, {}) if announced else 0
        found += await self._insert(pending=piece.pending)
        if found < piece.rows:
            reused = await fetch_all(self._connection, _REUSED)
            if reused:
                self.reused += reused
                found += await self._insert(pending=piece.pending)
        self.new += found

    async def finish(self) -> None:
        """Flag rows whose content is stored under another identity as well, or take them back.

        Raises
        ------
        ContendedError
            As ``add``.
        """
        if not self.new:
            return
        import_id, change_id = self._stamp.import_id, self._stamp.change_id
        store = DuplicateStore(self._connection)
        try:
            # Whoever locks a period waits for all that was stored so far.
            await PeriodLockStore(self._connection).flag_late_of(import_id)
            await analyze_grown(self._connection, "incoming_transaction", "incoming_open", rows=self.new)
            if self._reject:
                self.rejected = await store.reject_import(import_id, change_id=change_id)
                self.new -= len(self.rejected)
            await store.flag_import(import_id, change_id=change_id, at=self._stamp.at)
        except errors.DeadlockDetected as error:
            raise ContendedError from error

    async def _insert(self, *, pending: bool) -> int:
        """Store the rows that are not there; return how many."""
        found = await self._count(_INSERT, {"pending": False})
        return found + (await self._count(_INSERT, {"pending": True}) if pending else 0)

    async def _count(self, query: str, more: dict[str, Any]) -> int:
        row = await fetch_one(self._connection, query, {**self._parameters, **more})
        return int(row["count"]) if row is not None else 0


def _widen(connection: Connection) -> None:
    """Let the kernel take most of a piece at once, so that sending it does not wait for the thread that reads."""
    with socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
