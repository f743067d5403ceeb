"""gzip and zip, opened within limits: the files inside, each as a stream that is counted while it is read.

Declared sizes lie, so nothing is believed but the bytes that come out. Nothing is unpacked to disk, and a name inside
an archive is only ever text (PKWARE APPNOTE 6.3.10; RFC 1952).
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, BinaryIO, Final, Literal

from payrec.constants import (
    CONTAINER_DIRECTORY_BYTES_MAX,
    CONTAINER_MEMBERS_MAX,
    CONTAINER_NAME_LENGTH_MAX,
    CONTAINER_RATIO_FREE_BYTES,
    CONTAINER_RATIO_MAX,
    FILE_BYTES_EXPANDED_MAX,
    FILE_PIECE_BYTES,
)
from payrec.errors import PayloadTooLargeError, UnreadableFileError
from payrec.formats.base import Source

Container = Literal["gzip", "zip"]

GZIP_MAGIC: Final = b"\x1f\x8b"
ZIP_MAGIC: Final = b"PK\x03\x04"
_ZIP_EMPTY_MAGIC: Final = b"PK\x05\x06"
_END_LENGTH: Final = 22
_END_SEARCHED: Final = _END_LENGTH + 0xFFFF
"""Bytes at the end of a zip among which its end record is: a comment of 64 KiB may follow it."""
_LOCATOR_64: Final = b"PK\x06\x07"
_PADDING: Final = b"\0\r\n"
"""What may stand behind the end of an archive: the padding of a tape, the end of a line that a transfer put there."""
_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
"""Stored and deflated. The others decompress with dictionaries as large as the archive asks for."""
_WORKBOOK: Final = "xl/workbook.xml"
_WORKBOOK_PARTS: Final = re.compile(rb"PK\x03\x04[\s\S]{26}(?:xl/|_rels/|docProps/|\[Content_Types\]\.xml)")
"""The header of a member that workbooks have; which one comes first depends on the program that wrote it."""


@dataclass(slots=True)
class Member:
    """One file: the upload itself, or a file inside it."""

    name: str
    source: Source | None
    """Its bytes; None for a member left out by its name."""
    skipped_by: str | None = None
    """``folder``, ``macosx`` or ``dot_file``."""
    bytes: int = 0
    """Expanded bytes read so far."""
    compressed_bytes: int = 0
    """Compressed bytes that they came from, at most; 0 when it is not compressed."""


@dataclass(slots=True)
class Opened:
    """A file with its container open. Iterating ``members`` opens one after the other."""

    container: Container | None
    members: Iterator[Member]
    expanded_bytes: int = field(default=0)
    """Bytes of all members read so far."""

    def count(self, size: int) -> None:
        """Count bytes that came out.

        Raises
        ------
        PayloadTooLargeError
            More than FILE_BYTES_EXPANDED_MAX altogether.

        """
        self.expanded_bytes += size
        if self.expanded_bytes > FILE_BYTES_EXPANDED_MAX:
            raise PayloadTooLargeError(f"the file expands to more than {FILE_BYTES_EXPANDED_MAX} bytes")


def open_members(stream: BinaryIO, *, name: str) -> Opened:
    """Open the file, whatever it is: a member each for the files of a zip, one member for anything else.

    ``stream`` is seekable and at its start. An xlsx, which is a zip with a workbook in it, is a member like any other.

    Raises
    ------
    UnreadableFileError
        From here or while the members are read: ``container_too_many``, ``container_ratio``, ``container_nested``,
        ``container_encrypted``, ``container_truncated``, ``container_method``.
    PayloadTooLargeError
        When more comes out than FILE_BYTES_EXPANDED_MAX.

    """
    start = stream.read(4)
    stream.seek(0)
    if start.startswith(GZIP_MAGIC):
        opened = Opened("gzip", iter(()))
        opened.members = _gzip_member(stream, name, opened)
    elif start in (ZIP_MAGIC, _ZIP_EMPTY_MAGIC):
        archive = open_archive(stream)
        if is_workbook(archive):
            archive.close()
            stream.seek(0)
            opened = Opened(None, iter(()))
            opened.members = _plain_member(stream, name, opened)
        else:
            opened = Opened("zip", iter(()))
            opened.members = _zip_members(stream, archive, opened)
    else:
        opened = Opened(None, iter(()))
        opened.members = _plain_member(stream, name, opened)
    return opened


def refuse_nested(head: bytes) -> None:
    """Refuse a member that is itself a container; what may be a workbook is not one, and its reader looks closer.

    Raises
    ------
    UnreadableFileError
        ``container_nested``.

    """
    workbook = head.startswith(ZIP_MAGIC) and _WORKBOOK_PARTS.search(head) is not None
    if head.startswith((GZIP_MAGIC, ZIP_MAGIC)) and not workbook:
        raise UnreadableFileError("container_nested", "an archive holds another archive")


class _Counted:
    """Passes on the bytes of a member, counts them, and stops at the limits."""

    __slots__ = ("_member", "_opened", "_stream")

    def __init__(self, stream: Source, member: Member, opened: Opened) -> None:
        self._stream = stream
        self._member = member
        self._opened = opened

    def read(self, size: int, /) -> bytes:
        data = read_part(self._stream, size)
        member = self._member
        member.bytes += len(data)
        self._opened.count(len(data))
        if member.compressed_bytes:
            check_ratio(member.bytes, member.compressed_bytes)
        return data


def read_part(stream: Source, size: int) -> bytes:
    """Read from what is compressed.

    Raises
    ------
    UnreadableFileError
        ``container_truncated``.

    """
    try:
        return stream.read(size)
    except (zipfile.BadZipFile, zlib.error, EOFError, struct.error) as error:
        raise UnreadableFileError("container_truncated", "the archive is torn or damaged") from error


def check_ratio(expanded_bytes: int, compressed_bytes: int) -> None:
    """Refuse what expands too much: ``container_ratio``."""
    if expanded_bytes > max(CONTAINER_RATIO_FREE_BYTES, CONTAINER_RATIO_MAX * compressed_bytes):
        raise UnreadableFileError("container_ratio", f"the archive expands more than {CONTAINER_RATIO_MAX} times")


def _plain_member(stream: BinaryIO, name: str, opened: Opened) -> Iterator[Member]:
    member = Member(name, None)
    member.source = _Counted(stream, member, opened)
    yield member


class _Inflating:
    """The expanded bytes of a gzip file, of several gzip files one after the other as well (RFC 1952, 2.2)."""

    __slots__ = ("_decompressor", "_ended", "_held", "_member", "_stream")

    def __init__(self, stream: BinaryIO, member: Member) -> None:
        self._stream = stream
        self._member = member
        self._decompressor = zlib.decompressobj(wbits=31)
        self._held = b""
        self._ended = False

    def read(self, size: int, /) -> bytes:
        while not self._ended:
            data = self._held or self._stream.read(FILE_PIECE_BYTES)
            expanded = self._decompressor.decompress(data, size)
            if self._decompressor.eof:
                self._begin_next()
            else:
                self._held = self._decompressor.unconsumed_tail
                if not data and not expanded:
                    raise EOFError
            self._member.compressed_bytes = self._stream.tell() - len(self._held)
            if expanded:
                return expanded
        return b""

    def _begin_next(self) -> None:
        """Go on with the gzip file that follows, behind what pads it.

        What follows and is none may be one whose first bytes are damaged, and its records would be missed by nobody.
        """
        data = self._decompressor.unused_data or self._stream.read(FILE_PIECE_BYTES)
        while data and not (held := data.lstrip(_PADDING)):
            data = self._stream.read(FILE_PIECE_BYTES)
        if not data:
            self._ended = True
            return
        if not held.startswith(GZIP_MAGIC[: len(held)]):
            raise UnreadableFileError("container_truncated", "what follows in the archive is damaged, or is none")
        self._held = held
        self._decompressor = zlib.decompressobj(wbits=31)


def _gzip_member(stream: BinaryIO, name: str, opened: Opened) -> Iterator[Member]:
    member = Member(name.removesuffix(".gz"), None)
    member.source = _Counted(_Inflating(stream, member), member, opened)
    yield member


def _check_directory(stream: IO[bytes]) -> None:
    """Look at the size of the central directory before it is read: it may say that there are millions of members."""
    length = stream.seek(0, io.SEEK_END)
    begin = max(0, length - _END_SEARCHED - 20)
    stream.seek(begin)
    tail = stream.read()
    at = tail.rfind(_ZIP_EMPTY_MAGIC)
    if at < 0 or len(tail) - at < _END_LENGTH:
        raise UnreadableFileError("container_truncated", "the archive has no directory")
    (comment_length,) = struct.unpack_from("<H", tail, at + 20)
    if tail[at + _END_LENGTH + comment_length :].strip(_PADDING):
        raise UnreadableFileError("container_truncated", "what follows the archive is damaged, or is none")
    count, size = struct.unpack_from("<HI", tail, at + 10)
    if at >= 20 and tail.startswith(_LOCATOR_64, at - 20):
        # Programs that stream write the large record even for small archives; its numbers are the ones that count.
        # It stands right before its locator, or where that says, when something was put in front of the archive.
        (offset,) = struct.unpack_from("<Q", tail, at - 12)
        for place in (min(offset, length), max(0, begin + at - 20 - 56)):
            stream.seek(place)
            record = stream.read(56)
            if len(record) == 56 and record.startswith(b"PK\x06\x06"):
                large = struct.unpack_from("<QQ", record, 32)
                count = large[0] if count == 0xFFFF else max(count, large[0])
                size = large[1] if size == 0xFFFFFFFF else max(size, large[1])
    stream.seek(0)
    if count > CONTAINER_MEMBERS_MAX or size > CONTAINER_DIRECTORY_BYTES_MAX:
        raise UnreadableFileError("container_too_many", f"the archive has more than {CONTAINER_MEMBERS_MAX} members")


def open_archive(stream: IO[bytes]) -> zipfile.ZipFile:
    """Open a zip, its directory within limits; ``stream`` is seekable.

    Raises
    ------
    UnreadableFileError
        ``container_truncated``, ``container_too_many``.

    """
    _check_directory(stream)
    try:
        archive = zipfile.ZipFile(stream)
    except (zipfile.BadZipFile, struct.error, ValueError, OverflowError, NotImplementedError, OSError) as error:
        raise UnreadableFileError("container_truncated", "the archive's directory is torn or damaged") from error
    # The directory at the end is that of the last one of several archives; the members of the others would be missed.
    if min((info.header_offset for info in archive.infolist()), default=archive.start_dir) > 0:
        archive.close()
        raise UnreadableFileError("container_truncated", "the archive has members that are not in its directory")
    if len(archive.infolist()) > CONTAINER_MEMBERS_MAX:
        raise UnreadableFileError("container_too_many", f"the archive has more than {CONTAINER_MEMBERS_MAX} members")
    return archive


def is_workbook(archive: zipfile.ZipFile) -> bool:
    """Tell whether the archive is a workbook (ECMA-376 part 1, 12.3.23)."""
    with suppress(KeyError):
        archive.getinfo(_WORKBOOK)
        return True
    return False


def _zip_members(stream: BinaryIO, archive: zipfile.ZipFile, opened: Opened) -> Iterator[Member]:
    stream.seek(0, io.SEEK_END)
    length = stream.tell()
    with archive:
        for info in archive.infolist():
            name = info.filename[:CONTAINER_NAME_LENGTH_MAX]
            skipped_by = _skipped_by(info.filename)
            if skipped_by is not None:
                yield Member(name, None, skipped_by=skipped_by)
                continue
            with open_part(archive, info) as source:
                # A member that claims more compressed bytes than the file has must not gain ratio by that.
                member = Member(name, None, compressed_bytes=max(1, min(info.compress_size, length)))
                member.source = _Counted(source, member, opened)
                yield member


def open_part(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    """Open one member of a zip.

    Raises
    ------
    UnreadableFileError
        ``container_encrypted``, ``container_method``, ``container_ratio``, ``container_truncated``.

    """
    if info.flag_bits & 0x1:
        raise UnreadableFileError("container_encrypted", "a member of the archive is encrypted")
    if info.compress_type not in _METHODS:
        raise UnreadableFileError("container_method", "a member is compressed by a method that is not read")
    # What it declares is checked here, so that it is refused as an archive whatever its text is; that the
    # declaration is true is checked while reading.
    check_ratio(info.file_size, info.compress_size)
    try:
        return archive.open(info)
    except (zipfile.BadZipFile, struct.error, ValueError, NotImplementedError, RuntimeError, OSError) as error:
        raise UnreadableFileError("container_truncated", "the archive is torn or damaged") from error


def _skipped_by(name: str) -> str | None:
    parts = [part for part in name.replace("\\", "/").split("/") if part]
    if not parts or name.endswith("/"):
        return "folder"
    if parts[0] == "__MACOSX":
        return "macosx"
    return "dot_file" if parts[-1].startswith(".") else None
