"""Figures of speed: which there are, what was measured, and whether that holds. Pure but for reading and writing files.

``tests/benchmarks/figures.toml`` names every figure, the program that measures it, its yardstick and its goal. A
program writes what it took, by the names of its own; the rest is told here, once for all programs.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from payrec.bench.report import write_json
from payrec.errors import ConfigurationError

COLUMNS: Final = ("name", "figure", "unit", "yardstick", "ratio", "goal", "holds")

LIMIT_SHARE: Final = 0.5
"""Share of a ratio's goal at which a figure is refused, unless its own limit is given: other machines differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What is measured."""

    name: str
    what: str
    unit: str
    better: Literal["more", "less"] = "less"
    decimals: int = 0
    yardstick: str | None = None
    """What is measured beside it in the same run, in the same unit."""
    goal: float | None = None
    of: Literal["ratio", "value"] = "value"
    """What the goal is about: the figure, or the figure divided by its yardstick."""
    limit: float | None = None
    """The ratio beyond which a run is refused, whatever the machine."""
    is_counted: bool = False
    """It is counted and not timed: its goal holds on every machine, and a run that misses it is refused."""

    @property
    def refused_beyond(self) -> float | None:
        """The ratio beyond which a run is refused; None where the goal depends on the machine and no limit is given.

        Of what is counted it is the figure itself.
        """
        if self.is_counted:
            return self.goal
        if self.limit is not None or self.goal is None or self.of == "value":
            return self.limit
        return self.goal * LIMIT_SHARE if self.better == "more" else self.goal / LIMIT_SHARE

    def reaches(self, value: float, bound: float) -> bool:
        """Whether a value is as good as a bound."""
        return value >= bound if self.better == "more" else value <= bound

    def shown(self, value: float) -> str:
        """Return a value as tables and pages tell it."""
        return f"{value:,.{self.decimals}f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What measures some figures, and writes them with ``--json``."""

    action: str
    prefix: str
    """Of the names of its figures: it writes them without."""
    run: tuple[str, ...]
    """A script beside the registry, or a command of ``payrec``, with its arguments."""
    quick: tuple[str, ...] | None
    """Arguments that make it short, in the place of the others; None where another program shows that it works."""
    needs: str | None
    """Variable without which it cannot run."""
    prints: bool = False
    """It prints what it measures, and writes nothing: that is shown as it is, unless the run is quick."""
    figures: Mapping[str, Figure]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One figure, measured."""

    figure: Figure
    value: float
    yardstick: float | None = None
    run: Mapping[str, Any]
    """When, where and by which command."""

    @property
    def ratio(self) -> float | None:
        """The figure divided by its yardstick."""
        return self.value / self.yardstick if self.yardstick else None

    @property
    def holds(self) -> bool | None:
        """Whether the goal is reached; None without one."""
        judged = self.ratio if self.figure.of == "ratio" else self.value
        if self.figure.goal is None or judged is None:
            return None
        return self.figure.reaches(judged, self.figure.goal)

    @property
    def is_refused(self) -> bool:
        """Whether the ratio is beyond what any machine explains, or something is miscounted."""
        bound = self.figure.refused_beyond
        judged = self.value if self.figure.is_counted else self.ratio
        return bound is not None and (judged is None or not self.figure.reaches(judged, bound))


def read_programs(path: Path) -> list[Program]:
    """Return the registry.

    Raises
    ------
    ConfigurationError
        It is not there.
    """
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise ConfigurationError(f"{path} is not there: speed is measured from a checkout") from None
    return [
        Program(
            action=entry["action"],
            prefix=entry.get("prefix", ""),
            run=tuple(entry["run"]),
            quick=tuple(entry["quick"]) if "quick" in entry else None,
            needs=entry.get("needs"),
            prints=entry.get("prints", False),
            figures={
                name: Figure(name=f"{entry['prefix']}.{name}", **given)
                for name, given in entry.get("figures", {}).items()
            },
        )
        for entry in found["program"]
    ]


def write_taken(path: Path | None, taken: Mapping[str, float | tuple[float, float]]) -> None:
    """Write what a program took: a value, or a value and its yardstick's, by name. Without a path nothing is written.

    Raises
    ------
    ConfigurationError
        It cannot be written.
    """
    if path is not None:
        write_json(path, {"figures": {name: list(v) if isinstance(v, tuple) else [v] for name, v in taken.items()}})


def read_taken(path: Path, program: Program, run: Mapping[str, Any]) -> list[Result]:
    """Return what a program took, each of its figures.

    Raises
    ------
    ConfigurationError
        It has written others than the registry names.
    """
    taken = json.loads(path.read_text(encoding="utf-8"))["figures"]
    if set(taken) != set(program.figures):
        differing = ", ".join(sorted(set(taken) ^ set(program.figures)))
        raise ConfigurationError(f"{program.run[0]} and the registry differ in the figures {differing}")
    return [
        Result(figure=figure, value=taken[name][0], yardstick=(taken[name][1:] or [None])[0], run=run)
        for name, figure in program.figures.items()
    ]


def read_results(path: Path, programs: Iterable[Program]) -> list[Result]:
    """Return stored results in the order of the registry; what it does not name any more is left out."""
    stored = json.loads(path.read_text(encoding="utf-8"))["figures"]
    figures = [figure for program in programs for figure in program.figures.values()]
    return [
        Result(
            figure=figure,
            value=stored[figure.name]["figure"],
            yardstick=stored[figure.name]["yardstick"],
            run=stored[figure.name]["run"],
        )
        for figure in figures
        if figure.name in stored
    ]


def write_results(path: Path, results: Sequence[Result], programs: Sequence[Program]) -> None:
    """Write results; those that the file has already stay where they were not measured anew.

    Raises
    ------
    ConfigurationError
        It cannot be written.
    """
    kept = {r.figure.name: r for r in read_results(path, programs)} if path.exists() else {}
    kept |= {result.figure.name: result for result in results}
    write_json(path, {"figures": {name: _stored(result) for name, result in kept.items()}})


def rows(results: Iterable[Result]) -> list[tuple[str, ...]]:
    """Return the rows of the table, after ``COLUMNS``."""
    return [
        (
            result.figure.name,
            result.figure.shown(result.value),
            result.figure.unit,
            "" if result.yardstick is None else result.figure.shown(result.yardstick),
            "" if result.ratio is None else f"{result.ratio:.2f}",
            _goal(result.figure),
            "" if result.holds is None else "yes" if result.holds else "no",
        )
        for result in results
    ]


def page_rows(results: Iterable[Result]) -> list[str]:
    """Return the rows of a Markdown table: name, what, figure, yardstick, ratio, goal, whether it holds, run."""
    lines = []
    for result, row in zip(kept := list(results), rows(kept), strict=True):
        _, figure, unit, beside, ratio, goal, holds = row
        what = result.figure.what + (f", beside {result.figure.yardstick}" if result.figure.yardstick else "")
        told = f"{result.run['at']}: `{result.run['command']}`; {result.run['machine']}"
        cells = (f"`{result.figure.name}`", what, f"{figure} {unit}".strip(), beside, ratio, goal, holds, told)
        lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |"))
    return lines


def _goal(figure: Figure) -> str:
    if figure.goal is None:
        return ""
    sign = "≥" if figure.better == "more" else "≤"
    return f"{sign} {figure.goal:g}" if figure.of == "ratio" else f"{sign} {figure.goal:,g} {figure.unit}"


def _stored(result: Result) -> dict[str, Any]:
    return {
        "figure": result.value,
        "unit": result.figure.unit,
        "yardstick": result.yardstick,
        "ratio": result.ratio,
        "goal": result.figure.goal,
        "goalOf": result.figure.of,
        "holds": result.holds,
        "run": dict(result.run),
    }
