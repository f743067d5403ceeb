"""Seals of the audit log: which records are in none yet, what is committed to, and what is there now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb

from payrec.domain.identifiers import id_at
from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all, fetch_one

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LOCK: Final = "SELECT pg_try_advisory_xact_lock(hashtext('audit_seal'), hashtext(current_schema())) AS is_ours"
_TAKE: Final = """
    DELETE FROM audit_unsealed WHERE change_id IN (SELECT change_id FROM audit_unsealed ORDER BY change_id LIMIT %s)
    RETURNING change_id
"""
_RECORD: Final = """
    r.actor, r.action, r.resource_id, r.reason, r.before::text AS before, r.after::text AS after, r.request_id
"""
_RECORDS: Final = f"""
    SELECT r.change_id, r.ordinal, c.at, {_RECORD} FROM audit_record r JOIN change c ON c.id = r.change_id
    WHERE r.change_id = ANY(%(changes)s) AND (r.change_id, r.ordinal) > (%(after_id)s, %(after_ordinal)s)
    ORDER BY r.change_id, r.ordinal LIMIT %(limit)s
"""  # noqa: S608 - our own text
_COMMIT: Final = """
    INSERT INTO audit_commitment (change_id, ordinal, seal, salt, content, commitment)
    SELECT change_id, ordinal, %(seal)s, salt, content, commitment
    FROM unnest(%(changes)s::uuid[], %(ordinals)s::bigint[], %(salts)s::bytea[], %(contents)s::bytea[],
        %(commitments)s::bytea[]) AS t (change_id, ordinal, salt, content, commitment)
"""
_ADD: Final = """
    INSERT INTO audit_seal (sequence, id, sealed_at, count, previous_root, root)
    VALUES (%(sequence)s, %(id)s, %(sealed_at)s, %(count)s, %(previous_root)s, %(root)s)
"""
_ANNOUNCE: Final = """
    INSERT INTO outbox (change_id, ordinal, type, resource_ids, data) VALUES (%s, 1, 'audit.sealed', ARRAY[%s], %s)
"""
_COMMITTED: Final = f"""
    SELECT k.change_id, k.ordinal, k.salt, k.content, k.commitment, c.at, r.change_id IS NOT NULL AS is_there, {_RECORD}
    FROM audit_commitment k LEFT JOIN audit_record r USING (change_id, ordinal) LEFT JOIN change c ON c.id = k.change_id
    WHERE k.seal = %s ORDER BY k.change_id, k.ordinal
"""  # noqa: S608 - our own text
_NOT_SEALED: Final = """
    SELECT r.change_id, r.ordinal, u.change_id IS NOT NULL AS waits
    FROM audit_record r LEFT JOIN audit_unsealed u USING (change_id)
    WHERE NOT EXISTS (
        SELECT FROM audit_commitment k WHERE (k.change_id, k.ordinal) = (r.change_id, r.ordinal)
            AND k.seal BETWEEN 1 AND %(seals)s
    )
"""
_REMOVALS: Final = """
    SELECT change_id, action, after FROM audit_record
    WHERE action IN ('audit_log.dropped', 'audit_log.redacted', 'privacy.erased')
"""
_TOLD: Final = """
    SELECT (data->>'sequence')::bigint AS sequence, data->>'root' AS root FROM event
    WHERE type = 'audit.sealed' ORDER BY position
