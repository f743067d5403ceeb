"""``payrec dev``: everything in one place for development, until Ctrl-C. What is not set is embedded."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shlex
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final, TextIO

from payrec.commands.migrate import migrate
from payrec.commands.serving import (
    internal_port,
    keep_what_is_there,
    listen,
    make_factory,
    opened,
    port_of,
    run_async,
    served,
    stopping,
)
from payrec.commands.terminal import say
from payrec.config import Config
from payrec.embedded.dev import DevelopmentHome, WorkerProcess, environment_of, write_private
from payrec.errors import ConfigurationError
from payrec.factory import Factory
from payrec.logs import configure_logging
from payrec.main import create_app

PORT_DEFAULT: Final = 8000
INTERNAL_PORT_DEFAULT: Final = 9090

Progress = Callable[[str], None]
"""Told what was reached, as soon as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """What runs."""

    config: Config
    factory: Factory
    worker: WorkerProcess
    internal_port: int
    environment_file: Path


def run(arguments: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT."""
    interruptible()
    home = DevelopmentHome(arguments.data_dir)
    api_socket, internal_socket = listening(
        given_port(arguments.port, "PORT", PORT_DEFAULT),
        given_port(arguments.internal_port, "INTERNAL_PORT", INTERNAL_PORT_DEFAULT),
    )
    try:
        config = home.start(port=port_of(api_socket), internal_port=port_of(internal_socket))
        configure_logging(level=config.log_level, form=config.log_format)
        return run_async(_develop(config, api_socket, internal_socket))
    finally:
        api_socket.close()
        internal_socket.close()
        home.stop()


def interruptible() -> None:
    """Let SIGTERM do what Ctrl-C does, also while things are still being started: nothing may stay behind."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


def given_port(argument: int | None, name: str, default: int) -> int:
    """Return the port of the command line, of the environment, or the default.

    Raises
    ------
    ConfigurationError
        The variable is no port.
    """
    if argument is not None:
        return argument
    text = os.environ.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and int(text) <= 65_535):
        raise ConfigurationError(f"{name} must be a number from 0 to 65535")
    return int(text)


def listening(port: int, internal: int) -> tuple[socket.socket, socket.socket]:
    """Return the sockets of both ports; taken before anything is started, so that a taken one costs nothing."""
    host = os.environ.get("HOST") or "127.0.0.1"
    api_socket = listen(host, port, name="PORT")
    try:
        return api_socket, listen(host, internal, name="INTERNAL_PORT")
    except ConfigurationError:
        api_socket.close()
        raise


async def _develop(config: Config, api_socket: socket.socket, internal_socket: socket.socket) -> int:
    stop = asyncio.Event()
    async with developing(config, api_socket, internal_socket, stop=stop) as running:
        say(f"API             {running.config.base_url}   (documentation: {running.config.base_url}/api/docs)")
        say(f"console         {running.config.base_url}/console")
        say(f"internal port   http://127.0.0.1:{running.internal_port}   (/livez, /readyz, /metrics)")
        if running.config.embeds_identity_provider:
            say(f"issuer          {running.factory.issuer}")
        say(f"DATABASE_URL    {running.config.database_url}")
        say(f"data            {running.config.data_dir}")
        say(f"other commands  set -a; . {running.environment_file}; set +a; payrec tenants list")
        say("Ctrl-C ends it; the data stays.")
        keep_what_is_there()
        await stop.wait()
        say("stopping")
    return 0


@asynccontextmanager
async def developing(
    config: Config,
    api_socket: socket.socket,
    internal_socket: socket.socket,
    *,
    stop: asyncio.Event,
    log: TextIO | None = None,
    reached: Progress = lambda _text: None,
) -> AsyncIterator[Running]:
    """Migrate, serve, and keep a worker, until the context ends. Everything has stopped then."""
    factory = make_factory(config)
    worker = WorkerProcess(config, log=log.fileno() if log is not None else None)

    def force() -> None:
        worker.kill()
        sys.stderr.write("payrec: ended at once\n")
        os._exit(130)

    async with opened(factory), contextlib.AsyncExitStack() as stack:
        await migrate(factory)
        reached("schemas are migrated")
        stack.enter_context(stopping(stop, force=force))
        await stack.enter_async_context(served(create_app(factory), api_socket, config=config, lifespan=True))
        await stack.enter_async_context(internal_port(factory, internal_socket))
        await worker.start()
        stack.push_async_callback(worker.stop)
        reached(f"API and worker run at {config.base_url}")
        assert config.data_dir is not None, "a development home has a directory"
        environment_file = config.data_dir / "settings.env"
        # Another process on this machine needs the settings, and ports of its own.
        settings = {**environment_of(config), "INTERNAL_PORT": "0"}
        write_private(environment_file, "".join(f"{name}={shlex.quote(text)}\n" for name, text in settings.items()))
        yield Running(
            config=config,
            factory=factory,
            worker=worker,
            internal_port=port_of(internal_socket),
            environment_file=environment_file,
        )
