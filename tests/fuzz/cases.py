"""What several checks need of a case."""

from __future__ import annotations

import re
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

R = TypeVar("R")

UNSTORABLE: Final = re.compile(r"[\x00\ud800-\udfff]")
"""What PostgreSQL cannot store in a text."""


def words(data: bytes) -> tuple[str, str]:
    """Return the first line of a case, and the rest."""
    first, _, rest = data.decode("utf-8", "surrogateescape").partition("\n")
    return first, rest


def finished(coroutine: Coroutine[Any, Any, R]) -> R:
    """Return what a coroutine returns that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # the coroutine's own type
    raise AssertionError("it waits for something")
