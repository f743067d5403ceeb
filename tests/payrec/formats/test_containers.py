from __future__ import annotations

import gzip
import io
import struct
import zipfile

import pytest

from payrec.constants import FILE_PIECE_BYTES
from payrec.errors import PayloadTooLargeError, UnreadableFileError
from payrec.formats import containers
from payrec.formats.containers import Member, open_members, refuse_nested


def zipped(*members: tuple[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return out.getvalue()


def read_all(data: bytes, name: str = "f", size: int = 4096) -> list[tuple[str, bytes | None, str | None]]:
    opened = open_members(io.BytesIO(data), name=name)
    return [(member.name, drain(member, size), member.skipped_by) for member in opened.members]


def drain(member: Member, size: int = 4096) -> bytes | None:
    if member.source is None:
        return None
    pieces = []
    while piece := member.source.read(size):
        assert len(piece) <= size
        pieces.append(piece)
    data = b"".join(pieces)
    assert member.bytes == len(data)
    return data


def reason_of(data: bytes) -> str:
    with pytest.raises(UnreadableFileError) as raised:
        read_all(data)
    return raised.value.reason


def test_plain_file_is_its_own_member() -> None:
    opened = open_members(io.BytesIO(b"abc"), name="f")
    assert opened.container is None
    assert [drain(m) for m in opened.members] == [b"abc"]
    assert opened.expanded_bytes == 3


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_gzip_even_of_several_parts(size: int) -> None:
    data = bytes(range(256)) * 50
    assert read_all(gzip.compress(data), "f.gz", size) == [("f", data, None)]
    assert read_all(gzip.compress(data) + gzip.compress(b"x") + bytes(9), "f", size) == [("f", data + b"x", None)]
    padded = gzip.compress(b"x") + bytes(3 * FILE_PIECE_BYTES) + gzip.compress(b"y")
    assert read_all(padded + b"\r\n", "f", size) == [("f", b"xy", None)]


@pytest.mark.parametrize("padding", [0, 9, 2 * FILE_PIECE_BYTES])
def test_what_follows_a_gzip_and_is_none_is_not_left_out(padding: int) -> None:
    first, second = gzip.compress(b"x") + bytes(padding), gzip.compress(b"y")
    assert reason_of(first + b"trailing") == "container_truncated"
    for at in range(2):
        damaged = second[:at] + b"?" + second[at + 1 :]
        assert reason_of(first + damaged) == "container_truncated"
    assert reason_of(first + second[:1]) == "container_truncated"


def test_zip_members_in_order_and_some_left_out_by_name() -> None:
    data = zipped(
        ("b.xml", b"1"), ("a/", b""), ("__MACOSX/._b.xml", b"x"), ("a/.DS_Store", b"x"), ("../../a.xml", b"2")
    )
    assert read_all(data) == [
        ("b.xml", b"1", None),
        ("a/", None, "folder"),
        ("__MACOSX/._b.xml", None, "macosx"),
        ("a/.DS_Store", None, "dot_file"),
        ("../../a.xml", b"2", None),
    ]


def test_a_zip_before_or_behind_another_one_is_not_left_out() -> None:
    first, second, none = zipped(("a", b"1")), zipped(("b", b"2")), zipped()
    for data in (first + second, first + second[:-30], first + b"trailing", first + none, none + first, none + none):
        assert reason_of(data) == "container_truncated"
    with_comment = first[:-2] + struct.pack("<H", 5) + b"hello"
    for data in (first + b"\r\n", first + bytes(100), with_comment):
        assert read_all(data) == [("a", b"1", None)]


def test_workbook_is_a_member_like_any_other() -> None:
    data = zipped(("[Content_Types].xml", b"<a/>"), ("xl/workbook.xml", b"<a/>"))
    opened = open_members(io.BytesIO(data), name="f")
    assert opened.container is None
    assert [drain(m) for m in opened.members] == [data]
    refuse_nested(data)


@pytest.mark.parametrize("data", [gzip.compress(b"a"), zipped(("a", b"a"))], ids=["gzip", "zip"])
def test_nested(data: bytes) -> None:
    with pytest.raises(UnreadableFileError) as raised:
        refuse_nested(data)
    assert raised.value.reason == "container_nested"


def test_torn_gzip_at_every_byte() -> None:
    data = gzip.compress(b"hello world")
    for end in range(3, len(data)):
        assert reason_of(data[:end]) == "container_truncated"
    assert reason_of(data[:-8] + bytes(8)) == "container_truncated"


def test_torn_zip_at_every_byte_and_a_wrong_checksum() -> None:
    data = zipped(("a", b"hello world"))
    for end in range(4, len(data)):
        assert reason_of(data[:end]) == "container_truncated"
    assert reason_of(data.replace(struct.pack("<I", 0x0D4A1185), bytes(4))) == "container_truncated"


def test_encrypted_and_unknown_method() -> None:
    data = zipped(("a", b"hello"))
    directory = data.rindex(b"PK\x01\x02")
    encrypted = data[: directory + 8] + b"\x01\x00" + data[directory + 10 :]
    assert reason_of(encrypted) == "container_encrypted"
    assert reason_of(zipped(("a", b"hello"), compression=zipfile.ZIP_LZMA)) == "container_method"


def test_too_many_members_by_number_and_by_what_the_directory_says() -> None:
    assert reason_of(zipped(*((str(i), b"") for i in range(1001)))) == "container_too_many"
    data = bytearray(zipped(("a", b"a")))
    struct.pack_into("<I", data, len(data) - 10, 300_000_000)
    assert reason_of(bytes(data)) == "container_too_many"


def test_ratio_is_counted_from_what_comes_out() -> None:
    bomb = bytes(30_000_000)
    assert reason_of(gzip.compress(bomb)) == "container_ratio"
    data = zipped(("a", bomb))
    assert reason_of(data) == "container_ratio"
    # The same bomb that declares to be small: in the local header and in the directory.
    size = struct.pack("<I", len(bomb))
    lying = data.replace(size, struct.pack("<I", 1000))
    assert lying != data
    with pytest.raises(UnreadableFileError):
        read_all(lying)


def test_small_files_may_have_any_ratio() -> None:
    assert read_all(gzip.compress(bytes(1_000_000)))[0][1] == bytes(1_000_000)


def test_expanded_bytes_of_all_members_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "FILE_BYTES_EXPANDED_MAX", 15)
    data = zipped(("a", b"0123456789"), ("b", b"012345"))
    with pytest.raises(PayloadTooLargeError):
        read_all(data)
    assert len(read_all(zipped(("a", b"0123456789"), ("b", b"01234")))) == 2
