"""Explicit groups, by example: each kind, each refusal, and what beats what."""

from __future__ import annotations

import time
from dataclasses import replace

import polars as pl
import pytest

from payrec.domain.matching.columns import EXPECTED_SCHEMA, INCOMING_SCHEMA
from payrec.domain.matching.engine import propose
from payrec.domain.matching.keys import group_key, reference_key
from payrec.domain.matching.rules import (
    GROUP_LEGS_MAX,
    SUBSET_MEMBERS_MAX,
    Confidence,
    GroupLevel,
    MatchingRules,
    MatchKind,
    Reason,
    Side,
    Uniqueness,
)
from support.matching_frames import Item, Line, level, only, run, sure

AUTO_HIGH = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")
PROOF = (Confidence.EXACT, Uniqueness.UNIQUE, True)


def items_of(*amounts: int, **more: object) -> list[Item]:
    return [
        Item(f"e{at}", amount=amount, reference=f"INV-1000{at}", **more)  # type: ignore[arg-type]
        for at, amount in enumerate(amounts)
    ]


def batch_of(*amounts: int, group: str = "PO-2026-7") -> list[Item]:
    return [Item(f"e{at}", amount=amount, group=group) for at, amount in enumerate(amounts)]


def quoting(items: list[Item]) -> str:
    return " ".join(str(item.reference) for item in items)


NAMING = [
    {"group": "PO-2026-7"},
    {"text": "Payout po 2026 7 thanks"},
    {"structured": "PO20267"},
    {"end_to_end_id": "PO-2026-7"},
]


@pytest.mark.parametrize("naming", NAMING)
def test_all_items_of_a_batch_are_one_match(naming: dict[str, str]) -> None:
    outcome = run(batch_of(100, 250, 650), [Line("x", amount=1_000, **naming)])
    group = only(outcome)
    assert sure(group) == PROOF
    assert (group.kind, level(group), group.amount) == (MatchKind.ONE_TO_MANY, GroupLevel.BY_KEY, 1_000)
    assert group.legs == (("e0", "x", 100), ("e1", "x", 250), ("e2", "x", 650))
    assert (group.tried, group.named, group.rivals) == (1, 3, (0, 0))
    assert (outcome.items, outcome.lines) == ({}, {})


def test_a_batch_of_one_is_a_pair() -> None:
    group = only(run(batch_of(100), [Line("x", amount=100, group="PO-2026-7")]))
    assert (group.kind, level(group), sure(group)) == (MatchKind.ONE_TO_ONE, GroupLevel.BY_KEY, PROOF)


@pytest.mark.parametrize("paid", [899, 1_001])
def test_a_batch_of_another_sum_is_no_group(paid: int) -> None:
    outcome = run(batch_of(100, 250, 650), [Line("x", amount=paid, group="PO-2026-7")])
    assert not outcome.matches
    assert outcome.lines["x"] == (Reason.AMOUNT_MISMATCH, "e0", 0, paid - 1_000)
    assert {reason[:2] for reason in outcome.items.values()} == {(Reason.AMOUNT_MISMATCH, "x")}


def test_a_batch_counts_with_all_that_is_open_of_it() -> None:
    # Somebody took 50 of the last one: what is open sums to 950.
    items = [*batch_of(100, 250), Item("part", amount=600, total=650, group="PO-2026-7")]
    assert only(run(items, [Line("x", amount=950, group="PO-2026-7")])).amount == 950
    assert not run(items, [Line("x", amount=1_000, group="PO-2026-7")]).matches


@pytest.mark.parametrize("group", ["PO7", "PAYOUT"])
def test_a_group_id_that_could_not_prove_holds_nothing_together(group: str) -> None:
    items = batch_of(100, 250, group=group)
    assert not run(items, [Line("x", amount=350, group=group)]).matches


def test_two_lines_with_the_amount_of_a_batch_are_ambiguous() -> None:
    lines = [Line("x", amount=350, group="PO-2026-7"), Line("y", amount=350, text="PO-2026-7", day=20_601)]
    outcome = run(batch_of(100, 250), lines)
    group = only(outcome)
    assert sure(group) == (Confidence.LOW, Uniqueness.AMBIGUOUS, False)
    assert outcome.lines["y"][:2] == (Reason.AMBIGUOUS, "e0")
    assert outcome.alternatives == [(("e0", "x"), Side.INCOMING, ("e0", "y"))]


