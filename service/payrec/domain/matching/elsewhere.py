"""Lines that quote in full what they cannot pay: of another currency or direction, too far away, rejected, or closed.

They name something of their counterparty's, and it is not what has their amount. So whatever else fits them is for a
person to look at, and so is what they quote beside it and pay nearly: a credit note that they take off is no fee. The
number of somebody else's item, which is quoted by mistake, says nothing.

So it is where a difference that counts as none is just what something else of the counterparty is, or several things
together: it may have been settled by that, and not by a fee that somebody kept. And so it is where the line has to the
minor unit what another item of the counterparty asks for, whoever pays: the number may be mistaken.
"""

from __future__ import annotations

import polars as pl

from payrec.domain.matching.block import LINE_KEYS, PARTY_KEYS, Candidates, in_full, with_code
from payrec.domain.matching.columns import PARTY_KEYS as PARTIES
from payrec.domain.matching.columns import Sides
from payrec.domain.matching.emptiness import once
from payrec.domain.matching.rules import KEY_ITEMS_MAX, LineLevel
from payrec.domain.matching.score import AS_ASKED, NEARLY, RANK_PROOF, contradicted, said_of_line
from payrec.domain.matching.several_else import asked_of, several


def with_elsewhere(pairs: pl.DataFrame, found: Candidates, refused: pl.DataFrame, sides: Sides) -> pl.DataFrame:
    """Return the scored pairs; without a proof, or of another amount, they are ``elsewhere`` if their line quotes more.

    The ``line_level`` says so where nothing else is said there but that it is booked.
    ``refused`` are the codes of rejected pairs, which are among those that were ``found`` and not among the scored.
    """
    pairs = _with_rest(pairs, sides)
    unproved = (pl.col("rank") < RANK_PROOF) | ~pl.col("amount_level").is_in(AS_ASKED)
    lines = pairs.filter(unproved, pl.col("fault") == 0, ~pl.col("elsewhere"))["i"].unique()
    if lines.is_empty():
        return pairs
    own = pl.col("payer") | ~contradicted()
    faulty = pairs.filter(pl.col("rank") == RANK_PROOF, pl.col("fault") != 0, own)["i"]
    named = once(faulty, _rejected(found, refused), _apart(lines, sides), _closed(lines, sides))
    if named.is_empty():
        return pairs
    other = unproved & pl.col("i").is_in(named.implode())
    return pairs.with_columns(
        elsewhere=pl.col("elsewhere") | other, line_level=said_of_line(other, LineLevel.QUOTES_OTHER)
    )


def _with_rest(pairs: pl.DataFrame, sides: Sides) -> pl.DataFrame:
    """Return the pairs; those taken for equal that may be something else are ``elsewhere``."""
    near = pairs.filter(pl.col("amount_level").is_in(NEARLY), pl.col("fault") == 0)
    if near.is_empty() or (rest := just_another(near, sides)).is_empty():
        return pairs
    other = with_code(pairs)["code"].is_in(with_code(rest)["code"].implode())
    return pairs.with_columns(
        elsewhere=pl.col("elsewhere") | other, line_level=said_of_line(pl.lit(other), LineLevel.DIFFERS_BY_OTHER)
    )


def just_another(rows: pl.DataFrame, sides: Sides) -> pl.DataFrame:
    """Return those of the rows ``e, i`` of which the line, or ``difference_minor``, is just something else.

    The difference is the line less the items. Something else is of the counterparty of either; with it in the place of
    one of the items, they may be the line to the minor unit.

    What is too much may be of other items of the counterparty or have been given back, what is missing credit notes of
    its own, or the part that other lines pay.
    """
    difference, way = pl.col("difference_minor"), pl.col("difference_minor").sign().cast(pl.Int8)
    items, lines = (
        sides.expected.select(asked="amount_minor", e="row"),
        sides.incoming.select(paid="amount_minor", i="row"),
    )
    ends = rows.select("e", "i", "difference_minor").join(items, on="e").join(lines, on="i")
    gaps = ends.select("e", "i", amount_minor=difference.abs(), way=way)
    forth = pl.lit(1, dtype=pl.Int8)
    # Who does not say that he is the counterparty has no pair with what has his very amount.
    whole = ends.select("e", "i", amount_minor="paid", way=forth)
    # What one item would have to be in the place of another for the line to differ by nothing.
    instead = ends.select("e", "i", amount_minor=pl.col("asked") + difference, way=forth)
    back = gaps.with_columns(way=-pl.col("way"))
    found = [several(gaps, sides.expected, "e"), several(back, sides.incoming, "i")]
    for asked, frame, end in (
        (pl.concat([gaps, whole, instead]), sides.expected, "e"),
        (back, sides.incoming, "i"),
    ):
        its = asked_of(asked, frame, end)
        # None of the line's own is something else.
        its = its.join(its.select("i", amount_minor="own").unique(), on=["i", "amount_minor"], how="anti")
        for name in PARTIES:
            own = its.drop_nulls(name).join(frame, on=["currency", "direction", name, "amount_minor"], how="semi")
            found.append(own.select("e", "i"))
    return pl.concat(found).unique()


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
    quoted = _quoted(lines, sides).join(
        items.filter((pl.col("key") & 1) == 1), left_on="reference_keys", right_on="key"
    )
    # Who quotes a number that something in his currency has as well means that.
    here = quoted.filter(pl.col("its_salt") == pl.col("salt"))
    there = quoted.filter(pl.col("its_salt") != pl.col("salt")).join(here, on=["row", "reference_keys"], how="anti")
    return there.filter(_not_contradicted())["row"]


def _closed(lines: pl.Series, sides: Sides) -> pl.Series:
    """Return those of the lines that quote in full what its counterparty has no open item of any more.

    What is left of a line that has paid something is not of that, though it quotes it.
    """
    if sides.closed.is_empty():
        return lines.clear()
    whole = sides.incoming.filter(pl.col("amount_minor") == pl.col("total_minor"))["row"]
    quoted = _quoted(lines.filter(lines.is_in(whole.implode())), sides).join(
        sides.expected.select("reference_key"), left_on="reference_keys", right_on="reference_key", how="anti"
    )
    # What so many have is the number of none of them.
    closed = sides.closed.unique().filter(pl.len().over("reference_key") <= KEY_ITEMS_MAX)
    its = quoted.join(closed, left_on="reference_keys", right_on="reference_key")
    return its.filter(_not_contradicted())["row"]


def _not_contradicted() -> pl.Expr:
    """Tell of what lines quote whether it is of their counterparty, as far as is known of either.

    The line's keys have ``its_`` before.
    """
    agree = pl.any_horizontal(pl.col(name) == pl.col(f"its_{its}") for name, its in PARTY_KEYS).fill_null(value=False)
    differ = pl.any_horizontal(pl.col(name) != pl.col(f"its_{name}") for name in ("account_key", "name_key"))
    return agree | ~differ.fill_null(value=False)


def _quoted(lines: pl.Series, sides: Sides) -> pl.DataFrame:
    """Return a row for each key that one of the lines quotes, with what the line says of its counterparty."""
    own = {f"its_{name}": name for name in LINE_KEYS}
    rows = sides.incoming.filter(pl.col("row").is_in(lines.implode()))
    return rows.select("row", "reference_keys", its_salt="salt", **own).explode("reference_keys")
