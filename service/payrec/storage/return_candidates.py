"""Payments that returns may take back: found by what the returns say of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from payrec.domain.matching.returns import RETURN_DAYS_MAX
from payrec.storage.database import Connection
from payrec.storage.returns import RETURN_LINE
from payrec.storage.rows import array_text, fetch_all

_TOLD: Final = f"""
    SELECT {RETURN_LINE}, f.{{said}}, coalesce(a.amount_minor, i.amount_minor) AS left_minor,
        i.reversal, i.bank_transaction_code, i.return_reason,
        o.transaction_id IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM open_reason w WHERE w.transaction_id = i.id AND w.side = 2)
            AND NOT EXISTS (SELECT 1 FROM leg l WHERE l.incoming_id = i.id) AS waits
    FROM found f JOIN incoming_transaction i ON i.id = f.id
    LEFT JOIN allocation a ON a.side = 2 AND a.transaction_id = i.id
    LEFT JOIN incoming_open o ON o.transaction_id = i.id
    WHERE NOT i.pending AND NOT coalesce(o.duplicate, false) AND coalesce(a.status, '') NOT IN ('ignored', 'classified')
"""  # noqa: S608 - our own text
# Equal amounts may be many: the newest are looked at, through the index. Of those most are of another currency or came
# after the return, and no text of theirs is read.
_PAYMENTS: Final = """
    WITH found AS (
        SELECT c.id, array_agg(DISTINCT r.id) AS return_ids FROM incoming_transaction r CROSS JOIN LATERAL (
            (SELECT p.id, p.currency, p.direction, p.booking_on FROM incoming_transaction p
             WHERE p.end_to_end_id = r.end_to_end_id AND p.end_to_end_id <> 'NOTPROVIDED'
             ORDER BY p.id DESC LIMIT %(limit)s)
            UNION ALL
            (SELECT p.id, p.currency, p.direction, p.booking_on FROM incoming_transaction p
             WHERE p.amount_minor = r.amount_minor ORDER BY p.id DESC LIMIT %(limit)s)
        ) c WHERE r.id = ANY(%(ids)s) AND c.currency = r.currency AND c.direction <> r.direction
            AND r.booking_on - c.booking_on BETWEEN 0 AND %(days)s
        GROUP BY c.id
    )
""" + _TOLD.format(said="return_ids")  # noqa: S608 - our own text
_CROWDED: Final = """
    SELECT r.id FROM incoming_transaction r WHERE r.id = ANY(%(ids)s) AND (
        SELECT count(*) FROM (
            SELECT FROM incoming_transaction p WHERE p.amount_minor = r.amount_minor LIMIT %(limit)s + 1
        ) n
    ) > %(limit)s
"""
# What settles an item of the reference, and what is open and quotes it too. Of a reference that too many have, nothing:
# the payment that is meant may be among those that are left out.
_ASKED: Final = """
    WITH item AS (
        SELECT e.id, k AS key FROM unnest(%(keys)s::bigint[]) k CROSS JOIN LATERAL (
            SELECT id, count(*) OVER () AS many FROM (
                SELECT id FROM expected_transaction WHERE reference_key = k LIMIT %(limit)s + 1
            ) e
        ) e WHERE e.many <= %(limit)s
    ), line AS (
        SELECT o.id, key, count(*) OVER (PARTITION BY key) AS many FROM (
            SELECT transaction_id AS id, unnest(reference_keys) AS key FROM incoming_open WHERE NOT reversal
        ) o JOIN (SELECT DISTINCT key FROM item) i USING (key)
    ), found AS (
        SELECT id, array_agg(key) AS asked FROM (
            SELECT l.incoming_id AS id, i.key FROM item i JOIN leg l ON l.expected_id = i.id
            WHERE l.incoming_id IS NOT NULL AND l.valid_from IS NOT NULL AND l.valid_to IS NULL
            UNION SELECT id, key FROM line
        ) f WHERE key NOT IN (SELECT key FROM line WHERE many > %(limit)s)
        GROUP BY id
    )
""" + _TOLD.format(said="asked")  # noqa: S608 - our own text


class ReturnCandidateStore:
    """Reads booked lines that could have been taken back. ``waits`` are those that no run has looked at."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def payments(self, return_ids: Sequence[UUID], *, limit: int) -> list[dict[str, Any]]:
        """Return those with the end-to-end id or the amount of returns, of the newest ``limit`` of each.

        ``return_ids`` are the returns of each.
        """
        parameters = {"ids": array_text(return_ids), "limit": limit, "days": RETURN_DAYS_MAX}
        return await fetch_all(self._connection, _PAYMENTS, parameters)

    async def crowded(self, return_ids: Sequence[UUID], *, limit: int) -> set[UUID]:
        """Return those of the returns of whose amount there are more lines than ``limit``."""
        rows = await fetch_all(self._connection, _CROWDED, {"ids": array_text(return_ids), "limit": limit})
        return {row["id"] for row in rows}

    async def asked(self, keys: Iterable[int], *, limit: int) -> list[dict[str, Any]]:
        """Return those that settle an item whose reference has one of the keys, or are open and quote it as well.

        ``asked`` are these keys of each; keys of more than ``limit`` items or open lines are left out.
        """
        return await fetch_all(self._connection, _ASKED, {"keys": array_text(keys), "limit": limit})
