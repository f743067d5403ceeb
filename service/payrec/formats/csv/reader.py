"""CSV files of banks: the dialect is detected or comes from a profile, and a doubt is a refusal, never a guess.

Detection looks at the head alone (delimiter, header, columns, currency). What only the rows prove (decimal sign, order
of day and month, whose account a column is) is proved by the head where it can be, and else by a first pass over the
file, kept meanwhile in a spool.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

from payrec.domain.statements import Parsed
from payrec.errors import UnreadableFileError
from payrec.formats.base import Detected, Head, ReadOptions, Source
from payrec.formats.csv.dialect import Layout, choose_table, make_layout, no_header, other_tables
from payrec.formats.csv.lines import Records, Spool, read_rows
from payrec.formats.csv.profile import profile_of
from payrec.formats.csv.questions import delimiter_question, later_headers
from payrec.formats.csv.rows import RowReader
from payrec.formats.csv.rules import complete_dialect, make_dialect, make_rules, settle
from payrec.formats.csv.survey import Survey
from payrec.formats.csv.table import is_psp_table, looks_like_rows, uses_carriage_returns
from payrec.formats.csv.values import unwrap


class CsvReader:
    """Tables with a header, and tables without one by a profile."""

    name = "csv"

    def detect(self, head: Head, options: ReadOptions) -> Detected | None:
        """Recognise a table with a date column and an amount column.

        Raises
        ------
        UnreadableFileError
            ``csv_no_header``, ``csv_ambiguous_delimiter``, ``csv_no_currency``, ``csv_too_many_columns``,
            ``csv_column_missing``.
        ValidationFailedError
            The profile is wrong.

        """
        profile = profile_of(options.profile, self.name)
        is_wanted = options.format == self.name or bool(profile.get("columns")) or profile.get("format") == self.name
        table = choose_table(head, profile)
        if is_psp_table(table) and not profile:
            return None
        if table.header is None and not is_wanted:
            if table.modal_width > 1 and (looks_like_rows(table) or later_headers(table)):
                raise no_header(table)
            self._ask_for_delimiter(head)
            return None
        layout = make_layout(table, profile, options, carriage_returns=uses_carriage_returns(head))
        form = {"format": self.name, "encoding": head.encoding, "delimiter": table.delimiter}
        return Detected(self.name, None, make_dialect(layout, form, profile))

    def read(self, source: Source, head: Head, detected: Detected, options: ReadOptions) -> Iterator[Parsed]:
        """Yield statements, entries and problems as a stream; ``detected.dialect`` gains what the rows prove.

        Raises
        ------
        UnreadableFileError
            Besides those of ``detect``: ``csv_ambiguous_decimals``, ``csv_ambiguous_dates``,
            ``csv_sign_contradicts_balance``, ``csv_ambiguous_sign``, ``csv_unclosed_quote``, ``line_too_long``,
            ``csv_too_many_accounts``, ``csv_several_tables``.

        """
        profile = profile_of(options.profile, self.name)
        table = choose_table(head, profile)
        layout = make_layout(table, profile, options, carriage_returns=uses_carriage_returns(head))
        dialect = detected.dialect if detected.dialect is not None else {}
        settled = settle(layout, profile, options)
        survey = Survey(layout.columns, settled)
        for row in layout.table.data:
            survey.feed(row)
        with ExitStack() as stack:
            if not head.complete and not survey.is_proved():
                spool = stack.enter_context(Spool(source))
                survey = Survey(layout.columns, settled)
                _survey_all(self._records(spool, head, layout), layout, survey)
                spool.rewind()
                source = spool
            rules = make_rules(layout, profile, survey, options)
            complete_dialect(dialect, layout, rules)
            rows = RowReader(rules)
            rows.prove_sign(layout.table, is_given="sign" in profile)
            records = self._records(source, head, layout)
            _skip_to_data(records, layout)
            yield from rows.read(records)

    @staticmethod
    def _ask_for_delimiter(head: Head) -> None:
        found = other_tables(head)
        if found:
            raise UnreadableFileError(
                "csv_ambiguous_delimiter",
                "a table with an unusual character between its cells: set the profile's delimiter",
                question=delimiter_question(found),
            )

    @staticmethod
    def _records(source: Source, head: Head, layout: Layout) -> Records:
        return Records(
            source,
            head,
            delimiter=layout.table.delimiter,
            carriage_returns=layout.carriage_returns,
        )


def _skip_to_data(records: Records, layout: Layout) -> None:
    """Read past the header; detection read the same records from the head."""
    header = layout.table.header
    for _ in range(0 if header is None else header + 1):
        try:
            next(records.reader, None)
        except csv.Error as error:
            # Detection took it for a row without cells.
            records.row_after_error(error)
        records.consumed = records.reader.line_num


def _survey_all(records: Records, layout: Layout, survey: Survey) -> None:
    """Feed the rows until everything is proved, at the most all of them."""
    _skip_to_data(records, layout)
    for _, row in read_rows(records):
        if isinstance(row, list) and row:
            survey.feed([unwrap(cell) for cell in row])
            if survey.is_proved():
                return


READER: Final = CsvReader()
