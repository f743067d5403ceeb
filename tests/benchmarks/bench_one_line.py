"""Time runs over one new line each against many open items: ``bench_one_line.py [items] [--lines N] [--new N]``.

All in one worker that is warm, as a job does it, one line after the other and some of every class of the generator.
Told are the medians and the 99th percentiles of wall time, and of the processor time of the worker and of PostgreSQL by
part: on a busy machine only these two mean something. With ``--new 10000`` a run is over as many lines.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import os
import pstats
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import psycopg
import structlog

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from bench_run import durable_server

from payrec.bench.generator import generate
from payrec.bench.load import Stamp, render_expected, render_incoming
from payrec.bench.store import BenchStore
from payrec.domain.scope import TenantScope
from payrec.embedded.postgres import EmbeddedDatabase
from payrec.factory import Factory
from payrec.jobs.runner import JobRunner
from payrec.services import matching
from payrec.storage.jobs import JobStore
from support.postgres import cloned
from support.service import make_config, running
from support.tenant_data import scope_of_tenant

PARTS = ("around", "read", "engine", "commit")
NANOSECONDS = 1e9


def worker_seconds() -> float:
    """Return the processor time of this process."""
    return time.process_time()


@dataclass
class Spent:
    """Processor time by part, of the worker and of the database."""

    backends: dict[int, int] = field(default_factory=dict)
    """Nanoseconds that each of PostgreSQL's processes has taken; one that has ended has taken what it last had."""
    parts: dict[str, tuple[float, float]] = field(default_factory=dict)

    def server_seconds(self) -> float:
        """Return the processor time of PostgreSQL's processes."""
        for pid in self.backends:
            with suppress(OSError):
                self.backends[pid] = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
        return sum(self.backends.values()) / NANOSECONDS

    @contextmanager
    def part(self, name: str) -> Any:
        """Count what is spent within as a part."""
        worker, server = worker_seconds(), self.server_seconds()
        try:
            yield
        finally:
            before = self.parts.get(name, (0.0, 0.0))
            self.parts[name] = (before[0] + worker_seconds() - worker, before[1] + self.server_seconds() - server)


def observed(spent: Spent) -> None:
    """Have the parts of a run counted."""
    service = matching.MatchingService

    def wrapped(function: Callable[..., Any], name: str) -> Callable[..., Any]:
        async def counted(*args: Any, **kwargs: Any) -> Any:
            with spent.part(name):
                return await function(*args, **kwargs)

        return counted

    service._read = wrapped(service._read, "read")  # type: ignore[method-assign]
    service._commit = wrapped(service._commit, "commit")  # type: ignore[method-assign]
    engine = matching._proposed

    def proposed(*args: Any, **kwargs: Any) -> Any:
        with spent.part("engine"):
            return engine(*args, **kwargs)

    matching._proposed = proposed


async def run(factory: Factory, scope: TenantScope, params: dict[str, Any]) -> dict[str, Any]:
    """Queue a run, do it as a worker does, and return its log line."""
    context = factory.context
    now = datetime.now(UTC)
    async with context.database.tenant(scope) as connection:
        await JobStore(connection).add(
            {
                "id": context.ids.new(),
                "created_at": now,
                "updated_at": now,
                "kind": "match",
                "status": "queued",
                "actor": "system:bench",
                "request_id": "bench",
                "params": params,
            }
        )
    runner = JobRunner(factory)
    with structlog.testing.capture_logs() as lines:
        start = time.perf_counter()
        await runner.drain(scope.environment_id, "match")
        total = time.perf_counter() - start
    for line in lines:
        if line["event"] == "job.crashed":
            raise RuntimeError(line)
    [line] = [x for x in lines if x["event"] == "match_run.finished"]
    return {**line, "total": total}


async def load(factory: Factory, scope: TenantScope, at: datetime, **sides: pl.DataFrame) -> None:
    """Copy rows in."""
    ids = factory.context.ids
    stamp = Stamp(at=at, change_id=ids.new())
    renders = {"expected": render_expected, "incoming": render_incoming}
    with tempfile.TemporaryDirectory(prefix="payrec-rows-") as name:
        rendered = [
            renders[side](rows, Path(name) / side, ids=ids, stamp=stamp)  # type: ignore[operator]
            for side, rows in sides.items()
        ]
        async with factory.context.database.tenant(scope) as connection:
            await BenchStore(connection).copy(rendered)


def backends(database: EmbeddedDatabase) -> list[int]:
    """Return the processes that serve the database."""
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        query = """
            SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
                AND backend_type = 'client backend'
        """
        return [row[0] for row in connection.execute(query)]


def held_back(rows: int, seed: int, lines: int, new: int) -> tuple[Any, list[pl.DataFrame], list[str]]:
    """Return the data, and lines of every class by turns that come later: so many runs of so many lines."""
    data = generate(rows=rows, seed=seed, preset="base")
    truth = data.truth.drop_nulls("incoming_id").unique("incoming_id", keep="first", maintain_order=True)
    classes = data.incoming.select("id").join(
        truth.select(id="incoming_id", kind="class"), on="id", how="left", maintain_order="left"
    )
    shuffled = classes.sample(fraction=1.0, shuffle=True, seed=seed)
    chosen = (
        shuffled.with_columns(turn=pl.int_range(pl.len()).over("kind")).sort("turn", maintain_order=True).head(lines)
        if new == 1
        else shuffled.head(lines * new)
    )
    later = [data.incoming.filter(pl.col("id").is_in(part["id"].implode())) for part in chosen.iter_slices(new)]
    return data, later, [str(part["kind"][0]) for part in chosen.iter_slices(new)]


