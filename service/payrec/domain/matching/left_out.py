"""What a line that a run has left out would have to say to be a rival of what that run is sure of.

A run over some of the lines sees no rival in the others. Which of them are rivals is asked for afterwards, of what is
sure alone, so that it is never surer than a run over everything would be. Where an answer costs as much as that run,
everything counts that comes near.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

import polars as pl

from payrec.domain.matching.certificate import proved
from payrec.domain.matching.columns import shaped
from payrec.domain.matching.engine import Proposals
from payrec.domain.matching.line_rules import ROUNDING_MINOR_MAX
from payrec.domain.matching.partial import BLIND
from payrec.domain.matching.ruled import tolerance
from payrec.domain.matching.rules import (
    Confidence,
    EndToEndLevel,
    GroupLevel,
    MatchingRules,
    MatchKind,
    ReferenceLevel,
)
from payrec.domain.matching.score import NEARLY, contradicted

_OF: Final = {"proposal": pl.UInt32(), "currency": pl.String(), "direction": pl.Int8()}

QUOTED_SCHEMA: Final = {**_OF, "key": pl.Int64()}
"""Keys that may prove: whoever quotes one, or has it as a group id, is a rival whatever his amount."""

OF_PARTY_SCHEMA: Final = {
    **_OF,
    "low_minor": pl.Int64(),
    "high_minor": pl.Int64(),
    "name_key": pl.Int64(),
    "account_key": pl.Int64(),
}
"""Counterparties: who is one, or pays on his behalf, is a rival with one of the amounts."""

PAID_SCHEMA: Final = {
    **_OF,
    "amount_minor": pl.Int64(),
    "reference_key": pl.Int64(),
    "reference_digits": pl.Int64(),
    "is_anybody": pl.Boolean(),
    "is_stranger": pl.Boolean(),
}
"""Amounts: who has one is a rival where he quotes the reference by what proves nothing, or nearly quotes it; where it
may be anybody; or where no item's counterparty has his name, so that it may resemble the one that counts."""

OWN_SCHEMA: Final = {"proposal": pl.UInt32(), "account_key": pl.Int64()}
"""Accounts of payers: where one is the tenant's own, which its other lines say, the money is the tenant's as well."""

_KEYS: Final = ("reference_key", "end_to_end_key", "group_key")
_OWN: Final = [MatchKind.TRANSFER.value, MatchKind.REFUND.value]


@dataclass(frozen=True, slots=True)
class Rivals:
    """What would be rivals, by the number of the proposal; the rows are unique."""

    quoted: pl.DataFrame
    of_party: pl.DataFrame
    paid: pl.DataFrame
    own: pl.DataFrame

    def is_empty(self) -> bool:
        """Tell whether nothing would be one."""
        return all(getattr(self, field.name).is_empty() for field in fields(self))


def rivals_wanted(proposals: Proposals, expected: pl.DataFrame, incoming: pl.DataFrame, rules: MatchingRules) -> Rivals:
    """Return what would be rivals of the proposals that are sure; the frames are what the run has looked at."""
    levels = pl.col("group_level")
    hinted = (pl.col("reference_level") >= ReferenceLevel.COMMON.value) | (
        pl.col("end_to_end_level") == EndToEndLevel.PARTIAL.value
    )
    sure = (
        proposals.matches.with_row_index("proposal")
        .filter(pl.col("auto") | (pl.col("confidence") >= Confidence.HIGH.value), ~levels.is_in(BLIND))
        .select(
            "proposal",
            "kind",
            alone=(levels == GroupLevel.UNKNOWN.value) & ~pl.col("kind").is_in(_OWN),
            listed=levels == GroupLevel.BY_ADVICE.value,
            named=proved(),
            hinted=hinted,
            near=pl.col("amount_level").is_in(NEARLY),
            other=contradicted(),
        )
    )
    legs = proposals.legs.join(sure, on="proposal")
    items = [_ends(legs, expected, name) for name in ("expected", "contra_expected")]
    lines = [_ends(legs, incoming, name) for name in ("incoming", "contra_incoming")]
    pairs = items[0].filter("alone")
    quoted = [_quoting(items[0], 1), _quoting(items[1], 1), _quoting(items[1], -1), _given_back(legs, incoming)]
    # What has its amount beside a payment that is nearly it may be meant by that, and what explains the difference.
    of_party = [_as_good(pairs.filter(~pl.col("named") | pl.col("other")), rules), _just(pairs.filter("near"))]
    of_party += [_rests(rows.filter("near"), proposals.adjustments) for rows in (items[0], lines[0])]
    hints = pairs.filter(~pl.col("named") & ~pl.col("hinted")).with_columns(is_anybody=False, is_stranger=False)
    ids = hints.with_columns(reference_key="end_to_end_key", reference_digits=None)
    doubtful = pairs.filter(pl.col("named") & (pl.col("other") | pl.col("near")))
    moved = pl.concat(lines).filter(pl.col("kind") == MatchKind.TRANSFER.value)
    # Whose advice it is says who pays, and any line of its amount may be the payment that it announces.
    listed = lines[0].filter("listed")
    paid = [
        *(rows.select(*PAID_SCHEMA) for rows in (hints, ids)),
        *(_paid(rows, is_anybody=True) for rows in (moved, listed)),
        _paid(doubtful, is_anybody=False),
    ]
    return Rivals(
        quoted=_unique(quoted, QUOTED_SCHEMA),
        of_party=_unique(of_party, OF_PARTY_SCHEMA),
        paid=_unique(paid, PAID_SCHEMA),
        own=_unique([lines[0].filter(~pl.col("kind").is_in(_OWN)).drop_nulls("account_key")], OWN_SCHEMA),
    )


