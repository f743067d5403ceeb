"""Uploads and exports in a directory or a bucket instead of the database: the same answers, and nothing left behind."""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from payrec.constants.blobs import BLOB_RANGE_BYTES, BLOB_UNNAMED_FOR
from payrec.domain.blobs import StoredObject
from payrec.domain.scope import TenantScope
from payrec.embedded.postgres import EmbeddedPostgres
from payrec.errors import UnavailableError
from payrec.factory import SystemClock
from payrec.services.blob_collection import BlobCollector
from payrec.services.blobs import ChunkBlobs
from payrec.services.imports import INLINE_BYTES_MAX
from payrec.services.work import Work
from payrec.storage.database import Database
from support.ages import aged
from support.blobs import KINDS, Shelf, shelf
from support.postgres import cloned
from support.service import Service, Tenant, make_config, running
from support.statements import camt, message
from support.tenant_data import scope_of_tenant
from support.wire import COMMAND_LINE, code, count, in_control, problem, rows, until

pytestmark = pytest.mark.anyio

UPLOAD = "/incoming-transactions/upload"
RAW = {"Content-Type": "application/octet-stream"}
FILE = message(camt(0, 100, 0))
UNREADABLE = b"%PDF-1.7\n"


@dataclass(slots=True, kw_only=True)
class Kept:
    """A service whose files are kept at a place, and two tenants."""

    service: Service
    place: Shelf
    tenant: Tenant
    other: Tenant

    async def collect(self) -> int:
        """Collect what is left behind in all environments."""
        return await self.service.factory.upkeep.create_blob_collector().collect(everywhere=True)

    async def upload(self, content: bytes, status: int = 201, **headers: str) -> dict[str, Any]:
        """Upload a file."""
        answer = await self.tenant.post(UPLOAD, headers=RAW | headers, content=content)
        assert answer.status_code == status, answer.text
        return dict(answer.json())

    async def ended(self, job_id: str) -> dict[str, Any]:
        """Return a job when it has ended."""

        async def ended() -> dict[str, Any] | None:
            job = (await self.tenant.get(f"/jobs/{job_id}")).json()
            return job if job["status"] not in {"queued", "running"} else None

        return await until(ended, seconds=120)

    async def export(self) -> dict[str, Any]:
        """Make a file of a list, and return its job."""
        params = {"resource": "incoming-transactions"}
        started = await self.tenant.post("/jobs", {"kind": "export", "params": params})
        return await self.ended(started.json()["id"])


@pytest.fixture(scope="module", params=KINDS)
async def made(
    request: pytest.FixtureRequest, postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Kept]:
    with cloned(postgres) as database:
        async with (
            shelf(request.param, tmp_path_factory.mktemp("place")) as place,
            running(make_config(database, blob_url=place.url)) as service,
        ):
            other = await service.tenant("globex", environments=["production"])
            yield Kept(service=service, place=place, tenant=other, other=other)


@pytest.fixture
async def kept(made: Kept, request: pytest.FixtureRequest) -> Kept:
    """Return the place with nothing in it, and a tenant of the test's own."""
    slug = "t" + hashlib.sha256(request.node.name.encode()).hexdigest()[:20]
    made.place.clear()
    return replace(made, tenant=await made.service.tenant(slug, environments=["production", "test"]))


async def test_files_are_objects_and_come_back_as_they_came(kept: Kept) -> None:
    small = await kept.upload(FILE)
    row = b"2025-03-01;payment %07d " + b"x" * 900 + b";1.00;EUR\n"
    large = b"Booking date;Description;Amount;Currency\n" + b"".join(row % n for n in range(5_000))
    assert len(large) > max(INLINE_BYTES_MAX, BLOB_RANGE_BYTES)
    told = await kept.upload(large, 202)
    assert (await kept.ended(told["jobId"]))["status"] == "succeeded"
    for made, content in ((small, FILE), (told, large)):
        answer = await kept.tenant.get(f"/imports/{made['id']}/content")
        assert (answer.status_code, answer.content == content) == (200, True)
        assert answer.headers["etag"] == f'"{hashlib.sha256(content).hexdigest()}"'
    job = await kept.export()
    file = await kept.tenant.get(job["result"]["url"])
    assert hashlib.sha256(file.content).hexdigest() == job["result"]["sha256"]
    assert len(kept.place.names()) == 3
    assert await count(kept.service, kept.tenant, "blob_chunk") == 0


