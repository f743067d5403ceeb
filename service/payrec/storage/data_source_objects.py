"""What became of the objects that a data source shows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb

from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all, fetch_one

_KNOWN: Final = "object_key, name, state, attempts, source_version, created_at, import_id, sha256, error"
_REMEMBER: Final = """
    INSERT INTO data_source_object (source_id, object_key, name, version, size, created_at, updated_at, source_version)
    SELECT %(source_id)s, v.object_key, v.name, v.version, v.size, %(at)s, %(at)s, %(source_version)s
    FROM unnest(%(keys)s::bytea[], %(names)s::text[], %(versions)s::text[], %(sizes)s::bigint[])
        AS v (object_key, name, version, size)
    ON CONFLICT DO NOTHING
"""
_ATTEMPT: Final = """
    UPDATE data_source_object SET updated_at = %(at)s, source_version = %(source_version)s,
        attempts = CASE WHEN source_version = %(source_version)s THEN attempts + 1 ELSE 1 END
    WHERE source_id = %(source_id)s AND object_key = %(key)s
"""
_READ: Final = """
    UPDATE data_source_object SET state = %(state)s, import_id = %(import_id)s, sha256 = %(sha256)s, error = NULL,
        updated_at = %(at)s
    WHERE source_id = %(source_id)s AND object_key = %(key)s
"""
_SETTLE_IMPORTS: Final = """
    UPDATE data_source_object o SET updated_at = %(at)s,
        state = CASE i.status WHEN 'completed' THEN 'imported' ELSE 'failed' END,
        error = CASE i.status WHEN 'failed' THEN
            jsonb_strip_nulls(jsonb_build_object(
                'importId', i.id, 'code', i.error->'code', 'reason', i.error->'reason', 'detail', i.error->'detail'
            )) END
    FROM import i
    WHERE o.source_id = %(source_id)s AND o.state = 'importing' AND i.id = o.import_id
        AND i.status IN ('completed', 'failed')
"""


class DataSourceObjectStore:
    """``data_source_object`` of one source."""

    def __init__(self, connection: Connection, source_id: UUID) -> None:
        self._connection = connection
        self._source_id = source_id

    async def now(self) -> datetime:
        """Return the present instant of the database's clock, because the workers' clocks may differ."""
        row = await fetch_one(self._connection, "SELECT clock_timestamp() AS now")
        assert row is not None, "a function has a value"
        at: datetime = row["now"]
        return at

    async def remember(
        self, objects: Sequence[tuple[bytes, str, str, int | None]], *, source_version: int, at: datetime
    ) -> dict[bytes, dict[str, Any]]:
        """Note objects (key, name, version, size) that are not known yet; return what is known of all, by key."""
        keys = [key for key, *_ in objects]
        await self._connection.execute(
            _REMEMBER,
            {
                "source_id": self._source_id,
                "keys": keys,
                "names": [name for _, name, _, _ in objects],
                "versions": [version for _, _, version, _ in objects],
                "sizes": [size for *_, size in objects],
                "source_version": source_version,
                "at": at,
            },
        )
        query = f"SELECT {_KNOWN} FROM data_source_object WHERE source_id = %s AND object_key = ANY(%s)"  # noqa: S608
        found = await fetch_all(self._connection, query, (self._source_id, keys))
        return {bytes(row["object_key"]): row for row in found}

    async def attempt(self, key: bytes, *, source_version: int, at: datetime) -> None:
        """Count a try, before it is made: one that takes its worker along counts too."""
        await self._connection.execute(
            _ATTEMPT, {"source_id": self._source_id, "key": key, "source_version": source_version, "at": at}
        )

    async def forget_attempt(self, key: bytes, *, at: datetime) -> None:
        """Take back the newest try: what kept it from being made had nothing to do with the object."""
        await self._connection.execute(
            "UPDATE data_source_object SET attempts = greatest(attempts - 1, 0), updated_at = %s"
            " WHERE source_id = %s AND object_key = %s",
            (at, self._source_id, key),
        )

    async def read(self, key: bytes, *, import_id: UUID | None, sha256: str, is_completed: bool, at: datetime) -> None:
        """Note which import an object has become, if it has become one."""
        state = "imported" if is_completed else "importing"
        await self._connection.execute(
            _READ,
            {
                "source_id": self._source_id,
                "key": key,
                "state": state,
                "import_id": import_id,
                "sha256": sha256,
                "at": at,
            },
        )

    async def fail(self, key: bytes, error: dict[str, Any], *, at: datetime) -> None:
        """Note why an object could not be read."""
        await self._connection.execute(
            "UPDATE data_source_object SET state = 'failed', error = %s, updated_at = %s"
            " WHERE source_id = %s AND object_key = %s",
            (Jsonb(error), at, self._source_id, key),
        )

    async def settle_imports(self, *, at: datetime) -> None:
        """Note the imports that have ended since; those of jobs of their own."""
        await self._connection.execute(_SETTLE_IMPORTS, {"source_id": self._source_id, "at": at})


def object_key(name: str, version: str) -> bytes:
    """Return the key of one content of one name."""
    return hashlib.sha256(f"{name}\0{version}".encode()).digest()
