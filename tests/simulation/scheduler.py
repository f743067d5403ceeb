"""Who goes on, who dies and how far time goes: chosen by a seed, one step of one process after the other.

A process is a coroutine that stands for a client, a worker or the operator. It stops at points, between two effects,
and goes on when the scheduler says so; meanwhile nobody else does. So what a seed does is the same each time. Only
where one commit lets several go on who wait for a lock of the database, these run at the same time until their next
points.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from random import Random
from typing import Final, Literal

import psycopg

WAITS_FOR_LOCK_SECONDS: Final = 0.003
"""When the database is asked whether who has not come to a point yet waits for a lock."""

STUCK_SECONDS: Final = 30.0
"""How long a step may take at most. The database ends a deadlock after one second."""

STEPS_MAX: Final = 4000
"""Of one seed: whoever begins again and again comes to an end, too."""

DEATHS_MAX: Final = 4
"""Of one seed: everything that is tried again comes to an end."""

WAITING: Final = b"SELECT pid FROM pg_locks WHERE NOT granted"
"""Who waits for a lock of this server."""
WAITING_ON_CITUS: Final = WAITING + (
    b" UNION ALL SELECT citus_pid_for_gpid(waiting_global_pid) FROM citus_internal.global_blocked_processes()"
    b" WHERE citus_nodeid_for_gpid(waiting_global_pid) = citus_nodeid_for_gpid(citus_backend_gpid())"
)
"""And of a worker, for whom it asked here."""

_GONE: Final = b"SELECT 1 FROM pg_stat_activity WHERE pid = ANY(%s)"

Body = Callable[["Process"], Awaitable[None]]


class Death(BaseException):
    """The process is gone, as SIGKILL ends it; nothing may catch it but who starts it again."""


class StuckError(Exception):
    """Somebody goes neither on nor waits for somebody else."""


class Process:
    """One of those who do something at the same time."""

    def __init__(self, scheduler: Scheduler, name: str, body: Body, *, weight: int, is_endless: bool) -> None:
        self.name = name
        self.chance = Random(f"{scheduler.seed} {name}")  # noqa: S311 - no secret
        self.state: Literal["running", "stopped", "waiting", "ended"] = "running"
        self.step = "begin"
        self.weight = weight
        self.is_endless = is_endless
        self.connections: set[psycopg.AsyncConnection[object]] = set()
        self.is_dead = False
        self._scheduler = scheduler
        self._body = body
        self._gate: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Come to the first point."""
        self.task = asyncio.create_task(self._run(), name=self.name)

    async def _run(self) -> None:
        token = _current.set(self)
        try:
            await point("begin")
            await self._body(self)
        finally:
            _current.reset(token)
            self.state = "ended"
            self._scheduler.moved.set()

    async def stop(self, step: str) -> None:
        """Wait at a point until the scheduler says what is next."""
        self.step, self.state = step, "stopped"
        self._gate = asyncio.get_running_loop().create_future()
        self._scheduler.moved.set()
        await self._gate

    def go_on(self) -> None:
        """Go on to the next point."""
        assert self._gate is not None
        self.state = "running"
        self._gate.set_result(None)

    async def die(self) -> None:
        """End as if the whole process were killed, with its connections."""
        assert self._gate is not None
        self.is_dead, self.state = True, "running"
        await self._scheduler.gone(self.cut_off())
        self._gate.set_exception(Death(self.step))

    def cut_off(self) -> list[int]:
        """Take its connections away, as the kernel does; return the database's processes behind them.

        Closing them would be another thing: psycopg frees at once what somebody reads who waits for an answer there.
        """
        ended = []
        for connection in self.connections:
            if not connection.closed:
                ended.append(connection.info.backend_pid)
                with socket.socket(fileno=os.dup(connection.fileno())) as of_both:
                    of_both.shutdown(socket.SHUT_RDWR)
        return ended

    def revive(self) -> None:
        """Be a new process in the place of the dead one."""
        self.is_dead = False
        self.connections.clear()


_current: ContextVar[Process | None] = ContextVar("process", default=None)


def current() -> Process | None:
    """Return the process that asks, whichever of its tasks it is."""
    return _current.get()


async def point(step: str, *, often: float = 1.0) -> None:
    """Let the scheduler choose who goes on; ``often`` is how likely this point is one at all.

    Tasks that a process has started beside its own go on as they like, until it dies.
    """
    process = current()
    if process is None:
        return
    if process.is_dead:
        raise Death(step)
    if asyncio.current_task() is process.task and (often >= 1.0 or process.chance.random() < often):
        await process.stop(step)


