"""Days in remittance texts: as numbers they would quote somebody, ``2026-03-10`` the invoice ``2026-0310``."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from payrec.constants import TEXTS_CACHED_MAX

_DAY: Final = re.compile(
    r"(?<![A-Z0-9._-])(?:(?:19|20)[0-9]{2}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])(?:T[0-9:.]+Z?)?"
    r"|(?:0?[1-9]|[12][0-9]|3[01])\.(?:0?[1-9]|1[0-2])\.(?:19|20)?[0-9]{2})(?![A-Z0-9_-]|\.[A-Z0-9])",
    re.ASCII | re.IGNORECASE,
)
"""As ISO 8601, perhaps with a time, or with points, as on statements of central Europe."""

_NO_NUMBER: Final = " DATE "
"""What stands for a day: a word, so that the numbers before and after it are not joined."""


@lru_cache(maxsize=TEXTS_CACHED_MAX)
def without_days(text: str) -> str:
    """Return a text in which no number is a day. One with letters before it, as ``RE-2026-03-10``, is none."""
    return _DAY.sub(_NO_NUMBER, text)
