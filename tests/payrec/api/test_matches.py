"""Matches over HTTP: accepted once, whoever else does the same; and what keeps one from being accepted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from unittest.mock import AsyncMock

import pytest

from support.matching_world import DECISIONS, World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def proposed(world: World, amount: str = "100.00", **fields: Any) -> dict[str, Any]:
    await world.expect(amount, reference="INV-2026-001", counterpartyName="Bolt GmbH")
    await world.receive(amount, remittance="INV-2026-001", counterpartyName="BOLT", **fields)
    await world.run()
    return await world.proposal()


def ends(match: dict[str, Any]) -> tuple[str, str]:
    [leg] = match["legs"]
    return leg["expectedTransactionId"], leg["incomingTransactionId"]


async def test_a_match_says_why_in_evidence_and_in_a_sentence(world: World) -> None:
    match = await proposed(world)
    assert (match["status"], match["kind"], match["confidence"]) == ("proposed", "one_to_one", "exact")
    assert (match["amountMinor"], match["amount"], match["currency"]) == (10_000, "100.00", "EUR")
    told = {e["feature"]: e for e in match["evidence"]}
    assert told["reference"]["expected"] == "INV-2026-001"
    assert told["amount"]["weight"] > 0
    assert "INV-2026-001" in match["explanation"]
    assert match["uniqueness"]["status"] == "unique"
    assert match["createdBy"].startswith("engine:")
    assert (match["decidedBy"], match["decidedAt"], match["effectiveOn"]) == (None, None, None)


async def test_accepting_allocates_and_closes_both_sides(world: World) -> None:
    match = await proposed(world)
    answer = await world.accept(match)
    accepted = answer.json()
    assert answer.status_code == 200
    assert (accepted["status"], accepted["effectiveOn"]) == ("accepted", "2026-03-12")
    assert accepted["decidedBy"].startswith("user:")
    assert accepted["version"] == match["version"] + 1
    assert answer.headers["ETag"] == f'"{accepted["version"]}"'
    expected, incoming = ends(match)
    paid, payment = await world.expected(expected), await world.incoming(incoming)
    for side in (paid, payment):
        assert (side["status"], side["matchedAmountMinor"], side["openAmountMinor"]) == ("matched", 10_000, 0)
    assert await world.sql("SELECT 1 FROM expected_open UNION ALL SELECT 1 FROM incoming_open") == []
    assert (await world.run())["counts"] | {"unmatched": {}} == {
        "expected": 0,
        "incoming": 0,
        "proposed": 0,
        "autoAccepted": 0,
        "ambiguous": 0,
        "unmatched": {},
    }
    assert (await world.matches())[0]["status"] == "accepted"


async def test_accepting_again_is_the_same_answer(world: World) -> None:
    match = await proposed(world)
    first = await world.accept(match)
    digest = await world.digest(*DECISIONS)
    again = await world.accept(match)
    assert (again.status_code, again.json()) == (200, first.json())
    assert await world.digest(*DECISIONS) == digest


async def test_accepting_twenty_times_at_once_is_one_effect(world: World) -> None:
    match = await proposed(world)
    answers = await asyncio.gather(*(world.accept(match) for _ in range(20)))
    assert {a.status_code for a in answers} == {200}
    assert len({a.text for a in answers}) == 1
    assert await world.sql("SELECT count(*) AS n FROM audit_record WHERE action = 'match.accepted'") == [{"n": 1}]
    assert await world.sql("SELECT DISTINCT allocated_minor FROM allocation") == [{"allocated_minor": 10_000}]


REASONS = ("explanation", "evidence", "score")
"""What a match says of why."""

OTHERWISE = {
    "reference": "ZZ-999999",
    "counterpartyName": "Somebody Else Ltd",
    "amount": "5.00",
    "currency": "EUR",
    "dueDate": "2027-06-30",
    "externalId": "other",
}


async def told_of(world: World, match: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what each place tells of why a match was made."""
    one = (await world.tenant.get(f"/matches/{match['id']}")).json()
    record = (await world.tenant.get(f"/matches/{match['id']}/record")).json()["match"]
    [listed] = [m for m in await world.matches() if m["id"] == match["id"]]
    return [{name: told[name] for name in REASONS} for told in (one, record, listed)]


async def test_why_a_match_was_made_is_told_of_what_its_item_was_then(world: World) -> None:
    match = await proposed(world)
    item, _ = ends(match)
    why = [{name: match[name] for name in REASONS}] * 3
    assert (await world.tenant.post(f"/matches/{match['id']}/reject", {"reason": "not this one"})).status_code == 200
    before = datetime.now(UTC).isoformat()
    assert (await world.tenant.request("PATCH", f"/expected-transactions/{item}", json=OTHERWISE)).status_code == 200
    assert await told_of(world, match) == why
    then = await world.tenant.get(f"/matches/{match['id']}", params={"asOf": before})
    assert {name: then.json()[name] for name in REASONS} == why[0]
    # Nothing is known any more of what it was: it is told of what it is.
    await world.sql("DELETE FROM stated_row")
    assert "ZZ-999999" in (await told_of(world, match))[0]["explanation"]


