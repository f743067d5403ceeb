"""Uploaded files as they came, in chunks in the tenant's own schema: workers read them, and so may the tenant."""

from __future__ import annotations

from typing import BinaryIO, Final
from uuid import UUID

from payrec.storage.database import Connection

CHUNK_BYTES: Final = 1024 * 1024
"""Bytes of one chunk."""


class BlobStore:
    """``blob_chunk`` of one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def put(self, blob_id: UUID, stream: BinaryIO) -> None:
        """Store a file from the stream's start; it is there when the transaction commits."""
        stream.seek(0)
        async with (
            self._connection.cursor() as cursor,
            cursor.copy("COPY blob_chunk (blob_id, ordinal, data) FROM STDIN (FORMAT BINARY)") as copy,
        ):
            copy.set_types(["uuid", "int8", "bytea"])
            ordinal = 0
            while chunk := stream.read(CHUNK_BYTES):
                await copy.write_row((blob_id, ordinal, chunk))
                ordinal += 1

    async def read(self, blob_id: UUID, into: BinaryIO) -> None:
        """Write the file to ``into``, one chunk in memory at a time."""
        ordinal = 0
        while (data := await self.chunk(blob_id, ordinal)) is not None:
            into.write(data)
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
