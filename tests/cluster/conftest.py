"""Tests on a real cluster, which PAYREC_TEST_KUBECONFIG makes possible; without it they are skipped.

An installation takes a while and has objects that belong to the whole cluster, so there is one at a time: first the
trial, then the one that all other modules share, in the order below; the last one uninstalls it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.keycloak import Realm, administered, realm_of_environment
from support.kube_cluster import FIGURES, Cluster, cluster_of_environment, seconds_to_ready
from support.kube_release import Release, prepared
from support.operator_process import key

MEBIBYTES = {"api": 150, "worker": 200, "operator": 120}
"""What each process may have in memory."""

ORDER = (
    "test_trial",
    "test_install",
    "test_monitoring",
    "test_pods",
    "test_upgrade",
    "test_faults",
    "test_bad_input",
    "test_uninstall",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put this directory's modules in their order."""
    here = Path(__file__).parent
    ours = [index for index, item in enumerate(items) if item.path.parent == here]
    ordered = sorted((items[index] for index in ours), key=lambda item: ORDER.index(item.path.stem))
    for index, item in zip(ours, ordered, strict=True):
        items[index] = item


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what was measured."""
    if FIGURES.lines:
        terminalreporter.section("measured on the cluster")
        for line in FIGURES.lines:
            terminalreporter.write_line(line)


def measure(release: Release) -> None:
    """Measure what nothing has been asked of yet."""
    for component, mebibytes in MEBIBYTES.items():
        resident = release.resident_mebibytes(component)
        FIGURES.add(f"memory of {component}, of which nothing has been asked", resident, "MiB", at_most=mebibytes)
    slowest = max(seconds_to_ready(pod, "api") for pod in release.namespace.pods("api"))
    FIGURES.add("pods of the API, two at once, from the start of the container to ready", slowest, "s", at_most=4)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Return the cluster."""
    with cluster_of_environment() as found:
        yield found


@pytest.fixture(scope="session")
def realm(cluster: Cluster) -> Realm:
    """Return the realm of a real identity provider, which the cluster's pods reach as tests do."""
    del cluster  # without one there is nobody to ask for it
    return realm_of_environment()


@pytest.fixture(scope="session")
def release(cluster: Cluster, realm: Realm) -> Iterator[Release]:
    """Return the installation that the modules share, with two tenants whose keys are in Secrets."""

    async def secret_of_client() -> str:
        async with administered(realm) as keycloak:
            return await keycloak.client_secret()

    with cluster.namespace("payrec") as namespace:
        made = prepared(namespace, issuer=realm.issuer, client_secret=anyio.run(secret_of_client))
        made.install()
        FIGURES.add("helm install until everything is ready", made.install_seconds, "s", at_most=60)
        measure(made)
        for slug in ("acme", "globex"):
            name = f"{slug}-ledger"
            made.tenants.create(slug, displayName=slug.title(), apiKeys=[key(name, secretName=f"{name}-key")])
        for slug in ("acme", "globex"):
            made.tenants.wait_for(slug, "Reconciled")
        yield made
        if not made.uninstalled:
            made.uninstall()
