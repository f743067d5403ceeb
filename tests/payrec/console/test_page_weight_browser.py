"""What a page weighs, and whether it holds still: bytes, requests, scripts in the way, what is kept, the layout.

Axe looks at each. Time is not asserted: it is of the machine. The pages are those of the router table, so a new one is
looked at as well.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import pytest

from payrec.console.rendering import StaticFiles
from payrec.constants.console import GZIP_BYTES_MIN
from support.browser import ConsoleWorld, opened, sign_in
from support.console_places import address_of, keep_places
from support.console_routes import DOWNLOADS, ENTERED, console_paths

if TYPE_CHECKING:
    from playwright.async_api import Browser, Response

pytestmark = pytest.mark.anyio

Axe = Callable[[Any], Awaitable[None]]

BYTES_MAX: Final = 200_000
"""On the wire, when all that a page asks for by itself is there."""

REQUESTS_MAX: Final = 12
"""Until a page is loaded: the page itself, its styles and its scripts."""

SHIFT_MAX: Final = 0.1
"""The sum of all shifts of the layout; what browsers call good."""

PAGES: Final = (
    "/console/sign-in",
    f"{ENTERED}/overview",
    f"{ENTERED}/review",
    f"{ENTERED}/matches/{{match_id}}",
    f"{ENTERED}/imports",
    f"{ENTERED}/imports/timeline",
    f"{ENTERED}/imports/{{import_id}}",
    f"{ENTERED}/imports/{{import_id}}/lines",
    f"{ENTERED}/month-end",
    f"{ENTERED}/month-end/{{account_id}}",
    f"{ENTERED}/unmatched",
    f"{ENTERED}/unmatched/{{side}}/{{transaction_id}}/candidates",
    f"{ENTERED}/search",
    f"{ENTERED}/incoming/{{transaction_id}}",
    f"{ENTERED}/expected/{{transaction_id}}",
)
NO_PAGES: Final = {
    "/console": "leads to the overview",
    "/console/{environment}": "leads to the overview",
    "/console/callback": "leads to where the sign-in began",
    "/console/signed-in": "closes itself",
    "/console/static/{version}/{file}": "is a file",
    f"{ENTERED}/overview/figures": "is put into the overview",
    f"{ENTERED}/overview/activity": "is put into the overview",
    f"{ENTERED}/review/queue": "is put into the review",
    f"{ENTERED}/review/items/{{match_id}}": "is put into the review",
    f"{ENTERED}/review/items/{{match_id}}/choices": "is put into the review",
    f"{ENTERED}/month-end/readiness": "is put into the month end",
    f"{ENTERED}/month-end/{{account_id}}/statement": "is put into the month end",
}
QUERIES: Final = {f"{ENTERED}/search": "?q=a"}

WATCH: Final = """
window.shifted = 0;
new PerformanceObserver((list) => {
  for (const shift of list.getEntries()) if (!shift.hadRecentInput) window.shifted += shift.value;
}).observe({ type: "layout-shift", buffered: true });
"""
IN_THE_WAY: Final = """() => [
  ...[...document.scripts].filter((one) => one.type !== "module" && !one.defer).map((one) => one.outerHTML),
  ...performance.getEntriesByType("resource")
    .filter((one) => one.initiatorType === "script" && one.renderBlockingStatus === "blocking").map((one) => one.name),
]"""
AT_REST: Final = """async () => {
  const isBusy = () => document.querySelector('[aria-busy="true"]') || document.readyState !== "complete";
  while (isBusy()) await new Promise((later) => setTimeout(later, 20));
}"""


@pytest.fixture(scope="module")
async def places(console_world: ConsoleWorld) -> dict[str, str]:
    """Fill acme's production, and return what stands for the parameters of addresses."""
    return await keep_places(console_world.acme)


def test_every_page_is_looked_at() -> None:
    assert set(console_paths()) == {*PAGES, *NO_PAGES, *DOWNLOADS}


@pytest.mark.parametrize("route", PAGES)
async def test_a_page_is_light_holds_still_and_is_for_everybody(
    browser: Browser, console_world: ConsoleWorld, places: dict[str, str], route: str, axe: Axe
) -> None:
    async with opened(browser, console_world.base_url) as window:
        if route.startswith(ENTERED):
            await sign_in(window, console_world)
        page = await window.new_page()
        await page.add_init_script(WATCH)
        answers: list[Response] = []
        page.on("response", lambda told: answers.append(told))  # noqa: PLW0108 - playwright marks what it calls
        wire = await window.new_cdp_session(page)
        sent: list[float] = []
        wire.on("Network.loadingFinished", lambda told: sent.append(told["encodedDataLength"]))
        await wire.send("Network.enable")
        answer = await page.goto(address_of(route, places) + QUERIES.get(route, ""))
        assert answer is not None
        assert answer.status == 200
        requests = len(answers)
        await page.evaluate(AT_REST)
        await page.wait_for_load_state("networkidle")
        assert await page.evaluate(IN_THE_WAY) == []
        assert requests <= REQUESTS_MAX, [one.url for one in answers]
        assert sum(sent) <= BYTES_MAX
        assert await page.evaluate("window.shifted") <= SHIFT_MAX
        await check_kept(answers)
        await axe(page)


async def check_kept(answers: list[Response]) -> None:
    """Assert that what is larger than a trifle came compressed, and that files of ours are kept for ever."""
    version = StaticFiles().version
    for one in answers:
        headers: dict[str, Any] = await one.all_headers()
        if len(await one.body()) >= GZIP_BYTES_MIN:
            assert headers["content-encoding"] == "gzip", one.url
        if "/console/static/" in one.url:
            assert f"/static/{version}/" in one.url
            assert headers["cache-control"] == "public, max-age=31536000, immutable", one.url
