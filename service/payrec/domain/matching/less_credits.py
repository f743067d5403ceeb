"""Explicit groups of items less their credit notes: one line pays what these leave of what it names.

A credit note is an item of the opposite direction and of the same counterparty. The line quotes it as it quotes the
items, and everything that it quotes sums up; or it quotes the items alone, and of the few open credit notes of their
counterparty only one, or only all of them, is what it is short of the items. Those of a group id are in ``batches``.

Until ``joined`` says which item a credit note settles, it is a member as any other, of a negative amount.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from payrec.domain.matching.block import Candidates, equal_pairs, keyed, with_code
from payrec.domain.matching.columns import PARTY_KEYS, Sides, shaped
from payrec.domain.matching.groups import LEG_SCHEMA, Groups, group_rows, no_groups
from payrec.domain.matching.proofs import Proofs, of_same_party
from payrec.domain.matching.reasons import no_findings
from payrec.domain.matching.ruled import strict_lines
from payrec.domain.matching.rules import (
    KEY_ITEMS_MAX,
    KEY_LINES_MAX,
    SUBSET_MEMBERS_MAX,
    EndToEndLevel,
    GroupLevel,
    MatchingRules,
    MatchKind,
    ReferenceLevel,
)
from payrec.domain.matching.score import in_time, scored
from payrec.domain.matching.subsets import only_subset

assert KEY_ITEMS_MAX <= SUBSET_MEMBERS_MAX, "all sets of the credit notes of a counterparty are tried"

_NOTE: Final = ("row", "amount_minor", "reference_key", "end_to_end_key", "group_key", "account_key", "name_key")
_QUOTED: Final = {"e": pl.UInt32, "i": pl.UInt32, "reference": pl.Int8, "end_to_end": pl.Int8}

JOINED_SCHEMA: Final = {**LEG_SCHEMA, "c": pl.UInt32()}
"""Legs of groups: an item ``e`` with a line ``i``, or with a credit note ``c``; the other is null."""


@dataclass(frozen=True, slots=True)
class Less:
    """The groups, and the credit notes that lines quote."""

    groups: list[Groups]
    quoted: pl.DataFrame
    """``e``, ``i``, ``reference`` and ``end_to_end``, as ``Candidates.pairs``; of lines that quote items as well."""

    def beside(self, found: Candidates) -> Candidates:
        """Return the candidates with the credit notes that are quoted."""
        return replace(found, pairs=pl.concat([found.pairs, self.quoted]))

    def claiming(self, proofs: Proofs) -> Proofs:
        """Return the proofs with what the groups claim of credit notes."""
        claims = [
            way.legs.filter(pl.col("leg_minor") < 0).join(self.quoted, on=["e", "i"], how="semi") for way in self.groups
        ]
        rows = [
            legs.select(
                "e",
                "i",
                e_amount_minor=-pl.col("leg_minor"),
                i_amount_minor=pl.lit(None, dtype=pl.Int64),
                score_milli=pl.lit(0, dtype=pl.Int32),
                days_outside=pl.lit(None, dtype=pl.Int64),
            )
            for legs in claims
        ]
        return replace(proofs, fitting=pl.concat([proofs.fitting, *rows]))


def notes_of(sides: Sides) -> pl.DataFrame:
    """Return the items with the ``salt`` of lines whose items they may be credit notes of."""
    sign = pl.col("direction")
    salts = sides.incoming.select("salt", "currency", "direction").unique()
    own = sides.expected.select("currency", "direction", own="part").unique()
    facing = own.join(salts.with_columns(direction=-sign), on=["currency", "direction"]).select("own", "salt")
    return sides.expected.select(*_NOTE, own="part").join(facing, on="own", maintain_order="left").drop("own")


def less_credits(sides: Sides, proofs: Proofs, refused: pl.DataFrame, rules: MatchingRules) -> Less:
    """Return the groups of items less credit notes.

    ``refused`` are the codes of items that are not to settle each other.
    """
    nothing = Less([], pl.DataFrame(schema=_QUOTED))
    if sides.expected["direction"].n_unique() < 2:
        return nothing
    short = _short(proofs)
    if short.is_empty():
        return nothing
    notes = notes_of(sides)
    if notes.is_empty():
        return nothing
    quoted = _quoted(sides, notes, short)
    ways = [_by_quotes(sides, quoted, short, proofs, rules)]
    ways.append(_by_credits(sides, notes, quoted, short, proofs, rules))
    return Less([allowed(way, refused) for way in ways], quoted)


def allowed(way: Groups, refused: pl.DataFrame) -> Groups:
    """Leave out the groups of which somebody has said that two of its items do not settle each other."""
    if refused.is_empty() or way.groups.is_empty():
        return way
    pairs = refused.select(e=pl.col("code") // 2**32, c=pl.col("code") % 2**32).cast(pl.UInt32)
    items, credits_ = (way.legs.filter((pl.col("leg_minor") > 0) == positive) for positive in (True, False))
    fallen = items.select("g", "e").join(pairs, on="e").join(credits_.select("g", c="e"), on=["g", "c"]).select("g")
    return replace(
        way, groups=way.groups.join(fallen, on="g", how="anti"), legs=way.legs.join(fallen, on="g", how="anti")
    )


def _short(proofs: Proofs) -> pl.DataFrame:
    """Return ``i, total, target, n`` of lines that quote items of more than their amount, all in time."""
    quoted = proofs.fitting.join(proofs.settled.select("i"), on="i", how="anti")
    return sums_of(quoted, proofs).filter(pl.col("total") > pl.col("target"))


def sums_of(quoted: pl.DataFrame, proofs: Proofs) -> pl.DataFrame:
    """Return ``i, total, target, n`` of lines all of whose proofs are ``quoted``: the sum of the items, the amount."""
    amounts = quoted.group_by("i").agg(
        total=pl.col("e_amount_minor").cast(pl.Int128).sum(), target=pl.col("i_amount_minor").first(), n=pl.len()
    )
    return amounts.join(proofs.claimed.group_by("i").agg(n=pl.len()), on=["i", "n"])


def _quoted(sides: Sides, notes: pl.DataFrame, short: pl.DataFrame) -> pl.DataFrame:
    """Return the credit notes that lines quote in full beside items."""
    lines = sides.incoming.select("row", "salt", "reference_keys", "end_to_end_key")
    lines = lines.join(short.select(row="i"), on="row", how="semi")
    asked = pl.concat(
        [
            lines.select("row", "salt", key="reference_keys").explode("key"),
            lines.select("row", "salt", key="end_to_end_key"),
        ]
    ).select("row", key=pl.col("key") ^ pl.col("salt"))
    asked = asked.drop_nulls("key").filter((pl.col("key") & 1) == 1).unique()
    found = []
    for name in ("reference_key", "end_to_end_key"):
        hits = _pairs(notes, name, asked)
        by_id = name == "end_to_end_key"
        found.append(
            hits.select(
                "e",
                "i",
                reference=pl.lit(0 if by_id else ReferenceLevel.FULL.value, dtype=pl.Int8),
                end_to_end=pl.lit(EndToEndLevel.EQUAL.value if by_id else 0, dtype=pl.Int8),
            )
        )
    both = pl.concat(found).group_by("e", "i").agg(pl.col("reference", "end_to_end").max())
    return both.sort("e", "i").cast(dict(_QUOTED))  # type: ignore[arg-type]


def _pairs(notes: pl.DataFrame, name: str, asked: pl.DataFrame) -> pl.DataFrame:
    """Return the credit notes ``e`` beside the lines ``i`` that ask for a key of theirs."""
    # Few lines ask: what nobody asks for is left out before it is counted.
    wanted = keyed(notes, name).join(asked.select("key").unique(), on="key", how="semi")
    return equal_pairs(wanted, asked, items_max=KEY_ITEMS_MAX, lines_max=KEY_LINES_MAX).pairs


def _of_party(credits_: pl.DataFrame, items: pl.DataFrame, sides: Sides) -> pl.Expr:
    """Tell of ``e, i`` whether the credit note is of the counterparty of one of the ``items`` of its line."""
    found = with_code(of_same_party(credits_, items, sides))
    return (pl.col("e").cast(pl.Int64) * 2**32 + pl.col("i").cast(pl.Int64)).is_in(found["code"].implode())


def groups_of(members: pl.DataFrame, level: GroupLevel, said: pl.DataFrame) -> Groups:
    """Return a group for each line of ``said``, which has ``i, tried, named`` and may have more of GROUP_SCHEMA."""
    chosen = said.sort("i").with_row_index("g")
    groups = group_rows(chosen.with_columns(level=pl.lit(level.value)))
    legs = members.join(chosen.select("g", "i"), on="i").sort("g", "e")
    return Groups(groups, shaped(legs, LEG_SCHEMA), no_findings())


def _by_quotes(sides: Sides, quoted: pl.DataFrame, short: pl.DataFrame, proofs: Proofs, rules: MatchingRules) -> Groups:
    """Find lines that are all items less all credit notes which they quote."""
    if quoted.is_empty():
        return no_groups()
    items = proofs.fitting.join(quoted.select("i").unique(), on="i", how="semi")
    told = scored(quoted, sides, rules).with_columns(fits=(pl.col("fault") == 0) & _of_party(quoted, items, sides))
    credit = told.group_by("i").agg(
        credit=pl.col("e_amount_minor").cast(pl.Int128).sum(), credits=pl.len(), fits=pl.col("fits").all()
    )
    size = pl.col("n") + pl.col("credits")
    said = (
        short.join(credit, on="i")
        .filter("fits", pl.col("total") - pl.col("credit") == pl.col("target"), size <= rules.group_size_max)
        .select("i", tried=pl.lit(1), named=size)
    )
    members = pl.concat(
        [
            items.select("e", "i", leg_minor="e_amount_minor"),
            told.select("e", "i", leg_minor=-pl.col("e_amount_minor")),
        ]
    )
    return groups_of(members, GroupLevel.BY_REFERENCES_LESS, said)


def _by_credits(
    sides: Sides,
    notes: pl.DataFrame,
    quoted: pl.DataFrame,
    short: pl.DataFrame,
    proofs: Proofs,
    rules: MatchingRules,
) -> Groups:
    """Find lines that are short of all items which they quote by the only such set of their credit notes.

    What others name is left out, and lines that quote credit notes themselves. Of many credit notes some set has nearly
    any sum, so it has to be one of them, or all.
    """
    strict = strict_lines(sides, rules).implode()
    lines = short.join(quoted.select("i"), on="i", how="anti").filter(~pl.col("i").is_in(strict))
    items = proofs.fitting.join(lines.select("i"), on="i", how="semi")
    claimed = pl.concat([proofs.claimed["e"], quoted["e"]]).implode()
    free = notes.filter(~pl.col("row").is_in(claimed))
    if items.is_empty() or free.is_empty():
        return no_groups()
    salts = sides.incoming.select("salt", i="row")
    said = items.select("e", "i").join(sides.expected.select(*PARTY_KEYS, e="row"), on="e").join(salts, on="i")
    found = [
        _pairs(free, name, said.select(row="i", key=pl.col(name) ^ pl.col("salt")).drop_nulls("key").unique())
        for name in PARTY_KEYS
    ]
    pairs = pl.concat(found).unique().sort("i", "e")
    minors = sides.expected.select(e="row", minor="amount_minor")
    told = in_time(pairs, sides, rules).join(minors, on="e").join(lines, on="i")
    told = told.with_columns(gap=(pl.col("total") - pl.col("target")).cast(pl.Int64, strict=False))
    told = told.filter(pl.col("minor") <= pl.col("gap")).sort("i", "e")
    chosen, members = [], []
    for i, credits_, amounts, gap, n in (
        told.group_by("i", maintain_order=True).agg("e", "minor", pl.col("gap", "n").first()).iter_rows()
    ):
        if len(amounts) > SUBSET_MEMBERS_MAX:
            continue
        count, which = only_subset(amounts, gap)
        its = [(e, i, -minor) for at, (e, minor) in enumerate(zip(credits_, amounts, strict=True)) if which >> at & 1]
        if count == 1 and len(its) in {1, len(amounts)} and n + len(its) <= rules.group_size_max:
            chosen.append((i, 2 ** len(amounts), n + len(amounts)))
            members += its
    schema = {"e": pl.UInt32, "i": pl.UInt32, "leg_minor": pl.Int64}
    both = pl.concat(
        [items.select("e", "i", leg_minor="e_amount_minor"), pl.DataFrame(members, schema=schema, orient="row")]
    )
    kept = pl.DataFrame(chosen, schema={"i": pl.UInt32, "tried": pl.Int32, "named": pl.Int32}, orient="row")
    return groups_of(both, GroupLevel.BY_CREDIT_NOTES, kept)


def joined(legs: pl.DataFrame) -> pl.DataFrame:
    """Return what the members of groups join (JOINED_SCHEMA), those with a line before those with a credit note.

    The greatest credit note settles of the greatest item first, and a line what is left of each.
    """
    noted = legs.filter(pl.col("leg_minor") < 0).select("g").unique()
    plain = legs.with_columns(c=pl.lit(None, dtype=pl.UInt32))
    if noted.is_empty():
        return shaped(plain, JOINED_SCHEMA)
    order = legs.join(noted, on="g").sort(pl.col("g"), pl.col("leg_minor").abs(), "e", descending=[False, True, False])
    found: list[tuple[int, int, int | None, int, int | None]] = []
    for g, items, lines, amounts in order.group_by("g", maintain_order=True).agg("e", "i", "leg_minor").iter_rows():
        found += _settled(g, lines[0], list(zip(items, amounts, strict=True)))
    rows = pl.DataFrame(found, schema=JOINED_SCHEMA, orient="row")
    return pl.concat([shaped(plain.join(noted, on="g", how="anti"), JOINED_SCHEMA), rows])


def _settled(g: int, line: int, members: list[tuple[int, int]]) -> list[tuple[int, int, int | None, int, int | None]]:
    """Return the legs of one group as rows of JOINED_SCHEMA; its members are sorted by what they are."""
    credits_ = [(c, -minor) for c, minor in members if minor < 0]
    by_money: list[tuple[int, int, int | None, int, int | None]] = []
    by_note: list[tuple[int, int, int | None, int, int | None]] = []
    note, left = credits_.pop(0)
    for item, minor in ((e, minor) for e, minor in members if minor > 0):
        rest = minor
        while rest and left:
            part = min(rest, left)
            by_note.append((g, item, None, part, note))
            rest, left = rest - part, left - part
            if not left and credits_:
                note, left = credits_.pop(0)
        if rest:
            by_money.append((g, item, line, rest, None))
    return by_money + by_note


def told_as(legs: pl.DataFrame, matches: pl.DataFrame) -> pl.DataFrame:
    """Return matches with ``kind``, ``size`` and ``amount_minor`` of what those with credit notes join."""
    noted = legs.filter(pl.col("g").is_in(legs.drop_nulls("c")["g"].unique().implode()))
    if noted.is_empty():
        return matches
    several = pl.when(pl.col("e").n_unique() > 1)
    told = noted.group_by("g").agg(
        several.then(MatchKind.MANY_TO_MANY.value).otherwise(MatchKind.MANY_TO_ONE.value).cast(pl.Int8).alias("kind"),
        pl.len().cast(pl.Int32).alias("size"),
        pl.col("leg_minor").sum().alias("amount_minor"),
    )
    return matches.update(told, on="g")
