"""The file of an export, as it is written: CSV as it comes, Parquet of what was spooled.

Its columns are the members of the resource, in their order. What has members of its own is JSON text, except that of a
match each leg is a line. The same text in both forms, but that CSV, which spreadsheets open, has an apostrophe before
what would be a formula there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from pathlib import Path
from types import UnionType
from typing import IO, Any, Final, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from payrec.models.common import Public
from payrec.models.exports import ExportFormat
from payrec.services.csv_text import Cell, csv_rows

_PLAIN: Final = (bool, int, float, date, datetime, str)
_MICROSECONDS: Final = "us"

_PROBE_BYTES: Final = 64 * 1024
"""What is written to learn whether there is room; more than a file keeps in memory."""


class ExportFile:
    """Takes resources and writes lines; ``directory`` is for what has to be spooled."""

    def __init__(self, of: type[Public], form: ExportFormat, directory: Path, *, per_item: str | None = None) -> None:
        self._per_item = per_item
        self._form = form
        self._types = _columns(of, per_item)
        self._names = list(self._types)
        self._path = directory / "lines"
        self._out: IO[str] = self._path.open("w", encoding="utf-8", newline="")
        self._directory = directory
        self.rows = 0
        """Lines written, the header not counted."""
        if form == "csv":
            self._out.write(csv_rows([self._names]))

    def add(self, resources: Iterable[Public]) -> None:
        """Write a line for each resource, or for each item of the member that has its own lines."""
        lines = [line for resource in resources for line in self._lines(resource)]
        self.rows += len(lines)
        if self._form == "csv":
            self._out.write(csv_rows([_cell(line.get(name)) for name in self._names] for line in lines))
            return
        for line in lines:
            values = {name: _text(line.get(name)) for name in self._names}
            self._out.write(json.dumps(values, ensure_ascii=False, separators=(",", ":")))
            self._out.write("\n")

    def close(self) -> None:
        """Let go of the file of lines, finished or not."""
        self._out.close()

    def finish(self) -> Path:
        """Return the finished file."""
        self.close()
        if self._form == "csv":
            return self._path
        made = self._directory / "made"
        _write_parquet(self._path, self._types, made)
        return made

    def _lines(self, resource: Public) -> Iterator[dict[str, Any]]:
        values = resource.model_dump(mode="json", by_alias=True)
        if self._per_item is None:
            yield values
            return
        for item in values.pop(self._per_item):
            yield {**values, **{_of_item(self._per_item, name): value for name, value in item.items()}}


def _columns(of: type[Public], per_item: str | None) -> dict[str, type]:
    """Return the names of the columns with the type of their values; text where it is no plain one."""
    found: dict[str, type] = {}
    for name, field in of.model_fields.items():
        if name != per_item:
            found[field.alias or name] = _type(field)
            continue
        (item,) = get_args(field.annotation)
        assert issubclass(item, BaseModel), "each line has the members of one item"
        for of_item, member in item.model_fields.items():
            found[_of_item(per_item, member.alias or of_item)] = _type(member)
    return found


def _of_item(member: str, name: str) -> str:
    """Return the column of an item's member: ``amountMinor`` of ``legs`` is ``legAmountMinor``."""
    return member.removesuffix("s") + name[0].upper() + name[1:]


def _type(field: FieldInfo) -> type:
    annotation: Any = field.annotation
    if get_origin(annotation) in (Union, UnionType):
        choices = [choice for choice in get_args(annotation) if choice is not type(None)]
        annotation = choices[0] if len(choices) == 1 else str
    return annotation if annotation in _PLAIN else str


def _text(value: Any) -> Any:
    """Return the value as it is, and what has members of its own as JSON text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) if isinstance(value, dict | list) else value


def _cell(value: Any) -> Cell:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else _text(value)


def _write_parquet(lines: Path, types: dict[str, type], to: Path) -> None:
    """Write a Parquet file of JSON lines without holding them."""
    # Workers alone make exports; the API never loads it.
    import polars as pl  # noqa: PLC0415

    known: dict[type, Any] = {bool: pl.Boolean, int: pl.Int64, float: pl.Float64}
    frame = pl.scan_ndjson(lines, schema={name: known.get(kind, pl.String) for name, kind in types.items()})
    days = [pl.col(name).str.to_date("%Y-%m-%d") for name, kind in types.items() if kind is date]
    instants = [
        pl.col(name).str.to_datetime("%+", time_unit=_MICROSECONDS, time_zone="UTC")
        for name, kind in types.items()
        if kind is datetime
    ]
    with to.open("wb") as out:
        try:
            frame.with_columns(*days, *instants).sink_parquet(out)
        except pl.exceptions.PolarsError:
            # The library forgets what the system said; where there is no room, it says so again.
            out.write(bytes(_PROBE_BYTES))
            out.flush()
            raise
