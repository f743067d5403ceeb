"""An own account is called the same everywhere, however it was typed: where it is stored, and where it is asked for."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from payrec.storage.migrations import loaded_scripts, statements_of
from support.history import instant
from support.matching_world import World, matching_world
from support.service import Service, Tenant
from support.wire import rows

pytestmark = pytest.mark.anyio

EXPECTED, INCOMING = "/expected-transactions", "/incoming-transactions"
TYPED, STORED = "de89 3704 0044 0532 0130 00", "DE89370400440532013000"
OTHER_TYPED, OTHER = "  the   till ", "the till"
MONEY = {"direction": "credit", "amount": "10.00", "currency": "EUR"}
REPORTS = ("ageing", "open-balances", "summary", "exceptions")


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def accounts(tenant: Tenant, path: str = EXPECTED) -> set[str | None]:
    return {row["account"] for row in (await tenant.get(path)).json()["data"]}


async def snapshot(world: World, content: str, count: int, minor: int, **options: str) -> dict[str, Any]:
    total = json.dumps([{"currency": "EUR", "count": count, "amountMinor": minor}])
    given = {"takenAt": await instant(world), "controlTotals": total, **options}
    answer = await world.tenant.post(f"{EXPECTED}/snapshots", files={"file": ("open", content.encode())}, data=given)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def test_items_are_stored_as_lines_are(world: World) -> None:
    tenant = world.tenant
    [made, till] = [(await tenant.post(EXPECTED, {**MONEY, "account": a})).json() for a in (TYPED, OTHER_TYPED)]
    assert (made["account"], till["account"]) == (STORED, OTHER)
    patched = await tenant.request("PATCH", f"{EXPECTED}/{till['id']}", json={"account": TYPED})
    assert patched.json()["account"] == STORED
    assert (await tenant.post(f"{EXPECTED}/bulk", {"items": [{**MONEY, "account": TYPED}]})).status_code == 200
    header = "externalId,direction,amount,currency,account\n"
    for content, options in ((f"{header}a,credit,1.00,EUR,{TYPED}\n", {}), (f"{header}b,credit,1.00,EUR,\n", TYPED)):
        data = {"account": options} if options else {}
        answer = await tenant.post(f"{EXPECTED}/upload", files={"file": ("items", content.encode())}, data=data)
        assert (answer.status_code, answer.json()["counts"]["accepted"]) == (201, 1)
    record = {"externalId": "c", "openAmount": "2.00", "amount": "2.00", "currency": "EUR", "direction": "credit"}
    content = "\n".join(json.dumps({**record, "externalId": n, "account": a}) for n, a in (("c", TYPED), ("d", STORED)))
    found = await snapshot(world, content, 2, 400, apply="true", account=TYPED)
    assert (found["created"], found["account"]) == (2, STORED)
    assert await accounts(tenant) == {STORED}
    assert [row["id"] for row in await world.sql("SELECT id FROM account")] == []
    assert await accounts(world.bystander) == set()


async def test_whoever_asks_for_an_account_may_type_it(world: World) -> None:
    for account in (TYPED, OTHER_TYPED):
        for number in range(2):
            words = {"reference": f"INV-2026-{number}", "counterpartyName": "Bolt GmbH"}
            await world.expect(f"{10 + number}.00", account=account, externalId=f"{account}{number}", **words)
            await world.receive(f"{10 + number}.00", account=account, counterpartyName="Nagel AG")
    ask = world.tenant.get
    for typed, stored in ((TYPED, STORED), (OTHER_TYPED, OTHER)):
        lines = (await ask(INCOMING, params={"account": typed})).json()["data"]
        assert [line["account"] for line in lines] == [stored] * 2
        assert len((await ask("/accounts", params={"identifier": typed})).json()["data"]) == 1
        for report in REPORTS:
            answers = [await ask(f"/reports/{report}", params={"account": a}) for a in (typed, stored)]
            assert answers[0].json() == answers[1].json()
        total = answers[0].json()["lines"]
        assert sum(line["open"]["count"] for line in total) == 4
        run = await world.run(incomingFilter={"account": typed}, dryRun=True)
        assert run["counts"]["incoming"] == 2
        params = {"resource": "incoming-transactions", "filter": {"account": typed}}
        started = await world.tenant.post("/jobs", {"kind": "export", "params": params})
        assert (await world.ended(started.json()["id"]))["result"]["rows"] == 2
        found = await snapshot(
            world, "externalId,openAmount\n", 0, 0, account=typed, currency="EUR", controlTotals="[]"
        )
        assert (found["missingThere"]["count"], found["account"]) == (2, stored)
        locked = await world.tenant.post(
            "/period-locks", {"through": "2026-03-01", "account": typed, "reason": "closed", "override": True}
        )
        assert locked.json()["account"] == stored
        assert len((await ask("/period-locks", params={"account": typed})).json()["data"]) == 1
    for report, groups in (("open-balances", {}), ("ageing", {"groupBy": "account"})):
        data = (await ask(f"/reports/{report}", params=groups)).json()["data"]
        assert [group["name"] for group in data] == [STORED, OTHER]


async def test_a_rule_and_a_code_may_name_an_account_as_it_is_typed(world: World) -> None:
    await world.receive("10.00", account=STORED)
    await world.receive("10.00", account=OTHER)
    rule = {"name": "typed", "priority": 1, "scope": {"account": TYPED}, "classify": {"category": "fee"}}
    await world.set(rules=[rule])
    run = await world.run()
    assert run["counts"]["classified"] == 1
    codes = {"accounts": [{"account": TYPED, "code": "1200"}, {"account": STORED, "code": "1300"}]}
    path = f"/tenants/{world.tenant.id}/settings"
    answer = await world.tenant.request("PATCH", path, json={"posting": codes})
    assert answer.json()["errors"][0]["code"] == "duplicate_code"


async def test_items_that_were_stored_as_they_were_typed_are_called_as_lines_are(
    service: Service, acme: Tenant, globex: Tenant, world: World
) -> None:
    wrong = "DE88370400440532013000"
    before = [TYPED, STORED, OTHER_TYPED, OTHER, "gb29 nwbk60161331926819", f"{wrong[:4]} {wrong[4:]}", "A", " ", None]
    after = [STORED, STORED, OTHER, OTHER, "GB29NWBK60161331926819", f"{wrong[:4]} {wrong[4:]}", "A", " ", None]
    for number, account in enumerate(before):
        await world.expect("1.00", externalId=f"{number}")
        values = f"account = {'NULL' if account is None else repr(account)} WHERE external_id = '{number}'"
        for tenant in (acme, globex):
            await rows(service, tenant, f"UPDATE expected_transaction SET {values}")  # noqa: S608 - our own
    module: Any = loaded_scripts("tenant").get_revision("0044")
    for statement in statements_of(module.module._SCRIPT):
        await rows(service, acme, statement)
    query = "SELECT account FROM expected_transaction ORDER BY external_id"
    assert [row["account"] for row in await rows(service, acme, query)] == after
    assert [row["account"] for row in await rows(service, globex, query)] == before


async def test_a_file_names_an_account_as_a_line_by_itself_does(world: World) -> None:
    typed, stored = "  The   till ", "The till"
    await world.receive(account=typed, externalId="a")
    record = {"bookingDate": "2026-03-12", **MONEY}
    csv = "Date,Amount,Currency,Account,Reference\n2026-03-12,1.00,EUR,{},{}\n"
    of_file = [
        ("lines.json", json.dumps([{**record, "externalId": "b", "account": typed}]), {}),
        ("lines.json", json.dumps([{**record, "externalId": "c"}]), {"account": typed}),
        ("lines.csv", csv.format(typed, "first"), {}),
        ("lines.csv", csv.format("", "second"), {"account": typed}),
        (
            "lines.mt940",
            ":20:X\n:25:\n:28C:1\n:60F:C260312EUR0,\n:61:260312C2,NMSC\n:62F:C260312EUR2,\n-\n",
            {"account": typed},
        ),
    ]
    for name, content, options in of_file:
        answer = await world.tenant.post(f"{INCOMING}/upload", files={"file": (name, content.encode())}, data=options)
        assert (answer.status_code, answer.json()["counts"]["accepted"]) == (201, 1), answer.text
    assert await accounts(world.tenant, INCOMING) == {stored}
    [made] = (await world.tenant.get("/accounts")).json()["data"]
    assert made["identifier"] == stored


CSV = "Date,Amount,Currency,Account,Reference\n2026-03-12,1.00,EUR,{},first\n"
JSON = '[{{"bookingDate": "2026-03-12", "direction": "credit", "amount": "1.00", "currency": "EUR", "account": "{}"}}]'


@pytest.mark.parametrize(
    ("content", "of_file", "option"), [(CSV, "", "Main till"), (CSV, "Main till", ""), (JSON, "Main till", "")]
)
async def test_an_account_that_a_file_of_an_earlier_release_has_made_keeps_its_name(
    world: World, content: str, of_file: str, option: str
) -> None:
    """It had no blanks and capitals: the same file uploaded again, and what goes on from it, is of that account."""
    before = "MAINTILL"

    def written(account: str, amount: str = "1.00", end: str = "") -> bytes:
        return f"{content.format(account).replace('1.00', amount)}{end}".encode()

    async def uploaded(tenant: Tenant, account: str, option: str, **more: str) -> tuple[int, int]:
        files = {"file": ("lines", written(account, **more))}
        answer = await tenant.post(f"{INCOMING}/upload", files=files, data={"account": option} if option else {})
        assert answer.status_code == 201, answer.text
        counts = answer.json()["counts"]
        return counts["accepted"], counts["duplicates"]

    async def previewed(tenant: Tenant) -> tuple[str, str]:
        options = {"account": option} if option else {}
        files = {"file": ("lines", written(of_file))}
        answer = await tenant.post(f"{INCOMING}/upload/preview", files=files, data=options)
        [statement] = answer.json()["statements"]
        return statement["account"]["id"], statement["entries"][0]["identity"]["value"]

    assert (await previewed(world.tenant))[0] == "Main till"
    assert await uploaded(world.tenant, before if of_file else "", before if option else "") == (1, 0)
    # The preview says what an upload keeps.
    [line] = await world.sql("SELECT account, encode(fingerprint, 'hex') AS known_by FROM incoming_transaction")
    assert await previewed(world.tenant) == (before, line["known_by"])
    assert (await previewed(world.bystander))[0] == "Main till"
    assert await uploaded(world.tenant, of_file, option) == (0, 1)
    assert await uploaded(world.tenant, of_file, option, amount="2.00") == (1, 0)
    assert await accounts(world.tenant, INCOMING) == {before}
    # What is made by hand changes no file's account.
    await world.receive("3.00", account="Main till", externalId="by itself")
    assert await uploaded(world.tenant, of_file, option, amount="4.00") == (1, 0)
    lines = (await world.tenant.get(INCOMING, params={"account": before})).json()["data"]
    assert sorted(line["amountMinor"] for line in lines) == [100, 200, 400]
    # A tenant that has no such account calls it as it is written, whatever comes later.
    assert await uploaded(world.bystander, of_file, option) == (1, 0)
    assert await uploaded(world.bystander, before if of_file else "", before if option else "") == (1, 0)
    assert await uploaded(world.bystander, of_file, option, end="\n") == (0, 1)
    lines = (await world.bystander.get(INCOMING)).json()["data"]
    assert sorted(line["account"] for line in lines if line["importId"] is not None) == [before, "Main till"]
