"""Signing in at an identity provider: codes with PKCE, and what comes back without them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from secrets import token_urlsafe
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import httpx2
import pytest

from payrec.constants.console import ID_TOKEN_LENGTH_MAX, NEXT_LENGTH_MAX, SIGN_IN_NAME_LENGTH, SIGN_INS_BYTES_MAX
from payrec.embedded.postgres import EmbeddedDatabase
from support.browser import opened
from support.idp import FakeProvider, fake_provider, rsa_key, sign
from support.ports import free_port
from support.providers import Person, add_to_payrec, claims_of, person
from support.service import Service, make_config, running
from support.wire import until

pytestmark = pytest.mark.anyio
PKCE: dict[str, Any] = {"code_challenge_methods_supported": ["plain", "S256"]}
NOT_BEGUN = "was not begun in this browser"


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with fake_provider() as started:
        describe(started)
        yield started


def describe(provider: FakeProvider, **more: Any) -> None:
    """Let the provider offer codes, at another site than the service's, which is at 127.0.0.1."""
    theirs = provider.url.replace("127.0.0.1", "localhost")
    provider.describe(**PKCE, authorization_endpoint=f"{theirs}/authorise?a=b", **more)


@asynccontextmanager
async def served(database: EmbeddedDatabase, provider: FakeProvider, **settings: Any) -> AsyncIterator[Service]:
    port = free_port()
    given = {
        "port": port,
        "public_base_url": f"http://127.0.0.1:{port}",
        "idp_issuer_url": provider.url,
        "idp_client_secret": "of-the-client-32-characters-long",
        **settings,
    }
    async with running(make_config(database, **given), worker=False) as service:
        yield service


async def enrolled(service: Service) -> Person:
    """Return somebody whom the provider and payrec know."""
    body = {"name": "Acme", "slug": f"acme-{uuid4().hex[:8]}", "environments": ["production", "test"]}
    made = await service.http.post(f"{service.base_url}/tenants", json=body)
    assert made.status_code == 201, made.text
    somebody = person(made.json()["id"], "admin", environments=("production", "test"))
    known = replace(somebody, subject=str(uuid4()))
    await add_to_payrec(service, known)
    return known


def grant(provider: FakeProvider, service: Service, somebody: Person, **more: Any) -> str:
    """Make the provider give out a token, and return it."""
    token = sign(rsa_key("first"), claims_of(service, somebody))
    provider.answer("/token", {"access_token": token, "token_type": "Bearer", "expires_in": 300, **more})
    return token


async def begin(client: httpx2.AsyncClient, service: Service, next_path: str = "/console") -> dict[str, str]:
    """Press the button, and return what the provider is asked."""
    answer = await client.post("/console/authorise", data={"next": next_path}, headers={"Origin": service.base_url})
    assert answer.status_code == 200, answer.text
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("payrec_sign_in_")
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Lax")
    location = answer.text.partition("url=")[2].partition('"')[0].replace("&amp;", "&")
    assert urlsplit(location).path == "/authorise"
    return {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}


def sign_ins(client: httpx2.AsyncClient) -> list[str]:
    """Return the names of the cookies of sign-ins that are under way."""
    return [name for name in client.cookies if name.startswith("payrec_sign_in")]


async def test_a_code_and_its_verifier_become_a_session(database: EmbeddedDatabase, provider: FakeProvider) -> None:
    async with served(database, provider) as service, httpx2.AsyncClient(base_url=service.base_url) as client:
        grant(provider, service, await enrolled(service), refresh_token="of-refreshing")
        shown = await client.get("/console/sign-in?next=/console/test/overview")
        assert "Sign in with your organisation&#39;s account" in shown.text
        asked = await begin(client, service, "/console/test/overview")
        assert asked["a"] == "b"
        assert asked["response_type"] == "code"
        assert asked["redirect_uri"] == f"{service.base_url}/console/callback"
        assert asked["code_challenge_method"] == "S256"
        answer = await client.get("/console/callback", params={"code": "of-once", "state": asked["state"]})
        assert answer.status_code == 200, answer.text
        assert 'content="0; url=/console/test/overview"' in answer.text
        form = provider.forms[-1]
        assert (form["grant_type"], form["code"]) == (["authorization_code"], ["of-once"])
        digest = hashlib.sha256(form["code_verifier"][0].encode()).digest()
        assert base64.urlsafe_b64encode(digest).decode().rstrip("=") == asked["code_challenge"]
        assert (await client.get("/console/test/overview")).status_code == 200
        assert sign_ins(client) == [], "it serves once"


