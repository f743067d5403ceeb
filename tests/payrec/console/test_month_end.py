"""The pages of a month-end over HTTP: what explains each account, what is open, and who may lock."""

from __future__ import annotations

from datetime import date
from typing import Any

import httpx2
import pytest

from payrec.console import month_end
from payrec.console.month_end import MONTHS_OFFERED, month_ends
from support.browser import ConsoleWorld
from support.service import Tenant
from support.statements import IBAN, camt, message

pytestmark = pytest.mark.anyio

PAGE = "/console/production/month-end"
CUT_OFF = "2026-03-31"
HOSTILE = "<img src=x>\u202e"


@pytest.fixture(scope="module", autouse=True)
async def statements(console_world: ConsoleWorld) -> None:
    """Two statements of acme with a gap between them, and one of globex."""
    for content in (message(camt(0, 100, 0)), message(camt(300, 450, 8))):
        await uploaded(console_world.acme, content)
    await uploaded(console_world.globex, message(camt(0, 700, 0, account="GB33BUKB20201555555555")))


async def uploaded(tenant: Tenant, content: bytes) -> None:
    files = {"file": ("statement.xml", content)}
    answer = await tenant.post("/incoming-transactions/upload", None, files=files)
    assert answer.status_code in {200, 201}, answer.text


async def account(tenant: Tenant, identifier: str = IBAN) -> str:
    [found] = (await tenant.get("/accounts", params={"identifier": identifier})).json()["data"]
    return str(found["id"])


async def seen(client: httpx2.AsyncClient, path: str = "", status: int = 200, **headers: str) -> str:
    answer = await client.get(PAGE + path, headers=headers)
    assert answer.status_code == status, answer.text
    return answer.text


async def lock(tenant: Tenant, through: str, **given: Any) -> httpx2.Response:
    return await tenant.post("/period-locks", {"through": through, "reason": "closed", **given})


async def test_a_statement_has_its_parts_its_difference_and_its_gaps(console_world: ConsoleWorld) -> None:
    wanted = await account(console_world.acme)
    async with console_world.client() as client:
        text = await seen(client, f"/{wanted}/statement?cutOff={CUT_OFF}")
        part = await seen(client, f"/{wanted}?cutOff={CUT_OFF}&part=open")
        none = await seen(client, f"/{wanted}?cutOff={CUT_OFF}&part=classified")
    rows = [" ".join(row.split("</tr>")[0].split()) for row in text.split("<tr")]
    [open_row] = [row for row in rows if ">Open<" in row]
    assert "2 lines" in open_row
    assert ">2.50<" in open_row
    [difference] = [row for row in rows if "Difference to the bank" in row]
    assert "2.00 EUR" in difference
    assert "gap between statements" in text
    assert part.count('<th scope="row">') == 2
    assert "No line is of this part" in none


async def test_what_is_open_is_told_before_a_period_is_locked(console_world: ConsoleWorld) -> None:
    async with console_world.client() as client:
        text = await seen(client, f"/readiness?cutOff={CUT_OFF}")
        before = await seen(client, "/readiness?cutOff=2020-01-31")
    assert text.count("/console/production/incoming/") == 2
    assert text.count("/console/production/imports/") == 1
    assert "Nothing is open in these days" not in text
    assert "Nothing is open in these days" in before


async def test_a_match_that_waits_for_approval_is_linked(console_world: ConsoleWorld) -> None:
    world = console_world
    approval = {"approval": {"secondPersonAboveMinor": 100, "currency": "EUR"}}
    path = f"/tenants/{world.acme.id}/settings"
    assert (await world.rest("PATCH", path, environment="test", json=approval)).status_code == 200
    same = {"direction": "credit", "amount": "5.00", "currency": "EUR"}
    item = await world.acme.post("/expected-transactions", {**same, "dueDate": "2026-03-05"}, "test")
    line = await world.acme.post("/incoming-transactions", {**same, "bookingDate": "2026-03-05"}, "test")
    leg = {"expectedTransactionId": item.json()["id"], "incomingTransactionId": line.json()["id"], "amountMinor": 500}
    made = await world.acme.post("/matches", {"legs": [leg], "reason": "by hand"}, "test")
    assert made.json()["status"] == "pending_approval", made.text
    async with world.client() as client:
        answer = await client.get(f"/console/test/month-end/readiness?cutOff={CUT_OFF}")
    assert f"/console/test/matches/{made.json()['id']}" in answer.text


