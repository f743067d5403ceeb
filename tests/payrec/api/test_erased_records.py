"""Records of the audit log whose content was erased: what says that it was, so that nobody takes more unnoticed."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from support.erasures import NAME, OTHER, counts, erased, rows, run, verified
from support.matching_world import World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

EMPTY = """
    WITH less AS (
        UPDATE audit_commitment k SET salt = NULL FROM audit_record r
        WHERE r.resource_id = %(id)s AND (k.change_id, k.ordinal) = (r.change_id, r.ordinal)
    )
    UPDATE audit_record SET reason = NULL, before = NULL, after = NULL WHERE resource_id = %(id)s
"""
"""What an erasure does to the records of a resource, and whoever may write the tables."""


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def seal(world: World) -> None:
    await world.service.factory.upkeep.create_audit_sealer().seal(world.scope, "test")


async def broken(world: World) -> list[str]:
    return [one.kind for one in (await verified(world)).breaks]


async def test_a_list_of_erasures_that_was_changed_hides_no_record_that_was_emptied(world: World) -> None:
    kept = await world.receive("7.00", counterpartyName="Bolt")
    await world.receive(counterpartyName=NAME)
    await seal(world)
    # Nothing has proved what this one says yet, so nothing is missed of it.
    await world.receive("9.00", counterpartyName=NAME)
    made = await erased(world, counterpartyName=NAME)
    assert counts(made)["audit-log"] == 2
    [told] = (await world.tenant.get("/audit-log", params={"type": "audit_log.redacted"})).json()["data"]
    assert told["after"] == {"count": 1}
    await seal(world)
    assert ((await verified(world)).erased_count, await broken(world)) == (1, [])

    async with world.service.factory.context.database.tenant(world.scope) as connection:
        await connection.execute(EMPTY.encode(), {"id": kept})
    assert await broken(world) == ["record_redacted"]
    await run(world, """UPDATE erasure SET erased = '[{"resource": "audit-log", "count": 9}]'""")
    assert await broken(world) == ["record_redacted"]
    # Nor does it help to empty what the erasure has said, or to say more.
    async with world.service.factory.context.database.tenant(world.scope) as connection:
        await connection.execute(EMPTY.encode(), {"id": made["id"]})
    assert await broken(world) == ["record_redacted"]
    await run(world, """UPDATE audit_record SET after = '{"count": 9}' WHERE action = 'audit_log.redacted'""")
    assert await broken(world) == ["record_changed"]


async def test_who_is_named_in_the_reason_of_an_erasure_is_erased_there(world: World) -> None:
    for name in (NAME, OTHER):
        await world.receive(counterpartyName=name)
    await seal(world)
    body = {"counterpartyName": NAME, "reason": f"{OTHER} has asked for it"}
    assert (await world.tenant.post("/privacy/erasures", body)).status_code == 201
    await seal(world)
    await erased(world, counterpartyName=OTHER)
    await seal(world)
    found = await verified(world)
    # Her transaction's, the other one's, and that of the erasure that names the other one.
    assert (found.holds, found.erased_count) == (True, 3)


@pytest.mark.parametrize("action", ["audit_log.dropped", "audit_log.redacted", "privacy.erased"])
@pytest.mark.parametrize(
    "after", ['"x"', "{}", '{"before": "infinity", "count": "x", "erased": 5}', '{"before": 7, "erased": [[], {}]}']
)
async def test_whatever_is_said_of_removals_is_a_break_and_no_more(world: World, action: str, after: str) -> None:
    await world.receive(counterpartyName="Bolt")
    await seal(world)
    [one] = await rows(world, "SELECT change_id FROM audit_record")
    await run(
        world, "UPDATE audit_record SET action = %s, after = %s WHERE change_id = %s", action, after, one["change_id"]
    )
    assert await broken(world) == ["record_changed"]
