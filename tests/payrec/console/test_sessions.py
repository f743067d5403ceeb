"""Sessions of the console over HTTP: who gets one, what a cookie is worth, and what no other site can do with it."""

from __future__ import annotations

import base64

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.console.rendering import local
from payrec.services.secret_box import SecretBox
from support.browser import ConsoleWorld
from support.wire import code, in_control

pytestmark = pytest.mark.anyio
PAGE = "/console/production/overview"
REST = "/console/production/rest"
SCRIPT = {"X-Payrec-Console": "1", "Sec-Fetch-Site": "same-origin"}
POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "payrec-fragments",
}


async def test_a_page_without_a_session_leads_to_the_sign_in_and_back(console_world: ConsoleWorld) -> None:
    async with httpx2.AsyncClient(base_url=console_world.base_url) as client:
        answer = await client.get(f"{PAGE}?x=1&y=%C3%A4")
        assert answer.status_code == 303
        where = "/console/sign-in?next=%2Fconsole%2Fproduction%2Foverview%3Fx%3D1%26y%3D%25C3%25A4"
        assert answer.headers["location"] == where
        shown = await client.get(where)
        assert '<input type="hidden" name="next" value="/console/production/overview?x=1&amp;y=%C3%A4">' in shown.text


async def test_the_address_of_an_environment_leads_to_its_overview(console_world: ConsoleWorld) -> None:
    async with console_world.client() as client:
        for name, status in (("production", 303), ("test", 303), ("staging", 403), ("nothing", 404)):
            answer = await client.get(f"/console/{name}")
            there = f"/console/{name}/overview" if status == 303 else None
            assert (answer.status_code, answer.headers.get("location")) == (status, there)
    async with httpx2.AsyncClient(base_url=console_world.base_url) as client:
        answer = await client.get("/console/production")
        assert answer.headers["location"] == "/console/sign-in?next=%2Fconsole%2Fproduction"


@pytest.mark.parametrize(
    ("typed", "there"),
    [
        ("/console/", "/console"),
        ("/console//", "/console"),
        ("/console/sign-in/?next=/console/test/review", "/console/sign-in?next=/console/test/review"),
        ("/console/production/", "/console/production"),
        ("/console/test/search/?q=a%2Fb", "/console/test/search?q=a%2Fb"),
        ("/console/test/matches/", "/console/test/matches"),
        ("/console//evil.example/", "/console//evil.example"),
    ],
)
async def test_an_address_that_ends_with_a_slash_leads_to_the_one_without(
    console_world: ConsoleWorld, typed: str, there: str
) -> None:
    async with console_world.client() as client:
        answer = await client.get(typed)
        assert (answer.status_code, answer.headers.get("location")) == (303, there)


async def test_a_script_or_a_change_is_led_to_no_other_address(console_world: ConsoleWorld) -> None:
    async with console_world.client() as client:
        assert (await client.get("/console/test/review/", headers=SCRIPT)).status_code == 404
        assert (await client.post("/console/sign-out/", headers={"Origin": console_world.base_url})).status_code == 404
        assert (await client.get("/console/test/rest/matches/", headers=SCRIPT)).status_code == 404


async def test_a_script_without_a_session_is_told_so_and_not_sent_elsewhere(console_world: ConsoleWorld) -> None:
    async with httpx2.AsyncClient(base_url=console_world.base_url) as client:
        for path in (PAGE, f"{REST}/matches"):
            answer = await client.get(path, headers=SCRIPT)
            assert (answer.status_code, code(answer)) == (401, "missing_credentials")


async def test_no_other_credentials_open_a_page(console_world: ConsoleWorld) -> None:
    async with httpx2.AsyncClient(base_url=console_world.base_url) as client:
        bearer = console_world.acme.headers()
        assert (await client.get(PAGE, headers=bearer)).status_code == 303
        assert (await client.get(f"{REST}/matches", headers={**bearer, **SCRIPT})).status_code == 401
        assert (await client.get("/console/nowhere/overview", headers=bearer)).status_code == 404


async def test_the_cookie_is_for_this_host_and_for_no_script(console_world: ConsoleWorld) -> None:
    async with httpx2.AsyncClient(base_url=console_world.base_url) as client:
        form = console_world.password_of(console_world.acme)
        answer = await client.post("/console/sign-in", data=form, headers={"Origin": console_world.base_url})
        first, *rest, ended = answer.headers.get_list("set-cookie")
        assert first.startswith("payrec_session=")
        assert first.endswith("; Path=/; HttpOnly; SameSite=Strict")
        assert all("Max-Age=0" in line for line in rest)
        assert ended.startswith("payrec_ended="), "sessions of before"
        assert ended.endswith("; Path=/; HttpOnly; SameSite=Strict")
        assert console_world.acme.token.split(".")[1] not in first
        assert "Secure" not in first, "development has no TLS"


