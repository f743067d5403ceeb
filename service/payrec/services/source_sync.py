"""One sync of a data source: looks, reads what is new and has stopped changing, and clears away what was read.

Whatever ends it, the next one goes on: what is known of an object is stored before and after each step, its file
becomes what the same bytes find again, and what is done with an object that was read may be done twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import IO, Any, Final
from uuid import UUID

import structlog

from payrec.connectors.base import (
    ConnectionBrokenError,
    Connector,
    ObjectChangedError,
    Place,
    RemoteObject,
    SourceError,
    TooSlowError,
    within,
)
from payrec.constants import UPLOAD_BYTES_MAX
from payrec.constants.sources import (
    OBJECT_OLD_AFTER,
    OBJECT_READS_MAX,
    OBJECT_STABLE_AFTER,
    OBJECTS_LISTED_MAX,
    SOURCE_CLEARING_SECONDS,
    SOURCE_LISTING_SECONDS,
    SOURCE_OBJECT_SECONDS,
    SYNC_BYTES_MAX,
    SYNC_ERRORS_SHOWN_MAX,
    SYNC_OBJECTS_MAX,
    SYNC_SECONDS_MAX,
)
from payrec.domain.addresses import Destinations
from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.disk import disk_room
from payrec.domain.progress import Progress
from payrec.domain.scope import TenantScope
from payrec.errors import ConfigurationError, DataSourceFailedError, NotFoundError, PayrecError, UnavailableError
from payrec.metrics import Metrics
from payrec.models.data_sources import SyncFailure, SyncResult
from payrec.services.data_source_status import follow_sync
from payrec.services.imports import UploadedFile
from payrec.services.source_files import SourceFiles
from payrec.services.source_objects import NOT_GIVEN, Seen, Tally, has_tries, in_turn, is_wanted
from payrec.services.source_secrets import SecretRefError, SourceSecrets
from payrec.services.work import LostLeaseError, Work
from payrec.storage.data_source_objects import DataSourceObjectStore, object_key
from payrec.storage.data_sources import DataSourceStore
from payrec.storage.jobs import JobStore

_REMEMBERED_AT_ONCE: Final = 1_000
"""Objects that one statement stores."""

_DELETED: Final = "the data source was deleted"
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class _PausedError(Exception):
    """The source was disabled while it was pulled: what is not read is nobody's failure."""


class SourceSyncer:
    """Pulls data sources, as a job."""

    def __init__(
        self,
        *,
        work: Work,
        files: SourceFiles,
        secrets: SourceSecrets,
        destinations: Destinations,
        connector_of: Callable[[str, Place], Connector],
        metrics: Metrics,
    ) -> None:
        self._work = work
        self._metrics = metrics
        self._files = files
        self._secrets = secrets
        self._destinations = destinations
        self._connector_of = connector_of
        self._logger = structlog.get_logger("payrec.data_sources")

    async def run(self, caller: Caller, scope: TenantScope, job: dict[str, Any], progress: Progress) -> None:
        """Do the sync of a job and end the job.

        Raises
        ------
        DataSourceFailedError
            The source cannot be listed.
        NotFoundError
            It was deleted.
        LostLeaseError
            Another worker does it.
        StoppedError
            It was cancelled; what was read stays.
        """
        source_id = UUID(job["params"]["dataSourceId"])
        async with self._work.database.tenant(scope, readonly=True) as connection:
            source = await DataSourceStore(connection).for_sync(source_id)
        if source is None:
            raise NotFoundError(_DELETED)
        try:
            tally = await _Sync(self, caller, scope, source, progress).done()
        except SourceError as error:
            raise DataSourceFailedError(error.detail, reason=error.code) from None
        await self._finish(caller, scope, job, source_id, tally)

    def place_of(self, scope: TenantScope, source: dict[str, Any]) -> Place:
        """Return what the connector of a source is made of.

        Raises
        ------
        SourceError
            Its secret cannot be had.
        """
        try:
            secret = self._secrets.of(source, slug=scope.slug)
        except SecretRefError as error:
            raise SourceError(error.code, f"`secretRef` {error.detail}") from None
        except ConfigurationError:
            raise SourceError("secret_lost", "the stored secret cannot be opened: give it again") from None
        return Place(config=source["config"], secret=secret, destinations=self._destinations)

    async def _finish(
        self, caller: Caller, scope: TenantScope, job: dict[str, Any], source_id: UUID, tally: Tally
    ) -> None:
        told = tally.failures[:SYNC_ERRORS_SHOWN_MAX]
        errors = [SyncFailure(name=name, code=error["code"], detail=error["detail"]) for name, error in told]
        result = SyncResult(
            data_source_id=source_id,
            listed=tally.listed,
            imported=tally.imported,
            waiting=tally.waiting,
            failed=len(tally.failures),
            errors=errors,
        )
        problem = {"name": tally.failures[0][0], **tally.failures[0][1]} if tally.failures else None
        async with self._work.tenant(caller, scope, resumed=True) as unit:
            finished = await JobStore(unit.connection).finish(
                job["id"],
                attempt=job["attempts"],
                now=unit.now,
                result=result.model_dump(mode="json", by_alias=True),
                done=tally.objects,
            )
            if not finished:
                raise LostLeaseError
            if not tally.is_paused:
                await follow_sync(unit, job, problem)
            if tally.waiting:
                store = DataSourceStore(unit.connection)
                await store.look_sooner(source_id, at=await store.now() + OBJECT_STABLE_AFTER)
            unit.record(Record(action="job.succeeded", resource_id=job["id"]))
        for outcome, count in (("imported", tally.imported), ("failed", result.failed), ("waiting", tally.waiting)):
            self._metrics.sync_objects.labels(outcome=outcome).inc(count)
        self._logger.info("data_source.synced", listed=tally.listed, imported=tally.imported, waiting=tally.waiting)

    @property
    def work(self) -> Work:
        """Units of work."""
        return self._work

    @property
    def files(self) -> SourceFiles:
        """Where files go."""
        return self._files

    def connector(self, kind: str, place: Place) -> Connector:
        """Return a connector that is not open yet."""
        return self._connector_of(kind, place)


