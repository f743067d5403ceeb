"""Texts that are erased, wherever they stand and however they are written: one by one, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from payrec.domain.erasures import ERASED
from support.erasures import IBAN, NAME, OTHER, PATH, counts, erased, instant, run, where
from support.matching_world import World, matching_world
from support.service import Service, Tenant
from support.wire import add_user, in_control

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def test_sources_that_are_called_by_people_have_different_names_afterwards(world: World) -> None:
    for name in (NAME, "MUELLER, ANNA", "Ben Smith", OTHER):
        assert (await world.tenant.post("/data-sources", {"name": name, "kind": "upload"})).status_code == 201
    assert (await erased(world, counterpartyName=NAME))["erased"][-1]["count"] == 2
    await erased(world, counterpartyName="Ben Smith")
    sources = (await world.tenant.get("/data-sources")).json()["data"]
    assert {one["name"] for one in sources if one["name"] != OTHER} == {
        f"{ERASED} {one['id']}" for one in sources if one["name"] != OTHER
    }
    assert len(sources) == 4
    await run(world, "DELETE FROM data_source")


async def test_a_name_for_which_metadata_are_called_goes_from_them(world: World) -> None:
    metadata = {f"advisor {NAME}": "5", f"advisor {NAME.upper()}": "6", OTHER: "7"}
    paid, asked = await world.receive(counterpartyName="Bolt", metadata=metadata), await world.expect(metadata=metadata)
    changed = await world.expect(metadata=metadata)
    answer = await world.tenant.request(
        "PATCH", f"/expected-transactions/{changed}", json={"metadata": dict.fromkeys(metadata)}
    )
    assert (answer.status_code, answer.json()["metadata"]) == (200, {})
    there = await where(world, NAME, bystander=True)
    assert {"audit_record", "expected_transaction", "incoming_transaction", "stated_row"} <= (
        await where(world, NAME)
    ).keys()
    made = counts(await erased(world, counterpartyName=NAME))
    assert (made["expected-transactions"], made["incoming-transactions"], made["history"]) == (1, 1, 3)
    assert await where(world, NAME) == {}
    assert await where(world, NAME, bystander=True) == there != {}
    left = {OTHER: "7", f"advisor {ERASED}": "6", f"advisor {ERASED} 3": "5"}
    for one in (await world.incoming(paid), await world.expected(asked)):
        assert one["metadata"] == left


async def test_a_group_and_the_codes_of_a_bank_name_nobody_afterwards(world: World) -> None:
    codes = {"bankTransactionCode": "NTRF", "purposeCode": f"rent of {NAME}", "returnReason": f"AC04 {NAME}"}
    for payer in (NAME, "Bolt"):
        await world.receive(counterpartyName=payer, groupKey=f"PAYOUT {NAME}", **codes)
    there = await where(world, NAME, bystander=True)
    before = await instant(world)
    await erased(world, counterpartyName=NAME)
    assert await where(world, NAME) == {}
    assert await where(world, NAME, bystander=True) == there != {}
    for asked in ({}, {"asOf": before}):
        for one in (await world.tenant.get("/incoming-transactions", params=asked)).json()["data"]:
            assert (one["groupKey"], one["batch"]) == (None, {"groupKey": None, "count": None, "itemised": False})
            assert {name: one[name] for name in codes} == {
                "bankTransactionCode": "NTRF",
                "purposeCode": f"rent of {ERASED}",
                "returnReason": f"AC04 {ERASED}",
            }
            assert one["returnKind"] == "return"


async def test_keys_are_called_by_nobody_afterwards_and_what_settings_were_is_told_of(world: World) -> None:
    tenants = (world.bystander, world.tenant)

    async def made(tenant: Tenant, name: str, environment: str = "production") -> dict[str, Any]:
        headers = {"Idempotency-Key": name.encode().hex()}
        body = {"name": name, "read": True}
        answer = await tenant.post("/auth/api-keys", body, environment, headers=headers)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    async def names(tenant: Tenant, environment: str = "production") -> list[str]:
        keys = (await tenant.get("/auth/api-keys", environment)).json()["data"]
        return [key["name"] for key in keys if "ller" in (key["name"] or "") or ERASED in (key["name"] or "")]

    for tenant in tenants:
        hers = await made(tenant, f"ledger of {NAME}")
        await made(tenant, OTHER)
        await made(tenant, NAME, "test")
    assert (await world.tenant.request("DELETE", f"/auth/api-keys/{hers['id']}")).status_code == 204
    rule = {"name": "rent", "priority": 1, "scope": {"textContains": [NAME]}, "classify": {"category": "rent"}}
    await world.set(rules=[rule])
    await world.set(rules=[])
    told = await erased(world, counterpartyName="MUELLER, ANNA")
    assert counts(told) == {"api-keys": 1, "idempotency-keys": 1}
    assert told["kept"] == [{"resource": "audit-log", "why": "append_only", "count": 2, "until": None}]
    assert await names(world.tenant) == [OTHER, f"ledger of {ERASED}"]
    assert await names(world.bystander) == [OTHER, f"ledger of {NAME}"]
    assert await names(world.tenant, "test") == await names(world.bystander, "test") == [NAME]
    again = await made(world.tenant, f"ledger of {NAME}")
    assert (again["id"], again["name"]) == (hers["id"], f"ledger of {ERASED}")
    assert counts(await erased(world, counterpartyName=NAME)) == {}


async def test_an_answer_that_is_repeated_names_nobody_that_the_transaction_does_not_name(world: World) -> None:
    said = {
        "counterpartyName": "Bolt",
        "counterpartyAccount": IBAN,
        "ultimateCounterpartyName": NAME,
        "remittance": "INV-2026-001",
        "mandateId": "M-1",
        "metadata": {"contact": OTHER},
    }
    body = {"direction": "credit", "amount": "3.00", "currency": "EUR", "bookingDate": "2026-03-12", **said}

    async def posted() -> dict[str, Any]:
        headers = {"Idempotency-Key": "once"}
        answer = await world.tenant.request("POST", "/incoming-transactions", json=body, headers=headers)
        assert answer.status_code == 201
        return dict(answer.json())

    stored = await posted()
    assert {name: stored[name] for name in said} == said
    await erased(world, counterpartyAccount=IBAN)
    now = await world.incoming(stored["id"])
    assert {name: now[name] for name in said} == dict.fromkeys(said) | {"metadata": {}}
    again = await posted()
    assert (again["id"], {name: again[name] for name in said}) == (stored["id"], {name: now[name] for name in said})


async def test_the_answer_that_created_a_tenant_names_its_administrator_no_more(service: Service) -> None:
    admin = {"username": "anna.müller", "password": "pässwörd-of-hers"}
    body = {"name": "Anna.Müller", "slug": "hers", "environments": ["production"], "admin": admin}

    async def created() -> dict[str, Any]:
        headers = {"Idempotency-Key": "hers"}
        answer = await service.http.post(f"{service.base_url}/tenants", json=body, headers=headers)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    stored = await created()
    tenant = Tenant(id=stored["id"], slug="hers", token="", base_url=service.base_url, http=service.http)
    _, other = await add_user(service, tenant, "admin")
    user_id = stored["admin"]["id"]
    await in_control(service, "UPDATE app_user SET status = 'disabled' WHERE id = %s", user_id)
    made = await other.post(PATH, {"userId": user_id, "reason": "asked for"})
    assert (made.status_code, counts(made.json())) == (201, {"idempotency-keys": 1, "users": 1})
    assert await created() == {**stored, "admin": {"id": user_id, "username": f"erased-{user_id}"}}
