"""The page that finds everything, over HTTP: what leads where, in whose locale, and what the database bears."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import httpx2
import pytest

from payrec.services import search as service
from payrec.storage import search as store
from support.browser import ConsoleWorld
from support.service import Tenant
from support.transactions import expect, receive

pytestmark = pytest.mark.anyio

PAGE = "/console/production/search"
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202e"
NOWHERE = "0192f0c1-2345-7000-8000-000000000000"


async def seen(client: httpx2.AsyncClient, path: str = PAGE, status: int = 200, **query: Any) -> str:
    answer = await client.get(path, params=query or None)
    assert answer.status_code == status, answer.text
    return str(answer.text)


def found(text: str, kind: str) -> list[str]:
    """Return the ids that the results of a kind lead to, in their order."""
    section = re.search(rf'id="found-{kind}".*?</section>', text, re.DOTALL)
    assert section is not None, text
    return re.findall(rf'href="/console/production/{kind}/([0-9a-f-]{{36}})"', section[0])


async def locale(tenant: Tenant, tag: str) -> None:
    answer = await tenant.request("PATCH", f"/tenants/{tenant.id}/settings", json={"locale": tag})
    assert answer.status_code == 200, answer.text


@pytest.fixture
async def german(console_world: ConsoleWorld) -> Any:
    """A tenant that writes amounts as in Germany."""
    await locale(console_world.globex, "de-DE")
    yield console_world.globex
    await locale(console_world.globex, "en")


async def test_an_amount_is_found_in_every_currency_and_with_its_match(console_world: ConsoleWorld) -> None:
    acme = console_world.acme
    line, item = await receive(acme, "8123.50"), await expect(acme, "8123.50")
    dinar = await receive(acme, "8123.500", currency="KWD")
    out = await receive(acme, "8123.50", direction="debit")
    await receive(acme, "812350", currency="JPY")
    legs = [{"expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": 812_350}]
    match = (await acme.post("/matches", {"legs": legs, "reason": "seen"})).json()["id"]
    async with console_world.client() as client:
        for typed in ("8,123.50", "8.123,50", "8123.5", "8 123,50"):
            text = await seen(client, q=typed)
            assert found(text, "incoming") == [out, dinar, line], typed
            assert (found(text, "expected"), found(text, "matches")) == ([item], [match])
        assert found(await seen(client, q="-8,123.50"), "incoming") == [out]
        assert found(await seen(client, q="+8,123.50"), "incoming") == [dinar, line]
        assert found(await seen(client, q="8,123.50 KWD"), "incoming") == [dinar]
        assert found(await seen(client, q="8,123.51"), "incoming") == []


async def test_the_locale_says_what_a_separator_means(console_world: ConsoleWorld, german: Tenant) -> None:
    thousands, fraction = await receive(german, "4321.00"), await receive(german, "4.321", currency="KWD")
    async with console_world.client(german) as client:
        assert found(await seen(client, q="4.321"), "incoming") == [thousands]
        assert found(await seen(client, q="4,321"), "incoming") == [fraction]
        assert "1.234,50" in await seen(client)
    line = await receive(console_world.acme, "4321.00")
    async with console_world.client() as client:
        assert found(await seen(client, q="4,321"), "incoming") == [line]


async def test_texts_are_found_whole_first_and_then_in_part(console_world: ConsoleWorld) -> None:
    acme = console_world.acme
    whole = await expect(acme, reference="ZX-90")
    newer = await expect(acme, reference="ZX-901", counterpartyName="Zebra")
    line = await receive(acme, remittance="Invoice zx-90, thank you")
    async with console_world.client() as client:
        text = await seen(client, q="ZX-90")
        assert (found(text, "expected"), found(text, "incoming")) == ([whole, newer], [line])
        assert found(await seen(client, q=" zebra "), "expected") == [newer]
        assert found(await seen(client, q="z_x-90"), "expected") == []
        assert found(await seen(client, q="ZX%"), "expected") == []
        assert "Nothing was found." in await seen(client, q="ZX%")


async def test_an_import_is_found_by_its_name(console_world: ConsoleWorld) -> None:
    record = b'[{"direction":"credit","currency":"EUR","amountMinor":5,"bookingDate":"2026-03-12"}]'
    answer = await console_world.acme.post(
        "/incoming-transactions/upload", None, files={"file": ("bank-of-march.json", record)}
    )
    assert answer.status_code == 201, answer.text
    async with console_world.client() as client:
        assert found(await seen(client, q="OF-MARCH"), "imports") == [answer.json()["id"]]


async def test_an_id_leads_to_its_page(console_world: ConsoleWorld) -> None:
    acme = console_world.acme
    line, item = await receive(acme, endToEndId=NOWHERE), await expect(acme)
    legs = [{"expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": 1}]
    match = (await acme.post("/matches", {"legs": legs, "reason": "seen"})).json()["id"]
    async with console_world.client() as client:
        for kind, wanted in (("incoming", line), ("expected", item), ("matches", match)):
            answer = await client.get(PAGE, params={"q": f" {wanted.upper()} "})
            assert (answer.status_code, answer.headers["location"]) == (303, f"/console/production/{kind}/{wanted}")
        text = await seen(client, q=NOWHERE)
        assert "Nothing has this id." in text
        assert found(text, "incoming") == [line]
    async with console_world.client(console_world.globex) as client:
        assert "Nothing has this id." in await seen(client, q=line)


async def test_everything_is_reached_page_by_page(console_world: ConsoleWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [await receive(console_world.acme, remittance=f"paged {'yes' if n % 3 else 'no'}") for n in range(30)]
    wanted = [line for n, line in enumerate(made) if n % 3][::-1]
    monkeypatch.setattr(service, "SEARCH_RESULTS_MAX", 4)
    for rows in (5, 1_000):
        monkeypatch.setattr(service, "SEARCH_ROWS_MAX", rows)
        async with console_world.client() as client:
            assert [line for line in await walked(client, "paged yes", "incoming") if line in made] == wanted


async def walked(client: httpx2.AsyncClient, typed: str, kind: str) -> list[str]:
    """Return all results of a kind, by following the way to older ones to its end."""
    text = await seen(client, q=typed)
    collected = found(text, kind)
    for _ in range(200):
        section = text.split(f'id="found-{kind}"')[1].split("</section>")[0]
        older = re.search(r'class="more">.*?href="([^"]+)"', section, re.DOTALL)
        if older is None:
            return collected
        text = await seen(client, older[1].replace("&amp;", "&"))
        collected += found(text, kind)
    raise AssertionError("the pages have no end")


@pytest.fixture
def _slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the database take longer for parts of texts than it may."""
    monkeypatch.setattr(store, "SEARCH_SECONDS_MAX", 1)
    monkeypatch.setattr(store, "_BY_PART", store._BY_PART.replace("WHERE {condition}", "WHERE pg_sleep(5) IS NOT NULL"))


