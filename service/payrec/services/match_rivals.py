"""Proposals for which too little is left are superseded by whoever took it, in the transaction that took it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from payrec.domain.changes import Record
from payrec.services.work import Unit
from payrec.storage.match_decisions import MatchDecisionStore


async def supersede_rivals(
    unit: Unit,
    *,
    expected: Sequence[UUID] = (),
    incoming: Sequence[UUID] = (),
    taken_by: Mapping[UUID, UUID] | None = None,
) -> list[UUID]:
    """Supersede proposals for whose share of these transactions too little is open, and return their ids.

    Called when the amounts are allocated or gone and the open rows say so; locks matches, so nothing else is locked
    afterwards. ``taken_by`` has the match that has taken of a transaction, where one has.
    """
    store = MatchDecisionStore(unit.connection)
    rivals = await store.lock_rivals(expected=expected, incoming=incoming)
    return await supersede(unit, rivals, taken_by or {})


async def supersede(unit: Unit, rivals: Mapping[UUID, Sequence[UUID]], taken_by: Mapping[UUID, UUID]) -> list[UUID]:
    """Supersede proposals that are locked; each comes with the transactions of which too little is left for it."""
    if not rivals:
        return []
    winners = {
        rival: min((taken_by[name] for name in short if name in taken_by), default=None)
        for rival, short in rivals.items()
    }
    await MatchDecisionStore(unit.connection).supersede(winners, change_id=unit.change_id, at=unit.now)
    for rival, winner in winners.items():
        after = {"supersededBy": str(winner)} if winner is not None else None
        unit.record(Record(action="match.superseded", resource_id=rival, after=after))
    return list(winners)
