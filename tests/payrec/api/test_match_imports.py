"""Decisions that were made elsewhere: each an accepted match, once, as the file says it; and matching learns."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from payrec.services.match_verification import MatchVerificationService
from support.match_imports import DECIDED, PATH, ask, counts, imported, one, pair
from support.matching_world import DECISIONS, World, matching_world
from support.service import Service, Tenant
from support.wire import add_key, code
from support.wire import ask as as_sent

pytestmark = pytest.mark.anyio

TABLES = (*DECISIONS, "expected_open", "incoming_open", "imported_match", "outbox", "event")


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


def refused(told: dict[str, Any]) -> dict[int, str]:
    return {error["line"]: error["code"] for error in told["errors"]}


async def test_a_decision_is_an_accepted_match_as_the_file_says_it(world: World) -> None:
    for number in range(3):
        await pair(world, number)
    fee = await world.expect("50.00", externalId="INV-FEE")
    await world.receive("48.00", externalId="TX-FEE")
    await world.run()
    proposals = [m["id"] for m in await world.matches(status="proposed")]
    group = {"legs": [one("INV-1", "TX-1"), one("INV-2", "TX-2")], **DECIDED, "reason": "one delivery"}
    group["legs"] = [{k: v for k, v in leg.items() if k not in DECIDED} for leg in group["legs"]]
    charged = [{"type": "fee", "amountMinor": 200, "currency": "EUR"}]
    told = await imported(
        world.tenant,
        [one("INV-0", "TX-0"), group, one("INV-FEE", "TX-FEE", 4_800, adjustments=charged, reviewed=False)],
    )
    assert (counts(told), told["resource"], told["format"]) == ((3, 0, 0), "matches", "jsonl")
    first, second, third = await world.matches(status="accepted")
    assert {m["createdBy"] for m in (first, second, third)} == {"import"}
    assert (first["decidedBy"], first["decidedAt"]) == ("ada", "2026-03-12T08:00:00Z")
    assert (first["kind"], second["kind"], third["kind"]) == ("one_to_one", "many_to_many", "one_to_one")
    assert (first["score"], first["confidence"], first["explanation"]) == (
        None,
        None,
        "Decided elsewhere, and imported.",
    )
    assert (second["decisionReason"], second["amountMinor"]) == ("one delivery", 20_000)
    assert first["imported"] == {
        "importId": told["id"],
        "importedBy": first["imported"]["importedBy"],
        "reviewed": True,
    }
    assert first["imported"]["importedBy"].startswith("user:")
    assert not third["imported"]["reviewed"]
    item = await world.expected(fee)
    assert (item["status"], item["matchedAmountMinor"], item["openAmountMinor"]) == ("matched", 5_000, 0)
    assert {(await world.tenant.get(f"/matches/{i}")).json()["status"] for i in proposals} <= {"superseded"}
    for match in (first, second, third):
        verified = await MatchVerificationService(database=world.service.factory.context.database).verify(
            world.scope, match["id"]
        )
        assert [check for check in verified.checks if not check.holds] == []
    record = (await world.tenant.get(f"/matches/{first['id']}/record")).json()
    assert "import.completed" in {entry["type"] for entry in record["audit"]}
    # Taken back as any other, and then the file says nothing new.
    reversed_ = await world.tenant.post(f"/matches/{first['id']}/reverse", {"reason": "was wrong"})
    assert (reversed_.status_code, reversed_.json()["status"]) == (200, "reversed"), reversed_.text
    assert counts(await imported(world.tenant, [one("INV-0", "TX-0", decidedBy="bob")])) == (0, 1, 0)
    # The other tenant has items and lines of the same names.
    assert await world.bystander_decisions() == 0


async def test_a_line_is_known_by_what_its_bank_says_and_a_table_will_do(world: World) -> None:
    await world.expect("100.00", externalId="INV-1")
    await world.expect("70.00", externalId="INV-2")
    await world.receive("100.00", endToEndId="E2E-1", bookingDate="2026-03-11", account="DE1")
    for _ in range(2):
        await world.receive("70.00", bookingDate="2026-03-11", account="DE1")
    header = "expectedExternalId;incomingBookingDate;incomingAccount;incomingEndToEndId;amount;currency;decidedAt;"
    header += "decidedBy;reviewed\n"
    rows = [
        "INV-1;2026-03-11;DE1;E2E-1;60.00;EUR;2026-03-12T08:00:00Z;ada;true",
        "INV-2;2026-03-11;DE1;;70.00;EUR;2026-03-12T08:00:00Z;ada;false",
        "INV-2;2026-03-12;DE1;;70.00;EUR;2026-03-12T08:00:00Z;ada;perhaps",
    ]
    told = await imported(world.tenant, header + "\n".join(rows))
    # The line is of 100, which has to be said where less of it is taken.
    assert refused(told) == {2: "unknown_transaction", 3: "ambiguous_transaction", 4: "bool_type"}
    whole = header.replace("amount;", "amount;incomingAmountMinor;")
    told = await imported(world.tenant, whole + rows[0].replace("60.00;", "60.00;10000;"))
    assert counts(told) == (1, 0, 0)
    [match] = await world.matches(status="accepted")
    assert (match["amountMinor"], match["kind"]) == (6_000, "one_to_one")


async def test_of_equal_lines_of_one_day_each_is_known_by_what_is_said_of_it(world: World) -> None:
    day = {"bookingDate": "2026-03-11"}
    for number in range(4):
        await world.expect("9.99", externalId=f"INV-{number}")
        own = {"account": "DE1", "endToEndId": f"E2E-{number}", "bankReference": f"B{number // 2}"}
        await world.receive("9.99", **day, **(own if number else {}))
    said = {"incomingBookingDate": "2026-03-11"}
    records = [
        one("INV-0", None, 999, **said),
        one("INV-1", None, 999, **said, incomingEndToEndId="E2E-1", incomingDirection="credit", currency="EUR"),
        one("INV-2", None, 999, **said, incomingBankReference="B1", incomingAccount="DE1"),
        one("INV-3", None, 999, **said, incomingBankReference="B1", incomingEndToEndId="E2E-3"),
        one("INV-2", None, 999, **said, incomingEndToEndId="E2E-2", incomingDirection="debit"),
        one("INV-2", None, 999, **said, incomingEndToEndId="E2E-2", incomingAccount="DE2"),
    ]
    told = await imported(world.tenant, records)
    assert refused(told) == {
        1: "ambiguous_transaction",
        3: "ambiguous_transaction",
        5: "unknown_transaction",
        6: "unknown_transaction",
    }
    assert counts(told) == (2, 0, 4)
    lines = {row["id"]: row for row in (await world.tenant.get("/incoming-transactions")).json()["data"]}
    found = [lines[m["legs"][0]["incomingTransactionId"]]["endToEndId"] for m in await world.matches(status="accepted")]
    assert found == ["E2E-1", "E2E-3"]


async def test_what_cannot_be_is_told_by_its_line_and_the_rest_is_stored(world: World) -> None:
    await pair(world, 1)
    await world.expect("100.00", externalId="OUT", direction="debit")
    await world.expect("100.00", externalId="USD", currency="USD")
    await world.receive("30.00", externalId="TX-2")
    records = [
        one("INV-1", "TX-1", 10_001),
        one("OUT", "TX-1"),
        one("USD", "TX-1"),
        one("INV-9", "TX-1"),
        one("INV-1", "TX-9"),
        one("INV-1", None),
        one("INV-1", "TX-1", None),
        one("INV-1", "TX-1", amount="100.00"),
        one("INV-1", "TX-1", incomingBookingDate="2026-03-12"),
        one("INV-1", "TX-1", decidedBy="user:1"),
        one("INV-1", "TX-1", decidedAt="2999-01-01T00:00:00Z"),
        one("INV-1", "TX-1", adjustments=[{"type": "fee", "leg": 1, "amountMinor": 1, "currency": "EUR"}]),
        {"legs": [], **DECIDED},
        one("INV-1", "TX-1", 1, currency="USD"),
        one("INV-1", "TX-1", 8_000),
        one("INV-1", "TX-2", 3_000),
        one("INV-1", "TX-1", 8_000, decidedBy="bob"),
        one("INV-1", "TX-1", 2_000),
    ]
    before = await world.digest(*TABLES)
    whole = await ask(world.tenant, records, mode="all_or_nothing")
    assert (whole.status_code, code(whole)) == (422, "validation_failed")
    assert await world.digest(*TABLES[:-2]) == {name: before[name] for name in TABLES[:-2]}
    told = await imported(world.tenant, records)
    assert refused(told) == {
        1: "amount_exceeds_open",
        2: "direction_mismatch",
        3: "currency_mismatch",
        4: "unknown_transaction",
        5: "unknown_transaction",
        6: "missing_external_id",
        7: "amount_once",
        8: "amount_once",
        9: "incoming_once",
        10: "decider_of_here",
        11: "decided_in_future",
        12: "not_in_legs",
        13: "too_short",
        14: "currency_mismatch",
        16: "amount_exceeds_open",
    }
    # The same with another name is the same decision; what one leaves, the next may take.
    assert counts(told) == (2, 1, 15)
    assert [m["amountMinor"] for m in await world.matches(status="accepted")] == [8_000, 2_000]
    again = await ask(world.tenant, records)
    assert (again.status_code, again.json()["id"]) == (200, told["id"])


async def test_limits_hold_for_a_file_and_so_does_what_keys_may(world: World) -> None:
    await pair(world, 1)
    await pair(world, 2, "10.00")
    path = f"/tenants/{world.tenant.id}/settings"
    approval = {"secondPersonAboveMinor": 5_000, "currency": "EUR", "keysMayAccept": False}
    assert (await world.tenant.request("PATCH", path, json={"approval": approval})).status_code == 200
    try:
        records = [one("INV-1", "TX-1"), one("INV-2", "TX-2", 1_000)]
        made = await add_key(world.tenant)
        headers = {"X-Tenant-Id": world.tenant.id, "X-Environment": "production", "X-Api-Key": made["apiKey"]}
        by_key = await as_sent(world.tenant, "POST", PATH, headers, json=records)
        assert (by_key.status_code, code(by_key)) == (403, "insufficient_permission")
        told = await imported(world.tenant, records)
        assert (counts(told), refused(told)) == ((1, 0, 1), {1: "second_approver_required"})
    finally:
        assert (await world.tenant.request("PATCH", path, json={"approval": None})).status_code == 200


async def test_what_was_decided_in_a_locked_period_counts_from_the_first_open_day(world: World) -> None:
    await pair(world, 1)
    body = {"through": "2026-03-31", "reason": "closed", "override": True}
    answer = await world.tenant.post("/period-locks", body)
    assert answer.status_code == 201, answer.text
    assert counts(await imported(world.tenant, [one("INV-1", "TX-1")])) == (1, 0, 0)
    [match] = await world.matches(status="accepted")
    assert (match["effectiveOn"], match["decidedAt"]) == ("2026-04-01", "2026-03-12T08:00:00Z")


async def test_twenty_at_once_store_each_decision_once(world: World) -> None:
    for number in range(10):
        await pair(world, number)
    everything = [one(f"INV-{n}", f"TX-{n}") for n in range(10)]
    files = [everything[n % 10 :] + everything[: n % 10] + [one(f"INV-{n}", "TX-NO")] for n in range(20)]
    answers = await asyncio.gather(*(ask(world.tenant, records) for records in files))
    assert {answer.status_code for answer in answers} == {201}, [a.text for a in answers if a.status_code != 201]
    assert sum(answer.json()["counts"]["accepted"] for answer in answers) == 10
    assert sum(answer.json()["counts"]["duplicates"] for answer in answers) == 190
    assert len(await world.matches(status="accepted")) == 10
    open_rows = await world.sql(
        "SELECT transaction_id FROM expected_open UNION ALL SELECT transaction_id FROM incoming_open"
    )
    assert open_rows == []


NUMBERS = itertools.count(1)


async def listed(tenant: Tenant, path: str) -> dict[str, dict[str, Any]]:
    answer = await tenant.get(path, params={"limit": 200})
    assert answer.status_code == 200, answer.text
    return {row["id"]: row for row in answer.json()["data"]}


@given(
    takes=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(1, 12_000), st.booleans()), min_size=1, max_size=10
    )
)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_what_is_listed_is_what_was_given(world: World, takes: list[tuple[int, int, int, bool]]) -> None:
    run = next(NUMBERS)
    money = {"direction": "credit", "currency": "EUR", "amountMinor": 10_000}
    for path, name, more in (
        ("/expected-transactions", "INV", {}),
        ("/incoming-transactions", "TX", {"bookingDate": "2026-03-12"}),
    ):
        bodies = [{**money, **more, "externalId": f"{name}-{run}-{number}"} for number in range(3)]
        answer = await world.tenant.post(f"{path}/bulk", {"items": bodies})
        assert {result["status"] for result in answer.json()["results"]} == {201}, answer.text
    left = dict.fromkeys(itertools.product(("INV", "TX"), range(3)), 10_000)
    records, wanted = [], {}
    for place, (item, line, minor, reviewed) in enumerate(takes):
        records.append(
            one(f"INV-{run}-{item}", f"TX-{run}-{line}", minor, decidedBy=f"person {place}", reviewed=reviewed)
        )
        key = (item, line, minor)
        if key in wanted or min(left["INV", item], left["TX", line]) < minor:
            continue
        left["INV", item] -= minor
        left["TX", line] -= minor
        wanted[key] = (f"person {place}", reviewed)
    told = await imported(world.tenant, records)
    assert counts(told)[0] == len(wanted)
    items = await listed(world.tenant, "/expected-transactions")
    lines = await listed(world.tenant, "/incoming-transactions")
    found = {}
    for match in (await listed(world.tenant, "/matches")).values():
        if match["imported"]["importId"] == told["id"]:
            [leg] = match["legs"]
            ends = (items[leg["expectedTransactionId"]], lines[leg["incomingTransactionId"]])
            key = (*(int(end["externalId"].split("-")[2]) for end in ends), leg["amountMinor"])
            found[key] = (match["decidedBy"], match["imported"]["reviewed"])
    assert found == wanted
    for row in (*items.values(), *lines.values()):
        name, its_run, number = row["externalId"].split("-")
        assert int(its_run) != run or row["openAmountMinor"] == left[name, int(number)]
