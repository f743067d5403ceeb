"""Uploads: every record is accounted for, again is safe, and what is in a file twice on purpose stays twice."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from payrec.services.imports import INLINE_BYTES_MAX
from support.service import Service, Tenant
from support.wire import add_key, ask, code, count, fields, problem, until

pytestmark = pytest.mark.anyio

PATH = "/incoming-transactions/upload"
RAW = "application/octet-stream"
FILES = Path(__file__).parents[2] / "data" / "uploads"
CAMT = (FILES / "statement.camt053.xml").read_bytes()
MT940 = (FILES / "statement.mt940").read_bytes()
CSV = (FILES / "statement.csv").read_bytes()


@pytest.fixture
async def tenant(service: Service, request: pytest.FixtureRequest) -> Tenant:
    """A tenant of the test's own: what is a duplicate depends on what is there."""
    slug = "t" + hashlib.sha256(request.node.name.encode()).hexdigest()[:20]
    return await service.tenant(slug, environments=["production"])


async def upload(tenant: Tenant, content: bytes, media_type: str = RAW, **options: str) -> Any:
    return await tenant.post(PATH, headers={"Content-Type": media_type}, content=content, params=options)


async def imported(tenant: Tenant, content: bytes, media_type: str = RAW, **options: str) -> dict[str, Any]:
    answer = await upload(tenant, content, media_type, **options)
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    counts = dict(body["counts"])
    assert counts.pop("records") == sum(counts.values())
    return body


async def listed(tenant: Tenant, **parameters: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await tenant.get("/incoming-transactions", params=parameters)).json()["data"]
    return found


def record(number: int, **more: Any) -> dict[str, Any]:
    money = {"direction": "credit", "amount": f"{number}.00", "currency": "EUR", "bookingDate": "2025-03-01"}
    return {**money, "externalId": f"x{number}", **more}


def counts(body: dict[str, Any]) -> tuple[int, ...]:
    """Return accepted, duplicates, skipped, rejected."""
    return tuple(body["counts"][name] for name in ("accepted", "duplicates", "skipped", "rejected"))


RECORDS = [record(1), record(2)]


