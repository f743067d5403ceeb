"""What holds a group together, told from its stored levels as one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from payrec.constants import EXPLANATION_MEMBERS_MAX
from payrec.domain.matching.explain import (
    AdjustmentFacts,
    ExpectedFacts,
    IncomingFacts,
    adjusted,
    alone,
    parties,
    quoted,
)
from payrec.domain.matching.rules import (
    CLOSE_DAYS,
    NEAR_DAYS,
    DateLevel,
    GroupLevel,
    LineLevel,
    Uniqueness,
)
from payrec.domain.money import format_minor


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """What the explanation says about a group: one transaction in the middle, and the members around it."""

    amount_minor: int
    """What was open in the middle: the sum of the members less the credit notes, and less what differs."""
    currency: str
    members: Sequence[str | None]
    """What names each member: the references of items, the amounts of lines."""
    named: int
    """How many were named together, members or not."""
    name: str | None
    """What names them: the group id, or the item's reference."""
    less: Sequence[str | None] = ()
    """What names each credit note that settles a part of the members."""


def _names(names: Sequence[str | None]) -> str:
    """Return the first names, and how many more there are."""
    told = list(islice(filter(None, (quoted(name, "") for name in names)), EXPLANATION_MEMBERS_MAX))
    listed = ", ".join(told)
    more = len(names) - len(told)
    return f"{listed} and {more} more" if listed and more else listed


def _listed(group: GroupFacts) -> str:
    """Say what the payer lists."""
    count, members = len(group.members), _names(group.members)
    what = f"{'invoice' if count == 1 else f'the {count} invoices'}{f' {members}' if members else ''}"
    paid = f"{format_minor(group.amount_minor, group.currency)} {group.currency}"
    return f"a remittance advice lists {what} with the payment's {paid}"


def _counted(noun: str, names: Sequence[str | None]) -> str:
    """Return what there are, by name where they have any."""
    listed = _names(names)
    counted = noun if len(names) == 1 else f"the {len(names)} {noun}s"
    return f"{counted} {listed}" if listed else counted


def _less(level: GroupLevel, group: GroupFacts) -> str:
    """Say what sums up to what when credit notes are taken off."""
    items, notes = _counted("invoice", group.members), _counted("credit note", group.less)
    paid = f"{format_minor(group.amount_minor, group.currency)} {group.currency}"
    leaves = "leaves" if len(group.members) == 1 else "leave"
    if level is GroupLevel.BY_KEY_NET:
        less = f" less {notes}" if group.less else ""
        paid_with = "is paid with" if len(group.members) == 1 else "are paid with"
        return f"{items}{less}, all that is open of group {quoted(group.name, 'of the item')}, {paid_with} {paid}"
    if level is GroupLevel.BY_KEY_LESS:
        return (
            f"{items} less {notes}, all that is open of group {quoted(group.name, 'of the item')}, {leaves} the {paid}"
        )
    if level is GroupLevel.BY_REFERENCES_LESS:
        return f"{items} less {notes}, all quoted by the payment, {leaves} its {paid}"
    return f"{items} that the payment quotes less {notes} of the counterparty {leaves} its {paid}"


_PARTLY: Final = {GroupLevel.BY_QUOTES: ", not all in full,", GroupLevel.BY_REFERENCES_AND_ONE: ", all but one,"}


