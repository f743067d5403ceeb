"""A disk that is full: the answer or the job says so, nothing half is left, and afterwards the same works."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from payrec.constants.jobs import JOB_ATTEMPTS_MAX
from payrec.constants.sources import OBJECT_ATTEMPTS_MAX
from support.attempts import DUE, drain
from support.file_servers import SftpServer
from support.matching_world import World
from support.places import look
from support.service import superuser_url
from support.sources import PATH, brought, created, shown, statement
from support.wire import problem

pytestmark = pytest.mark.anyio

FULL = "/dev/full"
"""Whatever is written to it fails as on a file system without room."""

LARGE = [
    {
        "amount": f"{n}.00",
        "currency": "EUR",
        "direction": "credit",
        "bookingDate": "2026-03-01",
        "remittance": "x" * 200,
    }
    for n in range(1, 5_001)
]
"""More than what is kept in memory of an upload, and more than what a request reads itself."""

RECORDS = LARGE[:1]


def full_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be no room for temporary files."""

    def opened(*_given: Any, **_more: Any) -> Any:
        return Path(FULL).open("w+b")

    monkeypatch.setattr(tempfile, "TemporaryFile", opened)


def full_directories(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let there be no room for one file in temporary directories."""
    make = tempfile.mkdtemp

    def made(**given: Any) -> str:
        directory = make(**given)
        (Path(directory) / name).symlink_to(FULL)
        return directory

    monkeypatch.setattr(tempfile, "mkdtemp", made)


async def left(world: World) -> dict[str, int]:
    """Count what files leave behind."""
    tables = ("import", "export", "blob_chunk", "incoming_transaction")
    return {table: len(await world.sql(f"SELECT 1 FROM {table}")) for table in tables}  # noqa: S608 - our own names


NOTHING = {"import": 0, "export": 0, "blob_chunk": 0, "incoming_transaction": 0}


async def test_an_upload_for_which_there_is_no_room_is_refused_whole(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"Idempotency-Key": "the-same"}
    with monkeypatch.context() as patch:
        full_files(patch)
        for path in ("/incoming-transactions/upload", "/incoming-transactions/upload/preview"):
            answer = await world.tenant.post(path, LARGE)
            assert (answer.status_code, problem(answer)["code"]) == (507, "insufficient_storage")
            assert int(answer.headers["retry-after"]) > 0
        refused = await world.tenant.post("/incoming-transactions/upload", LARGE, headers=headers)
        assert refused.status_code == 507
    assert await left(world) == NOTHING
    again = await world.tenant.post("/incoming-transactions/upload", LARGE, headers=headers)
    assert again.status_code == 202
    await drain(world, "import")
    assert (await world.job(again.json()["jobId"]))["status"] == "succeeded"


async def test_an_import_for_which_a_worker_has_no_room_is_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("payrec.services.imports.INLINE_BYTES_MAX", 0)
    upload = (await world.tenant.post("/incoming-transactions/upload", RECORDS)).json()
    with monkeypatch.context() as patch:
        full_files(patch)
        await drain(world, "import")
    job = await world.job(upload["jobId"])
    assert (job["status"], job["attempts"]) == ("queued", 1)
    await world.sql(DUE)
    await drain(world, "import")
    assert (await world.job(upload["jobId"]))["status"] == "succeeded"
    assert await world.sql("SELECT accepted FROM import") == [{"accepted": 1}]


@pytest.mark.parametrize(("form", "file"), [("csv", "lines"), ("parquet", "lines"), ("parquet", "made")])
async def test_an_export_for_which_there_is_no_room_says_so_and_leaves_no_half_file(
    world: World, monkeypatch: pytest.MonkeyPatch, form: str, file: str
) -> None:
    await world.tenant.post("/incoming-transactions/upload", LARGE[:2_000])
    params = {"resource": "incoming-transactions", "format": form}
    job_id = (await world.tenant.post("/jobs", {"kind": "export", "params": params})).json()["id"]
    with monkeypatch.context() as patch:
        full_directories(patch, file)
        for _ in range(JOB_ATTEMPTS_MAX):
            await world.sql(DUE)
            await drain(world, "export")
    job = await world.job(job_id)
    assert (job["status"], job["attempts"], job["error"]["code"]) == (
        "failed",
        JOB_ATTEMPTS_MAX,
        "insufficient_storage",
    )
    assert (await left(world))["export"] == 0
    again = (await world.tenant.post("/jobs", {"kind": "export", "params": params})).json()["id"]
    await drain(world, "export")
    made = (await world.job(again))["result"]
    content = await world.tenant.get(made["url"])
    assert (made["rows"], len(content.content)) == (2_000, made["bytes"])


async def test_a_file_of_a_data_source_waits_for_room_as_long_as_it_takes(
    world: World, sftp: SftpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = await created(world, sftp, config={"afterRead": "delete"})
    sftp.put("a.csv", statement(1))
    with monkeypatch.context() as patch:
        full_files(patch)
        for _ in range(2):
            job = (await world.tenant.post(f"{PATH}/{source['id']}/sync")).json()
            for _ in range(JOB_ATTEMPTS_MAX):
                await world.sql(DUE)
                await drain(world, "sync")
            assert (await world.job(job["id"]))["error"]["code"] == "insufficient_storage"
    assert 2 * JOB_ATTEMPTS_MAX > OBJECT_ATTEMPTS_MAX
    assert (await shown(world, source))["lastError"]["code"] == "insufficient_storage"
    assert (await brought(world), sftp.names()) == ([], {"a.csv"})
    job = (await world.tenant.post(f"{PATH}/{source['id']}/sync")).json()
    await drain(world, "sync")
    assert (await world.job(job["id"]))["status"] == "succeeded"
    assert (await brought(world), sftp.names()) == ([1], set())
    assert (await shown(world, source))["status"] == "ok"


@asynccontextmanager
async def full_database(world: World, table: str) -> AsyncIterator[None]:
    """Let the database have no room for rows of a table."""
    superuser = superuser_url(world.service.factory.context.config)
    schema = world.scope.schema_name
    said = "could not extend file: No space left on device"
    body = f"BEGIN RAISE EXCEPTION '{said}' USING ERRCODE = 'disk_full'; END"
    await look(superuser, f"CREATE FUNCTION {schema}.full_disk() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
    await look(
        superuser,
        f"CREATE TRIGGER full_disk BEFORE INSERT ON {schema}.{table} EXECUTE FUNCTION {schema}.full_disk()",
    )
    try:
        yield
    finally:
        await look(superuser, f"DROP FUNCTION {schema}.full_disk() CASCADE")


@pytest.mark.parametrize("table", ["blob_chunk", "incoming_transaction", "change"])
async def test_an_upload_for_which_the_database_has_no_room_is_read_when_it_has(world: World, table: str) -> None:
    async with full_database(world, table):
        answer = await world.tenant.post("/incoming-transactions/upload", RECORDS)
        assert (answer.status_code, problem(answer)["code"]) == (507, "insufficient_storage")
    again = await world.tenant.post("/incoming-transactions/upload", RECORDS)
    await drain(world, "import")
    [found] = (await world.tenant.get("/imports")).json()["data"]
    assert (found["status"], found["counts"]["accepted"], again.status_code in {201, 202}) == ("completed", 1, True)
    assert len(await world.sql("SELECT 1 FROM incoming_transaction")) == 1
    assert (await world.bystander.get("/imports")).json()["data"] == []
