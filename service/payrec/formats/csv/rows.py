"""Records to the stream of a file: entries by account and currency, balances, skipped and rejected rows."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import Final

from payrec.constants import (
    CSV_HEADER_SEARCHED_ROWS,
    FILE_ACCOUNTS_MAX,
    PROFILE_MATCHED_LENGTH_MAX,
    TEXT_LENGTH_MAX,
)
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.references import find_creditor_reference, is_iban
from payrec.domain.statements import Entry, EntryStatus, Parsed, Problem, Skipped, Statement
from payrec.errors import UnreadableFileError
from payrec.formats.base import RecordError
from payrec.formats.csv.cells import (
    Memory,
    RowRules,
    joined_texts,
    kept_cells,
    long_text,
    short_account,
    short_own_account,
    short_reference,
    short_text,
)
from payrec.formats.csv.chain import Chain
from payrec.formats.csv.columns import is_pending_word, known_heading
from payrec.formats.csv.groups import Group, LabelledRow, interim_balance
from payrec.formats.csv.heads import DETAILS, Head
from payrec.formats.csv.labels import LABEL_START_LENGTH, Label, balance_label, may_be_label, total_label
from payrec.formats.csv.lines import FOOTER_ROW, Records, Row, read_rows, without_footer
from payrec.formats.csv.values import bare, unwrap
from payrec.formats.csv.words import fold
from payrec.formats.text import own_account

BLANK_ROW: Final = "csv_blank_row"
BALANCE_ROW: Final = "csv_balance_row"
UNDATED_ROW: Final = "csv_undated_pending_row"
HEADER_ROW: Final = "csv_header_row"


class RowReader(Head):
    """Turns the records of one file into its stream; holds the statements, and of the rows only the last few."""

    def __init__(self, rules: RowRules) -> None:
        super().__init__(rules)
        columns = rules.columns
        self._has_details = any(role in columns for role in DETAILS)
        self._more_remittance = len(columns.get("remittance", [])) > 1
        self._groups: dict[tuple[str, str], Group] = {}
        """By the cells as they stand."""
        self._statements: dict[tuple[str | None, str], Group] = {}
        self._opened: list[Parsed] = []
        """What goes before the next item: statements that began, and what it shows of rows above it."""
        self._account_above = ""
        self._preamble_line = 0
        """The last line that is no row of the table, and may stand above another one."""
        self._label_starts = Memory(may_be_label)
        self._short_texts = Memory(short_text)
        self._is_plain = self._amounts.is_plain
        self._skips = bool(rules.skip)
        self._has_pending_rule = rules.pending is not None
        self._has_metadata = bool(rules.metadata)
        self._has_nameless = bool(rules.nameless)

    def read(self, records: Records) -> Iterator[Parsed]:
        """Yield the stream of the records, which stand behind the header already."""
        if self._rules.footer_rows:
            yield from self._listed(read_rows(records))
        else:
            yield from self._entries(records)
        yield from records.told()
        yield from self._ends()

    def read_rows(self, rows: Iterator[Row]) -> Iterator[Parsed]:
        """Yield the stream of rows that were never text, which begin behind the header."""
        yield from self._listed(rows)
        yield from self._ends()

    def _listed(self, rows: Iterator[Row]) -> Iterator[Parsed]:
        if self._rules.footer_rows:
            rows = without_footer(rows, self._rules.footer_rows)
        for line, row in rows:
            yield from self._items(line, row)

    def _ends(self) -> Iterator[Parsed]:
        if self._kinds is not None:
            self._kinds.check()
        for group in self._statements.values():
            preamble = self._rules.preamble_balances if len(self._statements) == 1 else ()
            yield from group.end(preamble)

    def _entries(self, records: Records) -> Iterator[Parsed]:
        """Yield what ``_items`` yields for each record; the usual record without a call more than it needs."""
        reader = records.reader
        width = self._rules.width
        make = self._entry
        opened = self._opened
        while True:
            try:
                for row in reader:
                    line = records.consumed + 1
                    records.consumed = reader.line_num
                    if len(row) != width:
                        yield from self._items(line, row)
                        continue
                    # A column that the file does not have is index -1: this empty cell.
                    row.append("")
                    try:
                        item: Parsed = make(line, row)
                    except RecordError as error:
                        item = self._after_error(line, row, error)
                    if opened:
                        yield from opened
                        opened.clear()
                    yield item
            except csv.Error as error:
                yield from self._items(records.consumed + 1, records.row_after_error(error))
            else:
                return

    def _items(self, line: int, row: list[str] | RecordError) -> Iterator[Parsed]:
        """Yield a record of any width, the statement that it begins before it; nothing for a blank line."""
        if not row:
            return
        item: Parsed
        try:
            if isinstance(row, RecordError):
                raise row
            item = self._entry(line, [*self._fit(row), ""])
        except RecordError as error:
            item = self._after_error(line, row, error)
        yield from self._opened
        self._opened.clear()
        yield item

    # One branch a cell: a call more for each costs a tenth of the speed.
    def _entry(self, line: int, cells: list[str]) -> Entry | Skipped:  # noqa: C901, PLR0912, PLR0915  # see above
        """Make the entry of one row; raises ``RecordError``."""
        booking_cell, value_cell, amount_cell, currency_cell, account_cell, text_cell, name, other, code = self._core(
            cells
        )
        if self._skips and (rule := self._rule_that_skips(cells)) is not None:
            return Skipped(rule, line=line)
        starts = self._label_starts
        if (
            starts[text_cell[:LABEL_START_LENGTH]]
            or (name and starts[name[:LABEL_START_LENGTH]])
            or (code and starts[code[:LABEL_START_LENGTH]])
        ):
            label = balance_label(text_cell) or balance_label(name) or balance_label(code)
            if label is not None and (skipped := self._labelled(line, cells, label)) is not None:
                return skipped
        dates = self._dates
        value = dates[value_cell] if value_cell else None
        booking = dates[booking_cell] if booking_cell else None
        status: EntryStatus = "booked"
        if booking is None or self._has_pending_rule:
            status = self._status(cells, booking_cell, value_cell, has_date=booking is not None or value is not None)
        if account_cell:
            self._account_above = account_cell
        else:
            account_cell = self._account_above
        group = self._groups.get((account_cell, currency_cell)) or self._group(account_cell, currency_cell)
        if group.held:
            self._opened += group.doubts()
        if self._has_nameless:
            self._amounts.check_whole(cells)
        if self._is_plain and amount_cell:
            minor = group.read(amount_cell)
        else:
            minor = self._amounts.signed(group.read, *self._sides(cells))
        entry = Entry(
            group.index, group.count, line, status, "credit" if minor >= 0 else "debit", abs(minor),
            group.currency, False, booking, value, group.account,  # noqa: FBT003  # by position: twice as fast
        )  # fmt: skip
        if self._more_remittance:
            entry.remittance = text = joined_texts([cells[index] for index in self._rules.columns["remittance"]])
        else:
            entry.remittance = text = long_text(text_cell) if text_cell else None
        if text is not None and "RF" in text:
            entry.structured_reference = find_creditor_reference(text)
        if name:
            entry.counterparty_name = self._short_texts[name]
        if other:
            entry.counterparty_account = short_account(other)
        if code:
            entry.bank_transaction_code = self._short_texts[code]
        if self._has_details:
            self._describe(entry, self._details(cells))
        if self._has_metadata:
            entry.metadata = kept_cells(self._rules.metadata, cells)
        group.count += 1
        if status == "booked":
            net = entry.net
            if net is not None:
                minor = net.amount_minor if net.direction == "credit" else -net.amount_minor
            group.booked_minor += minor
        if group.chain is not None:
            group.chained(line, booking or value, minor, cells[self._balance_column], is_booked=status == "booked")
        if self._kinds is not None:
            self._kinds = self._kinds.after(cells, entry)
        return entry

    def _status(self, cells: list[str], booking_cell: str, value_cell: str, *, has_date: bool) -> EntryStatus:
        """Tell whether the row is booked; raises ``RecordError`` when it is, and has no date."""
        pending = self._rules.pending
        if pending is not None and pending[1].search(cells[pending[0]][:PROFILE_MATCHED_LENGTH_MAX]):
            if not has_date:
                raise RecordError(UNDATED_ROW)
            return "pending"
        if is_pending_word(booking_cell) or (not has_date and is_pending_word(value_cell)):
            if not has_date:
                raise RecordError(UNDATED_ROW)
            return "pending"
        if not has_date:
            raise RecordError("missing_date", "the record has no date")
        return "booked"

    def _describe(self, entry: Entry, details: Sequence[str]) -> None:
        """Add what few files have; raises ``RecordError``."""
        bic, end_to_end, structured, external, original, original_currency, payer, payee, ultimate, net, fee = details
        if party := payer if entry.direction == "credit" else payee:
            entry.counterparty_name = self._short_texts[party]
        if ultimate:
            entry.ultimate_counterparty_name = self._short_texts[ultimate]
        if bic:
            entry.counterparty_bic = short_account(bic)
        if end_to_end:
            entry.end_to_end_id = short_reference(end_to_end)
        if structured:
            entry.structured_reference = short_reference(structured) or entry.structured_reference
        if external and (reference := short_reference(external)) is not None:
            entry.identity_kind = "bank"
            entry.external_id = entry.identity_value = reference
        if net:
            self._amounts.split(entry, net, fee)
        elif fee and self._fees_besides:
            self._amounts.besides(entry, fee)
        if original:
            entry.original = self._amounts.original(original, original_currency, entry.currency)

    def _after_error(self, line: int, row: list[str] | RecordError, error: RecordError) -> Problem | Skipped:
        """Settle a row that is no entry: skipped by a name, else rejected."""
        if error.code in {FOOTER_ROW, UNDATED_ROW}:
            return Skipped(error.code, line=line)
        if isinstance(row, list):
            if not any(cell.strip() for cell in row):
                return Skipped(BLANK_ROW, line=line)
            padded = [*row, *[""] * (self._rules.width + 1 - len(row))]
            label = next((found for cell in row if (found := total_label(unwrap(cell).strip()))), None)
            if label is not None and not self._is_dated_amount(padded):
                return self._balance_row(line, padded, label)
            if self._is_header(line, row):
                return Skipped(HEADER_ROW, line=line)
            if not self._is_dated_amount(padded):
                named = {own_account(bare(cell).rpartition(":")[2]) for cell in row if len(cell) <= TEXT_LENGTH_MAX}
                self._preamble_line = 0 if self._rules.account in named - {None} else line
        return Problem(error.code, "error", rejects=True, line=line, detail=error.detail)

    def _is_header(self, line: int, row: Sequence[str]) -> bool:
        """Whether the row is the header once more, as where files were put together.

        Raises
        ------
        UnreadableFileError
            ``csv_several_tables``: it is that of another table, or another account may stand above it.

        """
        known = sum(known_heading(unwrap(cell)) is not None for cell in row)
        has_digits = any(character.isdigit() for cell in row for character in cell)
        # What stands directly below the header is the second line of a head.
        if not self._rules.header or not self._statements or known < 2 or has_digits:
            return False
        words = [word for cell in row if (word := fold(unwrap(cell)))]
        headings = list(filter(None, self._rules.header))
        if len(words) < len(headings):
            return False  # The rows below it have another width, and are rejected.
        is_same = words == headings
        above = self._preamble_line and line - self._preamble_line < CSV_HEADER_SEARCHED_ROWS
        if not is_same or (above and "account" not in self._rules.columns):
            raise UnreadableFileError(
                "csv_several_tables", "a table begins below another one, and may be of another account: split the file"
            )
        return True

    # Statements -------------------------------------------------------------------------------------------------

    def _group(self, account_cell: str, currency_cell: str) -> Group:
        """Return the statement of a row; raises ``RecordError`` when its currency is not known."""
        currency = unwrap(currency_cell).strip().upper() or self._rules.currency
        if currency not in MINOR_UNITS:
            raise RecordError("invalid_entry", "the currency is not an ISO 4217 code")
        account = short_own_account(account_cell) or self._rules.account
        group = self._statements.get((account, currency))
        if group is None:
            if len(self._statements) >= FILE_ACCOUNTS_MAX:
                raise UnreadableFileError(
                    "csv_too_many_accounts", f"the file has more than {FILE_ACCOUNTS_MAX} accounts"
                )
            statement = Statement(len(self._statements), "transactions", account=account, currency=currency)
            statement.account_scheme = "iban" if account is not None and is_iban(account) else "other"
            chain = Chain(is_newest_first=self._newest_first) if self._balance_column >= 0 else None
            group = Group(statement, currency, self._amounts.reader(currency), chain)
            self._statements[account, currency] = group
            self._opened.append(statement)
        if len(self._groups) > 2 * FILE_ACCOUNTS_MAX:
            self._groups.clear()
        self._groups[account_cell, currency_cell] = group
        return group

    def _labelled(self, line: int, cells: Sequence[str], label: Label) -> Skipped | None:
        """Settle a row that a text calls a balance; None for a movement. Raises ``RecordError``."""
        booking, value, _, currency, account, text, name, other, _ = self._core(cells)
        bic, end_to_end, structured, external, *_ = self._details(cells)
        sides = self._sides(cells)
        balance = bare(cells[self._balance_column])
        has_amount = any(cell.strip() for cell in sides[:3])
        other = "" if self._rules.one_counterparty else other
        row = LabelledRow(
            has_date=self._is_dated(booking) or self._is_dated(value),
            is_identified=any(map(short_reference, (other, bic, end_to_end, structured, external))),
            is_described=any(cell.strip() and balance_label(cell) is None for cell in (text, name)),
        )
        try:
            group = self._group(account or self._account_above, currency)
            row.minor = self._amounts.signed(group.read, *sides) if has_amount else None
            row.balance_minor = group.read(balance) if balance else None
        except RecordError:
            if row.has_date and has_amount and (row.is_identified or row.is_described):
                raise
            return self._balance_row(line, cells, label)
        if group.is_movement(row):
            return None
        if label != "turnover" and balance:
            group.chained(line, None, 0, balance, is_booked=True)
        if row.has_date and row.minor and not balance and group.count and not group.is_told(row.minor):
            group.held.append(line)
        return self._balance_row(line, cells, label)

    def _balance_row(self, line: int, cells: Sequence[str], label: Label) -> Skipped:
        """Keep the balance of a row that is one; a malformed one is only left out, as any total is."""
        if label != "turnover":
            booking_cell, value_cell, _, currency_cell, account_cell, *_ = self._core(cells)
            sides = self._sides(cells)
            try:
                group = self._group(account_cell or self._account_above, currency_cell)
                if any(cell.strip() for cell in sides[:3]):
                    minor = self._amounts.signed(group.read, *sides)
                else:
                    minor = group.read(bare(cells[self._balance_column]))
                group.balances.append(
                    (label, interim_balance(minor, group.currency, self._dates[booking_cell or value_cell]))
                )
            except RecordError:
                pass
        return Skipped(BALANCE_ROW, line=line)
