"""One endpoint's messages in memory: what may be sent now, and what is to be stored of what came of it.

The rule that everything here serves: a message of a resource is sent when every earlier one of that resource is settled
at this endpoint, that is, has arrived or is given up. Other resources do not wait for it. Nothing here reads a clock,
sends or stores; whoever does tells what happened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from payrec.constants.events import WEBHOOK_ATTEMPTS_AT_ONCE, WEBHOOK_PAUSE_MAX
from payrec.domain.webhooks import Answer, Health, delay_after


@dataclass(slots=True, kw_only=True)
class Message:
    """An event on its way to an endpoint."""

    position: int
    event_id: UUID
    type: str
    resource_id: UUID
    occurred_at: datetime
    data: dict[str, Any]
    attempts: int = 0
    """Those that are over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a message: ``pending`` ones are tried (again) after ``delay``."""

    message: Message
    status: str
    answer: Answer | None = None
    """None where the message was not sent, because an earlier one of its resource is to come first."""
    ended_at: float = 0.0
    """When the attempt ended, in seconds of the process's monotonic clock."""
    delay: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToStore:
    """What goes to the store at once."""

    outcomes: Sequence[Outcome]
    position: int
    """Up to here everything is stored then."""
    settled: frozenset[UUID]
    """Resources of which a message was settled that others may have waited for."""


def without_last_words(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return outcomes of an address that the endpoint has left since: that nobody is there gives up no message."""
    return [
        replace(outcome, status="pending", delay=timedelta())
        if outcome.answer is not None and outcome.answer.is_gone
        else outcome
        for outcome in outcomes
    ]


class EndpointQueue:
    """The messages of one endpoint between being read and being stored.

    ``position`` is where the endpoint is in the feed: up to there everything is stored.
    """

    def __init__(self, *, position: int, health: Health, blocked: Collection[UUID]) -> None:
        self.health = health
        self.read_to = position
        """Up to here the feed is read."""
        self.sending = 0
        """Attempts under way."""
        self.room = WEBHOOK_ATTEMPTS_AT_ONCE if health.failures == 0 else 1
        """How many may be."""
        self.outcomes: list[Outcome] = []
        """What is to be stored."""
        self._blocked = set(blocked)
        self._open: dict[int, None] = {}
        self._again: set[int] = set()
        self._chains: dict[UUID, deque[Message]] = {}
        self._ready: deque[UUID] = deque()
        self._settled: set[UUID] = set()

    @property
    def held(self) -> int:
        """How many messages are in memory."""
        return len(self._open) + len(self._again)

    @property
    def waiting(self) -> int:
        """How many resources have a message that could be sent now."""
        return len(self._ready)

    @property
    def again(self) -> Collection[int]:
        """Places of the messages in memory that were stored before."""
        return self._again

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way, to be sent, or to be stored."""
        return not (self.sending or self._ready or self.outcomes)

    def read(self, messages: Iterable[Message], *, to: int) -> None:
        """Take new events up to a place of the feed; those of a blocked resource are stored behind what blocks it."""
        for message in messages:
            self._open[message.position] = None
            if message.resource_id in self._blocked:
                self._hold_back(message)
            else:
                self._append(message)
        self.read_to = max(self.read_to, to)

    def retry(self, messages: Iterable[Message]) -> None:
        """Take messages that were stored as pending and whose time has come."""
        for message in messages:
            self._again.add(message.position)
            self._append(message)

    def next(self, *, now: datetime) -> Message | None:
        """Return a message to send, the turn being the longest waiting resource's; None while there is no room.

        While the endpoint is paused only messages that were stored before are sent: they have their own schedule.
        """
        is_paused = self.health.is_paused(now=now)
        for _ in range(len(self._ready)):
            if self.sending >= self.room:
                return None
            resource_id = self._ready.popleft()
            message = self._chains[resource_id][0]
            if is_paused and message.position not in self._again:
                self._ready.append(resource_id)
                continue
            self.sending += 1
            return message
        return None

    def put_back(self, message: Message) -> None:
        """Take back a message that was not sent after all."""
        self.sending -= 1
        self._ready.append(message.resource_id)

    def sent(self, message: Message, answer: Answer, *, now: datetime, ended_at: float, chance: float) -> None:
        """Take the answer to a message, and with it what becomes of those behind it.

        What could not be sent at all is not given up: it waits for the endpoint to have a secret again.
        """
        self.sending -= 1
        message.attempts += answer.was_sent
        self.health = self.health.after(answer, now=now)
        self.room = min(self.room + 1, WEBHOOK_ATTEMPTS_AT_ONCE) if answer.is_success else max(self.room // 2, 1)
        status = "succeeded"
        delay: timedelta | None = None
        if not answer.is_success:
            delay = WEBHOOK_PAUSE_MAX
            if answer.was_sent:
                delay = None if answer.is_gone else delay_after(message.attempts, answer.retry_after, chance=chance)
            status = "failed" if delay is None else "pending"
        self.outcomes.append(Outcome(message=message, status=status, answer=answer, ended_at=ended_at, delay=delay))
        chain = self._chains[message.resource_id]
        chain.popleft()
        if status == "pending":
            self._block(message.resource_id, chain)
        elif message.resource_id in self._blocked:
            self._settled.add(message.resource_id)
        if chain:
            self._ready.append(message.resource_id)
        else:
            del self._chains[message.resource_id]

    def to_store(self) -> ToStore:
        """Return what is to be stored, and the endpoint's place after it."""
        outcomes, self.outcomes = self.outcomes, []
        settled, self._settled = self._settled, set()
        stored = {outcome.message.position for outcome in outcomes}
        left = next((position for position in self._open if position not in stored), None)
        return ToStore(
            outcomes=outcomes, position=self.read_to if left is None else left - 1, settled=frozenset(settled)
        )

    def stored(self, what: ToStore, *, blocked: Collection[UUID]) -> None:
        """Forget what was stored; of the settled resources those are free that are not ``blocked`` still."""
        for outcome in what.outcomes:
            self._open.pop(outcome.message.position, None)
            self._again.discard(outcome.message.position)
        # What was held back meanwhile is not in the store yet, and blocks all the same.
        held_back = {outcome.message.resource_id for outcome in self.outcomes if outcome.status == "pending"}
        self._blocked -= what.settled - set(blocked) - held_back

    def not_stored(self, what: ToStore) -> None:
        """Keep what could not be stored for the next time."""
        self.outcomes[:0] = what.outcomes
        self._settled |= what.settled

    def _append(self, message: Message) -> None:
        chain = self._chains.get(message.resource_id)
        if chain is None:
            self._chains[message.resource_id] = deque([message])
            self._ready.append(message.resource_id)
        else:
            chain.append(message)

    def _block(self, resource_id: UUID, chain: deque[Message]) -> None:
        """Let everything new of a resource wait in the store behind the message that is to be tried again."""
        self._blocked.add(resource_id)
        self._settled.discard(resource_id)
        kept = [message for message in chain if message.position in self._again]
        for message in chain:
            if message.position not in self._again:
                self._hold_back(message)
        chain.clear()
        # Those of the store stay there: the statement that finds them again knows what they wait for.
        for message in kept:
            self._again.discard(message.position)

    def _hold_back(self, message: Message) -> None:
        self.outcomes.append(Outcome(message=message, status="pending"))
