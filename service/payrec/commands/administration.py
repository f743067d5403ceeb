"""What the commands for operators share: settings from the environment, one factory, one actor in the audit log."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from typing import Final

from payrec.commands.serving import check_administrator, check_start, make_factory, opened, run_async
from payrec.config import load_config
from payrec.domain.caller import Caller
from payrec.domain.principal import Permission, Principal
from payrec.factory import Factory
from payrec.logs import configure_logging

ADMINISTRATOR: Final = Caller(
    principal=Principal(kind="system", name="command-line", permissions=frozenset({Permission.TENANTS_MANAGE})),
    request_id="command-line",
)
"""Whoever can read the service's settings."""

Action = Callable[[Factory, argparse.Namespace], Awaitable[None]]


def administer(action: Action, arguments: argparse.Namespace, *, ready: bool = True) -> int:
    """Do one action on the database of the settings; ``ready`` False: one that makes it what this version needs."""
    config = load_config()
    configure_logging(level="warning", form=config.log_format)

    async def work() -> int:
        async with opened(make_factory(config)) as factory:
            await (check_start(factory) if ready else check_administrator(config))
            await action(factory, arguments)
        return 0

    return run_async(work())
