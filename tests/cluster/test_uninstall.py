"""The chart's own test, and an uninstallation that leaves nothing stuck and drops no data, under either policy."""

from __future__ import annotations

import time

from support.kube_cluster import FIGURES, name_of, require_cluster
from support.kube_release import RELEASE, Release

require_cluster()

POLICIES = {"acme": "Retain", "globex": "Delete"}
SCHEMAS = (
    "SELECT nspname, (SELECT count(*) FROM pg_class WHERE relnamespace = n.oid) FROM pg_namespace AS n"
    " WHERE nspname !~ '^pg_' ORDER BY nspname"
)
ROWS = "SELECT count(*) FROM {}_production.incoming_transaction"


def stored(release: Release) -> list[str]:
    """Return every schema with the number of its relations, and the rows of either tenant."""
    rows = [row for slug in POLICIES for row in release.postgres.ask(ROWS.format(slug))]
    return [*release.postgres.ask(SCHEMAS), *rows]


def test_the_test_of_the_chart_succeeds(release: Release) -> None:
    began = time.monotonic()
    release.namespace.cluster.helm("test", RELEASE, "-n", release.namespace.name, "--timeout", "180s")
    FIGURES.add("helm test", time.monotonic() - began, "s")


def test_nothing_is_stuck_and_no_data_dropped(release: Release) -> None:
    for slug, policy in POLICIES.items():
        release.tenants.change(slug, deletionPolicy=policy)
    before = stored(release)
    began = time.monotonic()
    release.uninstall()
    FIGURES.add("helm uninstall", time.monotonic() - began, "s")
    namespace = release.namespace
    left = namespace.items("payrec.dev/v1/tenants")
    assert {name_of(tenant) for tenant in left} >= set(POLICIES), "crds.keep keeps the Tenants"
    for tenant in left:
        assert "finalizers" not in tenant["metadata"], name_of(tenant)
        assert "deletionTimestamp" not in tenant["metadata"], name_of(tenant)
    for kind in ("apps/v1/deployments", "batch/v1/jobs", "v1/services"):
        items = namespace.items(kind, selector=f"app.kubernetes.io/instance={RELEASE}")
        assert [name_of(item) for item in items] == [], kind
    assert stored(release) == before
    # Now nobody is there who would drop anything: Tenants go at once, whatever their policy says.
    namespace.kubectl("delete", "tenants", "--all", "--wait", "--timeout=30s")
    assert stored(release) == before


def test_the_namespace_goes(release: Release) -> None:
    began = time.monotonic()
    release.namespace.kubectl("delete", "namespace", release.namespace.name, "--wait=false")
    release.namespace.wait_gone()
    FIGURES.add("end of the namespace", time.monotonic() - began, "s")
