from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from payrec.constants import DETECTION_BYTES
from payrec.domain.statements import Parsed
from payrec.errors import UnreadableFileError
from payrec.formats.base import Detected, Head, ReadOptions, Source
from payrec.formats.detection import Rewound, detect, look


class Fake:
    """Recognises files that begin with its name; refuses those that begin with it in upper case."""

    def __init__(self, name: str) -> None:
        self.name = name

    def detect(self, head: Head, options: ReadOptions) -> Detected | None:  # noqa: ARG002  # the interface's parameter
        if head.text.startswith(self.name.upper()):
            raise UnreadableFileError("broken")
        return Detected(self.name) if head.text.startswith(self.name) else None

    def read(self, source: Source, head: Head, detected: Detected, options: ReadOptions) -> Iterator[Parsed]:
        raise NotImplementedError


READERS = (Fake("camt"), Fake("mt940"), Fake("json"))


def head_of(data: bytes) -> Head:
    return look(io.BytesIO(data), ReadOptions())[0]


def refusal(data: bytes, format_name: str = "auto") -> UnreadableFileError:
    with pytest.raises(UnreadableFileError) as raised:
        detect(head_of(data), ReadOptions(format=format_name), READERS)
    return raised.value


def test_first_reader_that_recognises_it_has_it() -> None:
    reader, detected = detect(head_of(b"mt940"), ReadOptions(), READERS)
    assert (reader.name, detected.format) == ("mt940", "mt940")


def test_refusal_tells_what_was_tried() -> None:
    error = refusal(b"other")
    assert error.reason == "unknown_format"
    assert [t["format"] for t in error.tried] == ["camt", "mt940", "json"]
    error = refusal(b"MT940")
    assert error.reason == "broken"
    assert error.tried == (
        {"format": "camt", "reason": "not_recognised"},
        {"format": "mt940", "reason": "broken"},
    )


@pytest.mark.parametrize(
    ("format_name", "families"),
    [("camt.053", ["camt"]), ("mt942", ["mt940"]), ("jsonl", ["json"]), ("ofx", []), ("mt940", ["mt940"])],
)
def test_named_format_asks_its_family_alone(format_name: str, families: list[str]) -> None:
    assert [t["format"] for t in refusal(b"other", format_name).tried] == families


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty_file"),
        (b"\xef\xbb\xbf", "empty_file"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "unsupported_xls"),
        (b"%PDF-1.7", "unknown_format"),
        (b"a,b\0c", "unknown_format"),
    ],
)
def test_refused_before_any_reader_looks(data: bytes, reason: str) -> None:
    with pytest.raises(UnreadableFileError) as raised:
        look(io.BytesIO(data), ReadOptions())
    assert raised.value.reason == reason


def test_utf_16_is_not_binary_and_its_mark_is_gone() -> None:
    head, source = look(io.BytesIO("ä;b".encode("utf-16")), ReadOptions())
    assert head.text == "ä;b"
    assert source.read(100).decode(head.encoding) == "ä;b"


@pytest.mark.parametrize("length", [1, DETECTION_BYTES - 1, DETECTION_BYTES, DETECTION_BYTES + 1, DETECTION_BYTES * 3])
def test_head_is_bounded_and_the_source_begins_again(length: int) -> None:
    data = (b"0123456789" * (length // 10 + 1))[:length]
    head, source = look(io.BytesIO(data), ReadOptions())
    assert head.data == data[:DETECTION_BYTES]
    assert head.complete == (length <= DETECTION_BYTES)
    again = b"".join(iter(lambda: source.read(1000), b""))
    assert again == data


def test_rewound_goes_on_with_the_rest() -> None:
    source = Rewound(b"abc", io.BytesIO(b"def"))
    assert [source.read(2) for _ in range(5)] == [b"ab", b"c", b"de", b"f", b""]


def test_profile_names_the_encoding() -> None:
    head, _ = look(io.BytesIO(b"\xb3"), ReadOptions(profile={"encoding": "cp1250"}))
    assert (head.encoding, head.text) == ("cp1250", "ł")
