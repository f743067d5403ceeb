"""Requests that were answered. The key is claimed and answered in the transaction of the effect."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from psycopg.types.json import Jsonb

from payrec.constants import IDEMPOTENCY_RETENTION
from payrec.domain.caller import IdempotentRequest
from payrec.domain.retention import Removed
from payrec.errors import IdempotencyInProgressError, IdempotencyKeyReusedError
from payrec.storage.database import Connection
from payrec.storage.rows import fetch_one

_CLAIM: Final = """
    SELECT pg_try_advisory_xact_lock(%(lock)s) AS free, i.fingerprint, i.status, i.body, i.headers
    FROM (VALUES (1)) AS one
    LEFT JOIN idempotency i ON i.key = %(key)s AND i.created_at > statement_timestamp() - %(kept)s
"""
_FIND: Final = """
    SELECT fingerprint, status, body, headers FROM idempotency
    WHERE key = %(key)s AND created_at > statement_timestamp() - %(kept)s
"""
_SAVE: Final = """
    WITH expired AS (
        SELECT key FROM idempotency WHERE created_at <= statement_timestamp() - %(kept)s AND key <> %(key)s
        ORDER BY created_at LIMIT 4 FOR UPDATE SKIP LOCKED
    ), forgotten AS (
        DELETE FROM idempotency i USING expired WHERE i.key = expired.key
    )
    INSERT INTO idempotency (key, fingerprint, status, body, headers, created_at)
    VALUES (%(key)s, %(fingerprint)s, %(status)s, %(body)s, %(headers)s, statement_timestamp())
    ON CONFLICT (key) DO UPDATE SET fingerprint = EXCLUDED.fingerprint, status = EXCLUDED.status,
        body = EXCLUDED.body, headers = EXCLUDED.headers, created_at = EXCLUDED.created_at
"""
"""Forgets a few answers that are too old with each that it keeps, so that the table stays as large as a day.

The retention does the rest, of those who ask no more.
"""

_DROP: Final = """
    WITH expired AS (
        SELECT key FROM idempotency WHERE created_at <= %(kept_from)s
        ORDER BY created_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM idempotency i USING expired WHERE i.key = expired.key RETURNING i.created_at AS at
    )
    SELECT count(*) AS count, min(at) AS oldest, max(at) AS newest FROM gone
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """The answer that a request got; ``status`` is None while it is not known yet."""

    status: int | None
    body: str | None
    headers: dict[str, str]


class IdempotencyStore:
    """The ``idempotency`` table of the transaction's schema: a tenant environment's, or control's."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def claim(self, request: IdempotentRequest) -> StoredAnswer | None:
        """Hold the key until the transaction ends; return the answer that an earlier request got.

        How old that is the database's clock tells: by one that is ahead, the request would be done once more.

        Raises
        ------
        IdempotencyInProgressError
            Another transaction holds the key now. Nobody waits.
        IdempotencyKeyReusedError
            The key came before with another body.
        """
        lock = int.from_bytes(request.key[:8], "big", signed=True)
        parameters = {"lock": lock, "key": request.key, "kept": IDEMPOTENCY_RETENTION}
        row = await fetch_one(self._connection, _CLAIM, parameters)
        assert row is not None
        if not row["free"]:
            raise IdempotencyInProgressError
        if row["fingerprint"] is None:
            # The holder before us may have committed between our snapshot and our lock: look again.
            row = await fetch_one(self._connection, _FIND, parameters)
            if row is None:
                return None
        if row["fingerprint"] not in request.fingerprints:
            raise IdempotencyKeyReusedError
        return StoredAnswer(status=row["status"], body=row["body"], headers=row["headers"] or {})

    async def save(
        self,
        request: IdempotentRequest,
        *,
        status: int | None = None,
        body: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """Store the answer, or, without a status, that the request has begun to have effects."""
        parameters: dict[str, Any] = {
            "key": request.key,
            "fingerprint": request.fingerprints[0],
            "status": status,
            "body": body,
            "headers": Jsonb(headers) if headers else None,
            "kept": IDEMPOTENCY_RETENTION,
        }
        await self._connection.execute(_SAVE, parameters)

    async def release(self, request: IdempotentRequest) -> None:
        """Forget the key: the request ended with an answer that is not kept."""
        await self._connection.execute("DELETE FROM idempotency WHERE key = %s", (request.key,))

    async def has_expired(self, *, kept_from: datetime) -> bool:
        """Tell whether there are answers that are replayed no longer."""
        query = "SELECT 1 FROM idempotency WHERE created_at <= %s ORDER BY created_at LIMIT 1"
        return await fetch_one(self._connection, query, (kept_from,)) is not None

    async def drop_expired(self, *, kept_from: datetime, limit: int) -> Removed:
        """Delete answers that are replayed no longer, the oldest ones; what somebody works on is left."""
        row = await fetch_one(self._connection, _DROP, {"kept_from": kept_from, "limit": limit})
        return Removed(**(row or {}))
