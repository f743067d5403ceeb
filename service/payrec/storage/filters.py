"""Filters of lists as SQL conditions: our own text, the request's values as parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from payrec.domain.money import parse_decimal
from payrec.models.common import ListQuery

Condition = tuple[str, dict[str, Any]]


def equalities(query: ListQuery, columns: Mapping[str, str]) -> list[Condition]:
    """Return ``column = value`` for each filter that is given; the key is the filter's name in Python."""
    return [
        (f"{column} = %({name})s", {name: value})
        for name, column in columns.items()
        if (value := getattr(query, name)) is not None
    ]


def ranges(query: ListQuery, comparisons: Mapping[str, str]) -> list[Condition]:
    """Return ``column >= value`` and the like; the comparison names column and operator."""
    return [
        (f"{comparison} %({name})s", {name: value})
        for name, comparison in comparisons.items()
        if (value := getattr(query, name)) is not None
    ]


def amount_range(query: Any, column: str) -> list[Condition]:
    """Return the range of ``amountMin`` and ``amountMax`` in the minor units of the query's currency.

    Raises
    ------
    MoneyError
        When a bound is not an amount of the currency.
    """
    found: list[Condition] = []
    for name, operator in (("amount_min", ">="), ("amount_max", "<=")):
        bound = getattr(query, name)
        if bound is not None:
            found.append((f"{column} {operator} %({name})s", {name: parse_decimal(bound, query.currency)}))
    return found


def texts(query: ListQuery, **columns: tuple[str, ...]) -> list[Condition]:
    """Return case-insensitive containment in any of the columns, for each filter that is given."""
    found: list[Condition] = []
    for name, searched in columns.items():
        value = getattr(query, name)
        if value is not None:
            escaped = value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            any_of = " OR ".join(f"{column} ILIKE %({name})s" for column in searched)
            found.append((f"({any_of})", {name: f"%{escaped}%"}))
    return found
