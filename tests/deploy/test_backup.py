"""Backup and restore by the scripts and commands of the guide, on real servers with exactly the documented roles."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest
from psycopg import AsyncConnection, sql

from payrec.cli import main
from payrec.constants.tenants import REGISTRATION_BYTES_MAX
from payrec.domain.tenant_resources import ResourceOwner, WantedTenant
from payrec.errors import SlugTakenError
from support.books import keep_books
from support.charts import ROOT
from support.commands import environment, own_process
from support.installations import Installation, installation
from support.places import look, wait_for
from support.service import Service, Tenant, make_config, running

pytestmark = pytest.mark.anyio

DUMP: Final = ROOT / "deploy" / "backup" / "dump.sh"
RESTORE: Final = ROOT / "deploy" / "backup" / "restore.sh"
INITECH: Final = ResourceOwner(uid="1", namespace="tenants", name="initech")
WANTED: Final = WantedTenant(name="Initech")
SCHEMAS: Final = "SELECT schema_name FROM control.tenant_environment ORDER BY id"
WAITING: Final = """
    SELECT (SELECT count(*) FROM jobs.procrastinate_jobs WHERE status = 'todo' AND task_name = 'drain'),
        (SELECT count(*) FROM control.webhook_queue)
"""
UNCHANGED: Final = {"tenant", "tenant_environment", "app_user", "api_key", "audit_record", "alembic_version"}
"""Tables of the control schema that a restore of everything brings back, and nothing else changes."""

State = dict[str, tuple[int, str]]
Command = Callable[[str], Awaitable[str]]


async def state(where: Installation, schema: str) -> State:
    """Return the number of rows of each table of a schema, and a digest of what is in them."""
    tables = "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = 'r' ORDER BY 1"
    found: State = {}
    async with await AsyncConnection.connect(where.database.superuser_url) as connection:
        for (table,) in await (await connection.execute(tables, (schema,))).fetchall():
            query = sql.SQL("SELECT count(*), coalesce(md5(string_agg(t::text, '' ORDER BY t::text)), '') FROM {} t")
            row = await (await connection.execute(query.format(sql.Identifier(schema, table)))).fetchone()
            assert row is not None
            found[table] = (row[0], row[1])
    return found


async def states(where: Installation) -> dict[str, State]:
    """Return the state of every tenant environment, and of the control schema."""
    names = [name for (name,) in await look(where.database.superuser_url, SCHEMAS)]
    return {name: await state(where, name) for name in [*names, "control"]}


def commands(where: Installation, folder: Path) -> Command:
    """Return what runs commands in a folder, as a person with this installation's settings does."""

    async def run(script: str) -> str:
        return await asyncio.to_thread(where.shell, script, cwd=folder)

    return run


