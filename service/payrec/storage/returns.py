"""Returns: what they could take back, and what they took, as sets.

Everybody who decides locks in one order: decisions, allocations, open rows, then matches, each by side and id. ``lock``
takes the first two; ``payrec.storage.open_rows`` and ``close`` the open rows, ``return_matches`` the matches that were
accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from payrec.models.incoming_transactions import IncomingTransactionQuery
from payrec.storage import incoming_transactions
from payrec.storage.allocations import hold_decisions
from payrec.storage.database import Connection
from payrec.storage.history import allocations_logged, matches_logged
from payrec.storage.reasons import end_reasons
from payrec.storage.rows import array_text, columns_of, fetch_all
from payrec.tables.returns import ReversalLink

RETURN_LINE: Final = """
    i.id, i.amount_minor, i.currency, i.direction, i.booking_on - date '1970-01-01' AS booking_day, i.account,
    i.end_to_end_id, i.bank_reference, i.transaction_id, i.instruction_id, i.uetr, i.mandate_id,
    i.structured_reference, i.remittance, i.counterparty_name, i.counterparty_account"""
"""What is told of a return or a payment, of ``incoming_transaction i``."""

_RETURNS: Final = f"""
    SELECT {RETURN_LINE}, o.open_minor AS left_minor FROM incoming_open o
    JOIN incoming_transaction i ON i.id = o.transaction_id
    LEFT JOIN allocation a ON a.side = 2 AND a.transaction_id = i.id
    WHERE o.reversal AND NOT o.pending AND NOT o.duplicate{{where}}
    ORDER BY o.booking_day DESC, o.tie_key, o.transaction_id LIMIT %(limit)s
"""  # noqa: S608 - our own text
_PROPOSED: Final = """
    SELECT DISTINCT l.incoming_id AS id FROM leg l JOIN match m ON m.id = l.match_id
    WHERE l.incoming_id = ANY(%s) AND m.status = 'proposed'
"""
_ITEMS: Final = """
    SELECT DISTINCT expected_id AS id FROM leg
    WHERE incoming_id = ANY(%s) AND expected_id IS NOT NULL AND valid_from IS NOT NULL AND valid_to IS NULL
"""
_LOCK_ITEMS: Final = """
    SELECT transaction_id AS id FROM allocation WHERE side = 1 AND transaction_id = ANY(%s)
    ORDER BY transaction_id FOR UPDATE
"""
_LOCK_LINES: Final = """
    INSERT INTO allocation AS a (side, transaction_id, amount_minor, status, version, updated_at, change_id)
    SELECT 2, id, amount_minor, CASE WHEN pending THEN 'pending' ELSE 'unmatched' END, 1, %(at)s, %(change_id)s
    FROM incoming_transaction WHERE id = ANY(%(ids)s) ORDER BY id
    -- What was there already is held and not changed.
    ON CONFLICT (transaction_id, side) DO UPDATE SET version = a.version
    RETURNING transaction_id AS id, amount_minor AS left_minor, allocated_minor, status, version
