"""Incoming transactions over HTTP: what is stored comes back, and every filter narrows to what it names."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from support.service import Service, Tenant
from support.wire import code, count, fields, problem

pytestmark = pytest.mark.anyio

PATH = "/incoming-transactions"
MONEY = {"direction": "credit", "amount": "12.34", "currency": "EUR", "bookingDate": "2025-03-01"}
FULL = {
    **MONEY,
    "externalId": "full",
    "valueDate": "2025-03-02",
    "account": "DE02120300000000202051",
    "remittance": "Rechnung 17\nvielen Dank " + "x" * 1000,
    "structuredReference": "RF18539007547034",
    "endToEndId": "E2E-1",
    "bankReference": "2025030112345",
    "counterpartyName": "Jürgen Groß & Söhne",
    "counterpartyAccount": "DE89370400440532013000",
    "ultimateCounterpartyName": "Söhne & Töchter",
    "bankTransactionCode": "PMNT-RCDT-ESCT",
    "reversal": True,
    "mandateId": "M1",
    "instructionId": "I1",
    "transactionId": "T1",
    "uetr": "eb6305c9-1f7f-49de-aed0-16487c27b42d",
    "purposeCode": "SALA",
    "returnReason": "AC04",
    "metadata": {"k": "v"},
}


async def test_what_is_given_is_stored_and_comes_back(acme: Tenant) -> None:
    charge = {"amountMinor": 35, "currency": "EUR", "direction": "debit"}
    made = await acme.post(PATH, {**FULL, "charges": [charge], "groupKey": "PO-1"})
    assert made.status_code == 201, made.text
    body = made.json()
    assert {k: body[k] for k in FULL} == FULL
    assert body["charges"] == [charge]
    assert body["groupKey"] == "PO-1"
    assert (body["amountMinor"], body["openAmountMinor"], body["status"]) == (1234, 1234, "unmatched")
    got = await acme.get(made.headers["location"])
    assert (got.json(), got.headers["etag"]) == (body, made.headers["etag"])


async def test_a_pending_one_is_not_booked_yet(acme: Tenant) -> None:
    made = (await acme.post(PATH, {**MONEY, "status": "pending"})).json()
    assert made["status"] == "pending"
    assert fields(await acme.post(PATH, {**MONEY, "status": "matched"})) == {("/status", "literal_error")}


async def test_zero_is_stored_and_ignored(service: Service, acme: Tenant) -> None:
    before = await count(service, acme, "incoming_open")
    made = (await acme.post(PATH, {**MONEY, "amount": "0.00"})).json()
    assert (made["status"], made["reasonCode"], made["openAmountMinor"]) == ("ignored", "zero_amount", 0)
    assert await count(service, acme, "incoming_open") == before


async def test_without_an_external_id_every_request_is_a_transaction(acme: Tenant) -> None:
    made = [(await acme.post(PATH, FULL | {"externalId": None})) for _ in range(2)]
    assert [m.status_code for m in made] == [201, 201]
    assert made[0].json()["id"] != made[1].json()["id"]


async def test_a_known_external_id_is_a_conflict_whatever_the_account(acme: Tenant, globex: Tenant) -> None:
    body = {**MONEY, "externalId": "once", "account": "A"}
    first = await acme.post(PATH, body)
    again = await acme.post(PATH, {**body, "account": "B", "amount": "1.00"})
    found = problem(again)
    assert (again.status_code, found["code"], found["existingId"]) == (409, "duplicate_external_id", first.json()["id"])
    for tenant, environment in ((acme, "test"), (globex, "production")):
        assert (await tenant.post(PATH, body, environment)).status_code == 201


async def test_an_external_id_of_a_file_is_known_too(acme: Tenant) -> None:
    line = b'{"direction":"credit","amount":"1.00","currency":"EUR","bookingDate":"2025-01-02","externalId":"file-1"}\n'
    await acme.post(f"{PATH}/upload", headers={"Content-Type": "application/x-ndjson"}, content=line)
    assert code(await acme.post(PATH, {**MONEY, "externalId": "file-1"})) == "duplicate_external_id"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"bookingDate": None}, ("/bookingDate", "date_malformed")),
        ({"reversal": "yes"}, ("/reversal", "bool_type")),
        ({"charges": [{"amountMinor": 1, "currency": "EUR"}]}, ("/charges/0/direction", "missing")),
        ({"remittance": "x" * (64 * 1024 + 1)}, ("/remittance", "string_too_long")),
        ({"remittance": "\x1b[31m"}, ("/remittance", "text_control_characters")),
        ({"importId": str(uuid4())}, ("/importId", "extra_forbidden")),
    ],
)
async def test_what_cannot_be_is_named(acme: Tenant, given: dict[str, Any], expected: tuple[str, str]) -> None:
    answer = await acme.post(PATH, {**MONEY, **given})
    assert (answer.status_code, fields(answer)) == (422, {expected})


async def test_somebody_elses_id_is_404(acme: Tenant, globex: Tenant) -> None:
    made = (await acme.post(PATH, MONEY)).json()["id"]
    for wrong in ("x", str(uuid4())):
        assert code(await acme.get(f"{PATH}/{wrong}")) == "not_found"
    assert code(await globex.get(f"{PATH}/{made}")) == "not_found"
    assert code(await acme.get(f"{PATH}/{made}", "test")) == "not_found"


ROWS: list[dict[str, Any]] = [
    {**FULL, "externalId": "a"},
    {"direction": "debit", "amount": "12.34", "currency": "EUR", "externalId": "b", "bookingDate": "2025-02-01"},
    {"direction": "credit", "amount": "50", "currency": "JPY", "externalId": "c", "bookingDate": "2025-03-05",
     "remittance": "100%_sure", "account": "A2", "status": "pending"},
    {"direction": "credit", "amountMinor": 0, "currency": "EUR", "externalId": "d", "bookingDate": "2025-03-05",
     "valueDate": "2025-03-01", "counterpartyName": "jürgen"},
    {"direction": "debit", "amountMinor": 1, "currency": "USD", "externalId": "e", "bookingDate": "2025-03-06",
     "groupKey": "G2", "endToEndId": "J-7"},
]  # fmt: skip

FILTERS: list[tuple[dict[str, Any], str]] = [
    ({}, "abcde"),
    ({"status": "unmatched"}, "abe"),
    ({"status": "pending"}, "c"),
    ({"status": "ignored"}, "d"),
    ({"status": "matched"}, ""),
    ({"status": "partially_matched"}, ""),
    ({"status": "classified"}, ""),
    ({"status": "reversed"}, ""),
    ({"reasonCode": "zero_amount"}, "d"),
    ({"direction": "debit"}, "be"),
    ({"currency": "EUR"}, "abd"),
    ({"currency": "EUR", "amountMin": "0.01"}, "ab"),
    ({"currency": "EUR", "amountMax": "0"}, "d"),
    ({"currency": "JPY", "amountMin": "50", "amountMax": "50"}, "c"),
    ({"bookingFrom": "2025-03-05"}, "cde"),
    ({"bookingTo": "2025-03-01"}, "ab"),
    ({"bookingFrom": "2025-03-01", "bookingTo": "2025-03-01"}, "a"),
    ({"valueFrom": "2025-03-02"}, "a"),
    ({"valueTo": "2025-03-01"}, "d"),
    ({"account": "A2"}, "c"),
    ({"account": "a2"}, ""),
    ({"importId": str(uuid4())}, ""),
    ({"counterparty": "jÜRGEN"}, "ad"),
    ({"counterparty": "DE8937"}, "a"),
    ({"externalId": "c"}, "c"),
    ({"endToEndId": "E2E-1"}, "a"),
    ({"groupKey": "G2"}, "e"),
    ({"q": "rechnung 17"}, "a"),
    ({"q": "0%_s"}, "c"),
    ({"q": "%"}, "c"),
    ({"q": "j-7"}, "e"),
    ({"status": "unmatched", "direction": "debit", "currency": "EUR", "bookingTo": "2025-02-01"}, "b"),
]


@pytest.fixture(scope="module")
async def filled(service: Service) -> Tenant:
    tenant = await service.tenant("filters", environments=["production", "test"])
    for body in ROWS:
        assert (await tenant.post(PATH, body)).status_code == 201
        other = {**body, "externalId": "other-" + body["externalId"]}
        assert (await tenant.post(PATH, other, "test")).status_code == 201
    return tenant


@pytest.mark.parametrize(("given", "expected"), FILTERS, ids=[str(sorted(given)) + e for given, e in FILTERS])
async def test_a_filter_narrows_to_what_it_names(filled: Tenant, given: dict[str, Any], expected: str) -> None:
    for sort in ("createdAt", "amountMinor", "bookingDate"):
        answer = await filled.get(PATH, params={**given, "sort": sort})
        assert answer.status_code == 200, answer.text
        assert "".join(sorted(row["externalId"] for row in answer.json()["data"])) == expected


async def test_the_rows_of_one_data_source_can_be_listed(filled: Tenant) -> None:
    line = b'{"direction":"credit","amount":"%d.00","currency":"SEK","bookingDate":"2025-01-02","externalId":"s%d"}\n'
    sources = []
    for n in (1, 2):
        source = {"name": f"bank {n}", "kind": "upload", "format": "jsonl"}
        sources.append((await filled.post("/data-sources", source, "test")).json()["id"])
        options = {"headers": {"Content-Type": "application/octet-stream"}, "params": {"dataSourceId": sources[-1]}}
        answer = await filled.post(f"{PATH}/upload", None, "test", content=line % (n, n), **options)
        assert answer.status_code == 201, answer.text
    for n, source_id in enumerate(sources, start=1):
        [row] = (await filled.get(PATH, "test", params={"dataSourceId": source_id})).json()["data"]
        assert (row["externalId"], row["dataSourceId"]) == (f"s{n}", source_id)
    assert (await filled.get(PATH, params={"dataSourceId": sources[0]})).json()["data"] == []


async def test_what_was_decided_is_a_filter_too(filled: Tenant) -> None:
    made = [
        (await filled.post(PATH, {**MONEY, "currency": "NOK", "externalId": f"n{n}"}, "test")).json() for n in (1, 2)
    ]
    for line, verb, body in zip(made, ("ignore", "classify"), ({"reason": "x"}, {"category": "fee"}), strict=True):
        assert (await filled.post(f"{PATH}/{line['id']}/{verb}", body, "test")).status_code == 200
    for status, name in (("ignored", "n1"), ("classified", "n2"), ("unmatched", None)):
        found = (await filled.get(PATH, "test", params={"status": status, "currency": "NOK"})).json()["data"]
        assert [row["externalId"] for row in found] == ([name] if name else [])


async def test_the_rows_of_one_import_can_be_listed(filled: Tenant) -> None:
    line = b'{"direction":"credit","amount":"%d.00","currency":"CHF","bookingDate":"2025-01-02","externalId":"i%d"}\n'
    headers = {"Content-Type": "application/x-ndjson"}
    made = [
        (await filled.post(f"{PATH}/upload", None, "test", headers=headers, content=line % (n, n))).json()
        for n in (1, 2)
    ]
    for n, imported in enumerate(made, start=1):
        [row] = (await filled.get(PATH, "test", params={"importId": imported["id"]})).json()["data"]
        assert (row["externalId"], row["importId"], row["amountMinor"]) == (f"i{n}", imported["id"], n * 100)


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"amountMin": "1.00"}, {("amountMin", "currency_required")}),
        ({"bookingFrom": "2025-2-1"}, {("bookingFrom", "date_malformed")}),
        ({"importId": "x"}, {("importId", "uuid_parsing")}),
        ({"q": "a\0b"}, {("q", "text_control_characters")}),
        ({"limit": "1", "account": "\x7f"}, {("account", "text_control_characters")}),
        ({"dueFrom": "2025-01-01"}, {("dueFrom", "extra_forbidden")}),
    ],
)
async def test_a_filter_that_cannot_be_is_named(
    filled: Tenant, given: dict[str, Any], wrong: set[tuple[str, str]]
) -> None:
    assert fields(await filled.get(PATH, params=given)) == wrong
