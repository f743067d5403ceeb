"""Durations as the resource writes them: ``720h``, ``1h30m``, ``90s``."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from payrec_operator.constants import DURATION_LENGTH_MAX, DURATION_MAX

_PART: Final = re.compile(r"([0-9]+)([hms])", re.ASCII)
_WHOLE: Final = re.compile(r"(?:[0-9]+[hms])+", re.ASCII)
_SECONDS: Final = {"h": 3600, "m": 60, "s": 1}


def parse_duration(text: str) -> timedelta:
    """Return the duration that the text is; units may come in any order and more than once, as in Go.

    Raises
    ------
    ValueError
        It is none, or is longer than ``DURATION_MAX``; the text says which, and does not repeat the input.
    """
    if len(text) > DURATION_LENGTH_MAX or not _WHOLE.fullmatch(text):
        raise ValueError("must be a duration such as 720h or 1h30m")
    seconds = sum(int(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    if seconds > DURATION_MAX.total_seconds():
        raise ValueError(f"must not be longer than {DURATION_MAX.days * 24}h")
    return timedelta(seconds=seconds)
