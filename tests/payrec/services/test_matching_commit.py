"""The commit of a run: what changed meanwhile is left out, who accepts meanwhile is seen, and all of it is told."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import date
from typing import Any

import pytest
import structlog

from payrec.errors import AlreadyMatchedError
from payrec.services.matching import MatchingService
from payrec.storage.match_proposals import MatchProposalStore
from support.events import TOLD, keep_unsealed
from support.matching_world import World, matching_world
from support.service import Service, Tenant
from support.tenant_data import load

pytestmark = pytest.mark.anyio

REFERENCE = "INV-2026-001"
PATIENCE_SECONDS = 60.0
SOAK_SECONDS = 3.0
SECRETS = ("Zahlungsgrund streng geheim", "Geheime Kundin", "4711.23")


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


def between_read_and_commit(monkeypatch: pytest.MonkeyPatch, what: Callable[[], Awaitable[Any]]) -> None:
    """Let something happen once, after a run has read and before it writes."""
    read = MatchingService._read
    done = False

    async def reading(*given: Any) -> Any:
        nonlocal done
        snapshot = await read(*given)
        if not done:
            done = True
            await what()
        return snapshot

    monkeypatch.setattr(MatchingService, "_read", reading)


async def test_what_changed_since_it_was_read_is_not_proposed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2):
        await world.expect(reference=f"INV-2026-00{number}", externalId=f"E{number}")
        await world.receive(remittance=f"INV-2026-00{number}")
    change = "UPDATE expected_open SET revision = 2 WHERE transaction_id = (SELECT id FROM expected_transaction WHERE "
    between_read_and_commit(monkeypatch, lambda: world.sql(change + "external_id = 'E1')"))
    with structlog.testing.capture_logs() as lines:
        run = await world.run()
    assert run["counts"]["proposed"] == 1
    [line] = [x for x in lines if x["event"] == "match_run.finished"]
    assert (line["proposed"], line["conflicts"]) == (1, 1)
    told = await world.sql(f"SELECT resource_id::text AS id FROM {TOLD} WHERE type = 'match.proposed'")  # noqa: S608
    assert [x["id"] for x in told] == [m["id"] for m in await world.matches()]


async def test_of_what_changed_since_it_was_read_nothing_is_allocated(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.set(autoAccept=True)
    for number in (1, 2):
        await world.expect(reference=f"INV-2026-00{number}", externalId=f"E{number}")
        await world.receive(remittance=f"INV-2026-00{number}")
    change = "UPDATE expected_open SET revision = 2 WHERE transaction_id = (SELECT id FROM expected_transaction WHERE "
    between_read_and_commit(monkeypatch, lambda: world.sql(change + "external_id = 'E1')"))
    assert (await world.run())["counts"]["autoAccepted"] == 1
    query = "SELECT e.external_id AS id FROM allocation a JOIN expected_transaction e ON e.id = a.transaction_id"
    assert await world.sql(query) == [{"id": "E2"}]


async def test_what_was_accepted_since_it_was_read_is_not_accepted_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = await world.expect(reference=REFERENCE)
    await world.receive(remittance=REFERENCE, externalId="a")
    await world.run()
    match = await world.proposal()
    await world.set(autoAccept=True)
    between_read_and_commit(monkeypatch, lambda: world.accept(match))
    run = await world.run()
    assert run["counts"]["autoAccepted"] == 0
    assert [m["status"] for m in await world.matches()] == ["accepted"]
    assert (await world.expected(expected))["matchedAmountMinor"] == 10_000


async def test_a_run_whose_acceptance_comes_too_late_proposes_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.expect(reference=REFERENCE)
    await world.receive(remittance=REFERENCE)
    await world.set(autoAccept=True)
    allocate = MatchProposalStore.allocate
    refusals = 2

    async def refusing(store: MatchProposalStore, *given: Any) -> None:
        nonlocal refusals
        await allocate(store, *given)
        if refusals:
            refusals -= 1
            raise AlreadyMatchedError

    monkeypatch.setattr(MatchProposalStore, "allocate", refusing)
    with structlog.testing.capture_logs() as lines:
        assert (await world.run())["counts"]["autoAccepted"] == 1
    assert [x["attempt"] for x in lines if x["event"] == "match_run.repeated"] == [1, 2]
    assert [m["status"] for m in await world.matches()] == ["accepted"]


async def test_what_changes_before_a_run_holds_it_is_not_accepted_as_it_was_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = await world.expect(reference=REFERENCE)
    await world.receive("60.00", remittance=REFERENCE)
    await world.receive("40.00", remittance=REFERENCE)
    await world.set(autoAccept=True)
    allocate = MatchProposalStore.allocate
    changes = ["UPDATE expected_open SET revision = revision + 1"]

    async def changing(store: MatchProposalStore, *given: Any) -> None:
        await allocate(store, *given)
        if changes:
            await world.sql(changes.pop())

    monkeypatch.setattr(MatchProposalStore, "allocate", changing)
    with structlog.testing.capture_logs() as lines:
        assert (await world.run())["counts"]["autoAccepted"] > 0
    assert [x["attempt"] for x in lines if x["event"] == "match_run.repeated"] == [1]
    assert (await world.expected(item))["matchedAmountMinor"] == 10_000
    assert await world.sql("SELECT expected_revision AS revision FROM leg") == [{"revision": 2}] * 2


async def test_an_item_that_was_settled_in_part_before_is_allocated_what_was_open_of_it(world: World) -> None:
    item = await world.expect(reference=REFERENCE)
    await world.sql("UPDATE expected_transaction SET settled_before_minor = 4000")
    await world.sql("UPDATE expected_open SET open_minor = 6000, total_minor = 6000")
    await world.set(autoAccept=True)
    allocated = "SELECT amount_minor, allocated_minor, status FROM allocation WHERE side = 1"
    await world.receive("10.00", remittance=REFERENCE)
    await world.receive("20.00", remittance=REFERENCE)
    await world.receive("30.00", remittance=REFERENCE)
    await world.run()
    assert await world.sql(allocated) == [{"amount_minor": 6_000, "allocated_minor": 6_000, "status": "matched"}]
    paid = await world.expected(item)
    assert (paid["status"], paid["matchedAmountMinor"], paid["openAmountMinor"]) == ("matched", 6_000, 0)


@pytest.mark.parametrize("held", [True, False])
async def test_who_accepts_while_a_run_commits_sees_its_proposals_because_it_decides_alone(
    world: World, monkeypatch: pytest.MonkeyPatch, *, held: bool
) -> None:
    await world.expect(reference=REFERENCE)
    await world.receive(remittance=REFERENCE, externalId="a")
    await world.run()
    first = await world.proposal()
    await world.receive(remittance=REFERENCE, externalId="b")
    reached, go_on = asyncio.Event(), asyncio.Event()
    analyze = MatchProposalStore.analyze

    async def pausing(*given: Any) -> None:
        reached.set()
        await go_on.wait()
        await analyze(*given)

    async def without(*_given: Any) -> None:
        """Hold nothing."""

    monkeypatch.setattr(MatchProposalStore, "analyze", pausing)
    if not held:
        monkeypatch.setattr(MatchProposalStore, "hold", without)
    running = asyncio.create_task(world.run(incomingFilter={"externalId": "b"}))
    await reached.wait()
    accepting = asyncio.create_task(world.accept(first))
    done, _ = await asyncio.wait([accepting], timeout=0.5 if held else 20)
    assert bool(done) is not held
    go_on.set()
    assert (await accepting).status_code == 200
    await running
    # Left over, it would be offered to people although nothing of the invoice is open any more.
    left_over = [m["id"] for m in await world.matches(status="proposed")]
    assert bool(left_over) is not held
    if held:
        [loser] = await world.matches(status="superseded")
        assert loser["supersededBy"] == first["id"]


async def test_events_of_a_big_run_name_every_match_in_bounded_rows(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_unsealed(monkeypatch)
    count = 1_250

    def items() -> Iterator[dict[str, Any]]:
        for n in range(count):
            yield {
                "amount_minor": 100 + n,
                "due_date": date(2026, 3, 10),
                "currency": "EUR",
                "reference": f"INV-2026-{n:05}",
            }

    lines = [
        {
            "amount_minor": item["amount_minor"],
            "booking_date": date(2026, 3, 12),
            "currency": "EUR",
            "remittance": item["reference"],
        }
        for item in items()
    ]
    for scope in (world.bystander_scope, world.scope):
        await load(world.service.factory, scope, expected=items(), incoming=lines)
    assert (await world.run())["counts"]["proposed"] == count
    proposed = "SELECT cardinality(resource_ids) AS n FROM outbox WHERE type = 'match.proposed' ORDER BY ordinal"
    assert [row["n"] for row in await world.sql(proposed)] == [1_000, 250]
    await world.set(autoAccept=True)
    assert (await world.run())["counts"]["autoAccepted"] == count
    for kind, status in (("match.accepted", "accepted"), ("match.superseded", "superseded")):
        query = (
            f"SELECT count(*) AS n FROM {TOLD} JOIN match m ON m.id = told.resource_id"  # noqa: S608 - our own text
            " AND m.status = %s WHERE type = %s"
        )
        assert await world.sql(query, status, kind) == [{"n": count}]
    left = "SELECT 1 FROM expected_open UNION ALL SELECT 1 FROM incoming_open"
    assert await world.sql(left) == []
    summed = "SELECT side, count(*) AS n, bool_and(allocated_minor = amount_minor) AS whole FROM allocation GROUP BY 1"
    assert sorted(tuple(r.values()) for r in await world.sql(summed)) == [(1, count, True), (2, count, True)]


def counted(world: World) -> dict[str, float]:
    found = {}
    for line in world.service.factory.context.metrics.render().decode().splitlines():
        if line.startswith("payrec_match_proposals_total{"):
            name, number = line.rsplit(" ", 1)
            found[name.split('"')[1]] = float(number)
    return found


async def test_new_proposals_are_counted_by_confidence_and_what_was_there_already_is_not(world: World) -> None:
    before = Counter(counted(world))
    await world.expect("10.00", reference=REFERENCE)
    await world.receive("10.00", remittance=REFERENCE)
    await world.expect("20.00", counterpartyName="Ada")
    await world.receive("20.00", counterpartyName="Ada")
    await world.run(dryRun=True)
    assert Counter(counted(world)) == before
    for _ in range(2):
        await world.run()
        assert Counter(counted(world)) - before == {"exact": 1, "high": 1}
    jobs = world.service.factory.context.metrics.render().decode()
    assert 'payrec_jobs_total{kind="match",status="succeeded"}' in jobs


async def test_a_run_logs_its_figures_and_nothing_of_what_it_read(world: World) -> None:
    await world.expect(SECRETS[2], reference="RE-2026-007", counterpartyName=SECRETS[1])
    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        await world.receive(SECRETS[2], remittance=f"{SECRETS[0]} RE-2026-007", counterpartyName=SECRETS[1])
        run = await world.run()
        await world.accept(await world.proposal())
    [line] = [x for x in lines if x["event"] == "match_run.finished"]
    figures = ("expected", "incoming", "proposed", "auto_accepted", "kept", "superseded", "conflicts", "candidates")
    assert [line[name] for name in figures] == [1, 1, 1, 0, 0, 0, 0, 1]
    assert all(line[f"{stage}_ms"] >= 0 for stage in ("read", "engine", "commit"))
    assert (line["tenant"], line["environment"], line["job_id"]) == ("acme", "production", run["jobId"])
    assert {"job.finished", "match.accepted", "request"} <= {x["event"] for x in lines}
    written = repr(lines)
    for secret in (*SECRETS, "471123", "RE-2026-007", world.tenant.token):
        assert secret not in written


def goes_on(until: float, answers: Counter[int]) -> bool:
    """Go on until something was accepted, also where the machine is slow."""
    now = asyncio.get_running_loop().time()
    return now < until or (answers[200] == 0 and now < until + PATIENCE_SECONDS)


async def test_runs_and_people_who_accept_at_the_same_time_leave_nothing_wrong(world: World) -> None:
    dice = random.Random(3)  # noqa: S311 - data, not a secret
    until = asyncio.get_running_loop().time() + SOAK_SECONDS
    answers: Counter[int] = Counter()
    runs: Counter[str] = Counter()

    async def arrive() -> None:
        number = 0
        while goes_on(until, answers):
            number += 1
            name = f"Customer {dice.randrange(3)}"
            await world.expect("10.00", reference=f"A-{number % 7}-2026", counterpartyName=name)
            for _ in range(2):
                amount = dice.choice(["10.00", "4.00", "6.00"])
                await world.receive(amount, remittance=f"A-{number % 7}-2026", counterpartyName=name)

    async def upload() -> None:
        number = 0
        while goes_on(until, answers):
            number += 1
            lines = [
                {
                    "amount": "10.00",
                    "currency": "EUR",
                    "direction": "credit",
                    "bookingDate": "2026-03-12",
                    "remittance": f"A-{n}-2026",
                }
                for n in range(7)
            ]
            # First pending, then booked, then the same payments under another identity: all of it touches open rows.
            for status, name in (("pending", "x"), ("booked", "x"), ("booked", "y")):
                ids = [f"{name}-{number}-{n}" for n in dice.sample(range(7), 7)]
                await world.upload(
                    [{**line, "status": status, "externalId": i} for line, i in zip(lines, ids, strict=True)]
                )

    async def accept() -> None:
        while goes_on(until, answers):
            proposals = await world.matches(status="proposed", sort="-createdAt")
            for match in dice.sample(proposals, min(3, len(proposals))):
                answers[(await world.accept(match)).status_code] += 1

    async def match() -> None:
        while goes_on(until, answers):
            narrow = dice.choice([{}, {}, {"incomingFilter": {"amountMax": "5.00", "currency": "EUR"}}])
            runs[(await world.run(**narrow))["status"]] += 1
            await world.set(autoAccept=dice.random() < 0.5, autoAcceptMinConfidence="high")

    await asyncio.gather(arrive(), upload(), match(), *(accept() for _ in range(4)))
    assert set(answers) <= {200, 409}
    assert set(runs) == {"succeeded"}
    wrong = """
        SELECT 'proposed beyond what is open' AS what, m.id FROM match m JOIN leg l ON l.match_id = m.id
        LEFT JOIN expected_open e ON e.transaction_id = l.expected_id
        LEFT JOIN incoming_open i ON i.transaction_id = l.incoming_id
        WHERE m.status = 'proposed' AND (l.settled_minor > coalesce(e.open_minor, 0)
            OR l.amount_minor > coalesce(i.open_minor, 0))
        UNION ALL
        SELECT 'allocated is not what legs say', a.transaction_id FROM allocation a WHERE allocated_minor <> (
            SELECT coalesce(sum(l.amount_minor), 0) FROM leg l WHERE l.valid_from IS NOT NULL AND l.valid_to IS NULL
            AND a.transaction_id IN (l.expected_id, l.incoming_id))
        UNION ALL
        SELECT 'open is not what is left', t.id FROM incoming_transaction t
        LEFT JOIN allocation a ON a.transaction_id = t.id LEFT JOIN incoming_open o ON o.transaction_id = t.id
        WHERE coalesce(o.open_minor, 0) <> t.amount_minor - coalesce(a.allocated_minor, 0)
        UNION ALL
        SELECT 'open is not what is left', t.id FROM expected_transaction t
        LEFT JOIN allocation a ON a.transaction_id = t.id LEFT JOIN expected_open o ON o.transaction_id = t.id
        WHERE coalesce(o.open_minor, 0) <> t.amount_minor - coalesce(a.allocated_minor, 0)
    """
    assert await world.sql(wrong) == []
    assert await world.sql("SELECT 1 FROM match WHERE status = 'accepted' LIMIT 1") != []
    # Whoever is thrown out of a deadlock is a 503 or another attempt.
    assert await world.sql("SELECT 1 FROM job WHERE attempts <> 1") == []
