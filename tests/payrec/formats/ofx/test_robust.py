"""The OFX reader against torn, hostile and written files: what was written is read back, the rest is a typed error."""

from __future__ import annotations

import io
from collections import deque
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from payrec.constants import FIELD_BYTES_MAX, XML_TOKEN_BYTES_MAX
from payrec.domain.statements import Entry, Problem
from payrec.errors import UnreadableFileError
from payrec.formats.base import Detected, ReadOptions
from payrec.formats.ofx.reader import READER
from payrec.formats.registry import parse
from support.fuzzing import Repeated, attempt, mutations
from support.memory import peak_bytes
from support.ofx_files import HEADER, codes, file_of, head_of, read, rejection_of, statement, transaction
from support.samples import options_of, requires_samples, sample, truth_of

TRUTH = truth_of("ofx/")
PIECES = [b"<", b">", b"</STMTTRN>", b"<STMTTRN>", b"<STMTRS>", b"</STMTRS>", b"<LEDGERBAL>", b"&#", b"\xff", b"9" * 30]
START = file_of(statement(transaction())).partition("</BANKTRANLIST>")[0].encode()


@requires_samples
@pytest.mark.parametrize("known", TRUTH, ids=lambda known: known["file"])
def test_prefixes_and_mutations_give_typed_errors_only(known: dict[str, Any]) -> None:
    data, options = sample(known["file"]), options_of(known)
    for length in range(0, len(data), max(1, len(data) // 100)):
        attempt(data[:length], options)
    for mutated in mutations(data, seed=known["file"], count=60, pieces=PIECES):
        attempt(mutated, options)


def test_file_that_is_cut_loses_no_more_than_its_last_transaction_and_tells() -> None:
    text = file_of(statement(transaction("-12.34", "A"), transaction("-56.78", "B")))
    begin = text.index("<CURDEF>")
    for length in range(begin, text.rindex("</OFX>")):
        found = read(text[:length])
        assert "incomplete_file" in codes(found), length
        assert [e.amount_minor for e in found.entries[0]] == [1234, 5678][: text[:length].count("</STMTTRN>")], length
        torn = text[:length].count("<STMTTRN>") - text[:length].count("</STMTTRN>")
        assert codes(found).count("invalid_entry") == torn, length


@pytest.mark.parametrize("tail", ["<LEDGERBAL><BALAMT>12", "<LEDGERBAL><BALAMT>12<DTASOF>2026"])
def test_balance_that_is_cut_is_none(tail: str) -> None:
    found = read(file_of(statement(tail=tail)).partition("</STMTRS>")[0])
    assert codes(found) == ["invalid_balance", "incomplete_file"]
    assert found.statements[0].balances == []


@pytest.mark.parametrize("size", [1, 2, 7, 100])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_pieces_and_line_ends_do_not_matter(size: int, newline: str) -> None:
    class Slow(io.BytesIO):
        def read(self, _: int | None = -1, /) -> bytes:
            return super().read(size)

    rows = [transaction(f"-{n}.00", f"F{n}", MEMO="Grüße 1 < 2 & <b 3").replace("<", "\n<") for n in range(1, 6)]
    tail = "<LEDGERBAL><BALAMT>9<DTASOF>20260131</LEDGERBAL>"
    data = file_of(statement(*rows, tail=tail)).replace("\n", newline).encode()
    whole, slow = (
        list(READER.read(s, head_of(b""), Detected("ofx"), ReadOptions())) for s in (io.BytesIO(data), Slow(data))
    )
    assert whole == slow
    entries = [item for item in whole if isinstance(item, Entry)]
    assert [(e.line, e.amount_minor, e.remittance) for e in entries] == [
        (10 + 10 * n, 100 * n + 100, "Grüße 1 < 2 & <b 3") for n in range(5)
    ]


_TORN = st.sampled_from(
    [
        *("<STMTTRN>", "</STMTTRN>", "<STMTTRNP>", "</STMTTRNP>", "</STMTTRN >", "<stmttrn>", "<STMTRS>", "</STMTRS>"),
        *("<BANKTRANLIST>", "</BANKTRANLIST>", "<INVTRANLIST>", "<INVBANKTRAN>", "</OFX>", "<CURDEF>EUR", "<ACCTID>1"),
        *("<LEDGERBAL>", "<BALAMT>9", "<DTASOF>20260131", "</LEDGERBAL>", "<PAYEE>", "<NAME>x", "</PAYEE>", "</NAME>"),
        *("<TRNTYPE>DEBIT", "<DTPOSTED>20260102", "<TRNAMT>-5.00", "<FITID>F1", "<FITID>F2", "<MEMO>a", "</MEMO>"),
        *("<", "</", ">", "</ ", "<A/>", "<!-- ", "<![CDATA[", "b", "\n", "\r", "\x1c", " "),
        *(transaction(), transaction("7.00", "F2", MEMO="x")),
    ]
)


class _InPieces:
    """A source that gives its bytes in pieces of one size."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data = io.BytesIO(data)
        self._size = size

    def read(self, _: int, /) -> bytes:
        return self._data.read(self._size)


def _said(data: bytes, size: int) -> list[Any]:
    try:
        return list(READER.read(_InPieces(data, size), head_of(b""), Detected("ofx"), ReadOptions()))
    except UnreadableFileError as error:
        return [error.reason]


@given(st.lists(_TORN, max_size=30).map("".join), st.integers(1, 40))
@settings(max_examples=400)
@example("<STMTRS><STMTTRN><STMTTRN>a<TRNAMT>-5.00</STMTTRN>", 1)
@example("<STMTRS><STMTTRN><TRNAMT>-5.00</BANKTRANLIST></STMTTRN>", 1)
@example("<STMTRS><STMTTRN><TRNAMT>-5.00</ </STMTTRN>", 1)
def test_a_torn_file_says_the_same_wherever_its_pieces_end(text: str, size: int) -> None:
    data = file_of(f"<STMTRS>{text}").encode()
    assert _said(data, size) == _said(data, len(data))


@pytest.mark.parametrize("length", [XML_TOKEN_BYTES_MAX - 6, XML_TOKEN_BYTES_MAX - 5], ids=["longest", "too-long"])
@pytest.mark.parametrize("size", [65_536, 65_535, 4_099, 4 * XML_TOKEN_BYTES_MAX])
@pytest.mark.parametrize("behind", ["<NAME>x", "<b", ""], ids=["tag", "torn", "end"])
def test_the_longest_text_is_the_same_wherever_the_pieces_end(length: int, size: int, behind: str) -> None:
    text = file_of(statement(transaction())).partition("</BANKTRANLIST>")[0]
    data = f"{text}<MEMO>{'x' * (length - len('' if '>' in behind else behind))}{behind}".encode()
    too_long = length + len("<MEMO>") > XML_TOKEN_BYTES_MAX
    assert (_said(data, size) == ["xml_token_too_long"]) == too_long


@pytest.mark.parametrize("piece", [b"x", b"<", b"<MEMO ", b"\n", b"&"])
def test_text_without_end_is_refused(piece: bytes) -> None:
    source = Repeated(START + b"<STMTTRN><MEMO>", piece * (65536 // len(piece)), count=1000)
    with pytest.raises(UnreadableFileError) as caught:
        list(READER.read(source, head_of(b""), Detected("ofx"), ReadOptions()))
    assert caught.value.reason == "xml_token_too_long"
    assert source.given < 2 * XML_TOKEN_BYTES_MAX


@pytest.mark.parametrize("piece", [b"<CODE>" + b"x" * 30_000 + b"1 < ", b"ODE>" + b"x" * 30_000 + b"<C"])
def test_tags_are_found_wherever_the_pieces_end(piece: bytes) -> None:
    source = Repeated(START + b"<C", piece, count=2 * XML_TOKEN_BYTES_MAX // len(piece))
    found = list(READER.read(source, head_of(b""), Detected("ofx"), ReadOptions()))
    assert sum(isinstance(item, Entry) for item in found) == 1


def test_transaction_beyond_its_limit_rejects_itself() -> None:
    assert rejection_of(transaction(MEMO="x" * (FIELD_BYTES_MAX + 1))) == "field_too_long"
    at_once = Repeated(file_of(statement(transaction(MEMO="x" * FIELD_BYTES_MAX))).encode(), b"", count=0)
    items = list(READER.read(at_once, head_of(b""), Detected("ofx"), ReadOptions()))
    assert [item.code for item in items if isinstance(item, Problem)] == ["field_too_long"]
    many = "<MEMO>x" * (FIELD_BYTES_MAX // 5)
    assert rejection_of(transaction().replace("</STMTTRN>", f"{many}</STMTTRN>")) == "field_too_long"
    empty = "<X>" * FIELD_BYTES_MAX
    assert rejection_of(transaction().replace("</STMTTRN>", f"{empty}</STMTTRN>")) == "field_too_long"


@pytest.mark.parametrize(
    ("piece", "full"),
    [
        (b"<MEMO>x", 6),
        (b"<X>", 6),
        (b"</X>", 2),
        (b"<X/>", 6),
        (b"</STMTTRN><LEDGERBAL><BALAMT>1", 2),
        (b"</STMTTRN><DTSTART>20260101", 2),
        (b"</STMTTRN><ACCTID>1", 2),
    ],
)
def test_flood_takes_bounded_memory(piece: bytes, full: int) -> None:
    def peak_of(pieces: int) -> int:
        source = Repeated(START + b"<STMTTRN>", piece * (32768 // len(piece)), count=pieces)
        items = READER.read(source, head_of(b""), Detected("ofx"), ReadOptions())
        return peak_bytes(lambda: deque(items, maxlen=0))

    # Six pieces more that were kept would be 196,608 bytes at the least.
    assert peak_of(full + 6) < peak_of(full) + 128 * 1024


def test_memory_does_not_grow_with_the_file() -> None:
    block = (transaction(MEMO="Invoice 4711") * 200).encode()

    def peak_of(entries: int) -> int:
        items = READER.read(Repeated(START, block, count=entries // 200), head_of(b""), Detected("ofx"), ReadOptions())
        count: list[int] = []
        peak = peak_bytes(lambda: count.append(sum(isinstance(item, Entry) for item in items)))
        assert count == [entries + 1]
        return peak

    assert peak_of(6_000) < peak_of(2_000) + 128 * 1024


@pytest.mark.parametrize(
    ("charset", "data", "name", "problems"),
    [
        ("1252", "Müller".encode(), "Müller", []),
        ("1252", "Müller".encode("cp1252"), "Müller", []),
        ("1250", "Łódź".encode("cp1250"), "Łódź", []),
        ("ISO-8859-1", "Müller".encode("latin-1"), "Müller", []),
        ("8859-1", "Müller".encode("latin-1"), "Müller", []),
        ("NONE", "Müller".encode("cp1252"), "Müller", ["encoding_guessed"]),
        ("932", "Müller".encode("cp1252"), "Müller", ["encoding_guessed"]),
    ],
)
def test_utf_8_comes_before_what_the_header_says(charset: str, data: bytes, name: str, problems: list[str]) -> None:
    text = file_of(statement(transaction(NAME="@")), header=HEADER.replace("1252", charset)).encode()
    items = list(parse(io.BytesIO(text.replace(b"@", data)), name="x", options=ReadOptions(), monotonic=lambda: 0.0))
    assert [item.counterparty_name for item in items if isinstance(item, Entry)] == [name]
    assert [item.code for item in items if isinstance(item, Problem)] == problems


def test_undecodable_bytes_are_replaced_and_told() -> None:
    data = file_of(statement(transaction(NAME="A@"))).encode().replace(b"@", b"\xff")
    items = list(READER.read(io.BytesIO(data), head_of(b""), Detected("ofx"), ReadOptions()))
    assert [item.counterparty_name for item in items if isinstance(item, Entry)] == ["A\ufffd"]
    assert [item.code for item in items if isinstance(item, Problem)] == ["undecodable_bytes"]


_MEMO = st.text(alphabet="AB<>&;/ .é\t1", max_size=20).map(lambda text: " ".join(text.split()))


@settings(max_examples=150)
@given(st.lists(st.tuples(st.integers(-(10**12), 10**12), _MEMO, st.booleans()), max_size=12))
def test_written_transactions_are_read_back(rows: list[tuple[int, str, bool]]) -> None:
    texts = []
    for n, (minor, memo, lower) in enumerate(rows):
        amount = f"{'-' if minor < 0 else ''}{abs(minor) // 100}.{abs(minor) % 100:02}"
        escaped = memo.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        text = transaction(amount, f"F{n}", MEMO=escaped)
        texts.append(text.replace("NAMT>", "namt>") if lower else text)
    found = read(file_of(statement(*texts)))
    assert codes(found) == []
    entries = found.entries[0]
    assert [e.amount_minor if e.direction == "credit" else -e.amount_minor for e in entries] == [row[0] for row in rows]
    assert [e.remittance for e in entries] == [row[1] or None for row in rows]


@settings(max_examples=150)
@given(
    st.lists(
        st.sampled_from([b.decode("latin-1") for b in PIECES] + ["<TRNAMT>1", "x", "\n", "<OFX>", "</OFX>"]),
        max_size=20,
    )
)
def test_any_tags_are_read_without_an_untyped_error(noise: list[str]) -> None:
    attempt(START + "".join(noise).encode("latin-1"), ReadOptions())
