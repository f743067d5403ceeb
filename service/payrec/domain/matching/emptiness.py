"""What comes of nothing is worked out once: a run over one line meets little else, and each frame has its price."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Concatenate, ParamSpec

import polars as pl

P = ParamSpec("P")


OfRows = Callable[Concatenate[pl.DataFrame, P], pl.DataFrame]


def of_none_by(said: Callable[..., Hashable]) -> Callable[[OfRows[P]], OfRows[P]]:
    """Have a function of rows give at once what it gives of none.

    That must depend on the columns of its first frame, and on what is ``said`` of its other parameters, alone, of which
    there are few kinds, and have no rows itself.
    """

    def of_function(function: OfRows[P]) -> OfRows[P]:
        known: dict[Hashable, pl.DataFrame] = {}

        @wraps(function)
        def given(rows: pl.DataFrame, /, *args: P.args, **kwargs: P.kwargs) -> pl.DataFrame:
            if rows.height:
                return function(rows, *args, **kwargs)
            kind = (tuple(rows.schema.items()), said(*args, **kwargs))
            found = known.get(kind)
            if found is None:
                found = function(rows, *args, **kwargs)
                known[kind] = found
            return found

        return given

    return of_function


def of_none(function: OfRows[P]) -> OfRows[P]:
    """Do as ``of_none_by`` where nothing but the columns of the first frame matters."""
    return of_none_by(_nothing)(function)


def _nothing(*_args: object, **_kwargs: object) -> None:
    return None


def once(*rows: pl.Series) -> pl.Series:
    """Return all of these rows, each once, in no order."""
    filled = [some for some in rows if some.len()]
    if not filled:
        return rows[0]
    found = pl.concat(filled) if len(filled) > 1 else filled[0]
    return found if found.len() == 1 else found.unique()
