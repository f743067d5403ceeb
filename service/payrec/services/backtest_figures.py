"""What a backtest tells: what it would have accepted, beside what was accepted at last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from payrec.domain.principal import ENGINE_ACTOR_PREFIX
from payrec.models.backtests import BacktestFigures, BacktestLine, BacktestLines, BacktestThreshold
from payrec.services.backtest_days import Decision

LINES_TOLD_MAX: Final = 1_000
"""Lines of each kind that a result names."""

_DIGITS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """What became of a line."""

    match_id: UUID
    partners: frozenset[UUID]
    by_run: bool
    """Accepted without a person."""


def ends_of(legs: Iterable[Mapping[str, Any]]) -> dict[UUID, End]:
    """Return what became of lines, of the legs of their accepted matches."""
    found: dict[UUID, tuple[UUID, set[UUID], bool]] = {}
    for leg in legs:
        by_run = (leg["decided_by"] or "").startswith(ENGINE_ACTOR_PREFIX)
        for line, others in _joined(leg):
            found.setdefault(line, (leg["id"], set(), by_run))[1].update(others)
    return {
        line: End(match_id=match, partners=frozenset(others), by_run=by_run)
        for line, (match, others, by_run) in found.items()
    }


def first_of(legs: Iterable[Mapping[str, Any]]) -> dict[UUID, frozenset[UUID]]:
    """Return what lines were joined with first, of the legs of matches in the order in which these came."""
    found: dict[UUID, tuple[UUID, set[UUID]]] = {}
    for leg in legs:
        for line, others in _joined(leg):
            match, partners = found.setdefault(line, (leg["id"], set()))
            if match == leg["id"]:
                partners.update(others)
    return {line: frozenset(partners) for line, (_, partners) in found.items()}


def _joined(leg: Mapping[str, Any]) -> Iterator[tuple[UUID, Iterable[UUID]]]:
    """Yield the lines of a leg, each with what the leg joins it with."""
    lines = [leg[name] for name in ("incoming_id", "contra_incoming_id") if leg[name] is not None]
    items = [leg[name] for name in ("expected_id", "contra_expected_id") if leg[name] is not None]
    for line in lines:
        yield line, [other for other in (*items, *lines) if other != line]


def figures_of(
    lines: Iterable[UUID], ends: Mapping[UUID, End], accepted: Mapping[UUID, frozenset[UUID]]
) -> BacktestFigures:
    """Count the lines that were accepted for these partners, by what became of them."""
    arrived = list(lines)
    taken = [line for line in arrived if line in accepted]
    right = sum(line in ends and ends[line].partners == accepted[line] for line in taken)
    undecided = sum(line not in ends for line in taken)
    matched = sum(line in ends for line in arrived)
    wrong = len(taken) - right - undecided
    return BacktestFigures(
        lines=len(arrived),
        matched=matched,
        auto_accepted=len(taken),
        right=right,
        wrong=wrong,
        undecided=undecided,
        match_rate=_share(len(taken), len(arrived)),
        error_rate=_share(wrong, right + wrong),
        recall=_share(right, matched),
    )


def threshold_of(
    lines: Iterable[UUID], ends: Mapping[UUID, End], proposed: Mapping[UUID, Decision], precision: float
) -> BacktestThreshold:
    """Return the least score from which on the decided proposals are right as often as is asked for, and the recall."""
    arrived = set(lines)
    matched = sum(line in ends for line in arrived)
    decided = [(line, decision) for line, decision in proposed.items() if line in arrived and line in ends]
    known = [(decision.score_milli, ends[line].partners == decision.partners) for line, decision in decided]
    known.sort(reverse=True)
    best: tuple[int, int, int] | None = None
    right = 0
    for at, (score, is_right) in enumerate(known, 1):
        right += is_right
        # Whoever sets a threshold lets in all of one score.
        if (at == len(known) or known[at][0] != score) and right >= precision * at:
            best = (score, right, at)
    if best is None:
        return BacktestThreshold(precision=None, recall=None, score=None)
    score, right, count = best
    return BacktestThreshold(precision=_share(right, count), recall=_share(right, matched), score=score / 1000)


def told(lines: Iterable[UUID], ends: Mapping[UUID, End]) -> BacktestLines:
    """Name lines, and where they and their matches are."""
    found = sorted(lines)
    return BacktestLines(
        count=len(found),
        lines=[
            BacktestLine(
                incoming_transaction_id=line,
                incoming_transaction_url=f"/incoming-transactions/{line}",
                match_id=end.match_id if end is not None else None,
                match_url=f"/matches/{end.match_id}" if end is not None else None,
            )
            for line in found[:LINES_TOLD_MAX]
            for end in (ends.get(line),)
        ],
    )


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, _DIGITS) if whole else None
