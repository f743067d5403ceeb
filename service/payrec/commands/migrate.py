"""``payrec migrate``: the control schema, then every tenant environment; running it again finishes what is left."""

from __future__ import annotations

import argparse
from typing import Final

from payrec.commands.serving import check_administrator, make_factory, opened, run_async
from payrec.commands.terminal import say, table
from payrec.config import Config, load_config
from payrec.errors import ConfigurationError, PayrecError
from payrec.factory import Factory
from payrec.logs import configure_logging
from payrec.services.migrations import MigrationReport, MigrationService
from payrec.storage.provisioning import login_of

FAILED_NAMED_MAX: Final = 5
"""Environments that are named in the line that says which failed."""

NO_WAY_IN: Final = "InsufficientPrivilege"
"""Why an environment fails into which a role of ours may not come; trying again does not help."""


def run(_arguments: argparse.Namespace) -> int:
    """Migrate and report what is where."""
    config = load_config()
    configure_logging(level="warning", form=config.log_format)
    return run_async(_run(config))


async def _run(config: Config) -> int:
    if config.admin_database_url is None:
        raise ConfigurationError("ADMIN_DATABASE_URL is not set")
    async with opened(make_factory(config)) as factory:
        report = await migrate(factory)
    say(rendered(report))
    failed = [e for e in report.environments if e.outcome == "failed"]
    if failed:
        named = ", ".join(f"{e.slug}/{e.environment} ({e.error})" for e in failed[:FAILED_NAMED_MAX])
        more = f" and {len(failed) - FAILED_NAMED_MAX} more" if len(failed) > FAILED_NAMED_MAX else ""
        remedy = "payrec migrate tries again"
        if any(e.error == NO_WAY_IN for e in failed):
            remedy = (
                "a role that DATABASE_URL or ADMIN_DATABASE_URL names may not enter them, as after a change of it:"
                f" payrec tenants mend lets it in, and then {remedy}"
            )
        raise PayrecError(
            f"{len(failed)} of {len(report.environments)} tenant environments are as they were: {named}{more}; {remedy}"
        )
    return 0


async def migrate(factory: Factory) -> MigrationReport:
    """Bring the installation of an opened factory to this version."""
    config = factory.context.config
    assert config.admin_database_url is not None, "the caller has looked"
    await check_administrator(config)
    service = MigrationService(
        admin_url=config.admin_database_url,
        login=login_of(config.database_url),
        database=factory.context.database,
        clock=factory.context.clock,
    )
    return await service.migrate()


def rendered(report: MigrationReport) -> str:
    """Return the report as a table with one line a schema, and the totals."""
    rows = [("control", report.control_before or "-", report.control_after or "-", report.control_outcome, "")]
    rows += [(e.schema_name, e.before or "-", e.after or "-", e.outcome, e.error or "") for e in report.environments]
    totals = ", ".join(f"{count} {outcome}" for outcome, count in sorted(report.totals.items()))
    summary = f"{len(report.environments)} tenant environments: {totals}" if totals else "no tenant environments yet"
    return f"{table(('schema', 'before', 'now', 'outcome', 'error'), rows)}\n\n{summary}"
