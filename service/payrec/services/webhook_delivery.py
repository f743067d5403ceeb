"""Delivers events to endpoints: one worker at a time for an endpoint, and of attempts no tenant has more than its part.

A worker takes the lease of an endpoint, reads the feed from the endpoint's place on, sends, and stores what became of
it together with the new place and a longer lease. Each store looks first whether the lease is still its own. So
whatever ends a worker, what it had sent and not stored is sent again by the next one, under the same ``webhook-id``;
and no two workers send to an endpoint at once, because none begins an attempt that its lease might not outlast.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self
from uuid import UUID

import structlog
from pydantic_core import to_json

from payrec.constants.events import (
    WEBHOOK_ATTEMPTS_AT_ONCE,
    WEBHOOK_ATTEMPTS_AT_ONCE_ALL,
    WEBHOOK_ATTEMPTS_AT_ONCE_TENANT,
    WEBHOOK_EVENTS_HELD_MAX,
    WEBHOOK_EVENTS_READ,
    WEBHOOK_LEASE,
    WEBHOOK_LEASE_RENEWED_SECONDS,
    WEBHOOK_LEASE_TRUSTED_SECONDS,
    WEBHOOK_LINGER_SECONDS,
    WEBHOOK_LOOK_SECONDS,
    WEBHOOK_OUTCOMES_STORED,
    WEBHOOK_STORE_SECONDS,
)
from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.deliveries import EndpointQueue, Message, without_last_words
from payrec.domain.events import told
from payrec.domain.principal import Principal
from payrec.domain.scope import TenantScope
from payrec.domain.webhooks import Answer, Chance, Health
from payrec.errors import ConfigurationError, UnavailableError
from payrec.metrics import Metrics
from payrec.services.webhook_secrets import WebhookSecrets
from payrec.services.webhook_sender import WebhookSender
from payrec.services.work import LostLeaseError, Work
from payrec.shares import TenantShares
from payrec.storage.events import EventStore
from payrec.storage.webhook_deliveries import WebhookDeliveryStore
from payrec.storage.webhooks import NEVER, WebhookStore

ACTOR: Final = "webhook-delivery"
"""Who disables endpoints."""

_LOOK_GROWTH: Final = 1.5
_LOOK_SECONDS_MAX: Final = 2.0
"""Between two looks for more while attempts are under way and nobody tells of any."""


class Bell:
    """Wakes who delivers to an endpoint: there may be more events, an attempt has ended, or another endpoint waits."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.has_news = True
        self.is_last_round = False

    def call_last_round(self) -> None:
        """Have what is under way ended, and the place given to another endpoint."""
        self.is_last_round = True
        self.ring()

    def ring(self, *, news: bool = False) -> None:
        """Wake; ``news`` are new events."""
        self.has_news = self.has_news or news
        self._event.set()

    async def wait(self, seconds: float) -> None:
        """Wait for the next ring, or for so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        self._event.clear()


@dataclass(slots=True, kw_only=True)
class _Endpoint:
    """One endpoint while its lease is held."""

    scope: TenantScope
    row: dict[str, Any]
    queue: EndpointQueue
    bell: Bell
    turn: asyncio.Semaphore
    """What the attempts at all endpoints of the tenant share."""
    renewed_at: float
    """When the transaction began that the lease was last renewed in; monotonic seconds, as below."""
    stored_at: float = 0.0
    looked_at: float = 0.0
    busy_at: float = 0.0
    look_seconds: float = WEBHOOK_LOOK_SECONDS
    is_behind: bool = False
    """More of the feed is known to be there."""
    is_ending: bool = False
    """Nothing further is sent: the endpoint was changed, is to be disabled, or has had its turn."""
    is_mute: bool = False
    """It was told that nothing can be signed."""
    disabled_for: str | None = None
    broken: Exception | None = None
    """What went wrong on our side in an attempt."""
    attempts: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def id(self) -> UUID:
        return UUID(str(self.row["id"]))


class WebhookDeliverer:
    """Delivers to endpoints; open it as a context."""

    def __init__(
        self, *, work: Work, sender: WebhookSender, secrets: WebhookSecrets, metrics: Metrics, chance: Chance
    ) -> None:
        self._work = work
        self._clock = work.clock
        self._sender = sender
        self._secrets = secrets
        self._metrics = metrics
        self._chance = chance
        self._turn = asyncio.Semaphore(WEBHOOK_ATTEMPTS_AT_ONCE_ALL)
        self._turns = TenantShares(WEBHOOK_ATTEMPTS_AT_ONCE_TENANT)
        self._logger = structlog.get_logger("payrec.webhooks")

    async def __aenter__(self) -> Self:
        await self._sender.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._sender.__aexit__(kind, error, traceback)

    async def deliver(self, scope: TenantScope, webhook_id: UUID, bell: Bell) -> bool:
        """Deliver to an endpoint until nothing is left to be done now; return False if there is no such endpoint.

        Where somebody else delivers to it, that is looked at again when their lease is over.
        """
        began = self._clock.monotonic()
        async with self._work.database.tenant(scope) as connection:
            store = WebhookStore(connection)
            row = await store.claim(webhook_id, lease=WEBHOOK_LEASE)
            if row is None:
                known = await store.get(webhook_id, lock=True)
                if known is not None:
                    due_at = NEVER if known["status"] == "disabled" else known["lease_until"] or self._clock.now()
                    await store.schedule(webhook_id, scope.environment_id, due_at)
                return known is not None
            await store.schedule(webhook_id, scope.environment_id, row["lease_until"])
            blocked = await WebhookDeliveryStore(connection, webhook_id).blocked()
        queue = EndpointQueue(position=row["position"], health=_health(row), blocked=blocked)
        turn = self._turns.of(scope.tenant_id)
        endpoint = _Endpoint(scope=scope, row=row, queue=queue, bell=bell, turn=turn, renewed_at=began)
        with structlog.contextvars.bound_contextvars(
            tenant=scope.slug, environment=scope.environment, webhook_id=str(webhook_id)
        ):
            try:
                await self._run(endpoint)
            except LostLeaseError:
                self._logger.info("webhook.lease_lost")
            finally:
                for attempt in endpoint.attempts:
                    attempt.cancel()
                await asyncio.gather(*endpoint.attempts, return_exceptions=True)
                await asyncio.shield(self._give_back(endpoint))
        return True

    async def _run(self, endpoint: _Endpoint) -> None:
        queue = endpoint.queue
        endpoint.busy_at = self._clock.monotonic()
        while True:
            endpoint.is_ending = endpoint.is_ending or endpoint.bell.is_last_round
            has_read = await self._read(endpoint)
            self._start(endpoint)
            if self._is_to_be_stored(endpoint):
                await self._store(endpoint)
            if endpoint.broken is not None:
                raise endpoint.broken
            now = self._clock.monotonic()
            if not queue.is_idle:
                endpoint.busy_at = now
            if endpoint.is_ending and not endpoint.attempts and not queue.outcomes:
                break
            is_over = self._is_paused(queue) or now - endpoint.busy_at > WEBHOOK_LINGER_SECONDS
            if is_over and not endpoint.attempts and not queue.outcomes:
                break
            if not has_read:
                await endpoint.bell.wait(WEBHOOK_LOOK_SECONDS)
        if endpoint.disabled_for is not None:
            await self._disable(endpoint, endpoint.disabled_for)

    async def _read(self, endpoint: _Endpoint) -> bool:
        """Read new events, and messages whose time has come again, where there is room; return whether any came."""
        queue, now = endpoint.queue, self._clock.monotonic()
        is_time = endpoint.bell.has_news or endpoint.is_behind or now - endpoint.looked_at >= endpoint.look_seconds
        if endpoint.is_ending or not is_time or queue.waiting >= WEBHOOK_ATTEMPTS_AT_ONCE:
            return False
        room = min(WEBHOOK_EVENTS_HELD_MAX - queue.held, WEBHOOK_EVENTS_READ)
        if room <= 0:
            return False
        has_news, endpoint.bell.has_news, endpoint.looked_at = endpoint.bell.has_news, False, now
        try:
            async with self._work.database.tenant(endpoint.scope, readonly=True) as connection:
                if not await WebhookStore(connection).is_as_it_was(endpoint.row):
                    # What is under way may end, and the next lease begins with what is stored now.
                    endpoint.is_ending = True
                    return False
                head = await EventStore(connection).head()
                store = WebhookDeliveryStore(connection, endpoint.id)
                again = await store.due(but=queue.again, limit=room)
                new = []
                if head > queue.read_to and not self._is_paused(queue):
                    types = endpoint.row["events"]
                    new = await store.new(after=queue.read_to, head=head, types=types, limit=room)
                    endpoint.is_behind = len(new) == room
                    queue.read(new, to=new[-1].position if endpoint.is_behind else head)
                else:
                    endpoint.is_behind = False
                queue.retry(again)
        except UnavailableError:
            endpoint.bell.has_news = has_news
            self._logger.warning("webhook.database_unavailable")
            return False
        found = bool(new or again)
        endpoint.look_seconds = (
            WEBHOOK_LOOK_SECONDS if found else min(endpoint.look_seconds * _LOOK_GROWTH, _LOOK_SECONDS_MAX)
        )
        return found

    def _is_paused(self, queue: EndpointQueue) -> bool:
        return queue.health.is_paused(now=self._clock.now())

    def _start(self, endpoint: _Endpoint) -> None:
        """Begin attempts, as many as there is room for."""
        keys = self._keys(endpoint) if endpoint.queue.waiting else []
        while not endpoint.is_ending and self._is_leased(endpoint):
            message = endpoint.queue.next(now=self._clock.now())
            if message is None:
                return
            task = asyncio.create_task(self._attempt(endpoint, message, keys))
            endpoint.attempts.add(task)
            task.add_done_callback(endpoint.attempts.discard)

    def _keys(self, endpoint: _Endpoint) -> list[bytes]:
        """Return what signs now: nothing after a change of ENCRYPTION_KEY, which is told once in a lease."""
        try:
            return self._secrets.keys_of(endpoint.row, now=self._clock.now())
        except ConfigurationError as error:
            if not endpoint.is_mute:
                self._logger.warning("webhook.secret_lost", error=error.detail, remedy="rotate-secret")
            endpoint.is_mute = True
            return []

    def _is_leased(self, endpoint: _Endpoint) -> bool:
        return self._clock.monotonic() - endpoint.renewed_at < WEBHOOK_LEASE_TRUSTED_SECONDS

    async def _attempt(self, endpoint: _Endpoint, message: Message, keys: list[bytes]) -> None:
        queue = endpoint.queue
        try:
            async with endpoint.turn, self._turn:
                if endpoint.is_ending or not self._is_leased(endpoint):
                    queue.put_back(message)
                    return
                if message.attempts == 0 and keys:
                    lag = (self._clock.now() - message.occurred_at).total_seconds()
                    self._metrics.delivery_lag.observe(max(lag, 0.0))
                url, tenant_id, event_id = endpoint.row["url"], endpoint.scope.tenant_id, message.event_id
                body = body_of(endpoint.scope, message)
                answer = await self._sender.send(url, tenant_id=tenant_id, message_id=event_id, body=body, keys=keys)
            self._take(endpoint, message, answer)
        except Exception as error:  # noqa: BLE001 - raised where it ends the lease, so that the message is not lost
            endpoint.broken = error
        finally:
            endpoint.bell.ring()

    def _take(self, endpoint: _Endpoint, message: Message, answer: Answer) -> None:
        """Take what an attempt came to."""
        queue, now = endpoint.queue, self._clock.now()
        queue.sent(message, answer, now=now, ended_at=self._clock.monotonic(), chance=self._chance())
        self._metrics.deliveries.labels(outcome=answer.outcome).inc()
        if answer.is_success:
            return
        if answer.was_sent:
            event_id, attempt = str(message.event_id), message.attempts
            self._logger.info("webhook.attempt_failed", event_id=event_id, attempt=attempt, outcome=answer.outcome)
        if answer.is_gone:
            endpoint.disabled_for = "gone"
        elif queue.health.is_given_up(now=now):
            endpoint.disabled_for = endpoint.disabled_for or "failing"
        endpoint.is_ending = endpoint.is_ending or endpoint.disabled_for is not None

    def _is_to_be_stored(self, endpoint: _Endpoint) -> bool:
        queue, now = endpoint.queue, self._clock.monotonic()
        if now - endpoint.renewed_at >= WEBHOOK_LEASE_RENEWED_SECONDS:
            return True
        if not queue.outcomes:
            return False
        is_resting = not endpoint.attempts and not queue.waiting
        is_late = now - endpoint.stored_at >= WEBHOOK_STORE_SECONDS
        return is_resting or is_late or len(queue.outcomes) >= WEBHOOK_OUTCOMES_STORED

    async def _store(self, endpoint: _Endpoint) -> None:
        """Store what became of messages, and keep the endpoint.

        Raises
        ------
        LostLeaseError
            Somebody else has the endpoint, or it is gone or disabled.
        UnavailableError
            The database has been away for as long as the lease can be trusted.
        """
        queue, began = endpoint.queue, self._clock.monotonic()
        what = queue.to_store()
        try:
            async with self._work.database.tenant(endpoint.scope) as connection:
                webhooks = WebhookStore(connection)
                row = await webhooks.held(endpoint.id, attempt=endpoint.row["attempt"])
                if row is None:
                    raise LostLeaseError
                is_elsewhere = row["url"] != endpoint.row["url"]
                health = _health(row) if is_elsewhere else queue.health
                store = WebhookDeliveryStore(connection, endpoint.id)
                if what.outcomes:
                    outcomes = without_last_words(what.outcomes) if is_elsewhere else what.outcomes
                    await store.store(outcomes, at=self._clock.now(), monotonic_now=self._clock.monotonic())
                blocked = await store.blocked(what.settled) if what.settled else set()
                await webhooks.settle(endpoint.id, position=what.position, health=health, lease=WEBHOOK_LEASE)
        except UnavailableError:
            queue.not_stored(what)
            if not self._is_leased(endpoint):
                raise
            self._logger.warning("webhook.database_unavailable")
            return
        queue.stored(what, blocked=blocked)
        endpoint.renewed_at, endpoint.stored_at = began, self._clock.monotonic()
        if row["version"] != endpoint.row["version"]:
            endpoint.is_ending = True

    async def _disable(self, endpoint: _Endpoint, reason: str) -> None:
        """Disable an endpoint, with an event that says why; what was to be delivered to it is given up."""
        scope = endpoint.scope
        principal = Principal(kind="system", name=ACTOR, tenant_id=scope.tenant_id)
        request_id = str(self._work.ids.new())
        async with self._work.tenant(Caller(principal=principal, request_id=request_id, scope=scope)) as unit:
            store = WebhookStore(unit.connection)
            row = await store.held(endpoint.id, attempt=endpoint.row["attempt"])
            if row is None:
                raise LostLeaseError
            if row["url"] != endpoint.row["url"]:
                return  # the address that is to be left alone is another one than the endpoint has by now
            await store.disable(endpoint.id, reason=reason, at=unit.now)
            await WebhookDeliveryStore(unit.connection, endpoint.id).end_pending(error="webhook_disabled")
            unit.record(
                Record(action="webhook.disabled", resource_id=endpoint.id, reason=reason, data={"reason": reason})
            )
        self._logger.warning("webhook.disabled", reason=reason)

    async def _give_back(self, endpoint: _Endpoint) -> None:
        """Store what is left, end the lease, if it is still ours, and say when there is something to be done again."""
        try:
            if endpoint.queue.outcomes:
                await self._store(endpoint)
            async with self._work.database.tenant(endpoint.scope) as connection:
                store = WebhookStore(connection)
                if await store.held(endpoint.id, attempt=endpoint.row["attempt"]) is None:
                    return
                # First this, then the look: a sealer with more waits here until we have committed, and is heard then.
                await store.schedule(endpoint.id, endpoint.scope.environment_id, NEVER)
                await store.give_back(endpoint.id)
                await store.schedule(endpoint.id, endpoint.scope.environment_id, await store.next_due(endpoint.id))
        except (LostLeaseError, UnavailableError):
            self._logger.warning("webhook.not_given_back")


def body_of(scope: TenantScope, message: Message) -> bytes:
    """Return the body of a message; the same bytes in every attempt."""
    return to_json(
        {
            "id": message.event_id,
            "type": message.type,
            "timestamp": message.occurred_at,
            "tenantId": scope.tenant_id,
            "environment": scope.environment,
            "data": told(message.type, message.resource_id, message.data),
        }
    )


def _health(row: dict[str, Any]) -> Health:
    return Health(failures=row["failures"], failing_since=row["failing_since"], paused_until=row["paused_until"])
