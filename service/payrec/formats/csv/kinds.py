"""Rows that a table calls fees, refunds, payouts or debits and writes without a sign: nobody knows which way they went.

The first one may stand anywhere in a file, so that what the head does not show is looked for in every row, and asked
about when all rows are read: a file that is refused then has stored nothing, and the question has all kinds in it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from payrec.domain.statements import Entry
from payrec.errors import UnreadableFileError
from payrec.formats.csv.cells import Memory, RowRules
from payrec.formats.csv.columns import Columns
from payrec.formats.csv.marks import are_only_marks, is_mark_heading
from payrec.formats.csv.questions import kinds_question
from payrec.formats.csv.table import Table
from payrec.formats.csv.words import (
    CLEAR_DEBIT_MARKS,
    CREDIT_MARKS,
    DEBIT_MARKS,
    KIND_HEADINGS,
    OUTGOING_KINDS,
    PAYOUT_KINDS,
    fold,
    mark_word,
)

_OF_METHOD: Final = re.compile(r"card|kart|carte|carta|kaart|tarjeta|fund|method|zahl(?:ungs)?art|\bforma\b")
"""Headings under which ``debit`` and ``credit`` are kinds of cards, and of a customer's money."""

_MAY_HAVE_MARKS: Final = frozenset({"bankTransactionCode", "remittance", "reference"})
"""Roles whose columns may say the side of an amount besides."""


class Kinds:
    """The words for rows that take money from an account, by the columns that have some, as far as they are in doubt.

    ``marks`` are the columns that have nothing but marks, under a heading that says nothing: it is in doubt what they
    mean as soon as both sides occur, or a word that can mean nothing else. ``named`` are the words that a profile calls
    money out already, in its column of marks alone: the others are money in by that profile, also the ones that nobody
    thought of when it was made. Payouts may have been left out on purpose.
    """

    def __init__(
        self,
        words: Mapping[int, Collection[str]],
        *,
        marks: Collection[int] = (),
        is_unread: bool = False,
        named: Collection[str] = (),
    ) -> None:
        self._words = words
        self._marks = marks
        self._is_unread = is_unread
        """There is a column for the direction, and its words are not known."""
        self._named = named
        self._found: dict[int, set[str]] = {}
        self._income: set[int] = set()
        """Those of ``marks`` that had a mark of money in."""
        self._kinds = Memory(mark_word)

    @classmethod
    def of_table(cls, table: Table, columns: Columns) -> Kinds:
        """Return the doubt of a table that no profile says the marks of."""
        names = list(map(fold, table.names or ()))
        words: dict[int, Collection[str]] = {
            index: OUTGOING_KINDS | PAYOUT_KINDS for index, name in enumerate(names) if name in KIND_HEADINGS
        }
        marks, is_unread = cls._marks_of(table, columns, names)
        words |= {index: DEBIT_MARKS.union(words.get(index, ())) for index in marks}
        return cls(words, marks=marks, is_unread=is_unread)

    @classmethod
    def of_marks(cls, table: Table, columns: Columns) -> Kinds:
        """Return the same of a card's table, whose fees and refunds go the way that its sign says."""
        marks, is_unread = cls._marks_of(table, columns, list(map(fold, table.names or ())))
        return cls(dict.fromkeys(marks, DEBIT_MARKS), marks=marks, is_unread=is_unread)

    @classmethod
    def of_profile(cls, rules: RowRules) -> Kinds | None:
        """Return what a profile leaves in doubt that has marks; None where it says which ones are money in."""
        has_sides = not rules.columns.keys().isdisjoint(("debit", "credit"))
        if rules.debit_marks is None or rules.credit_marks is not None or has_sides:
            return None
        words = OUTGOING_KINDS - rules.debit_marks
        return cls(dict.fromkeys(rules.columns["mark"], words), named=rules.debit_marks)

    @staticmethod
    def _marks_of(table: Table, columns: Columns, names: Sequence[str]) -> tuple[set[int], bool]:
        """Return the columns of nothing but marks, and whether one that is for marks has other words."""
        rows = table.data[:200]
        taken = set(chain.from_iterable(cells for role, cells in columns.items() if role not in _MAY_HAVE_MARKS))
        marks: set[int] = set()
        is_unread = False
        for index in range(max(map(len, rows), default=0)):
            name = names[index] if index < len(names) else ""
            below = [row[index].strip() for row in rows if index < len(row)]
            if index not in taken and are_only_marks(below) and not _OF_METHOD.search(name):
                marks.add(index)
            is_unread = is_unread or (is_mark_heading(name) and any(below) and index not in marks)
        return marks, is_unread

    def look(self, row: Sequence[str]) -> None:
        """Take note of the kinds of a row."""
        for index, words in self._words.items():
            if index < len(row):
                word = self._kinds[row[index]]
                if word in words:
                    self._found.setdefault(index, set()).add(word)
                elif index in self._marks and word in CREDIT_MARKS:
                    self._income.add(index)

    def look_at_head(self, rows: Iterable[Sequence[str]], amounts: Iterable[int]) -> Kinds | None:
        """Take note of the first rows; return what the others have to be looked at for, None where there is no doubt.

        Raises
        ------
        UnreadableFileError
            As ``check``.

        """
        is_told = not self._words and not self._is_unread
        if is_told or (not self._named and any(amount < 0 for amount in amounts)):
            return None
        for row in rows:
            self.look(row)
        self.check()
        return self

    def after(self, row: Sequence[str], entry: Entry) -> Kinds | None:
        """Take note of a row further down; None as soon as an amount has a sign, which says that all have one."""
        if not self._named and "debit" in (entry.direction, entry.net and entry.net.direction):
            return None
        self.look(row)
        return self

    def _in_doubt(self, column: int, words: Collection[str]) -> bool:
        return column not in self._marks or column in self._income or not CLEAR_DEBIT_MARKS.isdisjoint(words)

    def check(self) -> None:
        """Ask which way the rows of the kinds went, if there are some.

        Raises
        ------
        UnreadableFileError
            ``csv_ambiguous_sign``.

        """
        found = {column: words for column, words in self._found.items() if self._in_doubt(column, words)}
        if found or self._is_unread:
            raise UnreadableFileError(
                "csv_ambiguous_sign",
                "fees, refunds, payouts or debits, and no amount has a sign: set the profile's direction, or its sign",
                question=kinds_question(found, self._named, marks=self._marks),
            )
