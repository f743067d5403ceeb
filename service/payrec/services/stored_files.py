"""Stored files as they are sent: a chunk in memory, and no connection that waits for a slow client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

from payrec.domain.scope import TenantScope
from payrec.errors import NotFoundError
from payrec.storage.blobs import CHUNK_BYTES, BlobStore
from payrec.storage.database import Database


async def chunks_of(database: Database, scope: TenantScope, blob_id: UUID, *, size: int) -> AsyncIterator[bytes]:
    """Yield the ``size`` bytes of a stored file, in a transaction for each chunk.

    Raises
    ------
    NotFoundError
        The file has gone meanwhile.
    """
    for ordinal in range(-(-size // CHUNK_BYTES)):
        async with database.tenant(scope, readonly=True) as connection:
            data = await BlobStore(connection).chunk(blob_id, ordinal)
        if data is None:
            raise NotFoundError("the file is not kept any more")
        yield data