@pytest.mark.parametrize(
    ("media_type", "content", "format_"),
    [
        ("application/json", json.dumps(RECORDS).encode(), "json"),
        ("application/json; charset=utf-8", json.dumps({"transactions": RECORDS}).encode(), "json"),
        ("application/x-ndjson", b"".join(json.dumps(r).encode() + b"\n" for r in RECORDS), "jsonl"),
        (RAW, json.dumps(RECORDS).encode(), "json"),
        (RAW, gzip.compress(json.dumps(RECORDS).encode()), "json"),
    ],
)
async def test_records_come_in_every_shape(tenant: Tenant, media_type: str, content: bytes, format_: str) -> None:
    body = await imported(tenant, content, media_type)
    assert (body["format"], counts(body)) == (format_, (2, 0, 0, 0))
    assert (body["bytes"], body["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    rows = await listed(tenant, importId=body["id"], sort="amountMinor")
    assert [(r["externalId"], r["amountMinor"]) for r in rows] == [("x1", 100), ("x2", 200)]


async def test_the_answer_is_the_import_and_can_be_got_again(tenant: Tenant) -> None:
    answer = await upload(tenant, CAMT)
    body = answer.json()
    assert answer.headers["location"] == f"/imports/{body['id']}"
    assert (body["status"], body["format"], body["formatVersion"]) == ("completed", "camt.053", "camt.053.001.08")
    got = await tenant.get(answer.headers["location"])
    assert (got.json(), got.headers["etag"]) == (body, answer.headers["etag"])
    assert (await tenant.get("/imports")).json()["data"] == [body]
    job = (await tenant.get(f"/jobs/{body['jobId']}")).json()
    assert (job["kind"], job["status"], job["result"]["importId"]) == ("import", "succeeded", body["id"])


@pytest.mark.parametrize(("content", "closing", "entries"), [(CAMT, 16_800, 4), (MT940, 14_750, 2)])
async def test_balances_are_checked_and_shown(tenant: Tenant, content: bytes, closing: int, entries: int) -> None:
    [balance] = (await imported(tenant, content))["balances"]
    assert (balance["openingMinor"], balance["closingMinor"]) == (10_000, closing)
    assert (balance["balanceCheck"], balance["balanceDifferenceMinor"], balance["entryCount"]) == ("ok", 0, entries)


async def test_a_balance_that_does_not_add_up_is_told_and_hides_nothing(tenant: Tenant) -> None:
    body = await imported(tenant, CAMT.replace(b">168.00<", b">170.00<"))
    assert counts(body) == (4, 0, 0, 0)
    [balance] = body["balances"]
    assert (balance["balanceCheck"], abs(balance["balanceDifferenceMinor"])) == ("mismatch", 200)
    told = (await tenant.get(body["errorsUrl"])).json()["data"]
    assert "balance_mismatch" in {error["code"] for error in told}


async def test_totals_are_the_sums_of_the_entries(tenant: Tenant) -> None:
    body = await imported(tenant, CAMT)
    assert body["totals"] == [{"currency": "EUR", "creditMinor": 7000, "debitMinor": 200}]


async def test_a_bad_record_is_listed_with_its_line_and_the_good_ones_are_stored(tenant: Tenant) -> None:
    body = await imported(tenant, CSV)
    assert (body["format"], counts(body)) == ("csv", (4, 0, 0, 1))
    [error] = body["errors"]
    assert (error["line"], error["code"], error["severity"]) == (6, "invalid_amount", "error")
    assert "not money" not in str(body)
    assert body["errorsUrl"] == f"/imports/{body['id']}/errors"
    assert error in (await tenant.get(body["errorsUrl"])).json()["data"]


async def test_all_or_nothing_stores_nothing_with_a_bad_record(service: Service, tenant: Tenant) -> None:
    answer = await upload(tenant, CSV, mode="all_or_nothing")
    assert (answer.status_code, fields(answer)) == (422, {("/line/6", "invalid_amount")})
    assert await count(service, tenant, "incoming_transaction") == 0
    [failed] = (await tenant.get("/imports", params={"status": "failed"})).json()["data"]
    assert failed["error"]["code"] == "validation_failed"
    good = b"\n".join(line for line in CSV.splitlines() if b"not money" not in line)
    assert counts(await imported(tenant, good, mode="all_or_nothing")) == (4, 0, 0, 0)


async def test_all_errors_can_be_paged_though_the_import_shows_a_hundred(tenant: Tenant) -> None:
    lines = [json.dumps(record(n, amount="x")).encode() for n in range(1, 131)]
    body = await imported(tenant, b"\n".join(lines), "application/x-ndjson")
    assert counts(body) == (0, 0, 0, 130)
    assert [error["line"] for error in body["errors"]] == list(range(1, 101))
    url, found = f"{body['errorsUrl']}?limit=40", []
    while url:
        answer = await tenant.get(url)
        found += [error["line"] for error in answer.json()["data"] if error["severity"] == "error"]
        url = answer.links["next"]["url"] if "next" in answer.links else ""
    assert found == list(range(1, 131))
    cursor = (await tenant.get(body["errorsUrl"], params={"limit": 1})).json()["nextCursor"]
    other = await imported(tenant, b"\n".join(lines[:50]), "application/x-ndjson")
    assert code(await tenant.get(other["errorsUrl"], params={"cursor": cursor})) == "invalid_cursor"


async def test_the_same_bytes_again_are_the_first_import(service: Service, tenant: Tenant) -> None:
    first = await upload(tenant, CAMT)
    again = await upload(tenant, CAMT)
    assert (again.status_code, again.json()) == (200, first.json())
    assert again.headers["location"] == first.headers["location"]
    assert await count(service, tenant, "import") == 1
    assert await count(service, tenant, "incoming_transaction") == 4


async def test_the_same_bytes_at_once_are_one_import(service: Service, tenant: Tenant) -> None:
    answers = await asyncio.gather(*(upload(tenant, CAMT) for _ in range(8)))
    assert {a.status_code for a in answers} <= {200, 201, 202}
    assert sum(a.status_code == 201 for a in answers) == 1
    assert len({a.json()["id"] for a in answers}) == 1
    assert await count(service, tenant, "incoming_transaction") == 4


async def test_other_options_are_a_new_import_of_duplicates(service: Service, tenant: Tenant) -> None:
    first = await imported(tenant, CAMT)
    for options in ({"mode": "all_or_nothing"}, {"format": "camt"}, {"format": "camt.053"}):
        body = await imported(tenant, CAMT, **options)
        assert body["id"] != first["id"]
        assert counts(body) == (0, 4, 0, 0)
    assert await count(service, tenant, "incoming_transaction") == 4


async def test_a_failed_import_is_tried_again(tenant: Tenant) -> None:
    broken = CAMT[:-60]
    failures = [await upload(tenant, broken) for _ in range(2)]
    assert {code(answer) for answer in failures} == {"unreadable_file"}
    assert len((await tenant.get("/imports", params={"status": "failed"})).json()["data"]) == 2


def camt(*entries: str) -> bytes:
    """Return the statement with these entries and no balances."""
    text = re.sub(r"\s*<Bal>.*?</Bal>", "", CAMT.decode(), flags=re.DOTALL)
    return re.sub(r"<Ntry>.*</Ntry>", "".join(entries), text, flags=re.DOTALL).encode()


ENTRIES = re.findall(r"<Ntry>.*?</Ntry>", CAMT.decode(), flags=re.DOTALL)


async def test_overlapping_statements_do_not_double(service: Service, tenant: Tenant) -> None:
    assert counts(await imported(tenant, camt(*ENTRIES[:3]))) == (3, 0, 0, 0)
    assert counts(await imported(tenant, camt(*ENTRIES[1:]))) == (1, 2, 0, 0)
    assert await count(service, tenant, "incoming_transaction") == 4


async def test_twins_within_one_statement_stay_two(tenant: Tenant) -> None:
    await imported(tenant, camt(*ENTRIES[1:3]))
    twins = await listed(tenant, q="Ticket")
    assert [t["amountMinor"] for t in twins] == [1000, 1000]
    assert counts(await imported(tenant, camt(*ENTRIES[1:3], ENTRIES[1]))) == (1, 2, 0, 0)


async def test_a_booked_line_takes_the_place_of_its_pending_one(tenant: Tenant) -> None:
    pending = ENTRIES[0].replace("<Cd>BOOK</Cd>", "<Cd>PDNG</Cd>")
    first = await imported(tenant, camt(pending))
    [before] = await listed(tenant)
    assert (counts(first), before["status"]) == ((1, 0, 0, 0), "pending")
    second = await imported(tenant, camt(ENTRIES[0]))
    [after] = await listed(tenant)
    assert counts(second)[3] == 0
    assert (after["id"], after["status"], after["importId"]) == (before["id"], "unmatched", second["id"])
    assert after["version"] > before["version"]
    assert counts(await imported(tenant, camt(pending, ENTRIES[3]))) == (1, 1, 0, 0)
    assert {row["status"] for row in await listed(tenant)} == {"unmatched"}


async def test_the_same_payment_in_another_format_is_flagged_and_never_lost(tenant: Tenant) -> None:
    line = record(9, remittance="once", account="A")
    await imported(tenant, json.dumps([line]).encode(), "application/json")
    other = {**line, "externalId": "y9"}
    body = await imported(tenant, json.dumps([other]).encode(), "application/json")
    assert counts(body) == (1, 0, 0, 0)
    [flagged] = await listed(tenant, externalId="y9")
    assert flagged["reasonCode"] == "duplicate"


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"\x00\x01\x02\x03", None), (b"", None), (b"hello world", None), (b"<html></html>", None), (CAMT[:-60], None),
     (b'<!DOCTYPE x [<!ENTITY e "x">]><Document/>', "xml_dtd_forbidden"), (b"%PDF-1.7\n", None)],
)  # fmt: skip
async def test_what_nobody_can_read_says_why_and_who_tried(
    service: Service, tenant: Tenant, content: bytes, reason: str | None
) -> None:
    answer = await upload(tenant, content)
    found = problem(answer)
    assert (answer.status_code, found["code"]) == (422, "unreadable_file")
    assert re.fullmatch(r"[a-z_]+", found["reason"])
    assert reason in {None, found["reason"]}
    assert all(set(tried) == {"format", "reason"} for tried in found["tried"])
    for table in ("incoming_transaction", "blob_chunk", "statement"):
        assert await count(service, tenant, table) == 0
    [failed] = (await tenant.get("/imports")).json()["data"]
    assert (failed["status"], failed["error"]["reason"]) == ("failed", found["reason"])


