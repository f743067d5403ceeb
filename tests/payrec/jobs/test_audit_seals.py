"""Sealed audit logs: all that was recorded is sealed once, whoever dies, and whatever is changed later is found."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from payrec.cli import main
from payrec.config import Config
from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.principal import Principal
from payrec.embedded.postgres import EmbeddedPostgres
from payrec.services import audit_sealing
from payrec.services.audit_verification import AuditVerification
from payrec.storage.audit_seals import AuditSealStore
from support.commands import own_process
from support.outgoing import TYPE, Place, new_place
from support.places import schema_of
from support.postgres import cloned
from support.service import Service, make_config, running

pytestmark = pytest.mark.anyio

RESOURCE = UUID(int=7)
OLD = UUID("01000000-0000-7000-8000-000000000000")
"""An id of a change of 2004."""
YOUNGER = UUID("01000000-0000-7000-8000-000000000001")
"""Another one."""


@pytest.fixture(scope="module")
async def service(postgres: EmbeddedPostgres) -> AsyncIterator[Service]:
    """Return a service without a worker: nothing is sealed but by the test."""
    with cloned(postgres) as database:
        async with running(make_config(database), worker=False) as started:
            yield started


@pytest.fixture
async def here(service: Service) -> Place:
    """Return an environment of a new tenant, in whose log is nothing."""
    return await new_place(service)


async def sealed(place: Place) -> int:
    sealer, count = place.service.factory.upkeep.create_audit_sealer(), 0
    while not (sealed := await sealer.seal(place.scope, "test")).is_all:
        count += sealed.records
    return count + sealed.records


async def verified(place: Place, roots: dict[int, str] | None = None) -> AuditVerification:
    return await place.service.factory.upkeep.create_audit_verification_service().verify(place.scope, roots)


def breaks(found: AuditVerification) -> list[tuple[str, int | None]]:
    assert found.break_count == len(found.breaks)
    return [(one.kind, one.seal) for one in found.breaks]


async def three_seals(place: Place) -> None:
    for count in (2, 3, 1):
        await place.happen(*[RESOURCE] * count)
        assert await sealed(place) == count


async def test_what_was_recorded_is_sealed_once_and_told(service: Service, here: Place) -> None:
    there = await new_place(service)
    await there.happen(RESOURCE)
    assert (await verified(here), await sealed(here)) == (AuditVerification(), 0)
    await here.happen(RESOURCE, RESOURCE)
    assert (await verified(here)).waiting == 2
    before = service.factory.context.metrics.registry.get_sample_value("payrec_audit_records_sealed_total") or 0
    assert (await sealed(here), await sealed(here)) == (2, 0)
    await here.happen(RESOURCE)
    assert await sealed(here) == 1
    assert service.factory.context.metrics.registry.get_sample_value("payrec_audit_records_sealed_total") == before + 3

    found = await verified(here)
    assert (found.holds, found.seals, found.records, found.waiting, found.redacted.count) == (True, 2, 3, 0, 0)
    await service.factory.upkeep.create_sealer().seal(here.scope)
    events = (await here.tenant.get("/events", params={"type": "audit.sealed", "sort": "createdAt"})).json()["data"]
    told = [(e["data"]["sequence"], e["data"]["count"]) for e in events]
    assert told == [(1, 2), (2, 1)]
    assert events[-1]["data"]["root"] == found.last_root
    # Sealing is no record itself: there would be no end.
    assert [row["n"] for row in await here.sql("SELECT count(*) AS n FROM audit_record")] == [3]
    theirs = await verified(there)
    assert (theirs.seals, theirs.waiting) == (0, 1)


async def test_any_number_is_sealed_in_batches(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_sealing, "AUDIT_CHANGES_SEALED_AT_ONCE", 3)
    monkeypatch.setattr(audit_sealing, "AUDIT_RECORDS_READ", 2)
    await here.happen(*[RESOURCE] * 8)
    assert await sealed(here) == 8
    assert [r["count"] for r in await here.sql("SELECT count FROM audit_seal ORDER BY sequence")] == [3, 3, 2]
    found = await verified(here)
    assert (found.holds, found.records) == (True, 8)


async def test_where_changes_never_end_others_are_sealed_all_the_same(
    service: Service, here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = await new_place(service)
    await here.happen(*[RESOURCE] * 5)
    await there.happen(RESOURCE)
    made, take = [], AuditSealStore.take

    async def take_while_others_write(store: AuditSealStore, limit: int) -> list[UUID]:
        found = await take(store, limit)
        made.append(await schema_of(store._connection))
        await here.happen(RESOURCE)
        return list(found)

    monkeypatch.setattr(audit_sealing, "AUDIT_CHANGES_SEALED_AT_ONCE", 2)
    monkeypatch.setattr(AuditSealStore, "take", take_while_others_write)
    sealing = asyncio.create_task(service.factory.upkeep.create_audit_sealer().seal_everywhere())
    while there.scope.schema_name not in made:
        await asyncio.sleep(0)
        assert made.count(here.scope.schema_name) < 3
    monkeypatch.setattr(AuditSealStore, "take", take)
    await sealing
    for place in (here, there):
        found = await verified(place)
        assert (found.holds, found.waiting) == (True, 0)


async def test_nobody_who_writes_waits_and_what_commits_late_is_sealed_later(here: Place) -> None:
    late, go_on = asyncio.Event(), asyncio.Event()
    work = here.service.factory.work

    async def slowly() -> None:
        caller = Caller(principal=Principal(kind="system", name="test"), request_id="test", scope=here.scope)
        async with work.tenant(caller, resumed=True) as unit:
            unit.record(Record(action=TYPE, resource_id=RESOURCE))
            late.set()
            await go_on.wait()

    writing = asyncio.create_task(slowly())
    await late.wait()
    # Begun later, committed earlier.
    await here.happen(RESOURCE)
    assert await asyncio.wait_for(sealed(here), 10) == 1
    go_on.set()
    await writing
    assert await sealed(here) == 1
    assert (await verified(here)).records == 2


async def test_sealers_at_the_same_time_make_one_chain(here: Place) -> None:
    for _ in range(3):
        await here.happen(*[RESOURCE] * 4)
        assert sum(await asyncio.gather(*(sealed(here) for _ in range(4)))) <= 4
    await sealed(here)
    found = await verified(here)
    assert (found.holds, found.records, found.waiting) == (True, 12, 0)


@pytest.mark.parametrize("name", ["take", "records", "commit", "last", "add", "announce"])
async def test_a_sealer_that_dies_leaves_what_is_not_sealed_where_it_is(
    service: Service, here: Place, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    there = await new_place(service)
    for place in (here, there):
        await place.happen(RESOURCE, RESOURCE)
    step = getattr(AuditSealStore, name)

    async def dying(store: AuditSealStore, *given: Any, **more: Any) -> Any:
        found = await step(store, *given, **more)
        if await schema_of(store._connection) == here.scope.schema_name:
            raise KeyError("as if the process had died")
        return found

    everywhere = service.factory.upkeep.create_audit_sealer()
    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr(AuditSealStore, name, dying)
        await everywhere.seal_everywhere()
    assert [line["environment_id"] for line in logs if line["event"] == "audit.not_sealed"] == [
        str(here.scope.environment_id)
    ]
    assert ((await verified(here)).waiting, (await verified(there)).records) == (2, 2)
    await everywhere.seal_everywhere()
    found = await verified(here)
    assert (found.holds, found.records, found.seals) == (True, 2, 1)


FORGED_RECORD = """
    INSERT INTO audit_record (change_id, ordinal, actor, action, request_id)
    VALUES (%(one)s, 2, 'user:1', 'match.accepted', 'r')
