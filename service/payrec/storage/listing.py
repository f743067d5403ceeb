"""Keyset pages: one way to build them for every list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from payrec.domain.identifiers import id_at
from payrec.storage.database import Connection
from payrec.storage.filters import CHANGE_TIME_MAX
from payrec.storage.history import HistoryStore
from payrec.storage.history_relations import at_instant, in_arms
from payrec.storage.rows import fetch_all


@dataclass(frozen=True, slots=True, kw_only=True)
class SortKey:
    """An order that an index backs. ``expression`` never is null; ``parameter`` is the SQL of a cursor's value."""

    expression: str
    descending: bool
    name: str | None = None
    """Column of the row that carries the sort value; None sorts by id alone (the order of creation)."""
    parameter: str = "%(after_value)s"


@dataclass(slots=True)
class Selection:
    """The parts of a list's statement, all of them our own text; what a request says goes to the parameters."""

    columns: str
    source: str
    id_column: str
    conditions: list[str] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)
    as_of: datetime | None = None
    tables: tuple[str, ...] = ()
    in_arms: bool = True

    def where(self, condition: str, **parameters: Any) -> None:
        """Narrow the list."""
        self.conditions.append(condition)
        self.parameters.update(parameters)

    def at(self, as_of: datetime | None, *tables: str, in_arms: bool = True) -> None:
        """Read as of an instant, None for the present.

        ``tables`` are what has a history of what is read, first the one that is paged through and has ``id_column``.
        Where nothing that may have changed narrows or orders the list, it needs no arms.
        """
        self.as_of, self.tables, self.in_arms = as_of, tables, in_arms


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """Which page: how many rows, in which order, after which one."""

    limit: int
    sort: SortKey
    after: Mapping[str, Any] | None = None
    """``{"id": …, "value": …}`` of the last row of the page before."""


async def select_page(
    connection: Connection, selection: Selection, page: PageRequest
) -> tuple[Sequence[dict[str, Any]], bool]:
    """Return at most ``limit`` rows and whether more follow.

    Raises
    ------
    AsOfOutOfRangeError
        Nothing tells how the list was at that instant.
    """
    await HistoryStore(connection).check(selection.as_of)
    key = page.sort
    comparison, direction = ("<", "DESC") if key.descending else (">", "ASC")
    conditions = list(selection.conditions)
    parameters = {**selection.parameters, "row_count": page.limit + 1}
    if selection.as_of is not None:
        # Whatever is newer need not be looked at.
        conditions.append(f"{selection.id_column} <= %(last_id)s")
    if page.after is not None:
        parameters |= {"after_id": page.after["id"], "after_value": page.after["value"]}
        if key.name is not None:
            left, right = f"({key.expression}, {selection.id_column})", f"({key.parameter}, %(after_id)s)"
        else:
            left, right = selection.id_column, "%(after_id)s"
        conditions.append(f"{left} {comparison} {right}")
    order = f"{selection.id_column} {direction}"
    if key.name is not None:
        order = f"{key.expression} {direction}, {order}"
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    tail = "LIMIT %(row_count)s"
    # Text, not composed objects: building those took a tenth of a request.
    parts = ("SELECT", selection.columns, "FROM", selection.source, where, "ORDER BY", order, tail)
    statement = " ".join(parts)
    if selection.as_of is not None:
        parameters["as_of"] = selection.as_of
        parameters["last_id"] = id_at(selection.as_of, CHANGE_TIME_MAX)
        if selection.in_arms:
            # By the columns that come out; null stands for the end of time here as well.
            names = [name for name in (key.name, "id") if name is not None]
            order = ", ".join(f"{name} {direction}" for name in names)
            statement = f"{in_arms(statement, *selection.tables)} ORDER BY {order} {tail}"
        else:
            statement = at_instant(*selection.tables) + statement
    rows = await fetch_all(connection, statement, parameters)
    return rows[: page.limit], len(rows) > page.limit


BY_CREATION = {
    "createdAt": SortKey(expression="id", descending=False),
    "-createdAt": SortKey(expression="id", descending=True),
}
"""Ids are UUIDv7: their order is the order of creation, and the primary key backs it."""
