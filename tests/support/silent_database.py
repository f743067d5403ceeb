"""``python -m support.silent_database``: a network that swallows what goes to the database, in a namespace of its own.

It writes how long each who waits has waited, in seconds: for an answer, for a commit, for a transaction, for news.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import psycopg
from psycopg.conninfo import conninfo_to_dict

from payrec.errors import UnavailableError
from payrec.storage import addresses
from payrec.storage.database import Connection, Database
from support.forwarder import forwarding
from support.places import wait_for

QUICK = {"connect_timeout": "2", "keepalives_idle": "1", "keepalives_interval": "1", "keepalives_count": "2"}
"""Bounds that end in parts of a minute: the test of the bounds themselves is another."""
USER_TIMEOUT = {"tcp_user_timeout": "3000"}
CLOSED_AFTER_SECONDS = 60.0
"""Far beyond all of these, and far below what TCP itself would wait."""
SLEEPING = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'"


def lo(state: str) -> None:
    """Take the only network of the namespace up or down."""
    subprocess.run(["ip", "link", "set", "lo", state], check=True)  # noqa: S603, S607 - root, in a namespace


async def story(url: str) -> dict[str, float]:
    """Wait in each way for a database that has gone silent."""
    given = conninfo_to_dict(url)
    silent, waited = asyncio.Event(), dict[str, float]()

    async def held(name: str, then: Callable[[Connection], Awaitable[object]]) -> None:
        async with database.control() as connection:
            begun.release()
            await then(connection)
        raise AssertionError(f"{name} was answered")

    async def asked(connection: Connection) -> None:
        await connection.execute("SELECT pg_sleep(600)")

    async def committed(_connection: Connection) -> None:
        await silent.wait()

    async def begins(_name: str) -> None:
        begun.release()
        await silent.wait()
        async with database.control():
            raise AssertionError("a transaction began")

    async def listens(_name: str) -> None:
        async with await psycopg.AsyncConnection.connect(addresses.bounded(tcp), autocommit=True) as connection:
            await connection.execute("LISTEN news")
            begun.release()
            async for _ in connection.notifies():
                raise AssertionError("there was news")

    async def timed(name: str, waits: Awaitable[None]) -> None:
        try:
            await waits
        except (UnavailableError, psycopg.OperationalError):
            waited[name] = round(time.monotonic() - went_silent, 1)

    begun = asyncio.Semaphore(0)
    went_silent = float("inf")
    async with forwarding(5432, host=str(given["host"])) as forwarder:
        tcp = f"postgresql://{given['user']}@127.0.0.1:{forwarder.port}/{given['dbname']}"
        database = Database(url=tcp)
        await database.open()
        ways = {
            "an answer": held("an answer", asked), "a commit": held("a commit", committed),
            "a transaction": begins("a transaction"), "news": listens("news"),
        }  # fmt: skip
        async with asyncio.timeout(CLOSED_AFTER_SECONDS), asyncio.TaskGroup() as group:
            for name, waits in ways.items():
                group.create_task(timed(name, waits))
            for _ in ways:
                await begun.acquire()
            await wait_for(url, SLEEPING)
            lo("down")
            went_silent = time.monotonic()
            silent.set()
        lo("up")
        await database.close()
    return waited


def main() -> None:
    """Take the network of the namespace up, tell the story, and write what came of it."""
    lo("up")
    addresses.BOUNDS.update(QUICK | USER_TIMEOUT)
    sys.stdout.write(json.dumps(asyncio.run(story(sys.argv[1]))))


if __name__ == "__main__":
    main()
