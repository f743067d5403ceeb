"""The CSV reader against torn, hostile and written files: a table is read back exactly, the rest is a typed error."""

from __future__ import annotations

import contextlib
import csv
import io
import random
import time
from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.statements import Entry
from payrec.errors import PayloadTooLargeError, UnreadableFileError
from payrec.formats.base import Head, ReadOptions, Source
from payrec.formats.csv.reader import READER
from payrec.formats.detection import look
from payrec.formats.registry import parse
from support.csv_files import HEADER, KNOWN_TABLES, entries, read, reason, rejected, signed
from support.memory import peak_bytes
from support.samples import options_of, requires_samples, sample

KNOWN = KNOWN_TABLES


def attempt(data: bytes, options: ReadOptions) -> None:
    """Read to the end, or to a typed error."""
    result = parse(io.BytesIO(data), name="x", options=options, monotonic=lambda: 0.0)
    with contextlib.suppress(UnreadableFileError, PayloadTooLargeError):
        list(result)
        counts = result.file.counts
        assert counts.records == counts.accepted + counts.skipped + counts.rejected


@requires_samples
@pytest.mark.parametrize("known", KNOWN, ids=lambda k: k["file"])
def test_every_prefix_is_read_or_refused(known: dict[str, Any]) -> None:
    data = sample(known["file"])
    for length in range(0, len(data), max(1, len(data) // 60)):
        attempt(data[:length], options_of(known))


@requires_samples
@pytest.mark.parametrize("known", KNOWN, ids=lambda k: k["file"])
def test_every_mutation_is_read_or_refused(known: dict[str, Any]) -> None:
    data = sample(known["file"])
    generator = random.Random(known["file"])  # noqa: S311  # the same bytes in every run
    for _ in range(40):
        mutated = bytearray(data)
        for _ in range(generator.randint(1, 6)):
            at = generator.randrange(len(mutated))
            choice = generator.randrange(4)
            if choice == 0:
                mutated[at] = generator.randrange(256)
            elif choice == 1:
                del mutated[at : at + generator.randint(1, 20)]
            elif choice == 2:
                mutated[at:at] = generator.choice([b'"', b";", b"\n", b"\r", b"\0", b",", b"\xff", b'="', b"9" * 30])
            else:
                mutated[at:at] = mutated[at : at + generator.randint(1, 200)]
            mutated = mutated or bytearray(b"x")
        attempt(bytes(mutated), options_of(known))


class Endless:
    """A source that repeats one piece for ever, up to more than any reader may ask."""

    def __init__(self, start: bytes, piece: bytes) -> None:
        self._next = start
        self._piece = piece
        self.given = 0

    def read(self, size: int, /) -> bytes:
        data, self._next = (self._next or self._piece)[:size], b""
        self.given += len(data)
        assert self.given < 64 * 1024 * 1024, "the reader does not stop"
        return data


def exhaust(head: Head, source: Source) -> None:
    detected = READER.detect(head, ReadOptions())
    assert detected is not None
    for _ in READER.read(source, head, detected, ReadOptions()):
        pass


@pytest.mark.parametrize(
    ("start", "piece", "expected"),
    [
        (HEADER.encode() + b"2026-01-02;a;1.50;EUR\n", b"x" * 65536, {"line_too_long"}),
        (HEADER.encode() + b"2026-01-02;a;1.50;EUR\n", b'"' * 65536, {"line_too_long"}),
        (HEADER.encode() + b'2026-01-02;"a;1.50;EUR\n', b"2026-01-02;b;1.50;EUR\n" * 3000, {"csv_unclosed_quote"}),
        (HEADER.encode() + b'2026-01-02;"a;1.50;EUR\n', b"bbbbbbb\n" * 8192, {"csv_unclosed_quote"}),
        (HEADER.encode() + b'2026-01-02;"a";1.50;"b', b'\n";"' * 16384, {"csv_unclosed_quote", "csv_too_many_columns"}),
        (HEADER.encode() + b"2026-01-02;a;1.50;EUR\n", b";" * 1000 + b"\n", {"csv_too_many_columns"}),
    ],
)
def test_what_never_ends_is_refused_in_bounded_memory(start: bytes, piece: bytes, expected: set[str]) -> None:
    endless = Endless(start, piece)
    head, source = look(endless, ReadOptions())
    began = endless.given
    reasons: list[str] = []

    def refused() -> None:
        with pytest.raises(UnreadableFileError) as error:
            exhaust(head, source)
        reasons.append(error.value.reason)

    assert peak_bytes(refused) < 16 * 1024 * 1024
    assert expected.issuperset(reasons)
    assert endless.given - began <= 2 * 1024 * 1024


def test_a_field_that_is_too_long_rejects_its_row_alone() -> None:
    text = HEADER + f"2026-01-02;{'a' * 70_000};1.50;EUR\n2026-01-02;{'b' * 140_000};1.50;EUR\n2026-01-02;c;1.50;EUR\n"
    assert rejected(text) == [("field_too_long", 2), ("field_too_long", 3)]
    assert [e.remittance for e in entries(text)] == ["c"]


def test_too_many_columns_are_refused_in_the_header_as_well() -> None:
    assert (
        reason("Date;Amount;Currency" + ";x" * 600 + "\n2026-01-02;1.50;EUR" + ";" * 600 + "\n")
        == "csv_too_many_columns"
    )


def test_too_many_accounts_are_refused() -> None:
    text = "Date;Own account;Amount;Currency\n" + "".join(f"2026-01-02;A{i};1.50;EUR\n" for i in range(10_001))
    assert reason(text) == "csv_too_many_accounts"


def test_memory_stays_flat_also_when_the_first_pass_needs_the_whole_file() -> None:
    def peak_of(rows: int) -> int:
        data = (HEADER + "01.02.2026;some text;1,50;EUR\n" * rows).encode()
        options = ReadOptions()
        head, source = look(io.BytesIO(data), options)
        detected = READER.detect(head, options)
        assert detected is not None
        found: list[int] = []

        def work() -> None:
            found.append(sum(isinstance(item, Entry) for item in READER.read(source, head, detected, options)))

        peak = peak_bytes(work)
        assert found == [rows]
        return peak

    # Of both some blocks are read. 3,000 more entries that were kept would be some megabytes.
    assert peak_of(6_000) < peak_of(3_000) + 128 * 1024


DATE_STYLES: dict[str, Callable[[date], str]] = {
    "iso": lambda d: d.isoformat(),
    "dmy": lambda d: f"{d:%d.%m.%Y}",
    "slash": lambda d: f"{d:%d/%m/%Y}",
    "mdy": lambda d: f"{d:%m/%d/%Y}",
    "short": lambda d: f"{d:%d-%m-%y}",
    "compact": lambda d: f"{d:%Y%m%d}",
}
SIGN_STYLES: dict[str, Callable[[str, bool], list[str]]] = {
    "minus": lambda text, out: [f"-{text}" if out else text],
    "behind": lambda text, out: [f"{text}-" if out else text],
    "brackets": lambda text, out: [f"({text})" if out else text],
    "pair": lambda text, out: [text, ""] if out else ["", text],
    "mark": lambda text, out: [text, "D" if out else "C"],
}
HEADINGS = {"pair": ["Debit", "Credit"], "mark": ["Amount", "D/C"]}
ROWS = st.lists(
    st.tuples(
        st.dates(date(1990, 1, 1), date(2050, 12, 31)),
        st.integers(-(10**9), 10**9),
        st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=20),
    ),
    min_size=1,
    max_size=8,
)


def written(rows: list[tuple[date, int, str]], dialect: tuple[str, str, str, str, str]) -> Iterator[list[str]]:
    _, decimal, group, dates, signs = dialect
    yield ["Date", "Description", *HEADINGS.get(signs, ["Amount"]), "Currency"]
    for on, minor, text in rows:
        whole, cents = divmod(abs(minor), 100)
        amount = f"{whole:,}".replace(",", group) + decimal + f"{cents:02}"
        yield [DATE_STYLES[dates](on), f"t{text}", *SIGN_STYLES[signs](amount, minor < 0), "EUR"]


@settings(max_examples=100, deadline=None)
@given(
    ROWS,
    st.tuples(
        st.sampled_from(";,\t|"),
        st.sampled_from(".,"),
        st.sampled_from(["", ",", ".", "'", " "]),
        st.sampled_from(sorted(DATE_STYLES)),
        st.sampled_from(sorted(SIGN_STYLES)),
    ).filter(lambda dialect: dialect[1] != dialect[2]),
)
def test_a_written_dialect_is_read_back_exactly(
    rows: list[tuple[date, int, str]], dialect: tuple[str, str, str, str, str]
) -> None:
    # One row proves what the others may leave open.
    rows = [*rows, (date(2026, 1, 31), 123, "proof")]
    stream = io.StringIO()
    csv.writer(stream, delimiter=dialect[0], lineterminator="\n").writerows(written(rows, dialect))
    found = entries(stream.getvalue())
    assert signed(found) == [minor for _, minor, _ in rows]
    assert [e.booking_on for e in found] == [on for on, _, _ in rows]


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_behind_a_header_are_read_or_refused(data: bytes, headed: bool) -> None:  # noqa: FBT001  # drawn
    attempt((HEADER.encode() if headed else b"") + data, ReadOptions(format="csv", currency="EUR"))


def test_a_million_rows_would_take_seconds_not_minutes() -> None:
    text = HEADER + "".join(f"2026-01-{i % 28 + 1:02};Invoice {i};-{i % 1000}.50;EUR\n" for i in range(20_000))
    # Time of this process, so that a busy machine says nothing.
    began = time.process_time()
    items, _ = read(text)
    assert len(items) == 20_002
    # Twenty times slower than it is.
    assert time.process_time() - began < 5
