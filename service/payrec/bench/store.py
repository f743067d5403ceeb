"""The only SQL of the yardstick: rendered rows in, the matches of a tenant environment out."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import polars as pl

from payrec.bench.load import COLUMNS, Rendered
from payrec.storage.database import Connection
from payrec.storage.rows import copy_out

COPY_BYTES: Final = 256 * 1024
"""Bytes of one message to the server."""

SERVER_SETTINGS: Final = (
    "server_version", "shared_buffers", "max_wal_size", "work_mem", "fsync", "synchronous_commit", "full_page_writes",
    "jit",
)  # fmt: skip
"""Settings of the server that figures depend on."""

LINK_SCHEMA: Final[Mapping[str, pl.DataType]] = {
    "match_uuid": pl.String(),
    "expected_uuid": pl.String(),
    "incoming_uuid": pl.String(),
    "auto": pl.String(),
    "score": pl.Int64(),
    "confidence": pl.String(),
    "kind": pl.String(),
    "amount_minor": pl.Int64(),
    "settled_minor": pl.Int64(),
}
"""Columns of ``links``."""

# A credit note belongs to the line of its match: what it settles of an item is no money, so it counts nothing of it.
_JOINED: Final = """
    SELECT match_id, expected_id, incoming_id, amount_minor, settled_minor FROM leg WHERE contra_expected_id IS NULL
    UNION ALL
    SELECT n.match_id, end_id, i.incoming_id, 0, n.settled_minor
    FROM leg n CROSS JOIN LATERAL (VALUES (n.expected_id), (n.contra_expected_id)) e (end_id)
    LEFT JOIN LATERAL (
        SELECT incoming_id FROM leg WHERE match_id = n.match_id AND incoming_id IS NOT NULL LIMIT 1
    ) i ON true
    WHERE n.contra_expected_id IS NOT NULL
"""
_LINKS: Final = f"""
    COPY (
        SELECT replace(m.id::text, '-', ''), replace(l.expected_id::text, '-', ''),
            replace(l.incoming_id::text, '-', ''), m.status <> 'proposed' OR m.sampled, m.score, m.confidence, m.kind,
            l.amount_minor, l.settled_minor
        FROM match m JOIN (
            SELECT match_id, expected_id, incoming_id, sum(amount_minor) AS amount_minor,
                sum(settled_minor) AS settled_minor
            FROM ({_JOINED}) j GROUP BY 1, 2, 3
        ) l ON l.match_id = m.id
        WHERE m.status IN ('proposed', 'pending_approval', 'accepted')
            AND l.expected_id IS NOT NULL AND l.incoming_id IS NOT NULL
    ) TO STDOUT (FORMAT CSV)
"""  # noqa: S608 - our own text

_LEARNED: Final = ("calibration", "alias", "alias_lesson")
_TRUE_PAIRS: Final = b"CREATE TEMPORARY TABLE true_pair (expected_id uuid, incoming_id uuid) ON COMMIT DROP"
_DECIDE: Final = f"""
    ANALYZE true_pair;
    UPDATE match m SET decided_by = 'history', decided_at = m.created_at,
        status = CASE WHEN judged.is_right THEN 'accepted' ELSE 'rejected' END
    FROM (
        SELECT l.match_id, bool_and(t.expected_id IS NOT NULL) AS is_right
        FROM ({_JOINED}) l LEFT JOIN true_pair t ON t.expected_id = l.expected_id AND t.incoming_id = l.incoming_id
        GROUP BY l.match_id
    ) judged WHERE judged.match_id = m.id
"""  # noqa: S608 - our own text


class BenchStore:
    """A tenant environment that is there for a measurement alone, in the transaction of ``connection``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def copy(self, sides: Iterable[Rendered]) -> None:
        """Copy rendered rows in."""
        for side in sides:
            for table, path in side.files.items():
                await self._copy(table, path)

    async def _copy(self, table: str, path: Path) -> None:
        columns = ", ".join(f'"{name}"' for name in COLUMNS[table])
        query = f"COPY {table} ({columns}) FROM STDIN"
        # Reading the file blocks, which disturbs nobody here.
        async with self._connection.cursor() as cursor, cursor.copy(query.encode()) as copy:
            with path.open("rb") as file:
                while piece := file.read(COPY_BYTES):
                    await copy.write(piece)

    async def analyze(self) -> None:
        """Bring the statistics up to date, as autovacuum would have by the time anybody matches."""
        for table in COLUMNS:
            await self._connection.execute(f"ANALYZE {table}".encode(), prepare=False)

    async def links(self) -> pl.DataFrame:
        """Return every pair of transactions that is proposed or accepted, in the columns of LINK_SCHEMA."""
        data = await copy_out(self._connection, _LINKS)
        schema = dict(LINK_SCHEMA)
        frame = pl.read_csv(io.BytesIO(data), has_header=False, schema=schema) if data else pl.DataFrame(schema=schema)
        return frame.with_columns(auto=pl.col("auto") == "t")

    async def decide(self, pairs: pl.DataFrame) -> None:
        """Decide every proposal as a person who knows the truth would: ``pairs`` are the true ones, by their uuids."""
        await self._connection.execute(_TRUE_PAIRS, prepare=False)
        async with self._connection.cursor() as cursor, cursor.copy(b"COPY true_pair FROM STDIN") as copy:
            await copy.write(pairs.write_csv(include_header=False, separator="\t").encode())
        await self._connection.execute(_DECIDE.encode(), prepare=False)

    async def learned(self) -> dict[str, bytes]:
        """Return what a tenant environment has learned, by table, as COPY text."""
        return {table: await copy_out(self._connection, f"COPY {table} TO STDOUT") for table in _LEARNED}

    async def remember(self, learned: Mapping[str, bytes]) -> None:
        """Have learned what another one has: both stand for the same tenant, before and after."""
        for table, rows in learned.items():
            async with self._connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN".encode()) as copy:
                await copy.write(rows)

    async def server(self) -> dict[str, str]:
        """Return the server's settings."""
        found = {}
        for name in SERVER_SETTINGS:
            cursor = await self._connection.execute(f"SHOW {name}".encode(), prepare=False)
            row = await cursor.fetchone()
            found[name] = str(row[name]) if row is not None else ""
        return found