"""


class AuditSealStore:
    """``audit_seal``, ``audit_commitment`` and ``audit_unsealed`` of one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def waits(self) -> bool:
        """Tell whether there are records in no seal."""
        row = await fetch_one(self._connection, "SELECT EXISTS (SELECT FROM audit_unsealed) AS waits")
        return row is not None and bool(row["waits"])

    async def hold(self) -> bool:
        """Keep everybody else from sealing here until the transaction ends; return whether nobody else does."""
        row = await fetch_one(self._connection, _LOCK)
        return row is not None and bool(row["is_ours"])

    async def take(self, limit: int) -> list[UUID]:
        """Return changes whose records this transaction seals, those that began first."""
        return [row["change_id"] for row in await fetch_all(self._connection, _TAKE, (limit,))]

    async def records(
        self, changes: Sequence[UUID], *, after: tuple[UUID, int], limit: int
    ) -> Sequence[dict[str, Any]]:
        """Return records of these changes behind a change and ordinal, in this order, with their instant."""
        parameters = {"changes": list(changes), "after_id": after[0], "after_ordinal": after[1], "limit": limit}
        return await fetch_all(self._connection, _RECORDS, parameters)

    async def commit(
        self,
        seal: int,
        places: Sequence[tuple[UUID, int]],
        *,
        salts: Sequence[bytes],
        contents: Sequence[bytes],
        commitments: Sequence[bytes],
    ) -> None:
        """Store what a seal says of records."""
        parameters = {
            "seal": seal,
            "changes": [change_id for change_id, _ in places],
            "ordinals": [ordinal for _, ordinal in places],
            "salts": list(salts),
            "contents": list(contents),
            "commitments": list(commitments),
        }
        await self._connection.execute(_COMMIT, parameters)

    async def last(self) -> dict[str, Any] | None:
        """Return the newest seal."""
        return await fetch_one(self._connection, "SELECT * FROM audit_seal ORDER BY sequence DESC LIMIT 1")

    async def add(
        self, seal_id: UUID, *, sequence: int, at: datetime, count: int, previous_root: bytes, root: bytes
    ) -> None:
        """Append a seal."""
        parameters = {
            "id": seal_id,
            "sequence": sequence,
            "sealed_at": at,
            "count": count,
            "previous_root": previous_root,
            "root": root,
        }
        await self._connection.execute(_ADD, parameters)

    async def announce(self, change_id: UUID, seal_id: UUID, data: dict[str, Any]) -> None:
        """Tell others of a seal, without a record of it: that would be the next one to be sealed, for ever."""
        await self._connection.execute(_ANNOUNCE, (change_id, seal_id, Jsonb(data)))

    async def page(self, *, after: int, limit: int) -> list[dict[str, Any]]:
        """Return the seals behind a sequence, in their order."""
        query = "SELECT * FROM audit_seal WHERE sequence > %s ORDER BY sequence LIMIT %s"
        return await fetch_all(self._connection, query, (after, limit))

    async def committed(self, seal: int) -> list[dict[str, Any]]:
        """Return what a seal says of its records, with the records as they are now."""
        return await fetch_all(self._connection, _COMMITTED, (seal,))

    async def not_sealed(self, *, seals: int, limit: int) -> tuple[int, list[dict[str, Any]]]:
        """Return how many records wait for their seal, and some that are in none and do not wait.

        A commitment of any other seal than those from 1 to ``seals`` counts for nothing: no root covers it.
        """
        count = f"SELECT count(*) AS count FROM ({_NOT_SEALED}) s WHERE waits"  # noqa: S608 - our own text
        unknown = f"""
            SELECT change_id, ordinal FROM ({_NOT_SEALED}) s WHERE NOT waits ORDER BY 1, 2 LIMIT %(limit)s
        """  # noqa: S608 - our own text
        parameters = {"seals": seals, "limit": limit}
        row = await fetch_one(self._connection, count, parameters)
        return int(row["count"]) if row else 0, await fetch_all(self._connection, unknown, parameters)

    async def removals(self) -> tuple[UUID | None, int]:
        """Return before which change the retention says that it has deleted records, and how many erasures say.

        Both say it in the log that they shorten, where whoever makes it more changes a record. Erasures of before said
        it beside their reason alone, which another erasure may have taken.
        """
        told: dict[str, list[tuple[UUID, Any]]] = {}
        for row in await fetch_all(self._connection, _REMOVALS):
            told.setdefault(row["action"], []).append((row["change_id"], row["after"]))
        before = [at for _, after in told.get("audit_log.dropped", ()) if (at := _instant(_said(after, "before")))]
        redacted = {change_id: _count(_said(after, "count")) for change_id, after in told.get("audit_log.redacted", ())}
        erased = [
            _count(_said(one, "count"))
            for change_id, after in told.get("privacy.erased", ())
            if change_id not in redacted
            for one in _items(_said(after, "erased"))
            if _said(one, "resource") == "audit-log"
        ]
        return id_at(max(before)) if before else None, sum(redacted.values()) + sum(erased)

    async def told(self) -> list[dict[str, Any]]:
        """Return the roots that the feed of events has told of."""
        return await fetch_all(self._connection, _TOLD)


def _said(value: Any, name: str) -> Any:
    """Return a member of what a record says, which may be anything where somebody has changed it."""
    return value.get(name) if isinstance(value, dict) else None


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _instant(value: Any) -> datetime | None:
    try:
        at = datetime.fromisoformat(value).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None
    return at if at > _EPOCH else None
