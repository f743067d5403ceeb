"""Decisions of a file: staged, found by what they name, and stored as sets by who decides alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from payrec.constants.match_imports import CREATED_BY_IMPORT
from payrec.storage.allocations import CLOSED, OPEN_TABLES, Side, allocated, hold_decisions
from payrec.storage.database import Connection
from payrec.storage.history import allocations_logged
from payrec.storage.loading import analyze_grown, copy_rows
from payrec.storage.match_bulk import ALLOCATED_BY_STATUS, Allocated, close_taken
from payrec.storage.match_proposals import WORK_MEMORY_MIB
from payrec.storage.rows import array_text, fetch_all, fetch_one
from payrec.storage.temporary import make_temporary
from payrec.tables.match_imports import ImportedMatch
from payrec.tables.matches import Leg, Match

_BEGIN: Final = f"""
    SET LOCAL work_mem = '{WORK_MEMORY_MIB}MB';
    CREATE TEMPORARY TABLE given_decision (
        ordinal integer, line integer, match_id uuid, decided_at timestamptz, decided_by text, reviewed boolean,
        reason text, has_legs boolean, adjustments jsonb
    ) ON COMMIT DROP;
    CREATE TEMPORARY TABLE given_leg (
        ordinal integer, place smallint, expected_external_id text, incoming_external_id text, account text,
        booking_on date, line_minor bigint, currency text, direction text, end_to_end_id text, bank_reference text,
        minor bigint, settled_minor bigint
    ) ON COMMIT DROP;
    CREATE TEMPORARY TABLE given_taken (side smallint, id uuid, amount bigint, taken bigint) ON COMMIT DROP;
    CREATE INDEX given_taken_by_id ON given_taken (id)
"""
# A line without an externalId is named by what its bank says of it: all that is said, and of one line alone. What lines
# say is counted before anybody is compared with it, because thousands of one day may be of one amount.
_SAID: Final = ("account", "currency", "direction", "end_to_end_id", "bank_reference")
_SAYS: Final = " + ".join(f"({name} IS NOT NULL)::integer * {2**bit}" for bit, name in enumerate(_SAID))
_AS_SAID: Final = ", ".join(
    f"CASE WHEN w.says & {2**bit} > 0 THEN coalesce(i.{name}, '') ELSE '' END AS {name}"
    for bit, name in enumerate(_SAID)
)
_SAME: Final = " AND ".join(f"f.{name} = coalesce(l.{name}, '')" for name in _SAID)
_FIND: Final = f"""
    CREATE TEMPORARY TABLE found_leg ON COMMIT DROP AS
    WITH leg AS (
        SELECT *, CASE WHEN incoming_external_id IS NULL THEN {_SAYS} END AS says FROM given_leg
    ), line AS (
        SELECT booking_on, amount_minor, says, {", ".join(_SAID)}, count(*) AS lines, any_value(id) AS id
        FROM (
            SELECT i.id, i.booking_on, i.amount_minor, w.says, {_AS_SAID}
            FROM (SELECT DISTINCT booking_on, line_minor, says FROM leg WHERE says IS NOT NULL) w
            JOIN incoming_transaction i ON i.booking_on = w.booking_on AND i.amount_minor = w.line_minor
        ) s GROUP BY booking_on, amount_minor, says, {", ".join(_SAID)}
    )
    SELECT l.ordinal, l.place, l.minor, l.settled_minor, l.currency, e.id AS expected_id,
        coalesce(x.id, CASE WHEN f.lines = 1 THEN f.id END) AS incoming_id, coalesce(f.lines, 0) AS lines
    FROM leg l
    LEFT JOIN expected_transaction e ON e.external_id = l.expected_external_id
    LEFT JOIN incoming_transaction x ON x.external_id = l.incoming_external_id
    LEFT JOIN line f ON f.booking_on = l.booking_on AND f.amount_minor = l.line_minor AND f.says = l.says AND {_SAME};
    CREATE INDEX found_leg_by_ordinal ON found_leg (ordinal);
    CREATE INDEX given_decision_by_ordinal ON given_decision (ordinal);
    ANALYZE found_leg; ANALYZE given_decision
"""  # noqa: S608 - our own text
_HOLD: Final = """
    SELECT 1 FROM allocation WHERE side = {side} AND transaction_id IN (SELECT {column} FROM found_leg)
    ORDER BY transaction_id FOR UPDATE
"""
_HOLD_OPEN: Final = """
    SELECT 1 FROM {table} WHERE transaction_id IN (SELECT {column} FROM found_leg) ORDER BY transaction_id FOR UPDATE
