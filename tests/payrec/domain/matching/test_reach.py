"""A run over what its lines may reach says of it what a run over everything says."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from payrec.domain.matching import block, reach
from payrec.domain.matching.block import BeyondBudgetError
from payrec.domain.matching.columns import Known
from payrec.domain.matching.engine import propose
from payrec.domain.matching.line_rules import Required
from payrec.domain.matching.names import normalised, resolved
from payrec.domain.matching.reach import TooFarError, reached
from payrec.domain.matching.rules import KEY_ITEMS_MAX, GroupLevel, MatchingRules, MatchKind, Reason
from support.matching_frames import (
    Advice,
    Item,
    Line,
    Outcome,
    advices_frame,
    incoming_frame,
    level,
    names_frame,
    run,
    told,
)
from support.matching_ledgers import crowds, ledgers
from support.matching_worlds import worlds
from support.reached_items import answer, with_ids

PROPERTY = settings(deadline=None, max_examples=20)
RULES = (
    MatchingRules(auto_accept=True, auto_accept_min_confidence="high"),
    MatchingRules(amount_tolerance_minor=50, required=Required.REFERENCE),
    MatchingRules(amount_tolerance_basis_points=100, auto_accept=True),
)


def reach_of(
    items: pl.DataFrame,
    lines: pl.DataFrame,
    names: pl.DataFrame,
    undecided: Sequence[int] = (),
    listed: pl.Series | None = None,
    *,
    named: bool,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the items that are reached, and whom the names of the lines mean."""
    similar = resolved(items["name_key"], lines["name_key"], names)
    seeds = items.filter(pl.col("ordinal").is_in(list(undecided))) if undecided else None
    asking = reached(lines, similar, seeds, names if named else None, listed)
    wanted = next(asking)
    while True:
        try:
            wanted = asking.send(answer(items, wanted))
        except StopIteration as done:
            return done.value, similar


def run_reached(
    items: Sequence[Item],
    lines: Sequence[Line],
    rules: MatchingRules,
    undecided: Sequence[int] = (),
    advices: Sequence[Advice] = (),
    *,
    named: bool,
) -> tuple[Outcome, set[str]]:
    expected, incoming = with_ids(items), incoming_frame(lines)
    names = normalised(names_frame([*items, *lines]))
    said = advices_frame(advices)
    found, similar = reach_of(expected, incoming, names, undecided, said["reference_key"], named=named)
    own = expected["own_account_key"].drop_nulls()
    known = Known(
        names=names,
        similar=similar,
        own_accounts=own.filter(own.is_in(incoming["account_key"].drop_nulls().implode())).unique(),
    )
    result = propose(found.drop("transaction_id"), incoming, rules, advices=said, known=known)
    return told(result, items, lines), {items[at].id for at in found["ordinal"]}


def assert_alike(part: Outcome, whole: Outcome, here: set[str]) -> None:
    """Of what was not reached, only that no line shares anything with it is said, or that it settles a credit note."""
    assert part.matches == [
        m
        for m in whole.matches
        if m.kind is not MatchKind.CREDIT_NOTE or {e for leg in m.legs for e in leg[:2]} <= here
    ]
    apart = {e for m in whole.matches if m.kind is MatchKind.CREDIT_NOTE for leg in m.legs for e in leg[:2]} - here
    assert part.lines == whole.lines
    assert part.alternatives == whole.alternatives
    assert part.items == {e: said for e, said in whole.items.items() if e in here}
    beyond = {e: said for e, said in whole.items.items() if e not in here}
    assert {said[0] for said in beyond.values()} <= {Reason.NO_CANDIDATE}
    assert not apart & set(whole.items)


@PROPERTY
@given(drawn=ledgers(), rules=st.sampled_from(RULES), named=st.sampled_from(["named", ""]), data=st.data())
def test_what_is_not_reached_changes_nothing(
    drawn: tuple[list[Item], list[Line]], rules: MatchingRules, named: str, data: st.DataObject
) -> None:
    items, lines = drawn
    undecided = data.draw(st.lists(st.integers(0, len(items) - 1), max_size=3, unique=True)) if items else []
    part, here = run_reached(items, lines, rules, undecided, named=bool(named))
    whole = run(items, lines, rules)
    event(f"proposed: {bool(part.matches)}")
    event(f"reached: {len(here) < len(items)}")

    assert_alike(part, whole, here)


