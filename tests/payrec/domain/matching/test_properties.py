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
from payrec.domain.matching.rules import ALTERNATIVES_MAX, Confidence, MatchingRules, MatchKind, Uniqueness
from support.matching_frames import Item, Line, expected_frame, incoming_frame, run

RULES = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")
TOLERANT = replace(RULES, amount_tolerance_minor=1)
PROPERTY = settings(max_examples=7)

REFERENCES = st.sampled_from([None, "INV-10001", "INV-10002", "INV-10003", "RENT", "4711"])
PARTIES = st.sampled_from([None, "DE1", "DE2"])
NAMES = st.sampled_from([None, "Alpha", "Beta"])
AMOUNTS = st.sampled_from([100, 101, 200, 300])
DAYS = st.sampled_from([None, 20_600, 20_610, 20_640, 20_800])
BATCHES = st.sampled_from([None, None, "PO-2026-7", "PO-2026-8"])
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
            group=draw(BATCHES),
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
            group=draw(BATCHES),
            tie=draw(ties),
        )
        for at in range(draw(st.integers(0, 7)))
    ]
    return items, lines


@st.composite
def named(draw: st.DrawFn) -> tuple[list[Item], list[Line]]:
    """Draw items and lines of which many are named together, most of them with sums that agree."""
    items, lines = draw(sides())
    for number in range(draw(st.integers(1, 3))):
        amounts = draw(st.lists(AMOUNTS, min_size=2, max_size=4))
        by = draw(st.sampled_from(["key", "references", "instalments"]))
        total = sum(amounts) + draw(st.sampled_from([0, 0, 0, 1]))
        names = [f"SUM-{number}000{at}" for at in range(len(amounts))]
        pending = draw(st.sampled_from([False, False, True]))
        if by == "instalments":
            items.append(Item(f"whole{number}", amount=total, reference=names[0]))
            lines += [Line(f"part{name}", amount=a, text=names[0]) for name, a in zip(names, amounts, strict=True)]
            continue
        items += [
            Item(f"of{name}", amount=a, reference=name, group=f"BATCH-{number}" if by == "key" else None)
            for name, a in zip(names, amounts, strict=True)
        ]
        text = f"BATCH-{number}" if by == "key" else " ".join(names)
        lines.append(Line(f"sum{number}", amount=total, text=text, pending=pending))
    return items, lines


@PROPERTY
@given(st.one_of(sides(), named()), st.randoms(use_true_random=False), st.sampled_from([RULES, TOLERANT]))
def test_the_order_of_rows_changes_nothing(
    drawn: tuple[list[Item], list[Line]], chance: random.Random, rules: MatchingRules
) -> None:
    items, lines = drawn
    rejected = [(items[0].id, lines[0].id)] if items and lines else []
    first = run(items, lines, rules, rejected)
    again = run(items, lines, rules, rejected)
    assert first.proposals.matches.equals(again.proposals.matches)
    assert first.proposals.legs.equals(again.proposals.legs)
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
    sure, again = (
        {match.ends: match for match in outcome.matches if match.status is not Uniqueness.AMBIGUOUS}
        for outcome in (first, mixed)
    )
    # Of equal rows, either may come first among the legs.
    assert {ends: replace(match, legs=()) for ends, match in sure.items()} == {
        ends: replace(match, legs=()) for ends, match in again.items()
    }
    assert mixed.proposals.counts == first.proposals.counts


@PROPERTY
@given(st.one_of(sides(), named()), st.integers(2, 10**9))
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
    assert [(m.ends, m.amount * factor, m.confidence, m.status, m.auto, m.score) for m in first.matches] == [
        (m.ends, m.amount, m.confidence, m.status, m.auto, m.score) for m in scaled.matches
    ]
    assert scaled.proposals.counts == first.proposals.counts


@PROPERTY
@given(st.one_of(sides(), named()), st.data())
def test_a_rival_never_raises_a_confidence(drawn: tuple[list[Item], list[Line]], data: st.DataObject) -> None:
    items, lines = drawn
    before = run(items, lines, RULES)
    if not before.matches:
        return
    match = data.draw(st.sampled_from(before.matches))
    leg = data.draw(st.sampled_from(match.legs))
    amount = data.draw(AMOUNTS)
    if data.draw(st.booleans()):
        twin = next(it for it in items if it.id == leg[0])
        rivals = [replace(twin, id=f"rival{at}", amount=amount) for at in range(data.draw(st.sampled_from([1, 13])))]
        after = run([*items, *rivals], lines, RULES)
    else:
        double = next(line for line in lines if line.id == leg[1])
        copies = [replace(double, id=f"rival{at}", amount=amount) for at in range(data.draw(st.sampled_from([1, 65])))]
        after = run(items, [*lines, *copies], RULES)
    for same in after.matches:
        if same.ends == match.ends:
            assert same.confidence <= match.confidence
            assert same.auto <= match.auto