@pytest.mark.usefixtures("_slow")
async def test_what_takes_too_long_is_ended_and_told(console_world: ConsoleWorld) -> None:
    whole = await expect(console_world.acme, reference="SLOW-1")
    await receive(console_world.acme)
    async with console_world.client() as client:
        text = await seen(client, q="SLOW-1", kind="expected")
    assert found(text, "expected") == [whole]
    assert "had not ended after" in text


async def test_texts_of_strangers_stay_texts(console_world: ConsoleWorld) -> None:
    acme = console_world.acme
    line = await receive(acme, remittance=HOSTILE, counterpartyName=HOSTILE)
    item = await expect(acme, reference=HOSTILE, description=HOSTILE, counterpartyName=HOSTILE)
    async with console_world.client() as client:
        text = await seen(client, q=HOSTILE)
    assert (found(text, "incoming"), found(text, "expected")) == ([line], [item])
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert "U+202E" in text


async def test_another_tenant_finds_nothing_of_it(console_world: ConsoleWorld) -> None:
    await receive(console_world.acme, "9911.77", remittance="nobody else's business")
    async with console_world.client(console_world.globex) as client:
        for typed in ("9,911.77", "nobody else's business"):
            assert found(await seen(client, q=typed), "incoming") == []
    async with console_world.client(await console_world.person("viewer")) as client:
        assert len(found(await seen(client, q="nobody else's business"), "incoming")) == 1


@pytest.mark.parametrize("given", [{"q": "a\x00b"}, {"q": "x" * 201}, {"kind": "jobs"}, {"before": "x"}, {"more": "1"}])
async def test_what_cannot_be_looked_for_is_refused(console_world: ConsoleWorld, given: dict[str, str]) -> None:
    async with console_world.client() as client:
        await seen(client, status=422, **given)


def test_an_id_after_all_others_is_one() -> None:
    assert UUID(store._LAST).int == 2**128 - 1
