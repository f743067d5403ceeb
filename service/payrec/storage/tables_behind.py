"""Environments whose tables are not this image's yet, as while an upgrade goes on: what fails by that is told as that.

Apart from ``database.py``, whose doors it stands in, because who knows the revisions makes use of these.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import psycopg

from payrec.domain.scope import TenantScope
from payrec.errors import UnavailableError

if TYPE_CHECKING:
    from payrec.storage.database import Database


@asynccontextmanager
async def told_if_behind(database: Database, scope: TenantScope) -> AsyncIterator[None]:
    """Say of what an environment's tables refuse that they are behind, where they are: trying again helps then.

    A column, a table or a function may be missing, or a constraint may not know a value yet. Where the tables are
    those of this image, or of a newer one, it is a defect, and told as one.

    Raises
    ------
    UnavailableError
    """
    try:
        yield
    except (psycopg.ProgrammingError, psycopg.IntegrityError) as error:
        if not await _is_behind(database, scope):
            raise
        raise UnavailableError("the environment has not been migrated to this version yet") from error


async def _is_behind(database: Database, scope: TenantScope) -> bool:
    # Both need the doors.
    from payrec.storage.migrations import head, is_ahead  # noqa: PLC0415 - see above
    from payrec.storage.provisioning import revision_in  # noqa: PLC0415 - see above

    async with database.tenant(scope, readonly=True) as connection:
        revision = await revision_in(connection)
    return revision is not None and revision != head("tenant") and not is_ahead("tenant", revision)
