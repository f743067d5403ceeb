"""The operator dies, runs twice, or loses the API server; what comes after it finds its way."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import psycopg
import pytest

from payrec.embedded.postgres import EmbeddedDatabase
from payrec_operator.runner import PASSES_MAX
from support.control_plane import ControlPlane, wait_until
from support.operator_process import Operators, Step, Tenants, ask, key, reason_of

REGISTRY = ("payrec.services.tenant_resources", "TenantResourceService")
SECRETS = ("payrec_operator.secrets", "KubernetesSecrets")
STATUS = ("payrec_operator.runner", "Runner")

STEPS: dict[str, Step] = {
    "registered": (*REGISTRY, "claim", "after"),
    "schema-made": (*REGISTRY, "ensure_environment", "after"),
    "key-made": (*REGISTRY, "mint", "after"),
    "secret-written": (*SECRETS, "write", "after"),
    "key-promoted": (*REGISTRY, "promote", "after"),
    "status-unwritten": (*STATUS, "run", "after"),
}
"""Where the operator ends, in the order in which a new Tenant comes by; a rotation comes by the last four."""

RELEASE_STEPS: dict[str, Step] = {
    "retained-not-yet-left": (*REGISTRY, "orphan", "before"),
    "retained-left": (*REGISTRY, "orphan", "after"),
    "dropped-not-yet": (*REGISTRY, "begin_drop", "before"),
    "dropped-already": (*REGISTRY, "begin_drop", "after"),
}


def _states(database: EmbeddedDatabase, slug: str) -> list[str]:
    with psycopg.connect(database.superuser_url) as connection:
        rows = connection.execute(
            "SELECT k.state FROM control.api_key k JOIN control.tenant t ON t.id = k.tenant_id"
            " WHERE t.slug = %s AND k.state <> 'revoked' ORDER BY k.state",
            (slug,),
        ).fetchall()
    return [str(row[0]) for row in rows]


def test_a_new_tenant_gets_there_wherever_the_operator_dies(
    operators: Operators, tenants: Tenants, module_database: EmbeddedDatabase
) -> None:
    def got_there(name: str) -> None:
        tenants.wait_for(name, "Reconciled")
        assert ask(tenants.wait_secret(f"{name}-key")).status_code == 200, name
        assert _states(module_database, name).count("active") == 1, name

    before = None
    for name, step in STEPS.items():
        with operators.started(dies_at=step) as running:
            # Each operator finishes what the one before it left, and dies of the next.
            if before is not None:
                got_there(before)
            with operators.dying(running):
                tenants.create(name, apiKeys=[key(name)])
        before = name
    with operators.started():
        assert before is not None
        got_there(before)


def test_a_rotation_that_is_cut_off_leaves_a_working_key_at_every_moment(
    operators: Operators, tenants: Tenants, module_database: EmbeddedDatabase
) -> None:
    replaced: dict[str, dict[str, str]] = {}

    def got_there(name: str) -> None:
        before = replaced[name]
        after = tenants.wait_secret(f"{name}-key", other_than=before["api-key"])
        wait_until("the status", lambda: _settled(tenants, name, tenants.wait_secret(f"{name}-key")["api-key-id"]))
        after = tenants.wait_secret(f"{name}-key")
        assert ask(after).status_code == ask(before).status_code == 200, name
        states = _states(module_database, name)
        assert states.count("active") == 1, name
        assert "retiring" in states, name

    for name, step in list(STEPS.items())[2:]:
        name = f"rotated-{name}"  # noqa: PLW2901 - the same word
        with operators.started(dies_at=step) as running:
            for done in list(replaced)[-1:]:
                got_there(done)
            tenants.create(name, apiKeys=[key(name)])
            tenants.wait_for(name, "Reconciled")
            replaced[name] = tenants.wait_secret(f"{name}-key")
            with operators.dying(running):
                tenants.annotate(name, rotate="now")
        held = tenants.wait_secret(f"{name}-key")
        assert ask(held).status_code == ask(replaced[name]).status_code == 200, name
    with operators.started():
        got_there(list(replaced)[-1])


def _settled(tenants: Tenants, name: str, key_id: str) -> bool:
    found = tenants.get(name)
    assert found is not None
    [entry] = found["status"]["apiKeys"]
    # Where the status was lost, the annotation counts as new and asks for another rotation once the overlap is over.
    return entry.get("currentKeyId") == key_id


def test_a_deletion_that_is_cut_off_is_finished(
    operators: Operators, tenants: Tenants, module_database: EmbeddedDatabase
) -> None:
    ended: dict[str, dict[str, str]] = {}
    for name, step in RELEASE_STEPS.items():
        policy = "Delete" if step[2] == "begin_drop" else "Retain"
        with operators.started(dies_at=step) as running:
            for done in ended:
                tenants.wait_gone(done)
            tenants.create(name, apiKeys=[key(name)], deletionPolicy=policy)
            tenants.wait_for(name, "Reconciled")
            ended[name] = tenants.wait_secret(f"{name}-key")
            with operators.dying(running):
                tenants.delete(name)
        assert tenants.get(name) is not None, "its finalizer keeps it"
    with operators.started():
        for name in ended:
            tenants.wait_gone(name)
    for name, secret in ended.items():
        assert ask(secret).status_code in {401, 403}, name
        schema = f"{name.replace('-', '_')}_production"
        with psycopg.connect(module_database.superuser_url) as connection:
            found = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchall()
        assert bool(found) is name.startswith("retained"), name


def test_two_operators_by_mistake_do_no_harm(
    operators: Operators, tenants: Tenants, module_database: EmbeddedDatabase
) -> None:
    names = [f"twice-{number}" for number in range(6)]
    with operators.started(), operators.started():
        for name in names:
            tenants.create(name, apiKeys=[key(name)])
        for name in names:
            tenants.wait_for(name, "Reconciled")
            assert ask(tenants.wait_secret(f"{name}-key")).status_code == 200
        for name in names:
            tenants.annotate(name, rotate="1")
            before = tenants.wait_secret(f"{name}-key")
            assert ask(before).status_code == 200
        for name in names:
            tenants.wait_for(name, "OverlapActive", "Rotating")
            assert ask(tenants.wait_secret(f"{name}-key")).status_code == 200
            assert _states(module_database, name).count("active") == 1
            tenants.delete(name)
        for name in names:
            tenants.wait_gone(name)


@pytest.fixture
def _restarted(plane: ControlPlane) -> Iterator[None]:
    yield
    if not plane.is_running:
        plane.start_api_server()


@pytest.mark.usefixtures("_restarted")
def test_the_api_server_goes_and_comes_back(plane: ControlPlane, operators: Operators, tenants: Tenants) -> None:
    with operators.started() as running:
        tenants.create("patient", apiKeys=[key()])
        tenants.wait_for("patient", "Reconciled")
        before = tenants.wait_secret("ledger-key")
        plane.kill_api_server()
        assert ask(before).status_code == 200, "the API never needs the operator, nor Kubernetes"
        plane.start_api_server()
        assert running.process.poll() is None
        tenants.annotate("patient", rotate="1")
        after = tenants.wait_secret("ledger-key", other_than=before["api-key"])
        tenants.api.delete(f"/api/v1/namespaces/{tenants.namespace}/secrets/ledger-key")
        again = tenants.wait_secret("ledger-key", other_than=after["api-key"])
        assert ask(again).status_code == 200


@pytest.mark.usefixtures("_restarted")
@pytest.mark.parametrize("narrow", [False, True])
def test_a_deletion_that_no_watch_tells_of_is_noticed(
    plane: ControlPlane, operators: Operators, tenants: Tenants, *, narrow: bool
) -> None:
    first, second = (f"{name}-{narrow}".lower() for name in ("before", "unheard"))
    tenants.create(first, apiKeys=[key(secretName="before-key")])
    with operators.started(namespaces=[tenants.namespace] if narrow else []) as running:
        # What the first lists tell of is gone when the second ones come: these are empty, or have others in them.
        tenants.wait_for(first, "Reconciled")
        tenants.delete(first)
        tenants.wait_gone(first)
        tenants.api.delete(f"/api/v1/namespaces/{tenants.namespace}/secrets/before-key")
        tenants.create(second, apiKeys=[key()])
        tenants.wait_for(second, "Reconciled")
        before = tenants.wait_secret("ledger-key")
        running.process.send_signal(signal.SIGSTOP)
        plane.kill_api_server()
        plane.start_api_server()
        tenants.api.delete(f"/api/v1/namespaces/{tenants.namespace}/secrets/ledger-key")
        # One that starts after the deletion does not know what was before: who watched has to begin with a list.
        plane.kill_api_server()
        plane.start_api_server()
        running.process.send_signal(signal.SIGCONT)
        assert ask(tenants.wait_secret("ledger-key", other_than=before["api-key"])).status_code == 200


def test_a_secret_that_is_deleted_while_nobody_looks_is_back_at_the_start(
    operators: Operators, tenants: Tenants
) -> None:
    with operators.started():
        tenants.create("unseen", apiKeys=[key()])
        tenants.wait_for("unseen", "Reconciled")
        before = tenants.wait_secret("ledger-key")
    tenants.api.delete(f"/api/v1/namespaces/{tenants.namespace}/secrets/ledger-key")
    with operators.started():
        assert ask(tenants.wait_secret("ledger-key", other_than=before["api-key"])).status_code == 200
        found = tenants.get("unseen")
        assert found is not None
        assert reason_of(found) is not None


def test_a_start_with_more_secrets_than_passes_looks_at_everything(operators: Operators, tenants: Tenants) -> None:
    keys = [key(f"many-{number}", permissions=["read"]) for number in range(PASSES_MAX + 4)]
    with operators.started():
        tenants.create("many", apiKeys=keys)
        tenants.wait_for("many", "Reconciled")
    tenants.change("many", apiKeys=[*keys, key("last")])
    with operators.started():
        assert ask(tenants.wait_secret("last-key")).status_code == 200


def test_it_ends_in_good_order_when_it_is_asked_to(operators: Operators, tenants: Tenants) -> None:
    with operators.started() as running:
        tenants.create("ending")
        tenants.wait_for("ending", "Reconciled")
        running.process.terminate()
        assert running.process.wait(30) == 0
