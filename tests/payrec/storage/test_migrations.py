"""Migrating an installation: control first, then every environment that is behind, again and again."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import pytest

from payrec.domain.caller import Caller
from payrec.domain.principal import ANONYMOUS
from payrec.domain.scope import TenantScope
from payrec.embedded.postgres import LOGIN_ROLE, EmbeddedDatabase, EmbeddedPostgres
from payrec.errors import SchemaNotOwnedError, UnavailableError
from payrec.factory import Factory, SystemClock, create_context
from payrec.models.tenants import TenantCreate
from payrec.services import migrations as service
from payrec.services.migrations import MigrationReport, check_ready, migrate
from payrec.storage import migrations
from payrec.storage.database import Database
from payrec.storage.tenants import TenantStore, scope_of
from support.places import look
from support.postgres import cloned
from support.service import make_config

pytestmark = pytest.mark.anyio

CONTROL_HEAD = migrations.head("control")
HEAD = migrations.head("tenant")
NEXT = f"{int(HEAD) + 1:04}"

SECOND = f'''"""Another revision."""
from alembic import op

revision = "{NEXT}"
down_revision = "{HEAD}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("CREATE TABLE second (id bigint PRIMARY KEY)")
    op.execute("ALTER TABLE job ADD COLUMN second text")
'''


@pytest.fixture
def second_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give the tenant tree another revision, and run migrations in a thread of this process, which knows of it."""
    original = migrations.scripts_of
    tree = tmp_path / "tenant"
    shutil.copytree(str(original("tenant")), tree)
    (tree / "versions" / f"{NEXT}_second.py").write_text(SECOND)

    def scripts_of(name: str) -> Traversable:
        return tree if name == "tenant" else original(name)

    def one_thread(_count: int, **_options: Any) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1)

    monkeypatch.setattr(migrations, "scripts_of", scripts_of)
    monkeypatch.setattr(service, "ProcessPoolExecutor", one_thread)
    _forget()
    yield
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    migrations.head.cache_clear()
    migrations.known_revisions.cache_clear()
    migrations.loaded_scripts.cache_clear()


@pytest.fixture
async def opened(database: EmbeddedDatabase) -> AsyncIterator[Database]:
    """Return the doors of the test's own database."""
    doors = Database(url=database.url, admin_url=database.admin_url, pool_size_max=4)
    await doors.open()
    yield doors
    await doors.close()


@pytest.fixture
async def factory(database: EmbeddedDatabase, opened: Database) -> Factory:
    """Return what makes tenants in the test's own database."""
    context = create_context(make_config(database))
    context.database = opened
    return Factory(context)


async def _tenant(factory: Factory, slug: str, *environments: str) -> None:
    given = TenantCreate.model_validate({"name": slug, "slug": slug, "environments": list(environments)})
    await factory.create_tenant_service().create(Caller(principal=ANONYMOUS, request_id="test"), given)


async def _tenant_behind(factory: Factory, slug: str, *environments: str) -> None:
    """Make a tenant as an image of the revision before would."""
    with pytest.MonkeyPatch.context() as old_image:
        old_image.setattr("payrec.storage.provisioning.head", lambda _tree: HEAD)
        await _tenant(factory, slug, *environments)


async def _staging(opened: Database) -> TenantScope:
    async with opened.control(readonly=True) as connection:
        rows = await TenantStore(connection).scopes()
    [found] = [scope_of(row) for row in rows if row["environment"] == "staging"]
    return found


async def _migrate(addresses: EmbeddedDatabase, database: Database) -> MigrationReport:
    return await migrate(admin_url=addresses.admin_url, login=LOGIN_ROLE, database=database, clock=SystemClock())


def _outcomes(report: MigrationReport) -> dict[str, tuple[str | None, str | None, str, str | None]]:
    return {e.schema_name: (e.before, e.after, e.outcome, e.error) for e in report.environments}


@pytest.mark.parametrize("tree", ["control", "tenant"])
def test_the_revisions_are_those_of_alembic(tree: str) -> None:
    """They are read without it, because only who migrates loads it."""
    directory = migrations.loaded_scripts(tree)
    assert migrations.head(tree) == directory.get_current_head()
    assert migrations.known_revisions(tree) == {script.revision for script in directory.walk_revisions()}


async def test_an_empty_database_gets_everything(postgres: EmbeddedPostgres) -> None:
    addresses = postgres.database("from_nothing")
    database = Database(url=addresses.url, admin_url=addresses.admin_url)
    await database.open()
    try:
        with pytest.raises(UnavailableError):
            await check_ready(database)
        first = await _migrate(addresses, database)
        assert (first.control_before, first.control_after, first.control_outcome) == (None, CONTROL_HEAD, "migrated")
        await check_ready(database)
        again = await _migrate(addresses, database)
        assert (again.control_before, again.control_after, again.control_outcome) == (
            CONTROL_HEAD,
            CONTROL_HEAD,
            "current",
        )
        assert (again.environments, again.totals, again.succeeded) == ((), {}, True)
    finally:
        await database.close()
        postgres.drop("from_nothing")


