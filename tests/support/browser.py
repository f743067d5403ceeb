"""The console in a real browser: a service with two tenants and people, and a page of somebody who is signed in."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import httpx2
import pytest

from payrec.embedded.postgres import EmbeddedPostgres
from support.postgres import cloned
from support.providers import EmbeddedProvider, Person, person
from support.service import Service, Tenant, make_config, running

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, FilePayload, Page, Route

__all__ = ["anonymous", "axe", "browser", "console_world", "page", "shot"]

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser")
"""The browser without its windows first: what it shows is the same, for two thirds of the work."""
PACKAGES = "apt-get install chromium-headless-shell, or chromium"
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SCREENSHOTS = Path(__file__).resolve().parents[1] / "payrec" / "console" / "screenshots"
SCREENSHOT_BYTES_MAX = 60_000
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
ACTION_MS = 15_000
"""How long a page may take for anything that a test waits for."""

PROBE = "/console/held"
"""Where nothing is, so that who asks for it is answered only by a test that holds requests."""

_EXPECTED = ("Failed to load resource",)
"""What the browser itself writes of an answer that is no success; whether it is one is for the test to say."""


@dataclass(slots=True, kw_only=True)
class ConsoleWorld:
    """A service with two tenants, and people with roles."""

    service: Service
    acme: Tenant
    globex: Tenant
    _provider: EmbeddedProvider
    _people: dict[str, Person] = field(default_factory=dict)

    @property
    def base_url(self) -> str:
        """Where the service is."""
        return self.service.base_url

    async def rest(self, method: str, path: str, environment: str = "production", **options: Any) -> httpx2.Response:
        """Ask the REST interface as the administrator of acme, as a client that is no browser."""
        return await self.acme.request(method, path, environment, **options)

    async def person(self, *roles: str, tenant: Tenant | None = None, **given: Any) -> Person:
        """Return somebody with these roles, who can sign in to production and test; the same one each time."""
        where = tenant or self.acme
        key = f"{where.slug} {roles} {given}"
        if key not in self._people:
            made = person(where.id, *roles, environments=("production", "test"), **given)
            self._people[key] = await self._provider.add(made)
        return self._people[key]

    def password_of(self, somebody: Person | Tenant) -> dict[str, str]:
        """Return what somebody, or a tenant's administrator, types at the sign-in."""
        if isinstance(somebody, Person):
            return {"username": somebody.username, "password": somebody.password}
        return {"username": f"admin@{somebody.slug}", "password": f"pässwörd-{somebody.slug}"}

    @asynccontextmanager
    async def client(self, somebody: Person | Tenant | None = None) -> AsyncIterator[httpx2.AsyncClient]:
        """Return an HTTP client with a session of the console, that of acme's administrator unless told otherwise."""
        async with httpx2.AsyncClient(base_url=self.base_url, timeout=30.0) as client:
            form = self.password_of(somebody or self.acme)
            answer = await client.post("/console/sign-in", data=form, headers={"Origin": self.base_url})
            assert answer.status_code == 303, answer.text
            yield client


@pytest.fixture(scope="module")
async def console_world(postgres: EmbeddedPostgres) -> AsyncIterator[ConsoleWorld]:
    """Return the module's service with its worker, and two tenants with production and test."""
    with cloned(postgres) as database:
        async with running(make_config(database)) as service:
            provider = EmbeddedProvider()
            await provider.attach(service)
            tenants = [await service.tenant(slug, environments=["production", "test"]) for slug in ("acme", "globex")]
            yield ConsoleWorld(service=service, acme=tenants[0], globex=tenants[1], _provider=provider)


