"""What kills workers and cuts connections costs time: every event still arrives, each resource's in its order."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web

from support.outgoing import Place, arrived, here, hurry, idle, in_feed, pause, shuffled, telling
from support.places import look
from support.receivers import Received, receiving
from support.service import Service
from support.wire import until
from support.worker_process import worker_process

__all__ = ["here", "idle"]

pytestmark = pytest.mark.anyio

RESOURCES = [UUID(int=n) for n in range(1, 9)]
STEPS = [
    "payrec.storage.sealing.SealingStore.move",
    "payrec.storage.sealing.SealingStore.wake",
    "payrec.storage.wakeups.WakeUpStore.sealed",
    "payrec.storage.webhooks.WebhookStore.claim",
    "payrec.storage.webhook_deliveries.WebhookDeliveryStore.blocked",
    "payrec.storage.webhook_deliveries.WebhookDeliveryStore.new",
    "payrec.storage.webhook_deliveries.WebhookDeliveryStore.store",
    "payrec.storage.webhooks.WebhookStore.settle",
    "payrec.storage.webhooks.WebhookStore.give_back",
    "payrec.services.webhook_sender.WebhookSender.send",
]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_death_at_any_step_loses_nothing(
    idle: tuple[Service, str],
    here: Place,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    after: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    hurry(monkeypatch)
    owner, _, name = step.rpartition(".")
    module, _, kind = owner.rpartition(".")
    cls = getattr(__import__(module, fromlist=[kind]), kind)
    real, deaths = getattr(cls, name), iter([True])

    async def dying(*given: Any, **more: Any) -> Any:
        is_last = next(deaths, False)
        if is_last and not after:
            raise KeyError("as if the process had died")
        found = await real(*given, **more)
        if is_last:
            raise KeyError("as if the process had died")
        return found

    monkeypatch.setattr(cls, name, dying)
    async with receiving() as receiver, telling(idle[0]):
        webhook = await here.hook(receiver.url)
        await here.happen(*shuffled(RESOURCES[:3], 3, seed=2))
        await here.settled(webhook, 9)
    assert next(deaths, None) is None
    assert arrived(receiver.received, set(range(len(receiver.received)))) == await in_feed(here)
    assert await here.sql("SELECT 1 FROM outbox") == []


async def test_a_killed_worker_s_endpoints_are_taken_over(idle: tuple[Service, str], here: Place) -> None:
    service = idle[0]
    stuck = asyncio.Event()

    async def answer(_came: Received) -> web.Response:
        await stuck.wait()
        return web.Response(status=204)

    async with receiving(answer) as receiver:
        webhook = await here.hook(receiver.url)
        await here.happen(*RESOURCES)
        async with worker_process(service.factory.context.config, lease=1.5) as worker:
            await receiver.got(len(RESOURCES))
            worker.kill()
            await worker.wait()
        stuck.set()
        # The dead one's lease would last for half a minute.
        await here.sql("UPDATE webhook SET lease_until = now()")
        await here.look_now()
        async with worker_process(service.factory.context.config, lease=1.5):
            await here.settled(webhook, len(RESOURCES))
    assert Counter(receiver.ids()) == dict.fromkeys(itertools.chain(*(await in_feed(here)).values()), 2)


async def test_two_workers_never_send_to_an_endpoint_at_the_same_time(idle: tuple[Service, str], here: Place) -> None:
    resource = RESOURCES[0]
    async with receiving() as receiver, telling(idle[0]), telling(idle[0]):
        webhook = await here.hook(receiver.url)
        for _ in range(15):
            await here.happen(*[resource] * 4)
            await pause(0.02)
        await here.settled(webhook, 60)
    assert receiver.most_at_once == 1
    assert receiver.ids() == (await in_feed(here))[str(resource)]


async def test_who_has_lost_the_lease_stores_nothing_and_stops(
    idle: tuple[Service, str], here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    held, go_on = asyncio.Event(), asyncio.Event()

    async def answer(_came: Received) -> web.Response:
        held.set()
        await go_on.wait()
        return web.Response(status=204)

    async with receiving(answer) as receiver, telling(idle[0]):
        webhook = await here.hook(receiver.url)
        await here.happen(RESOURCES[0])
        await held.wait()
        # As another worker would, that finds the lease over.
        stolen = "UPDATE webhook SET attempt = attempt + 1, lease_until = now() + interval '3 s' RETURNING attempt"
        await here.sql(stolen)
        go_on.set()
        await pause(1.0)
        assert await here.deliveries(webhook) == []
        await here.sql("UPDATE webhook SET lease_until = now()")
        await here.look_now()
        await here.settled(webhook, 1)
    assert len(receiver.received) == 2


async def test_a_database_that_restarts_costs_time_and_nothing_else(
    idle: tuple[Service, str], here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    service, superuser = idle
    is_over = False

    async def restart() -> None:
        query = (
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        while not is_over:
            await look(superuser, query)
            await asyncio.sleep(0.3)

    async with receiving() as receiver:
        webhook = await here.hook(receiver.url)
        await here.happen(*shuffled(RESOURCES, 20, seed=3))
        restarting = asyncio.create_task(restart())
        async with telling(service):
            await receiver.got(40)
            await pause(1.5)
            is_over = True
            await restarting

            async def all_there() -> bool | None:
                try:
                    [row] = await here.sql("SELECT count(*) AS n FROM webhook_delivery WHERE status = 'succeeded'")
                except Exception:  # noqa: BLE001 - connections of the test's own were cut as well
                    return None
                return row["n"] == len(RESOURCES) * 20 or None

            await until(all_there, seconds=60)
    assert len(await here.deliveries(webhook)) == len(RESOURCES) * 20
    assert arrived(receiver.received, set(range(len(receiver.received)))) == await in_feed(here)
