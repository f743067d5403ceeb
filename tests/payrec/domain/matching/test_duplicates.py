from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.matching.rules import DUPLICATE_DAYS_MAX, Confidence, MatchingRules, MatchKind, Reason, Uniqueness
from support.matching_frames import Item, Line, run

AUTO_HIGH = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")
ITEM = Item("e", reference="INV-17017", iban="DE1")
FIRST = Line("x", text="INV-17017", iban="DE1")
AGAIN = replace(FIRST, id="y", day=20_603)


def test_the_earlier_of_two_equal_payments_pays_and_the_later_is_a_duplicate() -> None:
    outcome = run([ITEM], [AGAIN, FIRST], AUTO_HIGH)
    pair = outcome.pairs["e", "x"]
    assert (pair.confidence, pair.status, pair.auto) == (Confidence.EXACT, Uniqueness.UNIQUE, True)
    assert outcome.lines["y"][:2] == (Reason.DUPLICATE, "e")


def test_of_two_on_one_day_only_the_identity_tells() -> None:
    outcome = run([ITEM], [FIRST, replace(FIRST, id="y")], AUTO_HIGH)
    [pair] = outcome.pairs.values()
    assert (pair.confidence, pair.status, pair.auto) == (Confidence.LOW, Uniqueness.AMBIGUOUS, False)
    assert [reason for reason, *_ in outcome.lines.values()] == [Reason.DUPLICATE]


def test_without_a_proof_the_earlier_one_is_proposed_and_never_accepted() -> None:
    outcome = run([Item("e", iban="DE1")], [replace(FIRST, text="rent"), replace(AGAIN, text="rent")], AUTO_HIGH)
    pair = outcome.pairs["e", "x"]
    assert (pair.confidence, pair.status, pair.auto) == (Confidence.LOW, Uniqueness.AMBIGUOUS, False)


@pytest.mark.parametrize(
    "other",
    [
        replace(AGAIN, amount=9_999),
        replace(AGAIN, iban="DE2"),
        replace(AGAIN, name="Alpha"),
        replace(AGAIN, account="DE99"),
        replace(AGAIN, text="INV-17017 KD 4711"),
        replace(AGAIN, day=20_600 + DUPLICATE_DAYS_MAX + 1),
    ],
)
def test_what_differs_is_no_duplicate(other: Line) -> None:
    outcome = run([ITEM], [FIRST, other], AUTO_HIGH)
    assert Reason.DUPLICATE not in [reason for reason, *_ in outcome.lines.values()]


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (FIRST, replace(AGAIN, day=20_600 + DUPLICATE_DAYS_MAX)),
        (replace(FIRST, iban=None), replace(AGAIN, iban=None)),  # the reference alone says it
    ],
)
def test_what_is_sent_again_within_days_is_a_duplicate(first: Line, again: Line) -> None:
    assert run([ITEM], [first, again], AUTO_HIGH).lines["y"][:2] == (Reason.DUPLICATE, "e")


def test_of_two_without_a_day_only_the_identity_tells() -> None:
    outcome = run([ITEM], [replace(FIRST, day=None), replace(FIRST, id="y", day=None)], AUTO_HIGH)
    [pair] = outcome.pairs.values()
    assert (pair.confidence, pair.status, pair.auto) == (Confidence.LOW, Uniqueness.AMBIGUOUS, False)
    assert [reason for reason, *_ in outcome.lines.values()] == [Reason.DUPLICATE]


def test_what_takes_a_payment_back_is_none_of_it() -> None:
    outcome = run([ITEM], [FIRST, replace(AGAIN, reversal=True)], AUTO_HIGH)
    assert outcome.pairs["e", "x"].auto
    assert outcome.lines.get("y", (None,))[0] is not Reason.DUPLICATE


def test_its_own_end_to_end_id_makes_it_no_other_payment() -> None:
    lines = [replace(FIRST, end_to_end_id="PAY-000001"), replace(AGAIN, end_to_end_id="PAY-000002")]
    assert run([ITEM], lines).lines["y"][0] is Reason.DUPLICATE


def test_who_names_an_item_is_no_duplicate_of_who_names_none() -> None:
    silent, named = Line("x", iban="DE1"), Line("y", iban="DE1", day=20_602, end_to_end_id="E2E-20001")
    item = Item("named", iban="DE1", end_to_end_id="E2E-20001")
    # Both have an item of their own.
    outcome = run([item, Item("other", iban="DE1", due=20_603)], [silent, named], AUTO_HIGH)
    assert sorted(outcome.pairs) == [("named", "y"), ("other", "x")]
    assert outcome.pairs["named", "y"].confidence is Confidence.EXACT
    # There is one, and it is the one that is named.
    outcome = run([item], [silent, named], AUTO_HIGH)
    assert list(outcome.pairs) == [("named", "y")]
    assert outcome.lines["x"][0] is Reason.DUPLICATE


