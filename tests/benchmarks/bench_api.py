"""GET of a 50-row page and POST of one expected transaction, beside a bare FastAPI + psycopg handler.

The bare handler runs the very same SQL messages over the same kind of pool, and nothing else: no gate, no
credentials checked, no model, no cursor. Both servers run in processes of their own with one event loop; the client
sends requests over keep-alive sockets. Measured are requests a second and processor time of the server's process, in
turns with the bare handler, and then the time of a page when as many are asked for as are 80 % of that.

    python tests/benchmarks/bench_api.py [--seconds 3] [--rounds 5] [--clients 8] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
import psycopg
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool
from uuid_utils.compat import uuid7

sys.path.insert(0, str(Path(__file__).parents[1]))

from payrec.bench.figures import write_taken
from payrec.commands import serve
from payrec.config import Config
from support.ports import free_port
from support.postgres import cloned, server
from support.service import Tenant, make_config, running
from support.variables import variables

ROWS = 500
LOAD = 0.8
"""Share of what the server manages at which the time of a page is taken."""

LATENCY_CLIENTS = 32
"""More than wait at once at that load, so that no request waits for its client."""

BODY = {"direction": "credit", "amount": "123.45", "currency": "EUR", "reference": "INV-1", "dueDate": "2026-03-01"}


class Recorder:
    """Remembers the SQL messages that a request of the real service sends."""

    def __init__(self) -> None:
        self.messages: list[tuple[bytes, Any, bool]] = []
        self._execute = psycopg.AsyncConnection.execute

    def __enter__(self) -> Recorder:
        recorder = self

        async def execute(connection: Any, query: Any, params: Any = None, **options: Any) -> Any:
            text = query if isinstance(query, bytes | str) else query.as_bytes(connection)
            text = text if isinstance(text, bytes) else text.encode()
            recorder.messages.append((text, params, options.get("prepare") is not False))
            return await recorder._execute(connection, query, params, **options)

        psycopg.AsyncConnection.execute = execute  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        psycopg.AsyncConnection.execute = self._execute  # type: ignore[method-assign]


def bare_app(url: str, get: list[Any], post: list[Any], new_ids: list[str]) -> FastAPI:
    """Return the bare handlers: the recorded messages in their transactions, the last rows as the answer."""
    app = FastAPI()
    pool = AsyncConnectionPool(
        url, kwargs={"autocommit": True, "row_factory": dict_row}, min_size=2, max_size=10, open=False
    )

    async def run(messages: list[Any], replaced: dict[str, UUID]) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        connection = None
        for text, params, prepared in messages:
            if connection is None:
                connection = await pool.getconn()
            if isinstance(params, dict):
                values = {k: replaced.get(str(v), v) if isinstance(v, UUID) else v for k, v in params.items()}
                if "resources" in values:
                    values["resources"] = [replaced.get(str(v), v) for v in values["resources"]]
            else:
                values = params
            cursor = await connection.execute(text, values, prepare=None if prepared else False)
            if cursor.description is not None:
                rows = await cursor.fetchall()
            if text == b"COMMIT":
                await pool.putconn(connection)
                connection = None
        return rows

    @app.get("/bare")
    async def get_(_request: Request) -> Any:
        if pool.closed:
            await pool.open()
        return await run(get, {})

    @app.post("/bare")
    async def post_(body: dict[str, Any]) -> Any:
        if pool.closed:
            await pool.open()
        await run(post, {old: uuid7() for old in new_ids})
        return JSONResponse(body, status_code=201)

    return app


def serve_bare(port: int, url: str, get: list[Any], post: list[Any], new_ids: list[str]) -> None:
    """Run the bare server in its process."""
    uvicorn.run(bare_app(url, get, post, new_ids), port=port, log_config=None, access_log=False)


def serve_real(config: Config) -> None:
    """Run ``payrec serve`` with these settings in its process."""
    os.environ.update(variables(config))
    serve.run(argparse.Namespace())


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> None:
    """Send a request, and read its answer, which must be good."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")), head
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    await reader.readexactly(length)


async def load(port: int, request: bytes, *, clients: int, seconds: float) -> float:
    """Return requests a second of a number of keep-alive connections."""
    until = time.perf_counter() + seconds
    done = 0

    async def client() -> None:
        nonlocal done
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < until:
            await answer(reader, writer, request)
            done += 1
        writer.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return done / seconds


