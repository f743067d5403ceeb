from __future__ import annotations

import io
import json
import random
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.constants import AMOUNT_MINOR_MAX, JSON_RECORD_BYTES_MAX, JSON_RECORD_DEPTH_MAX
from payrec.domain.statements import Entry, Problem, Statement, StatementEnd
from payrec.errors import PayloadTooLargeError, UnreadableFileError
from payrec.formats.base import Detected, ReadOptions
from payrec.formats.json import reader as json_reader
from payrec.formats.json.reader import READER
from payrec.formats.registry import parse
from support.json_records import GOOD, Pieces, entry_of, head_of, read, refusal_of, rejection_of, stream
from support.memory import peak_bytes
from support.samples import (
    collect,
    requires_samples,
    sample,
    truth_of,
)

TRUTH = truth_of("synthetic/transactions.")


@requires_samples
@pytest.mark.parametrize("known", TRUTH, ids=lambda known: known["file"])
def test_prefixes_and_mutations_give_typed_errors_only(known: dict[str, Any]) -> None:
    data = sample(known["file"])
    variants = [data[:length] for length in range(len(data))]
    random_bytes = random.Random(known["file"])  # noqa: S311  # the same mutations in every run
    for _ in range(300):
        mutated = bytearray(data)
        for _ in range(random_bytes.randint(1, 4)):
            mutated[random_bytes.randrange(len(mutated))] = random_bytes.choice(b'{}[]",:\\ \n0aN\xff\x00')
        variants.append(bytes(mutated))
    for variant in variants:
        try:
            list(parse(io.BytesIO(variant), name="x", options=ReadOptions(), monotonic=lambda: 0.0))
        except (UnreadableFileError, PayloadTooLargeError):
            continue


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[]", "json"),
        (" \n[ {", "json"),
        ("[[", "json"),
        ('{"transactions": [', "json"),
        ('{\n "transactions"\n: [', "json"),
        (json.dumps({"transactions": [GOOD]}), "json"),
        (json.dumps({"source": 1, "transactions": []}), "json"),
        (json.dumps(GOOD), "jsonl"),
        ("\n" + json.dumps(GOOD) + "\n" + json.dumps(GOOD), "jsonl"),
        ('{"torn\n' + json.dumps(GOOD), "jsonl"),
        (json.dumps(GOOD)[:-5], "jsonl"),
        ("{1:F01BANK}{4:\n:20:X", None),
        ("[Header] a;b;c", None),
        ("a;b", None),
        ("", None),
    ],
)
def test_detection(text: str, wanted: str | None) -> None:
    detected = READER.detect(head_of(text.encode()), ReadOptions())
    assert (detected.format if detected else None) == wanted


def test_detection_of_one_long_line() -> None:
    records = ",".join([json.dumps(GOOD)] * 2000)
    text = f'{{"transactions": [{records}]}}'
    assert len(text) > 2 * JSON_RECORD_BYTES_MAX
    assert len(read(text).entries[0]) == 2000


def test_one_statement_for_each_account_and_currency_ends_at_the_end() -> None:
    records = [
        GOOD | {"account": a, "currency": c} for a, c in (("1", "EUR"), ("2", "EUR"), ("1", "EUR"), ("1", "USD"))
    ]
    items = list(stream(json.dumps(records), ReadOptions()))
    kinds = [type(i) for i in items]
    assert kinds == [
        Statement,
        Entry,
        Statement,
        Entry,
        Entry,
        Statement,
        Entry,
        StatementEnd,
        StatementEnd,
        StatementEnd,
    ]
    assert [(i.index, i.account, i.currency, i.kind) for i in items if isinstance(i, Statement)] == [
        (0, "1", "EUR", "transactions"),
        (1, "2", "EUR", "transactions"),
        (2, "1", "USD", "transactions"),
    ]
    assert [i.statement for i in items if isinstance(i, Entry)] == [0, 1, 0, 2]


def test_too_many_accounts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_reader, "FILE_ACCOUNTS_MAX", 3)
    records = [GOOD | {"account": str(i)} for i in range(4)]
    read(json.dumps(records[:3]))
    with pytest.raises(PayloadTooLargeError):
        read(json.dumps(records))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[", "invalid_json"),
        ('[{"a": 1}', "invalid_json"),
        ('[{"a": 1} {"a": 1}]', "invalid_json"),
        ('[{"a": 1},]', "invalid_json"),
        ("[1,,2]", "invalid_json"),
        ("[] []", "invalid_json"),
        ('{\n"a": 1\n}', "no_statement"),
        ('{\n"transactions": {}}', "invalid_json"),
        ('{\n"transactions": [], "transactions": []}', "invalid_json"),
        ('{\n"transactions": [],}', "invalid_json"),
        ('{\n"transactions": []', "invalid_json"),
        ('{\n"a": nonsense, "transactions": []}', "invalid_json"),
        ('{\n"a" 1, "transactions": []}', "invalid_json"),
    ],
)
def test_wrong_structure_refuses_the_file(text: str, reason: str) -> None:
    assert refusal_of(text) == reason


