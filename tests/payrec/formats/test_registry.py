from __future__ import annotations

import gzip
import io
import time
import zipfile
from collections.abc import Iterator
from datetime import date

import pytest

from payrec.constants import DETECTION_BYTES, FILE_PROBLEMS_MAX
from payrec.domain.statements import Entry, Parsed, Problem, Statement, StatementEnd
from payrec.errors import PayloadTooLargeError, UnreadableFileError
from payrec.formats import accounting
from payrec.formats.base import Detected, Head, ReadOptions, Source
from payrec.formats.registry import BLOCK_ITEMS, READERS, FileParse, parse
from support.samples import Collected, collect, requires_samples, sample

CAMT = (
    """<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt>{}</BkToCstmrStmt></Document>"""
)
STATEMENT = """<Stmt><Id>{id}</Id><Acct><Id><Othr><Id>A{id}</Id></Othr></Id></Acct><Ntry><Amt Ccy="EUR">1</Amt>
<CdtDbtInd>CRDT</CdtDbtInd><BookgDt><Dt>2026-01-02</Dt></BookgDt></Ntry></Stmt>"""
TWO = CAMT.format(STATEMENT.format(id="1") + STATEMENT.format(id="2")).encode()
MT940 = (
    b":20:1\r\n:25:DE1\r\n:28C:1\r\n:60F:C260101EUR1,00\r\n:61:2601020102C1,00NTRFX//Y\r\n:62F:C260102EUR2,00\r\n-\r\n"
)


class ByObject:
    """A reader that asks its statement for its number again and again, as readers may."""

    name = "fake"

    def detect(self, head: Head, options: ReadOptions) -> Detected | None:  # noqa: ARG002  # the interface's parameter
        return Detected("fake") if head.text.startswith("fake") else None

    def read(self, source: Source, head: Head, detected: Detected, options: ReadOptions) -> Iterator[Parsed]:  # noqa: ARG002  # same
        statements = [Statement(i, account=f"A{i}", created_at="2026-01-02") for i in range(3)]
        yield from statements
        for minor in (1, 2):
            for statement in statements:
                yield Entry(statement.index, amount_minor=minor, currency="EUR")
                yield Problem("told", "info", statement=statement.index)
        for statement in reversed(statements):
            yield StatementEnd(statement)


class Torn(ByObject):
    """A reader that finds in the end that the file cannot be read."""

    def __init__(self, entries: int) -> None:
        self.entries = entries
        self.given = 0

    def read(self, source: Source, head: Head, detected: Detected, options: ReadOptions) -> Iterator[Parsed]:  # noqa: ARG002  # same
        statement = Statement(0, account="A")
        yield statement
        for minor in range(self.entries):
            self.given = minor + 1
            yield Entry(0, amount_minor=minor, currency="EUR", booking_on=date(2026, 1, 2))
        raise UnreadableFileError("torn", "the end is missing")


class Flood(ByObject):
    def read(self, source: Source, head: Head, detected: Detected, options: ReadOptions) -> Iterator[Parsed]:  # noqa: ARG002  # same
        yield from (Problem("told", rejects=True) for _ in range(FILE_PROBLEMS_MAX + 5))


