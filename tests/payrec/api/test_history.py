"""``asOf``: what the lists said at an instant they say again, whatever has happened since."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import httpx2
import pytest

from payrec.storage.history import HISTORY_STEP, HistoryStore
from support.matching_world import DEADLINE_SECONDS, HISTORY, World, matching_world
from support.service import Service, Tenant
from support.wire import code, fields

pytestmark = pytest.mark.anyio

SEED: Final = 20_260_309
STEPS: Final = 40
CURSOR: Final = re.compile(r',"nextCursor":"[^"]*"')
"""What of a page is good for its own instant only."""
EXPECTED, INCOMING, MATCHES = "/expected-transactions", "/incoming-transactions", "/matches"
LISTS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    (EXPECTED, {}),
    (EXPECTED, {"status": "open", "sort": "dueDate"}),
    (EXPECTED, {"status": "void"}),
    (EXPECTED, {"overdue": True, "sort": "-amountMinor"}),
    (EXPECTED, {"q": "INV-3"}),
    (INCOMING, {}),
    (INCOMING, {"status": "unmatched", "sort": "bookingDate"}),
    (INCOMING, {"status": "pending"}),
    (INCOMING, {"reasonCode": "no_candidate", "sort": "amountMinor"}),
    (INCOMING, {"counterparty": "bolt", "sort": "-bookingDate"}),
    (MATCHES, {}),
    (MATCHES, {"status": "proposed", "sort": "createdAt"}),
    (MATCHES, {"status": "superseded"}),
)


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def instant(world: World) -> str:
    """Return an instant after all changes that there are."""
    rows = await world.sql("SELECT clock_timestamp() AS at, (SELECT max(at) FROM change) AS last")
    assert rows[0]["last"] is None or rows[0]["last"] < rows[0]["at"]
    return str(rows[0]["at"].isoformat())


async def text_of(tenant: Tenant, path: str, **parameters: Any) -> str:
    answer = await tenant.get(path, params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.text


@dataclass(slots=True)
class Recorder:
    """What the lists of both tenants said, at which instant."""

    world: World
    said: list[tuple[str, Tenant, str, dict[str, Any], str]] = field(default_factory=list)
    instants: list[str] = field(default_factory=list)

    async def record(self) -> None:
        at = await instant(self.world)
        self.instants.append(at)
        for path, parameters in LISTS:
            given = {"limit": 200, **parameters}
            await self._record(at, self.world.tenant, path, given)
        await self._record(at, self.world.bystander, INCOMING, {"limit": 200})
        for path in (EXPECTED, INCOMING, MATCHES):
            page = (await self.world.tenant.get(path, params={"limit": 3})).json()
            for item in page["data"]:
                await self._record(at, self.world.tenant, f"{path}/{item['id']}", {})

    async def _record(self, at: str, tenant: Tenant, path: str, parameters: dict[str, Any]) -> None:
        self.said.append((at, tenant, path, parameters, await text_of(tenant, path, **parameters)))

    def statuses(self) -> set[str]:
        """Return the statuses that matches have had."""
        lists = [json.loads(said) for _, _, path, parameters, said in self.said if path == MATCHES and parameters]
        return {match["status"] for found in lists for match in found["data"]}

    async def compare(self) -> None:
        for at, tenant, path, parameters, said in self.said:
            found = await text_of(tenant, path, asOf=at, **parameters)
            assert CURSOR.sub("", found) == CURSOR.sub("", said), (path, parameters, at)


@dataclass(slots=True)
class Month:
    """Somebody at work for a month, as a seed says."""

    world: World
    chance: random.Random
    count: int = 0
    payments: list[str] = field(default_factory=list)

    async def begin(self, record: Callable[[], Awaitable[None]]) -> None:
        """Do what a seed may leave out."""
        for name in ("INV-A", "INV-B", "INV-C"):
            await self.world.expect("50.00", reference=name, counterpartyName="Bolt GmbH")
            line = {"remittance": name, "endToEndId": f"E-{name}", "counterpartyName": "Bolt GmbH"}
            self.payments.append(await self.world.receive("50.00", **line))
        await self.world.set(autoAccept=False)
        for done in (self.world.run, self.accept, self.reject, self.reverse, self.world.run, self.accept):
            await done()
            await record()
        for _ in self.payments:
            await self.give_back()

    async def step(self) -> None:
        """Do one thing; what is refused changes nothing."""
        done: Callable[[], Awaitable[None]] = self.chance.choices(
            (self.expect, self.receive, self.run, self.accept, self.reject, self.reverse, self.give_back, self.patch,
             self.void, self.ignore, self.restore, self.announce, self.repeat),
            (6, 6, 9, 5, 5, 3, 3, 4, 2, 3, 2, 3, 2),
        )[0]  # fmt: skip
        await done()

    async def expect(self) -> None:
        self.count += 1
        amount = self.chance.choice(("10.00", "20.00", "30.00"))
        name = self.chance.choice(("Bolt GmbH", "Nut AG"))
        due = self.chance.choice(("2026-03-10", "2026-03-11", None))
        await self.world.expect(amount, reference=f"INV-{self.count:04}", counterpartyName=name, dueDate=due)

    async def receive(self) -> None:
        amount = self.chance.choice(("10.00", "20.00", "30.00"))
        quoted = self.chance.randint(1, max(self.count, 1))
        fields = {"remittance": f"INV-{quoted:04}", "endToEndId": f"E-{self.world.received}"}
        self.payments.append(await self.world.receive(amount, counterpartyName="Bolt GmbH", **fields))

    async def run(self) -> None:
        automatic = self.chance.random() < 0.4
        await self.world.set(autoAccept=automatic)
        await self.world.run()

    async def accept(self) -> None:
        await self._decide("proposed", "accept", None)

    async def reject(self) -> None:
        await self._decide("proposed", "reject", {"reason": "another invoice"})

    async def reverse(self) -> None:
        await self._decide("accepted", "reverse", {"reason": "wrong"})

    async def give_back(self) -> None:
        if not self.payments:
            return
        payment = await self.world.incoming(self.chance.choice(self.payments))
        back = {"direction": "debit", "bookingDate": "2026-03-20", "bankTransactionCode": "PMNT-RCDT-RRTN"}
        line = await self.world.receive(payment["amount"], endToEndId=payment["endToEndId"], **back)
        answer = await self.world.tenant.post(
            f"{INCOMING}/{line}/link-reversal", {"incomingTransactionId": payment["id"]}
        )
        assert answer.status_code in {200, 409, 422}, answer.text

    async def patch(self) -> None:
        item = await self._one(EXPECTED)
        if item is not None:
            given = {"description": f"note {self.count}"} if self.chance.random() < 0.5 else {"dueDate": "2026-04-01"}
            await self.world.tenant.request("PATCH", f"{EXPECTED}/{item}", json=given)

    async def void(self) -> None:
        await self._ask(EXPECTED, "void", {"reason": "cancelled"})

    async def ignore(self) -> None:
        verb = self.chance.choice(("ignore", "classify"))
        await self._ask(INCOMING, verb, {"reason": "ours"} if verb == "ignore" else {"category": "fee"})

    async def restore(self) -> None:
        await self._ask(INCOMING, "restore", None, status=self.chance.choice(("ignored", "classified")))

    async def announce(self) -> None:
        """Announce a line, and book it at another time under the same id."""
        self.count += 1
        line = {"direction": "credit", "currency": "EUR", "bookingDate": "2026-03-12", "amount": "10.00"}
        line |= {"externalId": f"line-{self.chance.randint(1, 6)}", "remittance": f"INV-{self.count:04}"}
        status = self.chance.choice(("pending", "booked"))
        await self.world.upload([{**line, "status": status}])

    async def repeat(self) -> None:
        """State the same content under another id: one of them is a duplicate."""
        line = {"direction": "credit", "currency": "EUR", "bookingDate": "2026-03-13", "amount": "10.00"}
        self.count += 1
        await self.world.upload([{**line, "remittance": "INV-0001 again", "externalId": f"again-{self.count}"}])

    async def _one(self, path: str, **parameters: Any) -> str | None:
        found = (await self.world.tenant.get(path, params={"limit": 200, **parameters})).json()["data"]
        return str(self.chance.choice(found)["id"]) if found else None

    async def _decide(self, status: str, verb: str, body: Any) -> None:
        await self._ask(MATCHES, verb, body, status=status)

    async def _ask(self, path: str, verb: str, body: Any, **parameters: Any) -> None:
        found = await self._one(path, **parameters)
        if found is not None:
            answer = await self.world.tenant.post(f"{path}/{found}/{verb}", body)
            assert answer.status_code in {200, 409, 422}, answer.text


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
