"""Pods, the database and the node end without a warning: everything comes back by itself, and nothing is lost."""

from __future__ import annotations

import os
import shlex
import subprocess
import time

import pytest

from support.control_plane import wait_until
from support.kube_cluster import FIGURES, condition_of, name_of, require_cluster
from support.kube_load import loading
from support.kube_release import COMPONENTS, Release

require_cluster()

RATE = 20
UNDER_WAY = "SELECT 1 FROM acme_production.job WHERE status IN ('queued', 'running') LIMIT 1"
TABLES = ("expected_transaction", "incoming_transaction", "match", "allocation")


def restarts(release: Release) -> dict[str, int]:
    """Return how often each container of the release has been started anew."""
    return {
        name_of(pod): sum(int(s["restartCount"]) for s in pod["status"].get("containerStatuses", ()))
        for component in COMPONENTS
        for pod in release.namespace.pods(component)
    }


def stored(release: Release) -> list[str]:
    """Return what a tenant has: how many rows, and a digest of them all."""
    digest = "SELECT count(*), md5(string_agg(t::text, '' ORDER BY t::text)) FROM globex_production.{} AS t"
    return [row for table in TABLES for row in release.postgres.ask(digest.format(table))]


def test_killed_pods_lose_nothing(release: Release) -> None:
    """One pod of each by SIGKILL while files are read, exports made, and requests come in."""
    before = stored(release)
    with loading(release, rate=RATE) as load:
        client = release.start("pods.py", secret="acme-ledger-key", pods="", run="killed")
        wait_until("a job that is under way", lambda: release.postgres.ask(UNDER_WAY))
        for component in COMPONENTS:
            pod, *_ = release.namespace.ready_pods(component)
            release.namespace.kubectl("delete", "pod", pod, "--grace-period=0", "--force")
        began = time.monotonic()
        release.wait_all_ready()
        FIGURES.add("kill of a pod of each, until all are ready", time.monotonic() - began, "s")
        found = release.result(client)
    assert {part["job"] for part in found["stored"]} == {"succeeded"}
    assert {(part["records"], part["accepted"]) for part in found["stored"]} == {(6_000, 6_000)}
    assert {(part["status"], part["rows"]) for part in found["exported"]} == {(200, 6_000)}
    load.assert_nothing_lost()
    assert stored(release) == before
    # The operator that came instead goes on with what there is to do.
    lost = release.tenants.wait_secret("globex-ledger-key")["api-key"]
    release.namespace.kubectl("delete", "secret", "globex-ledger-key")
    release.tenants.wait_secret("globex-ledger-key", other_than=lost)


def test_a_restart_of_the_database_restarts_nothing_else(release: Release) -> None:
    before, kept = restarts(release), stored(release)
    with loading(release, rate=RATE) as load:
        began = time.monotonic()
        release.postgres.crash()
        release.wait_all_ready()
        count = load.stored()
        wait_until("requests that are answered again", lambda: load.stored() > count)
        FIGURES.add("crash of the database, until requests are answered", time.monotonic() - began, "s")
    load.assert_nothing_lost()
    assert set(load.found["statuses"]) <= {"200", "201", "503"}, load.found
    assert restarts(release) == before
    assert stored(release) == kept


def test_a_node_that_loses_its_power_comes_back(release: Release) -> None:
    command = os.environ.get("PAYREC_TEST_NODE_REBOOT")
    if not command:
        pytest.skip("PAYREC_TEST_NODE_REBOOT names no command that ends the only node's containers and its kubelet")
    kept = stored(release)
    [node] = release.namespace.cluster.api.request("GET", "/api/v1/nodes")["items"]
    before = release.postgres.restarts()
    began = time.monotonic()
    subprocess.run(shlex.split(command), check=True, timeout=120)  # noqa: S603 - as whoever runs the tests has set it
    wait_until("the restart of the database", lambda: release.postgres.restarts() > before, seconds=120)
    wait_until("the database", release.postgres.answers, seconds=120)
    wait_until(
        "the node",
        lambda: (
            condition_of(release.namespace.cluster.api.find(f"/api/v1/nodes/{name_of(node)}"), "Ready")["status"]
            == "True"
        ),
    )
    release.wait_all_ready()
    FIGURES.add("loss of the node's power, until all are ready", time.monotonic() - began, "s")
    assert stored(release) == kept
    found = release.run("pods.py", secret="acme-ledger-key", pods="", run="rebooted")
    assert {(part["job"], part["accepted"]) for part in found["stored"]} == {("succeeded", 6_000)}
    # The operator hears of what is changed, too.
    lost = release.tenants.wait_secret("acme-ledger-key")["api-key"]
    release.namespace.kubectl("delete", "secret", "acme-ledger-key")
    release.tenants.wait_secret("acme-ledger-key", other_than=lost)
