"""Why a transaction is open, as the last run said: the number of a ``Reason``, beside its open row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from payrec.domain.matching.rules import Reason
from payrec.storage.database import Connection

_CODES: Final = {reason.value: reason.code for reason in Reason}

_SAID: Final = f"ARRAY[{', '.join(repr(_CODES.get(n)) for n in range(1, max(_CODES) + 1))}]"
"""An SQL array whose element at the number of a reason is its code. Numbers are never reused, and have no gaps."""

if None in map(_CODES.get, range(1, max(_CODES) + 1)):
    raise AssertionError("the numbers of the reasons have a gap")

_NUMBER: Final = "SELECT w.reason FROM open_reason w WHERE w.transaction_id = o.transaction_id AND w.side = {side}"
_FORGET: Final = """
    DELETE FROM open_reason WHERE (transaction_id, side) IN (SELECT * FROM unnest(%s::uuid[], %s::smallint[]))
"""


def reason_code(side: int) -> str:
    """Return the SQL of the code for which the open row ``o`` is open, null where no run has said any."""
    return f"({_SAID})[({_NUMBER.format(side=side)})]"


async def forget_reasons(connection: Connection, ids: Sequence[UUID], sides: Sequence[int]) -> None:
    """Say no more why transactions are open: they are not, or no longer as the last run has seen them."""
    await connection.execute(_FORGET, (list(ids), list(sides)))
