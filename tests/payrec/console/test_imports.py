"""The pages of imports over HTTP: what they tell, of whom, and that texts of files stay texts."""

from __future__ import annotations

import re
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.console.imports import DAY_WIDTH, drawing
from payrec.constants.accounts import TIMELINE_DAYS
from payrec.domain.business_days import shifted
from payrec.domain.statement_timelines import Timeline, TimelineStatement
from support.browser import ConsoleWorld
from support.service import Tenant
from support.statements import IBAN, camt, message

pytestmark = pytest.mark.anyio

UPLOADS = Path(__file__).parents[2] / "data" / "uploads"
HOSTILE = '<script>alert("x")</script>\u202eevil'
PAGES = "/console/production/imports"


async def upload(
    tenant: Tenant, content: bytes, name: str = "statement.xml", environment: str = "production", **options: str
) -> httpx2.Response:
    return await tenant.post(
        "/incoming-transactions/upload", None, environment, files={"file": (name, content)}, data=options
    )


async def uploaded(tenant: Tenant, content: bytes, name: str = "statement.xml", **options: str) -> dict[str, Any]:
    answer = await upload(tenant, content, name, **options)
    assert answer.status_code in {200, 201}, answer.text
    return dict(answer.json())


async def seen(client: httpx2.AsyncClient, path: str = PAGES, status: int = 200) -> str:
    answer = await client.get(path)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].startswith("text/html")
    return answer.text


async def test_the_list_tells_what_became_of_each_file(console_world: ConsoleWorld) -> None:
    await uploaded(console_world.acme, (UPLOADS / "statement.camt053.xml").read_bytes(), "real.xml")
    moved = b"</Amt><CdtDbtInd>CRDT</CdtDbtInd><Sts>"
    right = message(camt(0, 100, 0, account="GB33BUKB20201555555555"))
    mismatch = right.replace(b"1.00" + moved, b"2.00" + moved)
    await uploaded(console_world.acme, mismatch, "wrong.xml")
    refused = await upload(console_world.acme, b"this is no statement", "letter.txt")
    assert refused.status_code == 422
    async with console_world.client() as client:
        text = await seen(client)
    row = {name: text.split(name)[1].split("</tr>")[0] for name in ("real.xml", "wrong.xml", "letter.txt")}
    assert ">completed<" in row["real.xml"]
    assert ">add up<" in row["real.xml"]
    assert ">do not add up<" in row["wrong.xml"]
    assert ">failed<" in row["letter.txt"]


async def test_one_file_is_told_with_its_statements_and_findings(console_world: ConsoleWorld) -> None:
    await uploaded(console_world.acme, message(camt(0, 100, 0, account="DE02120300000000202051")))
    found = await uploaded(console_world.acme, message(camt(500, 600, 4, account="DE02120300000000202051")))
    async with console_world.client() as client:
        text = await seen(client, f"{PAGES}/{found['id']}")
        lines = await seen(client, f"{PAGES}/{found['id']}/lines")
    assert ">gap before<" in text
    assert "The one before closed on 2 Mar 2026 with" in text or "The one before closed on Mar 2, 2026 with" in text
    assert "1.00\u00a0EUR" in text
    assert "statement_gap" in text
    assert "See the line" in text
    assert "/console/production/incoming/" in lines


async def test_a_file_that_was_refused_says_why(console_world: ConsoleWorld) -> None:
    refused = await upload(console_world.acme, b"neither this nor that", "note.txt")
    assert refused.status_code == 422
    [failed] = (await console_world.rest("GET", "/imports?status=failed&limit=1")).json()["data"]
    async with console_world.client() as client:
        text = await seen(client, f"{PAGES}/{failed['id']}")
    assert "Nothing of this file was stored" in text
    assert failed["error"]["detail"] in text


async def test_texts_of_files_are_texts(console_world: ConsoleWorld) -> None:
    table = f'Date;Text;Amount;Currency\n2026-03-04;"{HOSTILE.replace(chr(34), chr(34) * 2)}";1.00;EUR\n'.encode()
    found = await uploaded(console_world.acme, table, f"{HOSTILE}.csv", account="HOSTILE<b>")
    async with console_world.client() as client:
        for path in ("", f"/{found['id']}", f"/{found['id']}/lines", "/timeline?through=2026-03-31"):
            text = await seen(client, PAGES + path)
            assert "<script>alert" not in text
            assert "\u202e" not in text
            assert "<b>" not in text
        lines = await seen(client, f"{PAGES}/{found['id']}/lines")
    assert "&lt;script&gt;" in lines
    assert "U+202E" in lines


