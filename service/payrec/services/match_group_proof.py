"""Whether the proof of a group still computes to the same: from its record, and from what is open beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from payrec.domain.matching.provable import PROVABLE
from payrec.domain.matching.rules import (
    BLIND_COINCIDENCES_PPM_MAX,
    GROUP_LEGS_MAX,
    SUBSET_MEMBERS_MAX,
    GroupLevel,
    Uniqueness,
)
from payrec.domain.matching.subsets import only_subset
from payrec.services.match_checks import Check, Row, check

HYPOTHESES: Final[Mapping[GroupLevel, str]] = {
    GroupLevel.BY_KEY: "all open items of one group id are the payment",
    GroupLevel.BY_REFERENCES: "all items that the payment quotes are the payment",
    GroupLevel.BY_INSTALMENTS: "all payments that quote the item are the item",
    GroupLevel.BY_QUOTES: "all items of its counterparty that the payment quotes are the payment",
    GroupLevel.BY_ADVICE: "the items that a remittance advice lists are the payment",
    GroupLevel.BY_SOME_REFERENCES: "one set alone of the items that the payment quotes is the payment",
    GroupLevel.BY_SOME_INSTALMENTS: "one set alone of the payments that quote the item is the item",
    GroupLevel.BY_REFERENCES_LESS: "all items less all credit notes that the payment quotes are the payment",
    GroupLevel.BY_KEY_LESS: "all open items less all credit notes of one group id are the payment",
    GroupLevel.BY_KEY_NET: "all open items less all credit notes of one group id are the payment and a fee",
    GroupLevel.BY_REFERENCES_AND_ONE: "all items that the payment quotes and one more are the payment",
    GroupLevel.BY_CREDIT_NOTES: "all items that the payment quotes less one set alone of credit notes are the payment",
}
"""What was supposed of a group that somebody named."""

_BLIND: Final = {
    GroupLevel.BY_REFERENCES_AND_MORE: "all items that the payment quotes and a set that nobody named are the payment",
}
"""What was supposed of a set of which somebody has named a part."""

_OF_LINE: Final = frozenset(
    {
        GroupLevel.BY_KEY,
        GroupLevel.BY_REFERENCES,
        GroupLevel.BY_SOME_REFERENCES,
        GroupLevel.BY_QUOTES,
        GroupLevel.BY_ADVICE,
        GroupLevel.BY_REFERENCES_AND_ONE,
    }
    | {level for level in GroupLevel if level.less_credits}
)

TOLD_ONLY: Final = frozenset({GroupLevel.BY_ADVICE, GroupLevel.BY_CREDIT_NOTES, GroupLevel.BY_REFERENCES_AND_ONE})
"""Of which what is open does not say again what was looked at: an advice, and what nobody else claimed."""

_LISTED: Final = frozenset({GroupLevel.BY_KEY, GroupLevel.BY_KEY_LESS, GroupLevel.BY_KEY_NET, GroupLevel.BY_ADVICE})
"""Held together by somebody's list, whatever their number."""

_WHOLE: Final = frozenset(
    {level for level in GroupLevel if level.proves}
    | {GroupLevel.BY_QUOTES, GroupLevel.BY_KEY_NET, GroupLevel.BY_REFERENCES_AND_ONE}
)
"""Of which all that is named is matched, and nothing was searched for."""


@dataclass(frozen=True, slots=True)
class Beside:
    """What is open now and named as the members are, and was there when the match was made; the members included."""

    open_minor: Mapping[UUID, int]
    since: int
    """How many came later, and are not in ``open_minor``."""


def centre_of(row: Row, level: GroupLevel) -> tuple[str, UUID]:
    """Return the side and the id of the transaction in the middle of a group."""
    side = "incoming" if level in _OF_LINE or row["kind"] != "many_to_one" else "expected"
    return side, row["legs"][0][f"{side}_id"]


def proof(row: Row, level: GroupLevel) -> Check:
    """Look at the record of how the group was found."""
    record = row["proof"]
    if not _readable(record):
        return check("proof", ["the record of how the group was found is missing or not readable"], "")
    sets, named, bounds = record["sets"], record["named"], record["bounds"]
    size = len(members_of(row, "expected")) if level.less_credits else len(row["legs"])
    faults = []
    longest = GROUP_LEGS_MAX if level in _LISTED else bounds.get("groupSizeMax", 0)
    if size > longest:
        faults.append(f"it has {size} legs, and at most {longest} were allowed")
    if level in _WHOLE and (sets, named) != (1, size):
        faults.append(f"all that is named is matched, so 1 set of {size}; stored are {sets} of {named}")
    elif level is GroupLevel.BY_CREDIT_NOTES:
        faults += _searched_notes(row, sets, named)
    elif level in HYPOTHESES and level not in _WHOLE:
        faults += _searched(sets, named, bounds.get("searchedMax", SUBSET_MEMBERS_MAX), size)
    if row["uniqueness"] == Uniqueness.UNIQUE.name.lower() and level in HYPOTHESES and row["candidates"] != sets:
        faults.append(f"nothing else claimed its rows, so {sets} candidates; stored are {row['candidates']}")
    chance = record.get("coincidencesPpm")
    # Equal parts are proposed whatever chance makes of them, where all say who pays.
    most = chance if level in PROVABLE else BLIND_COINCIDENCES_PPM_MAX
    if chance is not None and (level in HYPOTHESES or chance > most):
        faults.append(f"{chance} in a million such sets were to be expected by chance, which no proposal of it has")
    told = HYPOTHESES.get(level, _BLIND.get(level, "a set that nobody named is the payment"))
    among = "named" if chance is None else f"open, {chance} in a million to be expected by chance"
    tried = f"{sets} set{'' if sets == 1 else 's'} of {named} {among}, {row['uniqueness']}"
    limits = ", ".join(f"{name} {value}" for name, value in sorted(bounds.items()))
    return check("proof", faults, f"{told}: {tried}, within {limits}")


