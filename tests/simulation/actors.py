"""What the processes do: clients of both tenants, their twins, workers, who seals and delivers, and the operator."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

from pydantic_core import from_json

from payrec.domain.scope import TenantScope
from payrec.domain.webhooks import Answer
from payrec.jobs.outgoing import Outgoing
from payrec.services.webhook_delivery import Bell
from payrec.storage.wakeups import DueWebhook, Unsealed
from simulation.database import is_death
from simulation.estate import OVERLAP, Estate, Home
from simulation.scheduler import Process, point
from support.posting_storm import REFUSALS

Row = dict[str, Any]
OPERATIONS: Final = 2
"""Of each client."""
TRIES_MAX: Final = 60
LOST_CHANCE: Final = 0.15
"""How often an answer does not arrive."""
FAILS_CHANCE: Final = 0.15
"""How often an endpoint refuses a message."""
RECORDS: Final = 3
"""Of an uploaded file."""


@dataclass(slots=True, kw_only=True)
class Asked:
    """A request, and what everybody has heard who has sent it."""

    key: str
    path: str
    body: Any
    answers: list[tuple[int, str | None]] = field(default_factory=list)
    """Status, and the id in the answer or the code of the problem."""


@dataclass(slots=True, kw_only=True)
class Known:
    """What the clients of a tenant know."""

    home: Home
    other: Home
    items: list[UUID]
    lines: list[UUID]
    matches: list[UUID]
    of_other: list[UUID]
    """Matches of the other tenant."""
    asked: list[Asked] = field(default_factory=list)


class FoundError(AssertionError):
    """Something that may not be."""


@contextmanager
def reborn(estate: Estate, process: Process) -> Iterator[None]:
    """Be another process in the place of one that dies in what follows, which goes on behind it."""
    try:
        yield
    except BaseException as error:
        if not is_death(error) or estate.is_over:
            raise
        process.revive()


async def client(estate: Estate, known: Known, number: int, process: Process) -> None:
    """Ask for one thing after the other, each until there is an answer."""
    for count in range(OPERATIONS):
        asked = drawn(known, f"client{number}-{count}", process)
        known.asked.append(asked)
        await ask(estate, known.home, asked, process)


async def twin(estate: Estate, known: Known, process: Process) -> None:
    """Send once more what a client has sent that waits for its answer, or has it."""
    for _ in range(OPERATIONS):
        with reborn(estate, process):
            await point("a request to repeat")
        if known.asked:
            await ask(estate, known.home, process.chance.choice(known.asked[-3:]), process)


def drawn(known: Known, key: str, process: Process) -> Asked:
    """Return a request of chance."""
    chance = process.chance
    match, other = chance.choice(known.matches), chance.choice(known.of_other)
    item, line = chance.choice(known.items), chance.choice(known.lines)
    tag = f"{known.home.slug} {key}"
    money = {"currency": "EUR", "direction": "credit"}
    leg = {
        "expectedTransactionId": str(item),
        "incomingTransactionId": str(line),
        "amountMinor": chance.randint(1, 400),
    }
    records = [
        {**money, "amount": f"{n + 1}.00", "bookingDate": "2026-03-12", "externalId": f"{tag} {n}", "remittance": tag}
        for n in range(RECORDS)
    ]
    choices: list[tuple[int, str, Any]] = [
        (9, f"/matches/{match}/accept", None),
        (2, f"/matches/{match}/reject", {"reason": tag}),
        (3, f"/matches/{match}/reverse", {"reason": tag}),
        (6, "/matches", {"legs": [leg], "reason": tag}),
        (1, f"/expected-transactions/{item}/void", {"reason": tag}),
        (1, f"/incoming-transactions/{line}/ignore", {"reason": tag}),
        (3, "/expected-transactions", {**money, "amount": "3.00", "dueDate": "2026-03-10", "description": tag}),
        (3, "/incoming-transactions/upload", records),
        (1, f"/matches/{other}/reject", {"reason": tag}),
    ]
    [(_, path, body)] = chance.choices(choices, [weight for weight, *_ in choices])
    return Asked(key=key, path=path, body=body)


async def ask(estate: Estate, home: Home, asked: Asked, process: Process) -> None:
    """Send a request until an answer comes, with the key that the Secret has then."""
    for _ in range(TRIES_MAX):
        key, read_at = estate.key(home), estate.clock.now()
        answer = None
        with reborn(estate, process):
            await point("a request")
            came = await estate.ask(home, "POST", asked.path, asked.body, key=key, **{"Idempotency-Key": asked.key})
            await point(f"an answer {came.status_code}")
            answer = came
        if answer is None:
            continue
        said = answer.json()
        code = str(said.get("code") if answer.status_code >= 400 else said.get("id"))
        if code == "idempotency_in_progress":
            continue
        if answer.status_code == 401 and estate.clock.now() - read_at >= OVERLAP:
            continue
        if answer.status_code >= 400 and (answer.status_code, code) not in REFUSALS:
            raise FoundError(f"{asked.path} was answered with {answer.status_code} {answer.text}")
        asked.answers.append((answer.status_code, code))
        if process.chance.random() >= LOST_CHANCE:
            return
    raise FoundError(f"{asked.path} was never answered")


async def again(estate: Estate, process: Process, turn: Any) -> None:
    """Do the same again and again, as another process where the one before has died."""
    while True:
        with reborn(estate, process):
            await point("a look")
            await turn()


async def worker(estate: Estate, process: Process) -> None:
    """Do the jobs of both tenants."""

    async def turn() -> None:
        for home, kind in await estate.waiting():
            await estate.runner().drain(home.scope.environment_id, kind)

    await again(estate, process, turn)


class SteppedBell(Bell):
    """Time passes by itself while somebody waits for it."""

    def __init__(self, estate: Estate) -> None:
        super().__init__()
        self._estate = estate

    async def wait(self, seconds: float) -> None:
        await point("nothing to deliver")
        await asyncio.sleep(0)
        self._estate.clock.past += timedelta(seconds=max(seconds, 0.3))


class SteppedSender:
    """Receivers in this process, which take a message or do not."""

    def __init__(self, estate: Estate, chance: Any) -> None:
        self._estate = estate
        self._chance = chance
        self.is_kind = False

    async def send(self, url: str, *, tenant_id: UUID, message_id: UUID, body: bytes, keys: list[bytes]) -> Answer:
        await point("a message")
        said = from_json(body)
        home = next(home for home in self._estate.homes if url.endswith(f"/{home.slug}"))
        if (tenant_id, said["tenantId"]) != (home.scope.tenant_id, str(home.scope.tenant_id)) or not keys:
            raise FoundError("a message of another tenant")
        if not self.is_kind and self._chance.random() < FAILS_CHANCE:
            return Answer(status=500)
        home.arrived.append((str(said["data"]["resourceId"]), str(message_id)))
        return Answer(status=204)


class SteppedOutgoing(Outgoing):
    """Does one after the other what a worker does at the same time."""

    def __init__(self, estate: Estate, chance: Any, *, is_kind: bool = False) -> None:
        super().__init__(estate.factory)
        self._estate = estate
        self.sender = SteppedSender(estate, chance)
        self.sender.is_kind = is_kind
        self._webhooks._sender = self.sender  # type: ignore[assignment]
        self._webhooks._chance = chance.random
        self.work: list[Any] = []

    def _begin_sealing(self, waiting: Unsealed, scope: TenantScope | None) -> None:
        self.work.append(partial(self._seal, waiting, scope))

    def _begin_delivering(self, webhook: DueWebhook, scope: TenantScope | None) -> None:
        self.work.append(partial(self._deliver, webhook, scope, SteppedBell(self._estate)))

    async def turn(self) -> bool:
        """Look once and do all of it; return whether there was anything."""
        self.work = []
        found = await self._look()
        for work in self.work:
            await work()
        return found


async def teller(estate: Estate, process: Process) -> None:
    """Seal, post and deliver for both tenants."""

    async def turn() -> None:
        await SteppedOutgoing(estate, process.chance).turn()

    await again(estate, process, turn)


async def operator(estate: Estate, home: Home, process: Process) -> None:
    """Have a tenant's key replaced, as often as there is time for."""
    number = 0

    async def turn() -> None:
        nonlocal number
        number += 1
        home.body["metadata"]["annotations"]["payrec.dev/rotate"] = f"{number // 3}"
        await estate.reconcile(home.body)

    await again(estate, process, turn)
