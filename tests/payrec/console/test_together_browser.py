"""Several at once in a browser: matches that are decided and lines that are set aside, while somebody else does so."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from support.browser import ConsoleWorld, held, opened, sign_in
from support.console_writes import amounts, losing_the_first, told
from support.review_queue import Queue, module_queue, opens, queue, says, shows
from support.transactions import receive

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

__all__ = ["module_queue", "queue"]

pytestmark = pytest.mark.anyio

UNMATCHED = "/console/production/unmatched"


@asynccontextmanager
async def of_somebody_else(browser: Browser, world: ConsoleWorld, role: str = "approver") -> AsyncIterator[Page]:
    """Open a page of somebody else, in a window of his own."""
    async with opened(browser, world.base_url) as window:
        await sign_in(window, world, await world.person(role))
        yield await window.new_page()


async def decides(other: Page, match: str, key: str) -> None:
    """Let somebody else accept or reject a match, by a key."""
    await opens(other, f"/console/production/review?match={match}")
    await shows(other, match)
    await other.keyboard.press(key)
    if key == "r":
        await other.keyboard.press("Enter")
    await says(other, {"a": "Accepted.", "r": "Rejected;"}[key])


async def changes_item(queue: Queue, match: str) -> None:
    """Change what a proposal was made for, so that it cannot be accepted any more."""
    found = (await queue.world.rest("GET", f"/matches/{match}")).json()
    item = found["legs"][0]["expectedTransactionId"]
    answer = await queue.world.rest("PATCH", f"/expected-transactions/{item}", json={"reference": "ANOTHER-1"})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("way", ["mouse", "keyboard"])
async def test_of_several_it_is_told_which_are_ones_own_which_somebody_elses_and_which_failed(
    page: Page, browser: Browser, queue: Queue, console_world: ConsoleWorld, way: str
) -> None:
    accepted, rejected, stale, mine = matches = await queue.propose(*amounts(4))
    await opens(page)
    await shows(page, accepted)
    if way == "mouse":
        await page.check("#select-all")
    else:
        for following in (*matches[1:], None):
            await page.keyboard.press("x")
            await page.keyboard.press("j")
            if following:
                await shows(page, following)
    await page.locator("#selection-total", has_text="4 selected").wait_for()
    async with of_somebody_else(browser, console_world) as other:
        await decides(other, accepted, "a")
        await decides(other, rejected, "r")
    await changes_item(queue, stale)
    if way == "mouse":
        await page.get_by_role("button", name="Accept selected").click()
        await page.locator("#reason-dialog [name=reason]").fill("all of March")
        await page.locator("#reason-go").click()
    else:
        await page.get_by_role("button", name="Accept selected").focus()
        await page.keyboard.press("Enter")
        await page.keyboard.type("all of March")
        await page.keyboard.press("Enter")
    name = (await console_world.person("approver")).username
    summary = f"1 decided. Somebody was first with 2: {name}. 1 could not be decided and is still selected."
    outcome = page.locator("#outcome", has_text=summary)
    await outcome.wait_for()
    await outcome.get_by_text(re.compile(f"Accepted on .* by {name}")).wait_for()
    await outcome.get_by_text(re.compile(f"Rejected on .* by {name}")).wait_for()
    await outcome.locator("li", has_text=f"Müller {queue.count - 1}").get_by_text("changed").wait_for()
    assert await page.locator(".queue-row").evaluate_all("(rows) => rows.map((row) => row.dataset.id)") == [stale]
    assert await page.is_checked(f'.queue-row[data-id="{stale}"] [data-select]')
    await page.locator("#selection-total", has_text="1 selected").wait_for()
    assert [await queue.status(match) for match in matches] == ["accepted", "rejected", "proposed", "accepted"]
    record = (await console_world.rest("GET", f"/matches/{mine}")).json()
    assert record["decisionReason"] == "all of March"
    # Only what was one's own can be taken back.
    await page.keyboard.press("u")
    await says(page, "Taken back")
    assert [await queue.status(match) for match in (accepted, mine)] == ["accepted", "reversed"]
    assert await page.is_disabled('[data-do="undo"]')


async def test_what_gets_no_answer_stays_selected_and_is_decided_once_by_trying_again(
    page: Page, queue: Queue, axe: Callable[[Page], Awaitable[None]]
) -> None:
    first, second, third = await queue.propose(*amounts(3))
    keys: list[str] = []
    await opens(page)
    await page.check("#select-all")
    await held(page, f"**/rest/matches/{second}/accept", losing_the_first(keys))
    await page.get_by_role("button", name="Accept selected").click()
    await page.locator("#reason-go").click()
    await says(page, "1 decided. 2 may be undecided and are still selected; trying again is safe. It broke down")
    assert await queue.status(third) == "proposed"
    await axe(page)
    await page.get_by_role("button", name="Accept selected").click()
    await page.locator("#reason-go").click()
    await says(page, "2 decided.")
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert [await told(queue, match, "match.accepted") for match in (first, second, third)] == [1, 1, 1]
    await page.locator("#item-end").wait_for()


async def test_what_was_done_without_an_answer_is_ones_own_also_with_another_reason(page: Page, queue: Queue) -> None:
    [match] = await queue.propose(*amounts(1))
    await opens(page)
    await page.check("#select-all")
    await held(page, "**/rest/matches/*/reject", losing_the_first([]))
    for reason in ("not ours", "not ours either"):
        await page.get_by_role("button", name="Reject selected").click()
        await page.locator("#reason-dialog [name=reason]").fill(reason)
        await page.locator("#reason-go").click()
        await says(page, "may be undecided" if reason == "not ours" else "1 decided.")
    assert await told(queue, match, "match.rejected") == 1


async def lines(world: ConsoleWorld, currency: str, count: int = 3, **fields: Any) -> list[str]:
    """Store lines of the bank's, of 1.00, 2.00 and so on, and return them in that order."""
    given = {"currency": currency, "direction": "debit", "remittance": "Account fee", **fields}
    names = [f"Bank {number}" for number in range(count)]
    return [await receive(world.acme, f"{n + 1}.00", counterpartyName=name, **given) for n, name in enumerate(names)]


