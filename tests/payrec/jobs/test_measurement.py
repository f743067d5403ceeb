"""Metrics of what all processes share: how much there is, how long it has waited, and nothing that is out of date."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, get_args
from uuid import UUID

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from payrec.constants.upkeep import OPEN_AGES, OPEN_CURRENCIES_MAX
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.identifiers import id_at
from payrec.embedded.postgres import EmbeddedPostgres
from payrec.errors import UnavailableError
from payrec.factory import Factory, TimeOrderedIds, create_context
from payrec.internal import create_internal_app
from payrec.jobs.admission import Admission
from payrec.metrics import JOB_ENDS, Metrics
from payrec.models.jobs import JobKind
from payrec.services.census import Census, Counted, age_of
from payrec.shared_gauges import CENSUS, QUEUES
from payrec.storage.census import CensusStore
from payrec.storage.jobs import JobStore
from payrec.storage.queues import QueueStore
from support.outgoing import Place, new_place
from support.places import schema_of
from support.postgres import cloned
from support.service import Service, make_config, running
from support.wire import in_control

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
async def service(postgres: EmbeddedPostgres) -> AsyncIterator[Service]:
    """Return a service without a worker, whose database is the test's own: what it has can be counted."""
    with cloned(postgres) as database:
        async with running(make_config(database), worker=False) as started:
            yield started


@pytest.fixture
async def worker(service: Service) -> AsyncIterator[Factory]:
    """Return another process with metrics of its own, which has measured nothing yet."""
    context = create_context(service.factory.context.config)
    await context.database.open()
    yield Factory(context)
    await context.aclose()


async def scraped(worker: Factory) -> dict[str, dict[tuple[str, ...], float]]:
    """Return what a process shows on its internal port, by name and values of labels; NaN is nothing."""

    async def ready() -> None:
        return

    app = create_internal_app(metrics=worker.context.metrics, check_ready=ready, measure=worker.measurement.look)
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://internal") as http:
        answer = await http.get("/metrics")
    assert answer.status_code == 200
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            if not math.isnan(sample.value):
                found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def again(worker: Factory) -> Factory:
    """Return the process with nothing remembered of its last look."""
    worker.measurement._looked_at = None
    return worker


async def old_change(place: Place, age: timedelta) -> None:
    """Note a change of that age whose events wait."""
    milliseconds = round((datetime.now(UTC) - age).timestamp() * 1000)
    change_id = UUID(int=(milliseconds << 80) | (7 << 76) | (2 << 62) | 5)
    await in_control(
        place.service, "INSERT INTO unsealed_change VALUES (%s, %s)", change_id, place.scope.environment_id
    )


async def test_what_waits_is_shown_with_its_age(service: Service, worker: Factory) -> None:
    here, there = await new_place(service), await new_place(service)
    await in_control(service, "DELETE FROM unsealed_change")
    quiet = await scraped(worker)
    assert {name: quiet.get(name) for name in QUEUES} == {
        "payrec_queue_wakeups": None,
        "payrec_queue_age_seconds": None,
        "payrec_events_unsealed": {(): 0},
        "payrec_events_unsealed_age_seconds": {(): 0},
        "payrec_webhooks_due": {(): 0},
        "payrec_webhooks_due_age_seconds": {(): 0},
    }
    await old_change(here, timedelta(minutes=7))
    await old_change(there, timedelta(minutes=2))
    # Says only where to look, and since when is nobody's business.
    await in_control(
        service, "INSERT INTO unsealed_change VALUES (%s, %s)", UUID(int=4 << 76 | 3), here.scope.environment_id
    )
    for seconds in (90, 30, -30):
        due = "INSERT INTO webhook_queue VALUES (gen_random_uuid(), %s, now() - make_interval(secs => %s))"
        await in_control(service, due, here.scope.environment_id, seconds)
    for place in (here, there):
        async with service.factory.context.database.tenant(place.scope) as connection:
            await JobStore(connection).wake(place.scope.environment_id, "match")
            await JobStore(connection).wake(place.scope.environment_id, "import", delay=timedelta(hours=1))
    found = await scraped(again(worker))
    assert found["payrec_queue_wakeups"] == {("match",): 2}
    assert 0 <= found["payrec_queue_age_seconds"]["match",] < 60
    assert found["payrec_events_unsealed"] == {(): 3}
    assert 420 <= found["payrec_events_unsealed_age_seconds"][()] < 480
    assert found["payrec_webhooks_due"] == {(): 2}
    assert 90 <= found["payrec_webhooks_due_age_seconds"][()] < 150


async def test_an_event_of_the_control_schema_waits_as_well(service: Service, worker: Factory) -> None:
    await service.tenant("told", environments=["production"])
    await in_control(service, "UPDATE outbox SET occurred_at = now() - interval '5 minutes'")
    found = await scraped(worker)
    assert found["payrec_events_unsealed"] == {(): 1}
    assert 300 <= found["payrec_events_unsealed_age_seconds"][()] < 360
    await in_control(service, "UPDATE tenant_environment SET revision = NULL")
    assert (await scraped(again(worker)))["payrec_events_unsealed"] == {(): 0}


