"""Bulk loading: COPY into a temporary table, then into the real ones as sets, piece by piece.

Rows are rendered to COPY's text format while the file is read (PostgreSQL documentation, COPY, "Text Format"), so that
the event loop only moves bytes, and the database stores one piece while the next is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from typing import Any, Final
from uuid import UUID

from sqlalchemy.dialects import postgresql

from payrec.domain.incoming_transactions import KEY_COLUMNS, STORED_COLUMNS
from payrec.domain.statements import Problem
from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all, fetch_one
from payrec.tables.base import TENANT_METADATA
from payrec.tables.incoming_transactions import IncomingOpen, IncomingTransaction

_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_NULL: Final = "\\N"


def _escaped(value: str) -> str:
    if "\\" in value or "\n" in value or "\t" in value or "\r" in value:
        return value.translate(_ESCAPES)
    return value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).translate(_ESCAPES) if value else "{}"


_TEXTS: Final[dict[type, Callable[[Any], str]]] = {
    str: _escaped,
    int: str,
    bool: lambda value: "t" if value else "f",
    bytes: lambda value: "\\\\x" + value.hex(),
    date: str,
    UUID: str,
    dict: _json,
    tuple: _json,
    list: lambda value: "{" + ",".join(map(str, value)) + "}",
}
"""How a value is written, by its type: a list is an array, a tuple is JSON."""


def render(values: tuple[Any, ...]) -> str:
    """Return one line of COPY text."""
    texts = _TEXTS
    return "\t".join([_NULL if v is None else texts[v.__class__](v) for v in values]) + "\n"


def render_problem(problem: Problem, *, import_id: UUID, ordinal: int) -> str:
    """Return one line of COPY text for ``import_problem``, in the columns that ``ImportStore.add_problems`` names."""
    return render(
        (
            import_id,
            ordinal,
            problem.line,
            problem.statement,
            problem.rejects,
            problem.severity,
            problem.code,
            problem.detail,
        )
    )


def _definitions() -> str:
    """Return the columns of the temporary table; keys begin with ``k_``, because both tables have a group_key."""
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    found = []
    for table, names, prefix in ((IncomingTransaction, STORED_COLUMNS, ""), (IncomingOpen, KEY_COLUMNS, "k_")):
        types = TENANT_METADATA.tables[str(table.__tablename__)].columns
        found += [f'"{prefix}{name}" {types[name].type.compile(dialect)}' for name in names]
    return ", ".join(found)


_STORED: Final = ", ".join(f'"{n}"' for n in STORED_COLUMNS)
_KEYS: Final = ", ".join(f'"{n}"' for n in KEY_COLUMNS)
_KEYS_STAGED: Final = ", ".join(f's."k_{n}"' for n in KEY_COLUMNS)
_CREATE: Final = f"CREATE TEMPORARY TABLE staged ({_definitions()}) ON COMMIT DROP"
_COPY: Final = "COPY staged FROM STDIN"
_PENDING: Final = """
    SELECT (SELECT count(*) FROM staged) AS rows, EXISTS (SELECT 1 FROM staged WHERE pending) AS staged,
           EXISTS (SELECT 1 FROM incoming_transaction WHERE pending) AS stored
"""
_INSERT: Final = f"""
    WITH stored AS (
        INSERT INTO incoming_transaction ({_STORED}, created_at, updated_at, change_id, import_id)
        SELECT {_STORED}, %(at)s, %(at)s, %(change_id)s, %(import_id)s FROM staged s WHERE s.pending = %(pending)s
        ON CONFLICT DO NOTHING
        RETURNING id, amount_minor
    ), opened AS (
        INSERT INTO incoming_open (transaction_id, open_minor, total_minor, booking_day, value_day, direction, pending,
            currency, {_KEYS})
        SELECT s.id, s.amount_minor, s.amount_minor, s.booking_on - date '1970-01-01', s.value_on - date '1970-01-01',
            CASE s.direction WHEN 'credit' THEN 1 ELSE -1 END, s.pending, s.currency, {_KEYS_STAGED}
        FROM stored JOIN staged s ON s.id = stored.id WHERE stored.amount_minor > 0
    ), ignored AS (
        INSERT INTO allocation (side, transaction_id, amount_minor, status, reason_code, version, updated_at)
        SELECT 2, id, 0, 'ignored', 'zero_amount', 1, %(at)s FROM stored WHERE amount_minor = 0
    )
    SELECT count(*) AS count FROM stored
