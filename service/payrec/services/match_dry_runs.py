"""What a dry run answers: the first proposals in its result, and a file of all of them where there are more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import polars as pl

from payrec.constants.exports import EXPORT_ROWS_MAX
from payrec.domain.matching.engine import Proposals
from payrec.domain.matching.rules import Confidence, MatchKind
from payrec.errors import FieldError, ValidationFailedError
from payrec.services.match_columns import Snapshot, ids_at, texts_of

PROPOSALS_MAX: Final = 1_000
"""Proposals in the answer of a dry run."""

LEGS_MAX: Final = 10_000
"""Legs of all of them together."""

PROPOSALS_FILE: Final = "match-proposals"
"""What the file is called among the exports."""

_LEG_ENDS: Final = {
    "expected": "expectedTransactionId",
    "contra_expected": "contraExpectedTransactionId",
    "incoming": "incomingTransactionId",
    "contra_incoming": "contraIncomingTransactionId",
}
"""The ends that a leg may have, by the engine's column, of which it has two."""

_NAMES: Final = {kind: {member.value: member.name.lower() for member in kind} for kind in (MatchKind, Confidence)}


def first_proposals(proposals: Proposals, snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return the first proposals of a run, as many as an answer is meant for."""
    shown = proposals.matches.filter(pl.col("size").cum_sum() <= LEGS_MAX).height
    frame = _frame(proposals, snapshot, first=min(shown, PROPOSALS_MAX))
    found: dict[int, dict[str, Any]] = {}
    for row in frame.iter_rows(named=True):
        one = found.setdefault(
            row["proposal"],
            {
                "kind": row["kind"],
                "legs": [],
                "amountMinor": row["amountMinor"],
                "confidence": row["confidence"],
                "score": row["score"],
                "autoAccept": row["autoAccept"],
                **({"rules": json.loads(row["rules"])} if row["rules"] is not None else {}),
            },
        )
        ends = {name: row[name] for name in _LEG_ENDS.values() if row[name] is not None}
        one["legs"].append({**ends, "amountMinor": row["legAmountMinor"]})
    return list(found.values())


def write_proposals(proposals: Proposals, snapshot: Snapshot, path: Path) -> int:
    """Write all proposals of a run as CSV, a line for each leg; return how many lines. Blocking.

    Nothing that somebody has written is in it but the names of rules, which no spreadsheet computes.

    Raises
    ------
    ValidationFailedError
        There are more than ``EXPORT_ROWS_MAX`` legs.
    """
    if proposals.legs.height > EXPORT_ROWS_MAX:
        detail = f"it would propose more than {EXPORT_ROWS_MAX} legs: narrow it"
        raise ValidationFailedError.of(FieldError(pointer="/incomingFilter", code="export_too_large", detail=detail))
    frame = _frame(proposals, snapshot, first=proposals.matches.height)
    frame.write_csv(path, line_terminator="\r\n")
    return frame.height


def _frame(proposals: Proposals, snapshot: Snapshot, *, first: int) -> pl.DataFrame:
    """Return a row for each leg of the first proposals, in their order."""
    legs = proposals.legs.filter(pl.col("proposal") < first)
    ends = {name: texts_of(ids_at(snapshot, legs[end], end)) for end, name in _LEG_ENDS.items()}
    matches = proposals.matches.head(first).with_row_index("proposal")
    # Of what a run would let a person review blindly, this does not tell it either.
    told = ~pl.col("sampled")
    return (
        legs.with_columns(**ends)
        .rename({"amount_minor": "legAmountMinor", "settled_minor": "legSettledMinor"})
        .join(matches, on="proposal", maintain_order="left")
        .join(proposals.ruled, on="proposal", how="left", maintain_order="left")
        .select(
            "proposal",
            pl.col("kind").replace_strict(_NAMES[MatchKind], return_dtype=pl.String),
            pl.when(told).then(pl.col("confidence").replace_strict(_NAMES[Confidence], return_dtype=pl.String)),
            # By a literal it is multiplied with the reciprocal, which shows in the last digit.
            score=pl.when(told).then((pl.col("score_milli") / 1000).round(3)),
            autoAccept="auto",
            amountMinor="amount_minor",
            rules="rules",
            **{name: pl.col(name) for name in (*_LEG_ENDS.values(), "legAmountMinor", "legSettledMinor")},
        )
    )