async def test_a_scrape_asks_the_database_once_in_a_while_and_lives_without_it(
    service: Service, worker: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = await new_place(service)
    await in_control(service, "DELETE FROM unsealed_change")
    calls, reads = 0, QueueStore.unsealed

    async def counted(store: QueueStore) -> dict[str, Any]:
        nonlocal calls
        calls += 1
        return await reads(store)

    monkeypatch.setattr(QueueStore, "unsealed", counted)
    await scraped(worker)
    await old_change(place, timedelta(minutes=1))
    assert (await scraped(worker))["payrec_events_unsealed"] == {(): 0}
    assert calls == 1

    async def away(_store: QueueStore) -> dict[str, Any]:
        raise UnavailableError("the database did not answer")

    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr(QueueStore, "unsealed", away)
        found = await scraped(again(worker))
    # Nothing is better than what was true some time ago; everything else is shown.
    assert set(QUEUES).isdisjoint(found)
    assert "payrec_build_info" in found
    assert [line["event"] for line in logs if line["event"].startswith("metrics.")] == ["metrics.queues_not_measured"]


async def test_the_census_adds_up_what_is_open_everywhere(service: Service, worker: Factory) -> None:
    here, there = await new_place(service), await new_place(service)
    booked = datetime.now(UTC).date() - timedelta(days=40)
    for place, items, lines in ((here, ["2020-01-01", "2999-01-01"], 1), (there, ["2020-01-01"], 2)):
        for n, due in enumerate(items):
            body = {"direction": "credit", "currency": "EUR", "amount": f"{n + 1}.00", "dueDate": due}
            assert (await place.tenant.post("/expected-transactions", body)).status_code == 201
        record = {"currency": "EUR", "direction": "credit", "bookingDate": str(booked)}
        records = [{**record, "amount": f"{n + 1}.00"} for n in range(lines)]
        assert (await place.tenant.post("/incoming-transactions/upload", records)).is_success
        await place.sql("UPDATE event_feed SET position = position + 10")
        await place.hook("http://127.0.0.1:65535/hook")
    await there.hook("http://127.0.0.1:65535/hook")
    for place in (here, there):
        await place.sql("INSERT INTO event_feed (id, position) VALUES (1, 7) ON CONFLICT DO NOTHING")
        await place.sql("UPDATE webhook SET position = 3, failing_since = NULL")
        await place.sql("UPDATE webhook SET failing_since = now() WHERE url LIKE '%hook'")
    await here.tenant.post("/matches/match", {"wait": 0})
    await there.tenant.post(
        "/data-sources", {"name": "Web", "kind": "http", "config": {"urls": ["https://a.example/b"]}}
    )
    for place, every in ((here, "day"), (there, None)):
        body = {"identifier": "till", "currency": "EUR", "statementEvery": every}
        assert (await place.tenant.post("/accounts", body)).status_code == 201
        await place.sql(
            "INSERT INTO statement_notice SELECT id, clock_timestamp(), clock_timestamp()::date FROM account"
        )
    await here.sql("INSERT INTO open_reason SELECT transaction_id, 2, 2 FROM incoming_open LIMIT 1")
    await there.sql("INSERT INTO open_reason SELECT transaction_id, 1, 1 FROM expected_open LIMIT 1")
    assert await worker.measurement.take_census() == 2
    found = await scraped(worker)
    assert found["payrec_census_environments"] == {(): 2}
    assert found["payrec_open_transactions"] == {("expected",): 3, ("incoming",): 3}
    assert found["payrec_open_amount"] == {
        ("over-90d", "EUR", "credit", "expected"): 2.0,
        ("not-due", "EUR", "credit", "expected"): 2.0,
        ("31-90d", "EUR", "credit", "incoming"): 4.0,
    }
    assert found["payrec_recent_transactions"] == {
        ("expected", "open"): 3,
        ("expected", "closed"): 0,
        ("incoming", "open"): 3,
        ("incoming", "closed"): 0,
    }
    assert found["payrec_open_reasons"] == {("ambiguous", "incoming"): 1, ("no_candidate", "expected"): 1}
    assert found["payrec_overdue_transactions"] == {(): 2}
    assert found["payrec_accounts_without_statement"] == {(): 1}
    assert all(0 < seconds < 120 for seconds in found["payrec_open_age_seconds"].values())
    assert found["payrec_jobs_open"] == {("match", "queued"): 1}
    assert 0 <= found["payrec_jobs_open_age_seconds"]["match", "queued"] < 120
    assert found["payrec_webhooks"] == {("active",): 0, ("failing",): 3, ("disabled",): 0}
    assert found["payrec_webhook_backlog_events"] == {(): 3 * 4}
    assert found["payrec_data_sources"] == {("ok",): 1, ("failing",): 0, ("disabled",): 0}
    tenants = {str(here.tenant.id), here.scope.slug, there.scope.slug}
    assert not any(tenants & set(labels) for values in found.values() for labels in values)


async def test_a_census_leaves_out_what_fails_and_is_not_shown_for_ever(
    service: Service, worker: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, _there = await new_place(service), await new_place(service)
    counts = CensusStore.jobs

    async def broken(store: CensusStore) -> list[dict[str, Any]]:
        if await schema_of(store._connection) == here.scope.schema_name:
            raise KeyError("as if a table were missing")
        return await counts(store)

    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr(CensusStore, "jobs", broken)
        assert await worker.measurement.take_census() == 1
    assert [line["event"] for line in logs] == ["metrics.not_counted"]
    assert (await scraped(worker))["payrec_census_environments"] == {(): 1}
    monkeypatch.setattr("payrec.services.measurement.CENSUS_KEPT_SECONDS", 0.0)
    assert set(CENSUS).isdisjoint(await scraped(worker))


def test_every_gauge_has_a_name_of_its_own_and_no_label_of_a_tenant() -> None:
    assert set(QUEUES).isdisjoint(CENSUS)
    for name, (told, labels) in {**QUEUES, **CENSUS}.items():
        assert name.startswith("payrec_")
        assert told.endswith(".")
        assert not {"tenant", "environment"} & set(labels)


def counted(amounts: list[dict[str, Any]]) -> Counted:
    """Return what was counted in an environment that has nothing but open amounts."""
    rows = {"overdue": 0, "expected": 0, "incoming": 0, "unsealed": 0, "without_statement": 0}
    none = dict.fromkeys(("oldest_expected_id", "oldest_incoming_id", "oldest_unsealed_id"))
    return Counted(
        rows={**rows, **none},
        amounts=amounts,
        recent=dict.fromkeys(("expected", "expected_open", "incoming", "incoming_open"), 0),
        reasons=[],
        webhooks={"active": 0, "failing": 0, "disabled": 0, "backlog": 0},
        sources={},
        jobs=[],
    )


_CELLS = st.fixed_dictionaries(
    {
        "side": st.sampled_from(["expected", "incoming"]),
        "direction": st.sampled_from(["credit", "debit"]),
        "currency": st.sampled_from(sorted(MINOR_UNITS)),
        "age": st.integers(0, len(OPEN_AGES) - 1),
        "count": st.integers(1, 10_000),
        "minor": st.integers(1, 10**15).map(float),
    }
)


@given(st.lists(st.lists(_CELLS, max_size=40), max_size=4))
def test_open_amounts_are_added_up_in_units_and_only_of_the_commonest_currencies(
    environments: list[list[dict[str, Any]]],
) -> None:
    census = Census(NOW)
    for amounts in environments:
        census.add(counted(amounts))
    shown = census.figures()["payrec_open_amount"]
    cells = [cell for amounts in environments for cell in amounts]
    counts: Counter[str] = Counter()
    for cell in cells:
        counts[cell["currency"]] += cell["count"]
    currencies = {currency for _, _, currency, _ in shown}
    assert len(currencies) == min(len(counts), OPEN_CURRENCIES_MAX)
    assert all(counts[out] <= min(counts[c] for c in currencies) for out in counts.keys() - currencies)
    for currency in currencies:
        minor = sum(cell["minor"] for cell in cells if cell["currency"] == currency)
        units = sum(value for (_, _, name, _), value in shown.items() if name == currency)
        assert units * 10 ** MINOR_UNITS[currency] == pytest.approx(minor)


def test_the_first_failure_of_a_worker_is_an_increase() -> None:
    metrics = Metrics()
    assert "payrec_jobs_total{" not in metrics.render().decode(), "an API process has no jobs"
    metrics.watch_jobs(Admission(memory_bytes=1, places=1, monotonic=lambda: 0.0))
    for kind in get_args(JobKind):
        for status in JOB_ENDS:
            assert metrics.registry.get_sample_value("payrec_jobs_total", {"kind": kind, "status": status}) == 0


@given(st.datetimes(min_value=datetime(2020, 1, 1), max_value=datetime(2100, 1, 1)))  # noqa: DTZ001 - made aware below
def test_the_age_of_an_identifier_is_that_of_its_making(at: datetime) -> None:
    made = at.replace(tzinfo=UTC)
    identifier = UUID(int=(round(made.timestamp() * 1000) << 80) | (7 << 76) | (2 << 62))
    assert age_of(identifier, now=made + timedelta(hours=1)) == pytest.approx(3600, abs=0.002)
    assert age_of(identifier, now=made - timedelta(hours=1)) == 0
    assert age_of(None, now=made) == 0


@given(st.datetimes(min_value=datetime(2020, 1, 1), max_value=datetime(2100, 1, 1)))  # noqa: DTZ001 - made aware below
def test_what_is_made_at_an_instant_is_not_before_it(at: datetime) -> None:
    made = at.replace(tzinfo=UTC)
    bound = id_at(made)
    assert age_of(bound, now=made) < 0.002
    assert bound <= UUID(int=(math.floor(made.timestamp() * 1000) << 80) | (7 << 76) | (2 << 62))


def test_a_new_identifier_has_no_age() -> None:
    assert age_of(TimeOrderedIds().new(), now=datetime.now(UTC)) < 60
