"""Items of which nothing is open any more, as far as open lines quote their references in full."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from payrec.storage.database import Connection
from payrec.storage.history import later
from payrec.storage.rows import array_text, fetch_all

OF_REFERENCE_MAX: Final = 64
"""Items of one reference that are read: of one that very many have, the newest tell as much as all."""

MATCHES_TOLD_MAX: Final = 10
"""Matches that are told of one item."""

_NEWEST: Final = f"""
    SELECT {{columns}} FROM (
        SELECT e.id, e.reference_key, e.counterparty_name, e.counterparty_account,
            row_number() OVER (PARTITION BY e.reference_key ORDER BY e.id DESC) AS place
        FROM {{items}} e WHERE e.reference_key {{quoted}} AND {{condition}}
    ) e WHERE place <= {OF_REFERENCE_MAX}
"""  # noqa: S608 - our own text
_COLUMNS: Final = "reference_key, counterparty_name, counterparty_account"
_CLOSED: Final = "NOT EXISTS (SELECT FROM expected_open o WHERE o.transaction_id = e.id)"
# First what is closed, which is nothing at first: the planner does not know how much very many lines quote.
_ALL: Final = f"""
    WITH closed AS MATERIALIZED (
        SELECT id, {_COLUMNS} FROM expected_transaction e WHERE reference_key IS NOT NULL AND {_CLOSED}
    )
"""  # noqa: S608 - our own text
_OF_LINES: Final = _ALL + _NEWEST.format(
    columns=_COLUMNS, items="closed", quoted="IN (SELECT unnest(reference_keys) FROM incoming_open)", condition="true"
)
# An array and no rows: these would be joined with what is closed, each with each where that is thought to be none.
_GIVEN: Final = "= ANY(%(keys)s::bigint[])"
_OF_KEYS: Final = _NEWEST.format(columns=_COLUMNS, items="expected_transaction", quoted=_GIVEN, condition=_CLOSED)
_KNOWN: Final = _NEWEST.format(
    columns=f"id, {_COLUMNS}",
    items="expected_transaction",
    quoted=_GIVEN,
    condition=f"NOT {later('e.change_id')}",
)
_QUOTED: Final = f"""
    SELECT e.id, coalesce(a.status, 'open') AS status, ARRAY(
        SELECT m.id FROM leg l JOIN match m ON m.id = l.match_id
        WHERE l.expected_id = e.id AND m.status = 'accepted' ORDER BY m.id DESC LIMIT {MATCHES_TOLD_MAX}
    ) AS match_ids
    FROM expected_transaction e LEFT JOIN allocation a ON a.side = 1 AND a.transaction_id = e.id
    WHERE e.reference_key = ANY(%(keys)s::bigint[]) AND {_CLOSED} ORDER BY e.id DESC LIMIT %(limit)s
"""  # noqa: S608 - our own text


class ClosedItemStore:
    """Reads ``reference_key``, ``counterparty_name`` and ``counterparty_account`` of closed items."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def of_lines(self) -> list[dict[str, Any]]:
        """Return those that open lines quote."""
        return await fetch_all(self._connection, _OF_LINES)

    async def of_keys(self, keys: Iterable[int]) -> list[dict[str, Any]]:
        """Return those whose reference has one of the keys."""
        return await fetch_all(self._connection, _OF_KEYS, {"keys": array_text(keys)})

    async def known(self, keys: Iterable[int], *, as_of: datetime) -> list[dict[str, Any]]:
        """Return the items with ``id`` that were there then and have one of the keys, closed or not."""
        return await fetch_all(self._connection, _KNOWN, {"keys": array_text(keys), "as_of": as_of})

    async def quoted(self, keys: Iterable[int], *, limit: int) -> list[dict[str, Any]]:
        """Return ``id, status, match_ids`` of the newest closed items whose reference has one of the keys."""
        return await fetch_all(self._connection, _QUOTED, {"keys": array_text(keys), "limit": limit})
