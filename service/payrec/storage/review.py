"""The queue of what a person decides, in the order of the money at stake, and what one of it joins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from payrec.domain.review_order import Place, QueueStatus
from payrec.storage.allocations import Side
from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all, fetch_one

# The status is part of the text: an index of some statuses serves no parameter. One step of an index for each currency.
_CURRENCIES: Final = """
    WITH RECURSIVE found AS (
        (SELECT currency FROM match WHERE status = '{status}' ORDER BY currency LIMIT 1)
        UNION ALL
        SELECT (SELECT m.currency FROM match m WHERE m.status = '{status}' AND m.currency > f.currency
                ORDER BY m.currency LIMIT 1)
        FROM found f WHERE f.currency IS NOT NULL
    )
    SELECT currency FROM found WHERE currency IS NOT NULL
"""
_COUNT: Final = "SELECT count(*) AS n FROM (SELECT FROM match WHERE status = '{status}' LIMIT %s) m"
_PLACE: Final = "SELECT currency, amount_minor, score, id FROM match WHERE id = %s"
_PAGE: Final = """
    SELECT m.*, l.booking_on, l.name, l.reference FROM unnest(
        %(currencies)s::text[], %(minors)s::bigint[], %(scores)s::int[], %(ids)s::uuid[]
    ) b (currency, minor, score, id) CROSS JOIN LATERAL (
        SELECT m.id, m.currency, m.amount_minor, m.score, m.confidence, m.kind, m.status, m.version, m.decided_by,
            m.levels IS NULL OR (m.sampled AND m.status = 'proposed') AS withheld
        FROM match m
        WHERE m.status = '{status}' AND m.currency = b.currency
            AND (m.amount_minor, m.score, m.id) {less} (b.minor, b.score, b.id) {confidence}
        ORDER BY m.amount_minor {order}, m.score {order}, m.id {order} LIMIT %(limit)s
    ) m LEFT JOIN LATERAL (
        SELECT coalesce(i.booking_on, e.due_on) AS booking_on,
            coalesce(i.counterparty_name, e.counterparty_name) AS name,
            coalesce(e.reference, i.structured_reference, i.remittance) AS reference
        FROM (SELECT expected_id, incoming_id FROM leg WHERE match_id = m.id ORDER BY ordinal LIMIT 1) l
        LEFT JOIN incoming_transaction i ON i.id = l.incoming_id
        LEFT JOIN expected_transaction e ON e.id = l.expected_id
    ) l ON true
"""
_WAITING: Final = """
    SELECT DISTINCT ON (w.id) w.id, m.id AS match_id, m.status FROM (
        SELECT {side}_id AS id, match_id FROM leg WHERE {side}_id = ANY(%(ids)s)
        UNION ALL
        SELECT contra_{side}_id, match_id FROM leg WHERE contra_{side}_id = ANY(%(ids)s)
    ) w JOIN match m ON m.id = w.match_id
    WHERE m.status IN ('proposed', 'pending_approval')
    ORDER BY w.id, m.status, m.score DESC, m.id
"""
# What is withheld cannot be asked for either, and what a person has stated has no confidence.
_CONFIDENCE: Final = "AND m.confidence = %(confidence)s AND NOT m.sampled AND m.levels IS NOT NULL"


class ReviewStore:
    """Reads what waits for a person."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def currencies(self, status: QueueStatus) -> list[str]:
        """Return the currencies of what waits, in alphabetical order."""
        return [row["currency"] for row in await fetch_all(self._connection, _CURRENCIES.format(status=status))]

    async def count(self, status: QueueStatus, *, limit: int) -> int:
        """Return how many wait; counting ends at the limit."""
        row = await fetch_one(self._connection, _COUNT.format(status=status), (limit,))
        return int((row or {})["n"])

    async def place(self, match_id: UUID) -> dict[str, Any] | None:
        """Return what a match is ordered by, decided or not; None where there is none."""
        return await fetch_one(self._connection, _PLACE, (match_id,))

    async def waiting(self, side: Side, ids: Sequence[UUID]) -> list[dict[str, Any]]:
        """Return which match of each transaction waits for a person; those without one are left out.

        One that waits for a second person comes before a proposal, and of proposals the surest is named.
        """
        return await fetch_all(self._connection, _WAITING.format(side=side.name.lower()), {"ids": list(ids)})

    async def page(
        self,
        status: QueueStatus,
        bounds: Sequence[Place],
        *,
        confidence: str | None = None,
        backwards: bool = False,
        limit: int,
    ) -> list[dict[str, Any]]:
        """Return of each currency the matches next to its bound, at most ``limit`` of each, as a list needs them.

        In no order across currencies. ``withheld`` ones do not show what the engine thinks of them.
        """
        query = _PAGE.format(
            status=status,
            less=">" if backwards else "<",
            order="ASC" if backwards else "DESC",
            confidence="" if confidence is None else _CONFIDENCE,
        )
        parameters = {
            "currencies": [bound.currency for bound in bounds],
            "minors": [bound.amount_minor for bound in bounds],
            "scores": [bound.score for bound in bounds],
            "ids": [bound.id for bound in bounds],
            "confidence": confidence,
            "limit": limit,
        }
        return await fetch_all(self._connection, query, parameters)
