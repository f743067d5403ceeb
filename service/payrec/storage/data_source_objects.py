"""What became of the objects that a data source shows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb

from payrec.storage.database import Connection
from payrec.storage.rows import database_now, fetch_all, fetch_one

_KNOWN: Final = "object_key, name, state, attempts, source_version, created_at, updated_at, sha256, error"
_REMEMBER: Final = """
    INSERT INTO data_source_object (source_id, object_key, name, version, size, created_at, updated_at, source_version)
    SELECT %(source_id)s, v.object_key, v.name, v.version, v.size, %(at)s, %(at)s, %(source_version)s
    FROM unnest(%(keys)s::bytea[], %(names)s::text[], %(versions)s::text[], %(sizes)s::bigint[])
        AS v (object_key, name, version, size)
    ON CONFLICT DO NOTHING
"""
# One that is imported is read again where no version tells whether there is something new: those before went well.
_ATTEMPT: Final = """
    UPDATE data_source_object SET updated_at = %(at)s, source_version = %(source_version)s,
        attempts = CASE WHEN source_version = %(source_version)s AND state <> 'imported' THEN attempts + 1 ELSE 1 END
    WHERE source_id = %(source_id)s AND object_key = %(key)s
"""
_READ: Final = """
    UPDATE data_source_object SET state = %(state)s, import_id = %(import_id)s, sha256 = %(sha256)s, error = NULL,
        updated_at = %(at)s
    WHERE source_id = %(source_id)s AND object_key = %(key)s
"""
_ENDED_IMPORTS: Final = """
    SELECT o.object_key, i.id, i.status, i.error
    FROM data_source_object o JOIN import i ON i.id = o.import_id
    WHERE o.source_id = %s AND o.state = 'importing' AND i.status IN ('completed', 'failed')
"""
# Told apart from what is read: Citus takes no function over columns in an UPDATE that is not immutable, and those that
# make JSON are not.
_SETTLE: Final = """
    UPDATE data_source_object o SET updated_at = %(at)s, state = v.state, error = v.error
    FROM unnest(%(keys)s::bytea[], %(states)s::text[], %(errors)s::jsonb[]) AS v (object_key, state, error)
    WHERE o.source_id = %(source_id)s AND o.object_key = v.object_key AND o.state = 'importing'
"""
_TOLD_OF_AN_IMPORT: Final = ("code", "reason", "detail")


class DataSourceObjectStore:
    """``data_source_object`` of one source."""

    def __init__(self, connection: Connection, source_id: UUID) -> None:
        self._connection = connection
        self._source_id = source_id

    async def now(self) -> datetime:
        """Return the present instant of the database's clock, because the workers' clocks may differ."""
        return await database_now(self._connection)

    async def is_source_enabled(self, *, lock: bool = False) -> bool | None:
        """Return whether the source is enabled, None where it is gone; with ``lock``, nobody deletes it meanwhile."""
        query = "SELECT enabled FROM data_source WHERE id = %s"
        row = await fetch_one(self._connection, f"{query} FOR KEY SHARE" if lock else query, (self._source_id,))
        return None if row is None else bool(row["enabled"])

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
        ended = await fetch_all(self._connection, _ENDED_IMPORTS, (self._source_id,))
        if ended:
            await self._connection.execute(
                _SETTLE,
                {
                    "source_id": self._source_id,
                    "keys": [row["object_key"] for row in ended],
                    "states": ["imported" if row["status"] == "completed" else "failed" for row in ended],
                    "errors": [_error(row) for row in ended],
                    "at": at,
                },
            )


def _error(ended: dict[str, Any]) -> Jsonb | None:
    """Return what an object tells of the import that it has become, if that has failed."""
    if ended["status"] != "failed":
        return None
    error: dict[str, Any] = ended["error"] or {}
    told = {name: error[name] for name in _TOLD_OF_AN_IMPORT if error.get(name) is not None}
    return Jsonb({"importId": str(ended["id"])} | told)


def object_key(name: str, version: str) -> bytes:
    """Return the key of one content of one name."""
    return hashlib.sha256(f"{name}\0{version}".encode()).digest()
