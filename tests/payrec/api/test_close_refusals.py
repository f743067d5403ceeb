"""What the close refuses: each has its code, and leaves every row of the environment as it was."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from support.matching_world import TABLES, WORKER_LEAVES, World, matching_world
from support.service import Service, Tenant
from support.wire import add_key, ask, code, fields, until

pytestmark = pytest.mark.anyio

KEPT = sorted(set(TABLES) - WORKER_LEAVES - {"change"})
"""Workers seal in changes of their own; others are told from by what they record."""
DIGEST = " UNION ALL ".join(
    f"SELECT '{name}' AS name, md5(coalesce(string_agg(t::text, '|' ORDER BY t::text), '')) AS md5 FROM {name} t"  # noqa: S608 - our own names
    for name in KEPT
)
FAILED_UPLOAD = frozenset({"audit_record", "expected_snapshot", "import", "job"})
NAME = "Anna Müller"
DAY = "2026-03-12"
THROUGH = "2026-03-31"


@dataclass(frozen=True, slots=True)
class Refused:
    """A request, and what it is refused with."""

    method: str
    path: str
    status: int
    code: str
    options: dict[str, Any] = field(default_factory=dict)
    errors: frozenset[tuple[str, str]] = frozenset()
    key: dict[str, Any] | None = None
    """The API key that asks; None: the administrator."""
    leaves: frozenset[str] = frozenset()
    """Tables that tell that it has failed."""


def post(path: str, body: Any, status: int, code: str, *errors: tuple[str, str]) -> Refused:
    return Refused("POST", path, status, code, {"json": body}, frozenset(errors))


async def settings(world: World, body: dict[str, Any]) -> None:
    answer = await world.tenant.request("PATCH", f"/tenants/{world.tenant.id}/settings", json=body)
    assert answer.status_code == 200, answer.text


async def locked(world: World) -> None:
    body = {"through": THROUGH, "reason": "March", "override": True}
    assert (await world.tenant.post("/period-locks", body)).status_code == 201


async def matched(world: World, status: str = "accepted", **more: Any) -> tuple[str, str, dict[str, Any]]:
    """Return an item, a line, and the match of both, by hand."""
    item, line = await world.expect(**more), await world.receive(**more)
    leg = {"expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": 10_000}
    answer = await world.tenant.post("/matches", {"legs": [leg], "reason": "seen"})
    assert (answer.status_code, answer.json()["status"]) == (201, status), answer.text
    return item, line, answer.json()


async def classified(world: World) -> str:
    line = await world.receive("5.00", account="GIRO")
    answer = await world.tenant.post(f"/incoming-transactions/{line}/classify", {"category": "fee"})
    assert answer.status_code == 200, answer.text
    return line


async def posted(world: World, count: int) -> None:
    async def given() -> bool | None:
        return len((await world.tenant.get("/postings")).json()["data"]) == count or None

    await until(given)


async def open_lines(world: World) -> Refused:
    await world.receive(account="GIRO")
    return post("/period-locks", {"through": THROUGH, "reason": "March"}, 409, "period_incomplete")


async def locked_twice(world: World) -> Refused:
    await locked(world)
    return post("/period-locks", {"through": DAY, "reason": "again", "override": True}, 409, "period_locked")


async def by_its_maker(world: World) -> Refused:
    await settings(world, {"approval": {"secondPersonAboveMinor": 1, "currency": "EUR"}})
    *_, match = await matched(world, "pending_approval")
    return Refused("POST", f"/matches/{match['id']}/approve", 403, "second_approver_required")


async def by_a_key(world: World) -> Refused:
    made = await by_its_maker(world)
    return Refused(made.method, made.path, made.status, made.code, key=await add_key(world.tenant))


async def rules_by_a_key(world: World) -> Refused:
    await settings(world, {"approval": {"secondPersonAboveMinor": 1, "keysMayChangeRules": False}})
    body = {"baseCurrency": "JPY"}
    path = f"/tenants/{world.tenant.id}/settings"
    key = await add_key(world.tenant)
    return Refused("PATCH", path, 403, "insufficient_permission", {"json": body}, key=key)


async def limit_in_another_currency(world: World) -> Refused:
    limit = {"role": "approver", "adjustmentType": "write_off", "maxMinor": 500, "currency": "USD"}
    body = {"approval": {"secondPersonAboveMinor": 1, "currency": "EUR", "limits": [limit]}}
    wrong = frozenset({("/approval/limits/0/currency", "currency_mismatch")})
    path = f"/tenants/{world.tenant.id}/settings"
    return Refused("PATCH", path, 422, "validation_failed", {"json": body}, wrong)


async def never_sent(world: World) -> Refused:
    await classified(world)
    await posted(world, 1)
    body = {"throughSequence": 2, "externalBatchId": "B1"}
    wrong = ("/throughSequence", "unknown_sequence")
    return post("/postings/acknowledgements", body, 422, "validation_failed", wrong)


async def backwards(world: World) -> Refused:
    for _ in range(2):
        await classified(world)
    await posted(world, 2)
    body = {"throughSequence": 2, "externalBatchId": "B1"}
    assert (await world.tenant.post("/postings/acknowledgements", body)).status_code == 201
    body = {"throughSequence": 1, "externalBatchId": "B2"}
    return post("/postings/acknowledgements", body, 409, "invalid_state")


async def wrong_totals(world: World) -> Refused:
    await world.expect(externalId="INV-1")
    [row] = await world.sql("SELECT clock_timestamp() AS at")
    totals = json.dumps([{"currency": "EUR", "count": 2, "amountMinor": 10_000}])
    params = {"takenAt": row["at"].isoformat(), "controlTotals": totals, "apply": "true"}
    body = [{"externalId": "INV-1", "openAmountMinor": 10_000, "currency": "EUR"}]
    path = "/expected-transactions/snapshots"
    wrong = frozenset({("/controlTotals/0", "control_total_mismatch")})
    return Refused(
        "POST", path, 422, "control_totals_mismatch", {"json": body, "params": params}, wrong, leaves=FAILED_UPLOAD
    )


async def over_the_payment(_world: World) -> Refused:
    lines = [{"reference": "INV-2026-1", "amountMinor": 101}]
    body = {"counterpartyName": NAME, "totalMinor": 100, "currency": "EUR", "lines": lines}
    wrong = ("/totalMinor", "advice_exceeds_payment")
    return post("/remittance-advices", body, 422, "validation_failed", wrong)


async def what_must_be_kept(world: World) -> Refused:
    await matched(world, counterpartyName=NAME)
    return post("/privacy/erasures", {"counterpartyName": NAME, "reason": "asked for"}, 409, "invalid_state")


async def a_second_classification(world: World) -> Refused:
    line = await classified(world)
    return post(f"/incoming-transactions/{line}/classify", {"category": "tax"}, 409, "invalid_state")


async def a_locked_day_of_the_books(world: World) -> Refused:
    await world.receive(account="GIRO")
    await locked(world)
    [account] = (await world.tenant.get("/accounts", params={"identifier": "GIRO"})).json()["data"]
    path = f"/accounts/{account['id']}/book-balances"
    return Refused("PUT", path, 409, "period_locked", {"json": {"on": DAY, "balanceMinor": 1}})


async def a_decision_in_a_locked_period(world: World) -> Refused:
    line = await world.receive(account="GIRO")
    await locked(world)
    body = {"category": "fee", "effectiveOn": DAY}
    return post(f"/incoming-transactions/{line}/classify", body, 409, "period_locked")


Case = Callable[[World], Awaitable[Refused]]
CASES: tuple[Case, ...] = (
    open_lines,
    locked_twice,
    by_its_maker,
    by_a_key,
    rules_by_a_key,
    limit_in_another_currency,
    never_sent,
    backwards,
    wrong_totals,
    over_the_payment,
    what_must_be_kept,
    a_second_classification,
    a_locked_day_of_the_books,
    a_decision_in_a_locked_period,
)


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made
        await made.clean()


async def asked(world: World, refused: Refused) -> httpx2.Response:
    if refused.key is None:
        return await world.tenant.request(refused.method, refused.path, **refused.options)
    headers = {"X-Tenant-Id": world.tenant.id, "X-Environment": "production", "X-Api-Key": refused.key["apiKey"]}
    return await ask(world.tenant, refused.method, refused.path, headers, **refused.options)


async def digest(world: World) -> dict[str, str]:
    return {row["name"]: row["md5"] for row in await world.sql(DIGEST)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_what_the_close_refuses_changes_nothing(world: World, case: Case) -> None:
    path = f"/tenants/{world.tenant.id}/settings"
    refused = await case(world)
    before, set_ = await digest(world), (await world.tenant.get(path)).json()
    answer = await asked(world, refused)
    assert (answer.status_code, code(answer)) == (refused.status, refused.code), answer.text
    if refused.errors:
        assert fields(answer) == refused.errors
    after = await digest(world)
    assert {name for name in KEPT if before[name] != after[name]} == refused.leaves
    assert (await world.tenant.get(path)).json() == set_


async def test_of_classifications_at_once_one_holds(world: World) -> None:
    line = await world.receive()
    path = f"/incoming-transactions/{line}/classify"
    answers = await asyncio.gather(*(world.tenant.post(path, {"category": f"kind_{n}"}) for n in range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 7
    assert {code(answer) for answer in answers if answer.status_code == 409} == {"invalid_state"}
    [won] = [answer.json() for answer in answers if answer.status_code == 200]
    assert (await world.incoming(line)) == won
    audited = "SELECT count(*)::int AS n FROM audit_record WHERE action = 'incoming_transaction.classified'"
    assert await world.sql(audited) == [{"n": 1}]
