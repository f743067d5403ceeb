"""What a match rests on, told from its stored levels: as evidence for programs, as a sentence for people.

Nothing is computed again here: the levels say what the engine saw, the facts only put names and numbers to it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, TypedDict

from payrec.constants import EXPLANATION_QUOTE_LENGTH_MAX
from payrec.domain.matching.rules import (
    FEATURES,
    AdjustmentType,
    AmountLevel,
    DateLevel,
    EndToEndLevel,
    LineLevel,
    NameLevel,
    PartyLevel,
    ReferenceLevel,
    Uniqueness,
)
from payrec.domain.matching.weights import weight_of
from payrec.domain.money import format_minor

_BLANKS: Final = re.compile(r"\s+")


class Evidence(TypedDict):
    """One feature of a match."""

    feature: str
    level: str
    """The level's name in lower case."""
    weight: int
    """Thousandths of log-odds; positive speaks for the match."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedFacts:
    """What the explanation says about the item."""

    amount_minor: int
    """What was open when the match was proposed."""
    currency: str
    due_on: date | None = None
    from_on: date | None = None
    to_on: date | None = None
    reference: str | None = None
    end_to_end_id: str | None = None
    counterparty_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingFacts:
    """What the explanation says about the line."""

    amount_minor: int
    """What was open when the match was proposed."""
    currency: str
    booking_on: date | None = None
    counterparty_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdjustmentFacts:
    """What the explanation says about a difference that is settled without money."""

    type: AdjustmentType
    amount_minor: int
    """Signed: + counts as settled."""
    currency: str
    of_line: bool
    """Whether it counts on the line, not on the item."""
    settled_minor: int
    """What the line settles of the item with money, in the item's currency."""
    rate: str | None = None
    """Units of the item's currency for one of the line's."""


def evidence(levels: Mapping[str, int], corrections: Mapping[str, Sequence[int]] | None = None) -> list[Evidence]:
    """Return what the levels say, feature by feature, without those on which a side is silent.

    ``levels`` maps names of ``FEATURES`` to stored numbers; a missing feature is silent. ``corrections`` are those of
    the calibration that the match was made with.

    Raises
    ------
    ValueError
        A feature or a level that this version does not know.

    """
    unknown = set(levels) - set(FEATURES)
    if unknown:
        raise ValueError(f"unknown features: {', '.join(sorted(unknown))}")
    return [
        Evidence(
            feature=feature,
            level=kind(levels[feature]).name.lower(),
            weight=weight_of(feature, levels[feature], corrections),
        )
        for feature, kind in FEATURES.items()
        if levels.get(feature, 0) != 0
    ]


def quoted(text: str | None, fallback: str) -> str:
    """Return a text as it may stand in a sentence: printable, on one line, of bounded length."""
    if not text:
        return fallback
    printable = "".join(
        " " if unicodedata.category(c)[0] in "CZ" else c for c in text[: 4 * EXPLANATION_QUOTE_LENGTH_MAX]
    )
    short = _BLANKS.sub(" ", printable).strip()
    if not short:
        return fallback
    return short if len(short) <= EXPLANATION_QUOTE_LENGTH_MAX else short[: EXPLANATION_QUOTE_LENGTH_MAX - 1] + "…"


def _reference(levels: Mapping[str, int], expected: ExpectedFacts) -> list[str]:
    reference = f"reference {quoted(expected.reference, 'of the item')}"
    identity = f"the end-to-end id {quoted(expected.end_to_end_id, 'of the item')}"
    by_reference = {
        ReferenceLevel.ABSENT: f"{reference} is not quoted",
        ReferenceLevel.COMMON: f"{reference} is quoted, but many open items have it",
        ReferenceLevel.PARTIAL: f"{reference} is quoted, by too little to prove the payment",
        ReferenceLevel.FULL: f"{reference} is quoted in the remittance text",
        ReferenceLevel.NEAR: f"{reference} is quoted in part or with a digit mistaken",
    }
    by_identity = {
        EndToEndLevel.DIFFERENT: "the end-to-end ids differ",
        EndToEndLevel.EQUAL: f"{identity} is the payment's",
        EndToEndLevel.PARTIAL: f"{identity} is the payment's, too short to prove it",
    }
    phrases = [
        by_identity.get(EndToEndLevel(levels.get("end_to_end", 0))),
        by_reference.get(ReferenceLevel(levels.get("reference", 0))),
    ]
    return [phrase for phrase in phrases if phrase]


