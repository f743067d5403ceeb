"""What a matching run writes, as sets: proposals, what is accepted at once, and why the rest stays open.

Everybody who decides locks in one order: decisions (``hold_decisions``), allocations, open rows, then matches. A run
holds the decisions alone, so who takes amounts sees either nothing of it or all: a proposal whose amounts go elsewhere
is superseded by whoever takes them. Open rows are locked by id, because uploads lock several of them too.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from payrec.errors import AlreadyMatchedError
from payrec.storage.allocations import hold_decisions
from payrec.storage.changes import EVENT_IDS_MAX
from payrec.storage.database import Connection
from payrec.storage.history import allocations_logged, keep_reasons, matches_kept
from payrec.storage.rows import CopiedRows, copy_in, copy_out_rows, fetch_all, fetch_one
from payrec.storage.staged_rows import Shape, StagedRows

ANALYZED_ROWS_MIN: Final = 1_000
"""New rows beyond which the statistics of the matches are brought up to date."""

WORK_MEMORY_MIB: Final = 64
"""Memory of one sort or join of a commit: those of a million rows are done without temporary files."""

STATISTICS_TARGET: Final = 10
"""Of what a commit analyses: ids are nearly unique, so 300 times as many rows tell all; the default reads 30,000."""

PROPOSED_ORDINAL: Final = 1_000_000
"""Where the event rows of new matches, and of what they take, begin among those of their change."""

SUPERSEDED_ORDINAL: Final = 2_000_000
"""Where those of superseded ones begin."""

TAKEN_COLUMNS: Final = ["transaction_id", "place", "open_minor", "revision", "minor", "winner"]
"""Columns of what is staged of each transaction of a proposal: its place among the rows that were read, what was open
of it then, what is accepted of it at once, and the first match that does so."""

ALLOCATION_COLUMNS: Final = [
    "transaction_id", "amount_minor", "allocated_minor", "updated_at", "version", "side", "status", "change_id",
]  # fmt: skip
"""Columns of a new allocation, in the order of COPY."""

MATCH_COLUMNS: Final = [
    "id", "run_id", "amount_minor", "created_at", "updated_at", "decided_at", "effective_on", "score", "candidates",
    "status", "kind", "confidence", "uniqueness", "currency", "created_by", "decided_by", "levels", "alternatives",
    "adjustments", "proof", "content_key", "created_change_id",
]  # fmt: skip
"""Columns of a new match, in the order of COPY."""

LEG_COLUMNS: Final = [
    "match_id", "ordinal", "expected_id", "contra_expected_id", "incoming_id", "contra_incoming_id", "valid_from",
    "amount_minor", "settled_minor", "expected_revision", "incoming_revision", "settled_currency", "contra_revision",
]  # fmt: skip
"""Columns of a new leg, in the order of COPY."""

EVENT_COLUMNS: Final = ["change_id", "ordinal", "type", "resource_ids"]
"""Columns of an event of many, in the order of COPY."""

ENDS_OF_TOUCHED_COLUMNS: Final = ["match_id", "is_own", "side", "transaction_id"]
"""Columns of what a filtered run finds of the proposals that there are."""

_BEGIN: Final = f"""
    SET LOCAL work_mem = '{WORK_MEMORY_MIB}MB'; SET LOCAL default_statistics_target = {STATISTICS_TARGET}
"""
_LOOKED_UP: Final = "; SET LOCAL random_page_cost = 1.1"
_HASH_JOINS: Final = "SET LOCAL enable_hashjoin = {}"
_TAKEN: Final = Shape(
    columns=dict(zip(TAKEN_COLUMNS, ("uuid", "integer", "bigint", "integer", "bigint", "uuid"), strict=True)),
    analyzed="(transaction_id, minor)",
)
_END: Final = Shape(columns={"side": "smallint", "transaction_id": "uuid"})
_STAGED: Final = {
    "taken_expected": _TAKEN,
    "taken_incoming": _TAKEN,
    "new_reason": Shape(columns={"side": "smallint", "transaction_id": "uuid", "reason": "smallint"}),
    "looked_at": _END,
    "touched": Shape(columns={"match_id": "uuid", "is_own": "boolean"}),
    "others_end": _END,
    "kept_match": Shape(columns={"id": "uuid"}),
}
_CHANGED: Final = """
    SELECT {number} AS side, t.place FROM {{taken_{side}}} t WHERE NOT EXISTS (
        SELECT 1 FROM {open} o WHERE o.transaction_id = t.transaction_id
        AND o.open_minor = t.open_minor AND o.revision = t.revision
    )