@pytest.mark.parametrize("kind", ["none", "other key", "cut", "flipped", "garbage", "sign-in", "long"])
async def test_a_cookie_that_is_not_whole_and_ours_is_no_session(console_world: ConsoleWorld, kind: str) -> None:
    async with console_world.client() as client:
        good = client.cookies["payrec_session"]
    raw = bytearray(base64.urlsafe_b64decode(good + "=" * (-len(good) % 4)))
    raw[len(raw) // 2] ^= 1
    sessions = console_world.service.factory.console_sessions
    other = SecretBox(key=b"k" * 32, token_bytes=lambda count: b"n" * count).seal(b"{}", owner=b"session")
    made = {
        "none": "",
        "other key": base64.urlsafe_b64encode(other).decode().rstrip("="),
        "cut": good[:-3],
        "flipped": base64.urlsafe_b64encode(bytes(raw)).decode().rstrip("="),
        "garbage": "%%%",
        "sign-in": sessions.seal_sign_in(sessions.begin_sign_in(next_path="/console")),
        "long": "A" * 9_000,
    }
    async with httpx2.AsyncClient(base_url=console_world.base_url) as client:
        answer = await client.get(PAGE, headers={"Cookie": f"payrec_session={made[kind]}"})
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/console/sign-in")
        whole = await client.get(PAGE, headers={"Cookie": f"payrec_session={good}"})
        assert whole.status_code == 200


FOREIGN_COOKIES = [
    'choice={"analytics":true}',
    "seen=two words",
    "version=2",
    "name@host=1",
    "flag",
    "=nameless",
    "city=M\xfcnchen",
]
"""What other applications set at the same host or above it: RFC 6265, section 5, lets them, and browsers send it."""


@pytest.mark.parametrize("foreign", FOREIGN_COOKIES)
async def test_cookies_of_other_applications_cost_nobody_the_session(console_world: ConsoleWorld, foreign: str) -> None:
    async with console_world.client() as client:
        ours = f"payrec_session={client.cookies['payrec_session']}"
    async with httpx2.AsyncClient(base_url=console_world.base_url) as client:
        for sent in (f"{foreign}; {ours}", f"{ours}; {foreign}", f"{foreign};{ours}"):
            assert (await client.get(PAGE, headers={"Cookie": sent.encode("latin-1")})).status_code == 200, sent


async def test_a_cookie_is_known_by_its_very_name(console_world: ConsoleWorld) -> None:
    """A blank beyond ASCII before it would be a way around what ``__Host-`` asks of whoever sets it."""
    async with console_world.client() as client:
        good = client.cookies["payrec_session"]
    async with httpx2.AsyncClient(base_url=console_world.base_url) as client:
        for name in ("\xa0payrec_session", "\x85payrec_session", "Payrec_session", '"payrec_session"'):
            answer = await client.get(PAGE, headers={"Cookie": f"{name}={good}".encode("latin-1")})
            assert answer.status_code == 303, name


async def test_a_session_opens_its_own_environments_alone(console_world: ConsoleWorld) -> None:
    tester = await console_world.person("viewer")
    async with console_world.client(tester) as client:
        assert (await client.get("/console/test/overview")).status_code == 200
        refused = await client.get("/console/staging/overview")
        assert (refused.status_code, "environment_mismatch" in refused.text) == (403, True)
        assert (await client.get("/console/elsewhere/overview")).status_code == 404
        rest = await client.get("/console/staging/rest/matches", headers=SCRIPT)
        assert (rest.status_code, code(rest)) == (403, "environment_mismatch")


async def test_a_session_is_that_of_its_tenant_whatever_headers_say(console_world: ConsoleWorld) -> None:
    item = {"amount": "1.00", "currency": "EUR", "direction": "credit", "reference": "of acme alone"}
    made = await console_world.rest("POST", "/expected-transactions", json=item)
    path = f"{REST}/expected-transactions/{made.json()['id']}"
    async with console_world.client() as ours, console_world.client(console_world.globex) as theirs:
        assert (await ours.get(path, headers=SCRIPT)).status_code == 200
        forged = SCRIPT | {"X-Tenant-Id": console_world.acme.id, "Authorization": f"Bearer {console_world.acme.token}"}
        assert (await theirs.get(path, headers=forged)).status_code == 404


async def test_a_page_of_somebody_else_has_no_session(console_world: ConsoleWorld) -> None:
    item = {"amount": "4.00", "currency": "EUR", "direction": "credit"}
    mine, other = await console_world.person("admin"), await console_world.person("operator")
    async with console_world.client(mine) as client:
        for user, status in ((mine.user_id, 201), (other.user_id, 401), ("", 401), (console_world.globex.id, 401)):
            of_page = SCRIPT | {"X-Payrec-User": str(user)}
            answer = await client.post(f"{REST}/expected-transactions", json=item, headers=of_page)
            assert answer.status_code == status, user
            fragment = await client.get(f"{PAGE}/figures", headers=of_page)
            assert fragment.status_code == (200 if status == 201 else 401), user


async def test_what_a_role_may_not_do_it_may_not_do_from_the_console(console_world: ConsoleWorld) -> None:
    viewer = await console_world.person("viewer")
    item = {"amount": "1.00", "currency": "EUR", "direction": "credit"}
    async with console_world.client(viewer) as client:
        answer = await client.post(f"{REST}/expected-transactions", json=item, headers=SCRIPT)
        assert (answer.status_code, code(answer)) == (403, "insufficient_permission")


async def test_who_may_not_read_gets_a_page_that_says_so(console_world: ConsoleWorld) -> None:
    platform = await console_world.person("platform-admin")
    async with console_world.client(platform) as client:
        answer = await client.get(PAGE)
        assert (answer.status_code, "insufficient_permission" in answer.text) == (403, True)
        assert answer.headers["content-type"].startswith("text/html")


async def test_a_key_of_an_action_counts_as_that_of_any_client(console_world: ConsoleWorld) -> None:
    item = {"amount": "2.00", "currency": "EUR", "direction": "credit", "reference": "once"}
    headers = SCRIPT | {"Idempotency-Key": "an-action"}
    async with console_world.client() as client:
        first = await client.post(f"{REST}/expected-transactions", json=item, headers=headers)
        again = await client.post(f"{REST}/expected-transactions", json=item, headers=headers)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.headers["idempotency-replayed"] == "true"
    assert first.json()["id"] == again.json()["id"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Payrec-Console": "1"},
        {"X-Payrec-Console": "1", "Sec-Fetch-Site": "cross-site"},
        {"X-Payrec-Console": "1", "Sec-Fetch-Site": "same-site"},
        {"X-Payrec-Console": "1", "Sec-Fetch-Site": "none"},
        {"X-Payrec-Console": "1", "Origin": "https://evil.example"},
        {"X-Payrec-Console": "1", "Origin": "null"},
        {"X-Payrec-Console": "1", "Origin": "http://[::1"},
        {"Sec-Fetch-Site": "same-origin"},
        {"X-Payrec-Console": "0", "Sec-Fetch-Site": "same-origin"},
    ],
)
async def test_another_site_changes_nothing_with_the_cookie(
    console_world: ConsoleWorld, headers: dict[str, str]
) -> None:
    item = {"amount": "3.00", "currency": "EUR", "direction": "credit"}
    async with console_world.client() as client:
        answer = await client.post(f"{REST}/expected-transactions", json=item, headers=headers)
        assert (answer.status_code, code(answer)) == (403, "cross_site_request")


