"""The pages of the review say what waits and why, to whom they belong, and nothing of a stranger's text is markup."""

from __future__ import annotations

import re
from typing import Any

import pytest

from support.browser import ConsoleWorld

pytestmark = pytest.mark.anyio

PAGE = "/console/production/review"
HOSTILE = "<script>alert('x')</script>\u202egnp.\u202c INV-HOSTILE-2026 <img src=x onerror=alert(1)> =1+1"


async def stored(world: ConsoleWorld, number: int, amount: str = "120.50", **fields: Any) -> str:
    """Store an item and a line of it, run matching, and return the proposal."""
    reference = f"INV-2026-{number:05}"
    item = {"direction": "credit", "amount": amount, "currency": "EUR", "dueDate": "2026-03-10", "reference": reference}
    line = {"direction": "credit", "amount": amount, "currency": "EUR", "bookingDate": "2026-03-12"}
    names = {"counterpartyName": "Miller & Sons"}
    made = [
        await world.rest("POST", "/expected-transactions", json={**item, **names}),
        await world.rest(
            "POST",
            "/incoming-transactions",
            json={
                **line,
                **names,
                "remittance": f"Invoice {reference}, thanks",
                "bankReference": str(number),
                **fields,
            },
        ),
    ]
    assert [answer.status_code for answer in made] == [201, 201], [answer.text for answer in made]
    run = await world.rest("POST", "/matches/match", json={"wait": 60})
    assert run.json()["status"] == "succeeded", run.text
    query = f"/matches?incomingTransactionId={made[1].json()['id']}"
    [match] = (await world.rest("GET", query)).json()["data"]
    return str(match["id"])


async def get(world: ConsoleWorld, path: str, somebody: Any = None, status: int = 200) -> str:
    async with world.client(somebody) as client:
        answer = await client.get(path)
    assert answer.status_code == status, answer.text
    return answer.text


async def test_an_empty_queue_says_so(console_world: ConsoleWorld) -> None:
    assert "Nothing waits for you" in await get(console_world, "/console/test/review")


async def test_a_payment_of_several_items_is_called_so_and_amounts_and_days_are_written_as_everywhere(
    console_world: ConsoleWorld,
) -> None:
    for number, amount in ((71, "1400.00"), (72, "350.25")):
        names = {"direction": "credit", "currency": "EUR", "counterpartyName": "Group & Sons", "dueDate": "2026-03-10"}
        item = {**names, "amount": amount, "reference": f"GRP-2026-000{number}"}
        assert (await console_world.rest("POST", "/expected-transactions", json=item)).status_code == 201
    line = {"direction": "credit", "currency": "EUR", "counterpartyName": "Group & Sons", "bookingDate": "2026-03-12"}
    paid = {**line, "amount": "1750.25", "remittance": "GRP-2026-00071 GRP-2026-00072"}
    stored_line = (await console_world.rest("POST", "/incoming-transactions", json=paid)).json()
    assert (await console_world.rest("POST", "/matches/match", json={"wait": 60})).json()["status"] == "succeeded"
    [match] = (await console_world.rest("GET", f"/matches?incomingTransactionId={stored_line['id']}")).json()["data"]
    assert match["kind"] == "one_to_many"
    text = await get(console_world, f"{PAGE}?match={match['id']}")
    assert "One payment, several items" in text
    compared = text[text.index("evidence-table") : text.index("</table>", text.index("evidence-table"))]
    assert compared.count("1,750.25\u00a0EUR") == 2
    assert "1750.25 EUR" in match["explanation"]
    assert "sum to its 1,750.25\u00a0EUR" in text
    assert "Mar 12, 2026" in compared
    assert "2026-03-12" not in compared


async def test_a_proposal_is_told_with_what_speaks_for_it(console_world: ConsoleWorld) -> None:
    match = await stored(console_world, 1)
    text = await get(console_world, f"{PAGE}?match={match}")
    assert f'data-id="{match}"' in text
    assert "120.50\u00a0EUR" in text
    assert "Invoice " in text
    assert re.search(r"<mark[^>]*><span[^>]*>\(evidence \d, Reference:\) </span>INV-2026-00001<sup", text)
    assert re.search(r"<mark[^>]*><span[^>]*>\(evidence \d, Counterparty&#39;s name:\) </span>Miller<sup", text)
    assert 'data-do="accept"' in text
    choices = await get(console_world, f"{PAGE}/items/{match}/choices")
    assert "Nothing else comes near." in choices or "choice-list" in choices


