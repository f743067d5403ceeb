"""The reconciliation statement of an account. What each figure means is in ``service/accounts.md``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from itertools import chain
from typing import Any, Final
from uuid import UUID

from payrec.constants.accounts import STATEMENTS_APART_MAX
from payrec.models.reconciliations import ReconciliationLineQuery
from payrec.storage.changed_lines import changed_lines
from payrec.storage.database import Connection
from payrec.storage.filters import created
from payrec.storage.history import later
from payrec.storage.history_relations import at_instant
from payrec.storage.listing import PageRequest, SortKey
from payrec.storage.rows import fetch_all, fetch_one
from payrec.tables.allocations import RARE_STATUS

PARTS: Final = {
    "allocated": "allocated",
    "returned": "returned",
    "classified": "classified",
    "ignored": "ignored",
    "inTransit": "in_transit",
    "open": "open",
    "pending": "pending",
}
"""The parts by the names of the interface."""

SORTS: Final = {
    "bookingDate": SortKey(
        expression="booking_on", descending=False, name="booking_on", parameter="%(after_value)s::date"
    )
}
"""Lines come in the order of their booking dates."""

# Matches with amounts that are effective after the cut-off, and what they have of each line: legs and adjustments less
# what returns took of it again, and of transfers the part whose other side is booked later than that. Then returns that
# are booked after the cut-off, or take back what is: what they have of each line, and what of it was allocated before.
_LATE: Final = """
    late_match AS MATERIALIZED (
        SELECT m.id, m.kind, m.adjustments FROM match m
        WHERE m.status IN ('accepted', 'pending_approval') AND m.effective_on > %(cut_off)s {matches}
    ), late AS MATERIALIZED (
        SELECT t.id, sum(t.minor)::bigint AS minor,
            coalesce(sum(t.minor) FILTER (WHERE t.crosses), 0)::bigint AS transit_minor
        FROM (
            SELECT l.incoming_id AS id, l.amount_minor AS minor,
                CASE m.kind WHEN 'transfer' THEN (
                    SELECT o.booking_on > %(cut_off)s FROM incoming_transaction o WHERE o.id = l.contra_incoming_id
                ) END AS crosses
            FROM late_match m JOIN leg l ON l.match_id = m.id WHERE l.incoming_id IS NOT NULL
            UNION ALL
            SELECT l.contra_incoming_id, l.settled_minor, CASE m.kind WHEN 'transfer' THEN (
                SELECT o.booking_on > %(cut_off)s FROM incoming_transaction o WHERE o.id = l.incoming_id
            ) END
            FROM late_match m JOIN leg l ON l.match_id = m.id WHERE l.contra_incoming_id IS NOT NULL
            UNION ALL
            SELECT (j ->> 'id')::uuid, (j ->> 'minor')::bigint, false
            FROM late_match m CROSS JOIN LATERAL jsonb_array_elements(m.adjustments) j
            WHERE m.adjustments IS NOT NULL AND j ->> 'side' = 'incoming'
            UNION ALL
            SELECT r.incoming_id, -r.amount_minor, false FROM reversal_link r JOIN late_match m ON m.id = r.match_id
        ) t GROUP BY t.id
    ), later_return AS MATERIALIZED (
        SELECT t.id, sum(t.minor)::bigint AS minor, sum(t.allocated_minor)::bigint AS allocated_minor
        FROM (
            SELECT r.incoming_id, r.reversal_id, r.amount_minor,
                CASE WHEN NOT EXISTS (SELECT FROM late_match m WHERE m.id = r.match_id) AND EXISTS (
                    SELECT FROM match m WHERE m.id = r.match_id AND m.status IN ('accepted', 'pending_approval')
                ) THEN r.amount_minor ELSE 0 END AS allocated_minor
            FROM reversal_link r
            JOIN incoming_transaction b ON b.id = r.reversal_id
            JOIN incoming_transaction p ON p.id = r.incoming_id
            WHERE greatest(b.booking_on, p.booking_on) > %(cut_off)s {links}
        ) r CROSS JOIN LATERAL (
            VALUES (r.incoming_id, r.amount_minor, r.allocated_minor), (r.reversal_id, r.amount_minor, 0)
        ) t (id, minor, allocated_minor)
        GROUP BY t.id
    )
