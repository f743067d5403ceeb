"""Sets of a party's items that have a line's amount: which there are, in which order, and how many are looked at."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from payrec.domain.matching import blind_sums
from payrec.domain.matching.blind_parties import Parties, Tier
from payrec.domain.matching.blind_sums import expected_by_chance, feasible, sums
from payrec.domain.matching.rules import ALTERNATIVES_MAX, BLIND_HITS_MAX, MatchingRules
from support.matching_frames import DAY

RULES = MatchingRules()
FAR = 10_000
"""Days between which everything is expected, before and after."""

Found = list[tuple[Tier, tuple[int, ...]]]


def members(
    amounts: Sequence[int], due: Sequence[int | None] | None = None, *, party: int = 1, e: int = 0, depth: int = 4
) -> pl.DataFrame:
    """Make the items of a party, in due order."""
    due = due or [DAY] * len(amounts)
    frame = pl.DataFrame(
        [
            (party, e + at, amount, day, DAY - FAR, DAY + FAR, depth, at, sum(amounts[:at]))
            for at, (amount, day) in enumerate(zip(amounts, due, strict=True))
        ],
        schema=["party", "e", "amount", "due", "opens", "closes", "depth", "at", "before"],
        orient="row",
    )
    types = {"e": pl.UInt32(), "depth": pl.Int8(), "at": pl.Int32()}
    return frame.with_columns(pl.col(name).cast(its) for name, its in types.items()).cast({"due": pl.Int64()})


def asking(target: int, *, i: int = 0, day: int | None = DAY, party: int = 1, depth: int = 4) -> pl.DataFrame:
    """Make a line that asks a party for an amount."""
    row = (party, i, target, day, *((None, None) if day is None else (day - 60, day + 30)), 7, 1_000_000, depth)
    names = ["party", "i", "target", "day", "since", "until", "n", "reach", "depth"]
    types = {"i": pl.UInt32(), "depth": pl.Int8(), **dict.fromkeys(("day", "since", "until"), pl.Int64())}
    return pl.DataFrame([row], schema=names, orient="row").cast(types)  # type: ignore[arg-type]


def of(items: pl.DataFrame | list[pl.DataFrame], *lines: pl.DataFrame) -> Parties:
    every = items if isinstance(items, list) else [items]
    none = pl.DataFrame()
    return Parties(members=pl.concat(every), lines=pl.concat(lines), unnamed=none, over=none)


def found_of(known: Parties, rules: MatchingRules = RULES, i: int = 0) -> Found:
    """Return the sets of a line, in their order."""
    hits, legs, _ = sums(known, rules)
    return [
        (Tier(tier), tuple(sorted(legs.filter(h=h)["e"])))
        for h, tier in hits.filter(i=i).select("h", "tier").iter_rows()
    ]


def tier_of(places: tuple[int, ...]) -> Tier | None:
    """Return the simplest kind that a set of two or more is of."""
    left_out = places[-1] - places[0] + 1 - len(places)
    if left_out <= Tier.MINUS_TWO:
        return Tier(left_out)
    return {2: Tier.PAIR, 3: Tier.TRIPLE}.get(len(places))


@pytest.mark.parametrize("most", [2, 3, 4, 50])
@pytest.mark.parametrize("depth", Tier)
def test_exactly_the_kinds_that_are_tried_are_found(depth: Tier, most: int) -> None:
    # Amounts of which each set has a sum of its own, and a line for each set.
    amounts = [2**at for at in range(8)]
    every = [places for size in range(2, 9) for places in combinations(range(8), size)]
    lines = [asking(sum(amounts[at] for at in places), i=i, depth=depth) for i, places in enumerate(every)]
    hits, legs, crowded = sums(of(members(amounts, depth=depth), *lines), MatchingRules(group_size_max=most))
    kinds = {places: tier for places in every if (tier := tier_of(places)) is not None}
    wanted = {places: tier for places, tier in kinds.items() if tier <= depth and len(places) <= most}
    assert {every[i]: Tier(tier) for i, tier in hits.select("i", "tier").iter_rows()} == wanted
    assert (hits.height, crowded.height, hits["more"].any()) == (len(wanted), 0, False)
    for h, i in hits.select("h", "i").iter_rows():
        its = legs.filter(h=h)
        assert (its["i"].unique().to_list(), sorted(its["e"])) == ([i], list(every[i]))
        assert dict(its.select("e", "leg_minor").iter_rows()) == {e: amounts[e] for e in every[i]}


@settings(max_examples=40)
@given(
    amounts=st.lists(st.integers(1, 9), min_size=2, max_size=8),
    target=st.integers(2, 40),
    depth=st.sampled_from(Tier),
    most=st.sampled_from([2, 3, 4, 50]),
)
def test_of_many_of_one_sum_the_simplest_are_kept(amounts: list[int], target: int, depth: Tier, most: int) -> None:
    every = [
        (tier, places)
        for size in range(2, min(most, len(amounts)) + 1)
        for places in combinations(range(len(amounts)), size)
        if sum(amounts[at] for at in places) == target and (tier := tier_of(places)) is not None and tier <= depth
    ]
    known = of(members(amounts, depth=depth), asking(target, depth=depth))
    hits, legs, crowded = sums(known, MatchingRules(group_size_max=most))
    simplest = [tier for tier, _ in every if tier == min(every)[0]]
    assert crowded.rows() == [(0, 0)] * (len(simplest) > ALTERNATIVES_MAX + 1)
    if crowded.is_empty():
        found = found_of(known, MatchingRules(group_size_max=most))
        assert len(found) == min(len(every), BLIND_HITS_MAX)
        assert set(found) <= set(every)
        assert [tier for tier, _ in found] == sorted(tier for tier, _ in every)[:BLIND_HITS_MAX]
        assert hits["more"].to_list() == [len(every) > BLIND_HITS_MAX] * hits.height
    assert set(legs["h"]) == set(hits["h"])
    assert all(amounts[e] == minor for e, minor in legs.select("e", "leg_minor").iter_rows())


ORDERS = {
    "due on the day, then longer ago": (DAY, [DAY - 9, DAY - 9, DAY - 5, DAY], [2, 1, 0]),
    "due tomorrow after what was due long ago": (DAY, [DAY - 700, DAY - 700, DAY - 699, DAY + 1], [1, 0, 2]),
    "due sooner of what is due later": (DAY, [DAY + 1, DAY + 2, DAY + 3, DAY + 4], [0, 1, 2]),
    "due by no day after what was due, before what is not yet": (DAY, [DAY, DAY - 4, DAY + 1, None], [0, 2, 1]),
    "in due order where the line has no day": (None, [DAY, DAY - 4, DAY + 1, DAY], [0, 1, 2]),
}


@pytest.mark.parametrize(("day", "due", "order"), ORDERS.values(), ids=ORDERS)
def test_of_runs_that_one_comes_first_whose_last_item_is_due(
    day: int | None, due: list[int | None], order: list[int]
) -> None:
    found = found_of(of(members([5, 6, 5, 6], due, depth=0), asking(11, day=day)))
    assert found == [(Tier.RUN, (at, at + 1)) for at in order]


@pytest.mark.parametrize("day", [DAY - 5_000, DAY, DAY + 5_000])
def test_a_simpler_kind_comes_first_however_late_it_is(day: int) -> None:
    due = [DAY - 4_000, DAY - 4_000, *[DAY] * 6]
    found = found_of(of(members([40, 90, 61, 17, 69, 22, 31, 38], due), asking(130, day=day)))
    assert found == [(Tier.RUN, (0, 1)), (Tier.MINUS_ONE, (2, 4)), (Tier.TRIPLE, (2, 6, 7))]


def test_a_simpler_kind_comes_first_however_early_it_is() -> None:
    due = [*[DAY] * 6, DAY + 4_000, DAY + 4_000]
    for day in (DAY, DAY - 1):
        found = found_of(of(members([38, 31, 22, 69, 17, 61, 90, 40], due), asking(130, day=day)))
        assert found == [(Tier.RUN, (6, 7)), (Tier.MINUS_ONE, (3, 5)), (Tier.TRIPLE, (0, 1, 5))]


def test_of_pairs_that_are_not_yet_due_that_one_comes_first_whose_last_is_sooner() -> None:
    amounts, due = [20, 30, 501, 503, 509, 70, 521, 80], [DAY + 1 + at for at in range(8)]
    assert found_of(of(members(amounts, due), asking(100))) == [(Tier.PAIR, (1, 5)), (Tier.PAIR, (0, 7))]


@pytest.mark.parametrize("day", [None, DAY - 9, DAY, DAY + 9])
def test_as_many_alike_as_can_be_told_are_kept_and_one_more_none(day: int | None) -> None:
    most = ALTERNATIVES_MAX + 2
    for size, is_kept in ((most, True), (most + 1, False)):
        _, _, crowded = sums(known := of(members([7] * size, depth=0), asking(14, day=day, depth=0)), RULES)
        assert len(found_of(known)) == is_kept * (size - 1)
        assert crowded.rows() == [(0, 0)] * (not is_kept)


def test_less_simple_ones_do_not_crowd_out_the_simplest() -> None:
    # One run, and its last item costs what seven others do that are a pair with its first.
    amounts = [5, 6, 900, 901, 902, 903, *[6, 911] * 4]
    found = found_of(known := of(members(amounts), asking(11)))
    assert found == [(Tier.RUN, (0, 1)), *[(Tier.PAIR, (0, at)) for at in (6, 8, 10, 12)]]
    assert not sums(known, RULES)[0]["more"].any()


@pytest.mark.parametrize(("sets", "more"), [(BLIND_HITS_MAX, False), (BLIND_HITS_MAX + 1, True)])
def test_no_more_sets_are_kept_than_are_looked_at(sets: int, *, more: bool) -> None:
    # Runs of two, which are due on other days each.
    amounts, due = zip(*((amount, DAY - at) for at in range(sets) for amount in (5, 6, 100 + at)), strict=True)
    hits, _, _ = sums(of(members(amounts, due, depth=0), asking(11, depth=0)), RULES)
    assert (hits.height, hits["more"].unique().to_list()) == (BLIND_HITS_MAX, [more])


@pytest.mark.parametrize("places", [(0, 1), (0, 3), (0, 1, 2), (0, 2, 4)], ids=str)
def test_a_set_of_several_kinds_counts_once(places: tuple[int, ...]) -> None:
    # Powers of four, so that nothing but the places of one block has the sum.
    target = 10**9
    amounts = [2 * target + at for at in range(5 * BLIND_HITS_MAX)]
    for block in range(BLIND_HITS_MAX):
        its = [4**block, 2 * 4**block][: len(places) - 1]
        for place, amount in zip(places, [*its, target - sum(its)], strict=True):
            amounts[5 * block + place] = amount
    hits, _, _ = sums(of(members(amounts, [DAY - at for at in range(len(amounts))]), asking(target)), RULES)
    assert (hits.height, hits["tier"].unique().to_list()) == (BLIND_HITS_MAX, [tier_of(places)])
    assert not hits["more"].any()


def two_parties(amounts: Sequence[Sequence[int]], target: int, due: Sequence[Sequence[int]]) -> Parties:
    """Return a line that may speak for either of two parties with items of their own."""
    items = [members(amounts[at], due[at], party=at, e=100 * at, depth=0) for at in (0, 1)]
    return of(items, *(asking(target, party=at, depth=0) for at in (0, 1)))


PIECES = pytest.mark.parametrize("rows", [1, 1_000_000], ids=["in pieces", "in one"])


@PIECES
def test_the_sets_of_two_parties_are_counted_together(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(blind_sums, "CHUNK_ROWS", rows)
    some, days = [5, 6, 100, 5, 6, 101, 5, 6, 102, 5, 6], [DAY - at // 3 for at in range(11)]
    known = two_parties([some, some], 11, [days, days])
    hits, legs, _ = sums(known, RULES)
    assert (hits.height, hits["more"].any()) == (8, False)
    assert set(legs["e"]) == {party + at for party in (0, 100) for at in (0, 1, 3, 4, 6, 7, 9, 10)}
    # The simpler one comes first, whichever party has it, and then the party that does.
    assert hits["party"].to_list() == [0, 1] * 4
    more = two_parties([some, [*some, 103, 5, 6]], 11, [days, [*days, DAY - 9, DAY - 9, DAY - 9]])
    hits, legs, _ = sums(more, RULES)
    assert (hits.height, hits["more"].all()) == (8, True)
    assert not {112, 113} & set(legs["e"])


@PIECES
def test_a_party_where_too_many_are_alike_leaves_the_line_without_any(
    monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(blind_sums, "CHUNK_ROWS", rows)
    known = two_parties([[5, 6], [7, 4] * 8], 11, [[DAY, DAY], [DAY] * 16])
    assert [frame.height for frame in sums(known, RULES)[:2]] == [0, 0]
    assert sums(known, RULES)[2]["i"].to_list() == [0]
    both = two_parties([[7, 4] * 8, [7, 4] * 8], 11, [[DAY] * 16] * 2)
    assert sums(both, RULES)[2].rows() == [(0, 0)], "once, beside the first of the first party"
    other = of([known.members], known.lines, asking(9, i=1, party=2), asking(11, i=2, party=0))
    assert found_of(other, i=2) == [(Tier.RUN, (0, 1))]


@PIECES
def test_too_many_may_be_alike_in_two_parties_together(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(blind_sums, "CHUNK_ROWS", rows)
    some = [5, 6, 100, 5, 6, 101, 5, 6, 102, 5, 6]
    hits, _, crowded = sums(two_parties([some, some], 11, [[DAY] * 11] * 2), RULES)
    assert (hits.height, crowded.rows()) == (0, [(0, 0)])
    # In the first party there is none that is as simple, so the item beside is one of the other's.
    hits, _, crowded = sums(two_parties([[5, 90, 6], [7, 4] * 8], 11, [[DAY] * 3, [DAY] * 16]), RULES)
    assert (hits.height, crowded.rows()) == (0, [(100, 0)])


def test_the_same_items_in_two_parties_are_one_set() -> None:
    items = [members([5, 6, 80], party=0), members([5, 6, 90], party=1)]
    known = of(items, asking(11, party=0), asking(11, party=1))
    hits, legs, _ = sums(known, RULES)
    assert (hits["party"].to_list(), legs["e"].to_list()) == ([0], [0, 1])


def test_as_much_is_found_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [members([5 + party, 6, 7, 9], party=party, e=10 * party) for party in range(5)]
    lines = [asking(11 + party, i=2 * party, party=party) for party in range(5)]
    lines += [asking(13, i=2 * party + 1, party=party) for party in range(5)]
    known = of(items, *lines)
    whole = sums(known, RULES)
    for rows in (1, 40, 100):
        monkeypatch.setattr(blind_sums, "CHUNK_ROWS", rows)
        for found, its in zip(sums(known, RULES), whole, strict=True):
            assert_frame_equal(found, its, check_row_order=False)


@pytest.mark.parametrize(
    ("opens", "closes", "is_left"),
    [
        pytest.param(DAY + 30, DAY + 40, True, id="opens on the last day"),
        pytest.param(DAY + 31, DAY + 40, False, id="opens a day later"),
        pytest.param(DAY - 90, DAY - 60, True, id="closed on the first day"),
        pytest.param(DAY - 90, DAY - 61, False, id="closed a day earlier"),
    ],
)
def test_each_of_a_set_has_to_be_in_time(opens: int, closes: int, *, is_left: bool) -> None:
    late = pl.when(pl.col("at") == 1).then(pl.lit(opens)).otherwise("opens"), pl.lit(closes)
    items = members([5, 6, 90, 11, 500]).with_columns(
        opens=late[0], closes=pl.when(pl.col("at") == 1).then(late[1]).otherwise("closes")
    )
    hits, legs, _ = sums(of(items, asking(11)), RULES)
    refused = pl.DataFrame(schema={"code": pl.Int64()})
    assert feasible(hits, legs, refused).height == is_left
    undated, its, _ = sums(of(items, asking(11, day=None)), RULES)
    assert feasible(undated, its, refused).height == 1


def test_a_set_with_a_refused_pair_is_left_out_alone() -> None:
    hits, legs, _ = sums(of(members([5, 6, 90, 5, 6]), asking(11, i=3)), RULES)
    both = {h: set(legs.filter(h=h)["e"]) for h in hits["h"]}
    for line, left in ((3, [{0, 1}, {0, 4}]), (4, [{0, 1}, {0, 4}, {1, 3}, {3, 4}])):
        refused = pl.DataFrame({"code": [3 * 2**32 + line]}, schema={"code": pl.Int64()})
        assert sorted(map(sorted, (both[h] for h in feasible(hits, legs, refused)["h"]))) == list(map(sorted, left))


def test_chance_is_told_by_the_kind_and_by_what_divides_all_amounts() -> None:
    # Seven items have 21 runs, 35 without one; sums of theirs reach a million minor units.
    for amounts, unit, tier, tried in (
        ([5_000, 6_000], 1_000, 0, 21),
        ([5_000, 6_050], 50, 0, 21),
        ([5_003, 6_000], 1, 0, 21),
        ([5_000, 700, 6_000], 1_000, 1, 21 + 35),
    ):
        known = of(members(amounts), asking(amounts[0] + amounts[-1]))
        hits, legs, _ = sums(known, RULES)
        [told] = expected_by_chance(hits, legs, known).iter_rows(named=True)
        assert (told["tier"], told["unit"], told["n"], told["depth"]) == (tier, unit, 7, 4)
        assert told["coincidences_ppm"] == tried * 1_000_000 // (1_000_000 // unit)
