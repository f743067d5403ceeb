"""Files of expected transactions: every record is accounted for, and again is safe."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
from typing import Any

import httpx2
import pytest

from support.service import Service, Tenant
from support.wire import code, count, problem, until

pytestmark = pytest.mark.anyio

PATH = "/expected-transactions"
FULL: dict[str, Any] = {
    "externalId": "full",
    "direction": "credit",
    "amount": "12.34",
    "currency": "EUR",
    "minAmountMinor": 1_200,
    "maxAmountMinor": 1_300,
    "dueDate": "2999-03-01",
    "expectedFrom": "2999-02-01",
    "expectedTo": "2999-03-31",
    "reference": "INV-17",
    "endToEndId": "E2E-1",
    "counterpartyName": "Jürgen Groß & Söhne",
    "counterpartyAccount": "DE89370400440532013000",
    "account": "DE02120300000000202051",
    "groupKey": "G1",
    "description": "with, a comma",
    "metadata": {"order": "17", "größe": "XL"},
}
PARTLY = {**FULL, "openAmountMinor": 1_000}
"""Something of it was settled before it was known here."""
CSV = (
    "externalId,direction,amount,openAmountMinor,currency,minAmountMinor,maxAmountMinor,dueDate,expectedFrom,expectedTo,reference,"
    "endToEndId,counterpartyName,counterpartyAccount,account,groupKey,description,metadata.order,metadata.größe\n"
    "full,credit,12.34,1000,EUR,1200,1300,2999-03-01,2999-02-01,2999-03-31,INV-17,E2E-1,Jürgen Groß & Söhne,"
    'DE89370400440532013000,DE02120300000000202051,G1,"with, a comma",17,XL\n'
)
ENTRIES = [{**FULL, "externalId": name} for name in ("a", "b", "c")]


NUMBERS = itertools.count(1)


@pytest.fixture
async def mine(service: Service) -> Tenant:
    """Return a tenant of the test's own."""
    return await service.tenant(f"files-{next(NUMBERS)}", environments=["production", "test"])


async def upload(tenant: Tenant, content: str | bytes, **options: str) -> httpx2.Response:
    data = content.encode() if isinstance(content, str) else content
    return await tenant.post(f"{PATH}/upload", files={"file": ("items", data)}, data=options)


async def there(tenant: Tenant) -> dict[str, Any]:
    return {row["externalId"]: row for row in (await tenant.get(PATH)).json()["data"]}


def lines(*records: Any) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (json.dumps([PARTLY]), "json"),
        (json.dumps({"transactions": [PARTLY]}), "json"),
        (lines(PARTLY), "jsonl"),
        (CSV, "csv"),
        (CSV.replace("größe", "größe ", 1), "csv"),
        ("\ufeff" + CSV.replace("\n", "\r\n"), "csv"),
        (CSV.replace(",", ";").replace("with; a comma", "with, a comma"), "csv"),
        (CSV.encode("cp1252"), "csv"),
        (gzip.compress(CSV.encode()), "csv"),
    ],
    ids=["array", "envelope", "lines", "csv", "blank", "mark", "semicolons", "cp1252", "gzip"],
)
async def test_a_record_is_what_a_request_would_have_made(mine: Tenant, content: str | bytes, form: str) -> None:
    alone = (await mine.post(PATH, PARTLY, "test")).json()
    answer = await upload(mine, content)
    assert answer.status_code == 201, answer.text
    body = answer.json()
    assert (body["format"], body["status"], body["resource"]) == (form, "completed", "expected-transactions")
    assert body["counts"] == {"records": 1, "accepted": 1, "duplicates": 0, "skipped": 0, "rejected": 0}
    assert body["errors"] == body["balances"] == body["totals"] == []
    assert (await mine.get(answer.headers["location"])).json() == body
    own = {"id", "createdAt", "updatedAt"}
    stored = (await there(mine))["full"]
    assert (stored["settledBeforeMinor"], stored["openAmountMinor"]) == (234, 1_000)
    assert {k: v for k, v in stored.items() if k not in own} == {k: v for k, v in alone.items() if k not in own}


