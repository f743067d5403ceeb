"""A measurement as documents and tables: what is stored for others, and what a person reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from payrec.bench.dataset import DataSet, write
from payrec.bench.measure import BATCH_CLASS, Checks, Measures, Point, Score
from payrec.bench.run import Outcome
from payrec.errors import ConfigurationError

LINKS_FILE: Final = "links.parquet"
RESULT_FILE: Final = "result.json"
DATA_FOLDER: Final = "data"

LINK_COLUMNS: Final = ("match_id", "expected_id", "incoming_id", "auto", "score", "confidence", "kind")
"""Columns of ``links.parquet``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A table for people; all columns but the first are figures."""

    title: str
    columns: Sequence[str]
    rows: Iterable[Sequence[str]]


def result(outcome: Outcome) -> dict[str, Any]:
    """Return ``result.json``: times in seconds of the run of median time."""
    return {
        "rows": outcome.rows,
        "proposals": outcome.proposals,
        "seconds": outcome.timing.seconds,
        "peakRssMiB": outcome.peak_rss_mib,
        "versions": outcome.versions,
    }


def document(outcome: Outcome, checks: Checks, measures: Measures | None) -> dict[str, Any]:
    """Return everything that was measured."""
    found = {
        **result(outcome),
        "counts": outcome.timing.counts,
        "server": outcome.server,
        "leftOut": outcome.left_out,
        "runs": [{"seconds": t.seconds, "peakRssMiB": t.peak_rss_mib} for t in outcome.timings],
        "repeatable": outcome.repeatable,
        "reversalsProposed": checks.reversals_proposed,
        "doubleAllocations": checks.double_allocations,
    }
    found["figures"] = figures(outcome, measures)
    if measures is not None:
        found |= {
            "total": _score(measures.total),
            f"without_{BATCH_CLASS}": _score(measures.without_batches),
            "classes": {
                name: {**_score(score), "riskCoverage": _curve(measures.curves[name])}
                for name, score in measures.by_class.items()
            },
            "riskCoverage": _curve(measures.curve),
            "amountOnlyAutoAccepted": measures.amount_only_auto,
        }
    return found


def figures(outcome: Outcome, measures: Measures | None) -> dict[str, list[float]]:
    """Return what the registry of figures names of a run; its yardstick is its own reading and writing alone."""
    seconds = outcome.timing.seconds
    found = {
        "run": [seconds["total"], seconds["total"] - seconds["engine"]],
        "memory": [float(outcome.peak_rss_mib)],
    } | {name: [seconds[name]] for name in ("read", "engine", "commit")}
    if measures is not None:
        total = measures.total
        shares = {"f1": total.f1, "precision": total.auto_precision, "coverage": total.auto_coverage}
        found |= {name: [share or 0.0] for name, share in shares.items()}
    return found


def write_out(folder: Path, outcome: Outcome, generated: DataSet | None) -> None:
    """Write links, result, and the data where they were generated, so that others can be run on the same rows.

    Raises
    ------
    ConfigurationError
        The folder cannot be written to.
    """
    if generated is not None:
        write(generated, folder / DATA_FOLDER)
    try:
        outcome.links.select(LINK_COLUMNS).write_parquet(folder / LINKS_FILE)
    except OSError as error:
        raise ConfigurationError(f"{folder} cannot be written to: {error.strerror}") from None
    write_json(folder / RESULT_FILE, result(outcome))


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file.

    Raises
    ------
    ConfigurationError
        It cannot be written.
    """
    try:
        path.write_text(json.dumps(content, indent=2) + "\n")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written to: {error.strerror}") from None


def sections(measures: Measures) -> list[Section]:
    """Return the tables of what was right."""
    rows = [_row(name, score) for name, score in measures.by_class.items()]
    rows += [_row(f"all but {BATCH_CLASS}", measures.without_batches), _row("all", measures.total)]
    return [
        Section(
            title="Links by class of case",
            columns=(
                "class", "true", "proposed", "precision", "recall", "F1", "accepted", "precision", "coverage",
                "wrong payers", "EUR",
            ),
            rows=rows,
        ),
        Section(
            title="Risk and coverage by score: of all links of at least this score, over the matchable lines",
            columns=("score", "coverage", "risk"),
            rows=[(f"{p.score:.1f}", _percent(p.coverage), _percent(p.risk)) for p in measures.curve],
        ),
    ]  # fmt: skip


def summary(outcome: Outcome, checks: Checks, measures: Measures | None) -> list[str]:
    """Return the lines beside the tables."""
    accepted = outcome.links.filter("auto")["match_id"].n_unique()
    rows = f"{outcome.rows['expected']:,} expected and {outcome.rows['incoming']:,} incoming"
    lines = [f"{rows}; {outcome.proposals:,} proposals, {accepted:,} of them accepted"]
    for side, columns in outcome.left_out.items():
        lines += [f"left out, as the service would: {n} {side} for {column}" for column, n in sorted(columns.items())]
    lines += [
        "time    " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in timing.seconds.items())
        for timing in outcome.timings
    ]
    lines += [
        f"memory  {outcome.peak_rss_mib} MiB at most",
        "server  " + ", ".join(f"{name} {value}" for name, value in outcome.server.items()),
        "with    " + ", ".join(f"{name} {value}" for name, value in outcome.versions.items()),
        f"reversals proposed {checks.reversals_proposed}, double allocations {checks.double_allocations}"
        + (f", amount-only accepted {measures.amount_only_auto}" if measures is not None else ""),
    ]
    if len(outcome.timings) > 1:
        lines.append(f"{len(outcome.timings)} runs gave {'the same' if outcome.repeatable else 'DIFFERENT'} links")
    return lines


def _row(name: str, score: Score) -> tuple[str, ...]:
    return (
        name,
        f"{score.true:,}",
        f"{score.proposed:,}",
        _share(score.precision),
        _share(score.recall),
        _share(score.f1),
        f"{score.auto:,}",
        _share(score.auto_precision),
        _share(score.auto_coverage),
        f"{score.wrong_payers:,}",
        f"{score.wrong_payer_eur:,.0f}",
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _percent(value: float) -> str:
    return f"{value:.2%}"


def _score(score: Score) -> dict[str, Any]:
    counted = asdict(score)
    return {
        "links": {name: counted[name] for name in ("true", "proposed", "found")},
        "precision": score.precision,
        "recall": score.recall,
        "f1": score.f1,
        "auto": {
            "links": score.auto,
            "precision": score.auto_precision,
            "coverage": score.auto_coverage,
            "matchableLines": score.matchable,
            "eur": score.auto_eur,
            "wrongPayers": score.wrong_payers,
            "wrongPayersEur": score.wrong_payer_eur,
        },
    }


def _curve(points: list[Point]) -> list[dict[str, float]]:
    return [asdict(point) for point in points]
