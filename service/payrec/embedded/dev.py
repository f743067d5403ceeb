"""What ``payrec dev`` embeds where a setting is absent: the database, the secrets, and a worker that is kept alive."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import structlog
from pydantic import SecretStr

from payrec.config import Config, load_config
from payrec.embedded.postgres import EmbeddedPostgres, default_data_dir
from payrec.errors import ConfigurationError

DATABASE_NAME: Final = "payrec"
"""The one database of the embedded server."""

SECRETS: Final = ("api_key_pepper", "encryption_key")
"""The settings that are generated in every data directory."""

JWT_SECRET: Final = "jwt_secret"  # noqa: S105 - the name of a setting
"""The setting that is generated where AUTH_MODE needs it."""

SECRET_BYTES: Final = 32
"""Random bytes of a generated secret."""

WORKER_STOP_SECONDS: Final = 35.0
"""How long a worker may finish what it works on before it is killed; its own limit is 30 seconds."""

WORKER_PAUSE_SECONDS: Final = 1.0
"""Between the death of a worker and the next one, so that one that cannot start does not take the machine."""


class DevelopmentHome:
    """A data directory. Whatever ``environ`` sets wins over what is embedded."""

    def __init__(
        self, directory: Path | None = None, *, environ: Mapping[str, str] = os.environ, throwaway: bool = False
    ) -> None:
        self._environ = environ
        given = directory or (Path(environ["DATA_DIR"]) if environ.get("DATA_DIR") else default_data_dir())
        self.directory = given.resolve()
        self._throwaway = throwaway
        self._postgres: EmbeddedPostgres | None = None

    def start(self, *, port: int, internal_port: int) -> Config:
        """Start what is embedded and return the settings, complete.

        Raises
        ------
        ConfigurationError
            A setting is wrong, or the directory cannot be used.
        UnavailableError
            The embedded server does not start.
        """
        environment = self._environ.get("DEPLOYMENT_ENVIRONMENT") or "development"
        if environment != "development":
            raise ConfigurationError("DEPLOYMENT_ENVIRONMENT must be development, or not set, for payrec dev")
        if self._environ.get("DATABASE_URL") and not self._environ.get("ADMIN_DATABASE_URL"):
            raise ConfigurationError("ADMIN_DATABASE_URL is not set, and DATABASE_URL is: one needs the other here")
        settings: dict[str, Any] = {
            "deployment_environment": "development",
            "data_dir": self.directory,
            "port": port,
            "internal_port": internal_port,
        }
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            settings |= self._missing(self._secrets())
        except OSError as error:
            raise ConfigurationError(f"DATA_DIR {self.directory} cannot be used: {error.strerror}") from None
        if not self._environ.get("DATABASE_URL"):
            self._postgres = EmbeddedPostgres(self.directory / "postgres", throwaway=self._throwaway)
            self._postgres.start()
            database = self._postgres.database(DATABASE_NAME)
            settings |= {"database_url": database.url, "admin_database_url": database.admin_url}
        return load_config(**settings)

    def stop(self) -> None:
        """Stop the embedded server, unless somebody else uses it."""
        if self._postgres is not None:
            self._postgres.stop()
            self._postgres = None

    def _missing(self, settings: dict[str, str]) -> dict[str, str]:
        return {name: value for name, value in settings.items() if not self._environ.get(name.upper())}

    def _secrets(self) -> dict[str, str]:
        """Return the generated secrets; made once for a directory, readable by its owner alone."""
        names = (*SECRETS, JWT_SECRET) if self._environ.get("AUTH_MODE") == "both" else SECRETS
        path = self.directory / "secrets.json"
        with _locked(self.directory):  # of two that start at the same time, one makes them and the other reads them
            stored = _read_secrets(path) if path.exists() else {}
            made = {name: secrets.token_urlsafe(SECRET_BYTES) for name in names if name not in stored}
            if made:
                stored |= made
                write_private(path, json.dumps(stored))
        return {name: stored[name] for name in names}


def _read_secrets(path: Path) -> dict[str, str]:
    """Read the secrets; never made anew where some are missing, because what is stored depends on them."""
    try:
        stored = json.loads(path.read_text())
    except ValueError:
        stored = None
    if (
        not isinstance(stored, dict)
        or not stored.keys() >= set(SECRETS)
        or not all(isinstance(text, str) for text in stored.values())
    ):
        raise ConfigurationError(f"{path} is damaged: it has the secrets of this data directory")
    return stored


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Hold a directory's lock, which ends with this process at the latest."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write_private(path: Path, text: str) -> None:
    """Write a file that nobody else may read, whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def environment_of(config: Config) -> dict[str, str]:
    """Return the environment variables that make another process load the same settings."""
    found: dict[str, str] = {}
    for name in type(config).model_fields:
        value = getattr(config, name)
        if isinstance(value, SecretStr):
            value = value.get_secret_value()
        if value is not None and value != "":
            found[name.upper()] = str(value)
    return found


class WorkerProcess:
    """A worker as a process of its own, started again whenever it ends by itself.

    Its standard input is a pipe that nobody writes to: it ends when this process does, even by SIGKILL, and the worker
    ends with it.
    """

    def __init__(self, config: Config, *, log: int | None = None) -> None:
        self._environ = {**os.environ, **environment_of(config), "INTERNAL_PORT": "0"}
        self._log = log
        self._logger = structlog.get_logger("payrec.dev")
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def pid(self) -> int | None:
        """The process id of the present worker."""
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        """Start it; from now on it is kept alive."""
        await self._spawn()
        self._keeper = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        """Let it finish what it works on, and end."""
        self._stopping = True
        process = self._process
        if process is not None and process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), WORKER_STOP_SECONDS)
            except TimeoutError:
                process.kill()
                await process.wait()
        if self._keeper is not None:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper

    def kill(self) -> None:
        """End it at once."""
        self._stopping = True
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def _spawn(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "payrec.cli",
            "worker",
            "--with-parent",
            env=self._environ,
            stdin=asyncio.subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            # Ctrl-C is for this process, which then ends the worker in its order.
            start_new_session=True,
        )
        self._logger.info("worker.started", pid=self._process.pid)

    async def _keep(self) -> None:
        while self._process is not None:
            code = await self._process.wait()
            if self._stopping:
                return
            self._logger.warning("worker.died", pid=self._process.pid, code=code)
            await asyncio.sleep(WORKER_PAUSE_SECONDS)
            await self._spawn()
