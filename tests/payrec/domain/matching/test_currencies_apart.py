"""Without a rate between them, currencies do not touch each other: a run over all of them decides as one over each.

So who is too big for one run may divide it by currency, with filters; decision 13 says what that leaves out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from payrec.domain.matching.rules import MatchingRules
from support.matching_frames import Item, Line, Outcome, Proposal, run
from support.matching_worlds import worlds

RULES = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")
Sides = tuple[list[Item], list[Line]]


def _in(currency: str, world: Sides) -> Sides:
    """Return a world in another currency, with ids of its own; names, references, amounts and days stay."""
    items, lines = world
    return (
        [replace(item, id=f"{currency} {item.id}", currency=currency) for item in items],
        [replace(line, id=f"{currency} {line.id}", currency=currency) for line in lines],
    )


def _joined(one: Outcome, other: Outcome) -> tuple[object, ...]:
    """Return what two runs decided and why, in whatever order."""
    return _decided(
        [*one.matches, *other.matches],
        {**one.items, **other.items},
        {**one.lines, **other.lines},
        [*one.alternatives, *other.alternatives],
    )


def _decided(
    matches: list[Proposal], items: Mapping[str, object], lines: Mapping[str, object], alternatives: list[Any]
) -> tuple[object, ...]:
    return {match.legs: match for match in matches}, dict(items), dict(lines), sorted(alternatives)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(one=worlds(most=4), other=st.one_of(st.none(), worlds(most=4)))
def test_a_run_over_two_currencies_decides_as_one_over_each(one: Sides, other: Sides | None) -> None:
    # None: the very same names, references and amounts once more.
    parts = [_in("EUR", one), _in("USD", other or one)]
    together = run([row for items, _ in parts for row in items], [row for _, lines in parts for row in lines], RULES)
    apart = [run(*part, RULES) for part in parts]
    event(f"{min(len(together.matches), 4)} proposals")
    assert _decided(together.matches, together.items, together.lines, together.alternatives) == _joined(*apart)
    settled = [outcome.proposals.adjustments.height for outcome in (together, *apart)]
    assert settled[0] == settled[1] + settled[2]
