"""Matches and their legs, one by one; a run writes them as sets in ``payrec.storage.match_runs``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from payrec.models.matches import MatchQuery
from payrec.storage.database import Connection
from payrec.storage.filters import Condition, created, equalities, frequent
from payrec.storage.history import HistoryStore
from payrec.storage.history_relations import at_instant
from payrec.storage.listing import PageRequest, Selection, select_page
from payrec.storage.made_for import add_made_for
from payrec.storage.match_parts import PARTS
from payrec.storage.rows import columns_of, fetch_all, fetch_one
from payrec.tables.matches import Match

_CALIBRATION: Final = """
    (SELECT c.{column} FROM calibration c WHERE c.version = nullif(split_part(m.created_by, '+', 2), '')::bigint)
    AS {column}
"""
"""What the calibration that a match was made with has added to the weights, and the score that it has certified."""

_CALIBRATED: Final = ", ".join(_CALIBRATION.format(column=column) for column in ("corrections", "threshold_milli"))
_IMPORTED: Final = """
    CASE WHEN m.created_by = 'import' THEN (
        SELECT jsonb_build_object('import_id', p.import_id, 'imported_by', p.imported_by, 'reviewed', p.reviewed)
        FROM imported_match p WHERE p.match_id = m.id
    ) END AS imported
"""
_COLUMNS: Final = f"{columns_of(Match, 'm')}, {_CALIBRATED}, {_IMPORTED}"
# A leg has two ends, called by what they nearly always are. Where both are of one side, the contra transaction is at
# the end of the other side: it has the amount that the other would have.
_ENDS: Final = """
           l.expected_contra, l.incoming_contra,
           coalesce(e.amount_minor - e.settled_before_minor, ci.amount_minor) AS expected_minor,
           coalesce(e.currency, ci.currency) AS expected_currency,
           coalesce(e.revision, ci.revision) AS expected_revision_now,
           coalesce(e.due_on, ci.booking_on) AS due_on, e.expected_from_on, e.expected_to_on,
           coalesce(e.reference, ci.structured_reference) AS reference,
           coalesce(e.end_to_end_id, ci.end_to_end_id) AS expected_end_to_end_id,
           coalesce(e.counterparty_name, ci.counterparty_name) AS expected_name,
           coalesce(e.counterparty_account, ci.counterparty_account) AS expected_account,
           coalesce(e.account, ci.account) AS expected_own_account,
           coalesce(e.external_id, ci.external_id) AS external_id,
           coalesce(e.group_key, ci.group_key) AS expected_group_key,
           coalesce(ea.status, 'open') AS expected_status, coalesce(ea.allocated_minor, 0) AS expected_allocated_minor,
           coalesce(ea.amount_minor - ea.allocated_minor, e.amount_minor - e.settled_before_minor, ci.amount_minor)
               AS expected_left_minor,
           coalesce(i.amount_minor, ce.amount_minor - ce.settled_before_minor) AS incoming_minor,
           coalesce(i.currency, ce.currency) AS incoming_currency,
           coalesce(i.revision, ce.revision) AS incoming_revision_now,
           coalesce(i.booking_on, ce.due_on) AS booking_on, i.remittance,
           coalesce(i.structured_reference, ce.reference) AS structured_reference,
           coalesce(i.end_to_end_id, ce.end_to_end_id) AS incoming_end_to_end_id,
           coalesce(i.counterparty_name, ce.counterparty_name) AS incoming_name,
           i.ultimate_counterparty_name AS incoming_ultimate_name,
           coalesce(i.counterparty_account, ce.counterparty_account) AS incoming_account,
           coalesce(i.account, ce.account) AS incoming_own_account,
           coalesce(i.group_key, ce.group_key) AS incoming_group_key,
           coalesce(i.pending, false) OR coalesce(ci.pending, false) AS pending,
           coalesce(ia.status, 'unmatched') AS incoming_status,
           coalesce(ia.allocated_minor, 0) AS incoming_allocated_minor,
           coalesce(ia.amount_minor - ia.allocated_minor, i.amount_minor, ce.amount_minor - ce.settled_before_minor)
               AS incoming_left_minor
"""
_OF_ENDS: Final = """
    LEFT JOIN expected_transaction e ON e.id = l.expected_id AND NOT l.expected_contra
    LEFT JOIN incoming_transaction ci ON ci.id = l.expected_id AND l.expected_contra
    LEFT JOIN incoming_transaction i ON i.id = l.incoming_id AND NOT l.incoming_contra
    LEFT JOIN expected_transaction ce ON ce.id = l.incoming_id AND l.incoming_contra
    LEFT JOIN allocation ea ON ea.transaction_id = l.expected_id AND ea.side = 1 + l.expected_contra::int
    LEFT JOIN allocation ia ON ia.transaction_id = l.incoming_id AND ia.side = 2 - l.incoming_contra::int
