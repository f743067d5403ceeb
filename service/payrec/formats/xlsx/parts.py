"""The parts of a workbook: found by their relations, expanded within limits, and fed to a parser piece by piece."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import IO, Final, Protocol
from xml.parsers import expat

from payrec.constants import (
    FILE_BYTES_EXPANDED_MAX,
    FILE_PIECE_BYTES,
    XLSX_SPOOL_MEMORY_BYTES,
    XML_DEPTH_MAX,
    XML_NAMES_MAX,
    XML_TOKEN_BYTES_MAX,
)
from payrec.errors import PayloadTooLargeError, UnreadableFileError
from payrec.formats.base import ArchiveSource, Source
from payrec.formats.camt.xml import local_name, new_parser, too_deep
from payrec.formats.containers import check_ratio, is_workbook, open_archive, open_part, read_part

_UTF_16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff", b"<\0", b"\0<")


class Package:
    """The zip that a workbook is, in a spool: its directory is at its end."""

    def __init__(self, source: Source) -> None:
        # The file outlives this function and is closed by __exit__.
        self._spool = tempfile.SpooledTemporaryFile(max_size=XLSX_SPOOL_MEMORY_BYTES)  # noqa: SIM115
        self._source = source
        self._read_before: dict[str, int] = {}
        """Bytes of each part that were counted: a part that is read twice counts once."""
        self._size = 0
        self._names: dict[str, zipfile.ZipInfo] = {}

    def __enter__(self) -> Package:
        try:
            while data := self._source.read(FILE_PIECE_BYTES):
                self._spool.write(data)
            self._size = self._spool.tell()
            self._spool.seek(0)
            self._archive = open_archive(self._spool)
        except BaseException:
            self._spool.close()
            raise
        if not is_workbook(self._archive):
            self._spool.close()
            raise UnreadableFileError("unknown_format", "the archive is neither a workbook nor a folder of files")
        for info in self._archive.infolist():
            self._names.setdefault(_canonical(info.filename), info)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._archive.close()
        self._spool.close()

    def has(self, name: str) -> bool:
        """Tell whether there is such a part."""
        return _canonical(name) in self._names

    def open(self, name: str) -> Part:
        """Return the bytes of a part.

        Raises
        ------
        UnreadableFileError
            ``container_truncated`` when there is none, and as for any archive.

        """
        info = self._names.get(_canonical(name))
        if info is None:
            raise UnreadableFileError("container_truncated", "the workbook lacks one of its parts")
        return Part(self, info.filename, open_part(self._archive, info), max(1, min(info.compress_size, self._size)))

    def count(self, name: str, read: int, more: int = 0) -> None:
        """Count what came out of a part: ``read`` bytes from its start, and ``more`` characters made of them."""
        before = self._read_before.get(name, 0)
        if read > before:
            self._read_before[name] = read
        size = max(0, read - before) + more
        if isinstance(self._source, ArchiveSource):
            self._source.expanded(size)
        elif sum(self._read_before.values()) > FILE_BYTES_EXPANDED_MAX:
            raise PayloadTooLargeError(f"the file expands to more than {FILE_BYTES_EXPANDED_MAX} bytes")


class Part:
    """The expanded bytes of one part, counted."""

    def __init__(self, package: Package, name: str, stream: IO[bytes], compressed: int) -> None:
        self._package = package
        self._name = name
        self._stream = stream
        self._compressed = compressed
        self.bytes = 0
        """Read so far."""

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes, and no bytes at the end."""
        data = read_part(self._stream, size)
        self.bytes += len(data)
        check_ratio(self.bytes, self._compressed)
        self._package.count(self._name, self.bytes)
        return data

    def count_more(self, characters: int) -> None:
        """Count what its references stand for: a few bytes can name a long text again and again."""
        self._package.count(self._name, self.bytes, characters)

    def close(self) -> None:
        """Read no more."""
        self._stream.close()


class Handler(Protocol):
    """What a parser calls."""

    def start(self, name: str, attributes: dict[str, str], /) -> None:
        """Begin an element; the name has no prefix."""
        ...

    def end(self, name: str, /) -> None:
        """End an element."""
        ...


def feed(part: Part, parser: expat.XMLParserType, names: dict[str, object]) -> Iterator[int]:
    """Parse a part; yields after each piece the bytes read so far.

    Raises
    ------
    UnreadableFileError
        ``xml_malformed``, ``xml_dtd_forbidden``, ``xml_token_too_long``, ``xml_too_many_names``,
        ``encoding_unsupported``, and those of the archive.

    """
    try:
        while True:
            data = part.read(FILE_PIECE_BYTES)
            if part.bytes == len(data) and data.startswith(_UTF_16_MARKS):
                raise UnreadableFileError("encoding_unsupported", "a part of the workbook is UTF-16")
            try:
                parser.Parse(data, not data)
            except expat.ExpatError as error:
                raise UnreadableFileError("xml_malformed", "a part of the workbook is not well-formed XML") from error
            if data and part.bytes - parser.CurrentByteIndex > XML_TOKEN_BYTES_MAX:
                raise UnreadableFileError("xml_token_too_long", f"a tag is over {XML_TOKEN_BYTES_MAX} bytes")
            if len(names) > XML_NAMES_MAX:
                raise UnreadableFileError("xml_too_many_names", f"more than {XML_NAMES_MAX} names of elements")
            yield part.bytes
            if not data:
                return
    finally:
        part.close()


def parse_part(part: Part, handler: Handler, *, text: Callable[[str], object] | None = None) -> Iterator[int]:
    """Parse a part for a handler, as ``feed`` does; with the depth of elements bounded.

    Raises
    ------
    UnreadableFileError
        ``xml_too_deep``, and those of ``feed``.

    """
    parser, names = new_parser()
    depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > XML_DEPTH_MAX:
            raise too_deep()
        handler.start(local_name(name), attributes)

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        handler.end(local_name(name))

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    if text is not None:
        parser.buffer_text = True
        parser.CharacterDataHandler = text
    yield from feed(part, parser, names)


def _canonical(name: str) -> str:
    """Return a part's name as it is compared: without the case of ASCII letters (ECMA-376 part 2, 6.2.2.3)."""
    return name.replace("\\", "/").lstrip("/").lower()
