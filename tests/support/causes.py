"""Two tenants ask for all there is while something crashes beneath them, and find each of it once in the end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from payrec.domain.scope import TenantScope
from payrec.services.imports import INLINE_BYTES_MAX
from support.outages import Installation, Ledger, posted, surely
from support.receivers import Received, receiving
from support.service import Tenant
from support.tenant_data import scope_of_tenant
from support.wire import until

FILES = 12
EXPORTS = 4
LARGE_ROWS = 8_000
TYPES = ("expected_transaction.created", "import.completed", "job.succeeded", "match.proposed")


async def feed(tenant: Tenant, count: int, types: Collection[str] = TYPES) -> list[dict[str, Any]]:
    """Poll the feed as an integration does, until it has so many events of types; return all as they came."""
    found: list[dict[str, Any]] = []
    after = 0
    async with asyncio.timeout(90):
        while sum(event["type"] in types for event in found) < count:
            parameters = {"sort": "createdAt", "after": after, "limit": 200}
            answer = await surely(lambda given=parameters: tenant.get("/events", params=given))
            assert answer.status_code == 200, answer.text
            new = answer.json()["data"]
            found += new
            after = new[-1]["position"] if new else after
            await asyncio.sleep(0 if new else 0.05)
    return found


def table(number: int, rows: int, *, padding: int = 0) -> bytes:
    """Return a bank's table of payments that no other file has."""
    lines = [f"2026-03-01;{n}.{number:02d};EUR;Invoice {number}-{n};{'x' * padding}" for n in range(1, rows + 1)]
    return "\n".join(["Booking date;Amount;Currency;Remittance;Note", *lines]).encode()


async def uploaded(tenant: Tenant, number: int, rows: int, *, padding: int = 0) -> str:
    """Upload a table and return the id of its import."""
    file = ("bank.csv", table(number, rows, padding=padding))
    answer = await posted(tenant, "/incoming-transactions/upload", None, key=f"upload-{number}", files={"file": file})
    return str(answer["id"])


async def ended(tenant: Tenant, path: str) -> dict[str, Any]:
    """Return an import or a job when it has ended."""

    async def is_over() -> dict[str, Any] | None:
        found = (await surely(lambda: tenant.get(path))).json()
        return found if found["status"] not in {"processing", "queued", "running"} else None

    return await until(is_over, seconds=90)


@dataclass(slots=True)
class Causes:
    """What two tenants ask for while the database crashes, and what each of it became."""

    acme: Tenant
    globex: Tenant
    over: asyncio.Event = field(default_factory=asyncio.Event)
    items: int = 0
    files: list[str] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    theirs: str = ""

    async def expect(self) -> None:
        """Make one expected transaction after the other."""
        while not self.over.is_set():
            amount = f"{self.items + 1}.00"
            body = {"direction": "credit", "currency": "EUR", "amount": amount, "reference": f"Invoice 0-{amount}"}
            await posted(self.acme, "/expected-transactions", body, key=f"item-{self.items}")
            self.items += 1

    async def upload(self) -> None:
        """Upload small files, and one that a worker reads."""
        self.files.append(await uploaded(self.acme, 50, LARGE_ROWS, padding=1 + INLINE_BYTES_MAX // LARGE_ROWS))
        self.files += [await uploaded(self.acme, 1 + n, 3) for n in range(FILES)]
        self.theirs = await uploaded(self.globex, 99, 2)

    async def match(self) -> None:
        """Run matching again and again."""
        while not self.over.is_set():
            run = await posted(self.acme, "/jobs", {"kind": "match", "params": {}}, key=f"run-{len(self.jobs)}")
            self.jobs.append(str(run["id"]))
            await ended(self.acme, f"/jobs/{run['id']}")

    async def export(self) -> None:
        """Have lists made into files."""
        body = {"kind": "export", "params": {"resource": "expected-transactions", "format": "csv"}}
        for n in range(EXPORTS):
            self.jobs.append(str((await posted(self.acme, "/jobs", body, key=f"export-{n}"))["id"]))

    async def crash(self, place: Installation) -> None:
        """Crash the database some times."""
        for away in (0.0, 2.0, 0.0):
            await asyncio.sleep(1.0)
            await place.crash_database(seconds=away)
        self.over.set()


async def everything_once(place: Installation, acme: Tenant, globex: Tenant) -> None:
    """Ask for everything while the database crashes, and find each of it once; the processes stay."""
    scope = await scope_of_tenant(place.service.factory, acme)
    causes, ledger = Causes(acme, globex), Ledger("")

    def take(came: Received) -> web.Response:
        ledger.take(came)
        return web.Response(status=204)

    async def told() -> int | None:
        [[waiting]] = await sql(place, scope, "SELECT count(*) FROM outbox")
        [[count]] = await sql(place, scope, "SELECT count(*) FROM event WHERE type = ANY(%s)", list(TYPES))
        return count if waiting == 0 and len(ledger.seen) == count else None

    async with receiving(take) as receiver:
        hook = await acme.post("/webhooks", {"url": receiver.url, "events": list(TYPES)})
        ledger.secret = hook.json()["secret"]
        await asyncio.gather(causes.crash(place), causes.expect(), causes.upload(), causes.match(), causes.export())
        files = [await ended(acme, f"/imports/{one}") for one in causes.files]
        jobs = [await ended(acme, f"/jobs/{one}") for one in causes.jobs]
        assert (await ended(globex, f"/imports/{causes.theirs}"))["status"] == "completed"
        count = await until(told, seconds=90)
    assert [one["counts"]["accepted"] for one in files] == [LARGE_ROWS, *[3] * FILES]
    assert {one["status"] for one in jobs} == {"succeeded"}
    rows = {"expected_transaction": causes.items, "incoming_transaction": 3 * FILES + LARGE_ROWS, "export": EXPORTS}
    for table_, there in rows.items():
        assert await sql(place, scope, f"SELECT count(*) FROM {table_}") == [(there,)], table_  # noqa: S608 - our own
    events = await feed(acme, count)
    assert [event["position"] for event in events] == list(range(1, len(events) + 1))
    assert set(ledger.seen) == {event["id"] for event in events if event["type"] in TYPES}
    types = Counter(event["type"] for event in events)
    assert types["expected_transaction.created"] == causes.items
    assert types["import.completed"] == FILES + 1
    assert types["job.succeeded"] >= FILES + 1 + len(causes.jobs)
    assert place.serving is not None
    assert place.worker is not None
    assert (place.serving.process.poll(), place.worker.returncode) == (None, None)


async def sql(place: Installation, scope: TenantScope, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Return rows of a schema."""
    async with place.service.factory.context.database.tenant(scope, readonly=True) as connection:
        cursor = await connection.execute(query.encode(), parameters or None)
        return [tuple(row.values()) for row in await cursor.fetchall()]
