"""What is over goes, of every kind and in every environment, and each removal is told of with what it removed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from payrec.constants import IDEMPOTENCY_RETENTION
from payrec.constants.events import EVENT_RETENTION
from payrec.domain.retention import Removed, RetentionReport, removed
from payrec.embedded.postgres import EmbeddedPostgres
from payrec.services import retention
from payrec.services.retention import KINDS
from payrec.storage.events import EventStore
from support.outgoing import Place, new_place
from support.postgres import cloned
from support.service import Service, make_config, running
from support.wire import in_control

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
EVENT = """
    INSERT INTO event (position, id, resource_id, occurred_at, type)
    SELECT %(n)s, gen_random_uuid(), gen_random_uuid(), now() - %(age)s, 'match.accepted'
"""
DELIVERY = """
    INSERT INTO webhook_delivery (webhook_id, position, event_id, resource_id, created_at, status, type)
    SELECT gen_random_uuid(), position, id, resource_id, occurred_at, 'failed', type FROM event WHERE position = %(n)s
"""
ANSWER = """
    INSERT INTO idempotency (key, fingerprint, created_at)
    VALUES (sha256(%(name)s::text::bytea), sha256(%(name)s::text::bytea), now() - %(age)s)
"""


@pytest.fixture(scope="module")
async def service(postgres: EmbeddedPostgres) -> AsyncIterator[Service]:
    """Return a service without a worker: nothing goes by itself."""
    with cloned(postgres) as database:
        async with running(make_config(database), worker=False) as started:
            yield started


@pytest.fixture
async def here(service: Service) -> Place:
    """Return an environment of a new tenant, where every kind is empty."""
    return await emptied(await new_place(service))


@pytest.fixture
async def there(service: Service) -> Place:
    """Return another one."""
    return await emptied(await new_place(service))


async def emptied(place: Place) -> Place:
    await in_control(place.service, "DELETE FROM idempotency")
    # As if all that there will be had been looked at for postings.
    await add(place, "INSERT INTO posting_feed (id, sequence, position) VALUES (1, 0, 1000000)")
    return place


async def run(service: Service) -> RetentionReport:
    return await service.factory.upkeep.create_retention_service().drop_expired()


async def add(place: Place, statement: str, **given: Any) -> None:
    async with place.service.factory.context.database.tenant(place.scope) as connection:
        await connection.execute(statement.encode(), given)


def counted(service: Service, kind: str) -> float:
    value = service.factory.context.metrics.registry.get_sample_value
    return value("payrec_retention_removed_total", {"kind": kind}) or 0.0


async def test_events_go_with_their_deliveries_and_places_do_not_come_again(
    service: Service, here: Place, there: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "EVENTS_DROPPED_AT_ONCE", 2)
    minute = timedelta(minutes=1)
    for n in range(1, 6):
        for place in (here, there):
            await add(
                place, EVENT, n=n, age=EVENT_RETENTION + n * minute if place is here else EVENT_RETENTION - minute
            )
            await add(place, DELIVERY, n=n)
    await add(here, "INSERT INTO event_feed (id, position) VALUES (1, 5)")
    before = counted(service, "events"), counted(service, "webhook_deliveries")
    await add(here, "UPDATE posting_feed SET position = 0")
    assert (await run(service)).removed == {}, "what is not posted stays until it is"
    await add(here, "UPDATE posting_feed SET position = 5")
    with capture_logs() as logs:
        report = await run(service)
    assert {kind: what.count for kind, what in report.removed.items()} == {"events": 5, "webhook_deliveries": 5}
    assert (counted(service, "events"), counted(service, "webhook_deliveries")) == (before[0] + 5, before[1] + 5)
    what = report.of("events")
    assert what.oldest is not None
    assert what.newest is not None
    # Each was written a moment after the one before.
    assert 3 * minute < what.newest - what.oldest <= 4 * minute
    told = [line for line in logs if line["event"] == "retention.removed"]
    assert [(line["kind"], line["count"], line["tenant"]) for line in told] == [
        ("events", 5, here.scope.slug),
        ("webhook_deliveries", 5, here.scope.slug),
    ]
    assert told[0]["oldest"] == what.oldest.isoformat()
    assert [line["events"] for line in logs if line["event"] == "retention.finished"] == [5]
    assert await here.sql("SELECT 1 FROM event UNION ALL SELECT 1 FROM webhook_delivery") == []
    assert len(await there.sql("SELECT 1 FROM event")) == len(await there.sql("SELECT 1 FROM webhook_delivery")) == 5
    await here.happen(UUID(int=1))
    await service.factory.upkeep.create_sealer().seal(here.scope)
    assert await here.sql("SELECT position FROM event") == [{"position": 6}]
    assert (await run(service)).removed == {}


async def test_answers_go_that_are_replayed_no_longer(service: Service, here: Place, there: Place) -> None:
    minute = timedelta(minutes=1)
    for n in range(3):
        await add(here, ANSWER, name=f"old {n}", age=IDEMPOTENCY_RETENTION + minute)
    await add(here, ANSWER, name="young", age=IDEMPOTENCY_RETENTION - minute)
    await add(there, ANSWER, name="young", age=timedelta())
    for age in (IDEMPOTENCY_RETENTION + minute, timedelta()):
        name = str(uuid4())
        statement = "INSERT INTO idempotency (key, fingerprint, created_at) VALUES (sha256(%s), sha256(%s), now() - %s)"
        await in_control(service, statement, name.encode(), name.encode(), age)
    report = await run(service)
    assert (report.of("idempotency_keys").count, report.failed) == (4, 0)
    assert len(await here.sql("SELECT 1 FROM idempotency")) == len(await there.sql("SELECT 1 FROM idempotency")) == 1
    assert (await run(service)).removed == {}


async def test_what_fails_is_counted_and_keeps_nothing_else(
    service: Service, here: Place, there: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (here, there):
        await add(place, EVENT, n=1, age=EVENT_RETENTION * 2)
        await add(place, ANSWER, name="old", age=IDEMPOTENCY_RETENTION * 2)
    drops = EventStore.drop_events
    value = service.factory.context.metrics.registry.get_sample_value
    failures = {"kind": "events"}
    before = value("payrec_retention_failures_total", failures) or 0.0
    calls = 0

    async def once_broken(store: EventStore, **given: Any) -> dict[str, Removed]:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise KeyError("as if a table were missing")
        return await drops(store, **given)

    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr(EventStore, "drop_events", once_broken)
        report = await run(service)
    assert (report.failed, report.of("events").count, report.of("idempotency_keys").count) == (1, 1, 2)
    assert value("payrec_retention_failures_total", failures) == before + 1
    [line] = [line for line in logs if line["event"] == "retention.not_dropped"]
    assert (line["kind"], line["environment_id"]) == ("events", str(here.scope.environment_id))
    assert (await run(service)).of("events").count == 1


async def test_a_removal_that_is_broken_off_is_told_as_far_as_it_came(
    service: Service, here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "EVENTS_DROPPED_AT_ONCE", 1)
    for n in (1, 2):
        await add(here, EVENT, n=n, age=EVENT_RETENTION * 2)
    drops, calls = EventStore.drop_events, 0

    async def then_broken(store: EventStore, **given: Any) -> dict[str, Removed]:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyError("as if the disk were full")
        return await drops(store, **given)

    with monkeypatch.context() as patch:
        patch.setattr(EventStore, "drop_events", then_broken)
        report = await run(service)
    assert (report.failed, report.of("events").count) == (1, 1)
    assert len(await here.sql("SELECT 1 FROM event")) == 1
    assert (await run(service)).of("events").count == 1


INSTANTS = st.lists(st.integers(min_value=0, max_value=99).map(lambda n: NOW + timedelta(hours=n)), max_size=5)


@given(INSTANTS, INSTANTS)
def test_what_is_removed_adds_up(some: list[datetime], others: list[datetime]) -> None:
    assert removed(some) + removed(others) == removed(others) + removed(some) == removed(some + others)
    assert removed(some) + Removed() == removed(some)
    report = RetentionReport()
    for instants in (some, others):
        report.add("files", removed(instants))
    assert report.of("files") == removed(some + others)
    assert report.of("exports") == Removed()


def test_what_is_removed_says_how_much_and_since_when() -> None:
    later = NOW + timedelta(hours=1)
    assert removed([later, NOW]) == Removed(count=2, oldest=NOW, newest=later)
    assert removed([]) == Removed()
    assert len({kept.name for kept in KINDS}) == len(KINDS)
