"""Many incoming transactions in one request: each stored or refused by itself, with the place in the request."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from payrec.constants import BULK_ITEMS_MAX
from payrec.storage.duplicates import DuplicateStore
from support.service import Service, Tenant
from support.stored import content
from support.tenant_data import scope_of_tenant
from support.wire import code, count, fields, rows, until

pytestmark = pytest.mark.anyio

PATH = "/incoming-transactions"
MONEY = {"direction": "credit", "currency": "EUR", "bookingDate": "2025-03-01"}


@pytest.fixture
async def tenant(service: Service) -> Tenant:
    """A tenant of the test's own: what is a duplicate depends on what is there."""
    return await service.tenant(f"bulk-{uuid4().hex[:12]}", environments=["production", "test"])


def item(number: int, **more: Any) -> dict[str, Any]:
    return {**MONEY, "amountMinor": 100 + number, "externalId": f"L{number}", **more}


async def send(tenant: Tenant, items: list[Any], environment: str = "production", **headers: str) -> httpx2.Response:
    return await tenant.post(f"{PATH}/bulk", {"items": items}, environment, headers=headers)


async def results(tenant: Tenant, items: list[Any]) -> list[dict[str, Any]]:
    answer = await send(tenant, items)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["results"]
    assert [result["index"] for result in found] == list(range(len(items)))
    return found


async def test_each_item_is_stored_or_refused_by_itself(service: Service, tenant: Tenant) -> None:
    made = (await tenant.post(PATH, item(0))).json()
    found = await results(
        tenant,
        [
            item(1, remittance="INV-1"),
            item(0, amountMinor=5),
            {**MONEY, "amount": "1.234"},
            item(2),
            item(2, amountMinor=7),
            {**MONEY, "amount": "0.00"},
            {**MONEY, "amountMinor": 10**15},
            item(3, status="pending"),
        ],
    )
    assert [result["status"] for result in found] == [201, 409, 422, 201, 409, 201, 422, 201]
    problems = {result["index"]: result["problem"] for result in found if "problem" in result}
    assert [(problems[at]["code"], problems[at].get("existingId")) for at in (1, 4)] == [
        ("duplicate_external_id", made["id"]),
        ("duplicate_external_id", found[3]["id"]),
    ]
    assert [problems[at]["code"] for at in (2, 6)] == ["validation_failed", "amount_out_of_range"]
    assert problems[2]["errors"][0]["pointer"] == "/amount"
    read = [(await tenant.get(f"{PATH}/{found[at]['id']}")).json() for at in (0, 3, 5, 7)]
    assert [(r["status"], r["amountMinor"], r["version"]) for r in read] == [
        ("unmatched", 101, 1),
        ("unmatched", 102, 1),
        ("ignored", 0, 1),
        ("pending", 103, 1),
    ]
    assert (read[2]["ignoredReason"], read[2]["reasonCode"]) == ("zero_amount", "zero_amount")
    told = await rows(service, tenant, "SELECT action FROM audit_record WHERE resource_id IS NOT NULL")
    assert Counter(row["action"] for row in told)["incoming_transaction.created"] == 5
    assert await count(service, tenant, "incoming_transaction", "test") == 0


async def stored(service: Service, tenant: Tenant, environment: str) -> list[dict[str, Any]]:
    """Return what is stored, but for the identity, which is made of the id where there is no externalId."""
    found = [json.loads(row) for row in (await content(service, tenant, environment)).elements()]
    return sorted(({**row, "identity": None} for row in found), key=lambda row: int(row["amount_minor"]))


async def test_an_item_is_stored_as_a_request_of_its_own_would_store_it(service: Service, tenant: Tenant) -> None:
    full = item(
        1,
        valueDate="2025-03-02",
        account="DE02120300000000202051",
        remittance="Rechnung 17\nvielen \\ Dank\t" + "x" * 500,
        structuredReference="RF18539007547034",
        endToEndId="E2E-1",
        counterpartyName="Jürgen Groß & Söhne",
        counterpartyAccount="DE89370400440532013000",
        bankTransactionCode="PMNT-RCDT-RRTN",
        groupKey="PO-1",
        charges=[{"amountMinor": 35, "currency": "EUR", "direction": "debit"}],
        metadata={"k": "v\\"},
    )
    plain = {**MONEY, "amountMinor": 5, "remittance": "INV-2026-001"}
    for body in (full, plain):
        assert (await tenant.post(PATH, body, "test")).status_code == 201
    assert [result["status"] for result in await results(tenant, [full, plain])] == [201, 201]
    assert await stored(service, tenant, "production") == await stored(service, tenant, "test")