"""
_SHUT: Final = ", ".join(f"'{status}'" for status in sorted(CLOSED))
_ENDS_OF_LEGS: Final = {Side.EXPECTED: "expected_id", Side.INCOMING: "incoming_id"}
# All but what has to be looked at by itself: several legs, adjustments, what competes with others of the file, is not
# open, goes the wrong way or is there twice.
_FREE: Final = f"""
    CREATE TEMPORARY TABLE free_decision ON COMMIT DROP AS
    WITH leg AS (
        SELECT l.ordinal, l.minor, l.expected_id, l.incoming_id, e.currency, i.booking_on,
            e.revision AS expected_revision, i.revision AS incoming_revision,
            e.amount_minor - e.settled_before_minor AS expected_minor, i.amount_minor AS incoming_minor,
            coalesce(ea.amount_minor - ea.allocated_minor, e.amount_minor - e.settled_before_minor) AS expected_left,
            coalesce(ia.amount_minor - ia.allocated_minor, i.amount_minor) AS incoming_left,
            decode(md5(concat(l.expected_id, ' ', l.incoming_id, ' ', l.minor)), 'hex') AS content_key,
            d.adjustments IS NULL AND NOT d.has_legs AND coalesce(l.settled_minor, l.minor) = l.minor
                AND e.direction = i.direction AND e.currency = i.currency AND NOT i.pending
                AND coalesce(l.currency, i.currency) = i.currency
                AND coalesce(ea.status, 'open') NOT IN ({_SHUT})
                AND coalesce(ia.status, 'unmatched') NOT IN ({_SHUT}) AS is_plain
        FROM found_leg l JOIN given_decision d ON d.ordinal = l.ordinal
        JOIN expected_transaction e ON e.id = l.expected_id JOIN incoming_transaction i ON i.id = l.incoming_id
        LEFT JOIN allocation ea ON ea.side = 1 AND ea.transaction_id = e.id
        LEFT JOIN allocation ia ON ia.side = 2 AND ia.transaction_id = i.id
    ), looked_at AS (
        SELECT *, count(*) OVER (PARTITION BY content_key) = 1 AS is_single,
            sum(minor) OVER of_item <= expected_left AND bool_and(is_plain) OVER of_item AS item_fits,
            sum(minor) OVER of_line <= incoming_left AND bool_and(is_plain) OVER of_line AS line_fits
        FROM leg WINDOW of_item AS (PARTITION BY expected_id), of_line AS (PARTITION BY incoming_id)
    )
    SELECT l.*, d.match_id FROM looked_at l JOIN given_decision d ON d.ordinal = l.ordinal
    WHERE is_plain AND is_single AND item_fits AND line_fits
        AND NOT EXISTS (SELECT FROM imported_match p WHERE p.content_key = l.content_key)
"""  # noqa: S608 - our own text
_ADD_FREE: Final = """
    WITH free AS (
        SELECT f.*, d.decided_at, d.decided_by, d.reason, d.reviewed
        FROM free_decision f JOIN given_decision d ON d.ordinal = f.ordinal ORDER BY f.ordinal
    ), matches AS (
        INSERT INTO match (id, amount_minor, created_at, updated_at, decided_at, effective_on, score, status, kind,
            confidence, uniqueness, currency, created_by, decided_by, decision_reason, created_change_id)
        SELECT match_id, minor, %(at)s, %(at)s, decided_at, booking_on, %(score)s, %(status)s, 'one_to_one',
            %(confidence)s, %(uniqueness)s, currency, %(created_by)s, decided_by, reason, %(change_id)s FROM free
    ), legs AS (
        INSERT INTO leg (match_id, ordinal, expected_id, incoming_id, valid_from, amount_minor, settled_minor,
            expected_revision, incoming_revision, settled_currency)
        SELECT match_id, 0, expected_id, incoming_id, %(change_id)s, minor, minor, expected_revision,
            incoming_revision, currency FROM free
    ), taken AS (
        INSERT INTO given_taken (side, id, amount, taken)
        SELECT 1, expected_id, expected_minor, minor FROM free UNION ALL
        SELECT 2, incoming_id, incoming_minor, minor FROM free
    ), gone AS (
        DELETE FROM given_decision d USING free_decision f WHERE d.ordinal = f.ordinal
    )
    INSERT INTO imported_match (match_id, import_id, imported_at, reviewed, content_key, imported_by)
    SELECT match_id, %(import_id)s, %(at)s, reviewed, content_key, %(imported_by)s FROM free
"""
_FREE_IDS: Final = "SELECT array_agg(match_id::text ORDER BY ordinal) AS ids FROM free_decision"
_DECISIONS: Final = "SELECT * FROM given_decision WHERE ordinal > %s ORDER BY ordinal LIMIT %s"
_LEGS: Final = """
    SELECT l.* FROM found_leg l JOIN given_decision d ON d.ordinal = l.ordinal
    WHERE d.ordinal > %s AND d.ordinal <= %s ORDER BY l.ordinal, l.place
"""
_TAKEN: Final = """
    SELECT side, id, sum(taken)::bigint AS taken FROM given_taken WHERE id = ANY(%s::uuid[]) GROUP BY side, id
