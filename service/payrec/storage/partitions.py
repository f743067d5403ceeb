"""The partitions of matches and legs, made when the first run needs them.

Not at provisioning: for every partition that it makes, PostgreSQL reads all of ``pg_constraint`` (for foreign keys to
the parent; no index helps), which at a thousand environments takes longer than all other tables together.
"""

from __future__ import annotations

from typing import Final

from payrec.storage.database import Connection
from payrec.storage.rows import fetch_one

_PARTITIONED: Final = ("match", "leg")


async def ensure_partitions(connection: Connection) -> None:
    """Make the default partitions of the environment's matches and legs unless they are there."""
    for table in _PARTITIONED:
        row = await fetch_one(connection, "SELECT to_regclass(%s) IS NULL AS missing", (f"{table}_default",))
        if row is not None and row["missing"]:
            await connection.execute(
                f'CREATE TABLE IF NOT EXISTS "{table}_default" PARTITION OF "{table}" DEFAULT'.encode()
            )