def program() -> str | None:
    """Return where the browser is that this machine has, if it has one."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    """Return a headless Chromium; the module is skipped where there is none."""
    path = program()
    if path is None or importlib.util.find_spec("playwright") is None:
        pytest.skip(f"a browser is needed: {PACKAGES}")
    from playwright.async_api import async_playwright  # noqa: PLC0415 - not on every machine

    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS), headless=True)
        yield started
        await started.close()


@asynccontextmanager
async def opened(
    browser: Browser, base_url: str, *, expected: Sequence[str] = (), **options: Any
) -> AsyncIterator[BrowserContext]:
    """Open a window of its own; in the end, no page in it may have logged an error or broken the policy.

    ``expected`` are words of errors that a test makes itself.
    """
    given = {"viewport": {"width": 1280, "height": 800}, "locale": "en-GB", "timezone_id": "UTC", **options}
    context = await browser.new_context(base_url=base_url, **given)
    context.set_default_timeout(ACTION_MS)
    wrong: list[str] = []
    context.on("weberror", lambda raised: wrong.append(str(raised.error)))
    context.on("console", lambda line: wrong.append(line.text) if line.type == "error" else None)
    try:
        yield context
    finally:
        await context.close()
    assert [line for line in wrong if not (line.startswith(_EXPECTED) or any(word in line for word in expected))] == []


async def held(page: Page, pattern: str, handle: Callable[[Route], Awaitable[None]]) -> None:
    """Have ``handle`` answer what a page that is open already asks for, and return when the page does as it is told.

    Chromium says that requests are held before the page has heard of it: what is asked for in between passes by.
    """
    await page.route(f"**{PROBE}", lambda route: route.fulfill(status=204))
    await page.route(pattern, handle)
    heard = """async (probe) => {
        for (let asked = 0; asked < 200; asked += 1) if ((await fetch(probe)).status === 204) return true;
        return false;
    }"""
    # `wait_for_function` would not wait for a promise: it is true at once.
    assert await page.evaluate(heard, PROBE)


async def sign_in(context: BrowserContext, world: ConsoleWorld, somebody: Person | Tenant | None = None) -> None:
    """Give a window the session of somebody, of acme's administrator unless told otherwise."""
    answer = await context.request.post(
        "/console/sign-in",
        form={**world.password_of(somebody or world.acme)},
        headers={"Origin": world.base_url},
        max_redirects=0,
    )
    assert answer.status == 303, await answer.text()


@pytest.fixture
async def anonymous(browser: Browser, console_world: ConsoleWorld) -> AsyncIterator[Page]:
    """Return a page of nobody."""
    async with opened(browser, console_world.base_url) as context:
        yield await context.new_page()


@pytest.fixture
async def page(browser: Browser, console_world: ConsoleWorld) -> AsyncIterator[Page]:
    """Return a page of acme's administrator, who is signed in; ``goto("/console/production/...")`` comes next."""
    async with opened(browser, console_world.base_url) as context:
        await sign_in(context, console_world)
        yield await context.new_page()


async def _axe(page: Page) -> None:
    """Assert that axe finds nothing that is serious, in light and in dark."""
    from axe_playwright_python.async_playwright import (  # type: ignore[import-untyped]  # noqa: PLC0415
        Axe,
    )

    for scheme in SCHEMES:
        await page.emulate_media(color_scheme=scheme)
        found = await Axe().run(page, options={"resultTypes": ["violations"]})
        serious = [
            f"{scheme}: {v['id']}: {v['help']}: " + "; ".join(f"{n['html']} {n['failureSummary']}" for n in v["nodes"])
            for v in found.response["violations"]
            if v["impact"] in {"serious", "critical"}
        ]
        assert serious == []
    await page.emulate_media(color_scheme="light")


async def _shot(page: Page, name: str, *, schemes: Sequence[Scheme] = SCHEMES, full_page: bool = False) -> None:
    """Keep how a page looks, where PAYREC_SCREENSHOTS asks for it: ``<name>-light.jpg`` and ``<name>-dark.jpg``.

    Where it names a directory, the pictures go there, as PNG and as sharp as they are.
    """
    wanted = os.environ.get("PAYREC_SCREENSHOTS", "")
    if not wanted:
        return
    SCREENSHOTS.mkdir(exist_ok=True)
    for scheme in schemes:
        await page.emulate_media(color_scheme=scheme)
        if Path(wanted).is_absolute():
            await page.screenshot(path=Path(wanted) / f"{name}-{scheme}.png", full_page=full_page)
            continue
        for quality in (60, 40, 25):
            taken = await page.screenshot(type="jpeg", quality=quality, full_page=full_page)
            if len(taken) <= SCREENSHOT_BYTES_MAX:
                break
        (SCREENSHOTS / f"{name}-{scheme}.jpg").write_bytes(taken)
    await page.emulate_media(color_scheme="light")


@pytest.fixture
def axe() -> Callable[[Page], Awaitable[None]]:
    """Return what asserts that axe finds nothing serious on a page: ``await axe(page)``."""
    return _axe


@pytest.fixture
def shot() -> Callable[..., Awaitable[None]]:
    """Return what keeps how a page looks: ``await shot(page, "review")``."""
    return _shot


async def previewed(page: Page, payload: FilePayload | Path) -> None:
    """Choose a file and look at it."""
    await page.get_by_label("Choose a file").set_input_files(payload)
    await page.get_by_role("button", name="Preview", exact=True).click()
