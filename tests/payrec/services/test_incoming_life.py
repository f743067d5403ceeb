"""The life of lines in any order, beside a model of what must be: announced, booked, decided, matched, released."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from payrec.domain.incoming_states import INCOMING_STATES
from payrec.embedded.postgres import EmbeddedPostgres
from payrec.services import incoming_states
from payrec.storage.incoming_states import IncomingStateStore
from support.invariants import violations
from support.matching_world import World, matching_world
from support.postgres import cloned
from support.service import make_config, running

T = TypeVar("T")

PATH = "/incoming-transactions"
LINE = {"direction": "credit", "currency": "EUR", "bookingDate": "2026-03-12"}
LINES_MAX = 4
BODIES = {"ignore": {"reason": "none of ours"}, "classify": {"category": "fee"}, "restore": {}}
TOLD = {"ignore": "ignored", "classify": "classified", "restore": "restored"}

_UNKEPT = """
    SELECT a.transaction_id FROM allocation a
    LEFT JOIN allocation_state s ON (s.transaction_id, s.side, s.version) = (a.transaction_id, a.side, a.version)
    WHERE a.version > 1 AND s.status IS DISTINCT FROM a.status
"""
_UNLIKE = """
    SELECT t.id FROM incoming_transaction t JOIN incoming_open o ON o.transaction_id = t.id
    WHERE (t.duplicate, t.revision, t.pending) <> (o.duplicate, o.revision, o.pending)
"""
_AUDITED = """
    SELECT resource_id::text AS id, split_part(action, '.', 2) AS verb, count(*) AS count FROM audit_record
    WHERE action IN ('incoming_transaction.ignored', 'incoming_transaction.classified', 'incoming_transaction.restored')
    GROUP BY 1, 2
