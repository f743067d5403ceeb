"""Why money against money belongs together, as a sentence: two lines, or an invoice and its credit note."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

from payrec.domain.matching.explain import days_told, quoted
from payrec.domain.matching.rules import (
    AmountLevel,
    EndToEndLevel,
    LineLevel,
    MatchKind,
    NameLevel,
    PartyLevel,
    ReferenceLevel,
    Uniqueness,
)
from payrec.domain.money import format_minor


@dataclass(frozen=True, slots=True, kw_only=True)
class EndFacts:
    """What the explanation says about one of the two."""

    amount_minor: int
    """What was open when the match was proposed."""
    currency: str
    day: date | None = None
    """On which a line was booked, or an item is due."""
    reference: str | None = None
    end_to_end_id: str | None = None
    group_key: str | None = None
    counterparty_name: str | None = None
    counterparty_account: str | None = None
    own_account: str | None = None


def money_explanation(
    kind: MatchKind,
    levels: Mapping[str, int],
    *,
    credit: EndFacts,
    debit: EndFacts,
    status: Uniqueness | int = Uniqueness.UNIQUE,
    rivals: int = 0,
) -> str:
    """Return one plain sentence on why what comes in and what goes out belong together.

    ``levels`` as for ``payrec.domain.matching.explain.evidence``; ``rivals`` counts the other candidates.

    Raises
    ------
    ValueError
        A level that this version does not know, or a kind that is not money against money.

    """
    tell = _TELLERS.get(kind)
    if tell is None:
        raise ValueError(f"{kind.name.lower()} is not money against money")
    phrases = tell(levels, credit, debit)
    line = LineLevel(levels.get("line", 0))
    if line is LineLevel.PENDING:
        phrases.append("not booked yet")
    elif line is LineLevel.DUPLICATE:
        phrases.append("one of them repeats an earlier payment")
    told = ", ".join(phrases)
    what = "item" if kind is MatchKind.CREDIT_NOTE else "line"
    return f"{told[0].upper()}{told[1:]}; {_alone(Uniqueness(status), rivals, what)}."


def _money(minor: int, currency: str) -> str:
    return f"{format_minor(minor, currency)} {currency}"


def _transfer(levels: Mapping[str, int], credit: EndFacts, debit: EndFacts) -> list[str]:
    start, end = quoted(debit.own_account, "one own account"), quoted(credit.own_account, "another own account")
    phrases = [f"{_money(credit.amount_minor, credit.currency)} moved from {start} to {end}"]
    if levels.get("reference", 0) == ReferenceLevel.FULL:
        phrases.append(f"both name the payout {quoted(debit.group_key or credit.group_key, 'by its id')}")
    phrases += _same_id(levels, credit)
    if levels.get("account", 0) == PartyLevel.EQUAL:
        both = credit.counterparty_account is not None and debit.counterparty_account is not None
        phrases.append("each names the account of the other" if both else "one names the account of the other")
    if len(phrases) == 1:
        phrases.append(f"nothing names payout {quoted(debit.group_key, 'of that amount')} but its amount")
    return phrases + _days_between(credit, debit, "booked")


def _refund(levels: Mapping[str, int], credit: EndFacts, debit: EndFacts) -> list[str]:
    turned = credit.day is not None and debit.day is not None and debit.day < credit.day
    first, second = (debit, credit) if turned else (credit, debit)
    paid, back = _money(first.amount_minor, first.currency), _money(second.amount_minor, second.currency)
    if AmountLevel(levels.get("amount", 0)) is AmountLevel.EQUAL:
        phrases = [f"a payment of {paid} was given back"]
    else:
        phrases = [f"{back} of a payment of {paid} were given back"]
    if levels.get("reference", 0) == ReferenceLevel.FULL:
        phrases.append("both quote the same reference")
    return phrases + _same_id(levels, credit) + _parties(levels, credit, debit) + _days_between(first, second, "later")


def _credit_note(levels: Mapping[str, int], credit: EndFacts, debit: EndFacts) -> list[str]:
    first, second = (credit, debit) if credit.amount_minor >= debit.amount_minor else (debit, credit)
    invoice, note = quoted(first.reference, "without a reference"), quoted(second.reference, "without a reference")
    phrases = [
        (
            f"credit note {note} of {_money(second.amount_minor, second.currency)} settles"
            f" {'all' if first.amount_minor == second.amount_minor else 'a part'} of invoice {invoice}"
        )
    ]
    if levels.get("reference", 0) == ReferenceLevel.FULL:
        phrases.append("one names the other")
    return phrases + _same_id(levels, credit) + _parties(levels, credit, debit)


_TELLERS: Final = {
    MatchKind.TRANSFER: _transfer,
    MatchKind.REFUND: _refund,
    MatchKind.CREDIT_NOTE: _credit_note,
}


def _same_id(levels: Mapping[str, int], end: EndFacts) -> list[str]:
    if levels.get("end_to_end", 0) != EndToEndLevel.EQUAL:
        return []
    return [f"both have the end-to-end id {quoted(end.end_to_end_id, 'of the other')}"]


def _parties(levels: Mapping[str, int], credit: EndFacts, debit: EndFacts) -> list[str]:
    name = quoted(credit.counterparty_name or debit.counterparty_name, "the counterparty")
    account, named = PartyLevel(levels.get("account", 0)), NameLevel(levels.get("name", 0))
    if account is PartyLevel.EQUAL and named is NameLevel.EQUAL:
        return [f"name and account of {name} agree"]
    phrases = []
    if account is not PartyLevel.UNKNOWN:
        agrees = account is PartyLevel.EQUAL
        phrases.append(f"the account of {name} agrees" if agrees else "the counterparty's account differs")
    if named is not NameLevel.UNKNOWN:
        phrases.append(f"the name {name} agrees" if named is NameLevel.EQUAL else "the counterparty's name differs")
    return phrases


def _days_between(first: EndFacts, second: EndFacts, how: str) -> list[str]:
    if first.day is None or second.day is None:
        return []
    days = abs((second.day - first.day).days)
    if days == 0:
        return ["booked on the same day"]
    return [f"booked {days_told(days)} apart" if how == "booked" else f"{days_told(days)} later"]


def _alone(status: Uniqueness, rivals: int, what: str) -> str:
    match status:
        case Uniqueness.UNIQUE:
            return f"no other {what} fits as well" if rivals else f"no other {what} fits"
        case Uniqueness.UNBOUNDED:
            return "not all that may fit was compared"
        case Uniqueness.CONTESTED:
            return f"another {what} would fit as well, but less near"
        case _:
            return f"another {what} fits just as well"
