"""What has to be true of a tenant environment, whatever has happened in it: each thing once, with its check.

Storms, machines, lives and the simulation all look at these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import psycopg

from payrec.constants import KEYS_VERSION
from support.events import TOLD
from support.places import look


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """Something that is always true, or when nothing is left to be done."""

    name: str
    says: str
    query: str
    """Returns the ids of what is otherwise; names of tables are those of the environment's schema."""
    at_rest: bool = False
    """Whether it is only true when nothing is left to be done."""
    if_alone: bool = False
    """Whether it is only true where all was done by the service itself, one by one, and nothing was dropped since."""


_DECISIONS: Final = "ARRAY['match.accepted', 'match.rejected', 'match.reversed']"
_ADJUSTED = """(SELECT coalesce(sum(x.minor), 0) FROM match m
            CROSS JOIN LATERAL jsonb_to_recordset(m.adjustments) AS x (side text, id uuid, minor bigint)
            WHERE m.status IN ('accepted', 'pending_approval') AND x.side = '{side}' AND x.id = {id})"""
INVARIANTS: Final = (
    Invariant(
        name="within_the_amount",
        says="What is allocated of a transaction is between nothing and its amount.",
        query="""
            SELECT transaction_id FROM allocation WHERE NOT allocated_minor BETWEEN 0 AND amount_minor
    """,
    ),
    Invariant(
        name="amount_of_the_allocation",
        says="An allocation has the amount of its transaction, less what has come back of it.",
        query="""
            SELECT a.transaction_id FROM allocation a
            LEFT JOIN expected_transaction e ON a.side = 1 AND e.id = a.transaction_id
            LEFT JOIN incoming_transaction i ON a.side = 2 AND i.id = a.transaction_id
            WHERE a.amount_minor IS DISTINCT FROM CASE a.status WHEN 'void' THEN 0 ELSE
                coalesce(e.amount_minor - e.settled_before_minor, i.amount_minor - (
                    SELECT coalesce(sum(r.amount_minor), 0) FROM reversal_link r
                    WHERE i.id IN (r.reversal_id, r.incoming_id)
                )) END
    """,
    ),
    Invariant(
        name="expected_legs_add_up",
        says="What is allocated of an item is what its legs and adjustments take, less what came back.",
        query=f"""
            SELECT e.id FROM expected_transaction e LEFT JOIN allocation a ON a.side = 1 AND a.transaction_id = e.id
            WHERE coalesce(a.allocated_minor, 0) <> (SELECT coalesce(sum(l.settled_minor), 0) FROM leg l
                WHERE l.expected_id = e.id AND l.valid_from IS NOT NULL AND l.valid_to IS NULL)
                + {_ADJUSTED.format(side="expected", id="e.id")}
                - (SELECT coalesce(sum(r.settled_minor), 0) FROM reversal_link r
                    JOIN match m ON m.id = r.match_id AND m.status IN ('accepted', 'pending_approval')
                    WHERE r.expected_id = e.id)
    """,  # noqa: S608 - our own text
    ),
    Invariant(
        name="incoming_legs_add_up",
        says="What is allocated of a line is what its legs and adjustments take, less what came back.",
        query=f"""
            SELECT i.id FROM incoming_transaction i LEFT JOIN allocation a ON a.side = 2 AND a.transaction_id = i.id
            WHERE coalesce(a.allocated_minor, 0) <> (SELECT coalesce(sum(l.amount_minor), 0) FROM leg l
                WHERE l.incoming_id = i.id AND l.valid_from IS NOT NULL AND l.valid_to IS NULL)
                + {_ADJUSTED.format(side="incoming", id="i.id")}
                - (SELECT coalesce(sum(r.amount_minor), 0) FROM reversal_link r
                    JOIN match m ON m.id = r.match_id AND m.status IN ('accepted', 'pending_approval')
                    WHERE r.incoming_id = i.id)
    """,  # noqa: S608 - our own text
    ),
    Invariant(
        name="expected_open",
        says="What is open of an item is what is left of it.",
        query="""
            SELECT e.id FROM expected_transaction e LEFT JOIN allocation a ON a.side = 1 AND a.transaction_id = e.id
            FULL JOIN expected_open o ON o.transaction_id = e.id
            WHERE coalesce(o.open_minor, 0) IS DISTINCT FROM CASE a.status WHEN 'void' THEN 0 ELSE
                e.amount_minor - e.settled_before_minor - coalesce(a.allocated_minor, 0) END
    """,
    ),
    Invariant(
        name="incoming_open",
        says="What is open of a line is what is left of it.",
        query="""
            SELECT i.id FROM incoming_transaction i LEFT JOIN allocation a ON a.side = 2 AND a.transaction_id = i.id
            FULL JOIN incoming_open o ON o.transaction_id = i.id
            WHERE coalesce(o.open_minor, 0) IS DISTINCT FROM CASE WHEN a.status IN ('ignored', 'classified') THEN 0 ELSE
                i.amount_minor - coalesce(a.allocated_minor, 0) - (
                    SELECT coalesce(sum(r.amount_minor), 0) FROM reversal_link r
                    WHERE i.id IN (r.reversal_id, r.incoming_id)
                ) END
    """,
    ),
    Invariant(
        name="open_rows",
        says="A row of what is open has something open.",
        query="""
            SELECT transaction_id FROM expected_open WHERE open_minor <= 0
            UNION ALL SELECT transaction_id FROM incoming_open WHERE open_minor <= 0
    """,
    ),
    Invariant(
        name="keys_of_this_version",
        says="Who writes an open row says which version of the code has made its keys.",
        query=f"""
            SELECT transaction_id FROM expected_open WHERE keys_version <> {KEYS_VERSION}
            UNION ALL SELECT transaction_id FROM incoming_open WHERE keys_version <> {KEYS_VERSION}
    """,  # noqa: S608 - our own number
    ),
    Invariant(
        name="status_of_the_allocation",
        says="The status of an allocation says how much is allocated.",
        query="""
            SELECT transaction_id FROM allocation
            WHERE status NOT IN ('void', 'ignored', 'classified') AND (
                (status IN ('matched', 'reversed', 'linked')) <> (allocated_minor = amount_minor)
                OR (status = 'matched') <> (allocated_minor = amount_minor AND amount_minor > 0)
                OR (status = 'partially_matched') <> (allocated_minor BETWEEN 1 AND amount_minor - 1)
            ) OR (status IN ('void', 'ignored', 'classified') AND allocated_minor <> 0)
    """,
    ),
    Invariant(
        name="returned",
        says="As much has come back of a match as its links say, and no more than it has.",
        query="""
            SELECT m.id FROM match m WHERE m.returned_minor <> (
                SELECT coalesce(sum(r.amount_minor), 0) FROM reversal_link r WHERE r.match_id = m.id
            ) OR m.returned_minor > (SELECT sum(l.amount_minor) FROM leg l WHERE l.match_id = m.id) + (
                SELECT coalesce(sum(x.minor), 0) FROM jsonb_to_recordset(m.adjustments) AS x (side text, minor bigint)
                WHERE x.side = 'incoming'
            )
    """,
    ),
    Invariant(
        name="legs_count",
        says="The legs of a match count while it is accepted, and at no other time.",
        query="""
            SELECT m.id FROM match m JOIN leg l ON l.match_id = m.id
            WHERE (m.status IN ('accepted', 'pending_approval')) <> (l.valid_from IS NOT NULL AND l.valid_to IS NULL)
    """,
    ),
    Invariant(
        name="superseded",
        says="A match is superseded by one that was accepted, by a run, or because nothing is left to be matched.",
        query="""
            SELECT m.id FROM match m LEFT JOIN match w ON w.id = m.superseded_by
            WHERE m.status = 'superseded'
            AND coalesce(w.status, '') NOT IN ('accepted', 'pending_approval', 'reversed') AND NOT (
                -- It waited for a second person, who has rejected it.
                w.status = 'rejected'
                AND EXISTS (SELECT FROM leg k WHERE k.match_id = w.id AND k.valid_from IS NOT NULL)
            ) AND NOT (
                -- A run has seen something better, or there is nothing left that could be matched.
                w.id IS NULL AND (m.run_id IS NOT NULL OR EXISTS (SELECT FROM job WHERE kind = 'match') OR EXISTS (
                    SELECT FROM leg l JOIN allocation a ON a.transaction_id IN (l.expected_id, l.incoming_id)
                    WHERE l.match_id = m.id AND a.status IN ('void', 'ignored', 'classified')
                ))
            )
    """,
    ),
    Invariant(
        name="decisions_audited",
        says="The audit knows each decision of a person, once.",
        query="""
            SELECT m.id FROM match m WHERE left(m.decided_by, 7) <> 'engine:' AND (
                SELECT count(*) FROM audit_record r WHERE r.resource_id = m.id AND r.action = 'match.' || m.status
            ) <> 1
    """,
    ),
    Invariant(
        name="history",
        says="Each state of a match or an allocation is in history.",
        query="""
            SELECT m.id FROM match m WHERE m.version > 1 AND m.change_id IS NULL AND m.created_change_id IS NULL
            UNION ALL
            SELECT a.transaction_id FROM allocation a WHERE a.version > 1 AND a.change_id IS NULL
    """,
    ),
    Invariant(
        name="feed_without_gap",
        says="The places of the feed of events are one, two, and so on, up to where the feed is.",
        query="""
            SELECT id FROM (SELECT id, position, row_number() OVER (ORDER BY position) AS place FROM event) e
            WHERE position <> place
            UNION ALL SELECT NULL FROM event_feed WHERE position <> (SELECT count(*) FROM event)
        """,
        if_alone=True,
    ),
    Invariant(
        name="feed_in_order",
        says="The events of a resource are in the feed in the order in which they happened.",
        query="""
            SELECT id FROM (
                SELECT id, occurred_at, lag(occurred_at) OVER (PARTITION BY resource_id ORDER BY position) AS before
                FROM event
            ) e WHERE before > occurred_at
        """,
        if_alone=True,
    ),
    Invariant(
        name="told_once",
        says="Each decision about a match is told once, and nothing is told that was not decided.",
        query=f"""
            SELECT coalesce(t.id, r.id) FROM (
                SELECT resource_id AS id, type, count(*) AS n FROM {TOLD} WHERE type = ANY({_DECISIONS}) GROUP BY 1, 2
            ) t FULL JOIN (
                SELECT resource_id AS id, action AS type, count(*) AS n FROM audit_record
                WHERE action = ANY({_DECISIONS}) GROUP BY 1, 2
            ) r USING (id, type) WHERE t.n IS DISTINCT FROM r.n
        """,  # noqa: S608 - our own text
        if_alone=True,
    ),
    Invariant(
        name="jobs_end_once",
        says="The end of a job is told once, and of one that has not ended nothing is told.",
        query=f"""
            SELECT j.id FROM job j WHERE (status IN ('succeeded', 'failed', 'cancelled'))::int <> (
                SELECT count(*) FROM {TOLD} WHERE resource_id = j.id AND type LIKE 'job.%'
            )
        """,  # noqa: S608 - our own text
        if_alone=True,
    ),
    Invariant(
        name="postings_without_gap",
        says="Postings are numbered one, two, and so on, up to where they are.",
        query="""
            SELECT source_id FROM (
                SELECT source_id, sequence, row_number() OVER (ORDER BY sequence) AS place FROM posting
            ) p WHERE sequence <> place
            UNION ALL SELECT NULL FROM posting_feed WHERE sequence <> (SELECT count(*) FROM posting)
        """,
    ),
    Invariant(
        name="postings_balanced",
        says="What a posting debits in a currency, it credits.",
        query="""
            SELECT source_id FROM (
                SELECT p.source_id, p.sequence, l.currency,
                    sum(CASE l.direction WHEN 'debit' THEN l."amountMinor" ELSE -l."amountMinor" END) AS minor
                FROM posting p CROSS JOIN LATERAL jsonb_to_recordset(p.lines)
                    AS l (direction text, currency text, "amountMinor" bigint)
                GROUP BY 1, 2, 3
            ) b WHERE minor <> 0
        """,
    ),
    Invariant(
        name="posted_once",
        says="When nothing is left to be done, each match of ours that was accepted is posted once.",
        query="""
            SELECT coalesce(m.id, p.source_id) FROM (
                SELECT DISTINCT r.resource_id AS id FROM audit_record r WHERE r.action = 'match.accepted'
            ) m FULL JOIN (
                SELECT source_id, count(*) AS n FROM posting WHERE kind = 'match' GROUP BY 1
            ) p ON p.source_id = m.id WHERE p.n IS DISTINCT FROM 1 OR m.id IS NULL
        """,
        at_rest=True,
    ),
    Invariant(
        name="reversed_once",
        says="When nothing is left to be done, each match that was taken back is taken back in the postings, once.",
        query="""
            SELECT coalesce(m.id, p.source_id) FROM (
                SELECT id FROM match WHERE status = 'reversed'
            ) m FULL JOIN (
                SELECT source_id, count(*) AS n FROM posting WHERE kind = 'match_reversal' GROUP BY 1
            ) p ON p.source_id = m.id WHERE p.n IS DISTINCT FROM 1 OR m.id IS NULL
        """,
        at_rest=True,
    ),
    Invariant(
        name="nothing_left",
        says="When nothing is left to be done, nothing is on its way and every job has ended.",
        query="""
            SELECT change_id FROM outbox UNION ALL SELECT id FROM job WHERE status IN ('queued', 'running')
        """,
        at_rest=True,
    ),
    Invariant(
        name="imported_once",
        says="An import that is completed has stored what it counts, and any other one nothing.",
        query="""
            SELECT i.id FROM import i WHERE i.resource = 'incoming-transactions' AND i.accepted <> (
                SELECT count(*) FROM incoming_transaction t WHERE t.import_id = i.id
            )
        """,
        if_alone=True,
    ),
)


