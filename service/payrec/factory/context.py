"""What a process has for its life: its settings, the database, a client, the clock."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import UUID

import uuid_utils.compat

from payrec.config import Config
from payrec.domain.caller import Clock, IdSource
from payrec.metrics import Metrics
from payrec.services.tenant_creation import PasswordHasher
from payrec.storage.database import Database

if TYPE_CHECKING:
    from httpx2 import AsyncClient


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """Return the present instant in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()


class TimeOrderedIds:
    """UUIDv7 (RFC 9562), strictly growing within the process."""

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()

    def new(self) -> UUID:
        """Return a new identifier."""
        return UUID(int=self.block(1))

    def block(self, count: int) -> int:
        """Return the first of ``count`` consecutive identifiers, as an integer."""
        with self._lock:
            first = max(uuid_utils.compat.uuid7().int, self._last + 1)
            self._last = first + count - 1
            return first


@dataclass(slots=True, kw_only=True)
class ProcessContext:
    """What a process has for its life."""

    config: Config
    database: Database
    metrics: Metrics
    clock: Clock = field(default_factory=SystemClock)
    ids: IdSource = field(default_factory=TimeOrderedIds)
    passwords: PasswordHasher | None = None
    """Only with the embedded identity provider."""
    _http: AsyncClient | None = None

    @property
    def http(self) -> AsyncClient:
        """A client for the addresses of the settings, made when it is asked for."""
        if self._http is None:
            import httpx2  # noqa: PLC0415 - with its certificates 4 MiB, and the operator asks nobody by it

            self._http = httpx2.AsyncClient(follow_redirects=False, timeout=5.0)
        return self._http

    async def aclose(self) -> None:
        """Close the client and the database."""
        if self._http is not None:
            await self._http.aclose()
        await self.database.close()


def create_context(config: Config, *, passwords: PasswordHasher | None = None) -> ProcessContext:
    """Return the context of a process; nothing is opened yet."""
    database = Database(
        url=config.database_url,
        admin_url=config.admin_database_url,
        pool_size_max=config.database_pool_size,
        prepared=config.database_pooler is None,
    )
    metrics = Metrics()
    metrics.watch_pool(database.connections)
    return ProcessContext(config=config, database=database, metrics=metrics, passwords=passwords)
