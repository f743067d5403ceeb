"""What the ledger posts for each decision: its number, its day, the version of its codes, and what it takes back."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from itertools import count
from uuid import UUID

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from payrec.domain.posting_ledger import Ledger, Part, Posted, Returned
from payrec.domain.postings import Adjusted, End, Line, Settlement, countered, netted, share_of
from support.posted_match import BOOKS, ITEM, LATER, LINE, PAYMENT

DAY = date(2026, 3, 12)
MATCH, RETURN = UUID(int=1), UUID(int=2)


def day(number: int) -> date:
    return DAY + timedelta(days=number)


def return_of(number: int, *parts: Part, back: End | None = None) -> Returned:
    change_id = UUID(int=number)
    return Returned(
        return_id=RETURN, change_id=change_id, match_id=MATCH, effective_on=day(number), parts=parts, back=back
    )


def test_a_match_its_return_and_its_reversal_are_posted_each_by_its_day_and_all_by_one_version() -> None:
    legs = [Settlement(PAYMENT, ITEM, 100, 100)]
    ledger = Ledger(codes={3: BOOKS}, version=3, sequence=41)
    ledger.accept(MATCH, legs, [], day(0))
    lines = (Line("B", 100, "EUR", None, LINE), Line("R", -100, "EUR", "E1"))
    assert ledger.new == [
        Posted(sequence=42, kind="match", source_id=MATCH, lines=lines, codes_version=3, effective_on=day(0))
    ]
    ledger = Ledger(codes={3: BOOKS, 4: LATER}, version=4, sequence=50, stored=ledger.new)
    back = End(id=RETURN, is_line=True, sign=-1, currency="EUR", name="A", whole_minor=80, beside_minor=-3)
    ledger.give_back(return_of(1, Part(taken=PAYMENT, taken_minor=60, settled=ITEM, settled_minor=60), back=back))
    ledger.reverse(MATCH, day(2))
    assert ledger.new == [
        Posted(
            sequence=51,
            kind="return",
            source_id=RETURN,
            lines=(
                Line("B", -60, "EUR", None, LINE),
                Line("R", 60, "EUR", "E1"),
                # What is charged for the return, three quarters of which this takes.
                Line("B", -2, "EUR"),
                Line("F", 2, "EUR"),
            ),
            codes_version=3,
            effective_on=day(1),
            change_id=UUID(int=1),
            reverses_sequence=42,
            charged={RETURN: -2},
        ),
        Posted(
            sequence=52,
            kind="match_reversal",
            source_id=MATCH,
            lines=(
                Line("B", -40, "EUR", None, LINE),
                Line("R", 40, "EUR", "E1"),
                Line("B", 2, "EUR"),
                Line("F", -2, "EUR"),
            ),
            codes_version=3,
            effective_on=day(2),
            reverses_sequence=42,
        ),
    ]


def test_a_match_from_elsewhere_is_taken_back_by_its_id_and_by_one_version() -> None:
    legs = [Settlement(PAYMENT, ITEM, 100, 100)]
    ledger = Ledger(codes={3: BOOKS}, version=3, sequence=41)
    ledger.know(MATCH, legs, [], day(0))
    ledger.give_back(return_of(1, Part(taken=PAYMENT, taken_minor=60, settled=ITEM, settled_minor=60)))
    ledger = Ledger(codes={3: BOOKS, 4: LATER}, version=4, sequence=42, stored=ledger.new)
    ledger.know(MATCH, legs, [], day(0))
    ledger.reverse(MATCH, day(2))
    whole = [*ledger.stored, *ledger.new]
    lines = {minor: (Line("B", -minor, "EUR", None, LINE), Line("R", minor, "EUR", "E1")) for minor in (60, 40)}
    assert whole == [
        Posted(
            sequence=42,
            kind="return",
            source_id=RETURN,
            lines=lines[60],
            codes_version=3,
            effective_on=day(1),
            change_id=UUID(int=1),
            reverses_id=MATCH,
        ),
        Posted(
            sequence=43,
            kind="match_reversal",
            source_id=MATCH,
            lines=lines[40],
            codes_version=3,
            effective_on=day(2),
            reverses_id=MATCH,
        ),
    ]


def test_the_last_classification_is_taken_back_in_whichever_order_they_are_read() -> None:
    ledger = Ledger(codes={3: BOOKS}, version=3, sequence=0)
    change_id = UUID(int=7)
    ledger.classify(PAYMENT, 40, category="tax", code="G", change_id=UUID(int=6), on=day(0))
    ledger.restore(LINE, day(1))
    ledger.classify(PAYMENT, 40, category="rent", code=None, change_id=change_id, on=day(2))
    money, against = Line("B", 40, "EUR", None, LINE), Line("C", -40, "EUR")
    first, _, last = ledger.new
    assert first.lines == (money, Line("G", -40, "EUR"))
    assert last == Posted(
        sequence=3,
        kind="classification",
        source_id=LINE,
        lines=(money, against),
        codes_version=3,
        effective_on=day(2),
        change_id=change_id,
    )
    ledger = Ledger(codes={3: BOOKS, 4: LATER}, version=4, sequence=3, stored=ledger.new[::-1])
    ledger.restore(LINE, day(3))
    assert ledger.new == [
        Posted(
            sequence=4,
            kind="classification_reversal",
            source_id=LINE,
            lines=countered([money, against]),
            codes_version=3,
            effective_on=day(3),
            reverses_sequence=3,
        )
    ]


def test_what_is_not_balanced_is_never_posted() -> None:
    half = Posted(
        sequence=1, kind="match", source_id=MATCH, lines=(Line("B", 1, "EUR"),), codes_version=1, effective_on=DAY
    )
    ledger = Ledger(codes={1: BOOKS}, version=1, sequence=1, stored=[half])
    with pytest.raises(AssertionError) as refused:
        ledger.reverse(MATCH, DAY)
    assert str(refused.value) == f"the match_reversal of {MATCH} is not balanced"
    assert (ledger.new, ledger.sequence) == ([], 1)


def test_what_a_match_took_of_a_payment_beside_its_legs_comes_back_by_its_adjustment() -> None:
    ledger = Ledger(codes={1: BOOKS}, version=1, sequence=0)
    ledger.accept(MATCH, [Settlement(PAYMENT, ITEM, 100, 100)], [Adjusted("over_payment", LINE, 5)], DAY)
    parts = (Part(taken=PAYMENT, taken_minor=100, settled=ITEM, settled_minor=100), Part(taken=PAYMENT, taken_minor=5))
    ledger.give_back(Returned(return_id=RETURN, change_id=UUID(int=5), match_id=MATCH, effective_on=DAY, parts=parts))
    taken, back = ledger.new
    assert [(one.code, one.minor) for one in taken.lines] == [("B", 105), ("R", -100), ("O", -5)]
    assert netted(taken.lines, back.lines) == ()
    # Nothing is left that a reversal could counter.
    ledger.reverse(MATCH, DAY)
    assert len(ledger.new) == 2


def charged(ledger: Ledger) -> int:
    """Return what all postings say that a provider has kept."""
    return sum(line.minor for one in [*ledger.stored, *ledger.new] for line in one.lines if line.code == "F")


@given(
    beside=st.integers(-500, 500).filter(bool),
    amounts=st.lists(st.integers(1, 97), min_size=2, max_size=5),
    data=st.data(),
)
def test_what_is_kept_of_a_line_in_parts_comes_to_the_whole_whatever_was_taken_back_between(
    beside: int, amounts: list[int], data: st.DataObject
) -> None:
    payment = PAYMENT._replace(whole_minor=sum(amounts), beside_minor=beside)
    ledger = Ledger(codes={1: BOOKS}, version=1, sequence=0)
    standing: dict[UUID, int] = {}
    numbers = count(20)
    elsewhere = UUID(int=9)
    taken = 0
    if data.draw(st.booleans(), label="a part is in the books already"):
        taken = amounts.pop()
        ledger.know(elsewhere, [Settlement(payment, ITEM, taken, taken)], [], DAY)
    while amounts:
        if len(standing) > 0 and data.draw(st.booleans(), label="take one back"):
            match_id: UUID = data.draw(st.sampled_from(sorted(standing)))
            amounts.append(standing.pop(match_id))
            ledger.reverse(match_id, DAY)
        elif len(amounts) == 1 and data.draw(st.booleans(), label="classify the rest"):
            ledger.classify(payment, amounts[0], category="rent", code=None, change_id=UUID(int=next(numbers)), on=DAY)
            amounts.clear()
        else:
            match_id = UUID(int=next(numbers))
            standing[match_id] = amounts.pop(data.draw(st.integers(0, len(amounts) - 1)))
            ledger.accept(match_id, [Settlement(payment, ITEM, *[standing[match_id]] * 2)], [], DAY)
        if data.draw(st.booleans(), label="read again"):
            ledger = Ledger(codes={1: BOOKS}, version=1, sequence=ledger.sequence, stored=[*ledger.stored, *ledger.new])
            if taken:
                ledger.know(elsewhere, [Settlement(payment, ITEM, taken, taken)], [], DAY)
        assume(next(numbers) < 60)
    assert charged(ledger) == -(beside - share_of(payment, taken))


def test_what_is_kept_of_parts_that_were_posted_before_it_was_said_is_what_each_had_by_itself() -> None:
    payment = PAYMENT._replace(beside_minor=-15)
    ledger = Ledger(codes={1: BOOKS}, version=1, sequence=0)
    ledger.accept(MATCH, [Settlement(payment, ITEM, 100, 100)], [], DAY)
    [first] = ledger.new
    assert first.charged == {LINE: -8}
    ledger = Ledger(codes={1: BOOKS}, version=1, sequence=1, stored=[replace(first, charged={})])
    ledger.accept(RETURN, [Settlement(payment, ITEM, 100, 100)], [], DAY)
    assert ledger.new[0].charged == {LINE: -7}
    assert charged(ledger) == 15


def test_what_is_charged_for_a_return_of_two_payments_comes_to_the_whole() -> None:
    back = End(id=RETURN, is_line=True, sign=-1, currency="EUR", name="A", whole_minor=100, beside_minor=-5)
    other = UUID(int=12)
    ledger = Ledger(codes={1: BOOKS}, version=1, sequence=0)
    for match_id in (MATCH, other):
        ledger.accept(match_id, [Settlement(PAYMENT, ITEM, 50, 50)], [], DAY)
    part = Part(taken=PAYMENT, taken_minor=50, settled=ITEM, settled_minor=50)
    one = return_of(1, part, back=back)
    ledger.give_back(one)
    ledger.give_back(replace(one, match_id=other))
    assert [posted.charged for posted in ledger.new if posted.kind == "return"] == [{RETURN: -2}, {RETURN: -3}]
    # What is taken back takes its own share along, and the next one has what is missing then.
    ledger.reverse(other, DAY)
    assert charged(ledger) == 2
