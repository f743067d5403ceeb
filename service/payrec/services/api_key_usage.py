"""When keys were last used, without a write for each request: noted in memory, written together now and then."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from uuid import UUID

import structlog

from payrec.constants import API_KEY_USES_FLUSH_SECONDS, API_KEY_USES_NOTED_MAX
from payrec.storage.api_keys import EveryApiKeyStore
from payrec.storage.database import Database


class ApiKeyUsage:
    """The uses of keys that this process has seen and not written yet."""

    def __init__(self, *, database: Database) -> None:
        self._database = database
        self._noted: dict[UUID, tuple[datetime, bytes | None]] = {}
        self._flushing = asyncio.Lock()
        self._failing = False
        self._logger = structlog.get_logger("payrec.api_keys")

    def note(self, key_id: UUID, *, at: datetime, digest: bytes | None) -> None:
        """Remember a use; ``digest`` is what replaces a digest that was made under the previous pepper."""
        if key_id in self._noted or len(self._noted) < API_KEY_USES_NOTED_MAX:
            self._noted[key_id] = (at, digest)

    async def flush(self) -> None:
        """Write what was noted. What cannot be written is kept for the next time; that is logged, never raised."""
        async with self._flushing:
            if not self._noted:
                return
            uses, self._noted = self._noted, {}
            unwritten = set(uses)
            try:
                async with self._database.control() as connection:
                    held = await EveryApiKeyStore(connection).note_uses(uses)
                unwritten = held
                self._failing = False
            except Exception as error:  # noqa: BLE001 - a use that is not noted must neither end the task nor a request
                if not self._failing:
                    self._logger.warning("api_key_usage.not_written", error=type(error).__name__)
                self._failing = True
            finally:
                # Also when the request or the process that wanted this has gone. A later use is the newer one.
                self._noted = {**{key_id: uses[key_id] for key_id in unwritten}, **self._noted}

    @asynccontextmanager
    async def flushed(self, *, every_seconds: float = API_KEY_USES_FLUSH_SECONDS) -> AsyncIterator[None]:
        """Flush again and again within the context, and once more at its end."""
        task = asyncio.create_task(self._flush_forever(every_seconds))
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await self.flush()

    async def _flush_forever(self, every_seconds: float) -> None:
        while True:
            await asyncio.sleep(every_seconds)
            await self.flush()
