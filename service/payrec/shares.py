"""What one tenant may have at the same time of something that a process has for all of them."""

from __future__ import annotations

import asyncio
from uuid import UUID
from weakref import WeakValueDictionary


class TenantShares:
    """A semaphore for each tenant that has something, or waits for it; nothing is kept of others."""

    def __init__(self, count: int) -> None:
        """Let each tenant have so many."""
        self._count = count
        self._of: WeakValueDictionary[UUID, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, tenant_id: UUID) -> asyncio.Semaphore:
        """Return the tenant's semaphore; whoever uses it holds on to it."""
        share = self._of.get(tenant_id)
        if share is None:
            share = self._of[tenant_id] = asyncio.Semaphore(self._count)
        return share
