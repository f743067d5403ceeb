"""An endpoint's queue against a store that a test keeps: order for each resource, nothing lost, whatever fails."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import ClassVar
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from payrec.constants.events import WEBHOOK_ATTEMPTS_AT_ONCE
from payrec.domain import webhooks
from payrec.domain.deliveries import EndpointQueue, Message, Outcome
from payrec.domain.webhooks import Answer, Health, delay_after

RESOURCES = [UUID(int=n) for n in range(4)]
START = datetime(2026, 1, 1, tzinfo=UTC)
NO_CHANCE = 0.0
ANSWERS = st.sampled_from(
    [
        *[Answer(status=204)] * 3,
        *[Answer(status=500), Answer(error="timeout")] * 2,
        Answer(status=503, retry_after=timedelta(hours=1)),
        Answer(status=410),
    ]
)
KINDS = (
    *("succeeded", "failed", "pending", "stored behind another one", "not stored", "began with failures"),
    *("no room", "new ones in a pause", "tried again in a pause"),
)
"""What has to happen for a walk to say anything."""


def message(position: int, resource: UUID) -> Message:
    return Message(
        position=position, event_id=UUID(int=position), type="t", resource_id=resource, occurred_at=START, data={}
    )


class Store:
    """What a database keeps of an endpoint."""

    def __init__(self) -> None:
        self.feed: list[UUID] = []
        self.position = 0
        self.health = Health()
        self.rows: dict[int, tuple[str, datetime, int]] = {}
        """Status, time of the next attempt and attempts, by place."""

    def resource(self, position: int) -> UUID:
        return self.feed[position - 1]

    def blocked(self) -> set[UUID]:
        return {self.resource(p) for p, (status, _, _) in self.rows.items() if status == "pending"}

    def attempts(self, position: int) -> int:
        return self.rows[position][2] if position in self.rows else 0

    def new(self, after: int, limit: int) -> list[Message]:
        places = [p for p in range(after + 1, len(self.feed) + 1) if p not in self.rows]
        return [message(p, self.resource(p)) for p in places[:limit]]

    def due(self, now: datetime, but: set[int]) -> list[Message]:
        found, seen = [], set()
        for position in sorted(self.rows):
            status, at, attempts = self.rows[position]
            resource = self.resource(position)
            if status == "pending" and resource not in seen:
                seen.add(resource)
                if at <= now and position not in but:
                    found.append(replace(message(position, resource), attempts=attempts))
        return found

    def store(self, outcomes: list[Outcome], now: datetime) -> None:
        for outcome in outcomes:
            position = outcome.message.position
            assert outcome.message.attempts == self.attempts(position) + (outcome.answer is not None)
            if position not in self.rows or self.rows[position][0] == "pending":
                self.rows[position] = (
                    outcome.status,
                    now + (outcome.delay or timedelta()),
                    outcome.message.attempts,
                )


class Deliveries(RuleBasedStateMachine):
    """Events come, attempts end one way or another, workers die between any two steps."""

    met: ClassVar[Counter[str]] = Counter()
    """What has happened in all examples: the dice may never fall as it takes."""

    def __init__(self) -> None:
        super().__init__()
        self.store = Store()
        self.now = START
        self.ended_at = 0.0
        self.under_way: list[Message] = []
        self.begin()

    def begin(self) -> None:
        self.under_way = []
        self.queue = EndpointQueue(position=self.store.position, health=self.store.health, blocked=self.store.blocked())
        self.health = self.store.health
        self.room = 1 if self.health.failures else WEBHOOK_ATTEMPTS_AT_ONCE
        self.met["began with failures"] += bool(self.health.failures)

    def read(self, limit: int) -> None:
        again = self.store.due(self.now, set(self.queue.again))
        new = self.store.new(self.queue.read_to, limit)
        self.queue.read(new, to=new[-1].position if len(new) == limit else len(self.store.feed))
        self.queue.retry(again)

    @rule(
        resources=st.lists(st.sampled_from(RESOURCES), max_size=6),
        limit=st.integers(1, 8),
        answers=st.lists(st.none() | ANSWERS, max_size=6),
    )
    def look(self, resources: list[UUID], limit: int, answers: list[Answer | None]) -> None:
        self.store.feed += resources
        self.read(limit)
        for answer in answers:
            found = self.queue.next(now=self.now)
            if found is None:
                self._check_nothing_waits()
                return
            self._check(found)
            self.under_way.append(found)
            if answer is not None:
                self._end(self.under_way.pop(), answer)

    def _check(self, found: Message) -> None:
        """Every earlier message of the resource has arrived or was given up, and there is room, and no pause for it."""
        settled = {p for p, (status, _, _) in self.store.rows.items() if status != "pending"}
        settled |= {o.message.position for o in self.queue.outcomes if o.status != "pending"}
        earlier = [p for p in range(1, found.position) if self.store.resource(p) == found.resource_id]
        # What was settled before the endpoint's place has a row too: everything is wanted here.
        assert set(earlier) <= settled, (found.position, earlier, settled)
        assert found.resource_id not in {m.resource_id for m in self.under_way}
        assert len(self.under_way) < self.room
        assert found.attempts == self.store.attempts(found.position)
        if self.health.is_paused(now=self.now):
            assert found.position in self.store.rows
            self.met["tried again in a pause"] += 1

    def _check_nothing_waits(self) -> None:
        """Unless there is no room, or a pause that keeps new ones alone."""
        if len(self.under_way) >= self.room:
            self.met["no room"] += 1
            return
        ended = {outcome.message.position for outcome in self.queue.outcomes}
        assert set(self.queue.again) <= ended | {m.position for m in self.under_way}
        if self.health.is_paused(now=self.now):
            self.met["new ones in a pause"] += self.queue.waiting
        else:
            assert not self.queue.waiting

    @precondition(lambda self: self.under_way)
    @rule(answers=st.lists(ANSWERS, min_size=1, max_size=4), data=st.data())
    def answer(self, answers: list[Answer], data: st.DataObject) -> None:
        for answer in answers[: len(self.under_way)]:
            self._end(self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1))), answer)

    def _end(self, ended: Message, answer: Answer) -> None:
        self.ended_at += 1.0
        self.queue.sent(ended, answer, now=self.now, ended_at=self.ended_at, chance=NO_CHANCE)
        self.health = self.health.after(answer, now=self.now)
        self.room = min(self.room + 1, WEBHOOK_ATTEMPTS_AT_ONCE) if answer.is_success else max(self.room // 2, 1)
        assert (self.queue.health, self.queue.room) == (self.health, self.room)
        delay = None
        if not (answer.is_success or answer.is_gone):
            delay = delay_after(ended.attempts, answer.retry_after, chance=NO_CHANCE)
        status = "succeeded" if answer.is_success else "failed" if delay is None else "pending"
        [outcome] = [outcome for outcome in self.queue.outcomes if outcome.message is ended]
        assert outcome == Outcome(message=ended, status=status, answer=answer, ended_at=self.ended_at, delay=delay)
        self.met[status] += 1

    @rule(fails=st.booleans(), meanwhile=st.booleans(), limit=st.integers(0, 3), data=st.data())
    def keep(self, fails: bool, meanwhile: bool, limit: int, data: st.DataObject) -> None:  # noqa: FBT001 - drawn
        what = self.queue.to_store()
        if self.under_way and meanwhile:
            # An attempt ends while the store is under way.
            self.answer([data.draw(st.sampled_from([Answer(status=204), Answer(status=500)]))], data)
        if limit:
            self.read(limit)
        if fails:
            since = list(self.queue.outcomes)
            self.queue.not_stored(what)
            assert self.queue.outcomes == [*what.outcomes, *since]
            self.met["not stored"] += len(what.outcomes)
            return
        self.met["stored behind another one"] += sum(outcome.answer is None for outcome in what.outcomes)
        self.store.store(list(what.outcomes), self.now)
        assert what.position >= self.store.position
        self.store.position, self.store.health = what.position, self.queue.health
        self.queue.stored(what, blocked=self.store.blocked() & what.settled)

    @rule(hours=st.sampled_from([0.001, 0.1, 3, 30]))
    def wait(self, hours: float) -> None:
        self.now += timedelta(hours=hours)

    @rule()
    def die(self) -> None:
        self.begin()

    @invariant()
    def the_place_leaves_nothing_behind(self) -> None:
        """Everything up to the endpoint's place has a row: a worker that begins there loses nothing."""
        assert all(p in self.store.rows for p in range(1, self.store.position + 1))
        assert self.queue.sending == len(self.under_way)
        assert 1 <= self.queue.room <= WEBHOOK_ATTEMPTS_AT_ONCE

    def teardown(self) -> None:
        """Let everything succeed from now on: everything arrives or was given up, and each resource's in its order."""
        self.begin()
        for _ in range(400):
            self.read(1000)
            while (found := self.queue.next(now=self.now)) is not None:
                self._check(found)
                self._end(found, Answer(status=204))
            what = self.queue.to_store()
            self.store.store(list(what.outcomes), self.now)
            self.store.position = what.position
            self.queue.stored(what, blocked=self.store.blocked() & what.settled)
            self.now += timedelta(hours=30)
            if self.store.position == len(self.store.feed) and not self.store.blocked():
                break
        assert self.store.position == len(self.store.feed)
        assert {status for status, _, _ in self.store.rows.values()} <= {"succeeded", "failed"}
        assert len(self.store.rows) == len(self.store.feed)


