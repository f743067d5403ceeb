"""The console with Keycloak: signing in on its own page, sessions that go on, end, and are not somebody else's."""

from __future__ import annotations

import asyncio
import html
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest

from payrec.constants.console import COOKIE_BYTES_MAX
from payrec.embedded.postgres import EmbeddedPostgres
from payrec.services.console_sessions import ConsoleSession
from support.browser import browser, opened
from support.keycloak import administered, realm_description, realm_of_environment
from support.ports import free_port
from support.postgres import cloned
from support.providers import KeycloakProvider, Person, keycloak_provider, person
from support.service import Service, make_config, running

__all__ = ["browser"]

realm_of_environment()

pytestmark = pytest.mark.anyio

TOKEN_SECONDS = 8
"""How long an access token lives here: each request prolongs the session."""

WAIT_SECONDS = 60
PAGE = "/console/test/overview"
BUTTON = "Sign in with your organisation's account"
NOT_BEGUN = "was not begun in this browser"
KEPT_BYTES = 4_096
"""Name, value and attributes of a cookie that a browser keeps."""


class Console:
    """A service whose console signs in at Keycloak. A browser sees it at another site than Keycloak."""

    def __init__(self, service: Service, provider: KeycloakProvider, tenants: dict[str, str]) -> None:
        self.service = service
        self.provider = provider
        self._tenants = tenants
        self.url = service.factory.context.config.base_url

    async def person(self, tenant: str = "acme") -> Person:
        """Return somebody new whom Keycloak and payrec know."""
        return await self.provider.add(person(self._tenants[tenant], "admin", environments=("production", "test")))

    def session(self, cookies: dict[str, str]) -> ConsoleSession:
        """Return what the cookies of a browser hold."""
        names = sorted(name for name in cookies if name.startswith("payrec_session"))
        found = self.service.factory.console_sessions.open([cookies[name] for name in names])
        assert found is not None
        return found

    @asynccontextmanager
    async def client(self) -> AsyncIterator[httpx2.AsyncClient]:
        """Return a client with cookies of its own."""
        async with httpx2.AsyncClient(
            base_url=self.service.base_url, headers={"Origin": self.service.base_url}, timeout=30.0
        ) as client:
            yield client


@pytest.fixture(scope="module")
async def console(postgres: EmbeddedPostgres) -> AsyncIterator[Console]:
    """A service and a realm of its own, whose tokens are short and which knows where the service is."""
    port = free_port()
    # Another site than 127.0.0.1, where Keycloak is: a browser tells sites apart by their names.
    address = f"http://localhost:{port}"
    description = realm_description(PAYREC_PUBLIC_BASE_URL=address) | {"accessTokenLifespan": TOKEN_SECONDS}
    async with (
        administered(realm_of_environment()) as keycloak,
        keycloak.copied(description) as realm,
        keycloak_provider(realm) as provider,
    ):
        with cloned(postgres) as database:
            config = make_config(database, port=port, public_base_url=address, **provider.settings)
            async with running(config, worker=False) as service:
                await provider.attach(service)
                tenants = {}
                for slug in ("acme", "globex"):
                    body = {"name": slug.title(), "slug": slug, "environments": ["production", "test"]}
                    made = await service.http.post(f"{service.base_url}/tenants", json=body)
                    assert made.status_code == 201, made.text
                    tenants[slug] = made.json()["id"]
                yield Console(service, provider, tenants)


async def log_in(page: Any, somebody: Person) -> None:
    """Type name and password on Keycloak's page."""
    await page.get_by_label("Username").fill(somebody.username)
    await page.get_by_label("Password", exact=True).fill(somebody.password)
    await page.get_by_role("button", name="Sign In").click()


async def signed_in(page: Any, somebody: Person) -> None:
    """Sign in from a page of the console, and come back to it."""
    await page.goto(PAGE)
    await page.get_by_role("button", name=BUTTON).click()
    await log_in(page, somebody)
    await page.wait_for_url(f"**{PAGE}")
    await page.get_by_role("heading", name="Overview").wait_for()