async def became(world: ConsoleWorld, ids: list[str]) -> list[str]:
    found = [(await world.rest("GET", f"/incoming-transactions/{line}")).json() for line in ids]
    return [f"{one['status']} {one.get('ignoredReason') or ''}".strip() for one in found]


async def test_several_lines_are_classified_by_mouse_and_brought_back(
    page: Page,
    console_world: ConsoleWorld,
    axe: Callable[[Page], Awaitable[None]],
    shot: Callable[..., Awaitable[None]],
) -> None:
    fees = await lines(console_world, "AUD")
    await page.goto(f"{UNMATCHED}?currency=AUD")
    for fee in fees:
        await page.check(f"#choose-{fee}")
    await page.get_by_role("button", name="Set 3 lines aside").click()
    dialog = page.get_by_role("dialog", name="Set 3 lines aside")
    await dialog.get_by_text("3 lines: -6.00 AUD").wait_for()
    await dialog.get_by_label("Classify it").check()
    await dialog.get_by_label("Category", exact=True).fill("Bank fee")
    await axe(page)
    await shot(page, "set-aside")
    await dialog.get_by_role("button", name="Set aside").click()
    await page.locator("#outcome", has_text="3 lines are set aside.").wait_for()
    assert await became(console_world, fees) == ["classified"] * 3
    [record, *_] = (await console_world.rest("GET", f"/audit-log?resourceId={fees[0]}")).json()["data"]
    assert record["after"]["category"] == "bank_fee"
    assert await page.is_hidden("#match-bar")
    await page.click("#undo")
    await page.locator("#outcome", has_text="Undone: 3 lines are open again.").wait_for()
    assert await became(console_world, fees) == ["unmatched"] * 3
    shown = await page.locator("[data-list=incoming] .line").evaluate_all("(rows) => rows.map((row) => row.dataset.id)")
    assert sorted(shown) == sorted(fees)


