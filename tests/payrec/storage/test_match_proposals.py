"""What a run writes, statement by statement: whatever the legs look like, nobody takes more than there is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import polars as pl
import pytest

from payrec.errors import AlreadyMatchedError
from payrec.storage.allocations import AllocationStore, Side, Take
from payrec.storage.binary_copy import encoded
from payrec.storage.database import Connection
from payrec.storage.match_proposals import MatchProposalStore
from payrec.storage.match_runs import MatchRunStore
from payrec.storage.rows import copy_out, fetch_all
from support.contention import put
from support.matching_world import World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 3, 12, tzinfo=UTC)
CHANGE = UUID("019ce000-0000-7000-8000-000000000001")


@pytest.fixture(autouse=True, params=["parameters", "tables"])
def staged(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have what is staged join as parameters, as that of few rows, or as tables."""
    if request.param == "tables":
        monkeypatch.setattr("payrec.storage.staged_rows.FEW_BYTES", 0)


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


@dataclass(frozen=True, slots=True)
class Stored:
    """Ids by the order in which they were stored."""

    expected: list[UUID]
    incoming: list[UUID]
    matches: list[UUID]


async def stored(world: World, **given: Any) -> Stored:
    context = world.service.factory.context
    await put(context.database, world.bystander_scope, context.ids, **{**given, "matches": []})
    matches = await put(context.database, world.scope, context.ids, **given)
    sides = [
        [row["id"] for row in await world.sql(f"SELECT id FROM {table} ORDER BY id")]  # noqa: S608 - our own names
        for table in ("expected_transaction", "incoming_transaction")
    ]
    return Stored(sides[0], sides[1], matches)


@asynccontextmanager
async def committing(world: World) -> AsyncIterator[tuple[Connection, MatchProposalStore]]:
    """Open the transaction of a run, with everything made in which it stages."""
    async with world.service.factory.context.database.tenant(world.scope) as connection:
        store = MatchProposalStore(connection)
        await store.begin(looked_at=b"")
        yield connection, store


def taken(transaction: UUID, open_minor: int, minor: int, winner: UUID | None = None, revision: int = 1) -> bytes:
    schema = {"transaction_id": pl.Binary, "place": pl.Int32, "open_minor": pl.Int64, "revision": pl.Int32}
    row = (transaction.bytes, 7, open_minor, revision, minor, winner.bytes if winner is not None else None)
    return encoded(pl.DataFrame([row], schema={**schema, "minor": pl.Int64, "winner": pl.Binary}, orient="row"))


def allocation(side: int, transaction: UUID, amount_minor: int, minor: int) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "transaction_id": [transaction.bytes],
            "amount_minor": [amount_minor],
            "allocated_minor": [minor],
            "updated_at": pl.Series([NOW], dtype=pl.Datetime("us", "UTC")),
            "version": pl.Series([2], dtype=pl.Int32),
            "side": pl.Series([side], dtype=pl.Int16),
            "status": ["matched" if minor == amount_minor else "partially_matched"],
            "change_id": [CHANGE.bytes],
        }
    )


async def allocate(world: World, rows: pl.DataFrame) -> None:
    async with committing(world) as (_, store):
        await store.allocate(encoded(rows))


async def allocate_more(world: World, items: bytes) -> None:
    async with committing(world) as (_, store):
        await store.stage(items, b"")
        await store.allocate_more(change_id=CHANGE, at=NOW)