class _Sync:
    """The steps of one sync."""

    def __init__(
        self,
        syncer: SourceSyncer,
        caller: Caller,
        scope: TenantScope,
        source: dict[str, Any],
        progress: Progress,
    ) -> None:
        self._syncer = syncer
        self._work = syncer.work
        self._caller = caller
        self._scope = scope
        self._source = source
        self._progress = progress
        self._tally = Tally()
        self._looked_at = _LONG_AGO
        self._stack = AsyncExitStack()

    async def done(self) -> Tally:
        """Do all steps and return what was done; raises as ``SourceSyncer.run``."""
        async with self._stack:
            try:
                await self._pulled()
            except _PausedError:
                self._tally.is_paused = True
        return self._tally

    async def _pulled(self) -> None:
        connector = await self._opened()
        seen = await self._looked(connector, self._source["config"].get("pattern", "*"))
        until = self._end()
        for one in in_turn(seen):
            self._progress.reach(self._tally.objects)
            if not is_wanted(one, self._tally, source_version=self._source["version"], at=self._looked_at):
                continue
            if (
                self._work.clock.monotonic() > until
                or self._tally.objects >= SYNC_OBJECTS_MAX
                or self._tally.bytes >= SYNC_BYTES_MAX
                or not self._is_stable(one, connector)
            ):
                self._tally.waiting += not one.is_imported
            else:
                connector = await self._taken(connector, one)
        await self._cleared(connector, seen)

    async def _opened(self) -> Connector:
        """Open the source, instead of the connection that there was."""
        await self._stack.aclose()
        place = self._syncer.place_of(self._scope, self._source)
        return await self._stack.enter_async_context(self._syncer.connector(self._source["kind"], place))

    async def _looked(self, connector: Connector, pattern: str) -> list[Seen]:
        """List the source and note what is new; oldest first, so that statements come in their order."""
        target = self._source["config"].get("moveTo")
        found: list[RemoteObject] = []
        async with within(SOURCE_LISTING_SECONDS):
            async for one in connector.list(pattern):
                if one.problem is not None:
                    self._tally.failures.append((one.name, {"code": one.problem.code, "detail": one.problem.detail}))
                elif target is None or not one.name.startswith(target):
                    found.append(one)
                if len(found) > OBJECTS_LISTED_MAX:
                    raise SourceError("too_many_objects", f"has more than {OBJECTS_LISTED_MAX} files")
        self._tally.listed = len(found)
        found.sort(key=lambda one: (one.modified_at or _LONG_AGO, one.name))
        seen: list[Seen] = []
        async with self._store() as (store, at):
            self._looked_at = at
            await self._go_on(store)
            await store.settle_imports(at=at)
            for first in range(0, len(found), _REMEMBERED_AT_ONCE):
                seen += await self._remembered(store, found[first : first + _REMEMBERED_AT_ONCE], at)
        return seen

    async def _remembered(self, store: DataSourceObjectStore, some: Sequence[RemoteObject], at: datetime) -> list[Seen]:
        rows = [(object_key(one.name, one.version), one.name, one.version, one.size) for one in some]
        known = await store.remember(rows, source_version=self._source["version"], at=at)
        return [Seen(one, row[0], known[row[0]]) for one, row in zip(some, rows, strict=True)]

    def _is_stable(self, one: Seen, connector: Connector) -> bool:
        """Tell whether an object has stopped changing, by when it was seen first or by the source's own word."""
        modified_at = one.found.modified_at
        is_old = modified_at is not None and modified_at <= self._looked_at - OBJECT_OLD_AFTER
        is_known = one.known["created_at"] <= self._looked_at - OBJECT_STABLE_AFTER
        return connector.writes_whole or is_old or is_known

    async def _taken(self, connector: Connector, one: Seen) -> Connector:
        """Read an object into an import; return the connector, which may be another one after a broken connection."""
        self._tally.objects += 1
        async with self._store() as (store, at):
            await self._go_on(store)
            await store.attempt(one.key, source_version=self._source["version"], at=at)
        try:
            with disk_room(), tempfile.TemporaryFile() as into:
                async with within(SOURCE_OBJECT_SECONDS):
                    connector = await self._fetched(connector, one, into)
                await self._imported(one, into)
        except ObjectChangedError:
            # The next look finds what it is now.
            is_last = not has_tries(one, source_version=self._source["version"])
            await self._failed(one, NOT_GIVEN, is_told=is_last)
            self._tally.waiting += not is_last
        except SourceError as error:
            await self._failed(one, {"code": error.code, "detail": error.detail})
            if isinstance(error, ConnectionBrokenError | TooSlowError):
                connector = await self._opened()
        except UnavailableError:
            with suppress(UnavailableError):
                async with self._store() as (store, at):
                    await store.forget_attempt(one.key, at=at)
            raise
        except PayrecError as error:
            await self._go_on()
            reason = {"reason": error.members["reason"]} if "reason" in error.members else {}
            await self._failed(one, {"code": error.code, **reason, "detail": error.detail})
        return connector

    async def _fetched(self, connector: Connector, one: Seen, into: IO[bytes]) -> Connector:
        for read in range(1, OBJECT_READS_MAX + 1):
            try:
                await connector.fetch(one.found, into, bytes_max=UPLOAD_BYTES_MAX)
                break
            except ConnectionBrokenError:
                if read == OBJECT_READS_MAX:
                    raise
            into.seek(0)
            into.truncate()
            connector = await self._opened()
        return connector

    async def _imported(self, one: Seen, into: IO[bytes]) -> None:
        into.seek(0)
        digest = await asyncio.to_thread(hashlib.file_digest, into, "sha256")  # type: ignore[arg-type]
        size = into.tell()
        self._tally.bytes += size
        if one.is_imported and one.known["sha256"] == digest.hexdigest():
            one.is_read = True
            return
        into.seek(0)
        path = one.found.name.partition("?")[0] if self._source["kind"] == "http" else one.found.name
        name = path.rpartition("/")[2]
        file = UploadedFile(into, name=name, size=size, sha256=digest.digest())  # type: ignore[arg-type]
        import_id, is_completed = await self._syncer.files.store(self._caller, self._source, file)
        async with self._store() as (store, at):
            await store.read(one.key, import_id=import_id, sha256=digest.hexdigest(), is_completed=is_completed, at=at)
        one.is_read, one.known["state"] = True, "imported" if is_completed else "importing"
        self._tally.imported += 1
        self._tally.waiting += not is_completed

    async def _failed(self, one: Seen, error: dict[str, Any], *, is_told: bool = True) -> None:
        if is_told:
            self._tally.failures.append((one.found.name, error))
        async with self._store() as (store, at):
            await store.fail(one.key, error, at=at)

    async def _cleared(self, connector: Connector, seen: Sequence[Seen]) -> None:
        """Delete or move the objects whose imports are completed, as the source says."""
        action = self._source["config"].get("afterRead", "leave")
        if action == "leave":
            return
        until = self._end()
        for one in seen:
            if not one.is_done:
                continue
            self._progress.reach(self._tally.objects)
            if self._work.clock.monotonic() > until:
                self._tally.waiting += 1
                continue
            await self._go_on()
            try:
                async with within(SOURCE_CLEARING_SECONDS):
                    if action == "delete":
                        await connector.delete(one.found)
                    else:
                        target = self._source["config"].get("prefix", "") + self._source["config"]["moveTo"]
                        await connector.move(one.found, target + one.found.name)
            except ObjectChangedError:
                self._tally.waiting += 1
            except SourceError as error:
                self._tally.failures.append((one.found.name, {"code": error.code, "detail": error.detail}))
                if isinstance(error, ConnectionBrokenError | TooSlowError):
                    return

    async def _go_on(self, store: DataSourceObjectStore | None = None) -> None:
        """Make sure that the source is to be pulled still; with a store, that nobody deletes it meanwhile.

        Raises
        ------
        NotFoundError
            It was deleted.
        _PausedError
        """
        if store is not None:
            is_enabled = await store.is_source_enabled(lock=True)
        else:
            async with self._work.database.tenant(self._scope, readonly=True) as connection:
                is_enabled = await DataSourceObjectStore(connection, self._source["id"]).is_source_enabled()
        if is_enabled is None:
            raise NotFoundError(_DELETED)
        if not is_enabled:
            raise _PausedError

    def _end(self) -> float:
        """Return when what is not begun is the next sync's."""
        return self._work.clock.monotonic() + SYNC_SECONDS_MAX

    @asynccontextmanager
    async def _store(self) -> AsyncIterator[tuple[DataSourceObjectStore, datetime]]:
        """Open a transaction on what is known of the source's objects, and tell its instant by the database's clock."""
        async with self._work.database.tenant(self._scope) as connection:
            store = DataSourceObjectStore(connection, self._source["id"])
            yield store, await store.now()