def form(*parts: tuple[str, str, bytes], boundary: str = "XX") -> tuple[bytes, str]:
    """Return a form and its media type; a part is name, filename (or nothing) and content."""
    body = b""
    for name, filename, content in parts:
        more = f'; filename="{filename}"' if filename else ""
        body += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode()
        body += content + b"\r\n"
    return body + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


async def test_a_form_has_the_file_and_its_options(tenant: Tenant) -> None:
    fields_ = [("format", "", b"csv"), ("mode", "", b"valid_rows"), ("account", "", b"DE-MINE")]
    for n, parts in enumerate(
        ([*fields_, ("file", "März.csv", CSV)], [("file", "../../März.csv", CSV + b"\n"), *fields_])
    ):
        content, media_type = form(*parts)
        body = await imported(tenant, content, media_type)
        assert (body["name"], body["format"], counts(body)[n]) == ("März.csv", "csv", 4)
    assert {row["account"] for row in await listed(tenant)} == {"DE-MINE"}


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([], (422, "validation_failed")),
        ([("format", "", b"csv")], (422, "validation_failed")),
        ([("files", "x.csv", CSV)], (422, "validation_failed")),
        ([("file", "a", CSV), ("file", "b", CSV)], (400, "malformed_body")),
        ([("file", "a", CSV), ("mode", "", b"x"), ("mode", "", b"y")], (400, "malformed_body")),
        ([("file", "a", CSV), ("mode", "", b"some_rows")], (422, "validation_failed")),
        ([("file", "a", CSV), ("mdoe", "", b"valid_rows")], (422, "validation_failed")),
        ([("file", "a", CSV), ("account", "", b"\xff")], (400, "malformed_body")),
        ([("file", "a", CSV), ("profile", "", b"x" * 70_000)], (400, "malformed_body")),
        ([("file", "a", CSV), ("profile", "", b"[1]")], (422, "validation_failed")),
        ([("file", "a", CSV), *((f"f{n}", "", b"x") for n in range(30))], (400, "malformed_body")),
    ],
)
async def test_a_form_that_is_not_one_is_refused(
    service: Service, acme: Tenant, parts: list[tuple[str, str, bytes]], expected: tuple[int, str]
) -> None:
    content, media_type = form(*parts)
    answer = await upload(acme, content, media_type)
    assert (answer.status_code, code(answer)) == expected
    assert await count(service, acme, "import") == 0


