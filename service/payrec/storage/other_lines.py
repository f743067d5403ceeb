"""Open lines that a run has left out, as far as they may be of what it would accept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all

COLUMNS: Final = ("proposal", "currency", "direction", "amount_minor", "name_key", "account_key", "reference_key")
"""What is known of items that a run would take as paid by lines that do not name them; the amount is the line's."""

FEW: Final = 100
"""Items of which the references are looked for in each line; those of more are compared with all that lines quote."""

_OTHER: Final = """
    NOT o.reversal AND NOT o.duplicate
    AND NOT EXISTS (SELECT FROM unnest(%(lines)s::uuid[]) l WHERE l = o.transaction_id)
"""
# Open lines have no indexes by their keys, because they come in by the million.
_RIVALLED: Final = f"""
    WITH wanted AS MATERIALIZED (
        SELECT * FROM unnest(
            %(proposal)s::integer[], %(currency)s::text[], %(direction)s::smallint[], %(amount_minor)s::bigint[],
            %(name_key)s::bigint[], %(account_key)s::bigint[], %(reference_key)s::bigint[]
        ) w ({", ".join(COLUMNS)})
    )
    SELECT w.proposal FROM wanted w JOIN incoming_open o ON o.open_minor = w.amount_minor
        AND o.currency = w.currency AND o.direction = w.direction
        AND (o.name_key = w.name_key OR o.account_key = w.account_key)
    WHERE {_OTHER}
    UNION
    SELECT w.proposal FROM wanted w JOIN (
        SELECT unnest(o.reference_keys) AS key FROM incoming_open o
        WHERE (%(few)s::bigint[] IS NULL OR o.reference_keys && %(few)s::bigint[]) AND {_OTHER}
    ) o ON o.key = w.reference_key
"""  # noqa: S608 - our own text


class OtherLineStore:
    """Reads ``incoming_open``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def rivalled(self, wanted: Mapping[str, list[Any]], *, lines: str) -> list[int]:
        """Return the proposals of whose items another open line may be; ``wanted`` has lists for COLUMNS.

        That is one that quotes the item, or that has its counterparty and the amount. ``lines`` are the ids of those
        that were looked at, as the array that the database reads.
        """
        quoted = [key for key in wanted["reference_key"] if key is not None]
        few = quoted if len(quoted) <= FEW else None
        rows = await fetch_all(self._connection, _RIVALLED, {**wanted, "few": few, "lines": lines})
        return [row["proposal"] for row in rows]
