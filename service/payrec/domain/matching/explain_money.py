"""Why money against money belongs together, as a sentence: two lines, or an invoice and its credit note."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

from payrec.domain.matching.explain import days_told, quoted
from payrec.domain.matching.keys import reference_key
from payrec.domain.matching.rules import (
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
    """All of it, whatever else has settled of it."""
    settled_minor: int
    """What the other one settles of it."""
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
    if levels.get("reference") == ReferenceLevel.FULL:
        phrases.append(f"both name the payout {quoted(debit.group_key or credit.group_key, 'by its id')}")
    phrases += _same_id(levels, credit)
    if levels.get("account") == PartyLevel.EQUAL:
        both = credit.counterparty_account is not None and debit.counterparty_account is not None
        phrases.append("each names the account of the other" if both else "one names the account of the other")
    if levels.get("name") == NameLevel.DIFFERENT:
        phrases.append("the names of their counterparties differ")
    if len(phrases) == 1:
        phrases.append(f"nothing names payout {quoted(debit.group_key, 'of that amount')} but its amount")
    return phrases + _days_between(credit, debit, "booked {} apart")


def _refund(levels: Mapping[str, int], credit: EndFacts, debit: EndFacts) -> list[str]:
    if credit.day is None or debit.day is None or credit.day == debit.day:
        # Nobody gives back more than he got.
        turned = credit.amount_minor < debit.amount_minor
    else:
        turned = debit.day < credit.day
    first, second = (debit, credit) if turned else (credit, debit)
    paid, back = _money(first.amount_minor, first.currency), _money(first.settled_minor, first.currency)
    if first.settled_minor == first.amount_minor:
        phrases = [f"a payment of {paid} was given back"]
    else:
        phrases = [f"{back} of a payment of {paid} were given back"]
    if levels.get("reference") == ReferenceLevel.FULL:
        phrases.append("both quote the same reference")
    return (
        phrases + _same_id(levels, credit) + _parties(levels, credit, debit) + _days_between(first, second, "{} later")
    )


def _credit_note(levels: Mapping[str, int], credit: EndFacts, debit: EndFacts) -> list[str]:
    # A credit note may be of more than one invoice.
    names = _names(credit, debit), _names(debit, credit)
    turned = names[0] if names[0] != names[1] else credit.amount_minor < debit.amount_minor
    first, second = (debit, credit) if turned else (credit, debit)
    invoice, note = quoted(first.reference, "without a reference"), quoted(second.reference, "without a reference")
    phrases = [
        (
            f"credit note {note} of {_money(second.amount_minor, second.currency)} settles"
            f" {'all' if first.settled_minor == first.amount_minor else 'a part'} of invoice {invoice}"
        )
    ]
    if levels.get("reference") == ReferenceLevel.FULL:
        phrases.append("one names the other")
    return phrases + _same_id(levels, credit) + _parties(levels, credit, debit)


def _names(note: EndFacts, invoice: EndFacts) -> bool:
    """Tell whether an item belongs to the other one, as a credit note does to its invoice."""
    reference = reference_key(invoice.reference)
    return reference is not None and reference in {reference_key(note.group_key), reference_key(note.end_to_end_id)}


_TELLERS: Final = {
    MatchKind.TRANSFER: _transfer,
    MatchKind.REFUND: _refund,
    MatchKind.CREDIT_NOTE: _credit_note,
}


def _same_id(levels: Mapping[str, int], end: EndFacts) -> list[str]:
    if levels.get("end_to_end") != EndToEndLevel.EQUAL:
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


def _days_between(first: EndFacts, second: EndFacts, told: str) -> list[str]:
    if first.day is None or second.day is None:
        return []
    days = abs((second.day - first.day).days)
    return [told.format(days_told(days)) if days else "booked on the same day"]


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