async def test_a_form_that_ends_too_early_is_refused(acme: Tenant) -> None:
    content, media_type = form(("file", "a", CSV))
    for wrong in (content[:-10], content[:50], b"", b"--YY--"):
        assert code(await upload(acme, wrong, media_type)) in {"malformed_body", "validation_failed"}
    for wrong_type in ("", "; boundary=", f"; boundary={'x' * 71}", f"; boundary={'x' * 300}"):
        assert code(await upload(acme, content, f"multipart/form-data{wrong_type}")) == "malformed_body"
    assert code(await upload(acme, b"\r\ntext\r\n" + content, media_type)) == "malformed_body"
    long_header = content.replace(b'name="file"', b'name="' + b"x" * 100_000 + b'"')
    assert code(await upload(acme, long_header, media_type)) == "malformed_body"


@pytest.mark.parametrize(
    ("options", "pointer"),
    [
        ({"format": "pdf"}, "/format"),
        ({"currency": "EUX"}, "/currency"),
        ({"dateOrder": "ydm"}, "/dateOrder"),
        ({"mode": "some"}, "/mode"),
        ({"profile": "{"}, "/profile"),
        ({"formt": "csv"}, "formt"),
    ],
)
async def test_an_option_that_cannot_be_is_named(acme: Tenant, options: dict[str, str], pointer: str) -> None:
    assert {p for p, _ in fields(await upload(acme, CSV, **options))} == {pointer}


