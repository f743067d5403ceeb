"""Tables of one transaction: temporary ones, and on Citus tables beside the environment's own.

On Citus (decision 12) an environment's tables are on a worker, and a temporary table is where the client is: hardly a
statement may use both. So there it is an unlogged table of the environment's schema, which the same worker has, and
which the transaction that has made it drops. Whoever makes one of that name meanwhile waits.
"""

from __future__ import annotations

import re
from typing import Final

from payrec.storage.database import Connection
from payrec.storage.ddl import statements_of

_CREATE: Final = re.compile(r"\bCREATE TEMPORARY TABLE (\w+)")
_END: Final = " ON COMMIT DROP"


async def make_temporary(connection: Connection, script: str) -> None:
    """Run a script that makes tables with ``CREATE TEMPORARY TABLE name … ON COMMIT DROP``."""
    if not connection.is_distributed:
        await connection.execute(script.encode(), prepare=False)
        return
    connection.dropped_at_commit += _CREATE.findall(script)
    # A worker takes one statement at a time.
    for statement in statements_of(_CREATE.sub(r"CREATE UNLOGGED TABLE \1", script).replace(_END, "")):
        await connection.execute(statement.encode(), prepare=False)
