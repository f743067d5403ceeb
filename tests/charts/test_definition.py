"""The definition of the Tenant resource, as far as it can be looked at without an API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from payrec.domain.principal import ENVIRONMENTS, ROLES
from payrec.domain.slugs import RESERVED
from payrec.models.tenants import Settings
from support.charts import tenant_definition, tenant_schema


def _nodes(schema: dict[str, Any], at: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield at, schema
    for name, member in schema.get("properties", {}).items():
        yield from _nodes(member, f"{at}.{name}")
    if isinstance(schema.get("items"), dict):
        yield from _nodes(schema["items"], f"{at}[]")


def test_everything_that_people_write_has_a_bound() -> None:
    for at, node in _nodes(tenant_schema()["properties"]["spec"]):
        if node["type"] == "string" and "enum" not in node:
            assert "maxLength" in node, at
        elif node["type"] == "array":
            assert "maxItems" in node, at
        elif node["type"] in {"integer", "number"}:
            assert {"minimum", "maximum"} <= node.keys(), at
        elif node["type"] == "object":
            assert "properties" in node, f"{at} is open"


def test_settings_have_no_defaults_because_what_is_named_is_taken_from_the_api() -> None:
    settings = tenant_schema()["properties"]["spec"]["properties"]["settings"]
    # Of a rule, a limit or a code, what makes it one is required: a list is taken whole.
    named = [(at, node) for at, node in _nodes(settings) if "[]" not in at]
    assert [at for at, node in named if "default" in node or "required" in node] == []
    assert not [at for at, node in _nodes(settings) if "default" in node]


def _compare(model: type[BaseModel], schema: dict[str, Any], at: str) -> None:
    fields = {to_camel(name): field for name, field in model.model_fields.items()}
    assert schema["properties"].keys() == fields.keys(), at
    described = model.model_json_schema(by_alias=True)
    for name, field in fields.items():
        annotation = field.annotation
        node = schema["properties"][name]
        models = [part for part in (annotation, *get_args(annotation)) if isinstance(part, type)]
        models = [part for part in models if issubclass(part, BaseModel)]
        if models:
            _compare(models[0], node["items"] if node["type"] == "array" else node, f"{at}.{name}")
            continue
        theirs = described["properties"][name]
        if "anyOf" in theirs:
            # Of a rule nothing is null: what is not said is left out.
            assert node.get("nullable", False) is not at.endswith(("rules", "scope", "classify")), name
            [theirs] = [part for part in theirs["anyOf"] if part["type"] != "null"]
        if len(theirs.get("enum", ())) > 100:
            # ISO's list of currencies changes, and the definition does not with it; the service looks at that.
            del theirs["enum"], node["pattern"]
        for keyword in ("type", "enum", "minimum", "maximum", "pattern", "maxItems"):
            assert node.get(keyword) == theirs.get(keyword), f"{at}.{name}: {keyword}"


def test_settings_are_exactly_those_of_the_service() -> None:
    _compare(Settings, tenant_schema()["properties"]["spec"]["properties"]["settings"], "settings")


def test_environments_and_reserved_slugs_are_those_of_the_service() -> None:
    spec = tenant_schema()["properties"]["spec"]["properties"]
    names = spec["environments"]["items"]["properties"]["name"]["enum"]
    assert set(names) == set(ENVIRONMENTS)
    assert {entry["name"] for entry in spec["environments"]["default"]} == set(ENVIRONMENTS)
    [rule] = [r["rule"] for r in spec["slug"]["x-kubernetes-validations"] if "pg-" in r["rule"]]
    listed = rule.partition("[")[2].partition("]")[0]
    assert {word.strip().strip("'") for word in listed.split(",")} == set(RESERVED)


def test_the_printed_columns_are_these() -> None:
    [version] = tenant_definition()["spec"]["versions"]
    columns = [c["name"] for c in version["additionalPrinterColumns"] if not c.get("priority")]
    assert columns == ["Ready", "Reason", "Slug", "Environments", "Age"]
    assert not any("[*]" in c["jsonPath"] for c in version["additionalPrinterColumns"])


def test_nothing_in_the_spec_could_hold_a_secret() -> None:
    names = {at.rpartition(".")[2] for at, _ in _nodes(tenant_schema())}
    assert not [name for name in names if "password" in name.lower() or name in {"key", "apiKey", "secret", "hash"}]


@pytest.mark.parametrize("path", ["spec", "status"])
def test_lists_of_objects_are_merged_by_their_key(path: str) -> None:
    for at, node in _nodes(tenant_schema()["properties"][path]):
        if node["type"] == "array" and node["items"].get("properties"):
            assert node["x-kubernetes-list-type"] == "map", at
            assert node["x-kubernetes-list-map-keys"], at
            assert set(node["x-kubernetes-list-map-keys"]) <= set(node["items"]["required"]), at


def test_roles_are_those_of_the_service() -> None:
    spec = tenant_schema()["properties"]["spec"]["properties"]
    roles = spec["users"]["items"]["properties"]["roles"]["items"]["enum"]
    assert set(roles) == set(ROLES) - {"platform-admin"}