async def test_an_object_s_name_says_whose_it_is_and_nothing_that_anybody_was_told(kept: Kept) -> None:
    made = await kept.tenant.post(UPLOAD, files={"file": ("../März.xml", FILE)})
    scope = await scope_of_tenant(kept.service.factory, kept.tenant)
    [name] = kept.place.names()
    tenant_id, environment_id, object_id = name.split("/")
    assert (tenant_id, environment_id) == (kept.tenant.id, str(scope.environment_id))
    assert UUID(object_id).version == 4
    assert object_id not in made.text
    assert object_id not in (await kept.tenant.get(f"/imports/{made.json()['id']}")).text


async def test_a_row_that_names_another_s_object_gets_none(kept: Kept) -> None:
    mine = await kept.upload(FILE)
    answer = await kept.other.post(UPLOAD, headers=RAW, content=FILE + f"<!-- {kept.tenant.slug} -->".encode())
    theirs = answer.json()
    [row] = await rows(kept.service, kept.tenant, "SELECT object_id FROM import")
    stolen = f"UPDATE import SET object_id = '{row['object_id']}' WHERE id = '{theirs['id']}'"  # noqa: S608 - our own
    await rows(kept.service, kept.other, stolen)
    refused = await kept.other.get(f"/imports/{theirs['id']}/content")
    assert (refused.status_code, code(refused)) == (404, "not_found")
    assert (await kept.tenant.get(f"/imports/{mine['id']}/content")).content == FILE
    assert code(await kept.tenant.get(f"/imports/{mine['id']}/content", "test")) == "not_found"


async def test_nothing_is_left_of_what_is_not_kept(kept: Kept) -> None:
    first = await kept.upload(FILE, **{"Idempotency-Key": "one"})
    assert (await kept.upload(FILE, 200))["id"] == first["id"]
    assert (await kept.upload(FILE, **{"Idempotency-Key": "one"}))["id"] == first["id"]
    for content in (UNREADABLE, UNREADABLE + b"x" * INLINE_BYTES_MAX):
        answer = await kept.tenant.post(UPLOAD, headers=RAW, content=content)
        if answer.status_code == 202:
            assert (await kept.ended(answer.json()["jobId"]))["status"] == "failed"

    async def one_is_left() -> bool | None:
        return len(kept.place.names()) == 1 or None

    await until(one_is_left)
    kept.place.age(BLOB_UNNAMED_FOR * 2)
    assert await kept.collect() == 0
    assert (await kept.tenant.get(f"/imports/{first['id']}/content")).content == FILE


async def test_a_file_whose_row_may_have_been_committed_stays_until_the_rows_were_looked_at(kept: Kept) -> None:
    blobs, scope = kept.service.factory.work.blobs, await scope_of_tenant(kept.service.factory, kept.tenant)

    async def broken(*, is_stored: bool) -> None:
        async with blobs.written(scope, io.BytesIO(b"x")) as blob:
            if is_stored:
                async with kept.service.factory.context.database.tenant(scope) as connection:
                    await blob.store(connection, UUID(int=1))
            raise UnavailableError("nobody knows whether that was committed")

    for is_stored in (False, True):
        with pytest.raises(UnavailableError):
            await broken(is_stored=is_stored)
        assert len(kept.place.names()) == is_stored
    kept.place.age(BLOB_UNNAMED_FOR + timedelta(minutes=1))
    assert await kept.collect() == 1
    assert kept.place.names() == []


async def test_a_file_goes_when_its_time_is_over(kept: Kept) -> None:
    made = await kept.upload(FILE)
    job = await kept.export()
    await rows(kept.service, kept.tenant, aged("import", "401 days"))
    await rows(kept.service, kept.tenant, "UPDATE export SET expires_at = now()")
    report = await kept.service.factory.upkeep.create_retention_service().drop_expired()
    assert (report.of("files").count, report.of("exports").count) == (1, 1)
    assert kept.place.names() == []
    for url in (f"/imports/{made['id']}/content", job["result"]["url"]):
        assert code(await kept.tenant.get(url)) == "not_found"


async def test_a_place_that_is_away_refuses_uploads_whole(kept: Kept) -> None:
    made = await kept.upload(FILE)
    key = {"Idempotency-Key": "the-same"}
    kept.place.fail(fails=True)
    try:
        answer = await kept.tenant.post(UPLOAD, headers=RAW | key, content=FILE + b"\n")
        assert (answer.status_code, problem(answer)["code"]) == (503, "service_unavailable")
        assert int(answer.headers["retry-after"]) > 0
        read = await kept.tenant.get(f"/imports/{made['id']}/content")
        assert (read.status_code, problem(read)["code"]) == (503, "service_unavailable")
        # What needs no file goes on.
        assert (await kept.tenant.get("/imports")).status_code == 200
    finally:
        kept.place.fail(fails=False)
    assert await count(kept.service, kept.tenant, "import") == await count(kept.service, kept.tenant, "job") == 1
    await kept.upload(FILE + b"\n", **key)
    assert len(kept.place.names()) == 2


