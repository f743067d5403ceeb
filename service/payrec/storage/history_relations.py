"""The tables as they were at the instant ``%(as_of)s``: relations that a statement meets under the tables' own names.

``at_instant`` begins a statement that is otherwise the one that reads the present. Each relation is written so that the
planner may look single rows up by id, as in the table; what a transaction that is open then has written is not there.

A list is read in two ``ARMS`` by what it pages through: the rows that are still as they were, by the indexes of the
table, and those that are not any more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from payrec.storage.history import STATED_TABLES, later
from payrec.storage.rows import column_names, columns_of
from payrec.tables.allocations import Allocation
from payrec.tables.history import AllocationState, MatchState
from payrec.tables.matches import Match
from payrec.tables.reasons import OpenReason
from payrec.tables.returns import ReversalLink

_OF_MATCH: Final = {
    # What a match was when it was made, where no state says otherwise.
    "superseded_by": "NULL",
    "returned_minor": "0",
    "updated_at": "c.created_at",
    "decided_at": "NULL",
    "effective_on": "NULL",
    "reversed_on": "NULL",
    "version": "1",
    "sampled": "false",
    "status": "'proposed'",
    "decided_by": "NULL",
    "decision_reason": "NULL",
}
_MATCH_COLUMNS: Final = ", ".join(
    f'CASE WHEN h.id IS NULL THEN c."{name}" WHEN s.match_id IS NOT NULL THEN s."{name}" ELSE {_OF_MATCH[name]} END'
    f' AS "{name}"'
    if name in _OF_MATCH
    else f'c."{name}"'
    for name in column_names(Match)
)
if set(column_names(MatchState)) - set(_OF_MATCH) != {"match_id", "change_id"}:
    raise AssertionError("a column of match_state without a first value")

_ALLOCATION_COLUMNS: Final = ", ".join(
    f'CASE WHEN h.id IS NULL THEN c."{name}" ELSE s."{name}" END AS "{name}"'
    if name in set(column_names(AllocationState)) - {"transaction_id", "side"}
    else f'c."{name}"'
    for name in column_names(Allocation)
)


def _looked_up(change: str) -> str:
    """Return what ``later`` says, as a look-up of its own.

    Where few rows are read, planning a join for each takes longer than all of them.
    """
    return f"coalesce((SELECT lh.at > %(as_of)s FROM change lh WHERE lh.id = {change}), false)"  # noqa: S608 - our own text


# The planner does not know that what has changed since is at one end of the ids, and would walk there from the other.
_CHANGED_ONE_BY_ONE: Final = """
    CROSS JOIN LATERAL (SELECT * FROM match n WHERE n.change_id = h.id AND n.id <= %(last_id)s OFFSET 0) c
