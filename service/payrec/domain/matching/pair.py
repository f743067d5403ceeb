"""One pair by itself, in plain integers: the levels, the score and the fault that a run would give it.

The same rules as ``payrec.domain.matching.score``, for where a run's columns would cost more than the question: a test
holds both to the same answers. What only a run can tell is left out: how common a reference is among all open items,
and whom a name means that no item has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from payrec.domain.matching.digits import is_alike, is_of_other_period
from payrec.domain.matching.keys import ACCOUNTS_OF_NOBODY, NAMES_OF_NOBODY
from payrec.domain.matching.line_rules import (
    BASIS_POINTS,
    FLAT_SHARE_MAX,
    ROUNDING_MINOR_MAX,
    Bounds,
    LineRule,
    Required,
)
from payrec.domain.matching.periods import is_alone
from payrec.domain.matching.rules import (
    CLOSE_DAYS,
    CLOSE_EARLY_DAYS,
    FEATURES,
    FEE_SHARE_MAX,
    NEAR_DAYS,
    AmountLevel,
    DateLevel,
    EndToEndLevel,
    GroupLevel,
    LineLevel,
    MatchingRules,
    NameLevel,
    PartyLevel,
    Reason,
    ReferenceLevel,
)
from payrec.domain.matching.weights import PRIOR_WEIGHT, WEIGHTS

_EQUAL: Final = frozenset({AmountLevel.EQUAL, AmountLevel.TOLERANCE, AmountLevel.BAND, AmountLevel.TERM})


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """An open expected transaction; the fields are the columns of ``EXPECTED_SCHEMA``."""

    currency: str
    direction: int
    amount_minor: int
    total_minor: int
    min_minor: int | None = None
    max_minor: int | None = None
    due_day: int | None = None
    from_day: int | None = None
    to_day: int | None = None
    reference_key: int | None = None
    end_to_end_key: int | None = None
    name_key: int | None = None
    account_key: int | None = None
    own_account_key: int | None = None
    reference_digits: int | None = None
    terms: Sequence[int] | None = None

    @property
    def span(self) -> tuple[int | None, int | None]:
        """The first and the last day on which it is expected."""
        firsts = [day for day in (self.from_day, self.due_day) if day is not None]
        lasts = [day for day in (self.to_day, self.due_day) if day is not None]
        return (min(firsts) if firsts else None), (max(lasts) if lasts else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """An open incoming transaction; the fields are the columns of ``INCOMING_SCHEMA``."""

    currency: str
    direction: int
    amount_minor: int
    total_minor: int
    booking_day: int | None = None
    value_day: int | None = None
    pending: bool = False
    duplicate: bool = False
    reference_keys: tuple[int, ...] = ()
    end_to_end_key: int | None = None
    name_key: int | None = None
    account_key: int | None = None
    own_account_key: int | None = None
    quoted_digits: tuple[int, ...] = ()
    ultimate_name_key: int | None = None
    text_name_keys: tuple[int, ...] = ()
    series_digits: tuple[int, ...] = ()

    @property
    def day(self) -> int | None:
        """The booking day, else the value day."""
        return self.value_day if self.booking_day is None else self.booking_day


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What is known of a pair."""

    levels: Mapping[str, int]
    """By feature."""
    score_milli: int
    """Log-odds in thousandths."""
    difference_minor: int | None
    """Line less item; None between two currencies."""
    days_outside: int
    """Days beyond the date window: negative before it, positive after it, 0 within."""
    fault: Reason | None
    """What forbids it."""
    rule: LineRule | None
    """That of the line; None where the settings decide."""


def _reference(item: Item, line: Line) -> ReferenceLevel:
    if item.reference_key is not None and item.reference_key in (*line.reference_keys, line.end_to_end_key):
        return ReferenceLevel.FULL if item.reference_key & 1 else ReferenceLevel.PARTIAL
    asked = item.reference_digits
    if asked in line.series_digits and item.currency == line.currency and _of_party(item, line):
        return ReferenceLevel.PARTIAL
    paid = (item.currency, item.amount_minor) == (line.currency, line.amount_minor)
    if paid and asked is not None and any(is_alike(asked, quoted) for quoted in line.quoted_digits):
        return ReferenceLevel.NEAR
    silent = item.reference_key is None or not line.reference_keys
    return ReferenceLevel.UNKNOWN if silent else ReferenceLevel.ABSENT


