"""The commit of a run: what is staged, what is left out of it, and the order in which the database is told."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

import polars as pl

from payrec.domain.matching.engine import Proposals
from payrec.domain.matching.rules import Confidence, Uniqueness
from payrec.domain.scope import TenantScope
from payrec.services.match_columns import Snapshot, looked_at
from payrec.services.match_open_reasons import new_reasons
from payrec.services.match_refusals import refused
from payrec.services.match_staging import Draft, Stamp, Takes
from payrec.services.meanwhile import FEW, aside, is_few, meanwhile
from payrec.services.work import Unit, Work
from payrec.storage.binary_copy import encoded
from payrec.storage.binary_reading import decoded
from payrec.storage.match_proposals import ENDS_OF_TOUCHED_COLUMNS, MatchProposalStore
from payrec.storage.match_rejections import MatchRejectionStore
from payrec.storage.partitions import OWN_MATCHES_MIN, index_own_partitions, make_own_partitions
from payrec.storage.period_locks import PeriodLockStore
from payrec.storage.rows import CopiedRows

_ENDS_TYPES: Final = (pl.Binary(), pl.Boolean(), pl.Int16(), pl.Binary())
_NOWHERE: Final = ((), ())
"""Places of either side where nothing is allocated yet."""


@dataclass(slots=True)
class Written:
    """What the commit of a run did."""

    conflicts: int = 0
    """Proposals that were dropped because their transactions had changed since they were read."""
    kept: int = 0
    """Proposals that were there already, just the same."""
    superseded: int = 0
    proposed: int = 0
    """New, accepted at once, and kept."""
    auto_accepted: int = 0
    ambiguous: int = 0
    by_confidence: dict[str, int] = field(default_factory=dict)
    """New ones, accepted at once or not."""


async def own_partitions(work: Work, scope: TenantScope, draft: Draft) -> UUID | None:
    """Give a run that brings much that is new its own partitions; return the id with which they begin, else None."""
    if draft.matches.height < OWN_MATCHES_MIN:
        return None
    async with work.database.tenant(scope, readonly=True) as connection:
        stored = await MatchProposalStore(connection).stored()
    kept, _ = await asyncio.to_thread(draft.kept, stored)
    if draft.matches.height - kept.height < OWN_MATCHES_MIN:
        return None
    first = UUID(bytes=draft.match_ids[0])
    async with work.database.tenant(scope) as connection:
        made = await make_own_partitions(connection, first, UUID(int=first.int + draft.match_ids.len()))
    return first if made else None


class MatchCommit:
    """Writes the draft of a run in its unit of work."""

    def __init__(
        self, unit: Unit, proposals: Proposals, snapshot: Snapshot, *, own: UUID | None, filtered: Collection[str]
    ) -> None:
        self._unit = unit
        self._proposals = proposals
        self._snapshot = snapshot
        self._own = own
        self._filtered = filtered
        self._store = MatchProposalStore(unit.connection)

    async def write(self, draft: Draft, stamp: Stamp) -> Written:
        """Keep equal proposals, supersede the others, allocate what is accepted at once, and write the rest.

        A run of which a side was ``filtered`` did not look at everything: proposals and reasons of others stay as they
        are, unless something that it accepts takes their amounts.

        Raises
        ------
        AlreadyMatchedError
            Somebody was faster with something that would be accepted at once: propose again.
        """
        store, unit, written = self._store, self._unit, Written()
        few = draft.matches.height <= FEW and self._snapshot.expected.height <= FEW
        takes, reasons, seen = await aside(self._staged, draft, few=few)

        async def check() -> None:
            nonlocal draft, takes
            await store.begin(looked_at=seen, few=few and self._snapshot.incoming.height <= FEW)
            await store.stage(*takes.staged)
            await store.hold()
            draft, takes = await self._without_refused(draft, takes)
            draft, takes = await self._without_conflicts(draft, takes, written)

        drafted = takes
        # Nearly always nothing has to be left out, and nobody has touched what is taken.
        allocations = await meanwhile(lambda: drafted.allocations(_NOWHERE, stamp), check(), few=few)
        accepts = any(taken.height for taken in takes.accepted)
        # A filtered run supersedes its own proposals, and those whose amounts it takes.
        looks = await self._touch(accepts=accepts) if self._filtered else True
        stored = await store.stored(filtered=bool(self._filtered)) if looks else None
        kept: bytes = b""
        if stored is not None:
            same, kept = await aside(draft.kept, stored, few=few and is_few(stored))
            written.kept = same.height
            written.ambiguous = _ambiguous(same)
            draft = draft.without(same["proposal"])
        _count(written, draft)

        async def tell() -> None:
            if accepts:
                places = await store.allocate_more(change_id=unit.change_id, at=unit.now)
                is_same = takes is drafted and not any(places)
                await store.allocate(
                    allocations if is_same else await asyncio.to_thread(takes.allocations, places, stamp)
                )
                await store.close(expected=takes.accepted[0].height, incoming=takes.accepted[1].height)
            await store.give_reasons(reasons, change_id=unit.change_id, filtered=bool(self._filtered))
            if stored is not None:
                written.superseded = await store.supersede(
                    kept, change_id=unit.change_id, at=unit.now, filtered=bool(self._filtered)
                )

        rows = await meanwhile(lambda: draft.rows(takes, stamp), tell(), few=few)
        await store.insert(rows.matches, rows.legs, rows.events)
        if written.auto_accepted:
            first, last = (UUID(bytes=draft.match_ids[place]) for place in (0, -1))
            await PeriodLockStore(unit.connection).move_days(first, last, change_id=unit.change_id)
        if self._own is not None:
            await index_own_partitions(unit.connection, self._own)
        await store.analyze(max(draft.matches.height, written.superseded))
        return written

    def _staged(self, draft: Draft) -> tuple[Takes, bytes, bytes | None]:
        seen = looked_at(self._snapshot) if self._filtered else None
        return draft.takes(), new_reasons(self._proposals, self._snapshot, filtered=self._filtered), seen

    async def _touch(self, *, accepts: bool) -> bool:
        """Tell the store which proposals join what a filtered run looked at; return whether it may supersede any."""
        rows = await self._store.ends_of_touched()
        own, *touched = await aside(_told_apart, rows, few=is_few(rows))
        await self._store.touch(*touched)
        return own > 0 or (accepts and rows.height > 0)

    async def _without_refused(self, draft: Draft, takes: Takes) -> tuple[Draft, Takes]:
        """Leave out what somebody has rejected, as a set or since the run has read."""
        rejected = await MatchRejectionStore(self._unit.connection).legs()
        gone = await aside(refused, draft, rejected, few=not rejected)
        if gone.is_empty():
            return draft, takes
        draft = draft.without(gone)
        takes = await asyncio.to_thread(draft.takes)
        await self._store.stage(*takes.staged)
        return draft, takes

    async def _without_conflicts(self, draft: Draft, takes: Takes, written: Written) -> tuple[Draft, Takes]:
        """Leave out the proposals whose transactions are not any more what they were."""
        snapshot = self._snapshot
        if (
            not self._filtered
            and not snapshot.known.is_of_part
            and await self._store.unchanged(
                horizon=snapshot.horizon, expected=snapshot.expected.height, incoming=snapshot.incoming.height
            )
        ):
            return draft, takes
        # What is left out frees what others have in common with it, and never changes what is open: this ends.
        while any(changed := await self._store.changed()):
            gone = draft.joining(*changed)
            written.conflicts += gone.len()
            draft = draft.without(gone)
            takes = await asyncio.to_thread(draft.takes)
            await self._store.stage(*takes.staged)
        return draft, takes


def _told_apart(rows: CopiedRows) -> tuple[int, bytes, bytes]:
    """Return how many of the touched proposals are own, all of them, and the ends of those that are not."""
    ends = decoded(rows, dict(zip(ENDS_OF_TOUCHED_COLUMNS, _ENDS_TYPES, strict=True)))
    touched = ends.select("match_id", "is_own").unique()
    others = ends.filter(~pl.col("is_own")).select("side", "transaction_id").unique()
    return int(touched["is_own"].sum()), encoded(touched), encoded(others)


def _ambiguous(matches: pl.DataFrame) -> int:
    return int((matches["status"] == Uniqueness.AMBIGUOUS.value).sum())


def _count(written: Written, draft: Draft) -> None:
    matches = draft.matches
    written.by_confidence = {
        Confidence(value).name.lower(): count for value, count in matches.group_by("confidence").len().iter_rows()
    }
    written.proposed = written.kept + matches.height
    accepted = matches if draft.waiting.is_empty() else matches.filter(draft.status == "accepted")
    written.auto_accepted = int(accepted["auto"].sum())
    written.ambiguous += _ambiguous(matches)