async def test_several_lines_are_ignored_by_keyboard_by_who_may_not_match(
    browser: Browser, console_world: ConsoleWorld
) -> None:
    fees = await lines(console_world, "NZD")
    async with of_somebody_else(browser, console_world, "operator") as page:
        await page.goto(f"{UNMATCHED}?currency=NZD")
        assert await page.locator("[data-list=expected] .line-choice, #match-send").count() == 0
        first = page.locator("[data-list=incoming] .line-choice").first
        await first.focus()
        for key in ("Space", "ArrowDown", "Space", "ArrowDown", "Space", "s"):
            await page.keyboard.press(key)
        await page.get_by_role("dialog", name="Set 3 lines aside").wait_for()
        await page.keyboard.press("Tab")
        await page.keyboard.type("the old bank's")
        await page.keyboard.press("Enter")
        await page.locator("#outcome", has_text="3 lines are set aside.").wait_for()
        assert await page.evaluate("document.activeElement.id") == "outcome"
    assert await became(console_world, fees) == ["ignored the old bank's"] * 3


async def test_of_several_lines_what_others_did_and_what_failed_is_told_and_trying_again_is_safe(
    page: Page, browser: Browser, console_world: ConsoleWorld, axe: Callable[[Page], Awaitable[None]]
) -> None:
    own, theirs, lost, last = fees = await lines(console_world, "SGD", 4)
    keys: list[str] = []
    await page.goto(f"{UNMATCHED}?currency=SGD")
    for fee in fees:
        await page.check(f"#choose-{fee}")
    async with of_somebody_else(browser, console_world) as other:
        await other.goto(f"{UNMATCHED}?currency=SGD")
        await other.click(f"#incoming-{theirs} [data-set-aside]")
        await other.fill("#aside-reason", "a refund of the bank")
        await other.click("#aside-send")
        await other.locator("#outcome", has_text="Set aside.").wait_for()
    await held(page, f"**/rest/incoming-transactions/{lost}/ignore", losing_the_first(keys))
    await page.click("#aside-chosen")
    await page.fill("#aside-reason", "below a limit")
    await page.click("#aside-send")
    fault = page.locator("#fault-aside", has_text="2 are not set aside; trying again is safe. It broke down")
    await fault.wait_for()
    await page.get_by_role("dialog", name="Set 2 lines aside").wait_for()
    await axe(page)
    assert await became(console_world, [own, last]) == ["ignored below a limit", "unmatched"]
    await page.click("#aside-send")
    outcome = page.locator("#outcome", has_text="3 lines are set aside. Somebody was first with one:")
    await outcome.wait_for()
    name = (await console_world.person("approver")).username
    await outcome.locator("li", has_text=re.compile(f"Bank 1 .*2.00.*Ignored .*{name}", re.DOTALL)).wait_for()
    assert len(keys) == 2
    assert len(set(keys)) == 1
    wanted = ["ignored below a limit", "ignored a refund of the bank", "ignored below a limit", "ignored below a limit"]
    assert await became(console_world, fees) == wanted
    await page.click("#undo")
    await page.locator("#outcome", has_text="Undone: 3 lines are open again.").wait_for()
    assert (await became(console_world, [theirs])) == ["ignored a refund of the bank"]


async def test_lines_are_not_set_aside_together_with_items(page: Page, queue: Queue) -> None:
    [line] = await lines(queue.world, "ZAR", 1)
    answer = await queue.world.rest(
        "POST", "/expected-transactions", json={"direction": "debit", "currency": "ZAR", "amount": "1.00"}
    )
    await page.goto(f"{UNMATCHED}?currency=ZAR")
    await page.check(f"#choose-{line}")
    await page.get_by_role("button", name="Set one line aside").wait_for()
    await page.check(f"#choose-{answer.json()['id']}")
    assert await page.is_hidden("#aside-chosen")