@pytest.mark.parametrize("media", ["application/json", "application/x-ndjson", "application/octet-stream"])
async def test_a_file_may_be_the_body_with_options_as_parameters(mine: Tenant, media: str) -> None:
    content = (
        "externalId,amountMinor\nx,100\n" if media.endswith("stream") else lines({"externalId": "x", "amount": "1"})
    )
    answer = await mine.http.post(
        f"{mine.base_url}{PATH}/upload",
        content=content.encode(),
        params={"currency": "EUR", "direction": "debit", "account": "DE02120300000000202051"},
        headers={**mine.headers("production"), "Content-Type": media},
    )
    assert answer.status_code == 201, answer.text
    [row] = (await there(mine)).values()
    assert (row["amount"], row["currency"], row["direction"]) == ("1.00", "EUR", "debit")
    assert row["account"] == "DE02120300000000202051"


async def test_every_record_is_accounted_for(mine: Tenant) -> None:
    await mine.post(PATH, {**FULL, "externalId": "there"})
    await mine.post(PATH, {**FULL, "externalId": "other"})
    records = [
        {**FULL, "externalId": "there", "description": "as it is"},
        {**FULL, "externalId": "other", "amount": "1.00", "minAmountMinor": None},
        {**FULL, "externalId": "new"},
        {**FULL, "externalId": "new"},
        {**FULL, "externalId": "new", "currency": "USD"},
        {**FULL, "externalId": None},
        {**FULL, "amount": 12.34},
        {**FULL, "amount": "12.345"},
        {**FULL, "weight": "7"},
        [1],
        {**FULL, "externalId": "issued", "reference": None, "issueReference": "iso11649"},
    ]
    body = (await upload(mine, lines(*records) + '{"torn": \n')).json()
    assert body["counts"] == {"records": 12, "accepted": 2, "duplicates": 2, "skipped": 0, "rejected": 8}
    assert sorted((e["line"], e["code"]) for e in body["errors"]) == [
        (2, "duplicate_external_id"),
        (5, "duplicate_external_id"),
        (6, "missing_external_id"),
        (7, "string_type"),
        (8, "decimal_max_places"),
        (9, "extra_forbidden"),
        (10, "invalid_entry"),
        (12, "invalid_entry"),
    ]
    assert "/amount" in next(e["detail"] for e in body["errors"] if e["line"] == 8)
    stored = await there(mine)
    assert set(stored) == {"there", "other", "new", "issued"}
    assert stored["issued"]["reference"].startswith("RF")
    told = (await mine.get(body["errorsUrl"])).json()["data"]
    assert [(e["line"], e["code"]) for e in told] == [(e["line"], e["code"]) for e in body["errors"]]


async def test_rows_of_a_table_are_told_by_their_lines(mine: Tenant) -> None:
    content = (
        "externalId;direction;amount;currency\n\na;credit;1.00;EUR\nb;credit\nc;credit;1,00;EUR\n"
        'd;debit;2;"E\nUR"\ne;;3;EUR\n'
    )
    body = (await upload(mine, content)).json()
    assert body["counts"] == {"records": 5, "accepted": 1, "duplicates": 0, "skipped": 0, "rejected": 4}
    assert [(e["line"], e["code"]) for e in body["errors"]] == [
        (4, "invalid_entry"),
        (5, "decimal_malformed"),
        (6, "string_pattern_mismatch"),
        (8, "missing"),
    ]
    assert set(await there(mine)) == {"a"}


async def test_nothing_of_a_file_that_is_to_be_whole_is_stored_when_a_record_is_wrong(
    service: Service, mine: Tenant
) -> None:
    answer = await upload(mine, lines(*ENTRIES, {"externalId": "wrong"}), mode="all_or_nothing")
    assert (answer.status_code, code(answer)) == (422, "validation_failed")
    assert problem(answer)["errors"][0]["pointer"] == "/line/4"
    assert await count(service, mine, "expected_transaction") == 0
    [failed] = (await mine.get("/imports", params={"resource": "expected-transactions"})).json()["data"]
    assert (failed["status"], failed["contentUrl"]) == ("failed", None)
    assert (await upload(mine, lines(*ENTRIES), mode="all_or_nothing")).status_code == 201


