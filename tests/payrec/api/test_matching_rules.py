"""Rules over HTTP: what they change for the lines in their scope, tried before they are set, and told afterwards."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import AsyncIterator
from typing import Any

import pytest

from payrec.services import match_dry_runs, rule_classifications
from support.matching_world import TABLES, WORKER_LEAVES, World, matching_world
from support.service import Service, Tenant
from support.wire import code, fields

pytestmark = pytest.mark.anyio

MAIN, OTHER = "DE02120300000000202051", "DE02500105170137075030"
STRICT = {"name": "main-account", "priority": 10, "scope": {"account": MAIN}, "dateWindowDaysAfter": 1}
FEES = {
    "name": "fees",
    "priority": 20,
    "scope": {"account": MAIN, "direction": "debit", "textContains": ["Kontoführung", "bank charge"]},
    "classify": {"category": "fee", "postingCode": "4970"},
}
STILL = tuple(
    table for table in TABLES if table not in WORKER_LEAVES | {"job", "change", "audit_record", "idempotency"}
)


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def two(world: World) -> tuple[str, str]:
    """Store a payment on either account, two days after it was due; return the lines."""
    lines = []
    for number, account in enumerate((MAIN, OTHER)):
        await world.expect(f"10{number}.00", reference=f"INV-2026-00{number}")
        lines.append(await world.receive(f"10{number}.00", remittance=f"INV-2026-00{number}", account=account))
    return lines[0], lines[1]


def lines_of(matches: list[dict[str, Any]]) -> set[str]:
    return {leg["incomingTransactionId"] for match in matches for leg in match["legs"]}


async def test_a_rule_holds_for_the_lines_in_its_scope_and_is_told(world: World) -> None:
    main, other = await two(world)
    await world.set(autoAccept=True, rules=[{**STRICT, "dateWindowDaysAfter": 2, "autoAccept": False}])
    run = await world.run()
    version = int((await world.tenant.get(f"/tenants/{world.tenant.id}")).json()["version"])
    assert run["rulesVersion"] == version
    [proposed] = await world.matches(status="proposed")
    [accepted] = await world.matches(status="accepted")
    assert (lines_of([proposed]), lines_of([accepted])) == ({main}, {other})
    assert proposed["explanation"].endswith(" Within the bounds of the rule main-account.")
    assert "rule" not in accepted["explanation"]
    job = await world.job(run["jobId"])
    assert job["result"]["rulesVersion"] == version
    told = (await world.tenant.get("/audit-log", params={"resourceId": run["jobId"]})).json()["data"]
    assert [r["after"]["rulesVersion"] for r in told if r["type"] == "match_run.committed"] == [version]


async def test_a_rule_that_changes_replaces_what_it_has_proposed_and_nothing_else(world: World) -> None:
    main, _ = await two(world)
    await world.run()
    before = {match["id"]: match for match in await world.matches(status="proposed")}
    await world.set(rules=[{**STRICT, "dateWindowDaysAfter": 30}])
    await world.run()
    after = {match["id"]: match for match in await world.matches(status="proposed")}
    [new] = [match for match in after.values() if match["id"] not in before]
    assert (len(after), lines_of([new])) == (2, {main})
    await world.set(rules=[STRICT])
    await world.run()
    assert lines_of(await world.matches(status="proposed")) == lines_of(list(before.values())) - {main}
    assert (await world.incoming(main))["reasonCode"] == "date_out_of_window"
    told = (await world.tenant.get(f"/incoming-transactions/{main}/candidates")).json()["data"]
    assert told[0]["wouldMatchIf"] == "dateWindowDaysAfter of the rule main-account were 2 days; it is 1"


@pytest.mark.parametrize("items_per_line", [1, 10**9])
async def test_few_lines_are_decided_by_the_same_rules(
    world: World, monkeypatch: pytest.MonkeyPatch, items_per_line: int
) -> None:
    monkeypatch.setattr("payrec.services.match_increments.ITEMS_PER_LINE_LOOKED_UP", items_per_line)
    main, other = await two(world)
    await world.set(rules=[STRICT])
    await world.run()
    assert lines_of(await world.matches(status="proposed")) == {other}
    assert (await world.incoming(main))["reasonCode"] == "date_out_of_window"


async def test_a_dry_run_tries_rules_before_they_are_set(world: World) -> None:
    main, other = await two(world)
    before = await world.digest(*STILL)
    settings = (await world.tenant.get(f"/tenants/{world.tenant.id}/settings")).json()
    tried = await world.run(dryRun=True, settings={"matching": {"autoAccept": True, "rules": [STRICT]}})
    assert lines_of(tried["proposals"]) == {other}
    assert [p["autoAccept"] for p in tried["proposals"]] == [True]
    plain = await world.run(dryRun=True)
    assert lines_of(plain["proposals"]) == {main, other}
    assert {p["autoAccept"] for p in plain["proposals"]} == {False}
    named = await world.run(dryRun=True, settings={"matching": {"rules": [{**STRICT, "dateWindowDaysAfter": 2}]}})
    assert [p.get("rules") for p in named["proposals"]] == [["main-account"], None]
    assert await world.digest(*STILL) == before
    assert (await world.tenant.get(f"/tenants/{world.tenant.id}/settings")).json() == settings


async def test_null_in_a_dry_run_goes_back_to_the_default(world: World) -> None:
    main, other = await two(world)
    await world.set(dateWindowDaysAfter=1)
    tried = await world.run(dryRun=True, settings={"matching": {"dateWindowDaysAfter": None}})
    assert lines_of(tried["proposals"]) == {main, other}
    assert (await world.run(dryRun=True))["proposals"] == []


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({"settings": {"matching": {}}}, ("/settings", "only_for_dry_run")),
        ({"dryRun": True, "settings": {}}, ("/settings/matching", "missing")),
        ({"dryRun": True, "settings": {"matching": {}, "locale": "de"}}, ("/settings/locale", "extra_forbidden")),
        ({"dryRun": True, "settings": {"matching": {"x": 1}}}, ("/settings/matching/x", "extra_forbidden")),
        (
            {"dryRun": True, "settings": {"matching": {"rules": [STRICT, STRICT]}}},
            ("/settings/matching/rules/1/name", "duplicate_name"),
        ),
    ],
)
async def test_what_cannot_be_tried_is_refused(world: World, body: dict[str, Any], wrong: tuple[str, str]) -> None:
    answer = await world.tenant.post("/matches/match", body)
    assert answer.status_code == 422
    assert wrong in fields(answer)
    job = await world.tenant.post("/jobs", {"kind": "match", "params": body})
    assert (f"/params{wrong[0]}", wrong[1]) in fields(job)
    assert (await world.tenant.get("/jobs")).json()["data"] == []


async def test_what_does_not_fit_into_the_answer_is_a_file_of_all(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await two(world)
    await world.set(rules=[{**STRICT, "dateWindowDaysAfter": 2}])
    whole = await world.run(dryRun=True)
    assert "proposalsUrl" not in whole
    monkeypatch.setattr(match_dry_runs, "PROPOSALS_MAX", 1)
    run = await world.run(dryRun=True)
    assert run["proposals"] == whole["proposals"][:1]
    assert run["proposalsExpireAt"] > run.get("createdAt", "")
    answer = await world.tenant.get(run["proposalsUrl"])
    assert answer.status_code == 200
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["incomingTransactionId"] for row in rows] == [
        proposal["legs"][0]["incomingTransactionId"] for proposal in whole["proposals"]
    ]
    assert [(row["kind"], row["autoAccept"], int(row["legAmountMinor"])) for row in rows] == [
        ("one_to_one", "false", proposal["amountMinor"]) for proposal in whole["proposals"]
    ]
    assert hashlib.sha256(answer.content).hexdigest() in answer.headers["etag"]
    assert (await world.bystander.get(run["proposalsUrl"])).status_code == 404
    assert await world.matches() == []


async def test_lines_that_nobody_expects_are_classified_by_a_rule(world: World) -> None:
    fee = await world.receive("4.90", direction="debit", account=MAIN, remittance="KONTOFÜHRUNG März")
    rest = [
        await world.receive("4.90", direction="debit", account=OTHER, remittance="Kontoführung März"),
        await world.receive("4.90", direction="debit", account=MAIN, remittance="Miete"),
        await world.receive("4.90", account=MAIN, remittance="bank charge given back"),
        await world.receive("4.90", direction="debit", account=MAIN, remittance="bank charge", status="pending"),
    ]
    paid = await world.receive("7.00", direction="debit", account=MAIN, remittance="bank charge INV-2026-001")
    await world.expect("7.00", direction="debit", reference="INV-2026-001")
    await world.set(rules=[FEES])
    dry = await world.run(dryRun=True)
    assert dry["counts"]["classified"] == 1
    assert (await world.incoming(fee))["status"] == "unmatched"
    run = await world.run()
    assert run["counts"] == dry["counts"]
    line = await world.incoming(fee)
    assert (line["status"], line["classification"]) == ("classified", {"category": "fee", "postingCode": "4970"})
    statuses = [(await world.incoming(other))["status"] for other in (*rest, paid)]
    assert statuses == ["unmatched", "unmatched", "unmatched", "pending", "unmatched"]
    told = (await world.tenant.get("/audit-log", params={"resourceId": fee})).json()["data"]
    assert [r["reason"] for r in told if r["type"] == "incoming_transaction.classified"] == ["rule fees"]
    assert (await world.run())["counts"]["classified"] == 0
    again = await world.tenant.post(f"/incoming-transactions/{fee}/restore")
    assert again.status_code == 200, again.text


async def test_a_run_over_some_items_classifies_nothing(world: World) -> None:
    await world.receive("4.90", direction="debit", account=MAIN, remittance="bank charge")
    await world.set(rules=[FEES])
    assert (await world.run(expectedFilter={"externalId": "none"}))["counts"]["classified"] == 0


async def test_a_run_classifies_a_bounded_number(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        await world.receive("4.90", direction="debit", account=MAIN, remittance="bank charge")
    await world.set(rules=[FEES])
    monkeypatch.setattr(rule_classifications, "CLASSIFIED_MAX", 2)
    assert [(await world.run())["counts"]["classified"] for _ in range(3)] == [2, 1, 0]


async def test_rules_are_settings_with_a_history(world: World) -> None:
    path = f"/tenants/{world.tenant.id}/settings"
    await world.set(rules=[STRICT])
    stored = (await world.tenant.get(path)).json()["matching"]["rules"]
    assert stored == [STRICT]
    twice = await world.tenant.request(
        "PATCH", path, json={"matching": {"rules": [STRICT, {**STRICT, "priority": 11}]}}
    )
    assert (twice.status_code, code(twice)) == (422, "validation_failed")
    assert fields(twice) == {
        ("/matching/rules/1/name", "duplicate_name"),
        ("/matching/rules/1/scope", "never_holds"),
    }
    assert (await world.tenant.get(path)).json()["matching"]["rules"] == [STRICT]
    assert (await world.bystander.get(f"/tenants/{world.bystander.id}/settings")).json()["matching"]["rules"] == []
    await world.set(rules=None)
    log = (await world.tenant.get("/audit-log", params={"resourceId": str(world.tenant.id)})).json()["data"]
    kept = [
        (record["before"].get("matching", {}).get("rules"), record["after"].get("matching", {}).get("rules"))
        for record in log
        if record["type"] == "tenant.settings_updated"
    ]
    assert kept[:2] == [([STRICT], None), (None, [STRICT])]


@pytest.mark.parametrize(
    ("percent", "paid", "status"),
    [(0.006, "999920.00", "proposed"), (0.01, "999920.00", "accepted"), (0.29, "997100.00", "accepted")],
)
async def test_no_more_is_tolerated_than_the_percentage_that_is_set(
    world: World, percent: float, paid: str, status: str
) -> None:
    """Of 0.006 percent were made 0.01: a line that was 80.00 short of a million was accepted, 60.00 were tolerated."""
    await world.set(autoAccept=True, amountTolerancePercent=percent)
    await world.expect("1000000.00", reference="INV-2026-001")
    await world.receive(paid, remittance="INV-2026-001")
    await world.run()
    [match] = await world.matches()
    assert match["status"] == status
