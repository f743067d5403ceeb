"""Pairs that somebody has rejected: they are not proposed again while both sides are open."""

from __future__ import annotations

from typing import Final

from payrec.storage.database import Connection
from payrec.storage.rows import copy_out

REJECTED_COLUMNS: Final = ["expected_id", "contra_expected_id", "incoming_id", "contra_incoming_id"]
"""Columns of a rejected pair, in the order of the CSV; it has two of them."""

# Of a group nobody has said which of its pairs is wrong, perhaps none of them is.
_COPY_OUT: Final = """
    COPY (
        SELECT l.expected_id, l.contra_expected_id, l.incoming_id, l.contra_incoming_id FROM match m
        JOIN leg l ON l.match_id = m.id
        LEFT JOIN expected_open e ON e.transaction_id = l.expected_id
        LEFT JOIN expected_open ce ON ce.transaction_id = l.contra_expected_id
        LEFT JOIN incoming_open i ON i.transaction_id = l.incoming_id
        LEFT JOIN incoming_open ci ON ci.transaction_id = l.contra_incoming_id
        WHERE m.status = 'rejected' AND m.kind IN ('one_to_one', 'transfer', 'refund', 'credit_note')
            AND num_nonnulls(e.transaction_id, ce.transaction_id, i.transaction_id, ci.transaction_id) = 2
    ) TO STDOUT (FORMAT CSV)
"""


class MatchRejectionStore:
    """Reads rejections in the transaction of ``connection``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self) -> bytes:
        """Return the rejected pairs of open transactions as CSV without header, in the order of REJECTED_COLUMNS."""
        return await copy_out(self._connection, _COPY_OUT)