async def superseded(world: World, found: Stored, *, item_minor: int, kept: list[UUID]) -> dict[UUID, UUID | None]:
    """Accept 30.00 of the first item with the last line; return what was superseded by what."""
    winner = world.service.factory.context.ids.new()
    async with committing(world) as (connection, store):
        line = taken(found.incoming[-1], 3_000, 3_000, winner)
        await store.stage(taken(found.expected[0], item_minor, 3_000, winner), line)
        await store.hold()
        assert await store.changed() == ([], [])
        assert await store.allocate_more(change_id=CHANGE, at=NOW) == ([], [])
        new = [allocation(1, found.expected[0], item_minor, 3_000), allocation(2, found.incoming[-1], 3_000, 3_000)]
        await store.allocate(encoded(pl.concat(new)))
        await store.close(expected=1, incoming=1)
        rows = encoded(pl.DataFrame({"id": [match.bytes for match in kept]}, schema={"id": pl.Binary}))
        count = await store.supersede(rows, change_id=winner, at=NOW, filtered=False)
        gone = await fetch_all(connection, "SELECT id, superseded_by FROM match WHERE status = 'superseded'")
        assert len(gone) == count
    return {row["id"]: row["superseded_by"] for row in gone}


async def test_a_proposal_goes_when_its_legs_together_need_more_than_is_left(world: World) -> None:
    given = {"expected": [10_000], "incoming": [4_000, 6_000, 7_000, 3_000]}
    found = await stored(world, **given, matches=[[(0, 0, 4_000), (0, 1, 6_000)], [(0, 1, 6_000)], [(0, 2, 7_000)]])
    gone = await superseded(world, found, item_minor=10_000, kept=found.matches)
    assert list(gone) == [found.matches[0]]
    assert gone[found.matches[0]] is not None
    assert await world.sql("SELECT open_minor FROM expected_open") == [{"open_minor": 7_000}]
    states = "SELECT side, allocated_minor, status FROM allocation ORDER BY side"
    assert [tuple(row.values()) for row in await world.sql(states)] == [
        (1, 3_000, "partially_matched"),
        (2, 3_000, "matched"),
    ]


@pytest.mark.parametrize(("minor", "goes"), [(1_000, False), (1_001, True)])
async def test_what_a_proposal_settles_without_money_counts_as_well(world: World, minor: int, *, goes: bool) -> None:
    found = await stored(world, expected=[10_000], incoming=[6_000, 3_000], matches=[[(0, 0, 6_000)]])
    said = {"type": "fee", "side": "expected", "id": str(found.expected[0]), "minor": minor, "currency": "EUR"}
    await world.sql("UPDATE match SET adjustments = %s", json.dumps([said]))
    gone = await superseded(world, found, item_minor=10_000, kept=found.matches)
    assert bool(gone) is goes


@pytest.mark.parametrize(("side", "minor", "goes"), [("amount", 7_001, True), ("amount", 7_000, False)])
async def test_what_a_contra_transaction_gives_counts_as_well(
    world: World, side: str, minor: int, *, goes: bool
) -> None:
    found = await stored(world, expected=[10_000, 10_000], incoming=[9_000, 3_000], matches=[[(1, 0, 9_000)]])
    # Of two items that settle each other, the contra one gives what a line would.
    await world.sql(
        f"UPDATE leg SET incoming_id = NULL, contra_expected_id = %s, {side}_minor = %s",  # noqa: S608 - our own names
        found.expected[0],
        minor,
    )
    gone = await superseded(world, found, item_minor=10_000, kept=found.matches)
    assert bool(gone) is goes


async def test_what_is_not_kept_is_superseded_by_nothing(world: World) -> None:
    given = {"expected": [10_000, 500], "incoming": [6_000, 500, 3_000]}
    found = await stored(world, **given, matches=[[(0, 0, 6_000)], [(1, 1, 500)]])
    gone = await superseded(world, found, item_minor=10_000, kept=found.matches[:1])
    assert gone == {found.matches[1]: None}


