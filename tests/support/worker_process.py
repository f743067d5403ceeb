"""Worker processes of their own, which a test may kill."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from payrec.config import Config
from support.variables import variables

START_SECONDS = 60.0

_PROGRAM = """
import asyncio, contextlib, importlib, json, os, signal, sys
from datetime import timedelta

from payrec.config import load_config
from payrec.factory import Factory, create_context
from payrec.jobs.worker import run_worker
from payrec.logs import configure_logging


def die_at(module, owner, name, moment):
    owner = getattr(importlib.import_module(module), owner)
    original = getattr(owner, name)

    async def dying(*given, **more):
        if moment == "after":
            await original(*given, **more)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, dying)


async def main(lease, dies_at=None, **options):
    if dies_at is not None:
        die_at(*dies_at)
    context = create_context(load_config())
    configure_logging(level="info", form="json")
    await context.database.open()
    ready = asyncio.Event()
    working = asyncio.create_task(
        run_worker(Factory(context), ready=ready, lease=timedelta(seconds=lease), **options)
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, working.cancel)
    await ready.wait()
    print("ready", flush=True)
    with contextlib.suppress(asyncio.CancelledError):
        await working
    await context.database.close()


asyncio.run(main(**json.loads(sys.argv[1])))
"""


@asynccontextmanager
async def worker_process(
    config: Config, *, dies_at: tuple[str, str, str, str] | None = None, **options: float
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a worker with the settings in its environment; whatever is left of it is killed in the end.

    ``options`` are those of ``run_worker``, ``lease`` in seconds. With ``dies_at`` it kills itself, as SIGKILL does,
    ``before`` or ``after`` it does a method for the first time: module, class, method, moment.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _PROGRAM,
        json.dumps({**options, "dies_at": dies_at}),
        env=variables(config),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), START_SECONDS)
        assert line.strip() == b"ready", "the worker did not start"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
