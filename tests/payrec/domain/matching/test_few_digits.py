"""Numbers of few digits that somebody else quotes: a postal code or a day is as long as an order's number."""

from __future__ import annotations

from dataclasses import replace

import pytest

from payrec.domain.matching.rules import Confidence, LineLevel, MatchingRules, Uniqueness
from support.matching_frames import Item, Line, run

RULES = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")
ORDER = Item("order", 4_900, reference="#10482", name="Ada Lovelace")
OTHERS = Line("x", 4_900, text="Main street 5, 10482 Springfield", name="Bolt Works")


@pytest.mark.parametrize(
    ("item", "line"),
    [
        pytest.param(ORDER, OTHERS, id="a postal code"),
        pytest.param(replace(ORDER, reference="101126"), replace(OTHERS, text="of 101126"), id="a day"),
        pytest.param(replace(ORDER, reference="2026-05"), replace(OTHERS, text="2026-05"), id="a month"),
        pytest.param(replace(ORDER, reference="01067"), replace(OTHERS, text="01067 Dresden"), id="a nought in front"),
        pytest.param(
            replace(ORDER, iban="DE89370400440532013000"),
            replace(OTHERS, name=None, iban="DE02120300000000202051"),
            id="nothing but the account is another one",
        ),
    ],
)
def test_a_number_of_few_digits_proves_nothing_of_somebody_else(item: Item, line: Line) -> None:
    [match] = run([item], [line], RULES).matches
    assert (match.confidence, match.status, match.auto) == (Confidence.MEDIUM, Uniqueness.CONTESTED, False)
    assert dict(match.levels)["line"] == LineLevel.OF_ANOTHER


@pytest.mark.parametrize(
    ("item", "line"),
    [
        pytest.param(ORDER, replace(OTHERS, name="LOVELACE ADA"), id="of the payer himself"),
        pytest.param(ORDER, replace(OTHERS, name=None), id="of nobody who is named"),
        pytest.param(replace(ORDER, reference="1048223"), replace(OTHERS, text="1048223"), id="of more digits"),
        pytest.param(replace(ORDER, reference="RE-10482"), replace(OTHERS, text="RE 10482"), id="with letters"),
        pytest.param(
            replace(ORDER, end_to_end_id="10482"), replace(OTHERS, end_to_end_id="10482"), id="as the end-to-end id"
        ),
    ],
)
def test_it_does_where_nothing_speaks_against_it(item: Item, line: Line) -> None:
    [match] = run([item], [line], RULES).matches
    assert (match.confidence, match.auto) == (Confidence.EXACT, True)
