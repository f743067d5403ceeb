"""Snapshots of what another system has open: what differs, as of their instant, whole or not at all, and once."""

from __future__ import annotations

import asyncio
import csv
import io
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from payrec.services import retention
from support.history import instant
from support.matching_world import World, matching_world
from support.service import Service, Tenant
from support.wire import code, problem

pytestmark = pytest.mark.anyio

PATH = "/expected-transactions/snapshots"
EXPECTED = "/expected-transactions"
TABLES = ("expected_snapshot_difference", "expected_transaction", "expected_open", "event")
KINDS = ("missingHere", "missingThere", "amountDiffers")


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


def totals(records: list[dict[str, Any]]) -> str:
    """Return the control totals of records that say their amounts in minor units."""
    found: dict[str, list[int]] = {}
    for record in records:
        of = found.setdefault(record["currency"], [0, 0])
        of[0] += 1
        of[1] += record["openAmountMinor"]
    return json.dumps([{"currency": c, "count": of[0], "amountMinor": of[1]} for c, of in found.items()])


async def ask(tenant: Tenant, records: list[dict[str, Any]] | str, **options: str) -> httpx2.Response:
    if not isinstance(records, str):
        options["controlTotals"] = options.get("controlTotals") or totals(records)
        records = "".join(json.dumps(record) + "\n" for record in records)
    return await tenant.post(PATH, files={"file": ("open-items", records.encode())}, data=options)


async def compared(world: World, records: list[dict[str, Any]] | str, **options: str) -> dict[str, Any]:
    answer = await ask(world.tenant, records, **{"takenAt": await instant(world), **options})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    assert (await world.tenant.get(answer.headers["location"])).json() == found
    return found


