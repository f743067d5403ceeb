"""An installation of which every process may be killed: two services, two workers, PgBouncer and PostgreSQL.

Where it may (``isolated``), the second service and the second worker live in a network namespace of their own, and
PostgreSQL on a small disk of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2
import psutil
import psycopg

from payrec.embedded.postgres import LOGIN_ROLE, EmbeddedDatabase, EmbeddedPostgres
from support.commands import environment
from support.forwarder import Forwarder
from support.pgbouncer import Bouncer, program
from support.places import look
from support.ports import free_port
from support.postgres import DURABLE, TEMPLATE, Outages, migrate
from support.service import RATE_LIMITS

NEAR: Final = "10.203.7.1"
FAR: Final = "10.203.7.2"
LOCAL: Final = "127.0.0.1"
NAMESPACE: Final = "payrec-far"
LINK: Final = "payrec-near"
DISK_MEBIBYTES: Final = 1_536
FAKETIME: Final = "libfaketimeMT.so.1"
START_SECONDS: Final = 300.0
SERVER: Final = {**DURABLE, "max_wal_size": "192MB", "wal_recycle": "off"}
"""Little log is kept on the small disk."""


def clock_library() -> Path | None:
    """Return the library that sets the clock of a process, or None where it is not installed."""
    return next(Path("/usr/lib").glob(f"*/faketime/{FAKETIME}"), None)


@dataclass(slots=True)
class Member:
    """A process that is started again whenever it is gone."""

    name: str
    start: Callable[[], subprocess.Popen[bytes]]
    process: subprocess.Popen[bytes] | None = None
    down_until: float = 0.0
    """Not before that instant of the monotonic clock it is started again."""
    was_killed: bool = True
    ended_by_itself: list[int | None] = field(default_factory=list)
    """Exit codes of those that nobody had killed."""

    def look(self) -> None:
        """Start it if it is gone and may be there."""
        if self.process is not None and self.process.poll() is not None:
            if not self.was_killed:
                self.ended_by_itself.append(self.process.returncode)
                self.down_until = time.monotonic() + 0.5
            self.process = None
        if self.process is None and time.monotonic() >= self.down_until:
            self.was_killed = False
            self.process = self.start()

    def kill(self, seconds: float) -> None:
        """Kill it as SIGKILL does, and leave it away for a time."""
        self.down_until = time.monotonic() + seconds
        self.was_killed = True
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class Site:
    """The processes and what is between them."""

    def __init__(self, folder: Path, *, isolated: bool) -> None:
        self.folder, self.isolated = folder, isolated
        self.near, self.far = (NEAR, FAR) if isolated else (LOCAL, LOCAL)
        self.disk = folder / "disk"
        self.members: dict[str, Member] = {}
        self.forwarder: Forwarder | None = None
        self.bouncer_url = ""
        self.clock_files: dict[str, Path] = {}
        self.ports = {"serve-1": free_port(), "serve-2": free_port()}
        self._postgres: EmbeddedPostgres | None = None
        self._options: list[str] = []
        self._outages: Outages | None = None
        self._database: EmbeddedDatabase | None = None
        self._looking: asyncio.Task[None] | None = None

    @property
    def urls(self) -> list[str]:
        """The addresses of both services."""
        return [f"http://{self.near}:{self.ports['serve-1']}", f"http://{self.far}:{self.ports['serve-2']}"]

    @property
    def database(self) -> EmbeddedDatabase:
        """The database's addresses, not through PgBouncer."""
        assert self._database is not None
        return self._database

    @property
    def server(self) -> Any:
        """The embedded package's own server, which knows its process."""
        assert self._postgres is not None
        return self._postgres._server

    async def crash(self, seconds: float) -> None:
        """Let PostgreSQL go down at once, and come back."""
        assert self._outages is not None
        await self._outages(seconds=seconds)

    async def revive(self) -> None:
        """Start PostgreSQL if it is gone for good, and wait until it answers."""
        async with asyncio.timeout(START_SECONDS):
            while True:
                try:
                    await look(self.database.superuser_url, "SELECT 1")
                except (OSError, psycopg.Error):
                    await asyncio.sleep(0.2)
                else:
                    return
                if not self._is_there():
                    assert self._outages is not None
                    with contextlib.suppress(subprocess.SubprocessError):
                        await self._outages.come_back(self._options)

    def _is_there(self) -> bool:
        with contextlib.suppress(OSError, ValueError, IndexError, psutil.Error):
            process = psutil.Process(int((self.server.pgdata / "postmaster.pid").read_text().splitlines()[0]))
            return "postgres" in process.name() and process.status() != psutil.STATUS_ZOMBIE
        return False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Site]:
        """Start everything, and end it."""
        async with AsyncExitStack() as stack:
            if self.isolated:
                self._isolate()
            self._start_database(stack)
            await self._add_members(stack)
            self._looking = asyncio.create_task(self._look_after())
            stack.push_async_callback(self._end)
            await self.answering()
            yield self

    async def answering(self) -> None:
        """Wait until both services answer."""
        async with asyncio.timeout(START_SECONDS), httpx2.AsyncClient(timeout=2.0) as http:
            for url in self.urls:
                while True:
                    with contextlib.suppress(httpx2.HTTPError):
                        if (await http.get(f"{url}/api/health")).status_code == 200:
                            break
                    await asyncio.sleep(0.1)

    def link(self, *, up: bool) -> None:
        """Take the link to the far namespace up or down."""
        _run("ip", "link", "set", LINK, "up" if up else "down")

    def set_clocks(self, step: float) -> None:
        """Set the clock of the processes that have one of their own, by seconds from the right time."""
        for file in self.clock_files.values():
            file.write_text(f"{step:+.0f}s\n", encoding="utf-8")

    def _isolate(self) -> None:
        _run("ip", "link", "set", "lo", "up")
        # The names of namespaces are files: here, where nobody else sees them.
        names = Path("/run/netns")
        names.mkdir(exist_ok=True)
        _run("mount", "-t", "tmpfs", "tmpfs", str(names))
        _run("ip", "netns", "add", NAMESPACE)
        _run("ip", "link", "add", LINK, "type", "veth", "peer", "name", "far", "netns", NAMESPACE)
        _run("ip", "addr", "add", f"{NEAR}/24", "dev", LINK)
        _run("ip", "link", "set", LINK, "up")
        for words in (["addr", "add", f"{FAR}/24", "dev", "far"], ["link", "set", "far", "up"]):
            _run("ip", "-n", NAMESPACE, *words)
        _run("ip", "-n", NAMESPACE, "link", "set", "lo", "up")
        self.disk.mkdir()
        _run("mount", "-t", "tmpfs", "-o", f"size={DISK_MEBIBYTES}m", "tmpfs", str(self.disk))

    def _start_database(self, stack: AsyncExitStack) -> None:
        self.disk.mkdir(exist_ok=True)
        self._postgres = EmbeddedPostgres(self.disk / "pg", throwaway=True, settings=SERVER)
        self._postgres.start()
        stack.callback(self._postgres.stop)
        migrate(self._postgres.database(TEMPLATE))
        self._database = self._postgres.database("payrec", template=TEMPLATE)
        self._outages = Outages(self._postgres)
        self._options = self._outages.options()

    async def _add_members(self, stack: AsyncExitStack) -> None:
        assert self._postgres is not None
        pooled = program() is not None
        near_url = far_url = self.database.url
        if pooled:
            folder = self.folder / "pgbouncer"
            folder.mkdir()
            self.folder.chmod(0o755)
            bouncer = Bouncer(
                self._postgres._socket, folder, role=LOGIN_ROLE, database="payrec", address=self.near
            )  # fmt: skip
            self.members["pgbouncer"] = Member("pgbouncer", bouncer.start)
            self.forwarder = Forwarder(bouncer.port, target_host=self.near)
            await self.forwarder.open()
            stack.push_async_callback(self.forwarder.close)
            far_url = self.bouncer_url = bouncer.url
            near_url = far_url.replace(f"{self.near}:{bouncer.port}", f"{LOCAL}:{self.forwarder.port}")
        for name in ("serve-1", "worker-1", "serve-2", "worker-2"):
            is_far = name.endswith("2")
            # The first worker reaches PgBouncer as the far ones do: what is cut off or slow is the first service.
            url = near_url if name == "serve-1" else far_url
            settings = {
                "DATABASE_URL": url,
                "JOBS_DATABASE_URL": self.database.url,
                "PUBLIC_BASE_URL": self.urls[0],
                "HOST": self.far if is_far else self.near,
                "PORT": str(self.ports.get(name, 0)),
                "INTERNAL_PORT": "0",
                "WEBHOOK_ALLOWED_CIDRS": f"127.0.0.0/8,{NEAR}/32",
                **{limit.upper(): "0" for limit in RATE_LIMITS},
            }
            if pooled:
                settings["DATABASE_POOLER"] = "transaction"
            self.members[name] = Member(name, self._starter(name, settings, is_far=is_far))

    def _starter(
        self, name: str, settings: dict[str, str], *, is_far: bool
    ) -> Callable[[], subprocess.Popen[bytes]]:  # fmt: skip
        environ = {
            "PATH": os.environ["PATH"], "HOME": str(self.folder), **environment(self.database), **settings
        }  # fmt: skip
        library = clock_library()
        if is_far and library is not None:
            file = self.clock_files.setdefault(name, self.folder / f"{name}.clock")
            file.write_text("+0s\n", encoding="utf-8")
            environ |= {
                "LD_PRELOAD": str(library), "FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_CACHE_DURATION": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }  # fmt: skip
        inside = ["ip", "netns", "exec", NAMESPACE] if is_far and self.isolated else []
        command = [*inside, sys.executable, "-m", "payrec.cli", name.partition("-")[0]]

        def start() -> subprocess.Popen[bytes]:
            with (self.folder / f"{name}.log").open("ab") as log:
                return subprocess.Popen(  # noqa: S603 - our own command
                    command, cwd=self.folder, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )

        return start

    async def _look_after(self) -> None:
        while True:
            for member in self.members.values():
                member.look()
            await asyncio.sleep(0.1)

    async def _end(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._looking
        for member in self.members.values():
            member.kill(0.0)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=START_SECONDS)  # noqa: S603 - our own commands