async def test_a_session_is_prolonged_while_somebody_works(database: EmbeddedDatabase, provider: FakeProvider) -> None:
    async with served(database, provider) as service, httpx2.AsyncClient(base_url=service.base_url) as client:
        somebody = await enrolled(service)
        grant(provider, service, somebody, refresh_token="first", expires_in=30)
        asked = await begin(client, service)
        await client.get("/console/callback", params={"code": "c", "state": asked["state"]})
        before = client.cookies["payrec_session"]
        grant(provider, service, somebody, refresh_token="second")
        assert (await client.get("/console/production/overview")).status_code == 200
        assert provider.forms[-1]["refresh_token"] == ["first"]
        assert client.cookies["payrec_session"] != before
        count = len(provider.forms)
        assert (await client.get("/console/production/overview")).status_code == 200
        assert len(provider.forms) == count, "the new token is good for a while"


@pytest.mark.parametrize("ends", ["sign-out", "sign-in"])
async def test_an_answer_that_comes_after_its_session_was_ended_brings_it_not_back(
    database: EmbeddedDatabase, provider: FakeProvider, ends: str
) -> None:
    """It was under way when somebody signed out, or somebody else in, and prolongs the session."""
    async with served(database, provider) as service, httpx2.AsyncClient(base_url=service.base_url) as client:
        somebody = await enrolled(service)

        async def sign_in(expires_in: int) -> None:
            grant(provider, service, somebody, refresh_token="first", expires_in=expires_in)
            asked = await begin(client, service)
            await client.get("/console/callback", params={"code": "c", "state": asked["state"]})

        await sign_in(30)
        before = client.cookies["payrec_session"]
        await client.get("/console/production/overview")
        late = client.cookies["payrec_session"]
        assert late != before
        if ends == "sign-out":
            await sign_out(client, service)
        else:
            await sign_in(300)
        client.cookies.set("payrec_session", late, domain="127.0.0.1")
        assert (await client.get("/console")).headers["location"].startswith("/console/sign-in")
        assert (await client.get("/console/production/overview")).status_code == 303
        await sign_out(client, service)
        await sign_in(300)
        assert (await client.get("/console/production/overview")).status_code == 200, "a later one is another"


@pytest.mark.parametrize("kind", ["other state", "state of its name", "no state", "no cookie", "cookie of another"])
async def test_a_code_that_was_not_asked_for_here_is_no_session(
    database: EmbeddedDatabase, provider: FakeProvider, kind: str
) -> None:
    async with served(database, provider) as service, httpx2.AsyncClient(base_url=service.base_url) as client:
        grant(provider, service, await enrolled(service))
        asked = await begin(client, service)
        # A cookie is named by the beginning of its state, which says nothing of the rest.
        of_its_name = asked["state"][:SIGN_IN_NAME_LENGTH].ljust(len(asked["state"]), "x")
        state = {"other state": "x", "state of its name": of_its_name, "no state": ""}.get(kind, asked["state"])
        if kind == "no cookie":
            client.cookies.clear()
        if kind == "cookie of another":
            client.cookies.clear()
            await begin(client, service)
        answer = await client.get("/console/callback", params={"code": "c", "state": state})
        assert (answer.status_code, NOT_BEGUN in answer.text) == (403, True)
        assert 'action="/console/authorise"' in answer.text, "who was slow begins again"
        assert provider.requests["/token"] == 0
        assert "payrec_session" not in client.cookies


async def test_sign_ins_in_two_tabs_do_not_take_each_other_s_place(
    database: EmbeddedDatabase, provider: FakeProvider
) -> None:
    async with served(database, provider) as service, httpx2.AsyncClient(base_url=service.base_url) as client:
        grant(provider, service, await enrolled(service))
        both = [await begin(client, service, f"/console/{name}/overview") for name in ("production", "test")]
        for asked, name in zip(both, ("production", "test"), strict=True):
            answer = await client.get("/console/callback", params={"code": "c", "state": asked["state"]})
            assert answer.status_code == 200, answer.text
            assert f'content="0; url=/console/{name}/overview"' in answer.text
        assert sign_ins(client) == []


