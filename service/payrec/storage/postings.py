"""The feed of postings, as it is read, and what was taken over of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from payrec.models.postings import PostingAcknowledgementQuery, PostingQuery
from payrec.storage.database import Connection
from payrec.storage.filters import created, equalities, ranges
from payrec.storage.listing import PageRequest, Selection, SortKey, select_page
from payrec.storage.rows import columns_of, fetch_one, insert
from payrec.tables.postings import PostingAcknowledgement

_COLUMNS: Final = columns_of(PostingAcknowledgement)
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext('posting_acknowledgement'), hashtext(current_schema()))"
_STATE: Final = """
    SELECT coalesce((SELECT sequence FROM posting_feed), 0) AS last_sequence,
        coalesce((SELECT max(through_sequence) FROM posting_acknowledgement), 0) AS acknowledged
"""

BY_SEQUENCE: Final = {
    "sequence": SortKey(expression="p.sequence", descending=False, name="sequence", parameter="%(after_value)s::bigint")
}
"""The only order in which postings are read."""


class PostingStore:
    """``posting`` and ``posting_acknowledgement`` of one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def page(
        self, page: PageRequest, query: PostingQuery, *, lines_max: int
    ) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return postings in their order: as many as fit the page and the lines that it may have, at least one."""
        columns = "p.sequence, p.source_id AS id, p.effective_on, p.kind, p.reverses_sequence, p.line_count, p.lines"
        selection = Selection(columns=f"{columns}, p.created_at", source="posting p", id_column="p.source_id")
        comparisons = {
            "after": "p.sequence >",
            "created_from": "p.created_at >=",
            "created_to": "p.created_at <=",
        }
        for condition, parameters in ranges(query, comparisons):
            selection.where(condition, **parameters)
        rows, more = await select_page(self._connection, selection, page)
        lines = 0
        for place, row in enumerate(rows):
            lines += row["line_count"]
            if place and lines > lines_max:
                return rows[:place], True
        return rows, more

    async def acknowledgements(
        self, page: PageRequest, query: PostingAcknowledgementQuery
    ) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return a page of what was taken over."""
        selection = Selection(columns=_COLUMNS, source="posting_acknowledgement a", id_column="a.id")
        for condition, parameters in [
            *equalities(query, {"external_batch_id": "a.external_batch_id"}),
            *created(query, "a"),
        ]:
            selection.where(condition, **parameters)
        return await select_page(self._connection, selection, page)

    async def hold(self) -> tuple[int, int]:
        """Let nobody else acknowledge until the end of the transaction.

        Return the last sequence that was given, and through which one postings were taken over.
        """
        await self._connection.execute(_LOCK)
        row = await fetch_one(self._connection, _STATE)
        return (row["last_sequence"], row["acknowledged"]) if row is not None else (0, 0)

    async def batch(self, external_batch_id: str) -> dict[str, Any] | None:
        """Return what was taken over as a batch."""
        query = f"SELECT {_COLUMNS} FROM posting_acknowledgement WHERE external_batch_id = %s"  # noqa: S608 - our own text
        return await fetch_one(self._connection, query, (external_batch_id,))

    async def acknowledge(self, row: Mapping[str, Any]) -> None:
        """Store that postings were taken over."""
        await insert(self._connection, PostingAcknowledgement, row)
