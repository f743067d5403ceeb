"""What stands beside an open transaction is what comparing it with everything gives, and little is read to find it."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

import pytest
from sqlmodel import SQLModel

from payrec.constants import KEYS_VERSION
from payrec.storage import match_candidates
from payrec.storage.database import Connection, Database
from payrec.storage.match_candidates import MatchCandidateStore
from payrec.storage.rows import insert
from payrec.tables.expected_transactions import ExpectedOpen
from payrec.tables.incoming_transactions import IncomingOpen
from support.places import Places
from support.plans import explained, nodes, visited

pytestmark = pytest.mark.anyio

Row = dict[str, Any]

MANY: Final = 20_000
"""Open rows of either side."""

FILL: Final = f"""
    INSERT INTO expected_open (transaction_id, open_minor, total_minor, tie_key, due_day, direction, currency,
        reference_key, name_key, keys_version)
    SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 1000 + n, 1000 + n, n, 20000 + n % 90, 1,
        'EUR', 1000000 + n, 2000000 + n / 8, {KEYS_VERSION}
    FROM generate_series(1::bigint, {MANY}) n;
    INSERT INTO incoming_open (transaction_id, open_minor, total_minor, tie_key, booking_day, direction, currency,
        reference_keys, name_key, keys_version)
    SELECT transaction_id, open_minor, total_minor, tie_key, due_day, direction, currency, ARRAY[reference_key, 7],
        name_key, keys_version FROM expected_open;
    ANALYZE expected_open, incoming_open
"""  # noqa: S608 - our own number


def rows_of(seed: int, count: int) -> tuple[list[Row], list[Row]]:
    """Return items and lines that have much in common, and nothing often enough to be told apart by it."""
    dice = random.Random(seed)  # noqa: S311 - data, not a secret
    keys, amounts = (None, None, 1, 2, 3), (100, 100, 101, 150, 200)

    def common(number: int) -> Row:
        minor = dice.choice(amounts)
        return {
            "transaction_id": UUID(int=dice.getrandbits(100) << 20 | number),
            "open_minor": minor,
            "total_minor": minor,
            "end_to_end_key": dice.choice(keys),
            "name_key": dice.choice(keys) if dice.random() < 0.3 else None,
            "account_key": dice.choice(keys) if dice.random() < 0.3 else None,
            "tie_key": dice.choice((1, 1, 2)),
            "direction": dice.choice((1, 1, 1, -1)),
            "currency": dice.choice(("EUR", "EUR", "USD")),
        }

    def day() -> int | None:
        return dice.choice((None, 20_000, 20_001, 20_005))

    items = [
        common(n) | {"reference_key": dice.choice(keys), "due_day": day(), "from_day": day(), "to_day": day()}
        for n in range(count)
    ]
    lines = [
        common(n)
        | {
            "reference_keys": dice.sample((1, 2, 3, 4), dice.randint(0, 2)),
            "booking_day": dice.choice((20_000, 20_001, 20_004)),
            "reversal": dice.random() < 0.1,
        }
        for n in range(count)
    ]
    return items, lines


async def store(connection: Connection, table: type[SQLModel], rows: Iterable[Row]) -> None:
    for row in rows:
        await insert(connection, table, row)


def compared(item: Row, line: Row) -> tuple[Any, ...] | None:
    """Return where a pair stands in the order of all, None for one that shares nothing."""
    asks = {item["reference_key"], item["end_to_end_key"]} - {None}
    quotes = not asks.isdisjoint({*line["reference_keys"], line["end_to_end_key"]})
    comparable = item["currency"] == line["currency"]
    gap = abs(item["open_minor"] - line["open_minor"])
    known = any(item[name] is not None and item[name] == line[name] for name in ("account_key", "name_key"))
    if item["direction"] != line["direction"] or line["reversal"]:
        return None
    if not (quotes or known or (comparable and gap == 0)):
        return None
    due = next((item[name] for name in ("due_day", "to_day", "from_day") if item[name] is not None), None)
    return (not quotes, not comparable, gap, due is None, abs((due or 0) - line["booking_day"]) if due else 0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("limit", [3, 1_000])
async def test_it_is_what_comparing_with_everything_gives(
    opened: Database, places: Places, seed: int, limit: int
) -> None:
    items, lines = rows_of(seed, 40)
    async with opened.tenant(places.a) as connection, connection.transaction(force_rollback=True):
        await store(connection, ExpectedOpen, items)
        await store(connection, IncomingOpen, lines)
        candidates = MatchCandidateStore(connection)
        found = 0
        for side, rows, others in (("expected", items, lines), ("incoming", lines, items)):
            for row in rows:
                own = await candidates.open_row(side, row["transaction_id"])
                assert own is not None
                beside = await candidates.beside(side, own, limit=limit)
                wanted = sorted(
                    (*place, other["tie_key"], other["transaction_id"])
                    for other in others
                    if (place := compared(row, other) if side == "expected" else compared(other, row)) is not None
                )
                assert [one["transaction_id"] for one in beside] == [place[-1] for place in wanted[:limit]]
                found += len(beside)
        assert found > 100, "the rows have something in common"


@pytest.mark.not_on_citus("a plan is the worker's there, and told in another form")
async def test_items_are_looked_up_and_lines_read_once(
    opened: Database, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody who stores lines pays for an index that only this would use; nothing but the lines is read whole."""
    async with opened.tenant(places.b) as connection, connection.transaction(force_rollback=True):
        await connection.execute(FILL.encode(), prepare=False)
        candidates = MatchCandidateStore(connection)
        plans = {}
        for side in ("incoming", "expected"):
            own = await candidates.open_row(side, UUID("00000000-0000-7000-8000-0000000007ff"))
            assert own is not None
            with explained(monkeypatch, match_candidates) as told:
                await candidates.beside(side, own, limit=200)
            [plans[side]] = told
    assert not any(node["Node Type"] == "Seq Scan" for node in nodes(plans["incoming"])), plans["incoming"]
    assert visited(plans["incoming"]) <= 50, plans["incoming"]
    assert visited(plans["expected"]) == MANY, plans["expected"]
    assert {node["Relation Name"] for node in nodes(plans["expected"]) if "Relation Name" in node} == {"incoming_open"}
