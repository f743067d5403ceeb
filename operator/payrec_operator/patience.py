"""How often kopf tries a request to the API server, and how long it waits in between.

After a minute of refusals (403, 429, 5xx) it gives up. Of a patch that is well: the next event or timer brings another.
Of a watch it is not: with it the whole process ends, also for all namespaces in which nothing is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Final

TRIES: Final = (1.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0)
"""Seconds between the tries at a request: kopf's own."""

WATCHER: Final = "watcher for "
"""What the names of kopf's tasks that list and watch begin with."""


class Patience:
    """The waits of one request after another, each seen by the task that makes it: those of a watch have no end.

    ``refused`` is called for each try of such a task that has failed.
    """

    def __init__(self, refused: Callable[[], None]) -> None:
        self._refused = refused

    def __iter__(self) -> Iterator[float]:
        task = asyncio.current_task()
        if task is None or not task.get_name().startswith(WATCHER):
            yield from TRIES
            return
        for wait in chain(TRIES, repeat(TRIES[-1])):
            self._refused()
            yield wait
