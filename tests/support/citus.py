"""``--citus``: the suite's databases are on a Citus cluster that somebody has made (``PAYREC_TEST_CITUS_URL``).

The address is a superuser's, of a database on the coordinator in which the extension is and the workers are
registered. The tests make databases of their own beside it, on the coordinator and on every worker, each a clone of a
template as on the embedded server.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, LiteralString

import psycopg
import pytest
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from payrec.embedded.postgres import ADMIN_ROLE, LOGIN_ROLE, EmbeddedDatabase
from payrec.storage.bootstrap import ADMIN_OPTIONS, LOGIN_OPTIONS
from support.postgres import TEMPLATE, migrate

VARIABLE: Final = "PAYREC_TEST_CITUS_URL"
HOW: Final = (
    f"{VARIABLE} is not set: the superuser's address of a Citus coordinator that has workers, on loopback and trusting"
    " (tests/citus/README.md)"
)

_PLACES: Final = """
    SELECT DISTINCT nodename, nodeport FROM pg_dist_shard_placement p JOIN pg_dist_shard s USING (shardid)
    JOIN pg_class c ON c.oid = s.logicalrelid WHERE c.relnamespace = %s::regnamespace
"""

DROP_SECONDS_MAX: Final = 30.0
JOIN_SECONDS_MAX: Final = 60.0


@dataclass(frozen=True, slots=True)
class Node:
    """A server of the cluster, and its address as a superuser."""

    host: str
    port: int
    group: int
    url: str

    def connect(self, database: str) -> psycopg.Connection[Any]:
        """Connect as a superuser."""
        return psycopg.connect(make_conninfo(self.url, dbname=database), autocommit=True)


def cluster_url() -> str:
    """Return the cluster's address, or skip."""
    url = os.environ.get(VARIABLE)
    if not url:
        pytest.skip(HOW)
    return url


def cluster_nodes(url: str) -> list[Node]:
    """Return the coordinator, and after it the workers."""
    given = conninfo_to_dict(url)
    with psycopg.connect(url, autocommit=True) as connection:
        query = "SELECT nodename, nodeport, groupid FROM pg_dist_node WHERE groupid > 0 AND noderole = 'primary'"
        rows = connection.execute(f"{query} ORDER BY groupid").fetchall()
    workers = [Node(host, port, group, make_conninfo(url, host=host, port=port)) for host, port, group in rows]
    assert workers, f"the cluster of {VARIABLE} has no workers: citus_add_node"
    host, port = str(given.get("host", "localhost")), int(given.get("port", 5432))
    return [Node(host, port, 0, url), *workers]


class CitusServer:
    """The cluster, with the interface of ``EmbeddedPostgres`` as far as the suite's fixtures need it."""

    def __init__(self, url: str) -> None:
        self.nodes = cluster_nodes(url)
        self._url = url
        with self.nodes[0].connect(self.home) as connection:
            # Each process of tests makes them unless they are there.
            connection.execute("SELECT pg_advisory_lock(hashtext(%s))", (ADMIN_ROLE,))
            for role, options in ((ADMIN_ROLE, ADMIN_OPTIONS), (LOGIN_ROLE, LOGIN_OPTIONS)):
                if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone():
                    connection.execute(sql.SQL("CREATE ROLE {} " + options).format(sql.Identifier(role)))

    @property
    def home(self) -> str:
        return str(conninfo_to_dict(self._url)["dbname"])

    def database(self, name: str, *, template: str | None = None) -> EmbeddedDatabase:
        """Make a database on all nodes, owned by the administrator, and return its addresses on the coordinator."""
        name, template = _ours(name), _ours(template) if template else None
        create = sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(name), sql.Identifier(ADMIN_ROLE))
        for node in self.nodes:
            with node.connect(self.home) as connection:
                if template is None:
                    connection.execute(create)
                    continue
                self._leave(connection, template)
                connection.execute(create + sql.SQL(" TEMPLATE {}").format(sql.Identifier(template)))
        if template is None:
            self._join(name)
        with self.nodes[0].connect(self.home) as connection:
            spread = sql.SQL("ALTER DATABASE {} SET citus.enable_schema_based_sharding = on")
            connection.execute(spread.format(sql.Identifier(name)))
        return EmbeddedDatabase(
            url=self._address(LOGIN_ROLE, name),
            admin_url=self._address(ADMIN_ROLE, name),
            superuser_url=self._address(str(conninfo_to_dict(self._url).get("user", "postgres")), name),
        )

    def close(self, name: str) -> None:
        """Let nobody connect to a database any more, so that it may be cloned: Citus keeps a process in each."""
        name = _ours(name)
        for node in self.nodes:
            with node.connect(self.home) as connection:
                connection.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(sql.Identifier(name)))
                self._leave(connection, name)

    def drop(self, name: str) -> None:
        """Drop the database on all nodes and end whatever is connected to it."""
        name = _ours(name)
        until = time.monotonic() + DROP_SECONDS_MAX
        drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        for node in self.nodes:
            with node.connect(self.home) as connection:
                # Citus's own process of the database may just have begun anew.
                once_let(partial(connection.execute, drop), refused=errors.ObjectInUse, until=until)

    def _leave(self, connection: psycopg.Connection[Any], name: str) -> None:
        connection.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", (name,))

    def _join(self, name: str) -> None:
        """Make the nodes' databases one cluster."""
        for node in self.nodes:
            with node.connect(name) as connection:
                connection.execute("CREATE EXTENSION citus")
        with self.nodes[0].connect(name) as connection:
            coordinator = self.nodes[0]
            connection.execute("SELECT citus_set_coordinator_host(%s, %s)", (coordinator.host, coordinator.port))
            for node in self.nodes[1:]:
                # It is given every role there is, which fails while somebody else gives or takes one there.
                until = time.monotonic() + JOIN_SECONDS_MAX
                add = partial(connection.execute, "SELECT citus_add_node(%s, %s)", (node.host, node.port))
                once_let(add, refused=errors.InternalError_, until=until)

    def _address(self, role: str, database: str) -> str:
        node = self.nodes[0]
        return f"postgresql://{role}@{node.host}:{node.port}/{database}"


