"""Reasons and conditions: each is explained, and each is of the kind that the resource's definition accepts."""

from __future__ import annotations

import ast
import inspect
import re
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec_operator import reasons
from payrec_operator.conditions import TYPES, Condition, instant, merge_conditions, rendered, shortened
from payrec_operator.constants import CONDITIONS_MAX, MESSAGE_LENGTH_MAX
from payrec_operator.outcome import retry_delay
from payrec_operator.reasons import Reason

README = Path(__file__).resolve().parents[2] / "operator" / "README.md"
PATTERN = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
"""What the resource's definition lets a reason be."""

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_every_reason_has_a_sentence() -> None:
    tree = ast.parse(inspect.getsource(reasons))
    (body,) = [node.body for node in tree.body if isinstance(node, ast.ClassDef)]
    told = {
        target.id
        for node, after in pairwise(body)
        if isinstance(node, ast.Assign)
        and isinstance(target := node.targets[0], ast.Name)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
    }
    assert told == {reason.name for reason in Reason}


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_is_in_the_readme_with_what_to_do(reason: Reason) -> None:
    rows = re.findall(rf"^\| {reason} \| .+ \| .+ \| .+ \|$", README.read_text(), flags=re.MULTILINE)
    assert rows or (reason is Reason.SECRET_ROTATED and f"`{reason}`" in README.read_text())
    assert PATTERN.fullmatch(reason)


def test_the_readme_names_no_reason_that_there_is_not() -> None:
    text = README.read_text().split("## Conditions and reasons")[1].split("## What becomes of a key")[0]
    rows = re.findall(r"^\| ([A-Z][A-Za-z]+) \| (?:True|False|Unknown)", text, flags=re.MULTILINE)
    assert set(rows) <= {str(reason) for reason in Reason}


@pytest.mark.parametrize("kind", TYPES)
def test_every_condition_is_in_the_readme(kind: str) -> None:
    assert f"**{kind}**" in README.read_text()


def make_condition(kind: str = "Ready", status: str = "True", at: datetime = START) -> dict[str, Any]:
    condition = Condition(type=kind, status=status, reason=Reason.PENDING, message="m")  # type: ignore[arg-type]
    return rendered(condition, generation=1, now=at)


statuses = st.sampled_from(["True", "False", "Unknown"])


@given(statuses, statuses, st.integers(0, 10**6))
def test_the_time_of_a_condition_changes_with_its_status_alone(before: str, after: str, seconds: int) -> None:
    later = START + timedelta(seconds=seconds)
    (merged,) = merge_conditions([make_condition(status=before)], [make_condition(status=after, at=later)])
    assert merged["lastTransitionTime"] == instant(START if before == after else later)
    assert merge_conditions([merged], [merged]) == [merged]


@given(st.lists(st.sampled_from(["x.example/A", "x.example/B", "Ready", "Rotating"]), unique=True))
def test_conditions_of_others_stay_and_ours_that_are_over_go(kinds: list[str]) -> None:
    found = [make_condition(kind) for kind in kinds]
    merged = merge_conditions(found, [make_condition()])
    assert [c["type"] for c in merged] == ["Ready", *(k for k in kinds if "/" in k)]


@pytest.mark.parametrize("found", [None, "x", 3, [None], [{"type": 3}], [{"status": "True"}], {"a": 1}])
def test_what_is_no_condition_is_left_out(found: Any) -> None:
    assert [c["type"] for c in merge_conditions(found, [make_condition()])] == ["Ready"]


def test_there_are_never_more_conditions_than_the_definition_allows() -> None:
    found = [make_condition(f"x.example/{n}") for n in range(30)]
    assert len(merge_conditions(found, [make_condition()])) == CONDITIONS_MAX


def test_messages_and_instants_are_as_kubernetes_has_them() -> None:
    assert len(shortened("x" * 5000)) == MESSAGE_LENGTH_MAX
    assert instant(datetime(2026, 3, 1, 2, 30, 15, 999, tzinfo=timezone(timedelta(hours=2)))) == "2026-03-01T00:30:15Z"


@given(st.integers(0, 10**6), st.floats(0, 1))
def test_the_wait_after_a_failed_pass_is_bounded_and_jittered(attempt: int, jitter: float) -> None:
    assert timedelta(seconds=2.5) <= retry_delay(attempt, jitter) <= timedelta(seconds=300)
    assert retry_delay(attempt, 0) <= retry_delay(attempt, jitter) <= retry_delay(attempt, 1)
    assert retry_delay(attempt, 1) <= retry_delay(attempt + 1, 1)