async def test_equal_lines_of_one_request_are_as_many_payments(tenant: Tenant) -> None:
    same = {**MONEY, "amountMinor": 500}
    found = await results(tenant, [same, same, {**same, "externalId": "a"}])
    read = [(await tenant.get(f"{PATH}/{result['id']}")).json() for result in found]
    assert [r["reasonCode"] for r in read] == [None] * 3


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({}, ("/items", "missing")),
        ({"items": []}, ("/items", "too_short")),
        ({"items": [MONEY] * (BULK_ITEMS_MAX + 1)}, ("/items", "too_long")),
        ({"items": [MONEY, "x"]}, ("/items/1", "dict_type")),
        ({"items": [], "more": 1}, ("/more", "extra_forbidden")),
    ],
)
async def test_what_is_no_list_of_items_is_refused(tenant: Tenant, body: Any, wrong: tuple[str, str]) -> None:
    answer = await tenant.post(f"{PATH}/bulk", body)
    assert answer.status_code == 422
    assert wrong in fields(answer)


async def test_a_repeated_request_has_one_effect_and_one_answer(service: Service, tenant: Tenant) -> None:
    items = [item(number) for number in range(3)]
    first, again = [await send(tenant, items, **{"Idempotency-Key": "once"}) for _ in range(2)]
    assert (first.status_code, again.status_code, again.text) == (200, 200, first.text)
    other = await send(tenant, items[:1], **{"Idempotency-Key": "once"})
    assert (other.status_code, code(other)) == (422, "idempotency_key_reused")
    assert await count(service, tenant, "incoming_transaction") == 3


async def test_the_same_items_at_once_are_stored_once(service: Service, tenant: Tenant) -> None:
    items = [item(number) for number in range(200)]
    answers = await asyncio.gather(*(send(tenant, items[shift:] + items[:shift]) for shift in (0, 50, 100, 150)))
    assert [answer.status_code for answer in answers] == [200] * 4
    statuses = Counter(result["status"] for answer in answers for result in answer.json()["results"])
    assert statuses == {201: 200, 409: 600}
    assert await count(service, tenant, "incoming_transaction") == 200
    assert await count(service, tenant, "incoming_open") == 200


async def test_a_line_by_itself_and_among_others_is_stored_by_who_comes_first(service: Service, tenant: Tenant) -> None:
    database, scope = service.factory.context.database, await scope_of_tenant(service.factory, tenant)
    waiting = "SELECT count(*) AS n FROM pg_locks WHERE NOT granted AND locktype = 'advisory'"

    async with database.tenant(scope) as connection:

        async def wait(many: int) -> None:
            async def is_waiting() -> bool | None:
                row = await (await connection.execute(waiting)).fetchone()
                return (row is not None and row["n"] == many) or None

            await until(is_waiting)

        await DuplicateStore(connection).hold(bytes([first]) for first in range(256))
        among_others = asyncio.create_task(send(tenant, [item(1)]))
        await wait(1)
        by_itself = asyncio.create_task(tenant.post(PATH, item(1)))
        await wait(2)
    stored, refused = await asyncio.gather(among_others, by_itself)
    assert [result["status"] for result in stored.json()["results"]] == [201]
    assert (refused.status_code, code(refused)) == (409, "duplicate_external_id")


async def test_ten_thousand_are_stored_at_once(service: Service, tenant: Tenant) -> None:
    found = await results(tenant, [item(number, remittance=f"INV-{number:05}") for number in range(BULK_ITEMS_MAX)])
    assert {result["status"] for result in found} == {201}
    assert await count(service, tenant, "incoming_open") == BULK_ITEMS_MAX
