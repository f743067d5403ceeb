"""Statements of an account follow each other or something is missing, whatever came first and whoever came at once."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import random
from collections import Counter
from typing import Any

import pytest

from payrec.domain.continuity import FINDINGS, judge
from payrec.services.statements import stored_ends
from payrec.storage.statements import StatementStore
from support.events import TOLD
from support.samples import requires_samples, sample
from support.seeds import seeds
from support.service import Service, Tenant
from support.statements import IBAN, camt, message
from support.wire import rows

pytestmark = pytest.mark.anyio

RAW = {"Content-Type": "application/octet-stream"}
EVENTS = f"SELECT resource_id, data FROM {TOLD} WHERE type = 'import.statement_gap' ORDER BY place"  # noqa: S608
DAYS = [camt(0, 10_000, 0, number=1), camt(10_000, 15_050, 1, number=2), camt(15_050, 900, 4, number=3)]
OTHER = "NL91ABNA0417164300"


@pytest.fixture
async def tenant(service: Service, request: pytest.FixtureRequest) -> Tenant:
    """A tenant of the test's own: continuity depends on what is there."""
    slug = "t" + hashlib.sha256(request.node.name.encode()).hexdigest()[:20]
    return await service.tenant(slug, environments=["production"])


async def upload(tenant: Tenant, *statements: str, **options: str) -> dict[str, Any]:
    answer = await tenant.post(
        "/incoming-transactions/upload", headers=RAW, content=message(*statements), params=options
    )
    assert answer.status_code in {200, 201}, answer.text
    return dict(answer.json())


async def again(tenant: Tenant, made: dict[str, Any]) -> dict[str, Any]:
    return dict((await tenant.get(f"/imports/{made['id']}")).json())


def verdicts(*imports: dict[str, Any]) -> list[str]:
    return [balance["continuity"] for made in imports for balance in made["balances"]]


async def findings(tenant: Tenant, made: dict[str, Any]) -> list[tuple[str, int | None]]:
    told = (await tenant.get(made["errorsUrl"])).json()["data"]
    return [(p["code"], p["statement"]) for p in told if p["code"].startswith("statement_")]


async def stored(service: Service, tenant: Tenant) -> Counter[tuple[Any, ...]]:
    """Return what is said of each statement, whichever import has it."""
    query = "SELECT statement_id, continuity, expected_opening_minor, expected_on FROM statement"
    return Counter(tuple(row.values()) for row in await rows(service, tenant, query))


async def test_a_missing_statement_is_told_and_taken_back_when_it_comes(service: Service, tenant: Tenant) -> None:
    first, last = await upload(tenant, DAYS[0]), await upload(tenant, DAYS[2])
    assert verdicts(first, last) == ["first", "gap"]
    [balance] = last["balances"]
    assert (balance["expectedOpeningMinor"], balance["expectedOpeningDate"]) == (10_000, "2026-03-02")
    [told] = (await tenant.get(last["errorsUrl"])).json()["data"]
    assert (told["code"], told["severity"], told["statement"], told["line"]) == ("statement_gap", "warning", 0, None)
    assert told["detail"] == (
        "the statement of 2026-03-06 opens with 150.50 EUR, that of 2026-03-02 before it closed with 100.00 EUR, "
        "a difference of 50.50 EUR (numbers 1 and 3); a statement is missing between the two"
    )
    [event] = await rows(service, tenant, EVENTS)
    assert str(event["resource_id"]) == last["id"]
    assert event["data"] == {
        "importId": last["id"],
        "account": "DE89370400440532013000",
        "currency": "EUR",
        "statementIds": ["S0-0-10000", "S4-15050-900"],
        "sequenceNumbers": [1, 3],
        "expectedOpeningMinor": 10_000,
        "openingMinor": 15_050,
        "differenceMinor": 5_050,
        "previousClosingDate": "2026-03-02",
        "closingDate": "2026-03-06",
    }

    missing = await upload(tenant, DAYS[1])
    after = await again(tenant, last)
    assert verdicts(missing, after) == ["ok", "ok"]
    assert (after["balances"][0]["expectedOpeningMinor"], after["version"] > last["version"]) == (None, True)
    assert await findings(tenant, after) == []
    assert len(await rows(service, tenant, EVENTS)) == 1
    query = "SELECT resource_id, before, after FROM audit_record WHERE action = 'import.statement_judged_again'"
    assert [(str(r["resource_id"]), r["before"], r["after"]) for r in await rows(service, tenant, query)] == [
        (last["id"], {"0": "gap"}, {"0": "ok"})
    ]


