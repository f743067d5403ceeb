"""Tests against a real API server, which KUBEBUILDER_ASSETS makes possible; without it they are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from payrec.embedded.postgres import EmbeddedDatabase, EmbeddedPostgres
from support.charts import tenant_definition
from support.commands import Running
from support.control_plane import Api, ApiError, ControlPlane, Make, control_plane
from support.operator_process import Operators, Tenants, install, served
from support.postgres import cloned


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    """Return a control plane that knows the Tenant resource, and the chart's account and rights."""
    with control_plane() as running:
        running.api.define(tenant_definition())
        install(running)
        yield running


@pytest.fixture(scope="session")
def api(plane: ControlPlane) -> Api:
    """Return the API server as its administrator sees it."""
    return plane.api


@pytest.fixture
def namespace(api: Api) -> Iterator[str]:
    """Return a namespace of the test's own, in which no Tenant is left to hold up others."""
    made = api.create("/api/v1/namespaces", {"metadata": {"generateName": "test-"}})
    name = str(made["metadata"]["name"])
    yield name
    path = f"/apis/payrec.dev/v1/namespaces/{name}/tenants"
    for tenant in api.request("GET", path)["items"]:
        own = f"{path}/{tenant['metadata']['name']}"
        api.delete(own)
        try:
            api.merge(own, {"metadata": {"finalizers": None}})
        except ApiError as error:
            # An operator that has just ended may have let it go.
            if error.status != 404:
                raise


@pytest.fixture
def make(api: Api, namespace: str) -> Make:
    """Return what creates a Tenant; a test says only what it is about."""

    def create(name: str = "acme", **spec: Any) -> dict[str, Any]:
        body = {
            "apiVersion": "payrec.dev/v1",
            "kind": "Tenant",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"slug": name, **spec},
        }
        made: dict[str, Any] = api.create(f"/apis/payrec.dev/v1/namespaces/{namespace}/tenants", body)
        return made

    return create


@pytest.fixture
def tenants(api: Api, namespace: str) -> Tenants:
    """Return the Tenants of a namespace of the test's own."""
    return Tenants(api, namespace)


@pytest.fixture(scope="module")
def module_database(postgres: EmbeddedPostgres) -> Iterator[EmbeddedDatabase]:
    """Return a database of the module's own."""
    with cloned(postgres) as made:
        yield made


@pytest.fixture(scope="module")
def base_url(module_database: EmbeddedDatabase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return where the API of the module's database is; it runs as a process of its own."""
    with served(module_database, tmp_path_factory.mktemp("serve")) as url:
        yield url


@pytest.fixture(scope="module")
def operators(
    plane: ControlPlane, module_database: EmbeddedDatabase, base_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Operators:
    """Return what starts operators for the module's database."""
    folder: Path = tmp_path_factory.mktemp("operator")
    return Operators(plane=plane, database=module_database, folder=folder, base_url=base_url)


@pytest.fixture(scope="module")
def operator(operators: Operators) -> Iterator[Running]:
    """Return an operator that runs as long as the module's tests."""
    with operators.started() as running:
        yield running
