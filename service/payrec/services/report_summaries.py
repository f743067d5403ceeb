"""The summary, added up from counts and sums by status. ``service/reports.md`` defines each figure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

from payrec.domain.money import format_minor
from payrec.models.common import Public
from payrec.models.expected_transactions import ExpectedStatus
from payrec.models.incoming_transactions import IncomingStatus
from payrec.models.matches import MatchStatus
from payrec.models.reports import (
    Amount,
    CountedMatches,
    CountedSide,
    ExpectedAmounts,
    ExpectedSummary,
    Figure,
    IncomingAmounts,
    IncomingSummary,
    MatchesSummary,
    MatchRate,
    SummaryLine,
    SummaryReport,
    SummaryTotal,
    TimeToMatch,
)

EXPECTED_STATUSES: Final[tuple[str, ...]] = get_args(ExpectedStatus)
INCOMING_STATUSES: Final[tuple[str, ...]] = get_args(IncomingStatus)
MATCH_STATUSES: Final[tuple[str, ...]] = get_args(MatchStatus)

ASKING: Final = ("open", "unmatched", "partially_matched", "matched")
"""Statuses of transactions that ask for a match; of these, those that are matched are the match rate."""

_Rows = Sequence[Mapping[str, Any]]


def figure(currency: str, count: int, minor: int) -> Figure:
    """Return how many, and their sum."""
    return Figure(count=int(count), amount_minor=minor, amount=format_minor(minor, currency))


def rate(part: int, whole: int) -> float | None:
    """Return a share with four digits, half of the last one rounded up; None of nothing."""
    return (part * 20_000 + whole) // (2 * whole) / 10_000 if whole else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """One side of one currency and direction."""

    total: tuple[int, int]
    """How many, and the sum of their stated amounts."""
    statuses: dict[str, tuple[int, int]]
    """How many by status, and the sum of what may be matched of them."""
    amounts: dict[str, int]
    """What became of the stated amounts."""


def summary(expected: _Rows, incoming: _Rows, matches: _Rows, waits: Mapping[str, Any]) -> SummaryReport:
    """Return the report: what the store has counted, by currency and direction, and altogether."""
    of_expected = {line: _expected(rows) for line, rows in _by_line(expected).items()}
    of_incoming = {line: _incoming(rows) for line, rows in _by_line(incoming).items()}
    nothing = _expected([]), _incoming([])
    lines = []
    for line in sorted({*of_expected, *of_incoming}):
        currency, direction = line
        ours, theirs = of_expected.get(line, nothing[0]), of_incoming.get(line, nothing[1])
        lines.append(
            SummaryLine(
                currency=currency,
                direction=direction,
                expected=ExpectedSummary(**_told(currency, ours, ExpectedAmounts)),
                incoming=IncomingSummary(**_told(currency, theirs, IncomingAmounts)),
            )
        )
    by_currency: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in matches:
        by_currency[row["currency"]].append(row)
    total = SummaryTotal(
        expected=_counted(of_expected.values(), EXPECTED_STATUSES),
        incoming=_counted(of_incoming.values(), INCOMING_STATUSES),
        matches=_counted_matches(matches),
        time_to_match=TimeToMatch(
            count=int(waits["count"] or 0), median_seconds=waits["median_seconds"], p90_seconds=waits["p90_seconds"]
        ),
    )
    told = [_matches(currency, by_currency[currency]) for currency in sorted(by_currency)]
    return SummaryReport(total=total, lines=lines, matches=told)


def _by_line(rows: _Rows) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row["currency"], row["direction"]].append(row)
    return found


class _Parts:
    """The store's rows of one line by part and status, as whole numbers; of what is not there, zeros."""

    def __init__(self, rows: _Rows) -> None:
        self._found = {
            (row["part"], row["status"]): (int(row["count"]), int(row["minor"]), int(row["other_minor"]))
            for row in rows
        }

    def __call__(self, part: str, status: str | None = None) -> tuple[int, int, int]:
        return self._found.get((part, status), (0, 0, 0))