async def test_the_same_file_again_is_the_same_import_and_another_one_stores_what_is_new(
    service: Service, mine: Tenant
) -> None:
    first = await upload(mine, lines(*ENTRIES[:2]))
    again = await upload(mine, lines(*ENTRIES[:2]))
    assert (again.status_code, again.json()) == (200, first.json())
    assert (await upload(mine, json.dumps(ENTRIES))).json()["counts"]["duplicates"] == 2
    assert (await upload(mine, lines(*ENTRIES[:2]), direction="debit")).json()["id"] != first.json()["id"]
    assert await count(service, mine, "expected_transaction") == 3
    # As incoming transactions the same bytes are another file.
    answer = await mine.post("/incoming-transactions/upload", files={"file": ("x", lines(*ENTRIES[:2]).encode())})
    assert (answer.status_code, answer.json()["resource"]) == (201, "incoming-transactions")
    for resource, n in (("incoming-transactions", 1), ("expected-transactions", 3)):
        assert len((await mine.get("/imports", params={"resource": resource})).json()["data"]) == n


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "empty_file"),
        ("Dear Sir,\nplease find our invoice.\n", "csv_no_header"),
        ("Betrag;Datum\n1,00;01.02.2026\n", "csv_no_header"),
        ("externalId,weight,amount\na,7,1\n", "unknown_field"),
        ("externalId,amount,amount\na,1,1\n", "csv_no_header"),
        ('externalId,amount\n"a,1\nb,2\n', "csv_unclosed_quote"),
        ('[{"externalId": "a"}', "invalid_json"),
        ('{"items": []}\n{', None),
    ],
)
async def test_what_is_no_such_file_is_refused(
    service: Service, mine: Tenant, content: str, reason: str | None
) -> None:
    answer = await upload(mine, content)
    if reason is None:
        assert answer.json()["counts"]["accepted"] == 0
    else:
        assert (answer.status_code, problem(answer)["reason"]) == (422, reason)
    assert await count(service, mine, "expected_transaction") == 0


@pytest.mark.parametrize("options", [{"format": "camt"}, {"currency": "eur"}, {"direction": "in"}, {"profile": "{}"}])
async def test_an_option_that_cannot_be_is_refused(mine: Tenant, options: dict[str, str]) -> None:
    answer = await upload(mine, lines(FULL), **options)
    assert (answer.status_code, code(answer)) == (422, "validation_failed")


async def test_a_format_that_was_named_is_meant(mine: Tenant) -> None:
    answer = await upload(mine, CSV, format="json")
    assert (answer.status_code, problem(answer)["reason"]) == (422, "unknown_format")
    answer = await upload(mine, lines(FULL), format="csv")
    assert (answer.status_code, problem(answer)["reason"]) == (422, "csv_no_header")


async def test_a_large_file_is_a_job(service: Service, mine: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("payrec.services.imports.INLINE_BYTES_MAX", 1024)
    records = [{**FULL, "externalId": f"I-{n}", "reference": f"INV-{n:06}"} for n in range(12_000)]
    answer = await upload(mine, lines(*records, {"externalId": "wrong"}))
    assert (answer.status_code, answer.json()["status"]) == (202, "processing")

    async def ended() -> dict[str, Any] | None:
        job = (await mine.get(answer.headers["location"])).json()
        return job if job["status"] not in {"queued", "running"} else None

    job = await until(ended)
    assert (job["status"], job["progress"]) == ("succeeded", {"done": 12_001, "total": 12_001})
    body = (await mine.get(f"/imports/{answer.json()['id']}")).json()
    assert body["counts"] == {"records": 12_001, "accepted": 12_000, "duplicates": 0, "skipped": 0, "rejected": 1}
    for table in ("expected_transaction", "expected_open"):
        assert await count(service, mine, table) == 12_000


async def test_files_that_come_at_once_store_each_item_once(service: Service, mine: Tenant) -> None:
    records = [{**FULL, "externalId": f"I-{n}"} for n in range(200)]
    answers = await asyncio.gather(
        upload(mine, lines(*records)), upload(mine, lines(*records[::-1])), upload(mine, json.dumps(records[50:]))
    )
    assert {answer.status_code for answer in answers} == {201}
    counts = [answer.json()["counts"] for answer in answers]
    assert sum(c["accepted"] for c in counts) == await count(service, mine, "expected_transaction") == 200
    assert sum(c["records"] for c in counts) == 550


async def test_another_environment_and_tenant_see_nothing_of_it(mine: Tenant, globex: Tenant) -> None:
    body = (await upload(mine, lines(FULL))).json()
    assert "full" not in await there(globex)
    for tenant, environment in ((globex, "production"), (mine, "test")):
        assert code(await tenant.get(f"/imports/{body['id']}", environment)) == "not_found"
        content = lines(FULL).encode()
        answer = await tenant.post(f"{PATH}/upload", files={"file": ("x", content)}, environment=environment)
        assert answer.json()["counts"]["accepted"] == 1
