"""Matching runs over HTTP: one at a time, waited for or not, over everything or a part, for real or only to see."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest

from support.matching_world import TABLES, WORKER_LEAVES, World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

RUN_LEAVES = {"job", "change", "audit_record", "counterparty_name", *WORKER_LEAVES}


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def pair(world: World, reference: str, amount: str = "100.00", **fields: Any) -> tuple[str, str]:
    expected = await world.expect(amount, reference=reference, externalId=f"E-{reference}", **fields)
    incoming = await world.receive(amount, remittance=f"Rechnung {reference}", externalId=f"I-{reference}")
    return expected, incoming


async def test_a_run_counts_what_it_saw_and_did(world: World) -> None:
    await pair(world, "INV-2026-001")
    await world.expect("55.00", reference="INV-2026-002")
    await world.receive("77.70", remittance="nobody knows this")
    run = await world.run()
    assert run["counts"] == {
        "expected": 2,
        "incoming": 2,
        "proposed": 1,
        "autoAccepted": 0,
        "ambiguous": 0,
        "unmatched": {"no_candidate": 1},
    }
    assert run["engineVersion"]
    assert run["durationMs"] >= 0
    assert run["dryRun"] is False


async def test_a_run_with_nothing_open_ends_at_once(world: World) -> None:
    assert (await world.run())["counts"]["proposed"] == 0


async def test_an_empty_body_is_fine(world: World) -> None:
    assert (await world.tenant.post("/matches/match")).status_code == 200


async def test_without_waiting_the_answer_is_the_job(world: World) -> None:
    await pair(world, "INV-2026-001")
    answer = await world.tenant.post("/matches/match", {"wait": 0})
    run = answer.json()
    assert answer.status_code == 202
    assert run["status"] in {"queued", "running"}
    assert answer.headers["Location"] == f"/jobs/{run['jobId']}"
    job = await world.ended(run["jobId"])
    assert job["status"] == "succeeded"
    assert job["result"]["counts"]["proposed"] == 1
    assert job["progress"]["done"] == job["progress"]["total"]
    assert (await world.proposal())["runId"] == run["jobId"]


@pytest.mark.parametrize("wait", [-1, 61, "soon", 1.5])
async def test_a_wait_out_of_bounds_is_refused(world: World, wait: object) -> None:
    answer = await world.tenant.post("/matches/match", {"wait": wait})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/wait")


async def test_of_many_runs_started_at_once_one_runs_and_the_others_name_it(world: World) -> None:
    await pair(world, "INV-2026-001")
    async with world.service.factory.context.database.tenant(world.scope) as connection:
        # The run cannot end before we let go of the table.
        await connection.execute("LOCK TABLE match IN EXCLUSIVE MODE")
        answers = await asyncio.gather(*(world.tenant.post("/matches/match", {"wait": 0}) for _ in range(20)))
    [started] = [a.json()["jobId"] for a in answers if a.status_code == 202]
    refused = [a.json() for a in answers if a.status_code == 409]
    assert len(refused) == 19
    assert {(r["code"], r["jobId"]) for r in refused} == {("match_run_in_progress", started)}
    assert (await world.ended(started))["status"] == "succeeded"
    assert (await world.run())["counts"]["proposed"] == 1


async def test_a_run_in_one_environment_does_not_keep_the_others_from_running(world: World) -> None:
    await pair(world, "INV-2026-001")
    async with world.service.factory.context.database.tenant(world.scope) as connection:
        await connection.execute("LOCK TABLE match IN EXCLUSIVE MODE")
        started = await world.tenant.post("/matches/match", {"wait": 0})
        other = await world.tenant.post("/matches/match", {}, environment="test")
        assert (other.status_code, other.json()["status"]) == (200, "succeeded")
        assert (await world.job(started.json()["jobId"]))["status"] in {"queued", "running"}
    await world.ended(started.json()["jobId"])


async def test_a_dry_run_tells_what_it_would_do_and_changes_nothing(world: World) -> None:
    await world.set(autoAccept=True)
    expected, incoming = await pair(world, "INV-2026-001")
    await world.receive("9.99")
    tables = [t for t in TABLES if t not in RUN_LEAVES]
    before = await world.digest(*tables)
    run = await world.run(dryRun=True)
    assert await world.digest(*tables) == before
    assert run["dryRun"] is True
    assert run["counts"]["proposed"] == run["counts"]["autoAccepted"] == 1
    [proposal] = run["proposals"]
    assert proposal["legs"] == [
        {"expectedTransactionId": expected, "incomingTransactionId": incoming, "amountMinor": 10_000}
    ]
    assert proposal["kind"] == "one_to_one"
    assert (proposal["amountMinor"], proposal["confidence"], proposal["autoAccept"]) == (10_000, "exact", True)
    assert await world.matches() == []


async def test_a_run_for_real_after_a_dry_run_does_what_was_told(world: World) -> None:
    await pair(world, "INV-2026-001")
    dry = await world.run(dryRun=True)
    real = await world.run()
    assert real["counts"] == dry["counts"]
    assert "proposals" not in real
    assert (await world.proposal())["legs"][0]["expectedTransactionId"] == dry["proposals"][0]["legs"][0][
        "expectedTransactionId"
    ]


async def test_filters_narrow_both_sides(world: World) -> None:
    first = await pair(world, "INV-2026-001", "10.00")
    await pair(world, "INV-2026-002", "20.00")
    run = await world.run(
        expectedFilter={"reference": "INV-2026-001"}, incomingFilter={"amountMax": "10.00", "currency": "EUR"}
    )
    assert (run["counts"]["expected"], run["counts"]["incoming"], run["counts"]["proposed"]) == (1, 1, 1)
    assert (await world.proposal())["legs"][0]["expectedTransactionId"] == first[0]


async def test_a_run_over_some_items_accepts_nothing_because_it_has_not_seen_the_others(world: World) -> None:
    await world.set(autoAccept=True, autoAcceptMinConfidence="high")
    named = await world.expect("50.00", reference="INV-2026-0041", counterpartyName="Bolt GmbH", externalId="named")
    other = await world.expect("50.00", reference="INV-2026-0052", counterpartyName="Bolt GmbH", externalId="other")
    await world.receive("50.00", remittance="INV-2026-0041", counterpartyName="Bolt GmbH")
    run = await world.run(expectedFilter={"externalId": "other"})
    assert (run["counts"]["proposed"], run["counts"]["autoAccepted"]) == (1, 0)
    proposal = await world.proposal()
    assert (proposal["legs"][0]["expectedTransactionId"], proposal["confidence"]) == (other, "medium")
    assert "not all that may fit was compared" in proposal["explanation"]
    assert (await world.run())["counts"]["autoAccepted"] == 1
    [accepted] = await world.matches(status="accepted")
    assert accepted["legs"][0]["expectedTransactionId"] == named


OTHERS = [
    pytest.param({"counterpartyName": "Bolt GmbH"}, True, id="of the same payer and amount"),
    pytest.param({"remittance": "INV-2026-0041", "amount": "20.00"}, True, id="quotes the item"),
    pytest.param({"counterpartyName": "Nagel AG"}, False, id="of another payer"),
    pytest.param({"counterpartyName": "Bolt GmbH", "amount": "51.00"}, False, id="of another amount"),
    pytest.param({"counterpartyName": "Bolt GmbH", "currency": "USD"}, False, id="of another currency"),
]


@pytest.mark.parametrize("few", [False, True], ids=["read whole", "looked up"])
@pytest.mark.parametrize(("fields", "is_rival"), OTHERS)
async def test_a_run_over_some_lines_accepts_nothing_that_another_one_may_be_of(
    world: World, fields: dict[str, str], *, is_rival: bool, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("payrec.services.match_increments.ITEMS_PER_LINE_LOOKED_UP", 0.1 if few else 10**9)
    await world.set(autoAccept=True, autoAcceptMinConfidence="high")
    await world.expect("50.00", reference="INV-2026-0041", counterpartyName="Bolt GmbH")
    await world.receive(**{"amount": "50.00", **fields, "externalId": "other"})
    await world.receive("50.00", counterpartyName="Bolt GmbH", externalId="mine", bookingDate="2026-03-20")
    run = await world.run(incomingFilter={"externalId": "mine"})
    assert (run["counts"]["proposed"], run["counts"]["autoAccepted"]) == (1, int(not is_rival))
    [match] = await world.matches()
    assert match["uniqueness"]["status"] == ("contested" if is_rival else "unique")
    assert match["explanation"].endswith("1 other candidate fits as well." if is_rival else "no other open item fits.")


async def test_a_run_over_some_lines_accepts_no_set_that_nobody_named(world: World) -> None:
    await world.set(autoAccept=True, autoAcceptMinConfidence="high")
    await world.expect("1000.07", reference="INV-2026-0041", counterpartyName="Bolt GmbH")
    for amount, day in (("500.03", "2026-03-11"), ("500.04", "2026-04-10")):
        await world.receive(amount, counterpartyName="Bolt GmbH", bookingDate=day)
    whole = await world.receive("1000.07", counterpartyName="Bolt GmbH", remittance="INV-2026-0041")
    await world.run(incomingFilter={"amountMax": "600.00", "currency": "EUR"})
    [match] = await world.matches()
    assert (match["status"], match["confidence"], match["uniqueness"]["status"]) == ("proposed", "medium", "unbounded")
    assert match["explanation"].endswith("not all that may fit was compared.")
    # It is the other one that pays.
    await world.run()
    [accepted] = await world.matches(status="accepted")
    assert accepted["legs"][0]["incomingTransactionId"] == whole


@pytest.mark.parametrize("several", [False, True], ids=["of one", "of two"])
@pytest.mark.parametrize(
    ("paid", "fields", "is_rival"),
    [
        pytest.param("98.50", {"amount": "1.50"}, True, id="the rest"),
        pytest.param("98.50", {"amount": "1.51"}, False, id="something else"),
        pytest.param("98.50", {"amount": "1.50", "counterpartyName": "Nagel AG"}, False, id="of another payer"),
        pytest.param("98.50", {"amount": "1.50", "direction": "debit"}, False, id="gone out"),
        pytest.param("101.50", {"amount": "1.50", "direction": "debit"}, True, id="given back"),
        pytest.param("98.50", {"remittance": "INV-2026-0041"}, True, id="quotes the item"),
        pytest.param("98.50", {}, True, id="of the amount of one"),
    ],
)
async def test_a_run_over_some_lines_accepts_no_difference_that_another_one_may_explain(
    world: World, paid: str, fields: dict[str, str], *, is_rival: bool, several: bool
) -> None:
    await world.set(autoAccept=True, autoAcceptMinConfidence="high", amountToleranceMinor=200)
    party = {"counterpartyName": "Bolt GmbH"}
    await world.expect("100.00", reference="INV-2026-0041", **party)
    if several:
        await world.expect("50.00", reference="INV-2026-0042", **party)
        paid = f"{Decimal(paid) + 50}"
    text = f"INV-2026-0041{' INV-2026-0042' * several}"
    await world.receive(paid, remittance=text, externalId="mine", bookingDate="2026-03-20", **party)
    await world.receive(**{"amount": "100.00", **party, **fields})
    run = await world.run(incomingFilter={"externalId": "mine"})
    # Of several that are quoted, it is none.
    is_rival = is_rival and bool(fields or not several)
    assert (run["counts"]["proposed"], run["counts"]["autoAccepted"]) == (1, int(not is_rival))
    [match] = await world.matches()
    assert match["uniqueness"]["status"] == ("contested" if is_rival else "unique")


async def test_a_filtered_run_leaves_other_proposals_and_reasons_alone(world: World) -> None:
    first, second = await pair(world, "INV-2026-001", "10.00"), await pair(world, "INV-2026-002", "20.00")
    lone = await world.receive("33.00", externalId="lone")
    await world.run()
    before = {m["id"]: m for m in await world.matches()}
    unchanged = await world.incoming(lone)
    await world.sql("UPDATE expected_open SET revision = 2 WHERE transaction_id = %s", first[0])
    await world.sql("UPDATE expected_transaction SET revision = 2 WHERE id = %s", first[0])
    await world.run(incomingFilter={"externalId": "I-INV-2026-001"}, expectedFilter={"externalId": "E-INV-2026-001"})
    matches = await world.matches()
    assert Counter(m["status"] for m in matches) == {"proposed": 2, "superseded": 1}
    [other] = [m for m in matches if m["legs"][0]["expectedTransactionId"] == second[0]]
    assert other == before[other["id"]]
    assert await world.incoming(lone) == unchanged


async def test_a_filtered_run_leaves_a_proposal_alone_of_which_it_saw_the_item(world: World) -> None:
    item = await world.expect("500.00", counterpartyName="Bolt GmbH")
    await world.receive("500.00", counterpartyName="Bolt GmbH")
    await pair(world, "INV-2026-001", "60.00")
    await world.run()
    before = await world.matches()
    assert Counter(m["status"] for m in before) == {"proposed": 2}
    line = await world.receive("90.00", counterpartyName="Bolt GmbH", externalId="line")
    await world.run(incomingFilter={"amountMax": "90.00", "currency": "EUR"})
    assert (await world.incoming(line))["reasonCode"] == "amount_mismatch"
    assert await world.matches() == before
    assert (await world.expected(item))["reasonCode"] is None


async def test_a_filtered_run_says_no_reason_for_what_has_a_proposal_elsewhere(world: World) -> None:
    expected, _ = await pair(world, "INV-2026-001", "10.00")
    await world.receive("33.00", externalId="lone")
    await world.run()
    await world.run(incomingFilter={"externalId": "lone"})
    assert (await world.expected(expected))["reasonCode"] is None
    assert len(await world.matches(status="proposed")) == 1


async def test_a_filtered_run_takes_back_no_reason_that_rests_on_what_it_did_not_see(world: World) -> None:
    item = await world.expect("500.00", counterpartyName="Bolt GmbH", externalId="item")
    line = await world.receive("90.00", counterpartyName="Bolt GmbH", externalId="line")
    await world.run()
    told = (await world.expected(item))["reasonCode"], (await world.incoming(line))["reasonCode"]
    assert told == ("amount_mismatch", "amount_mismatch")
    await world.receive("33.00", externalId="other")
    await world.expect("44.00", externalId="stranger")
    await world.run(incomingFilter={"externalId": "other"})
    assert (await world.expected(item))["reasonCode"] == "amount_mismatch"
    await world.run(expectedFilter={"externalId": "stranger"})
    assert (await world.incoming(line))["reasonCode"] == "amount_mismatch"


async def test_a_filtered_run_says_why_what_it_looked_for_stays_open_now(world: World) -> None:
    await world.expect("500.00", counterpartyName="Bolt GmbH")
    line = await world.receive("90.00", counterpartyName="Bolt GmbH", externalId="line")
    await world.run()
    assert (await world.incoming(line))["reasonCode"] == "amount_mismatch"
    await world.receive("500.00", counterpartyName="Bolt GmbH", externalId="whole")
    await world.run(incomingFilter={"externalId": "whole"})
    answer = await world.accept(await world.proposal())
    assert answer.status_code == 200, answer.text
    await world.run(incomingFilter={"externalId": "line"})
    assert (await world.incoming(line))["reasonCode"] == "no_candidate"


async def test_a_filtered_run_that_accepts_supersedes_what_competes_outside_of_its_filter(world: World) -> None:
    expected = await world.expect("10.00", reference="INV-2026-001", counterpartyName="Ada")
    await world.receive("10.00", remittance="by name alone", counterpartyName="Ada", externalId="named")
    await world.run()
    named = await world.proposal()
    await world.receive("10.00", remittance="INV-2026-001", externalId="quoted")
    await world.set(autoAccept=True)
    run = await world.run(incomingFilter={"externalId": "quoted"})
    assert run["counts"]["autoAccepted"] == 1
    [accepted] = await world.matches(status="accepted")
    [loser] = await world.matches(status="superseded")
    assert (loser["id"], loser["supersededBy"]) == (named["id"], accepted["id"])
    answer = await world.accept(named)
    assert (answer.status_code, answer.json()["code"]) == (409, "already_matched")
    assert (await world.expected(expected))["status"] == "matched"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"expectedFilter": {"refrence": "X"}}, "/expectedFilter/refrence"),
        ({"incomingFilter": {"status": "open"}}, "/incomingFilter/status"),
        ({"incomingFilter": {"importId": "nope"}}, "/incomingFilter/importId"),
        ({"expectedFilter": {"amountMin": "1.00"}}, "amountMin"),
        ({"expectedFilter": {"limit": 1}}, "/expectedFilter/limit"),
        ({"expectedFilter": {"sort": "dueDate"}}, "/expectedFilter/sort"),
        ({"incomingFilter": {"cursor": "x"}, "dryRun": True}, "/incomingFilter/cursor"),
        ({"incomingFilter": {"sort": "-createdAt"}}, "/incomingFilter/sort"),
        ({"expectedfilter": {}}, "/expectedfilter"),
        ({"dryRun": "perhaps"}, "/dryRun"),
    ],
)
async def test_an_unknown_filter_is_refused_where_it_stands(world: World, body: dict[str, Any], pointer: str) -> None:
    answer = await world.tenant.post("/matches/match", body)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "validation_failed")
    assert problem["errors"][0]["pointer"].endswith(pointer)
    job = await world.tenant.post("/jobs", {"kind": "match", "params": body})
    assert (job.status_code, job.json()["errors"][0]["pointer"].endswith(pointer)) == (422, True)
    assert (await world.tenant.get("/jobs")).json()["data"] == []


async def test_a_rerun_keeps_what_is_the_same_and_supersedes_what_changed(world: World) -> None:
    same = await pair(world, "INV-2026-001", "10.00")
    changed = await pair(world, "INV-2026-002", "20.00")
    await world.run()
    before = {m["legs"][0]["expectedTransactionId"]: m for m in await world.matches()}
    await world.expect("20.00", reference="INV-2026-002", externalId="twin")
    run = await world.run()
    assert (run["counts"]["proposed"], run["counts"]["ambiguous"]) == (2, 1)
    proposed = {m["legs"][0]["incomingTransactionId"]: m for m in await world.matches(status="proposed")}
    assert proposed[same[1]] == before[same[0]]
    assert proposed[changed[1]]["id"] != before[changed[0]]["id"]
    [old] = await world.matches(status="superseded")
    assert (old["id"], old["supersededBy"]) == (before[changed[0]]["id"], None)
    answer = await world.accept(old)
    assert (answer.status_code, answer.json()["code"]) == (409, "invalid_state")


async def test_many_reruns_over_the_same_data_write_nothing(world: World) -> None:
    for number in range(6):
        await pair(world, f"INV-2026-{number:03}", f"{10 + number}.00")
    await world.receive("7.00")
    await world.run()
    tables = [t for t in TABLES if t not in RUN_LEAVES]
    before = await world.digest(*tables)
    for _ in range(3):
        assert (await world.run())["counts"]["proposed"] == 6
    assert await world.digest(*tables) == before


async def test_the_answer_is_replayed_with_an_idempotency_key(world: World) -> None:
    await pair(world, "INV-2026-001")
    first = await world.tenant.post("/matches/match", {"wait": 10}, headers={"Idempotency-Key": "once"})
    again = await world.tenant.post("/matches/match", {"wait": 10}, headers={"Idempotency-Key": "once"})
    assert (first.status_code, again.status_code) == (200, 202)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.json()["jobId"] == first.json()["jobId"]
    assert len((await world.tenant.get("/jobs")).json()["data"]) == 1
