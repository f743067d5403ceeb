"""Expected transactions: the stated row, the open row with its keys, and lists over both."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from psycopg import sql

from payrec.errors import DuplicateExternalIdError
from payrec.models.expected_transactions import ExpectedTransactionQuery
from payrec.storage.database import Connection
from payrec.storage.filters import Condition, amount_range, equalities, ranges, texts
from payrec.storage.listing import BY_CREATION, PageRequest, Selection, SortKey, select_page
from payrec.storage.reasons import reason_code
from payrec.storage.rows import adapt, fetch_one, paired_insert
from payrec.tables.expected_transactions import ExpectedOpen, ExpectedTransaction

COLUMNS: Final = f"""
    e.id, e.created_at, greatest(a.updated_at, e.updated_at) AS updated_at,
    e.revision + coalesce(a.version, 1) - 1 AS version,
    e.external_id, e.direction, e.amount_minor, e.currency, e.min_amount_minor, e.max_amount_minor,
    e.due_on AS due_date, e.expected_from_on AS expected_from, e.expected_to_on AS expected_to, e.reference,
    e.end_to_end_id, e.counterparty_name, e.counterparty_account, e.account, e.group_key, e.description, e.metadata,
    coalesce(a.status, 'open') AS status, coalesce(a.reason_code, {reason_code(1)}) AS reason_code,
    e.settled_before_minor, coalesce(a.allocated_minor, 0) AS matched_amount_minor,
    e.amount_minor - e.settled_before_minor - coalesce(a.allocated_minor, 0) AS open_amount_minor,
    (coalesce(a.status, 'open') IN ('open', 'partially_matched')
     AND coalesce(coalesce(e.due_on, e.expected_to_on) < %(today)s, false)) AS overdue
"""
_JOINED: Final = (
    "expected_transaction e LEFT JOIN allocation a ON a.side = 1 AND a.transaction_id = e.id"
    " LEFT JOIN expected_open o ON o.transaction_id = e.id"
)
_JOINED_OPEN: Final = (
    "expected_open o JOIN expected_transaction e ON e.id = o.transaction_id"
    " LEFT JOIN allocation a ON a.side = 1 AND a.transaction_id = e.id"
)
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

_OPEN_STATUSES: Final = frozenset({"open", "partially_matched"})


def conditions(query: ExpectedTransactionQuery, *, today: date) -> list[Condition]:
    """Return the conditions of the query's filters. Amounts were checked against the currency before."""
    found = equalities(
        query,
        {
            "direction": "e.direction",
            "currency": "e.currency",
            "reference": "e.reference",
            "external_id": "e.external_id",
            "group_key": "e.group_key",
        },
    )
    found += ranges(
        query,
        {
            "created_from": "e.created_at >=",
            "created_to": "e.created_at <=",
            "due_from": "e.due_on >=",
            "due_to": "e.due_on <=",
        },
    )
    found += amount_range(query, "e.amount_minor")
    if query.status is not None:
        found.append(("coalesce(a.status, 'open') = %(status)s", {"status": query.status}))
    if query.overdue is not None:
        late = "(coalesce(a.status, 'open') IN ('open', 'partially_matched')"
        late += " AND coalesce(e.due_on, e.expected_to_on) < %(today)s)"
        found.append((late if query.overdue else f"NOT coalesce({late}, false)", {"today": today}))
    found += texts(
        query,
        counterparty=("e.counterparty_name", "e.counterparty_account"),
        q=("e.reference", "e.description", "e.counterparty_name", "e.external_id", "e.end_to_end_id"),
    )
    return found


def is_open_only(query: ExpectedTransactionQuery) -> bool:
    """Tell whether the query asks for nothing but what is open, so that the narrow set serves it."""
    return query.status in _OPEN_STATUSES or query.overdue is True


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

    async def get(self, transaction_id: UUID, *, today: date) -> dict[str, Any] | None:
        """Return one expected transaction with its state."""
        query = sql.SQL("SELECT {} FROM {} WHERE e.id = %(id)s").format(sql.SQL(COLUMNS), sql.SQL(_JOINED))
        return await fetch_one(self._connection, query, {"id": transaction_id, "today": today})

    async def page(
        self, page: PageRequest, query: ExpectedTransactionQuery, *, today: date
    ) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return a page of what the query asks for."""
        source, id_column = (_JOINED_OPEN, "o.transaction_id") if is_open_only(query) else (_JOINED, "e.id")
        selection = Selection(columns=COLUMNS, source=source, id_column=id_column, parameters={"today": today})
        for condition, parameters in conditions(query, today=today):
            selection.where(condition, **parameters)
        return await select_page(self._connection, selection, page)


@lru_cache(maxsize=64)
def _insert(names: tuple[str, ...], open_names: tuple[str, ...]) -> bytes:
    return paired_insert(_INSERT, (ExpectedTransaction, names), (ExpectedOpen, open_names))
