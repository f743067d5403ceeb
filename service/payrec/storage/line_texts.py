"""What lines say, for rules that look into it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all

_TEXTS = """
    SELECT id, remittance, counterparty_name, bank_transaction_code FROM incoming_transaction WHERE id = ANY(%s::uuid[])
"""


class LineTextStore:
    """Reads texts of incoming transactions in the transaction of ``connection``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self, ids: Sequence[UUID]) -> list[dict[str, Any]]:
        """Return ``id``, ``remittance``, ``counterparty_name`` and ``bank_transaction_code`` of lines."""
        return await fetch_all(self._connection, _TEXTS, (list(ids),))
