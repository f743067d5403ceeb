"""What service/README.md lists is what there is: events, jobs, tasks of the clock, metrics, and what is kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from payrec.jobs.app import create_app
from payrec.metrics import Metrics
from payrec.models.jobs import JobCreate
from payrec.services.retention import KINDS
from payrec.shared_gauges import CENSUS, QUEUES
from payrec.storage import changes, control_outbox

TEXT = (Path(__file__).parents[2] / "service" / "README.md").read_text()
WITHOUT_RECORD = {"audit.sealed"}
"""Events of which the audit log tells nothing."""


def section(title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[1]


def test_the_events_that_are_told_of_are_listed() -> None:
    found = re.search(r"^- \*\*Told of\*\* are (.*?)\. The other types", TEXT, re.MULTILINE | re.DOTALL)
    assert found is not None
    listed = set()
    for part in found[1].split(";"):
        first, *others = re.findall(r"`([a-z_.]+)`", part)
        noun = first.split(".")[0]
        listed |= {first, *(f"{noun}.{verb}" for verb in others)}
    assert listed == changes.EVENT_TYPES | control_outbox.EVENT_TYPES | WITHOUT_RECORD


def test_the_kinds_of_jobs_and_the_tasks_of_the_clock_are_listed() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \|", section("Jobs"), re.MULTILINE)
    kinds = {*get_args(JobCreate.model_fields["kind"].annotation), "import", "learn", "erasure"}
    registry = create_app(url="postgresql://nowhere.invalid/").periodic_registry
    tasks = {periodic.task.name for periodic in registry.periodic_tasks.values()}
    assert len(rows) == len(set(rows))
    assert set(rows) == kinds | tasks


def test_every_metric_is_listed() -> None:
    listed = set(re.findall(r"payrec_[a-z_]+", section("Logs, health and metrics")))
    shown = set()
    for family in Metrics().registry.collect():
        shown.add(f"{family.name}_total" if family.type == "counter" else family.name)
    assert set(QUEUES) | set(CENSUS) <= shown
    assert shown - listed == set()
    assert listed - shown - {"payrec_"} == set()


def test_whatever_is_kept_for_a_time_is_listed() -> None:
    rows = re.findall(r"^\| (`[^|]*) \|", section("What is kept, and for how long"), re.MULTILINE)
    listed = set(re.findall(r"`([a-z_]+)`", " ".join(rows)))
    assert listed == {kept.name for kept in KINDS} | {"webhook_deliveries"}
