"""What decisions that were made elsewhere teach: at once, what they would have taught here, of the newest ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from payrec.storage.calibration import CalibrationStore
from support.match_imports import DECIDED, counts, imported, one, pair
from support.matching_world import World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

CALIBRATION = "/matching/calibration"
IDS = "SELECT id, external_id FROM expected_transaction UNION ALL SELECT id, external_id FROM incoming_transaction"
COUNT = 40


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


def things(count: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return items and lines, of which every tenth line quotes an account that is that of another one's payer."""
    items = [
        {"direction": "credit", "currency": "EUR", "dueDate": "2026-03-10", "amountMinor": 1_000 + at,
         "counterpartyAccount": f"ACCOUNT{at}", "externalId": f"INV-{at}",
         "counterpartyName": f"Kunde {chr(65 + at % 20)} GmbH"}
        for at in range(count)
    ]  # fmt: skip
    lines = [
        {"direction": "credit", "currency": "EUR", "bookingDate": "2026-03-12", "amountMinor": item["amountMinor"],
         "counterpartyAccount": item["counterpartyAccount"], "externalId": f"TX-{at}",
         "counterpartyName": f"PAYER {at % 7}"}
        for at, item in enumerate(items)
    ]  # fmt: skip
    return items, lines


async def test_calibration_learns_the_same_as_of_decisions_made_here(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("payrec.services.learning", "payrec.domain.matching.learning"):
        monkeypatch.setattr(f"{place}.DECISIONS_MIN", COUNT)
    items, lines = things(COUNT)
    # Every tenth line pays in fact an item of another amount, which nobody would propose.
    wrong = [at for at in range(COUNT) if at % 10 == 0]
    others = [{**items[at], "externalId": f"OTHER-{at}", "amountMinor": 900_000 + at, "dueDate": "2020-01-01",
               "counterpartyAccount": f"ELSE{at}", "counterpartyName": None} for at in wrong]  # fmt: skip
    others = [{name: value for name, value in other.items() if value is not None} for other in others]

    async def fill() -> None:
        for path, records in (
            ("/expected-transactions/upload", items + others),
            ("/incoming-transactions/upload", lines),
        ):
            answer = await world.tenant.post(path, records)
            assert (answer.status_code, answer.json()["counts"]["rejected"]) == (201, 0), answer.text

    async def learned() -> dict[str, Any]:
        found: dict[str, Any] = (await world.tenant.get(CALIBRATION)).json()
        return {k: v for k, v in found.items() if k not in {"createdAt", "learnedAt", "id"}}

    await fill()
    await world.run()
    proposed = await world.matches(status="proposed")
    assert len(proposed) == COUNT
    for match in proposed:
        verb = "reject" if (match["amountMinor"] - 1_000) in wrong else "accept"
        assert (await world.tenant.post(f"/matches/{match['id']}/{verb}", {"reason": "seen"})).status_code == 200
    ids = {row["external_id"]: str(row["id"]) for row in await world.sql(IDS)}
    for at in wrong:
        leg = {"expectedTransactionId": ids[f"OTHER-{at}"], "incomingTransactionId": ids[f"TX-{at}"]}
        stated = {"legs": [{**leg, "amountMinor": 1_000 + at}], "reason": "seen"}
        assert (await world.tenant.post("/matches", stated)).status_code == 201
    await world.run()
    by_hand = await learned()
    assert (by_hand["version"], by_hand["wrong"]) == (1, len(wrong))

    await world.clean()
    await fill()
    records = [one(f"OTHER-{at}" if at in wrong else f"INV-{at}", f"TX-{at}", 1_000 + at) for at in range(COUNT)]
    assert counts(await imported(world.tenant, records)) == (COUNT, 0, 0)
    # At once: nobody has asked for a run.
    assert await learned() == by_hand
    [job] = (await world.tenant.get("/jobs", params={"kind": "learn"})).json()["data"]
    assert job["result"] == {"matches": COUNT, "proposals": COUNT}
    run = await world.run()
    assert run["engineVersion"].endswith("+1")
    # Nothing is learned twice, and names were learned of what persons had decided.
    assert counts(await imported(world.tenant, [*records, one("INV-NO", "TX-NO")])) == (0, COUNT, 1)
    await world.run()
    assert (await learned())["version"] == 1
    aliases = (await world.tenant.get("/matching/aliases")).json()["data"]
    assert aliases != []


async def test_a_few_more_decisions_teach_at_once_as_well(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """They waited until there were a tenth more, and nobody was told of them meanwhile."""
    for place in ("payrec.services.learning", "payrec.domain.matching.learning"):
        monkeypatch.setattr(f"{place}.DECISIONS_MIN", 20)
    items, lines = things(22)
    for path, records in (("/expected-transactions/upload", items), ("/incoming-transactions/upload", lines)):
        assert (await world.tenant.post(path, records)).status_code == 201
    decisions = [one(f"INV-{at}", f"TX-{at}", 1_000 + at) for at in range(22)]
    for version, records in enumerate((decisions[:21], decisions[21:]), start=1):
        assert counts(await imported(world.tenant, records)) == (len(records), 0, 0)
        found = (await world.tenant.get(CALIBRATION)).json()
        assert (found["version"], found["decisions"]) == (version, 20 + version)


async def test_of_a_large_file_the_newest_decisions_teach(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("payrec.services.match_import_lessons.IMPORTED_LEARNED_MAX", 3)
    monkeypatch.setattr("payrec.services.match_import_lessons.IMPORTED_LEARNED_LEGS_MAX", 4)
    for number in range(8):
        await pair(world, number, f"10{number}.00", counterpartyAccount=f"ACCOUNT{number}")
    records = [one(f"INV-{n}", f"TX-{n}", 10_000 + n * 100, decidedAt=f"2026-03-1{n}T08:00:00Z") for n in (2, 5, 3, 4)]
    legs = [{"expectedExternalId": f"INV-{n}", "incomingExternalId": f"TX-{n}", "amountMinor": 10_000 + n * 100}
            for n in (6, 7)]  # fmt: skip
    assert counts(await imported(world.tenant, [*records, {**DECIDED, "legs": legs}])) == (5, 0, 0)
    found = await world.sql(
        "SELECT DISTINCT e.external_id FROM imported_match_lesson s JOIN expected_transaction e ON e.id = s.expected_id"
    )
    # Of those of the 15th, 14th and 13th; that of two legs was decided before.
    assert {row["external_id"] for row in found} == {"INV-5", "INV-4", "INV-3"}
    assert await world.sql("SELECT 1 FROM imported_match WHERE learned_change_id IS NULL") == []
    # One decision whose legs are cut teaches nothing, because what is missing of it would look wrong.
    monkeypatch.setattr("payrec.services.match_import_lessons.IMPORTED_LEARNED_LEGS_MAX", 2)
    await world.tenant.post(f"/matches/{(await world.matches(status='accepted'))[-1]['id']}/reverse", {"reason": "no"})
    again = {**DECIDED, "legs": legs[::-1], "decidedAt": "2026-03-19T08:00:00Z", "reason": "again"}
    again["legs"][0] = {**legs[1], "amountMinor": 10_000}
    assert counts(await imported(world.tenant, [again])) == (1, 0, 0)
    jobs = (await world.tenant.get("/jobs", params={"kind": "learn"})).json()["data"]
    assert jobs[0]["result"] == {"matches": 0, "proposals": 0}


async def test_what_nobody_reviewed_teaches_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("payrec.services.learning", "payrec.domain.matching.learning"):
        monkeypatch.setattr(f"{place}.DECISIONS_MIN", 5)
    for number in range(6):
        await pair(world, number, f"10{number}.00", counterpartyName="Bolt GmbH")
    records = [one(f"INV-{n}", f"TX-{n}", 10_000 + n * 100, reviewed=False) for n in range(6)]
    assert counts(await imported(world.tenant, records)) == (6, 0, 0)
    assert (await world.tenant.get("/jobs", params={"kind": "learn"})).json()["data"] == []
    await world.run()
    assert (await world.tenant.get(CALIBRATION)).json()["version"] == 0
    assert (await world.tenant.get("/matching/aliases")).json()["data"] == []


async def test_who_learns_at_the_same_time_adds_one_version_and_a_reset_is_not_lost(world: World) -> None:
    database = world.service.factory.context.database
    learned = {"created_at": datetime.now(UTC), "reviewed": 7, "corrections": {"amount": [1]}}

    async def add(version: int) -> bool:
        async with database.tenant(world.scope) as connection:
            return await CalibrationStore(connection).add({**learned, "version": version})

    assert sorted(await asyncio.gather(*(add(1) for _ in range(5)))) == [False] * 4 + [True]
    reset, _ = await asyncio.gather(world.tenant.request("DELETE", CALIBRATION), add(2))
    assert reset.status_code == 204, reset.text
    rows = await world.sql("SELECT version, since IS NOT NULL AS is_reset FROM calibration ORDER BY version")
    assert [row["version"] for row in rows] == list(range(1, len(rows) + 1))
    assert sum(row["is_reset"] for row in rows) == 1
