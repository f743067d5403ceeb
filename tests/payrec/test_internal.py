"""The internal port: alive whatever happens, ready when the database is, and metrics with the product's prefix."""

from __future__ import annotations

import asyncio

import httpx2
import pytest
from structlog.testing import capture_logs

from payrec import internal
from payrec.embedded.postgres import EmbeddedPostgres
from payrec.errors import UnavailableError
from payrec.factory import ProcessContext, create_context
from payrec.internal import create_internal_app
from payrec.metrics import Metrics
from payrec.services.migrations import check_ready
from payrec.storage import database as storage
from support.postgres import cloned
from support.service import make_config

pytestmark = pytest.mark.anyio


async def _get(path: str, *, metrics: Metrics | None = None, ready: object = None) -> httpx2.Response:
    async def nothing_missing() -> None:
        return None

    app = create_internal_app(
        metrics=metrics or Metrics(),
        check_ready=ready or nothing_missing,  # type: ignore[arg-type]
        measure=nothing_missing,
    )
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://internal") as http:
        return await http.get(path)


async def test_a_process_without_its_database_lives_and_is_not_ready() -> None:
    async def broken() -> None:
        raise UnavailableError("the database cannot be reached")

    assert (await _get("/livez", ready=broken)).status_code == 200
    answer = await _get("/readyz", ready=broken)
    assert (answer.status_code, answer.text) == (503, "the database cannot be reached\n")


async def test_a_database_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(internal, "READY_SECONDS_MAX", 0.05)

    async def hangs() -> None:
        await asyncio.Event().wait()

    assert (await _get("/readyz", ready=hangs)).status_code == 503


async def test_a_change_of_readiness_is_logged_once() -> None:
    missing: list[str] = []

    async def look() -> None:
        if missing:
            raise UnavailableError(missing[0])

    async def nothing() -> None:
        return None

    app = create_internal_app(metrics=Metrics(), check_ready=look, measure=nothing)
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://internal") as http:
        with capture_logs() as logs:
            for state in ([], ["it is away"], ["it is away"], ["it is read-only"], [], []):
                missing[:] = state
                assert (await http.get("/readyz")).status_code == (503 if state else 200)
    told = [(line["event"], line["log_level"], line.get("reason")) for line in logs]
    assert told == [
        ("readiness.lost", "warning", "it is away"),
        ("readiness.lost", "warning", "it is read-only"),
        ("readiness.regained", "info", None),
    ]


async def test_ready_is_a_database_whose_control_schema_is_at_the_head(postgres: EmbeddedPostgres) -> None:
    with cloned(postgres) as made:
        context = create_context(make_config(made))
        await context.database.open()
        try:

            async def check() -> None:
                await check_ready(context.database)

            assert (await _get("/readyz", ready=check)).status_code == 200
        finally:
            await context.database.close()
            await context.http.aclose()


async def test_an_unmigrated_database_is_not_ready(postgres: EmbeddedPostgres) -> None:
    made = postgres.database("payrec_unmigrated")
    context = create_context(make_config(made))
    await context.database.open()
    try:

        async def check() -> None:
            await check_ready(context.database)

        assert (await _get("/readyz", ready=check)).status_code == 503
    finally:
        await context.database.close()
        await context.http.aclose()
        postgres.drop("payrec_unmigrated")


async def test_a_database_that_went_away_is_not_ready(
    postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "POOL_TIMEOUT_SECONDS", 1.0)
    with cloned(postgres) as made:
        context = create_context(make_config(made))
        await context.database.open()
    try:
        assert (await _get("/readyz", ready=context.database.ping)).status_code == 503
    finally:
        await context.database.close()
        await context.http.aclose()


async def test_metrics_are_prometheus_text_with_the_prefix_of_the_product() -> None:
    metrics = Metrics()
    metrics.observe_request("GET", "/matches/{id}", 200, 0.012)
    metrics.observe_job("match", "succeeded", 1.5)

    answer = await _get("/metrics", metrics=metrics)

    assert answer.headers["Content-Type"].startswith("text/plain")
    assert 'payrec_http_requests_total{method="GET",route="/matches/{id}",status="200"} 1.0' in answer.text
    assert 'payrec_jobs_total{kind="match",status="succeeded"} 1.0' in answer.text
    names = [line for line in answer.text.splitlines() if line and not line.startswith("#")]
    assert all(name.startswith("payrec_") for name in names)


async def test_nothing_else_is_there() -> None:
    assert (await _get("/tenants")).status_code == 404


async def test_the_connections_of_the_pool_are_told_at_every_scrape(postgres: EmbeddedPostgres) -> None:
    def told(context: ProcessContext, state: str) -> float | None:
        return context.metrics.registry.get_sample_value("payrec_database_pool_connections", {"state": state})

    with cloned(postgres) as made:
        context = create_context(make_config(made))
        await context.database.open()
        try:
            idle = told(context, "idle")
            assert idle is not None
            assert told(context, "open") == idle > 0
            async with context.database.control(readonly=True):
                assert told(context, "idle") == idle - 1
        finally:
            await context.database.close()
            await context.http.aclose()
