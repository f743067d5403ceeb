"""Decisions beyond a limit: they have their amounts, and wait for a second person."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from support.events import TOLD
from support.matching_world import DECISIONS, World, matching_world
from support.service import Service, Tenant
from support.wire import add_key, add_user, ask, code, fields

pytestmark = pytest.mark.anyio

OPEN = ("expected_open", "incoming_open")
FEES = {"role": "admin", "adjustmentType": "fee", "maxMinor": 1, "currency": "EUR"}


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made
        await limit(made, None)


async def limit(world: World, above: int | None = 10_000, **approval: Any) -> None:
    """Set who approves, in place of all that was set before."""
    path = f"/tenants/{world.tenant.id}/settings"
    given = None if above is None and not approval else {"secondPersonAboveMinor": above, "currency": "EUR", **approval}
    for body in ({"approval": None}, {"approval": given}):
        assert (await world.tenant.request("PATCH", path, json=body)).status_code == 200


async def second(world: World, *roles: str) -> Tenant:
    """Return the tenant as another user sees it."""
    _, user = await add_user(world.service, world.tenant, *(roles or ("approver",)))
    return user


async def proposed(world: World, amount: str = "100.01", name: str = "INV-2026-001", **fields: Any) -> dict[str, Any]:
    await world.expect(amount, reference=name, counterpartyName="Bolt GmbH")
    await world.receive(amount, remittance=name, counterpartyName="BOLT", **fields)
    await world.run()
    [match] = [m for m in await world.matches(status="proposed") if m["amount"] == amount]
    return match


async def waiting(world: World) -> dict[str, Any]:
    """Return a match that the administrator has accepted beyond the limit."""
    await limit(world)
    answer = await world.accept(await proposed(world))
    assert (answer.status_code, answer.json()["status"]) == (200, "pending_approval"), answer.text
    found: dict[str, Any] = answer.json()
    return found


async def approve(who: Tenant, match: dict[str, Any], body: Any = None, **headers: str) -> httpx2.Response:
    return await who.post(f"/matches/{match['id']}/approve", body, headers=headers)


async def as_key(world: World, method: str, path: str, key: dict[str, Any], **options: Any) -> httpx2.Response:
    headers = {"X-Tenant-Id": world.tenant.id, "X-Environment": "production", "X-Api-Key": key["apiKey"]}
    return await ask(world.tenant, method, path, headers, **options)


async def told(world: World) -> list[str]:
    rows = await world.sql(f"SELECT type FROM {TOLD} WHERE type LIKE 'match.%%' ORDER BY place, type")  # noqa: S608 - ours
    return [row["type"] for row in rows]


async def test_what_is_beyond_waits_with_its_amounts_until_another_user_approves(world: World) -> None:
    match = await waiting(world)
    [leg] = match["legs"]
    item, line = await world.expected(leg["expectedTransactionId"]), await world.incoming(leg["incomingTransactionId"])
    assert {(t["status"], t["openAmountMinor"]) for t in (item, line)} == {("matched", 0)}
    assert await world.sql("SELECT 1 FROM expected_open UNION ALL SELECT 1 FROM incoming_open") == []
    assert [m["id"] for m in await world.matches(status="pending_approval")] == [match["id"]]
    # Neither who has decided, nor a key of theirs, nor a decision of another kind.
    key = await add_key(world.tenant)
    digest = await world.digest(*DECISIONS)
    path = f"/matches/{match['id']}"
    for answer in (await approve(world.tenant, match), await as_key(world, "POST", f"{path}/approve", key)):
        assert (answer.status_code, code(answer)) == (403, "second_approver_required")
    for answer in (await world.accept(match), await world.tenant.post(f"{path}/reverse", {"reason": "x"})):
        assert (answer.status_code, code(answer)) == (409, "invalid_state")
    user = await second(world)
    assert code(await approve(user, match, **{"If-Match": '"999"'})) == "version_mismatch"
    assert code(await approve(await second(world, "operator"), match)) == "insufficient_permission"
    assert await world.digest(*DECISIONS) == digest
    answer = await approve(user, match, {"reason": "seen the contract"}, **{"If-Match": f'"{match["version"]}"'})
    found = answer.json()
    assert (answer.status_code, found["status"], found["version"]) == (200, "accepted", match["version"] + 1)
    assert found["decidedBy"].startswith("user:")
    assert found["decidedBy"] != match["decidedBy"]
    assert (found["decisionReason"], found["effectiveOn"]) == ("seen the contract", match["effectiveOn"])
    assert await told(world) == ["match.proposed", "match.pending_approval", "match.approved", "match.accepted"]
    record = "SELECT before, after FROM audit_record WHERE action = 'match.approved'"
    assert await world.sql(record) == [
        {
            "before": {"status": "pending_approval", "decidedBy": match["decidedBy"]},
            "after": {"status": "accepted", "amountMinor": 10_001},
        }
    ]
    assert code(await approve(user, match)) == "invalid_state"
    instants = """
        SELECT c.at FROM change c JOIN audit_record r ON r.change_id = c.id
        WHERE r.action IN ('match.pending_approval', 'match.approved') ORDER BY c.at
    """
    at = [row["at"].isoformat() for row in await world.sql(instants)]
    then = [(await world.tenant.get(path, params={"asOf": instant})).json()["status"] for instant in at]
    assert then == ["pending_approval", "accepted"]
    assert (await user.post(f"{path}/reverse", {"reason": "wrong"})).json()["status"] == "reversed"


async def test_the_limit_itself_needs_nobody(world: World) -> None:
    await limit(world)
    answer = await world.accept(await proposed(world, "100.00"))
    assert answer.json()["status"] == "accepted"
    assert code(await approve(await second(world), answer.json())) == "invalid_state"


async def test_of_approvals_at_once_one_has_an_effect(world: World) -> None:
    match = await waiting(world)
    users = [await second(world) for _ in range(4)]
    answers = await asyncio.gather(*(approve(users[n % 4], match) for n in range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 19
    assert (await told(world)).count("match.accepted") == 1


async def test_approving_and_rejecting_at_once_leave_one_decision(world: World) -> None:
    match = await waiting(world)
    users = [await second(world) for _ in range(4)]
    path = f"/matches/{match['id']}"
    verbs = ("approve", "reject") * 4
    answers = await asyncio.gather(*(users[n % 4].post(f"{path}/{verb}") for n, verb in enumerate(verbs)))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 7
    [won] = [answer.json()["status"] for answer in answers if answer.status_code == 200]
    left = await world.sql("SELECT sum(allocated_minor)::int AS minor FROM allocation")
    assert left == [{"minor": 20_002 if won == "accepted" else 0}]


@pytest.mark.parametrize("many", [False, True])
async def test_rejecting_gives_the_amounts_back_and_is_remembered(world: World, *, many: bool) -> None:
    await limit(world)
    match = await proposed(world)
    before = await world.digest(*OPEN)
    assert (await world.accept(match)).json()["status"] == "pending_approval"
    if many:
        other = await proposed(world, "20.00", "INV-2026-077")
        ids = [match["id"], other["id"], match["id"]]
        results = (await world.tenant.post("/matches/reject", {"ids": ids})).json()["results"]
        assert [result["status"] for result in results] == [200, 200, 409]
    else:
        assert (await world.tenant.post(f"/matches/{match['id']}/reject")).json()["status"] == "rejected"
        assert await world.digest(*OPEN) == before
    assert await world.sql("SELECT sum(allocated_minor)::int AS minor FROM allocation") == [{"minor": 0}]
    record = "SELECT before->>'status' AS status FROM audit_record WHERE action = 'match.rejected' AND resource_id = %s"
    assert await world.sql(record, match["id"]) == [{"status": "pending_approval"}]
    assert (await world.run())["counts"]["proposed"] == 0
    assert code(await approve(await second(world), match)) == "invalid_state"


async def test_many_at_once_wait_each_by_its_amount(world: World) -> None:
    await limit(world)
    pairs = [("100.00", "INV-2026-100"), ("100.01", "INV-2026-101"), ("250.00", "INV-2026-102")]
    matches = [await proposed(world, amount, name) for amount, name in pairs]
    answer = await world.tenant.post("/matches/accept", {"ids": [match["id"] for match in matches]})
    assert [result["status"] for result in answer.json()["results"]] == [200] * 3
    by_id = {match["id"]: match["status"] for match in await world.matches()}
    assert [by_id[m["id"]] for m in matches] == ["accepted", "pending_approval", "pending_approval"]
    assert (await told(world))[3:] == ["match.accepted", "match.pending_approval", "match.pending_approval"]


async def test_what_a_run_would_accept_waits_for_any_user(world: World) -> None:
    await limit(world)
    await world.set(autoAccept=True)
    for amount, name in (("100.00", "INV-2026-200"), ("100.01", "INV-2026-201")):
        await world.expect(amount, reference=name)
        await world.receive(amount, remittance=name)
    run = await world.run()
    assert (run["counts"]["proposed"], run["counts"]["autoAccepted"]) == (2, 1)
    [match] = await world.matches(status="pending_approval")
    assert (match["amountMinor"], match["decidedBy"][:7]) == (10_001, "engine:")
    assert sorted(await told(world)) == ["match.accepted", "match.pending_approval"]
    assert (await world.run())["counts"]["proposed"] == 0
    summary = (await world.tenant.get("/reports/summary")).json()
    assert "pending_approval" in str(summary)
    assert (await approve(world.tenant, match)).json()["status"] == "accepted"


async def test_another_currency_is_beyond_unless_a_rate_of_its_days_says_otherwise(world: World) -> None:
    await limit(world)
    _, other = await add_user(world.service, world.tenant, "approver")
    pounds = {"currency": "GBP"}
    await world.set(autoAccept=True)
    await world.rate("GBP", "EUR", "1.25", "2026-03-10")
    for amount, name, day in (
        ("80.00", "INV-2026-300", "2026-03-12"),
        ("80.01", "INV-2026-301", "2026-03-12"),
        ("5.00", "INV-2026-302", "2026-03-16"),
    ):
        await world.expect(amount, reference=name, **pounds)
        await world.receive(amount, remittance=name, bookingDate=day, **pounds)
    await world.run()
    told = {match["amount"]: match["status"] for match in await world.matches()}
    assert told == {"80.00": "accepted", "80.01": "pending_approval", "5.00": "pending_approval"}
    await world.set(autoAccept=False)
    for amount, name, day, status in (
        ("80.00", "INV-2026-303", "2026-03-15", "accepted"),
        ("6.00", "INV-2026-304", "2026-03-16", "pending_approval"),
    ):
        await world.expect(amount, reference=name, externalId=name, **pounds)
        await world.receive(amount, remittance=name, bookingDate=day, **pounds)
        await world.run()
        answer = await other.post(f"/matches/{(await world.proposal())['id']}/accept")
        assert answer.json()["status"] == status


async def test_a_rate_that_who_decides_has_set_himself_counts_for_nothing(world: World) -> None:
    await limit(world)
    _, other = await add_user(world.service, world.tenant, "approver")
    pounds = {"currency": "GBP"}

    async def decided(number: int, by: Tenant = world.tenant) -> str:
        name = f"INV-2026-31{number}"
        item, line = await world.expect("70.00", externalId=name, **pounds), await world.receive("70.00", **pounds)
        made = await by.post("/matches", by_hand(item, line, 7_000))
        assert made.status_code == 201, made.text
        return str(made.json()["status"])

    async def set_by(who: Tenant, rate: str) -> None:
        item = {"date": "2026-03-11", "base": "GBP", "quote": "EUR", "rate": rate}
        answer = await who.request("PUT", "/fx-rates", json={"items": [item]})
        assert answer.is_success, answer.text

    await set_by(world.tenant, "0.01")
    assert await decided(0) == "pending_approval"
    await set_by(other, "1.25")
    assert await decided(1) == "accepted"
    # Who sets it last is who has set it, by whatever key he made; a key of somebody else's is somebody else.
    await set_by(world.tenant, "1.24")
    assert await decided(2) == "pending_approval"
    _, admin = await add_user(world.service, world.tenant, "admin")
    own, of_other, second = [await keyed(who) for who in (world.tenant, admin, world.tenant)]
    await set_by(of_other, "1.25")
    assert await decided(3) == "accepted"
    assert await decided(4, by=own) == "accepted"
    await set_by(own, "1.24")
    assert [await decided(5), await decided(6, by=own), await decided(7, by=second)] == ["pending_approval"] * 3
    # From before it was kept who has set a rate: its change knows, as long as the log has it.
    await world.sql("UPDATE fx_rate SET set_by = NULL RETURNING id")
    assert [await decided(8, by=own), await decided(9)] == ["pending_approval", "accepted"]


async def keyed(tenant: Tenant) -> Tenant:
    """Return the tenant as a key sees it that the user has made."""
    return replace(tenant, token=(await add_key(tenant))["apiKey"])


def by_hand(item: str, line: str, minor: int, **adjustment: Any) -> dict[str, Any]:
    adjustments = [{"expectedTransactionId": item, "currency": "EUR", **adjustment}] if adjustment else []
    leg = {"expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": minor}
    return {"legs": [leg], "adjustments": adjustments, "reason": "seen"}


async def test_a_match_by_hand_waits_as_well_and_so_does_what_it_writes_off(world: World) -> None:
    given = {"role": "approver", "adjustmentType": "write_off", "maxMinor": 500, "currency": "EUR"}
    await limit(world, limits=[given])
    approver, admin = await second(world), world.tenant
    cases = [
        (admin, "150.00", "150.00", {}, "pending_approval"),
        # A cent that pays a thousand is a decision about a thousand.
        (admin, "150.00", "0.01", {"type": "write_off", "amountMinor": 14_999}, "pending_approval"),
        (approver, "50.00", "45.00", {"type": "write_off", "amountMinor": 500}, "accepted"),
        (approver, "50.00", "44.99", {"type": "write_off", "amountMinor": 501}, "pending_approval"),
        (approver, "50.00", "44.99", {"type": "discount", "amountMinor": 501}, "accepted"),
        (admin, "50.00", "44.99", {"type": "write_off", "amountMinor": 501}, "accepted"),
    ]
    for who, owed, paid, adjustment, status in cases:
        item, line = await world.expect(owed), await world.receive(paid)
        minor = int(paid.replace(".", ""))
        answer = await who.post("/matches", by_hand(item, line, minor, **adjustment))
        assert (answer.status_code, answer.json()["status"]) == (201, status), (owed, paid, adjustment)
    item, line = await world.expect("50.00"), await world.receive("44.99")
    body = by_hand(item, line, 4_499, type="write_off", amountMinor=501)
    answer = await as_key(world, "POST", "/matches", await add_key(world.tenant), json=body)
    assert answer.json()["status"] == "pending_approval", "a key has the limits of every role"
    # Who has made a key has decided by it.
    assert code(await approve(world.tenant, answer.json())) == "second_approver_required"
    assert (await approve(await second(world), answer.json())).json()["status"] == "accepted"


async def test_what_a_return_takes_of_it_is_not_given_back_twice(world: World) -> None:
    match = await waiting(world)
    line = match["legs"][0]["incomingTransactionId"]
    back = await world.receive("40.00", direction="debit", bankReference="back", reversal=True)
    body = {"incomingTransactionId": line}
    assert (await world.tenant.post(f"/incoming-transactions/{back}/link-reversal", body)).status_code == 200
    found = await world.tenant.get(f"/matches/{match['id']}")
    assert (found.json()["status"], found.json()["returnedAmountMinor"]) == ("pending_approval", 4_000)
    assert (await world.tenant.post(f"/matches/{match['id']}/reject")).json()["status"] == "rejected"
    assert (await world.incoming(line))["openAmountMinor"] == 6_001
    assert (await world.expected(match["legs"][0]["expectedTransactionId"]))["openAmountMinor"] == 10_001


async def test_keys_may_be_kept_from_accepting_and_from_changing_the_rules(world: World) -> None:
    match, key = await proposed(world, "50.00"), await add_key(world.tenant)
    await limit(world, None, keysMayAccept=False, keysMayChangeRules=False)
    digest = await world.digest(*DECISIONS)
    [leg] = match["legs"]
    body = by_hand(leg["expectedTransactionId"], leg["incomingTransactionId"], 5_000)
    for path, given in (
        (f"/matches/{match['id']}/accept", None),
        ("/matches/accept", {"ids": [match["id"]]}),
        ("/matches", body),
    ):
        answer = await as_key(world, "POST", path, key, **({"json": given} if given else {}))
        assert (answer.status_code, code(answer)) == (403, "insufficient_permission")
        assert "approval.keysMayAccept" in answer.json()["detail"]
    assert await world.digest(*DECISIONS) == digest
    settings = f"/tenants/{world.tenant.id}/settings"
    for patch in (
        {"approval": None},
        {"approval": {"keysMayAccept": True}},
        {"approval": {"keysMayChangeRules": True}},
        {"matching": {"autoAccept": True}},
        {"matching": {"autoAcceptMinConfidence": "high"}},
        {"matching": {"rules": [{"name": "a", "priority": 1, "autoAccept": True}]}},
    ):
        answer = await as_key(world, "PATCH", settings, key, json=patch)
        assert (answer.status_code, code(answer)) == (403, "insufficient_permission"), patch
        assert "approval.keysMayChangeRules" in answer.json()["detail"]
    for patch in ({"matching": {"feeToleranceMinor": 0, "autoAccept": False}}, {"locale": "en"}):
        assert (await as_key(world, "PATCH", settings, key, json=patch)).status_code == 200
    assert (await world.accept(match)).json()["status"] == "accepted"


async def test_who_is_not_let_into_production_does_not_say_what_needs_nobody_there(world: World) -> None:
    await limit(world, 5_000)
    key, path = await add_key(world.tenant, "test"), f"/tenants/{world.tenant.id}/settings"
    headers = {"X-Tenant-Id": world.tenant.id, "X-Environment": "test", "X-Api-Key": key["apiKey"]}
    for patch in ({"approval": None}, {"matching": {"autoAccept": True}}):
        answer = await ask(world.tenant, "PATCH", path, headers, json=patch)
        assert (answer.status_code, code(answer)) == (403, "insufficient_permission"), patch
        assert "production" in answer.json()["detail"]
    assert (await ask(world.tenant, "PATCH", path, headers, json={"locale": "de"})).status_code == 200
    alone = await world.service.tenant("initech", environments=["test"])
    key = await add_key(alone, "test")
    headers = {"X-Tenant-Id": alone.id, "X-Environment": "test", "X-Api-Key": key["apiKey"]}
    answer = await ask(
        alone, "PATCH", f"/tenants/{alone.id}/settings", headers, json={"matching": {"autoAccept": True}}
    )
    assert answer.status_code == 200, answer.text


async def test_a_patch_of_limits_is_in_the_currency_that_is_stored(service: Service, acme: Tenant) -> None:
    dollars = await service.tenant("dollars", environments=["production"])
    patch = {"approval": {"limits": [{**FEES, "currency": "USD"}]}}
    for more, status in (({"baseCurrency": "USD"}, 200), (patch, 200), ({"baseCurrency": "EUR"}, 422)):
        answer = await dollars.request("PATCH", f"/tenants/{dollars.id}/settings", json=more)
        assert answer.status_code == status, answer.text
    answer = await acme.request("PATCH", f"/tenants/{acme.id}/settings", json=patch)
    assert fields(answer) == {("/approval/limits/0/currency", "currency_mismatch")}


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"secondPersonAboveMinor": -1}, {("/approval/secondPersonAboveMinor", "greater_than_equal")}),
        ({"secondPersonAboveMinor": 1.5}, {("/approval/secondPersonAboveMinor", "int_type")}),
        ({"currency": "XXQ"}, {("/approval/currency", "unknown_currency")}),
        ({"limits": [{"role": "boss"}]}, None),
        ({"keysMayAccept": "no"}, {("/approval/keysMayAccept", "bool_type")}),
        (
            {"limits": [{**FEES, "maxMinor": n} for n in (1, 2)]},
            {("/approval/limits/1", "duplicate_limit")},
        ),
        (
            {"currency": "GBP", "limits": [{**FEES, "currency": "GBP"}, {**FEES, "role": "approver"}]},
            {("/approval/limits/1/currency", "currency_mismatch")},
        ),
        ({"limits": [{**FEES, "currency": "USD"}]}, {("/approval/limits/0/currency", "currency_mismatch")}),
    ],
)
async def test_what_cannot_be_a_limit_is_named(acme: Tenant, given: dict[str, Any], wrong: Any) -> None:
    answer = await acme.request("PATCH", f"/tenants/{acme.id}/settings", json={"approval": given})
    assert answer.status_code == 422
    if wrong is None:
        assert ("/approval/limits/0/role", "literal_error") in fields(answer)
    else:
        assert fields(answer) == wrong