"""
_LEGS: Final = f"""
    SELECT l.match_id, l.ordinal, l.expected_id, l.incoming_id, l.amount_minor, l.settled_minor, l.settled_currency,
           l.expected_revision, l.incoming_revision, l.counts, {_ENDS}
    FROM (
        SELECT match_id, ordinal, amount_minor, settled_minor, settled_currency,
            coalesce(expected_id, contra_incoming_id) AS expected_id, expected_id IS NULL AS expected_contra,
            CASE WHEN expected_id IS NULL THEN contra_revision ELSE expected_revision END AS expected_revision,
            coalesce(incoming_id, contra_expected_id) AS incoming_id, incoming_id IS NULL AS incoming_contra,
            CASE WHEN incoming_id IS NULL THEN contra_revision ELSE incoming_revision END AS incoming_revision,
            valid_from IS NOT NULL AND valid_to IS NULL AS counts
        FROM leg WHERE match_id = ANY(%(match_ids)s)
    ) l {_OF_ENDS} ORDER BY l.match_id, l.ordinal
"""  # noqa: S608 - our own text
_OF_LEGS: Final = ("expected_transaction", "incoming_transaction", "allocation")
"""What has a history of what the legs join."""
_PAIRS: Final = f"""
    SELECT l.expected_id, l.incoming_id, {_ENDS}
    FROM (
        SELECT *, false AS expected_contra, false AS incoming_contra
        FROM unnest(%s::uuid[], %s::uuid[]) WITH ORDINALITY u (expected_id, incoming_id, place)
    ) l {_OF_ENDS} ORDER BY l.place
"""  # noqa: S608 - our own text
# A return releases what a match settled; what it takes of an open amount is as little left as what is matched.
_STANDING: Final = f"""
    WITH {PARTS.format(which="valid_from IS NOT NULL AND valid_to IS NULL")}, returned AS (
        SELECT 1 AS side, r.expected_id AS id, r.settled_minor AS minor FROM reversal_link r
        JOIN match m ON m.id = r.match_id AND m.status IN ('accepted', 'pending_approval')
        WHERE r.expected_id = ANY(%(expected)s)
        UNION ALL
        SELECT 2, r.incoming_id, r.amount_minor FROM reversal_link r
        JOIN match m ON m.id = r.match_id AND m.status IN ('accepted', 'pending_approval')
        WHERE r.incoming_id = ANY(%(incoming)s)
    )
    SELECT p.side, p.id, sum(p.minor)::bigint - coalesce((
            SELECT sum(r.minor) FROM returned r WHERE r.side = p.side AND r.id = p.id
        ), 0)::bigint AS minor,
        coalesce(sum(p.minor) FILTER (WHERE p.match_id = %(id)s), 0)::bigint AS own_minor
    FROM parts p GROUP BY p.side, p.id
"""  # noqa: S608 - our own text
_NAMED_ITEMS: Final = """
    SELECT o.transaction_id AS id, o.open_minor * o.direction * c.direction AS open_minor, e.created_at
    FROM incoming_open c
    JOIN expected_open o ON o.currency = c.currency AND (o.direction = c.direction OR %(less)s)
    JOIN expected_transaction e ON e.id = o.transaction_id
    WHERE c.transaction_id = %(centre)s AND (CASE WHEN %(by_key)s
        THEN (o.group_key = c.group_key OR o.group_key = ANY(c.reference_keys)) AND o.group_key & 1 = 1
        ELSE (o.reference_key = ANY(c.reference_keys || c.end_to_end_key) AND o.reference_key & 1 = 1)
            OR (o.end_to_end_key = ANY(c.reference_keys || c.end_to_end_key) AND o.end_to_end_key & 1 = 1)
            OR (%(short)s AND (o.account_key = c.account_key OR o.name_key IN (c.name_key, c.ultimate_name_key)
                    OR EXISTS (
                        SELECT FROM expected_open q WHERE q.reference_key = ANY(c.reference_keys)
                            AND q.reference_key & 1 = 1 AND (o.account_key = q.account_key OR o.name_key = q.name_key)
                    ))
                AND (o.reference_key = ANY(c.reference_keys || c.end_to_end_key)
                    OR o.end_to_end_key = ANY(c.reference_keys || c.end_to_end_key)
                    OR o.reference_digits = ANY(c.series_digits)))
    END) LIMIT %(limit)s
"""
_NAMED_LINES: Final = """
    SELECT o.transaction_id AS id, o.open_minor, i.created_at
    FROM expected_open c
    JOIN incoming_open o ON o.currency = c.currency AND o.direction = c.direction
    JOIN incoming_transaction i ON i.id = o.transaction_id
    WHERE c.transaction_id = %(centre)s AND NOT o.reversal AND NOT o.duplicate AND (
        (c.reference_key = ANY(o.reference_keys || o.end_to_end_key) AND c.reference_key & 1 = 1)
        OR (c.end_to_end_key = ANY(o.reference_keys || o.end_to_end_key) AND c.end_to_end_key & 1 = 1)
    ) LIMIT %(limit)s
