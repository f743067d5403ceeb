"""What a transaction said when a proposal was made, beside what it says now."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final
from uuid import UUID

from payrec.storage.allocations import Side
from payrec.storage.database import Connection
from payrec.storage.history import STATED_TABLES
from payrec.storage.rows import columns_of, fetch_all

_GIVEN: Final = "unnest(%(ids)s::uuid[], %(revisions)s::integer[]) WITH ORDINALITY u (id, revision, place)"
_THEN: Final = """
    CROSS JOIN LATERAL (
        SELECT stated FROM stated_row s WHERE s.side = {side} AND s.transaction_id = u.id AND s.revision = u.revision
        ORDER BY s.until_change_id DESC LIMIT 1
    ) o
"""
_CHANGED: Final = f"""
    SELECT u.id, n.key AS name
    FROM {_GIVEN} JOIN {{table}} t ON t.id = u.id {_THEN}
    CROSS JOIN LATERAL jsonb_each(to_jsonb(t)) n
    WHERE n.value IS DISTINCT FROM o.stated -> n.key AND n.key <> ALL(%(beside)s)
    ORDER BY u.place, n.key
"""  # noqa: S608 - our own text
_STATED: Final = f"""
    SELECT u.revision AS made_for, {{columns}}
    FROM {_GIVEN} {_THEN} CROSS JOIN LATERAL jsonb_populate_record(NULL::{{table}}, o.stated) t
"""  # noqa: S608 - our own text

_BESIDE: Final = ["id", "revision", "updated_at", "created_at", "change_id", "import_id", "line", "statement_index"]
"""Columns that change whenever anything does, or say where a transaction came from."""


async def changed_columns(connection: Connection, side: Side, revisions: Mapping[UUID, int]) -> dict[UUID, list[str]]:
    """Return the columns in which transactions are not what they were at revisions, of those of which it is known."""
    query = _CHANGED.format(table=STATED_TABLES[side].__tablename__, side=int(side))
    parameters = {"ids": list(revisions), "revisions": list(revisions.values()), "beside": _BESIDE}
    found: dict[UUID, list[str]] = {}
    for row in await fetch_all(connection, query, parameters):
        found.setdefault(row["id"], []).append(row["name"])
    return found


async def stated_then(
    connection: Connection, side: Side, revisions: Collection[tuple[UUID, int]]
) -> dict[tuple[UUID, int], dict[str, Any]]:
    """Return what transactions stated at revisions that are not theirs any more, of those of which it is known."""
    table = STATED_TABLES[side]
    query = _STATED.format(columns=columns_of(table, "t"), table=table.__tablename__, side=int(side))
    parameters = {"ids": [name for name, _ in revisions], "revisions": [revision for _, revision in revisions]}
    rows = await fetch_all(connection, query, parameters)
    return {(row["id"], row["made_for"]): row for row in rows}
