"""Rounds: the same work in one tenant environment after the other, where one that fails holds up no other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from payrec.domain.scope import TenantScope
from payrec.errors import UnavailableError
from payrec.services.work import Work
from payrec.storage.tenants import TenantStore, scope_of


async def go_on(work: Work, error: Exception) -> None:
    """Let a round go on after an environment where it failed, unless the database is away for everybody.

    Each of them would wait as long for a connection as the first, and what was counted without them would be wrong.

    Raises
    ------
    UnavailableError
    """
    if isinstance(error, UnavailableError):
        await work.database.ping()


async def in_each_active(work: Work, do: Callable[[TenantScope], Awaitable[int]], *, logger: Any, failed: str) -> int:
    """Do what is due in every environment that is ready and not suspended; return how much that was in all.

    One where it fails is told in the log as ``failed``, and comes again in the next round.

    Raises
    ------
    UnavailableError
        The database is away.
    """
    async with work.database.control(readonly=True) as connection:
        rows = await TenantStore(connection).scopes()
    count = 0
    for row in rows:
        if row["revision"] is None or {row["tenant_status"], row["status"]} != {"active"}:
            continue
        try:
            count += await do(scope_of(row))
        except Exception as error:
            logger.exception(failed, environment_id=str(row["environment_id"]))
            await go_on(work, error)
    return count
