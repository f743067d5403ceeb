"""Everything that is known of one match, read for an auditor as of one instant of the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from payrec.storage.allocations import Side
from payrec.storage.database import Connection
from payrec.storage.history import STATED_TABLES
from payrec.storage.rows import columns_of, fetch_all, fetch_one
from payrec.tables.history import MatchState
from payrec.tables.returns import ReversalLink

_STATES: Final = f"""
    SELECT {columns_of(MatchState, "s")}, c.at FROM (
        SELECT {columns_of(MatchState)} FROM match_state WHERE match_id = %(id)s
        UNION
        SELECT {
    columns_of(MatchState, "m")
    .replace('m."match_id"', "m.id")
    .replace('m."change_id"', "coalesce(m.change_id, m.created_change_id)")
}
        FROM match m WHERE m.id = %(id)s
    ) s LEFT JOIN change c ON c.id = s.change_id ORDER BY s.version
"""  # noqa: S608 - our own text
_DECIDED: Final = """
    SELECT l.valid_from, f.at AS from_at, l.valid_to, t.at AS to_at FROM leg l
    LEFT JOIN change f ON f.id = l.valid_from LEFT JOIN change t ON t.id = l.valid_to
    WHERE l.match_id = %s ORDER BY l.ordinal LIMIT 1
"""
# What a row said at an instant is what it said until the first change after it, else what it says now.
_STATED: Final = """
    SELECT t.id, to_jsonb(t) AS now, c.at AS stated_at, coalesce(a.status, %(untouched)s) AS status,
        coalesce(a.allocated_minor, 0) AS allocated_minor,
        (SELECT s.stated FROM stated_row s JOIN change u ON u.id = s.until_change_id
         WHERE s.side = {side} AND s.transaction_id = t.id AND u.at > %(decided_at)s
         ORDER BY u.at, u.id LIMIT 1) AS before_change
    FROM {table} t LEFT JOIN allocation a ON a.transaction_id = t.id AND a.side = {side}
    LEFT JOIN change c ON c.id = t.change_id
    WHERE t.id = ANY(%(ids)s) ORDER BY t.id
"""
_SOURCES: Final = """
    SELECT i.id AS transaction_id, i.line, f.id AS import_id, f.name, f.sha256, f.format, f.format_version,
        f.created_at AS received_at, f.data_source_id, s.ordinal, s.kind, s.statement_id, s.sequence_number,
        s.account, s.from_on, s.to_on
    FROM incoming_transaction i JOIN import f ON f.id = i.import_id
    LEFT JOIN statement s ON s.import_id = i.import_id AND s.ordinal = i.statement_index
    WHERE i.id = ANY(%s)
"""
_RETURNS: Final = f"""
    SELECT {columns_of(ReversalLink, "r")}, c.at FROM reversal_link r LEFT JOIN change c ON c.id = r.change_id
    WHERE r.match_id = %s ORDER BY r.reversal_id, r.ordinal LIMIT %s
"""  # noqa: S608 - our own text
_SUPERSEDED: Final = """
    SELECT DISTINCT m.id, m.status, m.updated_at, m.created_at FROM match m JOIN leg l ON l.match_id = m.id
    WHERE m.superseded_by = %(id)s AND (l.expected_id = ANY(%(expected)s) OR l.contra_expected_id = ANY(%(expected)s)
        OR l.incoming_id = ANY(%(incoming)s) OR l.contra_incoming_id = ANY(%(incoming)s))
    ORDER BY m.id LIMIT %(limit)s
"""
_AUDIT: Final = """
    SELECT r.change_id, r.ordinal, c.at, r.actor, r.action, r.resource_id, r.reason, r.before::text AS before,
        r.after::text AS after, r.request_id, k.salt, k.content, k.commitment, s.sequence, s.sealed_at, s.root
    FROM audit_record r JOIN change c ON c.id = r.change_id
    LEFT JOIN audit_commitment k ON k.change_id = r.change_id AND k.ordinal = r.ordinal
    LEFT JOIN audit_seal s ON s.sequence = k.seal
    WHERE r.resource_id = ANY(%s) ORDER BY r.change_id, r.ordinal LIMIT %s
"""
_RUN: Final = "SELECT id, params, result, created_at, finished_at FROM job WHERE id = %s"
_UNTOUCHED: Final = {Side.EXPECTED: "open", Side.INCOMING: "unmatched"}


class MatchRecordStore:
    """What one match and its transactions have gone through."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def states(self, match_id: UUID) -> list[dict[str, Any]]:
        """Return the states that are known of a match, in their order, each with the instant of its change."""
        return await fetch_all(self._connection, _STATES, {"id": match_id})

    async def decided(self, match_id: UUID) -> dict[str, Any]:
        """Return from and until which change the legs count, each with its instant."""
        return await fetch_one(self._connection, _DECIDED, (match_id,)) or {}

    async def transactions(self, side: Side, ids: Sequence[UUID], *, decided_at: Any) -> list[dict[str, Any]]:
        """Return what transactions state: ``now``, and ``before_change`` where that was another when it was decided.

        ``decided_at`` may be ``infinity``: then what is stated now is what counts.
        """
        query = _STATED.format(side=int(side), table=STATED_TABLES[side].__tablename__)
        parameters = {"ids": list(ids), "decided_at": decided_at, "untouched": _UNTOUCHED[side]}
        return await fetch_all(self._connection, query, parameters)

    async def sources(self, ids: Sequence[UUID]) -> dict[UUID, dict[str, Any]]:
        """Return the file, statement and line of incoming transactions that came in files."""
        rows = await fetch_all(self._connection, _SOURCES, (list(ids),))
        return {row["transaction_id"]: row for row in rows}

    async def returns(self, match_id: UUID, *, limit: int) -> list[dict[str, Any]]:
        """Return what returns have taken back of a match."""
        return await fetch_all(self._connection, _RETURNS, (match_id, limit))

    async def superseded(
        self, match_id: UUID, *, expected: Sequence[UUID], incoming: Sequence[UUID], limit: int
    ) -> list[dict[str, Any]]:
        """Return the proposals that gave way to a match."""
        parameters = {"id": match_id, "expected": list(expected), "incoming": list(incoming), "limit": limit}
        return await fetch_all(self._connection, _SUPERSEDED, parameters)

    async def audit(self, resource_ids: Sequence[UUID], *, limit: int) -> list[dict[str, Any]]:
        """Return the audit records of resources, the oldest first, as they are committed to, each with its seal."""
        return await fetch_all(self._connection, _AUDIT, (list(resource_ids), limit))

    async def run(self, job_id: UUID) -> dict[str, Any] | None:
        """Return the run that proposed a match, while it is kept."""
        return await fetch_one(self._connection, _RUN, (job_id,))
