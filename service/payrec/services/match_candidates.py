"""What might belong to one open transaction, and what is missing: asked by a person, answered without a run."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final
from uuid import UUID

from payrec.domain.caller import Caller
from payrec.domain.matching import explain
from payrec.domain.matching.keys import is_proving
from payrec.domain.matching.nearest import NEAREST_LOOKED_AT_MAX, Candidate, nearest
from payrec.domain.matching.pair import Item, Line
from payrec.errors import NotFoundError
from payrec.models.match_candidates import ClosedItemPublic, MatchCandidateList, MatchCandidatePublic
from payrec.models.matches import MatchPublic
from payrec.services.match_rendering import evidence_of, rendered
from payrec.services.matching_rules import tenant_rules
from payrec.services.validation import identifier
from payrec.services.work import Work
from payrec.storage.closed_items import ClosedItemStore
from payrec.storage.match_candidates import MatchCandidateStore
from payrec.storage.matches import MatchStore

CLOSED_TOLD_MAX: Final = 5
"""Closed items that are told of a line that quotes them."""

_ITEM: Final = tuple(field.name for field in fields(Item))
_LINE: Final = tuple(field.name for field in fields(Line))
_LISTS: Final = tuple(field.name for field in fields(Line) if field.default == ())


class MatchCandidateService:
    """Compares one open transaction with the open ones of the other side."""

    def __init__(self, *, work: Work) -> None:
        self._work = work

    async def of_expected(self, caller: Caller, transaction_id: str) -> MatchCandidateList:
        """Return the incoming transactions that come nearest to an expected one.

        Raises
        ------
        NotFoundError
        """
        return await self._nearest(caller, "expected", transaction_id)

    async def of_incoming(self, caller: Caller, transaction_id: str) -> MatchCandidateList:
        """Return the expected transactions that come nearest to an incoming one.

        Raises
        ------
        NotFoundError
        """
        return await self._nearest(caller, "incoming", transaction_id)

    async def _nearest(self, caller: Caller, side: str, transaction_id: str) -> MatchCandidateList:
        centre = identifier(transaction_id)
        rules = (await tenant_rules(self._work.database, caller.tenant.tenant_id)).matching
        async with self._work.database.tenant(caller.tenant, readonly=True, snapshot=True) as connection:
            store = MatchCandidateStore(connection)
            own = await store.open_row(side, centre)
            if own is None:
                if not await store.exists(side, centre):
                    raise NotFoundError
                return MatchCandidateList(data=[], closed=[])
            if await store.is_reviewed_blindly(side, centre):
                # It would tell what the engine thinks.
                return MatchCandidateList(data=[], closed=[])
            others = await store.beside(side, own, limit=NEAREST_LOOKED_AT_MAX)
            rows = [(own, other) if side == "expected" else (other, own) for other in others]
            ids = [other["transaction_id"] for other in others]
            proposals = await store.proposals(side, centre, ids)
            proposed = [place for place, other in enumerate(ids) if other in proposals]
            found = nearest([(_item(item), _line(line)) for item, line in rows], rules, proposed=proposed)
            pairs = [tuple(row["transaction_id"] for row in rows[candidate.place]) for candidate in found]
            matches = MatchStore(connection)
            told = await matches.pairs([pair[0] for pair in pairs], [pair[1] for pair in pairs])
            named = [proposals.get(ids[candidate.place]) for candidate in found]
            # Of a pair that a run has proposed it is told what the run has seen.
            seen = [
                rendered(await matches.get(proposal["match_id"]) or {})
                if proposal is not None and proposal["kind"] == "one_to_one"
                else None
                for proposal in named
            ]
            quoted = [key for key in own.get("reference_keys", ()) if is_proving(key)]
            closed = await ClosedItemStore(connection).quoted(quoted, limit=CLOSED_TOLD_MAX) if quoted else []
        return MatchCandidateList(
            data=[
                _public(candidate, row, proposal["match_id"] if proposal is not None else None, match)
                for candidate, row, proposal, match in zip(found, told, named, seen, strict=True)
            ],
            closed=[
                ClosedItemPublic(expected_transaction_id=row["id"], status=row["status"], match_ids=row["match_ids"])
                for row in closed
            ],
        )


def _item(row: dict[str, Any]) -> Item:
    return Item(**{name: row[name] for name in _ITEM})


def _line(row: dict[str, Any]) -> Line:
    lists = {name: tuple(row[name] or ()) for name in _LISTS}
    return Line(**{name: row[name] for name in _LINE} | lists)


def _public(
    candidate: Candidate, row: dict[str, Any], match_id: UUID | None, match: MatchPublic | None
) -> MatchCandidatePublic:
    told = candidate.judged
    score, evidence = told.score_milli / 1000, [evidence_of(found, [row]) for found in explain.evidence(told.levels)]
    if match is not None and match.score is not None:
        score, evidence = match.score, match.evidence
    return MatchCandidatePublic(
        expected_transaction_id=row["expected_id"],
        incoming_transaction_id=row["incoming_id"],
        score=score,
        reason_code=told.fault.code if told.fault is not None else None,
        would_match_if=candidate.would_match_if,
        difference_minor=told.difference_minor,
        days_outside=told.days_outside,
        match_id=match_id,
        evidence=evidence,
    )
