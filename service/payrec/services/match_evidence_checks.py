"""Whether the rows of a stored match say what its levels claim: the texts looked up once more, leg by leg."""

from __future__ import annotations

from collections.abc import Mapping

from payrec.domain.matching.rules import (
    CLOSE_DAYS,
    NEAR_DAYS,
    DateLevel,
    EndToEndLevel,
    GroupLevel,
    Level,
    LineLevel,
    NameLevel,
    PartyLevel,
    ReferenceLevel,
)
from payrec.services.match_checks import PARTIES, Check, Joined, Row, check


def evidence(levels: Mapping[str, Level], legs: list[Joined]) -> Check:
    """Look up in the rows what the levels say of them; legs with a changed row are left out."""
    same = [leg for leg in legs if not leg.changed]
    grouped = levels["group"] != GroupLevel.UNKNOWN
    faults = []
    for feature, level in levels.items():
        wrong = [leg for leg in same if not _says(feature, level, leg, grouped=grouped)]
        differs = feature in PARTIES and level == PartyLevel.DIFFERENT
        if grouped and differs and (len(wrong) < len(same) or len(same) < len(legs)):
            # Of a group it is enough that one leg differs.
            continue
        if wrong:
            told = f"{feature} is stored as {level.name.lower()}, which the rows do not say"
            faults.append(f"{told} in {len(wrong)} of {len(same)} legs" if grouped else told)
    if not same:
        return check("evidence", faults, "not looked up: the rows have changed since")
    return check("evidence", faults, f"the rows of {len(same)} of {len(legs)} legs say what the levels do")


def _says(feature: str, level: Level, leg: Joined, *, grouped: bool) -> bool:
    """Tell whether a leg's rows say what a level claims; true of what cannot be told from the rows."""
    match feature, level:
        case "reference", ReferenceLevel.FULL:
            return leg.unnamed or (leg.proves if grouped else leg.quotes(leg.expected.reference_key, proving=True))
        case "reference", ReferenceLevel.PARTIAL | ReferenceLevel.NEAR:
            return leg.nearly_quotes if level is ReferenceLevel.NEAR else leg.partly_quotes
        case "end_to_end", EndToEndLevel.EQUAL:
            return leg.unnamed or leg.quotes(leg.expected.end_to_end_key, proving=True)
        case "end_to_end", EndToEndLevel.PARTIAL:
            return leg.quotes(leg.expected.end_to_end_key, proving=False)
        case "date", DateLevel.NEAR | DateLevel.CLOSE:
            return _days_beside(leg.leg) <= (NEAR_DAYS if level is DateLevel.NEAR else CLOSE_DAYS)
        case "account" | "name" | "own_account", _:
            return _says_who(feature, level, leg)
        case "line", _:
            return _says_of_line(level, leg, grouped=grouped)
        case "group", GroupLevel.BY_KEY | GroupLevel.BY_KEY_LESS | GroupLevel.BY_KEY_NET | GroupLevel.BY_QUOTES:
            return leg.proves or leg.hints if level is GroupLevel.BY_QUOTES else leg.in_batch
        case _:
            return True


def _says_of_line(level: Level, leg: Joined, *, grouped: bool) -> bool:
    pending, other_period = leg.leg["pending"], leg.of_other_period
    match level:
        case LineLevel.BOOKED | LineLevel.OF_OTHER_PERIOD:
            return not pending and (grouped or other_period == (level is LineLevel.OF_OTHER_PERIOD))
        case LineLevel.PENDING:
            return grouped or pending
        case LineLevel.DUPLICATE:
            return True
        case _:
            return not pending


def _says_who(feature: str, level: Level, leg: Joined) -> bool:
    own, other = getattr(leg.expected, f"{feature}_key"), getattr(leg.incoming, f"{feature}_key")
    match level:
        case PartyLevel.EQUAL | PartyLevel.DIFFERENT:
            return None not in {own, other} and (own == other) == (level == PartyLevel.EQUAL)
        case NameLevel.ULTIMATE:
            return own is not None and own == leg.incoming.ultimate_name_key
        case NameLevel.TEXT:
            return own in (leg.incoming.text_name_keys or ())
        case _:
            # Whether a name is like another one depends on all names that there were.
            return True


def _days_beside(leg: Row) -> int:
    """Return the days between the booking day and the time in which the item is expected."""
    firsts = [day for day in (leg["expected_from_on"], leg["due_on"]) if day is not None]
    lasts = [day for day in (leg["expected_to_on"], leg["due_on"]) if day is not None]
    early = (min(firsts) - leg["booking_on"]).days if firsts else 0
    late = (leg["booking_on"] - max(lasts)).days if lasts else 0
    return max(early, late, 0)
