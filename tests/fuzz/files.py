"""What holds for any bytes that are read as a bank file, whichever reader takes them.

A file is read or refused with a typed error; what is read can be stored, adds up, and is the same however the bytes
come in; and a record that stands in the file is accepted, left out by a rule, or told of.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, get_args

from fuzz.cases import UNSTORABLE
from payrec.constants import AMOUNT_MINOR_MAX, REMITTANCE_LENGTH_MAX
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.statements import (
    Direction,
    Entry,
    EntryStatus,
    Money,
    Parsed,
    Problem,
    Skipped,
    Statement,
    StatementEnd,
    Totals,
)
from payrec.errors import PayloadTooLargeError, PayrecError, UnreadableFileError
from payrec.formats.base import ArchiveSource, Detected, Head, Reader, ReadOptions, Source
from payrec.formats.ecb_rates import read_rates
from payrec.formats.records import RecordFile
from payrec.formats.registry import READERS, FileParse, ParsedFile
from payrec.services.parse_output import encoded
from payrec.services.parse_rendering import entry_document, problem_document, statement_document

_MARKS: Final = {
    "camt": re.compile(rb"<Ntry>"),
    "mt940": re.compile(rb"^:61:", re.MULTILINE),
    "bai2": re.compile(rb"^16,", re.MULTILINE),
    "ofx": re.compile(rb"<STMTTRN>"),
}
"""How a record begins, where that can be told without reading the file."""


class _Pieces:
    """A source that gives its bytes in pieces, as any source may."""

    def __init__(self, source: Source, size: int) -> None:
        self._source = source
        self._size = size

    def read(self, size: int, /) -> bytes:
        return self._source.read(min(size, self._size))

    def expanded(self, size: int, /) -> None:
        if isinstance(self._source, ArchiveSource):
            self._source.expanded(size)


@dataclass(frozen=True)
class _InPieces:
    """A reader whose source gives small pieces."""

    reader: Reader
    size: int

    @property
    def name(self) -> str:
        return self.reader.name

    def detect(self, head: Head, options: ReadOptions) -> Detected | None:
        return self.reader.detect(head, options)

    def read(self, source: Source, head: Head, detected: Detected, options: ReadOptions) -> Iterator[Parsed]:
        return self.reader.read(_Pieces(source, self.size), head, detected, options)


@dataclass(frozen=True)
class Reading:
    """What came of a file."""

    file: ParsedFile
    items: list[Parsed]
    error: PayrecError | None

    @property
    def outcome(self) -> tuple[str, ...]:
        """What has to be the same in another reading; what came before a refusal is nobody's."""
        if self.error is not None:
            return (self.error.code, getattr(self.error, "reason", ""))
        return (repr(self.items), repr(self.file.counts), repr(self.file.continuity), repr(self.file.problems))


def read(data: bytes, options: ReadOptions, *, piece: int | None = None) -> Reading:
    """Read a file to its end, or to a typed error."""
    readers = READERS if piece is None else tuple(_InPieces(reader, piece) for reader in READERS)
    stream: BinaryIO = io.BytesIO(data)
    parse = FileParse(stream, name="x", options=options, monotonic=lambda: 0.0, readers=readers)
    items: list[Parsed] = []
    error: PayrecError | None = None
    try:
        items.extend(parse)
    except (UnreadableFileError, PayloadTooLargeError) as refused:
        error = refused
    return Reading(parse.file, items, error)


def check_file(data: bytes, options: ReadOptions) -> Reading:
    """Read a file in one piece and in small ones, and look at what comes of it."""
    reading = read(data, options)
    counts = reading.file.counts
    assert counts.records == counts.accepted + counts.skipped + counts.rejected
    if reading.error is None:
        _check_items(reading)
    assert read(data, options).outcome == reading.outcome, "another reading says something else"
    piece = 1 + len(data) % 13
    assert read(data, options, piece=piece).outcome == reading.outcome, f"pieces of {piece} say something else"
    return reading


def options_of(family: str) -> ReadOptions:
    """Return the options with which the files of a reader are read: what many of them cannot be read without."""
    return ReadOptions(format=family, currency="EUR", date_order="dmy")


def check_family(family: str, data: bytes) -> None:
    """Read a file with one reader."""
    check_marked(family, data, check_file(data, options_of(family)))


def check_any(data: bytes) -> None:
    """Read a file with whichever reader recognises it."""
    check_file(data, ReadOptions())


def check_marked(family: str, data: bytes, reading: Reading) -> None:
    """Find every record that begins in the file among what was read, or something told of the file."""
    mark = _MARKS.get(family)
    if mark is None or reading.error is not None or reading.file.container is not None:
        return
    told = any(isinstance(item, Problem) for item in reading.items)
    is_plain = data.isascii() and b"<!" not in data and b"<?" not in data[5:]
    if is_plain and not told:
        assert len(mark.findall(data)) <= _records(reading), "a record is missing in silence"


