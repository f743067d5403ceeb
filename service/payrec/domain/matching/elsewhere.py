"""Lines that quote in full what they cannot pay: an item of another currency or direction, too far away, or rejected.

They name something of their counterparty's, and it is not what has their amount. So whatever else fits them is for a
person to look at. The number of somebody else's item, which is quoted by mistake, says nothing.
"""

from __future__ import annotations

import polars as pl

from payrec.domain.matching.block import LINE_KEYS, PARTY_KEYS, Candidates, in_full, with_code
from payrec.domain.matching.columns import Sides
from payrec.domain.matching.emptiness import once
from payrec.domain.matching.score import RANK_PROOF, contradicted


def with_elsewhere(pairs: pl.DataFrame, found: Candidates, refused: pl.DataFrame, sides: Sides) -> pl.DataFrame:
    """Return the scored pairs, of which those that no reference proves are ``elsewhere`` if their line quotes another.

    ``refused`` are the codes of rejected pairs, which are among those that were ``found`` and not among the scored.
    """
    unproved = pl.col("rank") < RANK_PROOF
    lines = pairs.filter(unproved, pl.col("fault") == 0, ~pl.col("elsewhere"))["i"].unique()
    if lines.is_empty():
        return pairs
    own = pl.col("payer") | ~contradicted()
    faulty = pairs.filter(pl.col("rank") == RANK_PROOF, pl.col("fault") != 0, own)["i"]
    named = once(faulty, _rejected(found, refused), _apart(lines, sides))
    if named.is_empty():
        return pairs
    return pairs.with_columns(elsewhere=pl.col("elsewhere") | (unproved & pl.col("i").is_in(named.implode())))


def _rejected(found: Candidates, refused: pl.DataFrame) -> pl.Series:
    """Return the lines of which a person has rejected what they quote in full."""
    if refused.is_empty():
        return found.pairs["i"].clear()
    return with_code(found.pairs.filter(in_full())).join(refused, on="code", how="semi")["i"]


def _apart(lines: pl.Series, sides: Sides) -> pl.Series:
    """Return those of the lines that quote in full an item of another currency or direction."""
    if sides.expected["salt"].n_unique() <= 1:
        # Lines of another one than the only one that items have, have no pair that fits.
        return lines.clear()
    items = sides.expected.select("salt", "account_key", "name_key", key="reference_key")
    quoted = (
        sides.incoming.select("row", "reference_keys", its_salt="salt", **{f"its_{name}": name for name in LINE_KEYS})
        .filter(pl.col("row").is_in(lines.implode()))
        .explode("reference_keys")
        .join(items.filter((pl.col("key") & 1) == 1), left_on="reference_keys", right_on="key")
    )
    # Who quotes a number that something in his currency has as well means that.
    here = quoted.filter(pl.col("its_salt") == pl.col("salt"))
    there = quoted.filter(pl.col("its_salt") != pl.col("salt")).join(here, on=["row", "reference_keys"], how="anti")
    agree = pl.any_horizontal(pl.col(name) == pl.col(f"its_{its}") for name, its in PARTY_KEYS).fill_null(value=False)
    differ = pl.any_horizontal(pl.col(name) != pl.col(f"its_{name}") for name in ("account_key", "name_key"))
    return there.filter(agree | ~differ.fill_null(value=False))["row"]
