from __future__ import annotations

import io
import random
from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.constants import FIELD_BYTES_MAX, LINE_BYTES_MAX, TEXT_LENGTH_MAX
from payrec.domain.statements import Entry, Parsed
from payrec.errors import PayloadTooLargeError, UnreadableFileError
from payrec.formats.base import Detected, ReadOptions
from payrec.formats.mt940.reader import READER
from payrec.formats.registry import parse
from support.memory import peak_bytes
from support.mt940_messages import CLOSING, entry_of, head_of, read, rejection_of, statement
from support.samples import (
    collect,
    options_of,
    parse_sample,
    requires_samples,
    sample,
    truth_of,
)

TRUTH = truth_of("mt940/", "synthetic/mt940")
READABLE = [known for known in TRUTH if known["outcome"] == "read"]


@requires_samples
def test_balances_prove_that_a_reversed_credit_takes_money_out() -> None:
    (known,) = truth_of("mt940/betterplace_sepa_mt9401.sta")
    found = parse_sample(known)
    assert len(found.statements) == 26
    assert sum(map(len, found.entries.values())) == 97
    assert {s.balance_check for s in found.statements} == {"ok"}
    assert any(e.reversal for entries in found.entries.values() for e in entries)


def parse_bytes(data: bytes, options: ReadOptions) -> list[Parsed]:
    return list(parse(io.BytesIO(data), name="x", options=options, monotonic=lambda: 0.0))


