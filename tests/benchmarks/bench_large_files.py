"""Large files: the memory that reading one takes, and how fast the API answers others meanwhile.

The API, the worker and the sender of the file are processes of their own. Three parts, each on request:

- ``--camt-mib 255``: a camt.053 of so many MiB; printed is what its worker's memory grew by, above the idle process.
- ``--csv-rows 2000000``: a CSV of as many rows as a file may have; the same.
- ``--busy-mib 60``: small requests, one after the other, while nothing else happens and while a CSV of so many MiB is
  sent and read; printed is the time that 99 of 100 stay below (p99) of either, and the ratio.

    python tests/benchmarks/bench_large_files.py --camt-mib 255 --csv-rows 2000000 --busy-mib 60
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

import httpx2

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from bench_api import BODY, raw, serve_real, wait_for

from payrec.config import Config
from support.camt import ACCOUNT, HEAD, TAIL, details, ntry
from support.postgres import cloned, server
from support.service import make_config, running
from support.worker_process import worker_process

MIB = 1024 * 1024
LEASE_SECONDS = 15.0
WARM_ROWS = 2_000
SAMPLES_MIN = 400
"""Small requests of either kind that a percentile is taken of, at the least."""


def camt_file(size: int) -> Iterator[bytes]:
    """Yield one statement of about so many bytes."""
    yield f"{HEAD}<Stmt><Id>S</Id>{ACCOUNT}".encode()
    written = n = 0
    while written < size:
        entries = []
        for _ in range(500):
            n += 1
            party = f"<RltdPties><Dbtr><Nm>Customer {n % 5000} GmbH</Nm></Dbtr></RltdPties>"
            text = f"<RmtInf><Ustrd>Invoice INV-{n:08} thanks</Ustrd></RmtInf>"
            one = f"<Refs><AcctSvcrRef>B{n}</AcctSvcrRef><EndToEndId>E-{n}</EndToEndId></Refs>{party}{text}"
            entries.append(ntry(details(one), amount=f"{n % 9000 + 10}.{n % 100:02}"))
        piece = "".join(entries).encode()
        written += len(piece)
        yield piece
    yield f"</Stmt>{TAIL}".encode()


def csv_file(*, rows: int = 0, size: int = 0) -> Iterator[bytes]:
    """Yield a bank's CSV of so many rows, or bytes."""
    yield b"Booking date;Value date;Amount;Currency;Name;IBAN;Remittance\n"
    written = n = 0
    while n < rows or written < size:
        lines = []
        for _ in range(min(500, rows - n) if rows else 500):
            n += 1
            day = f"2026-{n % 9 + 1:02}-{n % 28 + 1:02}"
            lines.append(
                f"{day};{day};{n % 9000 + 10}.{n % 100:02};EUR;Customer {n % 5000} GmbH;DE{n % 97:02}1001001{n:011};"
                f"Invoice INV-{n:08} thanks\n"
            )
        piece = "".join(lines).encode()
        written += len(piece)
        yield piece


def send(url: str, headers: dict[str, str], path: str, answers: multiprocessing.Queue[str]) -> None:
    """Upload a file, in a process of its own."""
    with Path(path).open("rb") as file:
        answer = httpx2.post(f"{url}?format=auto", headers=headers, content=iter(lambda: file.read(65_536), b""),
                             timeout=600.0)  # fmt: skip
    answers.put(answer.text)


def kib(pid: int, name: str) -> int:
    """Return a figure of a process's memory (Linux, proc(5))."""
    return int(Path(f"/proc/{pid}/status").read_text().split(f"{name}:")[1].split()[0])