async def test_why_an_accepted_match_was_made_stays_where_dates_are_moved(world: World) -> None:
    match = await proposed(world)
    item, _ = ends(match)
    assert (await world.accept(match)).status_code == 200
    for day in ("2027-06-30", "2028-06-30"):
        moved = await world.tenant.request("PATCH", f"/expected-transactions/{item}", json={"dueDate": day})
        assert moved.status_code == 200
    assert await told_of(world, match) == [{name: match[name] for name in REASONS}] * 3
    again = await world.accept(match)
    assert {name: again.json()[name] for name in REASONS} == {name: match[name] for name in REASONS}


async def test_why_a_credit_note_was_taken_is_told_of_what_either_was_then(world: World) -> None:
    named = {"counterpartyName": "Bolt GmbH", "externalId": "INV-1"}
    await world.expect(reference="INV-2026-001", **named)
    note = {"direction": "debit", "reference": "INV-2026-001", "counterpartyName": "Bolt GmbH", "externalId": "CN-1"}
    await world.expect("40.00", **note)
    await world.run()
    match = await world.proposal()
    assert match["kind"] == "credit_note"
    assert (await world.tenant.post(f"/matches/{match['id']}/reject", {"reason": "not this one"})).status_code == 200
    [leg] = match["legs"]
    for name, external_id in (("expectedTransactionId", "other"), ("contraExpectedTransactionId", "another")):
        changed = {**OTHERWISE, "externalId": external_id}
        answer = await world.tenant.request("PATCH", f"/expected-transactions/{leg[name]}", json=changed)
        assert answer.status_code == 200, answer.text
    assert await told_of(world, match) == [{name: match[name] for name in REASONS}] * 3


async def test_an_if_match_of_another_version_is_refused_before_anything_else(world: World) -> None:
    match = await proposed(world)
    answer = await world.accept(match, **{"If-Match": '"7"'})
    assert (answer.status_code, answer.json()["code"]) == (412, "version_mismatch")
    assert (await world.accept(match, **{"If-Match": f'"{match["version"]}"'})).status_code == 200
    late = await world.accept(match, **{"If-Match": f'"{match["version"]}"'})
    assert (late.status_code, late.json()["code"]) == (412, "version_mismatch")


async def test_accepting_supersedes_what_competes_and_says_by_which(world: World) -> None:
    await world.expect("100.00", reference="INV-2026-001", externalId="one")
    await world.receive("60.00", remittance="INV-2026-001 first", externalId="a")
    await world.run()
    small = await world.proposal()
    # A second proposal for the same invoice, which only a run that sees nothing else makes.
    await world.receive("100.00", remittance="INV-2026-001 whole", externalId="b")
    await world.run(incomingFilter={"externalId": "b"})
    [whole] = [m for m in await world.matches(status="proposed") if m["id"] != small["id"]]
    assert (await world.accept(whole)).status_code == 200
    [loser] = await world.matches(status="superseded")
    assert (loser["id"], loser["supersededBy"]) == (small["id"], whole["id"])
    answer = await world.accept(small)
    assert (answer.status_code, answer.json()["code"]) == (409, "already_matched")
    assert answer.json()["supersededBy"] == whole["id"]


async def test_two_people_who_accept_competing_proposals_at_once_both_get_an_answer_and_one_wins(world: World) -> None:
    await world.expect("100.00", reference="INV-2026-001", externalId="one")
    for name in ("a", "b"):
        await world.receive("100.00", remittance="INV-2026-001", externalId=name)
        await world.run(incomingFilter={"externalId": name})
    first, second = await world.matches(status="proposed")
    answers = await asyncio.gather(*(world.accept(m) for m in (first, second) for _ in range(5)))
    assert sorted(a.status_code for a in answers) == [200] * 5 + [409] * 5
    assert {a.json()["code"] for a in answers if a.status_code == 409} == {"already_matched"}
    assert sorted(m["status"] for m in await world.matches()) == ["accepted", "superseded"]


async def test_a_part_that_still_fits_stays_proposed(world: World) -> None:
    invoice = await world.expect("100.00", reference="INV-2026-001")
    await world.receive("40.00", remittance="INV-2026-001 part one", externalId="a")
    await world.receive("50.00", remittance="INV-2026-001 part two", externalId="b")
    assert (await world.run())["counts"]["proposed"] == 2
    first, second = await world.matches(status="proposed")
    assert (await world.accept(first)).status_code == 200
    half = await world.expected(invoice)
    assert (half["status"], half["matchedAmountMinor"]) == ("partially_matched", first["amountMinor"])
    assert half["matchedAmountMinor"] + half["openAmountMinor"] == 10_000
    assert [m["id"] for m in await world.matches(status="proposed")] == [second["id"]]
    assert (await world.accept(second)).status_code == 200
    whole = await world.expected(invoice)
    assert (whole["matchedAmountMinor"], whole["openAmountMinor"]) == (9_000, 1_000)


