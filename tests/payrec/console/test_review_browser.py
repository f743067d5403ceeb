"""The review in a real browser: looked at, gone through and decided, by mouse and by keyboard."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from payrec.services.review import PAGE_MATCHES
from payrec.storage.rows import fetch_all
from support.browser import ACTION_MS, ConsoleWorld, held, opened, sign_in
from support.review_queue import REVIEW, Queue, module_queue, opens, queue, says, shown, shows
from support.tenant_data import scope_of_tenant

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page, Request, Route

__all__ = ["module_queue", "queue"]

pytestmark = pytest.mark.anyio

HOSTILE = "<img src=x onerror=alert(1)>\u202egnp.exe =1+1"
LONG = 600
"""Matches of a long queue."""

SEEDED = """
    WITH pair AS (
        SELECT expected_id, incoming_id, expected_revision, incoming_revision FROM leg WHERE match_id = %(like)s
    ), made AS (
        INSERT INTO match (id, amount_minor, score, status, kind, confidence, uniqueness, currency, created_by, levels,
            created_at, updated_at)
        SELECT gen_random_uuid(), 1000 + n, 0, 'proposed', 'one_to_one', 'low', 'unique', 'EUR', 'engine:seeded', '{}',
            now(), now()
        FROM generate_series(1, %(count)s) n RETURNING id, amount_minor
    ), joined AS (
        INSERT INTO leg (match_id, ordinal, expected_id, incoming_id, amount_minor, settled_minor, settled_currency,
            expected_revision, incoming_revision)
        SELECT made.id, 0, expected_id, incoming_id, amount_minor, amount_minor, 'EUR', expected_revision,
            incoming_revision FROM made, pair
    )
    SELECT id FROM made ORDER BY amount_minor DESC
"""
WATCH = """
    window.longTasks = [];
    new PerformanceObserver((list) => window.longTasks.push(...list.getEntries().map((one) => one.duration)))
        .observe({ type: "longtask", buffered: true });
