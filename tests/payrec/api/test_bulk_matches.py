"""Many decisions in one request: each proposal by itself, and none of them twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.contention import put
from support.matching_world import DEADLINE_SECONDS, DECISIONS, World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

NOWHERE = "0192f0c1-2345-7000-8000-000000000000"


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def stored(world: World, expected: list[int], incoming: list[int], matches: Any) -> list[str]:
    context = world.service.factory.context
    ids = await put(context.database, world.scope, context.ids, expected=expected, incoming=incoming, matches=matches)
    return [str(match_id) for match_id in ids]


DECIDED_SECONDS = 200.0
"""After which nobody waits for an answer any more."""


async def pairs(world: World, count: int) -> list[str]:
    return await stored(world, [100] * count, [100] * count, [[(n, n, 100)] for n in range(count)])


async def decide(world: World, verb: str, ids: list[Any], **body: Any) -> list[dict[str, Any]]:
    # How long it takes is for the benchmarks: ten thousand beside other tests have taken more than the client waits.
    answer = await world.tenant.post(f"/matches/{verb}", {"ids": ids, **body}, timeout=DECIDED_SECONDS)
    assert answer.status_code == 200, answer.text
    results: list[dict[str, Any]] = answer.json()["results"]
    assert [r["index"] for r in results] == list(range(len(ids)))
    return results


def codes(results: list[dict[str, Any]]) -> list[Any]:
    return [r["status"] if "problem" not in r else (r["status"], r["problem"]["code"]) for r in results]


async def test_what_is_accepted_together_is_allocated_as_one_by_one(world: World) -> None:
    ids = await pairs(world, 5)
    results = await decide(world, "accept", ids, reason="all fine")
    assert codes(results) == [200] * 5
    assert [r["id"] for r in results] == ids
    matches = await world.matches()
    assert {(m["status"], m["decisionReason"], m["effectiveOn"]) for m in matches} == {
        ("accepted", "all fine", "2024-03-04")
    }
    assert await world.sql("SELECT 1 FROM expected_open UNION ALL SELECT 1 FROM incoming_open") == []
    assert await world.sql("SELECT count(*) AS n FROM audit_record WHERE action = 'match.accepted'") == [{"n": 5}]


async def test_every_item_gets_its_own_answer(world: World) -> None:
    ids = await pairs(world, 8)
    good, rejected, reversed_, stale, pending, void, accepted, _ = ids
    assert (await world.tenant.post(f"/matches/{accepted}/accept")).status_code == 200
    assert (await world.tenant.post(f"/matches/{rejected}/reject")).status_code == 200
    assert (await world.tenant.post(f"/matches/{reversed_}/accept")).status_code == 200
    assert (await world.tenant.post(f"/matches/{reversed_}/reverse", {"reason": "x"})).status_code == 200
    await world.sql(
        "UPDATE expected_transaction SET revision = 2 WHERE id = (SELECT expected_id FROM leg WHERE match_id = %s)",
        stale,
    )
    await world.sql(
        "UPDATE incoming_transaction SET pending = true WHERE id = (SELECT incoming_id FROM leg WHERE match_id = %s)",
        pending,
    )
    await world.sql(
        "INSERT INTO allocation (side, transaction_id, amount_minor, status, version, updated_at)"
        " SELECT 1, expected_id, 100, 'void', 2, clock_timestamp() FROM leg WHERE match_id = %s",
        void,
    )
    asked = [good, rejected, reversed_, stale, pending, void, accepted, NOWHERE, "nope", good]
    results = await decide(world, "accept", asked)
    assert codes(results) == [
        200,
        (409, "invalid_state"),
        (409, "invalid_state"),
        (409, "stale_proposal"),
        (409, "invalid_state"),
        (409, "invalid_state"),
        200,
        (404, "not_found"),
        (404, "not_found"),
        200,
    ]
    assert results[3]["problem"]["changed"][0]["field"] == "revision"
    digest = await world.digest(*DECISIONS)
    assert codes(await decide(world, "accept", asked)) == codes(results)
    assert await world.digest(*DECISIONS) == digest


async def test_of_those_that_compete_the_first_takes_the_amounts(world: World) -> None:
    first, second, third, part, rest = await stored(
        world,
        [100, 100],
        [100, 100, 60, 40],
        [[(0, 0, 100)], [(0, 1, 100)], [(1, 0, 100)], [(1, 2, 60)], [(1, 3, 40)]],
    )
    results = await decide(world, "accept", [second, first, part, third, rest])
    assert codes(results) == [200, (409, "already_matched"), 200, (409, "already_matched"), 200]
    assert results[1]["problem"]["supersededBy"] == second
    losers = {m["id"]: m["supersededBy"] for m in await world.matches(status="superseded")}
    assert losers in ({first: second, third: part}, {first: second, third: rest})
    assert await world.sql("SELECT 1 FROM allocation WHERE allocated_minor > amount_minor") == []


async def test_many_are_rejected_and_remembered(world: World) -> None:
    first, second, third = await pairs(world, 3)
    assert (await world.tenant.post(f"/matches/{third}/accept")).status_code == 200
    results = await decide(world, "reject", [first, third, NOWHERE, "nope", second, first], reason="no")
    assert codes(results) == [
        200,
        (409, "invalid_state"),
        (404, "not_found"),
        (404, "not_found"),
        200,
        (409, "invalid_state"),
    ]
    matches = {m["id"]: m for m in await world.matches()}
    assert [matches[m]["status"] for m in (first, second, third)] == ["rejected", "rejected", "accepted"]
    assert matches[first]["decisionReason"] == "no"


@pytest.mark.parametrize("verb", ["accept", "reject"])
@pytest.mark.parametrize("body", [{}, {"ids": []}, {"ids": [NOWHERE] * 10_001}, {"ids": [1]}, {"ids": NOWHERE}])
async def test_ids_are_bounded_and_not_none(world: World, verb: str, body: Any) -> None:
    answer = await world.tenant.post(f"/matches/{verb}", body)
    assert (answer.status_code, answer.json()["code"]) == (422, "validation_failed")


@pytest.mark.parametrize("verb", ["accept", "reject"])
async def test_the_same_key_decides_once(world: World, verb: str) -> None:
    ids = await pairs(world, 2)
    headers = {"Idempotency-Key": "many"}
    first = await world.tenant.post(f"/matches/{verb}", {"ids": ids}, headers=headers)
    again = await world.tenant.post(f"/matches/{verb}", {"ids": ids}, headers=headers)
    assert (again.status_code, again.json()) == (200, first.json())
    assert again.headers["Idempotency-Replayed"] == "true"


async def test_another_tenants_matches_are_not_found(world: World) -> None:
    ids = await pairs(world, 2)
    for verb in ("accept", "reject"):
        answer = await world.bystander.post(f"/matches/{verb}", {"ids": ids})
        assert codes(answer.json()["results"]) == [(404, "not_found")] * 2
    assert {m["status"] for m in await world.matches()} == {"proposed"}


async def test_who_accepts_many_and_who_accepts_one_at_once_share_them(world: World) -> None:
    ids = await pairs(world, 40)
    many, *ones = await asyncio.gather(
        decide(world, "accept", ids), *(world.tenant.post(f"/matches/{match_id}/accept") for match_id in ids)
    )
    assert codes(many) == [200] * 40
    assert {one.status_code for one in ones} == {200}
    assert await world.sql("SELECT count(*) AS n FROM audit_record WHERE action = 'match.accepted'") == [{"n": 40}]


async def test_ten_thousand_are_accepted_in_one_request(world: World) -> None:
    ids = await pairs(world, 10_000)
    loop = asyncio.get_running_loop()
    began = loop.time()
    results = await decide(world, "accept", ids)
    print(f"\n{loop.time() - began:.2f} s for 10,000")  # noqa: T201 - shown by -s
    assert {r["status"] for r in results} == {200}
    assert await world.sql("SELECT count(*) AS n FROM match WHERE status = 'accepted'") == [{"n": 10_000}]
    told = "SELECT type, sum(cardinality(resource_ids))::int AS n, max(cardinality(resource_ids)) AS most FROM outbox"
    # What a worker has sealed already is not there any more; what is there is in rows of many.
    assert all(row["most"] <= 1_000 for row in await world.sql(f"{told} GROUP BY type"))


@pytest.mark.not_on_citus("who waits there waits on a worker, where this test does not look")
async def test_who_changes_a_transaction_at_that_moment_is_waited_for(world: World) -> None:
    changing, other = await pairs(world, 2)
    database = world.service.factory.context.database
    async with database.tenant(world.scope) as connection:
        # As an upload does that marks a duplicate: it takes no part in deciding, and holds the open row.
        for table, name in (("incoming_transaction", "id"), ("incoming_open", "transaction_id")):
            query = f"UPDATE {table} SET revision = 2 WHERE {name} = (SELECT incoming_id FROM leg WHERE match_id = %s)"  # noqa: S608 - our own text
            await connection.execute(query.encode(), (changing,))
        accepting = asyncio.create_task(decide(world, "accept", [changing, other]))
        waiting = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'transactionid') AS waits"
        until = asyncio.get_running_loop().time() + DEADLINE_SECONDS
        while not (await world.sql(waiting))[0]["waits"]:
            assert asyncio.get_running_loop().time() < until
            await asyncio.sleep(0.01)
    assert codes(await accepting) == [(409, "stale_proposal"), 200]
