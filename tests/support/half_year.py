"""Half a year of three accounts: a bank's, by its statements; a provider's, by its reports; and one by single lines.

Whatever happens is told as facts beside it, with the days from which decisions must count.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import date, timedelta
from random import Random
from typing import Any

import httpx2

from support.account_facts import RETURNED, Ended, Fact, Figure, Known, Line, Link, Lock, Matched, Whole
from support.matching_world import World
from support.report_figures import INCOMING, MATCHES, everything
from support.statements import FIRST_DAY, IBAN, camt, message
from support.wire import code

Row = dict[str, Any]
FIRST = date(2025, 9, 1)
DAYS = 181
STATEMENTS = 40
PROVIDER, RESERVE = "acct_1", "RESERVE"
ACCOUNTS = (IBAN, PROVIDER, RESERVE)
LOCKS = "/period-locks"
OPENING = 100_000
"""Of the bank's account, on its first day."""
SHARES = (1, 1, 2, 3)
"""Into how many parts something is cut, of which one is taken."""


def on(day: int) -> str:
    """Return a day of the half-year."""
    return str(FIRST + timedelta(days=day))


class HalfYear:
    """Random things that happen; ``facts`` is what there is to know of them."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.chance = Random(seed)  # noqa: S311 - a test's own
        self.facts: list[Fact] = []
        self.known = Known()
        self.number = 0
        self.coming = self._statements()
        """What the bank has yet to send, of each day."""

    def _statements(self) -> dict[int, tuple[int, int, str]]:
        """Return a statement of each of some days with its balances, as each goes on from the one before."""
        found, balance = {}, OPENING
        for day in sorted(self.chance.sample(range(DAYS), STATEMENTS)):
            # Now and then a payment comes back, or something is paid.
            moved = self.chance.choice([1, 1, 1, -1]) * (self.chance.randrange(1, 9) * 1_000 + day)
            back = RETURNED if moved < 0 and self.chance.random() < 0.7 else ""
            offset = (FIRST + timedelta(days=day) - FIRST_DAY).days
            found[day] = balance, balance + moved, camt(balance, balance + moved, offset, code=back)
            balance += moved
        return found

    def learn(self, fact: Fact) -> None:
        """Keep a fact."""
        self.facts.append(fact)
        self.known.learn(fact)

    async def begin(self) -> None:
        """Let the third account have an opening balance of the second week, others lines, and rules and runs decide."""
        body = {"identifier": RESERVE, "currency": "EUR", "openingBalanceMinor": -777, "openingOn": on(9)}
        for tenant in (self.world.bystander, self.world.tenant):
            assert (await tenant.post("/accounts", body)).status_code == 201
        self.learn(Figure("opening", RESERVE, on(9), -777))
        rule = {"name": "fees", "priority": 1, "scope": {"textContains": ["account fee"]}}
        await self.world.set(autoAccept=True, rules=[{**rule, "classify": {"category": "fee"}}])
        await self.send(how_many=STATEMENTS // 3)
        await self.report()

    async def step(self) -> None:
        """Let something happen."""
        often = [self.match, self.touch, self.move]
        seldom = [self.send, self.receive, self.report, self.book, self.give_back, self.reverse, self.lock, self.reopen]
        rare = [self.say, self.run]
        steps: list[Callable[[], Awaitable[Any]]] = [*often * 4, *seldom * 2, *rare]
        await self.chance.choice(steps)()

    async def send(self, *, how_many: int = 3) -> None:
        """Let the bank send some of its statements, in any order."""
        sent = {}
        for day in self.chance.sample(sorted(self.coming), min(how_many, len(self.coming))):
            opening, closing, sent[day] = self.coming.pop(day)
            self.learn(Figure("begins", IBAN, on(day), opening))
            self.learn(Figure("closing", IBAN, on(day), closing))
        for line in await self._upload(message(*sent.values())) if sent else ():
            self._stored(line)

    async def report(self) -> None:
        """Let the provider send a report: payments less its fees, a fee alone, and what it pays out."""
        names = (
            "balance_transaction_id created available_on currency gross fee net reporting_category automatic_payout_id"
        )
        rows = [",".join(names.split()) + "\n"]
        for _ in range(self.chance.randrange(1, 4)):
            self.number += 1
            gross = self.chance.randrange(1, 9) * 1_000 + self.number
            kind, gross, fee = self.chance.choice(
                [("charge", gross, gross // 37), ("charge", gross, gross + 9), ("fee", 0, 150), ("payout", -gross, 0)]
            )
            at = f"{on(self.chance.randrange(DAYS))} 10:00:00"
            money = ",".join(f"{minor / 100:.2f}" for minor in (gross, fee, gross - fee))
            rows.append(f"txn_{self.number},{at},{at},eur,{money},{kind},po_{self.number}\n")
        for line in await self._upload("".join(rows).encode(), account=PROVIDER):
            self._stored(line)

    async def receive(self, **given: Any) -> str:
        """Receive a line of the third account: booked or announced, or one that takes something back."""
        self.number += 1
        fields = {
            "amountMinor": self.chance.choice([0, *[self.chance.randrange(1, 9) * 1_000 + self.number] * 9]),
            "bookingDate": on(self.chance.randrange(DAYS)),
            "externalId": f"R{self.number}",
            **self.chance.choice(
                [{}, {}, {}, {"status": "pending"}, {"direction": "debit", "remittance": "account fee"},
                 {"direction": "debit", "bankTransactionCode": RETURNED}]
            ),
            **given,
        }  # fmt: skip
        if fields.get("status") == "pending":
            # Of nothing it would be ignored at once, and nobody could tell that it was only announced.
            fields["amountMinor"] = fields["amountMinor"] or self.number
        line_id = await self.world.receive(amount=None, account=RESERVE, **fields)
        self._stored(await self.world.incoming(line_id))
        return line_id

    async def book(self) -> None:
        """Book something that was announced, on a day of its own."""
        if (line := self._one(lambda line: line.pending)) is not None:
            found = await self.world.incoming(line.id)
            record = {name: found[name] for name in ("externalId", "amountMinor", "currency", "direction", "account")}
            await self.world.upload([{**record, "bookingDate": on(self.chance.randrange(DAYS))}])
            self._stored(await self.world.incoming(line.id))

    async def match(self) -> None:
        """Settle an item with parts of one or two lines, now and then with more than was asked for."""
        lines = [line for line in (self._open(), self._open()) if line is not None]
        if len(lines) > 1 and (lines[0].id == lines[1].id or lines[0].credit != lines[1].credit):
            lines.pop()
        if not lines:
            return
        minors = {line.id: max(self._left(line) // self.chance.choice(SHARES), 1) for line in lines}
        over = min(7, minors[lines[0].id] - 1) if self.chance.random() < 0.2 else 0
        whole = sum(minors.values()) - over
        item = await self.world.expect(
            amount=None, amountMinor=whole, direction="credit" if lines[0].credit else "debit", account=None
        )
        legs = [
            {"expectedTransactionId": item, "incomingTransactionId": line.id, "amountMinor": minors[line.id]}
            for line in lines
        ]
        body: Row = {"legs": legs}
        if over:
            legs[0]["amountMinor"] -= over
            body["adjustments"] = [
                {"type": "over_payment", "incomingTransactionId": lines[0].id, "amountMinor": over, "currency": "EUR"}
            ]
        await self._state(body, minors)

    async def move(self) -> None:
        """Move money between two accounts, booked on some day of each."""
        line = self._open()
        if line is not None and line.account != RESERVE:
            minor = self._left(line)
            other = await self.receive(
                amountMinor=minor, direction="debit" if line.credit else "credit", status="unmatched",
                bankTransactionCode=None, remittance=None,
            )  # fmt: skip
            ids = [line.id, other] if line.credit else [other, line.id]
            taken = max(minor - self.chance.choice([0, 7]), 1)
            leg = dict(zip(("incomingTransactionId", "contraIncomingTransactionId"), ids, strict=True))
            await self._state({"legs": [{**leg, "amountMinor": taken}]}, dict.fromkeys(ids, taken))

    async def _state(self, body: Row, minors: dict[str, int]) -> None:
        """State a match, and see that it has what was asked for and counts from the day from which it must."""
        given = self._given(minors)
        answer = await self.world.tenant.post(MATCHES, {**body, "reason": "by hand", **given})
        if not self._refused(answer, given, minors, 201):
            self._matched(answer.json(), given)
            assert self.known.matches[answer.json()["id"]].takes == minors

    async def give_back(self) -> None:
        """Link a return with what it takes back: what a match has of a payment, or what is open of it."""
        back = self._one(lambda line: line.returns and self._left(line) > 0)
        payment = self._one(lambda line: line.credit and not line.pending and line.id not in self._bound())
        if back is None or payment is None:
            return
        places: list[tuple[str | None, str | None, int]] = [
            (match.id, item, self.known.left_of(match, payment.id, item))
            for match in self.known.matches.values()
            for line_id, item in match.legs
            if line_id == payment.id
        ]
        places = [place for place in places if place[2]]
        if self._paid_over(payment) and len({match_id for match_id, *_ in places}) != 1:
            return  # Nothing says of which match that comes back.
        match_id, item, left = self.chance.choice(places or [(None, None, self._left(payment))])
        minor = min(self._left(back), left) // self.chance.choice(SHARES)
        if minor:
            body = {"incomingTransactionId": payment.id, "amountMinor": minor}
            body |= {"expectedTransactionId": item} if item else {}
            answer = await self.world.tenant.post(f"{INCOMING}/{back.id}/link-reversal", body)
            assert answer.status_code == 200, answer.text
            self.learn(Link(back.id, payment.id, minor, match_id, item))

    async def touch(self) -> None:
        """Close a line without a match, or open it again."""
        line = self._one(lambda line: line.amount > 0 and line.id not in self._taken())
        if line is None:
            return
        if line.id in self.known.whole:
            answer = await self.world.tenant.post(f"{INCOMING}/{line.id}/restore", None)
            assert answer.status_code == 200, answer.text
            self.learn(Whole(line.id))
            return
        verb, body, status = self.chance.choice(
            [("ignore", {"reason": "of no interest"}, "ignored"), ("classify", {"category": "fee"}, "classified")]
        )
        given = self._given([line.id])
        answer = await self.world.tenant.post(f"{INCOMING}/{line.id}/{verb}", {**body, **given})
        if line.pending and verb == "classify":
            assert code(answer) == "invalid_state"
        elif not self._refused(answer, given, [line.id], 200):
            self._closed(answer.json(), status, given)
            again = await self.world.tenant.post(f"{INCOMING}/{line.id}/{verb}", body)
            assert (again.status_code, code(again)) == (409, "invalid_state")

    async def reverse(self) -> None:
        """Take a match back."""
        if self.known.matches:
            match = self.known.matches[self.chance.choice(sorted(self.known.matches))]
            answer = await self.world.tenant.post(f"{MATCHES}/{match.id}/reverse", {"reason": "by chance"})
            assert answer.status_code == 200, answer.text
            first = self.known.first_open(self.known.lines[line].account for line in match.takes)
            assert answer.json()["reversedOn"] == max(match.day, first)
            self.learn(Ended(match.id))

    async def lock(self) -> None:
        """Lock some days, whatever is open."""
        body: Row = {"through": on(self.chance.randrange(DAYS)), "reason": "closed", "override": True}
        account = self.chance.choice([None, *sorted({line.account for line in self.known.lines.values()})])
        answer = await self.world.tenant.post(LOCKS, body | ({"account": account} if account else {}))
        binding = [lock for lock in self.known.locks.values() if lock.account in {None, account}]
        if any(lock.through >= body["through"] for lock in binding):
            assert (answer.status_code, code(answer)) == (409, "period_locked")
        else:
            assert answer.status_code == 201, answer.text
            self.learn(Lock(answer.json()["id"], account, body["through"]))

    async def reopen(self, *, every: bool = False) -> None:
        """Reopen a lock, or every one."""
        locks = sorted(self.known.locks)
        for lock_id in locks if every else self.chance.sample(locks, min(1, len(locks))):
            answer = await self.world.tenant.post(f"{LOCKS}/{lock_id}/reopen", {"reason": "by chance"})
            assert answer.status_code == 200, answer.text
            self.learn(Ended(lock_id))

    async def say(self) -> None:
        """Say what the books have, which nobody does of a locked day."""
        account, day, minor = self.chance.choice(ACCOUNTS), on(self.chance.randrange(DAYS)), self.chance.randrange(9)
        found = (await self.world.tenant.get("/accounts", params={"identifier": account})).json()["data"]
        if found:
            path, body = f"/accounts/{found[0]['id']}/book-balances", {"on": day, "balanceMinor": minor}
            answer = await self.world.tenant.request("PUT", path, json=body)
            if self.known.is_locked(account, day):
                assert (answer.status_code, code(answer)) == (409, "period_locked")
            else:
                assert answer.status_code == 200, answer.text
                self.learn(Figure("book", account, day, minor))

    async def run(self) -> None:
        """Receive a payment that proves what it pays, and let a run decide: also by rules, and about returns."""
        self.number += 1
        name = f"INV-2026-{self.number:03}"
        day = on(self.chance.randrange(DAYS))
        await self.world.expect("100.00", reference=name, dueDate=day)
        await self.receive(
            amountMinor=10_000, remittance=name, bookingDate=day, status="unmatched", direction="credit",
            bankTransactionCode=None,
        )  # fmt: skip
        await self.world.run()
        lines = await everything(self.world.tenant, INCOMING)
        for row in await everything(self.world.tenant, MATCHES, status="accepted"):
            if row["id"] not in self.known.matches:
                self._matched(row, {})
        for row in lines:
            if row["status"] == "classified" and row["id"] not in self.known.whole:
                self._closed(row, "classified", {})
            self._returned(row)

    def _returned(self, row: Row) -> None:
        """Learn which payments a run has linked a return with."""
        linked = [(k.payment, k.item, k.minor) for k in self.known.links if k.back == row["id"]]
        for link in row["reversalOf"]:
            found = (link["incomingTransactionId"], link["expectedTransactionId"], link["amountMinor"])
            if found in linked:
                linked.remove(found)
                continue
            matches = [m.id for m in self.known.matches.values() if (found[0], found[1]) in m.legs]
            self.learn(Link(row["id"], found[0], found[2], matches[0] if matches else None, found[1]))

    def _stored(self, row: Row) -> None:
        """Learn a line, which is late if its day is locked."""
        line = Line.of(row, is_new=row["id"] not in self.known.lines)
        late = not line.pending and self.known.is_locked(line.account, line.day)
        assert row["late"] == late, row
        self.learn(line)

    def _matched(self, row: Row, given: Row) -> None:
        """Learn a match, which counts from the day that was given or must be."""
        match = Matched.of(row)
        assert match.day == given.get("effectiveOn", self.known.effective_on(match.takes)), row
        self.learn(match)

    def _closed(self, row: Row, status: str, given: Row) -> None:
        """Learn that a line is ignored or classified."""
        assert row["effectiveOn"] == given.get("effectiveOn", self.known.effective_on([row["id"]])), row
        self.learn(Whole(row["id"], status, row["effectiveOn"]))

    def _given(self, line_ids: Any) -> Row:
        """Now and then say from which day a decision counts, rightly or not."""
        last = date.fromisoformat(max(self.known.lines[line_id].day for line_id in line_ids))
        days = self.chance.choice([None, None, None, -1, 0, 3, 20, 60])
        return {} if days is None else {"effectiveOn": str(last + timedelta(days=days))}

    def _refused(self, answer: httpx2.Response, given: Row, line_ids: Any, status: int) -> bool:
        """See that a decision is refused if the given day is locked or before its lines; return whether it is."""
        day, lines = given.get("effectiveOn", "9999"), [self.known.lines[line_id] for line_id in line_ids]
        wrong = None
        if day < self.known.first_open(line.account for line in lines):
            wrong = 409
        elif day < max(line.day for line in lines):
            wrong = 422
        assert answer.status_code == (wrong or status), (answer.text, given)
        return wrong is not None

    def some_days(self, how_many: int) -> list[str]:
        """Return days at which it matters what counts: of what is known, those of decisions and the ones before."""
        known = self.known
        days = {match.day for match in known.matches.values()} | {whole.day for whole in known.whole.values()}
        days |= {known.lines[line].day for line in self._taken()} | {lock.through for lock in known.locks.values()}
        days |= {str(date.fromisoformat(day) - timedelta(days=1)) for day in days} | {on(self.chance.randrange(DAYS))}
        return self.chance.sample(sorted(days), min(how_many, len(days)))

    def _one(self, meets: Callable[[Line], bool]) -> Line | None:
        found = sorted((line for line in self.known.lines.values() if meets(line)), key=lambda line: line.id)
        return self.chance.choice(found) if found else None

    def _left(self, line: Line) -> int:
        return self.known.shares(line).get("open", 0)

    def _open(self) -> Line | None:
        return self._one(lambda line: not line.returns and self._left(line) > 0)

    def _taken(self) -> set[str]:
        """Return lines of which something is matched or linked."""
        linked = {end for link in self.known.links for end in (link.back, link.payment)}
        return linked.union(*(match.takes for match in self.known.matches.values()))

    def _paid_over(self, line: Line) -> bool:
        """Tell whether matches have more of a line than it settles."""
        matches = [match for match in self.known.matches.values() if line.id in match.takes]
        settled = sum(n for match in matches for (line_id, _), n in match.legs.items() if line_id == line.id)
        return sum(match.takes[line.id] for match in matches) > settled

    def _bound(self) -> set[str]:
        """Return lines that are matched with other lines, ignored or classified: nothing is taken of them."""
        return {*self.known.whole}.union(*(match.across for match in self.known.matches.values()))

    async def _upload(self, content: bytes, **options: str) -> list[Row]:
        """Upload a file in both environments, and return its lines."""
        headers = {"Content-Type": "application/octet-stream"}
        for tenant in (self.world.bystander, self.world.tenant):
            answer = await tenant.post(f"{INCOMING}/upload", headers=headers, content=content, params=options)
            assert answer.status_code == 201, answer.text
        return await everything(self.world.tenant, INCOMING, importId=answer.json()["id"])
