"""``python -m support.fault_run``: clients, faults, and what both leave, checked; 1 if there is a contradiction.

With ``--isolated`` it is root in namespaces of its own, where it may make links and disks that end with it. With
``--every-kind`` it ends with 2, and begins nothing, where a kind of fault cannot be had. It ends with 3 where clients
were answered in less than half of the time: on a machine on which nothing has started again before it is killed, the
history is clean because there is none.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final, cast

import httpx2

from support.commands import environment
from support.fault_books import Facts
from support.fault_checker import GIVEN, SLOT_SECONDS, answered_slots, contradictions, counted
from support.fault_clients import Client, Place
from support.fault_history import History
from support.fault_nemesis import Nemesis, missing
from support.fault_plan import KINDS, planned
from support.fault_site import Site
from support.outages import looked, surely
from support.postings import postings
from support.receivers import Receiver, receiving
from support.report_figures import EXPECTED, INCOMING, MATCHES, everything
from support.service import Service, Tenant

CLIENTS: Final = 4
"""Of each of the two tenants."""
ANSWERED_SECONDS: Final = 90.0
"""How long after the last fault every request must have an answer."""
SETTLED_SECONDS: Final = 240.0
"""How long after that everything must have ended that was asked for."""

LATER: Final = (
    "UPDATE {schema}.job SET next_attempt_at = clock_timestamp() WHERE status = 'queued'",
    "UPDATE {schema}.webhook_delivery SET next_attempt_at = now() WHERE status = 'pending'",
    "UPDATE {schema}.webhook SET paused_until = NULL",
)
"""Has that tried again now which would be in some minutes."""

WAITING: Final = """
SELECT (SELECT count(*) FROM {schema}.outbox)
     + (SELECT count(*) FROM {schema}.job WHERE status IN ('queued', 'running'))
     + (SELECT count(*) FROM {schema}.import WHERE status = 'processing')
     + (SELECT count(*) FROM {schema}.webhook_delivery WHERE status = 'pending')
     + (SELECT count(*) FROM {schema}.webhook WHERE position < (SELECT max(position) FROM {schema}.event))
     + (SELECT coalesce(max(position), 0) FROM {schema}.event)
     - (SELECT coalesce(max(position), 0) FROM {schema}.posting_feed)
"""
"""How much is still to be done."""


async def settle(site: Site, places: list[Place]) -> None:
    """Wait until nothing waits any more; what is not over then, the checker finds."""
    until = time.monotonic() + SETTLED_SECONDS
    url = site.database.superuser_url
    while time.monotonic() < until:
        left = 0
        for place in places:
            schema = f"{place.tenant.slug}_production"
            [[count]] = await looked(url, WAITING.format(schema=schema))
            left += count
            for statement in LATER if count else ():
                await looked(url, statement.format(schema=schema) + " RETURNING 1")
        if left == 0:
            return
        await looked(url, "UPDATE control.webhook_queue SET due_at = now() RETURNING 1")
        await asyncio.sleep(1.0)


class Patient(Tenant):
    """A tenant who asks again until there is an answer."""

    async def request(self, method: str, path: str, environment: str = "production", **options: Any) -> httpx2.Response:
        """Ask as the administrator, as long as it takes."""
        return await surely(lambda: Tenant.request(self, method, path, environment, **options))


async def facts_of(site: Site, place: Place, receiver: Receiver) -> Facts:
    """Return what a tenant has now, as it is told itself."""
    tenant = Patient(**{one.name: getattr(place.tenant, one.name) for one in fields(place.tenant)})
    answer = await surely(lambda: tenant.http.post(f"{tenant.base_url}/auth/token", json=who(tenant.slug)))
    tenant.token = answer.json()["access_token"]
    events: list[dict[str, Any]] = []
    while True:
        after = events[-1]["position"] if events else 0
        page = await tenant.get("/events", params={"sort": "createdAt", "after": after, "limit": 200})
        events += page.json()["data"]
        if not page.json()["data"]:
            break
    came = [one.message for one in receiver.received]
    return Facts(
        tenant=tenant.slug,
        items=await everything(tenant, EXPECTED),
        lines=await everything(tenant, INCOMING),
        matches=await everything(tenant, MATCHES),
        jobs=await everything(tenant, "/jobs"),
        imports=await everything(tenant, "/imports"),
        webhooks=await everything(tenant, "/webhooks"),
        keys=await everything(tenant, "/auth/api-keys"),
        events=events,
        postings=await postings(tenant),
        told=[(one["id"], one["data"]["resourceId"]) for one in came if one["tenantId"] == tenant.id],
        told_after=place.told_after,
        audit=await audited(site, tenant),
    )


async def audited(site: Site, tenant: Tenant) -> str:
    """Return what ``payrec audit verify`` complains of."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "payrec.cli", "audit", "verify", "--tenant", tenant.slug, "--environment", "production",
        env={"PATH": "", **environment(site.database)}, cwd=site.folder,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate()
    return "" if process.returncode == 0 else said.decode()[-500:]


