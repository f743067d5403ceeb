"""Rows as COPY's text format (PostgreSQL documentation, COPY, "Text Format"), made while a file is read.

A whole piece is made at once, column by column: most columns of most files are empty or hold nothing that needs
escaping, and one look at the column then stands for thousands at its cells.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from functools import lru_cache
from itertools import repeat
from typing import Any, Final
from uuid import UUID

from payrec.domain.statements import Problem

_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_NULL: Final = "\\N"


def _escaped(value: str) -> str:
    if "\\" in value or "\n" in value or "\t" in value or "\r" in value:
        return value.translate(_ESCAPES)
    return value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).translate(_ESCAPES) if value else "{}"


_TEXTS: Final[dict[type, Callable[[Any], str]]] = {
    str: _escaped,
    int: str,
    bool: lambda value: "t" if value else "f",
    bytes: lambda value: "\\\\x" + value.hex(),
    # The days of a file are few.
    date: lru_cache(maxsize=1024)(str),
    datetime: str,
    UUID: str,
    dict: _json,
    tuple: _json,
    list: lambda value: _arrays(str(value))[0],
    type(None): lambda _: _NULL,
}
"""How a value is written, by its type: a list is an array of numbers, a tuple is JSON."""

Column = str | list[str]
"""The texts of a column, or the one text of all rows."""

_JOIN: Final = "\x00"
"""What PostgreSQL's texts cannot hold."""


def column_texts(columns: Iterable[Sequence[Any]]) -> list[Column]:
    """Return the values of columns as COPY text; a column's values are of one type, or null."""
    found: list[Column] = []
    for values in columns:
        first = values[0]
        if first == values[-1] and values.count(first) == len(values):
            found.append(_TEXTS[first.__class__](first))
        else:
            found.append(_column(values))
    return found


def lines_of(columns: Iterable[Column], count: int) -> list[str]:
    """Return so many rows as lines of COPY text; neighbours that are the same in every row are written once."""
    found: list[Iterable[str]] = []
    same: list[str] = []
    for column in columns:
        if column.__class__ is str:
            same.append(column)
            continue
        if same:
            found.append(repeat("\t".join(same), count))
            same = []
        found.append(column)
    if same:
        found.append(repeat("\t".join(same), count))
    return [line + "\n" for line in map("\t".join, zip(*found, strict=True))]


def each(column: Column, count: int) -> list[str]:
    """Return the text of every row."""
    return [column] * count if isinstance(column, str) else column


def copy_line(values: tuple[Any, ...]) -> str:
    """Return one row as COPY text."""
    texts = _TEXTS
    return "\t".join([texts[v.__class__](v) for v in values]) + "\n"


def problem_line(problem: Problem, *, import_id: UUID, ordinal: int) -> str:
    """Return one row of ``import_problem``, in the columns that ``ImportStore.add_problems`` names."""
    return copy_line(
        (
            import_id,
            ordinal,
            problem.line,
            problem.statement,
            problem.rejects,
            problem.severity,
            problem.code,
            problem.detail,
        )
    )


def _column(values: Sequence[Any]) -> list[str]:
    kinds = set(map(type, values))
    kind = kinds.pop()
    if kinds:
        texts = _TEXTS
        return [texts[v.__class__](v) for v in values]
    if kind is str:
        return list(values) if _is_plain(values) else [_escaped(v) for v in values]
    if kind is list:
        return _arrays("\t".join(map(str, values)))
    if kind is bytes and (size := len(values[0])) and set(map(len, values)) == {size}:
        return ("\\\\x" + b"".join(values).hex("\t", size).replace("\t", "\t\\\\x")).split("\t")
    return list(map(_TEXTS[kind], values))


def _arrays(lists: str) -> list[str]:
    return lists.replace("[", "{").replace("]", "}").split("\t")


def _is_plain(values: Sequence[str]) -> bool:
    text = _JOIN.join(values)
    return not ("\\" in text or "\n" in text or "\t" in text or "\r" in text)
