"""``--pooled``: services and workers reach the session's server through PgBouncer in transaction mode.

What asks the database itself (administrators, LISTEN, and tests that look into tables) goes on doing so directly, as in
an installation with a pooler.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

import pytest

from payrec.embedded.postgres import LOGIN_ROLE, EmbeddedDatabase, EmbeddedPostgres
from support import pgbouncer


class Pooled:
    """The pooler of a session, where there is one."""

    def __init__(self) -> None:
        self._address: str | None = None
        self._socket: str | None = None

    @contextmanager
    def before(self, postgres: EmbeddedPostgres) -> Iterator[None]:
        """Run PgBouncer before a server, for all its databases."""
        if pgbouncer.program() is None:
            pytest.fail("--pooled: no PgBouncer: apt-get install pgbouncer")
        with pgbouncer.pgbouncer(postgres._socket, role=LOGIN_ROLE, database="postgres") as url:
            self._address, self._socket = url.rpartition("/")[0], str(postgres._socket)
            try:
                yield
            finally:
                self._address = self._socket = None

    def settings(self, database: EmbeddedDatabase) -> dict[str, str]:
        """Return the settings of a service on a database: those of the pooler, unless it is of another server."""
        address = urlsplit(database.url)
        if self._address is None or parse_qs(address.query).get("host") != [self._socket]:
            return {"database_url": database.url}
        return {
            "database_url": self._address + address.path,
            "jobs_database_url": database.url,
            "database_pooler": "transaction",
        }


SESSION = Pooled()
