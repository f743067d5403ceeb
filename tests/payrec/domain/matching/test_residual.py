from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.matching.line_rules import Required
from payrec.domain.matching.rules import (
    KEY_ITEMS_MAX,
    RESIDUAL_CANDIDATES_MAX,
    AmountLevel,
    Confidence,
    MatchingRules,
    Reason,
    Uniqueness,
)
from support.matching_frames import Item, Line, run

AUTO_HIGH = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")
ITEM = Item("e", iban="DE1", name="Alpha")
LINE = Line("i", iban="DE1", name="Alpha")


@pytest.mark.parametrize(
    ("amount", "level"),
    [
        (9_998, AmountLevel.SMALLER),
        (10_005, AmountLevel.LARGER),
        (9_700, AmountLevel.SMALLER),
        (6_000, AmountLevel.SMALLER),
        (12_000, AmountLevel.LARGER),
    ],
)
def test_a_near_amount_of_the_counterparty_is_proposed_and_the_difference_stays_open(
    amount: int, level: AmountLevel
) -> None:
    outcome = run([ITEM], [replace(LINE, amount=amount)], AUTO_HIGH)
    pair = outcome.pairs["e", "i"]
    assert (pair.confidence, pair.status, pair.auto) == (Confidence.MEDIUM, Uniqueness.UNIQUE, False)
    assert (pair.amount, pair.difference) == (min(amount, 10_000), amount - 10_000)
    assert outcome.levels("e", "i")["amount"] == level


@pytest.mark.parametrize("amount", [5_999, 12_001, 1])
def test_a_far_amount_is_a_mismatch(amount: int) -> None:
    assert run([ITEM], [replace(LINE, amount=amount)]).lines["i"][0] is Reason.AMOUNT_MISMATCH


def test_the_nearest_way_of_differing_is_meant() -> None:
    items = [replace(ITEM, id="rounded", amount=9_753), replace(ITEM, id="fee", amount=9_950), ITEM]
    assert list(run(items, [replace(LINE, amount=9_750)]).pairs) == [("rounded", "i")]
    assert list(run(items[2:], [replace(LINE, amount=9_750)]).pairs) == [("e", "i")]


def test_two_that_come_as_near_are_proposed_neither() -> None:
    items = [ITEM, replace(ITEM, id="f", amount=10_010)]
    assert not run(items, [replace(LINE, amount=9_900)]).pairs
    lines = [replace(LINE, amount=9_900), replace(LINE, id="j", amount=9_890)]
    assert not run([ITEM], lines).pairs


def test_a_line_with_an_item_of_equal_amount_is_never_given_another() -> None:
    items = [ITEM, Item("equal", amount=9_900, name="Alpha", due=20_620)]
    assert list(run(items, [replace(LINE, amount=9_900)]).pairs) == [("equal", "i")]
    strangers = [replace(ITEM, id=f"s{at}", iban=None, name=None, amount=9_900) for at in range(4)]
    assert not run([ITEM, *strangers], [Line("i", iban="DE1", amount=9_900)]).pairs


def test_a_number_that_is_no_items_does_not_speak_against_a_near_amount() -> None:
    [match] = run([ITEM], [replace(LINE, amount=9_700, text="Customer 84711, INV-99999")]).matches
    assert (match.confidence, match.auto) == (Confidence.MEDIUM, False)


@pytest.mark.parametrize(
    "line",
    [
        replace(LINE, iban="DE2"),
        replace(LINE, name="Beta"),
        replace(LINE, iban=None, name=None),
        replace(LINE, day=20_620),
        replace(LINE, reversal=True),
        replace(LINE, duplicate=True),
    ],
)
def test_what_speaks_against_it_leaves_it_open(line: Line) -> None:
    assert not run([ITEM], [replace(line, amount=9_700)]).pairs


def test_a_rounded_amount_may_come_late_and_an_item_with_limits_is_left_to_them() -> None:
    assert run([ITEM], [replace(LINE, amount=9_999, day=20_620)]).pairs
    assert not run([replace(ITEM, band=(9_900, None))], [replace(LINE, amount=9_800)]).pairs


def test_a_partial_reference_speaks_for_a_near_amount() -> None:
    item, line = Item("e", reference="4711"), Line("i", structured="4711", amount=9_700)
    pair = run([item], [line], AUTO_HIGH).pairs["e", "i"]
    assert (pair.confidence, pair.auto) == (Confidence.MEDIUM, False)
    strict = replace(AUTO_HIGH, required=Required.REFERENCE)
    assert run([item], [line], strict).pairs
    assert not run([ITEM], [replace(LINE, amount=9_700)], strict).pairs
    assert not run([replace(item, name="Alpha")], [replace(line, name="Beta")]).pairs


@pytest.mark.parametrize(
    ("item", "line"),
    [
        ({"end_to_end_id": "4711"}, {"end_to_end_id": "4711"}),
        ({"end_to_end_id": "4711"}, {"text": "4711"}),
        ({"reference": "4711"}, {"end_to_end_id": "4711"}),
    ],
)
def test_so_does_an_id_that_is_too_short_to_prove(item: dict[str, str], line: dict[str, str]) -> None:
    near = Line("i", amount=9_700, **line)  # type: ignore[arg-type]
    assert run([Item("e", **item)], [near]).pairs  # type: ignore[arg-type]
    assert not run([Item("e")], [near]).pairs
    assert not run([Item("e", **item)], [replace(near, duplicate=True)]).pairs  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [1, RESIDUAL_CANDIDATES_MAX, RESIDUAL_CANDIDATES_MAX + 1])
