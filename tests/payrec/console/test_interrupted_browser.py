"""Whatever a page writes, in a browser: its answer is lost, or the session ends in the middle."""

from __future__ import annotations

from asyncio import Event
from typing import TYPE_CHECKING, Final

import pytest

from support.browser import ConsoleWorld, held, previewed, sign_in
from support.console_writes import WRITES, Steps, amounts, losing_the_first
from support.review_queue import Queue, module_queue, opens, queue, says
from support.statements import camt, message
from support.transactions import receive

if TYPE_CHECKING:
    from playwright.async_api import Page, Route

__all__ = ["module_queue", "queue"]

pytestmark = pytest.mark.anyio


async def ended(steps: Steps) -> None:
    """Take the last step: it was done, and once."""
    assert await anext(steps, None) is None


@pytest.mark.parametrize("name", WRITES)
async def test_what_gets_no_answer_is_sent_again_and_done_once(page: Page, queue: Queue, name: str) -> None:
    steps = WRITES[name](page, queue)
    keys: list[str] = []

    async def lose(route: Route) -> None:
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) == 1:
            # It is done, though nobody hears of it.
            await route.fetch()
            await route.abort("connectionreset")
        else:
            await route.continue_()

    await held(page, await anext(steps), lose)
    await anext(steps)
    await ended(steps)
    assert len(keys) == 2
    assert len(set(keys)) == 1


@pytest.mark.parametrize("name", WRITES)
async def test_a_session_that_is_over_loses_nothing(
    page: Page, queue: Queue, console_world: ConsoleWorld, name: str
) -> None:
    steps = WRITES[name](page, queue)
    await anext(steps)
    await page.context.clear_cookies()
    await anext(steps)
    dialog = page.get_by_role("dialog", name="Your session is over")
    await dialog.wait_for()
    await sign_in(page.context, console_world)
    other = await page.context.new_page()
    await other.goto("/console/signed-in")
    await ended(steps)
    assert await dialog.is_hidden()


async def test_a_sign_in_by_another_way_than_the_dialog_s_link_is_noticed(
    page: Page, queue: Queue, console_world: ConsoleWorld
) -> None:
    match, _ = await queue.propose(*amounts(2))
    await opens(page)
    await page.context.clear_cookies()
    await page.keyboard.press("a")
    dialog = page.get_by_role("dialog", name="Your session is over")
    await dialog.wait_for()
    other = await page.context.new_page()
    await other.goto("/console")
    for name, value in console_world.password_of(console_world.acme).items():
        await other.fill(f"[name={name}]", value)
    await other.keyboard.press("Enter")
    await other.wait_for_url("**/overview")
    await dialog.wait_for(state="hidden")
    await says(page, "Accepted.")
    assert await queue.status(match) == "accepted"


async def test_what_is_looked_for_beside_asks_nobody_to_sign_in(page: Page, queue: Queue) -> None:
    """The dialog would have the keys of whoever is typing."""
    await queue.propose(*amounts(2))
    await page.route("**/choices", lambda route: route.fulfill(status=401, json={"code": "expired_credentials"}))
    async with page.expect_response("**/choices"):
        await opens(page)
    await page.get_by_text("What else would fit could not be loaded.").wait_for()
    assert await page.locator("#session-over").is_hidden()


AGAIN: Final = {
    "matched_by_hand": ("#fault-match", "#match-send"),
    "set_aside": ("#fault-aside", "#aside-form [type=submit]"),
    "reversed_on_its_page": ("#reverse-error", "#reverse-dialog [value=go]"),
    "locked": ("#lock-refused", "#lock [type=submit]"),
    "reopened": ("#reopen-refused", "#reopen-form [type=submit]"),
    "split": ("#split-error", "#split-dialog [value=go]"),
}
"""Where a page tells that something failed, and what is pressed to try it again."""


@pytest.mark.parametrize("name", AGAIN)
async def test_who_tries_again_what_was_done_already_is_told_that_it_is_done(
    page: Page, queue: Queue, name: str
) -> None:
    steps = WRITES[name](page, queue)
    keys: list[str] = []
    refused, button = AGAIN[name]
    await held(page, await anext(steps), losing_the_first(keys))
    await anext(steps)
    await page.locator(refused).filter(visible=True).wait_for()
    await page.locator(button).click()
    await ended(steps)
    assert len(keys) == 2
    assert len(set(keys)) == 1


async def test_who_is_told_to_wait_after_an_answer_was_lost_does_it_once(page: Page, queue: Queue) -> None:
    """Of the first attempt nobody has heard, and the others say nothing of it."""
    steps = WRITES["matched_by_hand"](page, queue)
    keys: list[str] = []
    refused, button = AGAIN["matched_by_hand"]

    async def refuse(route: Route) -> None:
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) == 1:
            await route.fetch()
        problem = {"title": "Too many requests", "status": 429, "code": "rate_limited"}
        await route.fulfill(status=429, headers={"Retry-After": "0.01"}, json=problem)

    address = await anext(steps)
    await held(page, address, refuse)
    await anext(steps)
    await page.locator(refused).filter(visible=True).wait_for()
    await page.unroute(address)
    async with page.expect_request(address) as sent:
        await page.locator(button).click()
    keys.append((await sent.value).headers["idempotency-key"])
    await ended(steps)
    assert len(keys) > 2
    assert len(set(keys)) == 1


