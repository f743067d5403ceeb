"""Transactions, and proposals that compete for the same amounts of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, date, datetime
from uuid import UUID

from payrec.constants import KEYS_VERSION
from payrec.domain.caller import IdSource
from payrec.domain.scope import TenantScope
from payrec.storage.database import Database
from payrec.storage.loading import analyze_grown
from payrec.storage.partitions import ensure_partitions

_EXPECTED = f"""
    WITH stated AS (
        INSERT INTO expected_transaction (id, amount_minor, created_at, updated_at, change_id, currency, direction)
        VALUES (%(id)s, %(amount)s, %(at)s, %(at)s, %(id)s, 'EUR', 'credit')
    )
    INSERT INTO expected_open (transaction_id, open_minor, total_minor, tie_key, direction, currency, keys_version)
    VALUES (%(id)s, %(amount)s, %(amount)s, 0, 1, 'EUR', {KEYS_VERSION})
"""  # noqa: S608 - our own number
_INCOMING = f"""
    WITH stated AS (
        INSERT INTO incoming_transaction (id, amount_minor, created_at, updated_at, change_id, currency, direction,
            booking_on, identity, fingerprint)
        VALUES (%(id)s, %(amount)s, %(at)s, %(at)s, %(id)s, 'EUR', 'credit', %(on)s, %(key)s, %(key)s)
    )
    INSERT INTO incoming_open (transaction_id, open_minor, total_minor, tie_key, direction, currency, booking_day,
        reference_keys, keys_version)
    VALUES (%(id)s, %(amount)s, %(amount)s, 0, 1, 'EUR', 20000, '{{}}', {KEYS_VERSION})
"""  # noqa: S608 - our own number
_MATCH = """
    INSERT INTO match (id, amount_minor, created_at, updated_at, score, status, kind, confidence, uniqueness, currency,
        created_by, levels)
    VALUES (%(id)s, %(amount)s, %(at)s, %(at)s, 0, 'proposed', %(kind)s, 'low', 'ambiguous', 'EUR', 'test', '{}')
"""
_LEG = """
    INSERT INTO leg (match_id, ordinal, expected_id, incoming_id, amount_minor, settled_minor, settled_currency)
    VALUES (%(match)s, %(ordinal)s, %(expected)s, %(incoming)s, %(amount)s, %(amount)s, 'EUR')
"""

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
        # As whoever stores many: ten thousand took 80 s to accept where autovacuum had looked while they were stored.
        tables = ("expected_transaction", "expected_open", "incoming_transaction", "incoming_open", "match", "leg")
        await analyze_grown(connection, *tables, rows=len(matches))
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
