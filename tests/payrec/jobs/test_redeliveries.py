"""Many deliveries again, as a job: those of a time and state, each begun once, whoever dies or cancels meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from payrec.embedded.postgres import EmbeddedPostgres
from payrec.jobs.runner import JobRunner
from payrec.services import webhook_redeliveries
from payrec.storage.jobs import JobStore
from support.outgoing import Place, new_place, telling
from support.postgres import cloned
from support.receivers import receiving
from support.service import Service, make_config, running
from support.wire import add_user, code, fields, until

pytestmark = pytest.mark.anyio

START = "2026-03-01T00:00:00Z"
EVENTS = """
    INSERT INTO event (position, id, resource_id, occurred_at, type)
    SELECT n, gen_random_uuid(), gen_random_uuid(), timestamptz '2026-03-01 00:00Z' + n * interval '1 minute',
        CASE WHEN n % 10 = 0 THEN 'match.rejected' ELSE 'match.accepted' END
    FROM generate_series(1, 30) n
"""
"""Thirty events, a minute apart; every tenth of them is of a type that nobody wants."""

STATES = """
    INSERT INTO webhook_delivery (webhook_id, position, event_id, resource_id, created_at, status, type, attempts,
        next_attempt_at)
    SELECT %s, position, id, resource_id, occurred_at, s.status, type, 3,
        CASE WHEN s.status = 'pending' THEN timestamptz '2999-01-01' END
    FROM event JOIN (VALUES (0, 'succeeded'), (1, 'failed'), (2, 'pending')) s (rest, status) ON position %% 4 = s.rest
    WHERE type = 'match.accepted'
"""
"""Of four events one has arrived, one has failed, one is under way, and one was missed."""

PENDING = "SELECT position FROM webhook_delivery WHERE status = 'pending' AND attempts = 0 ORDER BY position"
WANTED = [n for n in range(1, 31) if n % 10]
SUCCEEDED, FAILED, MISSED = ([n for n in WANTED if n % 4 == rest] for rest in (0, 1, 3))


class DiedError(Exception):
    """The worker has died here."""


@pytest.fixture(scope="module")
async def service(postgres: EmbeddedPostgres) -> AsyncIterator[Service]:
    """Return a service without a worker: the tests are the workers."""
    with cloned(postgres) as database:
        async with running(make_config(database), worker=False) as started:
            yield started


@pytest.fixture
async def here(service: Service) -> Place:
    """Return a tenant's environment with thirty events."""
    place = await new_place(service)
    await place.sql(EVENTS)
    await place.sql("INSERT INTO event_feed (id, position) VALUES (1, 30)")
    return place


async def hooked(place: Place, *, position: int = 30) -> str:
    """Make an endpoint that has come to a place, and say what became of the events."""
    webhook_id = await place.hook("http://127.0.0.1:65535/hook")
    await place.sql("UPDATE webhook SET position = %s WHERE id = %s", position, webhook_id)
    await place.sql(STATES, webhook_id)
    return webhook_id


async def ask(place: Place, webhook_id: str, **params: Any) -> Any:
    body = {"kind": "redeliver", "params": {"webhookId": webhook_id, "from": START, **params}}
    return await place.tenant.post("/jobs", body)


async def started(place: Place, webhook_id: str, **params: Any) -> str:
    answer = await ask(place, webhook_id, **params)
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == f"/jobs/{answer.json()['id']}"
    return str(answer.json()["id"])


async def job_of(place: Place, job_id: str) -> dict[str, Any]:
    return dict((await place.tenant.get(f"/jobs/{job_id}")).json())


async def work(place: Place) -> None:
    await JobRunner(place.service.factory).drain(place.scope.environment_id, "redeliver")


async def pending(place: Place, webhook_id: str) -> list[int]:
    """Return the places that were begun again."""
    query = PENDING.replace("WHERE", "WHERE webhook_id = %s AND")
    return [row["position"] for row in await place.sql(query, UUID(webhook_id))]


