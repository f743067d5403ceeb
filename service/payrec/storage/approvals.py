"""What limits look at of many matches at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all

_DECIDED: Final = """
    SELECT m.id, m.currency, m.amount_minor, m.adjustments, l.settled_currency, l.settled_minor
    FROM match m JOIN (
        SELECT match_id, settled_currency, sum(settled_minor)::bigint AS settled_minor FROM leg
        WHERE match_id = ANY(%(ids)s) GROUP BY match_id, settled_currency
    ) l ON l.match_id = m.id
    WHERE m.id = ANY(%(ids)s)
"""
_WAITING: Final = "SELECT id, adjustments FROM match WHERE id = ANY(%s) AND status = 'pending_approval' ORDER BY id"


class ApprovalStore:
    """Matches that may need a second person, or wait for one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def amounts(self, match_ids: Sequence[UUID]) -> list[dict[str, Any]]:
        """Return what matches take and settle: a row for each match and currency in which it settles something."""
        return await fetch_all(self._connection, _DECIDED, {"ids": list(match_ids)})

    async def waiting(self, match_ids: Sequence[UUID]) -> list[dict[str, Any]]:
        """Return ``id`` and ``adjustments`` of those of these matches that wait for a second person."""
        return await fetch_all(self._connection, _WAITING, (list(match_ids),))
