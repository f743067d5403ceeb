"""Who comes back to a page, or loads it anew, finds in its fields what the page is of, and nothing chosen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from support.browser import ConsoleWorld, opened, sign_in
from support.console_writes import amounts
from support.review_queue import Queue, module_queue, opens, queue

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

__all__ = ["module_queue", "queue"]

pytestmark = pytest.mark.anyio

BOXES = "(boxes) => boxes.map((box) => box.checked)"


async def test_nothing_is_shown_as_selected_that_is_not(page: Page, queue: Queue) -> None:
    await queue.propose(*amounts(3))
    await opens(page)
    await page.check("#select-all")
    assert await page.eval_on_selector_all("[data-select]", BOXES) == [True] * 3
    await page.goto("/console/production/overview")
    await page.go_back()
    await page.locator("#review[data-is-ready]").wait_for()
    assert await page.locator("#selection").is_hidden()
    assert await page.eval_on_selector_all("[data-select], #select-all", BOXES) == [False] * 4
    await page.check("#select-all")
    await page.reload()
    await page.locator("#review[data-is-ready]").wait_for()
    assert await page.eval_on_selector_all("[data-select], #select-all", BOXES) == [False] * 4


async def test_a_filter_is_that_of_what_is_listed(page: Page, queue: Queue) -> None:
    await queue.propose(*amounts(2))
    await opens(page)
    await page.select_option("#filters [name=currency]", "EUR")
    await page.click("#filters button")
    await page.wait_for_url("**currency=EUR**")
    await page.go_back()
    await page.locator("#review[data-is-ready]").wait_for()
    assert "currency" not in page.url
    assert await page.input_value("#filters [name=currency]") == ""
    await page.goto("/console/production/unmatched")
    await page.select_option("[name=direction]", "debit")
    await page.get_by_role("search").get_by_role("button").click()
    await page.wait_for_url("**direction=debit**")
    await page.go_back()
    await page.wait_for_url("**/unmatched")
    assert await page.input_value("[name=direction]") == ""


async def test_the_day_is_that_of_the_statements(page: Page) -> None:
    await page.goto("/console/production/month-end?cutOff=2026-02-28")
    await page.fill("#cut-off", "2026-03-31")
    await page.press("#cut-off", "Enter")
    await page.wait_for_url("**cutOff=2026-03-31")
    await page.go_back()
    await page.wait_for_url("**cutOff=2026-02-28")
    assert await page.input_value("#cut-off") == "2026-02-28"
    assert await page.input_value("#lock-through") == "2026-02-28"


@asynccontextmanager
async def imports_without(script: str, browser: Browser, console_world: ConsoleWorld) -> AsyncIterator[Page]:
    """Show the list of imports to somebody whose network drops one of its scripts."""
    async with opened(browser, console_world.base_url) as window:
        await sign_in(window, console_world)
        page = await window.new_page()
        await page.route(f"**/{script}", lambda route: route.abort("connectionreset"))
        await page.goto("/console/production/imports")
        yield page


async def test_a_script_that_does_not_come_is_told(browser: Browser, console_world: ConsoleWorld) -> None:
    async with imports_without("imports.js", browser, console_world) as page:
        alert = page.get_by_role("alert").get_by_text("A part of this page did not load")
        await alert.wait_for()
        await page.unroute("**/imports.js")
        await page.reload()
        await page.evaluate("import(document.querySelector('script[src*=\"imports.js\"]').src)")
        assert await alert.count() == 0


async def test_a_page_whose_scripts_do_not_come_at_all_says_so(
    browser: Browser, console_world: ConsoleWorld, axe: Callable[[Page], Awaitable[None]]
) -> None:
    async with imports_without("console.js", browser, console_world) as page:
        told = page.get_by_role("alert").get_by_text("This page is not ready")
        # Who has a slow line is not told at once.
        assert await told.count() == 0
        await page.emulate_media(reduced_motion="reduce")
        await page.evaluate("document.getAnimations().forEach((one) => one.finish())")
        await told.wait_for()
        await axe(page)
        await page.unroute("**/console.js")
        await page.reload()
        await page.locator("#not-ready").wait_for(state="detached")


async def test_a_page_that_the_browser_has_kept_is_loaded_anew(page: Page, console_world: ConsoleWorld) -> None:
    """It would show what was open before, and be of somebody who has left."""
    await page.goto("/console/production/imports")
    await page.locator("#not-ready").wait_for(state="detached")
    await sign_in(page.context, console_world, console_world.globex)
    async with page.expect_navigation():
        await page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    await page.get_by_text("Globex", exact=True).wait_for()
