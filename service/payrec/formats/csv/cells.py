"""Cells to the values of an entry: dates, signed amounts, texts, by the rules of one file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Final, TypeVar

from payrec.constants import (
    CSV_CELL_REMEMBERED_LENGTH_MAX,
    CSV_CELLS_REMEMBERED_MAX,
    FIELD_BYTES_MAX,
    METADATA_VALUE_LENGTH_MAX,
    TEXT_LENGTH_MAX,
)
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.statements import Entry, Money
from payrec.errors import UnreadableFileError
from payrec.formats.base import DateOrder, RecordError
from payrec.formats.csv.columns import Columns, is_pending_word
from payrec.formats.csv.dates import DateReader, date_reader
from payrec.formats.csv.marks import mark_direction
from payrec.formats.csv.questions import CREDIT_SIGN
from payrec.formats.csv.values import AmountReader, Decimal, Exact, amount_reader, bare, unwrap
from payrec.formats.csv.words import mark_word
from payrec.formats.text import account, clean, clean_lines, own_account, reference

Value = TypeVar("Value")

_BEFORE_COMMA: Final = re.compile(r"[-+(]?[$€£]? ?[0-9]{1,3}(?:[.'’ ][0-9]{3})*")
_BEHIND_COMMA: Final = re.compile(r"(?:[0-9]{2}|[0-9]{3}(?:\.[0-9]+)?)-?\)?")
"""The halves of an amount with a comma that no quotes kept together: ``1,234.56`` or ``12,50``."""


@dataclass(slots=True, kw_only=True)
class RowRules:
    """Everything that reading a row needs to know of the file."""

    columns: Columns
    width: int
    width_least: int
    """Columns without the empty headings at the end."""
    nameless: Sequence[int] = ()
    """Those under empty headings at the end, if commas are between cells, and nothing uses them: empty as a rule."""
    decimal: Decimal | None
    date_order: DateOrder | None
    date_format: str | None = None
    implied_decimals: int | None = None
    inverted: bool = False
    currency: str | None = None
    account: str | None = None
    one_counterparty: bool = False
    """The account of the counterparty is the same in every row, so it says of none that it is a payment."""
    footer_rows: int = 0
    credit_marks: frozenset[str] | None = None
    """Folded marks of the profile; None: the known ones."""
    debit_marks: frozenset[str] | None = None
    skip: list[tuple[int, re.Pattern[str], str]] = field(default_factory=list)
    """Column, what to look for, name of the rule."""
    pending: tuple[int, re.Pattern[str]] | None = None
    metadata: list[tuple[str, int]] = field(default_factory=list)
    preamble_balances: list[tuple[str, str]] = field(default_factory=list)
    header: list[str] = field(default_factory=list)
    """The folded headings; none: the table has no header."""


def short_text(cell: str) -> str | None:
    """Return a name or a code of a row, clean; raises ``RecordError`` when it is too long."""
    if len(cell) > TEXT_LENGTH_MAX and len(cell.strip()) > TEXT_LENGTH_MAX:
        raise RecordError("field_too_long", f"a field is longer than {TEXT_LENGTH_MAX} characters")
    return clean(unwrap(cell))


def short_reference(cell: str) -> str | None:
    """Return a reference, None for the words that mean none."""
    return reference(short_text(cell))


def long_text(cell: str) -> str | None:
    """Return a text that may have lines; raises ``RecordError`` when it is too long."""
    if len(cell) > FIELD_BYTES_MAX:
        raise RecordError("field_too_long", f"a field is longer than {FIELD_BYTES_MAX} bytes")
    # Nearly every text is plain and short: one call less for it.
    if cell.isascii() and cell.isprintable() and "  " not in cell and cell[0] != "=":
        return cell.strip(" ") or None
    return clean_lines(unwrap(cell))


def joined_texts(cells: Sequence[str]) -> str | None:
    """Return the texts of several columns, each once, on lines of their own."""
    texts = dict.fromkeys(long_text(cell) for cell in cells if cell)
    text = "\n".join(text for text in texts if text)
    if len(text) > FIELD_BYTES_MAX:
        raise RecordError("field_too_long", f"a field is longer than {FIELD_BYTES_MAX} bytes")
    return text or None


class Memory(dict[str, Value]):
    """Remembers what a function made of the cells that it has seen: dates, names and accounts come again and again.

    ``memory[cell]`` is a plain dictionary look-up for a cell that is known. Bounded: a full memory is emptied.
    """

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[str], Value]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, cell: str) -> Value:
        value = self._make(cell)
        if len(cell) <= CSV_CELL_REMEMBERED_LENGTH_MAX:
            if len(self) >= CSV_CELLS_REMEMBERED_MAX:
                self.clear()
            self[cell] = value
        return value


def date_of_cell(read: DateReader) -> Callable[[str], date | None]:
    """Make the function that reads a date cell; None for an empty one and for a word such as ``Pending``."""

    def read_cell(cell: str) -> date | None:
        if cell.__class__ is Exact and cell[4:5] == "-":
            return date.fromisoformat(cell[:10])
        text = unwrap(cell).strip()
        return None if not text or is_pending_word(text) else read(text)

    return read_cell


def short_account(cell: str) -> str | None:
    """Return an account or a BIC; raises ``RecordError`` when it is too long."""
    # Nearly every account is written without blanks: one call instead of five for it.
    if cell.isalnum() and cell.isascii() and len(cell) <= TEXT_LENGTH_MAX:
        return cell.upper()
    # An apostrophe keeps spreadsheets from reading a number.
    return account(short_text(cell.strip("'"))) if cell else None


def short_own_account(cell: str) -> str | None:
    """Return an own account; raises ``RecordError`` when it is too long."""
    return own_account(short_text(cell.strip("'"))) if cell else None


class Amounts:
    """The signed amounts of a file's rows."""

    def __init__(self, rules: RowRules) -> None:
        self._rules = rules
        self._readers: dict[str, AmountReader] = {}
        columns = rules.columns
        self.is_plain = "amount" in columns and "mark" not in columns and not rules.inverted
        """One column, signed as it stands: ``reader(currency)`` alone reads it."""
        self.has_sides = "debit" in columns or "credit" in columns
        self.is_single = self.is_plain and not self.has_sides
        """And no other column says a side."""
        self._has_mark = "mark" in columns
        self.has_negative_credits = False
        """All that is money in has a minus, as on statements of cards: what is owed becomes less."""
        self.dates = Memory(date_of_cell(date_reader(rules.date_order, rules.date_format)))

    def reader(self, currency: str) -> AmountReader:
        """Return what reads the amounts of one currency."""
        if currency not in self._readers:
            self._readers[currency] = amount_reader(
                self._rules.decimal, MINOR_UNITS[currency], self._rules.implied_decimals, currency=currency
            )
        return self._readers[currency]

    def sign_reader(self) -> AmountReader:
        """Return what reads amounts of which only the sign counts, in whatever currency they are."""
        return amount_reader(self._rules.decimal, 2, self._rules.implied_decimals)

    def signed(self, read: AmountReader, amount: str, debit: str, credit: str, mark: str) -> int:
        """Return minor units, money in positive; raises ``RecordError``."""
        amount, debit, credit = bare(amount), bare(debit), bare(credit)
        if self.has_sides and (debit or credit):
            minor = _sided(debit, credit, read)
            if self.has_negative_credits and credit:
                minor = self._without_minus(minor)
        elif self._has_mark:
            minor = abs(read(amount)) * self._side(mark)
        elif amount:
            minor = read(amount)
        else:
            raise RecordError("invalid_amount", "the record has no amount")
        return -minor if self._rules.inverted else minor

    def _without_minus(self, minor: int) -> int:
        """Return a credit that has a minus as all do; refuse the file where one has none."""
        if minor > 0:
            raise UnreadableFileError(
                "csv_ambiguous_sign",
                "some amounts in the column of credits have a minus, and others have none: set the profile's sign",
                question=CREDIT_SIGN,
            )
        return -minor

    def _side(self, mark: str) -> int:
        money_in, money_out = self._rules.credit_marks, self._rules.debit_marks
        if money_in is None and money_out is None:
            side = mark_direction(mark)
        else:
            folded = mark_word(mark)
            side = 1 if folded in (money_in or ()) else -1 if folded in (money_out or ()) else None
            # A profile that names the marks of one side only: everything else is the other.
            if side is None and folded and (money_in is None or money_out is None):
                side = 1 if money_in is None else -1
        if side is None:
            raise RecordError("missing_direction", "the mark says neither money in nor money out")
        return side

    def check_whole(self, cells: Sequence[str]) -> None:
        """Refuse an amount with a comma that is two cells, where the last cell of the row shows that it has one more.

        Raises
        ------
        RecordError
            ``invalid_amount``.

        """
        if any(cells[index].strip() for index in self._rules.nameless):
            roles = self._rules.columns.keys() & {"amount", "debit", "credit"}
            for index in (self._rules.columns[role][0] for role in roles):
                if _BEFORE_COMMA.fullmatch(bare(cells[index])) and _BEHIND_COMMA.fullmatch(bare(cells[index + 1])):
                    raise RecordError("invalid_amount", "the amount has a comma, which ends its cell: it needs quotes")

    def split(self, entry: Entry, net: str, fee: str) -> None:
        """Say what of the amount reached the account, and what was kept of it; raises ``RecordError``.

        A row without gross moves its net, as in settlement reports.
        """
        read = self.reader(entry.currency)
        minor = entry.amount_minor if entry.direction == "credit" else -entry.amount_minor
        moved, kept = read(bare(net)), abs(read(bare(fee))) if fee.strip() else 0
        if self._has_mark or self.has_sides:
            # A mark or the column says which way the amount went, and the net may have a sign of its own or none.
            moved = min(moved, -moved, key=lambda other: (abs(minor - other) != kept, abs(minor - other)))
        elif self._rules.inverted:
            moved = -moved
        elif moved < 0 < minor and minor - kept != moved and abs(minor + moved) == kept:
            # The gross is without a sign: it goes the way of its net.
            minor, entry.direction = -minor, "debit"
        if not minor:
            entry.net = _money(moved, entry.currency)
            entry.amount_minor, entry.direction = abs(moved), "credit" if moved >= 0 else "debit"
            return
        if moved != minor:
            entry.net = _money(moved, entry.currency)
        if kept:
            # Fees are written with a sign or without: the net says whether this one was kept or given back.
            entry.charges = [_money(kept if moved > minor else -kept, entry.currency)]

    def besides(self, entry: Entry, fee: str) -> None:
        """Say that a fee was kept which the amount does not include; raises ``RecordError``."""
        kept = abs(self.reader(entry.currency)(bare(fee)))
        if kept:
            minor = entry.amount_minor if entry.direction == "credit" else -entry.amount_minor
            entry.net = _money(minor - kept, entry.currency)
            entry.charges = [_money(-kept, entry.currency)]

    def original(self, amount: str, currency: str, booked_currency: str) -> Money | None:
        """Return the amount before conversion, when it is there, good, and in another currency."""
        code = currency.strip().upper()
        if code == booked_currency or code not in MINOR_UNITS:
            return None
        try:
            return Money(abs(self.reader(code)(bare(amount))), code)
        except RecordError:
            return None


def kept_cells(columns: Sequence[tuple[str, int]], cells: Sequence[str]) -> dict[str, str]:
    """Return the columns (key and index) that are kept as they are; raises ``RecordError`` for a text too long."""
    kept = {}
    for name, index in columns:
        cell = cells[index]
        if cell and (text := clean(unwrap(cell))) is not None:
            if len(text) > METADATA_VALUE_LENGTH_MAX:
                raise RecordError("field_too_long", f"metadata is longer than {METADATA_VALUE_LENGTH_MAX} characters")
            kept[name] = text
    return kept


def _money(signed_minor: int, currency: str) -> Money:
    return Money(abs(signed_minor), currency, "credit" if signed_minor >= 0 else "debit")


def _sided(debit: str, credit: str, read: AmountReader) -> int:
    """Settle a pair of columns: absolute values, and a negative credit is a debit."""
    out = abs(read(debit)) if debit else 0
    income = read(credit) if credit else 0
    if out and income:
        raise RecordError("invalid_amount", "the record has both a debit and a credit")
    return income - out
