"""What computes, beside the loop: in a thread, and the database works meanwhile. What is little is done at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from payrec.storage.rows import CopiedRows

T = TypeVar("T")

FEW: Final = 48
"""Rows up to which the way to a thread and back takes longer than what is done with them."""


async def aside(work: Callable[..., T], *given: Any, few: bool) -> T:
    """Do it in a thread, so that others are served meanwhile; at once where it is about a ``few`` rows."""
    return work(*given) if few else await asyncio.to_thread(work, *given)


def is_few(rows: CopiedRows) -> bool:
    """Tell whether so little was read."""
    return rows.height < FEW


async def meanwhile(render: Callable[[], T], tell: Coroutine[Any, Any, None], *, few: bool = False) -> T:
    """Do the one in a thread while the database does the other; of a ``few`` rows one after the other."""
    if few:
        await tell
        return render()
    rendering = asyncio.create_task(asyncio.to_thread(render))
    try:
        await tell
    finally:
        # A thread cannot be ended, so what it holds must not outlive the transaction unseen.
        await asyncio.wait([rendering])
    return rendering.result()
