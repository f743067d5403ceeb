"""``payrec serve``: the API, and the internal port beside it."""

from __future__ import annotations

import argparse
import asyncio

from payrec.commands.serving import (
    DRAIN_SECONDS_MAX,
    check_start,
    given_ports,
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
from payrec.config import Config, load_config
from payrec.logs import configure_logging
from payrec.main import create_app


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    config = load_config(**given_ports(arguments))
    configure_logging(level=config.log_level, form=config.log_format)
    return run_async(_serve(config))


async def _serve(config: Config) -> int:
    stop = asyncio.Event()
    with (
        listen(config.host, config.port, name="PORT") as api_socket,
        listen(config.host, config.internal_port, name="INTERNAL_PORT") as internal_socket,
    ):
        config = config.model_copy(update={"port": port_of(api_socket)})
        factory = make_factory(config)
        # What tenants are made with is looked at now, not when the first one is asked for.
        factory.tenants.creation  # noqa: B018 - raises ConfigurationError
        async with opened(factory):
            await check_start(factory)
            app = create_app(factory)
            with stopping(stop):
                async with (
                    served(app, api_socket, config=config, lifespan=True, drain_seconds=DRAIN_SECONDS_MAX),
                    internal_port(factory, internal_socket),
                ):
                    keep_what_is_there()
                    await stop.wait()
    return 0