_TAKEN_AS: Final = {
    AdjustmentType.FEE: "a fee",
    AdjustmentType.FX: "an exchange difference",
    AdjustmentType.ROUNDING: "a rounding",
    AdjustmentType.WRITE_OFF: "a write-off",
    AdjustmentType.OVER_PAYMENT: "an over-payment",
    AdjustmentType.DISCOUNT: "a discount",
    AdjustmentType.WITHHOLDING_TAX: "withholding tax",
    AdjustmentType.BANK_CHARGE: "a bank charge",
    AdjustmentType.DEDUCTION: "a deduction",
}


def adjusted(adjustment: AdjustmentFacts, incoming: IncomingFacts) -> list[str]:
    """Say by what a difference is settled, and of an exchange what was exchanged."""
    gap = f"{format_minor(abs(adjustment.amount_minor), adjustment.currency)} {adjustment.currency}"
    more = adjustment.of_line != (adjustment.amount_minor < 0)
    difference = f"{gap} {'more' if more else 'less'} than asked, taken as {_TAKEN_AS[adjustment.type]}"
    if adjustment.rate is None:
        return [difference]
    paid = f"{format_minor(incoming.amount_minor, incoming.currency)} {incoming.currency}"
    settled = f"{format_minor(adjustment.settled_minor, adjustment.currency)} {adjustment.currency}"
    exchanged = f"{paid} at {adjustment.rate} {'is' if adjustment.amount_minor else 'is just'} {settled}"
    return [exchanged, difference] if adjustment.amount_minor else [exchanged]


def _amount(levels: Mapping[str, int], expected: ExpectedFacts, incoming: IncomingFacts) -> list[str]:
    level = AmountLevel(levels.get("amount", 0))
    gap = format_minor(abs(incoming.amount_minor - expected.amount_minor), expected.currency)
    paid = format_minor(incoming.amount_minor, incoming.currency)
    asked = format_minor(expected.amount_minor, expected.currency)
    phrases = {
        AmountLevel.EQUAL: "the amount is equal",
        AmountLevel.TOLERANCE: f"the amount differs by {gap} {expected.currency}, within the tolerance",
        AmountLevel.BAND: f"the amount of {paid} {incoming.currency} lies within the limits of the item",
        AmountLevel.TERM: f"{paid} {incoming.currency} in time is what its terms ask for",
        AmountLevel.SMALLER: f"{paid} of {asked} {expected.currency} is paid",
        AmountLevel.LARGER: f"{gap} {expected.currency} more is paid than the {asked} that are open",
        AmountLevel.CONVERTED: f"{paid} {incoming.currency} is about the {asked} {expected.currency} that are open",
    }
    return [phrases[level]] if level in phrases else []


def days_told(count: int) -> str:
    """Return a number of days as it is said."""
    return f"{count} day{'' if count == 1 else 's'}"


def _date(levels: Mapping[str, int], expected: ExpectedFacts, incoming: IncomingFacts) -> list[str]:
    if levels.get("date", 0) == DateLevel.UNKNOWN or incoming.booking_on is None:
        return []
    day = incoming.booking_on
    first = expected.from_on or expected.due_on
    last = expected.to_on or expected.due_on
    if expected.due_on is not None and expected.from_on is None and expected.to_on is None:
        if day == expected.due_on:
            return ["booked on the due date"]
        gap = (day - expected.due_on).days
        return [f"booked {days_told(abs(gap))} {'after' if gap > 0 else 'before'} the due date"]
    if last is not None and day > last:
        return [f"booked {days_told((day - last).days)} after the expected time"]
    if first is not None and day < first:
        return [f"booked {days_told((first - day).days)} before the expected time"]
    return ["booked within the expected time"]


