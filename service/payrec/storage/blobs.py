"""Stored files in the database, in chunks in the tenant's own schema; and which objects of a store the rows name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO, Final
from uuid import UUID

from payrec.storage.database import Connection
from payrec.storage.rows import copying_in, fetch_all

CHUNK_BYTES: Final = 1024 * 1024
"""Bytes of one chunk."""

_NAMED: Final = """
    SELECT object_id FROM import WHERE object_id = ANY(%(ids)s)
    UNION ALL SELECT object_id FROM export WHERE object_id = ANY(%(ids)s)
"""


class BlobStore:
    """``blob_chunk`` of one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def put(self, blob_id: UUID, stream: BinaryIO) -> None:
        """Store a file from the stream's start; it is there when the transaction commits."""
        stream.seek(0)
        query = "COPY blob_chunk (blob_id, ordinal, data) FROM STDIN (FORMAT BINARY)"
        async with copying_in(self._connection, query) as copy:
            copy.set_types(["uuid", "int8", "bytea"])
            ordinal = 0
            while chunk := stream.read(CHUNK_BYTES):
                await copy.write_row((blob_id, ordinal, chunk))
                ordinal += 1

    async def chunk(self, blob_id: UUID, ordinal: int) -> bytes | None:
        """Return a chunk of the file, of CHUNK_BYTES unless it is the last one; None behind that."""
        cursor = await self._connection.execute(
            "SELECT data FROM blob_chunk WHERE blob_id = %s AND ordinal = %s", (blob_id, ordinal)
        )
        row = await cursor.fetchone()
        return bytes(row["data"]) if row is not None else None

    async def delete(self, blob_id: UUID) -> None:
        """Delete a file."""
        await self._connection.execute("DELETE FROM blob_chunk WHERE blob_id = %s", (blob_id,))

    async def named(self, object_ids: Sequence[UUID]) -> set[UUID]:
        """Return those of the objects that a row names."""
        rows = await fetch_all(self._connection, _NAMED, {"ids": list(object_ids)})
        return {row["object_id"] for row in rows}
