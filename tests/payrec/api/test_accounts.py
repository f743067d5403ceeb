"""Accounts over HTTP: made by lines, statements or hand, changed, told of by the books, and no other tenant's."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from support.service import Service, Tenant
from support.statements import IBAN, camt, message
from support.wire import add_user, code, fields, rows

pytestmark = pytest.mark.anyio

PATH = "/accounts"
RAW = {"Content-Type": "application/octet-stream"}
LINE = {"amountMinor": 500, "currency": "EUR", "direction": "credit", "bookingDate": "2026-03-04"}
ACTIONS = "SELECT action, before, after FROM audit_record WHERE action LIKE 'account.%' ORDER BY change_id, ordinal"


@pytest.fixture
async def tenant(service: Service, request: pytest.FixtureRequest) -> Tenant:
    """A tenant of the test's own: accounts depend on what is there."""
    slug = "t" + hashlib.sha256(request.node.name.encode()).hexdigest()[:20]
    return await service.tenant(slug, environments=["production"])


async def accounts(tenant: Tenant, **filters: Any) -> list[dict[str, Any]]:
    answer = await tenant.get(PATH, params={"sort": "createdAt", **filters})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["data"])


async def upload(tenant: Tenant, *statements: str) -> None:
    answer = await tenant.post("/incoming-transactions/upload", headers=RAW, content=message(*statements))
    assert answer.status_code == 201, answer.text


def begun(account: dict[str, Any]) -> tuple[Any, ...]:
    return (account["openingBalanceMinor"], account["openingOn"], account["openingGiven"])


async def test_whoever_names_an_account_makes_it_and_once(service: Service, tenant: Tenant, globex: Tenant) -> None:
    before = await accounts(globex)
    spaced = "DE02 1203 0000 0000 2020 51"
    for line in ({**LINE, "account": spaced}, {**LINE, "account": spaced}, LINE):
        assert (await tenant.post("/incoming-transactions", line)).status_code == 201
    items = [{**LINE, "account": "till", "amountMinor": n} for n in (1, 2)]
    items.append({**LINE, "account": "till", "currency": "USD"})
    assert (await tenant.post("/incoming-transactions/bulk", {"items": items})).status_code == 200
    await upload(tenant, camt(-50, 10_000, 0))
    found = await accounts(tenant)
    assert [(a["identifier"], a["currency"], a["kind"]) for a in found] == [
        ("DE02120300000000202051", "EUR", "bank"),
        ("till", "EUR", "bank"),
        ("till", "USD", "bank"),
        (IBAN, "EUR", "bank"),
    ]
    assert begun(found[0]) == (None, None, False)
    assert begun(found[3]) == (-50, "2026-03-02", False)
    assert found[3]["openingBalance"] == "-0.50"
    assert [a["id"] for a in await accounts(tenant, identifier="DE89 3704 0044 0532 0130 00")] == [found[3]["id"]]
    assert [a["currency"] for a in await accounts(tenant, identifier="till", currency="USD")] == ["USD"]
    told = await rows(service, tenant, ACTIONS)
    assert [(r["action"], r["after"]["identifier"]) for r in told] == [
        ("account.created", a["identifier"]) for a in found
    ]
    assert await accounts(globex) == before
    assert (await globex.get(f"{PATH}/{found[0]['id']}")).status_code == 404


async def test_the_opening_is_the_earliest_statements_until_somebody_sets_it(service: Service, tenant: Tenant) -> None:
    # Two statements of one day that go on from each other, the second one first; then the day before.
    await upload(tenant, camt(300, 700, 3), camt(100, 300, 3))
    [account] = await accounts(tenant)
    assert (begun(account), account["version"]) == ((100, "2026-03-05", False), 1)
    await upload(tenant, camt(900, 950, 5))
    await upload(tenant, camt(20, 100, 2))
    [account] = await accounts(tenant)
    assert (begun(account), account["version"]) == ((20, "2026-03-04", False), 2)

    path = f"{PATH}/{account['id']}"
    etag = {"If-Match": (await tenant.get(path)).headers["etag"]}
    body = {"openingBalanceMinor": -5, "openingOn": "2026-03-03", "name": "Giro", "kind": "clearing"}
    changed = await tenant.request("PATCH", path, json=body, headers=etag)
    assert (changed.status_code, changed.headers["etag"]) == (200, '"3"')
    assert begun(changed.json()) == (-5, "2026-03-03", True)
    stale = await tenant.request("PATCH", path, json={"name": None}, headers=etag)
    assert (stale.status_code, code(stale)) == (412, "version_mismatch")
    await upload(tenant, camt(0, 20, 1))
    [account] = await accounts(tenant, kind="clearing")
    assert (begun(account), account["version"]) == ((-5, "2026-03-03", True), 3)
    # What changes nothing is no change.
    assert (await tenant.request("PATCH", path, json={"name": "Giro"})).json() == account
    body = {"openingBalanceMinor": None, "openingOn": None, "name": None}
    freed = (await tenant.request("PATCH", path, json=body)).json()
    assert (begun(freed), freed["name"], freed["version"]) == ((0, "2026-03-03", False), None, 4)

    told = await rows(service, tenant, ACTIONS)
    assert [(r["before"] or {}).get("openingBalanceMinor", "-") for r in told] == ["-", 100, 20, -5]
    assert told[-1]["after"] == {
        "openingBalanceMinor": 0,
        "openingGiven": False,
        "name": None,
    }


