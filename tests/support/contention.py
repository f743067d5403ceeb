"""Proposals that compete for the same amounts, and what must be true whatever became of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, date, datetime
from uuid import UUID

import psycopg

from payrec.domain.caller import IdSource
from payrec.domain.scope import TenantScope
from payrec.storage.database import Database
from payrec.storage.partitions import ensure_partitions

_EXPECTED = """
    WITH stated AS (
        INSERT INTO expected_transaction (id, amount_minor, created_at, updated_at, change_id, currency, direction)
        VALUES (%(id)s, %(amount)s, %(at)s, %(at)s, %(id)s, 'EUR', 'credit')
    )
    INSERT INTO expected_open (transaction_id, open_minor, total_minor, tie_key, direction, currency)
    VALUES (%(id)s, %(amount)s, %(amount)s, 0, 1, 'EUR')
"""
_INCOMING = """
    WITH stated AS (
        INSERT INTO incoming_transaction (id, amount_minor, created_at, updated_at, change_id, currency, direction,
            booking_on, identity, fingerprint)
        VALUES (%(id)s, %(amount)s, %(at)s, %(at)s, %(id)s, 'EUR', 'credit', %(on)s, %(key)s, %(key)s)
    )
    INSERT INTO incoming_open
        (transaction_id, open_minor, total_minor, tie_key, direction, currency, booking_day, reference_keys)
    VALUES (%(id)s, %(amount)s, %(amount)s, 0, 1, 'EUR', 20000, '{}')
"""
_MATCH = """
    INSERT INTO match (id, amount_minor, created_at, updated_at, score, status, kind, confidence, uniqueness, currency,
        created_by, levels)
    VALUES (%(id)s, %(amount)s, %(at)s, %(at)s, 0, 'proposed', %(kind)s, 'low', 'ambiguous', 'EUR', 'test', '{}')
"""
_LEG = """
    INSERT INTO leg (match_id, ordinal, expected_id, incoming_id, amount_minor, settled_minor, settled_currency)
    VALUES (%(match)s, %(ordinal)s, %(expected)s, %(incoming)s, %(amount)s, %(amount)s, 'EUR')
