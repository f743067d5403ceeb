"""What comes of nothing is worked out once: a run over one line meets little else, and each frame has its price."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Concatenate, ParamSpec

import polars as pl

P = ParamSpec("P")


OfRows = Callable[Concatenate[pl.DataFrame, P], pl.DataFrame]


def of_none(function: OfRows[P]) -> OfRows[P]:
    """Have a function of rows give at once what it gives of none.

    That must depend on the columns of its first frame alone, of which there are few kinds, and have no rows itself.
    """
    known: dict[Hashable, pl.DataFrame] = {}

    @wraps(function)
    def given(rows: pl.DataFrame, /, *args: P.args, **kwargs: P.kwargs) -> pl.DataFrame:
        if rows.height:
            return function(rows, *args, **kwargs)
        kind = tuple(rows.schema.items())
        found = known.get(kind)
        if found is None:
            found = function(rows, *args, **kwargs)
            known[kind] = found
        return found

    return given
