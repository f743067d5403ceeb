"""A month is closed in a browser: statements that come one by one, locks, and what is printed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from support.browser import ConsoleWorld, opened, sign_in
from support.statements import IBAN, camt, message

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page, Route

pytestmark = pytest.mark.anyio

PAGE = "/console/production/month-end"
CUT_OFF = "2026-03-31"
OTHER = "GB33BUKB20201555555555"
SETTLED = "FR7630006000011234567890189"

Axe = Callable[[Any], Awaitable[None]]
Shot = Callable[..., Awaitable[None]]


@pytest.fixture(scope="module", autouse=True)
async def statements(console_world: ConsoleWorld) -> None:
    """Two accounts; between two statements of the first one, another one is missing."""
    for content in (
        message(camt(0, 100, 0)),
        message(camt(300, 450, 8)),
        message(camt(0, 900, 3, account=OTHER)),
    ):
        files = {"file": ("statement.xml", content)}
        answer = await console_world.acme.post("/incoming-transactions/upload", None, files=files)
        assert answer.status_code == 201, answer.text


async def account(world: ConsoleWorld, identifier: str) -> str:
    [found] = (await world.rest("GET", f"/accounts?identifier={identifier}")).json()["data"]
    return str(found["id"])


async def test_each_account_is_told_with_its_difference_and_leads_to_its_lines(
    page: Page, axe: Axe, shot: Shot
) -> None:
    await page.goto(f"{PAGE}?cutOff={CUT_OFF}")
    first = page.get_by_role("article", name=IBAN)
    await first.get_by_role("row", name="Difference to the bank 2.00 EUR").wait_for()
    await page.get_by_role("article", name=OTHER).get_by_role("row", name="Difference to the bank 0.00 EUR").wait_for()
    await page.get_by_text("3 open lines").wait_for()
    await axe(page)
    await shot(page, "month-end")
    await page.set_viewport_size({"width": 640, "height": 800})
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert await page.evaluate(wide) <= 0
    await page.set_viewport_size({"width": 1280, "height": 800})
    await first.get_by_role("link", name="2 lines").click()
    await page.get_by_role("link", name="Open", exact=True).wait_for()
    assert await page.locator("tbody tr").count() == 2
    await axe(page)
    await shot(page, "month-end-lines")


async def test_a_slow_account_is_told_for_itself_and_asked_for_again(
    page: Page, console_world: ConsoleWorld, axe: Axe
) -> None:
    slow = await account(console_world, OTHER)
    asked = []

    async def late(route: Route) -> None:
        asked.append(route.request.url)
        problem = {"status": 503, "code": "service_unavailable", "title": "late", "detail": "it takes too long"}
        await route.fulfill(status=503, json=problem, headers={"Retry-After": "1"})

    await page.route(f"**/month-end/{slow}/statement*", late)
    await page.goto(f"{PAGE}?cutOff={CUT_OFF}")
    await page.get_by_role("article", name=IBAN).get_by_role("row", name="Difference to the bank").wait_for()
    failed = page.get_by_role("article", name=OTHER)
    await failed.get_by_text("takes too long to add up").wait_for()
    assert len(asked) == 1
    await axe(page)
    await page.unroute(f"**/month-end/{slow}/statement*")
    await failed.get_by_role("button", name="Try again").click()
    await failed.get_by_role("row", name="Difference to the bank").wait_for()


async def test_a_period_is_locked_and_reopened_by_keyboard_alone(
    page: Page, console_world: ConsoleWorld, axe: Axe
) -> None:
    await page.goto(f"{PAGE}?cutOff={CUT_OFF}")
    await page.get_by_label("Reason").first.focus()
    await page.keyboard.type("March is closed")
    await page.keyboard.press("Enter")
    # What keeps it open is told, and that it may be locked all the same.
    await page.get_by_text("3 lines are open").wait_for()
    assert await page.evaluate("document.activeElement.id") == "lock-refused"
    await axe(page)
    assert (await console_world.rest("GET", "/period-locks")).json()["data"] == []
    await page.keyboard.press("Tab")
    await page.keyboard.press("Space")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await page.get_by_role("button", name="Reopen").wait_for()
    [lock] = (await console_world.rest("GET", "/period-locks")).json()["data"]
    assert (lock["through"], lock["override"], lock["reason"]) == (CUT_OFF, True, "March is closed")
    await page.get_by_text("Figures as they were known at").first.wait_for()
    await page.get_by_role("button", name="Reopen").focus()
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Reopen a period")
    await dialog.wait_for()
    await axe(page)
    await page.keyboard.press("Escape")
    await page.keyboard.press("Enter")
    await dialog.get_by_label("Reason").fill("a statement is missing")
    await page.keyboard.press("Enter")
    await page.get_by_text("a statement is missing").wait_for()
    [lock] = (await console_world.rest("GET", "/period-locks")).json()["data"]
    assert (lock["status"], lock["reopenReason"]) == ("reopened", "a statement is missing")


async def test_who_reopens_second_is_told(page: Page, console_world: ConsoleWorld) -> None:
    made = await console_world.acme.post("/period-locks", {"through": "2019-06-30", "reason": "long ago"})
    assert made.status_code == 201, made.text
    await page.goto(PAGE)
    path = f"/period-locks/{made.json()['id']}/reopen"
    assert (await console_world.acme.post(path, {"reason": "first"})).status_code == 200
    await page.get_by_role("button", name="Reopen").click()
    await page.get_by_role("dialog").get_by_label("Reason").fill("second")
    await page.get_by_role("dialog").get_by_role("button", name="Reopen").click()
    await page.locator("#reopen-refused").wait_for()
    assert len(await page.locator("#reopen-refused").inner_text()) > 10


async def test_a_reason_of_a_stranger_is_text(page: Page, console_world: ConsoleWorld) -> None:
    reason = '<img src=x onerror="window.hacked=1">' + "x" * 400
    body = {"through": "2018-06-30", "reason": reason}
    assert (await console_world.acme.post("/period-locks", body)).status_code == 201
    await page.goto(PAGE)
    await page.get_by_text("<img src=x").first.wait_for()
    assert await page.locator("main img").count() == 0
    assert await page.evaluate("window.hacked") is None


async def test_who_may_only_read_is_offered_nothing(browser: Browser, console_world: ConsoleWorld, axe: Axe) -> None:
    viewer = await console_world.person("viewer")
    async with opened(browser, console_world.base_url) as window:
        await sign_in(window, console_world, viewer)
        seen = await window.new_page()
        await seen.goto(f"{PAGE}?cutOff={CUT_OFF}")
        await seen.get_by_role("article", name=IBAN).get_by_role("row", name="Difference to the bank").wait_for()
        assert await seen.get_by_role("button", name="Lock").count() == 0
        assert await seen.get_by_role("button", name="Reopen").count() == 0
        await axe(seen)


async def test_an_account_with_nothing_open_is_one_line_and_whole_on_paper(
    page: Page, console_world: ConsoleWorld, axe: Axe
) -> None:
    files = {"file": ("statement.xml", message(camt(0, 700, 29, account=SETTLED)))}
    assert (await console_world.acme.post("/incoming-transactions/upload", None, files=files)).status_code == 201
    [line] = (await console_world.rest("GET", "/incoming-transactions?account=" + SETTLED)).json()["data"]
    ignored = await console_world.acme.post(f"/incoming-transactions/{line['id']}/ignore", {"reason": "a test"})
    assert ignored.status_code == 200, ignored.text
    await page.goto(f"{PAGE}?cutOff={CUT_OFF}")
    settled = page.get_by_role("article", name=SETTLED)
    await settled.get_by_text("agrees with the bank, nothing open").wait_for()
    difference = settled.get_by_role("row", name="Difference to the bank 0.00 EUR")
    assert await difference.is_hidden()
    # What has lines is told, what has none is named beneath it; another account is whole from the start.
    await page.get_by_role("article", name=IBAN).get_by_role("row", name="No lines: Matched, Returned").wait_for()
    await axe(page)
    await settled.locator("summary").focus()
    await page.keyboard.press("Enter")
    await difference.wait_for()
    assert await settled.get_by_role("row", name="Ignored 1 line 7.00").is_visible()
    assert await settled.locator("tr", has_text="Returned").first.is_hidden()
    await page.keyboard.press("Enter")
    await difference.wait_for(state="hidden")
    await page.emulate_media(media="print")
    assert await settled.locator("tr", has_text="Difference to the bank").bounding_box() is not None
    assert await settled.locator("tr", has_text="Returned").first.is_visible()
    assert await settled.locator("summary").is_hidden()


async def test_on_paper_there_are_statements_and_nothing_to_press(page: Page) -> None:
    await page.goto(f"{PAGE}?cutOff={CUT_OFF}")
    await page.get_by_role("article", name=IBAN).get_by_role("row", name="Difference to the bank").wait_for()
    await page.emulate_media(media="print")
    assert await page.locator("nav.pages").is_hidden()
    assert await page.locator("#lock").is_hidden()
    for button in await page.get_by_role("button").all():
        assert await button.is_hidden()
    assert await page.get_by_role("article", name=IBAN).is_visible()
    # The tenant and the environment are on it all the same.
    assert "production" in (await page.locator(".sheet-of").inner_text()).lower()
    assert len(await page.pdf(format="A4")) > 1_000


async def test_what_is_locked_all_the_same_is_what_was_refused(page: Page, console_world: ConsoleWorld) -> None:
    await page.goto(f"{PAGE}?cutOff={CUT_OFF}")
    box = page.get_by_label("Lock it although it is incomplete")
    refused = page.locator("#lock-refused", has_text="open")
    await page.fill("#lock-reason", "closed")
    await page.press("#lock-reason", "Enter")
    await refused.wait_for()
    await box.check()
    # Of other days nobody has seen what is incomplete.
    await page.fill("#lock-through", "2026-03-30")
    assert await box.is_hidden()
    async with page.expect_response("**/rest/period-locks") as answered:
        await page.press("#lock-reason", "Enter")
    assert (await answered.value).status == 409
    await refused.wait_for()
    assert not await box.is_checked()
    await box.check()
    await page.press("#lock-reason", "Enter")
    reopen = page.get_by_role("button", name="Reopen Mar 30, 2026")
    await reopen.wait_for()
    # Nor of what is locked next, when the page was loaded anew.
    await page.fill("#lock-reason", "closed as well")
    async with page.expect_response("**/rest/period-locks") as answered:
        await page.press("#lock-reason", "Enter")
    assert (await answered.value).status == 409
    for lock in (await console_world.rest("GET", "/period-locks?status=locked")).json()["data"]:
        again = await console_world.acme.post(f"/period-locks/{lock['id']}/reopen", {"reason": "a test"})
        assert again.status_code == 200, again.text
