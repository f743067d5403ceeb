"""Each phrase of the sentence about a pair, word by word."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from payrec.constants import EXPLANATION_QUOTE_LENGTH_MAX
from payrec.domain.matching.explain import (
    AdjustmentFacts,
    ExpectedFacts,
    IncomingFacts,
    adjusted,
    alone,
    evidence,
    explanation,
    parties,
    quoted,
)
from payrec.domain.matching.rules import (
    AdjustmentType,
    AmountLevel,
    EndToEndLevel,
    LineLevel,
    NameLevel,
    PartyLevel,
    ReferenceLevel,
    Uniqueness,
)

ITEM = ExpectedFacts(amount_minor=10_000, currency="KWD")
LINE = IncomingFacts(amount_minor=2_500, currency="JPY")


def told_of(levels: dict[str, int], item: ExpectedFacts = ITEM, line: IncomingFacts = LINE) -> str:
    """Return what is said of a pair, without what is said of others."""
    told, _, others = explanation(levels, expected=item, incoming=line).partition("; ")
    assert others == "no other open item fits."
    return told


def test_nothing_is_said_of_what_a_side_is_silent_on() -> None:
    line = replace(LINE, booking_on=date(2026, 5, 4), counterparty_name="Alpha")
    item = replace(ITEM, due_on=date(2026, 5, 1), reference="INV-17", end_to_end_id="E-1", counterparty_name="Alpha")
    assert told_of({}, item, line) == "Nothing is known"
    assert told_of({"line": 1}, item, line) == "Nothing is known"
    assert told_of({"date": 1}, item, LINE) == "Nothing is known"


@pytest.mark.parametrize(
    ("level", "told"),
    [
        (ReferenceLevel.ABSENT, "Reference INV-17 is not quoted"),
        (ReferenceLevel.COMMON, "Reference INV-17 is quoted, but many open items have it"),
        (ReferenceLevel.PARTIAL, "Reference INV-17 is quoted, by too little to prove the payment"),
        (ReferenceLevel.FULL, "Reference INV-17 is quoted in the remittance text"),
        (ReferenceLevel.NEAR, "Reference INV-17 is quoted in part or with a digit mistaken"),
    ],
)
def test_how_a_reference_is_quoted(level: ReferenceLevel, told: str) -> None:
    assert told_of({"reference": level}, replace(ITEM, reference="INV-17")) == told
    assert told_of({"reference": level}) == told.replace("INV-17", "of the item")


@pytest.mark.parametrize(
    ("level", "told"),
    [
        (EndToEndLevel.DIFFERENT, "The end-to-end ids differ"),
        (EndToEndLevel.EQUAL, "The end-to-end id E-1 is the payment's"),
        (EndToEndLevel.PARTIAL, "The end-to-end id E-1 is the payment's, too short to prove it"),
    ],
)
def test_whether_the_ids_agree(level: EndToEndLevel, told: str) -> None:
    assert told_of({"end_to_end": level}, replace(ITEM, end_to_end_id="E-1")) == told


@pytest.mark.parametrize(
    ("level", "told"),
    [
        (AmountLevel.EQUAL, "The amount is equal"),
        (AmountLevel.BAND, "The amount of 2500 JPY lies within the limits of the item"),
        (AmountLevel.TERM, "2500 JPY in time is what its terms ask for"),
        (AmountLevel.CONVERTED, "2500 JPY is about the 10.000 KWD that are open"),
    ],
)
def test_each_amount_has_the_digits_of_its_own_currency(level: AmountLevel, told: str) -> None:
    assert told_of({"amount": level}) == told


@pytest.mark.parametrize(
    ("level", "paid", "told"),
    [
        (AmountLevel.TOLERANCE, 9_990, "The amount differs by 0.010 KWD, within the tolerance"),
        (AmountLevel.SMALLER, 2_500, "2.500 of 10.000 KWD is paid"),
        (AmountLevel.LARGER, 10_250, "0.250 KWD more is paid than the 10.000 that are open"),
    ],
)
def test_by_how_much_the_amounts_differ(level: AmountLevel, paid: int, told: str) -> None:
    assert told_of({"amount": level}, ITEM, IncomingFacts(amount_minor=paid, currency="KWD")) == told


def difference(minor: int, **changes: Any) -> AdjustmentFacts:
    facts = AdjustmentFacts(
        type=AdjustmentType.FX, amount_minor=minor, currency="KWD", of_line=False, settled_minor=10_000 - minor
    )
    return replace(facts, **changes)


@pytest.mark.parametrize(
    ("minor", "of_line", "told"),
    [(1, False, "0.001 KWD less"), (1, True, "0.001 KWD more"), (-1, False, "0.001 KWD more")],
)
def test_what_is_settled_without_money_is_more_or_less_than_asked(minor: int, told: str, *, of_line: bool) -> None:
    facts = difference(minor, of_line=of_line, type=AdjustmentType.ROUNDING)
    assert adjusted(facts, LINE) == [f"{told} than asked, taken as a rounding"]


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (AdjustmentType.FEE, "a fee"),
        (AdjustmentType.FX, "an exchange difference"),
        (AdjustmentType.WRITE_OFF, "a write-off"),
        (AdjustmentType.OVER_PAYMENT, "an over-payment"),
        (AdjustmentType.DISCOUNT, "a discount"),
        (AdjustmentType.WITHHOLDING_TAX, "withholding tax"),
        (AdjustmentType.BANK_CHARGE, "a bank charge"),
        (AdjustmentType.DEDUCTION, "a deduction"),
    ],
)
def test_what_a_difference_is_taken_as(kind: AdjustmentType, told: str) -> None:
    assert adjusted(difference(20, type=kind), LINE) == [f"0.020 KWD less than asked, taken as {told}"]


def test_of_an_exchange_it_is_said_what_was_exchanged_for_what() -> None:
    exact = difference(0, rate="0.004")
    assert adjusted(exact, LINE) == ["2500 JPY at 0.004 is just 10.000 KWD"]
    near = difference(-250, rate="0.0041")
    apart = ["2500 JPY at 0.0041 is 10.250 KWD", "0.250 KWD more than asked, taken as an exchange difference"]
    assert adjusted(near, LINE) == apart


def test_differences_are_said_in_place_of_the_amount() -> None:
    told = explanation(
        {"amount": 6, "reference": 1}, expected=ITEM, incoming=LINE, adjustments=[difference(0, rate="0.004")]
    )
    assert told == (
        "Reference of the item is not quoted, 2500 JPY at 0.004 is just 10.000 KWD; no other open item fits."
    )


@pytest.mark.parametrize(
    ("span", "day", "told"),
    [
        ((None, 10, None), 10, "Booked on the due date"),
        ((None, 10, None), 11, "Booked 1 day after the due date"),
        ((None, 10, None), 8, "Booked 2 days before the due date"),
        ((8, None, 12), 7, "Booked 1 day before the expected time"),
        ((8, None, 12), 8, "Booked within the expected time"),
        ((8, None, 12), 12, "Booked within the expected time"),
        ((8, None, 12), 14, "Booked 2 days after the expected time"),
        # What has one end alone, or its due day for the other.
        ((8, None, None), 5, "Booked 3 days before the expected time"),
        ((8, None, None), 30, "Booked within the expected time"),
        ((None, None, 12), 13, "Booked 1 day after the expected time"),
        ((None, None, 12), 1, "Booked within the expected time"),
        ((8, 10, None), 9, "Booked within the expected time"),
        ((8, 10, None), 11, "Booked 1 day after the expected time"),
        ((None, 10, 12), 11, "Booked within the expected time"),
        ((None, 10, 12), 9, "Booked 1 day before the expected time"),
        ((8, 9, 12), 8, "Booked within the expected time"),
        ((8, 9, 12), 12, "Booked within the expected time"),
        ((None, None, None), 1, "Booked within the expected time"),
    ],
)
def test_when_it_was_booked(span: tuple[int | None, int | None, int | None], day: int, told: str) -> None:
    first, due, last = (None if at is None else date(2026, 5, at) for at in span)
    item = replace(ITEM, from_on=first, due_on=due, to_on=last)
    assert told_of({"date": 3}, item, replace(LINE, booking_on=date(2026, 5, day))) == told


NAMED = replace(ITEM, counterparty_name="Zangra Handel"), replace(LINE, counterparty_name="Zangra")


@pytest.mark.parametrize(
    ("account", "name", "told"),
    [
        (PartyLevel.UNKNOWN, NameLevel.UNKNOWN, []),
        (PartyLevel.EQUAL, NameLevel.EQUAL, ["name and account of Zangra agree"]),
        (PartyLevel.EQUAL, NameLevel.UNKNOWN, ["the account of Zangra agrees"]),
        (
            PartyLevel.EQUAL,
            NameLevel.DIFFERENT,
            ["the account of Zangra agrees", "the counterparty's name differs"],
        ),
        (
            PartyLevel.DIFFERENT,
            NameLevel.EQUAL,
            ["the counterparty's account differs", "the name Zangra agrees"],
        ),
        (PartyLevel.UNKNOWN, NameLevel.EQUAL, ["the name Zangra agrees"]),
        (PartyLevel.UNKNOWN, NameLevel.SIMILAR, ["the name Zangra resembles Zangra Handel"]),
        (PartyLevel.UNKNOWN, NameLevel.ALIAS, ["Zangra was matched with Zangra Handel before"]),
        (PartyLevel.UNKNOWN, NameLevel.TEXT, ["the remittance text names Zangra Handel"]),
        (PartyLevel.UNKNOWN, NameLevel.ULTIMATE, ["Zangra acts for Zangra Handel"]),
    ],
)
def test_whether_the_counterparties_agree(account: PartyLevel, name: NameLevel, told: list[str]) -> None:
    assert parties({"account": account, "name": name}, *NAMED) == told


@pytest.mark.parametrize(
    ("levels", "told"),
    [
        ({"account": 2, "name": 2}, "name and account of the counterparty agree"),
        ({"name": 3}, "the name the counterparty resembles that of the item"),
        ({"name": 5}, "the remittance text names the counterparty"),
        ({"own_account": 1}, "it arrived on another account than expected"),
    ],
)
def test_counterparties_without_a_name_are_said_as_well(levels: dict[str, int], told: str) -> None:
    assert parties(levels, ITEM, LINE) == [told]


def test_the_items_name_stands_for_one_that_the_line_does_not_have() -> None:
    assert parties({"account": 2, "own_account": 2}, NAMED[0], LINE) == ["the account of Zangra Handel agrees"]


def test_who_acts_for_the_items_counterparty_is_not_called_by_its_name() -> None:
    assert parties({"name": 4}, NAMED[0], LINE) == ["the counterparty acts for Zangra Handel"]
    assert parties({"name": 4}, ITEM, NAMED[1]) == ["Zangra acts for the counterparty"]


def test_a_line_that_repeats_another_one_says_so() -> None:
    assert told_of({"amount": 1, "line": 3}) == "The amount is equal, it repeats an earlier payment"


@pytest.mark.parametrize(
    ("status", "rivals", "told"),
    [
        (Uniqueness.UNIQUE, 0, "no other open item fits"),
        (Uniqueness.UNIQUE, 1, "1 other candidate would fit worse"),
        (Uniqueness.UNIQUE, 2, "2 other candidates would fit worse"),
        (Uniqueness.CONTESTED, 0, "others fit as well"),
        (Uniqueness.CONTESTED, 1, "1 other candidate fits as well"),
        (Uniqueness.CONTESTED, 2, "2 other candidates fit as well"),
        (Uniqueness.AMBIGUOUS, 0, "another one is just the same"),
        (Uniqueness.AMBIGUOUS, 1, "1 other candidate fits just as well or nearly so"),
        (Uniqueness.AMBIGUOUS, 2, "2 other candidates fit just as well or nearly so"),
        (Uniqueness.UNBOUNDED, 2, "not all that may fit was compared"),
    ],
)
def test_what_else_would_fit(status: Uniqueness, rivals: int, told: str) -> None:
    assert alone(status, rivals) == told


@pytest.mark.parametrize(
    ("level", "said"),
    [
        (LineLevel.QUOTES_OTHER, "it quotes something else of its counterparty that it cannot pay"),
        (LineLevel.OF_ANOTHER, "it says that it is somebody else's"),
        (LineLevel.DIFFERS_BY_OTHER, "something else of the counterparty is just the payment, or just the difference"),
        (LineLevel.OF_ANYBODY, "it names a period, and nobody who pays"),
        (LineLevel.RIVAL_SETTLED, "a run has settled another one that fitted as well"),
        (LineLevel.OTHER_NUMBER, "it quotes another number that is built like the item's"),
    ],
)
def test_what_says_that_it_is_of_something_else_counts_as_one_of_the_others(level: LineLevel, said: str) -> None:
    def others(rivals: int) -> str:
        levels = {"amount": AmountLevel.EQUAL, "line": level}
        return explanation(levels, expected=ITEM, incoming=LINE, status=Uniqueness.CONTESTED, rivals=rivals)

    assert others(1) == f"The amount is equal; {said}."
    assert others(3) == f"The amount is equal; 3 other candidates fit as well, and {said}."


def test_a_text_is_quoted_on_one_line_and_in_part_if_it_is_long() -> None:
    longest = "x" * EXPLANATION_QUOTE_LENGTH_MAX
    assert quoted(longest, "none") == longest
    assert quoted(f"{longest}y", "none") == f"{longest[:-1]}…"
    assert quoted("\u200bA\u2028\t B\x00", "none") == "A B"
    blanks = " " * (4 * EXPLANATION_QUOTE_LENGTH_MAX - 1)
    assert quoted(f"{blanks}A", "none") == "A"
    # No text is looked at to its end.
    assert quoted(f"{blanks} A", "none") == quoted(" ", "none") == quoted("", "none") == quoted(None, "none") == "none"


def test_evidence_weighs_with_what_was_learned() -> None:
    learned = evidence({"amount": 1, "name": 2}, {"amount": (0, 300, 0, 0, 0, 0, 0, 0)})
    assert {said["feature"]: said["weight"] for said in learned} == {"amount": 5_300, "name": 4_000}


def test_all_features_that_are_not_known_are_named() -> None:
    with pytest.raises(ValueError, match="unknown features: colour, size"):
        evidence({"size": 1, "amount": 1, "colour": 1})
