"""When data sources are pulled, and the kinds of them that are not SFTP servers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from payrec.storage.data_sources import DataSourceStore
from support.ages import aged
from support.attempts import Pause, drain
from support.file_servers import PASSWORD, SftpServer, file_server
from support.matching_world import World
from support.object_server import ACCESS_KEY, SECRET_KEY, object_server
from support.sources import PATH, brought, created, shown, statement, synced
from support.wire import code, fields

pytestmark = pytest.mark.anyio


# Starting ---------------------------------------------------------------------------------------------------------


async def test_a_source_has_one_sync_at_a_time_and_only_where_it_may(world: World, sftp: SftpServer) -> None:
    source, uploads = await created(world, sftp), await world.tenant.post(PATH, {"name": "up", "kind": "upload"})
    url = f"{PATH}/{source['id']}/sync"
    answers = await asyncio.gather(*(world.tenant.post(url) for _ in range(5)))
    assert sorted(a.status_code for a in answers) == [202, 409, 409, 409, 409]
    job_id = next(a.json()["id"] for a in answers if a.status_code == 202)
    assert {a.json()["jobId"] for a in answers if a.status_code == 409} == {job_id}
    assert (await world.tenant.post(f"/jobs/{job_id}/cancel")).status_code == 200
    by_kind = await world.tenant.post("/jobs", {"kind": "sync", "params": {"dataSourceId": source["id"]}})
    assert (by_kind.status_code, by_kind.json()["params"]) == (202, {"dataSourceId": source["id"]})
    await drain(world, "sync")
    for params in ({}, {"dataSourceId": "x"}, {"dataSourceId": source["id"], "more": 1}):
        wrong = await world.tenant.post("/jobs", {"kind": "sync", "params": params})
        assert (wrong.status_code, len(fields(wrong))) == (422, 1)
    for tenant, path, status in (
        (world.tenant, f"{PATH}/{uploads.json()['id']}/sync", 409),
        (world.bystander, url, 404),
        (world.tenant, f"{PATH}/{uuid4()}/sync", 404),
        (world.tenant, f"{PATH}/x/sync", 404),
    ):
        assert (await tenant.post(path)).status_code == status
    elsewhere = await world.tenant.post(url, None, "test")
    assert elsewhere.status_code == 404
    await world.tenant.request("PATCH", f"{PATH}/{source['id']}", json={"enabled": False})
    assert code(await world.tenant.post(url)) == "invalid_state"
    deleted = await created(world, sftp)
    job_id = (await world.tenant.post(f"{PATH}/{deleted['id']}/sync")).json()["id"]
    assert (await world.tenant.request("DELETE", f"{PATH}/{deleted['id']}")).status_code == 204
    await drain(world, "sync")
    assert (await world.job(job_id))["error"]["code"] == "not_found"


async def test_what_is_due_is_started_once_and_then_waits_for_its_next_time(world: World, sftp: SftpServer) -> None:
    service = world.service.factory.sources.create_sync_service()
    source = await created(world, sftp, schedule="30 6 * * *")
    unscheduled, off = await created(world, sftp), await created(world, sftp, schedule="* * * * *", enabled=False)
    later = datetime.fromisoformat(source["nextSyncAt"])
    assert timedelta() < later - datetime.now(UTC) <= timedelta(days=1)
    assert (later.hour, later.minute, unscheduled["nextSyncAt"]) == (6, 30, None)
    assert await service.start_due() == 0
    await world.sql("UPDATE data_source SET next_sync_at = now() - interval '3 days'")
    assert sum(await asyncio.gather(*(service.start_due() for _ in range(3)))) == 2
    jobs = (await world.tenant.get("/jobs", params={"kind": "sync"})).json()["data"]
    assert {job["params"]["dataSourceId"] for job in jobs} == {source["id"], unscheduled["id"]}
    assert off["id"] not in str(jobs)
    assert (await shown(world, source))["nextSyncAt"] == source["nextSyncAt"]
    assert (await shown(world, unscheduled))["nextSyncAt"] is None
    # One whose sync still runs is not started again.
    await world.sql("UPDATE data_source SET next_sync_at = now() - interval '3 days'")
    assert await service.start_due() == 0
    assert (await shown(world, source))["nextSyncAt"] == source["nextSyncAt"]
    await drain(world, "sync")


async def test_who_comes_late_to_a_source_that_was_due_does_not_start_it_again(
    world: World, sftp: SftpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = world.service.factory.sources.create_sync_service()
    await created(world, sftp, schedule="30 6 * * *")
    await world.sql("UPDATE data_source SET next_sync_at = now() - interval '1 minute'")
    late = Pause(monkeypatch, DataSourceStore, "for_sync")
    starting = asyncio.create_task(service.start_due())
    await late.reached.wait()
    assert await service.start_due() == 1
    await drain(world, "sync")
    late.go_on.set()
    assert await starting == 0
    assert len(await world.sql("SELECT 1 FROM job WHERE kind = 'sync'")) == 1


async def test_a_schedule_is_in_the_tenant_s_time_zone(world: World, sftp: SftpServer) -> None:
    settings = f"/tenants/{world.tenant.id}/settings"
    assert (await world.tenant.request("PATCH", settings, json={"timezone": "Asia/Kolkata"})).status_code == 200
    source = await created(world, sftp, schedule="0 6 * * *")
    due = datetime.fromisoformat(source["nextSyncAt"])
    assert (due.hour, due.minute) == (0, 30)
    patched = await world.tenant.request("PATCH", f"{PATH}/{source['id']}", json={"schedule": None})
    assert (patched.json()["schedule"], patched.json()["nextSyncAt"]) == (None, None)


# The other kinds --------------------------------------------------------------------------------------------------


async def test_a_bucket_is_pulled_with_a_mounted_secret(world: World) -> None:
    directory = world.service.factory.context.config.source_secrets_dir
    assert directory is not None
    mounted = directory / "acme" / "bank"
    mounted.mkdir(parents=True, exist_ok=True)
    (mounted / "accessKeyId").write_text(ACCESS_KEY + "\n")
    (mounted / "secretAccessKey").write_text(SECRET_KEY)
    async with object_server() as bucket:
        bucket.put("in/a.csv", statement(1))
        config = {"bucket": bucket.name, "endpoint": bucket.url, "prefix": "in/", "afterRead": "move", "moveTo": "old/"}
        document = {"name": "bucket", "kind": "s3", "config": config, "secretRef": "bank"}
        answer = await world.tenant.post(PATH, document)
        assert answer.status_code == 201, answer.text
        assert (await synced(world, answer.json()))["imported"] == 1
        assert set(bucket.objects) == {"in/old/a.csv"}
        assert (await synced(world, answer.json()))["listed"] == 0
        stolen = await world.bystander.post(PATH, document)
        assert fields(stolen) == {("/secretRef", "secret_unknown")}
        (mounted / "secretAccessKey").unlink()
        (mounted / "accessKeyId").unlink()
        mounted.rmdir()
        assert (await synced(world, answer.json()))["reason"] == "secret_unknown"
    assert await brought(world) == [1]


async def test_a_mounted_secret_is_shown_to_the_servers_that_its_hosts_name(world: World) -> None:
    """Who may change a source of his tenant may not have the password of the bank told to a server of his own."""
    directory = world.service.factory.context.config.source_secrets_dir
    assert directory is not None
    for slug in ("acme", "globex"):
        mounted = directory / slug / "portal"
        mounted.mkdir(parents=True, exist_ok=True)
        (mounted / "bearerToken").write_text("hush")
    hosts = directory / "acme" / "portal" / "hosts"
    hosts.write_text("Files.Bank.example\nlocalhost\n")
    async with file_server() as server:
        server.files["day.csv"] = statement(1)
        config = {"urls": [f"{server.url}/day.csv"]}
        document = {"name": "portal", "kind": "http", "config": config, "secretRef": "portal"}
        refused = await world.tenant.post(PATH, document)
        assert fields(refused) == {("/secretRef", "secret_elsewhere")}
        hosts.write_text("files.bank.example 127.0.0.1")
        source = (await world.tenant.post(PATH, document)).json()
        assert (await synced(world, source))["waiting"] == 1
        both = {"config": {"urls": [*config["urls"], "https://files.thief.example/day.csv"]}}
        moved = await world.tenant.request("PATCH", f"{PATH}/{source['id']}", json=both)
        assert fields(moved) == {("/secretRef", "secret_elsewhere")}
        server.requests.clear()
        hosts.write_text("files.bank.example")
        assert (await synced(world, source))["reason"] == "secret_elsewhere"
        assert server.requests == []
        # A secret that names no servers is its tenant's to use.
        assert (await world.bystander.post(PATH, document)).status_code == 201


async def test_an_address_is_pulled_and_its_content_tells_what_its_server_does_not(world: World) -> None:
    async with file_server() as server:
        server.files["day.csv"] = statement(1)
        server.tags = False
        config = {"urls": [f"{server.url}/day.csv"]}
        source = (await world.tenant.post(PATH, {"name": "web", "kind": "http", "config": config})).json()
        assert (await synced(world, source))["waiting"] == 1
        await world.sql(aged("data_source_object", "2 minutes"))
        assert [(await synced(world, source))["imported"] for _ in range(3)] == [1, 0, 0]
        server.files["day.csv"] = statement(1, 2)
        assert (await synced(world, source))["imported"] == 1
        server.tags = True
        await synced(world, source)
        await world.sql(aged("data_source_object", "2 minutes"))
        await synced(world, source)
        assert await brought(world) == [1, 2]
        reads = [r for r in server.requests if r[0] == "GET"]
        await synced(world, source)
        assert [r for r in server.requests if r[0] == "GET"] == reads


async def test_a_secret_is_stored_sealed_and_belongs_to_its_source(world: World, sftp: SftpServer) -> None:
    source, other = await created(world, sftp), await created(world, sftp)
    sealed = await world.sql("SELECT id, secret FROM data_source ORDER BY id")
    assert all(
        PASSWORD.encode() not in bytes(row["secret"]) and b"password" not in bytes(row["secret"]) for row in sealed
    )
    for table in ("audit_record", "outbox", "event", "job"):
        rows = await world.sql(f"SELECT t::text FROM {table} t")  # noqa: S608 - our own names
        assert PASSWORD not in str(rows)
    assert "secret" not in {name for name in await shown(world, source) if name != "secretRef"}
    await world.sql(
        "UPDATE data_source SET secret = (SELECT secret FROM data_source WHERE id = %s) WHERE id = %s",
        UUID(source["id"]),
        UUID(other["id"]),
    )
    assert (await synced(world, other))["reason"] == "secret_lost"
