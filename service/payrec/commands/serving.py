"""Processes that stay: their ports, their signals, and an end in good order."""

from __future__ import annotations

import argparse
import asyncio
import errno
import gc
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import uvicorn
from starlette.types import ASGIApp

from payrec.config import Config
from payrec.embedded.passwords import PasswordHasher
from payrec.errors import ConfigurationError, PayrecError
from payrec.factory import BaseFactory, ProcessContext, create_context
from payrec.gate.protocol import BoundedHttpProtocol
from payrec.internal import create_internal_app
from payrec.services.migrations import check_ready
from payrec.services.peppers import check_pepper
from payrec.storage.obstacles import are_apart

if TYPE_CHECKING:
    from payrec.factory import Factory

F = TypeVar("F", bound=BaseFactory)

BACKLOG: Final = 2048
"""Connections that may wait to be accepted."""

KEEP_ALIVE_SECONDS: Final = 75
"""How long a connection is kept without a request. Proxies keep theirs for 60 seconds and more: who ends it first must
not be the server, because a request may be on its way."""

DRAIN_SECONDS_MAX: Final = 3.0
"""How long kept connections may be used, each for one request more, after the process was asked to end."""

GRACE_SECONDS: Final = 25
"""How long requests may go on after that; with the drain below the 30 seconds of a Kubernetes pod."""


_LOOK_SECONDS: Final = 0.05
"""Between two looks at the connections that are left."""


class _Server(uvicorn.Server):
    """A server that leaves signals to the process, which may have several, and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so.

        Raises
        ------
        PayrecError
            The application does not start. Uvicorn ends the process then, which is not its own here.
        """
        try:
            await super().startup(sockets=sockets)
        except SystemExit:
            raise PayrecError("the server did not start; the log says why") from None
        self.listening.set()

    async def drain(self, *, seconds: float) -> None:
        """Let clients leave: each answer says that it is its connection's last, until nobody is left or for so long.

        A connection that is ended from here may meet a request that is on its way, which its client has to call lost.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        self.server_state.draining = True  # type: ignore[attr-defined] # of the protocol, which is made with this state
        while self.server_state.connections and loop.time() < until:  # noqa: ASYNC110 - nobody tells of their end
            await asyncio.sleep(_LOOK_SECONDS)


def given_ports(arguments: argparse.Namespace) -> dict[str, int]:
    """Return the settings that the command line gives instead of the environment."""
    ports = {"port": getattr(arguments, "port", None), "internal_port": getattr(arguments, "internal_port", None)}
    return {name: port for name, port in ports.items() if port is not None}


def listen(host: str, port: int, *, name: str) -> socket.socket:
    """Return a listening socket; port 0 takes any free one.

    Taken before anything is started: two processes never believe that they have the same port.

    Raises
    ------
    ConfigurationError
        With the setting's ``name``: the port is taken, or the address is not one of this machine.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            option = f"--{name.lower().replace('_', '-')}"
            raise ConfigurationError(f"{name} {port} is taken by another process; choose one with {option}") from None
        if error.errno == errno.EACCES:
            raise ConfigurationError(f"{name} {port} needs rights that this process does not have") from None
        raise ConfigurationError(f"HOST {host} cannot be listened on: {error.strerror}") from None


def port_of(listening: socket.socket) -> int:
    """Return the port that a socket got."""
    return int(listening.getsockname()[1])


@asynccontextmanager
async def served(
    app: ASGIApp,
    listening: socket.socket,
    *,
    config: Config | None = None,
    lifespan: bool = False,
    drain_seconds: float = 0.0,
) -> AsyncIterator[uvicorn.Server]:
    """Serve an application on a socket until the context ends, then let its clients leave and its requests finish."""
    proxies = config.trusted_proxies if config is not None else ""
    server = _Server(
        uvicorn.Config(
            app,
            http=BoundedHttpProtocol,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on" if lifespan else "off",
            proxy_headers=bool(proxies),
            forwarded_allow_ips=proxies or None,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    listens = asyncio.create_task(server.listening.wait())
    try:
        await asyncio.wait({serving, listens}, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            yield server
    finally:
        listens.cancel()
        if drain_seconds and not serving.done():
            await server.drain(seconds=drain_seconds)
        server.should_exit = True
        await serving


@contextmanager
def stopping(stop: asyncio.Event, *, force: Callable[[], None] | None = None) -> Iterator[None]:
    """Set ``stop`` at the first SIGINT or SIGTERM; call ``force`` at the next."""
    loop = asyncio.get_running_loop()

    def asked() -> None:
        if stop.is_set() and force is not None:
            force()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def run_async(work: Coroutine[Any, Any, int]) -> int:
    """Run a coroutine to its end on the fastest event loop that is installed."""
    with asyncio.Runner(loop_factory=uvicorn.Config("", log_config=None).get_loop_factory()) as runner:
        return runner.run(work)


def keep_what_is_there() -> None:
    """Have the collector of cycles leave alone what the process has now, because it stays as long as the process does.

    Now and then it looks at everything, and nobody is answered meanwhile: for 0.2 s, or for some 10 ms with this.
    """
    gc.collect()
    gc.freeze()


def make_context(config: Config) -> ProcessContext:
    """Return the context of a process with these settings."""
    passwords = PasswordHasher() if config.embeds_identity_provider else None
    return create_context(config, passwords=passwords)


def make_factory(config: Config) -> Factory:
    """Return the factory of a process with these settings."""
    from payrec.factory import Factory  # noqa: PLC0415 - the operator, which has these helpers too, does without it

    return Factory(make_context(config))


@asynccontextmanager
async def opened(factory: F) -> AsyncIterator[F]:
    """Open the database for a process or a command, and close what it has at the end.

    Raises
    ------
    UnavailableError
        DATABASE_URL cannot be reached.
    """
    context = factory.context
    try:
        await context.database.open()
        yield factory
    finally:
        await context.aclose()


async def check_administrator(config: Config) -> None:
    """Look whether ADMIN_DATABASE_URL, where it is set, leads to the database of DATABASE_URL.

    Otherwise schemas are made in a database that is another installation's, and nobody finds them in this one.

    Raises
    ------
    ConfigurationError
    """
    admin_url = config.admin_database_url
    if admin_url is not None and await are_apart(config.database_url, admin_url):
        raise ConfigurationError("ADMIN_DATABASE_URL leads to another database than DATABASE_URL")


async def check_start(factory: BaseFactory) -> None:
    """Look whether a process may start on this database: its addresses, its control schema and its pepper.

    A process refuses a control schema behind its own head; ahead of it is fine.

    Raises
    ------
    ConfigurationError, UnavailableError
    """
    context = factory.context
    await check_administrator(context.config)
    await check_ready(context.database)
    await check_pepper(context.database, factory.peppers, at=context.clock.now())


@asynccontextmanager
async def internal_port(
    factory: BaseFactory, listening: socket.socket, *, ready: Callable[[], Awaitable[None]] | None = None
) -> AsyncIterator[None]:
    """Serve /livez, /readyz and /metrics; ready is who reaches the database and finds its control schema current."""

    async def check() -> None:
        await factory.context.database.ping()
        await check_ready(factory.context.database)

    measure = factory.measurement.look
    app = create_internal_app(metrics=factory.context.metrics, check_ready=ready or check, measure=measure)
    async with served(app, listening):
        yield
