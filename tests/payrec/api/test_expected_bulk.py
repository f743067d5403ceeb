"""Thousands of expected transactions in one request: each is created or refused by itself."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from payrec.models.expected_transactions import ExpectedTransactionCreate
from payrec.services.bulk_results import read_items
from payrec.services.validation import validated
from payrec.storage.expected_loading import ExpectedLoadingStore
from payrec.storage.loading import ContendedError
from support.events import TOLD, has_arrived, told_of
from support.service import Service, Tenant
from support.wire import code, count, rows

pytestmark = pytest.mark.anyio

PATH = "/expected-transactions"
MONEY = {"direction": "credit", "amount": "12.34", "currency": "EUR"}
FULL: dict[str, Any] = {
    **MONEY,
    "minAmountMinor": 1_200,
    "maxAmountMinor": 1_300,
    "dueDate": "2999-03-01",
    "expectedFrom": "2999-02-01",
    "expectedTo": "2999-03-31",
    "reference": "INV-17\t\\N",
    "endToEndId": "E2E-1",
    "counterpartyName": "Jürgen Groß & Söhne",
    "counterpartyAccount": "DE89370400440532013000",
    "account": "DE02120300000000202051",
    "groupKey": "G1",
    "description": "line one\nline two\ttabbed \\. {a,b}",
    "metadata": {"order": '17 "quoted"', "größe": ""},
    "openAmountMinor": 1_000,
}
TABLES = ("expected_transaction", "expected_open", "audit_record", TOLD)


async def bulk(tenant: Tenant, items: list[Any], environment: str = "production", **headers: str) -> list[Any]:
    answer = await tenant.post(f"{PATH}/bulk", {"items": items}, environment, headers=headers)
    assert answer.status_code == 200, answer.text
    results = answer.json()["results"]
    assert [result["index"] for result in results] == list(range(len(items)))
    return list(results)


async def test_an_item_is_what_a_request_of_it_alone_would_have_made(service: Service, acme: Tenant) -> None:
    alone = (await acme.post(PATH, FULL)).json()
    [result] = await bulk(acme, [FULL])
    assert (result["status"], UUID(result["id"]).version, "problem" in result) == (201, 7, False)
    answer = await acme.get(f"{PATH}/{result['id']}")
    own = {"id", "createdAt", "updatedAt"}
    assert {k: v for k, v in answer.json().items() if k not in own} == {k: v for k, v in alone.items() if k not in own}
    assert answer.headers["etag"] == '"1"'
    query = "SELECT * FROM expected_open WHERE transaction_id IN ('{}', '{}') ORDER BY transaction_id"
    one, other = await rows(service, acme, query.format(alone["id"], result["id"]))
    assert {**one, "transaction_id": other["transaction_id"]} == other


async def test_each_item_succeeds_or_fails_by_itself(service: Service, acme: Tenant, globex: Tenant) -> None:
    there = (await acme.post(PATH, {**MONEY, "externalId": "there"})).json()["id"]
    await globex.post(PATH, {**MONEY, "externalId": "mine"})
    await has_arrived(service, acme)
    before = [await count(service, acme, table) for table in TABLES]
    items: list[Any] = [
        {**MONEY, "externalId": "mine"},
        {**MONEY, "externalId": "there"},
        {**MONEY, "amount": "0"},
        {**MONEY, "externalId": "mine", "amount": "1.00"},
        {"direction": "up"},
        {**MONEY, "reference": "R", "issueReference": "short"},
        {**MONEY, "openAmountMinor": 1_235},
        {},
        MONEY,
    ]
    results = await bulk(acme, items)
    assert [result["status"] for result in results] == [201, 409, 422, 409, 422, 422, 422, 422, 201]
    problems = [result.get("problem", {}) for result in results]
    assert [problem.get("existingId") for problem in problems[1:4:2]] == [there, results[0]["id"]]
    assert {problem["code"] for problem in problems[1:4:2]} == {"duplicate_external_id"}
    assert [problem["errors"][0]["pointer"] for problem in problems[2:3] + problems[5:7]] == [
        "/amount",
        "/issueReference",
        "/openAmountMinor",
    ]
    assert {error["pointer"] for error in problems[4]["errors"]} >= {"/direction", "/currency"}
    assert "up" not in str(problems[4])
    await has_arrived(service, acme)
    after = [await count(service, acme, table) for table in TABLES]
    assert [new - old for old, new in zip(before, after, strict=True)] == [2, 2, 2, 2]
    told = await told_of(service, acme, "expected_transaction.created")
    assert {results[0]["id"], results[8]["id"]} <= {str(event["resource_id"]) for event in told}
    for result in (results[0], results[8]):
        assert code(await globex.get(f"{PATH}/{result['id']}")) == "not_found"


async def test_of_an_item_that_is_all_wrong_the_first_errors_are_told_and_all_counted(acme: Tenant) -> None:
    wrong = {**MONEY, **{f"unknown-{n}": 0 for n in range(150)}}
    answer = await acme.post(PATH, wrong)
    [result] = await bulk(acme, [wrong])
    for told in (answer.json(), result["problem"]):
        assert told["detail"] == "150 fields are invalid"
        assert [error["pointer"] for error in told["errors"]] == [f"/unknown-{n}" for n in range(20)]


def test_what_is_wrong_with_items_keeps_nothing_but_what_is_told() -> None:
    def read(_: int, item: Any) -> Any:
        return validated(ExpectedTransactionCreate, item)

    _, wrong = read_items([{f"unknown-{n}": 0 for n in range(150)}], read)
    assert (len(wrong[0].errors), wrong[0].__context__, wrong[0].__traceback__) == (20, None, None)


async def test_a_repeated_request_creates_nothing(service: Service, acme: Tenant) -> None:
    items = [{**MONEY, "externalId": "again"}, {"direction": "up"}]
    first = await bulk(acme, items, **{"Idempotency-Key": "bulk-1"})
    before = await count(service, acme, "expected_transaction")
    assert await bulk(acme, items, **{"Idempotency-Key": "bulk-1"}) == first
    assert await count(service, acme, "expected_transaction") == before
    answer = await acme.post(f"{PATH}/bulk", {"items": items[:1]}, headers={"Idempotency-Key": "bulk-1"})
    assert (answer.status_code, code(answer)) == (422, "idempotency_key_reused")


@pytest.mark.parametrize("body", [{}, {"items": []}, {"items": {}}, {"items": [1]}, {"items": [MONEY], "x": 1}])
async def test_what_is_no_bulk_request_is_refused_whole(acme: Tenant, body: Any) -> None:
    answer = await acme.post(f"{PATH}/bulk", body)
    assert (answer.status_code, code(answer)) == (422, "validation_failed")


async def test_ten_thousand_are_created_and_one_more_are_not(service: Service) -> None:
    tenant = await service.tenant("many", environments=["production"])
    items = [{**MONEY, "externalId": f"I-{n}", "reference": f"INV-{n:06}"} for n in range(10_000)]
    answer = await tenant.post(f"{PATH}/bulk", {"items": [*items, MONEY]})
    assert (answer.status_code, code(answer)) == (422, "validation_failed")
    results = await bulk(tenant, items)
    assert {result["status"] for result in results} == {201}
    assert len({result["id"] for result in results}) == len(items)
    assert {result["status"] for result in await bulk(tenant, items)} == {409}
    for table in ("expected_transaction", "expected_open"):
        assert await count(service, tenant, table) == len(items)


async def test_who_sends_the_same_at_once_gets_each_once(service: Service) -> None:
    tenant = await service.tenant("rivals", environments=["production"])
    items = [{**MONEY, "externalId": f"I-{n}"} for n in range(300)]
    found = await asyncio.gather(bulk(tenant, items), bulk(tenant, items[::-1]), bulk(tenant, items[100:]))
    statuses = [result["status"] for results in found for result in results]
    assert (statuses.count(201), statuses.count(409)) == (300, 500)
    created = {result["id"] for results in found for result in results if result["status"] == 201}
    existing = {r["problem"]["existingId"] for results in found for r in results if r["status"] == 409}
    assert existing <= created
    assert len(created) == await count(service, tenant, "expected_transaction") == 300


async def test_who_meets_others_at_the_same_rows_tries_again_and_gives_up_at_last(
    service: Service, acme: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    add, alone = ExpectedLoadingStore.add, []

    async def begin(_store: ExpectedLoadingStore, **given: bool) -> None:
        alone.append(given["alone"])

    async def contended(self: ExpectedLoadingStore, *given: Any) -> None:
        if len(alone) < 3:
            raise ContendedError
        await add(self, *given)

    monkeypatch.setattr(ExpectedLoadingStore, "begin", begin)
    monkeypatch.setattr(ExpectedLoadingStore, "add", contended)
    before = await count(service, acme, "expected_transaction")
    [result] = await bulk(acme, [MONEY])
    assert (result["status"], alone) == (201, [False, False, True])
    alone.clear()
    monkeypatch.setattr(ExpectedLoadingStore, "add", lambda *_: _raise())
    answer = await acme.post(f"{PATH}/bulk", {"items": [MONEY]})
    assert (answer.status_code, code(answer)) == (503, "service_unavailable")
    assert await count(service, acme, "expected_transaction") == before + 1


async def _raise() -> None:
    raise ContendedError
