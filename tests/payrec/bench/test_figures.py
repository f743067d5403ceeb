"""Figures of speed: the registry, what is judged, what is kept, and what pages claim."""

from __future__ import annotations

import importlib.util
import json
import math
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from payrec.bench import programs
from payrec.bench.figures import Figure, Program, Result, read_programs, read_results, read_taken, rows, write_results
from payrec.bench.programs import FOLDER, REGISTRY, chosen, measure
from payrec.cli import ACTIONS, main
from payrec.errors import ConfigurationError, PayrecError
from payrec.factory.context import SystemClock

ROOT = FOLDER.parents[1]
RUN = {"at": "2026-01-01", "command": "bench.py", "machine": "2 cores"}
CLAIMS: list[dict[str, str]] = tomllib.loads((FOLDER / "claims.toml").read_text(encoding="utf-8"))["claim"]
PLACE = re.compile(r"\{([a-z_.0-9]+?)(:ratio)?\}")

RATE = Figure(name="a.rate", what="", unit="/s", better="more", goal=0.7, of="ratio")
TIME = Figure(name="a.time", what="", unit="ms", goal=50, limit=3.0)


def registry() -> list[Program]:
    return read_programs(REGISTRY)


def result(figure: Figure, value: float, yardstick: float | None = None) -> Result:
    return Result(figure=figure, value=value, yardstick=yardstick, run=RUN)


def rendered(claim: dict[str, str], results: dict[str, Result]) -> str:
    def shown(found: re.Match[str]) -> str:
        known = results[found[1]]
        return f"{known.ratio:.2f}" if found[2] else known.figure.shown(known.value)

    return PLACE.sub(shown, claim["says"])


@pytest.fixture
def results() -> dict[str, Result]:
    return {r.figure.name: r for r in read_results(FOLDER / "results.json", registry())}


@pytest.mark.parametrize(
    ("figure", "value", "yardstick", "holds", "refused"),
    [
        (RATE, 70, 100, True, False),
        (RATE, 69, 100, False, False),
        (RATE, 34, 100, False, True),
        (TIME, 50, 20, True, False),
        (TIME, 51, 20, False, False),
        (TIME, 70, 20, False, True),
        (Figure(name="a.growth", what="", unit="ms", goal=1.5, of="ratio"), 31, 10, False, True),
        (Figure(name="a.idle", what="", unit="%", goal=0.5), 9, None, False, False),
        (Figure(name="a.told", what="", unit=""), 9, None, None, False),
        (Figure(name="a.count", what="", unit="", goal=0, is_counted=True), 0, None, True, False),
        (Figure(name="a.count", what="", unit="", goal=0, is_counted=True), 1, None, False, True),
    ],
    ids=[
        *("at-goal", "below", "beyond", "in-time", "late", "far-beyond", "grows", "machine", "no-goal"),
        *("counted", "miscounted"),
    ],
)
def test_a_figure_is_judged(
    figure: Figure, value: float, yardstick: float | None, holds: object, *, refused: bool
) -> None:
    measured = result(figure, value, yardstick)
    assert (measured.holds, measured.is_refused) == (holds, refused)


def test_every_action_is_measured_and_names_are_of_one_figure() -> None:
    assert {program.action for program in registry()} == set(ACTIONS)
    names = [figure.name for program in registry() for figure in program.figures.values()]
    assert len(names) == len(set(names))
    scripts = {program.run[0] for program in registry() if program.run[0].endswith(".py")}
    assert {script for script in scripts if not (FOLDER / script).is_file()} == set()


def test_each_action_has_a_figure_that_a_quick_run_is_refused_by() -> None:
    quick = chosen(registry(), "all", quick=True)
    judged = {p.action for p in quick if any(f.refused_beyond is not None for f in p.figures.values())}
    assert judged == set(ACTIONS)


def test_one_command_runs_every_script_that_a_page_has_a_figure_of() -> None:
    run = {program.run[0] for program in registry() if program.run[0].endswith(".py")}
    assert {path.name for path in FOLDER.glob("bench_*.py")} == run
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    on_the_page = set(re.findall(r"^\| `(bench_\w+\.py)`", page, re.MULTILINE))
    assert on_the_page | {claim["script"] for claim in CLAIMS if "script" in claim} <= run
    # Of the others, the page has the results that they write.
    assert on_the_page <= {program.run[0] for program in registry() if program.prints}


def test_what_writes_figures_does_not_print_them() -> None:
    for program in registry():
        assert program.prints == (not program.figures), program.run


def test_a_quick_run_runs_each_script() -> None:
    programs_ = registry()
    assert {p.run[0] for p in chosen(programs_, "all", quick=True)} == {p.run[0] for p in programs_}


