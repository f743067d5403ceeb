"""Names on statements and whom they mean."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from payrec.models.aliases import AliasQuery
from payrec.storage.database import Connection
from payrec.storage.filters import equalities, ranges
from payrec.storage.history import later
from payrec.storage.listing import PageRequest, Selection, select_page
from payrec.storage.rows import columns_of, fetch_all, fetch_one
from payrec.tables.aliases import Alias

LESSONS_SHOWN_MAX: Final = 5
"""Lessons of an alias that a list shows, the newest ones."""

_COLUMNS: Final = f"{columns_of(Alias, 'a')}, l.lessons, l.first_taught_at, l.last_taught_at"
_LESSONS: Final = f"""
    alias a CROSS JOIN LATERAL (
        SELECT min(taught_at) AS first_taught_at, max(taught_at) AS last_taught_at, coalesce(jsonb_agg(
            jsonb_build_object('match_id', match_id, 'taught_by', taught_by, 'taught_at', taught_at, 'agrees', agrees,
                'counterparty_name', counterparty_name) ORDER BY place) FILTER (WHERE place <= {LESSONS_SHOWN_MAX}),
            '[]') AS lessons
        FROM (
            SELECT *, row_number() OVER (ORDER BY taught_at DESC, match_id DESC) AS place
            FROM alias_lesson WHERE alias_id = a.id AND taken_back_change_id IS NULL
        ) s
    ) l
"""  # noqa: S608 - our own text
_ACTIVE: Final = "SELECT statement_key, counterparty_key FROM alias WHERE status = 'active'"
# What the lessons of that time say, by the rule by which they are settled.
_ACTIVE_AT: Final = f"""
    WITH said AS (
        SELECT alias_id, counterparty_key, sum(confirmations) AS confirmations, sum(rejections) AS rejections
        FROM (
            SELECT l.alias_id, l.counterparty_key, l.agrees::integer AS confirmations,
                (NOT l.agrees)::integer AS rejections
            FROM alias_lesson l
            WHERE NOT {later("l.change_id")}
                AND (l.taken_back_change_id IS NULL OR {later("l.taken_back_change_id")})
            UNION ALL
            SELECT id, counterparty_key, earlier, 0 FROM alias WHERE earlier > 0 AND created_at <= %(as_of)s
        ) s GROUP BY alias_id, counterparty_key
    ), meant AS (
        SELECT alias_id, min(counterparty_key) AS counterparty_key FROM said WHERE confirmations > 0
        GROUP BY alias_id HAVING count(*) = 1 AND bool_and(rejections < confirmations)
    )
    SELECT a.statement_key, m.counterparty_key FROM meant m JOIN alias a ON a.id = m.alias_id
    WHERE CASE WHEN a.forgotten_change_id IS NULL THEN a.status <> 'forgotten' ELSE {later("a.forgotten_change_id")} END
"""  # noqa: S608 - our own text
_FORGET: Final = """
    UPDATE alias SET status = 'forgotten', forgotten_change_id = %(change_id)s, change_id = %(change_id)s,
        updated_at = %(at)s, version = version + 1
    WHERE id = %(id)s AND status <> 'forgotten'
    RETURNING statement_name, counterparty_name, confirmations
"""


class AliasStore:
    """``alias`` of one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def active(self, *, as_of: datetime | None = None) -> dict[int, int]:
        """Return the keys of names on statements, and of the counterparties' names that they mean.

        With ``as_of``, as it was known at that instant.
        """
        query, parameters = (_ACTIVE, {}) if as_of is None else (_ACTIVE_AT, {"as_of": as_of})
        found = await fetch_all(self._connection, query, parameters)
        return {row["statement_key"]: row["counterparty_key"] for row in found}

    async def page(self, page: PageRequest, query: AliasQuery) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return a page of the aliases that are not forgotten, each with what taught it."""
        selection = Selection(columns=_COLUMNS, source=_LESSONS, id_column="a.id")
        selection.where("a.status NOT IN ('unlearned', 'forgotten')")
        found = equalities(query, {"status": "a.status"})
        found += ranges(query, {"created_from": "a.created_at >=", "created_to": "a.created_at <="})
        for condition, parameters in found:
            selection.where(condition, **parameters)
        return await select_page(self._connection, selection, page)

    async def exists(self, alias_id: UUID) -> bool:
        """Tell whether there is one, forgotten or not."""
        return await fetch_one(self._connection, "SELECT FROM alias WHERE id = %s", (alias_id,)) is not None

    async def forget(self, alias_id: UUID, *, change_id: UUID, at: datetime) -> dict[str, Any] | None:
        """Forget one; return what it was, or None when there is nothing to forget."""
        return await fetch_one(self._connection, _FORGET, {"id": alias_id, "change_id": change_id, "at": at})
