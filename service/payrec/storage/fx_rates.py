"""Exchange rates: stored as sets, read as lists by people and whole by matching runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

from payrec.models.fx_rates import FxRateQuery
from payrec.storage.database import Connection
from payrec.storage.filters import equalities, ranges
from payrec.storage.history import later
from payrec.storage.listing import BY_CREATION, PageRequest, Selection, SortKey, select_page
from payrec.storage.rows import copy_out, fetch_all

RATE_COLUMNS: Final = ["day", "base", "quote", "mantissa", "places"]
"""Columns of the rates that a run reads, in the order of the CSV."""

_COLUMNS: Final = "id, created_at, updated_at, version, rated_on AS date, base, quote, mantissa, places"
_DAY_AFTER: Final = "%(after_value)s::date"

SORTS: Final = {
    **BY_CREATION,
    "date": SortKey(expression="rated_on", descending=False, name="date", parameter=_DAY_AFTER),
    "-date": SortKey(expression="rated_on", descending=True, name="date", parameter=_DAY_AFTER),
}
"""The orders that the interface names, each with its index."""

_PUT: Final = """
    WITH given AS (
        SELECT * FROM unnest(%(ids)s::uuid[], %(days)s::date[], %(bases)s::text[], %(quotes)s::text[],
            %(mantissas)s::bigint[], %(places)s::smallint[]) AS g (id, rated_on, base, quote, mantissa, places)
    ), before AS (
        SELECT r.id, r.change_id, r.mantissa, r.places, r.version
        FROM fx_rate r JOIN given g USING (base, quote, rated_on)
    ), stored AS (
        INSERT INTO fx_rate AS r (
            id, change_id, mantissa, created_at, updated_at, rated_on, places, base, quote, set_by
        )
        SELECT id, %(change_id)s, mantissa, %(at)s, %(at)s, rated_on, places, base, quote, %(set_by)s::text[]
        FROM given ORDER BY base, quote, rated_on
        ON CONFLICT (base, quote, rated_on) DO UPDATE SET mantissa = EXCLUDED.mantissa, places = EXCLUDED.places,
            change_id = CASE WHEN {changes} THEN EXCLUDED.change_id ELSE r.change_id END,
            set_by = CASE WHEN {changes} THEN EXCLUDED.set_by ELSE r.set_by END,
            updated_at = CASE WHEN {changes} THEN EXCLUDED.updated_at ELSE r.updated_at END,
            version = r.version + ({changes})::integer
        RETURNING r.id, r.rated_on, r.base, r.quote, r.version, r.mantissa, r.places,
            r.change_id = %(change_id)s AS changed
    ), kept AS (
        INSERT INTO fx_rate_state (rate_id, change_id, mantissa, version, places)
        SELECT b.id, b.change_id, b.mantissa, b.version, b.places
        FROM before b JOIN stored s ON s.id = b.id AND s.version > b.version ON CONFLICT DO NOTHING
    ), logged AS (
        INSERT INTO fx_rate_state (rate_id, change_id, mantissa, version, places)
        SELECT id, %(change_id)s, mantissa, version, places FROM stored WHERE changed AND version > 1
    )
    SELECT s.rated_on AS date, s.base, s.quote, s.id, s.changed, s.changed AND s.version = 1 AS is_new,
        b.mantissa AS mantissa_before, b.places AS places_before
    FROM stored s LEFT JOIN before b ON b.id = s.id
""".replace("{changes}", "(r.mantissa, r.places) <> (EXCLUDED.mantissa, EXCLUDED.places)")
# Of other days no open line can be compared. Who has no rates does not look for the days.
_READ: Final = """
    COPY (
        WITH days AS MATERIALIZED (
            SELECT DATE '1970-01-01' + min(booking_day) - {days} AS first,
                DATE '1970-01-01' + max(booking_day) + {days} AS last
            FROM incoming_open WHERE EXISTS (SELECT 1 FROM fx_rate)
        )
        SELECT r.rated_on - DATE '1970-01-01', r.base, r.quote, r.mantissa, r.places
        FROM days JOIN fx_rate r ON r.rated_on BETWEEN days.first AND days.last
    ) TO STDOUT (FORMAT CSV)
"""
_READ_NEAR: Final = """
    COPY (
        SELECT rated_on - DATE '1970-01-01', base, quote, mantissa, places FROM fx_rate
        WHERE rated_on BETWEEN DATE '1970-01-01' + %(first)s::integer AND DATE '1970-01-01' + %(last)s::integer
    ) TO STDOUT (FORMAT CSV)
