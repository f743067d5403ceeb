"""Lines that are ignored, classified and restored: what is open, what is told, and what is refused."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from support.events import TOLD
from support.matching_world import World, matching_world
from support.service import Service, Tenant
from support.wire import add_user, code, fields

pytestmark = pytest.mark.anyio

PATH = "/incoming-transactions"
RETURN = {"direction": "debit", "bookingDate": "2026-03-20", "bankTransactionCode": "PMNT-RCDT-RRTN"}


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def decide(world: World, verb: str, line: str, body: Any = None, **headers: str) -> httpx2.Response:
    if body is None:
        body = {"ignore": {"reason": "own transfer"}, "classify": {"category": "fee"}, "restore": None}[verb]
    return await world.tenant.post(f"{PATH}/{line}/{verb}", body, headers=headers)


async def done(world: World, verb: str, line: str, body: Any = None, **headers: str) -> dict[str, Any]:
    answer = await decide(world, verb, line, body, **headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert answer.headers["etag"] == f'"{found["version"]}"'
    assert found == await world.incoming(line)
    return found


async def opened(world: World) -> dict[str, str]:
    return await world.digest("incoming_open")


def state(found: dict[str, Any]) -> tuple[str, int, int]:
    return found["status"], found["matchedAmountMinor"], found["openAmountMinor"]


async def told(world: World, kind: str) -> list[str]:
    rows = await world.sql(f"SELECT resource_id::text AS id FROM {TOLD} WHERE type = %s", kind)  # noqa: S608
    return [row["id"] for row in rows]


async def test_a_line_is_ignored_and_comes_back_as_it_was(world: World) -> None:
    line = await world.receive(
        remittance="INV-2026-001", counterpartyName="Bolt GmbH", groupKey="PO-1", valueDate="2026-03-13"
    )
    before = await opened(world)
    found = await done(world, "ignore", line)
    assert (state(found), found["ignoredReason"], found["version"]) == (("ignored", 0, 0), "own transfer", 2)
    assert await world.sql("SELECT 1 AS one FROM incoming_open") == []
    assert [row["id"] for row in (await world.tenant.get(PATH, params={"status": "ignored"})).json()["data"]] == [line]
    found = await done(world, "restore", line, {"reason": "it was not"})
    assert (state(found), found["ignoredReason"], found["version"]) == (("unmatched", 0, 10_000), None, 3)
    assert await opened(world) == before
    assert await told(world, "incoming_transaction.ignored") == [line]
    assert await told(world, "incoming_transaction.restored") == [line]
    rows = await world.sql(
        "SELECT action, reason, before, after FROM audit_record WHERE resource_id = %s ORDER BY change_id", line
    )
    assert [(row["action"].partition(".")[2], row["reason"], row["before"], row["after"]) for row in rows[1:]] == [
        ("ignored", "own transfer", {"status": "unmatched"}, {"status": "ignored"}),
        ("restored", "it was not", {"status": "ignored", "reason": "own transfer"}, {"status": "unmatched"}),
    ]


async def test_a_line_is_classified_and_comes_back(world: World) -> None:
    line = await world.receive("12.50", direction="debit", remittance="account fee")
    before = await opened(world)
    found = await done(world, "classify", line, {"category": "bank_fee", "postingCode": "6855", "reason": "March"})
    assert state(found) == ("classified", 0, 0)
    assert (found["classification"], found["ignoredReason"]) == ({"category": "bank_fee", "postingCode": "6855"}, None)
    assert await world.sql("SELECT 1 AS one FROM incoming_open") == []
    assert await told(world, "incoming_transaction.classified") == [line]
    found = await done(world, "restore", line)
    assert state(found) == ("unmatched", 0, 1_250)
    assert "classification" not in found
    assert await opened(world) == before
    found = await done(world, "classify", line, {"category": "interest"})
    assert found["classification"] == {"category": "interest"}


async def test_a_proposal_with_it_is_superseded_and_made_anew(world: World) -> None:
    await world.expect(reference="INV-2026-001")
    line = await world.receive(remittance="INV-2026-001")
    for verb in ("ignore", "classify"):
        await world.run()
        proposal = await world.proposal()
        await done(world, verb, line)
        [match] = [match for match in await world.matches() if match["id"] == proposal["id"]]
        assert (match["status"], match.get("supersededBy")) == ("superseded", None)
        answer = await world.accept(proposal)
        assert (answer.status_code, code(answer)) == (409, "invalid_state")
        assert (await world.run())["counts"]["proposed"] == 0
        await done(world, "restore", line)
    await world.run()
    assert (await world.accept(await world.proposal())).status_code == 200
    assert state(await world.incoming(line)) == ("matched", 10_000, 0)


async def test_only_what_has_nothing_matched_is_decided_so(world: World) -> None:
    await world.expect("60.00", reference="INV-2026-001")
    line = await world.receive(remittance="INV-2026-001")
    whole = await world.receive(remittance="INV-2026-002")
    await world.expect(reference="INV-2026-002")
    await world.run()
    for match in await world.matches(status="proposed"):
        assert (await world.accept(match)).status_code == 200
    assert (await world.incoming(line))["status"] in {"partially_matched", "matched"}
    before = await world.digest("allocation", "allocation_state", "incoming_open", "audit_record")
    for found in (line, whole):
        for verb in ("ignore", "classify", "restore"):
            answer = await decide(world, verb, found)
            assert (answer.status_code, code(answer)) == (409, "invalid_state"), verb
    assert await world.digest("allocation", "allocation_state", "incoming_open", "audit_record") == before


async def test_what_is_decided_is_not_decided_again(world: World) -> None:
    line, zero = await world.receive(), await world.receive("0.00")
    refused = [("restore", line), ("restore", zero), ("ignore", zero), ("classify", zero)]
    for verb, other in refused:
        answer = await decide(world, verb, other)
        assert (answer.status_code, code(answer)) == (409, "invalid_state"), verb
    assert (await world.incoming(zero))["ignoredReason"] == "zero_amount"
    for first, verbs in (("ignore", ("ignore", "classify")), ("classify", ("classify", "ignore"))):
        await done(world, first, line)
        for verb in verbs:
            answer = await decide(world, verb, line)
            assert (answer.status_code, code(answer)) == (409, "invalid_state"), (first, verb)
        await done(world, "restore", line)


async def test_a_line_that_is_not_booked_is_ignored_but_not_classified(world: World) -> None:
    line = await world.receive(status="pending")
    answer = await decide(world, "classify", line)
    assert (answer.status_code, code(answer)) == (409, "invalid_state")
    before = await opened(world)
    assert state(await done(world, "ignore", line)) == ("ignored", 0, 0)
    assert state(await done(world, "restore", line)) == ("pending", 0, 10_000)
    assert await opened(world) == before


def record(amount: str = "100.00", **more: Any) -> dict[str, Any]:
    given = {"direction": "credit", "currency": "EUR", "bookingDate": "2026-03-12", "externalId": "L1"}
    return {**given, "amount": amount, **more}


async def test_the_booking_of_an_ignored_line_leaves_it_ignored(world: World) -> None:
    line = await world.receive(status="pending", externalId="L1")
    await done(world, "ignore", line)
    await world.upload([record("101.00")])
    found = await world.incoming(line)
    assert (state(found), found["amountMinor"]) == (("ignored", 0, 0), 10_100)
    assert await world.sql("SELECT 1 AS one FROM incoming_open") == []
    assert state(await done(world, "restore", line)) == ("unmatched", 0, 10_100)
    [row] = await world.sql("SELECT open_minor, total_minor, pending FROM incoming_open")
    assert row == {"open_minor": 10_100, "total_minor": 10_100, "pending": False}


async def test_the_booking_of_a_restored_line_is_open(world: World) -> None:
    line = await world.receive(status="pending", externalId="L1")
    await done(world, "ignore", line)
    await done(world, "restore", line)
    await world.upload([record("101.00")])
    assert state(await world.incoming(line)) == ("unmatched", 0, 10_100)
    [row] = await world.sql("SELECT amount_minor FROM allocation WHERE transaction_id = %s", line)
    assert row["amount_minor"] == 10_100


async def test_a_return_is_not_linked_while_it_or_its_payment_is_ignored(world: World) -> None:
    payment, back = await world.receive(endToEndId="E2E-4711"), await world.receive(**RETURN, endToEndId="E2E-4711")
    await world.run(incomingFilter={"direction": "credit"})
    for line in (payment, back):
        await done(world, "ignore", line)
        await world.run()
        answer = await world.tenant.post(f"{PATH}/{back}/link-reversal", {"incomingTransactionId": payment})
        assert (answer.status_code, code(answer)) == (409, "invalid_state")
        assert await world.sql("SELECT 1 AS one FROM reversal_link") == []
        await done(world, "restore", line)
    answer = await world.tenant.post(f"{PATH}/{back}/link-reversal", {"incomingTransactionId": payment})
    assert (answer.status_code, answer.json()["status"]) == (200, "linked")
    for line in (payment, back):
        for verb in ("ignore", "classify", "restore"):
            assert (await decide(world, verb, line)).status_code == 409


async def test_what_a_return_left_of_a_payment_comes_back(world: World) -> None:
    payment = await world.receive(endToEndId="E2E-4711")
    back = await world.receive("30.00", **RETURN)
    body = {"incomingTransactionId": payment, "amountMinor": 3_000}
    assert (await world.tenant.post(f"{PATH}/{back}/link-reversal", body)).status_code == 200
    before = await opened(world)
    assert state(await done(world, "ignore", payment)) == ("ignored", 0, 0)
    assert state(await done(world, "restore", payment)) == ("unmatched", 0, 7_000)
    assert await opened(world) == before


@pytest.mark.parametrize(
    ("verb", "body", "wrong"),
    [
        ("ignore", {}, ("/reason", "missing")),
        ("ignore", {"reason": ""}, ("/reason", "too_short")),
        ("ignore", {"reason": "x" * 501}, ("/reason", "string_too_long")),
        ("ignore", {"reason": "a\x07"}, ("/reason", "text_control_characters")),
        ("ignore", {"reason": "a", "category": "fee"}, ("/category", "extra_forbidden")),
        ("classify", {}, ("/category", "missing")),
        ("classify", {"category": "Bank fee"}, ("/category", "string_pattern_mismatch")),
        ("classify", {"category": "x" * 65}, ("/category", "string_too_long")),
        ("classify", {"category": "fee", "postingCode": ""}, ("/postingCode", "string_too_short")),
        ("classify", {"category": "fee", "postingCode": "4\n"}, ("/postingCode", "string_pattern_mismatch")),
        ("classify", {"category": "fee", "postingCode": "4" * 65}, ("/postingCode", "string_too_long")),
        ("restore", {"reason": 1}, ("/reason", "string_type")),
    ],
)
async def test_what_cannot_be_is_named(world: World, verb: str, body: Any, wrong: tuple[str, str]) -> None:
    line = await world.receive()
    answer = await decide(world, verb, line, body)
    assert (answer.status_code, fields(answer)) == (422, {wrong})
    assert (await world.incoming(line))["version"] == 1


async def test_what_is_not_there_or_somebody_elses_is_not_found(world: World) -> None:
    line = await world.receive()
    [theirs] = [row["id"] for row in (await world.bystander.get(PATH)).json()["data"]]
    for verb in ("ignore", "classify", "restore"):
        for other in (theirs, str(uuid4()), "x"):
            answer = await decide(world, verb, other)
            assert (answer.status_code, code(answer)) == (404, "not_found")
    await done(world, "ignore", line)
    assert (await world.bystander.get(f"{PATH}/{theirs}")).json()["status"] == "unmatched"


async def test_an_if_match_of_another_version_is_refused_before_the_state_is_looked_at(world: World) -> None:
    line = await world.receive()
    for verb in ("ignore", "classify", "restore"):
        answer = await decide(world, verb, line, **{"If-Match": '"7"'})
        assert (answer.status_code, code(answer)) == (412, "version_mismatch")
    await done(world, "ignore", line, **{"If-Match": '"1"'})
    answer = await decide(world, "restore", line, **{"If-Match": '"1"'})
    assert (answer.status_code, code(answer)) == (412, "version_mismatch")


async def test_a_repeated_request_has_one_effect_and_one_answer(world: World) -> None:
    line = await world.receive()
    first, again = [await decide(world, "ignore", line, **{"Idempotency-Key": "once"}) for _ in range(2)]
    assert (first.status_code, again.status_code, again.text) == (200, 200, first.text)
    assert await world.sql("SELECT count(*) AS n FROM allocation_state WHERE transaction_id = %s", line) == [{"n": 1}]


async def test_of_many_at_once_one_decides(world: World) -> None:
    await world.expect(reference="INV-2026-001")
    line = await world.receive(remittance="INV-2026-001")
    await world.run()
    proposal = await world.proposal()
    for _ in range(3):
        answers = await asyncio.gather(
            *(decide(world, verb, line) for verb in ("ignore", "classify") * 4), world.accept(proposal)
        )
        assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 8}
        found = await world.incoming(line)
        if found["status"] == "matched":
            assert state(found) == ("matched", 10_000, 0)
            return
        assert await world.sql("SELECT 1 AS one FROM incoming_open") == []
        answers = await asyncio.gather(*(decide(world, "restore", line) for _ in range(4)))
        assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 3}
        await world.run()
        proposal = await world.proposal()


async def test_who_may_only_read_decides_nothing(world: World, service: Service) -> None:
    line = await world.receive()
    _, viewer = await add_user(service, world.tenant, "viewer")
    _, operator = await add_user(service, world.tenant, "operator")
    answer = await viewer.post(f"{PATH}/{line}/ignore", {"reason": "no"})
    assert (answer.status_code, code(answer)) == (403, "insufficient_permission")
    assert (await operator.post(f"{PATH}/{line}/ignore", {"reason": "yes"})).status_code == 200