"""


@dataclass
class Line:
    """What must be of one line."""

    id: str
    name: str
    text: str
    minor: int
    booked: bool
    decided: str | None = None
    single: bool = False
    matches: list[tuple[str, int]] = field(default_factory=list)
    told: Counter[str] = field(default_factory=Counter)

    @property
    def matched(self) -> int:
        """What is matched of it."""
        return sum(minor for _, minor in self.matches)

    @property
    def status(self) -> str:
        """What its status must be."""
        if self.decided is not None:
            return self.decided
        if not self.booked:
            return "pending"
        return "matched" if self.matched == self.minor else "partially_matched" if self.matched else "unmatched"


KINDS = {
    *("booked", "booked again", "booked, decided", "matched, partially_matched", "matched, matched", "reversed"),
    *("ignore", "classify", "restore", "refused"),
}
"""What has to happen for walks to say anything."""


class Machine(RuleBasedStateMachine):
    """A few lines of an environment, and all that may happen to them."""

    runner: asyncio.Runner
    world: World
    url: str
    met: Counter[str]
    """What has happened in all walks."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[Line] = []
        self.do(self.world.clean())

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something on the loop that the service runs on."""
        return self.runner.run(work)

    def post(self, path: str, body: Any, *statuses: int) -> Any:
        """Ask for something, and look that the answer is one of those."""
        answer = self.do(self.world.tenant.post(path, body))
        assert answer.status_code in statuses, (path, body, answer.text)
        return answer.json()

    def shown(self, line: Line) -> dict[str, Any]:
        """Return what the interface shows of a line."""
        return self.do(self.world.incoming(line.id))

    @precondition(lambda self: len(self.lines) < LINES_MAX)
    @rule(booked=st.booleans(), twin=st.booleans())
    def arrive(self, *, booked: bool, twin: bool) -> None:
        """A line comes, booked or announced; some say the same."""
        name = f"L{len(self.lines)}"
        text = "INV-TWIN" if twin else f"INV-{name}"
        body = {**LINE, "amountMinor": 100, "externalId": name, "remittance": text}
        made = self.post(PATH, {**body, "status": "unmatched" if booked else "pending"}, 201)
        self.lines.append(Line(id=made["id"], name=name, text=text, minor=100, booked=booked))

    @precondition(lambda self: self.lines)
    @rule(data=st.data(), minor=st.sampled_from([100, 130]))
    def book(self, data: st.DataObject, minor: int) -> None:
        """A file has the line, booked; what was booked before stays as it is."""
        line = data.draw(st.sampled_from(self.lines))
        minor = line.minor if line.booked else minor
        self.post(
            f"{PATH}/upload",
            [{**LINE, "amount": f"{minor / 100:.2f}", "externalId": line.name, "remittance": line.text}],
            *(200, 201),
        )
        self.met["booked again" if line.booked else "booked, decided" if line.decided else "booked"] += 1
        line.booked, line.minor = True, minor

    @precondition(lambda self: self.lines)
    @rule(data=st.data(), verb=st.sampled_from(sorted(BODIES)))
    def decide(self, data: st.DataObject, verb: str) -> None:
        """A person decides, and is refused where the table has no such row."""
        line = data.draw(st.sampled_from(self.lines))
        allowed = INCOMING_STATES.allows(line.status, verb)
        flagged = verb == "restore" and line.decided is None
        if flagged:
            allowed = allowed and self.shown(line)["reasonCode"] == "duplicate"
        self.post(f"{PATH}/{line.id}/{verb}", BODIES[verb], 200 if allowed else 409)
        if allowed:
            line.decided = {"ignore": "ignored", "classify": "classified", "restore": None}[verb]
            line.single = line.single or flagged
            line.told[TOLD[verb]] += 1
        self.met[verb if allowed else "refused"] += 1

    @precondition(lambda self: self.lines)
    @rule(data=st.data(), minor=st.sampled_from([40, 60, 100, 130]), wrong=st.booleans())
    def match(self, data: st.DataObject, minor: int, *, wrong: bool) -> None:
        """A person says what it pays, and may see at once that it does not."""
        line = data.draw(st.sampled_from(self.lines))
        expected = {"direction": "credit", "currency": "EUR", "amountMinor": minor}
        item = self.post("/expected-transactions", expected, 201)["id"]
        leg = {"expectedTransactionId": item, "incomingTransactionId": line.id, "amountMinor": minor}
        allowed = INCOMING_STATES.allows(line.status, "match") and minor <= line.minor - line.matched
        made = self.post("/matches", {"legs": [leg], "reason": "by hand"}, *((200, 201) if allowed else (409, 422)))
        if allowed:
            line.matches.append((made["id"], minor))
            self.met[f"matched, {line.status}"] += 1
        if allowed and wrong:
            self.undo(line, line.matches[-1])

    @precondition(lambda self: any(line.matches for line in self.lines))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        """A match was wrong."""
        line = data.draw(st.sampled_from([line for line in self.lines if line.matches]))
        self.undo(line, data.draw(st.sampled_from(line.matches)))

    def undo(self, line: Line, match: tuple[str, int]) -> None:
        """Reverse a match."""
        self.post(f"/matches/{match[0]}/reverse", {"reason": "wrong"}, 200)
        line.matches.remove(match)
        self.met["reversed"] += 1

    @invariant()
    def adds_up(self) -> None:
        """Every line is what it must be, what is open is open, every decision is told, and every state kept."""
        for line in self.lines:
            found = self.shown(line)
            left = 0 if line.decided else line.minor - line.matched
            assert (found["status"], found["matchedAmountMinor"], found["openAmountMinor"]) == (
                *(line.status, line.matched, left),
            )
            assert not line.single or found["reasonCode"] != "duplicate"
        assert self.do(violations(self.url, self.world.scope.schema_name)) == {}
        for query in (_UNKEPT, _UNLIKE):
            assert self.do(self.world.sql(query)) == []
        told = {(row["id"], row["verb"]): row["count"] for row in self.do(self.world.sql(_AUDITED))}
        assert told == {(line.id, verb): count for line in self.lines for verb, count in line.told.items() if count}


@contextmanager
def machine(postgres: EmbeddedPostgres) -> Iterator[type[Machine]]:
    """Give the machine over a service of its own."""
    with cloned(postgres) as addresses, asyncio.Runner() as runner:
        starting = running(make_config(addresses), worker=False)
        service = runner.run(starting.__aenter__())
        try:
            acme, globex = (runner.run(service.tenant(slug)) for slug in ("acme", "globex"))
            watched = matching_world(service, acme, globex)
            world = runner.run(watched.__aenter__())
            yield type(
                "BoundMachine",
                (Machine,),
                {"runner": runner, "world": world, "url": addresses.superuser_url, "met": Counter()},
            )
            runner.run(watched.__aexit__(None, None, None))
        finally:
            runner.run(starting.__aexit__(None, None, None))


def walk(bound: type[Machine], *, examples: int, steps: int = 14, **more: Any) -> None:
    run_state_machine_as_test(
        bound,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
            **more,
        ),
    )


def test_whatever_happens_to_lines_it_adds_up(postgres: EmbeddedPostgres) -> None:
    with machine(postgres) as bound:
        walk(bound, examples=30)
    assert bound.met.keys() >= KINDS


def test_a_rule_that_is_broken_is_noticed(postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these would be a loss that nobody sees."""

    async def nothing(*_: Any, **__: Any) -> None:
        return None

    broken = {
        "what is ignored stays open": (IncomingStateStore, "close"),
        "what is restored is not open": (incoming_states, "reopen"),
        "a decision is not told": (incoming_states, "_tell"),
    }
    with machine(postgres) as bound:
        for name, (of, attribute) in broken.items():
            with monkeypatch.context() as patch:
                silent = (lambda *_, **__: None) if attribute == "_tell" else nothing
                patch.setattr(of, attribute, silent)
                try:
                    walk(bound, examples=60, steps=10, derandomize=True, phases=[Phase.generate])
                except AssertionError:
                    continue
                pytest.fail(f"nobody notices that {name}")