"""


class _Texts:
    """The relations. ``is_later`` tells whether a change is later than the instant, ``changed`` joins its matches."""

    def __init__(self, is_later: Callable[[str], str], *, changed: str) -> None:
        self._is_later = is_later
        later_match = f"""
            LEFT JOIN LATERAL (
                SELECT * FROM match_state t
                WHERE h.id IS NOT NULL AND t.match_id = c.id AND NOT {_looked_up("t.change_id")}
                ORDER BY t.version DESC LIMIT 1
            ) s ON true
            WHERE NOT {is_later("c.created_change_id")}
        """  # noqa: S608 - our own text
        self.match = f"""
            SELECT {_MATCH_COLUMNS} FROM match c
            LEFT JOIN change h ON h.id = c.change_id AND h.at > %(as_of)s {later_match}
        """  # noqa: S608 - our own text
        self.matches = (
            f"""
            SELECT {columns_of(Match, "c")} FROM match c
            WHERE NOT {is_later("c.change_id")} AND NOT {is_later("c.created_change_id")}
            """,  # noqa: S608 - our own text
            f"""
            SELECT {_MATCH_COLUMNS} FROM change h {changed} {later_match} AND h.at > %(as_of)s
            """,  # noqa: S608 - our own text
        )
        self.allocation = f"""
            SELECT {_ALLOCATION_COLUMNS} FROM allocation c
            LEFT JOIN change h ON h.id = c.change_id AND h.at > %(as_of)s
            LEFT JOIN LATERAL (
                SELECT * FROM allocation_state t
                WHERE h.id IS NOT NULL AND t.transaction_id = c.transaction_id AND t.side = c.side
                    AND NOT {_looked_up("t.change_id")}
                ORDER BY t.version DESC LIMIT 1
            ) s ON true
            WHERE h.id IS NULL OR s.version IS NOT NULL
        """  # noqa: S608 - our own text
        self.open_reason = f"""
            SELECT {columns_of(OpenReason, "c")} FROM open_reason c WHERE NOT {is_later("c.change_id")}
            UNION ALL
            SELECT t.transaction_id, t.side, t.reason, t.change_id FROM open_reason_state t
            WHERE NOT {is_later("t.change_id")} AND {is_later("t.until_change_id")}
        """  # noqa: S608 - our own text
        self.reversal_link = f"""
            SELECT {columns_of(ReversalLink, "c")} FROM reversal_link c WHERE NOT {is_later("c.change_id")}
            UNION ALL
            SELECT {columns_of(ReversalLink, "t")} FROM reversal_link_state t
            WHERE NOT {is_later("t.change_id")} AND {is_later("t.until_change_id")}
        """  # noqa: S608 - our own text

    def stated(self, side: int) -> str:
        """Return what transactions of a side stated, each found by its id in the table."""
        table = STATED_TABLES[side]
        # What a table has got since a row was kept is null there.
        columns = ", ".join('c."id"' if name == "id" else f'p."{name}"' for name in column_names(table))
        return f"""
            SELECT {columns} FROM {table.__tablename__} c
            LEFT JOIN LATERAL (
                SELECT t.stated FROM stated_row t JOIN change h ON h.id = t.until_change_id
                WHERE t.side = {side} AND t.transaction_id = c.id AND h.at > %(as_of)s ORDER BY h.at LIMIT 1
            ) s ON true
            CROSS JOIN LATERAL jsonb_populate_record(c, coalesce(s.stated, '{{}}')) p
            WHERE NOT {self._is_later("c.change_id")}
        """  # noqa: S608 - our own text

    def all_stated(self, side: int) -> tuple[str, str]:
        """Return the same as arms."""
        table = STATED_TABLES[side]
        columns = ", ".join(
            'b.transaction_id AS "id"' if name == "id" else f'c."{name}"' for name in column_names(table)
        )
        return (
            f"""
            SELECT {columns_of(table, "c")} FROM {table.__tablename__} c
            WHERE NOT {self._is_later("c.change_id")} AND NOT EXISTS (
                SELECT FROM stated_row t JOIN change h ON h.id = t.until_change_id
                WHERE t.side = {side} AND t.transaction_id = c.id AND h.at > %(as_of)s
            )
            """,  # noqa: S608 - our own text
            f"""
            SELECT {columns} FROM stated_row b
            JOIN change u ON u.id = b.until_change_id AND u.at > %(as_of)s
            CROSS JOIN LATERAL jsonb_populate_record(NULL::{table.__tablename__}, b.stated) c
            WHERE b.side = {side} AND NOT {self._is_later("c.change_id")} AND u.at = (
                SELECT min((SELECT h.at FROM change h WHERE h.id = t.until_change_id AND h.at > %(as_of)s))
                FROM stated_row t WHERE t.side = {side} AND t.transaction_id = b.transaction_id
            )
            """,  # noqa: S608 - our own text
        )


_ALL_ALLOCATIONS: Final = f"""
    SELECT {columns_of(Allocation, "c")} FROM allocation c WHERE NOT {later("c.change_id")}
    UNION ALL
    SELECT {", ".join(f's."{name}"' for name in column_names(Allocation))}
    FROM allocation c JOIN change h ON h.id = c.change_id AND h.at > %(as_of)s
    CROSS JOIN LATERAL (
        SELECT * FROM allocation_state t
        WHERE t.transaction_id = c.transaction_id AND t.side = c.side AND NOT {_looked_up("t.change_id")}
        ORDER BY t.version DESC LIMIT 1
    ) s
"""  # noqa: S608 - our own text
OPEN_STATUSES: Final = {1: ("open", "partially_matched"), 2: ("open", "pending", "unmatched", "partially_matched")}
"""In which a transaction of a side is among what is open; ``open`` is one that nobody has touched."""

_IS_OPEN: Final = {
    side: f"coalesce(a.status, 'open') IN ({', '.join(repr(s) for s in statuses)})"
    for side, statuses in OPEN_STATUSES.items()
}


def is_open(side: int) -> str:
    """Return the SQL of whether a transaction of a side is open, of its allocation ``a`` or that there is none."""
    return _IS_OPEN[side]


_DAY: Final = "{} - date '1970-01-01'"
_DIRECTION: Final = "CASE {}.direction WHEN 'credit' THEN 1 ELSE -1 END::smallint AS direction"
_EXPECTED_OPEN: Final = f"""
    SELECT c.id AS transaction_id,
        c.amount_minor - c.settled_before_minor - coalesce(a.allocated_minor, 0) AS open_minor,
        {_DAY.format("c.due_on")} AS due_day, {_DAY.format("c.expected_from_on")} AS from_day,
        {_DAY.format("c.expected_to_on")} AS to_day, c.revision, {_DIRECTION.format("c")}, c.currency
    FROM expected_transaction c LEFT JOIN allocation a ON a.side = 1 AND a.transaction_id = c.id
    WHERE {_IS_OPEN[1]}
