"""From which score on nobody has to look, and who is asked all the same."""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.domain.matching.certificate import (
    RESTING_PPM_MIN,
    acceptable,
    certify,
    curve_of,
    lower_bound_ppm,
    proved,
)
from payrec.domain.matching.rules import (
    AmountLevel,
    Confidence,
    DateLevel,
    EndToEndLevel,
    MatchingRules,
    NameLevel,
    PartyLevel,
    ReferenceLevel,
    Uniqueness,
)
from payrec.domain.matching.weights import PRECISION_PPM_MIN, Calibration
from support.matching_frames import Item, Line, Outcome, run

FEWEST = 2_703
"""Decisions without an error that a certificate takes (MATCHING: one-sided 95 %, at least 0.999)."""

CERTIFIED = Calibration(version=7, threshold_milli=2_000, reviewed=3_000)
RULES = MatchingRules(auto_accept=True, auto_accept_min_confidence="high", calibration=CERTIFIED)
FULL, WRITTEN = "Albrador Logistik GmbH", "Albrador Log. GmbH"


def reviewed(*rows: tuple[int, bool, int, int]) -> pl.DataFrame:
    """Make decisions of score, whether a reference proves them, how many were right, and how many wrong."""
    return pl.DataFrame(
        [
            (score, proof, is_right)
            for score, proof, right, wrong in rows
            for is_right in [True] * right + [False] * wrong
        ],
        schema={"score_milli": pl.Int32(), "proof": pl.Boolean(), "right": pl.Boolean()},
        orient="row",
    )


def similar(rules: MatchingRules, *, day: int = 20_600, **changes: object) -> Outcome:
    item, line = Item("e", name=FULL), Line("i", name=WRITTEN, day=day)
    return run([item], [replace(line, **changes)], rules)  # type: ignore[arg-type]


def test_a_certificate_takes_2703_decisions_without_an_error() -> None:
    assert lower_bound_ppm(FEWEST, FEWEST) >= PRECISION_PPM_MIN > lower_bound_ppm(FEWEST - 1, FEWEST - 1)
    assert lower_bound_ppm(FEWEST, FEWEST + 1) < PRECISION_PPM_MIN
    assert lower_bound_ppm(0, 0) == lower_bound_ppm(0, 9) == 0
    few = certify(reviewed((5_000, False, FEWEST - 1, 0)))
    assert (few.threshold_milli, few.reviewed, few.wrong) == (None, FEWEST - 1, 0)
    assert few.bound_ppm == lower_bound_ppm(FEWEST - 1, FEWEST - 1)
    enough = certify(reviewed((5_000, False, FEWEST, 0)))
    assert (enough.threshold_milli, enough.reviewed) == (5_000, FEWEST)
    assert enough.bound_ppm == lower_bound_ppm(FEWEST, FEWEST)


def test_the_threshold_is_the_lowest_that_holds() -> None:
    found = certify(reviewed((9_000, False, 5_000, 0), (6_000, False, 500, 0), (3_000, False, 90, 10)))
    assert (found.threshold_milli, found.reviewed, found.wrong) == (6_000, 5_500, 0)


def test_proofs_do_not_vouch_for_what_is_not_proved() -> None:
    proofs = (20_000, True, 50_000, 0)
    unproved = reviewed(proofs, (3_000, False, 590, 10))
    assert lower_bound_ppm(50_590, 50_600) > PRECISION_PPM_MIN
    assert lower_bound_ppm(590, 600) < RESTING_PPM_MIN
    assert certify(unproved).threshold_milli is None
    assert certify(reviewed(proofs, (3_000, False, 600, 0))).threshold_milli == 3_000


