"""Every query of a panel and of an alert finds something in a real Prometheus that scrapes all three processes."""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from payrec.embedded.postgres import EmbeddedPostgres
from support.charts import CHART, one, rendered
from support.monitored import monitored, working
from support.monitoring import ALERTS, NAMESPACE, program, rules_of
from support.postgres import cloned
from support.prometheus import Prometheus, prometheus

pytestmark = pytest.mark.anyio

DASHBOARDS = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted((CHART / "dashboards").glob("*.json"))
}
KEDA = "worker.keda.enabled=true,worker.keda.prometheusUrl=http://prometheus:9090"
CHOSEN = {"$namespace": NAMESPACE, "$release": "payrec", "$currency": ".*", "$__rate_interval": "1m"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What Prometheus has seen, and from when to when it happened."""

    prometheus: Prometheus
    since: float
    until: float

    async def now(self, query: str) -> list[dict[str, Any]]:
        """Ask for the end: an instant at which nobody was too busy to be scraped."""
        return await self.prometheus.instant(query, at=self.until)

    async def ever(self, query: str) -> list[dict[str, Any]]:
        """Ask for all of it."""
        return await self.prometheus.over(query, since=self.since, until=self.until)


@asynccontextmanager
async def seen(postgres: EmbeddedPostgres, folder: Path) -> AsyncIterator[Seen]:
    """Let Prometheus see everything happen twice, and before that nothing."""
    with cloned(postgres) as database:
        async with monitored(database) as scene:
            targets = {
                name: (port, {"namespace": NAMESPACE, "pod": f"payrec-{name}-0", "container": name})
                for name, port in scene.ports.items()
            }
            async with prometheus(folder, targets) as started:
                since = time.time()
                await started.scraped(after=since)
                for gauge in ("payrec_queue_age_seconds", 'payrec_jobs_open_age_seconds{status="queued"}'):
                    await started.shown(gauge)
                async with working(scene):
                    for _ in range(2):
                        await scene.act()
                        await started.scraped(after=time.time())
                    found = Seen(prometheus=started, since=since, until=time.time())
                yield found


async def without_data(seen: Seen, panel: dict[str, Any]) -> list[str]:
    """Return the queries of a panel that find nothing, or not what their series are called by."""
    missing = []
    for target in panel["targets"]:
        query = chosen(target["expr"])
        assert "$" not in query
        is_instant = target.get("instant") or panel["type"] == "stat"
        found = await (seen.now(query) if is_instant else seen.ever(query))
        labels = set(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", "")))
        if not any(labels <= set(one["metric"]) for one in found):
            missing.append(query)
    return missing


def chosen(query: str) -> str:
    """Return a query in which a reader's choice stands for the variables."""
    for variable, value in CHOSEN.items():
        query = query.replace(variable, value)
    return query


async def without_values(seen: Seen, variable: dict[str, Any]) -> list[str]:
    """Return the query of a variable if it has no values."""
    found = re.fullmatch(r"label_values\((\w+(?:\{.*\})?), (\w+)\)", chosen(variable["query"]["query"]))
    assert found is not None
    values = await seen.prometheus.ask(f"label/{found[2]}/values", **{"match[]": found[1]})
    regex = re.compile(variable["regex"].strip("/"))
    return [] if any(map(regex.search, values)) else [found[0]]


async def without_series(seen: Seen, rule: dict[str, Any]) -> list[str]:
    """Return the selectors of an alert that find nothing."""
    await seen.now(rule["expr"])
    selectors = re.findall(r"payrec_[a-z_]+\{[^}]*\}", rule["expr"])
    assert selectors
    # Nothing of the scene is answered with 5xx.
    asked = [selector.replace('status=~"5.."', 'status=~".*"') for selector in selectors]
    return [selector for selector in asked if not await seen.ever(selector)]


async def test_no_query_of_a_panel_or_an_alert_is_without_data(postgres: EmbeddedPostgres, tmp_path: Path) -> None:
    program("prometheus")
    missing: dict[str, list[str]] = {}
    asked = 0
    async with seen(postgres, tmp_path) as found:
        for name, dashboard in DASHBOARDS.items():
            for panel in dashboard["panels"]:
                if panel["type"] != "row":
                    asked += 1
                    missing[f"{name}: {panel['title']}"] = await without_data(found, panel)
            for variable in dashboard["templating"]["list"]:
                if variable["type"] == "query":
                    missing[f"{name}: {variable['name']}"] = await without_values(found, variable)
        for alert in sorted(ALERTS):
            for rule in rules_of(alert):
                missing[f"{alert} {rule['labels']['severity']}"] = await without_series(found, rule)
        assert {name: queries for name, queries in missing.items() if queries} == {}
        assert asked >= 70
        assert await without_data(found, {"type": "stat", "targets": [{"expr": 'up{job="nobody"}'}]})
        # A release whose name begins like another's is another.
        [query] = [
            target["expr"]
            for panel in DASHBOARDS["service"]["panels"]
            for target in panel.get("targets", ())
            if "payrec_build_info" in target["expr"]
        ]
        assert await found.ever(chosen(query))
        assert not await found.ever(chosen(query.replace("$release", "pay")))

        # What workers are counted by, seen where it comes to something.
        scaler = one(rendered("--namespace", NAMESPACE, "--set", KEDA), "ScaledObject")
        query = scaler["spec"]["triggers"][0]["metadata"]["query"]
        assert await found.ever(f"({query}) > 0")

        # Of what an operator tells of Tenants, their namespace stands beside its own.
        conditions = await found.now("payrec_operator_tenant_condition")
        places = {(one["metric"]["namespace"], one["metric"]["exported_namespace"]) for one in conditions}
        assert places == {(NAMESPACE, "shop")}
