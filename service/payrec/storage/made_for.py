"""What the transactions of a match stated when it was made: evidence is told of that, whatever they state since."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from payrec.storage.allocations import Side
from payrec.storage.database import Connection
from payrec.storage.stale_proposals import stated_then

_ENDS: Final = {"expected": Side.EXPECTED, "incoming": Side.INCOMING}
"""The ends of a leg by the side that nearly always is there."""

_OF_EITHER: Final = {
    "currency": "currency",
    "end_to_end_id": "end_to_end_id",
    "name": "counterparty_name",
    "account": "counterparty_account",
    "own_account": "account",
    "group_key": "group_key",
}
"""What a leg has of both of its ends, whatever is there, by the columns of the tables."""


async def add_made_for(connection: Connection, legs: Sequence[dict[str, Any]]) -> None:
    """Give legs ``made_for``, where a transaction has changed since: what of the leg was otherwise when it was made.

    What is not kept any more is left as it is now.
    """
    changed: dict[Side, set[tuple[UUID, int]]] = defaultdict(set)
    ends = [(leg, end, _side(leg, end)) for leg in legs for end in _ENDS if _has_changed(leg, end)]
    for leg, end, side in ends:
        changed[side].add((leg[f"{end}_id"], leg[f"{end}_revision"]))
    stated = {side: await stated_then(connection, side, revisions) for side, revisions in changed.items()}
    for leg, end, side in ends:
        found = stated[side].get((leg[f"{end}_id"], leg[f"{end}_revision"]))
        if found is not None:
            leg.setdefault("made_for", {}).update(_told(leg, end, side, found))


def _has_changed(leg: dict[str, Any], end: str) -> bool:
    return bool(leg[f"{end}_revision"] != leg[f"{end}_revision_now"])


def _side(leg: dict[str, Any], end: str) -> Side:
    """Return what is at an end; a contra transaction is of the other side."""
    is_expected = (_ENDS[end] is Side.EXPECTED) is not leg[f"{end}_contra"]
    return Side.EXPECTED if is_expected else Side.INCOMING


def _told(leg: dict[str, Any], end: str, side: Side, stated: dict[str, Any]) -> dict[str, Any]:
    """Return what a leg has of a transaction, by the names of the leg."""
    day, reference = ("due_on", "reference") if end == "expected" else ("booking_on", "structured_reference")
    told = {f"{end}_{name}": stated[column] for name, column in _OF_EITHER.items()}
    told[f"{end}_minor"] = stated["amount_minor"]
    if end == "expected":
        told["external_id"] = stated["external_id"]
    if side is Side.INCOMING:
        # One that was announced is booked by now, and never the other way round.
        told["pending"] = leg["pending"] or stated["pending"]
        told |= {day: stated["booking_on"], reference: stated["structured_reference"]}
        if end == "incoming":
            told |= {"remittance": stated["remittance"], "incoming_ultimate_name": stated["ultimate_counterparty_name"]}
        return told
    told[f"{end}_minor"] -= stated["settled_before_minor"]
    told |= {day: stated["due_on"], reference: stated["reference"]}
    if end == "expected":
        told |= {name: stated[name] for name in ("expected_from_on", "expected_to_on")}
    return told
