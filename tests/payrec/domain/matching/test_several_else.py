"""Differences that are tolerated, and that several other things of the counterparty are together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from payrec.domain.matching.rules import SUBSET_MEMBERS_MAX, LineLevel, MatchingRules
from support.matching_frames import Item, Line, run

RULES = MatchingRules(
    auto_accept=True, auto_accept_min_confidence="high", amount_tolerance_minor=500, fee_tolerance_minor=500
)
MINE = Item("mine", 10_000, reference="INV-2026-0099", name="Bolt Works")
MORE = Line("x", 10_350, text="INV-2026-0099", name="Bolt Works")


def small(*amounts: int, **changes: object) -> list[Item]:
    items = [Item(f"{at}", amount, name="Bolt Works", tie=f"{at}") for at, amount in enumerate(amounts)]
    return [replace(item, **changes) for item in items]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "others", "accepted"),
    [
        pytest.param(MORE, small(200, 150), False, id="two that are paid as well"),
        pytest.param(MORE, small(200, 100, 50, 330), False, id="three of four"),
        pytest.param(replace(MORE, text="thanks"), small(200, 150), False, id="of who quotes nothing"),
        pytest.param(MORE, small(200, 149), True, id="two that are not the difference"),
        pytest.param(MORE, small(200, 150, name="Ada Lovelace"), True, id="two of somebody else"),
        pytest.param(MORE, small(200, 150, currency="USD"), True, id="two in another currency"),
        pytest.param(replace(MORE, amount=9_650), small(200, 150), True, id="two items are not missing"),
        pytest.param(MORE, small(*[1] * (SUBSET_MEMBERS_MAX + 1)), False, id="so many that any may be it"),
        pytest.param(MORE, small(*[1] * SUBSET_MEMBERS_MAX), True, id="as many as can be tried"),
    ],
)
def test_what_is_too_much_may_be_for_several_others(line: Line, others: list[Item], *, accepted: bool) -> None:
    result = run([MINE, *others], [line], RULES)
    [match] = [match for match in result.matches if match.ends == (frozenset({"mine"}), frozenset({"x"}))]
    told = LineLevel.BOOKED if accepted else LineLevel.DIFFERS_BY_OTHER
    assert (match.auto, dict(match.levels)["line"]) == (accepted, told)


def test_what_is_missing_may_be_the_parts_of_several_others() -> None:
    rest = [Line(f"{at}", amount, text="rest", name="Bolt Works") for at, amount in enumerate((200, 150))]
    line = replace(MORE, amount=9_650)
    assert [match.auto for match in run([MINE], [line], RULES).matches] == [True]
    assert not any(match.auto for match in run([MINE], [line, *rest], RULES).matches)