async def test_an_export_that_cannot_be_stored_is_tried_again(kept: Kept) -> None:
    await kept.upload(FILE)
    kept.place.fail(fails=True)
    try:
        params = {"resource": "incoming-transactions"}
        job = (await kept.tenant.post("/jobs", {"kind": "export", "params": params})).json()

        async def tried() -> bool | None:
            found = (await kept.tenant.get(f"/jobs/{job['id']}")).json()
            return found["nextAttemptAt"] is not None or None

        await until(tried, seconds=60)
    finally:
        kept.place.fail(fails=False)
    assert await count(kept.service, kept.tenant, "export") == 0
    ended = await kept.ended(job["id"])
    assert ended["status"] == "succeeded"
    assert (await kept.tenant.get(ended["result"]["url"])).status_code == 200


async def test_what_was_stored_in_the_database_before_is_read_from_there(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = kept.service.factory.work
    in_database = ChunkBlobs(database=kept.service.factory.context.database)
    with monkeypatch.context() as patch:
        patch.setattr(work, "blobs", in_database)
        before, exported = await kept.upload(FILE), await kept.export()
    assert kept.place.names() == []
    after = await kept.upload(FILE + b"\n")
    urls = {f"/imports/{before['id']}/content": 200, exported["result"]["url"]: 200}
    for url, status in {**urls, f"/imports/{after['id']}/content": 200}.items():
        assert (await kept.tenant.get(url)).status_code == status
    with monkeypatch.context() as patch:
        # The other way, what is in the object store is out of reach, and says so.
        patch.setattr(work, "blobs", in_database)
        for url, status in {**urls, f"/imports/{after['id']}/content": 503}.items():
            assert (await kept.tenant.get(url)).status_code == status
    await rows(kept.service, kept.tenant, aged("import", "401 days"))
    assert (await kept.service.factory.upkeep.create_retention_service().drop_expired()).of("files").count == 2
    assert kept.place.names() == []
    assert await count(kept.service, kept.tenant, "blob_chunk") == 1


async def test_files_that_cannot_be_deleted_are_collected_later(kept: Kept) -> None:
    await kept.upload(FILE)
    await rows(kept.service, kept.tenant, aged("import", "401 days"))
    kept.place.fail(fails=True)
    try:
        report = await kept.service.factory.upkeep.create_retention_service().drop_expired()
        assert (report.of("files").count, report.failed) == (1, 0)
    finally:
        kept.place.fail(fails=False)
    assert len(kept.place.names()) == 1
    kept.place.age(BLOB_UNNAMED_FOR + timedelta(minutes=1))
    assert await kept.collect() == 1
    assert kept.place.names() == []


async def test_what_is_collected_is_old_in_no_row_and_of_an_environment_that_is_known(kept: Kept) -> None:
    made = await kept.upload(FILE)
    [named] = kept.place.names()
    below = named.rpartition("/")[0]
    strange = f"{UUID(int=1)}/{UUID(int=2)}/{UUID(int=3)}"
    for name in (f"{below}/{UUID(int=1)}", f"{below}/{UUID(int=2)}.part", strange, "notes.txt"):
        kept.place.put(name)
    assert await kept.collect() == 0
    kept.place.age(BLOB_UNNAMED_FOR + timedelta(minutes=1))
    kept.place.put(young := f"{below}/{UUID(int=4)}")
    assert await kept.collect() == 2
    assert set(kept.place.names()) == {named, strange, "notes.txt", young}
    assert (await kept.tenant.get(f"/imports/{made['id']}/content")).content == FILE


async def test_one_environment_that_fails_keeps_no_other_s_objects(kept: Kept) -> None:
    await kept.upload(FILE)
    below = kept.place.names()[0].rpartition("/")[0]
    kept.place.put(f"{below}/{UUID(int=1)}")
    kept.place.age(BLOB_UNNAMED_FOR + timedelta(minutes=1))
    value = kept.service.factory.context.metrics.registry.get_sample_value
    failures = value("payrec_retention_failures_total", {"kind": "objects"}) or 0.0
    await rows(kept.service, kept.other, "ALTER TABLE export RENAME TO away")
    theirs = await scope_of_tenant(kept.service.factory, kept.other)
    kept.place.put(f"{kept.other.id}/{theirs.environment_id}/{UUID(int=1)}")
    kept.place.age(BLOB_UNNAMED_FOR + timedelta(minutes=1))
    try:
        assert await kept.collect() == 1
    finally:
        await rows(kept.service, kept.other, "ALTER TABLE away RENAME TO export")
    assert value("payrec_retention_failures_total", {"kind": "objects"}) == failures + 1
    assert await kept.collect() == 1


async def test_objects_are_left_alone_while_the_database_is_away(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    await kept.upload(FILE)
    kept.place.age(BLOB_UNNAMED_FOR + timedelta(minutes=1))
    asked, own, opened = list[TenantScope](), asyncio.current_task(), Database.tenant

    def away(database: Database, scope: TenantScope, **how: Any) -> Any:
        # The service's own worker goes on.
        if asyncio.current_task() is not own:
            return opened(database, scope, **how)
        asked.append(scope)
        raise UnavailableError("no database connection is available")

    async def nowhere(_database: Database) -> None:
        raise UnavailableError("the database cannot be reached")

    with monkeypatch.context() as patch:
        patch.setattr(Database, "tenant", away)
        patch.setattr(Database, "ping", nowhere)
        with pytest.raises(UnavailableError):
            await kept.collect()
    assert len(asked) == 1
    assert await kept.collect() == 0


async def test_the_objects_of_a_deleted_tenant_go_and_nobody_else_s(kept: Kept) -> None:
    await kept.upload(FILE)
    await kept.other.post(UPLOAD, headers=RAW, content=FILE + f"<!-- {kept.tenant.slug} -->".encode())
    scope = await scope_of_tenant(kept.service.factory, kept.tenant)
    prefix = f"{kept.tenant.id}/{scope.environment_id}/"
    theirs = [name for name in kept.place.names() if not name.startswith(prefix)]
    await kept.service.factory.create_tenant_service().delete(COMMAND_LINE, kept.tenant.slug)
    kept.place.fail(fails=True)
    try:
        assert await kept.collect() == 0
    finally:
        kept.place.fail(fails=False)
    assert await kept.collect() == 1
    assert kept.place.names() == theirs
    # A request that was under way may still have written one; afterwards there is nothing to remember.
    kept.place.put(prefix + str(UUID(int=1)))
    assert await kept.collect() == 1
    await in_control(kept.service, "UPDATE blob_remnant SET dropped_at = dropped_at - interval '7 hours'")
    assert await kept.collect() == 0
    async with kept.service.factory.context.database.control(readonly=True) as connection:
        cursor = await connection.execute("SELECT 1 FROM blob_remnant")
        assert await cursor.fetchall() == []
    assert kept.place.names() == theirs


async def test_what_is_written_just_now_is_not_old_by_the_clock_of_a_worker_that_is_ahead(kept: Kept) -> None:
    class Ahead(SystemClock):
        def now(self) -> datetime:
            return super().now() + 2 * BLOB_UNNAMED_FOR

    await kept.upload(FILE)
    below = kept.place.names()[0].rpartition("/")[0]
    # Its row comes a moment later.
    kept.place.put(f"{below}/{UUID(int=1)}")
    context = kept.service.factory.context
    work = Work(database=context.database, clock=Ahead(), ids=context.ids, blobs=kept.service.factory.work.blobs)
    store = kept.service.factory.upkeep.create_blob_collector()._store
    collector = BlobCollector(work=work, store=store, metrics=context.metrics)
    assert await collector.collect(everywhere=True) == 0
    assert len(kept.place.names()) == 2


async def test_every_environment_has_its_hour_of_the_day(kept: Kept) -> None:
    looked: Counter[str] = Counter()

    class Watched:
        """Has nothing, and counts who asks."""

        async def listed(self, prefix: str) -> AsyncIterator[Sequence[StoredObject]]:
            looked[prefix] += 1
            for page in ():
                yield page

    class Hourly(SystemClock):
        """Says another hour each time it is set."""

        hour = 0

        def now(self) -> datetime:
            return super().now().replace(hour=self.hour)

    context, clock = kept.service.factory.context, Hourly()
    work = Work(database=context.database, clock=clock, ids=context.ids, blobs=kept.service.factory.work.blobs)
    collector = BlobCollector(work=work, store=Watched(), metrics=context.metrics)  # type: ignore[arg-type]
    for clock.hour in range(24):
        assert await collector.collect() == 0
    for tenant, environment in ((kept.tenant, "production"), (kept.tenant, "test"), (kept.other, "production")):
        scope = await scope_of_tenant(kept.service.factory, tenant, environment)
        assert looked[f"{tenant.id}/{scope.environment_id}/"] == 1
