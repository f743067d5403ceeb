"""Imports, their problems and their statements."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import IO, Any, Final
from uuid import UUID

from psycopg import sql
from psycopg.types.json import Jsonb

from payrec.models.imports import ImportQuery
from payrec.storage.blobs import CHUNK_BYTES
from payrec.storage.database import Connection
from payrec.storage.filters import equalities, ranges
from payrec.storage.listing import PageRequest, Selection, select_page
from payrec.storage.rows import adapt, columns_of, fetch_all, fetch_one, insert_statement
from payrec.tables.imports import Import, Statement

_COLUMNS: Final = columns_of(Import)
_COMPLETE: Final = """
    UPDATE import SET status = 'completed', format = %(format)s, format_version = %(format_version)s,
        encoding = %(encoding)s, records = %(records)s, accepted = %(accepted)s, duplicates = %(duplicates)s,
        skipped = %(skipped)s, rejected = %(rejected)s, blob_id = NULL, updated_at = %(at)s, version = version + 1
    WHERE id = %(id)s AND status = 'processing'
"""


class ImportStore:
    """``import``, ``import_problem`` and ``statement``."""

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
        found = equalities(query, {"status": "status", "format": "format"})
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
            "UPDATE import SET status = 'failed', error = %s, blob_id = NULL, updated_at = %s, version = version + 1"
            " WHERE id = %s",
            (Jsonb(error), at, import_id),
        )

    async def add_statements(self, rows: Sequence[dict[str, Any]]) -> None:
        """Add the statements of an import."""
        if rows:
            query = insert_statement(Statement, rows[0])
            async with self._connection.cursor() as cursor:
                await cursor.executemany(query, [adapt(Statement, row) for row in rows])

    async def add_problems(self, spool: IO[bytes]) -> None:
        """Add problems that were rendered as COPY text, in the columns of ``PROBLEM_COLUMNS``."""
        async with (
            self._connection.cursor() as cursor,
            cursor.copy(
                "COPY import_problem (import_id, ordinal, line, statement_index, rejects, severity, code, detail)"
                " FROM STDIN"
            ) as copy,
        ):
            while chunk := spool.read(CHUNK_BYTES):
                await copy.write(chunk)

    async def statements(self, import_ids: Sequence[UUID], *, limit: int) -> list[dict[str, Any]]:
        """Return the first statements of each import, in file order."""
        query = sql.SQL(
            "SELECT {} FROM statement WHERE import_id = ANY(%s) AND ordinal < %s ORDER BY import_id, ordinal"
        ).format(sql.SQL(columns_of(Statement)))
        return await fetch_all(self._connection, query, (list(import_ids), limit))

    async def first_errors(self, import_ids: Sequence[UUID], *, limit: int) -> list[dict[str, Any]]:
        """Return the first rejections of each import, in file order."""
        query = """
            SELECT i.id AS import_id, p.line, p.code, p.severity, p.detail FROM import i CROSS JOIN LATERAL (
                SELECT * FROM import_problem WHERE import_id = i.id AND rejects ORDER BY ordinal LIMIT %s
            ) p WHERE i.id = ANY(%s) ORDER BY i.id, p.ordinal
        """
        return await fetch_all(self._connection, query, (limit, list(import_ids)))

    async def problems(self, import_id: UUID, page: PageRequest) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return a page of all problems of an import, in file order."""
        selection = Selection(
            columns="ordinal AS id, line, code, severity, detail",
            source="import_problem",
            id_column="ordinal",
        )
        selection.where("import_id = %(import_id)s", import_id=import_id)
        return await select_page(self._connection, selection, page)
