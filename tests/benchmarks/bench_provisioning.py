"""Provisioning a tenant environment: how long it takes when there are few, and when there are thousands.

python tests/benchmarks/bench_provisioning.py [--environments 2000]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from pathlib import Path
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).parents[1]))

from payrec.domain.scope import TenantScope, role_name, schema_name
from payrec.embedded.postgres import LOGIN_ROLE
from payrec.storage.database import Database
from payrec.storage.provisioning import Provisioner
from support.postgres import cloned, server


async def main(arguments: argparse.Namespace) -> None:
    """Provision environments and print the medians of the first and the last twenty."""
    with server() as postgres, cloned(postgres) as made:
        database = Database(url=made.url, admin_url=made.admin_url)
        await database.open()
        provisioner = Provisioner(database, login=LOGIN_ROLE)
        seconds: list[float] = []
        for number in range(arguments.environments):
            tenant_id, slug = uuid4(), f"tenant-{number}"
            scope = TenantScope(
                tenant_id=tenant_id,
                environment_id=uuid4(),
                environment="production",
                slug=slug,
                schema_name=schema_name(slug, "production"),
                role_name=role_name(tenant_id, "production"),
            )
            began = time.perf_counter()
            await provisioner.ensure(scope)
            seconds.append(time.perf_counter() - began)
            if number + 1 in {20, 200, 1000, 2000, arguments.environments}:
                median = statistics.median(seconds[-20:]) * 1000
                print(f"at {number + 1} environments: {median:.1f} ms (median of the last 20)", flush=True)
        first = statistics.median(seconds[2:20])
        last = statistics.median(seconds[-20:])
        print(f"ratio {last / first:.2f} (goal: at most 1.5, and at most 50 ms)")
        await database.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environments", type=int, default=2_000)
    asyncio.run(main(parser.parse_args()))
