"""One transaction for all that is asked of the database after the engine has decided; often nobody has a question."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from payrec.domain.scope import TenantScope
from payrec.storage.database import Connection, Database

Ask = Callable[[], Awaitable[Connection]]


@asynccontextmanager
async def asking(database: Database, scope: TenantScope) -> AsyncIterator[Ask]:
    """Lend what begins the transaction with the first question, and returns its connection to each."""
    async with AsyncExitStack() as door:
        begun: list[Connection] = []

        async def ask() -> Connection:
            if not begun:
                begun.append(await door.enter_async_context(database.tenant(scope, readonly=True)))
            return begun[0]

        yield ask
