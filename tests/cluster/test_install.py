"""From nothing to the first accepted match, as a platform team and its first client do it."""

from __future__ import annotations

import time
from dataclasses import replace

import httpx2
import pytest

from support.keycloak import Realm, administered
from support.kube_cluster import FIGURES, RESTRICTED, name_of, require_cluster
from support.kube_release import COMPONENTS, Release
from support.providers import PASSWORD, person

require_cluster()


def test_a_client_with_the_secret_accepts_its_first_match(release: Release) -> None:
    found = release.run("story.py", secret="acme-ledger-key")
    FIGURES.add("helm install until the first accepted match", time.monotonic() - release.installed_at, "s", at_most=90)
    assert found["loaded"] == 24
    assert found["counts"]["accepted"] == found["statement_lines"] == 97
    assert (found["run"], found["accepted"], found["settled"]) == ("succeeded", "accepted", "matched")


def test_another_tenant_has_the_same_story_and_sees_nothing_of_the_first(release: Release) -> None:
    def stored() -> list[str]:
        return release.postgres.ask("SELECT id, revision FROM acme_production.incoming_transaction ORDER BY id")

    before = stored()
    found = release.run("story.py", secret="globex-ledger-key")
    assert (found["counts"]["accepted"], found["statement_lines"]) == (97, 97)
    assert stored() == before
    acme, globex = (release.tenants.wait_secret(f"{slug}-ledger-key") for slug in ("acme", "globex"))
    with release.reached() as url:
        foreign = {"X-Api-Key": globex["api-key"], "X-Tenant-Id": acme["tenant-id"], "X-Environment": "production"}
        answer = httpx2.get(f"{url}/incoming-transactions", headers=foreign)
    assert (answer.status_code, answer.json()["code"]) == (403, "tenant_mismatch")


@pytest.mark.anyio
async def test_a_user_of_the_identity_provider_logs_in(release: Release, realm: Realm) -> None:
    """Listed in the Tenant without a password, and known to Keycloak with one."""
    tenant_id = release.tenants.wait_secret("acme-ledger-key")["tenant-id"]
    ada = replace(person(tenant_id, "admin"), environments=("production",))
    release.tenants.change("acme", users=[{"username": ada.username, "roles": ["admin"]}])
    status = release.tenants.wait_for("acme", "UsersSynced", "UsersReady")["status"]
    [user_id] = [user["id"] for user in status["users"] if user["username"] == ada.username]
    async with administered(realm) as keycloak:
        attributes = {"tenant_id": [tenant_id], "environment": ["production"], "user_id": [user_id]}
        await keycloak.add_user(ada.username, PASSWORD, attributes=attributes, roles=["admin"])
        with release.reached() as url:
            async with httpx2.AsyncClient(base_url=url, timeout=30.0) as http:
                token = await http.post("/auth/token", json={"username": ada.username, "password": PASSWORD})
                assert token.status_code == 200, token.text
                bearer = {"Authorization": f"Bearer {token.json()['accessToken']}"}
                place = {"X-Tenant-Id": tenant_id, "X-Environment": "production"}
                found = await http.get("/matches", params={"status": "accepted"}, headers=bearer | place)
                assert [match["status"] for match in found.json()["data"]] == ["accepted"]
                elsewhere = await http.get("/matches", headers=bearer | place | {"X-Environment": "test"})
                assert elsewhere.json()["code"] == "environment_mismatch"


def test_a_tenant_that_the_api_is_asked_for_becomes_a_resource(release: Release) -> None:
    with release.reached() as url:
        answer = httpx2.post(f"{url}/tenants", json={"name": "Initech", "slug": "initech"}, timeout=30.0)
    assert answer.status_code == 202, answer.text
    made = release.tenants.wait_for("initech", "Reconciled")
    assert made["status"]["tenantId"] == answer.json()["id"]


def test_every_pod_runs_restricted(release: Release) -> None:
    """The namespace refuses pods that are not; here it is seen to do so."""
    labels = release.namespace.cluster.api.find(release.namespace.path)["metadata"]["labels"]
    assert labels[RESTRICTED] == "restricted"
    done = release.namespace.cluster.tried(
        "kubectl", "-n", release.namespace.name, "run", "loose", f"--image={release.namespace.cluster.image}"
    )
    assert "violates PodSecurity" in done.stderr
    for component in COMPONENTS:
        pods = release.namespace.pods(component)
        assert pods, f"no pod of {component}"
        for pod in pods:
            # Only who asks the API server has a token for it.
            assert pod["spec"].get("automountServiceAccountToken") is (component != "worker"), name_of(pod)
