"""``payrec migrate`` over the environments of an installation that goes on serving: how long it takes, and what fails.

The environments are set back by the newest revisions of the tenant tree, indexes and columns. The columns stay, so
that the service, which is of this version, can serve both: to add them takes no more than their tables for a moment, as
it does where they are not there. Meanwhile clients write and read in all of them, and match by hand, which writes to
the very tables that get indexes. Before it they do so for ten seconds without a migration.

    python tests/benchmarks/bench_migrations.py [--environments 2000] [--clients 4]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, Final, get_args

import httpx2
import psycopg
from psycopg import sql

sys.path.insert(0, str(Path(__file__).parents[1]))

from payrec.config import Config
from payrec.domain.principal import Environment
from payrec.logs import configure_logging
from payrec.storage.migrations import head
from support.postgres import cloned, server
from support.service import Service, Tenant, make_config, running
from support.variables import variables

ENVIRONMENTS: Final = get_args(Environment)
"""Those of each tenant."""

BACK_TO, NEWEST = "0039", "0052"
"""The revision that the environments are set back to, and the one that this program knows to take back."""

UNDISTURBED_SECONDS = 10.0
"""For how long the clients are measured without a migration."""

MONEY = {"amount": "100.00", "currency": "EUR"}


@dataclass(slots=True)
class Asked:
    """What became of the requests of a time: seconds of each, and those that failed."""

    took: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def p99(self) -> float:
        """Return the 99th percentile in milliseconds."""
        return statistics.quantiles(self.took, n=100)[98] * 1000


@dataclass(slots=True)
class Clients:
    """Clients that go round the environments until they are told to end."""

    tenants: list[Tenant]
    asked: Asked = field(default_factory=Asked)

    async def work(self) -> None:
        """Visit one environment after another, for ever."""
        for environment in cycle(ENVIRONMENTS):
            for tenant in self.tenants:
                await self.visit(tenant, environment)

    async def visit(self, tenant: Tenant, environment: str) -> None:
        """Expect an item, receive a line, match them by hand, and look at the match."""
        item = await self._post(tenant, environment, "/expected-transactions", {**MONEY, "direction": "credit"})
        line = {**MONEY, "direction": "credit", "bookingDate": "2026-03-01"}
        received = await self._post(tenant, environment, "/incoming-transactions", line)
        if item is None or received is None:
            return
        legs = [{"expectedTransactionId": item, "incomingTransactionId": received, "amountMinor": 10_000}]
        match = await self._post(tenant, environment, "/matches", {"legs": legs, "reason": "by hand"})
        if match is not None:
            await self._ask(tenant, environment, "GET", f"/matches/{match}")

    async def _post(self, tenant: Tenant, environment: str, path: str, body: object) -> str | None:
        answer = await self._ask(tenant, environment, "POST", path, json=body)
        return None if answer is None else str(answer.json()["id"])

    async def _ask(
        self, tenant: Tenant, environment: str, method: str, path: str, **options: Any
    ) -> httpx2.Response | None:
        asked = self.asked
        began = time.perf_counter()
        answer = await tenant.request(method, path, environment, **options)
        asked.took.append(time.perf_counter() - began)
        if answer.is_success:
            return answer
        asked.failed.append(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
        return None


async def make_clients(service: Service, environments: int) -> Clients:
    """Make so many environments, four of a tenant, each with a match, whose tables have their partitions then."""
    clients = Clients([])
    for number in range(environments // len(ENVIRONMENTS)):
        tenant = await service.tenant(f"tenant-{number}")
        for environment in ENVIRONMENTS:
            await clients.visit(tenant, environment)
        clients.tenants.append(tenant)
        if (number + 1) % 50 == 0:
            print(f"{(number + 1) * len(ENVIRONMENTS)} environments", flush=True)
    assert not clients.asked.failed, clients.asked.failed
    clients.asked = Asked()
    return clients


def set_back(url: str) -> None:
    """Take the newest revisions back, everywhere."""
    assert head("tenant") == NEWEST, "the newest revision is another one: say here how it is taken back"
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute("SELECT schema_name FROM control.tenant_environment").fetchall()
        for (schema,) in rows:
            with connection.transaction():
                connection.execute(sql.SQL("SET LOCAL search_path = {}").format(sql.Identifier(schema)))
                indexes = connection.execute(
                    "SELECT indexname FROM pg_indexes WHERE schemaname = %s AND indexname LIKE %s",
                    (schema, r"match\_by\_stake\_%"),
                ).fetchall()
                assert indexes, schema
                for (index,) in indexes:
                    connection.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(index)))
                connection.execute("DROP INDEX expected_transaction_by_key")
                connection.execute("UPDATE alembic_version SET version_num = %s", (BACK_TO,))
        connection.execute("UPDATE control.tenant_environment SET revision = %s", (BACK_TO,))


async def migrate(config: Config) -> str:
    """Run ``payrec migrate`` in a process of its own, and return its last line."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "payrec.cli", "migrate", env=variables(config), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    return said.decode().strip().splitlines()[-1]


async def main(arguments: argparse.Namespace) -> int:
    """Migrate beside clients, and print what it took; return 1 if a request failed."""
    configure_logging(level="warning", form="json")
    with server() as postgres, cloned(postgres) as made:
        config = make_config(made)
        async with running(config, worker=False) as service:
            clients = await make_clients(service, arguments.environments)
            await asyncio.to_thread(set_back, made.superuser_url)
            working = [asyncio.create_task(clients.work()) for _ in range(arguments.clients)]
            try:
                await asyncio.sleep(UNDISTURBED_SECONDS)
                before, clients.asked = clients.asked, Asked()
                began = time.perf_counter()
                said = await migrate(config)
                seconds = time.perf_counter() - began
                during, clients.asked = clients.asked, Asked()
            finally:
                for task in working:
                    task.cancel()
                ended = await asyncio.gather(*working, return_exceptions=True)
    for failure in ended:
        if not isinstance(failure, asyncio.CancelledError) and isinstance(failure, BaseException):
            raise failure
    count = len(clients.tenants) * len(ENVIRONMENTS)
    print(said)
    print(f"{count} environments in {seconds:.1f} s, {seconds / count * 1000:.1f} ms each")
    print(f"before: {len(before.took)} requests, {len(before.failed)} failed, p99 {before.p99():.0f} ms")
    print(f"during: {len(during.took)} requests, {len(during.failed)} failed, p99 {during.p99():.0f} ms")
    failed = [*before.failed[:5], *during.failed[:5]]
    print(*failed, sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environments", type=int, default=2_000)
    parser.add_argument("--clients", type=int, default=4)
    given = parser.parse_args()
    if given.environments < len(ENVIRONMENTS):
        parser.error(f"--environments is at least {len(ENVIRONMENTS)}, which one tenant has")
    sys.exit(asyncio.run(main(given)))
