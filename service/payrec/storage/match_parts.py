"""What matches take of some transactions, as a part of other statements."""

from __future__ import annotations

PARTS = """
    legs AS (
        SELECT match_id, 1 AS side, expected_id AS id, settled_minor AS minor, valid_from, valid_to
        FROM leg WHERE expected_id = ANY(%(expected)s)
        UNION ALL
        SELECT match_id, 1, contra_expected_id, amount_minor, valid_from, valid_to
        FROM leg WHERE contra_expected_id = ANY(%(expected)s)
        UNION ALL
        SELECT match_id, 2, incoming_id, amount_minor, valid_from, valid_to
        FROM leg WHERE incoming_id = ANY(%(incoming)s)
        UNION ALL
        SELECT match_id, 2, contra_incoming_id, settled_minor, valid_from, valid_to
        FROM leg WHERE contra_incoming_id = ANY(%(incoming)s)
    ), parts AS (
        SELECT match_id, side, id, minor FROM legs WHERE {which}
        UNION ALL
        SELECT l.match_id, l.side, l.id, a.minor
        FROM (SELECT DISTINCT match_id, side, id FROM legs WHERE {which}) l JOIN match m ON m.id = l.match_id
        CROSS JOIN LATERAL jsonb_to_recordset(m.adjustments) AS a (side text, id uuid, minor bigint)
        WHERE a.id = l.id AND a.side = CASE l.side WHEN 1 THEN 'expected' ELSE 'incoming' END
    )
"""
"""Common table expressions: ``parts`` has ``match_id, side, id, minor``, of legs at either end and of adjustments.

``{which}`` says of which legs, by ``valid_from`` and ``valid_to``; ``%(expected)s`` and ``%(incoming)s`` are the ids.
"""
