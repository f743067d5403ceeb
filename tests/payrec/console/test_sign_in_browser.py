"""Signing in and out in a browser, and what happens when the session or the connection ends in the middle."""

from __future__ import annotations

from typing import Any

import pytest

from payrec.console.formatting import foreign
from support.browser import ConsoleWorld

pytestmark = pytest.mark.anyio

BEGIN = """
({reference, currency = "EUR"}) => {
  window.ended = (async () => {
    const { rest } = await import(document.querySelector("script[type=module]").src.replace("console.js", "rest.js"));
    const body = { amount: "1.00", currency, direction: "credit", reference };
    return rest("POST", "/expected-transactions", { body });
  })().then(({ status }) => ({ status }), ({ status, code }) => ({ status, code }));
}
"""
"""What the script of a page does when somebody records an item."""

ENDED = "() => window.ended"
HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "abc\u202egpj.exe",
    "a\u200bb\u2066c\x00\x07\x7f\x9f",
    "Zalgo " + "\u0301" * 12,
    "=cmd|' /C calc'!A0",
    "x" * 10_000,
    "\U0001f468\u200d\U0001f469 ä ß 日本",
)


async def test_somebody_signs_in_and_out_by_keyboard_alone(
    anonymous: Any, console_world: ConsoleWorld, axe: Any, shot: Any
) -> None:
    await anonymous.goto("/console/test/overview?x=1")
    assert "/console/sign-in?next=%2Fconsole%2Ftest%2Foverview%3Fx%3D1" in anonymous.url
    await axe(anonymous)
    await shot(anonymous, "sign-in")
    await anonymous.keyboard.type("admin@acme")
    await anonymous.keyboard.press("Tab")
    await anonymous.keyboard.type("wrong")
    await anonymous.keyboard.press("Enter")
    await anonymous.get_by_role("alert").get_by_text("The username or the password is wrong").wait_for()
    await axe(anonymous)
    await anonymous.keyboard.type(console_world.password_of(console_world.acme)["password"])
    await anonymous.keyboard.press("Enter")
    await anonymous.wait_for_url("**/console/test/overview?x=1")
    await anonymous.keyboard.press("Tab")
    focused = anonymous.locator(":focus")
    assert await focused.inner_text() == "Skip to the content"
    await anonymous.get_by_role("button", name="Sign out").focus()
    await anonymous.keyboard.press("Enter")
    await anonymous.wait_for_url("**/console/sign-in")
    await anonymous.goto("/console/test/overview")
    assert "/console/sign-in" in anonymous.url


async def test_a_session_that_ends_in_the_middle_loses_nothing(
    page: Any, console_world: ConsoleWorld, axe: Any
) -> None:
    await page.goto("/console/production/overview")
    await page.context.clear_cookies()
    await page.evaluate(BEGIN, {"reference": "before the end"})
    dialog = page.get_by_role("dialog", name="Your session is over")
    await dialog.wait_for()
    await axe(page)
    async with page.context.expect_page() as opening:
        await dialog.get_by_role("link").click()
    await signed_in_there(await opening.value, console_world.password_of(console_world.acme))
    assert await page.evaluate(ENDED) == {"status": 201}
    await dialog.wait_for(state="hidden")
    found = await console_world.rest("GET", "/expected-transactions", params={"q": "before the end"})
    assert len(found.json()["data"]) == 1


async def test_what_one_began_nobody_else_goes_on_with(page: Any, console_world: ConsoleWorld) -> None:
    await page.goto("/console/production/overview")
    await page.context.clear_cookies()
    await page.evaluate(BEGIN, {"reference": "of the first alone"})
    async with page.context.expect_page() as opening:
        await page.get_by_role("dialog").get_by_role("link").click()
    async with page.expect_navigation():
        await signed_in_there(await opening.value, console_world.password_of(console_world.globex))
    await page.get_by_text("Globex", exact=True).wait_for()
    for tenant in (console_world.acme, console_world.globex):
        found = await tenant.get("/expected-transactions", params={"q": "of the first alone"})
        assert found.json()["data"] == []


async def test_somebody_who_does_not_sign_in_again_is_told_so(page: Any) -> None:
    await page.goto("/console/production/overview")
    await page.context.clear_cookies()
    await page.evaluate(BEGIN, {"reference": "never"})
    await page.get_by_role("dialog").wait_for()
    await page.keyboard.press("Escape")
    assert await page.evaluate(ENDED) == {"status": 401, "code": "signed_out"}


async def test_an_answer_that_is_lost_is_asked_for_again_and_nothing_is_done_twice(
    page: Any, console_world: ConsoleWorld
) -> None:
    keys: list[str] = []

    async def losing(route: Any) -> None:
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) == 1:
            await route.abort("internetdisconnected")
        elif len(keys) == 2:
            assert (await route.fetch()).status == 201
            await route.abort("connectionreset")
        else:
            await route.continue_()

    await page.route("**/rest/expected-transactions", losing)
    await page.goto("/console/production/overview")
    await page.evaluate(BEGIN, {"reference": "once alone"})
    await page.get_by_text("The connection is lost. It is tried again by itself").wait_for()
    assert await page.evaluate(ENDED) == {"status": 201}
    await page.get_by_text("The connection is back.").wait_for()
    assert len(keys) == 3
    assert len(set(keys)) == 1
    found = await console_world.rest("GET", "/expected-transactions", params={"q": "once alone"})
    assert len(found.json()["data"]) == 1


async def test_a_refusal_is_told_as_the_interface_tells_it(page: Any) -> None:
    await page.goto("/console/production/overview")
    await page.evaluate(BEGIN, {"reference": "", "currency": "XXL"})
    assert await page.evaluate(ENDED) == {"status": 422, "code": "validation_failed"}


async def test_texts_of_strangers_look_alike_wherever_they_are_made(page: Any) -> None:
    await page.goto("/console/production/overview")
    for text in HOSTILE:
        made = await page.evaluate(
            "async (text) => { const m = await import(document.querySelector('script[type=module]').src);"
            " return m.foreign(text, {length: 100}).outerHTML; }",
            text,
        )
        assert made == str(foreign(text, all_of_it="show all", length=100)).replace("&#34;", '"').replace("&#39;", "'")


async def signed_in_there(tab: Any, password: dict[str, str]) -> None:
    """Sign in in another tab, which closes by itself."""
    await tab.get_by_label("Username").fill(password["username"])
    await tab.get_by_label("Password").fill(password["password"])
    async with tab.expect_event("close"):
        await tab.get_by_role("button", name="Sign in").click()