def test_of_several_lines_of_a_batch_the_one_with_its_sum_is_meant() -> None:
    lines = [Line("x", amount=350, group="PO-2026-7"), Line("fee", amount=7, group="PO-2026-7")]
    outcome = run(batch_of(100, 250), lines)
    assert sure(only(outcome)) == PROOF
    assert outcome.lines["fee"][0] is Reason.AMOUNT_MISMATCH


def test_a_line_that_names_two_batches_is_sure_of_neither() -> None:
    items = [*batch_of(100, 250), Item("other", amount=5, group="PO-2026-8")]
    group = only(run(items, [Line("x", amount=350, group="PO-2026-7", text="PO-2026-8")]))
    assert sure(group) == (Confidence.MEDIUM, Uniqueness.CONTESTED, False)
    same = [*batch_of(100, 250), replace(items[2], amount=350)]
    tied = only(run(same, [Line("x", amount=350, group="PO-2026-7", text="PO-2026-8")]))
    assert sure(tied) == (Confidence.LOW, Uniqueness.AMBIGUOUS, False)


def test_a_payment_that_quotes_all_its_invoices() -> None:
    items = items_of(100, 250, 650)
    group = only(run(items, [Line("x", amount=1_000, text=quoting(items))]))
    assert sure(group) == PROOF
    assert (group.kind, level(group)) == (MatchKind.ONE_TO_MANY, GroupLevel.BY_REFERENCES)
    assert dict(group.levels)["reference"] == 4


def test_quoting_by_end_to_end_id_counts_as_well() -> None:
    items = [Item("a", amount=100, end_to_end_id="ORDER-18"), Item("b", amount=50, reference="INV-10001")]
    group = only(run(items, [Line("x", amount=150, text="INV-10001", end_to_end_id="ORDER-18")]))
    assert sure(group) == PROOF


def test_a_batch_that_is_quoted_item_by_item_too_is_one_group() -> None:
    items = items_of(100, 250, group="PO-2026-7")
    group = only(run(items, [Line("x", amount=350, text=quoting(items), group="PO-2026-7")]))
    assert (level(group), sure(group)) == (GroupLevel.BY_KEY, PROOF)


def test_the_only_part_of_the_quoted_that_sums_up_is_proposed_and_never_accepted() -> None:
    items = items_of(100, 250, 650, 33)
    group = only(run(items, [Line("x", amount=750, text=quoting(items))], AUTO_HIGH))
    assert sure(group) == (Confidence.HIGH, Uniqueness.UNIQUE, False)
    assert (level(group), group.tried, group.named) == (GroupLevel.BY_SOME_REFERENCES, 16, 4)
    assert group.ends[0] == {"e0", "e2"}


def test_two_parts_of_the_quoted_that_sum_up_are_no_group() -> None:
    items = items_of(100, 250, 250, 33)
    outcome = run(items, [Line("x", amount=350, text=quoting(items))])
    assert not outcome.groups
    assert {reason for reason, *_ in outcome.items.values()} == {Reason.AMBIGUOUS}


def test_quoted_invoices_of_another_sum_are_no_group() -> None:
    items = items_of(100, 250, 650)
    for paid in (940, 1_060):
        outcome = run(items, [Line("x", amount=paid, text=quoting(items))])
        assert not outcome.groups
        assert {reason for reason, *_ in outcome.items.values()} == {Reason.AMOUNT_MISMATCH}


def test_too_many_quoted_for_a_search_say_so() -> None:
    items = items_of(*[2**k for k in range(SUBSET_MEMBERS_MAX + 1)])
    outcome = run(items, [Line("x", amount=2**SUBSET_MEMBERS_MAX + 1, text=quoting(items))])
    assert not outcome.groups
    assert Reason.BUDGET_EXHAUSTED in {reason for reason, *_ in outcome.items.values()}
    # What is as much as the payment cannot be part of it, and what is left are few.
    assert only(run(items[:2] + items[3:], [Line("x", amount=3, text=quoting(items))])).named == SUBSET_MEMBERS_MAX


