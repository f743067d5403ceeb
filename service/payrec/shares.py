"""What one tenant may have at the same time of something that a process has for all of them."""

from __future__ import annotations

import asyncio
from uuid import UUID
from weakref import WeakValueDictionary

from payrec.errors import RateLimitedError


class TenantShares:
    """A semaphore for each tenant that has something, or waits for it; nothing is kept of others."""

    def __init__(self, count: int) -> None:
        """Let each tenant have so many."""
        self._count = count
        self._of: WeakValueDictionary[UUID | None, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, tenant_id: UUID | None) -> asyncio.Semaphore:
        """Return the semaphore of a tenant, or of all who have none; whoever uses it holds on to it."""
        share = self._of.get(tenant_id)
        if share is None:
            share = self._of[tenant_id] = asyncio.Semaphore(self._count)
        return share

    async def taken(self, tenant_id: UUID | None, *, seconds: float) -> asyncio.Semaphore:
        """Take one of what a request of the tenant needs, once there is one; whoever has it releases it.

        Raises
        ------
        RateLimitedError
            All of them are under way, and none was given back for so long.
        """
        share = self.of(tenant_id)
        if not share.locked():
            await share.acquire()
            return share
        try:
            async with asyncio.timeout(seconds):
                await share.acquire()
        except TimeoutError:
            detail = "as many requests of this tenant are under way as may be"
            raise RateLimitedError(detail, retry_after_seconds=1) from None
        return share