def test_of_an_amount_alone_few_are_proposed_from_and_more_are_not(count: int) -> None:
    many_items = run([Item(f"e{at}") for at in range(count)], [Line("i")])
    many_lines = run([Item("e")], [Line(f"i{at}") for at in range(count)])
    for outcome, others, rivals in (
        (many_items, many_items.items, (count - 1, 0)),
        (many_lines, many_lines.lines, (0, count - 1)),
    ):
        if count > RESIDUAL_CANDIDATES_MAX:
            assert not outcome.matches
        else:
            [match] = outcome.matches
            assert (match.confidence, match.rivals, match.auto) == (Confidence.LOW, rivals, False)
            assert match.status is (Uniqueness.UNIQUE if count == 1 else Uniqueness.AMBIGUOUS)
        assert {reason for reason, *_ in others.values()} <= {Reason.AMBIGUOUS}
        assert len(others) == count - len(outcome.matches)


def test_a_rejected_pair_is_not_proposed_by_its_near_amount() -> None:
    assert not run([ITEM], [replace(LINE, amount=9_700)], rejected=[("e", "i")]).pairs


@pytest.mark.parametrize(("currency", "meant"), [("JPY", set()), ("EUR", {"near"}), ("KWD", set())])
def test_what_a_bank_keeps_is_in_units_of_the_currency(currency: str, meant: set[str]) -> None:
    near, far = replace(ITEM, id="near", amount=30_000), replace(ITEM, id="far", amount=30_900)
    items = [replace(item, currency=currency) for item in (near, far)]
    outcome = run(items, [replace(LINE, currency=currency, amount=28_000)])
    assert {item for item, _ in outcome.pairs} == meant


def test_a_party_with_very_many_items_is_not_searched() -> None:
    items = [replace(ITEM, id=f"e{at}", amount=10_000 + 1_000_000 * at) for at in range(KEY_ITEMS_MAX + 1)]
    assert not run(items, [replace(LINE, amount=9_900)]).pairs
    assert run(items[:KEY_ITEMS_MAX], [replace(LINE, amount=9_900)]).pairs


AMOUNTS = st.integers(9_000, 11_000) | st.integers(1, 30_000)


@pytest.mark.parametrize(
    ("currency", "asked", "paid", "is_rounded"),
    [
        ("EUR", 12_345, 12_348, True),
        ("EUR", 12_345, 12_340, True),
        ("EUR", 12_345, 12_300, True),  # to the whole unit
        ("EUR", 12_399, 12_401, True),
        ("EUR", 12_345, 12_351, False),
        ("EUR", 12_345, 12_145, False),  # a fee
        ("JPY", 12_345, 12_349, True),
        ("JPY", 12_345, 12_351, False),
        ("KWD", 123_450, 123_000, True),
        ("KWD", 123_450, 123_010, False),
        ("USD", 12_345, 12_348, False),  # of another currency there is nothing
    ],
)
def test_of_a_party_with_very_many_items_amounts_that_were_rounded_are_found(
    currency: str, asked: int, paid: int, *, is_rounded: bool
) -> None:
    of_its = "EUR" if currency == "USD" else currency
    many = [replace(ITEM, id=f"e{at}", amount=1_000_000 * (at + 2), currency=of_its) for at in range(KEY_ITEMS_MAX)]
    meant = replace(ITEM, amount=asked, currency=of_its)
    line = replace(LINE, amount=paid, currency=currency)
    for order in ([*many, meant], [meant, *many]):
        assert list(run(order, [line]).pairs) == ([("e", "i")] if is_rounded else [])
    # Of two as near, neither is meant.
    assert not run([*many, meant, replace(meant, id="f", amount=2 * paid - asked)], [line]).pairs


def test_however_many_items_of_a_party_are_alike_they_are_not_compared() -> None:
    alike = [replace(ITEM, id=f"e{at}", amount=10_000) for at in range(KEY_ITEMS_MAX + 1)]
    assert not run(alike, [replace(LINE, amount=10_002)]).pairs


@settings(max_examples=10)
@given(
    st.lists(st.tuples(AMOUNTS, st.integers(20_590, 20_620)), max_size=5),
    st.lists(st.tuples(AMOUNTS, st.integers(20_590, 20_620)), max_size=5),
)
def test_a_near_amount_is_never_accepted_and_never_takes_more_than_is_open(
    items: list[tuple[int, int]], lines: list[tuple[int, int]]
) -> None:
    ours = [replace(ITEM, id=f"e{at}", amount=amount, due=due) for at, (amount, due) in enumerate(items)]
    theirs = [replace(LINE, id=f"i{at}", amount=amount, day=day) for at, (amount, day) in enumerate(lines)]
    outcome = run(ours, theirs, AUTO_HIGH)
    asked = {item.id: item.amount for item in ours}
    paid = {line.id: line.amount for line in theirs}
    for (item, line), pair in outcome.pairs.items():
        assert pair.amount == min(asked[item], paid[line])
        assert not (pair.auto and pair.difference)
        assert -2 * asked[item] <= 5 * pair.difference <= asked[item]
    back = run(ours[::-1], theirs[::-1], AUTO_HIGH)
    assert back.pairs == outcome.pairs
