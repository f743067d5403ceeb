"""PayPal's settlement report (STL) and transaction report (TRR), by the line types of their specification.

A line begins with its type: ``RH`` and ``FH`` open the report and the file, ``SH`` a section (one account and period),
``CH`` names its columns, ``SB`` is a transaction, ``SF`` and ``RF`` are sums of a currency, ``SC``, ``RC`` and ``FF``
count lines. Amounts have no sign, CR or DR says it, and no point: their last digits are the decimals of the currency,
or as many as the profile's ``impliedDecimals`` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from payrec.constants import TEXT_LENGTH_MAX
from payrec.domain.statements import Entry, EntryStatus, Parsed, Problem, Skipped
from payrec.errors import UnreadableFileError
from payrec.formats.base import RecordError
from payrec.formats.csv.cells import kept_cells, short_text
from payrec.formats.csv.lines import check_width
from payrec.formats.psp.rows import Headings, Ledger, Signed, identify, remit
from payrec.formats.text import clean

_STATUSES: Final[dict[str, EntryStatus]] = {"s": "booked", "p": "pending"}
_SKIPPED: Final = {"d": "paypal_denied", "v": "paypal_voided"}
_SIDES: Final = {"CR": 1, "DR": -1}
_SUMS: Final = 4
"""Gross credits, gross debits, fee credits, fee debits."""

Sums = dict[str, list[int]]
"""The four sums of each currency, in minor units."""


class _Scope:
    """What a section, a report and the file add up, to be compared with what their last lines say."""

    def __init__(self) -> None:
        self.lines = 0
        self.sums: Sums = {}

    def add(self, gross: Signed, fee: Signed) -> None:
        for (minor, currency), at in ((gross, 0), (fee, 2)):
            if minor:
                sums = self.sums.setdefault(currency, [0] * _SUMS)
                sums[at if minor > 0 else at + 1] += abs(minor)


class PayPal:
    """Turns the lines of one file into its stream; holds the section that is open."""

    def __init__(self, ledger: Ledger, profile: Mapping[str, Any], *, settled: bool) -> None:
        self._ledger = ledger
        self._profile = profile
        self._settled = settled
        """A settlement report: what it lists is what it sums."""
        self._headings: Headings | None = None
        self._account: str | None = None
        self._group = ""
        self._scopes = {"S": _Scope(), "R": _Scope(), "F": _Scope()}
        """By the first letter of their lines: section, report, file."""
        self._awaited = ""
        """The line that ends the file: its own footer, else the report's; none for a file of sections alone."""

    def items(self, line: int, row: list[str]) -> Iterator[Parsed]:
        """Yield what a line is; lines that are no transaction are no records."""
        kind = row[0].strip().upper()
        if kind == "SB":
            for scope in self._scopes.values():
                scope.lines += 1
            try:
                yield self._transaction(line, row)
            except RecordError as error:
                yield Problem(error.code, "error", rejects=True, line=line, detail=error.detail)
        elif kind in ("SH", "RH", "FH"):
            self._begin(kind, row)
        elif kind == "CH":
            self._columns(row)
        elif kind in ("SC", "RC", "FF"):
            if kind == self._awaited:
                self._awaited = ""
            yield from self._compare_count(kind[0], line, row)
        elif kind in ("SF", "RF"):
            yield from self._compare_sums(kind[0], line, row)
        else:
            yield Problem(
                "invalid_entry", "error", rejects=True, line=line, detail="the line has a type that is not known"
            )

    def end(self) -> Iterator[Problem]:
        """Tell when the line that ends the file is not there."""
        if self._awaited:
            yield Problem("incomplete_file", detail=f"the file has no line {self._awaited}: it may be cut off")

    def _begin(self, kind: str, row: Sequence[str]) -> None:
        self._scopes["S"] = _Scope()
        if kind == "RH":
            self._scopes["R"] = _Scope()
            self._awaited = self._awaited or "RC"
        elif kind == "FH":
            self._awaited = "FF"
        if kind == "SH":
            start, account = (clean((row[i] if i < len(row) else "")[:TEXT_LENGTH_MAX]) for i in (1, 3))
            self._account = account
            # The account's transactions of one period net with the transfer to the bank among them.
            self._group = " ".join(part for part in (self._account, start) if part)[:TEXT_LENGTH_MAX]

    def _columns(self, row: list[str]) -> None:
        check_width(row)
        self._headings = headings = Headings(row, self._profile)
        needed = ("transaction event code", "gross transaction amount", "gross transaction currency")
        if min(map(headings.index, needed)) < 0:
            raise UnreadableFileError("csv_column_missing", "a section does not name amount, currency and event code")
        self._core = headings.picker(
            *("transaction id", "transaction event code", "invoice id", "custom field", "paypal reference id"),
            *("transaction completion date", "transaction initiation date", "bank reference id"),
            *("transactional status", "consumer business name", "first name", "last name"),
        )
        self._money = headings.picker(
            ("transaction debit or credit", "transaction debit or credit indicator"),
            *("gross transaction amount", "gross transaction currency"),
            ("fee debit or credit", "fee debit or credit indicator"),
            *("fee amount", "fee currency"),
        )
        self._has_status = headings.index("transactional status") >= 0

    def _transaction(self, line: int, row: list[str]) -> Entry | Skipped:
        """Return the entry of a line, or the rule that skips it; raises ``RecordError``."""
        if self._headings is None:
            raise RecordError("invalid_entry", "the line stands before the names of its columns")
        check_width(row)
        cells = self._headings.fit(row)
        ledger = self._ledger
        identity, code, invoice, custom, related, completed, initiated, bank, state, business, first, last = self._core(
            cells
        )
        side, amount, currency_cell, fee_side, fee_amount, fee_currency = self._money(cells)
        currency, read = ledger.currencies[currency_cell]
        gross = _signed(read(amount), side), currency
        fee = (0, currency)
        if fee_amount.strip():
            name, read_fee = ledger.currencies[fee_currency or currency_cell]
            fee = _signed(read_fee(fee_amount), fee_side), name
        for scope in self._scopes.values():
            scope.add(gross, fee)
        status: EntryStatus = "booked"
        if self._has_status:
            letter = state.strip().lower()
            if letter in _SKIPPED:
                return Skipped(_SKIPPED[letter], line=line)
            if letter not in _STATUSES:
                raise RecordError("invalid_entry", "the transaction has a status that is not known")
            status = _STATUSES[letter]
        net = gross[0] + fee[0] if fee[1] == currency else gross[0]
        on = ledger.dates[completed] or ledger.dates[initiated]
        entry = ledger.entry(
            line, self._account, gross, (net, currency), ((-fee[0], fee[1]),), (on, None), status=status
        )
        ledger.describe(entry, code=code, bank_reference=identity, end_to_end_id=invoice, group=self._group)
        entry.transaction_id = short_text(related or identity)
        if business or first or last:
            entry.counterparty_name = short_text(business) or short_text(f"{first} {last}")
        remit(entry, (custom, bank))
        if self._headings.metadata:
            entry.metadata = kept_cells(self._headings.metadata, cells)
        if identity.strip():
            identify(entry, identity, code)
        return entry

    def _compare_count(self, letter: str, line: int, row: Sequence[str]) -> Iterator[Problem]:
        """Compare the number of transactions with what a line says it is."""
        said = row[1].strip() if len(row) > 1 else ""
        counted = self._scopes[letter].lines
        if said.isascii() and said.isdigit() and len(said) <= 12 and int(said) != counted:
            yield _mismatch(line, None, f"the line says {int(said)} transactions, there are {counted}")

    def _compare_sums(self, letter: str, line: int, row: Sequence[str]) -> Iterator[Problem]:
        """Compare the sums of a currency; a transaction report also sums what was denied, so it proves nothing."""
        if not self._settled or len(row) < _SUMS + 2:
            return
        try:
            currency, read = self._ledger.currencies[row[1]]
            said = [read(cell) if cell.strip() else 0 for cell in row[2 : _SUMS + 2]]
        except RecordError:
            return
        is_right = said == self._scopes[letter].sums.get(currency, [0] * _SUMS)
        index = None
        if letter == "S":
            statement = self._ledger.known(self._account, currency)
            if statement is not None:
                index = statement.index
                if statement.control_totals_check != "mismatch":
                    statement.control_totals_check = "ok" if is_right else "mismatch"
        if not is_right:
            yield _mismatch(line, index, f"the sums of the line are not those of its {currency} transactions")


def _mismatch(line: int, statement: int | None, detail: str) -> Problem:
    return Problem("control_total_mismatch", statement=statement, line=line, detail=detail)


def _signed(minor: int, side: str) -> int:
    """Return the amount with the sign of CR or DR; raises ``RecordError`` where it needs one and has none."""
    sign = _SIDES.get(side.strip().upper())
    if minor < 0:
        raise RecordError("invalid_amount", "an amount has a sign, where CR or DR says it")
    if sign is None and minor:
        raise RecordError("missing_direction", "the record has an amount that is neither CR nor DR")
    return minor * (sign or 0)
