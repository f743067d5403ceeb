"""Alerts as the chart renders them, and promtool, which says when they are raised."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from prometheus_client import CollectorRegistry

from payrec.metrics import Metrics
from payrec_operator.metrics import OperatorMetrics
from support.charts import CHART, one, rendered

ALERTS: Final = {path.stem: path for path in sorted((CHART / "alerts").glob("*/*.yaml"))}
"""The file of each alert."""

NAMESPACE: Final = "payrec"
"""The namespace that the alerts' files and the runbooks speak of."""

SERIES: Final = f'namespace="{NAMESPACE}", pod=~"payrec-(api|worker|operator)-[a-z0-9]+(-[a-z0-9]+)?"'
"""How the rules of a release in that namespace name its own series; the runbooks leave the pods out."""

METRIC: Final = re.compile(r"\bpayrec_[a-z0-9_]+\b")


PLACED: Final = {"pod", "namespace", "exported_namespace", "name", "le"}
"""Labels that a metric has when it is scraped, besides its own."""

NO_METRICS: Final = {
    "payrec_audit_unsealed_changes",
    "payrec_queue_wakeups",
    "payrec_retention_failures_total",
    "payrec_operator_build_info",
}
"""What is on no dashboard: others there say the same, or the log does."""


def exposed() -> dict[str, set[str]]:
    """Return the labels of every series that a process shows, by name."""
    registries = [Metrics().registry, CollectorRegistry()]
    OperatorMetrics(registries[1], resync_seconds=300)
    found: dict[str, set[str]] = {}
    for registry in registries:
        for collector in list(registry._collector_to_names):
            for family in collector.collect():
                own = getattr(collector, "_labelnames", None) or getattr(family, "_labelnames", None)
                suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"]}.get(family.type, [""])
                found |= {f"{family.name}{suffix}": set(own or ()) for suffix in suffixes}
    return found


def program(name: str) -> str:
    """Return where one of Prometheus' programs is, or skip."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not on the PATH: apt-get install prometheus brings it")
    return found


def rules(*arguments: str) -> dict[str, list[dict[str, Any]]]:
    """Return the rules of each alert, as a release in the namespace of the runbooks has them."""
    objects = rendered("--set", "metrics.rules.enabled=true", "--namespace", NAMESPACE, *arguments)
    groups = one(objects, "PrometheusRule")["spec"]["groups"]
    return {group["name"].removeprefix("payrec."): group["rules"] for group in groups}


@cache
def _default_rules() -> dict[str, list[dict[str, Any]]]:
    return rules()


def rules_of(alert: str) -> list[dict[str, Any]]:
    """Return the rules of one alert."""
    return deepcopy(_default_rules()[alert])


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run promtool."""
    return subprocess.run(  # noqa: S603 - our own command
        [program("promtool"), *arguments], capture_output=True, text=True, check=False, timeout=300
    )


def write_rules(folder: Path, given: list[dict[str, Any]]) -> Path:
    """Write rules as Prometheus reads them."""
    path = folder / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "payrec", "rules": given}]}), encoding="utf-8")
    return path


def wrong(folder: Path, variants: Mapping[str, list[dict[str, Any]]], cases: list[Mapping[str, Any]]) -> dict[str, str]:
    """Play cases to the variants of an alert; return what promtool finds wrong, by the variant's name.

    A case has a ``name``, ``series`` as promtool writes them, the ``interval`` of their samples (1m unless told
    otherwise), and ``alerts``: at an instant, the labels of all that are raised, besides the release's name.
    Annotations are left out, and what is expected of a severity that a variant has no rule of.
    """
    bare = [
        {**{key: value for key, value in rule.items() if key != "annotations"}, "alert": name}
        for name, given in variants.items()
        for rule in given
    ]
    severities = {name: {rule["labels"]["severity"] for rule in given} for name, given in variants.items()}
    tests = [
        {
            "name": case["name"],
            "interval": case.get("interval", "1m"),
            "input_series": [{"series": name, "values": str(values)} for name, values in case["series"].items()],
            "alert_rule_test": [
                {
                    "eval_time": at,
                    "alertname": name,
                    "exp_alerts": [
                        {"exp_labels": {"release": "payrec", **labels}}
                        for labels in expected
                        if labels["severity"] in of
                    ],
                }
                for at, expected in case["alerts"].items()
                for name, of in severities.items()
            ],
        }
        for case in cases
    ]
    every = min((case.get("interval", "1m") for case in cases), key=("30s", "1m", "2m", "30m").index)
    written = {"rule_files": [write_rules(folder, bare).name], "evaluation_interval": every, "tests": tests}
    path = folder / "tests.yaml"
    path.write_text(yaml.safe_dump(written), encoding="utf-8")
    done = promtool("test", "rules", str(path))
    said = done.stdout + done.stderr
    assert "SUCCESS" in said or re.search(r"alertname: \w+, time:", said), said
    found: dict[str, str] = {}
    case_name = ""
    for block in re.split(r"(?=^    name: |^    alertname: )", said, flags=re.MULTILINE):
        if block.startswith("    name: "):
            case_name = block.strip()
        elif (named := re.match(r"    alertname: (\w+), ", block)) is not None:
            found[named[1]] = found.get(named[1], "") + f"{case_name}\n{block}"
    return found


_TURNED: Final = {">": "<", "<": ">", "==": "!=", "!=": "==", ">=": "<="}
_OUTSIDE: Final = r"(?![^{\[]*[}\]])"
"""Not within braces or brackets."""


def mutants(rule: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return a rule with one thing changed in each: a comparison, a number, a matcher, how long it has to last."""
    expression = str(rule["expr"])

    def changed(match: re.Match[str], by: str) -> dict[str, Any]:
        return {**rule, "expr": expression[: match.start()] + by + expression[match.end() :]}

    for match in re.finditer(r"(?<=\s)(>=|==|!=|>|<)(?=\s)" + _OUTSIDE, expression):
        yield f"{match[0]} turned at {match.start()}", changed(match, _TURNED[match[0]])
    for match in re.finditer(r"(?<![*] )(?<=\s)-?\d+(\.\d+)?(?=\s|$)" + _OUTSIDE, expression):
        for factor in (2, 0.5):
            if float(match[0]):
                yield f"{match[0]} times {factor} at {match.start()}", changed(match, f"{float(match[0]) * factor:g}")
    # That every selector is of the release is looked at by itself.
    for match in re.finditer(r'(?<=[{ ])(?!namespace=|pod=~)\w+=~?"[^"]*"(, )?', expression):
        yield f"without {match[0]} at {match.start()}", changed(match, "")
    for match in re.finditer(r"^(and|unless)$", expression, re.MULTILINE):
        yield f"{match[0]} turned at {match.start()}", changed(match, "unless" if match[0] == "and" else "and")
    if "for" in rule:
        yield "at once", {key: value for key, value in rule.items() if key != "for"}
        number, unit = re.fullmatch(r"(\d+)([mh])", rule["for"]).groups()  # type: ignore[union-attr]
        yield "later", {**rule, "for": f"{2 * int(number)}{unit}"}
