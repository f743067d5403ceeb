"""The policy of the pages, in a browser: nothing runs that is not a file of ours, however it comes into a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from support.browser import ConsoleWorld, opened, sign_in
from support.console_routes import console_paths
from support.review_queue import Queue, module_queue, opens, queue
from support.transactions import receive

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page, Route

__all__ = ["module_queue", "queue"]

pytestmark = pytest.mark.anyio

REFUSED: Final = ("Content Security Policy", "TrustedHTML", "TrustedScript", "Trusted Type")
"""Words of what the browser writes when it refuses something."""

ANYTHING: Final = ("",)
"""Of a page in which each attempt ends in an error of its own."""

INJECT: Final = """async () => {
    const through = [];
    const refusals = [];
    document.addEventListener("securitypolicyviolation", (event) => refusals.push(event.effectiveDirective));
    window.injected = [];
    const made = (name) => document.body.appendChild(document.createElement(name));
    const later = () => new Promise((resolve) => setTimeout(resolve, 5));
    const styled = (element) => getComputedStyle(element).outlineWidth === "7px";
    const tries = {
        "a script element": () => made("script").append("injected.push(1)"),
        "a script of data": () => { made("script").src = "data:text/javascript,injected.push(1)"; },
        "an attribute of an event": () => {
            const button = made("button");
            button.setAttribute("onclick", "injected.push(1)");
            button.click();
        },
        "an address of a script": () => {
            const link = made("a");
            link.href = "javascript:injected.push(1)";
            link.click();
        },
        "eval": () => (0, eval)("injected.push(1)"),
        "a function of a text": () => new Function("injected.push(1)")(),
        "a timer of a text": () => setTimeout("injected.push(1)"),
        "inner HTML": () => { made("div").innerHTML = "<img src=x onerror=injected.push(1)>"; },
        "a document of a frame": () => { made("iframe").srcdoc = "<script>parent.injected.push(1)</script>"; },
        "a policy of another name": () => trustedTypes.createPolicy("other", { createHTML: (text) => text }),
        "a style attribute": () => {
            const element = made("div");
            element.setAttribute("style", "outline: 7px solid");
            if (styled(element)) injected.push(1);
        },
        "a style element": () => {
            const element = made("div");
            made("style").append("div { outline: 7px solid }");
            if (styled(element)) injected.push(1);
        },
        "another site": async () => { await fetch("http://127.0.0.1:9/"); injected.push(1); },
        "a base": () => {
            document.head.appendChild(document.createElement("base")).href = "http://127.0.0.1:9/";
            if (!document.baseURI.startsWith(location.origin)) injected.push(1);
        },
        "a plug-in": () => { made("object").data = "data:text/html,x"; },
    };
    for (const [name, attempt] of Object.entries(tries)) {
        window.injected.length = 0;
        refusals.length = 0;
        let isRefused = false;
        try {
            await attempt();
            await later();
        } catch {
            isRefused = true;
        }
        if (window.injected.length || !(isRefused || refusals.length)) through.push(name);
    }
    return through;
}"""
"""Tries whatever a text could do if it became more than one, and returns what was not refused."""

BROKEN: Final = (
    '<article data-id="x" data-status="proposed" data-transactions=""><h2 id="item-title" tabindex="-1">x</h2>'
    "<script>injected = 1</script><img src=x onerror='injected = 1'><svg onload='injected = 1'></svg>"
    "<a id=bait href='javascript:injected = 1' onclick='injected = 1'>bait</a>"
    "<iframe srcdoc='<script>parent.injected = 1</script>'></iframe>"
    "<p style='outline: 7px solid' id=styled>x</p></article>"
)
"""A fragment of a server whose templates escape nothing any more."""

PAGES: Final = ("overview", "review", "unmatched", "search?q=1", "imports", "imports/timeline", "month-end", "nothing")


async def test_nothing_that_is_put_into_a_page_runs(
    browser: Browser, console_world: ConsoleWorld, queue: Queue
) -> None:
    match, other = await queue.propose("31.00", "30.00")
    await queue.world.rest("POST", f"/matches/{other}/accept", json={})
    record = (await queue.world.rest("GET", f"/matches/{match}")).json()
    [leg] = record["legs"]
    paths = [
        *PAGES,
        f"matches/{match}",
        f"matches/{other}",
        f"incoming/{leg['incomingTransactionId']}",
        f"expected/{leg['expectedTransactionId']}",
        f"unmatched/incoming/{leg['incomingTransactionId']}/candidates",
        f"review/items/{match}",
    ]
    async with opened(browser, console_world.base_url, expected=ANYTHING) as window:
        page = await window.new_page()
        await page.goto("/console/sign-in")
        assert await page.evaluate(INJECT) == []
        await sign_in(window, console_world)
        for path in paths:
            await page.goto(f"/console/production/{path}")
            assert await page.evaluate(INJECT) == [], path


async def test_a_fragment_that_is_not_escaped_runs_nothing(
    browser: Browser, console_world: ConsoleWorld, queue: Queue
) -> None:
    line = await receive(console_world.acme, "29.00", currency="NOK")
    first, second = await queue.propose("28.00", "27.00")

    async def broken(route: Route) -> None:
        await route.fulfill(body=BROKEN, content_type="text/html")

    async with opened(browser, console_world.base_url, expected=REFUSED) as window:
        await sign_in(window, console_world)
        page = await window.new_page()
        await page.route("**/candidates", broken)
        await page.route("**/overview/figures", broken)
        await page.route("**/month-end/readiness*", broken)
        await page.route(f"**/review/items/{second}", broken)
        await page.goto("/console/production/unmatched?currency=NOK")
        await page.locator(f"#incoming-{line} [data-candidates]").click()
        await nothing_ran(page)
        await page.goto("/console/production/overview")
        await nothing_ran(page)
        await page.goto("/console/production/month-end")
        await nothing_ran(page)
        await opens(page, f"/console/production/review?match={first}")
        await page.keyboard.press("j")
        await nothing_ran(page)


async def nothing_ran(page: Page) -> None:
    """Assert that the fragment is in the page, and that nothing of it has run."""
    bait = page.locator("#bait")
    await bait.wait_for()
    before = page.url
    await bait.evaluate("(link) => link.click()")
    styled = "getComputedStyle(document.getElementById('styled')).outlineWidth"
    assert await page.evaluate(styled) != "7px"
    assert await page.evaluate("window.injected") is None
    assert page.url == before


async def test_no_page_is_left_out(console_world: ConsoleWorld) -> None:
    """Whatever the console answers has the policy: it is given to each answer in the one place that makes them."""
    policies = set()
    async with console_world.client() as client:
        for path in console_paths():
            answer = await client.get(path.replace("{environment}", "production"))
            policies.add(answer.headers["content-security-policy"])
    [policy] = policies
    assert "unsafe" not in policy
    named = dict(part.split(" ", 1) for part in policy.split("; "))
    # What is not named and fetches something (objects, frames, workers) is as the default says: nothing.
    assert named["default-src"] == "'none'"
    assert {"object-src", "frame-src", "worker-src"}.isdisjoint(named)
    assert named["frame-ancestors"] == named["base-uri"] == "'none'"
    assert named["form-action"] == named["script-src"] == named["style-src"] == "'self'"
    assert named["require-trusted-types-for"] == "'script'"
