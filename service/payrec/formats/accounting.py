"""What is the same for every format: totals, checks, dates, identities, counts and limits.

Wraps the stream of a reader and passes it on, item by item. Nothing grows with the file but the counter of
identities of an open statement (see ``OccurrenceCounter``) and a few numbers for each statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from hashlib import blake2b
from typing import Final

from payrec.constants import (
    CONTINUITY_STATEMENTS_MAX,
    FILE_RECORDS_MAX,
    PARSE_SECONDS_BASE,
    PARSE_SECONDS_PER_MIB,
    SUM_MINOR_MAX,
)
from payrec.domain.continuity import FINDINGS, Continuity, Ends, ends_of, judge
from payrec.domain.identity import OccurrenceCounter, bank_identity, fingerprint
from payrec.domain.statements import Batch, Direction, Entry, Parsed, Problem, Skipped, Statement, StatementEnd, Totals
from payrec.errors import PayloadTooLargeError, UnreadableFileError

_MIB: Final = 1024 * 1024

_RECORDS_BETWEEN_CHECKS: Final = 1024
"""How often time and records are looked at; a file is at most so many records too long when it is refused."""


class TimeBudget:
    """The seconds that reading may take; what the consumer does between two items does not count."""

    __slots__ = ("_monotonic", "_since", "_spent")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._spent = 0.0
        self._since: float | None = None

    def resume(self) -> None:
        """Go on counting."""
        self._since = self._monotonic()

    def pause(self) -> None:
        """Stop counting while someone else works."""
        if self._since is not None:
            self._spent += self._monotonic() - self._since
            self._since = None

    def check(self, read_bytes: int) -> None:
        """Refuse a file that takes longer than its bytes allow.

        Raises
        ------
        UnreadableFileError
            ``time_limit``.

        """
        spent = self._spent + (self._monotonic() - self._since if self._since is not None else 0.0)
        if spent > PARSE_SECONDS_BASE + PARSE_SECONDS_PER_MIB * read_bytes / _MIB:
            raise UnreadableFileError("time_limit", "the file takes too long to read")


@dataclass(slots=True)
class Counts:
    """What became of the records; ``records`` is always the sum of the other three."""

    statements: int = 0
    accepted: int = 0
    skipped: int = 0
    rejected: int = 0

    @property
    def records(self) -> int:
        """All records seen."""
        return self.accepted + self.skipped + self.rejected


class _Open:
    """A statement that has begun and not ended."""

    __slots__ = ("batch", "foreign", "line", "occurrences", "statement")

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self.occurrences = OccurrenceCounter()
        self.batch: Batch | None = None
        """The batch that the line of the last entry was; its details are one line of the statement."""
        self.line: tuple[Totals, int] | None = None
        """Totals and signed sum of that line so far."""
        self.foreign = False
        """An entry was not in the statement's currency, so the sums prove nothing."""


