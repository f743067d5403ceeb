"""What a pair's levels come to: its score, what forbids it first, and who is left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from payrec.domain.matching.block import with_code
from payrec.domain.matching.line_rules import Bounds, LineRule, Required, Scope
from payrec.domain.matching.rules import (
    FEATURES,
    AmountLevel,
    EndToEndLevel,
    LineLevel,
    MatchingRules,
    NameLevel,
    PartyLevel,
    Reason,
    ReferenceLevel,
)
from payrec.domain.matching.score import LEVELS, in_time, scored, span, without
from payrec.domain.matching.weights import PRIOR_WEIGHT, WEIGHTS, Calibration
from support.matching_frames import DAY, DUE_IN_TIME, Item, Line
from support.scored_pairs import ITEM, LINE, RULES, pairs_of, score, sides_of

LATE = {"day": DAY + 61}
LESS = {"amount": 9_999}
OTHERS = {"iban": "DE2"}
OF_ALPHA = replace(ITEM, iban="DE1", name="Alpha")
FULL, PARTIAL, COMMON = ReferenceLevel.FULL.value, ReferenceLevel.PARTIAL.value, ReferenceLevel.COMMON.value
DATES, AMOUNT, SILENT = Reason.DATE_OUT_OF_WINDOW, Reason.AMOUNT_MISMATCH, Reason.MISSING_REFERENCE
MISMATCH = Reason.COUNTERPARTY_MISMATCH


@pytest.mark.parametrize(
    ("line", "required", "reference", "fault"),
    [
        ({}, Required.NOTHING, 0, 0),
        (LATE | LESS | OTHERS, Required.REFERENCE, 0, DATES),
        (LATE, Required.NOTHING, FULL, DATES),
        (LESS | OTHERS, Required.REFERENCE, 0, AMOUNT),
        (LESS, Required.NOTHING, PARTIAL, AMOUNT),
        (LESS, Required.NOTHING, FULL, 0),  # what is proved is a part
        ({"amount": 10_001}, Required.NOTHING, FULL, 0),
        (OTHERS, Required.REFERENCE, 0, SILENT),
        (LESS | OTHERS, Required.COUNTERPARTY_ACCOUNT, FULL, MISMATCH),
        (LESS, Required.END_TO_END_ID, FULL, SILENT),
        (OTHERS, Required.NOTHING, 0, MISMATCH),
        (OTHERS, Required.NOTHING, COMMON, 0),  # a hint is enough
        (OTHERS | {"name": "Alpha"}, Required.NOTHING, 0, 0),
        ({"name": "Omega", "iban": "DE1"}, Required.NOTHING, 0, 0),
        ({"name": "Omega"}, Required.NOTHING, 0, MISMATCH),
    ],
)
def test_what_forbids_a_pair_first(
    line: dict[str, Any], required: Required, reference: int, fault: Reason | int
) -> None:
    row = score(OF_ALPHA, replace(LINE, **line), replace(RULES, required=required), reference=reference)
    assert row["fault"] == fault


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ({}, LineLevel.BOOKED),
        ({"pending": True}, LineLevel.PENDING),
        ({"duplicate": True}, LineLevel.DUPLICATE),
        ({"pending": True, "duplicate": True}, LineLevel.DUPLICATE),
    ],
)
def test_a_line_that_is_pending_or_repeated_says_so(line: dict[str, Any], level: LineLevel) -> None:
    row = score(line=replace(LINE, **line))
    assert row["line_level"] == level
    assert (row["pending"], row["duplicate"]) == (line.get("pending", False), line.get("duplicate", False))


def test_a_pair_of_which_either_has_an_equal_has_one() -> None:
    equal = [replace(ITEM, tie="1"), replace(ITEM, id="again", tie="1")]
    for items, lines, twin in (
        ([ITEM], [LINE], False),
        (equal, [LINE], True),
        ([ITEM], [replace(LINE, id="x", tie="1"), replace(LINE, id="y", tie="1")], True),
    ):
        assert scored(pairs_of((0, 0)), sides_of(items, lines), RULES)["twin"].to_list() == [twin]


def test_the_score_is_the_sum_of_the_weights() -> None:
    item = replace(OF_ALPHA, reference="INV-10001", end_to_end_id="E2E-70001", account="A")
    line = replace(
        LINE, amount=9_000, day=DAY + 5, pending=True, iban="DE1", name="Omega", account="B", text="INV-10001"
    )
    row = score(item, line, reference=FULL)
    levels = {feature: row[f"{feature}_level"] for feature in FEATURES}
    assert len({WEIGHTS[feature][level] for feature, level in levels.items()}) > 4
    assert row["score_milli"] == PRIOR_WEIGHT + sum(WEIGHTS[feature][level] for feature, level in levels.items())
    learned = replace(RULES, calibration=Calibration(version=1, corrections={"reference": (0, 0, 0, 0, 300)}))
    assert score(item, line, learned, reference=FULL)["score_milli"] == row["score_milli"] + 300
    assert score(item, line, learned)["score_milli"] == score(item, line)["score_milli"]


def test_what_a_scored_pair_has() -> None:
    row = score(replace(ITEM, amount=900), replace(LINE, amount=1_000), end_to_end=EndToEndLevel.EQUAL.value)
    ends = {"e": 0, "i": 0, "e_amount_minor": 900, "i_amount_minor": 1_000, "difference_minor": 100}
    assert ends.items() <= row.items()
    assert (row["rank"], row["payer"], row["equal"], row["twin"]) == (2, False, False, False)
    columns = [*("e", "i"), *LEVELS, *("score_milli", "difference_minor", "days_outside", "rank", "payer", "equal")]
    columns += ["fault", "e_amount_minor", "i_amount_minor", "elsewhere", "shared", "named_other"]
    columns += ["pending", "duplicate", "twin"]
    assert list(row) == columns
    found = scored(pairs_of((0, 0)), sides_of([ITEM], [LINE]), RULES)
    types = {**dict.fromkeys([*LEVELS, "rank", "fault"], pl.Int8()), "score_milli": pl.Int32()}
    wide = dict.fromkeys(("difference_minor", "days_outside", "e_amount_minor", "i_amount_minor"), pl.Int64())
    assert (types | wide).items() <= found.schema.items()


def test_each_line_has_the_bounds_of_its_rule() -> None:
    strict = Bounds(amount_tolerance_minor=5, date_window_days_before=1, date_window_days_after=2)
    rules = MatchingRules(
        amount_tolerance_minor=50, line_rules=(LineRule(name="r", scope=Scope(minor_max=9_990), bounds=strict),)
    )
    lines = [replace(LINE, id=f"i{at}", amount=amount) for at, amount in enumerate((9_950, 9_990, 9_995))]
    sides = sides_of([ITEM], lines, rules)
    found = scored(pairs_of((0, 0), (0, 1), (0, 2)), sides, rules)
    by_amount = {row["i_amount_minor"]: (row["amount_level"], row["rule"]) for row in found.to_dicts()}
    smaller, near = AmountLevel.SMALLER, AmountLevel.TOLERANCE
    assert by_amount == {9_950: (smaller, 1), 9_990: (smaller, 1), 9_995: (near, 0)}
    for day, outside in ((DAY - 1, 0), (DAY - 2, 1), (DAY + 2, 0), (DAY + 3, 1)):
        of_rule = score(line=replace(LINE, amount=9_000, day=day), rules=rules)
        assert (of_rule["days_outside"], of_rule["rule"]) == (outside, 1)
        assert score(line=replace(LINE, day=day), rules=rules)["days_outside"] == 0


def test_rejected_pairs_are_left_out_and_the_others_stay_sorted() -> None:
    pairs = pairs_of((0, 0), (0, 2), (1, 0), (1, 1), (2, 1))
    rejected = with_code(pairs_of((2, 1), (0, 0), (7, 7))).select("code")
    left = without(pairs, rejected)
    assert left.select("e", "i").rows() == [(0, 2), (1, 0), (1, 1)]
    assert left.columns == pairs.columns
    assert without(pairs, rejected.clear()) is pairs


@pytest.mark.parametrize(("due", "timely"), DUE_IN_TIME)
def test_pairs_beyond_the_days_are_left_out(*, due: int | None, timely: bool) -> None:
    items = [replace(ITEM, due=due), Item("other", amount=1, due=DAY)]
    sides = sides_of(items, [LINE])
    rows = {items[at].id: row for row, at in enumerate(sides.expected["ordinal"])}
    pairs = pairs_of((rows["e"], 0), (rows["other"], 0)).with_columns(more=pl.lit("kept"))
    left = in_time(pairs, sides, RULES)
    assert sorted(left["e"]) == sorted(row for name, row in rows.items() if timely or name == "other")
    assert left.columns == pairs.columns


def test_an_item_is_expected_from_the_first_to_the_last_day_that_it_says() -> None:
    said = [(5, 3, 8), (2, 3, 8), (9, 3, 8), (None, 3, 8), (5, None, None), (None, None, 8), (None, None, None)]
    frame = pl.DataFrame(said, schema=dict.fromkeys(("x_due_day", "x_from_day", "x_to_day"), pl.Int32), orient="row")
    first, last = span("x_")
    found = frame.select(first=first, last=last)
    assert found.rows() == [(3, 8), (2, 8), (3, 9), (3, 8), (5, 5), (None, 8), (None, None)]
    assert found.dtypes == [pl.Int64, pl.Int64]
    plain = frame.rename(lambda name: name.removeprefix("x_")).select(first=span()[0], last=span()[1])
    assert plain.equals(found)


def test_a_name_that_is_alike_is_no_payer_and_none_that_contradicts() -> None:
    row = score(replace(ITEM, name="Hartmann Maschinenbau"), replace(LINE, name="HARTMAN MASCHINENBAU"))
    assert (row["name_level"], row["payer"], row["fault"]) == (NameLevel.SIMILAR, False, 0)
    row = score(OF_ALPHA, replace(LINE, name="Omega", iban="DE9", ultimate="Alpha"))
    assert (row["name_level"], row["account_level"]) == (NameLevel.ULTIMATE, PartyLevel.DIFFERENT)
    assert (row["payer"], row["fault"]) == (True, 0)


def test_each_pair_has_what_is_said_of_its_own_ends() -> None:
    items = [replace(ITEM, id=f"e{at}", amount=1_000 + at, iban=f"DE{at}") for at in range(3)]
    lines = [Line(f"i{at}", amount=1_000 + at, iban=f"DE{2 - at}") for at in range(3)]
    sides = sides_of(items, lines)
    its, theirs = sides.expected["ordinal"].to_list(), sides.incoming["ordinal"].to_list()
    every = [(e, i) for e in range(3) for i in range(3)]
    found = scored(pairs_of(*reversed(every)), sides, RULES)
    assert found.select("e", "i").rows() == every[::-1], "in the order given"
    for row in found.to_dicts():
        e, i = its[row["e"]], theirs[row["i"]]
        assert (row["e_amount_minor"], row["i_amount_minor"]) == (1_000 + e, 1_000 + i)
        assert (row["account_level"] == PartyLevel.EQUAL) == (e == 2 - i)