async def refused(command: Command, script: str) -> str:
    """Return what a script complains of that fails."""
    with pytest.raises(AssertionError) as caught:
        await command(script)
    return str(caught.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estate:
    """What was there when the backup was made."""

    acme: Tenant
    globex: Tenant
    key: str
    """An API key of acme's production."""
    folder: Path
    """Where ``acme``, ``initech`` and ``all`` are: a backup of each of the two tenants, and of everything."""
    before: dict[str, State]
    queued: str
    """A job of acme's that waited for a worker when the backup was made."""

    async def by_key(self, service: Service) -> int:
        """Return what a program with the key is answered."""
        headers = {"X-Api-Key": self.key, "X-Tenant-Id": self.acme.id, "X-Environment": "production"}
        answer = await service.http.get(f"{service.base_url}/matches", headers=headers)
        return answer.status_code


async def at(service: Service, tenant: Tenant) -> Tenant:
    """Return a tenant whose administrator has logged in at another service."""
    given = {"username": f"admin@{tenant.slug}", "password": f"pässwörd-{tenant.slug}"}
    answer = await service.http.post(f"{service.base_url}/auth/token", json=given)
    assert answer.status_code == 200, answer.text
    return replace(tenant, token=answer.json()["access_token"], base_url=service.base_url, http=service.http)


@pytest.fixture(scope="module")
async def estate(installed: Installation, tmp_path_factory: pytest.TempPathFactory) -> Estate:
    """Return two tenants at work and one of a resource, and backups of them."""
    folder = tmp_path_factory.mktemp("backup")
    async with running(make_config(installed.database)) as service:
        acme, globex = await service.tenant("acme"), await service.tenant("globex")
        for tenant in (acme, globex):
            await keep_books(tenant)
        made = await acme.post("/auth/api-keys", {"name": "ledger", "read": True, "write": True})
        hook = {"url": "https://192.0.2.1.example/", "events": ["match.rejected"]}
        assert (await acme.post("/webhooks", hook)).status_code == 201
        registry = service.factory.create_tenant_resource_service()
        claimed = await registry.claim(INITECH, "initech", WANTED)
        await registry.ensure_environment(claimed.tenant_id, "production", adopt=False)
    async with running(make_config(installed.database), worker=False) as service:
        for slug in ("acme", "globex"):
            scope = await service.factory.create_tenant_service().scope(slug, "production")
            assert (await service.factory.upkeep.create_audit_sealer().seal(scope, "test")).records > 0
        queued = await (await at(service, acme)).post("/jobs", {"kind": "match", "params": {"dryRun": True}})
        assert queued.status_code == 202, queued.text
    run = commands(installed, folder)
    assert len((await run(f"{DUMP} acme acme")).split()) == 4
    assert (await run(f"{DUMP} initech initech")).split() == ["initech_production"]
    assert len((await run(f"{DUMP} all")).split()) == 9
    return Estate(
        acme=acme,
        globex=globex,
        key=made.json()["apiKey"],
        folder=folder,
        before=await states(installed),
        queued=queued.json()["id"],
    )


@pytest.fixture
async def elsewhere() -> AsyncIterator[Installation]:
    """Return another installation, in which nothing is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with installation() as made:
            yield made


async def test_one_environment_goes_back_in_time_and_nobody_else_notices(
    installed: Installation, estate: Estate
) -> None:
    run = commands(installed, estate.folder)
    async with running(make_config(installed.database), worker=False) as service:
        acme, globex = await at(service, estate.acme), await at(service, estate.globex)
        for tenant in (acme, globex):
            item = {"direction": "credit", "amountMinor": 1, "currency": "EUR", "externalId": "later"}
            assert (await tenant.post("/expected-transactions", item)).status_code == 201
        theirs = await state(installed, "globex_production")
        await run("payrec tenants suspend acme")
        assert await estate.by_key(service) == 403

        await run(f"{RESTORE} acme acme_production && payrec migrate && payrec tenants resume acme")

        assert await state(installed, "acme_production") == estate.before["acme_production"]
        assert await state(installed, "globex_production") == theirs != estate.before["globex_production"]
        assert await estate.by_key(service) == 200
        found = await acme.get("/expected-transactions", params={"externalId": "later"})
        assert found.json()["data"] == []
    said = await run("payrec audit verify --tenant acme --environment production --json")
    assert (json.loads(said)["verified"], json.loads(said)["seals"]) == (True, 1)


async def test_tenants_move_to_another_installation_with_their_keys_and_what_waits(
    estate: Estate, elsewhere: Installation
) -> None:
    run = commands(elsewhere, estate.folder)
    await run(
        "payrec migrate"
        " && payrec tenants restore-registration acme/acme.registration.json"
        f" && for name in development staging production test; do {RESTORE} acme acme_$name; done"
        " && payrec tenants restore-registration initech/initech.registration.json"
        f" && {RESTORE} initech initech_production && payrec migrate"
    )
    assert "registered already" in await refused(run, "payrec tenants restore-registration acme/acme.registration.json")
    for schema in ("acme_development", "acme_staging", "acme_production", "acme_test", "initech_production"):
        assert await state(elsewhere, schema) == estate.before[schema]
    url = elsewhere.database.superuser_url
    assert await look(url, WAITING) == [(0, 0)]
    for _ in range(2):
        assert "4 environments" in await run("payrec tenants wake acme")
        assert await look(url, WAITING) == [(1, 1)]

    async with running(make_config(elsewhere.database)) as service:
        assert await estate.by_key(service) == 403, "it is suspended until somebody has looked"
        await run("payrec tenants resume acme")
        assert await estate.by_key(service) == 200
        done = "SELECT FROM acme_production.job WHERE id = %s AND status = 'succeeded'"
        await wait_for(url, done, estate.queued)

        registry = service.factory.create_tenant_resource_service()
        with pytest.raises(SlugTakenError):
            await registry.claim(ResourceOwner(uid="3", namespace="others", name="initech"), "initech", WANTED)
        again = ResourceOwner(uid="2", namespace=INITECH.namespace, name=INITECH.name)
        claimed = await registry.claim(again, "initech", WANTED)
        made = await registry.ensure_environment(claimed.tenant_id, "production", adopt=False)
        assert (made.status, made.corrected) == ("active", ())
        assert (await registry.apply(claimed.tenant_id, WANTED)).status == "active"


async def test_everything_comes_back_on_a_new_server(estate: Estate, elsewhere: Installation) -> None:
    run = commands(elsewhere, estate.folder)
    await run(
        'pg_restore --dbname="$ADMIN_DATABASE_URL" --no-owner --no-privileges --exit-on-error --single-transaction'
        " all/control.dump && payrec tenants mend"
    )
    assert "SchemaMissingError" in await refused(run, "payrec migrate")
    await run(f'for dump in all/*_*.dump; do {RESTORE} all "$(basename "$dump" .dump)"; done')
    assert "failed" not in await run("payrec migrate")

    after = await states(elsewhere)
    assert after.keys() == estate.before.keys()
    for schema in after.keys() - {"control"}:
        assert after[schema] == estate.before[schema], schema
    for table in UNCHANGED:
        assert after["control"][table] == estate.before["control"][table], table
    said = await run("payrec audit verify --tenant globex --environment production --json")
    assert (json.loads(said)["verified"], json.loads(said)["seals"]) == (True, 1)
    async with running(make_config(elsewhere.database)) as service:
        assert await estate.by_key(service) == 200
        for tenant in (estate.acme, estate.globex):
            await keep_working(await at(service, tenant))
        registry = service.factory.create_tenant_resource_service()
        found = await registry.find(INITECH)
        assert found is not None, "the same resource, in the same cluster, has its tenant"
        assert (await registry.ensure_environment(found.tenant_id, "production", adopt=False)).corrected == ()


async def keep_working(tenant: Tenant) -> None:
    """Add an item and match: what a tenant does every day."""
    item = {"direction": "credit", "amountMinor": 5000, "currency": "EUR", "externalId": "afterwards"}
    assert (await tenant.post("/expected-transactions", item)).status_code == 201
    run = await tenant.post("/matches/match", {"wait": 60}, "staging")
    assert run.status_code == 200, run.text


async def test_another_login_role_is_let_in_everywhere(installed: Installation, estate: Estate, tmp_path: Path) -> None:
    assert estate.acme
    url = installed.database.superuser_url
    await look(url, "CREATE ROLE payrec_service_b LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT")
    await look(url, "GRANT CONNECT ON DATABASE payrec TO payrec_service_b")
    database = replace(installed.database, url=installed.database.url.replace("payrec_service@", "payrec_service_b@"))
    run = commands(replace(installed, database=database), tmp_path)
    assert "has not been migrated" in await refused(run, "payrec tenants list")
    assert len((await run("payrec tenants mend")).splitlines()) == 2 + 9
    await run("payrec audit verify --tenant globex --environment production")


async def test_what_cannot_be_restored_changes_nothing(installed: Installation, estate: Estate, tmp_path: Path) -> None:
    run = commands(installed, tmp_path)
    before = await state(installed, "acme_production")
    whole = (estate.folder / "acme" / "acme_production.dump").read_bytes()
    (tmp_path / "acme_production.dump").write_bytes(whole[: len(whole) * 2 // 3])
    await refused(run, f"{RESTORE} . acme_production")
    (tmp_path / "nobody_test.dump").write_bytes(whole)
    assert "register its tenant first" in await refused(run, f"{RESTORE} . nobody_test")
    assert await state(installed, "acme_production") == before


WRONG: Final[dict[str, dict[str, object]]] = {
    "/format": {"format": "payrec.tenant-registration/2"},
    "slug": {"slug": "not a slug"},
    "/unknown": {"unknown": 1},
    "timezone": {"settings": {"timezone": "Mars/Olympus"}},
    "a resource has a namespace": {"resourceName": "acme"},
    "an environment that is there": {"environments": []},
}
"""Changes of a registration that make it wrong, by what is complained of."""


async def test_a_wrong_registration_is_refused_in_a_line(
    estate: Estate,
    installed: Installation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = json.loads((estate.folder / "acme" / "acme.registration.json").read_text(encoding="utf-8"))
    before, file = await state(installed, "control"), tmp_path / "wrong.json"
    with own_process(monkeypatch):
        for name, value in environment(installed.database).items():
            monkeypatch.setenv(name, value)

        async def complaint() -> str:
            capsys.readouterr()
            assert await asyncio.to_thread(main, ["tenants", "restore-registration", str(file)]) in {1, 2}
            [line] = capsys.readouterr().err.splitlines()
            return line

        assert "cannot be read" in await complaint()
        for expected, change in WRONG.items():
            file.write_text(json.dumps(given | change), encoding="utf-8")
            assert expected in await complaint()
        file.write_bytes(b" " * (REGISTRATION_BYTES_MAX + 1))
        assert "bytes" in await complaint()
    after = await state(installed, "control")
    assert {table: after[table] for table in UNCHANGED} == {table: before[table] for table in UNCHANGED}


async def test_a_registration_has_no_secret(estate: Estate) -> None:
    text = (estate.folder / "acme" / "acme.registration.json").read_text(encoding="utf-8")
    assert estate.key not in text
    assert estate.key.partition(".")[2] not in text
    assert "password" not in text
