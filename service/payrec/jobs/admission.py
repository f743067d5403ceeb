"""Which jobs a worker takes at once: as many as its memory allows, and never all of them of one tenant.

Each lane has places of its own, so that a small job never waits for a large one, and neither of them for a tenant's
slow server. In each the rule is first come, first served, of those whose tenant has not its share already: who is next
is not overtaken, however much memory it waits for, and so it gets it. A job that is larger than all there is runs when
no other large one does. Of jobs whose workers have died again and again one runs at a time: one of them may have killed
the workers of the others, which are not to be given up for that.

Who is turned away comes again, here or at another worker; until then its turn is kept for a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from payrec.constants.jobs import JOB_BYTES_FIXED
from payrec.constants.sources import SYNC_BYTES_HELD
from payrec.services.job_sizes import JobSize, Lane

PLACES_MAX: Final = 8
"""Large and small jobs that one worker does at once, as many of either; and as many again that wait for servers."""

MEMORY_SHARE: Final = 0.8
"""What is given to jobs and the process of the memory that there is; the rest is for what nobody has foreseen."""

PROCESS_BYTES: Final = 256 * 1024 * 1024
"""Memory of a worker that does nothing but has loaded everything."""

TURN_KEPT_SECONDS: Final = 20.0
"""How long the turn of a job is kept that was turned away and has not come again: it may be done elsewhere."""

CALLED_KEPT_SECONDS: Final = 3.0
"""The same for one that was told to come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Who wants to do a job: a kind of one tenant environment."""

    tenant_id: UUID
    environment_id: UUID
    kind: str
    size: JobSize
    is_suspect: bool = False
    """Whether it may be what has killed its workers."""

    @property
    def key(self) -> tuple[UUID, str]:
        """Who it is, whatever the job."""
        return self.environment_id, self.kind


@dataclass(slots=True)
class _Turn:
    asked: Asked
    until: float


class Admission:
    """What one process does at the moment, and who waits for it. For one thread."""

    def __init__(self, *, memory_bytes: int, places: int, monotonic: Callable[[], float]) -> None:
        """Take what there is of memory, and how many large and small jobs may run at once; at least one of either.

        Jobs that wait for servers have as many places as the two together, and a tenant a quarter of them: they take
        little, and the servers of two tenants may be slow for long.
        """
        half = max(1, min(places, PLACES_MAX) // 2)
        self._places = {Lane.LARGE: half, Lane.SMALL: half, Lane.REMOTE: 2 * half}
        self._share = max(1, half // 2)
        beside = half * JOB_BYTES_FIXED + 2 * half * SYNC_BYTES_HELD
        self._budget_bytes = max(0, int(memory_bytes * MEMORY_SHARE) - PROCESS_BYTES - beside)
        self._monotonic = monotonic
        self._running: list[Asked] = []
        self._turns: dict[tuple[UUID, str], _Turn] = {}

    @property
    def places(self) -> int:
        """How many jobs run at once at most, in all lanes."""
        return sum(self._places.values())

    @property
    def budget_bytes(self) -> int:
        """Memory of large jobs together."""
        return self._budget_bytes

    def admit(self, asked: Asked) -> bool:
        """Tell whether a job may begin now; then ``release`` is owed. If not, its turn is kept where it was."""
        now = self._monotonic()
        self._forget(now, but=asked.key)
        # A key that is there already keeps its place.
        self._turns[asked.key] = _Turn(asked, now + TURN_KEPT_SECONDS)
        if asked not in self._next():
            return False
        del self._turns[asked.key]
        self._running.append(asked)
        return True

    def release(self, asked: Asked) -> Sequence[Asked]:
        """End an admitted job; return those who were turned away and may come now."""
        self._running.remove(asked)
        now = self._monotonic()
        # Who has not come back holds nobody up.
        self._forget(now)
        called = self._next()
        for one in called:
            turn = self._turns[one.key]
            turn.until = min(turn.until, now + CALLED_KEPT_SECONDS)
        return called

    def running(self, kind: str) -> int:
        """Count the jobs of a kind that run."""
        return sum(asked.kind == kind for asked in self._running)

    def held(self, kind: str) -> int:
        """Count the tenant environments with a job of a kind that were turned away."""
        now = self._monotonic()
        return sum(turn.asked.kind == kind and turn.until > now for turn in self._turns.values())

    def admitted_bytes(self) -> int:
        """Add up the memory of the large jobs that run."""
        return sum(asked.size.memory_bytes for asked in self._running if asked.size.lane is Lane.LARGE)

    def _forget(self, now: float, *, but: tuple[UUID, str] | None = None) -> None:
        self._turns = {key: turn for key, turn in self._turns.items() if turn.until > now or key == but}

    def _next(self) -> list[Asked]:
        """Return who of those that wait may begin, all of them together."""
        found: list[Asked] = []
        closed: set[Lane] = set()
        for turn in self._turns.values():
            asked, lane = turn.asked, turn.asked.size.lane
            alike = [a for a in (*self._running, *found) if a.size.lane is lane]
            if lane in closed or sum(a.tenant_id == asked.tenant_id for a in alike) >= self._share:
                continue
            if asked.is_suspect and any(a.is_suspect for a in (*self._running, *found)):
                continue
            if len(alike) < self._places[lane] and self._has_memory(asked, alike):
                found.append(asked)
            else:
                closed.add(lane)
        return found

    def _has_memory(self, asked: Asked, alike: Sequence[Asked]) -> bool:
        if asked.size.lane is not Lane.LARGE or not alike:
            return True
        return sum(a.size.memory_bytes for a in (*alike, asked)) <= self._budget_bytes