def _sum(level: GroupLevel, group: GroupFacts, *, differs: bool) -> str:
    """Say what sums up to what, or what is paid with a sum that ``differs``."""
    count, members = len(group.members), _names(group.members)
    listed = f" {members}" if members else ""
    name = quoted(group.name, "of the item")
    paid = f"{format_minor(group.amount_minor, group.currency)} {group.currency}"
    match level:
        case GroupLevel.BY_KEY if count == 1:
            return f"invoice{listed} is all that is open of group {name} and has the payment's {paid}"
        case GroupLevel.BY_KEY:
            return f"the {count} invoices{listed} of group {name} sum to the payment's {paid}"
        case GroupLevel.BY_REFERENCES | GroupLevel.BY_QUOTES | GroupLevel.BY_REFERENCES_AND_ONE:
            partly = _PARTLY.get(level, "")
            sums = "are paid with" if differs else "sum to"
            return f"the {count} invoices{listed} that the payment quotes{partly} {sums} its {paid}"
        case GroupLevel.BY_SOME_REFERENCES:
            only = members or str(count)
            return f"of the {group.named} invoices that the payment quotes, only {only} sum to its {paid}"
        case GroupLevel.BY_INSTALMENTS:
            return f"the {count} payments of{listed} that quote reference {name} sum to its {paid}"
        case GroupLevel.BY_RUN:
            return f"the {count} open invoices{listed}, due one after the other, sum to the payment's {paid}"
        case GroupLevel.BY_RUN_MINUS:
            return f"the {count} open invoices{listed}, due in a row but for one or two, sum to the payment's {paid}"
        case GroupLevel.BY_FEW | GroupLevel.BY_REFERENCES_AND_MORE:
            with_quoted = ", those that it quotes among them" if level is GroupLevel.BY_REFERENCES_AND_MORE else ""
            among = f"of the counterparty's {group.named} open invoices, {members or count}"
            return f"{among} sum to the payment's {paid}{with_quoted}"
        case GroupLevel.BY_EQUAL_PARTS | GroupLevel.BY_UNNAMED_PARTS:
            partly = ", not all of which say who pays," if level is GroupLevel.BY_UNNAMED_PARTS else ""
            return f"the {count} equal payments of{listed}{partly} sum to the {paid} of reference {name}"
        case _:
            return f"of the {group.named} payments that quote reference {name}, only those of{listed} sum to its {paid}"


def _sum_alone(level: GroupLevel, status: Uniqueness) -> str:
    match status:
        case Uniqueness.UNIQUE:
            if level is GroupLevel.BY_REFERENCES_AND_MORE:
                return "nobody named the others, and no other set with those that was tried has the sum"
            if level.blind:
                return "nobody named them, and no other set that was tried has the sum"
            if level is GroupLevel.BY_REFERENCES_AND_ONE:
                return "no other open one of the counterparty is the rest"
            if level is GroupLevel.BY_CREDIT_NOTES:
                return "it names no credit note, and no other set of the open ones fits"
            whole = level.proves or level in {GroupLevel.BY_QUOTES, GroupLevel.BY_KEY_NET}
            return "nothing else claims any of them" if whole else "no other set of them does"
        # Beside what a payment quotes, another set of the sum would leave none proposed.
        case Uniqueness.CONTESTED if level.blind and level is not GroupLevel.BY_REFERENCES_AND_MORE:
            return "nobody named them, and other sets have the sum as well"
        case Uniqueness.CONTESTED:
            return "others claim some of them as well"
        case Uniqueness.AMBIGUOUS:
            return "others fit just as well"
        case _:
            return alone(status, 0)


def group_explanation(
    levels: Mapping[str, int],
    *,
    group: GroupFacts,
    expected: ExpectedFacts,
    incoming: IncomingFacts,
    adjustments: Sequence[AdjustmentFacts] = (),
    status: Uniqueness | int = Uniqueness.UNIQUE,
) -> str:
    """Return one plain sentence on why the transactions of a group belong together, as ``explanation`` does.

    ``expected`` and ``incoming`` are those of its first leg.

    Raises
    ------
    ValueError
        A level that this version does not know.

    """
    level = GroupLevel(levels["group"])
    by_date = {
        DateLevel.NEAR: f"booked within {NEAR_DAYS} days of every due date",
        DateLevel.CLOSE: f"booked within {CLOSE_DAYS} days of every due date",
        DateLevel.WITHIN: "booked within the date window",
    }
    differences = [phrase for adjustment in adjustments for phrase in adjusted(adjustment, incoming)]
    if level is GroupLevel.BY_ADVICE:
        held_together = _listed(group)
    elif level.less_credits:
        held_together = _less(level, group)
    else:
        held_together = _sum(level, group, differs=any(one.amount_minor for one in adjustments))
    phrases = [held_together, *differences, *parties(levels, expected, incoming)]
    date_level = DateLevel(levels.get("date", 0))
    if date_level in by_date:
        phrases.append(by_date[date_level])
    if levels.get("line") == LineLevel.PENDING:
        phrases.append("not booked yet")
    told = ", ".join(phrases)
    return f"{told[0].upper()}{told[1:]}; {_sum_alone(level, Uniqueness(status))}."