"""
_KNOWN: Final = "SELECT content_key FROM imported_match WHERE content_key = ANY(%s)"
_ALL_TAKEN: Final = """(
    SELECT side, id, max(amount) AS amount, sum(taken)::bigint AS taken FROM given_taken GROUP BY side, id
)"""
_TAKE: Final = {
    are_new: allocations_logged(
        allocated(_ALL_TAKEN, are_new=are_new),
        of=None if are_new else "a.transaction_id IN (SELECT id FROM given_taken)",
        alone=True,
    )
    + ALLOCATED_BY_STATUS
    for are_new in (False, True)
}


class MatchImportStore:
    """Stores decisions in the transaction of ``connection``: its methods are called in the order in which they are."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def begin(self) -> None:
        """Make the tables in which things are staged."""
        await make_temporary(self._connection, _BEGIN)

    async def stage(self, decisions: Sequence[Mapping[str, Any]], legs: Sequence[Mapping[str, Any]]) -> None:
        """Stage decisions as they were given, with their legs; both by ``ordinal``."""
        await copy_rows(self._connection, "given_decision", decisions)
        await copy_rows(self._connection, "given_leg", legs)

    async def find(self) -> None:
        """Find the transactions that the legs name."""
        await self._connection.execute(b"ANALYZE given_leg", prepare=False)
        await make_temporary(self._connection, _FIND)

    async def hold(self) -> bool:
        """Decide alone from now on, with all that was found held; tell whether none of it has an allocation yet."""
        await hold_decisions(self._connection, alone=True)
        held = 0
        for side, column in _ENDS_OF_LEGS.items():
            query = _HOLD.format(side=int(side), column=column)
            held += (await self._connection.execute(query.encode())).rowcount
        for side, column in _ENDS_OF_LEGS.items():
            await self._connection.execute(_HOLD_OPEN.format(table=OPEN_TABLES[side], column=column).encode())
        return not held

    async def add_free(
        self, *, import_id: UUID, change_id: UUID, at: datetime, actor: str, unscored: Mapping[str, Any]
    ) -> list[str]:
        """Store the matches of plain decisions that nothing keeps from being stored; return their ids, in their order.

        ``unscored`` are the columns of a match that nobody has looked for. What is left is what ``decisions`` returns.
        """
        await make_temporary(self._connection, _FREE)
        parameters = {
            **unscored,
            "import_id": import_id,
            "change_id": change_id,
            "at": at,
            "created_by": CREATED_BY_IMPORT,
            "imported_by": actor,
        }
        await self._connection.execute(_ADD_FREE, parameters, prepare=False)
        row = await fetch_one(self._connection, _FREE_IDS)
        return row["ids"] or [] if row is not None else []

    async def decisions(self, *, after: int, limit: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the next decisions after an ordinal, and their legs with what was found."""
        rows = await fetch_all(self._connection, _DECISIONS, (after, limit))
        legs = await fetch_all(self._connection, _LEGS, (after, rows[-1]["ordinal"])) if rows else []
        return rows, legs

    async def taken(self, ids: Collection[UUID]) -> dict[tuple[Side, UUID], int]:
        """Return what earlier decisions of the file take of transactions."""
        rows = await fetch_all(self._connection, _TAKEN, (array_text(ids),))
        return {(Side(row["side"]), row["id"]): row["taken"] for row in rows}

    async def known(self, keys: Sequence[bytes]) -> set[bytes]:
        """Return those of these decisions that are stored, also by this transaction."""
        return {bytes(row["content_key"]) for row in await fetch_all(self._connection, _KNOWN, (list(keys),))}

    async def add(
        self,
        *,
        matches: Sequence[Mapping[str, Any]],
        legs: Sequence[Mapping[str, Any]],
        imported: Sequence[Mapping[str, Any]],
        taken: Sequence[Mapping[str, Any]],
    ) -> None:
        """Store matches that are accepted; what they take is allocated by ``take``, of all together."""
        await copy_rows(self._connection, str(Match.__tablename__), matches)
        await copy_rows(self._connection, str(Leg.__tablename__), legs)
        await copy_rows(self._connection, str(ImportedMatch.__tablename__), imported)
        await copy_rows(self._connection, "given_taken", taken)

    async def take(self, *, are_new: bool, change_id: UUID, at: datetime) -> list[Allocated]:
        """Allocate what was added, and close what it leaves nothing of; ``are_new`` is what ``hold`` has told.

        Raises
        ------
        AlreadyMatchedError
            Through the constraint ``allocation_within_amount``.
        """
        await self._connection.execute(b"ANALYZE given_taken", prepare=False)
        parameters = {"closed": list(CLOSED), "change_id": change_id, "at": at}
        rows = await fetch_all(self._connection, _TAKE[are_new], parameters)
        return await close_taken(self._connection, rows, change_id=change_id)

    async def has_proposals(self) -> bool:
        """Tell whether there is any proposal, which might have lost its amounts."""
        query = "SELECT EXISTS (SELECT FROM match WHERE status = 'proposed') AS found"
        row = await fetch_one(self._connection, query)
        return row is not None and row["found"]

    async def finish(self, rows: int) -> None:
        """Let the planner know of so many new rows, before anybody sees them."""
        await analyze_grown(self._connection, "match_default", "leg_default", "allocation", "imported_match", rows=rows)