class Bench:
    """A server in its process, and a key to it."""

    def __init__(self, config: Config, headers: dict[str, str]) -> None:
        self.config = config
        self.headers = headers
        self.url = f"http://127.0.0.1:{config.port}"

    async def upload(self, pieces: Iterator[bytes]) -> dict[str, object]:
        """Send a file and return its import when it has ended."""
        with tempfile.NamedTemporaryFile() as file:
            self._write(file, pieces)
            context = multiprocessing.get_context("spawn")
            answers: multiprocessing.Queue[str] = context.Queue()
            headers = {**self.headers, "Content-Type": "application/octet-stream"}
            target = f"{self.url}/incoming-transactions/upload"
            sender = context.Process(target=send, args=(target, headers, file.name, answers), daemon=True)
            sender.start()
            found: dict[str, object] = json.loads(await asyncio.to_thread(answers.get))
            sender.join()
        async with httpx2.AsyncClient(headers=self.headers, timeout=60.0) as http:
            while found["status"] == "processing":
                await asyncio.sleep(0.5)
                found = (await http.get(f"{self.url}/imports/{found['id']}")).json()
        assert found["status"] == "completed", found
        return found

    @staticmethod
    def _write(file: IO[bytes], pieces: Iterator[bytes]) -> None:
        for piece in pieces:
            file.write(piece)
        file.flush()

    async def memory(self, name: str, pieces: Iterator[bytes]) -> None:
        """Print what a new worker's memory grows by when it reads a file, above what it has when it is idle."""
        async with worker_process(self.config, lease=LEASE_SECONDS) as worker:
            await asyncio.sleep(2)
            idle = kib(worker.pid, "VmRSS")
            began = time.perf_counter()
            found = await self.upload(pieces)
            seconds = time.perf_counter() - began
            peak = kib(worker.pid, "VmHWM")
        print(
            f"{name}: {found['counts']}, {seconds:.0f} s; worker idle {idle / 1024:.0f} MiB,"
            f" grew by {(peak - idle) / 1024:.0f} MiB (goal 200)"
        )

    async def busy(self, pieces: Iterator[bytes]) -> None:
        """Print the p99 of small requests while nothing else happens, and while a file is sent and read."""
        async with worker_process(self.config, lease=LEASE_SECONDS):
            # The interpreter and the connections get warm.
            await self.upload(csv_file(rows=WARM_ROWS))
            async with httpx2.AsyncClient(headers=self.headers, timeout=60.0) as http:
                created = (await http.post(f"{self.url}/expected-transactions", json=BODY)).json()
            requests = {
                "GET one": raw("GET", f"/expected-transactions/{created['id']}", self.headers),
                "POST one": raw("POST", "/expected-transactions", self.headers, json.dumps(BODY).encode()),
            }
            idle = await self._latencies(requests, None)
            loaded = await self._latencies(requests, asyncio.create_task(self.upload(pieces)))
        for name in requests:
            calm, other = p99(idle[name]), p99(loaded[name])
            print(
                f"{name}: p99 {calm * 1000:.1f} ms idle, {other * 1000:.1f} ms of {len(loaded[name])} while a file is"
                f" read; ratio {other / calm:.2f} (goal 2)"
            )

    async def _latencies(
        self, requests: dict[str, bytes], until: asyncio.Task[dict[str, object]] | None
    ) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {name: [] for name in requests}
        reader, writer = await asyncio.open_connection("127.0.0.1", self.config.port)
        while not until.done() if until is not None else len(found["GET one"]) < SAMPLES_MIN:
            for name, request in requests.items():
                began = time.perf_counter()
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")), head
                await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
                found[name].append(time.perf_counter() - began)
            await asyncio.sleep(0.01)
        writer.close()
        return found


def p99(values: list[float]) -> float:
    """Return what 99 of 100 stay below."""
    return sorted(values)[len(values) * 99 // 100]


@asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    """Start a database and a server."""
    with server() as postgres, cloned(postgres) as database:
        config = make_config(database)
        async with running(config, worker=False) as service:
            acme = await service.tenant("acme", environments=["production"])
            made = await acme.post("/auth/api-keys", {"name": "bench", "read": True, "write": True})
            headers = {"X-Api-Key": made.json()["apiKey"], "X-Tenant-Id": acme.id, "X-Environment": "production"}
        process = multiprocessing.get_context("spawn").Process(target=serve_real, args=(config,), daemon=True)
        process.start()
        try:
            await wait_for(config.port)
            yield Bench(config, headers)
        finally:
            process.terminate()
            process.join()


async def main(arguments: argparse.Namespace) -> None:
    """Run the parts that are asked for."""
    async with bench() as made:
        if arguments.busy_mib:
            await made.busy(csv_file(size=arguments.busy_mib * MIB))
        if arguments.camt_mib:
            await made.memory(f"camt of {arguments.camt_mib} MiB", camt_file(arguments.camt_mib * MIB))
        if arguments.csv_rows:
            await made.memory(f"CSV of {arguments.csv_rows:,} rows", csv_file(rows=arguments.csv_rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--camt-mib", type=int, default=0)
    parser.add_argument("--csv-rows", type=int, default=0)
    parser.add_argument("--busy-mib", type=int, default=0)
    asyncio.run(main(parser.parse_args()))