def test_arguments_of_a_script_are_some_that_it_takes() -> None:
    for program in registry():
        script = program.run[0]
        if not script.endswith(".py"):
            continue
        text = (FOLDER / script).read_text(encoding="utf-8")
        options = {option for option in (*program.run, *(program.quick or ())) if option.startswith("--")}
        assert all(f'"{option}"' in text for option in options), program.run
        assert program.prints or '"--json"' in text, script


def test_what_a_program_prints_is_shown_unless_it_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prints.py").write_text("import sys\nprint('7 of them')\nsys.stderr.write('a server logs\\n')\n")
    monkeypatch.setattr(programs, "FOLDER", tmp_path)
    one = Program(action="api", prefix="", run=("prints.py",), quick=(), needs=None, prints=True, figures={})
    shown: list[str] = []
    for quick in (True, False):
        found = measure([one], quick=quick, tell=lambda _text: None, show=shown.append, now=SystemClock().now)
        assert list(found) == []
    [text] = shown
    assert text.startswith("prints.py (")
    assert text.endswith("\n\n7 of them\n")


def test_pages_claim_what_was_measured(results: dict[str, Result]) -> None:
    wrong = []
    for claim in CLAIMS:
        text = " ".join((ROOT / claim["page"]).read_text(encoding="utf-8").split())
        if rendered(claim, results) not in text:
            wrong.append(f"{claim['page']} does not say: {rendered(claim, results)}")
    assert wrong == []


@pytest.mark.parametrize("rows", [3_000_000, 10_000_000])
def test_what_is_computed_for_larger_runs_follows_from_what_was_measured(rows: int, results: dict[str, Result]) -> None:
    (small, large), (fast, slow) = (
        [results[f"matching.{name}.{what}"].value for name in ("base", "million")] for what in ("memory", "run")
    )
    memory = small + (large - small) * (rows - 100_000) / 900_000
    seconds = slow * (rows / 1_000_000) ** math.log10(slow / fast)
    text = (ROOT / "deploy" / "guides" / "capacity.md").read_text(encoding="utf-8")
    [(told, gib)] = re.findall(rf"^\| {rows:,} \| ([\d.]+) s \| ([\d.]+) GiB \| computed \|$", text, re.MULTILINE)
    assert float(told) == pytest.approx(seconds, rel=0.01)
    assert float(gib) == pytest.approx(memory / 1024, abs=0.1)


def test_numbers_that_no_figure_gives_name_their_script() -> None:
    # In a row of a table, the first cell says how many rows, and a goal is not measured.
    for claim in CLAIMS:
        rest = re.sub(r"\(goal \d+\)|^\| [^|]*\|", "", PLACE.sub("", claim["says"]))
        assert bool(re.search(r"\d", rest)) == ("script" in claim), claim
        assert (FOLDER / claim.get("script", "bench_api.py")).is_file(), claim


def test_every_figure_in_a_table_is_claimed(results: dict[str, Result]) -> None:
    claimed: dict[str, set[str]] = {}
    for claim in CLAIMS:
        claimed.setdefault(claim["page"], set()).add(rendered(claim, results))
    unknown = []
    for path in sorted(ROOT.rglob("*.md")):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith((".", "tests/")):
            continue
        cells = figure_cells(path.read_text(encoding="utf-8"))
        unknown += [f"{name}: {cell}" for cell in cells if cell not in claimed.get(name, set())]
    assert unknown == []


def figure_cells(text: str) -> list[str]:
    """Return what stands in the columns that are called Figure."""
    cells, at = [], None
    for line in text.splitlines():
        row = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not row:
            at = None
        elif "Figure" in row:
            at = row.index("Figure")
        elif at is not None and not row[0].startswith("-"):
            cells.append(row[at])
    return cells


def test_the_page_has_the_last_results() -> None:
    path = FOLDER / "write_readme.py"
    spec = importlib.util.spec_from_file_location("write_readme", path)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert module.written(page) == page, "python tests/benchmarks/write_readme.py writes it anew"


def test_results_are_kept_and_the_others_stay(tmp_path: Path) -> None:
    one = Program(action="api", prefix="a", run=("x.py",), quick=None, needs=None, figures={"rate": RATE, "time": TIME})
    path = tmp_path / "results.json"
    write_results(path, [result(RATE, 1, 2), result(TIME, 3)], [one])
    write_results(path, [result(RATE, 1.5, 2)], [one])
    assert rows(read_results(path, [one])) == [
        ("a.rate", "2", "/s", "2", "0.75", "≥ 0.7", "yes"),
        ("a.time", "3", "ms", "", "", "≤ 50 ms", "yes"),
    ]


def test_a_program_that_measures_something_else_is_refused(tmp_path: Path) -> None:
    one = Program(action="api", prefix="a", run=("x.py",), quick=None, needs=None, figures={"rate": RATE})
    path = tmp_path / "taken.json"
    path.write_text(json.dumps({"figures": {"rat": [1.0]}}))
    with pytest.raises(ConfigurationError, match=r"x\.py and the registry differ in the figures rat, rate"):
        read_taken(path, one, RUN)


