"""What is wrong at run time is said in one line, by pods that wait or answer so, and never by a crash loop.

Each case is a pod of the API as the chart makes it, with one setting changed, beside those that serve.
"""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any
from urllib.parse import urlsplit

import httpx2

from support.control_plane import wait_until
from support.kube_cluster import is_ready, require_cluster
from support.kube_release import RELEASE, Release
from support.operator_process import ask

require_cluster()

NOWHERE = "http://127.0.0.1:9"
"""Nobody listens there."""


def start(release: Release, name: str, **changes: Any) -> str:
    """Start a pod of the API with variables changed: to a value, or to the Secret that they come from."""
    deployment = release.namespace.cluster.api.find(
        f"/apis/apps/v1/namespaces/{release.namespace.name}/deployments/{RELEASE}-api"
    )
    spec = deepcopy(deployment["spec"]["template"]["spec"])
    changed = set()
    for container in (*spec["containers"], *spec["initContainers"]):
        for variable in container["env"]:
            if variable["name"] in changes:
                changed.add(variable["name"])
                change = changes[variable["name"]]
                if isinstance(change, str):
                    variable["value"] = change
                else:
                    variable["valueFrom"]["secretKeyRef"] |= change
    assert changed == set(changes), "the chart sets no such variable"
    release.namespace.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    return name


def pod(release: Release, name: str) -> dict[str, Any]:
    """Return a pod."""
    found: dict[str, Any] = release.namespace.cluster.api.find(f"{release.namespace.path}/pods/{name}")
    return found


def states(release: Release, name: str) -> list[dict[str, Any]]:
    """Return the states of a pod's containers, initialising ones first."""
    status = pod(release, name)["status"]
    return [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]


def lines(release: Release, name: str) -> list[dict[str, Any]]:
    """Return what a pod's containers have logged."""
    text = release.namespace.logs(name, "--all-containers")
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def assert_patient(release: Release, name: str) -> None:
    """Nothing of it was started again, and it is not ready."""
    assert [state["restartCount"] for state in states(release, name)] == [0, 0]
    assert not is_ready(pod(release, name))


def test_a_secret_that_is_missing_is_named(release: Release) -> None:
    name = start(release, "no-secret", DATABASE_URL={"name": "nowhere"})

    def waits() -> dict[str, Any] | None:
        found = [state["state"].get("waiting", {}) for state in states(release, name)]
        return next((w for w in found if w.get("reason") == "CreateContainerConfigError"), None)

    assert wait_until("the reason", waits)["message"] == 'secret "nowhere" not found'
    assert_patient(release, name)


def test_a_database_that_refuses_the_password_is_said_once(release: Release) -> None:
    wrong = release.postgres.url("payrec_service", password="wrong-hunter2")
    release.namespace.put_secret("wrong", database_url=wrong)
    name = start(release, "wrong-password", DATABASE_URL={"name": "wrong"})
    # What was looked at, and not another look: a container that begins once more has said nothing yet.
    [line] = wait_until("a log line", lambda: lines(release, name))
    assert "password authentication failed" in line["reason"]
    assert "hunter2" not in release.namespace.logs(name, "--all-containers")
    assert_patient(release, name)


def test_a_database_that_is_not_there_is_said_once(release: Release) -> None:
    gone = release.postgres.url("payrec_service").replace("postgres.", "nowhere.")
    release.namespace.put_secret("gone", database_url=gone)
    name = start(release, "no-database", DATABASE_URL={"name": "gone"})
    [line] = wait_until("a log line", lambda: lines(release, name))
    assert "nowhere" in line["reason"]
    assert_patient(release, name)


def test_a_pepper_that_is_not_the_installation_s_stops_the_start(release: Release) -> None:
    """Before a key is refused or made: the reason is all that is written, and the kubelet starts it ever later."""
    release.namespace.put_secret("other", api_key_pepper="o" * 32)
    name = start(release, "wrong-pepper", API_KEY_PEPPER={"name": "other"})
    refusal = "payrec: API_KEY_PEPPER is not the one that this installation's API keys were made with"
    [line] = wait_until("a log line", lambda: release.namespace.logs(name, "--container=api").splitlines())
    assert line.startswith(refusal)
    assert not is_ready(pod(release, name))


def test_an_identity_provider_that_is_away_stops_logins_alone(release: Release) -> None:
    name = start(release, "no-provider", IDP_ISSUER_URL=NOWHERE)
    wait_until("the pod", lambda: is_ready(pod(release, name)))
    secret = release.tenants.wait_secret("acme-ledger-key")
    with release.reached(f"pod/{name}", 8000) as url:
        answer = httpx2.post(f"{url}/auth/token", json={"username": "ada", "password": "of hers"}, timeout=60.0)
        assert (answer.status_code, answer.json()["code"]) == (503, "identity_provider_unavailable")
        assert int(answer.headers["retry-after"]) > 0
        assert ask({**secret, "base-url": url}).status_code == 200
    told = [line for line in lines(release, name) if line.get("level") in {"warning", "error"}]
    assert told, "nobody is told"
    assert urlsplit(NOWHERE).netloc in json.dumps(told)
