"""A model of the life of matches, and a machine that decides over HTTP beside it.

The model knows amounts and the machines' tables, and nothing else. After every step all that is stored of its
transactions and matches is compared with it, so what it says holds always: nothing is allocated beyond its amount, what
was matched and what is open add up, and a status is one that the table allows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from payrec.domain.match_states import MATCH_STATES
from support.matching_world import World
from support.service import Tenant

T = TypeVar("T")

AMOUNTS = st.integers(min_value=1, max_value=120)
WHOLE = 100
LIMIT = 60
"""What is above it needs a second person."""

_PROPOSE = """
    WITH made AS (
        INSERT INTO match (id, amount_minor, created_at, updated_at, score, status, kind, confidence, uniqueness,
            currency, created_by, levels)
        VALUES (gen_random_uuid(), %s, now(), now(), 0, 'proposed', 'one_to_one', 'low', 'ambiguous',
            'EUR', 'test', '{}') RETURNING id
    )
    INSERT INTO leg (match_id, ordinal, expected_id, incoming_id, amount_minor, settled_minor, settled_currency,
        expected_revision, incoming_revision)
    SELECT made.id, 0, e.id, i.id, %s, %s, 'EUR', e.revision, i.revision
    FROM made, expected_transaction e, incoming_transaction i WHERE e.id = %s AND i.id = %s
    RETURNING match_id::text AS id
"""
_LOOK = """
    SELECT e.id::text, coalesce(a.status, 'open') AS status, coalesce(a.allocated_minor, 0) AS matched,
        coalesce(o.open_minor, 0) AS open
    FROM expected_transaction e LEFT JOIN allocation a ON a.side = 1 AND a.transaction_id = e.id
    LEFT JOIN expected_open o ON o.transaction_id = e.id WHERE e.id = ANY(%s::uuid[])
    UNION ALL
    SELECT i.id::text, coalesce(a.status, 'unmatched'), coalesce(a.allocated_minor, 0), coalesce(o.open_minor, 0)
    FROM incoming_transaction i LEFT JOIN allocation a ON a.side = 2 AND a.transaction_id = i.id
    LEFT JOIN incoming_open o ON o.transaction_id = i.id WHERE i.id = ANY(%s::uuid[])
    UNION ALL
    SELECT m.id::text || coalesce(' ' || m.superseded_by::text, ''), m.status, 0, 0 FROM match m
    WHERE m.id = ANY(%s::uuid[])
