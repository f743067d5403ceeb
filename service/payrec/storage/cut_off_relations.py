"""The tables at the end of the day ``%(cut_off)s``: relations that a statement meets under the tables' own names.

What is booked later is not there, and what is effective later is not decided: the matches of a later day, the returns
that are booked later, what was ignored or classified from a later day on. Items have no booking date: those that were
stored until the end of that day, ``%(cut_off_until)s``, are there. What is known of all this, also since, is told; with
the relations of ``payrec.storage.history_relations`` around it, what was known at an instant.
"""

from __future__ import annotations

from typing import Final

from payrec.storage.history_relations import RELATIONS
from payrec.storage.rows import column_names, columns_of
from payrec.tables.allocations import Allocation
from payrec.tables.expected_transactions import ExpectedTransaction
from payrec.tables.incoming_transactions import IncomingTransaction
from payrec.tables.matches import Match
from payrec.tables.returns import ReversalLink

COUNTING: Final = "('accepted', 'pending_approval')"
"""Statuses of matches that have amounts."""

# By how much an allocation differs from the present one: legs and adjustments of matches that are effective later, less
# what returns have taken of them again; and what returns that are booked later took, of both of their lines, of the
# item, and of what counts of their match.
_MOVED: Final = f"""
    late_match AS MATERIALIZED (
        SELECT m.id, m.adjustments FROM match m WHERE m.status IN {COUNTING} AND m.effective_on > %(cut_off)s
    ), late_return AS MATERIALIZED (
        SELECT r.reversal_id, r.incoming_id, r.expected_id, r.amount_minor, r.settled_minor, EXISTS (
            SELECT FROM match m WHERE m.id = r.match_id AND m.status IN {COUNTING}
        ) AND NOT EXISTS (SELECT FROM late_match m WHERE m.id = r.match_id) AS counts
        FROM reversal_link r
        JOIN incoming_transaction b ON b.id = r.reversal_id
        JOIN incoming_transaction p ON p.id = r.incoming_id
        WHERE greatest(b.booking_on, p.booking_on) > %(cut_off)s
    ), moved AS MATERIALIZED (
        SELECT t.side, t.id, sum(t.allocated_minor)::bigint AS allocated_minor, sum(t.minor)::bigint AS minor
        FROM (
            SELECT e.side, e.id, -e.minor AS allocated_minor, 0 AS minor
            FROM late_match m JOIN leg l ON l.match_id = m.id CROSS JOIN LATERAL (
                VALUES (1, l.expected_id, l.settled_minor), (1, l.contra_expected_id, l.amount_minor),
                    (2, l.incoming_id, l.amount_minor), (2, l.contra_incoming_id, l.settled_minor)
            ) e (side, id, minor)
            UNION ALL
            SELECT CASE j.side WHEN 'expected' THEN 1 ELSE 2 END, j.id, -j.minor, 0 FROM late_match m
            CROSS JOIN LATERAL jsonb_to_recordset(m.adjustments) AS j (side text, id uuid, minor bigint)
            UNION ALL
            SELECT e.side, e.id, e.minor, 0
            FROM late_match m JOIN reversal_link r ON r.match_id = m.id CROSS JOIN LATERAL (
                VALUES (1, r.expected_id, r.settled_minor), (2, r.incoming_id, r.amount_minor)
            ) e (side, id, minor)
            UNION ALL
            SELECT e.side, e.id, CASE WHEN r.counts THEN e.allocated_minor ELSE 0 END, e.minor
            FROM late_return r CROSS JOIN LATERAL (
                VALUES (1, r.expected_id, r.settled_minor, 0), (2, r.incoming_id, r.amount_minor, r.amount_minor),
                    (2, r.reversal_id, 0, r.amount_minor)
            ) e (side, id, allocated_minor, minor)
        ) t WHERE t.id IS NOT NULL GROUP BY t.side, t.id
    )
"""  # noqa: S608 - our own text
_ALLOCATED: Final = "a.allocated_minor + coalesce(d.allocated_minor, 0)"
_AMOUNT: Final = "a.amount_minor + coalesce(d.minor, 0)"
_OF_ALLOCATION: Final = {
    "amount_minor": _AMOUNT,
    "allocated_minor": _ALLOCATED,
    "status": f"""CASE
        WHEN a.status IN ('ignored', 'classified') AND a.effective_on > %(cut_off)s THEN 'unmatched'
        WHEN d.id IS NULL OR a.status IN ('void', 'ignored', 'classified') OR {_AMOUNT} = 0 THEN a.status
        WHEN {_ALLOCATED} >= {_AMOUNT} THEN 'matched'
        WHEN {_ALLOCATED} > 0 THEN 'partially_matched'
        ELSE CASE a.side WHEN 1 THEN 'open' ELSE 'unmatched' END END""",
}
"""What of an allocation is otherwise at the cut-off."""

_ALLOCATION: Final = ", ".join(
    f'{_OF_ALLOCATION[name]} AS "{name}"' if name in _OF_ALLOCATION else f'a."{name}"'
    for name in column_names(Allocation)
)
# Each reads those before it, and the tables where none of them is before it.
_RELATIONS: Final = {
    "allocation": f"""
        SELECT {_ALLOCATION} FROM allocation a LEFT JOIN moved d ON d.side = a.side AND d.id = a.transaction_id
    """,  # noqa: S608 - our own text
    "reversal_link": f"""
        SELECT {columns_of(ReversalLink, "r")} FROM reversal_link r
        JOIN incoming_transaction b ON b.id = r.reversal_id JOIN incoming_transaction p ON p.id = r.incoming_id
        WHERE greatest(b.booking_on, p.booking_on) <= %(cut_off)s
    """,  # noqa: S608 - our own text
    "match": f"SELECT {columns_of(Match, 'm')} FROM match m WHERE m.effective_on <= %(cut_off)s",  # noqa: S608
    "incoming_transaction": f"""
        SELECT {columns_of(IncomingTransaction, "i")} FROM incoming_transaction i WHERE i.booking_on <= %(cut_off)s
    """,  # noqa: S608 - our own text
    "expected_transaction": f"""
        SELECT {columns_of(ExpectedTransaction, "e")} FROM expected_transaction e
        WHERE e.created_at <= %(cut_off_until)s
    """,  # noqa: S608 - our own text
    "expected_open": RELATIONS["expected_open"],
    "incoming_open": RELATIONS["incoming_open"],
}
_NAMED: Final = ", ".join(f"{name} AS NOT MATERIALIZED ({text})" for name, text in _RELATIONS.items())


def at_cut_off(statement: str) -> str:
    """Return a statement that reads the tables at the cut-off; relations of an instant may come before it."""
    return f"SELECT cut.* FROM (WITH {_MOVED}, {_NAMED} {statement}) cut"  # noqa: S608 - our own text
