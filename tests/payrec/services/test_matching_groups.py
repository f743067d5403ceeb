"""Runs that find groups: what they write, keep, replace and drop, and what they say where there is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from payrec.services import match_dry_runs
from payrec.services.matching import MatchingService
from support.events import TOLD
from support.matching_world import DECISIONS, TABLES, WORKER_LEAVES, World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

BATCH = "PO-2026-7"
RUN_LEAVES = {"job", "change", "audit_record", *WORKER_LEAVES}


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def batch(world: World, *amounts: str) -> list[str]:
    return [await world.expect(amount, groupKey=BATCH, externalId=f"E{at}") for at, amount in enumerate(amounts)]


async def everything(world: World) -> None:
    """Store what makes a match of each kind, with rows of which nothing comes."""
    await batch(world, "10.00", "20.00", "30.00")
    await world.receive("60.00", groupKey=BATCH)
    await world.expect("100.00", reference="INV-2026-001")
    for name, amount in (("a", "40.00"), ("b", "60.00")):
        await world.receive(amount, remittance=f"INV-2026-001 {name}")
    await world.expect("7.00", reference="INV-2026-002")
    await world.receive("7.00", remittance="INV-2026-002")
    await world.expect("3.33")
    await world.receive("4.44")


async def test_what_is_proved_is_accepted_at_once_with_all_legs(world: World) -> None:
    await everything(world)
    await world.set(autoAccept=True)
    counts = (await world.run())["counts"]
    assert (counts["proposed"], counts["autoAccepted"]) == (3, 3)
    matches = await world.matches()
    assert Counter((m["kind"], m["status"], m["amountMinor"], len(m["legs"])) for m in matches) == {
        ("one_to_many", "accepted", 6_000, 3): 1,
        ("many_to_one", "accepted", 10_000, 2): 1,
        ("one_to_one", "accepted", 700, 1): 1,
    }
    told = await world.sql(f"SELECT resource_id::text AS id FROM {TOLD} WHERE type = 'match.accepted'")  # noqa: S608
    assert sorted(event["id"] for event in told) == sorted(match["id"] for match in matches)
    assert await world.sql("SELECT 1 FROM leg WHERE valid_from IS NULL") == []
    ordinals = "SELECT array_agg(ordinal ORDER BY ordinal) AS o FROM leg GROUP BY match_id ORDER BY 1"
    assert [row["o"] for row in await world.sql(ordinals)] == [[0], [0, 1], [0, 1, 2]]
    wrong = """
        SELECT 1 FROM allocation a WHERE allocated_minor <> (
            SELECT sum(l.amount_minor) FROM leg l WHERE a.transaction_id IN (l.expected_id, l.incoming_id)
        ) OR allocated_minor <> amount_minor OR status <> 'matched'
    """
    assert await world.sql(wrong) == []
    left = "SELECT open_minor AS n FROM expected_open UNION ALL SELECT open_minor FROM incoming_open"
    assert sorted(row["n"] for row in await world.sql(left)) == [333, 444]


async def test_a_searched_set_is_never_accepted_by_itself(world: World) -> None:
    for at, amount in enumerate(("10.00", "20.00", "5.00", "40.00")):
        await world.expect(amount, reference=f"INV-2026-{at}", externalId=f"E{at}")
    await world.receive("30.00", remittance="INV-2026-0 INV-2026-1 INV-2026-2 INV-2026-3")
    await world.set(autoAccept=True, autoAcceptMinConfidence="high")
    assert (await world.run())["counts"]["autoAccepted"] == 0
    match = await world.proposal()
    assert (match["kind"], match["confidence"], match["uniqueness"]["candidates"]) == ("one_to_many", "high", 8)
    assert match["explanation"].startswith("Of the 4 invoices that the payment quotes, only INV-2026-")
    assert match["explanation"].endswith("no other set of them does.")


async def test_a_rerun_over_groups_writes_nothing(world: World) -> None:
    await everything(world)
    await world.run()
    tables = [t for t in TABLES if t not in RUN_LEAVES]
    before = await world.digest(*tables)
    for _ in range(2):
        assert (await world.run())["counts"]["proposed"] == 3
    assert await world.digest(*tables) == before


async def test_a_group_with_another_member_is_another_match(world: World) -> None:
    await batch(world, "10.00", "20.00", "30.00")
    await world.receive("60.00", groupKey=BATCH, externalId="x")
    await world.receive("65.00", groupKey=BATCH, externalId="y")
    await world.run()
    old = await world.proposal()
    assert len(old["legs"]) == 3
    await world.expect("5.00", groupKey=BATCH, externalId="late")
    await world.run()
    new = await world.proposal()
    assert (len(new["legs"]), new["amountMinor"]) == (4, 6_500)
    [gone] = await world.matches(status="superseded")
    assert (gone["id"], gone["supersededBy"]) == (old["id"], None)


async def test_a_group_of_which_any_row_changed_meanwhile_is_dropped_whole(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await everything(world)
    read = MatchingService._read

    async def reading(*given: Any) -> Any:
        snapshot = await read(*given)
        await world.sql(
            "UPDATE expected_open SET revision = revision + 1"
            " WHERE transaction_id = (SELECT id FROM expected_transaction WHERE external_id = 'E1')"
        )
        return snapshot

    monkeypatch.setattr(MatchingService, "_read", reading)
    await world.set(autoAccept=True)
    counts = (await world.run())["counts"]
    assert (counts["proposed"], counts["autoAccepted"]) == (2, 2)
    assert {m["kind"] for m in await world.matches()} == {"one_to_one", "many_to_one"}
    assert await world.sql("SELECT count(*) AS n FROM leg") == [{"n": 3}]
    untouched = "SELECT count(*) AS n FROM expected_open o JOIN expected_transaction e ON e.id = o.transaction_id"
    assert await world.sql(f"{untouched} WHERE e.group_key = '{BATCH}'") == [{"n": 3}]


async def test_a_filtered_run_leaves_a_group_alone_of_which_it_saw_a_part(world: World) -> None:
    items = await batch(world, "10.00", "20.00", "30.00")
    line = await world.receive("60.00", groupKey=BATCH, externalId="x")
    await world.run()
    before = await world.digest(*DECISIONS, "expected_open", "incoming_open")
    await world.run(expectedFilter={"externalId": "E1"})
    assert await world.digest(*DECISIONS, "expected_open", "incoming_open") == before
    rows = [await world.incoming(line), *[await world.expected(item) for item in items]]
    assert {row["reasonCode"] for row in rows} == {None}
    await world.run(expectedFilter={"groupKey": BATCH}, incomingFilter={"externalId": "x"})
    assert (await world.proposal())["kind"] == "one_to_many"


async def test_a_group_larger_than_the_setting_says_so(world: World) -> None:
    items = [await world.expect("10.00", reference=f"INV-2026-{at}", externalId=f"E{at}") for at in range(3)]
    await world.receive("30.00", remittance="INV-2026-0 INV-2026-1 INV-2026-2")
    await world.set(groupSizeMax=2)
    await world.run()
    assert (await world.proposal())["kind"] == "one_to_one"
    reasons = Counter([(await world.expected(item))["reasonCode"] for item in items])
    assert reasons == {None: 1, "budget_exhausted": 2}
    await world.set(groupSizeMax=3)
    await world.run()
    match = await world.proposal()
    assert (match["kind"], match["uniqueness"]["bounds"]["groupSizeMax"]) == ("one_to_many", 3)


async def test_a_batch_of_another_sum_says_so(world: World) -> None:
    items = await batch(world, "10.00", "20.00")
    line = await world.receive("26.99", groupKey=BATCH)
    run = await world.run()
    assert (run["counts"]["proposed"], run["counts"]["unmatched"]) == (0, {"amount_mismatch": 1})
    rows = [await world.incoming(line), *[await world.expected(item) for item in items]]
    assert {row["reasonCode"] for row in rows} == {"amount_mismatch"}


async def test_a_dry_run_tells_the_legs_of_groups_in_bounded_number(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await everything(world)
    told = (await world.run(dryRun=True))["proposals"]
    assert sorted((p["kind"], len(p["legs"]), p["amountMinor"]) for p in told) == [
        ("many_to_one", 2, 10_000),
        ("one_to_many", 3, 6_000),
        ("one_to_one", 1, 700),
    ]
    assert all(sum(leg["amountMinor"] for leg in p["legs"]) == p["amountMinor"] for p in told)
    monkeypatch.setattr(match_dry_runs, "LEGS_MAX", 4)
    assert sum(len(p["legs"]) for p in (await world.run(dryRun=True))["proposals"]) <= 4
    assert await world.matches() == []
