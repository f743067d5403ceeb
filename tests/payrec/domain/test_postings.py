"""Postings: balanced whatever is matched, and nothing is left of what was taken back, by whichever parts and codes."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import Any
from uuid import UUID

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from payrec.domain.posting_ledger import Ledger, Part, Returned
from payrec.domain.postings import (
    Adjusted,
    Codes,
    End,
    Line,
    Settlement,
    countered,
    is_balanced,
    lines_against,
    lines_of_classification,
    lines_of_match,
    netted,
    read,
    share_of,
    sign_of,
    taken_of,
    told,
)
from support.posted_match import BOOKS, ITEM, LINE, PAYMENT

DAY = date(2026, 3, 12)
MATCH, RETURN = UUID(int=1), UUID(int=2)
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
        kept = draw(st.integers(-(10**12), 10**12)) if is_line else 0
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


def return_of(legs: list[Settlement]) -> End:
    """Return a return of payments of legs, for which its provider has charged."""
    taken = legs[0].taken
    return End(
        RETURN,
        is_line=True,
        sign=-taken.sign,
        currency=taken.currency,
        name="B",
        whole_minor=7 * 10**13,
        beside_minor=-3,
    )


def stays(returned: list[Returned], codes: Codes) -> tuple[Line, ...]:
    """Return the lines of what returns and payments have of each other, and of what is kept of them."""
    minors: Counter[End] = Counter()
    for one in returned:
        for end, minor in one.moved:
            minors[end] += minor
    return netted(*(lines_against(end, minor, share_of(end, minor), codes) for end, minor in minors.items()))


def charges(legs: list[Settlement], adjustments: list[Adjusted]) -> dict[UUID, int]:
    """Return what is kept of lines of which nothing else was taken."""
    return {end.id: share_of(end, minor) for end, minor in taken_of(legs, adjustments) if end.beside_minor}


@given(match=matches(), codes=ALL_CODES)
def test_a_match_is_balanced_and_each_transaction_has_what_is_taken_of_it(
    match: tuple[list[Settlement], list[Adjusted]], codes: Codes
) -> None:
    legs, adjustments = match
    lines = lines_of_match(legs, adjustments, codes, charges(legs, adjustments))
    assert is_balanced(lines)
    assert all(line.minor and isinstance(line.minor, int) for line in lines)
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
    assume(lines_of_match(legs, adjustments, codes, charges(legs, adjustments)))
    ledger = Ledger(codes={1: codes}, version=1, sequence=41)
    # What came back before it was approved is posted only with it.
    back = [leg for leg in legs if leg.taken.is_line and data.draw(st.booleans())]
    parts = []
    for leg in back:
        minor = data.draw(st.integers(1, leg.taken_minor))
        settled = leg.settled_minor * minor // leg.taken_minor
        parts.append(Part(taken=leg.taken, taken_minor=minor, settled=leg.settled, settled_minor=settled))
    charged = return_of(legs)
    returned = [
        Returned(change_id=UUID(int=n), match_id=MATCH, effective_on=DAY, parts=(part,), back=charged)
        for n, part in enumerate(parts)
    ]
    for one in returned[:1]:
        ledger.give_back(one)
    assert ledger.new == []
    ledger.accept(MATCH, legs, adjustments, DAY)
    ledger = Ledger(codes={1: codes, 2: later}, version=2, sequence=ledger.sequence, stored=[*ledger.new])
    for one in [*returned, *returned]:
        ledger.give_back(one)
    ledger.reverse(MATCH, DAY, returned)
    ledger.reverse(MATCH, DAY, returned)
    [*stored] = ledger.stored
    whole = [*stored, *ledger.new]
    assert [posting.sequence for posting in whole] == list(range(42, 42 + len(whole)))
    assert all(is_balanced(posting.lines) for posting in whole)
    assert all(posting.reverses_sequence == 42 for posting in whole[1:])
    # But for what the lines have of each other.
    assert netted(*(posting.lines for posting in whole), countered(stays(returned, codes))) == ()
    assert [posting.kind for posting in ledger.new].count("return") == len(returned)
    lines = [charged, *(end for leg in legs for end in leg[:2] if end.is_line)]
    accounts = {end.id: codes.of_account(end.name) for end in lines}
    own = [line for posting in whole for line in posting.lines if line.incoming_id is not None]
    assert all(line.code == accounts[line.incoming_id] for line in own if line.incoming_id is not None)


@given(match=matches(), codes=ALL_CODES, later=ALL_CODES, minor=MINORS)
def test_what_the_books_have_from_elsewhere_is_taken_back_whole(
    match: tuple[list[Settlement], list[Adjusted]], codes: Codes, later: Codes, minor: int
) -> None:
    legs, adjustments = match
    taken, settled, *_ = legs[0]
    assume(lines_of_match(legs, adjustments, codes, charges(legs, adjustments)))
    parts = (Part(taken=taken, taken_minor=minor, settled=settled, settled_minor=minor),)
    one = Returned(change_id=UUID(int=5), match_id=MATCH, effective_on=DAY, parts=parts, back=return_of(legs))
    ledger = Ledger(codes={1: codes}, version=1, sequence=0)
    ledger.know(MATCH, legs, adjustments, DAY)
    ledger.give_back(one)
    assume(ledger.new)
    # As if it had been posted by the codes by which something was first taken back of it.
    ledger = Ledger(codes={1: codes, 2: later}, version=2, sequence=1, stored=ledger.new)
    ledger.know(MATCH, legs, adjustments, DAY)
    ledger.give_back(one)
    ledger.reverse(MATCH, DAY, [one])
    ledger.reverse(MATCH, DAY, [one])
    whole = [*ledger.stored, *ledger.new]
    assert {posting.reverses_id for posting in whole} == {MATCH}
    assert {posting.reverses_sequence for posting in whole} == {None}
    lines = lines_of_match(legs, adjustments, codes, charges(legs, adjustments))
    assert netted(lines, *(posting.lines for posting in whole), countered(stays([one], codes))) == ()
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


@pytest.mark.parametrize(
    ("direction", "is_line", "sign"),
    [("credit", True, 1), ("debit", True, -1), ("credit", False, -1), ("debit", False, 1)],
)
def test_money_in_is_debited_to_its_account_and_credited_to_what_it_pays(
    *, direction: str, is_line: bool, sign: int
) -> None:
    assert sign_of(direction, is_line=is_line) == sign


def test_what_has_no_code_of_its_own_is_in_suspense() -> None:
    assert [BOOKS.of_account(name) for name in ("A", "Z", None)] == ["B", "S", "S"]
    assert [BOOKS.of_adjustment(kind) for kind in ("fee", "rounding")] == ["F", "S"]
    assert [BOOKS.of_item(sign) for sign in (-1, 1)] == ["R", "P"]
    assert [Codes(suspense="S").of_item(sign) for sign in (-1, 1)] == ["S", "S"]
    assert [BOOKS.of_category(category, None) for category in ("rent", "tax", None)] == ["C", "S", "S"]
    assert [BOOKS.of_category(category, "G") for category in ("rent", "tax", None)] == ["G", "G", "G"]


def test_a_match_moves_what_it_takes_of_a_payment_to_the_code_of_what_it_settles() -> None:
    taken = Line("B", 100, "EUR", None, LINE)
    assert lines_of_match([Settlement(PAYMENT, ITEM, 100, 100)], [], BOOKS, {}) == (taken, Line("R", -100, "EUR", "E1"))
    paid_out = Settlement(PAYMENT._replace(sign=-1), ITEM._replace(sign=1), 100, 100)
    assert lines_of_match([paid_out], [], BOOKS, {}) == (taken._replace(minor=-100), Line("P", 100, "EUR", "E1"))


@pytest.mark.parametrize(
    ("currency", "settled_minor", "against"),
    [
        ("EUR", 100, ()),
        ("EUR", 98, (Line("X", -2, "EUR"),)),
        ("USD", 108, (Line("X", -100, "EUR"), Line("X", 108, "USD"))),
        ("USD", 100, (Line("X", -100, "EUR"), Line("X", 100, "USD"))),
    ],
)
def test_what_a_leg_takes_and_does_not_settle_alike_goes_by_the_code_of_exchanges(
    currency: str, settled_minor: int, against: tuple[Line, ...]
) -> None:
    item = ITEM._replace(currency=currency)
    taken, settled = Line("B", 100, "EUR", None, LINE), Line("R", -settled_minor, currency, "E1")
    assert lines_of_match([Settlement(PAYMENT, item, 100, settled_minor)], [], BOOKS, {}) == (taken, settled, *against)


@pytest.mark.parametrize(
    ("beside_minor", "minor", "share"),
    [
        (-15, 200, -15),
        (-15, 100, -8),
        (15, 100, 7),
        (1, 200, 1),
        (-1, 200, -1),
        (-1, 199, -1),
        (0, 200, 0),
        (-205, 200, -205),
        (-205, 100, -102),
    ],
)
def test_what_a_provider_has_kept_goes_by_the_code_of_fees_in_proportion(
    beside_minor: int, minor: int, share: int
) -> None:
    payment = PAYMENT._replace(beside_minor=beside_minor)
    assert share_of(payment, minor) == share
    kept = (Line("B", share, "EUR"), Line("F", -share, "EUR")) if share else ()
    own, item = Line("B", minor, "EUR", None, LINE), Line("R", -minor, "EUR", "E1")
    assert lines_of_match([Settlement(payment, ITEM, minor, minor)], [], BOOKS, {LINE: share}) == (own, item, *kept)
    against = Line("C", -minor, "EUR")
    assert lines_of_classification(payment, minor, "rent", None, BOOKS, share) == (own, against, *kept)


@pytest.mark.parametrize(("moved_minor", "minor", "share"), [(175, 200, 175), (175, 99, 86), (-3, 99, -1), (0, 99, 0)])
def test_an_account_that_moved_another_currency_has_that_by_the_code_of_exchanges(
    moved_minor: int, minor: int, share: int
) -> None:
    payment = PAYMENT._replace(beside_minor=moved_minor, moved_currency="CHF")
    assert share_of(payment, minor) == share
    moved = (Line("B", share, "CHF"), Line("X", -share, "CHF")) if share else ()
    own, item = Line("X", minor, "EUR", None, LINE), Line("R", -minor, "EUR", "E1")
    assert lines_of_match([Settlement(payment, ITEM, minor, minor)], [], BOOKS, {LINE: share}) == (own, item, *moved)


def test_a_classification_moves_an_amount_to_its_code_and_nothing_without_one() -> None:
    own = Line("B", 40, "EUR", None, LINE)
    assert lines_of_classification(PAYMENT, 40, "tax", None, BOOKS, 0) == (own, Line("S", -40, "EUR"))
    assert lines_of_classification(PAYMENT, 40, "rent", "G", BOOKS, 0) == (own, Line("G", -40, "EUR"))
    assert lines_of_classification(PAYMENT, 0, "rent", None, BOOKS, 0) == ()


def test_a_line_is_told_by_its_side_and_an_amount_without_sign() -> None:
    assert told(Line("B", 100, "EUR", None, LINE)) == {
        "code": "B",
        "direction": "debit",
        "amountMinor": 100,
        "currency": "EUR",
        "incomingTransactionId": str(LINE),
    }
    assert told(Line("R", -1, "EUR", "E1")) == {
        "code": "R",
        "direction": "credit",
        "amountMinor": 1,
        "currency": "EUR",
        "expectedExternalId": "E1",
    }
