"""A measurement: the rows into a fresh tenant environment, the run of the product over them, and what it proposed."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import polars as pl

from payrec import __version__
from payrec.bench.dataset import DataSet, permuted
from payrec.bench.load import Rendered, Stamp, render_expected, render_incoming
from payrec.bench.process import Timing, run_in_process
from payrec.bench.rates import rate_puts
from payrec.bench.store import BenchStore
from payrec.domain.caller import Caller
from payrec.domain.scope import TenantScope
from payrec.factory import Factory
from payrec.models.tenants import TenantCreate
from payrec.services.learning import LearningService
from payrec.services.queued_jobs import queued_job
from payrec.storage.fx_rates import FxRateStore
from payrec.storage.jobs import JobStore

SETTINGS: Final = {"matching": {"autoAccept": True, "autoAcceptMinConfidence": "high"}}
"""Of the tenant; all others are the defaults."""

ENVIRONMENT: Final = "production"

EARLIER: Final = timedelta(minutes=1)
"""How long before the new lines all others have come."""

_LIBRARIES: Final = ("polars", "numpy", "psycopg")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How to measure."""

    new_lines: int = 0
    """The last lines, which come when all others have been matched; the timed run looks at them alone."""
    permute: int | None = None
    """Seed of another order of the rows."""
    repeat: int = 1
    """Runs over the same rows, each in a tenant environment and a process of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was measured."""

    rows: dict[str, int]
    links: pl.DataFrame
    """Every pair that is proposed or accepted, by the ids of the data set: ``match_id`` (matches numbered by their
    content), ``expected_id``, ``incoming_id``, ``auto``, ``score`` (log-odds), ``confidence``, ``kind``,
    ``amount_minor`` and ``settled_minor``."""
    timings: list[Timing]
    repeatable: bool
    """Whether all runs have given the same links."""
    left_out: dict[str, dict[str, int]]
    """Rows that the service would refuse, by side and column."""
    versions: dict[str, str]
    server: dict[str, str]

    @property
    def timing(self) -> Timing:
        """The run of median time."""
        return sorted(self.timings, key=lambda t: t.seconds["total"])[(len(self.timings) - 1) // 2]

    @property
    def peak_rss_mib(self) -> int:
        """The most memory that any of the runs' processes had."""
        return max(t.peak_rss_mib for t in self.timings)

    @property
    def proposals(self) -> int:
        """How many matches there are, accepted ones included."""
        return self.links["match_id"].n_unique()


class Bench:
    """Measures matching in the installation of an opened factory."""

    def __init__(
        self,
        factory: Factory,
        *,
        caller: Caller,
        folder: Path,
        settle: Callable[[], None] = lambda: None,
        tell: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._factory = factory
        self._caller = caller
        self._folder = folder
        self._settle = settle
        """Called before each timed run, for what would disturb it."""
        self._tell = tell
        """Told what goes on: with a million rows, each step takes minutes."""

    async def measure(self, data: DataSet, plan: Plan, past: DataSet | None = None) -> Outcome:
        """Learn of the ``past``, a data set with its truth, where there is one; then load, run and read as planned.

        Raises
        ------
        PayrecError
            A run failed.
        """
        now = self._factory.context.clock.now()
        # What blocks is not given to a thread: nothing else goes on here, and an interruption ends it at once.
        learned = await self._learned(past, now) if past is not None else {}
        self._tell("rendering the rows")
        expected, first, new = self._render(data, plan, now)
        timings, found = [], []
        server: dict[str, str] = {}
        for _ in range(plan.repeat):
            async with self._tenant(SETTINGS) as scope:
                async with self._factory.context.database.tenant(scope) as connection:
                    await BenchStore(connection).remember(learned)
                await self._load_rates(scope, data, now=now)
                timings.append(await self._run(scope, expected, first, new, now=now))
                async with self._factory.context.database.tenant(scope, readonly=True) as connection:
                    store = BenchStore(connection)
                    links, server = await store.links(), await store.server()
            found.append(numbered(links, expected.ids, pl.concat([first.ids, new.ids])))
        return Outcome(
            rows={"expected": data.expected.height, "incoming": data.incoming.height},
            links=found[0],
            timings=timings,
            repeatable=all(links.equals(found[0]) for links in found),
            left_out={
                "expected": dict(expected.left_out),
                "incoming": dict(sum((side.left_out for side in (first, new)), start=Counter())),
            },
            versions={
                "payrec": __version__,
                "engine": timings[0].engine_version,
                "python": platform.python_version(),
                "postgresql": server["server_version"],
                **{name: version(name) for name in _LIBRARIES},
            },
            server=server,
        )

    def _render(self, data: DataSet, plan: Plan, now: datetime) -> tuple[Rendered, Rendered, Rendered]:
        first, new = data.split(plan.new_lines)
        frames = [data.expected, first, new]
        if plan.permute is not None:
            seed = plan.permute
            frames = [permuted(frame, seed) for frame in frames]
        ids = self._factory.context.ids
        earlier, later = (Stamp(at=at, change_id=ids.new()) for at in (now - EARLIER, now))
        return (
            render_expected(frames[0], self._folder / "expected", ids=ids, stamp=earlier),
            render_incoming(frames[1], self._folder / "incoming", ids=ids, stamp=earlier),
            render_incoming(frames[2], self._folder / "new", ids=ids, stamp=later),
        )

    async def _learned(self, past: DataSet, now: datetime) -> dict[str, bytes]:
        """Match the past, have every proposal decided as its truth says, and return what that teaches.

        In a tenant environment of its own, so that the timed run finds its own rows and no others.
        """
        assert past.truth is not None, "there is nothing to learn"
        self._tell("learning of the past")
        stamp = Stamp(at=now - EARLIER, change_id=self._factory.context.ids.new())
        ids = self._factory.context.ids
        expected = render_expected(past.expected, self._folder / "past-expected", ids=ids, stamp=stamp)
        incoming = render_incoming(past.incoming, self._folder / "past-incoming", ids=ids, stamp=stamp)
        pairs = (
            past.truth.select("expected_id", "incoming_id")
            .drop_nulls()
            .unique(maintain_order=True)
            .join(expected.ids.rename({"id": "expected_id", "uuid": "expected_uuid"}), on="expected_id")
            .join(incoming.ids.rename({"id": "incoming_id", "uuid": "incoming_uuid"}), on="incoming_id")
            .select("expected_uuid", "incoming_uuid")
        )
        database = self._factory.context.database
        async with self._tenant({}) as scope:
            await self._load_rates(scope, past, now=now)
            await self._load(scope, expected, incoming)
            await self._match(scope, {})
            async with database.tenant(scope) as connection:
                await BenchStore(connection).decide(pairs)
            await LearningService(work=self._factory.work).learn(self._caller, scope)
            async with database.tenant(scope, readonly=True) as connection:
                return await BenchStore(connection).learned()

    @asynccontextmanager
    async def _tenant(self, settings: dict[str, Any]) -> AsyncIterator[TenantScope]:
        """Make a tenant for a while."""
        slug = f"bench-{self._factory.context.ids.new().hex[-12:]}"
        tenants = self._factory.create_tenant_service()
        body = TenantCreate(name="Benchmark", slug=slug, environments=[ENVIRONMENT], settings=settings)
        await tenants.create(self._caller, body)
        try:
            yield await tenants.scope(slug, ENVIRONMENT)
        finally:
            await tenants.delete(self._caller, slug)

    async def _run(
        self, scope: TenantScope, expected: Rendered, first: Rendered, new: Rendered, *, now: datetime
    ) -> Timing:
        await self._load(scope, expected, first)
        if new.ids.is_empty():
            return await self._match(scope, {})
        await self._match(scope, {})
        await self._load(scope, new)
        return await self._match(scope, {"incomingFilter": {"createdFrom": now.isoformat()}})

    async def _load_rates(self, scope: TenantScope, data: DataSet, *, now: datetime) -> None:
        ids = self._factory.context.ids
        async with self._factory.context.database.tenant(scope) as connection:
            store = FxRateStore(connection)
            for puts in rate_puts(data.rates, data.incoming["booking_date"], ids):
                await store.put(puts, change_id=ids.new(), at=now, set_by=())

    async def _load(self, scope: TenantScope, *sides: Rendered) -> None:
        self._tell("loading")
        async with self._factory.context.database.tenant(scope) as connection:
            store = BenchStore(connection)
            await store.copy(sides)
            await store.analyze()
        self._settle()

    async def _match(self, scope: TenantScope, params: dict[str, Any]) -> Timing:
        context = self._factory.context
        job_id = context.ids.new()
        async with self._factory.work.tenant(self._caller, scope) as unit:
            await JobStore(unit.connection).add(queued_job(unit, job_id, "match", params))
        self._tell("matching")
        return run_in_process(context.config, scope.environment_id, job_id)


def numbered(links: pl.DataFrame, expected_ids: pl.DataFrame, incoming_ids: pl.DataFrame) -> pl.DataFrame:
    """Return the links by the ids of the data set, in an order and with numbers of matches that only these decide."""
    named = (
        links.join(expected_ids.rename({"uuid": "expected_uuid", "id": "expected_id"}), on="expected_uuid")
        .join(incoming_ids.rename({"uuid": "incoming_uuid", "id": "incoming_id"}), on="incoming_uuid")
        .sort("expected_id", "incoming_id")
    )
    matches = (
        named.group_by("match_uuid", maintain_order=True)
        .agg("expected_id", "incoming_id")
        .sort("expected_id", "incoming_id")
        .with_row_index("match_id", offset=1)
        .select("match_uuid", pl.col("match_id").cast(pl.Int64))
    )
    return (
        named.join(matches, on="match_uuid")
        .sort("match_id", "expected_id", "incoming_id")
        .select(
            "match_id",
            "expected_id",
            "incoming_id",
            "auto",
            pl.col("score") / 1000,
            "confidence",
            "kind",
            "amount_minor",
            "settled_minor",
        )
    )
