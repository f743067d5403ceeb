"""Open lines that a run has left out, as far as they may be of what it is sure of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all

FEW: Final = 100
"""Keys that are looked for in each line; when they are more, they are compared with all that lines quote."""

NUMBERS_COMPARED_MAX: Final = 64
"""Numbers with one beginning or end, of lines of one amount, that are told; among more, one comes near any other."""

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
# Each line once, before anything is beside it: of who has one price, every line would be beside each that is wanted.
# Those of the run are left out first (OFFSET keeps it so): how many others have an amount is not known beforehand.
_PAID: Final = f"""
    WITH wanted AS MATERIALIZED (
        SELECT * FROM unnest(
            %(proposal)s::integer[], %(currency)s::text[], %(direction)s::smallint[], %(amount_minor)s::bigint[],
            %(reference_key)s::bigint[], %(reference_digits)s::bigint[], %(is_anybody)s::boolean[],
            %(is_stranger)s::boolean[]
        ) w (
            proposal, currency, direction, amount_minor, reference_key, reference_digits, is_anybody, is_stranger
        )
    ), line AS MATERIALIZED (
        SELECT o.currency, o.direction, o.open_minor AS amount_minor, o.name_key, o.reference_keys, o.quoted_digits,
            o.series_digits
        FROM (SELECT * FROM incoming_open o WHERE {_OTHER} OFFSET 0) o
        WHERE (o.open_minor, o.currency, o.direction) IN (SELECT amount_minor, currency, direction FROM wanted)
    )
"""  # noqa: S608 - our own text
_LIKE: Final = "currency, direction, amount_minor"
_PAYING: Final = f"""
    {_PAID}
    SELECT proposal FROM wanted WHERE is_anybody AND ({_LIKE}) IN (SELECT DISTINCT {_LIKE} FROM line)
    UNION SELECT proposal FROM wanted WHERE is_stranger AND ({_LIKE}) IN (
        SELECT DISTINCT {_LIKE} FROM line l WHERE NOT EXISTS (SELECT FROM expected_open e WHERE e.name_key = l.name_key)
    )
    UNION SELECT proposal FROM wanted
    WHERE ({_LIKE}, reference_key) IN (SELECT {_LIKE}, unnest(reference_keys) FROM line)
    UNION SELECT proposal FROM wanted
    WHERE ({_LIKE}, reference_digits) IN (SELECT {_LIKE}, unnest(series_digits) FROM line)
"""  # noqa: S608 - our own text
# What a line quotes in full with its amount, it means. Numbers that come near each other begin or end alike, as
# ``payrec.domain.matching.near`` has it; what begins alike is negative, so that it is never mistaken for an end. Items
# are looked up by their numbers (+ 0 keeps it so): of one amount there may be as many as there are lines. What begins
# or ends alike is grouped and not joined: no planner knows how few it is.
_NEARLY: Final = f"""
    {_PAID}, said AS (
        SELECT DISTINCT {_LIKE}, digits FROM line l CROSS JOIN LATERAL unnest(l.quoted_digits) q (digits)
        WHERE NOT EXISTS (
            SELECT FROM unnest(l.reference_keys) k CROSS JOIN LATERAL (
                SELECT e.currency, e.direction FROM expected_open e
                WHERE e.reference_key = k AND e.open_minor + 0 = l.amount_minor
                UNION ALL SELECT e.currency, e.direction FROM expected_open e
                WHERE e.end_to_end_key = k AND e.open_minor + 0 = l.amount_minor
            ) e
            WHERE (k & 1) = 1 AND e.currency = l.currency AND e.direction = l.direction
        )
    ), keyed AS (
        SELECT {_LIKE}, half, proposal, reference_digits AS asked, NULL::bigint AS quoted
        FROM wanted CROSS JOIN LATERAL (VALUES (reference_digits %% 1000), (-(reference_digits / 10000))) h (half)
        UNION ALL SELECT {_LIKE}, half, NULL, NULL, digits
        FROM said CROSS JOIN LATERAL (
            VALUES (digits %% 1000), (-(digits / 100000)), (-(digits / 10000)), (-(digits / 1000)), (-(digits / 100))
        ) h (half)
    )
    SELECT array_agg(proposal) FILTER (WHERE proposal IS NOT NULL) AS proposals,
        array_agg(asked) FILTER (WHERE asked IS NOT NULL) AS asked,
        CASE WHEN count(quoted) <= {NUMBERS_COMPARED_MAX}
            THEN array_agg(quoted) FILTER (WHERE quoted IS NOT NULL) END AS quoted
    FROM keyed GROUP BY {_LIKE}, half HAVING count(proposal) > 0 AND count(quoted) > 0
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

    async def nearly(self, wanted: Wanted) -> Sequence[Mapping[str, Any]]:
        """Return ``proposals``, the digits ``asked`` of each, and those ``quoted`` that may come near (PAID_SCHEMA).

        ``quoted`` is null where they are more than NUMBERS_COMPARED_MAX.
        """
        return await self._read(_NEARLY, wanted)

    async def _proposals(self, statement: str, wanted: Mapping[str, Any]) -> list[int]:
        return [row["proposal"] for row in await self._read(statement, wanted)]

    async def _read(self, statement: str, wanted: Mapping[str, Any]) -> list[dict[str, Any]]:
        # A plan that is kept is one for ten lines and ten proposals, however many there are.
        return await fetch_all(self._connection, statement, {**wanted, "lines": self._lines}, prepare=False)
