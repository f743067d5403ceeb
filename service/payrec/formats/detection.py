"""Which reader reads a file: decided by its content alone, never by a name or a media type.

The readers are asked in a fixed order and the first that recognises the file has it; what the others said is kept, so
that a refusal tells what was tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from payrec.constants import DETECTION_BYTES, PROFILE_ENCODING_LENGTH_MAX
from payrec.errors import UnreadableFileError
from payrec.formats.base import ArchiveSource, Detected, Head, Reader, ReadOptions, Source
from payrec.formats.containers import ZIP_MAGIC, refuse_nested
from payrec.formats.encoding import detect_encoding

_OLD_WORKBOOK: Final = b"\xd0\xcf\x11\xe0"
_PDF: Final = b"%PDF"
_FAMILIES: Final = {
    "mt942": "mt940",
    "jsonl": "json",
    **dict.fromkeys(("stripe", "adyen", "paypal_stl", "paypal_trr"), "psp"),
}
"""Formats whose name does not begin with that of their family."""


class Rewound:
    """A source whose first bytes were read already, and are read again."""

    __slots__ = ("_at", "_head", "_rest")

    def __init__(self, head: bytes, rest: Source) -> None:
        self._head = head
        self._at = 0
        self._rest = rest

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes, and no bytes at the end."""
        if self._at < len(self._head):
            data = self._head[self._at : self._at + size]
            self._at += len(data)
            if self._at >= len(self._head):
                self._head = b""
                self._at = 0
            return data
        return self._rest.read(size)

    def expanded(self, size: int, /) -> None:
        """Count bytes that came out of the source, which is an archive."""
        if isinstance(self._rest, ArchiveSource):
            self._rest.expanded(size)


def read_head_bytes(source: Source) -> tuple[bytes, bool]:
    """Return the first DETECTION_BYTES of the source, and whether that is all of it."""
    pieces: list[bytes] = []
    missing = DETECTION_BYTES + 1
    while missing and (data := source.read(missing)):
        pieces.append(data)
        missing -= len(data)
    return b"".join(pieces), missing > 0


def look(source: Source, options: ReadOptions, *, inside: bool = False) -> tuple[Head, Rewound]:
    """Return the head of a file and the file from its start, both without byte-order mark.

    ``inside`` says that it came out of a container, and must not be one itself.

    Raises
    ------
    UnreadableFileError
        ``empty_file``, ``unsupported_xls``, ``unknown_format`` (PDF, binary), ``encoding_unsupported``,
        ``container_nested``.

    """
    data, complete = read_head_bytes(source)
    if not data:
        raise UnreadableFileError("empty_file", "the file is empty")
    if inside:
        refuse_nested(data)
    if data.startswith(_OLD_WORKBOOK):
        raise UnreadableFileError("unsupported_xls", "the file is an old Excel workbook: save it as xlsx or CSV")
    if data.startswith(_PDF):
        raise UnreadableFileError("unknown_format", "the file is a PDF")
    if data.startswith(ZIP_MAGIC):
        # A workbook: any other archive was opened, or refused, before. It has no text to look at.
        head = Head(data=data[:DETECTION_BYTES], encoding="utf-8", encoding_guessed=False, text="", complete=complete)
        return head, Rewound(data, source)
    profile = options.profile.get("encoding")
    named = profile if isinstance(profile, str) and len(profile) <= PROFILE_ENCODING_LENGTH_MAX else None
    encoding = detect_encoding(data, complete=complete, profile=named)
    data = data[encoding.mark_length :]
    if not data:
        raise UnreadableFileError("empty_file", "the file is empty")
    if b"\0" in data and not encoding.name.startswith("utf-16"):
        raise UnreadableFileError("unknown_format", "the file is binary")
    head_data = data[:DETECTION_BYTES]
    head = Head(
        data=head_data,
        encoding=encoding.name,
        encoding_guessed=encoding.guessed,
        text=head_data.decode(encoding.name, errors="replace"),
        complete=complete,
        encoding_fallback=encoding.fallback,
    )
    return head, Rewound(data, source)


def detect(head: Head, options: ReadOptions, readers: Sequence[Reader]) -> tuple[Reader, Detected]:
    """Return the reader that recognises the file, and what it recognised.

    ``options.format`` is ``auto``, or the one family or format that the caller says it is.

    Raises
    ------
    UnreadableFileError
        ``unknown_format``, or what a reader says about a file that is certainly its own; with ``tried``.

    """
    tried: list[dict[str, str]] = []
    for reader in readers:
        if not _wanted(reader.name, options.format):
            continue
        try:
            detected = reader.detect(head, options)
        except UnreadableFileError as error:
            raise with_tried(error, [*tried, {"format": reader.name, "reason": error.reason}]) from error
        if detected is not None:
            return reader, detected
        tried.append({"format": reader.name, "reason": "not_recognised"})
    raise UnreadableFileError("unknown_format", "no reader recognises the file", tried=tried)


def _wanted(family: str, format_name: str) -> bool:
    """Tell whether a format that the caller named (``camt.053``, ``mt942``, ``jsonl``) is of the family."""
    if format_name in ("auto", family):
        return True
    return _FAMILIES.get(format_name, format_name.partition(".")[0]) == family


def with_tried(error: UnreadableFileError, tried: Sequence[dict[str, str]]) -> UnreadableFileError:
    """Return the same refusal with what was tried, unless it says that already."""
    if error.tried:
        return error
    return UnreadableFileError(error.reason, error.detail, tried=tried, question=error.question)
