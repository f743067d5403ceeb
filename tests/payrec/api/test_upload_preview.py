"""The preview of an upload: what an upload would read, within bounds, and nothing is stored."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import threading
import time
import zipfile
from collections import Counter
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from payrec.domain.caller import Clock
from payrec.domain.scope import TenantScope
from payrec.errors import RateLimitedError, UnavailableError
from payrec.factory.context import SystemClock
from payrec.models.imports import UploadOptions
from payrec.models.upload_previews import UploadPreview
from payrec.services import upload_previews
from payrec.services.imports import UploadedFile
from payrec.services.upload_previews import UploadPreviewService
from payrec.services.work import Work
from support.service import Service, Tenant
from support.tenant_data import scope_of_tenant
from support.wire import COMMAND_LINE, add_key, ask, code, count, problem

pytestmark = pytest.mark.anyio

UPLOAD = "/incoming-transactions/upload"
PATH = f"{UPLOAD}/preview"
RAW = "application/octet-stream"
FILES = Path(__file__).parents[2] / "data" / "uploads"
CAMT = (FILES / "statement.camt053.xml").read_bytes()
ALL = {path.name: path.read_bytes() for path in sorted(FILES.iterdir()) if path.suffix != ".md"}
STORED = ("incoming_transaction", "import", "statement", "import_problem", "blob_chunk", "job", "audit_record")
"""Not ``change``: what was told of a new environment is sealed there a moment later, which is one of nobody's."""


@pytest.fixture
async def tenants(service: Service, request: pytest.FixtureRequest) -> tuple[Tenant, Tenant]:
    """Two tenants of the test's own, with nothing in them."""
    mark = hashlib.sha256(request.node.name.encode()).hexdigest()[:20]
    first, second = [await service.tenant(f"p{n}{mark}", environments=["production"]) for n in range(2)]
    return first, second


@pytest.fixture
def tenant(tenants: tuple[Tenant, Tenant]) -> Tenant:
    return tenants[0]


async def preview(tenant: Tenant, content: bytes, media_type: str = RAW, **options: str) -> Any:
    return await tenant.post(PATH, headers={"Content-Type": media_type}, content=content, params=options)


async def previewed(tenant: Tenant, content: bytes, media_type: str = RAW, **options: str) -> dict[str, Any]:
    answer = await preview(tenant, content, media_type, **options)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    # Nothing but what the interface describes.
    assert UploadPreview.model_validate(body).model_dump(mode="json", by_alias=True, exclude_unset=True) == body
    return body


async def uploaded(tenant: Tenant, content: bytes, media_type: str = RAW, **options: str) -> dict[str, Any]:
    answer = await tenant.post(UPLOAD, headers={"Content-Type": media_type}, content=content, params=options)
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


def zipped(*contents: bytes) -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for number, content in enumerate(contents):
            archive.writestr(f"{number}", content)
    return out.getvalue()


def lines(count: int, *, accounts: int = 1, **more: Any) -> bytes:
    money = {"direction": "credit", "amount": "1.00", "currency": "EUR", "bookingDate": "2026-01-02"}
    rows = [{**money, "externalId": f"x{n}", "account": f"A{n % accounts}", **more} for n in range(count)]
    return b"\n".join(json.dumps(row).encode() for row in rows)


PENDING = CAMT.replace(b"<Cd>BOOK</Cd>", b"<Cd>PDNG</Cd>")
REUSED = CAMT.replace(b">50.00<", b">51.00<")


@pytest.mark.parametrize("name", ALL)
async def test_it_says_what_the_upload_does_and_stores_nothing(
    service: Service, tenants: tuple[Tenant, Tenant], name: str
) -> None:
    tenant, other = tenants
    content = ALL[name]
    before = [await count(service, tenant, table) for table in STORED]
    body = await previewed(tenant, content)
    assert [await count(service, tenant, table) for table in STORED] == before
    # The other tenant's upload of the same file has nothing to do with it.
    done = await uploaded(other, content)
    assert await previewed(tenant, content) == body
    assert (body["format"], body["formatVersion"]) == (done["format"], done["formatVersion"])
    assert (body["file"]["bytes"], body["file"]["sha256"]) == (done["bytes"], done["sha256"])
    assert {name: body["counts"][name] for name in done["counts"]} == done["counts"]
    assert [s["entryCount"] for s in body["statements"]] == [b["entryCount"] for b in done["balances"]]
    assert [s["checks"]["balance"] for s in body["statements"]] == [b["balanceCheck"] for b in done["balances"]]
    rejected = [(p["line"], p["code"]) for p in body["problems"] if p["rejects"]]
    assert rejected == [(e["line"], e["code"]) for e in done["errors"] if e["severity"] == "error"]