"""
LATE_OF_ALL: Final = _LATE.format(matches="", links="")
"""The relations ``late`` and ``later_return``: by how much lines, of all accounts, are otherwise at ``%(cut_off)s``."""
# The same of the lines with the ids alone.
_LATE_OF_IDS: Final = _LATE.format(
    matches="""AND m.id IN (
            SELECT l.match_id FROM leg l WHERE l.incoming_id = ANY(%(ids)s)
            UNION ALL SELECT l.match_id FROM leg l WHERE l.contra_incoming_id = ANY(%(ids)s)
            UNION ALL SELECT r.match_id FROM reversal_link r WHERE r.incoming_id = ANY(%(ids)s)
        )""",
    links="AND (r.incoming_id = ANY(%(ids)s) OR r.reversal_id = ANY(%(ids)s))",
)
_MOVED: Final = "coalesce(i.net_minor, CASE i.direction WHEN 'credit' THEN i.amount_minor ELSE -i.amount_minor END)"
_TAKEN: Final = "coalesce(a.allocated_minor, 0) - coalesce(l.minor, 0) + coalesce(b.allocated_minor, 0)"
_BACK: Final = "i.amount_minor - coalesce(a.amount_minor, i.amount_minor)"
_RETURNED: Final = f"{_BACK} - coalesce(b.minor, 0)"


def _up_to(minor: str) -> str:
    """Return what of the movement stands for so much of the amount, from the beginning on.

    Parts are what lies between, so that they are the movement together, however each of them is rounded.
    """
    return f"""CASE WHEN ({minor}) = t.amount_minor THEN t.moved_minor WHEN t.net_minor IS NULL
            THEN sign(t.moved_minor)::bigint * ({minor})
        ELSE div(t.net_minor::numeric * ({minor}), t.amount_minor)::bigint END"""


# What was closed without a match was the rest that no return has, whenever these are booked; nothing else is taken of
# such a line.
_CLOSED_REST: Final = f"""CASE WHEN t.back_minor = 0 THEN t.moved_minor
            ELSE t.moved_minor - ({_up_to("t.back_minor")}) END"""
_TRANSIT: Final = "t.taken_minor + t.returned_minor + t.transit_minor"
# The planner knows how many lines have which currency, and not what an expression of two of them comes to.
_OF_ACCOUNT: Final = """
    i.account = %(identifier)s
    AND (i.net_currency = %(currency)s OR (i.net_currency IS NULL AND i.currency = %(currency)s))
    AND i.booking_on BETWEEN coalesce(%(opening_on)s, '-infinity'::date) AND %(cut_off)s
"""
# One row for each line of the account, with what of its movement is of each part.
_LINES: Final = f"""
    SELECT t.id, t.booking_on, t.created_at, t.moved_minor,
        CASE WHEN t.whole IS NULL THEN {_up_to("t.taken_minor")} ELSE 0 END AS allocated,
        CASE WHEN t.returned_minor <> 0
            THEN ({_up_to("t.taken_minor + t.returned_minor")}) - ({_up_to("t.taken_minor")}) ELSE 0 END AS returned,
        CASE WHEN t.whole IS NULL AND t.transit_minor <> 0
            THEN ({_up_to(_TRANSIT)}) - ({_up_to("t.taken_minor + t.returned_minor")}) ELSE 0 END AS in_transit,
        CASE WHEN t.whole IS NULL THEN t.moved_minor - ({_up_to(_TRANSIT)})
            WHEN t.back_minor <> t.returned_minor
            THEN ({_up_to("t.back_minor")}) - ({_up_to("t.returned_minor")}) ELSE 0 END AS open,
        CASE WHEN t.whole = 'ignored' THEN {_CLOSED_REST} ELSE 0 END AS ignored,
        CASE WHEN t.whole = 'classified' THEN {_CLOSED_REST} ELSE 0 END AS classified,
        CASE WHEN t.whole = 'pending' THEN t.moved_minor ELSE 0 END AS pending
    FROM (
        SELECT i.id, i.booking_on, i.created_at, i.amount_minor, i.net_minor, {_MOVED} AS moved_minor,
            CASE WHEN i.pending THEN 'pending' WHEN i.amount_minor = 0 THEN 'ignored'
                WHEN a.status IN ('ignored', 'classified') AND coalesce(a.effective_on <= %(cut_off)s, true)
                THEN a.status END AS whole,
            {_TAKEN} AS taken_minor, {_BACK} AS back_minor, {_RETURNED} AS returned_minor,
            coalesce(l.transit_minor, 0) AS transit_minor
        FROM {{lines}} i
        LEFT JOIN allocation a ON a.side = 2 AND a.transaction_id = i.id
        LEFT JOIN late l ON l.id = i.id
        LEFT JOIN later_return b ON b.id = i.id
        WHERE {_OF_ACCOUNT}
    ) t