@given(
    st.lists(
        st.tuples(st.integers(-50, 50), st.booleans(), st.integers(0, 3_000), st.integers(0, 3)), min_size=1, max_size=8
    )
)
def test_what_is_certified_holds_on_the_decisions(rows: list[tuple[int, bool, int, int]]) -> None:
    frame = reviewed(*rows)
    found = certify(frame)
    assert certify(frame.reverse()) == found
    if found.threshold_milli is None:
        return
    kept = frame.filter(pl.col("score_milli") >= found.threshold_milli)
    assert (kept.height, kept.height - kept["right"].sum()) == (found.reviewed, found.wrong)
    assert found.bound_ppm == lower_bound_ppm(kept.height - found.wrong, kept.height) >= PRECISION_PPM_MIN


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 50)), min_size=1, max_size=20))
def test_a_higher_score_was_never_right_less_often(counts: list[tuple[int, int]]) -> None:
    scores = [(at, count + right, right) for at, (count, right) in enumerate(counts)]
    curve = curve_of(scores)
    assert curve[0][0] == 0
    assert [*curve] == sorted(curve)
    shares = [ppm for _, ppm in curve]
    assert shares == sorted(shares)
    whole = sum(right for _, _, right in scores) * 1_000_000 // sum(count for _, count, _ in scores)
    assert shares[0] <= whole <= shares[-1]


def test_scores_that_were_right_as_often_are_one_step() -> None:
    assert curve_of([(1_000, 4, 2), (2_000, 8, 4), (3_000, 4, 3)]) == ((1_000, 500_000), (3_000, 750_000))


NOTHING = {
    "reference_level": ReferenceLevel.UNKNOWN,
    "end_to_end_level": EndToEndLevel.UNKNOWN,
    "account_level": PartyLevel.UNKNOWN,
    "name_level": NameLevel.UNKNOWN,
    "amount_level": AmountLevel.EQUAL,
    "date_level": DateLevel.CLOSE,
}


@pytest.mark.parametrize(
    ("said", "text", "proof"),
    [
        ({}, False, False),
        ({"reference_level": ReferenceLevel.ABSENT}, False, False),
        ({"reference_level": ReferenceLevel.COMMON}, True, False),
        ({"reference_level": ReferenceLevel.NEAR}, True, False),
        ({"reference_level": ReferenceLevel.PARTIAL}, True, False),
        ({"reference_level": ReferenceLevel.FULL}, True, True),
        ({"end_to_end_level": EndToEndLevel.DIFFERENT}, False, False),
        ({"end_to_end_level": EndToEndLevel.EQUAL}, True, True),
        ({"end_to_end_level": EndToEndLevel.PARTIAL}, True, False),
        ({"account_level": PartyLevel.DIFFERENT}, False, False),
        ({"account_level": PartyLevel.EQUAL}, True, False),
        ({"name_level": NameLevel.DIFFERENT}, False, False),
        ({"name_level": NameLevel.EQUAL}, True, False),
        ({"name_level": NameLevel.SIMILAR}, True, False),
    ],
)
def test_what_speaks_for_a_pair_is_a_text_and_who_pays_at_another_time_has_to_prove_it(
    said: dict[str, IntEnum], *, text: bool, proof: bool
) -> None:
    def tells(*, unique: bool = True, **changed: IntEnum) -> tuple[bool, bool]:
        levels = pl.DataFrame({name: [level.value] for name, level in {**NOTHING, **said, **changed}.items()})
        [told] = levels.select(acceptable(pl.lit(unique)).alias("ok"), proved().alias("proof")).rows()
        return told

    assert tells() == (text, proof)
    assert tells(unique=False) == (False, proof)
    for level in AmountLevel:
        whole = level.name in {"EQUAL", "TOLERANCE", "BAND", "TERM"}
        assert tells(amount_level=level) == (text and whole, proof)
    for day in DateLevel:
        timely = day.name in {"UNKNOWN", "NEAR", "CLOSE"}
        assert tells(date_level=day) == (text and (timely or proof), proof)


