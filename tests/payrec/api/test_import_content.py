"""The file that was uploaded is kept as it came, for its tenant alone, and no longer than it is to be."""

from __future__ import annotations

import base64
import gzip
import hashlib
from typing import Any
from uuid import UUID

import httpx2
import pytest

from payrec.handlers.downloads import attachment
from payrec.jobs.app import DROPPED_AT, QUEUE, create_app
from payrec.services.imports import INLINE_BYTES_MAX
from payrec.storage.blobs import CHUNK_BYTES, BlobStore
from payrec.storage.imports import ImportStore
from support.ages import aged
from support.service import Service, Tenant, direct_url
from support.statements import camt, message
from support.wire import add_key, ask, code, count, in_control, rows, until

pytestmark = pytest.mark.anyio

UPLOAD = "/incoming-transactions/upload"
RAW = {"Content-Type": "application/octet-stream"}
FILE = message(camt(0, 100, 0))
TASK = "drop_expired"


@pytest.fixture
async def tenant(service: Service, request: pytest.FixtureRequest) -> Tenant:
    """A tenant of the test's own."""
    slug = "t" + hashlib.sha256(request.node.name.encode()).hexdigest()[:20]
    return await service.tenant(slug, environments=["production", "test"])


async def uploaded(tenant: Tenant, content: bytes, environment: str = "production", **options: str) -> dict[str, Any]:
    answer = await tenant.post(UPLOAD, None, environment, headers=RAW, content=content, params=options)
    assert answer.status_code in {201, 202}, answer.text
    return dict(answer.json())


async def older(
    service: Service, tenant: Tenant, made: dict[str, Any], days: int, environment: str = "production"
) -> None:
    """Make an import older than it is."""
    query = aged("import", f"{days} days") + f" WHERE id = '{made['id']}'"
    await rows(service, tenant, query, environment)


async def dropped(service: Service) -> int:
    """Delete what is over and return how many files that were."""
    return (await service.factory.upkeep.create_retention_service().drop_expired()).of("files").count


@pytest.mark.parametrize("content", [FILE, gzip.compress(FILE)], ids=["plain", "gzip"])
async def test_the_file_comes_back_as_it_came(acme: Tenant, content: bytes) -> None:
    made = await uploaded(acme, content)
    assert made["contentUrl"] == f"/imports/{made['id']}/content"
    answer = await acme.get(made["contentUrl"])
    assert (answer.status_code, answer.content) == (200, content)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-length"] == str(len(content))
    assert answer.headers["etag"] == f'"{made["sha256"]}"'
    digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
    assert answer.headers["repr-digest"] == f"sha-256=:{digest}:"
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_large_file_is_sent_chunk_by_chunk_and_holds_no_connection_meanwhile(
    service: Service, acme: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = b"2025-03-01;payment %07d " + b"x" * 900 + b";1.00;EUR\n"
    content = b"Booking date;Description;Amount;Currency\n" + b"".join(row % n for n in range(5_000))
    assert len(content) > INLINE_BYTES_MAX
    made = await uploaded(acme, content)

    async def finished() -> bool | None:
        return (await acme.get(f"/imports/{made['id']}")).json()["status"] == "completed" or None

    await until(finished)
    sizes = []
    reads = BlobStore.chunk

    async def watched(store: BlobStore, *given: Any) -> bytes | None:
        data = await reads(store, *given)
        sizes.append(len(data or b""))
        return data

    monkeypatch.setattr(BlobStore, "chunk", watched)
    url = acme.base_url + made["contentUrl"]
    async with acme.http.stream("GET", url, headers=acme.headers()) as answer:
        pieces = answer.aiter_bytes()
        first = await anext(pieces)
        state = service.factory.context.database.connections()
        rest = b"".join([piece async for piece in pieces])
    assert first + rest == content
    assert max(sizes) == CHUNK_BYTES
    assert state["waiting"] == 0


async def test_the_file_has_its_name_again(acme: Tenant) -> None:
    made = (await acme.post(UPLOAD, files={"file": ("../März.xml", FILE + b"\n")})).json()
    disposition = (await acme.get(made["contentUrl"])).headers["content-disposition"]
    assert disposition == "attachment; filename=\"M_rz.xml\"; filename*=UTF-8''M%C3%A4rz.xml"


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ('a"b\\c;d.xml', "abcd.xml"),
        ("\u202egpj.exe\n\x00", "gpj.exe"),
        ("../../etc/passwd", "etcpasswd"),
        (".htaccess", "htaccess"),
        ("  . ", "file"),
        ("50%.csv", "50.csv"),
    ],
)
def test_a_name_is_safe_on_every_disk_and_in_every_header(name: str, safe: str) -> None:
    assert attachment(name) == f"attachment; filename=\"{safe}\"; filename*=UTF-8''{safe}"


async def test_the_file_is_its_environment_s_alone(acme: Tenant, globex: Tenant) -> None:
    made = await uploaded(acme, FILE + b" ")
    for tenant, environment in ((acme, "test"), (globex, "production")):
        answer = await tenant.get(f"/imports/{made['id']}/content", environment)
        assert (answer.status_code, code(answer)) == (404, "not_found")
    assert code(await acme.get("/imports/0192/content")) == "not_found"


async def test_who_may_write_and_not_read_gets_no_file(acme: Tenant) -> None:
    made = await uploaded(acme, FILE + b"  ")
    key = await add_key(acme, read=False)
    headers = {"X-Tenant-Id": acme.id, "X-Environment": "production", "X-Api-Key": key["apiKey"]}
    assert code(await ask(acme, "GET", made["contentUrl"], headers)) == "insufficient_permission"


