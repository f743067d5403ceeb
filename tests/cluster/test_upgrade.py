"""A newer release, with migrations, under a steady load, and back again: nobody who asks notices."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import httpx2
import pytest
import yaml

from support.charts import CHART
from support.kube_cluster import FIGURES, require_cluster
from support.kube_load import Load, loading, wait_for_old_pods
from support.kube_release import Release

require_cluster()

RATE = 200
REQUESTS_MIN = 1_000
"""How many that are all answered say something; two cores that bear a node and two versions besides may be slow."""
NEXT_VERSION = "99.0.0"
"""Of the chart and of the image that tests/cluster/next makes."""

SCHEMAS = ("control", "acme_production", "globex_production")


@pytest.fixture(scope="module")
def next_chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the chart with a higher version."""
    folder = tmp_path_factory.mktemp("next") / "payrec"
    shutil.copytree(CHART, folder)
    file = folder / "Chart.yaml"
    described = yaml.safe_load(file.read_text(encoding="utf-8"))
    versions = {"version": NEXT_VERSION, "appVersion": NEXT_VERSION}
    file.write_text(yaml.safe_dump({**described, **versions}), encoding="utf-8")
    return folder


def revisions(release: Release) -> set[str]:
    """Return the revisions of the control schema and of an environment of each tenant."""
    return {row for schema in SCHEMAS for row in release.postgres.ask(f"TABLE {schema}.alembic_version")}


def version(release: Release) -> str:
    """Return the version that answers."""
    with release.reached() as url:
        return str(httpx2.get(f"{url}/api/health").json()["version"])


def assert_unnoticed(load: Load, what: str, seconds: float) -> None:
    """Every request was answered as it should, as many as the machine can bear beside new pods."""
    found = load.found
    rate = found["requests"] / found["seconds"]
    FIGURES.add(f"{what}, until every pod is new", seconds, "s")
    FIGURES.add(f"{what}: requests", rate, "a second", at_least=0.95 * RATE)
    FIGURES.add(f"{what}: requests that failed", found["failed"], f"of {found['requests']}", at_most=0)
    FIGURES.add(f"{what}: slowest answer", found["slowest"], "s")
    assert found["failed"] == 0, found
    assert set(found["statuses"]) == {"200", "201"}
    assert found["requests"] >= REQUESTS_MIN, "the machine is too slow for this to prove anything"
    load.assert_nothing_lost()


def test_an_upgrade_with_migrations_fails_no_request(release: Release, next_chart: Path) -> None:
    before = version(release)
    with loading(release, rate=RATE) as load:
        began = time.monotonic()
        image = release.namespace.cluster.next_image
        release.upgrade(chart=next_chart, image={"repository": image.repository, "tag": image.tag})
        release.wait_all_ready()
        wait_for_old_pods(release, "api")
        seconds = time.monotonic() - began
    assert_unnoticed(load, "upgrade with migrations", seconds)
    assert version(release) == NEXT_VERSION != before
    assert revisions(release) == {"next"}


def test_a_rollback_serves_the_newer_schemas_and_fails_no_request(release: Release) -> None:
    with loading(release, rate=RATE) as load:
        began = time.monotonic()
        release.rollback()
        release.wait_all_ready()
        wait_for_old_pods(release, "api")
        seconds = time.monotonic() - began
    assert_unnoticed(load, "rollback", seconds)
    assert version(release) != NEXT_VERSION
    assert revisions(release) == {"next"}, "nothing is ever taken back"
    found = release.run("pods.py", secret="globex-ledger-key", pods="", run="back")
    assert {part["job"] for part in found["stored"]} == {"succeeded"}