@pytest.mark.parametrize(
    ("params", "wanted"),
    [
        ({}, MISSED + FAILED),
        ({"status": ["missed"]}, MISSED),
        ({"status": ["failed"]}, FAILED),
        ({"status": ["succeeded"]}, SUCCEEDED),
        ({"status": ["missed", "failed", "succeeded"]}, MISSED + FAILED + SUCCEEDED),
        ({"from": "2026-03-01T00:07:00Z", "to": "2026-03-01T00:13:00Z"}, [7, 9, 11, 13]),
        ({"from": "2026-03-02T00:00:00Z"}, []),
    ],
)
@pytest.mark.parametrize("places", [1, 7, 1000])
async def test_what_is_asked_for_is_begun_again_and_nothing_else(
    here: Place, monkeypatch: pytest.MonkeyPatch, params: dict[str, Any], wanted: list[int], places: int
) -> None:
    monkeypatch.setattr(webhook_redeliveries, "WEBHOOK_REDELIVERED_PLACES", places)
    webhook_id, other = await hooked(here), await hooked(here)
    job = await started(here, webhook_id, **params)
    await work(here)
    assert await pending(here, webhook_id) == sorted(wanted)
    assert await pending(here, other) == []
    found = await job_of(here, job)
    assert (found["status"], found["result"]) == ("succeeded", {"count": len(wanted), "hasMore": False})
    assert found["progress"]["done"] == found["progress"]["total"]
    records = (await here.tenant.get("/audit-log", params={"type": "webhook.redelivered"})).json()["data"]
    assert [(r["resourceId"], r["after"]["count"]) for r in records] == [(webhook_id, len(wanted))]


async def test_what_the_endpoint_has_not_come_to_is_left_to_its_turn(here: Place) -> None:
    webhook_id = await hooked(here, position=12)
    await started(here, webhook_id)
    await work(here)
    assert await pending(here, webhook_id) == [n for n in sorted(MISSED + FAILED) if n <= 12]


