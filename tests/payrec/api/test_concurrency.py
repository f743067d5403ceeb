"""Many people accept at once: no amount is given away twice, and nobody gets an answer that is not one of ours."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from payrec.domain.scope import TenantScope
from payrec.embedded.postgres import EmbeddedDatabase, EmbeddedPostgres
from payrec.storage.match_proposals import MatchProposalStore
from payrec.storage.tenants import TenantStore, scope_of
from support.contention import compete, put
from support.invariants import violations
from support.places import look, wait_for
from support.postgres import cloned
from support.service import Service, Tenant, make_config, running

pytestmark = pytest.mark.anyio

CLIENTS = 32
SOAK_SECONDS = float(os.environ.get("PAYREC_SOAK_SECONDS", "6"))
OVER_ALLOCATED = "within_the_amount"


@dataclass(slots=True, kw_only=True)
class Arena:
    """A tenant environment in which many compete."""

    addresses: EmbeddedDatabase
    service: Service
    tenant: Tenant
    scope: TenantScope
    rounds: int = 0
    answers: Counter[tuple[int, str]] = field(default_factory=Counter)
    accepted: set[UUID] = field(default_factory=set)

    async def round(self) -> list[UUID]:
        """Store new transactions and proposals; return the proposals."""
        self.rounds += 1
        context = self.service.factory.context
        return await compete(context.database, self.scope, context.ids, seed=self.rounds)

    async def accept(self, match_id: UUID) -> int:
        """Accept one proposal over HTTP, and keep count of the answer."""
        answer = await self.tenant.post(f"/matches/{match_id}/accept")
        code = "" if answer.status_code == 200 else answer.json()["code"]
        self.answers[answer.status_code, code] += 1
        if answer.status_code == 200:
            self.accepted.add(match_id)
        return answer.status_code

    async def fight(self, *, seconds: float) -> None:
        """Let all clients accept whatever they like, round after round, until the time is over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while loop.time() < until:
            proposals = await self.round()

            async def client(number: int, proposals: list[UUID] = proposals) -> None:
                chance = random.Random(self.rounds * CLIENTS + number)  # noqa: S311 - no secret
                for _ in range(4):
                    await self.accept(chance.choice(proposals))

            await asyncio.gather(*(client(number) for number in range(CLIENTS)))

    async def wrong(self) -> dict[str, list[UUID]]:
        """Return what should never be."""
        return await violations(self.addresses.superuser_url, self.scope.schema_name)

    async def drop_constraint(self) -> None:
        """Remove what the promise rests on."""
        table = f"{self.scope.schema_name}.allocation"
        await look(self.addresses.superuser_url, f"ALTER TABLE {table} DROP CONSTRAINT allocation_within_amount")


@pytest.fixture
async def arena(postgres: EmbeddedPostgres) -> AsyncIterator[Arena]:
    """Return an arena in a database of the test's own."""
    with cloned(postgres) as made:
        async with running(make_config(made)) as service:
            tenant = await service.tenant("arena", environments=["production"])
            async with service.factory.context.database.control(readonly=True) as connection:
                [row] = await TenantStore(connection).scopes()
            yield Arena(addresses=made, service=service, tenant=tenant, scope=scope_of(row))


async def test_overlapping_matches_never_give_an_amount_away_twice(arena: Arena) -> None:
    await arena.fight(seconds=SOAK_SECONDS)
    print(f"\n{arena.rounds} rounds, {dict(arena.answers)}, {len(arena.accepted)} accepted")  # noqa: T201 - shown by -s
    assert await arena.wrong() == {}
    assert set(arena.answers) <= {(200, ""), (409, "already_matched")}
    stored = await look(
        arena.addresses.superuser_url,
        f"SELECT id FROM {arena.scope.schema_name}.match WHERE status = 'accepted'",  # noqa: S608 - our own name
    )
    assert {row[0] for row in stored} == arena.accepted
    assert len(arena.accepted) > arena.rounds


