"""Lines whose content is stored under another identity as well: one rule, whatever way they came.

A delivery is an import, or a request. Several of one content in one delivery are as many payments, and so are those
that are all known by their content or all by their bank's ids: a bank told them apart within one statement.

A batch that one report shows as one line and another by its details, as camt.053 and camt.054 do, is one payment too.
Its details say more, so the line is the duplicate, unless it has paid already: then they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from payrec.constants import AMOUNT_MINOR_MAX
from payrec.domain.identity import FINGERPRINT_BYTES
from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all

_LOCK_SPACE: Final = 0x7477_0000
"""First of the keys of the advisory locks by which requests that state the same content wait for each other."""

_LOCKS: Final = 64
"""How many there are: so few that a request of ten thousand lines may take all of them."""

_LOCK: Final = "SELECT pg_advisory_xact_lock(%s, hashtext(current_schema()))"

_KNOWN_BY: Final = f"""
    CASE WHEN {{row}}.external_id IS NOT NULL OR {{row}}.import_id IS NULL THEN {{row}}.identity
        WHEN substr({{row}}.identity, 1, {FINGERPRINT_BYTES}) = {{row}}.fingerprint THEN 'content' ELSE 'bank' END
"""
"""By what a line is known: by itself, by its content, or by its bank's id."""

_SIGNED: Final = "CASE {row}.direction WHEN 'credit' THEN {row}.amount_minor ELSE -{row}.amount_minor END"
_PART: Final = "({row}.group_key IS NOT NULL AND {row}.batch ->> 'itemised' = 'true')"
"""Whether a line is a detail of a batch; ``group_key`` is then what the bank calls the batch."""

_WHOLE: Final = "({row}.group_key IS NULL AND {row}.batch IS NOT NULL)"
"""Whether a line is a batch that came without its details, or with others than add up to it."""

_GROUP: Final = "coalesce({row}.bank_reference, encode({row}.fingerprint, 'hex'))"
"""What its details have as ``group_key``."""

_OF_ONE: Final = (
    "{row}.account IS NOT DISTINCT FROM {other}.account AND {row}.currency = {other}.currency"
    " AND {row}.booking_on = {other}.booking_on"
)
"""Whether a batch and details that name it are of the same account, currency and day: banks use their ids again."""

_WHOLE_OF: Final = f"""
    SELECT w.* FROM (
        SELECT * FROM incoming_transaction o
        -- A sum is of a type that no index has, and may be beyond what any line has.
        WHERE o.amount_minor = least(abs(g.minor), {AMOUNT_MINOR_MAX + 1})::bigint OFFSET 0
    ) w WHERE {_SIGNED.format(row="w")} = g.minor AND {_WHOLE.format(row="w")}
        AND {_GROUP.format(row="w")} = g.group_key AND {_OF_ONE.format(row="w", other="g")}
        -- What is only announced takes nothing from what is booked.
        AND (w.pending OR NOT g.pending)
"""  # noqa: S608 - our own text
"""The lines of a batch whose details ``g`` add up to ``minor``, by the index of amounts."""