async def test_an_earlier_statement_shows_what_is_missing_before_a_later_one(service: Service, tenant: Tenant) -> None:
    last = await upload(tenant, DAYS[2])
    assert verdicts(last) == ["first"]
    await upload(tenant, DAYS[0])
    after = await again(tenant, last)
    assert (verdicts(after), await findings(tenant, after)) == (["gap"], [("statement_gap", 0)])
    [event] = await rows(service, tenant, EVENTS)
    assert (event["data"]["importId"], str(event["resource_id"])) == (last["id"], last["id"])


async def test_whatever_the_order_the_verdicts_are_the_same(service: Service) -> None:
    found = []
    whole = [*DAYS, camt(7, 9, 2, account=OTHER), camt(20, 9, 3, account=OTHER)]
    for n, order in enumerate(itertools.permutations(range(4))):
        if n % 4:
            continue
        tenant = await service.tenant(f"order-{n}", environments=["production"])
        files = [whole[:1], whole[1:2], whole[2:4], whole[4:]]
        for place in order:
            await upload(tenant, *files[place])
        # Once more with other options, and all in one file: the same statements, there already.
        await upload(tenant, *DAYS[:2], account="IGNORED")
        await upload(tenant, *whole)
        found.append(await stored(service, tenant))
    assert all(one == found[0] for one in found)
    assert Counter(verdict for (_, verdict, _, _), n in found[0].items() for _ in range(n)) == Counter(
        {"first": 2, "ok": 2, "gap": 1, "overlap": 7}
    )


