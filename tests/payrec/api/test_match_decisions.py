"""Matches over HTTP, taken back: rejected and remembered, or reversed, with everything open again as it was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from payrec.storage.match_proposals import MatchProposalStore
from support.matching_world import DECISIONS, World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

OPEN = ("expected_open", "incoming_open")


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def reject(world: World, match: dict[str, Any], body: Any = None, **headers: str) -> httpx2.Response:
    return await world.tenant.post(f"/matches/{match['id']}/reject", body, headers=headers)


async def reverse(world: World, match: dict[str, Any], reason: str = "wrong payer", **headers: str) -> httpx2.Response:
    return await world.tenant.post(f"/matches/{match['id']}/reverse", {"reason": reason}, headers=headers)


async def proposed(world: World, amount: str = "100.00", **fields: Any) -> dict[str, Any]:
    await world.expect(amount, reference="INV-2026-001", counterpartyName="Bolt GmbH")
    await world.receive(amount, remittance="INV-2026-001", counterpartyName="BOLT", **fields)
    await world.run()
    return await world.proposal()


async def accepted(world: World, **fields: Any) -> dict[str, Any]:
    answer = await world.accept(await proposed(world, **fields))
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def ends(match: dict[str, Any]) -> tuple[str, str]:
    [leg] = match["legs"]
    return leg["expectedTransactionId"], leg["incomingTransactionId"]


async def test_a_rejected_proposal_is_remembered_and_never_made_again(world: World) -> None:
    match = await proposed(world)
    answer = await reject(world, match, {"reason": "another Bolt"})
    found = answer.json()
    assert (answer.status_code, found["status"], found["decisionReason"]) == (200, "rejected", "another Bolt")
    assert found["decidedBy"].startswith("user:")
    assert found["version"] == match["version"] + 1
    assert answer.headers["ETag"] == f'"{found["version"]}"'
    assert await world.sql("SELECT 1 FROM allocation") == []
    for _ in range(2):
        assert (await world.run())["counts"]["proposed"] == 0
    # What belongs together with somebody else is still found.
    await world.receive("100.00", remittance="INV-2026-001 again", counterpartyName="BOLT", externalId="b")
    await world.run()
    assert ends(await world.proposal())[1] != ends(match)[1]


@pytest.mark.parametrize("body", [None, {}, {"reason": None}])
async def test_a_rejection_needs_no_reason(world: World, body: Any) -> None:
    match = await proposed(world)
    assert (await reject(world, match, body)).json()["decisionReason"] is None


async def test_a_rejected_match_is_neither_accepted_nor_rejected_again(world: World) -> None:
    match = await proposed(world)
    await reject(world, match)
    digest = await world.digest(*DECISIONS)
    for answer in (await world.accept(match), await reject(world, match), await reverse(world, match)):
        assert (answer.status_code, answer.json()["code"]) == (409, "invalid_state")
        assert answer.json()["detail"] == "the match is rejected"
    assert await world.digest(*DECISIONS) == digest


async def test_reversing_opens_everything_again_as_it_was(world: World) -> None:
    match = await proposed(world)
    before = await world.digest(*OPEN)
    taken = (await world.accept(match)).json()
    answer = await reverse(world, taken)
    found = answer.json()
    assert (answer.status_code, found["status"], found["decisionReason"]) == (200, "reversed", "wrong payer")
    assert found["effectiveOn"] == taken["effectiveOn"]
    assert found["version"] == taken["version"] + 1
    expected, incoming = ends(match)
    item, line = await world.expected(expected), await world.incoming(incoming)
    assert (item["status"], item["matchedAmountMinor"], item["openAmountMinor"]) == ("open", 0, 10_000)
    assert (line["status"], line["matchedAmountMinor"], line["openAmountMinor"]) == ("unmatched", 0, 10_000)
    assert await world.digest(*OPEN) == before
    actions = "SELECT action FROM audit_record WHERE action LIKE '%%reopened' OR action = 'match.reversed' ORDER BY 1"
    assert [row["action"] for row in await world.sql(actions)] == [
        "expected_transaction.reopened",
        "incoming_transaction.reopened",
        "match.reversed",
    ]


async def test_a_reversed_pair_is_not_proposed_again(world: World) -> None:
    match = await accepted(world)
    await reverse(world, match)
    assert (await world.run())["counts"]["proposed"] == 0


async def test_reversing_twice_is_refused_and_changes_nothing(world: World) -> None:
    match = await accepted(world)
    answers = await asyncio.gather(*(reverse(world, match) for _ in range(8)))
    assert sorted(a.status_code for a in answers) == [200] + [409] * 7
    assert {a.json()["code"] for a in answers if a.status_code == 409} == {"invalid_state"}
    digest = await world.digest(*DECISIONS, *OPEN)
    assert (await reverse(world, match)).status_code == 409
    assert (await world.accept(match)).status_code == 409
    assert await world.digest(*DECISIONS, *OPEN) == digest


async def test_only_what_is_accepted_is_reversed(world: World) -> None:
    match = await proposed(world)
    answer = await reverse(world, match)
    assert (answer.status_code, answer.json()["code"]) == (409, "invalid_state")
    assert (await reject(world, (await world.accept(match)).json())).status_code == 409


@pytest.mark.parametrize("body", [{}, None, {"reason": ""}, {"reason": "x" * 501}, {"reason": "a\u0007"}, {"why": "x"}])
async def test_a_reversal_says_why(world: World, body: Any) -> None:
    match = await accepted(world)
    answer = await world.tenant.post(f"/matches/{match['id']}/reverse", body)
    assert (answer.status_code, answer.json()["code"]) in {(422, "validation_failed"), (400, "malformed_body")}
    assert (await world.matches())[0]["status"] == "accepted"


@pytest.mark.parametrize("verb", ["reject", "reverse"])
async def test_an_if_match_of_another_version_is_refused_before_the_state(world: World, verb: str) -> None:
    match = await proposed(world)
    path, body = f"/matches/{match['id']}/{verb}", {"reason": "x"}
    late = await world.tenant.post(path, body, headers={"If-Match": '"7"'})
    assert (late.status_code, late.json()["code"]) == (412, "version_mismatch")
    if verb == "reverse":
        await world.accept(match)
        match = (await world.tenant.get(f"/matches/{match['id']}")).json()
    good = await world.tenant.post(path, body, headers={"If-Match": f'"{match["version"]}"'})
    assert good.status_code == 200


@pytest.mark.parametrize("verb", ["reject", "reverse"])
async def test_the_same_key_gets_the_same_answer(world: World, verb: str) -> None:
    match = await proposed(world) if verb == "reject" else await accepted(world)
    path, headers = f"/matches/{match['id']}/{verb}", {"Idempotency-Key": f"{verb}-1"}
    first = await world.tenant.post(path, {"reason": "x"}, headers=headers)
    again = await world.tenant.post(path, {"reason": "x"}, headers=headers)
    assert first.status_code == again.status_code == 200
    assert first.json() == again.json()
    assert again.headers["Idempotency-Replayed"] == "true"


@pytest.mark.parametrize("verb", ["reject", "reverse"])
async def test_another_tenants_match_is_not_found(world: World, verb: str) -> None:
    match = await accepted(world)
    path, body = f"/matches/{match['id']}/{verb}", {"reason": "x"}
    for answer in (
        await world.bystander.post(path, body),
        await world.tenant.post(path, body, "test"),
        await world.tenant.post(f"/matches/nope/{verb}", body),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert (await world.matches())[0]["status"] == "accepted"


async def test_instalments_are_reversed_one_by_one(world: World) -> None:
    invoice = await world.expect("100.00", reference="INV-2026-001")
    await world.receive("40.00", remittance="INV-2026-001 part one", externalId="a")
    await world.receive("50.00", remittance="INV-2026-001 part two", externalId="b")
    await world.run()
    for match in await world.matches(status="proposed"):
        assert (await world.accept(match)).status_code == 200
    first, second = await world.matches(status="accepted")
    assert (await reverse(world, first)).status_code == 200
    part = await world.expected(invoice)
    assert (part["status"], part["matchedAmountMinor"]) == ("partially_matched", second["amountMinor"])
    assert part["matchedAmountMinor"] + part["openAmountMinor"] == 10_000
    assert (await reverse(world, second)).status_code == 200
    whole = await world.expected(invoice)
    assert (whole["status"], whole["openAmountMinor"]) == ("open", 10_000)


async def test_an_adjustment_is_taken_back_with_its_match(world: World) -> None:
    invoice = await world.expect("100.00", reference="INV-2026-001")
    await world.receive("98.00", remittance="INV-2026-001")
    await world.run()
    match = await world.proposal()
    assert [a["type"] for a in match["adjustments"]] == ["fee"]
    assert (await world.accept(match)).status_code == 200
    assert (await world.expected(invoice))["status"] == "matched"
    assert (await reverse(world, match)).status_code == 200
    assert (await world.expected(invoice))["openAmountMinor"] == 10_000


async def test_what_was_returned_is_not_given_back_twice(world: World) -> None:
    match = await accepted(world)
    item, line = ends(match)
    back = await world.receive("30.00", direction="debit", reversal=True, externalId="return")
    linked = await world.tenant.post(
        f"/incoming-transactions/{back}/link-reversal", {"incomingTransactionId": line, "amountMinor": 3_000}
    )
    assert linked.status_code == 200, linked.text
    assert (await world.expected(item))["openAmountMinor"] == 3_000
    found = (await reverse(world, match)).json()
    assert (found["status"], found["returnedAmountMinor"]) == ("reversed", 3_000)
    expected, incoming = await world.expected(item), await world.incoming(line)
    assert (expected["openAmountMinor"], expected["matchedAmountMinor"]) == (10_000, 0)
    assert (incoming["openAmountMinor"], incoming["matchedAmountMinor"], incoming["status"]) == (7_000, 0, "unmatched")
    total = await world.sql("SELECT open_minor, total_minor FROM incoming_open WHERE transaction_id = %s", line)
    assert total == [{"open_minor": 7_000, "total_minor": 7_000}]


async def test_a_line_that_came_back_whole_stays_closed(world: World) -> None:
    match = await accepted(world)
    item, line = ends(match)
    back = await world.receive("100.00", direction="debit", reversal=True, externalId="return")
    path = f"/incoming-transactions/{back}/link-reversal"
    assert (await world.tenant.post(path, {"incomingTransactionId": line})).status_code == 200
    assert (await reverse(world, match)).status_code == 200
    assert (await world.incoming(line))["status"] == "reversed"
    assert (await world.expected(item))["status"] == "open"
    assert await world.sql("SELECT 1 FROM incoming_open") == []


async def test_a_stale_proposal_says_what_has_changed(world: World) -> None:
    match = await proposed(world)
    expected, _ = ends(match)
    changed = await world.tenant.request(
        "PATCH", f"/expected-transactions/{expected}", json={"dueDate": "2026-04-01", "amount": "101.00"}
    )
    assert changed.status_code == 200, changed.text
    answer = await world.accept(match)
    assert (answer.status_code, answer.json()["code"]) == (409, "stale_proposal")
    told = answer.json()["changed"]
    assert {t["id"] for t in told} == {expected}
    assert {t["field"] for t in told} == {"amountMinor", "dueDate"}


async def test_nobody_proposes_what_is_rejected_while_a_run_commits(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    match = await proposed(world)
    hold = MatchProposalStore.hold
    rejections: list[httpx2.Response] = []

    async def held(store: MatchProposalStore) -> None:
        # The run has read everything, the rejections too, and is about to write.
        if not rejections:
            rejections.append(await reject(world, match))
        await hold(store)

    monkeypatch.setattr(MatchProposalStore, "hold", held)
    await world.run()
    assert [r.status_code for r in rejections] == [200]
    assert await world.matches(status="proposed") == []


async def test_a_rejected_set_is_not_proposed_again(world: World) -> None:
    for number in range(2):
        await world.expect("50.00", groupKey="BATCH-2026-77", externalId=f"e{number}")
    await world.receive("100.00", remittance="BATCH-2026-77", externalId="i")
    await world.run()
    match = await world.proposal()
    assert match["kind"] == "one_to_many"
    assert (await reject(world, match)).status_code == 200
    for _ in range(2):
        await world.run()
        assert [m["kind"] for m in await world.matches(status="proposed")] == []


async def test_rejected_money_is_not_proposed_again(world: World) -> None:
    await world.receive("100.00", account="DE02120300000000202051", counterpartyName="Bolt GmbH", externalId="in")
    await world.receive(
        "100.00",
        account="DE02120300000000202051",
        direction="debit",
        counterpartyName="Bolt GmbH",
        bookingDate="2026-03-14",
        externalId="out",
    )
    await world.run()
    match = await world.proposal()
    assert match["kind"] == "refund"
    assert (await reject(world, match)).status_code == 200
    await world.run()
    assert await world.matches(status="proposed") == []
