"""Data sources: what is known of files before they come, and how the last one of each went."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg import sql
from psycopg.types.json import Jsonb

from payrec.models.data_sources import DataSourceQuery
from payrec.storage.database import Connection
from payrec.storage.filters import equalities, ranges
from payrec.storage.listing import PageRequest, Selection, select_page
from payrec.storage.rows import adapt, database_now, fetch_all, fetch_one, insert
from payrec.tables.data_sources import DataSource

_STATUS: Final = "CASE WHEN NOT enabled THEN 'disabled' WHEN failing THEN 'failing' ELSE 'ok' END"
_COLUMNS: Final = (
    "id, created_at, updated_at, version, name, kind, format, profile, account, schedule, config, secret_ref, enabled,"
    f" {_STATUS} AS status, last_sync_at, next_sync_at, last_error"
)
# What it was before is read of the row as it was locked: two files that end at once do not both flip it.
_NOTE: Final = """
    WITH before AS MATERIALIZED (
        SELECT id, failing FROM data_source WHERE id = %(id)s AND (kind = 'upload') = %(of_uploads)s FOR NO KEY UPDATE
    )
    UPDATE data_source d SET last_sync_at = %(at)s, failing = %(failing)s, last_error = %(error)s
    FROM before b WHERE d.id = b.id
    RETURNING b.failing AS was_failing
"""


_FOR_SYNC: Final = (
    "id, version, name, kind, format, account, schedule, config, secret_ref, secret, enabled, sync_job_id"
)
_CLAIM_SYNC: Final = """
    UPDATE data_source SET sync_job_id = %(job_id)s, next_sync_at = %(next_sync_at)s
    WHERE id = %(id)s AND NOT EXISTS (
        SELECT 1 FROM job WHERE job.id = data_source.sync_job_id AND job.status IN ('queued', 'running')
    )
"""


class DataSourceStore:
    """``data_source`` of one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add(self, row: dict[str, Any]) -> None:
        """Add a data source.

        Raises
        ------
        DataSourceNameTakenError
        """
        await insert(self._connection, DataSource, row)

    async def count(self) -> int:
        """Count all of them; nobody else counts until the transaction ends."""
        await self._connection.execute(
            "SELECT pg_advisory_xact_lock(hashtext('data_source'), hashtext(current_schema()))"
        )
        row = await fetch_one(self._connection, "SELECT count(*) AS count FROM data_source")
        return int(row["count"]) if row is not None else 0

    async def get(self, source_id: UUID, *, lock: bool = False) -> dict[str, Any] | None:
        """Return one; with ``lock``, nobody else changes it meanwhile."""
        query = f"SELECT {_COLUMNS} FROM data_source WHERE id = %s"  # noqa: S608 - our own text
        return await fetch_one(self._connection, f"{query} FOR UPDATE" if lock else query, (source_id,))

    async def page(self, page: PageRequest, query: DataSourceQuery) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return a page."""
        selection = Selection(columns=_COLUMNS, source="data_source", id_column="id")
        found = equalities(query, {"status": _STATUS, "kind": "kind"})
        found += ranges(query, {"created_from": "created_at >=", "created_to": "created_at <="})
        for condition, parameters in found:
            selection.where(condition, **parameters)
        return await select_page(self._connection, selection, page)

    async def update(self, source_id: UUID, values: dict[str, Any], *, change_id: UUID, at: datetime) -> None:
        """Set what people may change.

        Raises
        ------
        DataSourceNameTakenError
        """
        given = adapt(DataSource, {**values, "change_id": change_id, "updated_at": at})
        columns = sql.SQL(", ").join(
            sql.SQL("{} = {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in given
        )
        query = sql.SQL("UPDATE data_source SET {}, version = version + 1 WHERE id = {}").format(
            columns, sql.Placeholder("id")
        )
        await self._connection.execute(query, {**given, "id": source_id})

    async def delete(self, source_id: UUID) -> None:
        """Delete one; its imports keep its id."""
        await self._connection.execute("DELETE FROM data_source WHERE id = %s", (source_id,))

    async def note(
        self, source_id: UUID, *, error: dict[str, Any] | None, at: datetime, of_uploads: bool
    ) -> bool | None:
        """Note how a file of it went, or a sync; return whether the one before had failed.

        None where it was deleted meanwhile, and where files are ``of_uploads`` and it is pulled.
        """
        parameters = {
            "id": source_id,
            "at": at,
            "of_uploads": of_uploads,
            "failing": error is not None,
            "error": Jsonb(error) if error is not None else None,
        }
        row = await fetch_one(self._connection, _NOTE, parameters)
        return None if row is None else bool(row["was_failing"])

    async def for_sync(self, source_id: UUID, *, lock: bool = False) -> dict[str, Any] | None:
        """Return what a sync needs of one, its sealed secret too; with ``lock``, nobody else starts one meanwhile."""
        query = f"SELECT {_FOR_SYNC} FROM data_source WHERE id = %s"  # noqa: S608 - our own text
        return await fetch_one(self._connection, f"{query} FOR NO KEY UPDATE" if lock else query, (source_id,))

    async def now(self) -> datetime:
        """Return the present instant of the database's clock, because the workers' clocks may differ."""
        return await database_now(self._connection)

    async def due(self, *, now: datetime, limit: int) -> list[UUID]:
        """Return sources whose time has come, those that have waited longest."""
        rows = await fetch_all(
            self._connection,
            "SELECT id FROM data_source WHERE next_sync_at <= %s AND enabled ORDER BY next_sync_at LIMIT %s",
            (now, limit),
        )
        return [row["id"] for row in rows]

    async def is_due(self, source_id: UUID, *, now: datetime) -> bool:
        """Return whether the time of one has come."""
        row = await fetch_one(
            self._connection, "SELECT 1 FROM data_source WHERE id = %s AND next_sync_at <= %s", (source_id, now)
        )
        return row is not None

    async def claim_sync(self, source_id: UUID, job_id: UUID, *, next_sync_at: datetime | None) -> bool:
        """Let a new job be the sync of a source that was locked; return whether no other one is queued or running."""
        cursor = await self._connection.execute(
            _CLAIM_SYNC, {"id": source_id, "job_id": job_id, "next_sync_at": next_sync_at}
        )
        return cursor.rowcount == 1

    async def look_again(self, source_id: UUID, *, at: datetime | None) -> None:
        """Set when it is due."""
        await self._connection.execute("UPDATE data_source SET next_sync_at = %s WHERE id = %s", (at, source_id))

    async def look_sooner(self, source_id: UUID, *, at: datetime) -> None:
        """Let it be due at an instant, unless it is earlier."""
        await self._connection.execute(
            "UPDATE data_source SET next_sync_at = least(next_sync_at, %s) WHERE id = %s AND enabled", (at, source_id)
        )
