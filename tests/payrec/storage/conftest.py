"""A database of a module's own, with two tenant environments: what storage needs, and no more."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from payrec.embedded.postgres import LOGIN_ROLE, EmbeddedDatabase, EmbeddedPostgres
from payrec.storage.database import Database
from payrec.storage.provisioning import Provisioner
from support.places import Places, new_scope
from support.postgres import cloned


@pytest.fixture(scope="module")
def addresses(postgres: EmbeddedPostgres) -> Iterator[EmbeddedDatabase]:
    """Return a migrated database for the module."""
    with cloned(postgres) as made:
        yield made


@pytest.fixture(scope="module")
async def opened(addresses: EmbeddedDatabase) -> AsyncIterator[Database]:
    """Return the doors of the module's database, with two connections in the pool."""
    database = Database(url=addresses.url, admin_url=addresses.admin_url, pool_size_max=2)
    await database.open()
    yield database
    await database.close()


@pytest.fixture(scope="module")
def provisioner(opened: Database) -> Provisioner:
    """Return what makes schemas."""
    return Provisioner(opened, login=LOGIN_ROLE)


@pytest.fixture(scope="module")
async def places(provisioner: Provisioner) -> Places:
    """Return two environments with their tables."""
    found = Places(a=new_scope("aye"), b=new_scope("bee"))
    await provisioner.ensure(found.a)
    await provisioner.ensure(found.b)
    return found
