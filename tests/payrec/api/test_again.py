"""Again and again: whatever was uploaded before, in whatever order and pieces, the same rows are there at the end."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import random
from typing import Any

import pytest

from payrec.errors import UnreadableFileError
from payrec.formats.registry import parse
from payrec.services import ingestion
from support.cutting import Halves, halves
from support.samples import options_of, requires_samples, sample, truth
from support.service import Service, Tenant
from support.stored import PATH, clear, content, listed, upload
from support.wire import count

pytestmark = pytest.mark.anyio

READABLE = [known for known in truth() if known["outcome"] == "read"]
DRAWS_MAX = 50
"""Cuts that are tried until both halves can be read: half a table may leave the order of day and month open."""


@pytest.fixture(scope="module")
async def tenants(service: Service) -> tuple[Tenant, Tenant]:
    """A tenant that everything is uploaded to, and one that nothing is."""
    first, second = [await service.tenant(f"again-{at}", environments=["production"]) for at in "ab"]
    return first, second


@pytest.fixture
async def tenant(service: Service, tenants: tuple[Tenant, Tenant]) -> Tenant:
    """The first of them, without rows."""
    await clear(service, tenants[0])
    return tenants[0]


def given(known: dict[str, Any]) -> dict[str, str]:
    """Return the options of a sample as a form has them."""
    options = options_of(known)
    found = {"currency": options.currency, "account": options.account, "dateOrder": options.date_order}
    profile = {"profile": json.dumps(dict(options.profile))} if options.profile else {}
    return {**{key: value for key, value in found.items() if value is not None}, **profile}


def cut(data: bytes, known: dict[str, Any], chance: random.Random) -> Halves:
    """Cut a sample at places that leave two files that can be read."""
    options = options_of(known)
    for _ in range(DRAWS_MAX):
        found = halves(data, options, begin=chance.uniform(0, 0.8), end=chance.uniform(0.3, 1))
        try:
            for half in (found.first, found.second):
                list(parse(io.BytesIO(half), name="x", options=options, monotonic=lambda: 0.0))
        except UnreadableFileError:
            continue
        return found
    raise AssertionError("no cut leaves two files that can be read")


@requires_samples
@pytest.mark.parametrize("known", READABLE, ids=lambda known: known["file"])
async def test_again_in_pieces_and_in_any_order_leaves_the_same_rows(
    service: Service, tenants: tuple[Tenant, Tenant], tenant: Tenant, known: dict[str, Any]
) -> None:
    chance = random.Random(known["file"])  # noqa: S311 - the same order in every run
    whole, options = sample(known["file"]), given(known)
    await upload(tenant, whole, **options)
    expected = await content(service, tenant)
    # No sample has a transaction twice that is not two: twins stay as many as are known of it.
    assert expected.total() == sum(statement["transactionCount"] for statement in known["statements"])
    for is_whole_among_them in (False, True):
        pieces = cut(whole, known, chance)
        files = [("first", pieces.first), ("second", pieces.second)]
        if is_whole_among_them:
            files += [("whole", whole), ("renamed", whole)]
            files += [] if whole.startswith((b"\x1f\x8b", b"PK")) else [("packed", gzip.compress(whole))]
        files.append(chance.choice(files))
        chance.shuffle(files)
        await clear(service, tenant)
        for name, data in files:
            await upload(tenant, data, name, **options)
        assert await content(service, tenant) == expected, ([name for name, _ in files], pieces.counts)
    assert await count(service, tenants[1], "incoming_transaction") == 0


def lines(numbers: range, *, twins: int = 1) -> bytes:
    """Return records without ids, each so many times."""
    entry = {"direction": "credit", "currency": "EUR", "bookingDate": "2026-03-10", "account": "A"}
    records = [{**entry, "amountMinor": number, "remittance": f"R{number}"} for number in numbers for _ in range(twins)]
    return b"\n".join(json.dumps(record).encode() for record in records)


async def test_the_same_file_twenty_times_at_once_is_one_import(
    service: Service, tenants: tuple[Tenant, Tenant], tenant: Tenant
) -> None:
    data = lines(range(1, 101), twins=2)
    answers = await asyncio.gather(*(tenant.post(PATH, files={"file": (f"{n}", data)}) for n in range(20)))
    assert {answer.status_code for answer in answers} <= {200, 201, 202}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert await count(service, tenant, "import") == 1
    assert await count(service, tenant, "incoming_transaction") == 200
    assert {row["reasonCode"] for row in await listed(tenant)} == {None}
    assert await count(service, tenants[1], "incoming_transaction") == 0


async def test_overlapping_files_at_once_double_nothing_and_lose_nothing(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Small pieces in opposite orders: uploads wait for each other's rows, in a circle.
    monkeypatch.setattr(ingestion, "PIECE_ROWS", 40)
    forwards = [range(1, 401), range(201, 601)]
    files = [lines(numbers, twins=2) for numbers in forwards]
    files += [lines(numbers[::-1], twins=2) for numbers in forwards]
    answers = await asyncio.gather(*(tenant.post(PATH, files={"file": ("x", data)}) for data in files))
    assert [answer.status_code for answer in answers] == [201] * 4
    accepted = sum(answer.json()["counts"]["accepted"] for answer in answers)
    stored = await content(service, tenant)
    assert accepted == stored.total() == len(stored) == 1200
    assert await count(service, tenant, "incoming_open") == 1200
    await clear(service, tenant)
    for data in (lines(range(1, 601), twins=2), files[1]):
        await upload(tenant, data)
    assert await content(service, tenant) == stored