def _expected(rows: _Rows) -> Counts:
    of = _Parts(rows)
    count, minor, settled = of("stated")
    open_count, open_minor, _ = of("open")
    partial_count, partial_minor, allocated = of("touched", "partially_matched")
    void = of("touched", "void")
    matched = (count - open_count - void[0], minor - void[1] - open_minor - allocated)
    return Counts(
        total=(count, minor + settled),
        statuses={
            "open": (open_count - partial_count, open_minor - (partial_minor - allocated)),
            "partially_matched": (partial_count, partial_minor),
            "matched": matched,
            "void": void[:2],
        },
        amounts={"settled_before": settled, "matched": matched[1] + allocated, "open": open_minor, "void": void[1]},
    )


def _incoming(rows: _Rows) -> Counts:
    of = _Parts(rows)
    count, minor, _ = of("stated")
    open_count, open_minor, _ = of("open")
    pending = of("pending")
    partial_count, partial_minor, allocated = of("touched", "partially_matched")
    returned = of("returned")[1]
    apart = {status: of("touched", status)[:2] for status in ("ignored", "classified", "reversed", "linked")}
    rest = minor - returned - apart["ignored"][1] - apart["classified"][1] - pending[1]
    matched = (
        count - open_count - pending[0] - sum(number for number, _ in apart.values()),
        rest - open_minor - allocated,
    )
    return Counts(
        total=(count, minor),
        statuses={
            "pending": pending[:2],
            "unmatched": (open_count - partial_count, open_minor - (partial_minor - allocated)),
            "partially_matched": (partial_count, partial_minor),
            "matched": matched,
            **apart,
        },
        amounts={
            "matched": matched[1] + allocated,
            "open": open_minor,
            "returned": returned,
            "pending": pending[1],
            "ignored": apart["ignored"][1],
            "classified": apart["classified"][1],
        },
    )


def _told(currency: str, counts: Counts, amounts: type[Public]) -> dict[str, Any]:
    matched, is_open = counts.amounts["matched"], counts.amounts["open"]
    return {
        "total": figure(currency, *counts.total),
        "statuses": {status: figure(currency, *found) for status, found in counts.statuses.items()},
        "amounts": amounts(
            **{
                name: Amount(amount_minor=minor, amount=format_minor(minor, currency))
                for name, minor in counts.amounts.items()
            }
        ),
        "match_rate": MatchRate(
            by_count=_rate_by_count({status: number for status, (number, _) in counts.statuses.items()}),
            by_amount=rate(matched, matched + is_open),
        ),
    }


def _rate_by_count(counts: Mapping[str, int]) -> float | None:
    return rate(counts.get("matched", 0), sum(counts.get(status, 0) for status in ASKING))


def _counted(lines: Iterable[Counts], statuses: Sequence[str]) -> CountedSide:
    counts = dict.fromkeys(statuses, 0)
    for line in lines:
        for status, (number, _) in line.statuses.items():
            counts[status] += number
    return CountedSide(count=sum(counts.values()), statuses=counts, match_rate=_rate_by_count(counts))


def _matches(currency: str, rows: _Rows) -> MatchesSummary:
    by_status = {status: [row for row in rows if row["status"] == status] for status in MATCH_STATUSES}
    statuses = {status: _of_matches(currency, found) for status, found in by_status.items()}
    by_engine = _of_matches(currency, [row for row in rows if row["by_engine"]])
    accepted = statuses["accepted"]
    return MatchesSummary(
        currency=currency,
        statuses=statuses,
        accepted_by_engine=by_engine,
        auto_accept_rate=MatchRate(
            by_count=rate(by_engine.count, accepted.count),
            by_amount=rate(by_engine.amount_minor, accepted.amount_minor),
        ),
    )


def _of_matches(currency: str, rows: _Rows) -> Figure:
    return figure(currency, sum(row["count"] for row in rows), int(sum(row["amount_minor"] for row in rows)))


def _counted_matches(rows: _Rows) -> CountedMatches:
    counts = dict.fromkeys(MATCH_STATUSES, 0)
    for row in rows:
        counts[row["status"]] += row["count"]
    by_engine = sum(row["count"] for row in rows if row["by_engine"])
    return CountedMatches(
        statuses=counts, accepted_by_engine=by_engine, auto_accept_rate=rate(by_engine, counts["accepted"])
    )