"""
# What an adjustment takes away again of what the legs settle of an item (an exchange at a rate of more than was asked)
# is not there to be reopened: each line has its share of the rest, which together are all of it to the minor unit.
_PARTS: Final = """
    WITH held AS (
        SELECT incoming_id, expected_id, match_id, sum(amount_minor)::bigint AS amount_minor,
            sum(settled_minor)::bigint AS settled_minor
        FROM leg WHERE incoming_id = ANY(%(ids)s) AND valid_from IS NOT NULL AND valid_to IS NULL
        GROUP BY incoming_id, expected_id, match_id
    ), less AS (
        SELECT m.id AS match_id, (a ->> 'id')::uuid AS expected_id, -sum((a ->> 'minor')::bigint) AS minor
        FROM match m CROSS JOIN jsonb_array_elements(m.adjustments) a
        WHERE m.id IN (SELECT match_id FROM held) AND a ->> 'side' = 'expected'
        GROUP BY m.id, a ->> 'id' HAVING sum((a ->> 'minor')::bigint) < 0
    ), shared AS (
        SELECT h.incoming_id, h.expected_id, h.match_id, div((w.before + h.settled_minor) * w.rest, w.whole)
            - div(w.before * w.rest, w.whole) AS settled_minor
        FROM held h JOIN less USING (match_id, expected_id) CROSS JOIN LATERAL (
            SELECT sum(settled_minor) AS whole, greatest(sum(settled_minor) - less.minor, 0) AS rest,
                coalesce(sum(settled_minor) FILTER (WHERE incoming_id < h.incoming_id), 0) AS before
            FROM leg WHERE match_id = h.match_id AND expected_id = h.expected_id
        ) w
    ), returned AS (
        SELECT incoming_id, expected_id, match_id, sum(amount_minor)::bigint AS amount_minor,
            sum(settled_minor)::bigint AS settled_minor
        FROM reversal_link WHERE incoming_id = ANY(%(ids)s) GROUP BY incoming_id, expected_id, match_id
    )
    SELECT h.incoming_id, h.expected_id, h.match_id, h.amount_minor - coalesce(r.amount_minor, 0) AS amount_minor,
        greatest(coalesce(s.settled_minor, h.settled_minor) - coalesce(r.settled_minor, 0), 0)::bigint AS settled_minor,
        h.expected_id IS NULL AS contra
    FROM held h LEFT JOIN shared s USING (incoming_id, expected_id, match_id)
    LEFT JOIN returned r USING (incoming_id, expected_id, match_id)
    UNION ALL
    SELECT b.incoming_id, NULL, b.match_id, b.minor - coalesce(r.amount_minor, 0), 0, false
    FROM (
        SELECT h.incoming_id, h.match_id, sum((a ->> 'minor')::bigint)::bigint AS minor
        FROM (SELECT DISTINCT incoming_id, match_id FROM held) h JOIN match m ON m.id = h.match_id
        CROSS JOIN jsonb_array_elements(m.adjustments) a
        WHERE a ->> 'side' = 'incoming' AND a ->> 'id' = h.incoming_id::text
        GROUP BY h.incoming_id, h.match_id
    ) b LEFT JOIN returned r ON r.incoming_id = b.incoming_id AND r.match_id = b.match_id AND r.expected_id IS NULL
    ORDER BY match_id, expected_id
"""
_LINK: Final = """
    INSERT INTO reversal_link (reversal_id, ordinal, incoming_id, expected_id, match_id, change_id, amount_minor,
        settled_minor, created_at, created_by)
    SELECT t.reversal_id, coalesce(max(r.ordinal), 0) + t.place, t.incoming_id, t.expected_id, t.match_id,
        %(change_id)s, t.amount_minor, t.settled_minor, %(at)s, %(actor)s
    FROM (
        SELECT u.*, row_number() OVER (PARTITION BY reversal_id ORDER BY nr) AS place
        FROM unnest(%(returns)s::uuid[], %(payments)s::uuid[], %(items)s::uuid[], %(matches)s::uuid[],
            %(amounts)s::bigint[], %(settled)s::bigint[]) WITH ORDINALITY
            AS u (reversal_id, incoming_id, expected_id, match_id, amount_minor, settled_minor, nr)
    ) t LEFT JOIN reversal_link r ON r.reversal_id = t.reversal_id
    GROUP BY t.reversal_id, t.place, t.incoming_id, t.expected_id, t.match_id, t.amount_minor, t.settled_minor
"""
_TAKEN_ROWS: Final = """
    unnest(%(returns)s::uuid[], %(payments)s::uuid[], %(items)s::uuid[], %(matches)s::uuid[], %(amounts)s::bigint[],
        %(settled)s::bigint[]) AS u (return, payment, item, match, amount, settled)
"""
# By what is taken and not to what is left, so that the constraint decides whatever was read before.
_TAKE_BACK: Final = """
    UPDATE allocation a SET amount_minor = a.amount_minor - t.taken, allocated_minor = a.allocated_minor - t.released,
        status = CASE
            WHEN a.status = 'void' THEN 'void'
            WHEN a.side = 2 AND a.amount_minor = t.taken THEN CASE WHEN t.returns THEN 'linked' ELSE 'reversed' END
            WHEN a.allocated_minor - t.released = a.amount_minor - t.taken THEN 'matched'
            WHEN a.allocated_minor > t.released THEN 'partially_matched'
            WHEN a.side = 1 THEN 'open' ELSE 'unmatched' END,
        version = a.version + 1, reason_code = NULL, change_id = %(change_id)s, updated_at = %(at)s
    FROM (
        SELECT side, id, sum(taken)::bigint AS taken, sum(released)::bigint AS released, bool_or(returns) AS returns
        FROM (
            SELECT 1 AS side, item AS id, 0 AS taken, settled AS released, false AS returns
            FROM {rows} WHERE item IS NOT NULL AND settled > 0
            UNION ALL
            SELECT 2, payment, amount, CASE WHEN match IS NULL THEN 0 ELSE amount END, false FROM {rows}
            UNION ALL
            SELECT 2, return, amount, 0, true FROM {rows}
        ) n GROUP BY side, id
    ) t WHERE a.side = t.side AND a.transaction_id = t.id
