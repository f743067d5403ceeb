"""Why a transaction is open, as it is stored with the open row: the number of a ``Reason``."""

from __future__ import annotations

from typing import Final

from payrec.domain.matching.rules import Reason

_CODES: Final = {reason.value: reason.code for reason in Reason}

REASON_CODES: Final = f"ARRAY[{', '.join(repr(_CODES.get(n)) for n in range(1, max(_CODES) + 1))}]"
"""An SQL array whose element at the number of a reason is its code. Numbers are never reused, and have no gaps."""

if None in map(_CODES.get, range(1, max(_CODES) + 1)):
    raise AssertionError("the numbers of the reasons have a gap")
