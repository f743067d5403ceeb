"""Open lines that a run has left out, as far as they may be of what it is sure of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all

FEW: Final = 100
"""Keys that are looked for in each line; when they are more, they are compared with all that lines quote."""

_OTHER: Final = """
    NOT o.reversal AND NOT o.duplicate
    AND NOT EXISTS (SELECT FROM unnest(%(lines)s::uuid[]) l WHERE l = o.transaction_id)
"""
_ALIKE: Final = "o.currency = w.currency AND o.direction = w.direction"
# Open lines have no indexes by their keys, because they come in by the million.
_QUOTING: Final = f"""
    WITH wanted AS MATERIALIZED (
        SELECT * FROM unnest(
            %(proposal)s::integer[], %(currency)s::text[], %(direction)s::smallint[], %(key)s::bigint[]
        ) w (proposal, currency, direction, key)
    )
    SELECT DISTINCT w.proposal FROM wanted w JOIN (
        SELECT o.currency, o.direction, unnest(o.reference_keys || o.group_key) AS key FROM incoming_open o
        WHERE (
            %(few)s::bigint[] IS NULL OR o.reference_keys && %(few)s::bigint[] OR o.group_key = ANY(%(few)s::bigint[])
        ) AND {_OTHER}
    ) o ON o.key = w.key AND {_ALIKE}
"""  # noqa: S608 - our own text

_PARTIES: Final = ("o.name_key = w.name_key", "o.ultimate_name_key = w.name_key", "o.account_key = w.account_key")
# What has one amount is joined by it: of who pays much, that is much less.
_AMOUNTS: Final = (
    "w.low_minor = w.high_minor AND o.open_minor = w.low_minor",
    "w.low_minor < w.high_minor AND o.open_minor BETWEEN w.low_minor AND w.high_minor",
)
_BY_PARTY: Final = " UNION ".join(
    f"SELECT w.proposal FROM wanted w JOIN incoming_open o ON {amount} AND {_ALIKE} AND {party} WHERE {_OTHER}"  # noqa: S608
    for party in _PARTIES
    for amount in _AMOUNTS
)
_OF_PARTY: Final = f"""
    WITH wanted AS MATERIALIZED (
        SELECT * FROM unnest(
            %(proposal)s::integer[], %(currency)s::text[], %(direction)s::smallint[],
            %(low_minor)s::bigint[], %(high_minor)s::bigint[], %(name_key)s::bigint[], %(account_key)s::bigint[]
        ) w (proposal, currency, direction, low_minor, high_minor, name_key, account_key)
    )
    {_BY_PARTY}
"""  # noqa: S608 - our own text
_PAID: Final = f"""
    WITH wanted AS MATERIALIZED (
        SELECT * FROM unnest(
            %(proposal)s::integer[], %(currency)s::text[], %(direction)s::smallint[], %(amount_minor)s::bigint[],
            %(reference_key)s::bigint[], %(reference_digits)s::bigint[], %(is_anybody)s::boolean[],
            %(is_stranger)s::boolean[]
        ) w (
            proposal, currency, direction, amount_minor, reference_key, reference_digits, is_anybody, is_stranger
        )
    ), paid AS (
        SELECT w.*, o.transaction_id, o.name_key, o.reference_keys, o.quoted_digits, o.series_digits
        FROM wanted w JOIN incoming_open o ON o.open_minor = w.amount_minor AND {_ALIKE}
        WHERE {_OTHER}
    )
"""  # noqa: S608 - our own text
_PAYING: Final = f"""
    {_PAID}
    SELECT DISTINCT p.proposal FROM paid p
    WHERE p.is_anybody OR p.reference_key = ANY(p.reference_keys) OR p.reference_digits = ANY(p.series_digits)
        OR (p.is_stranger AND NOT EXISTS (SELECT FROM expected_open e WHERE e.name_key = p.name_key))
"""  # noqa: S608 - our own text
# As ``payrec.domain.matching.near``: numbers that come near each other begin or end alike. What a line quotes in full
# with its amount, it means.
_NEARLY: Final = f"""
    {_PAID}
    SELECT DISTINCT p.proposal, p.reference_digits AS asked, q.digits AS quoted FROM paid p
    CROSS JOIN LATERAL unnest(p.quoted_digits) q (digits)
    WHERE (
        q.digits %% 1000 = p.reference_digits %% 1000 OR p.reference_digits / 10000
            IN (q.digits / 100000, q.digits / 10000, q.digits / 1000, q.digits / 100)
    ) AND NOT EXISTS (
        SELECT FROM unnest(p.reference_keys) k JOIN expected_open e ON e.reference_key = k OR e.end_to_end_key = k
        WHERE (k & 1) = 1 AND e.open_minor = p.amount_minor AND e.currency = p.currency AND e.direction = p.direction
    )
"""  # noqa: S608 - our own text
_OWN: Final = f"""
    SELECT DISTINCT w.proposal FROM unnest(%(proposal)s::integer[], %(account_key)s::bigint[]) w (proposal, account_key)
    JOIN incoming_open o ON o.own_account_key = w.account_key
    WHERE {_OTHER}
"""  # noqa: S608 - our own text

Wanted = Mapping[str, list[Any]]
"""Lists for the columns of what is wanted, as ``payrec.domain.matching.left_out`` has them."""


class OtherLineStore:
    """Reads ``incoming_open`` but for some ``lines``: the ids of those, as the array that the database reads."""

    def __init__(self, connection: Connection, *, lines: str) -> None:
        self._connection = connection
        self._lines = lines

    async def quoting(self, wanted: Wanted) -> list[int]:
        """Return the proposals of whose keys a line quotes one, or has it as its group id (QUOTED_SCHEMA)."""
        few = wanted["key"] if len(wanted["key"]) <= FEW else None
        return await self._proposals(_QUOTING, {**wanted, "few": few})

    async def of_party(self, wanted: Wanted) -> list[int]:
        """Return the proposals of whose counterparty a line with such an amount is (OF_PARTY_SCHEMA)."""
        return await self._proposals(_OF_PARTY, wanted)

    async def paying(self, wanted: Wanted) -> list[int]:
        """Return the proposals of which a line with the amount may be (PAID_SCHEMA)."""
        return await self._proposals(_PAYING, wanted)

    async def own(self, wanted: Wanted) -> list[int]:
        """Return the proposals whose payer's account is one of the tenant's own, as a line says (OWN_SCHEMA)."""
        return await self._proposals(_OWN, wanted)

    async def nearly(self, wanted: Wanted) -> Sequence[Mapping[str, int]]:
        """Return ``proposal``, and the digits ``asked`` and ``quoted``, where these may come near (PAID_SCHEMA)."""
        return await fetch_all(self._connection, _NEARLY, {**wanted, "lines": self._lines})

    async def _proposals(self, statement: str, wanted: Mapping[str, Any]) -> list[int]:
        rows = await fetch_all(self._connection, statement, {**wanted, "lines": self._lines})
        return [row["proposal"] for row in rows]
