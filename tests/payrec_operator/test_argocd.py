"""The health check that the example for Argo CD has, run as Argo CD runs it: a Lua script that sees the resource."""

from __future__ import annotations

from typing import Any

import lupa
import pytest
import yaml

from payrec_operator.reasons import Reason
from support.charts import ROOT
from support.operator_world import OperatorWorld, make_spec

KEY = "resource.customizations.health.payrec.dev_Tenant"


def health(body: dict[str, Any]) -> tuple[str, str]:
    """Return status and message of a resource, as the script says."""
    example = yaml.safe_load((ROOT / "deploy/examples/argocd/argocd-cm.yaml").read_text(encoding="utf-8"))
    lua = lupa.LuaRuntime(unpack_returned_tuples=True, register_eval=False)
    lua.globals().obj = lua.table_from(body, recursive=True)
    found = lua.execute(example["data"][KEY])
    return str(found.status), str(found.message)


def resource(status: str, reason: str, *, generation: int = 1, observed: int | None = 1) -> dict[str, Any]:
    ready = {"type": "Ready", "status": status, "reason": reason, "message": "as it is"}
    if observed is not None:
        ready["observedGeneration"] = observed  # type: ignore[assignment]
    other = {"type": "SchemasReady", "status": "False", "reason": "SchemaConflict", "message": "not asked"}
    return {"metadata": {"generation": generation}, "status": {"conditions": [other, ready]}}


@pytest.mark.parametrize("body", [{}, {"status": {}}, {"status": {"conditions": []}}])
def test_a_resource_that_nobody_has_looked_at_is_progressing(body: dict[str, Any]) -> None:
    assert health({"metadata": {"generation": 1}, **body})[0] == "Progressing"


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        ("True", Reason.RECONCILED, "Healthy"),
        ("False", Reason.SUSPENDED, "Suspended"),
        ("Unknown", Reason.PAUSED, "Suspended"),
        ("Unknown", Reason.PENDING, "Progressing"),
        ("Unknown", Reason.PROGRESSING, "Progressing"),
        ("Unknown", Reason.DATABASE_UNAVAILABLE, "Progressing"),
        ("False", Reason.DELETING, "Progressing"),
        ("False", Reason.INVALID_SPEC, "Degraded"),
        ("False", Reason.SLUG_CONFLICT, "Degraded"),
        ("False", Reason.SCHEMAS_NOT_READY, "Degraded"),
    ],
)
def test_health_follows_the_condition_ready(status: str, reason: Reason, expected: str) -> None:
    for observed in (1, None):
        assert health(resource(status, str(reason), observed=observed)) == (expected, f"{reason}: as it is")


def test_what_was_said_of_an_earlier_generation_does_not_count() -> None:
    assert health(resource("True", "Reconciled", generation=2))[0] == "Progressing"
    assert health(resource("True", "Reconciled", generation=2, observed=2))[0] == "Healthy"


def test_what_the_operator_writes_is_understood() -> None:
    world = OperatorWorld()
    place = world.create(make_spec())
    world.passes(place)
    assert health(world.objects[place])[0] == "Healthy"
    world.change(place, suspended=True)
    assert health(world.objects[place])[0] == "Progressing", "not looked at yet"
    world.passes(place)
    assert health(world.objects[place])[0] == "Suspended"
