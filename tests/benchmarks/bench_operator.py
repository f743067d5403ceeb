"""The operator on a real API server: how soon a Tenant is ready, and what many Tenants at rest cost.

KUBEBUILDER_ASSETS=… python tests/benchmarks/bench_operator.py [--tenants 1000] [--seconds 60] [--period 300]

The timer's period is shortened as the Tenants are fewer than a thousand, so that as many passes are made in a second.
Where other programs are busy beside it, the seconds of CPU say more than the clock's.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import psutil
import psycopg

from payrec.bench.figures import write_taken
from payrec.embedded.postgres import EmbeddedDatabase
from support.charts import tenant_definition
from support.commands import Running
from support.control_plane import Api, ControlPlane, control_plane, wait_until
from support.operator_process import Operators, Tenants, install, key
from support.postgres import cloned, server

LOOK_SECONDS = 2.0
"""Between two looks at all Tenants, which cost the API server something too."""

IDLE_SECONDS = 20.0
"""After which a process that has just been started is at rest."""

ENVIRONMENTS = [{"name": name} for name in ("development", "staging", "production", "test")]
_REQUESTS = re.compile(r'apiserver_request_total\{.*resource="(?:tenants|secrets|events)".*verb="([A-Z]+)".*\} (\S+)')
PAIR = [{"name": "production"}, {"name": "test"}]
"""What each of many Tenants has."""

_RESUMED = re.compile(r'payrec_operator_reconcile_total\{result="(?!skipped)[a-z]+",trigger="change"\} (\S+)')


def requests(api: Api) -> dict[str, float]:
    """Count the requests for what the operator asks for, by verb; watches are connections that stay."""
    counts: dict[str, float] = {}
    for verb, value in _REQUESTS.findall(api.request("GET", "/metrics", accept="text/plain")):
        if verb not in {"WATCH", "CONNECT"}:
            counts[verb] = counts.get(verb, 0.0) + float(value)
    return counts


class Spent:
    """Seconds of CPU that the operator, the API server with etcd, and PostgreSQL have used since this was made."""

    def __init__(self, running: Running, plane: ControlPlane, database: EmbeddedDatabase) -> None:
        servers = [process.pid for process in plane.processes.values()]
        self._roots = {"operator": [running.process.pid], "API server": servers, "PostgreSQL": [_postmaster(database)]}
        self._before = self._now()

    def __str__(self) -> str:
        now = self._now()
        return "CPU seconds: " + ", ".join(f"{name} {now[name] - self._before[name]:.1f}" for name in now)

    def _now(self) -> dict[str, float]:
        return {name: sum(_seconds(pid) for pid in pids) for name, pids in self._roots.items()}


def _seconds(pid: int) -> float:
    """Return what a process and its children have used, those that have ended included."""
    process, total = psutil.Process(pid), 0.0
    own = process.cpu_times()
    total += own.user + own.system + own.children_user + own.children_system
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = child.cpu_times()
            total += times.user + times.system
    return total


def _postmaster(database: EmbeddedDatabase) -> int:
    with psycopg.connect(database.superuser_url) as connection:
        parent = psutil.Process(connection.info.backend_pid).parent()
    assert parent is not None, "a backend is a child of the server"
    return parent.pid


def memory(running: Running) -> float:
    """Return the MiB that the operator's process has in memory; print how much of that is no file's."""
    found = psutil.Process(running.process.pid).memory_full_info()
    print(f"RSS {found.rss / 2**20:.0f} MiB, of which its own {found.uss / 2**20:.0f}")
    return float(found.rss / 2**20)


def versions(tenants: Tenants) -> dict[str, str]:
    """Return the resource versions of all Tenants and Secrets."""
    secrets = f"/api/v1/namespaces/{tenants.namespace}/secrets"
    found = [item["metadata"] for path in (tenants.path, secrets) for item in tenants.api.request("GET", path)["items"]]
    return {metadata["uid"]: metadata["resourceVersion"] for metadata in found}


def ready(tenants: Tenants) -> int:
    """Count the Tenants that are ready."""
    items = tenants.api.request("GET", tenants.path)["items"]
    conditions = [c for item in items for c in item.get("status", {}).get("conditions", ())]
    return sum(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def one_by_one(tenants: Tenants) -> dict[str, float]:
    """Measure from the creation of one Tenant to Ready, and from the end of a Secret to the next."""
    created, back = [], []
    for number in range(5):
        name = f"single-{number}"
        began = time.perf_counter()
        tenants.create(name, environments=ENVIRONMENTS, apiKeys=[key(f"{name}-a"), key(f"{name}-b")])
        tenants.wait_for(name, "Reconciled")
        created.append(time.perf_counter() - began)
        before = tenants.wait_secret(f"{name}-a-key")["api-key"]
        began = time.perf_counter()
        tenants.api.delete(f"/api/v1/namespaces/{tenants.namespace}/secrets/{name}-a-key")
        tenants.wait_secret(f"{name}-a-key", other_than=before)
        back.append(time.perf_counter() - began)
    print(f"4 environments, 2 keys: ready after {statistics.median(created):.2f} s (worst {max(created):.2f}; goal 3)")
    print(f"a Secret that is deleted: back after {statistics.median(back):.2f} s (worst {max(back):.2f}; goal 3)")
    return {"ready": statistics.median(created), "secret": statistics.median(back)}


def many(tenants: Tenants, count: int) -> dict[str, float]:
    """Measure how many seconds as many Tenants take that are created at once."""
    there, before = ready(tenants), requests(tenants.api)
    began = time.perf_counter()
    for number in range(count):
        keys = [key(f"t-{number}-a"), key(f"t-{number}-b", environment="test")]
        tenants.create(f"t-{number}", environments=PAIR, apiKeys=keys)
    print(f"{count} Tenants created after {time.perf_counter() - began:.0f} s")

    def is_done() -> bool:
        time.sleep(LOOK_SECONDS)
        return ready(tenants) == there + count

    wait_until("all of them", is_done, seconds=3600)
    seconds = time.perf_counter() - began
    rate, made = count / seconds, requests(tenants.api)
    # All but ours: we made a Tenant each, and listed them all while we waited.
    asked = sum(made[verb] - before.get(verb, 0.0) for verb in made if verb != "LIST") / count - 1
    print(f"{count} Tenants of 2 environments and 2 keys created at once: ready after {seconds:.0f} s ({rate:.1f}/s)")
    print(f"requests to the API server for each of them: {asked:.1f}")
    return {"many": seconds, "requests": asked}


def at_rest(api: Api, running: Running, seconds: float) -> dict[str, float]:
    """Measure what the Tenants cost when nothing happens."""
    process = psutil.Process(running.process.pid)
    before, cpu, began = requests(api), process.cpu_times(), time.perf_counter()
    time.sleep(seconds)
    after, now, elapsed = requests(api), process.cpu_times(), time.perf_counter() - began
    made = {verb: after[verb] - before.get(verb, 0.0) for verb in after}
    share = (now.user + now.system - cpu.user - cpu.system) / elapsed
    told = ", ".join(f"{verb} {count:.0f}" for verb, count in sorted(made.items()) if count) or "none"
    rate, patches = sum(made.values()) / elapsed, made.get("PATCH", 0.0)
    print(f"at rest: {rate:.2f} requests/s (goal 1): {told}; of these PATCH {patches:.0f} (goal 0)")
    print(f"at rest: CPU {share * 100:.1f} % of a core (goal 5)")
    return {"idle_requests": rate, "idle_patches": patches, "idle_cpu": share * 100, "memory": memory(running)}


def resumed(operators: Operators, running: Running) -> float:
    """Count the passes that were made because a Tenant was there."""
    return sum(float(value) for value in _RESUMED.findall(operators.metrics(running)))


def main(arguments: argparse.Namespace) -> None:
    """Run all of it and print the figures."""
    period = max(1, arguments.period * arguments.tenants // 1000)
    with control_plane() as plane, server() as postgres, cloned(postgres) as database:
        plane.api.define(tenant_definition())
        install(plane)
        with tempfile.TemporaryDirectory() as folder:
            options: dict[str, Any] = {"plane": plane, "database": database, "folder": Path(folder)}
            operators = Operators(base_url="http://payrec.test", resync=f"{period}s", **options)
            tenants = Tenants(plane.api, "default")
            with operators.started() as running:
                time.sleep(IDLE_SECONDS)
                taken = {"memory_alone": memory(running)}
                taken |= one_by_one(tenants)
                spent = Spent(running, plane, database)
                taken |= many(tenants, arguments.tenants)
                print(spent)
                time.sleep(period)  # everything has been looked at once more
                taken |= at_rest(plane.api, running, arguments.seconds)
            before = versions(tenants)
            began = time.perf_counter()
            with operators.started() as running:
                spent = Spent(running, plane, database)
                count = ready(tenants)
                wait_until("all of them", lambda: resumed(operators, running) >= count, seconds=3600)
                taken["restart"] = time.perf_counter() - began
                print(f"restart with {count} Tenants: all looked at after {taken['restart']:.1f} s")
                print(spent)
                written = sum(before.get(uid) != version for uid, version in versions(tenants).items())
                print(f"restart: {written} of {len(before)} Tenants and Secrets written to (goal 0)")
                taken["restart_writes"] = float(written)
    write_taken(arguments.json, taken)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenants", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--period", type=int, default=300)
    parser.add_argument("--json", type=Path)
    main(parser.parse_args())
