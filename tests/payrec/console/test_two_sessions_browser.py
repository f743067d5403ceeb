"""Pages of two people in one browser: the session is that of the last who signed in, and a page is nobody else's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.browser import ConsoleWorld, previewed, sign_in
from support.service import Tenant
from support.statements import camt, message

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = pytest.mark.anyio


async def count(tenant: Tenant, path: str) -> int:
    found: dict[str, Any] = (await tenant.request("GET", path, "production")).json()
    return len(found["data"])


async def is_asked_and_comes_back(page: Page, world: ConsoleWorld) -> None:
    """Wait until the page asks who is there, and give it its own user again."""
    dialog = page.get_by_role("dialog", name="Your session is over")
    await dialog.wait_for()
    await sign_in(page.context, world)
    other = await page.context.new_page()
    await other.goto("/console/signed-in")
    await dialog.wait_for(state="hidden")


async def test_days_are_locked_in_the_tenant_whose_page_it_is(page: Page, console_world: ConsoleWorld) -> None:
    await page.goto("/console/production/month-end")
    await sign_in(page.context, console_world, console_world.globex)
    await page.fill("#lock-through", "2001-12-31")
    await page.fill("#lock-reason", "closed long ago")
    await page.locator("#lock [type=submit]").click()
    await is_asked_and_comes_back(page, console_world)
    await page.locator("button[data-reopen]").first.wait_for()
    assert await count(console_world.globex, "/period-locks") == 0
    assert await count(console_world.acme, "/period-locks") == 1


async def test_a_file_comes_to_the_tenant_whose_page_it_is(page: Page, console_world: ConsoleWorld) -> None:
    content = message(camt(0, 700, 50, account="AT611904300234573201"))
    await page.goto("/console/production/imports")
    await previewed(page, {"name": "ours.xml", "mimeType": "text/xml", "buffer": content})
    await page.get_by_role("heading", name="What is in the file").wait_for()
    await sign_in(page.context, console_world, console_world.globex)
    await page.get_by_role("button", name="Upload it").click()
    await is_asked_and_comes_back(page, console_world)
    await page.wait_for_url("**/imports/*-*")
    assert await count(console_world.globex, "/imports") == 0
    assert await count(console_world.acme, "/imports") == 1


async def test_the_page_of_the_one_before_signs_the_next_one_not_out(page: Page, console_world: ConsoleWorld) -> None:
    await page.goto("/console/production/imports")
    await sign_in(page.context, console_world, console_world.globex)
    await page.get_by_role("button", name="Sign out").click()
    await page.get_by_text("somebody else has signed in in this browser").wait_for()
    await page.get_by_role("link", name="To the overview").click()
    await page.get_by_text("Globex", exact=True).wait_for()
    await page.get_by_role("button", name="Sign out").click()
    await page.wait_for_url("**/console/sign-in")
