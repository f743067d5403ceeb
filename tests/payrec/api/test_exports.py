"""Exports over the wire: a list as a file, which is exactly that list, in bounded memory, and nobody else's."""

from __future__ import annotations

import csv
import hashlib
import io
import tempfile
import threading
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from payrec.constants.exports import EXPORT_PAGE_ROWS
from payrec.models.jobs import JobPublic
from payrec.services.export_files import ExportFile
from support.memory import peak_bytes
from support.service import Service, Tenant
from support.wire import ask, code, count, fields, rows, until

pytestmark = pytest.mark.anyio

NASTY = [
    '=HYPERLINK("http://x","y")',
    "+49 30 1234",
    "-5",
    "@SUM(A1)",
    "\tx",
    'quote " and, comma; and\nline',
    "Zażółć 東京 \U0001f600",
    " leading",
]


async def expect(tenant: Tenant, number: int, **given: Any) -> dict[str, Any]:
    body = {
        "externalId": f"E-{number}",
        "direction": "credit",
        "amount": f"{number}.05",
        "currency": "EUR",
        "dueDate": "2026-03-10",
        **given,
    }
    answer = await tenant.post("/expected-transactions", body)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def exported(tenant: Tenant, environment: str = "production", **params: Any) -> dict[str, Any]:
    """Return the job of an export, ended."""
    started = await tenant.request("POST", "/jobs", environment=environment, json={"kind": "export", "params": params})
    assert started.status_code == 202, started.text
    assert started.headers["Location"] == f"/jobs/{started.json()['id']}"

    async def ended() -> dict[str, Any] | None:
        job = (await tenant.request("GET", started.headers["Location"], environment=environment)).json()
        return job if job["status"] not in {"queued", "running"} else None

    job = await until(ended)
    assert job["status"] == "succeeded", job
    return job


async def content(tenant: Tenant, job: dict[str, Any]) -> bytes:
    answer = await tenant.get(job["result"]["url"])
    assert answer.status_code == 200, answer.text
    assert int(answer.headers["content-length"]) == len(answer.content) == job["result"]["bytes"]
    assert hashlib.sha256(answer.content).hexdigest() == job["result"]["sha256"]
    return bytes(answer.content)