def test_whatever_happens_all_arrives_or_is_given_up_and_each_resource_s_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Sooner than the dice would come to it.
    monkeypatch.setattr(webhooks, "WEBHOOK_PAUSED_AFTER_FAILURES", 2)
    Deliveries.met.clear()
    run_state_machine_as_test(Deliveries, settings=settings(max_examples=150, stateful_step_count=40))
    seldom = {kind: Deliveries.met[kind] for kind in KINDS if Deliveries.met[kind] < 10}
    assert not seldom


def test_what_is_read_while_its_resource_is_being_freed_still_goes_first() -> None:
    [resource, *_] = RESOURCES
    queue = EndpointQueue(position=1, health=Health(), blocked={resource})
    queue.retry([replace(message(1, resource), attempts=1)])
    first = queue.next(now=START)
    assert first is not None
    queue.sent(first, Answer(status=204), now=START, ended_at=0.0, chance=NO_CHANCE)
    what = queue.to_store()
    # The store knows of nothing that blocks, and this one comes before it has said so.
    queue.read([message(2, resource)], to=2)
    queue.stored(what, blocked=set())
    queue.read([message(3, resource)], to=3)
    assert queue.next(now=START) is None
    assert [(o.message.position, o.status) for o in queue.outcomes] == [(2, "pending"), (3, "pending")]


