"""What is hostile, endless or cut off is refused in bounded time and memory, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from payrec.constants import JSON_BODY_BYTES_MAX, UPLOAD_BYTES_MAX
from payrec.embedded.postgres import EmbeddedPostgres
from payrec.storage.tenants import TenantStore, scope_of
from support.events import has_arrived
from support.postgres import cloned
from support.service import Service, Tenant, make_config, running
from support.wire import (
    RawResponse,
    code,
    connected,
    count,
    plain_tracebacks,
    problem,
    read_response,
    request_head,
    rows,
    send_raw,
    until,
)

pytestmark = pytest.mark.anyio

PATH = "/incoming-transactions/upload"
RAW = {"Content-Type": "application/octet-stream"}
CHUNKED = {"Transfer-Encoding": "chunked"}
UPLOAD_MAX = 2 * 1024 * 1024
TAKEN_MAX = 16 * 1024 * 1024
"""Bytes that a connection may take of an endless body after the refusal: what the server lingers for, and buffers."""
UNKEPT = """
    SELECT 1 FROM blob_chunk c WHERE NOT EXISTS (SELECT 1 FROM import i WHERE i.blob_id = c.blob_id)
    UNION ALL SELECT 1 FROM import WHERE status = 'failed' AND blob_id IS NOT NULL
