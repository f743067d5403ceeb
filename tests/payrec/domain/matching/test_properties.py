from __future__ import annotations

import random
import time
from dataclasses import replace

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.matching.columns import EXPECTED_SCHEMA, INCOMING_SCHEMA
from payrec.domain.matching.engine import propose
from payrec.domain.matching.keys import reference_key, tie_key
from payrec.domain.matching.rules import ALTERNATIVES_MAX, Confidence, MatchingRules, Uniqueness
from support.matching_frames import Item, Line, expected_frame, incoming_frame, run

RULES = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")
TOLERANT = replace(RULES, amount_tolerance_minor=1)
PROPERTY = settings(max_examples=7)

REFERENCES = st.sampled_from([None, "INV-10001", "INV-10002", "INV-10003", "RENT", "4711"])
PARTIES = st.sampled_from([None, "DE1", "DE2"])
NAMES = st.sampled_from([None, "Alpha", "Beta"])
AMOUNTS = st.sampled_from([100, 101, 200, 300])
DAYS = st.sampled_from([None, 20_600, 20_610, 20_640, 20_800])
CURRENCIES = st.sampled_from(["EUR", "USD"])


@st.composite
def sides(draw: st.DrawFn, *, twins: bool = False) -> tuple[list[Item], list[Line]]:
    """Draw a few items and lines that share what they have, so that everything competes with everything."""
    ties = st.sampled_from(["a", "b"]) if twins else st.none()
    items = [
        Item(
            f"e{at}",
            amount=draw(AMOUNTS),
            currency=draw(CURRENCIES),
            due=draw(DAYS),
            reference=draw(REFERENCES),
            end_to_end_id=draw(st.sampled_from([None, None, "E2E-0001"])),
            iban=draw(PARTIES),
            name=draw(NAMES),
            band=draw(st.sampled_from([(None, None), (None, None), (90, 210)])),
            tie=draw(ties),
        )
        for at in range(draw(st.integers(0, 7)))
    ]
    lines = [
        Line(
            f"i{at}",
            amount=draw(AMOUNTS),
            currency=draw(CURRENCIES),
            day=draw(DAYS),
            text=" ".join(draw(st.lists(REFERENCES.filter(bool), max_size=2, unique=True))),  # type: ignore[arg-type]
            structured=draw(st.sampled_from([None, "RENT"])),
            end_to_end_id=draw(st.sampled_from([None, None, "E2E-0001"])),
            iban=draw(PARTIES),
            name=draw(NAMES),
            pending=draw(st.booleans()),
            duplicate=draw(st.sampled_from([False, False, True])),
            reversal=draw(st.sampled_from([False, False, False, True])),
            tie=draw(ties),
        )
        for at in range(draw(st.integers(0, 7)))
    ]
    return items, lines


@PROPERTY
@given(sides(), st.randoms(use_true_random=False), st.sampled_from([RULES, TOLERANT]))
def test_the_order_of_rows_changes_nothing(
    drawn: tuple[list[Item], list[Line]], chance: random.Random, rules: MatchingRules
) -> None:
    items, lines = drawn
    rejected = [(items[0].id, lines[0].id)] if items and lines else []
    first = run(items, lines, rules, rejected)
    again = run(items, lines, rules, rejected)
    assert first.proposals.pairs.equals(again.proposals.pairs)
    mixed_items, mixed_lines = chance.sample(items, len(items)), chance.sample(lines, len(lines))
    mixed = run(mixed_items, mixed_lines, rules, rejected)
    assert mixed.summary() == first.summary()
    assert list(mixed.pairs) == list(first.pairs)


@PROPERTY
@given(sides(twins=True), st.randoms(use_true_random=False))
def test_between_equal_rows_the_choice_is_marked(drawn: tuple[list[Item], list[Line]], chance: random.Random) -> None:
    items, lines = drawn
    first = run(items, lines, RULES)
    mixed = run(chance.sample(items, len(items)), chance.sample(lines, len(lines)), RULES)
    sure = {key: pair for key, pair in first.pairs.items() if pair.status is not Uniqueness.AMBIGUOUS}
    assert sure == {key: pair for key, pair in mixed.pairs.items() if pair.status is not Uniqueness.AMBIGUOUS}
    assert mixed.proposals.counts == first.proposals.counts


@PROPERTY
@given(sides(), st.integers(2, 10**9))
def test_scaling_all_amounts_changes_no_decision(drawn: tuple[list[Item], list[Line]], factor: int) -> None:
    items, lines = drawn
    first = run(items, lines, RULES)
    scaled = run(
        [
            replace(it, amount=it.amount * factor, band=tuple(None if b is None else b * factor for b in it.band))  # type: ignore[arg-type]
            for it in items
        ],
        [replace(line, amount=line.amount * factor) for line in lines],
        RULES,
    )
    assert {key: (p.amount * factor, p.confidence, p.status, p.auto, p.score) for key, p in first.pairs.items()} == {
        key: (p.amount, p.confidence, p.status, p.auto, p.score) for key, p in scaled.pairs.items()
    }
    assert scaled.proposals.counts == first.proposals.counts


@PROPERTY
@given(sides(), st.data())
def test_a_rival_never_raises_a_confidence(drawn: tuple[list[Item], list[Line]], data: st.DataObject) -> None:
    items, lines = drawn
    before = run(items, lines, RULES)
    if not before.pairs:
        return
    key = data.draw(st.sampled_from(sorted(before.pairs)))
    pair = before.pairs[key]
    amount = data.draw(AMOUNTS)
    if data.draw(st.booleans()):
        twin = next(it for it in items if it.id == key[0])
        rivals = [replace(twin, id=f"rival{at}", amount=amount) for at in range(data.draw(st.sampled_from([1, 13])))]
        after = run([*items, *rivals], lines, RULES)
    else:
        double = next(line for line in lines if line.id == key[1])
        copies = [replace(double, id=f"rival{at}", amount=amount) for at in range(data.draw(st.sampled_from([1, 65])))]
        after = run(items, [*lines, *copies], RULES)
    if key in after.pairs:
        assert after.pairs[key].confidence <= pair.confidence
        assert after.pairs[key].auto <= pair.auto