@pytest.mark.parametrize(
    "content",
    [
        zipped(CAMT, CAMT),
        zipped(CAMT, PENDING),
        zipped(PENDING, CAMT),
        zipped(CAMT, REUSED),
        zipped(CAMT, REUSED, REUSED),
        lines(3) + b"\n" + lines(2),
        lines(3) + b"\n" + lines(2, amount="2.00"),
    ],
    ids=["twice", "announced after", "announced before", "reused", "reused twice", "external", "external reused"],
)
async def test_it_counts_what_is_in_the_file_twice_as_the_upload_does(tenant: Tenant, content: bytes) -> None:
    body = await previewed(tenant, content)
    done = await uploaded(tenant, content)
    assert {name: body["counts"][name] for name in done["counts"]} == done["counts"]
    assert (await previewed(tenant, content))["counts"] == body["counts"]


@pytest.mark.parametrize(
    ("media_type", "content", "format_"),
    [
        ("application/json", b"[" + lines(1) + b"]", "json"),
        ("application/x-ndjson", lines(2), "jsonl"),
        (RAW, gzip.compress(CAMT), "camt.053"),
    ],
)
async def test_it_takes_what_the_upload_takes(tenant: Tenant, media_type: str, content: bytes, format_: str) -> None:
    assert (await previewed(tenant, content, media_type))["format"] == format_


async def test_it_takes_a_form_and_its_options(tenant: Tenant) -> None:
    table = b"a;2026-01-02;5,00\nb;2026-01-03;6,00\n"
    profile = {"headerRow": None, "columns": {"remittance": 0, "bookingDate": 1, "amount": 2}}
    options = {"currency": "CHF", "account": "A1", "profile": json.dumps(profile)}
    answer = await tenant.post(PATH, None, files={"file": ("t.csv", table)}, data=options)
    assert answer.status_code == 200, answer.text
    [statement] = answer.json()["statements"]
    assert (statement["currency"], statement["account"]["id"]) == ("CHF", "A1")
    assert [e["amountMinor"] for e in statement["entries"]] == [500, 600]
    assert answer.json()["file"]["name"] == "t.csv"


async def test_what_an_upload_refuses_it_refuses_alike(tenant: Tenant) -> None:
    refused: list[tuple[bytes, dict[str, str]]] = [(b"%PDF-1.7", {}), (b"", {}), (CAMT[:-60], {})]
    refused += [(CAMT, {"format": "mt940"}), (CAMT, {"nonsense": "1"}), (CAMT, {"profile": "[]"})]
    for content, options in refused:
        wanted, found = [
            problem(await tenant.post(path, headers={"Content-Type": RAW}, content=content, params=options))
            for path in (UPLOAD, PATH)
        ]
        assert {**found, "requestId": ""} == {**wanted, "requestId": ""}
    assert code(await preview(tenant, CAMT, "text/plain")) == "unsupported_media_type"
    await previewed(tenant, CAMT)


async def test_what_the_upload_does_not_say_is_taken_from_its_data_source(tenants: tuple[Tenant, Tenant]) -> None:
    tenant, other = tenants
    profile = {"headerRow": None, "currency": "CHF", "columns": {"bookingDate": 0, "amount": 1}}
    source = {"name": "bank", "kind": "upload", "format": "csv", "profile": profile}
    created = await tenant.post("/data-sources", source)
    assert created.status_code == 201, created.text
    named = {"dataSourceId": created.json()["id"]}
    body = await previewed(tenant, b"2026-01-02;5,00\n2026-01-03;6,00\n", **named)
    assert [s["currency"] for s in body["statements"]] == ["CHF"]
    assert code(await preview(other, CAMT, **named)) == "not_found"


async def test_it_needs_the_permission_to_write(tenant: Tenant) -> None:
    for write, status in ((False, 403), (True, 200)):
        key = (await add_key(tenant, write=write))["apiKey"]
        headers = {"X-Api-Key": key, "X-Tenant-Id": str(tenant.id), "X-Environment": "production"}
        answer = await ask(tenant, "POST", PATH, {**headers, "Content-Type": RAW}, content=CAMT)
        assert answer.status_code == status


# Bounds -----------------------------------------------------------------------------------------------------------


async def test_a_statement_shows_a_hundred_entries_and_counts_all(tenant: Tenant) -> None:
    body = await previewed(tenant, lines(250, accounts=2), "application/x-ndjson")
    assert [len(s["entries"]) for s in body["statements"]] == [100, 100]
    assert [s["transactionCount"] for s in body["statements"]] == [125, 125]
    assert [e["index"] for e in body["statements"][1]["entries"]] == list(range(100))
    assert body["statements"][0]["totals"]["booked"]["creditMinor"] == 12_500
    assert body["counts"]["accepted"] == 250


