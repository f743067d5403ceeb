"""Workers by what waits and what runs: the ScaledObject, and what its query comes to in Prometheus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from support.charts import CHART, one, refusal, rendered
from support.monitoring import exposed, promtool

ON = ("--set", "worker.keda.enabled=true,worker.keda.prometheusUrl=http://prometheus.monitoring:9090")
MONITORING = CHART / "ci" / "monitoring-values.yaml"

TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["scaleTargetRef", "triggers"],
    "properties": {
        "scaleTargetRef": {
            "type": "object",
            "additionalProperties": False,
            "required": ["name"],
            "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "name": {"type": "string"}},
        },
        "pollingInterval": {"type": "integer"},
        "minReplicaCount": {"type": "integer"},
        "maxReplicaCount": {"type": "integer"},
        "advanced": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "horizontalPodAutoscalerConfig": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {"behavior": {"type": "object"}},
                }
            },
        },
        "triggers": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["type", "metadata"],
                "properties": {
                    "type": {"type": "string"},
                    "metricType": {"enum": ["AverageValue", "Value", "Utilization"]},
                    "metadata": TEXTS,
                    "authenticationRef": {**TEXTS, "required": ["name"]},
                },
            },
        },
    },
}
"""What KEDA's definition (keda.sh/v1alpha1) says of the fields that are used here, and no others."""

WORKER = 'payrec_worker_jobs{namespace="payrec-system", pod="payrec-worker-%s", kind="%s", state="%s"}'
WAITS = 'payrec_queue_wakeups{namespace="payrec-system", pod="%s", kind="%s"}'
IDLE = {WORKER % (0, "match", "running"): 0, WORKER % (0, "match", "held"): 0}


def scaled(*arguments: str, **options: Any) -> dict[str, Any]:
    return one(rendered(*arguments, **options), "ScaledObject", "payrec-worker")


def query_of(scaler: dict[str, Any]) -> str:
    [trigger] = scaler["spec"]["triggers"]
    query: str = trigger["metadata"]["query"]
    return query


@pytest.mark.parametrize("options", [{}, {"values": MONITORING}])
def test_it_has_the_fields_that_keda_knows(options: dict[str, Any]) -> None:
    spec = scaled(*(() if options else ON), **options)["spec"]
    jsonschema.validate(spec, SCHEMA)
    # KEDA's Prometheus scaler refuses a trigger without these.
    assert {"serverAddress", "query", "threshold"} <= spec["triggers"][0]["metadata"].keys()


def test_pods_are_counted_by_keda_or_by_the_deployment() -> None:
    assert not [o for o in rendered() if o["kind"] == "ScaledObject"]
    objects = rendered(*ON)
    scaler = one(objects, "ScaledObject")["spec"]
    worker = one(objects, "Deployment", scaler["scaleTargetRef"]["name"])
    assert worker["metadata"]["labels"]["app.kubernetes.io/component"] == "worker"
    assert "replicas" not in worker["spec"]
    assert one(objects, "Deployment", "payrec-api")["spec"]["replicas"] == 2
    assert (scaler["minReplicaCount"], scaler["maxReplicaCount"]) == (2, 10)


def test_there_is_always_a_worker() -> None:
    # It seals, delivers and pulls, for which nothing waits in the queue.
    assert "minReplicas" in refusal(*ON, "--set", "worker.keda.minReplicas=0")


@pytest.mark.parametrize("name", ["query", "threshold", "serverAddress", "ignoreNullValues"])
def test_what_the_chart_says_of_the_trigger_is_said_once(name: str) -> None:
    assert "triggerMetadata" in refusal(*ON, "--set-string", f"worker.keda.triggerMetadata.{name}=1")


def test_the_query_asks_for_what_processes_show() -> None:
    shown = exposed()
    for name, labels in (("payrec_queue_wakeups", {"kind"}), ("payrec_worker_jobs", {"kind", "state"})):
        assert f"{name}{{" in query_of(scaled(*ON))
        assert shown[name] == labels


CASES: list[tuple[str, dict[str, int], float | None]] = [
    ("nothing waits, nothing runs", IDLE, 0),
    (
        "what waits is shown by everybody alike, and counts once",
        {
            **IDLE,
            **{WAITS % (pod, "match"): 3 for pod in ("payrec-api-0", "payrec-worker-0")},
            **{WAITS % (pod, "import"): 2 for pod in ("payrec-api-0", "payrec-worker-0")},
        },
        5,
    ),
    (
        "what runs counts for each worker, and goes on counting when nothing waits",
        {WORKER % (0, "match", "running"): 2, WORKER % (1, "match", "running"): 1, WORKER % (1, "import", "held"): 7},
        3,
    ),
    ("both", {WORKER % (0, "match", "running"): 2, WAITS % ("payrec-worker-0", "match"): 4}, 6),
    ("another release has another namespace", {**IDLE, 'payrec_queue_wakeups{namespace="b", kind="match"}': 9}, 0),
    (
        "nor does one in this namespace count",
        {
            **IDLE,
            (WORKER % (0, "match", "running")).replace("payrec-worker", "b-payrec-worker"): 3,
            WAITS % ("payrec-b-api-0", "match"): 9,
        },
        0,
    ),
    ("of workers that are not seen nothing is said", {WAITS % ("payrec-api-0", "match"): 4}, None),
]


def test_the_query_comes_to_what_waits_and_what_runs(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("groups: []\n", encoding="utf-8")
    tests = [
        {
            "name": name,
            "interval": "1m",
            "input_series": [{"series": key, "values": f"{value}x3"} for key, value in series.items()],
            "promql_expr_test": [
                {
                    "expr": query_of(scaled(*ON)),
                    "eval_time": "2m",
                    # One series without labels, as KEDA wants it.
                    "exp_samples": [] if expected is None else [{"labels": "{}", "value": expected}],
                }
            ],
        }
        for name, series, expected in CASES
    ]
    path = tmp_path / "tests.yaml"
    path.write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": tests}), encoding="utf-8")
    done = promtool("test", "rules", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
