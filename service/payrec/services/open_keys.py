"""The keys that earlier versions of the code have made of open transactions, made anew before a run reads them.

An earlier version may have read a reference, a number or a period otherwise than this one, and both sides of a match
have to be read alike: what is compared would otherwise be equal, or differ, by when it was stored.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from payrec.domain.scope import TenantScope
from payrec.storage.allocations import Side
from payrec.storage.database import Database
from payrec.storage.open_keys import OpenKeyStore
from payrec.storage.open_rows import stated_open_row

ROWS_AT_ONCE: Final = 2_000
"""Open rows that one transaction holds meanwhile."""


async def remake_keys(database: Database, scope: TenantScope) -> int:
    """Make the keys of earlier versions anew, some rows at a time; return of how many rows they were."""
    found = 0
    for side in Side:
        while True:
            async with database.tenant(scope) as connection:
                store = OpenKeyStore(connection)
                rows = await store.stale(side, limit=ROWS_AT_ONCE)
                if rows:
                    await store.rekey(side, await asyncio.to_thread(_made, side, rows), revised=False)
            found += len(rows)
            if len(rows) < ROWS_AT_ONCE:
                break
    return found


def _made(side: Side, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [stated_open_row(side, row) for row in rows]
