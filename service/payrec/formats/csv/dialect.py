"""How a table is laid out, found from its first 64 KiB: delimiter, header, preamble, columns, currency, account."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from payrec.constants import CSV_COLUMNS_MAX, CSV_HEADER_SEARCHED_ROWS
from payrec.domain.references import is_iban
from payrec.errors import UnreadableFileError
from payrec.formats.base import Head, ReadOptions
from payrec.formats.csv.columns import (
    ColumnFinder,
    Columns,
    assign_columns,
    has_essentials,
    heading_currency,
    is_currency,
    known_heading,
    profile_columns,
)
from payrec.formats.csv.questions import currency_question, header_question
from payrec.formats.csv.table import (
    DELIMITERS,
    RARE_DELIMITERS,
    Table,
    currency_beside,
    is_data,
    looks_like_rows,
    tables,
)
from payrec.formats.csv.values import bare, currency_of_text, is_amount, split_amount, unwrap
from payrec.formats.csv.words import CLOSING_WORDS, OPENING_WORDS, ROLE_PHRASES, fold
from payrec.formats.text import own_account

_IBAN_LIKE: Final = re.compile(r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11,30}\b")


@dataclass(slots=True)
class Layout:
    """All that the head and the profile settle; decimals and order of dates are proved by the rows."""

    table: Table
    columns: Columns
    width: int
    carriage_returns: bool
    currency: str | None = None
    account: str | None = None
    """The own account where no column has it."""
    account_doubt: bool = False
    """The column ``account`` is the own account only if all rows say the same."""
    preamble_balances: list[tuple[str, str]] = field(default_factory=list)
    """``opening`` or ``closing`` and the text of the amount, from above the header."""


def _known_count(row: Sequence[str]) -> int:
    return sum(known_heading(unwrap(cell)) is not None for cell in row[:CSV_COLUMNS_MAX])


def find_header(table: Table, profile: dict[str, Any]) -> None:
    """Set ``header`` to the first record with two known words and columns for date and amount.

    What the profile names counts as known. ``headerRow`` of the profile decides alone.

    Raises
    ------
    UnreadableFileError
        ``csv_no_header``; ``csv_several_tables``: a header above it has rows of its own, which would be lost.

    """
    if "headerRow" in profile:
        line = profile["headerRow"]
        if line is not None:
            if line not in table.lines:
                raise UnreadableFileError(
                    "csv_no_header", "the file does not have the row that /profile/headerRow names"
                )
            table.header = table.lines.index(line)
        return
    named = {fold(name) for name in _names_of(profile.get("columns", {}))}
    above: int | None = None
    for index, row in enumerate(table.rows[:CSV_HEADER_SEARCHED_ROWS]):
        words = {fold(cell) for cell in row[:CSV_COLUMNS_MAX]}
        if named:
            if named <= words:
                table.header = index
                return
        elif _known_count(row) >= 2:
            table.header = index
            cells = [unwrap(cell) for cell in row]
            if has_essentials(assign_columns(cells, table.data)):
                if above is not None and any(map(is_data, table.rows[above:index])):
                    raise UnreadableFileError(
                        "csv_several_tables",
                        "a table stands above another one, of another account perhaps: split the file",
                    )
                return
            table.header = None
            if above is None and has_essentials(assign_columns(cells, [])):
                above = index


def _names_of(columns: dict[str, Any]) -> list[str]:
    names = []
    for value in columns.values():
        names += [item for item in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(item, str)]
    return [name for name in names if not re.search(r"#[0-9]+$", name)]


def choose_table(head: Head, profile: dict[str, Any]) -> Table:
    """Return the table under the delimiter that splits most lines alike; one that yields a header goes first."""
    candidates = tables(head, [profile["delimiter"]] if "delimiter" in profile else DELIMITERS)
    for table in candidates:
        if table.modal_count or len(candidates) == 1:
            find_header(table, profile)
    return max(candidates, key=lambda t: (t.header is not None, t.modal_count, t.modal_width))


def other_tables(head: Head) -> list[Table]:
    """Return the tables that there would be under delimiters too rare to be taken for one."""
    found = tables(head, RARE_DELIMITERS)
    for table in found:
        if table.modal_count:
            find_header(table, {})
    return [table for table in found if table.header is not None or (table.modal_count and looks_like_rows(table))]


def no_header(table: Table, columns: Columns | None = None) -> UnreadableFileError:
    """Return the refusal of a table that does not say which columns are date and amount."""
    return UnreadableFileError(
        "csv_no_header",
        "no header is known that names a date and an amount: a profile is required",
        question=header_question(table, columns),
    )


def make_layout(
    table: Table, profile: dict[str, Any], options: ReadOptions, *, carriage_returns: bool = False
) -> Layout:
    """Settle columns, currency and account.

    Raises
    ------
    UnreadableFileError
        ``csv_no_header``, ``csv_no_currency``, ``csv_too_many_columns``, ``csv_column_missing``.

    """
    names = table.names
    header = [] if table.header is None else [unwrap(cell) for cell in table.rows[table.header]]
    width = len(header) if table.header is not None else table.modal_width
    if max(width, table.modal_width) > CSV_COLUMNS_MAX:
        raise UnreadableFileError("csv_too_many_columns", f"a record has more than {CSV_COLUMNS_MAX} columns")
    named = profile_columns(profile.get("columns", {}), ColumnFinder(names, width))
    columns = assign_columns(header, table.data) if header else {}
    _merge(columns, named)
    if names is not None and "amount" in named and "currency" not in named:
        # A table may have as many currencies as amounts; that of the account is the first to be taken.
        beside = currency_beside(names, named["amount"][0])
        columns.update({"currency": [beside]} if beside is not None else {})
    if not named.keys() & {"amount", "debit", "credit"} and _has_sides_apart(table, columns):
        columns.pop("amount", None)
    if not has_essentials(columns):
        raise no_header(table, columns)
    layout = Layout(table, columns, width, carriage_returns)
    layout.currency = profile.get("currency") or (options.currency or "").strip().upper() or None
    given = own_account(options.account or profile.get("account"))
    preamble = table.rows[: table.header or 0]
    _read_preamble(preamble, layout)
    layout.account = given or layout.account
    _settle_account(layout, named, given)
    if layout.currency is None:
        layout.currency = _currency_of_cells(header, table.data, columns)
    if layout.currency is None and "currency" not in named and not _has_currencies(table, columns):
        raise UnreadableFileError(
            "csv_no_currency",
            "no currency in the file: set the option or the profile's currency",
            question=currency_question(table.data, columns),
        )
    return layout


def _has_currencies(table: Table, columns: Columns) -> bool:
    """Whether a column has the currency of most amounts; of a settlement report only the first row may have it."""
    if "currency" not in columns:
        return False
    amounts = [columns[role][0] for role in ("amount", "debit", "credit") if role in columns]
    (index,) = columns["currency"]
    rows = [row for row in table.data if len(row) > index and any(row[i].strip() for i in amounts if i < len(row))]
    return sum(bool(row[index].strip()) for row in rows) * 2 >= len(rows)


def _has_sides_apart(table: Table, columns: Columns) -> bool:
    """Tell whether the column of amounts is one side only: the header does not say which, or that there is another.

    A head of two lines has ``Soll`` and ``Haben`` above or below the headings; else it is the same heading twice, and
    a row has its amount under the second one.
    """
    header = table.header
    if header is None or "amount" not in columns:
        return False
    for row in table.rows[max(header - 1, 0) : header] + table.rows[header + 1 : header + 2]:
        words = {fold(unwrap(cell)) for cell in row[:CSV_COLUMNS_MAX]}
        if words & ROLE_PHRASES["debit"].keys() and words & ROLE_PHRASES["credit"].keys():
            # What has numbers is a line of totals, or of data.
            return not any(character.isdigit() for cell in row for character in cell)
    (amount,) = columns["amount"]
    headings = [fold(unwrap(cell)) for cell in table.rows[header]]
    others = [i for i, heading in enumerate(headings) if i != amount and heading == headings[amount]]
    return any(
        not row[amount].strip() and any(i < len(row) and is_amount(row[i].strip()) for i in others)
        for row in table.data
        if others and amount < len(row)
    )


def _merge(columns: Columns, named: Columns) -> None:
    """Put the profile's columns over the detected ones: what it names is nothing else any more.

    What happened to a payment says which rows are lines, also where the profile has it as the lines' code or text.
    """
    taken = {index for indexes in named.values() for index in indexes}
    for role in [role for role in columns if role != "event"]:
        left = [index for index in columns[role] if index not in taken]
        if left:
            columns[role] = left
        else:
            del columns[role]
    if "amount" in named:
        columns.pop("debit", None)
        columns.pop("credit", None)
    if "debit" in named or "credit" in named:
        columns.pop("amount", None)
    if "account" in named:
        columns.pop("ownAccount", None)
    columns.update(named)


def _settle_account(layout: Layout, named: Columns, given: str | None) -> None:
    """Say whose account the column is: ``account`` is the own one from here on."""
    columns = layout.columns
    if "account" in named:
        return
    own = columns.pop("ownAccount", None)
    alone = columns.get("account")
    if own is not None:
        columns["account"] = own
        if alone is not None and "counterpartyAccount" not in columns:
            columns["counterpartyAccount"] = alone
    elif alone is not None and "counterpartyAccount" not in columns:
        layout.account_doubt = True
    if given is not None and not layout.account_doubt and alone is None and own is None:
        layout.account = given


def _read_preamble(rows: Sequence[Sequence[str]], layout: Layout) -> None:
    """Look for account, currency and balances above the header."""
    for row in rows:
        cells = [bare(cell) for cell in row[:CSV_COLUMNS_MAX]]
        for index, cell in enumerate(cells):
            label, _, inside = cell.partition(":")
            value = inside.strip() or next((c for c in cells[index + 1 :] if c), "")
            _read_labelled(fold(label), value, layout)
            if layout.account is None:
                layout.account = _iban_in(cell)
            if layout.currency is None and len(cell) < 60 and (parts := split_amount(cell)) and parts[2]:
                layout.currency = currency_of_text(parts[2])


def _read_labelled(label: str, value: str, layout: Layout) -> None:
    if not label or not value or len(label) > 60:
        return
    words = " ".join(word for word in label.split() if not word.isdigit())
    is_own = words in ROLE_PHRASES["account"] or words in ROLE_PHRASES["ownAccount"]
    if is_own and len(value) <= 60 and sum(c.isdigit() for c in value) >= 4:
        iban = _iban_in(value)
        if layout.account is None or (iban is not None and not is_iban(layout.account)):
            layout.account = iban or own_account(value)
    elif words in ROLE_PHRASES["currency"] and layout.currency is None and is_currency(value):
        layout.currency = value.upper()
    elif words in OPENING_WORDS:
        layout.preamble_balances.append(("opening", value))
    elif words in CLOSING_WORDS:
        layout.preamble_balances.append(("closing", value))


def _iban_in(text: str) -> str | None:
    found = _IBAN_LIKE.search(text) if len(text) < 200 else None
    return own_account(found[0]) if found is not None and is_iban(found[0]) else None


def _currency_of_cells(header: Sequence[str], rows: Sequence[Sequence[str]], columns: Columns) -> str | None:
    """Return the currency that the heading or every amount names."""
    indexes = [columns[role][0] for role in ("amount", "debit", "credit") if role in columns]
    for index in indexes:
        if index < len(header) and (named := heading_currency(header[index])) is not None:
            return named
    signs: set[str | None] = set()
    for row in rows:
        for index in indexes:
            parts = split_amount(row[index]) if index < len(row) else None
            if parts is not None:
                signs.add(currency_of_text(parts[2]) if parts[2] else None)
    return signs.pop() if len(signs) == 1 else None
