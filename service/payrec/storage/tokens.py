"""Attempts at ``/auth/token``, in the control schema: counted for all processes, by the database's clock."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final

from payrec.constants import TOKEN_ATTEMPTS_FORGOTTEN_AFTER, TOKEN_ATTEMPTS_PRUNED_MAX
from payrec.domain.attempts import Attempts
from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all

# A row that is there stays as it is, and is locked nevertheless. In the order of the keys, so that two never wait for
# each other; an attempt that is refused takes the rows that it made back with its transaction.
_LOCK: Final = """
INSERT INTO token_attempt (key, full_at, failures, faded_at, touched_at)
SELECT key, now(), 0, now(), now() FROM unnest(%(keys)s::bytea[]) AS k (key) ORDER BY key
ON CONFLICT (key) DO UPDATE SET failures = 0 WHERE false
"""

# The time is read when the rows are locked: that of the transaction's beginning could be before what they say.
_READ: Final = """
SELECT key, full_at, failures, faded_at, touched_at, statement_timestamp() AS now
  FROM token_attempt
 WHERE key = ANY (%(keys)s::bytea[])
"""

_SAVE: Final = """
UPDATE token_attempt t
   SET full_at = v.full_at, failures = v.failures, faded_at = v.faded_at, touched_at = v.touched_at
  FROM unnest(%(keys)s::bytea[], %(full_at)s::timestamptz[], %(failures)s::int[], %(faded_at)s::timestamptz[],
              %(touched_at)s::timestamptz[]) AS v (key, full_at, failures, faded_at, touched_at)
 WHERE t.key = v.key
"""

_PRUNE: Final = """
DELETE FROM token_attempt
 WHERE key IN (SELECT key FROM token_attempt
                WHERE touched_at < now() - %(age)s
                ORDER BY touched_at
                LIMIT %(limit)s
                  FOR UPDATE SKIP LOCKED)
"""


class TokenAttemptStore:
    """``token_attempt``, within a transaction of the control schema."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def lock(self, keys: Collection[bytes]) -> tuple[dict[bytes, Attempts], datetime]:
        """Return what is known by each key, and the database's time. Until the end of the transaction nobody else can.

        A key that was not heard of is stored, with no attempts.
        """
        parameters = {"keys": list(keys)}
        await self._connection.execute(_LOCK, parameters)
        rows = await fetch_all(self._connection, _READ, parameters)
        known = {
            bytes(row["key"]): Attempts(
                full_at=row["full_at"],
                failures=row["failures"],
                faded_at=row["faded_at"],
                touched_at=row["touched_at"],
            )
            for row in rows
        }
        return known, rows[0]["now"]

    async def save(self, known: Mapping[bytes, Attempts]) -> None:
        """Store what is known by each key; all of them are locked."""
        values = known.values()
        parameters = {
            "keys": list(known),
            "full_at": [attempts.full_at for attempts in values],
            "failures": [attempts.failures for attempts in values],
            "faded_at": [attempts.faded_at for attempts in values],
            "touched_at": [attempts.touched_at for attempts in values],
        }
        await self._connection.execute(_SAVE, parameters)

    async def prune(self) -> None:
        """Delete some of what is forgotten."""
        parameters = {"age": TOKEN_ATTEMPTS_FORGOTTEN_AFTER, "limit": TOKEN_ATTEMPTS_PRUNED_MAX}
        await self._connection.execute(_PRUNE, parameters)