"""
# What is older than the horizon was seen when it was read, and a row that changes is not old any more: where as many
# old ones are there as were read, none has changed. To count them is a sixth of the work of comparing each.
_UNCHANGED: Final = " AND ".join(
    f"(SELECT count(*) FROM {side}_open WHERE age(xmin) > (SELECT age(%(horizon)s::text::xid8::xid))) = %({side})s"  # noqa: S608 - our own text
    for side in ("expected", "incoming")
)
_STORED: Final = """
    COPY (
        SELECT m.id, m.content_key FROM {source}
        WHERE m.status = 'proposed' AND {within} ORDER BY m.id
    ) TO STDOUT (FORMAT BINARY)
"""
# Few have been allocated to before; held by id, as everybody holds them.
_HELD: Final = """
    held AS (
        SELECT t.transaction_id, t.place, t.minor FROM {{taken_{side}}} t
        JOIN allocation a ON a.transaction_id = t.transaction_id AND a.side = {number}
        WHERE t.minor > 0 ORDER BY t.transaction_id FOR UPDATE OF a
    )
"""
_ALLOCATE_MORE: Final = """
    UPDATE allocation a SET
        allocated_minor = a.allocated_minor + h.minor,
        status = CASE WHEN a.allocated_minor + h.minor = a.amount_minor THEN 'matched' ELSE 'partially_matched' END,
        version = a.version + 1, reason_code = NULL, change_id = %(change_id)s, updated_at = %(at)s
    FROM held h WHERE a.transaction_id = h.transaction_id AND a.side = {number}
"""
_OF_HELD: Final = "a.side = {number} AND a.transaction_id IN (SELECT transaction_id FROM held)"
_PLACES: Final = " SELECT place FROM changed"
# One pass in the order of ids, which a hash join would not keep.
_CLOSE: Final = """
    MERGE INTO {open} o USING (
        SELECT transaction_id, open_minor, revision, minor FROM {{taken_{side}}} k WHERE minor > 0
        ORDER BY transaction_id
    ) t ON o.transaction_id = t.transaction_id
    WHEN MATCHED AND o.open_minor = t.open_minor AND o.revision = t.revision AND t.minor = t.open_minor THEN DELETE
    WHEN MATCHED AND o.open_minor = t.open_minor AND o.revision = t.revision THEN
        UPDATE SET open_minor = o.open_minor - t.minor
"""
_NEW_REASONS: Final = """
    SELECT s.transaction_id, s.side, s.reason FROM {{new_reason}} s{unless} ORDER BY s.side, s.transaction_id
"""
_ENDED_REASONS: Final = keep_reasons(f"""
    open_reason w JOIN ({_NEW_REASONS}) s ON w.transaction_id = s.transaction_id AND w.side = s.side
""")
_REASONS: Final = f"""
    MERGE INTO open_reason w USING ({_NEW_REASONS}) s ON w.transaction_id = s.transaction_id AND w.side = s.side
    WHEN MATCHED AND s.reason IS NULL THEN DELETE
    WHEN MATCHED THEN UPDATE SET reason = s.reason, change_id = %(change_id)s
    WHEN NOT MATCHED AND s.reason IS NOT NULL THEN
        INSERT (transaction_id, side, reason, change_id) VALUES (s.transaction_id, s.side, s.reason, %(change_id)s)
"""  # noqa: S608 - our own text
_UNLESS_PROPOSED: Final = """
    WHERE NOT EXISTS (SELECT 1 FROM {others_end} p WHERE p.side = s.side AND p.transaction_id = s.transaction_id)
"""
_NEEDED: Final = """
    SELECT l.match_id, t.transaction_id, t.winner, coalesce(o.open_minor, 0) AS left_minor, l.{minor} AS minor
    FROM {{taken_{side}}} t JOIN leg l ON l.{column} = t.transaction_id {among}
    LEFT JOIN {open} o ON o.transaction_id = t.transaction_id WHERE t.minor > 0