async def test_the_timeline_tells_gaps_and_days_without_statements(console_world: ConsoleWorld) -> None:
    account = "FR1420041010050500013M02606"
    for content in (message(camt(0, 100, 0, account=account)), message(camt(300, 400, 9, account=account))):
        await uploaded(console_world.acme, content)
    [found] = (await console_world.rest("GET", f"/accounts?identifier={account}")).json()["data"]
    async with console_world.client() as client:
        text = await seen(client, f"{PAGES}/timeline?through=2026-03-31&account={found['id']}")
        every = await seen(client, f"{PAGES}/timeline?through=2026-03-31")
        assert "Later" in await seen(client, f"{PAGES}/timeline?through=0001-01-01")
        assert account in await seen(client, f"{PAGES}/timeline?through=9999-12-31")
        await seen(client, f"{PAGES}/timeline?through=tomorrow", 422)
        await seen(client, f"{PAGES}/timeline?until=2026-03-31", 422)
    assert f"2 of {TIMELINE_DAYS}" in text
    assert "2.00\u00a0EUR moved there: closed with 1.00\u00a0EUR, opened with 3.00\u00a0EUR" in text
    assert text.count("File of") == 2
    assert account in every
    assert 'style="' not in text


async def test_nothing_of_another_tenant_or_environment_is_shown(console_world: ConsoleWorld) -> None:
    theirs = await uploaded(console_world.globex, message(camt(0, 700, 0, account=IBAN)), "theirs.xml")
    [account] = (await console_world.globex.get("/accounts", params={"identifier": IBAN})).json()["data"]
    in_test = await upload(console_world.acme, message(camt(0, 900, 0)), "in-test.xml", "test")
    assert in_test.status_code == 201
    async with console_world.client() as client:
        text = await seen(client)
        await seen(client, f"{PAGES}/{theirs['id']}", 404)
        await seen(client, f"{PAGES}/{theirs['id']}/lines", 404)
        await seen(client, f"{PAGES}/{in_test.json()['id']}", 404)
        await seen(client, f"{PAGES}/timeline?account={account['id']}", 404)
        await seen(client, f"{PAGES}/no-id", 404)
        assert "in-test.xml" in await seen(client, "/console/test/imports")
    assert "theirs.xml" not in text
    assert "in-test.xml" not in text


async def test_who_may_only_read_is_offered_nothing_to_change(console_world: ConsoleWorld) -> None:
    viewer, operator = await console_world.person("viewer"), await console_world.person("operator")
    async with console_world.client(viewer) as client:
        text = await seen(client)
    assert 'id="upload"' not in text
    assert "imports.js" not in text
    async with console_world.client(operator) as client:
        text = await seen(client)
    assert 'id="upload"' in text
    # A profile is part of the settings.
    assert 'id="save-profile"' not in text
    async with console_world.client() as client:
        assert 'id="save-profile"' in await seen(client)


async def test_older_imports_are_on_further_pages(console_world: ConsoleWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("payrec.console.imports.IMPORTS_SHOWN", 2)
    for number in range(3):
        await uploaded(console_world.acme, message(camt(0, 100, number, account="NL91ABNA0417164300")))
    async with console_world.client() as client:
        first = await seen(client)
        older = first.split("?cursor=")[1].split('"')[0]
        second = await seen(client, f"{PAGES}?cursor={older}")
        await seen(client, f"{PAGES}?cursor=forged", 400)
    assert first.count('<th scope="row">') == 2
    assert "Newest" in second


FIRST = date(2026, 1, 1)
SPANS = st.lists(st.tuples(st.integers(-30, 120), st.integers(0, 40)), max_size=8)


@given(SPANS)
def test_each_statement_of_the_days_is_drawn_once_and_within_them(spans: list[tuple[int, int]]) -> None:
    statements = [
        TimelineStatement(
            import_id=UUID(int=0),
            begins_on=FIRST + timedelta(days=begin),
            ends_on=FIRST + timedelta(days=begin + length),
            opening_minor=None,
            closing_minor=None,
            entry_count=1,
            balance_check="not_available",
            continuity=None,
            expected_opening_minor=None,
            expected_on=None,
        )
        for begin, length in spans
    ]
    found = Timeline(
        account_id=UUID(int=0),
        since=FIRST,
        until=FIRST + timedelta(days=TIMELINE_DAYS - 1),
        statements=statements,
        gaps=[],
        missing=[],
        latest_on=None,
        is_cut=False,
    )
    made = drawing(found)
    bars = [(int(x), int(width)) for x, width in re.findall(r"M(\d+) 0h(\d+)v16", made.covered)]
    assert len(bars) == sum(begin < TIMELINE_DAYS and begin + length >= 0 for begin, length in spans)
    assert all(width > 0 and x + width < made.width for x, width in bars)
    assert made.covered.count("M") == len(bars)
    assert made.width == TIMELINE_DAYS * DAY_WIDTH


@given(st.dates(), st.integers(-(10**6), 10**6))
def test_no_day_lies_beyond_the_calendar(day: date, days: int) -> None:
    found = shifted(day, days)
    assert found in {date.min, date.max} or (found - day).days == days