def _ours(name: str) -> str:
    """Return the name of a database of this process: others test on the cluster meanwhile, with the same names."""
    return f"{name}_{os.getpid()}"


def nodes_of(database: EmbeddedDatabase, schema: str) -> list[tuple[str, int]]:
    """Return host and port of the nodes that have the tables of a schema."""
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        return connection.execute(_PLACES, (schema,)).fetchall()


class NodeOutages:
    """Lets a node of the cluster go down without a warning, and come back.

    The programs that do so are run by the nodes, so all of them have to be on one machine, with one system user.
    """

    def __init__(self, cluster: CitusServer, node: Node, *, helper: Node) -> None:
        self._helper, self._home = helper, cluster.home
        with node.connect(self._home) as connection:
            self._folder = _one(connection, "SELECT current_setting('data_directory')")
            self._programs = _one(connection, "SELECT setting FROM pg_config WHERE name = 'BINDIR'")
            its = _said(connection, "head -n 1 postmaster.pid")
        with helper.connect(self._home) as connection:
            if _said(connection, f"head -n 1 {self._folder}/postmaster.pid || true") != its:
                pytest.skip(f"{VARIABLE}: the nodes of the cluster are not on one machine, so none starts another")

    async def __call__(self, *, seconds: float = 0.0) -> None:
        """Be away for a time."""
        await asyncio.to_thread(self.go_down)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(self.come_back)

    def go_down(self) -> None:
        """End at once, without anything being written that is not yet."""
        self._control("-m immediate stop")

    def come_back(self) -> None:
        """Start, and replay the log."""
        self._control(f"-l {self._folder}/log start")

    def _control(self, arguments: str) -> None:
        with self._helper.connect(self._home) as connection:
            _said(connection, f"{self._programs}/pg_ctl -s -w -D {self._folder} {arguments}")


def _said(connection: psycopg.Connection[Any], command: str) -> str:
    """Have a node's shell run a command in the node's folder, and return the first line that it prints."""
    connection.execute("CREATE TEMPORARY TABLE said (line text)")
    connection.execute(sql.SQL("COPY said FROM PROGRAM {}").format(sql.Literal(command)))
    return _one(connection, "SELECT coalesce(min(line), '') FROM said")


def _one(connection: psycopg.Connection[Any], query: LiteralString) -> str:
    row = connection.execute(query).fetchone()
    assert row is not None
    return str(row[0])


def once_let(do: Callable[[], object], *, refused: type[psycopg.Error], until: float) -> None:
    """Do what is refused as long as somebody is in the way; raise the refusal when that has lasted too long."""
    while True:
        try:
            do()
        except refused:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return


@contextmanager
def server() -> Iterator[CitusServer]:
    """Return the cluster, with a migrated template database for as long as it is used."""
    cluster = CitusServer(cluster_url())
    cluster.drop(TEMPLATE)
    try:
        migrate(cluster.database(TEMPLATE))
        cluster.close(TEMPLATE)
        yield cluster
    finally:
        cluster.drop(TEMPLATE)
