"""Whose tables somebody holds, as who gives them new indexes, keeps no other tenant waiting."""

from __future__ import annotations

import pytest

from payrec.jobs import outgoing
from payrec.jobs.outgoing import Outgoing
from support.clock_tasks import clock_tasks
from support.matching_world import World
from support.places import held
from support.service import Tenant, superuser_url
from support.tenant_data import scope_of_tenant
from support.wire import rows, until

pytestmark = pytest.mark.anyio

LATE = {
    "amountMinor": 500, "currency": "EUR", "direction": "credit", "dueDate": "2026-01-02", "reference": "INV-2026-002",
}  # fmt: skip
NOTED = "SELECT transaction_id FROM overdue_notice"
SEALED = "SELECT id FROM event WHERE type = 'expected_transaction.created'"


@pytest.fixture
async def late(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Return the world with an item of either tenant that is overdue; nobody in a hurry waits for long."""
    for tenant in (world.tenant, world.bystander):
        assert (await tenant.post("/expected-transactions", LATE)).status_code == 201
    monkeypatch.setattr("payrec.storage.database.LOCK_SECONDS_MAX", 0.2)
    return world


async def test_the_clock_goes_on_with_the_next_one(late: World) -> None:
    factory = late.service.factory
    announce = clock_tasks(factory)["announce_overdue"]
    url = superuser_url(factory.context.config)
    for waiting, other in ((late.tenant, late.bystander), (late.bystander, late.tenant)):
        async with held(url, await scope_of_tenant(factory, waiting), "overdue_notice"):
            await announce()
        assert len(await rows(late.service, other, NOTED)) == 1, "whichever of them comes first"
    assert len(await rows(late.service, late.bystander, NOTED)) == 1, "what was not told is told the next time"


async def test_events_of_others_get_their_places(late: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing, "SEALINGS_AT_ONCE", 1)
    factory = late.service.factory

    async def sealed(tenant: Tenant) -> None:
        async def is_there() -> bool | None:
            return len(await rows(late.service, tenant, SEALED)) == 1 or None

        await until(is_there)

    url, scope = superuser_url(factory.context.config), await scope_of_tenant(factory, late.tenant)
    async with held(url, scope, "event") as holder, Outgoing(factory).running():
        await sealed(late.bystander)
        await holder.rollback()
        await sealed(late.tenant)