def lines_of(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


async def test_a_csv_is_the_list(service: Service) -> None:
    tenant = await service.tenant("exporter")
    for number in range(1, 6):
        await expect(tenant, number, metadata={"k": "v"} if number == 2 else {})
    listed = (await tenant.get("/expected-transactions", params={"sort": "createdAt"})).json()["data"]
    job = await exported(tenant, resource="expected-transactions", filter={"sort": "createdAt"})
    assert job["progress"] == {"done": 5, "total": 5}
    assert job["result"]["rows"] == 5
    data = await content(tenant, job)
    assert data.startswith(b"id,createdAt,updatedAt,version,")
    assert data.endswith(b"\r\n")
    found = lines_of(data)
    assert list(found[0]) == list(listed[0])
    for line, resource in zip(found, listed, strict=True):
        assert line["id"] == resource["id"]
        assert (line["amountMinor"], line["amount"]) == (str(resource["amountMinor"]), resource["amount"])
        assert line["overdue"] == str(resource["overdue"]).lower()
        assert (line["reference"], line["dueDate"]) == ("", "2026-03-10")
    assert [line["metadata"] for line in found[:3]] == ["{}", '{"k":"v"}', "{}"]
    headers = (await tenant.get(job["result"]["url"])).headers
    assert (
        f'filename="expected-transactions-{job["result"]["url"].split("/")[2]}.csv"' in headers["content-disposition"]
    )


async def test_exports_that_are_kept_fill_no_more_than_a_tenant_environment_may(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    hoarder, other = [await service.tenant(slug, environments=["production", "test"]) for slug in ("hoarder", "other")]
    await expect(hoarder, 1)
    of_list = {"kind": "export", "params": {"resource": "expected-transactions"}}
    queued, finish = threading.Event(), ExportFile.finish

    def finished(file: ExportFile) -> Path:
        assert queued.wait(10)
        return finish(file)

    monkeypatch.setattr(ExportFile, "finish", finished)
    monkeypatch.setattr("payrec.services.exports.EXPORTS_KEPT_BYTES_MAX", 1)
    # What was queued before the first one was there does not get in afterwards.
    jobs = [(await hoarder.post("/jobs", of_list)).headers["Location"] for _ in range(3)]
    queued.set()

    async def ended() -> list[dict[str, Any]] | None:
        found = [(await hoarder.get(job)).json() for job in jobs]
        return found if all(job["status"] in {"succeeded", "failed"} for job in found) else None

    told = await until(ended)
    assert sorted(job["status"] for job in told) == ["failed", "failed", "succeeded"]
    assert {job["error"]["code"] for job in told if job["status"] == "failed"} == {"rate_limited"}
    refused = await hoarder.post("/jobs", of_list)
    assert (refused.status_code, code(refused)) == (429, "rate_limited")
    assert 86_000 < int(refused.headers["retry-after"]) <= 86_400
    await exported(hoarder, "test", resource="expected-transactions")
    await exported(other, resource="expected-transactions")
    [kept] = [job for job in told if job["status"] == "succeeded"]
    await content(hoarder, kept)


async def test_filters_narrow_it_as_they_narrow_the_list(service: Service) -> None:
    tenant = await service.tenant("narrowed")
    for number in range(1, 6):
        await expect(tenant, number)
    narrow = {"amountMin": "2.00", "amountMax": "4.10", "currency": "EUR", "sort": "createdAt"}
    found = lines_of(await content(tenant, await exported(tenant, resource="expected-transactions", filter=narrow)))
    assert [line["externalId"] for line in found] == ["E-2", "E-3", "E-4"]


async def test_a_parquet_has_types_and_the_same_values(service: Service) -> None:
    tenant = await service.tenant("columnar")
    for number, text in enumerate(NASTY, 1):
        await expect(tenant, number, description=text, dueDate=None if number == 2 else "2026-03-10")
    listed = (await tenant.get("/expected-transactions", params={"sort": "createdAt"})).json()["data"]
    job = await exported(tenant, resource="expected-transactions", format="parquet", filter={"sort": "createdAt"})
    frame = pl.read_parquet(io.BytesIO(await content(tenant, job)))
    assert frame.columns == list(listed[0])
    assert frame.schema["amountMinor"] == pl.Int64
    assert frame.schema["dueDate"] == pl.Date
    assert frame.schema["createdAt"] == pl.Datetime("us", "UTC")
    assert frame.schema["overdue"] == pl.Boolean
    assert frame["description"].to_list() == [row["description"] for row in listed]
    assert frame["dueDate"].null_count() == 1
    assert frame["createdAt"][0] == datetime.fromisoformat(listed[0]["createdAt"]).astimezone(UTC)


async def test_a_csv_makes_no_formula_of_anybodys_text(service: Service) -> None:
    tenant = await service.tenant("formulas")
    for number, text in enumerate(NASTY, 1):
        await expect(tenant, number, description=text)
    job = await exported(tenant, resource="expected-transactions", filter={"sort": "createdAt"})
    found = [line["description"] for line in lines_of(await content(tenant, job))]
    assert found == [f"'{text}" if text[0] in "=+-@\t" else text for text in NASTY]


async def test_each_leg_of_a_match_is_a_line(service: Service) -> None:
    tenant = await service.tenant("legged")
    await expect(tenant, 100, reference="INV-2026-001")
    body = {
        "externalId": "I-1",
        "direction": "credit",
        "amount": "100.05",
        "currency": "EUR",
        "bookingDate": "2026-03-10",
        "remittance": "INV-2026-001",
    }
    assert (await tenant.post("/incoming-transactions", body)).status_code == 201
    assert (await tenant.post("/matches/match")).status_code == 200
    match = (await tenant.get("/matches")).json()["data"][0]
    (line,) = lines_of(await content(tenant, await exported(tenant, resource="matches")))
    (leg,) = match["legs"]
    assert line["id"] == match["id"]
    assert line["legExpectedTransactionId"] == leg["expectedTransactionId"]
    assert line["legAmountMinor"] == "10005"
    assert line["explanation"] == match["explanation"]
    assert "legs" not in line


async def test_each_line_of_a_posting_is_a_line(service: Service) -> None:
    tenant = await service.tenant("exporter-of-postings")
    line = {"account": "GIRO", "direction": "debit", "amount": "3.00", "currency": "EUR", "bookingDate": "2026-03-10"}
    for code_ in ("4970", "=1+1"):
        made = await tenant.post("/incoming-transactions", line)
        body = {"category": "fee", "postingCode": code_}
        assert (await tenant.post(f"{made.headers['location']}/classify", body)).status_code == 200

    async def posted() -> list[dict[str, Any]] | None:
        found = (await tenant.get("/postings")).json()["data"]
        return found if len(found) == 2 else None

    listed = await until(posted)
    told = lines_of(await content(tenant, await exported(tenant, resource="postings", filter={"after": 0})))
    assert [(row["sequence"], row["sourceId"], row["effectiveOn"]) for row in told] == [
        (str(posting["sequence"]), posting["sourceId"], posting["effectiveOn"])
        for posting in listed
        for _ in posting["lines"]
    ]
    assert [row["lineAmountMinor"] for row in told] == ["300"] * 4
    codes = {row["lineCode"] for row in told if row["lineDirection"] == "debit"}
    assert codes == {"4970", "'=1+1"}, "a spreadsheet computes nothing"
    last = lines_of(await content(tenant, await exported(tenant, resource="postings", filter={"after": 1})))
    assert last == told[2:]


@pytest.mark.parametrize(
    "resource",
    [
        "expected-transactions",
        "incoming-transactions",
        "matches",
        "postings",
        "imports",
        "fx-rates",
        "audit-log",
        "jobs",
    ],
)
async def test_every_list_can_be_exported(acme: Tenant, resource: str) -> None:
    whole = (await acme.get(f"/{resource}", params={"limit": 200})).json()
    assert not whole["hasMore"]
    for form in ("csv", "parquet"):
        job = await exported(acme, resource=resource, format=form)
        assert (await content(acme, job))[:4] in {b"id,c", b"id,a", b"sequ", b"PAR1"}
        if resource not in {"jobs", "audit-log", "matches", "postings"}:
            assert job["result"]["rows"] == len(whole["data"])


async def test_wrong_params_are_refused_before_anything_is_queued(acme: Tenant) -> None:
    wrong: list[tuple[dict[str, Any], tuple[str, str]]] = [
        ({}, ("/params/resource", "missing")),
        ({"resource": "webhooks"}, ("/params/resource", "literal_error")),
        ({"resource": "matches", "format": "xlsx"}, ("/params/format", "literal_error")),
        ({"resource": "matches", "columns": []}, ("/params/columns", "extra_forbidden")),
        ({"resource": "matches", "filter": {"limit": 5}}, ("/params/filter/limit", "extra_forbidden")),
        ({"resource": "matches", "filter": {"cursor": "x"}}, ("/params/filter/cursor", "extra_forbidden")),
        ({"resource": "matches", "filter": {"state": "open"}}, ("/params/filter/state", "extra_forbidden")),
        (
            {"resource": "expected-transactions", "filter": {"amountMin": "1"}},
            ("/params/filter/amountMin", "currency_required"),
        ),
    ]
    before = (await acme.get("/jobs", params={"limit": 200})).json()["data"]
    for params, told in wrong:
        answer = await acme.post("/jobs", {"kind": "export", "params": params})
        assert answer.status_code == 422, params
        assert fields(answer) == {told}
    assert (await acme.get("/jobs", params={"limit": 200})).json()["data"] == before


@pytest.mark.parametrize("resource", ["expected-transactions", "incoming-transactions", "matches"])
@pytest.mark.parametrize("as_of", ["9999-12-31T23:59:59Z", "1970-01-01T00:00:00Z"])
async def test_an_instant_that_cannot_be_shown_is_refused_as_that_of_the_list(
    acme: Tenant, resource: str, as_of: str
) -> None:
    before = (await acme.get("/jobs", params={"limit": 200})).json()["data"]
    answer = await acme.post("/jobs", {"kind": "export", "params": {"resource": resource, "filter": {"asOf": as_of}}})
    of_list = await acme.get(f"/{resource}", params={"asOf": as_of})
    assert code(answer) == code(of_list) == "as_of_out_of_range"
    assert answer.json()["detail"] == of_list.json()["detail"]
    assert (await acme.get("/jobs", params={"limit": 200})).json()["data"] == before


async def test_nobody_else_reads_the_file(acme: Tenant, globex: Tenant) -> None:
    job = await exported(acme, resource="audit-log")
    url = job["result"]["url"]
    assert code(await globex.get(url)) == "not_found"
    assert code(await acme.request("GET", url, environment="test")) == "not_found"
    assert code(await acme.get("/exports/none/content")) == "not_found"
    anonymous = await ask(acme, "GET", url, {"X-Tenant-Id": acme.id, "X-Environment": "production"})
    assert code(anonymous) == "missing_credentials"


async def test_an_expired_one_is_gone(service: Service) -> None:
    tenant = await service.tenant("expiring")
    job = await exported(tenant, resource="audit-log")
    url = job["result"]["url"]
    await rows(service, tenant, "UPDATE export SET expires_at = now() - interval '1 second' RETURNING id")
    assert code(await tenant.get(url)) == "not_found"


async def test_many_pages_are_one_file(service: Service) -> None:
    tenant = await service.tenant("many")
    days = [date(1990, 1, 1) + timedelta(days=number) for number in range(2 * EXPORT_PAGE_ROWS + 1)]
    items = [{"date": day.isoformat(), "base": "EUR", "quote": "USD", "rate": "1.1"} for day in days]
    answer = await tenant.request("PUT", "/fx-rates", json={"items": items})
    assert answer.status_code == 200, answer.text
    job = await exported(tenant, resource="fx-rates", filter={"sort": "date"})
    assert job["result"]["rows"] == len(days)
    found = [line["date"] for line in lines_of(await content(tenant, job))]
    assert found == [day.isoformat() for day in days]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_file_ten_times_as_long_takes_no_more_memory(form: Any) -> None:
    now = datetime(2026, 3, 10, tzinfo=UTC)
    job = JobPublic(
        id="01a20217-0d6b-7318-91af-1a9cff44fc62",
        created_at=now,
        updated_at=now,
        version=1,
        kind="match",
        status="succeeded",
        progress={"done": 1, "total": 1},
        params={"text": "x" * 500},
        result=None,
        error=None,
        attempts=1,
        next_attempt_at=None,
        started_at=now,
        finished_at=None,
    )

    def write(pages: int) -> None:
        with tempfile.TemporaryDirectory() as directory:
            file = ExportFile(JobPublic, form, Path(directory))
            for _ in range(pages):
                file.add([job] * 200)
            assert file.finish().stat().st_size > 0
            assert file.rows == pages * 200

    write(1)
    short, long = peak_bytes(lambda: write(2)), peak_bytes(lambda: write(20))
    assert long < short + 200_000


async def test_expired_files_are_deleted_and_the_log_tells_which(service: Service) -> None:
    tenant, other = await service.tenant("cleaned"), await service.tenant("keeper")
    retention = service.factory.upkeep.create_retention_service()
    await retention.drop_expired()
    gone, kept = await exported(tenant, resource="jobs"), await exported(tenant, resource="jobs")
    theirs = await exported(other, resource="jobs")
    gone_id = gone["result"]["url"].split("/")[2]
    late = f"UPDATE export SET expires_at = now() WHERE id = '{gone_id}' RETURNING id"  # noqa: S608 - a test's own
    await rows(service, tenant, late)
    assert (await retention.drop_expired()).of("exports").count == 1
    assert len(await content(tenant, kept)) > 0
    assert len(await content(other, theirs)) > 0
    assert await count(service, tenant, "blob_chunk") == 1
    told = (await tenant.get("/audit-log", params={"type": "export.dropped"})).json()["data"]
    assert [(r["resourceId"], r["actor"]) for r in told] == [(gone_id, "retention")]
