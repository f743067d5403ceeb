"""The engine: columns and rules in, proposals out. It knows no database, no clock and no chance.

The stages are those of record linkage: look only at pairs that share a key (``block``), turn what is known into levels
and a score (``score``), let rivals compete (``compete``), look at what is left by amount and date alone, and say why
the rest stays open (``reasons``). Every order is by content, so the same data give the same result in whatever order
they come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from payrec.domain.matching.block import Candidates, amount_pairs, candidates, with_code
from payrec.domain.matching.columns import REJECTED_SCHEMA, Sides, checked, prepare
from payrec.domain.matching.compete import competed
from payrec.domain.matching.reasons import alike, forbidden, looked_up, lost, no_findings, open_expected, open_incoming
from payrec.domain.matching.rules import (
    ALTERNATIVES_MAX,
    ENGINE_VERSION,
    RESIDUAL_CANDIDATES_MAX,
    MatchingRules,
    Reason,
    Side,
    Uniqueness,
)
from payrec.domain.matching.score import LEVELS, RANK_PROOF, scored

Observer = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What a run did."""

    expected: int
    incoming: int
    candidates: int
    """Pairs that were scored."""
    proposed: int
    auto_accepted: int
    ambiguous: int
    """Proposals that only an id could decide."""
    open_expected: dict[str, int]
    """Items without a proposal, by the code of the reason."""
    open_incoming: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposals:
    """The result; all frames are in content order and name rows by the caller's ordinals."""

    pairs: pl.DataFrame
    """One row a proposal: ``expected``, ``incoming`` (Int32 ordinals), ``amount_minor`` (the leg, Int64),
    ``score_milli`` (thousandths of log-odds, Int32), ``probability_ppm`` (Int32), ``confidence``, ``status``
    (``Uniqueness``), ``auto``, ``pending``, ``difference_minor`` (line less item, Int64), ``rivals_expected`` and
    ``rivals_incoming`` (other items for the line, other lines for the item, Int32), and an Int8 column for each of
    ``LEVELS``."""
    alternatives: pl.DataFrame
    """``proposal`` (row number in ``pairs``, UInt32), ``side`` (``Side``), ``expected``, ``incoming``,
    ``score_milli``, best first, at most ``ALTERNATIVES_MAX`` for each side of a proposal."""
    open_expected: pl.DataFrame
    """Items without a proposal: ``ordinal``, ``reason`` (``Reason``), ``nearest`` (the line's ordinal, or null),
    ``days_outside`` (days beyond the date window) and ``difference_minor`` (line less item)."""
    open_incoming: pl.DataFrame
    """Lines without a proposal, the same; ``nearest`` is an item's ordinal."""
    counts: Counts
    engine_version: str = ENGINE_VERSION


def _rejected_codes(rejected: pl.DataFrame | None, sides: Sides) -> pl.DataFrame:
    """Return the rejected pairs as the codes of their rows; pairs of rows that are not here are of no matter."""
    if rejected is None:
        rejected = pl.DataFrame(schema=dict(REJECTED_SCHEMA))
    rows = (
        checked(rejected, REJECTED_SCHEMA)
        .join(sides.expected.select(expected="ordinal", e="row"), on="expected")
        .join(sides.incoming.select(incoming="ordinal", i="row"), on="incoming")
    )
    return with_code(rows).select("code").unique()


def _without(pairs: pl.DataFrame, rejected: pl.DataFrame) -> pl.DataFrame:
    if rejected.is_empty():
        return pairs
    return with_code(pairs).join(rejected, on="code", how="anti").drop("code").sort("e", "i")


