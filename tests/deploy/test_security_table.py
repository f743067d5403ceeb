"""The table of controls names modules, files and tests that there are, and says no test where there is none."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from support.charts import ROOT

TEXT = (ROOT / "deploy" / "security.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in TEXT.splitlines()
    if re.match(r"\| (API\d|V\d)", line)
]
STATES = {"met", "partly", "not met", "yours"}


@cache
def _source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _is_module(name: str) -> bool:
    path = ROOT / "service" / name.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def _is_test(name: str) -> bool:
    file, _, test = name.partition("::")
    path = ROOT / "tests" / file
    return path.is_file() and re.search(rf"^(async )?def {test or 'test_'}", _source(path), re.MULTILINE) is not None


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_names_what_there_is(row: list[str]) -> None:
    _, state, control, where, proof = row
    assert state in STATES
    assert control
    for place in re.findall(r"`([^`]+)`", where):
        assert _is_module(place) if place.startswith("payrec.") else (ROOT / place).exists(), place
    named = re.findall(r"`([^`]+)`", proof)
    assert named or proof.startswith("no test")
    for test in named:
        assert _is_test(test), test
    assert where.startswith("`")


def test_every_risk_and_every_chapter_is_there_and_each_requirement_once() -> None:
    risks = [row[0].split()[0] for row in ROWS if row[0].startswith("API")]
    assert risks == [f"API{number}" for number in range(1, 11)]
    assert re.findall(r"^### V(\d+) ", TEXT, re.MULTILINE) == [str(number) for number in range(1, 17)]
    told = [number for row in ROWS if row[0].startswith("V") for number in row[0].split(", ")]
    assert len(told) == len(set(told)) > 100
    for number in told:
        assert re.fullmatch(r"V\d+\.\d+\.\d+", number)


def test_what_is_not_there_is_noticed() -> None:
    assert not _is_module("payrec.gate.nowhere")
    assert not _is_test("payrec/nowhere.py::test_x")
    assert not _is_test("payrec/test_logs.py::test_nothing_of_that_name")