async def test_nothing_is_kept_of_a_file_that_failed(service: Service, tenant: Tenant) -> None:
    assert (await tenant.post(UPLOAD, headers=RAW, content=b"%PDF-1.7\n")).status_code == 422
    [failed] = (await tenant.get("/imports")).json()["data"]
    assert failed["contentUrl"] is None
    assert code(await tenant.get(f"/imports/{failed['id']}/content")) == "not_found"
    assert await count(service, tenant, "blob_chunk") == 0


async def test_a_file_goes_when_its_time_is_over_and_what_was_read_stays(service: Service, tenant: Tenant) -> None:
    old, young = await uploaded(tenant, FILE), await uploaded(tenant, FILE + b"\n")
    elsewhere = await uploaded(tenant, FILE, "test")
    await older(service, tenant, old, 400)
    await older(service, tenant, young, 399)
    await older(service, tenant, elsewhere, 401, "test")
    assert await dropped(service) == 2
    assert await dropped(service) == 0
    after = (await tenant.get(f"/imports/{old['id']}")).json()
    assert (after["contentUrl"], after["version"]) == (None, old["version"] + 1)
    assert {k: after[k] for k in ("counts", "balances", "sha256")} == {
        k: old[k] for k in ("counts", "balances", "sha256")
    }
    answer = await tenant.get(f"/imports/{old['id']}/content")
    assert (answer.status_code, code(answer)) == (404, "not_found")
    assert (await tenant.get(young["contentUrl"])).content == FILE + b"\n"
    assert await count(service, tenant, "blob_chunk") == 1
    assert await count(service, tenant, "blob_chunk", "test") == 0
    query = "SELECT actor, resource_id FROM audit_record WHERE action = 'import.file_dropped'"
    [told] = await rows(service, tenant, query)
    assert (told["actor"], str(told["resource_id"])) == ("retention", old["id"])
    # The same file again is the first import: it was read, and is known by its bytes.
    assert (await tenant.post(UPLOAD, headers=RAW, content=FILE)).json()["id"] == old["id"]


async def test_each_tenant_says_for_how_long(service: Service, tenant: Tenant, globex: Tenant) -> None:
    answer = await tenant.request("PATCH", f"/tenants/{tenant.id}/settings", json={"retention": {"rawLinesDays": 10}})
    assert answer.status_code == 200
    mine, theirs = await uploaded(tenant, FILE), await uploaded(globex, FILE + b"   ")
    for owner, made in ((tenant, mine), (globex, theirs)):
        await older(service, owner, made, 11)
    assert await dropped(service) == 1
    assert (await globex.get(theirs["contentUrl"])).status_code == 200


async def test_any_number_of_files_goes_and_suspended_ones_as_well(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("payrec.services.retention.FILES_DROPPED_AT_ONCE", 2)
    for n in range(5):
        await older(service, tenant, await uploaded(tenant, FILE + b"\n" * n), 500)
    await in_control(service, "UPDATE tenant SET status = 'suspended' WHERE id = %s", tenant.id)
    assert await dropped(service) == 5
    assert await count(service, tenant, "blob_chunk") == 0


async def test_one_environment_that_fails_keeps_no_other_s_files(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    for environment in ("production", "test"):
        await older(service, tenant, await uploaded(tenant, FILE, environment), 500, environment)
    looks, calls = ImportStore.has_files, 0

    async def once_broken(store: ImportStore, **given: Any) -> bool:
        nonlocal calls
        found = await looks(store, **given)
        calls += found
        if found and calls == 1:
            raise KeyError("as if a table were missing")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(ImportStore, "has_files", once_broken)
        assert await dropped(service) == 1
    assert await dropped(service) == 1


async def test_a_file_that_goes_while_it_is_sent_is_cut_off_and_not_taken_for_whole(
    acme: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("storage", "services"):
        monkeypatch.setattr(f"payrec.{module}.blobs.CHUNK_BYTES", len(FILE) // 2)
    made = await uploaded(acme, FILE + b"\n\n\n")
    reads = BlobStore.chunk

    async def gone(store: BlobStore, blob_id: UUID, ordinal: int) -> bytes | None:
        return await reads(store, blob_id, ordinal) if ordinal == 0 else None

    with monkeypatch.context() as patch:
        patch.setattr(BlobStore, "chunk", gone)
        with pytest.raises(httpx2.HTTPError):
            await acme.get(made["contentUrl"])

    async def gone_before(*_given: object) -> None:
        return None

    monkeypatch.setattr(BlobStore, "chunk", gone_before)
    answer = await acme.get(made["contentUrl"])
    assert (answer.status_code, code(answer)) == (404, "not_found")


async def test_the_worker_does_it_every_day(service: Service, tenant: Tenant) -> None:
    app = create_app(url=direct_url(service.factory.context.config))
    assert (TASK, DROPPED_AT) in {(p.task.name, p.cron) for p in app.periodic_registry.periodic_tasks.values()}
    assert app.tasks[TASK].queue == QUEUE
    made = await uploaded(tenant, FILE)
    await older(service, tenant, made, 500)
    async with app.open_async():
        await app.tasks[TASK].defer_async(timestamp=0)

    async def dropped() -> bool | None:
        return (await tenant.get(f"/imports/{made['id']}")).json()["contentUrl"] is None or None

    await until(dropped)
