"""Locked periods: what keeps one from being locked, what counts from when afterwards, and what stays as it was."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from payrec.storage.period_locks import hold_periods
from support.account_lives import ACCOUNTS, DAYS, FIRST, PARTS, Oracle
from support.events import TOLD
from support.matching_world import World, matching_world
from support.period_lives import LOCKS, PeriodLife
from support.seeds import seeds
from support.service import Service, Tenant
from support.statements import IBAN, camt, message
from support.wire import add_user, code, fields, problem, until

pytestmark = pytest.mark.anyio

INCOMING = "/incoming-transactions"
STEPS, LOOKED_AT_EVERY = 20, 5
THROUGH, FIRST_OPEN = "2026-03-31", "2026-04-01"
RAW = {"Content-Type": "application/octet-stream"}
SILENT = ("audit_record", "change")
"""What whoever is refused writes nothing to."""


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made
        assert (await made.bystander.get(LOCKS)).json()["data"] == []


async def lock(who: World | Tenant, through: str = THROUGH, **given: Any) -> httpx2.Response:
    tenant = who.tenant if isinstance(who, World) else who
    return await tenant.post(LOCKS, {"through": through, "reason": "month end", **given})


async def locked(world: World, through: str = THROUGH, **given: Any) -> dict[str, Any]:
    answer = await lock(world, through, **given)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def statement(world: World, identifier: str, cut_off: str = THROUGH, **asked: str) -> dict[str, Any]:
    [account] = (await world.tenant.get("/accounts", params={"identifier": identifier})).json()["data"]
    answer = await world.tenant.get(f"/accounts/{account['id']}/reconciliation", params={"cutOff": cut_off, **asked})
    assert answer.status_code == 200, answer.text
    found = dict(answer.json())
    # What names the instant that was asked for.
    return {name: {**value, "url": None} if name in PARTS else value for name, value in found.items()}


async def by_hand(world: World, item: str, line: str, minor: int = 10_000, **given: Any) -> httpx2.Response:
    leg = {"expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": minor}
    return await world.tenant.post("/matches", {"legs": [leg], "reason": "by hand", **given})


async def matched(world: World, **line: Any) -> dict[str, Any]:
    answer = await by_hand(world, await world.expect(), await world.receive(**line))
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def told(world: World) -> list[tuple[str, str]]:
    rows = await world.sql(
        f"SELECT type, resource_id::text AS id FROM {TOLD} WHERE type LIKE 'period.%%' ORDER BY place"  # noqa: S608
    )
    return [(row["type"], row["id"]) for row in rows]


@pytest.mark.parametrize("seed", seeds(1, 3))
async def test_statements_of_locked_days_never_change(world: World, seed: int) -> None:
    await world.set(autoAccept=True)
    life = PeriodLife(world, seed)
    life.begin(lambda account, day: statement(world, account, day))
    for identifier in ACCOUNTS:
        assert (await world.tenant.post("/accounts", {"identifier": identifier, "currency": "EUR"})).status_code == 201
    instants = []
    for number in range(STEPS):
        await life.step()
        if number % LOOKED_AT_EVERY == 0:
            instants.append((datetime.now(UTC), [*life.frozen]))
            for frozen in life.chance.sample(life.frozen, min(2, len(life.frozen))):
                assert await statement(world, frozen.account, frozen.day) == frozen.said
    # What was added up when the days were locked is what history tells.
    await world.sql("UPDATE period_lock SET sums = '{}'")
    for frozen in life.frozen:
        assert frozen.said["lockedAt"] is not None
        assert await statement(world, frozen.account, frozen.day) == frozen.said
    # Nor when they are asked for as of an instant at which they were locked.
    for instant, then in instants[1:]:
        for frozen in life.chance.sample(then, min(1, len(then))):
            said = await statement(world, frozen.account, frozen.day, asOf=instant.isoformat())
            assert said == frozen.said
    # Where nothing is locked, statements are what the lists say, late lines and counter-decisions included.
    oracle = await Oracle.of(world)
    for name in ACCOUNTS:
        for day in (str(FIRST + timedelta(days=n)) for n in range(DAYS + 1)):
            if not life.locked(name, day):
                said = await statement(world, name, day)
                account = {"identifier": name, "openingOn": said["openingOn"]}
                assert {p: (said[p]["count"], said[p]["sumMinor"]) for p in PARTS} == oracle.statement(account, day)
                assert said["lockedAt"] is None


async def test_what_is_open_keeps_a_period_from_being_locked(world: World) -> None:
    gap = [message(camt(0, 10_000, 0, number=1)), message(camt(15_000, 16_000, 2, number=3))]
    for content in gap:
        assert (await world.tenant.post(f"{INCOMING}/upload", headers=RAW, content=content)).status_code == 201
    later = await world.receive(bookingDate=FIRST_OPEN, account=IBAN)
    await world.receive(account="OTHER", bookingDate="2026-03-15")
    digest = await world.digest(*SILENT, "period_lock")
    answer = await lock(world)
    assert (answer.status_code, code(answer)) == (409, "period_incomplete")
    assert await world.digest(*SILENT, "period_lock") == digest
    found = problem(answer)["incomplete"]
    assert {kind: (of["count"], len(of["first"])) for kind, of in found.items()} == {
        "openLines": (3, 3), "statementGaps": (1, 1), "pendingApprovals": (0, 0),
    }  # fmt: skip
    assert {line["account"] for line in found["openLines"]["first"]} == {IBAN, "OTHER"}
    assert later not in {line["incomingTransactionId"] for line in found["openLines"]["first"]}
    assert found["openLines"]["first"][0] == {
        "incomingTransactionId": found["openLines"]["first"][0]["incomingTransactionId"],
        "account": IBAN, "bookingDate": "2026-03-02", "openAmountMinor": 10_000, "currency": "EUR",
    }  # fmt: skip
    [hole] = found["statementGaps"]["first"]
    assert (hole["account"], hole["closedOn"], hole["statementIndex"]) == (IBAN, "2026-03-04", 0)
    assert problem(await lock(world, account="OTHER"))["incomplete"]["openLines"]["count"] == 1
    assert (await world.tenant.get(LOCKS)).json()["data"] == []
    # With open lines that were locked knowingly, and the gap of a locked period, the next one needs no more words.
    made = await locked(world, override=True)
    assert made["incomplete"] == {"openLines": 3, "statementGaps": 1, "pendingApprovals": 0}
    assert (made["override"], made["status"], made["account"]) == (True, "locked", None)
    found = problem(await lock(world, FIRST_OPEN))["incomplete"]
    assert (found["openLines"]["count"], found["statementGaps"]["count"]) == (4, 0)


async def test_a_match_that_waits_for_a_second_person_keeps_it_open(world: World) -> None:
    path = f"/tenants/{world.tenant.id}/settings"
    limit = {"approval": {"secondPersonAboveMinor": 1, "currency": "EUR"}}
    assert (await world.tenant.request("PATCH", path, json=limit)).status_code == 200
    match = await matched(world, account="GIRO")
    assert (match["status"], match["effectiveOn"]) == ("pending_approval", "2026-03-12")
    [waits] = problem(await lock(world, account="GIRO"))["incomplete"]["pendingApprovals"]["first"]
    assert waits == {"matchId": match["id"], "effectiveOn": "2026-03-12", "amountMinor": 10_000, "currency": "EUR"}
    await locked(world, override=True)
    said, midway = await statement(world, "GIRO"), await statement(world, "GIRO", "2026-03-15")
    # Who approves it then does so in the period that is open.
    _, user = await add_user(world.service, world.tenant, "approver")
    answer = await user.post(f"/matches/{match['id']}/approve", None)
    assert (answer.status_code, answer.json()["effectiveOn"]) == (200, FIRST_OPEN)
    assert await statement(world, "GIRO") == said
    # Nothing of the line itself has changed.
    assert await statement(world, "GIRO", "2026-03-15") == midway


async def test_locking_and_reopening_is_told_and_recorded(world: World) -> None:
    made = await locked(world)
    assert (await world.tenant.get(f"{LOCKS}/{made['id']}")).json() == made
    path = f"{LOCKS}/{made['id']}/reopen"
    answer = await world.tenant.post(path, {"reason": "a late invoice"}, headers={"If-Match": '"7"'})
    assert (answer.status_code, code(answer)) == (412, "version_mismatch")
    answer = await world.tenant.post(path, {"reason": "a late invoice"}, headers={"If-Match": '"1"'})
    found = answer.json()
    assert (answer.status_code, found["status"], found["version"]) == (200, "reopened", 2)
    assert (found["reopenReason"], found["reopenedBy"], found["lockedAt"]) == (
        "a late invoice", made["lockedBy"], made["lockedAt"],
    )  # fmt: skip
    answer = await world.tenant.post(path, {"reason": "again"})
    assert (answer.status_code, code(answer)) == (409, "invalid_state")
    for asked, ids in (({"status": "locked"}, []), ({"status": "reopened"}, [made["id"]]), ({"account": "GIRO"}, [])):
        assert [row["id"] for row in (await world.tenant.get(LOCKS, params=asked)).json()["data"]] == ids
    assert await told(world) == [("period.locked", made["id"]), ("period.reopened", made["id"])]
    rows = await world.sql("SELECT action, reason, before, after FROM audit_record WHERE action LIKE 'period.%%'")
    nothing = {"openLines": 0, "statementGaps": 0, "pendingApprovals": 0}
    assert [tuple(row.values()) for row in rows] == [
        ("period.locked", "month end", None,
         {"status": "locked", "through": THROUGH, "override": False, "incomplete": nothing}),
        ("period.reopened", "a late invoice", {"status": "locked"}, {"status": "reopened", "through": THROUGH}),
    ]  # fmt: skip
    # The other tenant neither sees nor opens it, and it binds nothing there.
    assert (await world.bystander.get(f"{LOCKS}/{made['id']}")).status_code == 404
    assert (await world.bystander.post(path, {"reason": "x"})).status_code == 404


async def test_what_cannot_be_locked(world: World) -> None:
    tomorrow = str(datetime.now(UTC).date() + timedelta(days=2))
    for given, wrong in (
        ({"through": tomorrow}, ("/through", "in_the_future")),
        ({"account": "NOBODY"}, ("/account", "unknown_account")),
        ({"through": "2026-02-30"}, ("/through", "date_invalid")),
        ({"reason": ""}, ("/reason", "too_short")),
        ({"override": "yes"}, ("/override", "bool_type")),
    ):
        answer = await lock(world, **given)
        assert (answer.status_code, {pointer for pointer, _ in fields(answer)}) == (422, {wrong[0]}), answer.text
        if wrong[0] != "/through" or wrong[1] == "in_the_future":
            assert fields(answer) == {wrong}
    _, operator = await add_user(world.service, world.tenant, "operator")
    assert code(await lock(operator)) == "insufficient_permission"
    await world.receive(account="GIRO", bookingDate="2026-04-02")
    every = await locked(world)
    for given in ({}, {"through": "2026-01-31"}, {"account": "GIRO"}):
        answer = await lock(world, **given)
        assert (answer.status_code, code(answer), problem(answer)["existingId"]) == (409, "period_locked", every["id"])
    await locked(world, FIRST_OPEN, account="GIRO")


async def test_decisions_count_from_the_first_open_day(world: World) -> None:
    item, line = await world.expect(), await world.receive(account="GIRO")
    fee, sums = await world.receive("5.00", account="GIRO"), await world.receive("7.00", account="GIRO")
    free = await world.receive("9.00", account="OTHER")
    proposal = (
        await world.expect(reference="INV-2026-001"),
        await world.receive(remittance="INV-2026-001", account="GIRO"),
    )
    await locked(world, account="GIRO", override=True)
    said = await statement(world, "GIRO")
    digest = await world.digest("allocation", "match", "leg", "audit_record")
    given: dict[str, Any] = {"effectiveOn": THROUGH}
    refused = [
        await by_hand(world, item, line, **given),
        await world.tenant.post(f"{INCOMING}/{fee}/ignore", {"reason": "small", **given}),
        await world.tenant.post(f"{INCOMING}/{fee}/classify", {"category": "fee", **given}),
    ]
    for answer in refused:
        assert (answer.status_code, code(answer)) == (409, "period_locked")
        assert problem(answer)["firstOpenOn"] == FIRST_OPEN
    early = {"reason": "small", "effectiveOn": "2026-03-11"}
    answer = await world.tenant.post(f"{INCOMING}/{free}/ignore", early)
    assert (answer.status_code, fields(answer)) == (422, {("/effectiveOn", "before_its_lines")})
    assert await world.digest("allocation", "match", "leg", "audit_record") == digest

    assert (await by_hand(world, item, line)).json()["effectiveOn"] == FIRST_OPEN
    ignored = await world.tenant.post(f"{INCOMING}/{fee}/ignore", {"reason": "small"})
    assert ignored.json()["effectiveOn"] == FIRST_OPEN
    classified = {"category": "fee", "effectiveOn": "2026-04-15"}
    assert (await world.tenant.post(f"{INCOMING}/{sums}/classify", classified)).json()["effectiveOn"] == "2026-04-15"
    other = await world.tenant.post(f"{INCOMING}/{free}/ignore", {"reason": "small"})
    assert other.json()["effectiveOn"] == "2026-03-12"
    # One that a run accepts, and one in bulk.
    await world.run()
    [match] = await world.matches(status="proposed")
    assert {leg["incomingTransactionId"] for leg in match["legs"]} == {proposal[1]}
    for body, status in (({"effectiveOn": THROUGH}, 409), ({}, 200)):
        [result] = (await world.tenant.post("/matches/accept", {"ids": [match["id"]], **body})).json()["results"]
        assert result["status"] == status, result
    assert [m["effectiveOn"] for m in await world.matches(status="accepted")] == [FIRST_OPEN] * 2
    assert await statement(world, "GIRO") == said
    now = await statement(world, "GIRO", FIRST_OPEN)
    assert [now[p]["count"] for p in ("allocated", "ignored", "classified", "open")] == [2, 1, 0, 1]
    assert (await statement(world, "GIRO", "2026-04-15"))["classified"]["count"] == 1


async def test_what_a_run_accepts_counts_from_the_first_open_day(world: World) -> None:
    rule = {"name": "fees", "priority": 1, "scope": {"textContains": ["account fee"]}, "classify": {"category": "fee"}}
    await world.set(autoAccept=True, rules=[rule])
    await world.receive(account="GIRO", bookingDate="2026-03-01")
    await locked(world, account="GIRO", override=True)
    said = await statement(world, "GIRO")
    for name, account, day in (("200", "GIRO", THROUGH), ("201", "GIRO", "2026-04-03"), ("202", "OTHER", THROUGH)):
        await world.expect(reference=f"INV-2026-{name}")
        await world.receive(remittance=f"INV-2026-{name}", account=account, bookingDate=day)
    fee = await world.receive("3.00", direction="debit", remittance="account fee", account="GIRO", bookingDate=THROUGH)
    run = await world.run()
    assert (run["counts"]["autoAccepted"], run["counts"]["classified"]) == (3, 1)
    assert (await world.incoming(fee))["effectiveOn"] == FIRST_OPEN
    found = {match["legs"][0]["incomingTransactionId"]: match["effectiveOn"] for match in await world.matches()}
    days = {(await world.incoming(line))["account"] + (await world.incoming(line))["bookingDate"]: day
            for line, day in found.items()}  # fmt: skip
    assert days == {f"GIRO{THROUGH}": FIRST_OPEN, "GIRO2026-04-03": "2026-04-03", f"OTHER{THROUGH}": THROUGH}
    assert await statement(world, "GIRO") == said


async def test_what_is_taken_back_of_a_locked_period_is_so_in_the_open_one(world: World) -> None:
    match = await matched(world, account="GIRO")
    fee = await world.receive("5.00", account="GIRO")
    assert (await world.tenant.post(f"{INCOMING}/{fee}/classify", {"category": "fee"})).status_code == 200
    await locked(world)
    said = await statement(world, "GIRO")
    assert [said[part]["count"] for part in ("allocated", "classified", "open")] == [1, 1, 0]
    path = f"/matches/{match['id']}/reverse"
    # It says by itself from which day on: another one the statements could not show.
    answer = await world.tenant.post(path, {"reason": "wrong", "effectiveOn": "2026-04-15"})
    assert fields(answer) == {("/effectiveOn", "extra_forbidden")}
    answer = await world.tenant.post(path, {"reason": "wrong"})
    assert (answer.json()["effectiveOn"], answer.json()["reversedOn"]) == ("2026-03-12", FIRST_OPEN)
    restored = await world.tenant.post(f"{INCOMING}/{fee}/restore", None)
    assert (restored.status_code, restored.json()["status"]) == (200, "unmatched")
    [state] = await world.sql("SELECT effective_on::text AS day FROM allocation WHERE transaction_id = %s", fee)
    assert state == {"day": FIRST_OPEN}
    assert await statement(world, "GIRO") == said
    assert len(await world.sql("SELECT 1 AS one FROM period_lock WHERE sums <> '{}'")) == 1
    await world.sql("UPDATE period_lock SET sums = '{}'")
    assert await statement(world, "GIRO") == said
    now = await statement(world, "GIRO", FIRST_OPEN)
    assert [now[part]["count"] for part in ("allocated", "classified", "open")] == [0, 0, 2]
    # As it was known before, it was not reversed.
    instant = said["lockedAt"]
    then = (await world.tenant.get(f"/matches/{match['id']}", params={"asOf": instant})).json()
    assert (then["status"], then["reversedOn"]) == ("accepted", None)


async def test_lines_that_come_late_are_flagged_and_leave_the_statement_as_it_is(world: World) -> None:
    announced = {"externalId": "T1", "direction": "credit", "amount": "4.00", "currency": "EUR", "account": "GIRO",
                 "bookingDate": "2026-03-30"}  # fmt: skip
    await world.upload([{**announced, "status": "pending"}])
    await world.receive(account="GIRO", bookingDate="2026-03-01")
    await locked(world, account="GIRO", override=True)
    said = await statement(world, "GIRO")
    money = {"direction": "credit", "amount": "1.00", "currency": "EUR", "account": "GIRO"}
    one = await world.receive("1.00", account="GIRO", bookingDate=THROUGH)
    await world.receive("1.00", account="GIRO", bookingDate=FIRST_OPEN)
    await world.receive("1.00", bookingDate=THROUGH)
    items = [{**money, "bookingDate": day, "externalId": f"B{day}"} for day in (THROUGH, FIRST_OPEN)]
    assert (await world.tenant.post(f"{INCOMING}/bulk", {"items": items})).status_code == 200
    await world.upload([{**money, "bookingDate": THROUGH, "externalId": "U1"}, announced])
    found = (await world.tenant.get(INCOMING, params={"late": "true"})).json()["data"]
    assert Counter(line["externalId"] for line in found) == Counter([None, f"B{THROUGH}", "U1", "T1"])
    others = (await world.tenant.get(INCOMING, params={"late": "false"})).json()["data"]
    assert not any(line["late"] for line in others)
    assert len(others) == 4
    assert await statement(world, "GIRO") == said
    assert (await by_hand(world, await world.expect(), one, 100)).json()["effectiveOn"] == FIRST_OPEN
    assert await statement(world, "GIRO") == said
    assert (await world.bystander.get(INCOMING, params={"late": "true"})).json()["data"] == []


async def test_what_the_books_say_of_a_locked_day_stays(world: World) -> None:
    await world.receive(account="GIRO")
    [account] = (await world.tenant.get("/accounts", params={"identifier": "GIRO"})).json()["data"]
    await locked(world, override=True)
    path = f"/accounts/{account['id']}/book-balances"
    digest = await world.digest(*SILENT, "book_balance")
    answer = await world.tenant.request("PUT", path, json={"on": THROUGH, "balanceMinor": 1})
    assert (answer.status_code, code(answer), problem(answer)["firstOpenOn"]) == (409, "period_locked", FIRST_OPEN)
    assert await world.digest(*SILENT, "book_balance") == digest
    answer = await world.tenant.request("PUT", path, json={"on": FIRST_OPEN, "balanceMinor": 1})
    assert answer.status_code == 200
    assert await world.sql("SELECT balance_on::text AS day FROM book_balance") == [{"day": FIRST_OPEN}]


async def test_of_many_who_lock_the_same_at_once_one_does(world: World) -> None:
    """Together with who decides and who stores lines, who all get an answer; and nothing counts from a locked day."""
    items = [await world.expect() for _ in range(5)]
    lines = [await world.receive(account="GIRO") for _ in range(5)]
    late = {"direction": "credit", "amount": "1.00", "currency": "EUR", "account": "GIRO", "bookingDate": THROUGH}
    answers = await asyncio.gather(
        *(lock(world, override=True) for _ in range(20)),
        *(by_hand(world, item, line) for item, line in zip(items, lines, strict=True)),
        *(world.tenant.post(INCOMING, late) for _ in range(5)),
    )
    assert Counter(answer.status_code for answer in answers[:20]) == {201: 1, 409: 19}
    assert {code(answer) for answer in answers[:20] if answer.status_code == 409} == {"period_locked"}
    assert {answer.status_code for answer in answers[20:]} == {201}
    query = """
        SELECT (h.at > p.locked_at) AS after, {what} AS moved FROM {table} t
        JOIN change h ON h.id = t.{change} CROSS JOIN period_lock p
    """
    for table, change, what in (
        ("match", "created_change_id", f"t.effective_on = '{FIRST_OPEN}'"),
        ("incoming_transaction", "change_id", "t.late"),
    ):
        found = await world.sql(query.format(table=table, change=change, what=what))
        assert all(row["after"] == row["moved"] for row in found), (table, found)


async def test_who_locks_waits_for_lines_that_are_being_stored(world: World) -> None:
    """Else one of them would come to a period that was locked before it was there, and not be late."""
    waits = "SELECT 1 AS one FROM pg_locks WHERE mode = 'ShareLock' AND relation = 'incoming_transaction'::regclass"

    async def waiting() -> bool | None:
        return bool(await world.sql(f"{waits} AND NOT granted")) or None

    async with world.service.factory.context.database.tenant(world.scope) as connection:
        await hold_periods(connection)
        locking = asyncio.create_task(lock(world))
        assert await until(waiting)
        assert not locking.done()
    assert (await locking).status_code == 201
