"""A bank's file cut into two that overlap, as two downloads of overlapping periods are.

Every statement of the file is in both halves: the first has its entries from the beginning on, the second those up to
the end, and some are in both. What stands around the entries (heads, balances, trailers) is in both as it was: sums
that no longer agree are told by the readers and change no entry.

The halves never share out twins: entries of the same fingerprint are all in one of the halves, as they are where
periods overlap by whole days. A statement has to keep this for its occurrences to count: two equal entries of which one
is in the first file and one in the second cannot be told from one entry in both.
"""

from __future__ import annotations

import gzip
import io
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from payrec.domain.statements import Entry, Parsed, Problem, Skipped
from payrec.formats.base import ReadOptions
from payrec.formats.registry import parse

_SHEET = re.compile(r"xl/worksheets/sheet\d+\.xml")
_FLAGS = re.MULTILINE | re.DOTALL
_BAI2_BEGIN = r"(?:^|(?<=/))[ \t]*"
_RECORDS: dict[str, tuple[re.Pattern[str], re.Pattern[str]]] = {
    "camt": (
        re.compile(r"<((?:\w+:)?)Ntry>.*?</\1Ntry>", _FLAGS),
        re.compile(r"</(?:\w+:)?(?:Stmt|Rpt|Ntfctn)>"),
    ),
    "mt940": (
        re.compile(r"^:61:.*?(?=^:(?:[13-9]\d|2\d|6[0245]|90)[A-Z]?:(?<!:86:)|^-\}?\s*$|^[\x00-\x20]*\{|\Z)", _FLAGS),
        re.compile(r"^:(?:6[02]F|34F|13D):", _FLAGS),
    ),
    "bai2": (
        re.compile(_BAI2_BEGIN + r"16,.*?(?=" + _BAI2_BEGIN + r"(?:16|49|03|02|98|99),|\Z)", _FLAGS),
        re.compile(_BAI2_BEGIN + "(?:49|03|02|98),", _FLAGS),
    ),
    "ofx": (re.compile(r"<(STMTTRNP?)>.*?</\1>", _FLAGS), re.compile(r"</BANKTRANLIST|</\w*STMTRS")),
}
"""Of each family with a text of its own: an entry, and what ends a statement between two of them."""


@dataclass(frozen=True, slots=True)
class Halves:
    """Two files with entries in common, and how many entries there are in the first, in both, and in the second."""

    first: bytes
    second: bytes
    counts: tuple[int, int, int]


Piece = tuple[int | None, str]
"""The line where it begins if it is an entry, and its text."""

Twins = Mapping[int, tuple[bytes, ...]]
"""Fingerprints of the entries that begin in a line."""


def halves(data: bytes, options: ReadOptions, *, begin: float, end: float) -> Halves:
    """Cut a file that is read with these options.

    Parameters
    ----------
    data
        The file, with its container.
    options
        Those with which it is read.
    begin, end
        Shares of the entries of each statement: the second half begins at one, the first ends at the other. At least
        one entry is in both.

    """
    if data.startswith(b"\x1f\x8b"):
        inner = halves(gzip.decompress(data), options, begin=begin, end=end)
        return Halves(gzip.compress(inner.first), gzip.compress(inner.second), inner.counts)
    if data.startswith(b"PK"):
        return _archive(data, options, begin, end)
    return _text(data, options, begin, end)


def _read(data: bytes, options: ReadOptions) -> tuple[str, str, list[Parsed]]:
    """Return format, encoding and content."""
    found = parse(io.BytesIO(data), name="x", options=options, monotonic=lambda: 0.0)
    items = list(found)
    return found.file.format or "", found.file.encoding or "", items


