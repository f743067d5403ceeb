"""How many incoming transactions of each booking day there are, and what became of them."""

from __future__ import annotations

from datetime import date
from typing import Any, Final

from payrec.domain.incoming_transactions import day_number
from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all

# Those that are matched are the rest, as in the summary: they are the many, and nothing of them is read but their days.
_BY_DAY: Final = """
    SELECT 'stated' AS part, booking_on AS day, count(*) AS count
    FROM incoming_transaction WHERE booking_on BETWEEN %(since)s AND %(until)s GROUP BY 2
    UNION ALL
    SELECT 'apart', i.booking_on, count(*)
    FROM allocation a JOIN incoming_transaction i ON i.id = a.transaction_id
    WHERE a.side = 2 AND a.status IN ('ignored', 'classified', 'reversed', 'linked')
        AND i.booking_on BETWEEN %(since)s AND %(until)s GROUP BY 2
    UNION ALL
    SELECT CASE WHEN pending THEN 'apart' ELSE 'open' END, date '1970-01-01' + booking_day, count(*)
    FROM incoming_open WHERE booking_day BETWEEN %(since_day)s AND %(until_day)s GROUP BY pending, 2
"""


class MatchRateStore:
    """Counts lines by the day on which they were booked."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def by_day(self, *, since: date, until: date) -> list[dict[str, Any]]:
        """Return counts by day: ``stated`` all, ``apart`` those that ask for no match, ``open`` the open ones."""
        days = {"since": since, "until": until, "since_day": day_number(since), "until_day": day_number(until)}
        return await fetch_all(self._connection, _BY_DAY, days)