""".replace("{rows}", _TAKEN_ROWS)
_TAKEN_BACK: Final = """
    SELECT side, transaction_id AS id, status, amount_minor - allocated_minor AS open_minor, taken, released, returns
    FROM changed
"""
_ALLOCATE: Final = (
    allocations_logged(
        _TAKE_BACK,
        of="a.transaction_id = ANY(%(returns)s::uuid[] || %(payments)s::uuid[] || %(items)s::uuid[])",
        returning="t.taken, t.released, t.returns",
    )
    + _TAKEN_BACK
)
_HOLD: Final = """
    SELECT transaction_id FROM incoming_open WHERE transaction_id = ANY(%s) ORDER BY transaction_id FOR UPDATE
"""
_CLOSE: Final = """
    WITH wanted AS (
        SELECT id, sum(minor)::bigint AS minor FROM unnest(%s::uuid[], %s::bigint[]) AS u (id, minor) GROUP BY id
    ), closed AS (
        DELETE FROM incoming_open o USING wanted w WHERE o.transaction_id = w.id AND o.open_minor = w.minor
    )
    UPDATE incoming_open o SET open_minor = o.open_minor - w.minor, total_minor = o.total_minor - w.minor
    FROM wanted w WHERE o.transaction_id = w.id AND o.open_minor <> w.minor
"""
# What was taken of open payments without a person. Of an item that no run has looked at, nobody has said why it is
# open, and it is in no match: what such a payment may pay of them is found by what both say.
_EARLY: Final = """
    SELECT i.* FROM incoming_transaction i WHERE i.id IN (
        SELECT r.incoming_id FROM reversal_link r WHERE r.match_id IS NULL AND r.created_by LIKE 'engine:%%'
        ORDER BY r.created_at DESC LIMIT %(limit)s
    ) ORDER BY i.id
"""
# What many lines say alike is asked once, and by the counterparty (+ 0 keeps it so): of one price, or of one payer,
# there may be as many items as there are lines.
_NEW: Final = """
    WITH asked AS MATERIALIZED (
        SELECT u.said, u.key, i.amount_minor, i.currency,
            CASE i.direction WHEN 'credit' THEN 1 ELSE -1 END AS direction, array_agg(u.line) AS lines
        FROM unnest(%(lines)s::uuid[], %(said)s::text[], %(keys)s::bigint[]) AS u (line, said, key)
        JOIN incoming_transaction i ON i.id = u.line GROUP BY 1, 2, 3, 4, 5
    )
    SELECT DISTINCT unnest(a.lines) AS line FROM asked a
    WHERE EXISTS (
        SELECT FROM (
            SELECT o.* FROM expected_open o WHERE a.said = 'name' AND o.reference_key = a.key
            UNION ALL
            SELECT o.* FROM expected_open o WHERE a.said = 'name' AND o.end_to_end_key = a.key
            UNION ALL
            SELECT o.* FROM expected_open o
            WHERE a.said = 'party' AND o.account_key = a.key AND o.open_minor + 0 = a.amount_minor
            UNION ALL
            SELECT o.* FROM expected_open o
            WHERE a.said = 'party' AND o.name_key = a.key AND o.open_minor + 0 = a.amount_minor
        ) o
        WHERE o.currency = a.currency AND o.direction = a.direction
            AND NOT EXISTS (SELECT FROM open_reason w WHERE w.transaction_id = o.transaction_id AND w.side = 1)
            AND NOT EXISTS (SELECT FROM leg l WHERE l.expected_id = o.transaction_id)
    )
