"""A month is closed as an accountant does it: a file, a run, matches by hand, what is set aside, a lock, and paper."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from support.browser import ConsoleWorld
from support.review_queue import says
from support.statements import IBAN
from support.transactions import expect

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = pytest.mark.anyio

FILE = """Buchungstag;Valuta;Auftraggeber/Empfänger;Verwendungszweck;Betrag;Währung
02.03.2026;02.03.2026;BOLT SCHRAUBEN GMBH;RG 2026/0042 abz. Geb.;1.246,50;EUR
03.03.2026;03.03.2026;Nagel AG;Danke;500,02;EUR
04.03.2026;04.03.2026;Stadtwerke;INV-2026-0044;88,00;EUR
31.03.2026;31.03.2026;;Kontofuehrung;-4,90;EUR
31.03.2026;31.03.2026;;Buchungsposten;-1,10;EUR
31.03.2026;31.03.2026;;Porto;-0,70;EUR
15.03.2026;16.03.2026;M. Muster;Test, bitte ignorieren;0,01;EUR
"""
"""What banks write: names in capitals, references of their own, and fees without a name."""

Axe = Callable[[Any], Awaitable[None]]
Shot = Callable[..., Awaitable[None]]


async def by_hand(page: Page, line: str, item: str, kind: str, note: str) -> None:
    """Match a line with an item by keys alone; the difference is what ``kind`` begins with."""
    await page.locator("[data-list=incoming] .line", has_text=line).locator(".line-choice").focus()
    await page.keyboard.press("Space")
    await page.locator("[data-list=expected] .line", has_text=item).locator(".line-choice").focus()
    await page.keyboard.press("Space")
    await page.keyboard.press("m")
    await page.keyboard.type(note)
    await page.keyboard.press("Shift+Tab")
    await page.keyboard.type(kind)
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await page.locator("[data-list=incoming] .line", has_text=line).wait_for(state="detached")
    await page.locator("#outcome-text", has_text="Matched.").wait_for()


async def set_aside(page: Page, words: str, count: int, category: str = "", reason: str = "") -> None:
    """Set the lines with these words aside by keys alone."""
    rows = page.locator("[data-list=incoming] .line", has_text=words)
    for number in range(await rows.count()):
        await rows.nth(number).locator(".line-choice").focus()
        await page.keyboard.press("Space")
    await page.keyboard.press("s")
    name = "Set a line aside" if count == 1 else f"Set {count} lines aside"
    await page.get_by_role("dialog", name=name).wait_for()
    if category:
        await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Tab")
    await page.keyboard.type(category or reason)
    await page.keyboard.press("Enter")
    await page.get_by_role("dialog", name=name).wait_for(state="hidden")
    await page.locator("#outcome-text", has_text="et aside.").wait_for()


async def test_march_is_closed_by_keyboard_alone(page: Page, console_world: ConsoleWorld, axe: Axe, shot: Shot) -> None:
    world = console_world
    for amount, name, reference in (
        ("1250.00", "Bolt Schrauben GmbH", "RG-2026-0042"),
        ("500.00", "Nagel AG", "INV-2026-0043"),
        ("88.00", "Stadtwerke", "INV-2026-0044"),
    ):
        await expect(world.acme, amount, counterpartyName=name, reference=reference)
    files = {"file": ("march.csv", FILE.encode("cp1252"))}
    answer = await world.acme.post("/incoming-transactions/upload", None, files=files, data={"account": IBAN})
    assert answer.status_code == 201, answer.text
    assert answer.json()["counts"]["accepted"] == 7, answer.text
    await page.goto("/console/production/unmatched")
    await by_hand(page, "RG 2026/0042", "RG-2026-0042", "Fee", "the bank kept a fee")
    await by_hand(page, "Danke", "INV-2026-0043", "Rounding", "two cents")
    for words, count, category, reason in (("no name", 3, "Bank fee", ""), ("Test, bitte", 1, "", "a test")):
        await set_aside(page, words, count, category, reason)
    await page.goto("/console/production/review")
    await page.get_by_role("button", name="Run matching").first.focus()
    await page.keyboard.press("Enter")
    await page.locator("#review[data-is-ready]").wait_for()
    await page.keyboard.press("a")
    await says(page, "Accepted.")
    await page.goto("/console/production/month-end?cutOff=2026-03-31")
    await page.get_by_label("Reason").first.focus()
    await page.keyboard.type("March is closed")
    await page.keyboard.press("Enter")
    await page.get_by_role("button", name="Reopen").wait_for()
    [lock] = (await world.rest("GET", "/period-locks")).json()["data"]
    assert (lock["through"], lock["override"], lock["status"]) == ("2026-03-31", False, "locked")
    await page.get_by_text("Figures as they were known at").first.wait_for()
    await page.get_by_role("heading", name="All days until Mar 31, 2026 are locked").wait_for()
    await axe(page)
    await page.emulate_media(media="print")
    # What is printed is black on white, however the system is set.
    await shot(page, "month-end-print", schemes=("light",))
    assert await page.get_by_role("row", name="Classified 3 lines -6.70").is_visible()
    await page.emulate_media(media="screen")
    await page.get_by_role("row", name="Classified 3 lines -6.70").get_by_role("link").click()
    await page.get_by_role("row", name="Mar 31, 2026 no name Porto -0.70 EUR").wait_for()
