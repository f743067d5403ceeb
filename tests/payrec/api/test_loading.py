"""The two ways into the tables, straight and through temporary ones: both store the same, whoever else does so too."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

from payrec.services import ingestion
from payrec.storage.staging import Care, Staging
from support.service import Service, Tenant
from support.stored import PATH, clear, content, listed, upload
from support.wire import count

pytestmark = pytest.mark.anyio

ROUNDS = 12


@pytest.fixture(scope="module")
async def tenants(service: Service) -> tuple[Tenant, Tenant]:
    first, second = [await service.tenant(f"loading-{at}", environments=["production"]) for at in "ab"]
    return first, second


@pytest.fixture
async def tenant(service: Service, tenants: tuple[Tenant, Tenant]) -> Tenant:
    """The first of them, without rows."""
    for each in tenants:
        await clear(service, each)
    return tenants[0]


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return which way each piece goes; a piece has ten rows."""
    monkeypatch.setattr(ingestion, "PIECE_ROWS", 10)
    taken: list[str] = []
    for name in ("_copy", "_store"):
        way = getattr(Staging, name)

        async def watched(staging: Staging, *given: Any, name: str = name, way: Any = way) -> None:
            taken.append(name)
            await way(staging, *given)

        monkeypatch.setattr(Staging, name, watched)
    return taken


def lines(numbers: range, **more: Any) -> bytes:
    """Return records without ids."""
    entry = {"direction": "credit", "currency": "EUR", "bookingDate": "2026-03-10", "account": "A", **more}
    return b"\n".join(json.dumps({**entry, "amountMinor": n, "remittance": f"R-{n:05}"}).encode() for n in numbers)


async def test_new_rows_go_straight_in_and_only_pieces_with_known_ones_do_not(
    service: Service, tenants: tuple[Tenant, Tenant], tenant: Tenant, ways: list[str]
) -> None:
    await upload(tenant, lines(range(15, 18)))
    body = await upload(tenant, lines(range(1, 41)))
    assert ways == ["_copy", "_copy", "_store", "_copy", "_copy"]
    assert (body["counts"]["accepted"], body["counts"]["duplicates"]) == (37, 3)
    assert await count(service, tenant, "incoming_transaction") == await count(service, tenant, "incoming_open") == 40
    # The other tenant has none of them, so there all of it is new.
    await upload(tenants[1], lines(range(1, 41)))
    assert ways[5:] == ["_copy"] * 4
    assert await content(service, tenants[1]) == await content(service, tenant)


async def test_a_line_of_nothing_goes_straight_in_as_well(service: Service, tenant: Tenant, ways: list[str]) -> None:
    await upload(tenant, lines(range(3)))
    assert ways == ["_copy"]
    assert [(row["amountMinor"], row["status"]) for row in await listed(tenant)] == [
        (0, "ignored"), (1, "unmatched"), (2, "unmatched"),
    ]  # fmt: skip
    assert await count(service, tenant, "incoming_open") == 2


async def test_an_id_that_comes_twice_is_seen_before_the_database_refuses_it(tenant: Tenant, ways: list[str]) -> None:
    body = await upload(tenant, b"\n".join(lines(range(number, number + 1), externalId="X1") for number in (1, 1)))
    assert ways == ["_store"]
    assert (body["counts"]["accepted"], body["counts"]["duplicates"]) == (1, 1)


async def test_all_or_nothing_takes_back_what_went_straight_in(
    service: Service, tenant: Tenant, ways: list[str]
) -> None:
    data = lines(range(1, 41)) + b'\n{"amount": "x"}'
    answer = await tenant.post(PATH, files={"file": ("x", data), "mode": (None, "all_or_nothing")})
    assert (answer.status_code, ways) == (422, ["_copy"] * 4)
    assert await count(service, tenant, "incoming_transaction") == await count(service, tenant, "incoming_open") == 0


def files(chance: random.Random) -> list[bytes]:
    """Return a few files that have much in common: known by content and by id, pending and booked, and of nothing."""
    made = []
    for _ in range(3):
        records = []
        for _ in range(chance.randint(1, 25)):
            amount = chance.choice([0, 5, 5, 7])
            record: dict[str, Any] = {
                "direction": chance.choice(["credit", "debit"]),
                "amountMinor": amount,
                "currency": "EUR",
                "bookingDate": f"2026-03-{chance.randint(1, 4):02}",
                "remittance": chance.choice(["R-00001", "R-00002 a\tb", "x\\N"]),
            }
            if chance.random() < 0.6:
                record["externalId"] = f"X{chance.randint(1, 40)}"
            if chance.random() < 0.3:
                record["status"] = "pending"
            records.append(record)
        made.append(b"\n".join(json.dumps(record).encode() for record in records))
    return made


@pytest.mark.parametrize("seed", range(ROUNDS))
async def test_both_ways_store_the_same(
    service: Service,
    tenants: tuple[Tenant, Tenant],
    tenant: Tenant,
    ways: list[str],
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    given = files(random.Random(seed))  # noqa: S311 - the same in every run
    counts = [(await upload(tenant, data))["counts"] for data in given]
    assert "_copy" in ways
    ways.clear()
    monkeypatch.setattr("payrec.services.import_processing.Care", [Care.STAGED])
    assert [(await upload(tenants[1], data))["counts"] for data in given] == counts
    assert "_copy" not in ways
    assert await content(service, tenant) == await content(service, tenants[1])


async def test_rows_that_somebody_else_stores_meanwhile_are_not_doubled(
    service: Service, tenant: Tenant, ways: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await upload(tenant, lines(range(1, 31)))
    ways.clear()

    async def overlooked(*_: Any) -> bool:
        return True

    # As if they had been stored after the look: the tables themselves refuse them.
    monkeypatch.setattr(Staging, "_is_new", overlooked)
    body = await upload(tenant, lines(range(21, 41)))
    assert ways == ["_copy", "_store", "_store"]
    assert (body["counts"]["accepted"], body["counts"]["duplicates"]) == (10, 10)
    assert await count(service, tenant, "incoming_transaction") == await count(service, tenant, "incoming_open") == 40


async def test_the_same_rows_in_opposite_order_at_once_are_there_once(
    service: Service, tenant: Tenant, ways: list[str]
) -> None:
    data = [lines(numbers) for numbers in (range(1, 101), range(100, 0, -1), range(50, 151))]
    answers = await asyncio.gather(*(tenant.post(PATH, files={"file": ("x", one)}) for one in data))
    assert [answer.status_code for answer in answers] == [201] * 3
    assert sum(answer.json()["counts"]["accepted"] for answer in answers) == 150
    assert await count(service, tenant, "incoming_transaction") == await count(service, tenant, "incoming_open") == 150
    assert "_copy" in ways
