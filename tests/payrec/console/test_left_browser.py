"""Who leaves the review in the middle of a decision is asked, and told by the next page what became of it."""

from __future__ import annotations

from asyncio import Event
from typing import TYPE_CHECKING

import pytest

from support.browser import ConsoleWorld, held, sign_in
from support.console_writes import amounts
from support.review_queue import Queue, module_queue, opens, queue, says

if TYPE_CHECKING:
    from playwright.async_api import Dialog, Page, Route

__all__ = ["module_queue", "queue"]

pytestmark = pytest.mark.anyio


class Unanswered:
    """Holds what decides a match until the page is left; whether it is done is for the test to say."""

    def __init__(self, page: Page, *, is_done: bool) -> None:
        self.asked: list[str] = []
        self._page = page
        self._is_done = is_done
        self._came = Event()
        page.on("dialog", self._leave)

    async def hold(self, match: str, verb: str = "accept") -> None:
        """Hold what decides this match."""
        await held(self._page, f"**/rest/matches/{match}/{verb}", self._handle)

    async def left(self) -> None:
        """Load the page anew while it waits for the answer."""
        await self._came.wait()
        await self._page.reload()
        await self._page.locator("#review[data-is-ready]").wait_for()

    async def _handle(self, route: Route) -> None:
        if self._is_done:
            await route.fetch()
        self._came.set()

    async def _leave(self, dialog: Dialog) -> None:
        self.asked.append(dialog.type)
        await dialog.accept()


async def test_a_decision_that_was_left_in_the_middle_is_told_and_can_be_taken_back(page: Page, queue: Queue) -> None:
    match, _ = await queue.propose(*amounts(2))
    await opens(page)
    unanswered = Unanswered(page, is_done=True)
    await unanswered.hold(match)
    await page.keyboard.press("a")
    await unanswered.left()
    assert unanswered.asked == ["beforeunload"]
    await page.locator("#outcome", has_text="left in the middle of a decision. 1 decided.").wait_for()
    await page.locator("#review:not([aria-busy])").wait_for()
    await page.keyboard.press("u")
    await says(page, "Taken back")
    assert await queue.status(match) == "reversed"
    # It is told once, and nobody is asked where nothing is under way.
    await page.reload()
    await page.locator("#review[data-is-ready]").wait_for()
    assert await page.locator("#outcome").inner_text() == ""
    assert unanswered.asked == ["beforeunload"]


async def test_of_several_that_were_left_in_the_middle_it_is_told_how_many_are_decided(
    page: Page, queue: Queue
) -> None:
    matches = await queue.propose(*amounts(4))
    await opens(page)
    await page.check("#select-all")
    unanswered = Unanswered(page, is_done=False)
    await unanswered.hold(matches[2])
    await page.get_by_role("button", name="Accept selected").click()
    await page.keyboard.press("Enter")
    await unanswered.left()
    told = page.locator("#outcome", has_text="in the middle of 4 decisions. 2 decided. 2 are not decided.")
    await told.wait_for()
    assert [await queue.status(match) for match in matches] == ["accepted", "accepted", "proposed", "proposed"]
    await page.locator("#review:not([aria-busy])").wait_for()
    assert await page.is_enabled('[data-do="undo"]')


async def test_what_was_begun_is_told_to_nobody_else(page: Page, queue: Queue, console_world: ConsoleWorld) -> None:
    match, _ = await queue.propose(*amounts(2))
    await opens(page)
    unanswered = Unanswered(page, is_done=True)
    await unanswered.hold(match)
    await page.keyboard.press("a")
    await sign_in(page.context, console_world, await console_world.person("approver"))
    await unanswered.left()
    await page.locator("#review:not([aria-busy])").wait_for()
    assert "left in the middle" not in await page.inner_text("#outcome")
    assert await page.is_disabled('[data-do="undo"]')


async def test_a_page_that_waits_for_somebody_who_has_left_asks_the_next_one_nothing(
    page: Page, queue: Queue, console_world: ConsoleWorld
) -> None:
    match, _ = await queue.propose(*amounts(2))
    await opens(page)
    unanswered = Unanswered(page, is_done=False)
    await page.context.clear_cookies()
    await page.keyboard.press("a")
    await page.get_by_role("dialog", name="Your session is over").wait_for()
    await sign_in(page.context, console_world, console_world.globex)
    other = await page.context.new_page()
    await other.goto("/console/signed-in")
    await page.get_by_text("Globex", exact=True).wait_for()
    assert unanswered.asked == []
    assert await queue.status(match) == "proposed"
