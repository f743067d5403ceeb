"""``asOf``: what the lists said at an instant they say again, whatever has happened since."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

import httpx2
import pytest

from payrec.storage.history import HISTORY_STEP, HistoryStore
from support.history import EXPECTED, INCOMING, MATCHES, Month, Recorder, instant, text_of
from support.matching_world import DEADLINE_SECONDS, HISTORY, World, matching_world
from support.service import Service, Tenant
from support.wire import code, fields

pytestmark = pytest.mark.anyio

SEED: Final = 20_260_309
STEPS: Final = 40
ROWS: Final = int(os.environ.get("PAYREC_HISTORY_ROWS", "60000"))
"""Of the file that is being stored while lists are read."""
RECORDED_MAX: Final = 8
"""Readings of the lists meanwhile that are compared."""


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def waits_for_its_end(world: World) -> None:
    """Wait until somebody would write the last statement of a change, which ``change`` is locked against."""
    loop = asyncio.get_running_loop()
    until = loop.time() + DEADLINE_SECONDS
    while not (
        await world.sql(
            "SELECT 1 AS one FROM pg_locks WHERE relation = 'change'::regclass AND NOT granted AND mode = %s",
            "RowExclusiveLock",
        )
    ):
        assert loop.time() < until
        await asyncio.sleep(0.02)


async def test_a_month_is_told_again_as_it_was(world: World) -> None:
    month, recorder = Month(world, random.Random(SEED)), Recorder(world)  # noqa: S311 - a seed, no secret
    await recorder.record()
    await month.begin(recorder.record)
    await recorder.record()
    for number in range(STEPS):
        await month.step()
        if number % 2:
            await recorder.record()
    assert len(recorder.instants) > 20
    # A file that is being stored is not there yet, however much of it is written.
    lines = [
        {
            "direction": "credit",
            "currency": "EUR",
            "bookingDate": "2026-03-14",
            "amount": "7.00",
            "externalId": f"x-{n}",
        }
        for n in range(500)
    ]
    async with world.service.factory.context.database.tenant(world.scope) as connection:
        await connection.execute(b"LOCK TABLE change IN SHARE MODE")
        uploading = asyncio.create_task(world.tenant.post(f"{INCOMING}/upload", lines))
        try:
            await waits_for_its_end(world)
            await recorder.record()
        except BaseException:
            uploading.cancel()
            with suppress(asyncio.CancelledError):
                await uploading
            raise
    assert (await uploading).json()["counts"]["accepted"] == len(lines)
    await month.run()
    await recorder.record()
    states = await world.sql(
        "SELECT (SELECT count(*) FROM stated_row) AS stated, (SELECT count(*) FROM open_reason_state) AS reasons,"
        " (SELECT count(*) FROM reversal_link) AS returned"
    )
    await recorder.compare()
    assert all(states[0].values()), states
    assert recorder.statuses() >= {"proposed", "accepted", "rejected", "superseded", "reversed"}


async def test_a_large_file_is_not_there_until_all_of_it_is(world: World) -> None:
    await paid(world)
    rows = [f"2026-03-14;7.{n % 100:02};EUR;line {n}" for n in range(ROWS)]
    text = "\n".join(["Booking date;Amount;Currency;Remittance", *rows, ""]).encode()
    recorder, meanwhile = Recorder(world), 0
    uploading = asyncio.create_task(world.tenant.post(f"{INCOMING}/upload", files={"file": ("large.csv", text)}))
    found = {"status": "processing"}
    while found["status"] == "processing":
        # As autovacuum may at any time: it finds a table of two rows, however large that is by now.
        await world.sql("ANALYZE incoming_transaction, incoming_open")
        before, known = await changes(world), len(recorder.said)
        await recorder.record()
        if await changes(world) != before or meanwhile == RECORDED_MAX:
            # Something was stored while the lists were read, so they are not of one instant; or it takes very long.
            del recorder.said[known:]
        else:
            meanwhile += 1
        if uploading.done():
            found = (await world.tenant.get(f"/imports/{uploading.result().json()['id']}")).json()
    assert found["counts"]["accepted"] == ROWS, found
    assert meanwhile > 0
    await recorder.record()
    await recorder.compare()
    counts = [
        sum(line["open"]["count"] for line in json.loads(said)["lines"] if line["side"] == "incoming")
        for _, _, path, _, said in recorder.said
        if path == "/reports/exceptions"
    ]
    assert {0, ROWS} == set(counts), counts


async def changes(world: World) -> int:
    [row] = await world.sql("SELECT count(*) AS count FROM change")
    return int(row["count"])


async def paid(world: World) -> tuple[str, str, str]:
    """Return an item, its payment and the accepted match, each made at an instant of its own."""
    item = await world.expect("100.00", reference="INV-2026-001", counterpartyName="Bolt GmbH")
    payment = await world.receive("100.00", remittance="INV-2026-001", counterpartyName="Bolt GmbH")
    await world.run()
    match = await world.proposal()
    assert (await world.accept(match)).status_code == 200
    return item, payment, match["id"]


async def test_what_was_not_there_yet_is_not_found(world: World) -> None:
    before = await instant(world)
    ends = await paid(world)
    after = await instant(world)
    for path, found in zip((EXPECTED, INCOMING, MATCHES), ends, strict=True):
        answer = await world.tenant.get(f"{path}/{found}", params={"asOf": before})
        assert (answer.status_code, code(answer)) == (404, "not_found")
        empty = await text_of(world.tenant, path, asOf=before)
        assert json.loads(empty) == {"data": [], "hasMore": False, "nextCursor": None}
        now = await world.tenant.get(f"{path}/{found}")
        then = await world.tenant.get(f"{path}/{found}", params={"asOf": after})
        assert (then.text, then.headers["ETag"]) == (now.text, now.headers["ETag"])


async def test_what_one_tenant_did_is_no_history_of_another(world: World) -> None:
    ends = await paid(world)
    at = await instant(world)
    for path, found in zip((EXPECTED, INCOMING, MATCHES), ends, strict=True):
        answer = await world.bystander.get(f"{path}/{found}", params={"asOf": at})
        assert (answer.status_code, code(answer)) == (404, "not_found")
    [item] = (await world.bystander.get(EXPECTED, params={"asOf": at})).json()["data"]
    assert item["status"] == "open"


async def test_pages_of_an_instant_follow_each_other_whatever_happens_between(world: World) -> None:
    for number in range(5):
        await world.expect(f"{number % 3 + 1}0.00", reference=f"INV-{number}")
    at = await instant(world)
    for sort in ("-createdAt", "amountMinor", "-dueDate"):
        whole = (await world.tenant.get(EXPECTED, params={"sort": sort, "asOf": at})).json()["data"]
        found, cursor = [], None
        while True:
            more: dict[str, str] = {"cursor": cursor} if cursor else {}
            page = (await world.tenant.get(EXPECTED, params={"sort": sort, "limit": 2, "asOf": at, **more})).json()
            found += page["data"]
            await world.tenant.request("PATCH", f"{EXPECTED}/{whole[-1]['id']}", json={"amount": f"{len(found)}.00"})
            await world.expect("20.00")
            cursor = page["nextCursor"]
            if not page["hasMore"]:
                break
        assert found == whole
        assert len(found) == 5


async def test_a_cursor_is_good_for_its_instant_only(world: World) -> None:
    for _ in range(3):
        await world.expect()
    at = await instant(world)
    page = (await world.tenant.get(EXPECTED, params={"limit": 1, "asOf": at})).json()
    for other in ({}, {"asOf": await instant(world)}):
        answer = await world.tenant.get(EXPECTED, params={"limit": 1, "cursor": page["nextCursor"], **other})
        assert (answer.status_code, code(answer)) == (400, "invalid_cursor")


async def refused(world: World, at: str) -> list[httpx2.Response]:
    ends = [f"{path}/019ce000-0000-7000-8000-000000000001" for path in (EXPECTED, INCOMING, MATCHES)]
    return [await world.tenant.get(path, params={"asOf": at}) for path in (EXPECTED, INCOMING, MATCHES, *ends)]


async def test_an_instant_of_which_nothing_can_be_told_is_refused(world: World) -> None:
    [row] = await world.sql("SELECT begun_at, clock_timestamp() AS now FROM history_span")
    begun: datetime = row["begun_at"]
    for at in (row["now"] + timedelta(hours=1), begun - timedelta(microseconds=1)):
        for answer in await refused(world, at.isoformat()):
            assert (answer.status_code, code(answer)) == (422, "as_of_out_of_range")
    for at in ("yesterday", "2026-03-12", "2026-03-12T10:00:00", ""):
        for answer in await refused(world, at):
            assert (answer.status_code, code(answer)) == (422, "validation_failed")
            assert fields(answer) == {("asOf", "timestamp_malformed")}
    assert (await world.tenant.get(EXPECTED, params={"asOf": begun.isoformat()})).json()["data"] == []


@pytest.mark.parametrize("name", ["expectedFilter", "incomingFilter"])
async def test_a_run_looks_at_the_present(world: World, name: str) -> None:
    answer = await world.tenant.post("/matches/match", {name: {"asOf": await instant(world)}})
    assert (answer.status_code, fields(answer)) == (422, {(f"/{name}/asOf", "extra_forbidden")})


async def test_what_is_too_old_goes_and_is_told_no_more(world: World) -> None:
    month, recorder = Month(world, random.Random(SEED)), Recorder(world)  # noqa: S311 - a seed, no secret
    await recorder.record()
    await month.begin(recorder.record)
    await month.patch()
    await recorder.record()
    first, begun = recorder.instants[0], datetime.fromisoformat(recorder.instants[5])
    counts = [f"(SELECT count(*) FROM {table})" for table in HISTORY]  # noqa: S608 - our own names
    count = f"SELECT {' + '.join(counts)} AS states"
    [before] = await world.sql(count)
    gone = 0
    database = world.service.factory.context.database
    async with database.tenant(world.scope) as connection:
        store = HistoryStore(connection)
        assert await store.begins_before(begun) is False
        assert await store.begins_before(begun + HISTORY_STEP * 2) is True
        while removed := (await store.drop_states(before=begun, limit=2)).count:
            gone += removed
    try:
        assert await world.sql(count) == [{"states": before["states"] - gone}]
        assert gone > 0
        for answer in await refused(world, first):
            assert (answer.status_code, code(answer)) == (422, "as_of_out_of_range")
        recorder.said = [
            (at, tenant, path, parameters, said)
            for at, tenant, path, parameters, said in recorder.said
            if datetime.fromisoformat(at) >= begun
        ]
        await recorder.compare()
    finally:
        await world.sql("UPDATE history_span SET begun_at = %s", datetime.fromisoformat(first))
