"""Filters of lists as SQL conditions: our own text, the request's values as parameters."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final, Literal
from unicodedata import normalize

from pydantic import BaseModel

from payrec.domain.identifiers import id_at
from payrec.domain.money import parse_decimal
from payrec.models.common import ListQuery

Condition = tuple[str, dict[str, Any]]

_FORMS: Final[tuple[Literal["NFC"], Literal["NFD"]]] = ("NFC", "NFD")
"""Composed, as files are stored, and decomposed."""

CHANGE_TIME_MAX: Final = timedelta(days=1)
"""Between the beginning of a change, which is in its id, and its instant; clocks that differ included."""


def equalities(query: BaseModel, columns: Mapping[str, str]) -> list[Condition]:
    """Return ``column = value`` for each filter that is given; the key is the filter's name in Python."""
    return [
        (f"{column} = %({name})s", {name: value})
        for name, column in columns.items()
        if (value := getattr(query, name)) is not None
    ]


def ranges(query: BaseModel, comparisons: Mapping[str, str]) -> list[Condition]:
    """Return ``column >= value`` and the like; the comparison names column and operator."""
    return [
        (f"{comparison} %({name})s", {name: value})
        for name, comparison in comparisons.items()
        if (value := getattr(query, name)) is not None
    ]


def created(query: BaseModel, alias: str) -> list[Condition]:
    """Return the range of ``createdFrom`` and ``createdTo`` of rows with a UUIDv7.

    The instant has no index; the ids have, and begin with a time near it.
    """
    found = ranges(query, {"created_from": f"{alias}.created_at >=", "created_to": f"{alias}.created_at <="})
    for name, operator, slack in (("created_from", ">=", -CHANGE_TIME_MAX), ("created_to", "<=", CHANGE_TIME_MAX)):
        given = getattr(query, name)
        if given is not None:
            found.append((f"{alias}.id {operator} %({name}_id)s", {f"{name}_id": id_at(given, slack)}))
    return found


def status_is(status: str, expression: str, untouched: Collection[str]) -> Condition:
    """Return the condition of a status; ``expression`` is the one of a transaction without an allocation as well.

    Only ``untouched`` statuses are those of such a transaction. Any other is named in the statement, so that the
    planner knows how rare it is, and its index. Of the expression it would think that hardly any row has it.
    """
    if status not in untouched:
        return f"a.status = '{status}'", {}
    return frequent(f"{expression} = '{status}'"), {}


def frequent(condition: str) -> str:
    """Return a condition of which the planner thinks that every other row meets it, and not one in two hundred.

    So it reads a page in its order and tests each row, instead of collecting and sorting all rows that meet it.
    """
    return f"CASE WHEN {condition} THEN true ELSE false END"


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
            found.append(containing(name, value, searched))
    return found


def containing(name: str, text: str, columns: Iterable[str]) -> Condition:
    """Return that any of the columns contains a text, in whatever case; ``name`` is its parameter's.

    What a request stores stays as it is written: an ä may be one character there or an a with its dots, and looks the
    same. So the text is looked for in either form, where it has two.
    """
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    either = (escaped, *(normalize(form, escaped) for form in _FORMS))
    forms = list(dict.fromkeys(f"%{form}%" for form in either))
    wanted: str | list[str] = forms[0] if len(forms) == 1 else forms
    like = f"ILIKE %({name})s" if len(forms) == 1 else f"ILIKE ANY(%({name})s::text[])"
    return f"({' OR '.join(f'{column} {like}' for column in columns)})", {name: wanted}
