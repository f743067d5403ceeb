"""Finding what has a text or an amount, among few rows at a time: there is no index of words.

What has the text as its whole reference is found by an index, wherever it is. A part of a text is looked for in the
newest rows, and the next page goes on with older ones. Each statement has its end, after which it has found nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from psycopg.errors import QueryCanceled

from payrec.constants.search import SEARCH_SECONDS_MAX
from payrec.storage.database import Connection
from payrec.storage.filters import containing
from payrec.storage.rows import fetch_all, fetch_one

_LAST: Final = "ffffffff-ffff-ffff-ffff-ffffffffffff"
"""An id after all others."""

_TABLES: Final = {
    "incoming": "incoming_transaction",
    "expected": "expected_transaction",
    "matches": "match",
    "imports": "import",
}
_WHOLE: Final = {
    "incoming": ("external_id", "end_to_end_id", "group_key"),
    "expected": ("external_id", "reference", "group_key"),
}
"""References that an index finds."""

_PARTS: Final = {
    "incoming": (
        "remittance",
        "counterparty_name",
        "counterparty_account",
        "ultimate_counterparty_name",
        "structured_reference",
        "end_to_end_id",
        "bank_reference",
        "external_id",
    ),
    "expected": (
        "reference",
        "description",
        "counterparty_name",
        "counterparty_account",
        "external_id",
        "end_to_end_id",
    ),
    "imports": ("name",),
}
"""Texts that may contain what is looked for."""

# A bank that knows no end-to-end id says so in a word, which the index leaves out.
_BY_WHOLE: Final = """
    (SELECT id FROM {table} WHERE {column} = %(text)s {known} AND id < %(before)s ORDER BY id DESC LIMIT %(limit)s)
"""
_BY_AMOUNT: Final = """
    SELECT id FROM {table} WHERE amount_minor = ANY(%(minors)s) AND id < %(before)s
        AND (%(minor_of)s::jsonb ->> currency)::bigint = amount_minor
        AND (%(direction)s::text IS NULL OR direction = %(direction)s)
    ORDER BY id DESC LIMIT %(limit)s
"""
_BY_PART: Final = """
    SELECT id FROM (SELECT * FROM {table} WHERE id < %(before)s ORDER BY id DESC LIMIT %(rows)s) t
    WHERE {condition} ORDER BY id DESC LIMIT %(limit)s
"""
_END: Final = "SELECT id FROM {table} WHERE id < %(before)s ORDER BY id DESC OFFSET %(rows)s - 1 LIMIT 1"
_MATCHES: Final = """
    SELECT id, created_at, status, kind, currency, amount_minor, effective_on FROM match WHERE id IN (
        SELECT match_id FROM leg WHERE expected_id = ANY(%(expected)s)
        UNION ALL SELECT match_id FROM leg WHERE contra_expected_id = ANY(%(expected)s)
        UNION ALL SELECT match_id FROM leg WHERE incoming_id = ANY(%(incoming)s)
        UNION ALL SELECT match_id FROM leg WHERE contra_incoming_id = ANY(%(incoming)s)
    ) AND id < %(before)s ORDER BY id DESC LIMIT %(limit)s
"""


class SearchStore:
    """Looks for ids; what they stand for is read by the stores of their kinds."""

    def __init__(self, connection: Connection, *, before: UUID | None, limit: int) -> None:
        self._connection = connection
        self._parameters: dict[str, Any] = {"before": before or UUID(_LAST), "limit": limit}
        self.unfinished = False
        """A statement was ended."""

    async def prepare(self) -> None:
        """Give each statement of the transaction its end."""
        setting = f"SET LOCAL statement_timeout = '{SEARCH_SECONDS_MAX}s'"
        await self._connection.execute(setting.encode(), prepare=False)

    async def exists(self, kind: str, found: UUID) -> bool:
        """Tell whether something of the kind has this id."""
        query = f"SELECT 1 FROM {_TABLES[kind]} WHERE id = %s"  # noqa: S608 - our own text
        return await fetch_one(self._connection, query, (found,)) is not None

    async def by_whole(self, kind: str, text: str) -> list[UUID]:
        """Return what has the text as one of its references."""
        known = {"end_to_end_id": "AND end_to_end_id <> 'NOTPROVIDED'"}
        parts = [
            _BY_WHOLE.format(table=_TABLES[kind], column=column, known=known.get(column, ""))
            for column in _WHOLE.get(kind, ())
        ]
        return await self._ids(" UNION ALL ".join(parts), {"text": text}) if parts else []

    async def by_amount(self, kind: str, minors: Mapping[str, int], *, direction: str | None) -> list[UUID]:
        """Return what has one of these amounts, in minor units by currency, the newest first."""
        parameters = {
            "minors": sorted(set(minors.values())),
            "minor_of": json.dumps(dict(minors)),
            "direction": direction,
        }
        return await self._ids(_BY_AMOUNT.format(table=_TABLES[kind]), parameters)

    async def by_part(self, kind: str, text: str, *, rows: int) -> list[UUID]:
        """Return what has the text within one of its texts, the newest first; ``rows`` are looked through at most."""
        condition, parameters = containing("part", text, _PARTS[kind])
        query = _BY_PART.format(table=_TABLES[kind], condition=condition)
        return await self._ids(query, {**parameters, "rows": rows})

    async def end(self, kind: str, *, rows: int) -> UUID | None:
        """Return the last one of the rows that were looked through; None where these were all."""
        found = await self._ids(_END.format(table=_TABLES[kind]), {"rows": rows})
        return found[0] if found else None

    async def imports(self, ids: Sequence[UUID]) -> list[dict[str, Any]]:
        """Return imports, the newest first."""
        query = "SELECT id, created_at, status, resource, name, records FROM import WHERE id = ANY(%s) ORDER BY id DESC"
        return await fetch_all(self._connection, query, (list(ids),))

    async def matches(self, *, expected: Sequence[UUID], incoming: Sequence[UUID]) -> list[dict[str, Any]]:
        """Return the matches that join any of the transactions, the newest first."""
        parameters = {"expected": list(expected), "incoming": list(incoming)}
        return await self._within(_MATCHES, parameters)

    async def _ids(self, query: str, parameters: Mapping[str, Any]) -> list[UUID]:
        return list(dict.fromkeys(row["id"] for row in await self._within(query, parameters)))

    async def _within(self, query: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        try:
            async with self._connection.transaction():
                return await fetch_all(self._connection, query, {**self._parameters, **parameters})
        except QueryCanceled:
            self.unfinished = True
            return []
