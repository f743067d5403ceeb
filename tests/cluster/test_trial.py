"""A trial, as somebody has it who sets one value and does what the notes say."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from support.charts import CHART
from support.control_plane import wait_until
from support.kube_cluster import FIGURES, INSTALL_SECONDS, Cluster, Namespace, name_of, require_cluster
from support.kube_release import RELEASE

require_cluster()

SCRIPT_SECONDS = 300.0


@pytest.fixture(scope="module")
def trial(cluster: Cluster) -> Iterator[Namespace]:
    """Return the namespace of a trial."""
    values = {
        "trial.enabled": "true",
        "trial.postgres.image": str(cluster.postgres_image),
        "image.repository": cluster.image.repository,
        "image.tag": cluster.image.tag,
    }
    given = [part for name, value in values.items() for part in ("--set", f"{name}={value}")]
    with cluster.namespace("trial") as namespace:
        began = time.monotonic()
        try:
            cluster.helm(
                *("install", RELEASE, str(CHART), "-n", namespace.name, "--take-ownership", *given),
                *("--wait", "--timeout", f"{INSTALL_SECONDS}s"),
            )
        except AssertionError as error:
            raise AssertionError(f"{error}\n{namespace.report()}") from None
        FIGURES.add("trial: helm install until everything is ready", time.monotonic() - began, "s", at_most=60)
        yield namespace
        cluster.helm("uninstall", RELEASE, "-n", namespace.name, "--wait", "--ignore-not-found")


def test_the_commands_of_the_notes_do_what_they_say(trial: Namespace) -> None:
    notes = trial.cluster.helm("get", "notes", RELEASE, "-n", trial.name)
    begin, end = notes.index("# 1. "), notes.index("# 6. ")
    said = trial.cluster.run("bash", "-euo", "pipefail", "-c", f"{notes[begin:end]}\nkill %1", seconds=SCRIPT_SECONDS)
    assert '"data":[]' in said.replace(" ", ""), said
    assert '"accessToken"' in said, said


def test_the_test_of_the_chart_succeeds(trial: Namespace) -> None:
    trial.cluster.helm("test", RELEASE, "-n", trial.name, "--timeout", "180s")


def test_secrets_survive_an_upgrade(trial: Namespace) -> None:
    def generated() -> dict[str, object]:
        secrets = trial.items("v1/secrets", selector=f"app.kubernetes.io/instance={RELEASE}")
        return {name_of(secret): secret["data"] for secret in secrets}

    before = generated()
    assert before
    trial.cluster.helm("upgrade", RELEASE, str(CHART), "-n", trial.name, "--reuse-values", "--wait")
    assert generated() == before


def test_an_uninstallation_leaves_nothing_stuck(trial: Namespace) -> None:
    trial.cluster.helm("uninstall", RELEASE, "-n", trial.name, "--wait", "--timeout", f"{INSTALL_SECONDS}s")
    for tenant in trial.items("payrec.dev/v1/tenants"):
        assert not {"finalizers", "deletionTimestamp"} & set(tenant["metadata"]), name_of(tenant)
    trial.kubectl("delete", "tenants", "--all", "--wait", "--timeout=30s")
    wait_until("the end of the pods", lambda: not trial.items("v1/pods", selector="app.kubernetes.io/name=payrec"))