async def test_more_than_one_job_may_do_is_told(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_redeliveries, "WEBHOOK_REDELIVERIES_JOB_MAX", 6)
    monkeypatch.setattr(webhook_redeliveries, "WEBHOOK_REDELIVERED_PLACES", 4)
    webhook_id, all_of_it = await hooked(here), sorted(MISSED + FAILED)
    results = []
    for _ in range(4):
        job = await started(here, webhook_id)
        await work(here)
        results.append((await job_of(here, job))["result"])
    assert [result["count"] for result in results] == [6, 6, len(all_of_it) - 12, 0]
    assert [result["hasMore"] for result in results] == [True, True, False, False]
    assert await pending(here, webhook_id) == all_of_it


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("step", [1, 2, 4])
async def test_a_worker_that_dies_has_begun_no_delivery_twice(
    here: Place,
    monkeypatch: pytest.MonkeyPatch,
    is_after: bool,  # noqa: FBT001 - a parameter of the test
    step: int,
) -> None:
    monkeypatch.setattr(webhook_redeliveries, "WEBHOOK_REDELIVERED_PLACES", 7)
    webhook_id = await hooked(here)
    job = await started(here, webhook_id, status=["succeeded"])
    pieces, calls = webhook_redeliveries.WebhookRedeliveryService._piece, 0

    async def dying(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == step and not is_after:
            raise DiedError
        found = await pieces(*given)
        if calls == step:
            raise DiedError
        return found

    with monkeypatch.context() as patch:
        patch.setattr(webhook_redeliveries.WebhookRedeliveryService, "_piece", dying)
        await work(here)
    assert (await job_of(here, job))["status"] == "queued"
    begun = await pending(here, webhook_id)
    assert begun == [n for n in SUCCEEDED if n <= 7 * (step - 1)]
    # They arrive before the next attempt begins; then they are among those that are asked for.
    await here.sql("UPDATE webhook_delivery SET status = 'succeeded', next_attempt_at = NULL WHERE attempts = 0")
    await here.sql("UPDATE job SET next_attempt_at = NULL")
    await work(here)
    assert await pending(here, webhook_id) == [n for n in SUCCEEDED if n not in begun]
    found = await job_of(here, job)
    assert (found["status"], found["result"]["count"], found["attempts"]) == ("succeeded", len(SUCCEEDED), 2)


async def test_a_cancelled_job_stops_and_says_what_it_has_begun(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_redeliveries, "WEBHOOK_REDELIVERED_PLACES", 5)
    webhook_id = await hooked(here)
    job = await started(here, webhook_id)
    advance, calls = JobStore.advance, 0

    async def cancelling(store: JobStore, *given: Any, **more: Any) -> bool:
        nonlocal calls
        calls += 1
        if calls == 3:
            # Somebody cancels it while the piece is done; its transaction holds neither row yet.
            assert (await here.tenant.post(f"/jobs/{job}/cancel")).status_code == 202
        return await advance(store, *given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(JobStore, "advance", cancelling)
        await work(here)
    found = await job_of(here, job)
    begun = [n for n in sorted(MISSED + FAILED) if n <= 10]
    assert (found["status"], found["result"]["count"], found["result"]["hasMore"]) == ("cancelled", len(begun), True)
    assert await pending(here, webhook_id) == begun
    assert found["progress"] == {"done": 10, "total": 30}


async def test_an_endpoint_that_is_disabled_meanwhile_ends_the_job(here: Place) -> None:
    webhook_id = await hooked(here)
    job, gone = await started(here, webhook_id), await hooked(here)
    other = await started(here, gone)
    assert (await here.tenant.request("PATCH", f"/webhooks/{webhook_id}", json={"status": "disabled"})).is_success
    assert (await here.tenant.request("DELETE", f"/webhooks/{gone}")).is_success
    await work(here)
    assert [(await job_of(here, one))["error"]["code"] for one in (job, other)] == ["invalid_state", "not_found"]
    assert await pending(here, webhook_id) == []


async def test_what_cannot_be_is_refused_at_once(here: Place, service: Service) -> None:
    webhook_id, theirs = await hooked(here), await new_place(service)
    for params, pointer in (
        ({"from": None}, ("/params/from", "timestamp_malformed")),
        ({"from": "yesterday"}, ("/params/from", "timestamp_malformed")),
        ({"to": "2026-02-01T00:00:00Z"}, ("/params", "range_reversed")),
        ({"status": []}, ("/params/status", "too_short")),
        ({"status": ["pending"]}, ("/params/status/0", "literal_error")),
        ({"webhookId": "x"}, ("/params/webhookId", "uuid_parsing")),
        ({"limit": 3}, ("/params/limit", "extra_forbidden")),
    ):
        refused = await ask(here, webhook_id, **params)
        assert (refused.status_code, fields(refused)) == (422, {pointer}), params
    assert code(await ask(theirs, webhook_id)) == "not_found"
    _, operator = await add_user(service, here.tenant, "operator")
    body = {"kind": "redeliver", "params": {"webhookId": webhook_id, "from": START}}
    refused = await operator.post("/jobs", body)
    assert (refused.status_code, code(refused)) == (403, "insufficient_permission")
    await here.tenant.request("PATCH", f"/webhooks/{webhook_id}", json={"status": "disabled"})
    assert code(await ask(here, webhook_id)) == "invalid_state"
    assert (await here.tenant.get("/jobs", params={"kind": "redeliver"})).json()["data"] == []


async def test_what_was_missed_arrives_in_order(service: Service) -> None:
    here, resource = await new_place(service), UUID(int=7)
    query = "SELECT id::text AS id FROM event WHERE resource_id = %s ORDER BY position"
    async with receiving() as receiver, telling(service):
        webhook = await here.hook(receiver.url)
        await here.tenant.request("PATCH", f"/webhooks/{webhook}", json={"status": "disabled"})
        await here.happen(*[resource] * 5)

        async def all_sealed() -> list[str] | None:
            found = [row["id"] for row in await here.sql(query, resource)]
            return found if len(found) == 5 else None

        told = await until(all_sealed)
        await here.tenant.request("PATCH", f"/webhooks/{webhook}", json={"status": "active"})
        job = await started(here, webhook)
        await work(here)
        await receiver.got(5)
    assert (await job_of(here, job))["result"] == {"count": 5, "hasMore": False}
    assert receiver.ids() == told