async def test_what_is_at_the_head_is_left_alone(
    database: EmbeddedDatabase, opened: Database, factory: Factory
) -> None:
    await _tenant(factory, "acme", "production", "test")
    report = await _migrate(database, opened)
    assert set(_outcomes(report).values()) == {(HEAD, HEAD, "current", None)}
    assert report.totals == {"current": 2}


async def test_an_unfinished_environment_is_provisioned_and_its_tenant_opened(
    database: EmbeddedDatabase, opened: Database, factory: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crash(*_: Any) -> str:
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr("payrec.storage.provisioning.Provisioner._ensure_tables", crash)
        with pytest.raises(RuntimeError):
            await _tenant(factory, "acme", "production", "test")
    report = await _migrate(database, opened)
    assert _outcomes(report) == {
        "acme_production": (None, HEAD, "provisioned", None),
        "acme_test": (None, HEAD, "provisioned", None),
    }
    states = "SELECT t.status, e.status, e.revision FROM control.tenant t JOIN control.tenant_environment e ON true"
    assert await look(database.superuser_url, states) == [("active", "active", HEAD)] * 2


@pytest.mark.usefixtures("second_revision")
async def test_environments_that_are_behind_are_migrated_as_their_owner(
    database: EmbeddedDatabase, opened: Database, factory: Factory
) -> None:
    await _tenant_behind(factory, "acme", "production", "test")
    report = await _migrate(database, opened)
    assert set(_outcomes(report).values()) == {(HEAD, NEXT, "migrated", None)}
    owners = (
        "SELECT count(*) FROM pg_tables t JOIN control.tenant_environment e"
        " ON e.schema_name = t.schemaname AND e.role_name = t.tableowner AND e.revision = '$next'"
        " WHERE t.tablename = 'second'"
    ).replace("$next", NEXT)
    assert await look(database.superuser_url, owners) == [(2,)]
    assert (await _migrate(database, opened)).totals == {"current": 2}


@pytest.mark.usefixtures("second_revision")
async def test_one_that_fails_leaves_the_others_alone_and_running_again_finishes_it(
    database: EmbeddedDatabase, opened: Database, factory: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _tenant_behind(factory, "acme", "production", "staging", "test")
    monkeypatch.setattr(migrations, "TENANT_LOCK_TRIES", 2)
    busy = await _staging(opened)
    async with opened.tenant(busy) as connection:
        await connection.execute("SELECT 1 FROM job")
        report = await _migrate(database, opened)
    assert _outcomes(report) == {
        "acme_production": (HEAD, NEXT, "migrated", None),
        "acme_staging": (HEAD, HEAD, "failed", "LockNotAvailable"),
        "acme_test": (HEAD, NEXT, "migrated", None),
    }
    assert not report.succeeded
    assert await look(database.superuser_url, "SELECT to_regclass('acme_staging.second')") == [(None,)]
    again = await _migrate(database, opened)
    assert again.totals == {"current": 2, "migrated": 1}
    assert again.succeeded


@pytest.mark.usefixtures("second_revision")
async def test_a_request_that_holds_a_table_goes_on_first_and_then_the_migration_is_tried_again(
    database: EmbeddedDatabase, opened: Database, factory: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _tenant_behind(factory, "acme", "staging")
    busy = await _staging(opened)
    upgraded, errors, loop = migrations._upgraded, list[str | None](), asyncio.get_running_loop()
    has_tried, is_gone = asyncio.Event(), threading.Event()

    def noted(*given: str) -> migrations.Step:
        step = upgraded(*given)
        errors.append(step.error)
        loop.call_soon_threadsafe(has_tried.set)
        assert is_gone.wait(30)
        return step

    monkeypatch.setattr(migrations, "_upgraded", noted)
    async with opened.tenant(busy) as connection:
        await connection.execute("SELECT 1 FROM job")
        migrating = asyncio.create_task(_migrate(database, opened))
        await has_tried.wait()
        # It holds nothing of which a request would wait for it.
        await connection.execute("INSERT INTO data_source SELECT * FROM data_source WHERE false")
    is_gone.set()
    assert (await migrating).totals == {"migrated": 1}
    assert errors == ["LockNotAvailable", None]


async def test_a_schema_ahead_of_this_image_is_left_alone(
    database: EmbeddedDatabase, opened: Database, factory: Factory
) -> None:
    await _tenant(factory, "acme", "production", "test")
    await look(database.superuser_url, "UPDATE acme_test.alembic_version SET version_num = '9999'")
    await look(database.superuser_url, "UPDATE control.alembic_version SET version_num = '9999'")
    report = await _migrate(database, opened)
    assert (report.control_before, report.control_after, report.control_outcome) == ("9999", "9999", "ahead")
    assert _outcomes(report) == {
        "acme_production": (HEAD, HEAD, "current", None),
        "acme_test": ("9999", "9999", "ahead", None),
    }


async def test_tables_that_are_gone_are_never_made_anew(
    database: EmbeddedDatabase, opened: Database, factory: Factory
) -> None:
    await _tenant(factory, "acme", "production")
    await look(database.superuser_url, "DROP SCHEMA acme_production CASCADE")
    report = await _migrate(database, opened)
    assert _outcomes(report) == {"acme_production": (None, None, "failed", "SchemaMissingError")}
    assert await look(database.superuser_url, "SELECT 1 FROM pg_namespace WHERE nspname = 'acme_production'") == []


async def test_a_schema_of_somebody_else_fails_its_environment_alone(
    database: EmbeddedDatabase, opened: Database, factory: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crash(*_: Any) -> str:
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr("payrec.storage.provisioning.Provisioner._ensure_schema", crash)
        with pytest.raises(RuntimeError):
            await _tenant(factory, "acme", "production", "test")
    await look(database.superuser_url, "CREATE SCHEMA acme_test")
    report = await _migrate(database, opened)
    assert _outcomes(report) == {
        "acme_production": (None, HEAD, "provisioned", None),
        "acme_test": (None, None, "failed", "SchemaConflictError"),
    }
    assert await look(database.superuser_url, "SELECT status FROM control.tenant") == [("provisioning",)]


async def test_an_environment_that_waits_for_the_operator_is_left_to_it(
    database: EmbeddedDatabase, opened: Database, factory: Factory
) -> None:
    await _tenant(factory, "acme", "production", "test")
    await look(database.superuser_url, "UPDATE control.tenant SET resource_namespace = 'n', resource_name = 'acme'")
    waits = "UPDATE control.tenant_environment SET revision = NULL, status = 'provisioning' WHERE environment = 'test'"
    await look(database.superuser_url, waits)
    await look(database.superuser_url, "UPDATE control.tenant SET status = 'provisioning'")
    report = await _migrate(database, opened)
    assert _outcomes(report) == {
        "acme_production": (HEAD, HEAD, "current", None),
        "acme_test": (None, None, "waiting", None),
    }
    assert report.succeeded
    assert await look(database.superuser_url, "SELECT status FROM control.tenant") == [("provisioning",)]


async def test_a_tenant_whose_schema_name_is_taken_is_not_registered(
    database: EmbeddedDatabase, factory: Factory
) -> None:
    await look(database.superuser_url, "CREATE SCHEMA acme_test")
    with pytest.raises(SchemaNotOwnedError) as refused:
        await _tenant(factory, "acme", "production", "test")
    assert (refused.value.status, refused.value.code) == (409, "slug_taken")
    assert await look(database.superuser_url, "SELECT 1 FROM control.tenant") == []


async def test_migrations_of_environments_run_in_processes_of_their_own(
    database: EmbeddedDatabase, opened: Database, factory: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _tenant(factory, "acme", "production", "test")
    # This process believes in a newer head; the processes that it starts know better and find nothing to do.
    monkeypatch.setattr(migrations, "head", lambda tree: CONTROL_HEAD if tree == "control" else NEXT)
    report = await _migrate(database, opened)
    assert set(_outcomes(report).values()) == {(HEAD, HEAD, "current", None)}


async def test_several_migrations_at_once_do_not_disturb_each_other(
    database: EmbeddedDatabase, opened: Database, factory: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crash(*_: Any) -> str:
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr("payrec.storage.provisioning.Provisioner._ensure_role", crash)
        with pytest.raises(RuntimeError):
            await _tenant(factory, "acme", "production", "test")
    reports = await asyncio.gather(*(_migrate(database, opened) for _ in range(3)))
    assert all(report.succeeded for report in reports)
    assert (await _migrate(database, opened)).totals == {"current": 2}


async def test_a_service_is_ready_at_the_head_and_ahead_of_it_and_not_behind(
    database: EmbeddedDatabase, opened: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await check_ready(opened)
    await look(database.superuser_url, "UPDATE control.alembic_version SET version_num = '9999'")
    await check_ready(opened)
    await look(database.superuser_url, "UPDATE control.alembic_version SET version_num = '0001'")
    monkeypatch.setattr(migrations, "head", lambda _tree: "0002")
    with pytest.raises(UnavailableError):
        await check_ready(opened)


async def test_a_service_is_not_ready_without_a_database(postgres: EmbeddedPostgres) -> None:
    with cloned(postgres) as made:
        database = Database(url=made.url)
        await database.open()
    try:
        with pytest.raises(UnavailableError):
            await check_ready(database)
    finally:
        await database.close()
