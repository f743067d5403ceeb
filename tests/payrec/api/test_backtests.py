"""Backtests: days that are over, decided once more as if nothing later were known, and what became of them."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from payrec.domain.scope import TenantScope
from payrec.models.tenants import Settings
from payrec.services.backtest_days import Day, decided
from payrec.services.matching_rules import rules_of
from support.ages import aged
from support.history import Month
from support.matching_world import TABLES, WORKER_LEAVES, World, matching_world
from support.seeds import seeds
from support.service import Service, Tenant
from support.wire import code, fields

pytestmark = pytest.mark.anyio

DAYS = 6
STILL = tuple(t for t in TABLES if t not in WORKER_LEAVES | {"job", "change", "audit_record", "idempotency"})


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        await age(made, 2)
        yield made


async def age(world: World, days: int = 1) -> None:
    """Let all that has happened so far have happened so many days before."""
    for scope in (world.scope, world.bystander_scope):
        async with world.service.factory.context.database.tenant(scope) as connection:
            for table, column in (("change", "at"), ("history_span", "begun_at")):
                await connection.execute(aged(table, f"{days} days", column).encode())


def ago(days: int) -> date:
    return (datetime.now(UTC) - timedelta(days=days)).date()


async def backtest(world: World, first: int, last: int, **params: Any) -> dict[str, Any]:
    """Do one over the days from so many to so many days ago, and return its result."""
    body = {"from": str(ago(first)), "to": str(ago(last)), **params}
    answer = await world.tenant.post("/jobs", {"kind": "backtest", "params": body})
    assert answer.status_code == 202, answer.text
    job = await world.ended(answer.json()["id"])
    assert job["status"] == "succeeded", job
    assert job["progress"]["done"] == job["progress"]["total"] == first - last + 1
    result: dict[str, Any] = job["result"]
    return result


async def day(world: World, days: int, *, scope: TenantScope | None = None, **matching: Any) -> Day:
    rules = rules_of(Settings.model_validate({"matching": matching}))
    return await decided(world.service.factory.context.database, scope or world.scope, ago(days), rules)


def told(run: dict[str, Any]) -> dict[str, tuple[set[str], bool, float]]:
    """Return what a dry run would do: of each line its partners, whether nobody has to look, and the score."""
    found: dict[str, tuple[set[str], bool, float]] = {}
    for proposal in run["proposals"]:
        for leg in proposal["legs"]:
            line = leg["incomingTransactionId"]
            one = found.setdefault(line, (set(), proposal["autoAccept"], proposal["score"]))
            one[0].add(leg["expectedTransactionId"])
    return found


def same(of_day: Day) -> dict[str, tuple[set[str], bool, float]]:
    return {
        str(line): ({str(p) for p in d.partners}, d.auto, d.score_milli / 1000) for line, d in of_day.decisions.items()
    }


NAME = {"counterpartyName": "Bolt GmbH"}
SURE = {"autoAccept": True, "autoAcceptMinConfidence": "high"}


async def test_a_day_is_decided_as_a_dry_run_would_have_on_it(world: World) -> None:
    """Whatever was decided, stated, learned and forgotten later."""
    await world.expect("100.00", reference="INV-2026-001", **NAME)
    voided = await world.expect("55.00", reference="INV-2026-003")
    await world.receive("40.00", remittance="INV-2026-001 first part")
    await age(world)
    await world.expect("75.00", **NAME)
    patched = await world.expect("80.00", reference="INV-2026-002")
    await world.receive("60.00", remittance="INV-2026-001 rest")
    await world.receive("75.00", counterpartyName="BOLT")
    await world.receive("80.00", remittance="INV-2026-002")
    live = told(await world.run(dryRun=True, settings={"matching": SURE}))
    assert len(live) == 4
    run = await world.run()
    assert run["counts"]["proposed"] == 3
    await age(world)
    for match in await world.matches(status="proposed"):
        verb = "reject" if match["amountMinor"] == 7_500 else "accept"
        answer = await world.tenant.post(f"/matches/{match['id']}/{verb}", {"reason": "seen"})
        assert answer.status_code == 200, answer.text
    answer = await world.tenant.post(f"/expected-transactions/{voided}/void", {"reason": "cancelled"})
    assert answer.status_code == 200, answer.text
    answer = await world.tenant.request("PATCH", f"/expected-transactions/{patched}", json={"dueDate": "2031-01-01"})
    assert answer.status_code == 200, answer.text
    await world.receive("55.00", remittance="INV-2026-003")
    found = await day(world, 1, **SURE)
    assert same(found) == live
    assert len(found.arrived) == 3
    before = await day(world, 2, **SURE)
    assert {line: auto for line, (_, auto, _) in same(before).items()} == {str(next(iter(before.arrived))): False}


@pytest.mark.parametrize("seed", seeds(3, 4, 5))
async def test_every_day_of_a_month_is_decided_as_on_it(world: World, seed: int) -> None:
    """A dry run on each day, before anybody decides, says what a backtest says of that day when all is over."""
    month = Month(world, random.Random(seed))  # noqa: S311 - a seed, no secret
    live = []
    for _ in range(DAYS):
        for _ in range(8):
            arrives = (month.expect, month.receive, month.thank, month.announce, month.repeat)
            await month.chance.choices(arrives, (5, 5, 3, 1, 1))[0]()
        live.append(told(await world.run(dryRun=True, settings={"matching": SURE})))
        for _ in range(8):
            await month.chance.choice(
                (month.run, month.accept, month.reject, month.reverse, month.patch, month.void, month.ignore,
                 month.restore, month.teach, month.forget)
            )()  # fmt: skip
        await age(world)
    assert any(live)
    assert [same(await day(world, DAYS - number, **SURE)) for number in range(DAYS)] == live


async def test_what_was_paid_by_then_is_known_as_on_the_day(world: World) -> None:
    await world.set(**SURE)
    for number in (1, 2):
        await world.expect("75.00", reference=f"INV-2026-00{number}", **NAME)
        await age(world)
    await world.receive("75.00", remittance="INV-2026-001", **NAME)
    await world.run()
    await age(world)
    await world.receive("75.00", remittance="INV-2026-001", bookingDate="2026-03-20", **NAME)
    live = told(await world.run(dryRun=True))
    await world.run()
    await age(world)
    assert [auto for _, auto, _ in live.values()] == [False]
    assert same(await day(world, 1, **SURE)) == live
    assert [auto for _, auto, _ in same(await day(world, 2, **SURE)).values()] == [True]


@pytest.mark.parametrize("field", ["remittance", "endToEndId"])
async def test_who_names_another_number_was_left_to_a_person_on_the_day(world: World, field: str) -> None:
    await world.expect("75.00", reference="INV-2026-00141", **NAME)
    await world.expect("85.00", reference="INV-2026-00142", **NAME)
    await age(world)
    await world.receive("75.00", **{"remittance": "invoice 4", field: "INV-2026-00199", **NAME})
    await world.receive("85.00", remittance="thank you", **NAME)
    live = told(await world.run(dryRun=True, settings={"matching": SURE}))
    await age(world)
    assert sorted(auto for _, auto, _ in live.values()) == [False, True]
    assert same(await day(world, 1, **SURE)) == live


SETTLED = {
    "of the same counterparty": (NAME, NAME),
    "among the alternatives": (NAME, {"counterpartyName": "Bolt Works Berlin"}),
}


@pytest.mark.parametrize("other", SETTLED)
async def test_what_runs_had_settled_by_then_made_nobody_surer_on_the_day(world: World, other: str) -> None:
    """Though somebody has taken it back since."""
    await world.set(**SURE)
    paid, left = ({"reference": f"INV-2026-004{n}", **of_whom} for n, of_whom in enumerate(SETTLED[other]))
    await world.expect(**paid)
    await world.expect(**left)
    quoted = paid["reference"] if other == "of the same counterparty" else paid["reference"][:-1]
    await world.receive(remittance=quoted, **NAME)
    line = await world.receive(remittance="thank you", counterpartyName=left["counterpartyName"])
    await world.run()
    await age(world)
    live = told(await world.run(dryRun=True))
    assert {of: auto for of, (_, auto, _) in live.items()} == {line: False}
    [match] = await world.matches(status="accepted")
    await age(world)
    answer = await world.tenant.post(f"/matches/{match['id']}/reverse", {"reason": "was for another one"})
    assert answer.status_code == 200, answer.text
    assert same(await day(world, 1, **SURE)) == live


async def test_what_runs_settle_later_or_elsewhere_makes_nobody_less_sure(world: World) -> None:
    """The other tenant has the same, of which a person has put away what a run has settled here."""
    await world.expect(reference="INV-2026-0041", **NAME)
    line = await world.receive(remittance="thank you", **NAME)
    live = told(await world.run(dryRun=True, settings={"matching": SURE}))
    await age(world)
    await world.expect(reference="INV-2026-0042", **NAME)
    await world.receive(remittance="INV-2026-0042", **NAME)
    await world.set(autoAccept=True, autoAcceptMinConfidence="exact")
    assert (await world.run())["counts"]["autoAccepted"] == 1
    for path, verb in (("/expected-transactions", "void"), ("/incoming-transactions", "ignore")):
        [one] = (await world.bystander.get(path, params={"q": "INV-2026-0042"})).json()["data"]
        answer = await world.bystander.post(f"{path}/{one['id']}/{verb}", {"reason": "not ours"})
        assert answer.status_code == 200, answer.text
    await age(world)
    assert same(await day(world, 2, **SURE)) == live
    assert [auto for _, auto, _ in live.values()] == [True]
    here = same(await day(world, 0, **SURE))
    assert {of: auto for of, (_, auto, _) in here.items()} == {line: False}
    elsewhere = same(await day(world, 0, scope=world.bystander_scope, **SURE))
    assert [auto for _, auto, _ in elsewhere.values()] == [True]


async def test_a_name_that_is_learned_later_was_not_known_before(world: World) -> None:
    await world.set(autoAccept=True)
    await world.expect("75.00", **NAME)
    await world.receive("75.00", counterpartyName="XY HOLDING")
    assert told(await world.run(dryRun=True)) == {}
    await age(world)
    await world.expect("20.00", reference="INV-2026-001", **NAME)
    await world.receive("20.00", remittance="INV-2026-001", counterpartyName="XY HOLDING")
    await world.run()
    assert [a["statementName"] for a in (await world.tenant.get("/matching/aliases")).json()["data"]] == ["XY HOLDING"]
    await age(world)
    await world.receive("3.00")
    live = told(await world.run(dryRun=True))
    assert len(live) == 1
    await age(world)
    assert same(await day(world, 3, autoAccept=True)) == {}
    assert same(await day(world, 1, autoAccept=True)) == live


async def test_a_rule_is_tried_on_the_lines_of_its_scope(world: World) -> None:
    for number, account in enumerate(("DE-MAIN", "DE-OTHER")):
        await world.expect("100.00", reference=f"INV-2026-00{number}")
        await world.receive("99.00", remittance=f"INV-2026-00{number}", account=account)
    await age(world)
    rule = {"name": "main", "priority": 1, "scope": {"account": "DE-MAIN"}, "amountToleranceMinor": 100}
    found = await day(world, 1, autoAccept=True, rules=[rule])
    assert sorted(decision.auto for decision in found.decisions.values()) == [False, True]


async def test_what_a_looser_tolerance_would_have_done_is_told_with_links(world: World) -> None:
    lines = []
    for number, paid in enumerate(("100.00", "99.00", "98.50")):
        await world.expect("100.00", reference=f"INV-2026-00{number}")
        lines.append(await world.receive(paid, remittance=f"INV-2026-00{number}"))
    await world.receive("7.00", remittance="nothing that anybody knows")
    await world.set(autoAccept=True)
    await world.run()
    for match in await world.matches(status="proposed"):
        assert (await world.accept(match)).status_code == 200
    matches = {m["legs"][0]["incomingTransactionId"]: m["id"] for m in await world.matches(status="accepted")}
    assert set(matches) == set(lines)
    await age(world)
    before = await world.digest(*STILL)

    plain = await backtest(world, 1, 1)
    assert plain["figures"] == plain["actual"] == {
        "lines": 4, "matched": 3, "autoAccepted": 1, "right": 1, "wrong": 0, "undecided": 0,
        "matchRate": 0.25, "errorRate": 0.0, "recall": 0.333333,
    }  # fmt: skip
    assert (plain["gained"]["count"], plain["lost"]["count"], plain["wrong"]["count"]) == (0, 0, 0)
    assert plain["atPrecision"]["recall"] == 1.0

    loose = await backtest(world, 1, 1, settings={"matching": {"amountToleranceMinor": 100}})
    assert (loose["figures"]["autoAccepted"], loose["figures"]["right"]) == (2, 2)
    assert loose["gained"]["lines"] == [
        {
            "incomingTransactionId": lines[1],
            "incomingTransactionUrl": f"/incoming-transactions/{lines[1]}",
            "matchId": matches[lines[1]],
            "matchUrl": f"/matches/{matches[lines[1]]}",
        }
    ]
    for url in (loose["gained"]["lines"][0]["incomingTransactionUrl"], loose["gained"]["lines"][0]["matchUrl"]):
        assert (await world.tenant.get(url)).status_code == 200

    strict = await backtest(
        world, 1, 1, settings={"matching": {"rules": [{"name": "none", "priority": 1, "autoAccept": False}]}}
    )
    assert (strict["figures"]["autoAccepted"], strict["actual"]["autoAccepted"]) == (0, 1)
    assert [line["incomingTransactionId"] for line in strict["lost"]["lines"]] == [lines[0]]
    assert await world.digest(*STILL) == before


async def by_hand(world: World, item: str, line: str, amount_minor: int) -> str:
    legs = [{"expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": amount_minor}]
    answer = await world.tenant.post("/matches", {"legs": legs, "reason": "the payer said so"})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def test_what_was_accepted_for_another_item_is_wrong(world: World) -> None:
    item = await world.expect("100.00", reference="INV-2026-001")
    other = await world.expect("100.00", reference="INV-2026-002")
    line = await world.receive("100.00", remittance="INV-2026-001")
    match = await by_hand(world, other, line, 10_000)
    await age(world)
    result = await backtest(world, 1, 1, settings={"matching": {"autoAccept": True}})
    assert (result["figures"]["right"], result["figures"]["wrong"], result["figures"]["errorRate"]) == (0, 1, 1.0)
    assert [wrong["matchId"] for wrong in result["wrong"]["lines"]] == [match]
    assert result["atPrecision"] == {"precision": None, "recall": None, "score": None}
    assert (await world.expected(item))["status"] == "open"


async def test_what_a_run_has_accepted_and_somebody_taken_back_was_accepted_in_fact(world: World) -> None:
    """Else what runs do would have no error, ever, whatever it is compared with."""
    await world.set(autoAccept=True)
    for number in (1, 2, 3):
        await world.expect("100.00", reference=f"INV-2026-00{number}")
    other = await world.expect("100.00", reference="INV-2026-004")
    lines = [await world.receive("100.00", remittance=f"INV-2026-00{number}") for number in (1, 2, 3)]
    await world.run()
    accepted = {m["legs"][0]["incomingTransactionId"]: m["id"] for m in await world.matches(status="accepted")}
    assert set(accepted) == set(lines)
    for line in lines[:2]:
        answer = await world.tenant.post(f"/matches/{accepted[line]}/reverse", {"reason": "was for another invoice"})
        assert answer.status_code == 200, answer.text
    await by_hand(world, other, lines[0], 10_000)
    await age(world)
    result = await backtest(world, 1, 1)
    assert result["figures"] == result["actual"] == {
        "lines": 3, "matched": 2, "autoAccepted": 3, "right": 1, "wrong": 1, "undecided": 1,
        "matchRate": 1.0, "errorRate": 0.5, "recall": 0.5,
    }  # fmt: skip
    strict = {"matching": {"rules": [{"name": "none", "priority": 1, "autoAccept": False}]}}
    assert (await backtest(world, 1, 1, settings=strict))["lost"]["count"] == 3


async def test_what_nobody_expects_is_counted_apart_from_the_match_rate(world: World) -> None:
    """As in the reports: fees and interest are no payments that anybody would have matched."""
    await world.set(autoAccept=True)
    await world.expect("100.00", reference="INV-2026-001")
    await world.receive("100.00", remittance="INV-2026-001")
    await world.receive("55.00", remittance="what for")
    fees = [await world.receive(f"{number}.50", remittance="account fee") for number in (1, 2, 3)]
    await world.run()
    for line in fees[:2]:
        answer = await world.tenant.post(f"/incoming-transactions/{line}/classify", {"category": "fee"})
        assert answer.status_code == 200, answer.text
    answer = await world.tenant.post(f"/incoming-transactions/{fees[2]}/ignore", {"reason": "not ours"})
    assert answer.status_code == 200, answer.text
    await age(world)
    result = await backtest(world, 1, 1)
    assert result["figures"] == result["actual"] == {
        "lines": 2, "matched": 1, "autoAccepted": 1, "right": 1, "wrong": 0, "undecided": 0,
        "matchRate": 0.5, "errorRate": 0.0, "recall": 1.0,
    }  # fmt: skip


async def test_a_line_counts_once_however_many_days_it_was_open(world: World) -> None:
    await world.receive("100.00", remittance="INV-2026-001")
    await age(world)
    await world.expect("100.00", reference="INV-2026-001")
    await age(world)
    result = await backtest(world, 2, 1, settings={"matching": {"autoAccept": True}})
    assert (result["days"], result["figures"]["lines"], result["figures"]["undecided"]) == (2, 1, 1)
    assert (await backtest(world, 2, 2))["figures"]["autoAccepted"] == 0


@pytest.mark.parametrize(
    ("first", "last", "more", "wrong"),
    [
        (1, 2, {}, ("/params/from", "range_invalid")),
        (400, 1, {}, ("/params/from", "range_invalid")),
        (1, 1, {"precision": 0}, ("/params/precision", "greater_than")),
        (1, 1, {"days": 3}, ("/params/days", "extra_forbidden")),
        (1, 1, {"settings": {"matching": {"x": 1}}}, ("/params/settings/matching/x", "extra_forbidden")),
    ],
)
async def test_what_cannot_be_tested_is_refused(
    world: World, first: int, last: int, more: dict[str, Any], wrong: tuple[str, str]
) -> None:
    body = {"from": str(ago(first)), "to": str(ago(last)), **more}
    answer = await world.tenant.post("/jobs", {"kind": "backtest", "params": body})
    assert (answer.status_code, fields(answer)) == (422, {wrong})


@pytest.mark.parametrize(("first", "last"), [(1, 0), (300, 299)])
async def test_days_that_are_not_over_or_not_known_are_refused(world: World, first: int, last: int) -> None:
    body = {"from": str(ago(first)), "to": str(ago(last))}
    answer = await world.tenant.post("/jobs", {"kind": "backtest", "params": body})
    assert (answer.status_code, code(answer)) == (422, "as_of_out_of_range")


async def test_a_rate_that_was_corrected_later_is_the_old_one(world: World) -> None:
    await world.expect("100.00", reference="INV-2026-001")
    await world.receive("108.00", currency="USD", remittance="INV-2026-001")
    await world.rate("EUR", "USD", "1.08")
    live = told(await world.run(dryRun=True))
    assert len(live) == 1
    await age(world)
    await world.rate("EUR", "USD", "1.50")
    assert told(await world.run(dryRun=True)) == {}
    assert same(await day(world, 1)) == live
