"""Tenants that a backup brought back have new UIDs: their tenants are taken over when asked, and by nobody else."""

from __future__ import annotations

import pytest

from support.control_plane import Api
from support.operator_process import Operators, Tenants, ask, key, message_of


@pytest.fixture
def elsewhere(api: Api) -> Tenants:
    return Tenants(api, "default")


def test_a_tenant_that_was_restored_is_taken_over_when_asked(
    operators: Operators, tenants: Tenants, elsewhere: Tenants
) -> None:
    with operators.started():
        tenants.create("restored", apiKeys=[key()])
        before = tenants.wait_for("restored", "Reconciled")
        held = tenants.wait_secret("ledger-key")
    # Lost without the operator, and made anew from what the backup has: neither UID nor status.
    tenants.api.merge(f"{tenants.path}/restored", {"metadata": {"finalizers": None}})
    tenants.delete("restored")
    tenants.wait_gone("restored")
    restored = tenants.create("restored", apiKeys=[key()])
    assert restored["metadata"]["uid"] != before["metadata"]["uid"]
    elsewhere.create("restored", slug="restored", annotations={"payrec.dev/adopt": "true"})
    try:
        with operators.started() as running:
            found = tenants.wait_for("restored", "SlugConflict")
            assert 'payrec.dev/adopt: "true"' in message_of(found)
            assert not found["status"].get("tenantId")
            elsewhere.wait_for("restored", "SlugConflict")
            operators.wait_round(running)
            assert ask(held).status_code == 200, "the key before goes on while nobody is asked"
            tenants.annotate("restored", adopt="true")
            taken = tenants.wait_for("restored", "Reconciled")
            assert taken["status"]["tenantId"] == before["status"]["tenantId"]
            assert ask(tenants.wait_secret("ledger-key")).status_code == 200
            assert ask(held).status_code == 200, "and through the overlap of the one in its place"
            elsewhere.wait_for("restored", "SlugConflict")
    finally:
        elsewhere.api.merge(f"{elsewhere.path}/restored", {"metadata": {"finalizers": None}})
        elsewhere.delete("restored")
