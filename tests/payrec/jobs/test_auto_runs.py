"""Matching as transactions arrive: nothing that was stored waits for somebody to ask, and nothing runs unasked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from payrec.services.matching import MatchingService
from support.matching_world import World, matching_world
from support.service import Service, Tenant
from support.wire import until

pytestmark = pytest.mark.anyio

SETTINGS = {"matching": {"autoRun": True, "autoAccept": True}}


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        await made.clean()
        answer = await made.tenant.request("PATCH", f"/tenants/{made.tenant.id}/settings", json=SETTINGS)
        assert answer.status_code == 200, answer.text
        yield made
        await quiet(made)


async def runs(world: World) -> list[dict[str, Any]]:
    return list((await world.tenant.get("/jobs", params={"kind": "match", "sort": "createdAt"})).json()["data"])


async def quiet(world: World) -> list[dict[str, Any]]:
    """Return the runs when none waits or runs any more."""

    async def ended() -> list[dict[str, Any]] | None:
        found = await runs(world)
        return found if all(run["status"] == "succeeded" for run in found) else None

    return await until(ended)


async def test_what_arrives_is_matched_and_accepted_without_a_hand(world: World) -> None:
    await world.expect("100.00", reference="INV-2026-001")
    await world.receive("100.00", remittance="Rechnung INV-2026-001")

    async def accepted() -> bool | None:
        found = (await world.tenant.get("/matches", params={"status": "accepted"})).json()["data"]
        return True if found else None

    await until(accepted)
    assert await world.bystander_decisions() == 0


async def test_an_import_starts_a_run_and_the_same_file_again_does_not(world: World) -> None:
    await world.expect("100.00", reference="INV-2026-001")
    await quiet(world)
    record = {
        "externalId": "1",
        "direction": "credit",
        "amount": "100.00",
        "currency": "EUR",
        "bookingDate": "2026-03-10",
        "remittance": "INV-2026-001",
    }
    before = len(await quiet(world))
    upload = "/incoming-transactions/upload"
    assert (await world.tenant.post(upload, [record])).status_code == 201
    after = len(await quiet(world))
    assert after > before
    assert (await world.tenant.post(upload, [record])).status_code == 200
    assert (await world.tenant.post(upload, [record, record])).status_code == 201
    assert len(await quiet(world)) == after


async def test_many_at_once_need_few_runs_and_none_is_left_out(world: World) -> None:
    for number in range(12):
        await world.expect("100.00", reference=f"INV-2026-{number:03}", externalId=f"E-{number}")
    await asyncio.gather(
        *(world.receive("100.00", remittance=f"INV-2026-{number:03}", externalId=f"I-{number}") for number in range(12))
    )
    found = await quiet(world)
    assert len(found) < 12
    matches = (await world.tenant.get("/matches", params={"status": "accepted", "limit": 50})).json()["data"]
    assert len(matches) == 12


async def test_what_arrives_after_a_run_has_read_is_matched_by_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = MatchingService._read
    arrived = asyncio.Event()

    async def read_and_then_receive(service: MatchingService, *given: Any) -> Any:
        found = await reads(service, *given)
        if not arrived.is_set():
            arrived.set()
            await world.receive("100.00", remittance="INV-2026-001", externalId="late")
        return found

    monkeypatch.setattr(MatchingService, "_read", read_and_then_receive)
    await world.expect("100.00", reference="INV-2026-001")
    await until(lambda: _true(arrived.is_set()))
    found = await quiet(world)
    assert len(found) == 2
    matches = (await world.tenant.get("/matches", params={"status": "accepted"})).json()["data"]
    assert len(matches) == 1


async def test_who_has_not_switched_it_on_has_no_run(world: World) -> None:
    await world.tenant.request("PATCH", f"/tenants/{world.tenant.id}/settings", json={"matching": {"autoRun": False}})
    await world.expect("100.00", reference="INV-2026-001")
    await world.receive("100.00", remittance="INV-2026-001")
    assert await runs(world) == []


async def _true(value: bool) -> bool | None:  # noqa: FBT001 - what a probe gives
    return True if value else None