@PROPERTY
@given(named(), st.data())
def test_a_group_that_lost_a_member_is_never_accepted_without_it(
    drawn: tuple[list[Item], list[Line]], data: st.DataObject
) -> None:
    items, lines = drawn
    accepted = [match for match in run(items, lines, RULES).groups if match.auto]
    if not accepted:
        return
    group = data.draw(st.sampled_from(accepted))
    of_line = group.kind is MatchKind.ONE_TO_MANY
    centre = next(iter(group.ends[of_line]))
    lost = data.draw(st.sampled_from(sorted(group.ends[not of_line])))
    after = run([it for it in items if it.id != lost], [line for line in lines if line.id != lost], RULES)
    assert not [match for match in after.matches if match.auto and centre in match.ends[of_line]]


@PROPERTY
@given(st.one_of(sides(), named()), sides())
def test_data_of_another_currency_change_nothing(
    drawn: tuple[list[Item], list[Line]], other: tuple[list[Item], list[Line]]
) -> None:
    items, lines = drawn
    others = [
        replace(it, id=f"x{it.id}", currency="CHF", reference=it.reference and f"CH{it.reference}", end_to_end_id=None)
        for it in other[0]
    ]
    other_lines = [
        replace(line, id=f"x{line.id}", currency="CHF", text=line.text and f"CH{line.text}", structured=None)
        for line in other[1]
    ]
    other_lines = [replace(line, end_to_end_id=None, text=None) for line in other_lines]
    first, both = run(items, lines, RULES), run([*items, *others], [*lines, *other_lines], RULES)
    assert [match for match in both.matches if not match.legs[0][0].startswith("x")] == first.matches
    assert {key: reason for key, reason in both.items.items() if not key.startswith("x")} == first.items
    assert {key: reason for key, reason in both.lines.items() if not key.startswith("x")} == first.lines


@PROPERTY
@given(st.one_of(sides(), named()), st.sampled_from([RULES, TOLERANT]))
def test_what_holds_of_every_result(drawn: tuple[list[Item], list[Line]], rules: MatchingRules) -> None:
    items, lines = drawn
    outcome = run(items, lines, rules)
    by_item, by_line = {it.id: it for it in items}, {line.id: line for line in lines}
    proposed_items = {e for match in outcome.matches for e, _, _ in match.legs}
    proposed_lines = {i for match in outcome.matches for _, i, _ in match.legs}
    assert (proposed_items | set(outcome.items), proposed_lines | set(outcome.lines)) == (set(by_item), set(by_line))
    assert not proposed_items & set(outcome.items)
    assert not proposed_lines & set(outcome.lines)
    assert sum(len(match.ends[1]) for match in outcome.matches) == len(proposed_lines)
    for match in outcome.matches:
        levels = dict(match.levels)
        assert 0 <= match.probability <= 1_000_000
        for e, i, amount in match.legs:
            item, line = by_item[e], by_line[i]
            assert (item.currency, item.direction) == (line.currency, line.direction)
            assert not line.reversal
            assert 1 <= amount <= min(item.amount, line.amount)
            if match.auto:
                assert not line.pending
                assert not line.duplicate
        if match.auto:
            assert levels["amount"] in {1, 2, 3}
            assert (
                levels["reference"] >= 2
                or levels["end_to_end"] >= 2
                or 2 in {levels["account"], levels["name"]}
                or levels["group"]
            )
            assert match.confidence >= Confidence.HIGH
            assert match.status is Uniqueness.UNIQUE
        if levels["group"]:
            # To the minor unit, on both sides, whatever is tolerated of pairs.
            assert sum(by_item[e].amount for e in match.ends[0]) == match.amount
            assert sum(by_line[i].amount for i in match.ends[1]) == match.amount
            assert not any(by_line[i].duplicate for i in match.ends[1])
    for pair in outcome.pairs.values():
        assert pair.amount == min(by_item[pair.item].amount, by_line[pair.line].amount)
    for item in items:
        taken = [a for match in outcome.matches for e, _, a in match.legs if e == item.id]
        assert sum(taken) <= item.amount
    for proposal, _, rival in outcome.alternatives:
        assert rival != proposal
        [match] = [match for match in outcome.matches if match.legs[0][:2] == proposal]
        assert rival[0] in match.ends[0] or rival[1] in match.ends[1]


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
    legs = propose(items, lines, RULES).legs
    assert (legs["expected"].to_list(), legs["incoming"].to_list()) == ([7], [9])
    assert tie_key("a") != tie_key("b")
