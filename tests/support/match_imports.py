"""Files of decisions that were made elsewhere."""

from __future__ import annotations

import json
from typing import Any

import httpx2

from support.matching_world import World
from support.service import Tenant
from support.wire import until

PATH = "/matches/import"
DECIDED: dict[str, Any] = {"decidedAt": "2026-03-12T08:00:00Z", "decidedBy": "ada", "reviewed": True}


def one(item: str, line: str | None, minor: int | None = 10_000, **more: Any) -> dict[str, Any]:
    """Return a decision about one item and one line."""
    said = {"expectedExternalId": item, "incomingExternalId": line, "amountMinor": minor}
    return {**{name: value for name, value in said.items() if value is not None}, **DECIDED, **more}


async def pair(world: World, number: int, amount: str = "100.00", **fields: Any) -> None:
    """Store an item and the line that pays it."""
    await world.expect(amount, externalId=f"INV-{number}", **fields)
    await world.receive(amount, externalId=f"TX-{number}", **fields)


async def ask(tenant: Tenant, records: list[dict[str, Any]] | str, **options: str) -> httpx2.Response:
    """Upload records."""
    text = records if isinstance(records, str) else "".join(json.dumps(record) + "\n" for record in records)
    return await tenant.post(PATH, files={"file": ("decisions", text.encode())}, data=options)


async def imported(tenant: Tenant, records: list[dict[str, Any]] | str, **options: str) -> dict[str, Any]:
    """Import, and wait until all was learned of it."""
    answer = await ask(tenant, records, **options)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    await until(lambda: learned_of(tenant))
    return found


async def learned_of(tenant: Tenant) -> bool | None:
    """Tell whether nobody has to learn any more."""
    jobs = (await tenant.get("/jobs", params={"kind": "learn", "limit": 200})).json()["data"]
    assert {job["status"] for job in jobs} <= {"queued", "running", "succeeded"}, jobs
    return all(job["status"] == "succeeded" for job in jobs) or None


def counts(told: dict[str, Any]) -> tuple[int, int, int]:
    """Return how many records were accepted, known, and rejected."""
    assert told["counts"]["records"] == sum(told["counts"][n] for n in ("accepted", "duplicates", "rejected"))
    return told["counts"]["accepted"], told["counts"]["duplicates"], told["counts"]["rejected"]
