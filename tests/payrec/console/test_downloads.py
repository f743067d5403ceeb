"""What pages let be taken away: by a plain link, by whom, and never to be run or read by anybody else."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from support.browser import ConsoleWorld
from support.service import Tenant
from support.statements import IBAN, camt, message
from support.wire import code, rows

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = pytest.mark.anyio

PAGES = "/console/production"
CUT_OFF = "2026-03-31"
FORMULA = "=1+1"
HOSTILE = '=cmd|"x"\u202e.html'
CONTENT = message(camt(300, 450, 8))
STATEMENT = ["account", "cutOff", "lockedAt", "currency", "figure", "lines", "amountMinor"]
LINES = [*STATEMENT[:4], "part", "incomingTransactionId", "bookingDate", "shareMinor", "movedMinor"]


@dataclass(frozen=True, kw_only=True)
class Held:
    """What a tenant has to be taken away."""

    tenant: Tenant
    import_id: str
    account_id: str
    formula_id: str

    @property
    def paths(self) -> dict[str, str]:
        """All that pages lead to."""
        of_account = f"{PAGES}/month-end/{self.account_id}"
        return {
            "findings": f"{PAGES}/imports/{self.import_id}/findings.csv",
            "file": f"{PAGES}/imports/{self.import_id}/file",
            "statement": f"{of_account}/statement.csv?cutOff={CUT_OFF}",
            "lines": f"{of_account}/lines.csv?cutOff={CUT_OFF}&part=open",
        }


@pytest.fixture(scope="module")
async def held(console_world: ConsoleWorld) -> dict[str, Held]:
    """Two statements with a gap between them, whose file has a hostile name, of each of two tenants."""
    found = {}
    for tenant in (console_world.acme, console_world.globex):
        for content in (message(camt(0, 100, 0)), CONTENT):
            files = {"file": (HOSTILE, content)}
            made = await tenant.post("/incoming-transactions/upload", None, files=files)
            assert made.status_code in {200, 201}, made.text
        import_id = made.json()["id"]
        query = f"UPDATE import_problem SET detail = '{FORMULA}' WHERE import_id = '{import_id}'"  # noqa: S608 - our own
        await rows(console_world.service, tenant, query)
        [account] = (await tenant.get("/accounts", params={"identifier": IBAN})).json()["data"]
        odd = await tenant.post("/accounts", {"identifier": FORMULA, "currency": "EUR"})
        assert odd.status_code == 201, odd.text
        found[tenant.slug] = Held(
            tenant=tenant, import_id=import_id, account_id=account["id"], formula_id=odd.json()["id"]
        )
    return found


def table(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


async def taken(client: httpx2.AsyncClient, path: str) -> httpx2.Response:
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    return answer


@pytest.mark.parametrize("name", ["findings", "file", "statement", "lines"])
async def test_a_link_alone_takes_it_away_and_nothing_shows_it(
    console_world: ConsoleWorld, held: dict[str, Held], name: str
) -> None:
    """Also to who may only read."""
    async with console_world.client(await console_world.person("viewer")) as client:
        answer = await taken(client, held["acme"].paths[name])
    assert answer.headers["content-disposition"].startswith('attachment; filename="')
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    kinds = {"file": "application/octet-stream"}
    assert answer.headers["content-type"] == kinds.get(name, "text/csv; charset=utf-8")


async def test_the_file_is_the_one_that_came(console_world: ConsoleWorld, held: dict[str, Held]) -> None:
    async with console_world.client() as client:
        answer = await taken(client, held["acme"].paths["file"])
        shown = await client.get(f"{PAGES}/imports/{held['acme'].import_id}")
    assert answer.content == CONTENT
    assert "\u202e" not in answer.headers["content-disposition"]
    assert "%E2%80%AE" not in answer.headers["content-disposition"]
    assert answer.headers["content-disposition"].count('"') == 2
    for name in ("file", "findings"):
        assert f'href="{held["acme"].paths[name]}?pageOf=' in shown.text


async def test_the_findings_are_those_of_the_interface_and_no_formulas(
    console_world: ConsoleWorld, held: dict[str, Held]
) -> None:
    ours = held["acme"]
    async with console_world.client() as client:
        answer = await taken(client, ours.paths["findings"])
    told = await ours.tenant.get(f"/imports/{ours.import_id}/errors", headers={"Accept": "text/csv"})
    assert answer.text == told.text
    head, finding = table(answer.text)
    assert dict(zip(head, finding, strict=True))["detail"] == f"'{FORMULA}"


async def test_a_statement_and_its_lines_are_those_of_the_interface(
    console_world: ConsoleWorld, held: dict[str, Held]
) -> None:
    ours = held["acme"]
    told = (await ours.tenant.get(f"/accounts/{ours.account_id}/reconciliation", params={"cutOff": CUT_OFF})).json()
    async with console_world.client() as client:
        head, *figures = table((await taken(client, ours.paths["statement"])).text)
        titles, *lines = table((await taken(client, ours.paths["lines"])).text)
        shown = await client.get(f"{PAGES}/month-end/{ours.account_id}/statement?cutOff={CUT_OFF}")
        part = await client.get(f"{PAGES}/month-end/{ours.account_id}?cutOff={CUT_OFF}&part=open")
    assert (head, titles) == (STATEMENT, LINES)
    assert {tuple(row[:4]) for row in [*figures, *lines]} == {(IBAN, CUT_OFF, "", "EUR")}
    found = {name: (count, minor) for *_, name, count, minor in figures}
    assert found["open"] == (str(told["open"]["count"]), str(told["open"]["sumMinor"])) == ("2", "250")
    for name in ("balance", "statementBalance", "difference", "openingBalance"):
        assert found[name] == ("", str(told[f"{name}Minor"]))
    assert found["bookBalance"] == ("", ""), "unknown is not nothing"
    assert [(row[4], row[6], row[7]) for row in lines] == [("open", "2026-03-02", "100"), ("open", "2026-03-10", "150")]
    assert f'href="{ours.paths["statement"]}&amp;pageOf=' in shown.text
    assert f'href="{ours.paths["lines"].replace("&", "&amp;")}&amp;pageOf=' in part.text


async def test_lines_are_all_of_them_in_order_however_many_are_read_at_once(
    console_world: ConsoleWorld, held: dict[str, Held], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = held["acme"].paths["lines"]
    async with console_world.client() as client:
        whole = (await taken(client, path)).text
        monkeypatch.setattr("payrec.services.csv_text.PROBLEMS_READ_AT_ONCE", 1)
        assert (await taken(client, path)).text == whole


async def test_an_account_that_is_called_like_a_formula_is_none(
    console_world: ConsoleWorld, held: dict[str, Held]
) -> None:
    path = f"{PAGES}/month-end/{held['acme'].formula_id}/statement.csv?cutOff={CUT_OFF}"
    async with console_world.client() as client:
        _, *figures = table((await taken(client, path)).text)
    assert {row[0] for row in figures} == {f"'{FORMULA}"}


@pytest.mark.parametrize("name", ["findings", "file", "statement", "lines"])
async def test_nobody_else_takes_anything_away(console_world: ConsoleWorld, held: dict[str, Held], name: str) -> None:
    path = held["acme"].paths[name]
    async with console_world.client(console_world.globex) as theirs, console_world.client() as ours:
        for client, asked in ((theirs, path), (ours, path.replace("/production/", "/test/"))):
            answer = await client.get(asked)
            assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
            assert "content-disposition" not in answer.headers
        for headers in ({}, {"Cookie": "payrec_session=x"}, {"Authorization": f"Bearer {console_world.acme.token}"}):
            async with httpx2.AsyncClient(base_url=console_world.base_url) as nobody:
                answer = await nobody.get(path, headers=headers)
                assert (answer.status_code, answer.headers["location"][:16]) == (303, "/console/sign-in")
    async with console_world.client(await console_world.person("platform-admin")) as client:
        answer = await client.get(path)
        assert (answer.status_code, "insufficient_permission" in answer.text) == (403, True)


@pytest.mark.parametrize("name", ["findings", "file", "statement", "lines"])
async def test_a_link_of_a_page_is_followed_by_whose_page_it_is(
    console_world: ConsoleWorld, held: dict[str, Held], name: str
) -> None:
    """Somebody else may have signed in since, of this tenant or of another one."""
    viewer = await console_world.person("viewer")
    path = held["acme"].paths[name]
    link = f"{path}{'&' if '?' in path else '?'}pageOf={viewer.user_id}"
    async with console_world.client(viewer) as client:
        assert (await taken(client, link)).headers["content-disposition"]
    for other in (console_world.acme, console_world.globex):
        async with console_world.client(other) as client:
            answer = await client.get(link)
            assert (answer.status_code, "another_user" in answer.text) == (403, True)
            assert "content-disposition" not in answer.headers
    async with httpx2.AsyncClient(base_url=console_world.base_url) as nobody:
        answer = await nobody.get(link)
        assert (answer.status_code, str(viewer.user_id) in answer.headers["location"]) == (303, True)


async def test_the_way_to_the_interface_goes_on_asking_for_the_header(
    console_world: ConsoleWorld, held: dict[str, Held]
) -> None:
    async with console_world.client() as client:
        answer = await client.get(f"{PAGES}/rest/imports/{held['acme'].import_id}/content")
        assert (answer.status_code, code(answer)) == (403, "cross_site_request")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("statement.csv", 422),
        ("statement.csv?cutOff=yesterday", 422),
        (f"lines.csv?cutOff={CUT_OFF}", 422),
        (f"lines.csv?cutOff={CUT_OFF}&part=all", 422),
        ("statement.csv?cutOff=2020-01-31", 422),
        ("lines.csv?cutOff=2020-01-31&part=open", 422),
    ],
)
async def test_what_cannot_be_taken_is_told_on_a_page(
    console_world: ConsoleWorld, held: dict[str, Held], path: str, status: int
) -> None:
    async with console_world.client() as client:
        answer = await client.get(f"{PAGES}/month-end/{held['acme'].account_id}/{path}")
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")


async def test_links_are_pressed_in_a_browser(page: Page, held: dict[str, Held], tmp_path: Path, axe: Any) -> None:
    ours = held["acme"]

    async def pressed(link: str) -> tuple[str, bytes]:
        async with page.expect_download() as downloading:
            await page.get_by_role("link", name=link).click()
        saved = tmp_path / "saved"
        done = await downloading.value
        await done.save_as(saved)
        return done.suggested_filename, saved.read_bytes()

    await page.goto(f"{PAGES}/imports/{ours.import_id}")
    await axe(page)
    name, content = await pressed("The file as it came")
    assert (content, "\u202e" in name) == (CONTENT, False)
    name, content = await pressed("All findings as CSV")
    assert name == f"{ours.import_id}-findings.csv"
    assert f"'{FORMULA}" in content.decode()
    await page.goto(f"{PAGES}/month-end?cutOff={CUT_OFF}")
    statement = page.get_by_role("article", name=IBAN)
    await statement.get_by_role("link", name="This statement as CSV").wait_for()
    async with page.expect_download() as downloading:
        await statement.get_by_role("link", name="This statement as CSV").click()
    assert (await downloading.value).suggested_filename == f"{IBAN}-{CUT_OFF}.csv"
    await statement.get_by_role("link", name="2 lines").click()
    await axe(page)
    name, content = await pressed("All of these lines as CSV")
    assert name == f"{IBAN}-{CUT_OFF}-open.csv"
    assert len(table(content.decode())) == 3