async def test_a_proposal_is_stale_when_either_transaction_has_changed(world: World) -> None:
    match = await proposed(world)
    expected, incoming = ends(match)
    await world.sql("UPDATE expected_transaction SET revision = revision + 1 WHERE id = %s", expected)
    answer = await world.accept(match)
    assert (answer.status_code, answer.json()["code"]) == (409, "stale_proposal")
    assert answer.json()["changed"] == [{"id": expected, "field": "revision"}]
    await world.sql("UPDATE incoming_transaction SET revision = revision + 1 WHERE id = %s", incoming)
    changed = (await world.accept(match)).json()["changed"]
    assert [c["id"] for c in changed] == [expected, incoming]
    assert (await world.matches())[0]["status"] == "proposed"
    assert await world.sql("SELECT 1 FROM allocation") == []


async def test_a_stale_proposal_is_made_anew_by_the_next_run(world: World) -> None:
    match = await proposed(world)
    expected, _ = ends(match)
    await world.sql("UPDATE expected_transaction SET revision = 2 WHERE id = %s", expected)
    await world.sql("UPDATE expected_open SET revision = 2 WHERE transaction_id = %s", expected)
    await world.run()
    fresh = await world.proposal()
    assert fresh["id"] != match["id"]
    assert (await world.accept(fresh)).status_code == 200


async def test_nothing_is_accepted_against_a_pending_transaction(world: World) -> None:
    match = await proposed(world, status="pending")
    answer = await world.accept(match)
    assert (answer.status_code, answer.json()["code"]) == (409, "invalid_state")
    assert (await world.incoming(ends(match)[1]))["status"] == "pending"


async def test_what_was_taken_elsewhere_meanwhile_is_not_given_again(world: World) -> None:
    match = await proposed(world)
    expected, _ = ends(match)
    await world.sql(
        "INSERT INTO allocation (side, transaction_id, amount_minor, allocated_minor, status, version, updated_at)"
        " VALUES (1, %s, 10000, 1, 'partially_matched', 2, now())",
        expected,
    )
    answer = await world.accept(match)
    assert (answer.status_code, answer.json()["code"]) == (409, "already_matched")


async def test_the_database_refuses_what_the_check_before_it_would_let_pass(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    match = await proposed(world)
    expected, _ = ends(match)
    await world.sql(
        "INSERT INTO allocation (side, transaction_id, amount_minor, allocated_minor, status, version, updated_at)"
        " VALUES (1, %s, 10000, 1, 'partially_matched', 2, now())",
        expected,
    )
    monkeypatch.setattr("payrec.services.match_decisions.check_acceptable", AsyncMock())
    answer = await world.accept(match)
    assert (answer.status_code, answer.json()["code"]) == (409, "already_matched")
    assert await world.sql("SELECT allocated_minor FROM allocation") == [{"allocated_minor": 1}]


async def test_a_reason_is_kept_with_the_decision(world: World) -> None:
    match = await proposed(world)
    await world.tenant.post(f"/matches/{match['id']}/accept", {"reason": "called them"})
    assert (await world.matches())[0]["decisionReason"] == "called them"


async def test_lists_are_filtered_by_every_property(world: World) -> None:
    await world.expect("10.00", reference="INV-2026-001", externalId="one")
    await world.receive("10.00", remittance="INV-2026-001", externalId="a")
    await world.expect("20.00", counterpartyName="Ada Lovelace", externalId="two")
    await world.receive("20.00", counterpartyName="ada lovelace", externalId="b")
    run = await world.run()
    matches = await world.matches()
    exact, named = sorted(matches, key=lambda m: m["amountMinor"])
    for filters, ids in (
        ({"confidence": "exact"}, [exact["id"]]),
        ({"confidence": "high"}, [named["id"]]),
        ({"status": "accepted"}, []),
        ({"kind": "transfer"}, []),
        ({"expectedTransactionId": ends(named)[0]}, [named["id"]]),
        ({"incomingTransactionId": ends(exact)[1]}, [exact["id"]]),
        ({"runId": run["jobId"]}, [m["id"] for m in matches]),
        ({"runId": ends(exact)[0]}, []),
    ):
        assert [m["id"] for m in await world.matches(**filters)] == ids, filters


@pytest.mark.parametrize("match_id", ["nope", "0192f0c1-2345-7000-8000-000000000000"])
async def test_an_unknown_match_is_not_found(world: World, match_id: str) -> None:
    for answer in (
        await world.tenant.get(f"/matches/{match_id}"),
        await world.tenant.post(f"/matches/{match_id}/accept"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_another_tenants_match_is_not_found(world: World) -> None:
    match = await proposed(world)
    assert (await world.bystander.post(f"/matches/{match['id']}/accept")).status_code == 404
    assert (await world.bystander.get(f"/matches/{match['id']}")).status_code == 404
    assert (await world.tenant.get(f"/matches/{match['id']}", environment="test")).status_code == 404
    assert (await world.proposal())["version"] == match["version"]