def test_what_is_not_there_is_told_and_in_ci_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Program(action="api", prefix="a", run=("x.py",), quick=None, needs="PAYREC_NOWHERE", figures={})
    told: list[str] = []
    monkeypatch.setenv("CI", "")
    assert list(measure([one], quick=False, tell=told.append, show=told.append, now=SystemClock().now)) == []
    assert told == ["x.py is left out: it needs PAYREC_NOWHERE, which is not set"]
    monkeypatch.setenv("CI", "true")
    with pytest.raises(PayrecError, match=r"x\.py needs PAYREC_NOWHERE"):
        list(measure([one], quick=False, tell=told.append, show=told.append, now=SystemClock().now))


@pytest.mark.parametrize("ratio", [0.34, 0.7], ids=["refused", "good"])
def test_the_command_measures_prints_keeps_and_refuses(
    ratio: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fake.py").write_text(
        f"import json, sys\njson.dump({{'figures': {{'rate': [{ratio * 100}, 100.0]}}}}, open(sys.argv[2], 'w'))\n"
    )
    (tmp_path / "figures.toml").write_text(
        '[[program]]\naction = "api"\nprefix = "a"\nrun = ["fake.py"]\n[program.figures]\n'
        'rate = { what = "it", unit = "/s", better = "more", yardstick = "that", goal = 0.7, of = "ratio" }\n'
    )
    monkeypatch.setattr(programs, "FOLDER", tmp_path)
    monkeypatch.setattr(programs, "REGISTRY", tmp_path / "figures.toml")
    assert main(["bench", "api", "--json", str(tmp_path / "out.json")]) == (1 if ratio < 0.35 else 0)
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0].split() == ["name", "figure", "unit", "yardstick", "ratio", "goal", "holds"]
    assert f"{ratio:.2f}" in captured.out
    assert ("a.rate: the ratio is beyond 0.35" in captured.err) == (ratio < 0.35)
    assert json.loads((tmp_path / "out.json").read_text())["figures"]["a.rate"]["yardstick"] == 100.0
    monkeypatch.setattr(programs, "REGISTRY", tmp_path / "nowhere.toml")
    assert main(["bench", "api"]) == 2


def test_a_program_that_fails_is_an_error_when_the_others_were_measured_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fails.py").write_text("import sys\nsys.stderr.write('why\\n')\nraise SystemExit(3)\n")
    (tmp_path / "fake.py").write_text("import json, sys\njson.dump({'figures': {'it': [7]}}, open(sys.argv[2], 'w'))\n")
    program = (
        '[[program]]\naction = "api"\nprefix = "{0}"\nrun = ["{0}.py"]\nfigures.it = {{ what = "it", unit = "s" }}\n'
    )
    (tmp_path / "figures.toml").write_text("".join(map(program.format, ("fails", "fake"))))
    monkeypatch.setattr(programs, "FOLDER", tmp_path)
    monkeypatch.setattr(programs, "REGISTRY", tmp_path / "figures.toml")
    assert main(["bench", "api", "--json", str(tmp_path / "out.json")]) == 1
    captured = capsys.readouterr()
    assert [line.removeprefix("payrec: ") for line in captured.err.splitlines()] == [
        "measuring: fails.py", "why", "measuring: fake.py", "fails.py ended with 3"
    ]  # fmt: skip
    assert captured.out.splitlines()[-1].split()[:3] == ["fake.it", "7", "s"]
    assert list(json.loads((tmp_path / "out.json").read_text())["figures"]) == ["fake.it"]


@pytest.mark.parametrize(("second", "quick"), [(70, True), (34, True), (70, False)], ids=["better", "still", "full"])
def test_what_a_quick_run_refuses_is_measured_once_more(
    second: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, quick: bool
) -> None:
    (tmp_path / "again.py").write_text(
        "import json, pathlib, sys\n"
        "runs = pathlib.Path(__file__).with_name('runs')\n"
        "count = len(runs.read_text()) if runs.exists() else 0\n"
        "runs.write_text('x' * (count + 1))\n"
        f"json.dump({{'figures': {{'rate': [[34.0, {second}.0][count], 100.0]}}}}, open(sys.argv[-1], 'w'))\n"
    )
    monkeypatch.setattr(programs, "FOLDER", tmp_path)
    one = Program(action="api", prefix="a", run=("again.py",), quick=(), needs=None, figures={"rate": RATE})
    (found,) = measure([one], quick=quick, tell=lambda _text: None, show=lambda _text: None, now=SystemClock().now)
    assert (found.value, found.is_refused) == ((second, second == 34) if quick else (34, True))