"""
_SUPERSEDE: Final = """
    WITH rival AS (
        SELECT match_id, min(winner::text)::uuid AS winner FROM (
            SELECT m.id AS match_id, n.winner FROM ({needed}) n JOIN match m ON m.id = n.match_id
            WHERE m.status = 'proposed' GROUP BY m.id, n.transaction_id, n.winner, n.left_minor
            HAVING n.left_minor < sum(n.minor) + coalesce((
                SELECT sum((a.value->>'minor')::bigint) FROM jsonb_array_elements(m.adjustments) a
                WHERE a.value->>'id' = n.transaction_id::text
            ), 0)
        ) r GROUP BY match_id
    ), gone AS (
        SELECT * FROM (
            SELECT m.id AS match_id, r.winner FROM {source} LEFT JOIN rival r ON r.match_id = m.id
            WHERE m.status = 'proposed' AND (r.winner IS NOT NULL OR (
                NOT EXISTS (SELECT 1 FROM {{kept_match}} k WHERE k.id = m.id) AND {within}
            ))
            ORDER BY m.id FOR UPDATE OF m
        ) h
    ), {kept}, done AS (
        UPDATE match m SET status = 'superseded', superseded_by = gone.winner, updated_at = %(at)s,
            version = m.version + 1, change_id = %(change_id)s
        FROM gone WHERE m.id = gone.match_id RETURNING m.id
    ), announced AS (
        INSERT INTO outbox (change_id, ordinal, type, resource_ids)
        SELECT %(change_id)s, %(ordinal)s + chunk, 'match.superseded', array_agg(id ORDER BY id)
        FROM (SELECT id, (row_number() OVER (ORDER BY id) - 1) / %(ids_max)s AS chunk FROM done) n GROUP BY chunk
    )
    SELECT count(*) AS count FROM done
"""
_SIDES: Final = (
    {"number": 1, "side": "expected", "open": "expected_open"},
    {"number": 2, "side": "incoming", "open": "incoming_open"},
)
_ENDS: Final = (
    {**_SIDES[0], "column": "expected_id", "minor": "settled_minor"},
    {**_SIDES[0], "column": "contra_expected_id", "minor": "amount_minor"},
    {**_SIDES[1], "column": "incoming_id", "minor": "amount_minor"},
    {**_SIDES[1], "column": "contra_incoming_id", "minor": "settled_minor"},
)
_ALL_NEEDED, _NEEDED_BY_TOUCHED = (
    " UNION ALL ".join(_NEEDED.format(**end, among=among) for end in _ENDS)
    for among in ("", "JOIN {touched} c ON c.match_id = l.match_id")
)
_TOUCHED: Final = " UNION ".join(
    f"SELECT l.match_id FROM {{looked_at}} s JOIN leg l ON l.{end['column']} = s.transaction_id"  # noqa: S608 - our own
    f" WHERE s.side = {end['number']} AND l.{end['column']} IS NOT NULL"
    for end in _ENDS
)
_LEG_ENDS: Final = ", ".join(f"({end['number']}, l.{end['column']})" for end in _ENDS)
# A run's own are those all of whose transactions it has looked at.
_ENDS_OF_TOUCHED: Final = f"""
    COPY (WITH touched AS MATERIALIZED (
        SELECT m.id FROM ({_TOUCHED}) t JOIN match m ON m.id = t.match_id WHERE m.status = 'proposed'
    )
    SELECT {", ".join(ENDS_OF_TOUCHED_COLUMNS)} FROM (
        SELECT t.id AS match_id, e.side, s.transaction_id,
            bool_and(s.transaction_id IS NOT NULL) OVER (PARTITION BY t.id) AS is_own
        FROM touched t JOIN leg l ON l.match_id = t.id
        CROSS JOIN LATERAL (VALUES {_LEG_ENDS}) AS e (side, transaction_id)
        LEFT JOIN {{looked_at}} s ON s.side = e.side AND s.transaction_id = e.transaction_id
        WHERE e.transaction_id IS NOT NULL
    ) n WHERE transaction_id IS NOT NULL) TO STDOUT (FORMAT BINARY)
