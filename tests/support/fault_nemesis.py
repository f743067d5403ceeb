"""Makes the faults of a plan happen, and takes them back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path
from random import Random
from typing import Final

import psutil
import psycopg

from payrec.embedded.postgres import LOGIN_ROLE
from support.fault_plan import DATABASE, KINDS, Fault
from support.fault_site import Site, clock_library
from support.pgbouncer import program

CONNECTIONS: Final = 500
DISK_LEFT_BYTES: Final = 256 * 1024
SLOW_RUNS_SECONDS: Final = 0.05
SLOW_STOPS_SECONDS: Final = 0.15
LATENCY_SECONDS: Final = 0.15


def missing(*, isolated: bool) -> dict[str, str]:
    """Return the kinds of faults that cannot be had here, each with how to get it."""
    found = {}
    if not isolated:
        found |= dict.fromkeys(("disk", "partition"), "run as root, with iproute2 and mount")
    if program() is None:
        found |= dict.fromkeys(("cut", "latency", "storm"), "apt-get install pgbouncer")
    if clock_library() is None:
        found["clock"] = "apt-get install faketime"
    return found


class Nemesis:
    """Does one plan to one installation."""

    def __init__(self, site: Site, plan: list[Fault], *, seed: int) -> None:
        self._site, self._plan = site, plan
        self._chance = Random(seed)  # noqa: S311 - a test's own
        self._locks = {kind: asyncio.Lock() for kind in KINDS}
        self._database = asyncio.Lock()
        self.done: list[tuple[float, float, str, str]] = []
        """Since when, until when, what, to whom; in seconds since the clients began."""

    async def run(self) -> None:
        """Do the plan, each fault at its time, until all are taken back."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for fault in self._plan:
                await asyncio.sleep(max(0.0, began + fault.at - time.monotonic()))
                group.create_task(self._do(fault, began))

    async def _do(self, fault: Fault, began: float) -> None:
        lock = self._database if fault.kind in DATABASE else self._locks[fault.kind]
        async with lock if fault.kind != "kill" else contextlib.nullcontext():
            since = time.monotonic() - began
            told = await getattr(self, f"_{fault.kind}")(fault)
        self.done.append((round(since, 2), round(time.monotonic() - began, 2), fault.kind, told or fault.target))

    async def _kill(self, fault: Fault) -> None:
        member = self._site.members.get(fault.target)
        if member is not None:
            member.kill(fault.seconds)

    def _postmaster(self) -> psutil.Process:
        return psutil.Process(int((self._site.server.pgdata / "postmaster.pid").read_text().splitlines()[0]))

    def _family(self) -> list[psutil.Process]:
        first = self._postmaster()
        return [first, *first.children(recursive=True)]

    async def _backend(self, _fault: Fault) -> str | None:
        ours = [one for one in self._family()[1:] if LOGIN_ROLE in _title(one)]
        if not ours:
            return "nobody"
        with contextlib.suppress(psutil.NoSuchProcess):
            self._chance.choice(ours).kill()
        return "a backend"

    async def _crash(self, fault: Fault) -> None:
        await self._site.crash(fault.seconds)

    def _signal(self, processes: list[psutil.Process], number: signal.Signals) -> None:
        for one in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.send_signal(number)

    async def _freeze(self, fault: Fault) -> None:
        stopped = self._family()
        self._signal(stopped, signal.SIGSTOP)
        await asyncio.sleep(fault.seconds)
        self._signal(stopped, signal.SIGCONT)

    async def _slow(self, fault: Fault) -> None:
        until = time.monotonic() + fault.seconds
        while time.monotonic() < until:
            stopped = self._family()
            self._signal(stopped, signal.SIGSTOP)
            await asyncio.sleep(SLOW_STOPS_SECONDS)
            self._signal(stopped, signal.SIGCONT)
            await asyncio.sleep(SLOW_RUNS_SECONDS)

    async def _disk(self, fault: Fault) -> str:
        balloon = self._site.disk / "balloon"
        await asyncio.to_thread(_fill, balloon)
        await asyncio.sleep(fault.seconds)
        balloon.unlink()
        # What could not write its log has gone down with all it had, and whoever looks after it starts it again.
        await self._site.revive()
        return "the database's disk"

    async def _partition(self, fault: Fault) -> str:
        self._site.link(up=False)
        await asyncio.sleep(fault.seconds)
        self._site.link(up=True)
        return "serve-2 and worker-2"

    async def _cut(self, fault: Fault) -> str:
        assert self._site.forwarder is not None
        await self._site.forwarder.close()
        await asyncio.sleep(fault.seconds)
        await self._site.forwarder.open()
        return "serve-1"

    async def _latency(self, fault: Fault) -> str:
        assert self._site.forwarder is not None
        self._site.forwarder.delay_seconds = LATENCY_SECONDS
        await asyncio.sleep(fault.seconds)
        self._site.forwarder.delay_seconds = 0.0
        return "serve-1"

    async def _clock(self, fault: Fault) -> str:
        self._site.set_clocks(fault.step)
        await asyncio.sleep(fault.seconds)
        self._site.set_clocks(0.0)
        return f"serve-2 and worker-2 by {fault.step:+.0f} s"

    async def _storm(self, fault: Fault) -> str:
        until = time.monotonic() + fault.seconds
        url = self._site.bouncer_url

        async def one() -> int:
            with contextlib.suppress(psycopg.Error, OSError, TimeoutError):
                async with asyncio.timeout(fault.seconds + 5), await psycopg.AsyncConnection.connect(url) as connection:
                    while time.monotonic() < until:
                        await connection.execute("SELECT 1")
                        await connection.commit()
                        await asyncio.sleep(0.5)
                    return 1
            return 0

        return f"{sum(await asyncio.gather(*(one() for _ in range(CONNECTIONS))))} connections to the end"


def _title(process: psutil.Process) -> str:
    """Return what PostgreSQL says that one of its processes is; nothing of one that has ended."""
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def _fill(path: Path) -> None:
    """Write a file that leaves hardly any room."""
    room = os.statvfs(path.parent)
    size = room.f_bavail * room.f_frsize - DISK_LEFT_BYTES
    with path.open("wb") as file, contextlib.suppress(OSError):
        os.posix_fallocate(file.fileno(), 0, max(size, 4096))