async def violations(url: str, schema: str) -> dict[str, list[UUID]]:
    """Return what should never be, by name, with the rows; ``url`` is a superuser's."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        return await broken(connection, schema)


async def broken(
    connection: psycopg.AsyncConnection[Any], schema: str, *, at_rest: bool = False
) -> dict[str, list[UUID]]:
    """Return the same over a connection; ``at_rest`` looks at all, as nothing is left to be done."""
    found: dict[str, list[UUID]] = {}
    async with connection.transaction():
        await connection.execute("SELECT set_config('search_path', %s, true)", (schema,))
        rows = await (await connection.execute(_together(at_rest=at_rest))).fetchall()
    for name, row_id in rows:
        found.setdefault(name, []).append(row_id)
    return found


def _together(*, at_rest: bool) -> bytes:
    """Return one statement for all: most are over in less time than it takes to ask."""
    queries = (
        f"SELECT '{one.name}', q.* FROM ({one.query}) AS q"  # noqa: S608 - our own text
        for one in INVARIANTS
        if at_rest or not (one.at_rest or one.if_alone)
    )
    return " UNION ALL ".join(queries).encode()


async def deadlocks(url: str) -> int:
    """Return how often the database had to end a deadlock, which is never; on Citus each node has counted its own."""
    counted = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    found = await look(url, counted)
    if await look(url, "SELECT 1 FROM pg_extension WHERE extname = 'citus'"):
        found += await look(url, "SELECT result::bigint FROM run_command_on_workers(%s)", counted)
    return sum(int(count) for (count,) in found)