def raw(method: str, path: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    """Return a request as bytes."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *(f"{k}: {v}" for k, v in headers.items())]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def wait_for(port: int) -> None:
    """Wait until the port answers."""
    for _ in range(1_200):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return


async def record(acme: Tenant, key: dict[str, str]) -> tuple[list[Any], list[Any], list[str]]:
    """Return the SQL messages of both requests, and the ids that every POST makes anew."""
    for _ in range(6):
        await acme.http.get(f"{acme.base_url}/expected-transactions?limit=50", headers=key)
    with Recorder() as get:
        answer = await acme.http.get(f"{acme.base_url}/expected-transactions?limit=50", headers=key)
        assert answer.status_code == 200
    with Recorder() as post:
        answer = await acme.http.post(f"{acme.base_url}/expected-transactions", headers=key, json=BODY)
        assert answer.status_code == 201, answer.text
    new_ids = {str(v) for _, p, _ in post.messages if isinstance(p, dict) for v in p.values() if isinstance(v, UUID)}
    keep = {acme.id}
    return get.messages, post.messages, sorted(new_ids - keep)


async def main(arguments: argparse.Namespace) -> None:
    """Run the comparison."""
    with server() as postgres, cloned(postgres) as database:
        config = make_config(database)
        async with running(config, worker=False) as service:
            acme = await service.tenant("acme", environments=["production"])
            made = await acme.post("/auth/api-keys", {"name": "bench", "read": True, "write": True})
            key = {"X-Api-Key": made.json()["apiKey"], "X-Tenant-Id": acme.id, "X-Environment": "production"}
            gate = asyncio.Semaphore(16)

            async def one(number: int) -> None:
                async with gate:
                    await acme.http.post(
                        f"{acme.base_url}/expected-transactions",
                        headers=key,
                        json={**BODY, "externalId": f"e{number}", "counterpartyName": "Bolt GmbH"},
                    )

            await asyncio.gather(*(one(n) for n in range(ROWS)))
            get, post, new_ids = await record(acme, key)
        real_port, bare_port = free_port(), free_port()
        plain = [(t, _plain(p), prepared) for t, p, prepared in post]
        context = multiprocessing.get_context("spawn")
        processes = [
            context.Process(target=serve_real, args=(config.model_copy(update={"port": real_port}),), daemon=True),
            context.Process(target=serve_bare, args=(bare_port, database.url, get, plain, new_ids), daemon=True),
        ]
        for process in processes:
            process.start()
        try:
            await wait_for(real_port)
            await wait_for(bare_port)
            watched = [psutil.Process(process.pid) for process in processes]
            await compare(arguments, watched[0], watched[1], (real_port, bare_port), key)
        finally:
            for process in processes:
                process.terminate()
                process.join()


def _plain(params: Any) -> Any:
    """Return parameters that can go to another process."""
    if isinstance(params, dict):
        return {k: _plain(v) for k, v in params.items()}
    if isinstance(params, list):
        return [_plain(v) for v in params]
    return Jsonb(params.obj, params.dumps) if isinstance(params, Jsonb) else params


async def compare(
    arguments: argparse.Namespace,
    real: psutil.Process,
    bare: psutil.Process,
    ports: tuple[int, int],
    key: dict[str, str],
) -> None:
    """Measure both, in turns so that neither has the better moment; the processor's time hardly knows of neighbours."""
    body = json.dumps(BODY).encode()
    requests = {
        "get": (raw("GET", "/expected-transactions?limit=50", key), raw("GET", "/bare", {})),
        "post": (raw("POST", "/expected-transactions", key, body), raw("POST", "/bare", {}, body)),
    }
    taken: dict[str, tuple[float, float]] = {}
    for name, both in requests.items():
        rates: list[list[float]] = [[], []]
        spent: list[list[float]] = [[], []]
        for number in range(arguments.rounds + 1):
            for at in (0, 1) if number % 2 else (1, 0):
                process = (real, bare)[at]
                before = _cpu_seconds(process)
                rate = await load(ports[at], both[at], clients=arguments.clients, seconds=arguments.seconds)
                if number:  # the first turn fills caches
                    rates[at].append(rate)
                    spent[at].append((_cpu_seconds(process) - before) / (rate * arguments.seconds) * 1e6)
        taken[name] = sorted(zip(*rates, strict=True), key=lambda pair: pair[0] / pair[1])[arguments.rounds // 2]
        taken[f"{name}_cpu"] = (statistics.median(spent[0]), statistics.median(spent[1]))
        print(name, taken[name], taken[f"{name}_cpu"], flush=True)
    # In turns as well, and the median of them: what a machine with neighbours manages is another figure soon, and one
    # pause of it is a p99 of its own.
    times = []
    for _ in range(arguments.rounds):
        rate = await load(ports[0], requests["get"][0], clients=arguments.clients, seconds=arguments.seconds)
        times.append(await latency(ports[0], requests["get"][0], rate=rate * LOAD, seconds=arguments.seconds))
    taken["page_p99"] = sorted(times, key=lambda pair: pair[0] / pair[1])[arguments.rounds // 2]
    write_taken(arguments.json, taken)


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


async def latency(port: int, request: bytes, *, rate: float, seconds: float) -> tuple[float, float]:
    """Return the milliseconds (p99, p50) of requests that are sent at a steady rate, from when each was due."""
    took: list[float] = []
    began = time.perf_counter()
    numbers = iter(range(int(rate * seconds)))

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in numbers:
            due = began + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            await answer(reader, writer, request)
            took.append(time.perf_counter() - due)
        writer.close()

    await asyncio.gather(*(client() for _ in range(LATENCY_CLIENTS)))
    took.sort()
    p50, p99 = (took[int(len(took) * share)] * 1000 for share in (0.5, 0.99))
    print(f"a page at {rate:.0f}/s: p50 {p50:.1f} ms, p99 {p99:.1f} ms", flush=True)
    return p99, p50


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--json", type=Path)
    asyncio.run(main(parser.parse_args()))
