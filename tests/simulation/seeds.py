"""One seed: what happens, in which order, and what has to be true afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any, Final

from payrec.embedded.postgres import EmbeddedDatabase
from simulation import actors
from simulation.actors import Asked, FoundError, Known, SteppedOutgoing
from simulation.estate import Estate, Home, estate
from simulation.scheduler import Scheduler
from support.contention import put
from support.invariants import broken

TICK_CHANCE: Final = 0.03
DEATH_CHANCE: Final = 0.03
ROUNDS_MAX: Final = 40
"""In which all that is left is done when nobody disturbs it any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a seed has found."""

    seed: int
    what: str
    trace: list[str]

    def __str__(self) -> str:
        steps = "\n".join(f"  {number:4} {step}" for number, step in enumerate(self.trace, start=1))
        again = f"PYTHONPATH=tests python -m simulation --seeds {self.seed}"
        return f"seed {self.seed}: {self.what}\n{steps}\nonce more: {again}"


async def run_seed(shared: Estate, seed: int) -> tuple[Finding | None, list[str]]:
    """Let one seed happen; return what it has found, and the trace."""
    await shared.restore()
    shared.is_over = False
    scheduler = Scheduler(seed, shared.watcher, waiting=shared.lock_waits)
    try:
        knowns = await begin(shared, scheduler.chance)
        cast(shared, scheduler, knowns)

        async def tick() -> str:
            seconds = scheduler.chance.choice([31, 31, 600, 3600])
            shared.clock.past += timedelta(seconds=seconds)
            await shared.lapse()
            return f"{seconds} s later"

        try:
            await scheduler.run(tick=tick, tick_chance=TICK_CHANCE, death_chance=DEATH_CHANCE)
        finally:
            shared.is_over = True
            await scheduler.end()
        await finish(shared)
        await check(shared, knowns)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told with its seed
        return Finding(seed=seed, what=f"{type(error).__name__}: {error}", trace=scheduler.trace), scheduler.trace
    return None, scheduler.trace


async def begin(shared: Estate, chance: Random) -> list[Known]:
    """Store the same in both tenants: transactions, and proposals that compete for them."""
    amounts = [[chance.randint(50, 500) for _ in range(3)] for _ in range(2)]
    pairs = [(e, i) for e in range(3) for i in range(3)]
    matches = [[(e, i, chance.randint(1, min(amounts[0][e], amounts[1][i])))] for e, i in chance.sample(pairs, 5)]
    knowns = []
    for home, other in zip(shared.homes, reversed(shared.homes), strict=True):
        first = shared.ids.last
        made = await put(
            shared.factory.context.database, home.scope, shared.ids,
            expected=amounts[0], incoming=amounts[1], matches=matches,
        )  # fmt: skip
        ids = [shared.ids_from(first, n) for n in range(6)]
        known = Known(home=home, other=other, items=ids[:3], lines=ids[3:], matches=made, of_other=[])
        knowns.append(known)
    knowns[0].of_other, knowns[1].of_other = knowns[1].matches, knowns[0].matches
    return knowns


def cast(shared: Estate, scheduler: Scheduler, knowns: list[Known]) -> None:
    """Say who is there."""
    first, second = knowns
    for number in range(2):
        scheduler.add(f"client {number} of {first.home.slug}", partial(actors.client, shared, first, number))
    scheduler.add(f"client of {second.home.slug}", partial(actors.client, shared, second, 0))
    scheduler.add(f"twin of {first.home.slug}", partial(actors.twin, shared, first))
    for name in ("A", "B"):
        scheduler.add(f"worker {name}", partial(actors.worker, shared), is_endless=True)
        scheduler.add(f"teller {name}", partial(actors.teller, shared), is_endless=True)
    if scheduler.chance.random() < 0.5:
        scheduler.add("operator", partial(actors.operator, shared, first.home), is_endless=True)


async def finish(shared: Estate) -> None:
    """Do whatever is left, as a worker does whom nobody disturbs."""
    chance = Random(0)  # noqa: S311 - no secret
    runner, quiet = shared.runner(), 0
    for _ in range(ROUNDS_MAX):
        shared.clock.past += timedelta(seconds=31)
        await shared.lapse()
        for home, kind in await shared.waiting():
            await runner.drain(home.scope.environment_id, kind)
        found = await SteppedOutgoing(shared, chance, is_kind=True).turn()
        quiet = 0 if found and await is_left(shared) else quiet + 1
        if quiet >= 2:
            return
    raise FoundError("there is always something left to be done")


async def is_left(shared: Estate) -> bool:
    """Tell whether anything is to be told or done."""
    for home in shared.homes:
        s = home.scope.schema_name
        query = f"""
            SELECT 1 FROM {s}.outbox UNION ALL SELECT 1 FROM {s}.job WHERE status IN ('queued', 'running')
            UNION ALL SELECT 1 FROM {s}.webhook w, {s}.event_feed f WHERE w.position < f.position
        """  # noqa: S608 - our own names
        if await (await shared.watcher.execute(query.encode())).fetchone():
            return True
    return False


async def check(shared: Estate, knowns: Iterable[Known]) -> None:
    """Compare what is stored with what must be, and with what the clients have heard."""
    for known in knowns:
        home = known.home
        found = await broken(shared.watcher, home.scope.schema_name, at_rest=True)
        if found:
            raise FoundError(f"{home.slug}: {found}")
        for asked in known.asked:
            check_answers(asked)
        await check_tags(shared, home)
        await check_arrived(shared, home)


def check_answers(asked: Asked) -> None:
    """See that one request had one effect, and one answer whoever has sent it how often."""
    done = {said for said in asked.answers if said[0] < 300}
    if len(done) > 1 or (done and any(status >= 400 for status, _ in asked.answers)):
        raise FoundError(f"{asked.path} with the key {asked.key} has several answers: {asked.answers}")


async def rows(shared: Estate, query: str, *parameters: Any) -> list[Any]:
    """Return rows."""
    return await (await shared.watcher.execute(query.encode(), parameters)).fetchall()


async def check_tags(shared: Estate, home: Home) -> None:
    """See that what was asked for is there once, and nobody else's."""
    s = home.scope.schema_name
    tags = await rows(
        shared,
        f"SELECT description FROM {s}.expected_transaction WHERE description IS NOT NULL UNION ALL"  # noqa: S608
        f" SELECT external_id FROM {s}.incoming_transaction WHERE external_id IS NOT NULL UNION ALL"
        f" SELECT reason FROM {s}.audit_record WHERE action = 'match.accepted' AND reason IS NOT NULL",
    )
    found = [tag for (tag,) in tags]
    if any(not tag.startswith(f"{home.slug} ") for tag in found):
        raise FoundError(f"{home.slug} has what is another's: {sorted(found)}")
    if len(set(found)) != len(found):
        raise FoundError(f"{home.slug} has something twice: {sorted(found)}")


