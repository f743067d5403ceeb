"""Expected transactions are corrected and voided: what may be changed when, and what follows from it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.events import told_of
from support.invariants import violations
from support.matching_world import World, matching_world
from support.service import Service, Tenant, superuser_url
from support.wire import code, fields, problem, rows

pytestmark = pytest.mark.anyio

PATH = "/expected-transactions"
MONEY = {"direction": "credit", "amount": "100.00", "currency": "EUR"}
FULL: dict[str, Any] = {
    **MONEY,
    "externalId": "full",
    "minAmountMinor": 9_900,
    "maxAmountMinor": 10_100,
    "dueDate": "2999-03-01",
    "expectedFrom": "2999-02-01",
    "expectedTo": "2999-03-31",
    "reference": "INV-2999-17",
    "endToEndId": "E2E-1",
    "counterpartyName": "Groß & Söhne",
    "counterpartyAccount": "DE89370400440532013000",
    "account": "DE02120300000000202051",
    "groupKey": "G1",
    "description": "first",
    "metadata": {"order": "17", "kept": "yes"},
}


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def patched(tenant: Tenant, transaction_id: str, patch: dict[str, Any], **headers: str) -> Any:
    return await tenant.request("PATCH", f"{PATH}/{transaction_id}", json=patch, headers=headers)


async def stored(service: Service, tenant: Tenant, table: str, transaction_id: str) -> list[dict[str, Any]]:
    name = "id" if table == "expected_transaction" else "transaction_id"
    return await rows(service, tenant, f"SELECT * FROM {table} WHERE {name} = '{transaction_id}'")  # noqa: S608 - our own


async def made(tenant: Tenant, **given: Any) -> dict[str, Any]:
    answer = await tenant.post(PATH, {**MONEY, **given})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"amount": "99.50"}, {"amountMinor": 9_950, "amount": "99.50", "openAmountMinor": 9_950}),
        ({"amountMinor": 10_001}, {"amount": "100.01", "openAmountMinor": 10_001}),
        (
            {"amount": "9900", "currency": "JPY", "minAmountMinor": 9_900, "maxAmountMinor": None},
            {"amountMinor": 9_900, "currency": "JPY", "openAmountMinor": 9_900},
        ),
        ({"direction": "debit"}, {"direction": "debit"}),
        ({"externalId": "other"}, {"externalId": "other"}),
        ({"externalId": None}, {"externalId": None}),
        ({"minAmountMinor": None, "maxAmountMinor": 20_000}, {"minAmountMinor": None, "maxAmountMinor": 20_000}),
        ({"reference": "INV-1", "endToEndId": None}, {"reference": "INV-1", "endToEndId": None}),
        ({"dueDate": "2020-01-01"}, {"dueDate": "2020-01-01", "overdue": True}),
        ({"dueDate": None, "expectedTo": None}, {"dueDate": None, "expectedTo": None}),
        ({"counterpartyName": "Nobody", "counterpartyAccount": None}, {"counterpartyName": "Nobody"}),
        ({"account": None, "groupKey": "G2"}, {"account": None, "groupKey": "G2"}),
        ({"description": None}, {"description": None}),
        ({"metadata": {"order": None, "new": "1"}}, {"metadata": {"kept": "yes", "new": "1"}}),
        ({"metadata": None}, {"metadata": {}}),
    ],
    ids=str,
)
async def test_an_open_one_may_be_changed_in_every_field(
    service: Service, acme: Tenant, globex: Tenant, patch: dict[str, Any], expected: dict[str, Any]
) -> None:
    before = (await acme.post(PATH, FULL)).json()
    other = (await globex.post(PATH, FULL)).json()
    try:
        answer = await patched(acme, before["id"], patch, **{"If-Match": '"1"'})
        assert answer.status_code == 200, answer.text
        after = answer.json()
        assert after["version"] > 1
        assert answer.headers["etag"] == f'"{after["version"]}"'
        changed = {"version", "updatedAt", "amount", *patch, *expected}
        said = {k: v for k, v in after.items() if k not in changed}
        assert {k: before[k] for k in said} == said
        assert {k: after[k] for k in expected} == expected
        assert (await acme.get(f"{PATH}/{before['id']}")).json() == after
        assert (await globex.get(f"{PATH}/{other['id']}")).json() == other
        [opened] = await stored(service, acme, "expected_open", before["id"])
        [stated] = await stored(service, acme, "expected_transaction", before["id"])
        assert (opened["open_minor"], opened["revision"]) == (after["openAmountMinor"], stated["revision"])
    finally:
        for tenant in (acme, globex):
            await rows(service, tenant, "UPDATE expected_transaction SET external_id = NULL")


async def test_a_changed_one_has_the_open_row_that_a_new_one_would_have(service: Service, acme: Tenant) -> None:
    wanted = {**FULL, "externalId": "as-new"}
    new = (await acme.post(PATH, wanted)).json()
    [there] = await stored(service, acme, "expected_open", new["id"])
    old = await made(acme, amount="1.00", reference="X-1", description="second", metadata={"a": "b"})
    await rows(service, acme, "UPDATE expected_transaction SET external_id = NULL WHERE external_id = 'as-new'")
    answer = await patched(acme, old["id"], {**wanted, "metadata": {"a": None, **FULL["metadata"]}})
    assert answer.status_code == 200, answer.text
    kept = {"id", "createdAt", "updatedAt", "version"}
    assert {k: v for k, v in answer.json().items() if k not in kept} == {k: v for k, v in new.items() if k not in kept}
    [opened] = await stored(service, acme, "expected_open", old["id"])
    kept = {"transaction_id", "revision"}
    assert {k: v for k, v in opened.items() if k not in kept} == {k: v for k, v in there.items() if k not in kept}
    await rows(service, acme, "UPDATE expected_transaction SET external_id = NULL")


@pytest.mark.parametrize(
    ("patch", "status", "wrong"),
    [
        ({"amount": "1", "amountMinor": 1}, 422, ("/amount", "amount_once")),
        ({"amount": "1.001"}, 422, ("/amount", "decimal_max_places")),
        ({"amount": "0"}, 422, ("/amount", "amount_out_of_range")),
        ({"amountMinor": 10**15}, 422, ("/amountMinor", "amount_out_of_range")),
        ({"amount": None}, 422, ("/amount", "not_removable")),
        ({"currency": None}, 422, ("/currency", "not_removable")),
        ({"direction": None}, 422, ("/direction", "not_removable")),
        ({"currency": "USD"}, 422, ("/amountMinor", "amount_required")),
        ({"minAmountMinor": 10_001}, 422, ("/minAmountMinor", "band_excludes_amount")),
        ({"amount": "1.00", "maxAmountMinor": 99}, 422, ("/maxAmountMinor", "band_excludes_amount")),
        ({"expectedTo": "2020-01-01", "expectedFrom": "2020-01-02"}, 422, ("/expectedTo", "range_reversed")),
        ({"issueReference": "short"}, 422, ("/issueReference", "extra_forbidden")),
        ({"openAmountMinor": 1}, 422, ("/openAmountMinor", "extra_forbidden")),
        ({"status": "void"}, 422, ("/status", "extra_forbidden")),
        ({"metadata": {str(n): "x" for n in range(51)}}, 422, ("/metadata", "too_long")),
        ({"metadata": {"a": 1}}, 422, ("/metadata/a", "string_type")),
    ],
    ids=str,
)
async def test_what_cannot_be_is_named_and_changes_nothing(
    acme: Tenant, patch: dict[str, Any], status: int, wrong: tuple[str, str]
) -> None:
    before = await made(acme)
    answer = await patched(acme, before["id"], patch)
    assert (answer.status_code, fields(answer)) == (status, {wrong})
    assert (await acme.get(f"{PATH}/{before['id']}")).json() == before


async def test_what_is_equal_is_no_change(service: Service, acme: Tenant) -> None:
    before = await made(acme, description="same", metadata={"a": "b"})
    for patch in ({}, {"amount": "100.00"}, {"amountMinor": 10_000, "description": "same", "metadata": {}}):
        answer = await patched(acme, before["id"], patch)
        assert (answer.status_code, answer.json()) == (200, before)
    assert await stored(service, acme, "stated_row", before["id"]) == []


async def test_a_change_is_for_who_has_seen_the_last_one(acme: Tenant, globex: Tenant) -> None:
    before = await made(acme)
    assert code(await patched(acme, before["id"], {"description": "x"}, **{"If-Match": '"2"'})) == "version_mismatch"
    first = await patched(acme, before["id"], {"description": "x"}, **{"If-Match": '"1"'})
    assert first.status_code == 200
    assert code(await patched(acme, before["id"], {"amount": "1.00"}, **{"If-Match": '"1"'})) == "version_mismatch"
    for tenant, environment in ((globex, "production"), (acme, "test")):
        path = f"{PATH}/{before['id']}"
        answer = await tenant.request("PATCH", path, environment, json={"description": "y"})
        assert code(answer) == "not_found"
        assert code(await tenant.post(f"{path}/void", {"reason": "y"}, environment)) == "not_found"
    assert (await acme.get(f"{PATH}/{before['id']}")).json() == first.json()


async def test_an_external_id_is_given_once(acme: Tenant) -> None:
    there = await made(acme, externalId="there")
    mine = await made(acme)
    found = problem(await patched(acme, mine["id"], {"externalId": "there"}))
    assert (found["status"], found["code"], found["existingId"]) == (409, "duplicate_external_id", there["id"])
    assert (await patched(acme, there["id"], {"externalId": "there"})).status_code == 200


async def test_a_change_is_recorded_told_and_kept(service: Service, acme: Tenant) -> None:
    mine = await made(acme, reference="R-1")
    await patched(acme, mine["id"], {"amount": "50.00", "reference": None, "dueDate": "2999-01-01"})
    audit = (await acme.get("/audit-log", params={"resourceId": mine["id"], "sort": "-createdAt"})).json()["data"]
    [record] = [r for r in audit if r["type"] == "expected_transaction.updated"]
    assert record["before"] == {"amountMinor": 10_000, "reference": "R-1", "dueDate": None}
    assert record["after"] == {"amountMinor": 5_000, "reference": None, "dueDate": "2999-01-01"}
    told = await told_of(service, acme, "expected_transaction.updated")
    assert [str(event["resource_id"]) for event in told].count(mine["id"]) == 1
    [kept] = await stored(service, acme, "stated_row", mine["id"])
    assert (kept["side"], kept["stated"]["amount_minor"], kept["stated"]["reference"]) == (1, 10_000, "R-1")


async def test_a_proposal_of_what_changed_since_is_stale(world: World) -> None:
    item = await world.expect(reference="INV-2026-0001")
    await world.receive(remittance="INV-2026-0001")
    await world.run()
    match = await world.proposal()
    assert (await patched(world.tenant, item, {"description": "only a text"})).status_code == 200
    assert (await world.tenant.get(f"/matches/{match['id']}")).json()["status"] == "proposed"
    assert (await patched(world.tenant, item, {"dueDate": "2026-03-11"})).status_code == 200
    found = problem(await world.accept(match))
    assert (found["status"], found["code"]) == (409, "stale_proposal")
    assert found["changed"][0]["id"] == item
    await world.run()
    [match] = await world.matches(status="proposed")
    assert (await world.accept(match)).status_code == 200


async def test_what_matching_looked_at_is_fixed_when_something_is_matched(world: World) -> None:
    item = await world.expect(reference="INV-2026-0002")
    await world.receive(amount="40.00", remittance="INV-2026-0002")
    await world.run()
    assert (await world.accept(await world.proposal())).status_code == 200
    before = await world.expected(item)
    assert before["status"] == "partially_matched"
    refused = {"amount": "120.00", "reference": "X", "counterpartyName": "Y", "description": "z"}
    answer = await patched(world.tenant, item, refused)
    found = problem(answer)
    assert (found["status"], found["code"]) == (409, "invalid_state")
    assert fields(answer) == {(f"/{n}", "invalid_state") for n in ("amountMinor", "reference", "counterpartyName")}
    for fixed, name in (
        ({"currency": "USD"}, "currency"),
        ({"amountMinor": 0}, "amountMinor"),
        ({"amount": "1.234"}, "amountMinor"),
        ({"minAmountMinor": 99_999}, "minAmountMinor"),
    ):
        # What is wrong with a value is no matter where the field may not change at all.
        answer = await patched(world.tenant, item, fixed)
        assert (answer.status_code, fields(answer)) == (409, {(f"/{name}", "invalid_state")})
    assert code(await patched(world.tenant, item, {"amount": "x"})) == "validation_failed"
    assert await world.expected(item) == before
    allowed = {"description": "late", "metadata": {"k": "v"}, "dueDate": "2026-04-01", "expectedTo": "2026-05-01"}
    answer = await patched(world.tenant, item, {**allowed, "amount": "100.00"})
    assert answer.status_code == 200, answer.text
    after = answer.json()
    assert {k: after[k] for k in allowed} == allowed
    assert (after["openAmountMinor"], after["matchedAmountMinor"]) == (6_000, 4_000)
    [opened] = await world.sql("SELECT open_minor, total_minor FROM expected_open")
    assert (opened["open_minor"], opened["total_minor"]) == (6_000, 10_000)
    await world.receive(amount="60.00", remittance="INV-2026-0002")
    await world.run()
    assert (await world.accept(await world.proposal())).status_code == 200
    answer = await patched(world.tenant, item, {"dueDate": "2026-04-02"})
    assert (answer.status_code, answer.json()["status"]) == (200, "matched")
    assert await world.sql("SELECT 1 FROM expected_open") == []


async def test_what_is_void_is_not_expected_any_more(world: World) -> None:
    item = await world.expect(reference="INV-2026-0003")
    await world.receive(remittance="INV-2026-0003")
    await world.run()
    match = await world.proposal()
    path = f"{PATH}/{item}"
    version = (await world.expected(item))["version"]
    assert code(await world.tenant.post(f"{path}/void", {"reason": "x"}, headers={"If-Match": '"9"'})) == (
        "version_mismatch"
    )
    answer = await world.tenant.post(f"{path}/void", {"reason": "credit note 7"}, headers={"If-Match": f'"{version}"'})
    assert answer.status_code == 200, answer.text
    void = answer.json()
    assert (void["status"], void["voidReason"], void["overdue"], void["version"]) == (
        "void",
        "credit note 7",
        False,
        version + 1,
    )
    assert (void["settledBeforeMinor"] + void["matchedAmountMinor"] + void["openAmountMinor"]) == void["amountMinor"]
    assert await world.expected(item) == void
    superseded = (await world.tenant.get(f"/matches/{match['id']}")).json()
    assert (superseded["status"], superseded["supersededBy"]) == ("superseded", None)
    found = problem(await world.accept(match))
    assert (found["status"], found["code"]) == (409, "invalid_state")
    for path_, body in ((f"{path}/void", {"reason": "again"}),):
        assert code(await world.tenant.post(path_, body)) == "invalid_state"
    assert code(await patched(world.tenant, item, {"description": "late"})) == "invalid_state"
    run = await world.run()
    assert run["counts"]["expected"] == 0
    assert await world.matches(status="proposed") == []
    for status, count in (("void", 1), ("open", 0)):
        assert len((await world.tenant.get(PATH, params={"status": status})).json()["data"]) == count
    [record] = (await world.tenant.get("/audit-log", params={"type": "expected_transaction.voided"})).json()["data"]
    assert (record["resourceId"], record["reason"]) == (item, "credit note 7")


@pytest.mark.parametrize("body", [{}, {"reason": ""}, {"reason": "x" * 501}, {"reason": "x", "why": "y"}])
async def test_a_void_needs_its_reason(acme: Tenant, body: dict[str, Any]) -> None:
    mine = await made(acme)
    answer = await acme.post(f"{PATH}/{mine['id']}/void", body)
    assert (answer.status_code, code(answer)) == (422, "validation_failed")
    assert (await acme.get(f"{PATH}/{mine['id']}")).json() == mine


async def test_what_is_matched_is_not_voided(world: World) -> None:
    item = await world.expect(reference="INV-2026-0004")
    await world.receive(amount="40.00", remittance="INV-2026-0004")
    await world.run()
    await world.accept(await world.proposal())
    before = await world.expected(item)
    answer = await world.tenant.post(f"{PATH}/{item}/void", {"reason": "x"})
    assert (answer.status_code, code(answer)) == (409, "invalid_state")
    assert await world.expected(item) == before


async def test_the_database_keeps_everybody_from_taking_of_what_is_void(world: World) -> None:
    item = await world.expect()
    await world.tenant.post(f"{PATH}/{item}/void", {"reason": "x"})
    [row] = await world.sql("SELECT amount_minor, allocated_minor, status, reason FROM allocation")
    assert row == {"amount_minor": 0, "allocated_minor": 0, "status": "void", "reason": "x"}
    states = await stored(world.service, world.tenant, "allocation_state", item)
    assert sorted((s["version"], s["status"]) for s in states) == [(1, "open"), (2, "void")]


@pytest.mark.parametrize("verb", ["void", "change"])
async def test_whoever_accepts_at_the_same_time_has_won_or_lost(world: World, verb: str) -> None:
    for number in range(12):
        await world.expect(reference=f"INV-2026-9{number:03}")
        await world.receive(remittance=f"INV-2026-9{number:03}")
    await world.run()
    matches = await world.matches(status="proposed")
    assert len(matches) == 12

    async def corrected(match: dict[str, Any]) -> int:
        item = match["legs"][0]["expectedTransactionId"]
        if verb == "void":
            answer = await world.tenant.post(f"{PATH}/{item}/void", {"reason": "at the same time"})
        else:
            answer = await patched(world.tenant, item, {"amount": "90.00"})
        return int(answer.status_code)

    async def accepted(match: dict[str, Any]) -> int:
        return (await world.accept(match)).status_code

    pairs = [(accepted(match), corrected(match)) for match in matches]
    ends = await asyncio.gather(*(end for pair in pairs for end in pair))
    assert set(zip(ends[::2], ends[1::2], strict=True)) <= {(200, 409), (409, 200)}
    for match, (won, _) in zip(matches, zip(ends[::2], ends[1::2], strict=True), strict=True):
        found = await world.expected(match["legs"][0]["expectedTransactionId"])
        lost = {"void": "void", "change": "open"}[verb]
        assert found["status"] == ("matched" if won == 200 else lost)
        assert (found["amount"] == "90.00") == (verb == "change" and won != 200)
    url = superuser_url(world.service.factory.context.config)
    assert await violations(url, world.scope.schema_name) == {}


async def test_why_it_is_open_is_said_until_it_is_another_item(world: World) -> None:
    item = await world.expect()
    await world.run()

    async def with_reason() -> list[str]:
        answer = await world.tenant.get(PATH, params={"reasonCode": "no_candidate"})
        return [row["id"] for row in answer.json()["data"]]

    assert (await world.expected(item))["reasonCode"] == "no_candidate"
    assert await with_reason() == [item]
    await patched(world.tenant, item, {"description": "only a text"})
    assert await with_reason() == [item]
    await patched(world.tenant, item, {"amount": "99.00"})
    assert (await world.expected(item))["reasonCode"] is None
    assert await with_reason() == []
    assert (await world.tenant.get(PATH, params={"reasonCode": "no"})).json()["data"] == []


async def test_what_it_was_before_a_change_can_be_seen_again(world: World) -> None:
    item = await world.expect(reference="INV-2026-0005", metadata={"a": "b"})
    path = f"{PATH}/{item}"
    seen = []

    async def look() -> None:
        [clock] = await world.sql("SELECT clock_timestamp() AS now")
        seen.append((clock["now"].isoformat(), await world.expected(item)))

    await look()
    await world.run()
    await look()
    for patch in ({"description": "text"}, {"amount": "70.00", "metadata": {"a": None}}, {"dueDate": "2020-01-01"}):
        assert (await patched(world.tenant, item, patch)).status_code == 200
        await look()
    await world.tenant.post(f"{path}/void", {"reason": "gone"})
    await look()
    versions = [body["version"] for _, body in seen]
    assert versions == sorted(versions)
    assert len(set(versions)) == 5
    for instant, body in seen:
        assert (await world.tenant.get(path, params={"asOf": instant})).json() == body
        listed = (await world.tenant.get(PATH, params={"asOf": instant})).json()["data"]
        assert listed == [body]