"""
FORGED_COMMITMENT = """
    WITH forged AS (
        INSERT INTO audit_record (change_id, ordinal, actor, action, request_id)
        VALUES (%(one)s, 2, 'user:1', 'match.accepted', 'r') RETURNING change_id, ordinal
    )
    INSERT INTO audit_commitment (change_id, ordinal, seal, commitment)
    SELECT change_id, ordinal, 99, sha256('x') FROM forged
"""
FORGED_INSTANT = """
    UPDATE change c SET at = v.at FROM (SELECT id, at + interval '1 microsecond' AS at FROM change OFFSET 0) v
    WHERE c.id = v.id AND c.id = %(one)s
"""
FORGED_REMOVAL = """
    WITH gone AS (
        DELETE FROM audit_record WHERE change_id = %(one)s
    ), older AS (
        UPDATE change SET at = '2004-11-03' WHERE id = %(one)s
    )
    UPDATE audit_commitment SET salt = NULL, content = NULL WHERE change_id = %(one)s
"""
FORGED_ERASURE = """
    WITH less AS (
        UPDATE audit_record SET reason = NULL, before = NULL, after = NULL WHERE change_id = %(one)s
    )
    UPDATE audit_commitment SET salt = NULL WHERE change_id = %(one)s
"""
FORGERIES = [
    ("UPDATE audit_record SET actor = 'user:other' WHERE change_id = %(one)s", [("record_changed", 2)]),
    ("UPDATE audit_record SET after = '{}' WHERE change_id = %(one)s", [("record_changed", 2)]),
    ("UPDATE audit_record SET reason = '' WHERE change_id = %(one)s", [("record_changed", 2)]),
    (FORGED_INSTANT, [("record_changed", 2)]),
    ("DELETE FROM audit_record WHERE change_id = %(one)s", [("record_missing", 2)]),
    (FORGED_REMOVAL, [("record_missing", 2)]),
    (FORGED_ERASURE, [("record_redacted", None)]),
    (
        "UPDATE audit_record SET ordinal = 9 WHERE change_id = %(one)s",
        [("record_missing", 2), ("record_unknown", None)],
    ),
    (FORGED_RECORD, [("record_unknown", None)]),
    (FORGED_COMMITMENT, [("record_unknown", None)]),
    ("UPDATE audit_commitment SET seal = 0 WHERE change_id = %(one)s", [("seal_changed", 2), ("record_unknown", None)]),
    ("UPDATE audit_commitment SET commitment = sha256('x') WHERE change_id = %(one)s", None),
    (
        "DELETE FROM audit_commitment WHERE change_id = %(one)s",
        [("seal_changed", 2), ("record_unknown", None)],
    ),
    ("UPDATE audit_commitment SET seal = 1 WHERE change_id = %(one)s", [("seal_changed", 1), ("seal_changed", 2)]),
    ("UPDATE audit_seal SET count = 4 WHERE sequence = 2", [("seal_changed", 2)]),
    ("UPDATE audit_seal SET root = sha256('x') WHERE sequence = 3", [("seal_changed", 3)]),
    (
        "UPDATE audit_seal SET root = sha256('x') WHERE sequence = 2",
        [("seal_changed", 2), ("seal_unlinked", 3)],
    ),
    (
        "UPDATE audit_seal SET previous_root = sha256('x') WHERE sequence = 2",
        [("seal_unlinked", 2), ("seal_changed", 2)],
    ),
    ("DELETE FROM audit_seal WHERE sequence = 1", [("seal_missing", 1), ("seal_unlinked", 2)]),
    ("DELETE FROM audit_seal WHERE sequence = 2", [("seal_missing", 2), ("seal_unlinked", 3)]),
]


@pytest.mark.parametrize(("forgery", "wanted"), FORGERIES, ids=range(len(FORGERIES)))
async def test_whatever_is_changed_is_found_and_named(
    service: Service, here: Place, forgery: str, wanted: list[tuple[str, int | None]] | None
) -> None:
    await three_seals(here)
    there = await new_place(service)
    await three_seals(there)
    [row] = await here.sql("SELECT change_id FROM audit_commitment WHERE seal = 2 ORDER BY 1 OFFSET 1 LIMIT 1")
    async with service.factory.context.database.tenant(here.scope) as connection:
        await connection.execute(forgery.encode(), {"one": row["change_id"]})
    found = await verified(here)
    assert breaks(found) == (wanted or [("record_changed", 2), ("seal_changed", 2)])
    named = {one.change_id for one in found.breaks if one.change_id is not None}
    assert named <= {row["change_id"]}
    assert breaks(await verified(there)) == []


async def test_a_chain_that_was_forged_as_a_whole_differs_from_a_root_that_was_kept(here: Place) -> None:
    await three_seals(here)
    kept = await verified(here)
    assert kept.last_root is not None
    assert breaks(await verified(here, {3: kept.last_root.upper()})) == []
    # Whoever may write everything takes the end away, or makes all of it anew.
    for table in ("audit_commitment WHERE seal = 3", "audit_seal WHERE sequence = 3"):
        await here.sql(f"DELETE FROM {table}")  # noqa: S608 - our own text
    await here.sql(
        "INSERT INTO audit_unsealed SELECT change_id FROM audit_record EXCEPT SELECT change_id FROM audit_commitment"
    )
    assert breaks(await verified(here)) == []
    assert breaks(await verified(here, {3: kept.last_root})) == [("seal_missing", 3)]
    await here.sql("UPDATE audit_record SET actor = 'user:other'")
    for table in ("audit_commitment", "audit_seal", "audit_unsealed"):
        await here.sql(f"DELETE FROM {table}")  # noqa: S608 - our own text
    await here.sql("INSERT INTO audit_unsealed SELECT DISTINCT change_id FROM audit_record")
    assert await sealed(here) == 6
    assert breaks(await verified(here)) == []
    assert ("seal_missing", 3) in breaks(await verified(here, {3: kept.last_root}))
    # The feed has told of the roots, and remembers them for a while.
    await here.service.factory.upkeep.create_sealer().seal(here.scope)
    assert {kind for kind, _ in breaks(await verified(here))} == {"root_differs", "seal_missing"}


async def test_what_the_retention_removes_leaves_the_chain_whole(service: Service, here: Place) -> None:
    await here.happen(RESOURCE, RESOURCE)
    for table, column in (("change", "id"), ("audit_record", "change_id"), ("audit_unsealed", "change_id")):
        oldest = f"(SELECT min({column}::text)::uuid FROM {table})"  # noqa: S608 - our own text
        await here.sql(f"UPDATE {table} SET {column} = %s WHERE {column} = {oldest}", OLD)  # noqa: S608
    await here.sql("UPDATE change SET at = '2004-11-03' WHERE id = %s", OLD)
    retention = service.factory.upkeep.create_retention_service()
    # What nobody could tell of afterwards stays until it is sealed.
    assert (await retention.drop_expired()).of("audit_records").count == 0
    assert await sealed(here) == 2
    await here.sql("INSERT INTO change (id, at) VALUES (%s, '2004-11-03')", YOUNGER)
    columns = "change_id, ordinal, actor, action, request_id"
    await here.sql(f"INSERT INTO audit_record ({columns}) VALUES (%s, 1, 'a', 'b', 'c')", YOUNGER)  # noqa: S608
    await here.sql("INSERT INTO audit_unsealed VALUES (%s)", YOUNGER)
    assert (await retention.drop_expired()).of("audit_records").count == 1
    [row] = await here.sql("SELECT salt FROM audit_commitment WHERE change_id = %s", OLD)
    assert row["salt"] is None
    await sealed(here)
    found = await verified(here)
    assert (found.holds, found.records, found.redacted.count) == (True, 3, 1)
    assert found.redacted.oldest == found.redacted.newest == datetime(2004, 11, 3, tzinfo=UTC)
    # Without its salt the record would be missed.
    await here.sql("UPDATE audit_commitment SET salt = substr(sha256('x'), 1, 16) WHERE change_id = %s", OLD)
    assert breaks(await verified(here)) == [("record_missing", 1)]


Command = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest.fixture
def payrec(
    service: Service, here: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Command]:
    """Return ``payrec audit verify`` of the environment: its exit code, output and complaint."""
    config: Config = service.factory.context.config

    async def call(*options: str, tenant: str | None = None) -> tuple[int, str, str]:
        capsys.readouterr()
        place = ["--tenant", tenant or here.tenant.slug, "--environment", "production"]
        code = await asyncio.to_thread(main, ["audit", "verify", *place, *options])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    with own_process(monkeypatch):
        monkeypatch.setenv("DEPLOYMENT_ENVIRONMENT", "development")
        monkeypatch.setenv("DATABASE_URL", config.database_url)
        monkeypatch.setenv("API_KEY_PEPPER", config.api_key_pepper.get_secret_value())
        monkeypatch.setenv("ENCRYPTION_KEY", config.encryption_key.get_secret_value())
        yield call


async def test_the_command_says_what_holds_and_what_is_broken(here: Place, payrec: Command) -> None:
    await three_seals(here)
    await here.happen(RESOURCE)
    found = await verified(here)
    code, out, _ = await payrec("--json")
    document = json.loads(out)
    assert code == 0
    assert document == {
        "verified": True,
        "seals": 3,
        "records": 6,
        "redacted": {"count": 0, "oldest": None, "newest": None, "erasedCount": 0, "erased": []},
        "notSealedYet": 1,
        "lastRoot": found.last_root,
        "breakCount": 0,
        "breaks": [],
    }
    code, out, _ = await payrec()
    assert code == 0
    assert f"keep this elsewhere: 3:{found.last_root}" in out
    assert (await payrec("--root", f"3:{found.last_root}"))[0] == 0
    code, _, told = await payrec("--root", f"3:{'0' * 64}")
    assert (code, "1 breaks" in told) == (1, True)
    await here.sql("UPDATE audit_record SET actor = 'user:other'")
    code, out, told = await payrec()
    assert (code, "NOT as it was sealed" in out, "a record is not what was sealed" in out) == (1, True, True)
    assert "6 breaks" in told
    code, out, _ = await payrec("--json")
    [first, *_] = json.loads(out)["breaks"]
    assert first == {**first, "kind": "record_changed", "seal": 1, "ordinal": 1}
    assert asdict((await verified(here)).breaks[0])["change_id"] == UUID(first["changeId"])


async def test_a_wrong_command_line_is_refused(payrec: Command) -> None:
    assert (await payrec(tenant="nobody"))[0] == 2
    for root in ("3", "0:" + "0" * 64, "1:" + "0" * 63, "x:" + "0" * 64):
        with pytest.raises(SystemExit):
            await payrec("--root", root)