def test_a_group_may_be_as_large_as_the_rules_say() -> None:
    items = items_of(*range(100, 110))
    line = Line("x", amount=sum(range(100, 110)), text=quoting(items))
    assert sure(only(run(items, [line], replace(AUTO_HIGH, group_size_max=10)))) == PROOF
    outcome = run(items, [line], replace(AUTO_HIGH, group_size_max=9))
    assert not outcome.groups
    assert Reason.BUDGET_EXHAUSTED in {reason for reason, *_ in outcome.items.values()}
    # Its group id bounds a batch, not the setting.
    batch = [replace(item, group="PO-2026-7") for item in items]
    assert run(batch, [replace(line, group="PO-2026-7")], replace(AUTO_HIGH, group_size_max=1)).groups


def test_fifty_references_in_one_text() -> None:
    items = [Item(f"e{at}", amount=100 + at, reference=f"INV-{20_000 + at}") for at in range(50)]
    line = Line("x", amount=sum(item.amount for item in items), text=quoting(items))
    assert sure(only(run(items, [line]))) == PROOF


def instalments(*amounts: int, **more: object) -> list[Line]:
    return [
        Line(f"x{at}", amount=amount, day=20_600 + at, text=f"INV-10000 part {at}", **more)  # type: ignore[arg-type]
        for at, amount in enumerate(amounts)
    ]


def test_instalments_that_sum_to_the_item() -> None:
    group = only(run(items_of(1_000), instalments(300, 300, 400)))
    assert sure(group) == PROOF
    assert (group.kind, level(group)) == (MatchKind.MANY_TO_ONE, GroupLevel.BY_INSTALMENTS)
    assert sorted(leg[1:] for leg in group.legs) == [("x0", 300), ("x1", 300), ("x2", 400)]


def test_fewer_instalments_are_parts() -> None:
    outcome = run(items_of(1_000), instalments(300, 300))
    assert not outcome.groups
    assert [(p.amount, p.confidence, p.auto) for p in outcome.matches] == [(300, Confidence.MEDIUM, False)] * 2


def test_more_instalments_of_which_one_set_sums_up() -> None:
    group = only(run(items_of(1_000), instalments(300, 700, 450), AUTO_HIGH))
    assert sure(group) == (Confidence.HIGH, Uniqueness.UNIQUE, False)
    assert (level(group), group.ends[1]) == (GroupLevel.BY_SOME_INSTALMENTS, {"x0", "x1"})


def test_more_instalments_of_which_several_sets_sum_up() -> None:
    outcome = run(items_of(1_000), instalments(500, 500, 500))
    assert not outcome.groups
    assert outcome.lines["x2"][0] is Reason.AMBIGUOUS


def test_the_proof_of_an_equal_amount_beats_the_group() -> None:
    items = items_of(100, 250)
    lines = [Line("x", amount=350, text=quoting(items)), Line("y", amount=250, text="INV-10001")]
    outcome = run(items, lines)
    assert not outcome.groups
    assert outcome.pairs["e1", "y"].confidence is Confidence.MEDIUM
    whole = run(items_of(1_000), [*instalments(300, 700), Line("whole", amount=1_000, text="INV-10000")])
    assert list(whole.pairs) == [("e0", "whole")]
    batch = [replace(item, group="PO-2026-7") for item in items]
    assert not run(batch, [Line("x", amount=350, group="PO-2026-7"), lines[1]]).groups


def test_a_group_beats_the_same_payer_and_amount() -> None:
    items = [*items_of(100, 250, iban="DE1"), Item("other", amount=350, iban="DE1")]
    outcome = run(items, [Line("x", amount=350, text=quoting(items[:2]), iban="DE1")], AUTO_HIGH)
    assert sure(only(outcome)) == PROOF
    assert outcome.items["other"][:2] == (Reason.AMBIGUOUS, "x")


def test_a_claim_on_a_member_leaves_the_group_contested() -> None:
    items = items_of(100, 250)
    lines = [Line("x", amount=350, text=quoting(items)), Line("y", amount=60, text="INV-10001")]
    outcome = run(items, lines)
    [group] = outcome.groups
    assert sure(group) == (Confidence.MEDIUM, Uniqueness.CONTESTED, False)
    assert group.rivals == (0, 1)
    assert outcome.alternatives == [(("e0", "x"), Side.INCOMING, ("e1", "y"))]
    # Nothing of the item is left for the part.
    assert outcome.lines["y"][:2] == (Reason.AMOUNT_MISMATCH, "e1")


