"""Endpoints whose address is changed: what the one before answers, or failed at, is not held against the new one."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest
from aiohttp import web

from support.outgoing import Place, here, idle, telling
from support.receivers import Received, receiving
from support.service import Service
from support.wire import until

__all__ = ["here", "idle"]

pytestmark = pytest.mark.anyio

RESOURCES = [UUID(int=n) for n in (1, 2)]


async def moved(place: Place, webhook_id: str, url: str) -> None:
    changed = await place.tenant.request("PATCH", f"/webhooks/{webhook_id}", json={"url": url})
    assert (changed.status_code, changed.json()["failingSince"]) == (200, None)


async def test_an_address_that_is_gone_disables_no_endpoint_that_has_left_it(
    idle: tuple[Service, str], here: Place
) -> None:
    came, go_on = asyncio.Event(), asyncio.Event()

    async def gone(_came: Received) -> web.Response:
        came.set()
        await go_on.wait()
        return web.Response(status=410)

    async with receiving(gone) as old, receiving() as new, telling(idle[0]):
        webhook = await here.hook(old.url)
        await here.happen(RESOURCES[0], RESOURCES[0], RESOURCES[1])
        await came.wait()
        await moved(here, webhook, new.url)
        go_on.set()
        arrived = await here.settled(webhook, 3)
        assert sorted(new.ids()) == sorted(delivery["id"] for delivery in arrived)
        found = await here.webhook(webhook)
        assert (found["status"], found["disabledReason"], found["failingSince"]) == ("active", None, None)


async def test_an_address_has_five_days_of_its_own(idle: tuple[Service, str], here: Place) -> None:
    async with receiving() as old, receiving(lambda _: web.Response(status=500)) as new:
        webhook = await here.hook(old.url)
        await here.sql("UPDATE webhook SET failing_since = now() - interval '6 days', failures = 30")
        await moved(here, webhook, new.url)
        async with telling(idle[0]):
            await here.happen(RESOURCES[0])
            await here.settled(webhook, 1, status="pending")

            async def failing() -> bool | None:
                return (await here.webhook(webhook))["failingSince"] is not None or None

            await until(failing)
            assert (await here.webhook(webhook))["status"] == "active"
