"""What a dashboard is made of, as plain data in Grafana's model: panels say what they ask, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

SCHEMA_VERSION: Final = 39
"""Of the model: Grafana 11, which older ones read and newer ones migrate."""

COLUMNS: Final = 24
"""Of Grafana's grid."""

SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
"""Whichever the reader chooses."""

INSTALLATION: Final = 'namespace=~"$namespace", pod=~"$release(-(api|worker|operator)-.*)?"'
"""The matchers that every query has: installations of one Prometheus are told apart by them, also two releases in one
namespace. Of all releases, what has no pod is one as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A PromQL expression, and what its series are called."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel: a title, what it tells in a sentence, its queries, and the unit of their values."""

    title: str
    text: str
    queries: Sequence[Query]
    unit: str = "short"
    kind: str = "timeseries"
    """``timeseries``, ``stat``, ``table`` or ``bargauge``."""
    width: int = 8
    height: int = 8
    stacked: bool = False
    thresholds: Sequence[tuple[float | None, str]] = ()
    """From which value on which colour; the first has None."""
    decimals: int | None = None
    highest: float | None = None
    hidden: Sequence[str] = ()
    """Columns of a table that say nothing."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Columns of a table that are called otherwise."""

    def rendered(self, number: int, *, x: int, y: int) -> dict[str, Any]:
        """Return the panel in Grafana's model, at a place of the grid."""
        made: dict[str, Any] = {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.text,
            "datasource": SOURCE,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height},
            "targets": [self._target(query, chr(ord("A") + n)) for n, query in enumerate(self.queries)],
            "fieldConfig": {"defaults": self._defaults(), "overrides": []},
            "options": self._options(),
        }
        if self.kind == "table":
            hidden = dict.fromkeys(["Time", *self.hidden], True)
            made["transformations"] = [
                {"id": "organize", "options": {"excludeByName": hidden, "renameByName": dict(self.renamed)}}
            ]
        return made

    def _target(self, query: Query, letter: str) -> dict[str, Any]:
        target: dict[str, Any] = {"refId": letter, "datasource": SOURCE, "expr": query.expr}
        if self.kind == "table":
            return {**target, "format": "table", "instant": True, "range": False}
        if self.kind == "bargauge":
            return {**target, "legendFormat": query.legend, "instant": True, "range": False}
        return {**target, "legendFormat": query.legend, "range": True}

    def _defaults(self) -> dict[str, Any]:
        steps = [{"value": value, "color": color} for value, color in self.thresholds or [(None, "green")]]
        made: dict[str, Any] = {"unit": self.unit, "thresholds": {"mode": "absolute", "steps": steps}}
        if self.unit not in {"dateTimeFromNow", "dtdurations"}:
            made["min"] = 0.0
        if self.highest is not None:
            made["max"] = self.highest
        if self.decimals is not None:
            made["decimals"] = float(self.decimals)
        if self.kind == "timeseries":
            made["custom"] = {
                "drawStyle": "line",
                "lineWidth": 1.0,
                "fillOpacity": 40.0 if self.stacked else 10.0,
                "showPoints": "never",
                "stacking": {"mode": "normal" if self.stacked else "none", "group": "A"},
            }
        else:
            made["color"] = {"mode": "thresholds"}
        return made

    def _options(self) -> dict[str, Any]:
        last = {"calcs": ["lastNotNull"], "fields": "", "values": False}
        if self.kind == "timeseries":
            legend = {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []}
            return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
        if self.kind == "stat":
            return {"reduceOptions": last, "colorMode": "value", "graphMode": "area", "textMode": "auto"}
        if self.kind == "bargauge":
            return {"reduceOptions": last, "orientation": "horizontal", "displayMode": "basic"}
        return {"showHeader": True, "cellHeight": "sm"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """What the reader chooses besides the data source: values of a label."""

    name: str
    label: str
    query: str
    """Such as ``label_values(metric, label)``."""
    several: bool = True
    regex: str = ""
    """Whose first group is what is chosen of a value."""

    def rendered(self) -> dict[str, Any]:
        """Return the variable in Grafana's model."""
        made: dict[str, Any] = {
            "type": "query",
            "name": self.name,
            "label": self.label,
            "datasource": SOURCE,
            "query": {"query": self.query, "refId": "A"},
            "regex": self.regex,
            "refresh": 2,
            "sort": 1,
            "multi": self.several,
            "includeAll": self.several,
            "options": [],
        }
        if self.several:
            made["allValue"] = ".*"
            made["current"] = {"selected": True, "text": ["All"], "value": ["$__all"]}
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """A dashboard: rows of panels, each row with a title."""

    uid: str
    title: str
    text: str
    rows: Sequence[tuple[str, Sequence[Panel]]]
    variables: Sequence[Variable] = ()

    def rendered(self) -> dict[str, Any]:
        """Return the dashboard in Grafana's model."""
        chosen = [
            Variable(name="namespace", label="Namespace", query="label_values(payrec_build_info, namespace)"),
            Variable(
                name="release",
                label="Release",
                query='label_values(payrec_build_info{namespace=~"$namespace"}, pod)',
                regex="/^(.+)-(?:api|worker|operator)-/",
            ),
        ]
        source: dict[str, Any] = {
            "type": "datasource",
            "name": "datasource",
            "label": "Prometheus",
            "query": "prometheus",
            "refresh": 1,
            "multi": False,
            "includeAll": False,
            "options": [],
        }
        link = {
            "type": "dashboards",
            "title": "payrec",
            "icon": "external link",
            "tooltip": "",
            "tags": ["payrec"],
            "asDropdown": True,
            "targetBlank": False,
            "includeVars": True,
            "keepTime": True,
        }
        return {
            "uid": f"payrec-{self.uid}",
            "title": f"payrec / {self.title}",
            "description": self.text,
            "tags": ["payrec"],
            "schemaVersion": SCHEMA_VERSION,
            "version": 1,
            "timezone": "browser",
            "editable": True,
            "graphTooltip": 1,
            "refresh": "1m",
            "time": {"from": "now-6h", "to": "now"},
            "links": [link],
            "annotations": {"list": []},
            "templating": {"list": [source, *(v.rendered() for v in (*chosen, *self.variables))]},
            "panels": self._panels(),
        }

    def _panels(self) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        y = 0
        for title, panels in self.rows:
            row = {"id": len(made) + 1, "type": "row", "title": title, "collapsed": False, "panels": []}
            made.append({**row, "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1}})
            x, y, tallest = 0, y + 1, 0
            for panel in panels:
                if x + panel.width > COLUMNS:
                    x, y, tallest = 0, y + tallest, 0
                made.append(panel.rendered(len(made) + 1, x=x, y=y))
                x, tallest = x + panel.width, max(tallest, panel.height)
            y += tallest
        return made


def metric(name: str, *matchers: str) -> str:
    """Return the selector of a metric of the chosen installations."""
    return f"{name}{{{', '.join((INSTALLATION, *matchers))}}}"


def rate(name: str, *matchers: str, by: str = "") -> str:
    """Return how much a counter grows a second, of all processes together."""
    return f"sum{_by(by)} (rate({metric(name, *matchers)}[$__rate_interval]))"


def increase(name: str, window: str, *matchers: str, by: str = "") -> str:
    """Return how much a counter has grown in a window."""
    return f"sum{_by(by)} (increase({metric(name, *matchers)}[{window}]))"


def greatest(name: str, *matchers: str, by: str = "") -> str:
    """Return the value of a gauge that every process shows alike."""
    return f"max{_by(by)} ({metric(name, *matchers)})"


def quantile(share: float, name: str, *matchers: str, by: str = "") -> str:
    """Return a quantile of a histogram."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, {rate(f'{name}_bucket', *matchers, by=labels)})"


def _by(labels: str) -> str:
    return f" by ({labels})" if labels else ""
