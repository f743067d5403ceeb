"""What tests of jobs share: worlds without a worker, and a server to pull from."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from payrec.embedded.postgres import EmbeddedPostgres
from support.file_servers import SftpServer, sftp_server
from support.matching_world import World, matching_world
from support.postgres import cloned
from support.service import make_config, running


@pytest.fixture(scope="module")
async def made(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """Return a world without any worker: the tests are the workers."""
    secrets = tmp_path_factory.mktemp("secrets")
    with cloned(postgres) as database:
        async with running(make_config(database, source_secrets_dir=secrets), worker=False) as service:
            acme, globex = await service.tenant("acme"), await service.tenant("globex")
            async with matching_world(service, acme, globex) as world:
                yield world


@pytest.fixture
async def payable(made: World) -> AsyncIterator[World]:
    """Return the world with one item and the line that pays it; nobody else's may be decided."""
    await made.clean()
    async with made.service.factory.context.database.provisioning(search_path="jobs") as connection:
        await connection.execute("DELETE FROM procrastinate_jobs")
    await made.expect(reference="INV-2026-001")
    await made.receive(remittance="INV-2026-001")
    yield made
    assert await made.bystander_decisions() == 0


@pytest.fixture
async def world(made: World) -> World:
    """Return the world without anything in it."""
    await made.clean()
    await made.sql("DELETE FROM data_source")
    return made


@pytest.fixture
async def sftp(tmp_path: Path) -> AsyncIterator[SftpServer]:
    """Return an SFTP server whose directory is empty."""
    async with sftp_server(tmp_path) as server:
        yield server
