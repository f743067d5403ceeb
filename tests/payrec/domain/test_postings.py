"""Postings: balanced whatever is matched, and nothing is left of what was taken back, by whichever parts and codes."""

from __future__ import annotations

from datetime import date
from typing import Any
from uuid import UUID

from hypothesis import assume, given
from hypothesis import strategies as st

from payrec.domain.posting_ledger import Ledger, Part, Returned
from payrec.domain.postings import (
    Adjusted,
    Codes,
    End,
    Settlement,
    account_key,
    countered,
    is_balanced,
    lines_of_match,
    netted,
    read,
    sign_of,
    told,
)

DAY = date(2026, 3, 12)
MATCH, RETURN, LINE = UUID(int=1), UUID(int=2), UUID(int=3)
KINDS = ("fee", "fx", "rounding", "write_off", "over_payment")
MINORS = st.integers(1, 10**12)
TEXTS = st.sampled_from(["10", "20", "30", None])
ALL_CODES = st.builds(
    Codes,
    suspense=st.just("S"),
    receivable=TEXTS,
    payable=TEXTS,
    accounts=st.dictionaries(st.sampled_from(["A", "B"]), st.sampled_from(["10", "20"])),
    adjustments=st.dictionaries(st.sampled_from(KINDS), st.sampled_from(["10", "40"])),
    categories=st.dictionaries(st.just("fee"), st.just("50")),
)


@st.composite
def matches(draw: Any) -> tuple[list[Settlement], list[Adjusted]]:
    """Return legs of lines with items, of lines with lines or of items with items, and adjustments of either."""
    kinds = draw(st.sampled_from([(True, False), (True, True), (False, False)]))
    sign = draw(st.sampled_from([1, -1]))
    taken_currency, settled_currency = draw(st.tuples(*[st.sampled_from(["EUR", "USD"])] * 2))
    ends: list[list[End]] = []
    for place, (is_line, currency, its_sign) in enumerate(
        zip(kinds, (taken_currency, settled_currency), (sign, -sign), strict=True)
    ):
        names = draw(st.lists(st.sampled_from(["A", "B", "C", None]), min_size=1, max_size=3))
        # Of lines, also what a provider has kept.
        kept = draw(st.integers(-(10**6), 10**6)) if is_line else 0
        ends.append(
            [
                End(UUID(int=100 * place + n + 10), is_line, its_sign, currency, name, 10**13, kept)
                for n, name in enumerate(names)
            ]
        )
    pairs = draw(
        st.lists(st.tuples(st.sampled_from(ends[0]), st.sampled_from(ends[1])), min_size=1, max_size=4, unique=True)
    )
    legs = []
    for taken, settled in pairs:
        minor = draw(MINORS)
        legs.append(Settlement(taken, settled, minor, minor if taken.currency == settled.currency else draw(MINORS)))
    there = [end.id for pair in pairs for end in pair]
    adjustments = st.builds(
        Adjusted, st.sampled_from(KINDS), st.sampled_from(there), st.integers(-(10**6), 10**6).filter(bool)
    )
    return legs, draw(st.lists(adjustments, max_size=3))


@given(match=matches(), codes=ALL_CODES)
def test_a_match_is_balanced_and_each_transaction_has_what_is_taken_of_it(
    match: tuple[list[Settlement], list[Adjusted]], codes: Codes
) -> None:
    legs, adjustments = match
    lines = lines_of_match(legs, adjustments, codes)
    assert is_balanced(lines)
    assert all(line.minor for line in lines)
    assert [read(told(line)) for line in lines] == list(lines)
    for end in {end for leg in legs for end in leg[:2]}:
        taken = sum(leg.taken_minor for leg in legs if leg.taken == end)
        taken += sum(leg.settled_minor for leg in legs if leg.settled == end)
        taken += sum(one.minor for one in adjustments if one.id == end.id)
        if end.is_line:
            assert sum(line.minor for line in lines if line.incoming_id == end.id) == end.sign * taken
    assert netted(lines, countered(lines)) == ()


@given(match=matches(), codes=ALL_CODES, later=ALL_CODES, data=st.data())
def test_what_was_taken_back_comes_to_nothing_whatever_the_codes_are_by_then(
    match: tuple[list[Settlement], list[Adjusted]], codes: Codes, later: Codes, data: st.DataObject
) -> None:
    legs, adjustments = match
    # What takes nothing of anything is no match.
    assume(lines_of_match(legs, adjustments, codes))
    ledger = Ledger(codes={1: codes}, version=1, sequence=41)
    # What came back before it was approved is posted only with it.
    back = [leg for leg in legs if leg.taken.is_line and data.draw(st.booleans())]
    parts = []
    for leg in back:
        minor = data.draw(st.integers(1, leg.taken_minor))
        settled = leg.settled_minor * minor // leg.taken_minor
        taken = leg.taken._replace(beside_minor=0)
        parts.append(Part(taken=taken, taken_minor=minor, settled=leg.settled, settled_minor=settled))
    charged = End(RETURN, is_line=True, sign=-1, currency="EUR", name="A", whole_minor=7, beside_minor=-3)
    returned = [
        Returned(return_id=RETURN, change_id=UUID(int=n), match_id=MATCH, effective_on=DAY, parts=(part,), back=charged)
        for n, part in enumerate(parts)
    ]
    for one in returned[:1]:
        ledger.give_back(one)
    assert ledger.new == []
    ledger.accept(MATCH, legs, adjustments, DAY)
    ledger = Ledger(codes={1: codes, 2: later}, version=2, sequence=ledger.sequence, stored=[*ledger.new])
    for one in [*returned, *returned]:
        ledger.give_back(one)
    ledger.reverse(MATCH, DAY)
    ledger.reverse(MATCH, DAY)
    [*stored] = ledger.stored
    whole = [*stored, *ledger.new]
    assert [posting.sequence for posting in whole] == list(range(42, 42 + len(whole)))
    assert all(is_balanced(posting.lines) for posting in whole)
    assert all(posting.reverses_sequence == 42 for posting in whole[1:])
    assert netted(*(posting.lines for posting in whole)) == ()
    assert [posting.kind for posting in ledger.new].count("return") == len(returned)
    accounts = {end.id: codes.of_account(end.name) for leg in legs for end in leg[:2] if end.is_line}
    own = [line for posting in whole for line in posting.lines if line.incoming_id is not None]
    assert all(line.code == accounts[line.incoming_id] for line in own if line.incoming_id is not None)


