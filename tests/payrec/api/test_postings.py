"""Postings over HTTP: what each decision gives the books, by which codes, once; and what these have taken over."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import httpx2
import pytest

from payrec.constants.postings import POSTINGS_PAGE_MAX
from payrec.services import postings as service_of_postings
from support.matching_world import World
from support.postings import (
    CODES,
    Row,
    decide,
    entries,
    leg,
    match,
    played,
    posted,
    posting_world,
    postings,
    set_codes,
)
from support.service import Service, Tenant
from support.statements import IBAN
from support.wire import add_user, code, fields

pytestmark = pytest.mark.anyio

MATCHES, LINES, ACKNOWLEDGEMENTS = "/matches", "/incoming-transactions", "/postings/acknowledgements"


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with posting_world(service, acme, globex) as made:
        yield made


async def test_a_match_is_posted_by_the_codes_of_then_and_its_reversal_counters_it(world: World) -> None:
    item, line = await world.expect(externalId="E1"), await world.receive("98.00", account="GIRO")
    fee = {"type": "fee", "expectedTransactionId": item, "amountMinor": 200, "currency": "EUR"}
    made = await match(world, leg(item, line, 9_800), adjustments=[fee])
    [first] = await posted(world)
    assert first == {
        "sequence": 1,
        "effectiveOn": "2026-03-12",
        "kind": "match",
        "sourceId": made["id"],
        "createdAt": first["createdAt"],
        "lines": [
            {
                "code": "1200",
                "direction": "debit",
                "amountMinor": 9_800,
                "currency": "EUR",
                "incomingTransactionId": line,
            },
            {
                "code": "1400",
                "direction": "credit",
                "amountMinor": 10_000,
                "currency": "EUR",
                "expectedExternalId": "E1",
            },
            {"code": "4970", "direction": "debit", "amountMinor": 200, "currency": "EUR"},
        ],
    }
    assert first["createdAt"].endswith("Z")
    # Codes that are others by then take nothing back by others.
    await set_codes(world, {**CODES, "receivableCode": "1499", "accounts": []})
    await decide(world, f"{MATCHES}/{made['id']}/reverse", {"reason": "not this one"})
    [_, second] = await posted(world)
    assert (second["kind"], second["sourceId"], second["reversesSequence"]) == ("match_reversal", made["id"], 1)
    assert entries(second) == [("1200", -9_800, "EUR"), ("1400", 10_000, "EUR"), ("4970", -200, "EUR")]
    assert played(await posted(world)) == (Counter(), Counter(), Counter())
    await match(world, leg(item, line, 9_800))
    assert entries((await posted(world, 2))[0]) == [("1499", -9_800, "EUR"), ("1590", 9_800, "EUR")]
    assert (await posted(world))[0] == first


async def test_what_is_owed_by_us_exchanges_transfers_and_credit_notes(world: World) -> None:
    bill, paid = await world.expect("30.00", direction="debit"), await world.receive("30.00", direction="debit")
    await match(world, leg(bill, paid, 3_000))
    item, line = await world.expect("100.00"), await world.receive("110.00", currency="USD", account="GIRO")
    fx = {"type": "fx", "expectedTransactionId": item, "amountMinor": 100, "currency": "EUR", "rate": "0.9"}
    await match(world, leg(item, line, 11_000), adjustments=[fx])
    payout = await world.receive("50.00", direction="debit", account="STRIPE")
    deposit = await world.receive("50.00", account="GIRO")
    both = {"incomingTransactionId": deposit, "contraIncomingTransactionId": payout, "amountMinor": 5_000}
    await match(world, both)
    invoice, note = await world.expect("20.00"), await world.expect("20.00", direction="debit", externalId="CN")
    both = {"expectedTransactionId": invoice, "contraExpectedTransactionId": note, "amountMinor": 2_000}
    await match(world, both)
    overpaid, more = await world.expect("10.00"), await world.receive("12.00", account="GIRO")
    over = {"type": "over_payment", "incomingTransactionId": more, "amountMinor": 200, "currency": "EUR"}
    await match(world, leg(overpaid, more, 1_000), adjustments=[over])
    found = await posted(world)
    assert [entries(posting) for posting in found] == [
        [("1590", -3_000, "EUR"), ("1600", 3_000, "EUR")],
        [("1200", 11_000, "USD"), ("1360", -11_000, "USD"), ("1360", 10_000, "EUR"), ("1400", -10_000, "EUR")],
        [("1200", 5_000, "EUR"), ("1210", -5_000, "EUR")],
        [("1400", -2_000, "EUR"), ("1600", 2_000, "EUR")],
        [("1200", 1_200, "EUR"), ("1400", -1_000, "EUR"), ("2700", -200, "EUR")],
    ]
    played(found)


async def test_a_line_that_nobody_expected_is_posted_as_what_it_is(world: World) -> None:
    lines = [await world.receive("5.00", account="GIRO") for _ in range(3)]
    out = await world.receive("7.00", account="GIRO", direction="debit")
    said: list[Row] = [
        {"category": "interest"}, {"category": "interest", "postingCode": "2651"}, {"category": "gift"}
    ]  # fmt: skip
    for line, body in zip(lines, said, strict=True):
        await decide(world, f"{LINES}/{line}/classify", body)
    await decide(world, f"{LINES}/{out}/ignore", {"reason": "of no interest"})
    found = await posted(world)
    assert [entries(posting) for posting in found] == [
        [("1200", 500, "EUR"), (other, -500, "EUR")] for other in ("2650", "2651", "1590")
    ]
    assert {posting["kind"] for posting in found} == {"classification"}
    assert [posting["sourceId"] for posting in found] == lines
    # Each time anew, even if nobody looks in between.
    for verb, body in (("restore", {}), ("classify", {"category": "gift"}), ("restore", {})):
        await decide(world, f"{LINES}/{lines[0]}/{verb}", body)
    await decide(world, f"{LINES}/{out}/restore")
    later = await posted(world, 3)
    assert [(p["kind"], p.get("reversesSequence")) for p in later] == [
        ("classification_reversal", 1), ("classification", None), ("classification_reversal", 5)
    ]  # fmt: skip
    of_line, _, _ = played(await posted(world))
    assert of_line == dict.fromkeys(lines[1:], 500)


async def test_returns_counter_their_share_and_a_reversal_the_rest(world: World) -> None:
    items = [await world.expect("60.00", externalId=f"E{n}") for n in range(2)]
    line = await world.receive("120.00", account="GIRO")
    made = await match(world, *(leg(item, line, 6_000) for item in items))
    fields_ = {"direction": "debit", "account": "GIRO", "bankTransactionCode": "PMNT-RCDT-RRTN"}
    backs = []
    for number, (minor, item) in enumerate([(1_000, items[0]), (6_000, items[1])]):
        back = await world.receive(f"{minor / 100:.2f}", **fields_, bookingDate=f"2026-04-0{number + 1}")
        body = {"incomingTransactionId": line, "amountMinor": minor, "expectedTransactionId": item}
        await decide(world, f"{LINES}/{back}/link-reversal", body)
        backs.append(back)
    found = await posted(world)
    assert [(p["kind"], p.get("reversesSequence"), p["effectiveOn"]) for p in found] == [
        ("match", None, "2026-03-12"), ("return", 1, "2026-04-01"), ("return", 1, "2026-04-02")
    ]  # fmt: skip
    assert [posting["sourceId"] for posting in found[1:]] == backs
    # Each line has moved, and the item is as far open again.
    gone = {backs[0]: -1_000, backs[1]: -6_000}
    assert played(found)[:2] == ({line: 12_000, **gone}, {"E0": -5_000})
    await decide(world, f"{MATCHES}/{made['id']}/reverse", {"reason": "all of it"})
    found = await posted(world)
    assert entries(found[-1]) == [("1200", -5_000, "EUR"), ("1400", 5_000, "EUR")]
    assert played(found) == ({line: 7_000, **gone}, Counter(), Counter())
    # So it is with what is taken back of what was open, also from another account.
    alone = await world.receive("9.00", account="GIRO")
    back = await world.receive("9.00", **{**fields_, "account": "STRIPE"})
    await decide(world, f"{LINES}/{back}/link-reversal", {"incomingTransactionId": alone})
    [last] = await posted(world, len(found))
    assert (last["kind"], last["sourceId"], last.get("reversesSequence")) == ("return", back, None)
    assert entries(last) == [("1200", 900, "EUR"), ("1210", -900, "EUR")]
    assert played([last])[0] == {alone: 900, back: -900}


async def test_the_account_of_a_provider_has_what_it_moved(world: World) -> None:
    keeps = "UPDATE incoming_transaction SET net_minor = %s, net_currency = 'EUR' WHERE id = %s"
    item, line = await world.expect(externalId="E1"), await world.receive(account="STRIPE")
    await world.sql(keeps, 9_701, line)
    made = await match(world, leg(item, line, 4_000))
    # As the reconciliation statement of the account has it, which cannot tell a part of a cent either.
    [account] = (await world.tenant.get("/accounts", params={"identifier": "STRIPE"})).json()["data"]
    stated = await world.tenant.get(f"/accounts/{account['id']}/reconciliation", params={"cutOff": "2026-03-31"})
    assert stated.json()["allocated"]["sumMinor"] == played(await posted(world))[2]["1210", "EUR"] == 3_880
    await match(world, leg(item, line, 6_000))
    back = await world.receive("40.00", direction="debit", account="STRIPE", bankTransactionCode="refund")
    await world.sql(keeps, -4_050, back)
    await decide(
        world,
        f"{LINES}/{back}/link-reversal",
        {"incomingTransactionId": line, "amountMinor": 4_000},
    )
    payout = await world.receive("56.51", direction="debit", account="STRIPE")
    deposit = await world.receive("56.51", account="GIRO")
    both = {"incomingTransactionId": deposit, "contraIncomingTransactionId": payout, "amountMinor": 5_651}
    await match(world, both)
    found = await posted(world)
    # A return that is there when its match is numbered follows it at once; else it comes later.
    back_of = next(posting for posting in found if posting["kind"] == "return")
    ordered = [*(posting for posting in found if posting["kind"] == "match"), back_of]
    assert [entries(posting) for posting in (*ordered[:2], back_of)] == [
        [("1210", -120, "EUR"), ("1210", 4_000, "EUR"), ("1400", -4_000, "EUR"), ("4970", 120, "EUR")],
        [("1210", -179, "EUR"), ("1210", 6_000, "EUR"), ("1400", -6_000, "EUR"), ("4970", 179, "EUR")],
        [("1210", -4_000, "EUR"), ("1210", -50, "EUR"), ("1400", 4_000, "EUR"), ("4970", 50, "EUR")],
    ]
    assert back_of["reversesSequence"] == 1
    of_line, _, of_code = played(found)
    assert (of_line[line], of_line[back]) == (10_000, -4_000)
    assert of_code["1210", "EUR"] == 0
    assert made["id"] == found[0]["sourceId"]


async def test_what_waits_for_a_second_person_is_posted_when_that_has_approved(world: World) -> None:
    path = f"/tenants/{world.tenant.id}/settings"
    limit = {"approval": {"secondPersonAboveMinor": 5_000, "currency": "EUR"}}
    assert (await world.tenant.request("PATCH", path, json=limit)).status_code == 200
    pairs = [(await world.expect("80.00"), await world.receive("80.00", account="GIRO")) for _ in range(2)]
    made = [await match(world, leg(item, line, 8_000)) for item, line in pairs]
    assert {m["status"] for m in made} == {"pending_approval"}
    back = await world.receive("30.00", direction="debit", bankTransactionCode="PMNT-RCDT-RRTN", account="GIRO")
    link = {"incomingTransactionId": pairs[0][1], "amountMinor": 3_000}
    await decide(world, f"{LINES}/{back}/link-reversal", link)
    await decide(world, f"{MATCHES}/{made[1]['id']}/reject", {"reason": "no"})
    assert await posted(world) == []
    _, second = await add_user(world.service, world.tenant, "approver")
    assert (await second.post(f"{MATCHES}/{made[0]['id']}/approve")).status_code == 200
    found = await posted(world)
    assert [(p["kind"], p["sourceId"]) for p in found] == [("match", made[0]["id"]), ("return", back)]
    assert played(found)[0] == {pairs[0][1]: 8_000, back: -3_000}


async def test_what_a_run_accepts_is_posted_in_pages(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.set(autoAccept=True, autoAcceptMinConfidence="high")
    for n in range(7):
        name = f"INV-2026-{n:03}"
        await world.expect(f"{n + 1}.00", reference=name, counterpartyName="Bolt GmbH", externalId=name)
        await world.receive(f"{n + 1}.00", remittance=name, counterpartyName="BOLT GMBH", account="GIRO")
    run = await world.run()
    found = await posted(world)
    assert len(found) == run["counts"]["autoAccepted"] == 7
    assert {posting["sourceId"] for posting in found} == {m["id"] for m in await world.matches(status="accepted")}
    assert played(found)[1] == {f"INV-2026-{n:03}": -100 * (n + 1) for n in range(7)}
    assert await postings(world.tenant, limit=2) == found
    page = await world.tenant.get("/postings", params={"limit": 3})
    assert [p["sequence"] for p in page.json()["data"]] == [1, 2, 3]
    following = await world.tenant.get(page.links["next"]["url"])
    assert [p["sequence"] for p in following.json()["data"]] == [4, 5, 6]
    # However many a page may have, so are its lines.
    monkeypatch.setattr(service_of_postings, "POSTING_LINES_PAGE_MAX", 5)
    page = await world.tenant.get("/postings", params={"after": 1})
    assert ([p["sequence"] for p in page.json()["data"]], page.json()["hasMore"]) == ([2, 3], True)
    assert await postings(world.tenant) == found
    for wrong in ({"limit": POSTINGS_PAGE_MAX + 1}, {"after": -1}, {"sort": "createdAt"}, {"before": 3}):
        answer = await world.tenant.get("/postings", params=wrong)
        assert (answer.status_code, code(answer)) == (422, "validation_failed"), wrong
    assert (await world.tenant.get("/postings", params={"createdFrom": "2999-01-01T00:00:00Z"})).json()["data"] == []


async def acknowledge(tenant: Tenant, through: int, batch: str) -> httpx2.Response:
    return await tenant.post(ACKNOWLEDGEMENTS, {"throughSequence": through, "externalBatchId": batch})


async def test_postings_are_acknowledged_once_and_never_backwards(world: World, globex: Tenant) -> None:
    answer = await acknowledge(world.tenant, 1, "B0")
    assert (answer.status_code, fields(answer)) == (422, {("/throughSequence", "unknown_sequence")})
    for _ in range(4):
        line = await world.receive("5.00", account="GIRO")
        await decide(world, f"{LINES}/{line}/classify", {"category": "interest"})
    await posted(world)
    first = await acknowledge(world.tenant, 2, "B1")
    told = first.json()
    assert (first.status_code, told["fromSequence"], told["throughSequence"]) == (201, 1, 2)
    again = await acknowledge(world.tenant, 2, "B1")
    assert (again.status_code, again.json()) == (200, told)
    for through, batch in ((1, "B2"), (2, "B2"), (3, "B1"), (1, "B1")):
        refused = await acknowledge(world.tenant, through, batch)
        assert (refused.status_code, code(refused)) == (409, "invalid_state"), (through, batch)
    for through in (5, 2**63 - 1):
        refused = await acknowledge(world.tenant, through, "B3")
        assert (refused.status_code, code(refused)) == (422, "validation_failed")
    for body in ({"throughSequence": 0, "externalBatchId": "B"}, {"throughSequence": 3}, {"throughSequence": "3"}):
        assert (await world.tenant.post(ACKNOWLEDGEMENTS, body)).status_code == 422
    _, operator = await add_user(world.service, world.tenant, "operator")
    assert code(await acknowledge(operator, 3, "B4")) == "insufficient_permission"
    assert code(await acknowledge(globex, 1, "B1")) == "validation_failed"
    answers = await asyncio.gather(*(acknowledge(world.tenant, 3 + n % 2, f"C{n % 4}") for n in range(20)))
    statuses = Counter(answer.status_code for answer in answers)
    made = [answer.json() for answer in answers if answer.status_code == 201]
    assert 1 <= statuses[201] <= 2
    assert statuses.keys() <= {200, 201, 409}
    listed = (await world.tenant.get(ACKNOWLEDGEMENTS, params={"sort": "createdAt"})).json()["data"]
    assert listed == [told, *sorted(made, key=lambda row: row["throughSequence"])]
    spans = [(row["fromSequence"], row["throughSequence"]) for row in listed]
    assert all(one[1] + 1 == other[0] for one, other in pairwise(spans))
    assert spans[-1][1] == 4
    assert (await world.tenant.get(ACKNOWLEDGEMENTS, params={"externalBatchId": "B1"})).json()["data"] == [told]
    assert (await globex.get(ACKNOWLEDGEMENTS)).json()["data"] == []
    audited = "SELECT resource_id::text AS id, after FROM audit_record WHERE action = 'postings.acknowledged'"
    assert {row["id"] for row in await world.sql(audited)} == {row["id"] for row in listed}


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ({"accounts": [{"account": "A", "code": "1"}] * 2}, "/posting/accounts/1"),
        (
            {"accounts": [{"account": a, "code": "1"} for a in (IBAN, "de89 3704 0044 0532 0130 00")]},
            "/posting/accounts/1",
        ),
        ({"adjustments": [{"type": "fee", "code": c} for c in "12"]}, "/posting/adjustments/1"),
        ({"categories": [{"category": "fee", "code": c} for c in "12"]}, "/posting/categories/1"),
        ({"categories": [{"category": "Fee", "code": "1"}]}, "/posting/categories/0/category"),
        ({"adjustments": [{"type": "tax", "code": "1"}]}, "/posting/adjustments/0/type"),
        ({"suspenseCode": ""}, "/posting/suspenseCode"),
        ({"receivableCode": "x" * 65}, "/posting/receivableCode"),
        ({"receivable": "1400"}, "/posting/receivable"),
    ],
)  # fmt: skip
async def test_codes_that_cannot_be_are_refused(world: World, given: dict[str, Any], pointer: str) -> None:
    answer = await world.tenant.request("PATCH", f"/tenants/{world.tenant.id}/settings", json={"posting": given})
    assert answer.status_code == 422, answer.text
    assert {name for name, _ in fields(answer)} == {pointer}


async def test_what_was_decided_elsewhere_is_not_posted_but_taken_back(world: World) -> None:
    for n in range(2):
        await world.expect(externalId=f"E{n}")
        await world.receive(externalId=f"L{n}", account="GIRO")
    said = {"decidedAt": "2026-03-12T08:00:00Z", "decidedBy": "ada", "reviewed": True, "amountMinor": 10_000}
    given = [{"expectedExternalId": f"E{n}", "incomingExternalId": f"L{n}", **said} for n in range(2)]
    files = {"file": ("past", "\n".join(json.dumps(one) for one in given).encode())}
    assert (await world.tenant.post("/matches/import", files=files)).status_code == 201
    assert await posted(world) == []
    [first, second] = await world.matches(status="accepted")
    lines = [match["legs"][0]["incomingTransactionId"] for match in (first, second)]
    # One return of both payments: the books have to take back a part of each.
    back = await world.receive("50.00", direction="debit", account="GIRO", bankTransactionCode="PMNT-RCDT-RRTN")
    for line, minor in zip(lines, (3_000, 2_000), strict=True):
        await decide(world, f"{LINES}/{back}/link-reversal", {"incomingTransactionId": line, "amountMinor": minor})
    assert [entries(posting) for posting in await posted(world)] == [
        [("1200", -minor, "EUR"), ("1400", minor, "EUR")] for minor in (3_000, 2_000)
    ]
    # The rest goes by the codes of then.
    await set_codes(world, {**CODES, "receivableCode": "1499"})
    await decide(world, f"{MATCHES}/{first['id']}/reverse", {"reason": "not this one"})
    [one, other, rest] = await posted(world)
    assert (rest["kind"], rest["sourceId"], entries(rest)) == (
        "match_reversal", first["id"], [("1200", -7_000, "EUR"), ("1400", 7_000, "EUR")]
    )  # fmt: skip
    assert not any("reversesSequence" in posting for posting in (one, other, rest))
    again = await match(world, leg(first["legs"][0]["expectedTransactionId"], lines[0], 7_000))
    assert [(p["kind"], p["sourceId"]) for p in await posted(world, 3)] == [("match", again["id"])]


async def test_what_is_kept_of_a_payment_in_parts_comes_to_the_whole_beside_what_was_decided_elsewhere(
    world: World,
) -> None:
    items = [await world.expect(externalId=f"E{n}") for n in range(4)]
    lines = [await world.receive(externalId=f"L{n}", account="STRIPE") for n in range(2)]
    await world.sql("UPDATE incoming_transaction SET net_minor = 9701, net_currency = 'EUR'")
    said = {"decidedAt": "2026-03-12T08:00:00Z", "decidedBy": "ada", "reviewed": True, "amountMinor": 4_000}
    given = json.dumps({"expectedExternalId": "E0", "incomingExternalId": "L0", **said})
    assert (await world.tenant.post("/matches/import", files={"file": ("past", given.encode())})).status_code == 201
    both = await match(world, leg(items[0], lines[0], 100), leg(items[1], lines[1], 4_100))
    await match(world, leg(items[2], lines[0], 2_900), leg(items[2], lines[1], 5_900))
    # What is left of the first comes to the last cent, though what was kept of its other parts was rounded.
    await match(world, leg(items[3], lines[0], 3_000))
    kept = [sum(minor for code, minor, _ in entries(p) if code == "4970") for p in await posted(world)]
    # Of the first 120 were kept already, of 40.00: 123 - 120, 210 - 123, 299 - 210. Of the second 123, 299 - 123.
    assert kept == [3 + 123, 87 + 176, 89]
    await decide(world, f"{MATCHES}/{both['id']}/reverse", {"reason": "not this one"})
    await match(world, leg(items[0], lines[0], 60), leg(items[1], lines[1], 4_100))
    await match(world, leg(items[0], lines[0], 40))
    kept = [sum(minor for code, minor, _ in entries(p) if code == "4970") for p in await posted(world)]
    assert sum(kept) == 2 * 299 - 120