@pytest.mark.parametrize(("open_minor", "revision", "same"), [(10_000, 1, True), (9_999, 1, False), (10_000, 2, False)])
async def test_a_transaction_that_is_not_what_it_was_is_told_by_its_place(
    world: World, open_minor: int, revision: int, *, same: bool
) -> None:
    found = await stored(world, expected=[10_000], incoming=[10_000], matches=[])
    async with committing(world) as (_, store):
        line = taken(found.incoming[0], open_minor, 0, revision=revision)
        await store.stage(taken(found.expected[0], open_minor, 0, revision=revision), line)
        assert await store.changed() == (([], []) if same else ([7], [7]))
        # What is staged again takes the place of what was there.
        await store.stage(b"", b"")
        assert await store.changed() == ([], [])


@pytest.mark.not_on_citus("a server to which a schema is moved numbers its transactions otherwise: all is compared")
@pytest.mark.parametrize(
    ("change", "same"),
    [
        ("DELETE FROM expected_open WHERE open_minor = 1", True),
        ("UPDATE incoming_open SET revision = revision + 1", False),
        ("UPDATE expected_open SET open_minor = open_minor - 1 WHERE open_minor = 500", False),
        ("DELETE FROM expected_open WHERE open_minor = 500", False),
    ],
)
async def test_whether_anything_has_changed_is_told_by_what_was_written_since(
    world: World, change: str, *, same: bool
) -> None:
    await stored(world, expected=[10_000, 500], incoming=[10_000], matches=[])
    horizon = await horizon_of(world)
    await stored(world, expected=[700], incoming=[800], matches=[])
    await world.sql(f"WITH done AS ({change} RETURNING 1) SELECT count(*) FROM done")  # noqa: S608 - our own text
    async with committing(world) as (_, store):
        assert await store.unchanged(horizon=horizon, expected=2, incoming=1) is same
        assert not await store.unchanged(horizon=0, expected=2, incoming=1)


async def horizon_of(world: World) -> int:
    """Return a horizon beyond everything that is stored: who else works on the server holds it back for a while."""
    async with asyncio.timeout(20):
        while True:
            async with world.service.factory.context.database.tenant(world.scope, readonly=True) as connection:
                horizon = await MatchRunStore(connection).horizon()
                rows = await fetch_all(connection, "SELECT count(*) AS open FROM expected_open")
                found = await MatchProposalStore(connection).unchanged(
                    horizon=horizon, expected=rows[0]["open"], incoming=1
                )
            if found:
                return horizon
            await asyncio.sleep(0.05)


async def test_what_has_an_allocation_gets_more_of_it_and_never_more_than_there_is(world: World) -> None:
    found = await stored(world, expected=[10_000], incoming=[10_000], matches=[])
    async with committing(world) as (_, store):
        await store.allocate(encoded(allocation(1, found.expected[0], 10_000, 4_000)))
        await store.stage(taken(found.expected[0], 6_000, 5_000), taken(found.incoming[0], 10_000, 0))
        assert await store.allocate_more(change_id=CHANGE, at=NOW) == ([7], [])
    state = "SELECT side, allocated_minor, status, version FROM allocation"
    assert [tuple(row.values()) for row in await world.sql(state)] == [(1, 9_000, "partially_matched", 3)]
    with pytest.raises(AlreadyMatchedError):
        await allocate_more(world, taken(found.expected[0], 6_000, 1_001))


async def test_who_is_second_to_touch_a_transaction_proposes_again(world: World) -> None:
    found = await stored(world, expected=[10_000], incoming=[10_000], matches=[])
    row = allocation(2, found.incoming[0], 10_000, 1)
    await allocate(world, row)
    with pytest.raises(AlreadyMatchedError):
        await allocate(world, row)


@pytest.mark.parametrize("column", ["revision", "open_minor"])
async def test_a_row_that_changes_at_last_is_not_closed_as_it_was(world: World, column: str) -> None:
    found = await stored(world, expected=[10_000], incoming=[10_000], matches=[])
    async with committing(world) as (connection, store):
        await store.stage(taken(found.expected[0], 10_000, 10_000), taken(found.incoming[0], 10_000, 10_000))
        change = f"UPDATE incoming_open SET {column} = {column} + 1"  # noqa: S608 - our own names
        await connection.execute(change.encode())
        with pytest.raises(AlreadyMatchedError):
            await store.close(expected=1, incoming=1)
        await connection.execute(b"ROLLBACK")
        await connection.execute(b"BEGIN")
    assert len(await world.sql("SELECT 1 FROM expected_open UNION ALL SELECT 1 FROM incoming_open")) == 2