# Contents are looked up one by one, by their index: the planner may know nothing yet of a table that has just grown.
_FLAG: Final = f"""
    WITH shared AS MATERIALIZED ({{shared}}), twin AS (
        SELECT t.id, t.fingerprint, t.identity, t.import_id, t.change_id, t.duplicate, t.single,
            t.account, t.currency, t.booking_on,
            CASE WHEN {_PART.format(row="t")} THEN t.group_key END AS part_of,
            CASE WHEN {_WHOLE.format(row="t")} THEN {_GROUP.format(row="t")} END AS whole_of,
            coalesce(a.allocated_minor, 0) > 0 AS settled,
            {_KNOWN_BY.format(row="t")} AS known_by
        FROM shared CROSS JOIN LATERAL (
            SELECT * FROM incoming_transaction o WHERE o.fingerprint = shared.fingerprint OFFSET 0
        ) t LEFT JOIN allocation a ON a.side = 2 AND a.transaction_id = t.id
        WHERE t.amount_minor > 0
    ), original AS (
        -- What has paid already stays the original. Else the identity decides, not which of them came first.
        SELECT DISTINCT ON (fingerprint) fingerprint, import_id, change_id, known_by FROM twin
        ORDER BY fingerprint, settled DESC, identity
    ), whole AS MATERIALIZED (
        SELECT w.id, g.*, coalesce(a.allocated_minor, 0) > 0 AS settled FROM (
            SELECT b.*, p.minor, p.pending FROM (
                SELECT DISTINCT coalesce(part_of, whole_of) AS group_key, account, currency, booking_on FROM twin
                WHERE coalesce(part_of, whole_of) IS NOT NULL
            ) b CROSS JOIN LATERAL (
                SELECT sum({_SIGNED.format(row="p")}) AS minor, bool_or(p.pending) AS pending FROM (
                    SELECT * FROM incoming_transaction o WHERE o.group_key = b.group_key OFFSET 0
                ) p WHERE {_PART.format(row="p")} AND {_OF_ONE.format(row="p", other="b")}
            ) p
        ) g CROSS JOIN LATERAL ({_WHOLE_OF}) w
        LEFT JOIN allocation a ON a.side = 2 AND a.transaction_id = w.id
    ), wrong AS (
        SELECT t.id, d.duplicate, {{older}} AS older
        FROM twin t JOIN original f ON f.fingerprint = t.fingerprint
        CROSS JOIN LATERAL (
            SELECT NOT t.single AND (t.known_by <> f.known_by AND (
                t.import_id IS DISTINCT FROM f.import_id OR (t.import_id IS NULL AND t.change_id <> f.change_id)
            ) OR t.id IN (SELECT id FROM whole WHERE NOT settled)
            OR (t.part_of, coalesce(t.account, ''), t.currency, t.booking_on) IN (
                SELECT group_key, coalesce(account, ''), currency, booking_on FROM whole WHERE settled
            )) AS duplicate
        ) d
        WHERE t.duplicate <> d.duplicate AND NOT t.settled
    ), held AS (
        SELECT * FROM (
            SELECT t.id, t.revision, to_jsonb(t) AS stated, w.duplicate, w.older
            FROM incoming_transaction t JOIN wrong w ON w.id = t.id ORDER BY t.id FOR UPDATE OF t
        ) h
    ), kept AS (
        INSERT INTO stated_row (side, transaction_id, until_change_id, revision, stated)
        SELECT 2, id, %(change_id)s, revision, stated FROM held WHERE older ON CONFLICT DO NOTHING
    ), stated AS (
        UPDATE incoming_transaction t SET duplicate = h.duplicate, revision = t.revision + h.older::int,
            updated_at = CASE WHEN h.older THEN %(at)s ELSE t.updated_at END
        FROM held h WHERE t.id = h.id
        RETURNING t.id, t.revision, t.duplicate
    ), open_held AS (
        SELECT * FROM (
            SELECT o.transaction_id, s.revision, s.duplicate
            FROM stated s JOIN incoming_open o ON o.transaction_id = s.id
            ORDER BY o.transaction_id FOR NO KEY UPDATE OF o
        ) h
    )
    UPDATE incoming_open o SET duplicate = h.duplicate, revision = h.revision
    FROM open_held h WHERE o.transaction_id = h.transaction_id
"""  # noqa: S608 - a number of our own
_FLAG_IMPORT: Final = _FLAG.format(
    shared=f"""
        SELECT n.fingerprint FROM incoming_transaction n CROSS JOIN LATERAL (
            SELECT 1 FROM incoming_transaction t
            WHERE t.fingerprint = n.fingerprint AND t.import_id IS DISTINCT FROM n.import_id LIMIT 1
        ) t
        WHERE n.import_id = %(import_id)s AND n.amount_minor > 0
        UNION SELECT n.fingerprint FROM incoming_transaction n
        WHERE n.import_id = %(import_id)s AND {_WHOLE.format(row="n")}
        UNION SELECT of_batch.fingerprint FROM (
            SELECT n.group_key, n.account, n.currency, n.booking_on, sum({_SIGNED.format(row="n")}) AS minor,
                bool_or(n.pending) AS pending
            FROM incoming_transaction n WHERE n.import_id = %(import_id)s AND {_PART.format(row="n")}
            GROUP BY n.group_key, n.account, n.currency, n.booking_on
        ) g CROSS JOIN LATERAL ({_WHOLE_OF}) w CROSS JOIN LATERAL (
            SELECT w.fingerprint
            UNION ALL SELECT p.fingerprint FROM (
                SELECT * FROM incoming_transaction o WHERE o.group_key = g.group_key OFFSET 0
            ) p WHERE p.import_id = %(import_id)s
        ) of_batch
    """,  # noqa: S608 - our own text
    older="t.import_id IS DISTINCT FROM %(import_id)s",
)
_FLAG_GIVEN: Final = _FLAG.format(
    shared="SELECT DISTINCT u.fingerprint FROM unnest(%(fingerprints)s::bytea[]) AS u (fingerprint)",
    older="t.change_id <> %(change_id)s",
)
# The rows go in the transaction that has stored them, so nobody else has ever seen them.
_REJECT: Final = f"""
    WITH twice AS (
        SELECT n.id FROM incoming_transaction n CROSS JOIN LATERAL (
            SELECT 1 FROM incoming_transaction t
            WHERE t.fingerprint = n.fingerprint AND t.import_id IS DISTINCT FROM n.import_id AND t.amount_minor > 0
                AND {_KNOWN_BY.format(row="t")} <> {_KNOWN_BY.format(row="n")} AND (n.pending OR NOT t.pending)
            LIMIT 1
        ) t
        WHERE n.import_id = %(import_id)s AND n.change_id = %(change_id)s AND n.amount_minor > 0
    ), closed AS (
        DELETE FROM incoming_open o USING twice WHERE o.transaction_id = twice.id
    )
    DELETE FROM incoming_transaction i USING twice WHERE i.id = twice.id RETURNING i.statement_index, i.line
"""  # noqa: S608 - our own text
_TWINS: Final = """
    SELECT DISTINCT ON (u.place) u.place, t.id, t.pending
    FROM unnest(%(fingerprints)s::bytea[], %(identities)s::bytea[]) WITH ORDINALITY
        AS u (fingerprint, identity, place)
    JOIN incoming_transaction t ON t.fingerprint = u.fingerprint AND t.identity <> u.identity
    WHERE t.amount_minor > 0 ORDER BY u.place, t.pending, t.identity
"""
_KEEP: Final = """
    WITH stated AS (
        UPDATE incoming_transaction SET duplicate = false, single = true, revision = revision + 1, updated_at = %(at)s
        WHERE id = %(id)s RETURNING id, revision
    )
    UPDATE incoming_open o SET duplicate = false, revision = s.revision FROM stated s WHERE o.transaction_id = s.id
"""


