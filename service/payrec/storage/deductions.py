"""What payers have held back: settled by its match, and still asked for by whoever has to collect it."""

from __future__ import annotations

from typing import Final

HAS_DEDUCTION: Final = """adjustments @? '$[*] ? (@.type == "deduction")'"""
"""Tells of a match whether anything of it was held back; each partition has an index of those."""

AGED: Final = f"""
    SELECT transaction_id, open_minor, due_day, to_day, direction, currency FROM expected_open
    UNION ALL
    SELECT e.id, d.minor, e.due_on - date '1970-01-01', e.expected_to_on - date '1970-01-01',
        CASE e.direction WHEN 'credit' THEN 1 ELSE -1 END, e.currency
    FROM match m CROSS JOIN LATERAL jsonb_to_recordset(m.adjustments) AS d (type text, id uuid, minor bigint)
    JOIN expected_transaction e ON e.id = d.id
    WHERE m.{HAS_DEDUCTION} AND m.status IN ('accepted', 'pending_approval') AND d.type = 'deduction'
"""  # noqa: S608 - our own text
"""What is open of items, and what was held back of them, in columns of ``expected_open``."""
