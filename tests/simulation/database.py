"""The doors with points in them: where a transaction begins, before its statements, and before and after its commit."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from psycopg import AsyncCursor
from psycopg.rows import DictRow

from payrec.storage.database import Connection, Database
from simulation.scheduler import Death, current, point
from support.mortal_workers import opener

STATEMENT_OFTEN: Final = 0.06
"""How many of the statements others come between."""
BEGIN_OFTEN: Final = 0.3
"""How many of the beginnings others come before."""


class SteppedCursor(AsyncCursor[DictRow]):
    """Has a point before each statement."""

    async def execute(self, *given: Any, **more: Any) -> Any:
        await point("a statement", often=STATEMENT_OFTEN)
        return await super().execute(*given, **more)


class SteppedDatabase(Database):
    """The same doors for processes that the scheduler runs; for everybody else as ever."""

    @asynccontextmanager
    async def _transaction(self, pool: Any, begin: bytes) -> AsyncIterator[Connection]:
        process = current()
        if process is None:
            async with super()._transaction(pool, begin) as connection:
                yield connection
            return
        name, writes = opener(sys._getframe()), b"READ WRITE" in begin
        await point(f"{name} before it begins", often=BEGIN_OFTEN)
        connection = None
        try:
            async with super()._transaction(pool, begin) as connection:
                process.connections.add(connection)
                connection.cursor_factory = SteppedCursor
                yield connection
                if writes:
                    await point(f"{name} before its commit")
                connection.cursor_factory = AsyncCursor
        finally:
            if connection is not None:
                connection.cursor_factory = AsyncCursor
                process.connections.discard(connection)
        if writes:
            await point(f"{name} after its commit")


def is_death(error: BaseException) -> bool:
    """Tell whether this is the death of a process, perhaps in a group of what it has ended."""
    if isinstance(error, BaseExceptionGroup):
        return any(is_death(one) for one in error.exceptions)
    return isinstance(error, Death)