def parties(levels: Mapping[str, int], expected: ExpectedFacts, incoming: IncomingFacts) -> list[str]:
    """Say whether the counterparties agree, and the own account."""
    name = quoted(incoming.counterparty_name or expected.counterparty_name, "the counterparty")
    # Who acts for the item's counterparty is somebody else, even where the line does not say who.
    payer = quoted(incoming.counterparty_name, "the counterparty")
    account, named = PartyLevel(levels.get("account", 0)), NameLevel(levels.get("name", 0))
    own = PartyLevel(levels.get("own_account", 0))
    phrases = []
    if account is PartyLevel.EQUAL and named is NameLevel.EQUAL:
        phrases.append(f"name and account of {name} agree")
    else:
        if account is not PartyLevel.UNKNOWN:
            agrees = account is PartyLevel.EQUAL
            phrases.append(f"the account of {name} agrees" if agrees else "the counterparty's account differs")
        by_name = {
            NameLevel.DIFFERENT: "the counterparty's name differs",
            NameLevel.EQUAL: f"the name {name} agrees",
            NameLevel.SIMILAR: f"the name {name} resembles {quoted(expected.counterparty_name, 'that of the item')}",
            NameLevel.ALIAS: f"{name} was matched with {quoted(expected.counterparty_name, 'that of the item')} before",
            NameLevel.TEXT: f"the remittance text names {quoted(expected.counterparty_name, 'the counterparty')}",
            NameLevel.ULTIMATE: f"{payer} acts for {quoted(expected.counterparty_name, 'the counterparty')}",
        }
        if named in by_name:
            phrases.append(by_name[named])
    if own is PartyLevel.DIFFERENT:
        phrases.append("it arrived on another account than expected")
    return phrases


def alone(status: Uniqueness, rivals: int) -> str:
    """Say what else would fit."""
    others = f"{rivals} other candidate{'' if rivals == 1 else 's'}"
    if status is Uniqueness.UNIQUE:
        return f"{others} would fit worse" if rivals else "no other open item fits"
    if status is Uniqueness.UNBOUNDED:
        return "not all that may fit was compared"
    verb = "fits" if rivals == 1 else "fit"
    if status is Uniqueness.CONTESTED:
        return f"{others} {verb} as well" if rivals else "others fit as well"
    return f"{others} {verb} just as well or nearly so" if rivals else "another one is just the same"


_OTHERWISE: Final = {
    LineLevel.QUOTES_OTHER: "it quotes something else of its counterparty that it cannot pay",
    LineLevel.OF_ANOTHER: "it says that it is somebody else's",
    LineLevel.DIFFERS_BY_OTHER: "something else of the counterparty is just the payment, or just the difference",
    LineLevel.OF_OTHER_PERIOD: "it names another period",
    LineLevel.OF_ANYBODY: "it names a period, and nobody who pays",
    LineLevel.RIVAL_SETTLED: "a run has settled another one that fitted as well",
    LineLevel.OTHER_NUMBER: "it quotes another number that is built like the item's",
}
"""What says that a payment is of something else than its amount and its payer do."""


def explanation(
    levels: Mapping[str, int],
    *,
    expected: ExpectedFacts,
    incoming: IncomingFacts,
    adjustments: Sequence[AdjustmentFacts] = (),
    status: Uniqueness | int = Uniqueness.UNIQUE,
    rivals: int = 0,
) -> str:
    """Return one plain sentence on why the two belong together, and what speaks against it.

    ``levels`` as for ``evidence``; ``rivals`` counts the other candidates on both sides.

    Raises
    ------
    ValueError
        A level that this version does not know.

    """
    differences = [phrase for adjustment in adjustments for phrase in adjusted(adjustment, incoming)]
    phrases = [
        *_reference(levels, expected),
        *(differences or _amount(levels, expected, incoming)),
        *parties(levels, expected, incoming),
        *_date(levels, expected, incoming),
    ]
    line = LineLevel(levels.get("line", 0))
    if line is LineLevel.PENDING:
        phrases.append("not booked yet")
    elif line is LineLevel.DUPLICATE:
        phrases.append("it repeats an earlier payment")
    told = ", ".join(phrases) or "nothing is known"
    # What it says that it is of counts as one of the rivals.
    said = [_OTHERWISE[line]] if line in _OTHERWISE else []
    if not said or rivals > 1:
        said.insert(0, alone(Uniqueness(status), rivals))
    return f"{told[0].upper()}{told[1:]}; {', and '.join(said)}."