"""


@dataclass
class Money:
    """A transaction, as it must be."""

    is_item: bool
    matched: int = 0
    closed: str | None = None

    @property
    def open(self) -> int:
        """What is left."""
        return 0 if self.closed else WHOLE - self.matched

    @property
    def status(self) -> str:
        """What the amounts make of it."""
        untouched = "open" if self.is_item else "unmatched"
        return self.closed or ("matched" if not self.open else "partially_matched" if self.matched else untouched)


@dataclass
class Joined:
    """A match, as it must be."""

    takes: dict[str, int]
    status: str = "proposed"
    winner: str | None = None


@dataclass
class Model:
    """Everything of one example."""

    money: dict[str, Money] = field(default_factory=dict)
    matches: dict[str, Joined] = field(default_factory=dict)

    def refusal(self, match_id: str) -> str | None:
        """Return why a match cannot be accepted."""
        found = self.matches[match_id]
        if found.winner is not None:
            return "already_matched"
        return None if MATCH_STATES.allows(found.status, "accept") else "invalid_state"

    def accept(self, match_id: str) -> None:
        """Take the amounts of a match."""
        found = self.matches[match_id]
        if found.status == "accepted":
            return
        found.status = "pending_approval" if max(found.takes.values()) > LIMIT else "accepted"
        for name, minor in found.takes.items():
            self.money[name].matched += minor
        self.supersede(found.takes, match_id)

    def give_back(self, match_id: str) -> None:
        """Take the amounts of a match from it."""
        for name, minor in self.matches[match_id].takes.items():
            self.money[name].matched -= minor

    def supersede(self, names: Any, winner: str | None) -> None:
        """Have the proposals go for which too little is left of these."""
        for rival in self.matches.values():
            short = [n for n, minor in rival.takes.items() if n in names and minor > self.money[n].open]
            if rival.status == "proposed" and short:
                rival.status, rival.winner = "superseded", winner


class DecisionMachine(RuleBasedStateMachine):
    """A few invoices and payments of 100 each, and everything that people may decide about them."""

    runner: asyncio.Runner
    world: World
    another: Tenant
    """As another user sees the tenant."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something on the loop that has the connections."""
        return self.runner.run(work)

    def ask(self, path: str, body: Any = None, who: Tenant | None = None) -> tuple[int, Any]:
        """Ask over HTTP, and return the status and the code or the body."""
        answer = self.do((who or self.world.tenant).post(path, body))
        found = answer.json()
        return answer.status_code, found if answer.status_code < 400 else found["code"]

    @initialize(items=st.integers(1, 2), lines=st.integers(1, 2))
    def begin(self, items: int, lines: int) -> None:
        """There is something to decide about."""
        for is_item in [True] * items + [False] * lines:
            self.store(is_item=is_item)

    def store(self, *, is_item: bool) -> None:
        """Store a transaction."""
        body = {"amountMinor": WHOLE, "currency": "EUR", "direction": "credit"}
        path = "/expected-transactions" if is_item else "/incoming-transactions"
        status, made = self.ask(path, body if is_item else {**body, "bookingDate": "2026-03-12"})
        assert status == 201
        self.model.money[made["id"]] = Money(is_item=is_item)

    def pick(self, data: st.DataObject, *, is_item: bool) -> str:
        """Return a transaction of a side."""
        return data.draw(st.sampled_from([name for name, m in self.model.money.items() if m.is_item is is_item]))

    def choose(self, data: st.DataObject, *statuses: str) -> str:
        """Return a match, of two times in three one with such a status, if there is one."""
        matches = self.model.matches
        sensible = [name for name, found in matches.items() if found.status in statuses]
        is_sensible: bool = bool(sensible) and data.draw(st.sampled_from([True, True, False]))
        return data.draw(st.sampled_from(sensible if is_sensible else list(matches)))

    @rule(data=st.data(), minor=st.integers(1, WHOLE))
    def propose(self, data: st.DataObject, minor: int) -> None:
        """A run proposes what fits."""
        item, line = self.pick(data, is_item=True), self.pick(data, is_item=False)
        minor = min(minor, self.model.money[item].open, self.model.money[line].open)
        if minor:
            [row] = self.do(self.world.sql(_PROPOSE, minor, minor, minor, item, line))
            self.model.matches[row["id"]] = Joined(takes={item: minor, line: minor})

    @precondition(lambda self: self.model.matches)
    @rule(data=st.data())
    def accept(self, data: st.DataObject) -> None:
        """Somebody accepts."""
        match_id = self.choose(data, "proposed")
        refusal = self.model.refusal(match_id)
        status, found = self.ask(f"/matches/{match_id}/accept")
        assert (status, None if status == 200 else found) == ((200, None) if refusal is None else (409, refusal))
        if refusal is None:
            self.model.accept(match_id)

    @precondition(lambda self: self.model.matches)
    @rule(data=st.data(), count=st.integers(1, 4))
    def accept_many(self, data: st.DataObject, count: int) -> None:
        """Somebody accepts several at once, some of them twice perhaps."""
        ids = data.draw(st.lists(st.sampled_from(list(self.model.matches)), min_size=count, max_size=count))
        status, found = self.ask("/matches/accept", {"ids": ids})
        assert status == 200
        before = {name for name, m in self.model.matches.items() if m.status == "superseded"}
        for match_id, result in zip(ids, found["results"], strict=True):
            refusal = self.model.refusal(match_id)
            assert (result.get("problem") or {}).get("code") == refusal
            if refusal is None:
                self.model.accept(match_id)
        for name, rival in self.model.matches.items():
            if rival.status == "superseded" and name not in before:
                # Where several have taken of it together, any of them is named.
                query = "SELECT superseded_by::text AS by FROM match WHERE id = %s"
                [row] = self.do(self.world.sql(query, name))
                assert row["by"] in ids
                rival.winner = row["by"]

    @precondition(lambda self: self.model.matches)
    @rule(data=st.data(), many=st.booleans())
    def reject(self, data: st.DataObject, *, many: bool) -> None:
        """Somebody rejects."""
        match_id = self.choose(data, "proposed", "pending_approval")
        found = self.model.matches[match_id]
        allowed = MATCH_STATES.allows(found.status, "reject")
        if many:
            status, answer = self.ask("/matches/reject", {"ids": [match_id]})
            assert status == 200
            status = answer["results"][0]["status"]
        else:
            status, _ = self.ask(f"/matches/{match_id}/reject")
        assert status == (200 if allowed else 409)
        if allowed and found.status == "pending_approval":
            self.model.give_back(match_id)
        if allowed:
            found.status = "rejected"

    @precondition(lambda self: self.model.matches)
    @rule(data=st.data(), by_another=st.booleans())
    def approve(self, data: st.DataObject, *, by_another: bool) -> None:
        """Somebody approves: never who has decided."""
        match_id = self.choose(data, "pending_approval")
        found = self.model.matches[match_id]
        if not MATCH_STATES.allows(found.status, "approve"):
            expected: tuple[int, str | None] = (409, "invalid_state")
        else:
            expected = (200, None) if by_another else (403, "second_approver_required")
        who = self.another if by_another else self.world.tenant
        status, code = self.ask(f"/matches/{match_id}/approve", who=who)
        assert (status, None if status == 200 else code) == expected
        if status == 200:
            found.status = "accepted"

    @precondition(lambda self: self.model.matches)
    @rule(data=st.data())
    def reverse(self, data: st.DataObject) -> None:
        """Somebody takes an accepted match back."""
        match_id = self.choose(data, "accepted")
        found = self.model.matches[match_id]
        allowed = MATCH_STATES.allows(found.status, "reverse")
        status, code = self.ask(f"/matches/{match_id}/reverse", {"reason": "wrong"})
        assert (status, None if allowed else code) == ((200, None) if allowed else (409, "invalid_state"))
        if allowed:
            found.status = "reversed"
            self.model.give_back(match_id)

    @rule(data=st.data(), minor=AMOUNTS, fee=st.sampled_from([0, 0, 3]), over=st.sampled_from([0, 0, 2]))
    def state(self, data: st.DataObject, minor: int, fee: int, over: int) -> None:
        """Somebody matches by hand, with what an invoice or a payment has beside."""
        item, line = self.pick(data, is_item=True), self.pick(data, is_item=False)
        adjustments: list[dict[str, Any]] = []
        if fee:
            adjustments.append({"type": "fee", "expectedTransactionId": item, "amountMinor": fee})
        if over:
            adjustments.append({"type": "over_payment", "incomingTransactionId": line, "amountMinor": over})
        body = {
            "legs": [{"expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": minor}],
            "adjustments": [{**adjustment, "currency": "EUR"} for adjustment in adjustments],
            "reason": "seen",
        }
        takes = {item: minor + fee, line: minor + over}
        status, found = self.ask("/matches", body)
        for name, taken in takes.items():
            if self.model.money[name].closed:
                assert (status, found) == (409, "invalid_state")
                return
            if taken > self.model.money[name].open:
                assert (status, found) == (422, "amount_exceeds_open")
                return
        assert status == 201, found
        self.model.matches[found["id"]] = Joined(takes=takes)
        self.model.accept(found["id"])

    @precondition(lambda self: self.model.matches)
    @rule(data=st.data(), seldom=st.integers(0, 5))
    def void(self, data: st.DataObject, seldom: int) -> None:
        """An invoice is void: only while nothing is matched."""
        if seldom:
            return
        item = self.pick(data, is_item=True)
        money = self.model.money[item]
        allowed = money.status == "open"
        status, _ = self.ask(f"/expected-transactions/{item}/void", {"reason": "gone"})
        assert status == (200 if allowed else 409)
        if allowed:
            money.closed = "void"
            self.model.supersede({item}, None)

    @precondition(lambda self: self.model.matches)
    @rule(data=st.data(), again=st.booleans())
    def ignore(self, data: st.DataObject, *, again: bool) -> None:
        """A payment is ignored, only while nothing is matched; or restored."""
        line = self.pick(data, is_item=False)
        money = self.model.money[line]
        if again and money.closed == "ignored":
            assert self.ask(f"/incoming-transactions/{line}/restore")[0] == 200
            money.closed = None
        elif not again:
            allowed = money.status == "unmatched"
            status, _ = self.ask(f"/incoming-transactions/{line}/ignore", {"reason": "noise"})
            assert status == (200 if allowed else 409)
            if allowed:
                money.closed = "ignored"
                self.model.supersede({line}, None)

    @precondition(lambda self: len(self.model.money) < 5)
    @rule(is_item=st.booleans())
    def arrive(self, *, is_item: bool) -> None:
        """Something more is expected, or paid."""
        self.store(is_item=is_item)

    @invariant()
    def everything_is_as_the_model_says(self) -> None:
        """All that is stored, seen from outside."""
        money, matches = self.model.money, self.model.matches
        sides = [[n for n, m in money.items() if m.is_item is is_item] for is_item in (True, False)]
        rows = self.do(self.world.sql(_LOOK, *sides, list(matches)))
        stored = {row["id"]: (row["status"], row["matched"], row["open"]) for row in rows}
        told = {name: (m.status, m.matched, m.open) for name, m in money.items()}
        told |= {name + (f" {m.winner}" if m.winner else ""): (m.status, 0, 0) for name, m in matches.items()}
        assert stored == told
        assert all(0 <= m.matched <= WHOLE for m in money.values())
