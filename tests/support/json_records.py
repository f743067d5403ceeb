"""Records of JSON files for tests: a good one, and the reader over variations of it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from payrec.domain.statements import Entry, Parsed
from payrec.errors import UnreadableFileError
from payrec.formats.base import Head, ReadOptions
from payrec.formats.json.reader import READER
from support.samples import (
    Collected,
    collect,
)

GOOD: dict[str, Any] = {
    "externalId": "X1",
    "direction": "credit",
    "amount": "1.50",
    "currency": "EUR",
    "bookingDate": "2026-01-02",
}


class Pieces:
    """A source that hands out small pieces, or as large ones as are asked for."""

    def __init__(self, data: bytes, size: int | None = None) -> None:
        self._stream = io.BytesIO(data)
        self._size = size

    def read(self, size: int, /) -> bytes:
        return self._stream.read(self._size or size)


def head_of(data: bytes) -> Head:
    text = data[:65536].decode(errors="replace")
    return Head(data=data[:65536], encoding="utf-8", encoding_guessed=False, text=text, complete=len(data) <= 65536)


def stream(text: str, options: ReadOptions, size: int | None = None) -> Iterator[Parsed]:
    data = text.encode()
    head = head_of(data)
    detected = READER.detect(head, options)
    assert detected is not None
    return READER.read(Pieces(data, size), head, detected, options)


def read(text: str, *, options: ReadOptions | None = None, size: int | None = None) -> Collected:
    return collect(stream(text, options or ReadOptions(), size), format="json")


def entry_of(*, options: ReadOptions | None = None, **fields: Any) -> Entry:
    found = read(json.dumps([GOOD | fields]), options=options)
    assert found.problems == []
    (entry,) = found.entries[0]
    return entry


def rejection_of(record: str) -> str:
    """Return why the record is rejected, in all three shapes; its neighbours must survive."""
    good, last = json.dumps(GOOD), json.dumps(GOOD | {"externalId": "X2"})
    codes = []
    for text in (
        f"[{good},\n{record},\n{last}]",
        f'{{"transactions": [{good},\n{record},\n{last}]}}',
        f"{good}\n{record}\n{last}",
    ):
        found = read(text)
        assert [e.external_id for e in found.entries[0]] == ["X1", "X2"]
        (problem,) = found.problems
        assert (problem.rejects, problem.line) == (True, 2)
        codes.append(problem.code)
    assert len(set(codes)) == 1
    return codes[0]


def refusal_of(text: str) -> str:
    with pytest.raises(UnreadableFileError) as caught:
        read(text)
    return caught.value.reason