async def test_another_match_than_that_of_the_address_is_not_taken_for_it(console_world: ConsoleWorld) -> None:
    asked, other = await stored(console_world, 31, "131.00"), await stored(console_world, 32, "130.00")
    told = "The match of this address does not wait here"
    assert told not in await get(console_world, f"{PAGE}?match={asked}")
    assert told not in await get(console_world, f"{PAGE}?match={asked}&direction=after")
    assert (await console_world.rest("POST", f"/matches/{asked}/accept", json={})).status_code == 200
    text = await get(console_world, f"{PAGE}?match={asked}")
    assert f'data-id="{other}"' in text
    assert told in text
    assert f'href="/console/production/matches/{asked}"' in text


async def test_on_whose_behalf_is_paid_is_told_and_marked(console_world: ConsoleWorld) -> None:
    payer = {"counterpartyName": "Northwind Holding", "ultimateCounterpartyName": "SONS & MILLER"}
    match = await stored(console_world, 8, **payer)
    text = await get(console_world, f"{PAGE}?match={match}")
    assert "<dt>On behalf of</dt>" in text
    assert re.search(r"<mark[^>]*><span[^>]*>\(evidence \d, Counterparty&#39;s name:\) </span>MILLER<sup", text)
    assert "Northwind Holding acts for Miller &amp; Sons" in text


async def test_whom_a_text_names_is_told_and_marked(console_world: ConsoleWorld) -> None:
    match = await stored(console_world, 8, counterpartyName=None, remittance="ACH CREDIT MILLER SONS 0910")
    text = await get(console_world, f"{PAGE}?match={match}")
    assert re.search(r"<mark[^>]*><span[^>]*>\(evidence \d, Counterparty&#39;s name:\) </span>MILLER<sup", text)
    assert "the remittance text names Miller &amp; Sons" in text


async def test_who_may_not_decide_is_shown_no_way_to(console_world: ConsoleWorld) -> None:
    match = await stored(console_world, 2)
    viewer = await console_world.person("viewer")
    for path in (f"{PAGE}?match={match}", f"{PAGE}/items/{match}", f"{PAGE}/items/{match}/choices"):
        text = await get(console_world, path, viewer)
        assert "data-select aria" not in text
        assert "data-pick aria" not in text
        assert not re.search(r'data-do="(accept|reject|split|undo)', text)
    assert "lets you look, not decide" in await get(console_world, PAGE, viewer)
    assert 'id="reverse"' not in await get(console_world, f"/console/production/matches/{match}", viewer)


async def test_another_tenant_sees_nothing_of_it(console_world: ConsoleWorld) -> None:
    match = await stored(console_world, 3)
    theirs = console_world.globex
    assert "Nothing waits for you" in await get(console_world, PAGE, theirs)
    for path in (f"{PAGE}?match={match}", f"{PAGE}/items/{match}", f"{PAGE}/items/{match}/choices"):
        assert "120.50" not in await get(console_world, path, theirs, 404)
    await get(console_world, f"/console/production/matches/{match}", theirs, 404)
    # Nor does another environment of the same tenant.
    await get(console_world, f"/console/test/review/items/{match}", status=404)


async def test_texts_of_strangers_are_texts(console_world: ConsoleWorld) -> None:
    fields = dict.fromkeys(("structuredReference", "endToEndId", "counterpartyName"), HOSTILE[:70])
    match = await stored(console_world, 4, remittance=f"INV-2026-00004 {HOSTILE} {'long ' * 2000}", **fields)
    for path in (f"{PAGE}?match={match}", f"{PAGE}/items/{match}", f"/console/production/matches/{match}"):
        text = await get(console_world, path)
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert "\u202e" not in text
        assert "U+202E" in text
        assert "&lt;script&gt;alert" in text


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("currency=EUR&confidence=high", 200),
        ("currency=&confidence=", 200),
        ("currency=XXXX", 422),
        ("status=accepted", 422),
        ("direction=sideways", 422),
        ("match=nonsense", 404),
        ("match=018f0000-0000-7000-8000-000000000000", 404),
        ("unknown=1", 422),
    ],
)
async def test_what_cannot_be_asked_for_is_refused(console_world: ConsoleWorld, query: str, status: int) -> None:
    await get(console_world, f"{PAGE}?{query}", status=status)
    await get(console_world, f"{PAGE}/queue?{query}", status=status)


async def test_a_match_has_a_page_with_its_history(console_world: ConsoleWorld) -> None:
    match = await stored(console_world, 5)
    path = f"/console/production/matches/{match}"
    assert "Decide in the review" in await get(console_world, path)
    accepted = await console_world.rest("POST", f"/matches/{match}/accept", json={"reason": "looks right <b>"})
    assert accepted.status_code == 200
    text = await get(console_world, path)
    assert 'id="reverse"' in text
    assert "looks right &lt;b&gt;" in text
    assert "match.accepted" in text
    item = await get(console_world, f"{PAGE}/items/{match}")
    assert re.search(r"Accepted on [^<]* by", item)
    assert 'data-status="accepted"' in item
