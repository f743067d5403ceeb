"""Incoming transactions of which a statement of their account may tell something else now than at an instant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all

# What a line is part of is told by what is allocated of it, by returns, and by the days of its matches. Its own amount
# and day never change but when it is booked: then and now it may be of another account, or beyond the cut-off.
_CHANGED: Final = """
    WITH since AS MATERIALIZED (SELECT id FROM change WHERE at > %(as_of)s), decided AS MATERIALIZED (
        SELECT m.id FROM match m JOIN since h ON h.id = m.change_id
    )
    SELECT i.id FROM incoming_transaction i JOIN since h ON h.id = i.change_id WHERE {of_account}
    UNION
    SELECT i.id FROM allocation a JOIN since h ON h.id = a.change_id
    JOIN incoming_transaction i ON i.id = a.transaction_id WHERE a.side = 2 AND {of_account}
    UNION
    SELECT i.id FROM stated_row t JOIN since h ON h.id = t.until_change_id
    JOIN incoming_transaction i ON i.id = t.transaction_id
    WHERE t.side = 2 AND (t.stated ->> 'pending')::boolean AND %(identifier)s IN (i.account, t.stated ->> 'account')
    UNION
    SELECT i.id FROM (
        SELECT t.id FROM decided m JOIN leg l ON l.match_id = m.id
        CROSS JOIN LATERAL (VALUES (l.incoming_id), (l.contra_incoming_id)) t (id)
        UNION ALL
        SELECT t.id FROM (
            SELECT r.incoming_id, r.reversal_id FROM reversal_link r JOIN since h ON h.id = r.change_id
            UNION ALL
            SELECT r.incoming_id, r.reversal_id FROM reversal_link_state r JOIN since h ON h.id = r.until_change_id
            UNION ALL
            SELECT r.incoming_id, r.reversal_id FROM reversal_link r JOIN decided m ON m.id = r.match_id
        ) r CROSS JOIN LATERAL (VALUES (r.incoming_id), (r.reversal_id)) t (id)
    ) t JOIN incoming_transaction i ON i.id = t.id WHERE {of_account}
"""


async def changed_lines(connection: Connection, of_account: str, parameters: Mapping[str, Any]) -> list[UUID]:
    """Return lines of an account that are new since ``as_of``, or of whose parts anything has changed since.

    ``of_account`` is the condition on ``incoming_transaction i``, and ``parameters`` are its, ``identifier`` of the
    account among them, and ``as_of``.
    """
    rows = await fetch_all(connection, _CHANGED.format(of_account=of_account), parameters)
    return [row["id"] for row in rows]