"""  # noqa: S608 - our own text
_SUMMED: Final = ", ".join(
    f"count(*) FILTER (WHERE s.{name} <> 0) AS {name}_count, sum(s.{name}) AS {name}" for name in PARTS.values()
)
_SHARES: Final = ", ".join(f"('{name}', s.{name}_count, s.{name})" for name in PARTS.values())
_WHOLE: Final = {
    "allocated": "o.transaction_id IS NULL",
    "open": "o.transaction_id IS NOT NULL AND NOT i.pending",
    "pending": "o.transaction_id IS NOT NULL AND i.pending",
}
"""What most lines are whole: matched, unless they are open."""
_WHOLE_SUMMED: Final = ", ".join(
    f"count(*) FILTER (WHERE {which} AND {_MOVED} <> 0) AS {part}_count, sum({_MOVED}) FILTER (WHERE {which}) AS {part}"
    for part, which in _WHOLE.items()
)
_WHOLE_SHARES: Final = ", ".join(f"('{part}', s.{part}_count, s.{part})" for part in _WHOLE)
# Every line once, as if it were whole of a part. Those that may be no such are looked at one by one, and stand for what
# they are in the place of what they were taken for. Sums without groups are made by several processes at once; a join
# of all lines with what became of them took ten times as long.
_SUMS: Final = f"""
    SELECT told.* FROM (
        WITH {LATE_OF_ALL}, apart AS MATERIALIZED (
            SELECT i.*, o.transaction_id IS NOT NULL AS is_open
            FROM (
                SELECT transaction_id AS id FROM allocation WHERE side = 2 AND {RARE_STATUS}
                UNION SELECT incoming_id FROM reversal_link UNION SELECT reversal_id FROM reversal_link
                UNION SELECT id FROM late
            ) s JOIN incoming_transaction i ON i.id = s.id
            LEFT JOIN incoming_open o ON o.transaction_id = i.id
            WHERE {_OF_ACCOUNT}
        ), whole AS (
            SELECT {_WHOLE_SUMMED}
            FROM incoming_transaction i LEFT JOIN incoming_open o ON o.transaction_id = i.id WHERE {_OF_ACCOUNT}
        )
        SELECT part, sum(count) AS count, coalesce(sum(minor), 0) AS minor FROM (
            SELECT p.part, p.count, p.minor
            FROM whole s CROSS JOIN LATERAL (VALUES {_WHOLE_SHARES}) p (part, count, minor)
            UNION ALL
            SELECT CASE WHEN NOT i.is_open THEN 'allocated' WHEN i.pending THEN 'pending' ELSE 'open' END,
                -count(*) FILTER (WHERE {_MOVED} <> 0), -sum({_MOVED})
            FROM apart i GROUP BY 1
            UNION ALL
            SELECT p.part, p.count, p.minor
            FROM (SELECT {_SUMMED} FROM ({_LINES.format(lines="apart")} OFFSET 0) s) s
            CROSS JOIN LATERAL (VALUES {_SHARES}) p (part, count, minor)
        ) p GROUP BY part
    ) told
"""  # noqa: S608 - our own text
_OF_IDS: Final = "(SELECT * FROM incoming_transaction WHERE id = ANY(%(ids)s))"
_BUT_IDS: Final = "(SELECT * FROM incoming_transaction WHERE id <> ALL(%(ids)s))"
_SUMS_OF_IDS: Final = f"""
    SELECT told.* FROM (
        WITH {_LATE_OF_IDS}
        SELECT p.part, p.count, coalesce(p.minor, 0) AS minor
        FROM (SELECT {_SUMMED} FROM ({_LINES.format(lines=_OF_IDS)} OFFSET 0) s) s
        CROSS JOIN LATERAL (VALUES {_SHARES}) p (part, count, minor)
    ) told
"""  # noqa: S608 - our own text
_THEN: Final = at_instant("incoming_transaction", "allocation", "match", "reversal_link")
# As with opening balances: of a day's, the one with which nothing of the day goes on.
_CLOSED: Final = f"""
    SELECT s.closing_minor, s.closed_on FROM (
        SELECT t.*, coalesce(t.chained_on, t.to_on, t.last_booking_on) AS closed_on FROM (
            SELECT s.* FROM statement s
            WHERE s.account = %(identifier)s AND s.currency = %(currency)s {{known}} AND s.closing_minor IS NOT NULL
                AND s.chained_on = (
                    SELECT max(s.chained_on) FROM statement s
                    WHERE s.account = %(identifier)s AND s.currency = %(currency)s {{known}}
                        AND s.chained_on <= %(cut_off)s AND s.closing_minor IS NOT NULL
                )
            UNION ALL
            (SELECT s.* FROM statement s
             WHERE s.account = %(identifier)s AND s.currency = %(currency)s {{known}} AND s.chained_on IS NULL
                AND s.closing_minor IS NOT NULL AND s.kind NOT IN ('interim', 'notification')
             ORDER BY s.import_id DESC, s.ordinal DESC LIMIT {STATEMENTS_APART_MAX})
        ) t
    ) s
    WHERE s.closed_on <= %(cut_off)s
    ORDER BY s.closed_on DESC, EXISTS (
        SELECT FROM statement s2
        WHERE s2.account = s.account AND s2.currency = s.currency AND s2.chained_on = s.chained_on
            AND s2.opening_minor = s.closing_minor AND (s2.import_id, s2.ordinal) <> (s.import_id, s.ordinal)
    ), s.page_number DESC NULLS LAST, s.import_id DESC, s.ordinal DESC LIMIT 1
