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


BACK = End(id=RETURN, is_line=True, sign=-1, currency="EUR", name="A", whole_minor=80)


def return_of(number: int, *parts: Part, back: End = BACK) -> Returned:
    return Returned(change_id=UUID(int=number), match_id=MATCH, effective_on=day(number), parts=parts, back=back)


def test_a_match_its_return_and_its_reversal_are_posted_each_by_its_day_and_all_by_one_version() -> None:
    legs = [Settlement(PAYMENT, ITEM, 100, 100)]
    ledger = Ledger(codes={3: BOOKS}, version=3, sequence=41)
    ledger.accept(MATCH, legs, [], day(0))
    lines = (Line("B", 100, "EUR", None, LINE), Line("R", -100, "EUR", "E1"))
    assert ledger.new == [
        Posted(sequence=42, kind="match", source_id=MATCH, lines=lines, codes_version=3, effective_on=day(0))
    ]
    ledger = Ledger(codes={3: BOOKS, 4: LATER}, version=4, sequence=50, stored=ledger.new)
    back = BACK._replace(beside_minor=-3)
    returned = return_of(1, Part(taken=PAYMENT, taken_minor=60, settled=ITEM, settled_minor=60), back=back)
    ledger.give_back(returned)
    ledger.reverse(MATCH, day(2), [returned])
    assert ledger.new == [
        Posted(
            sequence=51,
            kind="return",
            source_id=RETURN,
            lines=(
                Line("B", -60, "EUR", None, RETURN),
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
            # The return has what it took, and its charges: the payment was there, and has gone.
            lines=(Line("B", -40, "EUR", None, LINE), Line("R", 40, "EUR", "E1")),
            codes_version=3,
            effective_on=day(2),
            reverses_sequence=42,
            charged={RETURN: 0},
        ),
    ]


def test_a_match_from_elsewhere_is_taken_back_by_its_id_and_by_one_version() -> None:
    legs = [Settlement(PAYMENT, ITEM, 100, 100)]
    ledger = Ledger(codes={3: BOOKS}, version=3, sequence=41)
    ledger.know(MATCH, legs, [], day(0))
    returned = return_of(1, Part(taken=PAYMENT, taken_minor=60, settled=ITEM, settled_minor=60))
    ledger.give_back(returned)
    ledger = Ledger(codes={3: BOOKS, 4: LATER}, version=4, sequence=42, stored=ledger.new)
    ledger.know(MATCH, legs, [], day(0))
    ledger.reverse(MATCH, day(2), [returned])
    whole = [*ledger.stored, *ledger.new]
    lines = {
        minor: (Line("B", -minor, "EUR", None, line), Line("R", minor, "EUR", "E1"))
        for minor, line in ((60, RETURN), (40, LINE))
    }
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
    whole = Part(taken=PAYMENT, taken_minor=100, settled=ITEM, settled_minor=100)
    returned = return_of(5, whole, Part(taken=PAYMENT, taken_minor=5))
    ledger.give_back(returned)
    taken, back = ledger.new
    assert [(one.code, one.minor) for one in taken.lines] == [("B", 105), ("R", -100), ("O", -5)]
    assert netted(taken.lines, back.lines) == (Line("B", 105, "EUR", None, LINE), Line("B", -105, "EUR", None, RETURN))
    # Nothing is left that a reversal could counter.
    ledger.reverse(MATCH, DAY, [returned])
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
            ledger.reverse(match_id, DAY, settlements=[Settlement(payment, ITEM, *[amounts[-1]] * 2)])
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
        # Also of what is taken so far, in whichever order it was and whatever is taken back of it.
        now = sum(standing.values()) + taken if amounts else payment.whole_minor
        assert charged(ledger) == -(share_of(payment, now) - share_of(payment, taken))


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


def test_a_return_that_named_its_payment_is_told_from_that() -> None:
    """It was posted before returns had lines of their own: what is kept of the rest is as if it had."""
    payment = PAYMENT._replace(beside_minor=-20)
    ledger = Ledger(codes={1: BOOKS}, version=1, sequence=0)
    ledger.accept(MATCH, [Settlement(payment, ITEM, 100, 100)], [], DAY)
    returned = return_of(1, Part(taken=payment, taken_minor=60, settled=ITEM, settled_minor=60))
    ledger.give_back(returned)
    first, second = ledger.new
    named = tuple(line if line.incoming_id is None else line._replace(incoming_id=LINE) for line in second.lines)
    assert named != second.lines
    ledger = Ledger(codes={1: BOOKS}, version=1, sequence=2, stored=[first, replace(second, lines=named)])
    ledger.accept(UUID(int=8), [Settlement(payment, ITEM, 50, 50)], [], DAY)
    assert ledger.new[0].charged == {LINE: -5}
    ledger.reverse(MATCH, DAY, [returned])
    lines = netted(*(one.lines for one in (*ledger.stored, *ledger.new)))
    assert {line for line in lines if line.code in "BF"} == {
        Line("B", 60 + 50, "EUR", None, LINE),
        Line("B", -60, "EUR", None, RETURN),
        Line("B", -6 - 5, "EUR"),
        Line("F", 6 + 5, "EUR"),
    }


def test_what_is_charged_for_a_return_of_two_payments_comes_to_the_whole() -> None:
    back = End(id=RETURN, is_line=True, sign=-1, currency="EUR", name="A", whole_minor=100, beside_minor=-5)
    other = UUID(int=12)
    ledger = Ledger(codes={1: BOOKS}, version=1, sequence=0)
    for match_id in (MATCH, other):
        ledger.accept(match_id, [Settlement(PAYMENT, ITEM, 50, 50)], [], DAY)
    part = Part(taken=PAYMENT, taken_minor=50, settled=ITEM, settled_minor=50)
    one = return_of(1, part, back=back)
    two = replace(one, match_id=other)
    ledger.give_back(one)
    ledger.give_back(two)
    assert [posted.charged for posted in ledger.new if posted.kind == "return"] == [{RETURN: -2}, {RETURN: -3}]
    # The return has taken both, whatever becomes of a match.
    ledger.reverse(other, DAY, [two])
    assert charged(ledger) == 5


@given(
    besides=st.tuples(*[st.integers(-500, 500)] * 2),
    takes=st.lists(st.tuples(st.integers(1, 97), st.booleans()), min_size=1, max_size=4),
    rest=st.integers(0, 50),
    data=st.data(),
)
def test_a_return_and_its_payment_are_in_the_books_with_what_was_kept_whenever_they_were_linked(
    besides: tuple[int, int], takes: list[tuple[int, bool]], rest: int, data: st.DataObject
) -> None:
    """Takes are of a match or of what was open; a part may be given back, or its match reversed, at any time."""
    whole = sum(minor for minor, _ in takes)
    payment = PAYMENT._replace(whole_minor=whole + rest, beside_minor=besides[0])
    back = BACK._replace(name="other", whole_minor=whole + 1, beside_minor=besides[1])
    ledger = Ledger(codes={1: BOOKS}, version=1, sequence=0)
    waiting: list[Returned] = []
    posted: list[Returned] = []
    ended: set[UUID] = set()
    for number, (minor, is_open) in enumerate(takes):
        match_id = None if is_open else UUID(int=100 + number)
        settled = {} if is_open else {"settled": ITEM, "settled_minor": minor}
        part = Part(taken=payment, taken_minor=minor, **settled)  # type: ignore[arg-type]
        waiting.append(
            Returned(change_id=UUID(int=50 + number), match_id=match_id, effective_on=DAY, parts=(part,), back=back)
        )
    while waiting or data.draw(st.booleans(), label="go on"):
        standing = [one for one in posted if one.change_id not in ended]
        if waiting and (not standing or data.draw(st.booleans(), label="link")):
            one = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
            if one.match_id is None:
                ledger.offset(one)
                ledger.offset(one)
            else:
                ledger.accept(one.match_id, [Settlement(payment, ITEM, *[one.taken_minor] * 2)], [], DAY)
                ledger.give_back(one)
                ledger.give_back(one)
            posted.append(one)
        elif standing:
            one = data.draw(st.sampled_from(standing), label="end")
            ended.add(one.change_id)
            if one.match_id is None:
                ledger.release(replace(one, until_change_id=UUID(int=7)))
            else:
                ledger.reverse(one.match_id, DAY, [one])
        if data.draw(st.booleans(), label="read again"):
            ledger = Ledger(codes={1: BOOKS}, version=1, sequence=ledger.sequence, stored=[*ledger.stored, *ledger.new])
    stays = sum(one.taken_minor for one in posted if one.match_id is not None or one.change_id not in ended)
    lines = netted(*(one.lines for one in (*ledger.stored, *ledger.new)))
    sums = {line_id: sum(line.minor for line in lines if line.incoming_id == line_id) for line_id in (LINE, RETURN)}
    assert sums == {LINE: stays, RETURN: -stays}
    shares = [share_of(payment, stays), share_of(back, stays)]
    assert charged(ledger) == -sum(shares)
    codes = {code: sum(line.minor for line in lines if line.code == code) for code in ("B", "S", "R")}
    assert codes == {"B": stays + shares[0], "S": -stays + shares[1], "R": 0}
