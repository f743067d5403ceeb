"""Expected transactions: the stated row, the open row with its keys, and lists over both."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from payrec.errors import DuplicateExternalIdError
from payrec.models.expected_transactions import ExpectedTransactionQuery
from payrec.storage.database import Connection
from payrec.storage.filters import Condition, amount_range, created, equalities, frequent, ranges, status_is, texts
from payrec.storage.history import HistoryStore
from payrec.storage.history_relations import at_instant, had_status
from payrec.storage.listing import BY_CREATION, PageRequest, Selection, SortKey, select_page
from payrec.storage.reasons import reason_code
from payrec.storage.rows import adapt, fetch_all, fetch_one, in_order, paired_insert
from payrec.tables.allocations import RARE_STATUSES
from payrec.tables.expected_transactions import ExpectedOpen, ExpectedTransaction

_REASON: Final = f"coalesce(a.reason_code, {reason_code(1, 'e.id')})"

COLUMNS: Final = f"""
    e.id, e.created_at, greatest(a.updated_at, e.updated_at) AS updated_at,
    e.revision + coalesce(a.version, 1) - 1 AS version,
    e.external_id, e.direction, e.amount_minor, e.currency, e.min_amount_minor, e.max_amount_minor,
    e.due_on AS due_date, e.expected_from_on AS expected_from, e.expected_to_on AS expected_to, e.reference,
    e.end_to_end_id, e.counterparty_name, e.counterparty_account, e.account, e.group_key, e.description, e.metadata,
    coalesce(a.status, 'open') AS status, {_REASON} AS reason_code,
    e.settled_before_minor, coalesce(a.allocated_minor, 0) AS matched_amount_minor,
    e.amount_minor - e.settled_before_minor - coalesce(a.allocated_minor, 0) AS open_amount_minor,
    (coalesce(a.status, 'open') IN ('open', 'partially_matched')
     AND coalesce(coalesce(e.due_on, e.expected_to_on) < %(today)s, false)) AS overdue,
    CASE WHEN a.status = 'void' THEN a.reason END AS void_reason,
    coalesce(e.terms, '[]') AS terms
"""
_JOINED: Final = "expected_transaction e LEFT JOIN allocation a ON a.side = 1 AND a.transaction_id = e.id"
_JOINED_OPEN: Final = (
    "expected_open o JOIN expected_transaction e ON e.id = o.transaction_id"
    " LEFT JOIN allocation a ON a.side = 1 AND a.transaction_id = e.id"
)
_TABLES: Final = ("expected_transaction", "ever", "allocation", "open_reason")
"""What has a history of what is read of an expected transaction."""
_DUE: Final = "COALESCE(e.due_on, 'infinity'::date)"
_DUE_AFTER: Final = "COALESCE(%(after_value)s::date, 'infinity'::date)"
_AMOUNT: Final = "e.amount_minor"

SORTS: Final = {
    **BY_CREATION,
    "dueDate": SortKey(expression=_DUE, descending=False, name="due_date", parameter=_DUE_AFTER),
    "-dueDate": SortKey(expression=_DUE, descending=True, name="due_date", parameter=_DUE_AFTER),
    "amountMinor": SortKey(expression=_AMOUNT, descending=False, name="amount_minor"),
    "-amountMinor": SortKey(expression=_AMOUNT, descending=True, name="amount_minor"),
}
"""The orders that the interface names, each with its index."""

_INSERT: Final = """
    WITH stored AS (
        INSERT INTO expected_transaction ({columns}) VALUES ({values})
        ON CONFLICT (external_id) WHERE external_id IS NOT NULL DO NOTHING RETURNING id
    )
    INSERT INTO expected_open ({open_columns}) SELECT {open_values} FROM stored
"""

_KNOWN: Final = """
    SELECT e.id, e.external_id, e.amount_minor, e.currency, e.direction
    FROM unnest(%s::text[]) AS given (external_id) CROSS JOIN LATERAL (
        -- Each looked up by its index, whatever the planner thinks of a table without statistics.
        SELECT * FROM expected_transaction t
        WHERE t.external_id = given.external_id AND t.external_id IS NOT NULL LIMIT 1
    ) e
