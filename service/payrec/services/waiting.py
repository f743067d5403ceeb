"""Tells workers again of what waits for them, where they may have been told of it in vain."""

from __future__ import annotations

import structlog

from payrec.domain.scope import TenantScope
from payrec.services.rounds import in_each_active
from payrec.services.work import Work
from payrec.storage.waiting import WaitingStore


class WaitingService:
    """Goes through the tenant environments.

    Whoever leaves something for a worker wakes one in the same transaction. On Citus (decision 12) that is committed
    before what it is about: who is woken at once may see nothing of it, and what is under way when a node or a
    connection is lost can be seen a minute later, when nobody looks for it any more.
    """

    def __init__(self, *, work: Work) -> None:
        self._work = work
        self._logger = structlog.get_logger("payrec.waiting")

    async def tell_again(self) -> int:
        """Tell of what waits in every environment; return in how many something did."""
        return await in_each_active(self._work, self._tell, logger=self._logger, failed="waiting.not_told")

    async def _tell(self, scope: TenantScope) -> int:
        async with self._work.database.tenant(scope, readonly=True) as connection:
            if not await WaitingStore(connection).is_left():
                return 0
        async with self._work.database.tenant(scope) as connection:
            await WaitingStore(connection).tell(scope.environment_id)
        return 1
