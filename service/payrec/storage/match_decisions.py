"""What decisions write of matches, as sets: one match is a set of one.

Everybody who decides locks in one order: decisions (``hold_decisions``), allocations, open rows, then matches, each by
their ids. What is here is the last of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

from payrec.storage.database import Connection
from payrec.storage.history import matches_logged
from payrec.storage.match_parts import PARTS
from payrec.storage.rows import Ids, array_text, fetch_all, insert
from payrec.tables.matches import Match

_LOCK: Final = f"""
    WITH {PARTS.format(which="valid_from IS NULL")}, short AS (
        SELECT p.match_id, p.id FROM parts p
        LEFT JOIN expected_open e ON p.side = 1 AND e.transaction_id = p.id
        LEFT JOIN incoming_open i ON p.side = 2 AND i.transaction_id = p.id
        GROUP BY p.match_id, p.side, p.id, e.open_minor, i.open_minor
        HAVING sum(p.minor) > coalesce(e.open_minor, i.open_minor, 0)
    )
    SELECT m.id, s.ids FROM (
        SELECT match_id AS id FROM short UNION SELECT * FROM unnest(%(ids)s::uuid[])
    ) w JOIN match m ON m.id = w.id
    LEFT JOIN (SELECT match_id, array_agg(id) AS ids FROM short GROUP BY match_id) s ON s.match_id = m.id
    WHERE m.status = 'proposed' ORDER BY m.id FOR UPDATE OF m
"""  # noqa: S608 - our own text
_LOCK_THESE: Final = "SELECT id, status FROM match WHERE id = ANY(%s) ORDER BY id FOR UPDATE"
_COUNTS: Final = """
    UPDATE leg l SET valid_from = %(change_id)s FROM changed c
    WHERE l.match_id = c.match_id AND l.match_id = ANY(%(ids)s)
"""
_COUNTS_NO_MORE: Final = """
    UPDATE leg l SET valid_to = %(change_id)s FROM changed c
    WHERE l.match_id = c.match_id AND l.match_id = ANY(%(ids)s) AND l.valid_from IS NOT NULL AND l.valid_to IS NULL
"""
_COUNTED: Final = "SELECT count(*) FROM changed"
_ACCEPTED: Final = """
        UPDATE match m SET status = %(status)s, decided_by = %(actor)s, decided_at = %(at)s,
            decision_reason = %(reason)s, effective_on = t.effective_on, updated_at = %(at)s,
            change_id = %(change_id)s, version = m.version + 1
        FROM unnest(%(ids)s::uuid[], %(days)s::date[]) AS t (id, effective_on)
        WHERE m.id = t.id AND m.id = ANY(%(ids)s)
"""
_THESE: Final = "m.id = ANY(%(ids)s::uuid[])"
_ACCEPT: Final = {alone: matches_logged(_ACCEPTED, of=_THESE, alone=alone) + _COUNTS for alone in (False, True)}
_TAKE_BACK: Final = (
    matches_logged(
        """
        UPDATE match m SET status = %(status)s, decided_by = %(actor)s, decided_at = %(at)s,
            decision_reason = %(reason)s, reversed_on = %(reversed_on)s, updated_at = %(at)s,
            change_id = %(change_id)s, version = m.version + 1
        WHERE m.id = ANY(%(ids)s)
        """,
        of=_THESE,
    )
    + _COUNTS_NO_MORE
)
_APPROVE: Final = (
    matches_logged(
        """
        UPDATE match m SET status = 'accepted', decided_by = %(actor)s, decided_at = %(at)s,
            decision_reason = coalesce(%(reason)s, m.decision_reason), effective_on = %(effective_on)s,
            updated_at = %(at)s,
            change_id = %(change_id)s, version = m.version + 1
        WHERE m.id = %(id)s
        """,
        of="m.id = %(id)s",
    )
    + _COUNTED
)
_SUPERSEDE: Final = (
    matches_logged(
        """
        UPDATE match m SET status = 'superseded', superseded_by = t.winner, updated_at = %(at)s,
            change_id = %(change_id)s, version = m.version + 1
        FROM unnest(%(ids)s::uuid[], %(winners)s::uuid[]) AS t (id, winner) WHERE m.id = t.id
        """,
        of=_THESE,
    )
    + _COUNTED
)
_RETURNED: Final = """
    SELECT 1 AS side, expected_id AS id, sum(settled_minor)::bigint AS minor FROM reversal_link
    WHERE incoming_id = ANY(%(lines)s) AND match_id = ANY(%(ids)s) AND expected_id IS NOT NULL GROUP BY expected_id
    UNION ALL
    SELECT 2, incoming_id, sum(amount_minor)::bigint FROM reversal_link
    WHERE incoming_id = ANY(%(lines)s) AND match_id = ANY(%(ids)s) GROUP BY incoming_id
"""
_ENDS: Final = """
    SELECT 1 AS side, e.id, e.currency, e.direction, e.revision, NULL::date AS booking_on, e.due_on, e.account,
        e.amount_minor - e.settled_before_minor AS whole_minor,
        coalesce(a.amount_minor - a.allocated_minor, e.amount_minor - e.settled_before_minor) AS left_minor,
        coalesce(a.status, 'open') AS status
    FROM expected_transaction e LEFT JOIN allocation a ON a.side = 1 AND a.transaction_id = e.id
    WHERE e.id = ANY(%(expected)s)
    UNION ALL
    SELECT 2, i.id, i.currency, i.direction, i.revision, i.booking_on, NULL, i.account, i.amount_minor,
        coalesce(a.amount_minor - a.allocated_minor, i.amount_minor),
        CASE WHEN i.pending THEN 'pending' ELSE coalesce(a.status, 'unmatched') END
    FROM incoming_transaction i LEFT JOIN allocation a ON a.side = 2 AND a.transaction_id = i.id
    WHERE i.id = ANY(%(incoming)s)