"""


def conditions(query: ExpectedTransactionQuery, *, today: date) -> list[Condition]:
    """Return the conditions of the query's filters. Amounts were checked against the currency before."""
    found = equalities(
        query,
        {
            "direction": "e.direction",
            "currency": "e.currency",
            "account": "e.account",
            "reference": "e.reference",
            "external_id": "e.external_id",
            "group_key": "e.group_key",
        },
    )
    found += ranges(
        query,
        {
            "due_from": f"e.due_on IS NOT NULL AND {_DUE} >=",
            "due_to": f"{_DUE} <=",
        },
    )
    found += created(query, "e")
    found += amount_range(query, "e.amount_minor")
    if query.status is not None:
        found.append(status_is(query.status, "coalesce(a.status, 'open')", ("open",)))
    if query.reason_code is not None:
        found.append((frequent(f"{_REASON} = %(reason_code)s"), {"reason_code": query.reason_code}))
    if query.overdue is not None:
        late = "(coalesce(a.status, 'open') IN ('open', 'partially_matched')"
        late += " AND coalesce(e.due_on, e.expected_to_on) < %(today)s)"
        found.append((frequent(late if query.overdue else f"NOT coalesce({late}, false)"), {"today": today}))
    found += texts(
        query,
        counterparty=("e.counterparty_name", "e.counterparty_account"),
        q=("e.reference", "e.description", "e.counterparty_name", "e.external_id", "e.end_to_end_id"),
    )
    return found


def is_open_only(query: ExpectedTransactionQuery) -> bool:
    """Tell whether the query asks for nothing but what is open, so that the narrow set serves it.

    What is matched in part is found by its own index.
    """
    return query.status == "open" or (query.overdue is True and query.status is None)


class ExpectedTransactionStore:
    """``expected_transaction`` and ``expected_open``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add(self, row: dict[str, Any], open_row: dict[str, Any]) -> None:
        """Store one expected transaction and put it among what is open.

        Raises
        ------
        DuplicateExternalIdError
            With ``existingId``.
        """
        values = {**adapt(ExpectedTransaction, row), **{f"o_{k}": v for k, v in open_row.items()}}
        cursor = await self._connection.execute(_insert(tuple(row), tuple(open_row)), values)
        if cursor.rowcount == 0:
            found = await fetch_one(
                self._connection, "SELECT id FROM expected_transaction WHERE external_id = %s", (row["external_id"],)
            )
            raise DuplicateExternalIdError(existingId=str(found["id"]) if found else None)

    async def known(self, external_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return those of the items that are stored, by externalId: ``id, amount_minor, currency, direction``."""
        rows = await fetch_all(self._connection, _KNOWN, (list(external_ids),))
        return {row["external_id"]: row for row in rows}

    async def get(self, transaction_id: UUID, *, today: date, as_of: datetime | None = None) -> dict[str, Any] | None:
        """Return one expected transaction with its state, now or as of an instant.

        Raises
        ------
        AsOfOutOfRangeError
        """
        await HistoryStore(self._connection).check(as_of)
        begin = at_instant(*_TABLES) if as_of is not None else ""
        query = f"{begin}SELECT {COLUMNS} FROM {_JOINED} WHERE e.id = %(id)s"  # noqa: S608 - our own text
        return await fetch_one(self._connection, query, {"id": transaction_id, "today": today, "as_of": as_of})

    async def many(self, ids: Sequence[UUID], *, today: date) -> list[dict[str, Any]]:
        """Return those of the expected transactions that are stored, with their states, in the order of the ids."""
        query = f"SELECT {COLUMNS} FROM {_JOINED} WHERE e.id = ANY(%(ids)s)"  # noqa: S608 - our own text
        return in_order(await fetch_all(self._connection, query, {"ids": list(ids), "today": today}), ids)

    async def page(
        self, page: PageRequest, query: ExpectedTransactionQuery, *, today: date
    ) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return a page of what the query asks for."""
        # Of what was open then there is no narrow set.
        open_only = is_open_only(query) and query.as_of is None
        source, id_column = (_JOINED_OPEN, "o.transaction_id") if open_only else (_JOINED, "e.id")
        selection = Selection(columns=COLUMNS, source=source, id_column=id_column, parameters={"today": today})
        selection.at(query.as_of, *_TABLES)
        if query.as_of is not None and query.status in RARE_STATUSES:
            selection.where(had_status(query.status, 1, "e.id"))
        for condition, parameters in conditions(query, today=today):
            selection.where(condition, **parameters)
        return await select_page(self._connection, selection, page)


@lru_cache(maxsize=64)
def _insert(names: tuple[str, ...], open_names: tuple[str, ...]) -> bytes:
    return paired_insert(_INSERT, (ExpectedTransaction, names), (ExpectedOpen, open_names))
