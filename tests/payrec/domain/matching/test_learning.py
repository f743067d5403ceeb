"""What decisions teach, and that nothing but what they say has a part in it."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.matching.learning import (
    CORRECTION_MILLI_MAX,
    DECISIONS_MIN,
    DECISIONS_SCHEMA,
    learn,
)
from payrec.domain.matching.rules import (
    FEATURES,
    AmountLevel,
    DateLevel,
    LineLevel,
    MatchingRules,
    NameLevel,
    PartyLevel,
    Uniqueness,
)
from payrec.domain.matching.weights import WEIGHT_STEP, WEIGHTS, Calibration, correction_of, share_at, weights_of
from support.matching_frames import Item, Line, run

PAYER = {"amount": AmountLevel.EQUAL, "account": PartyLevel.EQUAL, "line": LineLevel.BOOKED}
SIMILAR = {"amount": AmountLevel.EQUAL, "name": NameLevel.SIMILAR, "line": LineLevel.BOOKED}


def decisions(*kinds: tuple[dict[str, Any], int, int], status: Uniqueness = Uniqueness.UNIQUE) -> pl.DataFrame:
    """Make decisions of the levels that say something, how many were right, and how many wrong."""
    rows = []
    for levels, right, wrong in kinds:
        for at in range(right + wrong):
            said = {f"{feature}_level": int(levels.get(feature, 0)) for feature in FEATURES}
            rows.append({**said, "status": status.value, "rival_milli": None, "right": at < right})
    dice = random.Random(7)  # noqa: S311 - data, not a secret
    for row in rows:
        row["fold_key"] = dice.getrandbits(63)
    return pl.DataFrame(rows, schema=dict(DECISIONS_SCHEMA))


def learned(*kinds: tuple[dict[str, Any], int, int], **changes: Any) -> Calibration:
    found = learn(decisions(*kinds, **changes), version=3)
    assert found is not None
    return found


NEAR, FAR = {**PAYER, "date": DateLevel.NEAR}, {**PAYER, "date": DateLevel.WITHIN}


def test_few_decisions_teach_nothing() -> None:
    assert learn(decisions((NEAR, DECISIONS_MIN - 1, 0)), version=1) is None
    assert learn(decisions((NEAR, DECISIONS_MIN, 0)), version=1) is not None
    assert learn(decisions(), version=1) is None


def test_what_only_content_could_decide_teaches_nothing() -> None:
    assert learn(decisions((NEAR, 500, 500), status=Uniqueness.AMBIGUOUS), version=1) is None


def test_evidence_of_what_was_rejected_weighs_less() -> None:
    found = learned((NEAR, 900, 5), (FAR, 100, 60))
    assert correction_of("date", DateLevel.WITHIN, found.corrections) < correction_of(
        "date", DateLevel.NEAR, found.corrections
    )
    assert found.version == 3
    near, far = (weights_of("date", found)[level] for level in (DateLevel.NEAR, DateLevel.WITHIN))
    assert near - far > WEIGHTS["date"][DateLevel.NEAR] - WEIGHTS["date"][DateLevel.WITHIN]
    assert correction_of("name", NameLevel.SIMILAR, found.corrections) == 0


def test_corrections_are_steps_within_bounds_and_leave_silence_alone() -> None:
    found = learned((NEAR, 5_000, 0), (FAR, 0, 5_000))
    for feature, levels in found.corrections.items():
        assert levels[0] == 0
        assert len(levels) == len(WEIGHTS[feature])
        assert all(milli % WEIGHT_STEP == 0 and abs(milli) <= CORRECTION_MILLI_MAX for milli in levels)
    assert correction_of("date", DateLevel.WITHIN, found.corrections) < 0


def test_a_threshold_is_certified_on_what_was_held_out() -> None:
    found = learned((NEAR, 2_600, 0), (SIMILAR, 400, 0))
    assert found.threshold_milli is not None
    assert (found.reviewed, found.wrong) == (3_000, 0)
    assert found.bound_ppm >= 999_000
    doubtful = learned((NEAR, 3_000, 0), (SIMILAR, 360, 40))
    assert doubtful.threshold_milli is not None
    assert doubtful.reviewed == 3_000
    assert learned((NEAR, 2_000, 0)).threshold_milli is None


def test_what_could_not_be_accepted_certifies_nothing() -> None:
    pending = {**NEAR, "line": LineLevel.PENDING}
    amount_only = {"amount": AmountLevel.EQUAL, "line": LineLevel.BOOKED, "date": DateLevel.NEAR}
    smaller = {**NEAR, "amount": AmountLevel.SMALLER}
    for levels in (pending, amount_only, smaller, FAR):
        found = learned((levels, 4_000, 0))
        assert (found.threshold_milli, found.reviewed) == (None, 0)
    assert learned((NEAR, 4_000, 0), status=Uniqueness.CONTESTED).threshold_milli is None


@settings(max_examples=25, deadline=None)
@given(dice=st.randoms(use_true_random=False))
def test_the_order_of_the_decisions_changes_nothing(dice: random.Random) -> None:
    frame = decisions((NEAR, 300, 2), (FAR, 40, 9), (SIMILAR, 80, 3))
    places = list(range(frame.height))
    dice.shuffle(places)
    assert learn(frame[places], version=1) == learn(frame, version=1)


def test_a_calibration_changes_scores_and_who_is_meant() -> None:
    items = [Item("late", iban="DE1", due=20_580), Item("soon", iban="DE1", due=20_603)]
    line = [Line("i", iban="DE1", day=20_600)]
    plain = run(items, line, MatchingRules()).pairs
    late = Calibration(version=1, corrections={"date": (0, 0, 0, 4_000, 0)})
    taught = run(items, line, replace(MatchingRules(), calibration=late)).pairs
    assert (list(plain), list(taught)) == ([("soon", "i")], [("late", "i")])


def test_the_curve_says_how_often_a_score_was_right() -> None:
    curve = ((1_000, 900_000), (4_000, 999_000))
    found = [share_at(curve, score) for score in (999, 1_000, 3_999, 4_000, 9_000)]
    assert found == [None, 900_000, 900_000, 999_000, 999_000]


@pytest.mark.parametrize("feature", list(WEIGHTS))
def test_without_a_calibration_the_weights_are_those_by_hand(feature: str) -> None:
    assert weights_of(feature) == WEIGHTS[feature]
    assert weights_of(feature, Calibration(version=1)) == WEIGHTS[feature]
