"""Dashboards are what their generator makes, in Grafana's own model, and ask for what the processes show."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.charts import CHART, ROOT, rendered
from support.monitoring import METRIC, NO_METRICS, PLACED, exposed

FILES = sorted((CHART / "dashboards").glob("*.json"))
OF_RELEASE = '{namespace=~"$namespace", pod=~"$release(-(api|worker|operator)-.*)?"'
GENERATOR = ROOT / "deploy" / "monitoring" / "dashboards"


def read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def panels(path: Path) -> list[dict[str, Any]]:
    return [panel for panel in read(path)["panels"] if panel["type"] != "row"]


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def file(request: pytest.FixtureRequest) -> Path:
    return Path(str(request.param))


def test_the_committed_ones_are_those_of_the_generator(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-B", str(GENERATOR), str(tmp_path)], check=False, capture_output=True)  # noqa: S603
    assert done.returncode == 0, done.stderr.decode()
    made = {path.name: path.read_bytes() for path in tmp_path.glob("*.json")}
    assert made == {path.name: path.read_bytes() for path in FILES}, f"run: python {GENERATOR.relative_to(ROOT)}"
    assert len(made) == 5


def test_what_is_written_is_known_to_grafanas_model(file: Path) -> None:
    sdk = pytest.importorskip("grafana_foundation_sdk.models.dashboard")
    encoder = pytest.importorskip("grafana_foundation_sdk.cog.encoder").JSONEncoder
    given = read(file)
    again = json.loads(json.dumps(sdk.Dashboard.from_json(given), cls=encoder))
    assert lost(given, again) == []


def lost(given: Any, again: Any, at: str = "") -> list[str]:
    """Return where something is missing or other in what the model has made of it."""
    if isinstance(given, dict):
        assert isinstance(again, dict), at
        return [
            where
            for key, value in given.items()
            for where in (lost(value, again[key], f"{at}.{key}") if key in again else [f"{at}.{key}"])
        ]
    if isinstance(given, list):
        assert isinstance(again, list), at
        pairs = zip(given, again, strict=True)
        return [where for n, (one, other) in enumerate(pairs) for where in lost(one, other, f"{at}[{n}]")]
    return [] if given == again else [at]


def test_what_the_model_does_not_know_is_noticed() -> None:
    pytest.importorskip("grafana_foundation_sdk.models.dashboard")
    given = read(FILES[0])
    given["panels"][1]["titel"] = "x"
    from grafana_foundation_sdk.cog.encoder import JSONEncoder  # noqa: PLC0415 - only where it is there
    from grafana_foundation_sdk.models.dashboard import Dashboard  # noqa: PLC0415

    assert lost(given, json.loads(json.dumps(Dashboard.from_json(given), cls=JSONEncoder))) == [".panels[1].titel"]


def test_every_panel_says_what_it_tells_and_fits_the_grid(file: Path) -> None:
    found = read(file)["panels"]
    assert len({panel["id"] for panel in found}) == len(found)
    taken: set[tuple[int, int]] = set()
    for panel in found:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
        if panel["type"] != "row":
            assert panel["description"].endswith("."), panel["title"]
            assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]) >= 1
    titles = [panel["title"] for panel in panels(file)]
    assert len(set(titles)) == len(titles)


def test_no_data_source_is_named_and_every_query_is_of_the_chosen_releases(file: Path) -> None:
    dashboard = read(file)
    names = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert {"datasource", "namespace", "release"} <= names
    sources = re.findall(r'"uid": "([^"]*)"', json.dumps(dashboard["panels"]))
    assert set(sources) == {"${datasource}"}
    for panel in panels(file):
        for target in panel["targets"]:
            query = target["expr"]
            assert len(METRIC.findall(query)) == query.count(OF_RELEASE), query
            assert set(re.findall(r"\$(\w+)", query)) <= names | {"__rate_interval"}


def test_every_metric_and_label_is_one_that_is_exported(file: Path) -> None:
    known = exposed()
    for panel in panels(file):
        for target in panel["targets"]:
            query = target["expr"]
            used: set[str] = set()
            for name, selector in re.findall(r"\b(payrec_[a-z0-9_]+)\{([^}]*)\}", query):
                assert name in known, name
                assert set(re.findall(r"(\w+)\s*[!=~]+", selector)) <= known[name] | PLACED, (name, selector)
                used |= known[name]
            groups = re.findall(r"\bby \(([^)]*)\)", query)
            assert {label for group in groups for label in group.split(", ")} <= used | PLACED, query
            shown = set(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", "")))
            assert shown <= {label for group in groups for label in group.split(", ")}, target


def test_every_metric_is_on_a_dashboard() -> None:
    asked = "".join(path.read_text(encoding="utf-8") for path in FILES)
    used = {re.sub(r"_(bucket|count|sum)$", "", name) for name in METRIC.findall(asked)}
    every = {re.sub(r"_(bucket|count|sum)$", "", name) for name in exposed()}
    assert every - used == NO_METRICS


def test_they_are_installed_as_labelled_config_maps() -> None:
    objects = rendered(
        "--set", "metrics.dashboards.enabled=true", "--set", "metrics.dashboards.annotations.grafana_folder=payrec"
    )
    maps = [o for o in objects if "dashboard" in o["metadata"]["name"] and o["kind"] == "ConfigMap"]
    assert len(maps) == len(FILES)
    for made in maps:
        assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert made["metadata"]["annotations"] == {"grafana_folder": "payrec"}
        [(name, text)] = made["data"].items()
        assert json.loads(text) == read(CHART / "dashboards" / name.removeprefix("payrec-"))
        assert len(text) < 1_000_000
    assert not [o for o in rendered() if "dashboard" in o["metadata"]["name"]]
