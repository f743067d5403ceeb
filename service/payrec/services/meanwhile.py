"""Two things at the same time: one in a thread, the other in the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def meanwhile(render: Callable[[], T], tell: Coroutine[Any, Any, None]) -> T:
    """Do the one in a thread while the database does the other."""
    rendering = asyncio.create_task(asyncio.to_thread(render))
    try:
        await tell
    finally:
        # A thread cannot be ended, so what it holds must not outlive the transaction unseen.
        await asyncio.wait([rendering])
    return rendering.result()
