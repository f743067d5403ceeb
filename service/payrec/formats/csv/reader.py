"""CSV files of banks: the dialect is detected or comes from a profile, and a doubt is a refusal, never a guess.

Detection looks at the head alone (delimiter, header, columns, currency). What only the rows prove (decimal sign, order
of day and month, whose account a column is) is proved by the head where it can be, and else by a first pass over the
file, kept meanwhile in a spool.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

from payrec.domain.statements import Parsed
from payrec.errors import UnreadableFileError
from payrec.formats.base import Detected, Head, ReadOptions, Source
from payrec.formats.csv.dialect import Layout, choose_table, is_psp_table, looks_like_rows, make_layout
from payrec.formats.csv.lines import Records, Spool
from payrec.formats.csv.profile import validate_profile
from payrec.formats.csv.rows import RowReader, read_rows
from payrec.formats.csv.rules import complete_dialect, make_dialect, make_rules
from payrec.formats.csv.survey import Settled, Survey, check_sign
from payrec.formats.csv.values import unwrap

_PROFILE_FORMATS: Final = (None, "auto", "csv")


class CsvReader:
    """Tables with a header, and tables without one by a profile."""

    name = "csv"

    def detect(self, head: Head, options: ReadOptions) -> Detected | None:
        """Recognise a table with a date column and an amount column.

        Raises
        ------
        UnreadableFileError
            ``csv_no_header``, ``csv_no_currency``, ``csv_too_many_columns``, ``csv_column_missing``.
        ValidationFailedError
            The profile is wrong.

        """
        profile = _profile_of(options)
        is_wanted = options.format == self.name or bool(profile.get("columns")) or profile.get("format") == self.name
        table = choose_table(head, profile)
        if is_psp_table(table) and not profile:
            return None
        if table.header is None and not is_wanted:
            if table.modal_width > 1 and looks_like_rows(table):
                raise UnreadableFileError(
                    "csv_no_header", "the table has no header that is known: a profile is required"
                )
            return None
        layout = make_layout(head, table, profile, options)
        return Detected(self.name, None, make_dialect(layout, head, profile))

    def read(self, source: Source, head: Head, detected: Detected, options: ReadOptions) -> Iterator[Parsed]:
        """Yield statements, entries and problems as a stream; ``detected.dialect`` gains what the rows prove.

        Raises
        ------
        UnreadableFileError
            Besides those of ``detect``: ``csv_ambiguous_decimals``, ``csv_ambiguous_dates``,
            ``csv_sign_contradicts_balance``, ``csv_unclosed_quote``, ``line_too_long``, ``csv_too_many_accounts``.

        """
        profile = _profile_of(options)
        layout = make_layout(head, choose_table(head, profile), profile, options)
        dialect = detected.dialect if detected.dialect is not None else {}
        date_order = options.date_order or profile.get("dateOrder")
        settled = Settled(
            decimal="decimal" in profile or "impliedDecimals" in profile,
            dates=date_order is not None or "dateFormat" in profile,
            account=not layout.account_doubt,
        )
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
            rules = make_rules(layout, profile, survey)
            rules.decimal = profile.get("decimal") or (None if settled.decimal else survey.decimal())
            rules.date_order = date_order or (None if settled.dates else survey.date_order())
            complete_dialect(dialect, layout, rules)
            rows = RowReader(rules)
            if "balance" in rules.columns:
                check_sign(rows.balanced_rows(layout.table.data))
            records = self._records(source, head, layout)
            _skip_to_data(records, layout)
            yield from rows.read(records)

    @staticmethod
    def _records(source: Source, head: Head, layout: Layout) -> Records:
        return Records(
            source,
            encoding=head.encoding,
            delimiter=layout.table.delimiter,
            carriage_returns=layout.carriage_returns,
        )


def _profile_of(options: ReadOptions) -> dict[str, Any]:
    """Return the profile if it is one for tables, checked; a profile of another format says nothing here."""
    profile = dict(options.profile)
    if profile.get("format") not in _PROFILE_FORMATS:
        return {}
    validate_profile(profile)
    return profile


def _skip_to_data(records: Records, layout: Layout) -> None:
    """Read past the header; detection read the same records from the head."""
    header = layout.table.header
    for _ in range(0 if header is None else header + 1):
        next(records.reader, None)
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
