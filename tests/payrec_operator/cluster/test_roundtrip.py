"""What ``helm test`` runs, with exactly its rights, beside a real operator and a real API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from payrec.embedded.postgres import EmbeddedDatabase
from support.commands import Running, started
from support.control_plane import ControlPlane
from support.operator_process import SYSTEM, Operators, Tenants, key
from support.ports import free_port

NAME = "payrec-test"


@pytest.fixture
def system(plane: ControlPlane) -> Tenants:
    """Return the Tenants beside the release."""
    return Tenants(plane.api, SYSTEM)


@contextmanager
def _testing(plane: ControlPlane, folder: Path, url: str, *more: str) -> Iterator[Running]:
    seen = plane.api.as_account(SYSTEM, NAME)
    config = seen.kubeconfig(folder / "test.yaml")
    seen.close()
    arguments = [f"--url={url}", f"--tenant={SYSTEM}/{NAME}", *more]
    environ = {"KUBECONFIG": str(config)}
    with started(*arguments, cwd=folder, environ=environ, module="payrec_operator.roundtrip") as running:
        yield running


def test_a_tenant_is_made_opened_and_deleted_also_where_an_earlier_one_was_left(
    plane: ControlPlane,
    operators: Operators,
    system: Tenants,
    base_url: str,
    module_database: EmbeddedDatabase,
    tmp_path: Path,
) -> None:
    with operators.started():
        system.create(NAME, deletionPolicy="Delete", apiKeys=[key("test", secretName=f"{NAME}-key")])
        system.wait_for(NAME, "Reconciled")
        with _testing(plane, tmp_path, base_url) as running:
            running.wait_for("the API answers")
            running.wait_for("the Tenant is Reconciled")
            running.wait_for("its key opens its environment")
            running.wait_for("another key does not")
            running.wait_for("it is deleted")
            assert running.ended() == 0
        assert system.get(NAME) is None
    with psycopg.connect(module_database.superuser_url) as connection:
        assert connection.execute("SELECT count(*) FROM control.tenant WHERE slug LIKE 'test-%'").fetchone() == (0,)


def test_without_an_operator_it_fails_in_time_and_leaves_no_tenant(
    plane: ControlPlane, system: Tenants, base_url: str, tmp_path: Path
) -> None:
    with _testing(plane, tmp_path, base_url, "--seconds=15") as running:
        running.wait_for("the API answers")
        running.wait_for("not done within 15 s")
        assert running.ended() == 1
    assert system.get(NAME) is None


def test_without_an_api_it_fails_and_makes_nothing(plane: ControlPlane, system: Tenants, tmp_path: Path) -> None:
    with _testing(plane, tmp_path, f"http://127.0.0.1:{free_port()}", "--seconds=1") as running:
        running.wait_for("not done within 1 s")
        assert running.ended() == 1
    assert system.get(NAME) is None
