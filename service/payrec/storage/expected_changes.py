"""Changes of what is expected: held, changed in place with its open row, or not expected any more."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

from payrec.storage.allocations import Side, hold_decisions
from payrec.storage.database import Connection
from payrec.storage.history import allocations_logged, keep_stated
from payrec.storage.reasons import end_reasons
from payrec.storage.rows import adapt, column_names, fetch_one
from payrec.tables.expected_transactions import ExpectedOpen, ExpectedTransaction

# Who takes an amount of an untouched item waits here as well, because both insert the same row. It says what is true
# without it, so that it may stay when nothing comes of this.
_HOLD: Final = """
    INSERT INTO allocation AS a (side, transaction_id, amount_minor, status, version, updated_at, change_id)
    SELECT 1, id, amount_minor - settled_before_minor, 'open', 1, created_at, change_id
    FROM expected_transaction WHERE id = %s
    ON CONFLICT (transaction_id, side) DO UPDATE SET version = a.version
    RETURNING a.status, a.allocated_minor
"""
_HOLD_OPEN: Final = "SELECT 1 FROM expected_open WHERE transaction_id = %s FOR UPDATE"
_STATED: Final = "SELECT * FROM expected_transaction WHERE id = %s"
# Nothing may be allocated of it any more, and the constraint says so to whoever has not seen it.
_VOID: Final = allocations_logged(
    """
    UPDATE allocation a SET status = 'void', amount_minor = 0, reason = %(reason)s, reason_code = NULL,
        version = a.version + 1, updated_at = %(at)s, change_id = %(change_id)s
    WHERE a.side = 1 AND a.transaction_id = %(id)s
    """,
    of="a.side = 1 AND a.transaction_id = %(id)s",
)
_CLOSE: Final = "DELETE FROM expected_open WHERE transaction_id = %s"
_CHANGE: Final = """
    UPDATE expected_transaction SET {assignments}, revision = revision + %(_step)s, updated_at = %(_at)s
    WHERE id = %(_id)s RETURNING *
"""
_COUNT: Final = allocations_logged(
    """
    UPDATE allocation a SET amount_minor = %(amount_minor)s, version = a.version + 1, updated_at = %(at)s,
        change_id = %(change_id)s
    WHERE a.side = 1 AND a.transaction_id = %(id)s
    """,
    of="a.side = 1 AND a.transaction_id = %(id)s",
)
_REOPEN: Final = "UPDATE expected_open SET {assignments} WHERE transaction_id = %(transaction_id)s"
_FORGET_NOTICE: Final = """
    DELETE FROM overdue_notice n USING expected_transaction e
    WHERE n.transaction_id = %(id)s AND e.id = n.transaction_id
        AND NOT coalesce(coalesce(e.due_on, e.expected_to_on) < %(today)s, false)
"""


class ExpectedChangeStore:
    """One expected transaction with its allocation and its open row, in the order in which everybody locks them."""

    def __init__(self, connection: Connection, *, change_id: UUID, at: datetime) -> None:
        self._connection = connection
        self._change_id = change_id
        self._at = at

    async def hold(self, transaction_id: UUID) -> dict[str, Any] | None:
        """Keep everybody from changing an item, or taking of it, until the transaction ends; None if there is none.

        Returns what it states, its ``status`` and ``allocated_minor``.
        """
        await hold_decisions(self._connection, alone=False)
        held = await fetch_one(self._connection, _HOLD, (transaction_id,))
        if held is None:
            return None
        await self._connection.execute(_HOLD_OPEN, (transaction_id,))
        return {**(await fetch_one(self._connection, _STATED, (transaction_id,)) or {}), **held}

    async def void(self, transaction_id: UUID, *, reason: str) -> None:
        """Say of an item that is held and of which nothing is matched that it is not expected any more."""
        parameters = {"id": transaction_id, "reason": reason, "at": self._at, "change_id": self._change_id}
        await self._connection.execute(f"{_VOID} SELECT 1".encode(), parameters)
        await self._connection.execute(_CLOSE, (transaction_id,))
        await end_reasons(self._connection, [transaction_id], [int(Side.EXPECTED)], change_id=self._change_id)

    async def change(self, transaction_id: UUID, columns: Mapping[str, Any], *, is_matched_on: bool) -> dict[str, Any]:
        """Change columns of an item that is held; return all of them.

        ``is_matched_on`` says that a proposal which was made before must not be accepted any more.

        Raises
        ------
        DuplicateExternalIdError
        """
        await keep_stated(self._connection, Side.EXPECTED, [transaction_id], change_id=self._change_id)
        if not set(column_names(ExpectedTransaction)).issuperset(columns):
            raise AssertionError("a column that the table does not have")
        query = _CHANGE.format(assignments=_assignments(columns))
        more = {"_step": int(is_matched_on), "_at": self._at, "_id": transaction_id}
        row = await fetch_one(self._connection, query, {**adapt(ExpectedTransaction, columns), **more})
        if row is None:
            raise AssertionError("an item that is held is there")
        if not is_matched_on or "amount_minor" in columns:
            # The shown version counts both: what the item states, and what became of it.
            amount = row["amount_minor"] - row["settled_before_minor"]
            parameters = {"id": transaction_id, "amount_minor": amount, "at": self._at, "change_id": self._change_id}
            await self._connection.execute(f"{_COUNT} SELECT 1".encode(), parameters)
        return row

    async def replace_open(self, row: Mapping[str, Any], *, is_matched_on: bool) -> None:
        """Put a row of ``expected_open`` in the place of the item's; where nothing is open there stays none."""
        columns = {name: value for name, value in row.items() if name != "transaction_id"}
        query = _REOPEN.format(assignments=_assignments(columns))
        await self._connection.execute(query.encode(), adapt(ExpectedOpen, row))
        if is_matched_on:
            ids = [row["transaction_id"]]
            await end_reasons(self._connection, ids, [int(Side.EXPECTED)], change_id=self._change_id)

    async def forget_notice(self, transaction_id: UUID, *, today: date) -> None:
        """Have it told again when the item becomes overdue, unless it still is."""
        await self._connection.execute(_FORGET_NOTICE, {"id": transaction_id, "today": today})


def _assignments(columns: Mapping[str, Any]) -> str:
    return ", ".join(f'"{name}" = %({name})s' for name in columns)
