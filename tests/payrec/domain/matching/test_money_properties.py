"""What holds of money against money, whatever the data."""

from __future__ import annotations

import random
from dataclasses import replace

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.matching.line_rules import Required
from payrec.domain.matching.rules import Confidence, MatchingRules, MatchKind, Uniqueness
from support.matching_frames import Item, Line, run

RULES = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")
STRICT = replace(RULES, required=Required.REFERENCE)
PROPERTY = settings(max_examples=25)
OWN = ("GIRO", "SAVINGS", "PSP-EUR")

AMOUNTS = st.sampled_from([100, 200, 300])
DAYS = st.sampled_from([20_600, 20_602, 20_610, 20_800])
TEXTS = st.sampled_from([None, "ORDER-10001", "ORDER-10002", "PO-2026-7", "INV-10001"])
ACCOUNTS = st.sampled_from([None, *OWN, "DE1", "DE2"])


@st.composite
def books(draw: st.DrawFn) -> tuple[list[Item], list[Line]]:
    """Draw lines of own accounts that name each other, and items that want the same money."""
    lines = [
        Line(
            f"i{at}",
            amount=draw(AMOUNTS),
            direction=draw(st.sampled_from([1, -1])),
            day=draw(DAYS),
            text=draw(TEXTS),
            end_to_end_id=draw(st.sampled_from([None, None, "E2E-0001"])),
            iban=draw(ACCOUNTS),
            name=draw(st.sampled_from([None, "Alpha"])),
            account=draw(st.sampled_from([None, *OWN])),
            group=draw(st.sampled_from([None, None, "PO-2026-7"])),
            pending=draw(st.sampled_from([False, False, True])),
            duplicate=draw(st.sampled_from([False, False, False, True])),
            reversal=draw(st.sampled_from([False, False, False, True])),
        )
        for at in range(draw(st.integers(0, 9)))
    ]
    items = [
        Item(
            f"e{at}",
            amount=draw(AMOUNTS),
            direction=draw(st.sampled_from([1, -1])),
            due=20_600,
            reference=draw(TEXTS),
            iban=draw(ACCOUNTS),
            name=draw(st.sampled_from([None, "Alpha"])),
            group=draw(st.sampled_from([None, None, "PO-2026-7", "INV-10001"])),
        )
        for at in range(draw(st.integers(0, 5)))
    ]
    return items, lines


@PROPERTY
@given(
    books(), st.randoms(use_true_random=False), st.sampled_from([RULES, replace(RULES, required=Required.REFERENCE)])
)
def test_the_order_of_rows_changes_nothing(
    drawn: tuple[list[Item], list[Line]], chance: random.Random, rules: MatchingRules
) -> None:
    items, lines = drawn
    first = run(items, lines, rules)
    assert first.proposals.legs.equals(run(items, lines, rules).proposals.legs)
    mixed = run(chance.sample(items, len(items)), chance.sample(lines, len(lines)), rules)
    assert mixed.summary() == first.summary()


@PROPERTY
@given(books())
def test_what_holds_of_every_result(drawn: tuple[list[Item], list[Line]]) -> None:
    items, lines = drawn
    outcome = run(items, lines, RULES)
    rows = {row.id: row for row in (*items, *lines)}
    own = {row.account for row in rows.values()} - {None}
    taken = dict.fromkeys(rows, 0)
    for match in outcome.matches:
        money = match.kind in {MatchKind.TRANSFER, MatchKind.REFUND, MatchKind.CREDIT_NOTE}
        for one, other, amount in match.legs:
            ends = rows[one], rows[other]
            assert ends[0].currency == ends[1].currency
            assert (ends[0].direction, ends[1].direction) == ((1, -1) if money else (ends[0].direction,) * 2)
            assert (type(ends[0]) is type(ends[1])) is money
            assert not any(isinstance(end, Line) and end.reversal for end in ends)
            taken[one] += amount
            taken[other] += amount
            if not money:
                line = lines[[at.id for at in lines].index(other)]
                named = line.iban in own and line.iban != line.account
                assert not named or ends[0].group in {line.group, line.text}  # type: ignore[union-attr]
            if money and match.auto:
                assert match.status is Uniqueness.UNIQUE
                assert match.confidence >= Confidence.HIGH
                assert not any(isinstance(end, Line) and (end.pending or end.duplicate) for end in ends)
                assert match.kind is not MatchKind.CREDIT_NOTE
            if match.kind is MatchKind.TRANSFER:
                assert ends[0].amount == ends[1].amount == amount
                assert ends[0].account != ends[1].account
    assert all(taken[row] <= rows[row].amount for row in rows)
    proposed = {row for row, amount in taken.items() if amount}
    assert proposed | set(outcome.items) | set(outcome.lines) == set(rows)
    assert not proposed & (set(outcome.items) | set(outcome.lines))


@PROPERTY
@given(books(), st.integers(2, 10**9))
def test_scaling_all_amounts_changes_no_decision(drawn: tuple[list[Item], list[Line]], factor: int) -> None:
    items, lines = drawn
    first = run(items, lines, RULES)
    scaled = run(
        [replace(item, amount=item.amount * factor) for item in items],
        [replace(line, amount=line.amount * factor) for line in lines],
        RULES,
    )
    assert [(m.kind, m.ends, m.amount * factor, m.confidence, m.auto) for m in first.matches] == [
        (m.kind, m.ends, m.amount, m.confidence, m.auto) for m in scaled.matches
    ]


@PROPERTY
@given(books())
def test_nothing_changes_where_there_is_no_own_account_and_nothing_goes_out(
    drawn: tuple[list[Item], list[Line]],
) -> None:
    items = [replace(item, direction=1) for item in drawn[0]]
    lines = [replace(line, direction=1, account=None) for line in drawn[1]]
    outcome = run(items, lines, RULES)
    kinds = set(outcome.proposals.matches["kind"])
    assert not kinds & {MatchKind.TRANSFER, MatchKind.REFUND, MatchKind.CREDIT_NOTE}


def test_very_many_alike_stay_bounded() -> None:
    lines = [
        Line(
            f"{way}{at}",
            direction=way,
            account=account,
            iban=other,
            text="ORDER-10001",
            group="PO-2026-7",
            name="Alpha",
        )
        for way, account, other in ((1, "GIRO", "SAVINGS"), (-1, "SAVINGS", "GIRO"))
        for at in range(1_000)
    ]
    outcome = run([], lines, RULES)
    assert not outcome.matches
    strangers = [replace(line, iban="DE1", account=None, group=None) for line in lines]
    notes = [
        Item(f"{way}{at}", direction=way, reference="INV-10001", name="Alpha", group="INV-10001")
        for way in (1, -1)
        for at in range(1_000)
    ]
    assert not run(notes, strangers, RULES).proposals.matches.filter(pl.col("kind") >= MatchKind.TRANSFER.value).height
