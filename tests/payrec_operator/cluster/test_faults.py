"""What fails around the operator: an API server that is too busy or away, a watch that is lost, a database that fails.

Each shows as a condition with what to do, nothing is lost, and all is well again by itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from payrec.embedded.postgres import ADMIN_ROLE, EmbeddedDatabase
from support.api_proxy import ApiProxy, api_proxy
from support.control_plane import ControlPlane, wait_until
from support.operator_process import Operators, Tenants, ask, key, message_of, reason_of

REFUSING_SECONDS = 5.0
REFUSED_PER_SECOND_MAX = 20.0
"""Requests in a second that an operator with two Tenants may send to an API server that refuses them all."""

RECOVERY_SECONDS = 120.0
"""How long the way back may take: waits grow while something fails."""


@pytest.fixture
def proxy(plane: ControlPlane) -> Iterator[ApiProxy]:
    with api_proxy(plane) as running:
        yield running


def test_an_api_server_that_is_too_busy_is_given_time(operators: Operators, tenants: Tenants, proxy: ApiProxy) -> None:
    with operators.started(server=proxy.url) as running:
        tenants.create("calm", apiKeys=[key()])
        tenants.wait_for("calm", "Reconciled")
        held = tenants.wait_secret("ledger-key")
        proxy.refusing = True
        tenants.create("busy", apiKeys=[key("busy")])
        tenants.api.delete(f"/api/v1/namespaces/{tenants.namespace}/secrets/ledger-key")
        begun = time.monotonic()
        wait_until(
            "refusals",
            lambda: proxy.refused >= 12 and time.monotonic() - begun > REFUSING_SECONDS,
            seconds=RECOVERY_SECONDS,
        )
        assert proxy.refused / (time.monotonic() - begun) < REFUSED_PER_SECOND_MAX
        assert running.process.poll() is None
        assert ask(held).status_code == 200
        proxy.refusing = False
        tenants.wait_for("busy", "Reconciled", seconds=RECOVERY_SECONDS)
        assert ask(tenants.wait_secret("busy-key")).status_code == 200
        again = tenants.wait_secret("ledger-key", seconds=RECOVERY_SECONDS)
        assert ask(again).status_code == ask(held).status_code == 200


def test_what_happens_while_a_watch_is_lost_is_seen_afterwards(
    operators: Operators, tenants: Tenants, proxy: ApiProxy
) -> None:
    with operators.started(server=proxy.url) as running:
        tenants.create("unwatched", apiKeys=[key(), key("other")])
        tenants.create("alone", apiKeys=[key("alone")])
        tenants.wait_for("unwatched", "Reconciled")
        tenants.wait_for("alone", "Reconciled")
        before, other = tenants.wait_secret("ledger-key"), tenants.wait_secret("other-key")
        # What is deleted meanwhile is not told of later: the watches have to begin with new lists.
        with proxy.cut():
            for name in ("ledger-key", "alone-key"):
                tenants.api.delete(f"/api/v1/namespaces/{tenants.namespace}/secrets/{name}")
            tenants.change("unwatched", displayName="Renamed")
            proxy.expire_watches(2)
        # The walk of every two seconds can be there first: it needs no watch to see what is missing.
        wait_until("new lists", lambda: proxy.ended_watches == 2, seconds=RECOVERY_SECONDS)
        after = tenants.wait_secret("ledger-key", seconds=RECOVERY_SECONDS)
        assert running.process.poll() is None
        assert ask(after).status_code == ask(before).status_code == 200
        assert ask(tenants.wait_secret("alone-key", seconds=RECOVERY_SECONDS)).status_code == 200
        assert tenants.secret("other-key") == other
        tenants.wait_for("unwatched", "Reconciled", seconds=RECOVERY_SECONDS)


def test_what_could_not_be_written_is_written_later(operators: Operators, tenants: Tenants, proxy: ApiProxy) -> None:
    with operators.started(server=proxy.url) as running:
        tenants.create("steady", apiKeys=[key()])
        tenants.create("leaving", apiKeys=[key("leaving")])
        tenants.wait_for("steady", "Reconciled")
        tenants.wait_for("leaving", "Reconciled")
        before, left = tenants.wait_secret("ledger-key"), tenants.wait_secret("leaving-key")
        proxy.conflicting = True
        tenants.delete("leaving")
        tenants.api.delete(f"/api/v1/namespaces/{tenants.namespace}/secrets/ledger-key")
        after = tenants.wait_secret("ledger-key", other_than=before["api-key"], seconds=RECOVERY_SECONDS)
        operators.wait_round(running)
        proxy.conflicting = False

        def is_told() -> bool:
            [entry] = (tenants.get("steady") or {})["status"]["apiKeys"]
            return bool(entry["currentKeyId"] == after["api-key-id"])

        wait_until("a status that tells of the key", is_told, seconds=RECOVERY_SECONDS)
        tenants.wait_gone("leaving", seconds=RECOVERY_SECONDS)
        operators.wait_round(running)
        assert ask(after).status_code == 200
        assert ask(left).status_code in {401, 403}


@contextmanager
def damaged(database: EmbeddedDatabase, damage: str, repair: str) -> Iterator[None]:
    """Damage the database, so that its connections begin anew, and repair it in the end."""
    with psycopg.connect(database.superuser_url) as connection:
        name = connection.info.dbname
    url = database.superuser_url.replace(f"/{name}", "/postgres", 1)
    with psycopg.connect(url, autocommit=True) as connection:
        names = {"name": name, "admin": ADMIN_ROLE}
        ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"
        connection.execute(damage.format(**names).encode())
        connection.execute(ends, (name,))
        try:
            yield
        finally:
            connection.execute(repair.format(**names).encode())
            connection.execute(ends, (name,))


DAMAGES = {
    "down": (
        "ALTER DATABASE {name} ALLOW_CONNECTIONS false",
        "ALTER DATABASE {name} ALLOW_CONNECTIONS true",
        ("Ready", "DatabaseUnavailable", "no database connection is available"),
    ),
    "full": (
        "ALTER DATABASE {name} CONNECTION LIMIT 0",
        "ALTER DATABASE {name} CONNECTION LIMIT -1",
        ("Ready", "DatabaseUnavailable", "no database connection is available"),
    ),
    "read-only": (
        "ALTER DATABASE {name} SET default_transaction_read_only = on",
        "ALTER DATABASE {name} RESET default_transaction_read_only",
        ("SchemasReady", "DatabaseUnavailable", "the database is read-only"),
    ),
    "denied": (
        "REVOKE CREATE ON DATABASE {name} FROM {admin}",
        "GRANT CREATE ON DATABASE {name} TO {admin}",
        ("SchemasReady", "PermissionDenied", "CREATE on the database"),
    ),
}


@pytest.mark.parametrize("fault", list(DAMAGES))
def test_a_database_that_fails_is_told_and_waited_for(
    operators: Operators, tenants: Tenants, module_database: EmbeddedDatabase, fault: str
) -> None:
    damage, repair, (kind, reason, sentence) = DAMAGES[fault]
    with operators.started() as running:
        tenants.create(f"there-{fault}", apiKeys=[key()])
        tenants.wait_for(f"there-{fault}", "Reconciled")
        held = tenants.wait_secret("ledger-key")
        with damaged(module_database, damage, repair):
            tenants.create(f"new-{fault}", apiKeys=[key("new")])
            found = tenants.wait_for(f"new-{fault}", reason, kind, seconds=RECOVERY_SECONDS)
            assert sentence in message_of(found, kind)
            assert reason_of(found) in {"DatabaseUnavailable", "SchemasNotReady"}
            assert tenants.secret("new-key") is None, "there is no key before there is what it opens"
            assert running.process.poll() is None
        tenants.wait_for(f"new-{fault}", "Reconciled", seconds=RECOVERY_SECONDS)
        tenants.wait_for(f"there-{fault}", "Reconciled", seconds=RECOVERY_SECONDS)
        assert tenants.secret("ledger-key") == held, "nothing was rotated for it"
        for name in ("ledger-key", "new-key"):
            assert ask(tenants.wait_secret(name)).status_code == 200
