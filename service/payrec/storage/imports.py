"""Imports and their problems."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import IO, Any, Final
from uuid import UUID

from psycopg import sql
from psycopg.types.json import Jsonb

from payrec.domain.statements import Problem
from payrec.models.imports import ImportQuery
from payrec.storage.blobs import CHUNK_BYTES
from payrec.storage.database import Connection
from payrec.storage.filters import equalities, ranges
from payrec.storage.listing import PageRequest, Selection, select_page
from payrec.storage.rows import adapt, columns_of, copying_in, fetch_all, fetch_one, insert_statement
from payrec.tables.imports import Import

_COLUMNS: Final = columns_of(Import)
_COMPLETE: Final = """
    UPDATE import SET status = 'completed', format = %(format)s, format_version = %(format_version)s,
        encoding = %(encoding)s, records = %(records)s, accepted = %(accepted)s, duplicates = %(duplicates)s,
        skipped = %(skipped)s, rejected = %(rejected)s, updated_at = %(at)s, version = version + 1
    WHERE id = %(id)s AND status = 'processing'
"""

PROBLEM_COLUMNS: Final = "ordinal AS id, line, statement_index AS statement, code, severity, detail"
"""What is told of a problem."""

_FORGET: Final = """
    DELETE FROM import_problem p USING unnest(%(import_ids)s::uuid[], %(statements)s::int[]) AS v (import_id, statement)
    WHERE p.import_id = v.import_id AND p.statement_index = v.statement
        AND p.code IN ('statement_gap', 'statement_overlap')
"""
_TELL: Final = """
    INSERT INTO import_problem (import_id, ordinal, statement_index, rejects, severity, code, detail)
    SELECT v.import_id,
        coalesce((SELECT max(p.ordinal) FROM import_problem p WHERE p.import_id = v.import_id), -1)
            + row_number() OVER (PARTITION BY v.import_id ORDER BY v.statement),
        v.statement, false, v.severity, v.code, v.detail
    FROM unnest(
        %(import_ids)s::uuid[], %(statements)s::int[], %(severities)s::text[], %(codes)s::text[], %(details)s::text[]
    ) AS v (import_id, statement, severity, code, detail)
"""
_DROP_FILES: Final = """
    WITH expired AS MATERIALIZED (
        SELECT id, blob_id, object_id FROM import
        WHERE blob_id IS NOT NULL AND created_at < %(before)s AND status = 'completed'
        ORDER BY created_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
    ), dropped AS (
        DELETE FROM blob_chunk c USING expired e WHERE c.blob_id = e.blob_id
    )
    UPDATE import i SET blob_id = NULL, object_id = NULL, version = version + 1, updated_at = %(at)s
    FROM expired e WHERE i.id = e.id RETURNING i.id, i.created_at, e.object_id
"""
_TOUCH: Final = """
    WITH held AS MATERIALIZED (
        SELECT id FROM import WHERE id = ANY(%(ids)s) ORDER BY id FOR NO KEY UPDATE
    )
    UPDATE import i SET version = version + 1, updated_at = %(at)s FROM held h WHERE i.id = h.id