async def test_many_statements_and_problems_are_counted_beyond_what_is_shown(tenant: Tenant) -> None:
    content = lines(1_200, accounts=1_200) + b"\n" + lines(150, amount="x") + b'\n{"amount": 1}'
    body = await previewed(tenant, content, "application/x-ndjson")
    assert len(body["statements"]) == 1_000
    assert (body["counts"]["statements"], body["counts"]["rejected"]) == (1_200, 151)
    codes = [p["code"] for p in body["problems"]]
    assert codes.count("invalid_amount") == 100
    # One that comes often does not hide another.
    assert len(set(codes)) > 1


async def test_the_answer_is_bounded_whatever_the_texts(tenant: Tenant) -> None:
    answer = await preview(tenant, lines(900, accounts=9, remittance="x" * 20_000))
    body = answer.json()
    assert len(answer.content) < 2 * upload_previews.SHOWN.bytes
    assert body["counts"]["accepted"] == 900
    assert all([e["index"] for e in s["entries"]] == list(range(len(s["entries"]))) for s in body["statements"])


async def test_others_are_answered_while_a_large_file_is_read(tenant: Tenant) -> None:
    content = lines(60_000)
    await previewed(tenant, lines(1))
    reading = asyncio.create_task(previewed(tenant, content))
    waits = []
    while not reading.done():
        begun = time.monotonic()
        assert (await tenant.get("/imports", params={"limit": 1})).status_code == 200
        waits.append(time.monotonic() - begun)
    assert (await reading)["counts"]["accepted"] == 60_000
    assert len(waits) > 5


async def test_too_many_at_once_are_told_to_come_again(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_previews, "PREVIEWS_WAITING_MAX", 2)
    answers = await asyncio.gather(*(preview(tenant, lines(20_000)) for _ in range(4)))
    assert {a.status_code for a in answers} == {200, 429}
    assert {code(a) for a in answers if a.status_code == 429} == {"rate_limited"}
    assert all("retry-after" in a.headers for a in answers if a.status_code == 429)
    await previewed(tenant, CAMT)


def given(service: Service, clock: Clock | None = None) -> dict[str, Any]:
    """Return what a service of previews is made of."""
    work = service.factory.work
    work = Work(database=work.database, clock=clock or work.clock, ids=work.ids, blobs=work.blobs)
    return {"work": work, "sources": service.factory.sources.create_data_source_service()}


class Held(UploadPreviewService):
    """Reads nothing until it is let go."""

    def __init__(self, service: Service) -> None:
        super().__init__(**given(service))
        self.let_go, self.both_read, self.read = threading.Event(), threading.Event(), Counter[str]()

    def _read(self, file: UploadedFile, *_: Any) -> bytes:
        self.read[file.name or ""] += 1
        if len(self.read) > 1:
            self.both_read.set()
        self.let_go.wait(30)
        return b""

    def begin(self, scope: TenantScope) -> asyncio.Task[bytes]:
        """Ask for one."""
        caller = replace(COMMAND_LINE, scope=scope)
        file = UploadedFile(BytesIO(), name=scope.slug, size=0, sha256=b"")
        return asyncio.create_task(self.preview(caller, file, UploadOptions()))


async def test_previews_of_one_tenant_keep_no_other_waiting(service: Service, tenants: tuple[Tenant, Tenant]) -> None:
    previews = Held(service)
    third = await service.tenant("latepreview", environments=["production"])
    slow, other, late = [await scope_of_tenant(service.factory, tenant) for tenant in (*tenants, third)]
    half = upload_previews.PREVIEWS_WAITING_MAX // 2
    wanted = [previews.begin(slow) for _ in range(half)]
    with pytest.raises(RateLimitedError):
        await previews.begin(slow)
    wanted += [previews.begin(other) for _ in range(half)]
    await asyncio.to_thread(previews.both_read.wait, 30)
    assert previews.read == {slow.slug: 1, other.slug: 1}
    with pytest.raises(UnavailableError):
        await previews.begin(late)
    previews.let_go.set()
    assert await asyncio.gather(*wanted) == [b""] * (2 * half)
    assert await previews.begin(late) == b""


class Watched(UploadPreviewService):
    """Tells when the thread has begun to read, and when it has ended."""

    ended = False

    def _read(self, *arguments: Any) -> bytes:
        try:
            return super()._read(*arguments)
        finally:
            self.ended = True


async def test_a_cancelled_preview_has_stopped_reading_when_its_file_is_closed(
    service: Service, tenant: Tenant
) -> None:
    begun = threading.Event()

    class Watching(SystemClock):
        def monotonic(self) -> float:
            begun.set()
            return 0.0

    content = lines(200_000)
    previews = Watched(**given(service, Watching()))
    file = UploadedFile(BytesIO(content), name="x", size=len(content), sha256=b"")
    caller = replace(COMMAND_LINE, scope=await scope_of_tenant(service.factory, tenant))
    reading = asyncio.create_task(previews.preview(caller, file, UploadOptions()))
    assert await asyncio.to_thread(begun.wait, 30)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert previews.ended
    assert file.stream.tell() < len(content)
