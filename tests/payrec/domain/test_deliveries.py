"""An endpoint's queue against a store that a test keeps: order for each resource, nothing lost, whatever fails."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from payrec.constants.events import WEBHOOK_ATTEMPTS_AT_ONCE
from payrec.domain.deliveries import EndpointQueue, Message, Outcome
from payrec.domain.webhooks import Answer, Health

RESOURCES = [UUID(int=n) for n in range(4)]
START = datetime(2026, 1, 1, tzinfo=UTC)
NO_CHANCE = 0.0


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
            known = self.rows.get(outcome.message.position)
            if known is None or known[0] == "pending":
                at = now + (outcome.delay or timedelta())
                self.rows[outcome.message.position] = (outcome.status, at, outcome.message.attempts)


class Deliveries(RuleBasedStateMachine):
    """Events come, attempts end one way or another, workers die between any two steps."""

    def __init__(self) -> None:
        super().__init__()
        self.store = Store()
        self.now = START
        self.under_way: list[Message] = []
        self.log: list[tuple[int, bool]] = []
        """Places in the order in which attempts ended, and whether they arrived."""
        self.begin()

    def begin(self) -> None:
        self.under_way = []
        self.queue = EndpointQueue(position=self.store.position, health=self.store.health, blocked=self.store.blocked())

    @rule(resources=st.lists(st.sampled_from(RESOURCES), min_size=1, max_size=6))
    def happen(self, resources: list[UUID]) -> None:
        self.store.feed += resources

    @rule(limit=st.integers(1, 5))
    def read(self, limit: int) -> None:
        again = self.store.due(self.now, set(self.queue.again))
        new = self.store.new(self.queue.read_to, limit)
        self.queue.read(new, to=new[-1].position if len(new) == limit else len(self.store.feed))
        self.queue.retry(again)

    @rule(count=st.integers(1, 4))
    def send(self, count: int) -> None:
        for _ in range(count):
            found = self.queue.next(now=self.now)
            if found is None:
                return
            self._check_order(found)
            self.under_way.append(found)

    def _check_order(self, found: Message) -> None:
        """Every earlier message of the resource has arrived or was given up, in memory or in the store."""
        settled = {p for p, (status, _, _) in self.store.rows.items() if status != "pending"}
        settled |= {o.message.position for o in self.queue.outcomes if o.status != "pending"}
        earlier = [p for p in range(1, found.position) if self.store.resource(p) == found.resource_id]
        # What was settled before the endpoint's place has a row too: everything is wanted here.
        assert set(earlier) <= settled, (found.position, earlier, settled)
        assert found.resource_id not in {m.resource_id for m in self.under_way}

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), status=st.sampled_from([204, 204, 204, 500, 503, None]))
    def answer(self, data: st.DataObject, status: int | None) -> None:
        ended = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        answer = Answer(status=status, error=None if status else "timeout")
        self.queue.sent(ended, answer, now=self.now, ended_at=0.0, chance=NO_CHANCE)
        self.log.append((ended.position, answer.is_success))

    @rule(fails=st.booleans(), data=st.data())
    def keep(self, fails: bool, data: st.DataObject) -> None:  # noqa: FBT001 - drawn
        what = self.queue.to_store()
        if self.under_way and data.draw(st.booleans()):
            # An attempt ends while the store is under way.
            self.answer(data, data.draw(st.sampled_from([204, 500])))
        if data.draw(st.booleans()):
            self.read(3)
        if fails:
            self.queue.not_stored(what)
            return
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
                self._check_order(found)
                self.queue.sent(found, Answer(status=204), now=self.now, ended_at=0.0, chance=NO_CHANCE)
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


Deliveries.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
test_deliveries = Deliveries.TestCase


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
