"""Events are told of: each one, each resource's in its order, whatever receivers, workers and the database do."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from aiohttp import web

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.principal import Principal
from payrec.storage.sealing import SealingStore
from support.outgoing import Place, arrived, here, hurry, idle, in_feed, new_place, pause, shuffled, telling
from support.places import schema_of
from support.receivers import Received, receiving
from support.service import Service
from support.wire import until

__all__ = ["here", "idle"]

pytestmark = pytest.mark.anyio

RESOURCES = [UUID(int=n) for n in range(1, 9)]


def flaky(accepted: set[int], *, seed: int, bad: float = 0.3) -> Any:
    """Return answers of a receiver that often fails; ``accepted`` gets the places of what it took."""
    chance, places = random.Random(seed), itertools.count()  # noqa: S311 - the same each time, no secret

    async def answer(_came: Received) -> web.Response:
        here_ = next(places)
        await asyncio.sleep(chance.random() * 0.005)
        if chance.random() < bad:
            return web.Response(status=500)
        accepted.add(here_)
        return web.Response(status=204)

    return answer


async def test_each_event_arrives_in_the_order_of_its_resource_whatever_fails(
    idle: tuple[Service, str], here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    monkeypatch.setattr("payrec.domain.webhooks.DELAYS", (timedelta(milliseconds=30),) * 60)
    accepted: set[int] = set()
    other = await new_place(idle[0])
    async with receiving(flaky(accepted, seed=1)) as receiver, receiving() as theirs, telling(idle[0]) as worker:
        webhook = await here.hook(receiver.url)
        elsewhere = await other.hook(theirs.url)
        await here.happen(*shuffled(RESOURCES, 15, seed=1))
        await other.happen(RESOURCES[0])
        await here.settled(webhook, len(RESOURCES) * 15)
        await other.settled(elsewhere, 1)
    assert arrived(receiver.received, accepted) == await in_feed(here)
    assert {came.resource for came in theirs.received} == {str(RESOURCES[0])}
    assert theirs.ids() == (await in_feed(other))[str(RESOURCES[0])]
    count = worker.context.metrics.registry.get_sample_value
    outcomes = {o: count("payrec_webhook_deliveries_total", {"outcome": o}) for o in ("succeeded", "status_5xx")}
    assert outcomes == {"succeeded": len(accepted) + 1, "status_5xx": len(receiver.received) - len(accepted)}
    assert count("payrec_webhook_lag_seconds_count") == count("payrec_events_sealed_total") == len(RESOURCES) * 15 + 1


async def test_a_retry_holds_back_its_resource_alone(
    idle: tuple[Service, str], here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = RESOURCES[:2]
    monkeypatch.setattr("payrec.domain.webhooks.DELAYS", (timedelta(hours=1),) * 9)
    is_bad = True

    def answer(came: Received) -> web.Response:
        return web.Response(status=500 if is_bad and came.resource == str(bad) else 204)

    async with receiving(answer) as receiver, telling(idle[0]):
        webhook = await here.hook(receiver.url)
        await here.happen(bad, good, bad, good, bad)
        await here.settled(webhook, 2)
        waiting = await here.settled(webhook, 3, status="pending")
        assert Counter(came.resource for came in receiver.received) == {str(good): 2, str(bad): 1}
        assert [(d["attempts"], d["error"], d["responseStatus"]) for d in waiting] == [
            (1, "status_5xx", 500), (0, None, None), (0, None, None)
        ]  # fmt: skip
        first = waiting[0]
        wait = datetime.fromisoformat(first["nextAttemptAt"]) - datetime.fromisoformat(first["attemptedAt"])
        assert timedelta(minutes=59) < wait < timedelta(minutes=67)
        is_bad = False
        # Its time comes earlier than it was meant to: now all three go, one after the other.
        await here.sql("UPDATE webhook_delivery SET next_attempt_at = now() WHERE status = 'pending'")
        await here.look_now()
        await here.settled(webhook, 5)
    assert [c.id for c in receiver.received if c.resource == str(bad)][1:] == (await in_feed(here))[str(bad)]


async def test_a_receiver_that_hangs_keeps_nobody_else_waiting(idle: tuple[Service, str], here: Place) -> None:
    async def hang(_came: Received) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    async with receiving(hang) as slow, receiving() as quick, telling(idle[0]):
        await here.hook(slow.url)
        webhook = await here.hook(quick.url)
        await here.happen(*(uuid4() for _ in range(100)))
        await here.settled(webhook, 100)
        assert 1 <= slow.most_at_once <= 32


async def test_retry_after_is_honoured(idle: tuple[Service, str], here: Place) -> None:
    busy = web.Response(status=429, headers={"Retry-After": "7200"})
    async with receiving(lambda _: busy) as receiver, telling(idle[0]):
        webhook = await here.hook(receiver.url)
        await here.happen(RESOURCES[0])
        [waiting] = await here.settled(webhook, 1, status="pending")
    wait = datetime.fromisoformat(waiting["nextAttemptAt"]) - datetime.fromisoformat(waiting["attemptedAt"])
    assert timedelta(seconds=7190) < wait < timedelta(seconds=7210)
    assert (waiting["responseStatus"], waiting["error"]) == (429, "status_4xx")


async def test_gone_disables_and_others_are_told(idle: tuple[Service, str], here: Place) -> None:
    async with receiving(lambda _: web.Response(status=410)) as gone, receiving() as watching, telling(idle[0]):
        webhook = await here.hook(gone.url)
        await here.hook(watching.url, "webhook.disabled")
        await here.happen(RESOURCES[0], RESOURCES[0])
        [told] = await watching.got(1)
        assert told.message["data"] == {"resourceType": "webhook", "resourceId": webhook, "reason": "gone"}
        found = await here.webhook(webhook)
        assert (found["status"], found["disabledReason"], found["version"]) == ("disabled", "gone", 2)
        assert await here.deliveries(webhook, status="pending") == []
        await here.happen(RESOURCES[1])
        await pause(0.5)
        assert len(gone.received) == 1
    query = "SELECT actor, reason FROM audit_record WHERE action = 'webhook.disabled'"
    assert await here.sql(query) == [{"actor": "webhook-delivery", "reason": "gone"}]


async def test_five_days_of_failures_disable(
    idle: tuple[Service, str], here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    async with receiving(lambda _: web.Response(status=500)) as receiver:
        webhook = await here.hook(receiver.url)
        await here.sql("UPDATE webhook SET failing_since = now() - interval '4 days 23 hours', failures = 3")
        async with telling(idle[0]):
            await here.happen(RESOURCES[0])
            await receiver.got(2)
            assert (await here.webhook(webhook))["status"] == "active"
        await here.sql("UPDATE webhook SET failing_since = now() - interval '5 days 1 hour'")
        async with telling(idle[0]):

            async def disabled() -> bool | None:
                return (await here.webhook(webhook))["disabledReason"] == "failing" or None

            await until(disabled)
    [failed] = await here.deliveries(webhook)
    assert (failed["status"], failed["error"], failed["nextAttemptAt"]) == ("failed", "webhook_disabled", None)


async def test_one_that_is_away_is_left_alone_and_gets_everything_when_it_is_back(
    idle: tuple[Service, str], here: Place
) -> None:
    is_away = True
    resources = [uuid4() for _ in range(300)]
    async with receiving(lambda _: web.Response(status=503 if is_away else 204)) as receiver, telling(idle[0]):
        webhook = await here.hook(receiver.url)
        await here.happen(*resources)

        async def paused() -> bool | None:
            return (await here.sql("SELECT 1 AS paused FROM webhook WHERE paused_until > now()")) != [] or None

        await until(paused)
        await pause(0.5)
        # A window of attempts was under way when it was noticed; the rest of the 300 was not tried at all.
        assert 10 <= len(receiver.received) <= 64
        is_away = False
        await here.sql("UPDATE webhook SET paused_until = now()")

        async def all_there() -> bool | None:
            await here.sql("UPDATE webhook_delivery SET next_attempt_at = now() WHERE status = 'pending'")
            await here.look_now()
            [row] = await here.sql("SELECT count(*) AS n FROM webhook_delivery WHERE status = 'succeeded'")
            return row["n"] == len(resources) or None

        await until(all_there, seconds=60)
    assert (await here.webhook(webhook))["failingSince"] is None
    assert {came.resource for came in receiver.received} == {str(r) for r in resources}


async def test_what_had_no_place_in_the_feed_yet_is_told_to_a_new_endpoint(
    idle: tuple[Service, str], here: Place
) -> None:
    """Who makes an endpoint and reads everything after that misses nothing, at the cost of hearing of a little more."""
    async with receiving() as receiver:
        await here.happen(RESOURCES[0])
        webhook = await here.hook(receiver.url)
        async with telling(idle[0]):
            await here.settled(webhook, 1)
            later = await here.hook(receiver.url + "/later")
            await here.happen(RESOURCES[1])
            await here.settled(webhook, 2)
            await here.settled(later, 1)


async def test_what_was_missed_is_delivered_again_on_demand(idle: tuple[Service, str], here: Place) -> None:
    async with receiving() as receiver, telling(idle[0]):
        webhook = await here.hook(receiver.url)
        path = f"/webhooks/{webhook}"
        await here.happen(RESOURCES[0])
        [first] = await here.settled(webhook, 1)
        await here.tenant.request("PATCH", path, json={"status": "disabled"})
        await here.happen(RESOURCES[1], RESOURCES[2])

        async def sealed() -> bool | None:
            return len(await in_feed(here)) == 3 or None

        await until(sealed)
        await here.tenant.request("PATCH", path, json={"status": "active"})
        await here.happen(RESOURCES[3])
        await here.settled(webhook, 2)
        assert [came.resource for came in receiver.received] == [str(RESOURCES[0]), str(RESOURCES[3])]
        begun = await here.tenant.post(f"{path}/redeliver", {"since": "2026-01-01T00:00:00Z"})
        assert (begun.status_code, begun.json()) == (202, {"count": 2, "hasMore": False})
        await here.settled(webhook, 4)
        assert (await here.tenant.post(f"{path}/redeliver", {"since": "2026-01-01T00:00:00Z"})).json()["count"] == 0
        named = await here.tenant.post(f"{path}/redeliver", {"eventIds": [first["id"]]})
        assert named.json()["count"] == 1
        await receiver.got(5)
        await here.settled(webhook, 4)
    assert receiver.ids()[-1] == first["id"]
    assert Counter(came.resource for came in receiver.received)[str(RESOURCES[0])] == 2


async def test_the_feed_has_the_changes_of_a_resource_in_the_order_in_which_they_were_made(
    idle: tuple[Service, str], here: Place
) -> None:
    """Changes wait for each other at the row, commit late, and are sealed meanwhile in small batches."""
    made = []
    for _ in range(3):
        body = {"direction": "credit", "currency": "EUR", "amount": "10.00"}
        made.append(UUID((await here.tenant.post("/expected-transactions", body)).json()["id"]))
    chance = random.Random(4)  # noqa: S311 - the same each time, no secret
    work = idle[0].factory.work
    caller = Caller(principal=Principal(kind="system", name="test"), request_id="test", scope=here.scope)

    async def change(resource: UUID) -> None:
        for _ in range(12):
            async with work.tenant(caller, resumed=True) as unit:
                query = "UPDATE expected_transaction SET revision = revision + 1 WHERE id = %s RETURNING revision"
                row = await (await unit.connection.execute(query, (resource,))).fetchone()
                assert row is not None
                await asyncio.sleep(chance.random() * 0.004)
                data = {"revision": row["revision"]}
                unit.record(Record(action="incoming_transaction.updated", resource_id=resource, data=data))

    async with telling(idle[0]), telling(idle[0]):
        await asyncio.gather(*(change(resource) for resource in made for _ in range(3)))

        async def all_sealed() -> bool | None:
            return await here.sql("SELECT 1 AS n FROM outbox") == [] or None

        await until(all_sealed)
    for resource in made:
        query = (
            "SELECT (data->>'revision')::int AS r FROM event WHERE resource_id = %s AND data ? 'revision'"
            " ORDER BY position"
        )
        assert [row["r"] for row in await here.sql(query, resource)] == list(range(2, 38))
    [row] = await here.sql("SELECT count(*) AS n, max(position) AS last FROM event")
    assert row["n"] == row["last"] == 3 + 3 * 36


class Held:
    """A receiver's answer that waits for something else to happen first, for so long as no attempt fails for it."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.was_in_vain = False

    async def answer(self, _came: Received) -> web.Response:
        try:
            async with asyncio.timeout(10):
                await self.released.wait()
        except TimeoutError:
            self.was_in_vain = True
        return web.Response(status=204)


