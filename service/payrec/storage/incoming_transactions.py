"""Incoming transactions: the stated row, the open row with its keys, bulk loading, and lists over all of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from payrec.errors import DuplicateExternalIdError
from payrec.models.incoming_transactions import IncomingTransactionQuery
from payrec.storage.database import Connection
from payrec.storage.filters import Condition, amount_range, created, equalities, frequent, ranges, status_is, texts
from payrec.storage.history import HistoryStore
from payrec.storage.history_relations import at_instant, had_status, is_open
from payrec.storage.listing import BY_CREATION, PageRequest, Selection, SortKey, select_page
from payrec.storage.reasons import reason_code
from payrec.storage.rows import adapt, fetch_all, fetch_one, in_order, paired_insert
from payrec.tables.allocations import RARE_STATUSES
from payrec.tables.incoming_transactions import IncomingOpen, IncomingTransaction

_STATUS: Final = "coalesce(a.status, CASE WHEN i.pending THEN 'pending' ELSE 'unmatched' END)"
_REASON: Final = f"""
    CASE WHEN i.duplicate AND {is_open(2)} THEN 'duplicate' ELSE coalesce(a.reason_code, {reason_code(2, "i.id")}) END
"""
"""What keeps it open: what was found when it came, what was decided about it, or why the last run proposed nothing."""
_VERSION: Final = "i.revision + coalesce(a.version, 1) - 1"
"""Grows with every change of what it says and of what became of it."""
COLUMNS: Final = f"""
    i.id, i.created_at, greatest(a.updated_at, i.updated_at) AS updated_at,
    {_VERSION} AS version, i.external_id,
    (SELECT m.data_source_id FROM import m WHERE m.id = i.import_id) AS data_source_id, i.import_id, i.account,
    i.direction, i.amount_minor, i.currency,
    i.booking_on AS booking_date, i.value_on AS value_date, {_STATUS} AS status, i.remittance, i.structured_reference,
    i.end_to_end_id, i.bank_reference, i.counterparty_name, i.counterparty_account, i.ultimate_counterparty_name,
    i.bank_transaction_code, i.group_key, i.reversal, i.mandate_id, i.instruction_id, i.transaction_id, i.uetr,
    i.purpose_code, i.return_reason,
    i.charges, i.net_minor, i.net_currency, i.original_minor, i.original_currency, i.exchange_rate, i.batch,
    i.metadata, i.late, {_REASON} AS reason_code,
    CASE WHEN a.status = 'ignored' THEN coalesce(a.reason, a.reason_code) END AS ignored_reason,
    CASE WHEN a.status IN ('ignored', 'classified') THEN a.effective_on END AS effective_on,
    a.category, a.posting_code, coalesce(a.allocated_minor, 0) AS matched_amount_minor,
    CASE WHEN a.status IN ('ignored', 'classified') THEN 0
         ELSE coalesce(a.amount_minor - a.allocated_minor, i.amount_minor) END AS open_amount_minor,
    (SELECT jsonb_agg(jsonb_build_object('incoming_transaction_id', r.incoming_id,
         'expected_transaction_id', r.expected_id, 'amount_minor', r.amount_minor) ORDER BY r.ordinal)
     FROM reversal_link r WHERE r.reversal_id = i.id) AS reversal_of"""  # noqa: S608 - our own text
_JOINED: Final = "incoming_transaction i LEFT JOIN allocation a ON a.side = 2 AND a.transaction_id = i.id"
_JOINED_OPEN: Final = (
    "incoming_open o JOIN incoming_transaction i ON i.id = o.transaction_id"
    " LEFT JOIN allocation a ON a.side = 2 AND a.transaction_id = i.id"
)
_TABLES: Final = ("incoming_transaction", "ever", "allocation", "open_reason", "reversal_link")
"""What has a history of what is read of an incoming transaction."""
_AMOUNT: Final = "i.amount_minor"
_BOOKED: Final = "i.booking_on"
_BOOKED_AFTER: Final = "%(after_value)s::date"

SORTS: Final = {
    **BY_CREATION,
    "bookingDate": SortKey(expression=_BOOKED, descending=False, name="booking_date", parameter=_BOOKED_AFTER),
    "-bookingDate": SortKey(expression=_BOOKED, descending=True, name="booking_date", parameter=_BOOKED_AFTER),
    "amountMinor": SortKey(expression=_AMOUNT, descending=False, name="amount_minor"),
    "-amountMinor": SortKey(expression=_AMOUNT, descending=True, name="amount_minor"),
}
"""The orders that the interface names, each with its index."""

_INSERT: Final = """
    WITH stored AS (
        INSERT INTO incoming_transaction ({columns}) VALUES ({values}) ON CONFLICT DO NOTHING RETURNING id
    )
"""
_OPEN: Final = "INSERT INTO incoming_open ({open_columns}) SELECT {open_values} FROM stored"
_IGNORE: Final = """
    INSERT INTO allocation (side, transaction_id, amount_minor, status, reason_code, version, updated_at, change_id)
    SELECT 2, id, 0, 'ignored', 'zero_amount', 1, %(created_at)s, %(change_id)s FROM stored
