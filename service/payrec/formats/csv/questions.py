"""What a table does not tell by itself, put as a question that one more option of the upload answers.

A problem never repeats what is in a file, so every example is about a value of ours. Headings are the exception:
whoever has to say which column the amount is must be told what the columns are called. They are the structure of the
file and not its content, are taken only from a record that can only be headings, and are cut short and cleaned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Final

from payrec.constants import (
    CSV_COLUMNS_MAX,
    CSV_HEADER_SEARCHED_ROWS,
    QUESTION_ALTERNATIVES_MAX,
    QUESTION_LABEL_LENGTH_MAX,
)
from payrec.domain.currencies import MINOR_UNITS
from payrec.errors import Alternative, Question
from payrec.formats.csv.columns import Columns, assign_columns, has_essentials, is_currency, is_date, known_heading
from payrec.formats.csv.table import Table, currency_beside, is_data
from payrec.formats.csv.values import bare, decimal_evidence, is_amount, split_amount, unwrap
from payrec.formats.csv.words import PAYOUT_KINDS, fold
from payrec.formats.text import clean

_HEADING: Final = re.compile(r"[a-z][a-z ]*[0-9]?")

_ROWS_LOOKED_AT: Final = 200
"""Records by which a column's content is told; more add nothing."""

_CURRENCIES: Final = ("EUR", "USD", "GBP", "CHF", "PLN", "SEK", "NOK", "DKK", "CZK", "HUF", "CAD", "AUD", "JPY")
"""What is offered where the file gives no hint."""

_CURRENCIES_OF_SIGN: Final = {
    "$": ("USD", "CAD", "AUD", "NZD", "SGD", "HKD", "MXN"),
    "kr": ("SEK", "NOK", "DKK", "ISK"),
    "¥": ("JPY", "CNY"),
    "Fr": ("CHF",),
    "R$": ("BRL",),
    "R": ("ZAR",),
}
"""Currencies that a sign may mean; those of one meaning are no question."""

DATE_ORDER: Final = Question(
    option="dateOrder",
    text="Which part of a date comes first, the day or the month?",
    alternatives=(
        Alternative(value="dmy", example="03/04/2026 is 3 April 2026"),
        Alternative(value="mdy", example="03/04/2026 is 4 March 2026"),
    ),
)
SHORT_DATE_ORDER: Final = Question(
    option="dateOrder",
    text="Which part of a date comes first, the year, the day or the month?",
    alternatives=(
        Alternative(value="ymd", example="03-04-05 is 4 May 2003"),
        Alternative(value="dmy", example="03-04-05 is 3 April 2005"),
        Alternative(value="mdy", example="03-04-05 is 4 March 2005"),
    ),
)
DECIMAL: Final = Question(
    option="profile",
    text="Which character separates the decimals of an amount?",
    alternatives=(
        Alternative(value={"decimal": "."}, example="1,234 is one thousand two hundred and thirty-four; 1.230 is 1.23"),
        Alternative(value={"decimal": ","}, example="1.234 is one thousand two hundred and thirty-four; 1,230 is 1.23"),
    ),
)
SIGN: Final = Question(
    option="profile",
    text="Is a positive amount money in or money out? The running balance falls where amounts are positive.",
    alternatives=(
        Alternative(value={"sign": "inverted"}, example="25.00 is money out, -25.00 is money in"),
        Alternative(value={"sign": "as_is"}, example="25.00 is money in, -25.00 is money out"),
    ),
)
CARD_SIGN: Final = Question(
    option="profile",
    text="Is a positive amount money in or money out? The table is a card's, and many have purchases without a sign.",
    alternatives=SIGN.alternatives,
)
CREDIT_SIGN: Final = Question(
    option="profile",
    text="Is a negative amount in the column of credits money in or money out? Others there have no sign.",
    alternatives=(Alternative(value={"sign": "as_is"}, example="-25.00 as a credit is money out"),),
)


def kinds_question(
    kinds: Mapping[int, Collection[str]], named: Collection[str] = (), *, marks: Collection[int] = ()
) -> Question:
    """Ask whether rows of some kinds are money out, though their amounts have no sign; the kinds are words of ours.

    ``named`` are those that a profile calls money out already, ``marks`` the columns whose other words are money in.
    """
    answers = [(column, sorted(words)) for column, words in kinds.items()]
    without_payouts = [(column, sorted(set(words) - PAYOUT_KINDS)) for column, words in answers]
    answers += [answer for answer in without_payouts if answer[1] and answer not in answers]
    others = "the profile does not call money out" if named else "whatever the row is"
    return Question(
        option="profile",
        text="Which rows are money out? No amount has a sign, and there are fees, refunds, payouts or debits.",
        alternatives=(
            *(
                Alternative(
                    value={
                        "direction": {"column": column}
                        | ({} if column in marks else {"debit": [*sorted(named), *words]})
                    },
                    example=f"25.00 is money out where column {column} says {' or '.join(words)}",
                )
                for column, words in answers[: QUESTION_ALTERNATIVES_MAX - 1]
            ),
            Alternative(value={"sign": "as_is"}, example=f"25.00 is money in, {others}"),
        ),
        others="any column, and the words in it that say money out",
    )


