"""The statement that rows of one account and currency make, and which of its rows only say a balance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Final, Literal, cast

from payrec.domain.statements import Balance, Direction, Parsed, Problem, Statement, StatementEnd
from payrec.formats.base import RecordError
from payrec.formats.csv.chain import Chain
from payrec.formats.csv.values import AmountReader, bare

AMBIGUOUS_ROW: Final = "ambiguous_balance_row"

BalanceLabel = Literal["opening", "closing"]


@dataclass(slots=True, kw_only=True)
class LabelledRow:
    """A row that a text calls a balance or a turnover, and what else stands in it."""

    has_date: bool
    is_identified: bool
    """It names an account or a reference, as no balance does."""
    is_described: bool
    """It has another text or name beside the label."""
    minor: int | None = None
    """Its amount, signed; None where it has none."""
    balance_minor: int | None = None
    """The running balance beside it."""


class Group:
    """The statement of one account and currency."""

    __slots__ = (
        "account",
        "balances",
        "booked_minor",
        "chain",
        "count",
        "currency",
        "held",
        "index",
        "last",
        "read",
        "statement",
    )

    def __init__(self, statement: Statement, currency: str, read: AmountReader, chain: Chain | None = None) -> None:
        self.statement = statement
        self.index = statement.index
        self.account = statement.account
        self.currency = currency
        self.read = read
        self.chain = chain
        """Its running balance, where the table has a column of it."""
        self.count = 0
        self.booked_minor = 0
        """Signed sum of the booked entries."""
        self.balances: list[tuple[BalanceLabel, Balance]] = []
        self.held: list[int] = []
        """Lines of balances behind entries, which nothing proves: if entries follow, they are in doubt."""
        self.last: tuple[int, str] | None = None
        """Amount of the last entry, and the cell of the balance beside it."""

    def is_movement(self, row: LabelledRow) -> bool:
        """Tell whether a labelled row moves money: whoever pays writes the text, so the label alone decides nothing.

        A row of a balance has no amount, or one that is that balance.

        Raises
        ------
        RecordError
            ``ambiguous_balance_row``: it may be either.

        """
        minor, balance = row.minor, row.balance_minor
        if not minor or not row.has_date:
            return False
        if balance is not None:
            follows = self._follows(minor, balance)
            if abs(minor) == abs(balance):
                # From nothing to this balance; where nothing stands before it, it may be the balance itself.
                if follows == "moved" or not (row.is_identified or row.is_described):
                    return follows == "moved"
            elif follows is not None:
                return True
        elif row.is_identified:
            return True
        elif not row.is_described:
            return False
        raise RecordError(AMBIGUOUS_ROW, "a text calls the row a balance, its amount and its other cells a payment")

    def _follows(self, minor: int, balance_minor: int) -> Literal["moved", "newest", "first"] | None:
        """Say how the balance follows the one of the row above; None: it does not."""
        if self.last is None:
            return "first"
        last_minor, cell = self.last
        try:
            above = self.read(bare(cell))
        except RecordError:
            return "first"
        if above + minor == balance_minor:
            return "moved"
        return "newest" if above - last_minor == balance_minor else None

    def is_told(self, minor: int) -> bool:
        """Whether a balance between entries is the one that the rows above it lead to."""
        opening, closing = self._ends("opening"), self._ends("closing")
        return minor in (
            *(first + self.booked_minor for first in opening[:1]),
            *(last - self.booked_minor for last in closing[:1]),
        )

    def doubts(self) -> list[Problem]:
        """Return what is to be told when an entry follows the rows that are held, and hold them no more."""
        detail = "a text calls the row a balance, so it is left out; it stands between payments and may be one"
        found = [Problem(AMBIGUOUS_ROW, statement=self.index, line=line, detail=detail) for line in self.held]
        self.held.clear()
        return found

    def end(self, preamble: Iterable[tuple[str, str]]) -> Iterator[Parsed]:
        """End the statement: its balances in place, and compared with its entries where there are both."""
        for label, cell in preamble:
            with suppress(RecordError):
                minor = self.read(cell)
                self.balances.append((cast("BalanceLabel", label), interim_balance(minor, self.currency, None)))
        if self.chain is not None:
            yield from self._end_chain(self.chain)
        self.statement.balances.extend(balance for _, balance in self.balances)
        opening, closing = self._ends("opening"), self._ends("closing")
        if len(opening) == len(closing) == 1 and opening[0] + self.booked_minor != closing[0]:
            yield Problem(
                "balance_mismatch",
                statement=self.index,
                detail="the rows do not lead from the opening balance to the closing balance of the table",
            )
        yield StatementEnd(self.statement)

    def _end_chain(self, chain: Chain) -> Iterator[Problem]:
        """Take the balances that the rows prove, and tell where they do not follow."""
        ends = chain.ends()
        if ends is None:
            return
        statement = self.statement
        for kind, minor, on in (
            ("opening", ends[0], statement.first_booking_on),
            ("closing", ends[1], statement.last_booking_on),
        ):
            direction: Direction = "credit" if minor >= 0 else "debit"
            statement.balances.append(Balance(cast("BalanceLabel", kind), abs(minor), self.currency, direction, on))
        detail = "the running balance does not follow from the rows above: one is missing there, or was changed"
        for line in chain.gaps:
            yield Problem("balance_mismatch", statement=self.index, line=line, detail=detail)

    def chained(self, line: int, on: date | None, minor: int, cell: str, *, is_booked: bool) -> None:
        """Take the balance beside a row; one that cannot be read proves nothing."""
        self.last = (minor, cell)
        if self.chain is None:
            return
        balance = None
        with suppress(RecordError):
            balance = self.read(bare(cell)) if cell and not cell.isspace() else None
        if is_booked:
            self.chain.add(line, on, minor, balance)
        elif balance is not None:
            self.chain.leave_out()

    def _ends(self, wanted: BalanceLabel) -> list[int]:
        return [balance.signed_minor for label, balance in self.balances if label == wanted]


def interim_balance(minor: int, currency: str, on: date | None) -> Balance:
    """Return a balance of a table: a list of rows is not a statement, what it begins and ends with is of that list."""
    return Balance("interim", abs(minor), currency, "credit" if minor >= 0 else "debit", on)
