"""What is proposed when nothing better is left: equal amounts of anybody, near amounts of the counterparty.

Proposals only, for a person to decide. Of a near amount the leg is what was paid, at most what is open on the item;
whether the difference is adjusted or stays open is for ``adjustments`` to say. A line for which any item of equal
amount is left is never given to another one.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from payrec.domain.matching.adjustments import less_a_fee, overpaid, rounded, units
from payrec.domain.matching.block import PARTY_KEYS, Candidates, amount_pairs, distinct, equal_pairs, keyed, unquoted
from payrec.domain.matching.columns import Sides
from payrec.domain.matching.compete import Taken, competed
from payrec.domain.matching.emptiness import of_none
from payrec.domain.matching.line_rules import Required
from payrec.domain.matching.names_alike import by_word, named_alike
from payrec.domain.matching.reasons import alike, forbidden, lost, no_findings
from payrec.domain.matching.ruled import lacking, required
from payrec.domain.matching.rules import (
    KEY_ITEMS_MAX,
    KEY_LINES_MAX,
    RESIDUAL_CANDIDATES_MAX,
    DateLevel,
    EndToEndLevel,
    MatchingRules,
    Reason,
    ReferenceLevel,
)
from payrec.domain.matching.score import contradicted, resembles, scored, without

_ROUNDED: Final = 1
_LESS_A_FEE: Final = 2
_PART: Final = 3
"""How near the amounts are; the nearer of two candidates is meant."""

_STEP_MIN: Final = 100
"""Minor units at least by which amounts are put beside each other: more than one that was rounded is off."""


def residual(
    sides: Sides, pairs: pl.DataFrame, busy: Taken, found: Candidates, rejected: pl.DataFrame, rules: MatchingRules
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Propose among the rows that are not ``busy``; returns competed pairs, and findings.

    ``pairs`` are those that were scored already, ``rejected`` the ``code`` of those never to propose.
    """
    items, lines = busy.left(sides)
    if items.is_empty() or lines.is_empty():
        # Only lines that pay nothing are left, or nothing that could be paid.
        ends = competed(scored(found.pairs.clear(), sides, rules), found, rules, busy)
        return ends, no_findings()
    equal = distinct(pl.concat([amount_pairs(items, lines).pairs, unquoted(by_word(items, lines, sides))]))
    equal, findings = _by_amount(without(equal, rejected), sides, busy, found, rules)
    # With or without a proposal: too many items of the line's amount are no reason to take one of another amount.
    busy = busy.joined(equal.filter("chosen")["e"], pl.concat([equal["i"], findings.filter("fits")["i"]]))
    return pl.concat([equal, _near(sides, pairs, busy, found, rejected, rules)]), findings


