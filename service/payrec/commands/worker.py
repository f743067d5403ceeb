"""``payrec worker``: does the jobs, until it is asked to end; then it finishes what it works on."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import threading

from payrec.commands.serving import (
    check_start,
    given_ports,
    internal_port,
    listen,
    make_factory,
    opened,
    run_async,
    stopping,
)
from payrec.config import Config, load_config
from payrec.errors import UnavailableError
from payrec.jobs.worker import run_worker
from payrec.logs import configure_logging


def run(arguments: argparse.Namespace) -> int:
    """Work until SIGTERM or SIGINT, or until the parent has gone."""
    config = load_config(**given_ports(arguments))
    configure_logging(level=config.log_level, form=config.log_format)
    return run_async(_work(config, with_parent=arguments.with_parent))


async def _work(config: Config, *, with_parent: bool) -> int:
    stop = asyncio.Event()
    with listen(config.host, config.internal_port, name="INTERNAL_PORT") as internal_socket:
        factory = make_factory(config)
        async with opened(factory):
            await check_start(factory)
            with stopping(stop):
                if with_parent:
                    _stop_with_parent(stop)
                takes_jobs = asyncio.Event()

                async def check() -> None:
                    await factory.context.database.ping()
                    if not takes_jobs.is_set():
                        raise UnavailableError("the job queue has not been reached yet")

                async with internal_port(factory, internal_socket, ready=check):
                    working = asyncio.create_task(
                        run_worker(factory, ready=takes_jobs, grace_seconds=config.worker_grace_seconds)
                    )
                    asked = asyncio.create_task(stop.wait())
                    await asyncio.wait({working, asked}, return_when=asyncio.FIRST_COMPLETED)
                    asked.cancel()
                    working.cancel()
                    # What ended it by itself is raised here, and ends the process with an error.
                    with contextlib.suppress(asyncio.CancelledError):
                        await working
    return 0


def _stop_with_parent(stop: asyncio.Event) -> None:
    """Set ``stop`` when standard input ends: whoever holds its other end is gone, even by SIGKILL."""
    loop = asyncio.get_running_loop()

    def watch() -> None:
        while os.read(0, 1):
            pass
        loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=watch, name="parent", daemon=True).start()