async def test_an_environment_with_much_to_tell_keeps_no_other_waiting(
    idle: tuple[Service, str], here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await new_place(idle[0])
    await here.happen(*RESOURCES * 3)
    await other.happen(RESOURCES[0])
    for module, name, number in (
        ("services.sealing", "EVENTS_SEALED_AT_ONCE", 2),
        ("services.sealing", "SEALINGS_PER_TURN", 2),
        ("jobs.outgoing", "SEALINGS_AT_ONCE", 1),
    ):
        monkeypatch.setattr(f"payrec.{module}.{name}", number)
    sealed, move = [], SealingStore.move

    async def noted(store: SealingStore, *given: Any) -> None:
        sealed.append(await schema_of(store._connection))
        await move(store, *given)

    async def all_are_sealed() -> bool | None:
        # What is noted is not committed yet.
        return await here.sql("SELECT 1 AS n FROM outbox") == [] == await other.sql("SELECT 1 AS n FROM outbox") or None

    monkeypatch.setattr(SealingStore, "move", noted)
    async with telling(idle[0]):
        await until(all_are_sealed)
    mine, theirs = here.scope.schema_name, other.scope.schema_name
    assert sealed == [*[mine] * 2, theirs, *[mine] * 10]
    assert {resource: len(ids) for resource, ids in (await in_feed(here)).items()} == {str(r): 3 for r in RESOURCES}


async def test_many_slow_endpoints_of_one_tenant_leave_places_to_others(
    idle: tuple[Service, str], here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("payrec.jobs.outgoing.WEBHOOK_ENDPOINTS_AT_ONCE", 3)
    monkeypatch.setattr("payrec.jobs.outgoing.WEBHOOK_ENDPOINTS_AT_ONCE_TENANT", 2)
    held, other = Held(), await new_place(idle[0])
    async with receiving(held.answer) as slow, receiving() as quick, telling(idle[0]):
        mine = [await here.hook(slow.url) for _ in range(4)]
        theirs = await other.hook(quick.url)
        await here.happen(*RESOURCES)
        await slow.got(1)
        await other.happen(RESOURCES[0])
        await quick.got(1)
        assert not held.was_in_vain, "the other tenant's is told while none of ours has ended"
        held.released.set()
        for webhook in mine:
            await here.settled(webhook, len(RESOURCES))
        await other.settled(theirs, 1)


async def test_attempts_at_slow_endpoints_of_one_tenant_leave_some_to_others(
    idle: tuple[Service, str], here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("payrec.services.webhook_delivery.WEBHOOK_ATTEMPTS_AT_ONCE_ALL", 5)
    monkeypatch.setattr("payrec.services.webhook_delivery.WEBHOOK_ATTEMPTS_AT_ONCE_TENANT", 4)
    held, other = Held(), await new_place(idle[0])
    async with receiving(held.answer) as slow, receiving() as quick, telling(idle[0]):
        mine = [await here.hook(slow.url) for _ in range(2)]
        theirs = await other.hook(quick.url)
        await here.happen(*RESOURCES)
        await slow.got(4)
        await other.happen(*RESOURCES)
        await quick.got(len(RESOURCES))
        assert not held.was_in_vain, "all of the other tenant are told while none of ours has ended"
        assert slow.most_at_once == 4
        held.released.set()
        for webhook in mine:
            await here.settled(webhook, len(RESOURCES))
        await other.settled(theirs, len(RESOURCES))


@pytest.mark.parametrize("limit", ["WEBHOOK_ENDPOINTS_AT_ONCE", "WEBHOOK_ENDPOINTS_AT_ONCE_TENANT"])
async def test_an_endpoint_that_is_never_done_gives_its_place_to_one_that_waits(
    idle: tuple[Service, str], here: Place, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """Of the same tenant or of another one; what it had read is not lost, and comes once and in order."""
    monkeypatch.setattr(f"payrec.jobs.outgoing.{limit}", 1)
    monkeypatch.setattr("payrec.jobs.outgoing.WEBHOOK_TURN_SECONDS", 0.2)
    there = here if limit.endswith("TENANT") else await new_place(idle[0])
    is_done = False

    async def answer(_came: Received) -> web.Response:
        nonlocal is_done
        await asyncio.sleep(0 if is_done else 0.1)
        return web.Response(status=204)

    async with receiving(answer) as busy, receiving() as waiting, telling(idle[0]):
        webhook = await here.hook(busy.url)
        await here.happen(*RESOURCES[:1] * 300)  # each after the one before: 30 s
        await busy.got(1)
        await there.hook(waiting.url)
        await there.happen(RESOURCES[1])
        await waiting.got(1)
        assert len(busy.received) < 300
        is_done = True
        await busy.got(301 if there is here else 300)
        await here.settled(webhook, 200)
    found = [came.id for came in busy.received if came.resource == str(RESOURCES[0])]
    assert found == (await in_feed(here))[str(RESOURCES[0])]