@PROPERTY
@given(sides(), sides())
def test_data_of_another_currency_change_nothing(
    drawn: tuple[list[Item], list[Line]], other: tuple[list[Item], list[Line]]
) -> None:
    items, lines = drawn
    others = [
        replace(it, id=f"o{it.id}", currency="CHF", reference=it.reference and f"CH{it.reference}", end_to_end_id=None)
        for it in other[0]
    ]
    other_lines = [
        replace(line, id=f"o{line.id}", currency="CHF", text=line.text and f"CH{line.text}", structured=None)
        for line in other[1]
    ]
    other_lines = [replace(line, end_to_end_id=None, text=None) for line in other_lines]
    first, both = run(items, lines, RULES), run([*items, *others], [*lines, *other_lines], RULES)
    assert {key: pair for key, pair in both.pairs.items() if not key[0].startswith("o")} == first.pairs
    assert {key: reason for key, reason in both.items.items() if not key.startswith("o")} == first.items
    assert {key: reason for key, reason in both.lines.items() if not key.startswith("o")} == first.lines


@PROPERTY
@given(sides(), st.sampled_from([RULES, TOLERANT]))
def test_what_holds_of_every_result(drawn: tuple[list[Item], list[Line]], rules: MatchingRules) -> None:
    items, lines = drawn
    outcome = run(items, lines, rules)
    by_item, by_line = {it.id: it for it in items}, {line.id: line for line in lines}
    assert {e for e, _ in outcome.pairs} | set(outcome.items) == set(by_item)
    assert {i for _, i in outcome.pairs} | set(outcome.lines) == set(by_line)
    assert not {e for e, _ in outcome.pairs} & set(outcome.items)
    assert not {i for _, i in outcome.pairs} & set(outcome.lines)
    assert len({i for _, i in outcome.pairs}) == len(outcome.pairs)
    for (e, i), pair in outcome.pairs.items():
        item, line = by_item[e], by_line[i]
        levels = outcome.levels(e, i)
        assert (item.currency, item.direction) == (line.currency, line.direction)
        assert not line.reversal
        assert 1 <= pair.amount == min(item.amount, line.amount)
        assert 0 <= pair.probability <= 1_000_000
        if pair.auto:
            assert not line.pending
            assert not line.duplicate
            assert levels["amount"] in {1, 2, 3}
            assert levels["reference"] >= 2 or levels["end_to_end"] >= 2 or 2 in {levels["account"], levels["name"]}
            assert pair.confidence >= Confidence.HIGH
            assert pair.status is Uniqueness.UNIQUE
    for item in items:
        assert sum(pair.amount for pair in outcome.pairs.values() if pair.item == item.id) <= item.amount
    for proposal, _, rival in outcome.alternatives:
        assert rival != proposal
        assert rival[0] == proposal[0] or rival[1] == proposal[1]


def test_one_reference_on_80_000_items_stays_bounded() -> None:
    rows = 80_000
    key = reference_key("RENT")
    numbers = pl.int_range(rows, eager=True)
    empty = {name: pl.lit(None, dtype=dtype) for name, dtype in EXPECTED_SCHEMA.items()}
    items = pl.DataFrame({"n": numbers}).select(
        **empty
        | {
            "ordinal": pl.col("n").cast(pl.Int32),
            "currency": pl.lit("EUR"),
            "direction": pl.lit(1, dtype=pl.Int8),
            "amount_minor": pl.lit(80_000, dtype=pl.Int64),
            "total_minor": pl.lit(80_000, dtype=pl.Int64),
            "due_day": pl.lit(20_600, dtype=pl.Int32),
            "reference_key": pl.lit(key, dtype=pl.Int64),
            "account_key": pl.when(pl.col("n") < rows // 2).then(pl.col("n") * 7919).otherwise(7),
            "tie_key": pl.col("n"),
        }
    )
    empty = {name: pl.lit(None, dtype=dtype) for name, dtype in INCOMING_SCHEMA.items()}
    lines = items.select(
        **empty
        | {name: pl.col(name) for name in INCOMING_SCHEMA if name in EXPECTED_SCHEMA}
        | {name: pl.lit(value=False) for name in ("pending", "reversal", "duplicate")}
        | {"booking_day": pl.col("due_day"), "reference_keys": pl.concat_list("reference_key")}
    )
    start = time.process_time()
    result = propose(items, lines, RULES)
    # Without dropping the key first, these are 6.4 billion pairs; the time only says that nothing exploded.
    assert time.process_time() - start < 10
    assert result.counts.candidates <= rows
    assert result.counts.proposed == rows // 2
    assert result.alternatives.height <= result.counts.proposed * ALTERNATIVES_MAX * 2
    assert result.counts.open_incoming == {"ambiguous": rows - result.counts.proposed}


def test_ordinals_need_not_be_row_numbers() -> None:
    items = expected_frame([Item("a", reference="INV-10001")]).with_columns(ordinal=pl.lit(7, dtype=pl.Int32))
    lines = incoming_frame([Line("x", text="INV-10001")]).with_columns(ordinal=pl.lit(9, dtype=pl.Int32))
    pairs = propose(items, lines, RULES).pairs
    assert (pairs["expected"].to_list(), pairs["incoming"].to_list()) == ([7], [9])
    assert tie_key("a") != tie_key("b")
