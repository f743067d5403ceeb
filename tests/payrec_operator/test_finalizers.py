"""Nothing is made for a Tenant that could go without a word, and nothing more is told of one that others hold."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import kopf
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from payrec_operator import handlers
from payrec_operator.api_server import ApiServer, NotThereError
from payrec_operator.constants import FINALIZER
from payrec_operator.errors import OperatorError, SecretConflictError, SecretForbiddenError, SecretsUnavailableError
from payrec_operator.handlers import hear_of_tenant, look_again
from payrec_operator.metrics import OperatorMetrics
from payrec_operator.runner import Runner
from payrec_operator.secrets import SecretCache
from payrec_operator.statuses import StatusWriter
from support.operator_world import START, OperatorWorld, make_spec

pytestmark = pytest.mark.anyio

PLACE = ("shop", "acme")
OTHERS = "example.com/backup"


class Server:
    """An API server that has the Tenants of a world, and may refuse or be away."""

    def __init__(self, world: OperatorWorld) -> None:
        self.world = world
        self.refusal: OperatorError | None = None
        self.conflicts = 0
        """Patches before which somebody else changes the Tenant."""
        self.patched: list[tuple[str, dict[str, Any]]] = []
        self.made_before: list[int] = []
        """How many tenants there were at each patch."""

    async def find(self, what: str, path: str) -> dict[str, Any] | None:
        try:
            return await self.ask(what, "GET", path)
        except NotThereError:
            return None

    async def ask(self, _what: str, method: str, path: str, patch: Any = None, **_: Any) -> dict[str, Any]:
        body = self.world.objects.get((path.split("/")[5], path.split("/")[7]))
        if body is None:
            raise NotThereError
        metadata = body["metadata"]
        if method == "PATCH":
            part = "status" if path.endswith("/status") else "metadata"
            if part == "metadata" and self.refusal is not None:
                raise self.refusal
            if part == "metadata" and self.conflicts:
                self.conflicts -= 1
                metadata["resourceVersion"] += "1"
            if patch["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
                raise SecretConflictError
            self.made_before.append(len(self.world.registry.tenants))
            self.patched.append((part, patch[part]))
            body[part] = {**(body.get(part) or {}), **patch[part]}
            metadata["resourceVersion"] += "1"
        return copy.deepcopy(body)


class Bench:
    """The handlers on a world in memory, with one Tenant that nobody holds yet."""

    def __init__(self) -> None:
        self.world = OperatorWorld()
        self.server = Server(self.world)
        self.registry = CollectorRegistry()
        clock = SimpleNamespace(now=lambda: START, monotonic=lambda: 1000.0)
        runner = Runner(
            world=self.world.world,
            metrics=OperatorMetrics(self.registry, resync_seconds=300),
            clock=cast("Any", clock),
            chance=lambda: 0.5,
            fresh=0.0,
        )
        operator = SimpleNamespace(
            runner=runner,
            statuses=StatusWriter(cast("ApiServer", self.server)),
            cache=SecretCache(),
            settings=SimpleNamespace(resync_interval=300),
            factory=SimpleNamespace(context=SimpleNamespace(clock=clock)),
        )
        self.memo = kopf.Memo(operator=operator, due={}, leaving={})
        self.world.create(make_spec())
        self.metadata.update(resourceVersion="1", finalizers=[OTHERS])

    @property
    def metadata(self) -> dict[str, Any]:
        return self.world.objects[PLACE]["metadata"]  # type: ignore[no-any-return]

    @property
    def seen(self) -> kopf.Body:
        """The Tenant as kopf has it now."""
        return kopf.Body(copy.deepcopy(self.world.objects[PLACE]))  # type: ignore[arg-type]

    async def timer(self, seen: kopf.Body | None = None) -> None:
        await look_again(self.seen if seen is None else seen, self.memo)

    def metric(self, line: str) -> bool:
        return line in generate_latest(self.registry).decode()


@pytest.fixture
async def bench(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr(handlers, "_tell", lambda *_: None)
    made = Bench()
    yield made
    tasks = [*made.memo.due.values(), *made.memo.leaving.values()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_what_is_made_before_kopf_has_come_to_a_tenant_is_held_first(bench: Bench) -> None:
    other = bench.world.create(make_spec("globex"), name="globex", namespace="other")
    bench.world.passes(other)
    await bench.timer()
    assert bench.metadata["finalizers"] == [OTHERS, FINALIZER]
    assert bench.server.made_before == [1, 2], "of the other Tenant alone when the finalizer came"
    assert bench.world.condition(PLACE, "Ready") == ("True", "Reconciled")
    patches = len(bench.server.patched)
    await bench.timer()
    assert len(bench.server.patched) == patches, "a steady Tenant costs no request"


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (SecretForbiddenError("put the finalizer on Tenant acme: no right"), "no right"),
        (SecretsUnavailableError("put the finalizer on Tenant acme: away"), "away"),
    ],
)
async def test_nothing_is_made_for_a_tenant_that_cannot_be_held(
    bench: Bench, refusal: OperatorError, told: str
) -> None:
    bench.server.refusal = refusal
    assert bench.metric('payrec_operator_reconcile_errors_total{reason="Pending"} 0.0')
    await bench.timer()
    assert bench.world.registry.tenants == {}
    assert bench.world.secrets.stored == {}
    assert bench.world.condition(PLACE, "Ready") == ("Unknown", "Pending")
    [ready] = bench.world.status(PLACE)["conditions"]
    assert told in ready["message"]
    assert bench.metric('payrec_operator_reconcile_errors_total{reason="Pending"} 1.0')
    assert list(bench.memo.due) == [bench.metadata["uid"]], "it is tried again before the timer comes by"
    bench.server.refusal = None
    await bench.timer()
    assert bench.world.condition(PLACE, "Ready") == ("True", "Reconciled")


async def test_a_tenant_that_others_change_is_held_as_it_is_by_then(bench: Bench) -> None:
    bench.server.conflicts = 2
    await bench.timer()
    assert bench.metadata["finalizers"] == [OTHERS, FINALIZER]
    assert bench.world.condition(PLACE, "Ready") == ("True", "Reconciled")


async def test_nothing_is_made_for_a_tenant_that_is_on_its_way_meanwhile(bench: Bench) -> None:
    seen = bench.seen
    bench.world.delete(PLACE)
    bench.metadata["resourceVersion"] = "7"
    await bench.timer(seen)
    del bench.world.objects[PLACE]
    await bench.timer(seen)
    assert (bench.world.registry.tenants, bench.server.patched) == ({}, [])


@pytest.mark.parametrize("told_by", ["watch", "look"])
async def test_a_tenant_that_only_others_hold_is_not_told_of_any_more(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, told_by: str
) -> None:
    monkeypatch.setattr(handlers, "NUDGE_SECONDS", 0.0)
    other = bench.world.create(make_spec("globex"), name="globex", namespace="other")
    bench.world.passes(other)
    bench.world.delete(other)
    runner = bench.memo.operator.runner
    await runner.run("delete", bench.world.objects[other])
    await bench.timer()
    bench.world.delete(PLACE)
    await runner.run("delete", bench.seen)
    assert bench.metric("payrec_operator_finalizing 2.0")
    await hear_of_tenant("MODIFIED", bench.seen, bench.memo)
    leaving = bench.memo.leaving[bench.metadata["uid"]]
    bench.metadata["finalizers"] = [OTHERS]
    if told_by == "watch":
        await hear_of_tenant("MODIFIED", bench.seen, bench.memo)
    async with asyncio.timeout(5):
        await asyncio.gather(leaving, return_exceptions=True)
    assert bench.metric("payrec_operator_finalizing 1.0"), "the other one is not let go yet"
    assert not bench.metric('name="acme"')
    assert bench.memo.leaving == {}
