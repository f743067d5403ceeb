"""``payrec wait-for-migration``: wait until the control schema is this version's, and migrate nothing.

For the start of a process beside a migration that somebody else does. It imports as little as it can: it is waited for.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Final

import structlog

from payrec.config import Config, load_config
from payrec.errors import UnavailableError
from payrec.logs import configure_logging
from payrec.services.migrations import check_ready
from payrec.storage.database import Database
from payrec.storage.obstacles import obstacle

LOOK_SECONDS: Final = 1.0
"""Between two looks."""


def run(arguments: argparse.Namespace) -> int:
    """Wait, with one log line for each thing that is waited for."""
    config = load_config()
    configure_logging(level=config.log_level, form=config.log_format)
    asyncio.run(_wait(config, seconds=arguments.seconds))
    return 0


async def _wait(config: Config, *, seconds: int) -> None:
    logger = structlog.get_logger("payrec.migrations")
    until = time.monotonic() + seconds
    said: str | None = None
    while (missing := await _missing(config)) is not None:
        if missing != said:
            logger.warning("migration.waiting", reason=missing)
            said = missing
        if time.monotonic() >= until:
            raise UnavailableError(f"waited {seconds} s for the migration: {missing}")
        await asyncio.sleep(LOOK_SECONDS)


async def _missing(config: Config) -> str | None:
    """Return what the control schema lacks; None where a process of this version may start."""
    refusal = await obstacle(config.database_url)
    if refusal is not None:
        return refusal
    database = Database(url=config.database_url, pool_size_max=2, prepared=config.database_pooler is None)
    try:
        await database.open()
        await check_ready(database)
    except UnavailableError as error:
        return error.detail
    finally:
        await database.close()
    return None
