"""The review for who has no mouse, or hears the page: ways past the list, what is told, and what is selected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.console_writes import amounts
from support.review_queue import Queue, module_queue, opens, queue, says, shows

if TYPE_CHECKING:
    from playwright.async_api import Page

__all__ = ["module_queue", "queue"]

pytestmark = pytest.mark.anyio


async def test_a_link_leads_past_the_list_to_what_decides(page: Page, queue: Queue) -> None:
    """A list of 50 has a hundred things that can be focused, and more come when its end is near."""
    match, _ = await queue.propose(*amounts(2))
    await opens(page)
    await page.get_by_role("button", name="Run matching").focus()
    await page.keyboard.press("Tab")
    assert await page.locator(":focus").inner_text() == "Skip to the match"
    assert await page.locator(":focus").evaluate("(link) => link.getBoundingClientRect().top >= 0")
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    assert await page.locator(":focus").get_attribute("data-do") == "accept"
    await page.keyboard.press("Enter")
    await says(page, "Accepted.")
    assert await queue.status(match) == "accepted"


async def test_what_is_gone_to_is_told(page: Page, queue: Queue) -> None:
    _, second = await queue.propose(*amounts(2))
    await opens(page)
    await page.get_by_role("button", name="Next").focus()
    await page.keyboard.press("Enter")
    await shows(page, second)
    await page.locator("#heard", has_text=f"INV-{queue.count:05}-Q Exact").wait_for()
    assert await page.locator("#heard").get_attribute("role") == "status"
    # It is below the buttons already for who sees it.
    assert await page.inner_text("#live") == ""


async def test_all_that_are_listed_are_selected_or_the_box_says_not(page: Page, queue: Queue) -> None:
    first, second, third = await queue.propose(*amounts(3))
    await opens(page)
    await page.keyboard.press("x")
    assert not await page.is_checked("#select-all")
    await page.check("#select-all")
    await page.locator("#selection-total", has_text="3 selected").wait_for()
    await page.uncheck(f'.queue-row[data-id="{second}"] [data-select]')
    assert not await page.is_checked("#select-all")
    await page.check(f'.queue-row[data-id="{second}"] [data-select]')
    assert await page.is_checked("#select-all")
    # What is decided by itself is not decided once more with the others.
    await shows(page, first)
    await page.keyboard.press("a")
    await shows(page, second)
    await page.locator("#selection-total", has_text="2 selected").wait_for()
    assert await page.is_checked("#select-all")
    await page.get_by_role("button", name="Clear").focus()
    await page.keyboard.press("Enter")
    assert await page.locator("#selection").is_hidden()
    assert await page.locator(":focus").get_attribute("id") == "queue-scroll"
    assert [await queue.status(match) for match in (second, third)] == ["proposed", "proposed"]