@pytest.mark.parametrize("seed", seeds(0, 1, 2, 3))
async def test_what_is_stored_is_what_all_statements_together_say(service: Service, tenant: Tenant, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same files every time
    files = []
    for _ in range(14):
        statements = [
            camt(
                chance.randrange(4) * 100,
                chance.randrange(4) * 100,
                chance.randrange(6),
                account=chance.choice([IBAN, OTHER]),
                number=chance.choice([None, None, chance.randrange(6)]),
            )
            for _ in range(chance.choice([1, 1, 2]))
        ]
        files.append(statements)
    for place in range(0, len(files), 2):
        await asyncio.gather(*(upload(tenant, *file) for file in files[place : place + 2]))
    found = await rows(service, tenant, "SELECT * FROM statement")
    said = {j.ends.key: (j.continuity, j.expected_minor, j.expected_on) for j in judge(map(stored_ends, found))}
    assert said == {
        (row["import_id"], row["ordinal"]): (row["continuity"], row["expected_opening_minor"], row["expected_on"])
        for row in found
    }
    query = "SELECT import_id, statement_index FROM import_problem WHERE code LIKE 'statement%'"
    told = Counter((p["import_id"], p["statement_index"]) for p in await rows(service, tenant, query))
    assert told == Counter(key for key, (verdict, _, _) in said.items() if verdict in FINDINGS)


@requires_samples
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_two_days_of_a_real_bank_follow_each_other(tenant: Tenant, order: tuple[int, int]) -> None:
    names = ["camt/camt053_v8_no_indicator_on_balance.xml", "camt/camt053_v8_next_day.xml"]
    made = {}
    for place in order:
        answer = await tenant.post("/incoming-transactions/upload", headers=RAW, content=sample(names[place]))
        made[place] = answer.json()
    assert verdicts(await again(tenant, made[0]), await again(tenant, made[1])) == ["first", "first", "ok", "ok"]


async def test_the_same_statement_again_is_no_reason_to_worry(tenant: Tenant) -> None:
    await upload(tenant, *DAYS)
    more = await upload(tenant, *DAYS[1:], camt(900, 1000, 5, number=4))
    assert verdicts(more) == ["overlap", "overlap", "ok"]
    told = (await tenant.get(more["errorsUrl"])).json()["data"]
    assert [(p["severity"], p["statement"]) for p in told] == [("info", 0), ("info", 1)]
    assert more["counts"]["duplicates"] == 2


async def test_what_is_missing_within_one_file_is_told_once(tenant: Tenant) -> None:
    made = await upload(tenant, DAYS[0], DAYS[2])
    assert (verdicts(made), await findings(tenant, made)) == (["first", "gap"], [("statement_gap", 1)])


async def test_a_file_that_fills_a_gap_of_another_file_says_nothing_of_its_own(tenant: Tenant) -> None:
    ends = await upload(tenant, DAYS[0], DAYS[2])
    middle = await upload(tenant, DAYS[1])
    assert await findings(tenant, middle) == await findings(tenant, await again(tenant, ends)) == []


async def test_uploads_at_the_same_time_come_to_the_same_verdicts(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = [camt(n, n + 1, n) for n in range(12)]
    everybody = asyncio.Barrier(2)
    holds = StatementStore.hold_accounts

    async def together(store: StatementStore, accounts: set[str]) -> None:
        # Both have stored their statements, and neither sees the other's yet.
        await everybody.wait()
        await holds(store, accounts)

    monkeypatch.setattr(StatementStore, "hold_accounts", together)
    for n in range(0, 12, 2):
        await asyncio.gather(upload(tenant, chain[n]), upload(tenant, chain[n + 1]))
    monkeypatch.undo()
    assert Counter(row[1] for row in (await stored(service, tenant)).elements()) == {"first": 1, "ok": 11}
    assert await rows(service, tenant, "SELECT 1 FROM import_problem") == []


async def test_many_uploads_of_several_accounts_at_once_wait_for_each_other_and_end(
    service: Service, tenant: Tenant
) -> None:
    accounts = ["DE89370400440532013000", OTHER, "FR1420041010050500013M02606"]

    async def day(n: int) -> None:
        order = accounts if n % 2 else accounts[::-1]
        await upload(tenant, *(camt(n, n + 1, n, account=account) for account in order))

    await asyncio.gather(*(day(n) for n in range(10)))
    assert Counter(row[1] for row in (await stored(service, tenant)).elements()) == {"first": 3, "ok": 27}
    assert await rows(service, tenant, "SELECT 1 FROM import_problem") == []


async def test_an_account_of_others_is_nobody_s_neighbour(service: Service, acme: Tenant, globex: Tenant) -> None:
    await upload(acme, DAYS[0])
    assert verdicts(await upload(globex, DAYS[2])) == ["first"]
    answer = await acme.post("/incoming-transactions/upload", None, "test", headers=RAW, content=message(DAYS[2]))
    assert verdicts(answer.json()) == ["first"]
    assert await rows(service, globex, EVENTS) == await rows(service, acme, EVENTS, "test") == []


async def test_a_statement_that_is_refused_is_nobody_s_neighbour(tenant: Tenant) -> None:
    broken = message(DAYS[1]).replace(
        b'<Amt Ccy="EUR">50.50</Amt><CdtDbtInd>CRDT</CdtDbtInd><Sts>', b"<Amt>x</Amt><Sts>"
    )
    answer = await tenant.post(
        "/incoming-transactions/upload", headers=RAW, content=broken, params={"mode": "all_or_nothing"}
    )
    assert answer.status_code == 422
    assert verdicts(await upload(tenant, DAYS[2])) == ["first"]


async def test_what_carries_no_balance_is_not_judged(tenant: Tenant) -> None:
    line = {"direction": "credit", "amount": "1.00", "currency": "EUR", "bookingDate": "2026-03-03", "account": "A"}
    made = (await tenant.post("/incoming-transactions/upload", [line])).json()
    assert verdicts(made) == ["not_available"]
    assert (made["balances"][0]["kind"], await findings(tenant, made)) == ("transactions", [])


async def test_a_day_of_more_statements_than_are_looked_at_is_judged_as_far_as_that_goes(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("payrec.services.statements.CONTINUITY_DAY_STATEMENTS_MAX", 3)
    made = await upload(tenant, *(camt(n, n + 1, 0) for n in range(5)))
    assert verdicts(made) == ["first", "ok", "ok", "not_available", "not_available"]


async def test_a_file_of_more_statements_than_are_looked_at_says_so(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("statements", "import_processing"):
        monkeypatch.setattr(f"payrec.services.{module}.CONTINUITY_STATEMENTS_MAX", 2)
    made = await upload(tenant, *(camt(n, n + 1, n) for n in range(3)))
    assert verdicts(made) == ["first", "ok", "not_available"]
    told = (await tenant.get(made["errorsUrl"])).json()["data"]
    assert [p["code"] for p in told] == ["continuity_not_checked"]