"""


async def test_it_looks_right_and_axe_finds_nothing(
    page: Page, queue: Queue, axe: Callable[[Page], Awaitable[None]], shot: Callable[..., Awaitable[None]]
) -> None:
    await queue.propose("1200.00", "1150.00", "80.00", "75.50")
    await queue.propose("640.00", counterpartyName="Somebody Else Ltd")
    await opens(page)
    await page.locator("#item mark").first.wait_for()
    await page.locator(".choice-list, [data-choices]").first.wait_for()
    await axe(page)
    await shot(page, "review")
    await page.keyboard.press("?")
    await page.locator("#keys-dialog[open]").wait_for()
    await axe(page)
    await page.keyboard.press("Escape")
    await page.set_viewport_size({"width": 640, "height": 800})
    wide = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0
    await page.goto((await page.locator(".to-details").get_attribute("href")) or "")
    await page.set_viewport_size({"width": 1280, "height": 800})
    await axe(page)
    await shot(page, "match")


async def test_the_queue_is_worked_through_by_keyboard_alone(page: Page, queue: Queue) -> None:
    first, second, third, fourth = await queue.propose("900.00", "800.00", "700.00", "600.00")
    await opens(page)
    await shows(page, first)
    await page.keyboard.press("j")
    await shows(page, second)
    await page.keyboard.press("k")
    await shows(page, first)
    await page.keyboard.press("a")
    await shows(page, second)
    await says(page, "Accepted. Next: 800.00")
    assert await queue.status(first) == "accepted"
    await page.keyboard.press("r")
    await page.locator("#reason-dialog[open]").wait_for()
    # What is typed is a reason, not a decision.
    await page.keyboard.type("a rather bad jumble")
    assert await queue.status(second) == "proposed"
    await page.keyboard.press("Enter")
    await shows(page, third)
    assert await queue.status(second) == "rejected"
    rejected = (await queue.world.rest("GET", f"/matches/{second}")).json()
    assert rejected["decisionReason"] == "a rather bad jumble"
    await page.keyboard.press("u")
    await says(page, "The rejection is forgotten")
    await page.keyboard.press("u")
    await says(page, "Taken back")
    assert await queue.status(first) == "reversed"
    await page.keyboard.press("x")
    await page.keyboard.press("j")
    await shows(page, fourth)
    await page.keyboard.press("x")
    await page.locator("#selection-total", has_text="2 selected: 1,300.00").wait_for()
    # Escape leaves a dialog without a decision.
    await page.keyboard.press("r")
    await page.keyboard.press("Escape")
    assert await queue.status(fourth) == "proposed"
    # Arrows go through the list where it has the focus, and scroll the page everywhere else.
    await page.locator("#queue-scroll").focus()
    await page.keyboard.press("ArrowUp")
    await shows(page, third)
    await page.get_by_role("button", name="Accept selected").focus()
    await page.keyboard.press("Enter")
    await page.locator("#reason-dialog[open]").get_by_text("2 selected: 1,300.00").wait_for()
    await page.keyboard.press("Enter")
    await says(page, "2 decided.")
    assert [await queue.status(match) for match in (third, fourth)] == ["accepted", "accepted"]
    await page.locator("#item-end").wait_for()


async def test_matching_runs_from_the_empty_queue_and_what_waits_is_counted_down(
    page: Page, console_world: ConsoleWorld
) -> None:
    for number in (1, 2):
        names = {"direction": "credit", "amount": f"7{number}.00", "currency": "EUR", "counterpartyName": "Tester"}
        item = {**names, "dueDate": "2026-03-10", "reference": f"TEST-RUN-000{number}"}
        line = {**names, "bookingDate": "2026-03-12", "remittance": f"TEST-RUN-000{number}"}
        for path, body in (("/expected-transactions", item), ("/incoming-transactions", line)):
            assert (await console_world.rest("POST", path, "test", json=body)).status_code == 201
    await page.goto("/console/test/review")
    await page.get_by_text("Nothing waits for you").wait_for()
    await page.get_by_role("button", name="Run matching").click()
    await page.get_by_text("Matching is done. Proposed: 2. Accepted without a person: 0.").wait_for(timeout=60_000)
    await page.get_by_text("2 wait, the most money first.").wait_for()
    await page.keyboard.press("a")
    await page.get_by_text("One waits.").wait_for()


async def test_at_a_zoom_of_200_per_cent_the_page_stays_at_the_match(page: Page, queue: Queue) -> None:
    waiting = await queue.propose(*(f"{amount}.00" for amount in range(300, 312)))
    await page.set_viewport_size({"width": 640, "height": 360})
    await opens(page)
    await shows(page, waiting[-1])
    assert await page.evaluate("window.scrollY") == 0
    await page.keyboard.press("j")
    await shows(page, waiting[-2])
    assert await page.evaluate("window.scrollY") == 0


async def test_single_keys_can_be_turned_off(page: Page, queue: Queue) -> None:
    first, second = await queue.propose("910.00", "810.00")
    await opens(page)
    await shows(page, first)
    await page.keyboard.press("?")
    await page.get_by_label("Single keys work on this page").uncheck()
    await page.keyboard.press("Escape")
    for key in ("j", "a", "x"):
        await page.keyboard.press(key)
    assert await shown(page) == first
    assert await queue.status(first) == "proposed"
    await page.get_by_role("button", name="Next").click()
    await shows(page, second)
    await page.reload()
    await shows(page, second)
    await page.keyboard.press("k")
    assert await shown(page) == second


async def test_the_queue_is_worked_through_by_mouse(page: Page, queue: Queue) -> None:
    first, second, third, fourth = await queue.propose("920.00", "820.00", "720.00", "620.00")
    await opens(page)
    await page.locator(f'.queue-row[data-id="{second}"] a').click()
    await shows(page, second)
    await page.get_by_role("button", name=re.compile("^Accept")).first.click()
    await shows(page, third)
    assert await queue.status(second) == "accepted"
    await page.get_by_role("button", name="Undo").click()
    await says(page, "Taken back")
    assert await queue.status(second) == "reversed"
    await page.get_by_role("button", name=re.compile("^Reject")).first.click()
    await page.locator("#reason-dialog [name=reason]").fill("not this one")
    await page.locator("#reason-go").click()
    await shows(page, fourth)
    assert await queue.status(third) == "rejected"
    await page.get_by_label("Select all that are listed").check()
    await page.locator("#selection-total", has_text="2 selected: 1,540.00").wait_for()
    await page.get_by_role("button", name="Accept selected").click()
    await page.locator("#reason-go").click()
    await says(page, "2 decided.")
    assert [await queue.status(match) for match in (first, fourth)] == ["accepted", "accepted"]
    measures = await page.evaluate("performance.getEntriesByName('decision-to-next').map((m) => m.duration)")
    print(f"decision to the next item: {[round(ms) for ms in measures]} ms")  # noqa: T201 - a figure for who reads it


async def test_where_one_was_is_remembered(page: Page, queue: Queue) -> None:
    first, second, third = await queue.propose("930.00", "830.00", "730.00")
    await opens(page)
    await shows(page, first)
    await page.get_by_role("button", name="Next").click()
    await shows(page, second)
    await page.reload()
    await shows(page, second)
    await page.get_by_role("button", name="Previous").click()
    await shows(page, first)
    await page.get_by_role("button", name="Next").click()
    await shows(page, second)
    await page.get_by_label("Currency").select_option("EUR")
    await page.get_by_role("button", name="Filter", exact=True).click()
    await shows(page, first)
    await page.get_by_role("button", name="Next").click()
    await shows(page, second)
    await page.goto("/console/production/overview")
    await page.get_by_role("link", name="Review").click()
    await shows(page, second)
    assert "currency=EUR" in page.url
    # Somebody else decides it meanwhile: what comes after it is next.
    await queue.world.rest("POST", f"/matches/{second}/accept", json={})
    await page.reload()
    await shows(page, third)
    await page.get_by_role("link", name="Begin at the top of the queue").first.click()
    await shows(page, first)


async def test_texts_of_strangers_do_nothing(page: Page, queue: Queue) -> None:
    asked: list[str] = []
    page.on("dialog", lambda dialog: asked.append(dialog.message))
    [first, _] = await queue.propose("980.00", "880.00", remittance=f"INV-{queue.count + 1:05}-Q {HOSTILE * 100}")
    await opens(page)
    await shows(page, first)
    await page.locator(".raw-text .hidden-character", has_text="U+202E").first.wait_for()
    await page.keyboard.press("j")
    await page.keyboard.press("k")
    await shows(page, first)
    await page.keyboard.press("s")
    await page.locator("#split-dialog[open]").wait_for()
    assert await page.locator("main img").count() == 0
    assert asked == []


async def test_who_only_looks_goes_through_the_queue(
    browser: Browser, queue: Queue, console_world: ConsoleWorld, axe: Callable[[Page], Awaitable[None]]
) -> None:
    first, second = await queue.propose("990.00", "890.00")
    async with opened(browser, console_world.base_url) as window:
        await sign_in(window, console_world, await console_world.person("viewer"))
        page = await window.new_page()
        await opens(page)
        await shows(page, first)
        for key in ("a", "r", "s", "x", "u", "1"):
            await page.keyboard.press(key)
        await page.keyboard.press("j")
        await shows(page, second)
        assert await page.locator("dialog[open]").count() == 0
        assert await queue.status(first) == "proposed"
        await axe(page)


async def test_what_else_would_fit_is_looked_for_when_somebody_stays(page: Page, queue: Queue) -> None:
    first, second, third, fourth = await queue.propose("860.00", "760.00", "660.00", "560.00")
    asked: list[str] = []

    async def answer(route: Route) -> None:
        asked.append(route.request.url.split("/")[-2])
        await route.continue_()

    await page.route("**/choices", answer)
    await page.clock.install()
    await page.clock.pause_at(datetime.now(UTC) + timedelta(hours=1))
    await opens(page)
    await shows(page, first)
    await page.keyboard.press("a")
    await shows(page, second)
    await page.locator("#review:not([aria-busy])").wait_for()
    await page.keyboard.press("a")
    await shows(page, third)
    await page.locator("#review:not([aria-busy])").wait_for()
    assert asked == [], "who goes on at once is not kept waiting by what nobody looks at"
    await page.clock.run_for(1_000)
    await page.locator("#item [data-choices][data-is-there]").wait_for()
    async with page.expect_response(f"**/{fourth}/choices") as told:
        await page.clock.run_for(1_000)
    await (await told.value).finished()
    # What the page asks for after that, it hears after that.
    await page.evaluate("fetch('/console/sign-in').then((answer) => answer.text())")
    # What was fetched ahead is there at once.
    await page.keyboard.press("j")
    await shows(page, fourth)
    await page.locator("#item [data-choices][data-is-there]").wait_for()
    await page.evaluate("document.querySelector('#item [data-choices]').classList.add('was-there')")
    # Who asks for the same match again sees it again.
    await page.locator(f'.queue-row[data-id="{fourth}"] a').click()
    await page.locator("#item [data-choices][data-is-there]:not(.was-there)").wait_for()
    assert asked == [third, fourth]


async def test_who_goes_on_stops_looking_for_what_else_would_fit(page: Page, queue: Queue) -> None:
    first, second = await queue.propose("870.00", "770.00")
    asked: list[Request] = []
    given_up: list[str] = []
    page.on("requestfailed", lambda request: given_up.append(request.url))

    async def unanswered(route: Route) -> None:
        asked.append(route.request)

    await page.route("**/choices", unanswered)
    await opens(page)
    await shows(page, first)
    await eventually(lambda: len(asked) == 1)
    await page.keyboard.press("a")
    await shows(page, second)
    await eventually(lambda: given_up == [asked[0].url])
    assert first in given_up[0]
    await eventually(lambda: len(asked) == 2)
    assert second in asked[1].url
    # Where the decision is refused, the match stays, and so does the wish to know.
    await held(page, "**/rest/matches/*/accept", lambda route: route.fulfill(status=422, json={"title": "not now"}))
    await page.keyboard.press("a")
    await says(page, "not now")
    await eventually(lambda: len(asked) == 3)
    assert second in asked[2].url
    await page.unroute_all(behavior="ignoreErrors")


async def eventually(is_so: Callable[[], bool]) -> None:
    """Wait until something holds."""
    until = asyncio.get_running_loop().time() + ACTION_MS / 1000
    while not is_so():
        assert asyncio.get_running_loop().time() < until
        await asyncio.sleep(0.01)


@asynccontextmanager
async def long_queue(world: ConsoleWorld, match: str, count: int) -> AsyncIterator[list[str]]:
    """Let so many more matches like this one wait, and tell them in their order."""
    scope = await scope_of_tenant(world.service.factory, world.acme)
    database = world.service.factory.context.database
    async with database.tenant(scope) as connection:
        seeded = [str(row["id"]) for row in await fetch_all(connection, SEEDED, {"like": match, "count": count})]
    try:
        yield seeded
    finally:
        async with database.tenant(scope) as connection:
            await connection.execute(
                b"DELETE FROM leg WHERE match_id IN (SELECT id FROM match WHERE created_by = 'engine:seeded')"
            )
            await connection.execute(b"DELETE FROM match WHERE created_by = 'engine:seeded'")


async def test_a_long_queue_is_scrolled_to_its_end(page: Page, queue: Queue, console_world: ConsoleWorld) -> None:
    [match] = await queue.propose("9.00")
    async with long_queue(console_world, match, LONG) as seeded:
        await page.add_init_script(WATCH)
        await opens(page)
        assert await page.locator(".queue-row").count() < LONG
        await page.evaluate(
            """async () => {
                const scroller = document.getElementById("queue-scroll");
                const until = performance.now() + 60_000;
                while (document.querySelector("#queue-foot [data-more]") && performance.now() < until) {
                    scroller.scrollTop = scroller.scrollHeight;
                    await new Promise((resolve) => requestAnimationFrame(resolve));
                }
            }"""
        )
        listed = await page.locator(".queue-row").evaluate_all("(rows) => rows.map((row) => row.dataset.id)")
        assert listed == [*seeded, match]
        long = await page.evaluate("window.longTasks")
        print(f"{len(long)} long tasks, the longest of {max(long, default=0):.0f} ms")  # noqa: T201 - a figure to read
        # Who comes back to the middle finds what is before it as well.
        await opens(page, f"{REVIEW}?match={seeded[60]}")
        await page.keyboard.press("k")
        await shows(page, seeded[59])
        await page.keyboard.press("k")
        await shows(page, seeded[58])


async def test_the_last_of_what_is_listed_leads_to_what_comes_after_it(
    page: Page, queue: Queue, console_world: ConsoleWorld
) -> None:
    [match] = await queue.propose("9.00")
    async with long_queue(console_world, match, PAGE_MATCHES + 2) as seeded:
        # What was seeded is no match that could be decided; what the page does with the answer is what counts here.
        decided = {"id": seeded[PAGE_MATCHES - 1], "status": "rejected"}
        await page.route("**/rest/matches/*/reject", lambda route: route.fulfill(json=decided))
        await opens(page)
        await page.locator(f'.queue-row[data-id="{decided["id"]}"] a').click()
        await shows(page, decided["id"])
        await page.keyboard.press("r")
        await page.locator("#reason-dialog[open]").get_by_role("button").first.click()
        await shows(page, seeded[PAGE_MATCHES])
        assert await page.locator(f'.queue-row[data-id="{decided["id"]}"]').count() == 0
        await page.keyboard.press("k")
        await shows(page, seeded[PAGE_MATCHES - 2])
