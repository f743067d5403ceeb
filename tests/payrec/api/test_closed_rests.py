"""What is classified or ignored of a line that went back in part: the rest, and nothing of what a return has."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.history import instant
from support.matching_world import World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

INCOMING = "/incoming-transactions"
DAY, LATER, LAST = "2026-03-02", "2026-03-05", "2026-03-31"
PARTS = ("allocated", "returned", "classified", "ignored", "inTransit", "open")


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def returned_in_part(world: World) -> tuple[str, str]:
    """Return a line of 100.00 of which 40.00 went back later, its match taken back, and its account's statement."""
    item, line = await world.expect("100.00"), await world.receive("100.00", account="till", bookingDate=DAY)
    code = {"bankTransactionCode": "PMNT-RCDT-RRTN", "direction": "debit"}
    back = await world.receive("40.00", account="till", bookingDate=LATER, **code)
    legs = [{"expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": 10_000}]
    match = (await posted(world, "/matches", {"legs": legs, "reason": "paid"}))["id"]
    await posted(world, f"{INCOMING}/{back}/link-reversal", {"incomingTransactionId": line})
    await posted(world, f"/matches/{match}/reverse", {"reason": "not theirs"})
    [account] = (await world.tenant.get("/accounts")).json()["data"]
    return line, f"/accounts/{account['id']}/reconciliation"


async def posted(world: World, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await world.tenant.post(path, body)
    assert answer.status_code in {200, 201}, answer.text
    return dict(answer.json())


async def parts(tenant: Tenant, path: str, cut_off: str, **given: str) -> dict[str, tuple[int, int]]:
    """Return the parts of which there is something, after lines were held against them."""
    told = (await tenant.get(path, params={"cutOff": cut_off, **given})).json()
    for part in PARTS:
        lines = (await tenant.get(f"{path}/lines", params={"cutOff": cut_off, "part": part, **given})).json()["data"]
        assert (len(lines), sum(n["shareMinor"] for n in lines)) == (told[part]["count"], told[part]["sumMinor"]), part
    assert sum(told[part]["sumMinor"] for part in PARTS) == told["balanceMinor"]
    return {part: (told[part]["count"], told[part]["sumMinor"]) for part in PARTS if told[part]["count"]}


@pytest.mark.parametrize(
    ("verb", "body", "part"),
    [("classify", {"category": "fee"}, "classified"), ("ignore", {"reason": "of no interest"}, "ignored")],
)
async def test_what_is_closed_is_the_rest(world: World, verb: str, body: dict[str, Any], part: str) -> None:
    line, path = await returned_in_part(world)
    before, at = {"returned": (2, 0), "open": (1, 6_000)}, await instant(world)
    assert await parts(world.tenant, path, LAST) == before
    await posted(world, f"{INCOMING}/{line}/{verb}", body)
    assert await parts(world.tenant, path, LAST) == {"returned": (2, 0), part: (1, 6_000)}
    # What goes back later is explained by nothing before that: the rest was closed, and no more of it.
    assert await parts(world.tenant, path, DAY) == {"open": (1, 4_000), part: (1, 6_000)}
    assert await parts(world.tenant, path, LAST, asOf=at) == before
    reports = (await world.tenant.get("/reports/summary", params={"currency": "EUR"})).json()["lines"]
    [credit] = [told for told in reports if told["direction"] == "credit"]
    assert credit["incoming"]["amounts"][part]["amountMinor"] == 6_000
    given = {"through": LAST, "reason": "closed", "override": True}
    await posted(world, "/period-locks", given)
    await posted(world, f"{INCOMING}/{line}/restore", {"reason": "after all"})
    assert await parts(world.tenant, path, LAST) == {"returned": (2, 0), part: (1, 6_000)}
    [theirs] = (await world.bystander.get("/accounts")).json()["data"]
    other = await parts(world.bystander, f"/accounts/{theirs['id']}/reconciliation", LAST)
    assert "returned" not in other
    assert part not in other
