"""Settlement reports: gross, net and charges of each transaction, grouped by payout, batch or section."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from payrec.domain.statements import Parsed, Problem, Skipped
from payrec.formats.base import Detected, Head, ReadOptions, RecordError, Source
from payrec.formats.csv.lines import Records, read_rows
from payrec.formats.csv.profile import validate_profile
from payrec.formats.csv.rows import BLANK_ROW
from payrec.formats.csv.table import uses_carriage_returns
from payrec.formats.psp.adyen import Adyen
from payrec.formats.psp.paypal import PayPal
from payrec.formats.psp.rows import Ledger
from payrec.formats.psp.stripe import Stripe
from payrec.formats.psp.tables import FORMATS, Report, find_report


class PspReader:
    """Reports of Stripe, Adyen and PayPal."""

    name = "psp"

    def detect(self, head: Head, options: ReadOptions) -> Detected | None:
        """Recognise a report by its headings; a profile for a table of another kind has the table read as it says.

        Raises
        ------
        UnreadableFileError
            ``csv_too_many_columns``.
        ValidationFailedError
            The profile is wrong.

        """
        profile = _profile_of(options)
        report = None if profile is None else find_report(head, profile)
        if report is None or options.format not in ("auto", self.name, report.format):
            return None
        return Detected(report.format, None, _dialect(report, head))

    def read(self, source: Source, head: Head, detected: Detected, options: ReadOptions) -> Iterator[Parsed]:
        """Yield statements by account and currency of the net amounts, entries and problems.

        Raises
        ------
        UnreadableFileError
            ``csv_unclosed_quote``, ``line_too_long``, ``csv_column_missing``, ``csv_too_many_columns``,
            ``csv_too_many_accounts``.

        """
        profile = _profile_of(options) or {}
        report = find_report(head, profile)
        assert report is not None  # the same head was looked at in detect
        is_paypal = detected.format.startswith("paypal")
        ledger = Ledger(
            account=options.account or profile.get("account"),
            implied_decimals=is_paypal,
            decimals=profile.get("impliedDecimals"),
        )
        records = Records(
            source,
            head,
            delimiter=report.delimiter,
            carriage_returns=uses_carriage_returns(head),
        )
        if is_paypal:
            items = _lines(records, PayPal(ledger, profile, settled=detected.format == "paypal_stl"))
        else:
            currency = options.currency or profile.get("currency")
            table = (Stripe if report.format == "stripe" else Adyen)(report, ledger, profile, currency)
            items = _rows(records, report, table)
        for item in items:
            if ledger.opened:
                yield from ledger.opened
                ledger.opened.clear()
            yield item
        yield from ledger.opened
        yield from records.told()
        yield from ledger.end()


def _rows(records: Records, report: Report, table: Stripe | Adyen) -> Iterator[Parsed]:
    """Yield the rows of a report that is one table; what stands above the header is no record."""
    for line, row in read_rows(records):
        if line <= report.line:
            continue
        if not row:
            continue
        try:
            if isinstance(row, RecordError):
                raise row
            entry, problem = table.entry(line, row)
        except RecordError as error:
            if isinstance(row, list) and not any(cell.strip() for cell in row):
                yield Skipped(BLANK_ROW, line=line)
            else:
                yield Problem(error.code, "error", rejects=True, line=line, detail=error.detail)
            continue
        yield entry
        if problem is not None:
            yield problem


def _lines(records: Records, report: PayPal) -> Iterator[Parsed]:
    """Yield the lines of PayPal's reports."""
    for line, row in read_rows(records):
        if isinstance(row, RecordError):
            yield Problem(row.code, "error", rejects=True, line=line, detail=row.detail)
        elif row:
            yield from report.items(line, row)
    yield from report.end()


def _profile_of(options: ReadOptions) -> dict[str, Any] | None:
    """Return the profile, checked; None when it says that tables are read another way."""
    profile = dict(options.profile)
    if profile.get("format") not in (None, "auto", *FORMATS) or profile.get("columns"):
        return None
    validate_profile(profile)
    return profile


def _dialect(report: Report, head: Head) -> dict[str, Any]:
    return {"format": report.format, "encoding": head.encoding, "delimiter": report.delimiter}


READER: Final = PspReader()