def zipped(*members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for ordinal, data in enumerate(members):
            archive.writestr(f"{ordinal}", data)
    return out.getvalue()


def open_file(data: bytes, **options: str) -> FileParse:
    return parse(io.BytesIO(data), name="f", options=ReadOptions(**options), monotonic=lambda: 0.0)  # type: ignore[arg-type]


def read(data: bytes) -> tuple[FileParse, Collected]:
    file_parse = open_file(data)
    collected = collect(file_parse, format="x")
    return file_parse, collected


@requires_samples
def test_members_left_out_by_name_are_listed() -> None:
    file_parse, _ = read(sample("synthetic/two_days.zip"))
    members = file_parse.file.members
    assert [(m.name, m.skipped_by) for m in members] == [
        ("a/day1.xml", None),
        ("a/day2.xml", None),
        ("__MACOSX/._day1.xml", "macosx"),
    ]
    assert [m.bytes for m in members] == [787, 787, 0]


def test_families_are_asked_in_order() -> None:
    assert [reader.name for reader in READERS] == ["camt", "ofx", "bai2", "mt940", "json", "psp", "xlsx", "csv"]


@pytest.mark.parametrize("wrap", [lambda data: data, gzip.compress, zipped], ids=["plain", "gzip", "zip"])
def test_same_file_in_any_container(wrap: object) -> None:
    file_parse, collected = read(wrap(TWO))  # type: ignore[operator]
    file = file_parse.file
    assert (file.format, file.version, file.encoding) == ("camt.053", "camt.053.001.08", "utf-8")
    assert [s.account for s in collected.statements] == ["A1", "A2"]
    assert file.counts.statements == 2
    assert file.counts.accepted == 2
    assert file.error is None


def test_statements_go_on_counting_over_members_of_any_format() -> None:
    file_parse, collected = read(zipped(TWO, MT940, TWO))
    assert [s.index for s in collected.statements] == [0, 1, 2, 3, 4]
    assert [s.account for s in collected.statements] == ["A1", "A2", "DE1", "A1", "A2"]
    assert {i: len(e) for i, e in collected.entries.items()} == {0: 1, 1: 1, 2: 1, 3: 1, 4: 1}
    assert file_parse.file.format == "camt.053"
    # One payment in two overlapping files: the same identity and the same occurrence.
    first, again = collected.entries[0][0], collected.entries[3][0]
    assert (first.identity_value, first.occurrence) == (again.identity_value, again.occurrence)


def test_numbers_are_the_files_whatever_the_reader_looks_at() -> None:
    stream = io.BytesIO(zipped(b"fake", b"fake", b"fake"))
    file_parse = FileParse(stream, name="f", options=ReadOptions(), monotonic=lambda: 0.0, readers=(ByObject(),))
    seen: list[Parsed] = []
    statements: list[Statement] = []
    for item in file_parse:
        seen.append(item)
        if isinstance(item, Statement):
            statements.append(item)
        assert [s.index for s in statements] == list(range(len(statements)))
    assert len(statements) == 9
    entries = [i for i in seen if isinstance(i, Entry)]
    assert [e.statement for e in entries] == [0, 1, 2] * 2 + [3, 4, 5] * 2 + [6, 7, 8] * 2
    assert all(e.account == f"A{e.statement % 3}" for e in entries)
    assert [p.statement for p in seen if isinstance(p, Problem) and p.code == "told"] == [e.statement for e in entries]


def test_problems_are_kept_up_to_a_limit_and_all_counted() -> None:
    file_parse = FileParse(
        io.BytesIO(b"fake"), name="f", options=ReadOptions(), monotonic=lambda: 0.0, readers=(Flood(),)
    )
    assert sum(1 for _ in file_parse) == FILE_PROBLEMS_MAX + 5
    assert len(file_parse.file.problems) == FILE_PROBLEMS_MAX
    assert file_parse.file.problem_count == FILE_PROBLEMS_MAX + 5
    assert file_parse.file.counts.rejected == FILE_PROBLEMS_MAX + 5


def test_guessed_encoding_is_told() -> None:
    file_parse, _ = read(TWO.replace(b"A1", b"\xc4"))
    assert file_parse.file.encoding == "cp1252"
    assert [p.code for p in file_parse.file.problems] == ["encoding_guessed"]


def test_refusal_keeps_its_reason_and_what_was_tried() -> None:
    file_parse = open_file(b"\x01\x02\x03 nothing that anyone knows")
    with pytest.raises(UnreadableFileError) as raised:
        list(file_parse)
    assert raised.value.reason == "unknown_format"
    assert [t["format"] for t in raised.value.tried][:1] == ["camt"]
    assert file_parse.file.error is raised.value
    torn = open_file(TWO[:-20])
    with pytest.raises(UnreadableFileError) as raised:
        list(torn)
    assert raised.value.reason == "xml_malformed"
    assert raised.value.tried == ({"format": "camt.053", "reason": "xml_malformed"},)


def test_archive_of_nothing_is_empty() -> None:
    with pytest.raises(UnreadableFileError) as raised:
        list(open_file(zipped()))
    assert raised.value.reason == "empty_file"


def test_named_format_that_is_not_read_yet() -> None:
    with pytest.raises(UnreadableFileError) as raised:
        list(open_file(TWO, format="coda"))
    assert raised.value.reason == "unknown_format"


def test_record_limit_holds_over_all_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "FILE_RECORDS_MAX", 3)
    list(open_file(TWO))
    with pytest.raises(PayloadTooLargeError):
        list(open_file(zipped(TWO, TWO)))


def test_time_limit_counts_the_reader_and_not_its_consumer() -> None:
    now = [0.0]
    file_parse = parse(io.BytesIO(TWO), name="f", options=ReadOptions(), monotonic=lambda: now[0])
    for _ in file_parse:
        now[0] += 1_000.0
    ticking = iter(range(0, 10_000, 6))
    with pytest.raises(UnreadableFileError) as raised:
        list(parse(io.BytesIO(TWO), name="f", options=ReadOptions(), monotonic=lambda: next(ticking)))
    assert raised.value.reason == "time_limit"


@pytest.mark.parametrize("count", [0, 1, BLOCK_ITEMS - 1, BLOCK_ITEMS, BLOCK_ITEMS + 1, 3 * BLOCK_ITEMS])
def test_entries_before_an_error_are_all_given(count: int) -> None:
    reader = Torn(count)
    file_parse = FileParse(
        io.BytesIO(b"fake"), name="f", options=ReadOptions(), monotonic=lambda: 0.0, readers=(reader,)
    )
    seen: list[int] = []

    def take_all() -> None:
        for item in file_parse:
            if isinstance(item, Entry):
                seen.append(item.amount_minor)
                assert reader.given - len(seen) < BLOCK_ITEMS
            else:
                # What is no entry is told at once: nothing is read ahead of it.
                assert reader.given == 0

    with pytest.raises(UnreadableFileError):
        take_all()
    assert seen == list(range(count))
    assert file_parse.file.error is not None


def test_file_is_read_once() -> None:
    file_parse = open_file(TWO)
    list(file_parse)
    with pytest.raises(RuntimeError):
        list(file_parse)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("unit", ["\n", "\r\n", " \n", "\x01\n", "\t", "\r"])
def test_a_head_of_blanks_is_refused_at_once(unit: str) -> None:
    began = time.process_time()
    with pytest.raises(UnreadableFileError):
        list(
            parse(
                io.BytesIO(unit.encode() * 2 * DETECTION_BYTES),
                name="x",
                options=ReadOptions(),
                monotonic=time.monotonic,
            )
        )
    assert time.process_time() - began < 5
