"""Migrations of the whole installation: the control schema first, then every tenant environment that is behind.

Running again finishes what is left. Nothing waits long for a lock, an environment that fails leaves the others alone,
and a schema that a newer image has made stays as it is, so that an older image can go on beside it.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

import structlog

from payrec.domain.caller import Clock
from payrec.domain.scope import TenantScope
from payrec.errors import MigrationFailedError, UnavailableError
from payrec.storage import migrations
from payrec.storage.database import Database
from payrec.storage.provisioning import Provisioner, SchemaMissingError, control_revision, revision_in
from payrec.storage.tenants import TenantStore, scope_of

MIGRATIONS_CONCURRENT_MAX: Final = 4
"""Environments that are worked on at once, each migration in a process of its own (Alembic takes one a process)."""

Outcome = Literal["current", "migrated", "provisioned", "waiting", "ahead", "failed"]
"""``current``: nothing to do. ``waiting``: a Tenant resource's, which the operator has not made yet; left to it.
``ahead``: a newer image made it; left alone. ``failed``: ``error`` names the class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentReport:
    """What became of one tenant environment."""

    slug: str
    environment: str
    schema_name: str
    before: str | None
    after: str | None
    outcome: Outcome
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationReport:
    """What became of the installation; ``environments`` in the order of their creation."""

    control_before: str | None
    control_after: str | None
    control_outcome: Outcome
    environments: tuple[EnvironmentReport, ...]

    @property
    def totals(self) -> dict[Outcome, int]:
        """How many environments had which outcome; outcomes that none had are absent."""
        return cast("dict[Outcome, int]", dict(Counter(e.outcome for e in self.environments)))

    @property
    def succeeded(self) -> bool:
        """Whether no environment failed."""
        return all(e.outcome != "failed" for e in self.environments)


class MigrationService:
    """Brings an installation to the head of this image. ``database`` needs its administrator's address too."""

    def __init__(self, *, admin_url: str, login: str, database: Database, clock: Clock) -> None:
        self._admin_url = admin_url
        self._login = login
        self._database = database
        self._provisioner = Provisioner(database, login=login)
        self._clock = clock
        self._logger = structlog.get_logger("payrec.migrations")

    async def migrate(self) -> MigrationReport:
        """Migrate everything and tell what was done.

        An error of the control schema is raised, and no environment is touched then.
        """
        control = await asyncio.to_thread(migrations.upgrade_control, self._admin_url, login=self._login)
        self._logger.info("migration.control", before=control.before, after=control.after)
        async with self._database.control(readonly=True) as connection:
            rows = await TenantStore(connection).scopes()
        wave = asyncio.Semaphore(MIGRATIONS_CONCURRENT_MAX)
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(MIGRATIONS_CONCURRENT_MAX, mp_context=spawn) as processes:
            reports = await asyncio.gather(*(self._environment(row, wave, processes) for row in rows))
        await self._open_tenants(rows, reports)
        report = MigrationReport(
            control_before=control.before,
            control_after=control.after,
            control_outcome=_outcome("control", control.before, control.after),
            environments=tuple(reports),
        )
        self._logger.info("migration.finished", totals=report.totals)
        return report

    async def _environment(
        self, row: dict[str, Any], wave: asyncio.Semaphore, processes: Executor
    ) -> EnvironmentReport:
        scope = scope_of(row)
        before: str | None = None
        after: str | None = None
        outcome: Outcome = "failed"
        error: str | None = None
        registered: str | None = row["revision"]
        if registered is None and row["resource_name"] is not None:
            return _report(scope, None, None, "waiting")
        async with wave:
            try:
                before = await self._revision(scope) if registered is not None else None
                after = before if registered is not None else (await self._provisioner.ensure(scope)).revision
                after = await bring_to_head(scope, after, admin_url=self._admin_url, executor=processes)
                if after != registered:
                    async with self._database.control() as connection:
                        await TenantStore(connection).activate_environment(
                            scope.environment_id, revision=after, at=self._clock.now()
                        )
                outcome = "provisioned" if registered is None else _outcome("tenant", before, after)
            except Exception as failure:  # noqa: BLE001 - one environment's failure must not stop the others
                error = failure.cause if isinstance(failure, MigrationFailedError) else type(failure).__name__
                after = before
        if outcome != "current":
            self._logger.info("migration.environment", schema=scope.schema_name, outcome=outcome, error=error)
        return _report(scope, before, after, outcome, error)

    async def _revision(self, scope: TenantScope) -> str | None:
        async with self._database.tenant(scope, readonly=True) as connection:
            return await revision_in(connection)

    async def _open_tenants(self, rows: Sequence[dict[str, Any]], reports: Sequence[EnvironmentReport]) -> None:
        """Open the tenants of which the last environment has been provisioned now."""
        unfinished = {row["tenant_id"] for row, report in zip(rows, reports, strict=True) if report.outcome == "failed"}
        ours = (row for row in rows if row["resource_name"] is None)
        waiting = {row["tenant_id"] for row in ours if row["tenant_status"] == "provisioning"}
        for tenant_id in sorted(waiting - unfinished):
            async with self._database.control() as connection:
                await TenantStore(connection).update(tenant_id, at=self._clock.now(), status="active")


async def bring_to_head(
    scope: TenantScope, revision: str | None, *, admin_url: str, executor: Executor | None = None
) -> str:
    """Migrate the tables of one environment, of this revision, and return the revision that they have then.

    What is at the head stays, and so does what is ahead of it. ``executor`` is where the migration runs; a thread of
    the process, which migrates one environment at a time, unless given.

    Raises
    ------
    SchemaMissingError
        There are no tables (``revision`` is None).
    MigrationFailedError
        The tables are as they were.
    """
    if revision is None:
        raise SchemaMissingError
    if revision == migrations.head("tenant") or migrations.is_ahead("tenant", revision):
        return revision
    step = await asyncio.get_running_loop().run_in_executor(
        executor, migrations.upgrade_tenant, admin_url, scope.role_name, scope.schema_name
    )
    if step.error is not None or step.after is None:
        raise MigrationFailedError(step.error or SchemaMissingError.__name__)
    return step.after


async def migrate(*, admin_url: str, login: str, database: Database, clock: Clock) -> MigrationReport:
    """Migrate the installation; ``database`` is open, and has been given ``admin_url`` too.

    ``login`` is the role that the service's connections log in as. Errors as ``MigrationService.migrate``.
    """
    return await MigrationService(admin_url=admin_url, login=login, database=database, clock=clock).migrate()


async def check_ready(database: Database) -> None:
    """Look whether the control schema is at this image's head, or ahead of it.

    Raises
    ------
    UnavailableError
        It is behind, not there, or the database cannot be reached.
    """
    revision = await control_revision(database)
    if revision != migrations.head("control") and not migrations.is_ahead("control", revision):
        raise UnavailableError("the database has not been migrated to this version yet")


def _report(
    scope: TenantScope, before: str | None, after: str | None, outcome: Outcome, error: str | None = None
) -> EnvironmentReport:
    return EnvironmentReport(
        slug=scope.slug,
        environment=scope.environment,
        schema_name=scope.schema_name,
        before=before,
        after=after,
        outcome=outcome,
        error=error,
    )


def _outcome(tree: str, before: str | None, after: str | None) -> Outcome:
    if migrations.is_ahead(tree, after):
        return "ahead"
    return "current" if before == after else "migrated"
