"""A machine that decides over HTTP, beside a model of the life of matches.

After every step all that is stored of its transactions and matches is compared with the model, so what it says holds
always: nothing is allocated beyond its amount, what was matched and what is open add up, and a status is one that the
table allows.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine, Iterator
from itertools import count
from typing import Any, ClassVar, TypeVar

from hypothesis import note
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from payrec.domain.match_states import MATCH_STATES
from support.decision_model import WHOLE, Joined, Model, Money
from support.matching_world import World
from support.service import Tenant

T = TypeVar("T")

MONEY_MAX = 5
"""Transactions of a walk: so few that most of what is decided competes."""

VERBS = ("accept", "accept many", "reject", "reject many", "approve", "approve own", "reverse")
KINDS = (
    *(f"{verb}: {status}" for verb in VERBS for status in sorted(MATCH_STATES.states)),
    *(
        f"{verb}, {status}"
        for verb in ("accept", "accept many", "by hand")
        for status in ("accepted", "pending_approval")
    ),
    *(f"{verb}: beaten" for verb in ("accept", "accept many", "by hand", "void", "ignore")),
    *("accept many: beaten by one of them", "accept many: the same again", "reject many: the same again"),
    *("by hand: fee", "by hand: over_payment", "reject: adjusted", "reverse: adjusted"),
    *(f"by hand: {why}" for why in ("void", "ignored", "too much of an item", "too much of a line")),
    *(f"void: {status}" for status in ("open", "partially_matched", "matched", "void")),
    *(
        f"{verb}: {status}"
        for verb in ("ignore", "restore")
        for status in ("unmatched", "partially_matched", "matched")
    ),
    *("ignore: ignored", "restore: ignored"),
)
"""What has to happen for walks to say anything: everything is asked of matches and transactions of every status."""

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


class DecisionMachine(RuleBasedStateMachine):
    """A few invoices and payments of 100 each, and everything that people may decide about them."""

    number: int
    """Of the walk, from which its dice begin: of the values that Hypothesis draws in so few walks half are the same."""
    runner: asyncio.Runner
    world: World
    another: Tenant
    """As another user sees the tenant."""
    met: ClassVar[Counter[str]] = Counter()
    """What has happened in all walks."""
    numbers: ClassVar[Iterator[int]] = count()
    """Of payments, in all walks: one that says the same as another would be taken for it, there twice."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something on the loop that has the connections."""
        return self.runner.run(work)

    def ask(self, path: str, body: Any = None, who: Tenant | None = None) -> tuple[int, Any]:
        """Ask over HTTP, and return the status and the code or the body."""
        note(f"{path} {body}")
        answer = self.do((who or self.world.tenant).post(path, body))
        found = answer.json()
        return answer.status_code, found if answer.status_code < 400 else found["code"]

    @initialize()
    def begin(self) -> None:
        """There is something to decide about."""
        self.dice = random.Random(self.number)  # noqa: S311 - the same each time, no secret
        for is_item in (True, False):
            for _ in range(self.dice.randint(1, 2)):
                self.store(is_item=is_item)

    @rule()
    def step(self) -> None:
        """Something happens."""
        others = [*[self.propose] * 4, *[self.state] * 3, self.void, self.void, self.ignore, self.restore, self.arrive]
        decisions = [self.accept, self.accept_many, self.approve, self.reverse] * 2 + [self.reject, self.reject_many]
        self.dice.choice([*others, *(decisions if self.model.matches else [])])(self.dice)

    def store(self, *, is_item: bool) -> None:
        """Store a transaction."""
        body = {"amountMinor": WHOLE, "currency": "EUR", "direction": "credit"}
        unlike = {"bookingDate": "2026-03-12", "remittance": f"payment {next(self.numbers)}"}
        path = "/expected-transactions" if is_item else "/incoming-transactions"
        status, made = self.ask(path, body if is_item else {**body, **unlike})
        assert status == 201
        self.model.money[made["id"]] = Money(is_item=is_item)

    def pick(self, dice: random.Random, *, is_item: bool, has_open: bool = False) -> str:
        """Return a transaction of a side, most times one of which something is open if so wanted; any status alike."""
        money = {name: m for name, m in self.model.money.items() if m.is_item is is_item}
        if has_open and dice.random() < 0.8:
            money = {name: m for name, m in money.items() if m.open} or money
        status = dice.choice(sorted({m.status for m in money.values()}))
        return dice.choice([name for name, m in money.items() if m.status == status])

    def pair(self, dice: random.Random) -> tuple[str, str, int]:
        """Return an invoice and a payment that may belong together, and what is open of both."""
        item, line = (self.pick(dice, is_item=is_item, has_open=True) for is_item in (True, False))
        return item, line, min(self.model.money[item].open, self.model.money[line].open)

    def choose(self, dice: random.Random, *statuses: str) -> str:
        """Return a match, two times in five one with such a status, if there is one; any status is as likely."""
        matches = self.model.matches
        there = sorted({found.status for found in matches.values()})
        sensible = [status for status in there if status in statuses]
        status = dice.choice(sensible if sensible and dice.random() < 0.4 else there)
        return dice.choice([name for name, found in matches.items() if found.status == status])

    def beaten(self) -> set[str]:
        """Return the proposals that are superseded."""
        return {name for name, found in self.model.matches.items() if found.status == "superseded"}

    def propose(self, dice: random.Random) -> None:
        """A run proposes what fits."""
        item, line, fits = self.pair(dice)
        if fits:
            minor = dice.choice([fits, dice.randint(1, fits)])
            [row] = self.do(self.world.sql(_PROPOSE, minor, minor, minor, item, line))
            self.model.matches[row["id"]] = Joined(takes={item: minor, line: minor})

    def accept(self, dice: random.Random) -> None:
        """Somebody accepts."""
        match_id, before = self.choose(dice, "proposed"), self.beaten()
        self.met[f"accept: {self.model.matches[match_id].status}"] += 1
        refusal = self.model.refusal(match_id)
        status, found = self.ask(f"/matches/{match_id}/accept")
        assert (status, None if status == 200 else found) == ((200, None) if refusal is None else (409, refusal))
        if refusal is None:
            self.model.accept(match_id)
            self.met[f"accept, {self.model.matches[match_id].status}"] += 1
        self.met["accept: beaten"] += self.beaten() > before

    def accept_many(self, dice: random.Random) -> None:
        """Somebody accepts several at once, some of them twice perhaps."""
        ids = [self.choose(dice, "proposed") for _ in range(dice.randint(1, 4))]
        if dice.random() < 0.5:
            # All proposals together compete, of any walk.
            ids += [name for name, found in self.model.matches.items() if found.status == "proposed"]
            dice.shuffle(ids)
        status, found = self.ask("/matches/accept", {"ids": ids})
        assert status == 200
        before = self.beaten()
        proposed = {name for name in ids if self.model.matches[name].status == "proposed"}
        chosen: set[str] = set()
        self.met.update(f"accept many: {self.model.matches[match_id].status}" for match_id in ids)
        self.met["accept many: the same again"] += any(ids.count(match_id) > 1 for match_id in proposed)
        for match_id, result in zip(ids, found["results"], strict=True):
            # Within a request the same again is the same, even of what waits for approval now.
            refusal = None if match_id in chosen else self.model.refusal(match_id)
            assert (result.get("problem") or {}).get("code") == refusal
            if refusal is None and match_id not in chosen:
                self.model.accept(match_id)
                chosen.add(match_id)
                self.met[f"accept many, {self.model.matches[match_id].status}"] += match_id in proposed
        beaten = self.beaten() - before
        self.met["accept many: beaten"] += bool(beaten)
        self.met["accept many: beaten by one of them"] += bool(beaten & proposed)
        for name in beaten:
            # Where several have taken of it together, any of them is named.
            query = "SELECT superseded_by::text AS by FROM match WHERE id = %s"
            [row] = self.do(self.world.sql(query, name))
            assert row["by"] in ids
            self.model.matches[name].winner = row["by"]

    def reject(self, dice: random.Random) -> None:
        """Somebody rejects."""
        match_id = self.choose(dice, "proposed", "pending_approval")
        status, code = self.ask(f"/matches/{match_id}/reject")
        assert (status, None if status == 200 else code) == self.rejected("reject", match_id)

    def reject_many(self, dice: random.Random) -> None:
        """Somebody rejects several at once, some of them twice perhaps."""
        ids = [self.choose(dice, "proposed", "pending_approval") for _ in range(dice.randint(1, 3))]
        before = {name: self.model.matches[name].status for name in ids}
        status, found = self.ask("/matches/reject", {"ids": ids})
        assert status == 200
        for match_id, result in zip(ids, found["results"], strict=True):
            told = (result["status"], (result.get("problem") or {}).get("code"))
            assert told == self.rejected("reject many", match_id)
        again = [name for name in ids if ids.count(name) > 1 and MATCH_STATES.allows(before[name], "reject")]
        self.met["reject many: the same again"] += bool(again)

    def rejected(self, verb: str, match_id: str) -> tuple[int, str | None]:
        """Reject in the model, and return the status and the code that there has to be."""
        found = self.model.matches[match_id]
        self.met[f"{verb}: {found.status}"] += 1
        if not MATCH_STATES.allows(found.status, "reject"):
            return 409, "invalid_state"
        if found.status == "pending_approval":
            self.model.give_back(match_id)
            self.met["reject: adjusted"] += found.is_adjusted
        found.status = "rejected"
        return 200, None

    def approve(self, dice: random.Random) -> None:
        """Somebody approves: never who has decided."""
        by_another = dice.random() < 0.5
        match_id = self.choose(dice, "pending_approval")
        found = self.model.matches[match_id]
        self.met[f"{'approve' if by_another else 'approve own'}: {found.status}"] += 1
        if not MATCH_STATES.allows(found.status, "approve"):
            expected: tuple[int, str | None] = (409, "invalid_state")
        else:
            expected = (200, None) if by_another else (403, "second_approver_required")
        who = self.another if by_another else self.world.tenant
        status, code = self.ask(f"/matches/{match_id}/approve", who=who)
        assert (status, None if status == 200 else code) == expected
        if status == 200:
            found.status = "accepted"

    def reverse(self, dice: random.Random) -> None:
        """Somebody takes an accepted match back."""
        match_id = self.choose(dice, "accepted")
        found = self.model.matches[match_id]
        self.met[f"reverse: {found.status}"] += 1
        allowed = MATCH_STATES.allows(found.status, "reverse")
        status, code = self.ask(f"/matches/{match_id}/reverse", {"reason": "wrong"})
        assert (status, None if allowed else code) == ((200, None) if allowed else (409, "invalid_state"))
        if allowed:
            found.status = "reversed"
            self.model.give_back(match_id)
            self.met["reverse: adjusted"] += found.is_adjusted

    def state(self, dice: random.Random) -> None:
        """Somebody matches by hand, with what an invoice or a payment has beside."""
        item, line, fits = self.pair(dice)
        minor = dice.choice([fits or 1, fits // 2 + 1, dice.randint(1, 120)])
        fee, over = dice.choice([0, 0, 3]), dice.choice([0, 0, 2])
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
        takes, before = {item: minor + fee, line: minor + over}, self.beaten()
        status, found = self.ask("/matches", body)
        for name, taken in takes.items():
            money = self.model.money[name]
            if money.closed:
                self.met[f"by hand: {money.closed}"] += 1
                assert (status, found) == (409, "invalid_state")
                return
            if taken > money.open:
                self.met[f"by hand: too much of {'an item' if money.is_item else 'a line'}"] += 1
                assert (status, found) == (422, "amount_exceeds_open")
                return
        assert status == 201, found
        self.model.matches[found["id"]] = Joined(takes=takes)
        self.model.accept(found["id"])
        self.met[f"by hand, {self.model.matches[found['id']].status}"] += 1
        self.met.update(f"by hand: {adjustment['type']}" for adjustment in adjustments)
        self.met["by hand: beaten"] += self.beaten() > before

    def void(self, dice: random.Random) -> None:
        """An invoice is void: only while nothing is matched. Seldom so: there is no way back."""
        before = self.beaten()
        item = self.pick(dice, is_item=True)
        money = self.model.money[item]
        allowed = money.status == "open"
        if allowed and dice.random() < 0.5:
            return
        self.met[f"void: {money.status}"] += 1
        status, _ = self.ask(f"/expected-transactions/{item}/void", {"reason": "gone"})
        assert status == (200 if allowed else 409)
        if allowed:
            money.closed = "void"
            self.model.supersede({item}, None)
            self.met["void: beaten"] += self.beaten() > before

    def ignore(self, dice: random.Random) -> None:
        """A payment is ignored, only while nothing is matched."""
        line, before = self.pick(dice, is_item=False), self.beaten()
        money = self.model.money[line]
        self.met[f"ignore: {money.status}"] += 1
        allowed = money.status == "unmatched"
        status, _ = self.ask(f"/incoming-transactions/{line}/ignore", {"reason": "noise"})
        assert status == (200 if allowed else 409)
        if allowed:
            money.closed = "ignored"
            self.model.supersede({line}, None)
            self.met["ignore: beaten"] += self.beaten() > before

    def restore(self, dice: random.Random) -> None:
        """A payment is not ignored any more."""
        line = self.pick(dice, is_item=False)
        money = self.model.money[line]
        self.met[f"restore: {money.status}"] += 1
        status, _ = self.ask(f"/incoming-transactions/{line}/restore")
        assert status == (200 if money.closed == "ignored" else 409)
        money.closed = None

    def arrive(self, dice: random.Random) -> None:
        """Something more is expected, or paid."""
        if len(self.model.money) < MONEY_MAX:
            self.store(is_item=dice.random() < 0.5)

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
