"""``payrec bench``: how fast matching is here, and how right, on given or on generated data with known truth."""

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

from payrec.bench import dataset, measure, report
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
from payrec.logs import configure_logging

DATABASE_NAME: Final = "payrec"
SECRET_BYTES: Final = 32

BUFFERS_MIB_MAX: Final = 2_048
"""Memory of the embedded server's page cache, where the machine has four times as much."""

WAL_MIB_MAX: Final = 8_192
"""What the embedded server may write between two checkpoints, where four times as much is free on the disk."""

MEBIBYTE: Final = 1024 * 1024


def run(arguments: argparse.Namespace) -> int:
    """Measure, and tell; 1 when the runs over the same rows differ."""
    interruptible()
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
    if arguments.json is not None and not arguments.json.parent.is_dir():
        raise ConfigurationError(f"--json {arguments.json.parent} is no directory")
    past = dataset.read(arguments.history, truth_required=True) if arguments.history is not None else None
    if arguments.data is not None:
        return dataset.read(arguments.data), past
    return generate(rows=arguments.rows, seed=arguments.seed, preset=arguments.preset), past


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
