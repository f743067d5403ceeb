"""Events and webhooks: how fast a backlog drains, how soon an event is told of, what it costs the change and the idle.

Printed:

- drain: a backlog of outbox rows, sealed and delivered by one worker process to a receiver in a process of its own,
  beside the same receiver asked by a bare aiohttp client; the order of each resource's events is looked at.
- lag: from the instant of an event to the arrival of its first attempt, at a steady rate of changes.
- cost: what a change's last statement takes with events, beside the same without telling the sealer.
- idle: CPU of a worker process that has nothing to do.

    python tests/benchmarks/bench_webhooks.py [--events 100000] [--seconds 20] [--rate 100]
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import psycopg
from psycopg import sql
from pydantic_core import from_json

sys.path.insert(0, str(Path(__file__).parents[1]))

from payrec.bench.figures import write_taken
from payrec.config import Config
from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.principal import Principal
from payrec.domain.scope import TenantScope
from payrec.storage import changes
from support.ports import free_port
from support.postgres import cloned, server
from support.service import Service, Tenant, make_config, running
from support.tenant_data import scope_of_tenant
from support.wire import until
from support.worker_process import worker_process

Taken = dict[str, float | tuple[float, float]]
"""Figures by name, with those of their yardsticks."""

EVENTS_OF_EACH = 5
"""Events of a backlog that are about the same resource, far from each other."""


class _Receiver(asyncio.Protocol):
    """The least that answers 204: it must not be what is measured."""

    def __init__(self, seen: list[tuple[bytes, float]]) -> None:
        self._seen = seen
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            if len(self._buffer) < end + 4 + length:
                return
            self._seen.append((self._buffer[end + 4 : end + 4 + length], time.time()))
            self._buffer = self._buffer[end + 4 + length :]
            self._transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")


def receive(port: int, pipe: Any) -> None:
    """Run the receiver in its process; give what came whenever asked."""
    seen: list[tuple[bytes, float]] = []

    async def serve() -> None:
        await asyncio.get_running_loop().create_server(lambda: _Receiver(seen), "127.0.0.1", port)
        pipe.send("ready")
        while True:
            await asyncio.sleep(0.02)
            if pipe.poll():
                pipe.send(len(seen) if pipe.recv() == "count" else seen[:])

    asyncio.run(serve())


class Receiver:
    """A receiver in a process of its own."""

    def __init__(self) -> None:
        self._pipe, there = multiprocessing.Pipe()
        self.port = free_port()
        self._process = multiprocessing.Process(target=receive, args=(self.port, there), daemon=True)
        self._process.start()
        self._pipe.recv()

    async def ask(self, what: str) -> Any:
        """Return the ``count`` of messages, or the ``messages``."""
        self._pipe.send(what)
        return await asyncio.to_thread(self._pipe.recv)

    async def got(self, count: int) -> None:
        """Wait for so many messages."""

        async def enough() -> bool | None:
            return await self.ask("count") >= count or None

        await until(enough, seconds=3_600)

    def close(self) -> None:
        """End the process."""
        self._process.kill()


@asynccontextmanager
async def hooked(tenant: Tenant) -> AsyncIterator[Receiver]:
    """Give a tenant an endpoint for everything that happens here; that the tenant was made is not measured."""
    receiver = Receiver()
    wanted = ["expected_transaction.created", "expected_transaction.updated"]
    made = await tenant.post("/webhooks", {"url": f"http://127.0.0.1:{receiver.port}/hook", "events": wanted})
    assert made.status_code == 201, made.text
    try:
        yield receiver
    finally:
        receiver.close()


def backlog(url: str, scope: TenantScope, events: int) -> None:
    """Put a backlog into the outbox, one row an event, and say so once."""
    with psycopg.connect(url) as connection:
        connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(scope.schema_name)))
        connection.execute("INSERT INTO change (id) VALUES (%s)", (UUID(int=1),))
        connection.execute(
            "INSERT INTO outbox (change_id, ordinal, type, resource_ids)"
            " SELECT %s, n, 'expected_transaction.updated', ARRAY[md5((n %% %s)::text)::uuid]"
            " FROM generate_series(1, %s) n",
            (UUID(int=1), events // EVENTS_OF_EACH, events),
        )
        connection.execute("INSERT INTO control.unsealed_change VALUES (%s, %s)", (UUID(int=1), scope.environment_id))


async def drain(service: Service, url: str, config: Config, events: int) -> Taken:
    """Measure how fast a backlog drains, in events a second, beside the bare client."""
    tenant = await service.tenant("drained", environments=["production"])
    scope = await scope_of_tenant(service.factory, tenant)
    async with hooked(tenant) as receiver:
        await asyncio.to_thread(backlog, url, scope, events)
        began = time.perf_counter()
        async with worker_process(config, lease=15) as worker:
            started = time.perf_counter()
            await receiver.got(events)
            seconds = time.perf_counter() - started
            cpu = _cpu_seconds(worker.pid)
        print(f"drain: {events} events in {seconds:.1f} s: {events / seconds:.0f}/s (start {started - began:.1f} s)")
        print(f"       CPU of the worker: {cpu / events * 1e6:.0f} µs an event")
        seen = await receiver.ask("messages")
    at, wrong, ids = {}, 0, set()
    async with service.factory.context.database.tenant(scope) as connection:
        rows = await (await connection.execute("SELECT id, position FROM event")).fetchall()
    places = {str(row["id"]): row["position"] for row in rows}
    for body, _ in seen:
        message = from_json(body)
        resource, place = message["data"]["resourceId"], places[message["id"]]
        wrong += place <= at.get(resource, 0)
        at[resource] = place
        ids.add(message["id"])
    print(f"       {len(seen)} messages of {len(ids)} events, {wrong} out of the order of their resource")
    beside = await bare()
    print(f"       a bare aiohttp client, same receiver: {beside:.0f}/s")
    return {"drain": (events / seconds, beside), "disorder": float(wrong + events - len(ids))}


async def bare(count: int = 10_000, at_once: int = 32) -> float:
    """Return how many empty messages a second aiohttp alone sends."""
    receiver = Receiver()
    left = iter(range(count))

    async def send(session: aiohttp.ClientSession) -> None:
        for _ in left:
            async with session.post(f"http://127.0.0.1:{receiver.port}/hook", data=b"{}"):
                pass

    async with aiohttp.ClientSession() as session:
        began = time.perf_counter()
        await asyncio.gather(*(send(session) for _ in range(at_once)))
        rate = count / (time.perf_counter() - began)
    receiver.close()
    return rate


async def lag(service: Service, config: Config, seconds: float, rate: int) -> Taken:
    """Measure the time from an event to its first attempt, at a steady rate."""
    tenant = await service.tenant("lagging", environments=["production"])
    body = {"direction": "credit", "amount": "123.45", "currency": "EUR"}
    async with hooked(tenant) as receiver, worker_process(config, lease=15):
        count = int(seconds * rate)
        began = time.perf_counter()
        asked = []
        for n in range(count):
            await asyncio.sleep(max(0.0, began + n / rate - time.perf_counter()))
            asked.append(asyncio.create_task(tenant.post("/expected-transactions", body)))
        assert {answer.status_code for answer in await asyncio.gather(*asked)} == {201}
        took = time.perf_counter() - began
        await receiver.got(count)
        lags = sorted(at - datetime.fromisoformat(from_json(b)["timestamp"]).timestamp() for b, at in
                      await receiver.ask("messages"))  # fmt: skip
    print(
        f"lag: {count / took:.0f} events/s over HTTP: p50 {lags[len(lags) // 2] * 1000:.0f} ms,"
        f" p99 {lags[int(len(lags) * 0.99)] * 1000:.0f} ms, longest {lags[-1] * 1000:.0f} ms"
    )
    return {"lag_p99": lags[int(len(lags) * 0.99)] * 1000}


async def cost(service: Service, count: int) -> Taken:
    """Measure what telling the sealer adds to a change, alternating with changes that do not tell."""
    tenant = await service.tenant("costly", environments=["production"])
    scope = await scope_of_tenant(service.factory, tenant)
    caller = Caller(principal=Principal(kind="system", name="bench"), request_id="bench", scope=scope)
    telling = changes._FINISH
    # Who has no events tells nobody.
    quiet = telling.replace(" AS has_events", " AS had_events, false AS has_events")
    assert quiet != telling
    ids = service.factory.context.ids
    times: dict[str, list[float]] = {telling: [], quiet: []}
    for _ in range(count):
        for statement, taken in times.items():
            changes._FINISH = statement  # type: ignore[misc]
            began = time.perf_counter()
            async with service.factory.work.tenant(caller, resumed=True) as unit:
                unit.record(Record(action="expected_transaction.created", resource_id=ids.new()))
            taken.append(time.perf_counter() - began)
    changes._FINISH = telling  # type: ignore[misc]
    with_it, without = (statistics.median(taken) * 1000 for taken in times.values())
    print(f"cost: a change {with_it:.3f} ms, without telling {without:.3f} ms: {with_it - without:+.3f} ms (medians)")
    return {"cost": (with_it, without)}


async def idle(config: Config, seconds: float) -> Taken:
    """Measure the CPU of a worker that has nothing to do."""
    async with worker_process(config, lease=15) as worker:
        await asyncio.sleep(3)
        before = _cpu_seconds(worker.pid)
        await asyncio.sleep(seconds)
        used = _cpu_seconds(worker.pid) - before
    print(f"idle: {used / seconds * 100:.2f} % of a core")
    return {"idle": used / seconds * 100}


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def main(arguments: argparse.Namespace) -> None:
    """Measure what is asked for."""
    with server() as postgres, cloned(postgres) as database:
        config = make_config(database)
        async with running(config, worker=False) as service:
            print(datetime.now(UTC).date(), f"{os.cpu_count()} cores")
            taken: Taken = {}
            if "cost" in arguments.only:
                taken |= await cost(service, arguments.changes)
            if "idle" in arguments.only:
                taken |= await idle(config, arguments.seconds)
            if "lag" in arguments.only:
                taken |= await lag(service, config, arguments.seconds, arguments.rate)
            if "drain" in arguments.only:
                taken |= await drain(service, database.superuser_url, config, arguments.events)
            write_taken(arguments.json, taken)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--changes", type=int, default=1_500)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rate", type=int, default=100)
    parser.add_argument("--only", nargs="+", default=["cost", "idle", "lag", "drain"])
    parser.add_argument("--json", type=Path)
    asyncio.run(main(parser.parse_args()))
