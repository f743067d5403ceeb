"""Environments whose tables are not this image's yet, as while an upgrade goes on: what fails by that is told as that.

Apart from ``database.py``, whose doors it stands in, because who knows the revisions makes use of these.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

import psycopg

from payrec.errors import UnavailableError

if TYPE_CHECKING:
    from payrec.storage.database import Connection


@asynccontextmanager
async def told_if_behind(begun: Callable[[], AbstractAsyncContextManager[Connection]]) -> AsyncIterator[Connection]:
    """Lend the transaction that ``begun`` makes in an environment; say where what it refuses is that tables are behind.

    A column, a table or a function may be missing, or a constraint may not know a value yet: trying again helps then.
    Where the tables are those of this image, or of a newer one, it is a defect, and told as one. Who may not enter at
    all is told that: the environment cannot be looked into either.

    Raises
    ------
    UnavailableError
    """
    entered = False
    try:
        async with begun() as connection:
            entered = True
            yield connection
    except (psycopg.ProgrammingError, psycopg.IntegrityError) as error:
        if not entered:
            raise
        async with begun() as connection:
            if not await _is_behind(connection):
                raise
        raise UnavailableError("the environment has not been migrated to this version yet") from error


async def _is_behind(connection: Connection) -> bool:
    # Both need the doors.
    from payrec.storage.migrations import head, is_ahead  # noqa: PLC0415 - see above
    from payrec.storage.provisioning import revision_in  # noqa: PLC0415 - see above

    revision = await revision_in(connection)
    return revision is not None and revision != head("tenant") and not is_ahead("tenant", revision)
