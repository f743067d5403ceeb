"""Random lives of two accounts over some days, and what their reconciliation statements must say of them."""

from __future__ import annotations

from collections import defaultdict
from datetime import date, timedelta
from random import Random
from typing import Any

from support.matching_world import World
from support.report_figures import INCOMING, MATCHES, everything

ACCOUNTS = ("GIRO", "RESERVE")
FIRST = date(2026, 3, 1)
DAYS = 6
OPENING = {"openingBalanceMinor": -1_234, "openingOn": "2026-03-02"}
"""Of the first account; the lines of its first day are before it."""
PARTS = ("allocated", "returned", "classified", "ignored", "inTransit", "open", "pending")
Row = dict[str, Any]


class AccountLife:
    """Random things that happen to lines of two accounts; whatever is refused has changed nothing."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.chance = Random(seed)  # noqa: S311 - a test's own
        self.lines: list[str] = []
        self.moved: set[str] = set()
        """Lines of transfers."""
        self.number = 0

    async def step(self) -> None:
        """Let something happen."""
        await self.chance.choice([self.pay, self.pay, self.pay, self.move, self.give_back, self.touch, self.reverse])()

    def _day(self) -> str:
        return str(FIRST + timedelta(days=self.chance.randrange(DAYS)))

    async def _line(self, minor: int, **given: Any) -> str:
        account = self.chance.choice(ACCOUNTS)
        fields = {"amount": None, "amountMinor": minor, "account": account, "bookingDate": self._day(), **given}
        line = await self.world.receive(**fields)
        self.lines.append(line)
        return line

    async def pay(self) -> None:
        """Receive up to two lines, and settle some of them with one item at once, whatever their days."""
        self.number += 1
        minors = [self.chance.randrange(0, 3) * 1_000 + self.number for _ in range(self.chance.choice([1, 2]))]
        status = self.chance.choice(["pending", *["unmatched"] * 6])
        lines = [await self._line(minor if self.chance.random() < 0.9 else 0, status=status) for minor in minors]
        if self.chance.random() < 0.7:
            item = await self.world.expect(amount=None, amountMinor=sum(minors) + 1)
            share = self.chance.choice([1, 1, 2])
            legs = [
                {"expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": max(minor // share, 1)}
                for line, minor in zip(lines, minors, strict=True)
            ]
            await self._ask(MATCHES, {"legs": legs, "reason": "by hand"})

    async def move(self) -> None:
        """Move money from one account to the other, booked on some day of each."""
        self.number += 1
        out = await self._line(5_000 + self.number, account=ACCOUNTS[0], direction="debit")
        back = await self._line(5_000 + self.number, account=ACCOUNTS[1])
        self.moved |= {out, back}
        leg = {
            "incomingTransactionId": back,
            "contraIncomingTransactionId": out,
            "amountMinor": 5_000 + self.number - self.chance.choice([0, 7]),
        }
        await self._ask(MATCHES, {"legs": [leg], "reason": "own accounts"})

    async def give_back(self) -> None:
        """Take some of a line back, on a day of its own."""
        found = [line for line in self.lines if line not in self.moved]
        if found:
            payment = await self.world.incoming(self.chance.choice(found))
            minor = self.chance.choice([payment["amountMinor"], payment["amountMinor"] // 3]) or 1
            code = {"bankTransactionCode": "PMNT-RCDT-RRTN", "direction": "debit", "account": payment["account"]}
            line = await self._line(minor, **code)
            body = {"incomingTransactionId": payment["id"], "amountMinor": minor}
            await self._ask(f"{INCOMING}/{line}/link-reversal", body)

    async def touch(self) -> None:
        """Close something without a match, or open it again."""
        if self.lines:
            verb, body = self.chance.choice(
                [("ignore", {"reason": "of no interest"}), ("classify", {"category": "fee"}), ("restore", None)]
            )
            await self._ask(f"{INCOMING}/{self.chance.choice(self.lines)}/{verb}", body)

    async def reverse(self) -> None:
        """Take a match back."""
        found = await self.world.matches(status="accepted")
        if found:
            await self._ask(f"{MATCHES}/{self.chance.choice(found)['id']}/reverse", {"reason": "by chance"})

    async def _ask(self, path: str, body: dict[str, Any] | None) -> None:
        answer = await self.world.tenant.post(path, body)
        assert answer.status_code in {200, 201, 409, 422}, answer.text


class Oracle:
    """What statements must say, of what the lists say of lines and matches."""

    def __init__(self, lines: list[Row], matches: list[Row]) -> None:
        self.lines = {line["id"]: line for line in lines}
        self.matches = [match for match in matches if match["status"] == "accepted"]
        of_item = {
            (leg["expectedTransactionId"], leg["incomingTransactionId"]): match["id"]
            for match in self.matches
            for leg in match["legs"]
        }
        self.links = [
            (line["id"], back["incomingTransactionId"], back["amountMinor"],
             of_item.get((back["expectedTransactionId"], back["incomingTransactionId"])))
            for line in lines for back in line["reversalOf"]
        ]  # fmt: skip

    @classmethod
    async def of(cls, world: World) -> Oracle:
        """Read the lists."""
        return cls(await everything(world.tenant, INCOMING), await everything(world.tenant, MATCHES))

    def shares(self, line: Row, day: str) -> dict[str, int]:
        """Return what of a line is of each part at the end of a day, in its amount."""
        minor = line["amountMinor"]
        for status in ("pending", "ignored", "classified"):
            # A line of nothing is ignored without a decision; what is decided counts from its day on.
            if line["status"] == status and line.get("effectiveOn", "") <= day:
                links = [link for link in self.links if line["id"] in link[:2]]
                gone = sum(amount for _, _, amount, _ in links)
                returned = sum(amount for *ends, amount, _ in links if self._booked(*ends) <= day)
                return {"returned": returned, "open": gone - returned, status: minor - gone}
        found: defaultdict[str, int] = defaultdict(int)
        for back, payment, amount, match_id in self.links:
            counts = self._booked(back, payment) <= day
            if counts and line["id"] in {back, payment}:
                found["returned"] += amount
            match = next((m for m in self.matches if m["id"] == match_id), None)
            if counts and payment == line["id"] and match is not None and match["effectiveOn"] <= day:
                found["allocated"] -= amount
        for match in self.matches:
            for leg in match["legs"]:
                ends = {leg["incomingTransactionId"]: leg["amountMinor"]}
                ends |= {leg["contraIncomingTransactionId"]: leg["settledMinor"]}
                if line["id"] not in ends:
                    continue
                others = [self.lines[end] for end in ends if end is not None and end != line["id"]]
                crosses = match["kind"] == "transfer" and any(other["bookingDate"] > day for other in others)
                if match["effectiveOn"] <= day:
                    found["allocated"] += ends[line["id"]]
                elif crosses:
                    found["inTransit"] += ends[line["id"]]
        found["open"] = minor - sum(found.values())
        return found

    def _booked(self, *line_ids: str) -> str:
        """Return the day on which all of these are booked."""
        return max(str(self.lines[line_id]["bookingDate"]) for line_id in line_ids)

    def statement(self, account: Row, day: str) -> dict[str, tuple[int, int]]:
        """Return count and sum of each part."""
        found = dict.fromkeys(PARTS, (0, 0))
        for line in self.lines.values():
            if line["account"] == account["identifier"] and (account["openingOn"] or "") <= line["bookingDate"] <= day:
                for part, minor in self.shares(line, day).items():
                    if minor:
                        count, total = found[part]
                        sign = 1 if line["direction"] == "credit" else -1
                        found[part] = (count + 1, total + sign * minor)
        return found
