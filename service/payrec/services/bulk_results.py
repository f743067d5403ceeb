"""Bulk requests: each item succeeds or fails by itself, with the problem that a request of it alone would have got."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar
from uuid import UUID

from payrec.domain.caller import Caller
from payrec.errors import PayrecError
from payrec.models.common import BulkResult, BulkResults
from payrec.problems import problem

T = TypeVar("T")


class Results:
    """What becomes of the items of one request, by their place in it."""

    def __init__(self, caller: Caller) -> None:
        self._request_id = caller.request_id
        self._found: dict[int, BulkResult] = {}

    def succeed(self, index: int, status: int, resource_id: UUID | None = None) -> None:
        """Note that an item came out well."""
        self._found[index] = BulkResult(index=index, status=status, id=resource_id)

    def refuse(self, index: int, error: PayrecError) -> None:
        """Note why an item failed."""
        told = problem(error, request_id=self._request_id)
        self._found[index] = BulkResult(index=index, status=error.status, problem=told)

    def refuse_all(self, errors: Mapping[int, PayrecError] | Iterable[tuple[int, PayrecError]]) -> None:
        """Note why several failed."""
        for index, error in dict(errors).items():
            self.refuse(index, error)

    def told(self) -> BulkResults:
        """Return all of them in the order of the request."""
        return BulkResults(results=[self._found[index] for index in sorted(self._found)])


def read_items(items: Iterable[Any], read: Callable[[int, Any], T]) -> tuple[dict[int, T], dict[int, PayrecError]]:
    """Return by their place what ``read`` makes of the items that are right, and what is wrong with the others."""
    right: dict[int, T] = {}
    wrong: dict[int, PayrecError] = {}
    for index, item in enumerate(items):
        try:
            right[index] = read(index, item)
        except PayrecError as error:
            # Its frames would keep all that was looked at for it.
            wrong[index] = error.with_traceback(None)
    return right, wrong