def test_fields_beside_the_transactions_are_told() -> None:
    found = read('{"page": {"next": null},\n"transactions": [' + json.dumps(GOOD) + '], "total": 1}')
    assert [(p.code, p.rejects, p.line) for p in found.problems] == [
        ("unknown_field", False, 1),
        ("unknown_field", False, 2),
    ]
    assert len(found.entries[0]) == 1


def nested(depth: int, *, closed: bool = True) -> str:
    return "[" * depth + ("]" * depth if closed else "")


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("shape", ["[{}]", '{{"transactions": [{}]}}', '[{{"metadata": {}}}]', '{{"metadata": {}}}'])
@pytest.mark.parametrize("depth", [JSON_RECORD_DEPTH_MAX + 1, 900, 100_000])
def test_depth_is_refused(shape: str, depth: int, *, closed: bool) -> None:
    assert refusal_of(shape.format(nested(depth, closed=closed))) == "json_too_deep"


def test_depth_at_the_limit_is_a_record_like_any_other() -> None:
    assert rejection_of('{"x": ' + nested(JSON_RECORD_DEPTH_MAX - 1) + "}") == "unknown_field"
    brackets = json.dumps(GOOD | {"remittance": "[{" * 50})
    assert len(read(f"[{brackets}]").entries[0]) == 1
    many = [{"amountMinor": 1, "currency": "EUR", "direction": "debit"}] * 20
    assert len(entry_of(charges=many).charges) == 20


def test_deep_file_is_refused_in_bounded_memory() -> None:
    class Deep:
        def __init__(self) -> None:
            self.bytes = 0

        def read(self, size: int, /) -> bytes:
            self.bytes += size
            assert self.bytes < 16 * JSON_RECORD_BYTES_MAX, "nobody stops it"
            return b"[" * size

    def refused() -> None:
        with pytest.raises(UnreadableFileError) as caught:
            list(READER.read(source, head_of(b"["), Detected("json"), ReadOptions()))
        assert caught.value.reason == "json_too_deep"

    source = Deep()
    assert peak_bytes(refused) < 2 * 1024 * 1024
    assert source.bytes <= 4 * JSON_RECORD_BYTES_MAX


@pytest.mark.parametrize("begin", ['["', '[{"remittance": "', "[" + "1", '{"transactions": [{"a":"'])
def test_record_without_end_is_refused(begin: str) -> None:
    class Endless:
        def __init__(self) -> None:
            self.begin = begin.encode()
            self.bytes = 0

        def read(self, size: int, /) -> bytes:
            data, self.begin = self.begin or b"1" * size, b""
            self.bytes += len(data)
            assert self.bytes < 16 * JSON_RECORD_BYTES_MAX, "nobody stops it"
            return data

    for shape in ("json", "jsonl"):
        source = Endless()
        with pytest.raises(UnreadableFileError) as caught:
            list(READER.read(source, head_of(b"["), Detected(shape), ReadOptions()))
        assert caught.value.reason == "line_too_long"
        assert source.bytes <= 4 * JSON_RECORD_BYTES_MAX


def test_record_beyond_its_limit_is_refused() -> None:
    padding = " " * (JSON_RECORD_BYTES_MAX - len(json.dumps(GOOD)))
    fits = json.dumps(GOOD)[:-1] + padding + "}"
    assert len(fits) == JSON_RECORD_BYTES_MAX
    longer = fits[:-1] + " }"
    for begin, end in (("[", "]"), ('{"transactions": [', "]}"), (json.dumps(GOOD) + "\n", "\n")):
        assert len(read(begin + fits + end).entries[0]) == (2 if end == "\n" else 1)
        assert refusal_of(begin + longer + end) == "line_too_long"


def test_blanks_of_any_length_between_records() -> None:
    text = "[" + " \n" * JSON_RECORD_BYTES_MAX + json.dumps(GOOD) + "\n" * 200_000 + "," + json.dumps(GOOD) + " ]\n"
    entries = read(text).entries[0]
    assert [e.line for e in entries] == [JSON_RECORD_BYTES_MAX + 1, JSON_RECORD_BYTES_MAX + 200_001]


