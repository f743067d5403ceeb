"""What is posted: numbered now, read as the books would read it, and played through."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from payrec.domain.scope import TenantScope
from support.matching_world import World, matching_world
from support.service import Service, Tenant
from support.wire import until

Row = dict[str, Any]

CODES: Row = {
    "accounts": [{"account": "GIRO", "code": "1200"}, {"account": "STRIPE", "code": "1210"}],
    "receivableCode": "1400",
    "payableCode": "1600",
    "suspenseCode": "1590",
    "adjustments": [
        {"type": "fee", "code": "4970"},
        {"type": "fx", "code": "1360"},
        {"type": "over_payment", "code": "2700"},
    ],
    "categories": [{"category": "interest", "code": "2650"}],
}


@asynccontextmanager
async def posting_world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    """Give a world whose books have codes; nothing that happens there is posted for the other tenant."""
    async with matching_world(service, acme, globex) as made:
        await set_codes(made, CODES)
        yield made
        await number_all(made)
        assert await postings(globex) == []


async def match(world: World, *legs: Row, adjustments: list[Row] | None = None) -> Row:
    """Match by hand; return the match."""
    body = {"legs": list(legs), "adjustments": adjustments or [], "reason": "by hand"}
    answer = await world.tenant.post("/matches", body)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def decide(world: World, path: str, body: Row | None = None) -> Row:
    """Decide something about what there is; return what it is then."""
    answer = await world.tenant.post(path, body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def leg(item: str, line: str, minor: int) -> Row:
    """Return a leg of a match by hand."""
    return {"expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": minor}


async def set_codes(world: World, posting: Row | None) -> None:
    """Set where the books have what, in place of all that was set before."""
    for given in (None, posting):
        path = f"/tenants/{world.tenant.id}/settings"
        answer = await world.tenant.request("PATCH", path, json={"posting": given})
        assert answer.status_code == 200, answer.text


async def numbered(service: Service, scope: TenantScope) -> None:
    """Seal what is committed in an environment and number what follows from it."""
    upkeep = service.factory.upkeep
    sealer, numbering = upkeep.create_sealer(), upkeep.create_posting_sealer()

    async def is_done() -> bool | None:
        return (await sealer.seal(scope) is not None and await numbering.number(scope)) or None

    await until(is_done)


async def number_all(world: World) -> None:
    """Do the same in the first environment of a world."""
    await numbered(world.service, world.scope)


async def postings(tenant: Tenant, after: int = 0, **parameters: Any) -> list[Row]:
    """Read all postings after one, page by page, as the books do."""
    found: list[Row] = []
    while True:
        answer = await tenant.get("/postings", params={"after": after, **parameters})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += page["data"]
        if not page["hasMore"]:
            return found
        after = found[-1]["sequence"]


async def posted(world: World, after: int = 0) -> list[Row]:
    """Return all postings after one when all is numbered."""
    await number_all(world)
    return await postings(world.tenant, after)


def entries(posting: Row) -> list[tuple[str, int, str]]:
    """Return code, amount (credited ones negative) and currency of each line, sorted."""
    return sorted((line["code"], signed(line), line["currency"]) for line in posting["lines"])


def signed(line: Row) -> int:
    """Return the amount of a line: what is credited is negative."""
    assert line["amountMinor"] > 0
    return int(line["amountMinor"]) * (1 if line["direction"] == "debit" else -1)


def played(found: list[Row]) -> tuple[Counter[str], Counter[str], Counter[tuple[str, str]]]:
    """Return what postings come to: by line, by item's external id, and by code and currency; what is 0 is not there.

    Each is balanced, numbered without a gap, and takes back an earlier one if any.
    """
    lines: Counter[str] = Counter()
    items: Counter[str] = Counter()
    codes: Counter[tuple[str, str]] = Counter()
    for place, posting in enumerate(found):
        assert posting["sequence"] == found[0]["sequence"] + place
        assert posting.get("reversesSequence", 0) < posting["sequence"]
        sums: Counter[str] = Counter()
        for line in posting["lines"]:
            minor = signed(line)
            sums[line["currency"]] += minor
            codes[line["code"], line["currency"]] += minor
            if "incomingTransactionId" in line:
                lines[line["incomingTransactionId"]] += minor
            if "expectedExternalId" in line:
                items[line["expectedExternalId"]] += minor
        assert posting["lines"]
        assert not any(sums.values()), posting
    return tuple(Counter({k: v for k, v in c.items() if v}) for c in (lines, items, codes))  # type: ignore[return-value]