def test_as_many_items_as_payments_make_no_duplicate() -> None:
    items = [Item("jan", iban="DE1"), Item("feb", iban="DE1", due=20_602)]
    lines = [replace(FIRST, text="rent"), replace(AGAIN, text="rent")]
    outcome = run(items, lines)
    assert sorted(outcome.pairs) == [("feb", "y"), ("jan", "x")]
    third = run(items, [*lines, replace(AGAIN, id="z", text="rent", day=20_605)])
    assert third.lines["z"][0] is Reason.DUPLICATE


def test_another_item_of_the_amount_is_not_what_a_quoted_reference_pays() -> None:
    items = [ITEM, Item("other", reference="INV-17018", iban="DE1")]
    assert run(items, [FIRST, AGAIN]).lines["y"][0] is Reason.DUPLICATE


def test_instalments_of_what_needs_both_are_no_duplicates() -> None:
    [match] = run([replace(ITEM, amount=20_000)], [FIRST, AGAIN]).matches
    assert (match.kind, len(match.legs)) == (MatchKind.MANY_TO_ONE, 2)
    outcome = run([replace(ITEM, amount=20_000)], [FIRST, AGAIN, replace(AGAIN, id="z", day=20_604)])
    assert outcome.lines["z"][0] is Reason.DUPLICATE
    assert {leg[1] for match in outcome.matches for leg in match.legs} == {"x", "y"}


def test_of_what_parts_do_not_fill_the_rest_is_no_part() -> None:
    outcome = run([replace(ITEM, amount=25_000)], [FIRST, AGAIN, replace(AGAIN, id="z", day=20_604)])
    assert outcome.lines["z"][0] is Reason.DUPLICATE


def test_equal_lines_that_pay_nothing_are_no_duplicates() -> None:
    outcome = run([Item("e", amount=1)], [replace(FIRST, text="fees"), replace(AGAIN, text="fees")])
    assert {reason for reason, *_ in outcome.lines.values()} == {Reason.NO_CANDIDATE}


@pytest.mark.parametrize("text", ["INV-17017", "rent"])
def test_what_a_person_rejected_leaves_the_item_to_the_next(text: str) -> None:
    outcome = run([ITEM], [replace(FIRST, text=text), replace(AGAIN, text=text)], rejected=[("e", "x")])
    assert list(outcome.pairs) == [("e", "y")]


def test_what_is_booked_pays_before_what_is_pending() -> None:
    outcome = run([ITEM], [replace(FIRST, pending=True), AGAIN])
    assert list(outcome.pairs) == [("e", "y")]
    assert outcome.lines["x"][0] is Reason.DUPLICATE


@settings(max_examples=10)
@given(
    st.lists(st.tuples(st.integers(20_600, 20_630), st.booleans()), min_size=1, max_size=6, unique=True),
    st.integers(1, 3),
)
def test_a_duplicate_is_never_proposed_and_never_without_another(days: list[tuple[int, bool]], count: int) -> None:
    items = [Item(f"e{at}", iban="DE1", due=20_610 + at) for at in range(count)]
    lines = [replace(FIRST, id=f"x{at}", text="rent", day=day, pending=wait) for at, (day, wait) in enumerate(days)]
    outcome = run(items, lines)
    repeats = {name for name, (reason, *_) in outcome.lines.items() if reason is Reason.DUPLICATE}
    assert not repeats & {line for _, line in outcome.pairs}
    assert not repeats or len(lines) - len(repeats) >= count
    back = run(items[::-1], lines[::-1])
    assert back.pairs.keys() == outcome.pairs.keys()
    assert back.lines == outcome.lines


def test_two_parts_with_one_end_to_end_id_are_one_payment_unless_an_item_is_called_so() -> None:
    whole = Item("e", 20_000, reference="INV-17017", iban="DE1")
    parts = [replace(FIRST, end_to_end_id="A-1"), replace(AGAIN, end_to_end_id="A-2")]
    assert [match.auto for match in run([whole], parts, AUTO_HIGH).matches] == [True]
    for end_to_end_id, auto in (("PAY-9001", False), ("INV-17017", True)):
        once = [replace(line, end_to_end_id=end_to_end_id) for line in parts]
        assert [match.auto for match in run([whole], once, AUTO_HIGH).matches] == [auto]