@pytest.mark.parametrize("path", ["/console/sign-in", "/console/sign-out", "/console/authorise"])
async def test_another_site_signs_nobody_in_or_out(console_world: ConsoleWorld, path: str) -> None:
    async with console_world.client() as client:
        for headers in ({"Origin": "https://evil.example"}, {"Origin": "//["}, {"Sec-Fetch-Site": "cross-site"}, {}):
            answer = await client.post(path, data=console_world.password_of(console_world.globex), headers=headers)
            assert (answer.status_code, "cross_site_request" in answer.text) == (403, True)
        assert "set-cookie" not in answer.headers
        assert "Acme" in (await client.get(PAGE)).text


@pytest.mark.parametrize("path", ["/auth/token", "/idp/token", "/api/health", "/api/docs", "/console", "/nothing", ""])
async def test_only_the_interface_is_reached_by_way_of_the_console(console_world: ConsoleWorld, path: str) -> None:
    async with console_world.client() as client:
        answer = await client.get(f"{REST}{path}", headers=SCRIPT)
        assert answer.status_code in {404, 405}


async def test_who_follows_a_link_from_another_site_keeps_the_session(console_world: ConsoleWorld) -> None:
    async with httpx2.AsyncClient(base_url=console_world.base_url) as client:
        answer = await client.get(f"/console/sign-in?next={PAGE}", headers={"Sec-Fetch-Site": "cross-site"})
        assert f'<meta http-equiv="refresh" content="0; url={PAGE}">' in answer.text


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "/console/../../evil",
        "/console\\..\\x",
        "javascript:alert(1)",
        "/consoles",
        "/console@evil.example",
        "/console/\r\nSet-Cookie: a=b",
        "/console/\u2028",
        "/console/" + "x" * 3_000,
        "",
    ],
)
async def test_the_sign_in_leads_to_the_console_and_nowhere_else(console_world: ConsoleWorld, target: str) -> None:
    async with httpx2.AsyncClient(base_url=console_world.base_url) as client:
        form = console_world.password_of(console_world.acme) | {"next": target}
        answer = await client.post("/console/sign-in", data=form, headers={"Origin": console_world.base_url})
        assert (answer.status_code, answer.headers["location"]) == (303, "/console")