@given(match=matches(), codes=ALL_CODES, later=ALL_CODES, minor=MINORS)
def test_what_the_books_have_from_elsewhere_is_taken_back_whole(
    match: tuple[list[Settlement], list[Adjusted]], codes: Codes, later: Codes, minor: int
) -> None:
    legs, adjustments = match
    taken, settled, *_ = legs[0]
    assume(lines_of_match(legs, adjustments, codes))
    parts = (Part(taken=taken._replace(beside_minor=0), taken_minor=minor, settled=settled, settled_minor=minor),)
    one = Returned(return_id=RETURN, change_id=UUID(int=5), match_id=MATCH, effective_on=DAY, parts=parts)
    ledger = Ledger(codes={1: codes}, version=1, sequence=0)
    ledger.know(MATCH, legs, adjustments, DAY)
    ledger.give_back(one)
    assume(ledger.new)
    # As if it had been posted by the codes by which something was first taken back of it.
    ledger = Ledger(codes={1: codes, 2: later}, version=2, sequence=1, stored=ledger.new)
    ledger.know(MATCH, legs, adjustments, DAY)
    ledger.give_back(one)
    ledger.reverse(MATCH, DAY)
    ledger.reverse(MATCH, DAY)
    whole = [*ledger.stored, *ledger.new]
    assert {posting.reverses_id for posting in whole} == {MATCH}
    assert {posting.reverses_sequence for posting in whole} == {None}
    assert netted(lines_of_match(legs, adjustments, codes), *(posting.lines for posting in whole)) == ()
    assert [posting.sequence for posting in whole] == list(range(1, len(whole) + 1))


@given(
    first=ALL_CODES,
    second=ALL_CODES,
    minor=MINORS,
    direction=st.sampled_from(["credit", "debit"]),
    times=st.integers(1, 3),
)
def test_a_classification_is_taken_back_each_time(
    first: Codes, second: Codes, minor: int, direction: str, times: int
) -> None:
    line = End(id=LINE, is_line=True, sign=sign_of(direction, is_line=True), currency="EUR", name="A")
    ledger = Ledger(codes={1: first, 2: second}, version=1, sequence=0)
    for n in range(times):
        ledger.classify(line, minor, category="fee", code=None, change_id=UUID(int=n), on=DAY)
        [money, _] = ledger.new[-1].lines
        assert (money.minor, money.code) == (minor * line.sign, (first, second)[n > 0].of_account("A"))
        ledger.version = 2
        ledger.restore(LINE, DAY)
        ledger.restore(LINE, DAY)
    assert [posting.reverses_sequence for posting in ledger.new] == [
        n for place in range(times) for n in (None, 2 * place + 1)
    ]
    assert netted(*(posting.lines for posting in ledger.new)) == ()
    ledger.restore(RETURN, DAY)
    ledger.reverse(MATCH, DAY)
    assert len(ledger.new) == 2 * times


def test_what_a_match_took_of_a_payment_beside_its_legs_comes_back_by_its_adjustment() -> None:
    codes = Codes(suspense="S", receivable="R", accounts={"A": "B"}, adjustments={"over_payment": "O"})
    line = End(id=LINE, is_line=True, sign=1, currency="EUR", name="A")
    item = End(id=UUID(int=9), is_line=False, sign=-1, currency="EUR", name="E1")
    ledger = Ledger(codes={1: codes}, version=1, sequence=0)
    ledger.accept(MATCH, [Settlement(line, item, 100, 100)], [Adjusted("over_payment", LINE, 5)], DAY)
    parts = (Part(taken=line, taken_minor=100, settled=item, settled_minor=100), Part(taken=line, taken_minor=5))
    ledger.give_back(Returned(return_id=RETURN, change_id=UUID(int=5), match_id=MATCH, effective_on=DAY, parts=parts))
    taken, back = ledger.new
    assert [(one.code, one.minor) for one in taken.lines] == [("B", 105), ("R", -100), ("O", -5)]
    assert netted(taken.lines, back.lines) == ()
    # Nothing is left that a reversal could counter.
    ledger.reverse(MATCH, DAY)
    assert len(ledger.new) == 2


def test_an_account_is_known_as_lines_have_it() -> None:
    assert account_key("de89 3704 0044 0532 0130 00") == "DE89370400440532013000"
    assert account_key("the till") == "the till"
