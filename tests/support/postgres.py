"""The PostgreSQL of the tests: one server for a test process, one cloned database for a test."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from payrec.embedded.postgres import LOGIN_ROLE, EmbeddedDatabase, EmbeddedPostgres
from payrec.storage import migrations
from support.leaks import SESSION

TEMPLATE = "payrec_template"
_numbers = itertools.count(1)


@contextmanager
def server() -> Iterator[EmbeddedPostgres]:
    """Start a server whose data nobody keeps, with a migrated template database."""
    with tempfile.TemporaryDirectory(prefix="payrec-test-") as folder:
        postgres = EmbeddedPostgres(Path(folder) / "pg", throwaway=True)
        postgres.start()
        try:
            template = postgres.database(TEMPLATE)
            migrate(template)
            yield postgres
        finally:
            postgres.stop()


def migrate(database: EmbeddedDatabase) -> None:
    """Bring a database's control schema to the head."""
    engine = migrations.admin_engine(database.admin_url)
    migrations.prepare(engine, login=LOGIN_ROLE)
    with migrations.migrating(engine) as connection:
        migrations.upgrade(connection, "control")
    migrations.grant(engine)


@contextmanager
def cloned(postgres: EmbeddedPostgres) -> Iterator[EmbeddedDatabase]:
    """Clone the template: real commits, and nobody else's data. In the end it is searched for credentials."""
    name = f"payrec_{os.getpid()}_{next(_numbers)}"
    try:
        made = postgres.database(name, template=TEMPLATE)
        yield made
        if SESSION.is_watching:
            SESSION.search_written()
            SESSION.search_database(made.superuser_url)
    finally:
        postgres.drop(name)
