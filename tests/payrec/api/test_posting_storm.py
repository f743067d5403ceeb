"""Sixteen decide at once while periods are locked and codes change; the books miss nothing and are what is matched."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from payrec.embedded.postgres import EmbeddedDatabase, EmbeddedPostgres
from support.invariants import deadlocks
from support.postgres import cloned
from support.posting_storm import REFUSALS, Books, Storm, is_what_is_matched
from support.postings import numbered, postings
from support.report_figures import MATCHES, everything
from support.service import Service, Tenant, make_config, running
from support.tenant_data import scope_of_tenant
from support.wire import add_user

pytestmark = pytest.mark.anyio

CLIENTS, OTHER_CLIENTS = 16, 2
SOAK, SOAK_SECONDS = 30.0, float(os.environ.get("PAYREC_SOAK_SECONDS", "3"))
KINDS = {"match", "match_reversal", "return", "classification", "classification_reversal"}


@pytest.fixture(scope="module")
def addresses(postgres: EmbeddedPostgres) -> Any:
    with cloned(postgres) as made:
        yield made


@pytest.fixture(scope="module")
async def service(addresses: EmbeddedDatabase) -> AsyncIterator[Service]:
    """Return a service with its worker, in a database of the test's own."""
    async with running(make_config(addresses)) as started:
        yield started


async def storm_of(service: Service, tenant: Tenant) -> Storm:
    scope = await scope_of_tenant(service.factory, tenant)
    _, second = await add_user(service, tenant, "approver")
    made = Storm(service, tenant, scope, second)
    await made.begin()
    return made


async def number_and_die(storm: Storm, chance: Random) -> None:
    """Number postings beside the worker, and be gone in the middle of it."""
    upkeep = storm.service.factory.upkeep
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(chance.random() * 0.02):
            await upkeep.create_sealer().seal(storm.scope)
            await upkeep.create_posting_sealer().number(storm.scope)


async def test_whatever_all_decide_at_once_the_books_are_what_is_matched(
    service: Service, addresses: EmbeddedDatabase, acme: Tenant, globex: Tenant
) -> None:
    storms = [await storm_of(service, tenant) for tenant in (acme, globex)]
    books = [Books(storm.tenant) for storm in storms]
    # Who empties the tables before a test may have met a task of the worker.
    before = await deadlocks(addresses.superuser_url)
    now = asyncio.get_running_loop().time
    until, chance = now() + SOAK_SECONDS, Random(7)  # noqa: S311 - a test's own

    async def meanwhile(storm: Storm, reader: Books) -> None:
        while now() < until:
            await reader.read_on(chance)
            await number_and_die(storm, chance)

    await asyncio.gather(
        *(meanwhile(storm, reader) for storm, reader in zip(storms, books, strict=True)),
        *(storm.others(until=until, now=now) for storm in storms),
        *(
            storm.client(Random(100 * place + seed), until=until, now=now)  # noqa: S311 - a test's own
            for place, (storm, count) in enumerate(zip(storms, (CLIENTS, OTHER_CLIENTS), strict=True))
            for seed in range(count)
        ),
    )
    for storm, reader in zip(storms, books, strict=True):
        await numbered(service, storm.scope)
        waiting = {match["id"] for match in await everything(storm.tenant, MATCHES, status="pending_approval")}
        assert waiting.isdisjoint(posting["sourceId"] for posting in await postings(storm.tenant))
        await storm.settle()
        await numbered(service, storm.scope)
        found = await postings(storm.tenant)
        assert found[: len(reader.taken)] == reader.taken
        await is_what_is_matched(storm.tenant, found)
        print(f"\n{len(found)} postings, {reader.batches} batches, {sorted(storm.answers.items())}")  # noqa: T201 - shown by -s
        assert {(status, code) for _, status, code in storm.answers if status >= 400} <= REFUSALS
        made = Counter(posting["sourceId"] for posting in found if posting["kind"] == "match")
        assert set(made.values()) <= {1}
    assert {posting["kind"] for posting in await postings(acme)} >= (KINDS if SOAK_SECONDS >= SOAK else {"match"})
    assert await deadlocks(addresses.superuser_url) == before
