"""Stored files: uploads as they came, and exports. In chunks in the tenant's own schema, or in an object store.

An object is not in the database's transaction. So it is written before the row that names it, and deleted after the
commit of the row that named it; whoever dies in between leaves an object that no row names, which is collected
(``blob_collection``). Its name is made of the tenant, the environment and an id that nobody can guess, and only the id
is in the row: whatever a row says, it is an object of its own environment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import BinaryIO, Protocol
from uuid import UUID

import structlog

from payrec.constants.blobs import BLOB_DELETE_SECONDS
from payrec.domain.blobs import Blob, StoredObject
from payrec.domain.scope import TenantScope
from payrec.errors import NotFoundError, PayrecError, UnavailableError
from payrec.storage.blobs import CHUNK_BYTES, BlobStore
from payrec.storage.database import Connection, Database


class ObjectStore(Protocol):
    """What keeps files outside the database, by name.

    Whatever is refused or does not answer is an UnavailableError, or where there is no room a StorageFullError.
    """

    async def put(self, name: str, stream: BinaryIO) -> None:
        """Write a file whole, or not at all; it can be read when this returns."""

    def chunks(self, name: str, *, size: int) -> AsyncIterator[bytes]:
        """Yield a file of ``size`` bytes; NotFoundError where it is not there."""

    def listed(self, prefix: str) -> AsyncIterator[Sequence[StoredObject]]:
        """Yield what is below a prefix, page by page."""

    async def delete(self, names: Sequence[str]) -> None:
        """Delete files; one that is not there is no error."""


class NewBlob(Protocol):
    """A file that is to be stored."""

    @property
    def object_id(self) -> UUID | None:
        """For its row: the object that it is already, or None."""

    async def store(self, connection: Connection, blob_id: UUID) -> None:
        """Store it in the transaction that stores the row which names it."""


class Blobs(Protocol):
    """Where the files of an installation are kept."""

    def written(self, scope: TenantScope, stream: BinaryIO) -> AbstractAsyncContextManager[NewBlob]:
        """Open a context around the transaction that stores a file from the stream's start.

        Raises
        ------
        UnavailableError, StorageFullError
            It cannot be stored; nothing is begun.
        """

    def chunks(self, scope: TenantScope, blob: Blob) -> AsyncIterator[bytes]:
        """Yield a file, a chunk in memory, and no connection that waits for a slow client in between.

        Raises
        ------
        NotFoundError
            It has gone meanwhile.
        UnavailableError
            It cannot be read at present.
        """

    async def discard(self, scope: TenantScope, object_ids: Sequence[UUID]) -> None:
        """Delete objects that no row names any more; what cannot be deleted now is collected later."""


class ChunkBlobs:
    """Files in the database."""

    def __init__(self, *, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def written(self, scope: TenantScope, stream: BinaryIO) -> AsyncIterator[NewBlob]:  # noqa: ARG002 - the port's
        """Write the file in the transaction itself."""
        yield _NewChunks(stream)

    async def chunks(self, scope: TenantScope, blob: Blob) -> AsyncIterator[bytes]:
        """Yield a file, in a transaction for each chunk."""
        if blob.object_id is not None:
            raise UnavailableError("the file is kept in an object store, which BLOB_URL does not name")
        for ordinal in range(-(-blob.size // CHUNK_BYTES)):
            async with self._database.tenant(scope, readonly=True) as connection:
                data = await BlobStore(connection).chunk(blob.id, ordinal)
            if data is None:
                raise NotFoundError("the file is not kept any more")
            yield data

    async def discard(self, scope: TenantScope, object_ids: Sequence[UUID]) -> None:
        """Leave objects of an object store that was named once: nobody here reaches it."""


class ObjectBlobs:
    """Files in an object store; those that were stored in the database before are read from there."""

    def __init__(self, *, store: ObjectStore, chunks: ChunkBlobs, token_bytes: Callable[[int], bytes]) -> None:
        self._store = store
        self._chunks = chunks
        self._token_bytes = token_bytes
        self._logger = structlog.get_logger("payrec.blobs")

    @asynccontextmanager
    async def written(self, scope: TenantScope, stream: BinaryIO) -> AsyncIterator[NewBlob]:
        """Write the file at once, and delete it if no row was to name it after all."""
        new = _NewObject(UUID(bytes=self._token_bytes(16), version=4))
        stream.seek(0)
        await self._store.put(name_of(scope, new.object_id), stream)
        try:
            yield new
        finally:
            # Where a row was to name it, only the database knows whether that was committed.
            if not new.is_stored:
                await self.discard(scope, [new.object_id])

    async def chunks(self, scope: TenantScope, blob: Blob) -> AsyncIterator[bytes]:
        """Yield a file from where its row says that it is."""
        if blob.object_id is None:
            found = self._chunks.chunks(scope, blob)
        else:
            found = self._store.chunks(name_of(scope, blob.object_id), size=blob.size)
        async for data in found:
            yield data

    async def discard(self, scope: TenantScope, object_ids: Sequence[UUID]) -> None:
        """Delete objects, unless that takes long."""
        try:
            async with asyncio.timeout(BLOB_DELETE_SECONDS):
                await self._store.delete([name_of(scope, object_id) for object_id in object_ids])
        except (PayrecError, TimeoutError) as error:
            self._logger.warning("blobs.left", count=len(object_ids), error=type(error).__name__)


class _NewChunks:
    """A file that becomes rows."""

    object_id: UUID | None = None

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    async def store(self, connection: Connection, blob_id: UUID) -> None:
        await BlobStore(connection).put(blob_id, self._stream)


class _NewObject:
    """A file that is an object already."""

    def __init__(self, object_id: UUID) -> None:
        self.object_id: UUID = object_id
        self.is_stored = False

    async def store(self, connection: Connection, blob_id: UUID) -> None:  # noqa: ARG002 - the port's
        self.is_stored = True


async def begun(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Return chunks of which the first one is read already: what cannot be read is an answer then, not a broken one."""
    first = await anext(chunks, b"")

    async def all_of_them() -> AsyncIterator[bytes]:
        yield first
        async for data in chunks:
            yield data

    return all_of_them()


def prefix_of(tenant_id: UUID, environment_id: UUID) -> str:
    """Return what the names of an environment's objects begin with; one that is made anew has another id."""
    return f"{tenant_id}/{environment_id}/"


def name_of(scope: TenantScope, object_id: UUID) -> str:
    """Return the name of an object of an environment."""
    return f"{prefix_of(scope.tenant_id, scope.environment_id)}{object_id}"