@PROPERTY
@given(drawn=ledgers(), data=st.data())
def test_what_is_listed_is_reached(drawn: tuple[list[Item], list[Line]], data: st.DataObject) -> None:
    items, lines = drawn
    references = [item.reference for item in items if item.reference is not None]
    advices = []
    for line in lines[:3] if references else []:
        wanted = data.draw(st.lists(st.sampled_from(references), min_size=1, max_size=3, unique=True))
        amounts = {item.reference: item.amount for item in items}
        paid = [amounts[reference] for reference in wanted[:-1]]
        paid.append(max(line.amount - sum(paid), 1))
        parts = tuple((reference, minor, 0) for reference, minor in zip(wanted, paid, strict=True))
        advices.append(Advice(parts, name=line.name, currency=line.currency))
    part, here = run_reached(items, lines, RULES[0], advices=advices, named=True)
    whole = run(items, lines, RULES[0], advices=advices)
    event(f"listed: {any(level(match) is GroupLevel.BY_ADVICE for match in whole.matches)}")

    assert_alike(part, whole, here)


@PROPERTY
@given(drawn=crowds(), rules=st.sampled_from(RULES))
def test_what_hides_in_a_crowd_changes_nothing(drawn: tuple[list[Item], list[Line]], rules: MatchingRules) -> None:
    items, lines = drawn
    part, here = run_reached(items, lines, rules, named=True)
    event(f"reached: {len(here) < len(items)}")

    assert_alike(part, run(items, lines, rules), here)


@PROPERTY
@given(drawn=worlds(), kept=st.integers(1, 4), rules=st.sampled_from(RULES), named=st.sampled_from(["named", ""]))
def test_nothing_changes_where_few_lines_of_many_stories_come(
    drawn: tuple[list[Item], list[Line]], kept: int, rules: MatchingRules, named: str
) -> None:
    items, lines = drawn
    part, here = run_reached(items, lines[:kept], rules, named=bool(named))

    assert_alike(part, run(items, lines[:kept], rules), here)


ITEMS = [
    Item("quoted", amount=1_000, reference="INV-70001", iban="DE1"),
    Item("of its payer", amount=2_500, iban="DE1", name="Zangra Handel"),
    Item("of its payer's name", amount=2_600, name="Zangra Handel"),
    Item("of the amount", amount=700, name="Quentlin Maschinenbau"),
    Item("beside that", amount=900, name="Quentlin Maschinenbau"),
    Item("of the amount in dollars", amount=700, currency="USD"),
    Item("credited", amount=5_000, reference="INV-80001", iban="DE1", name="Obrist Feinmechanik"),
    Item("its credit note", amount=500, direction=-1, group="INV-80001", name="Obrist Feinmechanik"),
    Item("another one", amount=400, direction=-1, group="INV-80001", iban="DE9"),
    Item("apart", amount=77, name="Somebody"),
]


def test_what_a_line_may_mean_is_reached_and_what_belongs_to_it() -> None:
    _, here = run_reached(ITEMS, [Line("x", amount=700, text="INV-70001")], MatchingRules(), named=True)

    assert here == {item.id for item in ITEMS} - {"beside that", "of the amount in dollars", "apart"}


def test_what_belongs_to_an_item_of_the_payer_is_reached() -> None:
    items = [
        Item("by account", amount=10_003, due=20_600, iban="DE1", name="Zangra Handel"),
        Item("by name", amount=25_019, due=20_601, name="Zangra Handel"),
        *(Item(f"of others {at}", amount=31_337 + at, iban="DE9") for at in range(6)),
    ]
    lines = [Line("x", amount=35_022, day=20_605, iban="DE1")]
    part, here = run_reached(items, lines, MatchingRules(), named=True)

    assert here == {"by account", "by name"}
    [group] = part.groups
    assert group.ends == (frozenset(here), frozenset({"x"}))
    assert_alike(part, run(items, lines, MatchingRules()), here)


def test_of_a_common_amount_come_those_whose_name_says_more() -> None:
    crowd = [Item(f"e{at}", amount=999, name=f"Payer{at} Nobody", iban=f"DE{at}") for at in range(40)]
    items = [*crowd, Item("named", amount=999, name="Zangra Nord"), Item("beside", amount=999, name="Nord Zangra")]
    _, here = run_reached(items, [Line("x", amount=999, name="Zangra Sued")], MatchingRules(), named=True)

    assert {"named", "beside"} <= here
    assert len(here) == KEY_ITEMS_MAX + 1 + 2


def test_who_leads_on_and_on_is_given_up() -> None:
    items = [
        Item(f"e{at}", amount=100 + at, iban=f"DE{at // 2}", name=f"Payer {(at + 1) // 2}")
        for at in range(2 * reach.LOOK_UPS_MAX + 10)
    ]
    with pytest.raises(TooFarError):
        run_reached(items, [Line("x", amount=5, iban="DE0")], MatchingRules(), named=True)


def test_a_part_that_goes_beyond_a_budget_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [Item(f"e{at}", iban="DE1", reference=f"INV-7000{at}") for at in range(4)]
    lines = [Line(f"x{at}", iban="DE1") for at in range(4)]
    monkeypatch.setattr(block, "PAIRS_MIN", 1)

    assert run(items, lines).matches == []
    with pytest.raises(BeyondBudgetError):
        run_reached(items, lines, MatchingRules(), named=True)
