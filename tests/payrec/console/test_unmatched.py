"""The page of what is open over HTTP: what it lists and by which filters, for whom, and that texts stay texts."""

from __future__ import annotations

import re
from typing import Any

import httpx2
import pytest

from payrec.console.unmatched import ROWS_SHOWN, UnmatchedQuery, read_filters
from support.browser import ConsoleWorld
from support.transactions import expect, receive

pytestmark = pytest.mark.anyio

PAGE = "/console/production/unmatched"
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202egnp.exe =1+1"
SCRIPT = {"X-Payrec-Console": "1", "Sec-Fetch-Site": "same-origin"}


async def seen(client: httpx2.AsyncClient, path: str = PAGE, status: int = 200, **query: Any) -> str:
    answer = await client.get(path, params=query)
    assert answer.status_code == status, answer.text
    return str(answer.text)


def ids(text: str, side: str) -> list[str]:
    return re.findall(rf'id="{side}-([0-9a-f-]{{36}})"', text)


async def test_both_sides_are_listed_with_why_they_are_open(console_world: ConsoleWorld) -> None:
    item = await expect(console_world.acme, "1234.50", counterpartyName="Bolt GmbH", reference="INV-1")
    line = await receive(console_world.acme, "77.00", counterpartyName="Nagel AG", remittance="rent of March")
    run = await console_world.rest("POST", "/matches/match", json={"wait": 20})
    assert run.json()["status"] == "succeeded"
    async with console_world.client() as client:
        text = await seen(client)
    assert item in ids(text, "expected")
    assert line in ids(text, "incoming")
    for told in ("Bolt GmbH", "INV-1", "1,234.50\u00a0EUR", "Nagel AG", "rent of March", "77.00\u00a0EUR"):
        assert told in text
    assert "Nothing on the other side resembles it" in text


async def test_what_is_in_a_proposal_says_so_and_leads_to_it(console_world: ConsoleWorld) -> None:
    names = {"counterpartyName": "Waiting Ltd", "currency": "NOK"}
    item = await expect(console_world.acme, "640.00", reference="WAITS-2026-0001", **names)
    line = await receive(console_world.acme, "640.00", remittance="WAITS-2026-0001", **names)
    new = await receive(console_world.acme, "13.00", remittance="came after the run", **names)
    run = await console_world.rest("POST", "/matches/match", json={"wait": 60, "incomingFilter": {"q": "WAITS-2026"}})
    assert run.json()["status"] == "succeeded", run.text
    [match] = (await console_world.rest("GET", f"/matches?incomingTransactionId={line}")).json()["data"]
    async with console_world.client() as client:
        text = await seen(client, currency="NOK")
        pages = [await seen(client, f"/console/production/{path}") for path in (f"incoming/{line}", f"expected/{item}")]
    link = f'href="/console/production/review?match={match["id"]}">A proposal waits in the review</a>'
    rows = {row: re.split(r"</li>", text.split(row, 1)[1], maxsplit=1)[0] for row in (line, item, new)}
    assert [link in rows[row] for row in (line, item, new)] == [True, True, False]
    assert "Not looked at by a matching run yet" in rows[new]
    assert all(link in told for told in pages)


async def test_filters_narrow_both_sides(console_world: ConsoleWorld) -> None:
    marks = {"counterpartyName": "Filtered Ltd"}
    old = await receive(console_world.acme, "10.00", bookingDate="2020-01-02", currency="CHF", **marks)
    new = await receive(console_world.acme, "5000.00", bookingDate="2099-01-02", currency="CHF", account="A-1", **marks)
    due = await expect(console_world.acme, "5000.00", currency="CHF", dueDate="2020-01-02", **marks)
    later = await expect(console_world.acme, "1.00", currency="CHF", dueDate="2099-01-02", direction="debit", **marks)
    cases: list[tuple[dict[str, Any], set[str], set[str]]] = [
        ({}, {old, new}, {due, later}),
        ({"amountMin": "4,999.00"}, {new}, {due}),
        ({"amountMax": "4.999"}, set(), set()),
        ({"days": "365"}, {old}, {due}),
        ({"direction": "debit"}, set(), {later}),
        ({"account": "A-1"}, {new}, {due, later}),
        ({"reasonCode": "ambiguous"}, set(), set()),
        ({"state": "partly"}, set(), set()),
        ({"q": ""}, {old, new}, {due, later}),
    ]
    async with console_world.client() as client:
        for given, lines, items in cases:
            query = {"currency": "chf", "q": "filtered", **given}
            faulty = given == {"amountMax": "4.999"}
            text = await seen(client, status=422 if faulty else 200, **query)
            assert (set(ids(text, "incoming")), set(ids(text, "expected"))) == (lines, items), given
        ordered = await seen(client, currency="CHF", q="filtered", sort="largest")
    assert ids(ordered, "incoming") == [new, old]


async def test_what_is_wrong_with_a_filter_is_told_beside_it(console_world: ConsoleWorld) -> None:
    async with console_world.client() as client:
        text = await seen(client, status=422, amountMin="12")
        assert "Amounts need their currency." in text
        assert 'aria-describedby="fault-currency"' in text
        text = await seen(client, status=422, currency="XQX", amountMax="twelve")
        assert "This is no currency code" in text
        assert "This is no amount of that currency." in text
        assert ids(text, "incoming") == []
        assert "twelve" in text


