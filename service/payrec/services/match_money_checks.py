"""What a match of money against money rests on, computed once more: the rules are written here a second time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from payrec.domain.matching.rules import (
    CLOSE_DAYS,
    NEAR_DAYS,
    AmountLevel,
    Confidence,
    DateLevel,
    EndToEndLevel,
    Level,
    LineLevel,
    PartyLevel,
    ReferenceLevel,
    Uniqueness,
)
from payrec.domain.principal import ENGINE_ACTOR_PREFIX
from payrec.services.match_checks import Check, Joined, Row, check

_DAYS: Final = {
    DateLevel.NEAR: (0, NEAR_DAYS),
    DateLevel.CLOSE: (NEAR_DAYS + 1, CLOSE_DAYS),
    DateLevel.WITHIN: (CLOSE_DAYS + 1, None),
}


def is_money(row: Row) -> bool:
    """Tell whether a match joins two of one side, and nothing else."""
    return bool(row["legs"]) and all(leg["expected_contra"] or leg["incoming_contra"] for leg in row["legs"])


def confidence(row: Row, levels: Mapping[str, Level]) -> Check:
    """Apply the rule of confidence, and that of what may be accepted without a person."""
    stored, most = Confidence[row["confidence"].upper()], _most(row, levels)
    faults = []
    if stored > most or (stored is Confidence.LOW) != (most is Confidence.LOW):
        faults.append(f"it may be {most.name.lower()}, but {stored.name.lower()} is stored")
    alone = row["decided_by"] is not None and row["decided_by"].startswith(ENGINE_ACTOR_PREFIX)
    booked = levels["line"] == LineLevel.BOOKED and levels["amount"] == AmountLevel.EQUAL
    if alone and not (stored >= Confidence.HIGH and booked):
        faults.append("it was accepted without a person, which its evidence does not allow")
    return check("confidence", faults, f"{stored.name.lower()}, as {row['uniqueness']} evidence of this kind may be")


def _most(row: Row, levels: Mapping[str, Level]) -> Confidence:
    """Return the greatest confidence; whether a third line quotes what a refund quotes is not looked up again."""
    status = Uniqueness[row["uniqueness"].upper()]
    if status is Uniqueness.AMBIGUOUS:
        return Confidence.LOW
    if status is not Uniqueness.UNIQUE:
        return Confidence.MEDIUM
    proof = levels["reference"] == ReferenceLevel.FULL or levels["end_to_end"] == EndToEndLevel.EQUAL
    if row["kind"] == "credit_note":
        return Confidence.HIGH
    if row["kind"] == "transfer":
        return Confidence.EXACT if proof else Confidence.HIGH
    payer = PartyLevel.EQUAL in {levels["account"], levels["name"]}
    return Confidence.EXACT if proof and payer and levels["amount"] == AmountLevel.EQUAL else Confidence.MEDIUM


def evidence(row: Row, levels: Mapping[str, Level], leg: Joined) -> Check:
    """Look up in both rows what the levels say of them."""
    if leg.changed:
        return check("evidence", [], "not looked up: the rows have changed since")
    wrong = [feature for feature, level in levels.items() if not _says(row["kind"], feature, level, leg)]
    faults = [f"{name} is stored as {levels[name].name.lower()}, which the rows do not say" for name in wrong]
    return check("evidence", faults, "both rows say what the levels do")


def _says(kind: str, feature: str, level: Level, leg: Joined) -> bool:
    """Tell whether the rows say what a level claims; true of what cannot be told from them."""
    rows = leg.leg
    match feature, level:
        case "end_to_end", EndToEndLevel.EQUAL:
            return leg.expected.end_to_end_key == leg.incoming.end_to_end_key is not None
        case "amount", AmountLevel.EQUAL:
            return bool(rows["amount_minor"] == rows["settled_minor"])
        case "date", DateLevel.NEAR | DateLevel.CLOSE | DateLevel.WITHIN:
            first, last = _DAYS[DateLevel(level)]
            days = abs((rows["due_on"] - rows["booking_on"]).days)
            return first <= days and (last is None or days <= last)
        case "account", PartyLevel.EQUAL if kind == "transfer":
            ends = leg.expected, leg.incoming
            return any(
                one.account_key == other.own_account_key and one.account_key is not None
                for one, other in (ends, ends[::-1])
            )
        case "account" | "name" | "own_account", PartyLevel.EQUAL | PartyLevel.DIFFERENT:
            own, other = getattr(leg.expected, f"{feature}_key"), getattr(leg.incoming, f"{feature}_key")
            return None not in {own, other} and (own == other) == (level == PartyLevel.EQUAL)
        case "line", LineLevel.BOOKED | LineLevel.PENDING:
            return bool(rows["pending"]) == (level == LineLevel.PENDING)
        case _:
            return True
