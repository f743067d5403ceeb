"""Rows that a provider calls fees, refunds or payouts and writes without a sign: nobody knows which way they went.

The first one may stand anywhere in a file, so that what the head does not show is looked for in every row, and asked
about when all rows are read: a file that is refused then has stored nothing, and the question has all kinds in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from payrec.domain.statements import Entry
from payrec.errors import UnreadableFileError
from payrec.formats.csv.cells import Memory, RowRules
from payrec.formats.csv.questions import kinds_question
from payrec.formats.csv.table import Table
from payrec.formats.csv.words import KIND_HEADINGS, OUTGOING_KINDS, PAYOUT_KINDS, fold


class Kinds:
    """The words for rows that take money from an account, by the columns that have some, as far as they are in doubt.

    ``named`` are those that a profile calls money out already, in its column of marks alone: the others are money in by
    that profile, also the ones that nobody thought of when it was made. Payouts may have been left out on purpose.
    """

    def __init__(self, columns: Sequence[int], words: Collection[str], *, named: Collection[str] = ()) -> None:
        self._columns = columns
        self._words = words
        self._named = named
        self._found: dict[int, set[str]] = {}
        self._kinds = Memory(fold)

    @classmethod
    def of_table(cls, table: Table) -> Kinds:
        """Return the doubt of a table that no profile says the marks of."""
        columns = [index for index, name in enumerate(table.names or ()) if fold(name) in KIND_HEADINGS]
        return cls(columns, OUTGOING_KINDS | PAYOUT_KINDS)

    @classmethod
    def of_profile(cls, rules: RowRules) -> Kinds | None:
        """Return what a profile leaves in doubt that has marks; None where it says which ones are money in."""
        has_sides = not rules.columns.keys().isdisjoint(("debit", "credit"))
        if rules.debit_marks is None or rules.credit_marks is not None or has_sides:
            return None
        return cls(rules.columns["mark"], OUTGOING_KINDS - rules.debit_marks, named=rules.debit_marks)

    def look(self, row: Sequence[str]) -> None:
        """Take note of the kinds of a row."""
        for index in self._columns:
            if index < len(row) and (word := self._kinds[row[index]]) in self._words:
                self._found.setdefault(index, set()).add(word)

    def look_at_head(self, rows: Iterable[Sequence[str]], amounts: Iterable[int]) -> Kinds | None:
        """Take note of the first rows; return what the others have to be looked at for, None where there is no doubt.

        Raises
        ------
        UnreadableFileError
            As ``check``.

        """
        if not self._columns or (not self._named and any(amount < 0 for amount in amounts)):
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

    def check(self) -> None:
        """Ask which way the rows of the kinds went, if there are some.

        Raises
        ------
        UnreadableFileError
            ``csv_ambiguous_sign``.

        """
        if self._found:
            raise UnreadableFileError(
                "csv_ambiguous_sign",
                "fees, refunds or payouts, and no amount has a sign: set the profile's direction, or its sign",
                question=kinds_question(self._found, self._named),
            )