"""


def conditions(query: IncomingTransactionQuery) -> list[Condition]:
    """Return the conditions of the query's filters. Amounts were checked against the currency before."""
    found = equalities(
        query,
        {
            "direction": "i.direction",
            "currency": "i.currency",
            "import_id": "i.import_id",
            "account": "i.account",
            "external_id": "i.external_id",
            "end_to_end_id": "i.end_to_end_id",
            "group_key": "i.group_key",
        },
    )
    found += ranges(
        query,
        {
            "booking_from": "i.booking_on >=",
            "booking_to": "i.booking_on <=",
            "cut_off": "i.booking_on <=",
            "value_from": "i.value_on >=",
            "value_to": "i.value_on <=",
        },
    )
    found += created(query, "i")
    found += amount_range(query, "i.amount_minor")
    if query.data_source_id is not None:
        condition = "i.import_id IN (SELECT id FROM import WHERE data_source_id = %(data_source_id)s)"
        found.append((condition, {"data_source_id": query.data_source_id}))
    if query.status is not None:
        if query.status == "pending":
            found.append(("i.pending", {}))
        found.append(status_is(query.status, _STATUS, ("pending", "unmatched")))
    if query.reason_code is not None:
        found.append((frequent(f"{_REASON} = %(reason_code)s"), {"reason_code": query.reason_code}))
    if query.late is not None:
        found.append(("i.late" if query.late else "NOT i.late", {}))
    found += texts(
        query,
        counterparty=("i.counterparty_name", "i.counterparty_account", "i.ultimate_counterparty_name"),
        q=(
            "i.remittance",
            "i.counterparty_name",
            "i.ultimate_counterparty_name",
            "i.end_to_end_id",
            "i.bank_reference",
            "i.external_id",
        ),
    )
    return found


class IncomingTransactionStore:
    """``incoming_transaction`` and ``incoming_open``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add(self, row: dict[str, Any], open_row: dict[str, Any]) -> None:
        """Store one incoming transaction, which is to be flagged late afterwards; an amount of 0 is stored ``ignored``.

        Raises
        ------
        DuplicateExternalIdError
            With ``existingId``.
        """
        values = {**adapt(IncomingTransaction, row), **{f"o_{k}": v for k, v in open_row.items()}}
        opens = row["amount_minor"] > 0
        cursor = await self._connection.execute(_insert(tuple(row), tuple(open_row), opens=opens), values)
        if cursor.rowcount == 0:
            found = await fetch_one(
                self._connection,
                "SELECT id FROM incoming_transaction WHERE external_id = %s OR identity = %s",
                (row["external_id"], row["identity"]),
            )
            raise DuplicateExternalIdError(existingId=str(found["id"]) if found else None)

    async def get(self, transaction_id: UUID, *, as_of: datetime | None = None) -> dict[str, Any] | None:
        """Return one incoming transaction with its state, now or as of an instant.

        Raises
        ------
        AsOfOutOfRangeError
        """
        await HistoryStore(self._connection).check(as_of)
        begin = at_instant(*_TABLES) if as_of is not None else ""
        query = f"{begin}SELECT {COLUMNS} FROM {_JOINED} WHERE i.id = %(id)s"  # noqa: S608 - our own text
        return await fetch_one(self._connection, query, {"id": transaction_id, "as_of": as_of})

    async def many(self, ids: Sequence[UUID]) -> list[dict[str, Any]]:
        """Return those of the incoming transactions that are stored, with their states, in the order of the ids."""
        query = f"SELECT {COLUMNS} FROM {_JOINED} WHERE i.id = ANY(%(ids)s)"  # noqa: S608 - our own text
        return in_order(await fetch_all(self._connection, query, {"ids": list(ids)}), ids)

    async def page(self, page: PageRequest, query: IncomingTransactionQuery) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return a page of what the query asks for."""
        # Of what was open then there is no narrow set; what is pending or matched in part has an index of its own.
        open_only = query.status == "unmatched" and query.as_of is None
        source, id_column = (_JOINED_OPEN, "o.transaction_id") if open_only else (_JOINED, "i.id")
        selection = Selection(columns=COLUMNS, source=source, id_column=id_column)
        selection.at(query.as_of, *_TABLES)
        if query.as_of is not None and query.status in RARE_STATUSES:
            selection.where(had_status(query.status, 2, "i.id"))
        for condition, parameters in conditions(query):
            selection.where(condition, **parameters)
        return await select_page(self._connection, selection, page)


@lru_cache(maxsize=64)
def _insert(names: tuple[str, ...], open_names: tuple[str, ...], *, opens: bool) -> bytes:
    template = _INSERT + (_OPEN if opens else _IGNORE)
    return paired_insert(template, (IncomingTransaction, names), (IncomingOpen, open_names))
