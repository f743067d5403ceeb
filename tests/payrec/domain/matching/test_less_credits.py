"""A payment of invoices less credit notes: what proves it, what only hints at it, and that every amount is settled."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.matching.line_rules import Required
from payrec.domain.matching.rules import (
    KEY_ITEMS_MAX,
    Confidence,
    GroupLevel,
    MatchingRules,
    MatchKind,
    Uniqueness,
)
from support.matching_frames import DUE_IN_TIME, Item, Line, Outcome, Proposal, level, only, run, sure

ONE = Item("one", amount=10_000, reference="INV-10001", name="Alpha", iban="DE1")
TWO = Item("two", amount=1_500, reference="INV-10002", name="Alpha")
NOTE = Item("note", amount=2_000, direction=-1, reference="CN-10001", name="Alpha")
LINE = Line("i", amount=8_000, text="INV-10001 less CN-10001", name="Alpha")
ALONE = replace(LINE, text="INV-10001")

EXACT = (Confidence.EXACT, Uniqueness.UNIQUE, True)
HINT = (Confidence.MEDIUM, Uniqueness.UNIQUE, False)


_HELD = {
    "quoted": (GroupLevel.BY_REFERENCES_LESS, MatchKind.MANY_TO_MANY, EXACT),
    "silent": (GroupLevel.BY_CREDIT_NOTES, MatchKind.MANY_TO_MANY, HINT),
    "key": (GroupLevel.BY_KEY_LESS, MatchKind.MANY_TO_MANY, EXACT),
    "plain": (GroupLevel.BY_REFERENCES, MatchKind.ONE_TO_MANY, EXACT),
    "whole": (GroupLevel.BY_KEY, MatchKind.ONE_TO_MANY, EXACT),
}
"""What each way to say it comes to."""


def less(outcome: Outcome) -> list[Proposal]:
    return [match for match in outcome.matches if level(match).less_credits]


def test_what_is_quoted_less_the_quoted_credit_note_proves() -> None:
    match = only(outcome := run([ONE, NOTE], [LINE]))
    assert (level(match), match.kind) == (GroupLevel.BY_REFERENCES_LESS, MatchKind.MANY_TO_ONE)
    assert match.legs == (("one", "i", 8_000), ("one", "note", 2_000))
    assert (sure(match), match.amount, match.named) == (EXACT, 10_000, 2)
    assert not outcome.items
    assert not outcome.lines
    leg = outcome.proposals.legs.row(1, named=True)
    assert (leg["expected"], leg["contra_expected"], leg["incoming"]) == (0, 1, None)


def test_a_supplier_is_paid_less_his_credit_note() -> None:
    turned = [replace(row, direction=-row.direction) for row in (ONE, TWO, NOTE)]
    line = replace(LINE, direction=-1, amount=9_500, text="INV-10001, INV-10002, CN-10001")
    match = only(run(turned, [line]))
    assert (match.kind, sure(match)) == (MatchKind.MANY_TO_MANY, EXACT)
    assert match.legs == (("two", "i", 1_500), ("one", "i", 8_000), ("one", "note", 2_000))


def test_an_item_of_one_minor_unit_is_settled_as_any_other() -> None:
    match = only(
        run([ONE, replace(TWO, amount=1), NOTE], [replace(LINE, amount=8_001, text="INV-10001, INV-10002, CN-10001")])
    )
    assert match.legs == (("two", "i", 1), ("one", "i", 8_000), ("one", "note", 2_000))


def test_a_credit_note_of_all_of_an_item_leaves_nothing_of_it_to_the_line() -> None:
    notes = [replace(NOTE, amount=ONE.amount), replace(NOTE, id="more", amount=500, reference="CN-10002")]
    line = replace(LINE, amount=1_000, text="INV-10001, INV-10002, CN-10001, CN-10002")
    match = only(run([ONE, TWO, *notes], [line]))
    assert sorted(match.legs) == [("one", "note", 10_000), ("two", "i", 1_000), ("two", "more", 500)]
    assert (match.kind, sure(match)) == (MatchKind.MANY_TO_MANY, EXACT)


def test_all_of_a_group_id_less_its_credit_notes_proves() -> None:
    items = [replace(row, group="PO-90001", name=f"Buyer {row.id}", iban=None) for row in (ONE, TWO, NOTE)]
    match = only(run(items, [Line("i", amount=9_500, text="payout PO-90001", name="PSP")]))
    assert (level(match), sure(match)) == (GroupLevel.BY_KEY_LESS, EXACT)
    whole = only(run(items, [Line("i", amount=11_500, text="payout PO-90001")]))
    assert (level(whole), len(whole.legs)) == (GroupLevel.BY_KEY, 2)


def test_the_only_credit_note_that_fits_is_proposed_for_a_person() -> None:
    other = replace(NOTE, id="other", amount=1_900, reference="CN-10002")
    match = only(run([ONE, NOTE, other], [ALONE]))
    assert (level(match), sure(match)) == (GroupLevel.BY_CREDIT_NOTES, HINT)
    assert match.legs == (("one", "i", 8_000), ("one", "note", 2_000))
    assert (match.named, match.tried) == (3, 4)


def test_each_line_has_the_credit_notes_of_its_own_counterparty_taken_off() -> None:
    """Also where one of three has several that would do."""
    items, lines = [], []
    for n, short in enumerate((2_000, 3_000, 4_000)):
        name = f"Buyer {'ABC'[n]}"
        items += [
            replace(ONE, id=f"e{n}", reference=f"INV-1000{n}", name=name, iban=None),
            replace(NOTE, id=f"c{n}", amount=short, reference=f"CN-1000{n}", name=name),
        ]
        lines.append(Line(f"i{n}", amount=10_000 - short, text=f"INV-1000{n}", name=name))
    outcome = run([*items, replace(items[3], id="again", reference="CN-2")], lines)
    assert [match.legs for match in less(outcome)] == [
        ((f"e{n}", f"i{n}", 10_000 - short), (f"e{n}", f"c{n}", short)) for n, short in ((0, 2_000), (2, 4_000))
    ]
    assert {(match.named, match.tried) for match in less(outcome)} == {(2, 2)}


def test_of_three_credit_notes_all_sets_are_tried() -> None:
    others = [replace(NOTE, id=f"n{n}", amount=1_000 + n, reference=None) for n in range(2)]
    match = only(run([ONE, NOTE, *others], [ALONE]))
    assert (match.named, match.tried) == (4, 8)


def test_what_is_quoted_is_tried_once_and_by_the_id_it_is_quoted_by() -> None:
    by_id = replace(NOTE, reference=None, end_to_end_id="E2E-CN-10001")
    line = replace(LINE, text="INV-10001", end_to_end_id="E2E-CN-10001")
    for note, quoting in ((NOTE, LINE), (by_id, line)):
        match = only(run([ONE, note], [quoting]))
        assert (level(match), match.tried, match.named) == (GroupLevel.BY_REFERENCES_LESS, 1, 2)


def test_a_sum_that_leaves_64_bits_is_none_and_keeps_no_other_from_its_own() -> None:
    huge = [replace(ONE, id=f"h{n}", amount=2**63 - 1, reference=f"INV-7000{n}", name="Huge") for n in range(2)]
    note = replace(NOTE, id="hn", name="Huge", reference=None)
    lines = [ALONE, Line("j", amount=5, text="INV-70000 INV-70001", name="Huge")]
    outcome = run([ONE, NOTE, *huge, note], lines)
    assert [match.legs for match in less(outcome)] == [(("one", "i", 8_000), ("one", "note", 2_000))]


@pytest.mark.parametrize(
    "more",
    [
        [replace(NOTE, id="again", reference="CN-10002")],
        [replace(NOTE, id="a", amount=1_200, reference="A-1"), replace(NOTE, id="b", amount=800, reference="B-1")],
        # Too many to try all sets of them.
        [replace(NOTE, id=f"n{at}", amount=9_000 + at, reference=None) for at in range(KEY_ITEMS_MAX)],
    ],
)
def test_where_several_sets_fit_none_is_proposed(more: list[Item]) -> None:
    assert not less(run([ONE, NOTE, *more], [ALONE]))


def test_one_credit_note_or_all_but_not_some() -> None:
    """Of many, some set has nearly any sum."""
    notes = [replace(NOTE, id=f"n{at}", amount=100 + 2**at, reference=None) for at in range(4)]
    for short, fits in ((102, True), (101 + 102 + 104 + 108, True), (101 + 102, False), (101 + 104 + 108, False)):
        assert bool(less(run([ONE, *notes], [replace(ALONE, amount=10_000 - short)]))) == fits


@pytest.mark.parametrize(
    ("note", "line"),
    [
        ({"name": "Beta"}, {}),
        ({"currency": "USD"}, {}),
        ({"direction": 1}, {}),
        ({"amount": 2_001}, {}),
        ({"due": 30_000}, {}),
        ({}, {"amount": 7_999}),
        ({}, {"reversal": True}),
        ({}, {"text": "INV-10001 CN-10001 INV-10002"}),  # of which something is left over
    ],
)
def test_what_does_not_hold_whole_is_none(note: dict[str, Any], line: dict[str, Any]) -> None:
    assert not less(run([ONE, TWO, replace(NOTE, **note)], [replace(LINE, **line)]))
    if "text" not in line:
        assert not less(run([ONE, replace(NOTE, **note)], [replace(ALONE, **line)]))


@pytest.mark.parametrize(("due", "fits"), DUE_IN_TIME)
def test_a_credit_note_that_nobody_quotes_is_taken_off_in_time_to_the_day(due: int | None, *, fits: bool) -> None:
    assert bool(less(run([ONE, replace(NOTE, due=due)], [ALONE]))) == fits


def test_who_else_claims_the_credit_note_leaves_a_doubt() -> None:
    # The note was paid out, or so somebody says who quotes it.
    paid_out = Line("out", amount=2_000, direction=-1, text="CN-10001")
    assert not less(run([ONE, NOTE], [LINE, paid_out]))
    part = replace(paid_out, amount=700)
    [match] = less(run([ONE, NOTE], [LINE, part]))
    assert sure(match) == (Confidence.MEDIUM, Uniqueness.CONTESTED, False)
    # Of what somebody else names, nobody guesses.
    assert not less(run([ONE, NOTE], [ALONE, part]))


@pytest.mark.parametrize("pair", [("one", "note"), ("note", "one"), ("one", "i")])
def test_what_a_person_has_refused_is_not_proposed_again_and_takes_no_other_with_it(pair: tuple[str, str]) -> None:
    theirs = [replace(row, id=f"their {row.id}", name="Beta", iban=None) for row in (ONE, NOTE)]
    theirs = [replace(row, reference=f"{row.reference}7") for row in theirs]
    other = replace(LINE, id="other", text="INV-100017 less CN-100017", name="Beta")
    for line, its in ((LINE, other), (ALONE, replace(other, text="INV-100017"))):
        found = less(run([ONE, NOTE, *theirs], [line, its], rejected=[pair]))
        assert [match.legs for match in found] == [(("their one", "other", 8_000), ("their one", "their note", 2_000))]


def test_what_a_person_has_refused_claims_nothing_any_more() -> None:
    other = replace(NOTE, id="other", amount=1_500, reference="CN-10002")
    out = Line("out", amount=3_500, direction=-1, text="CN-10001 CN-10002", name="Alpha")
    found = {}
    for rejected in ((), [("one", "note")]):
        outcome = run([ONE, NOTE, other], [LINE, out], rejected=rejected)
        [match] = outcome.groups
        assert match.ends == (frozenset({"note", "other"}), frozenset({"out"}))
        found[bool(rejected)] = sure(match)
    assert found == {False: (Confidence.LOW, Uniqueness.AMBIGUOUS, False), True: EXACT}


def _beside(at: int, how: str, currency: str, sign: int) -> tuple[list[Item], Line]:
    """Return two items and a credit note of a counterparty of its own, and the line that pays them in full."""
    name, key = f"Buyer {chr(65 + at)}", f"PO-9{at:04}"
    said: dict[str, Any] = {"currency": currency, "name": name, "group": key if how in {"key", "whole"} else None}
    items = [
        Item(f"e{at}", amount=10_000, direction=sign, reference=f"INV-1{at:04}", **said),
        Item(f"f{at}", amount=1_500, direction=sign, reference=f"INV-2{at:04}", **said),
        Item(f"c{at}", amount=2_000, direction=-sign, reference=f"CN-3{at:04}", **said),
    ]
    text = {
        "quoted": f"INV-1{at:04} INV-2{at:04} CN-3{at:04}",
        "silent": f"INV-1{at:04} INV-2{at:04}",
        "plain": f"INV-1{at:04} INV-2{at:04}",
    }.get(how, key)
    amount = 11_500 if how in {"plain", "whole"} else 9_500
    return items, Line(f"i{at}", amount=amount, currency=currency, direction=sign, text=text, name=name)


def test_each_is_found_beside_the_others_as_it_is_alone() -> None:
    """In either direction and of two currencies, with groups of which no credit note is taken off."""
    ways = [(how, money, sign) for how in _HELD for money in ("EUR", "USD") for sign in (1, -1)]
    cases = [_beside(at, *way) for at, way in enumerate(ways)]
    together = run([item for items, _ in cases for item in items], [line for _, line in cases])
    by_line = {next(iter(match.ends[1] & {line.id for _, line in cases})): match for match in together.matches}
    assert len(by_line) == len(cases)
    for (how, *_), (items, line) in zip(ways, cases, strict=True):
        match = only(run(items, [line]))
        assert (level(match), match.kind, sure(match)) == _HELD[how]
        assert (match.amount, len(match.legs)) == (11_500, 2 if how in {"plain", "whole"} else 3)
        assert by_line[line.id] == match


def test_what_a_rule_requires_is_not_guessed() -> None:
    strict = MatchingRules(required=Required.REFERENCE)
    assert less(run([ONE, NOTE], [LINE], strict))
    assert not less(run([ONE, NOTE], [ALONE], strict))


def test_as_many_as_a_group_may_have() -> None:
    items = [replace(TWO, id=f"e{at}", reference=f"INV-2000{at}") for at in range(4)]
    text = " ".join(["CN-10001", *(item.reference or "" for item in items)])
    line = replace(LINE, amount=4_000, text=text)
    assert less(run([*items, NOTE], [line], MatchingRules(group_size_max=5)))
    assert not less(run([*items, NOTE], [line], MatchingRules(group_size_max=4)))
    for names, fits in ((2, False), (3, True)):
        rules = MatchingRules(group_size_max=names)
        assert (
            bool(less(run([ONE, TWO, NOTE], [replace(ALONE, amount=9_500, text="INV-10001 INV-10002")], rules))) == fits
        )


_DRAWN = st.tuples(
    st.lists(st.integers(1, 60), min_size=1, max_size=4),
    st.lists(st.integers(1, 40), min_size=1, max_size=3),
    st.booleans(),
    st.sampled_from(["quoted", "key", "silent"]),
)


@settings(deadline=None, max_examples=60)
@given(drawn=_DRAWN, seed=st.integers(0, 99))
def test_every_amount_is_settled_whatever_the_order(drawn: tuple[list[int], list[int], bool, str], seed: int) -> None:
    owed, notes, exact, how = drawn
    paid = 1_000 * (sum(owed) - sum(notes)) + (not exact)
    key = "PO-90001" if how == "key" else None
    items = [
        *(
            replace(ONE, id=f"e{at}", amount=1_000 * n, reference=f"INV-2000{at}", group=key)
            for at, n in enumerate(owed)
        ),
        *(
            replace(NOTE, id=f"c{at}", amount=1_000 * n, reference=f"CN-3000{at}", group=key)
            for at, n in enumerate(notes)
        ),
    ]
    named = [item.reference or "" for item in items if how == "quoted" or item.direction == 1]
    line = Line("i", amount=max(paid, 1), text=key or " ".join(named), name="Alpha")
    outcome = run(items, [line])
    for match in less(outcome):
        taken: Counter[str] = Counter()
        for one, other, minor in match.legs:
            assert minor > 0
            taken.update({one: minor, other: minor})
        amounts = {row.id: row.amount for row in [*items, line]}
        assert all(amounts[name] == minor for name, minor in taken.items())
        assert "i" in taken
        # What a line settles comes first, and no pair comes twice.
        contra = ["i" not in leg for leg in match.legs]
        assert contra == sorted(contra)
        assert len({leg[:2] for leg in match.legs}) == len(match.legs)
    if exact and how != "silent" and paid > 0:
        assert [sure(match) for match in less(outcome)] == [EXACT]
    shuffled = Random(seed).sample(items, len(items))  # noqa: S311 - data, not a secret
    assert less(run(shuffled, [line])) == less(outcome)