async def test_the_options_of_a_raw_body_are_used(tenant: Tenant) -> None:
    content = b"Date;Amount;Text\n03/04/2025;1.00;a\n05/04/2025;2.00;b\n"
    body = await imported(tenant, content, currency="CHF", account="MINE", dateOrder="dmy", format="csv")
    rows = await listed(tenant, importId=body["id"], sort="amountMinor")
    assert [(r["currency"], r["account"], r["bookingDate"]) for r in rows] == [
        ("CHF", "MINE", "2025-04-03"), ("CHF", "MINE", "2025-04-05")
    ]  # fmt: skip


def table(rows: int) -> bytes:
    """Return a CSV of so many rows of about 190 bytes."""
    head = b"Booking date;Description;Amount;Currency\n"
    return head + b"".join(b"2025-03-01;payment %07d %s;%d.25;EUR\n" % (n, b"x" * 150, n) for n in range(1, rows + 1))


async def test_a_large_file_is_a_workers_job(service: Service, tenant: Tenant) -> None:
    content = table(24_000)
    assert len(content) > INLINE_BYTES_MAX
    answer = await upload(tenant, content)
    body = answer.json()
    assert (answer.status_code, body["status"]) == (202, "processing")
    assert answer.headers["location"] == f"/jobs/{body['jobId']}"
    again = await upload(tenant, content)
    assert again.json()["id"] == body["id"]
    assert (
        again.headers["location"] == {202: f"/jobs/{body['jobId']}", 200: f"/imports/{body['id']}"}[again.status_code]
    )

    async def finished() -> dict[str, Any] | None:
        job: dict[str, Any] = (await tenant.get(answer.headers["location"])).json()
        return job if job["status"] not in {"queued", "running"} else None

    job = await until(finished)
    assert (job["status"], job["result"]["accepted"]) == ("succeeded", 24_000)
    done = (await tenant.get(f"/imports/{body['id']}")).json()
    assert (done["status"], counts(done)) == ("completed", (24_000, 0, 0, 0))
    assert await count(service, tenant, "incoming_transaction") == 24_000
    assert (await upload(tenant, content)).status_code == 200


async def test_a_file_is_in_its_environment_alone(acme: Tenant, globex: Tenant) -> None:
    made = await imported(acme, MT940)
    for tenant, environment in ((acme, "test"), (globex, "production")):
        assert (await tenant.get("/imports", environment)).json()["data"] == []
        for path in (f"/imports/{made['id']}", made["errorsUrl"], f"/jobs/{made['jobId']}"):
            assert code(await tenant.get(path, environment)) == "not_found"
        answer = await tenant.post(PATH, None, environment, headers={"Content-Type": RAW}, content=MT940)
        assert (answer.status_code, counts(answer.json())) == (201, (2, 0, 0, 0))


async def test_a_write_key_uploads_and_reads_nothing(tenant: Tenant) -> None:
    key = await add_key(tenant, read=False)
    place = {"X-Tenant-Id": tenant.id, "X-Environment": "production", "X-Api-Key": key["apiKey"]}
    answer = await ask(tenant, "POST", PATH, {**place, "Content-Type": RAW}, content=MT940)
    assert answer.status_code == 201
    assert code(await ask(tenant, "GET", answer.headers["location"], place)) == "insufficient_permission"
