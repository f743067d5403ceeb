"""What changed of a proposal's transactions after it was made, field by field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from pydantic.alias_generators import to_camel

from payrec.errors import StaleProposalError
from payrec.services.match_ends import ENDS, side_of
from payrec.storage.allocations import Side
from payrec.storage.database import Connection
from payrec.storage.stale_proposals import changed_columns

Key = tuple[Side, UUID]

_NAMES: Final = {
    "due_on": "dueDate",
    "expected_from_on": "expectedFrom",
    "expected_to_on": "expectedTo",
    "booking_on": "bookingDate",
    "value_on": "valueDate",
    "pending": "status",
    "duplicate": "reasonCode",
}
"""What the interface calls columns whose names it does not only write otherwise."""

REVISION: Final = "revision"
"""Stands for what changed where that is not known."""


async def check_unchanged(connection: Connection, row: Mapping[str, Any]) -> None:
    """Raise unless a match was made for its transactions as they are.

    Raises
    ------
    StaleProposalError
        ``changed`` names each transaction that is not, and what of it has changed.
    """
    changed = {
        (side_of(leg, end), leg[f"{end}_id"]): leg[f"{end}_revision"]
        for leg in row["legs"]
        for end, _ in ENDS
        if leg[f"{end}_revision"] != leg[f"{end}_revision_now"]
    }
    if changed:
        raise stale(changed, await changed_fields(connection, changed))


async def changed_fields(connection: Connection, changed: Mapping[Key, int]) -> dict[Key, list[str]]:
    """Return what of transactions is not what it was at a revision, by the names of the interface."""
    found: dict[Key, list[str]] = {}
    for side in Side:
        revisions = {name: revision for (of, name), revision in changed.items() if of is side}
        if revisions:
            columns = await changed_columns(connection, side, revisions)
            found |= {(side, name): [_NAMES.get(c) or to_camel(c) for c in columns[name]] for name in columns}
    return found


def stale(changed: Iterable[Key], fields: Mapping[Key, list[str]]) -> StaleProposalError:
    """Return the error of a proposal whose transactions have changed."""
    told = [{"id": str(key[1]), "field": field} for key in changed for field in fields.get(key) or [REVISION]]
    return StaleProposalError("a transaction changed after the proposal was made", changed=told)
