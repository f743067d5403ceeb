"""What items are called and what lines quote, as texts: the engine has nothing but keys of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from payrec.storage.allocations import Side
from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all

_TEXTS: Final = """
    WITH wanted AS MATERIALIZED (SELECT * FROM unnest(%(proposal)s::integer[], %(id)s::uuid[]) w (proposal, id))
    SELECT w.proposal, v.text FROM wanted w
    JOIN {table} t ON t.id = w.id
    CROSS JOIN LATERAL (VALUES {texts}) v (text)
    WHERE v.text IS NOT NULL
"""
QUOTING: Final = {Side.EXPECTED: ("reference",), Side.INCOMING: ("remittance", "end_to_end_id")}
"""Columns that have such texts."""

_TEXTS_OF: Final = {
    side: _TEXTS.format(texts=", ".join(f"(t.{name})" for name in names), table=f"{side.name.lower()}_transaction")
    for side, names in QUOTING.items()
}


class OtherNumberStore:
    """Reads these texts, in the transaction of ``connection``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def texts(self, side: Side, wanted: Mapping[str, list[Any]]) -> list[tuple[int, str]]:
        """Return the texts of one side with the number of the proposal that asks for them.

        ``wanted`` has lists for ``proposal`` and ``id``.
        """
        rows = await fetch_all(self._connection, _TEXTS_OF[side], dict(wanted))
        return [(row["proposal"], row["text"]) for row in rows]
