"""The examples: what they say of Tenants is what the definition and the operator take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from payrec_operator.reasons import Reason
from payrec_operator.resources import TenantResource
from support.charts import ROOT, documents, tenant_schema

EXAMPLES = sorted(path for path in (ROOT / "deploy" / "examples").rglob("*.yaml") if path.name != "values.yaml")
TENANTS = [path for path in EXAMPLES if path.name.startswith("tenant-")]


def _strict(schema: Any) -> Any:
    """Return the schema with unknown fields refused, as ``kubectl apply`` does, and null where it may be."""
    if isinstance(schema, list):
        return [_strict(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: _strict(member) for name, member in schema.items()}
    if made.get("type") == "object" and "properties" in made:
        made.setdefault("additionalProperties", False)
    if made.get("nullable") is True:
        made["type"] = [made["type"], "null"]
    return made


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_every_example_is_one_object_of_a_kind(path: Path) -> None:
    for document in documents(path.read_text(encoding="utf-8")):
        assert {"apiVersion", "kind", "metadata"} <= document.keys()


@pytest.mark.parametrize("path", TENANTS, ids=lambda p: p.name)
def test_a_tenant_is_as_the_definition_wants_it(path: Path) -> None:
    [tenant] = documents(path.read_text(encoding="utf-8"))
    schema = _strict(tenant_schema()["properties"]["spec"])
    jsonschema.validate(tenant["spec"], schema, cls=jsonschema.Draft202012Validator)
    metadata = {**tenant["metadata"], "namespace": "tenants", "uid": "1"}
    TenantResource.parse({**tenant, "metadata": metadata}).spec()


def test_the_full_example_names_everything_there_is() -> None:
    [tenant] = documents((ROOT / "deploy" / "examples" / "tenant-full.yaml").read_text(encoding="utf-8"))
    spec = tenant_schema()["properties"]["spec"]["properties"]
    assert tenant["spec"].keys() == spec.keys()
    settings = spec["settings"]["properties"]
    assert tenant["spec"]["settings"].keys() == settings.keys()
    for group in ("matching", "ingestion", "approval", "posting", "retention"):
        known = settings[group]["properties"].keys()
        assert tenant["spec"]["settings"][group].keys() == known
    [first, _] = tenant["spec"]["apiKeys"]
    assert first.keys() == spec["apiKeys"]["items"]["properties"].keys()


@pytest.mark.parametrize("name", ["argocd/argocd-cm.yaml", "flux/kustomization.yaml"])
def test_health_checks_compare_reasons_that_there_are(name: str) -> None:
    text = (ROOT / "deploy" / "examples" / name).read_text(encoding="utf-8")
    named = {reason for reason in ("Suspended", "Paused", "Deleting") if reason in text}
    assert {"Suspended", "Deleting"} <= named <= {str(reason) for reason in Reason}


def test_what_is_pushed_are_fields_of_the_secret() -> None:
    text = (ROOT / "deploy" / "examples" / "external-secrets" / "push-secret.yaml").read_text(encoding="utf-8")
    [push] = documents(text)
    pushed = {entry["match"]["secretKey"] for entry in push["spec"]["data"]}
    assert pushed <= {"api-key", "api-key-id", "tenant-id", "environment", "base-url"}