def _readable(record: Any) -> bool:
    return (
        isinstance(record, dict)
        and all(isinstance(record.get(name), int) for name in ("sets", "named"))
        and isinstance(record.get("bounds"), dict)
    )


def _searched(sets: int, named: int, searched_max: int, size: int) -> list[str]:
    """Say what cannot be of a set that is the only one of those among some of what is named."""
    looked_at = sets.bit_length() - 1
    if sets == 1:
        # What lies in the date window sums up as it is; what else is named does not belong to it.
        return [] if size < named else [f"{size} of {named} named are matched, so nothing was left out"]
    if sets != 1 << looked_at or not size < looked_at <= min(named, searched_max):
        return [f"{sets} sets cannot be all those of more than {size} and at most {min(named, searched_max)}"]
    return []


def _searched_notes(row: Row, sets: int, named: int) -> list[str]:
    """Say what cannot be of credit notes that are the only set of those that were open."""
    items = {leg["expected_id"] for leg in row["legs"]}
    notes, looked_at = len(members_of(row, "expected")) - len(items), sets.bit_length() - 1
    if sets == 1 << looked_at and notes <= looked_at == named - len(items):
        return []
    return [f"{sets} sets of {named} are not all those of the credit notes beside {len(items)} items"]


def members_of(row: Row, member: str) -> set[UUID]:
    """Return the transactions around the middle of a group; an item and its credit note are both members."""
    members = {leg[f"{member}_id"] for leg in row["legs"]}
    return members | {leg["incoming_id"] for leg in row["legs"] if leg["incoming_contra"]}


def again(row: Row, level: GroupLevel, beside: Beside) -> Check:
    """Look for the group once more among what is open now."""
    member = "incoming" if centre_of(row, level)[0] == "expected" else "expected"
    members = members_of(row, member)
    target = sum(leg["amount_minor"] for leg in row["legs"] if not leg["incoming_contra"])
    more = sorted(beside.open_minor.keys() - members)
    faults = [f"{member} {name} is not open under that name any more" for name in members - beside.open_minor.keys()]
    found = ""
    if not faults and level not in _WHOLE:
        faults, found = _only(row, members, target, beside)
    elif not faults:
        total = sum(beside.open_minor[name] for name in members) - sum(_kept(row, level))
        faults = [f"the members are {total} minor units, the other side {target}"] if total != target else []
        # Where too much was named to look at all of it, the match does not claim to stand alone.
        if row["uniqueness"] != Uniqueness.UNBOUNDED.name.lower():
            faults += [f"{member} {name} is named as well, and not in the match" for name in more]
        found = f"the {len(members)} that are named and open sum up"
    later = f"; {beside.since} came later and are left out" if beside.since else ""
    return check("search", faults, f"{found}{later}")


def _kept(row: Row, level: GroupLevel) -> list[int]:
    """Return what members are settled by without money: what was kept, rounded, or let off by terms."""
    less = level in {GroupLevel.BY_KEY_NET, GroupLevel.BY_REFERENCES}
    return [its["minor"] for its in row["adjustments"] or [] if its["side"] == "expected"] if less else []


def _only(row: Row, members: set[UUID], target: int, beside: Beside) -> tuple[list[str], str]:
    """Try all sets again; returns what is wrong, and what was found."""
    pool = sorted(name for name, minor in beside.open_minor.items() if minor < target)
    if len(pool) > SUBSET_MEMBERS_MAX:
        return [], f"not searched again, because {len(pool)} are open now"
    count, chosen = only_subset([beside.open_minor[name] for name in pool], target)
    only = {name for place, name in enumerate(pool) if chosen >> place & 1}
    if count == 1 and only == members:
        return [], f"{1 << len(pool)} sets of {len(pool)} tried again, and none but this one sums up"
    if len(pool) > row["proof"]["sets"].bit_length() - 1:
        # Some of them were outside of the dates that the settings allowed then.
        return [], f"not told, because {len(pool)} are open now, more than were looked at"
    return [f"among {len(pool)} that are named and open, {'another set' if count == 1 else 'no set alone'} sums up"], ""