class DuplicateStore:
    """The flag of ``incoming_transaction`` and ``incoming_open``, and what it rests on."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def hold(self, fingerprints: Iterable[bytes]) -> None:
        """Wait, until the end of the transaction, for whoever states the same content by a request.

        Called before anything of it is stored, ``twins`` and ``flag``, so that of two at once the second sees what the
        first has stored. Uploads take no part: their rows are too many, and they look at the end of what they store.
        """
        for lock in sorted({fingerprint[0] % _LOCKS for fingerprint in fingerprints}):
            await self._connection.execute(_LOCK, (_LOCK_SPACE + lock,))

    async def reject_import(self, import_id: UUID, *, change_id: UUID) -> list[dict[str, Any]]:
        """Take back those new lines of an import whose content is stored already: ``statement_index, line`` of each.

        A booking is never refused for what was only announced.
        """
        return await fetch_all(self._connection, _REJECT, {"import_id": import_id, "change_id": change_id})

    async def flag_import(self, import_id: UUID, *, change_id: UUID, at: datetime) -> None:
        """Flag lines of an import, and others of their content: all but the first by identity."""
        parameters = {"import_id": import_id, "change_id": change_id, "at": at}
        await self._connection.execute(_FLAG_IMPORT.encode(), parameters)

    async def flag(self, fingerprints: Sequence[bytes], *, change_id: UUID, at: datetime) -> None:
        """Flag lines of these contents, as ``flag_import``, of which ``change_id`` has stored some."""
        parameters = {"fingerprints": list(fingerprints), "change_id": change_id, "at": at}
        await self._connection.execute(_FLAG_GIVEN.encode(), parameters)

    async def twins(self, fingerprints: Sequence[bytes], identities: Sequence[bytes]) -> dict[int, dict[str, Any]]:
        """Return by its place, of each content that is stored under another identity, that line: ``id, pending``.

        A booked one, if there is any.
        """
        parameters = {"fingerprints": list(fingerprints), "identities": list(identities)}
        return {row["place"] - 1: row for row in await fetch_all(self._connection, _TWINS, parameters)}

    async def keep(self, transaction_id: UUID, *, at: datetime) -> None:
        """Take a line for no duplicate from now on, whatever comes; called after ``keep_stated``."""
        await self._connection.execute(_KEEP.encode(), {"id": transaction_id, "at": at})
