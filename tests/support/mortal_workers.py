"""Workers that end as SIGKILL ends them, at a point that a test names; forked, so that they begin at once.

The points are a worker's commits, each named by the function that opens the transaction, and what it does outside of
the database in between. A worker that commits anywhere else ends with ``UNKNOWN_POINT``. This file is also the program
that forks them; it imports next to nothing of the tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

from payrec.config import Config, load_config
from payrec.factory import Factory, create_context
from payrec.jobs.worker import run_worker
from payrec.logs import configure_logging
from payrec.storage.database import Database
from support.variables import variables

UNKNOWN_POINT = 99
"""How a worker ends that commits where nobody has thought of."""

END_SECONDS = 60.0
_OPENERS = ("contextlib", "payrec.storage.database", "payrec.storage.tables_behind", "payrec.services.work")
_HELPERS = frozenset({"_Sync._store"})
"""Functions that open a transaction for another one, whose it is."""


def opener(frame: FrameType | None) -> str:
    """Return the function that opens a transaction: its module within payrec, and its name there."""
    while frame is not None:
        module, name = frame.f_globals.get("__name__", ""), frame.f_code.co_qualname
        if module.startswith("payrec.") and module not in _OPENERS and name not in _HELPERS:
            return f"{module.removeprefix('payrec.')}.{name}"
        frame = frame.f_back
    return "nobody"


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _watch(point: str | None, moment: str, known: Collection[str]) -> None:
    """End this process before or after the first commit of a point, and at any commit that is not known."""
    original = Database._transaction

    @asynccontextmanager
    async def transaction(self: Database, pool: Any, begin: bytes) -> AsyncIterator[Any]:
        writes = b"READ WRITE" in begin
        name = opener(sys._getframe()) if writes else ""
        if writes and name not in known:
            sys.stderr.write(f"no such point: {name}\n")
            os._exit(UNKNOWN_POINT)
        async with original(self, pool, begin) as connection:
            yield connection
            if name == point and moment == "before":
                _die()
        if name == point:
            _die()

    Database._transaction = transaction  # type: ignore[method-assign, assignment]


def _end_at(point: str, moment: str) -> None:
    """End this process before or after it does a method for the first time; it may be an asynchronous one."""
    module, owner, name = point.rsplit(".", 2)
    cls = getattr(importlib.import_module(f"payrec.{module}"), owner)
    original: Callable[..., Any] = getattr(cls, name)

    def dying(*given: Any, **more: Any) -> Any:
        if moment == "before":
            _die()
        found = original(*given, **more)
        if not asyncio.iscoroutine(found):
            _die()

        async def awaited() -> None:
            await found
            _die()

        return awaited()

    setattr(cls, name, dying)


async def _work(options: dict[str, Any]) -> None:
    context = create_context(load_config())
    configure_logging(level="info", form="json")
    await context.database.open()
    lease = timedelta(seconds=options.pop("lease"))
    working = asyncio.create_task(run_worker(Factory(context), lease=lease, **options))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, working.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await working
    await context.database.close()


def _serve() -> None:
    """Fork a worker for each line, say which process it is, and how it ended."""
    for line in sys.stdin:
        wanted = json.loads(line)
        child = os.fork()
        if child == 0:
            os.environ.update(wanted["environment"])
            _watch(wanted["point"], wanted["moment"], wanted["known"])
            if wanted["point"] is not None and not wanted["is_commit"]:
                _end_at(wanted["point"], wanted["moment"])
            asyncio.run(_work(wanted["options"]))
            os._exit(0)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


class MortalWorkers:
    """Starts workers, one at a time."""

    def __init__(self, process: asyncio.subprocess.Process, config: Config, known: Collection[str]) -> None:
        self._process = process
        self._known = sorted(known)
        self._environment = variables(config)

    async def start(self, point: str | None = None, moment: str = "", **options: float) -> int:
        """Start a worker that ends at a point, and return its process id."""
        wanted = {
            "environment": self._environment,
            "point": point,
            "moment": moment,
            "is_commit": point in self._known,
            "known": self._known,
            "options": options,
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(wanted).encode() + b"\n")
        return await self._read()

    async def ended(self) -> int:
        """Return how the worker ended that was started last."""
        return await self._read()

    async def _read(self) -> int:
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), END_SECONDS)
        assert line, "the workers' parent has ended"
        return int(line)


@asynccontextmanager
async def mortal_workers(config: Config, known: Collection[str]) -> AsyncIterator[MortalWorkers]:
    """Load everything once, for all workers."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        __name__,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        start_new_session=True,
    )
    try:
        yield MortalWorkers(process, config, known)
    finally:
        if process.returncode is None:
            # With the worker that it waits for, if there is one.
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        process._transport.close()  # type: ignore[attr-defined]


if __name__ == "__main__":
    _serve()