"""


def conditions(query: MatchQuery) -> list[Condition]:
    """Return the conditions of the query's filters."""
    found = equalities(
        query, {"status": "m.status", "kind": "m.kind", "confidence": "m.confidence", "run_id": "m.run_id"}
    )
    found += created(query, "m")
    if query.cut_off is not None:
        found.append((frequent("m.effective_on <= %(cut_off)s"), {"cut_off": query.cut_off}))
    if query.confidence is not None:
        # What is withheld cannot be asked for either, and what a person has stated has none.
        found.append(("NOT (m.sampled AND m.status = 'proposed') AND m.levels IS NOT NULL", {}))
    for name, column in (("expected_transaction_id", "expected_id"), ("incoming_transaction_id", "incoming_id")):
        value = getattr(query, name)
        if value is not None:
            legs = [f"SELECT match_id FROM leg WHERE {end} = %({name})s" for end in (column, f"contra_{column}")]  # noqa: S608 - our own text
            found.append((f"m.id IN ({' UNION ALL '.join(legs)})", {name: value}))
    return found


class MatchStore:
    """``match`` and ``leg``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def get(self, match_id: UUID, *, as_of: datetime | None = None) -> dict[str, Any] | None:
        """Return a match with its legs and what they join, now or as of an instant.

        Raises
        ------
        AsOfOutOfRangeError
        """
        await HistoryStore(self._connection).check(as_of)
        begin = at_instant("match") if as_of is not None else ""
        query = f"{begin}SELECT {_COLUMNS} FROM match m WHERE m.id = %(id)s"  # noqa: S608 - our own text
        row = await fetch_one(self._connection, query, {"id": match_id, "as_of": as_of})
        if row is None:
            return None
        row["legs"] = await self.legs([match_id], as_of=as_of)
        await add_made_for(self._connection, row["legs"])
        return row

    async def page(self, page: PageRequest, query: MatchQuery) -> tuple[list[dict[str, Any]], bool]:
        """Return a page of matches with their legs."""
        selection = Selection(columns=_COLUMNS, source="match m", id_column="m.id")
        selection.at(query.as_of, "match", in_arms=query.status is not None)
        for condition, parameters in conditions(query):
            selection.where(condition, **parameters)
        rows, more = await select_page(self._connection, selection, page)
        legs: dict[UUID, list[dict[str, Any]]] = {row["id"]: [] for row in rows}
        found = await self.legs(list(legs), as_of=query.as_of)
        await add_made_for(self._connection, found)
        for leg in found:
            legs[leg["match_id"]].append(leg)
        return [{**row, "legs": legs[row["id"]]} for row in rows], more

    async def legs(self, match_ids: Sequence[UUID], *, as_of: datetime | None = None) -> list[dict[str, Any]]:
        """Return the legs of matches, each with both of its transactions and their state, now or as of an instant."""
        begin = at_instant(*_OF_LEGS) if as_of is not None else ""
        return await fetch_all(self._connection, begin + _LEGS, {"match_ids": list(match_ids), "as_of": as_of})

    async def pairs(self, expected: Sequence[UUID], incoming: Sequence[UUID]) -> list[dict[str, Any]]:
        """Return what ``legs`` tells of both of its transactions, of pairs that no match joins, in the order given."""
        return await fetch_all(self._connection, _PAIRS, (list(expected), list(incoming)))

    async def standing(
        self, match_id: UUID, *, expected: Sequence[UUID], incoming: Sequence[UUID]
    ) -> list[dict[str, Any]]:
        """Return what counts of transactions, adjustments included: ``side`` (1 or 2) and ``id``.

        ``minor`` is that of all matches less what was returned, ``own_minor`` that of this one.
        """
        parameters = {"id": match_id, "expected": list(expected), "incoming": list(incoming)}
        return await fetch_all(self._connection, _STANDING, parameters)

    async def named_items(
        self, line_id: UUID, *, by_key: bool, short: bool = False, less: bool = False, limit: int
    ) -> list[dict[str, Any]]:
        """Return the open items that an open line names: ``by_key`` those of its group id, else what it quotes in full.

        With ``short`` also what it quotes by what proves nothing by itself, of its own counterparty or of that of what
        it quotes in full; with ``less`` also the credit notes, of which what is open is negative. As ``id, open_minor,
        created_at``, at most ``limit``.
        """
        parameters = {"centre": line_id, "by_key": by_key, "short": short, "less": less, "limit": limit}
        return await fetch_all(self._connection, _NAMED_ITEMS, parameters)

    async def named_lines(self, expected_id: UUID, *, limit: int) -> list[dict[str, Any]]:
        """Return the open lines that quote an open item in full, as ``named_items`` does."""
        return await fetch_all(self._connection, _NAMED_LINES, {"centre": expected_id, "limit": limit})