async def check_arrived(shared: Estate, home: Home) -> None:
    """See that the endpoint has got every event, of each resource in the order of the feed."""
    feed: dict[str, list[str]] = {}
    for resource, event in await rows(
        shared,
        f"SELECT resource_id::text, id::text FROM {home.scope.schema_name}.event ORDER BY position",  # noqa: S608
    ):
        feed.setdefault(resource, []).append(event)
    came: dict[str, list[str]] = {}
    for resource, event in home.arrived:
        if event not in came.setdefault(resource, []):
            came[resource].append(event)
    if came != feed:
        raise FoundError(f"{home.slug} was told {came} of {feed}")


async def explore(
    database: EmbeddedDatabase,
    seeds: Iterable[int],
    *,
    tell: Callable[[int], None] = lambda _: None,
    broken: Callable[[], None] = lambda: None,
) -> Finding | None:
    """Let seeds happen one after the other until one finds something.

    ``tell`` hears of each that has happened; ``broken`` breaks something on purpose, when the tenants are there.
    """
    async with estate(database) as shared:
        broken()
        for seed in seeds:
            finding, _ = await run_seed(shared, seed)
            if finding is not None:
                return finding
            tell(seed)
    return None


def explored(
    database: EmbeddedDatabase,
    seeds: Iterable[int],
    *,
    tell: Callable[[int], None] = lambda _: None,
    broken: Callable[[], None] = lambda: None,
) -> Finding | None:
    """Do the same on a loop of its own."""
    return asyncio.run(explore(database, seeds, tell=tell, broken=broken))
