"""Passes one at a time, bounded, counted, and with the newest status however late the API server shows it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, get_args, get_type_hints

import pytest
import structlog
from prometheus_client import CollectorRegistry, generate_latest

from payrec.errors import SlugTakenError
from payrec_operator import runner as module
from payrec_operator.constants import DELETION_TRIES_MAX
from payrec_operator.errors import SecretForbiddenError
from payrec_operator.metrics import RESULTS, TRIGGERS, OperatorMetrics
from payrec_operator.outcome import Outcome
from payrec_operator.reasons import Reason
from payrec_operator.runner import Runner, Trigger, seconds_until_next
from support.operator_world import OperatorWorld, make_key, make_spec

PLACE = ("shop", "acme")


class Clock:
    """A clock that stands unless it is moved."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> datetime:
        return datetime(2026, 3, 1, 12, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds


class Bench:
    """A runner on a world in memory."""

    def __init__(self) -> None:
        self.world = OperatorWorld()
        self.clock = Clock()
        self.registry = CollectorRegistry()
        self.metrics = OperatorMetrics(self.registry, resync_seconds=300)
        self.runner = Runner(
            world=self.world.world, metrics=self.metrics, clock=self.clock, chance=lambda: 0.5, fresh=10.0
        )
        self.world.create(make_spec())

    @property
    def body(self) -> dict[str, Any]:
        return self.world.objects[PLACE]

    def write(self) -> None:
        self.runner.write_status(self.body["metadata"]["uid"], self.body)

    def metric(self, line: str) -> bool:
        return line in generate_latest(self.registry).decode()


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.anyio
async def test_a_pass_counts_and_its_status_is_written_once(bench: Bench) -> None:
    outcome = await bench.runner.run("change", bench.body)
    assert outcome is not None
    assert outcome.result == "reconciled"
    bench.write()
    assert bench.body["status"]["environmentsReady"] == "2/2"
    before = dict(bench.body["status"])
    bench.write()
    assert bench.body["status"] == before
    assert bench.metric('payrec_operator_reconcile_total{result="reconciled",trigger="change"} 1.0')
    assert bench.metric('payrec_operator_tenant_condition{condition="Ready",name="acme",namespace="shop"} 1.0')
    assert bench.metric('payrec_operator_environments{state="Applied"} 2.0')
    assert bench.metric("payrec_operator_active_reconciles 0.0")
    bench.runner.forget(bench.body["metadata"]["uid"])
    assert not bench.metric('name="acme"')


@pytest.mark.anyio
async def test_a_tenant_that_is_left_alone_because_somebody_asked_is_told_as_such(bench: Bench) -> None:
    held = 'payrec_operator_tenant_on_hold{name="acme",namespace="shop"} 1.0'
    await bench.runner.run("change", bench.body)
    assert not bench.metric(held)
    bench.world.change(PLACE, suspended=True)
    await bench.runner.run("change", bench.body)
    assert bench.metric(held)
    bench.world.change(PLACE, suspended=False)
    bench.world.annotate(PLACE, "paused", "true")
    await bench.runner.run("change", bench.body)
    assert bench.metric(held)
    bench.runner.forget(bench.body["metadata"]["uid"])
    assert not bench.metric(held)


@pytest.mark.anyio
async def test_what_may_be_counted_is_there_from_the_beginning(bench: Bench) -> None:
    assert bench.metric('payrec_operator_reconcile_errors_total{reason="SlugConflict"} 0.0')
    assert bench.metric('payrec_operator_api_key_rotations_total{result="failed"} 0.0')
    assert bench.metric("payrec_operator_resync_interval_seconds 300.0")
    assert set(get_args(Trigger)) == set(TRIGGERS)
    assert {*get_args(get_type_hints(Outcome)["result"]), "skipped"} == set(RESULTS)
    await bench.runner.run("change", bench.body)
    counted = [s for m in bench.registry.collect() if m.name == "payrec_operator_reconcile" for s in m.samples]
    assert len([s for s in counted if s.name.endswith("_total")]) == len(TRIGGERS) * len(RESULTS)


@pytest.mark.anyio
@pytest.mark.parametrize("trigger", ["change", "timer"])
async def test_nothing_new_within_seconds_of_a_full_pass_is_skipped(bench: Bench, trigger: Any) -> None:
    assert await bench.runner.run("change", bench.body) is not None
    assert await bench.runner.run(trigger, bench.body) is None
    assert bench.metric(f'payrec_operator_reconcile_total{{result="skipped",trigger="{trigger}"}} 1.0')
    bench.clock.seconds += 10
    assert await bench.runner.run(trigger, bench.body) is not None


@pytest.mark.anyio
async def test_what_is_new_is_never_skipped(bench: Bench) -> None:
    await bench.runner.run("change", bench.body)
    bench.world.change(PLACE, suspended=True)
    assert await bench.runner.run("change", bench.body) is not None
    bench.world.annotate(PLACE, "rotate", "1")
    assert await bench.runner.run("timer", bench.body) is not None
    for trigger in ("secret", "wake"):
        assert await bench.runner.run(trigger, bench.body) is not None  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_a_pass_that_failed_is_not_taken_for_a_full_one_and_waits_longer_each_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = []

    async def failing(*_: Any, attempt: int, **__: Any) -> Outcome:
        attempts.append(attempt)
        return Outcome(status=None, result="failed", reason=Reason.DATABASE_UNAVAILABLE)

    original = module.reconcile
    monkeypatch.setattr(module, "reconcile", failing)
    for _ in range(3):
        assert await bench.runner.run("change", bench.body) is not None
    assert attempts == [0, 1, 2]
    assert bench.metric('payrec_operator_reconcile_errors_total{reason="DatabaseUnavailable"} 3.0')
    monkeypatch.setattr(module, "reconcile", original)
    await bench.runner.run("change", bench.body)
    monkeypatch.setattr(module, "reconcile", failing)
    await bench.runner.run("secret", bench.body)
    assert attempts[-1] == 0


@pytest.mark.anyio
async def test_what_failed_before_a_deletion_is_no_try_at_it(bench: Bench) -> None:
    await bench.runner.run("change", bench.body)
    bench.write()
    bench.world.faults.down |= {"observe", "find"}
    for _ in range(DELETION_TRIES_MAX):
        await bench.runner.run("secret", bench.body)
    bench.world.delete(PLACE)
    for _ in range(DELETION_TRIES_MAX - 1):
        outcome = await bench.runner.run("delete", bench.body)
        assert outcome is not None
        assert not outcome.release, "it is let go, with keys that work, only after as many tries as any"
    outcome = await bench.runner.run("delete", bench.body)
    assert outcome is not None
    assert outcome.release


@pytest.mark.anyio
@pytest.mark.parametrize(("error", "traced"), [(SlugTakenError("it is taken"), False), (KeyError("odd"), True)])
async def test_only_an_error_that_nobody_foresaw_has_a_traceback_in_the_log(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception, *, traced: bool
) -> None:
    async def failing(*_: Any, **__: Any) -> Outcome:
        return Outcome(status=None, result="stopped", reason=Reason.SLUG_CONFLICT, errors=(error,))

    monkeypatch.setattr(module, "reconcile", failing)
    with structlog.testing.capture_logs() as lines:
        await bench.runner.run("change", bench.body)
    [line] = lines
    assert (line["event"], line["error"]) == ("reconcile.error", str(error))
    assert (line["exc_info"] is not None) is traced


@pytest.mark.anyio
async def test_two_triggers_for_one_tenant_take_turns_and_two_tenants_do_not_wait(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = bench.world.create(make_spec("globex"), name="globex")
    running: list[str] = []
    most: dict[str, int] = {}
    together = asyncio.Event()

    async def slow(resource: Any, *_: Any, **__: Any) -> Outcome:
        name = resource.owner.name
        running.append(name)
        most[name] = max(most.get(name, 0), running.count(name))
        if len(set(running)) == 2:
            together.set()
        await together.wait()
        running.remove(name)
        return Outcome(status=None, result="stopped", reason=Reason.PENDING)

    monkeypatch.setattr(module, "reconcile", slow)
    triggers: list[Any] = ["change", "timer", "secret"]
    async with asyncio.timeout(5):
        await asyncio.gather(
            *(bench.runner.run(t, bench.body) for t in triggers),
            *(bench.runner.run(t, bench.world.objects[other]) for t in triggers),
        )
    assert most == {"acme": 1, "globex": 1}


@pytest.mark.anyio
async def test_no_more_passes_are_made_at_once_than_may_be(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [bench.world.create(make_spec(f"shop-{n}"), name=f"shop-{n}") for n in range(module.PASSES_MAX + 1)]
    begun, full, release = 0, asyncio.Event(), asyncio.Event()

    async def held(*_: Any, **__: Any) -> Outcome:
        nonlocal begun
        begun += 1
        if begun >= module.PASSES_MAX:
            full.set()
        await release.wait()
        return Outcome(status=None, result="stopped", reason=Reason.PENDING)

    monkeypatch.setattr(module, "reconcile", held)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        for place in places:
            group.create_task(bench.runner.run("change", bench.world.objects[place]))
        await full.wait()
        for _ in places:
            await asyncio.sleep(0)
        assert begun == module.PASSES_MAX
        release.set()
    assert begun == len(places), "who has waited gets a turn"


@pytest.mark.anyio
async def test_a_body_that_is_older_than_the_last_status_does_not_bring_it_back(bench: Bench) -> None:
    stale = bench.body
    await bench.runner.run("change", stale)
    bench.world.secrets.catch_up()
    # The API server has not shown the status yet: a pass by the old body would tell everything once more.
    outcome = await bench.runner.run("secret", {**stale, "status": None})
    assert outcome is not None
    assert outcome.events == []


@pytest.mark.anyio
async def test_a_pass_that_hangs_is_ended_and_said_to_go_on(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hanging(*_: Any, **__: Any) -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError

    await bench.runner.run("change", bench.body)
    monkeypatch.setattr(module, "reconcile", hanging)
    monkeypatch.setattr(module, "PASS_SECONDS_MAX", 0.05)
    outcome = await bench.runner.run("secret", bench.body)
    assert outcome is not None
    assert (outcome.result, outcome.reason) == ("failed", Reason.PROGRESSING)
    assert outcome.retry_after is not None
    assert bench.runner.stuck_seconds == 0.0


@asynccontextmanager
async def _held(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    begun, release = asyncio.Event(), asyncio.Event()

    async def held(*_: Any, **__: Any) -> Outcome:
        begun.set()
        await release.wait()
        return Outcome(status=None, result="stopped", reason=Reason.PENDING)

    monkeypatch.setattr(module, "reconcile", held)
    task = asyncio.create_task(bench.runner.run("change", bench.body))
    await begun.wait()
    yield
    release.set()
    await task


@pytest.mark.anyio
async def test_a_pass_that_nothing_ends_shows_by_its_age(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async with _held(bench, monkeypatch):
        bench.clock.seconds += 300
        assert bench.runner.stuck_seconds == 300.0
        assert bench.metric("payrec_operator_active_reconciles 1.0")
    assert bench.runner.stuck_seconds == 0.0


@pytest.mark.parametrize("count", [0.0, 2.0])
def test_what_no_condition_can_tell_is_counted(bench: Bench, count: float) -> None:
    for name in ("acme", "globex")[: int(count)]:
        bench.runner.note(SecretForbiddenError("write the status: no right"), ("shop", name, f"uid-of-{name}"))
    assert bench.metric(f'payrec_operator_reconcile_errors_total{{reason="ApiServerError"}} {count}')


@pytest.mark.anyio
async def test_a_rotation_is_counted(bench: Bench) -> None:
    bench.world.change(PLACE, apiKeys=[make_key()])
    await bench.runner.run("change", bench.body)
    assert bench.metric('payrec_operator_api_key_rotations_total{result="rotated"} 1.0')
    assert bench.metric('payrec_operator_api_keys{state="active"} 1.0')


def test_what_is_due_before_the_timer_is_waited_for() -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)

    def wait(**given: Any) -> float | None:
        outcome = Outcome(status=None, result="stopped", reason=Reason.PENDING, **given)
        return seconds_until_next(outcome, now, within=300.0)

    assert wait() is None
    assert wait(retry_after=timedelta(seconds=7)) == 7.0
    assert wait(wake_at=now + timedelta(seconds=40), retry_after=timedelta(seconds=90)) == 40.0
    assert wait(wake_at=now - timedelta(hours=1)) == 1.0, "what is overdue comes at once, but not without end"
    assert wait(wake_at=now + timedelta(hours=1)) is None
