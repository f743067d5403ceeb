"""Expected transactions over HTTP: what is stored comes back, and every filter narrows to what it names."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from support.events import TOLD, has_arrived
from support.service import Service, Tenant
from support.wire import code, count, fields, problem

pytestmark = pytest.mark.anyio

UNKNOWN = "0192f0c1-2d3e-7a4b-8c5d-6e7f8091a2b3"

PATH = "/expected-transactions"
MONEY = {"direction": "credit", "amount": "12.34", "currency": "EUR"}
FULL = {
    **MONEY,
    "externalId": "full",
    "minAmountMinor": 1200,
    "maxAmountMinor": 1300,
    "dueDate": "2999-03-01",
    "expectedFrom": "2999-02-01",
    "expectedTo": "2999-03-31",
    "reference": "RF18539007547034",
    "endToEndId": "E2E-1",
    "counterpartyName": "Jürgen Groß & Söhne",
    "counterpartyAccount": "DE89370400440532013000",
    "account": "DE02120300000000202051",
    "groupKey": "G1",
    "description": "line one\nline two\ttabbed",
    "metadata": {"order": "17", "größe": ""},
}


async def test_what_is_given_is_stored_and_comes_back(acme: Tenant) -> None:
    made = await acme.post(PATH, FULL)
    assert made.status_code == 201, made.text
    body = made.json()
    assert UUID(body["id"]).version == 7
    assert {k: body[k] for k in FULL} == FULL
    assert (body["amountMinor"], body["openAmountMinor"], body["matchedAmountMinor"]) == (1234, 1234, 0)
    assert (body["status"], body["overdue"], body["version"], body["settledBeforeMinor"]) == ("open", False, 1, 0)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", body["createdAt"])
    assert made.headers["location"] == f"{PATH}/{body['id']}"
    assert made.headers["etag"] == '"1"'
    got = await acme.get(made.headers["location"])
    assert (got.status_code, got.json(), got.headers["etag"]) == (200, body, '"1"')


async def test_nothing_but_direction_and_money_is_needed(acme: Tenant) -> None:
    body = (await acme.post(PATH, MONEY)).json()
    assert body["externalId"] is None
    assert body["metadata"] == {}
    for missing in ("direction", "currency", "amount"):
        answer = await acme.post(PATH, {k: v for k, v in MONEY.items() if k != missing})
        assert [p for p, _ in fields(answer)] in ([f"/{missing}"], ["/amountMinor"])


async def test_an_external_id_is_unique_in_its_environment(acme: Tenant, globex: Tenant) -> None:
    body = {**MONEY, "externalId": "once"}
    first = await acme.post(PATH, body)
    again = await acme.post(PATH, body)
    found = problem(again)
    assert (again.status_code, found["code"], found["existingId"]) == (409, "duplicate_external_id", first.json()["id"])
    for tenant, environment in ((acme, "test"), (globex, "production")):
        assert (await tenant.post(PATH, body, environment)).status_code == 201


async def test_a_refusal_stores_nothing(service: Service, acme: Tenant) -> None:
    await acme.post(PATH, {**MONEY, "externalId": "stored"})
    await has_arrived(service, acme)
    tables = ("expected_transaction", "expected_open", "change", TOLD, "audit_record", "idempotency")
    before = [await count(service, acme, table) for table in tables]
    for body in ({**MONEY, "externalId": "stored"}, {**MONEY, "amount": "0"}, {**MONEY, "dueDate": "x"}):
        assert (await acme.post(PATH, body)).status_code in {409, 422}
    assert [await count(service, acme, table) for table in tables] == before


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"minAmountMinor": 1235}, ("/minAmountMinor", "band_excludes_amount")),
        ({"maxAmountMinor": 1233}, ("/maxAmountMinor", "band_excludes_amount")),
        ({"expectedFrom": "2025-02-02", "expectedTo": "2025-02-01"}, ("/expectedTo", "range_reversed")),
        ({"metadata": {str(n): "x" for n in range(51)}}, ("/metadata", "too_long")),
        ({"metadata": {"k": "x" * 501}}, ("/metadata/k", "string_too_long")),
        ({"direction": "in"}, ("/direction", "literal_error")),
        ({"id": str(uuid4())}, ("/id", "extra_forbidden")),
        ({"status": "matched"}, ("/status", "extra_forbidden")),
    ],
)
async def test_what_cannot_be_is_named(acme: Tenant, given: dict[str, Any], expected: tuple[str, str]) -> None:
    answer = await acme.post(PATH, {**MONEY, **given})
    assert (answer.status_code, fields(answer)) == (422, {expected})


@pytest.mark.parametrize(
    "wrong", ["x", "0", UNKNOWN, UNKNOWN.upper(), UNKNOWN.replace("-", ""), f"{{{UNKNOWN}}}", "%00"]
)
async def test_an_unknown_or_malformed_id_is_404(acme: Tenant, wrong: str) -> None:
    answer = await acme.get(f"{PATH}/{wrong}")
    assert (answer.status_code, code(answer)) == (404, "not_found")


async def test_somebody_elses_id_is_404(acme: Tenant, globex: Tenant) -> None:
    made = (await acme.post(PATH, MONEY)).json()["id"]
    assert code(await globex.get(f"{PATH}/{made}")) == "not_found"
    assert code(await acme.get(f"{PATH}/{made}", "test")) == "not_found"
    assert (await acme.get(f"{PATH}/{made.upper()}")).status_code == 200


async def test_overdue_comes_from_the_due_date_or_the_last_expected_one(service: Service) -> None:
    tenant = await service.tenant("days", environments=["production"])
    for body in ({"dueDate": "2020-01-01"}, {"expectedTo": "2020-01-01"}, {"dueDate": "2999-01-01"}, {}):
        made = (await tenant.post(PATH, {**MONEY, **body})).json()
        assert made["overdue"] == ("2020-01-01" in body.values())
        assert (await tenant.get(f"{PATH}/{made['id']}")).json() == made


ROWS: list[dict[str, Any]] = [
    {**FULL, "externalId": "a"},
    {"direction": "debit", "amount": "12.34", "currency": "EUR", "externalId": "b", "dueDate": "2020-01-01"},
    {"direction": "credit", "amount": "50", "currency": "JPY", "externalId": "c", "reference": "100%_sure"},
    {"direction": "credit", "amountMinor": 99_999, "currency": "EUR", "externalId": "d", "dueDate": "2999-02-28",
     "counterpartyName": "jürgen", "description": "100 percent sure"},
    {"direction": "debit", "amountMinor": 1, "currency": "USD", "externalId": "e", "groupKey": "G2",
     "endToEndId": "J-7", "counterpartyName": "Bjo\u0308rk", "description": "Cafe\u0301_1"},
]  # fmt: skip

FILTERS: list[tuple[dict[str, Any], str]] = [
    ({}, "abcde"),
    ({"status": "open"}, "abcde"),
    ({"status": "matched"}, ""),
    ({"status": "partially_matched"}, ""),
    ({"status": "void"}, ""),
    ({"direction": "debit"}, "be"),
    ({"direction": "credit"}, "acd"),
    ({"currency": "JPY"}, "c"),
    ({"currency": "EUR", "amountMin": "12.34"}, "abd"),
    ({"currency": "EUR", "amountMin": "12.35"}, "d"),
    ({"currency": "EUR", "amountMax": "12.34"}, "ab"),
    ({"currency": "EUR", "amountMin": "12.34", "amountMax": "999.99", "direction": "credit"}, "ad"),
    ({"currency": "JPY", "amountMin": "50", "amountMax": "50"}, "c"),
    ({"overdue": "true"}, "b"),
    ({"overdue": "false"}, "acde"),
    ({"overdue": "true", "direction": "credit"}, ""),
    ({"dueFrom": "2999-02-28"}, "ad"),
    ({"dueFrom": "2999-03-01"}, "a"),
    ({"dueTo": "2999-02-28"}, "bd"),
    ({"dueFrom": "2020-01-01", "dueTo": "2020-01-01"}, "b"),
    ({"reference": "RF18539007547034"}, "a"),
    ({"reference": "RF1853900754703"}, ""),
    ({"externalId": "c"}, "c"),
    ({"externalId": "C"}, ""),
    ({"counterparty": "JÜRGEN"}, "ad"),
    ({"counterparty": "DE8937"}, "a"),
    ({"counterparty": "ju\u0308rgen"}, "ad"),
    ({"counterparty": "BJ\u00d6RK"}, "e"),
    ({"counterparty": "bjo\u0308rk"}, "e"),
    ({"counterparty": "bjork"}, ""),
    ({"q": "caf\u00e9_"}, "e"),
    ({"q": "\u00e9%"}, ""),
    ({"counterparty": "%"}, ""),
    ({"groupKey": "G2"}, "e"),
    ({"q": "100%"}, "c"),
    ({"q": "0%_s"}, "c"),
    ({"q": "sure"}, "cd"),
    ({"q": "j-7"}, "e"),
    ({"q": "\\"}, ""),
    ({"q": "'"}, ""),
    ({"status": "open", "overdue": "true", "direction": "debit", "currency": "EUR", "amountMin": "12"}, "b"),
]


@pytest.fixture(scope="module")
async def filled(service: Service) -> Tenant:
    tenant = await service.tenant("filters", environments=["production", "test"])
    for body in ROWS:
        assert (await tenant.post(PATH, body)).status_code == 201
        other = {**body, "externalId": "other-" + body["externalId"]}
        assert (await tenant.post(PATH, other, "test")).status_code == 201
    return tenant


@pytest.mark.parametrize(("given", "expected"), FILTERS, ids=[str(given) for given, _ in FILTERS])
async def test_a_filter_narrows_to_what_it_names(filled: Tenant, given: dict[str, Any], expected: str) -> None:
    for sort in ("createdAt", "amountMinor", "dueDate"):
        answer = await filled.get(PATH, params={**given, "sort": sort})
        assert answer.status_code == 200, answer.text
        assert "".join(sorted(row["externalId"] for row in answer.json()["data"])) == expected


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"amountMin": "1.00"}, {("amountMin", "currency_required")}),
        (
            {"amountMin": "1.00", "amountMax": "2"},
            {("amountMin", "currency_required"), ("amountMax", "currency_required")},
        ),
        ({"amountMin": "1.00", "currency": "JPY"}, {("amountMin", "decimal_max_places")}),
        ({"amountMax": "1e3", "currency": "EUR"}, {("amountMax", "decimal_malformed")}),
        ({"dueFrom": "01.02.2025"}, {("dueFrom", "date_malformed")}),
        ({"overdue": "perhaps"}, {("overdue", "bool_parsing")}),
        ({"currency": "eur"}, {("currency", "string_pattern_mismatch")}),
        ({"stauts": "open"}, {("stauts", "extra_forbidden")}),
        ({"amount_min": "1"}, {("amount_min", "extra_forbidden")}),
        ({"q": ""}, {("q", "string_too_short")}),
        ({"q": "x" * 201}, {("q", "string_too_long")}),
        ({"q": "a\0b"}, {("q", "text_control_characters")}),
    ],
)
async def test_a_filter_that_cannot_be_is_named(
    filled: Tenant, given: dict[str, Any], wrong: set[tuple[str, str]]
) -> None:
    assert fields(await filled.get(PATH, params=given)) == wrong


async def test_a_filter_of_text_finds_the_rows_of_its_environment_alone(filled: Tenant) -> None:
    has_prefix: Callable[[dict[str, Any]], bool] = lambda row: row["externalId"].startswith("other-")  # noqa: E731 - one use
    assert all(map(has_prefix, (await filled.get(PATH, "test", params={"q": "sure"})).json()["data"]))