async def differences(tenant: Tenant, snapshot: dict[str, Any], **parameters: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        answer = await tenant.get(snapshot["differencesUrl"], params={"limit": 2, **parameters, **cursor})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += page["data"]
        if not page["hasMore"]:
            return found
        cursor = {"cursor": page["nextCursor"]}


def item(name: str, minor: int, **more: Any) -> dict[str, Any]:
    return {"externalId": name, "openAmountMinor": minor, "currency": "EUR", **more}


async def test_what_differs_is_told_by_kind_with_counts_and_sums(world: World) -> None:
    await world.expect("10.00", externalId="same")
    await world.expect("100.00", externalId="settled", openAmountMinor=4_000)
    less = await world.expect("20.00", externalId="less")
    void = await world.expect("30.00", externalId="void")
    away = await world.expect("40.00", externalId="away")
    nameless = await world.expect("50.00")
    other = await world.expect("60.00", externalId="other", currency="USD")
    assert (await world.tenant.post(f"{EXPECTED}/{void}/void", {"reason": "cancelled"})).status_code == 200
    paid = await world.expect("70.00", externalId="paid", reference="INV-2026-0070")
    await world.receive("70.00", remittance="INV-2026-0070")
    await world.run()
    assert (await world.accept(await world.proposal())).status_code == 200
    there = [
        item("same", 1_000, direction="credit"),
        item("settled", 4_000),
        item("less", 1_999),
        item("void", 3_000),
        item("other", 6_000),
        item("paid", 7_000),
        item("new", 123),
    ]
    found = await compared(world, there)
    assert [found[kind]["count"] for kind in KINDS] == [1, 2, 4]
    assert found["status"] == "completed"
    assert found["created"] == 0
    [new] = found["missingHere"]["first"]
    assert (new["externalId"], new["here"], new["expectedTransactionId"]) == ("new", None, None)
    assert new["there"] == {"openAmountMinor": 123, "openAmount": "1.23", "currency": "EUR", "direction": None}
    assert [(d["expectedTransactionId"], d["there"]) for d in found["missingThere"]["first"]] == [
        (away, None),
        (nameless, None),
    ]
    told = {d["externalId"]: (d["expectedTransactionId"], d["here"]) for d in found["amountDiffers"]["first"]}
    here = {"currency": "EUR", "direction": "credit", "openAmountMinor": 0, "openAmount": "0.00"}
    assert told == {
        "less": (less, {**here, "openAmountMinor": 2_000, "openAmount": "20.00", "status": "open"}),
        "other": (
            other,
            {**here, "currency": "USD", "openAmountMinor": 6_000, "openAmount": "60.00", "status": "open"},
        ),
        "paid": (paid, {**here, "status": "matched"}),
        "void": (void, {**here, "status": "void"}),
    }
    sums = {
        s["currency"]: (s["count"], s["here"]["amountMinor"], s["there"]["amount"])
        for s in found["amountDiffers"]["sums"]
    }
    assert sums == {"EUR": (4, 2_000, "179.99"), "USD": (1, 6_000, "0.00")}
    assert adds_up(found)

    all_of_them = await differences(world.tenant, found)
    assert all_of_them == [d for kind in KINDS for d in found[kind]["first"]]
    only = await differences(world.tenant, found, kind="amount_differs")
    assert only == found["amountDiffers"]["first"]
    sheet = await world.tenant.get(found["differencesUrl"], headers={"Accept": "text/csv"})
    read = list(csv.DictReader(io.StringIO(sheet.text)))
    assert [(row["kind"], row["externalId"]) for row in read] == [
        (d["kind"], d["externalId"] or "") for d in all_of_them
    ]

    assert (await world.tenant.get(PATH, params={"status": "completed"})).json()["data"] == [found]
    assert (await world.bystander.get(PATH)).json()["data"] == []
    for path in (f"{PATH}/{found['id']}", found["differencesUrl"]):
        assert (await world.bystander.get(path)).status_code == 404
    [imported] = (await world.tenant.get("/imports", params={"resource": "expected-snapshots"})).json()["data"]
    assert imported["counts"] == {"records": 7, "accepted": 0, "duplicates": 0, "skipped": 7, "rejected": 0}


def adds_up(found: dict[str, Any]) -> bool:
    """Tell whether the totals differ by what the differences come to, in each currency."""
    left: Counter[str] = Counter()
    for total in found["totals"]:
        left[total["currency"]] += total["here"]["amountMinor"] - total["there"]["amountMinor"]
    for kind in KINDS:
        for of in found[kind]["sums"]:
            left[of["currency"]] -= of["here"]["amountMinor"] - of["there"]["amountMinor"]
    return not any(left.values())


async def test_it_is_compared_with_what_was_open_when_it_was_taken(world: World) -> None:
    changed = await world.expect("10.00", externalId="changed")
    gone = await world.expect("20.00", externalId="gone")
    taken = await instant(world)
    await world.tenant.request("PATCH", f"{EXPECTED}/{changed}", json={"amount": "11.00"})
    await world.tenant.post(f"{EXPECTED}/{gone}/void", {"reason": "cancelled"})
    later = await world.expect("30.00", externalId="later")
    there = [item("changed", 1_000), item("gone", 2_000), item("later", 3_000)]
    then = await compared(world, there, takenAt=taken)
    assert [then[kind]["count"] for kind in KINDS] == [1, 0, 0]
    [came] = then["missingHere"]["first"]
    assert (came["expectedTransactionId"], came["outcome"]) == (later, "came_since")
    now = await compared(world, there)
    assert [now[kind]["count"] for kind in KINDS] == [0, 0, 2]


async def test_what_is_missing_is_created_where_it_says_what_that_needs(world: World) -> None:
    known = await world.expect("10.00", externalId="known", dueDate=None)
    whole = {"amount": "100.00", "direction": "credit", "reference": "INV-1", "metadata": {"order": "17"}}
    there = [
        item("known", 900),
        item("whole", 4_000, **whole),
        item("bare", 500),
        item("more", 20_000, **whole),
    ]
    del there[1]["openAmountMinor"]
    options = {"controlTotals": totals([item("", 25_400), *[item("", 0)] * 3]), "apply": "true"}
    there[1]["openAmount"] = "40.00"
    before = await world.digest("expected_transaction")
    alone = await compared(world, there, controlTotals=options["controlTotals"])
    assert await world.digest("expected_transaction") == before
    assert [d["outcome"] for d in alone["missingHere"]["first"]] == [None] * 3
    taken = await instant(world)
    found = await compared(world, there, takenAt=taken, **options)
    assert (found["apply"], found["created"], found["missingHere"]["count"]) == (True, 1, 3)
    told = {d["externalId"]: d for d in found["missingHere"]["first"]}
    assert told["bare"]["outcome"] == told["more"]["outcome"] == "not_created"
    assert "/direction" in told["bare"]["detail"]
    assert "/openAmountMinor" in told["more"]["detail"]
    made = await world.expected(told["whole"]["expectedTransactionId"])
    assert (told["whole"]["outcome"], made["externalId"], made["metadata"]) == ("created", "whole", {"order": "17"})
    assert (made["settledBeforeMinor"], made["openAmountMinor"], made["amountMinor"]) == (6_000, 4_000, 10_000)
    assert (await world.expected(known))["openAmountMinor"] == 1_000
    again = await ask(world.tenant, "".join(json.dumps(r) + "\n" for r in there), takenAt=taken, **options)
    assert (again.status_code, again.json()) == (200, found)
    # What was created is matched as anything else.
    await world.receive("40.00", remittance="INV-1")
    await world.run()
    assert (await world.proposal())["amountMinor"] == 4_000


async def test_what_a_snapshot_is_of_bounds_what_is_missing_there(world: World) -> None:
    await world.expect("10.00", externalId="in")
    await world.expect("20.00", externalId="out", direction="debit")
    await world.expect("30.00", externalId="dollars", currency="USD")
    found = await compared(
        world,
        "externalId,openAmount\nx,1.00\n",
        direction="credit",
        currency="EUR",
        controlTotals=totals([item("x", 100)]),
    )
    assert [d["externalId"] for d in found["missingThere"]["first"]] == ["in"]
    assert found["missingHere"]["first"][0]["there"]["direction"] == "credit"
    answer = await ask(world.tenant, [item("x", 100)], takenAt=await instant(world), currency="USD")
    assert problem(answer)["errors"][0]["code"] == "outside_snapshot"


EUR_1 = '"currency": "EUR", "count": '
ONE = [item("a", 1)]
WRONG: list[tuple[Any, dict[str, str], str, str]] = [
    (ONE, {"controlTotals": f'[{{{EUR_1} 1, "amount": "0.02"}}]'}, "control_totals_mismatch", "/controlTotals/0"),
    (ONE, {"controlTotals": f'[{{{EUR_1} 2, "amountMinor": 1}}]'}, "control_totals_mismatch", "/controlTotals/0"),
    (ONE, {"controlTotals": "[]"}, "control_totals_mismatch", "/controlTotals"),
    (ONE, {"controlTotals": "[1"}, "validation_failed", "/controlTotals"),
    (ONE, {"controlTotals": f'[{{{EUR_1} 1, "amount": "0.011"}}]'}, "validation_failed", "/controlTotals/0/amount"),
    (ONE, {"controlTotals": f'[{{{EUR_1} -1, "amount": "0.01"}}]'}, "validation_failed", "/controlTotals/0/count"),
    ([*ONE, item("a", 2)], {}, "validation_failed", "/line/2"),
    ([*ONE, item("b", 0)], {}, "validation_failed", "/line/2"),
    ([*ONE, {**item("b", 2), "openAmount": "0.02"}], {}, "validation_failed", "/line/2"),
    ([*ONE, {**item("b", 2), "nonsense": 1}], {}, "validation_failed", "/line/2"),
    ([*ONE, {"openAmountMinor": 2, "currency": "EUR"}], {}, "validation_failed", "/line/2"),
    (ONE, {"takenAt": "2999-01-01T00:00:00Z"}, "as_of_out_of_range", ""),
    (ONE, {"takenAt": "2001-01-01T00:00:00Z"}, "as_of_out_of_range", ""),
    (ONE, {"takenAt": "yesterday"}, "validation_failed", "/takenAt"),
    ("externalId;openAmountMinor;surprise\n", {"controlTotals": "[]"}, "unreadable_file", ""),
]


async def test_differences_go_when_their_time_is_over_and_sums_stay(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "DIFFERENCES_DROPPED_AT_ONCE", 2)
    records = [item(f"I-{n}", 100 + n) for n in range(5)]
    old, young = [await compared(world, records[n:]) for n in (0, 1)]
    aged = "UPDATE import SET created_at = now() - interval '401 days' WHERE id = %s"
    await world.sql(aged, old["id"])
    report = await world.service.factory.upkeep.create_retention_service().drop_expired()
    assert (report.of("snapshot_differences").count, report.failed) == (5, 0)
    found = (await world.tenant.get(f"{PATH}/{old['id']}")).json()
    assert (found["differencesUrl"], found["missingHere"]["first"]) == (None, [])
    assert found["missingHere"]["sums"] == old["missingHere"]["sums"]
    assert (await world.tenant.get(old["differencesUrl"])).json()["data"] == []
    assert len(await differences(world.tenant, young)) == 4
    query = "SELECT resource_id FROM audit_record WHERE action = 'expected_snapshot.differences_dropped'"
    assert [str(row["resource_id"]) for row in await world.sql(query)] == [old["id"]] * 3


async def test_what_is_wrong_is_refused_whole(world: World) -> None:
    await world.expect("10.00", externalId="here")
    before = await world.digest(*TABLES)
    for records, options, wanted, pointer in WRONG:
        answer = await ask(world.tenant, records, **{"takenAt": await instant(world), "apply": "true", **options})
        assert (answer.status_code, code(answer)) == (422, wanted), (options, answer.text)
        assert [e["pointer"] for e in answer.json().get("errors", [])][:1] == ([pointer] if pointer else []), (
            answer.text
        )
    assert {row["status"] for row in (await world.tenant.get(PATH)).json()["data"]} == {"failed"}
    after = await world.digest(*TABLES)
    del before["event"], after["event"]
    assert after == before


async def test_twenty_at_once_are_one_snapshot(world: World) -> None:
    await world.expect("10.00", externalId="here")
    taken = await instant(world)
    there = [item(f"n-{n}", n + 1, amount="5000.00", direction="credit") for n in range(50)]
    asked = (
        ask(tenant, there, takenAt=taken, apply="true") for _ in range(10) for tenant in (world.tenant, world.bystander)
    )
    answers = await asyncio.gather(*asked)
    assert Counter(answer.status_code for answer in answers)[201] == 2
    assert {answer.status_code for answer in answers} <= {200, 201, 202}
    assert len({answer.json()["id"] for answer in answers}) == 2
    for tenant in (world.tenant, world.bystander):
        [found] = (await tenant.get(PATH)).json()["data"]
        assert (found["created"], found["missingHere"]["count"], found["missingThere"]["count"]) == (50, 50, 1)
    [row] = await world.sql("SELECT count(*) AS n FROM expected_open")
    assert row["n"] == 51


async def test_a_worker_compares_a_large_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("payrec.services.imports.INLINE_BYTES_MAX", 0)
    taken = await instant(world)
    for wrong in (False, True):
        records = [item("a", 1)]
        given = totals(records if not wrong else [item("a", 2)])
        answer = await ask(world.tenant, records, takenAt=taken, controlTotals=given)
        assert (answer.status_code, answer.json()["missingHere"]) == (202, None), answer.text
        job = await world.ended(answer.json()["jobId"])
        found = (await world.tenant.get(f"{PATH}/{answer.json()['id']}")).json()
        if wrong:
            assert (job["status"], found["error"]["code"]) == ("failed", "control_totals_mismatch")
            assert found["missingHere"] is None
        else:
            assert (job["result"]["missingHere"], found["missingHere"]["count"]) == (1, 1)


NUMBERS = itertools.count(1)
SAID = st.sampled_from(["same", "amount", "direction", "currency", "missing_here", "missing_there"])
ITEMS = st.lists(
    st.tuples(SAID, st.integers(2, 900), st.sampled_from([0, 7]), st.sampled_from(["credit", "debit"])), max_size=15
)


@given(drawn=ITEMS, currencies=st.lists(st.sampled_from(["EUR", "JPY"]), min_size=15, max_size=15))
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
async def test_differences_are_those_of_two_lists(
    world: World, drawn: list[tuple[str, int, int, str]], currencies: list[str]
) -> None:
    # Each is of an account of its own: what others left is of another one.
    account = f"account-{next(NUMBERS)}"
    items: list[dict[str, Any]] = []
    there: list[dict[str, Any]] = []
    wanted: Counter[tuple[str, str]] = Counter()
    for n, ((says, minor, settled, direction), currency) in enumerate(zip(drawn, currencies, strict=False)):
        money = {"direction": direction, "currency": currency, "account": account}
        if says != "missing_here":
            amounts = {"amountMinor": minor + settled, "openAmountMinor": minor}
            items.append({"externalId": f"{account}-{n}", **amounts, **money})
        if says != "missing_there":
            record = item(f"{account}-{n}", minor + (says == "amount"), **money)
            if says == "direction":
                record["direction"] = "debit" if direction == "credit" else "credit"
            if says == "currency":
                record["currency"] = "USD"
            there.append(record)
        if says != "same":
            wanted[says if says.startswith("missing") else "amount_differs", f"{account}-{n}"] += 1
    if items:
        answer = await world.tenant.post(f"{EXPECTED}/bulk", {"items": items})
        assert {result["status"] for result in answer.json()["results"]} == {201}
    # A file with one record more has something in it.
    found = await compared(world, [*there, item("one", 1)], account=account)
    wanted["missing_here", "one"] += 1
    assert Counter((d["kind"], d["externalId"]) for d in await differences(world.tenant, found, limit=200)) == wanted
    assert adds_up(found)