"""  # noqa: S608 - our own text
_BOOK: Final = """
    SELECT s.balance_minor FROM book_balance s
    WHERE s.account_id = %(account_id)s AND s.balance_on = %(cut_off)s {known} ORDER BY s.version DESC LIMIT 1
"""
_PAGE: Final = f"""
    SELECT told.* FROM (
        WITH {{late}}
        SELECT s.id, s.booking_on, s.moved_minor, s.{{part}} AS share_minor
        FROM ({_LINES.format(lines="{lines}")}) s
        WHERE s.{{part}} <> 0 {{after}} ORDER BY s.booking_on, s.id LIMIT %(row_count)s
    ) told ORDER BY booking_on, id
"""  # noqa: S608 - our own text


class ReconciliationStore:
    """What became of the lines of one account until a cut-off, as it is or as it was known at an instant."""

    def __init__(
        self, connection: Connection, *, account: dict[str, Any], cut_off: date, as_of: datetime | None
    ) -> None:
        self._connection = connection
        self._as_of = as_of
        self._known = f"AND NOT {later('s.change_id')}" if as_of is not None else ""
        self._parameters: dict[str, Any] = {
            "account_id": account["id"],
            "identifier": account["identifier"],
            "currency": account["currency"],
            "opening_on": account["opening_on"],
            "cut_off": cut_off,
            "as_of": as_of,
        }

    async def parts(self) -> dict[str, tuple[int, int]]:
        """Return how many lines have a share of each of PARTS, and the sum of these.

        What they were at an instant is what they are now, but for those lines of which something has changed since.
        """
        found = await self._sums(_SUMS)
        if self._as_of is None or not (ids := await self._changed()):
            return found
        now, then = await self._sums(_SUMS_OF_IDS, ids=ids), await self._sums(_THEN + _SUMS_OF_IDS, ids=ids)
        return {
            part: (count - now[part][0] + then[part][0], minor - now[part][1] + then[part][1])
            for part, (count, minor) in found.items()
        }

    async def _sums(self, statement: str, **given: Any) -> dict[str, tuple[int, int]]:
        rows = await fetch_all(self._connection, statement, {**self._parameters, **given})
        # Sums are numeric there: those of a few thousand of the largest amounts are beyond a bigint.
        found = {row["part"]: (int(row["count"]), int(row["minor"])) for row in rows}
        return {part: found.get(part, (0, 0)) for part in PARTS.values()}

    async def _changed(self) -> list[UUID]:
        return await changed_lines(self._connection, _OF_ACCOUNT, self._parameters)

    async def closed(self) -> dict[str, Any] | None:
        """Return ``closing_minor, closed_on`` of the statement that closes last until the cut-off."""
        return await fetch_one(self._connection, _CLOSED.format(known=self._known), self._parameters)

    async def book_minor(self) -> int | None:
        """Return what the books say of the day of the cut-off."""
        row = await fetch_one(self._connection, _BOOK.format(known=self._known), self._parameters)
        return None if row is None else int(row["balance_minor"])

    async def page(self, page: PageRequest, query: ReconciliationLineQuery) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return lines of a part, ``id, booking_on, moved_minor, share_minor``, and whether more follow."""
        conditions = created(query, "s")
        parameters = {**self._parameters, "row_count": page.limit + 1}
        if page.after is not None:
            text = f"({page.sort.expression}, s.id) > ({page.sort.parameter}, %(after_id)s)"
            conditions.append((text, {"after_id": UUID(page.after["id"]), "after_value": page.after["value"]}))
        for _, found in conditions:
            parameters |= found
        texts = {"part": PARTS[query.part], "after": "".join(f" AND {text}" for text, _ in conditions)}
        statement = _PAGE.format(late=LATE_OF_ALL, lines="incoming_transaction", **texts)
        if self._as_of is None or not (ids := await self._changed()):
            rows = await fetch_all(self._connection, statement, parameters)
        else:
            parameters["ids"] = ids
            statements = (
                _PAGE.format(late=LATE_OF_ALL, lines=_BUT_IDS, **texts),
                _THEN + _PAGE.format(late=_LATE_OF_IDS, lines=_OF_IDS, **texts),
            )
            parts = [await fetch_all(self._connection, one, parameters) for one in statements]
            rows = sorted(chain(*parts), key=lambda row: (row["booking_on"], row["id"]))
        return rows[: page.limit], len(rows) > page.limit
