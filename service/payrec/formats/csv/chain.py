"""The running balance of a table: whether each row leads from the balance above it to its own.

A row enters at one balance and leaves at another one, in the direction of the file: oldest first it enters at the
balance before it, newest first at the one after it. Rows follow each other where one enters at what the one above left.
Where a bank prints the balance of a day's end on all rows of the day, or on one of them, and where it does not sort the
rows of a day, some rows do not follow, and yet together they lead from one balance to the next: that is no gap.
"""

from __future__ import annotations

from datetime import date

from payrec.constants.tables import CSV_BALANCE_GAPS_TOLD_MAX

_FITS_LEAST = 2
"""Rows that must follow before a column that never contradicts is called a running balance; one may be chance."""


class Chain:
    """The running balance of one account, row by row and in constant memory. Amounts are signed minor units."""

    __slots__ = (
        *("_all_alike", "_balance", "_day", "_delta", "_end", "_first", "_fits", "_is_newest", "_is_partial"),
        *("_lead", "_left_out", "_loose", "_loose_line", "_misses", "_mixed", "_opening", "_value", "gaps"),
    )

    def __init__(self, *, is_newest_first: bool) -> None:
        self._is_newest = is_newest_first
        self._value: int | None = None
        """What the next row must enter at: the last balance that was proved, and all amounts since."""
        self._opening: int | None = None
        self._first: tuple[int, date | None] | None = None
        """Balance and day of the first row, until the rows prove what it entered at."""
        self._balance = 0
        """The last balance that was printed."""
        self._day: date | None = None
        self._end: int | None = None
        """What the last row that has a balance left, whether it follows or not, and all amounts since."""
        self._fits = 0
        self._misses = 0
        self.gaps: list[int] = []
        """Lines at which the balance does not follow, the first of them."""
        self._loose = 0
        """Rows since the last one that follows; below is what is known of them together."""
        self._loose_line = 0
        self._all_alike = True
        self._mixed = 0
        self._delta = 0
        self._lead = 0
        """Amounts above the first balance."""
        self._left_out = self._is_partial = False
        """Since the last row some were left out that have a balance; and it was moved by them."""

    def add(self, line: int, on: date | None, minor: int, balance: int | None) -> None:
        """Take the next booked row; its balance is None where the cell is empty."""
        delta = -minor if self._is_newest else minor
        if balance is None:
            if self._value is not None and self._end is not None:
                self._value += delta
                self._end += delta
                self._delta += delta
            else:
                self._lead += delta
            return
        enter, leave = (balance, balance - minor) if self._is_newest else (balance - minor, balance)
        if self._loose and self._all_alike and on != self._day and enter != self._value:
            self._end_day(line, enter)
        if enter == self._value:
            if self._loose:
                self._settle(balance)
            self._fits += minor != 0
            self._first = None
            self._value = self._end = leave
        elif self._value is None:
            self._opening, self._value, self._first = enter - self._lead, leave, (balance, on)
            self._end = leave
        elif self._left_out:
            self._is_partial = True
            self._value = self._end = leave
            self._loose = 0
        elif enter == self._end and minor and self._loose:
            # It follows the one above, which did not: the gap is before that one.
            self._tell()
            self._loose = 0
            self._first = None
            self._fits += 1
            self._value = self._end = leave
        else:
            self._loosen(line, on, enter, leave, balance)
            self._value += delta
            self._end = leave
        self._balance, self._day = balance, on
        self._left_out = False

    def leave_out(self) -> None:
        """Take a row that is not booked and yet has a balance, which those below may go on from."""
        self._left_out = self._value is not None

    def _loosen(self, line: int, on: date | None, enter: int, leave: int, balance: int) -> None:
        """Take a row that does not follow, until a later one tells whether it is one of several in another order."""
        if not self._loose:
            self._loose_line = line
            self._all_alike = True
            self._mixed = self._delta = 0
        self._loose += 1
        self._all_alike &= balance == self._balance and on == self._day if self._loose > 1 or self._is_newest else True
        # A sum of hashes: the balances that rows leave are those that rows enter at, in whatever order.
        self._mixed += hash(b"%d" % leave) - hash(b"%d" % enter)
        self._delta += leave - enter

    def _is_whole(self, start: int, end: int) -> bool:
        return self._mixed + hash(b"%d" % start) == hash(b"%d" % end)

    def _settle(self, balance: int) -> None:
        """Judge the loose rows where a row follows all that was before them."""
        end = self._value or 0
        # All of a day have the balance of its end: oldest first that is of the row that follows.
        alike = self._all_alike and (self._is_newest or balance == self._balance)
        if not alike and not self._is_whole(end - self._delta, end):
            self._tell()
        self._loose = 0

    def _end_day(self, line: int, enter: int) -> None:
        """Go on from a day whose rows all have the balance of its end, and which does not follow as a whole."""
        assert self._value is not None
        assert self._opening is not None
        if self._is_newest:
            self._loose_line = line
            self._tell()
            self._value = enter
        elif self._first == (self._balance, self._day):
            # The first day began with its end, less what all of its rows moved.
            self._opening += self._balance - self._value
            self._value = self._balance
        elif self._loose > 1:
            self._tell()
            self._value = self._balance
        else:
            return
        self._first = None
        self._end = self._value
        self._loose = 0

    def _tell(self) -> None:
        self._misses += 1
        if len(self.gaps) < CSV_BALANCE_GAPS_TOLD_MAX:
            self.gaps.append(self._loose_line)

    def ends(self) -> tuple[int, int] | None:
        """End, and return the balances before the oldest and after the newest row; None: the column proves nothing.

        It is a running balance where more rows follow than do not. One row that does not, of few, is a gap as well.
        """
        if self._opening is None or self._end is None or self._value is None or self._is_partial:
            return None
        end = self._end
        if self._loose:
            if (self._is_newest and self._all_alike) or self._is_whole(self._value - self._delta, self._value):
                end = self._value
            else:
                self._tell()
                self._misses += self._loose - 1
        is_proved = self._fits >= _FITS_LEAST and self._fits > self._misses
        if not is_proved and not (self._fits and self._misses == 1):
            return None
        return (end, self._opening) if self._is_newest else (self._opening, end)