async def test_of_many_sign_ins_the_oldest_give_way(database: EmbeddedDatabase, provider: FakeProvider) -> None:
    """A browser sends all of them with each request, which may have so many bytes of headers."""
    async with served(database, provider) as service, httpx2.AsyncClient(base_url=service.base_url) as client:
        grant(provider, service, await enrolled(service))
        client.cookies.set("payrec_sign_in_foreign", "x", domain="127.0.0.1", path="/")
        begun = [await begin(client, service, f"/console/test/search?q={token_urlsafe(300)}") for _ in range(8)]
        kept = [client.cookies[name] for name in sign_ins(client)]
        assert 1 < len(kept) < len(begun)
        assert sum(map(len, kept)) <= SIGN_INS_BYTES_MAX
        statuses = []
        for asked in begun:
            answer = await client.get("/console/callback", params={"code": "c", "state": asked["state"]})
            statuses.append(answer.status_code)
        assert statuses == [403] * (len(begun) - len(kept)) + [200] * len(kept)
        # One that alone takes all of it is begun all the same.
        asked = await begin(client, service, f"/console/test/search?q={token_urlsafe(1480)}"[:NEXT_LENGTH_MAX])
        assert sum(len(client.cookies[name]) for name in sign_ins(client)) <= SIGN_INS_BYTES_MAX
        assert (await client.get("/console/callback", params={"code": "c", "state": asked["state"]})).status_code == 200


async def test_a_provider_that_refuses_leads_back_to_the_sign_in(
    database: EmbeddedDatabase, provider: FakeProvider
) -> None:
    async with served(database, provider) as service, httpx2.AsyncClient(base_url=service.base_url) as client:
        asked = await begin(client, service, "/console/test/overview")
        answer = await client.get("/console/callback", params={"error": "access_denied", "state": asked["state"]})
        assert answer.status_code == 303
        assert answer.headers["location"] == "/console/sign-in?next=%2Fconsole%2Ftest%2Foverview"
        provider.answer("/token", {"error": "invalid_grant"}, 400)
        asked = await begin(client, service)
        answer = await client.get("/console/callback", params={"code": "used", "state": asked["state"]})
        assert (answer.status_code, "You could not be signed in" in answer.text) == (401, True)
        assert "payrec_session" not in client.cookies


@pytest.mark.parametrize(
    ("promised", "kind", "status"),
    [
        (True, "ours", 200),
        (True, "none", 403),
        (True, "other", 403),
        (None, "none", 200),
        (None, "ours", 200),
        (None, "other", 403),
    ],
)
async def test_an_answer_that_names_another_provider_is_none(
    database: EmbeddedDatabase, provider: FakeProvider, promised: Any, kind: str, status: int
) -> None:
    """RFC 9207: one that promises to name itself does so in each answer, also in one that refuses."""
    describe(provider, authorization_response_iss_parameter_supported=promised)
    async with served(database, provider) as service, httpx2.AsyncClient(base_url=service.base_url) as client:
        grant(provider, service, await enrolled(service))
        said = {"none": {}, "ours": {"iss": provider.url}, "other": {"iss": provider.url + "/"}}[kind]
        asked = await begin(client, service)
        refused = await client.get("/console/callback", params={"error": "e", "state": asked["state"], **said})
        assert refused.status_code == (303 if status == 200 else 403)
        asked = await begin(client, service)
        answer = await client.get("/console/callback", params={"code": "c", "state": asked["state"], **said})
        assert answer.status_code == status
        assert ("payrec_session" in client.cookies) == (status == 200)
        assert provider.requests["/token"] == (status == 200)


async def sign_out(client: httpx2.AsyncClient, service: Service) -> httpx2.Response:
    answer = await client.post("/console/sign-out", headers={"Origin": service.base_url})
    assert "payrec_session" not in client.cookies
    return answer


@pytest.mark.parametrize("id_token", ["of.the.person", "x" * (ID_TOKEN_LENGTH_MAX + 1), None])
async def test_signing_out_leads_to_the_provider_s_own(
    database: EmbeddedDatabase, provider: FakeProvider, id_token: str | None
) -> None:
    """With what it knows its session by; without it, the provider asks the person."""
    describe(provider, end_session_endpoint=provider.url + "/leave?a=b")
    async with served(database, provider) as service, httpx2.AsyncClient(base_url=service.base_url) as client:
        grant(provider, service, await enrolled(service), **({} if id_token is None else {"id_token": id_token}))
        asked = await begin(client, service)
        await client.get("/console/callback", params={"code": "c", "state": asked["state"]})
        answer = await sign_out(client, service)
        assert answer.status_code == 200
        location = urlsplit(answer.text.partition("url=")[2].partition('"')[0].replace("&amp;", "&"))
        assert location.path == "/leave"
        hint = {"id_token_hint": ["of.the.person"]} if id_token == "of.the.person" else {}
        assert parse_qs(location.query) == {
            "a": ["b"],
            "client_id": ["payrec"],
            "post_logout_redirect_uri": [f"{service.base_url}/console/sign-in"],
            **hint,
        }


