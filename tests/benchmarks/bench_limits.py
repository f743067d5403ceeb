"""GET of a list of one row by API key, with rate limits that nobody reaches, beside the same without any.

Two servers in processes of their own, on the same database; the client sends requests over keep-alive sockets, to one
and to the other in turns. Printed: requests a second, and the ratio, which is the point.

    python tests/benchmarks/bench_limits.py [--seconds 0.5] [--clients 8] [--rounds 40]
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench_api import BODY, load, raw, serve_real, wait_for

from payrec.bench.figures import write_taken
from payrec.config import RATE_LIMIT_MAX, Config
from support.ports import free_port
from support.postgres import cloned, server
from support.service import RATE_LIMITS, make_config, running
from support.wire import add_key

PATH = "/expected-transactions?limit=1"


def limited_to(config: Config, limit: int) -> Config:
    """Return the settings of one server of its own."""
    return config.model_copy(update={"port": free_port(), **dict.fromkeys(RATE_LIMITS, limit)})


async def main(arguments: argparse.Namespace) -> None:
    """Run the comparison."""
    with server() as postgres, cloned(postgres) as database:
        config = make_config(database)
        async with running(config, worker=False) as service:
            acme = await service.tenant("acme", environments=["production"])
            made = await acme.post("/expected-transactions", BODY)
            assert made.status_code == 201, made.text
            key = await add_key(acme)
        headers = {"X-Api-Key": key["apiKey"], "X-Tenant-Id": acme.id, "X-Environment": "production"}
        limited, unlimited = limited_to(config, RATE_LIMIT_MAX), limited_to(config, 0)
        context = multiprocessing.get_context("spawn")
        processes = [context.Process(target=serve_real, args=(c,), daemon=True) for c in (limited, unlimited)]
        for process in processes:
            process.start()
        try:
            await compare(arguments, limited.port, unlimited.port, raw("GET", PATH, headers))
        finally:
            for process in processes:
                process.terminate()
                process.join()


async def compare(arguments: argparse.Namespace, limited: int, unlimited: int, request: bytes) -> None:
    """Print both figures and their ratio, in short turns so that neither has the better moment."""
    for port in (limited, unlimited):
        await wait_for(port)
        await load(port, request, clients=arguments.clients, seconds=1)
    rates: dict[int, list[float]] = {limited: [], unlimited: []}
    for number in range(arguments.rounds):
        for port in (limited, unlimited) if number % 2 else (unlimited, limited):
            rates[port].append(await load(port, request, clients=arguments.clients, seconds=arguments.seconds))
    with_limits, without = statistics.mean(rates[limited]), statistics.mean(rates[unlimited])
    ratios = [ours / theirs for ours, theirs in zip(rates[limited], rates[unlimited], strict=True)]
    print(f"limited {with_limits:.0f}/s, unlimited {without:.0f}/s, median ratio {statistics.median(ratios):.2f}")
    write_taken(arguments.json, {"limited": (with_limits, without)})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", type=Path)
    asyncio.run(main(parser.parse_args()))