def test_equal_groups_are_ambiguous_and_the_first_by_content_is_proposed() -> None:
    items = items_of(100, 250)
    lines = [Line(name, amount=350, text=quoting(items), day=day) for name, day in (("y", 20_602), ("x", 20_601))]
    outcome = run(items, lines)
    group = only(outcome)
    assert (group.ends[1], sure(group)) == ({"x"}, (Confidence.LOW, Uniqueness.AMBIGUOUS, False))
    assert outcome.lines["y"][0] is Reason.AMBIGUOUS


def test_groups_that_share_one_item_are_ambiguous() -> None:
    items = items_of(100, 250, 650)
    lines = [Line("x", amount=350, text=quoting(items[:2])), Line("y", amount=900, text=quoting(items[1:]))]
    outcome = run(items, lines)
    [group] = outcome.groups
    assert group.status is Uniqueness.AMBIGUOUS
    assert not any(match.auto for match in outcome.matches)


@pytest.mark.parametrize("flag", ["reversal", "duplicate"])
def test_reversals_and_duplicates_are_in_no_group(flag: str) -> None:
    items = items_of(100, 250, group="PO-2026-7")
    line = Line("x", amount=350, text=quoting(items), group="PO-2026-7", **{flag: True})  # type: ignore[arg-type]
    assert not run(items, [line]).groups
    lines = instalments(300, 700)
    assert not run(items_of(1_000), [lines[0], replace(lines[1], **{flag: True})]).groups  # type: ignore[arg-type]
    # And the copy of a payment is no rival of it.
    assert sure(run(items, [replace(line, **{flag: False}), replace(line, id="y")]).groups[0]) == PROOF  # type: ignore[arg-type]


def test_a_pending_group_is_proposed_and_never_accepted() -> None:
    items = items_of(100, 250)
    group = only(run(items, [Line("x", amount=350, text=quoting(items), pending=True)], AUTO_HIGH))
    assert sure(group) == (Confidence.EXACT, Uniqueness.UNIQUE, False)
    lines = instalments(300, 700)
    group = only(run(items_of(1_000), [lines[0], replace(lines[1], pending=True)], AUTO_HIGH))
    assert not group.auto


def test_currencies_and_directions_are_never_mixed() -> None:
    for change in ({"currency": "USD"}, {"direction": -1}):
        items = items_of(100, 250, group="PO-2026-7")
        mixed = [items[0], replace(items[1], **change)]  # type: ignore[arg-type]
        assert not run(mixed, [Line("x", amount=350, text=quoting(items), group="PO-2026-7")]).groups
        lines = instalments(300, 700)
        assert not run(items_of(1_000), [lines[0], replace(lines[1], **change)]).groups  # type: ignore[arg-type]


def test_every_member_must_be_within_the_window() -> None:
    items = items_of(100, 250, group="PO-2026-7")
    late = [items[0], replace(items[1], due=20_500)]
    by_key = run(late, [Line("x", amount=350, group="PO-2026-7")])
    assert not by_key.groups
    assert by_key.lines["x"] == (Reason.DATE_OUT_OF_WINDOW, "e0", 40, 0)
    assert not run(late, [Line("x", amount=350, text=quoting(items))]).groups
    lines = instalments(300, 700)
    assert not run(items_of(1_000), [lines[0], replace(lines[1], day=20_700)]).groups


def test_what_is_quoted_outside_of_the_window_makes_the_rest_a_part() -> None:
    items = [*items_of(100, 250), Item("old", amount=7, reference="INV-19999", due=20_000)]
    group = only(run(items, [Line("x", amount=350, text=quoting(items))], AUTO_HIGH))
    assert (level(group), group.named, group.auto) == (GroupLevel.BY_SOME_REFERENCES, 3, False)