"""  # noqa: S608 - our own text
_OF_ALL: Final = {"source": "match m", "within": "true", "needed": _ALL_NEEDED}
# Few, found by their ids: a run with few lines would otherwise look at every proposal that there is.
_OF_TOUCHED: Final = {
    "source": "{touched} c JOIN match m ON m.id = c.match_id",
    "within": "c.is_own",
    "needed": _NEEDED_BY_TOUCHED,
}


class MatchProposalStore:
    """Writes proposals in the transaction of ``connection``: its methods are called in the order in which they are."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._staged = StagedRows(connection, _STAGED)
        self._makes_hash_tables = True

    async def begin(self, *, looked_at: bytes | None, few: bool = False) -> None:
        """Take what a filtered run has read; None of another one.

        The transaction has more memory for its joins from then on, and samples less for its statistics. A filtered run
        looks up rows in a cache: at the cost of a disk whose head moves it would read every leg that ever was instead;
        and of ``few`` rows it makes no hash table.
        """
        begin = _BEGIN
        if looked_at is not None:
            begin += _LOOKED_UP
            self._makes_hash_tables = not few
        if not self._makes_hash_tables:
            begin += "; " + _HASH_JOINS.format("off")
        await self._connection.execute(begin.encode(), prepare=False)
        if looked_at is not None:
            await self._staged.put("looked_at", looked_at)

    async def stage(self, expected: bytes, incoming: bytes) -> None:
        """Keep what is taken of the transactions of each side, in TAKEN_COLUMNS and by id, in place of all before."""
        await self._staged.put("taken_expected", expected)
        await self._staged.put("taken_incoming", incoming)

    async def hold(self) -> None:
        """Decide alone until the end of the transaction."""
        await hold_decisions(self._connection, alone=True)

    async def changed(self) -> tuple[list[int], list[int]]:
        """Return the places of staged transactions of each side that are not any more what they were."""
        query, parameters = self._joining(" UNION ALL ".join(_CHANGED.format(**side) for side in _SIDES))
        rows = await fetch_all(self._connection, query, parameters)
        of_sides = [[row["place"] for row in rows if row["side"] == side["number"]] for side in _SIDES]
        return of_sides[0], of_sides[1]

    async def unchanged(self, *, horizon: int, expected: int, incoming: int) -> bool:
        """Tell whether the open rows are those, so many of each side, that were seen when the horizon was read.

        What it does not know is told as a change: that others wrote just then, and on Citus everything, because a
        schema that is moved is on a server that numbers its transactions otherwise.
        """
        if self._connection.is_distributed:
            return False
        parameters = {"horizon": horizon, "expected": expected, "incoming": incoming}
        row = await fetch_one(self._connection, f"SELECT {_UNCHANGED} AS unchanged", parameters)
        return row is not None and row["unchanged"]

    async def ends_of_touched(self) -> CopiedRows:
        """Return the proposals that join what the run looked at, in ENDS_OF_TOUCHED_COLUMNS and binary.

        A row for each of the ends that it looked at, and whether these are all that the proposal has. All legs are
        asked for it once: what comes after joins the few that were found. Nobody may decide meanwhile.
        """
        return await copy_out_rows(self._connection, *self._joining(_ENDS_OF_TOUCHED))

    async def touch(self, touched: bytes, others_ends: bytes) -> None:
        """Keep those as ``match_id, is_own``, and as ``side, transaction_id`` the ends of all that are not own."""
        await self._staged.put("touched", touched)
        await self._staged.put("others_end", others_ends)

    async def stored(self, *, filtered: bool = False) -> CopiedRows | None:
        """Return ``id`` and ``content_key`` of the proposals that there are, in binary; None if there are none.

        For a ``filtered`` run its own, as ``touch`` was told, and never None: there may be others of which it takes.
        """
        of = _OF_TOUCHED if filtered else _OF_ALL
        rows = await copy_out_rows(self._connection, *self._joining(_STORED.format(**of)))
        return rows if filtered or rows.height > 0 else None

    async def allocate_more(self, *, change_id: UUID, at: datetime) -> tuple[list[int], list[int]]:
        """Allocate what is accepted at once of transactions that have an allocation; return their places by side.

        Raises
        ------
        AlreadyMatchedError
            Through the constraint ``allocation_within_amount``.
        """
        places = []
        for side in _SIDES:
            query = allocations_logged(
                _ALLOCATE_MORE.format(**side),
                of=_OF_HELD.format(**side),
                before=_HELD.format(**side),
                returning="h.place",
            )
            joining, parameters = self._joining(query + _PLACES)
            rows = await fetch_all(self._connection, joining, {**parameters, "change_id": change_id, "at": at})
            places.append([row["place"] for row in rows])
        return places[0], places[1]

    async def allocate(self, rows: bytes) -> None:
        """Allocate what is accepted at once of all others, in ALLOCATION_COLUMNS.

        Raises
        ------
        AlreadyMatchedError
            Through the constraint ``allocation_within_amount``, or because one has been touched just now.
        """
        await self._copy_in("allocation", ALLOCATION_COLUMNS, rows)

    async def close(self, *, expected: int, incoming: int) -> None:
        """Close or reduce the open rows of what was allocated: so many of each side.

        Raises
        ------
        AlreadyMatchedError
            A row changed after ``changed`` has looked: propose again.
        """
        await self._hash_joins("off")
        for side, count in zip(_SIDES, (expected, incoming), strict=True):
            query, parameters = self._joining(_CLOSE.format(**side))
            cursor = await self._connection.execute(query.encode(), parameters)
            if cursor.rowcount != count:
                raise AlreadyMatchedError("what the run would have accepted changed meanwhile")
        await self._hash_joins("on")

    async def give_reasons(self, reasons: bytes, *, change_id: UUID, filtered: bool) -> None:
        """Write new reasons as ``side, transaction_id, reason``; a null takes back what was said.

        Those of a ``filtered`` run stay away from what a proposal of others joins.
        """
        if not reasons:
            return
        await self._staged.put("new_reason", reasons)
        unless = _UNLESS_PROPOSED if filtered else ""
        for query in (_ENDED_REASONS, _REASONS):
            joining, parameters = self._joining(query.format(unless=unless))
            await self._connection.execute(joining.encode(), {**parameters, "change_id": change_id})

    async def supersede(self, kept: bytes, *, change_id: UUID, at: datetime, filtered: bool) -> int:
        """Supersede the proposals that there are, except ``kept`` ones that nothing accepted competes with.

        A ``filtered`` run leaves alone what joins transactions that it did not look at, unless something that it
        accepts takes their amounts.
        """
        await self._staged.put("kept_match", kept)
        of = _OF_TOUCHED if filtered else _OF_ALL
        query = _SUPERSEDE.format(**of, kept=matches_kept("gone"))
        parameters = {"change_id": change_id, "at": at, "ordinal": SUPERSEDED_ORDINAL, "ids_max": EVENT_IDS_MAX}
        joining, of_sets = self._joining(query)
        row = await fetch_one(self._connection, joining, {**of_sets, **parameters})
        return row["count"] if row is not None else 0

    async def _hash_joins(self, switch: str) -> None:
        """Switch them, where they are not off for all of the transaction."""
        if self._makes_hash_tables:
            await self._connection.execute(_HASH_JOINS.format(switch).encode(), prepare=False)

    def _joining(self, query: str) -> tuple[str, dict[str, Any]]:
        """Return a statement that joins what is staged, and its parameters."""
        return query.format(**self._staged.sources), self._staged.parameters

    async def insert(self, matches: bytes, legs: bytes, events: bytes) -> None:
        """Copy new matches, their legs and what is told, in the columns above."""
        await self._copy_in("match", MATCH_COLUMNS, matches)
        await self._copy_in("leg", LEG_COLUMNS, legs)
        await self._copy_in("outbox", EVENT_COLUMNS, events)

    async def analyze(self, rows: int) -> None:
        """Bring the statistics up to date when so many rows are new that they matter.

        The next run may come before autovacuum does, and would be planned for the tables as they were.
        """
        if rows > ANALYZED_ROWS_MIN:
            await self._connection.execute(b"ANALYZE match (id, status), leg (match_id, expected_id, incoming_id)")

    async def _copy_in(self, table: str, columns: list[str], data: bytes) -> None:
        query = f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
        await copy_in(self._connection, query, data)
