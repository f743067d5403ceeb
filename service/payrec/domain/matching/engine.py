"""The engine: columns and rules in, proposals out. It knows no database, no clock and no chance.

The stages are those of record linkage: look only at pairs that share a key (``block``), turn what is known into levels
and a score (``score``), take the sets that somebody named and that sum up (``groups``), let rivals compete
(``compete``), look for sets that nobody named (``blind``) and at what is left by amount and date alone, and say why the
rest stays open (``reasons``). Every order is by content, so the same data give the same result in whatever order they
come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import polars as pl

from payrec.domain.matching.adjustments import adjusted, adjustments_of, with_ordinals
from payrec.domain.matching.advices import ADVICES_SCHEMA, advised, no_advices
from payrec.domain.matching.blind import blind
from payrec.domain.matching.block import candidates, of_part, with_code
from payrec.domain.matching.certificate import withheld
from payrec.domain.matching.columns import REJECTED_SCHEMA, Known, Sides, checked, prepare
from payrec.domain.matching.compete import Taken, competed
from payrec.domain.matching.duplicates import without_repeats
from payrec.domain.matching.elsewhere import with_elsewhere
from payrec.domain.matching.emptiness import of_none, once
from payrec.domain.matching.exchange import RATES_SCHEMA, claimed, exchanged
from payrec.domain.matching.group_choice import Chosen, both, choose, doubted
from payrec.domain.matching.money import Refused, prepared, proved, remaining
from payrec.domain.matching.money_pairs import appended
from payrec.domain.matching.near import with_near
from payrec.domain.matching.reasons import (
    by_reason,
    forbidden,
    looked_up,
    lost,
    no_findings,
    open_expected,
    open_incoming,
    repeated,
)
from payrec.domain.matching.residual import residual
from payrec.domain.matching.ruled import named, with_rules
from payrec.domain.matching.rules import (
    ALTERNATIVES_MAX,
    ENGINE_VERSION,
    MatchingRules,
    MatchKind,
    Side,
    Uniqueness,
)
from payrec.domain.matching.score import LEVELS, RANK_PROOF, scored, without
from payrec.domain.matching.series import with_series

STAGES: Final = (
    "prepare",
    "block",
    "score",
    "groups",
    "compete",
    "money",
    "blind",
    "residual",
    "alternatives",
    "reasons",
)
"""What an observer is told of, in this order."""

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

    matches: pl.DataFrame
    """One row a proposal: ``kind`` (``MatchKind``), ``size`` (its legs, Int32), ``amount_minor`` (their sum, Int64),
    ``score_milli`` (thousandths of log-odds, Int32), ``probability_ppm`` (Int32), ``confidence``, ``status``
    (``Uniqueness``), ``auto``, ``pending``, ``difference_minor`` (lines less items, Int64), ``rivals_expected`` and
    ``rivals_incoming`` (other items for its lines, other lines for its items, Int32), ``tried`` (sets whose sum was
    looked at, Int32), ``named`` (transactions that were named together, or among which a blind group was found, Int32),
    ``coincidences_ppm`` (millionths of sets that were to be expected by chance, Int64, null but for blind sums), and an
    Int8 column for each of ``LEVELS``; ``sampled`` of what would be ``auto`` and waits for a review instead."""
    legs: pl.DataFrame
    """One row a leg: ``proposal`` (row number in ``matches``, UInt32), two of the Int32 ordinals ``expected``,
    ``incoming``, ``contra_expected`` and ``contra_incoming`` (the others null), ``amount_minor`` (taken from the line)
    and ``settled_minor`` (settled on the item, in its currency), the legs of a proposal beside each other. All legs of
    a line or of an item are in one proposal, unless they are parts of the item."""
    adjustments: pl.DataFrame
    """What a match settles without money, as ``ADJUSTMENTS_SCHEMA`` says, the adjustments of a proposal beside each
    other. On each transaction, legs and adjustments together are what the match takes of it."""
    alternatives: pl.DataFrame
    """``proposal``, ``side`` (``Side``), ``expected``, ``incoming``, ``score_milli``, best first, at most
    ``ALTERNATIVES_MAX`` for each side of a proposal."""
    open_expected: pl.DataFrame
    """Items without a proposal: ``ordinal``, ``reason`` (``Reason``), ``nearest`` (the line's ordinal, or null),
    ``days_outside`` (days beyond the date window) and ``difference_minor`` (line less item). Those that were left out
    because they share nothing with any line come last, in the order given."""
    open_incoming: pl.DataFrame
    """Lines without a proposal, the same; ``nearest`` is an item's ordinal."""
    counts: Counts
    names: pl.DataFrame
    """What the name keys stand for, as ``payrec.domain.matching.names.normalised`` has it."""
    ruled: pl.DataFrame
    """``proposal`` and ``rules``: the names of the rules of a proposal's lines, as JSON text; where there are any."""
    engine_version: str = ENGINE_VERSION


def version_of(rules: MatchingRules) -> str:
    """Return what decides: the engine, and the calibration beside it where there is one."""
    return ENGINE_VERSION if rules.calibration is None else f"{ENGINE_VERSION}+{rules.calibration.version}"


def _rejected_codes(rejected: pl.DataFrame | None, sides: Sides) -> pl.DataFrame:
    """Return the rejected pairs as the codes of their rows; pairs of rows that are not here are of no matter."""
    if rejected is None:
        return pl.DataFrame(schema={"code": pl.Int64})
    rows = (
        checked(rejected, REJECTED_SCHEMA)
        .join(sides.expected.select(expected="ordinal", e="row"), on="expected")
        .join(sides.incoming.select(incoming="ordinal", i="row"), on="incoming")
    )
    return with_code(rows).select("code").unique()


def _rejected_money(rejected: pl.DataFrame | None, sides: Sides) -> Refused:
    """Return the rejected pairs of one side each, whichever of them a person has named first."""
    if rejected is None:
        return Refused()
    codes = []
    for side, frame in (("expected", sides.expected), ("incoming", sides.incoming)):
        ends = rejected.select(one=side, other=f"contra_{side}").drop_nulls()
        rows = (
            frame.select(ordinal="ordinal", row="row").rename({"ordinal": end, "row": f"row_{end}"})
            for end in ends.columns
        )
        for end, its in zip(ends.columns, rows, strict=True):
            ends = ends.join(its, on=end)
        both = pl.concat([ends.select(e="row_one", i="row_other"), ends.select(e="row_other", i="row_one")])
        codes.append(with_code(both).select("code").unique())
    return Refused(items=codes[0], lines=codes[1])


def _busy(pairs: pl.DataFrame, fitting: pl.DataFrame, groups: Chosen) -> Taken:
    """Return the proposed items, and the lines that have a fitting pair, quote a full reference or are in a group."""
    proofs = pairs.filter(pl.col("rank") == RANK_PROOF)["i"]
    return Taken(
        once(fitting.filter("chosen")["e"], groups.taken.items), once(fitting["i"], proofs, groups.taken.lines)
    )


def _chosen(fitting: pl.DataFrame, groups: Chosen) -> Taken:
    """Return the rows that have a proposal."""
    pairs = fitting.filter("chosen")
    return groups.taken.joined(pairs["e"], pairs["i"])


def _neighbours(sides: Sides, proposed: Taken, findings: pl.DataFrame, rejected: pl.DataFrame) -> pl.DataFrame:
    """Look up neighbours among the rows that have neither a proposal nor a finding on their own side."""
    said = pl.concat([proposed.lines.rename("row"), findings["i"].rename("row")]).to_frame()
    lines = sides.lines().join(said, on="row", how="anti")
    if lines.is_empty():
        return no_findings()
    items = sides.expected.join(proposed.items.to_frame("row"), on="row", how="anti")
    if items.is_empty():
        return no_findings()
    return looked_up(items, lines, rejected)


@of_none
def _alternatives(contested: pl.DataFrame, fitting: pl.DataFrame) -> pl.DataFrame:
    """Return the best rivals of each contested pair on either side, as ``proposal, side, e, i, score_milli``."""
    pool = fitting.filter(~pl.col("alone")).sort(["score_milli", "e", "i"], descending=[True, False, False])
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
    return pl.concat(found)


def _merged(chosen: pl.DataFrame, groups: Chosen) -> pl.DataFrame:
    """Return pairs and groups in content order as ``proposal``; ``g`` is a group's number, and null for a pair."""
    one = pl.lit(1, dtype=pl.Int32)
    pairs = chosen.with_columns(
        g=pl.lit(None, dtype=pl.UInt32),
        kind=pl.lit(MatchKind.ONE_TO_ONE.value, dtype=pl.Int8),
        size=one,
        tried=one,
        named=one,
        coincidences_ppm=pl.lit(None, dtype=pl.Int64),
        amount_minor=pl.col("leg_minor"),
    )
    if not groups.matches.is_empty():
        pairs = pl.concat([pairs, groups.matches.with_columns(alone=False)], how="diagonal").select(pairs.columns)
    return pairs.sort("e", "i").with_row_index("proposal")


def _legs(proposals: pl.DataFrame, groups: Chosen) -> pl.DataFrame:
    """Return the legs of all proposals as ``proposal, e, i, c, amount_minor, settled_minor``.

    Of ``i`` and the credit note ``c`` one is null.
    """
    columns = ("proposal", "e", "i", "c")
    amounts = {"amount_minor": pl.col("leg_minor"), "settled_minor": pl.coalesce("settled_minor", "leg_minor")}
    pairs = proposals.filter(pl.col("g").is_null()).with_columns(c=pl.lit(None, dtype=pl.UInt32))
    pairs = pairs.select(*columns, **amounts)
    if groups.legs.is_empty():
        return pairs
    grouped = groups.legs.join(proposals.select("g", "proposal", "settled_minor"), on="g").select(*columns, **amounts)
    legs = pl.concat([pairs, grouped])
    if legs["c"].null_count() == legs.height:
        return legs.sort("proposal", "e", "i")
    # What a line settles comes before what credit notes do.
    return legs.sort(pl.col("proposal"), pl.col("i").is_null(), "e", "i", "c")


def _taken(legs: pl.DataFrame) -> Taken:
    """Return the rows of all legs."""
    return Taken(pl.concat([legs["e"], legs["c"].rename("e")]).drop_nulls(), legs["i"].drop_nulls())


def _all_alternatives(chosen: pl.DataFrame, fitting: pl.DataFrame, groups: Chosen) -> pl.DataFrame:
    """Return the best rivals of all proposals, as ``_alternatives`` does, in content order."""
    found = _alternatives(chosen.filter(pl.col("g").is_null() & ~pl.col("alone")), fitting)
    if not groups.alternatives.is_empty():
        of_groups = groups.alternatives.join(chosen.select("g", "proposal"), on="g")
        found = pl.concat([found, of_groups.select(found.columns)])
    return found.sort(["proposal", "side", "score_milli", "e", "i"], descending=[False, False, True, False, False])


def _with_ordinals(frame: pl.DataFrame, sides: Sides) -> pl.DataFrame:
    return frame.with_columns(
        expected=sides.expected["ordinal"][frame["e"]], incoming=sides.incoming["ordinal"][frame["i"]]
    )


def _leg_ordinals(legs: pl.DataFrame, sides: Sides) -> pl.DataFrame:
    return _with_ordinals(legs, sides).with_columns(contra_expected=sides.expected["ordinal"][legs["c"]])


def propose(
    expected: pl.DataFrame,
    incoming: pl.DataFrame,
    rules: MatchingRules,
    rejected: pl.DataFrame | None = None,
    names: pl.DataFrame | None = None,
    rates: pl.DataFrame | None = None,
    *,
    advices: pl.DataFrame | None = None,
    known: Known | None = None,
    observe: Observer | None = None,
) -> Proposals:
    """Match open expected transactions with open lines: one to one, by explicit groups, in parts where it is proved.

    ``expected`` and ``incoming`` have the columns of ``EXPECTED_SCHEMA`` and ``INCOMING_SCHEMA``, ``rejected`` pairs
    of ordinals never to propose again, ``names`` the texts of name keys (``NAMES_SCHEMA``), ``rates`` what currencies
    were worth (``RATES_SCHEMA``), ``advices`` what payers list of payments (``ADVICES_SCHEMA``). Of ``names``, those
    that are ``known`` are not looked at. ``observe`` is called with the name of each stage when it ends.

    Raises
    ------
    ColumnsError
        A frame is not what the engine takes.
    BeyondBudgetError
        It was given a part of what is open, and only everything together tells what has to be left out.

    """
    with of_part(is_part=known is not None and known.is_of_part):
        return _proposed(expected, incoming, rules, rejected, names, rates, advices, known, observe)


def _proposed(
    expected: pl.DataFrame,
    incoming: pl.DataFrame,
    rules: MatchingRules,
    rejected: pl.DataFrame | None,
    names: pl.DataFrame | None,
    rates: pl.DataFrame | None,
    advices: pl.DataFrame | None,
    known: Known | None,
    observe: Observer | None,
) -> Proposals:
    done = observe or (lambda _stage: None)
    advices = checked(advices, ADVICES_SCHEMA) if advices is not None else no_advices()
    sides = with_rules(prepare(expected, incoming, names, rules.aliases, known, advices["reference_key"]), rules)
    refused = _rejected_codes(rejected, sides)
    done("prepare")
    money = prepared(sides, rules, _rejected_money(rejected, sides))
    others = money.own.others(sides)
    found = with_near(with_series(candidates(others, rules), others), others)
    done("block")
    pairs = with_elsewhere(scored(without(found.pairs, refused), sides, rules), found, refused, sides)
    pairs, repeats, sides = without_repeats(pairs, sides)
    done("score")
    listed = advised(sides, advices, refused, rules, own=money.own.lines)
    groups = choose(pairs, sides, found, refused, rules, listed, money.refused.items)
    settled_by_groups = groups.settled
    done("groups")
    rates = rates if rates is not None else pl.DataFrame(schema=dict(RATES_SCHEMA))
    abroad = claimed(sides, pairs, rates, refused, rules)
    held = groups.taken.joined(abroad.items, abroad.lines)
    fitting = competed(pairs.filter(pl.col("fault") == 0), doubted(found, groups.doubtful), rules, held)
    done("compete")
    money = proved(money, sides, _chosen(fitting, groups), rules)
    done("money")
    # Its own is not yet compared with a line that quotes an item abroad.
    ours = fitting.filter(~pl.col("i").is_in(abroad.lines.implode())) if abroad.lines.len() else fitting
    busy = _busy(pairs, ours, groups)
    groups = both(groups, blind(sides, money.held(busy.joined(abroad.items, abroad.lines)), found, refused, rules))
    done("blind")
    busy = money.held(_busy(pairs, ours, groups))
    foreign, differing = exchanged(sides, busy, rates, found, refused, rules)
    busy = busy.joined(foreign.filter("chosen")["e"], foreign.filter("chosen")["i"])
    rest, findings = residual(sides, pairs, busy, found, refused, rules)
    done("residual")
    everything = pl.concat([foreign, fitting, rest], how="diagonal")
    chosen = _merged(everything.filter("chosen"), groups)
    legs = _legs(chosen, groups)
    settled = _taken(legs)
    money = remaining(money, sides, settled, rules)
    alternatives = _all_alternatives(chosen, everything, groups)
    done("alternatives")
    findings = pl.concat([findings, differing, groups.findings, forbidden(pairs), lost(fitting), repeated(repeats)])
    findings = pl.concat([findings, money.reasons()])
    proposed = money.found.taken.joined(settled.items, settled.lines)
    findings = pl.concat([findings, _neighbours(sides, proposed, findings, refused)])
    open_items = open_expected(sides, proposed.items, findings, found)
    open_lines = open_incoming(sides, proposed.lines, findings, found)
    done("reasons")
    result = chosen.select(
        "kind",
        "size",
        "amount_minor",
        "score_milli",
        "probability_ppm",
        "confidence",
        "status",
        "auto",
        "pending",
        "difference_minor",
        "rivals_expected",
        "rivals_incoming",
        "tried",
        "named",
        "coincidences_ppm",
        *LEVELS,
    )
    result, all_legs = appended(result, _leg_ordinals(legs, sides), money.found, sides)
    result = withheld(result, chosen, sides, rules)
    without_money = [adjusted(chosen, settled.items, sides, rules), adjustments_of(chosen, legs, settled_by_groups)]
    return Proposals(
        matches=result,
        legs=all_legs,
        adjustments=with_ordinals(without_money, sides),
        alternatives=_with_ordinals(alternatives, sides).select(
            "proposal", "side", "expected", "incoming", "score_milli"
        ),
        open_expected=open_items,
        open_incoming=open_lines,
        counts=Counts(
            expected=expected.height,
            incoming=sides.incoming.height,
            candidates=pairs.height,
            proposed=result.height,
            auto_accepted=int(result["auto"].sum()),
            ambiguous=result.filter(pl.col("status") == Uniqueness.AMBIGUOUS.value).height,
            open_expected=by_reason(open_items),
            open_incoming=by_reason(open_lines),
        ),
        names=sides.names,
        ruled=named(all_legs, sides, rules),
        engine_version=version_of(rules),
    )
