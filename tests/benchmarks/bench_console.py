"""Time the console in a real browser among many open rows: ``bench_console.py [rows] [--keep DIR]``.

So many items and as many lines are stored. Every second item is paid by a line that quotes its reference, which a run
proposes; the others are open on both sides. The real server answers in a process of its own, and Chromium tells:

- first views, each in a new window that has kept nothing: the answer's first byte, the largest paint, the load event,
  bytes on the wire, requests, scripts that hold the first paint up, and how far the layout shifted;
- decisions: from the key that accepts a match until the next one is painted, with a second of reading between them,
  and without any;
- lists: from the top to the end of so many rows that come page by page as somebody scrolls, then back and down again as
  fast as a wheel goes. A task that holds the page up for more than 50 ms is counted.

With ``--keep`` the data stays in a directory, and the next call does without loading it. Processor time is printed
beside the time: it says more where other programs are busy. Needed: ``apt-get install chromium-headless-shell``, or
``chromium``, whichever is to be measured.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import psycopg
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench_decisions import database_seconds
from bench_run import timed_run

from payrec.config import Config
from payrec.embedded.passwords import PasswordHasher
from payrec.embedded.postgres import EmbeddedDatabase, EmbeddedPostgres
from support.browser import ARGUMENTS, program
from support.commands import environment, is_healthy, started
from support.control_plane import wait_until
from support.ports import free_port
from support.postgres import TEMPLATE, migrate
from support.service import RATE_LIMITS, make_config, running
from support.tenant_data import load, scope_of_tenant

DATABASE = "payrec_console_bench"
SERVER = {"shared_buffers": "1GB", "max_wal_size": "8GB", "synchronous_commit": "on"}
CURRENCIES = ("EUR", "EUR", "EUR", "EUR", "EUR", "EUR", "EUR", "EUR", "USD", "GBP")
UNLIMITED = tuple(name.upper() for name in RATE_LIMITS)
PAGES = ("overview", "review", "unmatched", "search", "imports", "month-end")
VIEWS = 5
READING_SECONDS = 1.0
WARM_UP = 3
START_SECONDS_MAX = 300.0

WATCH = """
window.bench = { tasks: [], took: [], largest: 0, shifted: 0, pressed: 0 };
const watch = (type, seen) => {
  new PerformanceObserver((list) => list.getEntries().forEach(seen)).observe({ type, buffered: true });
};
watch("longtask", (task) => bench.tasks.push(task.duration));
watch("largest-contentful-paint", (paint) => { bench.largest = paint.startTime; });
watch("layout-shift", (shift) => { if (!shift.hadRecentInput) bench.shifted += shift.value; });
addEventListener("keydown", (event) => { if (event.key === "a") bench.pressed = event.timeStamp; }, true);
addEventListener("DOMContentLoaded", () => {
  const item = document.getElementById("item");
  if (!item) return;
  new MutationObserver(() => {
    if (!bench.pressed || !item.querySelector("article")) return;
    const { pressed } = bench;
    bench.pressed = 0;
    // What is posted in a frame is heard when the frame has been painted.
    requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => bench.took.push(performance.now() - pressed);
      port2.postMessage(0);
    });
  }).observe(item, { childList: true });
});
"""
VIEWED = """() => {
  const [page] = performance.getEntriesByType("navigation");
  const blocking = performance.getEntriesByType("resource")
    .filter((one) => one.initiatorType === "script" && one.renderBlockingStatus === "blocking").length;
  const { largest, shifted } = bench;
  return { first: page.responseStart, load: page.loadEventEnd, largest, shifted, blocking };
}"""
NEXT = """async (seen) => {
  const isNext = () => bench.took.length > seen && !document.querySelector("#review[aria-busy]");
  while (!isNext()) await new Promise((later) => setTimeout(later, 5));
}"""
FRAME = "const frame = () => new Promise((seen) => requestAnimationFrame(() => setTimeout(seen)));"
LISTED = {
    "review": ("queue-page", "document.getElementById('queue-scroll')"),
    "unmatched": ("lines-page", "document.scrollingElement"),
}
"""The class of what has ``LISTED_ROWS`` rows each, on both sides where there are two, and what scrolls them."""
LISTED_ROWS = 50
FRAME_PIXELS = 200
"""Scrolled in a frame: 12,000 pixels a second, more than a wheel does."""


def rows_of(count: int, *, first: date) -> tuple[Iterator[dict[str, Any]], Iterator[dict[str, Any]]]:
    """Return items, and lines of which every second one pays an item and says so."""

    def items() -> Iterator[dict[str, Any]]:
        dice = random.Random(1)  # noqa: S311 - data, not a secret
        for number in range(count):
            yield {
                "amount_minor": dice.randint(100, 5_000_000),
                "due_date": first + timedelta(days=number % 90),
                "currency": CURRENCIES[number // 2 % len(CURRENCIES)],
                "reference": f"INV-2026-{number:07}",
                "counterparty_name": f"Customer {number % (count // 8 + 1)} GmbH",
            }

    def lines() -> Iterator[dict[str, Any]]:
        dice = random.Random(2)  # noqa: S311 - data, not a secret
        for number, item in enumerate(items()):
            is_paid = number % 2 == 0
            yield {
                "amount_minor": item["amount_minor"] if is_paid else dice.randint(100, 5_000_000),
                "booking_date": item["due_date"] + timedelta(days=dice.randint(-3, 20)),
                "currency": item["currency"],
                "remittance": f"Rechnung {item['reference']} danke" if is_paid else f"Zahlung vom Konto {number:07}",
                "counterparty_name": item["counterparty_name"].upper() if is_paid else f"Payer {number:07}",
            }

    return items(), lines()


@contextmanager
def kept_server(folder: Path | None) -> Iterator[tuple[EmbeddedPostgres, Path]]:
    """Start a server in a directory that stays, or in one that goes away."""
    place = folder or Path(tempfile.mkdtemp(prefix="payrec-bench-"))
    postgres = EmbeddedPostgres(place / "pg", settings=SERVER)
    postgres.start()
    try:
        yield postgres, place
    finally:
        postgres.stop()
        if folder is None:
            shutil.rmtree(place)


async def fill(config: Config, database: EmbeddedDatabase, rows: int) -> None:
    """Store the rows, and let a run propose what it finds."""
    # Who signs in does so at another process, which makes hashes at their full cost.
    async with running(config, worker=False, passwords=PasswordHasher()) as service:
        tenant = await service.tenant("bench", environments=["production"])
        day = datetime.now(UTC).date()
        rates = [{"date": str(day), "base": "EUR", "quote": q, "rate": r} for q, r in (("USD", "1.1"), ("GBP", "0.85"))]
        answer = await tenant.request("PUT", "/fx-rates", json={"items": rates})
        answer.raise_for_status()
        scope = await scope_of_tenant(service.factory, tenant)
        items, lines = rows_of(rows, first=day - timedelta(days=110))
        start = time.perf_counter()
        await load(service.factory, scope, expected=items, incoming=lines)
        with psycopg.connect(database.superuser_url, autocommit=True) as connection:
            connection.execute("ANALYZE")
        loaded = time.perf_counter() - start
        line = await timed_run(service, scope)
        with psycopg.connect(database.superuser_url, autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE)")
            connection.execute("CHECKPOINT")
        sys.stdout.write(f"{rows} items and {rows} lines loaded in {loaded:.0f} s, matched in {line['total']:.0f} s\n")


async def window(browser: Browser, base_url: str) -> BrowserContext:
    """Open a window of somebody who is signed in and has kept nothing."""
    context = await browser.new_context(base_url=base_url, viewport={"width": 1280, "height": 800})
    context.set_default_timeout(60_000)
    await context.add_init_script(WATCH)
    form = {"username": "admin@bench", "password": "pässwörd-bench"}
    answer = await context.request.post("/console/sign-in", form=form, headers={"Origin": base_url}, max_redirects=0)
    assert answer.status == 303, answer.status
    return context


async def view(browser: Browser, base_url: str, name: str) -> dict[str, float]:
    """Look at a page for the first time."""
    context = await window(browser, base_url)
    page = await context.new_page()
    wire = await context.new_cdp_session(page)
    bytes_: list[float] = []
    wire.on("Network.loadingFinished", lambda told: bytes_.append(told["encodedDataLength"]))
    await wire.send("Network.enable")
    await page.goto(f"/console/production/{name}", wait_until="load")
    found: dict[str, float] = await page.evaluate(VIEWED)
    found |= {"bytes": sum(bytes_), "requests": len(bytes_)}
    await page.wait_for_load_state("networkidle")
    found |= {"later": sum(bytes_), "largest": await page.evaluate("bench.largest")}
    found["shifted"] = await page.evaluate("bench.shifted")
    await context.close()
    return found


async def decide(page: Page, number: int, *, reading: float, told: Callable[[], tuple[float, float]]) -> str:
    """Accept one after the other, and return what it took until the next one was painted."""
    before = told()
    for done in range(number + WARM_UP):
        if done == WARM_UP:
            await page.evaluate("bench.took = []")
            before = told()
        seen = await page.evaluate("bench.took.length")
        await page.keyboard.press("a")
        await page.evaluate(NEXT, seen)
        await asyncio.sleep(reading)
    took = sorted(await page.evaluate("bench.took"))
    service, database = ((now - then) / number * 1e3 for now, then in zip(told(), before, strict=True))
    return (
        f"p50 {took[len(took) // 2]:.0f} ms, p95 {took[len(took) * 95 // 100]:.0f} ms, most {took[-1]:.0f} ms;"
        f" processor a decision: service {service:.0f} ms, database {database:.0f} ms"
    )


async def scroll(page: Page, name: str, count: int) -> str:
    """Scroll a list from its top to the end of so many rows, back, and down again."""
    pages, box = LISTED[name]
    await page.goto(f"/console/production/{name}", wait_until="networkidle")
    await page.mouse.wheel(0, 10)
    start = time.perf_counter()
    await page.evaluate("bench.tasks = []")
    # Counted by pages: to look for each row at each frame would be a task of its own.
    await page.evaluate(f"""async () => {{
      {FRAME} const box = {box};
      const pages = () => document.getElementsByClassName('{pages}').length;
      for (let still = 0, last = 0; pages() * {LISTED_ROWS} < {count} && still < 600;) {{
        box.scrollTop = box.scrollHeight;
        await frame();
        if (pages() === last) still += 1; else [still, last] = [0, pages()];
      }}
    }}""")
    came, tasks = time.perf_counter() - start, await page.evaluate("bench.tasks.splice(0)")
    listed = await page.locator(f".{pages} li").count()
    await page.evaluate("bench.tasks = []")
    passed = await page.evaluate(f"""async () => {{
      {FRAME} const box = {box};
      let frames = 0;
      while (box.scrollTop > 0) {{ box.scrollTop -= {FRAME_PIXELS}; frames += 1; await frame(); }}
      // More would come at the end, and more after that.
      const end = box.scrollHeight - 2 * box.clientHeight;
      while (box.scrollTop < end) {{ box.scrollTop += {FRAME_PIXELS}; frames += 1; await frame(); }}
      return frames;
    }}""")
    more = await page.evaluate("bench.tasks")
    return (
        f"{listed} rows came in {came:.1f} s, tasks over 50 ms: {len(tasks)}, longest {max(tasks, default=0):.0f} ms;"
        f" {passed} frames up and down: {len(more)}, longest {max(more, default=0):.0f} ms"
    )


def tell(line: str) -> None:
    """Print a line at once: the whole takes minutes."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def measure(base_url: str, given: argparse.Namespace, told: Callable[[], tuple[float, float]]) -> None:
    """Measure all, and print it."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=given.browser, args=list(ARGUMENTS))
        for name in PAGES if "views" in given.only else ():
            seen = [await view(browser, base_url, name) for _ in range(VIEWS)]
            mid = {key: sorted(one[key] for one in seen)[VIEWS // 2] for key in seen[0]}
            tell(
                f"{name}: first byte {mid['first']:.0f} ms, largest paint {mid['largest']:.0f} ms,"
                f" load {mid['load']:.0f} ms, {mid['bytes'] / 1e3:.1f} kB in {mid['requests']:.0f} requests"
                f" ({mid['later'] / 1e3:.1f} kB when all is there), scripts in the way {mid['blocking']:.0f},"
                f" shift {mid['shifted']:.3f}"
            )
        context = await window(browser, base_url)
        page = await context.new_page()
        if "decisions" in given.only:
            await page.goto("/console/production/review", wait_until="networkidle")
            for reading, what in ((READING_SECONDS, "with a second of reading"), (0.0, "one right after the other")):
                tell(f"decisions, {what}: {await decide(page, given.decisions, reading=reading, told=told)}")
        for name in LISTED if "lists" in given.only else ():
            tell(f"{name}: {await scroll(page, name, given.listed)}")
        await context.close()
        await browser.close()


def main() -> None:
    """Parse the arguments, load what is not kept, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int, nargs="?", default=20_000)
    parser.add_argument("--keep", type=Path, help="a directory for the data, which is not loaded again")
    parser.add_argument("--decisions", type=int, default=30)
    parser.add_argument("--listed", type=int, default=10_000)
    parser.add_argument("--only", nargs="*", default=["views", "decisions", "lists"])
    found = program()
    parser.add_argument("--browser", type=Path, default=found, required=found is None)
    given = parser.parse_args()
    with kept_server(given.keep) as (postgres, place):
        is_loaded = place / f"loaded-{given.rows}"
        if not is_loaded.exists():
            postgres.drop(DATABASE)
            migrate(postgres.database(TEMPLATE))
            database = postgres.database(DATABASE, template=TEMPLATE)
            asyncio.run(fill(make_config(database), database, given.rows))
            is_loaded.touch()
        database = postgres.database(DATABASE)
        port = free_port()
        settings = environment(database, PORT=str(port), INTERNAL_PORT="0", **dict.fromkeys(UNLIMITED, "0"))
        with started("serve", cwd=place, environ=settings) as service:
            base_url, in_service = f"http://127.0.0.1:{port}", psutil.Process(service.process.pid).cpu_times
            wait_until("the service", lambda: is_healthy(base_url), seconds=START_SECONDS_MAX)
            in_database = database_seconds(database)
            asyncio.run(measure(base_url, given, lambda: (sum(in_service()[:2]), in_database())))


if __name__ == "__main__":
    main()
