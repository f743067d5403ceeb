"""Names on statements and whom they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from payrec.models.aliases import AliasQuery
from payrec.storage.database import Connection
from payrec.storage.filters import equalities, ranges
from payrec.storage.listing import PageRequest, Selection, select_page
from payrec.storage.rows import columns_of, fetch_all, fetch_one
from payrec.tables.aliases import Alias

_COLUMNS: Final = columns_of(Alias)
_TEACH: Final = """
    INSERT INTO alias AS a (id, statement_key, counterparty_key, created_at, updated_at, status, statement_name,
        counterparty_name)
    SELECT id, statement_key, counterparty_key, %(at)s, %(at)s, 'active', statement_name, counterparty_name
    FROM unnest(%(ids)s::uuid[], %(statement_keys)s::bigint[], %(counterparty_keys)s::bigint[],
        %(statement_names)s::text[], %(counterparty_names)s::text[])
        AS g (id, statement_key, counterparty_key, statement_name, counterparty_name)
    WHERE (SELECT count(*) FROM alias) < %(count_max)s
    ORDER BY statement_key
    ON CONFLICT (statement_key) DO UPDATE SET
        confirmations = a.confirmations + (a.counterparty_key = EXCLUDED.counterparty_key)::int,
        status = CASE WHEN a.counterparty_key = EXCLUDED.counterparty_key THEN a.status ELSE 'contradicted' END,
        updated_at = EXCLUDED.updated_at, version = a.version + 1
    WHERE a.status = 'active'
    RETURNING id
"""
_FORGET: Final = """
    UPDATE alias SET status = 'forgotten', updated_at = %(at)s, version = version + 1
    WHERE id = %(id)s AND status <> 'forgotten' RETURNING statement_name, counterparty_name
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasTaught:
    """One name that a match has explained."""

    id: UUID
    """Of the row, where there is none of the name yet."""
    statement_key: int
    counterparty_key: int
    statement_name: str
    counterparty_name: str


class AliasStore:
    """``alias`` of one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def active(self) -> dict[int, int]:
        """Return the keys of names on statements, and of the counterparties' names that they mean."""
        query = "SELECT statement_key, counterparty_key FROM alias WHERE status = 'active'"
        return {row["statement_key"]: row["counterparty_key"] for row in await fetch_all(self._connection, query)}

    async def teach(self, aliases: Sequence[AliasTaught], *, count_max: int, at: datetime) -> int:
        """Store names, each once; a name that means somebody else already is contradicted from now on.

        Nothing is added beyond ``count_max``. Return how many were added or changed.
        """
        parameters = {
            "ids": [a.id for a in aliases],
            "statement_keys": [a.statement_key for a in aliases],
            "counterparty_keys": [a.counterparty_key for a in aliases],
            "statement_names": [a.statement_name for a in aliases],
            "counterparty_names": [a.counterparty_name for a in aliases],
            "count_max": count_max,
            "at": at,
        }
        return len(await fetch_all(self._connection, _TEACH, parameters))

    async def page(self, page: PageRequest, query: AliasQuery) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return a page of the aliases that are not forgotten."""
        selection = Selection(columns=_COLUMNS, source="alias", id_column="id")
        selection.where("status <> 'forgotten'")
        found = equalities(query, {"status": "status"})
        found += ranges(query, {"created_from": "created_at >=", "created_to": "created_at <="})
        for condition, parameters in found:
            selection.where(condition, **parameters)
        return await select_page(self._connection, selection, page)

    async def get(self, alias_id: UUID) -> dict[str, Any] | None:
        """Return one, forgotten or not."""
        query = f"SELECT {_COLUMNS} FROM alias WHERE id = %s"  # noqa: S608 - our own text
        return await fetch_one(self._connection, query, (alias_id,))

    async def forget(self, alias_id: UUID, *, at: datetime) -> dict[str, Any] | None:
        """Forget one; return what it was, or None when there is nothing to forget."""
        return await fetch_one(self._connection, _FORGET, {"id": alias_id, "at": at})
