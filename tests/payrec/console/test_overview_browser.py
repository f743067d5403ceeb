"""The overview in a browser: charts that can be read without being seen, and figures that say when they do not come."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.books import keep_books
from support.browser import ConsoleWorld

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def books(console_world: ConsoleWorld) -> ConsoleWorld:
    """Acme has the demo's books, and some of this month."""
    await keep_books(console_world.acme)
    today = datetime.now(UTC).date()
    for number in range(60):
        line = {"amount": f"{number + 1}.00", "currency": "EUR", "direction": "credit", "account": "A"}
        booked = {"bookingDate": str(today - timedelta(days=number)), "remittance": f"INV-{number}"}
        assert (await console_world.rest("POST", "/incoming-transactions", json=line | booked)).status_code == 201
        item = {"amount": f"{number + 1}.00", "currency": "EUR", "direction": "credit", "reference": f"INV-{number}"}
        due = {"dueDate": str(today - timedelta(days=number))}
        if number % 5:
            assert (await console_world.rest("POST", "/expected-transactions", json=item | due)).status_code == 201
    run = await console_world.rest("POST", "/matches/match", json={"wait": 60})
    assert run.json()["status"] == "succeeded", run.text
    found = (await console_world.rest("GET", "/matches", params={"status": "proposed", "limit": 40})).json()["data"]
    ids = {"ids": [match["id"] for match in found]}
    accepted = await console_world.rest("POST", "/matches/accept", json=ids)
    assert accepted.status_code < 300, accepted.text
    return console_world


@pytest.mark.usefixtures("books")
async def test_every_chart_has_a_name_a_description_and_its_numbers_beside_it(page: Any, axe: Any, shot: Any) -> None:
    await page.goto("/console/production/overview")
    await page.get_by_role("heading", name="Open amounts by age").wait_for()
    charts = page.get_by_role("img")
    assert await charts.count() >= 3
    for chart in await charts.all():
        assert await chart.locator("title").text_content()
        assert len(str(await chart.locator("desc").text_content())) > 10
    assert await page.get_by_role("table").count() >= 5
    assert await page.locator("#figures").get_attribute("aria-busy") == "false"
    await axe(page)
    await shot(page, "overview")
    await page.set_viewport_size({"width": 640, "height": 800})
    overflow = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert overflow <= 0, "at 200 % nothing is beyond the edge"
    await axe(page)
    await shot(page, "overview-narrow")


@pytest.mark.usefixtures("books")
async def test_a_reason_leads_to_its_list_by_keyboard(page: Any) -> None:
    await page.goto("/console/production/overview")
    link = page.get_by_role("region", name="Why transactions are open").locator("a[href*=reasonCode]").first
    await link.focus()
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/console/production/unmatched?*reasonCode=*")


@pytest.mark.usefixtures("books")
async def test_figures_that_do_not_come_are_said_and_can_be_asked_for_again(page: Any, axe: Any) -> None:
    failing = True

    async def figures(route: Any) -> None:
        if failing:
            await route.fulfill(
                status=500, content_type="application/problem+json", body='{"code": "x", "title": "Not today"}'
            )
        else:
            await route.continue_()

    await page.route("**/overview/figures", figures)
    await page.goto("/console/production/overview")
    await page.get_by_text("The figures could not be added up").wait_for()
    await page.get_by_text("Not today").wait_for()
    await axe(page)
    failing = False
    await page.get_by_role("button", name="Try again").click()
    await page.get_by_role("heading", name="Open amounts by age").wait_for()


@pytest.mark.usefixtures("books")
async def test_production_is_told_by_words_and_another_environment_is_not_taken_for_it(
    page: Any,
) -> None:
    await page.goto("/console/production/overview")
    await page.get_by_text("Production: what is decided here is real money.").wait_for()
    assert "Production" in await page.title()
    await page.get_by_text("Environments").click()
    await page.get_by_role("link", name="Test").click()
    await page.wait_for_url("**/console/test/overview")
    assert await page.get_by_text("real money").count() == 0
    assert "Test" in await page.title()


@pytest.mark.usefixtures("books")
async def test_the_first_view_is_small_and_nothing_blocks_it(page: Any) -> None:
    client = await page.context.new_cdp_session(page)
    await client.send("Network.enable")
    sizes: list[int] = []
    client.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    await page.goto("/console/production/overview")
    await page.get_by_role("heading", name="Open amounts by age").wait_for()
    assert 0 < sum(sizes) <= 200_000
    scripts = await page.locator("script").all()
    assert scripts
    for script in scripts:
        assert await script.get_attribute("type") == "module"
