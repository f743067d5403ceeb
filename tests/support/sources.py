"""Pulled data sources for tests: made, synced, and what they brought."""

from __future__ import annotations

from typing import Any, Final
from uuid import uuid4

from support.attempts import drain
from support.events import TOLD
from support.file_servers import PASSWORD, USER, SftpServer
from support.matching_world import World

PATH: Final = "/data-sources"
UNREADABLE: Final = b"Dear Sir,\nplease find our invoice.\n"


def statement(*amounts: int) -> bytes:
    """Return a table of payments of these amounts."""
    lines = [f"2026-03-{n:02d};{amount}.00;EUR;Invoice {amount}" for n, amount in enumerate(amounts, 1)]
    return "\n".join(["Booking date;Amount;Currency;Remittance", *lines, ""]).encode()


async def created(world: World, server: SftpServer, **given: Any) -> dict[str, Any]:
    """Make a data source of an SFTP server."""
    config = {
        "host": "127.0.0.1",
        "port": server.port,
        "username": USER,
        "hostKey": server.host_key,
        **given.pop("config", {}),
    }
    document = {"name": f"bank {uuid4()}", "kind": "sftp", "config": config, "secret": {"password": PASSWORD}, **given}
    answer = await world.tenant.post(PATH, document)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def shown(world: World, source: dict[str, Any]) -> dict[str, Any]:
    """Return a data source as it is."""
    return dict((await world.tenant.get(f"{PATH}/{source['id']}")).json())


async def synced(world: World, source: dict[str, Any]) -> dict[str, Any]:
    """Sync a source and return what became of it: the result, or the job's error."""
    started = await world.tenant.post(f"{PATH}/{source['id']}/sync")
    assert (started.status_code, started.headers["location"]) == (202, f"/jobs/{started.json()['id']}"), started.text
    await drain(world, "sync")
    job = await world.job(started.json()["id"])
    return dict(job["result"] or job["error"] or job)


async def brought(world: World) -> list[int]:
    """Return the amounts of all incoming transactions."""
    rows = await world.sql("SELECT amount_minor FROM incoming_transaction")
    return sorted(row["amount_minor"] // 100 for row in rows)


async def events(world: World, source: dict[str, Any]) -> list[str]:
    """Return which events there were about a data source."""
    query = f"SELECT type FROM {TOLD} WHERE resource_id = '{source['id']}' ORDER BY place"  # noqa: S608
    return [row["type"] for row in await world.sql(query)]
