"""The service's own requests to the API server, on a real one: with the rights of its account, and without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from payrec.errors import UnavailableError, ValidationFailedError
from payrec.models.tenants import AdminCreate, TenantCreate
from payrec.services.kubernetes_api import KubernetesApi
from payrec.services.resource_creation import TENANT_ID, resource_of
from support.control_plane import Api

pytestmark = pytest.mark.anyio

RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces"


@pytest.fixture
def pod(api: Api, namespace: str, tmp_path: Path) -> KubernetesApi:
    """Return the API server as a pod sees it whose account has no rights yet."""
    account = {"metadata": {"name": "api"}}
    api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", account)
    seen = api.as_account(namespace, "api")
    (tmp_path / "token").write_text(seen.token)
    (tmp_path / "ca.crt").write_bytes(seen.trusted.read_bytes())
    seen.close()
    return KubernetesApi(url=api.url, namespace=namespace, directory=tmp_path)


def allow(api: Api, namespace: str) -> None:
    rules = [{"apiGroups": ["payrec.dev"], "resources": ["tenants"], "verbs": ["get", "create"]}]
    api.create(f"{RBAC}/{namespace}/roles", {"metadata": {"name": "api"}, "rules": rules})
    binding = {
        "metadata": {"name": "api"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "api"},
        "subjects": [{"kind": "ServiceAccount", "name": "api", "namespace": namespace}],
    }
    api.create(f"{RBAC}/{namespace}/rolebindings", binding)


def given(**more: Any) -> TenantCreate:
    return TenantCreate.model_validate({"name": "Acme GmbH", "environments": ["test"], **more})


async def test_a_resource_is_made_once_and_known_again(api: Api, namespace: str, pod: KubernetesApi) -> None:
    allow(api, namespace)
    tenant_id = uuid4()
    body = given(
        settings={"locale": "de", "matching": {"autoRun": True, "feeToleranceMinor": 5}, "timezone": None},
        admin=AdminCreate(username="ada@acme", subject="s-ada"),
    )
    assert await pod.get("acme") is None
    assert await pod.create(resource_of(tenant_id, "acme", body))
    assert not await pod.create(resource_of(tenant_id, "acme", body))
    found = await pod.get("acme")
    assert found is not None
    assert found["metadata"]["annotations"][TENANT_ID] == str(tenant_id)
    # Nothing of it was pruned: the definition knows all that the service says.
    for name, value in resource_of(tenant_id, "acme", body)["spec"].items():
        if name != "environments":
            assert found["spec"][name] == value, name
    assert [e["name"] for e in found["spec"]["environments"]] == ["test"]


@pytest.mark.parametrize(
    ("more", "pointer"),
    [({"settings": {"locale": "12"}}, "/settings/locale"), ({"name": "x" * 201}, "/name"), ({}, "/slug")],
)
async def test_what_the_definition_refuses_is_named(
    api: Api, namespace: str, pod: KubernetesApi, more: dict[str, Any], pointer: str
) -> None:
    allow(api, namespace)
    slug = "acme" if more else "admin"
    with pytest.raises(ValidationFailedError) as refused:
        await pod.create(resource_of(uuid4(), slug, given(**more)))
    assert pointer in {error.pointer for error in refused.value.errors}
    assert await pod.get(slug) is None


async def test_without_the_right_it_is_not_available(pod: KubernetesApi) -> None:
    for call in (pod.get("acme"), pod.create(resource_of(uuid4(), "acme", given()))):
        with pytest.raises(UnavailableError, match="right"):
            await call
