"""Objects that nobody needs any more: those that no row names, and those of environments that were dropped."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import structlog

from payrec.constants.blobs import BLOB_REMNANTS_AT_ONCE, BLOB_UNNAMED_FOR
from payrec.domain.blobs import StoredObject
from payrec.domain.scope import TenantScope
from payrec.metrics import Metrics
from payrec.services.blobs import ObjectStore, prefix_of
from payrec.services.rounds import go_on
from payrec.services.work import Work
from payrec.storage.blob_remnants import BlobRemnantStore
from payrec.storage.blobs import BlobStore
from payrec.storage.rows import database_now
from payrec.storage.tenants import TenantStore, scope_of

HOURS: Final = 24
"""Each environment has its hour of the day in which its objects are listed, so that not all are at once."""

KIND: Final = "objects"
"""What they are called where all that was deleted is counted."""


class BlobCollector:
    """Deletes objects. ``store`` None: BLOB_URL names no object store, and there is nothing to be deleted.

    Only below the names of environments that are known, or were: others may keep their files in the same bucket.
    """

    def __init__(self, *, work: Work, store: ObjectStore | None, metrics: Metrics) -> None:
        self._work = work
        self._store = store
        self._metrics = metrics
        self._logger = structlog.get_logger("payrec.blobs")

    async def collect(self, *, everywhere: bool = False) -> int:
        """Delete what nobody needs, also in environments whose hour it is not; return how many objects that were.

        One environment that fails keeps no other waiting; the next run looks at it again.
        """
        hour, deleted = self._work.clock.now().hour, 0
        async with self._work.database.control(readonly=True) as connection:
            rows = await TenantStore(connection).scopes()
            remnants = await BlobRemnantStore(connection).all(limit=BLOB_REMNANTS_AT_ONCE)
            # By the clock of a worker that is ahead, what is written just now would be old.
            before = await database_now(connection) - BLOB_UNNAMED_FOR
        for row in remnants:
            deleted += await self._tried(row["environment_id"], self._clear(row, before))
        for row in rows:
            scope = scope_of(row)
            if row["revision"] is not None and (everywhere or scope.environment_id.int % HOURS == hour):
                deleted += await self._tried(scope.environment_id, self._unnamed(scope, before))
        if deleted:
            self._logger.info("blobs.collected", count=deleted)
        return deleted

    async def _tried(self, environment_id: UUID, deletions: AsyncIterator[int]) -> int:
        deleted = 0
        try:
            async for count in deletions:
                deleted += count
        except Exception as error:
            self._metrics.retention_failures.labels(kind=KIND).inc()
            self._logger.exception("blobs.not_collected", environment_id=str(environment_id))
            await go_on(self._work, error)
        finally:
            # What was deleted is gone, whatever came after it.
            self._metrics.retention_removed.labels(kind=KIND).inc(deleted)
        return deleted

    async def _unnamed(self, scope: TenantScope, before: datetime) -> AsyncIterator[int]:
        """Delete the objects of an environment that are old and in no row; yield how many, page by page."""
        if self._store is None:
            return
        prefix = prefix_of(scope.tenant_id, scope.environment_id)
        async for page in self._store.listed(prefix):
            old = {stored.name: _object_id(stored, prefix) for stored in page if stored.modified_at < before}
            ids = [object_id for object_id in old.values() if object_id is not None]
            async with self._work.database.tenant(scope, readonly=True) as connection:
                named = await BlobStore(connection).named(ids)
            yield await self._delete([name for name, object_id in old.items() if object_id not in named])

    async def _clear(self, row: dict[str, Any], before: datetime) -> AsyncIterator[int]:
        """Delete all objects of an environment that is no more, and forget it when nothing can come any more."""
        found = 0
        if self._store is not None:
            async for page in self._store.listed(prefix_of(row["tenant_id"], row["environment_id"])):
                found += len(page)
                yield await self._delete([stored.name for stored in page])
        if not found and row["dropped_at"] < before:
            async with self._work.database.control() as connection:
                await BlobRemnantStore(connection).forget(row["environment_id"])

    async def _delete(self, names: Sequence[str]) -> int:
        if names and self._store is not None:
            await self._store.delete(names)
        return len(names)


def _object_id(stored: StoredObject, prefix: str) -> UUID | None:
    """Return the id in the name of an object; None where it is none of ours, such as what was never finished."""
    try:
        return UUID(stored.name.removeprefix(prefix))
    except ValueError:
        return None
