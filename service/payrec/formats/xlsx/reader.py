"""Workbooks (ECMA-376, ``.xlsx``): the first sheet with a header is read by the rules of tables.

Column roles, signs, dates, skipped rows and the profile are those of ``payrec.formats.csv``; what differs is where
rows come from. Numbers and dates of cells are exact, so only amounts and dates that are texts need to be proved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from payrec.constants import DETECTION_BYTES, XLSX_HEAD_ROWS
from payrec.domain.statements import Parsed, Problem
from payrec.errors import UnreadableFileError
from payrec.formats.base import Detected, Head, ReadOptions, Source
from payrec.formats.containers import ZIP_MAGIC
from payrec.formats.csv.dialect import Layout, find_header, make_layout, no_header
from payrec.formats.csv.lines import Row
from payrec.formats.csv.profile import profile_of
from payrec.formats.csv.rows import RowReader
from payrec.formats.csv.rules import complete_dialect, make_dialect, make_rules, settle
from payrec.formats.csv.survey import Survey
from payrec.formats.csv.table import Table, is_psp_table
from payrec.formats.csv.values import unwrap
from payrec.formats.xlsx.parts import Package
from payrec.formats.xlsx.sheet import rows_of
from payrec.formats.xlsx.workbook import Sheet, Workbook


@dataclass(slots=True)
class _Chosen:
    """A sheet, and its first rows."""

    sheet: Sheet
    table: Table
    complete: bool
    """The table holds all rows of the sheet."""


class XlsxReader:
    """Tables in workbooks."""

    name = "xlsx"

    def detect(self, head: Head, options: ReadOptions) -> Detected | None:
        """Recognise the archive; what is in it is only known when all of it is there.

        Raises
        ------
        ValidationFailedError
            The profile is wrong.

        """
        if not head.data.startswith(ZIP_MAGIC):
            return None
        profile_of(options.profile, self.name)
        return Detected(self.name, None, {})

    def read(self, source: Source, head: Head, detected: Detected, options: ReadOptions) -> Iterator[Parsed]:  # noqa: ARG002  # the interface
        """Yield statements, entries and problems as a stream; ``detected.dialect`` gains what was found.

        Raises
        ------
        UnreadableFileError
            ``xlsx_too_wide``, ``xlsx_too_large``, ``unknown_format`` (the archive is no workbook); those of an
            archive, of XML, and of tables: ``csv_no_header``, ``csv_column_missing``, ``csv_no_currency``,
            ``csv_ambiguous_decimals``, ``csv_ambiguous_dates``, ``csv_sign_contradicts_balance``,
            ``csv_ambiguous_sign``.

        """
        profile = profile_of(options.profile, self.name)
        dialect = detected.dialect if detected.dialect is not None else {}
        with Package(source) as package:
            workbook = Workbook(package)
            workbook.read_shared()
            chosen = _choose(package, workbook, profile)
            table, sheet = chosen.table, chosen.sheet
            layout = _layout(package, workbook, chosen, profile, options)
            dialect.update(make_dialect(layout, {"format": self.name, "sheet": _designation(workbook, sheet)}, profile))
            settled = settle(layout, profile, options)
            survey = Survey(layout.columns, settled)
            for cells in table.data:
                survey.feed(cells)
            first = 0 if table.header is None else table.lines[table.header] + 1
            if not chosen.complete and not survey.is_proved():
                survey = Survey(layout.columns, settled)
                _survey_all(_rows(package, workbook, sheet, first, layout.width), survey)
            rules = make_rules(layout, profile, survey, options)
            complete_dialect(dialect, layout, rules)
            reader = RowReader(rules)
            reader.prove_sign(table, is_given="sign" in profile)
            others = sum(not other.hidden for other in workbook.sheets) - (not sheet.hidden)
            if others:
                yield Problem(
                    "xlsx_sheets_not_read", "info", detail=f"the workbook has {others} more sheets: one is read"
                )
            yield from reader.read_rows(_rows(package, workbook, sheet, first, layout.width))


def _layout(
    package: Package, workbook: Workbook, chosen: _Chosen, profile: dict[str, Any], options: ReadOptions
) -> Layout:
    """Settle columns, currency and account; where no text names the currency, the formats of all numbers may."""
    try:
        return make_layout(chosen.table, profile, options)
    except UnreadableFileError as error:
        if error.reason != "csv_no_currency":
            raise
        workbook.currencies_shown.clear()
        for _ in rows_of(package.open(chosen.sheet.part), workbook):
            pass
        if len(workbook.currencies_shown) != 1:
            raise
        return make_layout(chosen.table, profile, replace(options, currency=workbook.currencies_shown.pop()))


def _choose(package: Package, workbook: Workbook, profile: dict[str, Any]) -> _Chosen:
    """Return the sheet that the profile names, else the first with a header; hidden ones only if there are no others.

    Raises
    ------
    UnreadableFileError
        ``csv_no_header``, ``csv_column_missing``.

    """
    sheets = _candidates(workbook, profile)
    fallback: _Chosen | None = None
    for sheet in sheets:
        chosen = _look(package, workbook, sheet, profile)
        table = chosen.table
        if table.header is not None:
            if is_psp_table(table) and not profile:
                raise UnreadableFileError("unknown_format", "a report of a payment service provider is read as CSV")
            return chosen
        if fallback is None and table.rows:
            fallback = chosen
    if fallback is None:
        raise UnreadableFileError("csv_no_header", "no sheet has a header that is known: a profile is required")
    if not profile.get("columns"):
        raise no_header(fallback.table)
    return fallback


def _candidates(workbook: Workbook, profile: dict[str, Any]) -> Sequence[Sheet]:
    wanted = profile.get("sheet")
    if wanted is None:
        return [sheet for sheet in workbook.sheets if not sheet.hidden] or workbook.sheets
    if isinstance(wanted, int):
        found = workbook.sheets[wanted : wanted + 1]
    else:
        found = [sheet for sheet in workbook.sheets if sheet.name.casefold() == wanted.casefold()][:1]
    if not found:
        raise UnreadableFileError(
            "csv_column_missing", "the workbook does not have the sheet that /profile/sheet names"
        )
    return found


def _designation(workbook: Workbook, sheet: Sheet) -> str | int:
    """Return what a profile finds the sheet by."""
    return sheet.name if sheet.name.strip() and len(sheet.name) <= 100 else workbook.sheets.index(sheet)


def _look(package: Package, workbook: Workbook, sheet: Sheet, profile: dict[str, Any]) -> _Chosen:
    """Read the first rows of a sheet, all as wide as the widest of them, and find the header."""
    most = XLSX_HEAD_ROWS + (profile.get("headerRow") or 0)
    found: list[list[str]] = []
    lines: list[int] = []
    characters = 0
    complete = True
    rows = rows_of(package.open(sheet.part), workbook)
    for line, row in rows:
        if len(found) >= most or characters > DETECTION_BYTES * 4:
            complete = False
            break
        cells = row if isinstance(row, list) else []
        found.append(cells)
        lines.append(line)
        characters += sum(map(len, cells))
    rows.close()
    width = max(map(len, found), default=0)
    for cells in found:
        if cells:
            cells.extend([""] * (width - len(cells)))
    count = Counter(map(len, found))[width]
    table = Table("", found, width, count, lines)
    find_header(table, profile)
    return _Chosen(sheet, table, complete)


def _rows(package: Package, workbook: Workbook, sheet: Sheet, first: int, width: int) -> Iterator[Row]:
    """Yield the rows below the header, each as wide as the table: an empty cell at the end of a row is not stored.

    What stands beside the table is no column of it.
    """
    for line, row in rows_of(package.open(sheet.part), workbook):
        if line < first:
            continue
        if isinstance(row, list):
            if len(row) < width:
                row.extend([""] * (width - len(row)))
            elif len(row) > width:
                del row[width:]
        yield line, row


def _survey_all(rows: Iterator[Row], survey: Survey) -> None:
    """Feed the rows until everything is proved, at the most all of them."""
    for _, row in rows:
        if isinstance(row, list):
            survey.feed([unwrap(cell) for cell in row])
            if survey.is_proved():
                return


READER: Final = XlsxReader()