def who(slug: str) -> dict[str, str]:
    """Return the credentials of a tenant's administrator."""
    return {"username": f"admin@{slug}", "password": f"pässwörd-{slug}"}


async def opened(service: Service, slug: str, receiver: Receiver) -> Place:
    """Make a tenant with a key for its clients and an endpoint that is told of everything."""
    tenant = await service.tenant(slug, environments=["production"])
    key = await tenant.post("/auth/api-keys", {"name": GIVEN, "read": True, "write": True})
    hook = await tenant.post("/webhooks", {"url": receiver.url, "events": ["*"], "description": GIVEN})
    assert (key.status_code, hook.status_code) == (201, 201), (key.text, hook.text)
    before = (await tenant.get("/events", params={"limit": 1})).json()["data"]
    return Place(
        tenant=tenant, key=key.json()["apiKey"], password=who(slug)["password"], receiver=receiver.url,
        told_after=before[0]["position"] if before else 0,
    )  # fmt: skip


@asynccontextmanager
async def asking() -> AsyncIterator[httpx2.AsyncClient]:
    """Return a client that keeps no connection for long, because who is behind it may be gone."""
    limits = httpx2.Limits(max_connections=200, keepalive_expiry=2.0)
    async with httpx2.AsyncClient(timeout=60.0, limits=limits) as http:
        yield http


async def story(given: argparse.Namespace, folder: Path) -> tuple[list[str], bool]:
    """Run a plan while clients work; return the contradictions, and whether there was too little that could be one."""
    lacks = missing(isolated=given.isolated)
    plan = planned(given.seed, given.seconds, [kind for kind in KINDS if kind not in lacks])
    say(f"seed {given.seed}, {given.seconds:.0f} s, {len(plan)} faults; not to be had here: {lacks or 'none'}")
    site, history = Site(folder, isolated=given.isolated), History(folder / "history.jsonl")
    async with site.running(), receiving(host=site.near) as receiver, asking() as http:
        service = Service(base_url=site.urls[0], factory=cast("Any", None), http=http)
        places = [await opened(service, slug, receiver) for slug in ("acme", "globex")]
        places[0].others, places[1].others = places[1], places[0]
        clients = [
            Client(f"{place.tenant.slug}-{number}", place, site.urls, http, history, seed=given.seed)
            for place in places
            for number in range(CLIENTS)
        ]
        for client in clients[::CLIENTS]:
            await client.prepare()
        nemesis = Nemesis(site, plan, seed=given.seed)
        end = time.monotonic() + given.seconds
        last = end + ANSWERED_SECONDS
        over, give_up = (lambda: time.monotonic() > end), (lambda: time.monotonic() > last)
        async with asyncio.TaskGroup() as group:
            group.create_task(nemesis.run())
            for client in clients:
                group.create_task(client.work(over=over, give_up=give_up))
        history.close()
        say(f"faults: {nemesis.done}")
        say(f"all was answered {time.monotonic() - end:.0f} s after the end")
        began = time.monotonic()
        await site.answering()
        await settle(site, places)
        say(f"all was done {time.monotonic() - began:.0f} s later")
        facts = {place.tenant.slug: await facts_of(site, place, receiver) for place in places}
        ended = {name: member.ended_by_itself for name, member in site.members.items() if member.ended_by_itself}
    (folder / "facts.json").write_text(json.dumps({slug: asdict(one) for slug, one in facts.items()}), encoding="utf-8")
    found = contradictions(history.calls, facts)
    found += [f"{client.name} was never answered: {client.unanswered}" for client in clients if client.unanswered]
    say(f"ended by themselves, and were started again: {ended or 'none'}")
    say(json.dumps(counted(history.calls)))
    answered, slots = answered_slots(history.calls)
    say(f"answered in {answered} of {slots} times {SLOT_SECONDS:.0f} s")
    for slug, one in facts.items():
        sizes = {name: len(rows) for name, rows in asdict(one).items() if isinstance(rows, list)}
        say(f"{slug}: {json.dumps(sizes)}")
    return found, 2 * answered < slots


def say(text: str) -> None:
    """Tell what happens."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run one round."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--isolated", action="store_true")
    parser.add_argument("--every-kind", action="store_true")
    given = parser.parse_args()
    if given.every_kind and (lacks := missing(isolated=given.isolated)):
        parser.error("; ".join(f"{kind}: {how}" for kind, how in lacks.items()))
    found, is_thin = asyncio.run(story(given, given.folder))
    for said in found[:50]:
        say(f"CONTRADICTION {said}")
    say(f"{len(found)} contradictions, seed {given.seed}")
    if found:
        return 1
    return 3 if is_thin else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
