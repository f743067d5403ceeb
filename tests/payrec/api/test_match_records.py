"""The record of a match: where everything came from, who decided when and why, and the seal of each audit record."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from payrec.domain.matching.rules import FEATURES
from payrec.services import match_records, match_rendering
from support.matching_world import World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

TABLE = b"Booking date;Amount;Currency;Remittance;Name\n2026-03-12;100.00;EUR;INV-2026-001;Ada Lovelace\n"


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def record(world: World, match: dict[str, Any]) -> dict[str, Any]:
    answer = await world.tenant.get(f"/matches/{match['id']}/record")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def proposed(world: World) -> dict[str, Any]:
    await world.expect("100.00", reference="INV-2026-001", counterpartyName="Ada Lovelace")
    for tenant in (world.tenant, world.bystander):
        headers = {"content-type": "application/octet-stream"}
        answer = await tenant.request("POST", "/incoming-transactions/upload", content=TABLE, headers=headers)
        assert answer.status_code == 201, answer.text
    await world.run()
    return await world.proposal()


async def test_everything_known_of_a_match_is_told(world: World) -> None:
    match = await proposed(world)
    before = await record(world, match)
    assert before["match"] == (await world.tenant.get(f"/matches/{match['id']}")).json()
    assert (before["countedFrom"], before["returns"], before["superseded"]) == (None, [], [])
    answer = await world.tenant.post(f"/matches/{match['id']}/accept", {"reason": "as agreed"})
    assert answer.status_code == 200, answer.text

    found = await record(world, match)
    assert found["match"] == answer.json()
    engine = found["engine"]
    assert match["createdBy"] == engine["madeBy"] == f"engine:{engine['engineVersion']}"
    assert (engine["calibrationVersion"], engine["runId"]) == (None, match["runId"])
    assert isinstance(engine["rulesVersion"], int)
    [state] = [s for s in found["states"] if s["status"] == "accepted"]
    assert (state["version"], state["decisionReason"], state["at"]) == (2, "as agreed", found["countedFrom"])

    expected, incoming = found["transactions"]
    assert [(t["side"], t["status"], t["allocatedMinor"]) for t in (expected, incoming)] == [
        ("expected", "matched", 10_000),
        ("incoming", "matched", 10_000),
    ]
    assert (expected["stated"]["reference"], expected["source"]) == ("INV-2026-001", None)
    assert incoming["stated"]["remittance"] == "INV-2026-001"
    source = incoming["source"]
    assert (source["sha256"], source["line"]) == (hashlib.sha256(TABLE).hexdigest(), 2)
    assert (source["format"], source["statement"]["index"]) == ("csv", 0)
    assert all(t["statedWhenDecided"] is None for t in (expected, incoming))

    actions = [r["type"] for r in found["audit"]]
    assert {"expected_transaction.created", "import.completed", "match_run.committed", "match.accepted"} <= set(actions)
    assert found["audit"] == sorted(found["audit"], key=lambda r: (r["changeId"], r["id"]))
    assert found["auditComplete"]
    log = (await world.tenant.get(found["auditLog"])).json()["data"]
    assert {r["id"] for r in log} <= {r["id"] for r in found["audit"]}


async def test_what_was_stated_when_it_was_decided_stays_known(world: World) -> None:
    match = await proposed(world)
    assert (await world.accept(match)).status_code == 200
    path = f"/expected-transactions/{match['legs'][0]['expectedTransactionId']}"
    changed = await world.tenant.request("PATCH", path, json={"description": "corrected later"})
    assert changed.status_code == 200, changed.text
    expected, _ = (await record(world, match))["transactions"]
    assert expected["stated"]["description"] == "corrected later"
    assert "description" not in expected["statedWhenDecided"]


async def test_a_reversal_and_those_that_gave_way_are_told(world: World) -> None:
    first = await proposed(world)
    ends = first["legs"][0]
    leg = {name: ends[name] for name in ("expectedTransactionId", "incomingTransactionId", "amountMinor")}
    stated = await world.tenant.post("/matches", {"legs": [leg], "reason": "known to us"})
    assert stated.status_code == 201, stated.text
    match = stated.json()
    reversed_ = await world.tenant.post(f"/matches/{match['id']}/reverse", {"reason": "the wrong one"})
    assert reversed_.status_code == 200, reversed_.text
    found = await record(world, match)
    assert [s["id"] for s in found["superseded"]] == [first["id"]]
    assert found["engine"]["engineVersion"] is None
    assert [s["status"] for s in found["states"]] == ["accepted", "reversed"]
    assert found["states"][-1]["decisionReason"] == "the wrong one"
    assert found["countedFrom"] < found["countedUntil"]
    assert [t["allocatedMinor"] for t in found["transactions"]] == [0, 0]


async def test_each_audit_record_has_its_seal_and_a_changed_one_is_seen(world: World) -> None:
    match = await proposed(world)
    assert (await world.accept(match)).status_code == 200
    assert [r["seal"] for r in (await record(world, match))["audit"] if r["type"] == "match.accepted"] == [None]
    await world.service.factory.upkeep.create_audit_sealer().seal(world.scope, "test")
    audit = (await record(world, match))["audit"]
    assert all(r["seal"]["holds"] for r in audit)
    seals = await world.sql("SELECT sequence, encode(root, 'hex') AS root FROM audit_seal")
    assert {(r["seal"]["sequence"], r["seal"]["root"]) for r in audit} <= {
        (row["sequence"], row["root"]) for row in seals
    }
    await world.sql("UPDATE audit_record SET reason = 'forged' WHERE action = 'match.accepted'")
    forged = [r["type"] for r in (await record(world, match))["audit"] if not r["seal"]["holds"]]
    assert forged == ["match.accepted"]


async def test_what_waits_for_a_blind_review_is_told_without_what_the_engine_thinks(world: World) -> None:
    match = await proposed(world)
    await world.sql("UPDATE match SET sampled = true")
    found = await record(world, match)
    assert [found["match"][name] for name in ("score", "confidence", "evidence")] == [None, None, []]
    assert found["engine"]["proof"] is None


async def test_a_record_is_bounded_and_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    match = await proposed(world)
    monkeypatch.setattr(match_records, "TRANSACTIONS_SHOWN_MAX", 1)
    monkeypatch.setattr(match_records, "RECORDS_SHOWN_MAX", 1)
    found = await record(world, match)
    assert (len(found["transactions"]), found["transactionCount"]) == (1, 2)
    assert (len(found["audit"]), found["auditComplete"]) == (1, False)


async def test_nobody_else_gets_it(world: World) -> None:
    match = await proposed(world)
    for answer in (
        await world.bystander.get(f"/matches/{match['id']}/record"),
        await world.tenant.get(f"/matches/{match['id']}/record", environment="test"),
        await world.tenant.get("/matches/nonsense/record"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("feature", range(len(FEATURES) + 1))
async def test_a_match_of_a_newer_engine_is_told_as_far_as_it_is_known(world: World, feature: int) -> None:
    """Its workers run beside this version during an upgrade, and what they have stored is there after a rollback."""
    match = await proposed(world)
    # The last one is of a feature that is not known at all.
    await world.sql("UPDATE match SET levels[%s] = 99", feature + 1)
    [found] = await world.matches()
    assert found["explanation"] == match_rendering.NEWER
    told = [*FEATURES][feature : feature + 1]
    assert found["evidence"] == [e for e in match["evidence"] if e["feature"] not in told]
    changed = {"evidence": found["evidence"], "explanation": match_rendering.NEWER}
    assert found == (await record(world, match))["match"] == {**match, **changed}
    answer = await world.accept(match)
    assert (answer.status_code, answer.json()["status"]) == (200, "accepted")
