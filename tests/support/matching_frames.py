"""Build the engine's frames from plain texts, and read its result by names instead of row numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import polars as pl

from payrec.domain.matching.columns import EXPECTED_SCHEMA, INCOMING_SCHEMA, REJECTED_SCHEMA
from payrec.domain.matching.engine import Proposals, propose
from payrec.domain.matching.keys import expected_keys, incoming_keys, tie_key
from payrec.domain.matching.rules import Confidence, MatchingRules, Reason, Side, Uniqueness


@dataclass(frozen=True)
class Item:
    """One open expected transaction."""

    id: str
    amount: int = 10_000
    currency: str = "EUR"
    direction: int = 1
    total: int | None = None
    band: tuple[int | None, int | None] = (None, None)
    due: int | None = 20_600
    span: tuple[int | None, int | None] = (None, None)
    reference: str | None = None
    end_to_end_id: str | None = None
    name: str | None = None
    iban: str | None = None
    account: str | None = None
    tie: str | None = None


@dataclass(frozen=True)
class Line:
    """One open incoming transaction."""

    id: str
    amount: int = 10_000
    currency: str = "EUR"
    direction: int = 1
    total: int | None = None
    day: int | None = 20_600
    pending: bool = False
    reversal: bool = False
    duplicate: bool = False
    text: str | None = None
    structured: str | None = None
    end_to_end_id: str | None = None
    name: str | None = None
    iban: str | None = None
    account: str | None = None
    tie: str | None = None


def expected_frame(items: Sequence[Item]) -> pl.DataFrame:
    """Make the frame; the ordinal is the place in the sequence."""
    rows = [
        (
            at,
            it.currency,
            it.direction,
            it.amount,
            it.total or it.amount,
            *it.band,
            it.due,
            *it.span,
            *expected_keys(
                reference=it.reference,
                end_to_end_id=it.end_to_end_id,
                counterparty_name=it.name,
                counterparty_account=it.iban,
                account=it.account,
            ),
            tie_key(it.tie or it.id),
            1,
        )
        for at, it in enumerate(items)
    ]
    return pl.DataFrame(rows, schema=dict(EXPECTED_SCHEMA), orient="row")


def incoming_frame(lines: Sequence[Line]) -> pl.DataFrame:
    """Make the frame; the ordinal is the place in the sequence."""
    rows = [
        (
            at,
            line.currency,
            line.direction,
            line.amount,
            line.total or line.amount,
            line.day,
            line.day,
            line.pending,
            line.reversal,
            line.duplicate,
            *incoming_keys(
                remittance=line.text,
                structured_reference=line.structured,
                end_to_end_id=line.end_to_end_id,
                counterparty_name=line.name,
                counterparty_account=line.iban,
                account=line.account,
            ),
            tie_key("line", line.tie or line.id),
            1,
        )
        for at, line in enumerate(lines)
    ]
    return pl.DataFrame(rows, schema=dict(INCOMING_SCHEMA), orient="row")


@dataclass(frozen=True)
class Pair:
    """One proposal by names."""

    item: str
    line: str
    amount: int
    confidence: Confidence
    status: Uniqueness
    auto: bool
    score: int
    probability: int
    difference: int


@dataclass(frozen=True)
class Outcome:
    """A result by names."""

    proposals: Proposals
    pairs: dict[tuple[str, str], Pair]
    items: dict[str, tuple[Reason, str | None, int | None, int | None]]
    lines: dict[str, tuple[Reason, str | None, int | None, int | None]]
    alternatives: list[tuple[tuple[str, str], Side, tuple[str, str]]]

    def levels(self, item: str, line: str) -> dict[str, int]:
        """Return the levels of one proposal by feature."""
        at = list(self.pairs).index((item, line))
        row = self.proposals.pairs.row(at, named=True)
        return {name.removesuffix("_level"): level for name, level in row.items() if name.endswith("_level")}

    def summary(self) -> tuple[object, ...]:
        """Return everything that must not depend on the order of rows."""
        return self.pairs, self.items, self.lines, self.alternatives, self.proposals.counts


def run(
    items: Sequence[Item],
    lines: Sequence[Line],
    rules: MatchingRules | None = None,
    rejected: Iterable[tuple[str, str]] = (),
) -> Outcome:
    """Run the engine on both sides."""
    places = ({it.id: at for at, it in enumerate(items)}, {line.id: at for at, line in enumerate(lines)})
    refused = pl.DataFrame(
        [(places[0][e], places[1][i]) for e, i in rejected], schema=dict(REJECTED_SCHEMA), orient="row"
    )
    result = propose(expected_frame(items), incoming_frame(lines), rules or MatchingRules(auto_accept=True), refused)
    pairs = [
        Pair(
            item=items[row["expected"]].id,
            line=lines[row["incoming"]].id,
            amount=row["amount_minor"],
            confidence=Confidence(row["confidence"]),
            status=Uniqueness(row["status"]),
            auto=row["auto"],
            score=row["score_milli"],
            probability=row["probability_ppm"],
            difference=row["difference_minor"],
        )
        for row in result.pairs.iter_rows(named=True)
    ]
    names = [(pair.item, pair.line) for pair in pairs]

    def reasons(
        frame: pl.DataFrame, own: Sequence[Item | Line], other: Sequence[Item | Line]
    ) -> dict[str, tuple[Reason, str | None, int | None, int | None]]:
        return {
            own[ordinal].id: (Reason(reason), None if near is None else other[near].id, days, difference)
            for ordinal, reason, near, days, difference in frame.iter_rows()
        }

    return Outcome(
        proposals=result,
        pairs=dict(zip(names, pairs, strict=True)),
        items=reasons(result.open_expected, items, lines),
        lines=reasons(result.open_incoming, lines, items),
        alternatives=[
            (names[row["proposal"]], Side(row["side"]), (items[row["expected"]].id, lines[row["incoming"]].id))
            for row in result.alternatives.iter_rows(named=True)
        ],
    )


def renamed(rows: Sequence[Item | Line], **changes: object) -> list[Item | Line]:
    """Return the rows with the same change in each."""
    return [replace(row, **changes) for row in rows]  # type: ignore[arg-type]
