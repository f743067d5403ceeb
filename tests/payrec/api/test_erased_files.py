"""Files that cannot be changed: an erasure tells of each from which something that it finds has come."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from support.erasures import NAME, OTHER, erased, run
from support.match_imports import imported, one, pair
from support.matching_world import World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


def kept(count: int) -> dict[str, object]:
    day = (datetime.now(UTC).date() + timedelta(days=401)).isoformat()
    return {"resource": "imports", "why": "file", "count": count, "until": day}


async def test_a_file_of_items_is_told_of_when_the_records_of_its_time_are_over(world: World) -> None:
    for number, name in enumerate((NAME, OTHER)):
        item = {"externalId": f"I-{number}", "direction": "credit", "currency": "EUR", "amount": "3.00"}
        content = json.dumps({**item, "counterpartyName": name}).encode()
        headers = {"Content-Type": "application/x-ndjson"}
        answer = await world.tenant.post("/expected-transactions/upload", content=content, headers=headers)
        assert answer.status_code == 201, answer.text
    # As where ``retention.auditDays`` are fewer than ``retention.rawLinesDays``.
    await run(world, "DELETE FROM audit_record")
    assert (await erased(world, counterpartyName=NAME))["kept"] == [kept(1)]


async def test_a_file_of_decisions_is_told_of_when_it_says_who_has_decided(world: World) -> None:
    for number, name in enumerate((NAME, OTHER)):
        await pair(world, number)
        told = await imported(world.tenant, [one(f"INV-{number}", f"TX-{number}", decidedBy=name)])
        assert told["counts"]["accepted"] == 1, told
    made = await erased(world, counterpartyName=NAME)
    assert made["kept"] == [kept(1)]
    assert {"resource": "matches", "count": 1} in made["erased"]