class Accounting:
    """Adds up one file, over all members of its container."""

    __slots__ = ("_budget", "_bytes_read", "_ends", "_open", "continuity", "counts")

    def __init__(self, *, budget: TimeBudget, bytes_read: Callable[[], int]) -> None:
        self._budget = budget
        self._bytes_read = bytes_read
        self._open: dict[int, _Open] = {}
        self._ends: list[Ends] = []
        self.continuity: dict[int, Continuity] = {}
        """How statements of an account follow each other, by index; known once the whole file is."""
        self.counts = Counts()

    def account(self, items: Iterable[Parsed]) -> Iterator[Parsed]:
        """Yield the items with their totals, identities and checks, and the problems that those show.

        Raises
        ------
        PayloadTooLargeError
            Beyond FILE_RECORDS_MAX records or statements.
        UnreadableFileError
            ``time_limit``, ``amount_out_of_range``.

        """
        counts = self.counts
        found: list[Problem] = []
        complete = self._entry
        until_check = _RECORDS_BETWEEN_CHECKS
        for item in items:
            kind = item.__class__
            if kind is Entry:
                accepted = complete(item, found)  # type: ignore[arg-type]  # told by its class, faster than isinstance
                if found:
                    yield from found
                    found.clear()
                if accepted:
                    yield item
            elif kind is Problem:
                if item.rejects:  # type: ignore[union-attr]  # same
                    counts.rejected += 1
                yield item
            elif kind is Skipped:
                counts.skipped += 1
                yield item
            elif isinstance(item, Statement):
                self._begin(item)
                yield item
            elif isinstance(item, StatementEnd):
                yield from self._end(item.statement)
                yield item
            until_check -= 1
            if not until_check:
                until_check = _RECORDS_BETWEEN_CHECKS
                self._check_limits()
                self._budget.check(self._bytes_read())
        self._check_limits()

    def _check_limits(self) -> None:
        if self.counts.records > FILE_RECORDS_MAX or self.counts.statements > FILE_RECORDS_MAX:
            raise PayloadTooLargeError(f"the file has more than {FILE_RECORDS_MAX} records")

    def finish(self) -> Iterator[Problem]:
        """Yield what only the whole file shows: gaps and overlaps between its statements of one account."""
        for judgement in sorted(judge(self._ends), key=lambda j: j.ends.key):
            (index,) = judgement.ends.key
            self.continuity[index] = judgement.continuity
            code = FINDINGS.get(judgement.continuity)
            if code is not None:
                yield Problem(code, judgement.severity, statement=index, detail=judgement.detail)
        self._ends = []

    def _begin(self, statement: Statement) -> None:
        self.counts.statements += 1
        self._open[statement.index] = _Open(statement)

    def _entry(self, entry: Entry, found: list[Problem]) -> bool:
        """Complete and count an entry, and add what there is to tell of it; return whether it is accepted."""
        counts = self.counts
        opened = self._open[entry.statement]
        statement = opened.statement
        if entry.booking_on is None:
            problem = _assume_date(entry, statement)
            if problem is not None:
                found.append(problem)
                if problem.rejects:
                    counts.rejected += 1
                    return False
        if entry.account is None:
            entry.account = statement.account
        entry.index = statement.transaction_count
        statement.transaction_count += 1
        counts.accepted += 1
        if entry.batch is None and entry.net is None and entry.currency == statement.currency:
            # What nearly every entry is: a line of its own, and nothing to convert.
            opened.batch = opened.line = None
            statement.entry_count += 1
            totals: Totals = getattr(statement, entry.status)
            totals.add(entry.direction, entry.amount_minor)
        else:
            self._add_up(entry, opened)
        on = entry.booking_on
        if on is not None:
            if statement.first_booking_on is None or on < statement.first_booking_on:
                statement.first_booking_on = on
            if statement.last_booking_on is None or on > statement.last_booking_on:
                statement.last_booking_on = on
        entry.fingerprint = digest = fingerprint(entry)
        if entry.identity_kind == "fingerprint" and entry.external_id is None:
            _know_by_content(entry, digest, opened.occurrences)
        elif not _identify(entry, digest, opened.occurrences):
            found.append(
                Problem(
                    "identity_reused",
                    statement=entry.statement,
                    entry=entry.index,
                    line=entry.line,
                    detail="the bank's reference came before with another amount, direction or date",
                )
            )
        return True

    def _add_up(self, entry: Entry, opened: _Open) -> None:
        """Add the entry to the totals of its status; the details of one batch line are one line together."""
        statement = opened.statement
        money = entry.net
        currency = entry.currency if money is None else money.currency
        amount_minor = entry.amount_minor if money is None else money.amount_minor
        direction: Direction = entry.direction if money is None else money.direction or entry.direction
        if statement.currency is None:
            statement.currency = currency
        totals: Totals = getattr(statement, entry.status)
        in_batch = entry.batch is not None and entry.batch.itemised
        continues = in_batch and entry.batch is opened.batch
        opened.batch = entry.batch if in_batch else None
        if not continues:
            statement.entry_count += 1
            opened.line = None
        opened.foreign |= currency != statement.currency
        if opened.line is None or not in_batch:
            totals.add(direction, amount_minor)
            if in_batch:
                opened.line = (totals, amount_minor if direction == "credit" else -amount_minor)
            return
        totals, sum_minor = opened.line
        _add_signed(totals, sum_minor, -1)
        sum_minor += amount_minor if direction == "credit" else -amount_minor
        _add_signed(totals, sum_minor, 1)
        opened.line = (totals, sum_minor)

    def _end(self, statement: Statement) -> Iterator[Problem]:
        opened = self._open.pop(statement.index, None)
        _check_sums(statement)
        opening, closing = statement.balance("opening"), statement.balance("closing")
        if len(self._ends) < CONTINUITY_STATEMENTS_MAX and statement.kind == "statement":
            self._ends.append(ends_of(statement, statement.index))
        if opened is not None and opened.foreign:
            yield Problem(
                "currency_mismatch",
                statement=statement.index,
                detail="entries are not in the currency of the statement: its totals add up different currencies",
            )
            return
        if opening is None or closing is None:
            return
        if {opening.currency, closing.currency} != {statement.currency}:
            return
        booked = statement.booked
        expected_minor = opening.signed_minor + booked.credit_minor - booked.debit_minor
        statement.balance_difference_minor = closing.signed_minor - expected_minor
        statement.balance_check = "mismatch" if statement.balance_difference_minor else "ok"
        if statement.balance_difference_minor:
            yield Problem(
                "balance_mismatch",
                statement=statement.index,
                detail=f"opening balance and booked entries miss the closing balance by "
                f"{statement.balance_difference_minor} minor units",
            )