"""
_ADJUSTED = """(SELECT coalesce(sum(x.minor), 0) FROM match m
            CROSS JOIN LATERAL jsonb_to_recordset(m.adjustments) AS x (side text, id uuid, minor bigint)
            WHERE m.status IN ('accepted', 'pending_approval') AND x.side = '{side}' AND x.id = {id})"""
_INVARIANTS = {
    "allocated beyond the amount": """
        SELECT transaction_id FROM allocation WHERE NOT allocated_minor BETWEEN 0 AND amount_minor
    """,
    "amount of the allocation is not the transaction's": """
        SELECT a.transaction_id FROM allocation a
        LEFT JOIN expected_transaction e ON a.side = 1 AND e.id = a.transaction_id
        LEFT JOIN incoming_transaction i ON a.side = 2 AND i.id = a.transaction_id
        WHERE a.amount_minor IS DISTINCT FROM CASE a.status WHEN 'void' THEN 0 ELSE
            coalesce(e.amount_minor - e.settled_before_minor, i.amount_minor - (
                SELECT coalesce(sum(r.amount_minor), 0) FROM reversal_link r
                WHERE i.id IN (r.reversal_id, r.incoming_id)
            )) END
    """,
    "legs of the expected do not add up to its allocation": f"""
        SELECT e.id FROM expected_transaction e LEFT JOIN allocation a ON a.side = 1 AND a.transaction_id = e.id
        WHERE coalesce(a.allocated_minor, 0) <> (SELECT coalesce(sum(l.settled_minor), 0) FROM leg l
            WHERE l.expected_id = e.id AND l.valid_from IS NOT NULL AND l.valid_to IS NULL)
            + {_ADJUSTED.format(side="expected", id="e.id")}
            - (SELECT coalesce(sum(r.settled_minor), 0) FROM reversal_link r
                JOIN match m ON m.id = r.match_id AND m.status IN ('accepted', 'pending_approval')
                WHERE r.expected_id = e.id)
    """,  # noqa: S608 - our own text
    "legs of the incoming do not add up to its allocation": f"""
        SELECT i.id FROM incoming_transaction i LEFT JOIN allocation a ON a.side = 2 AND a.transaction_id = i.id
        WHERE coalesce(a.allocated_minor, 0) <> (SELECT coalesce(sum(l.amount_minor), 0) FROM leg l
            WHERE l.incoming_id = i.id AND l.valid_from IS NOT NULL AND l.valid_to IS NULL)
            + {_ADJUSTED.format(side="incoming", id="i.id")}
            - (SELECT coalesce(sum(r.amount_minor), 0) FROM reversal_link r
                JOIN match m ON m.id = r.match_id AND m.status IN ('accepted', 'pending_approval')
                WHERE r.incoming_id = i.id)
    """,  # noqa: S608 - our own text
    "open amount of the expected is not what is left": """
        SELECT e.id FROM expected_transaction e LEFT JOIN allocation a ON a.side = 1 AND a.transaction_id = e.id
        FULL JOIN expected_open o ON o.transaction_id = e.id
        WHERE coalesce(o.open_minor, 0) IS DISTINCT FROM CASE a.status WHEN 'void' THEN 0 ELSE
            e.amount_minor - e.settled_before_minor - coalesce(a.allocated_minor, 0) END
    """,
    "open amount of the incoming is not what is left": """
        SELECT i.id FROM incoming_transaction i LEFT JOIN allocation a ON a.side = 2 AND a.transaction_id = i.id
        FULL JOIN incoming_open o ON o.transaction_id = i.id
        WHERE coalesce(o.open_minor, 0) IS DISTINCT FROM CASE WHEN a.status IN ('ignored', 'classified') THEN 0 ELSE
            i.amount_minor - coalesce(a.allocated_minor, 0) - (
                SELECT coalesce(sum(r.amount_minor), 0) FROM reversal_link r
                WHERE i.id IN (r.reversal_id, r.incoming_id)
            ) END
    """,
    "an open row with nothing open": """
        SELECT transaction_id FROM expected_open WHERE open_minor <= 0
        UNION ALL SELECT transaction_id FROM incoming_open WHERE open_minor <= 0
    """,
    "status of an allocation does not say how much is allocated": """
        SELECT transaction_id FROM allocation
        WHERE status NOT IN ('void', 'ignored', 'classified') AND (
            (status IN ('matched', 'reversed', 'linked')) <> (allocated_minor = amount_minor)
            OR (status = 'matched') <> (allocated_minor = amount_minor AND amount_minor > 0)
            OR (status = 'partially_matched') <> (allocated_minor BETWEEN 1 AND amount_minor - 1)
        ) OR (status IN ('void', 'ignored', 'classified') AND allocated_minor <> 0)
    """,
    "more has come back of a match than it has, or not what its links say": """
        SELECT m.id FROM match m WHERE m.returned_minor <> (
            SELECT coalesce(sum(r.amount_minor), 0) FROM reversal_link r WHERE r.match_id = m.id
        ) OR m.returned_minor > (SELECT sum(l.amount_minor) FROM leg l WHERE l.match_id = m.id) + (
            SELECT coalesce(sum(x.minor), 0) FROM jsonb_to_recordset(m.adjustments) AS x (side text, minor bigint)
            WHERE x.side = 'incoming'
        )
    """,
    "a match is accepted and its legs do not count, or the other way round": """
        SELECT m.id FROM match m JOIN leg l ON l.match_id = m.id
        WHERE (m.status IN ('accepted', 'pending_approval')) <> (l.valid_from IS NOT NULL AND l.valid_to IS NULL)
    """,
    "superseded by something that was not accepted": """
        SELECT m.id FROM match m LEFT JOIN match w ON w.id = m.superseded_by
        WHERE m.status = 'superseded'
        AND coalesce(w.status, '') NOT IN ('accepted', 'pending_approval', 'reversed') AND NOT (
            -- It waited for a second person, who has rejected it.
            w.status = 'rejected' AND EXISTS (SELECT FROM leg k WHERE k.match_id = w.id AND k.valid_from IS NOT NULL)
        ) AND NOT (
            -- A run has seen something better, or there is nothing left that could be matched.
            w.id IS NULL AND (m.run_id IS NOT NULL OR EXISTS (SELECT FROM job WHERE kind = 'match') OR EXISTS (
                SELECT FROM leg l JOIN allocation a ON a.transaction_id IN (l.expected_id, l.incoming_id)
                WHERE l.match_id = m.id AND a.status IN ('void', 'ignored', 'classified')
            ))
        )
    """,
    "a decision of a person that the audit does not know, or knows twice": """
        SELECT m.id FROM match m WHERE left(m.decided_by, 7) <> 'engine:' AND (
            SELECT count(*) FROM audit_record r WHERE r.resource_id = m.id AND r.action = 'match.' || m.status
        ) <> 1
    """,
    "a state that history does not have": """
        SELECT m.id FROM match m WHERE m.version > 1 AND m.change_id IS NULL AND m.created_change_id IS NULL
        UNION ALL
        SELECT a.transaction_id FROM allocation a WHERE a.version > 1 AND a.change_id IS NULL
    """,
}


async def violations(url: str, schema: str) -> dict[str, list[UUID]]:
    """Return what should never be, by name, with the rows; ``url`` is a superuser's."""
    found: dict[str, list[UUID]] = {}
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute("SELECT set_config('search_path', %s, true)", (schema,))
        for name, query in _INVARIANTS.items():
            rows = await (await connection.execute(query.encode())).fetchall()
            if rows:
                found[name] = [row[0] for row in rows]
    return found


