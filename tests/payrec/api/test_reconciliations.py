"""Reconciliation statements: what explains the balance of an account at a cut-off, as it was known at any instant."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from payrec.constants import AMOUNT_MINOR_MAX, BULK_ITEMS_MAX
from payrec.storage.history import HistoryStore
from support.account_lives import ACCOUNTS, DAYS, FIRST, OPENING, PARTS, AccountLife, Oracle
from support.matching_world import World, matching_world
from support.report_figures import everything
from support.seeds import seeds
from support.service import Service, Tenant
from support.statements import IBAN, camt, message
from support.wire import code, fields

pytestmark = pytest.mark.anyio

DOCUMENT = Path(__file__).parents[3] / "service" / "accounts.md"
STEPS, RECORDED_EVERY = 24, 6
CUT_OFFS = [str(FIRST + timedelta(days=day)) for day in range(DAYS)]
RAW = {"Content-Type": "application/octet-stream"}


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def account_of(tenant: Tenant, identifier: str) -> dict[str, Any]:
    [account] = (await tenant.get("/accounts", params={"identifier": identifier})).json()["data"]
    return dict(account)


async def statement(tenant: Tenant, account: dict[str, Any], cut_off: str, **asked: str) -> dict[str, Any]:
    path = f"/accounts/{account['id']}/reconciliation"
    answer = await tenant.get(path, params={"cutOff": cut_off, **asked})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def parts(found: dict[str, Any]) -> dict[str, tuple[int, int]]:
    return {part: (found[part]["count"], found[part]["sumMinor"]) for part in PARTS}


def without_links(found: dict[str, Any]) -> dict[str, Any]:
    """Leave out what names the instant."""
    return {name: {**part, "url": None} if name in PARTS else part for name, part in found.items()}


async def documented(world: World, account: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Return what the documented query says of an account, of all of its days."""
    [query] = re.findall(r"```sql\n-- reconciliation\n(.*?);\n```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    query = query.replace(":'account'", "%s").replace(":'currency'", "%s")
    found = await world.sql(query, account["identifier"], account["currency"])
    return {row["part"]: (row["count"], int(row["sum_minor"])) for row in found}


async def instant(world: World) -> str:
    [row] = await world.sql("SELECT clock_timestamp() AS at")
    return str(row["at"].isoformat())


@pytest.mark.parametrize("seed", seeds(3, 14, 15))
async def test_the_parts_are_the_balance_at_every_cut_off_and_instant(world: World, seed: int) -> None:
    life = AccountLife(world, seed)
    giro = await world.tenant.post("/accounts", {"identifier": ACCOUNTS[0], "currency": "EUR", **OPENING})
    accounts = [giro.json()]
    known: list[tuple[dict[str, Any], str, dict[str, Any]]] = []
    for number in range(STEPS):
        await life.step()
        if number % RECORDED_EVERY == 2:
            if len(accounts) == 1:
                found = (await world.tenant.get("/accounts", params={"identifier": ACCOUNTS[1]})).json()["data"]
                accounts += found
            day = life.chance.choice(CUT_OFFS)
            known += [
                (account, await instant(world), await statement(world.tenant, account, day)) for account in accounts
            ]
    accounts = [await account_of(world.tenant, name) for name in ACCOUNTS]
    oracle = await Oracle.of(world)
    for account in accounts:
        assert await documented(world, account) == {
            part: figures
            for part, figures in oracle.statement(account | {"openingOn": None}, "9999").items()
            if figures[0]
        }
    for account in accounts:
        for day in CUT_OFFS:
            told = await statement(world.tenant, account, day)
            assert parts(told) == oracle.statement(account, day), (account["identifier"], day)
            booked = sum(
                line["amountMinor"] * (1 if line["direction"] == "credit" else -1)
                for line in oracle.lines.values()
                if line["account"] == account["identifier"] and line["status"] != "pending"
                if (account["openingOn"] or "") <= line["bookingDate"] <= day
            )
            assert told["balanceMinor"] == told["openingBalanceMinor"] + booked
    for part in PARTS:
        listed = await everything(world.tenant, told[part]["url"].split("?")[0], part=part, cutOff=CUT_OFFS[-1])
        assert (len(listed), sum(line["shareMinor"] for line in listed)) == parts(told)[part]
    # What was told then is told of then for ever.
    for account, at, then in known:
        again = await statement(world.tenant, account, then["cutOff"], asOf=at)
        assert without_links(again) == without_links(then)
    nobody = await statement(world.bystander, await account_of(world.bystander, ACCOUNTS[1]), CUT_OFFS[-1])
    assert [nobody[part]["count"] for part in ("allocated", "returned", "classified", "inTransit")] == [0, 0, 0, 0]


async def test_a_month_end(world: World) -> None:
    """A match, a return and a payout over the cut-off; the bank's balance, the books', and a late line."""
    upload = {"headers": RAW, "content": message(camt(0, 10_000, 28, number=1), camt(10_000, 9_500, 29, number=2))}
    for tenant in (world.bystander, world.tenant):
        assert (await tenant.post("/incoming-transactions/upload", **upload)).status_code == 201
    account = await account_of(world.tenant, IBAN)
    [fee, payment] = (await world.tenant.get("/incoming-transactions", params={"account": IBAN})).json()["data"]
    if fee["direction"] == "credit":
        fee, payment = payment, fee
    item = await world.expect("150.00")
    rest = await world.receive("50.00", account=IBAN, bookingDate="2026-04-02")
    legs = [
        {"expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": minor}
        for line, minor in ((payment["id"], 10_000), (rest, 5_000))
    ]
    assert (await world.tenant.post("/matches", {"legs": legs, "reason": "in two parts"})).status_code == 201
    verb = f"/incoming-transactions/{fee['id']}/classify"
    assert (await world.tenant.post(verb, {"category": "fee"})).status_code == 200
    put = await world.tenant.request(
        "PUT", f"/accounts/{account['id']}/book-balances", json={"on": "2026-03-31", "balanceMinor": 9_400}
    )
    assert put.status_code == 200

    told = await statement(world.tenant, account, "2026-03-31")
    assert (told["openingBalanceMinor"], told["openingOn"]) == (0, "2026-03-30")
    assert parts(told) == dict.fromkeys(PARTS, (0, 0)) | {"open": (1, 10_000), "classified": (1, -500)}
    assert (told["balanceMinor"], told["statementBalanceMinor"], told["statementBalanceOn"]) == (
        9_500, 9_500, "2026-03-31",
    )  # fmt: skip
    assert (told["differenceMinor"], told["bookBalanceMinor"], told["bookDifferenceMinor"]) == (0, 9_400, -100)
    assert (told["balance"], told["bookDifference"]) == ("95.00", "-1.00")
    before = await instant(world)
    april = await statement(world.tenant, account, "2026-04-02")
    assert parts(april)["allocated"] == (2, 15_000)
    assert (april["statementBalanceOn"], april["differenceMinor"], april["bookBalanceMinor"]) == (
        "2026-03-31", -5_000, None,
    )  # fmt: skip

    # A late line, a second statement of the day and another word of the books change today and not what was known.
    late = message(camt(9_500, 9_600, 29, number=3))
    assert (await world.tenant.post("/incoming-transactions/upload", headers=RAW, content=late)).status_code == 201
    await world.tenant.request(
        "PUT", f"/accounts/{account['id']}/book-balances", json={"on": "2026-03-31", "balanceMinor": 9_600}
    )
    now = await statement(world.tenant, account, "2026-03-31")
    assert (now["balanceMinor"], now["statementBalanceMinor"], now["bookDifferenceMinor"]) == (9_600, 9_600, 0)
    then = await statement(world.tenant, account, "2026-03-31", asOf=before)
    assert without_links(then) == without_links(told)
    assert then["open"]["url"].endswith(f"asOf={before.replace(':', '%3A').replace('+', '%2B')}")
    listed = (await world.tenant.get(then["open"]["url"])).json()["data"]
    assert [(row["incomingTransactionId"], row["shareMinor"]) for row in listed] == [(payment["id"], 10_000)]
    other = await statement(world.bystander, await account_of(world.bystander, IBAN), "2026-03-31")
    assert parts(other)["open"] == (2, 9_500)


@pytest.mark.parametrize("booked", [{}, {"amountMinor": 9_900}, {"bookingDate": "2026-04-02"}, {"account": "OTHER"}])
async def test_what_was_announced_stays_so_of_an_instant_and_in_a_locked_period(
    world: World, booked: dict[str, Any]
) -> None:
    announced = {
        "externalId": "T-1", "account": "GIRO", "amountMinor": 10_000, "currency": "EUR", "direction": "credit",
        "bookingDate": "2026-03-10",
    }  # fmt: skip
    await world.upload([{**announced, "status": "pending"}, announced | {"externalId": "T-2", "account": "OTHER"}])
    accounts = [await account_of(world.tenant, name) for name in ("GIRO", "OTHER")]
    told = [await statement(world.tenant, account, "2026-03-30") for account in accounts]
    assert parts(told[0])["pending"] == (1, 10_000)
    before = await instant(world)
    # Of the day before the lock's last, whose sums it does not keep.
    lock = {"through": "2026-03-31", "reason": "month end", "override": True}
    assert (await world.tenant.post("/period-locks", lock)).status_code == 201
    locked = [await statement(world.tenant, account, "2026-03-30") for account in accounts]
    await world.upload([announced | booked])
    for account, was, then in zip(accounts, told, locked, strict=True):
        assert await statement(world.tenant, account, "2026-03-30") == then
        assert parts(then) == parts(was)
        assert without_links(await statement(world.tenant, account, "2026-03-30", asOf=before)) == without_links(was)
        for part in ("pending", "open"):
            listed = (await world.tenant.get(then[part]["url"])).json()["data"]
            assert (len(listed), sum(line["shareMinor"] for line in listed)) == parts(then)[part]
    # What is known now is of the days that are open.
    of_now = [parts(await statement(world.tenant, account, "2026-04-30")) for account in accounts]
    assert [of["pending"] for of in of_now] == [(0, 0), (0, 0)]
    assert sum(of["open"][1] for of in of_now) == 10_000 + booked.get("amountMinor", 10_000)


async def test_a_locked_month_end_outlives_the_history_that_is_kept(world: World) -> None:
    item, line = await world.expect(), await world.receive(account="GIRO", bookingDate="2026-03-12")
    leg = {"expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": 10_000}
    match = (await world.tenant.post("/matches", {"legs": [leg], "reason": "by hand"})).json()
    assert (await world.tenant.post("/period-locks", {"through": "2026-03-31", "reason": "closed"})).status_code == 201
    account = await account_of(world.tenant, "GIRO")
    locked = await statement(world.tenant, account, "2026-03-31")
    assert parts(locked)["allocated"] == (1, 10_000)
    await world.receive("5.00", account="GIRO", bookingDate="2026-03-13")
    assert (await world.tenant.post(f"/matches/{match['id']}/reverse", {"reason": "wrong"})).status_code == 200
    [row] = await world.sql("SELECT begun_at, clock_timestamp() AS now FROM history_span")
    async with world.service.factory.context.database.tenant(world.scope) as connection:
        while (await HistoryStore(connection).drop_states(before=row["now"], limit=1_000)).count:
            pass
    try:
        assert await statement(world.tenant, account, "2026-03-31") == locked
        # What no lock has added up is told as it was known when history begins.
        before = await statement(world.tenant, account, "2026-03-30")
        assert (before["balanceMinor"], before["lockedAt"]) == (10_500, locked["lockedAt"])
    finally:
        await world.sql("UPDATE history_span SET begun_at = %s", row["begun_at"])


async def test_returns_of_a_match_over_the_cut_off_take_of_it_on_their_own_days(world: World) -> None:
    """100.00 on the 2nd, matched with a line of the 10th; 30.00 go back on the 3rd and 20.00 on the 12th."""
    item, other = await world.expect("130.00"), await world.expect("20.00")
    days = {"bookingDate": "2026-03-02"}, {"bookingDate": "2026-03-10"}
    first, last = await world.receive(account="till", **days[0]), await world.receive("50.00", **days[1])
    legs = [
        {"expectedTransactionId": to, "incomingTransactionId": line, "amountMinor": minor}
        for to, line, minor in ((item, first, 8_000), (item, last, 5_000), (other, first, 2_000))
    ]
    answer = await world.tenant.post("/matches", {"legs": legs, "reason": "together"})
    assert answer.status_code == 201, answer.text
    match = answer.json()
    for to, amount, day in ((item, "30.00", "2026-03-03"), (other, "20.00", "2026-03-12")):
        code = {"bankTransactionCode": "PMNT-RCDT-RRTN", "direction": "debit"}
        back = await world.receive(amount, account="till", bookingDate=day, **code)
        body = {"incomingTransactionId": first, "expectedTransactionId": to}
        answer = await world.tenant.post(f"/incoming-transactions/{back}/link-reversal", body)
        assert answer.status_code == 200, answer.text
    account = await account_of(world.tenant, "till")
    # The payment has 30.00 less from the 3rd on, and the return has as much more: together they are nothing.
    expected = (
        ("2026-03-02", (0, 0), (0, 0), (1, 10_000)),
        ("2026-03-05", (0, 0), (2, 0), (1, 7_000)),
        ("2026-03-10", (1, 7_000), (2, 0), (0, 0)),
        ("2026-03-12", (1, 5_000), (3, 0), (0, 0)),
    )
    for day, allocated, returned, left in expected:
        told = parts(await statement(world.tenant, account, day))
        assert (told["allocated"], told["returned"], told["open"]) == (allocated, returned, left), day
    # When the match is taken back, what went back stays gone, and nothing was ever allocated.
    answer = await world.tenant.post(f"/matches/{match['id']}/reverse", {"reason": "not theirs"})
    assert answer.status_code == 200, answer.text
    for day, allocated, returned, left in expected:
        told = parts(await statement(world.tenant, account, day))
        together = (max(allocated[0], left[0]), allocated[1] + left[1])
        assert (told["allocated"], told["returned"], told["open"]) == ((0, 0), returned, together), day


async def test_a_line_of_a_provider_counts_with_its_net(world: World) -> None:
    """Shares of a payment of which the provider kept a fee are shares of what came, and none is lost to rounding."""
    report = (
        b"balance_transaction_id,created,available_on,currency,gross,fee,net,reporting_category,automatic_payout_id\n"
        b"txn_1,2026-03-02 10:00:00,2026-03-04 00:00:00,eur,100.00,3.10,96.90,charge,po_1\n"
        b"txn_2,2026-03-03 10:00:00,2026-03-05 00:00:00,eur,0.00,1.00,-1.00,fee,po_1\n"
    )
    options = {"headers": RAW, "content": report, "params": {"account": "acct_1"}}
    answer = await world.tenant.post("/incoming-transactions/upload", **options)
    assert answer.status_code == 201, answer.text
    account = await account_of(world.tenant, "acct_1")
    assert account["kind"] == "psp"
    found = (await world.tenant.get("/incoming-transactions", params={"account": "acct_1"})).json()["data"]
    charge = next(row for row in found if row["amountMinor"] == 10_000)
    item = await world.expect("33.33")
    leg = {"expectedTransactionId": item, "incomingTransactionId": charge["id"], "amountMinor": 3_333}
    assert (await world.tenant.post("/matches", {"legs": [leg], "reason": "a part"})).status_code == 201
    told = await statement(world.tenant, account, "2026-03-31")
    assert told["balanceMinor"] == sum(
        (row["net"]["amountMinor"] * (1 if row["net"]["direction"] == "credit" else -1)) for row in found
    )
    assert (parts(told)["allocated"], parts(told)["open"][1] + parts(told)["ignored"][1]) == (
        (1, 3_229), told["balanceMinor"] - 3_229,
    )  # fmt: skip
    assert told["statementBalanceMinor"] is None is told["differenceMinor"]


async def test_a_json_line_is_of_the_account_in_the_currency_that_it_moves(world: World) -> None:
    """What was paid in dollars moves the account in euros, and nothing moves one in dollars."""
    net = {"amountMinor": 8_700, "currency": "EUR", "direction": "credit"}
    charge = {
        "externalId": "ch_1", "account": "SHOP", "amountMinor": 10_000, "currency": "USD", "direction": "credit",
        "bookingDate": "2026-03-10", "net": net,
    }  # fmt: skip
    uploaded = await world.upload([charge])
    assert [(balance["account"], balance["currency"]) for balance in uploaded["balances"]] == [("SHOP", "EUR")]
    account = await account_of(world.tenant, "SHOP")
    assert account["currency"] == "EUR"
    told = await statement(world.tenant, account, "2026-03-31")
    assert (told["balanceMinor"], parts(told)["open"]) == (8_700, (1, 8_700))
    # The same beside what does move dollars.
    tip = {**charge, "externalId": "ch_2", "net": None}
    await world.upload([charge, tip])
    accounts = (await world.tenant.get("/accounts", params={"identifier": "SHOP"})).json()["data"]
    sums = {one["currency"]: (await statement(world.tenant, one, "2026-03-31"))["balanceMinor"] for one in accounts}
    assert sums == {"EUR": 8_700, "USD": 10_000}


async def test_sums_of_the_largest_amounts_are_told(world: World) -> None:
    account = (await world.tenant.post("/accounts", {"identifier": "Vault", "currency": "EUR"})).json()
    before = await instant(world)
    line = {"direction": "credit", "currency": "EUR", "account": "Vault", "amountMinor": AMOUNT_MINOR_MAX}
    items = [{**line, "bookingDate": "2026-03-12"}] * BULK_ITEMS_MAX
    assert (await world.tenant.post("/incoming-transactions/bulk", {"items": items})).status_code == 200
    minor = BULK_ITEMS_MAX * AMOUNT_MINOR_MAX
    assert minor >= 2**63, "more than a bigint holds"
    found = await statement(world.tenant, account, "2026-03-31")
    assert (parts(found)["open"], found["balanceMinor"]) == ((BULK_ITEMS_MAX, minor), minor)
    assert (await statement(world.tenant, account, "2026-03-31", asOf=before))["balanceMinor"] == 0


async def test_what_is_wrong_with_asking(world: World) -> None:
    body = {"identifier": "till", "currency": "EUR", "openingBalanceMinor": 7, "openingOn": "2026-03-02"}
    account = (await world.tenant.post("/accounts", body)).json()
    path = f"/accounts/{account['id']}/reconciliation"
    evening = await statement(world.tenant, account, "2026-03-01")
    assert (evening["balanceMinor"], parts(evening)) == (7, dict.fromkeys(PARTS, (0, 0)))
    for asked, told in (
        ({"cutOff": "2026-02-28"}, {("cutOff", "cut_off_before_opening")}),
        ({"cutOff": "today"}, {("cutOff", "date_malformed")}),
        ({"cutoff": "2026-03-31"}, {("cutoff", "extra_forbidden")}),
        ({"part": "closed"}, {("part", "literal_error")}),
    ):
        answer = await world.tenant.get(f"{path}/lines" if "part" in asked else path, params=asked)
        assert (answer.status_code, fields(answer)) == (422, told)
    for at in ("2999-01-01T00:00:00Z", "2001-01-01T00:00:00Z"):
        answer = await world.tenant.get(path, params={"asOf": at})
        assert (answer.status_code, code(answer)) == (422, "as_of_out_of_range")
    for asked in (world.bystander.get(path), world.bystander.get(f"{path}/lines")):
        answer = await asked
        assert (answer.status_code, code(answer)) == (404, "not_found")