def _residual(
    sides: Sides,
    taken: pl.DataFrame,
    busy: pl.DataFrame,
    found: Candidates,
    rejected: pl.DataFrame,
    rules: MatchingRules,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Propose by amount and date alone among rows that nothing else speaks for; returns proposals and findings.

    ``taken`` names proposed items, ``busy`` lines that have a fitting pair or quote somebody's full reference.
    """
    items = sides.expected.join(taken, left_on="row", right_on="e", how="anti")
    lines = sides.incoming.filter(~pl.col("reversal") & ~pl.col("duplicate")).join(
        busy, left_on="row", right_on="i", how="anti"
    )
    equal = amount_pairs(items, lines)
    pairs = scored(_without(equal.pairs, rejected), sides, rules)
    fitting = pairs.filter(pl.col("fault") == 0)
    few = (pl.len().over("e") <= RESIDUAL_CANDIDATES_MAX) & (pl.len().over("i") <= RESIDUAL_CANDIDATES_MAX)
    fitting = fitting.with_columns(few=few)
    pairs_few = competed(fitting.filter("few").drop("few"), found, rules)
    findings = pl.concat([forbidden(pairs), alike(fitting.filter(~pl.col("few"))), lost(pairs_few)])
    return pairs_few, findings


def _neighbours(sides: Sides, chosen: pl.DataFrame, findings: pl.DataFrame, rejected: pl.DataFrame) -> pl.DataFrame:
    """Look up neighbours among the rows that have neither a proposal nor a finding on their own side."""
    items = sides.expected.join(chosen.select(row="e"), on="row", how="anti")
    lines = sides.incoming.filter(~pl.col("reversal")).join(chosen.select(row="i"), on="row", how="anti")
    lines = lines.join(findings.select(row="i"), on="row", how="anti")
    if items.is_empty() or lines.is_empty():
        return no_findings()
    return looked_up(items, lines, rejected)


def _alternatives(chosen: pl.DataFrame, fitting: pl.DataFrame) -> pl.DataFrame:
    """Return the best rivals of each proposal on either side, as ``proposal, side, e, i, score_milli``."""
    pool = fitting.filter(~pl.col("alone")).sort(["score_milli", "e", "i"], descending=[True, False, False])
    contested = chosen.filter(~pl.col("alone"))
    found = []
    for side, end, other in ((Side.EXPECTED, "i", "e"), (Side.INCOMING, "e", "i")):
        # One more than is kept, because the proposal itself may be among the best.
        best = pool.group_by(end, maintain_order=True).head(ALTERNATIVES_MAX + 1).select("e", "i", "score_milli")
        rivals = (
            contested.select("proposal", end, its=other)
            .join(best, on=end)
            .filter(pl.col("its") != pl.col(other))
            .sort(["proposal", "score_milli", other], descending=[False, True, False])
            .group_by("proposal", maintain_order=True)
            .head(ALTERNATIVES_MAX)
        )
        found.append(rivals.select("proposal", "e", "i", "score_milli", side=pl.lit(side.value, dtype=pl.Int8)))
    return pl.concat(found).sort(
        ["proposal", "side", "score_milli", "e", "i"], descending=[False, False, True, False, False]
    )


def _by_reason(frame: pl.DataFrame) -> dict[str, int]:
    counts = dict(frame.group_by("reason").len().iter_rows())
    return {reason.code: counts[reason.value] for reason in Reason if reason.value in counts}


def _with_ordinals(frame: pl.DataFrame, sides: Sides) -> pl.DataFrame:
    return frame.with_columns(
        expected=sides.expected["ordinal"].gather(frame["e"]), incoming=sides.incoming["ordinal"].gather(frame["i"])
    )


def propose(
    expected: pl.DataFrame,
    incoming: pl.DataFrame,
    rules: MatchingRules,
    rejected: pl.DataFrame | None = None,
    *,
    observe: Observer | None = None,
) -> Proposals:
    """Match open expected transactions with open lines, one to one, and in parts where a reference proves it.

    ``expected`` and ``incoming`` have the columns of ``EXPECTED_SCHEMA`` and ``INCOMING_SCHEMA``, ``rejected`` pairs
    of ordinals never to propose again. ``observe`` is called with the name of each stage when it ends.

    Raises
    ------
    ColumnsError
        A frame is not what the engine takes.

    """
    done = observe or (lambda _stage: None)
    sides = prepare(expected, incoming)
    refused = _rejected_codes(rejected, sides)
    done("prepare")
    found = candidates(sides, rules)
    done("block")
    pairs = scored(_without(found.pairs, refused), sides, rules)
    done("score")
    fitting = competed(pairs.filter(pl.col("fault") == 0), found, rules)
    done("compete")
    busy = pl.concat([fitting.select("i"), pairs.filter(pl.col("rank") == RANK_PROOF).select("i")]).unique()
    rest, findings = _residual(sides, fitting.filter("chosen").select("e").unique(), busy, found, refused, rules)
    done("residual")
    everything = pl.concat([fitting, rest])
    chosen = everything.filter("chosen").sort("e", "i").with_row_index("proposal")
    alternatives = _alternatives(chosen, everything)
    done("alternatives")
    findings = pl.concat([findings, forbidden(pairs), lost(fitting)])
    findings = pl.concat([findings, _neighbours(sides, chosen, findings, refused)])
    open_items = open_expected(sides, chosen["e"].unique(), findings, found)
    open_lines = open_incoming(sides, chosen["i"].unique(), findings, found)
    done("reasons")
    result = _with_ordinals(chosen, sides).select(
        "expected",
        "incoming",
        "score_milli",
        "probability_ppm",
        "confidence",
        "status",
        "auto",
        "pending",
        "difference_minor",
        "rivals_expected",
        "rivals_incoming",
        *LEVELS,
        amount_minor="leg_minor",
    )
    return Proposals(
        pairs=result,
        alternatives=_with_ordinals(alternatives, sides).select(
            "proposal", "side", "expected", "incoming", "score_milli"
        ),
        open_expected=open_items,
        open_incoming=open_lines,
        counts=Counts(
            expected=sides.expected.height,
            incoming=sides.incoming.height,
            candidates=pairs.height,
            proposed=result.height,
            auto_accepted=int(result["auto"].sum()),
            ambiguous=result.filter(pl.col("status") == Uniqueness.AMBIGUOUS.value).height,
            open_expected=_by_reason(open_items),
            open_incoming=_by_reason(open_lines),
        ),
    )