@given(st.text(max_size=60) | st.from_regex(r"/console[/?]?[\x00-\xff]{0,40}", fullmatch=True))
def test_whatever_is_asked_for_next_is_a_path_of_the_console(asked: str) -> None:
    found = local(asked)
    assert found == "/console" or found.startswith(("/console/", "/console?"))
    assert ".." not in found
    assert "\\" not in found
    assert found.isprintable()


async def test_a_wrong_password_says_nothing_about_the_name(console_world: ConsoleWorld) -> None:
    async with httpx2.AsyncClient(base_url=console_world.base_url) as client:
        texts = []
        for username in ("admin@acme", "nobody@acme"):
            form = {"username": username, "password": "wrong", "next": PAGE}
            answer = await client.post("/console/sign-in", data=form, headers={"Origin": console_world.base_url})
            assert answer.status_code == 401
            assert "set-cookie" not in answer.headers
            texts.append(answer.text.replace(username, ""))
        assert texts[0] == texts[1]


async def test_what_is_typed_at_the_sign_in_comes_back_as_text(console_world: ConsoleWorld) -> None:
    async with httpx2.AsyncClient(base_url=console_world.base_url) as client:
        form = {"username": '"><script>alert(1)</script>', "password": "x", "next": '/console/"><b>'}
        answer = await client.post("/console/sign-in", data=form, headers={"Origin": console_world.base_url})
        assert "<script>alert" not in answer.text
        assert "<b>" not in answer.text


async def test_every_answer_has_the_policy_and_no_page_is_kept(console_world: ConsoleWorld) -> None:
    async with console_world.client() as client:
        for path in (PAGE, "/console/sign-in", "/console", "/console/nothing", "/console/staging/overview"):
            answer = await client.get(path)
            said = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
            assert said == POLICY
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert answer.headers["cache-control"] == "no-store"


async def test_signing_out_takes_the_cookies_away(console_world: ConsoleWorld) -> None:
    async with console_world.client() as client:
        answer = await client.post("/console/sign-out", headers={"Origin": console_world.base_url})
        assert answer.status_code == 303
        assert (await client.get(PAGE)).status_code == 303


async def test_a_page_signs_nobody_out_but_whom_it_was_made_for(console_world: ConsoleWorld) -> None:
    viewer = await console_world.person("viewer")
    headers = {"Origin": console_world.base_url}
    async with console_world.client(viewer) as client:
        assert f'name="pageOf" value="{viewer.user_id}"' in (await client.get(PAGE)).text
        for tenant in (console_world.acme, console_world.globex):
            async with console_world.client(tenant) as other:
                answer = await other.post("/console/sign-out", data={"pageOf": str(viewer.user_id)}, headers=headers)
                assert (answer.status_code, "another_user" in answer.text) == (403, True)
                assert (await other.get(PAGE)).status_code == 200
        answer = await client.post("/console/sign-out", data={"pageOf": str(viewer.user_id)}, headers=headers)
        assert (answer.status_code, (await client.get(PAGE)).status_code) == (303, 303)


async def test_a_user_who_is_disabled_is_out_at_once(console_world: ConsoleWorld) -> None:
    viewer = await console_world.person("viewer", "operator")
    async with console_world.client(viewer) as client:
        assert (await client.get(PAGE)).status_code == 200
        statement = "UPDATE app_user SET status = 'disabled' WHERE id = %s"
        await in_control(console_world.service, statement, viewer.user_id)
        assert (await client.get(PAGE)).status_code == 403


async def test_who_has_lost_an_environment_gets_on_to_another_one(console_world: ConsoleWorld) -> None:
    moved = await console_world.person("viewer", "approver")
    async with console_world.client(moved) as client:
        statement = "UPDATE app_user SET environments = '{test}' WHERE id = %s"
        await in_control(console_world.service, statement, moved.user_id)
        answer = await client.get("/console", follow_redirects=True)
        assert (answer.status_code, "environment_mismatch" in answer.text) == (403, True)
        assert 'href="/console"' not in answer.text, "it leads here again"
        assert 'href="/console/test/overview"' in answer.text
        assert (await client.get("/console/test/overview")).status_code == 200


async def test_who_is_refused_everywhere_can_sign_out(console_world: ConsoleWorld) -> None:
    platform = await console_world.person("platform-admin")
    async with console_world.client(platform) as client:
        refused = await client.get(PAGE)
        assert (refused.status_code, 'action="/console/sign-out"' in refused.text) == (403, True)
        answer = await client.post("/console/sign-out", headers={"Origin": console_world.base_url})
        assert answer.status_code == 303
        assert 'action="/console/sign-out"' not in (await client.get("/console/nothing")).text