def _records(reading: Reading) -> int:
    """Return the records of the file: the details of a batch are one of them."""
    split: set[int] = set()
    count = 0
    for item in reading.items:
        if isinstance(item, Entry) and item.batch is not None and item.batch.itemised:
            count += id(item.batch) not in split
            split.add(id(item.batch))
        else:
            count += isinstance(item, Entry | Skipped)
    return count


def _check_items(reading: Reading) -> None:
    items, counts = reading.items, reading.file.counts
    entries = [item for item in items if isinstance(item, Entry)]
    assert counts.accepted == len(entries)
    assert counts.skipped == sum(isinstance(item, Skipped) for item in items)
    assert counts.rejected == sum(isinstance(item, Problem) and item.rejects for item in items)
    begun = [item for item in items if isinstance(item, Statement)]
    ended = [item.statement for item in items if isinstance(item, StatementEnd)]
    assert sorted(map(id, begun)) == sorted(map(id, ended)), "a statement did not end once"
    assert [s.index for s in begun] == list(range(counts.statements))
    for item in items:
        if isinstance(item, Problem):
            _check_texts(item, repr(item))
            encoded(problem_document(item))
    for statement in begun:
        _check_statement(statement, [e for e in entries if e.statement == statement.index])


def _check_statement(statement: Statement, entries: list[Entry]) -> None:
    _check_texts(statement, statement.index)
    encoded(statement_document(statement))
    assert statement.transaction_count == len(entries)
    assert [e.index for e in entries] == list(range(len(entries)))
    for balance in statement.balances:
        assert 0 <= balance.amount_minor <= AMOUNT_MINOR_MAX
        assert balance.currency in MINOR_UNITS
    if all(e.net is None and e.batch is None and e.currency == statement.currency for e in entries):
        for status in get_args(EntryStatus):
            sums = Totals()
            for entry in entries:
                if entry.status == status:
                    sums.add(entry.direction, entry.amount_minor)
            assert getattr(statement, status) == sums, "the totals are not those of the entries"
    for entry in entries:
        _check_entry(entry)
    identities = Counter((e.account, e.identity_kind, e.identity_value, e.occurrence) for e in entries)
    assert not identities or max(identities.values()) == 1, "two entries have one identity"


def _check_entry(entry: Entry) -> None:
    _check_money(Money(entry.amount_minor, entry.currency, entry.direction))
    assert entry.direction in get_args(Direction)
    assert entry.status in get_args(EntryStatus)
    assert entry.booking_on is not None
    assert len(entry.fingerprint) == 16
    for money in (*entry.charges, entry.net, entry.original):
        if money is not None:
            _check_money(money)
    for detail in (entry, *entry.details):
        _check_texts(detail, entry.index)
    for name, value in entry.metadata.items():
        assert not UNSTORABLE.search(name + value)
    encoded(entry_document(entry))


def _check_money(money: Money) -> None:
    assert 0 <= money.amount_minor <= AMOUNT_MINOR_MAX
    assert money.currency in MINOR_UNITS


def _check_texts(item: Any, where: object) -> None:
    """See to it that every text can be stored and is bounded."""
    for name in item.__slots__:
        value = getattr(item, name)
        if isinstance(value, str):
            assert not UNSTORABLE.search(value), (where, name)
            assert len(value) <= REMITTANCE_LENGTH_MAX, (where, name)


FIELDS: Final = frozenset({"externalId", "reference", "amount", "amountMinor", "currency", "direction", "dueDate"})
"""Some of the fields of an expected transaction."""


def check_records(data: bytes) -> None:
    """Read a file of the interface's own records, twice."""
    said = []
    for _ in range(2):
        file = RecordFile(
            io.BytesIO(data),
            name="x",
            format="auto",
            fields=FIELDS,
            integers=frozenset({"amountMinor"}),
            monotonic=lambda: 0.0,
        )
        try:
            said.append(repr(list(file)))
        except (UnreadableFileError, PayloadTooLargeError) as error:
            said.append(repr(error.code))
    assert re.sub(r" at 0x\w+", "", said[0]) == re.sub(r" at 0x\w+", "", said[1])


def check_rates(data: bytes) -> None:
    """Read a file of exchange rates."""
    try:
        found = read_rates(io.BytesIO(data), name="x")
    except (UnreadableFileError, PayloadTooLargeError):
        return
    for (_, currency), rate in found.rates.items():
        assert currency in MINOR_UNITS
        assert rate.mantissa > 0
