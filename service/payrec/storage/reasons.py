"""Why a transaction is open, as the last run said: the number of a ``Reason``, beside its open row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from payrec.domain.matching.rules import Reason
from payrec.storage.database import Connection
from payrec.storage.history import keep_reasons
from payrec.storage.history_relations import is_open
from payrec.storage.rows import Ids, array_text

_CODES: Final = {reason.value: reason.code for reason in Reason}

_SAID: Final = f"ARRAY[{', '.join(repr(_CODES.get(n)) for n in range(1, max(_CODES) + 1))}]"
"""An SQL array whose element at the number of a reason is its code. Numbers are never reused, and have no gaps."""

if None in map(_CODES.get, range(1, max(_CODES) + 1)):
    raise AssertionError("the numbers of the reasons have a gap")

_NUMBER: Final = "SELECT w.reason FROM open_reason w WHERE w.transaction_id = {id_column} AND w.side = {side} LIMIT 1"
_END: Final = f"""
    WITH w AS (
        DELETE FROM open_reason
        WHERE (transaction_id, side) IN (SELECT * FROM unnest(%(ids)s::uuid[], %(sides)s::smallint[]))
        RETURNING side, transaction_id, change_id, reason
    )
    {keep_reasons("w")}
"""  # noqa: S608 - our own text


def reason_code(side: int, id_column: str) -> str:
    """Return the SQL of the code for which a transaction with the allocation ``a`` is open.

    Null where it is not open, and where no run has said any.
    """
    number = _NUMBER.format(side=side, id_column=id_column)
    return f"CASE WHEN {is_open(side)} THEN {reason_code_of(f'({number})')} END"


def reason_code_of(number: str) -> str:
    """Return the SQL of the code of a reason's number, an expression of ours."""
    return f"({_SAID})[{number}]"


async def end_reasons(connection: Connection, ids: Ids, sides: Sequence[int], *, change_id: UUID) -> None:
    """Say no more why transactions are open: they are not, or no longer as the last run has seen them."""
    await connection.execute(_END, {"ids": array_text(ids), "sides": array_text(sides), "change_id": change_id})
