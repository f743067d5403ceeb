"""The sealer: gives committed events their places in the feed of their tenant environment.

No place is given inside the transaction of a change: a counter there would queue all writers, and a sequence would let
a reader pass over what commits late. Whoever reads the feed up to a place has everything before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from payrec.constants.events import EVENTS_SEALED_AT_ONCE, SEALINGS_PER_TURN, UNSEEN_CHANGE_AGE_MAX
from payrec.domain.caller import Clock, IdSource
from payrec.domain.events import ALL_EVENTS
from payrec.domain.identifiers import id_at
from payrec.domain.scope import TenantScope
from payrec.metrics import Metrics
from payrec.storage.changes import ChangeStore
from payrec.storage.control_outbox import ControlOutboxStore
from payrec.storage.database import Database
from payrec.storage.sealing import SealingStore
from payrec.storage.wakeups import WakeUpStore

CHANGE_ID_VERSION: Final = 7
"""Of the UUID that is the id of a change; an outbox that is to be looked at in any case has one of another version."""


class Sealer:
    """Seals the outboxes of tenant environments, each alone."""

    def __init__(self, *, database: Database, clock: Clock, ids: IdSource, metrics: Metrics) -> None:
        self._database = database
        self._clock = clock
        self._ids = ids
        self._metrics = metrics

    async def seal(self, scope: TenantScope, control_events: Sequence[UUID] = ()) -> int | None:
        """Seal everything that is committed now; return how many events that was.

        None where somebody else does it, or where there is more than is done in one turn: ask again. Batch by batch,
        each in a transaction of its own: a crash between two leaves what is not sealed where it is. ``control_events``
        are events of the control schema that the environment is told of first. Whoever asked for them forgets them
        afterwards, unless the answer is None; asking again for the same ones does nothing.
        """
        await self._take_over(scope, control_events)
        after, until, count = 0, None, 0
        for _ in range(SEALINGS_PER_TURN):
            async with self._database.tenant(scope) as connection:
                store = SealingStore(connection)
                if not await store.hold():
                    return None
                batch = await store.look(after=after, until=until, events_max=EVENTS_SEALED_AT_ONCE)
                if batch is None:
                    return count
                first = self._ids.block(batch.count) if batch.count else 0
                await store.move(batch, [UUID(int=first + n) for n in range(batch.count)])
                if batch.types:
                    await store.wake(scope.environment_id, batch.types, all_events=ALL_EVENTS)
            after, until, count = batch.sequences[-1], batch.until, count + batch.count
            self._metrics.events_sealed.inc(batch.count)
            if after >= until:
                return count
        return None

    async def settled(self, scope: TenantScope, change_ids: Sequence[UUID]) -> Sequence[UUID]:
        """Return those of the changes that say that something waits of which a seal that begins now finds everything.

        On Citus (decision 12) the coordinator commits before the worker does, so it tells of a change that cannot be
        seen yet: for milliseconds, or, where one of them is lost in between, until the change is recovered. What is not
        the id of a change says nothing of when it was, nor does one whose change is in no backup.
        """
        async with self._database.tenant(scope, readonly=True) as connection:
            committed = await SealingStore(connection).committed(change_ids)
        begin = id_at(self._clock.now() - UNSEEN_CHANGE_AGE_MAX)
        return [one for one in change_ids if one in committed or one.version != CHANGE_ID_VERSION or one < begin]

    async def look_everywhere(self) -> None:
        """Have every outbox looked at, whatever is in it and since when."""
        async with self._database.control() as connection:
            await WakeUpStore(connection).look_everywhere()

    async def _take_over(self, scope: TenantScope, control_events: Sequence[UUID]) -> None:
        if not control_events:
            return
        async with self._database.control(readonly=True) as connection:
            events = await ControlOutboxStore(connection).get(control_events)
        if events:
            async with self._database.tenant(scope) as connection:
                await ChangeStore(connection).take_over(events)