"""
_EARLY_RETURNS: Final = """
    SELECT DISTINCT r.reversal_id AS id FROM reversal_link r
    WHERE r.incoming_id = ANY(%s) AND r.match_id IS NULL AND r.created_by LIKE 'engine:%%'
"""
_END_LINKS: Final = f"""
    WITH ended AS (
        DELETE FROM reversal_link r
        WHERE r.incoming_id = ANY(%(lines)s) AND r.match_id IS NULL AND r.created_by LIKE 'engine:%%' RETURNING r.*
    ), kept AS (
        INSERT INTO reversal_link_state ({columns_of(ReversalLink)}, until_change_id)
        SELECT {columns_of(ReversalLink)}, %(change_id)s FROM ended
    )
    SELECT reversal_id, incoming_id, amount_minor FROM ended ORDER BY reversal_id, ordinal
"""  # noqa: S608 - our own text
_GIVE_BACK: Final = """
    UPDATE allocation a SET amount_minor = a.amount_minor + t.minor,
        status = CASE WHEN a.allocated_minor > 0 THEN 'partially_matched' ELSE 'unmatched' END,
        version = a.version + 1, reason_code = NULL, change_id = %(change_id)s, updated_at = %(at)s
    FROM (
        SELECT id, sum(minor)::bigint AS minor FROM unnest(%(ids)s::uuid[], %(minors)s::bigint[]) AS u (id, minor)
        GROUP BY id
    ) t WHERE a.side = 2 AND a.transaction_id = t.id
"""
_GIVEN_BACK: Final = "SELECT transaction_id AS id, status, amount_minor - allocated_minor AS open_minor FROM changed"
_ALLOCATE_AGAIN: Final = (
    allocations_logged(_GIVE_BACK, of="a.side = 2 AND a.transaction_id = ANY(%(ids)s::uuid[])") + _GIVEN_BACK
)
_LOCK_MATCHES: Final = "SELECT 1 FROM match WHERE id = ANY(%s) ORDER BY id FOR UPDATE"
_RETURN: Final = """
    UPDATE match m SET returned_minor = m.returned_minor + t.minor, updated_at = %(at)s, version = m.version + 1,
        change_id = %(change_id)s
    FROM (
        SELECT id, sum(minor)::bigint AS minor FROM unnest(%(ids)s::uuid[], %(minors)s::bigint[]) AS u (id, minor)
        GROUP BY id
    ) t WHERE m.id = t.id
