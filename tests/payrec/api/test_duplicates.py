"""Content that is stored under another identity: flagged, or refused where a tenant says so, whatever way it came."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from support.events import TOLD
from support.matching_world import World, matching_world
from support.service import Service, Tenant
from support.wire import code

pytestmark = pytest.mark.anyio

PATH = "/incoming-transactions"
LINE = {
    "direction": "credit",
    "currency": "EUR",
    "bookingDate": "2026-03-12",
    "amount": "100.00",
    "remittance": "INV-1",
}

_CREATED = f"SELECT count(*) AS n FROM {TOLD} WHERE type = 'incoming_transaction.created'"  # noqa: S608


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def post(world: World, **more: Any) -> httpx2.Response:
    return await world.tenant.post(PATH, {**LINE, **more})


async def bulk(world: World, *lines: dict[str, Any]) -> list[dict[str, Any]]:
    answer = await world.tenant.post(f"{PATH}/bulk", {"items": [{**LINE, **line} for line in lines]})
    found: list[dict[str, Any]] = answer.json()["results"]
    return found


async def upload(world: World, *lines: dict[str, Any]) -> dict[str, Any]:
    data = "".join(json.dumps({**LINE, **line}) + "\n" for line in lines)
    headers = {"Content-Type": "application/x-ndjson"}
    answer = await world.tenant.post(f"{PATH}/upload", headers=headers, content=data)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def flags(world: World) -> dict[str, str | None]:
    """Return why each line is open by its externalId, after looking that all places where the flag is agree."""
    rows = await world.sql(
        "SELECT t.id FROM incoming_transaction t JOIN incoming_open o ON o.transaction_id = t.id"
        " WHERE t.duplicate <> o.duplicate OR t.revision <> o.revision"
    )
    assert rows == []
    found = (await world.tenant.get(PATH, params={"limit": 200})).json()["data"]
    return {row["externalId"]: row["reasonCode"] for row in found}


async def policy(world: World, value: str) -> None:
    path = f"/tenants/{world.tenant.id}/settings"
    answer = await world.tenant.request("PATCH", path, json={"ingestion": {"duplicatePolicy": value}})
    assert answer.status_code == 200, answer.text


async def test_of_two_requests_with_one_content_one_is_flagged_whichever_came_first(world: World) -> None:
    orders = []
    for names in ("ab", "ba"):
        await world.clean()
        for name in names:
            assert (await post(world, externalId=name)).status_code == 201
        orders.append(await flags(world))
        assert Counter(orders[-1].values()) == {None: 1, "duplicate": 1}
    assert orders[0] == orders[1]


async def test_requests_without_an_external_id_are_flagged_too(world: World) -> None:
    made = [(await post(world)).json() for _ in range(3)]
    reasons = [(await world.incoming(line["id"]))["reasonCode"] for line in made]
    assert Counter(reasons) == {None: 1, "duplicate": 2}
    other = (await post(world, remittance="INV-2")).json()
    assert other["reasonCode"] is None


@pytest.mark.parametrize("seed", range(6))
async def test_the_order_in_which_they_come_decides_nothing(world: World, seed: int) -> None:
    """Two requests, one of several lines, and two files, with equal lines in them."""
    expected: dict[str, str | None] | None = None
    for turn in range(3):
        await world.clean()
        deliveries: list[Any] = [
            post(world, externalId="a"),
            post(world, externalId="b"),
            bulk(world, {"externalId": "c"}, {"externalId": "d"}),
            upload(world, {"externalId": "e"}, {"externalId": "f"}),
            upload(world, {"externalId": "g"}),
        ]
        random.Random(seed * 10 + turn).shuffle(deliveries)  # noqa: S311 - no secret
        for delivery in deliveries:
            await delivery
        found = await flags(world)
        assert found == (expected or found)
        expected = found
    assert expected is not None
    first = {name for name, reason in expected.items() if reason is None}
    assert first in ({"a"}, {"b"}, {"c", "d"}, {"e", "f"}, {"g"})


async def test_what_is_paid_stays_the_original(world: World) -> None:
    await world.expect(reference="INV-2026-001")
    line = {"remittance": "INV-2026-001"}
    for name in "ab":
        await world.clean()
        await world.expect(reference="INV-2026-001")
        await post(world, externalId=name, **line)
        await world.run()
        assert (await world.accept(await world.proposal())).status_code == 200
        before = await world.digest("allocation", "incoming_transaction")
        await post(world, externalId="ab".replace(name, ""), **line)
        assert await flags(world) == {name: None, "ab".replace(name, ""): "duplicate"}
        assert (await world.digest("allocation"))["allocation"] == before["allocation"]


async def test_the_flag_is_kept_while_a_line_is_ignored(world: World) -> None:
    for name in "ab":
        await post(world, externalId=name)
    [flagged] = [name for name, reason in (await flags(world)).items() if reason is not None]
    [line] = (await world.tenant.get(PATH, params={"externalId": flagged})).json()["data"]
    before = await world.digest("incoming_open")
    assert (await world.tenant.post(f"{PATH}/{line['id']}/ignore", {"reason": "twice"})).status_code == 200
    answer = await world.tenant.post(f"{PATH}/{line['id']}/restore")
    assert (answer.status_code, answer.json()["reasonCode"]) == (200, "duplicate")
    assert await world.digest("incoming_open") == before


async def test_somebody_says_that_it_is_no_duplicate(world: World) -> None:
    for name in "ab":
        await post(world, externalId=name)
    [flagged] = [name for name, reason in (await flags(world)).items() if reason is not None]
    [line] = (await world.tenant.get(PATH, params={"externalId": flagged})).json()["data"]
    answer = await world.tenant.post(f"{PATH}/{line['id']}/restore", {"reason": "paid twice, for two"})
    assert (answer.status_code, answer.json()["reasonCode"]) == (200, None)
    assert answer.json()["version"] == line["version"] + 1
    rows = await world.sql(f"SELECT resource_id::text AS id FROM {TOLD} WHERE type = 'incoming_transaction.restored'")  # noqa: S608
    assert rows == [{"id": line["id"]}]
    [kept] = await world.sql("SELECT stated FROM stated_row WHERE transaction_id = %s", line["id"])
    assert kept["stated"]["duplicate"] is True
    again = await world.tenant.post(f"{PATH}/{line['id']}/restore")
    assert (again.status_code, code(again)) == (409, "invalid_state")
    # Whatever comes, it stays so; and what comes is flagged.
    await post(world, externalId="c")
    await upload(world, {"externalId": "d"})
    found = await flags(world)
    assert found[flagged] is None
    assert Counter(found.values()) == {None: 2, "duplicate": 2}


async def test_of_many_at_once_all_but_one_are_flagged(world: World) -> None:
    answers = await asyncio.gather(*(post(world, externalId=f"x{number}") for number in range(12)))
    assert {answer.status_code for answer in answers} == {201}
    assert Counter((await flags(world)).values()) == {None: 1, "duplicate": 11}


async def test_where_duplicates_are_refused_nothing_of_them_is_stored(world: World) -> None:
    first = (await post(world, externalId="a")).json()
    await policy(world, "reject")
    before = await world.digest("incoming_transaction", "incoming_open", "audit_record")
    told = await world.sql(_CREATED)
    for more in ({"externalId": "b"}, {}):
        answer = await post(world, **more)
        assert (answer.status_code, code(answer)) == (409, "invalid_state")
        assert answer.json()["existingId"] == first["id"]
    assert await world.digest("incoming_transaction", "incoming_open", "audit_record") == before
    assert await world.sql(_CREATED) == told
    answer = await post(world, externalId="a")
    assert (answer.status_code, code(answer), answer.json()["existingId"]) == (
        409,
        "duplicate_external_id",
        first["id"],
    )
    assert (await post(world, externalId="c", bankReference="other")).status_code == 201
    assert [(await post(world, amount="0.00")).status_code for _ in range(2)] == [201, 201]
    # The setting is one tenant's.
    for tenant in (world.bystander, world.bystander):
        assert (await tenant.post(PATH, LINE)).status_code == 201
    await policy(world, "flag")
    assert (await post(world, externalId="d")).status_code == 201


async def test_where_duplicates_are_refused_items_are_refused_by_themselves(world: World) -> None:
    first = (await post(world, externalId="a")).json()
    await policy(world, "reject")
    other = {"remittance": "INV-2"}
    found = await bulk(world, {"externalId": "b"}, {"externalId": "a"}, {"externalId": "c", **other}, other)
    assert [result["status"] for result in found] == [409, 409, 201, 201]
    assert [(r["problem"]["code"], r["problem"]["existingId"]) for r in found[:2]] == [
        ("invalid_state", first["id"]),
        ("duplicate_external_id", first["id"]),
    ]
    # Two of one request were two payments; those of the next are there already.
    assert [result["status"] for result in await bulk(world, other, other)] == [409, 409]
    assert await flags(world) == {"a": None, "c": None, None: None}


async def test_where_duplicates_are_refused_records_are_rejected(world: World) -> None:
    await post(world, externalId="a")
    await upload(world, {"externalId": "b", "remittance": "INV-2"})
    await policy(world, "reject")
    before = await world.digest("incoming_transaction", "incoming_open", "allocation")
    lines = [
        {"externalId": "c"},
        {"externalId": "d", "remittance": "INV-2"},
        {"externalId": "b", "remittance": "INV-2"},
    ]
    found = await upload(world, *lines)
    assert found["counts"] == {"records": 3, "accepted": 0, "duplicates": 1, "skipped": 0, "rejected": 2}
    assert [(e["code"], e["severity"]) for e in found["errors"]] == [("duplicate", "error")] * 2
    assert {e["line"] for e in found["errors"]} == {1, 2}
    assert await world.digest("incoming_transaction", "incoming_open", "allocation") == before
    # What is new is stored all the same, and two of one file are two.
    new = [{"externalId": name, "remittance": "INV-3"} for name in "ef"]
    found = await upload(world, *lines, *new)
    assert found["counts"] == {"records": 5, "accepted": 2, "duplicates": 1, "skipped": 0, "rejected": 2}
    assert await flags(world) == dict.fromkeys("abef")
    answer = await world.tenant.post(
        f"{PATH}/upload",
        [{**LINE, "externalId": "g"}, {**LINE, "remittance": "INV-4"}],
        params={"mode": "all_or_nothing"},
    )
    assert (answer.status_code, code(answer)) == (422, "validation_failed")
    assert await flags(world) == dict.fromkeys("abef")


async def test_a_booked_record_is_not_rejected_for_an_announced_one(world: World) -> None:
    await policy(world, "reject")
    assert (await post(world, externalId="a", status="pending")).status_code == 201
    found = await upload(world, {"externalId": "b"})
    assert found["counts"]["accepted"] == 1
    found = await upload(world, {"externalId": "c"})
    assert found["counts"]["rejected"] == 1


async def test_a_booking_is_never_refused_for_what_was_announced(world: World) -> None:
    await policy(world, "reject")
    assert (await post(world, externalId="a", status="pending")).status_code == 201
    assert (await post(world, externalId="b", status="pending")).status_code == 409
    assert (await post(world, externalId="c")).status_code == 201
    assert (await post(world, externalId="d", status="pending")).status_code == 409


async def test_of_many_at_once_one_is_stored_where_duplicates_are_refused(world: World) -> None:
    await policy(world, "reject")

    async def alone(number: int) -> int:
        return (await post(world, externalId=f"x{number}")).status_code

    async def among_many() -> int:
        [result] = await bulk(world, {})
        return int(result["status"])

    statuses = await asyncio.gather(*(alone(number) for number in range(8)), *(among_many() for _ in range(4)))
    assert Counter(statuses) == {201: 1, 409: 11}
