"""``payrec bench``: how fast matching is here, and how right, on given or on generated data with known truth."""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
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


def run(arguments: argparse.Namespace) -> int:
    """Measure, and tell; 1 when the runs over the same rows differ."""
    interruptible()
    data = _data(arguments)
    plan = Plan(new_lines=arguments.new_lines, permute=arguments.permute, repeat=arguments.repeat)
    outcome = _measured(data, plan)
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


def _data(arguments: argparse.Namespace) -> DataSet:
    """Return what to measure on, and look at everything that was given before anything is started."""
    try:
        if arguments.out is not None:
            arguments.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"--out {arguments.out} cannot be made: {error.strerror}") from None
    if arguments.json is not None and not arguments.json.parent.is_dir():
        raise ConfigurationError(f"--json {arguments.json.parent} is no directory")
    if arguments.history is not None:
        past = dataset.read(arguments.history, truth_required=True)
        say(f"--history: this version learns nothing from the past, so its {past.incoming.height:,} lines are not used")
    if arguments.data is not None:
        return dataset.read(arguments.data)
    return generate(rows=arguments.rows, seed=arguments.seed, preset=arguments.preset)


def _measured(data: DataSet, plan: Plan) -> Outcome:
    """Measure in the installation of the settings, else in an embedded server that goes away."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="payrec-bench-")))
        settings: dict[str, Any] = {"deployment_environment": "development", "port": 0, "internal_port": 0}
        for name in ("api_key_pepper", "encryption_key"):
            if not os.environ.get(name.upper()):
                settings[name] = secrets.token_urlsafe(SECRET_BYTES)
        settle: Callable[[], None] = lambda: None  # noqa: E731 - nothing to do is the usual case
        if not os.environ.get("DATABASE_URL"):
            postgres = EmbeddedPostgres(folder / "postgres")
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
            found.append(await _in_installation(config, data, plan, folder=folder / "rows", settle=settle))
            return 0

        run_async(work())
        return found[0]


async def _in_installation(
    config: Config, data: DataSet, plan: Plan, *, folder: Path, settle: Callable[[], None]
) -> Outcome:
    async with opened(make_factory(config)) as factory:
        migrated = await migrate(factory)
        if not migrated.succeeded:
            raise PayrecError("the installation could not be migrated; payrec migrate tells more")
        # To standard error, where it is in nobody's way.
        bench = Bench(factory, caller=ADMINISTRATOR, folder=folder, settle=settle, tell=complain)
        return await bench.measure(data, plan)


def _settling(url: str) -> Callable[[], None]:
    """Return what does the server's housekeeping after a load, so that none of it falls into the timed run."""

    def settle() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE)")
            connection.execute("CHECKPOINT")

    return settle
