"""What must not change a decision, and what every decision must hold to, over worlds in which all stages propose."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from payrec.domain.matching.engine import Proposals, propose
from payrec.domain.matching.rules import Confidence, GroupLevel, MatchingRules, MatchKind, NameLevel, Uniqueness
from support.matching_frames import (
    Item,
    Line,
    Outcome,
    Proposal,
    expected_frame,
    incoming_frame,
    level,
    names_frame,
    run,
)
from support.matching_worlds import worlds

RULES = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")
PROPERTY = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
Sides = tuple[list[Item], list[Line]]


def _kinds(outcome: Outcome) -> Counter[str]:
    """Count what was proposed, by what brought it."""
    found: Counter[str] = Counter()
    for match in outcome.matches:
        levels = dict(match.levels)
        if levels["group"]:
            found[level(match).name] += 1
        elif levels["amount"] in {4, 5}:
            found["another amount"] += 1
        else:
            found["pair"] += 1
        found[NameLevel(levels["name"]).name] += 1
        found[match.status.name] += 1
        found["auto"] += match.auto
    found["duplicate"] += sum(reason[0].name == "DUPLICATE" for reason in outcome.lines.values())
    return found


TOLD = {
    "quoted": ("pair", "auto"),
    "by id": ("pair", "auto"),
    "of a payer": ("pair", "AMBIGUOUS"),
    "misspelt": ("SIMILAR",),
    "on behalf": ("ULTIMATE", "AMBIGUOUS"),
    "in text": ("TEXT", "AMBIGUOUS"),
    "nearly": ("another amount",),
    "batch": (GroupLevel.BY_KEY.name, "auto"),
    "references": (GroupLevel.BY_REFERENCES.name, GroupLevel.BY_SOME_REFERENCES.name),
    "series": (GroupLevel.BY_QUOTES.name,),
    "in terms": (GroupLevel.BY_REFERENCES.name, "auto"),
    "mistaken": ("pair", "CONTESTED"),
    "instalments": (GroupLevel.BY_INSTALMENTS.name, "CONTESTED"),
    "run": (GroupLevel.BY_RUN.name,),
    "equal parts": (GroupLevel.BY_EQUAL_PARTS.name,),
    "unnamed parts": (GroupLevel.BY_UNNAMED_PARTS.name, "AMBIGUOUS"),
    "repeated": ("duplicate",),
    "less credits": (
        GroupLevel.BY_REFERENCES_LESS.name,
        GroupLevel.BY_KEY_LESS.name,
        GroupLevel.BY_CREDIT_NOTES.name,
        "auto",
    ),
}


@pytest.mark.parametrize("story", TOLD)
def test_the_worlds_have_something_for_every_stage(story: str) -> None:
    seen: Counter[str] = Counter()

    @settings(PROPERTY, max_examples=12, derandomize=True, database=None)
    @given(worlds(most=2, stories=(story,)))
    def look(drawn: Sides) -> None:
        seen.update(_kinds(run(*drawn, RULES)))

    look()
    assert all(seen[kind] for kind in TOLD[story]), seen


def _frames(items: list[Item], lines: list[Line]) -> tuple[pl.DataFrame, pl.DataFrame]:
    return expected_frame(items), incoming_frame(lines)


def _renumbered(result: Proposals, items: dict[int, int], lines: dict[int, int]) -> dict[str, pl.DataFrame]:
    """Return the frames with other ordinals."""

    def mapped(frame: pl.DataFrame, **columns: dict[int, int]) -> pl.DataFrame:
        return frame.with_columns(
            pl.col(name).replace_strict(numbers, default=None, return_dtype=pl.Int32)
            for name, numbers in columns.items()
            if name in frame.columns
        )

    both = {"expected": items, "contra_expected": items, "incoming": lines, "contra_incoming": lines}
    return {
        "matches": result.matches,
        "legs": mapped(result.legs, **both),
        "adjustments": mapped(result.adjustments, **both),
        "alternatives": mapped(result.alternatives, **both),
        "open_expected": mapped(result.open_expected, ordinal=items, nearest=lines),
        "open_incoming": mapped(result.open_incoming, ordinal=lines, nearest=items),
    }


@PROPERTY
@given(worlds(), st.randoms(use_true_random=False))
def test_neither_ordinals_nor_versions_nor_order_say_anything(drawn: Sides, chance: random.Random) -> None:
    items, lines = drawn
    expected, incoming = _frames(items, lines)
    names = names_frame([*items, *lines])
    first = propose(expected, incoming, RULES, None, names)
    others = [chance.sample(range(2**31 - 1), len(rows)) for rows in (items, lines)]
    frames = [
        frame.with_columns(
            ordinal=pl.Series(numbers, dtype=pl.Int32), version=pl.Series(numbers, dtype=pl.Int32) % 1_000
        ).sample(fraction=1, shuffle=True, seed=chance.randrange(2**32))
        for frame, numbers in zip((expected, incoming), others, strict=True)
    ]
    again = propose(frames[0], frames[1], RULES, None, names.reverse())
    backs = [{number: at for at, number in enumerate(numbers)} for numbers in others]
    wanted = _renumbered(first, *({at: at for at in range(len(rows))} for rows in (items, lines)))
    for name, frame in _renumbered(again, *backs).items():
        assert frame.equals(wanted[name]), name
    assert again.counts == first.counts


def _decisions(outcome: Outcome, prefix: str = "") -> list[tuple[object, ...]]:
    """Return what was decided, of the rows whose id begins so."""
    return [
        (tuple((e.removeprefix(prefix), i.removeprefix(prefix), a) for e, i, a in match.legs), *_told(match))
        for match in outcome.matches
        if match.legs[0][0].startswith(prefix)
    ]


def _told(match: Proposal) -> tuple[object, ...]:
    return match.kind, match.confidence, match.status, match.auto, match.score, match.probability, match.rivals


@PROPERTY
@given(worlds(), st.sampled_from(["CHF", "AAA"]))
def test_the_same_world_in_another_currency_is_decided_alike_and_apart(drawn: Sides, currency: str) -> None:
    items, lines = drawn
    # Every reference, id, name, account and amount is there twice, and only the currency tells them apart.
    twins = [replace(item, id=f"other-{item.id}", tie=item.id, currency=currency) for item in items]
    their_lines = [replace(line, id=f"other-{line.id}", tie=line.id, currency=currency) for line in lines]
    first, both = run(items, lines, RULES), run([*items, *twins], [*lines, *their_lines], RULES)
    of_currency = {row.id: row.currency for row in (*items, *twins, *lines, *their_lines)}
    assert all(of_currency[e] == of_currency[i] for match in both.matches for e, i, _ in match.legs)
    alone = sorted(map(repr, _decisions(first)))
    assert sorted(map(repr, _decisions(both, "other-"))) == alone
    ours = replace(both, matches=[match for match in both.matches if not match.legs[0][0].startswith("other-")])
    assert sorted(map(repr, _decisions(ours))) == alone


@PROPERTY
@given(worlds(most=3), worlds(most=3))
def test_what_has_nothing_in_common_changes_nothing(drawn: Sides, others: Sides) -> None:
    items, lines = drawn

    def foreign(row: Item | Line) -> Item | Line:
        """Leave nothing that the first world has: no text, no party, no amount."""
        texts = {
            name: f"Q9{value.replace('-', 'W')}" if name != "name" else f"Wurmbrand {value[:3]}Y"
            for name in ("reference", "end_to_end_id", "name", "iban", "group")
            if (value := getattr(row, name, None))
        }
        if isinstance(row, Line) and row.text:
            texts["text"] = " ".join(f"Q9{word.replace('-', 'W')}" for word in row.text.split())
        return replace(row, id=f"other-{row.id}", amount=row.amount * 1_000 + 7, **texts)  # type: ignore[arg-type]

    theirs = [[foreign(row) for row in rows] for rows in others]
    first = run(items, lines, RULES)
    both = run([*items, *theirs[0]], [*lines, *theirs[1]], RULES)  # type: ignore[list-item]
    assert [_told(m) for m in both.matches if not m.legs[0][0].startswith("other-")] == [
        _told(m) for m in first.matches
    ]
    assert {key: value for key, value in both.lines.items() if not key.startswith("other-")} == first.lines
    assert {key: value for key, value in both.items.items() if not key.startswith("other-")} == first.items


@PROPERTY
@given(worlds(), st.data())
def test_a_rival_of_an_item_or_a_line_never_makes_anybody_surer(drawn: Sides, data: st.DataObject) -> None:
    items, lines = drawn
    before = run(items, lines, RULES)
    if not before.matches:
        return
    match = data.draw(st.sampled_from(before.matches))
    paid = [leg for leg in match.legs if leg[1] in {line.id for line in lines}]
    if not paid:
        # A credit note and its item: no line has a part in it.
        return
    e, i, _ = data.draw(st.sampled_from(paid))
    item, line = next(it for it in items if it.id == e), next(it for it in lines if it.id == i)
    lost = data.draw(st.sampled_from([(), ("reference",), ("iban",), ("name",), ("reference", "name"), ("group",)]))
    shift = data.draw(st.sampled_from([0, 0, 1, 9]))
    if data.draw(st.booleans()):
        rival = replace(item, id="rival", due=(item.due or 0) + shift, **dict.fromkeys(lost))  # type: ignore[arg-type]
        after = run([*items, rival], lines, RULES)
    else:
        fields = dict.fromkeys("text" if name == "reference" else name for name in lost)
        # A later one: an earlier equal payment is not a rival, but makes this one the duplicate.
        double = replace(line, id="rival", day=(line.day or 0) + 7 + shift, tie="zz", **fields)  # type: ignore[arg-type]
        after = run(items, [*lines, double], RULES)
    event(f"{match.confidence.name}, group {bool(dict(match.levels)['group'])}")
    known = {old.ends: old for old in before.matches}
    for new in after.matches:
        old = known.get(new.ends)
        if old is not None:
            assert new.confidence <= old.confidence
            assert new.auto <= old.auto


def _balance(result: Proposals, expected: pl.DataFrame, incoming: pl.DataFrame) -> None:
    """Check what legs and adjustments take of every transaction, by nothing but the frames."""
    adjusted = result.adjustments.select("proposal", "expected", "incoming", "amount_minor")
    for frame, ends, column in (
        (expected, ("expected", "contra_expected"), "settled_minor"),
        (incoming, ("incoming", "contra_incoming"), "amount_minor"),
    ):
        taken = pl.concat(
            [
                *(result.legs.select("proposal", ordinal=end, minor=pl.col(column).cast(pl.Int128)) for end in ends),
                adjusted.select("proposal", ordinal=ends[0], minor=pl.col("amount_minor").cast(pl.Int128)),
            ]
        ).drop_nulls("ordinal")
        sums = taken.group_by("ordinal").agg(pl.col("minor").sum()).join(frame, on="ordinal", how="left")
        assert sums.filter(~pl.col("minor").is_between(1, "amount_minor")).is_empty()
        # What is adjusted is also settled by a leg of the same proposal.
        legs = pl.concat([result.legs.select("proposal", ordinal=end) for end in ends])
        assert (
            adjusted.select("proposal", ordinal=ends[0])
            .drop_nulls()
            .join(legs, on=["proposal", "ordinal"], how="anti")
            .is_empty()
        )
        groups = result.matches.with_row_index("proposal").filter(pl.col("group_level") > 0).select("proposal")
        whole = taken.join(groups, on="proposal").group_by("ordinal").agg(pl.col("minor").sum())
        assert whole.join(frame, on="ordinal").filter(pl.col("minor") != pl.col("amount_minor")).is_empty()
    assert result.legs.filter((pl.col("amount_minor") < 1) | (pl.col("settled_minor") < 1)).is_empty()
    legs = result.legs.group_by("proposal").agg(pl.col("amount_minor").sum(), pl.len()).sort("proposal")
    assert legs["amount_minor"].to_list() == result.matches["amount_minor"].to_list()
    assert legs["len"].to_list() == result.matches["size"].to_list()


@PROPERTY
@given(worlds())
def test_legs_and_adjustments_balance(drawn: Sides) -> None:
    expected, incoming = _frames(*drawn)
    for rules in (RULES, replace(RULES, amount_tolerance_minor=2), replace(RULES, amount_tolerance_basis_points=500)):
        _balance(propose(expected, incoming, rules, None, names_frame([*drawn[0], *drawn[1]])), expected, incoming)


@PROPERTY
@given(worlds(), st.sampled_from(["pending", "reversal", "duplicate"]), st.randoms(use_true_random=False))
def test_nothing_that_is_uncertain_by_itself_is_accepted(drawn: Sides, flag: str, chance: random.Random) -> None:
    items, lines = drawn
    flagged = {line.id for line in lines if chance.random() < 0.5}
    lines = [replace(line, **{flag: True}) if line.id in flagged else line for line in lines]  # type: ignore[arg-type]
    by_id = {line.id: line for line in lines}
    for match in run(items, lines, RULES).matches:
        paying = [by_id[i] for _, i, _ in match.legs if i in by_id]
        assert not any(line.reversal for line in paying)
        if match.auto:
            assert not any(line.pending or line.duplicate for line in paying)
            assert match.status is Uniqueness.UNIQUE


@PROPERTY
@given(worlds())
def test_amount_and_date_alone_are_never_accepted(drawn: Sides) -> None:
    items, lines = drawn
    mute = [replace(line, text=None, end_to_end_id=None, name=None, iban=None, ultimate=None) for line in lines]
    # A credit note and what it is of say who they are themselves.
    paid = [match for match in run(items, mute, RULES).matches if match.kind is not MatchKind.CREDIT_NOTE]
    assert not any(match.auto or match.confidence > Confidence.MEDIUM for match in paid)
    silent = [replace(item, reference=None, end_to_end_id=None, name=None, iban=None, group=None) for item in items]
    assert not any(
        match.auto or match.confidence > Confidence.LOW for match in run(silent, lines, RULES).pairs.values()
    )


@settings(PROPERTY, max_examples=6)
@given(worlds(most=3))
def test_what_was_rejected_is_never_proposed_again_in_any_form(drawn: Sides) -> None:
    rejected: set[tuple[str, str]] = set()
    for _ in range(40):
        outcome = run(*drawn, RULES, rejected)
        legs = {(e, i) for match in outcome.matches for e, i, _ in match.legs}
        assert not legs & rejected
        assert not {rival for _, _, rival in outcome.alternatives} & rejected
        if not legs:
            break
        rejected |= legs
    assert not legs


@PROPERTY
@given(worlds(), st.integers(2, 1_000))
def test_what_is_accepted_does_not_depend_on_the_unit_of_money(drawn: Sides, factor: int) -> None:
    # Rounding, fees and equal parts are measured in minor units, and only ever proposed; what is accepted is not.
    items, lines = drawn
    scaled = [[replace(row, amount=row.amount * factor) for row in rows] for rows in drawn]
    first, second = run(items, lines, RULES), run(*scaled, RULES)  # type: ignore[arg-type]

    def accepted(outcome: Outcome) -> set[object]:
        return {(match.ends, match.confidence) for match in outcome.matches if match.auto}

    assert accepted(second) == accepted(first)
