"""Three pods of each: what one of them takes, any other answers for."""

from __future__ import annotations

from support.kube_cluster import condition_of, require_cluster
from support.kube_release import Release

require_cluster()

PODS = 3
LINES = 6_000
"""In each file, as in tests/cluster/clients/pods.py."""


def test_uploads_and_exports_cross_pods(release: Release) -> None:
    release.upgrade(api={"replicas": PODS}, worker={"replicas": PODS})
    release.wait_all_ready()
    for component in ("api", "worker"):
        assert len(release.namespace.ready_pods(component)) == PODS
    found = release.run("pods.py", secret="acme-ledger-key", pods=",".join(release.addresses("api")), run="scaled")
    assert (
        found["stored"]
        == [{"job": "succeeded", "records": LINES, "accepted": LINES, "duplicates": 0, "skipped": 0, "rejected": 0}]
        * PODS
    )
    assert found["exported"] == [{"status": 200, "rows": LINES, "lines": LINES + 1}] * PODS
    [budget] = release.namespace.items("policy/v1/poddisruptionbudgets")
    assert condition_of(budget, "DisruptionAllowed")["status"] == "True"
    release.upgrade(api={"replicas": 2}, worker={"replicas": 2})
    for component in ("api", "worker"):
        release.namespace.wait_ready(component, 2)
