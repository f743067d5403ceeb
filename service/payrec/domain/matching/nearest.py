"""The nearest candidates of one open transaction, and what each of them would need to be proposed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from payrec.domain.matching.pair import Item, Judged, Line, judged
from payrec.domain.matching.rules import MatchingRules, Reason
from payrec.domain.money import format_minor

NEAREST_MAX: Final = 5
"""Candidates that are told."""

NEAREST_LOOKED_AT_MAX: Final = 200
"""Candidates that are compared to find them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A transaction of the other side."""

    place: int
    """Where it stood among those that were compared."""
    judged: Judged
    would_match_if: str | None
    """What is missing, as the end of a sentence; None when nothing forbids the pair."""


def nearest(
    pairs: Sequence[tuple[Item, Line]], rules: MatchingRules, *, proposed: Collection[int] = ()
) -> list[Candidate]:
    """Return the best of the pairs: what nothing forbids first, then by score, then by amount and days.

    First of all come those that are ``proposed``, by their places: nothing forbids what a run has found to be right,
    which knows names that are alike and rates of other currencies.
    """
    found = [
        Candidate(place=place, judged=told, would_match_if=_missing(item, line, told, rules))
        for place, (item, line) in enumerate(pairs)
        for told in (_judged(item, line, rules, is_proposed=place in proposed),)
    ]
    found.sort(
        key=lambda candidate: (
            candidate.place not in proposed,
            candidate.judged.fault is not None,
            -candidate.judged.score_milli,
            candidate.judged.difference_minor is None,
            abs(candidate.judged.difference_minor or 0),
            abs(candidate.judged.days_outside),
            candidate.place,
        )
    )
    return found[:NEAREST_MAX]


def _judged(item: Item, line: Line, rules: MatchingRules, *, is_proposed: bool) -> Judged:
    told = judged(item, line, rules)
    return replace(told, fault=None) if is_proposed else told


def _missing(item: Item, line: Line, told: Judged, rules: MatchingRules) -> str | None:
    bounds = told.rule.bounds if told.rule is not None else rules
    whose = f" of the rule {told.rule.name}" if told.rule is not None else ""
    match told.fault:
        case None:
            return None
        case Reason.CURRENCY_MISMATCH:
            return f"both were in one currency: it is {line.currency} against {item.currency}"
        case Reason.DATE_OUT_OF_WINDOW if told.days_outside > 0:
            days = bounds.date_window_days_after
            return f"dateWindowDaysAfter{whose} were {days + told.days_outside} days; it is {days}"
        case Reason.DATE_OUT_OF_WINDOW:
            days = bounds.date_window_days_before
            return f"dateWindowDaysBefore{whose} were {days - told.days_outside} days; it is {days}"
        case Reason.AMOUNT_MISMATCH:
            gap = told.difference_minor or 0
            less = f"{format_minor(abs(gap), item.currency)} {item.currency} {'less' if gap < 0 else 'more'}"
            return f"the amounts were equal, or the payment quoted the reference: it is {less} than what is open"
        case Reason.MISSING_REFERENCE | Reason.COUNTERPARTY_MISMATCH if told.rule is not None and bounds.required:
            return f"the payment had what requiredFields{whose} asks for"
        case Reason.MISSING_REFERENCE:
            return "the payment quoted the reference, which requireReference asks for"
        case _:
            return "the payment quoted the reference: the amount is equal, but the counterparty is another one"