async def test_what_was_taken_back_is_forgotten_though_that_got_no_answer_at_first(page: Page, queue: Queue) -> None:
    match, _ = await queue.propose(*amounts(2))
    await opens(page)
    await page.keyboard.press("a")
    await says(page, "Accepted.")
    await held(page, "**/rest/matching/rejections/*", lambda route: route.fulfill(status=500, json={"title": "Broken"}))
    await page.keyboard.press("u")
    await says(page, "That did not work")
    assert await queue.status(match) == "reversed"
    await page.unroute("**/rest/matching/rejections/*")
    await page.keyboard.press("u")
    await says(page, "forgotten")
    rejections = (await queue.world.rest("GET", "/matching/rejections?limit=200")).json()["data"]
    assert match not in [one["id"] for one in rejections]


async def test_an_upload_goes_on_after_the_sign_in_and_is_stored_once(page: Page, console_world: ConsoleWorld) -> None:
    content = message(camt(0, 700, 50, account="AT611904300234573201"))
    await page.goto("/console/production/imports")
    await previewed(page, {"name": "over.xml", "mimeType": "text/xml", "buffer": content})
    await page.get_by_role("heading", name="What is in the file").wait_for()
    await page.context.clear_cookies()
    await page.get_by_role("button", name="Upload it").click()
    await page.get_by_role("dialog", name="Your session is over").wait_for()
    await sign_in(page.context, console_world)
    other = await page.context.new_page()
    await other.goto("/console/signed-in")
    await page.wait_for_url("**/imports/*-*")
    found = (await console_world.rest("GET", "/imports")).json()["data"]
    assert [one["name"] for one in found].count("over.xml") == 1


async def test_what_another_process_has_prolonged_asks_nobody_to_sign_in(page: Page, queue: Queue) -> None:
    """A refresh token serves once; who comes too late with it has the next one by the next request."""
    match, _ = await queue.propose(*amounts(2))
    asked: list[str] = []

    async def late(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) == 1:
            await route.fulfill(status=401, json={"status": 401, "code": "expired_credentials", "title": "Expired"})
        else:
            await route.continue_()

    await opens(page)
    await held(page, "**/rest/matches/*/accept", late)
    await page.keyboard.press("a")
    await says(page, "Accepted.")
    assert len(asked) == 2
    assert await queue.status(match) == "accepted"


DROP: Final = """([name, text]) => {
    const data = new DataTransfer();
    data.items.add(new File([text], name));
    document.getElementById("drop").dispatchEvent(new DragEvent("drop", { dataTransfer: data, cancelable: true }));
}"""


async def test_what_is_dropped_while_a_file_is_looked_at_is_not_taken_for_it(
    page: Page, console_world: ConsoleWorld
) -> None:
    goes_on = Event()
    asked: list[str] = []

    async def slow(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) == 1:
            await goes_on.wait()
        await route.continue_()

    await page.goto("/console/production/imports")
    await held(page, "**/upload/preview", slow)
    for place, name in enumerate(("seen.xml", "unseen.xml")):
        content = message(camt(0, 100 + place, 51 + place, account="NL91ABNA0417164300")).decode()
        await page.evaluate(DROP, [name, content])
        if not place:
            await page.locator("#stop").wait_for()
    await page.get_by_text("A file is under way.").wait_for()
    goes_on.set()
    await page.get_by_role("heading", name="What is in the file").wait_for()
    assert await page.locator("[data-fact=name]").inner_text() == "seen.xml"
    await page.get_by_role("button", name="Upload it").click()
    await page.wait_for_url("**/imports/*-*")
    names = [one["name"] for one in (await console_world.rest("GET", "/imports")).json()["data"]]
    assert ("seen.xml" in names, "unseen.xml" in names) == (True, False)
    assert len(asked) == 1


async def test_who_closes_the_dialog_is_told_what_was_set_aside(page: Page, console_world: ConsoleWorld) -> None:
    line = await receive(console_world.acme, amounts(1)[0], currency="NOK")
    other = await receive(console_world.acme, amounts(1)[0], currency="NOK")
    goes_on = Event()

    async def slow(route: Route) -> None:
        await goes_on.wait()
        await route.continue_()

    await page.goto("/console/production/unmatched?currency=NOK")
    await held(page, "**/rest/incoming-transactions/*/ignore", slow)
    await page.click(f"#incoming-{line} [data-set-aside]")
    await page.fill("#aside-reason", "of the old bank")
    await page.click("#aside-send")
    await page.locator("#aside-send[aria-disabled]").wait_for()
    await page.click("#aside-cancel")
    await page.click(f"#incoming-{other} [data-set-aside]")
    await page.get_by_text("what was set aside before is still on its way").wait_for()
    assert await page.locator("#aside").is_hidden()
    goes_on.set()
    await page.locator("#outcome", has_text="Set aside.").wait_for()
    await page.click("#undo")
    await page.locator(f"#incoming-{line}").wait_for()
    stored = (await console_world.rest("GET", f"/incoming-transactions/{line}")).json()
    assert stored["status"] == "unmatched"


@pytest.mark.parametrize("locale", ["th", "fa", "ar-SA"])
async def test_days_of_a_preview_are_those_of_the_file_in_every_locale(page: Page, locale: str) -> None:
    async def of(route: Route) -> None:
        answer = await route.fetch()
        text = (await answer.text()).replace('data-locale="en"', f'data-locale="{locale}"')
        await route.fulfill(response=answer, body=text)

    await page.route("**/production/imports", of)
    await page.goto("/console/production/imports")
    await previewed(page, {"name": "d.xml", "mimeType": "text/xml", "buffer": message(camt(0, 100, 9))})
    shown = await page.locator("#preview-lines tbody td:nth-child(2)").first.inner_text()
    assert "2026" in shown
