"""Continuity is a matter of what the statements say, never of the order in which they come."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.domain.continuity import Continuity, Ends, Judgement, ends_of, judge, sequence_of
from payrec.domain.statements import Balance, Statement
from support.samples import parse_sample, requires_samples, truth

DAY = date(2026, 1, 5)


def ends(key: int, opening: int | None, closing: int | None, day: int, **more: Any) -> Ends:
    """Return a statement of the day so many days after the fifth of January."""
    on = DAY + timedelta(days=day)
    found: dict[str, Any] = {
        "key": (key,),
        "account": "A",
        "currency": "EUR",
        "chained_on": on,
        "from_on": None,
        "to_on": None,
        "opened_on": None,
        "opening_minor": opening,
        "closing_minor": closing,
        "sequence": None,
        "page": None,
        "is_last_page": None,
        "statement_id": None,
    }
    return Ends(**{**found, **more})


def verdicts(*statements: Ends) -> dict[int, Continuity]:
    """Return the verdicts by key, after a look that the order of arrival does not matter."""
    found = {j.ends.key[0]: j.continuity for j in judge(statements)}
    assert {j.ends.key[0]: j.continuity for j in judge(reversed(statements))} == found
    return found


def judgement(key: int, *statements: Ends) -> Judgement:
    return next(j for j in judge(statements) if j.ends.key == (key,))


@st.composite
def chains(draw: st.DrawFn) -> list[Ends]:
    """Draw the statements of one account without a gap: any number a day, no balance twice, numbered or not."""
    steps = draw(st.lists(st.integers(0, 3), min_size=1, max_size=12))
    balances = draw(
        st.lists(st.integers(-(10**9), 10**9), min_size=len(steps) + 1, max_size=len(steps) + 1, unique=True)
    )
    begin = draw(st.one_of(st.none(), st.integers(1, 400)))
    is_dated = draw(st.booleans())
    day, found = 0, []
    for place, (step, (opening, closing)) in enumerate(zip(steps, pairwise(balances), strict=True)):
        opened = DAY + timedelta(days=day)
        day += step
        more = {"sequence": begin + place} if begin is not None else {}
        found.append(ends(place, opening, closing, day, opened_on=opened if is_dated else None, **more))
    return found


@given(chains(), st.randoms(use_true_random=False))
def test_a_whole_chain_is_whole_in_any_order(chain: list[Ends], chance: random.Random) -> None:
    shuffled = chance.sample(chain, len(chain))
    found = Counter(j.continuity for j in judge(shuffled))
    assert found == Counter({"first": 1, "ok": len(chain) - 1}) + Counter()


@given(chains(), st.randoms(use_true_random=False))
def test_without_one_there_is_one_gap_which_tells_what_is_missing(chain: list[Ends], chance: random.Random) -> None:
    if len(chain) < 3:
        return
    place = chance.randrange(1, len(chain) - 1)
    missing = chain[place]
    rest = [s for s in chain if s is not missing]
    found = judge(chance.sample(rest, len(rest)))
    [gap] = [j for j in found if j.continuity == "gap"]
    assert Counter(j.continuity for j in found) == Counter({"first": 1, "gap": 1, "ok": len(chain) - 3}) + Counter()
    assert {gap.ends.opening_minor, gap.expected_minor} >= {
        missing.closing_minor
    } or gap.ends.chained_on == gap.expected_on
    back = judge([*rest, missing])
    assert "gap" not in {j.continuity for j in back}


messy = st.builds(
    lambda opening, closing, day, sequence, page, last, from_, to, name: ends(
        0,
        opening,
        closing,
        day,
        sequence=sequence,
        page=page,
        is_last_page=last,
        statement_id=name,
        from_on=from_ and DAY + timedelta(days=from_),
        to_on=to and DAY + timedelta(days=to),
    ),
    st.none() | st.integers(0, 3),
    st.none() | st.integers(0, 3),
    st.integers(0, 3),
    st.none() | st.integers(0, 4),
    st.none() | st.integers(1, 3),
    st.none() | st.booleans(),
    st.none() | st.integers(1, 4),
    st.none() | st.integers(1, 4),
    st.none() | st.sampled_from("ab"),
)


def told(statements: Sequence[Ends]) -> Counter[tuple[Any, ...]]:
    """Return what is said of each content, whoever has it."""
    return Counter(
        (replace(j.ends, key=()), j.continuity, j.expected_minor, j.expected_on, j.detail) for j in judge(statements)
    )


@given(st.lists(messy, max_size=9), st.randoms(use_true_random=False))
def test_whatever_comes_gets_the_same_verdicts_in_any_order(found: list[Ends], chance: random.Random) -> None:
    named = [replace(s, key=(n,)) for n, s in enumerate(found)]
    shuffled = [replace(s, key=(n,)) for n, s in enumerate(chance.sample(named, len(named)))]
    assert told(named) == told(shuffled)
    assert len(judge(named)) == len(named)


@given(st.lists(messy, max_size=9), messy)
def test_another_one_is_noticed_on_its_day_and_on_the_next_alone(found: list[Ends], new: Ends) -> None:
    named = [replace(s, key=(n,)) for n, s in enumerate(found)]
    before = {j.ends.key: j for j in judge(named)}
    after = {j.ends.key: j for j in judge([*named, replace(new, key=(-1,))])}
    assert new.chained_on is not None
    days = sorted({s.chained_on for s in named if s.chained_on is not None and s.chained_on > new.chained_on})
    touched = {new.chained_on, *days[:1]}
    assert all(after[s.key] == before[s.key] for s in named if s.chained_on not in touched)


def test_a_gap_says_what_a_person_looks_for() -> None:
    found = judgement(2, ends(1, 0, 10_000, 0, sequence=11), ends(2, 15_050, 0, 3, sequence=14))
    assert (found.continuity, found.expected_minor, found.difference_minor) == ("gap", 10_000, 5_050)
    assert (found.expected_on, found.severity) == (DAY, "warning")
    assert found.detail == (
        "the statement of 2026-01-08 opens with 150.50 EUR, that of 2026-01-05 before it closed with 100.00 EUR, "
        "a difference of 50.50 EUR (numbers 11 and 14); a statement is missing between the two"
    )
    assert judgement(1, ends(1, 0, 10_000, 0)).detail == ""


def test_a_gap_between_numbers_alone_says_which() -> None:
    numbered = [ends(1, 0, 5, 0, sequence=9), ends(2, 5, 8, 0, sequence=11)]
    found = judgement(3, *numbered, ends(3, None, 7, 1, sequence=13))
    assert (found.continuity, found.expected_minor, found.difference_minor) == ("gap", 8, None)
    assert found.detail == (
        "the statement of 2026-01-06 opens with an unknown balance, that of 2026-01-05 before it closed with 0.08 EUR "
        "(numbers 11 and 13); a statement is missing between the two"
    )
    assert judgement(3, *numbered, ends(3, None, 7, 1, sequence=13, opened_on=date(2026, 1, 4))).continuity == "overlap"
    yen = judgement(2, ends(1, 0, 100, 0, currency="JPY"), ends(2, 150, 0, 1, currency="JPY")).detail
    assert "opens with 150 JPY, that of 2026-01-05 before it closed with 100 JPY, a difference of 50 JPY;" in yen


def test_a_day_ended_with_what_nothing_of_it_goes_on_from() -> None:
    day = [ends(1, 8, 3, 0), ends(2, 3, 6, 0)]
    assert verdicts(*day, ends(3, 6, 7, 1))[3] == "ok"
    assert verdicts(*day, ends(3, 3, 7, 1))[3] == "gap"
    assert judgement(3, *day, ends(3, 10, 7, 1)).expected_minor == 6


def test_a_day_that_ends_as_it_began_is_followed_by_what_opens_with_it() -> None:
    assert verdicts(ends(1, 5, 7, 0), ends(2, 7, 2, 1), ends(3, 2, 7, 1), ends(4, 7, 9, 2)) == {
        1: "first", 2: "ok", 3: "ok", 4: "ok"
    }  # fmt: skip
    # Its own statements hold each other up, and what was before is missing all the same.
    assert Counter(verdicts(ends(1, 5, 6, 0), ends(2, 7, 2, 1), ends(3, 2, 7, 1), ends(4, 7, 9, 2)).values()) == {
        "first": 1, "gap": 1, "ok": 2
    }  # fmt: skip


def test_a_day_of_many_turns_is_one_trail() -> None:
    assert set(verdicts(ends(1, 9, 0, 0), ends(2, 0, 7, 1), ends(3, 0, 5, 1), ends(4, 5, 0, 1)).values()) == {
        "first", "ok"
    }  # fmt: skip
    # Where nothing was before, it begins with what more statements open with than close with.
    assert verdicts(ends(1, 1, 2, 0), ends(2, 2, 1, 0), ends(3, 2, 3, 0)) == {2: "first", 1: "ok", 3: "ok"}


def test_days_without_a_movement_follow_each_other() -> None:
    assert set(verdicts(*(ends(n, 0, 0, n // 2) for n in range(6))).values()) == {"first", "ok"}


def test_the_same_statement_again_is_said_to_be_the_same() -> None:
    found = [ends(1, 0, 5, 0, statement_id="S"), ends(2, 0, 5, 0, statement_id="S"), ends(3, 5, 8, 1)]
    assert verdicts(*found) == {1: "first", 2: "overlap", 3: "ok"}
    again = judgement(2, *found)
    assert (again.repeats, again.severity) == (found[0], "info")


def test_a_statement_that_was_issued_again_with_other_entries_overlaps() -> None:
    found = verdicts(ends(1, 0, 5, 0), ends(2, 5, 9, 1, sequence=2), ends(3, 5, 8, 1, sequence=2), ends(4, 8, 1, 2))
    assert Counter(found.values()) == {"first": 1, "ok": 2, "overlap": 1}
    assert found[4] == "ok"


def test_a_month_overlaps_its_days() -> None:
    days = [ends(n, n, n + 1, n) for n in range(5)]
    for dates in ({"opened_on": DAY}, {"from_on": DAY, "to_on": DAY + timedelta(days=4)}):
        assert verdicts(*days, ends(9, 0, 5, 4, **dates))[9] == "overlap"
    assert set(verdicts(*days).values()) == {"first", "ok"}


@pytest.mark.parametrize(("begins", "expected"), [(1, "overlap"), (2, "gap")])
def test_periods_say_whether_one_begins_within_the_other(begins: int, expected: str) -> None:
    month = ends(1, 0, 5, 0, to_on=DAY + timedelta(days=2))
    assert verdicts(month, ends(2, 6, 7, 3, from_on=DAY + timedelta(days=begins)))[2] == expected


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ({"sequence": 12}, "ok"),
        ({"sequence": 12, "page": 1}, "ok"),
        ({"sequence": 13}, "gap"),
        ({"sequence": 11, "page": 2}, "ok"),
        ({"sequence": 11, "page": 3}, "gap"),
        ({"sequence": 12, "page": 2}, "gap"),
    ],
)
def test_numbers_and_pages_follow_where_balances_do_not(later: dict[str, Any], expected: str) -> None:
    assert verdicts(ends(1, 0, 5, 0, sequence=11, page=1), ends(2, 6, 9, 1, **later))[2] == expected


def test_a_page_that_is_not_the_last_one_is_not_followed_by_the_next_number() -> None:
    first = ends(1, 0, 5, 0, sequence=11, page=1, is_last_page=False)
    last = ends(2, 5, 6, 0, sequence=11, page=2, is_last_page=True)
    following = ends(3, 6, 9, 1, sequence=12, page=1)
    assert verdicts(first, following) == {1: "first", 3: "gap"}
    assert verdicts(first, last, following) == {1: "first", 2: "ok", 3: "ok"}


def test_pages_may_carry_their_balances_on_the_first_and_the_last_alone() -> None:
    pages = [
        ends(1, 0, None, 1, page=1, statement_id="S", is_last_page=False),
        ends(2, None, None, 1, page=2, statement_id="S", is_last_page=False),
        ends(3, None, 8, 1, page=3, statement_id="S", is_last_page=True),
    ]
    assert verdicts(ends(0, 9, 0, 0), *pages, ends(4, 8, 1, 2)) == {0: "first", 1: "ok", 2: "ok", 3: "ok", 4: "ok"}


def test_a_page_belongs_to_the_number_of_its_statement_or_to_its_id_where_it_has_none() -> None:
    first = {"page": 1, "is_last_page": False}
    assert verdicts(ends(1, 0, None, 0, **first, statement_id="S"), ends(2, None, 5, 0, page=2, statement_id="T")) == {
        1: "first", 2: "not_available"
    }  # fmt: skip
    numbered = ends(1, 0, None, 0, **first, sequence=11, statement_id="11/1")
    assert verdicts(numbered, ends(2, None, 5, 0, page=2, sequence=11, statement_id="11/2")) == {1: "first", 2: "ok"}


@pytest.mark.parametrize(
    ("day", "opening", "expected"),
    [(3, None, "not_available"), (3, 6, "gap"), (361, None, "ok"), (361, 5, "ok"), (361, 6, "gap")],
)
def test_numbers_begin_anew_with_the_year(day: int, opening: int | None, expected: str) -> None:
    found = verdicts(ends(1, 0, 5, 0, sequence=250), ends(2, opening, 7, day, sequence=1))
    assert found[2] == expected


def test_a_new_year_of_numbers_needs_one_of_the_year_before() -> None:
    assert verdicts(ends(1, 0, 5, 0), ends(2, None, 7, 361, sequence=1))[2] == "not_available"
    assert verdicts(ends(1, 0, None, 0, sequence=250), ends(2, 6, 7, 361, sequence=1))[2] == "ok"


def test_what_says_nothing_is_not_judged_and_in_nobody_s_way() -> None:
    unknown = replace(ends(2, None, 7, 1), chained_on=None)
    assert verdicts(ends(1, 0, 5, 0), unknown, ends(3, 5, 6, 2)) == {1: "first", 2: "not_available", 3: "ok"}
    assert verdicts(ends(1, None, None, 0, sequence=4), ends(2, 5, 6, 2)) == {1: "first", 2: "not_available"}


def test_accounts_and_currencies_are_apart() -> None:
    found = verdicts(ends(1, 0, 5, 0), ends(2, 9, 5, 1, account="B"), ends(3, 7, 5, 1, currency="USD"))
    assert set(found.values()) == {"first"}


def read(kind: str = "statement", **more: Any) -> Statement:
    made = Statement(0, kind=kind, account="A", currency="EUR")  # type: ignore[arg-type]
    made.balances = [
        Balance("opening", 5, "EUR", "credit", DAY),
        Balance("closing", 7, "EUR", "debit", DAY + timedelta(days=1)),
    ]
    for name, value in more.items():
        setattr(made, name, value)
    return made


def test_what_a_reader_yields_has_its_ends() -> None:
    made = read(
        sequence_number="0012", page_number=2, last_page=False, statement_id="S", from_on=DAY, to_on=DAY, entry_count=3
    )
    for place, totals in enumerate((made.booked, made.pending, made.info)):
        totals.add("credit", 10**place)
        totals.add("debit", 2 * 10**place)
    assert ends_of(made, 4, "x") == Ends(
        key=(4, "x"), account="A", currency="EUR", chained_on=DAY + timedelta(days=1), from_on=DAY, to_on=DAY,
        opened_on=DAY, opening_minor=5, closing_minor=-7, sequence=12, page=2, is_last_page=False, statement_id="S",
        content=(3, 111, 222),
    )  # fmt: skip


OPENING = Balance("opening", 5, "EUR", "credit", DAY)


@pytest.mark.parametrize(
    ("more", "is_comparable"),
    [({}, False), ({"sequence_number": "1"}, True), ({"page_number": 1}, False), ({"page_number": 2}, True)],
)
def test_with_one_balance_a_number_or_a_later_page_can_be_compared(more: dict[str, Any], is_comparable: bool) -> None:  # noqa: FBT001
    assert ends_of(read(balances=[OPENING], **more), 0).chained_on == (DAY if is_comparable else None)


def test_without_a_day_there_is_nothing_to_compare_and_both_balances_suffice() -> None:
    assert ends_of(read(balances=[], sequence_number="1"), 0).chained_on is None
    assert ends_of(read(), 0).chained_on == DAY + timedelta(days=1)


@pytest.mark.parametrize(
    "more",
    [{"kind": "interim"}, {"kind": "transactions"}, {"account": None}, {"currency": None}, {"currency": "USD"},
     {"balances": []}, {"balances": [Balance("closing", 7, "EUR", "debit", DAY)]}],
)  # fmt: skip
def test_what_cannot_be_compared_takes_no_part(more: dict[str, Any]) -> None:
    assert ends_of(read(**more), 0).chained_on is None


@pytest.mark.parametrize(("text", "number"), [("7", 7), ("007", 7), (None, None), ("", None), ("1/2", None),
                                              ("٣", None), ("9" * 18, 10**18 - 1), ("9" * 19, None)])  # fmt: skip
def test_a_number_is_digits(text: str | None, number: int | None) -> None:
    assert sequence_of(text) == number


@requires_samples
@pytest.mark.parametrize("entry", [e for e in truth() if e["outcome"] == "read"], ids=lambda e: e["file"])
def test_statements_of_real_banks_have_no_gap_that_is_none(entry: dict[str, Any]) -> None:
    read_ = parse_sample(entry)
    found = Counter(j.continuity for j in judge(ends_of(s, s.index) for s in read_.statements))
    # The one was made to have a gap; the other has the accounts of several people, all under one number.
    known = {"synthetic/camt053_gap.zip": 1, "bai2/moov_sample3.txt": 6}
    assert (found["gap"], found["overlap"]) == (known.get(entry["file"], 0), 0)


def test_many_statements_of_one_day_are_judged_in_time_that_grows_with_their_number() -> None:
    chain = [ends(n, n, n + 1, 0) for n in range(4_000)]
    broken = [ends(n, 2 * n, 10**6 + n, 1, sequence=3 * n) for n in range(4_000)]
    assert Counter(j.continuity for j in judge(chain)) == {"first": 1, "ok": 3_999}
    assert len(judge([*chain, *broken])) == 8_000
