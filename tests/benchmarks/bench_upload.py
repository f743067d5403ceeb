"""Upload of a CSV through the service, beside COPY of the very same rows into the same indexed table.

The baseline copies rows that were rendered before, in one transaction, into ``incoming_transaction`` with all of its
indexes; nothing is parsed, no key is computed, no duplicate looked for. The upload is timed from the first byte sent
to the finished job of a worker in a process of its own. Printed: both, the ratio, and the memory that the worker took.

    python tests/benchmarks/bench_upload.py [--rows 100000] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import io
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

sys.path.insert(0, str(Path(__file__).parents[1]))

from payrec.bench.figures import write_taken
from payrec.domain.scope import schema_name
from support.postgres import cloned, server
from support.service import Tenant, make_config, running
from support.worker_process import worker_process


def make_csv(rows: int) -> bytes:
    """Return a bank's CSV with distinct payments."""
    out = io.StringIO()
    out.write("Booking date;Value date;Amount;Currency;Name;IBAN;Remittance\n")
    for n in range(rows):
        day = f"2026-{n % 9 + 1:02}-{n % 28 + 1:02}"
        out.write(
            f"{day};{day};{n % 9000 + 10}.{n % 100:02};EUR;Customer {n % 5000} GmbH;DE{n % 97:02}1001001{n:011};"
            f"Invoice INV-{n:08} thanks\n"
        )
    return out.getvalue().encode()


def peak_kib(pid: int) -> int:
    """Return the most memory that a process had so far (Linux, proc(5))."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


async def upload(acme: Tenant, data: bytes, environment: str) -> float:
    """Return the seconds from the first byte to the finished import."""
    began = time.perf_counter()
    path = "/incoming-transactions/upload"
    answer = await acme.post(path, environment=environment, files={"file": ("bank.csv", data)}, timeout=300.0)
    assert answer.status_code in {201, 202}, answer.text
    found = answer.json()
    while found["status"] == "processing":
        await asyncio.sleep(0.1)
        found = (await acme.get(f"/imports/{found['id']}", environment)).json()
    seconds = time.perf_counter() - began
    assert found["status"] == "completed", found
    print(f"  {found['counts']}")
    return seconds


def baseline(url: str, schema: str, other: str) -> tuple[float, int]:
    """Return the seconds of COPY of the stored rows into the other environment's empty table."""
    with psycopg.connect(url) as connection:
        table = sql.Identifier(schema, "incoming_transaction")
        with connection.cursor() as cursor:
            with cursor.copy(sql.SQL("COPY {} TO STDOUT").format(table)) as copy:
                data = b"".join(bytes(chunk) for chunk in copy)
            connection.commit()
            began = time.perf_counter()
            target = sql.Identifier(other, "incoming_transaction")
            with cursor.copy(sql.SQL("COPY {} FROM STDIN").format(target)) as copy:
                for place in range(0, len(data), 262_144):
                    copy.write(data[place : place + 262_144])
            connection.commit()
            return time.perf_counter() - began, len(data)


async def main(arguments: argparse.Namespace) -> None:
    """Run the comparison."""
    with server() as postgres, cloned(postgres) as database:
        config = make_config(database)
        async with running(config, worker=False) as service, worker_process(config, lease=15.0) as worker:
            acme = await service.tenant("acme", environments=["production", "test", "staging"])
            await upload(acme, make_csv(1_000), "staging")
            data: Any = make_csv(arguments.rows)
            before = peak_kib(worker.pid)
            seconds = await upload(acme, data, "production")
            peak = peak_kib(worker.pid)
            plain, size = await asyncio.to_thread(
                baseline, database.superuser_url, schema_name("acme", "production"), schema_name("acme", "test")
            )
            print(f"upload of {arguments.rows} rows ({len(data) / 2**20:.1f} MiB): {seconds:.2f} s")
            print(f"COPY of the same rows ({size / 2**20:.1f} MiB): {plain:.2f} s")
            print(f"memory of the worker: +{(peak - before) / 1024:.0f} MiB")
            write_taken(arguments.json, {"csv": (arguments.rows / seconds, arguments.rows / plain)})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--json", type=Path)
    asyncio.run(main(parser.parse_args()))
