"""How many records of one file are there twice, by the identity under which they would be stored."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from typing import Final

from payrec.domain.identity import FINGERPRINT_BYTES, OCCURRENCE_BYTES
from payrec.domain.incoming_transactions import identity_of
from payrec.domain.pages import LINE_BYTES, Page, PageLine, page_line, page_of
from payrec.domain.statements import Entry, Statement
from payrec.services.spool import SegmentedSpool

SPOOL_MEMORY_BYTES: Final = 1024 * 1024
"""Bytes of identities that stay in memory; more goes to a temporary file."""
_BUCKETS: Final = 256
"""Parts in which identities are compared: two million of them at once would take hundreds of megabytes."""
_RECORD: Final = struct.Struct(f"<{FINGERPRINT_BYTES + OCCURRENCE_BYTES}s{FINGERPRINT_BYTES}s?qi4s")
"""Identity, fingerprint, whether it is pending, amount, booking day, and direction with currency."""

_RECORD_IDENTITY: Final = struct.Struct(f"<{FINGERPRINT_BYTES + OCCURRENCE_BYTES}s")
"""How a record begins."""

_Record = tuple[bytes, bytes, bool, int, int, bytes]

_PAGED: Final = struct.Struct(f"<q{LINE_BYTES}sqqq{FINGERPRINT_BYTES}sqq")
"""Statement, line, number and opening of the page, occurrence, fingerprint, bytes of account and id (-1: it has none).

Behind it come these, and its record.
"""


class DuplicateCounter:
    """Counts as an upload into an empty environment would.

    An identity that was there is a duplicate, unless the bank used its id again: a booked entry of other content and
    another amount, direction, currency or date is known by its content then.
    """

    def __init__(self) -> None:
        self._spool = SegmentedSpool(memory_bytes=SPOOL_MEMORY_BYTES)
        self._paged = SegmentedSpool(memory_bytes=SPOOL_MEMORY_BYTES)
        """Entries of statements that are pages, or may be; those of equal lines together."""
        self._begun: dict[int, Page] = {}
        """Such statements that have not ended, by index."""
        self._is_page = bytearray()
        """Of each statement that has ended, by index; one that is not there is none."""

    def __enter__(self) -> DuplicateCounter:
        return self

    def __exit__(self, *_: object) -> None:
        self._spool.__exit__()
        self._paged.__exit__()

    def begin(self, statement: Statement) -> None:
        """Note a statement that begins."""
        if statement.is_page is not False and (page := page_of(statement)) is not None:
            self._begun[statement.index] = page

    def end(self, statement: Statement) -> None:
        """Note that all of a statement is known."""
        if self._begun.pop(statement.index, None) is not None:
            self._is_page += bytes(max(0, statement.index + 1 - len(self._is_page)))
            self._is_page[statement.index] = bool(statement.is_page)

    def add(self, entry: Entry) -> None:
        """Note an entry."""
        identity = identity_of(entry)
        on = entry.booking_on
        record = _RECORD.pack(
            identity,
            entry.fingerprint,
            entry.status != "booked",
            entry.amount_minor,
            on.toordinal() if on is not None else 0,
            (entry.direction[0] + entry.currency).encode(),
        )
        page = self._begun.get(entry.statement)
        line = page_line(page, entry) if page is not None else None
        if line is None:
            self._spool.append(identity[0], record)
        else:
            self._paged.append(line.key[0], _packed(entry.statement, line) + record)

    def _number(self) -> None:
        """Give lines of pages the identities that they get among the equal ones of all pages of their statement."""
        is_page = self._is_page
        for bucket in range(_BUCKETS):
            numbers: dict[tuple[bytes, Page, int], int] = {}
            given: Counter[bytes] = Counter()
            for statement, line, record in _unpacked(self._paged, bucket):
                identity = record[: _RECORD_IDENTITY.size]
                if statement < len(is_page) and is_page[statement]:
                    number = numbers.get(place := (line.key, line.page, line.occurrence))
                    if number is None:
                        number = numbers[place] = given[line.key]
                        given[line.key] += 1
                    if number != line.occurrence:
                        identity = _RECORD_IDENTITY.pack(line.identity(number))
                self._spool.append(identity[0], identity + record[_RECORD_IDENTITY.size :])

    def count(self) -> int:
        """Return how many entries would not be stored, because they are there."""
        found = 0
        self._number()
        reused = SegmentedSpool(memory_bytes=SPOOL_MEMORY_BYTES)
        with reused:
            for bucket in range(_BUCKETS):
                found += self._compare(bucket, reused)
            for bucket in range(_BUCKETS):
                known: set[bytes] | None = None
                for fingerprint in _pieces(reused, bucket, FINGERPRINT_BYTES):
                    if known is None:
                        known = {record[0] for record in self._records(bucket)}
                    identity = fingerprint.ljust(FINGERPRINT_BYTES + OCCURRENCE_BYTES, b"\0")
                    found += identity in known
                    known.add(identity)
        return found

    def _compare(self, bucket: int, reused: SegmentedSpool) -> int:
        """Return the duplicates of one bucket; put aside what is known by its content."""
        found = 0
        first: dict[bytes, _Record] = {}
        pending: list[_Record] = []
        for record in self._records(bucket):
            if record[2]:
                pending.append(record)
                continue
            before = first.setdefault(record[0], record)
            if before is record:
                continue
            if before[1] != record[1] and before[3:] != record[3:]:
                reused.append(record[1][0], record[1])
            else:
                found += 1
        # What is booked takes the place of what was announced, wherever in the file it stands.
        for record in pending:
            found += first.setdefault(record[0], record) is not record
        return found

    def _records(self, bucket: int) -> Iterator[_Record]:
        for piece in _pieces(self._spool, bucket, _RECORD.size):
            yield _RECORD.unpack(piece)


def _pieces(spool: SegmentedSpool, sequence: int, size: int) -> Iterator[bytes]:
    """Yield records of one size; they are written whole, so none is on a border."""
    for data in spool.read(sequence):
        for at in range(0, len(data), size):
            yield data[at : at + size]


def _packed(statement: int, line: PageLine) -> bytes:
    account, bank_id = [None if text is None else text.encode() for text in (line.account, line.bank_id)]
    head = _PAGED.pack(
        statement,
        line.key,
        line.page.number,
        line.page.opening_minor,
        line.occurrence,
        line.fingerprint,
        -1 if account is None else len(account),
        -1 if bank_id is None else len(bank_id),
    )
    return head + (account or b"") + (bank_id or b"")


def _unpacked(spool: SegmentedSpool, sequence: int) -> Iterator[tuple[int, PageLine, bytes]]:
    """Yield statement, line and record; they are written whole, so none is on a border."""
    for data in spool.read(sequence):
        at = 0
        while at < len(data):
            statement, key, number, opening_minor, occurrence, digest, *lengths = _PAGED.unpack_from(data, at)
            # Its name is in the key.
            page = Page("", number, opening_minor)
            at += _PAGED.size
            texts: list[str | None] = []
            for length in lengths:
                texts.append(None if length < 0 else data[at : at + length].decode())
                at += max(0, length)
            yield statement, PageLine(key, page, occurrence, digest, texts[0], texts[1]), data[at : at + _RECORD.size]
            at += _RECORD.size
