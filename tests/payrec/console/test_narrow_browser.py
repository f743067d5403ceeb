"""Pages on a phone and at 400 %, with the largest amounts and long names, and in colours of the reader's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.browser import ConsoleWorld, opened, sign_in
from support.transactions import expect, receive

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

pytestmark = pytest.mark.anyio

MOST = "9999999999999.99"
PAGES = ("overview", "review", "unmatched", "search?q=INV", "imports", "month-end")

BEYOND = """() => {
    const found = [], root = document.documentElement;
    if (root.scrollWidth > root.clientWidth) found.push(`the page: ${root.scrollWidth}`);
    for (const element of document.querySelectorAll("main :is(input, select, button, h2, .amount)")) {
        const panel = element.closest(".panel, .side");
        if (!panel || !element.checkVisibility() || element.closest(".visually-hidden, table")) continue;
        const over = element.getBoundingClientRect().right - panel.getBoundingClientRect().right;
        if (over > 0.5) found.push(`${element.tagName} ${element.id} ${element.className}: ${over}`);
    }
    return found;
}"""
"""What reaches beyond its panel or the page. Tables scroll within theirs."""

NARROWEST = """() => Math.min(...[...document.querySelectorAll(".side h4 a")].map((name) => name.offsetWidth))"""
"""The width of the narrowest name at the head of a side."""


@pytest.fixture(scope="module")
async def books(console_world: ConsoleWorld) -> ConsoleWorld:
    """Return a world in which a proposal of the largest amount waits, between parties with a name without an end."""
    for name, currency, amount in (("X" * 140, "EUR", MOST), ("\u0634\u0631\u0643\u0629", "KWD", "999999999999.999")):
        await expect(
            console_world.acme, amount, currency=currency, counterpartyName=name, reference=f"INV-{currency}-1"
        )
        await receive(
            console_world.acme, amount, currency=currency, counterpartyName=name, remittance=f"INV-{currency}-1"
        )
    run = await console_world.rest("POST", "/matches/match", json={"wait": 60})
    assert run.json()["counts"]["proposed"] == 2, run.text
    return console_world


@pytest.mark.parametrize("width", [375, 320])
async def test_nothing_is_beyond_the_edge(browser: Browser, books: ConsoleWorld, width: int) -> None:
    async with opened(browser, books.base_url, viewport={"width": width, "height": 700}) as context:
        await sign_in(context, books)
        page = await context.new_page()
        for name in PAGES:
            await page.goto(f"/console/production/{name}")
            await page.wait_for_load_state("networkidle")
            assert (name, await page.evaluate(BEYOND)) == (name, [])
            if name == "review":
                assert await page.evaluate(NARROWEST) > width / 2, "a name is not set one letter below the other"
        await page.goto("/console/production/unmatched?currency=EUR")
        for choice in await page.locator(".line-choice").all():
            await choice.click()
        assert "0.00\u00a0EUR" in await page.inner_text("#match-sums")
        assert await page.evaluate(BEYOND) == []


async def test_ones_place_is_seen_in_colours_of_ones_own(browser: Browser, books: ConsoleWorld) -> None:
    async with opened(browser, books.base_url, forced_colors="active") as context:
        await sign_in(context, books)
        page = await context.new_page()
        await page.goto("/console/production/review")
        await page.locator(".queue-row a[aria-current]").wait_for()
        assert await _outlines(page, ".pages a") == ["none", "solid", "none", "none", "none", "none"]
        assert await _outlines(page, ".queue-row a") == ["solid", "none"]


async def _outlines(page: Page, selector: str) -> list[str]:
    found: list[str] = await page.eval_on_selector_all(
        selector, "all => all.map((one) => getComputedStyle(one).outlineStyle)"
    )
    return found
