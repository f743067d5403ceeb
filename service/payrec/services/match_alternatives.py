"""What else would fit in the place of a match's transactions: what its run has seen, and what is open and near."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from payrec.domain.caller import Caller
from payrec.domain.money import format_minor
from payrec.errors import NotFoundError
from payrec.models.match_alternatives import MatchAlternativeList, MatchAlternativePublic
from payrec.services.match_ends import ENDS, side_of
from payrec.services.validation import identifier
from payrec.services.work import Work
from payrec.storage.allocations import Side
from payrec.storage.match_alternatives import MatchAlternativeStore
from payrec.storage.matches import MatchStore

LEGS_LOOKED_AT_MAX: Final = 5
"""Legs of a match in whose place something else is looked for, the first ones."""

NEAR_MAX: Final = 10
"""Transactions that are near, for each end of a leg."""

Key = tuple[Side, UUID]


class MatchAlternativeService:
    """Tells what else would fit."""

    def __init__(self, *, work: Work) -> None:
        self._work = work

    async def of_match(self, caller: Caller, match_id: str) -> MatchAlternativeList:
        """Return the alternatives that the run has kept, the best first, and then what is open and has the amount.

        Raises
        ------
        NotFoundError
        """
        wanted = identifier(match_id)
        async with self._work.database.tenant(caller.tenant, readonly=True, snapshot=True) as connection:
            row = await MatchStore(connection).get(wanted)
            if row is None:
                raise NotFoundError
            if row["sampled"] and row["status"] == "proposed":
                return MatchAlternativeList(data=[])
            store = MatchAlternativeStore(connection)
            # An alternative that the run has seen stands where it was seen first.
            found: dict[Key, tuple[UUID, float | None]] = {}
            for key, replaced, score in _seen(row):
                found.setdefault(key, (replaced, score))
            for side in Side:
                ends = _ends(row, side)
                own = [key[1] for key in {**ends, **found} if key[0] is side]
                near = await store.near(side, [key[1] for key in ends], list(ends.values()), beside=own, limit=NEAR_MAX)
                for other in near:
                    found.setdefault((side, other["id"]), (other["replaces"], None))
            told = await store.told(
                expected=[name for side, name in found if side is Side.EXPECTED],
                incoming=[name for side, name in found if side is Side.INCOMING],
            )
        return MatchAlternativeList(
            data=[_public(told[key], *found[key]) for key in found if key in told],
        )


def _ends(row: dict[str, Any], side: Side) -> dict[Key, int]:
    """Return the transactions of a side that the first legs join, with what is taken of each."""
    found: dict[Key, int] = {}
    for leg in row["legs"][:LEGS_LOOKED_AT_MAX]:
        for end, amount in ENDS:
            if side_of(leg, end) is side:
                found[side, leg[f"{end}_id"]] = found.get((side, leg[f"{end}_id"]), 0) + leg[amount]
    return found


def _seen(row: dict[str, Any]) -> list[tuple[Key, UUID, float]]:
    """Return what the run has kept: the other transaction, that of the match which it would replace, and the score."""
    ends = {(side_of(leg, end), leg[f"{end}_id"]): leg for leg in row["legs"] for end, _ in ENDS}
    found = []
    for stored in sorted(row["alternatives"] or (), key=lambda a: -a["score"]):
        keys = {side: (side, UUID(stored[side.name.lower()])) for side in Side}
        for side, other in ((Side.EXPECTED, Side.INCOMING), (Side.INCOMING, Side.EXPECTED)):
            if keys[side] not in ends and (leg := ends.get(keys[other])) is not None:
                replaced = leg["expected_id" if side is Side.EXPECTED else "incoming_id"]
                found.append((keys[side], replaced, stored["score"] / 1000))
    return found


def _public(row: dict[str, Any], replaces: UUID, score: float | None) -> MatchAlternativePublic:
    return MatchAlternativePublic(
        replaces_transaction_id=replaces,
        side="expected" if row["side"] == Side.EXPECTED else "incoming",
        transaction_id=row["id"],
        external_id=row["external_id"],
        reference=row["reference"],
        counterparty_name=row["counterparty_name"],
        amount_minor=row["amount_minor"],
        open_amount_minor=row["open_minor"],
        amount=format_minor(row["amount_minor"], row["currency"]),
        currency=row["currency"],
        direction=row["direction"],
        date=row["day"].isoformat() if row["day"] is not None else None,
        status=row["status"],
        score=score,
        match_id=row["match_id"],
    )
