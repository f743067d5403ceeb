"""Lives that a seed makes: the suite lives the first of them, and all where PAYREC_ALL_SEEDS says so, as in a night.

What one life does not come to, the next one may; but the same lives every time tell less for their minutes.
"""

from __future__ import annotations

import os
from typing import Final

ALL: Final = os.environ.get("PAYREC_ALL_SEEDS", "") not in {"", "0"}


def seeds(*numbers: int) -> tuple[int, ...]:
    """Return those to live, for ``parametrize``."""
    return numbers if ALL else numbers[:1]
