"""A large file into the service and out of it again, kept in PostgreSQL, in a directory, and in a bucket.

Timed are the request that uploads it, from the first byte sent to the answer (a worker would read it afterwards; there
is none), and the request that gets it back. Each place in turn, several times; printed are medians and their ratio to
PostgreSQL. The bucket is the tests' own server of S3's protocol, in a process of its own, which hashes what it serves.

    python tests/benchmarks/bench_blobs.py [--mib 100] [--times 3]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.blobs import VARIABLES
from support.postgres import cloned, server
from support.service import Tenant, make_config, running

SERVE = """
import asyncio
from support.object_server import object_server

async def serve():
    async with object_server() as bucket:
        print(bucket.url, flush=True)
        await asyncio.Event().wait()

asyncio.run(serve())
"""
HEADERS = {"Content-Type": "application/octet-stream"}


@contextmanager
def bucket() -> Iterator[str]:
    """Serve a bucket, and return its address."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", SERVE], stdout=subprocess.PIPE, env=environment, text=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


async def through(tenant: Tenant, data: bytes) -> tuple[float, float]:
    """Return the seconds that the file took in and out."""
    began = time.perf_counter()
    answer = await tenant.post("/incoming-transactions/upload", content=data, headers=HEADERS, timeout=300.0)
    assert answer.status_code == 202, answer.text
    stored = time.perf_counter()
    size = 0
    url = f"{tenant.base_url}/imports/{answer.json()['id']}/content"
    async with tenant.http.stream("GET", url, headers=tenant.headers(), timeout=300.0) as file:
        async for piece in file.aiter_bytes():
            size += len(piece)
    assert size == len(data)
    return stored - began, time.perf_counter() - stored


async def main(mib: int, times: int) -> None:
    """Measure and print."""
    with server() as postgres, tempfile.TemporaryDirectory() as directory, bucket() as address:
        os.environ.update(VARIABLES, AWS_ENDPOINT_URL=address)
        found: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for number in range(times):
            for url in ("postgres", f"file://{directory}", "s3://statements/bench"):
                with cloned(postgres) as database:
                    async with running(make_config(database, blob_url=url), worker=False) as service:
                        tenant = await service.tenant("acme", environments=["production"])
                        data = os.urandom(1024 * 1024) * mib + str(number).encode()
                        found[url.partition(":")[0]].append(await through(tenant, data))
    base = [median(values) for values in zip(*found["postgres"], strict=True)]
    for place, measured in found.items():
        took = [median(values) for values in zip(*measured, strict=True)]
        ratios = [seconds / reference for seconds, reference in zip(took, base, strict=True)]
        print(f"{place:9} in {took[0]:6.2f} s ({ratios[0]:.2f})   out {took[1]:6.2f} s ({ratios[1]:.2f})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=100)
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    asyncio.run(main(given.mib, given.times))