"""


class ImportStore:
    """``import`` and ``import_problem``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add(self, row: dict[str, Any]) -> dict[str, Any] | None:
        """Add an import; return the earlier one of the same bytes and options instead, unless that failed."""
        query = insert_statement(Import, row) + sql.SQL(
            " ON CONFLICT (content_key) WHERE status <> 'failed' DO NOTHING"
        )
        cursor = await self._connection.execute(query, adapt(Import, row))
        if cursor.rowcount == 1:
            return None
        found = sql.SQL("SELECT {} FROM import WHERE content_key = %s AND status <> 'failed'").format(sql.SQL(_COLUMNS))
        return await fetch_one(self._connection, found, (row["content_key"],))

    async def get(self, import_id: UUID) -> dict[str, Any] | None:
        """Return an import."""
        return await fetch_one(
            self._connection, sql.SQL("SELECT {} FROM import WHERE id = %s").format(sql.SQL(_COLUMNS)), (import_id,)
        )

    async def of_job(self, job_id: UUID) -> dict[str, Any] | None:
        """Return the import that a job works on."""
        return await fetch_one(
            self._connection, sql.SQL("SELECT {} FROM import WHERE job_id = %s").format(sql.SQL(_COLUMNS)), (job_id,)
        )

    async def page(self, page: PageRequest, query: ImportQuery) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return a page of imports."""
        selection = Selection(columns=_COLUMNS, source="import", id_column="id")
        found = equalities(query, {name: name for name in ("status", "resource", "format", "data_source_id")})
        found += ranges(query, {"created_from": "created_at >=", "created_to": "created_at <="})
        for condition, parameters in found:
            selection.where(condition, **parameters)
        return await select_page(self._connection, selection, page)

    async def complete(self, import_id: UUID, values: dict[str, Any], *, at: datetime) -> bool:
        """End an import that was read; its counts must add up, or the constraint refuses it.

        Return whether nobody else has ended it meanwhile.
        """
        return (await self._connection.execute(_COMPLETE, {**values, "id": import_id, "at": at})).rowcount == 1

    async def fail(self, import_id: UUID, error: dict[str, Any], *, at: datetime) -> None:
        """End an import of which nothing is stored."""
        await self._connection.execute(
            "UPDATE import SET status = 'failed', error = %s, blob_id = NULL, object_id = NULL, updated_at = %s,"
            " version = version + 1 WHERE id = %s",
            (Jsonb(error), at, import_id),
        )

    async def has_files(self, *, before: datetime) -> bool:
        """Return whether the files of imports are kept that were created before an instant."""
        query = (
            "SELECT 1 FROM import WHERE blob_id IS NOT NULL AND created_at < %s AND status = 'completed'"
            " ORDER BY created_at LIMIT 1"
        )
        return await fetch_one(self._connection, query, (before,)) is not None

    async def drop_files(self, *, before: datetime, limit: int, at: datetime) -> list[dict[str, Any]]:
        """Delete the files of imports that were created before an instant, the oldest ones.

        Return ``id`` and ``created_at`` of these imports, and ``object_id``, which is to be deleted after the commit.
        What somebody else works on is left for another time: nobody is waited for.
        """
        return await fetch_all(self._connection, _DROP_FILES, {"before": before, "limit": limit, "at": at})

    async def add_problems(self, spool: IO[bytes]) -> None:
        """Add problems that were rendered as COPY text, in the columns of ``PROBLEM_COLUMNS``."""
        columns = "import_id, ordinal, line, statement_index, rejects, severity, code, detail"
        async with copying_in(self._connection, f"COPY import_problem ({columns}) FROM STDIN") as copy:
            while chunk := spool.read(CHUNK_BYTES):
                await copy.write(chunk)

    async def touch(self, import_ids: Sequence[UUID], *, at: datetime) -> None:
        """Note that something of these imports is told differently from now on; whoever does the same waits."""
        await self._connection.execute(_TOUCH, {"ids": list(import_ids), "at": at})

    async def forget_continuity(self, statements: Sequence[tuple[UUID, int]]) -> None:
        """Delete what was told of how statements follow those before them: import and ordinal."""
        parameters = {
            "import_ids": [import_id for import_id, _ in statements],
            "statements": [ordinal for _, ordinal in statements],
        }
        await self._connection.execute(_FORGET, parameters)

    async def tell_problems(self, problems: Sequence[tuple[UUID, Problem]]) -> None:
        """Add problems of statements to imports that may have ended long ago, which the caller has touched."""
        parameters = {
            "import_ids": [import_id for import_id, _ in problems],
            "statements": [problem.statement for _, problem in problems],
            "severities": [problem.severity for _, problem in problems],
            "codes": [problem.code for _, problem in problems],
            "details": [problem.detail for _, problem in problems],
        }
        await self._connection.execute(_TELL, parameters)

    async def first_errors(self, import_ids: Sequence[UUID], *, limit: int) -> list[dict[str, Any]]:
        """Return the first rejections of each import, in file order."""
        query = """
            SELECT i.id AS import_id, p.line, p.statement_index AS statement, p.code, p.severity, p.detail
            FROM import i CROSS JOIN LATERAL (
                SELECT * FROM import_problem WHERE import_id = i.id AND rejects ORDER BY ordinal LIMIT %s
            ) p WHERE i.id = ANY(%s) ORDER BY i.id, p.ordinal
        """
        return await fetch_all(self._connection, query, (limit, list(import_ids)))

    async def problem_counts(self, import_ids: Sequence[UUID], *, limit: int) -> dict[UUID, int]:
        """Return how many problems each import has; whatever is beyond the limit is not counted."""
        query = """
            SELECT i.id, p.count FROM unnest(%s::uuid[]) AS i (id) CROSS JOIN LATERAL (
                SELECT count(*) FROM (SELECT FROM import_problem WHERE import_id = i.id LIMIT %s) p
            ) p
        """
        rows = await fetch_all(self._connection, query, (list(import_ids), limit))
        return {row["id"]: row["count"] for row in rows}

    async def problems(self, import_id: UUID, page: PageRequest) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return a page of all problems of an import, in file order."""
        selection = Selection(
            columns=PROBLEM_COLUMNS,
            source="import_problem",
            id_column="ordinal",
        )
        selection.where("import_id = %(import_id)s", import_id=import_id)
        return await select_page(self._connection, selection, page)
