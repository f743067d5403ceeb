"""Remittance advices: stored once, read with their lines, and by a run as far as a payment may be one of theirs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from payrec.constants.remittance import ADVICE_LINES_READ_MAX
from payrec.models.remittance_advices import RemittanceAdviceQuery
from payrec.storage.database import Connection
from payrec.storage.filters import created, equalities
from payrec.storage.history import later
from payrec.storage.listing import PageRequest, Selection, select_page
from payrec.storage.loading import copy_rows
from payrec.storage.rows import columns_of, copy_out, fetch_all, fetch_one, insert
from payrec.tables.remittance_advices import RemittanceAdvice, RemittanceAdviceLine

# Nothing is changed of what somebody else has said, so its version is the first one.
_COLUMNS: Final = f"{columns_of(RemittanceAdvice, 'r')}, r.created_at AS updated_at, 1 AS version"
_GET: Final = f"SELECT {_COLUMNS} FROM remittance_advice r WHERE r.id = %s"  # noqa: S608 - our own text
_LINES: Final = f"""
    SELECT {columns_of(RemittanceAdviceLine)} FROM remittance_advice_line WHERE advice_id = %s ORDER BY ordinal
"""  # noqa: S608 - our own text
OPEN_COLUMNS: Final = (
    "advice",
    "currency",
    "total_minor",
    "payment_key",
    "name_key",
    "reference_key",
    "amount_minor",
    "deduction_minor",
)
"""Columns of what a run reads, in the order of the query."""

_LISTED: Final = """
    SELECT a.number AS advice, a.currency, a.total_minor, a.payment_key, a.name_key, l.reference_key, l.amount_minor,
        l.deduction_minor
    FROM (
        SELECT r.*, row_number() OVER newest AS number, sum(r.line_count) OVER newest AS lines_so_far
        FROM remittance_advice r WHERE {condition} WINDOW newest AS (ORDER BY r.id DESC)
    ) a JOIN remittance_advice_line l ON l.advice_id = a.id
    WHERE a.lines_so_far <= %(lines_max)s
"""
# Of an advice whose payment is not there yet, or has been matched, there is nothing to be read.
_OPEN: Final = "EXISTS (SELECT FROM incoming_open o WHERE o.open_minor = r.total_minor AND o.currency = r.currency)"
_KNOWN: Final = f"""
    EXISTS (
        SELECT FROM unnest(%(totals)s::bigint[], %(currencies)s::text[]) AS t (minor, currency)
        WHERE t.minor = r.total_minor AND t.currency = r.currency
    ) AND NOT {later("r.change_id")}
"""
_READ_OPEN: Final = f"COPY ({_LISTED.format(condition=_OPEN)}) TO STDOUT (FORMAT CSV)"
_READ_KNOWN: Final = _LISTED.format(condition=_KNOWN)


class RemittanceAdviceStore:
    """``remittance_advice`` and ``remittance_advice_line``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add(self, row: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> None:
        """Store an advice with its lines, all of which have the same columns."""
        await insert(self._connection, RemittanceAdvice, row)
        await copy_rows(self._connection, str(RemittanceAdviceLine.__tablename__), lines)

    async def get(self, advice_id: UUID) -> dict[str, Any] | None:
        """Return an advice without its lines."""
        return await fetch_one(self._connection, _GET, (advice_id,))

    async def lines(self, advice_id: UUID) -> list[dict[str, Any]]:
        """Return the lines of an advice in their order."""
        return await fetch_all(self._connection, _LINES, (advice_id,))

    async def page(self, page: PageRequest, query: RemittanceAdviceQuery) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return a page of advices without their lines."""
        selection = Selection(columns=_COLUMNS, source="remittance_advice r", id_column="r.id")
        named = {"currency": "r.currency", "payment_reference": "r.payment_reference"}
        for condition, parameters in equalities(query, named) + created(query, "r"):
            selection.where(condition, **parameters)
        return await select_page(self._connection, selection, page)

    async def read_open(self) -> bytes:
        """Return the lines of the advices of whose amount a payment is open, in OPEN_COLUMNS as CSV without header.

        At most ADVICE_LINES_READ_MAX, of the newest.
        """
        return await copy_out(self._connection, _READ_OPEN, {"lines_max": ADVICE_LINES_READ_MAX})

    async def known(self, totals: Collection[tuple[int, str]], *, as_of: datetime) -> list[dict[str, Any]]:
        """Return the lines of the advices of these amounts and currencies that were known then, the same."""
        parameters = {
            "totals": [minor for minor, _ in totals],
            "currencies": [currency for _, currency in totals],
            "as_of": as_of,
            "lines_max": ADVICE_LINES_READ_MAX,
        }
        return await fetch_all(self._connection, _READ_KNOWN, parameters)
