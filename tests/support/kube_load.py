"""A steady load from a pod of the cluster, and whether anything of it was lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from support.control_plane import wait_until
from support.kube_cluster import name_of
from support.kube_release import Release


@dataclass(slots=True, kw_only=True)
class Load:
    """What a client sends, and in the end what it saw."""

    release: Release
    pod: str
    schema: str
    before: int
    found: dict[str, Any] = field(default_factory=dict)

    def stored(self) -> int:
        """Return how many of the things that it created are stored."""
        count = f"SELECT count(*) FROM {self.schema}.expected_transaction WHERE external_id LIKE 'load-%'"  # noqa: S608 - our own name
        return int(self.release.postgres.ask(count)[0]) - self.before

    def stop(self) -> None:
        """End it, and keep what it saw."""
        self.release.namespace.kubectl("exec", self.pod, "--", "python", "-c", "import os; os.kill(1, 15)")
        self.found = self.release.result(self.pod)

    def assert_nothing_lost(self) -> None:
        """Whatever was answered with 201 is stored, and nothing but what was asked for."""
        assert self.found["created"] <= self.stored() <= self.found["created"] + self.found["failed"], self.found


@contextmanager
def loading(release: Release, *, rate: int, tenant: str = "acme") -> Iterator[Load]:
    """Send so many requests in a second until the context ends; it begins when the first are answered."""
    load = Load(release=release, pod="", schema=f"{tenant}_production", before=0)
    load.before = load.stored()
    load.pod = release.start("load.py", secret=f"{tenant}-ledger-key", rate=rate, run=load.before)
    wait_until("the load", lambda: load.stored() > 0)
    yield load
    load.stop()


def wait_for_old_pods(release: Release, component: str) -> None:
    """Wait until no pod of a component is about to end."""

    def ending() -> list[str]:
        pods = release.namespace.items("v1/pods", selector=f"app.kubernetes.io/component={component}")
        return [name_of(pod) for pod in pods if "deletionTimestamp" in pod["metadata"]]

    wait_until(f"the end of old pods of {component}", lambda: not ending(), seconds=90)