def currency_question(rows: Sequence[Sequence[str]], columns: Columns) -> Question:
    """Ask for the currency; a sign such as ``$`` narrows what is offered."""
    indexes = [columns[role][0] for role in ("amount", "debit", "credit") if role in columns]
    parts = [split_amount(row[i]) for row in rows for i in indexes if i < len(row)]
    signs = {part[2] for part in parts if part is not None and part[2]}
    offered = next((found for sign, found in _CURRENCIES_OF_SIGN.items() if sign in signs), _CURRENCIES)
    told = [row[i].strip().upper() for i in columns.get("currency", []) for row in rows if i < len(row)]
    offered = (*dict.fromkeys(code for code in (*told, *offered) if code in MINOR_UNITS),)[:QUESTION_ALTERNATIVES_MAX]
    return Question(
        option="currency",
        text="In which currency are the amounts? The file does not say it.",
        alternatives=tuple(Alternative(value=code, example=_amount_in(code)) for code in offered),
        others="any ISO 4217 code",
    )


def _amount_in(currency: str) -> str:
    return f"an amount of 1200 is {currency} 1200{'.' + '0' * MINOR_UNITS[currency] if MINOR_UNITS[currency] else ''}"


def delimiter_question(found: Sequence[Table]) -> Question:
    """Ask for the character between cells."""
    return Question(
        option="profile",
        text="Which character separates the cells of a row?",
        alternatives=tuple(
            Alternative(value={"delimiter": table.delimiter}, example=f"a{table.delimiter}b are two cells")
            for table in found
        ),
    )


def header_question(table: Table, columns: Columns | None = None) -> Question | None:
    """Ask which record is the header, or which columns hold date and amount; None: nothing in the table is either.

    ``columns`` are those that are known already, where the header is known and does not name all that is needed.
    """
    later = [] if columns or table.header is not None else later_headers(table)
    if later:
        return Question(
            option="profile",
            text="Which row names the columns?",
            alternatives=tuple(
                Alternative(value={**_split(table), "headerRow": table.lines[i]}, example=f"row {table.lines[i]}")
                for i in later
            ),
        )
    return _columns_question(table, columns or {})


def _split(table: Table) -> dict[str, Any]:
    return {"delimiter": table.delimiter} if table.delimiter else {}


def later_headers(table: Table) -> list[int]:
    """Return records that would be the header if they stood nearer to the start."""
    found = []
    tries = 0
    for index in range(CSV_HEADER_SEARCHED_ROWS, len(table.rows)):
        cells = [unwrap(cell) for cell in table.rows[index][:CSV_COLUMNS_MAX]]
        if sum(known_heading(cell) is not None for cell in cells) >= 2:
            below = [[unwrap(cell) for cell in row] for row in table.rows[index + 1 :][:_ROWS_LOOKED_AT]]
            if has_essentials(assign_columns(cells, below)):
                found.append(index)
            tries += 1
        if tries == QUESTION_ALTERNATIVES_MAX:
            break
    return found