def _archive(data: bytes, options: ReadOptions, begin: float, end: float) -> Halves:
    """Cut every member of an archive; of a workbook, its rows."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    workbook = any(name == "xl/workbook.xml" for name, _ in members)
    twins = _twins(_read(data, options)[2]) if workbook else {}
    made: dict[str, Halves] = {}
    for name, member in members:
        if workbook and _SHEET.fullmatch(name):
            made[name] = _sheet(member, twins, begin, end)
        elif not workbook and member and "__MACOSX" not in name:
            made[name] = _text(member, options, begin, end)
    first, second = (
        _zipped((name, getattr(made[name], half) if name in made else member) for name, member in members)
        for half in ("first", "second")
    )
    sums = [sum(numbers) for numbers in zip(*(one.counts for one in made.values()), strict=True)]
    return Halves(first, second, (sums[0], sums[1], sums[2]))


def _zipped(members: Iterator[tuple[str, bytes]]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, member in members:
            archive.writestr(name, member)
    return out.getvalue()


def _sheet(member: bytes, twins: Twins, begin: float, end: float) -> Halves:
    split = re.split(r'(<row r="\d+".*?</row>)', member.decode(), flags=_FLAGS)
    numbers = (re.match(r'<row r="(\d+)"', text) for text in split)
    pieces = [(int(n[1]) if n and int(n[1]) in twins else None, t) for n, t in zip(numbers, split, strict=True)]
    return _cut(pieces, None, begin, end, str.encode, twins)


def _text(data: bytes, options: ReadOptions, begin: float, end: float) -> Halves:
    format_, encoding, items = _read(data, options)
    mark = next((m for m in (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff") if data.startswith(m)), b"")
    text = data[len(mark) :].decode(encoding, errors="surrogateescape")
    family = {"mt942": "mt940"}.get(format_, format_.partition(".")[0])
    if family in {"json", "jsonl"}:
        return _records(text, begin, end)
    twins = _twins(items)
    boundary = None
    if family in _RECORDS:
        record, boundary = _RECORDS[family]
        pieces = _matched(text, record)
    else:
        pieces = _rows(text, items)
    return _cut(
        pieces, boundary, begin, end, lambda half: mark + half.encode(encoding, errors="surrogateescape"), twins
    )


def _matched(text: str, record: re.Pattern[str]) -> list[Piece]:
    """Split a text at what is an entry."""
    pieces: list[Piece] = []
    at, line = 0, 1
    for found in record.finditer(text):
        pieces.append((None, text[at : found.start()]))
        line += text.count("\n", at, found.start())
        pieces.append((line, found[0]))
        line += found[0].count("\n")
        at = found.end()
    return [*pieces, (None, text[at:])]


def _records(text: str, begin: float, end: float) -> Halves:
    """Cut an array, or lines, of objects that have none inside."""
    records = re.findall(r"\{[^{}]*\}", text)
    start, stop = _places(records, begin, end)
    form = "[{}]" if text.lstrip().startswith("[") else "{}"
    separator = "," if form == "[{}]" else "\n"
    first, second = (form.format(separator.join(half)).encode() for half in (records[:stop], records[start:]))
    return Halves(first, second, (stop, stop - start, len(records) - start))


def _rows(text: str, items: Sequence[Parsed]) -> list[Piece]:
    """Split a table at the lines where its records begin; a record ends where the next one begins."""
    entries = _twins(items)
    others = {i.line for i in items if isinstance(i, Skipped) or (isinstance(i, Problem) and i.rejects)}
    pieces: list[Piece] = []
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        if not pieces or number in entries or number in others:
            pieces.append((number if number in entries else None, line))
        else:
            pieces[-1] = (pieces[-1][0], pieces[-1][1] + line)
    return pieces


def _twins(items: Sequence[Parsed]) -> Twins:
    found: dict[int, tuple[bytes, ...]] = {}
    for item in items:
        if isinstance(item, Entry) and item.line is not None:
            found[item.line] = (*found.get(item.line, ()), item.fingerprint)
    return found


def _cut(
    pieces: Sequence[Piece],
    boundary: re.Pattern[str] | None,
    begin: float,
    end: float,
    encode: Callable[[str], bytes],
    twins: Twins,
) -> Halves:
    statements: list[list[int]] = [[]]
    for at, (line, text) in enumerate(pieces):
        if line is not None:
            statements[-1].append(at)
        elif boundary is not None and boundary.search(text):
            statements.append([])
    first, second = set[int](), set[int]()
    for entries in filter(None, statements):
        start, stop = _places([twins.get(pieces[at][0] or 0, pieces[at][1]) for at in entries], begin, end)
        first.update(entries[:stop])
        second.update(entries[start:])
    texts = [
        "".join(text for at, (line, text) in enumerate(pieces) if line is None or at in kept)
        for kept in (first, second)
    ]
    return Halves(encode(texts[0]), encode(texts[1]), (len(first), len(first & second), len(second)))


def _places(entries: Sequence[Hashable], begin: float, end: float) -> tuple[int, int]:
    """Return where the second half begins and the first ends, so that twins are together in one of them."""
    stop = min(len(entries), max(1, round(end * len(entries))))
    start = min(stop - 1, int(begin * len(entries)))
    every = Counter(entries)
    while every != Counter(entries[:stop]) | Counter(entries[start:]):
        start -= 1
    return start, stop