"""  # noqa: S608 - columns of our own tables
_BOOKED: Final = ", ".join(f'"{n}" = b."k_{n}"' for n in KEY_COLUMNS)
_BOOK: Final = f"""
    WITH booked AS (
        UPDATE incoming_transaction t SET pending = false, booking_on = s.booking_on, value_on = s.value_on,
            amount_minor = s.amount_minor, fingerprint = s.fingerprint, remittance = s.remittance,
            counterparty_name = s.counterparty_name, import_id = %(import_id)s,
            updated_at = %(at)s, revision = t.revision + 1
        FROM staged s WHERE t.identity = s.identity AND t.pending AND NOT s.pending
            AND t.direction = s.direction AND t.currency = s.currency AND s.amount_minor > 0
        RETURNING t.id, t.revision, t.amount_minor, s.booking_on - date '1970-01-01' AS booking_day,
            s.value_on - date '1970-01-01' AS value_day, {_KEYS_STAGED}
    ), held AS (
        SELECT o.transaction_id FROM booked b JOIN incoming_open o ON o.transaction_id = b.id
        ORDER BY o.transaction_id FOR NO KEY UPDATE OF o
    ), reopened AS (
        UPDATE incoming_open o SET pending = false, open_minor = b.amount_minor, total_minor = b.amount_minor,
            booking_day = b.booking_day, value_day = b.value_day,
            revision = b.revision, {_BOOKED}
        FROM held JOIN booked b ON b.id = held.transaction_id WHERE o.transaction_id = held.transaction_id
    )
    SELECT count(*) AS count FROM booked
"""  # noqa: S608 - columns of our own tables
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
_FLAG: Final = """
    WITH shared AS (
        SELECT DISTINCT n.fingerprint FROM incoming_transaction n
        JOIN incoming_transaction t ON t.fingerprint = n.fingerprint AND t.import_id IS DISTINCT FROM n.import_id
        WHERE n.import_id = %(import_id)s AND n.amount_minor > 0
    ), twin AS (
        SELECT t.id, t.fingerprint, t.identity, t.import_id, coalesce(a.allocated_minor, 0) > 0 AS settled
        FROM shared JOIN incoming_transaction t ON t.fingerprint = shared.fingerprint
        LEFT JOIN allocation a ON a.side = 2 AND a.transaction_id = t.id
    ), original AS (
        -- What has paid already stays the original. Else the identity decides, not which of them came first.
        SELECT DISTINCT ON (fingerprint) fingerprint, import_id FROM twin ORDER BY fingerprint, settled DESC, identity
    ), wrong AS (
        SELECT o.transaction_id, t.import_id IS DISTINCT FROM f.import_id AS duplicate,
            (t.import_id IS DISTINCT FROM %(import_id)s)::int AS older
        FROM twin t JOIN original f ON f.fingerprint = t.fingerprint JOIN incoming_open o ON o.transaction_id = t.id
        WHERE o.duplicate <> (t.import_id IS DISTINCT FROM f.import_id)
        ORDER BY o.transaction_id FOR NO KEY UPDATE OF o
    ), opened AS (
        UPDATE incoming_open o SET duplicate = w.duplicate, revision = o.revision + w.older
        FROM wrong w WHERE o.transaction_id = w.transaction_id
    )
    UPDATE incoming_transaction t SET revision = t.revision + 1, updated_at = %(at)s
    FROM wrong w WHERE t.id = w.transaction_id AND w.older = 1
"""


class Staging:
    """Loads rendered rows in the transaction of ``connection``, piece by piece.

    ``parameters`` has ``at``, ``change_id`` and ``import_id``. A booked row takes the place of its pending one and
    counts as new.
    """

    def __init__(self, connection: Connection, *, parameters: dict[str, Any]) -> None:
        self._connection = connection
        self._parameters = parameters
        self._created = False
        self.new = 0
        """Rows that were not there before."""
        self.reused: list[dict[str, Any]] = []
        """Statement and line of rows whose id somebody else has: ``statement_index``, ``line``."""

    async def add(self, piece: bytes) -> None:
        """Copy and store some rows."""
        await self._connection.execute("TRUNCATE staged" if self._created else _CREATE)
        self._created = True
        async with self._connection.cursor() as cursor, cursor.copy(_COPY) as copy:
            await copy.write(piece)
        pending = await fetch_one(self._connection, _PENDING) or {}
        booked = await self._count(_BOOK, {}) if pending["stored"] else 0
        found = booked + await self._insert(pending=pending["staged"])
        if found < pending["rows"]:
            reused = await fetch_all(self._connection, _REUSED)
            if reused:
                self.reused += reused
                found += await self._insert(pending=pending["staged"])
        self.new += found

    async def finish(self) -> None:
        """Flag rows whose content is stored under another identity as well, all but the first by identity."""
        if self.new:
            await self._connection.execute(_FLAG, self._parameters)

    async def _insert(self, *, pending: bool) -> int:
        """Store the rows that are not there; return how many."""
        found = await self._count(_INSERT, {"pending": False})
        return found + (await self._count(_INSERT, {"pending": True}) if pending else 0)

    async def _count(self, query: str, more: dict[str, Any]) -> int:
        row = await fetch_one(self._connection, query, {**self._parameters, **more})
        return int(row["count"]) if row is not None else 0
