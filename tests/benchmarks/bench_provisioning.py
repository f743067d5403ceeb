"""Provisioning a tenant environment: how long it takes when there are few, and when there are thousands.

Beside it, again and again, the same tables are made by bare psycopg: one schema after the other, in one transaction
each, without a role, a lock or a look at what is there.

    python tests/benchmarks/bench_provisioning.py [--environments 2000] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg import sql

sys.path.insert(0, str(Path(__file__).parents[1]))

from payrec.bench.figures import write_taken
from payrec.domain.scope import TenantScope, role_name, schema_name
from payrec.embedded.postgres import LOGIN_ROLE
from payrec.storage.database import Database
from payrec.storage.ddl import tenant_script
from payrec.storage.provisioning import Provisioner
from support.postgres import cloned, server

SAMPLES = 20
"""Environments of which the median is told."""

BARE_EVERY = 5
"""Environments for each schema that is made beside them."""


def scope_of(number: int) -> TenantScope:
    """Return an environment of a tenant of its own."""
    tenant_id, slug = uuid4(), f"tenant-{number}"
    return TenantScope(
        tenant_id=tenant_id,
        environment_id=uuid4(),
        environment="production",
        slug=slug,
        schema_name=schema_name(slug, "production"),
        role_name=role_name(tenant_id, "production"),
    )


def make_bare(url: str, number: int) -> float:
    """Return the seconds of one schema with the same tables."""
    with psycopg.connect(url) as connection:
        began = time.perf_counter()
        schema = sql.Identifier(f"bare_{number}")
        connection.execute(sql.SQL("CREATE SCHEMA {0}; SET LOCAL search_path = {0}").format(schema))
        connection.execute(tenant_script().encode())
        connection.commit()
        return time.perf_counter() - began


async def main(arguments: argparse.Namespace) -> None:
    """Provision environments, and take the medians of the first and of the last."""
    tenant_script()
    ours: list[float] = []
    bare: list[float] = []
    with server() as postgres, cloned(postgres) as made:
        database = Database(url=made.url, admin_url=made.admin_url)
        await database.open()
        provisioner = Provisioner(database, login=LOGIN_ROLE)
        for number in range(arguments.environments):
            scope = scope_of(number)
            began = time.perf_counter()
            await provisioner.ensure(scope)
            ours.append(time.perf_counter() - began)
            if number % BARE_EVERY == 0:
                bare.append(await asyncio.to_thread(make_bare, made.superuser_url, number))
            if number + 1 in {20, 200, 1000, 2000}:
                print(f"at {number + 1}: {statistics.median(ours[-SAMPLES:]) * 1000:.1f} ms", flush=True)
        await database.close()
    # The first one fills caches, on either side.
    first, last = (statistics.median(part) * 1000 for part in (ours[1 : SAMPLES + 1], ours[-SAMPLES:]))
    beside = statistics.median(bare[-SAMPLES // BARE_EVERY :]) * 1000
    write_taken(arguments.json, {"environment": (last, beside), "growth": (last, first)})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environments", type=int, default=2_000)
    parser.add_argument("--json", type=Path)
    asyncio.run(main(parser.parse_args()))
