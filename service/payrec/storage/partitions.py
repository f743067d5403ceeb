"""The partitions of matches and legs, made when a run needs them.

Not at provisioning: for every partition that it makes, PostgreSQL reads all of ``pg_constraint`` (for foreign keys to
the parent; no index helps), which at a thousand environments takes longer than all other tables together.

The default partitions take what people and ordinary runs write. A big run gets partitions of its own for the ids of its
matches, which are one block, and their indexes are made when its rows are in: row by row they took five times as long.
So these indexes belong to each partition, because a new one gets at once what belongs to the whole table.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from psycopg import sql
from psycopg.errors import LockNotAvailable

from payrec.storage.database import Connection
from payrec.storage.deductions import HAS_DEDUCTION
from payrec.storage.rows import fetch_all, fetch_one

OWN_MATCHES_MIN: Final = 50_000
"""Matches of a run that gets its own partitions."""

OWN_PARTITIONS_MAX: Final = 16
"""Partitions of either table beside the default: whoever looks for the legs of a transaction looks into each of them.
Beyond it, big runs too write into the default."""

LOCK_MILLISECONDS_MAX: Final = 2_000
"""How long a big run waits until nobody reads the default partition; beyond it, it writes there."""

NEXT_LOCK_MILLISECONDS_MAX: Final = 200
"""The same when it has locked one table already: who has read another one may wait for it meanwhile, and PostgreSQL
breaks off either of them when a second of that is over (``deadlock_timeout``)."""

INDEX_MEMORY_MIB: Final = 256
"""Memory for making an index of a big run's rows."""

_INDEXES: Final = {
    "match": {
        "by_status": "(status, id) WHERE status <> 'accepted'",
        # Smaller than all of them in the other one, and made more quickly.
        "by_accepted": "(id) WHERE status = 'accepted'",
        # The matches of a run lie beside each other.
        "by_run": "USING brin (run_id)",
        # What has changed since an instant.
        "by_change": "(change_id) WHERE change_id IS NOT NULL",
        # What was held back is few, and is still asked for.
        "by_deduction": f"(id) WHERE {HAS_DEDUCTION}",
        # What waits for a person, in the order of the money at stake.
        "by_stake": "(currency, amount_minor, score, id) WHERE status = 'proposed'",
    },
    "leg": {
        f"by_{name}": f"({name}_id) WHERE {name}_id IS NOT NULL"
        for name in ("expected", "incoming", "contra_expected", "contra_incoming")
    },
}
_MAKE_ALONE: Final = b"SELECT pg_advisory_xact_lock(hashtext('match_default'), hashtext(current_schema()))"
_DEFAULTS: Final = """
    SELECT relname AS name FROM pg_class WHERE relname = ANY(%s) AND relnamespace = current_schema()::regnamespace
"""
_OWN: Final = """
    SELECT c.relname AS name FROM pg_inherits h JOIN pg_class c ON c.oid = h.inhrelid
    WHERE h.inhparent = to_regclass(%s) AND c.relname <> %s ORDER BY c.relname
"""


async def ensure_partitions(connection: Connection) -> None:
    """Make the default partitions of the environment's matches and legs unless they are there.

    They are made beside both tables and attached, which keeps nobody from reading or writing these: who locks them in
    another order than here would otherwise wait in a circle.
    """
    if not await _missing(connection):
        return
    # Whoever makes the first match at the same time waits here, and finds them made.
    await connection.execute(_MAKE_ALONE)
    for table in await _missing(connection):
        await _attach(connection, table, "default", sql.SQL("DEFAULT"))
        await _index(connection, table, "default")


async def has_partitions(connection: Connection) -> bool:
    """Tell whether there are the default partitions, so that nobody has to make them."""
    return not await _missing(connection)


async def _missing(connection: Connection) -> list[str]:
    """Return the tables that have no default partition, as the catalogue says now and not as it was remembered."""
    rows = await fetch_all(connection, _DEFAULTS, ([f"{table}_default" for table in _INDEXES],))
    made = {row["name"] for row in rows}
    return [table for table in _INDEXES if f"{table}_default" not in made]


async def make_own_partitions(connection: Connection, first: UUID, end: UUID) -> bool:
    """Make empty partitions for the matches from ``first`` until before ``end`` and their legs, as yet without indexes.

    To be committed before the run's own transaction, which everybody who accepts waits for: attaching locks the default
    partitions. Return whether they were made: not when there are too many, or others hold the tables for long.
    """
    try:
        async with connection.transaction():
            await connection.execute(f"SET LOCAL lock_timeout = {LOCK_MILLISECONDS_MAX}".encode())
            await connection.execute(b"LOCK TABLE match_default IN ACCESS EXCLUSIVE MODE")
            await connection.execute(f"SET LOCAL lock_timeout = {NEXT_LOCK_MILLISECONDS_MAX}".encode())
            for table in _INDEXES:
                if not await _has_room(connection, table):
                    return False
            bounds = sql.SQL("FOR VALUES FROM ({}) TO ({})").format(*(sql.Literal(str(one)) for one in (first, end)))
            for table in _INDEXES:
                await _attach(connection, table, first.hex, bounds)
    except LockNotAvailable:
        return False
    return True


async def index_own_partitions(connection: Connection, first: UUID) -> None:
    """Make the indexes of the partitions that begin with this id, when all their rows are in."""
    await connection.execute(f"SET LOCAL maintenance_work_mem = '{INDEX_MEMORY_MIB}MB'".encode())
    for table in _INDEXES:
        await _index(connection, table, first.hex)


async def _has_room(connection: Connection, table: str) -> bool:
    """Drop partitions of runs that came to nothing, and tell whether another one is allowed."""
    own = await fetch_all(connection, _OWN, (table, f"{table}_default"))
    for row in own:
        name = sql.Identifier(row["name"])
        # Locked first, because another worker may be filling it.
        await connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(name))
        found = await fetch_one(connection, sql.SQL("SELECT EXISTS (SELECT 1 FROM {}) AS used").format(name))
        if found is not None and not found["used"]:
            await connection.execute(sql.SQL("DROP TABLE {}").format(name))
            own = [other for other in own if other is not row]
    return len(own) < OWN_PARTITIONS_MAX


async def _attach(connection: Connection, table: str, suffix: str, bounds: sql.Composable) -> None:
    parent, name = sql.Identifier(table), sql.Identifier(f"{table}_{suffix}")
    await connection.execute(sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)").format(name, parent))
    await connection.execute(sql.SQL("ALTER TABLE {} ATTACH PARTITION {} {}").format(parent, name, bounds))


async def _index(connection: Connection, table: str, suffix: str) -> None:
    for name, definition in _INDEXES[table].items():
        await connection.execute(f'CREATE INDEX "{table}_{name}_{suffix}" ON "{table}_{suffix}" {definition}'.encode())
