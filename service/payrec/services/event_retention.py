"""Old events go, with the deliveries of them, and no outbox is forgotten, in every tenant environment."""

from __future__ import annotations

import structlog

from payrec.constants.events import EVENT_RETENTION, EVENTS_PRUNED_AT_ONCE
from payrec.domain.scope import TenantScope
from payrec.storage.database import Database
from payrec.storage.events import EventStore
from payrec.storage.tenants import TenantStore, scope_of
from payrec.storage.wakeups import WakeUpStore


class EventRetention:
    """Forgets what is older than ``EVENT_RETENTION``."""

    def __init__(self, *, database: Database) -> None:
        self._database = database
        self._logger = structlog.get_logger("payrec.events")

    async def prune(self) -> int:
        """Delete old events everywhere; return how many. One environment that fails keeps none of the others.

        Every outbox is looked at as well, whatever is in it and since when.
        """
        async with self._database.control() as connection:
            await WakeUpStore(connection).look_everywhere()
            found = await TenantStore(connection).scopes()
        count = 0
        for scope in (scope_of(row) for row in found if row["revision"] is not None):
            try:
                count += await self.prune_one(scope)
            except Exception:
                self._logger.exception("events.not_pruned", environment_id=str(scope.environment_id))
        return count

    async def prune_one(self, scope: TenantScope) -> int:
        """Delete old events of one environment, batch by batch; return how many."""
        count = 0
        while True:
            async with self._database.tenant(scope) as connection:
                deleted = await EventStore(connection).prune(EVENT_RETENTION, limit=EVENTS_PRUNED_AT_ONCE)
            count += deleted
            if deleted < EVENTS_PRUNED_AT_ONCE:
                return count
