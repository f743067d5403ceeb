"""Random lives of two accounts whose periods are locked and reopened, and what must stay as it was."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from support.account_lives import ACCOUNTS, DAYS, FIRST, AccountLife
from support.report_figures import INCOMING, MATCHES, everything

LOCKS = "/period-locks"
Row = dict[str, Any]
Tell = Callable[[str, str], Awaitable[Row]]
"""Tells the statement of an account's identifier at a cut-off."""


@dataclass
class Frozen:
    """What a statement said when its cut-off was locked."""

    account: str
    day: str
    said: Row


class PeriodLife(AccountLife):
    """As of accounts, with locks; it knows which bind, and looks at what each step has done."""

    tell: Tell

    def begin(self, tell: Tell) -> None:
        """Start without locks."""
        self.tell = tell
        self.binding: dict[str, tuple[str | None, str]] = {}
        """Account and last day of each lock that was not reopened."""
        self.frozen: list[Frozen] = []
        self.seen: set[str] = set()
        """Matches whose days were looked at, and lines."""

    def locked(self, account: str | None, day: str) -> bool:
        """Tell whether a day of an account is locked."""
        return any(name in {None, account} and day <= through for name, through in self.binding.values())

    async def step(self) -> None:
        """Let something happen, and see that it counts from no locked day."""
        await self.chance.choice(
            [self.pay, self.pay, self.pay, self.move, self.give_back, self.touch, self.reverse, self.lock, self.lock,
             self.reopen, self.quote]
        )()  # fmt: skip
        await self._look()

    async def _line(self, minor: int, **given: Any) -> str:
        line = await super()._line(minor, **given)
        if given.get("status") == "pending":
            # What is ignored before it is booked, the lists show as ignored, and statements as announced.
            self.lines.remove(line)
        return line

    async def lock(self) -> None:
        """Lock some days, whatever is open; remember what statements of them say."""
        account = self.chance.choice([None, *ACCOUNTS])
        body: Row = {"through": self._day(), "account": account, "reason": "closed", "override": True}
        names = ACCOUNTS if account is None else [account]
        open_now = [(await self.tell(name, body["through"]))["open"]["count"] for name in names]
        were_open = not any(self.locked(name, body["through"]) for name in names)
        answer = await self.world.tenant.post(LOCKS, {k: v for k, v in body.items() if v is not None})
        assert answer.status_code in {201, 409, 422}, answer.text
        if answer.status_code != 201:
            return
        if were_open:
            assert answer.json()["incomplete"]["openLines"] == sum(open_now)
        self.binding[answer.json()["id"]] = (account, body["through"])
        for name in names:
            day = str(FIRST + timedelta(days=self.chance.randrange(DAYS)))
            if self.locked(name, day) and not any((f.account, f.day) == (name, day) for f in self.frozen):
                self.frozen.append(Frozen(name, day, await self.tell(name, day)))

    async def reopen(self) -> None:
        """Reopen one of the locks."""
        if self.binding:
            lock = self.chance.choice(sorted(self.binding))
            answer = await self.world.tenant.post(f"{LOCKS}/{lock}/reopen", {"reason": "by chance"})
            assert answer.status_code == 200, answer.text
            del self.binding[lock]
            self.frozen = [f for f in self.frozen if self.locked(f.account, f.day)]

    async def quote(self) -> None:
        """Receive a line that proves what it pays, and let a run accept it."""
        self.number += 1
        name = f"INV-2026-{self.number:03}"
        await self.world.expect("100.00", reference=name)
        await self._line(10_000, remittance=name)
        await self.world.run()

    async def _look(self) -> None:
        lines = {line["id"]: line for line in await everything(self.world.tenant, INCOMING)}
        for line in lines.values():
            if line["id"] not in self.seen and line["status"] != "pending":
                self.seen.add(line["id"])
                assert line["late"] == self.locked(line["account"], line["bookingDate"]), line
        for match in await everything(self.world.tenant, MATCHES):
            day = match["effectiveOn"] if match["status"] == "accepted" else match["reversedOn"]
            if day is not None and (key := f"{match['id']} {match['status']}") not in self.seen:
                self.seen.add(key)
                ends = [
                    leg[end]
                    for leg in match["legs"]
                    for end in ("incomingTransactionId", "contraIncomingTransactionId")
                ]
                mine = [lines[end] for end in ends if end is not None]
                assert not any(self.locked(line["account"], day) for line in mine), match
                assert day >= max(line["bookingDate"] for line in mine)