"""
_AT: Final = f"""
    SELECT r.rated_on - DATE '1970-01-01' AS day, r.base, r.quote, k.mantissa, k.places
    FROM fx_rate r CROSS JOIN LATERAL (
        SELECT r.mantissa, r.places, r.version WHERE NOT {later("r.change_id")}
        UNION ALL
        SELECT s.mantissa, s.places, s.version FROM fx_rate_state s
        WHERE s.rate_id = r.id AND NOT {later("s.change_id")}
        ORDER BY version DESC LIMIT 1
    ) k
    WHERE r.rated_on BETWEEN %(first)s AND %(last)s
"""  # noqa: S608 - our own text


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePut:
    """One rate to store, with the id that it gets where there is none of its day and currencies yet."""

    id: UUID
    rated_on: date
    base: str
    quote: str
    mantissa: int
    places: int


class FxRateStore:
    """``fx_rate`` of one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def put(
        self, rates: Sequence[RatePut], *, change_id: UUID, at: datetime, set_by: Iterable[str]
    ) -> list[dict[str, Any]]:
        """Store rates, each day, base and quote once, in one order for everybody so that nobody waits in a circle.

        Return for each ``date, base, quote, id, changed, is_new`` and ``mantissa_before, places_before`` of what it
        replaces.
        """
        parameters = {
            "ids": [r.id for r in rates],
            "days": [r.rated_on for r in rates],
            "bases": [r.base for r in rates],
            "quotes": [r.quote for r in rates],
            "mantissas": [r.mantissa for r in rates],
            "places": [r.places for r in rates],
            "change_id": change_id,
            "at": at,
            "set_by": sorted(set_by),
        }
        return await fetch_all(self._connection, _PUT, parameters)

    async def between(self, base: str, first: date, last: date) -> dict[tuple[date, str], tuple[int, int]]:
        """Return mantissa and places of a base's rates, by day and quote."""
        query = """
            SELECT rated_on, quote, mantissa, places FROM fx_rate
            WHERE base = %s AND rated_on BETWEEN %s AND %s
        """
        rows = await fetch_all(self._connection, query, (base, first, last))
        return {(row["rated_on"], row["quote"]): (row["mantissa"], row["places"]) for row in rows}

    async def among(
        self, currencies: Iterable[str], first: date, last: date, *, but_of: Iterable[str] = ()
    ) -> list[tuple[int, str, str, int, int]]:
        """Return the rates between these currencies of these days, as the values of RATE_COLUMNS.

        Without those that one of some actors has set last. Of a rate from before they were kept its change knows who.
        """
        query = """
            SELECT rated_on - DATE '1970-01-01' AS day, base, quote, mantissa, places FROM fx_rate r
            WHERE base = ANY(%(names)s) AND quote = ANY(%(names)s) AND rated_on BETWEEN %(first)s AND %(last)s
                AND NOT %(but_of)s::text[] && coalesce(
                    r.set_by, ARRAY(SELECT a.actor FROM audit_record a WHERE a.change_id = r.change_id)
                )
        """
        parameters = {"names": list(currencies), "first": first, "last": last, "but_of": list(but_of)}
        rows = await fetch_all(self._connection, query, parameters)
        return [(row["day"], row["base"], row["quote"], row["mantissa"], row["places"]) for row in rows]

    async def at(self, *, first: date, last: date, as_of: datetime) -> list[dict[str, Any]]:
        """Return the rates of these days as they were known at an instant, as RATE_COLUMNS."""
        return await fetch_all(self._connection, _AT, {"first": first, "last": last, "as_of": as_of})

    async def page(self, page: PageRequest, query: FxRateQuery) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return a page of rates."""
        selection = Selection(columns=_COLUMNS, source="fx_rate", id_column="id")
        found = equalities(query, {"base": "base", "quote": "quote"})
        found += ranges(
            query,
            {
                "date_from": "rated_on >=",
                "date_to": "rated_on <=",
                "created_from": "created_at >=",
                "created_to": "created_at <=",
            },
        )
        for condition, parameters in found:
            selection.where(condition, **parameters)
        return await select_page(self._connection, selection, page)

    async def read(self, *, days: int) -> bytes:
        """Return the rates within ``days`` of the open lines as CSV without header, in the order of RATE_COLUMNS."""
        return await copy_out(self._connection, _READ.format(days=days))

    async def read_near(self, first: int, last: int) -> bytes:
        """Return the rates of the days from one to another, counted from 1970-01-01, as ``read`` does."""
        return await copy_out(self._connection, _READ_NEAR, {"first": first, "last": last})
