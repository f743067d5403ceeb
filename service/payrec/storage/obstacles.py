"""Why a database cannot be reached, in a line for whoever starts a process."""

from __future__ import annotations

import psycopg
from psycopg import AsyncConnection

from payrec.storage.addresses import CONNECT_SECONDS, bounded


async def obstacle(url: str) -> str | None:
    """Make one connection, and return in a line why that cannot be; None where it can. Never a password."""
    try:
        connection = await AsyncConnection.connect(bounded(url), connect_timeout=CONNECT_SECONDS, autocommit=True)
    except psycopg.OperationalError as error:
        return f"the database cannot be reached: {first_failure(str(error))}"
    await connection.close()
    return None


def first_failure(message: str) -> str:
    """Return the line of psycopg's message that says what failed, of the first address where there are several."""
    lines = [line.strip(" \t-") for line in message.splitlines() if line.strip()]
    several = lines[1:] if lines and lines[0].startswith("Multiple connection attempts") else lines
    return several[0].removeprefix("connection failed: ") if several else "it does not answer"