def test_a_resource_is_free_when_what_blocked_it_is_settled_and_stored() -> None:
    blocked, free, other = RESOURCES[:3]
    queue = EndpointQueue(position=3, health=Health(), blocked={blocked, other})
    queue.read([message(4, free)], to=4)
    queue.retry([replace(message(n, resource), attempts=1) for n, resource in ((1, blocked), (2, other))])
    free_one, first, second = (queue.next(now=START) for _ in range(3))
    assert free_one
    assert first
    assert second

    def arrive(one: Message) -> None:
        queue.sent(one, Answer(status=204), now=START, ended_at=0.0, chance=NO_CHANCE)

    arrive(free_one)
    arrive(first)
    what = queue.to_store()
    assert what.settled == {blocked}
    arrive(second)
    queue.not_stored(what)
    what = queue.to_store()
    assert what.settled == {blocked, other}
    queue.stored(what, blocked={other})
    assert (queue.held, queue.is_idle) == (0, True)
    queue.read([message(5, blocked), message(6, other)], to=6)
    assert queue.next(now=START) == message(5, blocked)
    assert [(o.message.position, o.status) for o in queue.outcomes] == [(6, "pending")]


def test_what_is_to_be_sent_once_more_waits_in_the_store_behind_one_that_failed_meanwhile() -> None:
    [resource, *_] = RESOURCES
    queue = EndpointQueue(position=4, health=Health(), blocked=set())
    queue.read([message(5, resource)], to=5)
    newer = queue.next(now=START)
    assert newer is not None
    queue.retry([message(2, resource)])
    assert set(queue.again) == {2}
    queue.sent(newer, Answer(status=500), now=START, ended_at=0.0, chance=NO_CHANCE)
    assert [(o.message.position, o.status) for o in queue.outcomes] == [(5, "pending")]
    assert not queue.again
    assert queue.next(now=START) is None