def percentile(values: list[float], share: float) -> float:
    """Return the value below which such a share is."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


@asynccontextmanager
async def loaded(database: EmbeddedDatabase, rows: int, lines: int, new: int, seed: int) -> Any:
    """Load what is there before, and match it."""
    data, later, kinds = held_back(rows, seed, lines, new)
    first = data.incoming.join(pl.concat(later).select("id"), on="id", how="anti")
    async with running(make_config(database), worker=False) as service:
        tenant = await service.tenant("bench", environments=["production"])
        settings = {"matching": {"autoAccept": True, "autoAcceptMinConfidence": "high"}}
        await tenant.request("PATCH", f"/tenants/{tenant.id}/settings", json=settings)
        scope = await scope_of_tenant(service.factory, tenant)
        earlier = datetime.now(UTC) - timedelta(minutes=1)
        # The lines come first, so that what is paid is closed by the first run and what is left are open items.
        await load(service.factory, scope, earlier, expected=data.expected, incoming=first)
        with psycopg.connect(database.superuser_url, autocommit=True) as connection:
            connection.execute("ANALYZE")
        await run(service.factory, scope, {})
        with psycopg.connect(database.superuser_url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")
        yield service.factory, scope, later, kinds


async def bench(database: EmbeddedDatabase, given: argparse.Namespace) -> None:
    """Load, run, print."""
    async with loaded(database, given.items, given.lines, given.new, given.seed) as (factory, scope, later, kinds):
        await timed(database, factory, scope, later, kinds, given)


async def timed(
    database: EmbeddedDatabase,
    factory: Factory,
    scope: TenantScope,
    later: list[pl.DataFrame],
    kinds: list[str],
    given: argparse.Namespace,
) -> None:
    """Run over the lines, and print what that took."""
    out = sys.stdout
    spent = Spent()
    observed(spent)
    figures: list[dict[str, tuple[float, float]]] = []
    walls, items = [], []
    profile = cProfile.Profile()
    for number, rows in enumerate(later):
        now = datetime.now(UTC)
        await load(factory, scope, now, incoming=rows)
        spent.backends, spent.parts = dict.fromkeys(backends(database), 0), {}
        is_warm = number >= given.warm
        if given.profile and is_warm:
            profile.enable()
        with spent.part("total"):
            line = await run(factory, scope, {"incomingFilter": {"createdFrom": now.isoformat()}})
        profile.disable()
        if is_warm:
            figures.append(spent.parts)
            walls.append(line["total"])
            items.append(line["expected"])
        if given.each:
            worker, server = spent.parts["total"]
            out.write(
                f"{kinds[number]:24} {line['total'] * 1000:7.1f} ms wall, processor {worker * 1000:6.1f} and"
                f" {server * 1000:5.1f} ms, {line['expected']} items, {line['proposed']} proposed\n"
            )
    for parts in figures:
        known = [parts.get(name, (0.0, 0.0)) for name in PARTS[1:]]
        parts["around"] = tuple(parts["total"][at] - sum(part[at] for part in known) for at in (0, 1))
    out.write(f"{given.items} items loaded; {len(walls)} runs over {given.new}; load {os.getloadavg()[0]:.1f}\n")
    out.write(f"items read: median {percentile(items, 0.5):.0f}, most {max(items)}\n")
    out.write(f"{'ms':10} {'median':>8} {'p99':>8}\n")
    for share in (walls,):
        out.write(f"{'wall':10} {percentile(share, 0.5) * 1000:8.1f} {percentile(share, 0.99) * 1000:8.1f}\n")
    for name in (*PARTS, "total"):
        for at, side in enumerate(("worker", "server")):
            values = [parts.get(name, (0.0, 0.0))[at] for parts in figures]
            out.write(
                f"{name + ' ' + side:18} {percentile(values, 0.5) * 1000:8.2f} {percentile(values, 0.99) * 1000:8.2f}\n"
            )
    if given.profile:
        pstats.Stats(profile).dump_stats(given.profile)
    out.write(f"classes: {dict(Counter(kinds))}\n" if given.each else "")


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("items", type=int, nargs="?", default=200_000)
    parser.add_argument("--lines", type=int, default=150, help="runs")
    parser.add_argument("--new", type=int, default=1, help="lines of each run")
    parser.add_argument("--warm", type=int, default=30, help="runs that do not count")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--each", action="store_true", help="tell of each run")
    parser.add_argument("--profile", help="a file for where the worker's time goes")
    given = parser.parse_args()
    with durable_server() as postgres, cloned(postgres) as database:
        asyncio.run(bench(database, given))


if __name__ == "__main__":
    main()
