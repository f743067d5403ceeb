"""What leaves a worker without being asked: events get their places in the feed, endpoints are told, the books follow.

One look at three tables of the control schema, again and again, finds both for all environments. It does not go
through the queue: a worker whose every place is taken by long runs still tells in time. What is in the tables stays
until what it stands for is done, so that whatever ends a worker, another one does it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import structlog

from payrec.constants.events import (
    EVENT_FAILURE_PAUSE_SECONDS,
    EVENT_POLL_SECONDS_MAX,
    EVENT_POLL_SECONDS_MIN,
    UNSEALED_CHANGES_READ,
    WEBHOOK_ENDPOINTS_AT_ONCE,
    WEBHOOK_ENDPOINTS_AT_ONCE_TENANT,
    WEBHOOK_TURN_SECONDS,
    WEBHOOK_WAITING_SEEN,
)
from payrec.constants.jobs import DATABASE_AWAY_SECONDS_MAX
from payrec.domain.scope import TenantScope
from payrec.errors import UnavailableError
from payrec.factory import Factory
from payrec.jobs.troubles import Troubles
from payrec.services.webhook_delivery import Bell
from payrec.storage.control_outbox import ControlOutboxStore
from payrec.storage.tenants import TenantStore, scope_of
from payrec.storage.wakeups import DueWebhook, Unsealed, WakeUpStore

SEALINGS_AT_ONCE = 3
"""Environments that a worker seals at the same time; each takes a connection."""

POLL_GROWTH = 1.5
"""By how much the time to the next look grows after one that found nothing."""


def next_pause(pause: float, *, found: bool, is_away: bool) -> float:
    """Return the seconds to the next look: more after one that found nothing, most while the database is away."""
    if found:
        return EVENT_POLL_SECONDS_MIN
    return min(pause * POLL_GROWTH, DATABASE_AWAY_SECONDS_MAX if is_away else EVENT_POLL_SECONDS_MAX)


def is_crowd(count: int) -> bool:
    """Tell whether so many places are as many as one tenant may have, so that others find some."""
    return count >= WEBHOOK_ENDPOINTS_AT_ONCE_TENANT


@dataclass(frozen=True, slots=True, kw_only=True)
class _Delivering:
    """An endpoint that has a place."""

    tenant_id: UUID | None
    """None: nobody is there any more."""
    environment_id: UUID
    bell: Bell
    began_at: float
    task: asyncio.Task[None]


class Outgoing:
    """Seals and delivers until it is cancelled."""

    def __init__(self, factory: Factory) -> None:
        self._database = factory.context.database
        self._clock = factory.context.clock
        self._sealer = factory.upkeep.create_sealer()
        self._postings = factory.upkeep.create_posting_sealer()
        self._webhooks = factory.webhooks.create_deliverer()
        self._sealing: dict[UUID, asyncio.Task[None]] = {}
        self._delivering: dict[UUID, _Delivering] = {}
        self._left_alone: dict[UUID, float] = {}
        self._woken = asyncio.Event()
        self._turn = asyncio.Semaphore(SEALINGS_AT_ONCE)
        self._is_away = False
        self._is_distributed = False
        self._logger = structlog.get_logger("payrec.outgoing")
        self._troubles = Troubles("outgoing", monotonic=self._clock.monotonic, logger=self._logger)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Seal and deliver within the context; at its end what is under way is broken off and given back."""
        async with self._webhooks:
            looking = asyncio.create_task(self._look_forever())
            try:
                yield
            finally:
                tasks = [looking, *self._sealing.values(), *(one.task for one in self._delivering.values())]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_forever(self) -> None:
        pause = EVENT_POLL_SECONDS_MIN
        while True:
            self._woken.clear()
            try:
                found = await self._look()
            except Exception:
                # Nobody else looks in this process: whatever it was, the next look may do.
                self._logger.exception("outgoing.look_failed")
                found = False
            pause = next_pause(pause, found=found, is_away=self._is_away)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._woken.wait()

    async def _look(self) -> bool:
        """Begin what is to be done; return whether there was anything."""
        now = self._clock.monotonic()
        self._left_alone = {key: until for key, until in self._left_alone.items() if until > now}
        try:
            async with self._database.control(readonly=True) as connection:
                self._is_distributed = connection.is_distributed
                store = WakeUpStore(connection)
                unsealed, due = await store.look(
                    not_sealed={*self._sealing, *self._left_alone},
                    changes_max=UNSEALED_CHANGES_READ,
                    not_delivered={*self._delivering, *self._left_alone},
                    webhooks_max=max(WEBHOOK_ENDPOINTS_AT_ONCE - len(self._delivering), WEBHOOK_WAITING_SEEN),
                    crowded=[tenant_id for tenant_id, count in self._places().items() if is_crowd(count)],
                    crowded_max=WEBHOOK_WAITING_SEEN,
                )
                scopes = await self._scopes(TenantStore(connection), unsealed, due)
        except UnavailableError as error:
            self._troubles.meet(error.detail)
            self._is_away = True
            return False
        self._is_away = False
        self._troubles.pass_by()
        for waiting in unsealed:
            self._begin_sealing(waiting, scopes.get(waiting.environment_id))
        has_begun = self._give_places(due, scopes)
        return bool(unsealed) or has_begun

    @staticmethod
    async def _scopes(store: TenantStore, unsealed: list[Unsealed], due: list[DueWebhook]) -> dict[UUID, TenantScope]:
        found = {}
        for environment_id in {u.environment_id for u in unsealed} | {d.environment_id for d in due}:
            row = await store.scope(environment_id)
            if row is not None and row["revision"] is not None:
                found[environment_id] = scope_of(row)
        return found

    def _begin_sealing(self, waiting: Unsealed, scope: TenantScope | None) -> None:
        task = asyncio.create_task(self._guarded(waiting.environment_id, partial(self._seal, waiting, scope)))
        self._sealing[waiting.environment_id] = task
        task.add_done_callback(lambda _: self._sealing.pop(waiting.environment_id))

    async def _seal(self, waiting: Unsealed, scope: TenantScope | None) -> None:
        """Seal an environment and post what it has decided, and then forget what said so; also of one that is gone.

        Where there is much of either, others have their turn before it goes on, and events that have come meanwhile
        are sealed before more is posted.
        """
        self._database.hurry()
        settled = waiting.change_ids
        async with self._turn:
            if scope is not None:
                if self._is_distributed:
                    settled = await self._sealer.settled(scope, waiting.change_ids)
                sealed = await self._sealer.seal(scope, waiting.event_ids)
                self._ring(waiting.environment_id)
                if sealed is None:
                    return
                if not await self._postings.number(scope):
                    return
            async with self._database.control() as connection:
                await WakeUpStore(connection).sealed(settled)
                if waiting.event_ids:
                    await ControlOutboxStore(connection).forget(waiting.event_ids)
        if len(settled) < len(waiting.change_ids):
            # What cannot be seen yet is not looked for all the time.
            self._left_alone[waiting.environment_id] = self._clock.monotonic() + EVENT_POLL_SECONDS_MAX
        self._woken.set()

    def _ring(self, sealed_id: UUID) -> None:
        """Tell those who deliver in an environment that there are news."""
        for one in self._delivering.values():
            if one.environment_id == sealed_id:
                one.bell.ring(news=True)

    def _places(self) -> Counter[UUID]:
        """Count the places that each tenant has."""
        return Counter(one.tenant_id for one in self._delivering.values() if one.tenant_id is not None)

    def _give_places(self, due: list[DueWebhook], scopes: dict[UUID, TenantScope]) -> bool:
        """Begin with the endpoints for which there is a place, and see that others give theirs to the rest."""
        begun, waiting, places = False, Counter[UUID | None](), self._places()
        for webhook in due:
            scope = scopes.get(webhook.environment_id)
            if scope is not None and is_crowd(places[scope.tenant_id]):
                waiting[scope.tenant_id] += 1
            elif len(self._delivering) >= WEBHOOK_ENDPOINTS_AT_ONCE:
                waiting[None] += 1
            else:
                self._begin_delivering(webhook, scope)
                begun = True
                if scope is not None:
                    places[scope.tenant_id] += 1
        for tenant_id, count in waiting.items():
            self._ask_for_places(tenant_id, count)
        return begun

    def _ask_for_places(self, tenant_id: UUID | None, count: int) -> None:
        """Have so many places given back, of a tenant or (None) of anybody: first those that were had the longest."""
        now = self._clock.monotonic()
        having = [one for one in self._delivering.values() if tenant_id in {None, one.tenant_id}]
        asked = sum(one.bell.is_last_round for one in having)
        had = [one for one in having if not one.bell.is_last_round and now - one.began_at >= WEBHOOK_TURN_SECONDS]
        for one in had[: max(count - asked, 0)]:
            one.bell.call_last_round()

    def _begin_delivering(self, webhook: DueWebhook, scope: TenantScope | None) -> None:
        bell = Bell()
        task = asyncio.create_task(self._guarded(webhook.webhook_id, partial(self._deliver, webhook, scope, bell)))
        self._delivering[webhook.webhook_id] = _Delivering(
            tenant_id=scope.tenant_id if scope is not None else None,
            environment_id=webhook.environment_id,
            bell=bell,
            began_at=self._clock.monotonic(),
            task=task,
        )
        task.add_done_callback(lambda _: self._delivering.pop(webhook.webhook_id))

    async def _deliver(self, webhook: DueWebhook, scope: TenantScope | None, bell: Bell) -> None:
        """Deliver to an endpoint until nothing is left; one that is gone is not looked at again."""
        if scope is not None and await self._webhooks.deliver(scope, webhook.webhook_id, bell):
            return
        async with self._database.control() as connection:
            await WakeUpStore(connection).forget(webhook.webhook_id)

    async def _guarded(self, key: UUID, work: Callable[[], Awaitable[None]]) -> None:
        """Do it; what fails is left alone for a while, and keeps nothing else waiting.

        The work is made here: what is cancelled before its first step has made nothing that waits to be awaited.
        """
        try:
            await work()
        except Exception as error:
            self._left_alone[key] = self._clock.monotonic() + EVENT_FAILURE_PAUSE_SECONDS
            if isinstance(error, UnavailableError):
                self._left_alone[key] = self._clock.monotonic() + 1.0
                self._troubles.meet(error.detail)
            else:
                self._logger.exception("outgoing.failed", about=str(key))