class Scheduler:
    """Runs the processes of one seed."""

    def __init__(self, seed: int, watcher: psycopg.AsyncConnection[object], *, waiting: bytes) -> None:
        self.seed = seed
        self.chance = Random(seed)  # noqa: S311 - no secret
        self.trace: list[str] = []
        self.moved = asyncio.Event()
        self.processes: list[Process] = []
        self._watcher = watcher
        self._lock_waits = waiting
        self._deaths = 0

    def add(self, name: str, body: Body, *, is_endless: bool = False) -> None:
        """Add a process; one that is endless ends when all others have."""
        weight = self.chance.choice([1, 1, 2, 5] if is_endless else [2, 2, 5, 15])
        self.processes.append(Process(self, name, body, weight=weight, is_endless=is_endless))

    async def run(self, *, tick: Callable[[], Awaitable[str]], tick_chance: float, death_chance: float) -> None:
        """Let all go on until those that end have ended; the others are left where they are then."""
        for process in self.processes:
            process.start()
            await self._settle()
        while any(not p.is_endless and p.state != "ended" for p in self.processes):
            if len(self.trace) > STEPS_MAX:
                raise StuckError("it does not come to an end")
            ready = [p for p in self.processes if p.state == "stopped"]
            if self.chance.random() < tick_chance:
                self.trace.append(f"time: {await tick()}")
            process = self.chance.choices(ready, [p.weight for p in ready])[0]
            if process.step != "begin" and self._deaths < DEATHS_MAX and self.chance.random() < death_chance:
                self._deaths += 1
                self.trace.append(f"{process.name} dies at {process.step}")
                await process.die()
            else:
                self.trace.append(f"{process.name} goes on from {process.step}")
                process.go_on()
            await self._settle()
            self._raise()

    async def end(self) -> None:
        """Let whoever is left die for good."""
        left = [p for p in self.processes if p.task is not None and not p.task.done()]
        for process in left:
            process.is_dead = True
            process.cut_off()
            assert process.task is not None
            process.task.cancel()
        await asyncio.gather(*(p.task for p in left if p.task is not None), return_exceptions=True)

    def _raise(self) -> None:
        """Fail with what a process has failed with."""
        for process in self.processes:
            if process.task is not None and process.task.done():
                process.task.result()

    async def gone(self, pids: Sequence[int]) -> None:
        """Wait until the database knows that these are gone: what they held is free then."""
        left = bool(pids)
        while left:
            left = await (await self._watcher.execute(_GONE, (list(pids),))).fetchone() is not None

    async def _settle(self) -> None:
        """Wait until everybody is at a point, has ended, or waits for a lock, and somebody can go on."""
        loop = asyncio.get_running_loop()
        until = loop.time() + STUCK_SECONDS
        while True:
            await self._look_at_those_who_wait()
            running = [p for p in self.processes if p.state == "running" and p.task is not None]
            if not running and not self._is_held_up():
                return
            if loop.time() > until:
                raise StuckError([(p.name, p.state, p.step) for p in self.processes])
            self.moved.clear()
            try:
                async with asyncio.timeout(WAITS_FOR_LOCK_SECONDS):
                    await self.moved.wait()
            except TimeoutError:
                waiting = await self._waiting()
                for process in running:
                    if process.state == "running" and waiting & pids_of(process):
                        process.state = "waiting"
                        self.trace.append(f"{process.name} waits for a lock after {process.step}")

    def _is_held_up(self) -> bool:
        """Tell whether all who have not ended wait for locks: the database has to end that."""
        states = {p.state for p in self.processes if p.task is not None}
        return "waiting" in states and "stopped" not in states

    async def _look_at_those_who_wait(self) -> None:
        held_up = [p for p in self.processes if p.state == "waiting"]
        if held_up:
            waiting = await self._waiting()
            for process in held_up:
                if process.state == "waiting" and not waiting & pids_of(process):
                    process.state = "running"

    async def _waiting(self) -> set[int]:
        rows = await (await self._watcher.execute(self._lock_waits)).fetchall()
        return {int(row[0]) for row in rows}  # type: ignore[index]


def pids_of(process: Process) -> set[int]:
    """Return the database's processes that a process speaks to."""
    return {c.info.backend_pid for c in process.connections if not c.closed}