def test_a_rejected_pair_takes_its_groups_with_it() -> None:
    items = items_of(100, 250, 650, group="PO-2026-7")
    line = Line("x", amount=1_000, group="PO-2026-7")
    assert not run(items, [line], rejected=[("e1", "x")]).groups
    assert not run(items, [Line("x", amount=1_000, text=quoting(items))], rejected=[("e1", "x")]).groups
    assert not run(items_of(1_000), instalments(300, 700), rejected=[("e0", "x1")]).groups
    # Another line of the same amount is the only one then.
    assert sure(only(run(items, [line, replace(line, id="y", day=20_601)], rejected=[("e1", "x")]))) == PROOF


def test_a_crowded_reference_beside_the_quoted_ones_leaves_doubt() -> None:
    items = items_of(100, 250)
    crowd = [Item(f"c{at}", amount=9, reference="RENT2026") for at in range(13)]
    [group] = run([*items, *crowd], [Line("x", amount=350, text=f"{quoting(items)} RENT2026")]).groups
    assert sure(group) == (Confidence.MEDIUM, Uniqueness.UNBOUNDED, False)


def test_sums_do_not_wrap() -> None:
    most = 2**63 - 1
    items = batch_of(most, most, 7)
    assert not run(items, [Line("x", amount=5, group="PO-2026-7")]).groups
    quoted = items_of(most, most, 7)
    assert not run(quoted, [Line("x", amount=5, text=quoting(quoted))]).groups
    assert only(run(batch_of(most - 1, 1), [Line("x", amount=most, group="PO-2026-7")])).amount == most


def frames(rows: int, *, lines: int, amount: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return items of 1 each, all of one batch, and lines that name it; the first line has the given amount."""
    key = group_key("PO-2026-7")
    items = pl.DataFrame({"n": pl.int_range(rows, eager=True)}).select(
        **{name: pl.lit(None, dtype=dtype) for name, dtype in EXPECTED_SCHEMA.items()}
        | {
            "ordinal": pl.col("n").cast(pl.Int32),
            "currency": pl.lit("EUR"),
            "direction": pl.lit(1, dtype=pl.Int8),
            "amount_minor": pl.lit(1, dtype=pl.Int64),
            "total_minor": pl.lit(1, dtype=pl.Int64),
            "due_day": pl.lit(20_600, dtype=pl.Int32),
            "group_key": pl.lit(key, dtype=pl.Int64),
            "tie_key": pl.col("n"),
        }
    )
    minor = pl.when(pl.col("n") == 0).then(amount).otherwise(pl.col("n") + 2).cast(pl.Int64)
    found = pl.DataFrame({"n": pl.int_range(lines, eager=True)}).select(
        **{name: pl.lit(None, dtype=dtype) for name, dtype in INCOMING_SCHEMA.items()}
        | {name: pl.lit(value=False) for name in ("pending", "reversal", "duplicate")}
        | {
            "ordinal": pl.col("n").cast(pl.Int32),
            "currency": pl.lit("EUR"),
            "direction": pl.lit(1, dtype=pl.Int8),
            "amount_minor": minor,
            "total_minor": minor,
            "booking_day": pl.lit(20_600, dtype=pl.Int32),
            "reference_keys": pl.lit([key, reference_key("ANOTHER-1")], dtype=pl.List(pl.Int64)),
            "tie_key": pl.col("n"),
        }
    )
    return items, found


def test_a_batch_has_as_many_legs_as_it_may() -> None:
    for rows, proposed, reason in ((GROUP_LEGS_MAX, 1, {}), (GROUP_LEGS_MAX + 1, 0, {"budget_exhausted": 1})):
        result = propose(*frames(rows, lines=1, amount=rows), AUTO_HIGH)
        assert (result.counts.proposed, result.counts.open_incoming) == (proposed, reason)
        assert result.legs.height == rows * proposed


@pytest.mark.parametrize(("items", "lines"), [(100_000, 1), (1, 100_000), (100_000, 100_000)])
def test_one_batch_on_a_hundred_thousand_rows_stays_bounded(items: int, lines: int) -> None:
    start = time.process_time()
    result = propose(*frames(items, lines=lines, amount=items), AUTO_HIGH)
    # Item by line, these are ten billion; the time only says that nothing exploded.
    assert time.process_time() - start < 10
    assert result.counts.proposed == (items == 1)
