"""Random lives of items and lines: billed, paid, matched, decided, given back, closed and opened again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from support.matching_world import World
from support.report_figures import EXPECTED, INCOMING, MATCHES

NAMES = ("Bolt GmbH", "Nord AG", "ärger & co", None)
ACCOUNTS = ("DE00OPERATING", "DE00RESERVE", None)
STEPS = 26


class Life:
    """Random things that happen to items and lines; whatever is refused has changed nothing."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.chance = Random(seed)  # noqa: S311 - a test's own
        self.items: list[str] = []
        self.lines: list[str] = []
        self.returns: list[str] = []
        self.number = 0

    async def lived(self, steps: int = STEPS) -> None:
        """Let it happen."""
        for _ in range(steps):
            await self.chance.choice(
                [self.bill, self.bill, self.pay, self.pay, self.give_back, self.touch, self.decide]
            )()

    def _fields(self) -> dict[str, Any]:
        chance = self.chance
        currency = chance.choice(["EUR", "EUR", "JPY", "KWD"])
        self.number += 1
        return {
            "amount": None,
            "amountMinor": chance.choice([10_000, 25_000, 999]) + self.number,
            "currency": currency,
            "direction": chance.choice(["credit", "credit", "debit"]),
            "counterpartyName": chance.choice(NAMES),
            "account": chance.choice(ACCOUNTS),
        }

    async def bill(self) -> None:
        """Expect something, mostly with a payment to come."""
        day = datetime.now(UTC).date() + timedelta(
            days=self.chance.choice([-200, -91, -90, -61, -31, -30, -1, 0, 1, 20])
        )
        when: dict[str, Any] = self.chance.choice(
            [{"dueDate": str(day)}, {"dueDate": None, "expectedTo": str(day)}, {"dueDate": None}]
        )
        given = self._fields()
        reference = f"INV-2026-{self.number:05d}"
        self.items.append(await self.world.expect(**given, **when, reference=reference))
        if self.chance.random() < 0.7:
            part = self.chance.choice([1, 1, 1, 2])
            self.lines.append(
                await self.world.receive(
                    **given | {"amountMinor": given["amountMinor"] // part},
                    remittance=f"Invoice {reference}",
                    bookingDate=str(day),
                )
            )

    async def pay(self) -> None:
        """Receive something that nobody expects, now and then not booked yet or of nothing."""
        given = self._fields()
        if self.chance.random() < 0.1:
            given["amountMinor"] = 0
        status = self.chance.choice(["pending", "unmatched", "unmatched"])
        self.lines.append(await self.world.receive(**given, status=status))

    async def give_back(self) -> None:
        """Take a part of a line back, or all of it."""
        if not self.lines:
            return
        payment = await self.world.incoming(self.chance.choice(self.lines))
        amount = self.chance.choice([payment["amountMinor"], max(payment["amountMinor"] // 3, 1)])
        line = await self.world.receive(
            **{
                **self._fields(),
                "amountMinor": amount,
                "currency": payment["currency"],
                "direction": "debit" if payment["direction"] == "credit" else "credit",
                "bankTransactionCode": "PMNT-RCDT-RRTN",
            }
        )
        body = {"incomingTransactionId": payment["id"], "amountMinor": amount}
        await self._ask(f"{INCOMING}/{line}/link-reversal", body)

    async def touch(self) -> None:
        """Close something without a match, or open it again."""
        verb, ids, path, body = self.chance.choice(
            [
                ("void", self.items, EXPECTED, {"reason": "cancelled"}),
                ("ignore", self.lines, INCOMING, {"reason": "of no interest"}),
                ("classify", self.lines, INCOMING, {"category": "fee"}),
                ("restore", self.lines, INCOMING, None),
            ]
        )
        if ids:
            await self._ask(f"{path}/{self.chance.choice(ids)}/{verb}", body)

    async def decide(self) -> None:
        """Run, and decide some of what is proposed or decided."""
        await self.world.run()
        for match in await self.world.matches():
            verb = self.chance.choice(["accept", "accept", "accept", "reject", "reverse", None])
            if verb is not None and match["status"] in {"proposed", "accepted"}:
                body = None if verb == "accept" else {"reason": "by chance"}
                await self._ask(f"{MATCHES}/{match['id']}/{verb}", body)

    async def _ask(self, path: str, body: dict[str, Any] | None) -> None:
        answer = await self.world.tenant.post(path, body)
        assert answer.status_code in {200, 409, 422}, answer.text
