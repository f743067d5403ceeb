"""Terms of payment: what one of them asks for in time settles the item, as a discount, and nothing else does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from payrec.domain.matching.rules import AdjustmentType, AmountLevel, Confidence, MatchingRules, Uniqueness
from support.matching_frames import Item, Line, only, run, sure

TERMS = ((9_600, 20_590), (9_800, 20_600))
ITEM = Item("a", reference="INV-0001", name="Bolt", due=20_610, terms=TERMS)
QUOTING = Line("x", text="INV-0001")
OF_PAYER = Line("x", name="Bolt")


@pytest.mark.parametrize("line", [QUOTING, OF_PAYER])
@pytest.mark.parametrize(("amount", "day"), [(9_600, 20_590), (9_800, 20_600), (9_800, 20_585)])
def test_what_a_term_asks_for_in_time_settles_the_item(line: Line, amount: int, day: int) -> None:
    found = run([ITEM], [replace(line, amount=amount, day=day)], MatchingRules(auto_accept=True))
    match = only(found)
    assert dict(match.levels)["amount"] == AmountLevel.TERM
    assert found.adjustments([ITEM]) == {"a": (AdjustmentType.DISCOUNT, 10_000 - amount)}
    assert (match.status, match.auto) == (Uniqueness.UNIQUE, line is QUOTING)
    if line is QUOTING:
        assert sure(match) == (Confidence.EXACT, Uniqueness.UNIQUE, True)


@pytest.mark.parametrize(
    ("amount", "day"), [(9_600, 20_591), (9_800, 20_601), (9_799, 20_590), (9_801, 20_590), (9_800, None)]
)
def test_nothing_else_is_a_discount(amount: int, day: int | None) -> None:
    found = run([ITEM], [replace(QUOTING, amount=amount, day=day)])
    assert AdjustmentType.DISCOUNT not in {kind for kind, _ in found.adjustments([ITEM]).values()}
    assert not only(found).auto


@pytest.mark.parametrize(
    ("amount", "tolerance", "accepted"),
    [(9_799, 5, True), (9_801, 5, True), (9_795, 500, True), (9_794, 5, False), (9_798, 1, False), (9_799, 0, False)],
)
def test_a_discount_may_be_rounded_by_what_is_tolerated(amount: int, tolerance: int, *, accepted: bool) -> None:
    rules = MatchingRules(auto_accept=True, amount_tolerance_minor=tolerance)
    found = run([ITEM], [replace(QUOTING, amount=amount, day=20_600)], rules)
    kind = AdjustmentType.DISCOUNT if accepted else AdjustmentType.FEE
    assert (only(found).auto, found.adjustments([ITEM])) == (accepted, {"a": (kind, 10_000 - amount)})
    late = run([ITEM], [replace(QUOTING, amount=amount, day=20_601)], rules)
    assert AdjustmentType.DISCOUNT not in {kind for kind, _ in late.adjustments([ITEM]).values()}


@pytest.mark.parametrize(
    ("item", "line"),
    [(replace(ITEM, total=12_000), QUOTING), (ITEM, replace(QUOTING, total=20_000))],
)
def test_a_term_is_about_the_whole_item_and_the_whole_payment(item: Item, line: Line) -> None:
    found = run([item], [replace(line, amount=9_800, day=20_600)])
    assert AdjustmentType.DISCOUNT not in {kind for kind, _ in found.adjustments([item]).values()}


def test_a_small_discount_is_no_rounding() -> None:
    item = replace(ITEM, terms=((9_998, 20_600),))
    assert run([item], [replace(QUOTING, amount=9_998)]).adjustments([item]) == {"a": (AdjustmentType.DISCOUNT, 2)}