"""
_RETURNED: Final = "SELECT match_id AS id, returned_minor, minor FROM changed"
_RETURN_MATCHES: Final = matches_logged(_RETURN, of="m.id = ANY(%(ids)s::uuid[])", returning="t.minor") + _RETURNED


class ReturnStore:
    """``reversal_link``, and what returns change of allocations, open rows and matches."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def open_returns(self, query: IncomingTransactionQuery | None, *, limit: int) -> list[dict[str, Any]]:
        """Return open booked lines that take money back, the newest first, of those that the query asks for."""
        found = incoming_transactions.conditions(query) if query is not None else []
        where = "".join(f" AND {condition}" for condition, _ in found)
        parameters = {name: value for _, more in found for name, value in more.items()}
        return await fetch_all(self._connection, _RETURNS.format(where=where), {**parameters, "limit": limit})

    async def proposed(self, payment_ids: Sequence[UUID]) -> set[UUID]:
        """Return those of the payments that somebody has yet to decide about."""
        return {row["id"] for row in await fetch_all(self._connection, _PROPOSED, (array_text(payment_ids),))}

    async def items(self, payment_ids: Sequence[UUID]) -> set[UUID]:
        """Return the items that payments settle."""
        return {row["id"] for row in await fetch_all(self._connection, _ITEMS, (array_text(payment_ids),))}

    async def lock(
        self, *, items: Sequence[UUID], lines: Sequence[UUID], change_id: UUID, at: datetime
    ) -> dict[UUID, dict[str, Any]]:
        """Hold the allocations of items and lines until the commit; return those of the lines by id.

        ``left_minor`` is what may still be taken back, ``allocated_minor`` what is matched of it.
        """
        await hold_decisions(self._connection, alone=False)
        await self._connection.execute(_LOCK_ITEMS, (array_text(items),))
        parameters = {"at": at, "change_id": change_id, "ids": array_text(lines)}
        rows = await fetch_all(self._connection, _LOCK_LINES, parameters)
        return {row["id"]: row for row in rows}

    async def parts(self, payment_ids: Sequence[UUID]) -> list[dict[str, Any]]:
        """Return what of payments is left with each match and item; ``contra`` where other money is in the way.

        Without an item it is what the match has of the payment beside its legs, which may be less than nothing.
        """
        return await fetch_all(self._connection, _PARTS, {"ids": array_text(payment_ids)})

    async def link(
        self, takes: Sequence[dict[str, Any]], *, change_id: UUID, actor: str, at: datetime
    ) -> list[dict[str, Any]]:
        """Store links and change the allocations, which ``lock`` holds, by them; return those as they are now.

        ``takes`` has ``return_id, payment_id, expected_id, match_id, amount_minor, settled_minor``.

        Raises
        ------
        AlreadyMatchedError
            Through the constraint ``allocation_within_amount``: more would be taken back than there is.
        """
        parameters = {
            "returns": [t["return_id"] for t in takes],
            "payments": [t["payment_id"] for t in takes],
            "items": [t["expected_id"] for t in takes],
            "matches": [t["match_id"] for t in takes],
            "amounts": [t["amount_minor"] for t in takes],
            "settled": [t["settled_minor"] for t in takes],
            "change_id": change_id,
            "actor": actor,
            "at": at,
        }
        await self._connection.execute(_LINK, parameters)
        return await fetch_all(self._connection, _ALLOCATE, parameters)

    async def close(self, line_ids: Sequence[UUID], amounts_minor: Sequence[int], *, change_id: UUID) -> None:
        """Take amounts of lines out of what is open."""
        await self._connection.execute(_HOLD, (array_text(line_ids),))
        await self._connection.execute(_CLOSE, (array_text(line_ids), array_text(amounts_minor)))
        await end_reasons(self._connection, line_ids, [2] * len(line_ids), change_id=change_id)

    async def early(self, *, limit: int) -> list[dict[str, Any]]:
        """Return payments as they are stored, the newest, of which was taken without a person while they were open."""
        return await fetch_all(self._connection, _EARLY, {"limit": limit})

    async def newly_named(self, keys: Sequence[tuple[UUID, str, int]]) -> set[UUID]:
        """Return those of the lines that may pay an item which no run has looked at.

        ``keys`` has lines, each with what it says: ``name`` for references and ids, ``party`` for the counterparty,
        which counts where the amounts are equal.
        """
        lines, said, values = ([key[place] for key in keys] for place in range(3))
        rows = await fetch_all(self._connection, _NEW, {"lines": lines, "said": said, "keys": values})
        return {row["line"] for row in rows}

    async def early_returns(self, payment_ids: Sequence[UUID]) -> list[UUID]:
        """Return what took of open payments without a person."""
        return [row["id"] for row in await fetch_all(self._connection, _EARLY_RETURNS, (array_text(payment_ids),))]

    async def release(
        self, payment_ids: Sequence[UUID], *, change_id: UUID, at: datetime
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """End the links of payments, which ``lock`` holds with their returns, that took of them while they were open.

        Return ``reversal_id, incoming_id, amount_minor`` of these, and the allocations of both as they are now.
        """
        ended = await fetch_all(
            self._connection, _END_LINKS, {"lines": array_text(payment_ids), "change_id": change_id}
        )
        moved = [(row[name], row["amount_minor"]) for row in ended for name in ("reversal_id", "incoming_id")]
        parameters = {
            "ids": [line for line, _ in moved],
            "minors": [minor for _, minor in moved],
            "change_id": change_id,
            "at": at,
        }
        return ended, await fetch_all(self._connection, _ALLOCATE_AGAIN, parameters)

    async def return_matches(
        self, match_ids: Sequence[UUID], amounts_minor: Sequence[int], *, change_id: UUID, at: datetime
    ) -> list[dict[str, Any]]:
        """Add amounts to what has come back of matches; return these with ``returned_minor`` and what was added."""
        await self._connection.execute(_LOCK_MATCHES, (array_text(match_ids),))
        parameters = {
            "ids": array_text(match_ids),
            "minors": array_text(amounts_minor),
            "change_id": change_id,
            "at": at,
        }
        return await fetch_all(self._connection, _RETURN_MATCHES, parameters)
