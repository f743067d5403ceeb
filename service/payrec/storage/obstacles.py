"""Why a database cannot be reached or used, for whoever starts a process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection

from payrec.storage.addresses import CONNECT_SECONDS, bounded

_WHICH: Final = "SELECT oid, pg_postmaster_start_time() FROM pg_database WHERE datname = current_database()"
"""Which database of which server a connection leads to, whatever pooler or name it came by."""


async def obstacle(
    url: str,
    *,
    what: str = "the database cannot be reached",
    enter: Callable[[AsyncConnection[Any]], Awaitable[None]] | None = None,
) -> str | None:
    """Make one connection, and return in a line why that cannot be; None where it can. Never a password.

    The line begins with ``what``. ``enter`` is what is done on the connection before it is of use.
    """
    try:
        async with await _connected(url) as connection:
            if enter is not None:
                await enter(connection)
    except psycopg.Error as error:
        return f"{what}: {first_failure(str(error))}"
    return None


async def are_apart(*urls: str) -> bool:
    """Tell whether addresses lead to different databases; False where one cannot be reached, which others tell of."""
    found = set()
    for url in urls:
        try:
            async with await _connected(url) as connection:
                found.add(await (await connection.execute(_WHICH)).fetchone())
        except psycopg.Error:
            return False
    return len(found) > 1


async def _connected(url: str) -> AsyncConnection[Any]:
    return await AsyncConnection.connect(bounded(url), connect_timeout=CONNECT_SECONDS, autocommit=True)


def first_failure(message: str) -> str:
    """Return the line of psycopg's message that says what failed, of the first address where there are several."""
    lines = [line.strip(" \t-") for line in message.splitlines() if line.strip()]
    several = lines[1:] if lines and lines[0].startswith("Multiple connection attempts") else lines
    return several[0].removeprefix("connection failed: ") if several else "it does not answer"