async def test_who_comes_back_to_sign_out_when_the_session_is_over_signs_out_at_the_provider(
    database: EmbeddedDatabase, provider: FakeProvider
) -> None:
    """There it goes on, and the next one at the screen would be in by the button alone."""
    describe(provider, end_session_endpoint=provider.url + "/leave")
    async with served(database, provider) as service, httpx2.AsyncClient(base_url=service.base_url) as client:
        grant(provider, service, await enrolled(service), id_token="of.the.person", expires_in=1)
        asked = await begin(client, service)
        await client.get("/console/callback", params={"code": "c", "state": asked["state"]})

        async def is_over() -> bool | None:
            return (await client.get("/console")).headers["location"].startswith("/console/sign-in") or None

        await until(is_over)
        answer = await sign_out(client, service)
        assert answer.status_code == 200
        assert f"{provider.url}/leave?client_id=payrec" in answer.text
        assert "id_token_hint=of.the.person" in answer.text
        answer = await sign_out(client, service)
        assert (answer.status_code, answer.headers["location"]) == (303, "/console/sign-in"), "it is ended once"


@pytest.mark.parametrize("endpoint", [None, "ftp://127.0.0.1/leave", 7])
async def test_a_provider_without_a_sign_out_is_not_asked(
    database: EmbeddedDatabase, provider: FakeProvider, endpoint: Any
) -> None:
    describe(provider, end_session_endpoint=endpoint)
    async with served(database, provider) as service, httpx2.AsyncClient(base_url=service.base_url) as client:
        grant(provider, service, await enrolled(service), id_token="of.the.person")
        asked = await begin(client, service)
        await client.get("/console/callback", params={"code": "c", "state": asked["state"]})
        answer = await sign_out(client, service)
        assert (answer.status_code, answer.headers["location"]) == (303, "/console/sign-in")


async def test_who_gave_a_password_here_has_no_session_there(
    database: EmbeddedDatabase, provider: FakeProvider
) -> None:
    describe(provider, end_session_endpoint=provider.url + "/leave")
    async with served(database, provider) as service, httpx2.AsyncClient(base_url=service.base_url) as client:
        grant(provider, service, await enrolled(service), id_token="of.the.person")
        form = {"username": "a", "password": "b"}
        answer = await client.post("/console/sign-in", data=form, headers={"Origin": service.base_url})
        assert (answer.status_code, "payrec_session" in client.cookies) == (303, True)
        answer = await sign_out(client, service)
        assert (answer.status_code, answer.headers["location"]) == (303, "/console/sign-in")


@pytest.mark.parametrize(
    ("metadata", "settings"),
    [
        ({"code_challenge_methods_supported": ["plain"]}, {}),
        ({"code_challenge_methods_supported": None}, {}),
        (PKCE, {"public_base_url": ""}),
    ],
)
async def test_without_pkce_or_an_address_of_its_own_there_is_no_button(
    database: EmbeddedDatabase, provider: FakeProvider, metadata: dict[str, Any], settings: dict[str, Any]
) -> None:
    provider.describe(**metadata, authorization_endpoint=f"{provider.url}/authorise")
    async with (
        served(database, provider, **settings) as service,
        httpx2.AsyncClient(base_url=service.base_url) as client,
    ):
        shown = await client.get("/console/sign-in")
        assert "organisation" not in shown.text
        assert 'name="password"' in shown.text, "development has the form"
        answer = await client.post("/console/authorise", data={"next": "/"}, headers={"Origin": service.base_url})
        assert answer.status_code == 404


async def test_a_console_that_is_switched_off_is_nowhere(database: EmbeddedDatabase, provider: FakeProvider) -> None:
    async with served(database, provider, console_enabled=False) as service:
        for path in ("/console", "/console/sign-in", "/console/production/overview", "/console/production/rest/jobs"):
            answer = await service.http.get(service.base_url + path)
            assert answer.status_code == 404


async def test_a_browser_goes_to_the_provider_s_site_and_back(
    database: EmbeddedDatabase, provider: FakeProvider, browser: Any
) -> None:
    async with served(database, provider) as service, opened(browser, service.base_url) as context:
        grant(provider, service, await enrolled(service))

        async def authorise(route: Any) -> None:
            asked = parse_qs(urlsplit(route.request.url).query)
            back = f"{asked['redirect_uri'][0]}?code=c&amp;state={asked['state'][0]}"
            await route.fulfill(content_type="text/html", body=f'<title>Theirs</title><a href="{back}">Go on</a>')

        page = await context.new_page()
        await page.route("**/authorise?a=b*", authorise)
        await page.goto("/console/test/overview")
        await page.get_by_role("button", name="Sign in with your organisation's account").click()
        await page.get_by_role("link", name="Go on", exact=True).click()
        await page.wait_for_url("**/console/test/overview")
        await page.get_by_role("heading", name="Overview").wait_for()
