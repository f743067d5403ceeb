"""The operator on a real API server: how soon a Tenant is ready, and what many Tenants at rest cost.

KUBEBUILDER_ASSETS=… python tests/benchmarks/bench_operator.py [--tenants 1000] [--seconds 60] [--period 300]

The timer's period is shortened as the Tenants are fewer than a thousand, so that as many passes are made in a second.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import psutil

from support.charts import tenant_definition
from support.commands import Running
from support.control_plane import Api, control_plane, wait_until
from support.operator_process import Operators, Tenants, install, key
from support.postgres import cloned, server

ENVIRONMENTS = [{"name": name} for name in ("development", "staging", "production", "test")]
_REQUESTS = re.compile(r'apiserver_request_total\{.*resource="(?:tenants|secrets|events)".*verb="([A-Z]+)".*\} (\S+)')
_RESUMED = re.compile(r'payrec_operator_reconcile_total\{result="(?!skipped)[a-z]+",trigger="change"\} (\S+)')


def requests(api: Api) -> dict[str, float]:
    """Count the requests for what the operator asks for, by verb; watches are connections that stay."""
    counts: dict[str, float] = {}
    for verb, value in _REQUESTS.findall(api.request("GET", "/metrics", accept="text/plain")):
        if verb not in {"WATCH", "CONNECT"}:
            counts[verb] = counts.get(verb, 0.0) + float(value)
    return counts


def ready(tenants: Tenants) -> int:
    """Count the Tenants that are ready."""
    items = tenants.api.request("GET", tenants.path)["items"]
    conditions = [c for item in items for c in item.get("status", {}).get("conditions", ())]
    return sum(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def one_by_one(tenants: Tenants) -> None:
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


def many(tenants: Tenants, count: int) -> None:
    """Measure how long as many Tenants take that are created at once."""
    there, before = ready(tenants), requests(tenants.api)
    began = time.perf_counter()
    for number in range(count):
        tenants.create(f"t-{number}", apiKeys=[key(f"t-{number}-a"), key(f"t-{number}-b")])
    wait_until("all of them", lambda: ready(tenants) == there + count, seconds=3600)
    seconds = time.perf_counter() - began
    rate, made = count / seconds, requests(tenants.api)
    # All but ours: we made a Tenant each, and listed them all while we waited.
    asked = sum(made[verb] - before.get(verb, 0.0) for verb in made if verb != "LIST") / count - 1
    print(f"{count} Tenants of 1 environment and 2 keys created at once: ready after {seconds:.0f} s ({rate:.1f}/s)")
    print(f"requests to the API server for each of them: {asked:.1f}")


def at_rest(api: Api, running: Running, seconds: float) -> None:
    """Measure what the Tenants cost when nothing happens."""
    process = psutil.Process(running.process.pid)
    before, cpu, began = requests(api), process.cpu_times(), time.perf_counter()
    time.sleep(seconds)
    after, now, elapsed = requests(api), process.cpu_times(), time.perf_counter() - began
    made = {verb: after[verb] - before.get(verb, 0.0) for verb in after}
    share = (now.user + now.system - cpu.user - cpu.system) / elapsed
    told = ", ".join(f"{verb} {count:.0f}" for verb, count in sorted(made.items()) if count) or "none"
    rate, patches, rss = sum(made.values()) / elapsed, made.get("PATCH", 0.0), process.memory_info().rss / 2**20
    print(f"at rest: {rate:.2f} requests/s (goal 1): {told}; of these PATCH {patches:.0f} (goal 0)")
    print(f"at rest: CPU {share * 100:.1f} % of a core (goal 5), RSS {rss:.0f} MiB (goal 250)")


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
                one_by_one(tenants)
                many(tenants, arguments.tenants)
                time.sleep(period)  # everything has been looked at once more
                at_rest(plane.api, running, arguments.seconds)
            began = time.perf_counter()
            with operators.started() as running:
                count = ready(tenants)
                wait_until("all of them", lambda: resumed(operators, running) >= count, seconds=3600)
                print(f"restart with {count} Tenants: all looked at after {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenants", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--period", type=int, default=300)
    main(parser.parse_args())
