"""What waits for a person in acme's production, and how a browser looks at it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest

from support.browser import ConsoleWorld

if TYPE_CHECKING:
    from playwright.async_api import Page

__all__ = ["module_queue", "queue"]

REVIEW = "/console/production/review"


class Queue:
    """What waits in production of acme, the most money first."""

    def __init__(self, world: ConsoleWorld) -> None:
        self.world = world
        self.count = 0
        self.own: list[str] = []

    async def propose(self, *amounts: str, **line: Any) -> list[str]:
        """Store pairs of these amounts, run matching, and return the proposals in the order given."""
        lines = []
        for amount in amounts:
            self.count += 1
            reference = f"INV-{self.count:05}-Q"
            names = {
                "direction": "credit",
                "currency": "EUR",
                "amount": amount,
                "counterpartyName": f"Müller {self.count}",
            }
            await self._post("/expected-transactions", {**names, "dueDate": "2026-03-10", "reference": reference})
            text = {"remittance": f"Rechnung {reference.replace('-', ' ')} danke", "bankReference": f"q-{self.count}"}
            lines.append(
                await self._post("/incoming-transactions", {**names, "bookingDate": "2026-03-12", **text, **line})
            )
        run = await self._post("/matches/match", {"wait": 60}, 200)
        assert run["status"] == "succeeded", run
        found = [str((await self.match_of(one["id"]))["id"]) for one in lines]
        self.own += found
        # What an earlier test has taken back is proposed again.
        await self._reject("proposed")
        return found

    async def match_of(self, line: str) -> dict[str, Any]:
        answer = await self.world.rest("GET", f"/matches?incomingTransactionId={line}")
        found: dict[str, Any] = answer.json()["data"][0]
        return found

    async def status(self, match: str) -> str:
        return str((await self.world.rest("GET", f"/matches/{match}")).json()["status"])

    async def clear(self) -> None:
        """Reject whatever waits, so that the next test has a queue of its own."""
        self.own = []
        for status in ("proposed", "pending_approval"):
            await self._reject(status)

    async def _reject(self, status: str) -> None:
        answer = await self.world.rest("GET", f"/matches?status={status}&limit=200")
        if ids := [row["id"] for row in answer.json()["data"] if row["id"] not in self.own]:
            await self._post("/matches/reject", {"ids": ids}, 200)

    async def _post(self, path: str, body: dict[str, Any], status: int = 201) -> dict[str, Any]:
        answer = await self.world.rest("POST", path, json=body)
        assert answer.status_code == status, answer.text
        found: dict[str, Any] = answer.json()
        return found


@pytest.fixture(scope="module")
def module_queue(console_world: ConsoleWorld) -> Queue:
    return Queue(console_world)


@pytest.fixture
async def queue(module_queue: Queue) -> AsyncIterator[Queue]:
    yield module_queue
    await module_queue.clear()


async def shown(page: Page) -> str:
    """Return which match is looked at."""
    return str(await page.locator("#item article").get_attribute("data-id"))


async def opens(page: Page, path: str = REVIEW) -> None:
    """Open the review, and wait until it listens to keys."""
    await page.goto(path)
    await page.locator("#review[data-is-ready]").wait_for()


async def shows(page: Page, match: str) -> None:
    await page.locator(f'#item article[data-id="{match}"]').wait_for()
    await page.locator("#review[data-is-ready]").wait_for()


async def says(page: Page, text: str) -> None:
    await page.locator(".live, #outcome", has_text=re.compile(re.escape(text))).first.wait_for()
