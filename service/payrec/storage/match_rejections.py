"""What somebody has rejected or reversed: it is not proposed again while it is open, unless that was forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from payrec.models.match_rejections import MatchRejectionQuery
from payrec.storage.database import Connection
from payrec.storage.filters import created, equalities
from payrec.storage.listing import PageRequest, Selection, select_page
from payrec.storage.rows import copy_out, fetch_one

REJECTED_COLUMNS: Final = ["expected_id", "contra_expected_id", "incoming_id", "contra_incoming_id"]
"""Columns of a rejected pair, in the order of the CSV; it has two of them."""

# Of a group nobody has said which of its pairs is wrong, perhaps none of them is.
_COPY_OUT: Final = """
    COPY (
        SELECT l.expected_id, l.contra_expected_id, l.incoming_id, l.contra_incoming_id FROM match m
        JOIN leg l ON l.match_id = m.id
        LEFT JOIN expected_open e ON e.transaction_id = l.expected_id
        LEFT JOIN expected_open ce ON ce.transaction_id = l.contra_expected_id
        LEFT JOIN incoming_open i ON i.transaction_id = l.incoming_id
        LEFT JOIN incoming_open ci ON ci.transaction_id = l.contra_incoming_id
        WHERE m.status IN ('rejected', 'reversed') AND m.kind IN ('one_to_one', 'transfer', 'refund', 'credit_note')
            AND num_nonnulls(e.transaction_id, ce.transaction_id, i.transaction_id, ci.transaction_id) = 2
            AND NOT EXISTS (SELECT FROM rejection_forgotten f WHERE f.match_id = m.id)
    ) TO STDOUT (FORMAT CSV)
"""

_LEGS: Final = """
    COPY (
        SELECT l.match_id, l.expected_id, l.contra_expected_id, l.incoming_id, l.contra_incoming_id
        FROM match m JOIN leg l ON l.match_id = m.id
        WHERE m.status IN ('rejected', 'reversed')
            AND NOT EXISTS (SELECT FROM rejection_forgotten f WHERE f.match_id = m.id)
            AND (EXISTS (SELECT FROM expected_open o WHERE o.transaction_id IN (l.expected_id, l.contra_expected_id))
                OR EXISTS (SELECT FROM incoming_open o WHERE o.transaction_id IN (l.incoming_id, l.contra_incoming_id)))
    ) TO STDOUT (FORMAT CSV)
"""

LEGS_SHOWN_MAX: Final = 20
"""Legs of a rejected match that a list shows, the first ones; the match itself has all."""

_COLUMNS: Final = """
    m.id, m.created_at, m.kind, m.amount_minor, m.currency, m.status, m.decided_at, m.decided_by,
    m.decision_reason AS reason, l.legs, l.leg_count, l.is_open
"""
_REJECTED: Final = f"""
    match m CROSS JOIN LATERAL (
        SELECT count(*) AS leg_count, jsonb_agg(jsonb_build_object('expected_transaction_id', expected_id,
            'contra_expected_transaction_id', contra_expected_id, 'incoming_transaction_id', incoming_id,
            'contra_incoming_transaction_id', contra_incoming_id) ORDER BY ordinal)
                FILTER (WHERE place <= {LEGS_SHOWN_MAX}) AS legs,
            bool_and((expected_id IS NULL OR EXISTS (SELECT FROM expected_open WHERE transaction_id = expected_id))
                AND (contra_expected_id IS NULL
                    OR EXISTS (SELECT FROM expected_open WHERE transaction_id = contra_expected_id))
                AND (incoming_id IS NULL OR EXISTS (SELECT FROM incoming_open WHERE transaction_id = incoming_id))
                AND (contra_incoming_id IS NULL
                    OR EXISTS (SELECT FROM incoming_open WHERE transaction_id = contra_incoming_id))) AS is_open
        FROM (SELECT *, row_number() OVER (ORDER BY ordinal) AS place FROM leg WHERE match_id = m.id) s
    ) l
"""  # noqa: S608 - our own text
_STANDS: Final = """
    m.status IN ('rejected', 'reversed') AND NOT EXISTS (SELECT FROM rejection_forgotten f WHERE f.match_id = m.id)
"""
_FORGET: Final = """
    INSERT INTO rejection_forgotten (match_id, change_id) VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING match_id
"""


class MatchRejectionStore:
    """Rejections of one tenant environment, in the transaction of ``connection``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self) -> bytes:
        """Return the rejected pairs of open transactions as CSV without header, in the order of REJECTED_COLUMNS."""
        return await copy_out(self._connection, _COPY_OUT)

    async def legs(self) -> bytes:
        """Return the legs of rejected matches, of sets too, as ``read`` and with ``match_id`` before its columns.

        Of a match of which something is closed, legs may be missing.
        """
        return await copy_out(self._connection, _LEGS)

    async def page(self, page: PageRequest, query: MatchRejectionQuery) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return a page of the rejections that stand."""
        selection = Selection(columns=_COLUMNS, source=_REJECTED, id_column="m.id")
        selection.where(_STANDS)
        for condition, parameters in [*equalities(query, {"status": "m.status"}), *created(query, "m")]:
            selection.where(condition, **parameters)
        return await select_page(self._connection, selection, page)

    async def get(self, match_id: UUID) -> dict[str, Any] | None:
        """Return who rejected or reversed a match, when and why, forgotten or not; None where nobody has."""
        query = """
            SELECT status, decided_by, decided_at, decision_reason FROM match
            WHERE id = %s AND status IN ('rejected', 'reversed')
        """
        return await fetch_one(self._connection, query, (match_id,))

    async def forget(self, match_id: UUID, *, change_id: UUID) -> bool:
        """Forget that a match was rejected or reversed; return whether it was not forgotten before."""
        return await fetch_one(self._connection, _FORGET, (match_id, change_id)) is not None