async def cookies_of(page: Any, console: Console) -> list[dict[str, Any]]:
    return [c for c in await page.context.cookies(console.url) if c["name"].startswith("payrec_")]


async def begun(client: httpx2.AsyncClient) -> str:
    """Press the button, and return where it leads."""
    answer = await client.post("/console/authorise", data={"next": PAGE})
    assert answer.status_code == 200, answer.text
    return html.unescape(answer.text.partition("url=")[2].partition('"')[0])


async def answered(client: httpx2.AsyncClient, somebody: Person) -> dict[str, str]:
    """Sign in without a browser, and return what Keycloak sends back with the person."""
    async with httpx2.AsyncClient(timeout=30.0) as theirs:
        form = await theirs.get(await begun(client))
        found = re.search(r'action="([^"]+)"', form.text)
        assert found is not None, form.text
        given = {"username": somebody.username, "password": somebody.password}
        # A browser sends Secure cookies to loopback without TLS too, this client does not by itself.
        cookies = "; ".join(line.partition(";")[0] for line in form.headers.get_list("set-cookie"))
        answer = await theirs.post(html.unescape(found[1]), data=given, headers={"Cookie": cookies})
    assert answer.status_code == 302, answer.text
    return dict(parse_qsl(urlsplit(answer.headers["location"]).query))


def is_signed_in(client: httpx2.AsyncClient) -> bool:
    return any(name.startswith("payrec_session") for name in client.cookies)


async def until_signed_out(client: httpx2.AsyncClient) -> None:
    """Wait for the access token to end, which nothing has prolonged."""
    deadline = time.monotonic() + WAIT_SECONDS
    while (await client.get(PAGE)).status_code == 200:
        assert time.monotonic() < deadline, "the session goes on"
        await asyncio.sleep(0.2)
    answer = await client.get(PAGE)
    assert (answer.status_code, answer.headers["location"][:16]) == (303, "/console/sign-in")


@pytest.mark.parametrize("tenant", ["acme", "globex"])
async def test_somebody_signs_in_on_keycloak_s_page_and_sees_their_tenant(
    console: Console, browser: Any, tenant: str
) -> None:
    somebody = await console.person(tenant)
    async with opened(browser, console.url) as context:
        page = await context.new_page()
        await signed_in(page, somebody)
        assert await page.locator("strong.tenant").inner_text() == tenant.title()
        assert await page.locator("body").get_attribute("data-user") == somebody.user_id
        cookies = await cookies_of(page, console)
    assert {(c["httpOnly"], c["sameSite"], c["path"], c["expires"]) for c in cookies} == {(True, "Strict", "/", -1)}
    assert {c["domain"] for c in cookies} == {"localhost"}, "no Domain: the host alone"
    # As outside development, where the name has a prefix and the cookie is Secure.
    sizes = [len(f"__Host-{c['name']}={c['value']}; Path=/; HttpOnly; Secure; SameSite=Strict") for c in cookies]
    assert all(size <= KEPT_BYTES for size in sizes), sizes
    assert sum(len(c["value"]) for c in cookies) < COOKIE_BYTES_MAX, "real tokens fit into one cookie"
    held = console.session({c["name"]: c["value"] for c in cookies})
    assert held.refresh_token
    assert held.id_token


async def test_a_page_that_stays_open_outlives_its_token(console: Console, browser: Any) -> None:
    async with opened(browser, console.url) as context:
        page = await context.new_page()
        await signed_in(page, await console.person())
        first = console.session({c["name"]: c["value"] for c in await cookies_of(page, console)})
        ask = "() => fetch('/console/test/rest/jobs', {headers: {'X-Payrec-Console': '1'}}).then((r) => r.status)"
        deadline = time.monotonic() + WAIT_SECONDS
        while datetime.now(UTC) <= first.expires_at:
            assert await page.evaluate(ask) == 200
            assert time.monotonic() < deadline
            await asyncio.sleep(0.2)
        assert await page.evaluate(ask) == 200
        later = console.session({c["name"]: c["value"] for c in await cookies_of(page, console)})
    assert later.expires_at > first.expires_at
    assert later.refresh_token != first.refresh_token
    assert later.ends_at == first.ends_at


