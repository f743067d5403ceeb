"""Loads that are tried again when others store the same rows at the same time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from payrec.errors import UnavailableError
from payrec.storage.loading import LOADING_ATTEMPTS_MAX, ContendedError

T = TypeVar("T")


async def with_care(load: Callable[..., Awaitable[T]]) -> T:
    """Load, again when others store the same rows, the last time ``alone``, which ``load`` is told.

    Raises
    ------
    UnavailableError
        It cannot be loaded now.
    """
    for care in range(1, LOADING_ATTEMPTS_MAX + 1):
        try:
            return await load(alone=care == LOADING_ATTEMPTS_MAX)
        except ContendedError:
            continue
    raise UnavailableError("somebody else changes the same rows")
