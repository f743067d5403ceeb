"""The page of what is open in a browser: matching by hand, candidates and setting aside, by mouse and by keyboard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import pytest

from support.browser import ConsoleWorld, opened, sign_in
from support.transactions import expect, receive

if TYPE_CHECKING:
    from playwright.async_api import Browser, CDPSession, Page

pytestmark = pytest.mark.anyio

UNMATCHED = "/console/production/unmatched"
ROWS_LAID_OUT_MAX = 60
"""Of 10,000 rows: those in sight, and so many beside them as a browser keeps ready."""

HOSTILE = '\u202egnp.exe<img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>'


async def status(world: ConsoleWorld, side: str, row: str) -> str:
    return str((await world.rest("GET", f"/{side}-transactions/{row}")).json()["status"])


async def test_a_line_and_an_item_are_matched_with_a_fee_by_mouse_and_undone(
    page: Page,
    console_world: ConsoleWorld,
    axe: Callable[[Page], Awaitable[None]],
    shot: Callable[..., Awaitable[None]],
) -> None:
    item = await expect(
        console_world.acme, "1250.00", counterpartyName="Bolt Schrauben GmbH", reference="INV-2026-0042"
    )
    line = await receive(
        console_world.acme, "1246.50", counterpartyName="BOLT SCHRAUBEN", remittance="INV 2026 42 abz. Geb."
    )
    await expect(console_world.acme, "88.00", counterpartyName="Nagel AG", reference="INV-2026-0043")
    await receive(
        console_world.acme, "19.90", counterpartyName="Stadtwerke", remittance="Abschlag 03/2026", direction="debit"
    )
    await page.goto(f"{UNMATCHED}?currency=EUR&sort=newest")
    await page.click(f"#choose-{line}")
    await page.click(f"#choose-{item}")
    bar = page.locator("#match-bar")
    assert "-3.50\u00a0EUR" in await bar.inner_text()
    await page.click("#match-send")
    assert "Say why these belong together." in await bar.inner_text()
    await page.select_option("#match-adjustment", "fee")
    await page.fill("#match-reason", "The bank kept a fee")
    await axe(page)
    await shot(page, "unmatched")
    await page.click("#match-send")
    await page.wait_for_selector("#outcome:not([hidden])")
    assert "Matched." in await page.inner_text("#outcome")
    assert await page.locator(f"#incoming-{line}, #expected-{item}").count() == 0
    assert [await status(console_world, "expected", item), await status(console_world, "incoming", line)] == [
        "matched"
    ] * 2
    href = await page.get_attribute("#outcome-link", "href")
    made = (await console_world.rest("GET", f"/matches/{str(href).rpartition('/')[2]}")).json()
    assert [(one["type"], one["amountMinor"]) for one in made["adjustments"]] == [("fee", 350)]
    assert made["decisionReason"] == "The bank kept a fee"
    await page.click("#undo")
    await page.locator("#outcome-text", has_text="Undone").wait_for()
    assert await page.locator(f"#incoming-{line}, #expected-{item}").count() == 2
    assert [await status(console_world, "expected", item), await status(console_world, "incoming", line)] == [
        "open",
        "unmatched",
    ]


async def test_two_items_are_matched_with_one_line_by_keyboard_alone(page: Page, console_world: ConsoleWorld) -> None:
    line = await receive(console_world.acme, "300.00", currency="CHF", counterpartyName="Keyboard AG")
    items = [await expect(console_world.acme, amount, currency="CHF") for amount in ("100.00", "205.00")]
    await page.goto(f"{UNMATCHED}?currency=CHF")
    await page.focus(f"#choose-{line}")
    await page.keyboard.press("Space")
    await page.keyboard.press("ArrowRight")
    await page.keyboard.press("Space")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Space")
    assert "-5.00\u00a0CHF" in await page.inner_text("#match-sums")
    await page.keyboard.press("m")
    await page.keyboard.type("Both are paid")
    await page.keyboard.press("Shift+Tab")
    await page.keyboard.type("Disc")
    assert await page.input_value("#match-adjustment") == "discount"
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await page.wait_for_selector("#outcome:not([hidden])")
    assert [await status(console_world, "expected", item) for item in items] == ["matched", "matched"]
    assert await page.evaluate("document.activeElement.id") == "outcome"
    await page.keyboard.press("Tab")
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.id") == "undo"


async def test_candidates_are_shown_and_chosen(
    page: Page,
    console_world: ConsoleWorld,
    axe: Callable[[Page], Awaitable[None]],
    shot: Callable[..., Awaitable[None]],
) -> None:
    item = await expect(console_world.acme, "640.00", currency="NOK", reference="INV-640", counterpartyName="Fjord AS")
    line = await receive(console_world.acme, "640.00", currency="NOK", remittance="INV-640", bookingDate="2026-05-13")
    await page.goto(f"{UNMATCHED}?currency=NOK")
    await page.focus(f"#choose-{line}")
    await page.keyboard.press("c")
    beside = page.locator(f"#beside-{line}")
    await beside.locator("[data-choose-candidate]").wait_for()
    assert "dateWindowDaysAfter were 64 days; it is 60" in await beside.inner_text()
    await axe(page)
    await shot(page, "unmatched-candidates")
    await beside.locator("[data-choose-candidate]").click()
    assert await page.is_checked(f"#choose-{line}")
    assert await page.is_checked(f"#choose-{item}")
    assert await page.evaluate("document.activeElement.id") == "match-reason"
    await page.keyboard.type("late, but it is it")
    await page.keyboard.press("Enter")
    await page.wait_for_selector("#outcome:not([hidden])")
    assert await status(console_world, "expected", item) == "matched"


async def test_any_choice_makes_a_match_that_takes_no_more_than_is_open(page: Page) -> None:
    await page.goto(UNMATCHED)
    wrong = await page.evaluate(
        """async () => {
            const own = document.querySelector("script[src$='unmatched.js']").src;
            const { gap, matchOf } = await import(new URL("manual_match.js", own));
            let seed = 7;
            const upTo = (n) => { seed = (seed * 48271) % 2147483647; return seed % n; };
            const wrong = [];
            let made = 0;
            for (let round = 0; round < 5000; round += 1) {
                const rows = Array.from({ length: 1 + upTo(6) }, (_, id) => ({
                    id: String(id), side: upTo(2) ? "incoming" : "expected", direction: upTo(4) ? "credit" : "debit",
                    open: BigInt(1 + upTo(40)), currency: "EUR", exponent: 2,
                }));
                const adjusted = upTo(2) === 1;
                const found = matchOf(rows, adjusted ? "fee" : "");
                if (found.fault) continue;
                made += 1;
                const taken = new Map(rows.map((row) => [row.id, 0n]));
                const take = (id, minor) => taken.set(id, taken.get(id) + BigInt(minor));
                for (const { amountMinor, ...ends } of found.legs) {
                    const ids = Object.values(ends);
                    const [one, other] = ids.map((id) => rows[Number(id)]);
                    if ((one.direction === other.direction) === (one.side === other.side)) wrong.push("direction");
                    if (amountMinor < 1) wrong.push("empty leg");
                    for (const id of ids) take(id, amountMinor);
                }
                for (const one of found.adjustments) {
                    take(one.expectedTransactionId ?? one.incomingTransactionId, one.amountMinor);
                }
                if (rows.some((row) => taken.get(row.id) > row.open)) wrong.push("more than is open");
                if (rows.some((row) => taken.get(row.id) < 1n)) wrong.push("untouched");
                const isOneWay = rows.every((row) => row.direction === "credit");
                const isWhole = rows.every((row) => taken.get(row.id) === row.open);
                if (isOneWay && (gap(rows) === 0n || adjusted) && !isWhole) wrong.push("not whole");
            }
            return made > 500 ? wrong : [`only ${made} matches were made`];
        }"""
    )
    assert wrong == []


async def test_a_credit_note_is_set_off_beside_a_payment(page: Page, console_world: ConsoleWorld) -> None:
    invoice = await expect(console_world.acme, "100.00", currency="TRY")
    note = await expect(console_world.acme, "20.00", currency="TRY", direction="debit")
    line = await receive(console_world.acme, "80.00", currency="TRY")
    await page.goto(f"{UNMATCHED}?currency=TRY")
    for row in (line, note, invoice):
        await page.check(f"#choose-{row}")
    assert await page.is_disabled("#match-adjustment")
    await page.fill("#match-reason", "less the credit note")
    await page.click("#match-send")
    await page.wait_for_selector("#outcome:not([hidden])")
    assert [await status(console_world, "expected", row) for row in (invoice, note)] == ["matched", "matched"]


async def test_what_another_person_has_taken_is_told_and_stays(page: Page, console_world: ConsoleWorld) -> None:
    item, line = await expect(console_world.acme, currency="SEK"), await receive(console_world.acme, currency="SEK")
    await page.goto(f"{UNMATCHED}?currency=SEK")
    await page.check(f"#choose-{line}")
    await page.check(f"#choose-{item}")
    legs = [{"expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": 10_000}]
    assert (await console_world.rest("POST", "/matches", json={"legs": legs, "reason": "first"})).status_code == 201
    await page.fill("#match-reason", "second")
    await page.click("#match-send")
    await page.wait_for_selector("#fault-match:not([hidden])")
    assert await page.input_value("#match-reason") == "second"
    assert await page.locator(f"#incoming-{line}").count() == 1


async def test_what_cannot_be_matched_is_told_before_it_is_sent(page: Page, console_world: ConsoleWorld) -> None:
    one, other = await receive(console_world.acme, currency="DKK"), await receive(console_world.acme, currency="PLN")
    await page.goto(UNMATCHED)
    await page.fill("#filter-q", "")
    await page.goto(f"{UNMATCHED}?currency=DKK")
    await page.check(f"#choose-{one}")
    await page.fill("#match-reason", "alone")
    await page.click("#match-send")
    assert "Choose something that goes with it" in await page.inner_text("#fault-match")
    await page.goto(f"{UNMATCHED}?q=&sort=newest")
    for row in (one, other):
        await page.check(f"#choose-{row}")
    assert await page.locator("#match-sums tr").count() == 2
    await page.fill("#match-reason", "both")
    await page.click("#match-send")
    assert "one currency at a time" in await page.inner_text("#fault-match")
    await page.focus(f"#choose-{one}")
    await page.keyboard.press("Escape")
    assert await page.is_hidden("#match-bar")


@pytest.mark.parametrize("what", ["ignore", "classify"])
async def test_a_line_is_set_aside_and_brought_back(
    page: Page, console_world: ConsoleWorld, axe: Callable[[Page], Awaitable[None]], what: str
) -> None:
    line = await receive(console_world.acme, "9.90", currency="HUF" if what == "ignore" else "CZK", direction="debit")
    await page.goto(f"{UNMATCHED}?currency={'HUF' if what == 'ignore' else 'CZK'}")
    await page.click(f"#incoming-{line} [data-set-aside]")
    if what == "ignore":
        await axe(page)
        await page.click("#aside-send")
        assert "Say why" in await page.inner_text("#fault-aside-reason")
        await page.fill("#aside-reason", "a test payment")
    else:
        await page.check("[name=what][value=classify]")
        await page.fill("#aside-category", "bank_fee")
    await page.click("#aside-send")
    await page.wait_for_selector("#outcome:not([hidden])")
    wanted = "ignored" if what == "ignore" else "classified"
    assert await status(console_world, "incoming", line) == wanted
    await page.click("#undo")
    await page.locator("#outcome-text", has_text="Undone").wait_for()
    assert await status(console_world, "incoming", line) == "unmatched"
    assert await page.locator(f"#incoming-{line}").count() == 1


async def test_more_rows_are_appended_and_keep_what_is_chosen(page: Page, console_world: ConsoleWorld) -> None:
    items = [
        {"direction": "credit", "currency": "ISK", "amountMinor": n + 1, "bookingDate": "2026-03-12"}
        for n in range(120)
    ]
    answer = await console_world.rest("POST", "/incoming-transactions/bulk", json={"items": items})
    assert {result["status"] for result in answer.json()["results"]} == {201}
    await page.goto(f"{UNMATCHED}?currency=ISK")
    rows = page.locator("[data-list=incoming] .lines > .line")
    assert await rows.count() == 50
    await rows.first.locator(".line-choice").check()
    await page.focus("[data-more=incoming]")
    await page.keyboard.press("Enter")
    await rows.nth(99).wait_for(state="attached")
    await page.mouse.wheel(0, 100_000)
    await rows.nth(119).wait_for(state="attached")
    assert await page.locator("[data-more=incoming]").count() == 0
    assert len(set(await rows.evaluate_all("rows => rows.map((row) => row.dataset.id)"))) == 120
    assert await page.locator(".line-choice:checked").count() == 1


async def test_the_shorter_list_goes_on_when_its_end_was_passed(page: Page, console_world: ConsoleWorld) -> None:
    money = {"direction": "credit", "currency": "CZK"}
    lines = [{**money, "amountMinor": n + 1, "bookingDate": "2026-03-12"} for n in range(60)]
    items = [{**money, "amountMinor": n + 1, "dueDate": "2026-03-12", "description": "long " * 50} for n in range(100)]
    for path, rows in (("/incoming-transactions/bulk", lines), ("/expected-transactions/bulk", items)):
        answer = await console_world.rest("POST", path, json={"items": rows})
        assert {result["status"] for result in answer.json()["results"]} == {201}
    await page.goto(f"{UNMATCHED}?currency=CZK")
    # The end of the lines is so far above the end of the page that nothing there is near it.
    await page.evaluate("document.querySelector('.sides > :last-child').style.paddingBottom = '20000px'")
    await page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    await page.locator("[data-list=incoming] .line").nth(59).wait_for(state="attached")
    await page.locator("[data-list=expected] .line").nth(99).wait_for(state="attached")


async def test_rows_come_five_in_a_frame_whichever_side_they_are_of(page: Page, console_world: ConsoleWorld) -> None:
    """To lay out two whole pages in one frame holds the page up for longer than 50 ms on busy cores."""
    money = {"direction": "credit", "currency": "THB"}
    for path, day in (("/incoming-transactions/bulk", "bookingDate"), ("/expected-transactions/bulk", "dueDate")):
        rows = [{**money, "amountMinor": n + 1, day: "2026-03-12"} for n in range(100)]
        answer = await console_world.rest("POST", path, json={"items": rows})
        assert {result["status"] for result in answer.json()["results"]} == {201}
    await page.goto(f"{UNMATCHED}?currency=THB")
    await page.evaluate(
        """() => {
            window.came = {};
            const watcher = new MutationObserver((changes) => {
                // The same for all that is done in a frame.
                const frame = document.timeline.currentTime;
                for (const node of changes.flatMap(({ addedNodes }) => [...addedNodes])) {
                    came[frame] = (came[frame] ?? 0) + (node.querySelectorAll?.(".line").length ?? 0);
                }
            });
            for (const list of document.querySelectorAll("[data-list]")) {
                watcher.observe(list, { childList: true, subtree: true });
            }
            for (const link of document.querySelectorAll("[data-more]")) link.click();
        }"""
    )
    for side in ("expected", "incoming"):
        await page.locator(f"[data-list={side}] .line").nth(99).wait_for(state="attached")
    assert await page.evaluate("Object.values(came)") == [5] * 20


async def test_texts_of_strangers_run_nowhere(page: Page, console_world: ConsoleWorld) -> None:
    fields = {"currency": "RON", "counterpartyName": HOSTILE, "counterpartyAccount": HOSTILE}
    item = await expect(console_world.acme, reference=HOSTILE, description=HOSTILE, **fields)
    line = await receive(console_world.acme, remittance=HOSTILE, metadata={"k": HOSTILE}, **fields)
    await page.goto(f"{UNMATCHED}?currency=RON")
    await page.click(f"#incoming-{line} [data-candidates]")
    await page.wait_for_selector(f"#beside-{line} .candidate")
    await page.click(f"#incoming-{line} [data-set-aside]")
    assert "U+202E" in await page.inner_text("#aside-line")
    for path in (f"incoming/{line}", f"expected/{item}", "search?q=onerror"):
        await page.goto(f"/console/production/{path}")
        assert "onerror" in await page.inner_text("main")
        assert await page.locator("main img").count() == 0
        assert "owned" not in await page.title()


async def test_it_is_whole_at_a_zoom_of_200_per_cent(browser: Browser, console_world: ConsoleWorld) -> None:
    await receive(console_world.acme, "7.00", currency="BGN", counterpartyName="Long " * 20)
    async with opened(browser, console_world.base_url, viewport={"width": 640, "height": 400}) as context:
        await sign_in(context, console_world)
        page = await context.new_page()
        await page.goto(f"{UNMATCHED}?currency=BGN")
        await page.locator(".line-choice").first.check()
        assert await page.is_visible("#match-send")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_ten_thousand_rows_scroll_without_a_long_task(page: Page, console_world: ConsoleWorld) -> None:
    """By the time that the page's thread works for a step, which others on the machine do not lengthen."""
    items = [
        {"direction": "credit", "currency": "MXN", "amountMinor": n + 1, "bookingDate": "2026-03-12"} for n in range(50)
    ]
    await console_world.rest("POST", "/incoming-transactions/bulk", json={"items": items})
    await page.goto(f"{UNMATCHED}?currency=MXN")
    await page.evaluate(
        """() => {
            const list = document.querySelector("[data-list=incoming]");
            for (let n = 1; n < 200; n += 1) {
                const copy = list.firstElementChild.cloneNode(true);
                for (const part of copy.querySelectorAll("[id]")) part.id += `-${n}`;
                list.append(copy);
            }
        }"""
    )
    assert await page.locator("[data-list=incoming] .line").count() == 10_000
    measured = await page.context.new_cdp_session(page)
    await measured.send("Performance.enable", {"timeDomain": "threadTicks"})
    busy = []
    for _ in range(50):
        before = await page_seconds(measured)
        await page.evaluate(
            "() => { scrollBy(0, 700); return new Promise((d) => requestAnimationFrame(() => setTimeout(d))); }"
        )
        busy.append(await page_seconds(measured) - before)
    assert max(busy) <= 0.05, busy
    laid_out = "(rows) => rows.filter((row) => row.checkVisibility({ contentVisibilityAuto: true })).length"
    assert await page.locator(".line").evaluate_all(laid_out) <= ROWS_LAID_OUT_MAX


async def page_seconds(measured: CDPSession) -> float:
    """Return how long the page's thread has worked on styles, layout and scripts; painting is the screen's."""
    metrics = {m["name"]: m["value"] for m in (await measured.send("Performance.getMetrics"))["metrics"]}
    return float(sum(metrics[f"{kind}Duration"] for kind in ("RecalcStyle", "Layout", "Script")))
