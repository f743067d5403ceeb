"""Decisions of the review in a real browser: beside others, without an answer, with other amounts, and taken back."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import pytest

from support.browser import ConsoleWorld, held, opened, sign_in
from support.review_queue import Queue, module_queue, opens, queue, says, shows
from support.transactions import expect, receive

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page, Route

__all__ = ["module_queue", "queue"]

pytestmark = pytest.mark.anyio


async def test_of_two_people_the_second_sees_who_was_first(
    page: Page, queue: Queue, browser: Browser, console_world: ConsoleWorld
) -> None:
    first, second, third = await queue.propose("940.00", "840.00", "740.00")
    somebody = await console_world.person("approver")
    async with opened(browser, console_world.base_url) as window:
        await sign_in(window, console_world, somebody)
        other = await window.new_page()
        for one in (page, other):
            await opens(one)
            await shows(one, first)
        await other.keyboard.press("a")
        await shows(other, second)
        await page.keyboard.press("a")
        await shows(page, second)
        await says(page, "Somebody was first. Accepted on")
        await page.locator("#outcome", has_text=somebody.username).wait_for()
        await other.keyboard.press("r")
        await other.keyboard.press("Enter")
        await shows(other, third)
        await page.keyboard.press("a")
        await shows(page, third)
        await says(page, "Somebody was first. Rejected on")
    decided = (await console_world.rest("GET", f"/matches/{first}")).json()
    assert decided["decidedBy"] == f"user:{somebody.user_id}"
    assert await queue.status(second) == "rejected"


async def test_a_decision_whose_answer_is_lost_is_made_once(page: Page, queue: Queue) -> None:
    first, second = await queue.propose("950.00", "850.00")
    lost: list[str] = []

    async def lose(route: Route) -> None:
        key = route.request.headers["idempotency-key"]
        if len(lost) < 2:
            # The first is decided though nobody hears of it, the second does not even arrive.
            if not lost:
                await route.fetch()
            lost.append(key)
            await route.abort("connectionreset")
        else:
            lost.append(key)
            await route.continue_()

    await opens(page)
    await shows(page, first)
    await held(page, "**/rest/matches/*/accept", lose)
    await page.keyboard.press("a")
    await says(page, "The connection is lost")
    await shows(page, second)
    await says(page, "Accepted.")
    assert len(set(lost)) == 1
    assert len(lost) == 3
    found = (await queue.world.rest("GET", f"/matches/{first}/record")).json()
    assert [one["type"] for one in found["audit"]].count("match.accepted") == 1


async def test_what_else_would_fit_is_picked_by_its_digit(page: Page, queue: Queue) -> None:
    [proposed] = await queue.propose("960.00")
    names = {"direction": "credit", "currency": "EUR", "counterpartyName": f"Müller {queue.count}"}
    made = await queue.world.rest(
        "POST",
        "/expected-transactions",
        json={**names, "amount": "955.00", "dueDate": "2026-03-11", "reference": "OTHER-1"},
    )
    await opens(page)
    await shows(page, proposed)
    choice = page.locator(".choice", has_text="OTHER-1")
    await choice.get_by_text("Difference 5.00").wait_for()
    await choice.locator(".weight-for", has_text="Counterparty's name").wait_for()
    await choice.locator(".weight-against").first.wait_for()
    await choice.locator(".counterfactual").wait_for()
    await page.keyboard.press("1")
    await (
        page.locator("#reason-dialog[open]").get_by_text("955.00 EUR is matched; the difference stays open.").wait_for()
    )
    await page.keyboard.type("the invoice was corrected")
    await page.keyboard.press("Enter")
    await says(page, "Matched with what you picked.")
    assert await queue.status(proposed) == "superseded"
    item = (await queue.world.rest("GET", f"/expected-transactions/{made.json()['id']}")).json()
    assert item["status"] == "matched"


async def test_a_match_is_split(page: Page, queue: Queue, axe: Callable[[Page], Awaitable[None]]) -> None:
    [proposed] = await queue.propose("970.00")
    await opens(page)
    await shows(page, proposed)
    await page.keyboard.press("s")
    dialog = page.locator("#split-dialog[open]")
    amount = dialog.locator("[data-amount]").first
    assert await amount.input_value() == "970.00"
    await axe(page)
    await amount.fill("1,000.00")
    await dialog.get_by_text("Too much: 30.00").wait_for()
    await amount.fill("x")
    await dialog.get_by_label("Reason").fill("part of it")
    await dialog.get_by_role("button", name="Match these amounts").click()
    await dialog.get_by_text("An amount cannot be read.").wait_for()
    await amount.fill("400.00")
    await dialog.get_by_text("Left of the line: 570.00").wait_for()
    await dialog.get_by_role("button", name="Match these amounts").click()
    await says(page, "Matched with your amounts.")
    assert await queue.status(proposed) == "superseded"


async def test_beyond_a_limit_another_person_approves(
    page: Page, queue: Queue, browser: Browser, console_world: ConsoleWorld
) -> None:
    big, small = await queue.propose("5000.00", "50.00")
    path = f"/tenants/{console_world.acme.id}/settings"
    limit = {"approval": {"secondPersonAboveMinor": 100_000, "currency": "EUR"}}
    assert (await console_world.rest("PATCH", path, json=limit)).status_code == 200
    try:
        await opens(page)
        await shows(page, big)
        await page.keyboard.press("a")
        await says(page, "it waits for a second person now")
        await shows(page, small)
        assert await queue.status(big) == "pending_approval"
        await page.get_by_role("link", name="Waiting for a second person").click()
        await shows(page, big)
        await page.keyboard.press("a")
        await says(page, "That did not work")
        assert await queue.status(big) == "pending_approval"
        somebody = await console_world.person("approver")
        async with opened(browser, console_world.base_url) as window:
            await sign_in(window, console_world, somebody)
            other = await window.new_page()
            await opens(other, "/console/production/review?status=pending_approval")
            await shows(other, big)
            await other.get_by_text("another person has to approve it").wait_for()
            await other.get_by_role("button", name=re.compile("^Approve")).click()
            await says(other, "Approved.")
        assert await queue.status(big) == "accepted"
    finally:
        await console_world.rest("PATCH", path, json={"approval": None})


async def test_a_match_is_taken_back_on_its_page(page: Page, queue: Queue) -> None:
    [match] = await queue.propose("995.00")
    await queue.world.rest("POST", f"/matches/{match}/accept", json={})
    await page.goto(f"/console/production/matches/{match}")
    await page.get_by_role("button", name="Take back").first.click()
    await page.locator("#reverse-dialog [name=reason]").fill("paid twice")
    await page.keyboard.press("Enter")
    await page.locator("td", has_text="paid twice").first.wait_for()
    assert await queue.status(match) == "reversed"


HOSTILE = "<b>Müller</b>\u202e & Co"


async def escapes(page: Page) -> None:
    """Leave a dialog; until it is away, keys are still its own."""
    await page.keyboard.press("Escape")
    await page.locator("dialog[open]").wait_for(state="detached")


async def test_a_dialog_says_which_line_it_is_about(page: Page, queue: Queue) -> None:
    first, second = await queue.propose("960.00", "860.00", counterpartyName=HOSTILE, bookingDate="2026-03-13")
    names = {"direction": "credit", "currency": "EUR", "counterpartyName": HOSTILE}
    item = {**names, "amount": "955.00", "dueDate": "2026-03-11", "reference": "OTHER-2"}
    assert (await queue.world.rest("POST", "/expected-transactions", json=item)).status_code == 201
    await opens(page)
    await shows(page, first)
    number = await page.locator(".choice", has_text="OTHER-2").locator("kbd").inner_text()
    line = "Mar 13, 2026 · <b>Müller</b>U+202E & Co · 960.00\u00a0EUR"
    await page.keyboard.press(number)
    picked = page.get_by_role("dialog", name=f"Match {line}", exact=True)
    await picked.get_by_text("With Mar 11, 2026 · <b>Müller</b>U+202E & Co · 955.00\u00a0EUR.").wait_for()
    await escapes(page)
    await page.keyboard.press("r")
    await page.get_by_role("dialog", name="Reject", exact=True).get_by_text(line).wait_for()
    await escapes(page)
    await page.keyboard.press("s")
    await page.get_by_role("dialog", name=f"Match with other amounts: {line}", exact=True).wait_for()
    # What stands in its rows has no numbers of the evidence, which is not there.
    assert "evidence" not in await page.inner_text("#split-rows")
    await escapes(page)
    assert [await queue.status(match) for match in (first, second)] == ["proposed", "proposed"]


async def test_a_key_right_after_a_dialog_is_no_longer_the_dialogs(page: Page, queue: Queue) -> None:
    match, _ = await queue.propose("975.00", "875.00")
    await opens(page)
    await shows(page, match)
    await page.keyboard.press("r")
    await page.get_by_role("dialog", name="Reject", exact=True).wait_for()
    pressed = await page.evaluate(
        """() => {
            document.querySelector("dialog[open]").close();
            const had = document.activeElement;
            had.dispatchEvent(new KeyboardEvent("keydown", { key: "s", bubbles: true, cancelable: true }));
            return had.localName;
        }"""
    )
    assert pressed == "input"
    await page.get_by_role("dialog", name="Match with other amounts").wait_for()
    await escapes(page)
    assert await queue.status(match) == "proposed"


@pytest.mark.parametrize("way", ["mouse", "keyboard"])
async def test_what_was_taken_back_is_matched_again_by_hand(
    page: Page, queue: Queue, axe: Callable[[Page], Awaitable[None]], way: str
) -> None:
    match, _ = await queue.propose("965.00", "865.00")
    await opens(page)
    await shows(page, match)
    await page.keyboard.press("a")
    await says(page, "Accepted.")
    if way == "mouse":
        await page.get_by_role("button", name="Undo").click()
    else:
        await page.keyboard.press("u")
    link = page.locator("#outcome", has_text="Taken back").get_by_role("link", name="Match again by hand")
    await link.wait_for()
    await axe(page)
    if way == "mouse":
        await link.click()
    else:
        await link.focus()
        await page.keyboard.press("Enter")
    await page.locator("#match-bar").wait_for()
    found = (await queue.world.rest("GET", f"/matches/{match}")).json()
    [leg] = found["legs"]
    joined = [leg["incomingTransactionId"], leg["expectedTransactionId"]]
    assert await page.locator(".line").evaluate_all("(rows) => rows.map((row) => row.dataset.id)") == joined
    assert [await page.is_checked(f"#choose-{row}") for row in joined] == [True, True]
    await axe(page)
    # Nothing but the note is missing, and it is where one types.
    await page.keyboard.type("it was right after all")
    await page.keyboard.press("Enter")
    await page.locator("#outcome-text", has_text="Matched.").wait_for()
    again = (await queue.world.rest("GET", f"/matches?incomingTransactionId={joined[0]}&status=accepted")).json()[
        "data"
    ]
    assert [(one["kind"], one["amountMinor"], one["decisionReason"]) for one in again] == [
        ("one_to_one", 96_500, "it was right after all")
    ]
    await page.goto(f"/console/production/unmatched?match={match}")
    await page.get_by_text("No bank line is open here.").wait_for()
    assert await page.is_hidden("#match-bar")


async def test_a_match_with_a_fee_comes_back_with_its_fee(page: Page, queue: Queue) -> None:
    item = await expect(queue.world.acme, "100.00", currency="PLN")
    line = await receive(queue.world.acme, "97.00", currency="PLN")
    leg = {"expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": 9_700}
    fee = {"type": "bank_charge", "expectedTransactionId": item, "amountMinor": 300, "currency": "PLN"}
    body = {"legs": [leg], "adjustments": [fee], "reason": "less a charge"}
    made = (await queue.world.rest("POST", "/matches", json=body)).json()
    answer = await queue.world.rest("POST", f"/matches/{made['id']}/reverse", json={"reason": "wrong day"})
    assert answer.status_code == 200, answer.text
    await page.goto(f"/console/production/matches/{made['id']}")
    await page.get_by_role("link", name="Match again by hand").click()
    await page.locator("#match-bar").wait_for()
    assert await page.input_value("#match-adjustment") == "bank_charge"
    await page.keyboard.type("less a charge")
    await page.keyboard.press("Enter")
    await page.locator("#outcome-text", has_text="Matched.").wait_for()
    again = (await queue.world.rest("GET", f"/matches?incomingTransactionId={line}&status=accepted")).json()["data"]
    adjusted = [[(part["type"], part["amountMinor"]) for part in one["adjustments"]] for one in again]
    assert adjusted == [[("bank_charge", 300)]]


async def test_a_place_that_is_no_more_is_forgotten(page: Page, queue: Queue) -> None:
    [match] = await queue.propose("77.00")
    await opens(page)
    await shows(page, match)
    nowhere = "?match=018f0000-0000-7000-8000-000000000000"
    await page.evaluate(
        "(place) => Object.keys(sessionStorage).forEach((key) => { sessionStorage[key] = place; })", nowhere
    )
    await page.goto("/console/production/review")
    await page.get_by_text("There is nothing at this address").wait_for()
    await page.get_by_role("link", name="To the overview").click()
    await page.get_by_role("link", name="Review", exact=True).click()
    await shows(page, match)
