"""What is answered where the tables of an environment are not this image's: an upgrade's first minutes."""

from __future__ import annotations

import psycopg
import pytest

from payrec.errors import UnavailableError
from payrec.storage.database import Database
from payrec.storage.migrations import head
from support.places import Places

pytestmark = pytest.mark.anyio

BEFORE = f"{int(head('tenant')) - 1:04}"
"""The revision before the newest."""


async def _set_revision(opened: Database, places: Places, revision: str) -> None:
    async with opened.tenant(places.a) as connection:
        await connection.execute("UPDATE alembic_version SET version_num = %s", (revision,))


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT not_yet FROM job",
        "SELECT 1 FROM not_yet",
        "SELECT not_yet(1)",
        "INSERT INTO alembic_version (version_num) VALUES (NULL)",
    ],
)
async def test_what_needs_newer_tables_is_told_to_come_again(opened: Database, places: Places, statement: str) -> None:
    await _set_revision(opened, places, BEFORE)
    with pytest.raises(UnavailableError, match="not been migrated to this version yet") as refused:
        async with opened.tenant(places.a) as connection:
            await connection.execute(statement.encode())
    assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "5"})
    # With tables of its own, or those of a newer image, it is a defect, and told as one.
    for revision in ("9999", head("tenant")):
        await _set_revision(opened, places, revision)
        with pytest.raises((psycopg.ProgrammingError, psycopg.IntegrityError)):
            async with opened.tenant(places.a) as connection:
                await connection.execute(statement.encode())


async def test_a_statement_prepared_before_a_migration_is_told_to_come_again_and_goes(
    opened: Database, places: Places
) -> None:
    async def refusal() -> str | None:
        try:
            async with opened.tenant(places.a) as connection:
                await connection.execute("SELECT * FROM job", prepare=True)
        except UnavailableError as error:
            return error.detail
        return None

    async with opened.tenant(places.a) as one, opened.tenant(places.a) as other:
        await one.execute("SELECT * FROM job", prepare=True)
        await other.execute("SELECT * FROM job", prepare=True)
    async with opened.tenant(places.a) as connection:
        await connection.execute("ALTER TABLE job ADD COLUMN another TEXT")
    # Once for each of the two connections at most: it is not used again.
    told = [await refusal() for _ in range(20)]
    assert set(told) == {"the environment has just been migrated", None}
    assert told.count(None) >= 18
