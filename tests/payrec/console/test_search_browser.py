"""Finding something in a browser, by keyboard alone, where amounts are written as in Germany; and how pages look."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from support.browser import ConsoleWorld, opened, sign_in

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

pytestmark = pytest.mark.anyio

Axe = Callable[..., Awaitable[None]]
Shot = Callable[..., Awaitable[None]]


async def stored(world: ConsoleWorld, path: str, **fields: Any) -> str:
    body = {"direction": "credit", "currency": "EUR", **fields}
    answer = await world.globex.post(path, body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def test_an_amount_is_found_as_germany_writes_it_by_keyboard_alone(
    browser: Browser, console_world: ConsoleWorld, axe: Axe, shot: Shot
) -> None:
    globex = console_world.globex
    changed = await globex.request("PATCH", f"/tenants/{globex.id}/settings", json={"locale": "de-DE"})
    assert changed.status_code == 200, changed.text
    line = await stored(
        console_world,
        "/incoming-transactions",
        amount="1234.50",
        bookingDate="2026-03-12",
        counterpartyName="Müller & Söhne KG",
        remittance="Rechnung RE-2026-0815 vom 01.03.2026, Kundennr. 4711",
        endToEndId="RE-2026-0815",
        account="DE02120300000000202051",
    )
    item = await stored(
        console_world,
        "/expected-transactions",
        amount="1237.00",
        counterpartyName="Müller & Söhne KG",
        reference="RE-2026-0815",
    )
    fee = {"type": "fee", "expectedTransactionId": item, "amountMinor": 250, "currency": "EUR"}
    legs = [{"expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": 123_450}]
    made = await globex.post("/matches", {"legs": legs, "adjustments": [fee], "reason": "a fee was kept"})
    assert made.status_code == 201, made.text
    async with opened(browser, console_world.base_url) as context:
        await sign_in(context, console_world, globex)
        page = await context.new_page()
        await page.goto("/console/production/search")
        await page.focus("#q")
        await page.keyboard.type("1.234,50")
        await page.keyboard.press("Enter")
        result = page.locator(f'a[href$="/incoming/{line}"]')
        await result.wait_for()
        assert "1.234,50\u00a0EUR" in await page.inner_text("#found-incoming + ul")
        assert await page.locator(f'a[href$="/matches/{made.json()["id"]}"]').count() == 1
        await axe(page)
        await shot(page, "search")
        await follow(page, str(await result.get_attribute("href")))
        assert "Rechnung RE-2026-0815" in await page.inner_text(".raw")
        assert "a fee was kept" in await page.inner_text("main")
        await axe(page)
        await shot(page, "incoming")
        await follow(page, f"/console/production/expected/{item}")
        assert "1.237,00\u00a0EUR" in await page.inner_text("main")
        # What it is matched with is told by day and name.
        assert await page.get_by_role("link", name="12.03.2026 Müller & Söhne KG").count() == 1
        await axe(page)
        await shot(page, "expected")


async def follow(page: Page, href: str) -> None:
    """Go to a link with the Tab key, and along it."""
    for _ in range(80):
        await page.keyboard.press("Tab")
        if await page.evaluate("document.activeElement.getAttribute('href')") == href:
            await page.keyboard.press("Enter")
            await page.wait_for_url(f"**{href}")
            return
    raise AssertionError(f"{href} is not reached")


async def test_the_pages_are_whole_at_a_zoom_of_200_per_cent(browser: Browser, console_world: ConsoleWorld) -> None:
    line = await stored(
        console_world, "/incoming-transactions", amount="7.00", bookingDate="2026-03-12", remittance="x" * 2_000
    )
    async with opened(browser, console_world.base_url, viewport={"width": 640, "height": 400}) as context:
        await sign_in(context, console_world, console_world.globex)
        page = await context.new_page()
        for path in (f"incoming/{line}", "search?q=xxxx"):
            await page.goto(f"/console/production/{path}")
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
