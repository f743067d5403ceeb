"""A database that says nothing any more, because the network swallows what is said, is waited for so long alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from payrec.embedded.postgres import EmbeddedDatabase
from payrec.errors import UnavailableError
from payrec.jobs.app import create_app
from payrec.storage import bootstrap, migrations
from payrec.storage.addresses import BOUNDS, CONNECT_SECONDS, POOL_TIMEOUT_SECONDS, SILENCE_SECONDS_MAX, bounded
from payrec.storage.database import Database
from payrec.storage.obstacles import obstacle
from support.charts import ROOT

pytestmark = pytest.mark.anyio

WAYS = {"an answer", "a commit", "a transaction", "news"}


async def of_the_service(database: EmbeddedDatabase) -> list[psycopg.BaseConnection[Any]]:
    opened = Database(url=database.url, admin_url=database.admin_url)
    await opened.open()
    async with opened.control() as login, opened.provisioning() as admin:
        found = [login, admin]
    await opened.close()
    return list(found)


async def of_the_queue(database: EmbeddedDatabase) -> list[psycopg.BaseConnection[Any]]:
    async with create_app(url=database.url).open_async() as app:
        connector: Any = app.connector
        async with connector.pool.connection() as pooled, connector._get_standalone_connection() as listening:
            return [pooled, listening]


async def of_migrations(database: EmbeddedDatabase) -> list[psycopg.BaseConnection[Any]]:
    with migrations.admin_engine(database.admin_url).connect() as connection:
        driver: Any = connection.connection.driver_connection
        return [driver]


@pytest.mark.parametrize("made", [of_the_service, of_the_queue, of_migrations])
async def test_every_connection_is_bounded(
    database: EmbeddedDatabase,
    made: Callable[[EmbeddedDatabase], Awaitable[list[psycopg.BaseConnection[Any]]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[dict[str, str]] = []
    real = psycopg.BaseConnection.__init__

    def noted(self: psycopg.BaseConnection[Any], *arguments: Any, **options: Any) -> None:
        real(self, *arguments, **options)
        seen.append(self.info.get_parameters())

    monkeypatch.setattr(psycopg.BaseConnection, "__init__", noted)
    assert await made(database)
    assert seen
    # Who looks first whether a connection can be made waits less for it.
    looking = BOUNDS | {"connect_timeout": str(CONNECT_SECONDS)}
    for parameters in seen:
        assert {name: parameters.get(name) for name in BOUNDS} in (BOUNDS, looking)


async def test_who_looks_for_an_obstacle_or_bootstraps_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def refused(conninfo: str, **_options: object) -> Any:
        asked.append(conninfo)
        raise psycopg.OperationalError("not now")

    monkeypatch.setattr(psycopg.AsyncConnection, "connect", refused)
    monkeypatch.setattr(psycopg, "connect", refused)
    url = "postgresql://one@db.example.com/payrec"
    await obstacle(url)
    with pytest.raises(UnavailableError):
        bootstrap.bootstrap(url=url, admin_url="postgresql://two@db/payrec", login_url="postgresql://three@db/payrec")
    assert [conninfo_to_dict(said) for said in asked] == [conninfo_to_dict(bounded(url))] * 2


def test_what_an_address_says_itself_holds() -> None:
    url = "postgresql://me:p%C3%A4ss@a.example.com,b.example.com:6432/payrec?tcp_user_timeout=5000&sslmode=verify-full"
    said = conninfo_to_dict(bounded(url))
    assert said == {**BOUNDS, **conninfo_to_dict(url)}
    assert said["tcp_user_timeout"] == "5000"
    engine = migrations.admin_engine(url)
    _, options = engine.dialect.create_connect_args(engine.url)
    assert (options["tcp_user_timeout"], options["keepalives_idle"]) == ("5000", BOUNDS["keepalives_idle"])


def test_the_bounds_end_before_a_proxy_does() -> None:
    questions = int(BOUNDS["keepalives_interval"]) * int(BOUNDS["keepalives_count"])
    assert int(BOUNDS["keepalives_idle"]) + questions == SILENCE_SECONDS_MAX
    assert SILENCE_SECONDS_MAX + POOL_TIMEOUT_SECONDS < 60


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("unshare") is None,
    reason="no network that can be silenced: run as root, with apt-get install iproute2",
)
@pytest.mark.not_on_citus("the cluster is on the loopback of this machine, which a network of its own does not have")
def test_nobody_waits_longer_for_a_network_that_swallows_everything(database: EmbeddedDatabase) -> None:
    story = subprocess.run(  # noqa: S603 - our own
        ["unshare", "--net", "--kill-child", sys.executable, "-m", "support.silent_database", database.url],  # noqa: S607
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")}, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert story.returncode == 0, story.stderr
    waited = json.loads(story.stdout)
    assert waited.keys() == WAYS, story.stderr
    assert max(waited.values()) < 30, waited