async def test_the_end_of_the_last_month_is_the_cut_off_unless_one_is_given(console_world: ConsoleWorld) -> None:
    async with console_world.client() as client:
        text = await seen(client)
        given = await seen(client, f"?cutOff={CUT_OFF}")
        await seen(client, "?cutOff=yesterday", 422)
    ended = month_ends(console_world.service.factory.context.clock.now().date())[0]
    assert f'value="{ended}"' in text
    assert f'value="{CUT_OFF}"' in given
    assert f"/console/production/month-end/{await account(console_world.acme)}/statement?cutOff={CUT_OFF}" in given


def test_ends_of_months_are_those_before_a_day() -> None:
    found = month_ends(date(2026, 3, 31))
    assert found[:2] == [date(2026, 2, 28), date(2026, 1, 31)]
    assert len(found) == MONTHS_OFFERED


async def test_an_account_without_a_statement_at_the_day_is_refused_by_itself(console_world: ConsoleWorld) -> None:
    wanted = await account(console_world.acme)
    path = f"/{wanted}/statement?cutOff=2020-01-31"
    async with console_world.client() as client:
        await seen(client, path, 422)
        # A script is told as a problem, and shows the rest of the page all the same.
        answer = await client.get(PAGE + path, headers={"X-Payrec-Console": "1", "Sec-Fetch-Site": "same-origin"})
        assert answer.json()["errors"][0]["code"] == "cut_off_before_opening"
        await seen(client, "?cutOff=2020-01-31")


async def test_nothing_of_another_tenant_or_environment_is_shown(console_world: ConsoleWorld) -> None:
    theirs = await account(console_world.globex, "GB33BUKB20201555555555")
    ours = await account(console_world.acme)
    assert (await lock(console_world.globex, "2020-02-29")).status_code == 201
    async with console_world.client() as client:
        text = await seen(client, f"?cutOff={CUT_OFF}")
        await seen(client, f"/{theirs}/statement?cutOff={CUT_OFF}", 404)
        await seen(client, f"/{theirs}?cutOff={CUT_OFF}", 404)
        answer = await client.get(f"/console/test/month-end/{ours}/statement?cutOff={CUT_OFF}")
        assert answer.status_code == 404
    assert "GB33BUKB20201555555555" not in text
    assert "2020" not in text


async def test_locks_are_shown_to_all_and_offered_to_who_manages_periods(console_world: ConsoleWorld) -> None:
    made = await lock(console_world.acme, "2019-12-31", reason=f"{HOSTILE}closed")
    assert made.status_code == 201, made.text
    texts = {}
    for role in ("viewer", "operator", "approver"):
        async with console_world.client(await console_world.person(role)) as client:
            texts[role] = await seen(client, "?cutOff=2020-01-31")
            assert "All days until Dec 31, 2019 are locked" in await seen(client, "?cutOff=2019-12-31")
    for text in texts.values():
        assert "closed" in text
        assert "Before Jan 31, 2020 is locked" in text
        assert HOSTILE not in text
        assert "&lt;img src=x&gt;" in text
    offered = {role: ('id="lock"' in text, "data-reopen=" in text) for role, text in texts.items()}
    assert offered == {"viewer": (False, False), "operator": (False, False), "approver": (True, True)}
    reopened = await console_world.acme.post(f"/period-locks/{made.json()['id']}/reopen", {"reason": "again"})
    assert reopened.status_code == 200, reopened.text
    async with console_world.client() as client:
        text = await seen(client)
    assert ">reopened<" in text
    assert made.json()["id"] not in text


async def test_a_lock_of_all_accounts_holds_however_many_of_one_came_after_it(
    console_world: ConsoleWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(month_end, "LOCKS_SHOWN", 1)
    later = {"account": IBAN, "override": True}
    made = [await lock(console_world.acme, "2019-11-30"), await lock(console_world.acme, "2019-12-15", **later)]
    assert [answer.status_code for answer in made] == [201, 201]
    async with console_world.client() as client:
        assert "All days until Nov 30, 2019 are locked" in await seen(client, "?cutOff=2019-11-30")
        assert "All days until" not in await seen(client, "?cutOff=2019-12-15")
    for answer in made:
        reopened = await console_world.acme.post(f"/period-locks/{answer.json()['id']}/reopen", {"reason": "again"})
        assert reopened.status_code == 200, reopened.text