"""
"""What would be kept of a file that was refused."""
TABLES = ("import", "blob_chunk", "job", "incoming_transaction", "idempotency", "change")


@pytest.fixture(autouse=True)
def plain() -> Iterator[None]:
    with plain_tracebacks():
        yield


@pytest.fixture(scope="module")
async def small(postgres: EmbeddedPostgres) -> AsyncIterator[Service]:
    """A service whose uploads are small."""
    with cloned(postgres) as database:
        async with running(make_config(database, upload_max_bytes=UPLOAD_MAX)) as started:
            yield started


@pytest.fixture(scope="module")
async def tiny(small: Service) -> Tenant:
    return await small.tenant("tiny", environments=["production"])


async def endless(service: Service, headers: dict[str, str], path: str = PATH) -> tuple[RawResponse, int]:
    """Send a chunked body until the service has had enough; return its answer and how many bytes it took."""
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    sent = 0
    async with connected(service) as (reader, writer):
        writer.write(request_head("POST", path, {**headers, **CHUNKED}))
        answering = asyncio.create_task(read_response(reader))
        try:
            async with asyncio.timeout(20):
                while sent < 100 * TAKEN_MAX:
                    writer.write(chunk)
                    await writer.drain()
                    sent += 0x10000
                    await asyncio.sleep(0)
        except ConnectionError:
            pass  # the service has closed the connection, which is what is wanted
        return await answering, sent


async def test_a_declared_length_over_the_limit_is_refused_before_the_body_is_sent(
    service: Service, acme: Tenant
) -> None:
    """A client that asks first (RFC 9110, section 10.1.1) is told no, and never sends the body."""
    headers = {**acme.headers(), **RAW, "Content-Length": str(300 * 1024 * 1024), "Expect": "100-continue"}
    async with asyncio.timeout(5):
        answer = await send_raw(service, request_head("POST", PATH, headers))
    assert (answer.status_code, code(answer)) == (413, "payload_too_large")
    allowed = {**headers, "Content-Length": str(UPLOAD_BYTES_MAX)}
    async with connected(service) as (reader, writer):
        writer.write(request_head("POST", PATH, allowed))
        assert await asyncio.wait_for(reader.readline(), 5) == b"HTTP/1.1 100 Continue\r\n"


async def test_the_limit_of_uploads_is_a_setting(small: Service, tiny: Tenant) -> None:
    over = {**tiny.headers(), **RAW, "Content-Length": str(UPLOAD_MAX + 1)}
    assert code(await send_raw(small, request_head("POST", PATH, over))) == "payload_too_large"
    line = b'{"direction":"credit","amount":"1.00","currency":"EUR","bookingDate":"2025-01-02"}'
    full = line.ljust(UPLOAD_MAX, b"\n")
    answer = await tiny.post(PATH, headers={"Content-Type": "application/x-ndjson"}, content=full)
    assert answer.status_code == 202
    assert (await read_by_a_worker(tiny, answer.json()))["status"] == "completed"


async def read_by_a_worker(tenant: Tenant, made: dict[str, Any]) -> dict[str, Any]:
    """Return an import when its file has been read."""

    async def ended() -> dict[str, Any] | None:
        found = (await tenant.get(f"/imports/{made['id']}")).json()
        return found if found["status"] != "processing" else None

    return await until(ended)


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        (PATH, "application/octet-stream"),
        (PATH, "multipart/form-data; boundary=X"),
        ("/expected-transactions", "application/json"),
    ],
)
async def test_an_endless_body_is_cut_off_at_the_limit(
    small: Service, tiny: Tenant, path: str, media_type: str
) -> None:
    before = [await count(small, tiny, table) for table in TABLES]
    answer, sent = await endless(small, {**tiny.headers(), "Content-Type": media_type}, path)
    # What is no form is refused for that as soon as it is seen.
    expected = (400, "malformed_body") if "multipart" in media_type else (413, "payload_too_large")
    assert (answer.status_code, code(answer)) == expected
    assert sent < UPLOAD_MAX + TAKEN_MAX
    assert [await count(small, tiny, table) for table in TABLES] == before


async def test_an_endless_file_in_a_form_is_cut_off_at_the_limit(small: Service, tiny: Tenant) -> None:
    head = b'--X\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
    headers = {**tiny.headers(), "Content-Type": "multipart/form-data; boundary=X"}

    async def body() -> AsyncIterator[bytes]:
        yield head
        for _ in range(2 * UPLOAD_MAX // 0x10000):
            yield b"x" * 0x10000

    answer = await tiny.http.post(small.base_url + PATH, headers=headers, content=body())
    assert (answer.status_code, code(answer)) == (413, "payload_too_large")


@pytest.mark.parametrize("credential", [{}, {"Authorization": "Bearer a.b.c"}, {"X-Api-Key": "pr_x.y"}])
async def test_nobody_unknown_gets_a_body_read(small: Service, tiny: Tenant, credential: dict[str, str]) -> None:
    place = {"X-Tenant-Id": tiny.id, "X-Environment": "production", **RAW, **credential}
    for path in (PATH, "/expected-transactions"):
        answer, sent = await endless(small, place, path)
        assert answer.status_code == 401
        assert answer.headers["connection"] == "close"
        assert sent < TAKEN_MAX
    expecting = {**place, "Content-Length": "1000", "Expect": "100-continue"}
    answer = await send_raw(small, request_head("POST", PATH, expecting))
    assert answer.status_code == 401


async def test_a_small_body_under_a_refusal_leaves_the_connection_open(small: Service) -> None:
    head = request_head("POST", "/expected-transactions", {"Content-Length": "5"})
    async with connected(small) as (reader, writer):
        for _ in range(3):
            writer.write(head + b"12345")
            assert (await read_response(reader)).status_code == 401


async def gone_halfway(service: Service, path: str, head: bytes, body: bytes) -> dict[str, float]:
    """Send a part of a body and hang up; return the statuses in the metrics once the request has ended there."""
    before = _requests(service, path)
    async with connected(service) as (_, writer):
        writer.write(head + body)
        await writer.drain()
        await asyncio.sleep(0.05)

    async def ended() -> dict[str, float] | None:
        after = _requests(service, path)
        return {status: n - before.get(status, 0) for status, n in after.items() if n != before.get(status, 0)} or None

    return await until(ended)


def _open_spools() -> set[str]:
    """Return the temporary files without a name that this process holds open."""
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except OSError:
            continue
        if target.endswith(" (deleted)") and "/tmp" in target:  # noqa: S108 - compared, not written
            found.add(target)
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files can be listed on Linux alone")
@pytest.mark.parametrize("declared", [True, False])
async def test_a_client_that_goes_halfway_leaves_nothing_behind(small: Service, tiny: Tenant, declared: bool) -> None:  # noqa: FBT001 - a parameter of pytest
    before, open_before = [await count(small, tiny, table) for table in TABLES], _open_spools()
    length = {"Content-Length": str(UPLOAD_MAX)} if declared else CHUNKED
    key = {"Idempotency-Key": f"halfway-{declared}"}
    head = request_head("POST", PATH, {**tiny.headers(), **RAW, **length, **key})
    # More than a spool keeps in memory, so that there is a file to be left behind.
    body = b"x" * (UPLOAD_MAX - 1000) if declared else b"180000\r\n" + b"x" * 0x180000 + b"\r\n"
    assert await gone_halfway(small, PATH, head, body) == {"499": 1}
    assert _open_spools() == open_before
    assert [await count(small, tiny, table) for table in TABLES] == before
    assert (await tiny.get("/imports")).status_code == 200


async def test_a_client_that_goes_is_no_crash(small: Service, tiny: Tenant) -> None:
    """The request ends with 499 in the metrics, whether a document or a file was under way."""
    for path, media_type in (("/expected-transactions", "application/json"), (PATH, "application/octet-stream")):
        head = request_head("POST", path, {**tiny.headers(), "Content-Type": media_type, "Content-Length": "100000"})
        with capture_logs() as logs:
            assert await gone_halfway(small, path, head, b"x" * 1000) == {"499": 1}
        assert [line["event"] for line in logs] == ["request"]


def _requests(service: Service, path: str) -> dict[str, float]:
    """Return the number of POSTs to a route by status."""
    return {
        sample.labels["status"]: sample.value
        for family in service.factory.context.metrics.requests.collect()
        for sample in family.samples
        if sample.name.endswith("_total") and (sample.labels["method"], sample.labels["route"]) == ("POST", path)
    }


BOMB = gzip.compress(bytes(64 * 1024 * 1024))
DEEP = b"[" * 100_000
ENTITY = (
    b'<?xml version="1.0"?><!DOCTYPE d [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><Document>&b;</Document>'
)
EXTERNAL = b'<?xml version="1.0"?><!DOCTYPE Document SYSTEM "http://127.0.0.1:9/x.dtd"><Document/>'
FILE_ENTITY = b'<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]><Document>&x;</Document>'
NAMESPACE = b'<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08">'
HOSTILE: dict[str, tuple[bytes, dict[str, str]]] = {
    "gzip without end": (BOMB[:-100] + BOMB, {}),
    "a gzip bomb": (BOMB, {}),
    "gzip in gzip in gzip": (gzip.compress(gzip.compress(gzip.compress(BOMB))), {}),
    "gzip that is cut off": (gzip.compress(b"Date;Amount\n" * 1000)[:-20], {}),
    "a line without end": (
        b"Booking date;Amount;Currency\n2025-01-01;1.00;" + b"E" * UPLOAD_BYTES_MAX.bit_length() * 80_000,
        {},
    ),
    "a header without end": (b"Date;Amount;" + b"x;" * 900_000, {"format": "csv"}),
    "a quote without end": (b'Date;Text;Amount\n2025-01-01;"' + b"x\n" * 900_000, {"format": "csv"}),
    "deep JSON": (DEEP, {"format": "json"}),
    "deep JSON in a record": (b'[{"a":' + DEEP, {"format": "json"}),
    "deep JSON lines": (b'{"a":' * 100_000, {"format": "jsonl"}),
    "XML entities": (ENTITY, {}),
    "an external DTD": (EXTERNAL, {}),
    "an external entity": (FILE_ENTITY, {}),
    "deep XML": (NAMESPACE + b"<a>" * 100_000, {}),
    "XML that is one text": (NAMESPACE + b"x" * 1_900_000, {}),
    "XML attributes": (NAMESPACE + b"<a " + b" ".join(b'a%d="x"' % n for n in range(100_000)), {}),
    "a zip that is none": (b"PK\x03\x04" + b"\xff" * 100_000, {}),
    "nothing but NUL": (bytes(1_000_000), {}),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_file_is_refused_in_bounded_time(small: Service, tiny: Tenant, name: str) -> None:
    content, options = HOSTILE[name]
    began = time.monotonic()
    answer = await tiny.post(PATH, headers=RAW, content=content[:UPLOAD_MAX], params=options)
    if answer.status_code in {201, 202}:
        made = await read_by_a_worker(tiny, answer.json())
        # A file of which some record can be told is read as far as that goes, and says what is wrong.
        assert made["counts"]["accepted"] == 0
        assert made["errors"] or made["error"]["code"] in {"unreadable_file", "payload_too_large"}
        assert "root:" not in json.dumps(made)
    else:
        assert code(answer) in {"unreadable_file", "payload_too_large"}
        assert "root:" not in answer.text
    assert time.monotonic() - began < 10
    assert await rows(small, tiny, UNKEPT) == []


@pytest.mark.parametrize(
    "line",
    [
        b'{"direction":"credit","amount":"1.00","currency":"EUR","bookingDate":"2025-01-02","remittance":"\\ud800"}',
        b'{"direction":"credit","amount":"1.00","currency":"EUR","bookingDate":"2025-01-02","remittance":"a\\u0000b"}',
        b'{"direction":"credit","amount":"1.00","currency":"EUR","bookingDate":"2025-01-02","externalId":"\\udfff"}',
        b'{"direction":"credit","amount":"1.00","currency":"EUR","bookingDate":"2025-01-02","metadata":{"\\ud800":"\\u0000"}}',
        b'{"direction":"credit","amount":"1.00","currency":"EUR","bookingDate":"2025-01-02","remittance":"\\\\N\\t\\\\."}',
        b'{"direction":"credit","amount":1e999,"currency":"EUR","bookingDate":"2025-01-02"}',
        b'{"direction":"credit","amount":NaN,"currency":"EUR","bookingDate":"2025-01-02"}',
        b'{"direction":"credit","amountMinor":99999999999999999999,"currency":"EUR","bookingDate":"2025-01-02"}',
        b'{"direction":"credit","amount":"1.00","currency":"EUR","bookingDate":"9999-99-99"}',
    ],
)
async def test_a_record_that_cannot_be_stored_is_accounted_for(tiny: Tenant, line: bytes) -> None:
    good = b'\n{"direction":"debit","amount":"2.00","currency":"EUR","bookingDate":"2025-01-02"}\n'
    answer = await tiny.post(PATH, headers={"Content-Type": "application/x-ndjson"}, content=line + good)
    assert answer.status_code == 201, answer.text
    counts = answer.json()["counts"]
    assert counts["records"] == 2
    assert counts["accepted"] + counts["duplicates"] + counts["rejected"] == 2
    found = await tiny.get("/incoming-transactions", params={"importId": answer.json()["id"]})
    assert found.status_code == 200


@pytest.fixture
async def failing(small: Service) -> Tenant:
    """A tenant whose transactions fail when they are committed, and not before."""
    tenant = await small.tenant(f"failing-{time.monotonic_ns()}", environments=["production"])
    await has_arrived(small, tenant)
    database = small.factory.context.database
    async with database.control(readonly=True) as connection:
        scope = scope_of((await TenantStore(connection).scopes(UUID(tenant.id)))[0])
    async with database.provisioning(role=scope.role_name, search_path=scope.schema_name) as connection:
        await connection.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not now'; END $$"
        )
        await connection.execute(
            "CREATE CONSTRAINT TRIGGER refuse_commit AFTER INSERT ON change"
            " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()"
        )
    return tenant


BODY = {"direction": "credit", "amountMinor": 100, "currency": "EUR"}
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("/expected-transactions", {"json": BODY}),
    ("/incoming-transactions", {"json": {**BODY, "bookingDate": "2025-01-02"}}),
    (PATH, {"content": b"Date;Amount;Currency\n2025-01-01;1.00;EUR\n", "headers": RAW}),
    ("/matches/match", {"json": {"wait": 0}}),
]


@pytest.mark.parametrize(("path", "options"), REQUESTS, ids=[path for path, _ in REQUESTS])
async def test_a_commit_that_fails_is_never_told_as_success(
    small: Service, failing: Tenant, path: str, options: dict[str, Any]
) -> None:
    headers = {**options.get("headers", {}), "Idempotency-Key": "commit"}
    before = [await count(small, failing, table) for table in TABLES]
    answer = await failing.post(path, **{**options, "headers": headers})
    assert answer.status_code >= 500
    assert problem(answer)["code"] in {"internal_error", "service_unavailable"}
    assert "not now" not in answer.text
    assert [await count(small, failing, table) for table in TABLES] == before


async def test_the_failing_commit_is_what_fails(small: Service, failing: Tenant) -> None:
    """Without the trigger the same requests succeed."""
    await rows(small, failing, "DROP TRIGGER refuse_commit ON change")
    for path, options in REQUESTS:
        assert (await failing.post(path, **options)).status_code < 300


async def test_a_unit_of_work_commits_before_it_answers(tiny: Tenant) -> None:
    """What was answered with 201 is there for the next request, whoever asks."""
    for _ in range(20):
        made = await tiny.post("/expected-transactions", BODY)
        assert (await tiny.get(made.headers["location"])).status_code == 200


async def test_a_body_of_json_over_its_limit_is_cut_off_while_it_streams(acme: Tenant) -> None:
    document = json.dumps(BODY).encode()

    async def body() -> AsyncIterator[bytes]:
        yield document
        for _ in range(JSON_BODY_BYTES_MAX // 1024):
            yield b" " * 1024

    headers = {**acme.headers(), "Content-Type": "application/json"}
    answer = await acme.http.post(f"{acme.base_url}/expected-transactions", headers=headers, content=body())
    assert (answer.status_code, code(answer)) == (413, "payload_too_large")