"""
_ADD_LEGS: Final = """
    INSERT INTO leg (match_id, ordinal, expected_id, contra_expected_id, incoming_id, contra_incoming_id, valid_from,
        amount_minor, settled_minor, expected_revision, incoming_revision, settled_currency, contra_revision)
    SELECT %(match_id)s, ordinal - 1, expected_id, contra_expected_id, incoming_id, contra_incoming_id, %(change_id)s,
        amount_minor, settled_minor, expected_revision, incoming_revision, settled_currency, contra_revision
    FROM unnest(%(expected_id)s::uuid[], %(contra_expected_id)s::uuid[], %(incoming_id)s::uuid[],
        %(contra_incoming_id)s::uuid[], %(amount_minor)s::bigint[], %(settled_minor)s::bigint[],
        %(expected_revision)s::integer[], %(incoming_revision)s::integer[], %(settled_currency)s::text[],
        %(contra_revision)s::integer[]) WITH ORDINALITY AS t (expected_id, contra_expected_id, incoming_id,
        contra_incoming_id, amount_minor, settled_minor, expected_revision, incoming_revision, settled_currency,
        contra_revision, ordinal)
"""

LEG_COLUMNS: Final = (
    "expected_id",
    "contra_expected_id",
    "incoming_id",
    "contra_incoming_id",
    "amount_minor",
    "settled_minor",
    "expected_revision",
    "incoming_revision",
    "settled_currency",
    "contra_revision",
)
"""Columns of a leg that whoever states it says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Who decides, when, in which change, and why."""

    change_id: UUID
    actor: str
    at: datetime
    reason: str | None

    @property
    def values(self) -> dict[str, Any]:
        """Parameters of a statement."""
        return {"change_id": self.change_id, "actor": self.actor, "at": self.at, "reason": self.reason}


class MatchDecisionStore:
    """Decides matches in the transaction of ``connection``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def lock_rivals(self, *, expected: Ids, incoming: Ids, beside: Sequence[UUID] = ()) -> dict[UUID, list[UUID]]:
        """Lock the proposals for which too little is left of these transactions, and those ``beside`` them, by id.

        Called when the amounts are allocated. Return with each the transactions of which it needs more than is left. A
        match that is no proposal any more is not among them.
        """
        given = {"ids": beside, "expected": expected, "incoming": incoming}
        parameters = {name: array_text(ids) for name, ids in given.items()}
        return {row["id"]: row["ids"] or [] for row in await fetch_all(self._connection, _LOCK, parameters)}

    async def lock(self, match_ids: Sequence[UUID]) -> dict[UUID, str]:
        """Lock matches by id, and return their statuses."""
        return {row["id"]: row["status"] for row in await fetch_all(self._connection, _LOCK_THESE, (list(match_ids),))}

    async def accept(
        self,
        days: Mapping[UUID, date | None],
        decision: Decision,
        *,
        status: str = "accepted",
        alone: bool = False,
    ) -> None:
        """Accept proposals that are locked, each effective on its day; their legs count from this change on."""
        parameters = {
            **decision.values,
            "status": status,
            "ids": array_text(days),
            "days": list(days.values()),
        }
        await self._connection.execute(_ACCEPT[alone], parameters)

    async def approve(self, match_id: UUID, decision: Decision, *, effective_on: date | None) -> None:
        """Accept a locked match that waits for a second person, whose legs count already; no reason keeps the first."""
        await self._connection.execute(_APPROVE, {**decision.values, "id": match_id, "effective_on": effective_on})

    async def take_back(
        self, match_ids: Sequence[UUID], decision: Decision, *, status: str, reversed_on: date | None = None
    ) -> None:
        """Give locked matches the status ``rejected`` or ``reversed``; legs of theirs that count do so no longer."""
        parameters = {**decision.values, "ids": list(match_ids), "status": status, "reversed_on": reversed_on}
        await self._connection.execute(_TAKE_BACK, parameters)

    async def supersede(self, winners: Mapping[UUID, UUID | None], *, change_id: UUID, at: datetime) -> None:
        """Supersede locked proposals, each by the match that has taken its amounts, if one has."""
        parameters = {"ids": list(winners), "winners": list(winners.values()), "change_id": change_id, "at": at}
        await self._connection.execute(_SUPERSEDE, parameters)

    async def returned(self, match_ids: Sequence[UUID], *, lines: Sequence[UUID]) -> list[dict[str, Any]]:
        """Return what returns have taken back of matches over these lines, all together, as ``side, id, minor``."""
        return await fetch_all(self._connection, _RETURNED, {"ids": list(match_ids), "lines": list(lines)})

    async def ends(self, *, expected: Sequence[UUID], incoming: Sequence[UUID]) -> list[dict[str, Any]]:
        """Return what transactions are and have left; one that there is not is not among them."""
        parameters = {"expected": array_text(expected), "incoming": array_text(incoming)}
        return await fetch_all(self._connection, _ENDS, parameters)

    async def add(self, match: Mapping[str, Any], legs: Mapping[str, Sequence[Any]], *, change_id: UUID) -> None:
        """Store a match that is accepted, or waits for approval; ``legs`` has the values of each of LEG_COLUMNS."""
        await insert(self._connection, Match, match)
        await self._connection.execute(_ADD_LEGS, {"match_id": match["id"], "change_id": change_id, **legs})
