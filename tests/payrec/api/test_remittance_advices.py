"""Remittance advices and terms of payment over HTTP: taken in, matched in any order, and what is held back told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import permutations
from typing import Any

import pytest

from payrec.constants.remittance import ADVICE_LINES_MAX
from support.matching_world import World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

PATH = "/remittance-advices"
BOLT = {"counterpartyName": "Bolt GmbH"}
LISTED = [
    {"reference": "INV-2026-1", "amountMinor": 36_000, "deductionMinor": 4_000, "reason": "one was broken"},
    {"reference": "INV-2026-2", "amountMinor": 25_000},
]
GIVEN: dict[str, Any] = {**BOLT, "totalMinor": 61_000, "currency": "EUR", "lines": LISTED}


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        await made.set(autoAccept=True)
        yield made


async def advise(world: World, **changes: Any) -> dict[str, Any]:
    answer = await world.tenant.post(PATH, {**GIVEN, **changes})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    assert answer.headers["Location"] == f"{PATH}/{found['id']}"
    return found


async def invoices(world: World) -> list[str]:
    return [
        await world.expect(amount, reference=reference, externalId=reference, **BOLT)
        for reference, amount in (("INV-2026-1", "400.00"), ("INV-2026-2", "250.00"))
    ]


async def aged(tenant: Tenant, **parameters: Any) -> tuple[int, int]:
    """Return how much is open in the report on ageing, and in how many places."""
    answer = await tenant.get("/reports/ageing", params=parameters)
    assert answer.status_code == 200, answer.text
    lines = answer.json()["data"]
    return sum(line["open"]["amountMinor"] for line in lines), sum(line["open"]["count"] for line in lines)


async def holds(world: World, match: dict[str, Any]) -> None:
    """Compute a match again."""
    verification = world.service.factory.create_match_verification_service()
    found = await verification.verify(world.scope, match["id"])
    assert [check for check in found.checks if not check.holds] == []


async def test_what_is_taken_in_is_told_to_its_tenant_alone(world: World) -> None:
    made = await advise(world, paymentReference="RUN-1")
    assert made["lineCount"] == 2
    assert made["lines"][0] == {
        "reference": "INV-2026-1",
        "amountMinor": 36_000,
        "amount": "360.00",
        "deductionMinor": 4_000,
        "deduction": "40.00",
        "reason": "one was broken",
    }
    other = await advise(world)
    assert (await world.tenant.get(f"{PATH}/{made['id']}")).json() == made
    listed = (await world.tenant.get(PATH)).json()["data"]
    assert [row["id"] for row in listed] == [other["id"], made["id"]]
    assert "lines" not in listed[0]
    named = await world.tenant.get(PATH, params={"paymentReference": "RUN-1", "currency": "EUR"})
    assert [row["id"] for row in named.json()["data"]] == [made["id"]]
    assert (await world.bystander.get(PATH)).json()["data"] == []
    assert (await world.bystander.get(f"{PATH}/{made['id']}")).status_code == 404
    [record] = (await world.tenant.get("/audit-log", params={"resourceId": made["id"]})).json()["data"]
    assert (record["type"], record["after"]["totalMinor"]) == ("remittance_advice.created", 61_000)


@pytest.mark.parametrize(
    ("changes", "pointer", "code"),
    [
        ({"totalMinor": 60_999}, "/totalMinor", "advice_exceeds_payment"),
        ({"totalMinor": 61_001}, "/totalMinor", "advice_below_payment"),
        ({"counterpartyName": None}, "/paymentReference", "required"),
        ({"paymentReference": "A1"}, "/paymentReference", "unusable_reference"),
        ({"counterpartyName": "..."}, "/counterpartyName", "unusable_name"),
        ({"lines": [{"reference": "#", "amountMinor": 61_000}]}, "/lines/0/reference", "unusable_reference"),
        ({"lines": []}, "/lines", "too_short"),
        ({"lines": [LISTED[1]] * (ADVICE_LINES_MAX + 1)}, "/lines", "too_long"),
        ({"lines": [{"reference": "R-00001", "amountMinor": 0}]}, "/lines/0/amountMinor", "greater_than_equal"),
        (
            {"lines": [{"reference": "R-00001", "amountMinor": 1, "deductionMinor": -1}]},
            "/lines/0/deductionMinor",
            "greater_than_equal",
        ),
        ({"total": "610.00"}, "/total", "extra_forbidden"),
        ({"currency": "EURO"}, "/currency", None),
    ],
)
async def test_what_cannot_be_is_refused_with_its_place(
    world: World, changes: dict[str, Any], pointer: str, code: str | None
) -> None:
    answer = await world.tenant.post(PATH, {**GIVEN, **changes})
    assert (answer.status_code, answer.json()["code"]) == (422, "validation_failed")
    errors = {error["pointer"]: error["code"] for error in answer.json()["errors"]}
    assert pointer in errors
    assert code in {None, errors[pointer]}
    assert (await world.tenant.get(PATH)).json()["data"] == []


@pytest.mark.parametrize("order", list(permutations(("advice", "payment", "invoices"))))
async def test_in_any_order_of_arrival_the_state_is_one(world: World, order: tuple[str, ...]) -> None:
    items: list[str] = []
    line = ""
    for what in order:
        if what == "advice":
            await advise(world)
        elif what == "payment":
            line = await world.receive("610.00", **BOLT)
        else:
            items = await invoices(world)
        await world.run()
    match = await world.proposal()
    assert {(leg["expectedTransactionId"], leg["amountMinor"]) for leg in match["legs"]} == {
        (items[0], 36_000),
        (items[1], 25_000),
    }
    assert (match["confidence"], match["uniqueness"]["status"]) == ("exact", "unique")
    assert match["adjustments"] == [
        {
            "type": "deduction",
            "expectedTransactionId": items[0],
            "amountMinor": 4_000,
            "currency": "EUR",
        }
    ]
    assert match["explanation"].startswith(
        "A remittance advice lists the 2 invoices INV-2026-2, INV-2026-1 with the payment's 610.00 EUR,"
        " 40.00 EUR less than asked, taken as a deduction,"
    )
    await holds(world, match)
    assert (await world.accept(match)).status_code == 200
    await holds(world, match)
    states = [await world.expected(item) for item in items]
    assert [(row["status"], row["matchedAmountMinor"], row["openAmountMinor"]) for row in states] == [
        ("matched", 40_000, 0),
        ("matched", 25_000, 0),
    ]
    assert (await world.incoming(line))["status"] == "matched"
    assert await aged(world.tenant) == (4_000, 1)
    assert await world.bystander_decisions() == 0


async def test_what_is_held_back_stays_in_ageing_until_it_is_not(world: World) -> None:
    item = (await invoices(world))[0]
    line = await world.receive("360.00", **BOLT)
    before = await aged(world.tenant)
    deduction = {"type": "deduction", "expectedTransactionId": item, "amountMinor": 4_000, "currency": "EUR"}
    leg = {"expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": 36_000}
    answer = await world.tenant.post("/matches", {"legs": [leg], "adjustments": [deduction], "reason": "broken"})
    assert answer.status_code == 201, answer.text
    match = answer.json()
    assert await aged(world.tenant) == (29_000, 2)
    [named] = (await world.tenant.get("/reports/ageing", params={"groupBy": "counterparty"})).json()["data"]
    assert (named["name"], named["open"]["amountMinor"]) == ("Bolt GmbH", 29_000)
    assert named["buckets"]["notDue"]["amountMinor"] == 0
    accepted = match["decidedAt"]
    assert await aged(world.bystander) == before
    # The payment is of the 12th: until then all of it is open, and nothing was held back.
    await world.sql("UPDATE expected_transaction SET created_at = '2026-03-01'")
    assert await aged(world.tenant, cutOff="2026-03-11") == before
    assert await aged(world.tenant, cutOff="2026-03-12") == (29_000, 2)

    answer = await world.tenant.post(f"/matches/{match['id']}/reverse", {"reason": "no longer"})
    assert answer.status_code == 200, answer.text
    assert await aged(world.tenant) == before == (65_000, 2)
    then = await world.sql("SELECT max(at) AS at FROM change WHERE at < now() AND id IN (SELECT valid_from FROM leg)")
    assert await aged(world.tenant, asOf=then[0]["at"].isoformat()) == (29_000, 2), accepted


async def test_a_run_over_few_lines_reaches_what_is_listed(world: World) -> None:
    items = await invoices(world)
    bulk = [
        {"direction": "credit", "currency": "EUR", "amountMinor": 100 + n, "reference": f"OTHER-{n}"} for n in range(60)
    ]
    assert (await world.tenant.post("/expected-transactions/bulk", {"items": bulk})).status_code == 200
    await world.run()
    await world.receive("610.00", remittance="RUN-2026-77")
    await advise(world, paymentReference="RUN 2026/77", counterpartyName=None)
    await world.run()
    match = await world.proposal()
    assert {leg["expectedTransactionId"] for leg in match["legs"]} == set(items)


async def test_an_advice_of_thousands_of_lines_is_matched_whole(world: World) -> None:
    count = 2_000
    money = {"direction": "credit", "currency": "EUR", "amountMinor": 100}
    items = [{**money, "reference": f"INV-2026-{n:05}", "externalId": str(n)} for n in range(count)]
    answer = await world.tenant.post("/expected-transactions/bulk", {"items": items})
    assert answer.status_code == 200, answer.text
    lines = [{"reference": f"INV-2026-{n:05}", "amountMinor": 100} for n in range(count)]
    await advise(world, paymentReference="RUN-2026-1", totalMinor=100 * count, lines=lines)
    line = await world.receive(f"{count}.00", remittance="RUN-2026-1")
    await world.run()
    assert (await world.incoming(line))["status"] == "matched"
    [match] = await world.matches()
    assert (match["amountMinor"], match["kind"], match["confidence"]) == (100 * count, "one_to_many", "exact")
    await holds(world, match)


async def test_thousands_that_name_one_invoice_keep_nobody_waiting(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = (await invoices(world))[1]
    # One that lists an invoice a thousand times has it once.
    lines = [{"reference": "INV-2026-2", "amountMinor": 25}] * 1_000
    await advise(world, paymentReference="RUN-2026-1", totalMinor=25_000, lines=lines)
    line = await world.receive("250.00", remittance="RUN-2026-1")
    await world.run()
    [match] = await world.matches()
    assert (match["status"], [leg["amountMinor"] for leg in match["legs"]]) == ("accepted", [25_000])
    assert (await world.expected(item))["status"] == (await world.incoming(line))["status"] == "matched"
    # Beyond what a run looks at, those that came first are not read.
    monkeypatch.setattr("payrec.storage.remittance_advices.ADVICE_LINES_READ_MAX", 1)
    await world.receive("400.00", remittance="RUN-2026-2", counterpartyName="Somebody")
    whole = [{"reference": "INV-2026-1", "amountMinor": 40_000}]
    parts = [{"reference": "INV-2026-1", "amountMinor": 20_000}] * 2
    for listed in (whole, parts):
        await advise(world, paymentReference="RUN-2026-2", totalMinor=40_000, lines=listed)
    await world.run()
    assert len(await world.matches(status="accepted")) == 1
    await advise(world, paymentReference="RUN-2026-2", totalMinor=40_000, lines=whole)
    await world.run()
    assert len(await world.matches(status="accepted")) == 2


async def test_what_arrives_is_matched_soon(world: World) -> None:
    await world.set(autoRun=True)
    await advise(world)
    jobs = (await world.tenant.get("/jobs", params={"kind": "match"})).json()["data"]
    assert len(jobs) == 1
    await world.set(autoRun=False)


async def test_early_payment_settles_an_invoice_whole(world: World) -> None:
    terms = [{"amountMinor": 9_800, "until": "2026-03-12"}, {"amountMinor": 9_600, "until": "2026-03-01"}]
    item = await world.expect("100.00", reference="INV-2026-7", terms=terms)
    assert (await world.expected(item))["terms"] == terms[::-1]
    line = await world.receive("98.00", remittance="INV-2026-7")
    await world.run()
    [match] = await world.matches()
    await holds(world, match)
    assert (match["status"], match["confidence"]) == ("accepted", "exact")
    assert [(a["type"], a["amountMinor"]) for a in match["adjustments"]] == [("discount", 200)]
    assert ", taken as a discount," in match["explanation"]
    assert (await world.expected(item))["openAmountMinor"] == (await world.incoming(line))["openAmountMinor"] == 0
    assert await aged(world.tenant) == (0, 0)


async def test_terms_are_changed_and_removed(world: World) -> None:
    term = {"amountMinor": 9_800, "until": "2026-03-12"}
    item = await world.expect("100.00", terms=[term])
    path = f"/expected-transactions/{item}"
    same = await world.tenant.request("PATCH", path, json={"terms": [term]})
    assert same.json()["version"] == 1
    less = await world.tenant.request("PATCH", path, json={"amountMinor": 9_800})
    assert [(e["pointer"], e["code"]) for e in less.json()["errors"]] == [("/terms", "term_not_below_amount")]
    gone = await world.tenant.request("PATCH", path, json={"terms": None})
    assert (gone.json()["terms"], gone.json()["version"]) == ([], 2)
    await world.receive("98.00")
    await world.run()
    assert all(match["adjustments"] == [] for match in await world.matches())


@pytest.mark.parametrize(
    ("terms", "pointer", "code"),
    [
        ([{"amountMinor": 10_000, "until": "2026-03-12"}], "/terms", "term_not_below_amount"),
        ([{"amountMinor": 1, "until": "2026-03-12"}] * 2, "/terms", "term_twice"),
        ([{"amountMinor": 0, "until": "2026-03-12"}], "/terms/0/amountMinor", "greater_than_equal"),
        ([{"amountMinor": 1, "until": "soon"}], "/terms/0/until", None),
        ([{"amountMinor": 1}], "/terms/0/until", "missing"),
        ([{"amountMinor": n, "until": f"2026-03-1{n}"} for n in range(1, 7)], "/terms", "too_long"),
    ],
)
async def test_terms_that_cannot_be_are_refused(
    world: World, terms: list[dict[str, Any]], pointer: str, code: str | None
) -> None:
    body = {"direction": "credit", "currency": "EUR", "amount": "100.00", "terms": terms}
    for answer in (
        await world.tenant.post("/expected-transactions", body),
        (await world.tenant.post("/expected-transactions/bulk", {"items": [body]})),
    ):
        problem = answer.json() if answer.status_code == 422 else answer.json()["results"][0]["problem"]
        errors = {error["pointer"]: error["code"] for error in problem["errors"]}
        assert any(found.endswith(pointer) for found in errors), errors
        assert code is None or code in errors.values()


async def test_terms_come_by_the_thousand_and_from_files(world: World) -> None:
    body = {"direction": "credit", "currency": "EUR", "amount": "100.00", "reference": "INV-2026-9"}
    term = {"amountMinor": 9_800, "until": "2026-03-12"}
    items: list[dict[str, Any]] = [
        {**body, "externalId": "with", "terms": [term]},
        {**body, "externalId": "without", "reference": "I-9"},
    ]
    answer = await world.tenant.post("/expected-transactions/bulk", {"items": items})
    assert {result["status"] for result in answer.json()["results"]} == {201}
    answer = await world.tenant.post("/expected-transactions/upload", [{**items[0], "externalId": "filed"}])
    assert answer.status_code == 201, answer.text
    found = (await world.tenant.get("/expected-transactions")).json()["data"]
    assert {row["externalId"]: row["terms"] for row in found} == {"with": [term], "without": [], "filed": [term]}
    opened = await world.sql("SELECT terms FROM expected_open WHERE terms IS NOT NULL")
    assert [row["terms"] for row in opened] == [[9_800, 20_524]] * 2