def _by_amount(
    equal: pl.DataFrame, sides: Sides, busy: Taken, found: Candidates, rules: MatchingRules
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Propose by amount and date alone: some of the pairs that are ``equal`` in amount."""
    pairs = named_alike(scored(equal, sides, rules), sides, rules)
    fitting = pairs.filter(pl.col("fault") == 0)
    few = (pl.len().over("e") <= RESIDUAL_CANDIDATES_MAX) & (pl.len().over("i") <= RESIDUAL_CANDIDATES_MAX)
    # A name tells equal amounts apart.
    few |= resembles()
    fitting = fitting.with_columns(few=few)
    pairs_few = competed(fitting.filter("few").drop("few"), found, rules, busy)
    findings = pl.concat([forbidden(pairs), alike(fitting.filter(~pl.col("few"))), lost(pairs_few)])
    return pairs_few, findings


def _of_party(sides: Sides, busy: Taken) -> pl.DataFrame:
    """Return the pairs of one counterparty; of one with many items those alone whose amounts are nearly equal.

    What a line quotes does not matter: nearly every text has a number that is no item's, of a customer or a day.
    """
    items, lines = busy.left(sides)
    found = []
    for name, its_name in PARTY_KEYS:
        join = equal_pairs(keyed(items, name), keyed(lines, its_name), items_max=KEY_ITEMS_MAX, lines_max=KEY_LINES_MAX)
        found.append(join.pairs)
        if join.crowded_lines.len():
            of_many = items.join(join.crowded_items.to_frame("row"), on="row", how="semi")
            for_many = lines.join(join.crowded_lines.to_frame("row"), on="row", how="semi")
            found.append(_of_many(of_many, for_many, name, its_name, sides))
    return distinct(unquoted(pl.concat(found)))


def _of_many(items: pl.DataFrame, lines: pl.DataFrame, name: str, its_name: str, sides: Sides) -> pl.DataFrame:
    """Return the pairs of a key and of amounts that were rounded: of many items one is near any amount by chance."""
    unit = [units(rows["currency"]).clip(_STEP_MIN) for rows in (items, lines)]
    step = pl.col("amount_minor") // pl.col("unit")
    steps = items.with_columns(unit=unit[0]).with_columns(amount_minor=step)
    beside = [lines.with_columns(unit=unit[1]).with_columns(amount_minor=step + more) for more in (-1, 0, 1)]
    pairs = equal_pairs(
        keyed(steps, name, with_amount=True),
        keyed(pl.concat(beside), its_name, with_amount=True),
        items_max=KEY_ITEMS_MAX,
        lines_max=KEY_LINES_MAX,
    ).pairs
    of_pairs = sides.expected.select("currency", "amount_minor")[pairs["e"]]
    amounts = pairs.with_columns(
        e_amount_minor=of_pairs["amount_minor"],
        i_amount_minor=sides.incoming["amount_minor"][pairs["i"]],
        unit=units(of_pairs["currency"]),
    )
    return amounts.filter(rounded()).select("e", "i")


@of_none
def _nearness(pairs: pl.DataFrame, sides: Sides) -> pl.DataFrame:
    """Add ``near``: how near the amounts are, null when they are not. No product leaves 64 bits.

    An item with a minimum or maximum of its own says itself what is near.
    """
    items = sides.expected.select("currency", banded=pl.any_horizontal(pl.col("min_minor", "max_minor").is_not_null()))
    of_pairs = items[pairs["e"]]
    asked, paid = pl.col("e_amount_minor"), pl.col("i_amount_minor")
    less = asked - paid
    part = ((less > 0) & (less <= asked // 5 * 2)) | overpaid()
    return (
        pairs.with_columns(unit=units(of_pairs["currency"]), banded=of_pairs["banded"])
        .with_columns(
            near=pl.when("banded")
            .then(None)
            .when(rounded())
            .then(_ROUNDED)
            .when(less_a_fee())
            .then(_LESS_A_FEE)
            .when(part)
            .then(_PART)
            .cast(pl.Int8)
        )
        .drop("unit", "banded")
    )


def _near(
    sides: Sides, pairs: pl.DataFrame, busy: Taken, found: Candidates, rejected: pl.DataFrame, rules: MatchingRules
) -> pl.DataFrame:
    """Propose the one item that comes near the line's amount, when its party or a partial reference speaks for it."""
    partial = (pl.col("reference_level") == ReferenceLevel.PARTIAL.value) | (
        pl.col("end_to_end_level") == EndToEndLevel.PARTIAL.value
    )
    hinted = pairs.filter(partial & ~pl.col("duplicate") & ~busy.touches())
    of_party = scored(without(_of_party(sides, busy), rejected), sides, rules)
    named = pl.col("payer") | resembles()
    allowed = (pl.col("fault") == Reason.AMOUNT_MISMATCH.value) & ~contradicted() & (lacking(rules) == 0)
    # A reference of many items tells none of them apart.
    allowed &= partial | ~required(rules, Required.REFERENCE)
    timely = pl.col("date_level").is_in([DateLevel.NEAR, DateLevel.CLOSE])
    close = _nearness(pl.concat([hinted, of_party]).unique(["e", "i"], keep="first"), sides).filter(
        allowed & (named | partial) & pl.col("near").is_not_null() & (timely | (pl.col("near") == _ROUNDED))
    )
    nearest = (pl.col("near") == pl.col("near").min().over("e")) & (pl.col("near") == pl.col("near").min().over("i"))
    close = close.filter(nearest)
    alone = (pl.len().over("e") == 1) & (pl.len().over("i") == 1)
    return competed(close.filter(alone).drop("near").sort("e", "i"), found, rules, busy)