def _end_to_end(item: Item, line: Line) -> EndToEndLevel:
    if item.end_to_end_key is not None and item.end_to_end_key in (*line.reference_keys, line.end_to_end_key):
        return EndToEndLevel.EQUAL if item.end_to_end_key & 1 else EndToEndLevel.PARTIAL
    silent = item.end_to_end_key is None or line.end_to_end_key is None
    return EndToEndLevel.UNKNOWN if silent else EndToEndLevel.DIFFERENT


def _amount(item: Item, line: Line, rules: Bounds) -> AmountLevel:
    if item.currency != line.currency:
        return AmountLevel.UNKNOWN
    difference = line.amount_minor - item.amount_minor
    share = item.amount_minor // BASIS_POINTS * rules.amount_tolerance_basis_points
    share += item.amount_minor % BASIS_POINTS * rules.amount_tolerance_basis_points // BASIS_POINTS
    untouched = item.amount_minor == item.total_minor and line.amount_minor == line.total_minor
    low = item.amount_minor if item.min_minor is None else item.min_minor
    high = item.amount_minor if item.max_minor is None else item.max_minor
    if difference == 0:
        return AmountLevel.EQUAL
    if untouched and _in_terms(item, line, rules):
        return AmountLevel.TERM
    quoted = _reference(item, line) is ReferenceLevel.FULL or _end_to_end(item, line) is EndToEndLevel.EQUAL
    fee = quoted and 0 < -difference <= min(rules.fee_tolerance_minor, item.amount_minor // FEE_SHARE_MAX)
    flat = min(rules.amount_tolerance_minor, max(item.amount_minor // FLAT_SHARE_MAX, ROUNDING_MINOR_MAX))
    if fee or abs(difference) <= max(share, flat):
        return AmountLevel.TOLERANCE
    if untouched and (item.min_minor, item.max_minor) != (None, None) and low <= line.amount_minor <= high:
        return AmountLevel.BAND
    return AmountLevel.SMALLER if difference < 0 else AmountLevel.LARGER


def _in_terms(item: Item, line: Line, rules: Bounds) -> bool:
    """Tell whether the line is what one of the item's terms asks for, in time."""
    terms = item.terms or ()
    pairs = zip(terms[::2], terms[1::2], strict=True)
    beside = min(rules.amount_tolerance_minor, ROUNDING_MINOR_MAX)
    own = [last for minor, last in pairs if abs(line.amount_minor - minor) <= beside]
    return line.day is not None and any(line.day <= last for last in own)


def _days(item: Item, line: Line, rules: Bounds) -> tuple[DateLevel, int]:
    """Return the level of the date, and the days beyond the window."""
    first, last = item.span
    if line.day is None or (first is None and last is None):
        return DateLevel.UNKNOWN, 0
    early = 0 if first is None else first - line.day
    late = 0 if last is None else line.day - last
    if early > rules.date_window_days_before:
        return DateLevel.OUTSIDE, rules.date_window_days_before - early
    if late > rules.date_window_days_after:
        return DateLevel.OUTSIDE, late - rules.date_window_days_after
    beside = max(early, late, 0)
    if beside <= NEAR_DAYS:
        return DateLevel.NEAR, 0
    near = beside <= (CLOSE_EARLY_DAYS if early > 0 else CLOSE_DAYS)
    return (DateLevel.CLOSE if near else DateLevel.WITHIN), 0


def _party(own: int | None, other: int | None) -> int:
    if own is None or other is None:
        return PartyLevel.UNKNOWN
    return PartyLevel.EQUAL if own == other else PartyLevel.DIFFERENT


def _account(item: Item, line: Line) -> int:
    return _party(item.account_key, line.account_key)


def _name(item: Item, line: Line) -> int:
    level = _party(item.name_key, line.name_key)
    if item.name_key is None or level == NameLevel.EQUAL:
        return level
    if line.ultimate_name_key == item.name_key:
        return NameLevel.ULTIMATE
    return NameLevel.TEXT if item.name_key in line.text_name_keys else level


def _of_party(item: Item, line: Line) -> bool:
    return _account(item, line) == PartyLevel.EQUAL or _name(item, line) >= NameLevel.EQUAL


def _line(item: Item, line: Line) -> LineLevel:
    if line.duplicate:
        return LineLevel.DUPLICATE
    if line.pending:
        return LineLevel.PENDING
    if _end_to_end(item, line) is EndToEndLevel.EQUAL:
        return LineLevel.BOOKED
    if _reference(item, line) is ReferenceLevel.FULL:
        silent = _account(item, line) == _name(item, line) == PartyLevel.UNKNOWN
        return LineLevel.OF_ANYBODY if silent and is_alone(item.reference_digits or 0) else LineLevel.BOOKED
    is_other = is_of_other_period(item.reference_digits, line.quoted_digits)
    return LineLevel.OF_OTHER_PERIOD if is_other else LineLevel.BOOKED


def _fault(item: Item, line: Line, levels: Mapping[str, int], rules: Bounds) -> Reason | None:
    reference, end_to_end = levels["reference"], levels["end_to_end"]
    proof = reference == ReferenceLevel.FULL or end_to_end == EndToEndLevel.EQUAL
    hint = proof or reference >= ReferenceLevel.COMMON or end_to_end == EndToEndLevel.PARTIAL
    account, name = levels["account"], levels["name"]
    payer = account == PartyLevel.EQUAL or name in {NameLevel.EQUAL, NameLevel.ULTIMATE}
    if item.currency != line.currency:
        return Reason.CURRENCY_MISMATCH
    if levels["date"] == DateLevel.OUTSIDE:
        return Reason.DATE_OUT_OF_WINDOW
    if levels["amount"] not in _EQUAL and not proof:
        return Reason.AMOUNT_MISMATCH
    lacks = _lacking(levels, rules.required)
    if lacks is not None:
        return lacks
    if not hint and not payer and PartyLevel.DIFFERENT in {account, name}:
        return Reason.COUNTERPARTY_MISMATCH
    return None


def _lacking(levels: Mapping[str, int], required: Required) -> Reason | None:
    """Return the reason for which what is required is not there."""
    hint = ReferenceLevel(levels["reference"]).quoted or levels["end_to_end"] >= EndToEndLevel.EQUAL
    said = {
        Required.REFERENCE: hint,
        Required.END_TO_END_ID: levels["end_to_end"] >= EndToEndLevel.EQUAL,
        Required.GROUP_KEY: levels["group"] == GroupLevel.BY_KEY,
        Required.COUNTERPARTY_NAME: levels["name"] >= NameLevel.EQUAL,
        Required.COUNTERPARTY_ACCOUNT: levels["account"] == PartyLevel.EQUAL,
    }
    lacks = [what for what, there in said.items() if what in required and not there]
    if not lacks:
        return None
    of_party = lacks[0] in {Required.COUNTERPARTY_NAME, Required.COUNTERPARTY_ACCOUNT}
    return Reason.COUNTERPARTY_MISMATCH if of_party else Reason.MISSING_REFERENCE


T = TypeVar("T", Item, Line)


def _of_somebody(end: T) -> T:
    """Return a transaction without a name and an account that say that there is none, as ``with_rules`` leaves it."""
    name_key = None if end.name_key in NAMES_OF_NOBODY else end.name_key
    account_key = None if end.account_key in ACCOUNTS_OF_NOBODY else end.account_key
    return replace(end, name_key=name_key, account_key=account_key)


def judged(item: Item, line: Line, rules: MatchingRules) -> Judged:
    """Compare an item with a line of the same direction, by the rule of the line."""
    rule = rules.rule_of(line)
    item, line = _of_somebody(item), _of_somebody(line)
    bounds = rule.bounds if rule is not None else rules
    date_level, outside = _days(item, line, bounds)
    levels = {
        "reference": int(_reference(item, line)),
        "end_to_end": int(_end_to_end(item, line)),
        "amount": int(_amount(item, line, bounds)),
        "date": int(date_level),
        "account": _account(item, line),
        "name": int(_name(item, line)),
        "own_account": _party(item.own_account_key, line.own_account_key),
        "line": int(_line(item, line)),
    }
    levels |= dict.fromkeys(set(FEATURES) - set(levels), 0)
    return Judged(
        levels=levels,
        score_milli=PRIOR_WEIGHT + sum(WEIGHTS[feature][level] for feature, level in levels.items()),
        difference_minor=line.amount_minor - item.amount_minor if item.currency == line.currency else None,
        days_outside=outside,
        fault=_fault(item, line, levels, bounds),
        rule=rule,
    )
