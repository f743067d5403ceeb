"""A month of somebody's work, and what the lists and reports said meanwhile."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from support.matching_world import World
from support.service import Tenant

OF_ITS_TIME: Final = re.compile(r',"nextCursor":"[^"]*"|&asOf=[^"&]*')
"""What of a page is good for its own instant only."""
EXPECTED, INCOMING, MATCHES = "/expected-transactions", "/incoming-transactions", "/matches"
LISTS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    (EXPECTED, {}),
    (EXPECTED, {"status": "open", "sort": "dueDate"}),
    (EXPECTED, {"status": "void"}),
    (EXPECTED, {"overdue": True, "sort": "-amountMinor"}),
    (EXPECTED, {"q": "INV-3"}),
    (INCOMING, {}),
    (INCOMING, {"status": "unmatched", "sort": "bookingDate"}),
    (INCOMING, {"status": "pending"}),
    (INCOMING, {"reasonCode": "no_candidate", "sort": "amountMinor"}),
    (INCOMING, {"counterparty": "bolt", "sort": "-bookingDate"}),
    (MATCHES, {}),
    (MATCHES, {"status": "proposed", "sort": "createdAt"}),
    (MATCHES, {"status": "superseded"}),
)
REPORTS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("/reports/summary", {}),
    ("/reports/ageing", {}),
    ("/reports/ageing", {"groupBy": "counterparty"}),
    ("/reports/open-balances", {"groupBy": "counterparty"}),
    ("/reports/exceptions", {}),
)


async def instant(world: World) -> str:
    """Return an instant after all changes that there are."""
    rows = await world.sql("SELECT clock_timestamp() AS at, (SELECT max(at) FROM change) AS last")
    assert rows[0]["last"] is None or rows[0]["last"] < rows[0]["at"]
    return str(rows[0]["at"].isoformat())


async def text_of(tenant: Tenant, path: str, **parameters: Any) -> str:
    answer = await tenant.get(path, params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.text


@dataclass(slots=True)
class Recorder:
    """What the lists of both tenants said, at which instant."""

    world: World
    said: list[tuple[str, Tenant, str, dict[str, Any], str]] = field(default_factory=list)
    instants: list[str] = field(default_factory=list)

    async def record(self) -> None:
        at = await instant(self.world)
        self.instants.append(at)
        for path, parameters in LISTS:
            given = {"limit": 200, **parameters}
            await self._record(at, self.world.tenant, path, given)
        for path, parameters in REPORTS:
            await self._record(at, self.world.tenant, path, parameters)
        await self._record(at, self.world.bystander, INCOMING, {"limit": 200})
        for path in (EXPECTED, INCOMING, MATCHES):
            page = (await self.world.tenant.get(path, params={"limit": 3})).json()
            for item in page["data"]:
                await self._record(at, self.world.tenant, f"{path}/{item['id']}", {})

    async def _record(self, at: str, tenant: Tenant, path: str, parameters: dict[str, Any]) -> None:
        self.said.append((at, tenant, path, parameters, await text_of(tenant, path, **parameters)))

    def statuses(self) -> set[str]:
        """Return the statuses that matches have had."""
        lists = [json.loads(said) for _, _, path, parameters, said in self.said if path == MATCHES and parameters]
        return {match["status"] for found in lists for match in found["data"]}

    async def compare(self) -> None:
        for at, tenant, path, parameters, said in self.said:
            found = await text_of(tenant, path, asOf=at, **parameters)
            assert OF_ITS_TIME.sub("", found) == OF_ITS_TIME.sub("", said), (path, parameters, at)


@dataclass(slots=True)
class Month:
    """Somebody at work for a month, as a seed says."""

    world: World
    chance: random.Random
    count: int = 0
    payments: list[str] = field(default_factory=list)

    async def begin(self, record: Callable[[], Awaitable[None]]) -> None:
        """Do what a seed may leave out."""
        for name in ("INV-A", "INV-B", "INV-C"):
            await self.world.expect("50.00", reference=name, counterpartyName="Bolt GmbH")
            line = {"remittance": name, "endToEndId": f"E-{name}", "counterpartyName": "Bolt GmbH"}
            self.payments.append(await self.world.receive("50.00", **line))
        await self.world.set(autoAccept=False)
        for done in (self.world.run, self.accept, self.reject, self.reverse, self.world.run, self.accept):
            await done()
            await record()
        for _ in self.payments:
            await self.give_back()

    async def step(self) -> None:
        """Do one thing; what is refused changes nothing."""
        done: Callable[[], Awaitable[None]] = self.chance.choices(
            (self.expect, self.receive, self.run, self.accept, self.reject, self.reverse, self.give_back, self.patch,
             self.void, self.ignore, self.restore, self.announce, self.repeat, self.teach, self.forget),
            (6, 6, 9, 5, 5, 3, 3, 4, 2, 3, 2, 3, 2, 4, 2),
        )[0]  # fmt: skip
        await done()

    async def expect(self) -> None:
        self.count += 1
        amount = self.chance.choice(("10.00", "20.00", "30.00"))
        name = self.chance.choice(("Bolt GmbH", "Nut AG"))
        due = self.chance.choice(("2026-03-10", "2026-03-11", None))
        await self.world.expect(amount, reference=f"INV-{self.count:04}", counterpartyName=name, dueDate=due)

    async def receive(self) -> None:
        amount = self.chance.choice(("10.00", "20.00", "30.00"))
        quoted = self.chance.randint(1, max(self.count, 1))
        fields = {"remittance": f"INV-{quoted:04}", "endToEndId": f"E-{self.world.received}"}
        self.payments.append(await self.world.receive(amount, counterpartyName="Bolt GmbH", **fields))

    async def thank(self) -> None:
        """Pay what the payer and the amount have to tell."""
        amount = self.chance.choice(("10.00", "20.00", "30.00"))
        name = self.chance.choice(("Bolt GmbH", "Nut AG"))
        self.payments.append(await self.world.receive(amount, counterpartyName=name, remittance="thank you"))

    async def run(self) -> None:
        automatic = self.chance.random() < 0.4
        await self.world.set(autoAccept=automatic)
        await self.world.run()

    async def accept(self) -> None:
        await self._decide("proposed", "accept", None)

    async def reject(self) -> None:
        await self._decide("proposed", "reject", {"reason": "another invoice"})

    async def reverse(self) -> None:
        await self._decide("accepted", "reverse", {"reason": "wrong"})

    async def give_back(self) -> None:
        if not self.payments:
            return
        payment = await self.world.incoming(self.chance.choice(self.payments))
        back = {"direction": "debit", "bookingDate": "2026-03-20", "bankTransactionCode": "PMNT-RCDT-RRTN"}
        line = await self.world.receive(payment["amount"], endToEndId=payment["endToEndId"], **back)
        answer = await self.world.tenant.post(
            f"{INCOMING}/{line}/link-reversal", {"incomingTransactionId": payment["id"]}
        )
        assert answer.status_code in {200, 409, 422}, answer.text

    async def patch(self) -> None:
        item = await self._one(EXPECTED)
        if item is not None:
            given = {"description": f"note {self.count}"} if self.chance.random() < 0.5 else {"dueDate": "2026-04-01"}
            await self.world.tenant.request("PATCH", f"{EXPECTED}/{item}", json=given)

    async def void(self) -> None:
        await self._ask(EXPECTED, "void", {"reason": "cancelled"})

    async def ignore(self) -> None:
        verb = self.chance.choice(("ignore", "classify"))
        await self._ask(INCOMING, verb, {"reason": "ours"} if verb == "ignore" else {"category": "fee"})

    async def restore(self) -> None:
        await self._ask(INCOMING, "restore", None, status=self.chance.choice(("ignored", "classified")))

    async def announce(self) -> None:
        """Announce a line, and book it at another time under the same id."""
        self.count += 1
        line = {"direction": "credit", "currency": "EUR", "bookingDate": "2026-03-12", "amount": "10.00"}
        line |= {"externalId": f"line-{self.chance.randint(1, 6)}", "remittance": f"INV-{self.count:04}"}
        status = self.chance.choice(("pending", "booked"))
        await self.world.upload([{**line, "status": status}])

    async def repeat(self) -> None:
        """State the same content under another id: one of them is a duplicate."""
        line = {"direction": "credit", "currency": "EUR", "bookingDate": "2026-03-13", "amount": "10.00"}
        self.count += 1
        await self.world.upload([{**line, "remittance": "INV-0001 again", "externalId": f"again-{self.count}"}])

    async def teach(self) -> None:
        """Match by hand what has different names, from which the next run learns."""
        items = (await self.world.tenant.get(EXPECTED, params={"status": "open", "limit": 200})).json()["data"]
        lines = (await self.world.tenant.get(INCOMING, params={"status": "unmatched", "limit": 200})).json()["data"]
        if not items or not lines:
            return
        item, line = self.chance.choice(items), self.chance.choice(lines)
        leg = {
            "expectedTransactionId": item["id"],
            "incomingTransactionId": line["id"],
            "amountMinor": min(item["openAmountMinor"], line["openAmountMinor"]),
        }
        answer = await self.world.tenant.post(MATCHES, {"legs": [leg], "reason": "told on the phone"})
        assert answer.status_code in {201, 409, 422}, answer.text

    async def forget(self) -> None:
        """Forget a name that was learned."""
        found = (await self.world.tenant.get("/matching/aliases")).json()["data"]
        if found:
            answer = await self.world.tenant.request("DELETE", f"/matching/aliases/{self.chance.choice(found)['id']}")
            assert answer.status_code == 204, answer.text

    async def _one(self, path: str, **parameters: Any) -> str | None:
        found = (await self.world.tenant.get(path, params={"limit": 200, **parameters})).json()["data"]
        return str(self.chance.choice(found)["id"]) if found else None

    async def _decide(self, status: str, verb: str, body: Any) -> None:
        await self._ask(MATCHES, verb, body, status=status)

    async def _ask(self, path: str, verb: str, body: Any, **parameters: Any) -> None:
        found = await self._one(path, **parameters)
        if found is not None:
            answer = await self.world.tenant.post(f"{path}/{found}/{verb}", body)
            assert answer.status_code in {200, 409, 422}, answer.text