Leg = tuple[int, int, int]
"""Which expected transaction, which incoming one, and how much."""


async def put(
    database: Database,
    scope: TenantScope,
    ids: IdSource,
    *,
    expected: Sequence[int],
    incoming: Sequence[int],
    matches: Sequence[Sequence[Leg]],
) -> list[UUID]:
    """Store transactions of these amounts and proposals over them; return the proposals' ids."""
    at = datetime.now(UTC)
    sides = [
        [
            {"id": made, "key": made.bytes, "amount": amount, "at": at, "on": date(2024, 3, 4)}
            for made, amount in ((ids.new(), amount) for amount in amounts)
        ]
        for amounts in (expected, incoming)
    ]
    proposals, legs = [], []
    for match in matches:
        kind = "one_to_one" if len(match) == 1 else "one_to_many" if match[0][1] == match[1][1] else "many_to_one"
        proposals.append({"id": ids.new(), "kind": kind, "amount": sum(amount for _, _, amount in match), "at": at})
        legs.extend(
            {
                "match": proposals[-1]["id"],
                "ordinal": ordinal,
                "expected": sides[0][e]["id"],
                "incoming": sides[1][i]["id"],
                "amount": amount,
            }
            for ordinal, (e, i, amount) in enumerate(match)
        )
    async with database.tenant(scope) as connection, connection.cursor() as cursor:
        await ensure_partitions(connection)
        await cursor.executemany(_EXPECTED, sides[0])
        await cursor.executemany(_INCOMING, sides[1])
        await cursor.executemany(_MATCH, proposals)
        await cursor.executemany(_LEG, legs)
    return [proposal["id"] for proposal in proposals]


async def compete(database: Database, scope: TenantScope, ids: IdSource, *, seed: int) -> list[UUID]:
    """Store eight transactions a side and sixty proposals over them; return the proposals' ids.

    Two thirds have one leg; the rest join one incoming with two expected, or two incoming with one expected.
    """
    chance = random.Random(seed)  # noqa: S311 - no secret
    amounts = [[chance.randint(50, 1000) for _ in range(8)] for _ in range(2)]
    matches = []
    for _ in range(60):
        e_count, i_count = chance.choice([(1, 1), (1, 1), (1, 1), (1, 1), (2, 1), (1, 2)])
        expected, incoming = chance.sample(range(8), e_count), chance.sample(range(8), i_count)
        matches.append(
            [
                (e, i, chance.randint(1, min(amounts[0][e] // i_count, amounts[1][i] // e_count)))
                for e in expected
                for i in incoming
            ]
        )
    return await put(database, scope, ids, expected=amounts[0], incoming=amounts[1], matches=matches)
