"""What is kept in the folder of a run: which mutants there are, and how each of them ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

_MUTANTS: Final = "mutants.json"
_RESULTS: Final = "results.jsonl"


def write_mutants(folder: Path, names: list[str]) -> None:
    """Keep the names of the mutants."""
    (folder / _MUTANTS).write_text(json.dumps(names), encoding="utf-8")


def mutants(folder: Path) -> list[str]:
    """Return the names of the mutants."""
    names: list[str] = json.loads((folder / _MUTANTS).read_text(encoding="utf-8"))
    return names


def add(folder: Path, mutant: str, outcome: str, **more: Any) -> None:
    """Say of a mutant that it ``began``, and then whether it was ``killed``, has ``survived``, or is ``lost``."""
    with (folder / _RESULTS).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"mutant": mutant, "outcome": outcome, **more}) + "\n")


def outcomes(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what was said last, by mutant."""
    path = folder / _RESULTS
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {line["mutant"]: line for line in map(json.loads, lines)}
