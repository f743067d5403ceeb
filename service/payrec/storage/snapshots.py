"""Snapshots of what another system has open: staged, compared as sets, and told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb

from payrec.models.snapshots import DifferenceQuery, SnapshotQuery
from payrec.storage.database import Connection
from payrec.storage.filters import created, equalities
from payrec.storage.history import HistoryStore
from payrec.storage.history_relations import at_instant, is_open
from payrec.storage.listing import PageRequest, Selection, select_page
from payrec.storage.loading import analyze_grown, copy_rows
from payrec.storage.rows import array_text, columns_of, fetch_all, fetch_one
from payrec.storage.temporary import make_temporary
from payrec.tables.imports import Import
from payrec.tables.snapshots import ExpectedSnapshotDifference

_STAGE: Final = """
    CREATE TEMPORARY TABLE snapshot_item (
        open_minor bigint, line integer, external_id text, currency text, direction text, record text
    ) ON COMMIT DROP
"""
_TOTALS: Final = """
    SELECT currency, count(*) AS count, sum(open_minor) AS minor FROM snapshot_item GROUP BY currency ORDER BY currency
"""
_REPEATED: Final = """
    SELECT max(line) AS line FROM snapshot_item GROUP BY external_id HAVING count(*) > 1 ORDER BY line LIMIT %(limit)s
"""
_INDEX: Final = (b"CREATE UNIQUE INDEX ON snapshot_item (external_id)", b"ANALYZE snapshot_item")
# What the file names is compared wherever it belongs here, else an item with another direction were missing twice.
_COMPARE: Final = f"""
    {at_instant("allocation", "expected_transaction", whole=True)}, here AS (
        SELECT e.id, e.external_id, e.currency, e.direction, e.account, coalesce(a.status, 'open') AS status,
            CASE WHEN {is_open(1)} THEN e.amount_minor - e.settled_before_minor - coalesce(a.allocated_minor, 0)
                ELSE 0 END AS open_minor
        FROM expected_transaction e LEFT JOIN allocation a ON a.side = 1 AND a.transaction_id = e.id
    ), compared AS MATERIALIZED (
        SELECT h.id, h.open_minor AS here_minor, t.open_minor AS there_minor,
            coalesce(t.external_id, h.external_id) AS external_id, h.currency AS here_currency,
            h.direction AS here_direction, h.status AS here_status, t.currency AS there_currency,
            t.direction AS there_direction,
            CASE WHEN h.id IS NULL THEN 1 WHEN t.external_id IS NULL THEN 2
                WHEN h.open_minor <> t.open_minor OR h.currency <> t.currency
                    OR h.direction <> coalesce(t.direction, h.direction) THEN 3 END AS kind
        FROM here h FULL JOIN snapshot_item t ON t.external_id = h.external_id
        WHERE t.external_id IS NOT NULL OR (
            h.open_minor > 0
            AND (%(currency)s::text IS NULL OR h.currency = %(currency)s)
            AND (%(direction)s::text IS NULL OR h.direction = %(direction)s)
            AND (%(account)s::text IS NULL OR h.account = %(account)s)
        )
    ), kept AS (
        INSERT INTO expected_snapshot_difference (
            snapshot_id, expected_transaction_id, here_minor, there_minor, ordinal, kind, external_id, here_currency,
            here_direction, here_status, there_currency, there_direction
        )
        SELECT %(snapshot_id)s, id, here_minor, there_minor,
            row_number() OVER (ORDER BY kind, external_id COLLATE "C", id),
            (ARRAY['missing_here', 'missing_there', 'amount_differs'])[kind], external_id, here_currency,
            here_direction, here_status, there_currency, there_direction
        FROM compared WHERE kind IS NOT NULL
    )
    SELECT here_currency AS currency, count(*) AS count, sum(here_minor) AS minor
    FROM compared WHERE here_minor > 0 GROUP BY here_currency ORDER BY here_currency
"""  # noqa: S608 - our own text
# An item in two currencies counts in either.
_SUMS: Final = """
    SELECT d.kind, s.currency, count(*) AS count, sum(s.here_minor) AS here_minor, sum(s.there_minor) AS there_minor
    FROM expected_snapshot_difference d CROSS JOIN LATERAL (
        SELECT coalesce(d.there_currency, d.here_currency),
            CASE WHEN d.here_currency = coalesce(d.there_currency, d.here_currency) THEN d.here_minor ELSE 0 END,
            coalesce(d.there_minor, 0)
        UNION ALL
        SELECT d.here_currency, d.here_minor, 0 WHERE d.here_currency <> d.there_currency
    ) s (currency, here_minor, there_minor)
    WHERE d.snapshot_id = %(snapshot_id)s GROUP BY d.kind, s.currency ORDER BY d.kind, s.currency
