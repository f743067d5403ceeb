"""The documentation's viewer in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from support.browser import browser, opened
from support.service import Service

if TYPE_CHECKING:
    from playwright.async_api import Browser

__all__ = ["browser"]

pytestmark = pytest.mark.anyio


async def test_the_documentation_asks_nobody_else(
    browser: Browser,
    service: Service,
) -> None:
    asked: set[str] = set()
    async with opened(browser, service.base_url) as window:
        page = await window.new_page()
        page.on("request", lambda request: asked.add(urlsplit(request.url)._replace(path="", query="").geturl()))
        # The whole document is drawn when a part of it is unfolded, which takes a while on busy cores.
        page.set_default_timeout(60_000)
        await page.goto("/api/docs")
        row = page.locator(".opblock", has_text="/api/health").first
        await row.get_by_role("button").first.click()
        await row.get_by_role("button", name="Try it out").click()
        await row.get_by_role("button", name="Execute").click()
        await row.get_by_text("Response body").first.wait_for()
    assert asked - {"data://"} == {service.base_url}


async def test_the_documentation_runs_nothing_of_others(
    browser: Browser,
    service: Service,
) -> None:
    page = await browser.new_page(base_url=service.base_url)
    await page.goto("/api/docs")
    blocked = await page.evaluate("""() => new Promise((resolve) => {
        const seen = [];
        document.addEventListener("securitypolicyviolation", (event) => {
            seen.push(event.blockedURI);
            if (seen.length === 2) resolve(seen.sort());
        });
        const inline = document.createElement("script");
        inline.textContent = "window.ran = true";
        const foreign = document.createElement("script");
        foreign.src = "https://example.com/x.js";
        document.body.append(inline, foreign);
    })""")
    assert blocked == ["https://example.com/x.js", "inline"]
    assert await page.evaluate("window.ran") is None
    await page.close()
