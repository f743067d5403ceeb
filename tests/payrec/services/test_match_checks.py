"""The checks of a stored match agree with the engine on whatever it proposes, and with trying all sets by hand."""

from __future__ import annotations

from itertools import combinations
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.matching.rules import (
    ENGINE_VERSION,
    FEATURES,
    AmountLevel,
    DateLevel,
    GroupLevel,
    MatchingRules,
    NameLevel,
)
from payrec.domain.matching.weights import PRIOR_WEIGHT
from payrec.services.match_checks import ENGINE_ACTOR_PREFIX, confidence, levels_of, score
from payrec.services.match_group_proof import HYPOTHESES, Beside, again, proof
from support.matching_frames import Item, Line, Proposal, run

REFERENCES = st.sampled_from([None, "INV-2026-1", "INV-2026-12", "INV-2026-2", "INV-2026-3", "RENT"])
AMOUNTS = st.sampled_from([1_000, 2_000, 3_000, 6_000])
NAMES = st.sampled_from([None, "Bolt GmbH", "Nut AG"])
GROUPS = st.sampled_from([None, None, "PO-2026-7"])
DAYS = st.sampled_from([None, 20_600, 20_610, 20_640])

ITEMS = st.lists(
    st.builds(Item, id=st.just(""), amount=AMOUNTS, reference=REFERENCES, name=NAMES, group=GROUPS, due=DAYS),
    min_size=1,
    max_size=5,
)
LINES = st.lists(
    st.builds(
        Line,
        id=st.just(""),
        amount=AMOUNTS,
        text=st.lists((REFERENCES | NAMES).filter(bool), max_size=3).map(" ".join),
        name=NAMES,
        ultimate=NAMES,
        group=GROUPS,
        pending=st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


def stored(match: Proposal) -> dict[str, Any]:
    """Return the columns of a proposal's row that say what it rests on."""
    engine = f"{ENGINE_ACTOR_PREFIX}{ENGINE_VERSION}"
    return {
        "levels": [number for _, number in match.levels],
        "legs": [
            {f"{side}_{name}": 1 for side in ("expected", "incoming") for name in ("id", "revision_now")}
            for _ in match.legs
        ],
        "score": match.score,
        "created_by": engine,
        "decided_by": engine if match.auto else None,
        "uniqueness": match.status.name.lower(),
        "confidence": match.confidence.name.lower(),
        "corrections": None,
        "threshold_milli": None,
        "candidates": match.tried + sum(match.rivals),
        "proof": {"sets": match.tried, "named": match.named, "bounds": {"groupSizeMax": 50, "searchedMax": 12}},
    }


@given(ITEMS, LINES, st.sampled_from([0, 1_000]), st.sampled_from(["exact", "high"]))
@settings(max_examples=150)
def test_whatever_the_engine_proposes_has_the_score_the_confidence_and_the_proof_that_are_computed_again(
    items: list[Item], lines: list[Line], tolerance: int, least: str
) -> None:
    items = [Item(**{**_fields(item), "id": f"e{at}"}) for at, item in enumerate(items)]
    lines = [Line(**{**_fields(line), "id": f"i{at}"}) for at, line in enumerate(lines)]
    rules = MatchingRules(auto_accept=True, auto_accept_min_confidence=least, amount_tolerance_minor=tolerance)

    for match in run(items, lines, rules).matches:
        row = stored(match)
        levels, readable = levels_of(row)
        checks = [readable, score(row, levels), confidence(row, levels)]
        group = GroupLevel(levels["group"])
        if group is not GroupLevel.UNKNOWN:
            checks.append(proof(row, group))
        assert [check.detail for check in checks if not check.holds] == []


@pytest.mark.parametrize(("chance", "holds"), [(10, True), (1_000, True), (1_001, False), (None, False)])
def test_equal_parts_are_accepted_only_where_chance_makes_no_such_sum(chance: int | None, *, holds: bool) -> None:
    iban = "DE89370400440532013000"
    lines = [Line(f"x{at}", amount=50_003 + at, iban=iban, day=20_600 + 12 * at) for at in range(2)]
    [match] = run(
        [Item("e", amount=100_007, iban=iban)],
        lines,
        MatchingRules(auto_accept=True, auto_accept_min_confidence="high"),
    ).matches
    assert match.auto
    row = stored(match)
    row["proof"]["coincidencesPpm"] = chance
    levels, _ = levels_of(row)
    assert confidence(row, levels).holds == holds
    assert proof(row, GroupLevel.BY_EQUAL_PARTS).holds


def _fields(row: Item | Line) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__dataclass_fields__}


@given(st.lists(st.integers(1, 30), min_size=3, max_size=7), st.data())
def test_a_set_holds_again_when_no_other_has_its_sum(amounts: list[int], data: st.DataObject) -> None:
    ids = [UUID(int=at) for at in range(len(amounts))]
    members = data.draw(st.sets(st.sampled_from(range(len(amounts))), min_size=2, max_size=len(amounts) - 1))
    target = sum(amounts[at] for at in members)
    row = {
        "kind": "one_to_many",
        "legs": [
            {"expected_id": ids[at], "incoming_id": UUID(int=99), "incoming_contra": False, "amount_minor": amounts[at]}
            for at in sorted(members)
        ],
        "proof": {"sets": 2 ** len(amounts)},
    }
    beside = Beside(open_minor=dict(zip(ids, amounts, strict=True)), since=0)

    found = again(row, GroupLevel.BY_SOME_REFERENCES, beside)

    ways = [
        chosen
        for size in range(1, len(amounts) + 1)
        for chosen in combinations([a for a in amounts if a < target], size)
        if sum(chosen) == target
    ]
    few = sum(a < target for a in amounts)
    assert found.holds == (len(ways) == 1 or few > len(amounts))


@pytest.mark.parametrize(("threshold", "may"), [(None, False), (9_001, False), (9_000, True), (1, True)])
def test_only_a_score_that_its_calibration_has_certified_may_be_high(threshold: int | None, *, may: bool) -> None:
    levels = {feature: kind(0) for feature, kind in FEATURES.items()}
    levels |= {"amount": AmountLevel.EQUAL, "name": NameLevel.SIMILAR, "date": DateLevel.NEAR}
    row = {"score": 9_000, "threshold_milli": threshold, "uniqueness": "unique", "decided_by": None}
    held = [confidence({**row, "confidence": said}, levels).holds for said in ("medium", "high")]
    assert held == [True, may]


@pytest.mark.parametrize("levels", [None, []])
def test_a_match_without_levels_is_silent_on_everything(levels: list[int] | None) -> None:
    row = {
        "levels": levels,
        "legs": [],
        "uniqueness": "unique",
        "confidence": "low",
        "score": PRIOR_WEIGHT,
        "corrections": None,
        "threshold_milli": None,
    }

    found, readable = levels_of(row)

    assert set(found.values()) == {0}
    assert readable.detail == "it joins nothing"
    assert score({**row, "created_by": "engine:3"}, found).holds


def test_every_group_that_somebody_named_has_a_hypothesis() -> None:
    assert {level for level in GroupLevel if level.proves} <= HYPOTHESES.keys()