"""
_KINDS: Final = """
    SELECT kind, count(*) AS count FROM expected_snapshot_difference WHERE snapshot_id = %(snapshot_id)s GROUP BY kind
"""
_CAME_SINCE: Final = """
    UPDATE expected_snapshot_difference d SET expected_transaction_id = e.id, outcome = 'came_since'
    FROM expected_transaction e
    WHERE d.snapshot_id = %(snapshot_id)s AND d.kind = 'missing_here' AND e.external_id = d.external_id
"""
_MISSING: Final = """
    SELECT d.ordinal, t.record FROM expected_snapshot_difference d JOIN snapshot_item t ON t.external_id = d.external_id
    WHERE d.snapshot_id = %(snapshot_id)s AND d.kind = 'missing_here' AND d.outcome IS NULL AND d.ordinal > %(after)s
    ORDER BY d.ordinal LIMIT %(limit)s
"""
_CREATED: Final = """
    UPDATE expected_snapshot_difference d SET expected_transaction_id = c.id, outcome = 'created'
    FROM unnest(%(ordinals)s::int[], %(ids)s::uuid[]) AS c (ordinal, id)
    WHERE d.snapshot_id = %(snapshot_id)s AND d.ordinal = c.ordinal
"""
_NOT_CREATED: Final = """
    UPDATE expected_snapshot_difference d SET outcome = 'not_created', detail = c.detail
    FROM unnest(%(ordinals)s::int[], %(details)s::text[]) AS c (ordinal, detail)
    WHERE d.snapshot_id = %(snapshot_id)s AND d.ordinal = c.ordinal
"""
_FIRST: Final = """
    SELECT d.* FROM unnest(%(ids)s::uuid[]) AS s (id)
    CROSS JOIN unnest(ARRAY['missing_here', 'missing_there', 'amount_differs']) AS k (kind)
    CROSS JOIN LATERAL (
        SELECT * FROM expected_snapshot_difference d
        WHERE d.snapshot_id = s.id AND d.kind = k.kind ORDER BY d.ordinal LIMIT %(limit)s
    ) d
    ORDER BY d.snapshot_id, d.ordinal
"""
_COLUMNS: Final = f"{columns_of(Import, 'i')}, s.figures"
_SOURCE: Final = "expected_snapshot s JOIN import i ON i.id = s.id"
_GET: Final = f"SELECT {_COLUMNS} FROM {_SOURCE} WHERE s.id = %s"  # noqa: S608 - our own text
_HAS_DIFFERENCES: Final = """
    SELECT EXISTS (
        SELECT FROM expected_snapshot s JOIN import i ON i.id = s.id
        WHERE i.created_at < %(before)s
            AND EXISTS (SELECT FROM expected_snapshot_difference d WHERE d.snapshot_id = s.id)
    ) AS found
"""
_DROP_DIFFERENCES: Final = """
    WITH dropped AS (
        DELETE FROM expected_snapshot_difference d USING (
            SELECT o.snapshot_id, o.ordinal FROM import i JOIN expected_snapshot_difference o ON o.snapshot_id = i.id
            WHERE i.created_at < %(before)s LIMIT %(limit)s
        ) o WHERE d.snapshot_id = o.snapshot_id AND d.ordinal = o.ordinal RETURNING d.snapshot_id
    )
    SELECT i.id, i.created_at, count(*) AS count FROM dropped x JOIN import i ON i.id = x.snapshot_id
    GROUP BY i.id, i.created_at ORDER BY i.created_at
