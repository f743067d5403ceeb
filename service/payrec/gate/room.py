"""How much of bodies a process holds at once, so that those of one tenant leave room for those of others."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final
from uuid import UUID

from payrec.errors import RateLimitedError, UnavailableError

_RETRY_SECONDS: Final = 5


class Room:
    """Bytes that all requests have together, of which a tenant, or whoever has none, has half."""

    def __init__(self, bytes_max: int, *, least: int = 0) -> None:
        """Take how many there are, and what a request has at least once it has any."""
        self.least = least
        self._bytes_max = bytes_max
        self._of: Counter[UUID | None] = Counter()
        self.held = 0
        """What all requests have."""

    def of(self, tenant_id: UUID | None) -> Held:
        """Return what a request has: nothing yet."""
        return Held(self, tenant_id)

    def take(self, tenant_id: UUID | None, wanted: int) -> None:
        """Let a tenant have more; raises as ``Held.add``."""
        if self._of[tenant_id] + wanted > self._bytes_max // 2:
            raise RateLimitedError("too much is sent for this tenant at once", retry_after_seconds=_RETRY_SECONDS)
        if self.held + wanted > self._bytes_max:
            raise UnavailableError("too much is sent at once", retry_after_seconds=_RETRY_SECONDS)
        self.give(tenant_id, wanted)

    def give(self, tenant_id: UUID | None, wanted: int) -> None:
        """Let a tenant have more, whether there is room or not."""
        self._of[tenant_id] += wanted
        self.held += wanted

    def give_back(self, tenant_id: UUID | None, held: int) -> None:
        """Let others have it."""
        self.held -= held
        self._of[tenant_id] -= held
        if not self._of[tenant_id]:
            del self._of[tenant_id]


class Held:
    """What one request has of a room."""

    def __init__(self, room: Room, tenant_id: UUID | None) -> None:
        self._room = room
        self.tenant_id = tenant_id
        self._sent = self._answered = 0
        self.count = 0
        """Bytes of the room."""
        self.turn: asyncio.Semaphore | None = None
        """What it has taken so that no more requests of its tenant are worked on at once."""

    def add(self, count: int) -> None:
        """Take as much more as came in, or is made of it.

        Raises
        ------
        RateLimitedError
            The tenant has as much as it may.
        UnavailableError
            There is no room at all.
        """
        self._sent += count
        wanted = max(self._sent, self._room.least) - (self.count - self._answered)
        if count and wanted > 0:
            self._room.take(self.tenant_id, wanted)
            self.count += wanted

    def answer(self, count: int) -> None:
        """Count the bytes of an answer, or of the largest piece of one, until its client has taken it.

        It is there already, so there is no refusing it: what comes after it is refused. Whoever has no tenant gets what
        is the same for all, and is to keep nobody from signing in.
        """
        more = max(count - self._answered, 0) if self.tenant_id is not None else 0
        self._answered += more
        self._room.give(self.tenant_id, more)
        self.count += more

    def end_turn(self) -> None:
        """Let the next request of the tenant have its turn; how slowly the answer is read is of no matter to it."""
        if self.turn is not None:
            self.turn.release()
        self.turn = None

    def release(self) -> None:
        """Give all of it back."""
        self.end_turn()
        if self.count:
            self._room.give_back(self.tenant_id, self.count)
        self.count = 0
