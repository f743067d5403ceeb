"""What a transaction needs that adds up what may be millions of rows."""

from __future__ import annotations

from typing import Final

from payrec.constants.reports import REPORT_MEMORY_MIB, REPORT_SECONDS_MAX
from payrec.storage.database import Connection

_SETTINGS: Final = "; ".join(
    f"SET LOCAL {setting}"
    for setting in (
        f"work_mem = '{REPORT_MEMORY_MIB}MB'",
        "jit = off",
        "parallel_tuple_cost = 0.01",
        f"statement_timeout = '{REPORT_SECONDS_MAX}s'",
    )
)


async def prepare_adding_up(connection: Connection) -> None:
    """Give the transaction memory for joins, no time spent on compiling, and an end to each of its statements."""
    await connection.execute(_SETTINGS.encode(), prepare=False)
