"""A line and an item of two currencies, matched by hand at a rate that somebody types."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from payrec.domain.fx_rates import converted, parse_rate
from payrec.domain.money import exponent
from support.browser import ConsoleWorld
from support.transactions import expect, receive

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = pytest.mark.anyio

UNMATCHED = "/console/production/unmatched"
Shot = Callable[..., Awaitable[None]]
Axe = Callable[[Any], Awaitable[None]]


async def pair(world: ConsoleWorld, name: str, currency: str = "USD") -> tuple[str, str]:
    item = await expect(world.acme, "92.00", counterpartyName=name)
    return await receive(world.acme, "100.00", currency=currency, counterpartyName=name), item


async def stored(page: Page, world: ConsoleWorld) -> dict[str, Any]:
    await page.locator("#outcome-text", has_text="Matched.").wait_for()
    href = str(await page.get_attribute("#outcome-link", "href"))
    return dict((await world.rest("GET", f"/matches/{href.rpartition('/')[2]}")).json())


async def test_a_rate_is_asked_for_and_its_difference_named_by_mouse(
    page: Page, console_world: ConsoleWorld, axe: Axe, shot: Shot
) -> None:
    line, item = await pair(console_world, "Mouse Inc")
    await page.goto(f"{UNMATCHED}?q=Mouse")
    await page.click(f"#choose-{line}")
    assert await page.locator("#rate-field").is_hidden()
    await page.click(f"#choose-{item}")
    await page.fill("#match-reason", "paid in dollars")
    await page.click("#match-send")
    assert "Say what one unit is in the other currency" in await page.inner_text("#fault-rate")
    assert await page.evaluate("document.activeElement.id") == "match-rate"
    await page.get_by_label("1 USD in EUR").fill("0.919")
    assert await page.inner_text("#rate-told") == "91.90\u00a0EUR at this rate; difference 0.10\u00a0EUR"
    await page.select_option("#match-adjustment", "fx")
    await axe(page)
    await shot(page, "exchange")
    await page.click("#match-send")
    made = await stored(page, console_world)
    assert [(one["type"], one["amountMinor"], one["rate"]) for one in made["adjustments"]] == [("fx", 10, "0.919")]
    assert [leg["settledMinor"] for leg in made["legs"]] == [9_190]
    await page.click("#undo")
    await page.locator("#outcome-text", has_text="Undone").wait_for()
    # What was taken back is matched again with the rate that is typed then.
    await page.goto(f"{UNMATCHED}?match={made['id']}")
    assert await page.locator("#rate-field").is_visible()
    assert await page.input_value("#match-adjustment") == "fx"


async def test_what_a_rate_leaves_stays_open_by_keyboard(page: Page, console_world: ConsoleWorld) -> None:
    line, item = await pair(console_world, "Keys Inc", "CHF")
    await page.goto(f"{UNMATCHED}?q=Keys")
    for row in (line, item):
        await page.focus(f"#choose-{row}")
        await page.keyboard.press("Space")
    await page.keyboard.press("m")
    await page.keyboard.type("paid in francs")
    await page.keyboard.press("Shift+Tab")
    await page.keyboard.press("Shift+Tab")
    await page.keyboard.type("1,2")
    await page.keyboard.press("Enter")
    assert await page.locator("#fault-rate").is_visible()
    await page.fill("#match-rate", "0.93")
    await page.keyboard.press("Enter")
    assert "worth more than what is open" in await page.inner_text("#fault-adjustment")
    await page.fill("#match-rate", "0.9")
    await page.keyboard.press("Enter")
    made = await stored(page, console_world)
    assert [one["amountMinor"] for one in made["adjustments"]] == [0]
    found = (await console_world.rest("GET", f"/expected-transactions/{item}")).json()
    assert (found["status"], found["openAmountMinor"]) == ("partially_matched", 200)


async def test_what_more_than_one_rate_would_join_is_not_asked_for_one(page: Page, console_world: ConsoleWorld) -> None:
    line, item = await pair(console_world, "Three Inc", "SEK")
    other = await expect(console_world.acme, "8.00", currency="NOK", counterpartyName="Three Inc")
    await page.goto(f"{UNMATCHED}?q=Three")
    for row in (line, item, other):
        await page.click(f"#choose-{row}")
    assert await page.locator("#rate-field").is_hidden()
    await page.fill("#match-reason", "all at once")
    await page.click("#match-send")
    assert "one line with one item at a rate" in await page.inner_text("#fault-match")


async def test_a_line_is_worth_what_the_server_makes_of_it(page: Page) -> None:
    chance = Random(0)  # noqa: S311 - no secret
    cases = []
    for of, into in product(("USD", "JPY", "BHD"), ("EUR", "JPY", "BHD")):
        for _ in range(20):
            minor, rate = chance.randint(1, 10**9), f"{chance.randint(0, 200)}.{chance.randint(1, 10**8):08}"
            worth = converted(minor, of, parse_rate(rate), into)
            cases.append([str(minor), exponent(of), exponent(into), rate.replace(".", ","), str(worth)])
    await page.goto(UNMATCHED)
    wrong = await page.evaluate(
        """async (cases) => {
            const own = document.querySelector('script[src*="unmatched.js"]').src;
            const { rateOf, worth } = await import(new URL("manual_match.js", own));
            return cases.filter(([minor, of, into, typed, right]) => {
                const pair = { line: { open: BigInt(minor), exponent: of }, item: { exponent: into } };
                return worth(pair, rateOf(typed, ",")) !== BigInt(right);
            });
        }""",
        cases,
    )
    assert wrong == []
