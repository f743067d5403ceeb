"""What arrives while a run is in the way has a run of its own, however that one ends and whatever it looks at."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from payrec.services.matching import MatchingService
from support.attempts import LAPSE, Pause, drain
from support.matching_world import World

pytestmark = pytest.mark.anyio

NARROW = ({"dryRun": True}, {"incomingFilter": {"currency": "USD"}}, {"expectedFilter": {"currency": "USD"}})
"""Runs that do not match everything that is open."""


@pytest.fixture
async def world(payable: World) -> AsyncIterator[World]:
    """Return the world with something to match, where each arrival starts a run; there is none yet."""
    settings = f"/tenants/{payable.tenant.id}/settings"
    answer = await payable.tenant.request("PATCH", settings, json={"matching": {"autoRun": True}})
    assert answer.status_code == 200, answer.text
    yield payable
    await payable.tenant.request("PATCH", settings, json={"matching": {"autoRun": False}})


async def run_of(world: World, **params: Any) -> str:
    """Queue a run instead of those that there are."""
    await world.sql("DELETE FROM job")
    answer = await world.tenant.post("/jobs", {"kind": "match", "params": params})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


async def statuses(world: World) -> list[str]:
    """Return how the runs have ended, in their order."""
    return [row["status"] for row in await world.sql("SELECT status FROM job ORDER BY id")]


@pytest.mark.parametrize("params", NARROW)
async def test_a_run_that_waits_and_will_not_match_what_arrives_is_followed_by_one_that_does(
    world: World, params: dict[str, Any]
) -> None:
    job_id = await run_of(world, **params)
    await world.receive("7.00", remittance="INV-2026-002")
    await drain(world)
    assert (await world.job(job_id))["status"] == "succeeded"
    assert await statuses(world) == ["succeeded", "succeeded"]


async def test_a_run_that_matches_what_arrives_is_enough(world: World) -> None:
    await run_of(world)
    await world.receive("7.00", remittance="INV-2026-002")
    await drain(world)
    assert await statuses(world) == ["succeeded"]


async def test_the_worker_of_a_narrow_run_dies_and_the_run_is_followed_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await run_of(world, dryRun=True)
    pause = Pause(monkeypatch, MatchingService, "_read")
    dying = drain(world)
    await pause.reached.wait()
    await world.receive("7.00", remittance="INV-2026-002")
    await world.sql(LAPSE)
    await drain(world)
    pause.go_on.set()
    await dying
    assert (await world.job(job_id))["attempts"] == 2
    assert await statuses(world) == ["succeeded", "succeeded"]


@pytest.mark.parametrize("way", ["cancelled while it waits", "cancelled while it runs", "given up"])
async def test_a_run_that_does_not_succeed_is_followed_by_what_arrived_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    job_id = await run_of(world)
    if way == "cancelled while it waits":
        await world.receive("7.00", remittance="INV-2026-002")
        await world.tenant.post(f"/jobs/{job_id}/cancel")
    else:
        pause = Pause(monkeypatch, MatchingService, "_read")
        working = drain(world)
        await pause.reached.wait()
        await world.receive("7.00", remittance="INV-2026-002")
        if way == "given up":
            await world.sql("UPDATE job SET attempts = 5")
            await world.sql(LAPSE)
            await drain(world)
        else:
            await world.tenant.post(f"/jobs/{job_id}/cancel")
        pause.go_on.set()
        await working
    ended = "failed" if way == "given up" else "cancelled"
    assert (await world.job(job_id))["status"] == ended
    await drain(world)
    assert await statuses(world) == [ended, "succeeded"]