@pytest.mark.parametrize(
    ("typed", "decimal", "wanted"),
    [
        ("1.234,50", ",", "1234.50"),
        ("1,234.50", ".", "1234.50"),
        ("1.234", ",", "1234"),
        ("1,234.50\u00a0EUR", ".", "1234.50"),
    ],
)
def test_amounts_are_read_as_the_locale_writes_them(typed: str, decimal: str, wanted: str) -> None:
    query = UnmatchedQuery.model_validate({"currency": "EUR", "amountMin": typed})
    assert read_filters(query, decimal=decimal).values["amountMin"] == wanted


async def test_more_rows_come_as_a_fragment_for_a_script_and_as_a_page_otherwise(console_world: ConsoleWorld) -> None:
    made = [
        await receive(console_world.acme, "1.00", currency="SEK", remittance=f"n{n}") for n in range(ROWS_SHOWN + 3)
    ]
    async with console_world.client() as client:
        first = await seen(client, currency="SEK")
        [href] = re.findall(r'data-more="incoming" href="([^"]+)"', first)
        path = href.replace("&amp;", "&")
        rest = (await client.get(path, headers=SCRIPT)).text
        whole = (await client.get(path)).text
    assert len(ids(first, "incoming")) == ROWS_SHOWN
    assert sorted(ids(first, "incoming") + ids(rest, "incoming")) == sorted(made)
    assert "data-more=" not in rest
    assert ("<html" in rest, "<html" in whole) == (False, True)
    assert "match-bar" not in rest


async def test_candidates_tell_what_is_missing(console_world: ConsoleWorld) -> None:
    item = await expect(console_world.acme, "640.00", reference="INV-2026-640", currency="NOK")
    line = await receive(
        console_world.acme, "640.00", remittance="INV-2026-640", bookingDate="2026-05-13", currency="NOK"
    )
    async with console_world.client() as client:
        for side, centre, other in (("incoming", line, item), ("expected", item, line)):
            text = await seen(client, f"{PAGE}/{side}/{centre}/candidates")
            assert f'data-id="{other}"' in text
            assert "dateWindowDaysAfter were 64 days; it is 60" in text
            assert "INV-2026-640" in text
        assert "<html" not in (await client.get(f"{PAGE}/incoming/{line}/candidates", headers=SCRIPT)).text
        await seen(client, f"{PAGE}/neither/{line}/candidates", 422)


async def test_candidates_tell_what_may_be_paid_twice(console_world: ConsoleWorld) -> None:
    item = await expect(console_world.acme, "641.00", reference="INV-2026-641", currency="NOK")
    first, again = [
        await receive(console_world.acme, "641.00", remittance="INV-2026-641", currency="NOK") for _ in range(2)
    ]
    legs = [{"expectedTransactionId": item, "incomingTransactionId": first, "amountMinor": 64_100}]
    match = await console_world.acme.post("/matches", {"legs": legs, "reason": "by hand"})
    assert match.status_code == 201, match.text
    async with console_world.client() as client:
        text = await seen(client, f"{PAGE}/incoming/{again}/candidates")
    assert "It quotes one that is not open any more" in text
    assert f"/expected/{item}" in text
    assert f"/matches/{match.json()['id']}" in text


async def test_texts_of_strangers_stay_texts(console_world: ConsoleWorld) -> None:
    fields = {"counterpartyName": HOSTILE, "counterpartyAccount": HOSTILE}
    item = await expect(console_world.acme, currency="DKK", reference=HOSTILE, description=HOSTILE, **fields)
    line = await receive(console_world.acme, currency="DKK", remittance=HOSTILE, account=HOSTILE, **fields)
    async with console_world.client() as client:
        texts = [
            await seen(client, currency="DKK"),
            await seen(client, q=HOSTILE),
            await seen(client, account=HOSTILE),
            await seen(client, f"{PAGE}/incoming/{line}/candidates"),
            await seen(client, f"{PAGE}/expected/{item}/candidates"),
        ]
    for text in texts:
        assert "alert(1)" in text
        assert "<script>alert" not in text
        assert "<img src=x" not in text
    assert "U+202E" in texts[0]


async def test_another_tenants_rows_are_not_there(console_world: ConsoleWorld) -> None:
    line = await receive(console_world.acme, currency="PLN", remittance="only acme's")
    item = await expect(console_world.acme, currency="PLN", reference="only acme's")
    async with console_world.client(console_world.globex) as client:
        text = await seen(client, currency="PLN")
        assert (ids(text, "incoming"), ids(text, "expected")) == ([], [])
        for side, centre in (("incoming", line), ("expected", item), ("incoming", "x")):
            await seen(client, f"{PAGE}/{side}/{centre}/candidates", 404)
    async with console_world.client() as client:
        assert ids(await seen(client, "/console/test/unmatched", currency="PLN"), "incoming") == []


async def test_who_may_only_read_sees_nothing_that_changes(console_world: ConsoleWorld) -> None:
    line = await receive(console_world.acme, currency="HUF", amount="100")
    changing = (
        "line-choice",
        "match-bar",
        "match-send",
        "data-set-aside",
        '<dialog id="aside"',
        "data-choose-candidate",
    )
    shown = {}
    for role in ("viewer", "operator", "approver"):
        async with console_world.client(await console_world.person(role)) as client:
            text = await seen(client, currency="HUF") + await seen(client, f"{PAGE}/incoming/{line}/candidates")
        shown[role] = {word for word in changing if word in text}
        assert line in ids(text, "incoming")
    assert shown["viewer"] == set()
    assert shown["operator"] == set(changing) - {"match-send", "data-choose-candidate"}
    assert shown["approver"] >= {"line-choice", "match-bar", "data-set-aside"}