def test_a_score_that_is_just_the_threshold_is_certified() -> None:
    score = similar(RULES).proposals.matches["score_milli"].item()
    at, above = (replace(RULES, calibration=replace(CERTIFIED, threshold_milli=score + more)) for more in (0, 1))
    assert similar(at).pairs["e", "i"].auto
    assert not similar(above).pairs["e", "i"].auto


def test_a_certified_score_with_text_evidence_needs_no_person() -> None:
    pair = similar(RULES).pairs["e", "i"]
    assert (pair.confidence, pair.status, pair.auto) == (Confidence.HIGH, Uniqueness.UNIQUE, True)
    assert similar(RULES).proposals.engine_version.endswith("+7")


@pytest.mark.parametrize(
    "rules",
    [
        replace(RULES, calibration=None),
        replace(RULES, calibration=replace(CERTIFIED, threshold_milli=None)),
        replace(RULES, calibration=replace(CERTIFIED, threshold_milli=3_000)),
        replace(RULES, auto_accept_min_confidence="exact"),
        replace(RULES, auto_accept=False),
    ],
)
def test_without_a_certified_score_a_person_decides(rules: MatchingRules) -> None:
    assert not similar(rules).pairs["e", "i"].auto


@pytest.mark.parametrize("changes", [{"day": 20_640}, {"day": 20_580}, {"pending": True}, {"name": None}])
def test_no_score_makes_up_for_a_far_day_a_pending_line_or_a_missing_text(changes: dict[str, object]) -> None:
    lowest = replace(RULES, calibration=replace(CERTIFIED, threshold_milli=-90_000))
    assert similar(lowest).pairs["e", "i"].auto
    assert not any(pair.auto for pair in similar(lowest, **changes).pairs.values())  # type: ignore[arg-type]


def test_no_score_makes_up_for_another_item_of_the_payer() -> None:
    lowest = replace(RULES, calibration=replace(CERTIFIED, threshold_milli=-90_000))
    items = [Item("e", name=FULL), Item("other", name=FULL, due=20_500)]
    pair = run(items, [Line("i", name=WRITTEN)], lowest).pairs["e", "i"]
    assert (pair.status, pair.auto) == (Uniqueness.CONTESTED, False)


def test_one_in_a_hundred_that_rest_on_a_calibration_waits_for_a_person() -> None:
    count = 3_000
    items = [Item(f"e{at}", iban=f"DE{at}", amount=100 + at) for at in range(count)]
    lines = [Line(f"i{at}", iban=f"DE{at}", amount=100 + at) for at in range(count)]
    drawn = run(items, lines, RULES).proposals.matches
    assert 10 <= drawn["sampled"].sum() <= 60
    assert drawn.filter("sampled", "auto").is_empty()
    assert drawn.filter(~pl.col("sampled"))["auto"].all()
    # Drawn of the content: the same ones in another order.
    again = run(items[::-1], lines[::-1], RULES).proposals.matches
    assert again.filter("sampled")["amount_minor"].to_list() == drawn.filter("sampled")["amount_minor"].to_list()
    # By both sides: another item of the same line draws a lot of its own, and so does another line.
    others = ([replace(item, id=f"other-{item.id}") for item in items], lines)
    for twisted in (others, (items, [replace(line, id=f"other-{line.id}") for line in lines])):
        sampled = run(*twisted, RULES).proposals.matches.filter("sampled")["amount_minor"].to_list()
        assert sampled != drawn.filter("sampled")["amount_minor"].to_list()
    without = replace(RULES, calibration=None)
    assert not run(items, lines, without).proposals.matches["sampled"].any()


def test_what_is_proved_never_waits() -> None:
    count = 500
    items = [Item(f"e{at}", reference=f"INV-{10_000 + at}") for at in range(count)]
    lines = [Line(f"i{at}", text=f"INV-{10_000 + at}") for at in range(count)]
    matches = run(items, lines, RULES).proposals.matches
    assert matches["auto"].all()
    assert not matches["sampled"].any()
