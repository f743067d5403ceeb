"""Pairs of money against money by themselves: whose rivals they are, who is preferred, and what is sure of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from payrec.domain.matching import money_pairs
from payrec.domain.matching.columns import prepare
from payrec.domain.matching.line_rules import Bounds, LineRule
from payrec.domain.matching.money_pairs import EDGE_SCHEMA, LEG_SCHEMA, MATCH_SCHEMA, Contra, decided, edges, together
from payrec.domain.matching.ruled import NOBODY
from payrec.domain.matching.rules import (
    CLOSE_DAYS,
    NEAR_DAYS,
    AmountLevel,
    Confidence,
    DateLevel,
    EndToEndLevel,
    LineLevel,
    MatchingRules,
    MatchKind,
    ReferenceLevel,
    Uniqueness,
)
from payrec.domain.matching.score import LEVELS, RANK_PROOF
from payrec.domain.matching.weights import PRIOR_WEIGHT, WEIGHTS
from support.matching_frames import Item, Line, expected_frame, incoming_frame

PROOF = RANK_PROOF
NAMED = money_pairs.RANK_NAMED
TEXT = 0
LEAST = Confidence.HIGH.value
BEST, GOOD = Confidence.EXACT, Confidence.HIGH
SURE, DOUBT, TIE = Uniqueness.UNIQUE, Uniqueness.CONTESTED, Uniqueness.AMBIGUOUS
SCORE = 10_000

Edge = dict[str, Any]


def places(*rows: int) -> pl.Series:
    return pl.Series(rows, dtype=pl.UInt32)


def edge(e: int, i: int, rank: int = PROOF, **more: Any) -> Edge:
    """Return a pair that may be accepted where nothing else is."""
    said = {"score_milli": SCORE, "gap": 0, "pending": False, "twin": False, "unbounded": False, "safe": True}
    levels = dict.fromkeys(LEVELS, 0)
    money = {"least": LEAST, "leg_minor": 100 + e, "difference_minor": 7}
    return {"e": e, "i": i, **levels, **said, "rank": rank, **money} | more


def decide(pairs: Sequence[Edge], kind: MatchKind = MatchKind.REFUND) -> Contra:
    return decided(pl.DataFrame(pairs, schema=EDGE_SCHEMA), kind)


def ends_of(found: Contra) -> list[tuple[int, int]]:
    return found.legs.select("incoming", "contra_incoming").rows()


def standings(found: Contra) -> list[tuple[Confidence, Uniqueness, bool]]:
    rows = found.matches.select("confidence", "status", "auto").rows()
    return [(Confidence(confidence), Uniqueness(status), auto) for confidence, status, auto in rows]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, (BEST, SURE, True)),
        ({"rank": NAMED}, (GOOD, SURE, True)),
        ({"rank": TEXT}, (Confidence.MEDIUM, SURE, False)),
        ({"twin": True}, (Confidence.LOW, TIE, False)),
        ({"unbounded": True}, (Confidence.MEDIUM, Uniqueness.UNBOUNDED, False)),
        ({"rank": NAMED, "unbounded": True}, (Confidence.MEDIUM, Uniqueness.UNBOUNDED, False)),
        ({"twin": True, "unbounded": True}, (Confidence.LOW, TIE, False)),
        ({"pending": True}, (BEST, SURE, False)),
        ({"safe": False}, (BEST, SURE, False)),
        ({"least": Confidence.EXACT.value}, (BEST, SURE, True)),
        ({"least": Confidence.EXACT.value, "rank": NAMED}, (GOOD, SURE, False)),
        ({"least": Confidence.EXACT.value + 1}, (BEST, SURE, False)),
        ({"least": Confidence.LOW.value, "twin": True}, (Confidence.LOW, TIE, True)),
    ],
)
def test_how_sure_a_pair_is_that_has_no_rival(
    changes: dict[str, Any], said: tuple[Confidence, Uniqueness, bool]
) -> None:
    assert standings(decide([edge(0, 1) | changes])) == [said]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (edge(0, 3), (Confidence.MEDIUM, DOUBT, False)),
        (edge(2, 1), (Confidence.MEDIUM, DOUBT, False)),
        (edge(0, 3, NAMED), (BEST, SURE, True)),  # what is proved less well is no rival
        (edge(2, 1, TEXT), (BEST, SURE, True)),
        (edge(2, 3), (BEST, SURE, True)),
    ],
)
def test_a_rival_shares_an_end_and_is_proved_as_well(other: Edge, said: tuple[Confidence, Uniqueness, bool]) -> None:
    other["score_milli"] = SCORE - 1_000
    assert standings(decide([edge(0, 1), other]))[0] == said


@pytest.mark.parametrize(
    ("rank", "other"), [(NAMED, PROOF), (TEXT, NAMED), (TEXT, PROOF), (NAMED, NAMED), (TEXT, TEXT)]
)
def test_what_has_a_rival_that_is_proved_as_well_or_better_is_not_unique(rank: int, other: int) -> None:
    """The rival is taken by another pair, so that this one is left."""
    found = decide(
        [edge(0, 1, other, score_milli=SCORE + 2), edge(0, 3, other, score_milli=SCORE + 1), edge(2, 3, rank)]
    )
    assert ends_of(found) == [(0, 1), (2, 3)]
    assert standings(found)[1] == (Confidence.MEDIUM, DOUBT, False)


def test_the_better_proved_is_meant_then_the_higher_score_then_fewer_days() -> None:
    by_proof = [edge(0, 1, NAMED, score_milli=SCORE + 500), edge(0, 2, PROOF, gap=90)]
    assert ends_of(decide(by_proof)) == [(0, 2)]
    by_score = [edge(0, 1, score_milli=SCORE, gap=0), edge(0, 2, score_milli=SCORE + 1, gap=180)]
    assert ends_of(decide(by_score)) == [(0, 2)]
    by_days = [edge(0, 1, gap=3), edge(0, 2, gap=2)]
    found = decide(by_days)
    assert ends_of(found) == [(0, 2)]
    assert standings(found) == [(Confidence.MEDIUM, DOUBT, False)]


@pytest.mark.parametrize("pairs", [[edge(0, 1), edge(0, 2)], [edge(0, 2), edge(1, 2)]])
def test_what_not_even_the_days_decide_is_ambiguous_and_the_first_is_proposed(pairs: list[Edge]) -> None:
    for gap in (None, 0, 5):
        found = decide([pair | {"gap": gap} for pair in pairs])
        assert ends_of(found) == [(pairs[0]["e"], pairs[0]["i"])]
        assert standings(found) == [(Confidence.LOW, TIE, False)]


def test_days_that_are_not_known_are_none() -> None:
    assert ends_of(decide([edge(0, 1, gap=1), edge(0, 2, gap=None)])) == [(0, 2)]
    assert standings(decide([edge(0, 1, gap=0), edge(0, 2, gap=None)])) == [(Confidence.LOW, TIE, False)]


def test_equal_evidence_of_two_ranks_is_no_tie() -> None:
    found = decide([edge(0, 1, NAMED), edge(0, 2, PROOF)])
    assert (ends_of(found), standings(found)) == ([(0, 2)], [(BEST, SURE, True)])


def test_nobody_is_in_two_pairs() -> None:
    crossed = [edge(0, 2), edge(0, 3, score_milli=SCORE - 1), edge(1, 2, score_milli=SCORE - 2)]
    assert ends_of(decide(crossed)) == [(0, 2)]
    assert ends_of(decide([*crossed, edge(1, 3, score_milli=1)])) == [(0, 2), (1, 3)]
    assert ends_of(decide([edge(0, 3), edge(1, 2)])) == [(0, 3), (1, 2)], "in content order of the first ends"


def test_the_probability_is_the_share_among_those_of_either_end() -> None:
    even = {"score_milli": 0}
    alone = decide([edge(0, 1, **even)]).matches
    assert alone["probability_ppm"].to_list() == [500_000], "with no match as the other"
    rivals = [edge(0, 1, **even), edge(0, 2, NAMED, **even), edge(3, 1, NAMED, **even), edge(4, 5, **even)]
    assert decide(rivals).matches["probability_ppm"].to_list() == [250_000, 500_000]


def test_what_a_proposal_says() -> None:
    levels = {level: at for at, level in enumerate(LEVELS)}
    pairs = [edge(4, 1, **levels), edge(4, 2, NAMED), edge(6, 1, NAMED), edge(5, 3, leg_minor=33)]
    found = decide(pairs)
    assert found.matches.schema == MATCH_SCHEMA
    first, second = found.matches.rows(named=True)
    assert {name: first[name] for name in levels} == levels
    assert (first["m"], second["m"]) == (0, 1)
    assert (first["kind"], first["size"], first["tried"], first["named"]) == (MatchKind.REFUND.value, 1, 1, 1)
    assert (first["amount_minor"], second["amount_minor"], first["score_milli"]) == (104, 33, SCORE)
    assert (first["difference_minor"], first["pending"], first["coincidences_ppm"]) == (7, False, None)
    assert [(row["rivals_expected"], row["rivals_incoming"]) for row in (first, second)] == [(0, 2), (0, 0)]
    expected = [(0, None, 4, None, 1, 104), (1, None, 5, None, 3, 33)]
    assert_frame_equal(found.legs, pl.DataFrame(expected, schema=LEG_SCHEMA, orient="row"))
    assert (sorted(found.taken.lines), found.taken.items.to_list()) == ([1, 3, 4, 5], [])


def test_a_credit_note_is_of_items() -> None:
    found = decide([edge(4, 1), edge(4, 2, NAMED), edge(6, 1, NAMED)], MatchKind.CREDIT_NOTE)
    row = found.matches.row(0, named=True)
    assert (row["kind"], row["rivals_expected"], row["rivals_incoming"]) == (MatchKind.CREDIT_NOTE.value, 2, 0)
    assert_frame_equal(found.legs, pl.DataFrame([(0, 4, None, 1, None, 104)], schema=LEG_SCHEMA, orient="row"))
    assert (sorted(found.taken.items), found.taken.lines.to_list()) == ([1, 4], [])


def test_of_no_pairs_nothing_is_proposed() -> None:
    found = decided(money_pairs.no_edges(), MatchKind.TRANSFER)
    assert (found.matches.schema, found.legs.schema) == (MATCH_SCHEMA, LEG_SCHEMA)
    assert (found.matches.height, found.legs.height) == (0, 0)
    assert (found.taken.items.to_list(), found.taken.lines.to_list()) == ([], [])
    assert found.taken.items.dtype == found.taken.lines.dtype == pl.UInt32()
    assert money_pairs.no_edges().schema == EDGE_SCHEMA


def test_what_several_ways_have_found_is_numbered_through() -> None:
    nothing = decide([])
    ways = [
        decide([edge(0, 1), edge(2, 3)]),
        nothing,
        decide([edge(8, 9)], MatchKind.CREDIT_NOTE),
        decide([edge(4, 5), edge(6, 7)]),
    ]
    found = together(ways)
    assert found.matches["m"].to_list() == found.legs["m"].to_list() == [0, 1, 2, 3, 4]
    assert found.legs["incoming"].to_list() == [0, 2, None, 4, 6]
    assert found.legs["contra_expected"].to_list() == [None, None, 9, None, None]
    assert (sorted(found.taken.items), sorted(found.taken.lines)) == ([8, 9], list(range(8)))
    assert (found.matches.schema, found.legs.schema) == (MATCH_SCHEMA, LEG_SCHEMA)
    assert together([nothing]).matches.is_empty()


def paired(
    came: int = 900, went: int = 1_000, e_more: dict[str, Any] | None = None, i_more: dict[str, Any] | None = None
) -> pl.DataFrame:
    """Return one pair with what is said of its ends, not yet scored."""
    ends = {"e_amount_minor": [came], "i_amount_minor": [went], "e_twin": [False], "i_twin": [False]}
    said = {"gap": [1], "rank": [PROOF], "pending": [False], "unbounded": [False], "safe": [True]}
    levels = {"amount_level": [AmountLevel.EQUAL.value], "date_level": [DateLevel.CLOSE.value]}
    ends |= {f"e_{name}": [value] for name, value in (e_more or {}).items()}
    ends |= {f"i_{name}": [value] for name, value in (i_more or {}).items()}
    return pl.DataFrame({"e": [3], "i": [4], **ends, **said, **levels})


RULES = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")


def test_the_smaller_of_the_two_amounts_is_settled_and_the_difference_is_what_comes_in_less_what_goes_out() -> None:
    found = edges(paired(), RULES)
    assert found.schema == EDGE_SCHEMA
    row = found.row(0, named=True)
    assert (row["e"], row["i"], row["leg_minor"], row["difference_minor"]) == (3, 4, 900, -100)
    assert (row["gap"], row["rank"], row["safe"], row["pending"], row["unbounded"]) == (1, PROOF, True, False, False)
    row = edges(paired(1_000, 900), RULES).row(0, named=True)
    assert (row["leg_minor"], row["difference_minor"]) == (900, 100)


def test_a_feature_that_a_pair_does_not_have_is_silent() -> None:
    row = edges(paired(), RULES).row(0, named=True)
    there = {"amount_level": AmountLevel.EQUAL.value, "date_level": DateLevel.CLOSE.value}
    assert {level: row[level] for level in LEVELS} == dict.fromkeys(LEVELS, 0) | there
    of_silent = sum(WEIGHTS[level.removesuffix("_level")][0] for level in LEVELS if level not in there)
    said = WEIGHTS["amount"][AmountLevel.EQUAL] + WEIGHTS["date"][DateLevel.CLOSE]
    assert row["score_milli"] == PRIOR_WEIGHT + of_silent + said
    quoted = paired().with_columns(
        reference_level=ReferenceLevel.FULL.value, end_to_end_level=EndToEndLevel.EQUAL.value
    )
    assert edges(quoted, RULES)["score_milli"][0] > row["score_milli"]


@pytest.mark.parametrize(("came", "went"), [(False, False), (True, False), (False, True), (True, True)])
def test_a_pair_of_which_either_end_has_an_equal_has_one(*, came: bool, went: bool) -> None:
    assert edges(paired(e_more={"twin": came}, i_more={"twin": went}), RULES)["twin"].to_list() == [came or went]


def test_of_two_lines_the_rule_that_asks_for_more_counts_and_of_items_there_is_none() -> None:
    exact = LineRule(name="exact", bounds=Bounds(auto_accept=True, auto_accept_min_confidence="exact"))
    rules = replace(RULES, line_rules=(exact, LineRule(name="never", bounds=Bounds())))
    ends = [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (2, 1), (2, 2)]
    found = [edges(paired(e_more={"rule": e}, i_more={"rule": i}), rules)["least"].item() for e, i in ends]
    assert found == [GOOD, BEST, BEST, BEST, NOBODY, NOBODY, NOBODY]
    assert edges(paired(), rules)["least"].to_list() == [GOOD]


def test_edges_are_sorted() -> None:
    first, second = paired(), paired().with_columns(e=pl.lit(1), i=pl.lit(9))
    third = paired().with_columns(i=pl.lit(2))
    found = edges(pl.concat([first, second, third.select(first.columns)], how="vertical_relaxed"), RULES)
    assert found.select("e", "i").rows() == [(1, 9), (3, 2), (3, 4)]


DAYS = [
    (None, DateLevel.UNKNOWN),
    (0, DateLevel.NEAR),
    (NEAR_DAYS, DateLevel.NEAR),
    (NEAR_DAYS + 1, DateLevel.CLOSE),
    (CLOSE_DAYS, DateLevel.CLOSE),
    (CLOSE_DAYS + 1, DateLevel.WITHIN),
]


@pytest.mark.parametrize(("gap", "level"), DAYS)
def test_how_far_apart_the_two_are(gap: int | None, level: DateLevel) -> None:
    frame = pl.DataFrame({"gap": [gap]}, schema={"gap": pl.Int64})
    assert frame.select(found=money_pairs.date_level())["found"].to_list() == [level.value]


@pytest.mark.parametrize(
    ("true", "level"),
    [
        ((), LineLevel.BOOKED),
        (("e_pending",), LineLevel.PENDING),
        (("i_pending",), LineLevel.PENDING),
        (("e_duplicate",), LineLevel.DUPLICATE),
        (("i_duplicate",), LineLevel.DUPLICATE),
        (("e_pending", "i_duplicate"), LineLevel.DUPLICATE),
    ],
)
def test_what_is_said_of_either_line_is_said_of_the_pair(true: tuple[str, ...], level: LineLevel) -> None:
    said = ("e_pending", "i_pending", "e_duplicate", "i_duplicate")
    frame = pl.DataFrame({name: [name in true] for name in said})
    assert frame.select(found=money_pairs.line_level())["found"].to_list() == [level.value]


def test_what_is_taken_is_left_out() -> None:
    frame = pl.DataFrame({"row": places(0, 1, 2, 3), "a": list("abcd"), "b": [1, 2, 3, 4]})
    assert money_pairs.left_over(frame, places(2, 0), ["row", "a"]).rows() == [(1, "b"), (3, "d")]
    assert money_pairs.left_over(frame, places(), ["b"])["b"].to_list() == [1, 2, 3, 4]
    pairs = pl.DataFrame({"e": places(0, 0, 2, 4), "i": places(1, 3, 3, 5)})
    assert money_pairs.free(pairs, places(3)).rows() == [(0, 1), (4, 5)]
    assert money_pairs.free(pairs, places(0, 5)).rows() == [(2, 3)]
    assert money_pairs.free(pairs, places()).rows() == pairs.rows()
    assert money_pairs.free(pairs.clear(), places(3)).columns == ["e", "i"]


def test_where_something_is_required_nothing_but_proof_will_do() -> None:
    pairs = pl.DataFrame(
        {"e": places(0, 0, 2, 4, 6), "i": places(1, 3, 3, 5, 7), "rank": [PROOF, NAMED, NAMED, TEXT, PROOF]}
    )
    assert money_pairs.proved_where_strict(pairs, places(0)).select("e", "i").rows() == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert money_pairs.proved_where_strict(pairs, places(3, 5, 7))["e"].to_list() == [0, 6]
    assert money_pairs.proved_where_strict(pairs, places()).height == pairs.height
    assert money_pairs.proved_where_strict(pairs.clear(), places(0)).is_empty()


def test_what_is_said_of_both_ends_is_put_beside_a_pair() -> None:
    frame = pl.DataFrame({"a": list("wxyz"), "b": [0, 1, 2, 3], "c": [True] * 4})
    pairs = pl.DataFrame({"e": places(3, 1), "i": places(0, 1), "rank": [1, 2]})
    found = money_pairs.beside(pairs, frame, ["a", "b"])
    assert found.columns == ["e", "i", "e_a", "e_b", "i_a", "i_b"]
    assert found.rows() == [(3, 0, "z", 3, "w", 0), (1, 1, "x", 1, "x", 1)]


def test_both_directions_of_a_currency_have_the_same_salt() -> None:
    currencies = ["EUR", "USD", "GBP", "NOK"]
    lines = [Line("x", currency=currency, direction=direction) for currency in currencies for direction in (1, -1)]
    before = prepare(expected_frame([]), incoming_frame(lines)).incoming
    after = money_pairs.salted(before)
    assert before.group_by("currency").agg(pl.col("salt").n_unique())["salt"].to_list() == [2] * len(currencies)
    by_currency = dict(after.select("currency", "salt").rows())
    assert set(after.select("currency", "salt").rows()) == set(by_currency.items())
    assert len(set(by_currency.values()) - {None}) == len(currencies)
    assert after.schema == before.schema
    assert_frame_equal(after.drop("salt"), before.drop("salt"))


def test_proposals_of_money_against_money_come_last_with_the_ordinals_of_their_rows() -> None:
    # By content the order of the rows is another one.
    items = [Item("e0", amount=300), Item("e1", amount=100), Item("e2", amount=200)]
    lines = [Line("i0", amount=30), Line("i1", amount=10), Line("i2", amount=20)]
    sides = prepare(expected_frame(items), incoming_frame(lines))
    ordinals = sides.expected["ordinal"].to_list(), sides.incoming["ordinal"].to_list()
    assert [0, 1, 2] not in ordinals
    contra = together([decide([edge(0, 2)]), decide([edge(1, 0)], MatchKind.CREDIT_NOTE)])
    types = [name for name in MATCH_SCHEMA if name not in {"m", "pending"}]
    matches = decide([edge(0, 1), edge(2, 3)]).matches.select(types)
    number = {"proposal": pl.UInt32(), "expected": pl.Int32(), "incoming": pl.Int32(), "amount_minor": pl.Int64()}
    schema = {**number, "settled_minor": pl.Int64()}
    legs = pl.DataFrame([(0, 5, 6, 50, 49), (1, 7, 8, 60, 61)], schema=schema, orient="row")
    found, of_both = money_pairs.appended(matches, legs, contra, sides)
    assert_frame_equal(found, pl.concat([matches, contra.matches.select(types)]))
    its, theirs = ordinals
    columns = [
        "proposal",
        "expected",
        "incoming",
        "contra_expected",
        "contra_incoming",
        "amount_minor",
        "settled_minor",
    ]
    assert of_both.columns == columns
    assert of_both.rows() == [
        (0, 5, 6, None, None, 50, 49),
        (1, 7, 8, None, None, 60, 61),
        (2, None, theirs[0], None, theirs[2], 100, 100),
        (3, its[1], None, its[0], None, 101, 101),
    ]
    of_items = legs.with_columns(contra_expected=pl.Series([None, 9], dtype=pl.Int32))
    only = money_pairs.appended(matches, of_items, decide([]), sides)
    assert_frame_equal(only[0], matches)
    assert only[1]["contra_expected"].to_list() == [None, 9]
    assert only[1].columns == columns
    assert only[1]["contra_incoming"].dtype == pl.Int32