def _columns_question(table: Table, columns: Columns) -> Question | None:
    header, first = table.header, 0 if table.header is None else table.header + 1
    if header is None:
        first = next((i for i, row in enumerate(table.rows) if len(row) == table.modal_width and is_data(row)), -1)
        if first < 0:
            return None
        header = _heading_above(table, first)
        if header is not None:
            below = [[unwrap(cell) for cell in row] for row in table.rows[first : first + _ROWS_LOOKED_AT]]
            columns = {**assign_columns([unwrap(cell) for cell in table.rows[header]], below), **columns}
    rows = [row for row in table.rows[first : first + _ROWS_LOOKED_AT] if any(cell.strip() for cell in row)]
    width = min(max(map(len, rows), default=0), CSV_COLUMNS_MAX)
    cells = [[bare(row[i]) for row in rows if i < len(row) and row[i].strip()] for i in range(width)]
    taken = {index for indexes in columns.values() for index in indexes}
    free = [i for i in range(width) if i not in taken]
    dates: list[int | None] = [i for i in free if _mostly(cells[i], is_date)]
    amounts = [i for i in free if i not in dates and _mostly(cells[i], is_amount)]
    # Where some have decimals, the others are numbers of accounts, or quantities.
    amounts = [i for i in amounts if any(decimal_evidence(cell) is not None for cell in cells[i])] or amounts
    del dates[QUESTION_ALTERNATIVES_MAX:], amounts[QUESTION_ALTERNATIVES_MAX:]
    if columns.keys() & {"bookingDate", "valueDate"}:
        dates = [None]
    pairs = [(a, b) for a in amounts for b in amounts if a != b and _exclude_each_other(rows, a, b)]
    money = [{"amount": i} for i in amounts] + [{"debit": a, "credit": b} for a, b in pairs]
    if columns.keys() & {"amount", "debit", "credit"}:
        money = [{}]
    base = {**_split(table), "headerRow": None if header is None else table.lines[header]}
    headings = [] if header is None else [unwrap(cell) for cell in table.rows[header]]
    names = headings if header is not None and _is_plain(table.rows[header]) else []
    currencies = [i for i in free if _is_all(cells[i], is_currency)]
    text = _text_column(cells, {*taken, *amounts, *currencies, *(i for i in dates if i is not None)})
    more: dict[str, Any] = {"remittance": [text]} if text is not None and "remittance" not in columns else {}
    alike = all(cells[i] == cells[currencies[0]] for i in currencies)
    found = []
    for date, sides in product(dates, money):
        chosen = {**({} if date is None else {"bookingDate": date}), **sides}
        own: list[int | None] = [*(currencies[:1] if alike else currencies)] or [None]
        for amount in [sides["amount"]] if "amount" in sides else columns.get("amount", []):
            beside = currency_beside(headings, amount)
            own = [beside] if beside in currencies else own
        for currency in [None] if "currency" in columns else own:
            which = {} if currency is None else {"currency": currency}
            example = _example(chosen | (which if len(own) > 1 else {}), names)
            if chosen:
                found.append(Alternative(value={**base, "columns": chosen | more | which}, example=example))
    if not found:
        return None
    return Question(
        option="profile",
        text="Which columns are the date and the amount? Columns are counted from 0 in the value.",
        alternatives=tuple(found[:QUESTION_ALTERNATIVES_MAX]),
        others="any column, by its number from 0 or its heading",
    )


def _heading_above(table: Table, first: int) -> int | None:
    """Return the record above the first of the data if it can only be headings."""
    above = next((i for i in range(first - 1, -1, -1) if any(cell.strip() for cell in table.rows[i])), None)
    if above is None or len(table.rows[above]) < len(table.rows[first]) - 1:
        return None
    return above if _may_be_headings(table.rows[above]) else None


def _may_be_headings(row: Sequence[str]) -> bool:
    """Whether no record of content is so: words, each once, with at most a number behind them (``reference2``)."""
    cells = [fold(cell) for cell in row if cell.strip()]
    return 1 < len(cells) == len(set(cells)) and all(map(_HEADING.fullmatch, cells))


def _is_plain(row: Sequence[str]) -> bool:
    """Whether a record has texts and not a single digit, which no record of content has."""
    cells = [cell for cell in row if cell.strip()]
    return len(cells) > 1 and not any(character.isdigit() for cell in cells for character in cell)


def _mostly(cells: Sequence[str], check: Callable[[str], bool]) -> bool:
    return bool(cells) and sum(map(check, cells)) * 2 > len(cells)


def _is_all(cells: Sequence[str], check: Callable[[str], bool]) -> bool:
    return bool(cells) and all(map(check, cells))


def _exclude_each_other(rows: Iterable[Sequence[str]], one: int, other: int) -> bool:
    """Whether each record has an amount in one of the two columns, and never in both."""
    filled = [(bool(row[one].strip()), bool(row[other].strip())) for row in rows if len(row) > max(one, other)]
    return any(a for a, _ in filled) and any(b for _, b in filled) and not any(a and b for a, b in filled)


def _text_column(cells: Sequence[Sequence[str]], taken: set[int]) -> int | None:
    """Return the column with the longest texts, which is what people want to read of a transaction."""
    lengths = {
        i: sum(map(len, column))
        for i, column in enumerate(cells)
        if i not in taken and any(character.isalpha() for cell in column for character in cell)
    }
    return max(lengths, key=lambda i: (lengths[i], -i), default=None)


def _example(chosen: dict[str, int], names: Sequence[str]) -> str:
    words = {
        "bookingDate": "dates",
        "amount": "signed amounts",
        "debit": "money out",
        "credit": "money in",
        "currency": "currencies",
    }
    return ", ".join(f"{words[role]} in column {_label(index, names)}" for role, index in chosen.items())


def _label(index: int, names: Sequence[str]) -> str:
    name = clean(names[index]) if index < len(names) else None
    return str(index) if name is None else f'{index} "{name[:QUESTION_LABEL_LENGTH_MAX]}"'
