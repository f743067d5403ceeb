"""A real Prometheus scrapes what the chart's monitors select, and evaluates the chart's rules."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.control_plane import wait_until
from support.kube_cluster import name_of, require_cluster
from support.kube_monitors import GROUP, configuration
from support.kube_release import COMPONENTS, Release
from support.monitoring import program
from support.ports import free_port

require_cluster()


@contextmanager
def prometheus(config: Path) -> Iterator[httpx2.Client]:
    """Run Prometheus with a configuration until the context ends."""
    port = free_port()
    with (config.parent / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own command
            [
                program("prometheus"),
                f"--config.file={config}",
                f"--storage.tsdb.path={config.parent / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=10.0, trust_env=False) as http:
            wait_until("Prometheus", lambda: _is_ready(process, http, config))
            yield http
    finally:
        process.kill()
        process.wait()


def _is_ready(process: subprocess.Popen[bytes], http: httpx2.Client, config: Path) -> bool:
    assert process.poll() is None, (config.parent / "prometheus.log").read_text(encoding="utf-8")
    try:
        return http.get("/-/ready").status_code == 200
    except httpx2.TransportError:
        return False


def targets(http: httpx2.Client) -> list[dict[str, Any]]:
    """Return what Prometheus scrapes."""
    return list(http.get("/api/v1/targets?state=active").json()["data"]["activeTargets"])


@pytest.mark.parametrize("kind", ["podmonitors", "servicemonitors"])
def test_everything_that_is_selected_is_scraped(release: Release, tmp_path: Path, kind: str) -> None:
    if release.namespace.cluster.api.find(f"/apis/{GROUP}") is None:
        pytest.skip(f"the cluster does not know {GROUP}: install the definitions of the Prometheus operator")
    by_pod = kind == "podmonitors"
    release.upgrade(metrics={"podMonitor": {"enabled": by_pod}, "serviceMonitor": {"enabled": not by_pod}})
    wanted = {name_of(pod) for component in COMPONENTS for pod in release.namespace.pods(component)}
    assert len(wanted) == 5
    with prometheus(configuration(release.namespace, kind, tmp_path)) as http:
        wait_until("all targets", lambda: {t["labels"]["pod"] for t in targets(http) if t["health"] == "up"} == wanted)
        assert {t["lastError"] for t in targets(http)} == {""}

        def evaluated() -> list[dict[str, Any]] | None:
            groups = http.get("/api/v1/rules").json()["data"]["groups"]
            rules = [rule for group in groups for rule in group["rules"]]
            return rules if all(rule["health"] != "unknown" for rule in rules) else None

        rules = wait_until("an evaluation of the rules", evaluated)
        assert rules
        assert [rule for rule in rules if rule["health"] != "ok"] == []
        found = http.get("/api/v1/query", params={"query": "count by (pod) ({__name__=~'payrec_.+'})"}).json()
        assert {row["metric"]["pod"] for row in found["data"]["result"]} == wanted