async def test_what_is_wrong_with_an_account(tenant: Tenant, globex: Tenant) -> None:
    body = {"identifier": "de89 3704 0044 0532 0130 00", "currency": "EUR", "statementEvery": "day"}
    made = await tenant.post(PATH, {**body, "statementDueAfterHours": 18, "name": "Giro", "kind": "bank"})
    assert (made.status_code, made.headers["etag"], made.json()["identifier"]) == (201, '"1"', IBAN)
    assert made.headers["location"] == f"{PATH}/{made.json()['id']}"
    again = await tenant.post(PATH, {"identifier": IBAN, "currency": "EUR"})
    assert (again.status_code, code(again)) == (409, "invalid_state")
    # Another currency of it is another account, unless all that is there says that it is a slip.
    assert (await tenant.post(PATH, {"identifier": IBAN, "currency": "CHF"})).status_code == 201
    await upload(tenant, camt(0, 100, 1))
    slip = await tenant.post(PATH, {"identifier": IBAN, "currency": "USD"})
    assert (slip.status_code, fields(slip)) == (422, {("/currency", "currency_mismatch")})

    path = f"{PATH}/{made.json()['id']}"
    for wrong, told in (
        ({"kind": "wallet"}, {("/kind", "literal_error")}),
        ({"identifier": ""}, {("/identifier", "string_too_short")}),
        ({"currency": "XXQ"}, {("/currency", "unknown_currency")}),
        ({"openingOn": "2026-03-01"}, {("/openingBalanceMinor", "required")}),
        ({"openingBalanceMinor": 1}, {("/openingOn", "required")}),
        ({"openingBalanceMinor": 10**18, "openingOn": "2026-03-01"}, {("/openingBalanceMinor", "less_than_equal")}),
        ({"statementDueAfterHours": -1}, {("/statementDueAfterHours", "greater_than_equal")}),
        ({"colour": "red"}, {("/colour", "extra_forbidden")}),
    ):
        answer = await tenant.post(PATH, {"identifier": "other", "currency": "EUR", **wrong})
        assert (answer.status_code, fields(answer)) == (422, told)
    for wrong, told in (
        ({"kind": None}, {("/kind", "required")}),
        ({"openingOn": None}, {("/openingOn", "required")}),
        ({"identifier": "other"}, {("/identifier", "extra_forbidden")}),
        ({"currency": "USD"}, {("/currency", "extra_forbidden")}),
    ):
        answer = await tenant.request("PATCH", path, json=wrong)
        assert (answer.status_code, fields(answer)) == (422, told)
    for asked in (globex.get(path), globex.request("PATCH", path, json={}), tenant.get(f"{PATH}/nothing")):
        assert (await asked).status_code == 404


async def test_what_the_books_say_of_a_day(service: Service, tenant: Tenant, globex: Tenant) -> None:
    account = (await tenant.post(PATH, {"identifier": "till", "currency": "EUR", "kind": "cash"})).json()
    path = f"{PATH}/{account['id']}/book-balances"
    _, operator = await add_user(service, tenant, "operator")
    versions = []
    for minor in (1_000, 1_000, -70):
        answer = await operator.request("PUT", path, json={"on": "2026-03-31", "balanceMinor": minor})
        assert answer.status_code == 200, answer.text
        versions.append((answer.json()["balance"], answer.json()["version"]))
    assert versions == [("10.00", 1), ("10.00", 1), ("-0.70", 2)]
    told = await rows(service, tenant, ACTIONS)
    assert [(r["action"], r["before"], r["after"]) for r in told[1:]] == [
        ("account.book_balance_set", None, {"on": "2026-03-31", "balanceMinor": 1_000}),
        (
            "account.book_balance_set",
            {"on": "2026-03-31", "balanceMinor": 1_000},
            {"on": "2026-03-31", "balanceMinor": -70},
        ),
    ]
    wrong = await tenant.request("PUT", path, json={"on": "31.3.", "balanceMinor": 1.5})
    assert (wrong.status_code, fields(wrong)) == (422, {("/on", "date_malformed"), ("/balanceMinor", "int_type")})
    body = {"on": "2026-03-31", "balanceMinor": 5}
    assert (await globex.request("PUT", path, json=body)).status_code == 404
