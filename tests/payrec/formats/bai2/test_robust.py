"""The BAI2 reader against torn, hostile and written files: what was written is read back, the rest is a typed error."""

from __future__ import annotations

import io
from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.constants import FIELD_BYTES_MAX, LINE_BYTES_MAX
from payrec.domain.statements import Entry
from payrec.errors import UnreadableFileError
from payrec.formats.bai2.reader import READER
from payrec.formats.base import ReadOptions
from support.bai2_files import DETECTED, codes, file_of, head_of, read, rejection_of
from support.fuzzing import Repeated, attempt, mutations
from support.memory import peak_bytes
from support.samples import options_of, requires_samples, sample, truth_of

TRUTH = truth_of("bai2/")
PIECES = [b"/", b",", b"\n", b"\r", b"88,", b"16,", b"\n03,", b"\n49,", b"\xff", b"9" * 30, b"\n88,\n88,", b"D,99,"]


@requires_samples
@pytest.mark.parametrize("known", TRUTH, ids=lambda known: known["file"])
def test_prefixes_and_mutations_give_typed_errors_only(known: dict[str, Any]) -> None:
    data, options = sample(known["file"]), options_of(known)
    for length in range(0, len(data), max(1, len(data) // 200)):
        attempt(data[:length], options)
    for mutated in mutations(data, seed=known["file"], count=100, pieces=PIECES):
        attempt(mutated, options)


def test_file_that_is_cut_is_told() -> None:
    whole = file_of("16,142,100,,,,A/", "16,475,30,,,,B/")
    assert codes(read(whole)) == []
    lines = whole.splitlines(keepends=True)
    for count in range(3, len(lines)):
        assert "incomplete_file" in codes(read("".join(lines[:count]))), count


def test_line_without_end_is_refused() -> None:
    source = Repeated(file_of(trailers=()).encode(), b"x" * 65536, count=1000)
    with pytest.raises(UnreadableFileError) as caught:
        list(READER.read(source, head_of(b""), DETECTED, ReadOptions()))
    assert caught.value.reason == "line_too_long"
    assert source.given < 2 * LINE_BYTES_MAX


def test_record_without_end_rejects_itself_in_bounded_memory() -> None:
    flood = ["88," + "x" * 77] * (2 * FIELD_BYTES_MAX // 80)
    assert rejection_of("16,142,5,,,,A", *flood) == "field_too_long"
    assert rejection_of("16,142,5,,,,A", *["x" * 79] * (2 * FIELD_BYTES_MAX // 80), "x/") == "field_too_long"
    found = read(file_of(account="\n".join(("03,1,USD,010,5,,/", *flood))))
    assert codes(found) == ["invalid_balance"]


@pytest.mark.parametrize(
    ("line", "full"), [(b"88,x\n", 10), (b"x\n", 5), (b"88,\n", 18), (b"/", 2), (b"16,142,5/", 2), (b"nonsense/\n", 2)]
)
def test_flood_takes_bounded_memory(line: bytes, full: int) -> None:
    piece = line * (16384 // len(line))
    if b"\n" not in piece:
        piece += b"\n"

    def peak_of(pieces: int) -> int:
        source = Repeated(file_of("16,142,5,,,,A", trailers=()).encode(), piece, count=pieces)
        return peak_bytes(lambda: deque(READER.read(source, head_of(b""), DETECTED, ReadOptions()), maxlen=0))

    # After ``full`` pieces the record is full. Two more that were kept would be 32,768 bytes at the least.
    assert peak_of(full + 2) < peak_of(full) + 24 * 1024


def test_undecodable_bytes_are_replaced_and_told() -> None:
    data = file_of("16,142,5,,,,A\xff/").encode("latin-1")
    items = list(READER.read(io.BytesIO(data), head_of(b""), DETECTED, ReadOptions()))
    assert [i.remittance for i in items if isinstance(i, Entry)] == ["A\ufffd"]


_TEXT = st.text(alphabet="AB ,/.0123456789\u00e9", max_size=40).map(lambda text: " ".join(text.split()).strip(" /"))
_ROW = st.tuples(
    st.sampled_from(["142", "399", "401", "475"]),
    st.integers(0, 10**12),
    st.sampled_from(["", "Z", "0", " Z", "V,260105,", "S,1,2,3", "D,1,0,5"]),
    _TEXT,
    st.booleans(),
)


@settings(max_examples=150)
@given(st.lists(_ROW, max_size=12))
def test_written_file_is_read_back_and_all_sums_agree(rows: list[tuple[str, int, str, str, bool]]) -> None:
    records: list[str] = []
    for code, minor, funds, text, continued in rows:
        if continued:
            records += (f"16,{code},{minor},{funds},B,C/", f"88,{text}/")
        else:
            records.append(f"16,{code},{minor},{funds},B,C,{text}/")
    signed = [minor if code < "400" else -minor for code, minor, *_ in rows]
    opening, closing = 1000, 1000 + sum(signed)
    written = opening + closing + sum(minor for _, minor, *_ in rows)
    count = 2 + len(records)
    text = file_of(
        *records,
        account=f"03,1,USD,010,{opening},,,015,{closing},,/",
        trailers=(f"49,{written},{count}/", f"98,{written},1,{count + 2}/", f"99,{written},1,{count + 4}/"),
    )
    found = read(text)
    assert codes(found) == []
    entries = found.entries[0]
    assert [e.amount_minor if e.direction == "credit" else -e.amount_minor for e in entries] == signed
    assert [e.remittance for e in entries] == [row[3] or None for row in rows]
    assert {(e.bank_reference, e.instruction_id or e.check_number) for e in entries} <= {("B", "C")}
    (head,) = found.statements
    assert (head.balance_check, head.control_totals_check) == ("ok", "ok")


@settings(max_examples=150)
@given(st.text(alphabet="0123468 9,/VDSZ-+\n\rAx", max_size=200))
def test_any_text_is_read_without_an_untyped_error(noise: str) -> None:
    attempt((file_of("16,142,5,,,,A/", trailers=()) + noise).encode(), ReadOptions())
