"""Build the engine's frames from plain texts, and read its result by names instead of row numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import polars as pl

from payrec.domain.matching.advices import ADVICES_SCHEMA
from payrec.domain.matching.columns import CLOSED_SCHEMA, EXPECTED_SCHEMA, INCOMING_SCHEMA, REJECTED_SCHEMA, Known
from payrec.domain.matching.engine import Proposals, propose
from payrec.domain.matching.keys import expected_keys, incoming_keys, name_key, reference_key, tie_key
from payrec.domain.matching.names import NAMES_SCHEMA
from payrec.domain.matching.rules import (
    FEATURES,
    AdjustmentType,
    Confidence,
    GroupLevel,
    MatchingRules,
    MatchKind,
    Reason,
    Side,
    Uniqueness,
)

DAY = 20_600
"""On which items are due and lines are booked."""

DUE_IN_TIME = [(DAY - 60, True), (DAY - 61, False), (DAY + 30, True), (DAY + 31, False), (None, True)]
"""Days on which an item may be due, and whether a line of the usual day is within the usual window."""


@dataclass(frozen=True)
class Item:
    """One open expected transaction."""

    id: str
    amount: int = 10_000
    currency: str = "EUR"
    direction: int = 1
    total: int | None = None
    band: tuple[int | None, int | None] = (None, None)
    due: int | None = DAY
    span: tuple[int | None, int | None] = (None, None)
    reference: str | None = None
    end_to_end_id: str | None = None
    name: str | None = None
    iban: str | None = None
    account: str | None = None
    group: str | None = None
    tie: str | None = None
    terms: tuple[tuple[int, int], ...] = ()
    """Amounts, and the last day of each."""


@dataclass(frozen=True)
class Line:
    """One open incoming transaction."""

    id: str
    amount: int = 10_000
    currency: str = "EUR"
    direction: int = 1
    total: int | None = None
    day: int | None = DAY
    pending: bool = False
    reversal: bool = False
    duplicate: bool = False
    text: str | None = None
    structured: str | None = None
    end_to_end_id: str | None = None
    name: str | None = None
    iban: str | None = None
    account: str | None = None
    group: str | None = None
    ultimate: str | None = None
    """On whose behalf it is paid."""
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
                group=it.group,
            ),
            tie_key(it.tie or it.id),
            1,
            [number for term in it.terms for number in term] or None,
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
                group=line.group,
                ultimate_counterparty_name=line.ultimate,
            ),
            tie_key("line", line.tie or line.id),
            1,
        )
        for at, line in enumerate(lines)
    ]
    return pl.DataFrame(rows, schema=dict(INCOMING_SCHEMA), orient="row")


def names_frame(rows: Iterable[Item | Line]) -> pl.DataFrame:
    """Make the texts of all names, each key once."""
    texts = {key: row.name for row in rows if (key := name_key(row.name)) is not None}
    return pl.DataFrame([*texts.items()], schema=dict(NAMES_SCHEMA), orient="row")


@dataclass(frozen=True)
class Proposal:
    """One proposal by names."""

    legs: tuple[tuple[str, str, int], ...]
    """Item, line and amount, in content order; of money against money, what comes in, what goes out and the amount."""
    kind: MatchKind
    amount: int
    confidence: Confidence
    status: Uniqueness
    auto: bool
    score: int
    probability: int
    difference: int
    rivals: tuple[int, int]
    tried: int
    named: int
    levels: tuple[tuple[str, int], ...]

    @property
    def item(self) -> str:
        """The item of a pair."""
        [(item, _, _)] = self.legs
        return item

    @property
    def line(self) -> str:
        """The line of a pair."""
        [(_, line, _)] = self.legs
        return line

    @property
    def ends(self) -> tuple[frozenset[str], frozenset[str]]:
        """The items and the lines."""
        return frozenset(e for e, _, _ in self.legs), frozenset(i for _, i, _ in self.legs)


@dataclass(frozen=True)
class Outcome:
    """A result by names."""

    proposals: Proposals
    matches: list[Proposal]
    items: dict[str, tuple[Reason, str | None, int | None, int | None]]
    lines: dict[str, tuple[Reason, str | None, int | None, int | None]]
    alternatives: list[tuple[tuple[str, str], Side, tuple[str, str]]]
    """The first leg of a proposal, the side, and the pair of the rival."""

    @property
    def pairs(self) -> dict[tuple[str, str], Proposal]:
        """The proposals of one leg."""
        return {m.legs[0][:2]: m for m in self.matches if len(m.legs) == 1}

    @property
    def groups(self) -> list[Proposal]:
        """The proposals of several legs."""
        return [m for m in self.matches if len(m.legs) > 1]

    def adjustments(self, items: Sequence[Item]) -> dict[str, tuple[AdjustmentType, int]]:
        """Return what is settled of items without money, by item."""
        found = self.proposals.adjustments.drop_nulls("expected").iter_rows(named=True)
        return {items[row["expected"]].id: (AdjustmentType(row["type"]), row["amount_minor"]) for row in found}

    def levels(self, item: str, line: str) -> dict[str, int]:
        """Return the levels of one pair by feature."""
        return dict(self.pairs[item, line].levels)

    def summary(self) -> tuple[object, ...]:
        """Return everything that must not depend on the order of rows."""
        return self.matches, self.items, self.lines, self.alternatives, self.proposals.counts


_SIDES = ("expected", "incoming")


def _ends(leg: dict[str, int | None], items: Sequence[Item], lines: Sequence[Line]) -> tuple[str, str]:
    """Return the ids of the two that a leg joins, items before lines and the contra side last."""
    columns: dict[str, Sequence[Item | Line]] = {
        "expected": items, "incoming": lines, "contra_expected": items, "contra_incoming": lines,
    }  # fmt: skip
    one, other = (rows[at].id for name, rows in columns.items() if (at := leg[name]) is not None)
    return one, other


def _pair(one: str, other: str, places: Sequence[dict[str, int]]) -> dict[str, int]:
    """Return a rejected pair: an item and a line, or two of one side."""
    side = next((name for name, its in zip(_SIDES, places, strict=True) if {one, other} <= its.keys()), None)
    if side is not None:
        its = places[_SIDES.index(side)]
        return {side: its[one], f"contra_{side}": its[other]}
    return {"expected": places[0][one], "incoming": places[1][other]}


@dataclass(frozen=True)
class Advice:
    """A remittance advice: what is paid of each reference, and what is held back."""

    lines: tuple[tuple[str, int, int], ...]
    payment: str | None = None
    name: str | None = None
    currency: str = "EUR"
    total: int | None = None


def advices_frame(advices: Sequence[Advice]) -> pl.DataFrame:
    """Make the frame; the number of an advice is its place in the sequence."""
    rows = [
        (
            at,
            advice.currency,
            sum(paid for _, paid, _ in advice.lines) if advice.total is None else advice.total,
            reference_key(advice.payment),
            name_key(advice.name),
            reference_key(reference),
            paid,
            held,
        )
        for at, advice in enumerate(advices)
        for reference, paid, held in advice.lines
    ]
    return pl.DataFrame(rows, schema=dict(ADVICES_SCHEMA), orient="row")


def run(
    items: Sequence[Item],
    lines: Sequence[Line],
    rules: MatchingRules | None = None,
    rejected: Iterable[tuple[str, str]] = (),
    advices: Sequence[Advice] = (),
    closed: Sequence[Item] = (),
) -> Outcome:
    """Run the engine on both sides; nothing is open any more of what is ``closed``."""
    places = ({it.id: at for at, it in enumerate(items)}, {line.id: at for at, line in enumerate(lines)})
    refused = pl.DataFrame([_pair(one, other, places) for one, other in rejected], schema=dict(REJECTED_SCHEMA))
    return told(
        propose(
            expected_frame(items),
            incoming_frame(lines),
            rules or MatchingRules(auto_accept=True),
            refused,
            names_frame([*items, *lines]),
            advices=advices_frame(advices),
            known=Known(closed=expected_frame(closed).select(*CLOSED_SCHEMA)),
        ),
        items,
        lines,
    )


def told(result: Proposals, items: Sequence[Item], lines: Sequence[Line]) -> Outcome:
    """Return a result of the engine by names; its ordinals are the places in the sequences."""
    legs: list[list[tuple[str, str, int]]] = [[] for _ in range(result.matches.height)]
    for leg in result.legs.iter_rows(named=True):
        legs[leg["proposal"]].append((*_ends(leg, items, lines), leg["amount_minor"]))
    matches = [
        Proposal(
            legs=tuple(of_match),
            kind=MatchKind(row["kind"]),
            amount=row["amount_minor"],
            confidence=Confidence(row["confidence"]),
            status=Uniqueness(row["status"]),
            auto=row["auto"],
            score=row["score_milli"],
            probability=row["probability_ppm"],
            difference=row["difference_minor"],
            rivals=(row["rivals_expected"], row["rivals_incoming"]),
            tried=row["tried"],
            named=row["named"],
            levels=tuple((f, row[f"{f}_level"]) for f in FEATURES),
        )
        for of_match, row in zip(legs, result.matches.iter_rows(named=True), strict=True)
    ]
    for match, row in zip(matches, result.matches.iter_rows(named=True), strict=True):
        assert (len(match.legs), match.amount) == (row["size"], sum(leg[2] for leg in match.legs))

    def reasons(
        frame: pl.DataFrame, own: Sequence[Item | Line], other: Sequence[Item | Line]
    ) -> dict[str, tuple[Reason, str | None, int | None, int | None]]:
        return {
            own[ordinal].id: (Reason(reason), None if near is None else other[near].id, days, difference)
            for ordinal, reason, near, days, difference in frame.iter_rows()
        }

    return Outcome(
        proposals=result,
        matches=matches,
        items=reasons(result.open_expected, items, lines),
        lines=reasons(result.open_incoming, lines, items),
        alternatives=[
            (legs[row["proposal"]][0][:2], Side(row["side"]), (items[row["expected"]].id, lines[row["incoming"]].id))
            for row in result.alternatives.iter_rows(named=True)
        ],
    )


def only(outcome: Outcome) -> Proposal:
    """Return the one match that there is."""
    [match] = outcome.matches
    return match


def sure(match: Proposal) -> tuple[Confidence, Uniqueness, bool]:
    """Return how sure a match is, and whether it is accepted at once."""
    return match.confidence, match.status, match.auto


def level(match: Proposal) -> GroupLevel:
    """Return what holds a match together."""
    return GroupLevel(dict(match.levels)["group"])


def renamed(rows: Sequence[Item | Line], **changes: object) -> list[Item | Line]:
    """Return the rows with the same change in each."""
    return [replace(row, **changes) for row in rows]  # type: ignore[arg-type]