"""  # noqa: S608 - our own text
_INCOMING_OPEN: Final = f"""
    SELECT c.id AS transaction_id, coalesce(a.amount_minor - a.allocated_minor, c.amount_minor) AS open_minor,
        {_DAY.format("c.booking_on")} AS booking_day, {_DAY.format("c.value_on")} AS value_day, c.revision,
        {_DIRECTION.format("c")}, c.pending, c.reversal, c.duplicate, c.currency
    FROM incoming_transaction c LEFT JOIN allocation a ON a.side = 2 AND a.transaction_id = c.id
    WHERE {_IS_OPEN[2]}
"""  # noqa: S608 - our own text


def _names(side: int) -> str:
    return str(STATED_TABLES[side].__tablename__)


_FEW: Final = _Texts(_looked_up, changed=_CHANGED_ONE_BY_ONE)
_ALL: Final = _Texts(later, changed="JOIN match c ON c.change_id = h.id")

RELATIONS: Final[dict[str, str]] = {
    # Before the others, because it is of the table itself.
    "ever": "SELECT side, transaction_id, status FROM allocation"
    " UNION ALL SELECT side, transaction_id, status FROM allocation_state",
    "allocation": _FEW.allocation,
    "open_reason": _FEW.open_reason,
    "reversal_link": _FEW.reversal_link,
    "match": _FEW.match,
    **{_names(side): _FEW.stated(side) for side in STATED_TABLES},
    "expected_open": _EXPECTED_OPEN,
    "incoming_open": _INCOMING_OPEN,
}
"""What stands for each table; of the open ones what is stated and what is left, without the keys of matching."""

ARMS: Final[dict[str, tuple[str, str]]] = {
    "match": _FEW.matches,
    **{_names(side): _FEW.all_stated(side) for side in STATED_TABLES},
}
"""What stands for a table that a list pages through: rows that are as they were, and those that are not."""

SETS: Final[dict[str, str]] = {
    "allocation": _ALL_ALLOCATIONS,
    "open_reason": _ALL.open_reason,
    "reversal_link": _ALL.reversal_link,
    "match": " UNION ALL ".join(_ALL.matches),
    **{_names(side): " UNION ALL ".join(_ALL.all_stated(side)) for side in STATED_TABLES},
    "expected_open": _EXPECTED_OPEN,
    "incoming_open": _INCOMING_OPEN,
}
"""What stands for each table where all of it is read: looking up rows one by one would take longer."""


def had_status(status: str, side: int, id_column: str) -> str:
    """Return the condition that a transaction has or had a status, which finds those of a rare one by their index.

    The statement reads ``ever``. It is true of everything that is in the status at the instant.
    """
    return f"{id_column} IN (SELECT o.transaction_id FROM ever o WHERE o.side = {side} AND o.status = '{status}')"  # noqa: S608 - our own text


def at_instant(*tables: str, whole: bool = False) -> str:
    """Return the beginning of a statement that reads these tables as they were; ``whole`` is for one that reads all.

    What a relation of the open ones reads, ``tables`` has to name as well.
    """
    return f"WITH {_named(SETS if whole else RELATIONS, tables)} " if tables else ""


def in_arms(statement: str, table: str, *others: str) -> str:
    """Return a statement without its order that pages through ``table`` and reads ``others``, as they were.

    ``statement`` is done for either of the ARMS; it has its own ORDER and LIMIT, and so must what follows.
    """
    arms = (f"(WITH {_named({table: arm}, (table,))} {statement})" for arm in ARMS[table])
    return f"{at_instant(*others)}{' UNION ALL '.join(arms)}"


def _named(relations: Mapping[str, str], tables: Collection[str]) -> str:
    # In the order of RELATIONS: what is open is told by the allocations of then.
    return ", ".join(f"{name} AS NOT MATERIALIZED ({text})" for name, text in relations.items() if name in tables)