def _unique(frames: list[pl.DataFrame], schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    return pl.concat([shaped(frame, schema) for frame in frames]).unique()


def _ends(legs: pl.DataFrame, frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return the legs with what is known of one of their ends, those without it left out."""
    said = legs.drop("amount_minor", "settled_minor").drop_nulls(name)
    return said.join(frame.rename({"ordinal": name}), on=name, maintain_order="left")


def _quoting(items: pl.DataFrame, way: int) -> pl.DataFrame:
    """Return QUOTED_SCHEMA of what could prove a payment of the items, or (-1) that others pay them."""
    rows = items.with_columns(direction=pl.col("direction") * way)
    keys = pl.concat([rows.select(*_OF, key=name) for name in _KEYS])
    return keys.filter((pl.col("key") & 1) == 1)


def _given_back(legs: pl.DataFrame, incoming: pl.DataFrame) -> pl.DataFrame:
    """Return QUOTED_SCHEMA of what both lines of refunds quote: a third one may be given back as well."""
    ends = [
        _ends(legs.filter(pl.col("kind") == MatchKind.REFUND.value), incoming, name)
        .select(*_OF, key="reference_keys")
        .explode("key")
        for name in ("incoming", "contra_incoming")
    ]
    both = ends[0].filter((pl.col("key") & 1) == 1).join(ends[1], on=["proposal", "key"], how="semi")
    return pl.concat([both, both.with_columns(-pl.col("direction"))])


def _as_good(pairs: pl.DataFrame, rules: MatchingRules) -> pl.DataFrame:
    """Return OF_PARTY_SCHEMA of the items, with all amounts that count as theirs, whichever line has them."""
    amount, bounds = pl.col("amount_minor"), [rules, *(rule.bounds for rule in rules.line_rules)]
    off = pl.max_horizontal(
        [
            tolerance(amount, points=of_some.amount_tolerance_basis_points, minor=of_some.amount_tolerance_minor)
            for of_some in bounds
        ]
    )
    terms = pl.col("terms").list.gather_every(2).list.min()
    return pairs.with_columns(
        low_minor=pl.min_horizontal(amount - off, "min_minor", terms - ROUNDING_MINOR_MAX),
        high_minor=pl.max_horizontal(amount + off, "max_minor"),
    )


def _just(pairs: pl.DataFrame) -> pl.DataFrame:
    return pairs.with_columns(low_minor="amount_minor", high_minor="amount_minor")


def _rests(rows: pl.DataFrame, adjustments: pl.DataFrame) -> pl.DataFrame:
    """Return OF_PARTY_SCHEMA of the differences: they may be another payment, or several."""
    # What is missing comes as the payment does, what is too much goes back.
    way = pl.when(pl.col("incoming").is_null()).then(1).otherwise(-1).cast(pl.Int8)
    rest = rows.join(adjustments.select("proposal", high_minor="amount_minor", way=way), on="proposal")
    return rest.with_columns(low_minor=1, direction=pl.col("direction") * pl.col("way"))


def _paid(rows: pl.DataFrame, *, is_anybody: bool) -> pl.DataFrame:
    nothing = pl.lit(None, dtype=pl.Int64)
    return rows.with_columns(
        reference_key=nothing, reference_digits=nothing, is_anybody=is_anybody, is_stranger=not is_anybody
    )
