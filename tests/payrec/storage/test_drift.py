"""The tables are defined once: the generated script, Alembic's way from nothing, and the metadata are the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from psycopg import sql
from sqlalchemy import Connection, Engine

from payrec.embedded.postgres import EmbeddedDatabase, EmbeddedPostgres
from payrec.storage import migrations
from payrec.storage.ddl import control_script, statements_of, tenant_script, tenant_statements
from payrec.tables.base import CONTROL_METADATA, TENANT_METADATA
from support.catalog import describe
from support.places import Places

pytestmark = pytest.mark.anyio

NAME = "drift"

FROM_NOTHING = pytest.mark.not_on_citus("no environment there is older than what its first migrations do there")


@pytest.fixture
def empty(postgres: EmbeddedPostgres) -> Iterator[EmbeddedDatabase]:
    """Return a database in which nothing has been made."""
    yield postgres.database(NAME)
    postgres.drop(NAME)


@contextmanager
def _schema(url: str, name: str) -> Iterator[Connection]:
    """Make a schema, and open a migration's transaction in it."""
    engine: Engine = migrations.admin_engine(url)
    with psycopg.connect(url) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
    with migrations.migrating(engine, schema=name) as opened:
        yield opened


def _without_version(description: dict[str, list[str]]) -> dict[str, list[str]]:
    """Leave Alembic's own table out."""
    return {part: [text for text in found if "alembic_version" not in text] for part, found in description.items()}


@FROM_NOTHING
def test_the_script_makes_what_alembic_makes_from_nothing_for_a_tenant(empty: EmbeddedDatabase) -> None:
    with _schema(empty.admin_url, "by_script") as connection:
        migrations.run_script(connection, tenant_script())
    with _schema(empty.admin_url, "by_alembic") as connection:
        migrations.upgrade(connection, "tenant")
    by_script = describe(empty.superuser_url, "by_script")
    by_alembic = _without_version(describe(empty.superuser_url, "by_alembic"))
    assert len(by_script["columns"]) > 100
    assert len(by_script["indexes"]) > 20
    assert any("PARTITION" in text or "RANGE" in text for text in by_script["relations"])
    for part, found in by_script.items():
        assert found == by_alembic[part], part


def test_the_script_makes_what_alembic_makes_from_nothing_for_control(
    empty: EmbeddedDatabase, addresses: EmbeddedDatabase
) -> None:
    with _schema(empty.admin_url, "control") as connection:
        migrations.run_script(connection, control_script())
    by_script = describe(empty.superuser_url, "control")
    by_alembic = _without_version(describe(addresses.superuser_url, "control"))
    assert len(by_script["columns"]) > 40
    for part, found in by_script.items():
        assert found == by_alembic[part], part


@FROM_NOTHING
async def test_the_provisioner_s_table_of_revisions_is_alembic_s(
    empty: EmbeddedDatabase, addresses: EmbeddedDatabase, places: Places
) -> None:
    with _schema(empty.admin_url, "by_alembic") as connection:
        migrations.upgrade(connection, "tenant")
    ours = describe(addresses.superuser_url, places.a.schema_name)
    theirs = describe(empty.superuser_url, "by_alembic")
    assert ours == theirs


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE job ALTER COLUMN done DROP DEFAULT",
        "ALTER TABLE job ALTER COLUMN request_id DROP NOT NULL",
        "ALTER TABLE job ALTER COLUMN attempts TYPE bigint",
        "ALTER TABLE allocation DROP CONSTRAINT allocation_within_amount",
        """ALTER TABLE allocation DROP CONSTRAINT allocation_within_amount;
        ALTER TABLE allocation ADD CONSTRAINT allocation_within_amount CHECK (allocated_minor >= 0)""",
        "DROP INDEX job_match_run_unique",
        "DROP INDEX job_match_run_unique; CREATE UNIQUE INDEX job_match_run_unique ON job (kind)",
        "DROP INDEX job_waiting",
        "CREATE TABLE more (id int)",
    ],
)
def test_every_difference_is_seen(empty: EmbeddedDatabase, change: str) -> None:
    for name, extra in (("one", ""), ("other", change)):
        with _schema(empty.admin_url, name) as connection:
            migrations.run_script(connection, tenant_script() + extra)
    assert describe(empty.superuser_url, "one") != describe(empty.superuser_url, "other")


def _compare(connection: Connection, metadata: Any, **options: Any) -> list[Any]:
    made_by_hand = ("alembic_version",)

    def include(_object: Any, name: str | None, kind: str, reflected: bool, _to: Any) -> bool:  # noqa: FBT001 - Alembic's
        return not (kind == "table" and reflected and name in made_by_hand)

    context = MigrationContext.configure(
        connection,
        opts={"compare_type": True, "compare_server_default": True, "include_object": include, **options},
    )
    return list(compare_metadata(context, metadata))


@FROM_NOTHING
def test_alembic_finds_nothing_to_generate_for_a_tenant(empty: EmbeddedDatabase) -> None:
    with _schema(empty.admin_url, "by_alembic") as connection:
        migrations.upgrade(connection, "tenant")
        assert _compare(connection, TENANT_METADATA) == []
        migrations.run_script(connection, "DROP INDEX job_by_status; ALTER TABLE job ADD COLUMN more text")
        assert {difference[0] for difference in _compare(connection, TENANT_METADATA)} == {"add_index", "remove_column"}


def test_alembic_finds_nothing_to_generate_for_control(addresses: EmbeddedDatabase) -> None:
    def only_control(name: str | None, kind: str, _parents: Any) -> bool:
        return kind != "schema" or name == "control"

    with migrations.migrating(migrations.admin_engine(addresses.admin_url)) as connection:
        found = _compare(connection, CONTROL_METADATA, include_schemas=True, include_name=only_control)
    assert found == []


def test_a_script_is_taken_apart_at_the_semicolons_that_end_its_statements() -> None:
    body = "DO $$ BEGIN; it's; END $$"
    function = "CREATE FUNCTION f() RETURNS text AS $f$ SELECT '$$;' ; $f$ LANGUAGE sql"
    comment = "-- nobody's; this\nSELECT 1 /* a; b */"
    parts = (body, function, comment, "SELECT 'a;''b;'", 'SELECT ";"')
    assert statements_of(";\n".join(parts) + " ;\n;") == parts
    assert statements_of(tenant_script()) == tenant_statements()
