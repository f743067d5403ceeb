"""What a door's transaction begins with: BEGIN and all that it sets, in one message."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from psycopg import sql

IDLE_TRANSACTION_SECONDS_MAX: Final = 120.0
"""How long a transaction that may write waits for its next statement before the database ends it. Whoever opened it
hangs, or is on a machine that is gone without a word, and others would wait for what it holds as long as TCP does."""

MEMBERSHIPS_ANEW: Final = b"SELECT pg_has_role('pg_monitor', 'pg_read_all_stats', 'SET')"
"""Has a session forget which roles it may become. It keeps the list until a role changes, and when others grant theirs
while it makes the list, it may keep one without these: PostgreSQL caches one role's list, so another's takes its place.
"""

_ALONE: Final = "; SET LOCAL max_parallel_workers_per_gather = 0"
"""Of all but a snapshot, which is for what reads much: a request reads little, and takes longer to begin a second
process than to read it."""

_SNAPSHOT: Final = sql.SQL(" ISOLATION LEVEL REPEATABLE READ")
_PLANNED_ONCE: Final = "; SET LOCAL plan_cache_mode = force_generic_plan"


@lru_cache(maxsize=8192)
def beginning(
    role: str, search_path: str, *, readonly: bool, snapshot: bool | str = False, planned_once: bool = False
) -> bytes:
    """Return BEGIN with everything that a door sets, as one message of the simple query protocol."""
    template = sql.SQL("BEGIN{isolation} {access}; {view}SET LOCAL ROLE {role}; SET LOCAL search_path = {path}{more}")
    bound = f"; SET LOCAL idle_in_transaction_session_timeout = {IDLE_TRANSACTION_SECONDS_MAX * 1000:.0f}"
    view = sql.SQL("SET TRANSACTION SNAPSHOT {}; ").format(snapshot) if isinstance(snapshot, str) else sql.SQL("")
    return template.format(
        isolation=_SNAPSHOT if snapshot else sql.SQL(""),
        view=view,
        access=sql.SQL("READ ONLY" if readonly else "READ WRITE"),
        role=sql.Identifier(role),
        path=sql.Identifier(search_path),
        more=sql.SQL(
            ("" if snapshot else _ALONE) + (_PLANNED_ONCE if planned_once else "") + ("" if readonly else bound)
        ),
    ).as_bytes(None)


def beginning_anew(begin: bytes) -> bytes:
    """Return the message that ends what ``begin`` has failed in, and begins with the memberships as they are now."""
    return b"ROLLBACK; BEGIN; " + MEMBERSHIPS_ANEW + b"; COMMIT; " + begin


def bounded_on_workers(milliseconds: int) -> bytes:
    """Return the message that bounds by so much how long a transaction waits for a lock on the workers of Citus.

    What is set on the coordinator holds there alone, unless it is told to pass it on.
    """
    there = "SET LOCAL citus.propagate_set_commands = 'local'; SET LOCAL lock_timeout = {}"
    return f"{there.format(milliseconds)}; SET LOCAL citus.propagate_set_commands = 'none'".encode()
