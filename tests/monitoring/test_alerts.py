"""Each alert is raised when it should be and at no other time, leads to its page, and is the one of that page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.charts import ROOT, documents, refusal
from support.monitoring import ALERTS, NAMESPACE, SERIES, mutants, promtool, rules, rules_of, write_rules, wrong

CASES = Path(__file__).parent / "alerts"
RUNBOOKS = ROOT / "deploy" / "runbooks"
NAMES = sorted(ALERTS)


def cases_of(alert: str) -> list[dict[str, Any]]:
    [cases] = documents((CASES / f"{alert}.yaml").read_text(encoding="utf-8"))
    return list(cases)


def test_every_alert_has_cases_a_page_and_nothing_is_left_over() -> None:
    assert len(NAMES) == 14
    assert sorted(path.stem for path in CASES.glob("*.yaml")) == NAMES
    assert sorted(path.stem for path in RUNBOOKS.glob("*.md") if path.stem != "README") == NAMES


@pytest.mark.parametrize("alert", NAMES)
def test_an_alert_is_raised_when_it_should_be_and_at_no_other_time(alert: str, tmp_path: Path) -> None:
    found = wrong(tmp_path, {alert: rules_of(alert)}, cases_of(alert))
    assert not found, found[alert]


@pytest.mark.parametrize("alert", NAMES)
def test_an_alert_that_is_changed_anywhere_no_longer_passes_its_cases(alert: str, tmp_path: Path) -> None:
    variants, changes = {}, {}
    for rule in rules_of(alert):
        for change, mutant in mutants(rule):
            name = f"{alert}{len(variants)}"
            variants[name], changes[name] = [mutant], f"{rule['labels']['severity']}: {change}"
    assert len(variants) >= 2
    noticed = wrong(tmp_path, variants, cases_of(alert))
    assert not [changes[name] for name in variants.keys() - noticed.keys()]


@pytest.mark.parametrize("alert", NAMES)
def test_an_alert_says_what_it_is_and_what_to_do(alert: str, tmp_path: Path) -> None:
    for rule in rules_of(alert):
        assert rule["alert"] == alert
        assert rule["labels"]["severity"] in {"critical", "warning"}
        annotations = rule["annotations"]
        assert set(annotations) == {"summary", "description", "runbook_url"}
        assert annotations["runbook_url"].endswith(f"/runbooks/{alert}.md")
        assert len(annotations["summary"]) < 100
        assert annotations["description"].endswith(".")
        # Two releases of one cluster must not be one alert, nor see each other.
        assert "by (namespace" in rule["expr"] or "absent" in rule["expr"]
        assert len(re.findall(r"\bpayrec_", rule["expr"])) == rule["expr"].count("{" + SERIES)
    checked = promtool("check", "rules", str(write_rules(tmp_path, rules_of(alert))))
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("alert", NAMES)
def test_a_page_begins_with_the_expression_that_raises_its_alert(alert: str) -> None:
    page = (RUNBOOKS / f"{alert}.md").read_text(encoding="utf-8")
    block = re.search(r"```promql\n(.*?)```", page, re.DOTALL)
    assert block is not None
    expression = rules_of(alert)[0]["expr"].replace(SERIES, f'namespace="{NAMESPACE}"')
    assert " ".join(block[1].split()) == " ".join(expression.split())


def test_the_expressions_are_those_of_the_releases_namespace() -> None:
    for given in rules("--namespace", "books").values():
        for rule in given:
            assert 'namespace="books"' in rule["expr"]
            assert "payrec-system" not in yaml.safe_dump(rule)
            assert 'namespace="payrec"' not in rule["expr"]


def test_two_releases_of_one_namespace_neither_see_each_other_nor_are_one_alert(tmp_path: Path) -> None:
    # Their pods are told apart also where the name of one begins with that of the other.
    [rule] = rules_of("OperatorAbsent")
    series = 'payrec_operator_build_info{namespace="payrec", pod="%s"}'
    quiet: list[dict[str, str]] = []
    raised = [{"severity": "critical", "namespace": "payrec"}]
    for pod, expected in (
        ("payrec-operator-7d9f5b8c6d-x2x4z", quiet),
        # As a Deployment names its pods where the name of the release is as long as can be.
        ("payrec-operator-7d9f5b8cx2x4z", quiet),
        ("payrec-b-operator-7d9f5b8c6d-x2x4z", raised),
        ("b-payrec-operator-7d9f5b8c6d-x2x4z", raised),
        ("payrec-operator-operator-7d9f5b8c6d-x2x4z", raised),
    ):
        case = {"name": pod, "series": {series % pod: "1x60"}, "alerts": {"30m": expected}}
        found = wrong(tmp_path, {"OperatorAbsent": [rule]}, [case])
        assert not found, found
    of_other = rules("--set", "fullnameOverride=other")
    assert 'pod=~"other-(api|' in of_other["OperatorAbsent"][0]["expr"]


def test_alerts_are_left_out_by_name_and_labelled() -> None:
    found = rules("--set", "metrics.rules.excludeRules={UnmatchedAging,OperatorAbsent}")
    assert set(NAMES) - set(found) == {"UnmatchedAging", "OperatorAbsent"}
    found = rules("--set", "metrics.rules.alertLabels.team=payments,metrics.rules.alertLabels.severity=info")
    assert [rule["labels"] for given in found.values() for rule in given] == (
        [{"team": "payments", "severity": "info", "release": "payrec"}] * sum(map(len, found.values()))
    )
    assert "there is no alert Unmatched" in refusal(
        "--set", "metrics.rules.enabled=true,metrics.rules.excludeRules={Unmatched}"
    )


def test_without_an_operator_nobody_is_told_of_one() -> None:
    of_operator = {name for name, path in ALERTS.items() if path.parent.name == "operator"}
    assert len(of_operator) == 8
    assert set(NAMES) - set(rules("--set", "operator.enabled=false")) == of_operator
