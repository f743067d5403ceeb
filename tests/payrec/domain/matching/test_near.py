"""References that are quoted in part or but for a digit: what comes near what, and what that may decide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.matching.digits import (
    CUT_DIGITS_MAX,
    DIGITS_MAX,
    EDITED_DIGITS_MIN,
    PART_DIGITS_MIN,
    QUOTED_DIGITS_MAX,
    is_alike,
    quoted_digits,
    reference_digits,
)
from payrec.domain.matching.line_rules import Required
from payrec.domain.matching.near import alike
from payrec.domain.matching.pair import Item as PairItem
from payrec.domain.matching.pair import Line as PairLine
from payrec.domain.matching.pair import judged
from payrec.domain.matching.periods import other_period
from payrec.domain.matching.rules import (
    KEY_ITEMS_MAX,
    Confidence,
    EndToEndLevel,
    MatchingRules,
    ReferenceLevel,
    Uniqueness,
)
from support.matching_frames import Item, Line, only, run, sure

AUTO = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")
REFERENCE = "INV-2026-0417123"
NEARLY = [
    "0417123", "417123", "INV 417123", "2026-0417123", "inv-2026-041712", "INV-2026-04171", "INV-2026-0417132",
    "INV-2026-0417823", "INV-2026-041723", "INV-2026-04171233", "INV-2062-0417123", "/ROC/99/URI/INV-2026-0417124",
]  # fmt: skip
NOT_NEARLY = ["7123", "INV-2026-0417", "INV-2026-0417459", "INV-2026-0714123", "thanks", "0417132"]
DIGITS = st.text("0123", min_size=1, max_size=DIGITS_MAX)


def number(digits: str) -> int:
    return int(f"1{digits}")


def edits(digits: str) -> set[str]:
    """Return what one slip of a finger makes of digits, and they themselves."""
    splits = [(digits[:at], digits[at:]) for at in range(len(digits) + 1)]
    changed = {head + other + tail[1:] for head, tail in splits if tail for other in "0123456789"}
    missing = {head + tail[1:] for head, tail in splits if tail}
    extra = {head + other + tail for head, tail in splits for other in "0123456789"}
    swapped = {head + tail[1] + tail[0] + tail[2:] for head, tail in splits if len(tail) > 1}
    return {digits} | changed | missing | extra | swapped


def nearly(asked: str, quoted: str) -> bool:
    cut = [asked[:-count] for count in range(1, CUT_DIGITS_MAX + 1)]
    part = len(quoted) >= PART_DIGITS_MIN and (asked.endswith(quoted) or quoted in cut)
    mistaken = len(asked) >= EDITED_DIGITS_MIN and quoted in edits(asked)
    return part or (mistaken and not other_period(number(asked), number(quoted)))


@pytest.mark.parametrize("text", ["Kunde 110023", "Kd.-Nr. 110032", "customer no. 110032", "Patient 110023"])
def test_the_number_of_a_customer_is_no_mistyped_reference(text: str) -> None:
    items = [Item("a", reference="RE-110032", name="Foo KG"), Item("b", reference="RE-120555", name="Foo KG")]
    result = run(items, [Line("x", text=text, name="Foo KG")], AUTO)
    assert [match.auto for match in result.matches] == [False]
    # What is asked for by that very number is named by it.
    assert only(run([Item("c", reference="110032", name="Foo KG")], [Line("x", text="Kunde 110032")], AUTO)).auto


@given(st.lists(st.tuples(DIGITS, DIGITS), min_size=1, max_size=20), st.data())
@settings(max_examples=300, deadline=None)
def test_what_comes_near_is_a_part_or_one_slip_away(pairs: list[tuple[str, str]], data: st.DataObject) -> None:
    slips = [(asked, data.draw(st.sampled_from(sorted(edits(asked))))) for asked, _ in pairs]
    both = [(asked, quoted) for asked, quoted in pairs + slips if 0 < len(quoted) <= DIGITS_MAX]
    asked, quoted = (np.array([number(pair[side]) for pair in both]) for side in (0, 1))
    found = [nearly(*pair) for pair in both]
    assert alike(asked, quoted).tolist() == found
    assert [is_alike(number(asked), number(quoted)) for asked, quoted in both] == found


@pytest.mark.parametrize("quoted", ["0000", "00000", "00001", "000000", "10000", "00010"])
def test_numbers_of_zeros_have_as_many_digits_as_others(quoted: str) -> None:
    for asked in ("00000", "000000", "0000000"):
        assert alike(np.array([number(asked)]), np.array([number(quoted)])).tolist() == [nearly(asked, quoted)]


@given(st.text(max_size=60))
def test_digits_of_any_text_fit_and_are_few(text: str) -> None:
    quoted = quoted_digits(text, text) or []
    assert len(quoted) <= QUOTED_DIGITS_MAX
    assert len(set(quoted)) == len(quoted)
    for found in [*quoted, reference_digits(text) or number("00000")]:
        assert str(found).startswith("1")
        assert 5 <= len(str(found)) - 1 <= DIGITS_MAX


def test_digits_are_those_of_words_and_of_their_parts() -> None:
    text = "RE-Nr. INV-2026-0417123 /ROC/2528243/URI/17017 12.03.2026"
    words = ["20260417123", "252824317017", "2528243", "17017"]
    assert quoted_digits(text) == [number(digits) for digits in words]
    assert quoted_digits("12.03.2026 a1b2 é00042 12.13.2026") == [number("00042"), number("12132026")]
    assert quoted_digits(None, "RF18 5390 0754 7034") == [number("18539007547034")]
    assert quoted_digits("thanks, 4711") is None
    assert reference_digits("2026/0417123") == number("20260417123")
    assert reference_digits("1" * 40) == number("1" * DIGITS_MAX)
    assert reference_digits("A-4711") is None


@pytest.mark.parametrize("text", NEARLY)
def test_what_is_nearly_quoted_is_found_among_many_of_one_amount_and_waits_for_a_person(text: str) -> None:
    others = [Item(f"o{at}", reference=f"INV-2026-{5_000_000 + 977 * at:07d}") for at in range(KEY_ITEMS_MAX + 9)]
    match = only(run([Item("e", reference=REFERENCE), *others], [Line("i", text=text)], AUTO))
    assert match.item == "e"
    levels = dict(match.levels)
    assert (levels["reference"], levels["end_to_end"]) == (ReferenceLevel.NEAR, EndToEndLevel.UNKNOWN)
    assert (match.confidence, match.auto) == (Confidence.MEDIUM, False)


@pytest.mark.parametrize("text", NOT_NEARLY)
def test_what_only_looks_like_it_says_nothing(text: str) -> None:
    match = only(run([Item("e", reference=REFERENCE)], [Line("i", text=text)], AUTO))
    assert dict(match.levels)["reference"] != ReferenceLevel.NEAR
    assert match.confidence is Confidence.LOW


def test_of_equal_items_of_one_payer_the_one_is_meant_that_is_nearly_quoted() -> None:
    references = [f"INV-2026-{417_123 + 3_456 * at:07d}" for at in range(6)]
    items = [Item(f"e{at}", reference=reference, name="Bolt") for at, reference in enumerate(references)]
    line = Line("i", text=f"Invoice {references[4][:-1]}", name="Bolt")
    match = only(run(items, [line], AUTO))
    assert match.item == "e4"
    assert sure(match) == (Confidence.HIGH, Uniqueness.UNIQUE, True)
    # Who does not say who he is may mean another payer altogether.
    assert sure(only(run(items, [replace(line, name=None)], AUTO))) == (Confidence.MEDIUM, Uniqueness.CONTESTED, False)


@pytest.mark.parametrize("known", ["name", "iban"])
@pytest.mark.parametrize("other", ["INV-2026-0417124", "INV-2026-0417199", "INV-2026-0417023", "INV-2026-0517123"])
def test_who_is_asked_by_numbers_in_a_row_may_have_meant_one_that_is_not_there(other: str, known: str) -> None:
    payer: dict[str, Any] = {known: "BOLT"}
    somebody: dict[str, Any] = {known: "ADA"}
    items = [
        Item("e", reference=REFERENCE, **payer),
        Item("same", reference="INV-2026-5000000", **payer),
        Item("row", reference=other, amount=77_700, **payer),
    ]
    line = Line("i", text="INV-2026-4017123", **payer)
    match = run(items, [line], AUTO).pairs["e", "i"]
    assert sure(match) == (Confidence.MEDIUM, Uniqueness.CONTESTED, False)
    # Somebody else's are not of that row.
    items[2] = replace(items[2], **somebody)
    assert sure(run(items, [line], AUTO).pairs["e", "i"]) == (Confidence.HIGH, Uniqueness.UNIQUE, True)


def test_a_row_of_more_than_is_compared_is_one_all_the_same() -> None:
    row = [Item(f"o{at}", reference=f"INV-2026-04{at:02d}123", amount=50_000 + at, name="Bolt") for at in range(30)]
    items = [Item("same", reference="INV-2026-5000000", name="Bolt"), *row, Item("e", reference=REFERENCE, name="Bolt")]
    match = run(items, [Line("i", text="INV-2026-417123", name="Bolt")], AUTO).pairs["e", "i"]
    assert sure(match) == (Confidence.MEDIUM, Uniqueness.CONTESTED, False)


def test_two_that_are_nearly_quoted_are_ambiguous() -> None:
    items = [Item("a", reference="INV-2026-0417124"), Item("b", reference="INV-2026-0417125")]
    match = only(run(items, [Line("i", text=REFERENCE)], AUTO))
    assert sure(match) == (Confidence.LOW, Uniqueness.AMBIGUOUS, False)


def test_another_amount_is_not_looked_at() -> None:
    assert run([Item("e", reference=REFERENCE, amount=9_000)], [Line("i", text="417123")], AUTO).matches == []


def test_what_is_quoted_in_full_with_its_amount_is_nobody_elses() -> None:
    items = [Item("a", reference=REFERENCE), Item("b", reference="INV-2026-0417124")]
    found = run(items, [Line("i", text=REFERENCE)], AUTO)
    assert sure(only(found)) == (Confidence.EXACT, Uniqueness.UNIQUE, True)
    both = run(items[:1], [Line("i", text=REFERENCE), Line("n", text="INV-2026-0417124")], AUTO)
    assert sure(only(both)) == (Confidence.EXACT, Uniqueness.UNIQUE, True)


def test_a_reference_of_many_is_not_nearly_quoted_instead() -> None:
    items = [Item(f"e{at}", reference="RENT-2026", amount=10_000 + at) for at in range(KEY_ITEMS_MAX + 1)]
    items.append(Item("n", reference="RENT-20261", amount=10_004))
    found = run(items, [Line("i", text="RENT-2026", amount=10_004)], AUTO)
    assert all(dict(match.levels)["reference"] != ReferenceLevel.NEAR for match in found.matches)


def test_a_required_reference_has_to_be_quoted() -> None:
    strict = MatchingRules(required=Required.REFERENCE)
    found = run([Item("e", reference=REFERENCE, name="Bolt")], [Line("i", text="417123", name="Bolt")], strict)
    assert found.matches == []


@pytest.mark.parametrize("text", [*NEARLY, *NOT_NEARLY, REFERENCE])
def test_a_pair_by_itself_is_what_a_run_says_of_it(text: str) -> None:
    match = only(run([Item("e", reference=REFERENCE)], [Line("i", text=text)], AUTO))
    said: dict[str, Any] = {"currency": "EUR", "direction": 1, "amount_minor": 10_000, "total_minor": 10_000}
    item = PairItem(**said, reference_key=2, reference_digits=reference_digits(REFERENCE))
    line = PairLine(**said, reference_keys=(4,), quoted_digits=tuple(quoted_digits(text) or ()))
    if text != REFERENCE:
        found = judged(item, line, AUTO).levels["reference"]
        assert (found == ReferenceLevel.NEAR) == (dict(match.levels)["reference"] == ReferenceLevel.NEAR)


def test_items_and_lines_made_to_come_near_each_other_bring_no_more_pairs_than_others() -> None:
    items = [Item(f"e{at}", reference=f"{at:04d}-0417123") for at in range(200)]
    lines = [Line(f"i{at}", text="0417123 0417132 0417124") for at in range(200)]
    assert run(items, lines, AUTO).proposals.counts.candidates == 0


def test_lines_of_own_money_beside_it_do_not_matter() -> None:
    own = [Line("a", direction=-1, account="GIRO", iban="SAVINGS"), Line("b", account="SAVINGS", iban="GIRO")]
    lines = [*own, Line("p", amount=9_000, text="INV-2026-0000001"), Line("i", text="417123", amount=11_000)]
    items = [Item("o", reference="INV-2026-0000001", amount=9_000), Item("e", reference=REFERENCE, amount=11_000)]
    assert {("e", "i"), ("o", "p")} <= run(items, lines, AUTO).pairs.keys()
