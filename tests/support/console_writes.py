"""Whatever the pages of the console write, each in steps, so that something may happen in between."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Final

from support.browser import ConsoleWorld
from support.review_queue import Queue, opens, says, shows
from support.transactions import expect, receive

if TYPE_CHECKING:
    from playwright.async_api import Page, Route

Steps = AsyncGenerator[str, None]
"""Three steps: until something can be sent, which tells where it goes; sending it; and that it is done, and once."""

AMOUNTS: Final = itertools.count(1_000)
LOCKED: Final = itertools.count(2001)


def amounts(count: int) -> list[str]:
    """Return amounts that nothing else has, the largest first."""
    return sorted((f"{next(AMOUNTS)}.00" for _ in range(count)), reverse=True)


def losing_the_first(keys: list[str]) -> Callable[[Route], Awaitable[None]]:
    """Return what notes the keys of requests, of which the first is done, though nobody hears of it."""

    async def lose(route: Route) -> None:
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) == 1:
            await route.fetch()
            await route.fulfill(status=500, json={"title": "It broke down", "status": 500, "code": "broken"})
        else:
            await route.continue_()

    return lose


async def told(queue: Queue, match: str, event: str) -> int:
    """Return how often something was recorded of a match."""
    record = (await queue.world.rest("GET", f"/matches/{match}/record")).json()
    return [one["type"] for one in record["audit"]].count(event)


async def open_pair(world: ConsoleWorld) -> tuple[str, str]:
    [amount] = amounts(1)
    return await receive(world.acme, amount, currency="CHF"), await expect(world.acme, amount, currency="CHF")


async def accepted(page: Page, queue: Queue) -> Steps:
    match, _ = await queue.propose(*amounts(2))
    await opens(page)
    await shows(page, match)
    yield "**/rest/matches/*/accept"
    await page.keyboard.press("a")
    yield ""
    await says(page, "Accepted.")
    assert await told(queue, match, "match.accepted") == 1


async def rejected(page: Page, queue: Queue) -> Steps:
    match, _ = await queue.propose(*amounts(2))
    await opens(page)
    await shows(page, match)
    yield "**/rest/matches/*/reject"
    await page.keyboard.press("r")
    await page.keyboard.type("not ours")
    await page.keyboard.press("Enter")
    yield ""
    await says(page, "Rejected;")
    assert await told(queue, match, "match.rejected") == 1


async def accepted_together(page: Page, queue: Queue) -> Steps:
    both = await queue.propose(*amounts(2))
    await opens(page)
    await page.check("#select-all")
    yield f"**/rest/matches/{both[0]}/accept"
    await page.click('[data-do="accept-selected"]')
    await page.keyboard.press("Enter")
    yield ""
    await says(page, "2 decided.")
    assert [await told(queue, match, "match.accepted") for match in both] == [1, 1]


async def split(page: Page, queue: Queue) -> Steps:
    [match] = await queue.propose(*amounts(1))
    await opens(page)
    await page.keyboard.press("s")
    dialog = page.locator("#split-dialog[open]")
    await dialog.locator("[data-amount]").first.fill("400.00")
    await dialog.get_by_label("Reason").fill("part of it")
    yield "**/rest/matches"
    await dialog.get_by_role("button", name="Match these amounts").click()
    yield ""
    await says(page, "Matched with your amounts.")
    assert await queue.status(match) == "superseded"


async def picked(page: Page, queue: Queue) -> Steps:
    [match] = await queue.propose(*amounts(1))
    names = {"counterpartyName": f"Müller {queue.count}", "dueDate": "2026-03-11"}
    await expect(queue.world.acme, "990.00", reference=f"OTHER-{queue.count}", **names)
    await opens(page)
    await page.locator(".choice", has_text=f"OTHER-{queue.count}").wait_for()
    yield "**/rest/matches"
    await page.keyboard.press("1")
    await page.keyboard.type("the invoice was corrected")
    await page.keyboard.press("Enter")
    yield ""
    await says(page, "Matched with what you picked.")
    assert await queue.status(match) == "superseded"


async def undone(page: Page, queue: Queue) -> Steps:
    match, _ = await queue.propose(*amounts(2))
    await opens(page)
    await page.keyboard.press("a")
    await says(page, "Accepted.")
    yield "**/rest/matches/*/reverse"
    await page.keyboard.press("u")
    yield ""
    await says(page, "Taken back")
    assert await told(queue, match, "match.reversed") == 1


async def reversed_on_its_page(page: Page, queue: Queue) -> Steps:
    [match] = await queue.propose(*amounts(1))
    await queue.world.rest("POST", f"/matches/{match}/accept", json={})
    await page.goto(f"/console/production/matches/{match}")
    await page.click("#reverse")
    await page.fill("#reverse-dialog [name=reason]", "paid twice")
    yield "**/rest/matches/*/reverse"
    await page.keyboard.press("Enter")
    yield ""
    await page.locator("td", has_text="paid twice").first.wait_for()
    assert await told(queue, match, "match.reversed") == 1


async def matched_by_hand(page: Page, queue: Queue) -> Steps:
    line, item = await open_pair(queue.world)
    await page.goto("/console/production/unmatched?currency=CHF")
    await page.check(f"#choose-{line}")
    await page.check(f"#choose-{item}")
    await page.fill("#match-reason", "they belong together")
    yield "**/rest/matches"
    await page.click("#match-send")
    yield ""
    await page.locator("#outcome-text", has_text="Matched.").wait_for()
    found = (await queue.world.rest("GET", f"/matches?incomingTransactionId={line}")).json()["data"]
    assert [one["status"] for one in found] == ["accepted"]


async def set_aside(page: Page, queue: Queue) -> Steps:
    line = await receive(queue.world.acme, amounts(1)[0], currency="CHF")
    await page.goto("/console/production/unmatched?currency=CHF")
    await page.locator(f"#incoming-{line} [data-set-aside]").click()
    await page.locator("#aside-form [name=reason]").fill("of the old bank")
    yield "**/rest/incoming-transactions/*/ignore"
    await page.locator("#aside-form [type=submit]").click()
    yield ""
    await page.locator(f"#incoming-{line}").wait_for(state="detached")
    stored = (await queue.world.rest("GET", f"/incoming-transactions/{line}")).json()
    assert (stored["status"], stored["ignoredReason"], stored["version"]) == ("ignored", "of the old bank", 2)


async def locked(page: Page, queue: Queue) -> Steps:
    day = f"{next(LOCKED)}-12-31"
    await page.goto("/console/production/month-end")
    await page.fill("#lock-through", day)
    await page.fill("#lock-reason", "closed long ago")
    yield "**/rest/period-locks"
    await page.locator("#lock [type=submit]").click()
    yield ""
    await page.locator("button[data-reopen]").first.wait_for()
    await page.wait_for_function("() => !document.querySelector('#lock-reason').value")
    locks = (await queue.world.rest("GET", "/period-locks?limit=200")).json()["data"]
    assert [lock["through"] for lock in locks].count(day) == 1


async def reopened(page: Page, queue: Queue) -> Steps:
    made = await queue.world.acme.post("/period-locks", {"through": f"{next(LOCKED)}-12-31", "reason": "closed"})
    assert made.status_code == 201, made.text
    await page.goto("/console/production/month-end")
    await page.locator(f'button[data-reopen="{made.json()["id"]}"]').click()
    await page.fill("#reopen-reason", "a statement is missing")
    yield "**/rest/period-locks/*/reopen"
    await page.keyboard.press("Enter")
    yield ""
    await page.locator(f'button[data-reopen="{made.json()["id"]}"]').wait_for(state="detached")
    lock = (await queue.world.rest("GET", f"/period-locks/{made.json()['id']}")).json()
    assert (lock["status"], lock["reopenReason"]) == ("reopened", "a statement is missing")


WRITES: Final[dict[str, Callable[[Page, Queue], Steps]]] = {
    made.__name__: made
    for made in (
        accepted,
        rejected,
        accepted_together,
        split,
        picked,
        undone,
        reversed_on_its_page,
        matched_by_hand,
        set_aside,
        locked,
        reopened,
    )
}
