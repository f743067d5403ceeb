"""How much memory a piece of work takes at its height."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable


def peak_bytes(work: Callable[[], object]) -> int:
    """Return the most bytes that were held at once while working, above what was held before."""
    assert not tracemalloc.is_tracing()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
