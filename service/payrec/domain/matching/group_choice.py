"""Which explicit groups stand: against pairs by proof, against each other, and how sure the others leave them.

A proof of equal amount is better than any group, so a group with such a row falls. Among groups that share a row, one
that explains all that is claimed is better than one that had to be searched; otherwise it is ambiguous, and content
decides which one is proposed. What else somebody claims of a group's rows by proof counts as a rival, as for pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import polars as pl

from payrec.domain.matching.adjustments import no_settled
from payrec.domain.matching.advices import Advised
from payrec.domain.matching.batches import less_than_batches
from payrec.domain.matching.block import Candidates
from payrec.domain.matching.columns import Sides
from payrec.domain.matching.compete import Taken, probability, standing, strength
from payrec.domain.matching.emptiness import once
from payrec.domain.matching.group_rivals import beside, best_rivals, counted, rivals_of
from payrec.domain.matching.groups import Groups, by_key, by_quotes, by_short_quotes, no_groups
from payrec.domain.matching.less_credits import joined, less_credits, told_as
from payrec.domain.matching.less_terms import less_terms
from payrec.domain.matching.near_sums import near_sums
from payrec.domain.matching.one_more import paid_just, paying_more, with_one_more
from payrec.domain.matching.proofs import Proofs, proofs_of
from payrec.domain.matching.reasons import finding, no_findings
from payrec.domain.matching.ruled import NOBODY, bound, least
from payrec.domain.matching.rules import (
    AmountLevel,
    Confidence,
    EndToEndLevel,
    GroupLevel,
    LineLevel,
    MatchingRules,
    MatchKind,
    PartyLevel,
    Reason,
    ReferenceLevel,
)
from payrec.domain.matching.score import LEVELS, contradicted, other_account, score_milli, scored
from payrec.domain.matching.several_more import with_several_more

_BATCHES: Final = [level.value for level in (GroupLevel.BY_KEY, GroupLevel.BY_KEY_LESS, GroupLevel.BY_KEY_NET)]
_NOT_ALL_SAID: Final = [
    level.value
    for level in (
        GroupLevel.BY_CREDIT_NOTES,
        GroupLevel.BY_KEY_NET,
        GroupLevel.BY_REFERENCES_AND_ONE,
        GroupLevel.BY_REFERENCES_AND_MORE,
    )
]
"""Nobody has named the credit notes of these, said what was kept, or named those that are the rest."""
_DIFFERING: Final = [AmountLevel.SMALLER.value, AmountLevel.LARGER.value]
_PROVING: Final = [level.value for level in GroupLevel if level.proves]
MATCH_COLUMNS: Final = (
    "g", "e", "i", "kind", "size", "amount_minor", "score_milli", "probability_ppm", "confidence", "status", "auto",
    "pending", "difference_minor", "rivals_expected", "rivals_incoming", "tried", "named", "coincidences_ppm", *LEVELS,
)  # fmt: skip


def nobody() -> Taken:
    """Return no rows."""
    return Taken(pl.Series(dtype=pl.UInt32), pl.Series(dtype=pl.UInt32))


def doubted(found: Candidates, doubtful: Taken) -> Candidates:
    """Return the candidates with these rows among those of which not everything was looked at."""
    if doubtful.items.is_empty() and doubtful.lines.is_empty():
        return found
    return replace(
        found,
        capped_items=once(found.capped_items, doubtful.items),
        capped_lines=once(found.capped_lines, doubtful.lines),
    )


@dataclass(frozen=True, slots=True)
class Chosen:
    """The groups that are proposed. ``g`` numbers them; no row is in two."""

    matches: pl.DataFrame
    """``g``, what ``payrec.domain.matching.compete.competed`` says of a pair, ``kind`` (MatchKind), ``tried``,
    ``named``, ``amount_minor``, ``size`` (legs), ``coincidences_ppm`` (null of those that somebody named), and the
    first rows ``e`` and ``i``."""
    legs: pl.DataFrame
    """``payrec.domain.matching.less_credits.JOINED_SCHEMA``."""
    alternatives: pl.DataFrame
    """``g``, ``side``, ``e``, ``i``, ``score_milli``, best first."""
    findings: pl.DataFrame
    taken: Taken
    doubtful: Taken = field(default_factory=nobody)
    """What a group id claims beside what is proposed, or may claim: no pair of these is sure."""
    settled: pl.DataFrame = field(default_factory=no_settled)
    """What they settle without money, as ``payrec.domain.matching.adjustments.SETTLED_SCHEMA``."""


def _together(found: list[Groups]) -> Groups:
    """Put what all ways of looking have found into one, numbered through."""
    groups, legs = [], []
    count = 0
    findings = pl.concat([way.findings for way in found if not way.findings.is_empty()] or [no_findings()])
    found = [way for way in found if not way.groups.is_empty()]
    if not found:
        return replace(no_groups(), findings=findings)
    for way in found:
        groups.append(way.groups.with_columns(pl.col("g") + count))
        legs.append(way.legs.with_columns(pl.col("g") + count))
        count += way.groups.height
    return Groups(pl.concat(groups), pl.concat(legs), findings)


def _standing(legs: pl.DataFrame, proofs: Proofs) -> pl.DataFrame:
    """Leave out the groups with a row that a proof of equal amount has, and of equal ones all but the first."""
    fallen = pl.concat(
        [legs.join(proofs.settled.select(end), on=end, how="semi").select("g") for end in ("e", "i")]
    ).unique()
    legs = legs.join(fallen, on="g", how="anti")
    sizes = legs.group_by("g").agg(size=pl.len())
    again = (
        legs.select("g", "e", "i")
        .join(legs.select("e", "i", first="g"), on=["e", "i"])
        .filter(pl.col("first") < pl.col("g"))
        .group_by("g", "first")
        .agg(shared=pl.len())
        .join(sizes, on="g")
        .join(sizes.select(first="g", other="size"), on="first")
        .filter((pl.col("shared") == pl.col("size")) & (pl.col("shared") == pl.col("other")))
    )
    return legs.join(again, on="g", how="anti")


def _all(column: str, level: int) -> pl.Expr:
    return (pl.col(column) == level).all()


def _party(column: str) -> pl.Expr:
    """Say of a group whether its parties agree. Of a batch they never do: who pays it is the one who collected it."""
    differs = (pl.col(column) == PartyLevel.DIFFERENT.value).any() & (~pl.col("level").first().is_in(_BATCHES))
    return (
        pl.when(_all(column, PartyLevel.EQUAL.value))
        .then(PartyLevel.EQUAL.value)
        .when(differs)
        .then(PartyLevel.DIFFERENT.value)
        .otherwise(PartyLevel.UNKNOWN.value)
        .cast(pl.Int8)
        .alias(column)
    )


def told_by_legs(
    groups: pl.DataFrame, legs: pl.DataFrame, sides: Sides, found: Candidates, rules: MatchingRules
) -> pl.DataFrame:
    """Return the groups with the levels of all their legs in one, and their score.

    ``least`` is the least confidence that is accepted without a person, whichever of their lines asks for the most.
    """
    quoted = legs.join(found.pairs, on=["e", "i"], how="left").with_columns(
        pl.col("reference", "end_to_end").fill_null(0)
    )
    told = pl.concat(
        [quoted.select("g", "leg_minor"), scored(quoted.select("e", "i", "reference", "end_to_end"), sides, rules)],
        how="horizontal",
    )
    told = told.join(groups.select("g", "level"), on="g").with_columns(least=bound(rules, least))
    full, equal = ReferenceLevel.FULL.value, EndToEndLevel.EQUAL.value
    # Of credit notes that nobody names, the items that they belong to are quoted.
    unnamed = (pl.col("level") == GroupLevel.BY_CREDIT_NOTES.value) & (pl.col("leg_minor") < 0)
    proved = ((pl.col("reference_level") == full) | (pl.col("end_to_end_level") == equal) | unnamed).all()
    by_id = _all("end_to_end_level", equal)
    return (
        told.group_by("g")
        .agg(
            pl.when(proved & ~by_id).then(full).otherwise(0).cast(pl.Int8).alias("reference_level"),
            pl.when(by_id).then(equal).otherwise(0).cast(pl.Int8).alias("end_to_end_level"),
            pl.lit(AmountLevel.EQUAL.value, dtype=pl.Int8).alias("amount_level"),
            # Of a set some of which are due on no day nothing can be said.
            pl.when(pl.col("date_level").min() > 0).then(pl.col("date_level").max()).otherwise(0).cast(pl.Int8),
            *(_party(f"{name}_level") for name in ("account", "name", "own_account")),
            pl.when(pl.col("pending").any())
            .then(LineLevel.PENDING.value)
            .otherwise(LineLevel.BOOKED.value)
            .cast(pl.Int8)
            .alias("line_level"),
            pl.col("pending").any(),
            pl.col("least").max(),
            pl.col("twin").any(),
            pl.col("payer").all(),
            (contradicted() & ~pl.col("payer")).all().alias("foreign"),
            other_account().all().alias("other_account"),
            pl.col("leg_minor").sum().alias("amount_minor"),
            pl.min("e", "i"),
            pl.col("e").n_unique().alias("items"),
            pl.len().cast(pl.Int32).alias("size"),
        )
        .join(groups.rename({"level": "group_level"}), on="g")
        .with_columns(
            score_milli=score_milli(rules),
            kind=pl.when(pl.col("size") == 1)
            .then(MatchKind.ONE_TO_ONE.value)
            .when(pl.col("items") == 1)
            .then(MatchKind.MANY_TO_ONE.value)
            .otherwise(MatchKind.ONE_TO_MANY.value)
            .cast(pl.Int8),
            proving=pl.col("group_level").is_in(_PROVING),
        )
    )


def free(groups: pl.DataFrame, legs: pl.DataFrame, rank: str) -> tuple[pl.Series, pl.Series]:
    """Take groups by their ``place``, each row once.

    Returns those that have lost a row, and those that share one with another of the same ``rank``.
    """
    uses = pl.concat([legs.select("g", side=pl.lit(end), row=end).unique() for end in ("e", "i")]).join(
        groups.select("g", "place", rank), on="g"
    )
    shared = uses.filter(pl.struct("side", "row").is_duplicated())
    tied = uses.filter(pl.struct("side", "row", rank).is_duplicated())["g"].unique()
    used: set[tuple[str, int]] = set()
    lost: list[int] = []
    rows = shared.sort("place", "side", "row").group_by("g", maintain_order=True).agg("side", "row")
    for g, sides, places in rows.iter_rows():
        own = set(zip(sides, places, strict=True))
        if own & used:
            lost.append(g)
        else:
            used |= own
    return pl.Series("g", lost, dtype=pl.UInt32), tied


def _bounded(groups: pl.DataFrame, legs: pl.DataFrame, found: Candidates) -> pl.DataFrame:
    """Mark the groups of rows about which more is known than was looked at, common references among it."""
    common = found.crowded.filter(pl.col("crowded_full") > 0)["i"].cast(pl.UInt32)
    capped = Taken(found.capped_items, pl.concat([found.capped_lines, common])).touches()
    blurred = legs.filter(capped)["g"].unique()
    return groups.with_columns(unbounded=pl.col("unbounded") | pl.col("g").is_in(blurred.implode()))


def _decided(groups: pl.DataFrame, claims: pl.DataFrame, tied: pl.Series) -> pl.DataFrame:
    """Add what the rivals leave: ``status``, ``confidence``, ``auto``, and the probability."""
    groups = groups.join(counted(claims), on="g", how="left").with_columns(
        pl.col("rivals_expected", "rivals_incoming").fill_null(0),
        tied=pl.col("g").is_in(tied.implode()) | (pl.col("same") > 0),
        strength=strength(),
    )
    rivalry = pl.col("rivals_expected") + pl.col("rivals_incoming")
    unique = rivalry == 0
    sure = unique & ~pl.col("unbounded") & ~pl.col("amount_level").is_in(_DIFFERING)
    status = standing(pl.col("tied"), unique=unique)
    confidence = (
        pl.when("tied")
        .then(Confidence.LOW.value)
        .when(sure & pl.col("proving"))
        .then(Confidence.EXACT.value)
        .when(sure & ~pl.col("group_level").is_in(_NOT_ALL_SAID))
        .then(Confidence.HIGH.value)
        .otherwise(Confidence.MEDIUM.value)
    )
    return groups.with_columns(
        # Of a million rivals, each as strong, nothing is left anyway; more would leave 64 bits.
        total=pl.col("strength") * (1 + rivalry.clip(upper_bound=1_000_000)),
        status=status.cast(pl.Int8),
        confidence=confidence.cast(pl.Int8),
        difference_minor=pl.lit(0, dtype=pl.Int64),
    ).with_columns(
        probability_ppm=probability(),
        # A set that was searched for is never accepted without a person, however few the candidates were.
        auto=(pl.col("least") < NOBODY) & (pl.col("confidence") == Confidence.EXACT.value) & ~pl.col("pending"),
    )


def given_up(groups: pl.DataFrame, legs: pl.DataFrame, lost: pl.Series) -> pl.DataFrame:
    """Say of the rows of groups that another group has beaten why they stay open."""
    return finding(
        legs.join(groups.select("g", "score_milli"), on="g")
        .filter(pl.col("g").is_in(lost.implode()))
        .with_columns(
            reason=pl.lit(Reason.AMBIGUOUS.value),
            fits=pl.lit(value=True),
            days_outside=pl.lit(None, dtype=pl.Int64),
            difference_minor=pl.lit(0, dtype=pl.Int64),
        )
    )


def chosen(matches: pl.DataFrame, legs: pl.DataFrame, rivals: pl.DataFrame, findings: pl.DataFrame) -> Chosen:
    """Return the groups with what the engine wants to know of them, each frame in its columns."""
    matches = matches.select(MATCH_COLUMNS)
    legs = legs.join(matches, on="g", how="semi").select("g", "e", "i", "leg_minor")
    taken = Taken(legs["e"].unique(), legs["i"].unique())
    legs = joined(legs)
    return Chosen(told_as(legs, matches), legs, best_rivals(rivals, matches), findings, taken)


def both(one: Chosen, other: Chosen) -> Chosen:
    """Put groups that share no row into one result, numbered through."""
    if one.matches.is_empty() or other.matches.is_empty():
        some = other if one.matches.is_empty() else one
        return replace(some, findings=pl.concat([one.findings, other.findings]))
    count = int(one.matches.select(pl.col("g").max()).item()) + 1

    def joined(mine: pl.DataFrame, theirs: pl.DataFrame) -> pl.DataFrame:
        shifted = theirs.with_columns((pl.col("g") + count).cast(pl.UInt32))
        return pl.concat([mine, shifted.select(mine.columns)])

    return Chosen(
        joined(one.matches, other.matches),
        joined(one.legs, other.legs),
        joined(one.alternatives, other.alternatives),
        pl.concat([one.findings, other.findings]),
        Taken(pl.concat([one.taken.items, other.taken.items]), pl.concat([one.taken.lines, other.taken.lines])),
    )


def nothing(findings: pl.DataFrame) -> Chosen:
    """Return no groups, and why."""
    return Chosen(pl.DataFrame(), pl.DataFrame(), pl.DataFrame(), findings, nobody())


def _more(
    sides: Sides, pairs: pl.DataFrame, proofs: Proofs, refused: pl.DataFrame, rules: MatchingRules
) -> list[Groups]:
    """Return the lines that are what they quote and one item more, or several where there is no such one."""
    if proofs.fitting.height == proofs.settled.height:
        return []
    paid = paid_just(pairs)
    beyond = paying_more(sides, paid, proofs, rules)
    if beyond.is_empty():
        return []
    taken = pl.concat([proofs.claimed["e"], paid["e"]]).unique()
    one = with_one_more(sides, beyond, taken, refused, rules)
    beyond = beyond.join(one.legs.select("i").unique(), on="i", how="anti")
    return [one, with_several_more(sides, beyond, taken, refused, rules)]


def choose(
    pairs: pl.DataFrame,
    sides: Sides,
    found: Candidates,
    refused: pl.DataFrame,
    rules: MatchingRules,
    listed: Advised,
    unsettled: pl.DataFrame,
) -> Chosen:
    """Return the explicit groups that are proposed.

    ``pairs`` are scored, ``refused`` the codes of rejected pairs; a group with one of them is none. ``listed`` are the
    groups of remittance advices, ``unsettled`` the codes of items that are not to settle each other.
    """
    proofs = proofs_of(pairs, sides, rules)
    keyed, claims, doubtful = by_key(sides, proofs, refused, rules)
    found = doubted(found, doubtful)
    quoted = [by_quotes(proofs, rules, of_lines=of_lines) for of_lines in (True, False)]
    batches = less_than_batches(sides, claims, unsettled, rules)
    less = less_credits(sides, proofs, unsettled, rules)
    less = replace(less, groups=[*less.groups, *batches.groups])
    in_terms = less_terms(proofs, sides, rules)
    short = by_short_quotes(proofs, quoted[0], rules)
    more = _more(sides, pairs, proofs, refused, rules)
    exact = [listed.groups, keyed, *quoted, in_terms.groups, short, *more, *less.groups]
    near = near_sums(sides, pairs, proofs, pl.concat([way.legs["i"] for way in exact]), rules)
    together = _together([*exact, *near.groups])
    if together.groups.is_empty():
        return replace(nothing(together.findings), doubtful=doubtful)
    legs = _standing(together.legs, proofs)
    told = told_by_legs(together.groups, legs, sides, less.beside(found), rules)
    groups = near.told(told, rules).sort(
        ["proving", "score_milli", "e", "i", "group_level"], descending=[True, True, False, False, False]
    )
    groups = groups.with_row_index("place")
    lost, tied = free(groups, legs, "proving")
    meant = beside(groups, legs, pairs, proofs, sides)
    rivals, counts = rivals_of(groups, legs, less.claiming(proofs), claims, meant)
    groups = _decided(_bounded(groups, legs, found), counts, tied)
    # What somebody has held back is for a person to agree to.
    held_back = (pl.col("group_level") == GroupLevel.BY_ADVICE.value) & pl.col("i").is_in(listed.deducted.implode())
    groups = groups.with_columns(auto=pl.col("auto") & ~held_back)
    findings = pl.concat([together.findings, given_up(groups, legs, lost)])
    matches = groups.filter(~pl.col("g").is_in(lost.implode()))
    settled = pl.concat([listed.settled, batches.settled, in_terms.settled, near.settled])
    return replace(chosen(matches, legs, rivals, findings), doubtful=doubtful, settled=settled)
