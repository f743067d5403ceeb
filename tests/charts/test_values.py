"""Values: each has a default, a place in the schema, a description and an effect, and every setting can be reached."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from payrec.config import Config
from support.charts import CHART, MINIMAL, ROOT, VALUES, pod_of, rendered, variables

DEFAULTS: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))

NOT_SET_BY_THE_CHART = {
    "PORT": "8000 in the container; the Service has port 80",
    "INTERNAL_PORT": "9090 in the container",
    "DATA_DIR": "of `payrec dev` alone",
    "KUBERNETES_SERVICE_HOST": "every pod has it",
    "KUBERNETES_SERVICE_PORT": "every pod has it",
    "SERVICE_ACCOUNT_DIR": "where every pod has it",
}
"""Settings that no value reaches, and why."""

NEEDS = {
    "httpRoute.enabled": "httpRoute.parentRefs[0].name=public",
    "worker.keda.enabled": "worker.keda.prometheusUrl=http://prometheus:9090",
}
"""What has to be set beside a switch."""


def _generator() -> ModuleType:
    specification = importlib.util.spec_from_file_location("values_table", ROOT / "charts" / "values_table.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


TABLE = _generator()
DESCRIBED: dict[str, str] = TABLE.descriptions((CHART / "values.yaml").read_text(encoding="utf-8"))
LEAVES: dict[str, Any] = dict(TABLE.leaves(DEFAULTS, DESCRIBED))


def _scalars(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for member in value.values():
            yield from _scalars(member)
    elif isinstance(value, list):
        for member in value:
            yield from _scalars(member)
    else:
        yield value


def _at(values: dict[str, Any], path: str) -> Any:
    found: Any = values
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def test_every_value_has_a_place_in_the_schema_and_a_default() -> None:
    def compare(node: dict[str, Any], given: dict[str, Any], at: str) -> None:
        assert node["additionalProperties"] is False, at
        assert node["properties"].keys() - {"global"} == given.keys() | ({"claims"} & node["properties"].keys()), at
        for name, value in given.items():
            if "properties" in node["properties"][name]:
                compare(node["properties"][name], value, f"{at}.{name}")

    compare(SCHEMA, DEFAULTS, "values")


def test_everything_that_is_given_has_a_bound() -> None:
    def look(node: dict[str, Any], at: str) -> None:
        types = node.get("type")
        types = types if isinstance(types, list) else [types]
        if "integer" in types:
            assert "minimum" in node, at
        if "array" in types:
            assert "maxItems" in node or at.endswith("claims"), at
        if "string" in types and not at.endswith("*"):
            assert {"pattern", "maxLength", "enum"} & node.keys(), at
        for name, member in node.get("properties", {}).items():
            look(member, f"{at}.{name}")

    look({**SCHEMA, "properties": {k: v for k, v in SCHEMA["properties"].items() if k != "global"}}, "values")


def test_every_value_is_described() -> None:
    assert [path for path in LEAVES if path not in DESCRIBED] == []


def test_the_table_of_the_readme_is_that_of_the_values() -> None:
    readme = (CHART / "README.md").read_text(encoding="utf-8")
    values = (CHART / "values.yaml").read_text(encoding="utf-8")
    assert readme == TABLE.written(readme, values), "run: python charts/values_table.py"


def test_every_value_is_given_in_some_case_and_is_seen_in_what_that_renders() -> None:
    # What is left out is not seen; the tests of alerts look at it.
    unseen = {path for path, value in LEAVES.items() if not isinstance(value, bool)} - {"metrics.rules.excludeRules"}
    for case in VALUES:
        given = yaml.safe_load(case.read_text(encoding="utf-8"))
        text = json.dumps(rendered(values=case))
        for path in sorted(unseen):
            value = _at(given, path)
            if value not in (None, LEAVES[path]) and all(str(s) in text for s in _scalars(value)):
                unseen.discard(path)
    assert unseen == set()


@pytest.mark.parametrize("path", [path for path, value in LEAVES.items() if isinstance(value, bool)])
def test_every_switch_changes_what_is_rendered(path: str) -> None:
    more = ["--set", NEEDS[path]] if path in NEEDS else []
    values = None if path == "trial.enabled" else MINIMAL
    as_it_was = [] if path == "trial.enabled" else rendered(values=values)
    assert rendered("--set", f"{path}={str(not LEAVES[path]).lower()}", *more, values=values) != as_it_was


def test_every_setting_of_the_service_can_be_reached() -> None:
    reached: set[str] = set()
    for case in VALUES:
        for pod in filter(None, map(pod_of, rendered(values=case))):
            for container in [*pod.get("initContainers", ()), *pod["containers"]]:
                reached |= variables(container).keys()
    assert {name.upper() for name in Config.model_fields} - reached == NOT_SET_BY_THE_CHART.keys()


def test_the_chart_says_to_artifact_hub_what_it_brings() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    hub = {name.removeprefix("artifacthub.io/"): text for name, text in chart["annotations"].items()}
    assert hub["license"] == "Apache-2.0"
    assert yaml.safe_load(hub["images"]) == [
        {"name": "payrec", "image": f"{DEFAULTS['image']['repository']}:{chart['appVersion']}"},
        {"name": "postgres", "image": DEFAULTS["trial"]["postgres"]["image"]},
    ]
    [definition] = yaml.safe_load(hub["crds"])
    assert (definition["kind"], definition["name"]) == ("Tenant", "tenants.payrec.dev")
    assert {change["kind"] for change in yaml.safe_load(hub["changes"])} <= {
        "added",
        "changed",
        "deprecated",
        "removed",
        "fixed",
        "security",
    }


def test_there_is_a_case_for_each_way_of_running_it() -> None:
    assert {Path(case).name.removesuffix("-values.yaml") for case in VALUES} == {
        "minimal",
        "full",
        "namespaced",
        "monitoring",
        "external-identity-provider",
        "trial",
    }