def _check_sums(statement: Statement) -> None:
    """Refuse a statement whose sums nothing that is to keep them could hold."""
    if max(statement.credit_minor, statement.debit_minor) > SUM_MINOR_MAX:
        raise UnreadableFileError("amount_out_of_range", f"entries come to more than {SUM_MINOR_MAX} minor units")


def _add_signed(totals: Totals, sum_minor: int, times: int) -> None:
    """Add a line to the totals, or take it out again; a line of zero is a credit."""
    if sum_minor >= 0:
        totals.credit_count += times
        totals.credit_minor += times * sum_minor
    else:
        totals.debit_count += times
        totals.debit_minor -= times * sum_minor


def _assume_date(entry: Entry, statement: Statement) -> Problem | None:
    """Give an entry without booking date the next best one, and say so unless it is its value date."""
    if entry.value_on is not None:
        entry.booking_on = entry.value_on
        return None
    closing = statement.balance("closing")
    created = statement.created_at
    if closing is not None and closing.on is not None:
        entry.booking_on = closing.on
    elif created is not None:
        try:
            entry.booking_on = date.fromisoformat(created[:10])
        except ValueError:
            entry.booking_on = None
    if entry.booking_on is None:
        return Problem(
            "missing_date",
            "error",
            rejects=True,
            statement=entry.statement,
            line=entry.line,
            detail="neither a booking date nor anything that could stand for it",
        )
    return Problem(
        "date_assumed",
        "info",
        statement=entry.statement,
        entry=statement.transaction_count,
        line=entry.line,
        detail="no booking date: the statement's date was taken",
    )


def _identify(entry: Entry, digest: bytes, occurrences: OccurrenceCounter) -> bool:
    """Set the identity of an entry that has an id; False when that already named something else in this statement."""
    if entry.identity_kind == "fingerprint":
        entry.identity_kind = "bank"
        entry.identity_value = bank_identity(entry) or ""
    content = f"{entry.direction}{entry.amount_minor}{entry.currency}{entry.booking_on}".encode()
    check = int.from_bytes(blake2b(content, digest_size=2).digest(), "little")
    occurrence = occurrences.count(blake2b(entry.identity_value.encode(), digest_size=8).digest(), check)
    if occurrence is not None:
        entry.occurrence = occurrence
        return True
    entry.reused_id = entry.identity_value
    entry.identity_kind = "fingerprint"
    _know_by_content(entry, digest, occurrences)
    return False


def _know_by_content(entry: Entry, digest: bytes, occurrences: OccurrenceCounter) -> None:
    entry.identity_value = digest.hex()
    entry.occurrence = occurrences.count(digest) or 0
