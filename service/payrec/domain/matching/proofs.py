"""What lines quote of items, in full or by too little: what explicit groups are made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import polars as pl

from payrec.domain.matching.columns import PARTY_KEYS, Sides
from payrec.domain.matching.ruled import lacking
from payrec.domain.matching.rules import AmountLevel, EndToEndLevel, MatchingRules, Reason, ReferenceLevel
from payrec.domain.matching.score import RANK_PROOF, contradicted

_PROOF: Final = ["e", "i", "e_amount_minor", "i_amount_minor", "score_milli", "days_outside"]
_ENDS: Final = ["e", "i"]


@dataclass(frozen=True, slots=True)
class Proofs:
    """Pairs by proof: references quoted in full and equal end-to-end ids. Flagged duplicates are not among them."""

    claimed: pl.DataFrame
    """All of them."""
    fitting: pl.DataFrame
    """Those within the date window, with their amounts and score."""
    settled: pl.DataFrame
    """Of these, the ones of equal amount: they are better than any group."""
    short: pl.DataFrame
    """Pairs of one counterparty of which the line quotes the item by what proves nothing, as ``fitting``.

    The counterparty is the line's own, or where nothing says otherwise that of an item which it quotes in full.
    """


def proofs_of(pairs: pl.DataFrame, sides: Sides, rules: MatchingRules) -> Proofs:
    """Return the proofs among scored pairs."""
    if pairs.is_empty():
        return _no_proofs()
    proving = (pl.col("rank") == RANK_PROOF) & ~pl.col("duplicate")
    quoted = pl.col("reference_level") == ReferenceLevel.PARTIAL.value
    quoted |= pl.col("end_to_end_level") == EndToEndLevel.PARTIAL.value
    timely = pl.col("fault").is_in([0, Reason.AMOUNT_MISMATCH.value])
    short = (pl.col("rank") < RANK_PROOF) & quoted & timely & ~pl.col("duplicate") & (lacking(rules) == 0)
    told = pairs.select(
        *_PROOF, "fault", "amount_level", proving=proving, short=short, payer="payer", other=contradicted()
    )
    claimed = told.filter("proving")
    fitting = claimed.filter(pl.col("fault") == 0)
    settled = fitting.filter(pl.col("amount_level") == AmountLevel.EQUAL.value)
    hints = told.filter("short", ~pl.col("other") | pl.col("payer"))
    return Proofs(claimed[_ENDS], fitting[_PROOF], settled[_ENDS], _of_payer(hints, fitting, sides)[_PROOF])


def _of_payer(hints: pl.DataFrame, fitting: pl.DataFrame, sides: Sides) -> pl.DataFrame:
    """Return the pairs whose item is of the line's counterparty, or of that of an item that it quotes in full."""
    unsaid = hints.filter(~pl.col("payer"))
    if unsaid.is_empty() or fitting.is_empty():
        return hints.filter("payer")
    same = of_same_party(unsaid, fitting, sides)
    return pl.concat([hints.filter("payer"), unsaid.join(same, on=_ENDS, how="semi")])


def of_same_party(pairs: pl.DataFrame, others: pl.DataFrame, sides: Sides) -> pl.DataFrame:
    """Return the pairs ``e, i`` whose item is of the counterparty of one that the line has among the others."""
    said = sides.expected.select(*PARTY_KEYS, e="row")
    its, theirs = (rows.select(_ENDS).join(said, on="e") for rows in (pairs, others))
    same = [its.drop_nulls(name).join(theirs, on=["i", name], how="semi").select(_ENDS) for name in PARTY_KEYS]
    return pl.concat(same).unique()


@cache
def _no_proofs() -> Proofs:
    types = {**dict.fromkeys(_PROOF, pl.Int64()), **dict.fromkeys(_ENDS, pl.UInt32()), "score_milli": pl.Int32()}
    none = pl.DataFrame(schema=types)
    return Proofs(none[_ENDS], none, none[_ENDS], none)
