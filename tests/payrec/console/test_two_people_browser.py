"""Two people decide the same match in browsers: the second is told who was first, in whatever way he decides."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

import pytest

from support.browser import ConsoleWorld, opened, sign_in
from support.console_writes import WRITES, amounts, open_pair, reversed_on_its_page, told
from support.review_queue import Queue, module_queue, opens, queue, says, shows

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

__all__ = ["module_queue", "queue"]

pytestmark = pytest.mark.anyio

FIRST: Final = "Somebody was first."


async def decides(queue: Queue, match: str, verb: str) -> None:
    """Let somebody else decide, who is no browser."""
    body = {"reason": "first"} if verb == "reverse" else {}
    answer = await queue.world.rest("POST", f"/matches/{match}/{verb}", json=body)
    assert answer.status_code == 200, answer.text


async def waiting(queue: Queue) -> str:
    """Return the match that is looked at: the one with the most money."""
    found = (await queue.world.rest("GET", "/matches?status=proposed&limit=200")).json()["data"]
    return str(max(found, key=lambda one: one["amountMinor"])["id"])


@pytest.mark.parametrize("name", ["accepted", "rejected", "split", "picked", "accepted_together"])
async def test_the_second_to_decide_in_the_review_is_told_who_was_first(page: Page, queue: Queue, name: str) -> None:
    steps = WRITES[name](page, queue)
    await anext(steps)
    # What the same person has accepted in another window counts as his own.
    verb = "reject" if name == "accepted_together" else "accept"
    await decides(queue, await waiting(queue), verb)
    await anext(steps)
    await page.locator("#outcome", has_text=FIRST.removesuffix(".")).wait_for()
    told_of = await page.inner_text("#outcome")
    assert re.search(f"{verb.title()}ed on .* by admin@acme", told_of, re.DOTALL)
    assert await page.locator("dialog[open]").count() == 0
    if name == "accepted_together":
        assert "1 decided. Somebody was first with 1: admin@acme." in told_of
    await steps.aclose()


async def test_the_second_to_take_back_is_told_who_was_first(page: Page, queue: Queue) -> None:
    match, _ = await queue.propose(*amounts(2))
    await opens(page)
    await page.keyboard.press("a")
    await says(page, "Accepted.")
    await decides(queue, match, "reverse")
    await page.keyboard.press("u")
    await page.locator("#outcome", has_text=FIRST).wait_for()
    assert re.search("Reversed on .* by admin@acme", await page.inner_text("#outcome"), re.DOTALL)


async def test_the_second_to_take_back_on_its_page_is_told_who_was_first(page: Page, queue: Queue) -> None:
    steps = reversed_on_its_page(page, queue)
    await anext(steps)
    await decides(queue, page.url.rpartition("/")[2], "reverse")
    await anext(steps)
    await page.locator("#reverse-error", has_text=FIRST).wait_for()
    assert re.search("Reversed on .* by admin@acme", await page.inner_text("#reverse-error"), re.DOTALL)
    assert await page.input_value("#reverse-dialog [name=reason]") == "paid twice"
    await steps.aclose()


async def test_the_second_to_match_by_hand_is_told_who_was_first(page: Page, queue: Queue) -> None:
    line, item = await open_pair(queue.world)
    await page.goto("/console/production/unmatched?currency=CHF")
    await page.check(f"#choose-{line}")
    await page.check(f"#choose-{item}")
    leg = {"expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": 50_000}
    made = await queue.world.rest("POST", "/matches", json={"legs": [leg], "reason": "first"})
    assert made.status_code == 201, made.text
    await page.fill("#match-reason", "second")
    await page.click("#match-send")
    await page.locator("#fault-match", has_text=FIRST).wait_for()
    assert re.search("Accepted on .* by admin@acme", await page.inner_text("#fault-match"), re.DOTALL)
    assert await page.input_value("#match-reason") == "second"


async def test_of_two_who_press_at_once_one_decides_and_the_other_is_told(
    page: Page, browser: Browser, queue: Queue, console_world: ConsoleWorld
) -> None:
    match, _ = await queue.propose(*amounts(2))
    async with opened(browser, console_world.base_url) as window:
        await sign_in(window, console_world, await console_world.person("approver"))
        other = await window.new_page()
        for one in (page, other):
            await opens(one)
            await shows(one, match)
        await asyncio.gather(page.keyboard.press("a"), other.keyboard.press("a"))
        for one in (page, other):
            await one.locator(".live", has_text=re.compile("Accepted")).first.wait_for()
        outcomes = [await one.inner_text("#outcome") for one in (page, other)]
        assert sorted(FIRST in outcome for outcome in outcomes) == [False, True]
    assert await told(queue, match, "match.accepted") == 1