"""


class SnapshotStore:
    """``expected_snapshot`` and ``expected_snapshot_difference``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def check(self, taken_at: datetime) -> None:
        """Look whether it can be told what was open at an instant.

        Raises
        ------
        AsOfOutOfRangeError
        """
        await HistoryStore(self._connection).check(taken_at)

    async def add(self, snapshot_id: UUID) -> None:
        """Add a snapshot whose import was stored."""
        await self._connection.execute("INSERT INTO expected_snapshot (id) VALUES (%s)", (snapshot_id,))

    async def get(self, snapshot_id: UUID) -> dict[str, Any] | None:
        """Return a snapshot with its import."""
        return await fetch_one(self._connection, _GET, (snapshot_id,))

    async def page(self, page: PageRequest, query: SnapshotQuery) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return a page of snapshots with their imports."""
        selection = Selection(columns=_COLUMNS, source=_SOURCE, id_column="s.id")
        for condition, parameters in equalities(query, {"status": "i.status"}) + created(query, "i"):
            selection.where(condition, **parameters)
        return await select_page(self._connection, selection, page)

    async def begin_stage(self) -> None:
        """Begin to take in what the other system has open."""
        await make_temporary(self._connection, _STAGE)

    async def stage(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Take in items of the file."""
        await copy_rows(self._connection, "snapshot_item", rows)

    async def staged_totals(self) -> list[dict[str, Any]]:
        """Return ``currency``, ``count`` and ``minor`` of what was taken in."""
        return await fetch_all(self._connection, _TOTALS)

    async def repeated_lines(self, *, limit: int) -> list[int]:
        """Return lines whose externalId is that of another line."""
        return [row["line"] for row in await fetch_all(self._connection, _REPEATED, {"limit": limit})]

    async def compare(self, snapshot_id: UUID, scope: Mapping[str, str], *, taken_at: datetime) -> list[dict[str, Any]]:
        """Store in what the two differ; return ``currency``, ``count`` and ``minor`` of what was open here.

        ``scope`` has what bounds it of ``account``, ``currency`` and ``direction``.
        """
        bounds = dict.fromkeys(("account", "currency", "direction")) | dict(scope)
        for statement in _INDEX:
            await self._connection.execute(statement, prepare=False)
        parameters = {**bounds, "snapshot_id": snapshot_id, "as_of": taken_at}
        found = await fetch_all(self._connection, _COMPARE, parameters)
        await self._connection.execute(_CAME_SINCE, {"snapshot_id": snapshot_id})
        return found

    async def sums(self, snapshot_id: UUID) -> tuple[dict[str, int], list[dict[str, Any]]]:
        """Return how many differences there are by kind, and their sums by kind and currency."""
        about = {"snapshot_id": snapshot_id}
        kinds = await fetch_all(self._connection, _KINDS, about)
        await analyze_grown(self._connection, "expected_snapshot_difference", rows=sum(row["count"] for row in kinds))
        return {row["kind"]: row["count"] for row in kinds}, await fetch_all(self._connection, _SUMS, about)

    async def missing(self, snapshot_id: UUID, *, limit: int) -> AsyncIterator[list[dict[str, Any]]]:
        """Yield what was missing here and has not come since, by so many: ``ordinal`` and ``record``."""
        after = 0
        while rows := await fetch_all(
            self._connection, _MISSING, {"snapshot_id": snapshot_id, "after": after, "limit": limit}
        ):
            yield rows
            after = rows[-1]["ordinal"]

    async def note_created(self, snapshot_id: UUID, ids: Mapping[int, UUID]) -> None:
        """Note which items were created for differences."""
        parameters = {"ordinals": array_text(ids), "ids": array_text(ids.values())}
        await self._connection.execute(_CREATED, {**parameters, "snapshot_id": snapshot_id})

    async def note_not_created(self, snapshot_id: UUID, details: Mapping[int, str]) -> None:
        """Note why items were not created."""
        parameters = {"ordinals": array_text(details), "details": list(details.values())}
        await self._connection.execute(_NOT_CREATED, {**parameters, "snapshot_id": snapshot_id})

    async def complete(self, snapshot_id: UUID, figures: dict[str, Any]) -> None:
        """Store what the comparison comes to."""
        await self._connection.execute(
            "UPDATE expected_snapshot SET figures = %s WHERE id = %s", (Jsonb(figures), snapshot_id)
        )

    async def first(self, snapshot_ids: Sequence[UUID], *, limit: int) -> list[dict[str, Any]]:
        """Return the first differences of each kind of each snapshot."""
        return await fetch_all(self._connection, _FIRST, {"ids": list(snapshot_ids), "limit": limit})

    async def has_differences(self, *, before: datetime) -> bool:
        """Tell whether there are differences of snapshots that came before an instant."""
        row = await fetch_one(self._connection, _HAS_DIFFERENCES, {"before": before})
        return row is not None and row["found"]

    async def drop_differences(self, *, before: datetime, limit: int) -> list[dict[str, Any]]:
        """Delete at most so many of those; return of how many of which snapshot: ``id``, ``created_at``, ``count``."""
        return await fetch_all(self._connection, _DROP_DIFFERENCES, {"before": before, "limit": limit})

    async def differences(
        self, snapshot_id: UUID, page: PageRequest, query: DifferenceQuery | None = None
    ) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return a page of the differences of a snapshot, in their order."""
        columns = f"d.ordinal AS id, {columns_of(ExpectedSnapshotDifference, 'd')}"
        selection = Selection(columns=columns, source="expected_snapshot_difference d", id_column="d.ordinal")
        selection.where("d.snapshot_id = %(snapshot_id)s", snapshot_id=snapshot_id)
        if query is not None:
            for condition, parameters in equalities(query, {"kind": "d.kind"}):
                selection.where(condition, **parameters)
        return await select_page(self._connection, selection, page)