@pytest.fixture
def nothing_superseded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let who accepts overlook what competes: superseding it would keep it from being accepted as well."""
    alone = "SELECT id, NULL AS ids FROM match WHERE status = 'proposed' AND id = ANY(%(ids)s) FOR UPDATE"
    monkeypatch.setattr("payrec.storage.match_decisions._LOCK", alone)


@pytest.mark.usefixtures("nothing_superseded")
async def test_without_the_constraint_amounts_are_given_away_twice(arena: Arena) -> None:
    # The look at what is open, before anything is written, is still there: alone it is not enough.
    await arena.drop_constraint()
    for _ in range(20):
        await arena.fight(seconds=0.5)
        if OVER_ALLOCATED in await arena.wrong():
            return
    pytest.fail("nothing was over-allocated, so the test above proves nothing")


@pytest.mark.usefixtures("nothing_superseded")
@pytest.mark.parametrize("guarded", [True, False], ids=["with the constraint", "without it"])
async def test_two_that_see_the_same_open_amount_at_once(arena: Arena, *, guarded: bool) -> None:
    if not guarded:
        await arena.drop_constraint()
    context = arena.service.factory.context
    # Each takes 60 of the same 100 in two legs of 30.
    proposals = await put(
        context.database,
        arena.scope,
        context.ids,
        expected=[100],
        incoming=[30, 30, 30, 30],
        matches=[[(0, 0, 30), (0, 1, 30)], [(0, 2, 30), (0, 3, 30)]],
    )
    waiting = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = %s::regclass HAVING count(*) = 2"
    async with context.database.tenant(arena.scope) as connection:
        # Whoever wants to allocate waits here, after having looked at what is open.
        await connection.execute("LOCK TABLE allocation IN EXCLUSIVE MODE")
        both = asyncio.gather(*(arena.accept(proposal) for proposal in proposals))
        await wait_for(arena.addresses.superuser_url, waiting, f"{arena.scope.schema_name}.allocation")
    statuses = sorted(await both)
    assert statuses == ([200, 409] if guarded else [200, 200])
    assert (OVER_ALLOCATED in await arena.wrong()) is not guarded


async def test_the_same_match_accepted_by_all_at_once_is_one_effect(arena: Arena) -> None:
    [first, *_] = await arena.round()
    assert set(await asyncio.gather(*(arena.accept(first) for _ in range(CLIENTS)))) == {200}
    assert await arena.wrong() == {}
    audit = f"SELECT count(*) FROM {arena.scope.schema_name}.audit_record WHERE action = 'match.accepted'"  # noqa: S608 - our own name
    assert await look(arena.addresses.superuser_url, audit) == [(1,)]


@pytest.mark.parametrize("first", ["the person", "the run"])
async def test_a_run_that_accepts_and_a_person_who_accepts_do_not_deadlock(
    arena: Arena, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    tenant = arena.tenant
    await _pair(tenant, 1)
    assert (await tenant.post("/matches/match", {})).json()["counts"]["proposed"] == 1
    [match] = (await tenant.get("/matches")).json()["data"]
    await tenant.request("PATCH", f"/tenants/{tenant.id}/settings", json={"matching": {"autoAccept": True}})
    there, go = asyncio.Event(), asyncio.Event()
    hold = MatchProposalStore.hold

    async def pausing(store: MatchProposalStore) -> None:
        if first == "the run":
            await hold(store)
        there.set()
        await go.wait()
        if first == "the person":
            await hold(store)

    monkeypatch.setattr(MatchProposalStore, "hold", pausing)
    run = asyncio.create_task(tenant.post("/matches/match", {}))
    await there.wait()
    # The run is about to accept the pair, or has just done so and not committed; now a person accepts it too.
    accepting = asyncio.create_task(arena.accept(UUID(match["id"])))
    if first == "the person":
        assert await accepting == 200
    else:
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        await wait_for(arena.addresses.superuser_url, waiting)
    go.set()
    assert await accepting in {200, 409}
    assert set(arena.answers) <= {(200, ""), (409, "already_matched"), (409, "invalid_state")}
    assert (await run).json()["status"] == "succeeded"
    assert await arena.wrong() == {}
    schema = arena.scope.schema_name
    newest = f"SELECT attempts FROM {schema}.job ORDER BY id DESC LIMIT 1"  # noqa: S608 - our own name
    accepted = f"SELECT count(*) FROM {schema}.match WHERE status = 'accepted'"  # noqa: S608 - our own name
    assert await look(arena.addresses.superuser_url, newest) == [(1,)]
    assert await look(arena.addresses.superuser_url, accepted) == [(1,)]


async def _pair(tenant: Tenant, number: int) -> None:
    money = {"direction": "credit", "amountMinor": 1000 + number, "currency": "EUR"}
    reference = f"INV-2024-{number:05}"
    expected = await tenant.post("/expected-transactions", {**money, "reference": reference})
    incoming = await tenant.post(
        "/incoming-transactions", {**money, "bookingDate": "2024-03-04", "remittance": f"Invoice {reference}"}
    )
    assert (expected.status_code, incoming.status_code) == (201, 201)