@requires_samples
@pytest.mark.parametrize("known", TRUTH, ids=lambda known: known["file"])
def test_prefixes_and_mutations_give_typed_errors_only(known: dict[str, Any]) -> None:
    data, options = sample(known["file"]), options_of(known)
    step = max(1, len(data) // 60)
    variants = [data[:length] for length in range(0, len(data), step)]
    random_bytes = random.Random(known["file"])  # noqa: S311  # the same mutations in every run
    for _ in range(60):
        mutated = bytearray(data)
        for _ in range(random_bytes.randint(1, 8)):
            mutated[random_bytes.randrange(len(mutated))] = random_bytes.randrange(256)
        variants.append(bytes(mutated))
    for variant in variants:
        try:
            parse_bytes(variant, options)
        except (UnreadableFileError, PayloadTooLargeError):
            continue


def test_line_and_account_are_set_and_the_bank_reference_is_no_identity() -> None:
    found = read(statement(":61:2601020102C1,NTRFNONREF//SAME", ":86:a", ":61:2601020102C1,NTRFNONREF//SAME"))
    assert [e.line for e in found.entries[0]] == [5, 7]
    assert {e.identity_kind for e in found.entries[0]} == {"fingerprint"}
    assert {e.account for e in found.entries[0]} == {"10020030/1234567"}


def test_entry_after_the_end_mark_is_rejected() -> None:
    found = read(statement(":61:2601020102C1,NTRF", CLOSING, "-", ":61:2601020102C1,NTRF", ":86:text"))
    assert len(found.entries[0]) == 1
    (problem,) = found.problems
    assert (problem.code, problem.rejects, problem.line) == ("entry_outside_statement", True, 8)


@pytest.mark.parametrize("end", ["-", "-}", "-\x03", "-}{5:{CHK:0}}{1:F01BANK}{4:", ""])
def test_end_marks(end: str) -> None:
    found = read(statement(":61:2601020102C1,NTRF", ":86:text", end) + statement(":62F:C260102EUR1,"))
    assert [len(found.entries[i]) for i in range(2)] == [1, 0]
    assert found.entries[0][0].remittance == "text"


def test_swift_blocks_and_control_characters_around_messages() -> None:
    text = "{1:F01BANKXXXX}{2:I940X}{4:\r\n" + statement(":61:2601020102C1,NTRF", ":86:-TX 7", "-}")
    found = read(text + "\x01\r\n" + statement(":61:2601020102C2,NTRF", "-\x03"))
    assert [[e.amount_minor for e in found.entries[i]] for i in range(2)] == [[100], [200]]
    assert found.entries[0][0].remittance == "-TX 7"


def test_text_that_begins_as_a_tag_stays_text() -> None:
    entry = entry_of("2601020102C1,NTRF", ":86:booked 03:46", ":08 or", ":08:15 o'clock", ":not:a tag")
    assert entry.remittance == "booked 03:46 :08 or :08:15 o'clock :not:a tag"


def test_details_after_the_closing_balance_belong_to_the_statement() -> None:
    found = read(statement(":61:2601020102C1,NTRF", ":86:mine", ":62F:C260102EUR101,", ":86:not mine"))
    assert found.entries[0][0].remittance == "mine"


@pytest.mark.parametrize(
    ("opening", "closing", "is_page"),
    [("60F", "62F", False), ("60F", "62M", True), ("60M", "62M", True), ("60M", "62F", True), ("60F", None, False)],
)
def test_intermediate_balances_make_a_page(opening: str, closing: str | None, is_page: bool) -> None:  # noqa: FBT001
    lines = [":61:2601020102C1,NTRF", *([f":{closing}:C260102EUR101,"] if closing else [])]
    text = statement(*lines).replace(":60F:", f":{opening}:")
    assert read(text).statements[0].is_page is is_page


def test_heads_and_balances() -> None:
    found = read(
        statement(":62M:C260102101,", ":64:D260102EUR3,5", ":65:C260103EUR1,", account="DE89 3704 0044 0532 0130 00")
    )
    (head,) = found.statements
    assert (head.account, head.account_scheme, head.currency) == ("DE89370400440532013000", "iban", "EUR")
    assert (head.statement_id, head.sequence_number, head.page_number, head.last_page) == ("7/2", "7", 2, False)
    assert [(b.type, b.signed_minor, b.on and b.on.isoformat()) for b in head.balances] == [
        ("opening", 10000, "2025-12-30"),
        ("closing", 10100, "2026-01-02"),
        ("closing_available", -350, "2026-01-02"),
        ("forward_available", 100, "2026-01-03"),
    ]
    assert head.kind == "statement"


def test_malformed_balance_is_told_and_never_fatal() -> None:
    found = read(statement(":61:2601020102C1,NTRF", ":62F:nonsense"))
    assert [p.code for p in found.problems] == ["invalid_balance"]
    assert not found.problems[0].rejects
    assert len(found.entries[0]) == 1
    assert found.statements[0].balance("closing") is None


@pytest.mark.parametrize("amount", ["1.000,56", "1 234,56", "1'234,56", "1,000.56"])
def test_a_balance_with_grouped_digits_is_none(amount: str) -> None:
    """It was read up to the first group, as 1.00."""
    found = read(statement(":61:2601020102C1,NTRF", f":62F:C260102EUR{amount}"))
    assert [p.code for p in found.problems] == ["invalid_balance"]
    assert found.statements[0].balance("closing") is None
    kept = read(statement(":61:2601020102C1,NTRF", ":62F:C260102EUR1234,56 CR"))
    assert [p.code for p in kept.problems if p.code != "balance_mismatch"] == ["invalid_balance"]
    closing = kept.statements[0].balance("closing")
    assert closing is not None
    assert closing.amount_minor == 123_456


def test_currency_comes_from_the_balance_the_floor_limit_the_account_or_the_options() -> None:
    bare = ":20:X\n:25:{}\n{}:61:2601020102C1,5NTRF\n"
    assert read(bare.format("1", ":34F:PLN0\n")).entries[0][0].currency == "PLN"
    assert read(bare.format("1/HUF", "")).entries[0][0].currency == "HUF"
    assert read(bare.format("1", ""), currency="CHF").entries[0][0].currency == "CHF"
    assert [p.code for p in read(bare.format("1", "")).problems] == ["missing_currency"]
    assert [p.code for p in read(bare.format("1", ":60F:C260101XXQ1,\n")).problems] == [
        "invalid_balance",
        "unknown_currency",
    ]


def test_statements_without_a_reference_begin_with_the_account() -> None:
    text = ":25:1\n:60F:C260101EUR1,\n:61:260102C1,NTRF\n:25:2\n:60F:C260101EUR1,\n:61:260102C2,NTRF\n"
    found = read(text)
    assert [s.account for s in found.statements] == ["1", "2"]
    assert [e.amount_minor for i in range(2) for e in found.entries[i]] == [100, 200]


def test_an_account_after_entries_begins_the_next_statement() -> None:
    entries = ":61:2601020102C1,NTRF\n"
    found = read(
        f":20:X\n{entries}:25:2\n:60F:C260101EUR1,\n{entries}:25:3\n:60F:C260101EUR1,\n{entries}", currency="EUR"
    )
    assert [s.account for s in found.statements] == [None, "2", "3"]
    assert [[e.account for e in found.entries[i]] for i in range(3)] == [[None], ["2"], ["3"]]


INTERIM = ":20:X\n:25:1\n:28C:1/1\n:34F:EURD0,\n:34F:EURC0,\n:13D:1610301730+0130\n:61:1610301031D0,42MCI0NONREF\n"


def test_interim_report_and_its_control_totals() -> None:
    found = read(INTERIM + ":90D:1EUR0,42\n:90C:0EUR0,\n:86:for all\n")
    (head,) = found.statements
    assert (head.kind, head.currency, head.created_at) == ("interim", "EUR", "2016-10-30T17:30:00+01:30")
    assert head.control_totals_check == "ok"
    assert found.problems == []
    assert found.entries[0][0].remittance is None
    for wrong in (":90D:2EUR0,42", ":90D:1EUR0,43", ":90D:1USD0,42", ":90D:x"):
        found = read(INTERIM + wrong)
        assert found.statements[0].control_totals_check == "mismatch"
        assert [p.code for p in found.problems] == ["control_total_mismatch"]


def test_detection_needs_a_head_and_content() -> None:
    def detect(text: str) -> str | None:
        detected = READER.detect(head_of(text.encode()), ReadOptions())
        return detected.format if detected else None

    assert detect(statement()) == "mt940"
    assert detect("A Bank Ltd\n940\n" + statement()) == "mt940"
    assert detect("{1:F01X}{4:\n" + statement()) == "mt940"
    assert detect("\x01\n\x01:20:X\n:61:260102C1,NTRF\n") == "mt940"
    assert detect(INTERIM) == "mt942"
    assert detect(":20:X\n:25:1\n") is None
    assert detect("text :20:X and :61: within\n") is None
    assert detect('a;":60F:x"\n') is None


def test_line_without_end_is_refused() -> None:
    class Endless:
        def __init__(self) -> None:
            self.pieces = [statement().encode() + b":86:"]
            self.bytes = 0

        def read(self, size: int, /) -> bytes:
            data = self.pieces.pop() if self.pieces else b"x" * size
            self.bytes += len(data)
            assert self.bytes < 4 * LINE_BYTES_MAX, "nobody stops it"
            return data

    source = Endless()
    with pytest.raises(UnreadableFileError) as caught:
        list(READER.read(source, head_of(statement().encode()), Detected("mt940"), ReadOptions()))
    assert caught.value.reason == "line_too_long"
    assert source.bytes < 2 * LINE_BYTES_MAX


def test_details_without_end_reject_the_entry_in_bounded_memory() -> None:
    line = "x" * 60 + "\n"
    text = statement(
        ":61:2601020102C1,NTRF", ":86:" + line * (4 * FIELD_BYTES_MAX // len(line)), ":61:2601020102C2,NTRF", CLOSING
    )
    found = read(text)
    assert [(p.code, p.line, p.rejects) for p in found.problems] == [("field_too_long", 5, True)]
    assert [e.amount_minor for e in found.entries[0]] == [200]
    assert rejection_of("2601020102C1,NTRF", "x" * 2 * FIELD_BYTES_MAX) == "field_too_long"


class Flood:
    """The head of a statement, and then the same piece again and again."""

    def __init__(self, piece: bytes, *, count: int, start: bytes | None = None) -> None:
        self._start = statement(":61:2601020102C1,NTRF").encode() if start is None else start
        self._piece = piece
        self._count = count

    def read(self, _: int, /) -> bytes:
        if self._start:
            data, self._start = self._start, b""
            return data
        self._count -= 1
        return self._piece if self._count >= 0 else b""


@pytest.mark.parametrize("line", [b"x" * 60 + b"\n", b":86:\n", b":NS:\n", b":64:C260102EUR1,\n", b":28C:1\n"])
def test_flood_of_lines_takes_bounded_memory(line: bytes) -> None:
    piece = line * (65536 // len(line))

    def peak_of(pieces: int) -> int:
        flood = READER.read(Flood(piece, count=pieces), head_of(b""), Detected("mt940"), ReadOptions())
        return peak_bytes(lambda: deque(flood, maxlen=0))

    # After six pieces even a field of empty lines is full. Two more that were kept would be 131,072 bytes at the least.
    assert peak_of(8) < peak_of(6) + 64 * 1024


def test_head_field_beyond_its_limit_is_not_read() -> None:
    found = read(statement(":61:2601020102C1,NTRF", CLOSING, account="1" * (TEXT_LENGTH_MAX + 1)))
    assert [(p.code, p.line, p.rejects) for p in found.problems] == [("field_too_long", 2, False)]
    assert found.entries[0][0].account is None


def test_a_statement_without_closing_balance_is_told() -> None:
    line = ":61:2601020102C1,NTRF"
    for lines, told in (([line], True), ([line, CLOSING], False), ([line, CLOSING.replace("62F", "62M")], False)):
        found = read(statement(*lines))
        assert [(p.code, p.statement) for p in found.problems] == ([("incomplete_file", 0)] if told else [])
        assert len(found.entries[0]) == 1
    assert read(":20:X\n:25:1\n:28C:1\n:34F:EUR0,\n" + line).problems == []


def test_undecodable_bytes_are_replaced_and_told_once() -> None:
    data = statement(":61:2601020102C1,NTRF", ":86:a").encode() + b"\xff\xfe\n:86:\xff\n" + CLOSING.encode()
    found = collect(READER.read(io.BytesIO(data), head_of(b""), Detected("mt940"), ReadOptions()), format="mt940")
    assert [p.code for p in found.problems] == ["undecodable_bytes"]
    assert found.entries[0][0].remittance == "a \ufffd\ufffd \ufffd"


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 7, 65536])
def test_pieces_and_line_ends_do_not_matter(newline: str, size: int) -> None:
    class Slow(io.BytesIO):
        def read(self, _: int | None = -1, /) -> bytes:
            return super().read(size)

    data = statement(":61:2601020102C1,NTRF", ":86:Müller", "zwei", ":62F:C260102EUR101,").replace("\r\n", newline)
    items = READER.read(Slow(data.encode()), head_of(data.encode()), Detected("mt940"), ReadOptions())
    found = collect(items, format="mt940")
    assert [(e.line, e.remittance) for e in found.entries[0]] == [(5, "Müller zwei")]


def test_memory_does_not_grow_with_the_file() -> None:
    start = statement().encode()
    block = b":61:2601020102C1,50NTRFNONREF//B1\r\n:86:Rechnung 4711 Muster GmbH\r\n" * 500

    def peak_of(entries: int) -> int:
        flood = Flood(block, count=entries // 500, start=start)
        items = READER.read(flood, head_of(b""), Detected("mt940"), ReadOptions())
        count: list[int] = []
        peak = peak_bytes(lambda: count.append(sum(isinstance(i, Entry) for i in items)))
        assert count == [entries]
        return peak

    assert peak_of(8_000) < peak_of(2_000) + 256 * 1024


_AMOUNTS = st.integers(0, 10**12)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(["C", "D", "RC", "RD"]), _AMOUNTS), max_size=20))
def test_written_entries_are_read_back_and_the_sums_agree(rows: list[tuple[str, int]]) -> None:
    signed = [minor if mark in ("C", "RD") else -minor for mark, minor in rows]
    closing = 10000 + sum(signed)
    text = statement(
        *(f":61:2601020102{mark}R{minor // 100},{minor % 100:02}NTRFNONREF" for mark, minor in rows),
        f":62F:{'C' if closing >= 0 else 'D'}260102EUR{abs(closing) // 100},{abs(closing) % 100:02}",
    )
    found = list(parse(io.BytesIO(text.encode()), name="x", options=ReadOptions(), monotonic=lambda: 0.0))
    entries = [i for i in found if isinstance(i, Entry)]
    assert [e.amount_minor if e.direction == "credit" else -e.amount_minor for e in entries] == signed
    collected = collect(found, format="mt940")
    assert collected.statements[0].balance_check == "ok"


@settings(max_examples=100)
@given(st.text(alphabet=":61086FCDR,.0123456789EUR\n-}{ ?+/", max_size=200))
def test_any_text_is_read_without_an_untyped_error(noise: str) -> None:
    read(statement(":61:2601020102C1,NTRF") + noise)
