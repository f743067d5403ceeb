"""``payrec bench``: how fast this version is here, each figure beside its yardstick, and how right matching is.

Matching on given rows, or on generated ones with known truth, needs nothing but the package.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psycopg

from payrec.bench import dataset, figures, measure, programs, report
from payrec.bench.dataset import DataSet
from payrec.bench.generator import generate
from payrec.bench.run import Bench, Outcome, Plan
from payrec.commands.administration import ADMINISTRATOR
from payrec.commands.dev import interruptible
from payrec.commands.migrate import migrate
from payrec.commands.serving import make_factory, opened, run_async
from payrec.commands.terminal import RIGHT, complain, say, table
from payrec.config import Config, load_config
from payrec.embedded.postgres import EmbeddedPostgres
from payrec.errors import ConfigurationError, PayrecError
from payrec.factory.context import SystemClock
from payrec.logs import configure_logging

DATABASE_NAME: Final = "payrec"
SECRET_BYTES: Final = 32

BUFFERS_MIB_MAX: Final = 2_048
"""Memory of the embedded server's page cache, where the machine has four times as much."""

WAL_MIB_MAX: Final = 8_192
"""What the embedded server may write between two checkpoints, where four times as much is free on the disk."""

MEBIBYTE: Final = 1024 * 1024

OF_ROWS: Final = {
    "seed": 1, "preset": "base", "history": None, "out": None, "new_lines": 0, "permute": None, "repeat": 1
}  # fmt: skip
"""Arguments of one run, and what they are unless given."""

OF_ROWS_TOLD: Final = ", ".join(f"--{name.replace('_', '-')}" for name in OF_ROWS)


def run(arguments: argparse.Namespace) -> int:
    """Measure, and tell."""
    interruptible()
    # A run over rows of one's own, or the figures of the registry.
    if arguments.action == "matching" and (arguments.data is not None or arguments.rows is not None):
        return _run_matching(arguments)
    if arguments.action == "matching" and any(getattr(arguments, name) != usual for name, usual in OF_ROWS.items()):
        raise ConfigurationError(f"--rows or --data is missing: {OF_ROWS_TOLD} are of one run")
    return _run_programs(arguments)


def _run_programs(arguments: argparse.Namespace) -> int:
    """Measure the figures of an action; 1 when one is refused."""
    _check_json(arguments.json)
    registry = figures.read_programs(programs.REGISTRY)
    wanted = programs.chosen(registry, arguments.action, quick=arguments.quick)
    results: list[figures.Result] = []
    try:
        results.extend(programs.measure(wanted, quick=arguments.quick, tell=complain, show=say, now=SystemClock().now))
    finally:
        # What was measured is kept, though a program fails or somebody interrupts.
        widths: list[int | str] = [0, RIGHT, 0, RIGHT, RIGHT, RIGHT, 0]
        say(table(figures.COLUMNS, figures.rows(results), widths=widths))
        if arguments.json is not None:
            figures.write_results(arguments.json, results, registry)
    refused = [result.figure for result in results if result.is_refused]
    for figure in refused:
        complain(f"{figure.name}: the {'figure' if figure.is_counted else 'ratio'} is beyond {figure.refused_beyond:g}")
    return 1 if refused else 0


def _run_matching(arguments: argparse.Namespace) -> int:
    """Measure one run, and tell; 1 when the runs over the same rows differ."""
    data, past = _data(arguments)
    plan = Plan(new_lines=arguments.new_lines, permute=arguments.permute, repeat=arguments.repeat)
    outcome = _measured(data, plan, past)
    measures = measure.measure(outcome.links, data) if data.truth is not None else None
    checks = measure.check(outcome.links, data)
    for section in report.sections(measures) if measures is not None else []:
        widths: list[int | str] = [0, *[RIGHT] * (len(section.columns) - 1)]
        say(f"{section.title}\n\n{table(section.columns, section.rows, widths=widths)}\n")
    for line in report.summary(outcome, checks, measures):
        say(line)
    if arguments.out is not None:
        report.write_out(arguments.out, outcome, data if arguments.data is None else None)
    if arguments.json is not None:
        report.write_json(arguments.json, report.document(outcome, checks, measures))
    return 0 if outcome.repeatable else 1


def _data(arguments: argparse.Namespace) -> tuple[DataSet, DataSet | None]:
    """Return what to measure on and its past, and look at everything that was given before anything is started."""
    try:
        if arguments.out is not None:
            arguments.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"--out {arguments.out} cannot be made: {error.strerror}") from None
    _check_json(arguments.json)
    past = dataset.read(arguments.history, truth_required=True) if arguments.history is not None else None
    if arguments.data is not None:
        return dataset.read(arguments.data), past
    return generate(rows=arguments.rows, seed=arguments.seed, preset=arguments.preset), past


def _check_json(path: Path | None) -> None:
    if path is not None and not path.parent.is_dir():
        raise ConfigurationError(f"--json {path.parent} is no directory")


def _measured(data: DataSet, plan: Plan, past: DataSet | None) -> Outcome:
    """Measure in the installation of the settings, else in an embedded server that goes away."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="payrec-bench-")))
        settings: dict[str, Any] = {"deployment_environment": "development", "port": 0, "internal_port": 0}
        for name in ("api_key_pepper", "encryption_key"):
            if not os.environ.get(name.upper()):
                settings[name] = secrets.token_urlsafe(SECRET_BYTES)
        settle: Callable[[], None] = lambda: None  # noqa: E731 - nothing to do is the usual case
        if not os.environ.get("DATABASE_URL"):
            postgres = EmbeddedPostgres(folder / "postgres", settings=_server_settings(folder))
            stack.callback(postgres.stop)
            postgres.start()
            database = postgres.database(DATABASE_NAME)
            settings |= {"database_url": database.url, "admin_database_url": database.admin_url}
            settle = _settling(database.superuser_url)
        elif not os.environ.get("ADMIN_DATABASE_URL"):
            raise ConfigurationError("ADMIN_DATABASE_URL is not set, and a tenant has to be made for the measurement")
        config = load_config(**settings)
        configure_logging(level="warning", form=config.log_format)
        found: list[Outcome] = []

        async def work() -> int:
            found.append(await _in_installation(config, data, plan, past, folder=folder / "rows", settle=settle))
            return 0

        run_async(work())
        return found[0]


async def _in_installation(
    config: Config, data: DataSet, plan: Plan, past: DataSet | None, *, folder: Path, settle: Callable[[], None]
) -> Outcome:
    async with opened(make_factory(config)) as factory:
        migrated = await migrate(factory)
        if not migrated.succeeded:
            raise PayrecError("the installation could not be migrated; payrec migrate tells more")
        # To standard error, where it is in nobody's way.
        bench = Bench(factory, caller=ADMINISTRATOR, folder=folder, settle=settle, tell=complain)
        return await bench.measure(data, plan, past)


def _server_settings(folder: Path) -> dict[str, str]:
    """Return settings of a server that big runs are usual for, within what the machine has; they are told as well."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // MEBIBYTE
    free = shutil.disk_usage(folder).free // MEBIBYTE
    return {
        "shared_buffers": f"{min(BUFFERS_MIB_MAX, memory // 4)}MB",
        "max_wal_size": f"{max(min(WAL_MIB_MAX, free // 4), 64)}MB",
    }


def _settling(url: str) -> Callable[[], None]:
    """Return what does the server's housekeeping after a load, so that none of it falls into the timed run."""

    def settle() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE)")
            connection.execute("CHECKPOINT")

    return settle