def test_memory_does_not_grow_with_the_file() -> None:
    def peak_of(count: int, shape: str) -> int:
        record = json.dumps(GOOD).encode()
        lines = [record + b"\n"] * count if shape == "jsonl" else [b"[" + record, *[b"," + record] * (count - 1), b"]"]
        pieces = [b"".join(lines[i : i + 100]) for i in range(0, len(lines), 100)][::-1]

        class Many:
            def read(self, _: int, /) -> bytes:
                return pieces.pop() if pieces else b""

        items = READER.read(Many(), head_of(b""), Detected(shape), ReadOptions())
        found: list[int] = []
        peak = peak_bytes(lambda: found.append(sum(isinstance(i, Entry) for i in items)))
        assert found == [count]
        return peak

    for shape in ("json", "jsonl"):
        assert peak_of(4_000, shape) < peak_of(1_000, shape) + 128 * 1024


def test_undecodable_bytes_are_told() -> None:
    data = json.dumps(GOOD).encode().replace(b"X1", b"\xff")
    found = collect(READER.read(Pieces(data), head_of(data), Detected("jsonl"), ReadOptions()), format="jsonl")
    assert [p.code for p in found.problems] == ["undecodable_bytes"]
    assert found.entries[0][0].external_id == "\ufffd"


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_RECORDS = st.fixed_dictionaries(
    {
        "externalId": _TEXTS,
        "direction": st.sampled_from(["credit", "debit"]),
        "amountMinor": st.integers(0, AMOUNT_MINOR_MAX),
        "currency": st.sampled_from(["EUR", "JPY", "KWD"]),
        "bookingDate": st.dates().map(date.isoformat),
    },
    optional={"remittance": _TEXTS, "metadata": st.dictionaries(_TEXTS, _TEXTS, max_size=2), "reversal": st.booleans()},
)


@settings(max_examples=60)
@given(
    records=st.lists(_RECORDS, max_size=6),
    indent=st.sampled_from([None, 0, 2]),
    ascii_only=st.booleans(),
    size=st.sampled_from([None, 1, 5, 64]),
)
def test_written_records_are_read_back(
    records: list[dict[str, Any]], indent: int | None, size: int | None, *, ascii_only: bool
) -> None:
    texts = [
        json.dumps(records, indent=indent, ensure_ascii=ascii_only),
        json.dumps({"transactions": records}, indent=indent, ensure_ascii=ascii_only),
    ]
    if records:
        texts.append("\n".join(json.dumps(r, ensure_ascii=ascii_only) for r in records))
    for text in texts:
        items = list(stream(text, ReadOptions(), size))
        entries = [i for i in items if isinstance(i, Entry)]
        assert [
            (e.direction, e.amount_minor, e.currency, e.booking_on and e.booking_on.isoformat()) for e in entries
        ] == [(r["direction"], r["amountMinor"], r["currency"], r["bookingDate"]) for r in records]


@settings(max_examples=100)
@given(st.text(alphabet='[]{}",:\\ \n0tn', max_size=80))
def test_any_text_gives_a_typed_error_at_most(noise: str) -> None:
    for begin in ("[", '{"transactions": [', json.dumps(GOOD) + "\n"):
        try:
            read(begin + noise)
        except UnreadableFileError as error:
            assert error.reason in {"invalid_json", "json_too_deep", "no_statement"}  # noqa: PT017  # most texts raise nothing
        except AssertionError:
            assert READER.detect(head_of((begin + noise).encode()), ReadOptions()) is None


@settings(max_examples=40)
@given(st.lists(st.booleans(), max_size=30), st.sampled_from([None, "", "/transactions"]))
def test_a_rejected_record_of_an_array_is_found_by_its_pointer(good: list[bool], array: str | None) -> None:
    records = [GOOD if is_good else {**GOOD, "direction": "sideways"} for is_good in good]
    text = json.dumps({"source": 1, "transactions": records} if array else records)
    if array is None:
        text = "\n".join(map(json.dumps, [GOOD, *records]))
    problems = list(parse(io.BytesIO(text.encode()), name="x", options=ReadOptions(), monotonic=lambda: 0.0))
    places = [i.detail.rpartition(" (at ")[2] for i in problems if isinstance(i, Problem) and i.rejects]
    bad = [n for n, is_good in enumerate(good) if not is_good]
    wanted = ["direction must be credit or debit"] * len(bad) if array is None else [f"{array}/{n})" for n in bad]
    assert places == wanted
