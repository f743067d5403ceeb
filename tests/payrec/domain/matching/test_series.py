"""Items whose digits a line has in a list: the letters left out, or all but the last of the digits."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from payrec.domain.matching import digits
from payrec.domain.matching.digits import DIGITS_MIN, SERIES_DIGITS_MAX, reference_digits, series_digits
from payrec.domain.matching.rules import Confidence, GroupLevel, MatchingRules, ReferenceLevel
from support.matching_frames import Item, Line, level, run

AUTO = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")
PAYER: dict[str, Any] = {"name": "Bolt", "iban": "DE1"}
ITEMS = [
    Item(f"e{at}", amount=amount, reference=f"INV-2026-0014{at}", **PAYER)
    for at, amount in enumerate((10_050, 20_177, 5_023), 1)
]
LINE = Line("i", amount=35_250, text="INV-2026-00141/142/143", **PAYER)


def numbers(*digits: str) -> list[int]:
    return [int(f"1{number}") for number in digits]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("INV-2026-00141/142/43", ("202600141", "202600142", "202600143")),
        ("INV-2026-00141, 00142 und 43", ("202600141", "202600142", "00142", "202600143", "00143")),
        ("INV-2026-00141 and 2 others", ()),
        ("INV-2026-00141-3", ()),
        ("INV-2026-00141 2026-00143", ("202600141", "202600143")),
        ("2026/00141/142", ("00141", "202600141", "00142", "202600142")),
        ("RE-2026-00141, 142/43", ("202600141", "202600142", "202600143", "202614243", "14243")),
        ("2026/141, 142", ("2026141", "2026142")),
        ("2026/00141 to 43", ("00141", "202600141", "202600143", "00143", "202600142")),
        ("INV00141+INV00143", ("00141", "00143")),
        ("INV-2026-00141 to INV-2026-00143", ("202600141", "202600143", "202600142")),
        ("00141 BIS 00143", ("00141", "00143", "00142")),
        ("00141 bis 143", ("00141", "00143", "00142")),
        ("00141 bis RE00143", ("00141", "00143", "00142")),
        ("00141 bis, 00143", ("00141", "00143")),
        ("00143 to 00141", ("00143", "00141")),
        ("00099 to 00130", ("00099", "00130", *(f"{number:05}" for number in range(100, 130)))),
        ("00099 to 00131", ("00099", "00131")),
        ("00099 to 00099", ()),
        ("12345678 90 012", ("12345678", "12345690", "12345012")),
        ("1234567 12345 12", ("1234567", "1212345", "12345", "12312", "1234512")),
        ("12345 23456 34567 89", ("12345", "23456", "34567", "34589", "23489")),
        ("1234/35", ()),
        ("INV-2026-00141", ()),
        ("INV-2026-00141, INV-2026-00141", ()),
        ("thanks", ()),
        ("", ()),
    ],
)
def test_each_number_of_a_list_is_told_in_full(text: str, found: tuple[str, ...]) -> None:
    assert sorted(series_digits(text) or ()) == sorted(numbers(*found))


PIECES = ["00141", "43", "-", " ", " to ", " bis RE", "Kunde 10"]


@example("00141-43")
@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_where_one_number_ends_the_search_for_spans_there_is_none(text: str) -> None:
    found = series_digits(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digits, "_SEVERAL", re.compile(""))
        assert series_digits(text) == found


def test_a_span_with_marks_goes_on_the_whole_number() -> None:
    for text in ("RE 2026-00141-43", "RE 2026-00141 - 2026-00143", "RE 2026-00141 – 143"):
        assert {*numbers("202600141", "202600142", "202600143")} <= {*(series_digits(text) or ())}


@pytest.mark.parametrize(
    "text",
    [
        "1" * 70_000, "1-" * 35_000, "1." * 35_000, "12345 " * 12_000, "1 to a1" * 10_000, "1 - " + "a." * 35_000,
        " ".join(map(str, range(10_000, 20_000))), " ".join(f"{n}-{n + 30}" for n in range(10_000, 16_000)),
    ],
)  # fmt: skip
def test_long_texts_have_bounded_lists(text: str) -> None:
    assert len(series_digits(text) or ()) in {0, SERIES_DIGITS_MAX}


@given(
    st.integers(10**5, 10**17),
    st.lists(st.integers(1, 99), max_size=8, unique=True),
    st.sampled_from([", ", "/", " + ", " and ", " ", ";"]),
)
def test_what_is_written_short_is_every_reference_that_was_meant(first: int, offsets: list[int], between: str) -> None:
    begin = first - first % 100
    meant = [f"RE-{begin + offset}" for offset in offsets]
    text = between.join([f"RE-{begin}", *(reference[-2:] for reference in meant)])
    assert {reference_digits(reference) for reference in meant} <= {*(series_digits(text) or ())}


@pytest.mark.parametrize(
    "text",
    [
        "INV-2026-00141/142/143", "2026-00141, 142, 143", "INV-2026-00141 to 143", "2026-00141-143",
        "Rechnungen 2026-00141, 2026-00142, 2026-00143", "2026-00142/41/43 thanks", "INV-2026-00141 142 und 143",
    ],
)  # fmt: skip
def test_a_list_that_is_written_short_is_a_group_where_all_of_it_sums_up(text: str) -> None:
    [group] = run(ITEMS, [replace(LINE, text=text)], AUTO).groups
    assert (level(group), group.tried, group.named) == (GroupLevel.BY_QUOTES, 1, 3)
    assert (group.confidence, group.auto) == (Confidence.HIGH, False)


@pytest.mark.parametrize(
    "changes",
    [{"name": "Nagel", "iban": "DE2"}, {"text": "2026-00151/142/143"}, {"amount": 35_251}, {"text": "00141/42/43"}],
)
def test_no_list_of_somebody_else_or_of_other_numbers_or_of_another_sum(changes: dict[str, Any]) -> None:
    beside = Item("o", amount=99_999, due=20_700, reference="INV-2026-00151", **PAYER)
    groups = run([*ITEMS, beside], [replace(LINE, **changes)], AUTO).groups
    assert GroupLevel.BY_QUOTES not in [level(group) for group in groups]


def test_a_list_is_of_whom_it_is_paid_on_behalf() -> None:
    [group] = run(ITEMS, [replace(LINE, name="Holding", iban="DE9", ultimate="Bolt")], AUTO).groups
    assert level(group) == GroupLevel.BY_QUOTES


@pytest.mark.parametrize("said", [{"name": None, "iban": None}, {"name": None, "iban": "DE9"}, {"name": "Nagel"}])
def test_a_list_of_whom_it_does_not_name_is_of_the_counterparty_of_what_it_quotes_in_full(said: dict[str, Any]) -> None:
    items = [replace(item, iban=None) for item in ITEMS]
    groups = run(items, [replace(LINE, **said)], AUTO).groups
    assert (GroupLevel.BY_QUOTES in [level(group) for group in groups]) == (said["name"] is None)
    digits = replace(LINE, text="2026-00141/142/143", name=None, iban=None)
    assert not run(items, [digits], AUTO).groups


def test_what_is_in_a_list_and_has_the_amount_is_quoted_by_too_little_to_prove_it() -> None:
    outcome = run(ITEMS, [Line("i", amount=20_177, text="2026-00141/142", **PAYER)], AUTO)
    assert outcome.levels("e2", "i")["reference"] == ReferenceLevel.PARTIAL
    # Of somebody else's it is what any number is that differs by a digit.
    other = [replace(item, name="Nagel", iban="DE2") for item in ITEMS]
    outcome = run(other, [Line("i", amount=20_177, text="2026-00141/142", **PAYER)], AUTO)
    assert outcome.levels("e2", "i")["reference"] == ReferenceLevel.NEAR


def test_a_quoted_reference_stays_one_in_a_list() -> None:
    [match] = run(ITEMS[:1], [Line("i", amount=10_050, text="INV-2026-00141/142", **PAYER)], AUTO).matches
    assert dict(match.levels)["reference"] == ReferenceLevel.FULL
    assert match.auto


def test_money_that_is_taken_back_lists_nothing() -> None:
    assert not run(ITEMS, [replace(LINE, reversal=True)], AUTO).groups


def test_the_digits_of_a_list_are_enough_of_them() -> None:
    assert series_digits(f"{'1' * DIGITS_MIN} 22") == numbers("11111", "11122")
    assert series_digits(f"{'1' * (DIGITS_MIN - 1)} 22") is None