async def test_who_is_disabled_at_keycloak_is_signed_out_with_the_token(console: Console, browser: Any) -> None:
    somebody = await console.person()
    async with opened(browser, console.url) as context:
        page = await context.new_page()
        await signed_in(page, somebody)
        await console.provider.keycloak.disable(somebody.subject)
        deadline = time.monotonic() + WAIT_SECONDS
        while not urlsplit(page.url).path.startswith("/console/sign-in"):
            assert time.monotonic() < deadline, "the session goes on"
            await page.goto(PAGE)
        await page.get_by_role("button", name=BUTTON).click()
        await log_in(page, somebody)
        await page.get_by_text("Account is disabled").wait_for()


@pytest.mark.parametrize("changed", [{"state": "forged"}, {"iss": "http://127.0.0.1:1/realms/other"}, {"iss": None}])
async def test_an_answer_that_is_forged_is_no_session(console: Console, changed: dict[str, str | None]) -> None:
    async with console.client() as client:
        answer = await answered(client, await console.person())
        assert answer["iss"] == console.service.factory.issuer
        forged = {name: value for name, value in {**answer, **changed}.items() if value is not None}
        refused = await client.get("/console/callback", params=forged)
        told = NOT_BEGUN if "state" in changed else "cross_site_request"
        assert (refused.status_code, told in refused.text) == (403, True)
        assert not is_signed_in(client)
        accepted = await client.get("/console/callback", params=answer)
        assert accepted.status_code == 200, accepted.text
        assert is_signed_in(client)


async def test_the_answer_to_somebody_else_is_no_session(console: Console) -> None:
    """Neither as it is, nor with our own state: Keycloak wants the verifier that the code was begun with."""
    async with console.client() as client, console.client() as other:
        theirs = await answered(other, await console.person("globex"))
        ours = dict(parse_qsl(urlsplit(await begun(client)).query))
        refused = await client.get("/console/callback", params=theirs)
        assert (refused.status_code, is_signed_in(client)) == (403, False)
        refused = await client.get("/console/callback", params=theirs | {"state": ours["state"]})
        assert (refused.status_code, is_signed_in(client)) == (401, False)


async def test_a_code_that_is_used_twice_ends_the_session_too(console: Console) -> None:
    async with console.client() as client, console.client() as thief:
        answer = await answered(client, await console.person())
        [(name, value)] = [(n, v) for n, v in client.cookies.items() if n.startswith("payrec_sign_in_")]
        thief.cookies.set(name, value)
        first = await client.get("/console/callback", params=answer)
        assert (first.status_code, is_signed_in(client)) == (200, True)
        again = await client.get("/console/callback", params=answer)
        assert (again.status_code, NOT_BEGUN in again.text) == (403, True), "its cookie serves once"
        second = await thief.get("/console/callback", params=answer)
        assert (second.status_code, is_signed_in(thief)) == (401, False)
        await until_signed_out(client)


async def test_signing_out_signs_out_at_keycloak(console: Console, browser: Any) -> None:
    async with opened(browser, console.url) as context, console.client() as stolen:
        page = await context.new_page()
        somebody = await console.person()
        await signed_in(page, somebody)
        for cookie in await cookies_of(page, console):
            stolen.cookies.set(cookie["name"], cookie["value"])
        await page.get_by_role("button", name="Sign out").click()
        await page.get_by_role("button", name=BUTTON).wait_for()
        assert urlsplit(page.url).netloc == urlsplit(console.url).netloc
        assert (await page.request.get(f"{console.url}{PAGE}", max_redirects=0)).status == 303
        await page.get_by_role("button", name=BUTTON).click()
        await page.get_by_label("Password", exact=True).wait_for()
        await until_signed_out(stolen)
        await log_in(page, somebody)
        await page.get_by_role("heading", name="Overview").wait_for()
