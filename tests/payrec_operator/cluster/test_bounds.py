"""As much as a resource may ask for, and as fast as it may be changed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from payrec.embedded.postgres import EmbeddedDatabase
from payrec_operator.runner import PASSES_MAX
from support.commands import Running
from support.operator_process import Operators, Tenants, ask, key

ENVIRONMENTS = ("development", "staging", "production", "test")
KEYS_MAX = 32
EDITS = 50
SECONDS_MAX = 180.0
"""How long the largest resource may take on a machine that is busy with others."""


@pytest.fixture(autouse=True)
def _running(operator: Running) -> None:
    assert operator.process.poll() is None


def test_the_largest_resource_is_made_rotated_and_gone(tenants: Tenants) -> None:
    keys = [key(f"k{n}", environment=ENVIRONMENTS[n % 4], permissions=["read"]) for n in range(KEYS_MAX)]
    tenants.create("large", environments=[{"name": name} for name in ENVIRONMENTS], apiKeys=keys)
    status = tenants.wait_for("large", "Reconciled", seconds=SECONDS_MAX)["status"]
    assert status["environmentsReady"] == "4/4"
    assert len({k["currentKeyId"] for k in status["apiKeys"]}) == KEYS_MAX
    names = [k["secretName"] for k in keys]
    before = {name: tenants.wait_secret(name) for name in names}
    with ThreadPoolExecutor(4) as pool:
        assert {answer.status_code for answer in pool.map(ask, before.values())} == {200}
    tenants.annotate("large", rotate="all")
    after = {name: tenants.wait_secret(name, other_than=before[name]["api-key"], seconds=SECONDS_MAX) for name in names}
    with ThreadPoolExecutor(4) as pool:
        both = [*before.values(), *after.values()]
        assert {answer.status_code for answer in pool.map(ask, both)} == {200}, "both work during the overlap"
    tenants.wait_for("large", "Reconciled", seconds=SECONDS_MAX)
    tenants.delete("large")
    tenants.wait_gone("large", seconds=SECONDS_MAX)
    assert ask(after[names[0]]).status_code in {401, 403}


def test_a_resource_that_is_edited_fifty_times_at_once_ends_as_the_last_one_says(
    operators: Operators, operator: Running, tenants: Tenants, module_database: EmbeddedDatabase
) -> None:
    tenants.create("hasty", apiKeys=[key()])
    tenants.wait_for("hasty", "Reconciled")
    held = tenants.wait_secret("ledger-key")
    for number in range(EDITS):
        permissions = ["read", "write"] if number % 2 else ["read"]
        tenants.change("hasty", displayName=f"Hasty {number}", apiKeys=[key(permissions=permissions)])
    found = tenants.wait_for("hasty", "Reconciled")
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"] == EDITS + 1
    with psycopg.connect(module_database.superuser_url) as connection:
        query = "SELECT t.name, k.read, k.write FROM control.tenant t JOIN control.api_key k ON k.tenant_id = t.id"
        rows = connection.execute(f"{query} WHERE t.slug = 'hasty'").fetchall()
    assert rows == [(f"Hasty {EDITS - 1}", True, True)], "no key was made for it"
    assert tenants.secret("ledger-key") == held
    assert ask(held).status_code == 200
    operators.wait_round(operator)
    steady = tenants.get("hasty")
    operators.wait_round(operator)
    assert tenants.get("hasty") == steady


def test_tenants_that_cannot_go_on_keep_no_other_waiting(tenants: Tenants) -> None:
    """Deletions that wait, of more Tenants than passes are made at once, as somebody may have in a namespace."""
    names = [f"waiting-{number}" for number in range(PASSES_MAX + 4)]
    for name in names:
        tenants.create(name, {"payrec.dev/paused": "true"})
    for name in names:
        tenants.wait_for(name, "Paused")
        tenants.delete(name)
    tenants.create("healthy", apiKeys=[key()])
    tenants.wait_for("healthy", "Reconciled")
    assert ask(tenants.wait_secret("ledger-key")).status_code == 200
    assert all(tenants.get(name) for name in names), "they wait still"