def reasons(side: int, said: dict[UUID, int | None]) -> bytes:
    frame = pl.DataFrame(
        {"id": [name.bytes for name in said], "reason": pl.Series(list(said.values()), dtype=pl.Int16)}
    )
    return encoded(frame.select(pl.lit(side, dtype=pl.Int16), "id", "reason"))


async def test_a_reason_waits_for_nobody_who_works_on_the_row(world: World) -> None:
    found = await stored(world, expected=[10_000, 20_000], incoming=[], matches=[])
    database = world.service.factory.context.database
    async with database.tenant(world.scope) as other:
        await other.execute(b"SELECT 1 FROM expected_open WHERE transaction_id = %s FOR UPDATE", (found.expected[0],))
        async with committing(world) as (_, store):
            await store.give_reasons(reasons(1, dict.fromkeys(found.expected, 1)), change_id=CHANGE, filtered=False)
    assert await said(world) == dict.fromkeys(found.expected, 1)


async def test_what_was_said_is_said_otherwise_or_taken_back(world: World) -> None:
    found = await stored(world, expected=[1, 2, 3], incoming=[4], matches=[])
    first, second, third = found.expected
    for now in ({first: 1, second: 1}, {first: 2, second: None, third: None}):
        async with committing(world) as (_, store):
            await store.give_reasons(reasons(1, now), change_id=CHANGE, filtered=False)
    assert await said(world) == {first: 2}
    # Of the other side, another reason of another transaction.
    async with committing(world) as (_, store):
        await store.give_reasons(reasons(2, {found.incoming[0]: 4}), change_id=CHANGE, filtered=False)
    assert await said(world) == {first: 2, found.incoming[0]: 4}


async def test_who_takes_of_a_transaction_takes_back_why_it_was_open(world: World) -> None:
    found = await stored(world, expected=[10_000, 20_000], incoming=[10_000], matches=[])
    async with committing(world) as (_, store):
        await store.give_reasons(reasons(1, dict.fromkeys(found.expected, 1)), change_id=CHANGE, filtered=False)
        await store.give_reasons(reasons(2, dict.fromkeys(found.incoming, 1)), change_id=CHANGE, filtered=False)
    takes = [
        Take(side=Side.EXPECTED, transaction_id=found.expected[0], amount_minor=10_000, taken_minor=4_000),
        Take(side=Side.INCOMING, transaction_id=found.incoming[0], amount_minor=10_000, taken_minor=10_000),
    ]
    async with world.service.factory.context.database.tenant(world.scope) as connection:
        await AllocationStore(connection).take(takes, change_id=CHANGE, at=NOW)
    assert await said(world) == {found.expected[1]: 1}


async def said(world: World) -> dict[UUID, int]:
    rows = await world.sql("SELECT transaction_id, reason FROM open_reason")
    return {row["transaction_id"]: row["reason"] for row in rows}


async def test_a_copy_that_fails_on_the_way_leaves_the_connection_usable(world: World) -> None:
    async with world.service.factory.context.database.tenant(world.scope) as connection:
        await connection.execute(b"SAVEPOINT before")
        with pytest.raises(Exception, match="division by zero"):
            await copy_out(connection, "COPY (SELECT 1 / (g - 5000) FROM generate_series(1, 9999) g) TO STDOUT")
        await connection.execute(b"ROLLBACK TO before")
        assert await copy_out(connection, "COPY (SELECT 'a' FROM generate_series(1, 3)) TO STDOUT") == b"a\n" * 3
